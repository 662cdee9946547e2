//! The controller against queues, compared with the theory of the paper.

use crate::copa::{Config, Copa};
use crate::shared_queue::{PACKET, Path};
use crate::testing::prelude::*;

fn copa() -> Algorithm {
    "copa".parse().unwrap()
}

const WIDE: Limits = limits(50, 300, 20_000);

#[test]
fn each_flow_keeps_about_two_packets_in_the_queue_and_an_equal_share() {
    // §2.1: 1/δ = 2 packets in equilibrium; §3: between 0 and 2.5/δ = 5 packets a flow, which is 2.5 on average.
    for (mbps, one_way) in [(1.0, 25), (3.0, 25), (3.0, 50), (10.0, 25)] {
        for count in [1_u64, 2] {
            let _case = Case((mbps, one_way, count));
            let path = Path { mbps, one_way: TimeDelta::from_millis(one_way), ..Path::default() };
            let mut flows: Vec<Flow> =
                (0..count).map(|place| Flow::new(copa().build(WIDE), place * 3)).collect();
            let outcome = shared_queue::run(path, &mut flows);
            let packets = |ms: f64| ms * mbps * 1e3 / 8.0 / PACKET as f64 / count as f64;
            let (mean, p95) = (packets(outcome.queue_ms), packets(outcome.queue_p95_ms));
            let used = outcome.mbps.iter().sum::<f64>() / mbps;
            within(used, 0.94..=1.001);
            within(mean, 2.0..=4.0);
            within(p95, ..8.0);
            within(outcome.dropped, ..=0.0);
            for rate in outcome.mbps {
                within(rate * count as f64 / mbps / used, 0.9..=1.1);
            }
        }
    }
}

#[test]
fn a_lower_delta_keeps_more_packets() {
    let queue = |delta| {
        let config = Config { delta, competes: false, ..Config::within(WIDE) };
        let outcome = shared_queue::run(Path::default(), &mut [Flow::new(Box::new(Copa::new(config)), 0)]);
        outcome.queue_ms * 3e3 / 8.0 / PACKET as f64
    };
    within(queue(0.125) / queue(0.5), 2.5..6.0);
}

/// Fills the queue: the window grows by a packet in each RTT until a packet is lost, and is then halved (RFC 5681).
#[derive(Debug, Clone)]
struct Filler {
    window: f64,
    next: u64,
    recovers: u64,
    decision: Decision,
}

impl Controller for Filler {
    fn on_sent(&mut self, _now: Timestamp, packet: &SentPacket) {
        self.next = packet.sequence + 1;
    }

    fn on_feedback(&mut self, _now: Timestamp, feedback: &Feedback<'_>) {
        for packet in feedback.packets {
            if packet.arrival.is_some() {
                self.window += (PACKET * PACKET) as f64 / self.window;
            } else if packet.sent.sequence >= self.recovers {
                self.window = (self.window / 2.0).max(2.0 * PACKET as f64);
                self.recovers = self.next;
            }
        }
    }

    fn on_timeout(&mut self, _now: Timestamp, _queue: &QueueState) {}

    fn next_timeout(&self) -> Option<Timestamp> {
        None
    }

    fn set_limits(&mut self, _now: Timestamp, _limits: Limits) {}

    fn on_route_change(&mut self, _now: Timestamp) {}

    fn target(&self) -> Target {
        let rate = DataRate::from_bps(100_000_000);
        let window = Some(DataSize::from_bytes(self.window as u64));
        Target { media: rate, pacing: rate, window, ..Target::default() }
    }

    fn decision(&self) -> &Decision {
        &self.decision
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[test]
fn the_competitive_mode_gets_a_share_beside_a_flow_that_fills_the_queue() {
    let path = Path { mbps: 6.0, queue: TimeDelta::from_millis(100), seconds: 120, ..Path::default() };
    let share = |competes| {
        let config = Config { competes, ..Config::within(WIDE) };
        let filler = Filler { window: 12e3, next: 0, recovers: 0, decision: Decision::default() };
        let mut flows = [Flow::new(Box::new(Copa::new(config)), 0), Flow::new(Box::new(filler), 5)];
        let outcome = shared_queue::run(path, &mut flows);
        outcome.mbps[0] / outcome.mbps.iter().sum::<f64>()
    };
    within(share(true), 0.25..0.75);
    within(share(false), 0.005..0.2);
}

#[test]
fn random_losses_have_no_effect_in_default_mode() {
    let used = |loss_every| {
        let path = Path { loss_every, ..Path::default() };
        shared_queue::run(path, &mut [Flow::new(copa().build(WIDE), 0)]).mbps[0] / 3.0
    };
    // One packet in 20 is lost behind the queue.
    within(used(20) / used(0), 0.95 * 0.95..=1.0);
}

#[test]
fn video_fills_the_link_with_a_short_queue() {
    // Frames of 1/30 s leave at twice the rate of the media: half a frame, 17 ms, is the peak of their own queue.
    for link in [(|_| 1.0) as fn(f64) -> f64, |_| 3.0, |_| 10.0] {
        let _case = Case(link(0.0));
        let outcome = run(copa(), Scenario { link, limits: WIDE, ..Scenario::default() });
        within(outcome.mbps(20.0, 59.0) / link(0.0), 0.9..=1.01);
        within(outcome.queue_delay_p95(20.0, 59.0), 5.0..20.0 + 5.0 * 9.6 / link(0.0));
        within(outcome.sender_delay_p95(20.0, 59.0), ..120.0);
        assert_eq!(outcome.dropped, 0);
    }
}

#[test]
fn it_follows_the_capacity() {
    let link = |at| if (30.0..60.0).contains(&at) { 1.0 } else { 3.0 };
    let outcome = run(copa(), Scenario { link, limits: WIDE, seconds: 90, ..Scenario::default() });
    within(outcome.mbps(35.0, 59.0), 0.85..=1.01);
    within(outcome.queue_delay_p95(35.0, 59.0), ..100.0);
    within(outcome.reaches(60.0, 2.6).unwrap(), ..65.0);
}

#[test]
fn missing_feedback_halves_the_rate_and_its_return_restores_it() {
    closed_loop::survives_silence(copa(), 1.8);
}

#[test]
fn a_queue_of_few_packets_loses_few_of_them() {
    // A queue that stays full for 10 s hides the RTT without one, and the law alone sends twice what the link carries.
    for (mbps, queue_ms) in [(0.064, 300), (0.2, 100), (0.4, 50)] {
        let _case = Case((mbps, queue_ms));
        let path = Path { mbps, queue: TimeDelta::from_millis(queue_ms), seconds: 120, ..Path::default() };
        let outcome = shared_queue::run(path, &mut [Flow::new(copa().build(WIDE), 0)]);
        within(outcome.dropped, ..0.26);
        within(outcome.mbps[0] / mbps, 0.85..=1.001);
    }
}

#[test]
fn random_loss_of_5_percent_does_not_matter() {
    let path = Path { loss_every: 20, ..Path::default() };
    within(shared_queue::run(path, &mut [Flow::new(copa().build(WIDE), 0)]).mbps[0] / 3.0, 0.88..=0.95);
}
