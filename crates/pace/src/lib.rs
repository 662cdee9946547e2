//! When may the next datagram leave?
//!
//! A [`Schedule`] is a transmit loop turned inside out. Its driver asks for the [`next`](Schedule::next) [`Step`], carries it
//! out, and says what happened. The driver may be a real thread with a real socket, or a simulation.
//!
//! A [`CyclePlan`] turns a rate and a datagram size into cycles: so many datagrams leave together, once per period. A
//! [`Strategy`] is a schedule by name:
//!
//! | strategy | schedule | waits by | after a delay |
//! |---|---|---|---|
//! | `grid` | [`Grid`] | sleeping until | catches up, skips or re-anchors, within a stated bound |
//! | `send-compare` | [`SendCompare`] | spinning | sends all that is owed at once |
//! | `send-sleep` | [`SendSleep`] | sleeping for | has lost it |
//! | `send-sleep-deficit` | [`SendSleep`] | sleeping for | makes up for slow sends |
//! | `send-sleep-oversleep` | [`SendSleep`] | sleeping for | makes up for slow sends and long sleeps |
//! | `unpaced` | [`Unpaced`] | nothing | |
//! | `dt0` | [`DifferentialTime`] | sleeping for | takes it off the next sleep, and loses the rest |
//! | `dt1` | [`DifferentialTime`] | sleeping for | makes up for long sleeps |
//! | `dt2` | [`DifferentialTime`] | sleeping for | makes up for slow sends, long sleeps and gaps in the data |
//! | `dt2-live` | [`DifferentialTime`] | sleeping for | the same, but begins anew after a gap in the data |
//! | `at0` | [`AbsoluteTime`] | sleeping for | sends all that is owed at once |
//! | `at1` | [`AbsoluteTime`] | sleeping for | the same, but begins anew after a gap in the data |
//!
//! Two schedules wrap any other: [`BurstLimit`] caps the rate of its bursts, [`Bounded`] ends it.
//!
//! # Sources
//!
//! The docs cite by title:
//!
//! - "Constant Bit Rate Transmission - An Adaptive Send and Sleep Approach": the README of the Firebind transmitter
//!   (`scancmdr/constant-bitrate-transmitter`);
//! - "Constant Bit Rate Streaming - Practical Implementations": the Firebind blog;
//! - Chiu, Kadansky, Provino and Wesley, "Experiences in Programming a Traffic Shaper", Sun Microsystems Laboratories,
//!   SMLI TR-99-77, 1999.
//!
//! # Example
//!
//! A driver whose time passes only by sleeping:
//!
//! ```
//! use giusto_pace::{Bounded, CyclePlan, CycleRule, HeaderLayer, IpVersion, Limits, Schedule, Step, Strategy};
//! use giusto_units::{TimeDelta, Timestamp};
//!
//! let (rate, payload) = ("3 Mbit/s".parse()?, "1200 B".parse()?);
//! let plan = CyclePlan::new(rate, payload, HeaderLayer::Payload, IpVersion::V4, CycleRule::Given(1))?;
//! let schedule = Strategy::Grid.build(&plan, Default::default())?;
//! let limits = Limits { duration: Some(TimeDelta::from_seconds(1)), ..Limits::default() };
//! let mut schedule = Bounded::new(schedule, plan.size_on_layer(), limits);
//!
//! let mut now = Timestamp::ZERO;
//! loop {
//!     match schedule.next(now) {
//!         Step::Send(cycle) => schedule.on_sent(now, plan.size_on_layer() * u64::from(cycle.packets)),
//!         Step::SleepFor(span) => {
//!             now += span;
//!             schedule.on_woke(now);
//!         }
//!         Step::SleepUntil(moment) => {
//!             now = moment;
//!             schedule.on_woke(now);
//!         }
//!         Step::LookAgain => now += TimeDelta::from_nanos(100),
//!         _ => break,
//!     }
//! }
//! assert_eq!(schedule.sent_packets(), 313); // at 0 ms, 3.2 ms, …, 998.4 ms
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod absolute;
mod bounded;
mod burst_limit;
mod catch_up;
mod differential;
mod grid;
mod ideal;
pub mod media;
mod names;
mod plan;
mod replay;
mod send_compare;
mod send_sleep;
mod strategy;
#[cfg(test)]
mod tests;
mod unpaced;
#[cfg(test)]
mod virtual_driver;

pub use absolute::{AbsoluteTime, SessionRule};
pub use bounded::{Bounded, Limits};
pub use burst_limit::BurstLimit;
pub use catch_up::{BurstBound, BurstBoundError, CatchUp};
pub use differential::{DifferentialRule, DifferentialTime};
pub use grid::{Grid, GridConfig};
pub use names::UnknownName;
pub use plan::{CyclePlan, CycleRule, HeaderLayer, IpVersion, PlanError};
pub use replay::Replay;
pub use send_compare::SendCompare;
pub use send_sleep::{Deficit, SendSleep};
pub use strategy::{Strategy, StrategyOptions};
pub use unpaced::Unpaced;

use giusto_units::{DataSize, TimeDelta, Timestamp};

/// What a schedule asks its driver to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Send the datagrams of one cycle back to back, then call [`Schedule::on_sent`].
    Send(Cycle),
    /// Sleep for a span from now, then call [`Schedule::on_woke`]. What a sleep overshoots is lost, unless the schedule makes
    /// up for it.
    SleepFor(TimeDelta),
    /// Sleep until a moment, then call [`Schedule::on_woke`]. What a sleep overshoots does not move the next one.
    SleepUntil(Timestamp),
    /// Ask again at once: the schedule watches the clock.
    LookAgain,
    /// Nothing will be sent any more.
    Done,
}

/// The datagrams that leave together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// How many datagrams, at least one.
    pub packets: u32,
    /// When an ideal sender at this rate would send them. The actual time less this is the schedule error.
    pub due: Timestamp,
}

/// A transmit loop without clock or socket.
///
/// The order of calls is `next`, then what the step asks for, then `on_sent` or `on_woke`, then `next` again. Calls in
/// any other order are safe, and a second `next` before `on_sent` asks for the same cycle again. Time that runs backwards
/// counts as no time. Every call takes constant time.
///
/// Once the moment of a [`Step::SleepUntil`] has come, or the span of a [`Step::SleepFor`] has passed, `next` does not ask
/// for the same sleep again.
pub trait Schedule: Send + std::fmt::Debug {
    /// What to do now.
    fn next(&mut self, now: Timestamp) -> Step;

    /// The cycle asked for has been sent: `size` is its total, header layers included as the plan counts them.
    ///
    /// A size of zero says that nothing could be sent.
    fn on_sent(&mut self, now: Timestamp, size: DataSize);

    /// The sleep asked for is over.
    fn on_woke(&mut self, now: Timestamp);

    /// The cycle asked for found no data when it was asked for at `since`; its data came at `now`, and it is sent now.
    ///
    /// Called between the [`Step::Send`] and [`on_sent`](Self::on_sent), if at all. A schedule that does nothing about it takes
    /// the wait for a slow send. [`Grid`] does so on purpose: its [`CatchUp`] rule says what becomes of cycles that are late,
    /// for whatever cause, and [`CatchUp::Reanchor`] begins anew after a gap beyond the burst bound.
    fn on_starved(&mut self, since: Timestamp, now: Timestamp) {
        let _ = (since, now);
    }

    /// What was given up or made good to keep time.
    fn slips(&self) -> Slips {
        Slips::default()
    }
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn next(&mut self, now: Timestamp) -> Step {
        (**self).next(now)
    }

    fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        (**self).on_sent(now, size);
    }

    fn on_woke(&mut self, now: Timestamp) {
        (**self).on_woke(now);
    }

    fn on_starved(&mut self, since: Timestamp, now: Timestamp) {
        (**self).on_starved(since, now);
    }

    fn slips(&self) -> Slips {
        (**self).slips()
    }
}

/// What a schedule did about lateness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slips {
    /// Datagrams that were late beyond the burst bound and left in a catch-up burst.
    pub caught_up_packets: u64,
    /// Datagrams that were never sent because their time had passed.
    pub skipped_packets: u64,
    /// How often the schedule was moved to begin anew.
    pub reanchors: u64,
    /// How often a time was given that lies before an earlier one.
    pub clock_reversals: u64,
}
