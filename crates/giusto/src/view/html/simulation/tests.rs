use std::collections::BTreeSet;

use giusto_sim::{
    link::{
        LinkConfig,
        loss::Loss,
        queue::{DropTail, Limit},
    },
    random,
    simulation::Simulation,
    traffic::{Pattern, Source},
};
use giusto_units::{DataRate, DataSize, Timestamp};

use super::*;
use crate::view::html::{Section, Series};

/// `sources` sources of 400 kbit/s each over two links of 1 Mbit/s and 100 Mbit/s, for 5 s; the second loses one packet.
struct Run {
    result: SimResult,
    summary: Summary,
    timeline: Timeline,
    flows: Vec<PageFlow>,
    links: Vec<PageLink>,
}

fn run(sources: u32) -> Run {
    let mut simulation = Simulation::new(1);
    let end = Timestamp::from_nanos(5_000_000_000);
    let mut links = Vec::new();
    for (name, from, to, mbit, loss) in [
        ("narrow", "home", "router", 1, Loss::None),
        ("wide", "router", "<far>", 100, Loss::List(BTreeSet::from([5]))),
    ] {
        let rate = RateProfile::Fixed(DataRate::from_bps(mbit * 1_000_000));
        let config = LinkConfig {
            rate: rate.clone(),
            delay: TimeDelta::from_millis(20).into(),
            loss,
            ..LinkConfig::default()
        };
        let ends = (simulation.node(from), simulation.node(to));
        let id =
            simulation.add_link(name, ends, &config, Box::new(DropTail::new(Limit::Packets(10)))).unwrap();
        let [name, from, to, wire, queue] =
            [name, from, to, "20 ms", "drop-tail, 10 packets"].map(str::to_owned);
        links.push(PageLink { id, name, from, to, rate, wire, queue });
    }
    let mut flows = Vec::new();
    for number in 1..=sources {
        let ends = (simulation.node("home"), simulation.node("<far>"));
        let id = simulation.add_flow(ends.0, ends.1).unwrap();
        let pattern = Pattern::constant(DataRate::from_bps(400_000), DataSize::from_bytes(500));
        let name = format!("camera-{number}");
        simulation.add_agent(Box::new(Source::new(id, pattern, random::stream(1, &name)).unwrap()));
        let path = simulation.flow(id).path.clone();
        let [group, from, to] = ["camera", "home", "<far>"].map(str::to_owned);
        flows.push(PageFlow { id, name, group, from, to, path });
    }
    let mut observers = (Summary::default(), Timeline::new(end));
    simulation.run_until(end, &mut observers);
    let (summary, mut timeline) = observers;
    timeline.finish();
    timeline.gauge(Timestamp::ZERO, FlowId(0), "cwnd_bytes", 12_000.0);
    let figures = |flow: &PageFlow| {
        let figures = summary.flow(flow.id).unwrap();
        FlowResult {
            id: flow.name.clone(),
            kind: "cbr".to_owned(),
            received_rate_bps: figures.received_rate_bps(end).unwrap(),
            loss_ratio: figures.loss_ratio(),
            delay_ms: Some(Quantiles { p50: 90.0, p95: 123.0, p99: 124.0, max: 125.0 }),
            ..FlowResult::default()
        }
    };
    let carried = |link: &PageLink| LinkResult {
        id: link.name.clone(),
        utilisation_ratio: Some(0.5),
        ..LinkResult::default()
    };
    let result = SimResult {
        scenario: "test".to_owned(),
        seed: "1".to_owned(),
        duration_s: 5.0,
        wall_s: 0.01,
        flows: flows.iter().map(figures).collect(),
        links: links.iter().map(carried).collect(),
        ..SimResult::default()
    };
    Run { result, summary, timeline, flows, links }
}

impl Run {
    fn report(&self) -> Report {
        simulation(&SimulationPage {
            result: &self.result,
            summary: &self.summary,
            timeline: &self.timeline,
            flows: self.flows.clone(),
            links: self.links.clone(),
            description: String::new(),
            command: "giusto sim test.toml".to_owned(),
        })
    }
}

fn charts(report: &Report) -> Vec<(&str, Vec<&str>)> {
    let charts = report.sections.iter().filter_map(|section| match section {
        Section::Chart(chart) => Some(chart),
        _ => None,
    });
    charts.map(|chart| (chart.title.as_str(), chart.series.iter().map(name).collect())).collect()
}

fn name(series: &Series) -> &str {
    match series {
        Series::Line { name, .. }
        | Series::Limit { name, .. }
        | Series::Stacked { name, .. }
        | Series::Events { name, .. } => name,
        other => panic!("{other:?}"),
    }
}

fn check(passed: bool, value: Option<f64>) -> CheckResult {
    CheckResult {
        name: "delay of camera".to_owned(),
        passed,
        value,
        bound: "at most 100".to_owned(),
        unit: "ms".to_owned(),
    }
}

#[test]
fn a_page_shows_each_flow_and_each_link_at_which_packets_waited() {
    let run = run(3);
    let report = run.report();
    let flows = vec!["camera-1", "camera-2", "camera-3"];
    let with_capacity = [flows.clone(), vec!["all together", "capacity of narrow"]].concat();
    assert_eq!(
        charts(&report),
        [
            ("Received rate", with_capacity),
            ("One-way delay", flows.clone()),
            ("One-way delay, distribution", flows),
            ("Time in queue", vec!["narrow"]),
            ("Queue length", vec!["narrow"]),
            ("Drops and marks", vec!["queue full", "lost on the wire"]),
            ("cwnd", vec!["camera-1"]),
        ]
    );
    let html = report.to_html();
    assert!(
        html.contains("giusto sim test.toml") && html.contains("3 × camera") && html.contains("&lt;far&gt;")
    );
    assert!(html.len() < 8_000_000, "{} B", html.len());
}

#[test]
fn a_media_flow_has_its_target_its_decisions_and_its_frames_drawn() {
    use giusto_congestion::{Cause, Decision, Signal};
    use giusto_sim::trace::{Note, Observer};
    let mut run = run(1);
    let flow = run.flows[0].id;
    let delay = |signal| Cause::Delay { signal, trend_ms: 14.2, threshold_ms: 12.5 };
    for (at, from, to, cause) in [
        (1, 0, 300, Cause::Start),
        (2, 300, 500, delay(Signal::Normal)),
        (3, 500, 400, delay(Signal::OverUse)),
        (4, 400, 400, Cause::ProbeSuppressed),
    ] {
        let [from, to] = [from, to].map(|kilobits| DataRate::from_bps(kilobits * 1000));
        let at = Timestamp::from_nanos(at * 1_000_000_000);
        run.timeline.on_note(at, &Note::Decided { flow, decision: Decision { at, from, to, cause } });
        let delay = Some(TimeDelta::from_millis(40));
        run.timeline.on_note(at, &Note::Frame { flow, ssrc: 2, delay, size: DataSize::from_bytes(1000) });
    }
    run.timeline.finish();
    run.result.flows[0].target_rate_bps = Some(390_625.0);
    run.result.flows[0].decisions = Some(3);
    let report = run.report();
    let kinds = ["target", "sent", "received", "start", "delay normal", "over-use", "probe suppressed"];
    let all = [kinds.as_slice(), &["capacity of narrow"]].concat();
    let drawn = charts(&report);
    assert_eq!(drawn[0], ("camera-1: target and rates", all));
    assert_eq!(drawn[1], ("Frame delay", vec!["camera-1"]));
    let html = report.to_html();
    for told in ["over-use, trend 14.2 ms above threshold 12.5 ms: 500.000 → 400.000 kbit/s", "whole frames"]
    {
        assert!(html.contains(told), "{told}");
    }
    // Very many are thinned, and the page says so.
    for at in 1..=5_000_u64 {
        let at = Timestamp::from_nanos(4_000_000_000 + at);
        let [from, to] = [400_000, 400_001].map(DataRate::from_bps);
        let signal = if at.as_nanos().is_multiple_of(2) { Signal::Normal } else { Signal::OverUse };
        let decision = Decision { at, from, to, cause: delay(signal) };
        run.timeline.on_note(at, &Note::Decided { flow, decision });
    }
    let report = run.report();
    let Some(Section::Chart(chart)) =
        report.sections.iter().find(|section| matches!(section, Section::Chart(_)))
    else {
        panic!("a chart")
    };
    let marked = chart.series.iter().map(|series| match series {
        Series::Events { events, .. } => events.len(),
        _ => 0,
    });
    assert_eq!(marked.sum::<usize>(), 1000);
    assert!(
        chart.caption.contains("4,004 decisions with the smallest changes are left out"),
        "{}",
        chart.caption
    );
}

#[test]
fn of_several_videos_each_is_drawn_and_has_its_row() {
    use crate::record::{StreamKind, StreamResult};
    use giusto_sim::trace::{Note, Observer};

    let mut run = run(1);
    let flow = run.flows[0].id;
    run.timeline = Timeline::new(Timestamp::from_nanos(5_000_000_000));
    for place in 0..40_u64 {
        let at = Timestamp::from_nanos(place * 100_000_000);
        for (ssrc, bytes) in [(2, 4000), (3, 1000)] {
            let size = DataSize::from_bytes(bytes);
            run.timeline.on_note(at, &Note::Frame { flow, ssrc, delay: None, size });
        }
    }
    run.timeline.finish();
    run.result.flows[0].decisions = Some(0);
    let stream = |id: &str, ssrc| StreamResult {
        id: id.to_owned(),
        ssrc,
        kind: StreamKind::Video,
        priority: Some(2.5),
        received_rate_bps: 320_000.0,
        frames: 40,
        frame_delay_ms: None,
        skipped_frames: Some(7),
        discarded_packets: None,
    };
    // One alone is told with its flow.
    run.result.flows[0].streams = vec![stream("camera", 2)];
    assert!(charts(&run.report()).iter().all(|(title, _)| !title.contains("each stream")));
    run.result.flows[0].streams.push(stream("<screen>", 3));
    let report = run.report();
    let drawn = charts(&report);
    let place =
        drawn.iter().position(|(title, _)| *title == "camera-1: received rate of each stream").unwrap();
    assert_eq!(drawn[place].1, ["camera", "<screen>"]);
    let of = |section: &Section| match section {
        Section::Chart(chart) if chart.title.ends_with("each stream") => Some(chart.clone()),
        _ => None,
    };
    let chart = report.sections.iter().find_map(of).unwrap();
    let Series::Line { points, .. } = &chart.series[0] else { panic!("a line") };
    // 4000 B ten times a second are 320 kbit/s, over four of the five seconds.
    let mean = points.iter().map(|&(_, rate)| rate).sum::<f64>() / points.len() as f64;
    assert!((mean - 320.0 * 0.8).abs() < 10.0, "{mean}");
    let of = |section: &Section| match section {
        Section::Table(table) if table.title == "Streams" => Some(table.rows.len()),
        _ => None,
    };
    assert_eq!(report.sections.iter().find_map(of), Some(2));
}

#[test]
fn flows_that_are_alike_are_drawn_as_one_when_there_are_many() {
    let run = run(8);
    let report = run.report();
    assert_eq!(charts(&report)[0], ("Received rate", vec!["8 × camera", "capacity of narrow"]));
}

#[test]
fn of_many_groups_the_largest_are_drawn_and_the_rest_together() {
    let mut run = run(8);
    for flow in &mut run.flows {
        flow.group.clone_from(&flow.name);
    }
    let report = run.report();
    let names = &charts(&report)[0].1;
    assert_eq!(names.len(), 7, "{names:?}");
    assert_eq!(names[5], "3 others");
}

#[test]
fn the_verdict_says_whether_it_came_as_expected_and_if_not_what_came() {
    let of = |checks: Vec<CheckResult>| {
        let mut run = run(1);
        run.result.checks = checks;
        run.report().verdict
    };
    // 400 kbit/s less what is on its way at the end.
    let plain = of(Vec::new());
    assert!(
        plain.starts_with("1 flow got 39")
            && plain.ends_with("95 % of the packets of camera-1 took at most 123 ms."),
        "{plain}"
    );
    assert_eq!(of(vec![check(true, Some(80.0))]), "It came as expected: delay of camera.");
    assert_eq!(of(vec![check(true, Some(80.0)), check(true, Some(80.0))]), "All 2 expectations were met.");
    assert_eq!(
        of(vec![check(false, Some(123.4)), check(true, Some(80.0)), check(false, None)]),
        "2 of 3 expectations were not met: delay of camera is 123 ms, expected at most 100 ms, and 1 more."
    );
}

#[test]
fn bounds_and_what_came_are_written_alike() {
    let row = |value: f64, bound: &str, unit: &str| {
        let (bound, unit) = (bound.to_owned(), unit.to_owned());
        let check = CheckResult { value: Some(value), bound, unit, ..CheckResult::default() };
        (found(&check), super::bound(&check))
    };
    let pair = |found: &str, bound: &str| (found.to_owned(), bound.to_owned());
    let rates = "1.2 Mbit/s to 1.5 Mbit/s";
    assert_eq!(row(1.5e6, rates, "bit/s"), pair("1.500 Mbit/s", rates));
    assert_eq!(row(0.0, "0 to 3", "frames"), pair("0", "0 to 3 frames"));
    assert_eq!(row(0.98, "0.82 to 1", "ratio"), pair("0.9800", "0.82 to 1"));
    assert_eq!(row(20.0, "at most 1 s", "ms"), pair("20.0 ms", "at most 1 s"));
}

#[test]
fn what_is_hidden_in_a_wide_table_does_not_widen_the_page() {
    // Hidden words are positioned against the nearest box that is positioned itself: it must be the one that scrolls.
    let style = include_str!("../style.css");
    let rule = |name: &str| style.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(rule(".hidden {").contains("position: absolute"));
    assert!(rule(".scroll {").contains("position: relative"));
}

#[test]
fn nothing_at_all_is_still_a_page() {
    let run = Run {
        result: SimResult::default(),
        summary: Summary::default(),
        timeline: Timeline::new(Timestamp::ZERO),
        flows: Vec::new(),
        links: Vec::new(),
    };
    let report = run.report();
    assert_eq!(charts(&report), []);
    assert!(report.to_html().contains("0 flows got"));
}
