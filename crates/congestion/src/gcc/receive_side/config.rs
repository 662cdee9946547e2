//! Configuration of the receive side.

use giusto_units::{DataRate, TimeDelta};

use crate::gcc::{delay::DelayConfig, rate::AimdConfig};

giusto_units::defaults! {
    /// Configuration of [`ReceiveSide`](super::ReceiveSide).
    ///
    /// "libwebrtc" is `remote_bitrate_estimator_abs_send_time.cc` with `aimd_rate_control.cc`, and
    /// `remb_throttler.cc` for the sending of estimates.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct Config {
        /// The delay detector.
        pub delay: DelayConfig = DelayConfig::receive_side(),
        /// The rate control.
        pub aimd: AimdConfig = AimdConfig::libwebrtc(),
        /// Initial estimate; `None`: there is none until a probe, over-use or the received rate gives one.
        /// libwebrtc none.
        pub start: Option<DataRate> = None,
        /// Window of the received rate, 1 ms to 60 s. libwebrtc 1 s; draft-ietf-rmcat-gcc-02 §5.5 0.5 to 1 s.
        pub rate_window: TimeDelta = TimeDelta::from_seconds(1),
        /// Time after which the received rate becomes the first estimate, if there is no other. libwebrtc 5 s.
        pub learning_time: TimeDelta = TimeDelta::from_seconds(5),
        /// Time from the first packet during which evenly paced packets count as probes; `None`: never. libwebrtc
        /// 2 s.
        pub probing_time: Option<TimeDelta> = Some(TimeDelta::from_seconds(2)),
        /// The estimate is updated at the interval at which messages of 80 bytes take this share of it. libwebrtc
        /// 0.05.
        pub feedback_share: f64 = 0.05,
        /// Minimum update interval. libwebrtc 200 ms.
        pub min_interval: TimeDelta = TimeDelta::from_millis(200),
        /// Maximum update interval. libwebrtc 1 s.
        pub max_interval: TimeDelta = TimeDelta::from_seconds(1),
        /// Minimum interval at which changed estimates are sent. libwebrtc 200 ms.
        pub min_send_interval: TimeDelta = TimeDelta::from_millis(200),
        /// An estimate is sent at once if the last one sent is at least this multiple of it. libwebrtc 1.03.
        pub fallen: f64 = 1.03,
        /// Maximum interval at which estimates are sent, even unchanged ones. draft-ietf-rmcat-gcc-02 §4: "at
        /// least once per second".
        pub max_send_interval: TimeDelta = TimeDelta::from_seconds(1),
        /// Whether the estimator is that of draft-alvestrand-rmcat-congestion-02 (February 2014), as of `gcc:rmcat-02`. It groups the packets of
        /// videos by frame, and has constants of its own: of the other fields here only the range of `aimd` and those of sending apply. Default
        /// `false`.
        pub rmcat_02: bool = false,
    }
}

impl Config {
    /// The constants of libwebrtc.
    pub fn libwebrtc() -> Self {
        Self::default()
    }

    /// draft-alvestrand-rmcat-congestion-02. The intervals are those of libwebrtc in April 2014 (`video_engine/vie_remb.cc`), the minimum
    /// that of its callers.
    pub(crate) fn rmcat_02() -> Self {
        Self {
            aimd: AimdConfig { min: DataRate::from_bps(30_000), ..AimdConfig::libwebrtc() },
            min_send_interval: TimeDelta::from_seconds(1),
            fallen: 1.0 / 0.97,
            rmcat_02: true,
            ..Self::libwebrtc()
        }
    }
}
