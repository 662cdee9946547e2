//! Controllers with constants, as users give them to the commands.

use std::fs;

use crate::common::{Folder, finished, json, process::Listener, text};
use serde_json::Value;

const CALL: &str = r#"duration = "30 s"
[[link]]
id = "bottleneck"
from = "camera"
to = "viewer"
rate = "2 Mbit/s"
delay = "40 ms"
reverse = { rate = "unlimited", delay = "40 ms" }
[[flow]]
id = "call"
kind = "media"
from = "camera"
to = "viewer"
controller = "scream:v2"
"#;

const TUNED: &str = "# found somewhere\nalgorithm = \"scream:v2\"\ndelay-target = \"15 ms\"\n";
const NAME: &str = "scream:v2+delay-target=15ms";

fn folder() -> Folder {
    let folder = Folder::with(CALL);
    fs::write(folder.path("tuned.toml"), TUNED).unwrap();
    folder
}

fn ran(folder: &Folder, args: &[&str]) -> Value {
    let output = folder.run(&[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    json(&output)
}

#[test]
fn sim_takes_a_file_of_constants_and_they_change_the_run() {
    let folder = folder();
    let flow = |args: &[&str]| ran(&folder, &[&["sim", "s.toml"], args].concat())["flows"][0].clone();
    let (plain, tuned) = (flow(&[]), flow(&["--controller", "tuned.toml"]));
    assert_eq!((&plain["controller"], &tuned["controller"]), (&"scream:v2".into(), &NAME.into()));
    let delay = |flow: &Value| flow["queue_delay_ms"]["p95"].as_f64().unwrap();
    assert!(delay(&tuned) < 0.8 * delay(&plain), "{} {}", delay(&tuned), delay(&plain));
    for same in [
        ["--controller", NAME],
        ["--set", "call.controller=tuned.toml"],
        ["--set", &format!("call.controller={NAME}")],
    ] {
        assert_eq!(flow(&same), tuned, "{same:?}");
    }
    let rows = ran(&folder, &["compare", "s.toml", "--controller", "scream:v2,tuned.toml"]);
    assert_eq!(rows["runs"][1]["controller"], NAME);
    assert_eq!(rows["runs"][1]["flows"][0]["queue_delay_ms"], tuned["queue_delay_ms"]);
    // The scenario that the replay of a benchmark writes is one for sim.
    let replay = ["benchmark", "--seed", "a", "--replay", "0", "--controller", "tuned.toml", "--out", "run"];
    ran(&folder, &replay);
    assert_eq!(ran(&folder, &["sim", "run/scenario.toml"])["flows"][0]["controller"], NAME);
}

#[test]
fn a_call_takes_a_file_of_constants() {
    let folder = folder();
    let called = |more: &[&str]| {
        let listener = Listener::call(&[]);
        let call = ["call", &listener.to(), "--json", "-t", "1", "--controller", "tuned.toml"];
        let record = finished(&folder.run(&[&call[..], more].concat()));
        [record, listener.result().0].map(|record| record["flows"][0]["controller"].clone())
    };
    assert_eq!(called(&[]), [NAME; 2]);
    // The far end knows the constants from the name.
    assert_eq!(called(&["--reverse"]), [NAME; 2]);
    // Many constants do not fit into a name: the end that receives need not know them, the end that sends must.
    let many = "algorithm = \"scream:v2\"\ndelay-target = \"15 ms\"\nbeta-loss = 0.71\nhead-room = 1.55\n";
    fs::write(folder.path("tuned.toml"), many).unwrap();
    let all = "scream:v2+delay-target=15ms+head-room=1.55+beta-loss=0.71";
    assert_eq!(called(&[]), [all, "scream:v2+tuned"]);
}
