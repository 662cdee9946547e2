use giusto_sim::random;

use super::*;

const GROUP_HZ: f64 = 3.0 * 180_000.0;

fn near(value: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((value - expected).abs() <= tolerance, "{what}: {value}, not {expected} ± {tolerance}");
}

/// Several taps of power 1 at a Doppler shift of `doppler_hz`.
fn taps(doppler_hz: f64, count: usize, length_ms: usize) -> Vec<Vec<Complex>> {
    let mut random = random::stream(1, "taps");
    let (spectrum, transform) = (spectrum(doppler_hz, length_ms), Transform::new(length_ms));
    (0..count).map(|_| process(&spectrum, 1.0, &transform, &mut random)).collect()
}

fn power(h: Complex) -> f64 {
    h.0 * h.0 + h.1 * h.1
}

#[test]
fn the_transform_is_the_sum_of_its_definition() {
    let mut random = random::stream(1, "transform");
    let values: Vec<Complex> =
        (0..64).map(|_| (random.random_range(-1.0..1.0), random.random_range(-1.0..1.0))).collect();
    let mut ours = values.clone();
    Transform::new(64).run(&mut ours);
    for (n, ours) in ours.iter().enumerate() {
        let sum = values.iter().enumerate().fold((0.0, 0.0), |sum, (k, &value)| {
            let (sine, cosine) = libm::sincos(2.0 * PI * (k * n) as f64 / 64.0);
            add(sum, multiply(value, (cosine, sine)))
        });
        near(ours.0, sum.0, 1e-12, "real part");
        near(ours.1, sum.1, 1e-12, "imaginary part");
    }
}

#[test]
fn every_trace_has_its_power() {
    for doppler in [0.0, 5.56, 55.6, 400.0] {
        for tap in taps(doppler, 3, 4096) {
            near(tap.iter().map(|h| power(*h)).sum::<f64>() / 4096.0, 1.0, 1e-9, &format!("at {doppler} Hz"));
        }
    }
}

#[test]
fn autocorrelation_is_the_bessel_function_of_jakes() {
    for doppler in [5.56, 55.6] {
        let traces = taps(doppler, 8, 16_384);
        for lag in [1, 5, 10, 20, 43, 69, 100] {
            let products = traces.iter().flat_map(|tap| {
                let later = tap.iter().cycle().skip(lag);
                tap.iter().zip(later).map(|(h, &later)| multiply((h.0, -h.1), later))
            });
            let sum = products.fold((0.0, 0.0), add);
            let count = (traces.len() * 16_384) as f64;
            let expected = libm::j0(2.0 * PI * doppler * lag as f64 / 1000.0);
            near(sum.0 / count, expected, 0.02, &format!("{doppler} Hz after {lag} ms"));
        }
    }
}

#[test]
fn amplitudes_are_rayleigh() {
    let traces = taps(55.6, 40, 16_384);
    let count = (traces.len() * 16_384) as f64;
    for level in [0.01, 0.1, 0.5, 1.0, 2.0, 3.0] {
        let below = traces.iter().flatten().filter(|h| power(**h) < level).count() as f64 / count;
        let expected = 1.0 - libm::exp(-level);
        near(below, expected, 0.03 * expected.min(1.0 - expected) + 0.001, &format!("power below {level}"));
    }
}

#[test]
fn level_crossings_are_those_of_rice() {
    // √(2π) fd ρ e^(−ρ²) upward crossings a second of the amplitude ρ times its root mean square (Rice 1948; Jakes 1974, eq. 1.3-35).
    let doppler = 20.0;
    let traces = taps(doppler, 40, 16_384);
    let seconds = traces.len() as f64 * 16.384;
    for rho in [0.1_f64, 0.5, 1.0, 1.5] {
        let level = rho * rho;
        let pairs = traces.iter().flat_map(|tap| tap.windows(2));
        let crossings = pairs.filter(|pair| power(pair[0]) < level && power(pair[1]) >= level).count();
        let expected = libm::sqrt(2.0 * PI) * doppler * rho * libm::exp(-level);
        near(crossings as f64 / seconds / expected, 1.0, 0.05, &format!("crossings of {rho}"));
    }
}

#[test]
fn samples_have_the_moments_of_independent_antennas() {
    let mut random = random::stream(1, "library");
    let fading = Fading::new(Profile::default(), 8.33, 2e9, 5, GROUP_HZ, 16_384, 4, &mut random);
    let count = fading.samples.len() as f64;
    let mean = |f: &dyn Fn(Sample) -> f32| {
        fading.samples.iter().map(|s| f64::from(f(s.unpack()))).sum::<f64>() / count
    };
    near(mean(&|s| s.a), 2.0, 0.03, "mean of a");
    near(mean(&|s| s.b), 2.0, 0.03, "mean of b");
    near(mean(&|s| s.determinant), 2.0, 0.1, "mean of the determinant");
    near(mean(&|s| s.a * s.b), 4.0, 0.15, "mean of a b");
    // Two branches of maximum ratio combining: 1 − e^−x (1 + x).
    for level in [0.2, 1.0, 3.0] {
        let below = mean(&|s| f32::from(u8::from(f64::from(s.a) < level)));
        near(below, 1.0 - libm::exp(-level) * (1.0 + level), 0.015, &format!("a below {level}"));
    }
    for sample in fading.samples.iter().map(|sample| sample.unpack()) {
        // The best of four is at least their mean, and at most what the channel can do: its larger squared singular value.
        let (a, b, determinant) = (f64::from(sample.a), f64::from(sample.b), f64::from(sample.determinant));
        let middle = f64::midpoint(a, b);
        let singular = middle + libm::sqrt((middle * middle - determinant).max(0.0));
        let best = f64::from(sample.best);
        // Each number has 8 bits of precision; the root enlarges errors where the singular values are equal.
        assert!(best >= middle * 0.99 - 1e-4 && best <= singular + middle * 0.15, "{sample:?}");
        assert!(determinant <= a * b * 1.02 + 1e-6, "{sample:?}");
    }
}

#[test]
fn capacity_of_the_matrix_is_that_of_telatar() {
    // The mean of log2 det(I + ρ H H^H) is the integral of log2(1 + ρ λ) (1 + (1 − λ)²) e^−λ for two antennas at either end (Telatar,
    // "Capacity of multi-antenna Gaussian channels", 1999, theorem 2).
    let mut random = random::stream(4, "capacity");
    let fading = Fading::new(Profile::default(), 25.0, 2e9, 4, 2e6, 8192, 6, &mut random);
    for snr in [1.0, 10.0, 100.0] {
        let rho = snr / 2.0;
        let sum: f64 = fading
            .samples
            .iter()
            .map(|s| {
                let s = s.unpack();
                let (a, b, determinant) = (f64::from(s.a), f64::from(s.b), f64::from(s.determinant));
                libm::log2(1.0 + rho * (a + b) + rho * rho * determinant)
            })
            .sum();
        let expected: f64 = (0..40_000)
            .map(|i| {
                let lambda = (f64::from(i) + 0.5) / 1000.0;
                libm::log2(1.0 + rho * lambda) * (1.0 + (1.0 - lambda) * (1.0 - lambda)) * libm::exp(-lambda)
                    / 1000.0
            })
            .sum();
        near(sum / fading.samples.len() as f64, expected, 0.01 * expected, &format!("at {snr}"));
    }
}

#[test]
fn profiles_have_their_delay_spread_and_correlation() {
    // TS 36.101 table B.2.1-1: 45, 357 and 991 ns. Typical urban: about 1 µs (COST 207).
    for (profile, published) in [
        (Profile::ExtendedPedestrianA, 43.0),
        (Profile::ExtendedVehicularA, 357.0),
        (Profile::ExtendedTypicalUrban, 991.0),
        (Profile::TypicalUrban6, 1060.0),
    ] {
        let mut random = random::stream(2, "correlation");
        let spacing = 180_000.0;
        let fading = Fading::new(profile, 25.0, 2e9, 6, spacing, 8192, 6, &mut random);
        let taps = profile.normalised();
        let mean: f64 = taps.iter().map(|(delay, share)| delay * share).sum();
        let spread: f64 = taps.iter().map(|(delay, share)| share * (delay - mean) * (delay - mean)).sum();
        near(libm::sqrt(spread) * 1e9, published, 0.03 * published, &format!("{profile:?}"));
        let covariance = |x: usize, y: usize| {
            let rows = fading.samples.chunks_exact(6);
            let value = |s: &Sample| f64::from(s.a) - 2.0;
            rows.map(|row| value(&row[x].unpack()) * value(&row[y].unpack())).sum::<f64>()
        };
        for distance in [1, 2, 5] {
            // The powers of complex Gaussian channels are correlated by the squared magnitude of the channels' correlation.
            let correlation = taps.iter().fold((0.0, 0.0), |sum, &(delay, share)| {
                let (sine, cosine) = libm::sincos(-2.0 * PI * spacing * distance as f64 * delay);
                add(sum, (share * cosine, share * sine))
            });
            let ours = covariance(0, distance) / covariance(0, 0);
            near(ours, power(correlation), 0.1, &format!("{profile:?}, {distance} groups apart"));
        }
    }
}

#[test]
fn slow_channels_have_few_samples() {
    // 3, 30 and 120 km/h at 2 GHz, and no movement.
    assert_eq!([5.6, 55.6, 222.0, 0.0].map(step_ms), [4, 1, 1, 8]);
    let mut random = random::stream(5, "steps");
    let fading = Fading::new(Profile::default(), 0.83, 2e9, 1, GROUP_HZ, 1024, 1, &mut random);
    assert_eq!((fading.samples.len(), fading.length_ms()), (256, 1024));
    let link = FadingLink { trace: 0, offset: 0 };
    assert_eq!(fading.at(link, 0), fading.at(link, 3));
    assert_ne!(fading.at(link, 3), fading.at(link, 4));
}

#[test]
fn traces_repeat_without_a_step() {
    let mut random = random::stream(3, "loop");
    let fading = Fading::new(Profile::default(), 0.83, 2e9, 3, GROUP_HZ, 1000, 2, &mut random);
    assert_eq!((fading.length_ms(), fading.groups(), fading.traces()), (1024, 3, 2));
    let link = FadingLink { trace: 1, offset: 1020 };
    for ms in 0..10 {
        assert_eq!(fading.at(link, ms), fading.at(link, ms + 1024));
        let first = |ms| fading.at(link, ms)[0].unpack().a;
        let step = (first(ms) - first(ms + 1)).abs();
        assert!(step < 0.5, "a step of {step} at {ms} ms");
    }
    assert_ne!(fading.at(link, 0), fading.at(FadingLink { trace: 0, ..link }, 0));
    // A link of another library does not panic.
    assert_eq!(fading.at(FadingLink { trace: 9, offset: 77_777 }, u64::MAX).len(), 3);
}
