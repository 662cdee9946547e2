//! Network namespaces of tests.

use std::{
    fs,
    io::Write,
    panic,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use nix::sched::{CloneFlags, unshare};

use super::process::Listener;

/// Runs `test` in a thread that has a network namespace of its own, with nothing but a loopback interface of this MTU. The threads
/// and processes that it starts are in the same namespace, which ends with them. Without the privilege the test is skipped.
pub(crate) fn in_namespace(name: &str, mtu: u32, test: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let inside = scope.spawn(|| match enter(mtu) {
            Ok(()) => test(),
            Err(why) => {
                // Also where the output of tests is captured.
                let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
            }
        });
        if let Err(failure) = inside.join() {
            panic::resume_unwind(failure);
        }
    });
}

fn enter(mtu: u32) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("cannot make a network namespace: {error}"))?;
    let mtu = mtu.to_string();
    let up = Command::new("ip").args(["link", "set", "lo", "mtu", &mtu, "up"]).status();
    match up {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("ip link set lo up: {status}")),
        Err(error) => Err(format!("cannot run ip: {error}")),
    }
}

/// A second namespace, which ends with this: 10.9.0.2, behind the interface `near` of the caller's namespace, which is 10.9.0.1.
pub(crate) struct Far(Child);

impl Far {
    /// The address there.
    pub(crate) const ADDRESS: &str = "10.9.0.2";

    /// Behind a link of this MTU.
    pub(crate) fn behind(mtu: u32) -> Self {
        let mut holder = Command::new("unshare");
        let far = Self(holder.args(["--net", "sleep", "120"]).stdout(Stdio::null()).spawn().unwrap());
        let (pid, mtu) = (far.0.id().to_string(), mtu.to_string());
        let ours = fs::read_link("/proc/thread-self/ns/net").unwrap();
        while fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|theirs| theirs == ours) {
            thread::park_timeout(Duration::from_millis(5));
        }
        ip(&[
            "link", "add", "near", "mtu", &mtu, "type", "veth", "peer", "name", "far", "mtu", &mtu, "netns",
            &pid,
        ]);
        ip(&["address", "add", "10.9.0.1/24", "dev", "near"]);
        ip(&["link", "set", "near", "up"]);
        for words in [&["address", "add", "10.9.0.2/24", "dev", "far"][..], &["link", "set", "far", "up"]] {
            assert!(far.enter("ip").args(words).status().unwrap().success());
        }
        far
    }

    /// A `giusto` that listens there.
    pub(crate) fn listener(&self, args: &[&str]) -> Listener {
        let mut command = self.enter(env!("CARGO_BIN_EXE_giusto"));
        command.args(args).stdin(Stdio::null());
        Listener::by(command)
    }

    fn enter(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id())).arg(program);
        command
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Changes the network of the caller's namespace.
pub(crate) fn ip(words: &[&str]) {
    assert!(Command::new("ip").args(words).status().unwrap().success(), "ip {}", words.join(" "));
}
