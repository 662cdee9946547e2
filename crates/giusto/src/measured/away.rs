//! Where this end was while a stream came to it: the far end knows nothing of an address or an interface that went away here, and goes on
//! sending.

use std::net::SocketAddr;

use giusto_net::UdpSocket;
use giusto_session::probe::Stream;
use giusto_units::{TimeDelta, Timestamp};

use crate::measured::result::{PathFigures, RunResult};

/// A stream that is silent for so long is a reason to look.
const SILENCE: TimeDelta = TimeDelta::from_millis(200);
/// The time between two looks.
const INTERVAL: TimeDelta = TimeDelta::from_millis(100);
/// An address that comes and goes without end leaves no more entries than this.
const MAX_FORMER: usize = 1000;

/// The addresses of this end, and what was lost while it had none.
#[derive(Debug, Default)]
pub(super) struct Absences {
    former: Vec<Former>,
    /// This end has been away, and nothing has arrived since.
    is_open: bool,
    look_at: Timestamp,
}

/// The time until this end went away.
#[derive(Debug, Clone, Copy)]
struct Former {
    ours: SocketAddr,
    until_s: f64,
    received: u64,
    lost: u64,
    away: u64,
}

impl Absences {
    /// Whether this end still has the address to which `stream` comes, and a route; `socket` is connected to its sender.
    pub(super) fn look(&mut self, now: Timestamp, socket: &UdpSocket, stream: &Stream) {
        let silence = stream.silence(now);
        if silence >= SILENCE && !self.is_open && now >= self.look_at {
            self.look_at = now + INTERVAL;
            let has_route = socket.peer().is_none_or(|to| UdpSocket::connected(to, socket.config()).is_ok());
            if !has_route || !socket.has_its_address() {
                self.begin(socket.local_addr(), stream);
            }
        }
        self.end(stream);
    }

    /// This end goes on at another address than `ours`.
    pub(super) fn on_move(&mut self, ours: SocketAddr, stream: &Stream) {
        if !self.is_open {
            self.begin(ours, stream);
        }
    }

    fn begin(&mut self, ours: SocketAddr, stream: &Stream) {
        let meter = stream.meter();
        let Some((first, last)) = meter.arrivals() else { return };
        if self.former.len() >= MAX_FORMER {
            return;
        }
        let (received, lost) = (meter.sequence().received(), meter.sequence().losses().lost);
        let until_s = (last - first).as_seconds();
        self.former.push(Former { ours, until_s, received, lost, away: 0 });
        self.is_open = true;
    }

    /// With the first arrival it is known what is missing.
    fn end(&mut self, stream: &Stream) {
        let sequence = stream.meter().sequence();
        if let Some(former) = self.former.last_mut().filter(|_| self.is_open)
            && sequence.received() > former.received
        {
            former.away = sequence.losses().lost.saturating_sub(former.lost);
            self.is_open = false;
        }
    }

    /// Adds the addresses of this end to the result of the stream, the last of which is `ours`.
    pub(super) fn add_to(&self, result: &mut RunResult, ours: SocketAddr) {
        if self.former.is_empty() {
            return;
        }
        let from = result.from.clone().unwrap_or_default();
        let (all, mut before) = (result.received_packets.unwrap_or(0), 0);
        let mut path = |ours: SocketAddr, until_s, received: u64, away_packets| PathFigures {
            from: from.clone(),
            to: Some(ours.to_string()),
            until_s,
            received_packets: received.saturating_sub(std::mem::replace(&mut before, received)),
            away_packets,
        };
        let former = self.former.iter();
        let mut paths: Vec<_> = former
            .map(|former| path(former.ours, Some(former.until_s), former.received, Some(former.away)))
            .collect();
        paths.push(path(ours, result.duration_s, all, None));
        result.paths = paths;
    }
}
