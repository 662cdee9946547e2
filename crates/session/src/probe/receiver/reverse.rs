//! Streams in the reverse direction: who asked for one, and where its address has changed, how it asks again.
//!
//! Who asked proves its new address as it proved the first one: Hello, Challenge, Open. The Open has the nonce of the first, and asks for
//! no datagrams: to a receiver that does not know the stream it is a stream without any.

use std::net::SocketAddr;

use giusto_units::Timestamp;

use super::{Receiver, ReceiverEvent};
use crate::{
    Session,
    probe::{
        Sender, SenderConfig,
        inbound::Inbound,
        transmit::Transmit,
        wire::{Kind, Message, Refusal, Sealed, StreamRequest, StreamToken, kind},
    },
};

/// A stream that this end sends because it was asked to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) token: StreamToken,
    pub(super) nonce: u64,
    pub(super) authenticated: bool,
}

/// A request that is made again, from another address.
#[derive(Debug)]
pub(super) struct Again {
    to: SocketAddr,
    nonce: u64,
    sender: Sender,
}

impl Again {
    fn is_answer(&self, from: SocketAddr, datagram: &[u8]) -> bool {
        let message = || match kind(datagram).ok()? {
            Kind::Control => Message::decode(datagram).ok(),
            Kind::SealedControl => Sealed::parse(datagram).ok()?.message().ok(),
            _ => None,
        };
        from == self.to
            && matches!(
                message(),
                Some(
                    Message::Challenge { nonce, .. }
                        | Message::Accepted { nonce, .. }
                        | Message::Refused { nonce, .. }
                ) if nonce == self.nonce
            )
    }
}

/// Whether it only says where a stream goes on.
pub(super) fn moves(request: &StreamRequest) -> bool {
    request.reverse.is_some() && request.packets == Some(0)
}

impl Receiver {
    /// Asks `to` again for the stream that it sends here, from the address that this end has now. `config` is that of the first request.
    pub fn ask_again(&mut self, now: Timestamp, to: SocketAddr, config: SenderConfig) {
        self.latest = self.latest.max(now);
        let nonce = config.nonce;
        let request = StreamRequest { packets: Some(0), ..config.request };
        let sender = Sender::new(now, SenderConfig { request, ..config });
        self.again = Some(Again { to, nonce, sender });
        self.drive_again(now);
    }

    /// Takes an answer to a request that was made again; false if it is none.
    pub(super) fn takes_answer(&mut self, now: Timestamp, datagram: &[u8], inbound: &Inbound<'_>) -> bool {
        let Some(again) = self.again.as_mut().filter(|again| again.is_answer(inbound.from, datagram)) else {
            return false;
        };
        again.sender.handle_datagram(now, datagram, inbound.at);
        self.drive_again(now);
        true
    }

    pub(super) fn drive_again(&mut self, now: Timestamp) {
        let Some(again) = &mut self.again else { return };
        if again.sender.poll_timeout().is_some_and(|at| at <= now) {
            again.sender.handle_timeout(now);
        }
        // Once it is accepted, refused or given up there is nothing to say.
        if !again.sender.opening() {
            self.again = None;
            return;
        }
        while let Some(bytes) = again.sender.poll_transmit(now) {
            self.outbox.push_back(Transmit { to: again.to, bytes });
        }
    }

    pub(super) fn again_at(&self) -> Option<Timestamp> {
        self.again.as_ref().and_then(|again| again.sender.poll_timeout())
    }

    /// Who asked for a stream has proved that it is at `from`. Returns whether it is moved or refused; `None`: nothing is said.
    pub(super) fn move_reverse(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        asked: Asked,
    ) -> Option<Result<(), Refusal>> {
        let is_it = |(_, known): &(&SocketAddr, &Asked)| {
            (known.nonce, known.authenticated) == (asked.nonce, asked.authenticated)
        };
        let known = self.reverse.iter().find(is_it).map(|(home, known)| (*home, known.token));
        let is_taken = |home| home != from && self.reverse.contains_key(&from);
        let Some((home, before)) = known.filter(|(home, _)| !is_taken(*home)) else {
            self.counters.refused += 1;
            return Some(Err(Refusal::Reverse));
        };
        // Otherwise our answer was lost. A cookie moves a stream once: a copy of an old Open moves it nowhere.
        if before != asked.token {
            if self.used.get_mut(asked.token).is_some() {
                self.counters.late += 1;
                return None;
            }
            if self.use_up(now, from, (asked.token, asked.authenticated)).is_err() {
                self.counters.refused += 1;
                return None;
            }
            self.reverse.remove(&home);
            self.reverse.insert(from, asked);
        }
        if home != from {
            self.events.push_back(ReceiverEvent::ReverseMoved { from: home, to: from });
        }
        Some(Ok(()))
    }
}
