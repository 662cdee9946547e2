//! Schedules by name.

use alloc::boxed::Box;
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    absolute::{AbsoluteTime, SessionRule},
    burst_limit::BurstLimit,
    catch_up::{BurstBound, CatchUp},
    differential::{DifferentialRule, DifferentialTime},
    grid::{Grid, GridConfig},
    plan::{CyclePlan, PlanError},
    schedule::Schedule,
    send_compare::SendCompare,
    send_sleep::{Deficit, SendSleep},
    unpaced::Unpaced,
};

/// The schedules that have a name.
///
/// # Example
///
/// ```
/// use giusto_pace::{CyclePlan, CycleRule, HeaderLayer, IpVersion, Schedule, Step, Strategy, StrategyOptions};
/// use giusto_units::{TimeDelta, Timestamp};
///
/// let (rate, payload) = ("3 Mbit/s".parse()?, "1200 B".parse()?);
/// let plan = CyclePlan::new(rate, payload, HeaderLayer::Payload, IpVersion::V4, CycleRule::Given(1))?;
/// let mut schedule = "grid".parse::<Strategy>()?.build(&plan, StrategyOptions::default())?;
///
/// assert!(matches!(schedule.next(Timestamp::ZERO), Step::Send(cycle) if cycle.packets == 1));
/// schedule.on_sent(Timestamp::ZERO, plan.size_on_layer());
/// assert_eq!(schedule.next(Timestamp::ZERO), Step::SleepUntil(Timestamp::ZERO + TimeDelta::from_micros(3200)));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Strategy {
    /// [`Grid`].
    #[default]
    Grid,
    /// [`SendCompare`].
    SendCompare,
    /// [`SendSleep`] with [`Deficit::None`].
    SendSleep,
    /// [`SendSleep`] with [`Deficit::SendTime`].
    SendSleepDeficit,
    /// [`SendSleep`] with [`Deficit::SendTimeAndOversleep`].
    SendSleepOversleep,
    /// [`Unpaced`]: of the plan, only the datagrams per cycle count.
    Unpaced,
    // Appended, because the order is that of the wire format.
    /// [`DifferentialTime`] with [`DifferentialRule::Dt0`].
    Dt0,
    /// [`DifferentialTime`] with [`DifferentialRule::Dt1`].
    Dt1,
    /// [`DifferentialTime`] with [`DifferentialRule::Dt2`].
    Dt2,
    /// [`DifferentialTime`] with [`DifferentialRule::Dt2Live`].
    Dt2Live,
    /// [`AbsoluteTime`] with [`SessionRule::Whole`].
    At0,
    /// [`AbsoluteTime`] with [`SessionRule::Fragments`].
    At1,
}

/// Options of a strategy besides the plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct StrategyOptions {
    /// Due time of the first cycle. Default: the first call.
    pub start: Option<Timestamp>,
    /// The rule of `grid` for cycles later than the bound; ignored by the other strategies.
    pub catch_up: CatchUp,
    /// Maximum amount that `grid` sends back to back; the others have no bound.
    pub burst_bound: BurstBound,
    /// The maximum burst rate, at least the rate of the plan. Default: none. Applies to every strategy.
    pub r_max: Option<DataRate>,
    /// A longer wait for data is a gap, after which `at1` and `dt2-live` restart. Default: the time of the
    /// latest cycle at the rate. Ignored by the others.
    pub gap_threshold: Option<TimeDelta>,
}

giusto_units::setters!(StrategyOptions {
    /// The same, with the first cycle due at `start`.
    with_start(start: into Timestamp);
    /// The same, with this rule for late cycles.
    with_catch_up(catch_up: CatchUp);
    /// The same, with this burst bound.
    with_burst_bound(burst_bound: BurstBound);
    /// The same, with this maximum burst rate.
    with_r_max(r_max: into DataRate);
    /// The same, with this shortest gap in the data.
    with_gap_threshold(gap_threshold: into TimeDelta);
});

giusto_units::names!(Strategy as "strategy" {
    Grid = "grid",
    SendCompare = "send-compare",
    SendSleep = "send-sleep",
    SendSleepDeficit = "send-sleep-deficit",
    SendSleepOversleep = "send-sleep-oversleep",
    Unpaced = "unpaced",
    Dt0 = "dt0",
    Dt1 = "dt1",
    Dt2 = "dt2",
    Dt2Live = "dt2-live",
    At0 = "at0",
    At1 = "at1",
});

impl Strategy {
    /// A schedule of this kind for `plan`.
    ///
    /// # Errors
    ///
    /// [`PlanError::BurstRateTooLow`] if `r_max` is below the rate of the plan. `unpaced` has no rate to
    /// compare with, so only zero is rejected ([`PlanError::RateZero`]).
    pub fn build(self, plan: &CyclePlan, options: StrategyOptions) -> Result<Box<dyn Schedule>, PlanError> {
        let StrategyOptions { start, catch_up, burst_bound, r_max, gap_threshold } = options;
        if let Some(burst_rate) = r_max.filter(|&r_max| r_max < plan.rate() && self != Self::Unpaced) {
            return Err(PlanError::BurstRateTooLow { burst_rate, rate: plan.rate() });
        }
        let sleeping = |deficit| Box::new(SendSleep::new(plan, deficit, start));
        let differential = |rule| Box::new(DifferentialTime::new(plan, rule, start));
        let absolute = |rule| Box::new(AbsoluteTime::new(plan, rule, start));
        let schedule: Box<dyn Schedule> = match self {
            Self::Grid => Box::new(Grid::new(plan, GridConfig { start, catch_up, burst_bound })),
            Self::SendCompare => Box::new(SendCompare::new(plan, start)),
            Self::SendSleep => sleeping(Deficit::None),
            Self::SendSleepDeficit => sleeping(Deficit::SendTime),
            Self::SendSleepOversleep => sleeping(Deficit::SendTimeAndOversleep),
            Self::Unpaced => Box::new(Unpaced::new(plan.packets_per_cycle(), start)),
            Self::Dt0 => differential(DifferentialRule::Dt0),
            Self::Dt1 => differential(DifferentialRule::Dt1),
            Self::Dt2 => differential(DifferentialRule::Dt2),
            Self::Dt2Live => differential(DifferentialRule::Dt2Live { gap_threshold }),
            Self::At0 => absolute(SessionRule::Whole),
            Self::At1 => absolute(SessionRule::Fragments { gap_threshold }),
        };
        Ok(match r_max {
            Some(r_max) => Box::new(BurstLimit::new(schedule, r_max)?),
            None => schedule,
        })
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::DataSize;

    use super::*;
    use crate::{CycleRule, HeaderLayer, IpVersion};

    #[test]
    fn a_burst_rate_below_the_rate_is_rejected() {
        let (rate, payload) = (DataRate::from_bps(1_000_000), DataSize::from_bytes(200));
        let rule = CycleRule::default();
        let plan = CyclePlan::new(rate, payload, HeaderLayer::Payload, IpVersion::V4, rule).unwrap();
        let build = |strategy: Strategy, bps| {
            let r_max = Some(DataRate::from_bps(bps));
            strategy.build(&plan, StrategyOptions { r_max, ..StrategyOptions::default() })
        };
        assert!(build(Strategy::Grid, 1_000_000).is_ok());
        assert_eq!(
            build(Strategy::Grid, 999_999).unwrap_err().to_string(),
            "the maximum burst rate must not be below the rate of 1 Mbit/s, found \"999.999 kbit/s\": raise it or leave it out"
        );
        assert!(build(Strategy::Unpaced, 1).is_ok());
        assert!(build(Strategy::Unpaced, 0).is_err());
    }
}
