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
    let flow = FlowTimeline {
        id: "call".to_owned(),
        members: 1,
        received_packets: vec![0; 100],
        received_bytes: vec![0; 100],
        sent_bytes: vec![0; 100],
        dropped_packets: vec![0; 100],
        media: Some(media),
        ..FlowTimeline::default()
    };
    let link = LinkTimeline {
        id: "wire".to_owned(),
        capacity_bps: vec![Some(600_000.0); 100],
        queue_delay_max_ms: vec![None; 100],
        ..LinkTimeline::default()
    };
    let own = FlowRecord {
        id: "call".to_owned(),
        group: "call".to_owned(),
        path: vec!["wire".to_owned()],
        ..FlowRecord::default()
    };
    let result = RunRecord {
        description: "What it is about".to_owned(),
        duration_s: 10.0,
        flows: vec![own],
        links: vec![LinkRecord {
            id: "wire".to_owned(),
            capacity_bps: Some(600_000.0),
            ..LinkRecord::default()
        }],
        timeline: Some(Timeline {
            width_s: 0.1,
            t_s: (0..100).map(|place| (f64::from(place) + 0.5) / 10.0).collect(),
            flows: vec![flow],
            links: vec![link],
        }),
        ..RunRecord::default()
    };
    let feedback = [("call".to_owned(), "remb".to_owned())].into();
    Run { controller: controller.to_owned(), feedback, result }
}

fn pair() -> Comparison {
    Comparison {
        scenario: "s".to_owned(),
        seed: "1".to_owned(),
        runs: vec![
            run("fixed", &[(0.0, 0, 500)]),
            run("<scream>", &[(1.0, 300, 800), (2.0, 800, 400), (3.0, 400, 450)]),
        ],
        ..Comparison::default()
    }
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
        chart.series.iter().map(|series| series.name().to_owned()).collect()
    };
    let titles: Vec<&str> = linked.charts.iter().map(|chart| chart.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "Target rate",
            "Received rate",
            "Queueing delay",
            "Loss",
            "Frame delay",
            "fixed: target and rates",
            "<scream>: target and rates"
        ]
    );
    for chart in &linked.charts[..5] {
        assert_eq!(names(chart)[..2], ["fixed", "<scream>"], "{}", chart.title);
        assert!(chart.keyed_elsewhere);
    }
    assert_eq!(names(&linked.charts[0])[2..], ["capacity of wire"]);
    assert!(names(&linked.charts[6]).contains(&"loss".to_owned()));
    assert!(linked.charts.iter().all(|chart| chart.x.range == Some((0.0, 10.0))));
    assert_eq!(linked.lines, ["fixed", "<scream>"]);
}

#[test]
fn the_cursor_shows_the_decision_in_force_and_the_last_decrease() {
    let linked = linked_of(&pair());
    assert_eq!(linked.columns[0].name, "target (kbit/s)");
    let told = &linked.groups[0].lines[1];
    // The target, the decision in force, and the cut before it.
    let at = |seconds: f64| {
        let place = linked.positions.iter().position(|&place| place >= seconds).unwrap();
        let said = |number: Option<usize>| number.map(|number| told.texts[number].clone());
        (told.values[0][place], said(told.current[place]), said(told.last_decrease[place]))
    };
    let because = "loss: 25.0 % of the packets";
    let rise = (1.0, format!("300.000 → 800.000 kbit/s, {because}"));
    let cut = (2.0, format!("800.000 → 400.000 kbit/s, {because}"));
    let later = (3.0, format!("400.000 → 450.000 kbit/s, {because}"));
    assert_eq!(at(0.9), (None, None, None));
    assert_eq!(at(1.0), (Some(800.0), Some(rise.clone()), None));
    assert_eq!(at(1.9), (Some(800.0), Some(rise), None));
    assert_eq!(at(2.0), (Some(400.0), Some(cut.clone()), None));
    assert_eq!(at(9.9), (Some(450.0), Some(later), Some(cut)));
    // Each is told once, however long it holds.
    assert_eq!(told.texts.len(), 3);
    assert_eq!(linked.groups[0].lines[0].texts.len(), 1);
    // A frame was complete at 5 s.
    assert_eq!(told.values[4].iter().flatten().collect::<Vec<_>>(), [&70.0]);
    assert_eq!(told.values[4][50], Some(70.0));
}

#[test]
fn an_interrupted_run_has_no_values_after_its_end() {
    let mut pair = pair();
    pair.runs[1].result.duration_s = 4.0;
    let timeline = pair.runs[1].result.timeline.as_mut().unwrap();
    timeline.t_s.truncate(40);
    timeline.flows[0].media.as_mut().unwrap().target_rate_bps.truncate(40);
    let linked = linked_of(&pair);
    let told = &linked.groups[0].lines[1];
    assert!(told.current[39].is_some() && told.current[40].is_none());
    assert!(told.values[0][39].is_some() && told.values[0][40..].iter().all(Option::is_none));
    let report = comparison(&pair, "");
    let times = |run| report.record.as_ref().unwrap().pointer(&format!("/runs/{run}/timeline/t_s")).cloned();
    assert_eq!([0, 1].map(|run| times(run).unwrap().as_array().unwrap().len()), [100, 40]);
}

#[test]
fn the_page_shows_the_scenario_and_both_controllers() {
    let report = comparison(&pair(), "giusto compare s.toml");
    let model = serde_json::to_string(&report).unwrap();
    for shown in ["What it is about", "<scream>", "giusto compare s.toml", "Received rates range from"] {
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
