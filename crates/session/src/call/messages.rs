//! The messages of the handshake.

use std::net::SocketAddr;

use giusto_units::{DataRate, DataSize, TimeDelta};
use serde::{Deserialize, Serialize};

use super::protection::Protection;
use crate::{
    cookie::{Cookie, StreamToken},
    envelope::{self, MAGIC, WireError},
    keys::MacKey,
    media::{KeyFrameRequest, ParityRatio},
    printable::printable,
    probe::wire::ClockIdentity,
    video::VideoCodec,
};

/// The kinds of the messages of calls: plain and authenticated. Those of the measurement protocol end at `0x33`.
pub(super) const CONTROL: u8 = 0x34;
pub(super) const SEALED_CONTROL: u8 = 0x35;
/// The kinds of messages.
pub(crate) const CONTROL_KINDS: [u8; 2] = [CONTROL, SEALED_CONTROL];

/// The size to which Hello is padded: larger than every answer to it.
pub(super) const OPENING_BYTES: usize = 256;

/// The size to which Ping and Proof are padded, so that no answer is longer.
pub(super) const PING_BYTES: usize = 72;

/// The largest number of videos that are offered.
pub const MAX_OFFERED_VIDEOS: usize = 16;

/// The longest name in an offer, in bytes: with the most videos an offer still fits into a message.
pub const MAX_NAME_BYTES: usize = 40;

/// A sealed message that has not been verified yet.
pub(super) type Sealed<'a> = envelope::Sealed<'a, SEALED_CONTROL>;

/// What a caller proposes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The upper 24 bits of all synchronisation sources of the caller; the lower 8 bits are 0.
    pub sources: u32,
    /// The media that the caller will send.
    pub sends: Option<MediaOffer>,
    /// The media that the listener is asked to send.
    pub wants: Option<MediaOffer>,
    /// How long the call is to last; `None`: until one end finishes it.
    pub duration: Option<TimeDelta>,
    /// The part of the call that is measured, from its beginning; `None`: all of it.
    pub measured: Option<[TimeDelta; 2]>,
    /// A name for the session, for its record; may be empty.
    pub name: String,
    /// How the media are protected in both directions.
    pub protection: Protection,
}

/// The answer of a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The upper 24 bits of all synchronisation sources of the listener; the lower 8 bits are 0.
    pub sources: u32,
}

/// The media of one direction, as far as both ends must know them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MediaOffer {
    /// The congestion controller of the sender, by its name.
    pub controller: String,
    /// The feedback of the receiver, by its name.
    pub feedback: String,
    /// The model of the first video's encoder, by its name; the default one if empty. It matters to an end that is to send only.
    pub encoder: String,
    /// Lowest, first and highest target rate, headers included.
    pub rates: [DataRate; 3],
    /// The codec of real media; `None`: the frames of an encoder model, which have no payload header.
    pub codec: Option<VideoCodec>,
    /// The videos, in the order of their sources.
    pub videos: Vec<VideoOffer>,
    /// The audio stream, if there is one.
    pub audio: Option<AudioOffer>,
    /// Maximum payload of a video packet.
    pub max_payload: DataSize,
    /// The rate limit that the receiver requests.
    pub receiver_limit: Option<DataRate>,
    /// The ECN field of the packets, 0 to 2.
    pub ecn: u8,
    /// How lost packets are repaired.
    pub repair: RepairOffer,
}

/// The repair of lost packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RepairOffer {
    /// Whether lost packets are requested and sent again (RFC 4585, RFC 4588).
    pub nack: bool,
    /// Parity packets per media packet (RFC 8627): the ratio, or `None` for none.
    pub parity: Option<ParityRatio>,
    /// Time from the capture of a frame, plus the minimum delay of the path, until it is too late to be played.
    pub playout_deadline: TimeDelta,
    /// How a key frame is requested when a packet cannot be repaired in time.
    pub key_frames: KeyFrameRequest,
}

/// A video stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VideoOffer {
    /// Its name.
    pub id: String,
    /// Its share of the target rate relative to the other videos.
    pub priority: f32,
}

/// An audio stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudioOffer {
    /// The rate of its frames, headers not included.
    pub rate: DataRate,
    /// The time that one frame covers.
    pub packet_time: TimeDelta,
    /// Units of its RTP clock per second.
    pub clock_rate: u32,
    /// Whether it is Opus (RFC 7587), and not the frames of a model.
    pub opus: bool,
}

/// What one end knows of the call at its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EndFigures {
    /// Of the media that it sent.
    pub sent: Option<SentFigures>,
    /// Of the media that it received.
    pub received: Option<ReceivedFigures>,
}

/// What one end sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SentFigures {
    /// Packets of media, with their reports.
    pub packets: u64,
    /// Their rate, all headers included.
    pub rate_bps: f64,
}

/// What one end received.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceivedFigures {
    /// Packets, each counted once.
    pub packets: u64,
    /// Packets that have not arrived.
    pub lost: u64,
    /// Datagrams, of media and feedback, that this end's full socket buffer dropped: the path did not lose them.
    pub dropped: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Rate of the packets, all headers included.
    pub rate_bps: f64,
    /// Rate of the payload of complete frames.
    pub goodput_bps: f64,
    /// Share of the packets that carried a CE mark; `None` without packets.
    pub marked_ratio: Option<f64>,
    /// Complete frames.
    pub frames: u64,
    /// Frame delay; `None` if nothing is known of it.
    pub frame_delay_ms: Option<DelayFigures>,
    /// Each stream.
    pub streams: Vec<ReceivedStream>,
}

/// What one end received of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceivedStream {
    /// The lower 8 bits of its synchronisation source.
    pub source: u8,
    /// Complete frames.
    pub frames: u64,
    /// Rate of their payload.
    pub goodput_bps: f32,
    /// Frame delay; `None` if nothing is known of it.
    pub frame_delay_ms: Option<DelayFigures>,
}

/// Mean, quantiles and maximum of a delay, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DelayFigures {
    /// Arithmetic mean.
    pub mean: f32,
    /// Median.
    pub p50: f32,
    /// 95th percentile.
    pub p95: f32,
    /// 99th percentile.
    pub p99: f32,
    /// Maximum.
    pub max: f32,
}

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum CallRefusal {
    /// It has its maximum number of calls.
    #[error("it has reached its maximum number of calls (--max-calls)")]
    Full,
    /// The cookie is invalid or has expired.
    #[error("the proof of address was not valid: try again")]
    Cookie,
    /// The listener has keys, and the caller used none.
    #[error("it accepts only authenticated calls: give both ends the same keys, or it none (--key-file)")]
    KeyRequired,
    /// The listener has no keys, and the caller used one.
    #[error("it has no keys: give both ends the same keys (--key-file)")]
    NoKeys,
    /// The listener has another key of this id, or none.
    #[error(
        "it does not have this key, or another one under its id: give both ends the same keys (--key-file)"
    )]
    Key,
    /// The listener protects media in this way, and the caller in another.
    // Callers without these flags can be mended at the listener alone.
    #[error(
        "its media are {0}, and those of the caller are not: start it without --srtp and --insecure, or the caller with the same of them"
    )]
    Protection(Protection),
    /// Encrypted media need keys and a cipher.
    #[error("media are encrypted only between ends with keys (--key-file, --fingerprint)")]
    NoKeysToEncrypt,
    /// Another call from this address has the same synchronisation sources.
    #[error("another call from this address has the same synchronisation sources: try again")]
    Sources,
    /// The offer is invalid or cannot be served.
    #[error("{}", printable(.0, 200))]
    Offer(String),
    /// It serves one call, which another has.
    #[error("it serves one call and ends (--once): make one call, or leave out --once there")]
    Once,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Message {
    /// Caller: requests a challenge. Padded to [`OPENING_BYTES`].
    Hello { nonce: u64 },
    /// Listener: asks the caller to prove its address.
    Challenge { nonce: u64, cookie: Cookie },
    /// Caller: proposes the call. Padded to [`OPENING_BYTES`].
    Offer { nonce: u64, cookie: Cookie, offer: Box<Offer>, clock: ClockIdentity },
    /// Listener: the call has begun at `zero_ns` on its clock.
    Accepted { nonce: u64, token: StreamToken, answer: Answer, clock: ClockIdentity, zero_ns: u64 },
    /// Listener: refuses it.
    Refused { nonce: u64, why: CallRefusal },
    /// Both: the call began at `zero_ns` on the clock of who sends it. Padded to [`PING_BYTES`].
    Ping { token: StreamToken, sent_ns: u64, zero_ns: u64 },
    /// Both: the answer.
    Pong { token: StreamToken, ping_sent_ns: u64, received_ns: u64, sent_ns: u64 },
    /// Both: asks who sends Pings from another address than before to prove it.
    Probe { token: StreamToken, cookie: Cookie },
    /// Both: the proof. Padded to [`PING_BYTES`].
    Proof { token: StreamToken, cookie: Cookie },
    /// Both: the call goes on at the address to which this is sent.
    Moved { token: StreamToken },
    /// Both: the answer to a Ping of a call that does not exist.
    Unknown { token: StreamToken },
    /// Both: nothing more is sent.
    Finish { token: StreamToken, figures: EndFigures },
    /// Both: the answer.
    Finished { token: StreamToken, figures: EndFigures },
    /// Both: the answer to that, with the final figures.
    Closed { token: StreamToken, figures: EndFigures },
    /// Caller: looks for the MTU of the path; padded to so many bytes. The answer is a Pong.
    MtuProbe { token: StreamToken, sent_ns: u64, size: u16 },
}

impl Message {
    /// The message as a datagram.
    pub(super) fn encode(&self) -> Vec<u8> {
        envelope::encode(CONTROL, self, self.padded_to())
    }

    /// The message as an authenticated datagram; `number` is new under the key, or 0 before there is a call.
    pub(super) fn seal(&self, key: &MacKey, number: u64) -> Vec<u8> {
        envelope::seal(SEALED_CONTROL, self, self.padded_to(), key, number)
    }

    /// Reads a message without authentication.
    pub(super) fn decode(datagram: &[u8]) -> Result<Self, WireError> {
        envelope::decode(datagram)
    }

    const fn padded_to(&self) -> usize {
        match self {
            Self::Hello { .. } | Self::Offer { .. } => OPENING_BYTES,
            Self::Ping { .. } | Self::Proof { .. } => PING_BYTES,
            Self::MtuProbe { size, .. } => *size as usize,
            _ => 0,
        }
    }

    /// Whether its datagram is as long as it must be, so that no answer is longer.
    pub(super) const fn is_padded(&self, datagram: &[u8]) -> bool {
        datagram.len() >= self.padded_to()
    }

    /// The call that it belongs to; `None` during the opening.
    pub(super) const fn token(&self) -> Option<StreamToken> {
        match *self {
            Self::Ping { token, .. }
            | Self::Pong { token, .. }
            | Self::Probe { token, .. }
            | Self::Proof { token, .. }
            | Self::Moved { token }
            | Self::Unknown { token }
            | Self::MtuProbe { token, .. }
            | Self::Finish { token, .. }
            | Self::Finished { token, .. }
            | Self::Closed { token, .. } => Some(token),
            _ => None,
        }
    }
}

/// The kind of a datagram by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// RTP or RTCP, with the upper bits of the synchronisation source of its sender.
    Media(u32),
    Control,
    SealedControl,
    /// Of a key exchange.
    Exchange,
    /// Of another version of giusto.
    Version(u8),
    Foreign,
}

impl Kind {
    pub(super) fn of(datagram: &[u8]) -> Self {
        match datagram {
            // RFC 7983 §7; RTCP differs from RTP in its second byte (RFC 5761 §4).
            [128..=191, second, ..] => {
                let at = if matches!(second, 192..=223) { 4 } else { 8 };
                let source = datagram.get(at..).and_then(|rest| rest.first_chunk());
                source.map_or(Self::Foreign, |source| Self::Media(sources_of(u32::from_be_bytes(*source))))
            }
            [20..=63, ..] => Self::Exchange,
            [a, b, c, CONTROL, ..] if [*a, *b, *c] == MAGIC => Self::Control,
            [a, b, c, SEALED_CONTROL, ..] if [*a, *b, *c] == MAGIC => Self::SealedControl,
            [a, b, c, kind, ..] if [*a, *b, *c] == MAGIC && kind >> 4 != CONTROL >> 4 => {
                Self::Version(kind >> 4)
            }
            _ => Self::Foreign,
        }
    }
}

/// The bits that all sources of one end share.
pub(super) const fn sources_of(ssrc: u32) -> u32 {
    ssrc & !0xff
}

impl Offer {
    /// Why it cannot be served, if so.
    pub(super) fn problem(&self) -> Option<String> {
        if sources_of(self.sources) != self.sources {
            return Some("the lower 8 bits of its synchronisation sources must be 0".to_owned());
        }
        if self.sends.is_none() && self.wants.is_none() {
            return Some("it has no media in either direction".to_owned());
        }
        if self.duration.is_some_and(|duration| duration <= TimeDelta::ZERO) {
            return Some("its duration must be above 0 s".to_owned());
        }
        let end = self.duration.unwrap_or(TimeDelta::MAX);
        if self.measured.is_some_and(|[from, to]| from < TimeDelta::ZERO || from >= to.min(end)) {
            return Some("the part that is measured must be within the call and above 0 s".to_owned());
        }
        if let Some(problem) = problem_of_name(&self.name) {
            return Some(format!("its name {problem}"));
        }
        [&self.sends, &self.wants].into_iter().flatten().find_map(MediaOffer::problem)
    }
}

impl MediaOffer {
    fn problem(&self) -> Option<String> {
        if self.videos.len() > MAX_OFFERED_VIDEOS {
            return Some(format!(
                "it has {} videos, at most {MAX_OFFERED_VIDEOS} are served",
                self.videos.len()
            ));
        }
        let names = [&self.controller, &self.feedback, &self.encoder];
        let mut names = names.into_iter().chain(self.videos.iter().map(|video| &video.id));
        names.find_map(|name| problem_of_name(name)).map(|problem| format!("a name {problem}"))
    }
}

fn problem_of_name(name: &str) -> Option<String> {
    if name.len() > MAX_NAME_BYTES {
        return Some(format!("is longer than {MAX_NAME_BYTES} bytes"));
    }
    name.contains(char::is_control).then(|| "has a control character".to_owned())
}

/// A datagram of a message, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outbound {
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
}
