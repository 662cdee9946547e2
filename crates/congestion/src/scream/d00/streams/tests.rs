use proptest::prelude::*;

use super::*;
use crate::scream::d00::{Config, NOTICED, ScreamD00};
use crate::testing::prelude::*;

/// Usable rates in kbit/s, and age of the oldest packet in milliseconds.
fn stream(priority: f64, usable: (u64, u64), age: i64) -> StreamState {
    let queue = QueueState { size: DataSize::from_bytes(1200), oldest: TimeDelta::from_millis(age) };
    StreamState { priority, usable: (kbps(usable.0), kbps(usable.1)), paused: false, queue }
}

/// From `start` to 4 Mbit/s.
fn begun(start: u64) -> MediaRates {
    MediaRates::new(Config::giusto(Limits::default()), (100e3, 4e6), start as f64 * 1e3)
}

fn targets(rates: &MediaRates) -> Vec<u64> {
    rates.targets().iter().map(|rate| (rate.as_bps() + 500) / 1000).collect()
}

/// A stream of twice the priority of the others, of which the first has a packet of this age.
fn three(age: i64) -> [StreamState; 3] {
    [stream(2.0, (50, 5000), 0), stream(1.0, (50, 5000), age), stream(1.0, (50, 5000), 0)]
}

/// Steps of 100 ms. The sixth one is the first that changes a rate.
fn step(rates: &mut MediaRates, streams: &[StreamState], steps: u64) {
    for number in 0..steps {
        rates.on_sent();
        rates.on_streams(streams);
        rates.update(at(100 * number), 0.1, &QueueState::default(), 0.0);
    }
}

#[test]
fn a_single_adaptive_stream_has_the_total_rate() {
    let mut rates = begun(1000);
    let streams = [stream(1.0, (20, 20), 500), stream(1.0, (150, 1500), 500)];
    rates.on_streams(&streams);
    assert_eq!((rates.targets().len(), rates.bps()), (0, 1e6));
    // Its queue is the sender's queue.
    step(&mut rates, &streams, 6);
    assert!(rates.bps() > 1e6, "{}", rates.bps());
}

#[test]
fn the_start_rate_is_divided_by_priority_after_audio() {
    let (sound, other) = (stream(1.0, (20, 20), 0), stream(1.0, (50, 3000), 0));
    let divided = |start, streams: &[StreamState]| {
        let mut rates = begun(start);
        rates.on_streams(streams);
        targets(&rates)
    };
    assert_eq!(divided(1020, &[stream(2.0, (50, 3000), 0), sound, other, other]), [500, 20, 250, 250]);
    // The others get what the first one cannot use, and give what it needs.
    assert_eq!(divided(1000, &[stream(2.0, (50, 400), 0), other, other]), [400, 300, 300]);
    assert_eq!(divided(1000, &[stream(1.0, (700, 3000), 0), other, other]), [700, 150, 150]);
}

#[test]
fn each_rises_to_its_share_in_the_ramp_up_time() {
    // 100 ms of the 4 s in which they rise to 2, 1 and 1 Mbit/s.
    for (steps, expected) in [(6, [550, 275, 275]), (60, [2000, 1000, 1000])] {
        let mut rates = begun(1000);
        step(&mut rates, &three(0), steps);
        assert_eq!(targets(&rates), expected);
        near(rates.bps(), expected.iter().sum::<u64>() as f64 * 1e3, 1.0);
    }
}

#[test]
fn a_stream_that_overshoots_reduces_only_its_own_rate() {
    let mut rates = begun(1000);
    step(&mut rates, &three(100), 6);
    // 1 − 0.1 of 250; the others increase.
    assert_eq!(targets(&rates), [550, 225, 275]);
    near(rates.bps(), 1_050e3, 1.0);
    // A loss concerns the path.
    rates.on_loss();
    assert_eq!(targets(&rates), [495, 203, 248]);
    rates.on_silence();
    assert_eq!(targets(&rates), [248, 101, 124]);
}

#[test]
fn a_pause_divides_the_total_again() {
    let mut rates = begun(1000);
    let mut streams = three(0);
    rates.on_streams(&streams);
    streams[0].paused = true;
    rates.on_streams(&streams);
    assert_eq!(targets(&rates), [0, 500, 500]);
    streams[0].paused = false;
    rates.on_streams(&streams);
    assert_eq!(targets(&rates), [500, 250, 250]);
    // One source remains.
    rates.on_streams(&streams[..1]);
    assert_eq!((rates.targets().len(), rates.bps()), (0, 1e6));
}

#[test]
fn the_unusable_rate_is_kept_during_a_pause() {
    let mut rates = begun(3000);
    let mut streams = [stream(1.0, (50, 1500), 0), stream(1.0, (50, 1500), 0)];
    let mut pausing = |rates: &mut MediaRates, paused: [bool; 2]| {
        (streams[0].paused, streams[1].paused) = (paused[0], paused[1]);
        rates.on_streams(&streams);
        targets(rates)
    };
    assert_eq!(pausing(&mut rates, [false, false]), [1500, 1500]);
    assert_eq!(pausing(&mut rates, [true, false]), [0, 1500]);
    assert_eq!(pausing(&mut rates, [false, false]), [1500, 1500]);
    // All sources pause, one after the other.
    assert_eq!(pausing(&mut rates, [true, false]), [0, 1500]);
    assert_eq!(pausing(&mut rates, [true, true]), [0, 0]);
    assert_eq!(pausing(&mut rates, [false, true]), [1500, 0]);
    assert_eq!(pausing(&mut rates, [false, false]), [1500, 1500]);
    // A loss and missing feedback concern the path, and so also the paused sources: 0.9 · 0.5 · 3000 remain.
    pausing(&mut rates, [true, true]);
    rates.on_loss();
    rates.on_silence();
    assert_eq!(pausing(&mut rates, [false, false]), [675, 675]);
}

fn any_stream() -> impl Strategy<Value = StreamState> {
    let rate = || prop_oneof![3 => 0_u64..5_000_000, 1 => any::<u64>()].prop_map(DataRate::from_bps);
    let usable = prop_oneof![3 => (rate(), rate()), 1 => rate().prop_map(|rate| (rate, rate))];
    (any::<f64>(), usable, any::<bool>(), any::<i64>()).prop_map(|(priority, usable, paused, oldest)| {
        StreamState {
            priority,
            usable,
            paused,
            queue: QueueState { size: DataSize::ZERO, oldest: TimeDelta::from_nanos(oldest) },
        }
    })
}

proptest! {
    #[test]
    fn the_target_stays_within_its_limits_for_any_streams(
        limits in (any::<u64>(), any::<u64>(), any::<u64>()),
        calls in prop::collection::vec((prop::collection::vec(any_stream(), 0..6), 0_i64..1000, 0_u8..4), 1..40),
    ) {
        let limits = {
            let [min, start, max] = [limits.0, limits.1, limits.2].map(DataRate::from_bps);
            Limits { min, start, max }
        };
        let mut controller = ScreamD00::new(Config::giusto(limits));
        let mut now = Timestamp::ZERO;
        for (streams, wait, call) in calls {
            now += TimeDelta::from_millis(wait);
            controller.on_streams(now, &streams);
            match call {
                0 => controller.on_feedback(now, &Feedback::default().with_extension(Some(Extension::SourceQuench))),
                1 => controller.on_sent(now, &sent(0, 0)),
                _ => controller.on_timeout(now, &QueueState::default()),
            }
            let target = controller.target();
            prop_assert!((limits.min..=limits.max.max(limits.min)).contains(&target.media), "{:?}", target);
            let several = streams.iter().filter(|stream| stream.usable.0 != stream.usable.1).count() > 1;
            prop_assert_eq!(controller.stream_targets().len(), if several { streams.len() } else { 0 });
            for (stream, rate) in streams.iter().zip(controller.stream_targets()) {
                prop_assert!(!stream.paused || *rate == DataRate::ZERO);
            }
            if several {
                // At most the total maximum, unless the needs of non-adaptive streams and the minimum of the
                // others exceed it. Floating-point sums, each rounded to 1 bit/s.
                let needs = streams.iter().filter(|stream| !stream.paused).map(|stream| {
                    stream.usable.0.as_bps() as f64
                });
                let max = needs.sum::<f64>().max(limits.max.max(limits.min).as_bps() as f64);
                let sum: f64 = controller.stream_targets().iter().map(|rate| rate.as_bps() as f64).sum();
                prop_assert!(sum <= max * (1.0 + 1e-9) + streams.len() as f64, "{sum} of {max}");
                // The total target is the sum of the stream targets, within the limits, except for changes
                // that are too small for a decision.
                let (media, count) = (target.media.as_bps() as f64, streams.len() as f64);
                let (min, max) = (limits.min.as_bps() as f64, limits.max.max(limits.min).as_bps() as f64);
                let clamped = sum.max(min).min(max);
                prop_assert!((media - clamped).abs() <= media * (NOTICED + 1e-9) + count, "{media} for {sum}");
            }
        }
    }
}
