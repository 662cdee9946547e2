//! Configuration of a sender.

use giusto_congestion::{FeedbackKind, PacerSettings};
use giusto_pace::media::PacerConfig;
use giusto_units::{DataSize, Ecn, TimeDelta};

use super::extensions::ExtensionIds;

giusto_units::defaults! {
    /// Configuration of a [`MediaSender`](super::MediaSender).
    #[derive(Debug, Clone, PartialEq)]
    pub struct MediaSenderConfig {
        /// Its canonical name, CNAME (RFC 3550 §6.5.1). Default "giusto".
        pub cname: String = "giusto".to_owned(),
        /// The feedback that the remote end sends, which determines the header extension of packets. Default:
        /// transport-wide.
        pub feedback: FeedbackKind = FeedbackKind::TransportWide,
        /// Configuration of its pacer. Default: that of libwebrtc.
        pub pacer: PacerConfig = PacerConfig::libwebrtc(),
        /// Header bytes below RTP that count towards the rates. Default 28, UDP over IPv4.
        pub overhead: DataSize = DataSize::from_bytes(28),
        /// The ECN codepoint of its packets. Default Not-ECT.
        pub ecn: Ecn = Ecn::NotEct,
        /// The SSRC and the payload type of padding, which fills probes. If the SSRC is that of a retransmission stream, padding is part
        /// of that stream, with its payload type. Default: [`PADDING_SSRC`], [`PADDING_TYPE`].
        pub padding: (u32, u8) = (PADDING_SSRC, PADDING_TYPE),
        /// The largest padding payload. Default 1200 B, that of a full packet, as in libwebrtc when padding repeats media. A padding
        /// packet of RFC 3550 §5.1 has at most 255 B.
        pub max_padding: DataSize = DataSize::from_bytes(1200),
        /// The identifiers of the header extensions. Default: those of this session.
        pub extension_ids: ExtensionIds = ExtensionIds::default(),
        /// Queues are drained faster than the target if the mean queueing delay would exceed this. Default 2 s,
        /// as in libwebrtc (`pacing_controller.cc`, `kMaxExpectedQueueLength`); `None`: never.
        pub queue_limit: Option<TimeDelta> = Some(TimeDelta::from_seconds(2)),
        /// Maximum queueing delay of a packet, whatever
        /// [`MediaStream::discard_after`](super::MediaStream::discard_after) says; older packets are discarded.
        /// Default 10 s, chosen by us: a packet is delayed that long only if the window stays closed, or if the
        /// caller makes no calls.
        pub discard_after: TimeDelta = TimeDelta::from_seconds(10),
        /// The interval of its sender reports; at least 10 ms. Default 1 s, as libwebrtc does for video.
        pub report_interval: TimeDelta = TimeDelta::from_seconds(1),
    }
}

/// The pacer configuration for a controller's `settings`; all other values are those of libwebrtc.
pub fn pacer_config(settings: PacerSettings) -> PacerConfig {
    PacerConfig::libwebrtc().with_burst(settings.burst)
}

/// The default SSRC of padding.
pub const PADDING_SSRC: u32 = 0x7061_6464;
/// The default payload type of padding: dynamic (RFC 3551 §6).
pub const PADDING_TYPE: u8 = 97;
