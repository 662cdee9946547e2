//! Behaviour of `scream:d00`.

use giusto_units::{DataSize, Ecn};

use super::*;
use crate::{
    algorithm::Algorithm,
    closed_loop::{Scenario, run, run_with, windows_around_a_silent_second},
    target::Signal,
};

fn kind() -> Algorithm {
    "scream:d00+giusto".parse().unwrap()
}

/// From 150 kbit/s to at most `max`, with one feedback message per frame (§10).
fn scenario(link: fn(f64) -> f64, max: u64) -> Scenario {
    let [min, start, max] = [150_000, 150_000, max].map(DataRate::from_bps);
    Scenario {
        link,
        limits: Limits { min, start, max },
        feedback: TimeDelta::from_nanos(33_333_333),
        ..Scenario::default()
    }
}

/// Time at which the media rate first reaches 90 % of 3 Mbit/s, in seconds.
fn ramp(link: fn(f64) -> f64) -> f64 {
    let outcome = run(kind(), scenario(link, 3_000_000));
    outcome.targets.iter().position(|&target| target >= 2_700_000).unwrap() as f64 / 10.0
}

#[test]
fn it_ramps_up_within_3_to_5_s() {
    // §3.1, "within 3 to 5 seconds".
    for link in [(|_| 3.0) as fn(f64) -> f64, |_| 10.0] {
        let reached = ramp(link);
        assert!((3.0..=5.0).contains(&reached), "{reached}");
    }
}

#[test]
fn the_media_maximum_is_reached_with_little_queueing() {
    for (link, max, max_wait) in [
        ((|_| 3.0) as fn(f64) -> f64, 3_000_000, 40.0),
        (|_| 10.0, 3_000_000, 5.0),
        (|_| 10.0, 10_000_000, 40.0),
    ] {
        let outcome = run(kind(), scenario(link, max));
        let share = outcome.mbps(10.0, 60.0) * 1e6 / max as f64;
        assert!((0.97..=1.01).contains(&share), "{share}");
        assert!(outcome.queue_delay_p95(10.0, 60.0) < max_wait, "{}", outcome.queue_delay_p95(10.0, 60.0));
        // At most half of a frame is queued before the rate falls (§9.1.6).
        assert!(outcome.sender_delay_p95(10.0, 60.0) < 16.7, "{}", outcome.sender_delay_p95(10.0, 60.0));
        assert_eq!(outcome.dropped, 0);
    }
}

#[test]
fn a_slower_link_is_filled_with_about_the_target_delay() {
    // It ramps to 10 Mbit/s in 4 s, detects queued packets, and falls: a sawtooth.
    let outcome = run(kind(), scenario(|_| 3.0, 10_000_000));
    assert!((2.0..=3.0).contains(&outcome.mbps(10.0, 60.0)), "{}", outcome.mbps(10.0, 60.0));
    // OWD_TARGET is 80 ms; two reports and two packets are added.
    let wait = outcome.queue_delay_p95(10.0, 60.0);
    assert!((60.0..=80.0 + 66.7).contains(&wait), "{wait}");
    assert_eq!(outcome.dropped, 0);
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::SenderQueue { .. })));
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Delay { signal: Signal::Normal, .. })));
}

#[test]
fn random_loss_counts_as_one_event_per_rtt() {
    let outcome = run(kind(), Scenario { loss: 0.05, ..scenario(|_| 3.0, 3_000_000) });
    let rate = outcome.mbps(20.0, 60.0);
    assert!((0.3..=1.5).contains(&rate), "{rate}");
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Loss { .. })));
}

#[test]
fn after_a_capacity_drop_only_the_variant_follows_within_1_s() {
    // As calculated for RFC 8298, one packet per RTT would take 8 s. RTTs above 0.2 s count twice here
    // (§9.1.4, `rttFactor`), which gives 4 s.
    for (follow, from, to) in [(true, 30.0, 31.0), (false, 30.5, 34.0)] {
        let scenario = scenario(|t| if t < 30.0 { 3.0 } else { 1.5 }, 3_000_000);
        let controller = ScreamD00::new(Config { follow, ..Config::giusto(scenario.limits) });
        let outcome = run_with(Box::new(controller), kind(), scenario);
        // Without the packets that are already in the queue when the link rate falls.
        let tenths = (1..200).map(|tenth| 30.0 + f64::from(tenth) / 10.0);
        let calm = tenths.into_iter().find(|&t| outcome.queue_delay_p95(t, t + 0.5) < 100.0);
        assert!(calm.is_some_and(|t| (from..to).contains(&t)), "{follow}: {calm:?}");
        assert!((0.9..=1.5).contains(&outcome.mbps(45.0, 60.0)), "{}", outcome.mbps(45.0, 60.0));
    }
}

#[test]
fn with_marks_the_queue_is_short_1_s_after_a_capacity_drop() {
    let (ecn, mark_above) = (Ecn::Ect0, 5.0);
    let link = |t| if t < 30.0 { 3.0 } else { 1.5 };
    let outcome = run(kind(), Scenario { ecn, mark_above, ..scenario(link, 10_000_000) });
    assert!(outcome.queue_delay_p95(31.0, 32.0) < 100.0, "{}", outcome.queue_delay_p95(31.0, 32.0));
    assert!((0.6..=1.5).contains(&outcome.mbps(40.0, 60.0)), "{}", outcome.mbps(40.0, 60.0));
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Marks { .. })));
}

#[test]
fn without_feedback_it_sends_about_50_kbps_and_recovers() {
    let outcome = run(
        kind(),
        Scenario { is_feedback_lost: |t| (20.0..30.0).contains(&t), ..scenario(|_| 3.0, 3_000_000) },
    );
    let quiet = outcome.mbps(23.0, 30.0);
    assert!((0.045..=0.085).contains(&quiet), "{quiet}");
    assert_eq!(outcome.target(25.0), 0.15);
    let back = outcome.reaches(30.0, 2.5).unwrap();
    assert!((32.0..=40.0).contains(&back), "{back}");
}

/// With a used window of 24 000 bytes at 1 Mbit/s and an RTT of 100 ms. Returns the number of packets sent.
fn opened(config: fn(Limits) -> Config) -> (ScreamD00, u64) {
    let [min, start, max] = [150_000, 1_000_000, 3_000_000].map(DataRate::from_bps);
    let mut controller = ScreamD00::new(config(Limits { min, start, max }));
    let size = DataSize::from_bytes(1200);
    let mut sent = 0;
    while controller.congestion_window() < DataSize::from_bytes(24_000) {
        let at = Timestamp::ZERO + TimeDelta::from_millis(100 * sent as i64);
        let packets: Vec<_> = (0..20)
            .map(|place| {
                let in_flight = size * (place + 1);
                let sent = SentPacket { sequence: sent * 20 + place, at, size, probe: None, in_flight };
                controller.on_sent(at, &sent);
                let arrival = Some(giusto_units::PeerTimestamp::from_nanos(at.as_nanos() + 50_000_000));
                crate::PacketReport { sent, arrival, ecn: Ecn::NotEct }
            })
            .collect();
        sent += 1;
        let feedback_at = at + TimeDelta::from_millis(100);
        controller.on_feedback(feedback_at, &Feedback { packets: &packets, ..Feedback::default() });
    }
    (controller, sent)
}

#[test]
fn source_quench_counts_as_one_loss_per_rtt() {
    let (mut controller, sent) = opened(Config::giusto);
    let (window, rate) = (controller.congestion_window().as_bytes() as f64, controller.target().media);
    let begin = Timestamp::ZERO + TimeDelta::from_millis(100 * sent as i64 + 200);
    let quench = Feedback::default().with_extension(Some(Extension::SourceQuench));
    for (millis, cuts) in [(0, 1), (50, 1), (99, 1), (101, 2), (150, 2), (202, 3)] {
        controller.on_feedback(begin + TimeDelta::from_millis(millis), &quench);
        let left = window * 0.8_f64.powi(cuts);
        assert!((controller.congestion_window().as_bytes() as f64 - left).abs() <= 1.0, "{millis}");
        let media = rate.as_bps() as f64 * 0.9_f64.powi(cuts);
        assert!((controller.target().media.as_bps() as f64 - media).abs() <= 1.0, "{millis}");
    }
    assert_eq!(controller.decision().cause, Cause::SourceQuench);
}

/// Media rate after a loss event, as a share of the rate before it. The window falls too.
fn kept_at_a_loss(config: fn(Limits) -> Config) -> f64 {
    let (mut controller, sent) = opened(config);
    let rate = controller.target().media;
    let at = Timestamp::ZERO + TimeDelta::from_millis(100 * sent as i64);
    let size = DataSize::from_bytes(1200);
    let packets: Vec<_> = (0..20)
        .map(|place| {
            let in_flight = size * (place + 1);
            let sent = SentPacket { sequence: sent * 20 + place, at, size, probe: None, in_flight };
            controller.on_sent(at, &sent);
            let arrived = giusto_units::PeerTimestamp::from_nanos(at.as_nanos() + 50_000_000);
            crate::PacketReport { sent, arrival: (place > 0).then_some(arrived), ecn: Ecn::NotEct }
        })
        .collect();
    let feedback = Feedback { packets: &packets, ..Feedback::default() };
    controller.on_feedback(at + TimeDelta::from_millis(100), &feedback);
    let window = controller.congestion_window().as_bytes() as f64;
    // The packet may be late rather than lost for a quarter of an RTT.
    controller.on_timeout(at + TimeDelta::from_millis(150), &QueueState::default());
    // 0.8 of the window, or of what was used of it.
    assert!(controller.congestion_window().as_bytes() as f64 <= 0.8 * window);
    controller.target().media.as_bps() as f64 / rate.as_bps() as f64
}

#[test]
fn a_loss_lowers_the_media_rate_only_in_the_variant() {
    // The draft's only reduction of the media rate follows the age of queued packets (§9.1.6).
    assert_eq!(kept_at_a_loss(Config::within), 1.0);
    assert_eq!(kept_at_a_loss(Config::giusto), 0.9);
}

#[test]
fn competing_flows_raise_the_delay_target_unless_disabled() {
    // With evidence, the delay is less than 1.1 times the target at the end.
    for (compensate, evidence, min, max) in
        [(true, None, 200.0, 250.0), (true, Some(1.1), 200.0 / 1.1, 200.0), (false, None, 80.0, 80.0)]
    {
        let mut controller =
            ScreamD00::new(Config { compensate, evidence, ..Config::giusto(Limits::default()) });
        let size = DataSize::from_bytes(1200);
        for number in 0..400_u64 {
            let at = Timestamp::ZERO + TimeDelta::from_millis(30 * number as i64);
            let sent = SentPacket { sequence: number, at, size, probe: None, in_flight: size };
            controller.on_sent(at, &sent);
            // 200 ms in the queue, except for the first packet.
            let queued = if number == 0 { 20_000_000 } else { 220_000_000 };
            let arrival = Some(giusto_units::PeerTimestamp::from_nanos(at.as_nanos() + queued));
            let packets = [crate::PacketReport { sent, arrival, ecn: Ecn::NotEct }];
            let feedback_at = at + TimeDelta::from_millis(250);
            controller.on_feedback(feedback_at, &Feedback { packets: &packets, ..Feedback::default() });
        }
        let target = controller.queue_delay_target().as_millis();
        assert!((min..=max).contains(&target), "{target}");
    }
}

#[test]
fn a_second_without_feedback_halves_the_rate() {
    let [min, start, max] = [150_000, 1_000_000, 3_000_000].map(DataRate::from_bps);
    let mut controller = ScreamD00::new(Config::giusto(Limits { min, start, max }));
    let [_, window] = windows_around_a_silent_second(&mut controller);
    // Three packets, besides the one that was written off.
    assert_eq!(window, Some(DataSize::from_bytes(1200 * 4)));
}
