//! The values of a scenario that a reader can change: for each its place, its value, and its range.

use giusto_congestion::Algorithm;
use serde::Serialize;
use toml_edit::{DocumentMut, Item, TableLike, Value};

use crate::scenario::{Document, ScenarioError, Setting};

/// The controls of one part of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The part, such as `link bottleneck`.
    pub title: String,
    /// Whether it is folded at first.
    pub folded: bool,
    /// The controls.
    pub controls: Vec<Control>,
}

/// One value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Control {
    /// The path of its setting.
    pub path: String,
    /// The name of the quantity.
    pub label: String,
    /// The value as in a file, without quotes.
    pub value: String,
    /// Whether the scenario leaves it to its default.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
    /// How it is set.
    #[serde(flatten)]
    pub kind: Kind,
}

/// How a value is set.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A number, with a unit or without.
    Number(Slider),
    /// One of several names.
    Choice {
        /// The names.
        options: Vec<String>,
    },
    /// On or off.
    Toggle,
    /// Anything else, as in a file.
    Text,
    /// A rate over time, which can be drawn: `{ steps = [[time, rate], …] }`.
    Trace {
        /// The link.
        link: String,
    },
}

/// The range of a number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slider {
    /// The value, in `unit`.
    pub number: f64,
    /// The unit, as in a file; empty for counts and ratios.
    pub unit: &'static str,
    /// The lower end.
    pub min: f64,
    /// The upper end.
    pub max: f64,
    /// The smallest step; 0 for any.
    pub step: f64,
    /// Whether equal ways on the slider are equal factors.
    pub logarithmic: bool,
}

/// A key that has a control also where the scenario leaves it out.
struct Known {
    key: &'static str,
    /// The default, as in a file.
    default: &'static str,
}

const fn known(key: &'static str, default: &'static str) -> Known {
    Known { key, default }
}

/// The keys of a link, in the order of their controls.
const LINK: [Known; 7] = [
    known("rate", "unlimited"),
    known("delay", "0 ms"),
    known("queue", "drop-tail"),
    known("loss", "0"),
    known("jitter", "none"),
    known("duplication", "0"),
    known("corruption", "0"),
];

/// The keys of a media flow.
const MEDIA: [Known; 5] = [
    known("controller", "gcc:libwebrtc+giusto"),
    known("start-rate", "300 kbit/s"),
    known("min-rate", "30 kbit/s"),
    known("video", "statistical"),
    known("repair", "none"),
];

/// The keys of a TCP flow.
const TCP: [Known; 3] = [known("control", "cubic"), known("count", "1"), known("ecn", "false")];

/// The keys of all other flows.
const OTHER: [Known; 1] = [known("count", "1")];

/// The parameters of a queue that are not as every scenario has them: kind, key, default (docs/reference/scenario.md).
const QUEUES: [(&str, &str, &str); 13] = [
    ("drop-tail", "limit", "300 ms"),
    ("codel", "limit", "1000 packets"),
    ("codel", "target", "5 ms"),
    ("codel", "interval", "100 ms"),
    ("fq-codel", "target", "5 ms"),
    ("fq-codel", "interval", "100 ms"),
    ("pie", "target", "15 ms"),
    ("pie", "limit", "1000 packets"),
    ("red", "min", "5 packets"),
    ("red", "max", "15 packets"),
    ("dualpi2", "target", "15 ms"),
    ("step-mark", "threshold", "1 ms"),
    ("delay-threshold", "threshold", "200 ms"),
];

/// The names that a key can have.
const CHOICES: [(&str, &[&str]); 7] = [
    ("queue", &["drop-tail", "codel", "fq-codel", "pie", "red", "dualpi2", "step-mark", "delay-threshold"]),
    ("control", &["cubic", "new-reno", "bbr", "prague"]),
    ("jitter", &["none", "rfc8868"]),
    ("repair", &["none", "nack", "flexfec", "nack+flexfec"]),
    ("access", &["best-effort", "background", "video", "voice", "dcf"]),
    ("key-frame-request", &["pli", "fir", "none"]),
    ("video", &["statistical", "hybrid", "trace", "perfect"]),
];

/// Keys without a control: names of other things, and `sizes`, which can have a million numbers.
const NAMES: [&str; 18] = [
    "id",
    "kind",
    "from",
    "to",
    "via",
    "back",
    "name",
    "description",
    "metric",
    "flow",
    "link",
    "stream",
    "medium",
    "machine",
    "strategy",
    "mahimahi",
    "trace",
    "sizes",
];

/// The controls of a document with `settings`. Ranges do not depend on the settings, so that a slider stands still while it is
/// moved.
///
/// # Errors
///
/// [`ScenarioError`]: the scenario with the settings is not valid.
pub fn controls(document: &Document, settings: &[Setting]) -> Result<Vec<Group>, ScenarioError> {
    let changed = document.changed(settings)?;
    let original = document.changed(&[])?;
    let values = Values { original: &original, duration_s: seconds(&original, "duration").unwrap_or(60.0) };
    let mut groups = vec![values.run(&changed)];
    for list in ["link", "medium", "flow"] {
        groups.extend(
            elements(&changed, list).into_iter().map(|(name, table)| values.part(list, &name, table)),
        );
    }
    for (list, title) in [("change", "changes"), ("expect", "expectations")] {
        let mut group = Group { title: title.to_owned(), folded: true, controls: Vec::new() };
        for (name, table) in elements(&changed, list) {
            let of = ["link", "flow"].iter().find_map(|key| table.get(key)?.as_str());
            let metric = table.get("metric").and_then(Item::as_str);
            let words = [of, metric].into_iter().flatten().collect::<Vec<_>>().join(" ");
            let before = group.controls.len();
            values.table(&mut group.controls, &format!("{list}.{name}"), list, table, &[]);
            for control in group.controls.iter_mut().skip(before) {
                control.label = format!("{words} {}", control.label);
            }
        }
        groups.push(group);
    }
    groups.retain(|group| !group.controls.is_empty());
    Ok(groups)
}

/// The tables of a list with their ids, or their numbers from 1.
fn elements<'d>(document: &'d DocumentMut, list: &str) -> Vec<(String, &'d dyn TableLike)> {
    let tables: Vec<&dyn TableLike> = match document.get(list) {
        Some(Item::ArrayOfTables(tables)) => tables.iter().map(|table| table as &dyn TableLike).collect(),
        Some(Item::Value(Value::Array(tables))) => {
            tables.iter().filter_map(|table| Some(table.as_inline_table()? as &dyn TableLike)).collect()
        }
        _ => Vec::new(),
    };
    let name = |(index, table): (usize, &'d dyn TableLike)| {
        let id = table.get("id").and_then(Item::as_str).map(str::to_owned);
        (id.unwrap_or_else(|| (index + 1).to_string()), table)
    };
    tables.into_iter().enumerate().map(name).collect()
}

fn seconds(document: &DocumentMut, key: &str) -> Option<f64> {
    let (number, unit) = quantity(document.get(key)?.as_str()?)?;
    Some(number * unit_size(unit))
}

/// What the ranges depend on.
struct Values<'a> {
    original: &'a DocumentMut,
    duration_s: f64,
}

impl Values<'_> {
    fn run(&self, changed: &DocumentMut) -> Group {
        let table = changed.as_table();
        let mut controls = Vec::new();
        for (key, default) in [("duration", "60 s"), ("warmup", "0 s"), ("seed", "1")] {
            self.value(&mut controls, key, "run", key, (table.get(key), default));
        }
        Group { title: "run".to_owned(), folded: false, controls }
    }

    fn part(&self, list: &str, id: &str, table: &dyn TableLike) -> Group {
        let kind = table.get("kind").and_then(Item::as_str).unwrap_or_default();
        let known: &[Known] = match (list, kind) {
            ("link", _) if table.contains_key("medium") => LINK.get(1..).unwrap_or_default(),
            ("link", _) => &LINK,
            ("flow", "media") => &MEDIA,
            ("flow", "tcp") => &TCP,
            ("flow", _) => &OTHER,
            _ => &[],
        };
        let mut controls = Vec::new();
        self.table(&mut controls, &format!("{list}.{id}"), list, table, known);
        let title = if kind.is_empty() { format!("{list} {id}") } else { format!("{kind} {id}") };
        Group { title, folded: false, controls }
    }

    /// The controls of the values of a table: first of the `known` keys, then of the others.
    fn table(
        &self,
        controls: &mut Vec<Control>,
        path: &str,
        of: &str,
        table: &dyn TableLike,
        known: &[Known],
    ) {
        for Known { key, default } in known {
            self.value(controls, &format!("{path}.{key}"), of, key, (table.get(key), default));
        }
        for (key, item) in table.iter() {
            let is_name = NAMES.contains(&key) || (of == "expect" && ["from", "to"].contains(&key));
            if !is_name && !known.iter().any(|known| known.key == key) {
                self.value(controls, &format!("{path}.{key}"), of, key, (Some(item), ""));
            }
        }
    }

    /// The controls of the value of `key`, or of its default.
    fn value(
        &self,
        controls: &mut Vec<Control>,
        path: &str,
        of: &str,
        key: &str,
        (item, default): (Option<&Item>, &str),
    ) {
        let push = |controls: &mut Vec<Control>, value: String, kind| {
            let is_default = item.is_none();
            controls.push(Control { path: path.to_owned(), label: label(path), value, is_default, kind });
        };
        if let Some(options) = choices(of, key) {
            let table = item.and_then(Item::as_table_like);
            let tag = if key == "video" { "model" } else { "kind" };
            let name = match table {
                Some(table) => table.get(tag).and_then(Item::as_str),
                None => item.map_or(Some(default), Item::as_str),
            };
            if let Some(name) = name {
                let mut options: Vec<String> = options;
                if !options.iter().any(|option| option == name) {
                    options.push(name.to_owned());
                }
                push(controls, name.to_owned(), Kind::Choice { options });
                if key == "queue" {
                    self.queue(controls, path, name, table);
                } else if let Some(table) = table {
                    self.table(controls, path, key, table, &[]);
                    controls.retain(|control| control.path != format!("{path}.{tag}"));
                }
                return;
            }
        }
        match item {
            Some(item) if item.is_table_like() => {
                if let Some(table) = item.as_table_like() {
                    let is_trace = of == "link" && key == "rate" && table.contains_key("steps");
                    if is_trace {
                        push(controls, plain(item), Kind::Trace { link: link_of(path) });
                    } else {
                        self.table(controls, path, key, table, &[]);
                    }
                }
            }
            Some(Item::Value(Value::Array(array))) if array.iter().any(Value::is_inline_table) => {
                for (index, element) in array.iter().enumerate() {
                    let Some(table) = element.as_inline_table() else { continue };
                    let id = table.get("id").and_then(Value::as_str).map(str::to_owned);
                    let id = id.unwrap_or_else(|| (index + 1).to_string());
                    self.table(controls, &format!("{path}.{id}"), key, table, &[]);
                    controls.retain(|control| control.path.split('.').next_back() != Some("model"));
                }
            }
            Some(Item::Value(Value::Boolean(value))) => {
                push(controls, value.value().to_string(), Kind::Toggle);
            }
            None if ["true", "false"].contains(&default) => push(controls, default.to_owned(), Kind::Toggle),
            _ => {
                let value = item.map_or_else(|| default.to_owned(), plain);
                let base = self.text_at(path).unwrap_or_else(|| value.clone());
                let kind = match quantity(&value) {
                    Some((number, unit)) => {
                        let base = quantity(&base)
                            .map_or(number, |(base, own)| base * unit_size(own) / unit_size(unit));
                        Kind::Number(self.slider(key, number, unit, base))
                    }
                    None => Kind::Text,
                };
                push(controls, value, kind);
            }
        }
    }

    /// The parameters of a queue: those that its kind is known by, and those that the scenario sets.
    fn queue(&self, controls: &mut Vec<Control>, path: &str, kind: &str, table: Option<&dyn TableLike>) {
        let own = QUEUES.iter().filter(|(of, ..)| *of == kind);
        for (_, key, default) in own.clone() {
            let item = table.and_then(|table| table.get(key));
            self.value(controls, &format!("{path}.{key}"), "queue", key, (item, default));
        }
        let Some(table) = table else { return };
        for (key, item) in table.iter() {
            if key != "kind" && !own.clone().any(|(_, known, _)| *known == key) {
                self.value(controls, &format!("{path}.{key}"), "queue", key, (Some(item), ""));
            }
        }
    }

    /// The value of a path in the file as it was.
    fn text_at(&self, path: &str) -> Option<String> {
        let mut keys = path.split('.');
        let list = keys.next()?;
        let mut item = match elements(self.original, list) {
            tables if tables.is_empty() => return self.original.get(list).map(plain),
            tables => {
                let id = keys.next()?;
                let (_, table) = tables.into_iter().find(|(name, _)| name == id)?;
                table.get(keys.next()?)?
            }
        };
        for key in keys {
            item = item.as_table_like()?.get(key)?;
        }
        (!item.is_table_like()).then(|| plain(item))
    }

    /// The range of a number whose value in the file is `base`.
    fn slider(&self, key: &str, number: f64, unit: &'static str, base: f64) -> Slider {
        let linear = |min: f64, max: f64, step| Slider { number, unit, min, max, step, logarithmic: false };
        let factor = |below: f64, above: f64| Slider {
            number,
            unit,
            min: base / below,
            max: base * above,
            step: 0.0,
            logarithmic: true,
        };
        let in_unit = |seconds: f64| seconds / unit_size(unit);
        let whole = |max: f64| linear(1.0, max, 1.0);
        match (key, unit) {
            ("seed", _) => linear(0.0, base.max(100.0), 1.0),
            ("duration", _) => linear((base / 4.0).max(in_unit(1.0)), base * 4.0, in_unit(1.0)),
            ("warmup" | "start" | "stop" | "at" | "from" | "to", "s" | "ms") => {
                linear(0.0, in_unit(self.duration_s), 0.0)
            }
            ("delay" | "max" | "std" | "bound", "s" | "ms" | "us") if base == 0.0 => {
                linear(0.0, in_unit(0.3), 0.0)
            }
            ("delay", _) => linear(0.0, (base * 5.0).max(in_unit(0.2)), 0.0),
            ("count" | "users-per-cell" | "aggregation", "") => whole((base * 5.0).max(20.0)),
            ("frame-rate", "") => whole(base.max(60.0)),
            ("loss" | "duplication" | "corruption" | "frame-error", "") if base <= 0.2 => {
                linear(0.0, 0.2, 0.0)
            }
            (_, "packets") => Slider { min: (base / 20.0).max(1.0), step: 1.0, ..factor(20.0, 20.0) },
            (_, "") if base > 1.0 && base.fract() == 0.0 => whole(base * 5.0),
            (_, "") if (0.0..=1.0).contains(&base) => linear(0.0, 1.0, 0.0),
            _ if base > 0.0 => factor(20.0, 20.0),
            _ => linear(0.0, in_unit(1.0).max(number), 0.0),
        }
    }
}

/// The names of the values of `key` within a part.
fn choices(of: &str, key: &str) -> Option<Vec<String>> {
    if key == "controller" {
        return Some(Algorithm::all().map(|algorithm| algorithm.name().to_owned()).collect());
    }
    let allowed = match key {
        "queue" | "jitter" | "access" => of == "link" || of == "reverse",
        "control" | "repair" | "video" | "key-frame-request" => of == "flow",
        _ => false,
    };
    let (_, names) = CHOICES.iter().find(|(known, _)| allowed && *known == key)?;
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

/// What follows the part in a path: `queue.target` is `queue target`.
fn label(path: &str) -> String {
    let keys: Vec<&str> = path.split('.').collect();
    keys.get(2..).filter(|rest| !rest.is_empty()).unwrap_or(&keys).join(" ").replace('-', " ")
}

fn link_of(path: &str) -> String {
    path.split('.').nth(1).unwrap_or_default().to_owned()
}

/// A value as in a file, strings without quotes.
fn plain(item: &Item) -> String {
    item.as_str().map_or_else(|| item.to_string().trim().to_owned(), str::to_owned)
}

/// The units of numbers in a scenario, with their sizes. A unit comes before those that it ends in.
const UNITS: [(&str, f64); 14] = [
    ("Gbit/s", 1e9),
    ("Mbit/s", 1e6),
    ("kbit/s", 1e3),
    ("bit/s", 1.0),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("ns", 1e-9),
    ("min", 60.0),
    ("packets", 1.0),
    ("s", 1.0),
    ("MB", 1e6),
    ("kB", 1e3),
    ("B", 1.0),
    ("", 1.0),
];

fn unit_size(unit: &str) -> f64 {
    UNITS.iter().find(|(known, _)| *known == unit).map_or(1.0, |(_, size)| *size)
}

/// A number and its unit.
fn quantity(text: &str) -> Option<(f64, &'static str)> {
    let text = text.trim();
    let (unit, _) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?.trim_end();
    let number = number.replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite())?;
    (number >= 0.0).then_some((number, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        duration = "60 s"
        [[link]]
        id = "wire"
        from = "a"
        to = "b"
        rate = "3 Mbit/s"
        queue = { kind = "codel", target = "10 ms", ecn = false }
        reverse = { delay = "50 ms" }
        [[flow]]
        id = "call"
        kind = "media"
        video = { model = "perfect", max = "6 Mbit/s" }
        [[flow]]
        id = "voice"
        kind = "cbr"
        rate = { steps = [["0 s", "1 Mbit/s"]] }
        size = "200 B"
        [[change]]
        at = "10 s"
        link = "wire"
        rate = "1 Mbit/s"
        [[expect]]
        link = "wire"
        metric = "utilisation"
        min = 0.1
        max = 1.0
    "#;

    fn found(settings: &[&str]) -> Vec<Control> {
        let document = Document::parse(TEXT, "test.toml").unwrap();
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
        controls(&document, &settings).unwrap().into_iter().flat_map(|group| group.controls).collect()
    }

    fn at<'a>(controls: &'a [Control], path: &str) -> &'a Control {
        controls
            .iter()
            .find(|control| control.path == path)
            .unwrap_or_else(|| panic!("no {path}: {controls:?}"))
    }

    #[test]
    fn each_number_of_a_scenario_has_a_control() {
        let controls = found(&[]);
        for (path, value) in [
            ("duration", "60 s"),
            ("seed", "1"),
            ("link.wire.rate", "3 Mbit/s"),
            ("link.wire.delay", "0 ms"),
            ("link.wire.queue", "codel"),
            ("link.wire.queue.target", "10 ms"),
            ("link.wire.queue.interval", "100 ms"),
            ("link.wire.queue.ecn", "false"),
            ("link.wire.reverse.delay", "50 ms"),
            ("link.wire.loss", "0"),
            ("flow.call.controller", "gcc:libwebrtc+giusto"),
            ("flow.call.video", "perfect"),
            ("flow.call.video.max", "6 Mbit/s"),
            ("flow.voice.size", "200 B"),
            ("change.1.at", "10 s"),
            ("change.1.rate", "1 Mbit/s"),
            ("expect.1.min", "0.1"),
        ] {
            assert_eq!(at(&controls, path).value, value, "{path}");
        }
        for path in ["link.wire.id", "link.wire.from", "link.wire.queue.kind", "flow.call.video.model"] {
            assert!(controls.iter().all(|control| control.path != path), "{path}");
        }
    }

    #[test]
    fn each_control_sets_a_value_that_the_scenario_accepts() {
        let document = Document::parse(TEXT, "test.toml").unwrap();
        for control in found(&[]) {
            let value = match &control.kind {
                Kind::Number(slider) => format!("{} {}", slider.max, slider.unit),
                _ => control.value.clone(),
            };
            // The bounds of an expectation and a warm-up as long as the run contradict the rest.
            if control.path == "warmup" || control.path.starts_with("expect") || control.path == "change.1.at"
            {
                continue;
            }
            let setting = Setting { path: control.path.clone(), value: value.trim().to_owned() };
            let read = document.scenario(std::slice::from_ref(&setting));
            assert!(read.is_ok(), "{setting}: {}", read.unwrap_err());
        }
    }

    #[test]
    fn a_slider_stands_still_while_it_is_moved() {
        let range = |settings: &[&str]| match at(&found(settings), "link.wire.rate").kind {
            Kind::Number(slider) => (slider.number, slider.min, slider.max, slider.logarithmic),
            ref other => panic!("{other:?}"),
        };
        assert_eq!(range(&[]), (3.0, 0.15, 60.0, true));
        assert_eq!(range(&["wire.rate=9 Mbit/s"]), (9.0, 0.15, 60.0, true));
    }

    #[test]
    fn another_queue_has_its_own_parameters() {
        let controls = found(&["wire.queue=pie"]);
        assert_eq!(at(&controls, "link.wire.queue").value, "pie");
        assert_eq!(at(&controls, "link.wire.queue.target").value, "15 ms");
        assert!(at(&controls, "link.wire.queue.target").is_default);
        assert!(controls.iter().all(|control| control.path != "link.wire.queue.interval"));
    }

    #[test]
    fn a_drawn_rate_is_a_trace() {
        let controls = found(&[r#"wire.rate={ steps = [["0 s", "5 Mbit/s"], ["1 s", "2 Mbit/s"]] }"#]);
        assert_eq!(at(&controls, "link.wire.rate").kind, Kind::Trace { link: "wire".to_owned() });
    }

    /// Each control of each scenario of the gallery, changed.
    #[test]
    fn what_is_changed_and_saved_is_read_alike() {
        let mut changed = 0;
        for entry in crate::explore::entries() {
            let document = crate::explore::gallery::document(&entry.name).unwrap();
            let all = controls(&document, &[]).unwrap();
            for control in all.into_iter().flat_map(|group| group.controls) {
                let value = match &control.kind {
                    Kind::Number(slider) => {
                        let number = slider.min.mul_add(0.4, slider.max * 0.6);
                        let number = if slider.step > 0.0 { number.round() } else { number };
                        format!("{number} {}", slider.unit).trim().to_owned()
                    }
                    Kind::Toggle => (control.value != "true").to_string(),
                    _ => control.value.clone(),
                };
                let settings = [Setting { path: control.path, value }];
                // What contradicts the rest of the scenario has its own message.
                let Ok(scenario) = document.scenario(&settings) else { continue };
                let text = document.text_with(&settings).unwrap();
                let saved = document.with_text(text.clone()).scenario(&[]).unwrap();
                assert!(scenario == saved, "{}: {}: {text}", entry.name, settings[0]);
                changed += 1;
            }
        }
        assert!((4000..9000).contains(&changed), "{changed}");
    }
}
