//! Congestion control of the TCP sender.

mod algorithm;
mod bbr;
mod cubic;
mod hystart;
mod interface;
mod new_reno;
mod prague;
mod slow_start;

pub use algorithm::Algorithm;
pub use bbr::Bbr;
pub use cubic::Cubic;
pub(super) use hystart::SEGMENTS_PER_ACK as SEGMENTS_PER_ACK_WITH_HYSTART;
pub use interface::{Acknowledgment, CongestionControl, ConnectionStart, Feedback, Lost, RateSample};
pub use new_reno::NewReno;
pub use prague::Prague;
