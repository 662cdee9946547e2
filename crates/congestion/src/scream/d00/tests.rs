//! Behaviour of `scream:d00`.

use super::*;
use crate::testing::prelude::*;

fn kind() -> Algorithm {
    "scream:d00+giusto".parse().unwrap()
}

/// From 150 kbit/s to at most `max` kbit/s, with one feedback message per frame (§10).
fn scenario(link: fn(f64) -> f64, max: u64) -> Scenario {
    let feedback = TimeDelta::from_nanos(33_333_333);
    Scenario { link, limits: limits(150, 150, max), feedback, ..Scenario::default() }
}

#[test]
fn it_ramps_up_within_3_to_5_s() {
    // §3.1, "within 3 to 5 seconds".
    for link in [(|_| 3.0) as fn(f64) -> f64, |_| 10.0] {
        let _case = Case(link(0.0));
        let outcome = run(kind(), scenario(link, 3000));
        let reached = outcome.targets.iter().position(|&target| target >= 2_700_000).unwrap();
        within(reached as f64 / 10.0, 3.0..=5.0);
    }
}

#[test]
fn the_media_maximum_is_reached_with_little_queueing() {
    for (link, max, max_wait) in
        [((|_| 3.0) as fn(f64) -> f64, 3000, 40.0), (|_| 10.0, 3000, 5.0), (|_| 10.0, 10_000, 40.0)]
    {
        let _case = Case((link(0.0), max));
        let outcome = run(kind(), scenario(link, max));
        within(outcome.mbps(10.0, 60.0) * 1e3 / max as f64, 0.97..=1.01);
        within(outcome.queue_delay_p95(10.0, 60.0), ..max_wait);
        // At most half of a frame is queued before the rate falls (§9.1.6).
        within(outcome.sender_delay_p95(10.0, 60.0), ..16.7);
        assert_eq!(outcome.dropped, 0);
    }
}

#[test]
fn a_slower_link_is_filled_with_about_the_target_delay() {
    // It ramps to 10 Mbit/s in 4 s, detects queued packets, and falls: a sawtooth.
    let outcome = run(kind(), scenario(|_| 3.0, 10_000));
    within(outcome.mbps(10.0, 60.0), 2.0..=3.0);
    // OWD_TARGET is 80 ms; two reports and two packets are added.
    within(outcome.queue_delay_p95(10.0, 60.0), 60.0..=80.0 + 66.7);
    assert_eq!(outcome.dropped, 0);
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::SenderQueue { .. })));
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Delay { signal: Signal::Normal, .. })));
}

#[test]
fn random_loss_counts_as_one_event_per_rtt() {
    let outcome = run(kind(), Scenario { loss: 0.05, ..scenario(|_| 3.0, 3000) });
    within(outcome.mbps(20.0, 60.0), 0.3..=1.5);
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Loss { .. })));
}

#[test]
fn after_a_capacity_drop_only_the_variant_follows_within_1_s() {
    // As calculated for RFC 8298, one packet per RTT would take 8 s. RTTs above 0.2 s count twice here
    // (§9.1.4, `rttFactor`), which gives 4 s.
    for (follow, from, to) in [(true, 30.0, 31.0), (false, 30.5, 34.0)] {
        let scenario = scenario(|t| if t < 30.0 { 3.0 } else { 1.5 }, 3000);
        let controller = ScreamD00::new(Config { follow, ..Config::giusto(scenario.limits) });
        let outcome = run_with(Box::new(controller), kind(), scenario);
        // Without the packets that are already in the queue when the link rate falls.
        let tenths = (1..200).map(|tenth| 30.0 + f64::from(tenth) / 10.0);
        let calm = tenths.into_iter().find(|&t| outcome.queue_delay_p95(t, t + 0.5) < 100.0);
        assert!(calm.is_some_and(|t| (from..to).contains(&t)), "{follow}: {calm:?}");
        within(outcome.mbps(45.0, 60.0), 0.9..=1.5);
    }
}

#[test]
fn with_marks_the_queue_is_short_1_s_after_a_capacity_drop() {
    let (ecn, mark_above) = (Ecn::Ect0, 5.0);
    let link = |t| if t < 30.0 { 3.0 } else { 1.5 };
    let outcome = run(kind(), Scenario { ecn, mark_above, ..scenario(link, 10_000) });
    within(outcome.queue_delay_p95(31.0, 32.0), ..100.0);
    within(outcome.mbps(40.0, 60.0), 0.6..=1.5);
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Marks { .. })));
}

#[test]
fn without_feedback_it_sends_about_50_kbps_and_recovers() {
    let outcome =
        run(kind(), Scenario { is_feedback_lost: |t| (20.0..30.0).contains(&t), ..scenario(|_| 3.0, 3000) });
    within(outcome.mbps(23.0, 30.0), 0.045..=0.085);
    assert_eq!(outcome.target(25.0), 0.15);
    within(outcome.reaches(30.0, 2.5).unwrap(), 32.0..=40.0);
}

/// Sends 20 packets in round `number` of 100 ms, and reports them at its end: all or all but the first.
fn round(controller: &mut ScreamD00, number: u64, is_first_lost: bool) {
    let packets: Vec<_> = (0..20)
        .map(|place| {
            let in_flight = DataSize::from_bytes(1200) * (place + 1);
            let sent = sent(number * 20 + place, 100 * number).with_in_flight(in_flight);
            controller.on_sent(sent.at, &sent);
            let is_lost = is_first_lost && place == 0;
            PacketReport::new(sent, (!is_lost).then_some(peer_at(100 * number + 50)))
        })
        .collect();
    feed(controller, at(100 * number + 100), &packets);
}

/// With a used window of 24 000 bytes at 1 Mbit/s and an RTT of 100 ms. Returns the number of rounds.
fn opened(config: fn(Limits) -> Config) -> (ScreamD00, u64) {
    let mut controller = ScreamD00::new(config(limits(150, 1000, 3000)));
    let mut rounds = 0;
    while controller.congestion_window() < DataSize::from_bytes(24_000) {
        round(&mut controller, rounds, false);
        rounds += 1;
    }
    (controller, rounds)
}

#[test]
fn source_quench_counts_as_one_loss_per_rtt() {
    let (mut controller, rounds) = opened(Config::giusto);
    let (window, rate) = (controller.congestion_window().as_bytes() as f64, controller.target().media);
    let quench = Feedback::default().with_extension(Some(Extension::SourceQuench));
    for (millis, cuts) in [(0, 1), (50, 1), (99, 1), (101, 2), (150, 2), (202, 3)] {
        let _case = Case(millis);
        controller.on_feedback(at(100 * rounds + 200 + millis), &quench);
        near(controller.congestion_window().as_bytes() as f64, window * 0.8_f64.powi(cuts), 1.0);
        near(controller.target().media.as_bps() as f64, rate.as_bps() as f64 * 0.9_f64.powi(cuts), 1.0);
    }
    assert_eq!(controller.decision().cause, Cause::SourceQuench);
}

/// Media rate after a loss event, as a share of the rate before it. The window falls too.
fn kept_at_a_loss(config: fn(Limits) -> Config) -> f64 {
    let (mut controller, rounds) = opened(config);
    let rate = controller.target().media;
    round(&mut controller, rounds, true);
    let window = controller.congestion_window().as_bytes() as f64;
    // The packet may be late rather than lost for a quarter of an RTT.
    controller.on_timeout(at(100 * rounds + 150), &QueueState::default());
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
    for (compensate, evidence, range) in
        [(true, None, 200.0..=250.0), (true, Some(1.1), 200.0 / 1.1..=200.0), (false, None, 80.0..=80.0)]
    {
        let mut controller =
            ScreamD00::new(Config { compensate, evidence, ..Config::giusto(Limits::default()) });
        for number in 0..400_u64 {
            controller.on_sent(at(30 * number), &sent(number, 30 * number));
            // 200 ms in the queue, except for the first packet.
            let queued = if number == 0 { 20 } else { 220 };
            let packets = [report(number, 30 * number, Some(30 * number + queued))];
            feed(&mut controller, at(30 * number + 250), &packets);
        }
        within(controller.queue_delay_target().as_millis(), range);
    }
}

#[test]
fn a_second_without_feedback_halves_the_rate() {
    let mut controller = ScreamD00::new(Config::giusto(limits(150, 1000, 3000)));
    let [_, window] = windows_around_a_silent_second(&mut controller);
    // Three packets, besides the one that was written off.
    assert_eq!(window, Some(DataSize::from_bytes(1200 * 4)));
}
