//! The relay across links, on loopback.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]
#![allow(clippy::disallowed_methods, reason = "tests measure with the clock of the standard library")]

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as Plain},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use giusto_net::{
    Clock, ReceiveBatch, SocketConfig, TrafficClass, UdpSocket, Wait,
    emulate::{self, Emulator, LiveConfig, LiveReport, Start, StartSignal, UdpPair, UdpRelay},
};
use giusto_sim::{
    link::{
        Link, LinkConfig,
        queue::{DropTail, Limit, MarkThreshold, Queue, StepMark, StepMarkConfig},
        rate::RateProfile,
    },
    packet::LinkId,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// Far above any delay of a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A relay in a thread of its own, with the same link in both directions.
struct Relay {
    stop: Arc<AtomicBool>,
    addresses: Vec<SocketAddr>,
    thread: Option<JoinHandle<(LiveReport, Vec<u64>)>>,
}

impl Relay {
    fn start(pairs: &[UdpPair], config: &LinkConfig, queue: fn() -> Box<dyn Queue>) -> Self {
        let live = LiveConfig { start: Start::First(|_| true), ..LiveConfig::default() };
        Self::with(pairs, config, queue, live)
    }

    fn with(pairs: &[UdpPair], config: &LinkConfig, queue: fn() -> Box<dyn Queue>, live: LiveConfig) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let clock = Clock::start();
        let mut shell = UdpRelay::new(pairs, clock).unwrap();
        let link = |id| Link::new(LinkId(id), config, queue(), 1, "link").unwrap();
        let routes = std::iter::repeat_n([vec![LinkId(0)], vec![LinkId(1)]], pairs.len()).flatten();
        let memory = DataSize::from_bytes(10_000_000);
        let mut emulator = Emulator::new(vec![link(0), link(1)], routes.collect(), memory).unwrap();
        let addresses = shell.addresses().collect();
        let config = LiveConfig { stop: Some(Arc::clone(&stop)), clock: Some(clock), ..live };
        let thread = thread::spawn(move || {
            let watch = |_: Timestamp, _: &Emulator<_>, _: &_| ControlFlow::Continue(());
            let report = emulate::run(&mut shell, &mut emulator, &mut (), &config, watch);
            (report, emulator.links().map(|link| link.counters().delivered_bytes).collect())
        });
        Self { stop, addresses, thread: Some(thread) }
    }

    /// The report, and the bytes that each link delivered.
    fn finish(mut self) -> (LiveReport, Vec<u64>) {
        self.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

fn socket(address: impl Into<std::net::IpAddr>) -> Plain {
    let socket = Plain::bind((address.into(), 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn pair(target: &Plain) -> UdpPair {
    let target = target.local_addr().unwrap();
    UdpPair { listen: (target.ip(), 0).into(), target }
}

fn drop_tail() -> Box<dyn Queue> {
    Box::new(DropTail::new(Limit::Packets(100)))
}

fn delayed(ms: i64) -> LinkConfig {
    LinkConfig { delay: TimeDelta::from_millis(ms).into(), ..LinkConfig::default() }
}

#[test]
fn both_directions_have_their_delay_and_sizes_count_headers() {
    let server = socket(Ipv4Addr::LOCALHOST);
    let relay = Relay::start(&[pair(&server)], &delayed(50), drop_tail);
    let client = socket(Ipv4Addr::LOCALHOST);
    let mut buffer = [0; 2000];
    let mut rtts = Vec::new();
    for round in 0..5_u8 {
        let begin = Instant::now();
        client.send_to(&[round; 100], relay.addresses[0]).unwrap();
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!((length, buffer[0]), (100, round));
        server.send_to(&buffer[..60], from).unwrap();
        assert_eq!(client.recv_from(&mut buffer).unwrap(), (60, relay.addresses[0]));
        rtts.push(begin.elapsed());
    }
    let least = rtts.iter().min().unwrap();
    assert!((Duration::from_millis(100)..Duration::from_secs(2)).contains(least), "{rtts:?}");
    let (report, bytes) = relay.finish();
    // 28 bytes of IPv4 and UDP headers.
    assert_eq!(bytes, [5 * 128, 5 * 88]);
    assert_eq!((report.sent_packets, report.unsent_packets, report.lateness.count()), (10, 0, 10));
}

#[test]
fn outside_a_signalled_time_datagrams_pass_at_once_and_uncounted() {
    let server = socket(Ipv4Addr::LOCALHOST);
    let signal = StartSignal::default();
    let duration = TimeDelta::from_millis(2_000);
    let live = LiveConfig {
        start: Start::Signal { start: signal.clone(), crosses: |content| content[0] < 100 },
        duration: Some(duration),
        ..LiveConfig::default()
    };
    let relay = Relay::with(&[pair(&server)], &delayed(300), drop_tail, live);
    let client = socket(Ipv4Addr::LOCALHOST);
    let trip = |content: u8| {
        let begin = Instant::now();
        let mut buffer = [0; 100];
        client.send_to(&[content; 100], relay.addresses[0]).unwrap();
        assert_eq!(server.recv_from(&mut buffer).unwrap().0, 100);
        assert_eq!(buffer, [content; 100]);
        begin.elapsed()
    };
    let at_once = || (0..5).map(trip).min().unwrap() < Duration::from_millis(100);
    assert!(at_once());
    let clock = Clock::start();
    let begin = Instant::now();
    signal.set(clock, clock.now());
    // Only the first one counts.
    signal.set(clock, Timestamp::MAX);
    assert!((100..105).map(trip).min().unwrap() < Duration::from_millis(100));
    let crossing = trip(7);
    // On a machine that is busy for a second and a half it would come after the end.
    if begin.elapsed() < Duration::from_millis(1_500) {
        assert!(crossing >= Duration::from_millis(300), "{crossing:?}");
    }
    thread::sleep(Duration::from_millis(2_100).saturating_sub(begin.elapsed()));
    assert!(at_once());
    let (report, bytes) = relay.finish();
    assert!(bytes[0] <= 128 && bytes[1] == 0, "{bytes:?}");
    assert_eq!(report.now, Timestamp::ZERO + duration);
    assert_eq!((report.sent_packets, report.lateness.count() <= 6), (16, true));
}

#[test]
fn clients_and_pairs_do_not_mix_and_any_size_passes() {
    let servers = [socket(Ipv4Addr::LOCALHOST), socket(Ipv6Addr::LOCALHOST)];
    let relay = Relay::start(&[pair(&servers[0]), pair(&servers[1])], &delayed(1), drop_tail);
    let mut buffer = vec![0; 70_000];
    let mut expected = [0; 2];
    for (place, (server, header)) in servers.iter().zip([28, 48]).enumerate() {
        let clients = [(), ()].map(|()| socket(server.local_addr().unwrap().ip()));
        for (size, client) in [0, 1, 1472, 9000, 65_000].into_iter().zip(clients.iter().cycle()) {
            client.send_to(&vec![size as u8; size], relay.addresses[place]).unwrap();
            let (length, from) = server.recv_from(&mut buffer).unwrap();
            assert_eq!(length, size);
            server.send_to(&buffer[..length], from).unwrap();
            let (length, from) = client.recv_from(&mut buffer).unwrap();
            assert_eq!((length, from), (size, relay.addresses[place]));
            assert!(buffer[..length].iter().all(|&byte| byte == size as u8));
            expected[0] += (size + header) as u64;
        }
        // Each of the two clients has its own socket towards the server, so that the server can tell them apart.
        let seen = clients.each_ref().map(|client| {
            client.send_to(b"who", relay.addresses[place]).unwrap();
            server.recv_from(&mut buffer).unwrap().1
        });
        assert_ne!(seen[0], seen[1]);
        server.send_to(b"first", seen[0]).unwrap();
        assert_eq!(clients[0].recv(&mut buffer).unwrap(), 5);
    }
    relay.finish();
}

#[test]
fn ecn_and_dscp_are_carried_and_a_full_queue_marks() {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), &SocketConfig::default()).unwrap();
    let pair = UdpPair { listen: (Ipv4Addr::LOCALHOST, 0).into(), target: server.local_addr() };
    // 128 B take 1 ms.
    let rate = RateProfile::Fixed(DataRate::from_bps(1_024_000));
    let relay = Relay::start(&[pair], &LinkConfig { rate, ..delayed(1) }, || {
        let threshold = MarkThreshold::Sojourn(TimeDelta::from_millis(20));
        Box::new(StepMark::new(StepMarkConfig { threshold, ..StepMarkConfig::default() }).unwrap())
    });
    let client = |class| {
        let config = SocketConfig { traffic_class: class, ..SocketConfig::default() };
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), &config).unwrap()
    };
    let (expedited, capable) = (TrafficClass::new(46, 0).unwrap(), TrafficClass::new(46, 2).unwrap());
    let (plain, marked) = (client(expedited), client(capable));
    for _ in 0..50 {
        plain.send_to(&[0; 100], relay.addresses[0]).unwrap();
        marked.send_to(&[1; 100], relay.addresses[0]).unwrap();
    }
    let mut batch = ReceiveBatch::new(32, 2048);
    let mut classes = Vec::new();
    let begin = Instant::now();
    while classes.len() < 100 {
        assert!(begin.elapsed() < PATIENCE, "{} arrived", classes.len());
        server.recv_batch(&mut batch, Wait::For(Duration::from_millis(100))).unwrap();
        classes.extend(batch.iter().map(|received| (received.bytes[0], received.traffic_class.unwrap())));
    }
    assert!(classes.iter().all(|(_, class)| class.dscp() == 46));
    let of =
        |sender, ecn| classes.iter().filter(|(from, class)| *from == sender && class.ecn() == ecn).count();
    assert_eq!(of(0, 0), 50);
    // All but about ten of the second sender's had waited for 20 ms.
    assert_eq!(of(1, 2) + of(1, 3), 50);
    assert!((20..50).contains(&of(1, 3)), "{}", of(1, 3));
    relay.finish();
}
