//! The catch-up rule for late cycles, and the burst bound.

use alloc::{borrow::ToOwned, string::String};
use core::{fmt, num::NonZeroU64, str::FromStr};

use giusto_units::{DataSize, TimeDelta};

use super::plan::CyclePlan;

/// The rule of a [`Grid`](super::Grid) for cycles that are later than the burst bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum CatchUp {
    /// Sends all of them, at most at twice the rate: the average stays exact.
    #[default]
    Burst,
    /// Drops the oldest of them: the grid does not move.
    Skip,
    /// Starts a new grid at the current time.
    Reanchor,
}

giusto_units::names!(CatchUp as "catch-up rule" { Burst = "burst", Skip = "skip", Reanchor = "reanchor" });

/// Burst bound: maximum amount that is sent back to back. Counted in whole cycles of the plan, rounded down,
/// but at least one, because a cycle is never divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum BurstBound {
    /// Number of datagrams.
    Packets(u64),
    /// Number of bytes, at the layer that the plan counts.
    Bytes(DataSize),
    /// Amount sent at the rate in this time. It is also the maximum lateness at which a cycle is sent without
    /// a catch-up rule.
    Time(TimeDelta),
}

impl BurstBound {
    /// The bound in whole cycles of `plan`, at least one.
    pub fn cycles(self, plan: &CyclePlan) -> u64 {
        let cycles = match self {
            Self::Packets(packets) => packets.checked_div(u64::from(plan.packets_per_cycle())),
            Self::Bytes(size) => size.as_bytes().checked_div(plan.cycle_size().as_bytes()),
            Self::Time(time) => {
                plan.rate().size_in(time).as_bytes().checked_div(plan.cycle_size().as_bytes())
            }
        };
        cycles.unwrap_or(1).max(1)
    }

    /// The bound in bytes for `plan`: a whole number of its cycles.
    pub fn size(self, plan: &CyclePlan) -> DataSize {
        plan.cycle_size() * self.cycles(plan)
    }
}

impl Default for BurstBound {
    /// 1 ms: one cycle at voice rates, and at any rate several times the usual oversleep, so that usual
    /// lateness is within the bound.
    fn default() -> Self {
        Self::Time(TimeDelta::from_millis(1))
    }
}

impl fmt::Display for BurstBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(1) => f.write_str("1 packet"),
            Self::Packets(packets) => write!(f, "{packets} packets"),
            Self::Bytes(size) => size.fmt(f),
            Self::Time(time) => time.fmt(f),
        }
    }
}

/// A text that is not a burst bound.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BurstBoundError {
    /// The text.
    pub text: String,
}

impl fmt::Display for BurstBoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not a burst bound: write datagrams, bytes or a time, such as \"10\", \"16 kB\" or \"5 ms\"",
            self.text
        )
    }
}

impl core::error::Error for BurstBoundError {}

impl FromStr for BurstBound {
    type Err = BurstBoundError;
    /// Reads `"10 packets"`, `"16 kB"` or `"5 ms"`; a whole number above 0 without a unit counts packets.
    ///
    /// # Errors
    ///
    /// [`BurstBoundError`] names the text and gives valid examples.
    fn from_str(text: &str) -> Result<Self, BurstBoundError> {
        let trimmed = text.trim();
        let packets = trimmed.strip_suffix("packets").or_else(|| trimmed.strip_suffix("packet"));
        let bound = if let Some(number) = packets {
            number.trim().parse().ok().map(Self::Packets)
        } else if trimmed.ends_with('B') {
            trimmed.parse().ok().map(Self::Bytes)
        } else if let Ok(packets) = trimmed.parse::<NonZeroU64>() {
            Some(Self::Packets(packets.get()))
        } else {
            trimmed.parse().ok().map(Self::Time)
        };
        bound.ok_or_else(|| BurstBoundError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CycleRule, HeaderLayer, IpVersion};

    fn plan(packets: u32) -> CyclePlan {
        let (rate, payload) = ("1M".parse().unwrap(), DataSize::from_bytes(200));
        CyclePlan::new(rate, payload, HeaderLayer::Payload, IpVersion::V4, CycleRule::Given(packets)).unwrap()
    }

    #[test]
    fn bounds_count_in_whole_cycles_and_at_least_one() {
        // A cycle of 5 x 200 B takes 8 ms.
        let plan = plan(5);
        let cycles = |text: &str| text.parse::<BurstBound>().unwrap().cycles(&plan);
        assert_eq!((cycles("1 packet"), cycles("9 packets"), cycles("10 packets")), (1, 1, 2));
        assert_eq!((cycles("0 B"), cycles("1999 B"), cycles("2 kB")), (1, 1, 2));
        assert_eq!((cycles("0 ms"), cycles("15.9ms"), cycles("16 ms")), (1, 1, 2));
        assert_eq!(BurstBound::Packets(12).size(&plan), DataSize::from_bytes(2000));
        assert_eq!(BurstBound::Packets(u64::MAX).size(&plan), DataSize::from_bytes(u64::MAX));
    }

    #[test]
    fn printed_bounds_and_rules_are_read_back() {
        for bound in [
            BurstBound::Packets(1),
            BurstBound::Packets(10),
            BurstBound::Bytes(DataSize::from_bytes(16_384)),
            BurstBound::Time(TimeDelta::from_micros(2500)),
        ] {
            assert_eq!(bound.to_string().parse(), Ok(bound));
        }
        assert_eq!("4".parse(), Ok(BurstBound::Packets(4)));
        for text in ["0", "4.5", "", "packets", "-1 packets", "5 m", "ten B"] {
            assert!(text.parse::<BurstBound>().is_err(), "{text:?} was taken");
        }
        for rule in CatchUp::ALL {
            assert_eq!(rule.to_string().parse(), Ok(rule));
        }
        assert!("never".parse::<CatchUp>().unwrap_err().to_string().ends_with("are burst, skip, reanchor"));
    }
}
