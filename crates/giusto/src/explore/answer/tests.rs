use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use serde_json::Value;

use super::*;
use crate::run::timed;

const CALL: &str = r#"
    duration = "10 s"
    link = [{ id = "wire", from = "a", to = "b", rate = "2 Mbit/s", delay = "20 ms", duplex = true }]
    flow = [{ id = "call", kind = "media", from = "a", to = "b" }, { id = "tcp", kind = "tcp", from = "a", to = "b" }]
    expect = [{ link = "wire", metric = "utilisation", min = 0.5, max = 1.0 }]
"#;

fn explorer() -> Explorer {
    Explorer::new(Some(Document::parse(CALL, "call.toml").unwrap()))
}

fn question(json: &str) -> Question {
    serde_json::from_str(json).unwrap()
}

/// All updates, as a page gets them.
fn answer(explorer: &Explorer, asked: &str) -> Result<Vec<Value>, ExploreError> {
    let updates = Mutex::new(Vec::new());
    let emit = |update| updates.lock().unwrap().push(serde_json::to_value(update).unwrap());
    explorer.answer(&question(asked), &|| false, &emit)?;
    Ok(updates.into_inner().unwrap())
}

/// The charts with a common cursor.
fn linked(picture: &Value) -> Value {
    let mut sections = picture["report"]["sections"].as_array().unwrap().iter();
    sections.find(|section| section["kind"] == "linked").unwrap()["content"].clone()
}

fn problem(asked: &str) -> String {
    answer(&explorer(), asked).unwrap_err().to_string()
}

#[test]
fn one_run_is_one_picture() {
    let updates = answer(&explorer(), r#"{"sides": [{}]}"#).unwrap();
    let [picture] = updates.as_slice() else { panic!("{} updates", updates.len()) };
    assert_eq!((picture["kind"].as_str(), picture["last"].as_bool()), (Some("picture"), Some(true)));
    let sections = picture["report"]["sections"].as_array().unwrap();
    let kinds: Vec<&str> = sections.iter().map(|section| section["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds[..4], ["cards", "linked", "chart", "table"]);
    assert!(kinds.contains(&"drawing"), "{kinds:?}");
    let controls = picture["controls"][0].to_string();
    assert!(controls.contains(r#""path":"link.wire.rate""#), "{controls}");
}

#[test]
fn a_setting_changes_the_run_and_the_saved_file_runs_alike() {
    let explorer = explorer();
    let asked = r#"{"sides": [{"settings": [["wire.rate", "4 Mbit/s"], ["seed", "7"]]}]}"#;
    let picture = answer(&explorer, asked).unwrap().remove(0);
    let text = explorer.save(&question(asked).sides[0]).unwrap();
    let saved = Scenario::parse(&text, "call.toml").unwrap();
    let run = timed::run(&saved, saved.seed(), RecordOptions::default(), &mut (), |_| false);
    let rate = &picture["record"]["runs"][0]["flows"][0]["received_rate_bps"];
    assert_eq!(rate.as_f64(), Some(run.flows[0].received_rate_bps));
    let other = answer(&explorer, r#"{"sides": [{}]}"#).unwrap().remove(0);
    assert_ne!(rate, &other["record"]["runs"][0]["flows"][0]["received_rate_bps"]);
}

#[test]
fn seeds_give_a_first_picture_and_then_bands() {
    let updates = answer(&explorer(), r#"{"sides": [{}], "seeds": 4}"#).unwrap();
    let kinds: Vec<&str> = updates.iter().map(|update| update["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["picture", "progress", "progress", "progress", "picture"]);
    let (first, last) = (&updates[0], &updates[4]);
    assert_eq!((first["last"].as_bool(), last["last"].as_bool()), (Some(false), Some(true)));
    assert!(!first.to_string().contains(r#""kind":"band""#));
    let linked = linked(last);
    let charts = linked["charts"].as_array().unwrap();
    let rates = charts.iter().find(|chart| chart["title"] == "Received rate").unwrap();
    let band = rates["series"].as_array().unwrap().iter().find(|series| series["kind"] == "band").unwrap();
    let column = |points: &Value| -> Vec<Option<f64>> {
        let found = last["record"].pointer(points["y"].as_str().unwrap()).unwrap();
        found.as_array().unwrap().iter().map(Value::as_f64).collect()
    };
    let (low, high) = (column(&band["low"]), column(&band["high"]));
    let line = column(&rates["series"][band["of"].as_u64().unwrap() as usize]["points"]);
    assert!(low != high && low.len() == line.len(), "{low:?} {high:?}");
    // Of four seeds the band reaches from the lowest to the highest, so that the line of the first lies within.
    let within =
        line.iter().zip(low.iter().zip(&high)).all(|(line, (low, high))| (low..=high).contains(&line));
    assert!(within, "{line:?} {low:?} {high:?}");
    // The headline of one seed is that of each; of several it says which it is.
    let [alone, of] = [first, last].map(|update| update["report"]["headline"].as_str().unwrap());
    assert_eq!(of, format!("4 of 4 seeds meet all expectations. First seed: {alone}"));
}

#[test]
fn seeds_that_fail_an_expectation_are_counted() {
    let headline = |text: &str| {
        let explorer = Explorer::new(Some(Document::parse(text, "call.toml").unwrap()));
        let updates = answer(&explorer, r#"{"sides": [{}], "seeds": 3}"#).unwrap();
        updates.last().unwrap()["report"]["headline"].as_str().unwrap().to_owned()
    };
    let failed = headline(&CALL.replace("max = 1.0", "max = 0.6"));
    let begin = "0 of 3 seeds meet all expectations. First seed: 1 of 1 expectation failed: ";
    assert!(failed.starts_with(begin), "{failed}");
    let without = headline(CALL.split("expect").next().unwrap());
    assert!(without.starts_with("First of 3 seeds: "), "{without}");
}

#[test]
fn controllers_and_scenarios_stand_side_by_side() {
    let asked = r#"{"sides": [{}, {"settings": [["wire.rate", "4 Mbit/s"]]}], "controllers": ["gcc:remb", "scream:v2"]}"#;
    let picture = answer(&explorer(), asked).unwrap().remove(0);
    let runs = picture["record"]["runs"].as_array().unwrap();
    let labels: Vec<&str> = runs.iter().map(|run| run["controller"].as_str().unwrap()).collect();
    assert_eq!(labels, ["A: gcc:remb", "A: scream:v2", "B: gcc:remb", "B: scream:v2"]);
    assert_eq!(picture["controls"].as_array().unwrap().len(), 2);
    let linked = linked(&picture);
    assert_eq!(linked["lines"].as_array().unwrap().len(), 4);
    let series = linked["charts"][0]["series"].as_array().unwrap();
    let limits = series.iter().filter(|series| series["kind"] == "limit");
    let limits: Vec<&str> = limits.map(|series| series["name"].as_str().unwrap()).collect();
    assert_eq!(limits, ["capacity of wire", "capacity of wire, B: gcc:remb"]);
}

#[test]
fn notes_of_the_runs_are_shown() {
    let text = CALL.replace("max = 1.0", "max = 1.0, to = \"9 s\"");
    let explorer = Explorer::new(Some(Document::parse(&text, "call.toml").unwrap()));
    let note = "not judged, as the run ends at 8 s: link wire: utilisation until 9 s";
    for (more, times) in [("", 1), (r#", "controllers": ["fixed", "bbr"]"#, 1)] {
        let asked = format!(r#"{{"sides": [{{"settings": [["duration", "8 s"]]}}]{more}}}"#);
        let sections = answer(&explorer, &asked).unwrap().remove(0)["report"]["sections"].to_string();
        assert_eq!(sections.matches(note).count(), times, "{more}: {sections}");
    }
}

#[test]
fn what_cannot_be_answered_names_the_fix() {
    assert_eq!(problem(r#"{"sides": []}"#), "sides: 0: ask about one scenario or two");
    assert_eq!(problem(r#"{"sides": [{}], "seeds": 51}"#), "seeds: 51: at most 50; `giusto sweep` runs more");
    let wrong = problem(r#"{"sides": [{"settings": [["wire.rate", "fast"]]}]}"#);
    assert!(wrong.starts_with("call.toml: --set wire.rate=fast: link \"wire\": rate: \"fast\""), "{wrong}");
    let long = problem(r#"{"sides": [{"settings": [["duration", "2000 min"]]}]}"#);
    assert_eq!(long, "call: duration: 120000 s: at most 3600 s here; `giusto sim` runs longer");
    for (path, value) in [
        ("wire.rate", "{ trace = '/etc/hostname' }"),
        ("wire.rate.mahimahi", "/etc/hostname"),
        ("link", "[{ id = 'wire', rate = { trace = '/etc/hostname' } }]"),
        ("call.controller", "/etc/own.toml"),
        ("call.controller", "'/etc/own.toml'"),
        ("flow", "[{ id = 'call', kind = 'media', controller = \"/etc/own.toml\" }]"),
    ] {
        let side = Side { scenario: None, settings: vec![(path.to_owned(), value.to_owned())] };
        let file = explorer().save(&side).unwrap_err().to_string();
        assert_eq!(file, format!("{path}: a file cannot be named here: name it in the scenario file"));
    }
    let asked = |controllers: &str| format!(r#"{{"sides": [{{}}], "controllers": [{controllers}]}}"#);
    assert_eq!(problem(&asked(r#""all""#)), "controllers: 18: choose at most 8");
    let eight = r#""fixed", "bbr", "copa", "nada", "nada:ns3", "tempo", "scream:v2", "scream:d00""#;
    assert!(explorer().ask(&question(&asked(eight))).is_ok());
    let file = problem(r#"{"sides": [{}], "controllers": ["/etc/own.toml"]}"#);
    assert!(file.contains("unknown controller \"/etc/own.toml\""), "{file}");
    let unknown = problem(r#"{"sides": [{"scenario": "nowhere"}]}"#);
    assert_eq!(unknown, "scenario: the gallery has no \"nowhere\": take a name from it");
}

#[test]
fn an_answer_that_ends_with_its_time_is_whole() {
    for asked in [r#"{"sides": [{}]}"#, r#"{"sides": [{}], "seeds": 3}"#] {
        // How often a whole answer asks whether to give up, then one that may ask so often, and one that may ask once less.
        let answered = |most: usize| {
            let (asks, last) = (AtomicUsize::new(0), AtomicBool::new(false));
            let ends = || asks.fetch_add(1, Ordering::Relaxed) >= most;
            let emit = |update| {
                assert!(most > 10, "one that ends early emits nothing: {asked}");
                let is_last = matches!(update, Update::Picture { last: true, .. });
                last.fetch_or(is_last, Ordering::Relaxed);
            };
            let whole = explorer().answer(&question(asked), &ends, &emit).unwrap();
            (asks.into_inner(), whole, last.into_inner())
        };
        let (asks, whole, last) = answered(usize::MAX);
        assert!(asks > 100 && whole && last, "{asks}");
        assert_eq!(answered(asks), (asks, true, true));
        let (_, whole, last) = answered(asks - 1);
        assert!(!whole && !last);
        // One that ends early asks little more.
        let (asks, whole, last) = answered(10);
        assert!((10..30).contains(&asks) && !whole && !last, "{asks}");
    }
}

#[test]
fn a_sketch_shows_each_flow() {
    let sketch = explorer().sketch("media-vs-cubic").unwrap();
    assert_eq!(sketch.flows_bps.len(), 2);
    assert!((40..=90).contains(&sketch.capacity_bps.len()), "{}", sketch.capacity_bps.len());
    assert!(sketch.flows_bps.iter().all(|rates| rates.iter().any(|&rate| rate > 0.0)));
    // The way back has 100 kbit/s.
    let capacity = explorer().sketch("asymmetric").unwrap().capacity_bps;
    assert!(capacity.iter().all(|&bps| bps == Some(20e6)), "{capacity:?}");
}
