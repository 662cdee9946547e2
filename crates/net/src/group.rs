//! A program and all that it starts, as one process group.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
};

use giusto_units::TimeDelta;
use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::Clock;

/// Time between two looks at whether all have ended.
const LOOK: TimeDelta = TimeDelta::from_millis(10);

/// What the guard of the group `$0` does: its standard input ends when its owner has ended, in whatever way.
const GUARD: &str = "trap '' HUP INT TERM; read -r _; kill -s TERM -- -$0; kill -s CONT -- -$0
for _ in 1 2 3 4 5; do kill -s 0 -- -$0 || exit; sleep 1; done; kill -s KILL -- -$0";

/// A program that was started in a process group of its own, and what it starts there. Dropping it kills them.
///
/// They do not outlive this process, even if it is killed: a shell beside them then ends the group, by SIGTERM and after five seconds
/// by SIGKILL. A program that leaves the group, such as a daemon that makes a session of its own, is not followed.
#[derive(Debug)]
pub struct ProcessGroup {
    leader: Child,
    /// The shell; `None` where none could be started.
    guard: Option<Child>,
    status: Option<ExitStatus>,
    is_gone: bool,
}

impl ProcessGroup {
    /// Starts `command`.
    ///
    /// # Errors
    ///
    /// The system's error: such as [`io::ErrorKind::NotFound`] for an unknown program.
    ///
    /// # Example
    ///
    /// ```
    /// use std::process::Command;
    /// use giusto_net::group::ProcessGroup;
    /// use giusto_units::TimeDelta;
    ///
    /// let mut group = ProcessGroup::start(Command::new("sleep").arg("60"))?;
    /// assert!(group.poll()?.is_none() && !group.is_gone()?);
    /// assert!(!group.end(TimeDelta::from_seconds(5))?.success());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let leader = command.process_group(0).spawn()?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, &leader.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn();
        // Without a guard the group is ended all the same, unless this process is killed.
        Ok(Self { leader, guard: guard.ok(), status: None, is_gone: false })
    }

    /// The program: its pipes and its id.
    pub const fn leader(&mut self) -> &mut Child {
        &mut self.leader
    }

    /// The number of the group, which is the id of the program.
    pub fn id(&self) -> Pid {
        Pid::from_raw(self.leader.id() as i32)
    }

    /// The exit status of the program, once it has ended.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn poll(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.leader.try_wait()?;
        }
        Ok(self.status)
    }

    /// Whether the program and all others of the group have ended.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn is_gone(&mut self) -> io::Result<bool> {
        // The number of a group belongs to no other process as long as the group has a member.
        if !self.is_gone && self.poll()?.is_some() && killpg(self.id(), None) == Err(Errno::ESRCH) {
            self.is_gone = true;
            self.dismiss();
        }
        Ok(self.is_gone)
    }

    /// Asks all to end, also those that are stopped.
    pub fn terminate(&mut self) {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
    }

    /// Kills all.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::SIGKILL);
        self.is_gone = true;
        self.dismiss();
        let status = self.leader.wait()?;
        Ok(*self.status.get_or_insert(status))
    }

    /// Asks all to end and waits for it; kills what still runs after `patience`. Returns how the program ended.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn end(&mut self, patience: TimeDelta) -> io::Result<ExitStatus> {
        let clock = Clock::start();
        self.terminate();
        while !self.is_gone()? && clock.now().as_nanos() < patience.as_nanos().unsigned_abs() {
            thread::park_timeout(LOOK.to_std());
        }
        self.kill()
    }

    /// Sends `signal` to all.
    pub fn signal(&mut self, signal: Signal) {
        if !self.is_gone {
            // It fails only where none is left.
            let _ = killpg(self.id(), signal);
        }
    }

    /// Ends the guard.
    fn dismiss(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            // Its standard input stays open until it has ended: it kills nobody.
            let _ = guard.kill();
            let _ = guard.wait();
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        path::Path,
    };

    use super::*;

    const PATIENCE: TimeDelta = TimeDelta::from_seconds(30);

    /// A shell with this script, and the process ids in its first line of output.
    fn start(script: &str) -> (ProcessGroup, Vec<String>) {
        let mut group =
            ProcessGroup::start(Command::new("sh").args(["-c", script]).stdout(Stdio::piped())).unwrap();
        let mut line = String::new();
        BufReader::new(group.leader().stdout.take().unwrap()).read_line(&mut line).unwrap();
        (group, line.split_whitespace().map(str::to_owned).collect())
    }

    /// Whether a process runs; one that has ended but is not reaped yet does not.
    fn runs(id: &str) -> bool {
        let stat = std::fs::read_to_string(Path::new("/proc").join(id).join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    }

    fn ends(id: &str) -> bool {
        (0..3_000).any(|_| {
            thread::park_timeout(LOOK.to_std());
            !runs(id)
        })
    }

    #[test]
    fn what_a_program_leaves_behind_is_ended_with_it() {
        let (mut group, ids) = start("sleep 300 & echo $!; exit 3");
        while group.poll().unwrap().is_none() {
            thread::park_timeout(LOOK.to_std());
        }
        assert!(!group.is_gone().unwrap() && runs(&ids[0]));
        assert_eq!(group.end(PATIENCE).unwrap().code(), Some(3));
        assert!(group.is_gone().unwrap() && ends(&ids[0]));
    }

    #[test]
    fn who_ignores_sigterm_is_killed_after_the_patience() {
        let (mut group, ids) = start("trap '' TERM; sh -c 'echo $$ $PPID; while :; do sleep 1; done'");
        assert!(!group.end(TimeDelta::from_millis(50)).unwrap().success());
        assert!(ids.len() == 2 && ids.iter().all(|id| ends(id)), "{ids:?}");
    }

    #[test]
    fn a_dropped_group_is_gone() {
        let (group, ids) = start("sleep 300 & echo $! $$; wait");
        let guard = group.guard.as_ref().unwrap().id().to_string();
        assert!(ids.iter().all(|id| runs(id)) && runs(&guard));
        drop(group);
        assert!(ids.iter().all(|id| ends(id)) && !runs(&guard), "{ids:?}");
    }
}
