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

#[test]
fn a_sweep_names_failed_runs_and_the_command_that_repeats_each() {
    let lossy = with("rate = \"1 Mbit/s\"\nloss = 1", "rate = \"1 Mbit/s\"");
    let folder = bounded(&lossy);
    let sweep = ["sweep", "s.toml", "--set", "wire.loss=0,0.05,1", "--seeds", "1..4", "--json"];
    let output = folder.run(&sweep);
    assert_eq!(output.status.code(), Some(1));
    let result = json(&output);
    assert_eq!(result["runs"].as_array().unwrap().len(), 12);
    assert_eq!(result["summary"].as_array().unwrap().len(), 3);
    assert_eq!(result["summary"][0]["loss_ratio"]["mean"], 0.0);
    let message = text(&output.stderr);
    assert!(
        message
            .contains("expectation not met: giusto sim s.toml --seed 4 --set wire.loss=1: flow voice: loss"),
        "{message}"
    );
    assert!(!message.contains("wire.loss=0"), "{message}");
    let alone = folder.run(&["sim", "s.toml", "--seed", "4", "--set", "wire.loss=1"]);
    assert_eq!(alone.status.code(), Some(1));
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

#[test]
fn merged_shards_of_a_sweep_have_the_bytes_of_the_whole() {
    let lossy = with("rate = \"1 Mbit/s\"\nloss = 1", "rate = \"1 Mbit/s\"");
    let folder = bounded(&lossy);
    let sweep = ["sweep", "s.toml", "--set", "wire.loss=0,0.05,1", "--seeds", "1..4", "--json"];
    let run = |more: &[&str]| folder.run(&[&sweep[..], more].concat());
    let whole = json(&run(&["--out", "whole"]));
    let bytes = |name: &str| fs::read(folder.path(name)).unwrap();
    assert!(!folder.path("whole/part.json").exists());
    for (index, jobs) in [("1", "1"), ("2", "2"), ("3", "3")] {
        let part = json(&run(&[
            "--out",
            &format!("part-{index}"),
            "--shard",
            &format!("{index}/3"),
            "--jobs",
            jobs,
        ]));
        assert_eq!(part["runs"].as_array().unwrap().len(), 4);
    }
    let merge = |parts: &[&str]| folder.run(&[&["merge"], parts].concat());
    let refused = merge(&["part-3", "part-1", "part-2", "--out", "./part-1"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("./part-1: this is a part"), "{}", text(&refused.stderr));
    let output = merge(&["part-3", "part-1", "part-2", "--out", "merged", "--json"]);
    // A loss of 1 misses the expectation in every run.
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let message = text(&output.stderr);
    assert!(message.contains("wrote merged/flows.csv\nwrote merged/links.csv\n"), "{message}");
    assert!(
        message
            .contains("expectation not met: giusto sim s.toml --seed 4 --set wire.loss=1: flow voice: loss"),
        "{message}"
    );
    // All but the time that the runs took.
    let timeless = |mut sweep: Value| {
        for run in sweep["runs"].as_array_mut().unwrap() {
            assert!(run["result"]["wall_s"].take().is_f64());
        }
        sweep
    };
    assert_eq!(timeless(json(&output)), timeless(whole.clone()));
    for table in ["flows.csv", "links.csv"] {
        assert_eq!(bytes(&format!("merged/{table}")), bytes(&format!("whole/{table}")));
    }
    assert!(
        text(&merge(&["part-1", "part-2", "part-3"]).stdout).contains("± is the 95 % confidence interval")
    );

    let complaint = |output: std::process::Output| {
        assert_eq!(output.status.code(), Some(2));
        let text = text(&output.stderr);
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    insta::assert_snapshot!(complaint(merge(&["part-1", "part-3"])), @"error: 1 of 3 shards are missing, the first is 2/3: add the folders of their parts");
    insta::assert_snapshot!(complaint(merge(&["part-1", "part-1"])), @"error: part-1: shard 1/3 is in part-1 too: name each part once");
    insta::assert_snapshot!(complaint(merge(&["part-1", "whole"])), @"error: whole: it has no part.json: finish the part with --resume; of a benchmark, name the files result.json");
    insta::assert_snapshot!(complaint(merge(&["part-1", "s.toml"])), @"error: part-1 is a directory, as parts of a sweep are, s.toml is not: merge parts of one sweep or files of one benchmark");
    insta::assert_snapshot!(complaint(run(&["--out", "part-1", "--shard", "2/3", "--resume"])), @r#"error: --out part-1/journal.jsonl: kept for "s, shard 1/3" by giusto 0.1.0: give another folder, or the same scenario and arguments"#);
    assert!(complaint(run(&["--shard", "1/3"])).contains("--out"));
    assert!(complaint(run(&["--shard", "0/3", "--out", "o"])).contains("\"0/3\" is not a shard: write i/n"));

    // A part that was ended early is named, and continues.
    let journal = folder.path("part-2/journal.jsonl");
    let begun: Vec<String> =
        fs::read_to_string(&journal).unwrap().lines().take(3).map(str::to_owned).collect();
    fs::write(&journal, begun.join("\n") + "\n").unwrap();
    let early = complaint(merge(&["part-1", "part-2", "part-3"]));
    assert!(early.starts_with("error: part-2: 2 of its runs are missing, the first is seed "), "{early}");
    run(&["--out", "part-2", "--shard", "2/3", "--resume"]);
    let merged = json(&merge(&["part-1", "part-2", "part-3", "--json"]));
    assert_eq!(timeless(merged), timeless(whole));
}
