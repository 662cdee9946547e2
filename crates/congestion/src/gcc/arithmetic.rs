//! Arithmetic of rates and times that several parts use.

use giusto_units::{DataRate, Timestamp, math};

/// Stands for "no limit" where rates are compared.
pub(super) const UNLIMITED: DataRate = DataRate::from_bps(u64::MAX);

/// A clock that never runs backwards.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Forward(pub(super) Timestamp);

impl Forward {
    /// `now`, or the latest time seen if that is later.
    pub(super) fn clamp(&mut self, now: Timestamp) -> Timestamp {
        self.0 = self.0.max(now);
        self.0
    }
}

/// `rate` times `factor`, to the nearest bit per second; zero if the factor is not a number.
pub(super) fn scaled(rate: DataRate, factor: f64) -> DataRate {
    DataRate::from_bps(math::round(rate.as_bps() as f64 * factor) as u64)
}

/// The sum of two rates, at most [`UNLIMITED`].
pub(super) fn sum(rate: DataRate, more: DataRate) -> DataRate {
    DataRate::from_bps(rate.as_bps().saturating_add(more.as_bps()))
}
