//! How lost packets are repaired: what a sender and a receiver do.

use giusto_units::TimeDelta;

/// The default time from the capture of a frame until it is too late to be played: 400 ms, the limit of one-way delay
/// in ITU-T G.114 §4.
pub const PLAYOUT_DEADLINE: TimeDelta = TimeDelta::from_millis(400);

giusto_units::defaults! {
    /// How the lost packets of a stream are repaired by its sender.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct StreamRepair {
        /// SSRC and payload type of the retransmissions (RFC 4588 §4). `None`: NACKs are ignored. Default `None`.
        pub rtx: Option<(u32, u8)> = None,
        /// Parity packets (RFC 8627). They are larger than the packets that they protect, by at most 28 bytes. Default `None`.
        pub parity: Option<ParityStream> = None,
        /// Repair packets are not sent later than this after their frame was pushed, because they would come too late.
        /// Default [`PLAYOUT_DEADLINE`].
        pub deadline: TimeDelta = PLAYOUT_DEADLINE,
    }
}

/// The parity packets of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParityStream {
    /// Their SSRC.
    pub ssrc: u32,
    /// Their payload type.
    pub payload_type: u8,
    /// How many there are.
    pub ratio: ParityRatio,
}

/// Parity packets per media packet; at most 0.5.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum ParityRatio {
    /// This many.
    Fixed(f64),
    /// Twice the loss ratio of the receiver reports (RFC 3550 §6.4.1), smoothed with a gain of 1/4. Chosen by us.
    Loss,
}

/// How a receiver has lost packets repaired.
///
/// A stream is repaired if [`MediaReceiverConfig::payloads`](super::MediaReceiverConfig::payloads) has a format for the
/// [retransmissions](super::Framing::Retransmission) of its payload type. Parity is used wherever a packet with a format of
/// [parity](super::Framing::Parity) arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepairConfig {
    /// Request lost packets with generic NACKs (RFC 4585 §6.2.1). Default `false`.
    pub nack: bool,
    /// The message that requests a key frame when a packet of a video cannot be repaired in time, or is not repaired at all. Default:
    /// none.
    pub key_frames: KeyFrameRequest,
}

/// The message with which a receiver requests a key frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum KeyFrameRequest {
    /// Requests none.
    #[default]
    None,
    /// Picture loss indication (RFC 4585 §6.3.1).
    PictureLoss,
    /// Full intra request (RFC 5104 §4.3.1).
    FullIntra,
}

/// The kind of a repair packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairKind {
    /// A packet that was sent before (RFC 4588).
    Retransmission,
    /// Parity of several packets (RFC 8627).
    Parity,
}
