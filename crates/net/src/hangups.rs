//! SIGHUP as a request to read a configuration again.

use std::io;

use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};

/// The requests by SIGHUP, which no longer ends this program.
///
/// Begin before other threads are started: they inherit that the signal waits.
#[derive(Debug)]
pub struct Hangups(SignalFd);

impl Hangups {
    /// Lets the signal wait in this thread and in those that it starts from now on.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn block() -> io::Result<Self> {
        let mask = SigSet::from(Signal::SIGHUP);
        mask.thread_block()?;
        Ok(Self(SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// Whether a signal has come since the last call.
    pub fn take(&self) -> bool {
        matches!(self.0.read_signal(), Ok(Some(_)))
    }
}
