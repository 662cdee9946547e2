//! Confidence intervals over seeds.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The confidence level of the intervals.
const CONFIDENCE: f64 = 0.95;

/// A mean over seeds with its 95 % confidence interval, by Student's t.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The lower limit; `None` for a single value.
    pub low: Option<f64>,
    /// The upper limit; `None` for a single value.
    pub high: Option<f64>,
}

impl Interval {
    /// The interval of some values; `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let half = (values.len() > 1).then(|| {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let t = StudentsT::new(0.0, 1.0, count - 1.0)
                .map_or(f64::NAN, |t| t.inverse_cdf(0.5 + CONFIDENCE / 2.0));
            t * (variance / count).sqrt()
        });
        Some(Self { mean, low: half.map(|half| mean - half), high: half.map(|half| mean + half) })
    }

    /// Half of its width.
    pub fn half(&self) -> Option<f64> {
        self.high.map(|high| high - self.mean)
    }
}
