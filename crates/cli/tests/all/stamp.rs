//! STAMP: `giusto send --protocol stamp` and `giusto recv --accept stamp` as real processes on loopback, with each other, with a
//! path that drops packets, and with stamp-suite, another implementation.

use std::{
    net::{SocketAddr, UdpSocket},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::common::{
    Folder, assert_has, count, finished, intervals_and_results, json, measured, number,
    process::{Listener, Running, start},
    relay::{Relay, Way},
    run, skip, text, total,
};
use giusto_net::{ReceiveBatch, SocketConfig, TrafficClass, UdpSocket as OwnSocket, Wait};
use serde_json::{Value, json};

const KEY: &str = "00112233445566778899aabbccddeeff";

/// Files with keys: the right one, a wrong one, and the right one as stamp-suite reads it.
fn keys() -> (Folder, [String; 3]) {
    let folder = Folder::with("");
    let wrong = "ab".repeat(16);
    let contents = [("right", &*format!("1 {KEY}\n")), ("wrong", &*format!("1 {wrong}\n")), ("hex", KEY)];
    let paths = contents.map(|(name, content)| {
        let path = folder.path(name);
        std::fs::write(&path, content).unwrap();
        // stamp-suite refuses a key that others may read.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.display().to_string()
    });
    (folder, paths)
}

/// A `giusto recv --accept stamp` on a free port.
struct Reflector(Listener);

impl Reflector {
    fn start(address: &str, args: &[&str]) -> Self {
        Self(Listener::start(&[&[address, "--accept", "stamp", "--json"], args].concat()))
    }

    /// Ends it; its counts.
    fn counts(self) -> Value {
        let (counts, status) = self.0.stop();
        assert_eq!(status, 0, "{counts}");
        counts
    }
}

fn send(to: SocketAddr, args: &[&str]) -> Value {
    finished(&run(&[&["send", &to.to_string(), "--protocol", "stamp", "--json"], args].concat()))
}

#[test]
fn both_modes_measure_an_rtt() {
    let (_folder, [right, ..]) = keys();
    let key = ["--key-file", &right];
    for (address, key, flags, size) in [
        ("127.0.0.1:0", &[][..], &[][..], 44),
        ("[::1]:0", &key, &[], 112),
        ("127.0.0.1:0", &key, &["--size", "700"], 700),
        ("127.0.0.1:0", &[], &["--size", "48", "--timestamps", "ptp"], 48),
    ] {
        if address.starts_with('[') && UdpSocket::bind("[::1]:0").is_err() {
            skip("both_modes_measure_an_rtt over IPv6", "there is no [::1]");
            continue;
        }
        let reflector = Reflector::start(address, key);
        let result = send(reflector.0.address, &[&["--count", "20", "--rate", "200k"], flags, key].concat());
        let mode = if key.is_empty() { "unauthenticated" } else { "authenticated" };
        assert_has(
            &result,
            &json!({ "mode": mode, "size_bytes": size, "sent_packets": 20, "answered_packets": 20, "lost_packets": 0,
                "reflector_stateful": true }),
        );
        assert_eq!(result["ttl_at_reflector"]["min"], 64);
        let ways = [&result["forward"]["one_way_delay_ms"], &result["backward"]["one_way_delay_ms"]];
        let [trip, forward, backward] =
            [&result["round_trip_ms"], ways[0], ways[1]].map(|delays| number(&delays["min"]));
        // One clock: the shortest round trip is not shorter than the shortest ways together.
        assert!(trip > 0.0 && trip < 5_000.0 && forward > -0.1 && backward > 0.0, "{result}");
        assert!(trip >= forward + backward - 0.001, "{trip} {forward} {backward}");
        assert_eq!(ways[0]["basis"], "absolute: one clock at both ends");
        // The session itself, and that which finds out whether the reflector counts.
        assert_has(&reflector.counts(), &json!({ "sessions": 2, "reflected_packets": 21 }));
    }
}

#[test]
fn an_interrupted_run_prints_its_result() {
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let sender = start(&["send", &reflector.0.to(), "--protocol", "stamp", "--duration", "60s", "--json"]);
    std::thread::sleep(Duration::from_secs(2));
    sender.signal("INT");
    let result = measured(&sender.output());
    assert_eq!(result["ended"], "interrupted");
    // 10 packets a second for about 2 s.
    assert!((1..60).contains(&count(&result["sent_packets"])), "{result}");
}

#[test]
fn a_run_without_answers_fails_and_says_why() {
    let (_folder, [right, wrong, _]) = keys();
    let reflector = Reflector::start("127.0.0.1:0", &["--key-file", &right]);
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (to, args, why) in [
        (nobody, &[][..], "the port is unreachable: is a STAMP reflector running there"),
        (silent.local_addr().unwrap(), &[], "the reflector does not run or requires authentication"),
        (reflector.0.address, &["--key-file", &wrong], "has another key"),
        (reflector.0.address, &[], "requires authentication (--key-file)"),
    ] {
        let send = ["send", &to.to_string(), "--protocol", "stamp", "--count", "3", "--rate", "100k"];
        let output = run(&[&send[..], args].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stdout).contains("3 sent, 0 answered, 3 lost"), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains(why), "{why}: {}", text(&output.stderr));
    }
    let refused = &reflector.counts()["unanswered_packets"];
    assert_eq!(count(&refused["forged"]) + count(&refused["malformed"]), 3 + 3 + 2 * 3, "{refused}");
}

#[test]
fn losses_are_parted_as_the_path_has_dropped() {
    const NEVER: u64 = u64::MAX;
    for (drop_every, stateless) in [([7, 11], false), ([NEVER, 9], false), ([7, 11], true)] {
        let reflector = Reflector::start("127.0.0.1:0", if stateless { &["--stateless"] } else { &[] });
        let path = Relay::to(reflector.0.address);
        let dropped = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let (counted, mut passed) = (Arc::clone(&dropped), [0_u64; 2]);
        path.set(Box::new(move |way, bytes| {
            let way = usize::from(way == Way::Back);
            // Shorter ones ask whether the reflector counts.
            let drops = bytes.len() >= 100 && passed[way] % drop_every[way] == 2;
            passed[way] += u64::from(bytes.len() >= 100);
            counted[way].fetch_add(u64::from(drops), Relaxed);
            if drops { Vec::new() } else { vec![(Duration::ZERO, bytes.to_vec())] }
        }));
        let result = send(path.address, &["--count", "200", "--size", "100", "--rate", "160k"]);
        let [forward, backward] = [0, 1].map(|way: usize| dropped[way].load(Relaxed));
        assert!(backward > 10 && (forward > 10) == (drop_every[0] != NEVER), "{forward} {backward}");
        assert_eq!(result["lost_packets"], forward + backward, "{result}");
        assert_eq!(result["reflector_stateful"], !stateless);
        let [lost_forward, lost_backward] =
            ["forward", "backward"].map(|way| result[way]["lost_packets"].as_u64());
        let unattributed = count(&result["unattributed_lost_packets"]);
        if stateless {
            assert_eq!((lost_forward, lost_backward, unattributed), (None, None, forward + backward));
        } else {
            // The last packets may have been dropped: their direction cannot be known.
            assert!(unattributed <= 2, "{result}");
            let (lost_forward, lost_backward) = (lost_forward.unwrap(), lost_backward.unwrap());
            assert!((forward - unattributed..=forward).contains(&lost_forward), "{result}");
            assert!((backward - unattributed..=backward).contains(&lost_backward), "{result}");
        }
    }
}

/// stamp-suite, if it is installed.
fn stamp_suite(test: &str) -> Option<&'static str> {
    const PROGRAM: &str = "stamp-suite";
    let found = Command::new(PROGRAM).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skip(test, "stamp-suite is not installed (cargo install stamp-suite)");
    }
    found.then_some(PROGRAM)
}

#[test]
fn stamp_suite_reflects_our_packets() {
    let Some(program) = stamp_suite("stamp_suite_reflects_our_packets") else { return };
    let (_folder, [right, _, hex]) = keys();
    for (theirs, ours) in [
        (&["--stateful-reflector"][..], &["--size", "200"][..]),
        (&["--auth-mode", "A", "--hmac-key-file", &hex][..], &["--key-file", &right, "--size", "200"][..]),
        (&["--clock-source", "PTP", "--clock-synchronized"][..], &["--timestamps", "ptp"][..]),
    ] {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command.args(["--is-reflector", "--local-addr", "127.0.0.1", "--local-port", &port.to_string()]);
        command.args(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        let _reflector = Running(command.spawn().unwrap());
        // It listens once a sender has an answer.
        let to = SocketAddr::from(([127, 0, 0, 1], port)).to_string();
        let started = Instant::now();
        let send = ["send", &to, "--protocol", "stamp", "--json", "--count", "20", "--rate", "500k"];
        let result = loop {
            let output = run(&[&send[..], ours].concat());
            if output.status.code() != Some(1) || started.elapsed() > Duration::from_secs(20) {
                break json(&output);
            }
        };
        let stateful = theirs == ["--stateful-reflector"];
        assert_has(
            &result,
            &json!({ "answered_packets": 20, "reflector_stateful": stateful, "forged_packets": 0, "unmatched_packets": 0,
                "malformed_packets": 0, "answers_without_times": 0, "answers_without_ssid": 0 }),
        );
        if ours.contains(&"--size") {
            let fine = json!({ "unrecognised": false, "malformed": false, "not_authentic": false });
            assert_has(&result["extensions"], &fine);
        }
        assert_eq!(result["ttl_at_reflector"]["min"], 64);
        let [trip, there] = [&result["round_trip_ms"]["min"], &result["forward"]["one_way_delay_ms"]["min"]]
            .map(|n| n.as_f64().unwrap());
        assert!(trip > 0.0 && there > 0.0 && there < trip + 0.1, "one clock and one epoch: {result}");
    }
}

#[test]
fn stamp_suite_verifies_our_answers() {
    let Some(program) = stamp_suite("stamp_suite_verifies_our_answers") else { return };
    let (_folder, [right, _, hex]) = keys();
    let authenticated = ["--auth-mode", "A", "--hmac-key-file", &hex, "--verify-tlv-hmac"];
    let with_hmac = [&authenticated[..], &["--extra-padding", "100", "--timestamp-info"]].concat();
    for (ours, theirs) in [
        (&[][..], &["--extra-padding", "100", "--ssid", "77"][..]),
        (&[], &["--clock-source", "PTP"]),
        // With an extension that we do not understand, and the HMAC over all of them.
        (&["--key-file", &right], &with_hmac),
    ] {
        let reflector = Reflector::start("127.0.0.1:0", ours);
        let port = reflector.0.address.port().to_string();
        let mut command = Command::new(program);
        command.args([
            "--remote-addr",
            "127.0.0.1",
            "--remote-port",
            &port,
            "--count",
            "20",
            "--send-delay",
            "10",
        ]);
        command.args(["--timeout", "2", "--output-format", "json"]).args(theirs);
        let output = command.stderr(Stdio::null()).output().unwrap();
        let printed = text(&output.stdout);
        let summary = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).next_back();
        let summary = summary.unwrap_or_else(|| panic!("no summary in {printed:?}"));
        assert_has(&summary, &json!({ "packets_received": 20, "packets_lost": 0 }));
        let measured = &summary["measurements"];
        assert_has(measured, &json!({ "last_reflector_sequence": 19, "unknown_replies": 0 }));
        let tlvs = &measured["tlv_validation"];
        assert_eq!((&tlvs["rejected_replies"], &tlvs["hmac"]["failed"]), (&0.into(), &0.into()), "{tlvs}");
        if theirs.contains(&"--verify-tlv-hmac") {
            assert_eq!(tlvs["hmac"]["verified"], 20, "{tlvs}");
            assert_eq!(tlvs["flags"]["integrity_failed"], 0, "{tlvs}");
        }
        assert_eq!(reflector.counts()["reflected_packets"], 20);
    }
}

#[test]
fn intervals_add_up_to_the_result_at_both_ends() {
    let flags = ["-i", "0.5", "--json-lines"];
    let listener = Listener::start(&[&["127.0.0.1:0", "--accept", "stamp"], &flags[..]].concat());
    let to = listener.address.to_string();
    let output =
        run(&[&["send", &to, "--protocol", "stamp", "-b", "35200", "-t", "1.6"], &flags[..]].concat());
    let sent = text(&output.stdout);
    let (intervals, results) = intervals_and_results(&sent);
    assert!(results.len() == 1 && (2..=5).contains(&intervals.len()), "{sent}");
    for field in ["sent_packets", "answered_packets", "lost_packets"] {
        assert_eq!(total(&intervals, field), results[0][field].as_i64().unwrap(), "{field}: {sent}");
    }
    assert_eq!(results[0]["answered_packets"], 160, "{sent}");
    assert!(intervals[0]["round_trip_ms"]["p50"].as_f64().unwrap() > 0.0, "{sent}");
    listener.process.signal("INT");
    let reflected = text(&listener.process.output().stdout);
    let (intervals, results) = intervals_and_results(&reflected);
    assert!(results.len() == 1 && intervals.len() >= 2, "{reflected}");
    assert_eq!(total(&intervals, "reflected_packets"), results[0]["reflected_packets"].as_i64().unwrap());
    assert_eq!(total(&intervals, "reflected_packets"), 161, "{reflected}");

    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let to = reflector.0.address.to_string();
    for (form, wanted) in [("--csv", "interval,0,"), ("-J", "\"intervals\"")] {
        let output = run(&["send", &to, "--protocol", "stamp", "-t", "0.8", "-i", "0.5", form]);
        let printed = text(&output.stdout);
        assert!(matches!(output.status.code(), Some(0 | 3)) && printed.contains(wanted), "{form}: {printed}");
        if form == "--csv" {
            assert!(printed.starts_with("record,start_s,") && printed.contains("\nresult,0,"), "{printed}");
        }
    }
    let live = text(&run(&["send", &to, "--protocol", "stamp", "-t", "0.8", "-i", "0.5"]).stdout);
    let intervals = live.split("\n\n").next().unwrap_or_default();
    assert!(intervals.lines().all(|line| line.chars().count() <= 80), "{live}");
    assert!(live.trim_start().starts_with("interval s") && live.contains("packets     8 sent"), "{live}");
}

#[test]
fn answers_have_the_dscp_that_their_packet_asks_for() {
    let reflector = Reflector::start("127.0.0.1:0", &["--dscp", "10"]);
    let expedited = TrafficClass::new(46, 1).unwrap();
    let config = SocketConfig { traffic_class: expedited, ..SocketConfig::default() };
    let socket = OwnSocket::connected(reflector.0.address, &config).unwrap();
    let mut batch = ReceiveBatch::new(1, 2048);
    // A sender's packet of zeros has a number, a time and an error estimate, too.
    let base = [0_u8; 44];
    for (asked, arrives, value) in [
        (None, 10, None),
        (Some(34), 34, Some([34 << 2 | 46 >> 4, 0b1110_0100, 0, 0])),
        (Some(48), 46, Some([48 << 2 | 46 >> 4, 0b1110_0101, 0, 0])),
        (None, 10, None),
    ] {
        let tlv = asked.map_or(Vec::new(), |dscp: u8| vec![0x80, 4, 0, 4, dscp << 2, 0, 0, 0]);
        socket.send(&[&base[..], &tlv].concat()).unwrap();
        assert_eq!(socket.recv_batch(&mut batch, Wait::For(Duration::from_secs(60))).unwrap(), 1);
        let answer = batch.iter().next().unwrap();
        let class = answer.traffic_class.map(|class| (class.dscp(), class.ecn()));
        assert_eq!(class, Some((arrives, 0)), "{asked:?}");
        assert_eq!(answer.bytes.get(48..), value.as_ref().map(|value| &value[..]), "{asked:?}");
    }
    assert_eq!(reflector.counts()["refused_dscp_packets"], 1);
}
