use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::{
    record::RunRecord,
    run::{self as runs, Shard},
    scenario::{Document, Setting},
};

const FILE: &str = r#"
duration = "2 s"
link = [{ id = "wire", from = "here", to = "there", rate = "1 Mbit/s", loss = 0.1 }]
flow = [{ id = "noise", kind = "poisson", rate = "200 kbit/s", size = "500 B" }]
"#;

fn unplanned(values: &[&str], seeds: &str) -> Sweep {
    Sweep {
        document: Document::parse(FILE, "sweep.toml").unwrap(),
        values: values.iter().map(|values| values.parse().unwrap()).collect(),
        seeds: seeds.parse().unwrap(),
    }
}

fn sweep(values: &[&str], seeds: &str) -> Vec<Planned> {
    let sweep = unplanned(values, seeds);
    sweep.check().unwrap();
    assert_eq!(sweep.plan().unwrap().len(), sweep.len());
    sweep.plan().unwrap()
}

#[expect(clippy::unnecessary_wraps, reason = "what a sweep asks of its runner")]
fn simulate(run: &Planned) -> Option<RunRecord> {
    Some(runs::simulate(&run.scenario, run.seed, runs::RecordOptions::default(), &mut ()))
}

#[test]
fn values_are_combined_and_each_combination_has_every_seed() {
    let planned = sweep(&["noise.size=100 B,200 B", "wire.rate=1M,2M"], "3..4");
    let runs: Vec<String> = planned
        .iter()
        .map(|run| format!("{} {} {}", run.parameters["noise.size"], run.parameters["wire.rate"], run.seed))
        .collect();
    let small = ["100 B 1M 3", "100 B 1M 4", "100 B 2M 3", "100 B 2M 4"];
    assert_eq!(runs, [small, ["200 B 1M 3", "200 B 1M 4", "200 B 2M 3", "200 B 2M 4"]].concat());
}

#[test]
fn commas_within_brackets_and_quotes_separate_nothing() {
    let values = |text: &str| text.parse::<Values>().map(|values| values.values);
    assert_eq!(values("a=1,2").unwrap(), ["1", "2"]);
    assert_eq!(values("a={ x = 1, y = [2, 3] }, \"b,c\"").unwrap(), ["{ x = 1, y = [2, 3] }", "\"b,c\""]);
    assert!(values("a=1,").unwrap_err().contains("KEY=A,B,C"));
    assert_eq!("1..3,7".parse::<Seeds>().unwrap(), Seeds(vec![1, 2, 3, 7]));
    assert!("3..1".parse::<Seeds>().unwrap_err().contains("from a smaller number to a larger one"));
    assert!("few".parse::<Seeds>().unwrap_err().contains("1..30"));
    for text in ["1..30", "1,2,5", "7", "3..5,9,1..4", "18446744073709551613..18446744073709551615"] {
        assert_eq!(text.parse::<Seeds>().unwrap().to_string(), text);
    }
    assert_eq!("1..2".parse::<Seeds>().unwrap().to_string(), "1,2");
}

#[test]
fn the_outcome_does_not_depend_on_the_threads() {
    let planned = sweep(&["wire.rate=200k,1M"], "1..6");
    let outcome = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run(&planned, Vec::new(), simulate, |_| {}))
    };
    let one = outcome(1);
    assert_eq!(one, outcome(4));
    assert_eq!(one.finished.len(), 12);
}

#[test]
fn what_was_finished_is_kept_and_only_the_rest_is_run() {
    use std::{fs, io::Write};
    let folder = tempfile::tempdir().unwrap();
    let planned = sweep(&[], "1..5");
    let mut journal = Journal::create(folder.path(), "Rhône").unwrap();
    let until_3 = |run: &Planned| (run.seed <= 3).then(|| simulate(run)).flatten();
    let first = run(&planned, Vec::new(), until_3, |run| journal.append(run).unwrap());
    assert_eq!((first.finished.len(), first.missing), (3, 2));
    assert!(matches!(Journal::create(folder.path(), "Rhône"), Err(JournalError::Exists(_))));

    // The machine lost power when only the first of the two bytes of "ô" was written.
    let path = folder.path().join("journal.jsonl");
    let kept = fs::read(&path).unwrap();
    let broken_off = |more: &[u8]| {
        fs::File::options().append(true).open(&path).unwrap().write_all(more).unwrap();
        Journal::resume(folder.path(), "Rhône", &planned)
    };
    let (mut journal, known) = broken_off(b"{\"parameters\":\"Rh\xc3").unwrap();
    assert_eq!((known.len(), fs::read(&path).unwrap()), (3, kept));
    let ran = AtomicUsize::new(0);
    let counted = |run: &Planned| {
        ran.fetch_add(1, Ordering::Relaxed);
        simulate(run)
    };
    let second = run(&planned, known, counted, |run| journal.append(run).unwrap());
    assert_eq!((second.finished.len(), ran.load(Ordering::Relaxed)), (5, 2));
    assert_eq!(second, run(&planned, Vec::new(), simulate, |_| {}));
    assert_eq!(Journal::resume(folder.path(), "Rhône", &planned).unwrap().1.len(), 5);

    let complaint = broken_off(b"\xff\xfe\n").unwrap_err().to_string();
    assert!(complaint.contains("journal.jsonl:7: cannot be read"), "{complaint}");
    assert!(complaint.contains("remove the line"), "{complaint}");
}

#[test]
fn a_journal_holds_each_run_once_it_is_appended_and_a_disk_that_fails_is_told_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl");
    let mut journal = Journal::create(folder.path(), "many").unwrap();
    for number in 0..2000 {
        journal.append(&number).unwrap();
    }
    // A process that were killed here would lose nothing.
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2001);
    journal.finish().unwrap();
    let (_, known) = Journal::resume_lines::<u32>(folder.path(), "many").unwrap();
    assert_eq!(known, (0..2000).collect::<Vec<_>>());

    // It takes every byte, and cannot be brought to a disk.
    let sink = std::fs::File::options().append(true).open("/dev/null").unwrap();
    let mut journal = Journal::of("/dev/null".into(), sink).unwrap();
    let appended = (0..3).try_for_each(|number| journal.append(&number));
    let complaint = appended.and_then(|()| journal.finish()).unwrap_err().to_string();
    assert!(complaint.starts_with("/dev/null: ") && complaint.ends_with("you may write to"), "{complaint}");
}

#[test]
fn a_journal_of_a_scenario_that_was_changed_is_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    // One run: of several, whichever ends first stands first.
    let planned = sweep(&[], "1");
    let mut journal = Journal::create(folder.path(), "sweep").unwrap();
    run(&planned, Vec::new(), simulate, |run| journal.append(run).unwrap());
    let longer = Setting { path: "duration".to_owned(), value: "3 s".to_owned() };
    let scenario = Document::parse(FILE, "sweep.toml").unwrap().scenario(&[longer]).unwrap();
    let fingerprint = fingerprint(&scenario);
    let scenario = std::sync::Arc::new(scenario);
    let changed = |run: &Planned| Planned {
        scenario: scenario.clone(),
        fingerprint: fingerprint.clone(),
        ..run.clone()
    };
    let changed: Vec<Planned> = planned.iter().map(changed).collect();
    let complaint = |name: &str, planned: &[Planned]| {
        let complaint = Journal::resume(folder.path(), name, planned).unwrap_err().to_string();
        complaint.replace(&folder.path().display().to_string(), "DIR")
    };
    insta::assert_snapshot!(complaint("sweep", &changed), @"DIR/journal.jsonl: kept for the scenario as it was before it was changed (run of seed 1): give another folder, or the same scenario and arguments");
    insta::assert_snapshot!(complaint("other", &planned), @r#"DIR/journal.jsonl: kept for "sweep" by giusto 0.1.0: give another folder, or the same scenario and arguments"#);
}

#[test]
fn a_wrong_sweep_is_refused_with_the_fix() {
    let complaint = |values: &[&str], seeds: &str| {
        let sweep = unplanned(values, seeds);
        sweep.check().err().unwrap_or_else(|| sweep.plan().unwrap_err().to_string())
    };
    insta::assert_snapshot!(complaint(&["seed=1,2"], "1"), @"--set seed: seeds are given by --seeds, such as --seeds 1..30");
    insta::assert_snapshot!(complaint(&["wire.rate=1M", "wire.rate=2M"], "1"), @"--set wire.rate: given twice: give all its values at once, as wire.rate=A,B");
    insta::assert_snapshot!(complaint(&["wire.rate=1M,2M", "link.wire.rate=3M"], "1"), @"--set link.wire.rate: it takes the place of --set wire.rate before it: leave one out, or give this one first");
    insta::assert_snapshot!(complaint(&["wire.queue.target=5ms,9ms", "wire.queue=codel,pie"], "1"), @"--set wire.queue: it takes the place of --set wire.queue.target before it: leave one out, or give this one first");
    assert_eq!(sweep(&["wire.queue=codel,pie", "wire.queue.target=5ms,9ms"], "1").len(), 4);
    insta::assert_snapshot!(complaint(&["wire.rate=1M,1M"], "1"), @"--set wire.rate: 1M is given twice: leave one out");
    insta::assert_snapshot!(complaint(&["wire.rate=1M,2M"], "3,4,3"), @"seeds: 3 is given twice: leave one out");
    let without = |values: &[&str], change: fn(&mut Sweep)| {
        let mut sweep = unplanned(values, "1");
        change(&mut sweep);
        sweep.check().unwrap_err()
    };
    insta::assert_snapshot!(without(&["wire.rate=1M"], |sweep| sweep.values[0].values.clear()), @"--set wire.rate: no value, so no run: give at least one, as wire.rate=A,B");
    insta::assert_snapshot!(without(&[], |sweep| sweep.seeds.0.clear()), @"seeds: none, so no run: give at least one, such as 1..30");
    insta::assert_snapshot!(complaint(&["wire.rate=1M,fast"], "1..2"), @r#"sweep.toml: --set wire.rate=fast: link "wire": rate: "fast" is not a rate: write a number and a unit, such as "3 Mbit/s""#);
}

/// Simulates, but for a run that panics.
fn panic_once(run: &Planned) -> Option<RunRecord> {
    assert!(!(run.seed == 2 && run.parameters["wire.rate"] == "9M"), "lost count of a packet");
    simulate(run)
}

/// Runs a shard of a sweep in a folder of its own, as the command does.
fn part(folder: &std::path::Path, sweep: &Sweep, shard: Shard) {
    std::fs::create_dir_all(folder).unwrap();
    let planned = sweep.plan().unwrap();
    let part = Part::new(sweep, &planned, shard);
    let mut journal = Journal::create(folder, &part.journal()).unwrap();
    let outcome = run(&shard.of(planned), Vec::new(), panic_once, |run| journal.append(run).unwrap());
    part.write(folder, &outcome).unwrap();
}

#[test]
fn merged_parts_are_the_whole() {
    let sweep = unplanned(&["wire.rate=200k,9M", "noise.size=100 B,500 B"], "1..3,9");
    let planned = sweep.plan().unwrap();
    let whole = run(&planned, Vec::new(), panic_once, |_| {});
    assert_eq!((whole.finished.len(), whole.failed.len(), whole.missing), (14, 2, 0));
    let failed = &whole.failed[0];
    let named = (failed.seed.as_str(), failed.parameters["wire.rate"].as_str(), failed.why.as_str());
    assert_eq!(named, ("2", "9M", "lost count of a packet"));
    // More shards than runs, too: the shares of some are empty.
    for count in [1, 3, 20] {
        let folder = tempfile::tempdir().unwrap();
        let mut parts = Vec::new();
        for index in (1..=count).rev() {
            let own = folder.path().join(index.to_string());
            part(&own, &sweep, Shard { index, count });
            parts.push((index.to_string(), Part::read(&own).unwrap()));
        }
        let merged = merge(parts).unwrap();
        assert_eq!(merged.paths, ["wire.rate", "noise.size"]);
        assert_eq!(merged.scenario, planned[0].scenario.name());
        assert_eq!(merged.outcome, whole);
    }
}

#[test]
fn wrong_parts_are_refused_with_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name);
    let make = |own: &str, values: &[&str], seeds: &str, shard: &str| {
        part(&name(own), &unplanned(values, seeds), shard.parse().unwrap());
    };
    let complaint = |names: &[&str]| {
        let parts = names.iter().map(|own| Part::read(&name(own)).map(|part| ((*own).to_owned(), part)));
        let complaint = parts.collect::<Result<Vec<_>, _>>().and_then(merge).unwrap_err().to_string();
        complaint.replace(&folder.path().display().to_string(), "DIR")
    };
    for index in 1..=3 {
        make(&index.to_string(), &["wire.rate=1M,2M"], "1..4", &format!("{index}/3"));
    }
    insta::assert_snapshot!(complaint(&[]), @"no part: name the folders that `giusto sweep --shard --out` wrote");
    insta::assert_snapshot!(complaint(&["3", "1"]), @"1 of 3 shards are missing, the first is 2/3: add the folders of their parts");
    insta::assert_snapshot!(complaint(&["1", "2", "3", "1"]), @"1: shard 1/3 is in 1 too: name each part once");
    make("seeds", &["wire.rate=1M,2M"], "1..5", "2/3");
    insta::assert_snapshot!(complaint(&["1", "seeds", "3"]), @"seeds: its list of seeds is 1..5, that of 1 is 1..4: merge parts of one sweep, made by one program");
    make("values", &["wire.rate=1M,3M"], "1..4", "2/3");
    insta::assert_snapshot!(complaint(&["1", "values", "3"]), @"values: its list of values of wire.rate is 1M,3M, that of 1 is 1M,2M: merge parts of one sweep, made by one program");
    make("paths", &["noise.size=100 B,200 B"], "1..4", "2/3");
    insta::assert_snapshot!(complaint(&["1", "paths", "3"]), @r#"paths: its list of parameters is "noise.size", that of 1 is "wire.rate": merge parts of one sweep, made by one program"#);
    make("count", &["wire.rate=1M,2M"], "1..4", "2/4");
    insta::assert_snapshot!(complaint(&["1", "count", "3"]), @"count: its number of shards is 4, that of 1 is 3: merge parts of one sweep, made by one program");

    std::fs::create_dir(name("empty")).unwrap();
    insta::assert_snapshot!(complaint(&["1", "empty"]), @"DIR/empty: it has no part.json: finish the part with --resume; of a benchmark, name the files result.json");
    let file = |own: &str, file: &str| std::fs::read_to_string(name(own).join(file)).unwrap();
    let text = file("2", "part.json");
    let with = |changed: &str| {
        std::fs::write(name("2").join("part.json"), changed).unwrap();
        complaint(&["1", "2", "3"])
    };
    insta::assert_snapshot!(with(&text.replace(env!("CARGO_PKG_VERSION"), "0.0.1")), @"DIR/2: it was made by giusto 0.0.1, this is 0.1.0: use the same version");
    insta::assert_snapshot!(with(&text.replace("2/3", "4/3")), @r#"DIR/2/part.json: it cannot be used ("4/3" is not a shard: write i/n with i from 1 to n, such as 1/4 for the first of four at line 4 column 16): copy the part again, or make it again"#);
    insta::assert_snapshot!(with(&text.replace("\"1M\",", "")), @"DIR/2/part.json: it cannot be used (fingerprints: 2, combinations of values: 1): copy the part again, or make it again");
    let many = format!("[{}]", "0,".repeat(600_000) + "0");
    let ours = text.find("[\n    1,").unwrap();
    let end = ours + text[ours..].find(']').unwrap() + 1;
    insta::assert_snapshot!(with(&text.replace(&text[ours..end], &many)), @"DIR/2/part.json: it cannot be used (more than 1000000 runs): copy the part again, or make it again");
    let sources = text.find("\"fingerprints\": [\n    \"").unwrap() + 23;
    let other = format!("{}0123456789abcdef{}", &text[..sources], &text[sources + 16..]);
    let complaint_of_sources = with(&other);
    let own = &text[sources..sources + 16];
    insta::assert_snapshot!(complaint_of_sources.replace(own, "OURS"), @"2: its digest of scenario and algorithms is 0123456789abcdef, that of 1 is OURS: merge parts of one sweep, made by one program");
    // The machine of the second part went off after its first run.
    let begun: Vec<String> = file("2", "journal.jsonl").lines().take(2).map(str::to_owned).collect();
    std::fs::write(name("2").join("journal.jsonl"), begun.join("\n") + "\n").unwrap();
    let message = with(&text);
    assert!(message.starts_with("2: 2 of its runs are missing, the first is seed "), "{message}");
    assert!(message.contains(", wire.rate="), "{message}");
    assert!(message.ends_with("M: continue it with --resume"), "{message}");
    std::fs::remove_file(name("2").join("journal.jsonl")).unwrap();
    insta::assert_snapshot!(with(&text), @"DIR/2/part.json: it cannot be used (its journal.jsonl is missing): copy the part again, or make it again");
}
