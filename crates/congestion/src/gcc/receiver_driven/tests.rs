//! Behaviour of the sender of `gcc:remb`.

use giusto_units::DataSize;

use super::*;
use crate::{
    closed_loop::{Scenario, run},
    feedback::LossReport,
    testing::{at, kbps},
};

/// Feedback with this estimate and `lost` of 100 packets lost.
fn feedback(estimate: u64, lost: u64) -> Feedback<'static> {
    Feedback {
        receiver_estimate: Some(kbps(estimate)),
        loss: Some(LossReport { ratio: lost as f64 / 100.0, expected_packets: 100 }),
        ..Feedback::default()
    }
}

fn send(controller: &mut ReceiverDriven, ms: u64) {
    let size = DataSize::from_bytes(1200);
    controller.on_sent(at(ms), &SentPacket { sequence: ms, at: at(ms), size, probe: None, in_flight: size });
}

#[test]
fn the_minimum_of_estimate_and_loss_based_rate_applies() {
    let config = Config { reports: ReportConfig::draft(), ..Config::default() };
    let mut controller = ReceiverDriven::new(config);
    assert_eq!(controller.target().media, kbps(300));
    // The draft's rule: 300 · 1.05 = 315 kbit/s, which is below the first estimate but above the next one.
    controller.on_feedback(at(1000), &feedback(1000, 0));
    assert_eq!(
        (controller.target().media, controller.target().pacing),
        (kbps(315), DataRate::from_bps(787_500))
    );
    assert_eq!(controller.decision().cause, Cause::Loss { ratio: 0.0 });
    controller.on_feedback(at(2000), &feedback(200, 0));
    assert_eq!(controller.target().media, kbps(200));
    assert_eq!(controller.decision().cause, Cause::ReceiverEstimate);
    // 330.75 · (1 − 0.5 · 0.5)
    controller.on_feedback(at(3000), &feedback(1000, 50));
    assert_eq!(controller.target().media, DataRate::from_bps(248_062));
    assert_eq!(controller.decision().cause, Cause::Loss { ratio: 0.5 });
    controller.on_feedback(at(4000), &feedback(1, 0));
    assert_eq!(controller.target().media, kbps(30));
    assert_eq!(controller.decision().cause, Cause::Limit);
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
        send(&mut controller, ms);
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
    send(&mut controller, 0);
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
    assert!((2.0..=3.0).contains(&outcome.mbps(40.0, 60.0)), "{}", outcome.mbps(40.0, 60.0));
}
