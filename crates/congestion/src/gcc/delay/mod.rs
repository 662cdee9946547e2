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

pub mod detector;
pub mod estimator;
mod filter;
pub mod grouping;
pub mod kalman;
pub mod kalman_two_state;
pub mod trend_line;

pub use detector::{Detection, Detector, DetectorConfig};
pub use estimator::{DelayConfig, DelayConfigError, DelayEstimator, FilterConfig};
pub use filter::FilterOutput;
pub use grouping::{GroupDelta, Grouped, Grouping, GroupingConfig, ReceivedPacket, Reset};
pub use kalman::{Kalman, KalmanConfig};
pub use kalman_two_state::{KalmanTwoState, KalmanTwoStateConfig};
pub use trend_line::{TrendLine, TrendLineConfig};
