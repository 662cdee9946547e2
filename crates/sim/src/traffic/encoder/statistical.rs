//! The statistical model of RFC 8593 §5.

use giusto_units::{DataRate, Timestamp};
use rand::Rng;

use super::{
    error::SourceError,
    laplace::deviation,
    on_cadence::OnCadence,
    transient::{StatisticalConfig, Steady, Transients},
};

/// The statistical reference model of a live video encoder (RFC 8593 §5).
///
/// In the steady state, frame sizes and intervals have independent Laplacian deviations (§5.3). An abrupt
/// change of the target, a requested key frame and the start begin a transient: a burst frame, then smaller
/// ones, so that the average is the target (§5.2). After a reaction the encoder does not react again for a
/// while (§5.1). The [module](super) documents our choices where the text leaves one.
pub type StatisticalEncoder<R> = OnCadence<Transients<R, Deviations>>;

/// Frames with Laplacian deviations in size.
#[derive(Debug, Clone, Copy)]
pub struct Deviations;

impl<R: Rng> StatisticalEncoder<R> {
    /// An encoder whose first frame is due at `start`, with deviations drawn from `rng`.
    ///
    /// # Errors
    ///
    /// [`SourceError::Parameter`] names the parameter out of range; [`SourceError::FrameTooSmall`] if the
    /// lowest rate gives less than the minimum frame size.
    pub fn new(config: StatisticalConfig, start: Timestamp, rng: R) -> Result<Self, SourceError> {
        Self::with(config, Deviations, start, rng)
    }
}

impl Steady for Deviations {
    fn draw(&mut self, config: &StatisticalConfig, rate: DataRate, rng: &mut impl Rng) -> (u64, bool) {
        let StatisticalConfig { frame_rate, size_scale, .. } = *config;
        let mean = frame_rate.share(rate) as f64 / frame_rate.share_of_a_byte() as f64;
        ((mean * (1.0 + deviation(size_scale, rng))).round() as u64, false)
    }
}

#[cfg(test)]
mod tests {
    use giusto_session::media::Frame;
    use giusto_units::DataSize;
    use rand::{SeedableRng, rngs::StdRng};

    use super::super::{BurstSize, Meanwhile, MediaSource};
    use super::*;

    fn encoder(config: StatisticalConfig) -> StatisticalEncoder<StdRng> {
        StatisticalEncoder::new(config, Timestamp::ZERO, StdRng::seed_from_u64(5)).unwrap()
    }

    fn at_a_megabit() -> StatisticalConfig {
        StatisticalConfig { start_rate: DataRate::from_bps(1_000_000), ..StatisticalConfig::default() }
    }

    fn frames(encoder: &mut StatisticalEncoder<StdRng>, count: usize) -> Vec<Frame> {
        let next = || encoder.poll_frame(encoder.next_frame_at()?);
        std::iter::from_fn(next).take(count).collect()
    }

    fn bytes(frames: &[Frame]) -> Vec<u64> {
        frames.iter().map(|frame| frame.payload.size().as_bytes()).collect()
    }

    #[test]
    fn it_starts_with_a_key_frame_and_the_example_transient() {
        let frames = frames(&mut encoder(at_a_megabit()), 9);
        let sizes = bytes(&frames);
        assert!(frames[0].key && !frames[1].key);
        assert_eq!(sizes[0], 13_500);
        assert!(sizes[1..8].iter().all(|size| (2833..=2834).contains(size)), "{sizes:?}");
        assert_eq!(sizes[..8].iter().sum::<u64>(), 33_333);
        // in the transient the intervals are those of the frame rate
        assert_eq!(frames[7].captured.as_nanos(), 7 * 1_000_000_000 / 30);
        assert!(!(2830..=2837).contains(&sizes[8]), "the ninth belongs to the steady state");
    }

    #[test]
    fn only_an_abrupt_change_starts_a_transient() {
        let config = StatisticalConfig { size_scale: 0.0, interval_scale: 0.0, ..at_a_megabit() };
        let mut encoder = encoder(config);
        frames(&mut encoder, 30);
        let now = Timestamp::from_nanos(990_000_000);
        encoder.set_target(now, DataRate::from_bps(1_080_000));
        assert_eq!(bytes(&frames(&mut encoder, 12)), [4500; 12]);
        let now = Timestamp::from_nanos(1_390_000_000);
        encoder.set_target(now, DataRate::from_bps(540_000)); // 2250 bytes: eight are 18 000
        let sizes = bytes(&frames(&mut encoder, 10));
        assert_eq!(sizes[0], 13_500);
        assert!(sizes[1..8].iter().all(|size| (642..=643).contains(size)), "{sizes:?}"); // 4500 / 7
        assert_eq!(sizes[..8].iter().sum::<u64>(), 18_000);
        assert_eq!(sizes[8..], [2250, 2250]);
    }

    #[test]
    fn a_second_request_takes_effect_after_the_latency() {
        for (meanwhile, expected) in [(Meanwhile::Remembered, 2250), (Meanwhile::Ignored, 4500)] {
            let config = StatisticalConfig {
                size_scale: 0.0,
                interval_scale: 0.0,
                abrupt_change: 10.0,
                meanwhile,
                ..at_a_megabit()
            };
            let mut encoder = encoder(config);
            frames(&mut encoder, 30); // the next one is due at 1 s
            encoder.set_target(Timestamp::from_nanos(1_000_000_000), DataRate::from_bps(1_080_000));
            encoder.set_target(Timestamp::from_nanos(1_010_000_000), DataRate::from_bps(540_000));
            assert_eq!(encoder.target(), DataRate::from_bps(540_000));
            // frames at 1.000, 1.033, … 1.167 s are before 1.2 s; the one at 1.2 s is not
            assert_eq!(bytes(&frames(&mut encoder, 6)), [4500; 6]);
            assert_eq!(bytes(&frames(&mut encoder, 3)), [expected; 3], "{meanwhile:?}");
        }
    }

    #[test]
    fn a_requested_key_frame_is_a_burst() {
        let config = StatisticalConfig { burst_size: BurstSize::Frames(3.0), ..at_a_megabit() };
        let mut encoder = encoder(config);
        frames(&mut encoder, 100);
        encoder.request_key_frame(Timestamp::ZERO);
        let burst = frames(&mut encoder, 8);
        assert_eq!((burst[0].key, burst[0].payload.size()), (true, DataSize::from_bytes(12_500)));
        let total: u64 = bytes(&burst).iter().sum();
        assert!((33_332..=33_334).contains(&total), "{total}");
    }

    #[test]
    fn steady_state_deviations_match_the_example() {
        const FRAMES: usize = 100_000;
        let mut encoder = encoder(at_a_megabit());
        frames(&mut encoder, 8);
        let frames = frames(&mut encoder, FRAMES);
        let sizes: Vec<f64> =
            frames.iter().map(|frame| frame.payload.size().as_bytes() as f64 / (1e6 / 240.0) - 1.0).collect();
        let intervals: Vec<f64> = frames
            .windows(2)
            .map(|pair| (pair[1].captured - pair[0].captured).as_seconds() * 30.0 - 1.0)
            .collect();
        for (what, deviations) in [("sizes", sizes), ("intervals", intervals)] {
            let count = deviations.len() as f64;
            let mean = deviations.iter().sum::<f64>() / count;
            let variance = deviations.iter().map(|x| x * x).sum::<f64>() / count;
            // Laplacian of scale 0.15: variance 2 · 0.15² = 0.045, which the limit at 0.99 reduces by 1.03 %
            assert!(mean.abs() < 5.0 * (0.045 / count).sqrt(), "{what}: mean {mean}");
            assert!((variance / (0.045 * 0.9897) - 1.0).abs() < 0.03, "{what}: variance {variance}");
        }
    }

    #[test]
    fn the_rate_of_one_second_deviates_by_5_6_percent() {
        let mut encoder = encoder(at_a_megabit());
        frames(&mut encoder, 100);
        let mut bits = vec![0.0; 3000];
        for frame in frames(&mut encoder, 100_000) {
            if let Some(second) = bits.get_mut(frame.captured.as_seconds() as usize) {
                *second += frame.payload.size().as_bits() as f64 / 1e6;
            }
        }
        let seconds = &bits[10..];
        let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
        let variance = seconds.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / seconds.len() as f64;
        // Renewal theory: thirty independent sizes and intervals with a variance of 0.0445 each, and the whole number of
        // frames in a second (1/6): (0.0445 · 30 + 0.0445 · 30 + 1/6) / 30² = 0.0561²
        assert!((variance.sqrt() / 0.0561 - 1.0).abs() < 0.05, "{}", variance.sqrt());
    }

    #[test]
    fn interrupted_transients_do_not_raise_the_rate() {
        let config =
            StatisticalConfig { size_scale: 0.0, interval_scale: 0.0, ..StatisticalConfig::default() };
        let mut encoder = encoder(config);
        let mut total = 0;
        for n in 0..500 {
            // 200 ms are six frames of a transient of eight
            let target = if n % 2 == 0 { 1_200_000 } else { 300_000 };
            encoder.set_target(Timestamp::from_nanos(n * 200_000_000), DataRate::from_bps(target));
            total += bytes(&frames(&mut encoder, 6)).iter().sum::<u64>();
        }
        let rate = total as f64 * 8.0 / 100.0;
        assert!((rate / 750_000.0 - 1.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn parameters_out_of_range_are_rejected() {
        let rejected = |config| {
            StatisticalEncoder::new(config, Timestamp::ZERO, StdRng::seed_from_u64(1))
                .unwrap_err()
                .to_string()
        };
        let base = StatisticalConfig::default();
        let table = [
            (
                StatisticalConfig { size_scale: -0.1, ..base },
                "scale of frame sizes must be 0 to 1, found -0.1",
            ),
            (
                StatisticalConfig { interval_scale: f64::NAN, ..base },
                "scale of frame intervals must be 0 to 1, found NaN",
            ),
            (StatisticalConfig { burst_frames: 0, ..base }, "frames per burst must be 1 to 1000, found 0"),
            (
                StatisticalConfig { burst_size: BurstSize::Frames(0.5), ..base },
                "burst in mean frames must be 1 to 1000, found 0.5",
            ),
            (StatisticalConfig { abrupt_change: -1.0, ..base }, "abrupt change must be at least 0, found -1"),
        ];
        for (config, start) in table {
            let message = rejected(config);
            assert!(message.starts_with(start), "{message}");
        }
    }
}
