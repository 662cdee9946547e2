//! The table of figures against what is made from it: the lists of `docs/reference/statistics.md`, and the records of Python.
//!
//! `make reference` writes both.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use std::{collections::BTreeSet, fs, path::PathBuf};

use giusto::{
    record::{FlowRecord, LinkRecord, RepairRecord, StreamKind, StreamRecord},
    statistics::{
        CALLS, FLOW, LINK, MEDIA, Measure, Part, RADIO, REPAIR, RUN, Read, STREAM, Statistic, USERS,
    },
};

/// What stands before and after a generated list.
const BEGIN: &str = "<!-- generated from crates/giusto/src/statistics: do not edit -->";
const END: &str = "<!-- end of the generated list -->";

/// Compares a file of the repository with `text`, or writes it.
fn is_current(path: &str, text: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("GIUSTO_WRITE_REFERENCE").is_some() {
        fs::write(&file, text).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "{path} is not current: make reference");
}

/// A list of statistics in Markdown.
fn list<T>(title: &str, table: &[Statistic<T>]) -> String {
    let mut text =
        format!("\n**{title}**\n\n| statistic | in JSON | unit | is | metric |\n|---|---|---|---|---|\n");
    for row in table {
        let name = if row.name.is_empty() { String::new() } else { format!("`{}`", row.name) };
        let unit = match row.read {
            Read::Quantiles(us, _) if us > 1.0 => "ms",
            Read::Quantiles(..) => "µs",
            Read::Time(_) if row.name.ends_with("_s") => "s",
            _ => row.unit().name(),
        };
        let metric = match row.metric {
            None => String::new(),
            Some((name, Measure::Delay(_))) => format!("`{name}-…`"),
            Some((name, _)) => format!("`{name}`"),
        };
        text.extend([format!("| {} | {name} | {unit} | {} | {metric} |\n", row.title, row.definition)]);
    }
    text
}

#[test]
fn the_page_lists_every_statistic() {
    let lists = [
        list("Flows", FLOW),
        list("Media flows", MEDIA),
        list("Streams of media flows (`streams`)", STREAM),
        list("Repair of a stream (`repair`)", REPAIR),
        list("Links", LINK),
        list("Calls of a city", CALLS),
        list("Users and file transfers of a city", USERS),
        list("Radio of a city (`downlink`, `uplink`)", RADIO),
        list("Measured streams", RUN),
    ];
    let path = "docs/reference/statistics.md";
    let page =
        fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    is_current(path, &format!("{before}{BEGIN}\n{}\n{END}{after}", lists.concat()));
    let words = (before.to_owned() + after).split_whitespace().count();
    assert!(words <= 700, "{words} words by hand, at most 700");
}

/// A class of Python with the statistics of `tables`; `empty` is a record without optional values.
fn class<T>(name: &str, about: &str, tables: &[&[Statistic<T>]], empty: &T) -> String {
    let rows = || tables.iter().copied().flatten().filter(|row| !row.name.is_empty());
    let of_type = |row: &Statistic<T>| {
        let name = match row.read {
            Read::Count(..) => "int",
            Read::Delay(_) => "Distribution",
            _ => "float",
        };
        // A distribution without a sample has numbers that are NaN.
        let is_always_known = matches!(row.read, Read::Delay(_)) || row.is_known(empty);
        if is_always_known { name.to_owned() } else { format!("{name} | None") }
    };
    let mut text = format!(
        "\n\n@dataclass(frozen=True, kw_only=True)\nclass {name}:\n    \"\"\"{about}\n\n    Attributes\n    ----------\n"
    );
    for row in rows() {
        text.extend([format!(
            "    {} : {}\n        {}\n",
            row.name,
            of_type(row).replace(" | ", " or "),
            row.definition
        )]);
    }
    text += "    \"\"\"\n\n";
    for row in rows() {
        let of_type = of_type(row);
        let default = match of_type.as_str() {
            "Distribution" => " = Distribution()",
            _ if of_type.ends_with("None") => " = None",
            _ => "",
        };
        text.extend([format!("    {}: {of_type}{default}\n", row.name)]);
    }
    text
}

#[test]
fn records_of_python_have_every_statistic() {
    let repair = Some(RepairRecord::default());
    let stream = StreamRecord::new("", 0, StreamKind::Video);
    let classes = [
        class("FlowStatistics", "Statistics of a flow.", &[FLOW, MEDIA], &FlowRecord::default()),
        class("StreamStatistics", "Statistics of a stream.", &[STREAM], &stream),
        class(
            "RepairRecord",
            "Repair of the lost packets of a stream.",
            &[REPAIR],
            &StreamRecord { repair, ..stream.clone() },
        ),
        class("LinkStatistics", "Statistics of a link.", &[LINK], &LinkRecord::default()),
    ];
    let head = "\"\"\"Statistics of records.\"\"\"\n\n# Generated from crates/giusto/src/statistics: do not edit.\n# ruff: noqa: E501\n\n\
        from __future__ import annotations\n\nfrom dataclasses import astuple, dataclass\nfrom math import isnan, nan\n\n\n\
        @dataclass(frozen=True)\nclass Distribution:\n\
        \x20   \"\"\"Mean, quantiles and maximum, in the unit of the field that holds it.\n\n\
        \x20   Without a sample all are NaN, and the distribution is false.\n    \"\"\"\n\n";
    let parts = Part::ALL.map(|part| format!("    {}: float = nan\n", part.name()));
    let truth = "\n    def __bool__(self) -> bool:\n        return not isnan(self.mean)\n";
    let pickled = "\n    def __reduce__(self) -> tuple[type[Distribution], tuple[float, ...]]:\n\
        \x20       # A NaN that is pickled is another one, which would be unequal.\n\
        \x20       return Distribution, astuple(self) if self else ()\n";
    let text = head.to_owned() + &parts.concat() + truth + pickled + &classes.concat();
    is_current("python/giusto/_statistics.py", &text);
}

/// The names of the statistics of a record, those of its JSON apart from what `about` names.
fn names<T>(tables: &[&[Statistic<T>]]) -> BTreeSet<String> {
    let rows = tables.iter().copied().flatten().filter(|row| !row.name.is_empty());
    rows.map(|row| row.name.to_owned()).collect()
}

fn keys(record: &impl serde::Serialize, about: &[&str]) -> BTreeSet<String> {
    let value = serde_json::to_value(record).unwrap();
    let keys = value.as_object().unwrap().keys().cloned();
    keys.filter(|key| !about.contains(&key.as_str())).collect()
}

#[test]
fn each_number_of_a_record_has_its_row() {
    let delay = Some(giusto::record::Distribution::default());
    let flow = FlowRecord {
        target_rate_bps: Some(1.0),
        decisions: Some(1),
        frames: Some(1),
        frame_delay_ms: delay,
        feedback_rate_bps: Some(1.0),
        ..FlowRecord::default()
    };
    let about = ["id", "group", "kind", "controller", "from", "to", "path", "from_s", "to_s"];
    assert_eq!(keys(&flow, &about), names(&[FLOW, MEDIA]));
    let about = ["id", "from", "to", "rate", "wire", "queue"];
    assert_eq!(keys(&LinkRecord::default(), &about), names(&[LINK]));
    let stream = StreamRecord {
        skipped_frames: Some(1),
        discarded_packets: Some(1),
        late_frames: Some(1),
        ..StreamRecord::new("", 0, StreamKind::Video)
    };
    assert_eq!(keys(&stream, &["id", "ssrc", "kind"]), names(&[STREAM]));
    assert_eq!(keys(&RepairRecord::default(), &[]), names(&[REPAIR]));
}

#[test]
fn names_carry_their_unit() {
    fn check<T>(table: &[Statistic<T>]) {
        for row in table.iter().filter(|row| !row.name.is_empty()) {
            let fits = match row.read {
                Read::Rate(_) => row.name.ends_with("_bps"),
                Read::Ratio(_) => row.name.ends_with("_ratio"),
                Read::Delay(_) => row.name.ends_with("_ms"),
                Read::Time(_) => row.name.ends_with("_ms") || row.name.ends_with("_s"),
                _ => true,
            };
            assert!(fits, "{} is in {}", row.name, row.unit().name());
            assert!(row.definition.ends_with('.') && !row.title.is_empty(), "{}", row.name);
        }
    }
    check(FLOW);
    check(MEDIA);
    check(STREAM);
    check(REPAIR);
    check(LINK);
    check(CALLS);
    check(USERS);
    check(RADIO);
    check(RUN);
}
