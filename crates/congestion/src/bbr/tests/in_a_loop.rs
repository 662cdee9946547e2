//! The controller against queues.

use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};

use crate::{
    algorithm::Algorithm,
    bbr::{Bbr, Config, Phase},
    closed_loop::{self, Scenario, run, run_with},
    controller::Controller,
    feedback::{Feedback, PacketReport, QueueState, SentPacket, StreamState},
    limits::Limits,
    shared_queue::{self, Flow, Path},
    target::Cause,
    testing::limits,
};

fn bbr() -> Algorithm {
    "bbr".parse().unwrap()
}

const WIDE: fn() -> Limits = || limits(50, 300, 20_000);

#[test]
fn one_flow_uses_the_link_with_less_than_a_product_of_queue() {
    for (mbps, one_way) in [(1.0, 50), (3.0, 25), (3.0, 50), (10.0, 25)] {
        let path = Path { mbps, one_way: TimeDelta::from_millis(one_way), ..Path::default() };
        let outcome = shared_queue::run(path, &mut [Flow::new(bbr().build(WIDE()), 0)]);
        let used = outcome.mbps[0] / mbps;
        assert!((0.95..=1.001).contains(&used), "{path:?}: {used}");
        let products = outcome.queue_ms / (2.0 * one_way as f64);
        assert!((0.02..=0.5).contains(&products), "{path:?}: {products}");
        // ProbeBW_UP fills its window of 2.25 products.
        assert!(outcome.queue_p95_ms <= 1.25 * 2.0 * one_way as f64, "{path:?}: {}", outcome.queue_p95_ms);
        assert!(outcome.dropped < 1e-9, "{}", outcome.dropped);
    }
}

#[test]
fn two_flows_use_the_link_and_keep_at_most_two_products() {
    for (mbps, one_way) in [(3.0, 25), (10.0, 25)] {
        let path = Path { mbps, one_way: TimeDelta::from_millis(one_way), seconds: 120, ..Path::default() };
        let mut flows = [0, 3].map(|begin| Flow::new(bbr().build(WIDE()), begin));
        let outcome = shared_queue::run(path, &mut flows);
        let sum: f64 = outcome.mbps.iter().sum();
        assert!((0.95..=1.001).contains(&(sum / mbps)), "{:?}", outcome.mbps);
        assert!(outcome.mbps.iter().all(|rate| (0.3..=0.7).contains(&(rate / sum))), "{:?}", outcome.mbps);
        let products = outcome.queue_ms / (2.0 * one_way as f64);
        assert!((0.3..=2.0).contains(&products), "{path:?}: {products}");
    }
}

#[test]
fn a_queue_of_half_a_product_costs_few_packets() {
    let path = Path { queue: TimeDelta::from_millis(25), ..Path::default() };
    let outcome = shared_queue::run(path, &mut [Flow::new(bbr().build(WIDE()), 0)]);
    assert!((0.85..=1.001).contains(&(outcome.mbps[0] / 3.0)), "{:?}", outcome.mbps);
    assert!(outcome.dropped < 0.03, "{}", outcome.dropped);
}

#[test]
fn one_loss_is_too_much_below_fifty_packets_in_flight() {
    // The threshold is 2 % of the flight: 16 packets at 3 Mbit/s and 50 ms, 83 packets at 10 Mbit/s and 100 ms.
    let used = |mbps, one_way, loss_every| {
        let path = Path { mbps, one_way: TimeDelta::from_millis(one_way), loss_every, ..Path::default() };
        shared_queue::run(path, &mut [Flow::new(bbr().build(WIDE()), 0)]).mbps[0] / mbps
    };
    let (few, many) = (used(3.0, 25, 100), used(10.0, 50, 100));
    assert!((0.4..0.8).contains(&few), "{few}");
    assert!((0.8..1.0).contains(&many), "{many}");
    let heavy = used(3.0, 25, 5);
    assert!((0.01..few).contains(&heavy), "{heavy}");
}

#[test]
fn the_window_shows_a_probe_of_the_rtt_each_five_seconds() {
    // 3 Mbit/s × 50 ms are 18750 bytes.
    let (mut probes, mut low_since) = (Vec::new(), None);
    let path = Path { seconds: 60, ..Path::default() };
    shared_queue::run_watched(path, &mut [Flow::new(bbr().build(WIDE()), 0)], |now, target| {
        let is_low = target.media < DataRate::from_bps(1_700_000) && now.as_seconds() > 3.0;
        match (is_low, low_since) {
            (true, None) => low_since = Some(now),
            (false, Some(since)) => {
                probes.push((now - since).as_millis());
                low_since = None;
            }
            _ => {}
        }
    });
    assert!((9..=12).contains(&probes.len()), "{probes:?}");
    assert!(probes.iter().all(|ms| (180.0..500.0).contains(ms)), "{probes:?}");
}

#[test]
fn video_fills_the_link() {
    for link in [(|_| 1.0) as fn(f64) -> f64, |_| 3.0, |_| 10.0] {
        let outcome = run(bbr(), Scenario { link, limits: WIDE(), ..Scenario::default() });
        let used = outcome.mbps(20.0, 59.0) / link(0.0);
        assert!((0.95..=1.01).contains(&used), "{used}");
        assert!(outcome.queue_delay_p95(20.0, 59.0) < 100.0, "{}", outcome.queue_delay_p95(20.0, 59.0));
        assert!(outcome.sender_delay_p95(20.0, 59.0) < 120.0, "{}", outcome.sender_delay_p95(20.0, 59.0));
        assert_eq!(outcome.dropped, 0);
    }
}

#[test]
fn media_below_the_estimate_keep_it() {
    // 1 Mbit/s of media on 3 Mbit/s.
    let run = |pads| {
        let scenario =
            Scenario { media: DataRate::from_bps(1_000_000), limits: WIDE(), ..Scenario::default() };
        let config = Config { pads, ..Config::within(scenario.limits) };
        run_with(Box::new(Bbr::new(config)), bbr(), scenario)
    };
    let (padded, plain) = (run(true), run(false));
    // With padding it finds what the path carries; without, what the media use and 2.77 times of it while it is in Startup.
    assert!((2.2..=4.0).contains(&padded.target(50.0)), "{}", padded.target(50.0));
    assert!(padded.padding_seconds > 0.3 && padded.padding_seconds < 20.0, "{}", padded.padding_seconds);
    assert!(plain.padding_seconds.abs() < 1e-9);
    assert!((0.9..=1.01).contains(&plain.mbps(20.0, 59.0)), "{}", plain.mbps(20.0, 59.0));
    assert!((0.95..=2.9).contains(&plain.target(50.0)), "{}", plain.target(50.0));
    assert!(plain.queue_delay_p95(10.0, 59.0) < 60.0, "{}", plain.queue_delay_p95(10.0, 59.0));
}

#[test]
fn it_follows_the_capacity() {
    let link = |at| if (30.0..60.0).contains(&at) { 1.0 } else { 3.0 };
    let outcome = run(bbr(), Scenario { link, limits: WIDE(), seconds: 90, ..Scenario::default() });
    assert!((0.9..=1.01).contains(&outcome.mbps(40.0, 59.0)), "{}", outcome.mbps(40.0, 59.0));
    assert!(outcome.queue_delay_p95(40.0, 59.0) < 200.0, "{}", outcome.queue_delay_p95(40.0, 59.0));
    assert!(outcome.reaches(60.0, 2.6).is_some_and(|at| at < 75.0), "{:?}", outcome.reaches(60.0, 2.6));
}

#[test]
fn marks_shorten_the_queue() {
    let scenario = Scenario { limits: WIDE(), ecn: Ecn::Ect0, ..Scenario::default() };
    let plain = run(bbr(), scenario);
    let marked = run(bbr(), Scenario { mark_above: 20.0, ..scenario });
    assert!(marked.marked > 0 && marked.has_cause(|cause| matches!(cause, Cause::Marks { .. })));
    let (with, without) = (marked.queue_delay_p95(20.0, 59.0), plain.queue_delay_p95(20.0, 59.0));
    assert!((1.0..0.9 * without).contains(&with), "{with} {without}");
    assert!((2.0..=3.01).contains(&marked.mbps(20.0, 59.0)), "{}", marked.mbps(20.0, 59.0));
}

#[test]
fn missing_feedback_halves_the_rate_and_its_return_restores_it() {
    closed_loop::survives_silence(bbr(), 1.7);
}

#[test]
fn it_pads_neither_before_an_estimate_nor_while_the_media_are_paused() {
    let mut bbr = Bbr::new(Config::default());
    let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
    bbr.on_timeout(at(0), &QueueState::default());
    assert_eq!(bbr.target().padding, DataRate::ZERO);
    let size = DataSize::from_bytes(1200);
    for sequence in 0..3 {
        let sent = SentPacket { sequence, at: at(sequence * 100), size, probe: None, in_flight: size };
        bbr.on_sent(sent.at, &sent);
        let arrival = Some(PeerTimestamp::from_nanos((sequence * 100 + 20) * 1_000_000));
        let packets = [PacketReport { sent, arrival, ecn: Ecn::Ect0 }];
        let now = at(sequence * 100 + 40);
        bbr.on_feedback(now, &Feedback { packets: &packets, ..Feedback::default() });
        bbr.on_timeout(now, &QueueState::default());
    }
    // 1200 bytes in 40 ms.
    assert_eq!((bbr.phase(), bbr.bandwidth()), (Phase::Startup, DataRate::from_bps(240_000)));
    assert_eq!(bbr.min_rtt(), Some(TimeDelta::from_millis(40)));
    assert_eq!(bbr.target().padding, bbr.target().media);
    let stream = |paused, max| StreamState {
        priority: 1.0,
        usable: (DataRate::from_bps(30_000), DataRate::from_bps(max)),
        paused,
        queue: QueueState::default(),
    };
    // The stream of a constant rate does not matter.
    for (streams, pads) in [
        ([stream(true, 2_000_000), stream(false, 30_000)], false),
        ([stream(false, 2_000_000), stream(true, 30_000)], true),
        ([stream(true, 2_000_000), stream(false, 1_000_000)], true),
        ([stream(false, 30_000), stream(false, 30_000)], true),
    ] {
        bbr.on_streams(at(400), &streams);
        assert_eq!(bbr.target().padding > DataRate::ZERO, pads, "{streams:?}");
    }
}
