//! The loop that gives a call a clock, a socket and a web page.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
};

use giusto_congestion::FeedbackKind;
use giusto_measure::ErrorHistogram;
use giusto_net::{
    Clock, ReceiveBatch, SocketConfig, SocketError, ThreadCpu, UdpSocket, Wait,
    driver::Verdict,
    http::{Limits, Server},
    is_passing,
};
use giusto_session::{
    media::{MediaEvent, MediaSender, StreamId},
    video::VideoCodec,
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use crate::{
    dtls::DtlsError,
    page::{Asked, Board, page_of, respond},
    peer::{
        BrowserPeer, EndReason, Incoming, IncomingStream, PeerConfig, PeerMedia, PeerState, ReceiveConfig,
        Secrets,
    },
    result::{CallResult, LiveBrowser, Sampler},
    sdp::OfferError,
};

/// Maximum time between two looks at the stop flag.
const LOOK: TimeDelta = TimeDelta::from_millis(100);
/// Time that the page has for its last message.
const FAREWELL: TimeDelta = TimeDelta::from_millis(1500);
/// A page that has not posted for this long gets no farewell.
const PAGE_SILENCE: TimeDelta = TimeDelta::from_seconds(2);
/// The shortest time between two live figures.
const MIN_INTERVAL: TimeDelta = TimeDelta::from_millis(100);
/// The clients of the page: session descriptions have 10 kB.
const PAGE_LIMITS: Limits =
    Limits { max_connections: 8, max_body: 256 * 1024, timeout: TimeDelta::from_seconds(2) };
const MESSAGES: usize = 32;
const MESSAGE_BYTES: usize = 2048;

giusto_units::defaults! {
    /// What is to be done.
    #[derive(Debug)]
    pub struct CallPlan {
        /// The address of the page (TCP) and of the media (UDP); port 0 selects a free one.
        pub listen: SocketAddr = listen,
        /// The video and its controller; `None`: nothing is sent.
        pub media: Option<PeerMedia> = media,
        /// The media that come from the browser: see [`PeerConfig::receive`]. Default `None`.
        pub receive: Option<ReceiveConfig> = None,
        /// Name of the controller, for the result.
        pub controller: String = controller.into(),
        /// The feedback of the browser: see [`PeerConfig::feedback`]. Default `None`.
        pub feedback: Option<FeedbackKind> = None,
        /// Whether lost packets are sent again: see [`PeerConfig::repair`]. Default `true`.
        pub repair: bool = true,
        /// Duration from the first packet on. Default `None`: until the browser ends the call.
        pub duration: Option<TimeDelta> = None,
        /// Time between two [`CallEvent::Live`]. Default 1 s.
        pub interval: TimeDelta = TimeDelta::from_seconds(1),
    }
    /// The defaults, for a page and media at `listen`.
    pub fn new(listen: SocketAddr, media: Option<PeerMedia>, controller: impl Into<String>);
}

/// Error before a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The page cannot be served.
    #[error("cannot serve the page at {address}: {source}")]
    Page {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The socket cannot be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// No certificate could be made.
    #[error(transparent)]
    Secrets(#[from] DtlsError),
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Receive(#[from] std::io::Error),
    /// It was stopped before a browser came.
    #[error("no browser came")]
    NoBrowser,
}

/// What happens during a call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallEvent {
    /// The page is served at this address.
    Serving(SocketAddr),
    /// A browser's offer was refused.
    Refused(OfferError),
    /// The page of a browser reports an error.
    PageError(String),
    /// A browser has gone before it was connected. The page is still served.
    Left,
    /// A browser has connected.
    Connected(Connected),
    /// Figures of the last [`CallPlan::interval`].
    Live(Live),
}

/// What is known of a call when it is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// The address of the browser.
    pub browser: SocketAddr,
    /// The time, on the clock of all times of a [`CallObserver`].
    pub at: Timestamp,
    /// The synchronisation source of the video.
    pub ssrc: u32,
    /// The feedback.
    pub feedback: FeedbackKind,
    /// Whether lost packets are sent again.
    pub repair: bool,
    /// The codec of the video.
    pub codec: VideoCodec,
    /// Whether Opus comes from the browser.
    pub receives_audio: bool,
    /// The synchronisation source of the speech that goes to the browser, if any does.
    pub voice_ssrc: Option<u32>,
    /// The encodings of the browser's video, if it sends several at once.
    pub encodings: Vec<StreamId>,
}

/// Figures of both ends in the last interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Live {
    /// Time since the browser connected.
    pub at: TimeDelta,
    /// Rate of the datagrams sent, all headers included, and target rate of the controller; `None`: nothing is sent.
    pub sent: Option<(DataRate, DataRate)>,
    /// What has come from the browser; `None`: nothing is received.
    pub received: Option<LiveReceived>,
    /// What the browser reports; `None` if nothing new has come from its page.
    pub browser: Option<LiveBrowser>,
}

/// What has come from the browser in the last interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveReceived {
    /// Rate of the datagrams of media, all headers included.
    pub rate: DataRate,
    /// Packets lost, of which some may be repaired.
    pub lost_packets: u64,
    /// Complete frames of video.
    pub frames: u64,
}

/// Sees what happens in a call, on the thread that sends: its methods should take microseconds. Closures that take a [`CallEvent`]
/// are observers.
pub trait CallObserver {
    /// Handles an event.
    fn on_event(&mut self, event: CallEvent);

    /// A datagram of RTP or RTCP was sent, whose second byte tells these apart (RFC 5761 §4); `size` has all headers.
    fn on_sent(&mut self, _now: Timestamp, _kind: u8, _size: DataSize) {}

    /// A datagram of RTCP has arrived; `size` has all headers.
    fn on_feedback(&mut self, _now: Timestamp, _size: DataSize) {}

    /// A datagram of RTP has arrived; `size` has all headers.
    fn on_received(&mut self, _now: Timestamp, _size: DataSize) {}

    /// Something has happened to the media that are sent.
    fn on_media(&mut self, _now: Timestamp, _event: &MediaEvent) {}

    /// Something has happened to a stream of the browser.
    fn on_incoming(&mut self, _now: Timestamp, _stream: IncomingStream, _event: &MediaEvent) {}

    /// The source of the browser of which a key frame is wanted; asked after each [`on_incoming`](Self::on_incoming).
    fn wants_key_frame(&mut self) -> Option<u32> {
        None
    }

    /// Called in each turn of the loop once media flow, with their sender; [`Verdict::Stop`] ends the call.
    fn on_turn(&mut self, _now: Timestamp, _sender: &MediaSender) -> Verdict {
        Verdict::Continue
    }
}

impl<F: FnMut(CallEvent)> CallObserver for F {
    fn on_event(&mut self, event: CallEvent) {
        self(event);
    }
}

/// Serves the page, waits for a browser and calls it; returns the result when the call is over. `stop` ends it early. `secrets`
/// draws the random values of each attempt.
///
/// # Errors
///
/// [`CallError`] if there was no call; what was measured in one is always returned.
pub fn run(
    plan: CallPlan,
    mut secrets: impl FnMut() -> Result<Secrets, DtlsError>,
    stop: &AtomicBool,
    observer: &mut impl CallObserver,
) -> Result<CallResult, CallError> {
    let clock = Clock::start();
    let board = Arc::new(Board::default());
    let (asks, asked) = mpsc::sync_channel::<Asked>(1);
    let for_page = Arc::clone(&board);
    let html = page_of(
        (plan.media.is_some(), plan.receive.is_some()),
        plan.media.as_ref().is_some_and(|media| media.voice.is_some()),
    );
    let page = Server::start(plan.listen, PAGE_LIMITS, move |from, request| {
        respond(clock, from, request, (&html, &for_page), &asks)
    })
    .map_err(|source| CallError::Page { address: plan.listen, source })?;
    let config = SocketConfig { report_unreachable: true, ..SocketConfig::default() };
    let socket = UdpSocket::bind(page.local_addr(), &config)?;
    observer.on_event(CallEvent::Serving(page.local_addr()));

    let CallPlan { media, receive, controller, feedback, repair, duration, interval, .. } = plan;
    let template = PeerConfig { feedback, repair, receive, ..PeerConfig::new(page.local_addr()) };
    let setting = Setting { clock, socket: &socket, asked: &asked, board: &board, stop };
    let mut media = media;
    loop {
        let answered = setting.until_answered(media, &template, &mut secrets, observer)?;
        match setting.hold(answered, duration, interval.max(MIN_INTERVAL), observer)? {
            Held::Over(result) => return Ok(CallResult { controller, ..*result }),
            Held::Left(unused) => media = unused,
        }
        board.reset();
        observer.on_event(CallEvent::Left);
    }
}

/// How a call ended.
enum Held {
    Over(Box<CallResult>),
    /// The browser left before it was connected.
    Left(Option<PeerMedia>),
}

/// A call that was answered, and the time of its offer.
struct Answered {
    peer: BrowserPeer,
    at: Timestamp,
}

/// Where calls are held.
struct Setting<'a> {
    clock: Clock,
    socket: &'a UdpSocket,
    asked: &'a mpsc::Receiver<Asked>,
    board: &'a Board,
    stop: &'a AtomicBool,
}

impl Setting<'_> {
    /// Waits for an offer that can be answered.
    fn until_answered(
        &self,
        mut media: Option<PeerMedia>,
        template: &PeerConfig,
        secrets: &mut impl FnMut() -> Result<Secrets, DtlsError>,
        observer: &mut impl CallObserver,
    ) -> Result<Answered, CallError> {
        loop {
            if self.stop.load(Relaxed) {
                return Err(CallError::NoBrowser);
            }
            if let Some(page_error) = self.board.take_page_error() {
                observer.on_event(CallEvent::PageError(page_error));
            }
            let Ok(Asked { from, offer, reply }) = self.asked.recv_timeout(LOOK.to_std()) else { continue };
            let address = reachable(self.socket.local_addr(), from)?;
            let config = PeerConfig { address, ..template.clone() };
            let (now, origin) = (self.clock.now(), self.clock.origin_instant());
            let secrets = secrets()?;
            // Where the client has gone meanwhile, the call never connects.
            match BrowserPeer::answer(now, &offer, config, &secrets, media, origin) {
                Ok((peer, answer)) => {
                    self.board.begin(secrets.token.clone());
                    let _ = reply.try_send(Ok((answer, secrets.token)));
                    return Ok(Answered { peer, at: now });
                }
                Err((error, unused)) => {
                    media = unused;
                    let _ = reply.try_send(Err(error.to_string()));
                    observer.on_event(CallEvent::Refused(error));
                }
            }
        }
    }

    /// Holds a call until its end.
    fn hold(
        &self,
        Answered { mut peer, at: offered_at }: Answered,
        duration: Option<TimeDelta>,
        interval: TimeDelta,
        observer: &mut impl CallObserver,
    ) -> Result<Held, CallError> {
        let cpu = ThreadCpu::start();
        let dropped = || self.socket.dropped_messages().unwrap_or(0);
        let dropped_before = dropped();
        let mut turns = Turns {
            clock: self.clock,
            socket: self.socket,
            batch: ReceiveBatch::new(MESSAGES, MESSAGE_BYTES),
            unsent: 0,
            sent: DataSize::ZERO,
            received: DataSize::ZERO,
            lateness: ErrorHistogram::default(),
            is_connected: false,
            look_at: Timestamp::ZERO,
        };
        let mut media: Option<(Sampler, LiveClock)> = None;
        let ended_at = loop {
            let due = media.as_ref().map(|(sampler, _)| sampler.due);
            let now = turns.turn(&mut peer, due, observer)?;
            if let (None, Some(at)) = (&media, peer.connected_at()) {
                media = Some((Sampler::new(at), LiveClock::new(at, interval)));
                self.board.connected(at);
            }
            if let Some((sampler, live)) = &mut media {
                let target = peer.target().map_or(DataRate::ZERO, |target| target.media);
                if now >= sampler.due {
                    let queue = peer.stream(now).map_or(TimeDelta::ZERO, |stream| stream.queue.oldest);
                    sampler.take(now, peer.counters().sent_bytes, target, queue);
                    self.board.show(sampler.samples.back());
                }
                if now >= live.due {
                    let browser = self.board.interval(&mut live.mark, peer.overhead());
                    observer.on_event(CallEvent::Live(live.take(now, target, &turns, &peer, browser)));
                }
            }
            self.refuse_others();
            let over = duration.zip(peer.connected_at()).is_some_and(|(duration, at)| now >= at + duration);
            if over || self.stop.load(Relaxed) {
                peer.stop(now);
            } else if self.board.page_has_ended() {
                peer.on_page_closed(now);
            }
            if let PeerState::Ended(_) = peer.state() {
                break now;
            }
        };
        let used = cpu.used();
        let left = *peer.state() == PeerState::Ended(EndReason::Browser) && peer.connected_at().is_none();
        let end = match peer.state() {
            PeerState::Ended(reason) => reason.to_string(),
            _ => EndReason::Local.to_string(),
        };
        self.board.end(end.clone());
        self.farewell(&mut turns, &mut peer, ended_at, observer)?;
        let whole = ended_at.saturating_since(offered_at).as_seconds();
        let sampler = media.map(|(sampler, _)| sampler);
        let result = CallResult {
            sender_cpu_ratio: if whole > 0.0 { used.as_seconds() / whole } else { 0.0 },
            unsent_datagrams: turns.unsent,
            dropped_datagrams: dropped().wrapping_sub(dropped_before).into(),
            schedule_error: turns.lateness,
            end,
            browser: self.board.take_figures(),
            ..CallResult::of(&peer, offered_at, ended_at, sampler)
        };
        Ok(if left { Held::Left(peer.into_media()) } else { Held::Over(Box::new(result)) })
    }

    /// Tells further browsers that the call is taken.
    fn refuse_others(&self) {
        while let Ok(Asked { reply, .. }) = self.asked.try_recv() {
            let _ = reply.try_send(Err(crate::page::TAKEN.to_owned()));
        }
    }

    /// Sends the goodbyes, and waits for the page's last message.
    fn farewell(
        &self,
        turns: &mut Turns<'_>,
        peer: &mut BrowserPeer,
        ended_at: Timestamp,
        observer: &mut impl CallObserver,
    ) -> Result<(), CallError> {
        loop {
            let now = turns.turn(peer, None, observer)?;
            self.refuse_others();
            let has_page = self.board.has_posted_since(ended_at - PAGE_SILENCE);
            if !has_page || now >= ended_at + FAREWELL || self.board.page_has_ended() {
                return Ok(());
            }
        }
    }
}

/// When live figures are due, and the totals at the last ones.
struct LiveClock {
    begin: Timestamp,
    interval: TimeDelta,
    due: Timestamp,
    last: Timestamp,
    sent: DataSize,
    /// Bytes, lost packets and frames of the browser's media.
    received: (DataSize, u64, u64),
    mark: crate::result::BrowserSample,
}

impl LiveClock {
    fn new(begin: Timestamp, interval: TimeDelta) -> Self {
        let mark = crate::result::BrowserSample::default();
        Self {
            begin,
            interval,
            due: begin + interval,
            last: begin,
            sent: DataSize::ZERO,
            received: (DataSize::ZERO, 0, 0),
            mark,
        }
    }

    fn take(
        &mut self,
        now: Timestamp,
        target: DataRate,
        turns: &Turns<'_>,
        peer: &BrowserPeer,
        browser: Option<LiveBrowser>,
    ) -> Live {
        let elapsed = now.saturating_since(self.last);
        let rate = |size: DataSize| DataRate::of(size, elapsed).unwrap_or(DataRate::ZERO);
        let sent = rate(turns.sent.saturating_sub(self.sent));
        let (mut lost, mut frames) = (0, 0);
        for (stream, figures) in peer.received() {
            lost += figures.lost;
            // Encodings of one video have the same frames.
            frames = frames.max(if stream.kind == Incoming::Video { figures.frames } else { 0 });
        }
        let (sends, receives) = peer.directions();
        let received = receives.then(|| LiveReceived {
            rate: rate(turns.received.saturating_sub(self.received.0)),
            lost_packets: lost.saturating_sub(self.received.1),
            frames: frames.saturating_sub(self.received.2),
        });
        (self.sent, self.received, self.last) = (turns.sent, (turns.received, lost, frames), now);
        self.due = crate::result::next_due(self.due, self.interval, now);
        Live {
            at: now.saturating_since(self.begin),
            sent: sends.then_some((sent, target)),
            received,
            browser,
        }
    }
}

/// The socket and the clock of a call.
struct Turns<'a> {
    clock: Clock,
    socket: &'a UdpSocket,
    batch: ReceiveBatch,
    /// Datagrams that the system did not take.
    unsent: u64,
    /// Datagrams of media, all headers included.
    sent: DataSize,
    /// Datagrams of media that came from the browser.
    received: DataSize,
    /// From each deadline until its datagrams were sent.
    lateness: ErrorHistogram,
    /// Whether the observer knows that the browser has connected.
    is_connected: bool,
    /// When answers of hosts are looked for again.
    look_at: Timestamp,
}

impl Turns<'_> {
    /// Takes what hosts have answered to earlier datagrams. Whether there was anything.
    fn take_answers(&self, peer: &mut BrowserPeer) -> bool {
        let now = self.clock.now();
        self.socket.take_answers(|to| peer.handle_unreachable(now, to)) > 0
    }

    /// Waits for a datagram or a deadline, and handles it. Returns the time.
    fn turn(
        &mut self,
        peer: &mut BrowserPeer,
        also: Option<Timestamp>,
        observer: &mut impl CallObserver,
    ) -> Result<Timestamp, CallError> {
        let now = self.clock.now();
        let deadlines = [peer.poll_timeout(), also, Some(now + LOOK)];
        let until = deadlines.into_iter().flatten().min().unwrap_or(now);
        let wait = until.saturating_since(now);
        let wait = if wait > TimeDelta::ZERO { Wait::For(wait.to_std()) } else { Wait::Never };
        let received = match self.socket.recv_batch(&mut self.batch, wait) {
            Ok(received) => received,
            // The answer of a host or a router to an earlier datagram.
            Err(error) if is_passing(&error) => 0,
            Err(error) => return Err(error.into()),
        };
        let now = self.clock.now();
        if received == 0 || now >= self.look_at {
            self.look_at = now + LOOK;
            self.take_answers(peer);
        }
        let headers = peer.network_headers();
        for received in self.batch.iter() {
            for datagram in received.datagrams() {
                let before = peer.arrived_datagrams();
                peer.handle_datagram(now, received.from, datagram, Ecn::NotEct);
                let after = peer.arrived_datagrams();
                let size = DataSize::from_bytes(datagram.len() as u64) + headers;
                if after.0 > before.0 {
                    observer.on_feedback(now, size);
                } else if after.1 > before.1 {
                    self.received += size;
                    observer.on_received(now, size);
                }
            }
        }
        if let (false, Some(at), Some(browser)) =
            (self.is_connected, peer.connected_at(), peer.browser_address())
        {
            self.is_connected = true;
            let (ssrc, feedback, repair) = (peer.ssrc(), peer.feedback(), peer.repairs());
            let (codec, receives_audio, voice_ssrc) =
                (peer.codec(), peer.receives_audio(), peer.voice_ssrc());
            let encodings = peer.encodings().collect();
            observer.on_event(CallEvent::Connected(Connected {
                browser,
                at,
                ssrc,
                feedback,
                repair,
                codec,
                receives_audio,
                voice_ssrc,
                encodings,
            }));
        }
        let due = peer.poll_timeout().filter(|&at| at <= now);
        if due.is_some() {
            peer.handle_timeout(now);
        }
        while let Some(transmit) = peer.poll_transmit(now) {
            let send = || self.socket.send_to(&transmit.bytes, transmit.to).is_ok();
            // Where the error was the answer to an earlier datagram, this one has not been tried yet. To the controller, a datagram
            // that the system does not take is a lost one.
            let is_sent = send() || self.take_answers(peer) && send();
            if !is_sent {
                self.unsent += 1;
                peer.on_unsent(&transmit);
            }
            if transmit.is_media && is_sent {
                let size = DataSize::from_bytes(transmit.bytes.len() as u64) + headers;
                self.sent += size;
                observer.on_sent(now, transmit.bytes.get(1).copied().unwrap_or_default(), size);
            }
        }
        if let Some((due, connected)) = due.zip(peer.connected_at()) {
            self.lateness.record(self.clock.now() - due.max(connected));
        }
        while let Some(event) = peer.poll_event() {
            let incoming = match &event {
                MediaEvent::Frame(frame) => peer.incoming(frame.ssrc),
                MediaEvent::Requested { ssrc, .. } | MediaEvent::KeyFrameRequested { ssrc, .. } => {
                    peer.incoming(*ssrc)
                }
                _ => None,
            };
            match incoming {
                Some(stream) => {
                    observer.on_incoming(now, stream, &event);
                    if let Some(ssrc) = observer.wants_key_frame() {
                        peer.request_key_frame(now, ssrc);
                    }
                }
                // A source that is no stream of the answer.
                None if matches!(event, MediaEvent::Frame(_)) => {}
                None => observer.on_media(now, &event),
            }
        }
        let verdict = peer.sender().map(|sender| observer.on_turn(now, sender));
        if verdict == Some(Verdict::Stop) {
            peer.stop(now);
        }
        Ok(now)
    }
}

/// The address of our socket, as the client can reach it.
fn reachable(local: SocketAddr, client: SocketAddr) -> Result<SocketAddr, CallError> {
    if !local.ip().is_unspecified() {
        return Ok(local);
    }
    let ip = UdpSocket::connected(client, &SocketConfig::default())?.local_addr().ip();
    Ok((ip, local.port()).into())
}
