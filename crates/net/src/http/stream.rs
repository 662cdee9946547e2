//! Streams: answers that are sent while they are made.

use std::{
    io::Write as _,
    net::TcpStream,
    os::fd::AsRawFd as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use nix::{
    errno::Errno,
    sys::socket::{MsgFlags, recv},
};

/// The client has gone away, or the server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client has gone away")]
pub struct Gone;

/// Where a stream goes. Several threads may use it; each part arrives whole.
#[derive(Debug)]
pub struct Sink {
    client: TcpStream,
    /// Held while a part is written.
    writing: Mutex<()>,
    gone: AtomicBool,
}

impl Sink {
    pub(super) fn new(client: TcpStream) -> Self {
        Self { client, writing: Mutex::default(), gone: AtomicBool::new(false) }
    }

    /// Sends a part. Waits while the client is slow, but never longer than the client is there.
    ///
    /// # Errors
    ///
    /// [`Gone`]: nobody reads any more.
    pub fn send(&self, part: impl AsRef<str>) -> Result<(), Gone> {
        // What it guards is the order of bytes, which a panic of another thread does not change.
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.client).write_all(part.as_ref().as_bytes()).map_err(|_| {
            self.gone.store(true, Relaxed);
            Gone
        })
    }

    /// Sends an event, called `name`, with `data`: any text without carriage returns.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub fn event(&self, name: &str, data: &str) -> Result<(), Gone> {
        let lines: String = data.split('\n').flat_map(|line| ["data: ", line, "\n"]).collect();
        self.send(format!("event: {name}\n{lines}\n"))
    }

    /// Whether nobody reads any more. It asks the system, in less than a microsecond: a computation may ask now and then.
    pub fn is_gone(&self) -> bool {
        if !self.gone.load(Relaxed) {
            let looked = recv(self.client.as_raw_fd(), &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
            let is_there = match looked {
                Ok(length) => length > 0,
                Err(error) => matches!(error, Errno::EAGAIN | Errno::EINTR),
            };
            self.gone.fetch_or(!is_there, Relaxed);
        }
        self.gone.load(Relaxed)
    }
}
