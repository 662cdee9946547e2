//! What do losses allow?
//!
//! Two answers, neither of which knows of the other or of the delay controller, except that each is told what the delay allows:
//!
//! | part | module | hears |
//! |---|---|---|
//! | a threshold rule, one step a report | [`by_report`] | the share of packets that was lost |
//! | a model of the path, fitted to what became of each packet | [`model`] | every packet |
//!
//! # Sources
//!
//! - "the draft": Holmer, Lundin, Carlucci, De Cicco and Mascolo, "A Google Congestion Control Algorithm for Real-Time
//!   Communication", draft-ietf-rmcat-gcc-02, July 2016.
//! - "libwebrtc": its `modules/congestion_controller/goog_cc` in July 2026 (signalapp/webrtc at `bd635df`), by file name.
//!   What it does is told here in our own words; where we differ, it is said.

pub mod by_report;
pub mod model;

pub use by_report::{ByReport, Increase, ReportConfig};
pub use model::{InvalidConfig, LossEstimate, LossModel, LossState, Measure, ModelConfig};
