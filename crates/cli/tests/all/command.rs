//! The `giusto` command: real processes and real sockets, on loopback.
//!
//! No test depends on how fast this machine is: rates and times are compared with each other, or bounded widely on both sides.

use std::{net::UdpSocket, process::Stdio, time::Duration};

use crate::common::{
    assert_measured, giusto, json,
    process::{Listener, signal},
    run,
};
use giusto_rtp::{RtpError, RtpHeader};
use giusto_session::probe::wire::{DATA_HEADER_BYTES, DataHeader, Message, OPENING_BYTES, StreamToken};
use serde_json::Value;

/// A `giusto recv` on a free port of loopback; killed at the end of the test.
struct Receiver(Listener);

impl Receiver {
    fn start(args: &[&str]) -> Self {
        Self(Listener::start(&[&["127.0.0.1:0"], args].concat()))
    }

    /// Waits until a stream is open, and for its first datagrams.
    fn wait_for_stream(&self) {
        let line = self.0.next_line();
        assert!(line.contains("stream of"), "{line}");
        std::thread::sleep(Duration::from_millis(700));
    }

    fn to(&self) -> String {
        self.0.address.to_string()
    }

    fn signal(&self, name: &str) {
        self.0.process.signal(name);
    }

    fn output(self) -> (Value, i32) {
        self.0.result()
    }
}

#[test]
fn wrong_usage_is_one_line_and_exit_status_2() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let cases: &[(&[&str], &str)] = &[
        (&["send", "127.0.0.1:9", "--rate", "0"], "above 0 bit/s"),
        (&["send", "127.0.0.1:9", "--rate", "fast"], "\"fast\""),
        (&["send", "127.0.0.1:9", "--rate", "1", "--size", "60000"], "longest of 24 h"),
        (&["send", "127.0.0.1:9", "--size", "39"], "at least 40 B to hold the giusto header, found 39 B"),
        (
            &["send", "127.0.0.1:9", "--size", "11", "--rtp"],
            "at least 12 B to hold the RTP header, found 11 B",
        ),
        (&["send", "127.0.0.1:9", "--size", "65508"], "at most 65507 B, found 65508 B"),
        (&["send", "127.0.0.1:9", "--duration", "10 m"], "needs one of the units"),
        (
            &["send", "127.0.0.1:9", "--duration", "0s"],
            "'--duration <TIME>': must be above 0 s, found \"0s\"",
        ),
        (
            &["send", "127.0.0.1:9", "--count", "0"],
            "'--count <N>': must be a whole number, 1 or more, found \"0\"",
        ),
        (&["send", "127.0.0.1:9", "--bytes", "0"], "'--bytes <BYTES>': must be above 0 B, found \"0\""),
        (&["send", "127.0.0.1:9", "--strategy", "gird"], "grid"),
        (&["send", "127.0.0.1:9", "--mode", "fast"], "precise, balanced, eco"),
        (&["send", "127.0.0.1:9", "--profile", "g723"], "g729"),
        (&["send", "127.0.0.1:9", "--profile", "g711", "--ptime", "7ms"], "ptime"),
        (&["send", "127.0.0.1:9", "--profile", "g711", "--wav", "/no/such.wav"], "/no/such.wav"),
        (&["send", "127.0.0.1:9", "--payload", "uniform:9"], "uniform"),
        (&["send", "127.0.0.1:9", "--payload", "trace:/no/such.csv"], "/no/such.csv"),
        (&["send", "127.0.0.1:9", "--max-burst-rate", "1k"], "1 kbit/s"),
        (&["send", "127.0.0.1:9", "--burst", "0"], "0"),
        (&["send", "127.0.0.1:9", "--dscp", "64"], "64"),
        (&["send", "127.0.0.1:9", "--duratoin", "1s"], "--duration"),
        (&["send", "127.0.0.1:"], "HOST:PORT"),
        (&["send", "127.0.0.1:0"], "HOST:PORT"),
        (&["send", "no-such-host.invalid:5005"], "no-such-host.invalid"),
        (&["recv", &taken], "choose another port"),
        (&["recv", "127.0.0.1:0", "--idle", "1ms"], "'--idle <TIME>': must be at least 100 ms, found 1 ms"),
        (&["cbr", "--rate", "1M,0"], "above 0 bit/s"),
        (&["cbr", "--size", "20"], "at least 40 B"),
        (&["cbr", "--duration", "0s"], "must be above 0 s, found \"0s\""),
        (&["cbr", "--against", "iperf3", "--against-path", "/bin/true"], "is not iperf3"),
        (&["reproduce", "something"], "firebind"),
        (&["frobnicate"], "frobnicate"),
        (&["smi"], "unknown command \"smi\": did you mean `giusto sim`?"),
        (&["help", "sedn"], "did you mean `giusto send`?"),
        (&["lte"], "giusto lte needs a command: one of traces"),
        (&[], "giusto demo"),
        (
            &["cbr", "--layer", "ip", "--against", "iperf3"],
            "--layer: must be payload with --against, found ip",
        ),
    ];
    for (args, expected) in cases {
        let output = run(args);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
        let lines = message.trim_end().lines().filter(|line| !line.starts_with("  tip: "));
        assert_eq!(lines.count(), 1, "{args:?}: {message}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn every_help_page_has_an_example() {
    let main = String::from_utf8(run(&["--help"]).stdout).unwrap();
    assert!(main.contains("Exit status:") && main.contains("130  ended by a second Ctrl-C"), "{main}");
    let names =
        main.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Long descriptions continue on lines that are indented further.
    let names = names.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.starts_with(&["demo", "send", "recv", "call", "cbr", "sim"]), "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let help = String::from_utf8(run(&[name, "--help"]).stdout).unwrap();
        let (_, examples) = help.split_once("Example").unwrap_or_else(|| panic!("{name} has no example"));
        assert!(examples.contains(&format!("  giusto {name}")), "{name}: {examples}");
    }
}

#[test]
fn both_ends_report_the_same_figures() {
    let receiver = Receiver::start(&["--once", "--json", "--no-offload"]);
    let args = ["--rate", "2M", "--size", "500", "--count", "200", "--dscp", "46", "--ecn", "ect1", "--json"];
    let output = run(&[&["send", &receiver.to()], &args[..]].concat());
    let (sent, (received, code)) = (json(&output), receiver.output());
    assert_measured(output.status.code(), &sent);
    assert_measured(Some(code), &received);
    for end in [&sent, &received] {
        assert_eq!(end["strategy"], "grid");
        assert_eq!(end["rate_bps"], 2_000_000);
        assert_eq!(end["size_bytes"], 500);
        assert_eq!(end["packets_per_cycle"], 1);
        assert_eq!(end["period_ns"], 2_000_000);
        assert_eq!(end["sent_packets"], 200);
        assert_eq!(end["received_packets"], 200);
        assert_eq!(end["lost_packets"], 0);
        assert_eq!(end["ecn"]["ect1_packets"], 200);
        assert_eq!(end["dscp"], 46);
        assert!(end["one_way_delay_ms"]["basis"].as_str().unwrap().starts_with("absolute"));
    }
    for figure in ["rx_rate_bps", "gap_error_us", "schedule_error_us", "tx_rate_bps"] {
        assert_eq!(sent[figure], received[figure], "{figure}");
    }
    // 200 datagrams enclose 199 intervals, however long they took.
    let rate = sent["rx_rate_bps"].as_f64().unwrap();
    let intervals = rate * received["duration_s"].as_f64().unwrap() / (500.0 * 8.0);
    assert!((198.999..199.001).contains(&intervals), "{intervals}");
    let error = sent["rate_error_ppm"].as_f64().unwrap();
    assert!((error - (rate / 2e6 - 1.0) * 1e6).abs() < 1e-3, "{error} ppm at {rate} bit/s");
}

#[test]
fn several_streams_are_measured_separately() {
    let receiver = Receiver::start(&["--json"]);
    let args = ["--rate", "400k", "--size", "100", "--count", "50", "--streams", "5", "--json"];
    let sent = json(&run(&[&["send", &receiver.to()], &args[..]].concat()));
    assert_eq!(sent["runs"].as_array().unwrap().len(), 5);
    receiver.signal("INT");
    let (received, code) = receiver.output();
    assert_measured(Some(code), &received);
    let runs = received["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 5);
    assert!(runs.iter().all(|run| run["received_packets"] == 50 && run["lost_packets"] == 0), "{received}");
}

#[test]
fn voice_has_a_score_and_a_delay() {
    let receiver = Receiver::start(&["--once", "--json"]);
    let output = run(&["send", &receiver.to(), "--profile", "g711", "--count", "50", "--json"]);
    let (sent, (received, _)) = (json(&output), receiver.output());
    for end in [&sent, &received] {
        assert_eq!((&end["size_bytes"], &end["rate_bps"]), (&Value::from(172), &Value::from(68_800)));
        let mos = end["voice"]["mos"].as_f64().unwrap();
        // A perfect call has 4.41. On a busy machine datagrams are late; the scale ends at 1.
        assert!((1.0..4.42).contains(&mos), "{mos}");
        // The sender reports relate the timestamps to the clock of this machine, within a unit of 8 kHz.
        let delay = &end["one_way_delay_ms"];
        assert_eq!(delay["basis"], "absolute within 125.0 us: clock offset estimated");
        let quantiles = ["min", "p50", "p99", "p999", "max"].map(|name| delay[name].as_f64().unwrap());
        assert!(quantiles.is_sorted() && quantiles[0] >= -0.13, "{delay}");
        assert!(quantiles[4] > 0.0 && quantiles[4] < 60_000.0, "{delay}");
    }
    assert_eq!(received["format"], "rtp g711");
}

#[test]
fn a_trace_sets_sizes_and_times() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.csv");
    std::fs::write(&trace, "time_s,size_bytes\n0,100\n0.05,200\n0.3,300\n").unwrap();
    let receiver = Receiver::start(&["--once", "--json"]);
    let spec = format!("trace:{}", trace.display());
    let sent = json(&run(&["send", &receiver.to(), "--payload", &spec, "--json"]));
    let (received, _) = receiver.output();
    assert_eq!(
        (&sent["strategy"], &received["strategy"]),
        (&Value::from("recorded"), &Value::from("recorded"))
    );
    assert_eq!((&sent["sent_packets"], &received["received_packets"]), (&Value::from(3), &Value::from(3)));
    // The last datagram never leaves before its time; a busy machine may delay it.
    let duration = sent["duration_s"].as_f64().unwrap();
    assert!((0.3..30.0).contains(&duration), "{duration}");
    std::fs::write(&trace, "0.3,100\n0.1,100\n").unwrap();
    let backwards = run(&["send", "127.0.0.1:9", "--payload", &spec]);
    let message = String::from_utf8_lossy(&backwards.stderr).into_owned();
    assert_eq!(backwards.status.code(), Some(2));
    assert!(message.contains("trace.csv:2"), "{message}");
}

/// The header of an RTP datagram; `None` for RTCP.
fn media(datagram: &[u8]) -> Option<RtpHeader> {
    match RtpHeader::parse(datagram) {
        Err(RtpError::Rtcp(_)) => None,
        other => Some(other.unwrap().0),
    }
}

#[test]
fn one_way_streams_reach_receivers_without_giusto() {
    for (flags, check) in [
        (&["--raw", "--size", "77"][..], None),
        (&["--profile", "g729"][..], Some(18)),
        (&["--rtp", "--size", "300"][..], Some(96)),
    ] {
        let plain = UdpSocket::bind("127.0.0.1:0").unwrap();
        plain.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let to = plain.local_addr().unwrap().to_string();
        let rate: &[&str] = if flags[0] == "--profile" { &[] } else { &["--rate", "1M"] };
        let output = run(&[&["send", &to, "--one-way", "--count", "20", "--json"], flags, rate].concat());
        let sent = json(&output);
        assert_measured(output.status.code(), &sent);
        assert_eq!(sent["sent_packets"], 20);
        let mut buffer = [0; 2048];
        let mut sequences = Vec::new();
        while let Ok(length) = plain.recv(&mut buffer) {
            let datagram = &buffer[..length];
            if let Some(payload_type) = check {
                // Sender reports come from the same port (RFC 5761).
                let Some(header) = media(datagram) else { continue };
                assert_eq!(header.payload_type, payload_type);
                sequences.push(header.sequence);
            } else {
                assert_eq!(length, 77);
                sequences.push(sequences.len() as u16);
            }
        }
        assert_eq!(sequences.len(), 20);
        assert!(sequences.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "{sequences:?}");
    }
}

#[test]
fn an_rtp_receiver_reports_to_a_sender_that_did_not_ask() {
    let receiver = Receiver::start(&["--once", "--json", "--accept", "rtp"]);
    let flags = ["--one-way", "--profile", "g711", "--count", "100"];
    let output = run(&[&["send", &receiver.to(), "--json"], &flags[..]].concat());
    let sent = json(&output);
    let (received, _) = receiver.output();
    assert_eq!(received["ended"], "left by the sender");
    assert_eq!(received["received_packets"], 99, "all but the first, which begins the stream: {received}");
    let far_end = &sent["far_end"];
    assert!(far_end["program"].as_str().unwrap().starts_with("RTCP of "), "{sent}");
    assert_eq!((&far_end["lost_packets"], &sent["lost_packets"]), (&Value::from(0), &Value::Null));
    let rtt = far_end["rtcp"]["round_trip_ms"].as_f64().unwrap();
    assert!((0.0..10_000.0).contains(&rtt), "{far_end}");
    // On a busy machine the receiver may find datagrams too late.
    let voip = &far_end["rtcp"]["voip"];
    assert_eq!(
        (&voip["loss_ratio"], &voip["jitter_buffer_nominal_ms"]),
        (&Value::from(0.0), &Value::from(40))
    );
    let (r_factor, mos) = (voip["r_factor"].as_u64().unwrap(), voip["mos_cq"].as_f64().unwrap());
    assert!(r_factor <= 93 && (1.0..=4.4).contains(&mos), "{voip}");
    assert!(
        (voip["r_factor"].as_f64().unwrap() - received["voice"]["r_factor"].as_f64().unwrap()).abs() <= 1.0
    );

    // Who does not answer changes nothing.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap().to_string();
    let sent = json(&run(&[&["send", &to, "--json"], &flags[..3], &["--count", "5"]].concat()));
    assert_eq!((&sent["sent_packets"], &sent["far_end"]), (&Value::from(5), &Value::Null));
}

#[test]
fn unannounced_streams_are_measured_with_accept() {
    let receiver = Receiver::start(&["--once", "--json", "--accept", "raw", "--idle", "300ms"]);
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        other.send_to(&[1; 50], receiver.0.address).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    let from = other.local_addr().unwrap().to_string();
    let (received, _) = receiver.output();
    assert_eq!((&received["received_packets"], &received["format"]), (&Value::from(20), &Value::from("raw")));
    assert_eq!(received["from"], from);
    assert_eq!(received["ended"], "idle timeout");
}

#[test]
fn hostile_datagrams_are_counted_and_harm_no_stream() {
    let receiver = Receiver::start(&["--json"]);
    let hostile = UdpSocket::bind("127.0.0.1:0").unwrap();
    hostile.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut forged = [0; 200];
    let header = DataHeader { token: StreamToken(7), sequence: 5, scheduled_ns: 0, sent_ns: 0 };
    assert!(header.write(&mut forged));
    let mut send =
        giusto(&["send", &receiver.to(), "--rate", "1M", "--size", "200", "--count", "300", "--json"]);
    let sender = send.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..20 {
        for datagram in
            [&b"hello"[..], b"", &forged, &forged[..DATA_HEADER_BYTES - 1], b"giu\x31\xff\xff", b"giu\x21"]
        {
            hostile.send_to(datagram, receiver.0.address).unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(hostile.recv(&mut [0; 2048]).is_err(), "an unknown sender got an answer");
    // A Hello is answered, by fewer bytes than it has.
    hostile.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    hostile.send_to(&Message::Hello { nonce: 1 }.encode(OPENING_BYTES), receiver.0.address).unwrap();
    assert!(hostile.recv(&mut [0; 2048]).unwrap() < OPENING_BYTES);

    let sent = json(&sender.wait_with_output().unwrap());
    assert_eq!((&sent["received_packets"], &sent["duplicate_packets"]), (&Value::from(300), &Value::from(0)));
    receiver.signal("TERM");
    let (received, code) = receiver.output();
    let unmeasured = &received["unmeasured_datagrams"];
    assert_measured(Some(code), &received);
    assert_eq!(unmeasured["foreign"], 40);
    assert_eq!(unmeasured["malformed"], 40);
    assert_eq!(unmeasured["forged"], 20);
    assert_eq!(unmeasured["other_version"], 20);
    assert_eq!(received["runs"][0]["received_packets"], 300);
}

#[test]
fn a_stopped_receiver_ends_its_sender_with_a_result() {
    let receiver = Receiver::start(&["--json"]);
    let mut send =
        giusto(&["send", &receiver.to(), "--rate", "1M", "--size", "200", "--duration", "60s", "--json"]);
    let sender = send.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    receiver.wait_for_stream();
    receiver.signal("INT");
    let (received, code) = receiver.output();
    let output = sender.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert_measured(Some(code), &received);
    assert!(message.contains("the receiver was stopped"), "{message}");
    let sent = json(&output);
    assert!(sent["sent_packets"].as_u64().unwrap() > 0);
    assert!(received["runs"][0]["received_packets"].as_u64().unwrap() > 0);
    assert_eq!(received["runs"][0]["ended"], "receiver stopped");
}

#[test]
fn a_lost_receiver_ends_the_run_with_an_error() {
    let mut receiver = Receiver::start(&["--json"]);
    let mut send =
        giusto(&["send", &receiver.to(), "--rate", "1M", "--size", "200", "--duration", "60s", "--json"]);
    let sender = send.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    receiver.wait_for_stream();
    receiver.0.process.0.kill().unwrap();
    let output = sender.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("disappeared"), "{message}");
    let sent = json(&output);
    assert!(sent["sent_packets"].as_u64().unwrap() > 0, "the sender's own figures are kept");
}

#[test]
fn a_stopped_sender_counts_what_it_never_sent() {
    let receiver = Receiver::start(&["--json"]);
    let args = ["--rate", "1M", "--size", "200", "--duration", "2s", "--json"];
    let mut send = giusto(&[&["send", &receiver.to()], &args[..]].concat());
    let sender = send.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    receiver.wait_for_stream();
    std::thread::sleep(Duration::from_millis(500));
    signal(&sender, "STOP");
    std::thread::sleep(Duration::from_millis(2500));
    signal(&sender, "CONT");
    let output = sender.wait_with_output().unwrap();
    let sent = json(&output);
    let [packets, skipped] =
        [&sent["sent_packets"], &sent["slips"]["skipped_packets"]].map(|n| n.as_u64().unwrap());
    // 625 datagrams a second for two seconds.
    assert_eq!(packets + skipped, 1250, "{sent}");
    assert!((250..=1249).contains(&skipped), "{sent}");
    assert_eq!((&sent["lost_packets"], output.status.code()), (&Value::from(0), Some(3)), "{sent}");
    assert!(sent["doubts"][0].as_str().unwrap().starts_with("this machine was overloaded"), "{sent}");
}

#[test]
fn a_stranger_does_not_end_recv_once() {
    let receiver = Receiver::start(&["--once", "--json"]);
    let args = ["--rate", "100k", "--size", "200", "--duration", "2s", "--json"];
    let mut send = giusto(&[&["send", &receiver.to()], &args[..]].concat());
    let sender = send.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    receiver.wait_for_stream();
    let stranger = giusto(&["send", &receiver.to(), "--count", "3", "--json"]).output().unwrap();
    assert_eq!(json(&stranger)["received_packets"], 3);
    let sent = json(&sender.wait_with_output().unwrap());
    assert_eq!((&sent["received_packets"], &sent["ended"]), (&Value::from(125), &Value::from("all sent")));
    let (received, code) = receiver.output();
    assert_measured(Some(code), &received);
    assert_eq!(received["received_packets"], 125);
}

#[test]
fn a_sender_that_disappears_is_an_error_of_recv_once() {
    let receiver = Receiver::start(&["--once", "--json", "--idle", "1s"]);
    let args = ["--rate", "100k", "--size", "200", "--duration", "60s"];
    let mut send = giusto(&[&["send", &receiver.to()], &args[..]].concat());
    let mut sender = send.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    receiver.wait_for_stream();
    std::thread::sleep(Duration::from_millis(300));
    sender.kill().unwrap();
    sender.wait().unwrap();
    let (received, code) = receiver.output();
    assert_eq!(code, 1, "{received}");
    assert!(received["received_packets"].as_u64().unwrap() > 0);
    // Whether more was sent is unknown.
    assert_eq!((&received["lost_packets"], &received["loss_ratio"]), (&Value::Null, &Value::Null));
}

#[test]
fn an_interrupted_sender_prints_its_result() {
    for name in ["INT", "TERM"] {
        let receiver = Receiver::start(&["--once", "--json"]);
        let args = ["--rate", "100k", "--size", "200", "--duration", "60s", "--json"];
        let mut send = giusto(&[&["send", &receiver.to()], &args[..]].concat());
        let sender = send.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        receiver.wait_for_stream();
        signal(&sender, name);
        let output = sender.wait_with_output().unwrap();
        let (sent, (received, _)) = (json(&output), receiver.output());
        assert_measured(output.status.code(), &sent);
        assert_eq!(sent["ended"], "interrupted");
        assert_eq!(sent["sent_packets"], received["received_packets"]);
        assert!(sent["sent_packets"].as_u64().unwrap() > 0);
    }
}

#[test]
fn a_missing_receiver_is_an_error() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = run(&["send", &nobody, "--rate", "1M"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("giusto recv") && message.contains(&nobody), "{message}");
}

#[test]
fn an_idle_receiver_uses_no_cpu_time() {
    let receiver = Receiver::start(&[]);
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", receiver.0.process.0.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // utime and stime, proc(5): fields 14 and 15, in hundredths of a second.
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(1));
    let used = ticks() - before;
    assert!(used <= 1, "{used} hundredths of a second of CPU time in 1 s");
}

#[test]
fn cbr_json_has_the_documented_fields() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("cbr.html");
    let args =
        ["--rate", "1M", "--size", "200", "--strategy", "grid,send-sleep", "--duration", "500ms", "--json"];
    let output = run(&[&["cbr"], &args[..], &["--out", page.to_str().unwrap()]].concat());
    let result = json(&output);
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|run| &run["strategy"]).collect::<Vec<_>>(), ["grid", "send-sleep"]);
    for run in runs {
        for field in [
            "rate_bps",
            "size_bytes",
            "packets_per_cycle",
            "period_ns",
            "sent_packets",
            "received_packets",
            "lost_packets",
            "duplicate_packets",
            "reordered_packets",
            "tx_rate_bps",
            "rx_rate_bps",
            "rate_error_ppm",
            "sender_cpu_ratio",
            "receiver_cpu_ratio",
        ] {
            assert!(run[field].is_number(), "{field}: {run}");
        }
        for field in ["schedule_error_us", "gap_error_us"] {
            let quantiles = ["p50", "p99", "p999", "max"].map(|name| run[field][name].as_f64().unwrap());
            assert!(quantiles.is_sorted(), "{field}: {quantiles:?}");
        }
        assert_eq!(run["peer"], Value::Null);
    }
    assert_eq!(
        (&runs[0]["packets_per_cycle"], &runs[1]["packets_per_cycle"]),
        (&Value::from(1), &Value::from(71))
    );
    assert_eq!(runs[1]["period_ns"], 113_600_000);
    assert!(std::fs::read_to_string(page).unwrap().contains("send-sleep"));
}

#[test]
fn the_demo_writes_one_self_contained_file() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("demo.html");
    let output = run(&["demo", "--quick", "--out", page.to_str().unwrap()]);
    // The machine may be too busy for calls.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&output.stderr));
    let html = std::fs::read_to_string(&page).unwrap();
    for wanted in [
        "A call across an emulated link",
        "Simulation and real time",
        "scream:v2 live",
        "Received rate",
        "Gaps between arrivals",
        "Resources granted by the system",
        "Accuracy",
        "How it was measured",
    ] {
        assert!(html.contains(wanted), "{wanted}");
    }
    for forbidden in ["<script src", "<link rel=\"stylesheet\"", "<img src=\"http"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left behind");
    let nowhere = run(&["demo", "--quick", "--out", "/no/such/place/demo.html"]);
    let message = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(message.contains("/no/such/place"), "{message}");
}

#[test]
fn an_interrupted_shaper_reproduction_keeps_its_runs() {
    let mut reproduce = giusto(&["reproduce", "shaper", "--quick", "--json"]);
    let reproduce = reproduce.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // There are fifteen runs of half a second each.
    std::thread::sleep(Duration::from_millis(1300));
    signal(&reproduce, "INT");
    let output = reproduce.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = json(&output);
    assert_eq!(all["name"], "shaper");
    let items = all["items"].as_array().unwrap();
    let item = |id: &str| items.iter().find(|item| item["id"] == id).unwrap_or_else(|| panic!("{id}"));
    let requested = item("fig7a-requested-500-rounds-up");
    for field in [
        "what",
        "unit",
        "published",
        "ours",
        "ours_low",
        "ours_high",
        "agrees",
        "why",
        "comparable",
        "figures",
    ] {
        assert!(requested.get(field).is_some(), "{field}");
    }
    assert_eq!((requested["ours"].as_f64(), &requested["agrees"]), (Some(152.0), &Value::Bool(true)));
    assert_eq!(requested["unit"], "ms");
    let slept = item("fig7a-actual-500-rounds-up");
    assert_eq!((slept["ours"].as_f64(), slept["published"].as_f64()), (Some(500.0), Some(819.0)));
    assert!(!slept["why"].as_str().unwrap().is_empty());
    // On a busy machine not one run may have ended by then.
    if let Some(beside) = all.get("beside").and_then(Value::as_object) {
        assert!((1..15).contains(&beside.len()), "{beside:?}");
        assert!(beside.values().all(|ratio| (0.01..1.05).contains(&ratio.as_f64().unwrap())), "{beside:?}");
    }
}

#[test]
fn published_shapers_are_strategies() {
    let names = ["dt0", "dt1", "dt2", "dt2-live", "at0", "at1"];
    let args = ["cbr", "--rate", "1M", "--size", "500", "--duration", "300ms", "--json", "--strategy"];
    let output = run(&[&args[..], &[&names.join(",")]].concat());
    let all = json(&output);
    assert_measured(output.status.code(), &all);
    let runs = all["runs"].as_array().unwrap();
    let strategies: Vec<&str> = runs.iter().filter_map(|run| run["strategy"].as_str()).collect();
    assert_eq!(strategies, names);
    assert!(runs.iter().all(|run| run["received_packets"].as_u64().unwrap() > 1), "{runs:?}");
}

#[test]
fn rrtcc_judges_every_statement() {
    let output = run(&["reproduce", "rrtcc", "--quick", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = json(&output);
    assert_eq!(all["name"], "rrtcc");
    let items = all["items"].as_array().unwrap();
    let item = |id: &str| items.iter().find(|item| item["id"] == id).unwrap_or_else(|| panic!("{id}"));
    let mean = item("mean-estimate");
    for field in ["what", "unit", "published", "ours", "ours_low", "ours_high", "agrees", "why"] {
        assert!(mean.get(field).is_some(), "{field}");
    }
    // By the printed rules the mean estimate stays below the capacity.
    assert_eq!((mean["published"].as_f64(), &mean["agrees"]), (Some(7_082_516.0), &Value::Bool(false)));
    assert!((4.5e6..5.8e6).contains(&mean["ours"].as_f64().unwrap()), "{mean}");
    // The shares of the states give 0.125·(0.2 + 0.4) + 0.05.
    let loss = item("fig18-udp-loss-3")["ours"].as_f64().unwrap();
    assert!((0.10..0.16).contains(&loss), "{loss}");
    let beside = &all["beside"];
    let delay = |sender: &str| beside[format!("queue_{sender}_delay_p95_ms")].as_f64().unwrap();
    assert!((300.0..2500.0).contains(&delay("rrtcc")) && (300.0..2500.0).contains(&delay("udp")), "{beside}");
}
