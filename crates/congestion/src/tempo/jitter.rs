//! Jitter: by how much the delays of frames vary without congestion.
//!
//! A queue moves slowly and one way: neighbouring frames wait alike, or each longer than the one before. Jitter makes them differ as much as
//! any two, whatever its distribution.

use alloc::{collections::VecDeque, vec::Vec};

use giusto_units::{TimeDelta, math};

/// Weight of a frame in the running mean: about eight count.
const MEAN_WEIGHT: f64 = 1.0 / 8.0;
/// Larger differences are stalls, in seconds.
const MAX_DIFFERENCE: f64 = 0.1;
/// Frames whose delays show the distribution: four seconds at 30 Hz.
const KEPT: usize = 128;
/// Difference of neighbours over the difference from the running mean. Independent delays have 1.30 (uniform) to 1.37 (normal), and 0.96
/// where packets keep their order and frames at 60 Hz meet normal jitter of 45 ms. Up to the first it is a queue that moves, from the second
/// on it is all jitter.
const QUEUE: f64 = 0.6;
const INDEPENDENT: f64 = 0.9;
/// Logarithm of the probability with which jitter exceeds what still counts as an empty path: 0.15. So often the least of four uniform delays
/// exceeds half of what it exceeds with 0.003.
const USUAL: f64 = -1.9;

/// Delays of the frames that met no congestion.
#[derive(Debug, Clone, Default)]
pub(super) struct Jitter {
    /// Mean difference between the delays of two neighbours, without and with its sign, and of a frame from the running mean, in seconds.
    neighbours: f64,
    drift: f64,
    spread: f64,
    mean: Option<f64>,
    /// The latest delays in their order, and by size.
    kept: VecDeque<TimeDelta>,
    sorted: Vec<TimeDelta>,
}

impl Jitter {
    /// Handles the delay of a frame and that of the frame before.
    pub(super) fn on_frame(&mut self, before: TimeDelta, delay: TimeDelta) {
        let difference = |from: f64| (delay.as_seconds() - from).abs().min(MAX_DIFFERENCE);
        let mean = self.mean.unwrap_or(before.as_seconds());
        // Means of as many frames as are kept.
        let weight = 1.0 / (self.kept.len() + 1) as f64;
        self.neighbours += weight * (difference(before.as_seconds()) - self.neighbours);
        let signed = (delay - before).as_seconds().clamp(-MAX_DIFFERENCE, MAX_DIFFERENCE);
        self.drift += weight * (signed - self.drift);
        self.spread += weight * (difference(mean) - self.spread);
        let is_far = difference(mean) >= MAX_DIFFERENCE;
        self.mean =
            Some(if is_far { delay.as_seconds() } else { mean + MEAN_WEIGHT * (delay.as_seconds() - mean) });
        if self.kept.len() >= KEPT
            && let Some(oldest) = self.kept.pop_front()
        {
            self.sorted.remove(self.sorted.partition_point(|&other| other < oldest));
        }
        self.kept.push_back(delay);
        self.sorted.insert(self.sorted.partition_point(|&other| other < delay), delay);
    }

    /// The delays above that of an empty path, in seconds, that the least of `frames` frames exceeds without any queue: with this probability,
    /// and with that of [`USUAL`].
    ///
    /// For delays that are uniform in a range *J*, two frames differ by *J*/3 in the mean, and the least of *n* exceeds *x* with the
    /// probability (1 − *x*/*J*)^*n*. Where they are independent, their own distribution counts instead: jitter that keeps the order of
    /// packets is seldom short.
    pub(super) fn by_chance(&self, empty: TimeDelta, frames: u32, probability: f64) -> (f64, f64) {
        let share = |ln_probability: f64| 1.0 - math::exp(ln_probability / f64::from(frames.max(1)));
        let neighbours = self.neighbours - self.drift.abs();
        let ratio = neighbours / self.spread.max(1e-6);
        let independent = ((ratio - QUEUE) / (INDEPENDENT - QUEUE)).clamp(0.0, 1.0);
        let limit = |uniform: f64, share: f64| {
            let at = (share * self.sorted.len() as f64) as usize;
            let own = self.sorted.get(at).map_or(0.0, |&delay| (delay - empty).as_seconds());
            uniform + independent * (own - uniform).max(0.0)
        };
        let seldom = share(math::ln(probability));
        let uniform = 3.0 * neighbours * seldom;
        let congested = limit(uniform, seldom);
        (congested, limit(0.5 * uniform, share(USUAL)).min(congested))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers uniform in 0..1, by a linear congruential generator (Numerical Recipes §7.1).
    struct Uniform(u32);

    impl Uniform {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(self.0) / 2.0_f64.powi(32)
        }
    }

    const BASE: TimeDelta = TimeDelta::from_millis(20);

    /// How often the least of four frames is above the limit for the probability 0.05 and above the usual one, and the mean of the first in
    /// ms, for these delays in ms.
    fn exceeded(mut delay: impl FnMut(u32) -> f64) -> (f64, f64, f64) {
        let (mut jitter, mut latest, mut limits) = (Jitter::default(), VecDeque::from([BASE; 4]), 0.0);
        let (mut seldom, mut usually, mut samples) = (0, 0, 0);
        for frame in 0..40_000 {
            let new = BASE + TimeDelta::from_seconds_f64(delay(frame) / 1000.0);
            jitter.on_frame(*latest.back().unwrap(), new);
            latest.push_back(new);
            latest.pop_front();
            if frame > 200 && frame % 20 == 0 {
                let (limit, usual) = jitter.by_chance(BASE, 4, 0.05);
                let least = (*latest.iter().min().unwrap() - BASE).as_seconds();
                seldom += u32::from(least > limit);
                usually += u32::from(least > usual);
                limits += 1000.0 * limit;
                samples += 1;
            }
        }
        let samples = f64::from(samples);
        (f64::from(seldom) / samples, f64::from(usually) / samples, limits / samples)
    }

    #[test]
    fn the_least_of_some_frames_exceeds_its_limit_as_often_as_is_said() {
        let mut random = Uniform(1);
        // 30 ms × (1 − 0.05^(1/4)) = 15.8 ms; 5 % of 1990 windows, and what the error of the estimate adds.
        let (share, usual, limit) = exceeded(|_| 30.0 * random.next());
        assert!((0.03..0.09).contains(&share) && (15.0..17.5).contains(&limit), "{share} {limit}");
        assert!((0.12..0.2).contains(&usual), "{usual}");
        // The largest of four, as where each packet waits for those before it: 30 ms × 0.527^(1/4) = 25.6 ms. The mean difference alone would
        // say 30 × 0.18 × 3 × 0.527 = 8.4 ms, which all but a thousandth exceed.
        // Half of its limit would nearly always be exceeded, as if a queue stood.
        let (share, usual, limit) = exceeded(|_| 30.0 * (0..4).map(|_| random.next()).fold(0.0, f64::max));
        assert!((0.03..0.09).contains(&share) && (24.0..27.0).contains(&limit), "{share} {limit}");
        assert!((0.12..0.2).contains(&usual), "{usual}");
    }

    #[test]
    fn a_queue_that_moves_slowly_is_no_jitter() {
        // Up to 30 ms and down again within two seconds: 1 ms a frame, of which a little is drift. 3 ms × 0.527 = 1.58 ms.
        let (_, _, limit) = exceeded(|frame| f64::from((frame % 60).min(60 - frame % 60)));
        assert!((1.4..1.6).contains(&limit), "{limit}");
    }

    #[test]
    fn a_queue_that_grows_from_the_first_frame_on_is_no_jitter() {
        // At 15 Hz and twice the capacity: 66 ms a frame, and frames whose sizes differ by up to a fifth.
        let (mut jitter, mut random, mut delay) = (Jitter::default(), Uniform(3), BASE);
        for frame in 1..30 {
            let next = delay + TimeDelta::from_seconds_f64(0.066 + 0.013 * random.next());
            jitter.on_frame(delay, next);
            delay = next;
            let (limit, _) = jitter.by_chance(BASE, 3, 0.003);
            assert!(limit < 0.01, "{frame}: {limit}");
        }
    }

    #[test]
    fn more_frames_or_more_false_alarms_make_the_limit_lower() {
        let (mut jitter, mut random) = (Jitter::default(), Uniform(2));
        let mut before = BASE;
        for _ in 0..1000 {
            let delay = BASE + TimeDelta::from_seconds_f64(0.03 * random.next());
            jitter.on_frame(before, delay);
            before = delay;
        }
        let limit = |frames, probability| jitter.by_chance(BASE, frames, probability).0;
        assert!(limit(8, 0.05) < limit(4, 0.05) && limit(4, 0.1) < limit(4, 0.05));
        // What is empty is not congested, whatever probability is asked for.
        let (congested, empty) = jitter.by_chance(BASE, 4, 0.5);
        assert!(0.0 < empty && empty <= congested, "{empty} {congested}");
        // A base delay that has become longer leaves what the differences show.
        assert!(jitter.by_chance(BASE * 3, 4, 0.05).0 > 0.01);
    }
}
