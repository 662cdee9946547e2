//! State that the threads of a relay share.

use std::{
    io,
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicU64},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::socket::{SocketError, UdpSocket};

/// Maximum time between two checks of the stop flag: half of the permitted time to stop.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// Error of starting a relay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The TCP port is not available.
    #[error("relay: cannot listen for TCP at 127.0.0.1:{port}: {source}")]
    Listen {
        /// The requested port.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
    /// The UDP port is not available.
    #[error("relay: {0}")]
    Socket(#[from] SocketError),
    /// A thread could not be started.
    #[error("relay: cannot start a thread: {source}")]
    Thread {
        /// The system's error.
        source: io::Error,
    },
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) observed: AtomicU64,
    pub(super) to_server: AtomicU64,
    pub(super) to_client: AtomicU64,
    pub(super) unforwarded: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) refused_connections: AtomicU64,
}

/// The shared state of a relay's threads.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    pub(super) target: SocketAddr,
    pub(super) connect_timeout: Duration,
    pub(super) counters: Counters,
    pub(super) listener: UdpSocket,
}

pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, RelayError> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|source| RelayError::Thread { source })
}
