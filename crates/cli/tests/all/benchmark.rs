//! `giusto benchmark` and `giusto merge`, as users and scripts run them.

use std::fs;

use crate::common::{Folder, json, text};
use serde_json::Value;

const TWO: [&str; 4] = ["--controller", "gcc:libwebrtc,scream:v2", "--seed", "of a test"];

/// Runs a benchmark of two scenarios with two controllers.
fn small(folder: &Folder, more: &[&str]) -> Value {
    let output = folder.run(&[&["benchmark", "--scenarios", "2", "--json"], &TWO[..], more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    json(&output)
}

#[test]
fn merged_shards_print_what_the_whole_prints() {
    let folder = Folder::with("");
    let whole = small(&folder, &["--out", "whole"]);
    assert_eq!(
        (&whole["version"], &whole["seed"], &whole["missing_runs"]),
        (&"3".into(), &"of a test".into(), &0.into())
    );
    assert_eq!(whole["seeds"], serde_json::json!(["of a test"]));
    assert_eq!(whole["scenarios"], 2);
    for controller in whole["controllers"].as_array().unwrap() {
        for family in ["static", "step-up"] {
            let of = &controller["families"][family];
            for figure in [
                "utilisation_ratio",
                "frame_delay_p95_ms",
                "queue_delay_p95_ms",
                "loss_ratio",
                "freeze_ratio",
            ] {
                assert!(of[figure].is_number(), "{family} {figure}: {of}");
            }
            let (utility, collapsed) =
                (of["utility"].as_f64().unwrap(), of["collapsed_ratio"].as_f64().unwrap());
            assert!((0.0..=1.0).contains(&utility) && (0.0..=1.0).contains(&collapsed));
        }
        assert!(controller["goals"]["steady_utilisation_ratio"]["value"].as_f64().unwrap() > 0.0);
    }
    let page = fs::read_to_string(folder.path("whole/report.html")).unwrap();
    assert!(page.contains("Who wins where") && page.contains("--replay"));

    small(&folder, &["--out", "a", "--shard", "1/2"]);
    small(&folder, &["--out", "b", "--shard", "2/2"]);
    let merge = |files: &[&str]| folder.run(&[&["merge", "--json", "--out", "merged"], files].concat());
    let output = merge(&["b/result.json", "a/result.json"]);
    assert_eq!(json(&output), whole, "{}", text(&output.stderr));
    let bytes = |name: &str| fs::read(folder.path(name)).unwrap();
    assert_eq!(bytes("merged/result.json"), bytes("whole/result.json"));

    let complaint = |files: &[&str]| {
        let output = merge(files);
        assert_eq!(output.status.code(), Some(2));
        let text = text(&output.stderr);
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    assert!(complaint(&["a/result.json"]).contains("7 of 14 runs are missing, the first is scenario 1"));
    assert!(complaint(&["a/result.json", "a/result.json"]).contains("name each shard once"));
    assert!(complaint(&["nothing.json"]).contains("nothing.json: cannot be read (No such file"));
    assert!(complaint(&["s.toml"]).contains("it is no result of a benchmark"));
    let other = text(&bytes("b/result.json")).replacen("\"version\": \"3\"", "\"version\": \"1\"", 1);
    fs::write(folder.path("old.json"), other).unwrap();
    assert!(
        complaint(&["a/result.json", "old.json"])
            .contains("old.json: its benchmark version is 1, that of a/result.json 3")
    );
}

#[test]
fn a_run_is_replayed_and_its_scenario_is_a_file() {
    let folder = Folder::with("");
    let whole = small(&folder, &["--out", "whole"]);
    let rows: Value = serde_json::from_slice(&fs::read(folder.path("whole/result.json")).unwrap()).unwrap();
    let row = rows["runs"].as_array().unwrap().iter();
    let row = row.filter(|row| row["scenario"] == 1).find(|row| row["controller"] == "scream:v2").unwrap();
    let replay = ["benchmark", "--seed", "of a test", "--replay", "1", "--controller", "scream:v2"];
    let figures = json(&folder.run(&[&replay[..], &["--json", "--out", "one"]].concat()));
    for (name, value) in figures.as_object().unwrap() {
        assert_eq!(*value, row[name], "{name}");
    }
    // The file is the same run.
    let record: Value = serde_json::from_slice(&fs::read(folder.path("one/result.json")).unwrap()).unwrap();
    let simulated = json(&folder.run(&["sim", "one/scenario.toml", "--json"]));
    assert_eq!(simulated["flows"], record["flows"]);
    assert_eq!(simulated["seed"], record["seed"]);

    let why = folder.run(&[&replay[..], &["--why"]].concat());
    assert!(text(&why.stdout).contains("call"), "{}", text(&why.stderr));
    let at = folder.run(&[&replay[..], &["--why=12s"]].concat());
    assert!(text(&at.stdout).contains("at 12 s"), "{}", text(&at.stderr));
    assert!(text(&folder.run(&replay).stdout).contains("utility"));

    // The commands that a result prints are those.
    let command = whole["controllers"][0]["worst"][0]["command"].as_str().unwrap();
    assert!(command.starts_with("giusto benchmark --seed='of a test' --replay "), "{command}");
}

#[test]
fn an_ended_benchmark_continues() {
    let folder = Folder::with("");
    let whole = small(&folder, &["--out", "kept"]);
    let path = folder.path("kept/journal.jsonl");
    let kept = fs::read_to_string(&path).unwrap();
    // Only the first of the fourteen runs was finished.
    let begun: Vec<&str> = kept.lines().take(2).collect();
    fs::write(&path, begun.join("\n") + "\n").unwrap();
    assert_eq!(small(&folder, &["--out", "kept", "--resume"]), whole);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 15);
    // A journal of another benchmark is not continued.
    let other = ["benchmark", "--scenarios", "3", "--out", "kept", "--resume"];
    let output = folder.run(&[&other[..], &TWO[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("kept for \"benchmark 3 of seed of a test, 2 scenarios"));
}

#[test]
fn several_seeds_give_intervals_and_each_run_is_replayed_by_its_seed() {
    let folder = Folder::with("");
    let run = |more: &[&str]| {
        let arguments =
            ["benchmark", "--seed", "x,y", "--seed", "z", "--scenarios", "1", "--controller", "scream:v2"];
        let output = folder.run(&[&arguments[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        output
    };
    let whole = json(&run(&["--json", "--out", "whole"]));
    assert_eq!((&whole["seeds"], &whole["scenarios"]), (&serde_json::json!(["x", "y", "z"]), &1.into()));
    let own = &whole["controllers"][0];
    assert_eq!((&own["all"]["runs"], &own["all"]["over_seeds"]["seeds"]), (&3.into(), &3.into()));
    let mean = own["all"]["utility_mean"].as_f64().unwrap();
    let [low, high] = [0, 1].map(|place| own["all"]["over_seeds"]["utility_mean"][place].as_f64().unwrap());
    assert!(low < mean && mean < high, "{low} {mean} {high}");
    let page = fs::read_to_string(folder.path("whole/report.html")).unwrap();
    assert!(page.contains("Over 3 seeds") && page.contains("seeds x, y, z"));

    run(&["--shard", "1/2", "--out", "a"]);
    run(&["--shard", "2/2", "--out", "b"]);
    let merged = folder.run(&["merge", "--json", "a/result.json", "b/result.json"]);
    assert_eq!(json(&merged), whole, "{}", text(&merged.stderr));
    let printed = text(&run(&["--resume", "--out", "whole"]).stdout);
    assert!(printed.contains("Over 3 seeds") && printed.contains(" ± "), "{printed}");

    let worst = own["worst"].as_array().unwrap();
    let y = worst.iter().find(|run| run["seed"] == "y").unwrap();
    let command = y["command"].as_str().unwrap();
    assert_eq!(command, "giusto benchmark --seed=y --replay 0 --controller scream:v2 --why");
    let replayed = ["benchmark", "--seed=y", "--replay", "0", "--controller", "scream:v2", "--json"];
    assert_eq!(json(&folder.run(&replayed))["utility"]["total"], y["utility"]);
}

#[test]
fn recordings_are_judged_and_replayed() {
    let folder = Folder::with("");
    fs::create_dir_all(folder.path("recorded/train")).unwrap();
    let rows: Vec<String> = (0..21).map(|second| format!("{second},{}", 600 + 40 * (second % 7))).collect();
    let table = format!("time_s,rate_kbps\n{}\n", rows.join("\n"));
    fs::write(folder.path("recorded/train/a.csv"), table).unwrap();
    let base = ["benchmark", "--recordings", "recorded"];
    let run = |more: &[&str]| folder.run(&[&base[..], more].concat());
    let output = run(&["--controller", "scream:v2,gcc:libwebrtc", "--out", "judged", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let whole = json(&output);
    assert_eq!((&whole["scenarios"], &whole["seeds"]), (&6.into(), &serde_json::json!([])));
    assert_eq!(whole["controllers"][0]["families"]["train"]["runs"], 6);
    assert_eq!(whole["recordings"].as_str().unwrap().len(), 16);
    let figures = json(&run(&["--replay", "3", "--controller", "scream:v2", "--json", "--out", "one"]));
    let rows: Value = serde_json::from_slice(&fs::read(folder.path("judged/result.json")).unwrap()).unwrap();
    let find = |name: &str| {
        let mut rows = rows["runs"].as_array().unwrap().iter();
        rows.find(|row| row["scenario"] == 3 && row["controller"] == name).unwrap().clone()
    };
    assert_eq!(figures["utility"], find("scream:v2")["utility"]);
    assert_eq!(find("scream:v2")["recording"], "train/a.csv from 0 s");
    let scenario = fs::read_to_string(folder.path("one/scenario.toml")).unwrap();
    assert!(scenario.contains("train/a.csv from 0 s, RTT 60 ms, queue 1000 ms"), "{scenario}");
    // Half of the rates is another benchmark, whose journal is not continued.
    let other =
        run(&["--scale", "0.5", "--controller", "scream:v2,gcc:libwebrtc", "--out", "judged", "--resume"]);
    assert!(text(&other.stderr).contains("kept for \"benchmark 3 of recordings"), "{}", text(&other.stderr));

    let bound = run(&["--replay", "3", "--controller", "bound:causal", "--json", "--out", "bound"]);
    assert_eq!(json(&bound)["utility"], find("bound:causal")["utility"], "{}", text(&bound.stderr));
    let stand_in = fs::read_to_string(folder.path("bound/scenario.toml")).unwrap();
    assert!(stand_in.starts_with("# bound:causal is no controller"), "{stand_in}");
    assert_eq!(folder.run(&["sim", "bound/scenario.toml", "--json"]).status.code(), Some(0));
}

#[test]
fn wrong_usage_is_refused_in_one_line_with_the_fix() {
    let complaint = |arguments: &[&str]| {
        let folder = Folder::with("");
        let output = folder.run(&[&["benchmark"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(folder.others(), Vec::<String>::new());
        let text = text(&output.stderr);
        assert_eq!(text.lines().count(), 1, "{text}");
        text.trim_end().to_owned()
    };
    insta::assert_snapshot!(complaint(&["--seed", ""]), @r#"error: the seed is empty: give any text, such as "2026-11""#);
    assert!(
        complaint(&["--shard", "3/2", "--out", "o"])
            .contains("\"3/2\" is not a shard: write i/n with i from 1 to n")
    );
    assert!(complaint(&["--shard", "1/2"]).contains("--out"));
    assert!(complaint(&["--controller", "tcp"]).contains("tcp"));
    assert!(complaint(&["--scenarios", "0"]).contains("--scenarios"));
    assert!(complaint(&["--quick", "--scenarios", "5"]).contains("--quick"));
    assert!(complaint(&["--replay", "5"]).contains("--controller"));
    insta::assert_snapshot!(complaint(&["--seed", "a,b,a"]), @r#"error: seed "a" is named twice: leave one out"#);
    insta::assert_snapshot!(complaint(&["--seed", "a,b", "--quick"]), @"error: --quick runs one seed, found 2: give one, or --scenarios instead of --quick");
    insta::assert_snapshot!(complaint(&["--seed", "a,b", "--replay", "1", "--controller", "nada"]), @"error: --replay runs a scenario of one seed, found 2: name one");
    insta::assert_snapshot!(complaint(&["--controller", "bound:causal"]), @"error: bound:causal is judged in every benchmark: name controllers, or a run with --replay");
    assert!(complaint(&["--recordings", "/nowhere"]).starts_with("error: /nowhere: cannot be read"));
    assert!(complaint(&["--recordings", "/nowhere", "--seed", "a"]).contains("--seed"));
    assert!(complaint(&["--scale", "2"]).contains("--recordings"));
    assert!(
        complaint(&["--replay", "5", "--controller", "nada,fixed"])
            .contains("--replay runs one controller, found 2")
    );
}
