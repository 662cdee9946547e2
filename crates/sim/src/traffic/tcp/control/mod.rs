//! Congestion control of the TCP sender.

mod algorithm;
mod contract;
mod cubic;
mod hystart;
mod new_reno;
mod slow_start;

pub use algorithm::Algorithm;
pub use contract::{Acknowledgment, CongestionControl, ConnectionStart};
pub use cubic::Cubic;
pub(super) use hystart::SEGMENTS_PER_ACK as SEGMENTS_PER_ACK_WITH_HYSTART;
pub use new_reno::NewReno;
