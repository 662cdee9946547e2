//! A program in a network namespace, and its end.

use std::{
    io,
    process::{Child, Command, ExitStatus},
};

use giusto_units::{TimeDelta, Timestamp};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::namespace::{Namespace, NamespaceError};

/// A child process that is asked to end with SIGTERM and, if it does not, killed. Dropping it kills it.
#[derive(Debug)]
pub struct Supervised {
    child: Child,
    /// When SIGTERM and SIGKILL are due, once the end was asked for.
    ending: Option<(Timestamp, Timestamp)>,
    status: Option<ExitStatus>,
}

impl Supervised {
    /// The time after which a process that was asked to end is killed.
    pub const PATIENCE: TimeDelta = TimeDelta::from_millis(5_000);

    /// Starts `command`, in `namespace` if there is one.
    ///
    /// # Errors
    ///
    /// The system's error: such as [`io::ErrorKind::NotFound`] for an unknown program.
    pub fn start(namespace: Option<&Namespace>, mut command: Command) -> io::Result<Self> {
        let child = match namespace {
            // A process is born in the namespace of the thread that starts it.
            Some(namespace) => {
                let ended = |error: NamespaceError| io::Error::other(error.to_string());
                namespace.run(move || command.spawn()).map_err(ended)??
            }
            None => command.spawn()?,
        };
        Ok(Self { child, ending: None, status: None })
    }

    /// Asks the process to end, after `grace`: a process that gets Ctrl-C from the terminal itself may need a moment. Further calls
    /// change nothing.
    pub fn end(&mut self, now: Timestamp, grace: TimeDelta) {
        self.ending.get_or_insert((now + grace, now + grace + Self::PATIENCE));
    }

    /// Its exit status, once it has ended. Sends the signals that are due.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn poll(&mut self, now: Timestamp) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        if self.status.is_some() {
            return Ok(self.status);
        }
        if let Some((terminate_at, kill_at)) = &mut self.ending {
            if now >= *kill_at {
                self.child.kill()?;
            } else if now >= *terminate_at {
                *terminate_at = Timestamp::MAX;
                // Until it is reaped, its id belongs to no other process.
                kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM)?;
            }
        }
        Ok(None)
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // Where it has ended by itself, both calls do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
