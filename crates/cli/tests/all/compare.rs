//! `giusto compare`, as users and scripts run it.

use std::fs;

use crate::common::{Folder, json, text};
use serde_json::Value;

/// A call and noise.
const CALL: &str = r#"duration = "8 s"
[[link]]
id = "wire"
from = "here"
to = "there"
rate = { steps = [["0 s", "1 Mbit/s"], ["4 s", "300 kbit/s"]] }
delay = "20 ms"
duplex = true
[[flow]]
id = "call"
kind = "media"
from = "here"
to = "there"
[[flow]]
id = "noise"
kind = "poisson"
from = "here"
to = "there"
rate = "50 kbit/s"
size = "200 B"
[[expect]]
flow = "call"
metric = "loss"
max = 0.0
"#;

/// `value` without the wall time.
fn without_wall(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("wall_s");
            fields.values_mut().for_each(|field| *field = without_wall(field.take()));
        }
        Value::Array(elements) => {
            for element in elements {
                *element = without_wall(element.take());
            }
        }
        _ => {}
    }
    value
}

#[test]
fn the_json_has_the_fields_that_others_rely_on() {
    let output = Folder::with(CALL).run(&["compare", "s.toml", "--json", "--seed", "7"]);
    // What was expected of one controller is nobody's failure here.
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let result = json(&output);
    assert_eq!((&result["scenario"], &result["seed"]), (&"s".into(), &"7".into()));
    assert_eq!(result["interrupted"], false);
    let runs = result["runs"].as_array().unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run["controller"].as_str().unwrap()).collect();
    let all = "fixed gcc:libwebrtc+giusto gcc:remb scream:d00+giusto scream:rfc8298+giusto scream:v2";
    assert_eq!(names.join(" "), all);
    assert_eq!(runs[1]["feedback"], serde_json::json!({ "call": "transport-wide" }));
    for (run, name) in runs.iter().zip(names) {
        assert_eq!(run["flows"][0]["controller"], name);
        assert_eq!(run["seed"], "7");
        for field in ["target_rate_bps", "received_rate_bps", "loss_ratio", "feedback_rate_bps"] {
            assert!(run["flows"][0][field].is_number(), "{name}: {field}");
        }
        assert_eq!(run["checks"].as_array().unwrap().len(), 1);
    }
    // The link falls to the start rate, which leaves nothing for the noise.
    assert!(runs.iter().any(|run| run["checks"][0]["passed"] == false));
}

#[test]
fn each_run_equals_giusto_sim_with_this_controller() {
    let folder = Folder::with(CALL);
    let compare = "compare s.toml --json --controller scream:v2,gcc:libwebrtc+giusto --set wire.delay=35ms";
    let compare: Vec<&str> = compare.split(' ').collect();
    let compared = without_wall(json(&folder.run(&compare)));
    for run in compared["runs"].as_array().unwrap() {
        let controller = run["controller"].as_str().unwrap();
        let setting = format!("call.controller={controller}");
        let alone = folder.run(&["sim", "s.toml", "--json", "--set", "wire.delay=35ms", "--set", &setting]);
        let mut run = run.clone();
        let fields = run.as_object_mut().unwrap();
        fields.remove("controller");
        fields.remove("feedback");
        assert_eq!(run, without_wall(json(&alone)), "{controller}");
    }
}

#[test]
fn what_all_runs_note_is_said_once() {
    let late = CALL.replace("metric = \"loss\"", "metric = \"loss\"\nfrom = \"5 s\"");
    let noted = |duration: &str| {
        let args = ["compare", "s.toml", "--controller", "fixed,nada", "--set", duration];
        let shown = text(&Folder::with(&late).run(&args).stdout);
        shown.matches("not judged, as the run ends at 4 s: flow call: loss from 5 s.").count()
    };
    assert_eq!(["duration=4s", "duration=8s"].map(noted), [1, 0]);
}

#[test]
fn out_writes_the_result_and_a_self_contained_page() {
    let folder =
        Folder::with(&CALL.replace("kind = \"media\"", "kind = \"media\"\nfeedback = \"transport-wide\""));
    let args = ["compare", "s.toml", "--out", "out", "--controller", "fixed,gcc:remb", "--json"];
    let output = folder.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let written: Value = serde_json::from_slice(&fs::read(folder.path("out/result.json")).unwrap()).unwrap();
    // The file also has the timelines.
    let mut without = written.clone();
    for run in without["runs"].as_array_mut().unwrap() {
        let timeline = run.as_object_mut().unwrap().remove("timeline").unwrap();
        assert_eq!(timeline["flows"][0]["id"], "call");
    }
    assert_eq!(without, json(&output));
    assert_eq!(written["runs"][1]["feedback"]["call"], "remb");
    let note = "gcc:remb cannot use transport-wide, the feedback of call in the scenario: it gets remb.";
    assert_eq!(written["notes"], serde_json::json!([note]));
    let html = fs::read_to_string(folder.path("out/report.html")).unwrap();
    for part in ["fixed: target and rates", "gcc:remb: target and rates", "decision in force", note] {
        assert!(html.contains(part), "{part}");
    }
    assert!(html.contains("default-src 'none'"));
    assert!(html.len() < 1_500_000, "{} B", html.len());
    let shown = text(&folder.run(&args[..6]).stdout);
    assert!(shown.contains("s, seed 1: 2 controllers") && shown.contains(note), "{shown}");
}
