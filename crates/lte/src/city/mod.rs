//! A city in operation: people arrive, call, move and leave.
//!
//! [`City`] ties the radio to the traffic: it carries the packets of agents across the core network and the radio, and
//! advances time. The agents are those of `giusto-sim`.

mod air;
mod board;
mod config;
mod crew;
mod ends;
mod measures;
mod people;
mod run;

pub use config::{CityConfig, CityError, FileTransfers, Opposite, RADIO_ROUND_TRIP};
pub use crew::{Alone, Crew};
pub use measures::{CallMeasures, CityFigures, RadioFigures, percentile};
pub use people::{Call, CallPlan, CallTotals, Person, Workload};
pub(crate) use run::environment;
pub use run::{City, CityCounters};
