//! Decides when to send probes.

mod config;
#[cfg(test)]
mod tests;

pub use config::ProbingConfig;

use alloc::collections::VecDeque;

use giusto_units::{DataRate, TimeDelta, Timestamp};

use crate::gcc::arithmetic::{Forward, scaled};
use crate::target::{Cause, Probe};

/// What limits the estimate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Constraint {
    /// Nothing that prevents a probe.
    #[default]
    None,
    /// The delay grows, or a queue drains: no probe.
    Delay,
    /// The RTT is above its limit: no probe.
    Rtt,
    /// Losses reduce the rate, or padding tests whether they continue: no probe.
    LossFalling,
    /// Losses limit the rate while it rises: a probe may exceed it slightly.
    LossRising,
}

/// Result of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[must_use]
pub(crate) enum ProbeOutcome {
    /// No probe was due.
    #[default]
    None,
    /// This many additional clusters can be [taken](Probing::next_probe).
    Probing(u32),
    /// A probe was due, and this constraint suppressed it. Returned once, until the constraint changes or a
    /// probe is sent.
    Suppressed(Constraint),
}

impl ProbeOutcome {
    /// [`Cause::ProbeSuppressed`] if a probe was suppressed.
    pub(crate) fn cause(self) -> Option<Cause> {
        matches!(self, Self::Suppressed(_)).then_some(Cause::ProbeSuppressed)
    }
}

giusto_units::defaults! {
    /// Decides when to probe, and at what rate (libwebrtc's `goog_cc/probe_controller.cc`;
    /// draft-ietf-rmcat-gcc-02 has no probes).
    ///
    /// | occasion | rate |
    /// |---|---|
    /// | [the start](Self::start) | 3 and 6 times the start rate |
    /// | a result above 0.7 of the probe's rate | twice the result, repeatedly |
    /// | the sender is application-limited (opt-in) | twice the estimate, every 5 s |
    /// | a higher allocation while application-limited | once and twice the allocation, up to twice the estimate |
    /// | the end of a drop below 0.66 within the last 5 s, while or shortly after being application-limited | 0.85 of the rate before |
    /// | a higher maximum rate | the maximum rate |
    ///
    /// No cluster is faster than the maximum rate or twice the allocated rate. Features of libwebrtc that only
    /// field trials enable are not implemented.
    #[derive(Debug, Clone)]
    pub(crate) struct Probing {
        config: ProbingConfig = config,
        clock: Forward = Forward::default(),
        state: State = State::Beginning,
        constraint: Constraint = Constraint::None,
        /// Zero before [`start`](Self::start).
        estimate: DataRate = DataRate::ZERO,
        max: DataRate = config.max,
        allocated: Option<DataRate> = None,
        probed: Option<Timestamp> = None,
        repeat_until: Option<Timestamp> = None,
        limited_since: Option<Timestamp> = None,
        limited_until: Option<Timestamp> = None,
        drop: Drop = Drop::default(),
        /// Whether the current suppression has already been returned.
        is_suppression_reported: bool = false,
        clusters: u32 = 0,
        queue: VecDeque<Probe> = VecDeque::with_capacity(QUEUE),
    }
    /// A controller without state. The maximum rate is the configured default.
    pub(crate) fn new(config: ProbingConfig);
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Beginning,
    /// A result above this rate triggers a further probe.
    AwaitingResult(DataRate),
    Complete,
}

/// The last large drop of the estimate.
#[derive(Debug, Clone, Copy, Default)]
struct Drop {
    at: Timestamp,
    before: DataRate,
    /// Time of the last probe that tested whether the drop had passed; initially the start.
    probed: Timestamp,
}

/// Maximum number of queued clusters. Older ones are out of date.
const QUEUE: usize = 8;

impl Probing {
    /// Starts probing on an available path. Sending begins at the rate `start`; `max` is the maximum rate
    /// (`None`: the configured default).
    ///
    /// Later calls change both rates.
    pub(crate) fn start(&mut self, now: Timestamp, start: DataRate, max: Option<DataRate>) -> ProbeOutcome {
        let now = self.clock.clamp(now);
        let before = core::mem::replace(&mut self.max, max.unwrap_or(self.config.max));
        if self.state == State::Beginning {
            self.estimate = start;
            self.drop = Drop { at: now, before: DataRate::ZERO, probed: now };
            if self.config.repeat_initial && self.allocated.is_none() {
                self.repeat_until = Some(now + self.config.repeat_for);
            }
            let rates = [self.config.first, self.config.second].map(|factor| scaled(start, factor));
            return self.probe(now, &rates, true);
        }
        if start > DataRate::ZERO {
            self.estimate = start;
        }
        if self.state == State::Complete
            && self.estimate > DataRate::ZERO
            && before < self.max
            && self.estimate < self.max
        {
            return self.probe(now, &[self.max], false);
        }
        ProbeOutcome::None
    }

    /// Discards what was learned about the path. Call [`start`](Self::start) next. The numbering of clusters
    /// continues.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            clock: self.clock,
            clusters: self.clusters,
            limited_since: self.limited_since,
            ..Self::new(self.config)
        };
    }

    /// Sets the estimate `rate` and what limits it.
    pub(crate) fn on_estimate(
        &mut self,
        now: Timestamp,
        rate: DataRate,
        constraint: Constraint,
    ) -> ProbeOutcome {
        let now = self.clock.clamp(now);
        if constraint != self.constraint {
            self.is_suppression_reported = false;
        }
        self.constraint = constraint;
        if rate < scaled(self.estimate, self.config.drop) {
            self.drop = Drop { at: now, before: self.estimate, probed: self.drop.probed };
        }
        self.estimate = rate;
        match self.state {
            State::AwaitingResult(further) if rate > further => {
                self.probe(now, &[scaled(rate, self.config.further)], true)
            }
            _ => ProbeOutcome::None,
        }
    }

    /// Sets the maximum rate that all streams together can use; `None`: unknown.
    pub(crate) fn on_allocation(&mut self, now: Timestamp, rate: Option<DataRate>) -> ProbeOutcome {
        let now = self.clock.clamp(now);
        let rate = rate.filter(|&rate| rate > DataRate::ZERO);
        let changed = core::mem::replace(&mut self.allocated, rate) != rate;
        let Some(rate) = rate else { return ProbeOutcome::None };
        let due = changed
            && self.state == State::Complete
            && self.limited_since.is_some()
            && self.estimate < self.max.min(rate);
        if !due || self.config.allocation_first <= 0.0 {
            // There is media to send now: the estimate can rise without repeated probes.
            self.repeat_until = None;
            return ProbeOutcome::None;
        }
        let max = scaled(self.estimate, self.config.allocation_limit);
        let [first, second] =
            [self.config.allocation_first, self.config.allocation_second].map(|factor| scaled(rate, factor));
        if first > max {
            self.probe(now, &[max], true)
        } else if second.min(max) > first {
            self.probe(now, &[first, second.min(max)], second > max)
        } else {
            self.probe(now, &[first], second > max)
        }
    }

    /// Sets the time since which the sender has been application-limited; `None` if it is not.
    pub(crate) fn on_application_limited(&mut self, now: Timestamp, since: Option<Timestamp>) {
        let now = self.clock.clamp(now);
        if self.limited_since.is_some() && since.is_none() {
            self.limited_until = Some(now);
        }
        if self.limited_since != since {
            self.is_suppression_reported = false;
        }
        self.limited_since = since;
    }

    /// Handles the end of under-use: a queue has drained, and a drop that the path did not cause may be
    /// reverted.
    pub(crate) fn on_recovered(&mut self, now: Timestamp) -> ProbeOutcome {
        let now = self.clock.clamp(now);
        let recently = self.limited_until.is_some_and(|until| now - until < self.config.limited_ended);
        if self.state != State::Complete || !(self.limited_since.is_some() || recently) {
            return ProbeOutcome::None;
        }
        let rate = scaled(self.drop.before, self.config.drop_probe);
        let worthwhile = scaled(rate, 1.0 - self.config.uncertainty) > self.estimate;
        let fresh = now - self.drop.at < self.config.drop_timeout;
        if worthwhile && fresh && now - self.drop.probed > self.config.drop_interval {
            self.drop.probed = now;
            return self.probe(now, &[rate], false);
        }
        ProbeOutcome::None
    }

    /// Handles the deadline.
    pub(crate) fn on_timeout(&mut self, now: Timestamp) -> ProbeOutcome {
        let now = self.clock.clamp(now);
        if matches!(self.state, State::AwaitingResult(_))
            && self.probed.is_none_or(|probed| now - probed > self.config.timeout)
        {
            self.state = State::Complete;
        }
        if self.state != State::Complete || self.estimate == DataRate::ZERO {
            return ProbeOutcome::None;
        }
        let is_due = |due: Option<Timestamp>| due.is_some_and(|due| now >= due);
        if is_due(self.repeat_due()) && self.repeat_until.is_some_and(|until| now < until) {
            self.probe(now, &[scaled(self.estimate, self.config.first)], true)
        } else if is_due(self.limited_due()) {
            self.probe(now, &[scaled(self.estimate, self.config.limited)], true)
        } else {
            ProbeOutcome::None
        }
    }

    /// Time at which [`on_timeout`](Self::on_timeout) must be called; `None` if it would have no effect.
    pub(crate) fn next_timeout(&self) -> Option<Timestamp> {
        match self.state {
            State::Beginning => None,
            State::AwaitingResult(_) => {
                self.probed.map(|probed| probed + self.config.timeout + TimeDelta::from_nanos(1))
            }
            State::Complete
                if self.is_suppression_reported
                    || self.estimate == DataRate::ZERO
                    || self.max == DataRate::ZERO =>
            {
                None
            }
            State::Complete => Timestamp::earliest([self.repeat_due(), self.limited_due()]),
        }
    }

    /// Takes the next cluster to send.
    pub(crate) fn next_probe(&mut self) -> Option<Probe> {
        self.queue.pop_front()
    }

    fn repeat_due(&self) -> Option<Timestamp> {
        let due = self.probed? + self.config.timeout;
        self.repeat_until.filter(|&until| due < until && self.clock.0 < until).map(|_| due)
    }

    fn limited_due(&self) -> Option<Timestamp> {
        let since = self.limited_since.filter(|_| self.config.probe_while_limited)?;
        Some(self.probed.map_or(since, |probed| since.max(probed)) + self.config.limited_interval)
    }

    /// Queues clusters at `rates`, limited to what is permitted. `further`: a good result triggers another
    /// cluster.
    fn probe(&mut self, now: Timestamp, rates: &[DataRate], mut further: bool) -> ProbeOutcome {
        let mut max =
            self.allocated.map_or(self.max, |rate| self.max.min(scaled(rate, self.config.over_allocation)));
        match self.constraint {
            Constraint::None => {}
            Constraint::LossRising => max = max.min(scaled(self.estimate, self.config.loss_limited)),
            forbidding => {
                let is_suppression_reported = core::mem::replace(&mut self.is_suppression_reported, true);
                return if is_suppression_reported {
                    ProbeOutcome::None
                } else {
                    ProbeOutcome::Suppressed(forbidding)
                };
            }
        }
        let mut count = 0;
        let mut highest = DataRate::ZERO;
        for &rate in rates {
            further &= rate < max;
            let rate = rate.min(max);
            if rate > DataRate::ZERO {
                self.push(now, rate);
                highest = rate;
                count += 1;
            }
        }
        if count == 0 {
            return ProbeOutcome::None;
        }
        self.is_suppression_reported = false;
        self.probed = Some(now);
        self.state = if further {
            State::AwaitingResult(scaled(highest, self.config.further_above))
        } else {
            State::Complete
        };
        ProbeOutcome::Probing(count)
    }

    fn push(&mut self, now: Timestamp, rate: DataRate) {
        if self.queue.len() >= QUEUE {
            self.queue.pop_front();
        }
        self.clusters = self.clusters.wrapping_add(1);
        let early = self.repeat_until.is_some_and(|until| now < until);
        let (duration, batch) = if early {
            (self.config.repeat_duration, self.config.repeat_batch)
        } else {
            (self.config.duration, self.config.batch)
        };
        let packets = self.config.packets;
        self.queue.push_back(Probe { cluster: self.clusters, rate, duration, packets, batch });
    }
}

impl Default for Probing {
    fn default() -> Self {
        Self::new(ProbingConfig::default())
    }
}
