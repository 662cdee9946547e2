//! The habits of the people who use the command: short flags, bare numbers, names; what has no effect is refused.
//!
//! No test depends on how fast this machine is.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    os::unix::fs::PermissionsExt,
    time::Duration,
};

use crate::common::{
    assert_has, assert_measured, get, json, key_file,
    namespace::{in_namespace, with_hosts},
    process::Listener,
    run, text, total,
};
use serde_json::{Value, json};

/// A `giusto recv`; killed at the end of the test.
pub(crate) struct Receiver(pub(crate) Listener);

impl Receiver {
    pub(crate) fn start(address: &str, args: &[&str]) -> Self {
        Self(Listener::start(&[&[address], args].concat()))
    }

    pub(crate) fn to(&self) -> String {
        self.0.address.to_string()
    }

    /// The address of the metrics of a receiver with --metrics.
    pub(crate) fn metrics(&self) -> String {
        let line = self.0.next_line();
        line.strip_prefix("metrics at http://").unwrap().trim_end_matches("/metrics").to_owned()
    }

    /// Its next line on standard output.
    pub(crate) fn line(&mut self) -> String {
        let stdout = self.0.process.0.stdout.as_mut().unwrap();
        let (mut line, mut byte) = (Vec::new(), [0]);
        // Byte by byte: what follows is left for `rest`.
        while byte != *b"\n" && stdout.read(&mut byte).unwrap() > 0 {
            line.push(byte[0]);
        }
        text(&line)
    }

    pub(crate) fn rest(self) -> (String, i32) {
        let output = self.0.process.output();
        (text(&output.stdout), output.status.code().unwrap_or(-1))
    }
}

#[test]
fn the_far_end_sends_with_reverse_and_both_with_bidir() {
    let receiver = Receiver::start("127.0.0.1:0", &["--json", "--duration", "20s"]);
    let to = receiver.to();
    let output = run(&["send", &to, "-R", "-b", "1M", "-l", "500", "--count", "200", "-J", "-i", "0.3"]);
    let reversed = json(&output);
    assert_has(&reversed, &json!({ "received_packets": 200, "sent_packets": 200, "lost_packets": 0 }));
    assert_eq!(total(reversed["intervals"].as_array().unwrap(), "received_packets"), 200);

    let both = json(&run(&["send", &to, "--bidir", "-b", "1M", "-l", "500", "--count", "100", "-J"]));
    let runs = both["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{both}");
    assert!(runs.iter().all(|run| run["received_packets"] == 100 && run["lost_packets"] == 0), "{both}");

    let too_fast = run(&["send", &to, "-R", "-b", "200M"]);
    assert!(text(&too_fast.stderr).contains("it sends at most 100 Mbit/s"), "{}", text(&too_fast.stderr));
    receiver.0.process.signal("INT");
    let (stdout, status) = receiver.rest();
    let seen: Value = serde_json::from_str(&stdout).unwrap();
    assert_measured(Some(status), &seen);
    let runs = seen["runs"].as_array().unwrap();
    // Two that it sent, and one that it received.
    assert_eq!(runs.len(), 3, "{seen}");
    assert_eq!(runs.iter().filter(|run| run["to"].is_string()).count(), 2, "{seen}");
    assert_eq!(seen["unmeasured_datagrams"]["forged"], 0, "{seen}");
}

#[test]
fn a_far_end_that_limits_its_stream_is_an_error_with_figures() {
    let receiver = Receiver::start("127.0.0.1:0", &["--max-lifetime", "500ms"]);
    let to = receiver.0.address.to_string();
    let output = run(&["send", &to, "-R", "-b", "1M", "-l", "500", "-t", "3", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("of 750 datagrams"), "{}", text(&output.stderr));
    assert!(json(&output)["received_packets"].as_u64() > Some(50));
    // What is within the limit is no failure.
    let within = run(&["send", &to, "-R", "-b", "1M", "-l", "500", "--count", "50", "--json"]);
    assert_has(&json(&within), &json!({ "received_packets": 50 }));
    assert_eq!(text(&within.stderr), "");
}

#[test]
fn short_flags_mean_the_long_ones() {
    let receiver = Receiver::start("127.0.0.1:0", &[]);
    let port = receiver.0.address.port().to_string();
    let output =
        run(&["send", "127.0.0.1", "-p", &port, "-b", "1000000", "-l", "500", "-n", "5000", "-P", "2", "-J"]);
    let all = json(&output);
    let runs = all["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_has(
            run,
            &json!({ "rate_bps": 1_000_000, "size_bytes": 500, "sent_packets": 10, "received_packets": 10 }),
        );
    }
    let cbr = json(&run(&["cbr", "-b", "1M", "-l", "200", "-t", "0.3", "-J"]));
    assert_eq!(cbr["runs"][0]["sent_packets"], 188);
}

#[test]
fn a_number_without_a_unit_is_in_seconds() {
    for time in [["--duration", "0.3"], ["-t", "0.3"], ["-t", "300ms"]] {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let send = ["send", &nobody, "--one-way", "--raw", "-b", "800k", "-l", "100", "--json"];
        assert_eq!(json(&run(&[&send[..], &time].concat()))["sent_packets"], 300, "{time:?}");
    }
}

/// Who can read the file can forge what it authenticates.
#[test]
fn a_key_file_that_all_may_read_gets_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    fs::write(&path, key_file("07")).unwrap();
    let file = path.display().to_string();
    let warning =
        format!("warning: --key-file {file}: every user of this machine may read it: use chmod 600 {file}");
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (mode, warned) in [(0o644, true), (0o604, true), (0o640, false), (0o600, false)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let stamp = ["recv", "127.0.0.1:0", "--accept", "stamp"];
        for command in [&["send", &nobody][..], &["recv", "127.0.0.1:0"], &stamp] {
            let output = run(&[command, &["--key-file", &file, "-t", "0.1"]].concat());
            let error = text(&output.stderr);
            assert_eq!(error.matches(&warning).count(), usize::from(warned), "{command:?} {mode:o}: {error}");
        }
    }
}

#[test]
fn the_largest_values_do_no_harm() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for args in [
        &["--duration", "292 years"][..],
        &["--rate", "18446744073709551615"],
        &["--max-burst-rate", "18446744073709551615"],
        &["--burst", "18446744073709551615"],
        &["--bytes", "18446744073709551615"],
        &["--duration", "9223372036"],
        &["--seed", "18446744073709551615"],
    ] {
        let output = run(&[&["send", &nobody, "--one-way", "--raw", "--count", "3"], args].concat());
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 2 | 3)), "{args:?}: {code:?}: {}", text(&output.stderr));
    }
}

/// Also where the first address of the name is of IPv6.
#[test]
fn localhost_is_found_in_either_family() {
    in_namespace("localhost_is_found_in_either_family", 65_536, || {
        let hosts = tempfile::NamedTempFile::new().unwrap();
        for (names, listen) in [
            ("127.0.0.1 localhost\n", "127.0.0.1:0"),
            ("::1 localhost\n127.0.0.1 localhost\n", "127.0.0.1:0"),
            ("::1 localhost\n127.0.0.1 localhost\n", "[::]:0"),
        ] {
            fs::write(hosts.path(), names).unwrap();
            let receiver = Receiver::start(listen, &[]);
            let to = format!("localhost:{}", receiver.0.address.port());
            let output = with_hosts(hosts.path(), &["send", &to, "--count", "5", "-J"]).output().unwrap();
            assert_eq!(json(&output)["received_packets"], 5, "{listen} {names}");
        }
    });
}

#[test]
fn a_missing_receiver_gets_advice() {
    // Bound, but not giusto.
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for to in [nobody, deaf.local_addr().unwrap()].map(|to| to.to_string()) {
        let output = run(&["send", &to, "--rate", "1M"]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        for advice in [&to[..], "giusto recv", "firewall", "--protocol iperf3", "--one-way"] {
            assert!(message.contains(advice), "{advice}: {message}");
        }
    }
}

#[test]
fn metrics_are_served_and_harm_no_stream() {
    let receiver = Receiver::start("127.0.0.1:0", &["--metrics", "127.0.0.1:0"]);
    let metrics = receiver.metrics();
    assert!(get(&metrics, "/").starts_with("HTTP/1.1 404 "));
    // Clients that say nothing, or half of a request, and stay.
    let mut hostile: Vec<_> = (0..20).map(|_| TcpStream::connect(&metrics).unwrap()).collect();
    for client in &mut hostile {
        // It may have been closed already.
        let _ = client.write_all(b"GET /metrics HTTP/1.1\r\nA: ");
    }
    let to = receiver.to();
    let sent = json(&run(&["send", &to, "-b", "1M", "-l", "500", "--count", "200", "-J"]));
    assert_has(&sent, &json!({ "received_packets": 200, "lost_packets": 0 }));
    drop(hostile);
    // Counts are renewed four times a second; slots become free after a while.
    let page = (0..200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let mut client = TcpStream::connect(&metrics).ok()?;
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").ok()?;
        let mut answer = String::new();
        client.read_to_string(&mut answer).ok()?;
        answer.contains("\ngiusto_received_packets_total 200\n").then_some(answer)
    });
    let page = page.expect("200 datagrams received");
    for wanted in [
        "HTTP/1.1 200 OK\r\n",
        "application/openmetrics-text",
        "\ngiusto_opened_streams_total 1\n",
        "\ngiusto_lost_packets 0\n",
    ] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
}

#[test]
fn the_rule_for_bare_numbers_is_in_the_help() {
    let help = text(&run(&["--help"]).stdout);
    let rule = "A number without a unit is in bit/s, seconds or bytes; scenario files and --set need units.";
    assert!(help.contains(rule), "{help}");
    for (setting, quantity) in [("wire.rate=9", "rate"), ("duration=9", "time"), ("voice.size=9", "size")] {
        let refused = text(&run(&["sim", "first", "--set", setting]).stderr);
        assert!(refused.contains(&format!("expected a {quantity} with its unit")), "{refused}");
    }
    for command in ["send", "recv", "cbr"] {
        let help = text(&run(&[command, "--help"]).stdout);
        assert!(help.contains("-J, --json") && help.contains("-t, --duration"), "{help}");
    }
}
