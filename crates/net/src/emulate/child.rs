//! A program in a network namespace, and its end.

use std::{
    fs, io,
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

    /// Whether the process, or one that it started, has a UDP socket or listens for TCP. Call it in a thread of its namespace.
    pub fn listens(&self) -> bool {
        let mut sockets = Vec::new();
        sockets_of(self.child.id(), &mut sockets, 0);
        ["tcp", "tcp6", "udp", "udp6"].iter().any(|table| {
            let text = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
            text.lines().skip(1).any(|line| {
                let mut words = line.split_whitespace();
                let (state, inode) = (words.nth(3), words.nth(5));
                (table.starts_with("udp") || state == Some(LISTEN))
                    && inode.is_some_and(|inode| sockets.iter().any(|own| own == inode))
            })
        })
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

/// The state of a listening socket in `/proc/net/tcp`: `TCP_LISTEN` of the kernel.
const LISTEN: &str = "0A";

/// The inodes of the sockets of a process and of those that it started.
fn sockets_of(id: u32, sockets: &mut Vec<String>, depth: u32) {
    const DEEPEST: u32 = 8;
    let links = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
    let names = links.filter_map(|link| fs::read_link(link.path()).ok()?.into_os_string().into_string().ok());
    let inode = |name: String| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    sockets.extend(names.filter_map(inode));
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    for child in children.split_whitespace().filter_map(|id| id.parse().ok()).filter(|_| depth < DEEPEST) {
        sockets_of(child, sockets, depth + 1);
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // Where it has ended by itself, both calls do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
