//! The `giusto` command: real processes and real sockets, on loopback.
//!
//! No test depends on how fast this machine is: rates and times are compared with each other, or bounded widely on both sides.

use std::{net::UdpSocket, time::Duration};

use crate::common::{
    Folder, assert_has, assert_measured, count, json, measured, number,
    process::{Listener, start},
    run, text,
};
use giusto_rtp::{RtpError, RtpHeader};
use giusto_session::probe::wire::{DATA_HEADER_BYTES, DataHeader, Message, OPENING_BYTES, StreamToken};
use serde_json::{Value, json};

/// A `giusto recv` on a free port of loopback.
fn receiver(args: &[&str]) -> Listener {
    Listener::start(&[&["127.0.0.1:0"], args].concat())
}

/// Waits until a stream is open, and for its first datagrams.
fn wait_for_stream(receiver: &Listener) {
    let line = receiver.next_line();
    assert!(line.contains("stream of"), "{line}");
    std::thread::sleep(Duration::from_millis(700));
}

#[test]
fn every_help_page_has_an_example() {
    let main = text(&run(&["--help"]).stdout);
    assert!(main.contains("Exit status:") && main.contains("130  ended by a second Ctrl-C"), "{main}");
    let names =
        main.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Long descriptions continue on lines that are indented further.
    let names = names.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.starts_with(&["demo", "send", "recv", "call", "cbr", "sim"]), "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let help = text(&run(&[name, "--help"]).stdout);
        let (_, examples) = help.split_once("Example").unwrap_or_else(|| panic!("{name} has no example"));
        assert!(examples.contains(&format!("  giusto {name}")), "{name}: {examples}");
    }
}

#[test]
fn both_ends_report_the_same_figures() {
    let receiver = receiver(&["--once", "--json", "--no-offload"]);
    let args = ["--rate", "2M", "--size", "500", "--count", "200", "--dscp", "46", "--ecn", "ect1", "--json"];
    let sent = measured(&run(&[&["send", &receiver.to()], &args[..]].concat()));
    let (received, code) = receiver.result();
    assert_measured(Some(code), &received);
    for end in [&sent, &received] {
        assert_has(
            end,
            &json!({ "strategy": "grid", "rate_bps": 2_000_000, "size_bytes": 500, "packets_per_cycle": 1,
                "period_ns": 2_000_000, "sent_packets": 200, "received_packets": 200, "lost_packets": 0, "dscp": 46 }),
        );
        assert_eq!(end["ecn"]["ect1_packets"], 200);
        assert!(end["one_way_delay_ms"]["basis"].as_str().unwrap().starts_with("absolute"));
    }
    for figure in ["rx_rate_bps", "gap_error_us", "schedule_error_us", "tx_rate_bps"] {
        assert_eq!(sent[figure], received[figure], "{figure}");
    }
    // 200 datagrams enclose 199 intervals, however long they took.
    let rate = number(&sent["rx_rate_bps"]);
    let intervals = rate * number(&received["duration_s"]) / (500.0 * 8.0);
    assert!((198.999..199.001).contains(&intervals), "{intervals}");
    let error = number(&sent["rate_error_ppm"]);
    assert!((error - (rate / 2e6 - 1.0) * 1e6).abs() < 1e-3, "{error} ppm at {rate} bit/s");
}

#[test]
fn voice_has_a_score_and_a_delay() {
    let receiver = receiver(&["--once", "--json"]);
    let sent = json(&run(&["send", &receiver.to(), "--profile", "g711", "--count", "50", "--json"]));
    let (received, _) = receiver.result();
    for end in [&sent, &received] {
        assert_has(end, &json!({ "size_bytes": 172, "rate_bps": 68_800 }));
        // A perfect call has 4.41. On a busy machine datagrams are late; the scale ends at 1.
        assert!((1.0..4.42).contains(&number(&end["voice"]["mos"])), "{end}");
        // The sender reports relate the timestamps to the clock of this machine, within a unit of 8 kHz.
        let delay = &end["one_way_delay_ms"];
        assert_eq!(delay["basis"], "absolute within 125.0 us: clock offset estimated");
        let quantiles = ["min", "p50", "p99", "p999", "max"].map(|name| number(&delay[name]));
        assert!(quantiles.is_sorted() && quantiles[0] >= -0.13, "{delay}");
        assert!(quantiles[4] > 0.0 && quantiles[4] < 60_000.0, "{delay}");
    }
    assert_eq!(received["format"], "rtp g711");
}

#[test]
fn a_trace_sets_sizes_and_times() {
    let folder = Folder::with("");
    std::fs::write(folder.path("trace.csv"), "time_s,size_bytes\n0,100\n0.05,200\n0.3,300\n").unwrap();
    let receiver = receiver(&["--once", "--json"]);
    let sent = json(&folder.run(&["send", &receiver.to(), "--payload", "trace:trace.csv", "--json"]));
    assert_has(&sent, &json!({ "strategy": "recorded", "sent_packets": 3 }));
    assert_has(&receiver.result().0, &json!({ "strategy": "recorded", "received_packets": 3 }));
    // The last datagram never leaves before its time; a busy machine may delay it.
    assert!((0.3..30.0).contains(&number(&sent["duration_s"])), "{sent}");
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
        let sent =
            measured(&run(&[&["send", &to, "--one-way", "--count", "20", "--json"], flags, rate].concat()));
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
    let receiver = receiver(&["--once", "--json", "--accept", "rtp"]);
    let flags = ["--one-way", "--profile", "g711", "--count", "100"];
    let sent = json(&run(&[&["send", &receiver.to(), "--json"], &flags[..]].concat()));
    let (received, _) = receiver.result();
    // All but the first, which begins the stream.
    assert_has(&received, &json!({ "ended": "left by the sender", "received_packets": 99 }));
    let far_end = &sent["far_end"];
    assert!(far_end["program"].as_str().unwrap().starts_with("RTCP of "), "{sent}");
    assert_eq!((&far_end["lost_packets"], &sent["lost_packets"]), (&Value::from(0), &Value::Null));
    assert!((0.0..10_000.0).contains(&number(&far_end["rtcp"]["round_trip_ms"])), "{far_end}");
    // On a busy machine the receiver may find datagrams too late.
    let voip = &far_end["rtcp"]["voip"];
    assert_has(voip, &json!({ "loss_ratio": 0.0, "jitter_buffer_nominal_ms": 40 }));
    let (r_factor, mos) = (number(&voip["r_factor"]), number(&voip["mos_cq"]));
    assert!(r_factor <= 93.0 && (1.0..=4.4).contains(&mos), "{voip}");
    assert!((r_factor - number(&received["voice"]["r_factor"])).abs() <= 1.0);

    // Who does not answer changes nothing.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap().to_string();
    let sent = json(&run(&[&["send", &to, "--json"], &flags[..3], &["--count", "5"]].concat()));
    assert_has(&sent, &json!({ "sent_packets": 5, "far_end": null }));
}

#[test]
fn unannounced_streams_are_measured_with_accept() {
    let receiver = receiver(&["--once", "--json", "--accept", "raw", "--idle", "300ms"]);
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        other.send_to(&[1; 50], receiver.address).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    let from = other.local_addr().unwrap().to_string();
    let received = receiver.result().0;
    assert_has(
        &received,
        &json!({ "received_packets": 20, "format": "raw", "from": from, "ended": "idle timeout" }),
    );
    let unknown = ["lost_packets", "loss_ratio", "loss_bursts", "duplicate_packets", "reordered_packets"];
    assert!(unknown.iter().all(|figure| received[figure].is_null()), "{received}");
}

#[test]
fn neither_end_knows_what_raw_datagrams_do_not_show() {
    let receiver = receiver(&["--once", "--json"]);
    let to = receiver.to();
    let sent = measured(&run(&["send", &to, "--raw", "-b", "1M", "-t", "1500ms", "-i", "500ms", "--json"]));
    assert!(sent["intervals"][0]["received_packets"].is_u64(), "{sent}");
    assert!(sent["intervals"][0]["lost_packets"].is_null(), "{sent}");
    let received = receiver.result().0;
    for result in [&sent, &received] {
        let unknown = ["loss_bursts", "duplicate_packets", "reordered_packets"];
        assert!(unknown.iter().all(|figure| result[figure].is_null()), "{result}");
        assert_has(result, &json!({ "lost_packets": 0 }));
    }
}

#[test]
fn a_receiver_of_one_stream_tells_what_belongs_to_none() {
    let receiver = receiver(&["--once", "--json"]);
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..7 {
        other.send_to(b"hello", receiver.address).unwrap();
    }
    run(&["send", &receiver.to(), "--rate", "1M", "--count", "5"]);
    let received = receiver.result().0;
    assert_has(&received, &json!({ "received_packets": 5, "lost_packets": 0 }));
    assert_eq!(received["unmeasured_datagrams"]["foreign"], 7, "{received}");
}

#[test]
fn hostile_datagrams_are_counted_and_harm_no_stream() {
    let receiver = receiver(&["--json"]);
    let hostile = UdpSocket::bind("127.0.0.1:0").unwrap();
    hostile.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut forged = [0; 200];
    let header = DataHeader { token: StreamToken(7), sequence: 5, scheduled_ns: 0, sent_ns: 0 };
    assert!(header.write(&mut forged));
    let sender =
        start(&["send", &receiver.to(), "--rate", "1M", "--size", "200", "--count", "300", "--json"]);
    for _ in 0..20 {
        for datagram in
            [&b"hello"[..], b"", &forged, &forged[..DATA_HEADER_BYTES - 1], b"giu\x31\xff\xff", b"giu\x21"]
        {
            hostile.send_to(datagram, receiver.address).unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(hostile.recv(&mut [0; 2048]).is_err(), "an unknown sender got an answer");
    // A Hello is answered, by fewer bytes than it has.
    hostile.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    hostile.send_to(&Message::Hello { nonce: 1 }.encode(OPENING_BYTES), receiver.address).unwrap();
    assert!(hostile.recv(&mut [0; 2048]).unwrap() < OPENING_BYTES);

    assert_has(&json(&sender.output()), &json!({ "received_packets": 300, "duplicate_packets": 0 }));
    receiver.process.signal("TERM");
    let (received, code) = receiver.result();
    assert_measured(Some(code), &received);
    assert_has(
        &received["unmeasured_datagrams"],
        &json!({ "foreign": 40, "malformed": 40, "forged": 20, "other_version": 20 }),
    );
    assert_eq!(received["runs"][0]["received_packets"], 300);
}

#[test]
fn a_receiver_that_ends_or_is_lost_ends_its_sender_with_a_result() {
    for (signal, expected) in [("INT", "the receiver was stopped"), ("KILL", "disappeared")] {
        let receiver = receiver(&["--json"]);
        let to = receiver.to();
        let send =
            move || run(&["send", &to, "--rate", "1M", "--size", "200", "--duration", "60s", "--json"]);
        let sender = std::thread::spawn(send);
        wait_for_stream(&receiver);
        receiver.process.signal(signal);
        let output = sender.join().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(expected), "{message}");
        assert!(count(&json(&output)["sent_packets"]) > 0, "the sender's own figures are kept");
        if signal == "INT" {
            let (received, code) = receiver.result();
            assert_measured(Some(code), &received);
            assert!(count(&received["runs"][0]["received_packets"]) > 0);
            assert_eq!(received["runs"][0]["ended"], "receiver stopped");
        }
    }
}

#[test]
fn a_stranger_does_not_end_recv_once() {
    let receiver = receiver(&["--once", "--json"]);
    let args = ["--rate", "100k", "--size", "200", "--duration", "2s", "--json"];
    let sender = start(&[&["send", &receiver.to()], &args[..]].concat());
    wait_for_stream(&receiver);
    assert_eq!(json(&run(&["send", &receiver.to(), "--count", "3", "--json"]))["received_packets"], 3);
    assert_has(&json(&sender.output()), &json!({ "received_packets": 125, "ended": "all sent" }));
    let (received, code) = receiver.result();
    assert_measured(Some(code), &received);
    assert_eq!(received["received_packets"], 125);
}

#[test]
fn an_interrupted_sender_prints_its_result() {
    for name in ["INT", "TERM"] {
        let receiver = receiver(&["--once", "--json"]);
        let args = ["--rate", "100k", "--size", "200", "--duration", "60s", "--json"];
        let sender = start(&[&["send", &receiver.to()], &args[..]].concat());
        wait_for_stream(&receiver);
        sender.signal(name);
        let sent = measured(&sender.output());
        let (received, _) = receiver.result();
        assert_has(&sent, &json!({ "ended": "interrupted", "sent_packets": received["received_packets"] }));
        assert!(count(&sent["sent_packets"]) > 0);
    }
}

#[test]
fn an_idle_receiver_uses_no_cpu_time() {
    let receiver = receiver(&[]);
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", receiver.process.0.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // utime and stime, proc(5): fields 14 and 15, in hundredths of a second.
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let used_in = |millis| {
        let before = ticks();
        std::thread::sleep(Duration::from_millis(millis));
        ticks() - before
    };
    // On a busy machine its start takes longer than its first line.
    let has_started = (0..50).any(|_| used_in(200) == 0);
    let used = used_in(1000);
    assert!(has_started && used <= 1, "{used} hundredths of a second of CPU time in 1 s");
}

#[test]
fn cbr_json_has_the_documented_fields() {
    let folder = Folder::with("");
    let args = "cbr --rate 1M --size 200 --strategy grid,send-sleep --duration 500ms --json --out cbr.html";
    let result = json(&folder.run(&args.split(' ').collect::<Vec<_>>()));
    let runs = result["runs"].as_array().unwrap();
    for run in runs {
        let numbers = "rate_bps size_bytes packets_per_cycle period_ns sent_packets received_packets lost_packets \
                       duplicate_packets reordered_packets tx_rate_bps rx_rate_bps rate_error_ppm sender_cpu_ratio \
                       receiver_cpu_ratio";
        for field in numbers.split_whitespace() {
            assert!(run[field].is_number(), "{field}: {run}");
        }
        for field in ["schedule_error_us", "gap_error_us"] {
            let quantiles = ["p50", "p99", "p999", "max"].map(|name| number(&run[field][name]));
            assert!(quantiles.is_sorted(), "{field}: {quantiles:?}");
        }
        assert_eq!(run["peer"], Value::Null);
    }
    assert_eq!(runs.len(), 2);
    assert_has(&runs[0], &json!({ "strategy": "grid", "packets_per_cycle": 1 }));
    assert_has(
        &runs[1],
        &json!({ "strategy": "send-sleep", "packets_per_cycle": 71, "period_ns": 113_600_000 }),
    );
    assert!(std::fs::read_to_string(folder.path("cbr.html")).unwrap().contains("send-sleep"));
}

#[test]
fn the_demo_writes_one_self_contained_file() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("demo.html");
    let output = run(&["demo", "--quick", "--out", page.to_str().unwrap()]);
    // The machine may be too busy for calls.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
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
}

/// The item of a reproduction with this name.
fn item<'a>(all: &'a Value, id: &str) -> &'a Value {
    let items = all["items"].as_array().unwrap();
    items.iter().find(|item| item["id"] == id).unwrap_or_else(|| panic!("{id}"))
}

#[test]
fn an_interrupted_shaper_reproduction_keeps_its_runs() {
    let reproduce = start(&["reproduce", "shaper", "--quick", "--json"]);
    // There are fifteen runs of half a second each.
    std::thread::sleep(Duration::from_millis(1300));
    reproduce.signal("INT");
    let output = reproduce.output();
    assert!(output.status.success());
    let all = json(&output);
    assert_eq!(all["name"], "shaper");
    let requested = item(&all, "fig7a-requested-500-rounds-up");
    for field in "what unit published ours ours_low ours_high agrees why comparable figures".split(' ') {
        assert!(requested.get(field).is_some(), "{field}");
    }
    assert_eq!((requested["ours"].as_f64(), &requested["agrees"]), (Some(152.0), &Value::Bool(true)));
    assert_eq!(requested["unit"], "ms");
    let slept = item(&all, "fig7a-actual-500-rounds-up");
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
    let all = measured(&run(&[&args[..], &[&names.join(",")]].concat()));
    let runs = all["runs"].as_array().unwrap();
    let strategies: Vec<&str> = runs.iter().filter_map(|run| run["strategy"].as_str()).collect();
    assert_eq!(strategies, names);
    assert!(runs.iter().all(|run| count(&run["received_packets"]) > 1), "{runs:?}");
}

#[test]
fn rrtcc_judges_every_statement() {
    let output = run(&["reproduce", "rrtcc", "--quick", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all = json(&output);
    assert_eq!(all["name"], "rrtcc");
    let mean = item(&all, "mean-estimate");
    // By the printed rules the mean estimate stays below the capacity.
    assert_eq!((mean["published"].as_f64(), &mean["agrees"]), (Some(7_082_516.0), &Value::Bool(false)));
    assert!((4.5e6..5.8e6).contains(&mean["ours"].as_f64().unwrap()), "{mean}");
    // The shares of the states give 0.125·(0.2 + 0.4) + 0.05.
    let loss = number(&item(&all, "fig18-udp-loss-3")["ours"]);
    assert!((0.10..0.16).contains(&loss), "{loss}");
    let beside = &all["beside"];
    let delay = |sender: &str| number(&beside[format!("queue_{sender}_delay_p95_ms")]);
    assert!((300.0..2500.0).contains(&delay("rrtcc")) && (300.0..2500.0).contains(&delay("udp")), "{beside}");
}
