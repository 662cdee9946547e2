//! Processes that run beside a test.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{giusto, json};

/// A process that is killed at the end of the test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.0, name);
    }

    /// Its exit status, and what it still prints on standard output.
    pub(crate) fn output(mut self) -> Output {
        let mut stdout = Vec::new();
        self.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        Output { status: self.0.wait().unwrap(), stdout, stderr: Vec::new() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the command with `args`.
pub(crate) fn start(args: &[&str]) -> Running {
    start_by(giusto(args))
}

/// Starts this command, whose standard output is read at its end.
pub(crate) fn start_by(mut command: Command) -> Running {
    Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
}

pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", child.id())).status().unwrap();
    assert!(sent.success());
}

/// A `giusto recv` or `giusto call --listen`, once it listens.
pub(crate) struct Listener {
    pub(crate) process: Running,
    pub(crate) address: SocketAddr,
    /// Its further lines on standard error.
    lines: mpsc::Receiver<String>,
}

impl Listener {
    /// Starts `giusto recv` with `args`.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::of(&[&["recv"], args].concat())
    }

    /// Starts `giusto call --listen` for one call, with `args`.
    pub(crate) fn call(args: &[&str]) -> Self {
        Self::of(&[&["call", "--listen", "127.0.0.1:0", "--once", "--json"], args].concat())
    }

    /// Starts a command that listens.
    pub(crate) fn of(args: &[&str]) -> Self {
        Self::by(giusto(args))
    }

    /// The same by this process.
    pub(crate) fn by(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let process = Running(child);
        // Warnings come first, such as that of a key file that all may read, and the fingerprint of a certificate.
        let mut said = String::new();
        while !said.lines().last().is_some_and(|line| line.starts_with("listening ")) {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "it does not listen: {said}");
        }
        let line = said.lines().last().unwrap();
        let address = line.split_whitespace().nth(2).and_then(|word| word.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}"));
        // The pipe is read to the end: a full pipe would block the process.
        let (found, lines) = mpsc::channel();
        thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| drop(found.send(line)));
        });
        Self { process, address, lines }
    }

    /// Its address, as an argument.
    pub(crate) fn to(&self) -> String {
        self.address.to_string()
    }

    /// Its next line on standard error.
    pub(crate) fn next_line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    /// Ends it with SIGINT; its JSON and its exit status.
    pub(crate) fn stop(self) -> (Value, i32) {
        self.process.signal("INT");
        self.result()
    }

    /// The JSON that it prints, and its exit status; −1 if a signal ended it.
    pub(crate) fn result(self) -> (Value, i32) {
        let output = self.process.output();
        (json(&output), output.status.code().unwrap_or(-1))
    }
}
