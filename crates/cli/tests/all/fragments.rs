//! Datagrams that are longer than the MTU of the path, in a network namespace.

use std::{
    io::{BufRead, BufReader},
    net::UdpSocket,
    process::Stdio,
};

use crate::common::{
    assert_measured, giusto, json,
    namespace::{Far, in_namespace},
    run, text,
};
use serde_json::Value;

#[test]
fn a_result_names_the_fragments_of_each_datagram() {
    in_namespace("fragments", 1300, || {
        // 1272 B and 28 B of headers fit into 1300 B; of longer datagrams each fragment but the last carries 1280 B.
        for (size, fragments) in [(1272, 1), (1273, 2), (2552, 2), (2553, 3), (65_507, 52)] {
            let size = size.to_string();
            let args = ["cbr", "--rate", "1M", "--size", &size, "--duration", "300ms", "--json"];
            let run = &json(&giusto(&args).output().unwrap())["runs"][0];
            assert_eq!(run["mtu_bytes"], 1300, "{run}");
            assert_eq!(run["fragments_per_packet"], fragments, "{size} B: {run}");
            assert_eq!(run["received_packets"], run["sent_packets"], "{run}");
        }
    });
}

#[test]
fn a_result_in_words_names_the_fragments() {
    in_namespace("fragments in words", 1300, || {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = sink.local_addr().unwrap().to_string();
        for (size, expected) in [("1400", true), ("1200", false)] {
            let output = run(&["send", &to, "--one-way", "--raw", "--count", "3", "--size", size]);
            let words = text(&output.stdout);
            let said = words.contains("each datagram was sent as 2 fragments: MTU 1300 B");
            assert_eq!(said, expected, "{words}");
        }
    });
}

#[test]
fn without_fragments_a_long_datagram_is_an_error() {
    in_namespace("--dont-fragment", 1300, || {
        for (to, most) in [("127.0.0.1:9", 1272), ("[::1]:9", 1252)] {
            let send = |size: u32| {
                let size = size.to_string();
                run(&["send", to, "--one-way", "--dont-fragment", "--count", "5", "--size", &size, "--json"])
            };
            let output = send(most);
            let sent = json(&output);
            assert_measured(output.status.code(), &sent);
            assert_eq!(sent["sent_packets"], 5);
            let output = send(most + 1);
            let message = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{message}");
            let expected = format!(
                "a datagram of {} B does not fit the path MTU of 1300 B without fragments: lower --size to at most {most} B",
                most + 1
            );
            assert!(message.contains(&expected), "{message}");
            assert_eq!(json(&output)["sent_packets"], 0);
        }
    });
}

/// The last message of a stream is longer than these datagrams, and must arrive.
#[test]
fn without_fragments_a_stream_ends_on_a_small_mtu() {
    in_namespace("--dont-fragment over a small MTU", 65_536, || {
        let far = Far::behind(1000);
        let receiver = far.listener(&["recv", "10.9.0.2:5005", "--json"]);
        let send = |size: &str| {
            let (to, limits) = ("10.9.0.2:5005", ["--count", "50", "-b", "1M", "--json"]);
            run(&[&["send", to, "--dont-fragment", "--size", size][..], &limits].concat())
        };
        let output = send("900");
        let sent = json(&output);
        assert_eq!(text(&output.stderr), "", "{sent}");
        assert_measured(output.status.code(), &sent);
        let figures = ["ended", "mtu_bytes", "sent_packets", "received_packets"].map(|name| &sent[name]);
        assert_eq!(figures, [&"all sent".into(), &1000.into(), &50.into(), &Value::from(50)], "{sent}");
        // Here the datagrams are too long: nothing else is the cause.
        let output = send("1200");
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        let expected = "a datagram of 1200 B does not fit the path MTU of 1000 B without fragments: lower --size to at most 972 B";
        assert!(message.contains(expected) && !message.contains("disappeared"), "{message}");
        receiver.process.signal("INT");
        let (received, _) = receiver.result();
        assert_eq!(received["runs"][0]["sent_packets"], 50, "{received}");
    });
}

#[test]
fn a_router_with_a_smaller_mtu_does_not_end_the_run() {
    in_namespace("a router with a smaller MTU", 65_536, || {
        // A receiver behind a router: the first link carries 1500 B, the second 1300 B.
        let script = "set -e
            ip link add near type veth peer name router0
            unshare --net sleep 60 >/dev/null 2>&1 & router=$!
            unshare --net sleep 60 >/dev/null 2>&1 & far=$!
            echo $router $far
            for pid in $router $far; do
                until [ \"$(readlink /proc/$pid/ns/net)\" != \"$(readlink /proc/self/ns/net)\" ]; do sleep 0.01; done
            done
            ip link add router1 type veth peer name far0
            ip link set router0 netns $router; ip link set router1 netns $router; ip link set far0 netns $far
            ip address add 10.9.0.1/24 dev near; ip link set near up
            ip route add 10.9.1.0/24 via 10.9.0.2
            in_router='nsenter --net=/proc/'$router'/ns/net'; in_far='nsenter --net=/proc/'$far'/ns/net'
            $in_router ip address add 10.9.0.2/24 dev router0; $in_router ip link set router0 up
            $in_router ip address add 10.9.1.2/24 dev router1; $in_router ip link set router1 mtu 1300 up
            $in_router sysctl -qw net.ipv4.ip_forward=1
            $in_far ip address add 10.9.1.3/24 dev far0; $in_far ip link set far0 mtu 1300 up
            $in_far ip route add default via 10.9.1.2
            ";
        let mut setup = std::process::Command::new("sh");
        let output = setup.args(["-c", script]).stderr(Stdio::piped()).output().unwrap();
        let out = text(&output.stdout);
        let pids: Vec<&str> = out.split_whitespace().collect();
        let _ended = Sleepers(&pids);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let namespace = format!("--net=/proc/{}/ns/net", pids[1]);
        let mut receiver = std::process::Command::new("nsenter")
            .args([&namespace, env!("CARGO_BIN_EXE_giusto"), "recv", "10.9.1.3:5005", "--once", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut listening = String::new();
        BufReader::new(receiver.stderr.take().unwrap()).read_line(&mut listening).unwrap();
        assert!(listening.contains("listening on"), "{listening}");
        let args = ["send", "10.9.1.3:5005", "--rate", "1M", "--size", "1400", "--count", "100", "--json"];
        let output = run(&args);
        // The first datagram does not pass the router, which reports the MTU; the others leave in two fragments.
        let sent = json(&output);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{} {sent}", text(&output.stderr));
        assert_eq!((&sent["sent_packets"], &sent["unsent_packets"]), (&Value::from(100), &Value::from(0)));
        assert_eq!(
            (&sent["mtu_bytes"], &sent["fragments_per_packet"]),
            (&Value::from(1300), &Value::from(2))
        );
        assert!((90..100).contains(&sent["received_packets"].as_u64().unwrap()), "{sent}");
        let _ = receiver.kill();
        receiver.wait().unwrap();
    });
}

/// Processes that hold namespaces; ended with the test.
struct Sleepers<'a>(&'a [&'a str]);

impl Drop for Sleepers<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kill").args(self.0).status();
    }
}
