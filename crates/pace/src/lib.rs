#![doc = include_str!("../README.md")]
//!
//! # Schedules
//!
//! A [`Schedule`] is a transmit loop as a state machine. Its driver asks for the [`next`](Schedule::next)
//! [`Step`], executes it, and reports the result. The driver may be a thread with a socket, or a simulation.
//!
//! A [`CyclePlan`] converts a rate and a datagram size to cycles: a number of datagrams that are sent
//! together, once per period. A [`Strategy`] is a schedule by name:
//!
//! | strategy | schedule | waits by | after a delay |
//! |---|---|---|---|
//! | `grid` | [`Grid`] | sleeping until | catches up, skips or re-anchors, within a burst bound |
//! | `send-compare` | [`SendCompare`] | spinning | sends all late cycles at once |
//! | `send-sleep` | [`SendSleep`] | sleeping for | loses the time |
//! | `send-sleep-deficit` | [`SendSleep`] | sleeping for | compensates slow sends |
//! | `send-sleep-oversleep` | [`SendSleep`] | sleeping for | compensates slow sends and oversleeps |
//! | `unpaced` | [`Unpaced`] | nothing | |
//! | `dt0` | [`DifferentialTime`] | sleeping for | shortens the next sleep, and loses the rest |
//! | `dt1` | [`DifferentialTime`] | sleeping for | compensates oversleeps |
//! | `dt2` | [`DifferentialTime`] | sleeping for | compensates slow sends, oversleeps and gaps in the data |
//! | `dt2-live` | [`DifferentialTime`] | sleeping for | the same, but restarts after a gap in the data |
//! | `at0` | [`AbsoluteTime`] | sleeping for | sends all late cycles at once |
//! | `at1` | [`AbsoluteTime`] | sleeping for | the same, but restarts after a gap in the data |
//!
//! Two schedules wrap any other: [`BurstLimit`] limits the rate of its bursts, [`Bounded`] ends it.
//!
//! A thread that sleeps until the time of a [`Step::SleepUntil`] wakes late. A [`WakePlanner`] learns how late, and says when to wake
//! and how long to spin.
//!
//! # Sources
//!
//! The documentation cites these by title:
//!
//! - "Constant Bit Rate Transmission - An Adaptive Send and Sleep Approach": the README of the Firebind transmitter
//!   (`scancmdr/constant-bitrate-transmitter`);
//! - "Constant Bit Rate Streaming - Practical Implementations": the Firebind blog;
//! - Chiu, Kadansky, Provino and Wesley, "Experiences in Programming a Traffic Shaper", Sun Microsystems Laboratories,
//!   SMLI TR-99-77, 1999.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod absolute;
mod bounded;
mod burst_limit;
mod catch_up;
mod differential;
mod grid;
mod ideal;
mod layer;
pub mod media;
mod plan;
mod replay;
mod schedule;
mod send_compare;
mod send_sleep;
mod strategy;
#[cfg(test)]
mod tests;
mod unpaced;
#[cfg(test)]
mod virtual_driver;
mod wake;

pub use giusto_units::UnknownName;

pub use absolute::{AbsoluteTime, SessionRule};
pub use bounded::{Bounded, Limits};
pub use burst_limit::BurstLimit;
pub use catch_up::{BurstBound, BurstBoundError, CatchUp};
pub use differential::{DifferentialRule, DifferentialTime};
pub use grid::{Grid, GridConfig};
pub use layer::{HeaderLayer, IpVersion};
pub use plan::{CyclePlan, CycleRule, PlanError};
pub use replay::Replay;
pub use schedule::{Cycle, LateCycles, Schedule, Step};
pub use send_compare::SendCompare;
pub use send_sleep::{Deficit, SendSleep};
pub use strategy::{Strategy, StrategyOptions};
pub use unpaced::Unpaced;
pub use wake::{SleepMode, Wake, WakeConfig, WakePlanner};
