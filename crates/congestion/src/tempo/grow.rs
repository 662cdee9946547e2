//! Law: grow while no queue stands.
//!
//! The exponent of the growth doubles every two reaction times, from 1 % a second: what can be sent too much before it is seen stays a
//! bounded part of what was safe before. Trains that show room shorten this, trains at the capacity stop it. An additive term makes
//! flows equal: slower flows grow by a larger share, and all give up the same share.

use core::f64::consts::LN_2;

use giusto_units::math;

use super::{bps, distance::Distance, frames::TrainRate, path::Path};

/// First exponent after each change of the law, per second: less than the additive part, which makes flows equal.
const MIN_EXPONENT: f64 = 0.01;
/// Most growth near the capacity that trains measure, per second: then overshoot stays below 2 % in a reaction time of 0.2 s. Trains are
/// good for a tenth, and growth at full speed adds as much in a reaction time.
const NEAR_CAPACITY: f64 = 0.08;
const NEAR_TRAINS: f64 = 0.75;
/// The same from this share of the capacity on that the latest queue showed, and what is left of the additive part there: what is known need
/// not be found again.
const BRIM: f64 = 0.9;
const AT_BRIM: f64 = 0.02;
const BRIM_ADDITIVE: f64 = 0.4;
/// Both double in each such time of growth, in seconds: where trains show nothing, only the rate can find that the capacity has risen.
const BRIM_DOUBLES: f64 = 5.0;
/// The capacity that the latest queue showed is out of date once trains arrive this much faster, less if they arrive as fast as they left, or
/// the rate is this much higher without a queue.
const TRAINS_SHOW: f64 = 1.2;
const OPEN_TRAINS_SHOW: f64 = 1.1;
const RATE_SHOWS: f64 = 1.1;
/// Until the first congestion the exponent may be this much larger: the capacity is unknown by orders of magnitude.
const START: f64 = 1.6;
/// Additive growth in bit/s per second is this times the square root of (rate × 1 Mbit/s): 8 % a second at 1 Mbit/s, 2.5 % at 10.
/// [`drain`](super::drain) takes 3 % away, so that a cycle takes about a second.
const ADDITIVE: f64 = 0.08;
/// Over that where packets are marked: flows of few packets meet the queues of all others and see more marks, so growth must weigh more than
/// the share of marks. With half, calls of a few packets a round trip starved.
const MARKED_ADDITIVE: f64 = 2.0;
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
    /// Time since then, in seconds.
    age: f64,
}

/// What limits the growth besides the path.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bounds {
    /// Nobody else seems to be there, so that what a train finds is ours, and the capacity that a queue showed.
    pub(super) is_alone: bool,
    /// From the capacity.
    pub(super) distance: Distance,
    /// The highest exponent, where packets are marked.
    pub(super) marked: Option<f64>,
}

impl Grow {
    pub(super) fn new() -> Self {
        Self { exponent: 0.3, is_start: true, capacity: None, age: 0.0 }
    }

    /// After congestion.
    pub(super) fn restart(&mut self) {
        *self = Self { exponent: MIN_EXPONENT, is_start: false, ..*self };
    }

    /// Handles the end of a queue, which showed this capacity in bit/s.
    pub(super) fn on_capacity(&mut self, capacity: f64) {
        (self.capacity, self.age) = (Some(capacity), 0.0);
    }

    /// Whether the rate is near the share of the capacity that the latest queue showed.
    fn is_at_brim(&mut self, path: &Path, rate: f64, distance: Distance) -> bool {
        let has_risen = |&capacity: &f64| {
            let shows = |train: TrainRate| {
                bps(train.arrived) > if train.is_open() { OPEN_TRAINS_SHOW } else { TRAINS_SHOW } * capacity
            };
            rate > RATE_SHOWS * capacity || path.train.is_some_and(shows)
        };
        if self.capacity.as_ref().is_some_and(has_risen) {
            self.capacity = None;
        }
        self.capacity.is_some_and(|capacity| rate > (BRIM - distance.share()) * capacity)
    }

    /// The rate after this step, in bit/s; `None` while the media does not use what it has.
    pub(super) fn step(&mut self, path: &Path, rate: f64, bounds: Bounds) -> Option<f64> {
        let Bounds { is_alone, distance, marked } = bounds;
        let dt = path.step.as_seconds();
        let reaction = path.reaction().as_seconds();
        let fast = LN_2 / reaction * if self.is_start { START } else { 1.0 };
        let is_empty = path.queue() < path.low;
        let doublings = if is_empty { 0.5 } else { -1.0 } * dt / reaction;
        self.exponent *= math::exp(LN_2 * doublings);
        let train = path.train.filter(|train| bps(train.sent) > 1.3 * rate);
        let is_near = train.is_some_and(|train| !train.is_open() && rate > NEAR_TRAINS * bps(train.arrived));
        let is_at_brim = self.is_at_brim(path, rate, distance) && is_alone;
        self.age += dt;
        let care = distance.care() * math::exp(LN_2 * self.age / BRIM_DOUBLES);
        let most = if is_at_brim {
            (AT_BRIM * care).min(NEAR_CAPACITY)
        } else if is_near {
            NEAR_CAPACITY
        } else {
            fast
        };
        let most = most.min(fast);
        // Without trains a start is a little slower than with trains that show room.
        let least = match train {
            Some(train) if is_alone && !is_near && !is_at_brim => {
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
        self.exponent = self.exponent.max(MIN_EXPONENT).min(most);
        let exponent = marked.map_or(self.exponent, |limit| self.exponent.min(limit));
        let used = path.delivered_long / (1.0 - path.loss.ratio.min(0.6));
        if rate > HEADROOM * used + ALLOWANCE {
            return None;
        }
        let part = match marked {
            Some(_) => MARKED_ADDITIVE,
            None if is_at_brim => (BRIM_ADDITIVE * care).min(1.0),
            None => 1.0,
        };
        let additive = part * ADDITIVE * math::sqrt(rate * 1e6) * dt;
        Some(rate * math::exp(exponent * dt) + additive)
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::{DataRate, TimeDelta};

    use super::*;
    use crate::testing::within;

    fn train(sent: u64, arrived: u64) -> TrainRate {
        TrainRate { sent: DataRate::from_bps(sent), arrived: DataRate::from_bps(arrived) }
    }

    fn alone(is_alone: bool) -> Bounds {
        Bounds { is_alone, ..Bounds::default() }
    }

    /// Factor of the rate in one second from `begin`, after congestion.
    fn second_from(begin: f64, mut path: Path, is_alone: bool) -> f64 {
        let mut grow = Grow::new();
        grow.restart();
        let mut rate = begin;
        for _ in 0..20 {
            path.delivered_long = rate;
            rate = grow.step(&path, rate, alone(is_alone)).unwrap();
        }
        rate / begin
    }

    fn second(path: Path, is_alone: bool) -> f64 {
        second_from(1e6, path, is_alone)
    }

    #[test]
    fn growth_begins_slowly_and_doubles_in_two_reaction_times() {
        // Reaction 0.2 s: the exponent is 0.01 × 2^(t/0.4 s), whose integral over a second is 0.01 × 0.577 × 4.66 = 0.027; the additive
        // part is 0.08 and more.
        within(second(Path::example(), true), 1.105..1.13);
        // A queue that stands below the limit of congestion stops the doubling: 1 % and the additive part.
        let standing = Path { queue: Some(TimeDelta::from_millis(8)), ..Path::example() };
        within(second(standing, true), 1.088..1.097);
    }

    #[test]
    fn trains_that_show_room_are_used_unless_others_may_be_there() {
        let open = Path { train: Some(train(2_500_000, 2_450_000)), ..Path::example() };
        // From 0.7 × ln 2 / 0.2 s, a factor of 11 in a second, to ln 2 / 0.2 s, a factor of 32.
        within(second(open, true), 11.0..32.0);
        within(second(open, false), 1.105..1.13);
        // At the capacity that trains measure: 8 % and the additive part at most.
        let closed = Path { train: Some(train(2_500_000, 1_000_000)), ..Path::example() };
        within(second(closed, true), 1.09..1.14);
    }

    #[test]
    fn at_the_brim_growth_is_slow_until_trains_show_room_and_slower_after_each_cost() {
        let late = Path { queue_ahead: TimeDelta::from_millis(310), ..Path::example() };
        let two_seconds = |is_alone, costs: i64, sent: Option<u64>| {
            let mut grow = Grow::new();
            grow.restart();
            grow.on_capacity(1e6);
            let mut distance = Distance::default();
            for cost in 0..costs {
                let now = late.now + TimeDelta::from_seconds(cost);
                distance.step(&Path { now, step: TimeDelta::ZERO, ..late }, 1e6, true, 0.0);
            }
            let (mut rate, mut path) = (1e6, Path::example());
            path.train = sent.map(|sent| train(sent, 1_150_000));
            for _ in 0..40 {
                path.delivered_long = rate;
                let bounds = Bounds { is_alone, distance, ..Bounds::default() };
                rate = grow.step(&path, rate, bounds).unwrap();
            }
            rate / 1e6
        };
        // Up to 1.1 times the capacity, where that is out of date, 2 % a second and 0.4 of the additive part of 8 % a second.
        let (bound, free) = (two_seconds(true, 0, None), two_seconds(false, 0, None));
        assert!((1.12..1.15).contains(&bound) && (1.37..1.43).contains(&free), "{bound} {free}");
        // After one cost e^-1 of that, after two e^-2.
        let (once, twice) = (two_seconds(true, 1, None), two_seconds(true, 2, None));
        assert!((1.035..1.045).contains(&once) && (1.012..1.017).contains(&twice), "{once} {twice}");
        // Trains that arrive at 1.15 times that capacity are a proof if they left no faster.
        let (no_proof, proof) =
            (two_seconds(true, 0, Some(2_500_000)), two_seconds(true, 0, Some(1_150_000)));
        assert!((no_proof - bound).abs() < 1e-9 && proof > free - 1e-9, "{no_proof} {proof}");
    }

    #[test]
    fn what_is_not_used_does_not_grow() {
        let path = Path { delivered_long: 4e5, ..Path::example() };
        assert_eq!(Grow::new().step(&path, 1e6, alone(true)), None);
        assert!(Grow::new().step(&path, 7e5, alone(true)).is_some());
    }

    #[test]
    fn a_small_flow_gains_on_a_large_one() {
        // Two flows that grow and yield the same share: the ratio of 10 shrinks.
        let [large, small] = [4e6, 4e5].map(|begin| second_from(begin, Path::example(), false));
        // The additive part is 4 % of 4 Mbit/s, and 12.6 % of 0.4 Mbit/s.
        within(large / small, 0.91..0.94);
    }
}
