//! What the filters of the delay have in common.

/// What a filter says after a delta.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FilterOutput {
    /// The trend as the filter estimates it: milliseconds of delay per group (Kalman filters), or milliseconds per
    /// millisecond (trend line). Whether it falls is judged by this.
    pub raw: f64,
    /// What is compared with the threshold, in milliseconds: `raw` times the filter's gains.
    pub trend_ms: f64,
    /// How many deltas the estimate rests on.
    pub samples: u32,
}

/// `min(samples, limit)`: by how much a filter amplifies what it estimates; 1 without a limit.
pub(super) fn amplification(samples: u32, limit: Option<u32>) -> f64 {
    limit.map_or(1.0, |limit| f64::from(samples.min(limit)))
}
