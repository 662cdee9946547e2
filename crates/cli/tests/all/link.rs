//! `giusto link`: programs across a scenario's links, each test in a network namespace of its own.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::common::{
    Folder, assert_has, count, namespace::in_namespace, number, process::Running, skip, text,
};
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};

/// Far above any delay of a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const NEAR6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2);

/// A scenario with one link in both directions, whose warm-up is of simulations: it hides nothing here.
pub(crate) fn scenario(link: &str) -> Folder {
    Folder::with(&format!(
        "duration = \"1000 s\"\nwarmup = \"900 s\"\n\
         link = [{{ id = \"wire\", from = \"here\", to = \"there\", duplex = true, {link} }}]\n\
         flow = [{{ id = \"any\", kind = \"cbr\", rate = \"64 kbit/s\", size = \"200 B\" }}]\n"
    ))
}

/// A `giusto link` with a command.
struct Link {
    running: Running,
    lines: mpsc::Receiver<String>,
}

impl Link {
    /// Starts `giusto link s.toml FLAGS --json -- COMMAND`, and waits until the devices are there.
    fn start(folder: &Folder, flags: &[&str], command: &[&str]) -> Self {
        let words =
            [&["link", "s.toml", "--json", "--max-lateness", "10s"], flags, &["--"], command].concat();
        let mut child = folder.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (found, lines) = mpsc::channel();
        thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| drop(found.send(line)));
        });
        let link = Self { running: Running(child), lines };
        link.wait_for("GIUSTO_FAR=");
        link
    }

    /// The next line on standard error that contains `text`.
    fn wait_for(&self, text: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push(line),
                Err(error) => panic!("{error}: no {text} in {seen:?}"),
            }
        }
    }

    /// Ends it with SIGTERM; returns its JSON and exit status.
    fn finish(self) -> (Value, i32) {
        self.running.signal("TERM");
        ended(&self.running.output())
    }

    /// Waits for its end.
    fn result(self) -> (Value, i32) {
        ended(&self.running.output())
    }
}

pub(crate) fn ended(output: &Output) -> (Value, i32) {
    let json = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)));
    (json, output.status.code().unwrap_or(-1))
}

/// Runs a whole `giusto link s.toml ARGS`.
fn run(folder: &Folder, args: &[&str]) -> Output {
    folder.run(&[&["link", "s.toml", "--max-lateness", "10s"], args].concat())
}

/// Sends `count` ICMP echo requests of `size` bytes of payload. Returns the RTT of each that was answered within a second.
fn ping(to: IpAddr, count: u16, size: usize) -> Vec<Duration> {
    let (domain, protocol, request, reply) = match to {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, 8, 0),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, 128, 129),
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut rtts = Vec::new();
    for sequence in 0..count {
        let mut message = vec![request, 0, 0, 0, 0x67, 0x69];
        message.extend(sequence.to_be_bytes());
        message.resize(8 + size, 0x5a);
        if to.is_ipv4() {
            let sum: u32 = message
                .chunks(2)
                .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
                .sum();
            let sum = (sum & 0xffff) + (sum >> 16);
            let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
            message[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
        let begin = Instant::now();
        if socket.send_to(&message, &SocketAddr::new(to, 0).into()).is_err() {
            continue;
        }
        while begin.elapsed() < Duration::from_secs(1) {
            let mut buffer = [0; 4096];
            let Ok(length) = (&socket).read(&mut buffer) else { continue };
            let bytes = &buffer[..length];
            // A raw IPv4 socket also receives the header.
            let bytes = if to.is_ipv4() { &bytes[20..] } else { bytes };
            if bytes[0] == reply && bytes[4..8] == message[4..8] {
                rtts.push(begin.elapsed());
                break;
            }
        }
    }
    rtts
}

/// Whether `program` can be run; if not, says that the test is skipped.
fn installed(test: &str, program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        skip(test, &format!("{program} is not installed"));
    }
    found
}

#[test]
fn a_ping_takes_twice_the_delay_and_nothing_else_crosses() {
    in_namespace("link: ping", 65_536, || {
        let folder = scenario("delay = \"30 ms\", rate = \"10 Mbit/s\"");
        let link = Link::start(&folder, &[], &["sleep", "60"]);
        let mut packets = 0;
        for to in [IpAddr::V4(NEAR), IpAddr::V6(NEAR6)] {
            let rtts = ping(to, 10, 56);
            assert_eq!(rtts.len(), 10, "{to}");
            let least = *rtts.iter().min().unwrap();
            // Twice 30 ms, and twice 84 or 104 bytes at 10 Mbit/s.
            assert!((Duration::from_millis(60)..Duration::from_millis(90)).contains(&least), "{rtts:?}");
            packets += 10;
        }
        let (result, status) = link.finish();
        assert_eq!(status, 0, "{result}");
        // No router solicitations, no multicast: the links carried the requests and the replies.
        for flow in result["flows"].as_array().unwrap() {
            assert_has(flow, &json!({ "sent_packets": packets, "received_packets": packets }));
        }
        assert!(number(&result["real_time"]["lateness_us"]["p50"]) >= 0.0, "{result}");
        assert_eq!(result["command"]["was_ended"], true);
        // Before the media nothing crosses the links; what comes behind the first packet of RTP does.
        let link = Link::start(&folder, &["--start-with-media"], &["sleep", "60"]);
        assert!(*ping(NEAR.into(), 10, 56).iter().min().unwrap() < Duration::from_millis(30));
        let sender = UdpSocket::bind("0.0.0.0:0").unwrap();
        sender.send_to(&[[0x80, 96].as_slice(), &[0; 98]].concat(), (NEAR, 5004)).unwrap();
        assert!(*ping(NEAR.into(), 10, 56).iter().min().unwrap() >= Duration::from_millis(60));
        let (result, _) = link.finish();
        assert!([10, 11, 12].contains(&result["flows"][0]["received_packets"].as_u64().unwrap()), "{result}");
        // Where the first packet opens a call of giusto, its media begin the time without being told.
        let link = Link::start(&folder, &[], &["sleep", "60"]);
        sender.send_to(b"giu4 and more", (NEAR, 5004)).unwrap();
        assert!(*ping(NEAR.into(), 10, 56).iter().min().unwrap() < Duration::from_millis(30));
        sender.send_to(&[[0x80, 96].as_slice(), &[0; 98]].concat(), (NEAR, 5004)).unwrap();
        assert!(*ping(NEAR.into(), 10, 56).iter().min().unwrap() >= Duration::from_millis(60));
        let (result, _) = link.finish();
        assert_eq!(result["began_with"], "media");
        // Another first packet leaves it with the command, whatever comes then.
        let link = Link::start(&folder, &[], &["sleep", "60"]);
        assert!(*ping(NEAR.into(), 10, 56).iter().min().unwrap() >= Duration::from_millis(60));
        sender.send_to(b"giu4 and more", (NEAR, 5004)).unwrap();
        assert!(*ping(NEAR.into(), 10, 56).iter().min().unwrap() >= Duration::from_millis(60));
        let (result, _) = link.finish();
        assert_eq!(result["began_with"], "command");
    });
}

#[test]
fn the_only_way_out_leads_across_the_link() {
    in_namespace("link: no bypass", 65_536, || {
        // Everything is lost.
        let folder = scenario("loss = 1.0");
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let silent = UdpSocket::bind("0.0.0.0:0").unwrap();
        silent.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let target = listener.local_addr().unwrap().port().to_string();
        let link = Link::start(&folder, &[], &["sh", "-c", "ip -o link | wc -l >&2; exec sleep 60"]);
        // The loopback interface and the device.
        assert_eq!(link.wait_for("2").trim(), "2");
        assert_eq!(ping(NEAR.into(), 2, 56).len(), 0);
        let (giusto, port) = (env!("CARGO_BIN_EXE_giusto"), silent.local_addr().unwrap().port());
        let few = "--one-way --raw --count 5 --rate 100k --size 100 >&2";
        let script =
            format!("{giusto} send 127.0.0.1:{target} {few}; {giusto} send $GIUSTO_FAR:{port} {few}; true");
        let outside = run(&folder, &["--json", "--", "sh", "-c", &script]);
        let (result, _) = ended(&outside);
        let forward = &result["flows"][0];
        assert!(count(&forward["sent_packets"]) >= 5, "{result}");
        assert_eq!(forward["received_packets"], 0, "{result}");
        assert_eq!(result["links"][0]["lost_packets"], forward["sent_packets"], "{result}");
        assert!(silent.recv(&mut [0; 100]).is_err());
        // The second link had another device: the first one is still there.
        assert_eq!(result["far"][0], "198.18.1.1");
        let (result, _) = link.finish();
        assert_eq!(result["flows"][1]["received_packets"], 0);
    });
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    in_namespace("link: exit status", 65_536, || {
        // A link alone is enough.
        let folder =
            Folder::with("link = [{ id = \"wire\", from = \"here\", to = \"there\", delay = \"1 ms\" }]");
        for (command, status) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
            let output = run(&folder, &["--", "sh", "-c", &format!("echo out; {command}")]);
            assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
            // The result goes to standard error: standard output is the command's.
            assert_eq!(text(&output.stdout), "out\n");
            assert!(text(&output.stderr).contains("in real time"), "{}", text(&output.stderr));
        }
        let missing = run(&folder, &["--", "/no/such/program"]);
        assert_eq!(missing.status.code(), Some(2));
        let said = text(&missing.stderr);
        assert!(said.contains("cannot start \"/no/such/program\""), "{said}");
    });
}

#[test]
fn a_signal_ends_the_command_and_removes_the_device() {
    in_namespace("link: signal", 65_536, || {
        let folder = scenario("delay = \"1 ms\"");
        let script = "echo pid $$ >&2; trap 'echo asked >&2; exit 0' TERM; while :; do sleep 0.05; done";
        let link = Link::start(&folder, &[], &["sh", "-c", script]);
        let pid: u32 = link.wait_for("pid ").trim_start_matches("pid ").parse().unwrap();
        let device = || {
            let output = Command::new("ip").args(["-o", "link"]).output().unwrap();
            text(&output.stdout).contains("giusto0")
        };
        assert!(device());
        link.running.signal("TERM");
        link.wait_for("asked");
        let (result, status) = link.result();
        assert_eq!((status, &result["command"]["was_ended"]), (0, &true.into()), "{result}");
        assert!(!device());
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        // So does the end of --duration.
        let output = run(&folder, &["--json", "--duration", "300ms", "--", "sleep", "60"]);
        let (result, status) = ended(&output);
        assert_eq!(status, 0, "{result}");
        assert!((0.3..20.0).contains(&result["duration_s"].as_f64().unwrap()), "{result}");
        assert_eq!(result["interrupted"], false);
    });
}

/// Waits until no process has one of these ids.
fn wait_for_end_of(ids: &[&str]) {
    let begin = Instant::now();
    // A zombie has ended; its parent, which may be the system's first process, has not asked yet.
    let state = |id: &&str| std::fs::read_to_string(format!("/proc/{id}/stat")).ok();
    let runs = |stat: &String| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X']));
    // The time that a process has after SIGTERM is part of it.
    while let Some(running) = ids.iter().filter_map(state).find(runs) {
        assert!(begin.elapsed() < PATIENCE, "of {ids:?} still runs: {running}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nothing_that_was_started_outlives_the_link() {
    in_namespace("link: orphans", 65_536, || {
        let folder = scenario("delay = \"1 ms\"");
        // It does not end at once.
        let far = "sleep 600 & echo far $! $$ >&2; trap 'sleep 0.2; exit' TERM; while :; do sleep 0.05; done";
        for is_killed in [false, true] {
            let near = if is_killed { "wait" } else { "exit 7" };
            let near = format!("sleep 600 & echo near $! $$ >&2; {near}");
            let link = Link::start(&folder, &["--far", far], &["sh", "-c", &near]);
            let lines = [link.wait_for("far "), link.wait_for("near ")];
            let ids: Vec<&str> = lines.iter().flat_map(|line| line.split(' ').skip(1)).collect();
            assert_eq!(ids.len(), 4, "{lines:?}");
            if is_killed {
                link.running.signal("KILL");
            } else {
                assert_eq!(link.result().1, 7);
            }
            wait_for_end_of(&ids);
        }
    });
}

#[test]
fn a_far_program_that_fails_is_told() {
    in_namespace("link: far program fails", 65_536, || {
        let folder = scenario("delay = \"1 ms\"");
        for (line, failed) in [("exit 3", true), ("sleep 0.1; no-such-program", true), ("exit 0", false)] {
            let output = run(&folder, &["--json", "--far", line, "--", "sleep", "0.5"]);
            let (result, status) = ended(&output);
            assert_eq!((status, result["far_command"]["status"].is_u64()), (0, failed), "{line}: {result}");
            let told = format!(
                "warning: the program of --far ended with status {}: {line}",
                result["far_command"]["status"]
            );
            assert_eq!(
                text(&output.stderr).matches(&told).count(),
                usize::from(failed),
                "{}",
                text(&output.stderr)
            );
        }
    });
}

#[test]
fn a_command_at_a_terminal_reads_from_it_and_ctrl_c_ends_it() {
    in_namespace("link: terminal", 65_536, || {
        if !installed("link: terminal", "script") {
            return;
        }
        let folder = scenario("delay = \"1 ms\"");
        let giusto = env!("CARGO_BIN_EXE_giusto");
        let line =
            format!("{giusto} link s.toml --max-lateness 10s -- sh -c 'read x; echo got $x; sleep 600'");
        let mut script = Command::new("script");
        script.args(["-qefc", &line, "/dev/null"]).current_dir(folder.0.path());
        let mut running = Running(script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let mut keys = running.0.stdin.take().unwrap();
        let mut shown = BufReader::new(running.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        keys.write_all(b"words\n").unwrap();
        assert!(shown.any(|line| line.contains("got words")));
        // A shell that is just starting a program may lose the signal.
        thread::sleep(Duration::from_millis(200));
        keys.write_all(b"\x03").unwrap();
        let rest: String = shown.collect();
        assert_eq!(running.0.wait().unwrap().code(), Some(0), "{rest}");
        assert!(rest.contains("in real time"), "{rest}");
    });
}

#[test]
fn an_interface_that_goes_down_and_up_again_loses_only_what_was_sent_then() {
    in_namespace("link: interface", 65_536, || {
        let folder = scenario("delay = \"5 ms\"");
        let link = Link::start(&folder, &[], &["sleep", "60"]);
        let set = |state| {
            assert!(Command::new("ip").args(["link", "set", "giusto0", state]).status().unwrap().success());
        };
        assert_eq!(ping(NEAR.into(), 3, 56).len(), 3);
        set("down");
        assert_eq!(ping(NEAR.into(), 2, 56).len(), 0);
        set("up");
        assert_eq!(ping(NEAR.into(), 3, 56).len(), 3);
        let (result, status) = link.finish();
        assert_eq!((status, &result["real_time"]["unsent_packets"]), (0, &0.into()), "{result}");
    });
}

#[test]
fn packets_up_to_the_mtu_cross_and_longer_ones_are_fragmented() {
    in_namespace("link: MTU", 65_536, || {
        let folder = scenario("delay = \"1 ms\"");
        let link = Link::start(&folder, &["--mtu", "1300"], &["sleep", "60"]);
        // 1272 B and headers of 28 B are one packet, one byte more makes two.
        assert_eq!(ping(NEAR.into(), 1, 1272).len(), 1);
        assert_eq!(ping(NEAR.into(), 1, 1273).len(), 1);
        let (result, _) = link.finish();
        assert_eq!(result["flows"][1]["sent_packets"], 3, "{result}");
        // Below the smallest MTU of IPv6 there is only IPv4.
        let small = run(&folder, &["--mtu", "1000", "--", "sh", "-c", "test -z \"$GIUSTO_FAR6\""]);
        assert_eq!(small.status.code(), Some(0), "{}", text(&small.stderr));
    });
}

#[test]
fn without_rights_the_far_side_is_a_namespace_too() {
    in_namespace("link: user namespace", 65_536, || {
        if !installed("link: user namespace", "setpriv") {
            return;
        }
        let folder = scenario("delay = \"10 ms\"");
        std::fs::set_permissions(folder.0.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        // Nobody has no rights.
        let nobody = |program| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
            command
        };
        let giusto = env!("CARGO_BIN_EXE_giusto");
        if !nobody(giusto).arg("--version").output().unwrap().status.success() {
            return skip("link: user namespace", "another user cannot run the program");
        }
        if !nobody("test").args(["-w", "/dev/net/tun"]).status().unwrap().success() {
            return skip("link: user namespace", "another user cannot open /dev/net/tun");
        }
        let mut link = nobody(giusto);
        link.args(["link", "s.toml", "--json", "--max-lateness", "10s", "--far"]);
        link.arg(format!("exec {giusto} recv $GIUSTO_FAR:5005 --once >&2"));
        let send = "send $GIUSTO_FAR:5005 --rate 500k --size 500 --count 50 --json >&2";
        link.args(["--", "sh", "-c", &format!("{giusto} {send}")]);
        let output = link.current_dir(folder.0.path()).stdin(Stdio::null()).output().unwrap();
        if text(&output.stderr).contains("cannot make a user namespace") {
            return skip("link: user namespace", "the kernel does not permit them");
        }
        let (result, status) = ended(&output);
        // 3: the sender's or the receiver's machine was overloaded.
        assert!(matches!(status, 0 | 3), "{status} {}", text(&output.stderr));
        assert!(result["flows"][0]["received_packets"].as_u64().unwrap() >= 50, "{result}");
        assert!(result["flows"][0]["delay_ms"]["p50"].as_f64().unwrap() >= 10.0, "{result}");
        // Nothing of it is in our namespace.
        let devices = Command::new("ip").args(["-o", "link"]).output().unwrap();
        assert!(!text(&devices.stdout).contains("giusto"), "{}", text(&devices.stdout));
    });
}

#[test]
fn missing_rights_are_one_line_that_names_the_relay() {
    in_namespace("link: missing rights", 65_536, || {
        if !installed("link: missing rights", "setpriv") {
            return;
        }
        let folder = scenario("delay = \"10 ms\"");
        // Root without its rights can make a user namespace, but not map its user into it.
        let mut link = Command::new("setpriv");
        link.args(["--bounding-set", "-all", "--inh-caps", "-all", env!("CARGO_BIN_EXE_giusto")]);
        let output =
            link.args(["link", "s.toml", "--", "true"]).current_dir(folder.0.path()).output().unwrap();
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.contains("use --relay") && complaint.trim().lines().count() == 1, "{complaint}");
    });
}

/// TCP fills a queue of 100 ms to the arithmetic goodput, and keeps its checksums, also where the queue marks.
#[test]
fn tcp_has_its_arithmetic_goodput_and_keeps_its_checksums() {
    in_namespace("link: TCP", 65_536, || {
        if !installed("link: TCP", "iperf3") {
            return;
        }
        for (queue, least, marks) in [
            ("{ kind = \"drop-tail\", limit = \"100 ms\" }", 0.85, false),
            ("{ kind = \"step-mark\", threshold = \"2 ms\" }", 0.415, true),
        ] {
            let folder = scenario(&format!("delay = \"5 ms\", rate = \"10 Mbit/s\", queue = {queue}"));
            // In a namespace of the test nobody else uses the port.
            let client = "sysctl -qw net.ipv4.tcp_ecn=1; for i in 1 2 3 4 5 6 7 8 9 10; do \
                          iperf3 -c $GIUSTO_FAR -t 3 -O 1 -J > r.json && break; sleep 0.3; done; cat /proc/net/snmp > snmp";
            let server = "sysctl -qw net.ipv4.tcp_ecn=1; exec iperf3 -s > /dev/null";
            let output = run(&folder, &["--json", "--far", server, "--", "sh", "-c", client]);
            let (result, status) = ended(&output);
            assert_eq!(status, 0, "{}", text(&output.stderr));
            let link = &result["links"][0];
            assert_eq!(
                (count(&link["marked_packets"]) > 10, &link["aqm_packets"]),
                (marks, &0.into()),
                "{link}"
            );
            let report = std::fs::read_to_string(folder.path("r.json")).unwrap();
            let end = &serde_json::from_str::<Value>(&report).unwrap()["end"];
            // 1448 B of 1500 B are payload: headers of IPv4 and TCP, and the timestamps of RFC 7323. A busy machine may delay the programs;
            // nothing may exceed the arithmetic by more than rounding.
            let share = number(&end["sum_received"]["bits_per_second"]) / (10e6 * 1448.0 / 1500.0);
            assert!((least..1.01).contains(&share), "{queue}: {share}");
            assert!(count(&link["delivered_packets"]) > 1_000, "{link}");
            // A wrong checksum of a marked packet would be a loss.
            assert!(!marks || end["sum_sent"]["retransmits"] == 0, "{}", end["sum_sent"]);
            // Neither IP headers nor TCP segments arrived damaged: RFC 4293, `ipInHdrErrors`; RFC 4022, `tcpInErrs`.
            let table = std::fs::read_to_string(folder.path("snmp")).unwrap();
            let value = |protocol: &str, name: &str| snmp(&table, protocol, name);
            assert_eq!(
                [value("Ip:", "InHdrErrors"), value("Tcp:", "InErrs"), value("Tcp:", "InCsumErrors")],
                [0; 3]
            );
            assert!(value("Tcp:", "InSegs") > 100, "{table}");
        }
    });
}

/// A value of `/proc/net/snmp`.
fn snmp(table: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = table.lines().filter(|line| line.starts_with(protocol));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split_whitespace().position(|word| word == name).unwrap();
    values.split_whitespace().nth(place).unwrap().parse().unwrap()
}

#[test]
fn corrupted_packets_are_discarded_by_the_kernel() {
    in_namespace("link: corruption", 65_536, || {
        let folder = scenario("delay = \"1 ms\", corruption = 0.2");
        let far = UdpSocket::bind("0.0.0.0:0").unwrap();
        far.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let before = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        let send = format!(
            "{} send $GIUSTO_FAR:{} --one-way --raw --count 500 --rate 4M --size 1000 >&2",
            env!("CARGO_BIN_EXE_giusto"),
            far.local_addr().unwrap().port()
        );
        let received = thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                far.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut received = u64::from(far.recv(&mut [0; 2000]).is_ok());
                far.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
                while far.recv(&mut [0; 2000]).is_ok() {
                    received += 1;
                }
                received
            });
            let (result, status) = ended(&run(&folder, &["--json", "--", "sh", "-c", &send]));
            assert!(matches!(status, 0 | 3), "{result}");
            let received = receiver.join().unwrap();
            let (link, flow) = (&result["links"][0], &result["flows"][0]);
            let offered = &link["offered_packets"];
            assert_has(link, &json!({ "dropped_packets": 0, "delivered_packets": offered }));
            assert_eq!(link["corrupted_packets"], flow["lost_packets"], "{result}");
            assert_eq!(flow["received_packets"].as_u64().unwrap(), received, "{result}");
            received
        });
        // The standard deviation of a binomial distribution is 9.
        assert!((360..440).contains(&received), "{received}");
        let after = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        let errors = snmp(&after, "Udp:", "InCsumErrors") - snmp(&before, "Udp:", "InCsumErrors");
        assert_eq!(errors, 500 - received);
    });
}
