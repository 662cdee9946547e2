//! Delay-based part of Google Congestion Control: detects whether a queue grows.
//!
//! Packets are grouped. Two consecutive groups give a *delay variation*: the difference of their one-way
//! delays. A filter separates the trend from the noise, and a detector compares the trend with an adaptive
//! threshold.
//!
//! | part | module | source |
//! |---|---|---|
//! | grouping of packets, and differences of groups | [`grouping`] | draft-ietf-rmcat-gcc-02 §5.1, §5.2; libwebrtc |
//! | filter: least squares over a window | [`trend_line`] | libwebrtc |
//! | filter: scalar Kalman | [`kalman`] | draft-ietf-rmcat-gcc-02 §5.3 |
//! | filter: Kalman of slope and offset | [`kalman_two_state`] | libwebrtc, receive side |
//! | threshold and signal | [`detector`] | draft-ietf-rmcat-gcc-02 §5.4; libwebrtc |
//! | all of them combined | [`estimator`] | |
//!
//! "libwebrtc" is its state of July 2026. Nothing here reads a clock, and nothing allocates once the windows
//! are full.

mod detector;
mod estimator;
mod filter;
mod grouping;
mod kalman;
mod kalman_two_state;
mod trend_line;

pub use detector::DetectorConfig;
pub(crate) use estimator::DelayEstimator;
pub use estimator::{DelayConfig, DelayConfigError, FilterConfig};
pub use grouping::GroupingConfig;
pub(crate) use grouping::ReceivedPacket;
pub use kalman::KalmanConfig;
pub use kalman_two_state::KalmanTwoStateConfig;
pub use trend_line::TrendLineConfig;

pub(in crate::gcc) use {
    detector::Detection,
    kalman::{LeastInterval, kept_share},
    kalman_two_state::Covariance,
};
#[cfg(feature = "thesis")]
pub(crate) use {detector::Detector, grouping::GroupDelta, kalman_two_state::KalmanTwoState};
