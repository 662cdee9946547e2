//! Simulation of a transmit schedule on a machine with a coarse clock, coarse sleeps and processing times, or with other threads.
//!
//! [`Machine`] is the timing model of an old machine. [`Machine::run`] runs one schedule on it in virtual time. [`SharedMachine`] is
//! a modern machine that other threads load; on it a schedule runs together with the decisions when to wake.
//!
//! "The paper" is Chiu, Kadansky, Provino and Wesley, "Experiences in Programming a Traffic Shaper", Sun Microsystems
//! Laboratories, SMLI TR-99-77, 1999.
//!
//! # Example
//!
//! ```
//! use giusto_pace::{CyclePlan, CycleRule, HeaderLayer, IpVersion, Strategy, StrategyOptions};
//! use giusto_units::{TimeDelta, Timestamp};
//! use giusto_sim::machine::{Data, Machine};
//!
//! // 500 B at 100,000 B/s: after 2 ms of sending, a sleep of 3 ms is due, which takes 10 ms.
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
mod shared;

pub use model::{Machine, SleepModel, Stall};
pub use run::{Data, Departure, Record};
pub use shared::{SharedMachine, SharedRecord};
