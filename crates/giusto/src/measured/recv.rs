//! The receiving end of a run: a socket and a receiver behind it.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::AtomicBool,
    thread,
};

use giusto_measure::StreamSummary;
use giusto_net::{
    Clock, Granted, PathOptions, SocketConfig, UdpSocket,
    driver::{Conversation, LONG_SILENCE, ReceiveDriver, Roam, Verdict, local_clock},
};
use giusto_session::probe::{
    Ended, HandshakeFlood, LocalClock, Receiver, ReceiverConfig, ReceiverEvent, SenderConfig, Stream,
    StreamId,
    wire::{ArrivalStamps, ReverseLimits, SenderFigures, StreamFormat, StreamRequest},
};
use giusto_units::{TimeDelta, Timestamp};
use rand::{TryRng, rngs::SysRng};

use crate::measured::{
    RunError,
    away::Absences,
    interval::Counts,
    plan::ResolvedPlan,
    result::{
        FarEndFigures, FloodFigures, Histograms, LiveFigures, PathFigures, Quantiles, RunResult,
        SystemGranted, classes,
    },
    reverse::ReverseRuns,
    send::Destination,
};
use crate::watch::{DelayState, Feed, StreamState};

giusto_units::defaults! {
    /// The configuration of a receiving end.
    #[derive(Debug, Clone)]
    pub struct ReceptionConfig {
        /// The address to listen on, or the multicast group to join. Default: any free port of 127.0.0.1.
        pub address: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        /// Of a group, only what these sources send is received (SSM). Default: none, which means all.
        pub sources: Vec<IpAddr> = Vec::new(),
        /// Where the socket receives and sends. Default: all is left to the system.
        pub path: PathOptions = PathOptions::default(),
        /// The kernel may hand over runs of datagrams at once (GRO). Default: true.
        pub offload: bool = true,
        /// Listens for RTCP at the port above `address`, too, if that is even and the other one is free (RFC 3550 §11). Default: false.
        pub rtcp: bool = false,
        /// The limits of streams. Its secret and its clock are set when the receiving end opens.
        pub receiver: ReceiverConfig = ReceiverConfig::new([0; 32], LocalClock::default()),
    }
}

/// A receiving end that listens, but does not receive yet.
#[derive(Debug)]
pub struct Reception {
    /// The socket on which it listens.
    pub socket: UdpSocket,
    /// The socket for RTCP, at the port above, if it was asked for and that port was free.
    pub rtcp: Option<UdpSocket>,
    /// The clock of all arrival times.
    pub clock: Clock,
    /// The streams that it was asked to send.
    pub reverse: ReverseRuns,
    receiver: Receiver,
    asked: Option<Asked>,
}

/// A stream that this end has asked for, and asks for again where its own address changes.
#[derive(Debug)]
struct Asked {
    to: SocketAddr,
    request: SenderConfig,
    roam: Roam,
    again_at: Timestamp,
    absences: Absences,
}

impl Asked {
    /// Asks again if this end has another address, or may have one behind a NAT.
    fn look(&mut self, now: Timestamp, socket: &UdpSocket, receiver: &mut Receiver) {
        /// The time between two requests.
        const INTERVAL: TimeDelta = TimeDelta::from_seconds(1);
        let Some((_, stream)) = receiver.streams().next() else { return };
        self.absences.look(now, socket, stream);
        let (silence, ours) = (stream.silence(now), socket.local_addr());
        let has_moved = self.roam.look(now, socket, silence);
        let before = self.to;
        self.to = socket.peer().unwrap_or(before);
        // Where only the far end has moved, this one was not away.
        if has_moved && self.to == before {
            self.absences.on_move(ours, stream);
        }
        if has_moved || silence >= LONG_SILENCE && now >= self.again_at {
            self.again_at = now + INTERVAL;
            receiver.ask_again(now, self.to, self.request.clone());
        }
    }
}

impl Reception {
    /// Opens the socket.
    ///
    /// # Errors
    ///
    /// [`RunError`] where the address is not available.
    pub fn open(config: &ReceptionConfig) -> Result<Self, RunError> {
        let socket_config =
            SocketConfig { gro: config.offload, path: config.path.clone(), ..SocketConfig::default() };
        let is_group = config.address.ip().is_multicast();
        let open = |address, socket_config: &SocketConfig| {
            if is_group {
                UdpSocket::join(address, &config.sources, socket_config)
            } else {
                UdpSocket::bind(address, socket_config)
            }
        };
        let socket = open(config.address, &socket_config)?;
        let rtcp_address = config.rtcp.then(|| rtcp_address(socket.local_addr())).flatten();
        let rtcp_config = SocketConfig { path: config.path.clone(), ..SocketConfig::default() };
        let rtcp = rtcp_address.and_then(|address| open(address, &rtcp_config).ok());
        let receiver = ReceiverConfig { group: is_group, ..config.receiver.clone() };
        Ok(Self { rtcp, ..Self::over(socket, Clock::start(), receiver)? })
    }

    fn over(socket: UdpSocket, clock: Clock, config: ReceiverConfig) -> Result<Self, RunError> {
        let mut config = ReceiverConfig { clock: local_clock(clock), ..config };
        SysRng.try_fill_bytes(&mut config.secret).map_err(RunError::Random)?;
        let reverse = ReverseRuns::new(config.limits, config.keys.clone());
        Ok(Self { socket, rtcp: None, clock, reverse, receiver: Receiver::new(config), asked: None })
    }

    /// Asks `destination` to send a stream as `plan` has it, from the port of its receiver to ours.
    ///
    /// # Errors
    ///
    /// [`RunError`] if it does not answer, or refuses. [`RunError::Unplanned`] where the sizes of the plan vary.
    pub fn ask(plan: &ResolvedPlan, destination: &Destination, stop: &AtomicBool) -> Result<Self, RunError> {
        let config = SocketConfig { gro: true, path: destination.path.clone(), ..SocketConfig::default() };
        let socket = UdpSocket::connected(destination.to, &config)?;
        let clock = Clock::start();
        let limits = &plan.plan().limits;
        let reverse = ReverseLimits { duration: limits.duration, payload: limits.size };
        let request = StreamRequest { reverse: Some(reverse), ..plan.request(None) };
        if request.size.is_none() {
            return Err(RunError::Unplanned);
        }
        let nonce = SysRng.try_next_u64().map_err(RunError::Random)?;
        let keys = destination.keys.clone();
        let sender = SenderConfig {
            clock: local_clock(clock),
            keys: keys.clone(),
            ..SenderConfig::new(request, nonce)
        };
        Conversation::new(clock, [(&socket, sender.clone())]).open(stop).map_err(|error| match error {
            Some(reason) => RunError::Refused { to: destination.to, reason },
            None => RunError::Interrupted,
        })?;
        let config =
            ReceiverConfig { keys, max_streams: 1, max_reverse: 0, ..ReceptionConfig::default().receiver };
        let roam = Roam::with_resolver(destination.resolver.clone());
        let (to, again_at) = (destination.to, Timestamp::ZERO);
        let asked = Some(Asked { to, request: sender, roam, again_at, absences: Absences::default() });
        Ok(Self { asked, ..Self::over(socket, clock, config)? })
    }

    /// Adds to the result of the stream that this end has asked for where this end was.
    pub(super) fn add_absences(&self, result: &mut RunResult) {
        if let Some(asked) = &self.asked {
            asked.absences.add_to(result, self.socket.local_addr());
        }
    }

    /// Receives on the calling thread until `stop` is set or `on_event` returns [`Verdict::Stop`]. See
    /// [`ReceiveDriver::run`].
    ///
    /// # Errors
    ///
    /// [`RunError::Receive`]; the streams have been ended, and their events delivered.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        mut on_event: impl FnMut(&mut Receiver, Option<ReceiverEvent>) -> Verdict,
    ) -> Result<(), RunError> {
        let (socket, clock, reverse) = (&self.socket, self.clock, &self.reverse);
        let (rtcp, asked) = (self.rtcp.as_ref(), &mut self.asked);
        let outcome = thread::scope(|scope| {
            let mut driver = ReceiveDriver::new(socket, clock).with_rtcp(rtcp);
            let outcome = driver.run(&mut self.receiver, stop, |receiver, event| {
                reverse.note_ended(receiver);
                if let Some(asked) = asked {
                    asked.look(clock.now(), socket, receiver);
                }
                match event {
                    Some(ReceiverEvent::ReverseMoved { from, to }) => {
                        reverse.follow(from, to);
                        on_event(receiver, Some(ReceiverEvent::ReverseMoved { from, to }))
                    }
                    Some(ReceiverEvent::Reverse(asked)) => {
                        reverse.start(scope, (*asked).clone(), socket, clock, receiver);
                        on_event(receiver, Some(ReceiverEvent::Reverse(asked)))
                    }
                    event => on_event(receiver, event),
                }
            });
            reverse.halt();
            outcome
        });
        reverse.note_ended(&mut self.receiver);
        Ok(outcome?)
    }
}

/// The address of RTCP for media at `media`: "RTP SHOULD use an even destination port number and the corresponding RTCP stream
/// SHOULD use the next higher (odd) destination port number" (RFC 3550 §11).
fn rtcp_address(media: SocketAddr) -> Option<SocketAddr> {
    let port = media.port().checked_add(1).filter(|port| port % 2 == 1)?;
    Some(SocketAddr::new(media.ip(), port))
}

/// How the streams of a receiver are shown.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The time of the page.
    pub at: Timestamp,
    /// Of several runs of a page: the number of this one. Default: 0.
    pub run: u32,
    /// The name of the stream, if there is only one. Default: the sender's address.
    pub name: Option<&'a str>,
}

/// Hands the streams of `receiver`, whose clock says `now`, to a page. Call it with every event, and now and then without one.
pub fn watch(
    feed: &mut Feed,
    shown: Shown<'_>,
    now: Timestamp,
    receiver: &Receiver,
    event: Option<&ReceiverEvent>,
) {
    let named = |stream: &Stream| shown.name.map_or_else(|| stream.from().to_string(), str::to_owned);
    let number = |id: StreamId| u64::from(shown.run) << 32 | id.0 & u64::from(u32::MAX);
    if let Some(ReceiverEvent::Closed(id, stream)) = event {
        feed.close(state(now, number(*id), stream), || named(stream));
    }
    if feed.is_due(shown.at) {
        let of = |(id, stream): &(StreamId, &Stream)| state(now, number(*id), stream);
        feed.send(shown.at, receiver.streams(), of, |(_, stream)| named(stream));
    }
}

/// A stream as a page shows it.
fn state(now: Timestamp, id: u64, stream: &Stream) -> StreamState {
    let meter = stream.meter();
    StreamState {
        id,
        received: Some(Counts::of_stream(now, stream)),
        delay: meter.delay().totals().map(DelayState::Packets),
        rtt: stream.path().map(|path| path.rtt),
        ..StreamState::default()
    }
}

/// The figures of all open streams; the rate is that of the last second.
pub fn live(receiver: &Receiver) -> LiveFigures {
    let mut all = LiveFigures::default();
    for (_, stream) in receiver.streams() {
        let has_sequence = stream.format() != StreamFormat::Raw;
        all.add(Some(stream.meter()), stream.kernel_dropped_packets(), has_sequence);
    }
    all
}

/// The addresses from which a stream came, if there was more than one.
fn paths(stream: &Stream, summary: &StreamSummary) -> Vec<PathFigures> {
    let former = stream.former_paths();
    let mut before = 0;
    let mut path = |from: SocketAddr, until: Option<Timestamp>, received: u64| PathFigures {
        from: from.to_string(),
        until_s: until.zip(summary.first_arrival).map(|(until, first)| (until - first).as_seconds()),
        received_packets: received - std::mem::replace(&mut before, received).min(received),
        ..PathFigures::default()
    };
    let mut all: Vec<_> =
        former.iter().map(|past| path(past.from, Some(past.until), past.received_packets)).collect();
    if !all.is_empty() {
        all.push(path(stream.from(), summary.last_arrival, summary.received_packets));
    }
    all
}

/// The result of a stream as the receiver knows it.
pub fn result(stream: &mut Stream, cpu_ratio: Option<f32>, granted: &Granted) -> RunResult {
    let report = stream.report(cpu_ratio, ArrivalStamps::Unknown);
    let unknown = || RunResult { strategy: "unknown".to_owned(), ..RunResult::default() };
    let mut result = stream.request().map_or_else(unknown, RunResult::requested);
    result.add_received(&report.summary);
    let times = report.summary.first_arrival.zip(report.summary.last_arrival);
    result.duration_s = times.map(|(first, last)| (last - first).as_seconds());
    let HandshakeFlood { unanswered, dropped } = stream.flood();
    result.handshake_flood = (unanswered > 0)
        .then_some(FloodFigures { unanswered_handshakes: unanswered, dropped_packets: dropped });
    result.histograms = Some(Box::new(Histograms {
        gap_error_us: classes(stream.meter().gap_errors()),
        ..Histograms::default()
    }));
    let mut system = SystemGranted::from(granted);
    if let Some(figures) = stream.sender() {
        let SenderFigures { packets, rate_bps, schedule_error, cpu_ratio, .. } = figures;
        result.sent_packets = Some(*packets);
        result.unsent_packets = figures.unsent_packets;
        result.slips = figures.late_cycles.as_ref().map(Into::into);
        result.tx_rate_bps = *rate_bps;
        result.sender_cpu_ratio = cpu_ratio.map(f64::from);
        system.wake_latency_us = figures.wake_latency.as_ref().map(Into::into);
        if schedule_error.is_some() {
            result.schedule_error_us = Quantiles::micros(schedule_error.as_ref());
        }
    }
    if let Some(path) = stream.path() {
        result.clock = Some((&path.clock).into());
        result.round_trip_ms.p50 = Some(path.rtt.as_millis());
    }
    result.receiver_cpu_ratio = cpu_ratio.map(f64::from);
    result.voice = report.voice.as_ref().map(Into::into);
    let ended = stream.ended().map(|ended| match ended {
        Ended::Finished => "finished by the sender".to_owned(),
        Ended::Left => "left by the sender".to_owned(),
        Ended::Replaced => "replaced by another source".to_owned(),
        Ended::Idle => "idle timeout".to_owned(),
        Ended::Stopped => "receiver stopped".to_owned(),
        Ended::Limit(limit) => format!("ended by the receiver: {limit}"),
    });
    result.ended = ended;
    result.authenticated = Some(stream.is_authenticated());
    result.format = Some(match stream.format() {
        StreamFormat::Giusto => "giusto".to_owned(),
        StreamFormat::Raw => "raw".to_owned(),
        StreamFormat::Rtp { voice: Some(profile), .. } => format!("rtp {profile}"),
        StreamFormat::Rtp { voice: None, .. } => "rtp".to_owned(),
    });
    let is_raw = stream.format() == StreamFormat::Raw;
    if is_raw {
        result.forget_sequence();
    }
    if (is_raw || stream.request().is_some()) && stream.sender().is_none() {
        // How many datagrams followed the last one that arrived is unknown, and of raw ones how many were before it.
        (result.lost_packets, result.loss_ratio, result.loss_bursts) = (None, None, None);
    }
    if stream.request().is_none() {
        result.far_end =
            stream.sender_report().map(|(source, packets)| FarEndFigures::sender(source, packets));
    }
    result.from = Some(stream.from().to_string());
    result.paths = paths(stream, &report.summary);
    result.system = Some(system);
    result.doubts = result.find_doubts();
    result
}
