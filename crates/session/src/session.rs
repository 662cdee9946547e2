//! What one end of a measured session is: its messages and its state machine, without clock and socket.

use giusto_units::Timestamp;

/// One end of a session whose socket is connected to the far end.
///
/// Pass every received datagram to [`handle_datagram`](Self::handle_datagram). After it, and at the time of
/// [`poll_timeout`](Self::poll_timeout), call [`handle_timeout`](Self::handle_timeout) and send the datagrams of
/// [`poll_transmit`](Self::poll_transmit). Calls in any order
/// are safe, and each does bounded work. A new protocol implements this; `giusto_net::driver::Driver` runs it.
pub trait Session {
    /// Handles a received datagram; `at` is its arrival time.
    fn handle_datagram(&mut self, now: Timestamp, datagram: &[u8], at: Timestamp);

    /// Handles "port unreachable" messages of the far host, so many since the last call. Default: nothing.
    fn handle_unreachable(&mut self, now: Timestamp, messages: u64) {
        let _ = (now, messages);
    }

    /// Does what is due. Default: nothing.
    fn handle_timeout(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// The next datagram for the far end, which is sent now. Default: none.
    fn poll_transmit(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        let _ = now;
        None
    }

    /// Time at which something is due, for [`handle_timeout`](Self::handle_timeout) or to send; `None` if nothing will be due. Default: `None`.
    fn poll_timeout(&self) -> Option<Timestamp> {
        None
    }
}
