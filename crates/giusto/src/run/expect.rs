//! Measures exactly the times that are asked for: of each flow, of each link, of each expectation.
//!
//! A window begins with its first moment and ends before its last. What counts is
//!
//! | figure | packets of the window |
//! |---|---|
//! | sent | sent in it |
//! | received, marked, delay, queue delay of a flow | delivered in it |
//! | loss | sent in it and either delivered or dropped since |
//! | utilisation, queue delay of a link | taken from its queue in it |
//! | dropped, marked of a link | over those that left its queue in it, one way or the other |
//!
//! Of media, frames count that arrived whole in it, changes of the target that were decided in it, and the target itself while it
//! held in it.

use std::collections::BTreeMap;

use giusto_congestion::Decision;
use giusto_measure::ErrorHistogram;
use giusto_sim::{
    link::rate::RateProfile,
    packet::{DropReason, FlowId, LinkId},
    trace::{Event, Note, Observer},
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use crate::record::Quantiles;
use crate::scenario::Figure;

/// A time of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

impl Window {
    fn holds(self, moment: Timestamp) -> bool {
        self.from <= moment && moment < self.to
    }

    /// How long it lasts, as far as it lies before `end`.
    pub(super) fn seconds(self, end: Timestamp) -> f64 {
        self.to.min(end).saturating_since(self.from).as_seconds()
    }
}

/// In such steps is looked for a rate that is reached.
const STEP: TimeDelta = TimeDelta::from_millis(500);

/// What went over one flow or link in one window.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    pub(super) window: Window,
    /// Of a flow: sent. Of a link: left the queue, dropped or not.
    pub(super) packets: u64,
    /// Of a flow: sent. Of a link: transmitted.
    pub(super) bytes: u64,
    pub(super) received_packets: u64,
    pub(super) received_bytes: u64,
    /// Sent in the window and delivered since.
    arrived: u64,
    /// Of a flow: sent in the window and dropped since. Of a link: dropped or lost in the window.
    lost: u64,
    marked: u64,
    pub(super) delay: ErrorHistogram,
    pub(super) queue_delay: ErrorHistogram,
    /// Packets that did not wait at all, still to be counted in `queue_delay`: of most links most.
    unhindered: u64,
    /// Bytes that were received in each [`STEP`] of the window, if anybody asked for them.
    steps: Option<Vec<u64>>,
    /// What agents told of it, if they told anything.
    media: Option<Box<MediaTally>>,
}

impl Tally {
    pub(super) fn new(window: Window) -> Self {
        Self {
            window,
            packets: 0,
            bytes: 0,
            received_packets: 0,
            received_bytes: 0,
            arrived: 0,
            lost: 0,
            marked: 0,
            delay: ErrorHistogram::new(),
            queue_delay: ErrorHistogram::new(),
            unhindered: 0,
            steps: None,
            media: None,
        }
    }

    /// Adds what `other` counted, of another flow.
    pub(super) fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.received_packets += other.received_packets;
        self.received_bytes += other.received_bytes;
        self.arrived += other.arrived;
        self.lost += other.lost;
        self.marked += other.marked;
        self.delay.merge(&other.delay);
        self.queue_delay.merge(&other.queue_delay);
        if let Some(other) = &other.media {
            self.media.get_or_insert_default().merge(other);
        }
    }

    /// Of media: what its controller and its receiver told.
    pub(super) fn media(&self) -> Option<&MediaTally> {
        self.media.as_deref()
    }

    /// Of a flow: what was dropped of what has a fate.
    pub(super) fn loss(&self) -> Option<f64> {
        ratio(self.lost, self.lost + self.arrived)
    }

    /// Of a flow: what carries a mark of what arrived.
    pub(super) fn marked(&self) -> Option<f64> {
        ratio(self.marked, self.received_packets)
    }

    /// Of a link: what was dropped or lost of what left the queue.
    pub(super) fn link_dropped(&self) -> Option<f64> {
        ratio(self.lost, self.packets)
    }

    /// Of a link: what was marked of what left the queue.
    pub(super) fn link_marked(&self) -> Option<f64> {
        ratio(self.marked, self.packets)
    }

    /// Of a link of this rate: transmitted over what could have been until `end`. A packet counts where its transmission begins,
    /// so a window may seem to hold a part of a packet too many: that is no more than all.
    pub(super) fn utilisation(&self, rate: &RateProfile, end: Timestamp) -> Option<f64> {
        let (from, to) = (rate.capacity(self.window.from)?, rate.capacity(self.window.to.min(end))?);
        let capacity = to.saturating_sub(from);
        (capacity > DataSize::ZERO).then(|| (self.bytes as f64 / capacity.as_bytes() as f64).min(1.0))
    }

    fn on_flow_event(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::Sent { packet } if self.window.holds(now) => {
                self.packets += 1;
                self.bytes += u64::from(packet.bytes);
            }
            Event::Dropped { packet, .. } if self.window.holds(packet.sent) => self.lost += 1,
            Event::Delivered { packet } => {
                if self.window.holds(packet.sent) {
                    self.arrived += 1;
                }
                if self.window.holds(now) {
                    self.received_packets += 1;
                    self.received_bytes += u64::from(packet.bytes);
                    if let Some(steps) = &mut self.steps {
                        let past = now.saturating_since(self.window.from).as_nanos();
                        let step = usize::try_from(past / STEP.as_nanos()).unwrap_or(0);
                        if steps.len() <= step {
                            steps.resize(step + 1, 0);
                        }
                        if let Some(bytes) = steps.get_mut(step) {
                            *bytes += u64::from(packet.bytes);
                        }
                    }
                    self.marked += u64::from(packet.ecn == Ecn::Ce);
                    self.delay.record(now.saturating_since(packet.sent));
                    self.queue_delay.record(TimeDelta::from_nanos(packet.waited_ns as i64));
                }
            }
            _ => {}
        }
    }

    fn on_link_event(&mut self, now: Timestamp, event: &Event) {
        if !self.window.holds(now) {
            return;
        }
        match event {
            Event::Dequeued { packet, sojourn, .. } => {
                self.packets += 1;
                self.bytes += u64::from(packet.bytes);
                if *sojourn > TimeDelta::ZERO {
                    self.queue_delay.record(*sojourn);
                } else {
                    self.unhindered += 1;
                }
            }
            Event::Dropped { reason, .. } => {
                self.lost += 1;
                // What is lost on the wire has left the queue before.
                self.packets += u64::from(*reason != DropReason::Loss);
            }
            Event::Marked { .. } => self.marked += 1,
            _ => {}
        }
    }
}

/// What a controller decided, and the frames that arrived whole.
#[derive(Debug, Clone)]
pub(super) struct MediaTally {
    /// The target since when, if it is known.
    target: Option<(DataRate, Timestamp)>,
    /// The sum of the targets, weighed by the time for which they held, and that time.
    target_bps_seconds: f64,
    seconds: f64,
    pub(super) decisions: u64,
    pub(super) frames: u64,
    pub(super) frame_delay: ErrorHistogram,
    /// The frames of each stream, by its source.
    streams: BTreeMap<u32, StreamTally>,
}

/// The frames of one stream that arrived whole.
#[derive(Debug, Clone)]
pub(super) struct StreamTally {
    pub(super) frames: u64,
    /// Their sizes, without headers.
    pub(super) bytes: u64,
    pub(super) frame_delay: ErrorHistogram,
    pub(super) skipped_frames: u64,
    pub(super) discarded_packets: u64,
}

impl Default for StreamTally {
    fn default() -> Self {
        let frame_delay = ErrorHistogram::new();
        Self { frames: 0, bytes: 0, frame_delay, skipped_frames: 0, discarded_packets: 0 }
    }
}

impl StreamTally {
    pub(super) fn merge(&mut self, other: &Self) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.frame_delay.merge(&other.frame_delay);
        self.skipped_frames += other.skipped_frames;
        self.discarded_packets += other.discarded_packets;
    }

    fn frame(&mut self, delay: Option<TimeDelta>, size: DataSize) {
        self.frames += 1;
        self.bytes += size.as_bytes();
        if let Some(delay) = delay {
            self.frame_delay.record(delay);
        }
    }
}

impl Default for MediaTally {
    fn default() -> Self {
        Self {
            target: None,
            target_bps_seconds: 0.0,
            seconds: 0.0,
            decisions: 0,
            frames: 0,
            frame_delay: ErrorHistogram::new(),
            streams: BTreeMap::new(),
        }
    }
}

impl MediaTally {
    /// What came of a stream; none if nothing did.
    pub(super) fn stream(&self, ssrc: u32) -> Option<&StreamTally> {
        self.streams.get(&ssrc)
    }

    /// The mean over time of the target.
    pub(super) fn target_bps(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.target_bps_seconds / self.seconds)
    }

    fn merge(&mut self, other: &Self) {
        self.decisions += other.decisions;
        self.frames += other.frames;
        self.frame_delay.merge(&other.frame_delay);
    }

    fn decide(&mut self, now: Timestamp, decision: &Decision, window: Window) {
        if self.target.is_none() && decision.from > DataRate::ZERO {
            // What the first decision changed had held until then.
            self.target = Some((decision.from, window.from));
        }
        self.hold(now, window);
        self.target = Some((decision.to, now));
        self.decisions += u64::from(window.holds(now) && decision.from != decision.to);
    }

    /// The target has held until `now`.
    fn hold(&mut self, now: Timestamp, window: Window) {
        if let Some((target, since)) = &mut self.target {
            let (from, to) = ((*since).max(window.from), now.min(window.to));
            let seconds = to.saturating_since(from).as_seconds().max(0.0);
            self.target_bps_seconds += target.as_bps() as f64 * seconds;
            self.seconds += seconds;
            *since = (*since).max(now);
        }
    }
}

/// When `tallies` of one window together first received `rate` for a whole [`STEP`], in milliseconds from the window's begin.
pub(super) fn time_to_rate(tallies: &[&Tally], rate: DataRate, end: Timestamp) -> Option<f64> {
    let steps = tallies.iter().filter_map(|tally| tally.steps.as_ref());
    let most = steps.clone().map(Vec::len).max()?;
    let window = tallies.first()?.window;
    let whole =
        (window.to.min(end).saturating_since(window.from).as_nanos() / STEP.as_nanos()).max(0) as usize;
    let wanted = rate.as_bps() as f64 * STEP.as_seconds();
    let received = |step: usize| steps.clone().filter_map(|steps| steps.get(step)).sum::<u64>() as f64 * 8.0;
    let first = (0..most.min(whole)).find(|&step| received(step) >= wanted)?;
    Some(STEP.as_millis() * (first + 1) as f64)
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// One of the quantiles of a distribution, in milliseconds.
pub(super) fn figure(histogram: &ErrorHistogram, figure: Figure) -> Option<f64> {
    let time = match figure {
        Figure::Mean => histogram.mean(),
        Figure::P50 => histogram.quantile(0.5),
        Figure::P95 => histogram.quantile(0.95),
        Figure::P99 => histogram.quantile(0.99),
        Figure::Max => histogram.max(),
    };
    time.map(TimeDelta::as_millis)
}

/// All of the quantiles that a result shows, in milliseconds.
pub(super) fn quantiles(histogram: &ErrorHistogram) -> Option<Quantiles> {
    Some(Quantiles {
        p50: figure(histogram, Figure::P50)?,
        p95: figure(histogram, Figure::P95)?,
        p99: figure(histogram, Figure::P99)?,
        max: figure(histogram, Figure::Max)?,
    })
}

/// Keeps a tally of each window that was asked for.
#[derive(Debug, Default)]
pub(super) struct Windows {
    tallies: Vec<Tally>,
    /// Which tallies are of which flow, and of which link.
    of_flow: Vec<Vec<usize>>,
    of_link: Vec<Vec<usize>>,
}

impl Windows {
    /// The tally of a flow in a window, by its number.
    pub(super) fn flow(&mut self, flow: FlowId, window: Window) -> usize {
        ask(&mut self.tallies, &mut self.of_flow, flow.0 as usize, window)
    }

    /// The tally of a link in a window, by its number.
    pub(super) fn link(&mut self, link: LinkId, window: Window) -> usize {
        ask(&mut self.tallies, &mut self.of_link, link.0 as usize, window)
    }

    /// Lets a tally of a flow keep what it needs for [`time_to_rate`].
    pub(super) fn keep_steps(&mut self, number: usize) {
        if let Some(tally) = self.tallies.get_mut(number) {
            tally.steps.get_or_insert_default();
        }
    }

    /// Brings every tally up to date with a run that has come to `end`, before they are read.
    pub(super) fn settle(&mut self, end: Timestamp) {
        for tally in &mut self.tallies {
            if let Some(media) = &mut tally.media {
                media.hold(end, tally.window);
            }
            tally.queue_delay.record_many(TimeDelta::ZERO, std::mem::take(&mut tally.unhindered));
        }
    }

    /// A tally that was asked for, as of the last [`settle`](Self::settle).
    pub(super) fn tally(&self, number: usize) -> &Tally {
        self.tallies.get(number).expect("a number that this gave")
    }
}

/// The number of the tally of `window`; the same window is counted once.
fn ask(tallies: &mut Vec<Tally>, of: &mut Vec<Vec<usize>>, subject: usize, window: Window) -> usize {
    if of.len() <= subject {
        of.resize_with(subject + 1, Vec::new);
    }
    let own = of.get_mut(subject).expect("made room for it");
    let known = own.iter().find(|&&number| tallies.get(number).is_some_and(|tally| tally.window == window));
    if let Some(&number) = known {
        return number;
    }
    tallies.push(Tally::new(window));
    own.push(tallies.len() - 1);
    tallies.len() - 1
}

impl Observer for Windows {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        // Most events concern only one of both, or neither.
        let (flow, link) = match event {
            Event::Sent { packet } | Event::Delivered { packet } => (Some(packet.flow), None),
            Event::Dequeued { link, .. } | Event::Marked { link, .. } => (None, Some(*link)),
            Event::Dropped { link, packet, .. } => (Some(packet.flow), Some(*link)),
            _ => return,
        };
        let of_flow = flow.and_then(|flow| self.of_flow.get(flow.0 as usize));
        for &number in of_flow.into_iter().flatten() {
            if let Some(tally) = self.tallies.get_mut(number) {
                tally.on_flow_event(now, event);
            }
        }
        let of_link = link.and_then(|link| self.of_link.get(link.0 as usize));
        for &number in of_link.into_iter().flatten() {
            if let Some(tally) = self.tallies.get_mut(number) {
                tally.on_link_event(now, event);
            }
        }
    }
    fn on_note(&mut self, now: Timestamp, note: &Note) {
        for &number in self.of_flow.get(note.flow().0 as usize).into_iter().flatten() {
            let Some(tally) = self.tallies.get_mut(number) else { continue };
            let window = tally.window;
            let media = tally.media.get_or_insert_default();
            match note {
                Note::Decided { decision, .. } => media.decide(now, decision, window),
                Note::Frame { ssrc, delay, size, .. } if window.holds(now) => {
                    media.frames += 1;
                    if let Some(delay) = *delay {
                        media.frame_delay.record(delay);
                    }
                    media.streams.entry(*ssrc).or_default().frame(*delay, *size);
                }
                Note::Skipped { ssrc, .. } if window.holds(now) => {
                    media.streams.entry(*ssrc).or_default().skipped_frames += 1;
                }
                Note::Discarded { ssrc, packets, .. } if window.holds(now) => {
                    media.streams.entry(*ssrc).or_default().discarded_packets += packets;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
