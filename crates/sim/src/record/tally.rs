//! Counts the events of one flow or link within one window.

use std::{collections::BTreeMap, ops::Range};

use giusto_congestion::Decision;
use giusto_measure::ErrorHistogram;
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::{
    figures::{FlowFigures, LinkFigures, StreamFigures},
    types::Distribution,
};
use crate::{
    link::rate::RateProfile,
    packet::{DropReason, Packet},
    trace::Note,
};

/// Length of the part of a window before `end`.
fn seconds(window: &Range<Timestamp>, end: Timestamp) -> f64 {
    window.end.min(end).saturating_since(window.start).as_seconds()
}

/// The distributions that a window needs, and their precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Distributions of delays.
    pub(super) delays: bool,
    /// Received bytes in steps.
    pub(super) steps: bool,
    /// Maximum number of columns of a distribution; `None`: as many as there are.
    pub(super) max_columns: Option<usize>,
}

impl Wanted {
    fn histogram(self) -> ErrorHistogram {
        self.max_columns.map_or_else(ErrorHistogram::new, ErrorHistogram::with_max_columns)
    }
}

/// Number of delays that are added to a histogram at once.
const PENDING: usize = 64;

/// Delays. They are added to the histogram several at a time, because its columns are rarely in the processor's cache: together
/// the accesses take little longer than a single one.
#[derive(Debug, Clone)]
struct Delays {
    /// Apart, so that what each packet changes is close together.
    histogram: Box<ErrorHistogram>,
    /// Delays above zero in nanoseconds, and the number of zero delays, that are not yet in the histogram.
    pending: Vec<u64>,
    zeros: u64,
}

impl Delays {
    fn new(wanted: Wanted) -> Self {
        Self { histogram: Box::new(wanted.histogram()), pending: Vec::new(), zeros: 0 }
    }

    #[inline]
    fn record(&mut self, nanos: u64) {
        if nanos == 0 {
            self.zeros += 1;
            return;
        }
        self.pending.push(nanos);
        if self.pending.len() == PENDING {
            self.add_pending();
        }
    }

    #[cold]
    #[inline(never)]
    fn add_pending(&mut self) {
        for nanos in self.pending.drain(..) {
            self.histogram.record(TimeDelta::from_nanos(nanos as i64));
        }
    }

    fn settle(&mut self) {
        self.add_pending();
        self.histogram.record_many(TimeDelta::ZERO, std::mem::take(&mut self.zeros));
    }
}

/// One flow in one window.
#[derive(Debug, Clone)]
pub(super) struct FlowTally {
    window: Range<Timestamp>,
    wanted: Wanted,
    /// What is counted so far; that of media is in `media`.
    figures: FlowFigures,
    delay: Delays,
    queue_delay: Delays,
    media: Option<Box<MediaTally>>,
}

impl FlowTally {
    pub(super) fn new(window: Range<Timestamp>, wanted: Wanted) -> Self {
        Self {
            window,
            wanted,
            figures: FlowFigures::default(),
            delay: Delays::new(wanted),
            queue_delay: Delays::new(wanted),
            media: None,
        }
    }

    /// Whether it counts in `window`.
    pub(super) fn is_of(&self, window: &Range<Timestamp>) -> bool {
        self.window == *window
    }

    /// Keeps these distributions too, from the start of the run on.
    pub(super) fn want(&mut self, more: Wanted) {
        self.wanted.delays |= more.delays;
        self.wanted.steps |= more.steps;
    }

    #[inline]
    pub(super) fn on_sent(&mut self, now: Timestamp, packet: &Packet) {
        if self.window.contains(&now) {
            self.figures.sent_packets += 1;
            self.figures.sent_bytes += u64::from(packet.bytes);
        }
    }

    /// Undoes [`on_sent`](Self::on_sent) at the same time.
    pub(super) fn on_unsent(&mut self, now: Timestamp, packet: &Packet) {
        if self.window.contains(&now) {
            self.figures.sent_packets = self.figures.sent_packets.saturating_sub(1);
            self.figures.sent_bytes = self.figures.sent_bytes.saturating_sub(u64::from(packet.bytes));
        }
    }

    /// Handles the delivery of the first copy of `packet`.
    #[inline]
    pub(super) fn on_delivered(&mut self, now: Timestamp, packet: &Packet) {
        if self.window.contains(&packet.sent) {
            self.figures.arrived_packets += 1;
        }
        if self.window.contains(&now) {
            self.figures.received_packets += 1;
            self.figures.received_bytes += u64::from(packet.bytes);
            self.figures.marked_packets += u64::from(packet.ecn == Ecn::Ce);
            if self.wanted.delays {
                self.delay.record(now.saturating_since(packet.sent).as_nanos().unsigned_abs());
                self.queue_delay.record(packet.queue_delay_ns);
            }
            if self.wanted.steps {
                self.count_step(now, packet);
            }
        }
    }

    fn count_step(&mut self, now: Timestamp, packet: &Packet) {
        let past = now.saturating_since(self.window.start).as_nanos();
        let step = usize::try_from(past / FlowFigures::STEP.as_nanos()).unwrap_or(0);
        if self.figures.step_bytes.len() <= step {
            self.figures.step_bytes.resize(step + 1, 0);
        }
        if let Some(bytes) = self.figures.step_bytes.get_mut(step) {
            *bytes += u64::from(packet.bytes);
        }
    }

    /// Handles the loss of `packet`: no copy of it will be delivered.
    #[inline]
    pub(super) fn on_lost(&mut self, packet: &Packet) {
        self.figures.lost_packets += u64::from(self.window.contains(&packet.sent));
    }

    /// Handles the delivery of a further copy of `packet`.
    pub(super) fn on_duplicate(&mut self, packet: &Packet) {
        self.figures.duplicate_packets += u64::from(self.window.contains(&packet.sent));
    }

    pub(super) fn on_note(&mut self, now: Timestamp, note: &Note) {
        let is_within = self.window.contains(&now);
        if let Note::Received { size, .. } = note {
            if is_within {
                self.figures.goodput_bytes += size.as_bytes();
            }
            return;
        }
        let wanted = self.wanted;
        let media = self.media.get_or_insert_with(|| Box::new(MediaTally::new(wanted)));
        match note {
            Note::Decided { decision, .. } => media.decide(now, decision, &self.window),
            Note::Frame { ssrc, delay, size, repaired, late, .. } if is_within => {
                self.figures.goodput_bytes += size.as_bytes();
                media.frame(*ssrc, *delay, *size);
                let stream = media.stream(*ssrc);
                stream.late_frames += u64::from(*late);
                stream.repair.repaired_frames += u64::from(*repaired);
            }
            Note::Skipped { ssrc, .. } if is_within => media.stream(*ssrc).skipped_frames += 1,
            Note::Discarded { ssrc, packets, .. } if is_within => {
                media.stream(*ssrc).discarded_packets += packets;
            }
            Note::Repair { ssrc, event, .. } if is_within => media.stream(*ssrc).repair.count(*event),
            _ => {}
        }
    }

    /// Completes the counts up to `end`, before they are read.
    pub(super) fn settle(&mut self, end: Timestamp) {
        if let Some(media) = &mut self.media {
            media.hold(end, &self.window);
        }
        self.delay.settle();
        self.queue_delay.settle();
    }

    pub(super) fn delay(&self) -> &ErrorHistogram {
        &self.delay.histogram
    }

    pub(super) fn queue_delay(&self) -> &ErrorHistogram {
        &self.queue_delay.histogram
    }

    /// Frame delays, for media.
    pub(super) fn frame_delay(&self) -> Option<&ErrorHistogram> {
        self.media.as_ref().map(|media| &media.frame_delay)
    }

    pub(super) fn figures(&self, end: Timestamp) -> FlowFigures {
        let figures = FlowFigures { seconds: seconds(&self.window, end), ..self.figures.clone() };
        let Some(media) = &self.media else { return figures };
        FlowFigures {
            target_rate_bps: media.target_bps(),
            decisions: Some(media.decisions),
            frames: Some(media.frames),
            streams: media.streams.clone(),
            ..figures
        }
    }
}

/// Reports of the agents of a media flow within a window.
#[derive(Debug, Clone)]
struct MediaTally {
    wanted: Wanted,
    /// The target and the time since which it applies, once it is known.
    target: Option<(DataRate, Timestamp)>,
    /// Sum of the targets times their durations, and the sum of these durations.
    target_bps_seconds: f64,
    seconds: f64,
    decisions: u64,
    frames: u64,
    frame_delay: ErrorHistogram,
    streams: BTreeMap<u32, StreamFigures>,
}

impl MediaTally {
    fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            target: None,
            target_bps_seconds: 0.0,
            seconds: 0.0,
            decisions: 0,
            frames: 0,
            frame_delay: wanted.histogram(),
            streams: BTreeMap::new(),
        }
    }

    fn target_bps(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.target_bps_seconds / self.seconds)
    }

    fn decide(&mut self, now: Timestamp, decision: &Decision, window: &Range<Timestamp>) {
        if self.target.is_none() && decision.from > DataRate::ZERO {
            // Before the first decision, the target was the rate that the decision changes.
            self.target = Some((decision.from, window.start));
        }
        self.hold(now, window);
        self.target = Some((decision.to, now));
        self.decisions += u64::from(window.contains(&now) && decision.from != decision.to);
    }

    /// Accounts for the target until `now`.
    fn hold(&mut self, now: Timestamp, window: &Range<Timestamp>) {
        if let Some((target, since)) = &mut self.target {
            let (from, to) = ((*since).max(window.start), now.min(window.end));
            let seconds = to.saturating_since(from).as_seconds().max(0.0);
            self.target_bps_seconds += target.as_bps() as f64 * seconds;
            self.seconds += seconds;
            *since = (*since).max(now);
        }
    }

    fn frame(&mut self, ssrc: u32, delay: Option<TimeDelta>, size: DataSize) {
        self.frames += 1;
        let wanted = self.wanted;
        let stream = self.stream(ssrc);
        stream.frames += 1;
        stream.bytes += size.as_bytes();
        if let Some(delay) = delay.filter(|_| wanted.delays) {
            stream.frame_delay.record(delay);
            self.frame_delay.record(delay);
        }
    }

    fn stream(&mut self, ssrc: u32) -> &mut StreamFigures {
        let empty = || StreamFigures { frame_delay: self.wanted.histogram(), ..StreamFigures::default() };
        self.streams.entry(ssrc).or_insert_with(empty)
    }
}

/// One link in one window.
#[derive(Debug, Clone)]
pub(super) struct LinkTally {
    window: Range<Timestamp>,
    transmitted_bytes: u64,
    /// What is counted so far.
    figures: LinkFigures,
    wanted: Wanted,
    queue_delay: Delays,
}

impl LinkTally {
    pub(super) fn new(window: Range<Timestamp>, wanted: Wanted) -> Self {
        Self {
            window,
            wanted,
            transmitted_bytes: 0,
            figures: LinkFigures::default(),
            queue_delay: Delays::new(wanted),
        }
    }

    /// Whether it counts in `window`.
    pub(super) fn is_of(&self, window: &Range<Timestamp>) -> bool {
        self.window == *window
    }

    /// Keeps these distributions too, from the start of the run on.
    pub(super) fn want(&mut self, more: Wanted) {
        self.wanted.delays |= more.delays;
    }

    #[inline]
    pub(super) fn on_dequeued(&mut self, now: Timestamp, packet: &Packet, sojourn: TimeDelta) {
        if self.window.contains(&now) {
            self.figures.packets += 1;
            self.transmitted_bytes += u64::from(packet.bytes);
            if self.wanted.delays {
                self.queue_delay.record(sojourn.as_nanos().max(0).unsigned_abs());
            }
        }
    }

    pub(super) fn on_dropped(&mut self, now: Timestamp, reason: DropReason) {
        if self.window.contains(&now) {
            self.figures.dropped_packets += 1;
            // A packet lost on the wire has already left the queue.
            self.figures.packets += u64::from(reason != DropReason::Loss);
        }
    }

    #[inline]
    pub(super) fn on_marked(&mut self, now: Timestamp) {
        self.figures.marked_packets += u64::from(self.window.contains(&now));
    }

    /// Completes the counts, before they are read.
    pub(super) fn settle(&mut self) {
        self.queue_delay.settle();
    }

    pub(super) fn figures(&self, rate: &RateProfile, end: Timestamp) -> LinkFigures {
        LinkFigures {
            utilisation_ratio: self.utilisation(rate, end),
            queue_delay_ms: Distribution::of(&self.queue_delay.histogram),
            ..self.figures
        }
    }

    /// A packet counts at the start of its transmission, so a window may count up to one packet more than its
    /// capacity: the result is limited to 1.
    fn utilisation(&self, rate: &RateProfile, end: Timestamp) -> Option<f64> {
        let capacity = rate.bits_between(self.window.start, self.window.end.min(end))?;
        (capacity > 0.0).then(|| (self.transmitted_bytes as f64 * 8.0 / capacity).min(1.0))
    }
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
