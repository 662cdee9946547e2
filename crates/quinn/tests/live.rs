//! The example over real endpoints, across links in real time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]
#![allow(clippy::disallowed_methods, reason = "a test in real time")]

#[path = "../examples/frames/run.rs"]
mod run;

use std::{
    net::{Ipv4Addr, SocketAddr},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use giusto_net::{
    Clock,
    emulate::{self, Emulator, LiveConfig, Start, UdpPair, UdpRelay},
};
use giusto_sim::{
    link::{
        Link, LinkConfig,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    packet::LinkId,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use run::Frame;

/// The capacity, and that from [`STEP`] on.
const HIGH: u64 = 3_000_000;
const LOW: u64 = 1_000_000;
const STEP: Duration = Duration::from_secs(5);
const END: Duration = Duration::from_secs(10);

/// Sends frames across a link whose capacity falls, 30 ms each way, with a queue of 500 ms; returns what arrived.
async fn call(controller: &'static str) -> Vec<Frame> {
    let receiver = run::Receiver::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let target = receiver.0.local_addr().unwrap();
    let clock = Clock::start();
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut shell = UdpRelay::new(&[UdpPair { listen, target }], clock).unwrap();
    let near = shell.addresses().next().unwrap();
    let at = |time: Duration, bps| (Timestamp::from_nanos(time.as_nanos() as u64), DataRate::from_bps(bps));
    let there = LinkConfig {
        rate: RateProfile::Steps { steps: vec![at(Duration::ZERO, HIGH), at(STEP, LOW)], period: None },
        delay: TimeDelta::from_millis(30).into(),
        ..LinkConfig::default()
    };
    let back = LinkConfig { delay: TimeDelta::from_millis(30).into(), ..LinkConfig::default() };
    let link =
        |id, config, limit| Link::new(LinkId(id), config, Box::new(DropTail::new(limit)), 1, "link").unwrap();
    let links =
        vec![link(0, &there, Limit::Time(TimeDelta::from_millis(500))), link(1, &back, Limit::Unlimited)];
    let routes = vec![vec![LinkId(0)], vec![LinkId(1)]];
    let mut emulator = Emulator::new(links, routes, DataSize::from_bytes(10_000_000)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let live = LiveConfig {
        start: Start::First(|_| true),
        stop: Some(Arc::clone(&stop)),
        clock: Some(clock),
        ..LiveConfig::default()
    };
    let relay = thread::spawn(move || {
        emulate::run(&mut shell, &mut emulator, &mut (), &live, |_, _, _| ControlFlow::Continue(()));
    });
    let received = tokio::spawn(receiver.run());
    run::send(near, controller, END, |_| {}).await.unwrap();
    let frames = received.await.unwrap().unwrap();
    stop.store(true, Relaxed);
    relay.join().unwrap();
    frames
}

/// Mbit/s of the frames captured in these seconds after the first, and the median and 90th percentile of their delay.
fn figures(frames: &[Frame], from: u64, until: u64) -> (f64, Duration, Duration) {
    let start = frames.first().unwrap().captured;
    let within = Duration::from_secs(from)..Duration::from_secs(until);
    let those: Vec<_> =
        frames.iter().filter(|frame| within.contains(&frame.captured.saturating_sub(start))).collect();
    let rate = those.iter().map(|frame| frame.size).sum::<usize>() as f64 * 8e-6 / (until - from) as f64;
    let mut delays: Vec<_> = those.iter().map(|frame| frame.delay).collect();
    delays.sort_unstable();
    (rate, delays[delays.len() / 2], delays[delays.len() * 9 / 10])
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_follow_the_capacity_and_wait_less_than_with_cubic() {
    let (ours, cubic) = tokio::join!(tokio::spawn(call("tempo")), tokio::spawn(call("cubic")));
    let (ours, cubic) = (ours.unwrap(), cubic.unwrap());
    let (high, _, _) = figures(&ours, 3, 5);
    let (low, median, p90) = figures(&ours, 7, 10);
    assert!((1.2..3.0).contains(&high), "{high} Mbit/s of 3");
    assert!((0.4..1.0).contains(&low), "{low} Mbit/s of 1");
    // A way of 30 ms, and a frame's own time on the link.
    assert!(
        (30..200).contains(&median.as_millis()) && p90 < Duration::from_millis(300),
        "{median:?}, {p90:?}"
    );
    let (_, cubic_median, _) = figures(&cubic, 7, 10);
    assert!(cubic_median > median + Duration::from_millis(100), "{cubic_median:?} with CUBIC, {median:?}");
    // Numbers and contents arrive as they were sent.
    assert!(ours.windows(2).all(|pair| pair[0].number < pair[1].number));
}
