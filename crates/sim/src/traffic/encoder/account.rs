//! Bursts that are repaid: after a large frame, frames are smaller until the average is the target again.

use giusto_units::{DataRate, DataSize};

use super::{
    cadence::FrameRate,
    error::{SourceError, parameter},
    frame::FRAME_MIN,
};

/// Size of a burst frame or a key frame.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum BurstSize {
    /// A fixed size at every rate.
    Fixed(DataSize),
    /// A multiple of the mean frame at the current rate; 1 to 1000.
    Frames(f64),
}

impl BurstSize {
    pub(super) fn check(self) -> Result<(), SourceError> {
        if let Self::Frames(times) = self {
            parameter("burst in mean frames", times, 1.0..=1e3, "1 to 1000")?;
        }
        Ok(())
    }

    fn bytes(self, mean: f64) -> u64 {
        match self {
            Self::Fixed(size) => size.as_bytes(),
            Self::Frames(times) => (mean * times).round() as u64,
        }
    }
}

/// Frame sizes whose sum follows the target to the byte.
///
/// A burst of `n` frames has the budget of `n` mean frames, minus what an earlier burst has not repaid. Its
/// first frame is the large one, but leaves [`FRAME_MIN`] for each of the others, which share the rest
/// evenly. For a single burst these are the frames of RFC 8593 §5.2.
#[derive(Debug, Clone)]
pub(super) struct FrameAccount {
    frame_rate: FrameRate,
    /// Bytes sent beyond the target, in shares (see [`FrameRate::share`]). A negative value is a fraction of
    /// a byte not yet sent.
    debt: i128,
    /// Remaining frames of the burst.
    left: u32,
}

impl FrameAccount {
    pub(super) const fn new(frame_rate: FrameRate) -> Self {
        Self { frame_rate, debt: 0, left: 0 }
    }

    /// The first frame of a burst of `frames` frames, including this one, at `rate`.
    pub(super) fn open(&mut self, rate: DataRate, frames: u32, burst: BurstSize) -> u64 {
        let (mean, byte) = (self.frame_rate.share(rate), self.frame_rate.share_of_a_byte());
        let rest = i128::from(frames.saturating_sub(1));
        let affordable = ((rest + 1) * mean - self.debt) / byte - rest * smallest();
        let bytes = i128::from(burst.bytes(mean as f64 / byte as f64)).min(affordable).max(smallest());
        self.left = frames.saturating_sub(1);
        self.give(bytes, mean)
    }

    /// The next of the smaller frames; `None` once the burst is repaid.
    pub(super) fn repay(&mut self, rate: DataRate) -> Option<u64> {
        (self.left > 0).then(|| self.next(rate))
    }

    /// The next frame: one that repays, or the mean at `rate` plus the rounding error of earlier frames.
    pub(super) fn next(&mut self, rate: DataRate) -> u64 {
        let (mean, byte) = (self.frame_rate.share(rate), self.frame_rate.share_of_a_byte());
        let bytes = ((mean - self.debt / i128::from(self.left.max(1))).div_euclid(byte)).max(smallest());
        let given = self.give(bytes, mean);
        // The rate may have fallen since the burst: then repaying takes more frames than planned.
        self.left = self.left.saturating_sub(1).max(u32::from(self.left > 0 && self.debt >= byte));
        given
    }

    fn give(&mut self, bytes: i128, mean: i128) -> u64 {
        self.debt += bytes * self.frame_rate.share_of_a_byte() - mean;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

fn smallest() -> i128 {
    i128::from(FRAME_MIN.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: BurstSize = BurstSize::Fixed(DataSize::from_bytes(13_500));

    fn burst(rate: u64, frames: u32, size: BurstSize) -> Vec<u64> {
        let mut account = FrameAccount::new(FrameRate::HZ_30);
        let rate = DataRate::from_bps(rate);
        let first = account.open(rate, frames, size);
        std::iter::once(first).chain(std::iter::from_fn(|| account.repay(rate))).collect()
    }

    #[test]
    fn the_example_burst_is_followed_by_seven_smaller_frames() {
        // RFC 8593 Figure 2: 8 frames of 1 Mbit/s / 8 / 30 Hz are 33 333 1/3 bytes; minus 13 500, seven of
        // 2833 1/3
        let sizes = burst(1_000_000, 8, EXAMPLE);
        assert_eq!((sizes.len(), sizes[0]), (8, 13_500));
        assert!(sizes[1..].iter().all(|size| (2833..=2834).contains(size)), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<u64>(), 33_333);
    }

    #[test]
    fn a_burst_above_the_budget_is_reduced() {
        // eight frames of 150 kbit/s / 8 / 30 Hz = 625 bytes are 5000; seven frames have ten bytes each
        assert_eq!(burst(150_000, 8, EXAMPLE), [4930, 10, 10, 10, 10, 10, 10, 10]);
        assert_eq!(burst(150_000, 1, EXAMPLE), [625]);
        assert_eq!(burst(150_000, 8, BurstSize::Frames(3.0))[0], 1875);
    }

    #[test]
    fn a_second_burst_before_the_first_is_repaid_inherits_its_debt() {
        let mut account = FrameAccount::new(FrameRate::HZ_30);
        let rate = DataRate::from_bps(1_200_000); // 5000 bytes a frame
        assert_eq!(account.open(rate, 4, BurstSize::Frames(2.0)), 10_000);
        assert_eq!(account.repay(rate), Some(3333)); // 5000 − 5000/3
        // 3333 not repaid: four frames have 20 000 − 3333
        assert_eq!(account.open(rate, 4, BurstSize::Frames(2.0)), 10_000);
        let rest: Vec<_> = std::iter::from_fn(|| account.repay(rate)).collect();
        assert_eq!(rest.len(), 3);
        assert_eq!(10_000 + 3333 + 10_000 + rest.iter().sum::<u64>(), 6 * 5000);
    }

    #[test]
    fn a_burst_is_repaid_even_if_the_rate_falls() {
        let mut account = FrameAccount::new(FrameRate::HZ_30);
        let (high, low) = (DataRate::from_bps(1_200_000), DataRate::from_bps(120_000));
        let mut sum = account.open(high, 4, BurstSize::Frames(3.0));
        let mut frames = 0;
        while let Some(size) = account.repay(low) {
            (sum, frames) = (sum + size, frames + 1);
        }
        // 10 000 bytes beyond the target, of which each frame of ten bytes repays 490
        assert_eq!(frames, 21);
        assert_eq!(sum, 5000 + 21 * 500);
    }

    #[test]
    fn frames_carry_fractions_of_a_byte() {
        let mut account = FrameAccount::new(FrameRate::HZ_30);
        let sizes: Vec<_> = (0..6).map(|_| account.next(DataRate::from_bps(1_000_000))).collect();
        assert_eq!(sizes, [4166, 4167, 4167, 4166, 4167, 4167]);
    }
}
