//! `giusto sweep`, as users and scripts run it, and which expectations it judges.

use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    common::{Folder, json, text},
    simulate::{GOOD, with},
};
use serde_json::Value;

/// A scenario with a bound on the loss of its flow.
fn bounded(scenario: &str) -> Folder {
    let bound = "[[expect]]\nflow = \"voice\"\nmetric = \"loss\"\nmin = 0\nmax = 0.1\n";
    Folder::with(&format!("{scenario}{bound}"))
}

#[test]
fn expectations_are_judged_where_varied_settings_are_as_in_the_file() {
    let folder = bounded(GOOD);
    let sweep = |more: &[&str]| {
        let output = folder.run(&[&["sweep", "s.toml", "--seeds", "1..3", "--json"], more].concat());
        let result = json(&output);
        let runs = result["runs"].as_array().unwrap().iter();
        let passed: Vec<Value> = runs.map(|run| run["result"]["checks"][0]["passed"].clone()).collect();
        (output.status.code(), text(&output.stderr), passed)
    };
    // The file has no loss. Both settings of the sweep are recorded, and one is judged.
    let (status, message, passed) = sweep(&["--set", "wire.loss=0,1"]);
    assert_eq!(
        (status, passed),
        (Some(0), [[true; 3], [false; 3]].concat().into_iter().map(Value::from).collect())
    );
    let others = "3 of 6 runs have other values and are not judged; 0 of these meet all";
    assert!(message.contains(others), "{message}");
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

#[test]
fn expectations_beyond_a_set_duration_are_noted_once() {
    let late = "[[expect]]\nflow = \"voice\"\nmetric = \"loss\"\nfrom = \"1.5 s\"\nmax = 0.1\n";
    let folder = bounded(&format!("{GOOD}{late}"));
    let noted = |duration: &str| {
        let output = folder.run(&["sweep", "s.toml", "--seeds", "1..3", "--set", duration]);
        assert_eq!(output.status.code(), Some(0));
        let note = "note: not judged, as the run ends at 1 s: flow voice: loss from 1.5 s\n";
        text(&output.stderr).matches(note).count()
    };
    assert_eq!(["duration=1s", "duration=2s"].map(noted), [1, 0]);
}

#[test]
fn an_interrupted_sweep_keeps_finished_runs_and_resumes() {
    // Some 100 runs of some 100 ms each.
    let long = with("duration = \"400 s\"", "duration = \"2 s\"")
        .replace("64 kbit/s", "800 kbit/s")
        .replace("cbr", "poisson");
    let folder = Folder::with(&long);
    let args = ["sweep", "s.toml", "--seeds", "1..60", "--jobs", "2", "--out", "kept"];
    let mut child = folder.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let journal = folder.path("kept/journal.jsonl");
    let lines = || fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
    while lines() < 4 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = Command::new("sh").arg("-c").arg(format!("kill -INT {}", child.id())).status().unwrap();
    assert!(sent.success());
    assert!(child.wait().unwrap().success());
    let kept = lines() - 1;
    assert!((3..60).contains(&kept), "{kept}");
    let rows = |name: &str| fs::read_to_string(folder.path(name)).unwrap().lines().count() - 1;
    assert_eq!(rows("kept/flows.csv"), kept);

    let refused = folder.run(&args);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("continue them with --resume"), "{}", text(&refused.stderr));
    let few = ["sweep", "s.toml", "--seeds", "1..6", "--out", "kept", "--resume"];
    assert_eq!(folder.run(&few).status.code(), Some(0));
    assert_eq!(rows("kept/flows.csv"), 6);
    fs::write(folder.path("s.toml"), long.replace("800", "801")).unwrap();
    let changed = folder.run(&few);
    assert_eq!(changed.status.code(), Some(2));
    assert!(text(&changed.stderr).contains("as it was before it was changed"), "{}", text(&changed.stderr));
}

/// A run that failed is named with the command that repeats it.
#[test]
fn merged_shards_of_a_sweep_have_the_bytes_of_the_whole() {
    const FAILED: &str =
        "expectation not met: giusto sim s.toml --seed 4 --set wire.loss=1: flow voice: loss";
    let lossy = with("rate = \"1 Mbit/s\"\nloss = 1", "rate = \"1 Mbit/s\"");
    let folder = bounded(&lossy);
    let sweep = ["sweep", "s.toml", "--set", "wire.loss=0,0.05,1", "--seeds", "1..4", "--json"];
    let run = |more: &[&str]| folder.run(&[&sweep[..], more].concat());
    let output = run(&["--out", "whole"]);
    let (whole, message) = (json(&output), text(&output.stderr));
    assert!(output.status.code() == Some(1) && message.contains(FAILED), "{message}");
    assert!(!message.contains("wire.loss=0"), "{message}");
    let alone = folder.run(&["sim", "s.toml", "--seed", "4", "--set", "wire.loss=1"]);
    assert_eq!(alone.status.code(), Some(1));
    let lengths = ["runs", "summary"].map(|part| whole[part].as_array().unwrap().len());
    assert_eq!((lengths, &whole["summary"][0]["loss_ratio"]["mean"]), ([12, 3], &0.0.into()));
    assert!(!folder.path("whole/part.json").exists());
    for index in ["1", "2", "3"] {
        let (out, shard) = (format!("part-{index}"), format!("{index}/3"));
        let part = json(&run(&["--out", &out, "--shard", &shard, "--jobs", index]));
        assert_eq!(part["runs"].as_array().unwrap().len(), 4);
    }
    let merge = |parts: &[&str]| folder.run(&[&["merge"], parts].concat());
    let output = merge(&["part-3", "part-1", "part-2", "--out", "merged", "--json"]);
    // A loss of 1 misses the expectation in every run.
    let message = text(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains(FAILED), "{message}");
    assert!(message.contains("wrote merged/flows.csv\nwrote merged/links.csv\n"), "{message}");
    // All but the time that the runs took.
    let timeless = |mut sweep: Value| {
        for run in sweep["runs"].as_array_mut().unwrap() {
            assert!(run["result"]["wall_s"].take().is_f64());
        }
        sweep
    };
    assert_eq!(timeless(json(&output)), timeless(whole));
    let bytes = |name: String| fs::read(folder.path(&name)).unwrap();
    for table in ["flows.csv", "links.csv"] {
        assert_eq!(bytes(format!("merged/{table}")), bytes(format!("whole/{table}")));
    }
    let shown = text(&merge(&["part-1", "part-2", "part-3"]).stdout);
    assert!(shown.contains("± is the 95 % confidence interval"), "{shown}");
    for (output, expected) in [
        (merge(&["part-3", "part-1", "part-2", "--out", "./part-1"]), "./part-1: this is a part"),
        (merge(&["part-1", "part-3"]), "error: 1 of 3 shards are missing, the first is 2/3: add the folders"),
        (
            merge(&["part-1", "s.toml"]),
            "error: part-1 is a directory, as parts of a sweep are, s.toml is not",
        ),
        (run(&["--out", "part-1", "--shard", "2/3", "--resume"]), "kept for \"s, shard 1/3\" by giusto"),
        (run(&["--shard", "1/3"]), "--out"),
    ] {
        let message = text(&output.stderr);
        assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}
