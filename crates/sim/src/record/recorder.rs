//! Computes the record of a run from its events.

use std::ops::{ControlFlow, Range};

use giusto_measure::ErrorHistogram;
use giusto_units::{TimeDelta, Timestamp};

use super::{
    copies::Copies,
    figures::{Figures, FlowFigures, RepairFigures},
    plan::{Measurement, PlannedFlow, PlannedLink, RecordPlan},
    tally::{FlowTally, LinkTally, Wanted},
    timeline::TimelineRecorder,
    types::{Cdf, Distribution, FlowRecord, LinkRecord, RepairRecord, RunRecord, StreamRecord},
};
use crate::{
    link::{Link, LinkCounters, rate::RateProfile},
    packet::{DropReason, FlowId, LinkId, Packet},
    simulation::Simulation,
    trace::{Event, Note, Observer},
};

/// With more flows, the distributions of each have at most [`MAX_COLUMNS`] columns.
const MAX_PRECISE_FLOWS: usize = 64;

/// Maximum number of columns of a distribution of one of many flows: 4 kB.
const MAX_COLUMNS: usize = 448;

/// What a record takes from a run besides its events: of a simulation, or of links that run in real time.
pub trait RecordedRun {
    /// Random seed.
    fn seed(&self) -> u64;

    /// Number of events.
    fn events(&self) -> u64;

    /// A link; `None` if the run has no such link.
    fn link(&self, link: LinkId) -> Option<&Link>;
}

impl RecordedRun for Simulation {
    fn seed(&self) -> u64 {
        self.seed()
    }

    fn events(&self) -> u64 {
        self.events()
    }

    fn link(&self, link: LinkId) -> Option<&Link> {
        Some(self.link(link))
    }
}

/// Observes a run and computes its [`RunRecord`].
///
/// # Example
///
/// ```
/// use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
/// use giusto_sim::{
///     link::{LinkConfig, queue::{DropTail, Limit}, rate::RateProfile},
///     random,
///     record::{PlannedFlow, RecordPlan, Recorder},
///     simulation::Simulation,
///     traffic::{Pattern, Source},
/// };
///
/// let mut simulation = Simulation::new(1);
/// let ends = (simulation.node("here"), simulation.node("there"));
/// let rate = RateProfile::Fixed(DataRate::from_bps(8_000_000));
/// let config = LinkConfig { rate, delay: TimeDelta::from_millis(20).into(), ..LinkConfig::default() };
/// simulation.add_link("link", ends, &config, Box::new(DropTail::new(Limit::Packets(9))))?;
/// let flow = simulation.add_flow(ends.0, ends.1)?;
/// // Twice as much as fits.
/// let pattern = Pattern::constant(DataRate::from_bps(16_000_000), DataSize::from_bytes(1000));
/// simulation.add_agent(Box::new(Source::new(flow, pattern, random::stream(1, "source"))?));
///
/// let second = |s: u64| Timestamp::from_nanos(s * 1_000_000_000);
/// let window = second(1)..second(9);
/// let flows = vec![PlannedFlow { flow, window, ..PlannedFlow::default() }];
/// let mut recorder = Recorder::new(RecordPlan { end: second(10), flows, ..RecordPlan::default() });
/// simulation.run_until(second(10), &mut recorder);
///
/// let (record, _) = recorder.finish(&simulation, second(10));
/// assert_eq!(record.flows[0].sent_rate_bps, 16e6);
/// assert_eq!(record.flows[0].loss_ratio, Some(0.5));
/// // 20 ms of propagation, 1 ms of transmission, up to 9 ms of queueing.
/// assert_eq!(record.flows[0].delay_ms.expect("it received").max, 30.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Recorder {
    plan: RecordPlan,
    /// By flow id.
    flows: Vec<FlowState>,
    /// By link id.
    links: Vec<Vec<LinkTally>>,
    /// By link id: the counters at the start of its window. Links whose window begins with the run have none.
    before: Vec<Option<LinkCounts>>,
    /// For each measurement the indices of its tallies: those of its flows, or that of its link.
    measured: Vec<Vec<usize>>,
    timeline: Option<TimelineRecorder>,
}

/// One direction of a flow.
#[derive(Debug, Clone, Default)]
struct FlowState {
    /// One per window; the window of the record comes first.
    tallies: Vec<FlowTally>,
    /// For flows of answers: the measurement window, and the bytes sent in it.
    answers: Option<(Range<Timestamp>, u64)>,
    copies: Copies,
}

/// The counters of a link, and the packets inside it.
#[derive(Debug, Clone, Copy, Default)]
struct LinkCounts {
    counters: LinkCounters,
    inside: u64,
}

impl LinkCounts {
    fn of(link: &Link) -> Self {
        Self { counters: link.counters(), inside: link.in_flight() + link.backlog().packets }
    }
}

/// The entry at index `place`. Missing entries up to it are created.
fn entry<T: Default>(entries: &mut Vec<T>, place: u32) -> &mut T {
    let place = place as usize;
    if place >= entries.len() {
        entries.resize_with(place + 1, T::default);
    }
    entries.get_mut(place).expect("made just before, if it was missing")
}

impl Recorder {
    /// A recorder before the start of the run.
    pub fn new(plan: RecordPlan) -> Self {
        let max_columns = (plan.flows.len() > MAX_PRECISE_FLOWS).then_some(MAX_COLUMNS);
        let want = |delays, steps| Wanted { delays, steps, max_columns };
        // Links are few.
        let want_of_link = |delays| Wanted { delays, steps: false, max_columns: None };
        let mut flows: Vec<FlowState> = Vec::new();
        for planned in &plan.flows {
            tally(entry(&mut flows, planned.flow.0), &planned.window, want(true, false));
            if let Some(answers) = planned.answers {
                entry(&mut flows, answers.0).answers = Some((planned.window.clone(), 0));
            }
        }
        let mut links: Vec<Vec<LinkTally>> = Vec::new();
        for planned in &plan.links {
            tally_of_link(entry(&mut links, planned.link.0), &planned.window, want_of_link(true));
        }
        let measured = plan.measurements.iter().map(|measurement| match measurement {
            Measurement::Flows { flows: asked, delays, steps } => {
                let place = |(flow, window): &(FlowId, _)| {
                    tally(entry(&mut flows, flow.0), window, want(*delays, *steps))
                };
                asked.iter().map(place).collect()
            }
            Measurement::Link { link, window, delays } => {
                vec![tally_of_link(entry(&mut links, link.0), window, want_of_link(*delays))]
            }
        });
        let measured = measured.collect();
        let timeline = plan.timeline.map(|options| TimelineRecorder::new(&plan, options));
        Self { plan, flows, links, before: Vec::new(), measured, timeline }
    }

    /// The next start of a link's window for which it needs [`on_links`](Self::on_links); `None` if there is none.
    pub fn next_links(&self) -> Option<Timestamp> {
        let is_known = |link: LinkId| self.before.get(link.0 as usize).is_some_and(Option::is_some);
        let starts = self.plan.links.iter().filter(|planned| !is_known(planned.link));
        starts.map(|planned| planned.window.start).filter(|start| *start > Timestamp::ZERO).min()
    }

    /// Reads the counters of the links whose windows start at `now` at the latest. Call it when the run has processed all events
    /// before [`next_links`](Self::next_links), and none from then on: [`run_watched`](Self::run_watched) does.
    pub fn on_links(&mut self, now: Timestamp, run: &impl RecordedRun) {
        for planned in self.plan.links.iter().filter(|planned| planned.window.start <= now) {
            let before = entry(&mut self.before, planned.link.0);
            if before.is_none() {
                *before = Some(run.link(planned.link).map(LinkCounts::of).unwrap_or_default());
            }
        }
    }

    /// Whether it records gauges, so that the agents must report them.
    pub fn keeps_gauges(&self) -> bool {
        self.timeline.is_some()
    }

    /// Counts an event in the windows. Returns false for copies of packets that count already.
    #[expect(clippy::inline_always, reason = "where it is inlined, the event need not be created")]
    #[inline(always)]
    fn count(&mut self, now: Timestamp, event: &Event) -> bool {
        let Self { flows, links, .. } = self;
        let flow = event.packet().flow.0 as usize;
        match event {
            Event::Sent { packet } => {
                if let Some(state) = flows.get_mut(flow) {
                    state.on_sent(now, packet);
                }
            }
            Event::Unsent { packet } => {
                if let Some(state) = flows.get_mut(flow) {
                    state.on_unsent(now, packet);
                }
            }
            Event::Queued { .. } => {}
            Event::Dequeued { link: id, packet, sojourn, .. } => {
                if let Some(tallies) = links.get_mut(id.0 as usize) {
                    for tally in tallies {
                        tally.on_dequeued(now, packet, *sojourn);
                    }
                }
            }
            Event::Marked { link: id, .. } => {
                for tally in links.get_mut(id.0 as usize).into_iter().flatten() {
                    tally.on_marked(now);
                }
            }
            Event::Duplicated { packet, .. } => {
                if let Some(state) = flows.get_mut(flow) {
                    state.copies.duplicate(packet.sequence);
                }
            }
            Event::Dropped { link: id, packet, reason, .. } => {
                // Links deliver corrupted packets.
                let by_link = *reason != DropReason::Corruption;
                for tally in links.get_mut(id.0 as usize).into_iter().flatten().filter(|_| by_link) {
                    tally.on_dropped(now, *reason);
                }
                return flows.get_mut(flow).is_none_or(|state| state.on_dropped(packet));
            }
            Event::Delivered { packet } => {
                return flows.get_mut(flow).is_none_or(|state| state.on_delivered(now, packet));
            }
        }
        true
    }

    /// Runs `simulation` until `end`, as [`Simulation::run_watched`] does, and records it; `other` observes it as well.
    ///
    /// `other` is no type parameter, so that what runs for each event is compiled here, for speed, and not in each caller for its
    /// size.
    ///
    /// # Panics
    ///
    /// If a link does not conserve packets, which is a bug.
    pub fn run_watched(
        &mut self,
        simulation: &mut Simulation,
        end: Timestamp,
        other: &mut dyn Observer,
        watch: &mut dyn FnMut(Timestamp) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        const TICK: TimeDelta = TimeDelta::from_nanos(1);
        while let Some(start) = self.next_links().filter(|start| *start <= end) {
            self.run_part(simulation, start - TICK, other, watch)?;
            self.on_links(start, simulation);
        }
        self.run_part(simulation, end, other, watch)
    }

    fn run_part(
        &mut self,
        simulation: &mut Simulation,
        end: Timestamp,
        other: &mut dyn Observer,
        watch: &mut dyn FnMut(Timestamp) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if other.watches() {
            simulation.run_watched(end, &mut (self, other), watch)
        } else if self.timeline.is_some() {
            simulation.run_watched(end, self, watch)
        } else {
            simulation.run_watched(end, &mut Untimed(self), watch)
        }
    }

    /// The record of the run, which has reached `end`, and the figures of each measurement. Checks are left
    /// empty.
    pub fn finish(mut self, run: &impl RecordedRun, end: Timestamp) -> (RunRecord, Vec<Figures>) {
        self.flows.iter_mut().flat_map(|state| &mut state.tallies).for_each(|tally| tally.settle(end));
        self.links.iter_mut().flatten().for_each(LinkTally::settle);
        let measured = self.plan.measurements.iter().zip(&self.measured);
        let figures = measured.filter_map(|(measurement, places)| self.figures(measurement, places, end));
        let figures = figures.collect();
        let record = RunRecord {
            scenario: self.plan.scenario.clone(),
            description: self.plan.description.clone(),
            seed: run.seed().to_string(),
            duration_s: end.as_seconds(),
            wall_s: 0.0,
            events: run.events(),
            interrupted: end < self.plan.end,
            flows: self.plan.flows.iter().filter_map(|planned| self.flow(planned, end)).collect(),
            links: self.plan.links.iter().filter_map(|link| self.link(link, run, end)).collect(),
            checks: Vec::new(),
            notes: Vec::new(),
            timeline: None,
            real_time: None,
        };
        let timeline = self.timeline.take().map(|recorder| self.over_time(recorder, end));
        (RunRecord { timeline, ..record }, figures)
    }

    fn over_time(&self, recorder: TimelineRecorder, end: Timestamp) -> super::types::Timeline {
        let mut delays: Vec<Option<ErrorHistogram>> = Vec::new();
        for planned in &self.plan.flows {
            let own = self.flows.get(planned.flow.0 as usize).and_then(|state| state.tallies.first());
            if let Some((place, own)) = recorder.place(planned.flow).zip(own) {
                entry(&mut delays, place as u32).get_or_insert_default().merge(own.delay());
            }
        }
        let mut timeline = recorder.finish(&self.plan, end);
        for (flow, delays) in timeline.flows.iter_mut().zip(delays.iter().flatten()) {
            flow.delay_cdf = Cdf::of(delays);
        }
        timeline
    }

    fn flow(&self, planned: &PlannedFlow, end: Timestamp) -> Option<FlowRecord> {
        let state = self.flows.get(planned.flow.0 as usize)?;
        let tally = state.tallies.first()?;
        let figures = tally.figures(end);
        let feedback = planned.answers.filter(|_| planned.about.feedback.is_some());
        let feedback = feedback.and_then(|answers| self.flows.get(answers.0 as usize)?.answers.as_ref());
        let known = figures.arrived_packets + figures.lost_packets;
        let window = &planned.window;
        Some(FlowRecord {
            from_s: window.start.as_seconds(),
            to_s: window.end.min(end).max(window.start).as_seconds(),
            sent_rate_bps: figures.rate_bps(figures.sent_bytes),
            received_rate_bps: figures.rate_bps(figures.received_bytes),
            goodput_bps: planned.answers.map(|_| figures.rate_bps(figures.goodput_bytes)),
            sent_packets: figures.sent_packets,
            received_packets: figures.arrived_packets,
            lost_packets: figures.lost_packets,
            duplicate_packets: figures.duplicate_packets,
            loss_ratio: ratio(figures.lost_packets, known),
            marked_ratio: ratio(figures.marked_packets, figures.received_packets),
            delay_ms: Distribution::of(tally.delay()),
            queue_delay_ms: Distribution::of(tally.queue_delay()),
            target_rate_bps: figures.target_rate_bps,
            decisions: figures.decisions,
            frames: figures.frames,
            frame_delay_ms: tally.frame_delay().and_then(Distribution::of),
            feedback_rate_bps: feedback.map(|(_, bytes)| figures.rate_bps(*bytes)),
            streams: planned.about.streams.iter().map(|stream| of_stream(stream, &figures)).collect(),
            ..planned.about.clone()
        })
    }

    fn link(&self, planned: &PlannedLink, run: &impl RecordedRun, end: Timestamp) -> Option<LinkRecord> {
        let figures = self.links.get(planned.link.0 as usize)?.first()?.figures(&planned.rate, end);
        let LinkCounts { counters, inside } = LinkCounts::of(run.link(planned.link)?);
        let before = self.before.get(planned.link.0 as usize).copied().flatten().unwrap_or_default();
        let counters = counters.since(&before.counters);
        // A run that ended before its window has no other one.
        let from = if planned.window.start < end { planned.window.start } else { Timestamp::ZERO };
        let capacity = planned.rate.bits_between(from, end).filter(|_| end > from);
        Some(LinkRecord {
            utilisation_ratio: figures.utilisation_ratio,
            capacity_bps: capacity.map(|bits| bits / (end - from).as_seconds()),
            offered_packets: counters.offered_packets + before.inside,
            delivered_packets: counters.delivered_packets,
            dropped_packets: counters.dropped_packets(),
            overflow_packets: counters.overflow_packets,
            aqm_packets: counters.aqm_packets,
            lost_packets: counters.lost_packets,
            marked_packets: counters.marked_packets,
            in_flight_packets: inside,
            duplicated_packets: counters.duplicated_packets,
            corrupted_packets: counters.corrupted_packets,
            queue_delay_ms: figures.queue_delay_ms,
            ..planned.about.clone()
        })
    }

    fn figures(&self, measurement: &Measurement, places: &[usize], end: Timestamp) -> Option<Figures> {
        match measurement {
            Measurement::Flows { flows, delays: wanted, .. } => {
                let tallies = flows
                    .iter()
                    .zip(places)
                    .filter_map(|((flow, _), &place)| self.flows.get(flow.0 as usize)?.tallies.get(place));
                let tallies: Vec<&FlowTally> = tallies.collect();
                let merged = |delays: &dyn Fn(&FlowTally) -> Option<ErrorHistogram>| {
                    if !wanted {
                        return None;
                    }
                    let all = tallies.iter().filter_map(|tally| delays(tally));
                    Distribution::of(&all.reduce(|mut all, other| {
                        all.merge(&other);
                        all
                    })?)
                };
                Some(Figures::Flows {
                    flows: tallies.iter().map(|tally| tally.figures(end)).collect(),
                    delay_ms: merged(&|tally| Some(tally.delay().clone())),
                    queue_delay_ms: merged(&|tally| Some(tally.queue_delay().clone())),
                    frame_delay_ms: merged(&|tally| tally.frame_delay().cloned()),
                })
            }
            Measurement::Link { link, .. } => {
                let rate = self.plan.links.iter().find(|planned| planned.link == *link);
                let rate = rate.map_or(&RateProfile::Unlimited, |planned| &planned.rate);
                let tally = self.links.get(link.0 as usize)?.get(*places.first()?)?;
                Some(Figures::Link(tally.figures(rate, end)))
            }
        }
    }
}

/// Index of the tally of a flow for `window`. Equal windows share a tally.
fn tally(state: &mut FlowState, window: &Range<Timestamp>, wanted: Wanted) -> usize {
    let known = state.tallies.iter().position(|tally| tally.is_of(window));
    let place = known.unwrap_or_else(|| {
        state.tallies.push(FlowTally::new(window.clone(), wanted));
        state.tallies.len() - 1
    });
    state.tallies.get_mut(place).into_iter().for_each(|tally| tally.want(wanted));
    place
}

/// Index of the tally of a link for `window`.
fn tally_of_link(tallies: &mut Vec<LinkTally>, window: &Range<Timestamp>, wanted: Wanted) -> usize {
    let known = tallies.iter().position(|tally| tally.is_of(window));
    let place = known.unwrap_or_else(|| {
        tallies.push(LinkTally::new(window.clone(), wanted));
        tallies.len() - 1
    });
    tallies.get_mut(place).into_iter().for_each(|tally| tally.want(wanted));
    place
}

fn of_stream(about: &StreamRecord, figures: &FlowFigures) -> StreamRecord {
    let own = figures.streams.get(&about.ssrc);
    StreamRecord {
        goodput_bps: figures.rate_bps(own.map_or(0, |own| own.bytes)),
        frames: own.map_or(0, |own| own.frames),
        frame_delay_ms: own.and_then(|own| Distribution::of(&own.frame_delay)),
        skipped_frames: own.map(|own| own.skipped_frames),
        discarded_packets: own.map(|own| own.discarded_packets),
        late_frames: own.map(|own| own.late_frames),
        repair: about.repair.map(|_| repair(&own.map(|own| own.repair).unwrap_or_default(), figures)),
        ..about.clone()
    }
}

fn repair(own: &RepairFigures, figures: &FlowFigures) -> RepairRecord {
    let &RepairFigures { repaired_frames, requested_packets, retransmitted_packets, .. } = own;
    let &RepairFigures { parity_packets, bytes, recovered_packets, key_frame_requests, .. } = own;
    RepairRecord {
        repaired_frames: Some(repaired_frames),
        requested_packets: Some(requested_packets),
        retransmitted_packets: Some(retransmitted_packets),
        parity_packets: Some(parity_packets),
        recovered_packets: Some(recovered_packets),
        repair_rate_bps: Some(figures.rate_bps(bytes)),
        key_frame_requests: Some(key_frame_requests),
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl FlowState {
    #[inline]
    fn on_sent(&mut self, now: Timestamp, packet: &Packet) {
        for tally in &mut self.tallies {
            tally.on_sent(now, packet);
        }
        if let Some((window, bytes)) = &mut self.answers
            && window.contains(&now)
        {
            *bytes += u64::from(packet.bytes);
        }
    }

    /// Undoes [`on_sent`](Self::on_sent).
    fn on_unsent(&mut self, now: Timestamp, packet: &Packet) {
        for tally in &mut self.tallies {
            tally.on_unsent(now, packet);
        }
        if let Some((window, bytes)) = &mut self.answers
            && window.contains(&now)
        {
            *bytes = bytes.saturating_sub(u64::from(packet.bytes));
        }
    }

    /// Whether `packet` is delivered for the first time.
    #[inline]
    fn on_delivered(&mut self, now: Timestamp, packet: &Packet) -> bool {
        if !self.copies.is_empty() && !self.copies.deliver(packet.sequence) {
            self.tallies.iter_mut().for_each(|tally| tally.on_duplicate(packet));
            return false;
        }
        for tally in &mut self.tallies {
            tally.on_delivered(now, packet);
        }
        true
    }

    /// Whether `packet` is lost.
    fn on_dropped(&mut self, packet: &Packet) -> bool {
        if !self.copies.is_empty() && !self.copies.drop(packet.sequence) {
            return false;
        }
        for tally in &mut self.tallies {
            tally.on_lost(packet);
        }
        true
    }
}

impl Observer for Recorder {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        let counts = self.count(now, event);
        let Some(timeline) = &mut self.timeline else { return };
        timeline.advance(now);
        match event {
            Event::Sent { packet } => timeline.on_sent(packet),
            Event::Unsent { packet } => timeline.on_unsent(packet),
            Event::Queued { link, backlog, .. } => timeline.on_queued(now, *link, *backlog),
            Event::Dequeued { link, packet, sojourn, backlog } => {
                timeline.on_dequeued(now, *link, packet, *sojourn, *backlog);
            }
            Event::Marked { link, .. } => timeline.on_marked(now, *link),
            Event::Duplicated { .. } => {}
            Event::Dropped { link, packet, reason, backlog } => {
                timeline.on_dropped(now, *link, packet, *reason, *backlog, counts);
            }
            Event::Delivered { packet } => {
                if counts {
                    timeline.on_delivered(now, packet);
                }
            }
        }
    }

    fn on_gauge(&mut self, now: Timestamp, flow: FlowId, name: &'static str, value: f64) {
        if let Some(timeline) = &mut self.timeline {
            timeline.on_gauge(now, flow, name, value);
        }
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        let state = self.flows.get_mut(note.flow().0 as usize);
        state.into_iter().flat_map(|state| &mut state.tallies).for_each(|tally| tally.on_note(now, note));
        if let Some(timeline) = &mut self.timeline {
            timeline.on_note(now, note);
        }
    }
}

/// A recorder without a timeline. The engine does not create the events that are only for timelines.
struct Untimed<'a>(&'a mut Recorder);

impl Observer for Untimed<'_> {
    #[expect(clippy::inline_always, reason = "where it is inlined, the event need not be created")]
    #[inline(always)]
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        self.0.count(now, event);
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        self.0.on_note(now, note);
    }

    #[inline]
    fn watches_queues(&self) -> bool {
        false
    }
}
