//! The state machine of a call to a browser.

use std::{collections::VecDeque, net::SocketAddr, time::Instant};

use giusto_congestion::{Controller, FeedbackKind, Target, gcc::receive_side};
use giusto_session::media::{
    Cut, DEFAULT_MAX_PAYLOAD, ExtensionIds, Frame, KeyFrameRequest, MediaEndpoint, MediaEvent, MediaReceiver,
    MediaReceiverConfig, MediaSender, MediaSenderConfig, MediaStream, PLAYOUT_DEADLINE, Packetizer,
    PayloadFormat, PayloadHeader, RateRange, RepairConfig, SourceFigures, StreamFigures, StreamRepair,
    pacer_config,
};
use giusto_session::video::{SourceFrame, VideoCodec, VideoSource};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use crate::{
    dtls::{Certificate, Dtls, DtlsError, DtlsState},
    ice::{Credentials, IceLite, StunCounters},
    key_frames,
    sdp::{Answer, Offer, OfferError, Setup, Wanted},
    srtp::Srtp,
};

/// Header bytes below RTP: UDP over IPv4 or IPv6.
const OVERHEAD_V4: u64 = 28;
const OVERHEAD_V6: u64 = 48;
/// A padding packet has at most this many bytes after its header: their number is its last byte (RFC 3550 §5.1).
const MAX_PADDING: DataSize = DataSize::from_bytes(255);
/// The browser must have connected within this time. Chosen by us: a browser gives up after 15 to 30 s.
const CONNECT_TIMEOUT: TimeDelta = TimeDelta::from_seconds(30);
/// Time for which the host of a browser must say that nothing listens there: many of its reports. Chosen by us.
const REFUSED: TimeDelta = TimeDelta::from_seconds(1);
/// The most frames that are taken from the source at once. Chosen by us.
const MAX_FRAMES: usize = 4;
/// The most datagrams of STUN and DTLS that wait for being sent.
const MAX_QUEUE: usize = 64;
/// The least time between two key frames that the browser causes. Chosen by us, as libwebrtc's 300 ms
/// (`video_stream_encoder.cc`, `kMinKeyFrameRequestIntervalMs`).
const KEY_FRAME_INTERVAL: TimeDelta = TimeDelta::from_millis(300);

/// The most events that wait for [`BrowserPeer::poll_event`]; the oldest are dropped. Chosen by us.
const MAX_EVENTS: usize = 4096;

/// Configuration of a call.
#[derive(Debug, Clone)]
pub struct PeerConfig {
    /// The address of our socket, which the browser can reach.
    pub address: SocketAddr,
    /// The ECN codepoint of media packets. Default Not-ECT.
    pub ecn: Ecn,
    /// The feedback of the browser. Default `None`: that for which the controller was designed, otherwise any that it accepts.
    pub feedback: Option<FeedbackKind>,
    /// Whether lost packets are sent again (RFC 4588) when the browser requests them (RFC 4585 §6.2.1). Default `true`; without
    /// effect if the browser does not offer both.
    pub repair: bool,
    /// Time after which a packet is not sent again, because it would come too late. Default [`PLAYOUT_DEADLINE`].
    pub repair_deadline: TimeDelta,
    /// The media that come from the browser. Default `None`: none.
    pub receive: Option<ReceiveConfig>,
}

/// The media that come from the browser: one video, and Opus if its page sends any.
#[derive(Debug, Clone)]
pub struct ReceiveConfig {
    /// The codecs of the video, of which the browser's first is taken; where video also goes to the browser, both are VP8.
    pub codecs: Vec<VideoCodec>,
    /// With [`FeedbackKind::ReceiverEstimate`]: the constants of the estimate.
    pub receive_side: receive_side::Config,
}

impl Default for ReceiveConfig {
    fn default() -> Self {
        let codecs = vec![VideoCodec::Vp8, VideoCodec::H264, VideoCodec::Vp9];
        Self { codecs, receive_side: receive_side::Config::default() }
    }
}

/// A stream of the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Incoming {
    /// Its video.
    Video,
    /// Its audio.
    Audio,
}

impl PeerConfig {
    /// The defaults, for a socket that the browser reaches at `address`.
    pub const fn new(address: SocketAddr) -> Self {
        Self {
            address,
            ecn: Ecn::NotEct,
            feedback: None,
            repair: true,
            repair_deadline: PLAYOUT_DEADLINE,
            receive: None,
        }
    }
}

/// The video of a call, and the controller of its rate.
#[derive(Debug)]
pub struct PeerMedia {
    /// Where frames come from: VP8.
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
    fn poll_packet(&mut self, now: Timestamp) -> Option<SourceFrame>;
}

/// The RTP clock of Opus (RFC 7587 §4.1).
const OPUS_CLOCK: u32 = 48_000;
/// The stream of speech at the sender, after the video.
const VOICE_STREAM: usize = 1;

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

/// Why a call ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndReason {
    /// We ended it.
    #[error("ended here")]
    Local,
    /// The browser closed it.
    #[error("the browser ended the call")]
    Browser,
    /// It never connected.
    #[error(
        "the browser did not connect within {CONNECT_TIMEOUT}: is UDP to {address} open? It sent {checks} checks"
    )]
    NotConnected {
        /// The address of our socket.
        address: SocketAddr,
        /// Authenticated checks.
        checks: u64,
    },
    /// Its checks ceased.
    #[error("the browser disappeared: no check of it for 30 s (RFC 7675)")]
    ConsentExpired,
    /// Its host says that nothing listens at its port.
    #[error("the browser disappeared: its host answers that nothing listens at its port any more")]
    Gone,
    /// The connection could not be secured.
    #[error("{0}")]
    Insecure(String),
}

/// What a call has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerState {
    /// Waits for the browser's checks and the DTLS handshake.
    Connecting,
    /// Sends media.
    Connected,
    /// Nothing more is sent, except the queued goodbye.
    Ended(EndReason),
}

/// Counts of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct PeerCounters {
    /// Messages of ICE.
    pub stun: StunCounters,
    /// Datagrams that are none of STUN, DTLS, RTP and RTCP (RFC 7983), or came from an address without an authenticated check.
    pub strange_datagrams: u64,
    /// SRTP and SRTCP packets that were forged, repeated or damaged.
    pub refused_packets: u64,
    /// RTCP datagrams of the browser.
    pub rtcp_datagrams: u64,
    /// Requests of a key frame by the browser.
    pub key_frame_requests: u64,
    /// Frames sent.
    pub frames: u64,
    /// Key frames sent.
    pub key_frames: u64,
    /// Frames skipped because the queue was too old.
    pub skipped_frames: u64,
    /// Frames that the session did not accept.
    pub refused_frames: u64,
    /// UDP datagrams of media, padding and RTCP.
    pub sent_datagrams: u64,
    /// Their bytes, headers of UDP and IP not included.
    pub sent_bytes: u64,
    /// Datagrams of media that were sent again.
    pub retransmitted_datagrams: u64,
    /// Packets that the browser requested, each time counted.
    pub requested_packets: u64,
    /// Requested packets that were not sent again because they would have come too late.
    pub late_repairs: u64,
    /// Padding packets among them.
    pub padding_datagrams: u64,
    /// Changes of the browser's address.
    pub address_changes: u64,
    /// UDP datagrams of the browser's media.
    pub received_datagrams: u64,
    /// Their bytes, headers of UDP and IP not included.
    pub received_bytes: u64,
}

/// A datagram to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// Where it goes.
    pub to: SocketAddr,
    /// Its ECN codepoint.
    pub ecn: Ecn,
    /// Whether it is RTP or RTCP; otherwise STUN or DTLS.
    pub is_media: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Our end of a call to a browser: answers its checks, secures the connection, and sends it video at the controller's rate.
///
/// It has no clock and no socket. After each `handle_` call, call [`poll_transmit`](Self::poll_transmit) until it returns `None`,
/// then [`poll_timeout`](Self::poll_timeout). [`poll_event`](Self::poll_event) returns what happened to the media.
#[derive(Debug)]
pub struct BrowserPeer {
    config: PeerConfig,
    offer: Offer,
    feedback: FeedbackKind,
    ssrc: [u32; 2],
    timestamp_offset: u32,
    ice: IceLite,
    dtls: Dtls,
    srtp: Option<Srtp>,
    endpoint: MediaEndpoint,
    source: Option<Box<dyn VideoSource>>,
    voice: Option<Box<dyn VoiceSource>>,
    /// The synchronisation sources of the browser's video and audio, once known.
    incoming: [Option<u32>; 2],
    /// The RTP timestamps of the first frame and the first packet of speech by their sources: those of the streams begin at their
    /// offset.
    first_timestamp: Option<u32>,
    first_voice: Option<u32>,
    /// Until it is connected.
    controller: Option<Box<dyn Controller>>,
    events: VecDeque<MediaEvent>,
    queue: VecDeque<(SocketAddr, Vec<u8>, bool)>,
    state: PeerState,
    /// When something authentic came from the browser.
    heard_at: Timestamp,
    /// Since when its host says that nothing listens at its port, unless something has come since.
    refused_since: Option<Timestamp>,
    counters: PeerCounters,
    /// Where media go.
    address: Option<SocketAddr>,
    began: Timestamp,
    connected_at: Option<Timestamp>,
    key_frame_at: Option<Timestamp>,
    now: Timestamp,
}

impl BrowserPeer {
    /// Reads an offer and answers it. Without `media`, nothing is sent. `origin` is time 0 for the DTLS library.
    ///
    /// # Errors
    ///
    /// [`OfferError`] says what the offer lacks; the media are returned.
    pub fn answer(
        now: Timestamp,
        offer: &str,
        config: PeerConfig,
        secrets: &Secrets,
        media: Option<PeerMedia>,
        origin: Instant,
    ) -> Result<(Self, String), (OfferError, Option<PeerMedia>)> {
        let wanted = Wanted {
            sends: media.is_some(),
            sends_voice: media.as_ref().is_some_and(|media| media.voice.is_some()),
            receives: config.receive.as_ref().map(|receive| &receive.codecs[..]),
        };
        let read = Offer::parse_for(offer, wanted).and_then(|offer| {
            let feedback = match &media {
                Some(media) => offer.choose_feedback(&media.controller.requirements(), config.feedback)?,
                None => offer.choose_own_feedback(config.feedback)?,
            };
            Ok((offer, feedback))
        });
        let (offer, feedback) = match read {
            Ok(read) => read,
            Err(error) => return Err((error, media)),
        };
        let (mut source, mut controller, mut voice) = (None, None, None);
        if let Some(media) = media {
            (source, controller, voice) = (Some(media.source), Some(media.controller), media.voice);
        }
        let Secrets { credentials, certificate, session, ssrc, timestamp_offset, .. } = secrets;
        let answer = offer.answer(&Answer {
            session: *session,
            address: config.address,
            ufrag: &credentials.ufrag,
            password: &credentials.password,
            fingerprint: certificate.fingerprint(),
            feedback,
            nack: config.repair && offer.repairs(),
            ssrc: ssrc[0],
            rtx_ssrc: ssrc[1],
            audio_ssrc: ssrc[1].wrapping_add(1),
        });
        let is_client = offer.setup == Setup::Passive;
        let peer = Self {
            ice: IceLite::new(credentials.clone(), &offer.ufrag),
            dtls: Dtls::new(certificate, Some(offer.fingerprint), is_client, origin),
            config,
            offer,
            feedback,
            ssrc: *ssrc,
            timestamp_offset: *timestamp_offset,
            srtp: None,
            endpoint: MediaEndpoint::new(None, None),
            source,
            voice,
            incoming: [None; 2],
            first_timestamp: None,
            first_voice: None,
            controller,
            events: VecDeque::new(),
            queue: VecDeque::new(),
            state: PeerState::Connecting,
            heard_at: now,
            refused_since: None,
            counters: PeerCounters::default(),
            address: None,
            began: now,
            connected_at: None,
            key_frame_at: None,
            now,
        };
        Ok((peer, answer))
    }

    /// What it has reached.
    pub fn state(&self) -> &PeerState {
        &self.state
    }

    /// Counts so far.
    pub fn counters(&self) -> PeerCounters {
        let stream = self.stream(self.now).unwrap_or_default();
        PeerCounters {
            stun: self.ice.counters(),
            retransmitted_datagrams: stream.retransmitted_packets,
            requested_packets: stream.requested_packets,
            late_repairs: stream.late_repairs,
            ..self.counters
        }
    }

    /// The media of a call that never connected, for the next one; `None`: it has none, or it connected.
    pub fn into_media(self) -> Option<PeerMedia> {
        Some(PeerMedia { source: self.source?, controller: self.controller?, voice: self.voice })
    }

    /// Whether lost packets are sent again when the browser requests them.
    pub fn repairs(&self) -> bool {
        self.config.repair && self.offer.repairs()
    }

    /// The synchronisation source of the video.
    pub fn ssrc(&self) -> u32 {
        self.ssrc[0]
    }

    /// Bytes of the headers of IP and UDP.
    pub fn network_headers(&self) -> DataSize {
        let is_v6 = self.address.is_some_and(|address| address.ip().to_canonical().is_ipv6());
        DataSize::from_bytes(if is_v6 { OVERHEAD_V6 } else { OVERHEAD_V4 })
    }

    /// Bytes of all headers below RTP: IP, UDP and SRTP.
    pub fn overhead(&self) -> DataSize {
        self.network_headers() + DataSize::from_bytes(self.srtp.as_ref().map_or(0, Srtp::overhead))
    }

    /// Datagrams of RTCP and of RTP received so far.
    pub(crate) fn arrived_datagrams(&self) -> (u64, u64) {
        (self.counters.rtcp_datagrams, self.counters.received_datagrams)
    }

    /// Whether Opus comes from the browser.
    pub fn receives_audio(&self) -> bool {
        self.offer.opus().is_some_and(|(.., receives)| receives)
    }

    /// The sender of the media, once connected.
    pub fn sender(&self) -> Option<&MediaSender> {
        self.endpoint.sender()
    }

    /// The next event of the media, if any. The oldest are dropped if nobody takes them.
    pub fn poll_event(&mut self) -> Option<MediaEvent> {
        self.events.pop_front()
    }

    /// The feedback that was agreed upon.
    pub fn feedback(&self) -> FeedbackKind {
        self.feedback
    }

    /// Version of DTLS and profile of SRTP, once known.
    pub fn security(&self) -> (Option<&'static str>, Option<&str>) {
        (self.dtls.version(), self.srtp.as_ref().map(Srtp::profile))
    }

    /// Time at which media could first be sent.
    pub fn connected_at(&self) -> Option<Timestamp> {
        self.connected_at
    }

    /// Where media go.
    pub fn browser_address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The target of the controller, once connected.
    pub fn target(&self) -> Option<Target> {
        self.endpoint.sender().map(MediaSender::target)
    }

    /// Figures of the video stream.
    pub fn stream(&self, now: Timestamp) -> Option<StreamFigures> {
        self.endpoint.sender()?.figures(now).next()
    }

    /// Handles a received datagram by its first byte (RFC 7983 §7).
    pub fn handle_datagram(&mut self, now: Timestamp, from: SocketAddr, bytes: &[u8], ecn: Ecn) {
        self.now = self.now.max(now);
        let now = self.now;
        if matches!(self.state, PeerState::Ended(_)) {
            return;
        }
        match bytes.first() {
            Some(0..=3) => {
                if let Some(answer) = self.ice.handle(now, from, bytes) {
                    self.heard_at = now;
                    self.enqueue(from, answer, false);
                }
                self.follow_address(now);
                // A client opens the connection once it has an address.
                if self.dtls_client() && self.ice.target().is_some() {
                    let outcome = self.dtls.handle_timeout(now);
                    self.after_dtls(now, outcome);
                }
            }
            Some(20..=63) if self.ice.is_checked(from) => {
                let outcome = self.dtls.handle(now, bytes);
                self.after_dtls(now, outcome);
            }
            Some(128..=191) if self.ice.is_checked(from) => {
                let Some(srtp) = &mut self.srtp else {
                    self.counters.refused_packets += 1;
                    return;
                };
                match srtp.unprotect(bytes) {
                    Ok(clear) => {
                        self.heard_at = now;
                        if !crate::srtp::is_rtcp(&clear) {
                            self.counters.received_bytes += bytes.len() as u64;
                        }
                        self.handle_clear(now, &clear, ecn);
                    }
                    Err(_) => self.counters.refused_packets += 1,
                }
            }
            _ => self.counters.strange_datagrams += 1,
        }
    }

    /// The host at `to` says that nothing listens at that port (ICMP). Anybody could send such a message: it ends the call only with
    /// others of a second in which nothing comes from the browser.
    pub fn handle_unreachable(&mut self, now: Timestamp, to: SocketAddr) {
        self.now = self.now.max(now);
        if self.address != Some(to) || self.state != PeerState::Connected {
            return;
        }
        let since = *self
            .refused_since
            .insert(self.refused_since.filter(|&since| since > self.heard_at).unwrap_or(self.now));
        if self.now.saturating_since(since) >= REFUSED {
            self.end(self.now, EndReason::Gone);
        }
    }

    fn dtls_client(&self) -> bool {
        self.offer.setup == Setup::Passive && self.dtls.state() == DtlsState::Handshake
    }

    fn handle_clear(&mut self, now: Timestamp, clear: &[u8], ecn: Ecn) {
        if !crate::srtp::is_rtcp(clear) {
            self.handle_media(now, clear, ecn);
            return;
        }
        self.counters.rtcp_datagrams += 1;
        let requests = key_frames::requests(clear, self.ssrc[0]);
        if requests > 0 {
            self.counters.key_frame_requests += requests;
            self.want_key_frame(now);
        }
        self.endpoint.handle_datagram(now, clear, ecn);
        self.drain_events(now);
    }

    /// Handles RTP, of the payload types of the answer.
    fn handle_media(&mut self, now: Timestamp, clear: &[u8], ecn: Ecn) {
        let Ok((header, _)) = giusto_rtp::RtpHeader::parse(clear) else {
            self.counters.strange_datagrams += 1;
            return;
        };
        let number = header.payload_type;
        let opus = self.offer.opus().filter(|(.., receives)| *receives);
        let [video, audio] = &mut self.incoming;
        if self.config.receive.is_none() {
            self.counters.strange_datagrams += 1;
            return;
        } else if number == self.offer.payload_type {
            *video = Some(header.ssrc);
        } else if opus.is_some_and(|(opus, ..)| opus == number) {
            *audio = Some(header.ssrc);
        } else if Some(number) != self.offer.rtx {
            self.counters.strange_datagrams += 1;
            return;
        }
        self.counters.received_datagrams += 1;
        self.endpoint.handle_datagram(now, clear, ecn);
        self.drain_events(now);
    }

    /// The synchronisation source of the speech that goes to the browser.
    pub fn voice_ssrc(&self) -> Option<u32> {
        self.voice_line().map(|_| self.ssrc[1].wrapping_add(1))
    }

    /// Which stream of the browser has this synchronisation source.
    pub fn incoming(&self, ssrc: u32) -> Option<Incoming> {
        let [video, audio] = self.incoming.map(|known| known == Some(ssrc));
        if video { Some(Incoming::Video) } else { audio.then_some(Incoming::Audio) }
    }

    /// Figures of the browser's streams.
    pub fn received(&self) -> impl Iterator<Item = (Incoming, SourceFigures)> {
        let sources = self.endpoint.receiver().into_iter().flat_map(MediaReceiver::sources);
        sources.filter_map(|figures| Some((self.incoming(figures.ssrc)?, figures)))
    }

    /// The codec of the video.
    pub fn codec(&self) -> VideoCodec {
        self.offer.codec
    }

    /// Whether video goes to the browser, and whether any comes from it.
    pub fn directions(&self) -> (bool, bool) {
        (self.source.is_some(), self.config.receive.is_some())
    }

    fn want_key_frame(&mut self, now: Timestamp) {
        if self.key_frame_at.is_none_or(|last| now >= last + KEY_FRAME_INTERVAL) {
            self.key_frame_at = Some(now);
            if let Some(source) = &mut self.source {
                source.request_key_frame(now);
            }
        }
    }

    /// Handles the deadline of [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        let now = self.now;
        if matches!(self.state, PeerState::Ended(_)) {
            return;
        }
        if self.state == PeerState::Connecting && now >= self.began + CONNECT_TIMEOUT {
            let checks = self.ice.counters().checks;
            return self.end(now, EndReason::NotConnected { address: self.config.address, checks });
        }
        if self.ice.expires_at().is_some_and(|at| at <= now) {
            return self.end(now, EndReason::ConsentExpired);
        }
        if self.dtls.poll_timeout().is_some_and(|at| at <= now) {
            let outcome = self.dtls.handle_timeout(now);
            self.after_dtls(now, outcome);
        }
        if self.state == PeerState::Connected {
            self.push_due_frames(now);
            self.push_due_voice(now);
            self.endpoint.handle_timeout(now);
            self.drain_events(now);
        }
    }

    /// The next datagram to send at once, if any.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        self.now = self.now.max(now);
        if let Some((to, bytes, is_media)) = self.queue.pop_front() {
            return Some(Transmit { to, ecn: Ecn::NotEct, is_media, bytes });
        }
        let to = self.address?;
        loop {
            let datagram = self.endpoint.poll_transmit(self.now)?;
            let ecn = datagram.ecn;
            let is_padding = is_padding(&datagram.head, self.ssrc[1]);
            let mut clear = datagram.to_vec();
            if is_padding {
                mark_padding(&mut clear, datagram.payload.size().as_bytes());
            }
            let protected = self.srtp.as_mut()?.protect(&clear);
            self.drain_events(self.now);
            let Ok(bytes) = protected else {
                self.counters.refused_packets += 1;
                continue;
            };
            self.counters.sent_datagrams += 1;
            self.counters.sent_bytes += bytes.len() as u64;
            self.counters.padding_datagrams += u64::from(is_padding);
            return Some(Transmit { to, ecn, is_media: true, bytes });
        }
    }

    /// The system did not take this datagram of [`poll_transmit`](Self::poll_transmit): it does not count as sent.
    pub fn on_unsent(&mut self, transmit: &Transmit) {
        if transmit.is_media {
            let counters = &mut self.counters;
            counters.sent_datagrams = counters.sent_datagrams.saturating_sub(1);
            counters.sent_bytes = counters.sent_bytes.saturating_sub(transmit.bytes.len() as u64);
        }
    }

    /// Time at which [`handle_timeout`](Self::handle_timeout) must be called next; `None` once the call has ended.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let connected = match self.state {
            PeerState::Ended(_) => return None,
            PeerState::Connecting => return self.earliest(Some(self.began + CONNECT_TIMEOUT)),
            PeerState::Connected => [self.next_frame_at(), self.endpoint.poll_timeout()],
        };
        self.earliest(connected.into_iter().flatten().min())
    }

    fn next_frame_at(&self) -> Option<Timestamp> {
        let voice = self.voice_line().and_then(|(_, voice)| voice.next_packet_at());
        let video = self.source.as_ref().and_then(|source| source.next_frame_at());
        [video, voice].into_iter().flatten().min()
    }

    fn earliest(&self, other: Option<Timestamp>) -> Option<Timestamp> {
        [other, self.ice.expires_at(), self.dtls.poll_timeout()].into_iter().flatten().min()
    }

    /// Ends the call and notifies the browser.
    pub fn stop(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        if !matches!(self.state, PeerState::Ended(_)) {
            self.end(self.now, EndReason::Local);
        }
    }

    /// The browser's page has said that it ends the call.
    pub fn on_page_closed(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        if !matches!(self.state, PeerState::Ended(_)) {
            self.end(self.now, EndReason::Browser);
        }
    }

    fn end(&mut self, now: Timestamp, reason: EndReason) {
        self.endpoint.stop(now);
        if matches!(reason, EndReason::Local | EndReason::Browser) {
            // The goodbye of RTCP goes first, then that of DTLS.
            while let Some((to, bytes)) = self.next_goodbye(now) {
                self.enqueue(to, bytes, true);
            }
            self.dtls.close();
            self.send_dtls();
        }
        self.state = PeerState::Ended(reason);
    }

    fn next_goodbye(&mut self, now: Timestamp) -> Option<(SocketAddr, Vec<u8>)> {
        let to = self.address?;
        let datagram = self.endpoint.poll_transmit(now)?;
        let bytes = self.srtp.as_mut()?.protect(&datagram.to_vec()).ok()?;
        Some((to, bytes))
    }

    fn enqueue(&mut self, to: SocketAddr, bytes: Vec<u8>, is_media: bool) {
        if self.queue.len() >= MAX_QUEUE {
            self.queue.pop_front();
        }
        self.queue.push_back((to, bytes, is_media));
    }

    fn send_dtls(&mut self) {
        while let Some(bytes) = self.dtls.poll_transmit() {
            if let Some(to) = self.ice.target() {
                self.enqueue(to, bytes, false);
            }
        }
    }

    fn follow_address(&mut self, now: Timestamp) {
        let selected = self.ice.selected();
        if selected.is_none() || selected == self.address {
            return;
        }
        if self.address.is_some() {
            self.counters.address_changes += 1;
            if let Some(sender) = self.endpoint.sender_mut() {
                sender.on_route_change(now);
            }
        }
        self.address = selected;
        self.connect(now);
    }

    fn after_dtls(&mut self, now: Timestamp, outcome: Result<(), DtlsError>) {
        let secured = outcome.and_then(|()| {
            if let Some(keys) = self.dtls.take_keys() {
                self.srtp = Some(Srtp::new(&keys)?);
            }
            Ok(())
        });
        self.send_dtls();
        match secured {
            Err(error) => self.end(now, EndReason::Insecure(error.to_string())),
            Ok(()) if self.dtls.state() == DtlsState::Closed => self.end(now, EndReason::Browser),
            Ok(()) => self.connect(now),
        }
    }

    /// Media begin once there are an address and keys.
    fn connect(&mut self, now: Timestamp) {
        if self.address.is_none() || self.srtp.is_none() || self.state != PeerState::Connecting {
            return;
        }
        if (self.source.is_some(), self.config.receive.is_some()) == (false, false) {
            return;
        }
        let sender = self.source.as_ref().map(|source| source.limits()).zip(self.controller.take());
        let sender = sender.map(|(limits, controller)| self.media_sender(limits, controller));
        let receiver = self.config.receive.as_ref().and_then(|receive| self.media_receiver(receive));
        self.endpoint = MediaEndpoint::new(sender, receiver);
        self.state = PeerState::Connected;
        self.connected_at = Some(now);
        if let Some(source) = &mut self.source {
            source.request_key_frame(now);
        }
    }

    fn extension_ids(&self) -> ExtensionIds {
        let ids = ExtensionIds::default();
        ExtensionIds {
            transport_sequence: self.offer.transport_sequence.unwrap_or(ids.transport_sequence),
            abs_send_time: self.offer.abs_send_time.unwrap_or(ids.abs_send_time),
            // Not offered: a browser gets no packets with it.
            capture_time: 0,
        }
    }

    /// The receiving half. `None`: the constants of the estimate are out of range.
    fn media_receiver(&self, receive: &ReceiveConfig) -> Option<MediaReceiver> {
        let video =
            PayloadFormat::video(self.offer.payload_type).with_header(self.offer.codec.payload_header());
        let rtx = self.offer.rtx.map(|rtx| PayloadFormat::rtx(rtx, self.offer.payload_type));
        let opus = self.offer.opus().map(|(opus, ..)| PayloadFormat::audio(opus, OPUS_CLOCK));
        let config = MediaReceiverConfig {
            payloads: [Some(video), rtx, opus].into_iter().flatten().collect(),
            repair: RepairConfig { nack: self.repairs(), key_frames: KeyFrameRequest::PictureLoss },
            playout_deadline: self.config.repair_deadline,
            receive_side: receive.receive_side,
            overhead: self.overhead(),
            extension_ids: self.extension_ids(),
            numbers_from_timestamp: false,
            ..MediaReceiverConfig::new(self.ssrc[0], "giusto", self.feedback)
        };
        MediaReceiver::new(config).ok()
    }

    fn media_sender(&self, limits: RateRange, controller: Box<dyn Controller>) -> MediaSender {
        let needs = controller.requirements();
        let config = MediaSenderConfig {
            feedback: self.feedback,
            pacer: pacer_config(needs.pacer),
            overhead: self.overhead(),
            ecn: self.config.ecn,
            padding: (self.ssrc[1], self.offer.rtx.unwrap_or(self.offer.payload_type)),
            max_padding: MAX_PADDING,
            extension_ids: self.extension_ids(),
            ..MediaSenderConfig::default()
        };
        let packetizer = Packetizer::new(DEFAULT_MAX_PAYLOAD, Cut::Even)
            .and_then(|packetizer| packetizer.with_header(PayloadHeader::Vp8))
            .unwrap_or_default();
        let stream = MediaStream {
            // The first sequence number is made of the lower 16 bits. SRTP needs the first packet to be below 2^15, lest a loss
            // hides a rollover (RFC 3711 §3.3.1).
            timestamp_offset: self.timestamp_offset & !0x8000,
            packetizer,
            skip_after: needs.staleness.skip_after,
            // Discarding would end within a frame whose successors refer to it: a key frame follows at once.
            discard_after: needs.staleness.discard_after,
            repair: StreamRepair {
                rtx: self.offer.rtx.filter(|_| self.repairs()).map(|rtx| (self.ssrc[1], rtx)),
                deadline: self.config.repair_deadline,
                ..StreamRepair::default()
            },
            ..MediaStream::video(self.ssrc[0], self.offer.payload_type, limits)
        };
        let voice = self.voice_line().map(|(payload_type, voice)| MediaStream {
            timestamp_offset: self.timestamp_offset.rotate_left(16) & !0x8000,
            ..MediaStream::audio(self.ssrc[1].wrapping_add(1), payload_type, OPUS_CLOCK, voice.rate())
        });
        MediaSender::new(config, controller, std::iter::once(stream).chain(voice).collect())
    }

    /// The payload type and the source of speech, if the browser receives any.
    fn voice_line(&self) -> Option<(u8, &dyn VoiceSource)> {
        let (payload_type, ..) = self.offer.opus().filter(|(_, sends, _)| *sends)?;
        Some((payload_type, self.voice.as_deref()?))
    }

    fn push_due_voice(&mut self, now: Timestamp) {
        if self.voice_line().is_none() {
            return;
        }
        for _ in 0..MAX_FRAMES {
            let Some(voice) = &mut self.voice else { return };
            if voice.next_packet_at().is_none_or(|at| at > now) {
                return;
            }
            let Some(packet) = voice.poll_packet(now) else { return };
            let first = *self.first_voice.get_or_insert(packet.media_timestamp);
            let media_timestamp = packet.media_timestamp.wrapping_sub(first);
            let frame =
                Frame { captured: packet.captured, media_timestamp, payload: packet.payload, key: false };
            if self.endpoint.push_frame(now, VOICE_STREAM, frame).is_err() {
                self.counters.refused_frames += 1;
            }
        }
    }

    fn push_due_frames(&mut self, now: Timestamp) {
        for _ in 0..MAX_FRAMES {
            if self.source.as_ref().and_then(|source| source.next_frame_at()).is_none_or(|at| at > now) {
                return;
            }
            let is_wanted = self.endpoint.wants_frame(now, 0);
            // Discards may have asked for a key frame.
            self.drain_events(now);
            let Some(source) = &mut self.source else { return };
            let Some(frame) = source.poll_frame(now) else { return };
            if !is_wanted {
                self.endpoint.skip_frame(now, 0);
                source.on_skipped(now);
                self.counters.skipped_frames += 1;
                continue;
            }
            let (key, first) = (frame.key, *self.first_timestamp.get_or_insert(frame.media_timestamp));
            let media_timestamp = frame.media_timestamp.wrapping_sub(first);
            let frame = Frame { captured: frame.captured, media_timestamp, payload: frame.payload, key };
            if self.endpoint.push_frame(now, 0, frame).is_ok() {
                self.counters.frames += 1;
                self.counters.key_frames += u64::from(key);
            } else {
                self.counters.refused_frames += 1;
            }
        }
    }

    fn drain_events(&mut self, now: Timestamp) {
        while let Some(event) = self.endpoint.poll_event() {
            match &event {
                MediaEvent::Target { stream: 0, rate, .. } => {
                    if let Some(source) = &mut self.source {
                        source.set_target(now, (*rate).max(DataRate::from_bps(1)));
                    }
                }
                MediaEvent::KeyFrameWanted { .. } => self.want_key_frame(now),
                _ => {}
            }
            if self.events.len() >= MAX_EVENTS {
                self.events.pop_front();
            }
            self.events.push_back(event);
        }
    }
}

/// Whether a datagram with this header is padding: of the source of padding and retransmissions, whose header a retransmission makes
/// longer by the number of the original packet (RFC 4588 §4).
fn is_padding(head: &[u8], padding: u32) -> bool {
    if crate::srtp::is_rtcp(head) || head.get(8..12) != Some(&padding.to_be_bytes()) {
        return false;
    }
    let extension = if head.first().is_some_and(|first| first & 0x10 != 0) {
        let words = head.get(14..16).and_then(|it| it.try_into().ok()).map_or(0, u16::from_be_bytes);
        4 + 4 * usize::from(words)
    } else {
        0
    };
    head.len() == 12 + extension
}

/// Makes a padding packet of RFC 3550 §5.1 of one that ends with this many zeros.
fn mark_padding(packet: &mut [u8], zeros: u64) {
    if let (Ok(zeros), Some(first)) = (u8::try_from(zeros), packet.first_mut()) {
        *first |= 0x20;
        if let Some(last) = packet.last_mut() {
            *last = zeros;
        }
    }
}
