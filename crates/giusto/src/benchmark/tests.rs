use std::ops::ControlFlow;

use giusto_congestion::Algorithm;
use sha2::{Digest, Sha256};

use super::*;

fn controllers(names: &[&str]) -> Vec<Algorithm> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn plan(seed: &str, scenarios: u64) -> Plan {
    Plan::new(seed, scenarios, controllers(&["gcc:libwebrtc", "scream:v2"])).unwrap()
}

fn run_all(plan: &Plan) -> BenchmarkResult {
    run(plan, Vec::new(), || false, |_| {})
}

#[test]
fn what_version_2_draws_does_not_change() {
    let texts: Vec<String> =
        (0..36).map(|number| draw("frozen", number).text("scream:v2".parse().unwrap())).collect();
    let digest = Sha256::digest(texts.concat());
    let hex = digest.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    // If this fails, the scenarios differ from those of published results: raise the version, or undo the change.
    assert_eq!(
        (VERSION, hex.as_str()),
        ("2", "c697c14360b691cc4c9e5968dc16116ac0568e3894e9670eb25b99b158b43316")
    );
}

#[test]
fn every_drawn_scenario_is_valid_and_of_its_family() {
    for number in 0..18 * 4 {
        let drawn = draw("valid", number);
        assert_eq!(drawn.family, Family::ALL[number as usize % 18]);
        for controller in ["gcc:libwebrtc", "scream:v2"] {
            let controller: Algorithm = controller.parse().unwrap();
            let scenario = drawn.scenario(controller).unwrap_or_else(|error| panic!("{number}: {error}"));
            // The text is the same scenario.
            let written = crate::scenario::Scenario::parse(&drawn.text(controller), "benchmark").unwrap();
            assert_eq!(scenario.fingerprint(), written.fingerprint());
            // A cell's rate has a step each 20 ms.
            let steps = drawn.text(controller).matches('[').count();
            assert!(drawn.family != Family::Lte || steps > 100, "{number}: {steps}");
        }
    }
}

#[test]
fn the_seed_and_the_number_alone_make_a_scenario() {
    let text = |seed, number| draw(seed, number).text("fixed".parse().unwrap());
    assert_eq!(text("a", 5), text("a", 5));
    assert_ne!(text("a", 5), text("b", 5));
    // The same family, another scenario.
    assert_ne!(text("a", 5), text("a", 23));
}

#[test]
fn only_controllers_that_react_to_marks_send_ecn_capable_packets() {
    let l4s = draw("ecn", 17);
    assert_eq!(l4s.family, Family::L4s);
    assert!(l4s.text("scream:v2".parse().unwrap()).contains("ecn = \"ect1\""));
    assert!(l4s.text("gcc:libwebrtc".parse().unwrap()).contains("ecn = \"off\""));
}

#[test]
fn merged_shards_are_the_whole() {
    let whole_plan = plan("shards", 4);
    let whole = run_all(&whole_plan);
    assert_eq!(whole.runs.len() as u64, whole.scenarios * whole.controllers.len() as u64);
    let shard = |text: &str| run_all(&Plan { shard: text.parse().unwrap(), ..whole_plan.clone() });
    let parts = ["1/3", "2/3", "3/3"].map(|text| (text.to_owned(), shard(text)));
    let of = |places: &[usize]| places.iter().map(|&place| parts[place].clone()).collect::<Vec<_>>();
    // Through JSON, as from files, in any order.
    let read = of(&[2, 0, 1])
        .into_iter()
        .map(|(name, part)| (name, serde_json::from_str(&serde_json::to_string(&part).unwrap()).unwrap()));
    let merged = merge(read.collect()).unwrap();
    assert_eq!(merged, whole);
    let json = |result: &BenchmarkResult| serde_json::to_string(&summary(result)).unwrap();
    assert_eq!(json(&merged), json(&whole));

    let complaint = |parts| merge(parts).unwrap_err().to_string();
    insta::assert_snapshot!(complaint(of(&[0, 1])), @"2 of 8 runs are missing, the first is scenario 2 under gcc:libwebrtc: add the file of its shard");
    insta::assert_snapshot!(complaint(of(&[0, 1, 0, 2])), @"1/3: scenario 0 under gcc:libwebrtc is in another file too: name each shard once");
    let mut other = of(&[0, 1, 2]);
    other[1].1.version = "1".to_owned();
    insta::assert_snapshot!(complaint(other.clone()), @"2/3: its benchmark version is 1, that of 1/3 2: merge shards of one benchmark, made by one program");
    other[1].1.version = VERSION.to_owned();
    other[1].1.seed = "another".to_owned();
    insta::assert_snapshot!(complaint(other), @r#"2/3: its seed is "another", that of 1/3 "shards": merge shards of one benchmark, made by one program"#);
    let mut foreign = of(&[0, 1, 2]);
    foreign[2].1.runs[0].scenario = 4;
    insta::assert_snapshot!(complaint(foreign), @"3/3: scenario 4 under gcc:libwebrtc is none of its 4 scenarios and controllers: make the file again");
    assert_eq!(merge(Vec::new()), Err(MergeError::Nothing));

    // What is known is not run again.
    let known = whole.runs.iter().take(3).cloned().collect();
    let mut ran = 0;
    let continued = run(&whole_plan, known, || false, |_| ran += 1);
    assert_eq!((continued, ran), (whole, 5));
}

#[test]
fn a_wrong_plan_is_refused_with_the_fix() {
    let complaint = |seed: &str, scenarios, names: &[&str]| {
        Plan::new(seed, scenarios, controllers(names)).unwrap_err().to_string()
    };
    insta::assert_snapshot!(complaint(" ", 1, &["fixed"]), @r#"the seed is empty: give any text, such as "2026-11""#);
    insta::assert_snapshot!(complaint("a", 0, &["fixed"]), @"the number of scenarios must be from 1 to 1000000, found 0");
    insta::assert_snapshot!(complaint("a", 1, &[]), @"no controller: name at least one");
    insta::assert_snapshot!(complaint("a", 1, &["fixed", "nada", "fixed"]), @r#"controller "fixed" is named twice: leave one out"#);
}

#[test]
fn a_rate_above_the_link_is_judged_by_its_frames() {
    // A constant rate: where it fits it is near its share; where not, its frames come late or not at all.
    let fixed: Algorithm = "fixed".parse().unwrap();
    let figures = |number| simulate(&draw("judged", number), fixed, |_| ControlFlow::Continue(())).unwrap();
    let all: Vec<Figures> = (0..10).map(|round| figures(round * 18)).collect();
    let bad = all.iter().filter(|own| own.loss_ratio > 0.2);
    assert!(bad.clone().count() > 0);
    for own in bad {
        assert!(own.missing_ratio > 0.2 && own.utility.total < 0.2, "{own:?}");
    }
    for own in &all {
        let Utility { total, rate, delay, frames, freezes } = own.utility;
        assert!(
            [total, rate, delay, frames, freezes].iter().all(|part| (0.0..=1.0).contains(part)),
            "{own:?}"
        );
        assert!((0.0..=1.02).contains(&own.utilisation_ratio), "{own:?}");
        assert!(own.frame_delay_p50_ms <= own.frame_delay_p95_ms && own.frames > 400, "{own:?}");
    }
}

#[test]
fn figures_agree_with_the_record_of_the_same_run() {
    use crate::{
        run::{RecordOptions, simulate as record},
        scenario::{Document, Setting},
    };
    let mut compared = 0;
    for (number, name) in [(0, "gcc:libwebrtc"), (17, "scream:v2"), (10, "gcc:libwebrtc"), (0, "scream:v2")] {
        let (drawn, controller) = (draw("frozen", number), name.parse().unwrap());
        let figures = simulate(&drawn, controller, |_| ControlFlow::Continue(())).unwrap();
        let warmup = Setting { path: "warmup".to_owned(), value: "5 s".to_owned() };
        let scenario =
            Document::parse(&drawn.text(controller), "drawn").unwrap().scenario(&[warmup]).unwrap();
        let record = record(&scenario, scenario.seed(), RecordOptions::default(), &mut ());
        let flow = &record.flows[0];
        assert!(
            (figures.loss_ratio - flow.loss_ratio.unwrap()).abs() < 2e-3,
            "{number}: {figures:?} {flow:?}"
        );
        let queue = flow.queue_delay_ms.unwrap().p95;
        assert!((figures.queue_delay_p95_ms - queue).abs() <= 0.01 * queue, "{number}: {figures:?} {flow:?}");
        // The record has whole frames alone, and those of the last two seconds. It counts a frame until its own repair, the benchmark
        // until a later frame is whole.
        let delays = flow.frame_delay_ms.unwrap();
        if figures.repaired_ratio == 0.0 {
            assert!(figures.frame_delay_p50_ms > 0.97 * delays.p50, "{number}: {figures:?} {delays:?}");
        }
        if figures.missing_ratio + figures.skipped_ratio + figures.repaired_ratio == 0.0 {
            compared += 1;
            assert!(
                (figures.frame_delay_p95_ms / delays.p95 - 1.0).abs() < 0.1,
                "{number}: {figures:?} {delays:?}"
            );
        }
        // A policer passes its rate, which is not that of the link.
        if number != 10 {
            let used = flow.received_rate_bps / record.links[0].capacity_bps.unwrap();
            assert!((figures.utilisation_ratio - used).abs() < 0.01, "{number}: {figures:?} {used}");
        }
    }
    assert!(compared >= 1, "{compared}");
}
