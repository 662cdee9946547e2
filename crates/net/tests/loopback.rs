//! Datagrams over loopback, in every form that the kernel supports.

mod common;

use std::{net::SocketAddr, time::Duration};

use common::{Datagram, addresses, closed_port, collect, run_of};
use giusto_net::{
    Clock, Grouping, ReceiveBatch, SendError, SocketConfig, SocketError, StampConverter, TrafficClass,
    UdpSocket, Wait,
};
use giusto_units::{DataSize, TimeDelta};

const SOON: Wait = Wait::For(Duration::from_secs(5));

#[test]
fn a_run_arrives_complete_in_both_families() {
    for any in addresses() {
        for (grouping, gro) in [
            (Grouping::Each, false),
            (Grouping::Each, true),
            (Grouping::Offload, false),
            (Grouping::Offload, true),
        ] {
            let config = SocketConfig { gro, ..SocketConfig::default() };
            let receiver = UdpSocket::bind(any, &config).unwrap();
            let sender = UdpSocket::bind(any, &config).unwrap();
            // Two full messages of 54, 41 more, and a shorter last datagram.
            let bytes = run_of(150, 1200, 700);
            let sent = sender.send_segments(Some(receiver.local_addr()), &bytes, 1200, grouping).unwrap();
            assert_eq!(sent, 150);
            assert_eq!(sender.send_counters().datagrams, 150);

            let mut batch = ReceiveBatch::new(8, 65_535);
            let got = collect(&receiver, &mut batch, 150);
            let expected: Vec<&[u8]> = bytes.chunks(1200).collect();
            assert_eq!(
                got.iter().map(|d| d.bytes.as_slice()).collect::<Vec<_>>(),
                expected,
                "{any} {grouping:?}"
            );
            assert!(got.iter().all(|d| d.from == sender.local_addr() && !d.truncated));

            let (offload, gro_granted) =
                (sender.granted().segmentation_offload, receiver.granted().receive_offload);
            if grouping == Grouping::Offload && gro && offload && gro_granted {
                assert_eq!(sender.send_counters().calls, 1);
                assert!(got.iter().any(|d| d.neighbours > 1), "no run arrived as one message");
            } else if grouping == Grouping::Offload {
                eprintln!(
                    "skip: one message for a run: offload {offload}, receive offload {gro_granted}, asked {gro}"
                );
            }
        }
    }
}

#[test]
fn datagrams_keep_their_different_lengths() {
    for any in addresses() {
        let receiver = UdpSocket::bind(any, &SocketConfig::default()).unwrap();
        let sender = UdpSocket::connected(receiver.local_addr(), &SocketConfig::default()).unwrap();
        let lengths: Vec<usize> = (0..100).map(|n| n * 37 % 1400).collect();
        let bytes: Vec<u8> = (0..lengths.iter().sum()).map(|n: usize| n as u8).collect();
        assert_eq!(sender.send_varied(None, &bytes, &lengths).unwrap(), 100);
        let got = collect(&receiver, &mut ReceiveBatch::new(16, 1500), 100);
        assert_eq!(got.iter().map(|d| d.bytes.len()).collect::<Vec<_>>(), lengths);
        assert_eq!(got.iter().flat_map(|d| d.bytes.clone()).collect::<Vec<_>>(), bytes);

        // Datagrams beyond the end of the bytes are not sent.
        assert_eq!(sender.send_varied(None, &[1; 100], &[60, 60]).unwrap(), 1);
        assert_eq!(sender.send_varied(None, &[1; 100], &[usize::MAX, 1]).unwrap(), 0);
        assert_eq!(sender.send_segments(None, &[], 100, Grouping::Offload).unwrap(), 0);
        assert_eq!(sender.send_segments(None, &[1; 9], 0, Grouping::Offload).unwrap(), 0);
    }
}

#[test]
fn an_empty_datagram_is_received() {
    let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
    socket.send_to(&[], socket.local_addr()).unwrap();
    let got = collect(&socket, &mut ReceiveBatch::new(1, 100), 1);
    assert_eq!(got.first().map(|d| (d.bytes.len(), d.neighbours)), Some((0, 1)));
}

#[test]
fn without_offload_support_datagrams_are_sent_one_by_one() {
    let receiver = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
    let sender = UdpSocket::connected(receiver.local_addr(), &SocketConfig::default()).unwrap();
    // The kernel does not split messages of a socket that sends without checksums.
    common::send_without_checksums(&sender);
    let bytes = run_of(100, 500, 500);
    for round in 1..=2 {
        assert_eq!(sender.send_segments(None, &bytes, 500, Grouping::Offload).unwrap(), 100);
        let got = collect(&receiver, &mut ReceiveBatch::new(8, 65_535), 100);
        assert_eq!(got.concat_bytes(), bytes);
        let counters = sender.send_counters();
        assert_eq!(counters.datagrams, 100 * round);
        if sender.granted().segmentation_offload {
            assert_eq!(counters.offload_refusals, 1, "it is asked once");
        }
    }
}

#[test]
fn the_ttl_is_reported_where_it_is_asked_for() {
    for any in addresses() {
        for receive_ttl in [true, false] {
            let receiver =
                UdpSocket::bind(any, &SocketConfig { receive_ttl, ..SocketConfig::default() }).unwrap();
            let sender = UdpSocket::bind(any, &SocketConfig::default()).unwrap();
            sender.send_to(b"x", receiver.local_addr()).unwrap();
            let mut batch = ReceiveBatch::new(1, 16);
            assert_eq!(receiver.recv_batch(&mut batch, SOON).unwrap(), 1);
            // 64 is Linux's default TTL and hop limit.
            let ttl = batch.iter().next().unwrap().ttl;
            assert_eq!(ttl.is_some(), receive_ttl, "{any}");
            assert!(ttl.is_none_or(|ttl| ttl > 1), "{any}: {ttl:?}");
        }
    }
}

#[test]
fn kernel_timestamps_are_between_send_and_read() {
    for any in addresses() {
        let socket = UdpSocket::bind(any, &SocketConfig::default()).unwrap();
        if socket.granted().receive_timestamps != giusto_net::Stamper::Kernel {
            eprintln!("skip: kernel timestamps on {any}: not granted");
            continue;
        }
        let clock = Clock::start();
        let mut converter = StampConverter::new(clock);
        let mut batch = ReceiveBatch::new(4, 100);
        for _ in 0..50 {
            let before = clock.now();
            socket.send_to(b"now", socket.local_addr()).unwrap();
            assert_eq!(socket.recv_batch(&mut batch, SOON).unwrap(), 1);
            let read = clock.now();
            converter.refresh(read);
            let stamp = batch.iter().next().unwrap().stamp.expect("each message is stamped");
            let arrival = converter.convert(stamp, read);
            let margin = converter.uncertainty() + TimeDelta::from_micros(1);
            assert!(arrival + margin >= before && arrival <= read, "{before} {arrival} {read} {margin}");
        }
    }
}

#[test]
fn only_requested_metadata_is_reported() {
    let config = SocketConfig {
        kernel_timestamps: false,
        drop_counts: false,
        receive_traffic_class: false,
        ..SocketConfig::default()
    };
    let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &config).unwrap();
    socket.send_to(b"plain", socket.local_addr()).unwrap();
    let mut batch = ReceiveBatch::new(1, 100);
    assert_eq!(socket.recv_batch(&mut batch, SOON).unwrap(), 1);
    let got = batch.iter().next().unwrap();
    assert_eq!((got.stamp, got.traffic_class, got.kernel_dropped), (None, None, None));
}

#[test]
fn the_traffic_class_is_preserved() {
    let loopback_v4 = SocketAddr::from(([127, 0, 0, 1], 0));
    for any in addresses() {
        // On an IPv6 socket for all addresses, IPv4 is mapped, and its traffic class must be preserved.
        let listen = if any.is_ipv6() { SocketAddr::from(([0_u16; 8], 0)) } else { any };
        let receiver = UdpSocket::bind(listen, &SocketConfig::default()).unwrap();
        let port = receiver.local_addr().port();
        for from in [any, loopback_v4] {
            for (dscp, ecn) in [(0, 0), (46, 2), (34, 1), (63, 3)] {
                let class = TrafficClass::new(dscp, ecn).unwrap();
                let config = SocketConfig { traffic_class: class, ..SocketConfig::default() };
                let sender = UdpSocket::bind(from, &config).unwrap();
                sender.send_to(b"class", SocketAddr::new(from.ip(), port)).unwrap();
                let got = collect(&receiver, &mut ReceiveBatch::new(1, 100), 1);
                assert_eq!(got.first().and_then(|d| d.class), Some(class), "{from} to {listen}");
            }
        }
    }
}

#[test]
fn a_dual_stack_socket_reports_ipv4_as_ipv4() {
    if addresses().len() < 2 {
        return;
    }
    let server = UdpSocket::bind(([0_u16; 8], 0).into(), &SocketConfig::default()).unwrap();
    let port = server.local_addr().port();
    let client = UdpSocket::connected(([127, 0, 0, 1], port).into(), &SocketConfig::default()).unwrap();
    client.send(b"hello").unwrap();
    let got = collect(&server, &mut ReceiveBatch::new(4, 100), 1);
    let from = got.first().unwrap().from;
    assert_eq!(from, client.local_addr());
    assert!(from.is_ipv4());
    server.send_to(b"back", from).unwrap();
    assert_eq!(collect(&client, &mut ReceiveBatch::new(4, 100), 1).concat_bytes(), b"back");

    let mut mapped = UdpSocket::bind(([0_u16; 8], 0).into(), &SocketConfig::default()).unwrap();
    mapped.connect(client.local_addr()).unwrap();
    assert!(mapped.local_addr().is_ipv4());
}

#[test]
fn drops_by_the_kernel_are_counted() {
    let config = SocketConfig { receive_buffer: Some(DataSize::from_bytes(4096)), ..SocketConfig::default() };
    let receiver = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let sender = UdpSocket::connected(receiver.local_addr(), &config).unwrap();
    sender.send_segments(None, &run_of(300, 1000, 1000), 1000, Grouping::Each).unwrap();
    let mut batch = ReceiveBatch::new(64, 1500);
    let mut arrived = 0;
    while receiver.recv_batch(&mut batch, Wait::Never).unwrap() > 0 {
        arrived += batch.len() as u64;
    }
    assert!((1..300).contains(&arrived), "{arrived} arrived in a tiny buffer");
    match receiver.dropped_messages() {
        Ok(dropped) => assert_eq!(arrived + u64::from(dropped), 300),
        Err(error) => eprintln!("skip: drops without a later message: {error}"),
    }
    if !receiver.granted().drop_counts {
        eprintln!("skip: drops beside a message: not granted");
        return;
    }
    sender.send(b"last").unwrap();
    let got = collect(&receiver, &mut batch, 1);
    assert_eq!(got.first().and_then(|d| d.dropped).map(u64::from), Some(300 - arrived));
}

#[test]
fn a_datagram_that_does_not_fit_is_truncated_and_flagged() {
    let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
    for len in [100, 101] {
        socket.send_to(&vec![3; len], socket.local_addr()).unwrap();
    }
    let got = collect(&socket, &mut ReceiveBatch::new(4, 100), 2);
    let seen: Vec<_> = got.iter().map(|d| (d.bytes.len(), d.truncated)).collect();
    assert_eq!(seen, [(100, false), (100, true)]);
}

#[test]
fn a_connected_socket_reports_a_closed_port() {
    for any in addresses() {
        let socket = UdpSocket::connected(closed_port(any), &SocketConfig::default()).unwrap();
        socket.send(b"anybody?").unwrap();
        let mut batch = ReceiveBatch::new(4, 100);
        let error = socket.recv_batch(&mut batch, SOON).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        // The error is reported once; then the socket continues.
        assert_eq!(socket.recv_batch(&mut batch, Wait::Never).unwrap(), 0);

        // The answer to an earlier datagram keeps no later one from being sent.
        for _ in 0..100 {
            assert_eq!(socket.send_segments(None, &[0; 300], 100, Grouping::Each).unwrap(), 3);
        }
        let counters = socket.send_counters();
        assert_eq!(counters.datagrams, 301);
        assert!((1..=301).contains(&counters.unreachable), "{counters:?}");
    }
}

#[test]
fn a_server_survives_clients_that_have_gone() {
    for any in addresses() {
        let server = UdpSocket::bind(any, &SocketConfig::default()).unwrap();
        let gone = closed_port(any);
        let mut batch = ReceiveBatch::new(4, 100);
        for _ in 0..3 {
            server.send_to(b"are you there?", gone).unwrap();
            assert_eq!(server.recv_batch(&mut batch, Wait::Never).unwrap(), 0);
        }
        server.send_to(b"self", server.local_addr()).unwrap();
        assert_eq!(collect(&server, &mut batch, 1).concat_bytes(), b"self");
    }
}

#[test]
fn the_error_names_a_datagram_that_is_too_long() {
    let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
    let to = socket.local_addr();
    let error = socket.send_to(&vec![0; 65_508], to).unwrap_err();
    assert!(matches!(error, SendError::TooLong { bytes: 65_508, accepted: 0 }), "{error:?}");
    for grouping in [Grouping::Each, Grouping::Offload] {
        let error = socket.send_segments(Some(to), &vec![0; 140_000], 70_000, grouping).unwrap_err();
        assert!(matches!(error, SendError::TooLong { bytes: 70_000, accepted: 0 }), "{error:?}");
    }
    let error = socket.send_varied(Some(to), &vec![0; 90_000], &[10, 20, 66_000, 5]).unwrap_err();
    assert!(matches!(error, SendError::TooLong { bytes: 66_000, accepted: 2 }), "{error:?}");
    assert_eq!(error.accepted(), 2);
    assert_eq!(socket.send_counters().datagrams, 2);
}

#[test]
fn the_error_names_an_address_in_use() {
    let first = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
    let error = UdpSocket::bind(first.local_addr(), &SocketConfig::default()).unwrap_err();
    assert!(matches!(error, SocketError::Bind { address, .. } if address == first.local_addr()));
    assert!(error.to_string().starts_with(&format!("cannot bind to {}", first.local_addr())), "{error}");
}

#[test]
fn a_socket_beside_another_takes_what_its_peer_sends() {
    for any in [SocketAddr::from(([0; 4], 0)), SocketAddr::from(([0_u16; 8], 0))] {
        let config = SocketConfig::default();
        let main = UdpSocket::bind(any, &config).unwrap();
        let port = main.local_addr().port();
        let to = SocketAddr::from(([127, 0, 0, 1], port));
        let [peer, other] = [(); 2].map(|()| UdpSocket::connected(to, &config).unwrap());
        let beside = main.beside(peer.local_addr(), &config).unwrap();
        peer.send(b"peer").unwrap();
        other.send(b"other").unwrap();
        beside.send(b"answer").unwrap();
        for (socket, bytes, from) in [
            (&beside, &b"peer"[..], peer.local_addr()),
            (&main, b"other", other.local_addr()),
            (&peer, b"answer", to),
        ] {
            let mut batch = ReceiveBatch::new(4, 100);
            assert_eq!(socket.recv_batch(&mut batch, SOON).unwrap(), 1, "{any}");
            let received = batch.iter().next().unwrap();
            assert_eq!((received.bytes, received.from), (bytes, from));
        }
        // One more, while the first is there.
        let again = main.beside(other.local_addr(), &config).unwrap();
        for (from, socket) in [(&other, &again), (&peer, &beside)] {
            from.send(b"more").unwrap();
            let mut batch = ReceiveBatch::new(4, 100);
            assert_eq!(socket.recv_batch(&mut batch, SOON).unwrap(), 1, "{any}");
            assert_eq!(batch.iter().next().unwrap().from, from.local_addr());
        }
        // The port is shared with nobody else.
        assert!(matches!(UdpSocket::bind(main.local_addr(), &config), Err(SocketError::Bind { .. })));
        let domain = if any.is_ipv4() { socket2::Domain::IPV4 } else { socket2::Domain::IPV6 };
        let stranger = socket2::Socket::new(domain, socket2::Type::DGRAM, None).unwrap();
        stranger.set_reuse_address(true).unwrap();
        assert!(stranger.bind(&SocketAddr::new(any.ip(), port).into()).is_err());
    }
}

#[test]
fn granted_options_match_the_kernel() {
    let small = DataSize::from_bytes(100_000);
    let config = SocketConfig { receive_buffer: Some(small), send_buffer: None, ..SocketConfig::default() };
    let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let granted = socket.granted();
    assert_eq!(granted.receive_buffer_bytes.map(|b| (b.asked, b.granted)), Some((100_000, 100_000)));
    assert_eq!(granted.send_buffer_bytes, None);
    assert!(!granted.receive_offload, "it was not asked for");
}

#[test]
fn a_receive_without_messages_times_out() {
    let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
    let mut batch = ReceiveBatch::new(4, 100);
    let clock = Clock::start();
    assert_eq!(socket.recv_batch(&mut batch, Wait::Never).unwrap(), 0);
    assert_eq!(socket.recv_batch(&mut batch, Wait::For(Duration::from_millis(20))).unwrap(), 0);
    assert!(clock.now().as_nanos() >= 20_000_000);
    assert!(batch.is_empty());
}

#[test]
fn one_thread_sends_while_another_receives() {
    let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
    let bytes = run_of(200, 400, 400);
    let got = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| collect(&socket, &mut ReceiveBatch::new(16, 1500), 200));
        socket.send_segments(Some(socket.local_addr()), &bytes, 400, Grouping::Each).unwrap();
        receiving.join().unwrap()
    });
    assert_eq!(got.concat_bytes(), bytes);
}

/// Concatenates payloads.
trait ConcatBytes {
    fn concat_bytes(&self) -> Vec<u8>;
}

impl ConcatBytes for Vec<Datagram> {
    fn concat_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|datagram| datagram.bytes.iter().copied()).collect()
    }
}
