use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::*;
use crate::page::Findings;
use giusto::scenario::{Document, Expectation, FlowKind, Scenario, Setting};

fn case(id: &str) -> Case {
    CASES.iter().copied().find(|case| case.id == id).unwrap()
}

fn fixed() -> Algorithm {
    "fixed".parse().unwrap()
}

fn go_on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The quick cases with the controller that does not adapt.
static FIXED: LazyLock<Scoreboard> = LazyLock::new(|| {
    let parts = vec![(Part::Tuning, vec![1]), (Part::HeldOutVariant(Variant::HighCapacity), vec![15])];
    let plan = Plan { controllers: vec![fixed()], parts, ..Plan::new(true) };
    run(plan, go_on, |_| ()).unwrap()
});

#[test]
fn every_case_runs_with_every_controller() {
    let ids: BTreeSet<&str> = CASES.iter().map(|case| case.id).collect();
    assert_eq!(ids.len(), CASES.len());
    for case in CASES {
        for controller in Algorithm::all() {
            let scenario = case.scenario(controller, None).unwrap();
            let media = scenario.flows().iter().filter_map(|flow| match &flow.kind {
                FlowKind::Media(media) => Some((&*flow.id, media.controller, media.ecn.is_capable())),
                _ => None,
            });
            let ecn = case.id.starts_with("6.2");
            assert!(media.eq(case.media().map(|id| (id, controller, ecn))), "{}", case.id);
            for (link, _) in case.bottlenecks {
                assert!(scenario.links().iter().any(|other| other.id == *link), "{}: {link}", case.id);
            }
        }
        assert!(case.against.is_none_or(|other| ids.contains(other)), "{}", case.id);
    }
    // Every file is a case.
    let files = std::fs::read_dir(file("")).unwrap();
    let files: BTreeSet<String> = files.map(|own| own.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, CASES.iter().map(|case| case.file.to_owned()).collect());
}

#[test]
fn every_figure_has_an_id_of_its_own_and_bounds() {
    let ids: Vec<String> = FIXED.reproduction().items.into_iter().map(|item| item.id).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:#?}");
    assert!(ids.contains(&"5.4/fixed/share-of-s1-with-all-three".to_owned()), "{ids:#?}");
    for case in CASES {
        let scenario = case.scenario(fixed(), None).unwrap();
        let expected = scenario.expectations();
        let has = |bound: fn(&Expectation) -> bool| expected.iter().any(bound);
        assert!(has(|own| own.min.is_some()) && has(|own| own.max.is_some()), "{}", case.id);
    }
}

#[test]
fn the_capacities_are_those_of_the_tables() {
    let capacities = |id: &str, link: &str, moments: &[f64]| -> Vec<f64> {
        let scenario = case(id).scenario(fixed(), None).unwrap();
        let capacity = |at: &f64| (metrics::capacity(&scenario, link, *at).unwrap() / 1e4).round() / 100.0;
        moments.iter().map(capacity).collect()
    };
    // Table 1, by the link and by UDP; Table 2; Tables 3 and 4.
    for id in ["5.1", "5.1-100ms", "5.1-udp", "6.2"] {
        assert_eq!(capacities(id, "bottleneck", &[0.0, 40.0, 60.0, 80.0]), [1.0, 2.5, 0.6, 1.0], "{id}");
    }
    let moments = [0.0, 25.0, 50.0, 75.0, 100.0];
    for id in ["5.2", "5.2-udp", "6.2-5.2"] {
        assert_eq!(capacities(id, "bottleneck", &moments), [4.0, 2.0, 3.5, 1.0, 2.0], "{id}");
    }
    assert_eq!(capacities("5.3", "bottleneck", &[0.0, 20.0, 40.0, 60.0]), [2.0, 1.0, 0.5, 2.0]);
    assert_eq!(capacities("5.3", "bottleneck:reverse", &[0.0, 35.0, 70.0]), [2.0, 0.8, 2.0]);
    assert_eq!(capacities("6.3", "c-d", &[0.0]), [1.5]);
}

#[test]
fn variants_change_rates_and_delays_of_every_case() {
    for case in CASES {
        let scenario = |variant| case.scenario(fixed(), variant).unwrap();
        let base = scenario(None);
        for (link, _) in case.bottlenecks {
            let capacity = |scenario: &Scenario| metrics::capacity(scenario, link, 70.0);
            // The reverse direction of a clean feedback link has no limit.
            let Some(unchanged) = capacity(&base) else {
                assert_eq!(*link, "bottleneck:reverse");
                continue;
            };
            for (variant, factor) in [(Variant::LowCapacity, 0.7), (Variant::HighCapacity, 1.5)] {
                let ratio = capacity(&scenario(Some(variant))).unwrap() / unchanged;
                assert!((ratio - factor).abs() < 1e-6, "{}, {link}: {ratio}", case.id);
            }
        }
        let delay = |scenario: &Scenario| {
            let link = scenario.links().iter().find(|link| link.id == case.bottlenecks[0].0).unwrap();
            link.config.delay.as_steps()[0].1
        };
        let more = delay(&scenario(Some(Variant::LongRtt))) - delay(&base);
        assert_eq!(more, giusto_units::TimeDelta::from_millis(30), "{}", case.id);
    }
}

#[test]
fn held_out_variants_skip_bounds_on_rates_and_judge_utilisation() {
    let held_out = FIXED.held_out();
    let [fixed] = &held_out[..] else { panic!("{held_out:?}") };
    let Score { met, judged } = fixed.variants[1];
    // Of 5.1: 4 delays, 2 losses, oscillation, utilisation. Of 5.4 and 5.6 likewise.
    assert_eq!(fixed.unchanged.judged, judged);
    assert!(judged < fixed.tuning_seeds.judged, "{fixed:?}");
    // A sender that does not adapt has no delay, no loss and no utilisation.
    assert!(met * 2 > judged && met < judged, "{fixed:?}");
    assert_eq!(fixed.held_out_seeds.judged, 0);
    let page = FIXED.page().markdown();
    let row = page.lines().find(|line| line.starts_with("|fixed|")).unwrap();
    assert_eq!(row.matches("not run").count(), 3, "{row}");
}

#[test]
fn nothing_changes_within_a_static_period() {
    let periods = |id: &str| -> Vec<(f64, f64)> {
        let scenario = case(id).scenario(fixed(), None).unwrap();
        metrics::static_periods(&scenario).into_iter().map(|period| (period.start, period.end)).collect()
    };
    assert_eq!(periods("5.1"), [(0.0, 40.0), (40.0, 60.0), (60.0, 80.0), (80.0, 99.0)]);
    assert_eq!(periods("5.1-udp"), periods("5.1"));
    assert_eq!(periods("5.4"), [(0.0, 20.0), (20.0, 40.0), (40.0, 119.0)]);
    assert_eq!(periods("5.8"), [(0.0, 40.0), (40.0, 60.0), (60.0, 119.0)]);
}

/// The expectations of 5.1, each with whether media that always send at `rate` meet it.
fn met_at(rate: &str) -> Vec<(String, bool)> {
    let case = case("5.1");
    let (name, text) = (case.file, std::fs::read_to_string(file(case.file)).unwrap());
    let set = |path: &str, value: String| Setting { path: path.to_owned(), value };
    let settings = [
        set("s1.controller", "fixed".to_owned()),
        set("s1.video", format!("{{ model = \"fixed\", rate = \"{rate}\" }}")),
        set("s1.start-rate", "20 Mbit/s".to_owned()),
        set("s1.max-rate", "20 Mbit/s".to_owned()),
    ];
    let scenario = Document::parse(&text, name).unwrap().scenario(&settings).unwrap();
    let result = run::simulate(&scenario, 1, RecordOptions::default(), &mut ());
    result.checks.into_iter().map(|check| (check.name, check.passed)).collect()
}

fn file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/rfc8867").join(name)
}

#[test]
fn too_high_and_too_low_rates_both_fail() {
    // Ten times the capacity: the link is full, and so is its queue, and the received rate is the capacity. Half of it: what 0.6 Mbit/s can bear.
    for (rate, are_met, named) in [
        ("10 Mbit/s", true, ["rate at 1 Mbit/s", "rate at 0.6 Mbit/s", "rate at 1 Mbit/s again"]),
        ("450 kbit/s", false, ["rate at 1 Mbit/s", "rate at 2.5 Mbit/s", "rate at 1 Mbit/s again"]),
    ] {
        for (name, met) in met_at(rate) {
            assert_eq!(met == are_met, named.contains(&name.as_str()), "{rate}: {name}");
        }
    }
}

#[test]
fn packets_are_conserved() {
    for run in &FIXED.runs {
        for link in &run.result.links {
            let out = link.delivered_packets + link.dropped_packets + link.in_flight_packets;
            assert_eq!(link.offered_packets + link.duplicated_packets, out, "{}: {}", run.case, link.id);
        }
        for (metrics, flow) in run.metrics.flows.iter().zip(&run.result.flows) {
            assert_eq!(metrics.id, flow.id);
            // The intervals and the windows of expectations count the same packets.
            let error = (metrics.sent_rate_bps - flow.sent_rate_bps).abs() / flow.sent_rate_bps;
            assert!(error < 0.01, "{}: {} {error}", run.case, flow.id);
            let goodput = metrics.goodput_bps.unwrap_or(flow.received_rate_bps);
            assert!(goodput > 0.7 * flow.received_rate_bps && goodput <= flow.received_rate_bps);
        }
    }
}

#[test]
fn a_run_gives_these_metrics() {
    let run = FIXED.runs_of("5.1", "fixed").next().unwrap();
    let kbps = |bps: f64| (bps / 1e4).round() * 10.0;
    let flow = run.metrics.flows.first().unwrap();
    let frames_ms = (run.result.flows[0].frame_delay_ms.unwrap().p95 / 10.0).round() * 10.0;
    let [sent, deviation, goodput] =
        [flow.sent_rate_bps, flow.sent_rate_sd_bps, flow.goodput_bps.unwrap()].map(kbps);
    let mut text =
        format!("sent {sent} ± {deviation} kbit/s, goodput {goodput} kbit/s, frames within {frames_ms} ms");
    text.extend(run.metrics.periods.iter().map(|period| {
        let (from, to, swings) = (period.from_s, period.to_s, period.flows[0].swings);
        let (used, capacity) = (period.utilisation_ratio.unwrap(), kbps(period.capacity_bps.unwrap()));
        format!("\n{from} to {to} s: {used:.2} of {capacity} kbit/s, {swings} swings")
    }));
    insta::assert_snapshot!(text, @r"
    sent 200 ± 20 kbit/s, goodput 170 kbit/s, frames within 60 ms
    0 to 40 s: 0.19 of 1000 kbit/s, 0 swings
    40 to 60 s: 0.08 of 2500 kbit/s, 0 swings
    60 to 80 s: 0.32 of 600 kbit/s, 0 swings
    80 to 99 s: 0.20 of 1000 kbit/s, 0 swings
    ");
}

#[test]
fn an_item_says_why_it_is_not_met() {
    let reproduction = FIXED.reproduction();
    let item = |id: &str| reproduction.items.iter().find(|item| item.id == id).unwrap();
    let stalled = item("5.1/fixed/rate-at-1-mbit-s");
    assert!(stalled.agrees == Some(false));
    assert!((stalled.published - 800e3).abs() < 1e-6);
    assert_eq!(stalled.why.as_deref(), Some("expected 0.800 to 1.050 Mbit/s"));
    assert!((150e3..250e3).contains(&stalled.ours.unwrap()), "{stalled:?}");
    assert!(item("5.1/fixed/loss-in-all").does_agree());
}

#[test]
fn inexpressible_and_missing_runs_are_not_judged() {
    let plan = Plan { controllers: vec![fixed()], ..Plan::new(true) };
    let case = case("6.1");
    let board = Scoreboard { plan, runs: Vec::new(), cases: vec![(case, case.judged.to_vec())] };
    let priority = board.reproduction().items.into_iter().find(|item| item.id.contains("rate-of-s1-over"));
    let priority = priority.unwrap();
    assert!(priority.agrees.is_none() && !priority.comparable && priority.why.is_some());
    assert_eq!(priority.verdict(), "not comparable");
    assert!(board.rows().iter().all(|row| row.scores.iter().all(|score| score.count() == "not run")));
    let table = board.page().table(120);
    assert!(table.contains("Ended early after 0 of ") && !table.contains("0 of 0"), "{table}");
    let report = board.page().report("x");
    let model = serde_json::to_string(&report).unwrap();
    assert!(model.contains("not run") && !model.contains("0 of 0") && !model.contains("\"good\""), "{model}");
    assert!(board.ended_early().is_some() && report.headline.contains("Ended early"));
    assert!(!report.headline.contains("Most expectations"), "{}", report.headline);
}

#[test]
fn an_interrupted_run_reports_nothing() {
    let asked = AtomicUsize::new(0);
    let watch = || {
        asked.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Break(())
    };
    let board = run(Plan::new(true), watch, |_| panic!("none is done")).unwrap();
    assert_eq!(board.runs, []);
    assert_eq!(asked.into_inner(), board.plan.runs());
    assert!(board.reproduction().items.iter().all(|item| item.agrees.is_none()));
}

#[test]
fn the_page_has_words_besides_colours() {
    let model = serde_json::to_string(&FIXED.page().report("giusto reproduce rfc8867")).unwrap();
    let shown = model + &FIXED.page().table(120);
    for wanted in [" not met\"", " met\"", "5.4: queueing delay", "share of s3 with all three"] {
        assert!(shown.contains(wanted), "{wanted}");
    }
}

/// The lines of a page without its results: of the rows of a table the names and, of the scoreboard, the second cell.
fn shape(page: &str) -> Vec<String> {
    let mut section = "";
    let mut lines = Vec::new();
    let is_headline =
        |line: &str| line.contains("Most expectations of RFC 8867") || line.starts_with("Ended early");
    for line in page.lines().filter(|line| !is_headline(line)) {
        section = line.strip_prefix("## ").unwrap_or(section);
        let names = if section == "Scoreboard" { 2 } else { 1 };
        let mask = |(place, cell): (usize, &str)| {
            let cell = cell.trim_end_matches(" %");
            let is_result = ["not run", "–"].contains(&cell) || cell.replace(',', "").parse::<f64>().is_ok();
            if place > names && is_result { "#".to_owned() } else { cell.to_owned() }
        };
        lines.push(line.split('|').enumerate().map(mask).collect::<Vec<_>>().join("|"));
    }
    lines
}

#[test]
fn the_committed_page_has_all_cases_and_controllers() {
    let plan = Plan::new(false);
    let cases = plan.cases().unwrap();
    let board = Scoreboard { plan, runs: Vec::new(), cases };
    let committed = include_str!("../../../../docs/reproduce/rfc8867.md");
    assert_eq!(shape(committed), shape(&board.page().markdown()));
    assert_eq!(committed.lines().filter(|line| line.starts_with("|6.2")).count(), 8);
}
