//! The two modes (NSDI 2018 §2.2).

use giusto_units::{TimeDelta, Timestamp};

/// δ: constant in default mode, and with additive increase and multiplicative decrease of 1/δ in competitive mode.
#[derive(Debug, Clone)]
pub(super) struct Competition {
    /// 1/δ in default mode, the lowest.
    default: f64,
    inverse: f64,
    competes: bool,
    /// Times of the latest increase and decrease.
    raised: Timestamp,
    lowered: Option<Timestamp>,
}

/// Highest 1/δ: a bound for numbers only, far above any queue.
const MAX_INVERSE: f64 = 1e6;

impl Competition {
    pub(super) fn new(delta: f64) -> Self {
        let default = 1.0 / delta.max(1.0 / MAX_INVERSE);
        Self { default, inverse: default, competes: false, raised: Timestamp::ZERO, lowered: None }
    }

    /// Sets the mode, and raises 1/δ by 1 once in an RTT in competitive mode.
    pub(super) fn update(&mut self, now: Timestamp, was_nearly_empty: bool, rtt: TimeDelta) {
        if was_nearly_empty {
            (self.competes, self.inverse) = (false, self.default);
        } else if !self.competes {
            (self.competes, self.raised) = (true, now);
        } else if now.saturating_since(self.raised) > rtt {
            self.raised = now;
            if !self.is_lowered(now, rtt) {
                self.inverse = (self.inverse + 1.0).min(MAX_INVERSE);
            }
        }
    }

    /// Halves 1/δ after a loss in competitive mode, at most once in an RTT.
    pub(super) fn on_loss(&mut self, now: Timestamp, rtt: TimeDelta) {
        if self.competes && !self.is_lowered(now, rtt) {
            self.lowered = Some(now);
            self.inverse = (self.inverse / 2.0).max(self.default);
        }
    }

    fn is_lowered(&self, now: Timestamp, rtt: TimeDelta) -> bool {
        self.lowered.is_some_and(|lowered| now.saturating_since(lowered) <= rtt)
    }

    pub(super) fn delta(&self) -> f64 {
        1.0 / self.inverse
    }

    #[cfg(test)]
    pub(super) fn is_competitive(&self) -> bool {
        self.competes
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;
    use crate::testing::at;

    const RTT: TimeDelta = TimeDelta::from_millis(100);

    #[test]
    fn the_inverse_grows_by_one_per_rtt_and_is_halved_by_a_loss() {
        let mut competition = Competition::new(0.5);
        competition.on_loss(at(5), RTT);
        assert_eq!(competition.delta(), 0.5, "losses have no effect in default mode");
        for ms in (10..=1020).step_by(10) {
            competition.update(at(ms), false, RTT);
        }
        // Raised every 110 ms, the first time that the RTT has passed: 9 times.
        assert!(competition.is_competitive());
        assert!((1.0 / competition.delta() - 11.0).abs() < 1e-9, "{}", competition.delta());
        for ms in [1030, 1040, 1130] {
            competition.on_loss(at(ms), RTT);
        }
        assert!((1.0 / competition.delta() - 5.5).abs() < 1e-9, "once in an RTT: {}", competition.delta());
        competition.on_loss(at(1200), RTT);
        competition.on_loss(at(1400), RTT);
        competition.on_loss(at(1600), RTT);
        assert_eq!(competition.delta(), 0.5, "not above the default");
    }

    #[test]
    fn a_nearly_empty_queue_restores_the_default() {
        let mut competition = Competition::new(0.5);
        for ms in (0..1000).step_by(10) {
            competition.update(at(ms), false, RTT);
        }
        assert!(competition.delta() < 0.2);
        competition.update(at(1000), true, RTT);
        assert_eq!((competition.delta(), competition.is_competitive()), (0.5, false));
    }
}
