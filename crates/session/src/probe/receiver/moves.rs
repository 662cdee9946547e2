//! Streams whose sender's address changes: the new one proves that it receives, as in QUIC's path validation (RFC 9000 §8.2).

use std::net::SocketAddr;

use giusto_units::{TimeDelta, Timestamp};

use super::{Receiver, ReceiverEvent, encode};
use crate::probe::{
    inbound::Inbound,
    stream::{Held, Stream},
    transmit::Transmit,
    wire::{self, Cookie, DataHeader, Message, StreamToken},
};

/// Addresses that are asked for a proof at the same time.
const MAX_MOVES: usize = 64;
/// Datagrams that are kept until their address has proved itself: 0.1 s of 10,000 a second.
const MAX_HELD: usize = 1024;
/// The time between two requests to one address.
const RETRY: TimeDelta = TimeDelta::from_millis(50);
/// How long a proof is awaited: as long as QUIC's PTO would permit on a bad path (RFC 9000 §8.2.4 takes three).
const PATIENCE: TimeDelta = TimeDelta::from_seconds(3);

/// An address that is to prove itself.
#[derive(Debug)]
pub(super) struct Move {
    token: StreamToken,
    ask_at: Timestamp,
    forget_at: Timestamp,
    held: Vec<Held>,
}

impl Receiver {
    /// Handles a measured datagram from an address without this stream; false if it belongs to no stream.
    pub(super) fn handle_moving_data(
        &mut self,
        now: Timestamp,
        token: StreamToken,
        datagram: &[u8],
        inbound: &Inbound<'_>,
    ) -> bool {
        let from = inbound.from;
        let Some(stream) = self.stream_elsewhere(from, token) else { return false };
        let header = match &stream.keys {
            Some(keys) => DataHeader::open(datagram, &keys.to_receiver),
            None => DataHeader::parse(datagram),
        };
        let Ok(header) = header else { return false };
        let held = Held { header, length: datagram.len(), at: inbound.at, tos: inbound.tos };
        let is_behind = stream.meter().sequence().highest().is_some_and(|highest| header.sequence < highest);
        if is_behind && stream.has_proved(from) {
            // It was on the way when the stream moved.
            stream.measure_held([held]);
            return true;
        }
        if !self.ask_for_proof(now, token, datagram.len(), from) {
            return false;
        }
        match self.moves.get_mut(&from) {
            Some(moving) if moving.held.len() < MAX_HELD => moving.held.push(held),
            _ => self.counters.forged += 1,
        }
        true
    }

    /// Asks an address from which a message or a datagram of a stream came, but not the stream itself, to prove itself: with no more
    /// bytes than came. False if there is no such stream.
    pub(super) fn ask_for_proof(
        &mut self,
        now: Timestamp,
        token: StreamToken,
        length: usize,
        from: SocketAddr,
    ) -> bool {
        // An address has one stream.
        if self.streams.contains_key(&from) || self.stream_elsewhere(from, token).is_none() {
            return false;
        }
        let is_known = self.moves.get(&from).is_some_and(|moving| moving.token == token);
        if !is_known {
            if self.moves.len() >= MAX_MOVES {
                return false;
            }
            self.forget_move(from);
            let moving = Move { token, ask_at: now, forget_at: now + PATIENCE, held: Vec::new() };
            self.moves.insert(from, moving);
        }
        let Some(moving) = self.moves.get_mut(&from).filter(|moving| now >= moving.ask_at) else {
            return true;
        };
        let home = self.homes.get(&token).copied();
        let Some((_, stream)) = home.and_then(|home| self.streams.get_mut(&home)) else { return false };
        let cookie = self.jar.issue(now, from, token.0);
        let bytes = encode(stream, &Message::PathProbe { token, cookie });
        if bytes.len() <= length {
            moving.ask_at = now + RETRY;
            self.outbox.push_back(Transmit { to: from, bytes });
        }
        true
    }

    /// Handles a proof: the stream goes on at the address from which it came.
    pub(super) fn handle_proof(
        &mut self,
        now: Timestamp,
        token: StreamToken,
        cookie: &Cookie,
        from: SocketAddr,
    ) {
        let is_proved = self.jar.verify(now, from, token.0, cookie, false).is_some();
        if self.stream_elsewhere(from, token).is_none() {
            // A copy, or of a stream that has ended.
            self.counters.late += u64::from(is_proved);
            self.counters.forged += u64::from(!is_proved);
            return;
        }
        if !is_proved || self.streams.contains_key(&from) {
            self.counters.forged += 1;
            return;
        }
        let Some(home) = self.homes.insert(token, from) else { return };
        let Some((id, mut stream)) = self.streams.remove(&home) else { return };
        stream.move_to(now, from);
        if let Some(moving) = self.moves.remove(&from) {
            stream.measure_held(moving.held);
        }
        self.streams.insert(from, (id, stream));
        self.events.push_back(ReceiverEvent::Moved(id));
    }

    /// Forgets addresses that have not proved themselves: what came from them is of no stream.
    pub(super) fn forget_moves(&mut self, now: Timestamp) {
        let over = |(from, moving): (&SocketAddr, &Move)| (moving.forget_at <= now).then_some(*from);
        let over: Vec<_> = self.moves.iter().filter_map(over).collect();
        for from in over {
            self.forget_move(from);
        }
    }

    fn forget_move(&mut self, from: SocketAddr) {
        if let Some(moving) = self.moves.remove(&from) {
            self.counters.forged += moving.held.len() as u64;
        }
    }

    /// The stream with this token, if its address is another one.
    pub(super) fn stream_elsewhere(&mut self, from: SocketAddr, token: StreamToken) -> Option<&mut Stream> {
        let home = self.homes.get(&token).filter(|home| **home != from && !self.config.group)?;
        let (_, stream) = self.streams.get_mut(home)?;
        (stream.token == Some(token)).then_some(stream)
    }
}

/// The token in a measured datagram that has not been verified.
pub(super) fn token_of(datagram: &[u8]) -> Option<StreamToken> {
    let bytes = datagram.get(4..12)?.try_into().ok()?;
    wire::kind(datagram).ok().map(|_| StreamToken(u64::from_be_bytes(bytes)))
}
