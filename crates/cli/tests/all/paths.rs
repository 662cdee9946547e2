//! The path that is chosen: interface, source, TTL, priority, flow label. What leaves is counted by nftables, and seen by the far end.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::common::{
    finished, json, key_file, measured,
    namespace::{Counted, Far, in_namespace, ip, with_hosts},
    process::Running,
    run, skip, text,
};

/// The far end, with an address of IPv6 too if it is `dual`. This end has two addresses of IPv4 and one of IPv6.
fn far(dual: bool) -> Far {
    let far = Far::behind(1500);
    ip(&["address", "add", "10.9.0.5/24", "dev", "near"]);
    ip(&["address", "add", "fd00:9::1/64", "dev", "near", "nodad"]);
    if dual {
        become_dual(&far);
    }
    far
}

fn become_dual(far: &Far) {
    far.run("ip address add fd00:9::2/64 dev far nodad");
}

/// A file with a name for both addresses of the far end.
fn twofold() -> tempfile::NamedTempFile {
    let hosts = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(hosts.path(), "fd00:9::2 twofold\n10.9.0.2 twofold\n").unwrap();
    hosts
}

/// Asserts that a command failed, and why.
#[track_caller]
fn assert_failed(output: &Output, expected: &str) {
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains(expected), "{error}");
}

#[test]
fn datagrams_leave_as_asked_by_ttl_priority_and_flow_label() {
    in_namespace("TTL, priority and flow label", 65_536, || {
        let _far = far(false);
        let wanted = [
            "udp dport 5005 ip ttl 9 meta priority 0:5",
            "udp dport 5006 ip6 hoplimit 9 ip6 flowlabel 0x12345 meta priority 0:5",
            "udp dport 5007 ip ttl 64 meta priority 0:0",
            "udp dport 5008 ip dscp 46 meta priority 0:5",
        ];
        let Some(counted) = Counted::sent("TTL, priority and flow label", &wanted) else { return };
        for words in [
            "10.9.0.2:5005 --ttl 9 --priority 5",
            "[fd00:9::2]:5006 --flow-label 0x12345 --ttl 9 --priority 5",
            "10.9.0.2:5007",
            // DSCP 46 alone makes it 4.
            "10.9.0.2:5008 --dscp 46 --priority 5",
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            measured(&run(
                &[&["send", "-b", "1M", "--count", "20", "--json", "--one-way"], &words[..]].concat()
            ));
        }
        assert_eq!(counted.packets(), [20, 20, 20, 20]);
    });
}

/// A VLAN maps priorities to the bits of its tag (IEEE 802.1Q). `tshark` sees the tag as the far end does.
#[test]
fn a_vlan_carries_the_priority_in_its_tag() {
    let name = "the priority of a VLAN";
    in_namespace(name, 65_536, || {
        let far = Far::behind(1500);
        let skip = |why: &str| skip(name, why);
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
        let send = ["send", "10.7.0.2:5005", "-l", "1200", "-b", "1M", "--count", "20", "--json"];
        // DSCP 46 alone makes it 4.
        for words in [&[][..], &["--priority", "5"], &["--dscp", "46"], &["--dscp", "46", "--priority", "5"]]
        {
            measured(&run(&[&send[..], words].concat()));
        }
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
        let far = far(true);
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
        let Some(counted) = Counted::sent("the path of iperf3 and TCP", &all) else { return };
        let _iperf3 = far.listener(&["recv", "10.9.0.2:5201", "--accept", "iperf3"]);
        let _tcp = far.listener(&["recv", "[::]:5005", "--accept", "tcp"]);
        let asked = ["--ttl", "9", "--source", "10.9.0.5", "--priority", "5", "--dscp", "46"];
        let send = |words: &[&str]| finished(&run(&[&["send"], words, &["--json"]].concat()));
        let iperf3 = ["10.9.0.2", "--protocol", "iperf3", "-b", "1M", "--count", "20"];
        let tcp = |to: &'static str| [to, "--protocol", "tcp", "-t", "300ms"];
        send(&[&iperf3[..], &asked].concat());
        send(&[&tcp("10.9.0.2")[..], &asked].concat());
        let labelled = ["--ttl", "9", "--flow-label", "0x12345", "--interface", "near"];
        send(&[&tcp("fd00:9::2")[..], &labelled].concat());
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
        let far = far(false);
        let all = "udp dport 5004 ip saddr 10.9.0.5";
        let others = [all.to_owned(), format!("{all} meta priority 0:4"), format!("{all} ip ecn ect1")];
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let Some(counted) = Counted::sent("the path of a call", &others) else { return };
        let listener = far.listener(&["call", "--listen", "10.9.0.2:5004", "--once", "--json"]);
        let words = ["-t", "2", "--ecn", "ect1", "--source", "10.9.0.5", "--priority", "4", "--json"];
        finished(&run(&[&["call", "10.9.0.2"][..], &words].concat()));
        let (answered, _) = listener.result();
        let from = answered["call"]["far_end"].as_str();
        assert!(from.is_some_and(|from| from.starts_with("10.9.0.5:")), "{answered}");
        let [sent, prioritised, marked] = counted.packets()[..] else { panic!("three counters") };
        assert!(sent > 50 && prioritised == sent, "{prioritised} of {sent}");
        assert!(marked > sent / 2 && marked < sent, "{marked} of {sent}: control messages have no mark");
    });
}

#[test]
fn a_stream_uses_one_interface_and_one_source() {
    in_namespace("interface and source", 65_536, || {
        let far = far(false);
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
            (&["--interface", "near"][..], Value::Null),
            (&["--source", "10.9.0.5"], Value::Null),
            (&["--reverse", "--source", "10.9.0.5"], "10.9.0.2:5005".into()),
        ] {
            let sent = measured(&send(words));
            assert_eq!((&sent["received_packets"], &sent["from"]), (&20.into(), &from), "{words:?} {sent}");
        }
        // By the other interface nothing reaches the far end.
        assert_failed(&send(&["--interface", "other"]), "no giusto receiver answered");
        let (received, _) = receiver.stop();
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
        let (far, hosts) = (far(false), twofold());
        let _receiver = far.listener(&["recv", "[::]:5005"]);
        let send = |words: &[&str]| {
            let limits = ["send", "twofold", "-b", "1M", "--count", "10", "--json"];
            with_hosts(hosts.path(), &[&limits[..], words].concat()).output().unwrap()
        };
        let began = Instant::now();
        let sent = measured(&send(&[]));
        assert_eq!(sent["received_packets"], 10, "{sent}");
        assert!(began.elapsed() < Duration::from_millis(2_500), "{sent}");
        // With an address of IPv6 there, that is the first.
        become_dual(&far);
        assert_eq!(json(&send(&["--flow-label", "7"]))["received_packets"], 10);
        assert_failed(
            &send(&["-p", "5006"]),
            "no giusto receiver answered at [fd00:9::2]:5006, 10.9.0.2:5006",
        );
    });
}

/// What goes to the first address disappears. One after the other, TCP would take 5 s more, and STAMP would not come to the second.
#[test]
fn tcp_iperf3_and_stamp_go_to_the_address_that_answers_first() {
    in_namespace("other protocols to a host with two addresses", 65_536, || {
        let (far, hosts) = (far(false), twofold());
        ip(&["neighbour", "add", "fd00:9::2", "lladdr", "02:00:00:00:00:99", "dev", "near"]);
        let protocols = [
            ("tcp", "5005", &["-t", "0.5s"][..]),
            ("tcp", "5005", &["-t", "0.5s", "--under-load"]),
            ("iperf3", "5201", &["-b", "1M", "--count", "10"]),
            ("stamp", "8620", &["-b", "1M", "-l", "500", "--count", "10"]),
        ];
        let send = |(protocol, port, words): (&str, &str, &[&str])| {
            let all = [&["send", "twofold", "-p", port, "--protocol", protocol, "--json"], words].concat();
            let began = Instant::now();
            (with_hosts(hosts.path(), &all).output().unwrap(), began.elapsed().as_secs_f64())
        };
        let far_ends = [protocols[0], protocols[2], protocols[3]].map(|(protocol, port, _)| {
            far.listener(&["recv", &format!("[::]:{port}"), "--accept", protocol])
        });
        for case @ (protocol, port, _) in protocols {
            let (output, took) = send(case);
            let result = finished(&output);
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
            assert_failed(&send(case).0, error);
        }
    });
}

/// As a stream. The listener has a key, and its host has no IPv6 address at first.
#[test]
fn a_call_goes_to_the_address_that_answers_first() {
    in_namespace("a call to a host with two addresses", 65_536, || {
        let (far, hosts) = (far(false), twofold());
        let keys = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(keys.path(), key_file("0a")).unwrap();
        let keys = ["--key-file", keys.path().to_str().unwrap()];
        let listener = far.listener(&[&["call", "--listen", "[::]:5004", "--json"], &keys[..]].concat());
        let call = |words: &[&str]| {
            let words = [&["call", "twofold", "-t", "1", "--json"], words].concat();
            with_hosts(hosts.path(), &words).output().unwrap()
        };
        assert_eq!(finished(&call(&keys))["call"]["far_end"], "10.9.0.2:5004");
        become_dual(&far);
        // The system still waits for an answer of that neighbour.
        ip(&["-6", "neighbour", "flush", "dev", "near"]);
        assert_eq!(finished(&call(&keys))["call"]["far_end"], "[fd00:9::2]:5004");
        // Answered by a refusal, which the call itself explains.
        assert_failed(&call(&[]), "authenticated calls");
        let (answered, _) = listener.stop();
        assert_eq!(answered["runs"].as_array().map(Vec::len), Some(2), "{answered}");
        assert_failed(&call(&keys), "no listener answered at [fd00:9::2]:5004, 10.9.0.2:5004");
    });
}
