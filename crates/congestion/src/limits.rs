//! Limits and options of a controller.

use giusto_units::{DataRate, TimeDelta};

/// Bounds of the target rate, headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Limits {
    /// Lowest target rate. Default 30 kbit/s.
    pub min: DataRate,
    /// Target rate at the start, and again after a route change. Default 300 kbit/s, as in libwebrtc.
    pub start: DataRate,
    /// Highest target rate, and the highest rate that the media can use. Default 2 Mbit/s.
    pub max: DataRate,
}

impl Limits {
    /// The default, as a constant.
    pub const DEFAULT: Self = Self {
        min: DataRate::from_bps(30_000),
        start: DataRate::from_bps(300_000),
        max: DataRate::from_bps(2_000_000),
    };

    /// These limits with `max` raised to at least `min`, and `start` moved between the two. Controllers use limits in this order.
    #[must_use]
    pub fn ordered(self) -> Self {
        let max = self.max.max(self.min);
        Self { min: self.min, start: self.start.max(self.min).min(max), max }
    }
}

giusto_units::setters!(Limits {
    /// Sets the lowest target rate.
    with_min(min: DataRate);
    /// Sets the target rate at the start and after a route change.
    with_start(start: DataRate);
    /// Sets the highest target rate.
    with_max(max: DataRate);
});

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Options of a controller besides its limits. A controller ignores those that its [`Requirements`](crate::Requirements) do not name.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Options {
    /// Target of the queueing delay in the network, above 0. Default: the value that the controller's document recommends. Named by
    /// [`Requirements::delay_target`](crate::Requirements::delay_target).
    ///
    /// | controller | replaces |
    /// |---|---|
    /// | `scream:rfc8298` | `QDELAY_TARGET_LO`, 100 ms (RFC 8298 §4.1.1.1), and `QDELAY_TARGET_HI` if that is lower |
    /// | `scream:d00` | `OWD_TARGET`, 80 ms (draft-johansson-rmcat-scream-cc-00 §9.1.4) |
    /// | `scream:v2` | `QDELAY_TARGET_LO`, 60 ms (draft-ietf-ccwg-rfc8298bis-screamv2-01, "Reference Window Update") |
    pub delay_target: Option<TimeDelta>,
    /// Weight of the flow among other flows of the controller at the same bottleneck, above 0: `PRIO` of RFC 8698 §4.3. Default 1, also
    /// for one that is not above 0 or not finite.
    /// Named by [`Requirements::priority`](crate::Requirements::priority).
    pub priority: Option<f64>,
    /// Whether to probe every 5 s while the sender is application-limited, as libwebrtc does for screen sharing
    /// (`StreamsConfig::requests_alr_probing`). Default `false`. Named by
    /// [`Requirements::limited_probes`](crate::Requirements::limited_probes).
    pub probe_while_limited: bool,
    /// Whether `scream:v2` has laws of its authors' library ([`Config::authors`](crate::scream::v2::Config::authors)).
    /// Default `false`. Named by [`Requirements::authors_laws`](crate::Requirements::authors_laws).
    pub authors_laws: bool,
}

giusto_units::setters!(Options {
    /// Sets the target of the queueing delay.
    with_delay_target(delay_target: Option<TimeDelta>);
    /// Sets the weight of the flow among other flows of the controller.
    with_priority(priority: Option<f64>);
    /// Sets whether to probe while the sender is application-limited.
    with_probe_while_limited(probe_while_limited: bool);
    /// Sets whether `scream:v2` has laws of its authors' library.
    with_authors_laws(authors_laws: bool);
});
