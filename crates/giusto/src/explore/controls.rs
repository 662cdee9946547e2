//! The values of a scenario that a reader can change: for each its place, its value, and its range.

use serde::Serialize;
use toml_edit::{DocumentMut, Item, TableLike, Value};

use crate::scenario::{
    Document, ScenarioError, Setting, keys,
    row::{self, Key, Preset},
};

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

/// Longer lists, such as the sizes of recorded frames, have no control.
const MAX_ELEMENTS: usize = 1000;

/// The controls of a document with `settings`. Ranges do not depend on the settings, so that a slider stands still while it is
/// moved.
///
/// # Errors
///
/// [`ScenarioError`]: the scenario with the settings is not valid.
pub fn controls(document: &Document, settings: &[Setting]) -> Result<Vec<Group>, ScenarioError> {
    let changed = document.changed(settings)?;
    let original = document.changed(&[])?;
    let duration_s = seconds(&original, "duration").unwrap_or(60.0);
    let new = || Making { original: &original, duration_s, controls: Vec::new() };
    let group =
        |title: String, folded, making: Making<'_>| Group { title, folded, controls: making.controls };
    let mut run = new();
    run.table("", &keys::RUN, Some(changed.as_table()), None);
    let mut groups = vec![group("run".to_owned(), false, run)];
    for row in keys::FILE.rows(None) {
        let row::Kind::List(&row::Kind::Table(part)) = row.kind else { continue };
        let mut all = new();
        for (name, table) in elements(&changed, row.name) {
            let text = |key| table.get(key).and_then(Item::as_str);
            let mut one = new();
            one.table(&format!("{}.{name}", row.name), part, Some(table), text("kind"));
            if part.rows(None).any(|row| row.name == "id") {
                let what = text("kind").unwrap_or(row.name);
                groups.push(group(format!("{what} {name}"), false, one));
            } else {
                let of = text("link").or_else(|| text("flow"));
                let words = [of, text("metric")].into_iter().flatten().collect::<Vec<_>>().join(" ");
                one.controls
                    .iter_mut()
                    .for_each(|control| control.label = format!("{words} {}", control.label));
                all.controls.extend(one.controls);
            }
        }
        groups.push(group(row.text.to_lowercase(), true, all));
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

/// The controls that were made so far, and what their ranges depend on.
struct Making<'a> {
    original: &'a DocumentMut,
    duration_s: f64,
    controls: Vec<Control>,
}

impl Making<'_> {
    /// The controls of a table's keys that the scenario sets or that are always shown.
    fn table(
        &mut self,
        path: &str,
        group: &'static row::Group,
        table: Option<&dyn TableLike>,
        name: Option<&str>,
    ) {
        let has = |key: &str| table.is_some_and(|table| table.contains_key(key));
        let kind = name.map_or_else(|| group.unnamed(&has), |name| group.kind(name));
        for row in group.rows(kind) {
            let item = table.and_then(|table| table.get(row.name));
            let path = if path.is_empty() { row.name.to_owned() } else { format!("{path}.{}", row.name) };
            match row.default {
                // What is shown has another default there.
                _ if item.is_none() && (group.name == "reverse" || row.name == "rate" && has("medium")) => {}
                Preset::Shown(default) => self.value(&path, row, item, default),
                _ if item.is_some() => self.value(&path, row, item, ""),
                _ => {}
            }
        }
    }

    /// The controls of the value of a key, or of its default.
    fn value(&mut self, path: &str, row: &Key, item: Option<&Item>, default: &str) {
        if matches!(row.kind, row::Kind::Text)
            || row.kind.forms().iter().any(|form| matches!(form, row::Kind::Name))
        {
            return;
        }
        let table = item.and_then(Item::as_table_like);
        let fits = |group: &&row::Group| {
            let mut required = group.rows(None).filter(|row| row.is_required());
            table.is_none_or(|table| required.all(|row| table.contains_key(row.name)))
        };
        let group = row.kind.groups().find(fits);
        let tag = group.and_then(|group| Some(group.kinds.as_ref()?.tag));
        let kind = tag.and_then(|tag| table?.get(tag)).and_then(Item::as_str);
        let name = kind.or_else(|| item.map_or(Some(default), Item::as_str));
        let mut options: Vec<String> = row.kind.names().into_iter().map(str::to_owned).collect();
        match (name, item) {
            (Some(name), _) if kind.is_some() || options.len() > 1 && quantity(name).is_none() => {
                if !options.iter().any(|option| option == name) {
                    options.push(name.to_owned());
                }
                self.push(path, item, name.to_owned(), Kind::Choice { options });
                if let Some(group) = group {
                    self.table(path, group, table, Some(name));
                }
            }
            (_, Some(item)) if table.is_some() => {
                let is_of_link = path.starts_with("link.") && path.split('.').count() == 3;
                let is_drawn = is_of_link
                    && row.name == "rate"
                    && table.is_some_and(|table| table.contains_key("steps"));
                if is_drawn {
                    let link = path.split('.').nth(1).unwrap_or_default().to_owned();
                    self.push(path, Some(item), plain(item), Kind::Trace { link });
                } else if let Some(group) = group {
                    self.table(path, group, table, None);
                }
            }
            (_, Some(Item::Value(Value::Array(array)))) if array.len() > MAX_ELEMENTS => {}
            (_, Some(Item::Value(Value::Array(array)))) if array.iter().any(Value::is_inline_table) => {
                for (index, element) in array.iter().enumerate() {
                    let Some((table, group)) = element.as_inline_table().zip(group) else { continue };
                    let text = |key| table.get(key).and_then(Value::as_str);
                    let id = text("id").map_or_else(|| (index + 1).to_string(), str::to_owned);
                    self.table(&format!("{path}.{id}"), group, Some(table), tag.and_then(text));
                }
            }
            _ => {
                let value = item.map_or_else(|| default.to_owned(), plain);
                let base = self.text_at(path).unwrap_or_else(|| value.clone());
                let kind = match quantity(&value) {
                    _ if matches!(row.kind, row::Kind::Switch) => Kind::Toggle,
                    Some((number, unit)) => {
                        let base = quantity(&base)
                            .map_or(number, |(base, own)| base * unit_size(own) / unit_size(unit));
                        Kind::Number(self.slider(row, number, unit, base))
                    }
                    None => Kind::Text,
                };
                self.push(path, item, value, kind);
            }
        }
    }

    fn push(&mut self, path: &str, item: Option<&Item>, value: String, kind: Kind) {
        let (path, label, is_default) = (path.to_owned(), label(path), item.is_none());
        self.controls.push(Control { path, label, value, is_default, kind });
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
    fn slider(&self, row: &Key, number: f64, unit: &'static str, base: f64) -> Slider {
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
        let mut slider = match (row.name, unit) {
            ("seed", _) => linear(0.0, base.max(100.0), 1.0),
            ("duration", _) => linear((base / 4.0).max(in_unit(1.0)), base * 4.0, in_unit(1.0)),
            ("warmup" | "start" | "stop" | "at" | "from" | "to", "s" | "ms") => {
                linear(0.0, in_unit(self.duration_s), 0.0)
            }
            ("delay" | "max" | "std" | "bound", "s" | "ms" | "us") if base == 0.0 => {
                linear(0.0, in_unit(0.3), 0.0)
            }
            ("delay", _) => linear(0.0, (base * 5.0).max(in_unit(0.2)), 0.0),
            ("count" | "aggregation", "") => whole((base * 5.0).max(20.0)),
            ("frame-rate", "") => whole(base.max(60.0)),
            ("loss" | "duplication" | "corruption" | "frame-error", "") if base <= 0.2 => {
                linear(0.0, 0.2, 0.0)
            }
            (_, "packets") => Slider { min: (base / 20.0).max(1.0), step: 1.0, ..factor(20.0, 20.0) },
            (_, "") if base > 1.0 && base.fract() == 0.0 => whole(base * 5.0),
            (_, "") if (0.0..=1.0).contains(&base) => linear(0.0, 1.0, 0.0),
            _ if base > 0.0 => factor(20.0, 20.0),
            _ => linear(0.0, in_unit(1.0).max(number), 0.0),
        };
        let ranges = row.kind.forms().iter().filter_map(row::Kind::range);
        for range in ranges.filter(|range| range.max.is_finite()) {
            slider.min = slider.min.max(in_unit(range.min));
            slider.max = slider.max.min(in_unit(range.max));
        }
        slider
    }
}

/// What follows the part in a path: `queue.target` is `queue target`.
fn label(path: &str) -> String {
    let keys: Vec<&str> = path.split('.').collect();
    keys.get(2..).filter(|rest| !rest.is_empty()).unwrap_or(&keys).join(" ").replace('-', " ")
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
        link = [{ id = "wire", from = "a", to = "b", rate = "3 Mbit/s", queue = { kind = "codel", target = "10 ms", ecn = false }, reverse = { delay = "50 ms" } }]
        flow = [
            { id = "call", kind = "media", video = { model = "perfect", max = "6 Mbit/s" } },
            { id = "voice", kind = "cbr", rate = { steps = [["0 s", "1 Mbit/s"]] }, size = "200 B" },
        ]
        change = [{ at = "10 s", link = "wire", rate = "1 Mbit/s" }]
        expect = [{ link = "wire", metric = "utilisation", min = 0.1, max = 1.0 }]
    "#;

    fn found(settings: &[&str]) -> Vec<Control> {
        let document = Document::parse(TEXT, "test.toml").unwrap();
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
        controls(&document, &settings).unwrap().into_iter().flat_map(|group| group.controls).collect()
    }

    fn at<'a>(controls: &'a [Control], path: &str) -> &'a Control {
        let found = controls.iter().find(|control| control.path == path);
        found.unwrap_or_else(|| panic!("no {path}: {controls:?}"))
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
            if ["warmup", "change.1.at", "expect.1.min", "expect.1.max"].contains(&control.path.as_str()) {
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
    fn another_queue_has_its_own_parameters_and_a_drawn_rate_is_a_trace() {
        let controls = found(&["wire.queue=pie"]);
        assert_eq!(at(&controls, "link.wire.queue").value, "pie");
        assert_eq!(at(&controls, "link.wire.queue.target").value, "15 ms");
        assert!(at(&controls, "link.wire.queue.target").is_default);
        assert!(controls.iter().all(|control| control.path != "link.wire.queue.interval"));
        let controls = found(&[r#"wire.rate={ steps = [["0 s", "5 Mbit/s"], ["1 s", "2 Mbit/s"]] }"#]);
        assert_eq!(at(&controls, "link.wire.rate").kind, Kind::Trace { link: "wire".to_owned() });
    }

    /// Each key that has a control in a folder of the gallery, changed in the first scenario that has it.
    #[test]
    fn what_is_changed_and_saved_is_read_alike() {
        let mut changed = std::collections::BTreeSet::new();
        for entry in crate::explore::entries() {
            let document = crate::explore::gallery::document(&entry.name).unwrap();
            let all = controls(&document, &[]).unwrap();
            for control in all.into_iter().flat_map(|group| group.controls) {
                // Without the name of the link or flow.
                let parts = control.path.split('.').enumerate().filter(|(place, _)| *place != 1);
                let folder = entry.name.split('/').next().unwrap();
                let key = parts.fold(folder.to_owned(), |key, (_, part)| key + "." + part);
                if changed.contains(&key) {
                    continue;
                }
                let value = match &control.kind {
                    Kind::Number(slider) => {
                        let number = slider.min.mul_add(0.4, slider.max * 0.6);
                        let number = if slider.step > 0.0 { number.round() } else { number };
                        format!("{number} {}", slider.unit).trim().to_owned()
                    }
                    Kind::Toggle => (control.value != "true").to_string(),
                    _ => control.value.clone(),
                };
                let settings = [Setting { path: control.path.clone(), value }];
                // What contradicts the rest of the scenario has its own message.
                let Ok(scenario) = document.scenario(&settings) else { continue };
                let text = document.text_with(&settings).unwrap();
                let saved = document.with_text(text.clone()).scenario(&[]).unwrap();
                assert!(scenario == saved, "{}: {}: {text}", entry.name, settings[0]);
                changed.insert(key);
            }
        }
        assert!((200..400).contains(&changed.len()), "{}", changed.len());
    }
}
