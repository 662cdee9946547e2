//! Network namespaces of tests.

use std::{io::Write, panic, process::Command, thread};

use nix::sched::{CloneFlags, unshare};

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
