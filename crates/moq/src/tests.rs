//! Publisher, relay and watcher across links, in virtual time and once in real time.

use std::{
    net::{Ipv4Addr, SocketAddr},
    ops::{ControlFlow, Range},
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

use crate::{
    film::Film,
    publish::{self, Published},
    quic,
    relay::Relay,
    watch::{self, Figures, Frame},
    world::{self, Path},
};

const LOCALHOST: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// Publishes across a link of these capacities in kbit/s, 5 s each, with 30 ms each way and a queue of 500 ms, to a relay; and watches from
/// there. Returns what both sides saw.
async fn live(controller: &'static str, film: Film, capacities: &[u64]) -> (Published, Vec<Frame>) {
    let relay = Relay::bind(LOCALHOST.into()).unwrap();
    let endpoint = relay.0.clone();
    let target = endpoint.local_addr().unwrap();
    let running = tokio::spawn(relay.run());
    let clock = Clock::start();
    let mut shell = UdpRelay::new(&[UdpPair { listen: SocketAddr::from(LOCALHOST), target }], clock).unwrap();
    let near = shell.addresses().next().unwrap();
    let steps = (0..).zip(capacities).map(|(index, &kbps)| {
        (Timestamp::from_nanos(index * 5_000_000_000), DataRate::from_bps(kbps * 1000))
    });
    let there = LinkConfig {
        rate: RateProfile::Steps { steps: steps.collect(), period: None },
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
    let emulation = thread::spawn(move || {
        emulate::run(&mut shell, &mut emulator, &mut (), &live, |_, _, _| ControlFlow::Continue(()));
    });
    let watching = tokio::spawn(async move { watch::watch(&quic::client().unwrap(), target).await });
    let duration = Duration::from_secs(5 * capacities.len() as u64);
    let near_end = quic::client().unwrap();
    let published = publish::publish(&near_end, near, controller, film, duration, |_| {}).await.unwrap();
    let frames = watching.await.unwrap().unwrap();
    stop.store(true, Relaxed);
    emulation.join().unwrap();
    endpoint.close(0_u32.into(), b"the end");
    running.await.unwrap().unwrap();
    (published, frames)
}

/// The same in virtual time.
fn broadcast(controller: &str, film: Film, capacities: &[u64]) -> (Published, Vec<Frame>) {
    publish::now();
    let path = Path {
        capacities,
        step: Duration::from_secs(5),
        delay: TimeDelta::from_millis(30),
        queue: Limit::Time(TimeDelta::from_millis(500)),
    };
    world::broadcast(controller, film, &path).unwrap()
}

/// Those captured in these seconds after the first.
fn within(frames: &[Frame], seconds: Range<u64>) -> Vec<Frame> {
    let start = frames[0].captured;
    let times = Duration::from_secs(seconds.start)..Duration::from_secs(seconds.end);
    frames.iter().filter(|frame| times.contains(&frame.captured.saturating_sub(start))).cloned().collect()
}

/// Groups begin with a key frame, and only they do; within a group no frame is missing; groups and frames arrive once.
fn assert_whole(frames: &[Frame]) {
    for frame in frames {
        // RFC 6386 §9.1: the first bit is 0 in a key frame.
        assert_eq!(
            frame.index == 0,
            frame.bytes[0] & 1 == 0,
            "frame {} of group {}",
            frame.index,
            frame.group
        );
    }
    for pair in frames.windows(2) {
        let next = (pair[0].group, pair[0].index + 1);
        assert!(
            next == (pair[1].group, pair[1].index) || (pair[0].group < pair[1].group && pair[1].index == 0)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_arrive_whole_in_real_time() {
    let (published, frames) = live("tempo", Film::made(), &[1500]).await;
    assert_whole(&frames);
    let arrived: usize = frames.iter().map(|frame| frame.bytes.len()).sum();
    assert!(frames.len() as u64 <= published.frames && arrived as u64 <= published.bytes, "{published}");
    // A busy machine makes frames late, and the publisher leaves some out.
    assert!(frames.len() > 30, "{published}, {} arrived", frames.len());
    let least = frames.iter().map(|frame| frame.delay).min().unwrap();
    assert!((30..200).contains(&least.as_millis()), "{least:?}");
}

#[test]
fn a_broadcast_follows_the_capacity_with_less_delay_than_cubic() {
    let capacities = &[3000, 1000, 3000];
    let (published, ours) = broadcast("tempo", Film::made(), capacities);
    let (_, cubic) = broadcast("quinn:cubic", Film::made(), capacities);
    let figures = |frames: &[Frame], seconds| Figures::of(&within(frames, seconds));
    let [high, low, again] = [3..5, 7..10, 12..15].map(|seconds| figures(&ours, seconds));
    assert!((1.2..3.0).contains(&high.goodput_mbps), "of 3 Mbit/s: {high}");
    assert!((0.4..1.0).contains(&low.goodput_mbps), "of 1 Mbit/s: {low}");
    assert!((1.2..3.0).contains(&again.goodput_mbps), "of 3 Mbit/s: {again}");
    // A way of 30 ms, and a frame's own time on the link.
    assert!((30..200).contains(&low.p50.as_millis()) && low.p50 <= low.p95 && low.p95 <= low.p99, "{low}");
    // By the time of capture, which may be more than a second before departure.
    let others = figures(&cubic, 7..10);
    assert!((0.4..1.5).contains(&others.goodput_mbps), "of 1 Mbit/s with CUBIC: {others}");
    assert!(others.p50 > low.p50 + Duration::from_millis(100), "{others} with CUBIC, {low}");
    assert_whole(&ours);
    // The groups that are not given up arrive whole.
    let arrived: usize = ours.iter().map(|frame| frame.bytes.len()).sum();
    assert!(ours.len() as u64 <= published.frames && arrived as u64 <= published.bytes, "{published}");
    assert!(ours.len() as u64 * 10 > published.frames * 9, "{published}, {} arrived", ours.len());
}

#[test]
fn groups_that_wait_too_long_are_given_up() {
    let (published, frames) = broadcast("tempo", Film::made(), &[3000, 60, 1000]);
    assert!(published.given_up > 0 && published.skipped > 0, "{published}");
    assert_whole(&frames);
    assert!(
        (frames.len() as u64) < published.frames,
        "a given-up group is not whole: {published}, {} arrived",
        frames.len()
    );
    let again = Figures::of(&within(&frames, 12..15));
    assert!(again.frames > 45 && again.p50 < Duration::from_millis(250), "{again}");
}

#[test]
fn a_film_changes_its_file_with_the_capacity() {
    let [low, high] = [
        &include_bytes!("../../webrtc/tests/data/low.ivf")[..],
        include_bytes!("../../webrtc/tests/data/high.ivf"),
    ];
    let film = Film::of_files(&[low.to_vec(), high.to_vec()]).unwrap();
    let (published, frames) = broadcast("scream:v2", film, &[1000, 100, 1000]);
    let is_of = |file: &[u8], frame: &Frame| file.windows(frame.bytes.len()).any(|part| part == frame.bytes);
    assert!(
        frames.iter().all(|frame| is_of(low, frame) || is_of(high, frame)),
        "frames arrive as they are in the files"
    );
    assert!(
        frames.len() as u64 <= published.frames && frames.len() > 150,
        "{published}, {} arrived",
        frames.len()
    );
    let [before, during, after] = [2..5, 7..10, 12..15].map(|seconds| {
        let frames = within(&frames, seconds);
        frames.iter().filter(|frame| is_of(high, frame)).count() as f64 / frames.len() as f64
    });
    assert!(
        during < 0.2 && before > during + 0.3 && after > during + 0.3,
        "of the larger file: {before}, then {during}, then {after}"
    );
    assert_whole(&frames);
}
