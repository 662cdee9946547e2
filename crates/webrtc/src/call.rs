//! The loop that gives a call a clock, a socket and a web page.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

use giusto_congestion::{Algorithm, FeedbackKind, Limits};
use giusto_net::{
    Clock, ReceiveBatch, SocketConfig, SocketError, ThreadCpu, UdpSocket, Wait,
    http::{Request, Response, Server},
};
use giusto_units::{DataRate, Ecn, TimeDelta, Timestamp};
use serde::Deserialize;

use crate::{
    dtls::DtlsError,
    peer::{BrowserPeer, EndReason, PeerConfig, PeerState, Secrets},
    result::{BrowserFigures, CallResult, Posted, Sampler},
    sdp::OfferError,
    source::FrameSource,
};

/// The page: it receives the call and posts its statistics.
const PAGE: &str = include_str!("page.html");
/// Maximum time between two looks at the stop flag.
const LOOK: TimeDelta = TimeDelta::from_millis(100);
/// Time that the page has for its last message.
const FAREWELL: TimeDelta = TimeDelta::from_millis(1500);
/// Time within which an offer is answered; else the loop has ended.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const MESSAGES: usize = 32;
const MESSAGE_BYTES: usize = 2048;

/// What is to be done.
#[derive(Debug)]
pub struct CallPlan {
    /// The address of the page (TCP) and of the media (UDP); port 0 selects a free one.
    pub listen: SocketAddr,
    /// The controller.
    pub algorithm: Algorithm,
    /// Limits of its target, headers included.
    pub limits: Limits,
    /// Duration from the first packet on; `None`: until the browser ends the call.
    pub duration: Option<TimeDelta>,
    /// The video.
    pub source: Box<dyn FrameSource>,
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
    /// A browser has connected from this address.
    Connected(SocketAddr),
    /// Figures of each second: target and sent rate, and what the browser receives.
    Live {
        /// Time since the first packet.
        time: TimeDelta,
        /// Target rate of the controller.
        target: DataRate,
        /// Rate of the datagrams sent.
        sent: DataRate,
        /// Frames that the browser has decoded.
        decoded: Option<u64>,
    },
}

/// What the page and the loop share.
#[derive(Debug, Default)]
struct Shared {
    figures: Mutex<BrowserFigures>,
    /// The call is over: the page is told with its next message.
    ending: AtomicBool,
    /// The page has sent its last message.
    page_ended: AtomicBool,
    /// Time 0 of the samples; `None`: there is no call yet.
    zero: Mutex<Option<Timestamp>>,
}

/// An offer from a client, and where its answer goes.
struct Asked {
    from: SocketAddr,
    offer: String,
    reply: mpsc::SyncSender<Result<String, String>>,
}

#[derive(Deserialize)]
struct PostedOffer {
    sdp: String,
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
    mut on_event: impl FnMut(CallEvent),
) -> Result<CallResult, CallError> {
    let clock = Clock::start();
    let shared = Arc::new(Shared::default());
    let (asks, asked) = mpsc::sync_channel::<Asked>(1);
    let for_page = Arc::clone(&shared);
    let respond = move |from: SocketAddr, request: &Request| respond(clock, from, request, &for_page, &asks);
    let page = Server::start(plan.listen, respond)
        .map_err(|source| CallError::Page { address: plan.listen, source })?;
    let socket = UdpSocket::bind(page.local_addr(), &SocketConfig::default())?;
    on_event(CallEvent::Serving(page.local_addr()));

    let (algorithm, duration) = (plan.algorithm, plan.duration);
    let wait = Waiting { clock, socket: &socket, asked: &asked, stop };
    let (mut peer, offered_at) = wait.until_answered(plan, &mut secrets, &mut on_event)?;
    // Further offers are refused.
    drop(asked);

    let cpu = ThreadCpu::start();
    let mut turns =
        Turns { clock, socket: &socket, batch: ReceiveBatch::new(MESSAGES, MESSAGE_BYTES), unsent: 0 };
    let mut sampler: Option<Sampler> = None;
    let mut live_at = Timestamp::ZERO;
    let ended_at = loop {
        let now = turns.turn(&mut peer, sampler.as_ref().map(|sampler| sampler.due))?;
        if let (None, Some(at)) = (&sampler, peer.connected_at()) {
            sampler = Some(Sampler::new(at));
            *lock(&shared.zero) = Some(at);
            live_at = at + TimeDelta::from_seconds(1);
            if let Some(address) = peer.browser_address() {
                on_event(CallEvent::Connected(address));
            }
        }
        if let (Some(sampler), Some(target)) = (&mut sampler, peer.target()) {
            if now >= sampler.due {
                let queue = peer.stream(now).map_or(TimeDelta::ZERO, |stream| stream.queue.oldest);
                sampler.take(now, peer.counters().sent_bytes, target.media, queue);
            }
            if now >= live_at {
                live_at += TimeDelta::from_seconds(1);
                let recent = sampler.samples.iter().rev().take(10);
                let sent = recent.map(|sample| sample.sent_rate_bps).sum::<u64>() / 10;
                let time = now.saturating_since(peer.connected_at().unwrap_or(now));
                let decoded = lock(&shared.figures).frames_decoded;
                on_event(CallEvent::Live {
                    time,
                    target: target.media,
                    sent: DataRate::from_bps(sent),
                    decoded,
                });
            }
        }
        let over = duration.zip(peer.connected_at()).is_some_and(|(duration, at)| now >= at + duration);
        if over || stop.load(Relaxed) {
            peer.stop(now);
        } else if shared.page_ended.load(Relaxed) {
            peer.on_page_closed(now);
        }
        if matches!(peer.state(), PeerState::Ended(_)) {
            break now;
        }
    };
    let used = cpu.used();
    farewell(&mut turns, &mut peer, &shared, ended_at)?;

    let begin = peer.connected_at();
    let lasted = ended_at.saturating_since(begin.unwrap_or(ended_at));
    let counters = peer.counters();
    let end = match peer.state() {
        PeerState::Ended(reason) => reason.to_string(),
        _ => EndReason::Local.to_string(),
    };
    let (dtls, srtp) = peer.security();
    let rate = giusto_units::DataSize::from_bytes(counters.sent_bytes);
    let whole = ended_at.saturating_since(offered_at).as_seconds();
    Ok(CallResult {
        controller: algorithm.name().to_owned(),
        feedback: feedback_name(peer.feedback()),
        dtls,
        srtp: srtp.map(ToOwned::to_owned),
        duration_s: lasted.as_seconds(),
        end,
        connected: begin.is_some(),
        setup_ms: begin.map(|at| at.saturating_since(offered_at).as_millis()),
        sent_rate_bps: DataRate::of(rate, lasted).map_or(0, DataRate::as_bps),
        target_rate_bps: sampler.as_ref().map_or(0, Sampler::mean_target),
        sender_cpu_ratio: if whole > 0.0 { used.as_seconds() / whole } else { 0.0 },
        counters,
        unsent_datagrams: turns.unsent,
        browser: std::mem::take(&mut *lock(&shared.figures)),
        samples: sampler.map(|sampler| sampler.samples).unwrap_or_default(),
    })
}

/// Waits for an offer that can be answered.
struct Waiting<'a> {
    clock: Clock,
    socket: &'a UdpSocket,
    asked: &'a mpsc::Receiver<Asked>,
    stop: &'a AtomicBool,
}

impl Waiting<'_> {
    /// The call, and the time of its offer.
    fn until_answered(
        &self,
        plan: CallPlan,
        secrets: &mut impl FnMut() -> Result<Secrets, DtlsError>,
        on_event: &mut impl FnMut(CallEvent),
    ) -> Result<(BrowserPeer, Timestamp), CallError> {
        let CallPlan { algorithm, limits, mut source, .. } = plan;
        loop {
            if self.stop.load(Relaxed) {
                return Err(CallError::NoBrowser);
            }
            let Ok(Asked { from, offer, reply }) = self.asked.recv_timeout(LOOK.to_std()) else { continue };
            let address = reachable(self.socket.local_addr(), from)?;
            let config = PeerConfig { algorithm, limits, ecn: Ecn::NotEct, address };
            let now = self.clock.now();
            let origin = self.clock.origin_instant();
            // Where the client has gone meanwhile, the call never connects.
            match BrowserPeer::answer(now, &offer, config, (&secrets()?, source), origin) {
                Ok((peer, answer)) => {
                    let _ = reply.try_send(Ok(answer));
                    return Ok((peer, now));
                }
                Err((error, unused)) => {
                    source = unused;
                    let _ = reply.try_send(Err(error.to_string()));
                    on_event(CallEvent::Refused(error));
                }
            }
        }
    }
}

/// Sends the goodbyes, and waits for the page's last message.
fn farewell(
    turns: &mut Turns<'_>,
    peer: &mut BrowserPeer,
    shared: &Shared,
    ended_at: Timestamp,
) -> Result<(), CallError> {
    shared.ending.store(true, Relaxed);
    let was_connected = peer.connected_at().is_some();
    loop {
        let now = turns.turn(peer, None)?;
        let waits = was_connected && now < ended_at + FAREWELL && !shared.page_ended.load(Relaxed);
        if !waits {
            return Ok(());
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
}

impl Turns<'_> {
    /// Waits for a datagram or a deadline, and handles it. Returns the time.
    fn turn(&mut self, peer: &mut BrowserPeer, also: Option<Timestamp>) -> Result<Timestamp, CallError> {
        let now = self.clock.now();
        let deadlines = [peer.poll_timeout(), also, Some(now + LOOK)];
        let until = deadlines.into_iter().flatten().min().unwrap_or(now);
        let wait = until.saturating_since(now);
        let wait = if wait > TimeDelta::ZERO { Wait::For(wait.to_std()) } else { Wait::Never };
        match self.socket.recv_batch(&mut self.batch, wait) {
            // A port that is unreachable may be another one than that of the nominated address.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
            outcome => drop(outcome?),
        }
        let now = self.clock.now();
        for received in self.batch.iter() {
            for datagram in received.datagrams() {
                peer.handle_datagram(now, received.from, datagram, Ecn::NotEct);
            }
        }
        if peer.poll_timeout().is_some_and(|at| at <= now) {
            peer.handle_timeout(now);
        }
        while let Some(transmit) = peer.poll_transmit(now) {
            // To the controller, a datagram that the system does not take is a lost one.
            self.unsent += u64::from(self.socket.send_to(&transmit.bytes, transmit.to).is_err());
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

fn feedback_name(kind: FeedbackKind) -> &'static str {
    match kind {
        FeedbackKind::TransportWide => "transport-cc",
        FeedbackKind::CongestionControl => "ccfb",
        FeedbackKind::ReceiverEstimate => "goog-remb",
        FeedbackKind::ScreamDraft => "scream-draft",
        FeedbackKind::ReceiverReports => "reports",
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What it guards is valid after each statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the request comes from our page: another site's page must not start a call, nor one whose name was made to point here.
fn is_own_page(request: &Request) -> bool {
    let Some(host) = request.host.as_deref() else { return false };
    let name =
        host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    let literal = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let own = format!("http://{host}");
    (literal || name.eq_ignore_ascii_case("localhost"))
        && request.origin.as_deref().is_none_or(|origin| origin.eq_ignore_ascii_case(&own))
}

fn respond(
    clock: Clock,
    from: SocketAddr,
    request: &Request,
    shared: &Shared,
    asks: &mpsc::SyncSender<Asked>,
) -> Response {
    const JSON: &str = "application/json";
    if !is_own_page(request) {
        return Response::text("403 Forbidden", "open the page by its address or as localhost\n");
    }
    match (request.method.as_str(), request.path.as_str()) {
        ("GET" | "HEAD", "/") => Response::ok("text/html; charset=utf-8", PAGE),
        ("POST", "/offer") => {
            let Ok(PostedOffer { sdp: offer }) = serde_json::from_slice(&request.body) else {
                return Response::text("400 Bad Request", "expected {\"sdp\": \"…\"}\n");
            };
            let (reply, answer) = mpsc::sync_channel(1);
            if asks.try_send(Asked { from, offer, reply }).is_err() {
                return Response::text("409 Conflict", "another browser is in the call\n");
            }
            match answer.recv_timeout(ANSWER_TIMEOUT) {
                Ok(Ok(sdp)) => Response::ok(JSON, serde_json::json!({ "sdp": sdp }).to_string()),
                Ok(Err(why)) => Response::text("400 Bad Request", why),
                Err(_) => Response::text("503 Service Unavailable", "the call has ended\n"),
            }
        }
        ("POST", "/stats") => {
            let Ok(mut posted) = serde_json::from_slice::<Posted>(&request.body) else {
                return Response::text("400 Bad Request", "expected {\"samples\": […]}\n");
            };
            let end = posted.end;
            let zero = *lock(&shared.zero);
            if zero.is_none() {
                // Samples need a time axis; what the page complains about does not.
                posted.samples.clear();
            }
            let time_s = clock.now().saturating_since(zero.unwrap_or_default()).as_seconds();
            lock(&shared.figures).take(time_s, posted);
            if end {
                shared.page_ended.store(true, Relaxed);
            }
            let end = end || shared.ending.load(Relaxed);
            Response::ok(JSON, serde_json::json!({ "end": end }).to_string())
        }
        _ => Response::text("404 Not Found", "nothing here: see /\n"),
    }
}
