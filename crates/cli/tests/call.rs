//! `giusto call`: two processes hold a media session, and both print its record.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]
#![allow(clippy::disallowed_methods, reason = "processes are given time to get going")]

mod common;

use std::{
    fs,
    process::{Child, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use common::{
    giusto, json,
    process::Listener,
    relay::{Relay, Way},
    run, text,
};
use serde_json::Value;

/// A listener for one call on a free port of 127.0.0.1.
fn listener(args: &[&str]) -> Listener {
    Listener::of(&[&["call", "--listen", "127.0.0.1:0", "--once", "--json"], args].concat())
}

fn caller(to: &str, args: &[&str]) -> Child {
    let mut command = giusto(&[&["call", to, "--json"], args].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The record and the exit status of a caller. A machine that others use may make its figures doubtful.
fn called(output: &Output) -> Value {
    let record = json(output);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{} {record}", text(&output.stderr));
    assert_eq!(record["call"]["error"], Value::Null, "{record}");
    record
}

/// The records of caller and listener of a call with these flags.
fn both(args: &[&str], listening: &[&str]) -> (Value, Value) {
    let listener = listener(listening);
    let caller = caller(&listener.address.to_string(), args);
    let record = called(&caller.wait_with_output().unwrap());
    let (listened, code) = listener.result();
    assert!(matches!(code, 0 | 3), "{listened}");
    (record, listened)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn both_ends_print_the_record_of_the_session() {
    let flags = ["--controller", "gcc:libwebrtc", "--max-rate", "600k", "--duration", "4s"];
    let (caller, listener) = both(&flags, &[]);
    for record in [&caller, &listener] {
        let [flow] = record["flows"].as_array().unwrap().as_slice() else { panic!("{record}") };
        let fields = ["scenario", "seed", "duration_s", "wall_s", "events", "interrupted", "links", "checks"];
        assert!(fields.iter().all(|field| !record[field].is_null()), "{record}");
        assert_eq!((&flow["kind"], &flow["controller"]), (&"media".into(), &"gcc:libwebrtc".into()));
        assert_eq!((&flow["feedback"], &record["duration_s"]), (&"transport-wide".into(), &4.0.into()));
        // What was sent has arrived: nothing is between the two.
        assert_eq!((&flow["lost_packets"], &flow["duplicate_packets"]), (&0.into(), &0.into()), "{record}");
        assert!(flow["sent_packets"] == flow["received_packets"] && number(&flow["sent_packets"]) > 100.0);
        let (sent, received) = (number(&flow["sent_rate_bps"]), number(&flow["received_rate_bps"]));
        assert!((200e3..=660e3).contains(&sent) && (sent - received).abs() < 30e3, "{sent} {received}");
        // 30 frames a second.
        assert!((90.0..=125.0).contains(&number(&flow["frames"])), "{record}");
        let stream = &flow["streams"][0];
        assert_eq!((&stream["id"], &stream["frames"]), (&"video".into(), &flow["frames"]), "{record}");
        let delay = &flow["frame_delay_ms"];
        assert!((0.0..500.0).contains(&number(&delay["p50"])), "{record}");
        let round_trip = &record["call"]["round_trip_ms"];
        assert!((0.0..500.0).contains(&number(&round_trip["p50"])), "{record}");
    }
    assert_eq!((&caller["call"]["role"], &listener["call"]["role"]), (&"caller".into(), &"listener".into()));
    assert!(number(&caller["flows"][0]["target_rate_bps"]) > 200e3);
    assert_eq!(listener["flows"][0]["decisions"], Value::Null);
}

#[test]
fn both_ends_send_several_streams() {
    let flags =
        ["--bidir", "--video", "2", "--audio", "--max-rate", "500k", "-t", "3", "--feedback", "rfc8888"];
    let (caller, listener) = both(&[&flags[..], &["--ecn", "ect1"]].concat(), &[]);
    for record in [&caller, &listener] {
        let flows = record["flows"].as_array().unwrap();
        let ids: Vec<&str> = flows.iter().map(|flow| flow["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["call", "call:reverse"]);
        for flow in flows {
            assert_eq!(flow["feedback"], "rfc8888");
            let streams: Vec<_> = flow["streams"].as_array().unwrap().iter().collect();
            let ids: Vec<&str> = streams.iter().map(|stream| stream["id"].as_str().unwrap()).collect();
            assert_eq!(ids, ["audio", "video-1", "video-2"]);
            // 50 frames of audio and 30 of video a second; those at the end may be on their way.
            assert!((130.0..=153.0).contains(&number(&streams[0]["frames"])), "{record}");
            assert!((70.0..=95.0).contains(&number(&streams[1]["frames"])), "{record}");
        }
    }
    let [there, back] = [0, 1].map(|flow| &listener["flows"][flow]);
    assert_eq!(there["lost_packets"], 0, "{there}");
    assert!(number(&back["sent_packets"]) > 200.0 && number(&there["received_packets"]) > 200.0);
}

#[test]
fn the_listener_sends_when_it_is_asked_to_and_not_too_fast() {
    let (caller, listener) = both(&["-R", "-t", "3", "--max-rate", "2M"], &["--max-rate", "300k"]);
    for record in [&caller, &listener] {
        let [flow] = record["flows"].as_array().unwrap().as_slice() else { panic!("{record}") };
        assert_eq!((&flow["id"], &flow["from"]), (&"call:reverse".into(), &"listener".into()));
        let rate = number(&flow["received_rate_bps"]);
        assert!((150e3..400e3).contains(&rate), "{record}");
    }
}

#[test]
fn a_scenario_gives_the_media() {
    let folder = common::Folder::with(
        r#"
        name = "two-cameras"
        duration = "2 s"
        warmup = "500 ms"
        [[link]]
        id = "path"
        from = "a"
        to = "b"
        rate = "3 Mbit/s"
        duplex = true
        [[flow]]
        id = "meeting"
        kind = "media"
        controller = "scream:v2"
        video = { model = "perfect", max = "400 kbit/s" }
        audio = "20 kbit/s"
        "#,
    );
    let listener = listener(&[]);
    let to = listener.address.to_string();
    let page = folder.path("call.html");
    let trace = folder.path("call.csv");
    let args = ["--scenario", "s.toml", "--out", page.to_str().unwrap(), "--trace", trace.to_str().unwrap()];
    let output = folder.command(&[&["call", &to, "--json"], &args[..]].concat()).output().unwrap();
    let record = called(&output);
    assert_eq!(
        (&record["scenario"], &record["flows"][0]["controller"]),
        (&"two-cameras".into(), &"scream:v2".into())
    );
    assert_eq!((&record["flows"][0]["from_s"], &record["flows"][0]["to_s"]), (&0.5.into(), &2.0.into()));
    let (listened, _) = listener.result();
    assert_eq!(listened["flows"][0]["from_s"], 0.5);
    let streams = listened["flows"][0]["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2, "{listened}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("two-cameras") && page.contains("scream:v2"));
    let trace = fs::read_to_string(trace).unwrap();
    let sent = trace.lines().filter(|line| line.contains("sent") && line.contains("call")).count();
    assert!(sent as f64 >= number(&record["flows"][0]["sent_packets"]), "{sent}");
}

#[test]
fn keys_authenticate_every_datagram() {
    let folder = common::Folder::with("");
    let [ours, theirs] = ["11", "22"].map(|byte| {
        let path = folder.path(byte);
        fs::write(&path, format!("1 {}", byte.repeat(32))).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let flags = ["--key-file", &ours, "-t", "2", "--max-rate", "300k"];
    let listener = listener(&["--key-file", &ours]);
    // One datagram in four is changed on the way.
    let relay = Relay::to(listener.address);
    let changed = Arc::new(AtomicU64::new(0));
    let (count, mut number_of) = (changed.clone(), 0_usize);
    relay.set(Box::new(move |way, bytes| {
        number_of += 1;
        let mut bytes = bytes.to_vec();
        if way == Way::Forth && bytes[0] >= 128 && number_of.is_multiple_of(4) {
            // In the number or the MAC: every datagram ends with these 24 bytes.
            let at = bytes.len() - 1 - number_of % 24;
            bytes[at] ^= 4;
            count.fetch_add(1, Relaxed);
        }
        vec![(Duration::ZERO, bytes)]
    }));
    let caller = caller(&relay.address.to_string(), &flags);
    let record = called(&caller.wait_with_output().unwrap());
    assert_eq!(record["call"]["authenticated"], true);
    let (listened, _) = listener.result();
    let (flow, changed) = (&listened["flows"][0], changed.load(Relaxed));
    assert!(changed > 10);
    assert_eq!(flow["sent_packets"], flow["received_packets"].as_u64().unwrap() + changed, "{listened}");
    assert_eq!(listened["call"]["ignored"]["unauthenticated_packets"], changed, "{listened}");
    drop(relay);

    let listener = common::process::Listener::of(&["call", "--listen", "127.0.0.1:0", "--key-file", &ours]);
    let to = listener.address.to_string();
    for (keys, error) in [
        (&["--key-file", &theirs][..], "did not prove that it has the same key"),
        (&[], "accepts only authenticated calls"),
    ] {
        let output = run(&[&["call", &to, "-t", "1"], keys].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(error), "{}", text(&output.stderr));
    }
}

#[test]
fn errors_name_the_fix() {
    for (args, code, error) in [
        (&["call"][..], 2, "HOST"),
        (&["call", "127.0.0.1:1", "--video", "0"], 2, "needs --audio"),
        (&["call", "127.0.0.1:1", "--controller", "bbr"], 2, "bbr"),
        (&["call", "127.0.0.1:1", "--controller", "scream:d00", "--feedback", "remb"], 2, "feedback"),
        (&["call", "127.0.0.1:1", "--max-rate", "0"], 2, "above 0"),
        (&["call", "127.0.0.1:1", "--scenario", "missing.toml"], 2, "missing.toml"),
        (&["call", "--listen", "127.0.0.1:0", "--bidir"], 2, "--bidir"),
        (&["call", "--listen", "192.0.2.1:5004"], 2, "choose another address"),
        (&["call", "127.0.0.1:9"], 1, "giusto call --listen"),
    ] {
        let output = run(args);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {told}");
        assert!(told.contains(error) && told.starts_with("error: "), "{args:?}: {told}");
    }
}

#[test]
fn a_recorded_call_is_replayed_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("call.jsonl");
    let flags = ["--controller", "gcc:libwebrtc", "--max-rate", "600k", "--duration", "2s", "--session-log"];
    let (record, _) = both(&[&flags[..], &[log.to_str().unwrap()]].concat(), &[]);
    assert!(number(&record["flows"][0]["sent_packets"]) > 50.0, "{record}");
    let replayed = run(&["replay", log.to_str().unwrap()]);
    assert_eq!(replayed.status.code(), Some(0), "{}", text(&replayed.stderr));
    // One changed number parts them.
    let whole = fs::read_to_string(&log).unwrap();
    let cut: Vec<&str> = whole.lines().collect();
    let less: Vec<&str> =
        cut.iter().enumerate().filter(|(line, _)| line % 40 != 39).map(|(_, text)| *text).collect();
    fs::write(&log, less.join("\n")).unwrap();
    assert_ne!(run(&["replay", log.to_str().unwrap()]).status.code(), Some(0));
}

/// The same scenario, simulated, and in real time: `giusto call` across `giusto link`.
#[test]
fn a_call_across_the_links_does_what_the_simulation_does() {
    let text = "duration = \"12 s\"\nwarmup = \"4 s\"\n\
        link = [{ id = \"path\", from = \"a\", to = \"b\", rate = \"1 Mbit/s\", delay = \"20 ms\", queue = { kind = \"drop-tail\", limit = \"300 ms\" }, reverse = { rate = \"unlimited\" } }]\n\
        flow = [{ id = \"call\", kind = \"media\", from = \"a\", to = \"b\", controller = \"gcc:libwebrtc\", start-rate = \"600 kbit/s\", video = { model = \"perfect\" } }]\n";
    let folder = common::Folder::with(text);
    let simulated = json(&folder.run(&["sim", "s.toml", "--json"]));
    let listener = listener(&[]);
    let pair = format!("127.0.0.1:0={}", listener.address);
    let mut link = folder.command(&["link", "s.toml", "--relay", &pair, "--json"]);
    let mut link = link.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = std::io::BufReader::new(link.stderr.take().unwrap());
    let mut relay = None;
    while relay.is_none() {
        let mut line = String::new();
        assert!(std::io::BufRead::read_line(&mut stderr, &mut line).unwrap() > 0, "the relay has ended");
        relay = line.split_whitespace().find_map(|word| word.trim_end_matches([',', ';']).parse().ok());
    }
    let relay: std::net::SocketAddr = relay.unwrap();
    let caller =
        folder.command(&["call", &relay.to_string(), "--scenario", "s.toml", "--json"]).output().unwrap();
    let called = called(&caller);
    let (listened, _) = listener.result();
    common::process::signal(&link, "INT");
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    let linked = json(&link.wait_with_output().unwrap());
    let lateness = number(&linked["real_time"]["lateness_us"]["p99"]);
    let rate = |record: &Value| number(&record["flows"][0]["received_rate_bps"]);
    let queue = |record: &Value| number(&record["links"][0]["queue_delay_ms"]["p95"]);
    let (live, simulated_rate) = (rate(&listened), rate(&simulated));
    println!(
        "received {live:.0} and {simulated_rate:.0} bit/s, queue p95 {} and {} ms",
        queue(&linked),
        queue(&simulated)
    );
    if !called["call"]["doubts"].is_null() || lateness > 20_000.0 {
        eprintln!(
            "SKIPPED a_call_across_the_links_does_what_the_simulation_does: this machine is overloaded, packets left {lateness:.0} µs late"
        );
        return;
    }
    assert!((live / simulated_rate - 1.0).abs() < 0.15, "{live} {simulated_rate}");
    assert!(
        (queue(&linked) - queue(&simulated)).abs() < 40.0 + lateness / 1e3,
        "{} {}",
        queue(&linked),
        queue(&simulated)
    );
}
