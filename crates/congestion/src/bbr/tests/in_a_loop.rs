//! The controller against queues.

use crate::bbr::{Bbr, Config, Phase};
use crate::{shared_queue::Path, testing::prelude::*};

fn bbr() -> Algorithm {
    "bbr".parse().unwrap()
}

const WIDE: Limits = limits(50, 300, 20_000);

#[test]
fn one_flow_uses_the_link_with_less_than_a_product_of_queue() {
    for (mbps, one_way) in [(1.0, 50), (3.0, 25), (3.0, 50), (10.0, 25)] {
        let _case = Case((mbps, one_way));
        let path = Path { mbps, one_way: TimeDelta::from_millis(one_way), ..Path::default() };
        let outcome = shared_queue::run(path, &mut [Flow::new(bbr().build(WIDE), 0)]);
        within(outcome.mbps[0] / mbps, 0.95..=1.001);
        let product = 2.0 * one_way as f64;
        within(outcome.queue_ms / product, 0.02..=0.5);
        // ProbeBW_UP fills its window of 2.25 products.
        within(outcome.queue_p95_ms / product, ..=1.25);
        within(outcome.dropped, ..1e-9);
    }
}

#[test]
fn two_flows_use_the_link_and_keep_at_most_two_products() {
    for (mbps, one_way) in [(3.0, 25), (10.0, 25)] {
        let path = Path { mbps, one_way: TimeDelta::from_millis(one_way), seconds: 120, ..Path::default() };
        let mut flows = [0, 3].map(|begin| Flow::new(bbr().build(WIDE), begin));
        let outcome = shared_queue::run(path, &mut flows);
        let sum: f64 = outcome.mbps.iter().sum();
        assert!((0.95..=1.001).contains(&(sum / mbps)), "{:?}", outcome.mbps);
        assert!(outcome.mbps.iter().all(|rate| (0.3..=0.7).contains(&(rate / sum))), "{:?}", outcome.mbps);
        within(outcome.queue_ms / (2.0 * one_way as f64), 0.3..=2.0);
    }
}

#[test]
fn a_queue_of_half_a_product_costs_few_packets() {
    let path = Path { queue: TimeDelta::from_millis(25), ..Path::default() };
    let outcome = shared_queue::run(path, &mut [Flow::new(bbr().build(WIDE), 0)]);
    within(outcome.mbps[0] / 3.0, 0.85..=1.001);
    within(outcome.dropped, ..0.03);
}

#[test]
fn one_loss_is_too_much_below_fifty_packets_in_flight() {
    // The threshold is 2 % of the flight: 16 packets at 3 Mbit/s and 50 ms, 83 packets at 10 Mbit/s and 100 ms. Losses of
    // an RTT and a quarter count, since a missing packet may be late.
    let used = |mbps, one_way, loss_every| {
        let path = Path { mbps, one_way: TimeDelta::from_millis(one_way), loss_every, ..Path::default() };
        shared_queue::run(path, &mut [Flow::new(bbr().build(WIDE), 0)]).mbps[0] / mbps
    };
    let (few, many) = (used(3.0, 25, 100), used(10.0, 50, 150));
    within(few, 0.4..0.8);
    within(many, 0.8..1.0);
    within(used(3.0, 25, 5), 0.01..few);
}

#[test]
fn video_fills_the_link() {
    for link in [(|_| 1.0) as fn(f64) -> f64, |_| 3.0, |_| 10.0] {
        let _case = Case(link(0.0));
        let outcome = run(bbr(), Scenario { link, limits: WIDE, ..Scenario::default() });
        within(outcome.mbps(20.0, 59.0) / link(0.0), 0.95..=1.01);
        within(outcome.queue_delay_p95(20.0, 59.0), ..100.0);
        within(outcome.sender_delay_p95(20.0, 59.0), ..120.0);
        assert_eq!(outcome.dropped, 0);
    }
}

#[test]
fn the_target_shows_a_probe_of_the_rtt_each_five_seconds() {
    let (mut probes, mut low_since) = (Vec::new(), None);
    let mut flows = [Flow::new(bbr().build(WIDE), 0)];
    shared_queue::run_watched(Path::default(), &mut flows, |now, target| {
        let is_low = target.media < kbps(1700) && now.as_seconds() > 3.0;
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
fn media_below_the_estimate_keep_it() {
    // 1 Mbit/s of media on 3 Mbit/s.
    let run = |pads| {
        let scenario = Scenario { media: kbps(1000), limits: WIDE, ..Scenario::default() };
        let config = Config { pads, ..Config::within(scenario.limits) };
        run_with(Box::new(Bbr::new(config)), bbr(), scenario)
    };
    let (padded, plain) = (run(true), run(false));
    // With padding it finds what the path carries; without, what the media use and 2.77 times of it while it is in Startup.
    within(padded.target(50.0), 2.2..=4.0);
    within(padded.padding_seconds, 0.3..20.0);
    within(plain.padding_seconds, ..1e-9);
    within(plain.mbps(20.0, 59.0), 0.9..=1.01);
    within(plain.target(50.0), 0.95..=2.9);
    within(plain.queue_delay_p95(10.0, 59.0), ..60.0);
}

#[test]
fn it_follows_the_capacity() {
    let link = |at| if (30.0..60.0).contains(&at) { 1.0 } else { 3.0 };
    let outcome = run(bbr(), Scenario { link, limits: WIDE, seconds: 90, ..Scenario::default() });
    within(outcome.mbps(40.0, 59.0), 0.9..=1.01);
    within(outcome.queue_delay_p95(40.0, 59.0), ..200.0);
    within(outcome.reaches(60.0, 2.6).unwrap(), ..75.0);
}

#[test]
fn the_bound_of_losses_grows_with_the_capacity() {
    // At 1 Mbit/s the queue is too short for a probe. The media rate keeps the window from becoming full.
    for (queue, feedback) in [(40, 50), (40, 100), (80, 100)] {
        let _case = Case((queue, feedback));
        let scenario = Scenario {
            link: |at| if at < 20.0 { 1.0 } else { 5.0 },
            delay: |_| 100.0,
            queue: ms(queue),
            feedback: ms(feedback),
            limits: WIDE,
            seconds: 40,
            ..Scenario::default()
        };
        let outcome = run(bbr(), scenario);
        assert!(outcome.dropped > 0);
        within(outcome.mbps(25.0, 35.0), 3.5..=5.01);
    }
}

#[test]
fn marks_shorten_the_queue() {
    let scenario = Scenario { limits: WIDE, ecn: Ecn::Ect0, ..Scenario::default() };
    let plain = run(bbr(), scenario);
    let marked = run(bbr(), Scenario { mark_above: 20.0, ..scenario });
    assert!(marked.marked > 0 && marked.has_cause(|cause| matches!(cause, Cause::Marks { .. })));
    within(marked.queue_delay_p95(20.0, 59.0), 1.0..0.9 * plain.queue_delay_p95(20.0, 59.0));
    within(marked.mbps(20.0, 59.0), 2.0..=3.01);
}

#[test]
fn missing_feedback_halves_the_rate_and_its_return_restores_it() {
    closed_loop::survives_silence(bbr(), 1.7);
}

#[test]
fn it_pads_neither_before_an_estimate_nor_while_the_media_are_paused() {
    let mut bbr = Bbr::new(Config::default());
    bbr.on_timeout(at(0), &QueueState::default());
    assert_eq!(bbr.target().padding, DataRate::ZERO);
    for sequence in 0..3 {
        let report = report(sequence, sequence * 100, Some(sequence * 100 + 20)).with_ecn(Ecn::Ect0);
        bbr.on_sent(report.sent.at, &report.sent);
        let now = at(sequence * 100 + 40);
        feed(&mut bbr, now, &[report]);
        bbr.on_timeout(now, &QueueState::default());
    }
    // 1200 bytes in 40 ms.
    assert_eq!((bbr.phase(), bbr.bandwidth()), (Phase::Startup, kbps(240)));
    assert_eq!(bbr.min_rtt(), Some(TimeDelta::from_millis(40)));
    assert_eq!(bbr.target().padding, bbr.target().media);
    let stream = |(paused, max)| StreamState {
        priority: 1.0,
        usable: (kbps(30), kbps(max)),
        paused,
        queue: QueueState::default(),
    };
    // The stream of a constant rate does not matter.
    for (streams, pads) in [
        ([(true, 2000), (false, 30)], false),
        ([(false, 2000), (true, 30)], true),
        ([(true, 2000), (false, 1000)], true),
        ([(false, 30), (false, 30)], true),
    ] {
        bbr.on_streams(at(400), &streams.map(stream));
        assert_eq!(bbr.target().padding > DataRate::ZERO, pads, "{streams:?}");
    }
}

#[test]
fn a_packet_that_is_late_is_not_lost() {
    let used = |path| shared_queue::run(path, &mut [Flow::new(bbr().build(WIDE), 0)]).mbps[0] / 3.0;
    within(used(Path { late_every: 20, ..Path::default() }), 0.95..=1.001);
    within(used(Path { loss_every: 20, ..Path::default() }), ..0.6);
}
