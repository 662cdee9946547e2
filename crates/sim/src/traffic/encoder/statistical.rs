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
    use giusto_units::DataSize;
    use rand::{SeedableRng, rngs::StdRng};

    use super::super::{
        BurstSize, Meanwhile, MediaSource,
        tests::{bytes, frames},
    };
    use super::*;
    use crate::testing::{at, mean, variance};

    fn encoder(config: StatisticalConfig) -> StatisticalEncoder<StdRng> {
        StatisticalEncoder::new(config, Timestamp::ZERO, StdRng::seed_from_u64(5)).unwrap()
    }

    fn at_a_megabit() -> StatisticalConfig {
        StatisticalConfig { start_rate: DataRate::from_bps(1_000_000), ..StatisticalConfig::default() }
    }

    fn without_noise() -> StatisticalConfig {
        StatisticalConfig { size_scale: 0.0, interval_scale: 0.0, ..at_a_megabit() }
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
        let mut encoder = encoder(without_noise());
        frames(&mut encoder, 30);
        encoder.set_target(at(990), DataRate::from_bps(1_080_000));
        assert_eq!(bytes(&frames(&mut encoder, 12)), [4500; 12]);
        encoder.set_target(at(1390), DataRate::from_bps(540_000)); // 2250 bytes: eight are 18 000
        let sizes = bytes(&frames(&mut encoder, 10));
        assert_eq!(sizes[0], 13_500);
        assert!(sizes[1..8].iter().all(|size| (642..=643).contains(size)), "{sizes:?}"); // 4500 / 7
        assert_eq!(sizes[..8].iter().sum::<u64>(), 18_000);
        assert_eq!(sizes[8..], [2250, 2250]);
    }

    #[test]
    fn a_second_request_takes_effect_after_the_latency() {
        for (meanwhile, expected) in [(Meanwhile::Remembered, 2250), (Meanwhile::Ignored, 4500)] {
            let mut encoder =
                encoder(StatisticalConfig { abrupt_change: 10.0, meanwhile, ..without_noise() });
            frames(&mut encoder, 30); // the next one is due at 1 s
            encoder.set_target(at(1000), DataRate::from_bps(1_080_000));
            encoder.set_target(at(1010), DataRate::from_bps(540_000));
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
        // Renewal theory: thirty independent sizes and intervals with a variance of 0.0445 each, and the whole number of
        // frames in a second (1/6): (0.0445 · 30 + 0.0445 · 30 + 1/6) / 30² = 0.0561²
        let deviation = variance(seconds).sqrt();
        assert!((deviation / 0.0561 - 1.0).abs() < 0.05, "{deviation} of {}", mean(seconds));
    }

    #[test]
    fn interrupted_transients_do_not_raise_the_rate() {
        let start_rate = StatisticalConfig::default().start_rate;
        let mut encoder = encoder(StatisticalConfig { start_rate, ..without_noise() });
        let mut total = 0;
        for n in 0..500 {
            // 200 ms are six frames of a transient of eight
            let target = if n % 2 == 0 { 1_200_000 } else { 300_000 };
            encoder.set_target(at(n * 200), DataRate::from_bps(target));
            total += bytes(&frames(&mut encoder, 6)).iter().sum::<u64>();
        }
        let rate = total as f64 * 8.0 / 100.0;
        assert!((rate / 750_000.0 - 1.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn parameters_out_of_range_are_rejected() {
        type Change = fn(&mut StatisticalConfig);
        let table: [(Change, &str); 5] = [
            (|config| config.size_scale = -0.1, "scale of frame sizes must be 0 to 1, found -0.1"),
            (|config| config.interval_scale = f64::NAN, "scale of frame intervals must be 0 to 1, found NaN"),
            (|config| config.burst_frames = 0, "frames per burst must be 1 to 1000, found 0"),
            (
                |config| config.burst_size = BurstSize::Frames(0.5),
                "burst in mean frames must be 1 to 1000, found 0.5",
            ),
            (|config| config.abrupt_change = -1.0, "abrupt change must be at least 0, found -1"),
        ];
        for (change, start) in table {
            let mut config = StatisticalConfig::default();
            change(&mut config);
            let random = StdRng::seed_from_u64(1);
            let message = StatisticalEncoder::new(config, Timestamp::ZERO, random).unwrap_err().to_string();
            assert!(message.starts_with(start), "{message}");
        }
    }
}
