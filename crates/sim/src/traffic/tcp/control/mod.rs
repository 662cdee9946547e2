//! Congestion control of the TCP sender.

mod algorithm;
mod cubic;
mod hystart;
mod interface;
mod new_reno;
mod slow_start;

pub use algorithm::Algorithm;
pub use cubic::Cubic;
pub(super) use hystart::SEGMENTS_PER_ACK as SEGMENTS_PER_ACK_WITH_HYSTART;
pub use interface::{Acknowledgment, CongestionControl, ConnectionStart};
pub use new_reno::NewReno;
