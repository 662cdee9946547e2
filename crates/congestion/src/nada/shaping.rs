//! Rates of the encoder and of the pacer, which drain the sender's queue (RFC 8698 §5.2.2, equations 11 to 14). Rates are in bit/s.

use giusto_units::DataSize;

use super::config::Config;

/// Maximum adjustment, as a share of the reference rate (equations 11 and 12).
const MAX_SHARE: f64 = 0.05;

/// Rates of the encoder and of the pacer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ShapedRates {
    /// `r_vin`: target rate of the encoder.
    pub(super) video: f64,
    /// `r_send`: rate at which queued packets are sent.
    pub(super) sending: f64,
}

/// The rates for a reference rate and a sender's queue (`buffer_len`).
pub(super) fn shaped(config: &Config, reference: f64, queue: DataSize) -> ShapedRates {
    // The rate that drains the queue within one frame.
    let drain = queue.as_bytes() as f64 * 8.0 * config.frame_rate;
    let bound = MAX_SHARE * reference;
    let (min, max) = (config.limits.min.as_bps() as f64, config.limits.max.as_bps() as f64);
    ShapedRates {
        video: (reference - bound.min(config.beta_video * drain)).max(min),
        sending: (reference + bound.min(config.beta_sending * drain)).min(max),
    }
}
