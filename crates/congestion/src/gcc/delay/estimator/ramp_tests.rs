//! An overloaded bottleneck without noise. How much queue builds up before over-use is signalled?

use super::{tests::pass, *};
use crate::testing::within;

/// Group intervals from 100 to 30 per second, in microseconds.
const INTERVALS_US: [u64; 4] = [10_000, 16_667, 20_000, 33_333];

/// Overloads of 5 to 25 %.
const SMALL_PERCENT: [u64; 5] = [5, 10, 15, 20, 25];

/// Sends groups of one packet: `quiet` groups without overload, then 300 s at an overload of `percent`.
/// Returns the queue at the time of the first over-use signal, in milliseconds.
fn queue_after_quiet(config: DelayConfig, quiet: u64, interval_us: u64, percent: u64) -> Option<f64> {
    let mut estimator = DelayEstimator::new(config).unwrap();
    (0..quiet + 300_000_000 / interval_us).find_map(|index| {
        let sent = index * interval_us;
        let queue_us = index.saturating_sub(quiet) * interval_us * percent / 100;
        let signal = pass(&mut estimator, sent, sent + queue_us);
        let seen = u64::from(estimator.output().samples).saturating_sub(quiet);
        (signal == Signal::OverUse).then_some((seen * interval_us * percent) as f64 / 1e5)
    })
}

fn queue(config: DelayConfig, interval_us: u64, percent: u64) -> Option<f64> {
    queue_after_quiet(config, 0, interval_us, percent)
}

/// The draft's filter with a given `chi`, whose value the draft leaves open, with or without amplification.
fn draft(noise_smoothing: f64, amplification: Option<u32>) -> DelayConfig {
    let kalman = KalmanConfig { noise_smoothing, amplification, ..KalmanConfig::draft_02() };
    DelayConfig { filter: FilterConfig::Kalman(kalman), ..DelayConfig::draft_02() }
}

fn over_all(config: DelayConfig, percents: &[u64]) -> Vec<Option<f64>> {
    let each = |&interval| percents.iter().map(move |&percent| queue(config, interval, percent));
    INTERVALS_US.iter().flat_map(each).collect()
}

/// The mean variation is the overload times the interval. It is at most 8.3 ms here, below the threshold of
/// 12.5 ms.
#[test]
fn draft_with_small_chi_never_detects_25_percent_overload() {
    let config = draft(0.001, None);
    assert!(over_all(config, &SMALL_PERCENT).iter().all(Option::is_none));
    assert_eq!(queue(config, 10_000, 100), None, "nor twice too much in groups of 10 ms");
    // 20 ms per group is above 12.5 ms; the filter needs 16 groups to report it.
    within(queue(config, 20_000, 100).unwrap(), 200.0..=400.0);
}

/// With a larger `chi` the ramp itself counts as noise, the estimate becomes slow, and the threshold falls
/// towards it. Over-use is signalled, but only after seconds of queue.
#[test]
fn draft_with_large_chi_detects_overload_seconds_late() {
    let middle = over_all(draft(0.01, None), &SMALL_PERCENT);
    let seen: Vec<f64> = middle.iter().copied().flatten().collect();
    assert_eq!(seen.len(), 1, "a quarter, in groups of 33 ms: {middle:?}");
    assert!((1_500.0..=3_000.0).contains(&seen[0]), "{seen:?}");
    within(queue(draft(0.1, None), 10_000, 100).unwrap(), 1_500.0..=4_000.0);
}

#[test]
fn amplified_draft_signals_after_16_to_50_ms_of_queue() {
    assert_eq!(draft(0.001, Some(60)), DelayConfig::draft_02_amplified(), "the preset");
    // With a larger `chi` the signal comes later at large variations, and as early at small ones.
    for (chi, most) in [(0.001, 50.0), (0.01, 60.0), (0.1, 110.0)] {
        let all = over_all(draft(chi, Some(60)), &SMALL_PERCENT);
        assert!(
            all.iter().all(|queue| queue.is_some_and(|ms| (16.0..=most).contains(&ms))),
            "{chi}: {all:?}"
        );
        assert!(chi < 0.1 || all.iter().flatten().any(|ms| *ms > 100.0), "{all:?}");
    }
}

/// 100 % overload with groups of 33 ms: 20 differences fill the window, and over-use needs a second group.
#[test]
fn a_new_trend_line_gives_no_signal_for_20_groups() {
    for percent in [25, 50, 100] {
        for interval_us in INTERVALS_US {
            let expected = 21.0 * (interval_us * percent) as f64 / 1e5;
            assert_eq!(queue(DelayConfig::libwebrtc(), interval_us, percent), Some(expected));
        }
    }
}

/// The modified trend is at most 60 · 4 · x / (1 + x), and the threshold at least 6: x = 2.56 %.
#[test]
fn the_trend_line_is_blind_below_two_and_a_half_percent() {
    assert!(over_all(DelayConfig::libwebrtc(), &[1, 2]).iter().all(Option::is_none));
    let small = over_all(DelayConfig::libwebrtc(), &[5]);
    assert!(small.iter().all(|queue| queue.is_some_and(|ms| (15.0..=62.0).contains(&ms))), "{small:?}");
}

/// After 500 groups without overload the filter has its full gain: the trend of one step is multiplied by 60
/// at once.
#[test]
fn after_quiet_every_filter_but_the_literal_draft_is_quick() {
    let cases = [
        (DelayConfig::libwebrtc(), 9.0..=76.0),
        (DelayConfig::draft_02_amplified(), 4.0..=18.0),
        (DelayConfig::receive_side(), 6.0..=18.0),
    ];
    for (config, expected) in cases {
        for interval_us in INTERVALS_US {
            for percent in SMALL_PERCENT {
                let seen = queue_after_quiet(config, 500, interval_us, percent).unwrap();
                assert!(expected.contains(&seen), "{seen} ms at {percent} %, {interval_us} us: {config:?}");
            }
        }
    }
}
