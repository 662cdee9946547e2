//! The receiver, packet by packet.

use crate::nada::{DelaySamples, RateMode, RatioSmoothing, ReceivedMedia, Receiver, ReceiverConfig, Report};
use crate::testing::prelude::*;

fn packet(delay: i64, missing: Option<u64>, is_marked: bool) -> ReceivedMedia {
    ReceivedMedia { delay: ms(delay), size: DataSize::from_bytes(1250), missing, is_marked }
}

/// One packet of 1250 bytes each 10 ms, with delay in ms, missing packets and mark by number.
fn after(
    config: ReceiverConfig,
    packets: u64,
    describe: impl Fn(u64) -> (i64, Option<u64>, bool),
) -> (Receiver, Vec<Report>) {
    let (mut receiver, mut reports) = (Receiver::new(config), Vec::new());
    for number in 0..packets {
        let (delay, missing, is_marked) = describe(number);
        receiver.on_packet(at(number * 10), &packet(delay, missing, is_marked));
        reports.extend(receiver.poll_report(at(number * 10)));
    }
    (receiver, reports)
}

#[test]
fn it_reports_every_100_ms_while_packets_arrive() {
    let (mut receiver, reports) = after(ReceiverConfig::default(), 101, |_| (-7, Some(0), false));
    assert_eq!(reports.len(), 10);
    assert_eq!(receiver.next_timeout(), None);
    assert_eq!(receiver.poll_report(at(5000)), None);
    // The window is divided by its length from the start: 11 packets at 100 ms, 50 from 500 ms on.
    let rates: Vec<u64> = reports.iter().map(|report| report.received.as_bps() / 1000).collect();
    assert_eq!(rates[..6], [220, 420, 620, 820, 1000, 1000]);
    assert!(reports.iter().all(|report| report.mode == RateMode::RampUp && report.signal_ms == 0.0));
}

#[test]
fn a_raw_sample_of_10_ms_ends_the_ramp_up_for_half_a_second() {
    let config = ReceiverConfig { ramp_up_samples: DelaySamples::Raw, ..ReceiverConfig::default() };
    for (queue, mode) in [(9, RateMode::RampUp), (10, RateMode::Gradual)] {
        let (_, reports) =
            after(config, 201, |number| (if number == 95 { queue } else { 0 }, Some(0), false));
        let modes: Vec<RateMode> = reports.iter().map(|report| report.mode).collect();
        assert!(modes[..9].iter().all(|&mode| mode == RateMode::RampUp), "{modes:?}");
        assert!(modes[9..14].iter().all(|&found| found == mode), "{modes:?}");
        assert!(modes[14..].iter().all(|&mode| mode == RateMode::RampUp), "{modes:?}");
        // The filter hides the single sample from the signal.
        assert!(reports.iter().all(|report| report.signal_ms == 0.0));
    }
}

#[test]
fn fifteen_samples_of_10_ms_or_a_loss_end_the_ramp_up() {
    // The fifteenth sample arrives at 1090 ms; the report at 1600 ms is the first without it.
    for (samples, losses, gradual) in [(1, 0, 0..0), (14, 0, 0..0), (15, 0, 10..15), (0, 1, 9..14)] {
        let describe = |number: u64| {
            let queue = if (95..95 + samples).contains(&number) { 10 } else { 0 };
            (queue, Some(if number == 95 { losses } else { 0 }), false)
        };
        let (_, reports) = after(ReceiverConfig::default(), 301, describe);
        let found = (0..30).filter(|&place| reports[place].mode == RateMode::Gradual);
        assert!(found.eq(gradual), "{samples} samples, {losses} lost");
    }
}

#[test]
fn the_loss_ratio_is_smoothed_at_each_packet_or_report() {
    // From packet 100 on one in five is missing: one before each fourth that arrives. p_inst is at most 12/62 until the window is full.
    let lossy = |number: u64| (0, Some(u64::from(number >= 100 && number.is_multiple_of(4))), false);
    let by_packet = after(ReceiverConfig::default(), 300, lossy);
    let config = ReceiverConfig { smoothing: RatioSmoothing::Report, ..ReceiverConfig::default() };
    let by_report = after(config, 300, lossy);
    // p_inst in steady state: 12 or 13 of 62 or 63.
    within(by_packet.0.loss_ratio(), 0.19..0.21);
    // 15 reports after the window has filled: 1 − 0.9^15 = 0.79, and somewhat more for the time before.
    within(by_report.0.loss_ratio(), 0.79 * 0.2..0.9 * 0.2);
    // 10 ms × (0.2 / 0.01)² is above the maximum of 15 bits.
    assert_eq!(by_packet.1.last().map(|report| report.signal_ms), Some(3276.7));
}

#[test]
fn the_first_loss_is_smoothed_by_equation_10() {
    // Packet 50 arrives after one lost one: 50 arrived in the window, p_inst = 1/51, p_loss = 0.1 / 51.
    for (packets, share) in [(51, 0.1), (52, 0.19)] {
        let lost = |number| (0, Some(u64::from(number == 50)), false);
        let (receiver, _) = after(ReceiverConfig::default(), packets, lost);
        near(receiver.loss_ratio(), share / 51.0, 1e-12);
    }
}

#[test]
fn marks_raise_the_signal_and_permit_the_ramp_up() {
    // One in fifty: p_mark = 0.02, 2 ms × 4.
    let (receiver, reports) = after(ReceiverConfig::default(), 301, |number| (0, Some(0), number % 50 == 0));
    near(receiver.mark_ratio(), 0.02, 1e-4);
    let last = reports.last().unwrap();
    near(last.signal_ms, 8.0, 0.1);
    // Only losses and delay decide the mode (§4.2).
    assert_eq!(last.mode, RateMode::RampUp);
}

#[test]
fn a_standing_queue_is_the_signal_and_is_warped_after_a_loss() {
    // 100 ms of queue from packet 100 on: 50 e^(−0.5) = 30.3 ms once there was a loss, which has left the window; its ratio has decayed,
    // and 7 × 100 packets have not passed.
    for (losses, signal) in [(0, 100.0), (1, 30.326_533)] {
        let queued = |number| {
            (if number < 100 { 0 } else { 100 }, Some(if number == 100 { losses } else { 0 }), false)
        };
        let (_, reports) = after(ReceiverConfig::default(), 301, queued);
        near(reports.last().unwrap().signal_ms, signal, if losses == 0 { 1e-9 } else { 1e-3 });
    }
}

#[test]
fn a_late_packet_stays_lost() {
    let run = |late| {
        after(ReceiverConfig::default(), 80, |number| match number {
            57 => (0, Some(1), false),
            58 => late,
            _ => (0, Some(0), false),
        })
    };
    // Neither its mark nor its delay counts, although that is below the base delay.
    let (receiver, reports) = run((-100, None, true));
    within(receiver.loss_ratio(), 1e-9..);
    near(receiver.mark_ratio(), 0.0, 1e-9);
    assert_eq!(reports, run((0, None, false)).1);
}

#[test]
fn a_clock_that_jumps_back_restarts_the_measurement() {
    let mut receiver = Receiver::new(ReceiverConfig::default());
    receiver.on_packet(Timestamp::MAX, &packet(0, Some(0), false));
    for number in 0..50 {
        receiver.on_packet(at(number * 10), &packet(90, Some(0), false));
    }
    let report = receiver.poll_report(at(499)).unwrap();
    assert_eq!((report.received.as_bps(), report.signal_ms), (1_000_000, 0.0));
}
