//! Controllers with constants, as users give them to the commands.

use std::fs;

use crate::common::{Folder, json, process::Listener, text};
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
}

#[test]
fn a_benchmark_takes_a_file_of_constants_beside_the_default_and_replays_it() {
    let folder = folder();
    let judged = [
        "benchmark",
        "--seed",
        "of a test",
        "--scenarios",
        "2",
        "--controller",
        "scream:v2,tuned.toml",
        "--out",
        "out",
    ];
    let names: Vec<Value> = ran(&folder, &judged)["controllers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|own| own["name"].clone())
        .collect();
    assert_eq!(names, ["scream:v2", NAME]);
    let result: Value = serde_json::from_slice(&fs::read(folder.path("out/result.json")).unwrap()).unwrap();
    let delay = |name: &str| {
        let rows = result["runs"].as_array().unwrap().iter();
        rows.filter(|row| row["controller"] == name)
            .map(|row| row["queue_delay_p95_ms"].as_f64().unwrap())
            .sum::<f64>()
    };
    assert!(delay(NAME) < delay("scream:v2"), "{} {}", delay(NAME), delay("scream:v2"));
    // The scenario that a replay writes is one for sim.
    let replay =
        ["benchmark", "--seed", "of a test", "--replay", "0", "--controller", "tuned.toml", "--out", "run"];
    ran(&folder, &replay);
    assert_eq!(ran(&folder, &["sim", "run/scenario.toml"])["flows"][0]["controller"], NAME);
}

#[test]
fn a_call_takes_a_file_of_constants() {
    let folder = folder();
    let called = |more: &[&str]| {
        let listener = Listener::of(&["call", "--listen", "127.0.0.1:0", "--once", "--json"]);
        let to = listener.address.to_string();
        let output =
            folder.run(&[&["call", &to, "--json", "-t", "2", "--controller", "tuned.toml"], more].concat());
        assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
        (json(&output), listener.result().0)
    };
    let (caller, listener) = called(&[]);
    assert_eq!(
        (&caller["flows"][0]["controller"], &listener["flows"][0]["controller"]),
        (&NAME.into(), &NAME.into())
    );
    // The far end knows the constants from the name.
    let (caller, listener) = called(&["--reverse"]);
    assert_eq!(
        (&caller["flows"][0]["controller"], &listener["flows"][0]["controller"]),
        (&NAME.into(), &NAME.into())
    );
    // Many constants do not fit into a name: the end that receives need not know them, the end that sends must.
    let many = "algorithm = \"scream:v2\"\ndelay-target = \"15 ms\"\nbeta-loss = 0.71\nhead-room = 1.55\n";
    fs::write(folder.path("tuned.toml"), many).unwrap();
    let (caller, listener) = called(&[]);
    assert_eq!(caller["flows"][0]["controller"], "scream:v2+delay-target=15ms+head-room=1.55+beta-loss=0.71");
    assert_eq!(listener["flows"][0]["controller"], "scream:v2+tuned");
    let output = folder.run(&["call", "127.0.0.1", "--reverse", "--controller", "tuned.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr)
            .contains("longer than the 40 bytes that can be sent to the far end: set fewer constants"),
        "{}",
        text(&output.stderr)
    );
}
