//! Quantities and names as tests write them.

use giusto_congestion::Algorithm;
use giusto_units::Timestamp;

pub(crate) const fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

pub(crate) fn algorithm(name: &str) -> Algorithm {
    name.parse().unwrap()
}
