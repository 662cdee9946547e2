//! The wire format: the header of a measured datagram, and control messages.
//!
//! Every giusto datagram begins with the bytes `giu` and a kind. The first byte is outside the ranges of
//! STUN, TURN, DTLS and RTP (RFC 7983 §7), so all can share a port.
//!
//! ```text
//!    0                   1                   2                   3
//!    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!   +---------------+---------------+---------------+---------------+
//!   |      'g'      |      'i'      |      'u'      |  0x20 (data)  |
//!   +---------------+---------------+---------------+---------------+
//!   |                         token (64 bit)                        |
//!   +---------------------------------------------------------------+
//!   |                        sequence (64 bit)                      |
//!   +---------------------------------------------------------------+
//!   |      scheduled send time (64 bit, ns on the sender's clock)   |
//!   +---------------------------------------------------------------+
//!   |        actual send time (64 bit, ns on the sender's clock)    |
//!   +---------------------------------------------------------------+
//!   |           CRC-32C of the bytes before (RFC 9260 §A)            |
//!   +---------------------------------------------------------------+
//!   |                            filler ...                         |
//! ```
//!
//! All integers are big-endian. Control messages (kind `0x21`) are the CRC-32C of all that follows (4 bytes), a [`Message`] in
//! postcard's encoding, and padding. The checksums find damage that the checksum of UDP misses; they stop no attacker.

use std::fmt;

use giusto_measure::{ClockEstimate, Quantiles, StreamSummary, mos::VoiceQuality, playout::PlayoutSummary};
use giusto_pace::{HeaderLayer, Strategy};
use giusto_rtp::voice::VoiceProfile;
use giusto_units::{DataSize, TimeDelta};
use serde::{Deserialize, Serialize};

/// Bytes that a measured datagram of ours needs at the least.
pub const DATA_HEADER_BYTES: usize = 40;

/// The size to which [`Message::Hello`] and [`Message::Open`] are padded: larger than every answer to them.
pub const OPENING_BYTES: usize = 256;

/// The size to which [`Message::Finish`] is padded, so that the final report is never longer.
pub const FINISH_BYTES: usize = 1100;

/// Maximum size of a control message, padding included.
pub const MAX_MESSAGE_BYTES: usize = 1200;

/// The bytes of a control message before the encoded [`Message`].
const CONTROL_HEADER_BYTES: usize = 8;

const MAGIC: [u8; 3] = *b"giu";
const DATA: u8 = 0x20;
const CONTROL: u8 = 0x21;

/// Error of parsing a giusto datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// It does not begin with the giusto prefix.
    #[error("not a giusto datagram")]
    Foreign,
    /// It begins with the prefix but is truncated or invalid.
    #[error("a truncated or garbled giusto datagram")]
    Malformed,
    /// Its bytes do not match their checksum.
    #[error("a corrupted giusto datagram: its bytes do not match their checksum")]
    Corrupt,
    /// It is of a version that this program does not speak.
    #[error("giusto wire version {0}; this program speaks version 2: use the same release at both ends")]
    Version(u8),
}

/// Identifies a stream; known only to the receiver and to the holder of the stream's verified address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamToken(pub u64);

/// The kind of a datagram, according to its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A measured datagram.
    Data,
    /// A [`Message`].
    Control,
}

/// The kind of `datagram`, according to its first bytes.
///
/// # Errors
///
/// [`WireError`] if it is not a giusto datagram, or of another version.
pub fn kind(datagram: &[u8]) -> Result<Kind, WireError> {
    match datagram {
        [a, b, c, DATA, ..] if [*a, *b, *c] == MAGIC => Ok(Kind::Data),
        [a, b, c, CONTROL, ..] if [*a, *b, *c] == MAGIC => Ok(Kind::Control),
        [a, b, c, kind, ..] if [*a, *b, *c] == MAGIC && kind >> 4 != DATA >> 4 => {
            Err(WireError::Version(kind >> 4))
        }
        [a, b, c, ..] if [*a, *b, *c] == MAGIC => Err(WireError::Malformed),
        _ => Err(WireError::Foreign),
    }
}

/// Writes the checksum of a datagram of ours that has been changed.
pub fn seal(datagram: &mut [u8]) {
    let parts = match kind(datagram) {
        Ok(Kind::Data) => datagram
            .first_chunk_mut::<DATA_HEADER_BYTES>()
            .and_then(|header| header.split_last_chunk_mut())
            .map(|(checked, checksum)| (checksum, checked)),
        Ok(Kind::Control) => datagram
            .split_first_chunk_mut::<CONTROL_HEADER_BYTES>()
            .and_then(|(header, body)| Some((header.last_chunk_mut::<4>()?, body))),
        Err(_) => None,
    };
    if let Some((checksum, checked)) = parts {
        *checksum = crc32c::crc32c(checked).to_be_bytes();
    }
}

/// The header of a measured datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHeader {
    /// The stream.
    pub token: StreamToken,
    /// Sequence number, from 0.
    pub sequence: u64,
    /// Scheduled send time on the sender's clock.
    pub scheduled_ns: u64,
    /// Actual send time (hand-over to the system) on the sender's clock.
    pub sent_ns: u64,
}

impl DataHeader {
    /// Writes the header to the start of `datagram`. Returns false and writes nothing if it is too short.
    pub fn write(&self, datagram: &mut [u8]) -> bool {
        let Some(header) = datagram.first_chunk_mut::<DATA_HEADER_BYTES>() else { return false };
        header[..3].copy_from_slice(&MAGIC);
        header[3] = DATA;
        header[4..12].copy_from_slice(&self.token.0.to_be_bytes());
        header[12..20].copy_from_slice(&self.sequence.to_be_bytes());
        header[20..28].copy_from_slice(&self.scheduled_ns.to_be_bytes());
        header[28..36].copy_from_slice(&self.sent_ns.to_be_bytes());
        seal(header);
        true
    }

    /// Reads the header from the start of `datagram`.
    ///
    /// # Errors
    ///
    /// [`WireError`] if it is not a measured datagram in giusto format.
    #[inline]
    pub fn parse(datagram: &[u8]) -> Result<Self, WireError> {
        if kind(datagram)? != Kind::Data {
            return Err(WireError::Malformed);
        }
        let header: &[u8; DATA_HEADER_BYTES] = datagram.first_chunk().ok_or(WireError::Malformed)?;
        let (checked, checksum) = header.split_last_chunk().ok_or(WireError::Malformed)?;
        if crc32c::crc32c(checked) != u32::from_be_bytes(*checksum) {
            return Err(WireError::Corrupt);
        }
        let (_, rest) = checked.split_first_chunk::<4>().ok_or(WireError::Malformed)?;
        let (token, rest) = rest.split_first_chunk().ok_or(WireError::Malformed)?;
        let (sequence, rest) = rest.split_first_chunk().ok_or(WireError::Malformed)?;
        let (scheduled, rest) = rest.split_first_chunk().ok_or(WireError::Malformed)?;
        let sent = rest.first_chunk().ok_or(WireError::Malformed)?;
        Ok(Self {
            token: StreamToken(u64::from_be_bytes(*token)),
            sequence: u64::from_be_bytes(*sequence),
            scheduled_ns: u64::from_be_bytes(*scheduled),
            sent_ns: u64::from_be_bytes(*sent),
        })
    }
}

/// Proof that its holder receives at the address to which it was issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookie {
    /// Time of issue on the receiver's clock.
    pub issued_ns: u64,
    /// The proof itself.
    pub proof: [u8; 16],
}

/// Format of a stream's datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamFormat {
    /// With a [`DataHeader`].
    Giusto,
    /// RTP, RFC 3550.
    Rtp {
        /// Units of the RTP timestamp per second.
        clock_rate_hz: u32,
        /// The voice codec, if it is a known one.
        voice: Option<VoiceProfile>,
    },
    /// Any datagrams: only counted and timed.
    Raw,
}

/// Identity of a side's clock, so that the other side can interpret a difference of times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockIdentity {
    /// Identifies the machine since its boot; 0 if unknown. Two sides with the same value share one monotonic
    /// clock.
    pub machine: u64,
    /// The machine's monotonic clock at the time zero of this side.
    pub origin_monotonic_ns: u64,
    /// Unix time at the time zero of this side.
    pub origin_unix_ns: u64,
    /// Error bound that the system reports for its clock, if the clock is synchronised.
    pub synchronised_within_ns: Option<u64>,
}

impl ClockIdentity {
    /// Converts an estimate of the other side's clock to the offset of the two *calendar* clocks, which does
    /// not depend on when each side started.
    #[must_use]
    pub fn calendar(&self, theirs: &Self, estimate: ClockEstimate) -> ClockEstimate {
        let origins = i128::from(theirs.origin_unix_ns) - i128::from(self.origin_unix_ns);
        let origins = i64::try_from(origins).unwrap_or(if origins < 0 { i64::MIN } else { i64::MAX });
        ClockEstimate { offset: estimate.offset + TimeDelta::from_nanos(origins), ..estimate }
    }
}

/// How a sender schedules its datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeKeeping {
    /// By a pacing strategy at a rate.
    Strategy(Strategy),
    /// Not at all: as fast as possible.
    Max,
    /// By recorded times.
    Recorded,
}

impl Default for TimeKeeping {
    fn default() -> Self {
        Self::Strategy(Strategy::default())
    }
}

impl fmt::Display for TimeKeeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strategy(strategy) => strategy.fmt(f),
            Self::Max => f.pad("max"),
            Self::Recorded => f.pad("recorded"),
        }
    }
}

/// Pacing of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacingNote {
    /// How it schedules its datagrams.
    pub keeping: TimeKeeping,
    /// Datagrams that are sent together.
    pub packets_per_cycle: u32,
    /// The time from one cycle to the next; `None` without a rate.
    pub period: Option<TimeDelta>,
}

/// The stream that a sender announces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamRequest {
    /// Format of the datagrams.
    pub format: StreamFormat,
    /// The rate at `layer`; `None`: as fast as possible.
    pub rate_bps: Option<u64>,
    /// Which headers the rate counts.
    pub layer: HeaderLayer,
    /// The payload size, if it is constant.
    pub size: Option<DataSize>,
    /// The time between datagrams, if it does not follow from rate and size.
    pub gap: Option<TimeDelta>,
    /// How many datagrams it has at most; nothing where it has no such limit.
    pub packets: Option<u64>,
    /// How they are paced; of no consequence for what is measured.
    pub pacing: PacingNote,
    /// The sender's clock.
    pub clock: ClockIdentity,
}

/// A sender's statistics of its own sending.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderFigures {
    /// Datagrams handed to the system.
    pub packets: u64,
    /// Their payload.
    pub bytes: u64,
    /// Deviation of actual from scheduled send times.
    pub schedule_error: Option<Quantiles>,
    /// Rate at the layer of the request, by the (N−1) rule.
    pub rate_bps: Option<f64>,
    /// CPU time of the sending thread divided by the duration of sending.
    pub cpu_ratio: Option<f32>,
}

/// A receiver's report of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Increases by one with each report.
    pub number: u32,
    /// Set in the last report.
    pub last: Option<LastReport>,
    /// The measurements so far.
    pub summary: StreamSummary,
    /// For voice.
    pub voice: Option<VoiceReport>,
    /// CPU time of the receiving thread divided by the time since the stream began; the thread serves all
    /// streams.
    pub cpu_ratio: Option<f32>,
}

/// Why a report is the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LastReport {
    /// The sender finished.
    Finished,
    /// The receiver was stopped.
    ReceiverStopped,
}

/// Estimated voice quality.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VoiceReport {
    /// The modelled jitter buffer.
    pub playout: PlayoutSummary,
    /// The rating of the E-model.
    pub quality: VoiceQuality,
}

/// A sender's result of its clock requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathEstimate {
    /// The other clock relative to the sender's.
    pub clock: ClockEstimate,
    /// The median round-trip time.
    pub round_trip: TimeDelta,
}

/// Why a stream was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The receiver has its maximum number of streams.
    #[error("it has reached its maximum number of streams (--max-streams)")]
    Full,
    /// The receiver has its maximum number of streams from this host.
    #[error("it has reached its maximum number of streams per host (--max-streams-per-host)")]
    HostFull,
    /// The rate is above the receiver's limit.
    #[error("the rate is above its maximum (--max-rate)")]
    Rate,
    /// The cookie is invalid or has expired.
    #[error("the proof of address was not valid: try again")]
    Cookie,
}

/// A control message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Message {
    /// Sender: requests a challenge. Padded to [`OPENING_BYTES`].
    Hello {
        /// Chosen at random by the sender.
        nonce: u64,
    },
    /// Receiver: asks the sender to prove its address.
    Challenge {
        /// From the Hello.
        nonce: u64,
        /// To be returned in the Open.
        cookie: Cookie,
    },
    /// Sender: opens a stream. Padded to [`OPENING_BYTES`].
    Open {
        /// As in the Hello.
        nonce: u64,
        /// As in the Challenge.
        cookie: Cookie,
        /// The announced stream.
        request: StreamRequest,
    },
    /// Receiver: accepts the stream.
    Accepted {
        /// From the Open.
        nonce: u64,
        /// To be included in every datagram.
        token: StreamToken,
        /// The receiver's clock.
        clock: ClockIdentity,
    },
    /// Receiver: rejects the stream.
    Refused {
        /// From the Open.
        nonce: u64,
        /// The reason.
        why: Refusal,
    },
    /// Sender: clock request. As long as the [`Message::Pong`].
    Ping {
        /// The stream.
        token: StreamToken,
        /// Send time on the sender's clock.
        sent_ns: u64,
        /// The sender's estimates so far.
        path: Option<PathEstimate>,
    },
    /// Receiver: clock answer.
    Pong {
        /// The stream.
        token: StreamToken,
        /// From the Ping.
        ping_sent_ns: u64,
        /// Arrival time of the Ping on the receiver's clock.
        received_ns: u64,
        /// Send time of this message on the receiver's clock.
        sent_ns: u64,
    },
    /// Receiver: the measurements so far.
    Report {
        /// The stream.
        token: StreamToken,
        /// The figures.
        report: Box<Report>,
    },
    /// Sender: end of the stream. Padded to [`FINISH_BYTES`].
    Finish {
        /// The stream.
        token: StreamToken,
        /// The sender's statistics.
        figures: SenderFigures,
    },
}

impl Message {
    /// The message as a datagram of at least `padded_to` bytes.
    pub fn encode(&self, padded_to: usize) -> Vec<u8> {
        let [m0, m1, m2] = MAGIC;
        // Encoding into a growing vector fails only for types of unknown length, of which a message has none.
        let mut bytes = postcard::to_extend(self, vec![m0, m1, m2, CONTROL, 0, 0, 0, 0]).unwrap_or_default();
        if bytes.len() < padded_to {
            bytes.resize(padded_to, 0);
        }
        seal(&mut bytes);
        bytes
    }

    /// Reads a message from a datagram; padding is ignored.
    ///
    /// # Errors
    ///
    /// [`WireError`] if it is not a giusto control message.
    pub fn decode(datagram: &[u8]) -> Result<Self, WireError> {
        if kind(datagram)? != Kind::Control || datagram.len() > MAX_MESSAGE_BYTES {
            return Err(WireError::Malformed);
        }
        let (_, checked) = datagram.split_first_chunk::<4>().ok_or(WireError::Malformed)?;
        let (checksum, body) = checked.split_first_chunk().ok_or(WireError::Malformed)?;
        if crc32c::crc32c(body) != u32::from_be_bytes(*checksum) {
            return Err(WireError::Corrupt);
        }
        postcard::take_from_bytes(body).map(|(message, _padding)| message).map_err(|_| WireError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_data_header_has_the_documented_layout() {
        let header = DataHeader {
            token: StreamToken(0x0102_0304_0506_0708),
            sequence: 0x1112_1314_1516_1718,
            scheduled_ns: 0x2122_2324_2526_2728,
            sent_ns: 0x3132_3334_3536_3738,
        };
        let mut datagram = [0xEE; DATA_HEADER_BYTES + 1];
        assert!(header.write(&mut datagram));
        assert_eq!(&datagram[..8], b"giu\x20\x01\x02\x03\x04");
        assert_eq!(datagram[12..20], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
        assert_eq!(datagram[28..36], [0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38]);
        assert_eq!(datagram[40], 0xEE);
        assert_eq!(DataHeader::parse(&datagram), Ok(header));
        for bit in 32..DATA_HEADER_BYTES * 8 {
            datagram[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(DataHeader::parse(&datagram), Err(WireError::Corrupt), "bit {bit}");
            datagram[bit / 8] ^= 1 << (bit % 8);
        }
        for cut in 0..DATA_HEADER_BYTES {
            assert!(DataHeader::parse(&datagram[..cut]).is_err(), "{cut} bytes were taken");
        }
        assert!(!header.write(&mut datagram[..DATA_HEADER_BYTES - 1]));
    }

    #[test]
    fn the_checksum_is_that_of_rfc_3720_and_rfc_9260() {
        // RFC 3720 §B.4: 32 bytes of zeros, of ones, and counting up; the bytes there are in the order of iSCSI.
        let counting: Vec<u8> = (0..32).collect();
        for (bytes, expected) in
            [(&[0; 32][..], 0x8A91_36AA), (&[0xFF; 32], 0x62A8_AB43), (&counting, 0x46DD_794E)]
        {
            assert_eq!(crc32c::crc32c(bytes), expected);
        }
    }

    #[test]
    fn a_damaged_message_is_not_read() {
        let mut bytes = Message::Hello { nonce: 7 }.encode(20);
        assert!(Message::decode(&bytes).is_ok());
        for bit in 32..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Message::decode(&bytes), Err(WireError::Corrupt), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn what_is_not_ours_is_told_apart() {
        assert_eq!(kind(b"\x80\x00rtp"), Err(WireError::Foreign));
        assert_eq!(kind(b""), Err(WireError::Foreign));
        assert_eq!(kind(b"giu\x10"), Err(WireError::Version(1)));
        assert_eq!(kind(b"giu\x2f"), Err(WireError::Malformed));
        assert_eq!(kind(b"giu\x21"), Ok(Kind::Control));
    }

    #[test]
    fn answers_are_shorter_than_their_requests() {
        let clock = ClockIdentity {
            machine: u64::MAX,
            origin_monotonic_ns: u64::MAX,
            origin_unix_ns: u64::MAX,
            synchronised_within_ns: Some(u64::MAX),
        };
        let cookie = Cookie { issued_ns: u64::MAX, proof: [0xFF; 16] };
        let answers = [
            Message::Challenge { nonce: u64::MAX, cookie },
            Message::Accepted { nonce: u64::MAX, token: StreamToken(u64::MAX), clock },
            Message::Refused { nonce: u64::MAX, why: Refusal::HostFull },
        ];
        for answer in answers {
            assert!(answer.encode(0).len() < OPENING_BYTES, "{answer:?}");
        }
        let request = StreamRequest {
            format: StreamFormat::Rtp { clock_rate_hz: u32::MAX, voice: Some(VoiceProfile::Opus) },
            rate_bps: Some(u64::MAX),
            layer: HeaderLayer::Ethernet,
            size: Some(DataSize::from_bytes(u64::MAX)),
            gap: Some(TimeDelta::MAX),
            packets: Some(u64::MAX),
            pacing: PacingNote {
                keeping: TimeKeeping::Strategy(giusto_pace::Strategy::Unpaced),
                packets_per_cycle: u32::MAX,
                period: Some(TimeDelta::MAX),
            },
            clock,
        };
        let open = Message::Open { nonce: u64::MAX, cookie, request };
        assert_eq!(open.encode(OPENING_BYTES).len(), OPENING_BYTES, "padding leaves no trace of the content");
        assert_eq!(Message::decode(&open.encode(OPENING_BYTES)), Ok(open));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(kind in 0_u8..=255, tail: Vec<u8>) {
            let mut datagram = vec![b'g', b'i', b'u', kind];
            datagram.extend(tail);
            let _ = DataHeader::parse(&datagram);
            if let Ok(message) = Message::decode(&datagram) {
                // A decoded message can be encoded again.
                let again = message.encode(0);
                prop_assert!(again.len() <= MAX_MESSAGE_BYTES + 16);
            }
        }
    }
}
