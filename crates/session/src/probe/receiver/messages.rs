//! Control messages: opening, clock requests, the end of streams.

use std::net::SocketAddr;

use giusto_units::{TimeDelta, Timestamp};

use super::{
    Receiver, ReceiverEvent, ReverseStream, encode,
    reverse::{self, Asked},
    send_within_credit,
    slots::Standing,
};
use crate::handshakes::Step;
use crate::probe::{
    auth::{StreamKeys, opening_key},
    inbound::Inbound,
    stream::{Ended, Stream},
    transmit::Transmit,
    wire::{
        Cookie, Message, OPENING_BYTES, PathEstimate, Refusal, Sealed, SenderFigures, StreamFormat,
        StreamRequest, StreamToken,
    },
};

/// Minimum time before an address may replace its stream by a new one.
const SHORTEST_STREAM: TimeDelta = TimeDelta::from_seconds(1);

/// How long the end of a stream waits for datagrams that it may have overtaken.
const OVERTAKEN: TimeDelta = TimeDelta::from_millis(150);

/// A request to open a stream.
struct Opening {
    from: SocketAddr,
    /// The length of the datagram: the answer must not be longer.
    length: usize,
    nonce: u64,
    cookie: Cookie,
    request: StreamRequest,
    /// The keys of the stream, if the request was authenticated.
    keys: Option<StreamKeys>,
}

impl Opening {
    fn encode(&mut self, message: &Message) -> Vec<u8> {
        match &mut self.keys {
            Some(keys) => keys.seal_to_sender(message, 0),
            None => message.encode(0),
        }
    }
}

impl Receiver {
    /// Handles a message without authentication.
    pub(super) fn handle_plain(
        &mut self,
        now: Timestamp,
        message: Message,
        length: usize,
        inbound: &Inbound<'_>,
    ) {
        let from = inbound.from;
        if self.is_flooded(now, from, &message) {
            return;
        }
        let authenticated_only = self.config.authenticated_only();
        match message {
            Message::Hello { nonce } if authenticated_only => {
                self.counters.unauthenticated += 1;
                self.refuse(from, length, nonce, Refusal::KeyRequired);
            }
            _ if authenticated_only => self.counters.unauthenticated += 1,
            Message::Hello { nonce } => {
                let challenge = Message::Challenge { nonce, cookie: self.jar.issue(now, from, nonce) };
                self.answer(from, length, challenge.encode(0));
            }
            Message::Open { nonce, cookie, request } => {
                // What can be forged does not end what is authenticated.
                if self.streams.get(&from).is_some_and(|(_, stream)| stream.keys.is_some()) {
                    self.counters.unauthenticated += 1;
                    return;
                }
                self.handle_open(now, Opening { from, length, nonce, cookie, request, keys: None });
            }
            Message::Ping { token, .. }
            | Message::Finish { token, .. }
            | Message::PathProof { token, .. }
                if self.keys_of(from, token).is_some() =>
            {
                self.counters.unauthenticated += 1;
            }
            message => self.handle_believed(now, message, length, inbound),
        }
    }

    /// Handles a message with authentication, which is verified first.
    pub(super) fn handle_sealed(&mut self, now: Timestamp, datagram: &[u8], inbound: &Inbound<'_>) {
        let (from, length) = (inbound.from, datagram.len());
        let Ok(sealed) = Sealed::parse(datagram) else { return self.counters.malformed += 1 };
        let Ok(message) = sealed.message() else { return self.counters.malformed += 1 };
        if self.is_flooded(now, from, &message) {
            return;
        }
        let Some(ring) = &self.config.keys else {
            self.counters.unauthenticated += 1;
            if let Message::Hello { nonce } = message {
                self.refuse(from, length, nonce, Refusal::NoKeys);
            }
            return;
        };
        match message {
            Message::Hello { nonce } => {
                if let Some(key) = opening_key(ring, sealed.id).filter(|key| sealed.verify(key)) {
                    let challenge = Message::Challenge { nonce, cookie: self.jar.issue(now, from, nonce) };
                    self.answer(from, length, challenge.seal(0, &key, 0));
                } else {
                    self.counters.unauthenticated += 1;
                    self.refuse(from, length, nonce, Refusal::Key);
                }
            }
            Message::Open { nonce, cookie, request } => {
                let keys = StreamKeys::derive(ring, sealed.id, nonce, &cookie);
                match keys.filter(|keys| sealed.verify(&keys.to_receiver)) {
                    Some(keys) => {
                        let keys = Some(keys);
                        self.handle_open(now, Opening { from, length, nonce, cookie, request, keys });
                    }
                    None => self.counters.unauthenticated += 1,
                }
            }
            Message::Ping { token, .. }
            | Message::Finish { token, .. }
            | Message::PathProof { token, .. }
                if !self.keys_of(from, token).is_some_and(|keys| keys.admits_to_receiver(&sealed)) =>
            {
                self.counters.unauthenticated += 1;
            }
            message => self.handle_believed(now, message, length, inbound),
        }
    }

    /// Whether it is a handshake that is not answered, because there are too many while streams are measured.
    fn is_flooded(&mut self, now: Timestamp, from: SocketAddr, message: &Message) -> bool {
        let step = match message {
            Message::Hello { .. } => Step::First,
            Message::Open { .. } => Step::Second,
            _ => return false,
        };
        let is_flooded = !self.streams.is_empty() && !self.handshakes.admit(now, from.ip(), step);
        self.counters.unanswered_handshakes += u64::from(is_flooded);
        is_flooded
    }

    /// Handles a message of an open stream that has all the authentication that its stream asks for.
    fn handle_believed(&mut self, now: Timestamp, message: Message, length: usize, inbound: &Inbound<'_>) {
        match message {
            Message::Ping { token, sent_ns, path } => {
                self.handle_ping(now, token, sent_ns, path, length, inbound);
            }
            Message::Finish { token, figures } => {
                self.handle_finish(now, inbound.from, length, token, figures);
            }
            Message::Announce { token, next, request } if self.config.group => {
                self.handle_announcement(now, inbound.from, (token, next), request);
            }
            Message::PathProof { token, cookie } => self.handle_proof(now, token, &cookie, inbound.from),
            // The first two are handled before; only a receiver sends the others.
            Message::Hello { .. }
            | Message::Open { .. }
            | Message::Challenge { .. }
            | Message::Accepted { .. }
            | Message::Refused { .. }
            | Message::Pong { .. }
            | Message::Report { .. }
            | Message::Announce { .. }
            | Message::PathProbe { .. } => self.counters.foreign += 1,
        }
    }

    /// The keys of the stream with this token from this address, present or past, or from another one.
    fn keys_of(&mut self, from: SocketAddr, token: StreamToken) -> Option<&mut StreamKeys> {
        if self.stream_elsewhere(from, token).is_some() {
            return self.stream_elsewhere(from, token)?.keys.as_mut();
        }
        let present = self.streams.get_mut(&from).filter(|(_, stream)| stream.token == Some(token));
        if let Some((_, stream)) = present {
            return stream.keys.as_mut();
        }
        let past = self.lingering.get_mut(&from).filter(|lingering| lingering.token == Some(token));
        past.and_then(|lingering| lingering.keys.as_mut())
    }

    fn handle_open(&mut self, now: Timestamp, mut opening: Opening) {
        let Opening { from, length, nonce, cookie, .. } = opening;
        let Some(token) = self.jar.verify(now, from, nonce, &cookie, opening.keys.is_some()) else {
            self.counters.forged += 1;
            let refused = opening.encode(&Message::Refused { nonce, why: Refusal::Cookie });
            return self.answer(from, length, refused);
        };
        let accepted = Message::Accepted { nonce, token, clock: self.config.clock.identity() };
        if reverse::moves(&opening.request) {
            let asked = Asked { token, nonce, authenticated: opening.keys.is_some() };
            let Some(moved) = self.move_reverse(now, from, asked) else { return };
            let answer = moved.map_or_else(|why| Message::Refused { nonce, why }, |()| accepted);
            let bytes = opening.encode(&answer);
            return self.answer(from, length, bytes);
        }
        if let Some((_, stream)) = self.streams.get_mut(&from)
            && stream.token == Some(token)
        {
            // Our answer was lost; the stream continues.
            let bytes = encode(stream, &accepted);
            return self.answer(from, length, bytes);
        }
        if self.reverse.get(&from).is_some_and(|asked| asked.token == token) {
            let bytes = opening.encode(&accepted);
            return self.answer(from, length, bytes);
        }
        // A cookie opens one stream: a copy of an old Open begins nothing.
        if self.lingering.get(&from).is_some_and(|lingering| lingering.token == Some(token))
            || self.used.get_mut(token).is_some()
        {
            self.counters.late += 1;
            return;
        }
        // The address has proved itself again, so its former stream has ended. Not too often: each one leaves a result.
        if let Some((_, stream)) = self.streams.get(&from) {
            let is_doubtful = opening.keys.is_some() && stream.keys.is_none();
            if now - stream.opened() < SHORTEST_STREAM && !is_doubtful {
                self.counters.refused += 1;
                return;
            }
            self.close(from, Ended::Replaced);
        }
        if let Err(why) = self.admit(now, &opening, token) {
            self.counters.refused += 1;
            let refused = opening.encode(&Message::Refused { nonce, why });
            return self.answer(from, length, refused);
        }
        if opening.request.reverse.is_some() {
            let bytes = opening.encode(&accepted);
            self.answer(from, length, bytes);
            let (request, authenticated) = (opening.request, opening.keys.is_some());
            self.reverse.insert(from, Asked { token, nonce, authenticated });
            let asked = Box::new(ReverseStream { to: from, request, authenticated });
            return self.events.push_back(ReceiverEvent::Reverse(asked));
        }
        let their_origin = self.config.clock.origin_of(&opening.request.clock, nonce, &cookie);
        // The answer first: it counts against the Open message, not the stream's budget.
        let bytes = opening.encode(&accepted);
        self.answer(from, length, bytes);
        let mut stream = Stream::requested(now, from, opening.request, &self.config.clock, their_origin);
        stream.token = Some(token);
        stream.keys = opening.keys;
        stream.next_report = now + self.config.report_interval;
        stream.begin_kernel_dropped(self.kernel_dropped);
        self.insert(from, stream);
    }

    /// Whether the stream is accepted; then there is a slot for it, and its cookie is used up.
    fn admit(&mut self, now: Timestamp, opening: &Opening, token: StreamToken) -> Result<(), Refusal> {
        let Opening { from, request, keys, .. } = opening;
        if request.reverse.is_some() {
            let max_rate = self.config.max_reverse_rate;
            let is_fast = request.rate_bps.is_none_or(|asked| asked > max_rate.as_bps());
            if is_fast && keys.is_none() {
                return Err(Refusal::ReverseRate(max_rate));
            }
            if self.reverse.len() >= self.config.max_reverse || self.reverse.contains_key(from) {
                return Err(Refusal::Reverse);
            }
        }
        let is_too_fast = self
            .config
            .limits
            .rate
            .is_some_and(|max| request.rate_bps.is_none_or(|asked| asked > max.as_bps()));
        if is_too_fast {
            return Err(Refusal::Rate);
        }
        let counts = keys.is_none() || request.format == StreamFormat::Giusto;
        if !counts && !self.config.accept_unauthenticated {
            return Err(Refusal::Format);
        }
        // Before anybody loses a slot.
        self.use_up(now, *from, (token, keys.is_some()))?;
        if request.reverse.is_some() {
            return Ok(());
        }
        let standing = if keys.is_some() { Standing::Authenticated } else { Standing::Verified };
        // The sender that is refused may not hear it, and ask again.
        self.make_room(now, *from, standing).inspect_err(|_| self.used.remove(token))
    }

    fn handle_ping(
        &mut self,
        now: Timestamp,
        token: StreamToken,
        sent_ns: u64,
        path: Option<PathEstimate>,
        length: usize,
        inbound: &Inbound<'_>,
    ) {
        let stream = self.streams.get_mut(&inbound.from).map(|(_, stream)| stream);
        let Some(stream) = stream.filter(|stream| stream.token == Some(token)) else {
            if self.ask_for_proof(now, token, length, inbound.from) {
                return;
            }
            // Who asked for a stream in the reverse direction begins to measure the path before it listens.
            let asked = self.reverse.get(&inbound.from).is_some_and(|asked| asked.token == token);
            if !asked && !self.repeat_report(inbound.from, length, token) {
                self.counters.forged += 1;
            }
            return;
        };
        stream.last_heard = stream.last_heard.max(now);
        stream.on_path(now, path);
        let pong = Message::Pong {
            token,
            ping_sent_ns: sent_ns,
            received_ns: inbound.at.as_nanos(),
            sent_ns: now.as_nanos(),
        };
        let bytes = encode(stream, &pong);
        send_within_credit(&mut self.outbox, stream, bytes);
    }

    fn handle_finish(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        length: usize,
        token: StreamToken,
        figures: SenderFigures,
    ) {
        if self.repeat_report(from, length, token) {
            return;
        }
        let stream = self.streams.get_mut(&from).map(|(_, stream)| stream);
        let Some(stream) = stream.filter(|stream| stream.token == Some(token)) else {
            let moves = self.ask_for_proof(now, token, length, from);
            self.counters.forged += u64::from(!moves);
            return;
        };
        // If the path reorders, missing datagrams may still arrive; the sender asks again. Until then the stream is not idle.
        stream.last_heard = stream.last_heard.max(now);
        let asked = *stream.finish_asked.get_or_insert(now);
        if stream.meter().sequence().received() < figures.packets && now - asked < OVERTAKEN {
            return;
        }
        self.retire(from, Ended::Finished, Some(figures));
    }

    /// Repeats the final report of a stream that has ended, because its sender still sends. False if there is none.
    fn repeat_report(&mut self, from: SocketAddr, length: usize, token: StreamToken) -> bool {
        let lingering = self.lingering.get_mut(&from);
        let Some(lingering) = lingering.filter(|lingering| lingering.token == Some(token)) else {
            return false;
        };
        lingering.credit = lingering.credit.saturating_add(length as u64);
        if let Some(left) = lingering.credit.checked_sub(lingering.report.len() as u64) {
            lingering.credit = left;
            self.outbox.push_back(Transmit { to: from, bytes: lingering.report.clone() });
        }
        true
    }

    /// Says why no stream can be opened, without authentication: there is no common key.
    fn refuse(&mut self, to: SocketAddr, length: usize, nonce: u64, why: Refusal) {
        self.answer(to, length, Message::Refused { nonce, why }.encode(0));
    }

    /// Answers a single datagram, whose source address may be forged: never with more bytes than were
    /// received.
    fn answer(&mut self, to: SocketAddr, length: usize, bytes: Vec<u8>) {
        if length < OPENING_BYTES || bytes.len() > length {
            return;
        }
        // Bytes from a stream's own address are already in its budget.
        if let Some((_, stream)) = self.streams.get_mut(&to) {
            let Some(left) = stream.credit.checked_sub(bytes.len() as u64) else { return };
            stream.credit = left;
        }
        self.outbox.push_back(Transmit { to, bytes });
    }
}
