//! Queue disciplines: tail drop and active queue management (AQM).
//!
//! A queue holds the packets that have not yet begun transmission. A packet that is being transmitted or propagated is no
//! longer in the queue.
//!
//! | discipline | input | signals on | source |
//! |---|---|---|---|
//! | [`DropTail`] | queue length | arrival | – |
//! | [`StepMark`] | sojourn time or queue length | departure or arrival | Alizadeh et al. 2010; RFC 9332 Appendix A |
//! | [`DelayThreshold`] | sojourn time, with a hold-off | departure | after Sågfors et al. 2003 |
//! | [`Policer`] | tokens | arrival | Flach et al. 2016 |
//! | [`Red`] | average queue length | arrival | Floyd & Jacobson 1993 |
//! | [`CoDel`] | minimum sojourn time in an interval | departure | RFC 8289 |
//! | [`FqCodel`] | as [`CoDel`], for each flow | departure | RFC 8290 |
//! | [`Pie`] | queueing delay and its trend | arrival | RFC 8033 |
//! | [`DualPi2`] | as PIE, coupled with a low-latency queue | departure | RFC 9332 |
//!
//! Each discipline has a plain configuration struct, a [`Discipline`], which is validated once; [`QueueError`] names an invalid field.
//! A discipline of one FIFO implements only its `Law`: what it does with the packets that arrive and leave.

mod codel;
mod delay_threshold;
mod discipline;
mod drop_tail;
mod dual_pi2;
mod error;
mod fifo;
mod fq_codel;
mod limit;
mod pie;
mod policer;
mod prelude;
mod red;
mod step_mark;

#[cfg(test)]
mod closed_loop;
#[cfg(test)]
mod tests;

pub use codel::{CoDel, CoDelConfig};
pub use delay_threshold::{DelayThreshold, DelayThresholdConfig};
pub use discipline::{Discipline, Queue};
pub use drop_tail::DropTail;
pub use dual_pi2::{DualPi2, DualPi2Config, Scheduler};
pub use error::QueueError;
pub use fq_codel::{FqCodel, FqCodelConfig};
pub use limit::Limit;
pub use pie::{LatencyEstimate, Pie, PieConfig};
pub use policer::{Policer, PolicerConfig};
pub use red::{Red, RedConfig, Thresholds};
pub use step_mark::{MarkThreshold, StepMark, StepMarkConfig};
