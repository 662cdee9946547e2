//! A browser in a test: checks by ICE, DTLS, SRTP, and feedback.
#![allow(dead_code, reason = "each test uses a part")]

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use dimpl::{Config, DtlsCertificate, Output};
use giusto_congestion::{Algorithm, Limits};
use giusto_net::Clock;
use giusto_rtp::{
    ExtensionElements, RtpHeader, TransportSequence,
    rtcp::{Arrival, Packets, TransportFeedback, TransportFeedbackEncoder},
    vp8::Vp8Descriptor,
};
use giusto_session::{
    media::{Frame, Payload, RateRange},
    video::{VideoCodec, VideoSource, media_timestamp},
};
use giusto_units::{DataRate, Ecn, TimeDelta, Timestamp};
use giusto_webrtc::{
    Fingerprint,
    ice::Credentials,
    peer::{BrowserPeer, PeerConfig, PeerMedia, PeerState, ReceiveConfig, Secrets},
    srtp::{MasterKeys, Srtp},
};
use is::{
    DefaultSha1HmacProvider, Sha1HmacProvider as _,
    stun::{StunMessage, TransId},
};
use rand::SeedableRng as _;

pub(crate) const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 5000);
pub(crate) const BROWSER: ([u8; 4], u16) = ([192, 0, 2, 9], 6000);
/// Time from the browser to giusto; the other way takes none.
const DELAY: TimeDelta = TimeDelta::from_millis(5);
/// The header extension of the test's offer; not the one of giusto's own sessions.
pub(crate) const EXTENSION: u8 = 5;

pub(crate) fn sha1(key: &[u8], parts: &[&[u8]]) -> [u8; 20] {
    DefaultSha1HmacProvider.sha1_hmac(key, parts)
}

/// Frames of distinct bytes at the rate that is asked for, 25 a second.
#[derive(Debug)]
pub(crate) struct Counting {
    rate: DataRate,
    key: bool,
    next: u32,
    due: Timestamp,
}

impl Counting {
    const INTERVAL: TimeDelta = TimeDelta::from_millis(40);

    pub(crate) fn new() -> Self {
        Self { rate: DataRate::from_bps(200_000), key: true, next: 0, due: Timestamp::ZERO }
    }

    /// The frame with this number has these bytes.
    pub(crate) fn bytes(number: u32, length: usize) -> Vec<u8> {
        number.to_be_bytes().into_iter().cycle().take(length).collect()
    }
}

impl VideoSource for Counting {
    fn codec(&self) -> VideoCodec {
        VideoCodec::Vp8
    }

    fn limits(&self) -> RateRange {
        RateRange::new(DataRate::from_bps(100_000), DataRate::from_bps(2_000_000)).unwrap()
    }

    fn next_frame_at(&self) -> Option<Timestamp> {
        Some(self.due)
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        if now < self.due {
            return None;
        }
        if now.saturating_since(self.due) > Self::INTERVAL {
            self.due = now;
        }
        let captured = self.due;
        self.due += Self::INTERVAL;
        self.next += 1;
        let size = self.rate.size_in(Self::INTERVAL).as_bytes() as usize;
        let payload = Payload::from(Self::bytes(self.next, size));
        let media_timestamp = media_timestamp(Timestamp::ZERO, captured);
        Some(Frame { captured, media_timestamp, payload, key: std::mem::take(&mut self.key) })
    }

    fn set_target(&mut self, _: Timestamp, rate: DataRate) {
        self.rate = rate;
    }

    fn request_key_frame(&mut self, _: Timestamp) {
        self.key = true;
    }

    fn on_skipped(&mut self, _: Timestamp) {}
}

/// The same for the same seed, except for the certificate, which is made once for each.
pub(crate) fn secrets(seed: u64) -> Secrets {
    static MADE: Mutex<BTreeMap<u64, Secrets>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    let draw = || Secrets::draw(&mut rand::rngs::StdRng::seed_from_u64(seed)).unwrap();
    made.entry(seed).or_insert_with(draw).clone()
}

pub(crate) fn config() -> PeerConfig {
    PeerConfig::new(SERVER.into())
}

/// A source and a controller of at most 2 Mbit/s.
pub(crate) fn media(controller: &str, source: impl VideoSource + 'static) -> PeerMedia {
    let limits = Limits::DEFAULT.with_max(DataRate::from_bps(2_000_000));
    let controller = controller.parse::<Algorithm>().unwrap().build(limits);
    PeerMedia { source: Box::new(source), controller, voice: None }
}

pub(crate) fn credentials() -> Credentials {
    Credentials { ufrag: "brow".to_owned(), password: "a password of the browser".replace(' ', "-") }
}

/// A binding request.
pub(crate) fn check(username: &str, password: &str, nominate: bool) -> Vec<u8> {
    let request = StunMessage::binding_request(username, TransId::new(), true, 7, 1, nominate);
    let mut buffer = vec![0; 512];
    let length = request.to_bytes(Some(password.as_bytes()), &mut buffer, sha1).unwrap();
    buffer.truncate(length);
    buffer
}

/// An offer of one video line with transport-cc.
pub(crate) fn offer(fingerprint: Fingerprint, setup: &str) -> String {
    let Credentials { ufrag, password } = credentials();
    let uri = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01";
    [
        "v=0",
        "o=- 1 1 IN IP4 127.0.0.1",
        "s=-",
        "t=0 0",
        "m=video 9 UDP/TLS/RTP/SAVPF 96 97",
        "c=IN IP4 0.0.0.0",
        &format!("a=ice-ufrag:{ufrag}"),
        &format!("a=ice-pwd:{password}"),
        &format!("a=fingerprint:{fingerprint}"),
        &format!("a=setup:{setup}"),
        "a=mid:0",
        "a=recvonly",
        "a=rtcp-mux",
        "a=rtcp-rsize",
        "a=rtpmap:96 VP8/90000",
        "a=rtcp-fb:96 transport-cc",
        "a=rtcp-fb:96 nack",
        "a=rtcp-fb:96 nack pli",
        &format!("a=extmap:{EXTENSION} {uri}"),
        "a=rtpmap:97 rtx/90000",
        "a=fmtp:97 apt=96",
        "",
    ]
    .join("\r\n")
}

#[derive(Clone, Copy)]
pub(crate) enum Version {
    Dtls12,
    Newest,
}

/// The other end, and both ends' network.
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub(crate) struct Browser {
    pub(crate) now: Timestamp,
    pub(crate) peer: BrowserPeer,
    pub(crate) answer: String,
    dtls: dimpl::Dtls,
    origin: Instant,
    is_client: bool,
    certificate: Option<Vec<u8>>,
    pub(crate) srtp: Option<Srtp>,
    server: Credentials,
    pub(crate) address: SocketAddr,
    /// Datagrams to giusto, and when they arrive.
    outgoing: VecDeque<(Timestamp, Vec<u8>)>,
    /// Received packets: header and payload, padding not removed.
    pub(crate) packets: Vec<(RtpHeader, Vec<u8>, Vec<u8>)>,
    pub(crate) frames: Vec<Vec<u8>>,
    partial: Vec<u8>,
    pub(crate) goodbyes: usize,
    pub(crate) closed: bool,
    arrivals: Vec<Arrival>,
    encoder: TransportFeedbackEncoder,
    first: u64,
    last_sequence: Option<(u16, u64)>,
    next_check: Timestamp,
    /// Whether it sends checks and feedback.
    pub(crate) silent: bool,
    /// Whether its checks nominate its address.
    pub(crate) nominates: bool,
}

impl Browser {
    /// One to which giusto sends, connected for this time.
    pub(crate) fn connected(time: TimeDelta) -> Self {
        let mut browser = Self::new("gcc:libwebrtc", Version::Newest, "actpass", None);
        browser.connect();
        browser.run(time);
        browser
    }

    /// `expected`: the fingerprint of its offer, if not that of its certificate.
    pub(crate) fn new(
        controller: &str,
        version: Version,
        setup: &str,
        expected: Option<Fingerprint>,
    ) -> Self {
        Self::of(Some(controller), version, setup, expected)
    }

    /// One that sends video to giusto.
    pub(crate) fn sending() -> Self {
        Self::of(None, Version::Newest, "actpass", None)
    }

    /// Without a controller, it sends.
    fn of(controller: Option<&str>, version: Version, setup: &str, expected: Option<Fingerprint>) -> Self {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
        let fingerprint = Fingerprint::of(certificate.der());
        let ours =
            DtlsCertificate { certificate: certificate.der().to_vec(), private_key: key.serialize_der() };
        let origin = Clock::start().origin_instant();
        let settings = Arc::new(Config::default());
        let mut dtls = match version {
            Version::Dtls12 => dimpl::Dtls::new_12(settings, ours, origin),
            Version::Newest => dimpl::Dtls::new_auto(settings, ours, origin),
        };
        let is_client = setup != "passive";
        dtls.set_active(is_client);
        let now = Timestamp::from_nanos(1_000_000);
        let secrets = secrets(1);
        let text = offer(expected.unwrap_or(fingerprint), setup);
        let media = controller.map(|controller| media(controller, Counting::new()));
        let receive = media.is_none().then(ReceiveConfig::default);
        let text = if media.is_none() { text.replace("a=recvonly", "a=sendonly") } else { text };
        let config = PeerConfig { receive, ..config() };
        let answered = BrowserPeer::answer(now, &text, config, &secrets, media, origin);
        let (peer, answer) = answered.map_err(|(error, _)| error).unwrap();
        Self {
            now,
            peer,
            answer,
            dtls,
            origin,
            is_client,
            certificate: None,
            srtp: None,
            server: secrets.credentials,
            address: BROWSER.into(),
            outgoing: VecDeque::new(),
            packets: Vec::new(),
            frames: Vec::new(),
            partial: Vec::new(),
            goodbyes: 0,
            closed: false,
            arrivals: Vec::new(),
            encoder: TransportFeedbackEncoder::new(1200),
            first: 0,
            last_sequence: None,
            next_check: now,
            silent: false,
            nominates: true,
        }
    }

    /// A check, with a password that may be wrong.
    pub(crate) fn check(&self, password: &str, nominate: bool) -> Vec<u8> {
        check(&format!("{}:{}", self.server.ufrag, credentials().ufrag), password, nominate)
    }

    /// Runs both ends for this time, in steps of 1 ms; feedback each 50 ms.
    pub(crate) fn run(&mut self, time: TimeDelta) {
        let end = self.now + time;
        while self.now < end {
            self.step();
            self.now += TimeDelta::from_millis(1);
        }
    }

    /// Runs until media can be sent.
    pub(crate) fn connect(&mut self) {
        for _ in 0..2000 {
            self.run(TimeDelta::from_millis(1));
            if *self.peer.state() != PeerState::Connecting && self.srtp.is_some() {
                return;
            }
        }
        panic!("not connected: {:?}", self.peer.state());
    }

    fn step(&mut self) {
        let now = self.now;
        if !self.silent && now >= self.next_check {
            self.next_check = now + TimeDelta::from_millis(500);
            let check = self.check(&self.server.password, self.nominates);
            self.peer.handle_datagram(now, self.address, &check, Ecn::NotEct);
        }
        let instant = self.origin + Duration::from_nanos(now.as_nanos());
        // A handshake that is never answered fails here, too.
        let _ = self.dtls.handle_timeout(instant);
        self.drain_dtls();
        if !self.silent && now.as_nanos() % 50_000_000 < 1_000_000 {
            self.send_feedback();
        }
        for _ in 0..20 {
            let mut busy = self.peer.poll_timeout().is_some_and(|at| at <= now);
            if busy {
                self.peer.handle_timeout(now);
            }
            while self.outgoing.front().is_some_and(|(at, _)| *at <= now) {
                busy = true;
                let Some((_, datagram)) = self.outgoing.pop_front() else { break };
                self.peer.handle_datagram(now, self.address, &datagram, Ecn::NotEct);
            }
            while let Some(transmit) = self.peer.poll_transmit(now) {
                busy = true;
                if transmit.to == self.address {
                    self.receive(&transmit.bytes);
                }
            }
            if !busy {
                break;
            }
        }
        if !matches!(self.peer.state(), PeerState::Ended(_)) {
            assert!(self.peer.poll_timeout().is_some_and(|at| at > now), "a deadline in the past");
        }
    }

    pub(crate) fn send(&mut self, clear: &[u8]) {
        if let Some(srtp) = &mut self.srtp {
            let bytes = srtp.protect(clear).unwrap();
            self.outgoing.push_back((self.now + DELAY, bytes));
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        match bytes[0] {
            0..=3 => {
                let answer = StunMessage::parse(bytes).unwrap();
                assert!(answer.verify(self.server.password.as_bytes(), sha1));
                assert_eq!(answer.mapped_address(), Some(self.address));
            }
            20..=63 => {
                self.dtls.handle_packet(bytes).unwrap();
                self.drain_dtls();
            }
            _ => {
                let clear = self.srtp.as_mut().unwrap().unprotect(bytes).unwrap();
                if matches!(clear[1], 192..=223) {
                    let goodbye = |packet| matches!(packet, Ok(giusto_rtp::rtcp::Packet::Bye(_)));
                    self.goodbyes +=
                        Packets::new(&clear).unwrap().filter(|packet| goodbye(packet.clone())).count();
                } else {
                    self.receive_rtp(&clear);
                }
            }
        }
    }

    fn receive_rtp(&mut self, clear: &[u8]) {
        let (header, range) = RtpHeader::parse(clear).unwrap();
        let payload = clear[range].to_vec();
        if let Some(extension) = header.extension {
            let mut elements = ExtensionElements::of(extension, clear);
            let element = elements
                .find_map(|it| it.ok().filter(|it| it.id == EXTENSION))
                .expect("the offered extension");
            let short = TransportSequence::parse(element.data).unwrap().sequence;
            let unwrapped = self.last_sequence.map_or(u64::from(short), |(last, whole)| {
                whole.wrapping_add_signed(i64::from(short.wrapping_sub(last) as i16))
            });
            self.last_sequence = Some((short, unwrapped));
            self.arrivals.push(Arrival { sequence: unwrapped, at: self.now });
        }
        if header.payload_type == 96 {
            let (descriptor, part) = Vp8Descriptor::parse(&payload).unwrap();
            assert_eq!((descriptor.start, descriptor.partition), (self.partial.is_empty(), 0));
            self.partial.extend_from_slice(part);
            if header.marker {
                self.frames.push(std::mem::take(&mut self.partial));
            }
        }
        self.packets.push((header, payload, clear.to_vec()));
    }

    fn send_feedback(&mut self) {
        if self.arrivals.is_empty() || self.srtp.is_none() {
            return;
        }
        let mut feedback = TransportFeedback {
            sender_ssrc: 1,
            media_ssrc: secrets(1).ssrc[0],
            ..TransportFeedback::default()
        };
        let encoded = self.encoder.encode(self.first, &self.arrivals, &mut feedback);
        let Some(encoded) = encoded else { return };
        self.arrivals.drain(..encoded.arrivals);
        self.first = encoded.next;
        let mut bytes = Vec::new();
        feedback.write(&mut bytes).unwrap();
        self.send(&bytes);
    }

    fn drain_dtls(&mut self) {
        let mut buffer = vec![0; 4096];
        loop {
            match self.dtls.poll_output(&mut buffer) {
                Output::Packet(bytes) => self.outgoing.push_back((self.now + DELAY, bytes.to_vec())),
                Output::Timeout(_) => return,
                Output::PeerCert(certificate) => self.certificate = Some(certificate.to_vec()),
                Output::KeyingMaterial(material, profile) => {
                    let keys = MasterKeys::split(&material, profile, self.is_client).unwrap();
                    self.srtp = Some(Srtp::new(&keys).unwrap());
                    let fingerprint = Fingerprint::of(self.certificate.as_ref().unwrap());
                    assert!(self.answer.contains(&format!("a=fingerprint:{fingerprint}\r\n")));
                }
                Output::CloseNotify => self.closed = true,
                _ => {}
            }
        }
    }
}
