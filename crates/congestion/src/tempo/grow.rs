//! Law: grow while no queue stands.
//!
//! The exponent of the growth doubles every two reaction times, from 1 % a second: what can be sent too much before it is seen stays a
//! bounded part of what was safe before. Trains that show room shorten this, trains at the capacity stop it. An additive term makes
//! flows equal: slower flows grow by a larger share, and all give up the same share.

use core::f64::consts::LN_2;

use giusto_units::math;

use super::{bps, path::Path};

/// First exponent after each change of the law, per second: less than the additive part, which makes flows equal.
const MIN_EXPONENT: f64 = 0.01;
/// Most that is added near the capacity that trains measure, or that the latest queue showed where overshoot is lost, per second: then
/// overshoot stays below 2 % in a reaction time of 0.2 s.
const NEAR_CAPACITY: f64 = 0.08;
/// The capacity that the latest queue showed is out of date once trains arrive this much faster (one step of pacing above the capacity and
/// the error of the measurement), or the rate is this much higher without a queue.
const TRAINS_SHOW: f64 = 1.2;
const RATE_SHOWS: f64 = 1.3;
/// Until the first congestion the exponent may be this much larger: the capacity is unknown by orders of magnitude.
const START: f64 = 1.6;
/// Additive growth in bit/s per second is this times the square root of (rate × 1 Mbit/s): 8 % a second at 1 Mbit/s, 2.5 % at 10.
/// [`drain`](super::drain) takes 3 % away, so that a cycle takes about a second.
const ADDITIVE: f64 = 0.08;
/// Over that where marks are graded: flows of few packets meet the queues of all others and see more marks, so growth must weigh more than
/// the share of marks. With half, calls of a few packets a round trip starved.
const L4S_ADDITIVE: f64 = 2.0;
/// The target may exceed what is used by this factor, plus an allowance for the frames of low rates: what is not used proves nothing.
const HEADROOM: f64 = 1.7;
const ALLOWANCE: f64 = 60_000.0;

/// Growth between two times of congestion.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grow {
    /// Exponent, per second.
    exponent: f64,
    /// Whether there has been no congestion yet.
    is_start: bool,
    /// Capacity at the end of the latest queue, in bit/s.
    capacity: Option<f64>,
}

/// What limits the growth besides the path.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bounds {
    /// Nobody else seems to be there, so that what a train finds is ours.
    pub(super) trusts_trains: bool,
    /// Overshoot was lost lately.
    pub(super) loses_overshoot: bool,
    /// The highest exponent, where marks are graded.
    pub(super) l4s: Option<f64>,
}

impl Grow {
    pub(super) fn new() -> Self {
        Self { exponent: 0.3, is_start: true, capacity: None }
    }

    /// After congestion.
    pub(super) fn restart(&mut self) {
        *self = Self { exponent: MIN_EXPONENT, is_start: false, ..*self };
    }

    /// Handles the end of a queue, which showed this capacity in bit/s.
    pub(super) fn on_capacity(&mut self, capacity: f64) {
        self.capacity = Some(capacity);
    }

    /// Whether the rate is near the capacity that the latest queue showed.
    fn is_at_brim(&mut self, path: &Path, rate: f64) -> bool {
        let has_risen = |capacity: &f64| {
            rate > RATE_SHOWS * capacity
                || path.train.is_some_and(|train| bps(train.arrived) > TRAINS_SHOW * capacity)
        };
        if self.capacity.as_ref().is_some_and(has_risen) {
            self.capacity = None;
        }
        self.capacity.is_some_and(|capacity| rate > 0.95 * capacity)
    }

    /// The rate after this step, in bit/s; `None` while the media does not use what it has.
    pub(super) fn step(&mut self, path: &Path, rate: f64, bounds: Bounds) -> Option<f64> {
        let Bounds { trusts_trains, loses_overshoot, l4s } = bounds;
        let dt = path.step.as_seconds();
        let reaction = path.reaction().as_seconds();
        let fast = LN_2 / reaction * if self.is_start { START } else { 1.0 };
        let is_empty = path.queue() < path.low;
        let doublings = if is_empty { 0.5 } else { -1.0 } * dt / reaction;
        self.exponent *= math::exp(LN_2 * doublings);
        let train = path.train.filter(|train| bps(train.sent) > 1.3 * rate);
        let is_near = train.is_some_and(|train| !train.is_open() && rate > 0.85 * bps(train.arrived));
        let is_near = self.is_at_brim(path, rate) && loses_overshoot || is_near;
        let most = if is_near { NEAR_CAPACITY.min(fast) } else { fast };
        // Without trains a start is a little slower than with trains that show room.
        let least = match train {
            Some(train) if trusts_trains && !is_near => {
                if train.is_open() {
                    0.7
                } else {
                    0.5
                }
            }
            None if self.is_start && is_empty => 0.6,
            _ => 0.0,
        };
        self.exponent = self.exponent.max(least * fast);
        self.exponent = self.exponent.clamp(MIN_EXPONENT, most.max(MIN_EXPONENT));
        let exponent = l4s.map_or(self.exponent, |limit| self.exponent.min(limit));
        let used = path.delivered_long / (1.0 - path.loss.ratio.min(0.6));
        if rate > HEADROOM * used + ALLOWANCE {
            return None;
        }
        let additive =
            if l4s.is_some() { L4S_ADDITIVE } else { 1.0 } * ADDITIVE * math::sqrt(rate * 1e6) * dt;
        Some(rate * math::exp(exponent * dt) + additive)
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::{DataRate, TimeDelta};

    use super::*;
    use crate::tempo::train_rate::TrainRate;

    fn train(sent: u64, arrived: u64) -> TrainRate {
        TrainRate { sent: DataRate::from_bps(sent), arrived: DataRate::from_bps(arrived) }
    }

    fn trusting(trusts_trains: bool) -> Bounds {
        Bounds { trusts_trains, ..Bounds::default() }
    }

    /// Factor of the rate in one second from 1 Mbit/s, after congestion.
    fn second(path: Path, trusts: bool) -> f64 {
        let mut grow = Grow::new();
        grow.restart();
        let (mut rate, mut path) = (1e6, path);
        for _ in 0..20 {
            path.delivered_long = rate;
            rate = grow.step(&path, rate, trusting(trusts)).unwrap();
        }
        rate / 1e6
    }

    #[test]
    fn growth_begins_slowly_and_doubles_in_two_reaction_times() {
        // Reaction 0.2 s: the exponent is 0.01 × 2^(t/0.4 s), whose integral over a second is 0.01 × 0.577 × 4.66 = 0.027; the additive
        // part is 0.08 and more.
        let growth = second(Path::example(), true);
        assert!((1.105..1.13).contains(&growth), "{growth}");
        // A queue that stands below the limit of congestion stops the doubling: 1 % and the additive part.
        let standing = Path { queue: Some(TimeDelta::from_millis(8)), ..Path::example() };
        let growth = second(standing, true);
        assert!((1.088..1.097).contains(&growth), "{growth}");
    }

    #[test]
    fn trains_that_show_room_are_used_unless_others_may_be_there() {
        let open = Path { train: Some(train(2_500_000, 2_450_000)), ..Path::example() };
        // From 0.7 × ln 2 / 0.2 s, a factor of 11 in a second, to ln 2 / 0.2 s, a factor of 32.
        let (trusting, careful) = (second(open, true), second(open, false));
        assert!((11.0..32.0).contains(&trusting), "{trusting}");
        assert!((1.105..1.13).contains(&careful), "{careful}");
        // At the capacity that trains measure: 8 % and the additive part at most.
        let closed = Path { train: Some(train(2_500_000, 1_000_000)), ..Path::example() };
        let growth = second(closed, true);
        assert!((1.09..1.14).contains(&growth), "{growth}");
    }

    #[test]
    fn where_overshoot_is_lost_growth_is_slow_at_the_brim_until_trains_show_room() {
        let two_seconds = |loses_overshoot, arrived: Option<u64>| {
            let mut grow = Grow::new();
            grow.restart();
            grow.on_capacity(1e6);
            let (mut rate, mut path) = (1e6, Path::example());
            path.train = arrived.map(|arrived| train(1_150_000, arrived));
            for _ in 0..40 {
                path.delivered_long = rate;
                rate = grow.step(&path, rate, Bounds { loses_overshoot, ..Bounds::default() }).unwrap();
            }
            rate / 1e6
        };
        // The exponent is 0.01 × 2^(t/0.4 s), which is 0.08 after 1.2 s: in 2 s 0.10 with that bound and 0.18 without, and
        // the additive part of 0.08 a second.
        let (bound, free) = (two_seconds(true, None), two_seconds(false, None));
        assert!((1.26..1.3).contains(&bound) && (1.37..1.43).contains(&free), "{bound} {free}");
        // Trains that arrive at 1.15 times that capacity are no proof, at 1.25 they are.
        let (no_proof, proof) = (two_seconds(true, Some(1_150_000)), two_seconds(true, Some(1_250_000)));
        assert!((no_proof - bound).abs() < 1e-9 && (proof - free).abs() < 1e-9, "{no_proof} {proof}");
    }

    #[test]
    fn what_is_not_used_does_not_grow() {
        let path = Path { delivered_long: 4e5, ..Path::example() };
        assert_eq!(Grow::new().step(&path, 1e6, trusting(true)), None);
        assert!(Grow::new().step(&path, 7e5, trusting(true)).is_some());
    }

    #[test]
    fn a_small_flow_gains_on_a_large_one() {
        // Two flows that grow and yield the same share: the ratio of 10 shrinks.
        let ratio = second_from(4e6) / second_from(4e5);
        // The additive part is 4 % of 4 Mbit/s, and 12.6 % of 0.4 Mbit/s.
        assert!((0.91..0.94).contains(&ratio), "{ratio}");
    }

    fn second_from(begin: f64) -> f64 {
        let mut grow = Grow::new();
        grow.restart();
        let (mut rate, mut path) = (begin, Path::example());
        for _ in 0..20 {
            path.delivered_long = rate;
            rate = grow.step(&path, rate, trusting(false)).unwrap();
        }
        rate / begin
    }
}
