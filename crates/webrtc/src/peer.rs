//! The state machine of a call to a browser.

mod config;
mod media;
mod state;

use std::{collections::VecDeque, net::SocketAddr, time::Instant};

use giusto_congestion::{Controller, FeedbackKind, Target};
use giusto_session::media::{MediaEndpoint, MediaEvent, MediaSender, StreamFigures};
use giusto_session::video::VideoSource;
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use crate::{
    dtls::{Dtls, DtlsError, DtlsState},
    ice::IceLite,
    key_frames,
    sdp::{Answer, Offer, OfferError, Setup, Wanted},
    srtp::Srtp,
};

pub use config::{Incoming, IncomingStream, PeerConfig, PeerMedia, ReceiveConfig, Secrets, VoiceSource};
use media::{is_padding, mark_padding};
use state::CONNECT_TIMEOUT;
pub use state::{EndReason, PeerCounters, PeerState, Transmit};

/// Header bytes below RTP: UDP over IPv4 or IPv6.
const OVERHEAD_V4: u64 = 28;
const OVERHEAD_V6: u64 = 48;
/// Time for which the host of a browser must say that nothing listens there: many of its reports. Chosen by us.
const REFUSED: TimeDelta = TimeDelta::from_seconds(1);
/// The most datagrams of STUN and DTLS that wait for being sent.
const MAX_QUEUE: usize = 64;
/// The least time between two key frames that the browser causes. Chosen by us, as libwebrtc's 300 ms
/// (`video_stream_encoder.cc`, `kMinKeyFrameRequestIntervalMs`).
const KEY_FRAME_INTERVAL: TimeDelta = TimeDelta::from_millis(300);

/// The most datagrams that wait for the nomination of an address. Chosen by us: a key frame of 300 kB.
const MAX_EARLY: usize = 256;

/// The most events that wait for [`BrowserPeer::poll_event`]; the oldest are dropped. Chosen by us.
const MAX_EVENTS: usize = 4096;

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
    /// Width and height of the latest key frame of each source.
    sizes: Vec<(u32, (u16, u16))>,
    /// The RTP timestamps of the first frame and the first packet of speech by their sources: those of the streams begin at their
    /// offset.
    first_timestamp: Option<u32>,
    first_voice: Option<u32>,
    /// Until it is connected.
    controller: Option<Box<dyn Controller>>,
    events: VecDeque<MediaEvent>,
    queue: VecDeque<(SocketAddr, Vec<u8>, bool)>,
    /// What came before the browser had nominated an address: it sends as soon as it has keys (RFC 8445 §12.1).
    early: Vec<(Timestamp, Vec<u8>, Ecn)>,
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
            sends: media.as_ref().map(|media| media.source.codec()),
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
            max_rate: config.receive.as_ref().and_then(|receive| receive.max_rate),
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
            sizes: Vec::new(),
            first_timestamp: None,
            first_voice: None,
            controller,
            events: VecDeque::new(),
            queue: VecDeque::new(),
            early: Vec::new(),
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
                        if self.state == PeerState::Connected {
                            self.handle_clear(now, &clear, ecn);
                        } else if self.early.len() < MAX_EARLY {
                            self.early.push((now, clear, ecn));
                        }
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
        for (at, clear, ecn) in std::mem::take(&mut self.early) {
            self.handle_clear(at, &clear, ecn);
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
                MediaEvent::Frame(frame) if frame.key == Some(true) => self.measure(frame),
                _ => {}
            }
            if self.events.len() >= MAX_EVENTS {
                self.events.pop_front();
            }
            self.events.push_back(event);
        }
    }
}
