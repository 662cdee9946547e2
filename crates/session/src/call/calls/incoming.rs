//! What arrives: media, and the messages of the handshake.

use std::net::SocketAddr;

use giusto_units::{Ecn, TimeDelta, Timestamp};

use super::{CallId, Calls, accepted};
use crate::{
    call::{
        end::{CallStatus, End, OpeningKeys, Stage},
        event::{CallError, CallEvent},
        keys::{CallKeys, Guard, MediaKeys, Unopened, opening_key},
        media::CallMedia,
        messages::{CallRefusal, Kind, Message, Offer, Sealed, sources_of},
    },
    cookie::Cookie,
    envelope::WireError,
    handshakes::Step,
    probe::{LocalClock, wire::ClockIdentity},
};

impl<M: CallMedia> Calls<M> {
    pub(super) fn handle_media(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        sources: u32,
        bytes: &[u8],
        ecn: Ecn,
    ) {
        let id = self.by_source.get(&(from, sources)).copied();
        let Some((id, end)) = id.and_then(|id| Some((id, self.ends.get_mut(&id)?))) else {
            // The network may have delayed or lost the acceptance that names the sources.
            let offered = self.by_nonce.values().find(|id| {
                self.ends
                    .get(id)
                    .is_some_and(|end| end.peer == from && matches!(end.stage, Stage::Offering(_)))
            });
            let offered = offered.and_then(|id| self.ends.get_mut(id));
            if !offered.is_some_and(|end| end.keep_early(now, bytes, ecn)) {
                self.counters.unknown_source += 1;
            }
            return;
        };
        let kind = bytes.get(1).copied().unwrap_or_default();
        let opened = end.guard.as_mut().map_or(Err(Unopened::Forged), |guard| guard.open(bytes));
        let bytes = match (opened, &mut end.media) {
            (Ok(bytes), _) => bytes,
            (Err(Unopened::Copy), Some(media)) => return media.on_copy(kind),
            (Err(_), _) => {
                self.counters.unauthenticated += 1;
                return;
            }
        };
        if matches!(end.stage, Stage::Over(_)) {
            return;
        }
        end.last_heard = end.last_heard.max(now);
        let media_time = end.media_time(now);
        match &mut end.media {
            Some(media) => media.handle_datagram(media_time, &bytes, ecn),
            None => _ = end.keep_early(now, &bytes, ecn),
        }
        self.touch(id);
    }

    /// A version that is not ours, of the far end of a call that is being opened.
    pub(super) fn handle_version(&mut self, from: SocketAddr, version: u8) {
        self.counters.foreign += 1;
        for &id in self.by_nonce.values() {
            if let Some(end) = self.ends.get_mut(&id).filter(|end| end.peer == from) {
                end.hint.get_or_insert(CallError::Wire(WireError::Version(version)));
            }
        }
    }

    /// Whether it is a message of a stranger that is not answered, because there are too many while there are calls.
    fn is_flooded(&mut self, now: Timestamp, from: SocketAddr, message: &Message) -> bool {
        let step = match message {
            Message::Hello { .. } => Step::First,
            Message::Ping { token, .. } if !self.by_token.contains_key(token) => Step::First,
            Message::Offer { .. } => Step::Second,
            _ => return false,
        };
        let is_flooded = !self.ends.is_empty() && !self.handshakes.admit(now, from.ip(), step);
        self.counters.unanswered_handshakes += u64::from(is_flooded);
        is_flooded
    }

    pub(super) fn handle_plain(&mut self, now: Timestamp, from: SocketAddr, message: Message) {
        if self.is_flooded(now, from, &message) {
            return;
        }
        let requires_keys = self.config.keys.is_some();
        match message {
            Message::Hello { nonce } if self.listens() && requires_keys => {
                self.counters.unauthenticated += 1;
                self.answer(from, Message::Refused { nonce, why: CallRefusal::KeyRequired }.encode());
            }
            Message::Refused { nonce, why } if requires_keys => {
                let id = self.by_nonce.get(&nonce).copied();
                let end = id.and_then(|id| self.ends.get_mut(&id)).filter(|end| end.peer == from);
                if let Some(end) = end {
                    // While keys are replaced, the listener may have another one of ours.
                    let other = end
                        .opening
                        .as_mut()
                        .filter(|_| why == CallRefusal::Key && end.stage == Stage::Greeting);
                    let is_tried = other.is_some_and(OpeningKeys::try_another);
                    end.hint = Some(CallError::Unauthenticated(why));
                    end.next = if is_tried { now } else { end.next };
                    let id = id.unwrap_or(CallId(u64::MAX));
                    self.wake(now, id);
                    self.touch(id);
                }
            }
            _ if requires_keys => self.counters.unauthenticated += 1,
            Message::Hello { nonce } if self.listens() => {
                let cookie = self.jar.issue(now, from, nonce);
                self.answer(from, Message::Challenge { nonce, cookie }.encode());
            }
            Message::Offer { nonce, cookie, offer, clock } if self.listens() => {
                self.handle_offer(now, from, Opening { nonce, cookie, offer, clock, keys: None });
            }
            Message::Ping { token, .. } if !self.by_token.contains_key(&token) => {
                self.counters.forged += 1;
                if !self.is_opening(from) {
                    self.answer(from, Message::Unknown { token }.encode());
                }
            }
            message => self.handle_believed(now, from, message),
        }
    }

    pub(super) fn handle_sealed(&mut self, now: Timestamp, from: SocketAddr, bytes: &[u8]) {
        let parsed = Sealed::parse(bytes).and_then(|sealed| Ok((sealed, sealed.message::<Message>()?)));
        let Some((sealed, message)) = parsed.ok().filter(|(_, message)| message.is_padded(bytes)) else {
            self.counters.damaged += 1;
            return;
        };
        if self.is_flooded(now, from, &message) {
            return;
        }
        let Some(ring) = &self.config.keys else {
            self.counters.unauthenticated += 1;
            if let Message::Hello { nonce } = message
                && self.listens()
            {
                self.answer(from, Message::Refused { nonce, why: CallRefusal::NoKeys }.encode());
            }
            return;
        };
        let opened = || opening_key(ring, sealed.id).filter(|key| sealed.verify(key));
        match message {
            Message::Hello { nonce } if self.listens() => {
                let answer = if let Some(key) = opened() {
                    let cookie = self.jar.issue(now, from, nonce);
                    Message::Challenge { nonce, cookie }.seal(&key, 0)
                } else {
                    self.counters.unauthenticated += 1;
                    Message::Refused { nonce, why: CallRefusal::Key }.encode()
                };
                self.answer(from, answer);
            }
            Message::Offer { nonce, cookie, offer, clock } if self.listens() => {
                let keys = CallKeys::of_listener(ring, sealed.id, nonce, &cookie);
                match keys.and_then(|mut keys| keys.admits(&sealed).then_some(keys)) {
                    Some(keys) => self.handle_offer(
                        now,
                        from,
                        Opening { nonce, cookie, offer, clock, keys: Some(keys) },
                    ),
                    None => self.counters.unauthenticated += 1,
                }
            }
            Message::Challenge { nonce, .. } => {
                let id = self.by_nonce.get(&nonce).copied();
                let end = id.and_then(|id| self.ends.get(&id));
                let opening = end.and_then(|end| end.opening.as_ref());
                if opening.is_some_and(|opening| sealed.verify(&opening.key)) {
                    self.handle_believed(now, from, message);
                } else {
                    self.counters.unauthenticated += 1;
                }
            }
            Message::Accepted { nonce, .. } | Message::Refused { nonce, .. } => {
                let id = self.by_nonce.get(&nonce).copied();
                let end = id.and_then(|id| self.ends.get_mut(&id));
                if end.and_then(|end| end.keys.as_mut()).is_some_and(|keys| keys.admits(&sealed)) {
                    self.handle_believed(now, from, message);
                } else {
                    self.counters.unauthenticated += 1;
                }
            }
            Message::Unknown { .. } => match opened() {
                Some(_) => self.handle_believed(now, from, message),
                None => self.counters.unauthenticated += 1,
            },
            message => {
                let id = message.token().and_then(|token| self.by_token.get(&token)).copied();
                let end = id.and_then(|id| self.ends.get_mut(&id));
                match end.map(|end| end.keys.as_mut().is_some_and(|keys| keys.admits(&sealed))) {
                    Some(true) => self.handle_believed(now, from, message),
                    Some(false) => self.counters.unauthenticated += 1,
                    None => {
                        self.counters.forged += 1;
                        // Its keys went with the call: that of the opening tells a far end that shares it.
                        if let (Message::Ping { token, .. }, Some(key)) =
                            (message, opening_key(ring, sealed.id))
                            && !self.is_opening(from)
                        {
                            self.answer(from, Message::Unknown { token }.seal(&key, 0));
                        }
                    }
                }
            }
        }
    }

    /// Handles a message with all the authentication that is required.
    fn handle_believed(&mut self, now: Timestamp, from: SocketAddr, message: Message) {
        match message {
            Message::Challenge { nonce, cookie } => {
                let Some((id, end)) = self.opening(from, nonce) else { return self.counters.forged += 1 };
                if end.stage != Stage::Greeting {
                    return;
                }
                if let Some(opening) = &end.opening {
                    end.keys = CallKeys::of_caller(&opening.ring, opening.key.id(), nonce, &cookie);
                }
                end.stage = Stage::Offering(cookie);
                end.last_heard = now;
                end.next = now;
                self.wake(now, id);
                self.touch(id);
            }
            Message::Accepted { nonce, token, answer, clock, zero_ns } => {
                let (local, cipher) = (self.config.clock, self.config.cipher);
                let Some((id, end)) = self.opening(from, nonce) else { return };
                let Stage::Offering(cookie) = end.stage else { return };
                end.guard = Guard::new(end.offer.protection, end.keys.as_ref(), cipher, || {
                    MediaKeys::of_handshake(true, nonce, &cookie, token)
                });
                end.stage = Stage::Waiting;
                end.token = Some(token);
                end.last_heard = now;
                end.began = now;
                end.their_zero_ns = Some(zero_ns);
                // The two ends disclose different numbers, so that they cannot be compared.
                end.same_clock = same_clock(&local, &clock, !nonce, &cookie);
                let sources = sources_of(answer.sources);
                end.their_sources = Some(sources);
                let early = std::mem::take(&mut end.early);
                self.by_nonce.remove(&nonce);
                self.by_token.insert(token, id);
                self.by_source.insert((from, sources), id);
                self.events.push_back(CallEvent::Accepted { id, answer });
                self.touch(id);
                for (at, bytes, ecn) in early {
                    if let Kind::Media(sources) = Kind::of(&bytes) {
                        self.handle_media(at, from, sources, &bytes, ecn);
                    }
                }
            }
            Message::Refused { nonce, why } => {
                let Some((id, end)) = self.opening(from, nonce) else { return };
                end.end(now, Err(CallError::Refused(why)));
                self.touch(id);
            }
            message => {
                let id = message.token().and_then(|token| self.by_token.get(&token)).copied();
                let Some((id, end)) = id.and_then(|id| Some((id, self.ends.get_mut(&id)?))) else {
                    self.counters.forged += 1;
                    return;
                };
                if from == end.peer {
                    match message {
                        // It proves less than the call: anybody can get one from another holder of the key.
                        Message::Unknown { .. } => {
                            if let Some(why) = end.on_absent(now, CallError::Unknown) {
                                end.end(now, Err(why));
                            }
                        }
                        Message::Probe { token, cookie } => end.say(&Message::Proof { token, cookie }),
                        Message::Proof { token, .. } => end.say(&Message::Moved { token }),
                        message => {
                            let moves = end.moves;
                            end.handle_message(now, &message);
                            if end.moves != moves {
                                let to = end.peer;
                                self.events.push_back(CallEvent::Moved { id, to });
                            }
                        }
                    }
                } else {
                    self.handle_elsewhere(now, id, from, &message);
                }
                self.touch(id);
            }
        }
    }

    /// Handles a message of a call from another address than before.
    fn handle_elsewhere(&mut self, now: Timestamp, id: CallId, from: SocketAddr, message: &Message) {
        let Some(end) = self.ends.get_mut(&id) else { return };
        match *message {
            Message::Ping { token, .. } => {
                let cookie = self.jar.issue(now, from, token.0);
                end.say_to(from, &Message::Probe { token, cookie });
            }
            Message::Proof { token, cookie } => {
                if self.jar.verify(now, from, token.0, &cookie, false).is_none() {
                    self.counters.forged += 1;
                    return;
                }
                let sources = end.their_sources.unwrap_or_default();
                if self.by_source.contains_key(&(from, sources)) {
                    return;
                }
                self.by_source.remove(&(end.peer, sources));
                self.by_source.insert((from, sources), id);
                end.peer = from;
                end.last_heard = now;
                end.on_moved(now);
                end.say(&Message::Moved { token });
                self.events.push_back(CallEvent::Moved { id, to: from });
            }
            // A NAT may give what goes there another address of ours.
            Message::Probe { token, cookie } if end.tried == Some(from) => {
                end.say_to(from, &Message::Proof { token, cookie });
            }
            Message::Pong { .. } | Message::Moved { .. } if end.tried == Some(from) => {}
            _ => self.counters.forged += 1,
        }
    }

    fn handle_offer(&mut self, now: Timestamp, from: SocketAddr, mut opening: Opening) {
        let (nonce, cookie) = (opening.nonce, opening.cookie);
        let Some(token) = self.jar.verify(now, from, nonce, &cookie, opening.keys.is_some()) else {
            self.counters.forged += 1;
            let bytes = opening.encode(&Message::Refused { nonce, why: CallRefusal::Cookie });
            return self.answer(from, bytes);
        };
        if let Some(&id) = self.by_token.get(&token) {
            // Our answer was lost, or is on its way.
            if let Some(end) = self.ends.get_mut(&id)
                && let Some(accepted) = accepted(end, &self.config.clock)
            {
                end.say(&accepted);
                self.touch(id);
            }
            return;
        }
        // A copy of an old offer, or a caller that has not heard our refusal.
        if let Some(answer) = self.used.get_mut(token) {
            let Some(why) = answer.clone() else { return self.counters.forged += 1 };
            let bytes = opening.encode(&Message::Refused { nonce, why });
            return self.answer(from, bytes);
        }
        let sources = sources_of(opening.offer.sources);
        let served =
            self.ends.values().filter(|end| !end.is_caller && end.status() != CallStatus::Over).count();
        let guard = Guard::new(opening.offer.protection, opening.keys.as_ref(), self.config.cipher, || {
            MediaKeys::of_handshake(false, nonce, &cookie, token)
        });
        let refusal = if let Some(problem) = opening.offer.problem() {
            Some(CallRefusal::Offer(problem))
        } else if opening.offer.protection != self.config.protection {
            Some(CallRefusal::Protection(self.config.protection))
        } else if guard.is_none() {
            Some(CallRefusal::NoKeysToEncrypt)
        } else if served >= self.config.max_calls {
            Some(if self.config.once { CallRefusal::Once } else { CallRefusal::Full })
        } else if self.by_source.contains_key(&(from, sources)) {
            Some(CallRefusal::Sources)
        } else {
            None
        };
        let used = self.used.insert(now, from, (token, opening.keys.is_some()), refusal.clone());
        if let Some(why) = refusal.or(used.is_err().then_some(CallRefusal::Full)) {
            self.counters.refused += 1;
            let bytes = opening.encode(&Message::Refused { nonce, why });
            return self.answer(from, bytes);
        }
        let mut end = End::new(now, from, nonce, opening.offer, false);
        end.token = Some(token);
        end.keys = opening.keys;
        end.guard = guard;
        end.cookie = Some(cookie);
        end.same_clock = same_clock(&self.config.clock, &opening.clock, nonce, &cookie);
        end.next = now + self.config.open_timeout;
        let offer = end.offer.clone();
        let id = self.insert(end);
        self.by_token.insert(token, id);
        self.by_source.insert((from, sources), id);
        self.events.push_back(CallEvent::Offered { id, from, offer });
        self.touch(id);
    }
}

/// An offer that arrived.
struct Opening {
    nonce: u64,
    cookie: Cookie,
    offer: Box<Offer>,
    clock: ClockIdentity,
    /// The keys of the call, if the offer was authenticated.
    keys: Option<CallKeys>,
}

impl Opening {
    fn encode(&mut self, message: &Message) -> Vec<u8> {
        match &mut self.keys {
            Some(keys) => keys.seal(message),
            None => message.encode(),
        }
    }
}

/// The far end's clock less ours, if it is on this machine.
fn same_clock(ours: &LocalClock, theirs: &ClockIdentity, nonce: u64, cookie: &Cookie) -> Option<TimeDelta> {
    let origin = ours.origin_of(theirs, nonce, cookie)?;
    Some(Timestamp::from_nanos(ours.origin_monotonic_ns) - Timestamp::from_nanos(origin))
}
