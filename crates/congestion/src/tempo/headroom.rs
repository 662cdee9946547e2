//! Law: stay below a capacity that varies.
//!
//! Each time of draining shows how far the capacity fell below the rate. A path whose capacity falls by a factor again and again cannot
//! be used to the brim: what is in flight when it falls comes too late. The rate keeps a distance in proportion to the smoothed depth of
//! the falls, and returns to that distance at once, since the capacity after a fall is that before. On a steady path the depth is that of
//! the sawtooth, and nothing is left unused.

use giusto_units::math;

use super::path::Path;

/// Weight of a fall in the smoothed depth.
const WEIGHT: f64 = 0.3;
/// Depth of what is no fall: the sawtooth of this and other flows, and the noise of a rate measured over 0.2 s.
const SAWTOOTH: f64 = 0.5;
/// Distance over the depth beyond that, both as logarithms.
const SHARE: f64 = 0.5;
/// Largest distance: half of the capacity is used at least.
const MOST: f64 = 0.7;
/// Falls are forgotten with this time constant, in seconds.
const MEMORY: f64 = 30.0;
/// Growth up to the safe rate, per second: the time constant is a third of a second.
const RETURN: f64 = 3.0;
/// Growth beyond it, per second: 14 s for a factor of two, if the capacity has become larger.
const BEYOND: f64 = 0.05;
/// Weight of a higher capacity in the memory.
const RISE: f64 = 0.4;

/// What is known about the variation of the capacity.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Headroom {
    /// Smoothed depth of the falls, as a natural logarithm.
    depth: f64,
    /// Capacity after falls, as a natural logarithm of bit/s.
    capacity: Option<f64>,
}

impl Headroom {
    /// Handles the end of a time of draining: the rate before, the least and the last capacity, in bit/s.
    pub(super) fn on_fall(&mut self, before: f64, least: f64, last: f64) {
        let least = least.max(0.05 * before).max(1.0);
        let depth = math::ln(before.max(last).max(1.0) / least).max(0.0);
        self.depth += WEIGHT * (depth - self.depth);
        let last = math::ln(last.max(1.0));
        self.capacity = Some(self.capacity.map_or(last, |known| {
            // A capacity that is lower now is believed at once.
            if last < known { last } else { known + RISE * (last - known) }
        }));
    }

    /// Time passes without a fall.
    pub(super) fn decay(&mut self, path: &Path) {
        self.depth *= math::exp(-path.step.as_seconds() / MEMORY);
    }

    /// Logarithm of the distance.
    fn distance(&self) -> f64 {
        (SHARE * (self.depth - SAWTOOTH).max(0.0)).min(MOST)
    }

    /// The share of the capacity that is used.
    pub(super) fn share(&self) -> f64 {
        math::exp(-self.distance())
    }

    /// The rate up to which the path is known to be usable, in bit/s, if the capacity varies.
    fn safe(&self) -> Option<f64> {
        let capacity = self.capacity.filter(|_| self.distance() > 0.0)?;
        Some(math::exp(capacity - self.distance()))
    }

    /// Limits growth from `rate` to `next`, or hastens it up to the safe rate.
    pub(super) fn limit(&self, path: &Path, rate: f64, next: f64) -> f64 {
        let Some(safe) = self.safe() else { return next };
        let step = path.step.as_seconds();
        if rate < safe && path.queue() < path.low {
            return next.max((rate * (1.0 + (RETURN * step).min(0.5))).min(safe));
        }
        next.min(rate.max(safe) * (1.0 + BEYOND * step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_steady_path_nothing_is_left_unused() {
        let mut headroom = Headroom::default();
        for _ in 0..50 {
            headroom.on_fall(1.05e6, 0.9e6, 1e6);
        }
        assert!((headroom.share() - 1.0).abs() < 1e-12);
        assert!((headroom.limit(&Path::example(), 1e6, 1.4e6) - 1.4e6).abs() < 1e-3);
    }

    #[test]
    fn deep_falls_keep_a_distance_and_growth_returns_to_it_at_once() {
        let mut headroom = Headroom::default();
        for _ in 0..50 {
            headroom.on_fall(1e6, 0.25e6, 1e6);
        }
        // The depth is ln 4 = 1.386, the distance (1.386 - 0.5) / 2 = 0.443.
        let share = headroom.share();
        assert!((share - 0.642).abs() < 1e-3, "{share}");
        let path = Path { step: giusto_units::TimeDelta::from_millis(50), ..Path::example() };
        let below = headroom.limit(&path, 0.3e6, 0.301e6);
        assert!((below - 0.345e6).abs() < 1.0, "{below}");
        let above = headroom.limit(&path, 0.7e6, 0.9e6);
        assert!((above - 0.7e6 * 1.0025).abs() < 1.0, "{above}");
        // Never more than half stays free, and it is forgotten.
        for _ in 0..50 {
            headroom.on_fall(1e6, 1e4, 1e6);
        }
        assert!((headroom.share() - 0.4966).abs() < 1e-3);
        for _ in 0..2000 {
            headroom.decay(&path);
        }
        assert!((headroom.share() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_lower_capacity_is_believed_at_once_and_a_higher_one_in_steps() {
        let mut headroom = Headroom::default();
        headroom.on_fall(10e6, 0.1e6, 8e6);
        headroom.on_fall(8e6, 0.1e6, 1e6);
        assert!((headroom.capacity.unwrap() - math::ln(1e6)).abs() < 1e-12);
        headroom.on_fall(1e6, 0.1e6, 4e6);
        let expected = math::ln(1e6) + 0.4 * math::ln(4.0);
        assert!((headroom.capacity.unwrap() - expected).abs() < 1e-12);
    }
}
