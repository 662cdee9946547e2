//! A child process that never outlives its owner.

use std::{
    ffi::OsStr,
    io::{self, Read},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

/// The most that is kept of an output: the report of a day has about 40 MB.
const MAX_OUTPUT: u64 = 64 << 20;
/// How long to wait for the rest of the output of an ended process.
const PATIENCE: Duration = Duration::from_secs(2);

/// A running process. Dropping it kills it, by its own id, and reaps it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
}

impl Process {
    /// Starts `program` without input, in a process group of its own: Ctrl-C reaches its owner, who then ends it.
    pub(super) fn start(program: &Path, arguments: &[impl AsRef<OsStr>]) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
        Ok(Self { child, stdout, stderr })
    }

    /// Waits for its end, at most for `limit`.
    pub(super) fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let ended = self.poll()?;
        if ended.is_none() {
            thread::park_timeout(limit);
            return self.poll();
        }
        Ok(ended)
    }

    /// Its exit status, if it has ended.
    pub(super) fn poll(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Kills it if it still runs, and reaps it.
    pub(super) fn end(&mut self) {
        // Until it is reaped its id belongs to no other process. Where it has ended by itself, both calls do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its standard output and standard error, once it has ended.
    pub(super) fn output(&self) -> (String, String) {
        let text = |output: &Receiver<Vec<u8>>| {
            let bytes = output.recv_timeout(PATIENCE).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        (text(&self.stdout), text(&self.stderr))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads an output to its end in a thread of its own, so that a full pipe never blocks the process.
fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (done, output) = mpsc::channel();
    let read = move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // Bytes read before an error count; bytes beyond the limit are read and dropped.
            let _ = pipe.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        let _ = done.send(bytes);
    };
    // Without a thread the pipe is closed and the output empty.
    let _ = thread::Builder::new().name("peer-output".to_owned()).spawn(read);
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELL: &str = "/bin/sh";

    fn exists(id: u32) -> bool {
        Path::new(&format!("/proc/{id}")).exists()
    }

    #[test]
    fn both_outputs_are_collected_to_the_end() {
        let script = "printf out; printf err >&2; exit 3";
        let mut process = Process::start(Path::new(SHELL), &["-c", script]).unwrap();
        let mut status = None;
        for _ in 0..1000 {
            status = process.wait(Duration::from_millis(10)).unwrap();
            if status.is_some() {
                break;
            }
        }
        assert_eq!(status.and_then(|status| status.code()), Some(3));
        assert_eq!(process.output(), ("out".to_owned(), "err".to_owned()));
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let process = Process::start(Path::new("/bin/sleep"), &["60"]).unwrap();
        let id = process.child.id();
        assert!(exists(id));
        drop(process);
        assert!(!exists(id));
    }

    #[test]
    fn a_full_pipe_does_not_block_the_process() {
        let script = "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2";
        let process = Process::start(Path::new(SHELL), &["-c", script]).unwrap();
        let (out, err) = process.output();
        assert_eq!((out.len(), err.len()), (1_000_000, 1_000_000));
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let error = Process::start(Path::new("/no/such/program"), &["-v"]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
