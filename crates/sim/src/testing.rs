//! Quantities in the units in which tests write them.

use giusto_units::{DataRate, Timestamp};

pub(crate) const fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

pub(crate) const fn kbps(kbps: u64) -> DataRate {
    DataRate::from_bps(kbps * 1000)
}
