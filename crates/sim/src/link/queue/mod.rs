//! Queues: which packet waits, which is marked, which is dropped, which leaves next.
//!
//! A queue holds packets that wait for the transmitter of its link. What the transmitter has taken, and what is on its way,
//! is no longer in the queue.
//!
//! | law | acts on | signals at | source |
//! |---|---|---|---|
//! | [`DropTail`] | fill | arrival | – |
//! | [`StepMark`] | sojourn, or fill | departure, or arrival | Alizadeh et al. 2010; RFC 9332 Appendix A |
//! | [`Red`] | averaged fill | arrival | Floyd & Jacobson 1993 |
//! | [`CoDel`] | smallest sojourn of an interval | departure | RFC 8289 |
//! | [`FqCodel`] | the same, for each flow | departure | RFC 8290 |
//! | [`Pie`] | queuing delay and its trend | arrival | RFC 8033 |
//! | [`DualPi2`] | the same, coupled with a low-latency queue | departure | RFC 9332 |
//!
//! Each law takes a plain configuration with a `Default`, and checks it once: [`QueueError`] says what is wrong with it.

mod codel;
mod drop_tail;
mod dual_pi2;
mod error;
mod fifo;
mod fq_codel;
mod law;
mod pie;
mod red;
mod step_mark;

pub use codel::{CoDel, CoDelConfig};
pub use drop_tail::{DropTail, Limit};
pub use dual_pi2::{DualPi2, DualPi2Config, Scheduler};
pub use error::QueueError;
pub use fq_codel::{FqCodel, FqCodelConfig};
pub use law::Queue;
pub use pie::{LatencyEstimate, Pie, PieConfig};
pub use red::{Red, RedConfig, Thresholds};
pub use step_mark::{MarkThreshold, StepMark, StepMarkConfig};

#[cfg(test)]
mod closed_loop;
#[cfg(test)]
mod tests;
