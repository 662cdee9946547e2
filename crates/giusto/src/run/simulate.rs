//! One run of one scenario with one seed.

use std::ops::ControlFlow;

use giusto_sim::{
    record::{
        FlowRecord, LinkRecord, Measurement, PlannedFlow, PlannedLink, RecordPlan, Recorder, RunRecord,
        TimelineOptions,
    },
    trace::Observer,
};
use giusto_units::Timestamp;

use crate::{
    run::{
        build::{self, Built, BuiltFlow},
        describe, expect, media, notes,
        taps::Taps,
    },
    scenario::{FlowKind, FlowSpec, LinkSpec, Scenario},
};

/// The number of times that a run reports how far it is.
const REPORTS: i64 = 500;

/// What is recorded of a run besides the statistics of flows and links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordOptions {
    /// The run over time; by default not recorded.
    pub timeline: Option<TimelineOptions>,
}

impl RecordOptions {
    /// With a timeline of these options.
    pub fn with_timeline(timeline: TimelineOptions) -> Self {
        Self { timeline: Some(timeline) }
    }
}

/// Runs `scenario` with `seed` from the beginning to the end. The same seed gives the same record. `wall_s` stays zero; a caller
/// with a clock sets it.
///
/// `observer` sees every event; `&mut ()` sees none.
///
/// # Example
///
/// ```
/// use giusto::{run::{self, RecordOptions}, scenario::Scenario};
///
/// let scenario = Scenario::parse(
///     r#"
///     duration = "10 s"
///     link = [{ id = "wire", from = "here", to = "there", rate = "1 Mbit/s", delay = "20 ms" }]
///     flow = [{ id = "voice", kind = "cbr", rate = "64 kbit/s", size = "200 B" }]
///     "#,
///     "voice.toml",
/// )?;
/// let record = run::simulate(&scenario, 1, RecordOptions::default(), &mut ());
/// assert_eq!(record.flows[0].sent_packets, 400);
/// // 20 ms of propagation, and 200 B at 1 Mbit/s.
/// assert_eq!(record.flows[0].delay_ms.unwrap().max, 21.6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn simulate(
    scenario: &Scenario,
    seed: u64,
    options: RecordOptions,
    observer: &mut impl Observer,
) -> RunRecord {
    simulate_watched(scenario, seed, options, observer, |_| ControlFlow::Continue(()))
}

/// Runs `scenario` as [`simulate`] does, and asks `watch` whether to go on: several hundred times in simulated time, and after each
/// [`EVENTS_PER_LOOK`](giusto_sim::simulation::EVENTS_PER_LOOK) events and each few flows that are built. Its argument is how far the
/// run has come.
///
/// A run that is ended early has a record too, of the time until then, without checks; ended while it was built, without some flows.
///
/// # Panics
///
/// If a link lost count of its packets, which is a bug.
pub fn simulate_watched(
    scenario: &Scenario,
    seed: u64,
    options: RecordOptions,
    observer: &mut impl Observer,
    watch: impl FnMut(Timestamp) -> ControlFlow<()>,
) -> RunRecord {
    simulate_with(scenario, seed, options, &mut (), observer, watch)
}

/// Runs a scenario with a seed as [`simulate_watched`] does; `taps` sees the controllers and the datagrams of media flows.
///
/// # Panics
///
/// If a link lost count of its packets, which is a bug.
pub fn simulate_with(
    scenario: &Scenario,
    seed: u64,
    options: RecordOptions,
    taps: &mut dyn Taps,
    observer: &mut impl Observer,
    mut watch: impl FnMut(Timestamp) -> ControlFlow<()>,
) -> RunRecord {
    simulate_by(scenario, seed, options, taps, observer, &mut watch)
}

/// The same, compiled once.
fn simulate_by(
    scenario: &Scenario,
    seed: u64,
    options: RecordOptions,
    taps: &mut dyn Taps,
    observer: &mut dyn Observer,
    watch: &mut dyn FnMut(Timestamp) -> ControlFlow<()>,
) -> RunRecord {
    let last = scenario.end();
    // Nothing is missing of a run that has come to its end.
    let mut watch = |now| if now < last { watch(now) } else { ControlFlow::Continue(()) };
    let mut is_over = || watch(Timestamp::ZERO).is_break();
    let mut built = build::simulation_unless(scenario, seed, taps, &mut is_over);
    let (asked, measurements): (Vec<_>, Vec<_>) = expect::ask(scenario, &built).into_iter().unzip();
    let mut recorder = Recorder::new(plan(scenario, &built, measurements, options));
    let mut end = Timestamp::ZERO;
    let reports = if built.is_part { 0 } else { REPORTS };
    for report in 1..=reports {
        let part = i128::from(scenario.duration().as_nanos()) * i128::from(report) / i128::from(REPORTS);
        end = Timestamp::from_nanos(part as u64);
        let flow = recorder.run_watched(&mut built.simulation, end, observer, &mut watch);
        if flow.is_break() {
            end = built.simulation.now();
            break;
        }
        if recorder.keeps_gauges() || observer.watches() {
            built.simulation.report_gauges(end, &mut (&mut recorder, &mut *observer));
        }
        if watch(end).is_break() {
            break;
        }
    }
    let (mut record, figures) = recorder.finish(&built.simulation, end);
    if !record.interrupted {
        record.checks = asked.iter().zip(&figures).map(|(asked, figures)| asked.check(figures)).collect();
    }
    record.notes = notes::short_queues(scenario, &record);
    record.notes.extend(notes::unjudged(scenario));
    record
}

fn plan(
    scenario: &Scenario,
    built: &Built,
    measurements: Vec<Measurement>,
    options: RecordOptions,
) -> RecordPlan {
    let flows = built.flows.iter().filter_map(|flow| {
        let about = about_flow(flow, scenario.flows().get(flow.spec)?, built);
        let window = expect::window_of_flow(scenario, flow);
        Some(PlannedFlow { flow: flow.forwards, answers: flow.backwards, window, about })
    });
    let links = scenario.links().iter().zip(&built.links).map(|(spec, &link)| PlannedLink {
        link,
        rate: spec.config.rate.clone(),
        window: expect::window_of_link(scenario),
        about: about_link(spec),
    });
    RecordPlan {
        scenario: scenario.name().to_owned(),
        description: scenario.description().to_owned(),
        end: scenario.end(),
        flows: flows.collect(),
        links: links.collect(),
        measurements,
        timeline: options.timeline,
    }
}

pub(crate) fn about_flow(flow: &BuiltFlow, spec: &FlowSpec, built: &Built) -> FlowRecord {
    let network = built.simulation.network();
    let path = built.simulation.flow(flow.forwards).path.iter();
    let path = path.filter_map(|link| Some(network.links().get(link.0 as usize)?.name.clone()));
    let media = match &spec.kind {
        FlowKind::Media(media) => Some(media),
        _ => None,
    };
    FlowRecord {
        id: flow.name.clone(),
        group: spec.id.clone(),
        kind: spec.kind.name().to_owned(),
        controller: spec.kind.controller(),
        feedback: media.map(|media| media.reported().name().to_owned()),
        from: spec.from.clone(),
        to: spec.to.clone(),
        path: path.collect(),
        streams: media.map(|media| media::stream_records(media, 0)).unwrap_or_default(),
        ..FlowRecord::default()
    }
}

pub(crate) fn about_link(spec: &LinkSpec) -> LinkRecord {
    LinkRecord {
        id: spec.id.clone(),
        from: spec.from.clone(),
        to: spec.to.clone(),
        rate: describe::rate(&spec.config.rate),
        wire: describe::wire(spec),
        queue: spec.queue.discipline().describe(),
        ..LinkRecord::default()
    }
}
