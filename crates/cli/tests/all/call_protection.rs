//! What protects the media of `giusto call`: forgeries that have the right address and the right sources, and ends that do not agree.

use std::time::Duration;

use crate::common::{
    count, json, number,
    process::Listener,
    relay::{Relay, Way},
    run, text,
};
use serde_json::Value;

/// A call of 3 s with 1 Mbit/s during which the caller gets forged feedback from the listener's address: with each datagram of feedback,
/// a limit of 50 kbit/s (REMB, 24 bytes). Returns the record, and how many datagrams were forged.
fn forged(flags: &[&str], trailer: usize) -> (Value, u64) {
    let listener = Listener::call(flags);
    let relay = Relay::to(listener.address);
    let (counter, forgeries) = std::sync::mpsc::channel();
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
                counter.send(()).unwrap();
            }
        }
        sent
    }));
    let to = relay.address.to_string();
    let call = ["call", &to, "-t", "3", "--max-rate", "1M", "--start-rate", "800k", "--json"];
    let record = json(&run(&[&call[..], flags].concat()));
    listener.result();
    drop(relay);
    (record, forgeries.iter().count() as u64)
}

#[test]
fn forged_feedback_changes_nothing_without_keys() {
    let rate = |record: &Value| number(&record["flows"][0]["received_rate_bps"]);
    let (record, forgeries) = forged(&[], 14);
    assert!(rate(&record) > 600e3, "{record}");
    assert_eq!(record["call"]["protection"], "handshake");
    // Those behind the end of the call are not seen.
    let refused = count(&record["call"]["ignored"]["unauthenticated_packets"]);
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
        let listener = Listener::call(listening);
        let output = run(&[&["call", &listener.to(), "-t", "1"], calling].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(problem), "{}", text(&output.stderr));
    }
}

/// The fingerprint of the certificate in this file, which a listener makes.
#[cfg(feature = "browser")]
fn fingerprint(file: &str) -> String {
    use std::{
        io::{BufRead as _, BufReader},
        process::Stdio,
    };

    use crate::common::{giusto, process::Running};

    let some = vec!["00"; 32].join(":");
    let listen = ["call", "--listen", "127.0.0.1:0", "--srtp", "--certificate", file, "--fingerprint", &some];
    let listener = giusto(&listen).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut listener = Running(listener.unwrap());
    let mut said = BufReader::new(listener.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    said.find_map(|line| Some(line.split_once("fingerprint of this end: ")?.1.to_owned())).unwrap()
}

#[cfg(feature = "browser")]
#[test]
fn dtls_compares_fingerprints_and_media_are_encrypted() {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering::Relaxed},
        },
        time::Instant,
    };

    use crate::common::{Folder, finished};

    let folder = Folder::with("");
    let [here, there] = ["caller", "listener"].map(|name| folder.path(name).display().to_string());
    let [ours, theirs] = [&here, &there].map(|file| fingerprint(file));
    assert_ne!(ours, theirs);
    let srtp = |certificate, expected| ["--srtp", "--certificate", certificate, "--fingerprint", expected];
    let listen = ["call", "--listen", "127.0.0.1:0", "--json"];
    let listener = Listener::of(&[&listen[..], &srtp(&there, &ours)].concat());
    let to = listener.to();
    // Another listener than expected, another caller, and one without encryption.
    let wrong = format!("fingerprint {theirs}, expected was {ours}");
    for (flags, error) in [
        (&srtp(&here, &ours)[..], &*wrong),
        (&srtp(&there, &theirs), "did not accept this end's certificate"),
        (&[], "accepts only authenticated calls"),
    ] {
        let output = run(&[&["call", &to, "-t", "2"], flags].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(error), "{said}");
    }
    // The right ones, with feedback of both ends that is read.
    let relay = Relay::to(listener.address);
    let (dropped, passed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (lost, repeated) = (Arc::clone(&dropped), Arc::clone(&passed));
    let mut until = None;
    relay.set(Box::new(move |way, bytes| {
        // RFC 9147 §4: the caller's certificate and Finished are the first that it encrypts. Those of half a second are lost.
        if way == Way::Forth && matches!(bytes[0], 32..=63) {
            if Instant::now() < *until.get_or_insert_with(|| Instant::now() + Duration::from_millis(500)) {
                lost.fetch_add(1, Relaxed);
                return Vec::new();
            }
            repeated.fetch_add(1, Relaxed);
        }
        vec![(Duration::ZERO, bytes.to_vec())]
    }));
    let (to, capture) = (relay.address.to_string(), folder.path("call.pcapng"));
    let call = [
        "call",
        &to,
        "-t",
        "2",
        "--max-rate",
        "1M",
        "--bidir",
        "--json",
        "--pcap",
        capture.to_str().unwrap(),
    ];
    let record = finished(&run(&[&call[..], &srtp(&here, &theirs)].concat()));
    assert_eq!(record["call"]["protection"], "srtp");
    let (dropped, passed) = (dropped.load(Relaxed), passed.load(Relaxed));
    assert!(dropped >= 1 && passed >= 1, "{dropped} dropped, {passed} passed");
    for flow in [0, 1] {
        let flow = &record["flows"][flow];
        assert_eq!(flow["lost_packets"], 0, "{record}");
        assert!(count(&flow["frames"]) > 40 && flow["target_rate_bps"] != 0, "{record}");
    }
    // The payload of a model's frame is all zeros: nothing of it is on the wire. Messages have fewer zeros behind them.
    let zeros = [0; 400];
    assert!(!std::fs::read(&capture).unwrap().windows(400).any(|run| run == zeros));
    let (listened, _) = listener.stop();
    assert_eq!(listened["runs"][0]["call"]["protection"], "srtp", "{listened}");
}

#[cfg(feature = "browser")]
#[test]
fn where_nobody_answers_by_dtls_the_caller_says_so() {
    let some = vec!["00"; 32].join(":");
    let said = text(&run(&["call", "127.0.0.1:9", "--srtp", "--fingerprint", &some]).stderr);
    assert!(said.contains("no DTLS handshake within"), "{said}");
}
