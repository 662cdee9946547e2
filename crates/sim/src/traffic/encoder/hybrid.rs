//! The hybrid model of RFC 8593 §7.

use giusto_units::{DataRate, Timestamp};
use rand::Rng;

use super::{
    error::SourceError,
    ladder::TraceLadder,
    on_cadence::OnCadence,
    trace::Player,
    transient::{StatisticalConfig, Steady, Transients},
};

/// The hybrid model of a live video encoder (RFC 8593 §7): the frames of a trace in the steady state; the
/// bursts and the damped reaction of the statistical model at abrupt changes; its varying intervals in the
/// steady state.
///
/// A requested key frame is a burst, as in the [`StatisticalEncoder`](super::StatisticalEncoder).
pub type HybridEncoder<R> = OnCadence<Transients<R, Player>>;

impl<R: Rng> HybridEncoder<R> {
    /// An encoder whose first frame is due at `start`. Its frame rate and the sizes in the steady state are
    /// those of `ladder`, whose first `skip_frames` are skipped in every repetition (20 in RFC 8593 §6.2.1).
    ///
    /// # Errors
    ///
    /// As for [`StatisticalEncoder::new`](super::StatisticalEncoder::new) and
    /// [`TraceEncoder::new`](super::TraceEncoder::new).
    pub fn new(
        config: StatisticalConfig,
        ladder: TraceLadder,
        skip_frames: usize,
        start: Timestamp,
        rng: R,
    ) -> Result<Self, SourceError> {
        let config = StatisticalConfig { frame_rate: ladder.frame_rate(), ..config };
        Self::with(config, Player::new(ladder, skip_frames)?, start, rng)
    }
}

impl Steady for Player {
    fn draw(&mut self, _config: &StatisticalConfig, rate: DataRate, _rng: &mut impl Rng) -> (u64, bool) {
        let (size, key) = self.next(rate);
        (size.as_bytes(), key)
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::{DataSize, TimeDelta};
    use rand::{SeedableRng, rngs::StdRng};

    use super::super::{FrameRate, MediaSource, tests};
    use super::*;

    #[test]
    fn a_transient_is_statistical_and_the_rest_from_the_trace() {
        let sizes = (0..40).map(|n| DataSize::from_bytes(5000 + n)).collect();
        let rate = DataRate::from_bps;
        let ladder = TraceLadder::new(FrameRate::HZ_25, vec![(rate(1_000_000), sizes)]).unwrap();
        let config = StatisticalConfig { start_rate: rate(1_000_000), ..StatisticalConfig::default() };
        let mut encoder =
            HybridEncoder::new(config, ladder, 20, Timestamp::ZERO, StdRng::seed_from_u64(2)).unwrap();
        let mut frames = |count: usize, target: u64| {
            let now = encoder.next_frame_at().unwrap();
            encoder.set_target(now, rate(target));
            tests::frames(&mut encoder, count)
        };
        let bytes = tests::bytes;

        // eight frames of 5000 bytes minus the burst are 26 500: a seventh is 3785.7, a sixth of the rest
        // 3785.8, a fifth of the rest 3786
        let begin = frames(12, 1_000_000);
        assert!(begin[0].key);
        assert_eq!(bytes(&begin), [13_500, 3785, 3785, 3786, 3786, 3786, 3786, 3786, 5008, 5009, 5010, 5011]);
        let steady: Vec<_> = begin[8..].windows(2).map(|pair| pair[1].captured - pair[0].captured).collect();
        assert!(steady.iter().all(|interval| *interval != TimeDelta::from_millis(40)), "{steady:?}");

        // a reduction by 10 % is not abrupt: the trace continues, scaled
        assert_eq!(bytes(&frames(2, 900_000)), [4511, 4512]); // 0.9 · 5012 and 5013
        // a reduction by half is abrupt, after the latency of the previous reaction
        assert_eq!(bytes(&frames(5, 900_000)), [4513, 4514, 4514, 4515, 4516]);
        let fall = frames(10, 450_000);
        // eight frames of 2250 minus the burst are 4500, for seven frames
        let sizes = bytes(&fall);
        assert_eq!(sizes[0], 13_500);
        assert!(sizes[1..8].iter().all(|size| (642..=643).contains(size)), "{sizes:?}");
        // index 19 was the first of the transient; 27 and 28 follow it
        assert_eq!(sizes[8..], [2262, 2263]); // 0.45 · 5027 and 5028
    }
}
