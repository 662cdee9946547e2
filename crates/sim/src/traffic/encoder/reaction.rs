//! RFC 8593 §5.1: an encoder that has just reacted does not react again for a while.

use giusto_units::{DataRate, TimeDelta, Timestamp};

/// The treatment of a request that comes too soon after a reaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meanwhile {
    /// The last one is acted upon as soon as the encoder reacts again. Our reading: with controllers that ask only at a change
    /// (RFC 8593 §4 has them), the target is reached all the same.
    #[default]
    Remembered,
    /// It is lost, which is the text of RFC 8593 §5.1. For controllers that repeat their request.
    Ignored,
}

/// From which rate to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transition {
    pub(super) from: DataRate,
    pub(super) to: DataRate,
}

impl Transition {
    /// By more than `threshold` of the previous rate (RFC 8593 §7).
    pub(super) fn is_abrupt(self, threshold: f64) -> bool {
        let (from, to) = (self.from.as_bps() as f64, self.to.as_bps() as f64);
        (to - from).abs() > threshold * from
    }
}

/// The rate at which the encoder works, and when it may change.
#[derive(Debug, Clone)]
pub(super) struct Reaction {
    latency: TimeDelta,
    meanwhile: Meanwhile,
    rate: DataRate,
    /// When it last changed.
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

    /// A request; the transition, where the encoder reacts at once.
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

    /// The transition to what was remembered, once its time has come.
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

    /// A request for the present rate is no transition, and begins no latency.
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

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

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
    fn the_first_request_is_acted_upon_at_once_and_the_next_after_the_latency() {
        // remembered: 400 at 200 ms, so 500 waits until 400 ms; ignored: nothing at 200 ms, so 500 is heard at 350 ms
        assert_eq!(rates(Meanwhile::Remembered), [200, 200, 200, 400, 400, 500]);
        assert_eq!(rates(Meanwhile::Ignored), [200, 200, 200, 200, 500, 500]);
    }

    #[test]
    fn asking_for_the_present_rate_begins_no_latency() {
        let mut reaction =
            Reaction::new(TimeDelta::from_millis(200), Meanwhile::Ignored, DataRate::from_bps(100));
        assert_eq!(reaction.request(at(0), DataRate::from_bps(100)), None);
        assert!(reaction.request(at(1), DataRate::from_bps(101)).is_some());
    }

    #[test]
    fn more_than_a_tenth_is_abrupt() {
        let change = |to| Transition { from: DataRate::from_bps(1000), to: DataRate::from_bps(to) };
        let abrupt: Vec<_> = [899, 900, 1100, 1101].map(|to| change(to).is_abrupt(0.1)).into();
        assert_eq!(abrupt, [true, false, false, true]);
    }
}
