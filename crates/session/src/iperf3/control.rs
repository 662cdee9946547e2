//! What both ends of a control connection are.

use giusto_units::Timestamp;

/// One end of a control connection, without clock and socket.
pub trait Control {
    /// Handles bytes of the far end.
    fn handle_bytes(&mut self, now: Timestamp, bytes: &[u8]);

    /// The far end has closed the connection.
    fn handle_close(&mut self);

    /// Checks the deadlines.
    fn handle_timeout(&mut self, now: Timestamp);

    /// The next bytes for the far end.
    fn poll_transmit(&mut self) -> Option<Vec<u8>>;
}
