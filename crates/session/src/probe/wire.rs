//! The wire format: the header of a measured datagram, and control messages.
//!
//! Every giusto datagram begins with the bytes `giu` and a kind. The first byte is outside the ranges of
//! STUN, TURN, DTLS and RTP (RFC 7983 §7), so all can share a port.
//!
//! ```text
//!    0                   1                   2                   3
//!    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!   +---------------+---------------+---------------+---------------+
//!   |      'g'      |      'i'      |      'u'      |  0x30 (data)  |
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
//! All integers are big-endian. Control messages (kind `0x31`) are the CRC-32C of all that follows (4 bytes), a [`Message`] in
//! postcard's encoding, and padding. The checksums find damage that the checksum of UDP misses; they stop no attacker.
//!
//! Between ends that share keys, the id of the key (32 bit) and a MAC (128 bit) replace the checksum: of measured datagrams (kind
//! `0x32`) after the times, over the bytes before and the datagram's length; of control messages (kind `0x33`) after the kind with
//! the message's number (64 bit) between them, over all other bytes.

mod types;

use serde::{Deserialize, Serialize};

pub use types::{
    ArrivalStamps, ClockIdentity, LastReport, MachineProof, PacingNote, PathEstimate, Refusal, Report,
    ReverseLimits, SenderFigures, StreamFormat, StreamLimit, StreamRequest, TimeKeeping, VoiceReport,
    WakeLatency,
};

pub use crate::{
    cookie::{Cookie, StreamToken},
    envelope::{MAX_MESSAGE_BYTES, WireError},
};
use crate::{
    envelope::{self, CONTROL_HEADER_BYTES, MAGIC, SEALED_CONTROL_HEADER_BYTES},
    keys::MacKey,
};

/// Bytes that a measured datagram of ours needs at the least.
pub const DATA_HEADER_BYTES: usize = 40;

/// The size to which [`Message::Hello`] and [`Message::Open`] are padded: larger than every answer to them.
pub const OPENING_BYTES: usize = 256;

/// The size to which [`Message::Finish`] is padded, so that the final report is never longer.
pub const FINISH_BYTES: usize = 1100;

/// Minimum length of an authenticated measured datagram, in bytes.
pub const SEALED_DATA_HEADER_BYTES: usize = 56;

/// Bytes that authentication adds to a control message.
pub const SEAL_BYTES: usize = SEALED_CONTROL_HEADER_BYTES - CONTROL_HEADER_BYTES;

/// The bytes of an authenticated measured datagram before the MAC.
const SEALED_DATA_BYTES: usize = SEALED_DATA_HEADER_BYTES - MacKey::MAC_BYTES;

const DATA: u8 = 0x30;
const CONTROL: u8 = 0x31;
const SEALED_DATA: u8 = 0x32;
const SEALED_CONTROL: u8 = 0x33;
/// The kinds of messages.
pub(crate) const CONTROL_KINDS: [u8; 2] = [CONTROL, SEALED_CONTROL];

/// The kind of a datagram, according to its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A measured datagram.
    Data,
    /// A [`Message`].
    Control,
    /// An authenticated measured datagram.
    SealedData,
    /// An authenticated [`Message`].
    SealedControl,
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
        [a, b, c, SEALED_DATA, ..] if [*a, *b, *c] == MAGIC => Ok(Kind::SealedData),
        [a, b, c, SEALED_CONTROL, ..] if [*a, *b, *c] == MAGIC => Ok(Kind::SealedControl),
        [a, b, c, kind, ..] if [*a, *b, *c] == MAGIC && kind >> 4 != DATA >> 4 => {
            Err(WireError::Version(kind >> 4))
        }
        [a, b, c, ..] if [*a, *b, *c] == MAGIC => Err(WireError::Malformed),
        _ => Err(WireError::Foreign),
    }
}

/// Writes the checksum of a datagram of ours that has been changed. Authenticated ones have none.
pub fn seal(datagram: &mut [u8]) {
    let parts = match kind(datagram) {
        Ok(Kind::Data) => datagram
            .first_chunk_mut::<DATA_HEADER_BYTES>()
            .and_then(|header| header.split_last_chunk_mut())
            .map(|(checked, checksum)| (checksum, checked)),
        Ok(Kind::Control) => datagram
            .split_first_chunk_mut::<CONTROL_HEADER_BYTES>()
            .and_then(|(header, body)| Some((header.last_chunk_mut::<4>()?, body))),
        Ok(Kind::SealedData | Kind::SealedControl) | Err(_) => None,
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
        self.write_fields(DATA, header);
        seal(header);
        true
    }

    /// Writes the header, with its authentication, to the start of `datagram`, whose length it authenticates. Returns false and
    /// writes nothing if it is too short.
    pub fn write_sealed(&self, datagram: &mut [u8], key: &MacKey) -> bool {
        let length = datagram_length(datagram);
        let Some(header) = datagram.first_chunk_mut::<SEALED_DATA_HEADER_BYTES>() else { return false };
        let Some((covered, mac)) = header.split_first_chunk_mut::<SEALED_DATA_BYTES>() else { return false };
        self.write_fields(SEALED_DATA, covered);
        covered[36..40].copy_from_slice(&key.id().0.to_be_bytes());
        mac.copy_from_slice(&key.mac(&[covered, &length]));
        true
    }

    fn write_fields(&self, kind: u8, header: &mut [u8; DATA_HEADER_BYTES]) {
        header[..3].copy_from_slice(&MAGIC);
        header[3] = kind;
        header[4..12].copy_from_slice(&self.token.0.to_be_bytes());
        header[12..20].copy_from_slice(&self.sequence.to_be_bytes());
        header[20..28].copy_from_slice(&self.scheduled_ns.to_be_bytes());
        header[28..36].copy_from_slice(&self.sent_ns.to_be_bytes());
    }

    /// Reads the header from the start of `datagram`.
    ///
    /// # Errors
    ///
    /// [`WireError`] if it is not a measured datagram in giusto format, without authentication.
    #[inline]
    pub fn parse(datagram: &[u8]) -> Result<Self, WireError> {
        match kind(datagram)? {
            Kind::Data => {}
            Kind::SealedData => return Err(WireError::Unauthenticated),
            Kind::Control | Kind::SealedControl => return Err(WireError::Malformed),
        }
        let header: &[u8; DATA_HEADER_BYTES] = datagram.first_chunk().ok_or(WireError::Malformed)?;
        let (checked, checksum) = header.split_last_chunk().ok_or(WireError::Malformed)?;
        if crc32c::crc32c(checked) != u32::from_be_bytes(*checksum) {
            return Err(WireError::Corrupt);
        }
        Self::read_fields(header)
    }

    /// Reads the header from the start of `datagram`, and verifies its authentication.
    ///
    /// # Errors
    ///
    /// [`WireError`] if it is not a measured datagram in giusto format, or not authenticated with `key`.
    #[inline]
    pub fn open(datagram: &[u8], key: &MacKey) -> Result<Self, WireError> {
        match kind(datagram)? {
            Kind::SealedData => {}
            Kind::Data => return Err(WireError::Unauthenticated),
            Kind::Control | Kind::SealedControl => return Err(WireError::Malformed),
        }
        let header: &[u8; SEALED_DATA_HEADER_BYTES] = datagram.first_chunk().ok_or(WireError::Malformed)?;
        let (covered, mac) = header.split_first_chunk::<SEALED_DATA_BYTES>().ok_or(WireError::Malformed)?;
        let (_, id) = covered.split_last_chunk().ok_or(WireError::Malformed)?;
        let mac = mac.first_chunk::<{ MacKey::MAC_BYTES }>().ok_or(WireError::Malformed)?;
        if u32::from_be_bytes(*id) != key.id().0 || !key.verify(&[covered, &datagram_length(datagram)], mac) {
            return Err(WireError::Unauthenticated);
        }
        Self::read_fields(covered)
    }

    fn read_fields(header: &[u8; DATA_HEADER_BYTES]) -> Result<Self, WireError> {
        let (_, rest) = header.split_first_chunk::<4>().ok_or(WireError::Malformed)?;
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

/// The length of a UDP payload, which 16 bits hold.
fn datagram_length(datagram: &[u8]) -> [u8; 2] {
    (datagram.len() as u16).to_be_bytes()
}

/// A control message with authentication that has not been verified yet.
pub type Sealed<'a> = envelope::Sealed<'a, SEALED_CONTROL>;

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
    /// Sender to a multicast group: announces a stream, which nobody answers.
    Announce {
        /// Random; included in every datagram.
        token: StreamToken,
        /// The sequence number of the next datagram.
        next: u64,
        /// The announced stream.
        request: StreamRequest,
    },
    /// Receiver: asks an address from which datagrams of a stream come, but did not come before, to prove that it receives.
    PathProbe {
        /// The stream.
        token: StreamToken,
        /// To be returned in the proof.
        cookie: Cookie,
    },
    /// Sender: the proof, from there.
    PathProof {
        /// The stream.
        token: StreamToken,
        /// From the probe.
        cookie: Cookie,
    },
}

impl Message {
    /// The message as a datagram of at least `padded_to` bytes.
    pub fn encode(&self, padded_to: usize) -> Vec<u8> {
        envelope::encode(CONTROL, self, padded_to)
    }

    /// The message as an authenticated datagram of at least `padded_to` + [`SEAL_BYTES`] bytes. `number` must be new under `key`;
    /// it is 0 where there is no stream yet.
    pub fn seal(&self, padded_to: usize, key: &MacKey, number: u64) -> Vec<u8> {
        envelope::seal(SEALED_CONTROL, self, padded_to, key, number)
    }

    /// Reads a message from a datagram without authentication; padding is ignored.
    ///
    /// # Errors
    ///
    /// [`WireError`] if it is not a giusto control message.
    pub fn decode(datagram: &[u8]) -> Result<Self, WireError> {
        match kind(datagram)? {
            Kind::Control => envelope::decode(datagram),
            Kind::SealedControl => Err(WireError::Unauthenticated),
            Kind::Data | Kind::SealedData => Err(WireError::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_pace::HeaderLayer;
    use giusto_rtp::voice::VoiceProfile;
    use giusto_units::{DataSize, TimeDelta};

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
        assert_eq!(&datagram[..8], b"giu\x30\x01\x02\x03\x04");
        assert_eq!(datagram[12..20], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
        assert_eq!(datagram[28..36], [0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38]);
        // CRC-32C (RFC 3720 §B.4), computed bit by bit with Python.
        assert_eq!(datagram[36..40], [0xda, 0x16, 0x2c, 0xec]);
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
    fn a_damaged_message_is_not_read() {
        let mut bytes = Message::Hello { nonce: 7 }.encode(20);
        assert!(Message::decode(&bytes).is_ok());
        for bit in 32..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Message::decode(&bytes), Err(WireError::Corrupt), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// A report of a release whose last field was `cpu_ratio`, and one of a later release.
    #[test]
    fn reports_with_fewer_and_with_more_fields_are_read() {
        let stream = giusto_measure::StreamMeter::new(&giusto_measure::MeterConfig::default()).summary();
        let report = |stamps| {
            let (summary, cpu_ratio) = (stream.clone(), Some(0.5));
            let report = Report { number: 1, last: None, summary, voice: None, cpu_ratio, stamps };
            Message::Report { token: StreamToken(9), report: Box::new(report) }
        };
        let checked = |mut bytes: Vec<u8>| {
            seal(&mut bytes);
            bytes
        };
        let told = report(ArrivalStamps::Card { messages: 700, by_kernel: 3 });
        let whole = told.encode(0);
        assert_eq!(Message::decode(&whole).as_ref(), Ok(&told));
        assert_eq!(Message::decode(&checked([whole, vec![7; 20]].concat())), Ok(told));
        let unknown = report(ArrivalStamps::Unknown);
        let whole = unknown.encode(0);
        for padding in [0, 5] {
            let old = [&whole[..whole.len() - 1], &vec![0; padding]].concat();
            assert_eq!(Message::decode(&checked(old)).as_ref(), Ok(&unknown));
        }
        let cut = whole[..whole.len() - 2].to_vec();
        assert_eq!(Message::decode(&checked(cut)), Err(WireError::Malformed), "less than any release wrote");
    }

    #[test]
    fn what_is_not_ours_is_told_apart() {
        assert_eq!([kind(b"\x80\x00rtp"), kind(b"")], [Err(WireError::Foreign); 2]);
        assert_eq!(kind(b"giu\x20"), Err(WireError::Version(2)));
        assert_eq!(kind(b"giu\x3f"), Err(WireError::Malformed));
        let known = [Kind::Data, Kind::Control, Kind::SealedData, Kind::SealedControl];
        assert_eq!([b"giu\x30", b"giu\x31", b"giu\x32", b"giu\x33"].map(|bytes| kind(bytes)), known.map(Ok));
    }

    #[test]
    fn answers_are_shorter_than_their_requests() {
        let clock = ClockIdentity {
            machine: Some(MachineProof { proof: [0xFF; 16], masked_origin_ns: u64::MAX }),
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
        let keeping = TimeKeeping::Strategy(giusto_pace::Strategy::Unpaced);
        let size = Some(DataSize::from_bytes(u64::MAX));
        let request = StreamRequest {
            format: StreamFormat::Rtp { clock_rate_hz: u32::MAX, voice: Some(VoiceProfile::Opus) },
            rate_bps: Some(u64::MAX),
            layer: HeaderLayer::Ethernet,
            size,
            gap: Some(TimeDelta::MAX),
            packets: Some(u64::MAX),
            ssrc: Some(u32::MAX),
            pacing: PacingNote { keeping, packets_per_cycle: u32::MAX, period: Some(TimeDelta::MAX) },
            reverse: Some(ReverseLimits { duration: Some(TimeDelta::MAX), payload: size }),
            clock,
        };
        let open = Message::Open { nonce: u64::MAX, cookie, request };
        assert_eq!(open.encode(OPENING_BYTES).len(), OPENING_BYTES, "padding leaves no trace of the content");
        assert_eq!(Message::decode(&open.encode(OPENING_BYTES)), Ok(open));
    }
}
