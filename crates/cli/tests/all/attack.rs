//! Attacks on real processes, each in a network namespace of its own: forgery, floods, replay, ICMP.
//!
//! The measured stream must come out as without the attack, and the counts must add up.

use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use crate::common::{
    assert_has, assert_measured, count, finished,
    namespace::in_namespace,
    process::{Listener, Running, start},
    relay::{Relay, Way},
};
use giusto_session::probe::wire::{
    DataHeader, FINISH_BYTES, Kind, Message, OPENING_BYTES, SenderFigures, StreamToken, kind,
};
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};

/// The stream of the tests: 300 datagrams of 200 B in 2.4 s.
const STREAM: [&str; 7] = ["--rate", "200k", "--size", "200", "--count", "300", "--json"];
const PACKETS: u64 = 300;
const PACE: Duration = Duration::from_millis(2);

/// Codes of "destination unreachable" (RFC 792, RFC 1812 §5.2.7.1).
const PORT: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
const PROHIBITED: u8 = 13;

/// A `giusto recv` on 127.0.0.1.
fn receiver(args: &[&str]) -> Listener {
    Listener::start(&[&["127.0.0.1:0", "--json"], args].concat())
}

/// The address of the sender of the next stream.
fn sender(receiver: &Listener) -> SocketAddrV4 {
    let line = receiver.next_line();
    line.split_once(": ").and_then(|(from, _)| from.parse().ok()).unwrap_or_else(|| panic!("{line:?}"))
}

/// Starts the sender of the tests.
fn stream(to: SocketAddr, flags: &[&str]) -> Running {
    start(&[&["send", &to.to_string()], &STREAM[..], flags].concat())
}

/// The result of a sender that must have sent everything.
fn whole(sender: Running) -> Value {
    let sent = finished(&sender.output());
    assert_has(&sent, &json!({ "sent_packets": PACKETS, "ended": "all sent", "unsent_packets": 0 }));
    sent
}

/// Asserts that every datagram of the stream arrived once.
fn assert_unharmed(figures: &Value) {
    assert_has(figures, &json!({ "received_packets": PACKETS, "lost_packets": 0, "duplicate_packets": 0 }));
}

/// Does `attack` again and again until the sender has ended.
fn during(mut sender: Running, mut attack: impl FnMut(u64)) -> Running {
    for round in 0.. {
        if sender.0.try_wait().unwrap().is_some() {
            break;
        }
        attack(round);
        thread::sleep(PACE);
    }
    sender
}

/// A socket that sends IP packets with any source address.
struct Spoofer(Socket);

impl Spoofer {
    fn new() -> Self {
        // Linux: IPPROTO_RAW, the packet includes its IP header.
        Self(Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap())
    }

    fn udp(&self, from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) {
        let mut datagram = Vec::new();
        datagram.extend(from.port().to_be_bytes());
        datagram.extend(to.port().to_be_bytes());
        datagram.extend((8 + payload.len() as u16).to_be_bytes());
        // No checksum: RFC 768.
        datagram.extend([0, 0]);
        datagram.extend_from_slice(payload);
        self.ip(17, *from.ip(), *to.ip(), &datagram);
    }

    /// "Destination unreachable" (RFC 792, RFC 1191), about a datagram from `sender` to `receiver`.
    fn unreachable(&self, code: u8, sender: SocketAddrV4, receiver: SocketAddrV4) {
        // With the MTU of the next link.
        let mut message = vec![3, code, 0, 0, 0, 0, 0x05, 0x00];
        message.extend(ip_header(17, *sender.ip(), *receiver.ip(), 8));
        message.extend(sender.port().to_be_bytes());
        message.extend(receiver.port().to_be_bytes());
        message.extend([0, 208, 0, 0]);
        let checksum = internet_checksum(&message);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        self.ip(1, *receiver.ip(), *sender.ip(), &message);
    }

    fn ip(&self, protocol: u8, from: Ipv4Addr, to: Ipv4Addr, body: &[u8]) {
        let mut packet = ip_header(protocol, from, to, body.len());
        packet.extend_from_slice(body);
        self.0.send_to(&packet, &SocketAddrV4::new(to, 0).into()).unwrap();
    }
}

/// RFC 791 §3.1.
fn ip_header(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, body: usize) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend((20 + body as u16).to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    header.extend(from.octets());
    header.extend(to.octets());
    let checksum = internet_checksum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// RFC 1071.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

fn forged_data(sequence: u64) -> [u8; 200] {
    let mut datagram = [0; 200];
    assert!(DataHeader { token: StreamToken(7), sequence, scheduled_ns: 0, sent_ns: 0 }.write(&mut datagram));
    datagram
}

fn v4(address: SocketAddr) -> SocketAddrV4 {
    let SocketAddr::V4(address) = address else { panic!("{address} is not IPv4") };
    address
}

#[test]
fn forged_messages_change_nothing() {
    in_namespace("attack: forgery", 65_536, || {
        let receiver = receiver(&[]);
        let mut rounds = 0;
        let stream = stream(receiver.address, &[]);
        let (from, to) = (sender(&receiver), v4(receiver.address));
        let stranger = UdpSocket::bind("127.0.0.9:0").unwrap();
        let spoofer = Spoofer::new();
        let finish = Message::Finish { token: StreamToken(7), figures: SenderFigures::default() };
        let stream = during(stream, |round| {
            rounds = round + 1;
            let hello = Message::Hello { nonce: round };
            for _ in 0..8 {
                stranger.send_to(&hello.encode(OPENING_BYTES), to).unwrap();
            }
            for message in
                [hello.encode(OPENING_BYTES), finish.encode(FINISH_BYTES), forged_data(round).to_vec()]
            {
                stranger.send_to(&message, to).unwrap();
                // As if it came from the sender's own address, and from the receiver to the sender.
                spoofer.udp(from, to, &message);
                spoofer.udp(to, from, &message);
            }
        });
        assert_unharmed(&whole(stream));
        let (all, code) = receiver.stop();
        assert_measured(Some(code), &all);
        let received = &all["runs"][0];
        assert_unharmed(received);
        assert_eq!((&received["from"], all["runs"].as_array().unwrap().len()), (&from.to_string().into(), 1));
        // One of each kind from each of two addresses in a round.
        let forged = count(&all["unmeasured_datagrams"]["forged"]);
        assert!((rounds..=4 * rounds).contains(&forged), "{forged} in {rounds} rounds: {all}");
        // At most a burst of 256 handshakes and 125 a second are answered.
        let flood = count(&received["handshake_flood"]["unanswered_handshakes"]);
        assert!(flood > 100 && flood < 10 * rounds, "{flood} in {rounds} rounds: {all}");
    });
}

#[test]
fn replayed_datagrams_are_duplicates_or_nothing() {
    in_namespace("attack: replay", 65_536, || {
        let receiver = receiver(&[]);
        let relay = Relay::to(receiver.address);
        let captured = Arc::new(Mutex::new(Vec::new()));
        let capture = Arc::clone(&captured);
        // Each datagram of the sender arrives again during the stream, and when it has ended; then also from another address.
        relay.set(Box::new(move |way, bytes| {
            let times: &[u64] = if way == Way::Forth { &[0, 50, 3_000] } else { &[0] };
            if way == Way::Forth {
                capture.lock().unwrap().push(bytes.to_vec());
            }
            times.iter().map(|after| (Duration::from_millis(*after), bytes.to_vec())).collect()
        }));
        let sent = whole(stream(relay.address, &[]));
        assert_has(&sent, &json!({ "received_packets": PACKETS, "lost_packets": 0 }));
        thread::sleep(Duration::from_millis(3_100));
        let stranger = UdpSocket::bind("127.0.0.9:0").unwrap();
        let captured = captured.lock().unwrap();
        for datagram in captured.iter() {
            stranger.send_to(datagram, receiver.address).unwrap();
            thread::sleep(Duration::from_micros(200));
        }
        thread::sleep(Duration::from_millis(300));
        let (received, _) = receiver.stop();
        // A replayed handshake opens no second stream.
        assert_eq!(received["runs"].as_array().unwrap().len(), 1, "{received}");
        let run = &received["runs"][0];
        assert_has(run, &json!({ "received_packets": PACKETS, "lost_packets": 0 }));
        let data = captured.iter().filter(|datagram| kind(datagram) == Ok(Kind::Data)).count() as u64;
        let duplicates = count(&run["duplicate_packets"]);
        assert!(duplicates > 250 && duplicates <= 2 * data, "{duplicates} of {data}");
    });
}

/// They come back as errors of a later send or receive.
#[test]
fn forged_icmp_messages_keep_nothing_from_being_sent() {
    in_namespace("attack: ICMP", 65_536, || {
        let spoofer = Spoofer::new();
        let (listener, reflector) = (receiver(&["--once"]), receiver(&["--accept", "stamp"]));
        let measured = stream(listener.address, &[]);
        let (from, to) = (sender(&listener), v4(listener.address));
        assert_unharmed(&whole(during(measured, |_| spoofer.unreachable(PORT, from, to))));
        let (received, code) = listener.result();
        assert_unharmed(&received);
        assert_measured(Some(code), &received);

        let stamped = stream(reflector.address, &["--protocol", "stamp"]);
        // The session, and that of the question whether the reflector counts.
        let sessions = [sender(&reflector), sender(&reflector)];
        let stamped = during(stamped, |round| {
            let code = if round % 2 == 0 { PROHIBITED } else { FRAGMENTATION_NEEDED };
            for from in sessions {
                spoofer.unreachable(code, from, v4(reflector.address));
            }
        });
        let sent = finished(&stamped.output());
        assert_has(&sent, &json!({ "ended": "all sent", "answered_packets": PACKETS }));
    });
}
