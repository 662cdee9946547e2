//! A scenario's links in real time: any program's packets cross them.
//!
//! A [`LinkPlan`] is the part of a scenario that counts: its links, with their queues, random numbers and timed changes, and the two
//! ends. Its flows are not sent. [`relay`] passes UDP datagrams across the links, [`command`] everything that a program sends.
//! The result is a record as of a simulated run, with the lateness of the packets.

mod command;
mod live;
mod plan;
mod relay;

pub use command::{CommandOptions, command};
pub use live::{CommandStatus, LinkError, LinkEvent, LinkOptions, LinkRun, LinkState, LiveLinks};
pub use plan::{Ends, LinkPlan, LinkPlanError};
pub use relay::relay;
