//! Law: stay as far below the capacity as what meeting it costs.
//!
//! Each time the rate meets the capacity it may cost frames: some are lost where the queue is short or managed, some are late where it is
//! long. The share of the capacity that stays free grows with each such time and shrinks as time passes.

use giusto_units::{TimeDelta, Timestamp, math};

use super::path::Path;

/// What a time of cost adds, once in [`INTERVAL`]. By the utility of our benchmark 5 % of the rate are worth about 0.3 % of missed frames.
const STEP: f64 = 0.05;
const INTERVAL: TimeDelta = TimeDelta::from_millis(500);
/// At most this stays free: what falls by more cannot be prevented.
const MOST: f64 = 0.25;
/// Time constant with which it is forgotten, in seconds.
const MEMORY: f64 = 60.0;
/// A frame that waits longer in the queues of network and sender will be late, in seconds.
const LATE: f64 = 0.3;
/// Growth near the capacity falls by e with each such distance, so that the capacity is met less often.
const CAREFUL: f64 = 0.05;

/// The share of the capacity that stays free.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Distance {
    share: f64,
    latest: Option<Timestamp>,
}

impl Distance {
    pub(super) fn share(self) -> f64 {
        self.share
    }

    /// Factor on growth near the capacity.
    pub(super) fn care(self) -> f64 {
        math::exp(-self.share / CAREFUL)
    }

    /// Handles a feedback. `drains`: the rate has met the capacity. `usual_loss`: the share that the path loses whatever we send.
    pub(super) fn step(&mut self, path: &Path, rate: f64, drains: bool, usual_loss: f64) {
        self.share *= math::exp(-path.step.as_seconds() / MEMORY);
        let waits = path.queue_ahead.as_seconds() + path.waiting / path.delivered.max(rate).max(1.0);
        let is_few = path.loss.packets < 30.0;
        let is_above = path.loss.ratio > usual_loss + 0.003 || is_few && usual_loss < 0.01;
        let is_lost = path.is_lost_now && path.stands() && is_above;
        let is_new = self.latest.is_none_or(|latest| path.now.saturating_since(latest) >= INTERVAL);
        if is_new && (is_lost || drains && waits > LATE) {
            self.latest = Some(path.now);
            self.share = (self.share + STEP).min(MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tempo::loss_ratio::LossRatio;

    /// The share after `times` feedbacks, one each second.
    fn after(times: u32, path: Path, drains: bool, usual_loss: f64) -> f64 {
        let mut distance = Distance::default();
        for second in 0..times {
            let now = Timestamp::ZERO + TimeDelta::from_seconds(second.into());
            distance.step(&Path { now, step: TimeDelta::ZERO, ..path }, 1e6, drains, usual_loss);
        }
        distance.share()
    }

    #[test]
    fn late_and_lost_frames_add_a_twentieth_up_to_a_quarter() {
        let late = Path { queue_ahead: TimeDelta::from_millis(310), ..Path::example() };
        assert!((after(3, late, true, 0.0) - 0.15).abs() < 1e-12);
        assert!((after(30, late, true, 0.0) - 0.25).abs() < 1e-12);
        // 200 ms here and 110 ms at the sender.
        let both = Path { queue_ahead: TimeDelta::from_millis(200), waiting: 1.1e5, ..Path::example() };
        assert!((after(1, both, true, 0.0) - 0.05).abs() < 1e-12);
        assert!(after(3, Path { waiting: 0.9e5, ..both }, true, 0.0) < 1e-12);
        assert!(after(3, late, false, 0.0) < 1e-12, "a stall is no time at the capacity");
        let loss = LossRatio { ratio: 0.02, packets: 200.0, burst: 1.0, clean: 0.0 };
        let lost =
            Path { loss, is_lost_now: true, queue: Some(TimeDelta::from_millis(12)), ..Path::example() };
        assert!((after(1, lost, false, 0.0) - 0.05).abs() < 1e-12);
        assert!(after(3, lost, false, 0.02) < 1e-12, "the path's own");
        assert!(after(3, Path { queue: Some(TimeDelta::ZERO), ..lost }, false, 0.0) < 1e-12, "no queue");
    }

    #[test]
    fn it_counts_each_half_second_and_is_forgotten_within_a_minute() {
        let late = Path { queue_ahead: TimeDelta::from_millis(310), ..Path::example() };
        let mut distance = Distance::default();
        for step in 0..10 {
            let now = Timestamp::ZERO + TimeDelta::from_millis(step * 100);
            distance.step(&Path { now, step: TimeDelta::ZERO, ..late }, 1e6, true, 0.0);
        }
        assert!((distance.share() - 0.1).abs() < 1e-12);
        assert!((distance.care() - (-2.0_f64).exp()).abs() < 1e-12);
        for second in 0..60 {
            let now = Timestamp::ZERO + TimeDelta::from_seconds(second);
            distance.step(&Path { now, step: TimeDelta::from_seconds(1), ..Path::example() }, 1e6, true, 0.0);
        }
        assert!((distance.share() - 0.1 * (-1.0_f64).exp()).abs() < 1e-12);
    }
}
