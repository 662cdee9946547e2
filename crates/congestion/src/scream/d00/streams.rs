//! Media rates of several sources. Each has its own rate control (draft-johansson-rmcat-scream-cc-00 §3,
//! Figure 2).
//!
//! With one adaptive source, or without information about sources, there is one media rate for all. With
//! several
//!
//! - each has the rate control of §9.1.6 and reacts to the age of its own queue;
//! - sources that do not adapt, such as audio, come first. Their needs are subtracted from the minimum and
//!   the maximum rate, and the rest is divided by priority. What one source cannot use goes to the others.
//!   Each source moves within its shares, so each rises in proportion to its share;
//! - a loss event, missing feedback and source quench concern the path, and reduce all rates;
//! - when a source pauses or resumes, the total is divided again. What the remaining sources cannot use is
//!   kept for those that resume.

use alloc::vec::Vec;

use giusto_units::{DataRate, TimeDelta, Timestamp, math};

use super::{config::Config, media_rate::MediaRate};
use crate::feedback::{QueueState, StreamState};

/// The media rates of all sources, in bit/s.
#[derive(Debug, Clone)]
pub(super) struct MediaRates {
    config: Config,
    limits: (f64, f64),
    /// The common rate, if there is only one.
    whole: MediaRate,
    streams: Vec<Stream>,
    /// Rate that no source could use at the last division.
    spare: f64,
    targets: Vec<DataRate>,
}

#[derive(Debug, Clone)]
struct Stream {
    state: StreamState,
    /// Only for adaptive sources.
    rate: Option<MediaRate>,
}

impl Stream {
    /// Whether it receives a share of the remaining rate.
    fn is_open(&self) -> bool {
        self.rate.is_some() && !self.state.paused
    }

    /// In bit/s.
    fn bps(&self) -> f64 {
        match &self.rate {
            _ if self.state.paused => 0.0,
            Some(rate) => rate.bps(),
            None => self.state.usable.1.as_bps() as f64,
        }
    }

    fn usable(&self) -> (f64, f64) {
        let (min, max) = self.state.usable;
        (min.as_bps() as f64, max.max(min).as_bps() as f64)
    }

    fn priority(&self) -> f64 {
        let priority = self.state.priority;
        if priority.is_finite() { priority.clamp(1e-6, 1e12) } else { 1.0 }
    }
}

impl MediaRates {
    /// One common rate, starting at `rate`, within `limits`.
    pub(super) fn new(config: Config, limits: (f64, f64), rate: f64) -> Self {
        let whole = MediaRate::new(config, limits, rate);
        Self { config, limits, whole, streams: Vec::new(), spare: 0.0, targets: Vec::new() }
    }

    /// Applies new limits to all rates.
    pub(super) fn set_limits(&mut self, limits: (f64, f64)) {
        self.limits = limits;
        self.whole.set(limits, self.whole.bps());
        if !self.streams.is_empty() {
            let states: Vec<StreamState> = self.streams.iter().map(|stream| stream.state).collect();
            self.on_streams(&states);
        }
    }

    /// Sets the sources.
    pub(super) fn on_streams(&mut self, states: &[StreamState]) {
        let adapts = |state: &StreamState| state.usable.0 != state.usable.1;
        if states.iter().filter(|state| adapts(state)).count() < 2 {
            if !self.streams.is_empty() {
                let rate = self.bps() + core::mem::take(&mut self.spare);
                self.whole.set(self.limits, rate);
                self.streams.clear();
                self.targets.clear();
            }
            return;
        }
        let now = (self.bps() + self.spare).min(self.limits.1);
        let is_open = |state: &StreamState| adapts(state) && !state.paused;
        let were = self.streams.iter().map(Stream::is_open);
        let are_same = self.streams.len() == states.len() && were.eq(states.iter().map(is_open));
        let mut before = core::mem::take(&mut self.streams).into_iter();
        for &state in states {
            let rate = before.next().and_then(|stream| stream.rate);
            let begun = || MediaRate::new(self.config, self.limits, 0.0);
            self.streams.push(Stream { state, rate: adapts(&state).then(|| rate.unwrap_or_else(begun)) });
        }
        let [min, max] = [self.limits.0, self.limits.1].map(|bps| self.parts(bps));
        let changed = (!are_same).then(|| self.parts(now));
        for (place, stream) in self.streams.iter_mut().enumerate() {
            let open = stream.is_open();
            if let Some(rate) = stream.rate.as_mut().filter(|_| open) {
                let part = |parts: &[f64]| parts.get(place).copied().unwrap_or(0.0);
                let bps = changed.as_ref().map_or_else(|| rate.bps(), |parts| part(parts));
                rate.set((part(&min), part(&max)), bps);
            }
        }
        if changed.is_some() {
            self.spare = (now - self.bps()).max(0.0);
        }
        self.aim();
    }

    /// Handles a sent packet.
    pub(super) fn on_sent(&mut self) {
        self.each(MediaRate::on_sent);
    }

    /// Handles a loss event or source quench.
    pub(super) fn on_loss(&mut self) {
        self.spare *= self.config.beta_rate;
        self.each(MediaRate::on_loss);
    }

    /// Handles missing feedback.
    pub(super) fn on_silence(&mut self) {
        self.spare *= 0.5;
        self.each(MediaRate::on_silence);
    }

    /// Adjusts the rates that are due. `waiting` is the sender's queue, `rtt` is in seconds, `queued`
    /// is the queueing delay as a share of the delay target. Returns whether a rate was reduced, if one was
    /// adjusted.
    pub(super) fn update(
        &mut self,
        now: Timestamp,
        rtt: f64,
        queue: &QueueState,
        queued: f64,
    ) -> Option<bool> {
        if self.streams.is_empty() {
            return self.whole.update(now, rtt, queue.oldest, queued);
        }
        let mut lowered = None;
        for stream in self.streams.iter_mut().filter(|stream| stream.is_open()) {
            let age = stream.state.queue.oldest.max(TimeDelta::ZERO);
            let reduced = stream.rate.as_mut().and_then(|rate| rate.update(now, rtt, age, queued));
            lowered = lowered.max(reduced);
        }
        self.aim();
        lowered
    }

    /// Maximum over the sources of the age of the oldest packet over the last round trips, in seconds.
    pub(super) fn age(&self) -> f64 {
        let ages = self.streams.iter().filter_map(|stream| Some(stream.rate.as_ref()?.age()));
        if self.streams.is_empty() { self.whole.age() } else { ages.fold(0.0, f64::max) }
    }

    /// Total rate, including sources that do not adapt.
    pub(super) fn bps(&self) -> f64 {
        if self.streams.is_empty() { self.whole.bps() } else { self.streams.iter().map(Stream::bps).sum() }
    }

    /// Rate of each source, if several adapt.
    pub(super) fn targets(&self) -> &[DataRate] {
        &self.targets
    }

    fn each(&mut self, action: impl Fn(&mut MediaRate)) {
        if self.streams.is_empty() {
            action(&mut self.whole);
        }
        self.streams.iter_mut().filter_map(|stream| stream.rate.as_mut()).for_each(action);
        self.aim();
    }

    fn aim(&mut self) {
        self.targets.clear();
        self.targets
            .extend(self.streams.iter().map(|stream| DataRate::from_bps(math::round(stream.bps()) as u64)));
    }

    /// Divides `bps`: first to sources that do not adapt, then by priority to the others.
    fn parts(&self, bps: f64) -> Vec<f64> {
        let fixed: f64 = self.streams.iter().filter(|stream| !stream.is_open()).map(Stream::bps).sum();
        let mut left = (bps - fixed).max(0.0);
        let mut parts = vec![0.0; self.streams.len()];
        let mut open: Vec<(&Stream, &mut f64)> =
            self.streams.iter().zip(&mut parts).filter(|(stream, _)| stream.is_open()).collect();
        // A source whose share is above its maximum gets the maximum; one whose share is below its minimum
        // gets the minimum. The rest is divided again. If more is missing than left over, the sources below
        // their minimum are settled first.
        while !open.is_empty() {
            let weights: f64 = open.iter().map(|(stream, _)| stream.priority()).sum();
            let wanted = |stream: &Stream| left * stream.priority() / weights;
            let within = |stream: &Stream| {
                let (min, max) = stream.usable();
                wanted(stream).max(min).min(max)
            };
            let over: f64 = open.iter().map(|(stream, _)| wanted(stream) - within(stream)).sum();
            let settles = |stream: &Stream| {
                let off = wanted(stream) - within(stream);
                if over >= 0.0 { off > 0.0 } else { off < 0.0 }
            };
            let all = !open.iter().any(|(stream, _)| settles(stream));
            let mut taken = 0.0;
            let mut rest = Vec::new();
            for (stream, part) in open {
                if all || settles(stream) {
                    *part = within(stream);
                    taken += *part;
                } else {
                    rest.push((stream, part));
                }
            }
            left = (left - taken).max(0.0);
            open = rest;
        }
        parts
    }
}

#[cfg(test)]
mod tests;
