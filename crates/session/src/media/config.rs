//! How a sender sends.

use giusto_congestion::{FeedbackKind, PacerSettings};
use giusto_pace::media::PacerConfig;
use giusto_units::{DataSize, Ecn, TimeDelta};

/// How a sender sends.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaSenderConfig {
    /// Its name (RFC 3550 §6.5.1).
    pub cname: String,
    /// What the far end reports to it, which says which header extension its packets carry.
    pub feedback: FeedbackKind,
    /// How its packets are paced.
    pub pacer: PacerConfig,
    /// Header bytes below RTP that count towards the rates. Default 28, UDP over IPv4.
    pub overhead: DataSize,
    /// The ECN codepoint of its packets. Default Not-ECT.
    pub ecn: Ecn,
    /// The source and the payload type of padding, which fills probes. Default: [`PADDING_SSRC`], [`PADDING_TYPE`].
    pub padding: (u32, u8),
    /// What waits leaves faster than the target if it would wait longer than this on average. Default 2 s, as in libwebrtc
    /// (`pacing_controller.cc`, `kMaxExpectedQueueLength`); `None`: it waits.
    pub queue_limit: Option<TimeDelta>,
    /// What has waited for longer than this is thrown away, and its source told so, whatever its stream says of itself
    /// ([`MediaStream::discard_after`](super::MediaStream::discard_after)). Default 10 s, ours: only a window that does not open,
    /// or nobody who sends, can make anything wait for so long.
    pub discard_after: TimeDelta,
    /// How often it sends sender reports; at least 10 ms. Default 1 s, as libwebrtc does for video.
    pub report_interval: TimeDelta,
}

impl Default for MediaSenderConfig {
    fn default() -> Self {
        Self {
            cname: "giusto".to_owned(),
            feedback: FeedbackKind::TransportWide,
            pacer: PacerConfig::libwebrtc(),
            overhead: DataSize::from_bytes(28),
            ecn: Ecn::NotEct,
            padding: (PADDING_SSRC, PADDING_TYPE),
            queue_limit: Some(TimeDelta::from_seconds(2)),
            discard_after: TimeDelta::from_seconds(10),
            report_interval: TimeDelta::from_seconds(1),
        }
    }
}

/// The pacer that a controller's `settings` ask for; the other constants are libwebrtc's.
pub const fn pacer_config(settings: PacerSettings) -> PacerConfig {
    PacerConfig { burst: settings.burst, ..PacerConfig::libwebrtc() }
}

/// The source of padding, where none is given.
pub const PADDING_SSRC: u32 = 0x7061_6464;
/// The payload type of padding, where none is given: dynamic (RFC 3551 §6).
pub const PADDING_TYPE: u8 = 97;
