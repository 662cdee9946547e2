//! What a call asks of its media.

use giusto_units::{DataSize, Ecn, TimeDelta, Timestamp};

use super::messages::EndFigures;
use crate::media::{Datagram, MediaEndpoint};

/// The media of one end of a call. All times count from the beginning of the call at this end.
///
/// As for a [`MediaEndpoint`]: after each `handle_` call, `poll_transmit` is called until it returns `None`, then `poll_timeout`.
pub trait CallMedia {
    /// Handles a received RTP or RTCP datagram.
    fn handle_datagram(&mut self, now: Timestamp, bytes: &[u8], ecn: Ecn);

    /// Handles the deadline of [`poll_timeout`](Self::poll_timeout).
    fn handle_timeout(&mut self, now: Timestamp);

    /// The next datagram to send at once, if any.
    fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram>;

    /// Time at which [`handle_timeout`](Self::handle_timeout) must be called next.
    fn poll_timeout(&self) -> Option<Timestamp>;

    /// The address of one end has changed, and with it the route.
    fn on_route_change(&mut self, now: Timestamp);

    /// The relation of the two ends' clocks was estimated again: `correction` is to be added to the difference of a time of this
    /// end and one of the far end, both counted from the beginning of the call there. The default ignores it.
    fn on_clock(&mut self, correction: TimeDelta) {
        let _ = correction;
    }

    /// A round-trip time was measured. The default ignores it.
    fn on_rtt(&mut self, now: Timestamp, rtt: TimeDelta) {
        let _ = (now, rtt);
    }

    /// The system of this end did not take a datagram of [`poll_transmit`](Self::poll_transmit) whose second byte is `kind`. The far end
    /// misses it, but the path did not lose it. The default ignores it.
    fn on_unsent(&mut self, now: Timestamp, kind: u8, size: DataSize) {
        let _ = (now, kind, size);
    }

    /// A datagram whose second byte is `kind` has arrived again. Only the first of them is [handled](Self::handle_datagram). Datagrams of a
    /// call that is encrypted, or not protected at all, are not looked at for this. The default ignores it.
    fn on_copy(&mut self, kind: u8) {
        let _ = kind;
    }

    /// Takes no more frames. What is queued is still sent, until [`is_sent`](Self::is_sent). The default does nothing.
    fn close(&mut self) {}

    /// Whether nothing is queued. The default says so.
    fn is_sent(&self, now: Timestamp) -> bool {
        let _ = now;
        true
    }

    /// Stops sending media, with a BYE.
    fn stop(&mut self, now: Timestamp);

    /// The figures that the far end gets at the end. The default has none.
    fn figures(&self, now: Timestamp) -> EndFigures {
        let _ = now;
        EndFigures::default()
    }
}

impl CallMedia for MediaEndpoint {
    fn handle_datagram(&mut self, now: Timestamp, bytes: &[u8], ecn: Ecn) {
        Self::handle_datagram(self, now, bytes, ecn);
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        Self::handle_timeout(self, now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram> {
        Self::poll_transmit(self, now)
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        Self::poll_timeout(self)
    }

    fn on_route_change(&mut self, now: Timestamp) {
        if let Some(sender) = self.sender_mut() {
            sender.on_route_change(now);
        }
    }

    fn close(&mut self) {
        if let Some(sender) = self.sender_mut() {
            sender.close();
        }
    }

    fn is_sent(&self, now: Timestamp) -> bool {
        self.sender().is_none_or(|sender| sender.queue(now).size == DataSize::ZERO)
    }

    fn stop(&mut self, now: Timestamp) {
        Self::stop(self, now);
    }
}
