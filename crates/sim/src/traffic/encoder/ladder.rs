//! Frame sizes of one scene at several rates.

use giusto_units::{DataRate, DataSize, math};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::{
    cadence::FrameRate,
    error::{SourceError, parameter},
    frame::{FRAME_MAX, FRAME_MIN},
};

/// One scene, encoded at several rates: for each rate the sizes of its frames (RFC 8593 §6.1, the map `Traces`).
///
/// No recorded traces are part of this crate. [`TraceLadder::synthetic`] generates synthetic ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceLadder {
    frame_rate: FrameRate,
    /// By ascending rate, all of the same length.
    rungs: Vec<(DataRate, Vec<DataSize>)>,
}

impl TraceLadder {
    /// A ladder of traces with `frame_rate`: each has a rate and the sizes of the frames encoded at it, in
    /// order.
    ///
    /// # Errors
    ///
    /// [`SourceError::Ladder`] unless there is at least one rung, rates are above zero and ascending, and all
    /// rungs have the same number of frames, at least one.
    pub fn new(frame_rate: FrameRate, rungs: Vec<(DataRate, Vec<DataSize>)>) -> Result<Self, SourceError> {
        let first = rungs.first().ok_or(SourceError::Ladder("it has no rungs"))?;
        let frames = first.1.len();
        if frames == 0 {
            return Err(SourceError::Ladder("it has no frames"));
        }
        if first.0 == DataRate::ZERO {
            return Err(SourceError::Ladder("the lowest rate must be above 0 bit/s, found zero"));
        }
        if rungs.iter().any(|(_, sizes)| sizes.len() != frames) {
            return Err(SourceError::Ladder("all rungs must have the same number of frames"));
        }
        if !rungs.is_sorted_by(|low, high| low.0 < high.0) {
            return Err(SourceError::Ladder("the rates must be ascending"));
        }
        Ok(Self { frame_rate, rungs })
    }

    /// A synthetic scene encoded at each of `rates`.
    ///
    /// The first frame is a key frame. The others follow the activity of the scene, a random process with
    /// some correlation that is the same at every rate. The frames up to
    /// [`settled_after`](SyntheticScene::settled_after) have the rung's mean rate, and so have those after
    /// them.
    ///
    /// # Errors
    ///
    /// [`SourceError::Parameter`] for a scene out of range, [`SourceError::Ladder`] for rates as in
    /// [`TraceLadder::new`].
    pub fn synthetic<R: Rng>(
        frame_rate: FrameRate,
        rates: &[DataRate],
        scene: SyntheticScene,
        rng: &mut R,
    ) -> Result<Self, SourceError> {
        let weights = scene.weights(rng)?;
        let rung = |&rate: &DataRate| {
            let mean = rate.as_bps() as f64 / 8.0 / frame_rate.as_hertz();
            let sizes =
                weights.iter().map(|weight| DataSize::from_bytes((mean * weight).round() as u64)).collect();
            (rate, sizes)
        };
        Self::new(frame_rate, rates.iter().map(rung).collect())
    }

    /// Frames per second, the same for all rungs.
    pub const fn frame_rate(&self) -> FrameRate {
        self.frame_rate
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.rungs.first().map_or(0, |(_, sizes)| sizes.len())
    }

    /// The rates of the rungs, ascending.
    pub fn rates(&self) -> impl Iterator<Item = DataRate> + '_ {
        self.rungs.iter().map(|(rate, _)| *rate)
    }

    /// The size of frame `index`, modulo the length, at `rate` (RFC 8593 §6.2.1): interpolated between the
    /// adjacent rungs, or scaled from the nearest end of the ladder, within [`FRAME_MIN`] and [`FRAME_MAX`].
    pub fn size(&self, rate: DataRate, index: usize) -> DataSize {
        let index = index % self.frames().max(1);
        let above = self.rungs.partition_point(|(rung, _)| *rung <= rate);
        let rung = |at: usize| {
            let (rate, sizes) = self.rungs.get(at)?;
            Some((rate.as_bps(), sizes.get(index)?.as_bytes()))
        };
        let bytes = match (above.checked_sub(1).and_then(rung), rung(above)) {
            (Some(low), Some(high)) => interpolate(low, high, rate.as_bps()),
            // w · Traces[Rf_min] and w · Traces[Rf_max]: a line through the origin
            (Some(end), None) | (None, Some(end)) => interpolate((0, 0), end, rate.as_bps()),
            (None, None) => 0,
        };
        DataSize::from_bytes(bytes).clamp(FRAME_MIN, FRAME_MAX)
    }
}

/// The size at `rate` on the line through two points, each a rate and a size, to the nearest byte.
fn interpolate(low: (u64, u64), high: (u64, u64), rate: u64) -> u64 {
    let signed = |(rate, size): (u64, u64)| (i128::from(rate), i128::from(size));
    let ((low_rate, low_size), (high_rate, high_size)) = (signed(low), signed(high));
    let step = (high_rate - low_rate).max(1);
    let rise = (high_size - low_size).saturating_mul(i128::from(rate) - low_rate);
    let size = low_size.saturating_add(rise.saturating_add(step / 2).div_euclid(step));
    u64::try_from(size.max(0)).unwrap_or(u64::MAX)
}

giusto_units::defaults! {
    /// Parameters of a synthetic scene; see [`TraceLadder::synthetic`]. The defaults are our choice and were not
    /// fitted to recordings.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct SyntheticScene {
        /// Number of frames, more than `settled_after`, at most 1 000 000. Default: 3600, two minutes at 30 Hz
        /// (RFC 8593 §6.1 requires two to four).
        pub frames: usize = 3600,
        /// Number of frames, at least 2, after which the first key frame is repaid. Default: 20, the `SkipFrames`
        /// of RFC 8593 §6.2.1.
        pub settled_after: usize = 20,
        /// Size of the key frame in mean frames, at least 1 and less than `settled_after`. Default: 6.
        pub key_frame: f64 = 6.0,
        /// The standard deviation of the logarithm of the activity, 0 to 1. Default: 0.2.
        pub spread: f64 = 0.2,
        /// The correlation of consecutive frames' activity, 0 to 0.999. Default: 0.9.
        pub memory: f64 = 0.9,
    }
}

impl SyntheticScene {
    /// The frame sizes in mean frames.
    fn weights<R: Rng>(self, rng: &mut R) -> Result<Vec<f64>, SourceError> {
        let Self { frames, settled_after, key_frame, spread, memory } = self;
        parameter("spread", spread, 0.0..=1.0, "0 to 1")?;
        parameter("memory", memory, 0.0..=0.999, "0 to 0.999")?;
        parameter("settling time in frames", settled_after as f64, 2.0..=1e6, "2 to 1000000")?;
        let longer = settled_after as f64 + 1.0;
        parameter(
            "length in frames",
            frames as f64,
            longer..=1e6,
            "more than the settling time, at most 1000000",
        )?;
        let max = settled_after as f64 - 0.5;
        parameter(
            "key frame in mean frames",
            key_frame,
            1.0..=max,
            "at least 1 and below the settling time",
        )?;

        let mut state: f64 = StandardNormal.sample(rng);
        let mut weights: Vec<f64> = (0..frames)
            .map(|_| {
                let fresh: f64 = StandardNormal.sample(rng);
                state = memory * state + (1.0 - memory * memory).sqrt() * fresh;
                math::exp(spread * state)
            })
            .collect();
        let (begin, rest) = weights.split_at_mut(settled_after);
        scale_to(rest, rest.len() as f64);
        if let Some((key, others)) = begin.split_first_mut() {
            *key = key_frame;
            scale_to(others, settled_after as f64 - key_frame);
        }
        Ok(weights)
    }
}

/// Scales `weights` so that their sum is `total`.
fn scale_to(weights: &mut [f64], total: f64) {
    let factor = total / weights.iter().sum::<f64>();
    for weight in weights {
        *weight *= factor;
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;
    use crate::testing::{kbps, mean, variance};

    fn sizes(bytes: &[u64]) -> Vec<DataSize> {
        bytes.iter().copied().map(DataSize::from_bytes).collect()
    }

    fn ladder() -> TraceLadder {
        let rungs = vec![
            (kbps(200), sizes(&[4000, 900])),
            (kbps(400), sizes(&[6000, 1700])),
            (kbps(700), sizes(&[9000, 1400])),
        ];
        TraceLadder::new(FrameRate::HZ_25, rungs).unwrap()
    }

    #[test]
    fn sizes_between_rungs_are_interpolated_by_hand() {
        // RFC 8593 §6.2.1: a) between rungs, of which the second step is wider; b) below; c) above the ladder
        let table = [
            (200, 0, 4000),
            (250, 0, 4500),
            (250, 1, 1100),
            (400, 1, 1700),
            (500, 1, 1600), // 1700 · 2/3 + 1400 · 1/3
            (699, 0, 8990),
            (100, 0, 2000),
            (100, 1, 450),
            (700, 0, 9000),
            (1400, 1, 2800),
            (2, 1, 10),
            (1_000_000, 0, 1_000_000),
        ];
        for (rate, index, expected) in table {
            let found = ladder().size(kbps(rate), index).as_bytes();
            assert_eq!(found, expected, "frame {index} at {rate} kbit/s");
        }
    }

    #[test]
    fn invalid_ladders_and_scenes_are_rejected() {
        let rung = |rate, bytes: &[u64]| (kbps(rate), sizes(bytes));
        for (rungs, reason) in [
            (vec![], "no rungs"),
            (vec![rung(1, &[])], "no frames"),
            (vec![rung(0, &[1])], "zero"),
            (vec![rung(2, &[1]), rung(2, &[1])], "ascend"),
            (vec![rung(1, &[1]), rung(2, &[1, 2])], "same number of frames"),
        ] {
            let message = TraceLadder::new(FrameRate::HZ_25, rungs).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
        let base = SyntheticScene::default();
        for scene in [
            SyntheticScene { frames: 20, ..base },
            SyntheticScene { settled_after: 1, ..base },
            SyntheticScene { key_frame: 20.0, ..base },
            SyntheticScene { memory: 1.0, ..base },
            SyntheticScene { spread: f64::NAN, ..base },
        ] {
            let mut rng = StdRng::seed_from_u64(1);
            let ladder = TraceLadder::synthetic(FrameRate::HZ_30, &[kbps(150)], scene, &mut rng);
            assert!(ladder.is_err(), "{scene:?}");
        }
    }

    #[test]
    fn a_synthetic_scene_has_its_rates_and_correlation() {
        let (rates, scene) =
            ([kbps(150), kbps(1500)], SyntheticScene { frames: 20_000, ..Default::default() });
        let ladder =
            TraceLadder::synthetic(FrameRate::HZ_30, &rates, scene, &mut StdRng::seed_from_u64(3)).unwrap();
        for rate in rates {
            let frame = rate.as_bps() as f64 / 240.0;
            let sizes: Vec<f64> =
                (0..ladder.frames()).map(|n| ladder.size(rate, n).as_bytes() as f64 / frame).collect();
            assert!((sizes[0] - 6.0).abs() < 0.01);
            assert!((mean(&sizes[..20]) - 1.0).abs() < 1e-3 && (mean(&sizes[20..]) - 1.0).abs() < 1e-3);
            let logs: Vec<f64> = sizes[20..].iter().map(|size| size.ln()).collect();
            let (middle, variance) = (mean(&logs), variance(&logs));
            let together = logs.windows(2).map(|pair| (pair[0] - middle) * (pair[1] - middle)).sum::<f64>();
            let memory = together / logs.len() as f64 / variance;
            assert!((variance.sqrt() - 0.2).abs() < 0.02, "spread {}", variance.sqrt());
            assert!((memory - 0.9).abs() < 0.02, "memory {memory}");
        }
    }
}
