//! What tests share.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use crate::{
    link::{
        LinkConfig,
        queue::{DropTail, Limit, Queue},
        rate::RateProfile,
    },
    traffic::tcp::control::ConnectionStart,
};

pub(crate) const fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

pub(crate) const fn kbps(kbps: u64) -> DataRate {
    DataRate::from_bps(kbps * 1000)
}

#[track_caller]
pub(crate) fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-12, "{found} instead of {expected}");
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(crate) fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

pub(crate) fn link(rate: DataRate, delay: TimeDelta) -> LinkConfig {
    LinkConfig { rate: RateProfile::Fixed(rate), delay: delay.into(), ..LinkConfig::default() }
}

/// A queue of so many packets.
pub(crate) fn packets(limit: u64) -> Box<dyn Queue> {
    Box::new(DropTail::new(Limit::Packets(limit)))
}

/// A connection that begins in slow start, with segments of 1000 bytes.
pub(crate) const START: ConnectionStart = ConnectionStart {
    segment: 1000,
    window: 10_000,
    threshold: u64::MAX,
    slow_start_limit: 1,
    hystart: false,
};
