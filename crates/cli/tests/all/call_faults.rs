//! `giusto call` under faults: the call recovers, or ends with a clear message and the figures so far.

use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use crate::common::{
    giusto, json,
    namespace::in_namespace,
    process::{Listener, signal},
    relay::{Relay, Way, pass},
    text,
};
use serde_json::Value;

const RATE: [&str; 3] = ["--json", "--max-rate", "400k"];

fn listener(args: &[&str]) -> Listener {
    Listener::of(&[&["call", "--listen", "127.0.0.1:0", "--once", "--json"], args].concat())
}

fn caller(to: SocketAddr, args: &[&str]) -> Child {
    let mut command = giusto(&[&["call", &to.to_string()], &RATE[..], args].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn after(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// The record of a call that went on to its end. A machine that others use may make its figures doubtful.
fn whole(output: &Output) -> Value {
    let record = json(output);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{} {record}", text(&output.stderr));
    assert_eq!((&record["call"]["error"], &record["interrupted"]), (&Value::Null, &false.into()), "{record}");
    assert!(
        record["call"]["unreported"].is_null() && record["flows"][0]["received_packets"].is_u64(),
        "{record}"
    );
    record
}

/// The record of a call that was ended by an error with these words.
fn broken(output: &Output, words: &str) -> Value {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.lines().last().unwrap().contains(words), "{message}");
    let record = json(output);
    assert!(record["call"]["error"].as_str().unwrap().contains(words));
    record
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn a_killed_far_end_ends_the_call_with_its_figures() {
    let listener = listener(&[]);
    let caller = caller(listener.address, &["-t", "60"]);
    after(2500);
    listener.process.signal("KILL");
    let record = broken(&caller.wait_with_output().unwrap(), "the far end has gone");
    assert!(number(&record["flows"][0]["sent_packets"]) > 40.0, "{record}");
    // Its host says so: that takes a second, where silence takes 15.
    assert!((2.5..15.0).contains(&number(&record["duration_s"])), "{record}");
    // It has not said what arrived: that is unknown, not 0.
    let flow = &record["flows"][0];
    let unknown =
        ["received_rate_bps", "received_packets", "lost_packets", "duplicate_packets", "goodput_bps"];
    let is_null = |key: &&str| flow.get(*key).is_none_or(Value::is_null);
    assert!(unknown.iter().all(is_null) && is_null(&"frames"), "{flow}");
    let stream = &flow["streams"][0];
    assert!(stream["frames"].is_null() && stream["goodput_bps"].is_null(), "{stream}");
    assert!(stream["repair"]["requested_packets"].is_null(), "{stream}");
    assert!(
        number(&flow["sent_rate_bps"]) > 0.0 && stream["repair"]["retransmitted_packets"].is_u64(),
        "{flow}"
    );
    let why = record["call"]["unreported"].as_str().unwrap();
    assert!(why.starts_with("what the far end received of \"call\" is unknown"), "{why}");
}

#[test]
fn a_restarted_far_end_ends_the_call_and_serves_another() {
    let first = listener(&[]);
    let address = first.address;
    // Behind it nobody says that nothing listens for the moment.
    let relay = Relay::to(address);
    let call = caller(relay.address, &["-t", "60"]);
    after(1500);
    first.process.signal("KILL");
    drop(first);
    let second = Listener::of(&["call", "--listen", &address.to_string(), "--once", "--json"]);
    broken(&call.wait_with_output().unwrap(), "no longer knows this call");
    whole(&caller(address, &["-t", "1"]).wait_with_output().unwrap());
    let (listened, _) = second.result();
    // Of the first call it has had media or one message, whichever came first.
    let ignored = &listened["call"]["ignored"];
    let of_another = number(&ignored["other_source_packets"]) + number(&ignored["forged_packets"]);
    assert!(of_another > 0.0, "{listened}");
}

#[test]
fn a_caller_that_disappears_ends_the_call_at_the_listener() {
    let listener = listener(&["--silence", "1500ms"]);
    // Behind it nobody says that nothing listens.
    let relay = Relay::to(listener.address);
    let caller = caller(relay.address, &["-t", "60"]);
    after(1500);
    signal(&caller, "KILL");
    let output = listener.process.output();
    let record = json(&output);
    assert_eq!(output.status.code(), Some(1), "{record}");
    assert!(record["call"]["error"].as_str().unwrap().contains("the far end is silent"), "{record}");
    assert!(number(&record["flows"][0]["received_packets"]) > 20.0, "{record}");
    let _ = caller.wait_with_output();
}

#[test]
fn an_interrupt_ends_the_call_at_both_ends() {
    let listener = listener(&[]);
    let caller = caller(listener.address, &["-t", "60"]);
    after(1500);
    signal(&caller, "INT");
    let record = json(&caller.wait_with_output().unwrap());
    assert_eq!((&record["call"]["error"], &record["interrupted"]), (&Value::Null, &true.into()), "{record}");
    let (listened, _) = listener.result();
    assert_eq!(listened["call"]["error"], Value::Null, "{listened}");
    assert_eq!(record["flows"][0]["received_packets"], listened["flows"][0]["received_packets"]);
}

#[test]
fn a_call_survives_seconds_of_total_loss() {
    let listener = listener(&[]);
    let relay = Relay::to(listener.address);
    let caller = caller(relay.address, &["-t", "7"]);
    after(2000);
    let blocked = Arc::new(AtomicU64::new(0));
    let count = blocked.clone();
    relay.set(Box::new(move |way, bytes| {
        count.fetch_add(u64::from(way == Way::Forth && bytes[0] >= 128), Relaxed);
        vec![]
    }));
    after(3000);
    relay.set(pass());
    let record = whole(&caller.wait_with_output().unwrap());
    let (listened, _) = listener.result();
    let (flow, blocked) = (&listened["flows"][0], blocked.load(Relaxed));
    assert!(blocked > 10, "{blocked}");
    // Each packet is accounted for.
    assert_eq!(flow["lost_packets"], blocked, "{listened}");
    let received = flow["received_packets"].as_u64().unwrap();
    assert_eq!(record["flows"][0]["sent_packets"], received + blocked, "{record}");
}

#[test]
fn blocked_feedback_slows_the_sender_and_ends_no_call() {
    let rate = |blocks: bool| {
        let listener = listener(&[]);
        let relay = Relay::to(listener.address);
        if blocks {
            relay.set(Box::new(|way, bytes| {
                let is_feedback = way == Way::Back && bytes[0] >= 128;
                if is_feedback { vec![] } else { vec![(Duration::ZERO, bytes.to_vec())] }
            }));
        }
        let caller = caller(relay.address, &["-t", "4"]);
        let record = whole(&caller.wait_with_output().unwrap());
        number(&record["flows"][0]["sent_rate_bps"])
    };
    let (blocked, open) = (rate(true), rate(false));
    assert!(blocked < open && blocked > 10e3, "{blocked} with blocked feedback, {open} without");
}

#[test]
fn a_new_address_is_proven_and_the_call_goes_on() {
    let listener = listener(&[]);
    let relay = Relay::to(listener.address);
    let caller = caller(relay.address, &["-t", "5", "--bidir"]);
    after(2000);
    relay.move_port();
    let record = whole(&caller.wait_with_output().unwrap());
    let (listened, _) = listener.result();
    for record in [&record, &listened] {
        assert_eq!(record["call"]["address_changes"], 1, "{record}");
        // The gap is shorter than a Ping's interval and a few round trips.
        let flow = &record["flows"][0];
        assert!(number(&flow["loss_ratio"]) < 0.3, "{record}");
    }
    // Of the first call it has had media or one message, whichever came first.
    let ignored = &listened["call"]["ignored"];
    let of_another = number(&ignored["other_source_packets"]) + number(&ignored["forged_packets"]);
    assert!(of_another > 0.0, "{listened}");
}

/// Both ends with these flags, over a path that delays, copies and changes one of twenty datagrams each: the records of caller and
/// listener, and the number of copies of media packets on the way to the listener.
fn over_a_bad_path(flags: &[&str]) -> (Value, Value, f64) {
    let listener = listener(flags);
    let relay = Relay::to(listener.address);
    let copies = Arc::new(AtomicU64::new(0));
    let (count, mut number_of) = (copies.clone(), 0_usize);
    relay.set(Box::new(move |way, bytes| {
        number_of += 1;
        let mut changed = bytes.to_vec();
        match number_of % 20 {
            3 => vec![(Duration::from_millis(15), changed)],
            9 => {
                count.fetch_add(u64::from(way == Way::Forth && bytes[0] >= 128 && bytes[1] < 192), Relaxed);
                vec![(Duration::ZERO, changed.clone()), (Duration::from_millis(5), changed)]
            }
            14 => {
                let bit = number_of * 131 % (changed.len() * 8);
                changed[bit / 8] ^= 1 << (bit % 8);
                vec![(Duration::ZERO, changed)]
            }
            _ => vec![(Duration::ZERO, changed)],
        }
    }));
    let caller = caller(relay.address, &[&["-t", "5", "--bidir", "--audio"], flags].concat());
    let record = whole(&caller.wait_with_output().unwrap());
    (record, listener.result().0, copies.load(Relaxed) as f64)
}

#[test]
fn reordered_repeated_and_changed_datagrams_do_no_harm() {
    let (record, listened, copies) = over_a_bad_path(&[]);
    assert!(copies > 3.0, "{copies}");
    for flow in [&record["flows"][1], &listened["flows"][0]] {
        assert!(number(&flow["frames"]) > 150.0, "{flow}");
        assert!(number(&flow["loss_ratio"]) < 0.1, "{flow}");
    }
}

#[test]
fn with_keys_changed_datagrams_are_lost_and_copies_count_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, format!("1 {}\n", "07".repeat(32))).unwrap();
    let (record, listened, copies) = over_a_bad_path(&["--key-file", keys.to_str().unwrap()]);
    let flow = &listened["flows"][0];
    let lost = number(&flow["loss_ratio"]);
    // One of twenty is changed. Loss, requests for what was lost and its retransmission vary with the machine.
    assert!((0.01..0.12).contains(&lost) && copies > 3.0, "{lost} {listened}");
    assert!(number(&flow["duplicate_packets"]) <= copies, "{copies} {listened}");
    assert!(number(&listened["call"]["ignored"]["unauthenticated_packets"]) > 10.0, "{listened}");
    assert!(number(&record["flows"][1]["frames"]) > 150.0, "{record}");
}

#[test]
fn a_flood_of_forged_datagrams_changes_nothing() {
    in_namespace("a_flood_of_forged_datagrams_changes_nothing", 65_536, || {
        let listener = listener(&[]);
        let memory = || {
            let status = fs::read_to_string(format!("/proc/{}/status", listener.process.0.id())).unwrap();
            let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        let caller = caller(listener.address, &["-t", "5"]);
        after(1500);
        let before = memory();
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, to) = (stop.clone(), listener.address);
        let flood = thread::spawn(move || {
            let mut sent = 0_u64;
            // Ten times the 400 kbit/s of the call: 400 packets of 1200 B a second, from many ports; and openings.
            let sockets: Vec<UdpSocket> = (0..50).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
            while !flag.load(Relaxed) {
                for socket in &sockets {
                    let mut rtp = vec![0; 1200];
                    rtp[..12].copy_from_slice(&[0x80, 96, 0, sent as u8, 0, 0, 0, 0, sent as u8, 0, 0, 2]);
                    let mut hello = b"giu\x34".to_vec();
                    hello.resize(256, sent as u8);
                    let mut feedback = vec![0x8f, 205, 0, 5];
                    feedback.resize(24, sent as u8);
                    for bytes in [&rtp, &hello, &feedback] {
                        sent += u64::from(socket.send_to(bytes, to).is_ok());
                    }
                    after(2);
                }
            }
            sent
        });
        let record = whole(&caller.wait_with_output().unwrap());
        stop.store(true, Relaxed);
        let sent = flood.join().unwrap();
        let grown = memory().saturating_sub(before);
        let (listened, _) = listener.result();
        let flow = &listened["flows"][0];
        assert_eq!((&flow["lost_packets"], &flow["duplicate_packets"]), (&0.into(), &0.into()), "{listened}");
        assert_eq!(flow["received_packets"], record["flows"][0]["sent_packets"], "{listened}");
        let ignored = &listened["call"]["ignored"];
        let ignored: f64 = ["other_source_packets", "damaged_packets", "foreign_packets"]
            .iter()
            .map(|field| number(&ignored[*field]))
            .sum();
        assert!(ignored > 1000.0 && ignored <= sent as f64, "{ignored} of {sent}: {listened}");
        assert!(grown < 8_000, "{grown} kB after {sent} forged datagrams");
    });
}

#[test]
fn a_call_survives_an_interface_that_goes_down() {
    in_namespace("a_call_survives_an_interface_that_goes_down", 65_536, || {
        let listener = listener(&[]);
        let caller = caller(listener.address, &["-t", "6"]);
        after(2000);
        ip(&["link", "set", "lo", "down"]);
        after(1500);
        ip(&["link", "set", "lo", "up"]);
        let record = whole(&caller.wait_with_output().unwrap());
        let (listened, code) = listener.result();
        assert!(matches!(code, 0 | 3), "{listened}");
        let flow = &listened["flows"][0];
        assert_eq!(record["flows"][0]["lost_packets"], flow["lost_packets"], "{record}");
        assert!(
            number(&flow["lost_packets"]) > 5.0 && number(&flow["received_packets"]) > 100.0,
            "{listened}"
        );
    });
}

#[test]
fn a_smaller_mtu_ends_no_call() {
    in_namespace("a_smaller_mtu_ends_no_call", 1500, || {
        let listener = listener(&[]);
        let caller = caller(listener.address, &["-t", "4"]);
        after(1500);
        ip(&["link", "set", "lo", "mtu", "600"]);
        let record = whole(&caller.wait_with_output().unwrap());
        let (listened, _) = listener.result();
        let flow = &listened["flows"][0];
        // The system cuts datagrams that have become too long into fragments.
        assert!(number(&flow["loss_ratio"]) < 0.05, "{listened}");
        assert_eq!(record["flows"][0]["sent_packets"], flow["sent_packets"]);
        assert!((60.0..125.0).contains(&number(&flow["frames"])), "{listened}");
    });
}

fn ip(args: &[&str]) {
    assert!(Command::new("ip").args(args).status().unwrap().success());
}
