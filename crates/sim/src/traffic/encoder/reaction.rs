//! RFC 8593 §5.1: after a reaction the encoder does not react again for a while.

use giusto_units::{DataRate, TimeDelta, Timestamp};

/// Treatment of a request too soon after a reaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meanwhile {
    /// The last one takes effect as soon as the encoder reacts again. Our interpretation: also controllers
    /// that request a rate only when it changes (as in RFC 8593 §4) reach their target.
    #[default]
    Remembered,
    /// It is ignored, as in the text of RFC 8593 §5.1. For controllers that repeat their requests.
    Ignored,
}

/// Change from one rate to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transition {
    pub(super) from: DataRate,
    pub(super) to: DataRate,
}

impl Transition {
    /// Whether it changes the rate by more than `threshold` of the previous rate (RFC 8593 §7).
    pub(super) fn is_abrupt(self, threshold: f64) -> bool {
        let (from, to) = (self.from.as_bps() as f64, self.to.as_bps() as f64);
        (to - from).abs() > threshold * from
    }
}

/// The rate of the encoder, and when it may change.
#[derive(Debug, Clone)]
pub(super) struct Reaction {
    latency: TimeDelta,
    meanwhile: Meanwhile,
    rate: DataRate,
    /// Time of the last change.
    reacted: Option<Timestamp>,
    remembered: Option<DataRate>,
}

impl Reaction {
    pub(super) fn new(latency: TimeDelta, meanwhile: Meanwhile, rate: DataRate) -> Self {
        Self { latency: latency.max(TimeDelta::ZERO), meanwhile, rate, reacted: None, remembered: None }
    }

    pub(super) const fn rate(&self) -> DataRate {
        self.rate
    }

    /// Handles a request. Returns the transition if the encoder reacts at once.
    pub(super) fn request(&mut self, now: Timestamp, rate: DataRate) -> Option<Transition> {
        if self.is_damped(now) {
            if self.meanwhile == Meanwhile::Remembered {
                self.remembered = Some(rate);
            }
            return None;
        }
        self.remembered = None;
        self.react(now, rate)
    }

    /// The transition to the stored request, once the latency is over.
    pub(super) fn poll(&mut self, now: Timestamp) -> Option<Transition> {
        if self.remembered.is_none() || self.is_damped(now) {
            return None;
        }
        let rate = self.remembered.take()?;
        self.react(now, rate)
    }

    fn is_damped(&self, now: Timestamp) -> bool {
        self.reacted.is_some_and(|reacted| now < reacted + self.latency)
    }

    /// A request for the current rate is not a transition, and starts no latency.
    fn react(&mut self, now: Timestamp, to: DataRate) -> Option<Transition> {
        let from = std::mem::replace(&mut self.rate, to);
        (from != to).then(|| {
            self.reacted = Some(now);
            Transition { from, to }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    fn rates(meanwhile: Meanwhile) -> Vec<u64> {
        let mut reaction = Reaction::new(TimeDelta::from_millis(200), meanwhile, DataRate::from_bps(100));
        let mut seen = Vec::new();
        for (ms, request) in [(0, 200), (50, 300), (199, 400), (200, 0), (350, 500), (450, 0)] {
            if request > 0 {
                reaction.request(at(ms), DataRate::from_bps(request));
            } else {
                reaction.poll(at(ms));
            }
            seen.push(reaction.rate().as_bps());
        }
        seen
    }

    #[test]
    fn later_requests_take_effect_after_the_latency() {
        // remembered: 400 at 200 ms, so 500 waits until 400 ms; ignored: none at 200 ms, so 500 takes effect
        // at 350 ms
        assert_eq!(rates(Meanwhile::Remembered), [200, 200, 200, 400, 400, 500]);
        assert_eq!(rates(Meanwhile::Ignored), [200, 200, 200, 200, 500, 500]);
    }

    #[test]
    fn a_request_for_the_current_rate_starts_no_latency() {
        let mut reaction =
            Reaction::new(TimeDelta::from_millis(200), Meanwhile::Ignored, DataRate::from_bps(100));
        assert_eq!(reaction.request(at(0), DataRate::from_bps(100)), None);
        assert!(reaction.request(at(1), DataRate::from_bps(101)).is_some());
    }

    #[test]
    fn a_change_of_more_than_10_percent_is_abrupt() {
        let change = |to| Transition { from: DataRate::from_bps(1000), to: DataRate::from_bps(to) };
        let abrupt: Vec<_> = [899, 900, 1100, 1101].map(|to| change(to).is_abrupt(0.1)).into();
        assert_eq!(abrupt, [true, false, false, true]);
    }
}
