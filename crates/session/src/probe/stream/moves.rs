//! Streams that come from another address than before.

use std::net::SocketAddr;

use giusto_units::Timestamp;

use super::{DataHeader, Stream};

/// A sender that moves without end leaves no more addresses than this.
const MAX_FORMER: usize = 1000;

/// A measured datagram that has not been counted yet.
#[derive(Debug, Clone, Copy)]
pub(in crate::probe) struct Held {
    pub(in crate::probe) header: DataHeader,
    pub(in crate::probe) length: usize,
    pub(in crate::probe) at: Timestamp,
    pub(in crate::probe) tos: Option<u8>,
}

/// An address from which a stream came for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPath {
    /// The address.
    pub from: SocketAddr,
    /// The last arrival from there.
    pub until: Timestamp,
    /// Datagrams of the stream that had arrived when it moved on, from this address and those before.
    pub received_packets: u64,
}

impl Stream {
    /// Measures datagrams that came from an address before it had proved itself.
    pub(in crate::probe) fn measure_held(&mut self, held: impl IntoIterator<Item = Held>) {
        let (packets, bytes) = (self.meter.sequence().received(), self.meter.received_bytes());
        let mut latest = self.last_heard;
        for held in held {
            if held.header.sequence < self.plausible_below || self.is_plausible(held.header.sequence, held.at)
            {
                self.meter.on_arrival(&self.arrival(&held));
                latest = latest.max(held.at);
            } else {
                self.meter.on_implausible();
            }
        }
        if self.meter.sequence().received() > packets {
            self.last_heard = latest;
            self.usage.add(latest, self.meter.received_bytes().saturating_sub(bytes));
        }
    }

    /// The stream goes on at another address.
    pub(in crate::probe) fn move_to(&mut self, now: Timestamp, from: SocketAddr) {
        self.former.push(StreamPath {
            from: self.from,
            until: self.last_heard,
            received_packets: self.meter.sequence().received(),
        });
        if self.former.len() > MAX_FORMER {
            self.former.remove(0);
        }
        self.from = from;
        self.last_heard = self.last_heard.max(now);
    }

    /// Whether the stream came from this address before.
    pub(in crate::probe) fn has_proved(&self, from: SocketAddr) -> bool {
        self.former.iter().any(|path| path.from == from)
    }

    /// The addresses from which it came before the present one.
    pub fn former_paths(&self) -> &[StreamPath] {
        &self.former
    }
}
