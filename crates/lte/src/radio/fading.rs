//! Fast fading: tapped delay lines with Jakes spectra, precomputed.
//!
//! Each tap between each pair of antennas is a stationary process with the Doppler spectrum of Clarke and Jakes (autocorrelation
//! J0(2π fd τ)). It is made in the frequency domain: a line at every multiple of 1/length within ±fd has the power that the spectrum
//! has around it and a random phase, and an inverse Fourier transform makes the process (after Young and Beaulieu, "The generation of
//! correlated Rayleigh random variates by inverse discrete Fourier transform", IEEE Trans. Commun. 48(7), 2000, with random phases
//! instead of random amplitudes, so that every trace has exactly its mean power). It is periodic, so that traces repeat without a step.
//!
//! The four channels of a 2x2 link are independent. A group of resource blocks has the channel at its centre frequency. All taps have the
//! same spectrum, where COST 207 gives taps with a delay of more than 0.5 µs a Gaussian one.
//!
//! The profiles were compared with second sources: EPA, EVA and ETU with srsRAN 4G, typical urban with programs that implement COST 207.

use std::f64::consts::PI;

use giusto_sim::random::Random;
use rand::RngExt;

use super::propagation::SPEED_OF_LIGHT_MPS;

/// A power delay profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Typical urban, 6 taps: COST 207; TS 45.005 table C.3.3 (alternative 1).
    #[default]
    TypicalUrban6,
    /// Extended pedestrian A: TS 36.104 table B.2-2.
    ExtendedPedestrianA,
    /// Extended vehicular A: TS 36.104 table B.2-3.
    ExtendedVehicularA,
    /// Extended typical urban: TS 36.104 table B.2-4.
    ExtendedTypicalUrban,
}

impl Profile {
    /// Returns the taps: delay in µs and power in dB, not normalised.
    pub fn taps(self) -> &'static [(f64, f64)] {
        match self {
            Self::TypicalUrban6 => {
                &[(0.0, -3.0), (0.2, 0.0), (0.5, -2.0), (1.6, -6.0), (2.3, -8.0), (5.0, -10.0)]
            }
            Self::ExtendedPedestrianA => &[
                (0.0, 0.0),
                (0.03, -1.0),
                (0.07, -2.0),
                (0.09, -3.0),
                (0.11, -8.0),
                (0.19, -17.2),
                (0.41, -20.8),
            ],
            Self::ExtendedVehicularA => &[
                (0.0, 0.0),
                (0.03, -1.5),
                (0.15, -1.4),
                (0.31, -3.6),
                (0.37, -0.6),
                (0.71, -9.1),
                (1.09, -7.0),
                (1.73, -12.0),
                (2.51, -16.9),
            ],
            Self::ExtendedTypicalUrban => &[
                (0.0, -1.0),
                (0.05, -1.0),
                (0.12, -1.0),
                (0.2, 0.0),
                (0.23, 0.0),
                (0.5, 0.0),
                (1.6, -3.0),
                (2.3, -5.0),
                (5.0, -7.0),
            ],
        }
    }

    /// Returns the taps with delay in s and power as a share of the whole.
    fn normalised(self) -> Vec<(f64, f64)> {
        let linear = |db: f64| super::propagation::from_db(db);
        let sum: f64 = self.taps().iter().map(|tap| linear(tap.1)).sum();
        self.taps().iter().map(|&(delay_us, db)| (delay_us * 1e-6, linear(db) / sum)).collect()
    }
}

/// The 2x2 channel H of a group of resource blocks in one millisecond, in what link adaptation needs of it.
///
/// h1 and h2 are the columns of H, i.e. the channels of the two transmit antennas. The mean of `a` and of `b` is 2.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sample {
    /// |h1|².
    pub a: f32,
    /// |h2|².
    pub b: f32,
    /// |det H|² = |h1|² |h2|² − |h1^H h2|².
    pub determinant: f32,
    /// The largest |H w|² over the four precoders of one layer (TS 36.211 table 6.3.4.2.3-1), |w| = 1.
    pub best: f32,
}

/// A [`Sample`] in half the space: the upper halves of its numbers, which keep 8 bits of precision, 0.02 dB. Reading the library
/// is bound by memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PackedSample([u16; 4]);

impl PackedSample {
    fn new(sample: Sample) -> Self {
        Self([sample.a, sample.b, sample.determinant, sample.best].map(upper_half))
    }

    /// Returns the sample.
    #[inline]
    pub fn unpack(self) -> Sample {
        let [a, b, determinant, best] = self.0.map(from_upper_half);
        Sample { a, b, determinant, best }
    }
}

/// A power in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PackedPower(u16);

impl PackedPower {
    /// Returns the power.
    #[inline]
    pub fn unpack(self) -> f32 {
        from_upper_half(self.0)
    }
}

/// The upper half of a number, rounded.
fn upper_half(value: f32) -> u16 {
    (value.to_bits().saturating_add(0x8000) >> 16) as u16
}

#[inline]
fn from_upper_half(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// The place of a link in the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FadingLink {
    /// Index of the trace.
    pub trace: u32,
    /// Millisecond of the trace at which the link begins.
    pub offset: u32,
}

/// A library of fading traces.
#[derive(Debug, Clone)]
pub struct Fading {
    groups: usize,
    /// Number of samples of a trace, a power of two, and their distance.
    length: usize,
    step_ms: usize,
    traces: usize,
    /// By trace, time and group.
    samples: Vec<PackedSample>,
    /// The same: what interferers and the uplink need of it.
    powers: Vec<PackedPower>,
    first: Vec<PackedPower>,
}

/// A complex number: real and imaginary part.
type Complex = (f64, f64);

/// Shortest trace, ms.
const MINIMUM_LENGTH_MS: usize = 64;

/// Longest trace, ms: about 17 minutes.
const MAXIMUM_LENGTH_MS: usize = 1 << 20;

/// Longest distance of samples, ms.
const MAXIMUM_STEP_MS: usize = 8;

/// Samples per period of the largest Doppler shift, as far as milliseconds permit. Between two of them the channel is constant;
/// with 32 its autocorrelation falls to J0(2π / 32) = 0.99 in the meantime.
const SAMPLES_PER_PERIOD: f64 = 32.0;

/// Returns the distance of samples at the largest Doppler shift `doppler_hz`, ms: 1, 2, 4 or 8. What changes slowly needs few samples,
/// and a small library is fast to read.
pub fn step_ms(doppler_hz: f64) -> usize {
    let mut step = MAXIMUM_STEP_MS;
    while step > 1 && step as f64 * doppler_hz * SAMPLES_PER_PERIOD > 1000.0 {
        step /= 2;
    }
    step
}

impl Fading {
    /// Makes `traces` traces of a user that moves at `speed_mps` (m/s) with a carrier at `carrier_hz`, for `groups` groups of resource
    /// blocks that are `group_hz` apart.
    ///
    /// `length_ms` is rounded up to a power of two between 64 ms and 2^20 ms. There is at least one trace and one group. A trace takes
    /// 12 byte per group and sample; see [`step_ms`].
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a figure of its own, named at the place of the call"
    )]
    pub fn new(
        profile: Profile,
        speed_mps: f64,
        carrier_hz: f64,
        groups: usize,
        group_hz: f64,
        length_ms: usize,
        traces: usize,
        random: &mut Random,
    ) -> Self {
        let (groups, traces) = (groups.max(1), traces.max(1));
        let length_ms = length_ms.clamp(MINIMUM_LENGTH_MS, MAXIMUM_LENGTH_MS).next_power_of_two();
        let doppler_hz = speed_mps.abs() * carrier_hz / SPEED_OF_LIGHT_MPS;
        let step_ms = step_ms(doppler_hz);
        let length = length_ms / step_ms;
        let spectrum = spectrum(doppler_hz * step_ms as f64, length);
        let transform = Transform::new(length);
        let taps = profile.normalised();
        let phases = phases(&taps, groups, group_hz);
        let mut samples = Vec::with_capacity(groups * length * traces);
        let mut powers = Vec::with_capacity(groups * length * traces);
        let mut first = Vec::with_capacity(groups * length * traces);
        let mut channels: Vec<Vec<Complex>> = Vec::new();
        for _ in 0..traces {
            // By antenna pair (receive antenna fastest) and tap.
            channels.clear();
            for _ in 0..4 {
                for &(_, power) in &taps {
                    channels.push(process(&spectrum, power, &transform, random));
                }
            }
            for time in 0..length {
                for group in phases.chunks_exact(taps.len()) {
                    let mut h = [(0.0, 0.0); 4];
                    for (pair, taps) in h.iter_mut().zip(channels.chunks_exact(taps.len())) {
                        for (tap, &phase) in taps.iter().zip(group) {
                            *pair = add(*pair, multiply(tap.get(time).copied().unwrap_or_default(), phase));
                        }
                    }
                    let sample = sample(h);
                    samples.push(PackedSample::new(sample));
                    powers.push(PackedPower(upper_half((sample.a + sample.b) * 0.25)));
                    first.push(PackedPower(upper_half(sample.a)));
                }
            }
        }
        Self { groups, length, step_ms, traces, samples, powers, first }
    }

    /// Returns the number of groups of resource blocks.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Returns the length after which a trace repeats, ms.
    pub fn length_ms(&self) -> usize {
        self.length * self.step_ms
    }

    /// Returns the number of traces.
    pub fn traces(&self) -> usize {
        self.traces
    }

    /// Draws a trace and a place in it.
    pub fn link(&self, random: &mut Random) -> FadingLink {
        FadingLink {
            trace: random.random_range(0..self.traces) as u32,
            offset: random.random_range(0..self.length_ms()) as u32,
        }
    }

    /// Returns the channel of `link` at `ms`, one sample for each group.
    #[inline]
    pub fn at(&self, link: FadingLink, ms: u64) -> &[PackedSample] {
        let start = self.start(link, ms);
        self.samples.get(start..start + self.groups).unwrap_or_default()
    }

    /// Returns the power of the interferer `link` at `ms` at one receive antenna over its mean, (|h1|² + |h2|²) / 4, one value for each
    /// group.
    #[inline]
    pub fn powers(&self, link: FadingLink, ms: u64) -> &[PackedPower] {
        let start = self.start(link, ms);
        self.powers.get(start..start + self.groups).unwrap_or_default()
    }

    /// Returns the power of the first transmit antenna, `a` of [`at`](Self::at), one value for each group.
    #[inline]
    pub fn first(&self, link: FadingLink, ms: u64) -> &[PackedPower] {
        let start = self.start(link, ms);
        self.first.get(start..start + self.groups).unwrap_or_default()
    }

    fn start(&self, link: FadingLink, ms: u64) -> usize {
        let at = (u64::from(link.offset).wrapping_add(ms) as usize / self.step_ms) & (self.length - 1);
        ((link.trace as usize % self.traces) * self.length + at) * self.groups
    }
}

/// Returns the share of the power at each multiple of 1 / length of the rate of samples, 1 kHz, from −n to n.
///
/// The integral of the spectrum 1 / (π fd √(1 − (f/fd)²)) is asin(f/fd) / π.
fn spectrum(doppler_hz: f64, length_ms: usize) -> Vec<f64> {
    // The sampling theorem limits the Doppler shift to 500 Hz at a sample per millisecond.
    let edge = (doppler_hz * length_ms as f64 / 1000.0).min(length_ms as f64 / 2.0 - 1.0);
    let lines = libm::floor(edge + 0.5) as i64;
    let below =
        |f: f64| if edge > 0.0 { libm::asin((f / edge).clamp(-1.0, 1.0)) / PI } else { f.signum() * 0.5 };
    (-lines..=lines).map(|k| below(k as f64 + 0.5) - below(k as f64 - 0.5)).collect()
}

/// Makes one process of mean power `power`.
fn process(spectrum: &[f64], power: f64, transform: &Transform, random: &mut Random) -> Vec<Complex> {
    let length = transform.length;
    let lines = spectrum.len() / 2;
    let mut values = vec![(0.0, 0.0); length];
    for (i, share) in spectrum.iter().enumerate() {
        let (sine, cosine) = libm::sincos(random.random_range(-PI..PI));
        let amplitude = libm::sqrt(share * power);
        if let Some(value) = values.get_mut((length + i - lines) % length) {
            *value = (amplitude * cosine, amplitude * sine);
        }
    }
    transform.run(&mut values);
    values
}

/// The phase of each tap at the centre of each group, by group and tap.
fn phases(taps: &[(f64, f64)], groups: usize, group_hz: f64) -> Vec<Complex> {
    let mut phases = Vec::with_capacity(groups * taps.len());
    for group in 0..groups {
        let frequency = (group as f64 - (groups as f64 - 1.0) / 2.0) * group_hz;
        for &(delay, _) in taps {
            let (sine, cosine) = libm::sincos(-2.0 * PI * frequency * delay);
            phases.push((cosine, sine));
        }
    }
    phases
}

/// Reduces the channels h11, h21, h12, h22 (receive antenna, transmit antenna).
fn sample([h11, h21, h12, h22]: [Complex; 4]) -> Sample {
    let power = |h: Complex| h.0 * h.0 + h.1 * h.1;
    let (a, b) = (power(h11) + power(h21), power(h12) + power(h22));
    let c = add(multiply((h11.0, -h11.1), h12), multiply((h21.0, -h21.1), h22));
    let (first, second) = (multiply(h11, h22), multiply(h12, h21));
    let determinant = power((first.0 - second.0, first.1 - second.1));
    // |H w|² is (a + b) / 2 ± Re c for w = (1, ±1) / √2, and (a + b) / 2 ∓ Im c for (1, ±j) / √2.
    let best = f64::midpoint(a, b) + c.0.abs().max(c.1.abs());
    Sample { a: a as f32, b: b as f32, determinant: determinant as f32, best: best as f32 }
}

fn add(x: Complex, y: Complex) -> Complex {
    (x.0 + y.0, x.1 + y.1)
}

fn multiply(x: Complex, y: Complex) -> Complex {
    (x.0 * y.0 - x.1 * y.1, x.0 * y.1 + x.1 * y.0)
}

/// An inverse Fourier transform, not normalised, of a power of two (Cooley and Tukey, decimation in time). Own code, because the
/// libraries choose instructions by processor, which changes the last digits.
struct Transform {
    length: usize,
    roots: Vec<Complex>,
}

impl Transform {
    fn new(length: usize) -> Self {
        let root = |k: usize| {
            let (sine, cosine) = libm::sincos(2.0 * PI * k as f64 / length as f64);
            (cosine, sine)
        };
        Self { length, roots: (0..length / 2).map(root).collect() }
    }

    fn run(&self, values: &mut [Complex]) {
        let bits = self.length.trailing_zeros();
        for i in 0..self.length {
            let j = i.reverse_bits() >> (usize::BITS - bits);
            if i < j {
                values.swap(i, j);
            }
        }
        let mut half = 1;
        while half < self.length {
            let stride = self.length / (2 * half);
            for block in values.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for ((x, y), &root) in low.iter_mut().zip(high).zip(self.roots.iter().step_by(stride)) {
                    let turned = multiply(*y, root);
                    (*x, *y) = (add(*x, turned), (x.0 - turned.0, x.1 - turned.1));
                }
            }
            half *= 2;
        }
    }
}

#[cfg(test)]
mod tests;
