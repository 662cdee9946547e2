//! Payload sizes of the datagrams of a stream.
//!
//! A [`PayloadSizes`] is the origin of sizes: one size, a distribution or a recorded trace. A [`SizeSource`]
//! draws sizes within limits, from a random generator that the caller has seeded.
//!
//! | text | sizes |
//! |---|---|
//! | `1200`, `1.2 kB` | always this one |
//! | `uniform:200-1200` | every whole size from 200 to 1200 bytes alike |
//! | `normal:800,200` | normal with mean 800 and standard deviation 200 |
//! | `exp:600` | exponential with mean 600 |
//! | `lognormal:600,300` | log-normal with mean 600 and standard deviation 300 |
//! | `pareto:100,1.5` | Pareto with smallest size 100 and shape 1.5 |
//! | `choice:200*3,1200*1` | 200 three times as often as 1200 |
//!
//! A size outside the limits is replaced by the limit. The mean of the sent sizes may therefore differ from
//! the configured mean: [`SizeSource::mean`] is that of the sent sizes.
//!
//! # Example
//!
//! ```
//! use giusto_session::probe::payload::{PayloadSizes, SizeLimits, SizeSource};
//! use giusto_units::DataSize;
//! use rand::{SeedableRng, rngs::StdRng};
//!
//! let limits = SizeLimits::new(DataSize::from_bytes(32), DataSize::from_bytes(1472))?;
//! let mut source = SizeSource::new("choice:200*3,1200*1".parse()?, limits);
//! assert_eq!(source.mean(), 450.0);
//!
//! let mut rng = StdRng::seed_from_u64(1);
//! assert!([200, 1200].contains(&source.next_size(&mut rng).as_bytes()));
//! # Ok::<(), giusto_session::probe::payload::PayloadError>(())
//! ```

mod content;
mod error;
mod trace;

use std::str::FromStr;

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1, StandardNormal};

pub use self::{content::PayloadContent, error::PayloadError, trace::PayloadTrace};
use giusto_units::{DataSize, math};

/// Limits of a datagram's payload size: at least its own header, at most what the path supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeLimits {
    min: DataSize,
    max: DataSize,
}

impl SizeLimits {
    /// Sizes from `min` to `max`, both included.
    ///
    /// # Errors
    ///
    /// [`PayloadError::Limits`] where `min` is above `max`.
    pub fn new(min: DataSize, max: DataSize) -> Result<Self, PayloadError> {
        if min > max { Err(PayloadError::Limits { min, max }) } else { Ok(Self { min, max }) }
    }

    /// The smallest size.
    pub const fn min(&self) -> DataSize {
        self.min
    }

    /// The largest size.
    pub const fn max(&self) -> DataSize {
        self.max
    }

    fn clamp(&self, size: DataSize) -> DataSize {
        size.clamp(self.min, self.max)
    }

    /// `bytes` rounded to a byte within the limits.
    fn clamp_f64(&self, bytes: f64) -> f64 {
        bytes.round().clamp(self.min.as_bytes() as f64, self.max.as_bytes() as f64)
    }
}

/// Origin of payload sizes. For its text form see the [module](self).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PayloadSizes {
    /// Always the same size.
    Fixed(DataSize),
    /// Sizes drawn independently.
    Drawn(SizeDistribution),
    /// The sizes of a trace in order, repeated.
    Trace(PayloadTrace),
}

/// A distribution of payload sizes whose parameters are valid.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeDistribution(Shape);

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Uniform {
        from: u64,
        to: u64,
    },
    Normal {
        mean: f64,
        deviation: f64,
    },
    Exponential {
        mean: f64,
    },
    /// Of the logarithm.
    LogNormal {
        mean: f64,
        deviation: f64,
    },
    Pareto {
        smallest: f64,
        shape: f64,
    },
    /// With the cumulative weights, the last one above zero.
    Choice(Vec<(DataSize, f64)>),
}

impl FromStr for PayloadSizes {
    type Err = PayloadError;
    /// Reads the text forms in the [module](self)'s table.
    ///
    /// # Errors
    ///
    /// [`PayloadError`] names the text and gives valid examples.
    fn from_str(text: &str) -> Result<Self, PayloadError> {
        let Some((kind, parameters)) = text.split_once(':') else {
            let known = text.trim().starts_with(|c: char| c.is_ascii_digit());
            return if known {
                Ok(Self::Fixed(text.parse()?))
            } else {
                Err(PayloadError::Kind(text.to_owned()))
            };
        };
        let wrong = |what, example| PayloadError::Parameters { text: text.to_owned(), what, example };
        let shape = match kind.trim() {
            "uniform" => {
                let example = "uniform:200-1200";
                let (from, to) =
                    parameters.split_once('-').ok_or_else(|| wrong("two sizes are needed", example))?;
                let (from, to) = (size(from)?.as_bytes(), size(to)?.as_bytes());
                if from > to {
                    return Err(wrong("the first size must not be above the second", example));
                }
                Shape::Uniform { from, to }
            }
            "normal" => {
                let (mean, deviation) = pair(parameters)
                    .ok_or_else(|| wrong("mean and standard deviation are needed", "normal:800,200"))?;
                Shape::Normal { mean: bytes(mean)?, deviation: bytes(deviation)? }
            }
            "exp" => {
                let mean = bytes(parameters)?;
                if mean <= 0.0 {
                    return Err(wrong("the mean must be above 0", "exp:600"));
                }
                Shape::Exponential { mean }
            }
            "lognormal" => {
                let example = "lognormal:600,300";
                let (mean, deviation) = pair(parameters)
                    .ok_or_else(|| wrong("mean and standard deviation are needed", example))?;
                log_normal(bytes(mean)?, bytes(deviation)?)
                    .ok_or_else(|| wrong("the mean must be above 0", example))?
            }
            "pareto" => {
                let example = "pareto:100,1.5";
                let (smallest, shape) =
                    pair(parameters).ok_or_else(|| wrong("smallest size and shape are needed", example))?;
                let shape: Option<f64> =
                    shape.trim().parse().ok().filter(|shape| (0.01..=1e6).contains(shape));
                let shape =
                    shape.ok_or_else(|| wrong("the shape must be a number of 0.01 to 1000000", example))?;
                let smallest = bytes(smallest)?;
                if smallest <= 0.0 {
                    return Err(wrong("the smallest size must be above 0", example));
                }
                Shape::Pareto { smallest, shape }
            }
            "choice" => choice(parameters, |what| wrong(what, "choice:200*3,1200*1"))?,
            _ => return Err(PayloadError::Kind(text.to_owned())),
        };
        Ok(Self::Drawn(SizeDistribution(shape)))
    }
}

fn size(text: &str) -> Result<DataSize, PayloadError> {
    Ok(text.parse()?)
}

fn bytes(text: &str) -> Result<f64, PayloadError> {
    Ok(size(text)?.as_bytes() as f64)
}

fn pair(text: &str) -> Option<(&str, &str)> {
    text.split_once(',').filter(|(_, second)| !second.contains(','))
}

/// Mean and deviation of the logarithm, from those of the size.
fn log_normal(mean: f64, deviation: f64) -> Option<Shape> {
    let variance = math::ln(1.0 + (deviation / mean) * (deviation / mean));
    (mean > 0.0 && variance.is_finite())
        .then(|| Shape::LogNormal { mean: math::ln(mean) - variance / 2.0, deviation: variance.sqrt() })
}

fn choice(text: &str, wrong: impl Fn(&'static str) -> PayloadError) -> Result<Shape, PayloadError> {
    let mut total = 0.0;
    let mut sizes = Vec::new();
    for entry in text.split(',') {
        let (of, weight) = entry.split_once('*').unwrap_or((entry, "1"));
        let weight: Option<f64> = weight.trim().parse().ok().filter(|weight| (0.0..=1e12).contains(weight));
        total += weight.ok_or_else(|| wrong("a weight must be a number of at least 0"))?;
        sizes.push((size(of)?, total));
    }
    if total > 0.0 { Ok(Shape::Choice(sizes)) } else { Err(wrong("one weight must be above 0")) }
}

/// The random variable from which a size is computed, by a formula for each distribution.
#[derive(Clone, Copy)]
enum Base {
    Normal,
    Exponential,
}

impl Shape {
    /// The size in bytes for a draw `z`, without limits; `None` for the discrete distributions.
    fn value(&self, z: f64) -> Option<f64> {
        match *self {
            Self::Normal { mean, deviation } => Some(mean + deviation * z),
            Self::LogNormal { mean, deviation } => Some(math::exp(mean + deviation * z)),
            Self::Exponential { mean } => Some(mean * z),
            Self::Pareto { smallest, shape } => Some(smallest * math::exp(z / shape)),
            Self::Uniform { .. } | Self::Choice(_) => None,
        }
    }

    const fn base(&self) -> Base {
        match self {
            Self::Normal { .. } | Self::LogNormal { .. } => Base::Normal,
            _ => Base::Exponential,
        }
    }

    fn draw(&self, limits: SizeLimits, rng: &mut dyn Rng) -> DataSize {
        match self {
            Self::Uniform { from, to } => limits.clamp(DataSize::from_bytes(rng.random_range(*from..=*to))),
            Self::Choice(sizes) => {
                let total = sizes.last().map_or(0.0, |(_, total)| *total);
                let drawn = rng.random::<f64>() * total;
                let chosen = sizes.iter().find(|(_, up_to)| drawn < *up_to).or(sizes.last());
                limits.clamp(chosen.map_or(DataSize::ZERO, |(size, _)| *size))
            }
            _ => {
                let z = match self.base() {
                    Base::Normal => StandardNormal.sample(rng),
                    Base::Exponential => Exp1.sample(rng),
                };
                let bytes = limits.clamp_f64(self.value(z).unwrap_or(0.0));
                DataSize::from_bytes(bytes as u64)
            }
        }
    }

    /// The mean within the limits: exact for the discrete distributions, otherwise by integration.
    fn mean(&self, limits: SizeLimits) -> f64 {
        let (min, max) = (limits.min.as_bytes() as f64, limits.max.as_bytes() as f64);
        match self {
            Self::Uniform { from, to } => {
                let (from, to) = (*from as f64, *to as f64);
                let count = to - from + 1.0;
                let below = (min.min(to + 1.0) - from).max(0.0);
                let above = (to - max.max(from - 1.0)).max(0.0);
                let within = count - below - above;
                let middle = f64::midpoint(from.max(min), to.min(max));
                (below * min + above * max + within * middle) / count
            }
            Self::Choice(sizes) => {
                let mut before = 0.0;
                let mut sum = 0.0;
                for (size, up_to) in sizes {
                    sum += limits.clamp(*size).as_bytes() as f64 * (up_to - before);
                    before = *up_to;
                }
                sum / before
            }
            _ => integrate(self.base(), |z| self.value(z).unwrap_or(0.0).clamp(min, max)),
        }
    }
}

/// The expectation of `value` by the midpoint rule on a fine grid; the probability outside the grid is below
/// 1e-15.
fn integrate(base: Base, value: impl Fn(f64) -> f64) -> f64 {
    const STEPS: u32 = 20_000;
    let (from, to) = match base {
        Base::Normal => (-8.0, 8.0),
        Base::Exponential => (0.0, 40.0),
    };
    let step: f64 = (to - from) / f64::from(STEPS);
    let (mut sum, mut weights) = (0.0, 0.0);
    for n in 0..STEPS {
        let z: f64 = from + step * (f64::from(n) + 0.5);
        let weight = match base {
            Base::Normal => math::exp(-z * z / 2.0),
            Base::Exponential => math::exp(-z),
        };
        sum += weight * value(z);
        weights += weight;
    }
    sum / weights
}

/// Draws payload sizes one by one.
#[derive(Debug, Clone)]
pub struct SizeSource {
    sizes: PayloadSizes,
    limits: SizeLimits,
    /// The next entry of a trace.
    position: usize,
}

impl SizeSource {
    /// Sizes from `sizes`; those outside `limits` are replaced by the nearer limit.
    pub const fn new(sizes: PayloadSizes, limits: SizeLimits) -> Self {
        Self { sizes, limits, position: 0 }
    }

    /// The next size. A fixed size and a trace draw nothing from `rng`.
    pub fn next_size(&mut self, rng: &mut dyn Rng) -> DataSize {
        match &self.sizes {
            PayloadSizes::Fixed(size) => self.limits.clamp(*size),
            PayloadSizes::Drawn(SizeDistribution(shape)) => shape.draw(self.limits, rng),
            PayloadSizes::Trace(trace) => {
                let size = trace.sizes().get(self.position).copied().unwrap_or_default();
                self.position = (self.position + 1) % trace.sizes().len().max(1);
                self.limits.clamp(size)
            }
        }
    }

    /// The mean size in bytes, limits included.
    pub fn mean(&self) -> f64 {
        match &self.sizes {
            PayloadSizes::Fixed(size) => self.limits.clamp(*size).as_bytes() as f64,
            PayloadSizes::Drawn(SizeDistribution(shape)) => shape.mean(self.limits),
            PayloadSizes::Trace(trace) => {
                let total: DataSize = trace.sizes().iter().map(|&size| self.limits.clamp(size)).sum();
                total.as_bytes() as f64 / trace.sizes().len().max(1) as f64
            }
        }
    }

    /// The largest possible size.
    pub fn max(&self) -> DataSize {
        let largest = match &self.sizes {
            PayloadSizes::Fixed(size) => *size,
            PayloadSizes::Drawn(SizeDistribution(Shape::Uniform { to, .. })) => DataSize::from_bytes(*to),
            PayloadSizes::Drawn(SizeDistribution(Shape::Choice(sizes))) => {
                sizes.iter().map(|(size, _)| *size).max().unwrap_or_default()
            }
            PayloadSizes::Drawn(_) => self.limits.max,
            PayloadSizes::Trace(trace) => trace.sizes().iter().copied().max().unwrap_or_default(),
        };
        self.limits.clamp(largest)
    }

    /// The size, if it is always the same.
    pub fn is_fixed(&self) -> Option<DataSize> {
        match &self.sizes {
            PayloadSizes::Fixed(size) => Some(self.limits.clamp(*size)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    fn source(text: &str, min: u64, max: u64) -> SizeSource {
        let limits = SizeLimits::new(DataSize::from_bytes(min), DataSize::from_bytes(max)).unwrap();
        SizeSource::new(text.parse().unwrap(), limits)
    }

    fn drawn_mean(source: &mut SizeSource) -> f64 {
        const DRAWS: u32 = 200_000;
        let mut rng = StdRng::seed_from_u64(7);
        let total: DataSize = (0..DRAWS).map(|_| source.next_size(&mut rng)).sum();
        total.as_bytes() as f64 / f64::from(DRAWS)
    }

    #[test]
    fn with_wide_limits_the_mean_is_that_of_the_distribution() {
        let table = [
            ("1200", 1200.0),
            ("uniform:200-1200", 700.0),
            ("normal:8000,200", 8000.0),
            ("exp:600", 600.0),
            ("lognormal:600,300", 600.0),
            // smallest · shape / (shape − 1)
            ("pareto:100,3", 150.0),
            ("choice:200*3,1200*1", 450.0),
            ("choice:100,300", 200.0),
        ];
        for (text, mean) in table {
            let found = source(text, 0, 1_000_000_000).mean();
            assert!((found - mean).abs() < mean * 1e-4, "{text}: {found}");
        }
    }

    #[test]
    fn drawn_sizes_have_the_expected_mean_within_any_limits() {
        for text in [
            "500",
            "uniform:10-2000",
            "uniform:10-20",
            "uniform:3000-4000",
            "normal:800,400",
            "exp:600",
            "lognormal:600,900",
            "pareto:100,1.2",
            "choice:10*3,1200*1,9000*0.5",
        ] {
            for (min, max) in [(100, 1472), (0, 100_000), (300, 300)] {
                let mut source = source(text, min, max);
                let (expected, drawn) = (source.mean(), drawn_mean(&mut source));
                assert!(
                    (expected - drawn).abs() < expected * 0.015,
                    "{text} in {min}..{max}: {expected} expected, {drawn} drawn"
                );
            }
        }
    }

    #[test]
    fn a_fixed_size_is_known() {
        assert_eq!(source("1.2 kB", 0, 1472).is_fixed(), Some(DataSize::from_bytes(1200)));
        assert_eq!(source("9000", 0, 1472).is_fixed(), Some(DataSize::from_bytes(1472)));
        assert_eq!(source("uniform:5-5", 0, 1472).is_fixed(), None);
        assert_eq!(source("choice:200,700", 0, 1472).max(), DataSize::from_bytes(700));
        assert_eq!(source("uniform:1-9", 0, 1472).max(), DataSize::from_bytes(9));
        assert_eq!(source("exp:1", 0, 1472).max(), DataSize::from_bytes(1472));
    }

    #[test]
    fn a_trace_is_repeated() {
        let trace = PayloadTrace::parse("100\n2000\n", "t.csv").unwrap();
        let limits = SizeLimits::new(DataSize::from_bytes(32), DataSize::from_bytes(1472)).unwrap();
        let mut source = SizeSource::new(PayloadSizes::Trace(trace), limits);
        let mut rng = StdRng::seed_from_u64(1);
        let sizes: Vec<_> = (0..5).map(|_| source.next_size(&mut rng).as_bytes()).collect();
        assert_eq!(sizes, [100, 1472, 100, 1472, 100]);
        assert_eq!((source.mean(), source.max().as_bytes()), (786.0, 1472));
    }

    #[test]
    fn errors_name_the_text_and_the_fix() {
        for (text, expected) in [
            (
                "uniform:1200-200",
                "\"uniform:1200-200\": the first size must not be above the second, such as uniform:200-1200",
            ),
            (
                "choice:200*x",
                "\"choice:200*x\": a weight must be a number of at least 0, such as choice:200*3,1200*1",
            ),
            ("zipf:3", "no such payload sizes: write a size, or one of uniform:200-1200"),
            ("exp:fast", "\"fast\" is not a size"),
        ] {
            let found = text.parse::<PayloadSizes>().unwrap_err().to_string();
            assert!(found.contains(expected), "{text}: {found}");
        }
        let sizes =
            ["", ":", "12 x", "uniform", "uniform:5", "normal:800", "normal:1,2,3", "exp:0", "exp:-5"];
        let shapes = ["lognormal:0,1", "pareto:0,1", "pareto:100,0", "pareto:100,nan"];
        let weights = ["choice:", "choice:200*0", "choice:200*-1", "choice:1*inf"];
        for text in sizes.into_iter().chain(shapes).chain(weights) {
            assert!(text.parse::<PayloadSizes>().is_err(), "{text:?} was taken");
        }
        let limits = SizeLimits::new(DataSize::from_bytes(2), DataSize::from_bytes(1));
        assert!(limits.unwrap_err().to_string().contains("2 B, must not be above the largest, 1 B"));
    }

    proptest! {
        #[test]
        fn every_size_is_within_the_limits(
            kind in 0_usize..6, a in 1_u32..5000, b in 1_u32..5000, min in 0_u64..2000, more in 0_u64..2000, seed: u64,
        ) {
            let text = match kind {
                0 => format!("uniform:{}-{}", a.min(b), a.max(b)),
                1 => format!("normal:{a},{b}"),
                2 => format!("exp:{a}"),
                3 => format!("lognormal:{a},{b}"),
                4 => format!("pareto:{a},{}", f64::from(b) / 100.0),
                _ => format!("choice:{a}*0.5,{b}*2"),
            };
            let mut source = source(&text, min, min + more);
            let mut rng = StdRng::seed_from_u64(seed);
            for _ in 0..50 {
                let size = source.next_size(&mut rng).as_bytes();
                prop_assert!((min..=min + more).contains(&size) && size <= source.max().as_bytes());
            }
            let mean = source.mean();
            prop_assert!(mean >= min as f64 - 1e-6 && mean <= source.max().as_bytes() as f64 + 1e-6);
        }
    }
}
