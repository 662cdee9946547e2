//! `giusto benchmark` and `giusto merge`, as users and scripts run them.

use std::fs;

use crate::common::{Folder, assert_has, number, text};
use serde_json::{Value, json};

/// The standard output of a command, which must succeed.
#[track_caller]
fn done(folder: &Folder, args: &[&str]) -> String {
    let output = folder.run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?} {}", text(&output.stderr));
    text(&output.stdout)
}

/// The JSON of a command, which must succeed.
#[track_caller]
fn ran(folder: &Folder, args: &[&str]) -> Value {
    serde_json::from_str(&done(folder, &[args, &["--json"]].concat())).unwrap()
}

/// The error of a command, which must be refused in one line.
#[track_caller]
fn complaint(folder: &Folder, args: &[&str]) -> String {
    let output = folder.run(args);
    let text = text(&output.stderr);
    assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{args:?} {text}");
    text
}

/// The file `result.json` in a folder.
fn result(folder: &Folder, name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.path(name).join("result.json")).unwrap()).unwrap()
}

#[test]
fn a_benchmark_is_merged_continued_and_replayed() {
    let folder = Folder::with("");
    let run =
        ["benchmark", "--seed", "of a test", "--seed", "y", "--scenarios", "1", "--controller", "scream:v2"];
    let whole = ran(&folder, &[&run[..], &["--out", "whole"]].concat());
    let seeds = ["of a test", "y"];
    assert_has(&whole, &json!({ "version": "3", "seeds": seeds, "scenarios": 1, "missing_runs": 0 }));
    let own = &whole["controllers"][0];
    for (family, of) in own["families"].as_object().unwrap() {
        for figure in
            ["utilisation_ratio", "frame_delay_p95_ms", "queue_delay_p95_ms", "loss_ratio", "freeze_ratio"]
        {
            assert!(of[figure].is_number(), "{family} {figure}: {of}");
        }
        let ratios = ["utility", "collapsed_ratio"].map(|name| number(&of[name]));
        assert!(ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio)), "{family}: {of}");
    }
    assert!(number(&own["goals"]["steady_utilisation_ratio"]["value"]) > 0.0);
    let all = &own["all"];
    assert_eq!((&all["runs"], &all["over_seeds"]["seeds"]), (&2.into(), &2.into()));
    let [low, high] = [0, 1].map(|place| number(&all["over_seeds"]["utility_mean"][place]));
    assert!(low < number(&all["utility_mean"]) && number(&all["utility_mean"]) < high, "{all}");
    let page = fs::read_to_string(folder.path("whole/report.html")).unwrap();
    for wanted in ["Who wins where", "--replay", "Over 2 seeds", "seeds of a test, y"] {
        assert!(page.contains(wanted), "{wanted}");
    }

    for (shard, out) in [("1/2", "a"), ("2/2", "b")] {
        done(&folder, &[&run[..], &["--shard", shard, "--out", out]].concat());
    }
    let merged = ran(&folder, &["merge", "--out", "merged", "b/result.json", "a/result.json"]);
    assert_eq!(merged, whole);
    let bytes = |name: &str| fs::read(folder.path(name)).unwrap();
    assert_eq!(bytes("merged/result.json"), bytes("whole/result.json"));
    let part = bytes("a/result.json");
    let refused = complaint(&folder, &["merge", "--out", "./a", "b/result.json", "a/result.json"]);
    assert!(refused.contains("--out ./a: this is a part"), "{refused}");
    assert_eq!(bytes("a/result.json"), part);
    for (file, expected) in [
        ("a/result.json", "6 of 12 runs are missing, the first is scenario"),
        ("nothing.json", "nothing.json: cannot be read (No such file"),
        ("s.toml", "it is no result of a benchmark"),
    ] {
        let complaint = complaint(&folder, &["merge", file]);
        assert!(complaint.contains(expected), "{complaint}");
    }

    // Only the first run was finished.
    let journal = folder.path("whole/journal.jsonl");
    let kept = fs::read_to_string(&journal).unwrap();
    let begun: Vec<&str> = kept.lines().take(2).collect();
    fs::write(&journal, begun.join("\n") + "\n").unwrap();
    let resumed = done(&folder, &[&run[..], &["--resume", "--out", "whole"]].concat());
    assert!(resumed.contains("Over 2 seeds") && resumed.contains(" ± "), "{resumed}");
    assert_eq!(fs::read_to_string(&journal).unwrap().lines().count(), kept.lines().count());
    assert_eq!(bytes("merged/result.json"), bytes("whole/result.json"));
    // A journal of another benchmark is not continued.
    let other =
        complaint(&folder, &[&run[..5], &["--scenarios", "3", "--out", "whole", "--resume"]].concat());
    assert!(other.contains("kept for \"benchmark 3 of seed of a test,y, 1 scenarios"), "{other}");

    let worst = own["worst"].as_array().unwrap();
    let worst = worst.iter().find(|run| run["seed"] == "y").unwrap();
    let command = worst["command"].as_str().unwrap();
    assert_eq!(command, "giusto benchmark --seed=y --replay 0 --controller scream:v2 --why");
    let replay: Vec<&str> = command.split(' ').skip(1).collect();
    let (replay, why) = replay.split_at(replay.len() - 1);
    assert!(done(&folder, &[replay, why].concat()).contains("call"));
    let shown = done(&folder, &[replay, &["--why=12s"]].concat());
    assert!(shown.contains("at 12 s") && done(&folder, replay).contains("utility"), "{shown}");
    let figures = ran(&folder, &[replay, &["--out", "one"]].concat());
    let rows = result(&folder, "whole");
    let mut rows = rows["runs"].as_array().unwrap().iter();
    let row = rows.find(|row| row["seed"] == "y" && row["controller"] == "scream:v2").unwrap();
    for (name, value) in figures.as_object().unwrap() {
        assert_eq!(*value, row[name], "{name}");
    }
    assert_eq!(figures["utility"]["total"], worst["utility"]);
    // The file is the same run.
    let (record, simulated) = (result(&folder, "one"), ran(&folder, &["sim", "one/scenario.toml"]));
    assert_has(&simulated, &json!({ "flows": record["flows"], "seed": record["seed"] }));
}

#[test]
fn recordings_are_judged_and_replayed() {
    let folder = Folder::with("");
    fs::create_dir_all(folder.path("recorded/train")).unwrap();
    let rows: Vec<String> = (0..21).map(|second| format!("{second},{}", 600 + 40 * (second % 7))).collect();
    let table = format!("time_s,rate_kbps\n{}\n", rows.join("\n"));
    fs::write(folder.path("recorded/train/a.csv"), table).unwrap();
    let with = |more: &[&'static str]| [&["benchmark", "--recordings", "recorded"], more].concat();
    let whole = ran(&folder, &with(&["--controller", "scream:v2", "--out", "judged"]));
    assert_has(&whole, &json!({ "scenarios": 6, "seeds": [] }));
    assert_eq!(whole["controllers"][0]["families"]["train"]["runs"], 6);
    assert_eq!(whole["recordings"].as_str().unwrap().len(), 16);
    let rows = result(&folder, "judged");
    let find = |name: &str| {
        let mut rows = rows["runs"].as_array().unwrap().iter();
        rows.find(|row| row["scenario"] == 3 && row["controller"] == name).unwrap().clone()
    };
    let own = find("scream:v2");
    assert_eq!(own["recording"], "train/a.csv from 0 s");
    for (controller, first) in [
        ("scream:v2", "train/a.csv from 0 s, RTT 60 ms, queue 1000 ms"),
        ("bound:causal", "# bound:causal is no controller"),
    ] {
        let figures = ran(&folder, &with(&["--replay", "3", "--controller", controller, "--out", "one"]));
        assert_eq!(figures["utility"], find(controller)["utility"], "{controller}");
        let scenario = fs::read_to_string(folder.path("one/scenario.toml")).unwrap();
        assert!(scenario.contains(first), "{scenario}");
    }
    done(&folder, &["sim", "one/scenario.toml"]);
    // Half of the rates is another benchmark, whose journal is not continued.
    let other = with(&["--scale", "0.5", "--controller", "scream:v2", "--out", "judged", "--resume"]);
    assert!(complaint(&folder, &other).contains("kept for \"benchmark 3 of recordings"));
}
