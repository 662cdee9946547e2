//! A program in a network namespace, and its end.

use std::{
    fs, io,
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus},
};

use giusto_units::{TimeDelta, Timestamp};
use nix::{
    errno::Errno,
    sys::{
        signal::{SigSet, SigmaskHow, Signal},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp},
};

use super::namespace::{Namespace, NamespaceError};
use crate::group::ProcessGroup;

/// A program with all that it starts, which is asked to end with SIGTERM and, if it does not, killed. Dropping it kills it.
#[derive(Debug)]
pub struct Supervised {
    group: ProcessGroup,
    /// The terminal is the program's.
    terminal: Option<Foreground>,
    had_terminal: bool,
    /// When SIGTERM and SIGKILL are due, once the end was asked for.
    ending: Option<(Timestamp, Timestamp)>,
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
        let group = match namespace {
            // A process is born in the namespace of the thread that starts it.
            Some(namespace) => {
                let ended = |error: NamespaceError| io::Error::other(error.to_string());
                namespace.run(move || ProcessGroup::start(&mut command)).map_err(ended)??
            }
            None => ProcessGroup::start(&mut command)?,
        };
        Ok(Self { group, terminal: None, had_terminal: false, ending: None })
    }

    /// Gives it the terminal of standard input, if that is ours, until it has ended: it reads from there, and Ctrl-C ends it.
    pub fn take_terminal(&mut self) {
        self.terminal = Foreground::give(self.group.id());
        self.had_terminal = self.terminal.is_some();
        // It may have read already, which stops a process that does not have the terminal.
        self.group.signal(Signal::SIGCONT);
    }

    /// Whether Ctrl-C at its terminal has ended the program.
    pub fn was_interrupted(&mut self) -> bool {
        let by = |status: ExitStatus| status.signal() == Some(Signal::SIGINT as i32);
        self.had_terminal && self.group.poll().ok().flatten().is_some_and(by)
    }

    /// Whether the process, or one that it started, has a UDP socket or listens for TCP. Call it in a thread of its namespace.
    pub fn listens(&self) -> bool {
        let mut sockets = Vec::new();
        sockets_of(self.group.id().as_raw(), &mut sockets, 0);
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

    /// Asks the program, and what it started, to end from now on. Further calls change nothing.
    pub fn end(&mut self, now: Timestamp) {
        self.ending.get_or_insert((now, now + Self::PATIENCE));
    }

    /// Its exit status, once the program has ended. Sends the signals that are due.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn poll(&mut self, now: Timestamp) -> io::Result<Option<ExitStatus>> {
        let status = self.group.poll()?;
        if status.is_some() {
            self.terminal = None;
        } else if self.terminal.is_some() {
            self.go_on();
        }
        if self.group.is_gone()? {
            return Ok(status);
        }
        if let Some((terminate_at, kill_at)) = &mut self.ending {
            if now >= *kill_at {
                return self.group.kill().map(Some);
            }
            if now >= *terminate_at {
                *terminate_at = Timestamp::MAX;
                self.group.terminate();
            }
        }
        Ok(status)
    }

    /// Whether the program and all that it started have ended.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn is_gone(&mut self) -> io::Result<bool> {
        self.group.is_gone()
    }

    /// Continues a program that Ctrl-Z has stopped: nobody else could.
    fn go_on(&mut self) {
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        if let Ok(WaitStatus::Stopped(_, Signal::SIGTSTP)) = waitid(Id::Pid(self.group.id()), flags) {
            self.group.signal(Signal::SIGCONT);
        }
    }
}

/// The terminal of standard input, in the hands of another process group. It comes back when this is dropped.
#[derive(Debug)]
struct Foreground {
    ours: Pid,
}

impl Foreground {
    /// `None` if standard input is no terminal, or not ours.
    fn give(group: Pid) -> Option<Self> {
        let ours = getpgrp();
        (tcgetpgrp(io::stdin()) == Ok(ours) && set_foreground(group).is_ok()).then_some(Self { ours })
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        // It fails only where the terminal is gone.
        let _ = set_foreground(self.ours);
    }
}

fn set_foreground(group: Pid) -> Result<(), Errno> {
    // It stops a process in the background that changes the terminal.
    let mut masked = SigSet::empty();
    masked.add(Signal::SIGTTOU);
    let before = masked.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let set = tcsetpgrp(io::stdin(), group);
    before.thread_set_mask()?;
    set
}

/// The state of a listening socket in `/proc/net/tcp`: `TCP_LISTEN` of the kernel.
const LISTEN: &str = "0A";

/// The inodes of the sockets of a process and of those that it started.
fn sockets_of(id: i32, sockets: &mut Vec<String>, depth: u32) {
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
