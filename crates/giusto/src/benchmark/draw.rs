//! Random numbers of a scenario, and their values as text of a scenario file.

use giusto_sim::random::{self, Random};
use giusto_units::math;
use rand::RngExt;
use sha2::{Digest, Sha256};

use super::VERSION;

/// The number that seeds scenario `number` of `seed`: its draws, and its simulations under every controller.
pub(super) fn seed_of(seed: &str, number: u64) -> u64 {
    let digest = Sha256::digest(format!("giusto benchmark {VERSION}\n{seed}\n{number}"));
    let start: [u8; 8] = std::array::from_fn(|place| digest.get(place).copied().unwrap_or(0));
    // A scenario file holds whole numbers up to 2^63 − 1.
    u64::from_be_bytes(start) >> 1
}

/// The random numbers of one aspect of a scenario. Further draws of one aspect do not change another.
pub(super) struct Draw(Random);

impl Draw {
    pub(super) fn new(seed: u64, aspect: &str) -> Self {
        Self(random::stream(seed, &format!("benchmark: {aspect}")))
    }

    /// Uniform in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        self.0.random::<f64>()
    }

    /// A whole number of 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0.random::<u64>()
    }

    /// Uniform between two values.
    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Log-uniform between two values above 0.
    pub(super) fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        math::exp(self.uniform(math::ln(low), math::ln(high)))
    }

    /// Exponentially distributed.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * math::ln(1.0 - self.unit())
    }

    /// Standard normal (Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * math::ln(1.0 - self.unit())).sqrt();
        radius * math::cos(std::f64::consts::TAU * self.unit())
    }

    /// Whether an event of this probability happens.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A whole number, both ends included.
    pub(super) fn whole(&mut self, low: u64, high: u64) -> u64 {
        low + (self.unit() * (high - low + 1) as f64) as u64
    }

    /// One of some values, each with the same probability.
    pub(super) fn pick<T: Copy>(&mut self, values: &[T], otherwise: T) -> T {
        let place = (self.unit() * values.len() as f64) as usize;
        values.get(place).copied().unwrap_or(otherwise)
    }
}

/// Rounds to three significant digits, so that the last digits of a logarithm do not matter.
pub(super) fn three_digits(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let digits = math::log10(value).floor() as i32 - 2;
    let scale = math::powi(10.0, digits.unsigned_abs());
    if digits >= 0 { (value / scale).round() * scale } else { (value * scale).round() / scale }
}

/// A rate in bit/s as text.
pub(super) fn rate(bps: f64) -> String {
    format!("\"{} bit/s\"", three_digits(bps).round() as u64)
}

/// A time in seconds as text.
pub(super) fn time(seconds: f64) -> String {
    format!("\"{} us\"", (seconds * 1e6).round() as u64)
}

/// A size in bytes as text.
pub(super) fn size(bytes: f64) -> String {
    format!("\"{} B\"", three_digits(bytes).round() as u64)
}

/// A probability as text.
pub(super) fn ratio(value: f64) -> String {
    let rounded = three_digits(value);
    if rounded == 0.0 { "0.0".to_owned() } else { format!("{rounded:?}") }
}

/// A list of pairs of a time in seconds and a value.
pub(super) fn steps(pairs: impl IntoIterator<Item = (f64, String)>) -> String {
    let list: Vec<String> = pairs.into_iter().map(|(at, value)| format!("[{}, {value}]", time(at))).collect();
    format!("{{ steps = [{}] }}", list.join(", "))
}
