//! The equations of RFC 8698 with numbers computed by hand.

use crate::nada::{
    Config, RateMode, ReceiverConfig, Report,
    reference_rate::{ReferenceRate, equilibrium_ms, ramp_up_gain, ramped_up, updated},
    shaping::{ShapedRates, shaped},
    signal::{aggregate, equivalent_delay, warped},
};
use crate::testing::prelude::*;

/// Table 2: 150 kbit/s to 1.5 Mbit/s.
fn config() -> Config {
    let [min, start, max] = [150_000, 150_000, 1_500_000].map(DataRate::from_bps);
    Config::within(Limits { min, start, max })
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{found} instead of {expected}");
}

#[test]
fn a_delay_is_warped_from_50_ms_on() {
    // Equation 1: 50 e^(−0.5 (d − 50) / 50).
    let receiver = ReceiverConfig::default();
    for (delay, expected) in
        [(0.0, 0.0), (49.9, 49.9), (50.0, 50.0), (100.0, 30.326_533), (150.0, 18.393_972), (250.0, 6.766_764)]
    {
        assert_near(warped(&receiver, delay), expected);
    }
}

#[test]
fn the_warping_ends_after_seven_loss_intervals_and_fades_over_one_more() {
    let receiver = ReceiverConfig::default();
    let delay = |interval, since| equivalent_delay(&receiver, 150.0, interval, since);
    assert_near(delay(None, 10.0), 150.0);
    for (since, expected) in [
        (1.0, 18.393_972),
        (700.0, 18.393_972),
        // A quarter of the way from 18.39 to 150 ms.
        (725.0, 0.25 * 150.0 + 0.75 * 18.393_972),
        (775.0, 0.75 * 150.0 + 0.25 * 18.393_972),
        (800.0, 150.0),
        (1e9, 150.0),
    ] {
        assert_near(delay(Some(100.0), since), expected);
    }
}

#[test]
fn the_signal_adds_the_squares_of_the_ratios() {
    // Equation 2: d + 2 ms (p_mark / 0.01)² + 10 ms (p_loss / 0.01)².
    let receiver = ReceiverConfig::default();
    for (delay, marks, losses, expected) in [
        (20.0, 0.0, 0.0, 20.0),
        (20.0, 0.01, 0.0, 22.0),
        (20.0, 0.0, 0.01, 30.0),
        (5.0, 0.03, 0.02, 5.0 + 18.0 + 40.0),
        (0.0, 0.0, 0.5, 3276.7),
    ] {
        assert_near(aggregate(&receiver, delay, marks, losses), expected);
    }
}

#[test]
fn the_ramp_up_is_slower_the_longer_the_rtt_is() {
    // Equation 3: 50 / (rtt + 100 + 120), at most 0.5.
    for (rtt, expected) in [(0, 50.0 / 220.0), (30, 0.2), (280, 0.1), (-5, 50.0 / 220.0)] {
        assert_near(ramp_up_gain(&config(), ms(rtt)), expected);
    }
    let quick = Config { ramp_up_delay: ms(500), ..config() };
    assert_near(ramp_up_gain(&quick, ms(0)), 0.5);
    // Equation 4: the received rate grows, and the reference rate does not fall.
    assert_near(ramped_up(&config(), 500e3, 500e3, ms(30)), 600e3);
    assert_near(ramped_up(&config(), 500e3, 400e3, ms(30)), 500e3);
}

#[test]
fn a_gradual_update_has_an_offset_and_a_change() {
    // At 750 kbit/s the equilibrium is 10 ms × 1.5 / 0.75 = 20 ms (equation 5).
    assert_near(equilibrium_ms(&config(), 750e3), 20.0);
    let after = |signal, previous, since| updated(&config(), 750e3, signal, previous, ms(since));
    assert_near(after(20.0, 20.0, 100), 750e3);
    // Offset 10 ms: 0.5 × 100/500 × 10/500 = 0.2 %.
    assert_near(after(30.0, 30.0, 100), 750e3 * 0.998);
    assert_near(after(10.0, 10.0, 100), 750e3 * 1.002);
    assert_near(after(10.0, 10.0, 200), 750e3 * 1.004);
    // Change 10 ms: 0.5 × 2 × 10/500 = 2 %, ten times as much (§6.3).
    assert_near(after(20.0, 10.0, 100), 750e3 * 0.98);
    assert_near(after(20.0, 30.0, 100), 750e3 * 1.02);
    // Twice the weight: equilibrium 40 ms, so 20 ms is 20 ms below it.
    let weighty = Config { priority: 2.0, ..config() };
    assert_near(updated(&weighty, 750e3, 20.0, 20.0, ms(100)), 750e3 * 1.004);
}

#[test]
fn the_rate_is_clipped_and_remembers_signal_and_time() {
    let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
    let report =
        |mode, signal_ms, kbps: u64| Report { mode, signal_ms, received: DataRate::from_bps(kbps * 1000) };
    let mut rate = ReferenceRate::new(at(0), &config());
    assert_near(rate.bps(), 150e3);
    rate.on_report(at(100), &config(), &report(RateMode::RampUp, 0.0, 750), ms(280));
    assert_near(rate.bps(), 825e3);
    // From 0 to 20 ms within 150 ms. Offset: 20 ms × 825 − 10 ms × 1500 = 1500 ms·kbit/s, change: 20 × 825.
    rate.on_report(at(250), &config(), &report(RateMode::Gradual, 20.0, 750), ms(280));
    let expected = 825e3 - 0.5 * 0.3 * 1500e3 / 500.0 - 16_500e3 / 500.0;
    assert_near(rate.bps(), expected);
    // The signal stays: only the offset counts, over 100 ms.
    let offset = 20.0 * expected - 15_000e3;
    rate.on_report(at(350), &config(), &report(RateMode::Gradual, 20.0, 750), ms(280));
    assert_near(rate.bps(), expected - 0.5 * 0.2 * offset / 500.0);
    rate.on_report(at(450), &config(), &report(RateMode::Gradual, 3000.0, 750), ms(280));
    assert_near(rate.bps(), 150e3);
    rate.on_report(at(550), &config(), &report(RateMode::RampUp, 0.0, 9000), ms(280));
    assert_near(rate.bps(), 1500e3);
}

#[test]
fn the_senders_queue_lowers_the_encoder_and_raises_the_pacer() {
    // The RFC's own example: 2000 bytes give 48 kbit/s (§5.2.2), here below 5 % of 1 Mbit/s.
    let rates = shaped(&config(), 1e6, DataSize::from_bytes(2000));
    assert_eq!(rates, ShapedRates { video: 952e3, sending: 1048e3 });
    // Bounded by 5 %.
    let rates = shaped(&config(), 1e6, DataSize::from_bytes(100_000));
    assert_eq!(rates, ShapedRates { video: 950e3, sending: 1050e3 });
    assert_eq!(shaped(&config(), 1e6, DataSize::ZERO), ShapedRates { video: 1e6, sending: 1e6 });
    // Within the limits.
    assert_near(shaped(&config(), 150e3, DataSize::from_bytes(9000)).video, 150e3);
    assert_near(shaped(&config(), 1500e3, DataSize::from_bytes(9000)).sending, 1500e3);
}

#[test]
fn the_signal_of_a_report_stands_for_at_most_tau() {
    // r = 1 Mbit/s, signal 5 ms after 5 ms: the offset is 5 − 15 ms.
    let after = |ms: i64| {
        let mut reference =
            ReferenceRate::new(at(0), &Config { limits: limits(150, 1000, 1500), ..config() });
        let report = Report { signal_ms: 5.0, mode: RateMode::Gradual, ..Report::default() };
        for now in [0, ms] {
            reference.on_report(at(0) + TimeDelta::from_millis(now), &config(), &report, TimeDelta::ZERO);
        }
        reference.bps()
    };
    // The first report takes 0.5 × 2 × 5 / 500 = 1 % from the rate: its signal has risen from 0.
    assert_near(after(0), 0.99e6);
    assert_near(after(100), 0.99e6 + 0.5 * 0.2 * (15e6 - 5.0 * 0.99e6) / 500.0);
    assert_near(after(500), 0.99e6 + 0.5 * (15e6 - 5.0 * 0.99e6) / 500.0);
    assert_near(after(60_000), after(500));
}
