//! Network namespaces of tests.

use std::{
    fs,
    ops::Deref,
    panic,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use nix::sched::{CloneFlags, unshare};

use super::{process::Listener, skip};

/// Runs `test` in a thread that has a network namespace of its own, with nothing but a loopback interface of this MTU. The threads
/// and processes that it starts are in the same namespace, which ends with them. Without the privilege the test is skipped.
pub(crate) fn in_namespace(name: &str, mtu: u32, test: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let inside = scope.spawn(|| match enter(mtu) {
            Ok(()) => test(),
            Err(why) => skip(name, &why),
        });
        if let Err(failure) = inside.join() {
            panic::resume_unwind(failure);
        }
    });
}

/// As [`in_namespace`], with the address 192.0.2.1 besides those of loopback.
#[cfg(feature = "browser")]
pub(crate) fn in_network(name: &str, test: impl FnOnce() + Send) {
    in_namespace(name, 1500, || {
        ip(&["link", "add", "near", "type", "veth", "peer", "name", "far"]);
        ip(&["address", "add", "192.0.2.1/24", "dev", "near"]);
        for end in ["near", "far"] {
            ip(&["link", "set", end, "up"]);
        }
        test();
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

/// A further namespace, which ends with this.
pub(crate) struct Space(Child);

impl Space {
    pub(crate) fn new() -> Self {
        let mut holder = Command::new("unshare");
        let space = Self(holder.args(["--net", "sleep", "120"]).stdout(Stdio::null()).spawn().unwrap());
        let ours = fs::read_link("/proc/thread-self/ns/net").unwrap();
        while fs::read_link(format!("/proc/{}/ns/net", space.pid())).is_ok_and(|theirs| theirs == ours) {
            thread::park_timeout(Duration::from_millis(5));
        }
        space
    }

    /// The process that holds it, by which `ip` knows it.
    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// A program that runs there.
    pub(crate) fn enter(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id())).arg(program);
        command
    }

    /// Runs commands there, one a line.
    pub(crate) fn run(&self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut words = line.split_whitespace();
            let mut command = self.enter(words.next().unwrap());
            assert!(command.args(words).status().unwrap().success(), "{line}");
        }
    }

    /// A `giusto` that listens there.
    pub(crate) fn listener(&self, args: &[&str]) -> Listener {
        let mut command = self.enter(env!("CARGO_BIN_EXE_giusto"));
        command.args(args).stdin(Stdio::null());
        Listener::by(command)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A second namespace, which ends with this: 10.9.0.2, behind the interface `near` of the caller's namespace, which is 10.9.0.1.
pub(crate) struct Far(Space);

impl Far {
    /// The address there.
    pub(crate) const ADDRESS: &str = "10.9.0.2";

    /// Behind a link of this MTU.
    pub(crate) fn behind(mtu: u32) -> Self {
        let (far, mtu) = (Self(Space::new()), mtu.to_string());
        let peer = ["type", "veth", "peer", "name", "far", "mtu", &mtu, "netns", &far.pid()];
        ip(&[&["link", "add", "near", "mtu", &mtu][..], &peer].concat());
        ip(&["address", "add", "10.9.0.1/24", "dev", "near"]);
        ip(&["link", "set", "near", "up"]);
        far.run("ip address add 10.9.0.2/24 dev far\nip link set far up");
        far
    }
}

impl Deref for Far {
    type Target = Space;

    fn deref(&self) -> &Space {
        &self.0
    }
}

/// A far end, 10.9.1.3, behind a router, whose inner address is 10.9.0.2 and whose outer one, at the interface `outer`, is 10.9.1.2. We
/// are 10.9.0.1, at `near`.
pub(crate) struct Routed {
    pub(crate) router: Space,
    pub(crate) far: Space,
}

impl Routed {
    /// The first link carries 1500 B, the second one `mtu`.
    pub(crate) fn with_mtu(mtu: u32) -> Self {
        let (router, far, mtu) = (Space::new(), Space::new(), mtu.to_string());
        ip(&["link", "add", "near", "type", "veth", "peer", "name", "inner", "netns", &router.pid()]);
        let outer = ["link", "add", "outer", "mtu", &mtu, "netns", &router.pid()];
        ip(&[&outer[..], &["type", "veth", "peer", "name", "far", "mtu", &mtu, "netns", &far.pid()]]
            .concat());
        ip(&["address", "add", "10.9.0.1/24", "dev", "near"]);
        ip(&["link", "set", "near", "up"]);
        ip(&["route", "add", "10.9.1.0/24", "via", "10.9.0.2"]);
        router.run(
            "ip address add 10.9.0.2/24 dev inner
            ip link set inner up
            ip address add 10.9.1.2/24 dev outer
            ip link set outer up
            sysctl -qw net.ipv4.ip_forward=1",
        );
        far.run(
            "ip address add 10.9.1.3/24 dev far
            ip link set far up
            ip route add default via 10.9.1.2",
        );
        Self { router, far }
    }

    /// Has the router hide our address behind its own; false where `nft` is not installed.
    pub(crate) fn masquerade(&self, test: &str) -> bool {
        if let Err(why) = nft("list tables") {
            skip(test, &why);
            return false;
        }
        self.router.run(
            "nft add table ip n
            nft add chain ip n post { type nat hook postrouting priority 100; }
            nft add rule ip n post oifname outer masquerade",
        );
        // The far end knows nothing of our network.
        self.far.run("ip route del default");
        true
    }
}

/// A `giusto` in the caller's namespace that knows the names of this file as those of /etc/hosts.
pub(crate) fn with_hosts(hosts: &std::path::Path, args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\""]);
    command.arg(hosts).arg(env!("CARGO_BIN_EXE_giusto")).args(args).stdin(Stdio::null());
    command
}

/// Rules of nftables in the caller's namespace, which count what it sends; without `nft` the test says that it is skipped in part.
pub(crate) struct Counted(());

impl Counted {
    /// Counts the datagrams that leave and match each of these expressions of nft(8).
    pub(crate) fn sent(test: &str, expressions: &[&str]) -> Option<Self> {
        let rule = |expression: &&str| format!("add rule inet t out {expression} counter\n");
        let rules: String = expressions.iter().map(rule).collect();
        let chain = "add chain inet t out { type filter hook output priority 0; }";
        match nft(&format!("add table inet t\n{chain}\n{rules}")) {
            Ok(_) => Some(Self(())),
            Err(why) => {
                skip(test, &why);
                None
            }
        }
    }

    /// The datagrams that matched each expression.
    #[expect(clippy::unused_self, reason = "the rules are there while it is")]
    pub(crate) fn packets(&self) -> Vec<u64> {
        let listed = nft("list table inet t").unwrap();
        let after = |line: &str| line.split("counter packets ").nth(1)?.split(' ').next()?.parse().ok();
        listed.lines().filter_map(after).collect()
    }
}

/// Runs commands of nft(8) in the caller's namespace.
pub(crate) fn nft(commands: &str) -> Result<String, String> {
    let output =
        Command::new("nft").arg(commands).output().map_err(|error| format!("cannot run nft: {error}"))?;
    let [out, errors] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if output.status.success() { Ok(out) } else { Err(format!("nft: {errors}")) }
}

/// Changes the network of the caller's namespace.
pub(crate) fn ip(words: &[&str]) {
    assert!(Command::new("ip").args(words).status().unwrap().success(), "ip {}", words.join(" "));
}
