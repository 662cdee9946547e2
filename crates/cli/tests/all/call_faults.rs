//! `giusto call` under faults: the call recovers, or ends with a clear message and the figures so far.

use std::{
    fs,
    io::{BufRead, BufReader, PipeReader, Write},
    net::{SocketAddr, UdpSocket},
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use crate::common::{
    assert_has, count, finished, giusto, json,
    namespace::{Far, in_namespace, ip},
    number,
    process::{Listener, Running, start},
    relay::{Relay, Way},
    run, skip, text,
};
use serde_json::{Value, json};

fn caller(to: SocketAddr, args: &[&str]) -> Running {
    start(&[&["call", &to.to_string(), "--json", "--max-rate", "400k"], args].concat())
}

fn after(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// The record of a call that went on to its end.
fn whole(caller: Running) -> Value {
    let record = finished(&caller.output());
    assert_has(&record["call"], &json!({ "error": null, "unreported": null }));
    assert_eq!(record["interrupted"], false, "{record}");
    assert!(record["flows"][0]["received_packets"].is_u64(), "{record}");
    record
}

/// The record of a call that was ended by an error with these words.
fn broken(output: &Output, words: &str) -> Value {
    let record = json(output);
    assert_eq!(output.status.code(), Some(1), "{record}");
    assert!(record["call"]["error"].as_str().unwrap().contains(words), "{record}");
    record
}

#[test]
fn a_killed_far_end_ends_the_call_with_its_figures() {
    let listener = Listener::call(&[]);
    let to = listener.to();
    let caller = thread::spawn(move || run(&["call", &to, "--json", "--max-rate", "400k", "-t", "60"]));
    after(2500);
    listener.process.signal("KILL");
    let output = caller.join().unwrap();
    let message = text(&output.stderr);
    assert!(message.lines().last().unwrap().contains("the far end has gone"), "{message}");
    let record = broken(&output, "the far end has gone");
    assert!(number(&record["flows"][0]["sent_packets"]) > 40.0, "{record}");
    // Its host says so: that takes a second, where silence takes 15.
    assert!((2.5..15.0).contains(&number(&record["duration_s"])), "{record}");
    // It has not said what arrived: that is unknown, not 0.
    let flow = &record["flows"][0];
    let stream = &flow["streams"][0];
    let unknown = [
        "received_rate_bps",
        "received_packets",
        "lost_packets",
        "duplicate_packets",
        "goodput_bps",
        "frames",
    ];
    assert!(unknown.iter().all(|key| flow[*key].is_null()), "{flow}");
    assert!(["frames", "goodput_bps"].iter().all(|key| stream[*key].is_null()), "{stream}");
    assert!(stream["repair"]["requested_packets"].is_null(), "{stream}");
    assert!(
        number(&flow["sent_rate_bps"]) > 0.0 && stream["repair"]["retransmitted_packets"].is_u64(),
        "{flow}"
    );
    let why = record["call"]["unreported"].as_str().unwrap();
    assert!(why.starts_with("what the far end received of \"call\" is unknown"), "{why}");
}

/// A listener with `args`, its address and its standard error, which is full until the flag is set and it is read.
fn unread_listener(args: &[&str]) -> (Running, SocketAddr, BufReader<PipeReader>, Arc<AtomicBool>) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut filler = writer.try_clone().unwrap();
    let mut command = giusto(&[&["call", "--listen", "127.0.0.1:0"], args].concat());
    let process = Running(command.stdout(Stdio::piped()).stderr(writer).spawn().unwrap());
    drop(command);
    let (mut notes, mut first) = (BufReader::new(reader), String::new());
    notes.read_line(&mut first).unwrap();
    let address = first.split_whitespace().nth(2).unwrap().parse().unwrap();
    let is_read = Arc::new(AtomicBool::new(false));
    let filled = Arc::clone(&is_read);
    thread::spawn(move || while !filled.load(Relaxed) && filler.write_all(b"\n").is_ok() {});
    after(500);
    (process, address, notes, is_read)
}

#[test]
fn a_listener_whose_notes_are_not_read_serves_calls() {
    let (process, address, notes, is_read) = unread_listener(&["--once", "--json"]);
    let record = whole(caller(address, &["-t", "1"]));
    assert!(number(&record["flows"][0]["received_packets"]) > 20.0, "{record}");
    is_read.store(true, Relaxed);
    let notes: Vec<String> = notes.lines().map_while(Result::ok).filter(|line| !line.is_empty()).collect();
    assert!(notes.len() < 10 && notes[0].contains(": call, sends by "), "{notes:?}");
    whole(process);
}

#[test]
fn results_behind_notes_that_are_not_read_are_printed() {
    let (process, address, _notes, _) = unread_listener(&[]);
    whole(caller(address, &["-t", "1"]));
    process.signal("INT");
    let output = process.output();
    let printed = text(&output.stdout);
    assert!(matches!(output.status.code(), Some(0 | 3)) && printed.contains("listener of "), "{printed}");
}

#[test]
fn a_restarted_far_end_ends_the_call_and_serves_another() {
    let first = Listener::call(&[]);
    let address = first.address;
    // Behind it nobody says that nothing listens for the moment.
    let relay = Relay::to(address);
    let call = caller(relay.address, &["-t", "60"]);
    after(1500);
    first.process.signal("KILL");
    drop(first);
    let second = Listener::of(&["call", "--listen", &address.to_string(), "--once", "--json"]);
    broken(&call.output(), "no longer knows this call");
    whole(caller(address, &["-t", "1"]));
    let (listened, _) = second.result();
    // Of the first call it has had media or one message, whichever came first.
    let ignored = &listened["call"]["ignored"];
    let of_another = number(&ignored["other_source_packets"]) + number(&ignored["forged_packets"]);
    assert!(of_another > 0.0, "{listened}");
}

#[test]
fn a_caller_that_disappears_ends_the_call_at_the_listener() {
    let listener = Listener::call(&["--silence", "1500ms"]);
    // Behind it nobody says that nothing listens.
    let relay = Relay::to(listener.address);
    let caller = caller(relay.address, &["-t", "60"]);
    after(1500);
    drop(caller);
    let record = broken(&listener.process.output(), "the far end is silent");
    assert!(number(&record["flows"][0]["received_packets"]) > 20.0, "{record}");
}

#[test]
fn an_interrupt_ends_the_call_at_both_ends() {
    let listener = Listener::call(&[]);
    let caller = caller(listener.address, &["-t", "60"]);
    after(1500);
    caller.signal("INT");
    let (record, (listened, _)) = (json(&caller.output()), listener.result());
    assert_eq!((&record["call"]["error"], &record["interrupted"]), (&Value::Null, &true.into()), "{record}");
    assert_eq!(listened["call"]["error"], Value::Null, "{listened}");
    assert_eq!(record["flows"][0]["received_packets"], listened["flows"][0]["received_packets"]);
}

#[test]
fn blocked_feedback_slows_the_sender_and_ends_no_call() {
    let rate = |blocks: bool| {
        let listener = Listener::call(&[]);
        let relay = Relay::to(listener.address);
        if blocks {
            relay.set(Box::new(|way, bytes| {
                let is_feedback = way == Way::Back && bytes[0] >= 128;
                if is_feedback { vec![] } else { vec![(Duration::ZERO, bytes.to_vec())] }
            }));
        }
        let record = whole(caller(relay.address, &["-t", "4"]));
        number(&record["flows"][0]["sent_rate_bps"])
    };
    let (blocked, open) = (rate(true), rate(false));
    assert!(blocked < open && blocked > 10e3, "{blocked} with blocked feedback, {open} without");
}

/// On the path, one of twenty datagrams is delayed, one is repeated and one is changed.
#[test]
fn reordered_repeated_and_changed_datagrams_do_no_harm() {
    let listener = Listener::call(&[]);
    let relay = Relay::to(listener.address);
    let copies = Arc::new(AtomicU64::new(0));
    let (counted, mut number_of) = (copies.clone(), 0_usize);
    relay.set(Box::new(move |way, bytes| {
        number_of += 1;
        let mut changed = bytes.to_vec();
        match number_of % 20 {
            3 => vec![(Duration::from_millis(15), changed)],
            9 => {
                counted.fetch_add(u64::from(way == Way::Forth && bytes[0] >= 128 && bytes[1] < 192), Relaxed);
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
    let record = whole(caller(relay.address, &["-t", "5", "--bidir", "--audio"]));
    let (listened, _) = listener.result();
    assert!(copies.load(Relaxed) > 3, "{listened}");
    for flow in [&record["flows"][1], &listened["flows"][0]] {
        assert!(number(&flow["frames"]) > 150.0 && number(&flow["loss_ratio"]) < 0.1, "{flow}");
    }
}

#[test]
fn a_flood_of_forged_datagrams_changes_nothing() {
    in_namespace("a_flood_of_forged_datagrams_changes_nothing", 65_536, || {
        let listener = Listener::call(&[]);
        let memory = || {
            let status = fs::read_to_string(format!("/proc/{}/status", listener.process.0.id())).unwrap();
            let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        let caller = caller(listener.address, &["-t", "4"]);
        after(1000);
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
        let record = whole(caller);
        stop.store(true, Relaxed);
        let sent = flood.join().unwrap();
        let grown = memory().saturating_sub(before);
        let (listened, _) = listener.result();
        let flow = &listened["flows"][0];
        let sent_packets = &record["flows"][0]["sent_packets"];
        assert_has(
            flow,
            &json!({ "lost_packets": 0, "duplicate_packets": 0, "received_packets": sent_packets }),
        );
        let ignored = &listened["call"]["ignored"];
        let kinds = ["other_source_packets", "damaged_packets", "foreign_packets"];
        let ignored: u64 = kinds.iter().map(|kind| count(&ignored[*kind])).sum();
        assert!(ignored > 1000 && ignored <= sent, "{ignored} of {sent}: {listened}");
        assert!(grown < 8_000, "{grown} kB after {sent} forged datagrams");
    });
}

#[test]
fn a_smaller_mtu_ends_no_call() {
    in_namespace("a_smaller_mtu_ends_no_call", 1500, || {
        let listener = Listener::call(&[]);
        let caller = caller(listener.address, &["-t", "4"]);
        after(1500);
        ip(&["link", "set", "lo", "mtu", "600"]);
        let record = whole(caller);
        let (listened, _) = listener.result();
        let flow = &listened["flows"][0];
        // The system cuts datagrams that have become too long into fragments.
        assert!(number(&flow["loss_ratio"]) < 0.05, "{listened}");
        assert_eq!(record["flows"][0]["sent_packets"], flow["sent_packets"]);
        assert!((60.0..125.0).contains(&number(&flow["frames"])), "{listened}");
    });
}

#[test]
fn a_call_loses_what_the_queue_of_its_interface_drops() {
    let name = "a call over tbf";
    in_namespace(name, 65_536, || {
        let far = Far::behind(1500);
        let tc = |words: &str| Command::new("tc").args(words.split(' ')).output();
        let tbf = "qdisc add dev near root tbf rate 1mbit burst 5k latency 100ms";
        if !tc(tbf).is_ok_and(|made| made.status.success()) {
            return skip(name, "the kernel has no tbf, or tc is missing");
        }
        let _listener = far.listener(&["call", "--listen", "10.9.0.2:5005", "--once", "--json"]);
        let twice = "--controller fixed --start-rate 2M --max-rate 2M --repair none";
        let words: Vec<_> =
            ["call", "10.9.0.2:5005", "-t", "3", "--json"].into_iter().chain(twice.split(' ')).collect();
        let call = finished(&run(&words));
        let said = text(&tc("-s qdisc show dev near").unwrap().stdout);
        let dropped = said.split("dropped ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        let (flow, dropped) = (&call["flows"][0], dropped.parse::<u64>().unwrap());
        let (sent, lost) = (count(&flow["sent_packets"]), count(&flow["lost_packets"]));
        assert!(sent > 300 && lost * 3 > sent, "half of it does not fit: {flow}");
        // Some are tried once more, none in a loop.
        assert!((lost..2 * lost).contains(&dropped), "{lost} lost of {sent}: {said}");
    });
}
