//! Datagrams that are longer than the MTU of the path, in a network namespace.

use std::net::UdpSocket;

use crate::common::{
    assert_has, assert_measured, finished, json, measured,
    namespace::{Far, Routed, in_namespace},
    run, text,
};
use serde_json::json;

#[test]
fn a_result_names_the_fragments_of_each_datagram() {
    in_namespace("fragments", 1300, || {
        // 1272 B and 28 B of headers fit into 1300 B; of longer datagrams each fragment but the last carries 1280 B.
        for (size, fragments) in [(1272, 1), (1273, 2), (2552, 2), (2553, 3), (65_507, 52)] {
            let size = size.to_string();
            let args = ["cbr", "--rate", "1M", "--size", &size, "--duration", "300ms", "--json"];
            let run = &json(&run(&args))["runs"][0];
            let sent = &run["sent_packets"];
            assert_has(
                run,
                &json!({ "mtu_bytes": 1300, "fragments_per_packet": fragments, "received_packets": sent }),
            );
        }
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
            assert_eq!(measured(&send(most))["sent_packets"], 5);
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
        assert_has(
            &sent,
            &json!({ "ended": "all sent", "mtu_bytes": 1000, "sent_packets": 50, "received_packets": 50 }),
        );
        // Here the datagrams are too long: nothing else is the cause.
        let output = send("1200");
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        let expected = "a datagram of 1200 B does not fit the path MTU of 1000 B without fragments: lower --size to at most 972 B";
        assert!(message.contains(expected) && !message.contains("disappeared"), "{message}");
        let (received, _) = receiver.stop();
        assert_eq!(received["runs"][0]["sent_packets"], 50, "{received}");
    });
}

#[test]
fn a_router_with_a_smaller_mtu_does_not_end_the_run() {
    in_namespace("a router with a smaller MTU", 65_536, || {
        let path = Routed::with_mtu(1300);
        let _receiver = path.far.listener(&["recv", "10.9.1.3:5005", "--once", "--json"]);
        let args = ["send", "10.9.1.3:5005", "--rate", "1M", "--size", "1400", "--count", "100", "--json"];
        // The first datagram does not pass the router, which reports the MTU; the others leave in two fragments.
        let sent = finished(&run(&args));
        assert_has(
            &sent,
            &json!({ "sent_packets": 100, "unsent_packets": 0, "mtu_bytes": 1300, "fragments_per_packet": 2 }),
        );
        assert!((90..100).contains(&sent["received_packets"].as_u64().unwrap()), "{sent}");
    });
}
