//! `giusto link --relay`: UDP across a scenario's links.

use std::{
    net::UdpSocket,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    common::{Folder, assert_has, count, number, process::Listener, text},
    link::{PATIENCE, scenario},
};

/// A server, and a relay to it that has begun to listen.
fn relay(folder: &Folder, flags: &[&str]) -> (UdpSocket, Listener) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let pair = format!("127.0.0.1:0={}", server.local_addr().unwrap());
    (server, Listener::by(folder.command(&[&["link", "s.toml", "--relay", &pair], flags].concat())))
}

#[test]
fn a_relay_passes_on_what_its_links_corrupt() {
    let folder = scenario("delay = \"1 ms\", corruption = 1.0");
    let (server, relay) = relay(&folder, &["--json", "--max-lateness", "10s"]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(&[0; 100], relay.address).unwrap();
    let mut bytes = [0; 200];
    let length = server.recv(&mut bytes).unwrap();
    let changed: u32 = bytes[..length].iter().map(|byte| byte.count_ones()).sum();
    assert_eq!((length, changed), (100, 1));
    let (result, _) = relay.stop();
    assert_eq!(result["links"][0]["corrupted_packets"], 1, "{result}");
}

#[test]
fn the_time_of_a_relay_begins_behind_the_handshake_or_with_the_media() {
    let folder = scenario("delay = \"300 ms\"");
    let stun = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[0; 12]].concat();
    let dtls = [&[22, 254, 253][..], &[0; 40]].concat();
    // A message of giusto's calls and one of its streams, in versions 3; the checksum is none of the relay's business.
    let handshake = [stun, dtls, b"giu4 and more".to_vec(), b"giu1 and more".to_vec()];
    let media = [&[0x80, 96][..], &[0; 98]].concat();
    let [data, stamp] = [b"giu0 data of a stream".to_vec(), vec![0; 44]];
    for (flags, before, first) in [
        (&[][..], &handshake[..], &data),
        (&[], &handshake[..1], &stamp),
        (&["--start-with-media"], &[stamp.clone(), data.clone()], &media),
    ] {
        let flags = [&["--json", "--max-lateness", "10s"], flags].concat();
        let (server, relay) = relay(&folder, &flags);
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let trip = |content: &[u8]| {
            let begin = Instant::now();
            client.send_to(content, relay.address).unwrap();
            let mut bytes = [0; 200];
            let length = server.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], content);
            begin.elapsed()
        };
        let least = (0..5).flat_map(|_| before).map(|content| trip(content)).min().unwrap();
        assert!(least < Duration::from_millis(150), "{flags:?} {least:?}");
        assert!(trip(first) >= Duration::from_millis(300), "{flags:?}");
        assert!(trip(&before[0]) >= Duration::from_millis(300), "from then on all cross: {flags:?}");
        let (result, _) = relay.stop();
        assert_eq!(result["flows"][0]["received_packets"], 2, "{result}");
    }
}

#[test]
fn a_relay_prints_its_result_and_writes_a_report() {
    let folder = scenario("delay = \"20 ms\", rate = \"10 Mbit/s\"");
    let flags = ["--json", "--duration", "1s", "--out", "r", "--max-lateness", "10s"];
    let (server, relay) = relay(&folder, &flags);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    // The time of the links begins now.
    thread::sleep(Duration::from_millis(300));
    client.send_to(b"request", relay.address).unwrap();
    let (_, from) = server.recv_from(&mut [0; 100]).unwrap();
    server.send_to(b"reply", from).unwrap();
    assert_eq!(client.recv(&mut [0; 100]).unwrap(), 5);
    let (result, status) = relay.result();
    assert_eq!(status, 0, "{result}");
    assert_has(&result, &json!({ "duration_s": 1.0, "interrupted": false }));
    let flow = &result["flows"][0];
    assert_eq!((&result["relay"]["clients"], &flow["received_packets"]), (&1.into(), &1.into()));
    assert!(number(&flow["delay_ms"]["max"]) >= 20.0);
    let page = std::fs::read_to_string(folder.path("r/report.html")).unwrap();
    assert!(page.contains("giusto link: s") && page.contains("in real time"));
    let saved: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path("r/result.json")).unwrap()).unwrap();
    let sent = saved["timeline"]["flows"][0]["sent_packets"].as_array().unwrap();
    assert_eq!(sent.iter().map(count).sum::<u64>(), 1);
}

#[test]
fn lateness_beyond_the_bound_is_flagged() {
    let folder = scenario("delay = \"20 ms\"");
    let (_server, relay) = relay(&folder, &["--duration", "300ms", "--max-lateness", "1ns"]);
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"request", relay.address).unwrap();
    let output = relay.process.output();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
    let shown = text(&output.stdout);
    let warning = "warning: this machine was overloaded: of 1 packet the latest was";
    assert!(shown.starts_with(warning) && shown.contains("--max-lateness"), "{shown}");
}
