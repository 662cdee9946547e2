//! A child process that never outlives its owner.

use std::{
    ffi::OsStr,
    io::{self, Read},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

/// The most that is kept of what a process says: the report of a day has some 40 MB.
const MAX_OUTPUT: u64 = 64 << 20;
/// How long the rest of the output of an ended process is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// From one look at a process whose outputs are closed to the next.
const MOMENT: Duration = Duration::from_millis(5);

/// A running process; dropping it kills it, by its own id, and reaps it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    status: Option<ExitStatus>,
    outputs: Receiver<(Stream, Vec<u8>)>,
    stdout: Option<String>,
    stderr: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

impl Process {
    /// Starts `program` with nothing to read. It has a process group of its own: Ctrl-C is for its owner, who then ends it.
    pub(super) fn start(program: &Path, arguments: &[impl AsRef<OsStr>]) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (sender, outputs) = mpsc::channel();
        let (out, err) = (child.stdout.take(), child.stderr.take());
        // From here on the process is ended whatever fails.
        let process = Self { child, status: None, outputs, stdout: None, stderr: None };
        collect(Stream::Out, out, sender.clone())?;
        collect(Stream::Err, err, sender)?;
        Ok(process)
    }

    /// Waits at most `limit` for its end.
    pub(super) fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        // Its outputs are closed, one after the other, a moment before it has ended.
        let mut looks = limit.as_millis() / MOMENT.as_millis() + 3;
        loop {
            let more = self.take_output(limit);
            let closed = self.stdout.is_some() && self.stderr.is_some();
            looks -= 1;
            let ended = self.poll()?;
            if ended.is_some() || looks == 0 || !(more || closed) {
                return Ok(ended);
            }
        }
    }

    /// Looks whether it has ended.
    pub(super) fn poll(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    /// Kills it if it still runs, and waits for its end.
    pub(super) fn end(&mut self) {
        if self.status.is_none() {
            // Until it is reaped below, its id is nobody else's. Where it has just ended by itself, that is as well.
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
    }

    /// What it wrote to standard output and to standard error. For a process that has ended.
    pub(super) fn output(&mut self) -> (&str, &str) {
        while self.stdout.is_none() || self.stderr.is_none() {
            if !self.take_output(PATIENCE) {
                break;
            }
        }
        (self.stdout.as_deref().unwrap_or(""), self.stderr.as_deref().unwrap_or(""))
    }

    /// Waits for one more output to end; whether more may come.
    fn take_output(&mut self, limit: Duration) -> bool {
        match self.outputs.recv_timeout(limit) {
            Ok((stream, bytes)) => {
                let text = Some(String::from_utf8_lossy(&bytes).into_owned());
                match stream {
                    Stream::Out => self.stdout = text,
                    Stream::Err => self.stderr = text,
                }
                true
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => {
                // Both outputs are closed: the end is a matter of moments, or the program went silent on purpose.
                thread::park_timeout(limit.min(MOMENT));
                false
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads an output to its end in a thread of its own, so that the process is never held up by a full pipe.
fn collect(
    stream: Stream,
    pipe: Option<impl Read + Send + 'static>,
    done: Sender<(Stream, Vec<u8>)>,
) -> io::Result<()> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let read = move || {
        let mut bytes = Vec::new();
        // What was read before an error counts; what exceeds the limit is read and forgotten.
        let _ = pipe.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes);
        let _ = io::copy(&mut pipe, &mut io::sink());
        let _ = done.send((stream, bytes));
    };
    thread::Builder::new().name("peer-output".to_owned()).spawn(read).map(drop)
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
        assert_eq!(process.output(), ("out", "err"));
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
    fn a_full_pipe_does_not_hold_the_process_up() {
        let script = "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2";
        let mut process = Process::start(Path::new(SHELL), &["-c", script]).unwrap();
        let (out, err) = process.output();
        assert_eq!((out.len(), err.len()), (1_000_000, 1_000_000));
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let error = Process::start(Path::new("/no/such/program"), &["-v"]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
