//! A child process that never outlives its owner.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read, Seek},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use giusto_net::group::ProcessGroup;

/// The maximum that is read of an output, in bytes: the report of a day has about 40 MB.
const MAX_OUTPUT: u64 = 64 << 20;

/// A running process. Dropping it kills it, with what it started.
#[derive(Debug)]
pub(super) struct Process {
    group: ProcessGroup,
    stdout: File,
    stderr: File,
}

impl Process {
    /// Starts `program` without input, in a process group of its own: Ctrl-C reaches its owner, who then ends it.
    pub(super) fn start(program: &Path, arguments: &[impl AsRef<OsStr>]) -> io::Result<Self> {
        // A full pipe would block the process; a file does not.
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        Ok(Self { group: ProcessGroup::start(&mut command)?, stdout, stderr })
    }

    /// Waits for its end, at most for `limit`.
    pub(super) fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        if self.poll()?.is_none() {
            thread::park_timeout(limit);
        }
        self.poll()
    }

    /// Its exit status, if it has ended.
    pub(super) fn poll(&mut self) -> io::Result<Option<ExitStatus>> {
        self.group.poll()
    }

    /// Its standard output and standard error. It must have ended: it writes where we read.
    pub(super) fn output(&mut self) -> (String, String) {
        let text = |file: &mut File| {
            let mut bytes = Vec::new();
            // Bytes read before an error count.
            let _ = file.rewind().and_then(|()| file.take(MAX_OUTPUT).read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        };
        (text(&mut self.stdout), text(&mut self.stderr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exists(id: impl std::fmt::Display) -> bool {
        Path::new(&format!("/proc/{id}")).exists()
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let process = Process::start(Path::new("/bin/sleep"), &["60"]).unwrap();
        let id = process.group.id();
        assert!(exists(id));
        drop(process);
        assert!(!exists(id));
        let error = Process::start(Path::new("/no/such/program"), &["-v"]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn much_output_does_not_block_the_process() {
        let script = "head -c 1000000 /dev/zero; head -c 900000 /dev/zero >&2; exit 3";
        let mut process = Process::start(Path::new("/bin/sh"), &["-c", script]).unwrap();
        // Its exit status, within ten seconds.
        let mut waits = (0..1000).map(|_| process.wait(Duration::from_millis(10)).unwrap());
        assert_eq!(waits.find_map(|status| status?.code()), Some(3));
        let (out, err) = process.output();
        assert_eq!((out.len(), err.len()), (1_000_000, 900_000));
    }
}
