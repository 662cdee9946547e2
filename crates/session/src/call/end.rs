//! One call at one end.

use std::{collections::VecDeque, net::SocketAddr};

use giusto_measure::{ClockEstimator, ClockSample, ErrorHistogram};
use giusto_units::{DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};

use super::{
    event::CallError,
    keys::{CallKeys, Guard, opening_key},
    media::CallMedia,
    messages::{Answer, EndFigures, Message, Offer, Outbound, sources_of},
};
use crate::{
    cookie::{Cookie, StreamToken},
    keys::{KeyId, KeyRing, MacKey},
    path_mtu::PathMtuSearch,
    probe::wire::SEAL_BYTES,
};

/// Time for which queued media may still be sent at the end of a call. Chosen by us: a frame is sent within the time until the next, unless
/// the path is full.
const EMPTYING: TimeDelta = TimeDelta::from_millis(200);
/// How often an end looks whether they are. Chosen by us.
const EMPTYING_STEP: TimeDelta = TimeDelta::from_millis(10);
/// Time for which media that are on their way may arrive after the last was sent, before the end is announced. Chosen by us.
const DRAIN: TimeDelta = TimeDelta::from_millis(50);
/// Time for which an end waits for the final figures of the other. Chosen by us.
const CLOSING: TimeDelta = TimeDelta::from_millis(500);
/// Time for which it must be said that a far end is not there, without anything from it: twice the interval of Pings, so that a far end which
/// changes its address is heard. One that has not answered yet may just be starting. Chosen by us: as long as the probe protocol's.
pub(super) const REFUSED: TimeDelta = TimeDelta::from_seconds(1);
/// The interval of Pings after a datagram that the system did not take, until the far end is heard: where this end has a new address
/// then, it is proven before much is lost.
const REACHING: TimeDelta = TimeDelta::from_millis(100);
/// Pings that may be answered still.
const MAX_PINGS: usize = 16;

/// Times of the handshake.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) retry: TimeDelta,
    pub(super) open: TimeDelta,
    pub(super) ping: TimeDelta,
    pub(super) silence: TimeDelta,
    pub(super) finish: TimeDelta,
}

/// The stage of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Caller: a Hello was sent.
    Greeting,
    /// Caller: an Offer was sent.
    Offering(Cookie),
    /// The owner has to begin or to refuse it.
    Waiting,
    /// Media flow.
    Running,
    /// No more frames are made; those that are queued are sent until this time.
    Emptying(Timestamp),
    /// No more media are sent; Finish follows at this time.
    Draining(Timestamp),
    /// A Finish was sent first at this time.
    Finishing(Timestamp),
    /// A Finish was answered; it ends at this time.
    Closing(Timestamp),
    /// It has ended; repeated messages are answered until this time.
    Over(Timestamp),
}

/// The stage of a call, for its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallStatus {
    /// The handshake has not ended.
    Opening,
    /// Media flow.
    Running,
    /// It is being ended.
    Ending,
    /// It has ended.
    Over,
}

/// The authentication of a caller's messages.
#[derive(Debug)]
pub(super) struct OpeningKeys {
    pub(super) ring: KeyRing,
    /// Keys that may be tried if the listener does not have this one.
    pub(super) untried: Vec<KeyId>,
    pub(super) key: MacKey,
}

impl OpeningKeys {
    /// Selects a key that was not tried yet; false if there is none.
    pub(super) fn try_another(&mut self) -> bool {
        let next = self.untried.pop().and_then(|id| opening_key(&self.ring, id));
        next.map(|key| self.key = key).is_some()
    }
}

/// One call at one end.
#[derive(Debug)]
pub(super) struct End<M> {
    pub(super) peer: SocketAddr,
    pub(super) stage: Stage,
    pub(super) is_caller: bool,
    pub(super) nonce: u64,
    pub(super) token: Option<StreamToken>,
    pub(super) offer: Box<Offer>,
    /// The sources of the far end, once they are known.
    pub(super) their_sources: Option<u32>,
    pub(super) opening: Option<OpeningKeys>,
    pub(super) keys: Option<CallKeys>,
    /// What protects the media, once the call is offered here or accepted there.
    pub(super) guard: Option<Guard>,
    pub(super) media: Option<M>,
    /// Media that came before there was somebody to take them; before the acceptance, as they came.
    pub(super) early: Vec<(Timestamp, Vec<u8>, Ecn)>,
    /// The beginning of the call, on our clock.
    pub(super) zero: Timestamp,
    /// The same of the far end, on its clock.
    pub(super) their_zero_ns: Option<u64>,
    /// The far end's clock less ours, if both are the same clock with another zero.
    pub(super) same_clock: Option<TimeDelta>,
    pub(super) clocks: ClockEstimator,
    pings: VecDeque<u64>,
    pub(super) path_mtu: Option<PathMtuSearch>,
    /// The send times and the sizes of the latest probes of the MTU.
    probes: VecDeque<(u64, u64)>,
    pub(super) began: Timestamp,
    pub(super) last_heard: Timestamp,
    /// Since when it is said that it is not there, unless something has come since.
    refused_since: Option<Timestamp>,
    /// The latest time at which the system did not take a datagram.
    unsent_at: Option<Timestamp>,
    pub(super) next: Timestamp,
    pub(super) their_figures: Option<EndFigures>,
    /// When the far end has ended the call.
    ended_there: Option<Timestamp>,
    /// The error if no authenticated answer comes: set by an unauthenticated one.
    pub(super) hint: Option<CallError>,
    pub(super) outbox: VecDeque<Outbound>,
    pub(super) outcome: Option<Result<(), CallError>>,
    /// The deadline under which it is filed.
    pub(super) armed: Option<Timestamp>,
    pub(super) is_touched: bool,
    pub(super) moves: u32,
    /// When the far end said that this end has moved, until it answers a Ping that was sent since.
    moved_at: Option<Timestamp>,
    /// Where the far end may be now, by its name.
    pub(super) tried: Option<SocketAddr>,
    /// Listener: the answer, and the cookie of the offer.
    pub(super) answer: Option<Answer>,
    pub(super) cookie: Option<Cookie>,
}

impl<M: CallMedia> End<M> {
    pub(super) fn new(
        now: Timestamp,
        peer: SocketAddr,
        nonce: u64,
        offer: Box<Offer>,
        is_caller: bool,
    ) -> Self {
        Self {
            peer,
            stage: if is_caller { Stage::Greeting } else { Stage::Waiting },
            is_caller,
            nonce,
            token: None,
            their_sources: (!is_caller).then(|| sources_of(offer.sources)),
            offer,
            opening: None,
            keys: None,
            guard: None,
            media: None,
            early: Vec::new(),
            zero: now,
            their_zero_ns: None,
            same_clock: None,
            clocks: ClockEstimator::new(),
            pings: VecDeque::new(),
            path_mtu: None,
            probes: VecDeque::new(),
            began: now,
            last_heard: now,
            refused_since: None,
            unsent_at: None,
            next: now,
            their_figures: None,
            ended_there: None,
            hint: None,
            outbox: VecDeque::new(),
            outcome: None,
            armed: None,
            is_touched: false,
            moves: 0,
            moved_at: None,
            tried: None,
            answer: None,
            cookie: None,
        }
    }

    pub(super) const fn status(&self) -> CallStatus {
        match self.stage {
            Stage::Greeting | Stage::Offering(_) | Stage::Waiting => CallStatus::Opening,
            Stage::Running => CallStatus::Running,
            Stage::Emptying(_) | Stage::Draining(_) | Stage::Finishing(_) | Stage::Closing(_) => {
                CallStatus::Ending
            }
            Stage::Over(_) => CallStatus::Over,
        }
    }

    /// The time since the beginning of the call.
    pub(super) fn media_time(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(now.as_nanos().saturating_sub(self.zero.as_nanos()))
    }

    pub(super) fn rtts(&self) -> &ErrorHistogram {
        self.clocks.rtts()
    }

    /// Queues a message to the far end.
    pub(super) fn say(&mut self, message: &Message) {
        self.say_to(self.peer, message);
    }

    pub(super) fn say_to(&mut self, to: SocketAddr, message: &Message) {
        /// More are never due at once.
        const MAX_QUEUED: usize = 16;
        let opening = self.opening.as_ref().map(|opening| &opening.key);
        let bytes = match (&mut self.keys, opening) {
            (Some(keys), _) => keys.seal(message),
            (None, Some(key)) => message.seal(key, 0),
            (None, None) => message.encode(),
        };
        if self.outbox.len() >= MAX_QUEUED {
            self.outbox.pop_front();
        }
        self.outbox.push_back(Outbound { to, bytes });
    }

    /// The owner has given the media: the call begins.
    pub(super) fn begin(&mut self, now: Timestamp, media: M) {
        self.media = Some(media);
        self.zero = now;
        self.stage = Stage::Running;
        self.last_heard = now;
        self.next = now;
        self.on_clock(now);
        for (at, bytes, ecn) in std::mem::take(&mut self.early) {
            let media_time = self.media_time(at);
            if let Some(media) = &mut self.media {
                media.handle_datagram(media_time, &bytes, ecn);
            }
        }
    }

    /// Keeps media that arrive before this end has begun, such as those next to the acceptance. Returns whether there is room.
    pub(super) fn keep_early(&mut self, at: Timestamp, bytes: &[u8], ecn: Ecn) -> bool {
        const MAX_EARLY: usize = 64;
        let has_room = self.early.len() < MAX_EARLY;
        if has_room {
            self.early.push((at, bytes.to_vec(), ecn));
        }
        has_room
    }

    /// Time at which `handle_timeout` must be called.
    pub(super) fn next_timeout(&self) -> Timestamp {
        let media = self.media.as_ref().filter(|_| !matches!(self.stage, Stage::Over(_)));
        let media = media.and_then(CallMedia::poll_timeout).map(|at| self.zero + (at - Timestamp::ZERO));
        [media, self.next_mtu_probe()].into_iter().flatten().fold(self.next, Timestamp::min)
    }

    /// Does what is due.
    pub(super) fn handle_timeout(
        &mut self,
        now: Timestamp,
        times: Times,
        clock_message: impl FnOnce(&Self) -> Message,
    ) {
        let media_time = self.media_time(now);
        if !matches!(self.stage, Stage::Over(_))
            && let Some(media) = &mut self.media
            && media.poll_timeout().is_some_and(|at| at <= media_time)
        {
            media.handle_timeout(media_time);
        }
        self.probe_mtu(now);
        if now < self.next {
            return;
        }
        self.next = now + times.retry;
        let silent = now.saturating_since(self.last_heard);
        match self.stage {
            Stage::Greeting | Stage::Offering(_) if now.saturating_since(self.began) >= times.open => {
                let why = self.hint.take().unwrap_or(CallError::NoAnswer(times.open));
                self.end(now, Err(why));
            }
            Stage::Greeting => self.say(&Message::Hello { nonce: self.nonce }),
            Stage::Offering(_) => {
                let offer = clock_message(self);
                self.say(&offer);
            }
            // An owner that does not answer within the time of an opening never does.
            Stage::Waiting if now.saturating_since(self.began) >= times.open => {
                self.end(now, Err(CallError::NoAnswer(times.open)));
            }
            Stage::Waiting => {}
            Stage::Running | Stage::Emptying(_) | Stage::Draining(_) | Stage::Closing(_)
                if silent >= times.silence =>
            {
                self.end(now, Err(CallError::Silent(silent)));
            }
            Stage::Running => {
                self.ping(now);
                let is_away = self.unsent_at.is_some_and(|at| at >= self.last_heard);
                let interval = if is_away { times.ping.min(REACHING) } else { times.ping };
                self.next = (now + interval).min(self.last_heard + times.silence);
                if let Some(end) = self.ends_at() {
                    if now >= end {
                        self.finish(now);
                    } else {
                        self.next = self.next.min(end);
                    }
                }
            }
            Stage::Emptying(until) => self.empty(now, until),
            Stage::Draining(at) if now >= at => {
                self.stage = Stage::Finishing(now);
                self.say_figures(now, |token, figures| Message::Finish { token, figures });
            }
            Stage::Finishing(since) if now.saturating_since(since) >= times.finish => {
                self.end(now, Err(CallError::Unconfirmed(times.finish)));
            }
            Stage::Finishing(_) => self.say_figures(now, |token, figures| Message::Finish { token, figures }),
            Stage::Closing(at) if now >= at => self.close(now),
            Stage::Draining(at) | Stage::Closing(at) => self.next = at,
            Stage::Over(until) => self.next = if now >= until { Timestamp::MAX } else { until },
        }
    }

    /// Somebody says that the far end is not there. Why that ends the call, if it does: nothing has come from it for a while. `gone` is
    /// the error of a call that has begun.
    pub(super) fn on_absent(&mut self, now: Timestamp, gone: CallError) -> Option<CallError> {
        let since = *self
            .refused_since
            .insert(self.refused_since.filter(|&since| since > self.last_heard).unwrap_or(now));
        let why = match self.stage {
            Stage::Greeting | Stage::Offering(_) => CallError::PortUnreachable,
            Stage::Running | Stage::Emptying(_) | Stage::Draining(_) | Stage::Closing(_) => gone,
            Stage::Waiting | Stage::Finishing(_) | Stage::Over(_) => return None,
        };
        (now.saturating_since(since) >= REFUSED).then_some(why)
    }

    /// The system did not take a datagram of the media.
    pub(super) fn on_unsent(&mut self, now: Timestamp, kind: u8, size: DataSize) {
        self.unsent_at = Some(now);
        if matches!(self.stage, Stage::Running) {
            self.next = self.next.min(now + REACHING);
        }
        let media_time = self.media_time(now);
        if let Some(media) = &mut self.media {
            media.on_unsent(media_time, kind, size);
        }
    }

    /// Where the caller ends the call. The listener waits for it.
    fn ends_at(&self) -> Option<Timestamp> {
        self.offer.duration.filter(|_| self.is_caller).map(|duration| self.zero + duration)
    }

    /// The next time of the search for the path's MTU.
    fn next_mtu_probe(&self) -> Option<Timestamp> {
        self.path_mtu
            .as_ref()
            .filter(|_| matches!(self.stage, Stage::Running))
            .map(PathMtuSearch::poll_timeout)
    }

    /// Looks for the MTU of the path.
    fn probe_mtu(&mut self, now: Timestamp) {
        let Some(token) = self.token.filter(|_| matches!(self.stage, Stage::Running)) else { return };
        let Some(search) = &mut self.path_mtu else { return };
        search.handle_timeout(now);
        let Some(size) = search.poll_probe(now) else { return };
        if self.probes.len() >= MAX_PINGS {
            self.probes.pop_front();
        }
        self.probes.push_back((now.as_nanos(), size));
        let seal = if self.keys.is_some() { SEAL_BYTES as u64 } else { 0 };
        let size = u16::try_from(size.saturating_sub(seal)).unwrap_or(u16::MAX);
        self.say(&Message::MtuProbe { token, sent_ns: now.as_nanos(), size });
    }

    fn ping(&mut self, now: Timestamp) {
        let Some(token) = self.token else { return };
        if self.pings.len() >= MAX_PINGS {
            self.pings.pop_front();
        }
        self.pings.push_back(now.as_nanos());
        self.say(&Message::Ping { token, sent_ns: now.as_nanos(), zero_ns: self.zero.as_nanos() });
    }

    /// Looks whether the far end is at `address` now.
    pub(super) fn greet_at(&mut self, now: Timestamp, address: SocketAddr) {
        let Some(token) = self.token else { return };
        self.tried = Some(address);
        let zero_ns = self.zero.as_nanos();
        self.say_to(address, &Message::Ping { token, sent_ns: now.as_nanos(), zero_ns });
    }

    fn say_figures(&mut self, now: Timestamp, message: impl FnOnce(StreamToken, EndFigures) -> Message) {
        let media_time = self.media_time(now);
        let figures = self.media.as_ref().map(|media| media.figures(media_time)).unwrap_or_default();
        if let Some(token) = self.token {
            self.say(&message(token, figures));
        }
    }

    /// Ends the call in good order.
    pub(super) fn finish(&mut self, now: Timestamp) {
        match self.stage {
            Stage::Running => {
                if let Some(media) = &mut self.media {
                    media.close();
                }
                self.empty(now, now + EMPTYING);
            }
            Stage::Greeting | Stage::Offering(_) | Stage::Waiting => self.end(now, Ok(())),
            _ => {}
        }
    }

    /// Stops the media once all are sent, at the latest at `until`.
    fn empty(&mut self, now: Timestamp, until: Timestamp) {
        let media_time = self.media_time(now);
        let is_sent = self.media.as_ref().is_none_or(|media| media.is_sent(media_time));
        if is_sent || now >= until {
            self.stop_media(now);
            self.stage = Stage::Draining(now + DRAIN);
            self.next = now + DRAIN;
        } else {
            self.stage = Stage::Emptying(until);
            self.next = until.min(now + EMPTYING_STEP);
        }
    }

    fn stop_media(&mut self, now: Timestamp) {
        let media_time = self.media_time(now);
        if let Some(media) = &mut self.media {
            media.stop(media_time);
        }
    }

    /// Ends the call that the far end has ended.
    fn close(&mut self, now: Timestamp) {
        let at = self.ended_there.unwrap_or(now);
        let outcome = match self.ends_at().filter(|&end| at < end) {
            Some(end) => Err(CallError::EndedThere { after: at - self.zero, planned: end - self.zero }),
            None => Ok(()),
        };
        self.end(now, outcome);
    }

    pub(super) fn end(&mut self, now: Timestamp, outcome: Result<(), CallError>) {
        /// Repeated messages of the far end are answered for so long.
        const LINGER: TimeDelta = TimeDelta::from_seconds(2);
        if !matches!(self.stage, Stage::Over(_)) {
            self.stage = Stage::Over(now + LINGER);
            self.next = now + LINGER;
            self.outcome = Some(outcome);
        }
    }

    /// Whether an ended call can be forgotten.
    pub(super) fn is_gone(&self, now: Timestamp) -> bool {
        matches!(self.stage, Stage::Over(until) if now >= until) && self.media.is_none()
    }

    /// Handles a message of this call that is believed, from the address of the far end. `at` is its arrival time.
    pub(super) fn handle_message(&mut self, now: Timestamp, message: &Message) {
        self.last_heard = self.last_heard.max(now);
        match *message {
            Message::Ping { token, sent_ns, zero_ns } => {
                self.their_zero_ns = Some(zero_ns);
                let at = now.as_nanos();
                self.say(&Message::Pong { token, ping_sent_ns: sent_ns, received_ns: at, sent_ns: at });
                self.on_clock(now);
            }
            Message::MtuProbe { token, sent_ns, .. } => {
                let at = now.as_nanos();
                self.say(&Message::Pong { token, ping_sent_ns: sent_ns, received_ns: at, sent_ns: at });
            }
            Message::Pong { ping_sent_ns, .. }
                if self.probes.iter().any(|(sent, _)| *sent == ping_sent_ns)
                    && !self.pings.contains(&ping_sent_ns) =>
            {
                let size = self.probes.iter().find(|(sent, _)| *sent == ping_sent_ns).map(|(_, size)| *size);
                self.probes.retain(|(sent, _)| *sent != ping_sent_ns);
                if let Some((search, size)) = self.path_mtu.as_mut().zip(size) {
                    search.on_rtt(now.saturating_since(Timestamp::from_nanos(ping_sent_ns)));
                    search.on_acknowledged(now, size);
                }
            }
            Message::Pong { ping_sent_ns, received_ns, sent_ns, .. }
                if self.pings.contains(&ping_sent_ns) =>
            {
                self.pings.retain(|sent| *sent != ping_sent_ns);
                self.moved_at = self.moved_at.filter(|at| ping_sent_ns < at.as_nanos());
                let rtt = now.saturating_since(Timestamp::from_nanos(ping_sent_ns))
                    - TimeDelta::from_nanos(
                        sent_ns.saturating_sub(received_ns).try_into().unwrap_or(i64::MAX),
                    );
                let media_time = self.media_time(now);
                if let Some(media) = &mut self.media {
                    media.on_rtt(media_time, rtt.max(TimeDelta::ZERO));
                }
                self.clocks.on_sample(&ClockSample {
                    client_sent: Timestamp::from_nanos(ping_sent_ns),
                    server_received: PeerTimestamp::from_nanos(received_ns),
                    server_sent: PeerTimestamp::from_nanos(sent_ns),
                    client_received: now,
                });
                self.on_clock(now);
            }
            // The Pings that were sent before lead to a proof each, and each proof is answered.
            Message::Moved { .. } if self.moved_at.is_none() => {
                self.moved_at = Some(now);
                self.on_moved(now);
            }
            Message::Finish { ref figures, .. } => {
                if matches!(self.stage, Stage::Waiting) {
                    return;
                }
                self.their_figures = Some(figures.clone());
                if matches!(self.stage, Stage::Running | Stage::Emptying(_) | Stage::Draining(_)) {
                    self.ended_there = Some(now);
                    self.stop_media(now);
                    self.stage = Stage::Closing(now + CLOSING);
                    self.next = now + CLOSING;
                }
                self.say_figures(now, |token, figures| Message::Finished { token, figures });
            }
            Message::Finished { ref figures, .. } => {
                if matches!(self.stage, Stage::Finishing(_)) {
                    self.their_figures = Some(figures.clone());
                    self.end(now, Ok(()));
                }
                self.say_figures(now, |token, figures| Message::Closed { token, figures });
            }
            Message::Closed { ref figures, .. } => {
                self.their_figures = Some(figures.clone());
                if matches!(self.stage, Stage::Closing(_)) {
                    self.close(now);
                }
            }
            _ => {}
        }
    }

    /// The route has changed.
    pub(super) fn on_moved(&mut self, now: Timestamp) {
        self.moves += 1;
        let media_time = self.media_time(now);
        if let Some(media) = &mut self.media {
            media.on_route_change(media_time);
        }
    }

    /// Tells the media how the two clocks relate.
    fn on_clock(&mut self, now: Timestamp) {
        let estimate = self.clocks.estimate().map(|estimate| estimate.offset_at(now));
        let offset = self.same_clock.or(estimate);
        let (Some(offset), Some(their_zero)) = (offset, self.their_zero_ns) else { return };
        let zeros = self.zero - Timestamp::from_nanos(their_zero);
        if let Some(media) = &mut self.media {
            media.on_clock(zeros + offset);
        }
    }
}
