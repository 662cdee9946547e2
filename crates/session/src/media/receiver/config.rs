//! Configuration of the receiving half, and which packets it repairs.

use giusto_congestion::{FeedbackKind, gcc::receive_side};
use giusto_units::{DataRate, DataSize, TimeDelta};

use super::losses::Requests;
use crate::media::{
    extensions::ExtensionIds,
    format::{Framing, PayloadFormat},
    repair_settings::{KeyFrameRequest, PLAYOUT_DEADLINE, RepairConfig},
};

giusto_units::defaults! {
    /// Configuration of a [`MediaReceiver`](super::MediaReceiver).
    #[derive(Debug, Clone, PartialEq)]
    pub struct MediaReceiverConfig {
        /// Its own SSRC, for its reports.
        pub ssrc: u32 = ssrc,
        /// Its name (RFC 3550 §6.5.1). Bytes beyond 255 are cut off.
        pub cname: String = cname.to_owned(),
        /// The feedback that it sends to the sender's controller.
        pub feedback: FeedbackKind = feedback,
        /// Configuration of its estimate, with [`FeedbackKind::ReceiverEstimate`].
        pub receive_side: receive_side::Config = receive_side::Config::default(),
        /// Its estimate is reported as at most this. Default `None`: as it is.
        pub max_estimate: Option<DataRate> = None,
        /// With [`FeedbackKind::ScreamDraft`]: while more than this was received in the last second, headers
        /// included, it requests a lower rate (the Q bit of draft-johansson-rmcat-scream-cc-00 §3). Default
        /// `None`: never. In the draft the bit is for a receiver that balances many hosts, with an "exact
        /// behavior" to be determined; this rule is ours.
        pub quench_above: Option<DataRate> = None,
        /// Interval of its receiver reports; at least 10 ms. Default 1 s, as libwebrtc does for video. The first
        /// report is sent after half of it (RFC 3550 §6.2). Unlike there, it is not randomised.
        pub report_interval: TimeDelta = TimeDelta::from_seconds(1),
        /// Header bytes below RTP that count towards the rates, as at the sender: 28 for UDP over IPv4. Default 28.
        pub overhead: DataSize = DataSize::from_bytes(28),
        /// The known payload types. Packets of others are treated as video. Default: none.
        pub payloads: Vec<PayloadFormat> = Vec::new(),
        /// Repair of lost packets. Default: none.
        pub repair: RepairConfig = RepairConfig::default(),
        /// A frame is late if it becomes complete later than this after the time at which the fastest frame of the last 30 to 60
        /// s would have been. No repair is requested that would come later. Default [`PLAYOUT_DEADLINE`].
        pub playout_deadline: TimeDelta = PLAYOUT_DEADLINE,
        /// The identifiers of the header extensions of its sender. Default: those of this session.
        pub extension_ids: ExtensionIds = ExtensionIds::default(),
        /// Whether the first packet of a stream is numbered by its timestamp, as ours are: the packets that are missing before it are known
        /// then. Other senders begin with a random number (RFC 3550 §5.1). Default `true`.
        pub numbers_from_timestamp: bool = true,
    }
    /// The default settings.
    pub fn new(ssrc: u32, cname: &str, feedback: FeedbackKind);
}

impl MediaReceiverConfig {
    /// Whether missing packets are of interest: they may be repaired, or need a key frame.
    pub(super) fn tracks_losses(&self) -> bool {
        let has_parity = self.payloads.iter().any(|format| format.framing == Framing::Parity);
        self.repair.nack || has_parity || self.repair.key_frames != KeyFrameRequest::None
    }

    /// What may bring missing packets of this type; `None` if they are of no interest.
    pub(super) fn requests(&self, payload_type: u8) -> Option<Requests> {
        let is_rtx = |format: &PayloadFormat| format.framing == Framing::Retransmission { of: payload_type };
        if self.repair.nack && self.payloads.iter().any(is_rtx) {
            return Some(if self.uses_parity(payload_type) { Requests::Both } else { Requests::On });
        }
        if self.uses_parity(payload_type) {
            return Some(Requests::Off);
        }
        let needs_key_frames = self.repair.key_frames != KeyFrameRequest::None;
        let is_video = self.format(payload_type).framing == Framing::Marker;
        (needs_key_frames && is_video).then_some(Requests::Useless)
    }

    /// Whether packets of this type are recovered from parity: parity may arrive, and they are frames.
    pub(super) fn uses_parity(&self, payload_type: u8) -> bool {
        let has_parity = self.payloads.iter().any(|format| format.framing == Framing::Parity);
        has_parity && matches!(self.format(payload_type).framing, Framing::Marker | Framing::Packet)
    }

    pub(super) fn format(&self, payload_type: u8) -> PayloadFormat {
        let unknown = PayloadFormat { clock_rate: None, ..PayloadFormat::video(payload_type) };
        *self.payloads.iter().find(|format| format.payload_type == payload_type).unwrap_or(&unknown)
    }
}
