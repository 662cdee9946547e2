//! Quantities in the units in which tests write them.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use crate::limits::Limits;

pub(crate) const fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

pub(crate) const fn ms(ms: i64) -> TimeDelta {
    TimeDelta::from_millis(ms)
}

pub(crate) const fn kbps(kbps: u64) -> DataRate {
    DataRate::from_bps(kbps * 1000)
}

/// In kbit/s.
pub(crate) const fn limits(min: u64, start: u64, max: u64) -> Limits {
    Limits { min: kbps(min), start: kbps(start), max: kbps(max) }
}
