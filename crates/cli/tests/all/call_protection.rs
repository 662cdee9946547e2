//! What protects the media of `giusto call`: forgeries that have the right address and the right sources, and ends that do not agree.

use std::{process::Stdio, time::Duration};

use crate::common::{
    giusto, json,
    process::Listener,
    relay::{Relay, Way},
    run, text,
};
use serde_json::Value;

/// A call of 3 s with 1 Mbit/s during which the caller gets forged feedback from the listener's address: with each datagram of feedback,
/// a limit of 50 kbit/s (REMB, 24 bytes). Returns the record, and how many datagrams were forged.
fn forged(flags: &[&str], trailer: usize) -> (Value, u64) {
    let listen = ["call", "--listen", "127.0.0.1:0", "--once", "--json"];
    let listener = Listener::of(&[&listen[..], flags].concat());
    let relay = Relay::to(listener.address);
    let (count, forgeries) = std::sync::mpsc::channel();
    let mut video = [0; 4];
    relay.set(Box::new(move |way, bytes| {
        if way == Way::Forth && bytes[0] == 0x90 && bytes[1] & 0x7f == 96 {
            video.copy_from_slice(&bytes[8..12]);
        }
        let mut sent = vec![(Duration::ZERO, bytes.to_vec())];
        if way == Way::Back && (128..192).contains(&bytes[0]) {
            let source = &bytes[4..8];
            // draft-alvestrand-rmcat-remb-03 §2.2: of the listener, about the caller's first video.
            let limit = [&[0x8f, 206, 0, 5], source, &[0; 4], b"REMB", &[1, 0, 0xc3, 0x50], &video].concat();
            for more in [0, trailer] {
                let mut limit = limit.clone();
                limit.resize(24 + more, 7);
                sent.push((Duration::ZERO, limit));
                count.send(()).unwrap();
            }
        }
        sent
    }));
    let to = relay.address.to_string();
    let call = ["call", &to, "-t", "3", "--max-rate", "1M", "--start-rate", "800k", "--json"];
    let mut command = giusto(&[&call[..], flags].concat());
    let caller = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let record = json(&caller.wait_with_output().unwrap());
    listener.result();
    drop(relay);
    (record, forgeries.iter().count() as u64)
}

#[test]
fn forged_feedback_changes_nothing_without_keys() {
    let rate = |record: &Value| record["flows"][0]["received_rate_bps"].as_f64().unwrap();
    let (record, forgeries) = forged(&[], 14);
    assert!(rate(&record) > 600e3, "{record}");
    assert_eq!(record["call"]["protection"], "handshake");
    // Those behind the end of the call are not seen.
    let refused = record["call"]["ignored"]["unauthenticated_packets"].as_u64().unwrap();
    assert!(refused > 20 && (refused..refused + 20).contains(&forgeries), "{refused} of {forgeries}");
    // Plain RTP believes them.
    let (record, _) = forged(&["--insecure"], 0);
    assert!(rate(&record) < 400e3, "{record}");
    assert_eq!(record["call"]["protection"], "none");
}

#[test]
fn ends_that_protect_media_differently_are_told() {
    for (listening, calling, problem) in [
        (&[][..], &["--insecure"][..], "refused the call: its media are authenticated"),
        (&["--insecure"], &[], "refused the call: its media are insecure"),
    ] {
        let listener = Listener::of(&[&["call", "--listen", "127.0.0.1:0"], listening].concat());
        let to = listener.address.to_string();
        let output = run(&[&["call", &to, "-t", "1"], calling].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(problem), "{}", text(&output.stderr));
    }
    let output = run(&["call", "127.0.0.1:1", "--insecure", "--key-file", "keys"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("--key-file"));
}

/// The fingerprint that a listener with `--srtp` prints first.
#[cfg(feature = "browser")]
fn fingerprint(file: &std::path::Path) -> String {
    // A call to nowhere makes the file, and says whose it is.
    let file = file.to_str().unwrap();
    let (some, to) = (vec!["00"; 32].join(":"), "127.0.0.1:9");
    let output = run(&["call", to, "-t", "1", "--srtp", "--certificate", file, "--fingerprint", &some]);
    let said = text(&output.stderr);
    assert!(said.contains("no DTLS handshake within"), "{said}");
    let line = said.lines().find_map(|line| line.split_once("fingerprint of this end: "));
    line.unwrap_or_else(|| panic!("{said}")).1.to_owned()
}

#[cfg(feature = "browser")]
#[test]
fn dtls_compares_fingerprints_and_media_are_encrypted() {
    let folder = crate::common::Folder::with("");
    let [here, there] = ["caller", "listener"].map(|name| folder.path(name));
    let [ours, theirs] = [&here, &there].map(|file| fingerprint(file));
    assert_ne!(ours, theirs);
    let [here, there] = [&here, &there].map(|file| file.to_str().unwrap());
    let listen =
        ["call", "--listen", "127.0.0.1:0", "--srtp", "--certificate", there, "--fingerprint", &ours];
    let listener = Listener::of(&[&listen[..], &["--json"]].concat());
    let to = listener.address.to_string();
    let call = |certificate: &str, expected: &str, more: &[&str]| {
        let flags = ["--srtp", "--certificate", certificate, "--fingerprint", expected];
        run(&[&["call", &to, "-t", "2", "--json"], &flags[..], more].concat())
    };
    // Another listener than expected, and another caller.
    let output = call(here, &ours, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&format!("fingerprint {theirs}, expected was {ours}")));
    let output = call(there, &theirs, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("did not accept this end's certificate"),
        "{}",
        text(&output.stderr)
    );
    // The right ones, with feedback of both ends that is read.
    let capture = folder.path("call.pcapng");
    let output = call(here, &theirs, &["--max-rate", "1M", "--bidir", "--pcap", capture.to_str().unwrap()]);
    let record = json(&output);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{} {record}", text(&output.stderr));
    assert_eq!(record["call"]["protection"], "srtp");
    for flow in [0, 1] {
        let flow = &record["flows"][flow];
        assert_eq!(flow["lost_packets"], 0, "{record}");
        assert!(flow["frames"].as_u64().unwrap() > 40 && flow["target_rate_bps"] != 0, "{record}");
    }
    // The payload of a model's frame is all zeros: nothing of it is on the wire. Messages have fewer zeros behind them.
    let zeros =
        std::fs::read(&capture).unwrap().windows(400).filter(|run| run.iter().all(|byte| *byte == 0)).count();
    assert_eq!(zeros, 0);
    // Without encryption, or with a key, nobody gets in.
    let output = run(&["call", &to, "-t", "1"]);
    assert!(text(&output.stderr).contains("accepts only authenticated calls"), "{}", text(&output.stderr));
    listener.process.signal("INT");
    let (listened, _) = listener.result();
    assert_eq!(listened["runs"][0]["call"]["protection"], "srtp", "{listened}");
}

#[cfg(feature = "browser")]
#[test]
fn the_last_flight_of_the_caller_is_repeated_when_it_is_lost() {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering::Relaxed},
        },
        time::{Duration, Instant},
    };

    use crate::common::relay::{Relay, Way};

    let folder = crate::common::Folder::with("");
    let [here, there] = ["caller", "listener"].map(|name| folder.path(name));
    let [ours, theirs] = [&here, &there].map(|file| fingerprint(file));
    let [here, there] = [&here, &there].map(|file| file.to_str().unwrap());
    let listener = Listener::of(&[
        "call",
        "--listen",
        "127.0.0.1:0",
        "--once",
        "--json",
        "--srtp",
        "--certificate",
        there,
        "--fingerprint",
        &ours,
    ]);
    let relay = Relay::to(listener.address);
    let (dropped, passed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (lost, repeated) = (Arc::clone(&dropped), Arc::clone(&passed));
    let mut until = None;
    relay.set(Box::new(move |way, bytes| {
        // RFC 9147 §4: the caller's certificate and Finished are the first that it encrypts. Those of half a second are lost.
        let is_last_flight = way == Way::Forth && matches!(bytes[0], 32..=63);
        if is_last_flight {
            let until = *until.get_or_insert_with(|| Instant::now() + Duration::from_millis(500));
            if Instant::now() < until {
                lost.fetch_add(1, Relaxed);
                return Vec::new();
            }
            repeated.fetch_add(1, Relaxed);
        }
        vec![(Duration::ZERO, bytes.to_vec())]
    }));
    let to = relay.address.to_string();
    let output =
        run(&["call", &to, "-t", "2", "--json", "--srtp", "--certificate", here, "--fingerprint", &theirs]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    assert_eq!(json(&output)["call"]["protection"], "srtp");
    let (dropped, passed) = (dropped.load(Relaxed), passed.load(Relaxed));
    assert!(dropped >= 1 && passed >= 1, "{dropped} dropped, {passed} passed");
    assert_eq!(listener.result().0["call"]["protection"], "srtp");
}

#[test]
fn srtp_needs_keys_that_both_ends_have() {
    let error = |args: &[&str]| {
        let output = run(&[&["call", "127.0.0.1:1", "--srtp"], args].concat());
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    if cfg!(feature = "browser") {
        assert!(error(&[]).contains("add --fingerprint"));
        assert!(error(&["--fingerprint", "12:34"]).contains("not a fingerprint"));
    } else {
        assert!(error(&[]).contains("--features browser"));
    }
    assert!(error(&["--insecure"]).contains("--insecure"));
}
