//! A coarse machine: a clock that reads in steps, sleeps that end in steps, and sends that take time.
//!
//! It is the machine that a schedule runs on when it does not run on a real one. Its parts are pure functions of the time
//! ([`Machine::clock`], [`Machine::wake`], [`Machine::sent`]), for those who drive schedules themselves; [`Machine::run`]
//! drives one schedule through virtual time, all by itself.
//!
//! The paper cited throughout is Chiu, Kadansky, Provino and Wesley, "Experiences in Programming a Traffic Shaper", Sun
//! Microsystems Laboratories, SMLI TR-99-77, 1999.
//!
//! # Example
//!
//! ```
//! use giusto_pace::{CyclePlan, CycleRule, HeaderLayer, IpVersion, Strategy, StrategyOptions};
//! use giusto_units::{TimeDelta, Timestamp};
//! use giusto_sim::machine::{Data, Machine};
//!
//! // 500 B at 100,000 B/s: 2 ms of sending leave 3 ms to sleep, and that takes 10 ms.
//! let (rate, size) = ("800 kbit/s".parse()?, "500 B".parse()?);
//! let plan = CyclePlan::new(rate, size, HeaderLayer::Payload, IpVersion::V4, CycleRule::Given(1))?;
//! let mut schedule = Strategy::Dt0.build(&plan, StrategyOptions::default())?;
//!
//! let record = Machine::SUN_LABS.run(&mut *schedule, &Data::File { packets: 100 }, size, Timestamp::MAX);
//! assert_eq!(record.requested_sleep, TimeDelta::from_millis(152));
//! assert_eq!(record.actual_sleep, TimeDelta::from_millis(500));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod model;
mod run;

pub use model::{Machine, SleepModel, Stall};
pub use run::{Data, Departure, Record};
