//! Streams to multicast groups: of any source and of one, over IPv4 and IPv6, to several receivers. Beside ours, a plain socket of this
//! test counts what the group gets.

use std::{
    net::{Ipv4Addr, SocketAddr},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};

use crate::common::{
    assert_has, assert_measured, count, json, measured,
    namespace::{Far, in_namespace, ip},
    process::{Listener, start},
    run, text,
};

/// A receiver in the far namespace, once it has joined.
fn receiver(far: &Far, words: &[&str]) -> Listener {
    far.listener(&[&["recv", "--json", "--once", "--interface", "far"], words].concat())
}

/// The far end's namespace has a second address of ours to tell sources apart, and IPv6.
fn far() -> Far {
    let far = Far::behind(1500);
    ip(&["address", "add", "10.9.0.5/24", "dev", "near"]);
    for address in ["fd00:9::1/64", "fd00:9::5/64"] {
        ip(&["address", "add", address, "dev", "near", "nodad"]);
    }
    far.run("ip address add fd00:9::2/64 dev far nodad");
    far
}

#[test]
fn several_receivers_of_a_group_measure_one_stream() {
    in_namespace("a stream to several receivers of a group", 65_536, || {
        let far = far();
        let two = [(); 2].map(|()| receiver(&far, &["239.5.5.5:5005"]));
        let plain = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        plain.set_reuse_address(true).unwrap();
        plain.bind(&SocketAddr::from((Ipv4Addr::new(239, 5, 5, 5), 5005)).into()).unwrap();
        plain.join_multicast_v4(&Ipv4Addr::new(239, 5, 5, 5), &Ipv4Addr::new(10, 9, 0, 1)).unwrap();
        let words =
            ["239.5.5.5:5005", "--interface", "near", "-b", "2M", "--count", "60", "-l", "1000", "--json"];
        let sent = measured(&run(&[&["send"], &words[..]].concat()));
        assert_has(&sent, &json!({ "sent_packets": 60, "received_packets": null, "lost_packets": null }));
        plain.set_nonblocking(true).unwrap();
        let plain = std::net::UdpSocket::from(plain);
        let (mut buffer, mut data, mut messages) = ([0; 2000], 0, 0);
        while let Ok(length) = plain.recv(&mut buffer) {
            if length == 1000 { data += 1 } else { messages += 1 }
        }
        // Announcements at the beginning, each half second and at the end: few beside the stream.
        assert!(data == 60 && (4..20).contains(&messages), "{data} {messages}");
        for receiver in two {
            let (received, code) = receiver.result();
            assert_measured(Some(code), &received);
            assert_has(
                &received,
                &json!({ "sent_packets": 60, "received_packets": 60, "lost_packets": 0, "rate_bps": 2_000_000 }),
            );
            assert!(received["from"].as_str().unwrap().starts_with("10.9.0.1:"), "{received}");
            // Both ends are on this machine, so that the delay is known without a clock request.
            let delay = &received["one_way_delay_ms"];
            assert!(delay["p50"].as_f64().is_some_and(|ms| (0.0..50.0).contains(&ms)), "{received}");
        }
    });
}

#[test]
fn of_a_group_with_one_source_nothing_else_is_received() {
    in_namespace("source-specific multicast", 65_536, || {
        let far = far();
        for (group, [other, wanted]) in [
            ("232.5.5.5:5005", ["10.9.0.5", "10.9.0.1"]),
            ("[ff3e::8000:5]:5005", ["fd00:9::5", "fd00:9::1"]),
            ("[ff02::5]:5005", ["fd00:9::5", "fd00:9::1"]),
        ] {
            let listener = receiver(&far, &[group, "--ssm", wanted]);
            let any = receiver(&far, &[group]);
            for source in [other, wanted] {
                let words =
                    [group, "--interface", "near", "--source", source, "-b", "2M", "--count", "50", "--json"];
                measured(&run(&[&["send"], &words[..]].concat()));
            }
            let (received, code) = listener.result();
            assert_measured(Some(code), &received);
            // Nothing from another source was counted.
            assert_has(&received, &json!({ "sent_packets": 50, "received_packets": 50, "lost_packets": 0 }));
            let unmeasured = received["unmeasured_datagrams"].as_object().unwrap();
            assert!(unmeasured.values().all(|datagrams| *datagrams == 0), "{received}");
            let is_from = |result: &Value, source: &str| {
                let from: SocketAddr = result["from"].as_str().unwrap().parse().unwrap();
                from.ip().to_string() == source
            };
            assert!(is_from(&received, wanted), "{received}");
            // Without a source filter it would have been the other one.
            let (received, _) = any.result();
            assert!(is_from(&received, other), "{received}");
        }
    });
}

#[test]
fn who_joins_late_counts_from_there_on() {
    in_namespace("a late receiver of a group", 65_536, || {
        let far = far();
        let words =
            ["239.5.5.5:5005", "--interface", "near", "-b", "800k", "-l", "1000", "-t", "4", "--json"];
        let sender = start(&[&["send"], &words[..]].concat());
        thread::sleep(Duration::from_millis(1_500));
        let receiver = receiver(&far, &["239.5.5.5:5005"]);
        let output = sender.output();
        assert_eq!(json(&output)["sent_packets"], 400);
        let (received, code) = receiver.result();
        assert_measured(Some(code), &received);
        let [sent, got, lost] =
            ["sent_packets", "received_packets", "lost_packets"].map(|name| count(&received[name]));
        assert!(lost == 0 && sent == got && (50..300).contains(&got), "{received}");
    });
}

#[test]
fn rtp_to_a_group_is_measured_as_to_a_host() {
    in_namespace("RTP to a group", 65_536, || {
        let far = far();
        let receiver = receiver(&far, &["239.5.5.5:6000", "--accept", "rtp", "--idle", "1s"]);
        let words =
            ["239.5.5.5:6000", "--interface", "near", "--rtp", "-b", "1M", "--count", "100", "--json"];
        measured(&run(&[&["send"], &words[..]].concat()));
        let (received, _) = receiver.result();
        // The first datagram makes the stream known.
        assert_eq!(received["received_packets"], 99, "{received}");
    });
}

#[test]
fn a_group_without_a_route_cannot_be_joined() {
    in_namespace("a group without a route", 65_536, || {
        ip(&["link", "set", "lo", "down"]);
        let output = run(&["recv", "239.1.1.1"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(
            error.contains("cannot join 239.1.1.1: No such device") && error.contains("--interface"),
            "{error}"
        );
    });
}
