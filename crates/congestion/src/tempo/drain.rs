//! Law: drain a standing queue.
//!
//! While a queue stands, what arrives is the capacity. The media gets that capacity less what empties the queues of network and sender
//! within a horizon, so that both shrink exponentially. The horizon is at least the reaction time, so the loop is stable: a first-order
//! loop with a dead time below its time constant (gain × dead time ≤ 1 < π/2). A queue that stays although we yield is not ours.

use std::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

use super::path::Path;

/// Shortest time constant of draining: three windows of the queue.
const HORIZON: TimeDelta = TimeDelta::from_millis(300);
/// Least share of the capacity for the media: the encoder keeps running.
const LEAST: f64 = 0.15;
/// Share of the capacity with which growth begins again. Together with [`grow`](super::grow) it sets the period of the sawtooth.
const AFTER: f64 = 0.97;
/// The capacity is the maximum of what arrived within this time. The longer memory is the reference for yielding.
const RECENT: TimeDelta = TimeDelta::from_millis(400);
const MEMORY: TimeDelta = TimeDelta::from_millis(1500);
/// A queue that has not shrunk to this share while we yielded for [`PATIENCE`] and a round trip is held by others. Yielding means 12 %:
/// in 0.5 s that is 60 ms of queue.
const FALL: f64 = 0.85;
const PATIENCE: TimeDelta = TimeDelta::from_millis(500);
/// The same if others were there lately.
const SHORT_PATIENCE: TimeDelta = TimeDelta::from_millis(300);
/// A delay that moves by less than this while we yield is no queue: the route has become longer. Queues of others move by packets.
const FLAT: TimeDelta = TimeDelta::from_millis(3);

/// What follows from a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drained {
    /// The queue stands.
    NotYet,
    /// The queue is empty.
    Empty,
    /// Others hold the queue.
    Rival,
    /// There is no queue: the base delay has become longer.
    LongerRoute,
}

/// A time of draining.
#[derive(Debug, Clone)]
pub(super) struct Drain {
    /// The rate before, in bit/s.
    before: f64,
    since: Timestamp,
    /// Delivery rates while the queue stood.
    busy: VecDeque<(Timestamp, f64)>,
    /// Highest queue.
    peak: TimeDelta,
    /// The queue when the first packet arrived that had left while we yielded, and its extremes since.
    yielding: Option<Yielding>,
}

#[derive(Debug, Clone, Copy)]
struct Yielding {
    since: Timestamp,
    queue: TimeDelta,
    /// Since the begin of the flat stretch.
    flat_since: Timestamp,
    min: TimeDelta,
    max: TimeDelta,
}

impl Drain {
    /// Begins with the rate that led to the queue.
    pub(super) fn new(path: &Path, rate: f64) -> Self {
        Self { before: rate, since: path.now, busy: VecDeque::new(), peak: path.queue(), yielding: None }
    }

    fn busy(&self, path: &Path, age: TimeDelta) -> f64 {
        let recent = self.busy.iter().rev().take_while(|(at, _)| path.now.saturating_since(*at) <= age);
        recent.map(|&(_, rate)| rate).fold(0.0, f64::max)
    }

    /// Capacity as lately seen, in bit/s; 0 before the first step.
    pub(super) fn capacity(&self, path: &Path) -> f64 {
        self.busy(path, RECENT)
    }

    /// The rate below which we yield.
    pub(super) fn yields_below(&self, path: &Path) -> f64 {
        0.88 * path.delivered.max(0.8 * self.busy(path, MEMORY))
    }

    /// The rate before.
    pub(super) fn before(&self) -> f64 {
        self.before
    }

    /// The rate after this step in bit/s, and what follows. `expects_rival`: others were there lately.
    pub(super) fn step(&mut self, path: &Path, expects_rival: bool) -> (f64, Drained) {
        let queue = path.queue();
        let since = path.now.saturating_since(self.since);
        self.peak = self.peak.max(queue);
        let is_busy = queue > path.low;
        if is_busy {
            self.busy.push_back((path.now, path.delivered));
        }
        while self.busy.front().is_some_and(|(at, _)| path.now.saturating_since(*at) > MEMORY) {
            self.busy.pop_front();
        }
        let is_empty =
            !is_busy || path.queue_ahead < path.low && queue < path.high && since * 2 > path.base_rtt;
        if is_empty {
            let capacity = self.capacity(path);
            let after = if capacity > 0.0 { AFTER * capacity } else { 0.9 * self.before };
            // Where more arrived than was sent, the queue came of a burst, not of the rate.
            let most = if after > 1.1 * self.before { self.before } else { AFTER * self.before };
            return (after.min(most), Drained::Empty);
        }
        let capacity = path.delivered.max(0.05 * self.before);
        let horizon = HORIZON.max(path.reaction()).as_seconds();
        let ahead = path.queue_ahead.as_seconds() + path.waiting / capacity - 0.5 * path.low.as_seconds();
        let rate = (capacity * (1.0 - ahead / horizon).clamp(LEAST, AFTER)).min(self.before);
        (rate, self.judge(path, expects_rival))
    }

    /// Who holds the queue.
    fn judge(&mut self, path: &Path, expects_rival: bool) -> Drained {
        let (now, queue) = (path.now, path.queue());
        if !path.has_yielded {
            self.yielding = None;
            return Drained::NotYet;
        }
        let new = Yielding { since: now, queue, flat_since: now, min: queue, max: queue };
        let this = self.yielding.get_or_insert(new);
        if queue.as_seconds() < FALL * this.queue.as_seconds() {
            *this = new;
        }
        (this.min, this.max) = (this.min.min(queue), this.max.max(queue));
        if this.max - this.min > FLAT || path.is_lost_now {
            (this.flat_since, this.min, this.max) = (now, queue, queue);
        }
        let is_flat = now.saturating_since(this.flat_since) > PATIENCE;
        if now.saturating_since(this.flat_since) > PATIENCE * 2 + path.base_rtt * 2 {
            return Drained::LongerRoute;
        }
        let patience = if expects_rival { SHORT_PATIENCE } else { PATIENCE } + path.base_rtt;
        let stays = now.saturating_since(this.since) > patience;
        let since = now.saturating_since(self.since);
        let lasts = since > TimeDelta::from_millis(2500) + path.rtt * 4 && queue * 2 > self.peak;
        if (stays && !is_flat || lasts) && queue > path.high { Drained::Rival } else { Drained::NotYet }
    }
}
