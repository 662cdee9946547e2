//! What a call is made from.

use std::net::SocketAddr;

use giusto_congestion::{Controller, FeedbackKind, gcc::receive_side};
use giusto_session::{
    media::{Frame, PLAYOUT_DEADLINE, StreamId},
    video::{VideoCodec, VideoSource},
};
use giusto_units::{DataRate, Ecn, TimeDelta, Timestamp};

use crate::{
    dtls::{Certificate, DtlsError},
    ice::Credentials,
};

giusto_units::defaults! {
    /// Configuration of a call.
    #[derive(Debug, Clone)]
    pub struct PeerConfig {
        /// The address of our socket, which the browser can reach.
        pub address: SocketAddr = address,
        /// The ECN codepoint of media packets. Default Not-ECT.
        pub ecn: Ecn = Ecn::NotEct,
        /// The feedback of the browser. Default `None`: that for which the controller was designed, otherwise any that it accepts.
        pub feedback: Option<FeedbackKind> = None,
        /// Whether lost packets are sent again (RFC 4588) when the browser requests them (RFC 4585 §6.2.1). Default `true`; without
        /// effect if the browser does not offer both.
        pub repair: bool = true,
        /// Time after which a packet is not sent again, because it would come too late. Default [`PLAYOUT_DEADLINE`].
        pub repair_deadline: TimeDelta = PLAYOUT_DEADLINE,
        /// The media that come from the browser. Default `None`: none.
        pub receive: Option<ReceiveConfig> = None,
    }
    /// The defaults, for a socket that the browser reaches at `address`.
    pub fn new(address: SocketAddr);
}

/// The media that come from the browser: one video, in one or several encodings (simulcast, RFC 8853), and Opus if its page sends any.
#[derive(Debug, Clone)]
pub struct ReceiveConfig {
    /// The codecs of the video, of which the browser's first is taken, AV1 last; where video also goes to the browser, both have its codec.
    pub codecs: Vec<VideoCodec>,
    /// With [`FeedbackKind::ReceiverEstimate`]: the constants of the estimate.
    pub receive_side: receive_side::Config,
    /// The most that the browser may send of the video, headers included. Default `None`: what its controller allows.
    pub max_rate: Option<DataRate>,
}

impl Default for ReceiveConfig {
    fn default() -> Self {
        let codecs = VideoCodec::ALL.to_vec();
        Self { codecs, receive_side: receive_side::Config::default(), max_rate: None }
    }
}

/// The kind of a stream of the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Incoming {
    /// Its video.
    Video,
    /// Its audio.
    Audio,
}

/// A stream of the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncomingStream {
    /// Video or audio.
    pub kind: Incoming,
    /// Its name among several encodings of the video.
    pub rid: Option<StreamId>,
}

/// The video of a call, and the controller of its rate.
#[derive(Debug)]
pub struct PeerMedia {
    /// Where frames come from.
    pub source: Box<dyn VideoSource>,
    /// Sets their rate.
    pub controller: Box<dyn Controller>,
    /// Where packets of Opus come from; the browser gets them if its page has an audio line.
    pub voice: Option<Box<dyn VoiceSource>>,
}

/// A source of packets of Opus, on the RTP clock of 48 kHz.
pub trait VoiceSource: std::fmt::Debug + Send {
    /// Their rate.
    fn rate(&self) -> DataRate;

    /// When to ask for the next packet; `None`: there are no more.
    fn next_packet_at(&self) -> Option<Timestamp>;

    /// The packet that is due, if one is.
    fn poll_packet(&mut self, now: Timestamp) -> Option<Frame>;
}

/// The random values of a call. None may be used twice, except the certificate.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// Our ICE credentials.
    pub credentials: Credentials,
    /// Our certificate.
    pub certificate: Certificate,
    /// The session identifier of our description.
    pub session: u64,
    /// Synchronisation sources of video and of padding; they differ, and that of audio is the one after the second.
    pub ssrc: [u32; 2],
    /// Added to RTP timestamps.
    pub timestamp_offset: u32,
    /// Distinguishes the page of the call from other pages.
    pub token: String,
}

impl Secrets {
    /// Draws them from `random`, which must be a cryptographic generator, and makes a certificate.
    ///
    /// # Errors
    ///
    /// [`DtlsError::Certificate`].
    pub fn draw(random: &mut impl rand::Rng) -> Result<Self, DtlsError> {
        /// 64 characters: 6 bits of each byte count. All are ice-chars (RFC 8839 §5.4).
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = |length: usize| -> String {
            let mut bytes = vec![0; length];
            random.fill_bytes(&mut bytes);
            let letter = |byte: u8| ALPHABET.get(usize::from(byte & 63)).copied().unwrap_or(b'A');
            bytes.into_iter().map(|byte| char::from(letter(byte))).collect()
        };
        let credentials = Credentials { ufrag: text(8), password: text(24) };
        let token = text(24);
        let ssrc = random.next_u32();
        Ok(Self {
            credentials,
            certificate: Certificate::generate()?,
            // 62 bits: it must be a positive number in any reader (RFC 8829 §5.2.1).
            session: random.next_u64() >> 2,
            ssrc: [ssrc, ssrc.wrapping_add(1)],
            timestamp_offset: random.next_u32(),
            token,
        })
    }
}
