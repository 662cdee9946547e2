//! The controller against a link, compared with the RFC's equilibrium and bounds.

use giusto_units::{DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};

use crate::{
    algorithm::Algorithm,
    closed_loop::{Outcome, Scenario, run, run_with},
    controller::Controller,
    feedback::{Feedback, PacketReport, QueueState, SentPacket},
    nada::{Config, DelaySamples, Nada, ReceiverConfig},
    target::{Cause, Target},
    testing::limits,
};

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
    for (link, max, expected) in [(1.0, 2000, 20.0), (1.0, 3000, 30.0), (2.5, 10_000, 40.0)] {
        let link_rate: fn(f64) -> f64 = if link < 2.0 { |_| 1.0 } else { |_| 2.5 };
        let scenario =
            Scenario { link: link_rate, limits: limits(150, 300, max), seconds: 120, ..Scenario::default() };
        let outcome = run(nada(), scenario);
        let queue = mean_signal(&outcome, 60.0, 120.0);
        let rate = outcome.mbps(60.0, 119.0);
        assert!(
            (queue / expected - 1.0).abs() < 0.1,
            "{link} Mbit/s, maximum {max}: {queue} instead of {expected}"
        );
        assert!((0.98..=1.01).contains(&(rate / link)), "{link} Mbit/s: {rate}");
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
    for link in [2.0, 4.0] {
        let link_rate: fn(f64) -> f64 = if link < 3.0 { |_| 2.0 } else { |_| 4.0 };
        let feedback = TimeDelta::from_millis(20);
        let scenario = Scenario {
            link: link_rate,
            limits: limits(150, 150, 5000),
            seconds: 60,
            feedback,
            ..Scenario::default()
        };
        let outcome = run(nada(), scenario);
        let [from, to] = [0.3, 0.8].map(|share| if share < 0.5 { share } else { share * link });
        let time = outcome.reaches(0.0, to).unwrap() - outcome.reaches(0.0, from).unwrap();
        // Feedback every 20 ms gives a report every 100 or 120 ms. The sender's queue takes up to 5 % from the encoder.
        let (found, bounds) = ((to / from).ln() / time, growth(0.05, 0.12, 0.95)..growth(0.05, 0.1, 1.0));
        assert!(bounds.contains(&found), "{link} Mbit/s: {found} outside {bounds:?} per second");
        // QBOUND = 50 ms is for reports every 100 ms; here they come up to 20 ms later, and a packet is in service. The equilibrium is
        // lower.
        let bound = 50.0 / (50.0 + 100.0 + 120.0) * (50.0 + 120.0 + 120.0) + 9.6 / link;
        let most = outcome.queue_delays.iter().map(|&(_, ms)| ms).fold(0.0, f64::max);
        assert!((10.0 * 5.0 / link..=bound).contains(&most), "{link} Mbit/s: {most} ms");
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
    let (before, after) = (outcome.mbps(30.0, 40.0), outcome.mbps(80.0, 99.0));
    assert!((1.9..=2.01).contains(&before), "{before}");
    assert!((0.97..=1.01).contains(&after), "{after}");
    assert!(outcome.target(42.0) < 1.05, "{}", outcome.target(42.0));
}

#[test]
fn congestion_marks_shorten_the_queue() {
    let scenario =
        Scenario { link: |_| 1.0, limits: limits(150, 300, 4000), seconds: 100, ..Scenario::default() };
    let without = run(nada(), scenario);
    let with = run(nada(), Scenario { ecn: Ecn::Ect0, mark_above: 15.0, ..scenario });
    let (without, queue) = (mean_signal(&without, 60.0, 100.0), mean_signal(&with, 60.0, 100.0));
    assert!(with.marked > 0 && queue < 0.8 * without, "{queue} {without}");
    assert!(with.mbps(60.0, 99.0) > 0.4, "{}", with.mbps(60.0, 99.0));
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
    assert!(outcome.target(32.0) > 1.85, "{}", outcome.target(32.0));
    // From 33 s on a step of 0.8 each second.
    assert!(
        (0.8_f64.powi(13) * 2.0..2.0 * 0.8_f64.powi(10)).contains(&outcome.target(44.9)),
        "{}",
        outcome.target(44.9)
    );
    assert!(outcome.has_cause(|cause| *cause == Cause::Silence));
    assert!(outcome.target(65.0) > 1.85, "{}", outcome.target(65.0));
}

#[test]
fn a_weight_scales_the_queue_of_the_equilibrium() {
    let scenario =
        Scenario { link: |_| 1.0, limits: limits(150, 300, 1500), seconds: 120, ..Scenario::default() };
    for (priority, expected) in [(1.0, 15.0), (2.0, 30.0)] {
        let controller = Box::new(Nada::new(Config { priority, ..Config::within(scenario.limits) }));
        let queue = mean_signal(&run_with(controller, nada(), scenario), 60.0, 120.0);
        assert!((queue / expected - 1.0).abs() < 0.1, "weight {priority}: {queue} instead of {expected}");
    }
}

/// 500 kbit/s, a queue of 300 ms, and an encoder of up to 30 Mbit/s: the equilibrium of 10 ms × 30 / 0.5 = 600 ms overflows the queue. With
/// 1.5 Mbit/s as `RMAX` of equation 5 it is 30 ms.
#[test]
fn an_encoder_far_above_the_link_fills_the_queue_unless_its_weight_is_bounded() {
    let scenario =
        Scenario { link: |_| 0.5, limits: limits(30, 300, 30_000), seconds: 120, ..Scenario::default() };
    let [rfc, authors] = ["nada", "nada:ns3"].map(|name| run(name.parse().unwrap(), scenario));
    let lost = |outcome: &Outcome| outcome.dropped as f64 / outcome.sent as f64;
    assert!(lost(&rfc) > 0.02 && authors.dropped == 0, "{} {}", lost(&rfc), lost(&authors));
    let queue = mean_signal(&authors, 60.0, 120.0);
    assert!((queue / 30.0 - 1.0).abs() < 0.1, "{queue}");
    assert!((0.98..=1.01).contains(&(authors.mbps(60.0, 119.0) / 0.5)), "{}", authors.mbps(60.0, 119.0));
}

#[test]
fn the_start_of_a_session_counts_from_its_first_call() {
    // A session that begins at 1000 s: the first interval is the time since then, not since zero.
    let at = |ms: u64| Timestamp::from_nanos(1_000_000_000_000 + ms * 1_000_000);
    let receiver = ReceiverConfig { ramp_up_samples: DelaySamples::Raw, ..ReceiverConfig::default() };
    let mut controller = Nada::new(Config { receiver, ..Config::within(limits(150, 1000, 2000)) });
    controller.on_timeout(at(0), &QueueState::default());
    let size = DataSize::from_bytes(1200);
    for number in 0..12_u64 {
        let sent = SentPacket { sequence: number, at: at(number * 10), size, probe: None, in_flight: size };
        let queue = if number == 0 { 0 } else { 30 };
        let arrival = Some(PeerTimestamp::from_nanos((number * 10 + 20 + queue) * 1_000_000));
        let packets = [PacketReport { sent, arrival, ecn: Ecn::NotEct }];
        controller.on_feedback(at(number * 10 + 40), &Feedback { packets: &packets, ..Feedback::default() });
    }
    // One report, whose filter still contains the packet without a queue: the offset 0 − 20 ms over 110 ms raises by 0.44 %.
    let report = controller.report().unwrap();
    assert!(report.signal_ms.abs() < 1e-9, "{}", report.signal_ms);
    let expected = 1e6 * (1.0 + 0.5 * 0.11 / 0.5 * 0.02 / 0.5);
    let rate = controller.reference_rate().as_bps() as f64;
    assert!((rate - expected).abs() < 300.0, "{rate} instead of {expected}");
    // It asks for the sender's queue at once: 2000 bytes take 48 kbit/s from the encoder (equation 11).
    assert!(controller.next_timeout().is_some_and(|next| next <= at(150)));
    let queue = QueueState { size: DataSize::from_bytes(2000), ..QueueState::default() };
    controller.on_timeout(at(150), &queue);
    let Target { media, pacing, .. } = controller.target();
    assert!((media.as_bps() as f64 - (rate - 48e3)).abs() < 2.0, "{media}");
    assert!((pacing.as_bps() as f64 - (rate + 48e3)).abs() < 2.0, "{pacing}");
    assert_eq!(controller.next_timeout(), None);
}
