//! `giusto send --protocol iperf3` against the installed iperf3, on loopback.
//!
//! `GIUSTO_TEST_IPERF3` names another iperf3, such as one of the newest version. No test depends on how fast this machine is.

use std::{
    fs,
    io::{BufRead, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use crate::common::{
    assert_measured, giusto, intervals_and_results, json,
    namespace::run_with_ipv6_first,
    process::{Listener, Running},
    run, text, total,
};
use serde_json::Value;

/// The iperf3 to test against. Where there is none, that is said in spite of captured output.
pub(crate) fn iperf3() -> Option<Command> {
    let program = std::env::var("GIUSTO_TEST_IPERF3").unwrap_or("iperf3".to_owned());
    let found = Command::new(&program).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        let _ = writeln!(std::io::stderr(), "SKIPPED iperf3 interoperability: {program} is not installed");
    }
    found.then(|| {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    })
}

/// An `iperf3 -s` on a free port of loopback, that listens.
fn iperf3_server(args: &[&str]) -> Option<(Running, String)> {
    for _ in 0..5 {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = iperf3()?;
        command.args(["-s", "-B", "127.0.0.1", "-p", &port.to_string()]).args(args);
        let mut server = Running(command.stderr(Stdio::null()).spawn().unwrap());
        for _ in 0..600 {
            if listens(port) {
                return Some((server, format!("127.0.0.1:{port}")));
            }
            if server.0.try_wait().unwrap().is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
    panic!("no free port for iperf3 -s");
}

/// Whether a socket listens there. A connection would take the place of the test's client.
fn listens(port: u16) -> bool {
    let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
    sockets.lines().any(|line| line.contains(&format!(":{port:04X} 00000000:0000 0A")))
}

/// A `giusto recv --accept iperf3` on a free port of loopback.
pub(crate) struct Server(pub(crate) Listener);

impl Server {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self(Listener::start(&[&["--accept", "iperf3", "127.0.0.1:0"], args].concat()))
    }

    pub(crate) fn client(&self, args: &[&str]) -> Option<Command> {
        let mut command = iperf3()?;
        let port = self.0.address.port().to_string();
        command.args(["-c", "127.0.0.1", "-p", &port]).args(args);
        Some(command)
    }

    /// Its JSON and its exit status.
    pub(crate) fn result(self) -> (Value, i32) {
        self.0.result()
    }
}

pub(crate) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no count: {value}"))
}

/// Each datagram that was sent is received or lost, and something was received.
pub(crate) fn assert_sum(run: &Value) {
    let [sent, received, lost] =
        ["sent_packets", "received_packets", "lost_packets"].map(|name| count(&run[name]));
    assert_eq!(received + lost, sent, "{run}");
    assert!(received > 0 && received <= sent, "{run}");
    assert_eq!(run["doubts"], Value::Array(Vec::new()), "{run}");
}

/// Whether a JSON output of iperf3 is of UDP, and its sum of all streams.
pub(crate) fn iperf3_sum(output: &[u8]) -> Value {
    let value: Value =
        serde_json::from_slice(output).unwrap_or_else(|error| panic!("{error}: {}", text(output)));
    value["end"]["sum"].clone()
}

#[test]
fn an_iperf3_server_receives_what_is_sent() {
    let Some((server, to)) = iperf3_server(&["-1", "-J"]) else { return };
    let args =
        ["send", &to, "--protocol", "iperf3", "--rate", "2M", "--size", "500", "--duration", "1s", "--json"];
    let output = run(&args);
    let ours = json(&output);
    assert_measured(output.status.code(), &ours);
    // 2 Mbit/s of 500 B for 1 s.
    let sent = count(&ours["sent_packets"]);
    assert!((495..=501).contains(&sent), "{ours}");
    assert_eq!((ours["format"].as_str(), ours["strategy"].as_str()), (Some("iperf3"), Some("grid")));
    assert_eq!((&ours["received_packets"], &ours["lost_packets"]), (&Value::Null, &Value::Null));
    let far_end = &ours["far_end"];
    assert_eq!(far_end["program"], "iperf3 server");
    let received = count(&far_end["received_packets"]);
    assert!(received > 0 && received + count(&far_end["lost_packets"]) <= sent, "{ours}");
    assert!(far_end["jitter_ms"].as_f64().unwrap() >= 0.0);
    // iperf3's own account of the same test.
    let theirs: Value = serde_json::from_slice(&server.output().stdout).unwrap();
    let intervals = theirs["intervals"].as_array().unwrap();
    let sum = |name: &str| intervals.iter().map(|interval| count(&interval["sum"][name])).sum::<u64>();
    assert_eq!(sum("bytes"), received * 500);
    assert_eq!(sum("lost_packets"), count(&far_end["lost_packets"]));
}

#[test]
fn an_iperf3_server_sends_with_reverse() {
    let Some((server, to)) = iperf3_server(&["-1", "-J"]) else { return };
    let output = run(&[
        "send",
        &to,
        "--protocol",
        "iperf3",
        "-R",
        "--rate",
        "2M",
        "--size",
        "500",
        "--duration",
        "1s",
        "--json",
    ]);
    let ours = json(&output);
    assert_measured(output.status.code(), &ours);
    assert_sum(&ours);
    assert_eq!(ours["peer"], "iperf3 server");
    assert_eq!(ours["far_end"]["sent_packets"], ours["sent_packets"]);
    assert!(ours["far_end"]["received_packets"].is_null());
    // 2 Mbit/s of 500 B: at least a quarter on a busy machine, and no more than iperf3 says.
    assert!((125..=600).contains(&count(&ours["received_packets"])), "{ours}");
    assert_eq!(iperf3_sum(&server.output().stdout)["packets"], ours["sent_packets"]);
}

#[test]
fn several_streams_go_either_way() {
    for reverse in [false, true] {
        let Some((_server, to)) = iperf3_server(&["-1"]) else { return };
        let mut args = vec![
            "send",
            &to,
            "--protocol",
            "iperf3",
            "--streams",
            "3",
            "--duration",
            "500ms",
            "--size",
            "250",
            "--json",
        ];
        args.extend(reverse.then_some("--reverse"));
        let output = run(&args);
        let ours = json(&output);
        assert_measured(output.status.code(), &ours);
        let runs = ours["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 3);
        for run in runs {
            if reverse {
                assert_sum(run);
            } else {
                let reported = count(&run["far_end"]["received_packets"]);
                assert!(reported > 0 && reported <= count(&run["sent_packets"]), "{run}");
            }
        }
    }
}

#[test]
fn both_directions_at_once_have_a_result_each() {
    let Some((_server, to)) = iperf3_server(&["-1"]) else { return };
    let flags = ["--bidir", "--rate", "2M", "--size", "500", "--duration", "1s", "--json"];
    let output = run(&[&["send", &to, "--protocol", "iperf3"], &flags[..]].concat());
    let ours = json(&output);
    assert_measured(output.status.code(), &ours);
    let runs = ours["runs"].as_array().unwrap();
    let (received, sent): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run["from"].is_string());
    let ([received], [sent]) = (&received[..], &sent[..]) else { panic!("{ours}") };
    assert!((495..=501).contains(&count(&sent["sent_packets"])), "{ours}");
    assert!(count(&sent["far_end"]["received_packets"]) > 0, "{ours}");
    assert_sum(received);
    assert!(count(&received["received_packets"]) > 400, "{ours}");
}

#[test]
fn a_count_ends_a_test_in_either_direction() {
    for reverse in [false, true] {
        let Some((_server, to)) = iperf3_server(&["-1"]) else { return };
        let mut args = vec!["send", &to, "--protocol", "iperf3", "--count", "40", "--size", "250", "--json"];
        args.extend(reverse.then_some("-R"));
        let output = run(&args);
        let ours = json(&output);
        assert_measured(output.status.code(), &ours);
        // The server sends until the client ends the test.
        let most = if reverse { 4000 } else { 40 };
        assert!((40..=most).contains(&count(&ours["sent_packets"])), "{ours}");
    }
}

#[test]
fn a_killed_iperf3_server_is_an_error_with_figures() {
    for reverse in [false, true] {
        let Some((server, to)) = iperf3_server(&[]) else { return };
        let mut command = giusto(&["send", &to, "--protocol", "iperf3", "--duration", "60s", "--json"]);
        if reverse {
            command.arg("-R");
        }
        let sender = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        thread::sleep(Duration::from_secs(2));
        drop(server);
        let output = sender.output();
        assert_eq!(output.status.code(), Some(1));
        let ours = json(&output);
        assert!(ours["ended"].as_str().unwrap().contains("the iperf3 server"), "{ours}");
        assert!(ours["lost_packets"].is_null() && ours["far_end"].is_null(), "{ours}");
    }
}

#[test]
fn ctrl_c_ends_a_test_with_both_figures() {
    let Some((_server, to)) = iperf3_server(&[]) else { return };
    let mut command = giusto(&["send", &to, "--protocol", "iperf3", "--duration", "60s", "--json"]);
    let sender = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    thread::sleep(Duration::from_secs(2));
    sender.signal("INT");
    let output = sender.output();
    let ours = json(&output);
    assert_measured(output.status.code(), &ours);
    assert_eq!(ours["ended"], "interrupted");
    assert!(count(&ours["far_end"]["received_packets"]) > 0, "{ours}");
}

#[test]
fn a_busy_absent_or_foreign_server_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let other = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH\r\n").unwrap();
        // Until the client has gone.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let send = |to: &str| {
        let output = run(&["send", to, "--protocol", "iperf3", "--duration", "1s"]);
        (output.status.code(), text(&output.stderr))
    };
    let (code, error) = send(&to);
    assert_eq!(code, Some(1));
    assert!(error.contains("not an iperf3 server"), "{error}");
    other.join().unwrap();
    let (code, error) = send(&to);
    assert_eq!(code, Some(1));
    assert!(error.contains("is `iperf3 -s` running there?"), "{error}");

    let server = Server::start(&[]);
    let to = server.0.address.to_string();
    let first = giusto(&["send", &to, "--protocol", "iperf3", "-t", "30"]).stdout(Stdio::null()).spawn();
    let _first = Running(first.unwrap());
    assert!(server.0.next_line().contains("1 stream from the client"));
    let (code, error) = send(&to);
    assert_eq!(code, Some(1));
    assert!(error.contains("busy with another test"), "{error}");
}

#[test]
fn a_server_that_sends_without_end_blocks_no_interrupt() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // PARAM_EXCHANGE, CREATE_STREAMS, then TEST_START again and again until the client has closed.
        let mut sent = stream.write_all(&[9, 10]);
        while sent.is_ok() {
            sent = stream.write_all(&[1; 4096]);
        }
    });
    let mut command = giusto(&["send", &to, "--protocol", "iperf3"]);
    let mut sender = Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    thread::sleep(Duration::from_secs(1));
    sender.signal("INT");
    let ended = (0..300).any(|_| {
        thread::sleep(Duration::from_millis(100));
        sender.0.try_wait().unwrap().is_some()
    });
    assert!(ended, "30 s after the interrupt");
    server.join().unwrap();
    let mut error = String::new();
    sender.0.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert!(error.contains("interrupted before the first datagram"), "{error}");
}

#[test]
fn flags_that_iperf3_does_not_know_are_refused() {
    for args in [
        &["send", "127.0.0.1", "--protocol", "iperf3", "--rtp"][..],
        &["send", "127.0.0.1", "--protocol", "iperf3", "--payload", "uniform:100-200"],
        &["send", "127.0.0.1", "--protocol", "iperf3", "--streams", "129"],
        &["send", "127.0.0.1", "--protocol", "iperf3", "--size", "15"],
        &["recv", "--accept", "iperf3", "--metrics", "9105"],
        &["recv", "--accept", "iperf3", "--max-bytes", "1000"],
    ] {
        let output = run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        let flag = args.iter().rfind(|word| word.starts_with("--")).unwrap();
        assert!(error.starts_with("error: ") && error.contains(flag), "{error}");
    }
}

#[test]
fn intervals_of_a_client_add_up_to_its_result() {
    for direction in [&[][..], &["-R"], &["--bidir"]] {
        let Some((_server, to)) = iperf3_server(&["-1"]) else { return };
        let flags = ["-b", "2M", "-l", "500", "-t", "1.6", "-i", "0.5", "--json-lines"];
        let mut command = giusto(&[&["send", &to, "--protocol", "iperf3"], &flags[..], direction].concat());
        let mut client = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let mut first = String::new();
        let mut stdout = std::io::BufReader::new(client.0.stdout.take().unwrap());
        stdout.read_line(&mut first).unwrap();
        assert!(client.0.try_wait().unwrap().is_none(), "the interval came after the end");
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        let lines = first + &rest;
        let (intervals, results) = intervals_and_results(&lines);
        assert!((2..=6).contains(&intervals.len()), "{lines}");
        for result in &results {
            let fields = if result["from"].is_string() {
                &["received_packets", "lost_packets"][..]
            } else {
                &["sent_packets"]
            };
            for field in fields {
                assert_eq!(total(&intervals, field), result[field].as_i64().unwrap(), "{field}: {lines}");
            }
        }
        let sends = direction.first() != Some(&"-R");
        let receives = !direction.is_empty();
        assert_eq!(results.len(), usize::from(sends) + usize::from(receives), "{lines}");
        assert_eq!(intervals[1]["sent_packets"].is_u64(), sends, "{lines}");
        assert_eq!(intervals[1]["received_packets"].is_u64(), receives, "{lines}");
        assert_eq!(intervals[0]["end_s"], intervals[1]["start_s"], "{lines}");
    }
}

#[test]
fn every_address_of_a_name_is_tried() {
    let server = Server::start(&[]);
    let to = format!("localhost:{}", server.0.address.port());
    let args = ["send", &to, "--protocol", "iperf3", "--count", "5", "-J"];
    if let Some(output) = run_with_ipv6_first("every_address_of_a_name_is_tried", &args) {
        assert_eq!(json(&output)["sent_packets"], 5);
    }
}

/// A path to an iperf3 server that drops the first datagrams: this many to it, and this many from it.
fn path_that_drops(server: SocketAddr, mut drops: [usize; 2]) -> SocketAddr {
    let (tcp, near) = (0..20)
        .find_map(|_| {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            UdpSocket::bind(tcp.local_addr().unwrap()).ok().map(|udp| (tcp, udp))
        })
        .unwrap();
    let address = tcp.local_addr().unwrap();
    thread::spawn(move || {
        let (client, _) = tcp.accept().unwrap();
        let far = TcpStream::connect(server).unwrap();
        for (mut from, mut to) in [(client.try_clone().unwrap(), far.try_clone().unwrap()), (far, client)] {
            thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    thread::spawn(move || {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        far.connect(server).unwrap();
        let mut bytes = [0; 2000];
        let (mut length, client) = near.recv_from(&mut bytes).unwrap();
        let (back, from_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        thread::spawn(move || {
            let mut bytes = [0; 2000];
            while let Ok(length) = from_far.recv(&mut bytes) {
                if drops[1] > 0 {
                    drops[1] -= 1;
                } else {
                    let _ = back.send_to(&bytes[..length], client);
                }
            }
        });
        loop {
            if drops[0] > 0 {
                drops[0] -= 1;
            } else {
                let _ = far.send(&bytes[..length]);
            }
            let Ok((more, _)) = near.recv_from(&mut bytes) else { return };
            length = more;
        }
    });
    address
}

#[test]
fn a_lost_greeting_is_repeated_and_counts_as_no_datagram() {
    // The greeting is lost, twice; or the answer to it.
    for drops in [[2, 0], [0, 1]] {
        let Some((server, to)) = iperf3_server(&["-1", "-J"]) else { return };
        let path = path_that_drops(to.parse().unwrap(), drops).to_string();
        let output =
            run(&["send", &path, "--protocol", "iperf3", "--count", "100", "-b", "1M", "-l", "500", "-J"]);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{drops:?}: {}", text(&output.stderr));
        let ours = json(&output);
        assert_eq!(
            (&ours["sent_packets"], &ours["far_end"]["received_packets"]),
            (&100.into(), &100.into()),
            "{ours}"
        );
        assert_eq!(ours["far_end"]["lost_packets"], 0, "{ours}");
        let theirs = iperf3_sum(&server.output().stdout);
        assert_eq!((&theirs["packets"], &theirs["lost_packets"]), (&100.into(), &0.into()), "{theirs}");
    }
}
