//! Types and functions that the delay filters share.

/// Output of a filter after one delay variation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct FilterOutput {
    /// The estimated trend: milliseconds of delay per group (Kalman filters), or milliseconds per millisecond
    /// (trend line). Used to decide whether the trend falls.
    pub(crate) raw: f64,
    /// The value that is compared with the threshold, in milliseconds: `raw` times the filter's gains.
    pub(crate) trend_ms: f64,
    /// Number of delay variations that the estimate is based on.
    pub(crate) samples: u32,
}

/// `min(samples, limit)`: the factor by which a filter amplifies its estimate. 1 without a limit.
pub(super) fn amplification(samples: u32, limit: Option<u32>) -> f64 {
    limit.map_or(1.0, |limit| f64::from(samples.min(limit)))
}
