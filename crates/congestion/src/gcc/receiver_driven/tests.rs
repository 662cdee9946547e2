//! Behaviour of the sender of `gcc:remb`.

use super::*;
use crate::testing::prelude::*;

/// Feedback with this estimate and `lost` of 100 packets lost.
fn feedback(estimate: u64, lost: u64) -> Feedback<'static> {
    Feedback {
        receiver_estimate: Some(kbps(estimate)),
        loss: Some(LossReport { ratio: lost as f64 / 100.0, expected_packets: 100 }),
        ..Feedback::default()
    }
}

#[test]
fn the_minimum_of_estimate_and_loss_based_rate_applies() {
    let config = Config { reports: ReportConfig::draft(), ..Config::default() };
    let mut controller = ReceiverDriven::new(config);
    assert_eq!(controller.target().media, kbps(300));
    // The draft's rule: 300 · 1.05 = 315 kbit/s, which is below the first estimate but above the next one.
    // Then 330.75 · (1 − 0.5 · 0.5).
    for (second, (estimate, lost), media, cause) in [
        (1, (1000, 0), 315_000, Cause::Loss { ratio: 0.0 }),
        (2, (200, 0), 200_000, Cause::ReceiverEstimate),
        (3, (1000, 50), 248_062, Cause::Loss { ratio: 0.5 }),
        (4, (1, 0), 30_000, Cause::Limit),
    ] {
        controller.on_feedback(at(1000 * second), &feedback(estimate, lost));
        let Target { media: found, pacing, .. } = controller.target();
        assert_eq!((found.as_bps(), controller.decision().cause), (media, cause));
        assert_eq!(pacing.as_bps(), media * 5 / 2);
    }
    // An estimate of zero takes the limit away.
    controller.on_feedback(at(5000), &feedback(0, 0));
    assert!(controller.target().media > kbps(248), "{}", controller.target().media);
}

#[test]
fn after_3_s_without_report_each_second_takes_20_percent() {
    let mut controller = ReceiverDriven::new(Config::default());
    controller.on_feedback(at(0), &feedback(1000, 0));
    // libwebrtc's rule follows the estimate during its first two seconds.
    assert_eq!(controller.target().media, kbps(1000));
    let mut seen = Vec::new();
    for ms in (0..6200).step_by(20) {
        controller.on_sent(at(ms), &sent(ms, ms));
        if controller.next_timeout().is_some_and(|due| due <= at(ms)) {
            controller.on_timeout(at(ms), &QueueState::default());
        }
        if seen.last().is_none_or(|&(_, rate)| rate != controller.target().media.as_bps()) {
            seen.push((ms / 1000, controller.target().media.as_bps()));
        }
    }
    assert_eq!(seen, [(0, 1_000_000), (3, 800_000), (4, 640_000), (5, 512_000), (6, 409_600)]);
    assert_eq!(controller.decision().cause, Cause::Silence);
    controller.on_feedback(at(6300), &feedback(900, 0));
    assert_eq!(controller.target().media, kbps(900));
}

#[test]
fn no_feedback_is_missing_while_nothing_is_sent() {
    let mut controller = ReceiverDriven::new(Config::default());
    controller.on_sent(at(0), &sent(0, 0));
    controller.on_feedback(at(100), &feedback(1000, 0));
    let before = controller.target();
    for ms in (100..60_000).step_by(25) {
        controller.on_timeout(at(ms), &QueueState::default());
    }
    assert_eq!(controller.target(), before);
}

#[test]
fn it_fills_a_link_that_the_receiver_measures() {
    let outcome = run("gcc:remb".parse().unwrap(), Scenario { reports_only: true, ..Scenario::default() });
    within(outcome.mbps(40.0, 60.0), 2.0..=3.0);
}
