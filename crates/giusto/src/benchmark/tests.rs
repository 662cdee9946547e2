use std::ops::ControlFlow;

use giusto_congestion::Algorithm;
use sha2::{Digest, Sha256};

use super::{family::FAMILIES, *};

/// The number of families.
const COUNT: u64 = Family::ALL.len() as u64;

fn controllers(names: &[&str]) -> Vec<Algorithm> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn plan(seed: &str, scenarios: u64) -> Plan {
    let plan = Plan::new([seed], scenarios, controllers(&["gcc:libwebrtc", "scream:v2"])).unwrap();
    Plan { references: vec![Reference::Causal], ..plan }
}

fn run_all(plan: &Plan) -> BenchmarkResult {
    run(plan, Vec::new(), || false, |_| {})
}

#[test]
fn the_reference_is_that_of_the_families() {
    let rows = FAMILIES.map(|(name, happens)| format!("| `{name}` | {happens} |\n")).concat();
    let table = format!("| family | what happens |\n|---|---|\n{rows}");
    crate::generated::table_is_current("benchmark.md", "crates/giusto/src/benchmark/family.rs", &table);
}

#[test]
fn what_version_3_draws_does_not_change_is_valid_and_of_its_family() {
    let [gcc, scream] = ["gcc:libwebrtc", "scream:v2"].map(|name| name.parse().unwrap());
    let mut digest = Sha256::new();
    for number in 0..4 * COUNT {
        let drawn = draw("frozen", number);
        let family = Family::ALL[(number % COUNT) as usize];
        assert_eq!(drawn.family, family.name());
        if number < 2 * COUNT {
            digest.update(drawn.text(scream));
        }
        // Two scenarios of each family with each controller.
        let controller = [gcc, scream][(number / COUNT) as usize % 2];
        let scenario = drawn.scenario(controller).unwrap_or_else(|error| panic!("{number}: {error}"));
        // The text is the same scenario.
        let text = drawn.text(controller);
        let written = crate::scenario::Scenario::parse(&text, "benchmark").unwrap();
        assert_eq!(scenario.fingerprint(), written.fingerprint());
        // A cell's rate has a step each 20 ms.
        let steps = text.matches('[').count();
        assert!(family != Family::Lte || steps > 100, "{number}: {steps}");
    }
    let hex = digest.finalize().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    // If this fails, the scenarios differ from those of published results: raise the version, or undo the change.
    let expected = "ba427702efd89eceda6970b521256c142f7e307bdd00ca829a615af2fb2403e1";
    assert_eq!((VERSION, hex.as_str()), ("3", expected));
}

#[test]
fn the_seed_and_the_number_alone_make_a_scenario() {
    let text = |seed, number| draw(seed, number).text("fixed".parse().unwrap());
    assert_eq!(text("a", 5), text("a", 5));
    assert_ne!(text("a", 5), text("b", 5));
    // The same family, another scenario.
    assert_ne!(text("a", 5), text("a", 5 + COUNT));
}

#[test]
fn new_families_are_what_they_are_named_after() {
    use crate::scenario::Scenario;
    let scenario = |family: Family, round: u64| -> Scenario {
        let place = Family::ALL.iter().position(|own| *own == family).unwrap() as u64;
        draw("radio", place + COUNT * round).scenario("fixed".parse().unwrap()).unwrap()
    };
    // Mbit of each 20 ms.
    let bins = |scenario: &Scenario| {
        let share = share::sendable(scenario, giusto_units::TimeDelta::from_millis(20)).remove(0).1;
        share.into_iter().map(|bits| bits / 1e6).collect::<Vec<f64>>()
    };
    let longest =
        |bins: &[f64]| bins.split(|bits| *bits > 0.0).map(<[f64]>::len).max().unwrap() as f64 * 0.02;
    let (mut dead, mut again) = (0, 0);
    for round in 0..12 {
        let outages = bins(&scenario(Family::Outages, round));
        assert!((0.25..=5.0).contains(&longest(&outages)), "{round}: {}", longest(&outages));
        dead += u32::from(outages[0] <= 0.0);
        again += u32::from(outages.split(|bits| *bits > 0.0).filter(|down| !down.is_empty()).count() > 1);
        let wifi = bins(&scenario(Family::Wifi, round));
        assert!((0.02..1.0).contains(&longest(&wifi)), "{round}: {}", longest(&wifi));
        let handovers = bins(&scenario(Family::Handovers, round));
        assert!((0.0..0.6).contains(&longest(&handovers)), "{round}: {}", longest(&handovers));
        let starlink = scenario(Family::Starlink, round);
        // 15 s after an interruption comes the next one, at 40 ms at the least twice in 60 s.
        let starlink = bins(&starlink);
        let down: Vec<usize> =
            (0..starlink.len() - 1).filter(|at| starlink[at + 1] < 0.5 * starlink[*at]).collect();
        let again = |at: &usize| down.contains(&(at + 750)) || down.contains(&(at + 749));
        assert!(down.iter().any(again), "{round}: {down:?}");
    }
    assert!(dead >= 1 && again >= 1 && dead + again < 12, "{dead} {again}");
}

#[test]
fn only_controllers_that_react_to_marks_send_ecn_capable_packets() {
    let l4s = draw("ecn", 17);
    assert_eq!(l4s.family, Family::L4s.name());
    assert!(l4s.text("scream:v2".parse().unwrap()).contains("ecn = \"ect1\""));
    assert!(l4s.text("gcc:libwebrtc".parse().unwrap()).contains("ecn = \"off\""));
}

#[test]
fn every_sender_treats_old_frames_alike() {
    use crate::scenario::{FlowKind, GiveUp};
    // Of calls with others, the others' frames too.
    let drawn = draw("policy", 14);
    assert_eq!(drawn.family, Family::MixedCalls.name());
    for controller in Algorithm::all() {
        let scenario = drawn.scenario(controller).unwrap();
        let media = scenario.flows().iter().filter_map(|flow| match &flow.kind {
            FlowKind::Media(media) => Some(media),
            _ => None,
        });
        let videos: Vec<_> = media.flat_map(|media| &media.videos).collect();
        assert!(videos.len() > 1);
        for video in videos {
            let expected = (GiveUp::Never, GiveUp::After(giusto_units::TimeDelta::from_millis(400)));
            assert_eq!((video.skip_after, video.discard_after), expected, "{controller}");
        }
    }
}

/// Two controllers and the causal bound with three seeds.
fn seeds_plan() -> Plan {
    Plan { seeds: ["x", "y", "z"].map(str::to_owned).to_vec(), ..plan("x", 2) }
}

/// The result of that plan, run once for all tests.
fn of_three_seeds() -> &'static BenchmarkResult {
    static RESULT: std::sync::OnceLock<BenchmarkResult> = std::sync::OnceLock::new();
    RESULT.get_or_init(|| run_all(&seeds_plan()))
}

/// What the first seed has in it, which is what it has alone.
fn of_one_seed() -> BenchmarkResult {
    let mut one = of_three_seeds().clone();
    one.seeds.truncate(1);
    one.runs.retain(|row| row.seed == "x");
    one
}

#[test]
fn merged_shards_of_several_seeds_are_the_whole() {
    let plan = seeds_plan();
    let whole = of_three_seeds();
    assert_eq!((whole.runs.len() as u64, plan.runs()), (3 * 2 * 3, 3 * 2 * 3));
    // Each shard has scenarios of any seed.
    let shard = |text: &str| run_all(&Plan { shard: text.parse().unwrap(), ..plan.clone() });
    let parts = ["1/4", "2/4", "3/4", "4/4"].map(|text| (text.to_owned(), shard(text)));
    let of = |places: &[usize]| places.iter().map(|&place| parts[place].clone()).collect::<Vec<_>>();
    // Through JSON, as from files, in any order.
    let json = |result: &BenchmarkResult| serde_json::to_string(result).unwrap();
    let read =
        of(&[2, 0, 3, 1]).into_iter().map(|(name, part)| (name, serde_json::from_str(&json(&part)).unwrap()));
    assert_eq!(merge(read.collect()).unwrap(), *whole);

    let complaint = |parts| merge(parts).unwrap_err().to_string();
    insta::assert_snapshot!(complaint(of(&[0, 1, 2])), @r#"3 of 18 runs are missing, the first is scenario 1 of seed "y" under gcc:libwebrtc: add the file of its shard"#);
    insta::assert_snapshot!(complaint(of(&[0, 1, 0, 2, 3])), @r#"1/4: scenario 0 of seed "x" under gcc:libwebrtc is in another file too: name each shard once"#);
    let with = |change: fn(&mut BenchmarkResult)| {
        let mut parts = of(&[0, 1, 2, 3]);
        change(&mut parts[1].1);
        complaint(parts)
    };
    insta::assert_snapshot!(with(|part| part.version = "1".to_owned()), @"2/4: its benchmark version is 1, that of 1/4 3: merge shards of one benchmark, made by one program");
    insta::assert_snapshot!(with(|part| part.seeds = vec!["a".to_owned()]), @r#"2/4: its seed is "a", that of 1/4 "x,y,z": merge shards of one benchmark, made by one program"#);
    insta::assert_snapshot!(with(|part| part.runs[0].scenario = 4), @r#"2/4: scenario 4 of seed "x" under gcc:libwebrtc is none of its 2 scenarios and controllers: make the file again"#);
    assert_eq!(merge(Vec::new()), Err(MergeError::Nothing));

    // What is known is not run again.
    let mut ran = 0;
    let continued = run(&plan, whole.runs[..5].to_vec(), || false, |_| ran += 1);
    assert_eq!((continued, ran), (whole.clone(), 13));
    // A seed has the runs that it has alone; with one of them messages name none.
    let mut alone = run_all(&Plan { seeds: vec!["x".to_owned()], ..plan });
    assert_eq!(alone, of_one_seed());
    alone.runs.pop();
    insta::assert_snapshot!(complaint(vec![("x".to_owned(), alone)]), @"1 of 6 runs are missing, the first is scenario 1 under bound:causal: add the file of its shard");
}

#[test]
fn intervals_over_seeds_are_those_of_students_t() {
    let result = of_three_seeds();
    let summary = summary(result);
    let own = &summary.controllers[1];
    let mean = |seed: &str, name: &str| {
        let rows = result.runs.iter().filter(|row| row.seed == seed && row.controller == name);
        rows.map(|row| row.figures.utility.total).sum::<f64>() / 2.0
    };
    // By hand: t with 2 degrees of freedom is 4.3027 (tables of Student's t).
    let by_hand = |values: [f64; 3]| {
        let mean = values.iter().sum::<f64>() / 3.0;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2.0;
        let half = 4.302_65 * (variance / 3.0).sqrt();
        [mean - half, mean + half]
    };
    let near = |a: [f64; 2], b: [f64; 2]| {
        assert!((a[0] - b[0]).abs() < 1e-5 && (a[1] - b[1]).abs() < 1e-5, "{a:?} {b:?}");
    };
    let means = ["x", "y", "z"].map(|seed| mean(seed, "scream:v2"));
    let over = own.all.over_seeds.unwrap();
    assert_eq!(over.seeds, 3);
    near(over.utility_mean, by_hand(means));
    assert!((f64::midpoint(over.utility_mean[0], over.utility_mean[1]) - own.all.utility_mean).abs() < 1e-9);
    let bounds = ["x", "y", "z"].map(|seed| mean(seed, "scream:v2") / mean(seed, "bound:causal"));
    near(over.bound_ratio.unwrap(), by_hand(bounds));
    let differences = ["x", "y", "z"].map(|seed| mean(seed, "gcc:libwebrtc") - mean(seed, "scream:v2"));
    near(summary.pairs[0].over_seeds.unwrap(), by_hand(differences));
    assert_eq!(own.families["static"].over_seeds.unwrap().seeds, 3);
    // A goal is shown with the middle of its interval, which is not the median of all runs.
    let steady = ["x", "y", "z"].map(|seed| {
        let is_of = |row: &&RunRow| row.seed == seed && row.controller == own.name && row.family == "static";
        result.runs.iter().find(is_of).unwrap().figures.utilisation_ratio
    });
    let goal = own.goals["steady_utilisation_ratio"];
    let [low, high] = by_hand(steady);
    near(goal.over_seeds.unwrap(), [low, high]);
    let shown = format!("{:.2} ± {:.2}", f64::midpoint(low, high), (high - low) / 2.0);
    assert_ne!(shown, format!("{:.2} ± {:.2}", goal.value, (high - low) / 2.0));
    let text = crate::view::benchmark::text(&summary, 200);
    let line = text.lines().find(|line| line.starts_with("steady: use")).unwrap();
    assert!(line.contains(&shown), "{line}: {shown}");
    // One seed has none, and no word of it in its JSON.
    let one = super::summary(&of_one_seed());
    assert!(!serde_json::to_string(&one).unwrap().contains("over_seeds"));
}

#[test]
fn controllers_are_compared_on_scenarios_that_all_have_finished() {
    let mut result = run_all(&plan("early", 3));
    let runs = |result: &BenchmarkResult| -> Vec<u64> {
        summary(result).controllers.iter().map(|own| own.all.runs).collect()
    };
    assert_eq!(runs(&result), [3; 2]);
    // The last run of the second scenario is missing.
    let last = result.runs.iter().rposition(|row| row.scenario == 1).unwrap();
    result.runs.remove(last);
    assert_eq!((runs(&result), summary(&result).missing_runs), (vec![2; 2], 1));
    result.runs.truncate(1);
    assert_eq!(runs(&result), [0; 2]);
}

#[test]
fn nobody_wins_with_a_utility_of_zero_and_skewed_intervals_are_shown_whole() {
    let page = |summary: &Summary| {
        serde_json::to_string(&crate::view::html::benchmark(summary, String::new()).sections).unwrap()
    };
    let mut own = summary(&of_one_seed());
    own.pairs[0].utility_difference = 0.1;
    own.pairs[0].interval = [0.02, 0.31];
    let shown = page(&own);
    assert!(shown.contains("+0.10 (+0.02 to +0.31)") && shown.contains("-0.10 (-0.31 to -0.02)"), "{shown}");
    let winner = |summary: &Summary| {
        let report = crate::view::html::benchmark(summary, String::new());
        let sections = serde_json::to_value(&report.sections).unwrap();
        let table =
            sections.as_array().unwrap().iter().find(|own| own["content"]["title"] == "Who wins where");
        (table.unwrap()["content"]["rows"].to_string(), report.headline)
    };
    let names = own.controllers.iter().map(|own| own.name.clone()).collect::<Vec<_>>();
    let is_named = |text: &str| names.iter().any(|name| text.contains(name));
    let (rows, headline) = winner(&own);
    assert!(is_named(&rows) && is_named(&headline), "{headline} {rows}");
    for controller in &mut own.controllers {
        let all = std::iter::once(&mut controller.all).chain(controller.families.values_mut());
        all.for_each(|own| (own.utility, own.utility_mean) = (0.0, 0.0));
    }
    let (rows, headline) = winner(&own);
    assert!(
        !is_named(&rows) && headline == "No controller has a mean utility above 0.00.",
        "{headline} {rows}"
    );
}

#[test]
fn a_wrong_plan_is_refused_with_the_fix() {
    let complaint = |seed: &str, scenarios, names: &[&str]| {
        Plan::new([seed], scenarios, controllers(names)).unwrap_err().to_string()
    };
    insta::assert_snapshot!(complaint(" ", 1, &["fixed"]), @r#"the seed is empty: give any text, such as "2026-11""#);
    insta::assert_snapshot!(complaint("a,b", 1, &["fixed"]), @r#"a seed cannot contain a comma, found "a,b": commas separate seeds"#);
    let twice = Plan::new(["a", "b", "a"], 1, controllers(&["fixed"])).unwrap_err();
    assert_eq!(twice.to_string(), "seed \"a\" is named twice: leave one out");
    assert_eq!(Plan::new(Vec::<String>::new(), 1, controllers(&["fixed"])), Err(PlanError::Seed));
    insta::assert_snapshot!(complaint("a", 0, &["fixed"]), @"the number of scenarios must be from 1 to 1000000, found 0");
    insta::assert_snapshot!(complaint("a", 1, &[]), @"no controller: name at least one");
    insta::assert_snapshot!(complaint("a", 1, &["fixed", "nada", "fixed"]), @r#"controller "fixed" is named twice: leave one out"#);
}

#[test]
fn a_rate_above_the_link_is_judged_by_its_frames() {
    // A constant rate: where it fits it is near its share; where not, its frames come late or not at all.
    let fixed: Algorithm = "fixed".parse().unwrap();
    let figures = |number| simulate(&draw("judged", number), fixed, |_| ControlFlow::Continue(())).unwrap();
    let all: Vec<Figures> = (0..40).map(|round| figures(round * COUNT)).collect();
    let bad = all.iter().filter(|own| own.loss_ratio > 0.2);
    assert!(bad.clone().count() > 0);
    for own in bad {
        assert!(own.missing_ratio > 0.2 && own.utility.total < 0.2, "{own:?}");
    }
    for own in &all {
        let Utility { total, rate, delay, frames, freezes } = own.utility;
        let parts = [total, rate, delay, frames, freezes];
        assert!(parts.iter().all(|part| (0.0..=1.0).contains(part)), "{own:?}");
        assert!((0.0..=1.02).contains(&own.utilisation_ratio), "{own:?}");
        assert!(own.frame_delay_p50_ms <= own.frame_delay_p95_ms && own.frames > 400, "{own:?}");
    }
}

#[test]
fn the_bounds_are_near_what_a_link_allows_and_above_a_timid_rate() {
    let go = |_| ControlFlow::Continue(());
    let references = [Reference::Causal, Reference::Oracle, Reference::Fixed(30)];
    for number in [1, 2, 10, 11, 18] {
        let drawn = draw("bounds", number);
        let all = reference::simulate(&drawn, &references, go).unwrap();
        let [causal, oracle, timid] = all.try_into().unwrap();
        let family = &drawn.family;
        let of = |figures: &Figures| figures.utility.total;
        let bounds = [0.8, of(&causal), of(&oracle), 1.0];
        assert!(bounds.is_sorted(), "{family}: {causal:?}");
        assert!(of(&timid) < of(&causal) - 0.1, "{family}: {timid:?}");
        // They cannot take more than there is, and take what the setting says.
        assert!((0.5..=1.01).contains(&causal.utilisation_ratio), "{family}: {causal:?}");
        assert!((0.2..0.4).contains(&timid.utilisation_ratio), "{family}: {timid:?}");
    }
}

#[test]
fn a_bound_is_run_once_more_with_the_setting_that_counts() {
    let (drawn, go) = (draw("bounds", 2), |_| ControlFlow::Continue(()));
    let references = [Reference::Causal, Reference::Oracle, Reference::Fixed(30)];
    let all = reference::simulate(&drawn, &references, go).unwrap();
    for (own, figures) in references.into_iter().zip(all) {
        let replayed = Replayed::new(&drawn, own, go).unwrap();
        // Both search, this one alone: the bound is reproducible, and what bounds share changes none.
        assert_eq!(replayed.figures, figures);
        // The run that is shown is the run that is judged.
        let shown = simulate_with(&drawn, *reference::ALGORITHM, &mut replayed.taps(), go).unwrap();
        assert_eq!(shown, replayed.figures);
        assert_eq!(replayed.scenario.seed(), drawn.scenario("fixed".parse().unwrap()).unwrap().seed());
        let text = replayed.text(&drawn);
        assert!(text.starts_with(&format!("# {} is no controller", own.name())), "{text}");
        assert!(crate::scenario::Scenario::parse(&text, "bound").is_ok());
    }
}

#[test]
fn references_are_shown_and_not_ranked() {
    let result = of_one_seed();
    let summary = summary(&result);
    assert_eq!(summary.controllers.len(), 2);
    assert_eq!((summary.pairs.len(), summary.references.len()), (1, 1));
    let (bound, own) = (&summary.references[0].all, &summary.controllers[0].all);
    assert_eq!(bound.bound_ratio, Some(1.0));
    assert!((own.bound_ratio.unwrap() - own.utility_mean / bound.utility_mean).abs() < 1e-12);
    // Nothing is behind what no controller can know.
    let best = |run: &WorstRun| {
        let of = |row: &&RunRow| row.scenario == run.scenario && row.controller != "bound:causal";
        result.runs.iter().filter(of).map(|row| row.figures.utility.total).fold(0.0, f64::max)
    };
    for run in summary.controllers.iter().flat_map(|own| &own.worst) {
        assert!((run.best_utility - best(run)).abs() < 1e-12, "{run:?}");
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
        let loss = flow.loss_ratio.unwrap();
        assert!((figures.loss_ratio - loss).abs() < 2e-3, "{number}: {figures:?} {flow:?}");
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
            let ratio = figures.frame_delay_p95_ms / delays.p95;
            assert!((0.9..1.1).contains(&ratio), "{number}: {figures:?} {delays:?}");
        }
        // A policer passes its rate, which is not that of the link.
        if number != 10 {
            let used = flow.received_rate_bps / record.links[0].capacity_bps.unwrap();
            assert!((figures.utilisation_ratio - used).abs() < 0.01, "{number}: {figures:?} {used}");
        }
    }
    assert!(compared >= 1, "{compared}");
}

#[test]
fn a_scenario_of_the_callers_is_judged_as_a_drawn_one() {
    let controller: Algorithm = "scream:v2".parse().unwrap();
    for number in [0, 10, 15] {
        let drawn = draw("own", number);
        let go = |_| ControlFlow::Continue(());
        let scenario = drawn.scenario(controller).unwrap();
        let own = judge_scenario(&scenario, scenario.seed(), None, &mut { go }).unwrap().unwrap();
        assert_eq!(own.utility.total > 0.0, own.frames > 0, "{}", drawn.family);
        let as_drawn = Figures {
            rise_s: None,
            queue_delay_after_fall_p95_ms: None,
            ..simulate(&drawn, controller, go).unwrap()
        };
        assert_eq!(own, as_drawn, "{}", drawn.family);
    }
    let scenario = draw("own", 0).scenario(controller).unwrap();
    let complaint = |scenario: &crate::scenario::Scenario, flow| {
        judge_scenario(scenario, 1, flow, &mut |_| ControlFlow::Continue(())).unwrap_err()
    };
    assert!(complaint(&scenario, Some("nobody")).contains("no media flow called \"nobody\" leads to"));
    let text = draw("own", 0).text(controller).replace("\"bottleneck\"", "\"wire\"");
    let other = crate::scenario::Scenario::parse(&text, "s.toml").unwrap();
    assert!(complaint(&other, None).contains("no link is called \"bottleneck\""));
}
