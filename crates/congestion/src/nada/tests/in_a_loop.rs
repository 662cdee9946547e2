//! The controller against a link, compared with the RFC's equilibrium and bounds.

use crate::nada::{Config, DelaySamples, Nada, ReceiverConfig};
use crate::testing::prelude::*;

fn nada() -> Algorithm {
    "nada".parse().unwrap()
}

/// Mean over an interval of the minimum of 15 successive queueing delays, in ms: what the congestion signal is made of.
fn mean_signal(outcome: &Outcome, from: f64, to: f64) -> f64 {
    let delays: Vec<f64> =
        outcome.queue_delays.iter().filter(|(at, _)| (from..to).contains(at)).map(|&(_, ms)| ms).collect();
    let filtered: Vec<f64> =
        delays.windows(15).map(|window| window.iter().copied().fold(f64::INFINITY, f64::min)).collect();
    filtered.iter().sum::<f64>() / filtered.len() as f64
}

#[test]
fn the_standing_queue_is_that_of_the_equilibrium() {
    // x = 10 ms × RMAX / r_ref: 20, 30 and 40 ms at the link rate. The encoder gets up to 5 % less than r_ref, and the link carries what
    // the encoder sends: x is up to 5 % lower.
    for (link, max, expected) in
        [((|_| 1.0) as fn(f64) -> f64, 2000, 20.0), (|_| 1.0, 3000, 30.0), (|_| 2.5, 10_000, 40.0)]
    {
        let _case = Case((link(0.0), max));
        let scenario = Scenario { link, limits: limits(150, 300, max), seconds: 120, ..Scenario::default() };
        let outcome = run(nada(), scenario);
        near(mean_signal(&outcome, 60.0, 120.0) / expected, 1.0, 0.1);
        within(outcome.mbps(60.0, 119.0) / link(0.0), 0.98..=1.01);
        assert_eq!(outcome.dropped, 0);
    }
}

/// Growth rate s of the ramp-up, per second, for r = e^(s t): r(t) = (1 + gamma) × mean of what the encoder produced in the 500 ms before
/// t − delay. The encoder gets the share `video` of r. The delay is the RTT and half an interval of reports. Times in seconds.
fn growth(rtt: f64, interval: f64, video: f64) -> f64 {
    let gamma = 0.05 / (rtt + 0.1 + 0.12);
    let delay = rtt + interval / 2.0;
    let gain = |s: f64| video * (1.0 + gamma) * (-s * delay).exp() * (1.0 - (-0.5 * s).exp()) / (0.5 * s);
    let (mut low, mut high) = (1e-6, 10.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if gain(middle) > 1.0 { low = middle } else { high = middle }
    }
    low
}

#[test]
fn the_ramp_up_grows_as_its_equations_say_and_bounds_its_queue() {
    for link in [(|_| 2.0) as fn(f64) -> f64, |_| 4.0] {
        let _case = Case(link(0.0));
        let (limits, feedback) = (limits(150, 150, 5000), TimeDelta::from_millis(20));
        let outcome = run(nada(), Scenario { link, limits, feedback, ..Scenario::default() });
        let (link, from) = (link(0.0), 0.3);
        let to = 0.8 * link;
        let time = outcome.reaches(0.0, to).unwrap() - outcome.reaches(0.0, from).unwrap();
        // Feedback every 20 ms gives a report every 100 or 120 ms. The sender's queue takes up to 5 % from the encoder.
        within((to / from).ln() / time, growth(0.05, 0.12, 0.95)..growth(0.05, 0.1, 1.0));
        // QBOUND = 50 ms is for reports every 100 ms; here they come up to 20 ms later, and a packet is in service. The equilibrium is
        // lower.
        let bound = 50.0 / (50.0 + 100.0 + 120.0) * (50.0 + 120.0 + 120.0) + 9.6 / link;
        let most = outcome.queue_delays.iter().map(|&(_, ms)| ms).fold(0.0, f64::max);
        within(most, 10.0 * 5.0 / link..=bound);
    }
}

#[test]
fn a_link_that_loses_half_of_its_rate_is_followed() {
    let scenario = Scenario {
        link: |at| if at < 40.0 { 2.0 } else { 1.0 },
        limits: limits(150, 300, 2500),
        seconds: 100,
        ..Scenario::default()
    };
    let outcome = run(nada(), scenario);
    within(outcome.mbps(30.0, 40.0), 1.9..=2.01);
    within(outcome.mbps(80.0, 99.0), 0.97..=1.01);
    within(outcome.target(42.0), ..1.05);
}

#[test]
fn congestion_marks_shorten_the_queue() {
    let scenario =
        Scenario { link: |_| 1.0, limits: limits(150, 300, 4000), seconds: 100, ..Scenario::default() };
    let without = run(nada(), scenario);
    let with = run(nada(), Scenario { ecn: Ecn::Ect0, mark_above: 15.0, ..scenario });
    within(mean_signal(&with, 60.0, 100.0), ..0.8 * mean_signal(&without, 60.0, 100.0));
    assert_ne!(with.marked, 0);
    within(with.mbps(60.0, 99.0), 0.4..);
}

#[test]
fn missing_feedback_reduces_the_rate_and_its_return_restores_it() {
    let scenario = Scenario {
        limits: limits(150, 300, 2000),
        is_feedback_lost: |at| (30.0..45.0).contains(&at),
        seconds: 70,
        ..Scenario::default()
    };
    let outcome = run(nada(), scenario);
    within(outcome.target(32.0), 1.85..);
    // From 33 s on a step of 0.8 each second.
    within(outcome.target(44.9), 2.0 * 0.8_f64.powi(13)..2.0 * 0.8_f64.powi(10));
    assert!(outcome.has_cause(|cause| *cause == Cause::Silence));
    within(outcome.target(65.0), 1.85..);
}

#[test]
fn a_weight_scales_the_queue_of_the_equilibrium() {
    let scenario =
        Scenario { link: |_| 1.0, limits: limits(150, 300, 1500), seconds: 120, ..Scenario::default() };
    for (priority, expected) in [(1.0, 15.0), (2.0, 30.0)] {
        let _case = Case(priority);
        let controller = Box::new(Nada::new(Config { priority, ..Config::within(scenario.limits) }));
        near(mean_signal(&run_with(controller, nada(), scenario), 60.0, 120.0) / expected, 1.0, 0.1);
    }
}

/// 500 kbit/s, a queue of 300 ms, and an encoder of up to 30 Mbit/s: the equilibrium of 10 ms × 30 / 0.5 = 600 ms overflows the queue. With
/// 1.5 Mbit/s as `RMAX` of equation 5 it is 30 ms.
#[test]
fn an_encoder_far_above_the_link_fills_the_queue_unless_its_weight_is_bounded() {
    let scenario =
        Scenario { link: |_| 0.5, limits: limits(30, 300, 30_000), seconds: 120, ..Scenario::default() };
    let [rfc, authors] = ["nada", "nada:ns3"].map(|name| run(name.parse().unwrap(), scenario));
    within(rfc.dropped_share(), 0.02..);
    assert_eq!(authors.dropped, 0);
    near(mean_signal(&authors, 60.0, 120.0) / 30.0, 1.0, 0.1);
    within(authors.mbps(60.0, 119.0) / 0.5, 0.98..=1.01);
}

#[test]
fn the_start_of_a_session_counts_from_its_first_call() {
    // A session that begins at 1000 s: the first interval is the time since then, not since zero.
    let at = |ms: u64| at(1_000_000 + ms);
    let receiver = ReceiverConfig { ramp_up_samples: DelaySamples::Raw, ..ReceiverConfig::default() };
    let mut controller = Nada::new(Config { receiver, ..Config::within(limits(150, 1000, 2000)) });
    controller.on_timeout(at(0), &QueueState::default());
    for number in 0..12_u64 {
        let queue = if number == 0 { 0 } else { 30 };
        let report = report(number, 1_000_000 + number * 10, Some(number * 10 + 20 + queue));
        feed(&mut controller, at(number * 10 + 40), &[report]);
    }
    // One report, whose filter still contains the packet without a queue: the offset 0 − 20 ms over 110 ms raises by 0.44 %.
    near(controller.report().unwrap().signal_ms, 0.0, 1e-9);
    let rate = controller.reference_rate().as_bps() as f64;
    near(rate, 1e6 * (1.0 + 0.5 * 0.11 / 0.5 * 0.02 / 0.5), 300.0);
    // It asks for the sender's queue at once: 2000 bytes take 48 kbit/s from the encoder (equation 11).
    assert!(controller.next_timeout().is_some_and(|next| next <= at(150)));
    let queue = QueueState { size: DataSize::from_bytes(2000), ..QueueState::default() };
    controller.on_timeout(at(150), &queue);
    let Target { media, pacing, .. } = controller.target();
    near(media.as_bps() as f64, rate - 48e3, 2.0);
    near(pacing.as_bps() as f64, rate + 48e3, 2.0);
    assert_eq!(controller.next_timeout(), None);
}
