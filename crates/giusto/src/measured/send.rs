//! The sending end of a run: opens the streams, sends on time, collects the receiver's reports.

mod outcome;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use giusto_measure::ErrorHistogram;
use giusto_net::{
    Clock, Granted, PathOptions, Sleeper, SleeperConfig, SleeperReport, SocketConfig, ThreadCpu,
    TrafficClass, UdpSocket,
    driver::{
        Conversation, ConversationEvent, Driver, Flow, FlowOutcome, Link, Resolver, local_clock, rehearse,
        transmit,
    },
};
use giusto_session::{
    keys::KeyRing,
    probe::{
        FarEndReports, SenderConfig, SenderError, SenderEvent, SenderReports,
        wire::{Report, SenderFigures, StreamFormat, StreamToken, WakeLatency},
    },
};
use giusto_units::{DataSize, TimeDelta, Timestamp};
use rand::{TryRng, rngs::SysRng};

pub use self::outcome::{StreamOutcome, Transmission};
use crate::measured::{
    RunError,
    announce::Announcements,
    departures::Departures,
    interval::{Counts, IntervalFigures, ReportClock, SentCounts, TransmissionIntervals},
    live::{Arrived, Live},
    path_mtu,
    plan::{Opened, Pacing, ResolvedPlan, StreamPlanError},
    result::{FarEndFigures, LiveFigures},
};
use crate::watch::{DelayState, SentState, SharedFeed, StreamState};

/// The time before the first datagram in which the sending thread practises waking, so that the first datagram is as punctual
/// as the others.
pub(super) const RUN_UP: TimeDelta = TimeDelta::from_millis(120);

/// Time without any message of the receiver after which it counts as lost.
pub const DEFAULT_SILENCE: TimeDelta = TimeDelta::from_seconds(3);

giusto_units::defaults! {
    /// The receiver, and how it is addressed.
    #[derive(Debug, Clone)]
    pub struct Destination {
        /// The receiver's address.
        pub to: SocketAddr = to,
        /// The number of streams, each from a port of its own.
        pub streams: usize = 1,
        /// Send without asking the receiver and without its reports: for receivers other than giusto.
        pub one_way: bool = false,
        /// DSCP and ECN of every datagram.
        pub traffic_class: TrafficClass = TrafficClass::default(),
        /// Where the datagrams leave, and what routers and switches read of them. Default: all is left to the system.
        pub path: PathOptions = PathOptions::default(),
        /// Time without any message of the receiver after which the run ends. Default: 3 s.
        pub silence: TimeDelta = DEFAULT_SILENCE,
        /// Finds the receiver again where it has another address. Default: none.
        pub resolver: Option<Resolver> = None,
        /// Keys shared with the receiver: with them, only authenticated datagrams are sent and accepted.
        pub keys: Option<KeyRing> = None,
        /// The send and receive buffers of each socket; `None`: those of [`SocketConfig`].
        pub buffers: Option<DataSize> = None,
        /// The length of the intervals of [`Live::interval`]; `None`: there are none.
        pub interval: Option<TimeDelta> = None,
        /// What shows the streams while they last. Default: none.
        pub feed: Option<SharedFeed> = None,
    }
    /// One stream to a giusto receiver at `to`, without marks, keys and intervals.
    pub fn new(to: SocketAddr);
}

impl Destination {
    /// The configuration of its sockets.
    pub(super) fn socket_config(&self) -> SocketConfig {
        let default = SocketConfig::default();
        SocketConfig {
            traffic_class: self.traffic_class,
            path: self.path.clone(),
            send_buffer: self.buffers.or(default.send_buffer),
            receive_buffer: self.buffers.or(default.receive_buffer),
            // A conversation reads the stamps.
            sample_departures: !self.one_way && !self.to.ip().is_multicast(),
            ..default
        }
    }
}

/// Sends as planned until the limits are reached, `stop` is set, or a receiver is gone.
///
/// `on_live` is called several times a second from the calling thread, and at the end with the last interval.
///
/// # Errors
///
/// [`RunError`] where the run could not begin. Later errors are part of the outcome, beside what was measured.
pub fn run(
    plan: &ResolvedPlan,
    destination: &Destination,
    stop: &AtomicBool,
    on_live: impl FnMut(&Live),
) -> Result<Transmission, RunError> {
    if destination.keys.is_some() && !plan.has_room_for_keys() {
        return Err(RunError::Layout);
    }
    let config = destination.socket_config();
    let sockets = (0..destination.streams)
        .map(|_| UdpSocket::connected(destination.to, &config))
        .collect::<Result<Vec<_>, _>>()?;
    over(plan, destination, &sockets, stop, on_live)
}

/// Like [`run`], over sockets that are connected to the destination: one for each stream.
///
/// # Errors
///
/// As [`run`].
pub(super) fn over(
    plan: &ResolvedPlan,
    destination: &Destination,
    sockets: &[UdpSocket],
    stop: &AtomicBool,
    mut on_live: impl FnMut(&Live),
) -> Result<Transmission, RunError> {
    let clock = Clock::start();
    let (configs, sources) = sender_configs(plan, destination, sockets, clock)?;
    let is_group = destination.to.ip().is_multicast();
    let asked = if destination.one_way || is_group { 0 } else { sockets.len() };
    let mut conversation = Conversation::new(clock, sockets.iter().zip(configs).take(asked))
        .with_resolver(destination.resolver.clone());
    // The first probe may follow the last message of the handshake.
    path_mtu::forbid_fragments(plan, sockets)?;
    let mut tokens = conversation.open(stop).map_err(|error| match error {
        Some(reason) => RunError::Refused { to: destination.to, reason },
        None => RunError::Interrupted,
    })?;
    let (mut announcements, random) = Announcements::new(clock, sockets, plan, destination.to)?;
    tokens.extend(random);
    tokens.resize(sockets.len(), StreamToken(0));

    let early = path_mtu::find(plan, destination.to, &mut conversation, stop)?;
    let departures = Departures::new(plan, destination.to.ip(), sockets);
    let start = clock.now() + RUN_UP;
    let mut flows = Vec::with_capacity(sockets.len());
    let mut far_ends = FarEnds::new(clock, sockets, destination, plan, &sources);
    for (index, ((socket, token), ssrc)) in sockets.iter().zip(tokens).zip(sources).enumerate() {
        let opened = Opened { token, key: conversation.data_key(index), ssrc };
        let flow = plan.flow(socket, opened, start, index, sockets.len()).map_err(StreamPlanError::from)?;
        let cname = format!("{:016x}", SysRng.try_next_u64().map_err(RunError::Random)?);
        let reports = SenderReports::new(clock.origin_realtime_nanos(), cname, plan.rate());
        flows.push(Flow { reports: Some(reports), launch: departures.launch, ..flow });
    }

    let (halt, done) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let count = || SentCounts::of(sockets);
    let mut intervals = destination.interval.map(|interval| {
        let reported = (!destination.one_way).then(|| plan.request(None).format);
        TransmissionIntervals::new(interval, plan.header(), start, sockets.len(), reported)
    });
    let mut replies = Replies::new(plan, sockets.len(), early);
    let mut watched = Watched::new(destination, plan.header(), sockets.len());
    let sent = thread::scope(|scope| {
        let sending = thread::Builder::new().spawn_scoped(scope, || {
            let _ends_the_conversation = RaisedOnDrop(&done);
            send(plan, flows, clock, start, &halt)
        });
        let sending = sending.map_err(|_| RunError::Thread("sending"))?;
        conversation.accompany(&done, |event| {
            if let Some(event) = event {
                note_report(&mut intervals, clock, &event);
                watched.note_report(clock.now(), &event);
                replies.add(event);
            }
            watched.show(clock.now(), sockets, false);
            if stop.load(Ordering::Relaxed) || replies.errors.iter().any(Option::is_some) {
                halt.store(true, Ordering::Relaxed);
            }
            far_ends.read();
            announcements.turn(sockets);
            let sent = count();
            let interval = intervals.as_mut().and_then(|intervals| intervals.on_turn(clock.now(), sent));
            on_live(&replies.live(sent.packets, interval));
        });
        sending.join().map_err(|_| RunError::Thread("sending"))
    })?;
    path_mtu::permit_fragments(sockets);
    let sleeper = sent.sleeper.report();
    conversation.finish(sent.flows.iter().map(|flow| figures(flow, sent.cpu_ratio, &sleeper)), |event| {
        note_report(&mut intervals, clock, &event);
        watched.note_report(clock.now(), &event);
        replies.add(event);
    });
    announcements.finish(sent.flows.iter().map(|flow| figures(flow, sent.cpu_ratio, &sleeper)));
    watched.show(clock.now(), sockets, true);
    if let Some(interval) = intervals.and_then(|mut intervals| intervals.finish(sent.ended, count())) {
        on_live(&replies.live(count().packets, Some(interval)));
    }

    far_ends.wait_for_the_last();
    let mut granted = sockets.first().map_or_else(Granted::of_this_system, UdpSocket::granted);
    sent.sleeper.describe(&mut granted);
    let streams = sent.flows.into_iter().zip(replies.reports).zip(replies.errors).enumerate();
    let streams = streams.map(|(index, ((sent, report), error))| StreamOutcome {
        sent,
        report,
        path_mtu: match conversation.path_mtu(index) {
            Some(found) => found.mtu_bytes.map(DataSize::from_bytes),
            None => sockets.get(index).and_then(UdpSocket::path_mtu),
        },
        mtu_discovery: conversation.path_mtu(index),
        clock: conversation.clock_estimate(index),
        rtts: conversation.rtts(index),
        far_end: far_ends.figures(index),
        departure_lag: sockets.get(index).and_then(UdpSocket::departure_lag),
        error,
    });
    Ok(Transmission {
        streams: streams.collect(),
        duration: sent.ended.saturating_since(start),
        sender_cpu_ratio: sent.cpu_ratio,
        sleeper: sent.sleeper.report(),
        granted,
        departures: departures.said,
        interrupted: stop.load(Ordering::Relaxed),
        authenticated: destination.keys.is_some() && !destination.one_way,
    })
}

/// The configurations of the streams, and the sources of their RTP.
fn sender_configs(
    plan: &ResolvedPlan,
    destination: &Destination,
    sockets: &[UdpSocket],
    clock: Clock,
) -> Result<(Vec<SenderConfig>, Vec<u32>), RunError> {
    let mut configs = Vec::with_capacity(sockets.len());
    let mut sources = Vec::with_capacity(sockets.len());
    for socket in sockets {
        let nonce = SysRng.try_next_u64().map_err(RunError::Random)?;
        // Who cannot read the announcement must not guess the source.
        let ssrc = SysRng.try_next_u32().map_err(RunError::Random)?;
        sources.push(ssrc);
        configs.push(SenderConfig {
            clock: local_clock(clock),
            keys: destination.keys.clone(),
            path_mtu: path_mtu::search(plan, clock, socket, destination.to),
            silence_timeout: destination.silence,
            ..SenderConfig::new(plan.request(Some(ssrc)), nonce)
        });
    }
    Ok((configs, sources))
}

/// The RTCP that comes back to RTP streams whose receiver was not asked.
struct FarEnds<'a> {
    clock: Clock,
    driver: Driver,
    reports: Vec<Link<'a, FarEndReports>>,
}

impl<'a> FarEnds<'a> {
    fn new(
        clock: Clock,
        sockets: &'a [UdpSocket],
        destination: &Destination,
        plan: &ResolvedPlan,
        sources: &[u32],
    ) -> Self {
        const LONGEST: usize = 2048;
        let rate = match plan.request(None).format {
            StreamFormat::Rtp { clock_rate_hz, .. } if destination.one_way => Some(clock_rate_hz),
            _ => None,
        };
        let origin = clock.origin_realtime_nanos();
        let reports = sockets
            .iter()
            .zip(sources)
            .filter_map(|(socket, ssrc)| Some(Link::new(socket, FarEndReports::new(*ssrc, rate?, origin))));
        Self { clock, driver: Driver::new(clock, LONGEST), reports: reports.collect() }
    }

    /// Reads what has come. The kernel has noted when, so it is enough to do so now and then.
    fn read(&mut self) {
        for link in &mut self.reports {
            // A socket that fails is silent: the sending thread finds out.
            let _ = self.driver.turn(link);
        }
    }

    /// Waits a little for the answers to the goodbyes.
    fn wait_for_the_last(&mut self) {
        const LAST: TimeDelta = TimeDelta::from_millis(300);
        const LOOK: Duration = Duration::from_millis(20);
        let count = |link: &Link<'_, FarEndReports>| link.session.latest().map_or(0, |report| report.reports);
        let before: Vec<_> = self.reports.iter().map(count).collect();
        let until = self.clock.now() + LAST;
        while self.clock.now() < until {
            self.read();
            if self.reports.iter().zip(&before).all(|(reports, before)| count(reports) > *before) {
                return;
            }
            self.driver.wait(&self.reports, LOOK);
        }
    }

    fn figures(&self, stream: usize) -> Option<FarEndFigures> {
        self.reports.get(stream).and_then(|link| FarEndFigures::reported(&link.session))
    }
}

/// Sets the flag when it is dropped, also by a panic, so that the thread that waits for the flag goes on.
pub(super) struct RaisedOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for RaisedOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The streams as a page shows them.
struct Watched {
    feed: Option<SharedFeed>,
    to: SocketAddr,
    header: DataSize,
    /// For each stream.
    reported: Vec<Reported>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Reported {
    clock: ReportClock,
    counts: Option<Counts>,
    delay: Option<TimeDelta>,
}

impl Watched {
    fn new(destination: &Destination, header: DataSize, streams: usize) -> Self {
        let Destination { feed, to, .. } = destination;
        Self { feed: feed.clone(), to: *to, header, reported: vec![Reported::default(); streams] }
    }

    fn note_report(&mut self, now: Timestamp, event: &ConversationEvent) {
        let (SenderEvent::Report(report), Some(known)) = (&event.event, self.reported.get_mut(event.stream))
        else {
            return;
        };
        known.counts = known.clock.counts(now, &report.summary, self.header).or(known.counts);
        known.delay = report.summary.delay.map(|delay| delay.p50);
    }

    fn show(&self, now: Timestamp, sockets: &[UdpSocket], ended: bool) {
        let Some(feed) = &self.feed else { return };
        let many = sockets.len() > 1;
        let state = |&(id, (socket, reported)): &(u64, (&UdpSocket, &Reported))| {
            let counters = socket.send_counters();
            let headers = self.header * counters.run_datagrams;
            StreamState {
                id,
                sent: Some(SentState {
                    packets: counters.run_datagrams,
                    size: DataSize::from_bytes(counters.run_bytes) + headers,
                }),
                received: reported.counts,
                delay: reported.delay.map(DelayState::SoFar),
                ..StreamState::default()
            }
        };
        let streams = (1..).zip(sockets.iter().zip(&self.reported));
        let name = |(id, _): &(u64, _)| {
            if many { format!("stream {id} to {}", self.to) } else { format!("to {}", self.to) }
        };
        feed.with(|feed| {
            if ended {
                streams.for_each(|stream| feed.close(state(&stream), || name(&stream)));
                feed.finish(now);
            } else if feed.is_due(now) {
                feed.send(now, streams, state, name);
            }
        });
    }
}

/// Gives a report to the intervals.
fn note_report(intervals: &mut Option<TransmissionIntervals>, clock: Clock, event: &ConversationEvent) {
    if let (Some(intervals), SenderEvent::Report(report)) = (intervals, &event.event) {
        intervals.on_report(clock.now(), event.stream, &report.summary);
    }
}

/// The latest report and the error of each stream.
struct Replies {
    /// The datagrams have sequence numbers, which show what was lost.
    has_sequence: bool,
    reports: Vec<Option<Box<Report>>>,
    errors: Vec<Option<SenderError>>,
}

impl Replies {
    fn new(plan: &ResolvedPlan, streams: usize, early: Vec<ConversationEvent>) -> Self {
        let has_sequence = plan.request(None).format != StreamFormat::Raw;
        let mut replies = Self { has_sequence, reports: vec![None; streams], errors: vec![None; streams] };
        for event in early {
            replies.add(event);
        }
        replies
    }

    fn add(&mut self, ConversationEvent { stream, event }: ConversationEvent) {
        match (event, self.reports.get_mut(stream), self.errors.get_mut(stream)) {
            (SenderEvent::Report(report), Some(place), _) => *place = Some(report),
            (SenderEvent::Ended(Err(error)), _, Some(place)) => *place = Some(error),
            _ => {}
        }
    }

    fn live(&self, sent_packets: u64, interval: Option<IntervalFigures>) -> Live {
        let mut all = LiveFigures::default();
        for summary in self.reports.iter().flatten().map(|report| &report.summary) {
            all.streams += 1;
            all.received_packets += summary.received_packets;
            if self.has_sequence {
                *all.lost_packets.get_or_insert(0) += summary.lost_packets;
            }
            all.kernel_dropped_packets += summary.kernel_dropped_packets;
            all.rate_bps += summary.rate_bps.unwrap_or(0.0);
            all.gap_error_p99 = all.gap_error_p99.max(summary.gap_error.map(|gap| gap.p99));
        }
        Live {
            sent_packets: Some(sent_packets),
            arrived: (all.streams > 0).then_some(Arrived::Streams(all)),
            interval: interval.map(Into::into),
        }
    }
}

/// The result of the sending thread.
pub(super) struct Sent {
    pub(super) flows: Vec<FlowOutcome>,
    pub(super) sleeper: Sleeper,
    pub(super) cpu_ratio: f64,
    pub(super) ended: Timestamp,
}

impl Sent {
    /// The run of a sender that gets no reports.
    pub(super) fn unreported(
        self,
        start: Timestamp,
        mut granted: Granted,
        interrupted: bool,
    ) -> Transmission {
        self.sleeper.describe(&mut granted);
        let streams = self.flows.into_iter().map(|sent| StreamOutcome {
            sent,
            report: None,
            clock: None,
            rtts: ErrorHistogram::new(),
            far_end: None,
            path_mtu: None,
            mtu_discovery: None,
            departure_lag: None,
            error: None,
        });
        Transmission {
            streams: streams.collect(),
            duration: self.ended.saturating_since(start),
            sender_cpu_ratio: self.cpu_ratio,
            sleeper: self.sleeper.report(),
            granted,
            departures: None,
            interrupted,
            authenticated: false,
        }
    }
}

/// The sending thread.
pub(super) fn send(
    plan: &ResolvedPlan,
    flows: Vec<Flow<'_>>,
    clock: Clock,
    start: Timestamp,
    halt: &Arc<AtomicBool>,
) -> Sent {
    let Pacing { mode, realtime: realtime_priority, .. } = plan.plan().pacing;
    let mut sleeper = Sleeper::new(SleeperConfig { mode, realtime_priority, stop: Some(Arc::clone(halt)) });
    rehearse(&mut sleeper, clock, start);
    let (began, cpu) = (clock.now(), ThreadCpu::start());
    let flows = transmit(flows, clock, &mut sleeper, halt);
    let ended = clock.now();
    let passed = (ended - began).as_seconds().max(1e-9);
    Sent { flows, sleeper, cpu_ratio: cpu.used().as_seconds() / passed, ended }
}

/// The sender's figures that the receiver gets at the end.
fn figures(sent: &FlowOutcome, cpu_ratio: f64, sleeper: &SleeperReport) -> SenderFigures {
    let micros = |us: f64| TimeDelta::from_seconds_f64(us / 1e6);
    SenderFigures {
        packets: sent.packets,
        bytes: sent.payload.as_bytes(),
        schedule_error: sent.schedule_error.quantiles(),
        rate_bps: sent.rate.rate(),
        cpu_ratio: Some(cpu_ratio as f32),
        unsent_packets: Some(sent.unsent_packets),
        late_cycles: Some(sent.late_cycles),
        wake_latency: (sleeper.sleeps > 0).then(|| WakeLatency {
            p50: micros(sleeper.wake_latency_p50_us),
            p99: micros(sleeper.wake_latency_p99_us),
            max: micros(sleeper.wake_latency_max_us),
        }),
    }
}
