//! Loss-based part of Google Congestion Control.
//!
//! Algorithms that do not depend on each other or on the delay controller, except that the first two receive
//! the delay-based rate:
//!
//! | part | module | input |
//! |---|---|---|
//! | a threshold rule, one step per report | [`by_report`] | the loss ratio |
//! | a model of the path, fitted to the fate of each packet | [`model`] | every packet |
//! | losses from a queue that stays full (ours) | [`standing`] | every packet |
//!
//! # Sources
//!
//! - "the draft": Holmer, Lundin, Carlucci, De Cicco and Mascolo, "A Google Congestion Control Algorithm for Real-Time
//!   Communication", draft-ietf-rmcat-gcc-02, July 2016.
//! - "libwebrtc": its `modules/congestion_controller/goog_cc` in July 2026 (signalapp/webrtc at `bd635df`),
//!   cited by file name. The text is our own description; differences are stated.

mod by_report;
mod model;
mod standing;

pub(crate) use by_report::ByReport;
pub use by_report::{Increase, ReportConfig};
pub use model::{InvalidConfig, Measure, ModelConfig};
pub(crate) use model::{LossModel, LossState};
pub(crate) use standing::StandingQueue;
pub use standing::StandingQueueConfig;
