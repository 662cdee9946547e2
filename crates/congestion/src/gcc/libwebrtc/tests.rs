//! Behaviour of the controller.

use giusto_pace::media::PacerConfig;

use super::*;
use crate::{closed_loop::run_paced, gcc::loss::ModelConfig, testing::prelude::*};

fn kind() -> Algorithm {
    "gcc:libwebrtc+giusto".parse().unwrap()
}

/// The rates of the next probes.
fn probes(controller: &mut Libwebrtc) -> Vec<DataRate> {
    std::iter::from_fn(|| controller.next_probe()).map(|probe| probe.rate).collect()
}

fn on_timeout(controller: &mut Libwebrtc, time: u64) {
    controller.on_timeout(at(time), &QueueState::default());
}

#[test]
fn defaults_are_valid_and_errors_name_the_constant() {
    assert_eq!(Config::within(Limits::default()).validate(), Ok(()));
    let error = |config: Config| Libwebrtc::new(config).unwrap_err().to_string();
    assert!(error(Config { pacing: f64::NAN, ..Config::default() }).contains("pacing must be above 0"));
    let loss = ModelConfig { newton_steps: 0, ..Config::default().loss };
    assert!(error(Config { loss, ..Config::default() }).contains("newton_steps"));
}

// libwebrtc `goog_cc/goog_cc_network_control_unittest.cc`; the name of each case is in the test.

fn unit() -> Libwebrtc {
    Libwebrtc::new(Config::giusto(limits(0, 60, 300))).unwrap()
}

#[test]
fn it_starts_at_the_start_rate_with_two_probes() {
    // InitializeTargetRateOnFirstProcessInterval: 60 kbit/s of at most 300.
    let mut controller = unit();
    on_timeout(&mut controller, 123_456);
    let Target { media, pacing, padding, window } = controller.target();
    assert_eq!((media, pacing, padding, window), (kbps(60), kbps(150), DataRate::ZERO, None));
    assert_eq!(probes(&mut controller), [kbps(180), kbps(300)]);
}

#[test]
fn initially_it_follows_the_receivers_estimate() {
    // ReactsToChangedNetworkConditions
    let mut controller = unit();
    on_timeout(&mut controller, 123);
    for (time, estimate) in [(123, 120), (148, 60)] {
        let receiver_estimate = Some(kbps(estimate));
        controller.on_feedback(at(time), &Feedback { receiver_estimate, ..Feedback::default() });
        on_timeout(&mut controller, time + 25);
        assert_eq!(controller.target().media, kbps(estimate));
        assert_eq!(controller.target().pacing, kbps(estimate * 5 / 2));
        assert_eq!(controller.decision().cause, Cause::ReceiverEstimate);
    }
    // SendSideBandwidthEstimation::UpdateReceiverEstimate: zero takes the limit away.
    let loss = Some(LossReport { ratio: 0.0, expected_packets: 100 });
    let receiver_estimate = Some(DataRate::ZERO);
    controller.on_feedback(at(1500), &Feedback { receiver_estimate, loss, ..Feedback::default() });
    assert!((kbps(61)..kbps(120)).contains(&controller.target().media), "{}", controller.target().media);
}

/// Sends a packet, and reports at `now` that it arrived.
fn pass(controller: &mut Libwebrtc, (sent, arrival, now): (u64, u64, u64), bytes: u64) {
    let packet = SentPacket::new(sent, at(sent), DataSize::from_bytes(bytes));
    controller.on_sent(at(sent), &packet);
    feed(controller, at(now), &[PacketReport::new(packet, Some(peer_at(arrival)))]);
}

/// Sends packets of 1000 bytes every 50 ms for 6 s. The one-way delay grows by a constant number of
/// milliseconds per packet.
fn transmit(controller: &mut Libwebrtc, now: &mut u64, growth: u64) -> DataRate {
    let (mut delay, end) = (0, *now + 6000);
    while *now < end {
        pass(controller, (*now, *now + delay, *now + delay), 1000);
        delay += growth;
        *now += 50;
        on_timeout(controller, *now);
    }
    controller.target().media
}

#[test]
fn a_growing_delay_lowers_the_rate() {
    // UpdatesDelayBasedEstimate
    let (mut controller, mut now) = (unit(), 123);
    let before = transmit(&mut controller, &mut now, 0);
    let after = transmit(&mut controller, &mut now, 50);
    assert!(after < before, "{before} {after}");
    assert!(before > kbps(60) && after > DataRate::ZERO, "{before} {after}");
}

#[test]
fn the_target_follows_the_link_as_published() {
    // UpdatesTargetRateBasedOnLinkCapacity: 500, 800, then 100 kbit/s with twice the delay.
    let outcome = run(
        kind(),
        Scenario {
            link: |t| [0.5, 0.8, 0.1][usize::from(t >= 25.0) + usize::from(t >= 45.0)],
            delay: |t| if t < 45.0 { 100.0 } else { 200.0 },
            limits: limits(10, 300, 1500),
            seconds: 96,
            ..Scenario::default()
        },
    );
    for (at, expected, within) in [(25.0, 0.45, 0.1), (45.0, 0.75, 0.15), (95.0, 0.09, 0.025)] {
        near(outcome.target(at), expected, within);
    }
}

#[test]
fn the_target_oscillates_as_published() {
    // StableEstimateDoesNotVaryInSteadyState: drops by at least 15 %.
    let scenario = Scenario { link: |_| 0.5, delay: |_| 100.0, ..Scenario::default() };
    let (min, max) = run(kind(), scenario).targets(30.0, 50.0);
    assert!(min / max < 0.85 && min > 0.3 && max < 0.6, "{min} {max}");
}

#[test]
fn ten_percent_loss_is_tolerated_as_published() {
    // LossBasedControlDoesModestBackoffToHighLoss: above 100 kbit/s after 120 s of 10 % on 2 Mbit/s.
    let scenario = Scenario {
        link: |_| 2.0,
        delay: |_| 200.0,
        loss: 0.1,
        limits: limits(10, 300, 1500),
        seconds: 121,
        ..Scenario::default()
    };
    within(run(kind(), scenario).target(120.0), 0.1..=1.5);
}

// Closed loops on 3 Mbit/s, RTT 50 ms, a queue of 300 ms.

#[test]
fn it_fills_a_link_within_5_s_with_little_queueing() {
    let outcome = run(kind(), Scenario::default());
    within(outcome.reaches(0.0, 2.7).unwrap(), ..=4.0);
    within(outcome.mbps(10.0, 60.0), 2.7..=3.0);
    within(outcome.queue_delay_p95(0.0, 60.0), ..100.0);
    within(outcome.targets(0.0, 60.0).1, ..3.6);
    assert_eq!(outcome.dropped, 0);
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Probe { .. })));
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Delay { signal: Signal::OverUse, .. })));
}

#[test]
fn bursts_of_40_ms_delay_the_detector() {
    // The reason why [`Algorithm::pacer`] does not use bursts.
    let outcome = run_paced(kind(), PacerConfig::libwebrtc(), Scenario::default());
    within(outcome.queue_delay_p95(0.0, 60.0), 120.0..);
}

#[test]
fn a_start_at_four_times_the_link_loses_little_without_bursts() {
    let scenario = Scenario { limits: limits(30, 12_000, 15_000), ..Scenario::default() };
    let outcome = run(kind(), scenario);
    within(outcome.dropped_share_between(0.0, 30.0), ..0.01);
    within(outcome.mbps(5.0, 30.0), 2.4..=3.0);
    within(outcome.queue_delay_p95(5.0, 30.0), ..120.0);
    within(outcome.queue_delay_p95(30.0, 60.0), ..120.0);
    // Bursts of 40 ms hold a full queue.
    let plain = run("gcc:libwebrtc".parse().unwrap(), scenario);
    within(plain.queue_delay_p95(30.0, 60.0), 270.0..=301.0);
    within(plain.dropped_share(), 0.02..);
}

#[test]
fn a_fivefold_link_rate_is_reached_in_25_s() {
    let link = |t| if t < 30.0 { 0.6 } else { 3.0 };
    let outcome = run(kind(), Scenario { link, seconds: 70, ..Scenario::default() });
    // With growth of 8 % per second alone, from 0.6 to 2.7 Mbit/s takes 19.5 s.
    within(outcome.reaches(30.0, 2.7).unwrap(), 49.1..=55.0);
}

#[test]
fn a_fall_to_a_fifth_of_the_link_is_followed() {
    let link = |t| if t < 30.0 { 3.0 } else { 0.6 };
    let outcome = run(kind(), Scenario { link, ..Scenario::default() });
    let (min, max) = outcome.targets(35.0, 60.0);
    assert!(min > 0.3 && max < 0.75, "{min} {max}");
    within(outcome.dropped_share(), ..0.03);
    within(outcome.mbps(35.0, 60.0), 0.48..);
}

#[test]
fn random_loss_reduces_the_rate_as_expected() {
    for seed in 1..=6 {
        let _case = Case(seed);
        let scenario = |loss| Scenario { loss, seed, seconds: 120, ..Scenario::default() };
        within(run(kind(), scenario(0.05)).mbps(10.0, 120.0), 2.4..2.86);
        let many = run(kind(), scenario(0.2));
        // 200 kbit/s over (0.2 - 0.05), of which 0.8 arrive, is 1.07 Mbit/s.
        within(many.mbps(0.0, 120.0), 0.3..1.07);
        within(many.mbps(60.0, 120.0), 0.3..1.07);
        assert!(many.has_cause(|cause| matches!(cause, Cause::Loss { .. })));
    }
}

#[test]
fn libwebrtcs_loss_model_fails_at_20_percent_loss() {
    // The reason why `+giusto` changes two of the constants.
    let scenario = Scenario { loss: 0.2, ..Scenario::default() };
    let controller = Libwebrtc::new(Config::within(scenario.limits)).unwrap();
    within(run_with(Box::new(controller), kind(), scenario).mbps(40.0, 60.0), ..0.05);
}

#[test]
fn missing_feedback_reduces_the_rate_stepwise() {
    let link = |t| if (20.0..30.0).contains(&t) { 0.0 } else { 3.0 };
    let outcome = run(kind(), Scenario { link, ..Scenario::default() });
    let before = outcome.target(20.0);
    assert!((outcome.target(22.9) - before).abs() < 0.05 * before);
    // From 23 s on one step per second: seven or eight by 30 s.
    within(outcome.target(30.0) / before, 0.8_f64.powi(9)..0.8_f64.powi(6));
    assert!(outcome.has_cause(|cause| *cause == Cause::Silence));
    assert!(!outcome.has_cause(|cause| *cause == Cause::Rtt));
    within(outcome.mbps(40.0, 60.0), 2.4..);
    assert!(outcome.timeouts < 60, "{}", outcome.timeouts);
}

#[test]
fn the_target_is_bounded_when_application_limited() {
    let outcome = run(kind(), Scenario { media: DataRate::from_bps(400_000), ..Scenario::default() });
    // The initial probes measure the link; otherwise the target may not exceed 1.5 times the sent rate.
    within(outcome.targets(1.0, 60.0).1, ..3.6);
    within(outcome.targets(30.0, 60.0).0, 0.4..);
}

#[test]
fn probes_while_limited_are_off_and_can_be_switched_on() {
    let scenario = Scenario { media: DataRate::from_bps(100_000), ..Scenario::default() };
    for name in ["gcc:libwebrtc", "gcc:libwebrtc+giusto"] {
        let kind: Algorithm = name.parse().unwrap();
        let off = run(kind, scenario);
        let options = Options { probe_while_limited: true, ..Options::default() };
        let on = run_with(kind.build_with(scenario.limits, options), kind, scenario);
        assert!(off.probes <= 4, "{name}: {}", off.probes);
        assert!((10..=20).contains(&on.probes), "{name}: one each 5 s: {}", on.probes);
    }
}

#[test]
fn reports_alone_drive_the_threshold_rule() {
    let scenario = Scenario { reports_only: true, ..Scenario::default() };
    let outcome = run(kind(), scenario);
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Loss { .. } | Cause::ReceiverEstimate)));
    within(outcome.mbps(40.0, 60.0), 2.0..=3.0);
}

#[test]
fn a_suppressed_probe_is_reported() {
    let mut config = Config::giusto(limits(30, 300, 5000));
    config.probing.probe_while_limited = true;
    let mut controller = Libwebrtc::new(config).unwrap();
    on_timeout(&mut controller, 0);
    // Almost nothing is sent, for long enough to count as application-limited. The delay of the last packets
    // keeps growing.
    let suppressed = (0..400_u64).filter(|i| {
        let now = i * 50 + 100 * i.saturating_sub(100);
        pass(&mut controller, (i * 50, i * 50 + 20 * i.saturating_sub(60), now), 100);
        on_timeout(&mut controller, now);
        let decision = controller.decision();
        assert!(decision.cause != Cause::ProbeSuppressed || decision.from == decision.to);
        decision.cause == Cause::ProbeSuppressed
    });
    assert_ne!(suppressed.count(), 0);
}

#[test]
fn padding_is_requested_only_while_the_rate_rises_after_loss() {
    let scenario = Scenario { loss: 0.1, ..Scenario::default() };
    within(run(kind(), scenario).padding_seconds, 0.5..50.0);
    within(run(kind(), Scenario::default()).padding_seconds, ..5.0);
}

#[test]
fn the_first_deadlines_are_the_start_and_the_probe_timeout() {
    let mut controller = Libwebrtc::new(Config::giusto(limits(30, 300, 5000))).unwrap();
    assert_eq!(controller.next_timeout(), Some(Timestamp::ZERO));
    on_timeout(&mut controller, 100);
    let due = controller.next_timeout().unwrap();
    assert!(due > at(1100) && due <= at(1101), "{due}");
    controller.on_timeout(due, &QueueState::default());
    assert_eq!(controller.next_timeout(), None);
    assert_eq!(controller.target().media, kbps(300));
}

#[test]
fn a_new_route_restarts_and_keeps_the_pacing_factor() {
    let (mut controller, mut now) = (unit(), 123);
    transmit(&mut controller, &mut now, 0);
    assert_eq!(controller.target().pacing, scaled(controller.target().media, 1.1));
    probes(&mut controller);
    controller.on_route_change(at(now));
    let Target { media, pacing, padding, .. } = controller.target();
    assert_eq!((media, pacing, padding), (kbps(60), kbps(66), DataRate::ZERO));
    assert_eq!((controller.acknowledged(), controller.loss.is_ready()), (None, false));
    assert_eq!(probes(&mut controller), [kbps(180), kbps(300)]);
    // The new path carries more than the start rate.
    assert!(transmit(&mut controller, &mut now, 0) > kbps(60));
    assert!(controller.loss.is_ready());
}

#[test]
fn a_new_route_starts_at_the_start_rate_even_if_less_arrived_before() {
    // Without the field trial WebRTC-Bwe-SafeResetOnRouteChange, `OnNetworkRouteChange` takes the start rate as it is.
    let mut controller = Libwebrtc::new(Config::within(limits(0, 500, 3000))).unwrap();
    let mut now = 123;
    transmit(&mut controller, &mut now, 0);
    let acknowledged = controller.acknowledged().unwrap();
    assert!((kbps(100)..kbps(200)).contains(&acknowledged), "{acknowledged}");
    controller.on_route_change(at(now));
    assert_eq!(controller.target().media, kbps(500));
}

#[test]
fn a_new_route_with_new_limits_is_probed_as_published() {
    // ProbeOnRouteChange: twice the start rate, 20 times as maximum.
    let mut controller = unit();
    on_timeout(&mut controller, 123);
    probes(&mut controller);
    controller.set_limits(at(3123), limits(0, 120, 1200));
    controller.on_route_change(at(3123));
    assert_eq!(controller.target().media, kbps(120));
    assert_eq!(probes(&mut controller), [kbps(360), kbps(720)]);
}

#[test]
fn new_limits_apply_at_once_and_a_higher_maximum_is_probed() {
    let (mut controller, mut now) = (unit(), 123);
    let reached = transmit(&mut controller, &mut now, 0);
    assert!(reached > kbps(100) && reached <= kbps(300), "{reached}");
    probes(&mut controller);
    controller.set_limits(at(now), limits(0, 60, 80));
    assert_eq!((controller.target().media, controller.next_probe()), (kbps(80), None));
    // First the minimum is above the target and the maximum. Then the estimates, which were higher all the time, apply again.
    for (limits, target, probe) in
        [(limits(90, 90, 80), kbps(90), kbps(90)), (limits(0, 60, 150), kbps(150), kbps(150))]
    {
        controller.set_limits(at(now), limits);
        assert_eq!((controller.target().media, probes(&mut controller)), (target, vec![probe]));
    }
}

#[test]
fn frames_are_dropped_by_default_while_the_path_stalls() {
    for name in ["gcc:libwebrtc", "gcc:libwebrtc+giusto"] {
        let mut controller = name.parse::<Algorithm>().unwrap().build(limits(30, 300, 2000));
        let size = DataSize::from_bytes(1000);
        let mut send = |time, flight: u64| {
            let sent = SentPacket { in_flight: size * flight, ..SentPacket::new(time, at(time), size) };
            controller.on_sent(at(time), &sent);
            let interval = controller.frame_drop_interval();
            if flight == 1 {
                let packets = [PacketReport::new(sent, Some(peer_at(time + 50)))];
                controller.on_feedback(at(time + 50), &Feedback::new(&packets, size));
            }
            (interval, controller.target().media)
        };
        assert_eq!(send(0, 1).0, None, "{name}");
        let (_, target) = send(100, 1);
        // 300 kbit/s over 50 + 350 ms are 15 000 bytes; the stall lasts for 30 more packets.
        let stalled: Vec<_> = (0..30).map(|n| send(200 + 10 * n, n + 2)).collect();
        assert_eq!(stalled[10].0, None, "{name}: {stalled:?}");
        assert_eq!(stalled[29], (Some(2), target), "{name}: {stalled:?}");
    }
}
