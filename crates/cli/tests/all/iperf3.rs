//! `giusto send --protocol iperf3` against the installed iperf3, on loopback.
//!
//! `GIUSTO_TEST_IPERF3` names another iperf3, such as one of the newest version. No test depends on how fast this machine is.

use std::{
    fs,
    io::{BufRead, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use crate::common::{
    assert_has, count, giusto, intervals_and_results, json, measured, number,
    process::{Listener, Running, start},
    relay::{Relay, Way},
    run, skip, text, total,
};
use serde_json::{Value, json};

/// The iperf3 to test against. Where there is none, that is said in spite of captured output.
pub(crate) fn iperf3() -> Option<Command> {
    let program = std::env::var("GIUSTO_TEST_IPERF3").unwrap_or("iperf3".to_owned());
    let found = Command::new(&program).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        skip("iperf3 interoperability", &format!("{program} is not installed"));
    }
    found.then(|| {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    })
}

/// An `iperf3 -s` on a free port of loopback, that listens.
pub(crate) fn iperf3_server(args: &[&str]) -> Option<(Running, String)> {
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

/// Each datagram that was sent is received or lost, and something was received.
pub(crate) fn assert_sum(run: &Value) {
    let [sent, received, lost] =
        ["sent_packets", "received_packets", "lost_packets"].map(|name| count(&run[name]));
    assert_eq!(received + lost, sent, "{run}");
    assert!(received > 0 && received <= sent && run["doubts"] == json!([]), "{run}");
}

/// Whether a JSON output of iperf3 is of UDP, and its sum of all streams.
pub(crate) fn iperf3_sum(output: &[u8]) -> Value {
    let value: Value =
        serde_json::from_slice(output).unwrap_or_else(|error| panic!("{error}: {}", text(output)));
    value["end"]["sum"].clone()
}

/// What `giusto send --protocol iperf3` measures.
#[track_caller]
fn sent(to: &str, flags: &[&str]) -> Value {
    measured(&run(&[&["send", to, "--protocol", "iperf3", "--size", "500", "--json"], flags].concat()))
}

#[test]
fn an_iperf3_server_receives_what_is_sent() {
    let Some((server, to)) = iperf3_server(&["-1", "-J"]) else { return };
    let ours = sent(&to, &["--rate", "2M", "--duration", "1s"]);
    // 2 Mbit/s of 500 B for 1 s.
    let sent = count(&ours["sent_packets"]);
    assert!((495..=501).contains(&sent), "{ours}");
    assert_has(
        &ours,
        &json!({ "format": "iperf3", "strategy": "grid", "received_packets": null, "lost_packets": null }),
    );
    let far_end = &ours["far_end"];
    assert_eq!(far_end["program"], "iperf3 server");
    let received = count(&far_end["received_packets"]);
    assert!(received > 0 && received + count(&far_end["lost_packets"]) <= sent, "{ours}");
    assert!(number(&far_end["jitter_ms"]) >= 0.0);
    // iperf3's own account of the same test.
    let theirs: Value = serde_json::from_slice(&server.output().stdout).unwrap();
    let intervals = theirs["intervals"].as_array().unwrap();
    let sum = |name: &str| intervals.iter().map(|interval| count(&interval["sum"][name])).sum::<u64>();
    assert_eq!((sum("bytes"), sum("lost_packets")), (received * 500, count(&far_end["lost_packets"])));
}

#[test]
fn an_iperf3_server_sends_with_reverse() {
    let Some((server, to)) = iperf3_server(&["-1", "-J"]) else { return };
    let ours = sent(&to, &["-R", "--rate", "2M", "--duration", "1s"]);
    assert_sum(&ours);
    assert_eq!(ours["peer"], "iperf3 server");
    assert_has(&ours["far_end"], &json!({ "sent_packets": ours["sent_packets"], "received_packets": null }));
    // 2 Mbit/s of 500 B: at least a quarter on a busy machine, and no more than iperf3 says.
    assert!((125..=600).contains(&count(&ours["received_packets"])), "{ours}");
    assert_eq!(iperf3_sum(&server.output().stdout)["packets"], ours["sent_packets"]);
}

#[test]
fn streams_in_both_directions_at_once_have_a_result_each() {
    let Some((_server, to)) = iperf3_server(&["-1"]) else { return };
    let ours = sent(&to, &["--bidir", "--streams", "2", "--rate", "2M", "--duration", "1s"]);
    let runs = ours["runs"].as_array().unwrap();
    let (received, sent): (Vec<&Value>, Vec<&Value>) = runs.iter().partition(|run| run["from"].is_string());
    assert_eq!((received.len(), sent.len()), (2, 2), "{ours}");
    for run in sent {
        assert!((495..=501).contains(&count(&run["sent_packets"])), "{ours}");
        assert!(count(&run["far_end"]["received_packets"]) > 0, "{ours}");
    }
    for run in received {
        assert_sum(run);
        assert!(count(&run["received_packets"]) > 400, "{ours}");
    }
}

/// The server sends until the client ends the test.
#[test]
fn a_count_ends_a_test_in_the_reverse_direction() {
    let Some((_server, to)) = iperf3_server(&["-1"]) else { return };
    let ours = sent(&to, &["-R", "--count", "40"]);
    assert!((40..=4000).contains(&count(&ours["sent_packets"])), "{ours}");
}

#[test]
fn a_killed_iperf3_server_is_an_error_with_figures() {
    for reverse in [&[][..], &["-R"]] {
        let Some((server, to)) = iperf3_server(&[]) else { return };
        let send = ["send", &to, "--protocol", "iperf3", "--duration", "60s", "--json"];
        let sender = start(&[&send[..], reverse].concat());
        thread::sleep(Duration::from_secs(2));
        drop(server);
        let output = sender.output();
        assert_eq!(output.status.code(), Some(1));
        let ours = json(&output);
        assert!(ours["ended"].as_str().unwrap().contains("the iperf3 server"), "{ours}");
        assert_has(&ours, &json!({ "lost_packets": null, "far_end": null }));
    }
}

#[test]
fn ctrl_c_ends_a_test_with_both_figures() {
    let Some((_server, to)) = iperf3_server(&[]) else { return };
    let sender = start(&["send", &to, "--protocol", "iperf3", "--duration", "60s", "--json"]);
    thread::sleep(Duration::from_secs(2));
    sender.signal("INT");
    let ours = measured(&sender.output());
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
    let fails = |to: &str, expected: &str| {
        let output = run(&["send", to, "--protocol", "iperf3", "--duration", "1s"]);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains(expected), "{error}");
    };
    fails(&to, "not an iperf3 server");
    other.join().unwrap();
    fails(&to, "is `iperf3 -s` running there?");

    let server = Server::start(&[]);
    let to = server.0.to();
    let _first = start(&["send", &to, "--protocol", "iperf3", "-t", "30"]);
    assert!(server.0.next_line().contains("1 stream from the client"));
    fails(&to, "busy with another test");
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
fn intervals_of_a_client_add_up_to_its_result() {
    for direction in [&[][..], &["-R"], &["--bidir"]] {
        let Some((_server, to)) = iperf3_server(&["-1"]) else { return };
        let flags = ["-b", "2M", "-l", "500", "-t", "1.6", "-i", "0.5", "--json-lines"];
        let mut client = start(&[&["send", &to, "--protocol", "iperf3"], &flags[..], direction].concat());
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
        let (sends, receives) = (direction != ["-R"], !direction.is_empty());
        assert_eq!(results.len(), usize::from(sends) + usize::from(receives), "{lines}");
        assert_eq!(intervals[1]["sent_packets"].is_u64(), sends, "{lines}");
        assert_eq!(intervals[1]["received_packets"].is_u64(), receives, "{lines}");
        assert_eq!(intervals[0]["end_s"], intervals[1]["start_s"], "{lines}");
    }
}

/// A path to an iperf3 server that drops the first datagrams: this many to it, and this many from it.
fn path_that_drops(server: SocketAddr, mut drops: [usize; 2]) -> Relay {
    let (path, tcp) = std::iter::repeat_with(|| Relay::to(server))
        .find_map(|path| TcpListener::bind(path.address).ok().map(|tcp| (path, tcp)))
        .unwrap();
    path.set(Box::new(move |way, bytes| {
        let left = &mut drops[usize::from(way == Way::Back)];
        let drops = *left > 0;
        *left = left.saturating_sub(1);
        if drops { Vec::new() } else { vec![(Duration::ZERO, bytes.to_vec())] }
    }));
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
    path
}

#[test]
fn a_lost_greeting_is_repeated_and_counts_as_no_datagram() {
    // The greeting is lost, twice; or the answer to it.
    for drops in [[2, 0], [0, 1]] {
        let Some((server, to)) = iperf3_server(&["-1", "-J"]) else { return };
        let path = path_that_drops(to.parse().unwrap(), drops);
        let ours = sent(&path.address.to_string(), &["--count", "100", "-b", "1M"]);
        assert_eq!(ours["sent_packets"], 100, "{drops:?}: {ours}");
        assert_has(&ours["far_end"], &json!({ "received_packets": 100, "lost_packets": 0 }));
        let theirs = iperf3_sum(&server.output().stdout);
        assert_has(&theirs, &json!({ "packets": 100, "lost_packets": 0 }));
    }
}
