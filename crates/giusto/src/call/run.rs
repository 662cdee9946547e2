//! The caller and the listener over a socket.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use giusto_congestion::{Algorithm, Decision};
use giusto_net::{
    Clock, SocketConfig, SocketError, UdpSocket,
    driver::{CallDriver, ReceiveError, Verdict, local_clock},
    emulate::StartSignal,
    encoder::EncoderError,
};
use giusto_session::{
    call::{
        Answer, CallCounters, CallError, CallEvent, CallId, CallRefusal, Calls, CallsConfig, MAX_NAME_BYTES,
        Offer,
    },
    keys::KeyRing,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use rand::{
    TryRng,
    rngs::{SysError, SysRng},
};

use super::{
    plan::{CallPlan, PlanError, overhead, received, spec_of},
    record::{CallFigures, CallRecord, distribution_of},
    save::SaveTarget,
    side::{CallSide, FORWARD_ID, REVERSE_ID, Received, SideConfig, SideTotals},
    video::VideoInput,
};
use crate::{
    capture::CallCapture,
    measured::interval::Counts,
    record::TimelineOptions,
    replay::SessionLog,
    run::Taps,
    view::trace::{TraceFile, TraceFileError, TraceNames},
    watch::{Decided, DelayState, SentState, SharedFeed, StreamState},
};

/// The receive buffer of a socket: about a second of 100 calls at 1 Mbit/s, for each of whose datagrams the kernel counts 2304 B.
const RECEIVE_BUFFER: DataSize = DataSize::from_bytes(32_000_000);

/// How long a call without an announced end is recorded over time.
const UNLIMITED: TimeDelta = TimeDelta::from_seconds(3600);

/// Time for which a listener that serves one call still answers after its end.
const LINGER: TimeDelta = TimeDelta::from_millis(300);

/// Why calls could not begin, or not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallRunError {
    /// The socket could not be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The socket failed while receiving.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// The call did not begin.
    #[error("{to}: {reason}")]
    Refused {
        /// The address of the listener.
        to: SocketAddr,
        /// Why.
        reason: CallError,
    },
    /// The offer is invalid.
    #[error("the call cannot be offered: {0}")]
    Offer(CallRefusal),
    /// The encoder failed before the call began.
    #[error(transparent)]
    Video(#[from] EncoderError),
    /// The media cannot be built, which the plan has excluded.
    #[error("the media of the call cannot be made: {0}")]
    Media(String),
    /// The system gave no random numbers.
    #[error("cannot read random numbers from the system: {0}")]
    Random(#[from] SysError),
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceFileError),
    /// The run was interrupted before the call began.
    #[error("interrupted before the call began")]
    Interrupted,
}

/// What both ends can set.
#[derive(Debug, Clone)]
pub struct CallSettings {
    /// Keys shared with the far end. Default: none.
    pub keys: Option<KeyRing>,
    /// Time without any datagram of the far end after which a call ends. Default 15 s.
    pub silence: TimeDelta,
    /// The record over time. Default: none.
    pub timeline: Option<TimelineOptions>,
    /// The time between two live figures. Default 1 s.
    pub interval: TimeDelta,
    /// Records the controller of the first call in which this end sends. Default: none.
    pub session_log: Option<SessionLog>,
    /// Set when the media of the first call begin. Default: none.
    pub began: Option<StartSignal>,
    /// Captures all datagrams of this end. Default: none.
    pub capture: Option<CallCapture>,
    /// Saves the video of the first call in which this end receives real video. Default: not at all.
    pub save: Option<SaveTarget>,
    /// What shows the calls while they last. Default: none.
    pub feed: Option<SharedFeed>,
    /// Controllers that a caller may ask a listener to send by, besides the built-in ones. Default: none.
    pub algorithms: Vec<Algorithm>,
}

impl Default for CallSettings {
    fn default() -> Self {
        Self {
            keys: None,
            silence: TimeDelta::from_seconds(15),
            timeline: None,
            interval: TimeDelta::from_seconds(1),
            session_log: None,
            began: None,
            capture: None,
            save: None,
            feed: None,
            algorithms: Vec::new(),
        }
    }
}

/// The figures of the last interval, of all calls of this end together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Live {
    /// The end of the interval, from the beginning of the first call.
    pub at: TimeDelta,
    /// Calls.
    pub calls: usize,
    /// What this end sends, if it sends.
    pub sent: Option<LiveSide>,
    /// What it receives, if it receives.
    pub received: Option<LiveSide>,
    /// The median round-trip time so far.
    pub round_trip: Option<TimeDelta>,
    /// How long nothing has come from a far end, if that is longer than a second.
    pub silence: Option<TimeDelta>,
}

/// One direction in the last interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LiveSide {
    /// Rate, headers included.
    pub rate: DataRate,
    /// The target rate of a sender's controllers.
    pub target: Option<DataRate>,
    /// Packets lost in the interval.
    pub lost_packets: u64,
    /// Frames in the interval.
    pub frames: u64,
    /// The mean of their delays.
    pub frame_delay: Option<TimeDelta>,
}

/// An end of calls over one socket.
#[derive(Debug)]
struct LocalEnd {
    clock: Clock,
    settings: CallSettings,
    open: BTreeMap<CallId, OpenCall>,
    next_live: Option<Timestamp>,
    live_from: Timestamp,
    before: BTreeMap<CallId, SideTotals>,
    first_began: Option<Timestamp>,
    begun: u64,
}

/// A call that has begun.
#[derive(Debug)]
struct OpenCall {
    config: SideConfig,
    /// How many calls had begun before.
    number: u64,
}

/// The result of a call.
#[derive(Debug)]
struct Outcome {
    record: CallRecord,
    trace: Option<TraceFile>,
}

impl LocalEnd {
    fn new(clock: Clock, settings: CallSettings) -> Self {
        let now = clock.now();
        Self {
            clock,
            settings,
            open: BTreeMap::new(),
            next_live: None,
            live_from: now,
            before: BTreeMap::new(),
            first_began: None,
            begun: 0,
        }
    }

    fn config(&self, max_calls: usize) -> Result<CallsConfig, CallRunError> {
        let mut secret = [0; 32];
        SysRng.try_fill_bytes(&mut secret)?;
        Ok(CallsConfig {
            keys: self.settings.keys.clone(),
            max_calls,
            clock: local_clock(self.clock),
            silence_timeout: self.settings.silence,
            ..CallsConfig::new(secret)
        })
    }

    /// Forgets the calls of an earlier run that it left without their end.
    fn forget_calls(&mut self) {
        self.open.clear();
        self.before.clear();
    }

    /// Synchronisation sources that no call of this end has.
    fn sources(&self) -> Result<u32, SysError> {
        loop {
            let sources = SysRng.try_next_u32()? & !0xff;
            if sources != 0 && self.open.values().all(|call| call.config.sources.0 != sources) {
                return Ok(sources);
            }
        }
    }

    fn on_begun(&mut self, now: Timestamp, id: CallId, config: SideConfig) {
        if let Some(signal) = self.settings.began.take() {
            signal.set(self.clock, now);
        }
        self.first_began.get_or_insert(now);
        self.open.insert(id, OpenCall { config, number: self.begun });
        self.begun += 1;
    }

    /// A driver of this end's socket, with its capture.
    fn driver<'a>(&mut self, socket: &'a UdpSocket) -> CallDriver<'a> {
        let mut driver = CallDriver::new(socket, self.clock);
        if let Some(capture) = self.settings.capture.take() {
            driver.set_tap(capture.tap(socket.local_addr(), self.clock, self.settings.keys.is_some()));
        }
        driver
    }

    /// Hands the calls to the page, if there is one.
    fn show(&self, now: Timestamp, calls: &mut Calls<CallSide>) {
        let Some(feed) = &self.settings.feed else { return };
        feed.with(|feed| {
            for (&id, call) in &self.open {
                let Some(began) = calls.began(id) else { continue };
                let decisions = calls.media_mut(id).map(CallSide::take_decisions).unwrap_or_default();
                for Decision { at, from, to, cause } in decisions {
                    let at = began + (at - Timestamp::ZERO);
                    feed.decide(Decided { id: 2 * call.number, at, rates: [from, to], cause });
                }
            }
            if !feed.is_due(now) {
                return;
            }
            let states = self.open.iter().flat_map(|(&id, call)| states(now, id, call.number, calls));
            let name = |shown: u64| {
                let call = self.open.iter().find(|(_, call)| call.number == shown / 2);
                direction(shown, call.and_then(|(&id, _)| calls.peer(id)))
            };
            feed.send(now, states, name);
        });
    }

    /// Hands what is left to the page.
    fn finish_feed(&self) {
        if let Some(feed) = &self.settings.feed {
            feed.with(|feed| feed.finish(self.clock.now()));
        }
    }

    /// The live figures, if they are due.
    fn live(&mut self, now: Timestamp, calls: &Calls<CallSide>) -> Option<Live> {
        let due = *self.next_live.get_or_insert(self.first_began? + self.settings.interval);
        if now < due || self.open.is_empty() {
            return None;
        }
        let seconds = (now - self.live_from.max(self.first_began?)).as_seconds();
        self.next_live = Some(due.max(now - self.settings.interval) + self.settings.interval);
        self.live_from = now;
        let mut live = Live {
            at: now - self.first_began?,
            calls: 0,
            sent: None,
            received: None,
            round_trip: None,
            silence: None,
        };
        let rate = |bytes: u64| {
            DataRate::from_bps(if seconds > 0.0 { (bytes as f64 * 8.0 / seconds) as u64 } else { 0 })
        };
        let mut received = (LiveSide::default(), TimeDelta::ZERO, 0_u64);
        let (mut sent_bytes, mut received_bytes) = (0, 0);
        for &id in self.open.keys() {
            let Some(side) = calls.media(id) else { continue };
            let totals = side.totals();
            let before = self.before.insert(id, totals).unwrap_or_default();
            live.calls += 1;
            let (sends, receives) = side.directions();
            if sends {
                sent_bytes += totals.sent_bytes - before.sent_bytes;
                let sent = live.sent.get_or_insert_default();
                let own = totals.target.unwrap_or_default();
                let target = sent.target.unwrap_or_default().as_bps() + own.as_bps();
                sent.target = Some(DataRate::from_bps(target));
                sent.rate = rate(sent_bytes);
            }
            if receives {
                received_bytes += totals.received_bytes - before.received_bytes;
                received.0.rate = rate(received_bytes);
                received.0.lost_packets += totals.lost_packets.saturating_sub(before.lost_packets);
                received.0.frames += totals.frames - before.frames;
                received.1 += totals.frame_delay_sum - before.frame_delay_sum;
                received.2 += totals.frame_delays - before.frame_delays;
                let frames = i64::try_from(received.2).unwrap_or(i64::MAX);
                received.0.frame_delay = (frames > 0).then(|| received.1 / frames);
                live.received = Some(received.0);
            }
            live.round_trip = live.round_trip.or(calls.round_trips(id).and_then(|all| all.quantile(0.5)));
            let silence = calls.silence(id, now).filter(|silence| *silence >= TimeDelta::from_seconds(1));
            live.silence = live.silence.max(silence);
        }
        Some(live)
    }

    /// The result of a call that has ended; `None` if it had not begun.
    fn result(
        &mut self,
        now: Timestamp,
        id: CallId,
        outcome: &Result<(), CallError>,
        (calls, driver): (&mut Calls<CallSide>, &CallDriver<'_>),
    ) -> Option<Outcome> {
        let open = self.open.remove(&id)?;
        if let Some(feed) = &self.settings.feed {
            feed.with(|feed| {
                for state in states(now, id, open.number, calls) {
                    feed.close(state, || direction(state.id, calls.peer(id)));
                }
            });
        }
        self.before.remove(&id);
        let (began, peer) = (calls.began(id)?, calls.peer(id)?);
        let far_end = calls.far_end(id).cloned();
        let mut side = calls.take_media(id)?;
        let saved = side.finish_video();
        let by_sequence = side.totals().lost_packets;
        let at = Timestamp::ZERO + (now - began);
        let (mut run, trace) = side.finish(at, far_end.as_ref());
        run.wall_s = (now - began).as_seconds();
        let report = driver.report();
        let elapsed = report.elapsed.as_seconds();
        let mut call = CallFigures {
            role: if open.config.is_caller { "caller" } else { "listener" }.to_owned(),
            far_end: peer.to_string(),
            error: outcome.as_ref().err().map(ToString::to_string),
            authenticated: self.settings.keys.is_some(),
            round_trip_ms: calls.round_trips(id).and_then(|all| distribution_of(all, 1.0)),
            schedule_error_us: distribution_of(&report.lateness, 1e3),
            cpu_ratio: if elapsed > 0.0 { report.cpu.as_seconds() / elapsed } else { 0.0 },
            address_changes: calls.moves(id).unwrap_or(0),
            unsent_packets: report.unsent,
            unsent_reason: report.unsent_reason,
            socket_dropped_packets: report.dropped,
            ignored: calls.counters().into(),
            video: open.config.video.as_ref().map(|video| video.figures(now - began)),
            saved,
            doubts: Vec::new(),
        };
        call.doubts = call.find_doubts();
        if let Some(sent) = far_end.as_ref().and_then(|figures| figures.sent)
            && by_sequence > sent.packets
        {
            call.doubts.push(format!(
                "the sequence numbers show {by_sequence} lost packets of {} sent: packets were changed on the way; use --key-file",
                sent.packets
            ));
        }
        Some(Outcome { record: CallRecord { run, call }, trace })
    }
}

/// The name of a direction of a call: even numbers send.
fn direction(shown: u64, peer: Option<SocketAddr>) -> String {
    let peer = peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
    format!("{} {peer}", if shown.is_multiple_of(2) { "to" } else { "from" })
}

/// The two directions of a call as a page shows them, as far as they have media.
fn states(now: Timestamp, id: CallId, number: u64, calls: &Calls<CallSide>) -> Vec<StreamState> {
    let (Some(side), Some(began)) = (calls.media(id), calls.began(id)) else { return Vec::new() };
    let totals = side.totals();
    let (sends, receives) = side.directions();
    let round_trip = calls.round_trips(id).and_then(|all| all.quantile(0.5));
    let sent = sends.then(|| StreamState {
        id: 2 * number,
        sent: Some(SentState { packets: totals.sent_packets, size: DataSize::from_bytes(totals.sent_bytes) }),
        target: totals.target,
        sender_queue: side.sender_queue(Timestamp::ZERO + (now - began)),
        round_trip,
        ..StreamState::default()
    });
    let bytes = DataSize::from_bytes(totals.received_bytes);
    let received = receives.then(|| StreamState {
        id: 2 * number + 1,
        received: Some(Counts::of_media(now, began, totals.received_packets, bytes, totals.lost_packets)),
        delay: Some(DelayState::Frames(totals.frame_delay_sum, totals.frame_delays)),
        round_trip,
        ..StreamState::default()
    });
    sent.into_iter().chain(received).collect()
}

fn socket_config() -> SocketConfig {
    SocketConfig { receive_buffer: Some(RECEIVE_BUFFER), ..SocketConfig::default() }
}

/// Names of the flows in a trace.
fn trace_names() -> TraceNames {
    let flows = [FORWARD_ID, REVERSE_ID].into_iter().flat_map(|id| [id.to_owned(), format!("{id}:back")]);
    TraceNames { flows: flows.collect(), links: Vec::new() }
}

/// Creates a trace file of a call.
///
/// # Errors
///
/// [`TraceFileError`] names the path and the fix.
pub fn create_trace(path: &std::path::Path) -> Result<TraceFile, TraceFileError> {
    TraceFile::create(path, trace_names())
}

/// Makes calls to one address.
#[derive(Debug)]
pub struct Caller {
    socket: UdpSocket,
    local: LocalEnd,
    to: SocketAddr,
    plan: CallPlan,
}

impl Caller {
    /// A caller to `to`, from a free port.
    ///
    /// # Errors
    ///
    /// [`CallRunError::Socket`] if there is no socket.
    pub fn open(to: SocketAddr, plan: CallPlan, settings: CallSettings) -> Result<Self, CallRunError> {
        let any: IpAddr = match to.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let clock = Clock::start();
        let socket = UdpSocket::bind((any, 0).into(), &socket_config())?;
        Ok(Self { socket, local: LocalEnd::new(clock, settings), to, plan })
    }

    /// Makes `count` calls at the same time, and returns the record of each. `trace` records the first one; `taps` sees the
    /// controller of each. When `is_over` returns true, the calls are ended in good order.
    ///
    /// # Errors
    ///
    /// [`CallRunError`] if a call does not begin, or the socket fails.
    pub fn run(
        mut self,
        count: usize,
        (mut trace, taps): (Option<TraceFile>, &mut dyn Taps),
        is_over: impl Fn() -> bool,
        mut on_live: impl FnMut(&Live),
    ) -> Result<Vec<CallRecord>, CallRunError> {
        let config = self.local.config(0)?;
        let mut calls = Calls::new(config);
        let mut planned = BTreeMap::new();
        for number in 0..count {
            let sources = self.local.sources()?;
            let offer = self.plan.offer(sources);
            let nonce = SysRng.try_next_u64()?;
            let id =
                calls.call(self.local.clock.now(), self.to, nonce, offer).map_err(CallRunError::Offer)?;
            planned.insert(id, (sources, number as u64));
        }
        let (mut outcomes, mut failed) = (BTreeMap::new(), None);
        let (mut stopping, mut video_error) = (false, None);
        let Self { socket, local, plan, to } = &mut self;
        let to = *to;
        let mut driver = local.driver(socket);
        driver.run(&mut calls, |now, calls, driver| {
            while let Some(event) = calls.poll_event() {
                match event {
                    CallEvent::Accepted { id, answer } => {
                        let (sources, number) = planned.get(&id).copied().unwrap_or_default();
                        let sealed = local.settings.keys.is_some();
                        let config = SideConfig {
                            name: plan.name.clone(),
                            seed: plan.seed.wrapping_add(number),
                            flow: plan.flow.clone(),
                            duration: plan.duration,
                            flows: plan.flows,
                            measured: plan.measured(),
                            is_caller: true,
                            sends: plan.direction.sends().then(|| plan.media.clone()),
                            receives: plan.direction.wants().then(|| Received {
                                spec: plan.media.clone(),
                                controller: plan.media.controller.to_string(),
                            }),
                            sources: (sources, answer.sources),
                            overhead: overhead(to.ip().to_canonical().is_ipv6(), sealed),
                            timeline: local.settings.timeline,
                            session_log: local.settings.session_log.take(),
                            video: plan.video.as_ref().map(VideoInput::of_another_call),
                            save: None,
                            is_watched: local.settings.feed.is_some(),
                        };
                        match CallSide::new(&config, trace.take(), taps) {
                            Ok(side) => {
                                if local.first_began.is_none() {
                                    driver.restart_report();
                                }
                                calls.begin(now, id, side);
                                local.on_begun(now, id, config);
                            }
                            Err(error) => failed = Some(CallRunError::Media(error.to_string())),
                        }
                    }
                    CallEvent::Ended { id, outcome } => {
                        match local.result(now, id, &outcome, (calls, driver)) {
                            Some(result) => {
                                outcomes.insert(id, result);
                            }
                            None => {
                                failed = Some(match outcome {
                                    Err(reason) => CallRunError::Refused { to, reason },
                                    Ok(()) => CallRunError::Interrupted,
                                });
                            }
                        }
                    }
                    _ => {}
                }
            }
            let ended = plan.video.as_ref().filter(|_| !stopping).and_then(VideoInput::ended);
            let has_ended = ended.is_some();
            video_error = video_error.take().or(ended.and_then(Result::err));
            if (has_ended || is_over()) && !std::mem::replace(&mut stopping, true) {
                finish_all(now, calls);
            }
            local.show(now, calls);
            if let Some(live) = local.live(now, calls) {
                on_live(&live);
            }
            let done = outcomes.len() >= count || failed.is_some();
            if done { Verdict::Stop } else { Verdict::Continue }
        })?;
        local.finish_feed();
        if let Some(video) = &plan.video {
            video.stop();
        }
        if let Some(error) = failed {
            return Err(video_error.map_or(error, CallRunError::Video));
        }
        records(outcomes.into_values(), video_error.as_ref())
    }
}

/// Ends all calls in good order.
fn finish_all(now: Timestamp, calls: &mut Calls<CallSide>) {
    let live: Vec<CallId> = calls.live().collect();
    for id in live {
        calls.finish(now, id);
    }
}

/// The records of calls that have ended, and their traces. An encoder that failed is why they ended.
fn records(
    outcomes: impl Iterator<Item = Outcome>,
    video_error: Option<&EncoderError>,
) -> Result<Vec<CallRecord>, CallRunError> {
    let mut records = Vec::new();
    for Outcome { mut record, trace } in outcomes {
        if let Some(trace) = trace {
            trace.finish()?;
        }
        record.call.error = video_error.map(ToString::to_string).or(record.call.error);
        records.push(record);
    }
    Ok(records)
}

/// What a listener reports.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenerEvent {
    /// A call has begun.
    Begun {
        /// The caller.
        from: SocketAddr,
        /// What was offered.
        offer: Box<Offer>,
    },
    /// A call was refused.
    Refused {
        /// The caller.
        from: SocketAddr,
        /// Why.
        why: CallRefusal,
    },
    /// A call has ended, with its record.
    Ended(Box<CallRecord>),
    /// The figures of the last interval.
    Live(Live),
}

/// Serves calls of others.
#[derive(Debug)]
pub struct Listener {
    socket: UdpSocket,
    local: LocalEnd,
    max_calls: usize,
    /// What it sends at most when it is asked to send.
    max_rate: DataRate,
}

impl Listener {
    /// A listener at `address`, for so many calls at the same time. It sends at most `max_rate` in one call, when it is asked to.
    ///
    /// # Errors
    ///
    /// [`CallRunError::Socket`] if the address cannot be used.
    pub fn open(
        address: SocketAddr,
        (max_calls, max_rate): (usize, DataRate),
        settings: CallSettings,
    ) -> Result<Self, CallRunError> {
        let clock = Clock::start();
        let socket = UdpSocket::bind(address, &socket_config())?;
        Ok(Self { socket, local: LocalEnd::new(clock, settings), max_calls, max_rate })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// Serves calls until `is_over` returns true or `on_event` [`Verdict::Stop`]; with `once`, until the first call has ended.
    /// Returns the counts of datagrams that belonged to no call. `trace` records the first call; `taps` sees the controller of each in
    /// which this end sends. It may be called again afterwards.
    ///
    /// # Errors
    ///
    /// [`CallRunError`] if the socket fails.
    pub fn run(
        &mut self,
        once: bool,
        (mut trace, taps): (Option<TraceFile>, &mut dyn Taps),
        is_over: impl Fn() -> bool,
        mut on_event: impl FnMut(ListenerEvent) -> Verdict,
    ) -> Result<CallCounters, CallRunError> {
        let Self { socket, local, max_calls, max_rate } = self;
        local.forget_calls();
        let config = local.config(if once { 1 } else { *max_calls })?;
        let mut calls = Calls::new(config);
        let mut driver = local.driver(socket);
        let (mut ended_at, mut stopping, mut failed) = (None, false, None);
        driver.run(&mut calls, |now, calls, driver| {
            let mut verdict = Verdict::Continue;
            while let Some(event) = calls.poll_event() {
                let reported = match event {
                    CallEvent::Offered { id, from, offer } => {
                        let refusal = if once && ended_at.is_some() {
                            Err(CallRefusal::Full)
                        } else {
                            answer(local, from, &offer, *max_rate)
                        };
                        match refusal.and_then(|config| {
                            let side = CallSide::new(&config, trace.take(), taps)
                                .map_err(|error| CallRefusal::Offer(error.to_string()))?;
                            Ok((config, side))
                        }) {
                            Ok((config, side)) => {
                                if local.open.is_empty() {
                                    driver.restart_report();
                                }
                                calls.accept(now, id, Answer { sources: config.sources.0 }, side);
                                local.on_begun(now, id, config);
                                Some(ListenerEvent::Begun { from, offer })
                            }
                            Err(why) => {
                                calls.refuse(now, id, why.clone());
                                Some(ListenerEvent::Refused { from, why })
                            }
                        }
                    }
                    CallEvent::Ended { id, outcome } => {
                        let result = local.result(now, id, &outcome, (calls, driver));
                        result.map(|Outcome { record, trace }| {
                            if let Some(Err(error)) = trace.map(TraceFile::finish) {
                                failed = Some(error);
                            }
                            ended_at = Some(now);
                            ListenerEvent::Ended(Box::new(record))
                        })
                    }
                    _ => None,
                };
                if reported.is_some_and(|event| on_event(event) == Verdict::Stop) {
                    verdict = Verdict::Stop;
                }
            }
            if is_over() && !std::mem::replace(&mut stopping, true) {
                finish_all(now, calls);
            }
            local.show(now, calls);
            if let Some(live) = local.live(now, calls)
                && on_event(ListenerEvent::Live(live)) == Verdict::Stop
            {
                verdict = Verdict::Stop;
            }
            let lingered = ended_at.is_some_and(|at| now >= at + LINGER);
            if (stopping || once && lingered) && local.open.is_empty() {
                verdict = Verdict::Stop;
            }
            verdict
        })?;
        local.finish_feed();
        if let Some(error) = failed {
            return Err(error.into());
        }
        Ok(calls.counters())
    }
}

/// The media of a call that is offered.
fn answer(
    local: &LocalEnd,
    from: SocketAddr,
    offer: &Offer,
    max_rate: DataRate,
) -> Result<SideConfig, CallRefusal> {
    let duration = offer.duration.unwrap_or(UNLIMITED);
    let refused = |error: PlanError| {
        CallRefusal::Offer(error.to_string().lines().next().unwrap_or_default().to_owned())
    };
    if offer.wants.as_ref().is_some_and(|media| media.codec.is_some()) {
        return Err(CallRefusal::Offer(
            "this end has no real video to send: ask it for an encoder model".to_owned(),
        ));
    }
    let sends = offer.wants.as_ref().map(|media| spec_of(media, Some(duration), &local.settings.algorithms));
    let mut sends = sends.transpose().map_err(refused)?;
    let receives = offer.sends.as_ref().map(|media| received(media, Some(duration)));
    if let Some(spec) = &mut sends
        && spec.limits.max > max_rate
    {
        spec.limits.max = max_rate;
        spec.limits.start = spec.limits.start.min(max_rate);
        spec.limits.min = spec.limits.min.min(max_rate);
    }
    let sources = local.sources().map_err(|error| CallRefusal::Offer(error.to_string()))?;
    let whole = (Timestamp::ZERO, Timestamp::ZERO + duration);
    let name = if offer.name.is_empty() || offer.name.len() > MAX_NAME_BYTES { "call" } else { &offer.name };
    Ok(SideConfig {
        name: name.to_owned(),
        seed: u64::from(sources),
        flow: REVERSE_ID.to_owned(),
        duration,
        flows: whole,
        measured: offer.measured.map_or(whole, |[from, to]| (Timestamp::ZERO + from, Timestamp::ZERO + to)),
        is_caller: false,
        sends,
        receives: receives.transpose().map_err(refused)?,
        sources: (sources, offer.sources),
        overhead: overhead(from.ip().to_canonical().is_ipv6(), local.settings.keys.is_some()),
        timeline: local.settings.timeline,
        session_log: None,
        video: None,
        save: local.settings.save.clone(),
        is_watched: local.settings.feed.is_some(),
    })
}
