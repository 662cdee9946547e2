//! All calls of one socket.

mod incoming;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
};

use giusto_measure::ErrorHistogram;
use giusto_units::{DataSize, Ecn, TimeDelta, Timestamp};

use super::{
    end::{CallStatus, End, OpeningKeys, Stage, Times},
    event::{CallError, CallEvent, CallId},
    exchange::KeyExchange,
    keys::{MakeCipher, opening_key},
    media::CallMedia,
    messages::{Answer, CallRefusal, EndFigures, Kind, Message, Offer, Outbound},
    protection::Protection,
};
use crate::{
    cookie::{Cookie, CookieJar, StreamToken},
    envelope::MAX_MESSAGE_BYTES,
    handshakes::Handshakes,
    keys::{KeyId, KeyRing},
    path_mtu::{PathMtuFigures, PathMtuSearch},
    probe::LocalClock,
    used::UsedTokens,
};

giusto_units::defaults! {
    /// Configuration of [`Calls`].
    #[derive(Debug, Clone)]
    pub struct CallsConfig {
        /// Secret from which cookies and tokens are computed. No default; use random bytes of the system.
        pub secret: [u8; 32] = secret,
        /// Keys shared with the far ends: with them, only authenticated datagrams are sent and accepted. Default: none.
        pub keys: Option<KeyRing> = None,
        /// Encrypts media. Default: none; encrypted calls are refused.
        pub cipher: Option<MakeCipher> = None,
        /// The protection of the media of others' calls; offers of another are refused. Default: authenticated.
        pub protection: Protection = Protection::Authenticated,
        /// The number of calls of others that are served at the same time; 0: nothing listens. Default 0.
        pub max_calls: usize = 0,
        /// Whether only the first call is served; later callers are refused with this reason. Default: false.
        pub once: bool = false,
        /// Our clock. Default: one that the far end cannot compare with its own.
        pub clock: LocalClock = LocalClock::default(),
        /// Interval at which messages of the opening and of the end are repeated. Default 200 ms.
        pub retry_interval: TimeDelta = TimeDelta::from_millis(200),
        /// Maximum time to wait for an answer to a call. Default 3 s.
        pub open_timeout: TimeDelta = TimeDelta::from_seconds(3),
        /// Interval of Pings. Default 500 ms.
        pub ping_interval: TimeDelta = TimeDelta::from_millis(500),
        /// Time without any datagram after which a call ends. Default 15 s: half of that of RFC 7675 §5.1, after which a sender loses
        /// the consent of its receiver.
        pub silence_timeout: TimeDelta = TimeDelta::from_seconds(15),
        /// Maximum time to wait for the confirmation of the end. Default 2 s.
        pub finish_timeout: TimeDelta = TimeDelta::from_seconds(2),
        /// Finds the MTU of the path of each call that is made from here; its datagrams must not be fragmented. Default: none.
        pub path_mtu: Option<PathMtuSearch> = None,
    }
    /// The defaults.
    pub fn new(secret: [u8; 32]);
}

impl CallsConfig {
    const fn times(&self) -> Times {
        Times {
            retry: self.retry_interval,
            open: self.open_timeout,
            ping: self.ping_interval,
            silence: self.silence_timeout,
            finish: self.finish_timeout,
        }
    }
}

/// Counts of received datagrams that belong to no call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounters {
    /// Neither RTP, RTCP nor a message of ours.
    pub foreign: u64,
    /// RTP or RTCP of an address and a source without a call.
    pub unknown_source: u64,
    /// Messages that are truncated, invalid or damaged.
    pub damaged: u64,
    /// Without the authentication that is required here, with a wrong one, or copies. Copies of media that are authenticated, but not
    /// encrypted, [count there](CallMedia::on_copy).
    pub unauthenticated: u64,
    /// With a token or cookie that was not issued to their address.
    pub forged: u64,
    /// Offers that were refused.
    pub refused: u64,
    /// Requests that were not answered: there were too many while there were calls.
    pub unanswered_handshakes: u64,
}

/// Where a datagram goes, and its ECN codepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// The destination.
    pub to: SocketAddr,
    /// The codepoint.
    pub ecn: Ecn,
    /// What of a call it carries; `None`: a message of ours.
    pub media: Option<OutgoingMedia>,
}

/// RTP or RTCP of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutgoingMedia {
    /// The call.
    pub call: CallId,
    /// The second byte of the datagram, which tells RTCP from RTP (RFC 5761 §4).
    pub kind: u8,
    /// The size without its protection.
    pub size: DataSize,
}

impl Outgoing {
    const fn message(to: SocketAddr) -> Self {
        Self { to, ecn: Ecn::NotEct, media: None }
    }
}

/// All calls of one socket.
///
/// Pass each received datagram to [`handle_datagram`](Self::handle_datagram), call
/// [`handle_timeout`](Self::handle_timeout) at the time of [`poll_timeout`](Self::poll_timeout); after each of these take all
/// events with [`poll_event`](Self::poll_event) and send all datagrams of [`poll_transmit`](Self::poll_transmit). The work of a
/// call does not grow with the number of calls, except by the logarithm.
#[derive(Debug)]
pub struct Calls<M> {
    config: CallsConfig,
    exchange: Option<Box<dyn KeyExchange>>,
    /// The keys that were exchanged, the oldest first.
    exchanged: VecDeque<KeyId>,
    jar: CookieJar,
    handshakes: Handshakes,
    /// The offers of others, with the answers to those that were refused.
    used: UsedTokens<Option<CallRefusal>>,
    ends: BTreeMap<CallId, End<M>>,
    next_id: u64,
    /// The call of an address and its sources.
    by_source: BTreeMap<(SocketAddr, u32), CallId>,
    by_token: BTreeMap<StreamToken, CallId>,
    /// The calls that are being opened from here.
    by_nonce: BTreeMap<u64, CallId>,
    deadlines: BTreeSet<(Timestamp, CallId)>,
    /// Calls that may have something to send.
    touched: VecDeque<CallId>,
    outbox: VecDeque<Outbound>,
    events: VecDeque<CallEvent>,
    counters: CallCounters,
    /// The latest time passed in.
    now: Timestamp,
}

impl<M: CallMedia> Calls<M> {
    /// No calls.
    pub fn new(config: CallsConfig) -> Self {
        /// Offers for each call that are remembered while their cookies are valid.
        const OFFERS_PER_CALL: usize = 16;
        let max_used = config.max_calls.max(256).saturating_mul(OFFERS_PER_CALL);
        Self {
            jar: CookieJar::new(&config.secret),
            // Each message of the opening is repeated at least once.
            handshakes: Handshakes::new(config.max_calls.max(8).saturating_mul(2)),
            used: UsedTokens::new(max_used, max_used / 2),
            config,
            exchange: None,
            exchanged: VecDeque::new(),
            ends: BTreeMap::new(),
            next_id: 0,
            by_source: BTreeMap::new(),
            by_token: BTreeMap::new(),
            by_nonce: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            touched: VecDeque::new(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            counters: CallCounters::default(),
            now: Timestamp::ZERO,
        }
    }

    /// From now on keys that callers exchange count as shared ones, in addition to those of the configuration, which must have one.
    pub fn set_exchange(&mut self, exchange: Box<dyn KeyExchange>) {
        self.exchange = Some(exchange);
    }

    /// Calls `to`. `nonce` identifies the request; use random bytes of the system.
    ///
    /// # Errors
    ///
    /// [`CallRefusal`] if the offer is invalid or too long for a message.
    pub fn call(
        &mut self,
        now: Timestamp,
        to: SocketAddr,
        nonce: u64,
        offer: Offer,
    ) -> Result<CallId, CallRefusal> {
        let now = self.advance(now);
        if let Some(problem) = offer.problem() {
            return Err(CallRefusal::Offer(problem));
        }
        if offer.protection == Protection::Encrypted
            && (self.config.cipher.is_none() || self.config.keys.is_none())
        {
            return Err(CallRefusal::NoKeysToEncrypt);
        }
        let mut end = End::new(now, to, nonce, Box::new(offer), true);
        end.path_mtu.clone_from(&self.config.path_mtu);
        let longest = Cookie { issued_ns: u64::MAX, proof: [u8::MAX; 16] };
        end.opening = self.config.keys.clone().and_then(|ring| {
            let first = ring.signing();
            let key = opening_key(&ring, first)?;
            Some(OpeningKeys { untried: ring.ids().filter(|id| *id != first).collect(), ring, key })
        });
        end.stage = Stage::Offering(longest);
        end.say(&self.offer_of(&end));
        let bytes = end.outbox.pop_front().map_or(0, |offer| offer.bytes.len());
        end.stage = Stage::Greeting;
        if bytes > MAX_MESSAGE_BYTES {
            let problem = format!(
                "its description takes {bytes} bytes, at most {MAX_MESSAGE_BYTES}: use fewer videos or shorter names"
            );
            return Err(CallRefusal::Offer(problem));
        }
        let id = self.insert(end);
        self.by_nonce.insert(nonce, id);
        self.touch(id);
        self.wake(now, id);
        Ok(id)
    }

    /// Accepts an [offered](CallEvent::Offered) call with its media, which begin now.
    pub fn accept(&mut self, now: Timestamp, id: CallId, answer: Answer, media: M) {
        let now = self.advance(now);
        let clock = &self.config.clock;
        let Some(end) = self.ends.get_mut(&id).filter(|end| end.stage == Stage::Waiting) else { return };
        end.begin(now, media);
        end.answer = Some(answer);
        if let Some(accepted) = accepted(end, clock) {
            end.say(&accepted);
        }
        self.touch(id);
    }

    /// Refuses an [offered](CallEvent::Offered) call.
    pub fn refuse(&mut self, now: Timestamp, id: CallId, why: CallRefusal) {
        let now = self.advance(now);
        let Some(end) = self.ends.get_mut(&id).filter(|end| end.stage == Stage::Waiting && !end.is_caller)
        else {
            return;
        };
        self.counters.refused += 1;
        end.say(&Message::Refused { nonce: end.nonce, why: why.clone() });
        self.outbox.extend(end.outbox.drain(..));
        if let Some(answer) = end.token.and_then(|token| self.used.get_mut(token)) {
            *answer = Some(why);
        }
        end.end(now, Ok(()));
        self.forget(id);
    }

    /// Gives the media to an [accepted](CallEvent::Accepted) call, which begins now.
    pub fn begin(&mut self, now: Timestamp, id: CallId, media: M) {
        let now = self.advance(now);
        if let Some(end) = self.ends.get_mut(&id).filter(|end| end.stage == Stage::Waiting) {
            end.begin(now, media);
            self.touch(id);
        }
    }

    /// Ends a call: the media stop, and both ends exchange their figures.
    pub fn finish(&mut self, now: Timestamp, id: CallId) {
        let now = self.advance(now);
        if let Some(end) = self.ends.get_mut(&id) {
            end.finish(now);
            self.touch(id);
        }
    }

    /// The calls that have not ended.
    pub fn live(&self) -> impl Iterator<Item = CallId> {
        self.ends.iter().filter(|(_, end)| end.status() != CallStatus::Over).map(|(&id, _)| id)
    }

    /// The stage of a call; `None` if it is not known, or no longer.
    pub fn status(&self, id: CallId) -> Option<CallStatus> {
        self.ends.get(&id).map(End::status)
    }

    /// The media of a call, from its beginning until they are taken.
    pub fn media(&self, id: CallId) -> Option<&M> {
        self.ends.get(&id)?.media.as_ref()
    }

    /// The media of a call.
    pub fn media_mut(&mut self, id: CallId) -> Option<&mut M> {
        self.ends.get_mut(&id)?.media.as_mut()
    }

    /// Takes the media of a call that has ended.
    pub fn take_media(&mut self, id: CallId) -> Option<M> {
        let end = self.ends.get_mut(&id).filter(|end| end.status() == CallStatus::Over)?;
        let media = end.media.take();
        self.touch(id);
        media
    }

    /// The address of the far end.
    pub fn peer(&self, id: CallId) -> Option<SocketAddr> {
        self.ends.get(&id).map(|end| end.peer)
    }

    /// What was offered.
    pub fn offer(&self, id: CallId) -> Option<&Offer> {
        self.ends.get(&id).map(|end| &*end.offer)
    }

    /// The figures of the far end, once it has sent them.
    pub fn far_end(&self, id: CallId) -> Option<&EndFigures> {
        self.ends.get(&id)?.their_figures.as_ref()
    }

    /// The round-trip times of a call's Pings.
    pub fn rtts(&self, id: CallId) -> Option<&ErrorHistogram> {
        self.ends.get(&id).map(End::rtts)
    }

    /// What was found of the MTU of the path of a call; `None` where it is not looked for.
    pub fn path_mtu(&self, id: CallId) -> Option<PathMtuFigures> {
        self.ends.get(&id)?.path_mtu.as_ref().map(PathMtuSearch::figures)
    }

    /// How often an address of a call has changed.
    pub fn moves(&self, id: CallId) -> Option<u32> {
        self.ends.get(&id).map(|end| end.moves)
    }

    /// The beginning of a call.
    pub fn began(&self, id: CallId) -> Option<Timestamp> {
        self.ends.get(&id).map(|end| end.zero)
    }

    /// The time since the last datagram of the far end.
    pub fn silence(&self, id: CallId, now: Timestamp) -> Option<TimeDelta> {
        self.ends.get(&id).map(|end| now.saturating_since(end.last_heard))
    }

    /// The far end of a call that is silent may be at `address` now: it is greeted there, so that it is heard also through a NAT. The call
    /// moves once the far end proves to be there.
    pub fn try_at(&mut self, now: Timestamp, id: CallId, address: SocketAddr) {
        let now = self.advance(now);
        if let Some(end) = self.ends.get_mut(&id).filter(|end| end.status() == CallStatus::Running) {
            end.greet_at(now, address);
            self.touch(id);
        }
    }

    /// Counts of datagrams that belong to no call.
    pub fn counters(&self) -> CallCounters {
        self.counters
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<CallEvent> {
        self.events.pop_front()
    }

    /// Time at which [`handle_timeout`](Self::handle_timeout) must be called next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let exchange = self.exchange.as_ref().and_then(|exchange| exchange.poll_timeout());
        self.deadlines.first().map(|&(at, _)| at).into_iter().chain(exchange).min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let now = self.advance(now);
        if let Some(exchange) = &mut self.exchange
            && exchange.poll_timeout().is_some_and(|at| at <= now)
        {
            exchange.handle_timeout(now);
            self.drain_exchange();
        }
        while let Some(&(at, id)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            if let Some(end) = self.ends.get_mut(&id) {
                end.armed = None;
            }
            self.wake(now, id);
            self.touch(id);
        }
    }

    /// Appends the bytes of the next datagram to `buffer`; `None` if there is nothing to send now.
    pub fn poll_transmit(&mut self, now: Timestamp, buffer: &mut Vec<u8>) -> Option<Outgoing> {
        let now = self.advance(now);
        if let Some(outbound) = self.outbox.pop_front() {
            buffer.extend(outbound.bytes);
            return Some(Outgoing::message(outbound.to));
        }
        while let Some(&id) = self.touched.front() {
            if let Some(end) = self.ends.get_mut(&id) {
                if let Some(outbound) = end.outbox.pop_front() {
                    buffer.extend(outbound.bytes);
                    return Some(Outgoing::message(outbound.to));
                }
                let media_time = end.media_time(now);
                // Once the far end has ended the call, it counts nothing more.
                let flows = !matches!(end.stage, Stage::Over(_) | Stage::Closing(_));
                let media = end.media.as_mut().filter(|_| flows);
                if let Some(datagram) = media.and_then(|media| media.poll_transmit(media_time)) {
                    let start = buffer.len();
                    datagram.write_to(buffer);
                    let size = DataSize::from_bytes((buffer.len() - start) as u64);
                    let kind = buffer.get(start + 1).copied().unwrap_or_default();
                    if !end.guard.as_mut().is_some_and(|guard| guard.protect(buffer, start)) {
                        buffer.truncate(start);
                        continue;
                    }
                    let media = Some(OutgoingMedia { call: id, kind, size });
                    return Some(Outgoing { to: end.peer, ecn: datagram.ecn, media });
                }
            }
            self.touched.pop_front();
            self.settle(now, id);
        }
        None
    }

    /// The system did not take a datagram of [`poll_transmit`](Self::poll_transmit): it was not sent after all. `now` is the time of
    /// that call.
    pub fn handle_unsent(&mut self, now: Timestamp, OutgoingMedia { call, kind, size }: OutgoingMedia) {
        let now = self.advance(now);
        if let Some(end) = self.ends.get_mut(&call) {
            end.on_unsent(now, kind, size);
            self.touch(call);
        }
    }

    /// Handles a received datagram; `now` is its arrival time.
    pub fn handle_datagram(&mut self, now: Timestamp, from: SocketAddr, bytes: &[u8], ecn: Ecn) {
        let now = self.advance(now);
        match Kind::of(bytes) {
            Kind::Media(sources) => self.handle_media(now, from, sources, bytes, ecn),
            Kind::Control => match Message::decode(bytes) {
                Ok(message) if message.is_padded(bytes) => self.handle_plain(now, from, message),
                _ => self.counters.damaged += 1,
            },
            Kind::SealedControl => self.handle_sealed(now, from, bytes),
            Kind::Exchange => match &mut self.exchange {
                Some(exchange) => {
                    exchange.handle_datagram(now, from, bytes);
                    self.drain_exchange();
                }
                None => self.counters.foreign += 1,
            },
            Kind::Version(version) => self.handle_version(from, version),
            Kind::Foreign => self.counters.foreign += 1,
        }
    }

    /// The host at `to` says that nothing listens at that port (ICMP). Anybody could send such a message, and a far end that changes its
    /// address is there again soon: it ends a call only with others of a second, and one that is being opened only with others of half a
    /// second, in which nothing comes from the far end.
    pub fn handle_unreachable(&mut self, now: Timestamp, to: SocketAddr) {
        let now = self.advance(now);
        let mut ended = Vec::new();
        for (&id, end) in self.ends.iter_mut().filter(|(_, end)| end.peer == to) {
            if let Some(why) = end.on_absent(now, CallError::Gone) {
                end.end(now, Err(why));
                ended.push(id);
            }
        }
        for id in ended {
            self.touch(id);
        }
    }

    /// Sends what the key exchange has to send, and takes its keys.
    fn drain_exchange(&mut self) {
        /// Exchanged keys beyond this number are forgotten. A call keeps its own.
        const MAX_EXCHANGED: usize = 1024;
        while let Some((to, bytes)) = self.exchange.as_mut().and_then(|exchange| exchange.poll_transmit()) {
            self.answer(to, bytes);
        }
        while let Some((from, result)) = self.exchange.as_mut().and_then(|exchange| exchange.poll_result()) {
            match (result, &mut self.config.keys) {
                (Ok((id, key)), Some(ring)) => {
                    ring.insert(id, &key);
                    self.exchanged.push_back(id);
                    if self.exchanged.len() > MAX_EXCHANGED
                        && let Some(oldest) = self.exchanged.pop_front()
                    {
                        ring.remove(oldest);
                    }
                }
                (Err(why), _) => {
                    self.counters.unauthenticated += 1;
                    self.events.push_back(CallEvent::NotAuthentic { from, why });
                }
                (Ok(_), None) => {}
            }
        }
    }

    fn listens(&self) -> bool {
        self.config.max_calls > 0
    }

    /// Whether a call to this address is being opened: its acceptance may have been lost, and its token is not known yet.
    fn is_opening(&self, from: SocketAddr) -> bool {
        self.by_nonce.values().any(|id| self.ends.get(id).is_some_and(|end| end.peer == from))
    }

    /// The call that is being opened to this address with this nonce.
    fn opening(&mut self, from: SocketAddr, nonce: u64) -> Option<(CallId, &mut End<M>)> {
        let id = *self.by_nonce.get(&nonce)?;
        let end = self.ends.get_mut(&id).filter(|end| end.peer == from)?;
        Some((id, end))
    }

    fn answer(&mut self, to: SocketAddr, bytes: Vec<u8>) {
        /// Answers to strangers are dropped beyond this number.
        const MAX_ANSWERS: usize = 1024;
        if self.outbox.len() < MAX_ANSWERS {
            self.outbox.push_back(Outbound { to, bytes });
        }
    }

    fn insert(&mut self, end: End<M>) -> CallId {
        let id = CallId(self.next_id);
        self.next_id += 1;
        self.ends.insert(id, end);
        id
    }

    fn offer_of(&self, end: &End<M>) -> Message {
        offer_of(end, &self.config.clock)
    }

    /// Lets one call do what is due.
    fn wake(&mut self, now: Timestamp, id: CallId) {
        let times = self.config.times();
        let clock = self.config.clock;
        if let Some(end) = self.ends.get_mut(&id) {
            end.handle_timeout(now, times, |end| offer_of(end, &clock));
        }
    }

    fn touch(&mut self, id: CallId) {
        if let Some(end) = self.ends.get_mut(&id)
            && !std::mem::replace(&mut end.is_touched, true)
        {
            self.touched.push_back(id);
        }
    }

    /// Files the next deadline of a call, reports its end, and forgets it when it is over.
    fn settle(&mut self, now: Timestamp, id: CallId) {
        let Some(end) = self.ends.get_mut(&id) else { return };
        end.is_touched = false;
        if let Some(outcome) = end.outcome.take() {
            self.events.push_back(CallEvent::Ended { id, outcome });
        }
        if let Some(armed) = end.armed.take() {
            self.deadlines.remove(&(armed, id));
        }
        if end.is_gone(now) {
            return self.forget(id);
        }
        // A deadline that is not in the future would be handled again and again.
        let at = end.next_timeout().max(now + TimeDelta::from_nanos(1));
        end.armed = Some(at);
        self.deadlines.insert((at, id));
    }

    fn forget(&mut self, id: CallId) {
        if let Some(end) = self.ends.remove(&id) {
            if let Some(armed) = end.armed {
                self.deadlines.remove(&(armed, id));
            }
            let sources = end.their_sources.map(|sources| (end.peer, sources));
            if let Some(key) = sources.filter(|key| self.by_source.get(key) == Some(&id)) {
                self.by_source.remove(&key);
            }
            if let Some(token) = end.token {
                self.by_token.remove(&token);
            }
            if self.by_nonce.get(&end.nonce) == Some(&id) {
                self.by_nonce.remove(&end.nonce);
            }
        }
    }

    fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }
}

/// The offer of a caller that knows its cookie.
fn offer_of<M>(end: &End<M>, clock: &LocalClock) -> Message {
    let cookie = match end.stage {
        Stage::Offering(cookie) => cookie,
        _ => Cookie { issued_ns: 0, proof: [0; 16] },
    };
    Message::Offer {
        nonce: end.nonce,
        cookie,
        offer: end.offer.clone(),
        clock: clock.identity_in(end.nonce, &cookie),
    }
}

/// The acceptance of a call, once its owner has accepted it.
fn accepted<M>(end: &End<M>, clock: &LocalClock) -> Option<Message> {
    let (token, answer, cookie) = (end.token?, end.answer?, end.cookie?);
    let clock = clock.identity_in(!end.nonce, &cookie);
    Some(Message::Accepted { nonce: end.nonce, token, answer, clock, zero_ns: end.zero.as_nanos() })
}
