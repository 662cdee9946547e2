//! Limits and options of a controller.

use giusto_units::{DataRate, TimeDelta};

/// Bounds of the target rate, headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Lowest target rate. Default 30 kbit/s.
    pub min: DataRate,
    /// Target rate at the start, and again after a route change. Default 300 kbit/s, as in libwebrtc.
    pub start: DataRate,
    /// Highest target rate, and the highest rate that the media can use. Default 2 Mbit/s.
    pub max: DataRate,
}

impl Limits {
    /// These limits with `max` raised to at least `min`, and `start` moved between the two. Controllers use limits in this order.
    #[must_use]
    pub fn ordered(self) -> Self {
        let max = self.max.max(self.min);
        Self { min: self.min, start: self.start.max(self.min).min(max), max }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min: DataRate::from_bps(30_000),
            start: DataRate::from_bps(300_000),
            max: DataRate::from_bps(2_000_000),
        }
    }
}

/// Options of a controller besides its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Target of the queueing delay in the network, above 0. Default: the value that the controller's document recommends. Ignored by
    /// controllers without such a target ([`Requirements::delay_target`](crate::Requirements)).
    ///
    /// | controller | replaces |
    /// |---|---|
    /// | `scream:rfc8298` | `QDELAY_TARGET_LO`, 100 ms (RFC 8298 §4.1.1.1), and `QDELAY_TARGET_HI` if that is lower |
    /// | `scream:d00` | `OWD_TARGET`, 80 ms (draft-johansson-rmcat-scream-cc-00 §9.1.4) |
    /// | `scream:v2` | `QDELAY_TARGET_LO`, 60 ms (draft-ietf-ccwg-rfc8298bis-screamv2-01, "Reference Window Update") |
    pub delay_target: Option<TimeDelta>,
}
