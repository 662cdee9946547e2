//! The caller and the listener over a socket.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use giusto_net::{
    Clock, PathOptions, SocketConfig, SocketError, UdpSocket,
    driver::{ReceiveError, Verdict},
    encoder::EncoderError,
};
#[cfg(feature = "browser")]
use giusto_session::keys::{KeyId, KeyRing};
use giusto_session::{
    call::{
        Answer, CallCounters, CallError, CallEvent, CallId, CallRefusal, Calls, CallsConfig, MAX_NAME_BYTES,
        Offer,
    },
    path_mtu::PathMtuSearch,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use rand::{
    TryRng,
    rngs::{SysError, SysRng},
};

use super::{
    end::{CallSettings, Live, LocalEnd, Outcome},
    flows::{FORWARD_ID, REVERSE_ID},
    plan::{CallPlan, PlanError, overhead, received, spec_of},
    record::CallRecord,
    side::{CallSide, SideConfig},
    video::VideoInput,
    voice::VoiceInput,
};
use crate::{
    measured::path_mtu::DEFAULT_LINK_MTU,
    run::Taps,
    trace::{TraceFile, TraceFileError, TraceNames},
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
    /// There is no key.
    #[cfg(feature = "browser")]
    #[error("{to}: {reason}")]
    Exchange {
        /// The address of the listener.
        to: SocketAddr,
        /// Why.
        reason: giusto_webrtc::exchange::ExchangeError,
    },
    /// The listener did not accept the certificate of this end.
    #[cfg(feature = "browser")]
    #[error("{to}: the listener did not accept this end's certificate: give it --fingerprint \"{own}\"")]
    Certificate {
        /// The address of the listener.
        to: SocketAddr,
        /// Its fingerprint.
        own: String,
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

fn socket_config(path: &PathOptions) -> SocketConfig {
    SocketConfig {
        receive_buffer: Some(RECEIVE_BUFFER),
        report_unreachable: true,
        path: path.clone(),
        ..SocketConfig::default()
    }
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
        let source = settings.path.source.unwrap_or(any);
        let socket = UdpSocket::bind((source, 0).into(), &socket_config(&settings.path))?;
        if settings.mtu_discovery {
            socket.probe_path()?;
        }
        Ok(Self { socket, local: LocalEnd::new(clock, settings), to, plan })
    }

    fn mtu_search(&self) -> PathMtuSearch {
        // Which interface it is shows at a connected socket.
        let link = UdpSocket::connected(self.to, self.socket.config()).ok();
        let mtu = link.and_then(|socket| socket.link_mtu()).map_or(DEFAULT_LINK_MTU, DataSize::as_bytes);
        PathMtuSearch::new(self.local.clock.now(), self.to.ip().to_canonical().is_ipv6(), mtu)
    }

    fn calls(&self) -> Result<Calls<CallSide>, CallRunError> {
        let path_mtu = self.local.settings.mtu_discovery.then(|| self.mtu_search());
        Ok(Calls::new(CallsConfig { path_mtu, ..self.local.config(0)? }))
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
        #[cfg(feature = "browser")]
        let (own, connection) = self.exchange_keys(&is_over)?.unzip();
        let mut calls = self.calls()?;
        #[cfg(feature = "browser")]
        if let Some(connection) = connection {
            calls.set_exchange(Box::new(connection));
        }
        let mut planned = BTreeMap::new();
        for number in 0..count {
            let sources = self.local.sources()?;
            let offer = self.plan.offer(sources, self.local.settings.protection);
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
            local.look_for_listeners(now, calls);
            while let Some(event) = calls.poll_event() {
                match event {
                    CallEvent::Accepted { id, answer } => {
                        let (sources, number) = planned.get(&id).copied().unwrap_or_default();
                        let config = SideConfig {
                            name: plan.name.clone(),
                            seed: plan.seed.wrapping_add(number),
                            flow: plan.flow.clone(),
                            duration: plan.duration,
                            flows: plan.flows,
                            measured: plan.measured(),
                            is_caller: true,
                            sends: plan.direction.sends().then(|| plan.media.clone()),
                            receives: plan.receives(),
                            sources: (sources, answer.sources),
                            overhead: overhead(to.ip().to_canonical().is_ipv6(), local.settings.protection),
                            timeline: local.settings.timeline,
                            session_log: local.settings.session_log.take(),
                            video: plan.video.as_ref().map(VideoInput::of_another_call),
                            voice: plan.voice.as_ref().map(VoiceInput::of_another_call),
                            save: local.settings.save.clone(),
                            is_watched: local.settings.feed.is_some(),
                        };
                        match CallSide::new(&config, trace.take(), taps) {
                            Ok(side) => {
                                if !local.has_begun() {
                                    driver.restart_report();
                                }
                                calls.begin(now, id, side);
                                local.on_begun(now, id, (config, to), driver.dropped());
                            }
                            Err(error) => failed = Some(CallRunError::Media(error.to_string())),
                        }
                    }
                    CallEvent::Ended { id, outcome } => {
                        match local.result(now, id, &outcome, calls, driver) {
                            Some(result) => {
                                outcomes.insert(id, result);
                            }
                            None => {
                                failed = Some(match outcome {
                                    // It has forgotten the key that was exchanged: it was not accepted.
                                    #[cfg(feature = "browser")]
                                    Err(CallError::Unauthenticated(CallRefusal::Key)) if own.is_some() => {
                                        CallRunError::Certificate { to, own: own.clone().unwrap_or_default() }
                                    }
                                    Err(reason) => CallRunError::Refused { to, reason },
                                    Ok(()) => CallRunError::Interrupted,
                                });
                            }
                        }
                    }
                    CallEvent::Moved { id, to } => local.on_moved(now, id, to, calls),
                    _ => {}
                }
            }
            let ended = plan.video.as_ref().filter(|_| !stopping).and_then(VideoInput::ended);
            let has_ended = ended.is_some();
            video_error = video_error.take().or(ended.and_then(Result::err));
            if (has_ended || is_over()) && !std::mem::replace(&mut stopping, true) {
                finish_all(now, calls);
            }
            local.note_dropped(now, calls, driver);
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
        Ok(records(outcomes.into_values(), video_error.as_ref()))
    }
}

#[cfg(feature = "browser")]
impl Caller {
    /// Agrees with the listener on a key, if this end has a certificate for that. Returns its fingerprint, and its end of the
    /// connection.
    fn exchange_keys(
        &mut self,
        is_over: impl Fn() -> bool,
    ) -> Result<Option<(String, giusto_webrtc::exchange::DtlsCaller)>, CallRunError> {
        let Some(identity) = &self.local.settings.identity else { return Ok(None) };
        let exchanged = giusto_webrtc::exchange::with_listener(
            &self.socket,
            self.local.clock,
            self.to,
            identity,
            is_over,
        );
        let own = identity.certificate.fingerprint().to_string();
        let ((id, key), connection) =
            exchanged.map_err(|reason| CallRunError::Exchange { to: self.to, reason })?;
        self.local.settings.keys = Some(KeyRing::with_key(id, &key));
        Ok(Some((own, connection)))
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
fn records(outcomes: impl Iterator<Item = Outcome>, video_error: Option<&EncoderError>) -> Vec<CallRecord> {
    let record = |Outcome { mut record, trace }: Outcome| {
        let untraced = trace.and_then(|trace| trace.finish().err()).map(|error| error.to_string());
        record.call.error = video_error.map(ToString::to_string).or(record.call.error).or(untraced);
        record
    };
    outcomes.map(record).collect()
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
    /// A caller is not the expected one.
    NotAuthentic {
        /// The caller.
        from: SocketAddr,
        /// Why.
        why: String,
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
        max_calls: usize,
        max_rate: DataRate,
        settings: CallSettings,
    ) -> Result<Self, CallRunError> {
        let clock = Clock::start();
        let socket = UdpSocket::bind(address, &socket_config(&settings.path))?;
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
        let config = CallsConfig { once, ..local.config(if once { 1 } else { *max_calls })? };
        #[cfg(feature = "browser")]
        let (mut config, identity) = (config, local.settings.identity.clone());
        #[cfg(feature = "browser")]
        if identity.is_some() {
            // A key that nobody has: each caller exchanges its own.
            let mut key = [0; 32];
            SysRng.try_fill_bytes(&mut key)?;
            config.keys = Some(KeyRing::with_key(KeyId(0), &key));
        }
        let mut calls = Calls::new(config);
        #[cfg(feature = "browser")]
        if let Some(identity) = identity {
            calls.set_exchange(Box::new(giusto_webrtc::exchange::DtlsListener::new(identity, local.clock)));
        }
        let mut driver = local.driver(socket);
        let (mut ended_at, mut stopping, mut failed) = (None, false, None);
        driver.run(&mut calls, |now, calls, driver| {
            let mut verdict = Verdict::Continue;
            while let Some(event) = calls.poll_event() {
                let reported = match event {
                    CallEvent::Offered { id, from, offer } => {
                        let refusal = if once && ended_at.is_some() {
                            Err(CallRefusal::Once)
                        } else {
                            answer(local, from, &offer, *max_rate)
                        };
                        match refusal.and_then(|config| {
                            let side = CallSide::new(&config, trace.take(), taps)
                                .map_err(|error| CallRefusal::Offer(error.to_string()))?;
                            Ok((config, side))
                        }) {
                            Ok((config, side)) => {
                                if local.is_idle() {
                                    driver.restart_report();
                                }
                                calls.accept(now, id, Answer { sources: config.sources.0 }, side);
                                local.on_begun(now, id, (config, from), driver.dropped());
                                Some(ListenerEvent::Begun { from, offer })
                            }
                            Err(why) => {
                                calls.refuse(now, id, why.clone());
                                Some(ListenerEvent::Refused { from, why })
                            }
                        }
                    }
                    CallEvent::NotAuthentic { from, why } => Some(ListenerEvent::NotAuthentic { from, why }),
                    CallEvent::Ended { id, outcome } => {
                        let result = local.result(now, id, &outcome, calls, driver);
                        result.map(|Outcome { record, trace }| {
                            if let Some(Err(error)) = trace.map(TraceFile::finish) {
                                failed = Some(error);
                            }
                            ended_at = Some(now);
                            ListenerEvent::Ended(Box::new(record))
                        })
                    }
                    CallEvent::Moved { id, to } => {
                        local.on_moved(now, id, to, calls);
                        None
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
            local.note_dropped(now, calls, driver);
            local.show(now, calls);
            if let Some(live) = local.live(now, calls)
                && on_event(ListenerEvent::Live(live)) == Verdict::Stop
            {
                verdict = Verdict::Stop;
            }
            let lingered = ended_at.is_some_and(|at| now >= at + LINGER);
            if (stopping || once && lingered) && local.is_idle() {
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
    let lacks = |what: String, flag: &str| {
        CallRefusal::Offer(format!(
            "this end has no {what} to send: start it with {flag}, or leave out --bidir, --codec or --voice at the caller"
        ))
    };
    let CallSettings { video, voice, .. } = &local.settings;
    let codec = offer.wants.as_ref().and_then(|media| media.codec);
    let video = codec.map(|codec| {
        let own = video.as_ref().filter(|video| video.codec() == codec);
        own.map(VideoInput::of_another_call).ok_or_else(|| lacks(format!("video of {codec}"), "--media"))
    });
    let wants_voice = offer.wants.as_ref().and_then(|media| media.audio).is_some_and(|audio| audio.opus);
    let voice = wants_voice.then(|| {
        voice.as_ref().map(VoiceInput::of_another_call).ok_or_else(|| lacks("speech".to_owned(), "--voice"))
    });
    let (video, voice) = (video.transpose()?, voice.transpose()?);
    let receives = offer.sends.as_ref().map(|media| received(media, Some(duration)));
    let receives = receives.transpose().map_err(refused)?;
    let sends = offer.wants.as_ref().map(|media| spec_of(media, Some(duration), &local.settings.algorithms));
    let mut sends = sends.transpose().map_err(refused)?;
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
        measured: offer
            .measured
            .filter(|[from, _]| *from < duration)
            .map_or(whole, |[from, to]| (Timestamp::ZERO + from, Timestamp::ZERO + to)),
        is_caller: false,
        sends,
        receives,
        sources: (sources, offer.sources),
        overhead: overhead(from.ip().to_canonical().is_ipv6(), offer.protection),
        timeline: local.settings.timeline,
        session_log: None,
        video,
        voice,
        save: local.settings.save.clone(),
        is_watched: local.settings.feed.is_some(),
    })
}
