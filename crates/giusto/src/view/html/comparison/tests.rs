use giusto_congestion::Cause;

use super::*;
use crate::{
    record::{DecisionRecord, FlowTimeline, LinkRecord, LinkTimeline, MediaTimeline, RunRecord, Timeline},
    run::comparison::Run,
    view::html::Section,
};

/// A run of 10 s in 100 windows, whose decisions are given in seconds and kbit/s.
fn run(controller: &str, decisions: &[(f64, u64, u64)]) -> Run {
    let decision = |&(at_s, from, to): &(f64, u64, u64)| DecisionRecord {
        at_s,
        from_bps: from * 1000,
        to_bps: to * 1000,
        cause: Cause::Loss { ratio: 0.25 },
    };
    let target = |place: usize| {
        let at_s = (place as f64 + 0.5) / 10.0;
        Some(decisions.iter().rfind(|decision| decision.0 <= at_s)?.2 as f64 * 1000.0)
    };
    let mut frame_delay_max_ms = vec![None; 100];
    frame_delay_max_ms[50] = Some(70.0);
    let media = MediaTimeline {
        target_rate_bps: (0..100).map(target).collect(),
        frame_delay_max_ms,
        decisions: decisions.iter().map(decision).collect(),
        ..MediaTimeline::default()
    };
    let (call, wire, none) = ("call".to_owned(), "wire".to_owned(), vec![0; 100]);
    let flow = FlowTimeline {
        id: call.clone(),
        members: 1,
        received_packets: none.clone(),
        received_bytes: none.clone(),
        sent_bytes: none.clone(),
        dropped_packets: none,
        media: Some(media),
        ..FlowTimeline::default()
    };
    let capacity_bps = Some(600_000.0);
    let link = LinkTimeline {
        id: wire.clone(),
        capacity_bps: vec![capacity_bps; 100],
        queue_delay_max_ms: vec![None; 100],
        ..LinkTimeline::default()
    };
    let path = vec![wire.clone()];
    let result = RunRecord {
        description: "What it is about".to_owned(),
        duration_s: 10.0,
        flows: vec![FlowRecord { id: call.clone(), group: call, path, ..FlowRecord::default() }],
        links: vec![LinkRecord { id: wire, capacity_bps, ..LinkRecord::default() }],
        timeline: Some(Timeline {
            width_s: 0.1,
            t_s: (0..100).map(|place| (f64::from(place) + 0.5) / 10.0).collect(),
            flows: vec![flow],
            links: vec![link],
        }),
        ..RunRecord::default()
    };
    let feedback = [("call".to_owned(), "remb".to_owned())].into();
    Run { controller: controller.to_owned(), live: false, feedback, result }
}

fn pair() -> Comparison {
    let scream = run("<scream>", &[(1.0, 300, 800), (2.0, 800, 400), (3.0, 400, 450)]);
    Comparison { runs: vec![run("fixed", &[(0.0, 0, 500)]), scream], ..Comparison::default() }
}

fn linked_of(pair: &Comparison) -> Linked {
    let report = comparison(pair, "giusto compare s.toml");
    let linked = report.sections.into_iter().find_map(|section| match section {
        Section::Linked(linked) => Some(*linked),
        _ => None,
    });
    linked.unwrap()
}

#[test]
fn every_chart_has_a_line_for_each_controller_in_order() {
    let linked = linked_of(&pair());
    let names = |chart: &Chart| -> Vec<String> {
        let series = serde_json::to_value(&chart.series).unwrap();
        series.as_array().unwrap().iter().map(|series| series["name"].as_str().unwrap().to_owned()).collect()
    };
    let titles: Vec<&str> = linked.charts.iter().map(|chart| chart.title.as_str()).collect();
    let shared = ["Target rate", "Received rate", "Queueing delay", "Loss", "Frame delay"];
    assert_eq!(titles, [&shared[..], &["fixed: target and rates", "<scream>: target and rates"]].concat());
    for chart in &linked.charts[..5] {
        assert_eq!(names(chart)[..2], ["fixed", "<scream>"], "{}", chart.title);
    }
    assert_eq!(names(&linked.charts[0])[2..], ["capacity of wire"]);
    assert!(names(&linked.charts[6]).contains(&"loss".to_owned()));
    assert!(linked.charts.iter().all(|chart| chart.x.range == Some((0.0, 10.0))));
    assert_eq!(linked.lines, ["fixed", "<scream>"]);
    assert_eq!(linked.groups[0].charts, [0, 1, 2, 3, 4]);
}

#[test]
fn the_cursor_has_decisions_in_force_and_last_decreases() {
    let decisions = |controller: usize| linked_of(&pair()).groups[0].decisions[controller].clone();
    let expected =
        [(1.0, "300.000 → 800", false), (2.0, "800.000 → 400", true), (3.0, "400.000 → 450", false)]
            .map(|(x, change, lower)| (x, format!("{change}.000 kbit/s, loss: 25.0 % of the packets"), lower))
            .map(|(x, text, lower)| Decision { x, text, lower });
    assert_eq!(decisions(1), expected);
    assert_eq!(decisions(0).len(), 1);
}

#[test]
fn only_decisions_that_the_cursor_can_show_are_kept() {
    let decisions = [(0.1, 9, 8), (0.2, 8, 7), (0.3, 7, 8), (0.412_39, 8, 9), (1.1, 9, 1)];
    let decisions = decisions.map(|(at_s, from_bps, to_bps)| DecisionRecord {
        at_s,
        from_bps,
        to_bps,
        cause: Cause::Start,
    });
    let of = |positions: &[f64]| -> Vec<f64> {
        shown(&decisions, positions).iter().map(|decision| decision.x).collect()
    };
    assert_eq!(of(&[0.0, 0.5, 1.0]), [0.2, 0.4123]);
    assert_eq!(of(&[0.05]), [0.0; 0]);
}

#[test]
fn an_interrupted_run_has_shorter_columns() {
    let mut pair = pair();
    pair.runs[0].result.duration_s = 4.0;
    let timeline = pair.runs[0].result.timeline.as_mut().unwrap();
    timeline.t_s.truncate(40);
    timeline.flows[0].media.as_mut().unwrap().target_rate_bps.truncate(40);
    let report = comparison(&pair, "");
    let length =
        |pointer: &str| report.record.as_ref().unwrap().pointer(pointer).unwrap().as_array().unwrap().len();
    let lengths = [0, 1].map(|run| length(&format!("/runs/{run}/timeline/t_s")));
    assert_eq!(lengths, [40, 100]);
    assert_eq!(length("/runs/0/timeline/flows/0/media/target_rate_bps"), 40);
    assert_eq!(linked_of(&pair).x, "/runs/1/timeline/t_s");
}

#[test]
fn the_cursor_goes_to_the_end_of_the_run_that_lasts_longest() {
    let mut pair = pair();
    for (longer, scale) in [(1, 2.0), (0, 4.0)] {
        let timeline = pair.runs[longer].result.timeline.as_mut().unwrap();
        timeline.t_s.iter_mut().for_each(|at| *at *= scale);
        assert_eq!(linked_of(&pair).x, format!("/runs/{longer}/timeline/t_s"));
    }
}

#[test]
fn a_missing_column_is_an_empty_line_and_keeps_the_order() {
    let mut pair = pair();
    pair.runs[0].result.timeline.as_mut().unwrap().flows[0].media = None;
    let linked = linked_of(&pair);
    let points = |line: usize| match &linked.charts[0].series[line] {
        Series::Line { points, .. } => points.clone(),
        _ => panic!("a line"),
    };
    assert_eq!(points(0), Points::from(Vec::new()));
    let target = Points::in_record("/runs/1/timeline/t_s", "/runs/1/timeline/flows/0/media/target_rate_bps");
    assert_eq!(points(1), target);
}

#[test]
fn the_page_shows_the_scenario_and_both_controllers() {
    let report = comparison(&pair(), "giusto compare s.toml");
    let model = serde_json::to_string(&report).unwrap();
    for shown in ["What it is about", "<scream>", "giusto compare s.toml", "rates are 0 bit/s for all"] {
        assert!(model.contains(shown), "{shown}");
    }
    assert!(!report.to_html().contains("<scream>"));
}

#[test]
fn a_comparison_of_nothing_has_no_chart() {
    let report = comparison(&Comparison::default(), "");
    assert_eq!(report.headline, "No controllers were compared.");
    assert!(!report.sections.iter().any(|section| matches!(section, Section::Linked(_) | Section::Chart(_))));
}
