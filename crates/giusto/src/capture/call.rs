//! A capture of the datagrams of calls, for [`CallSettings`](crate::call::CallSettings).

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use giusto_net::{Clock, SocketConfig, UdpSocket, driver::Tap};
use giusto_session::call::{Protection, SEAL_TRAILER_BYTES};
use giusto_units::{Ecn, Timestamp};

use super::pcapng::{Capture, Direction, UdpDatagram};
use crate::whole_file::WriteError;

/// The first bytes of RTP and RTCP (RFC 7983 §7).
const MEDIA: std::ops::RangeInclusive<u8> = 128..=191;
/// Far ends whose local address is remembered.
const MAX_FAR_ENDS: usize = 1024;
const MESSAGE: &str = "giusto: a message of the call, neither RTP nor RTCP";

/// All datagrams of one end's socket, as pcapng.
///
/// The number and the MAC at the end of an authenticated RTP or RTCP packet are left out, because RTCP has no place for them; a
/// comment says so; encrypted ones are left as they are. The messages that open, keep and end a call are no RTP, and have a comment too.
#[derive(Debug, Clone)]
pub struct CallCapture(Arc<Mutex<Option<Capture>>>);

impl CallCapture {
    /// Begins a capture of at most 4 GB at `path`.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        Ok(Self(Arc::new(Mutex::new(Some(Capture::create(path, "call", 0)?)))))
    }

    /// Completes the file. Returns its path, and what is to be said about it, if anything; `None` at the second call. What is
    /// sent afterwards is not captured.
    ///
    /// # Errors
    ///
    /// [`WriteError`] of the first failure since the beginning.
    pub fn finish(&self) -> Result<Option<(PathBuf, Option<String>)>, WriteError> {
        let capture = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        capture.map(Capture::finish).transpose()
    }

    /// What shows the datagrams of a socket at `own`, on `clock`, to this capture.
    pub(crate) fn tap(&self, own: SocketAddr, clock: Clock, protection: Protection) -> Box<dyn Tap> {
        if let Some(capture) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            capture.set_zero(clock.origin_realtime_nanos());
        }
        let sealed = protection == Protection::Authenticated;
        Box::new(SocketTap { capture: self.clone(), own, sealed, routes: BTreeMap::new() })
    }
}

/// The datagrams of one socket.
#[derive(Debug)]
struct SocketTap {
    capture: CallCapture,
    own: SocketAddr,
    sealed: bool,
    /// The local address towards each far end.
    routes: BTreeMap<IpAddr, IpAddr>,
}

impl SocketTap {
    /// Our address towards `far`: that of the socket, or the one that the system selects by its routes.
    fn own_towards(&mut self, far: SocketAddr) -> SocketAddr {
        if !self.own.ip().is_unspecified() {
            return self.own;
        }
        let known = self.routes.get(&far.ip()).copied();
        let address = known.unwrap_or_else(|| {
            // Connecting a UDP socket sends nothing.
            let found = UdpSocket::connected(far, &SocketConfig::default());
            let address = found.map_or(self.own.ip(), |socket| socket.local_addr().ip().to_canonical());
            if self.routes.len() < MAX_FAR_ENDS {
                self.routes.insert(far.ip(), address);
            }
            address
        });
        SocketAddr::new(address, self.own.port())
    }

    fn write(&mut self, at: Timestamp, direction: Direction, far: SocketAddr, bytes: &[u8], ecn: Ecn) {
        let own = self.own_towards(far);
        let (source, destination) = if direction == Direction::Outbound { (own, far) } else { (far, own) };
        let is_media = bytes.first().is_some_and(|first| MEDIA.contains(first));
        let (head, comment) = match is_media {
            false => (bytes, Some(MESSAGE.to_owned())),
            true if self.sealed => {
                let whole = bytes.len().saturating_sub(SEAL_TRAILER_BYTES);
                let left_out = format!("giusto: without its number and MAC, {SEAL_TRAILER_BYTES} bytes");
                (bytes.get(..whole).unwrap_or_default(), Some(left_out))
            }
            true => (bytes, None),
        };
        let datagram = UdpDatagram { source, destination, ecn, head, payload: &[] };
        let mut capture = self.capture.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(capture) = capture.as_mut() {
            capture.commented_packet(at, direction, &datagram, comment.as_deref());
        }
    }
}

impl Tap for SocketTap {
    fn on_received(&mut self, at: Timestamp, from: SocketAddr, bytes: &[u8], ecn: Ecn) {
        self.write(at, Direction::Inbound, from, bytes, ecn);
    }

    fn on_sent(&mut self, at: Timestamp, to: SocketAddr, bytes: &[u8], ecn: Ecn) {
        self.write(at, Direction::Outbound, to, bytes, ecn);
    }
}
