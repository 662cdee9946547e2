//! Connected sockets whose local address goes away: they connect again, from the address that the system has now.

use giusto_units::{TimeDelta, Timestamp};

use crate::UdpSocket;

/// The far end has been silent for so long: more than two intervals of Pings.
const SILENCE: TimeDelta = TimeDelta::from_millis(600);
/// After so long, the address that the system would choose now is tried although the former one is still there.
pub const LONG_SILENCE: TimeDelta = TimeDelta::from_millis(1_500);
/// The time between two looks.
const INTERVAL: TimeDelta = TimeDelta::from_millis(200);

/// Keeps one socket connected.
#[derive(Debug, Clone, Copy, Default)]
pub struct Roam {
    look_at: Timestamp,
}

impl Roam {
    /// Connects `socket` again if it must be; `silence` is how long the far end has been silent. Returns whether it did.
    pub fn look(&mut self, now: Timestamp, socket: &UdpSocket, silence: TimeDelta) -> bool {
        // An address that was asked for is not exchanged for another one.
        if silence < SILENCE || now < self.look_at || socket.config().path.source.is_some() {
            return false;
        }
        self.look_at = now + INTERVAL;
        let (Some(peer), ours) = (socket.peer(), socket.local_addr().ip()) else { return false };
        // The address that the system chooses now; without one, there is no route, and nothing to do.
        let Ok(now_ours) = UdpSocket::connected(peer, socket.config()).map(|fresh| fresh.local_addr().ip())
        else {
            return false;
        };
        let is_stranded = now_ours != ours && (silence >= LONG_SILENCE || !socket.has_its_address());
        is_stranded && socket.reconnect(peer).is_ok()
    }
}
