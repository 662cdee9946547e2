//! Which expectations `giusto sweep` judges.

use crate::common::{Folder, json, text};
use serde_json::Value;

const FILE: &str = r#"duration = "2 s"
[[link]]
id = "wire"
from = "here"
to = "there"
rate = "1 Mbit/s"
delay = "20 ms"
[[flow]]
id = "voice"
kind = "cbr"
rate = "64 kbit/s"
size = "200 B"
[[expect]]
flow = "voice"
metric = "loss"
min = 0
max = 0.1
"#;

#[test]
fn expectations_are_judged_where_varied_settings_are_as_in_the_file() {
    let folder = Folder::with(FILE);
    let sweep = |more: &[&str]| {
        let output = folder.run(&[&["sweep", "s.toml", "--seeds", "1..3", "--json"], more].concat());
        let passed = json(&output)["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["result"]["checks"][0]["passed"].clone())
            .collect::<Vec<_>>();
        (output.status.code(), text(&output.stderr), passed)
    };
    // The file has no loss. Both settings of the sweep are recorded, and one is judged.
    let (status, message, passed) = sweep(&["--set", "wire.loss=0,1"]);
    assert_eq!(
        (status, passed),
        (Some(0), [[true; 3], [false; 3]].concat().into_iter().map(Value::from).collect())
    );
    assert!(
        message.contains("3 of 6 runs have other values and are not judged; 0 of these meet all"),
        "{message}"
    );
    assert!(message.contains("note: not judged in these runs: flow voice: loss\n"), "{message}");
    // One value for all runs is the value of this sweep, as with `giusto sim --set`.
    let (status, message, _) = sweep(&["--set", "wire.loss=1"]);
    assert_eq!(status, Some(1));
    assert!(message.contains("expectation not met") && !message.contains("not judged"), "{message}");
    // The same beside a setting that is varied.
    let (status, message, _) = sweep(&["--set", "wire.loss=1", "--set", "wire.delay=20ms,30ms"]);
    assert_eq!(status, Some(1), "{message}");
    assert!(message.contains("3 of 6 runs"), "{message}");
    // Bounds may be varied: the runs are the same.
    let (status, message, _) = sweep(&["--set", "wire.loss=0.5", "--set", "expect.1.max=0.1,1"]);
    assert_eq!(status, Some(1));
    assert!(
        message.contains("expect.1.max=0.1: flow voice: loss") && !message.contains("expect.1.max=1:"),
        "{message}"
    );
    assert!(!message.contains("not judged"), "{message}");
    let output = folder.run(&["sweep", "s.toml", "--seeds", "1", "--set", "wire.loss=0,1", "--out", "out"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows = std::fs::read_to_string(folder.path("out/flows.csv")).unwrap();
    let cells: Vec<Vec<&str>> = rows.lines().map(|row| row.split(',').skip(3).take(2).collect()).collect();
    assert_eq!(cells, [["passed", "judged"], ["true", "true"], ["false", "false"]], "{rows}");
    let (status, message, _) = sweep(&[]);
    assert_eq!((status, message.contains("not judged")), (Some(0), false), "{message}");
}
