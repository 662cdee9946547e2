//! The `giusto` command as a person or a script meets it: real processes, real sockets, loopback only.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]
#![allow(clippy::disallowed_methods, reason = "processes are given time to get going")]

use std::{
    io::{BufRead, BufReader, Read},
    net::{SocketAddr, UdpSocket},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use giusto_rtp::RtpHeader;
use giusto_session::probe::wire::{DATA_HEADER_BYTES, DataHeader, Message, OPENING_BYTES, StreamToken};
use serde_json::Value;

fn giusto(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_giusto"));
    command.args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    giusto(args).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {} {}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// A `giusto recv` on a free port of loopback; ended with the test.
struct Receiver {
    child: Child,
    address: SocketAddr,
}

impl Receiver {
    fn start(args: &[&str]) -> Self {
        let mut command = giusto(&["recv", "127.0.0.1:0"]);
        let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.split_whitespace().nth(2).and_then(|word| word.parse().ok());
        let address = address.unwrap_or_else(|| panic!("where does it listen? {line:?}"));
        // Its pipe is read to the end, or it would stop when the pipe is full.
        std::thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
        Self { child, address }
    }

    fn to(&self) -> String {
        self.address.to_string()
    }

    fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    fn output(mut self) -> (Value, i32) {
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}")), code)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", child.id())).status().unwrap();
    assert!(sent.success());
}

#[test]
fn what_cannot_be_done_is_one_line_with_the_value_and_exit_status_2() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let cases: &[(&[&str], &str)] = &[
        (&["send", "127.0.0.1:9", "--rate", "0"], "above 0 bit/s"),
        (&["send", "127.0.0.1:9", "--rate", "fast"], "\"fast\""),
        (&["send", "127.0.0.1:9", "--rate", "1", "--size", "60000"], "longest of 24 h"),
        (&["send", "127.0.0.1:9", "--size", "35"], "needs 36 B"),
        (&["send", "127.0.0.1:9", "--size", "11", "--rtp"], "needs 12 B"),
        (&["send", "127.0.0.1:9", "--size", "65508"], "65507 or less"),
        (&["send", "127.0.0.1:9", "--duration", "10"], "needs one of the units"),
        (&["send", "127.0.0.1:9", "--duration", "0s"], "nothing would be sent"),
        (&["send", "127.0.0.1:9", "--count", "0"], "nothing would be sent"),
        (&["send", "127.0.0.1:9", "--strategy", "gird"], "grid"),
        (&["send", "127.0.0.1:9", "--mode", "fast"], "precise, balanced or eco"),
        (&["send", "127.0.0.1:9", "--profile", "g723"], "g729"),
        (&["send", "127.0.0.1:9", "--profile", "g711", "--ptime", "7ms"], "ptime"),
        (&["send", "127.0.0.1:9", "--profile", "g711", "--wav", "/no/such.wav"], "/no/such.wav"),
        (&["send", "127.0.0.1:9", "--payload", "uniform:9"], "uniform"),
        (&["send", "127.0.0.1:9", "--payload", "trace:/no/such.csv"], "/no/such.csv"),
        (&["send", "127.0.0.1:9", "--max-burst-rate", "1k"], "1 kbit/s"),
        (&["send", "127.0.0.1:9", "--burst", "0"], "0"),
        (&["send", "127.0.0.1:9", "--dscp", "64"], "64"),
        (&["send", "127.0.0.1:9", "--duratoin", "1s"], "--duration"),
        (&["send", "127.0.0.1"], "HOST:PORT"),
        (&["send", "127.0.0.1:0"], "HOST:PORT"),
        (&["send", "no-such-host.invalid:5005"], "no-such-host.invalid"),
        (&["recv", &taken], "choose another port"),
        (&["recv", "127.0.0.1:0", "--idle", "1ms"], "100 ms"),
        (&["cbr", "--rate", "1M,0"], "above 0 bit/s"),
        (&["cbr", "--size", "20"], "needs 36 B"),
        (&["cbr", "--duration", "0s"], "nothing would be sent"),
        (&["cbr", "--against", "iperf3", "--against-path", "/bin/true"], "is not iperf3"),
        (&["reproduce", "something"], "firebind"),
        (&["frobnicate"], "frobnicate"),
        (&[], "giusto demo"),
        (&["cbr", "--layer", "ip", "--against", "iperf3"], "payload alone"),
    ];
    for (args, expected) in cases {
        let output = run(args);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{args:?}: {message}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn both_ends_tell_the_same_of_a_stream() {
    let receiver = Receiver::start(&["--once", "--json"]);
    let args = ["--rate", "2M", "--size", "500", "--count", "200", "--dscp", "46", "--ecn", "ect1", "--json"];
    let output = run(&[&["send", &receiver.to()], &args[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (sent, (received, code)) = (json(&output), receiver.output());
    assert_eq!(code, 0);
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
    // A busy machine may delay a datagram, but not by so much that the rate is another one.
    let rate = sent["rx_rate_bps"].as_f64().unwrap();
    assert!((1.0e6..4.0e6).contains(&rate), "{rate}");
}

#[test]
fn several_streams_are_measured_apart() {
    let receiver = Receiver::start(&["--json"]);
    let args = ["--rate", "400k", "--size", "100", "--count", "50", "--streams", "5", "--json"];
    let sent = json(&run(&[&["send", &receiver.to()], &args[..]].concat()));
    assert_eq!(sent["runs"].as_array().unwrap().len(), 5);
    receiver.signal("INT");
    let (received, code) = receiver.output();
    assert_eq!(code, 0);
    let runs = received["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 5);
    assert!(runs.iter().all(|run| run["received_packets"] == 50 && run["lost_packets"] == 0), "{received}");
}

#[test]
fn voice_is_rated() {
    let receiver = Receiver::start(&["--once", "--json"]);
    let output = run(&["send", &receiver.to(), "--profile", "g711", "--count", "50", "--json"]);
    let (sent, (received, _)) = (json(&output), receiver.output());
    for end in [&sent, &received] {
        assert_eq!((&end["size_bytes"], &end["rate_bps"]), (&Value::from(172), &Value::from(68_800)));
        let mos = end["voice"]["mos"].as_f64().unwrap();
        // Some datagram may be late on a busy machine; a perfect call has 4.41.
        assert!((2.0..4.42).contains(&mos), "{mos}");
    }
    assert_eq!(received["format"], "rtp g711");
}

#[test]
fn a_recording_is_sent_with_its_sizes_at_its_times() {
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
    let lasted = received["duration_s"].as_f64().unwrap();
    assert!((0.25..3.0).contains(&lasted), "{lasted}");
    std::fs::write(&trace, "0.3,100\n0.1,100\n").unwrap();
    let backwards = run(&["send", "127.0.0.1:9", "--payload", &spec]);
    let message = String::from_utf8_lossy(&backwards.stderr).into_owned();
    assert_eq!(backwards.status.code(), Some(2));
    assert!(message.contains("trace.csv:2"), "{message}");
}

#[test]
fn plain_receivers_get_what_was_asked_for_and_nothing_else() {
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
        assert!(output.status.success());
        assert_eq!(json(&output)["sent_packets"], 20);
        let mut buffer = [0; 2048];
        let mut sequences = Vec::new();
        while let Ok(length) = plain.recv(&mut buffer) {
            let datagram = &buffer[..length];
            if let Some(payload_type) = check {
                let (header, _) = RtpHeader::parse(datagram).unwrap();
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
fn streams_of_other_programs_are_measured_where_that_is_asked_for() {
    let receiver = Receiver::start(&["--once", "--json", "--accept", "raw", "--idle", "300ms"]);
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        other.send_to(&[1; 50], receiver.address).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    let from = other.local_addr().unwrap().to_string();
    let (received, _) = receiver.output();
    assert_eq!((&received["received_packets"], &received["format"]), (&Value::from(20), &Value::from("raw")));
    assert_eq!(received["from"], from);
    assert_eq!(received["ended"], "silence of the sender");
}

#[test]
fn hostile_datagrams_are_counted_and_spoil_no_stream() {
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
            [&b"hello"[..], b"", &forged, &forged[..DATA_HEADER_BYTES - 1], b"giu\x11\xff\xff", b"giu\x31"]
        {
            hostile.send_to(datagram, receiver.address).unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(hostile.recv(&mut [0; 2048]).is_err(), "an answer to a stranger");
    // A question is answered, with less than it brought.
    hostile.send_to(&Message::Hello { nonce: 1 }.encode(OPENING_BYTES), receiver.address).unwrap();
    assert!(hostile.recv(&mut [0; 2048]).unwrap() < OPENING_BYTES);

    let sent = json(&sender.wait_with_output().unwrap());
    assert_eq!((&sent["received_packets"], &sent["duplicate_packets"]), (&Value::from(300), &Value::from(0)));
    receiver.signal("TERM");
    let (received, code) = receiver.output();
    let unmeasured = &received["unmeasured_datagrams"];
    assert_eq!(code, 0);
    assert_eq!(unmeasured["foreign"], 40);
    assert_eq!(unmeasured["malformed"], 40);
    assert_eq!(unmeasured["forged"], 20);
    assert_eq!(unmeasured["other_version"], 20);
    assert_eq!(received["runs"][0]["received_packets"], 300);
}

#[test]
fn a_receiver_that_is_ended_tells_its_sender_and_both_keep_their_figures() {
    let receiver = Receiver::start(&["--json"]);
    let mut send =
        giusto(&["send", &receiver.to(), "--rate", "1M", "--size", "200", "--duration", "60s", "--json"]);
    let sender = send.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    receiver.signal("INT");
    let (received, code) = receiver.output();
    let output = sender.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((code, output.status.code()), (0, Some(1)), "{message}");
    assert!(message.contains("the receiver was stopped"), "{message}");
    let sent = json(&output);
    assert!(sent["sent_packets"].as_u64().unwrap() > 10);
    assert!(received["runs"][0]["received_packets"].as_u64().unwrap() > 10);
    assert_eq!(received["runs"][0]["ended"], "stopped here");
}

#[test]
fn a_receiver_that_disappears_ends_the_run_with_a_clear_word() {
    let mut receiver = Receiver::start(&["--json"]);
    let mut send =
        giusto(&["send", &receiver.to(), "--rate", "1M", "--size", "200", "--duration", "60s", "--json"]);
    let sender = send.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    receiver.child.kill().unwrap();
    let output = sender.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("disappeared"), "{message}");
    let sent = json(&output);
    assert!(sent["sent_packets"].as_u64().unwrap() > 10, "the sender's own figures are kept");
}

#[test]
fn an_interrupted_sender_prints_its_result() {
    for name in ["INT", "TERM"] {
        let receiver = Receiver::start(&["--once", "--json"]);
        let mut send = giusto(&[
            "send",
            &receiver.to(),
            "--rate",
            "10k",
            "--size",
            "200",
            "--duration",
            "60s",
            "--json",
        ]);
        let sender = send.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        signal(&sender, name);
        let output = sender.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let (sent, (received, _)) = (json(&output), receiver.output());
        assert_eq!(sent["ended"], "interrupted");
        assert_eq!(sent["sent_packets"], received["received_packets"]);
    }
}

#[test]
fn a_sender_to_nobody_says_so() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = run(&["send", &nobody, "--rate", "1M"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("giusto recv") && message.contains(&nobody), "{message}");
}

#[test]
fn an_idle_receiver_costs_nothing() {
    let receiver = Receiver::start(&[]);
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", receiver.child.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // utime and stime, proc(5): fields 14 and 15, in hundredths of a second.
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(2));
    let used = ticks() - before;
    assert!(used <= 2, "{used} hundredths of a second of processor time in 2 s");
}

#[test]
fn cbr_prints_the_fields_that_others_rely_on() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("cbr.html");
    let args =
        ["--rate", "1M", "--size", "200", "--strategy", "grid,send-sleep", "--duration", "300ms", "--json"];
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
fn the_demo_writes_one_file_that_needs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("demo.html");
    let output = run(&["demo", "--quick", "--out", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = std::fs::read_to_string(&page).unwrap();
    for wanted in [
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
fn an_interrupted_reproduction_of_the_shapers_has_all_that_is_virtual_and_what_was_measured() {
    let mut reproduce = giusto(&["reproduce", "shaper", "--quick", "--json"]);
    let reproduce = reproduce.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Of the fifteen runs, each of half a second, on this machine's own clock.
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
    // On a machine that is busy enough not one run is done by then.
    if let Some(beside) = all.get("beside").and_then(Value::as_object) {
        assert!((1..15).contains(&beside.len()), "{beside:?}");
        assert!(beside.values().all(|ratio| (0.01..1.05).contains(&ratio.as_f64().unwrap())), "{beside:?}");
    }
}

#[test]
fn shapers_of_the_literature_are_strategies_like_others() {
    let names = ["dt0", "dt1", "dt2", "dt2-live", "at0", "at1"];
    let args = ["cbr", "--rate", "1M", "--size", "500", "--duration", "300ms", "--json", "--strategy"];
    let output = run(&[&args[..], &[&names.join(",")]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = json(&output);
    let runs = all["runs"].as_array().unwrap();
    let strategies: Vec<&str> = runs.iter().filter_map(|run| run["strategy"].as_str()).collect();
    assert_eq!(strategies, names);
    assert!(runs.iter().all(|run| run["received_packets"].as_u64().unwrap() > 10), "{runs:?}");
}

#[test]
fn the_reproduction_of_the_thesis_judges_every_sentence() {
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
    // By the printed rules nobody stays above all that the network has.
    assert_eq!((mean["published"].as_f64(), &mean["agrees"]), (Some(7_082_516.0), &Value::Bool(false)));
    assert!((4.5e6..5.8e6).contains(&mean["ours"].as_f64().unwrap()), "{mean}");
    // The share of the states: 0.125·(0.2 + 0.4) + 0.05.
    let loss = item("fig18-udp-loss-3")["ours"].as_f64().unwrap();
    assert!((0.10..0.16).contains(&loss), "{loss}");
    let beside = &all["beside"];
    let delay = |sender: &str| beside[format!("queue_{sender}_delay_p95_ms")].as_f64().unwrap();
    assert!((300.0..2500.0).contains(&delay("rrtcc")) && (300.0..2500.0).contains(&delay("udp")), "{beside}");
}
