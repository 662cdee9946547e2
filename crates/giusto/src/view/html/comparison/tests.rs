use giusto_congestion::{Cause, Decision};
use giusto_sim::{
    link::rate::RateProfile,
    observe::{Summary, Timeline},
    packet::{FlowId, LinkId},
    trace::{Note, Observer},
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::*;
use crate::{
    record::{FlowResult, SimResult},
    run::comparison::{Run, Subject},
    view::html::{PageLink, Section, Series},
};

const FLOW: FlowId = FlowId(0);

/// Two controllers over 10 s in 100 windows, whose decisions are given in seconds and kbit/s.
struct Pair {
    comparison: Comparison,
    timelines: [Timeline; 2],
    summary: Summary,
    losses: Losses,
}

fn decision(at: f64, from: u64, to: u64) -> Decision {
    let [from, to] = [from, to].map(|kilobits| DataRate::from_bps(kilobits * 1000));
    let cause = Cause::Loss { ratio: 0.25 };
    Decision { at: Timestamp::from_nanos((at * 1e9) as u64), from, to, cause }
}

fn pair() -> Pair {
    let decisions = [
        vec![decision(0.0, 0, 500)],
        vec![decision(1.0, 300, 800), decision(2.0, 800, 400), decision(3.0, 400, 450)],
    ];
    let end = Timestamp::from_nanos(10_000_000_000);
    let timelines = decisions.map(|decisions| {
        let mut timeline = Timeline::with_width(end, TimeDelta::from_millis(100));
        for decision in decisions {
            timeline.on_note(decision.at, &Note::Decided { flow: FLOW, decision });
        }
        let (delay, size) = (Some(TimeDelta::from_millis(70)), DataSize::from_bytes(1000));
        timeline
            .on_note(Timestamp::from_nanos(5_000_000_000), &Note::Frame { flow: FLOW, ssrc: 2, delay, size });
        timeline.finish();
        timeline
    });
    let run = |controller: &str| Run {
        controller: controller.to_owned(),
        result: SimResult {
            duration_s: 10.0,
            flows: vec![FlowResult { id: "call".to_owned(), ..FlowResult::default() }],
            ..SimResult::default()
        },
        ..Run::default()
    };
    let subject = Subject { name: "call".to_owned(), id: "call".to_owned(), bottleneck: None };
    let comparison = Comparison {
        scenario: "s".to_owned(),
        seed: "1".to_owned(),
        subjects: vec![subject],
        runs: vec![run("fixed"), run("<scream>")],
        ..Comparison::default()
    };
    let losses = Losses::new(&timelines[0]);
    Pair { comparison, timelines, summary: Summary::default(), losses }
}

impl Pair {
    fn page(&self) -> ComparisonPage<'_> {
        let runs = self.comparison.runs.iter().zip(&self.timelines).map(|(run, timeline)| ComparedRun {
            controller: &run.controller,
            page: SimulationPage {
                result: &run.result,
                summary: &self.summary,
                timeline,
                flows: vec![PageFlow {
                    id: FLOW,
                    name: "call".to_owned(),
                    path: vec![LinkId(0)],
                    ..PageFlow::default()
                }],
                links: vec![PageLink {
                    id: LinkId(0),
                    name: "wire".to_owned(),
                    from: "here".to_owned(),
                    to: "there".to_owned(),
                    rate: RateProfile::Fixed(DataRate::from_bps(600_000)),
                    wire: String::new(),
                    queue: String::new(),
                }],
                description: "What it is about".to_owned(),
                command: String::new(),
            },
            losses: &self.losses,
        });
        let runs = runs.collect();
        ComparisonPage { comparison: &self.comparison, runs, command: "giusto compare s.toml".to_owned() }
    }

    fn linked(&self) -> Linked {
        let report = comparison(&self.page());
        let linked = report.sections.into_iter().find_map(|section| match section {
            Section::Linked(linked) => Some(*linked),
            _ => None,
        });
        linked.unwrap()
    }
}

#[test]
fn every_plot_has_a_line_for_every_controller_in_the_same_order() {
    let linked = pair().linked();
    let names = |chart: &Chart| -> Vec<String> {
        let names = chart.series.iter().map(|series| match series {
            Series::Line { name, .. } | Series::Limit { name, .. } | Series::Events { name, .. } => name,
            other => panic!("{other:?}"),
        });
        names.cloned().collect()
    };
    let titles: Vec<&str> = linked.charts.iter().map(|chart| chart.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "Target rate",
            "Received rate",
            "Time in queue",
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
fn the_cursor_tells_the_decision_in_force_and_the_last_cut() {
    let linked = pair().linked();
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
    // The frame was whole at 5 s.
    assert_eq!(told.values[4].iter().flatten().collect::<Vec<_>>(), [&70.0]);
    assert_eq!(told.values[4][50], Some(70.0));
}

#[test]
fn a_run_that_was_ended_early_tells_nothing_after_its_end() {
    let mut pair = pair();
    pair.comparison.runs[1].result.duration_s = 4.0;
    let linked = pair.linked();
    let told = &linked.groups[0].lines[1];
    assert!(told.current[39].is_some() && told.current[40].is_none());
    assert!(told.values[0][39].is_some() && told.values[0][40..].iter().all(Option::is_none));
    let Series::Line { points, .. } = &linked.charts[0].series[1] else { panic!("a line") };
    assert_eq!(points.inline().len(), 40);
}

#[test]
fn the_page_shows_the_scenario_and_both_controllers() {
    let pair = pair();
    let report = comparison(&pair.page());
    assert!(report.headline.starts_with("2 controllers, one network"), "{}", report.headline);
    assert_eq!(report.command.as_deref(), Some("giusto compare s.toml"));
    let model = serde_json::to_string(&report).unwrap();
    assert!(model.contains("What it is about") && model.contains("<scream>"));
}

#[test]
fn a_comparison_of_nothing_has_no_chart() {
    let nothing = Comparison::default();
    let page = ComparisonPage { comparison: &nothing, runs: Vec::new(), command: String::new() };
    let report = comparison(&page);
    assert_eq!(report.headline, "0 controllers, and nothing to compare.");
    assert!(!report.sections.iter().any(|section| matches!(section, Section::Linked(_) | Section::Chart(_))));
}
