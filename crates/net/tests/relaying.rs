//! The relay between clients and servers on loopback.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket as StdSocket},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use giusto_net::{
    Clock, Grouping, SocketConfig, UdpSocket,
    emulate::{RelayConfig, RelayError, StampingRelay},
};
use giusto_units::{TimeDelta, Timestamp};

const ANY: &str = "127.0.0.1:0";
const PATIENCE: Option<Duration> = Some(Duration::from_secs(5));

/// What the observer got for one datagram.
struct Shown {
    at: Timestamp,
    stamped: bool,
    bytes: Vec<u8>,
    from: SocketAddr,
    kernel_dropped: u32,
}

fn relay_to(clock: Clock, target: u16) -> (StampingRelay, Receiver<Shown>) {
    let (shown, observed) = mpsc::channel();
    let config = RelayConfig { target, ..RelayConfig::default() };
    let relay = StampingRelay::start(clock, &config, move |datagram| {
        let _ = shown.send(Shown {
            at: datagram.at,
            stamped: datagram.stamped,
            bytes: datagram.bytes.to_vec(),
            from: datagram.from,
            kernel_dropped: datagram.kernel_dropped,
        });
    });
    (relay.expect("free ports"), observed)
}

fn udp() -> StdSocket {
    let socket = StdSocket::bind(ANY).expect("a socket on loopback");
    socket.set_read_timeout(PATIENCE).expect("a socket on loopback");
    socket
}

fn port(socket: &StdSocket) -> u16 {
    socket.local_addr().expect("a socket on loopback").port()
}

#[test]
fn datagrams_are_forwarded_and_observed_with_timestamps() {
    let (clock, server, client) = (Clock::start(), udp(), udp());
    let (relay, observed) = relay_to(clock, port(&server));
    let mut buffer = vec![0; 65_536];
    let mut after_last = Timestamp::ZERO;
    for len in [4, 0, 1, 1472, 65_507] {
        let bytes: Vec<u8> = (0..len).map(|n| (n * 7) as u8).collect();
        let before = clock.now();
        client.send_to(&bytes, ("127.0.0.1", relay.port())).unwrap();
        let (received, relayed_from) = server.recv_from(&mut buffer).unwrap();
        let after = clock.now();
        assert_eq!(&buffer[..received], bytes);

        let shown = observed.recv_timeout(Duration::from_secs(5)).unwrap();
        let noise = TimeDelta::from_micros(5);
        assert!(shown.at >= before - noise && shown.at <= after, "{before} {} {after}", shown.at);
        assert!(shown.stamped && shown.at >= after_last && shown.kernel_dropped == 0);
        assert_eq!((shown.bytes, shown.from), (bytes, client.local_addr().unwrap()));
        after_last = shown.at;

        server.send_to(&buffer[..received], relayed_from).unwrap();
        let (returned, from) = client.recv_from(&mut buffer).unwrap();
        assert_eq!((returned, from.port()), (received, relay.port()));
    }
    let report = relay.stop();
    assert_eq!((report.observed_packets, report.to_server_packets, report.to_client_packets), (5, 5, 5));
    assert_eq!((report.unforwarded_packets, report.kernel_dropped_packets), (0, 0));
}

#[test]
fn a_burst_keeps_order_sizes_and_timestamps() {
    let (clock, server) = (Clock::start(), udp());
    let (relay, observed) = relay_to(clock, port(&server));
    let client = UdpSocket::bind(ANY.parse().unwrap(), &SocketConfig::default()).unwrap();
    let to = SocketAddr::from(([127, 0, 0, 1], relay.port()));
    let lengths: Vec<usize> = (0..120).map(|n| if n % 40 < 30 { 100 } else { n }).collect();
    let bytes: Vec<u8> = lengths.iter().zip(0..).flat_map(|(&len, n)| vec![n; len]).collect();
    assert_eq!(client.send_varied(Some(to), &bytes, &lengths).unwrap(), 120);
    // A message that the kernel splits is still several datagrams.
    assert_eq!(client.send_segments(Some(to), &[200; 3000], 100, Grouping::Offload).unwrap(), 30);
    let mut buffer = [0; 2048];
    for index in 0..150 {
        let (len, value) = lengths.get(index).map_or((100, 200), |&len| (len, index as u8));
        let received = server.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..received], vec![value; len]);
        let shown = observed.recv_timeout(Duration::from_secs(5)).unwrap();
        assert_eq!(shown.bytes, vec![value; len]);
        assert!(shown.stamped);
    }
    assert_eq!(relay.stop().to_server_packets, 150);
}

#[test]
fn each_of_eight_clients_gets_its_own_answers() {
    let (server, clients) = (udp(), [(); 9].map(|()| udp()));
    let (relay, observed) = relay_to(Clock::start(), port(&server));
    let mut buffer = [0; 16];
    for (client, name) in clients.iter().take(8).zip(0..) {
        client.send_to(&[name], ("127.0.0.1", relay.port())).unwrap();
        let (_, from) = server.recv_from(&mut buffer).unwrap();
        server.send_to(&[name + 100], from).unwrap();
    }
    for (client, name) in clients.iter().take(8).zip(100..) {
        assert_eq!(client.recv(&mut buffer).unwrap(), 1);
        assert_eq!(buffer[0], name);
    }
    clients[8].send_to(&[8], ("127.0.0.1", relay.port())).unwrap();
    assert_eq!(observed.iter().take(9).last().unwrap().bytes, [8]);
    let report = relay.stop();
    assert_eq!((report.observed_packets, report.to_server_packets, report.unforwarded_packets), (9, 8, 1));
}

#[test]
fn both_directions_of_a_connection_are_copied() {
    let server = TcpListener::bind(ANY).unwrap();
    let (relay, _observed) = relay_to(Clock::start(), server.local_addr().unwrap().port());
    let echo = thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
    });
    let mut client = TcpStream::connect(("127.0.0.1", relay.port())).unwrap();
    client.set_read_timeout(PATIENCE).unwrap();
    let sent: Vec<u8> = (0..1_000_000).map(|n| (n % 251) as u8).collect();
    client.write_all(&sent).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    client.read_to_end(&mut back).unwrap();
    assert!(back == sent, "{} bytes came back", back.len());
    echo.join().unwrap();
    assert_eq!(relay.stop().connections, 1);
}

#[test]
fn a_connection_waits_for_a_server_that_starts_later() {
    let late = TcpListener::bind(ANY).unwrap().local_addr().unwrap();
    let (relay, _observed) = relay_to(Clock::start(), late.port());
    let mut client = TcpStream::connect(("127.0.0.1", relay.port())).unwrap();
    client.write_all(b"early").unwrap();
    let nothing_yet = Duration::from_millis(30);
    client.set_read_timeout(Some(nothing_yet)).unwrap();
    client.read(&mut [0]).unwrap_err();
    let server = TcpListener::bind(late).unwrap();
    let mut received = [0; 5];
    server.accept().unwrap().0.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"early");
}

#[test]
fn it_stops_soon_with_open_connections() {
    let (server, target) = (udp(), TcpListener::bind(ANY).unwrap());
    let clock = Clock::start();
    let (relay, observed) = relay_to(clock, target.local_addr().unwrap().port());
    let mut client = TcpStream::connect(("127.0.0.1", relay.port())).unwrap();
    let (_silent, _) = target.accept().unwrap();
    let _waiting = TcpStream::connect(("127.0.0.1", relay.port())).unwrap();
    server.send_to(b"to nobody", ("127.0.0.1", relay.port())).unwrap();
    observed.recv_timeout(Duration::from_secs(5)).unwrap();

    let begun = clock.now();
    relay.stop();
    let took = clock.now() - begun;
    // 100 ms on a machine without other load.
    assert!(took < TimeDelta::from_millis(400), "{took}");
    client.set_read_timeout(PATIENCE).unwrap();
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    assert!(observed.iter().next().is_none(), "the observer is gone with its thread");
}

#[test]
fn queued_datagrams_are_forwarded_when_it_stops() {
    let (server, client) = (udp(), udp());
    let (relay, observed) = relay_to(Clock::start(), port(&server));
    for n in 0..100 {
        client.send_to(&[n; 50], ("127.0.0.1", relay.port())).unwrap();
    }
    assert_eq!(relay.stop().to_server_packets, 100);
    assert_eq!(observed.iter().count(), 100);
}

#[test]
fn the_error_names_a_port_in_use() {
    let taken = TcpListener::bind(ANY).unwrap();
    let port = taken.local_addr().unwrap().port();
    let config = RelayConfig { port, target: 9, ..RelayConfig::default() };
    let error = StampingRelay::start(Clock::start(), &config, |_| {}).unwrap_err();
    assert!(matches!(error, RelayError::Listen { .. }));
    assert!(error.to_string().starts_with(&format!("relay: cannot listen for TCP at 127.0.0.1:{port}:")));
}
