//! The path that is chosen: interface, source, TTL, priority, flow label. What leaves is counted by nftables, and seen by the far end.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::common::{
    assert_measured, json,
    namespace::{Counted, Far, in_namespace, ip, with_hosts},
    process::Running,
    run, text,
};

/// Short runs that need no answer.
const SHORT: [&str; 6] = ["-b", "1M", "--count", "20", "--json", "--one-way"];

#[test]
fn datagrams_leave_as_asked_by_ttl_priority_and_flow_label() {
    in_namespace("TTL, priority and flow label", 65_536, || {
        let _far = Far::behind(1500);
        ip(&["address", "add", "fd00:9::1/64", "dev", "near", "nodad"]);
        let name = "TTL, priority and flow label";
        let wanted = [
            "udp dport 5005 ip ttl 9 meta priority 0:5",
            "udp dport 5006 ip6 hoplimit 9 ip6 flowlabel 0x12345 meta priority 0:5",
            "udp dport 5007 ip ttl 64 meta priority 0:0",
            "udp dport 5008 ip dscp 46 meta priority 0:5",
        ];
        let Some(counted) = Counted::sent(name, &wanted) else { return };
        let send = |words: &[&str]| {
            let output = run(&[&["send"], words, &SHORT].concat());
            assert_measured(output.status.code(), &json(&output));
        };
        let marks = ["--ttl", "9", "--priority", "5"];
        send(&[&["10.9.0.2:5005"], &marks[..]].concat());
        send(&[&["[fd00:9::2]:5006", "--flow-label", "0x12345"], &marks[..]].concat());
        send(&["10.9.0.2:5007"]);
        // DSCP 46 alone makes it 4.
        send(&["10.9.0.2:5008", "--dscp", "46", "--priority", "5"]);
        assert_eq!(counted.packets(), [20, 20, 20, 20]);
    });
}

/// A VLAN maps priorities to the bits of its tag (IEEE 802.1Q). `tshark` sees the tag as the far end does.
#[test]
fn a_vlan_carries_the_priority_in_its_tag() {
    let name = "the priority of a VLAN";
    in_namespace(name, 65_536, || {
        let far = Far::behind(1500);
        let skip = |why: &str| eprintln!("SKIPPED {name}: {why}");
        let vlan = ["link", "add", "link", "near", "name", "near.7", "type", "vlan", "id", "7"];
        let made = Command::new("ip").args(vlan).args(["egress-qos-map", "5:3", "4:6"]).output().unwrap();
        if !made.status.success() {
            return skip(&format!("no VLAN: {}", text(&made.stderr).trim()));
        }
        ip(&["address", "add", "10.7.0.1/24", "dev", "near.7"]);
        ip(&["link", "set", "near.7", "up"]);
        far.run(
            "ip link add link far name far.7 type vlan id 7
            ip address add 10.7.0.2/24 dev far.7
            ip link set far.7 up",
        );
        let _receiver = far.listener(&["recv", "10.7.0.2:5005"]);
        let mut tshark = far.enter("tshark");
        tshark.args(["-i", "far", "-l", "-Y", "udp.dstport == 5005 and udp.length > 1200"]);
        tshark.args(["-T", "fields", "-e", "vlan.priority", "-e", "vlan.id"]);
        let Ok(mut tshark) = tshark.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
            return skip("cannot run tshark");
        };
        let mut said = BufReader::new(tshark.stderr.take().unwrap()).lines();
        if !said.by_ref().map_while(Result::ok).any(|line| line.contains("Capturing on")) {
            return skip("tshark cannot capture");
        }
        let tshark = Running(tshark);
        // From that line on it opens the interface.
        thread::sleep(Duration::from_secs(1));
        let send = |words: &[&str]| {
            let output = run(&[
                &["send", "10.7.0.2:5005", "-l", "1200", "-b", "1M", "--count", "20", "--json"],
                words,
            ]
            .concat());
            assert_measured(output.status.code(), &json(&output));
        };
        send(&[]);
        send(&["--priority", "5"]);
        // DSCP 46 alone makes it 4.
        send(&["--dscp", "46"]);
        send(&["--dscp", "46", "--priority", "5"]);
        thread::sleep(Duration::from_secs(1));
        tshark.signal("INT");
        let seen = text(&tshark.output().stdout);
        let bits: Vec<&str> = seen.lines().collect();
        let runs: Vec<(&str, usize)> = bits.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
        assert_eq!(runs, [("0\t7", 20), ("3\t7", 20), ("6\t7", 20), ("3\t7", 20)], "{seen}");
    });
}

/// The path of iperf3's streams and of its control connection, and of TCP connections from the first segment on.
#[test]
fn iperf3_and_tcp_leave_as_asked_and_the_system_chooses_otherwise() {
    in_namespace("the path of iperf3 and TCP", 65_536, || {
        let far = Far::behind(1500);
        ip(&["address", "add", "fd00:9::1/64", "dev", "near", "nodad"]);
        ip(&["address", "add", "10.9.0.5/24", "dev", "near"]);
        let words = ["address", "add", "fd00:9::2/64", "dev", "far", "nodad"];
        assert!(far.enter("ip").args(words).status().unwrap().success());
        let name = "the path of iperf3 and TCP";
        // A connection that is being closed answers without what was asked for.
        let tcp_segments = "tcp flags & (syn | psh) != 0";
        let iperf3_data = "meta nfproto ipv4 udp dport 5201".to_owned();
        let iperf3_control = format!("meta nfproto ipv4 tcp dport 5201 {tcp_segments}");
        let load = format!("tcp dport 5005 {tcp_segments}");
        let counters = |base: &str| {
            let asked = format!("{base} ip ttl 9 ip saddr 10.9.0.5 meta priority 0:5");
            [base.to_owned(), asked, format!("{base} ip dscp 46")]
        };
        let mut all = [iperf3_data, iperf3_control, format!("meta nfproto ipv4 {load}")]
            .map(|base| counters(&base))
            .concat();
        all.push(format!("meta nfproto ipv6 {load}"));
        all.push(format!("{load} ip6 hoplimit 9 ip6 flowlabel 0x12345"));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let Some(counted) = Counted::sent(name, &all) else { return };
        let _iperf3 = far.listener(&["recv", "10.9.0.2:5201", "--accept", "iperf3"]);
        let _tcp = far.listener(&["recv", "[::]:5005", "--accept", "tcp"]);
        let asked = ["--ttl", "9", "--source", "10.9.0.5", "--priority", "5", "--dscp", "46"];
        let send = |words: &[&str]| {
            let output = run(&[&["send"], words, &["--json"]].concat());
            assert!(matches!(output.status.code(), Some(0 | 3)), "{words:?}: {}", text(&output.stderr));
            json(&output)
        };
        let iperf3 = ["10.9.0.2", "--protocol", "iperf3", "-b", "1M", "--count", "20"];
        let tcp = |to: &'static str| [to, "--protocol", "tcp", "-t", "300ms"];
        send(&[&iperf3[..], &asked].concat());
        send(&[&tcp("10.9.0.2")[..], &asked].concat());
        send(
            &[&tcp("fd00:9::2")[..], &["--ttl", "9", "--flow-label", "0x12345", "--interface", "near"]]
                .concat(),
        );
        let counts = counted.packets();
        // 20 datagrams and the greeting of the stream; the control connection has no DSCP, as that of iperf3.
        assert_eq!(counts[..3], [21, 21, 21], "{counts:?}");
        assert!(counts[3] > 5 && counts[4] == counts[3] && counts[5] == 0, "{counts:?}");
        // The first segment too: none is without.
        assert!(counts[6] > 5 && counts[7] == counts[6] && counts[8] == counts[6], "{counts:?}");
        assert!(counts[9] > 5 && counts[9] == counts[10], "{counts:?}");
        // Without flags nothing more has the marks.
        send(&iperf3);
        send(&tcp("10.9.0.2"));
        send(&tcp("fd00:9::2"));
        let after = counted.packets();
        for all in [0, 3, 6] {
            assert!(after[all] > counts[all], "{after:?}");
            assert_eq!(after[all + 1..all + 3], counts[all + 1..all + 3], "{after:?}");
        }
        assert!(after[10] == counts[10] && after[9] > counts[9], "{after:?}");
    });
}

#[test]
fn a_call_has_the_path_that_is_asked_for_also_where_it_marks_ecn() {
    in_namespace("the path of a call", 65_536, || {
        let far = Far::behind(1500);
        ip(&["address", "add", "10.9.0.5/24", "dev", "near"]);
        let all = "udp dport 5004 ip saddr 10.9.0.5";
        let others = [all.to_owned(), format!("{all} meta priority 0:4"), format!("{all} ip ecn ect1")];
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let Some(counted) = Counted::sent("the path of a call", &others) else { return };
        let listener = far.listener(&["call", "--listen", "10.9.0.2:5004", "--once", "--json"]);
        let words = ["-t", "2", "--ecn", "ect1", "--source", "10.9.0.5", "--priority", "4", "--json"];
        let output = run(&[&["call", "10.9.0.2"][..], &words].concat());
        assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
        let (answered, _) = listener.result();
        assert!(
            answered["call"]["far_end"].as_str().is_some_and(|from| from.starts_with("10.9.0.5:")),
            "{answered}"
        );
        let [sent, prioritised, marked] = counted.packets()[..] else { panic!("three counters") };
        assert!(sent > 50 && prioritised == sent, "{prioritised} of {sent}");
        assert!(marked > sent / 2 && marked < sent, "{marked} of {sent}: control messages have no mark");
    });
}

#[test]
fn a_stream_uses_one_interface_and_one_source() {
    in_namespace("interface and source", 65_536, || {
        let far = Far::behind(1500);
        ip(&["address", "add", "10.9.0.5/24", "dev", "near"]);
        // A second way to the far end, which the system would not choose.
        ip(&["link", "add", "other", "type", "veth", "peer", "name", "beyond"]);
        ip(&["address", "add", "10.8.0.1/24", "dev", "other"]);
        ip(&["link", "set", "other", "up"]);
        ip(&["link", "set", "beyond", "up"]);
        let receiver = far.listener(&["recv", "10.9.0.2:5005", "--json", "--interface", "far"]);
        let send = |words: &[&str]| {
            let limits = ["10.9.0.2:5005", "-b", "1M", "--count", "20", "--json"];
            run(&[&["send"], &limits[..], words].concat())
        };
        for (words, from) in [
            (&["--interface", "near"][..], "10.9.0.1:"),
            (&["--source", "10.9.0.5"], "10.9.0.5:"),
            (&["--reverse", "--source", "10.9.0.5"], "10.9.0.2:"),
        ] {
            let output = send(words);
            let sent = json(&output);
            assert_measured(output.status.code(), &sent);
            assert_eq!(sent["received_packets"], 20, "{words:?} {sent}");
            let is_here = |from: &Value| {
                from.is_null() || from.as_str().is_some_and(|text| text.starts_with("10.9.0.2:"))
            };
            assert!(is_here(&sent["from"]), "{from} {sent}");
        }
        // By the other interface nothing reaches the far end.
        let output = send(&["--interface", "other"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("no giusto receiver answered"), "{error}");
        receiver.process.signal("INT");
        let (received, _) = receiver.result();
        let runs = received["runs"].as_array().unwrap();
        let sources: Vec<_> = runs.iter().filter_map(|run| run["from"].as_str()).collect();
        assert_eq!(sources.len(), 2, "{received}");
        assert!(sources[0].starts_with("10.9.0.1:") && sources[1].starts_with("10.9.0.5:"), "{sources:?}");
    });
}

/// The first address is that of nobody. Without a race it would cost 3 s.
#[test]
fn a_host_is_reached_by_the_address_that_answers_first() {
    in_namespace("a host with two addresses", 65_536, || {
        let far = Far::behind(1500);
        ip(&["address", "add", "fd00:9::1/64", "dev", "near", "nodad"]);
        let hosts = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(hosts.path(), "fd00:9::2 twofold\n10.9.0.2 twofold\n").unwrap();
        let _receiver = far.listener(&["recv", "[::]:5005"]);
        let send = |words: &[&str]| {
            let limits = ["send", "twofold", "-b", "1M", "--count", "10", "--json"];
            let began = std::time::Instant::now();
            let output = with_hosts(hosts.path(), &[&limits[..], words].concat()).output().unwrap();
            (output, began.elapsed().as_secs_f64())
        };
        let (output, took) = send(&[]);
        let sent = json(&output);
        assert_measured(output.status.code(), &sent);
        assert_eq!((&sent["received_packets"], took < 2.5), (&Value::from(10), true), "{took} {sent}");
        // With an address of IPv6 there, that is the first.
        let words = ["address", "add", "fd00:9::2/64", "dev", "far", "nodad"];
        assert!(far.enter("ip").args(words).status().unwrap().success());
        let (output, _) = send(&["--flow-label", "7"]);
        assert_eq!(json(&output)["received_packets"], 10);
        let (output, _) = send(&["-p", "5006"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("no giusto receiver answered at [fd00:9::2]:5006, 10.9.0.2:5006"), "{error}");
    });
}

/// What goes to the first address disappears. One after the other, TCP would take 5 s more, and STAMP would not come to the second.
#[test]
fn tcp_iperf3_and_stamp_go_to_the_address_that_answers_first() {
    in_namespace("other protocols to a host with two addresses", 65_536, || {
        let far = Far::behind(1500);
        ip(&["address", "add", "fd00:9::1/64", "dev", "near", "nodad"]);
        ip(&["neighbour", "add", "fd00:9::2", "lladdr", "02:00:00:00:00:99", "dev", "near"]);
        let hosts = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(hosts.path(), "fd00:9::2 twofold\n10.9.0.2 twofold\n").unwrap();
        let protocols = [
            ("tcp", "5005", &["-t", "0.5s"][..]),
            ("tcp", "5005", &["-t", "0.5s", "--under-load"]),
            ("iperf3", "5201", &["-b", "1M", "--count", "10"]),
            ("stamp", "8620", &["-b", "1M", "-l", "500", "--count", "10"]),
        ];
        let send = |(protocol, port, words): (&str, &str, &[&str])| {
            let all = [&["send", "twofold", "-p", port, "--protocol", protocol, "--json"], words].concat();
            let began = std::time::Instant::now();
            (with_hosts(hosts.path(), &all).output().unwrap(), began.elapsed().as_secs_f64())
        };
        let far_ends = [protocols[0], protocols[2], protocols[3]].map(|(protocol, port, _)| {
            far.listener(&["recv", &format!("[::]:{port}"), "--accept", protocol])
        });
        for case @ (protocol, port, _) in protocols {
            let (output, took) = send(case);
            assert!(matches!(output.status.code(), Some(0 | 3)), "{protocol} {}", text(&output.stderr));
            let result = json(&output);
            match protocol {
                "iperf3" => assert_eq!(result["far_end"]["received_packets"], 10, "{result}"),
                _ => assert_eq!(result["to"], format!("10.9.0.2:{port}"), "{result}"),
            }
            assert!(took > 0.25 && (protocol == "stamp" || took < 4.8), "{protocol} {took}");
        }
        drop(far_ends);
        // Without any, both are named, or the run shows it.
        for (case, error) in [
            (protocols[0], "cannot connect to [fd00:9::2]:5005, 10.9.0.2:5005 (TCP)"),
            (protocols[2], "at [fd00:9::2]:5201, 10.9.0.2:5201 (TCP)"),
            (protocols[3], "[fd00:9::2]:8620: no answer"),
        ] {
            let (output, _) = send(case);
            let said = text(&output.stderr);
            assert!(output.status.code() == Some(1) && said.contains(error), "{said}");
        }
    });
}

/// As a stream. The listener has a key, and its host has no IPv6 address at first.
#[test]
fn a_call_goes_to_the_address_that_answers_first() {
    in_namespace("a call to a host with two addresses", 65_536, || {
        let far = Far::behind(1500);
        ip(&["address", "add", "fd00:9::1/64", "dev", "near", "nodad"]);
        let hosts = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(hosts.path(), "fd00:9::2 twofold\n10.9.0.2 twofold\n").unwrap();
        let keys = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(keys.path(), "1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n")
            .unwrap();
        let keys = ["--key-file", keys.path().to_str().unwrap()];
        let listener = far.listener(&[&["call", "--listen", "[::]:5004", "--json"], &keys[..]].concat());
        let call = |words: &[&str]| {
            with_hosts(hosts.path(), &[&["call", "twofold", "-t", "1", "--json"], words].concat())
                .output()
                .unwrap()
        };
        let address = |output: &std::process::Output| {
            assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
            json(output)["call"]["far_end"].as_str().unwrap_or_default().to_owned()
        };
        assert_eq!(address(&call(&keys)), "10.9.0.2:5004");
        let words = ["address", "add", "fd00:9::2/64", "dev", "far", "nodad"];
        assert!(far.enter("ip").args(words).status().unwrap().success());
        // The system still waits for an answer of that neighbour.
        ip(&["-6", "neighbour", "flush", "dev", "near"]);
        assert_eq!(address(&call(&keys)), "[fd00:9::2]:5004");
        // Answered by a refusal, which the call itself explains.
        let output = call(&[]);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains("authenticated calls"), "{error}");
        listener.process.signal("INT");
        let (answered, _) = listener.result();
        assert_eq!(answered["runs"].as_array().map(Vec::len), Some(2), "{answered}");
        let output = call(&keys);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("no listener answered at [fd00:9::2]:5004, 10.9.0.2:5004"), "{error}");
    });
}
