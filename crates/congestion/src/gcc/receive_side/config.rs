//! What is settable of the receive side.

use giusto_units::{DataRate, TimeDelta};

use crate::gcc::{delay::DelayConfig, rate::AimdConfig};

/// What is settable of [`ReceiveSide`](super::ReceiveSide).
///
/// "libwebrtc" is `remote_bitrate_estimator_abs_send_time.cc` with `aimd_rate_control.cc`, and `remb_throttler.cc` for what is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceiveSideConfig {
    /// How the delay is read.
    pub delay: DelayConfig,
    /// How the rate moves.
    pub aimd: AimdConfig,
    /// Where the estimate begins; `None`: there is none until a probe, an over-use or what arrives gives one. libwebrtc none.
    pub start: Option<DataRate>,
    /// What arrives is measured over so long, 1 ms to 60 s. libwebrtc 1 s; draft-ietf-rmcat-gcc-02 §5.5 0.5 to 1 s.
    pub rate_window: TimeDelta,
    /// Without another cause, what arrives becomes the first estimate after so long. libwebrtc 5 s.
    pub learning_time: TimeDelta,
    /// Packets that come in pace are taken for probes for so long from the first one on; `None`: never. libwebrtc 2 s.
    pub probing_time: Option<TimeDelta>,
    /// The estimate is looked at as often as messages of 80 bytes take this share of it. libwebrtc 0.05.
    pub feedback_share: f64,
    /// But at least so long after the last time. libwebrtc 200 ms.
    pub least_interval: TimeDelta,
    /// And no longer than this. libwebrtc 1 s.
    pub most_interval: TimeDelta,
    /// A changed estimate is told so long after the last one. libwebrtc 200 ms.
    pub least_told: TimeDelta,
    /// An estimate is told at once if the last one is so many times as high or more. libwebrtc 1.03.
    pub fallen: f64,
    /// Even one that has not changed is told so often. draft-ietf-rmcat-gcc-02 §4: "at least once per second".
    pub most_told: TimeDelta,
}

impl ReceiveSideConfig {
    /// As libwebrtc has it.
    pub fn libwebrtc() -> Self {
        Self {
            delay: DelayConfig::receive_side(),
            aimd: AimdConfig::libwebrtc(),
            start: None,
            rate_window: TimeDelta::from_seconds(1),
            learning_time: TimeDelta::from_seconds(5),
            probing_time: Some(TimeDelta::from_seconds(2)),
            feedback_share: 0.05,
            least_interval: TimeDelta::from_millis(200),
            most_interval: TimeDelta::from_seconds(1),
            least_told: TimeDelta::from_millis(200),
            fallen: 1.03,
            most_told: TimeDelta::from_seconds(1),
        }
    }
}

impl Default for ReceiveSideConfig {
    fn default() -> Self {
        Self::libwebrtc()
    }
}
