//! Resamples audio to 8000 Hz in one channel.

use super::error::{TELEPHONE_RATE, VoiceSourceError};
use giusto_units::math;

/// Zero crossings of the sinc on each side: a trade-off between the length of the filter and the sharpness of
/// its edge.
const HALF_CROSSINGS: f64 = 16.0;
/// Edge of the passband as a share of the lower Nyquist frequency: 3600 Hz for telephone speech, whose band
/// ends at 3400 Hz (ITU-T G.712 §3).
const CUTOFF: f64 = 0.9;
/// The shape of the Kaiser window: side lobes some 70 dB down, below G.711's own noise (Kaiser & Schafer 1980, with
/// A = 70 dB, β = 0.1102 (A − 8.7)).
const KAISER_BETA: f64 = 6.755;
const RATES: std::ops::RangeInclusive<u32> = 1_000..=384_000;
const CHANNELS: std::ops::RangeInclusive<u16> = 1..=64;

/// Resamples `samples`, whose `channels` are interleaved, to 8000 Hz in one channel: the mean of the
/// channels, through a low-pass filter against aliasing.
///
/// The filter is a windowed sinc with as many phases as the two rates need. Its edge is at 3600 Hz;
/// frequencies from 4000 Hz on are attenuated by at least 60 dB. The result starts with the first sample; the
/// filter adds no delay. An incomplete last group of channels is dropped.
///
/// # Errors
///
/// [`VoiceSourceError::Audio`] for rates outside 1000 to 384000 Hz, and unless there are 1 to 64 channels.
pub fn resample_to_8k(samples: &[i16], rate: u32, channels: u16) -> Result<Vec<i16>, VoiceSourceError> {
    if !RATES.contains(&rate) || !CHANNELS.contains(&channels) {
        return Err(VoiceSourceError::Audio { rate, channels });
    }
    let mono = mix(samples, channels);
    if rate == TELEPHONE_RATE {
        return Ok(mono.iter().map(|&sample| to_i16(sample)).collect());
    }
    let divisor = gcd(rate, TELEPHONE_RATE);
    let (up, down) = (u64::from(TELEPHONE_RATE / divisor), u64::from(rate / divisor));
    let filter = Filter::new(rate, up);
    let mut phases: Vec<Vec<f32>> = vec![Vec::new(); up as usize];
    let length = (mono.len() as u64 * up).div_ceil(down);
    let mut resampled = Vec::with_capacity(length as usize);
    for n in 0..length {
        let (centre, phase) = ((n * down / up) as usize, n * down % up);
        let Some(taps) = phases.get_mut(phase as usize) else { continue };
        if taps.is_empty() {
            *taps = filter.phase(phase);
        }
        // Tap k weighs the sample at centre + 1 + k - half; there is silence before the start and after the
        // end.
        let first = (centre + 1).checked_sub(filter.half);
        let skipped = filter.half.saturating_sub(centre + 1);
        let from = mono.get(first.unwrap_or(0)..).unwrap_or_default();
        let sum: f32 = taps.iter().skip(skipped).zip(from).map(|(tap, sample)| tap * sample).sum();
        resampled.push(to_i16(sum));
    }
    Ok(resampled)
}

/// The mean of the channels.
fn mix(samples: &[i16], channels: u16) -> Vec<f32> {
    let groups = samples.chunks_exact(usize::from(channels));
    groups.map(|group| group.iter().map(|&s| f32::from(s)).sum::<f32>() / f32::from(channels)).collect()
}

fn to_i16(sample: f32) -> i16 {
    // Conversion saturates.
    sample.round() as i16
}

fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A windowed sinc between two rates.
struct Filter {
    /// Samples on each side of the output time.
    half: usize,
    /// Twice the edge of the passband, in cycles per input sample: the argument of the sinc.
    bandwidth: f64,
    up: f64,
}

impl Filter {
    fn new(rate: u32, up: u64) -> Self {
        let lower = f64::from(rate.min(TELEPHONE_RATE)) / f64::from(rate);
        let bandwidth = CUTOFF * lower;
        Self { half: (HALF_CROSSINGS / bandwidth).ceil() as usize, bandwidth, up: up as f64 }
    }

    /// The weights at `phase / up` of a sample after the centre. They sum to one, so that a constant is
    /// preserved.
    fn phase(&self, phase: u64) -> Vec<f32> {
        let offset = phase as f64 / self.up;
        let half = self.half as f64;
        let weight = |k: usize| {
            let distance = k as f64 + 1.0 - half - offset;
            let angle = std::f64::consts::PI * self.bandwidth * distance;
            let sinc = if angle.abs() < 1e-9 { 1.0 } else { math::sin(angle) / angle };
            let edge = (1.0 - (distance / half) * (distance / half)).max(0.0);
            sinc * bessel_i0(KAISER_BETA * edge.sqrt())
        };
        let weights: Vec<f64> = (0..2 * self.half).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| (weight / sum) as f32).collect()
    }
}

/// The modified Bessel function of order zero, by its series (Abramowitz & Stegun 9.6.12).
fn bessel_i0(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let mut term = 1.0;
    let mut sum = 1.0;
    for k in 1..32 {
        term *= quarter / f64::from(k * k);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    fn sine(hz: f64, rate: u32, seconds: f64) -> Vec<i16> {
        let count = (f64::from(rate) * seconds) as u32;
        let step = TAU * hz / f64::from(rate);
        (0..count).map(|n| (10_000.0 * (step * f64::from(n)).sin()).round() as i16).collect()
    }

    /// The amplitude of `hz` in `samples` at 8000 Hz, without the edges.
    fn amplitude(samples: &[i16], hz: f64) -> f64 {
        let middle = &samples[400..samples.len() - 400];
        let (mut re, mut im) = (0.0, 0.0);
        for (n, &sample) in middle.iter().enumerate() {
            let angle = TAU * hz / 8000.0 * n as f64;
            re += f64::from(sample) * angle.cos();
            im += f64::from(sample) * angle.sin();
        }
        2.0 * (re * re + im * im).sqrt() / middle.len() as f64
    }

    fn rms(samples: &[i16]) -> f64 {
        let middle = &samples[400..samples.len() - 400];
        (middle.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>() / middle.len() as f64).sqrt()
    }

    #[test]
    fn a_telephone_band_tone_keeps_level_frequency_and_time() {
        for rate in [8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000] {
            for hz in [200.0, 1020.0, 3000.0] {
                let resampled = resample_to_8k(&sine(hz, rate, 0.5), rate, 1).unwrap();
                assert_eq!(resampled.len(), 4000, "{rate}");
                let found = amplitude(&resampled, hz);
                assert!((9_900.0..10_100.0).contains(&found), "{hz} Hz at {rate}: {found}");
                let expected = sine(hz, 8_000, 0.5);
                let error: Vec<i16> = resampled.iter().zip(&expected).map(|(a, b)| a - b).collect();
                assert!(rms(&error) < 40.0, "{hz} Hz at {rate}: {}", rms(&error));
            }
        }
    }

    #[test]
    fn frequencies_above_4000_hz_cause_no_aliasing() {
        for rate in [16_000, 44_100, 48_000] {
            for hz in [4_400.0, 5_000.0, 7_000.0] {
                let resampled = resample_to_8k(&sine(hz, rate, 0.5), rate, 1).unwrap();
                // 60 dB below the input's 7071.
                assert!(rms(&resampled) < 7.1, "{hz} Hz at {rate}: {}", rms(&resampled));
            }
        }
    }

    #[test]
    fn upsampling_causes_no_images() {
        let resampled = resample_to_8k(&sine(500.0, 4_000, 0.5), 4_000, 1).unwrap();
        assert_eq!(resampled.len(), 4000);
        assert!((amplitude(&resampled, 500.0) - 10_000.0).abs() < 100.0);
        assert!(amplitude(&resampled, 3500.0) < 10.0);
    }

    #[test]
    fn channels_are_averaged_and_a_constant_is_kept() {
        let stereo: Vec<i16> = std::iter::repeat_n([1000, 3000], 24_000).flatten().collect();
        let resampled = resample_to_8k(&stereo, 48_000, 2).unwrap();
        assert_eq!(resampled.len(), 4000);
        assert!(resampled[100..3900].iter().all(|&sample| sample == 2000));
        assert_eq!(resample_to_8k(&[5, 7, 9], 8_000, 2), Ok(vec![6]));
        assert_eq!(resample_to_8k(&[], 44_100, 1), Ok(vec![]));
    }

    #[test]
    fn loud_audio_saturates_and_invalid_rates_are_rejected() {
        let square: Vec<i16> = (0..4800).map(|n| if n / 40 % 2 == 0 { i16::MAX } else { i16::MIN }).collect();
        let resampled = resample_to_8k(&square, 48_000, 1).unwrap();
        assert!(resampled.contains(&i16::MAX) && resampled.contains(&i16::MIN));
        for (rate, channels) in [(0, 1), (999, 1), (400_000, 1), (8_000, 0), (8_000, 65)] {
            assert_eq!(resample_to_8k(&[1], rate, channels), Err(VoiceSourceError::Audio { rate, channels }));
        }
        assert_eq!(resample_to_8k(&[100; 50], 383_999, 1).map(|s| s.len()), Ok(2));
    }
}
