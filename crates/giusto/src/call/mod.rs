//! Calls: an adaptive media session over real UDP, with the encoders, the controllers and the record of the simulator.
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | the media of a call: from flags, from a scenario, from an offer |
//! | [`side`] | the media of one end, recorded as the simulator records them |
//! | [`record`] | the record of one end |
//! | [`run`] | the caller and the listener over a socket |
//! | `browser` | calls to a browser, with the feature `browser` |

#[cfg(feature = "browser")]
pub mod browser;
pub mod plan;
pub mod record;
pub mod run;
pub mod side;

pub use plan::{CallPlan, Direction, Encoder, MediaPlan, PlanError, Repair};
pub use record::{CallFigures, CallRecord};
pub use run::{CallRunError, CallSettings, Caller, Listener, Live, LiveSide};
