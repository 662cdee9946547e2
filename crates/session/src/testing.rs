//! Quantities in the units in which tests write them.

use giusto_units::Timestamp;

pub(crate) const fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}
