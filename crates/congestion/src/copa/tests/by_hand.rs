//! The laws of the paper with numbers computed by hand, and the controller report by report.

use crate::copa::window::{change, max_velocity, target_rate};
use crate::copa::{Config, Copa};
use crate::testing::prelude::*;

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    near(found, expected, 1e-6 * expected.abs().max(1.0));
}

#[test]
fn the_target_rate_is_one_packet_per_delta_times_the_queueing_delay() {
    // Equation 1: 1/(0.5 × 20 ms) = 100 packets of 1200 bytes per second.
    assert_near(target_rate(1200.0, 0.5, ms(20)), 120e3);
    assert_near(target_rate(1200.0, 0.5, ms(40)), 60e3);
    assert_near(target_rate(1200.0, 0.1, ms(20)), 600e3);
    assert!(target_rate(1200.0, 0.5, ms(0)).is_infinite());
}

#[test]
fn a_window_of_acknowledgements_changes_the_window_by_v_over_delta_packets() {
    // Step 3: 20 packets, each changes the window by 1/(0.5 × 20) packets.
    assert_near(change(24_000.0, 1200.0, 1200.0, 1.0, 0.5), 120.0);
    assert_near(change(24_000.0, 24_000.0, 1200.0, 1.0, 0.5), 2.0 * 1200.0);
    assert_near(change(24_000.0, 24_000.0, 1200.0, 4.0, 0.5), 8.0 * 1200.0);
    // At the highest velocity by itself.
    let max = max_velocity(24_000.0, 1200.0, 0.5);
    assert_near(max, 10.0);
    assert_near(change(24_000.0, 24_000.0, 1200.0, max, 0.5), 24_000.0);
    assert_near(max_velocity(100.0, 1200.0, 0.5), 1.0);
}

/// A controller at 480 kbit/s with packets of 1200 bytes, 20 ms each way. Sends five packets, 20 ms apart, each 100 ms and reports them
/// at once; `queue` is the queueing delay in ms by the number of the packet.
fn after(limits: Limits, reports: u64, queue: impl Fn(u64) -> u64) -> Copa {
    let mut copa = Copa::new(Config::within(limits));
    copa.on_timeout(at(0), &QueueState::default());
    for number in 0..reports {
        let numbers = number * 5..number * 5 + 5;
        let arrival = |sequence| sequence * 20 + 20 + queue(sequence);
        let packets =
            numbers.clone().map(|sequence| report(sequence, sequence * 20, Some(arrival(sequence))));
        let packets: Vec<_> = packets.inspect(|packet| copa.on_sent(packet.sent.at, &packet.sent)).collect();
        let now = at(numbers.map(arrival).max().unwrap() + 20);
        feed(&mut copa, now, &packets);
        assert!(copa.next_timeout().is_some_and(|due| due <= now), "the sender's queue is needed");
        copa.on_timeout(now, &QueueState::default());
    }
    copa
}

#[test]
fn slow_start_doubles_the_window_in_an_rtt_and_an_interval() {
    // 480 kbit/s × 40 ms = 2400 bytes. The first interval of feedback is taken as 250 ms: five packets add 6000 × 40/290 bytes.
    let copa = after(limits(50, 480, 10_000), 1, |_| 0);
    let window = 2400.0_f64 + 6000.0 * 40.0 / 290.0;
    assert_near(copa.target().media.as_bps() as f64, (window * 8.0 / 0.04).round());
    assert_eq!(copa.target().pacing.as_bps(), (2.0 * window * 8.0 / 0.04) as u64);
    // The window and 250 ms of data, two packets at least.
    near(copa.target().window.unwrap().as_bytes() as f64, window * (1.0 + 250.0 / 40.0), 2.0);
    // From the second report on 100 ms.
    let copa = after(limits(50, 480, 10_000), 2, |_| 0);
    let window = window + 6000.0 * 40.0 / 140.0;
    assert_near(copa.target().media.as_bps() as f64, (window * 8.0 / 0.04).round());
}

#[test]
fn slow_start_ends_above_the_target_rate_and_the_window_settles_there() {
    // From packet 5 on 90 ms of queue, whatever is sent: the target rate is 1200 / (0.5 × 90 ms) = 213 kbit/s.
    let queue = |number| if number < 5 { 0 } else { 90 };
    let copa = after(limits(50, 480, 10_000), 2, queue);
    assert_eq!(copa.queueing_delay(), ms(90));
    assert!(matches!(copa.decision().cause, Cause::Delay { trend_ms, .. } if (trend_ms - 90.0).abs() < 1e-6));
    for reports in 3..10 {
        let rate = after(limits(50, 480, 10_000), reports, queue).target().media.as_bps() as f64;
        assert!((rate / 213_333.0 - 1.0).abs() < 0.15, "{rate} after {reports} reports");
    }
    assert!(!copa.is_competitive() && (copa.delta() - 0.5).abs() < 1e-9);
    // A queue that never empties: it competes.
    let copa = after(limits(50, 480, 10_000), 50, queue);
    assert!(copa.is_competitive() && copa.delta() < 0.25, "{}", copa.delta());
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    // The media send 480 kbit/s whatever the target: 2 or 3 packets in 40 ms, of which the window gets at most twice as many.
    let rate = |max| after(limits(50, 480, max), 100, |_| 0).target().media.as_bps();
    assert!((900_000..=1_500_000).contains(&rate(10_000)), "{}", rate(10_000));
    assert_eq!(rate(700), 700_000);
}
