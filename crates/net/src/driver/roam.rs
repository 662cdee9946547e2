//! Connected sockets whose local address goes away: they connect again, from the address that the system has now. And to where the name of
//! a silent far end leads now.

use std::net::SocketAddr;

use giusto_units::{TimeDelta, Timestamp};

use super::{Resolver, resolve::Question};
use crate::UdpSocket;

/// The far end has been silent for so long: more than two intervals of Pings.
const SILENCE: TimeDelta = TimeDelta::from_millis(600);
/// After so long, the address that the system would choose now is tried although the former one is still there.
pub const LONG_SILENCE: TimeDelta = TimeDelta::from_millis(1_500);
/// The time between two looks.
const INTERVAL: TimeDelta = TimeDelta::from_millis(200);

/// Keeps one socket connected.
#[derive(Debug, Clone, Default)]
pub struct Roam {
    look_at: Timestamp,
    /// How the far end is found again.
    question: Option<Question>,
    /// Where the far end has moved, this end stays at its port: it would answer what still comes there by "port unreachable".
    keeps_port: bool,
}

impl Roam {
    /// Resolves the name of the far end again while this is silent: where it has moved, the socket follows.
    pub fn with_resolver(resolver: Option<Resolver>) -> Self {
        Self { keeps_port: true, ..Self::asking(resolver.map(Question::new)) }
    }

    /// The same for a stream whose receiver is to see the move, and prove the path.
    pub(super) fn asking(question: Option<Question>) -> Self {
        Self { look_at: Timestamp::ZERO, question, keeps_port: false }
    }

    /// Connects `socket` again if it must be; `silence` is how long the far end has been silent. Returns whether it did.
    pub fn look(&mut self, now: Timestamp, socket: &UdpSocket, silence: TimeDelta) -> bool {
        if silence < SILENCE || now < self.look_at {
            return false;
        }
        self.look_at = now + INTERVAL;
        let Some(peer) = socket.peer() else { return false };
        if Self::changes_address(socket, peer, silence) {
            return socket.reconnect(peer).is_ok();
        }
        let another = self.question.as_ref().and_then(|question| question.another(now, peer));
        // Where there is no route, the next look may find one.
        another.is_some_and(|another| {
            let moved = if self.keeps_port { socket.redirect(another) } else { socket.reconnect(another) };
            moved.is_ok()
        })
    }

    /// Where a far end that has been silent for so long is now, if its name leads elsewhere; `peer` is where it was.
    pub fn elsewhere(&mut self, now: Timestamp, peer: SocketAddr, silence: TimeDelta) -> Option<SocketAddr> {
        if silence < SILENCE || now < self.look_at {
            return None;
        }
        self.look_at = now + INTERVAL;
        self.question.as_ref()?.another(now, peer)
    }

    /// Whether the system would choose another local address now.
    fn changes_address(socket: &UdpSocket, peer: SocketAddr, silence: TimeDelta) -> bool {
        // An address that was asked for is not exchanged for another one.
        if socket.config().path.source.is_some() {
            return false;
        }
        let ours = socket.local_addr().ip();
        // Without one, there is no route, and nothing to do.
        let Ok(now_ours) = UdpSocket::connected(peer, socket.config()).map(|fresh| fresh.local_addr().ip())
        else {
            return false;
        };
        now_ours != ours && (silence >= LONG_SILENCE || !socket.has_its_address())
    }
}
