use super::*;

fn at_ms(ms: i64) -> PeerTimestamp {
    PeerTimestamp::from_nanos(ms as u64 * 1_000_000)
}

fn output(trend_ms: f64) -> FilterOutput {
    FilterOutput { raw: trend_ms, trend_ms, samples: 60 }
}

const MS_10: TimeDelta = TimeDelta::from_millis(10);

#[test]
fn over_use_takes_more_than_ten_milliseconds_and_two_groups() {
    let groups_until = |departure: TimeDelta| {
        let mut detector = Detector::new(DetectorConfig::draft_02());
        (1..100).find(|&group| detector.on_output(output(100.0), departure, at_ms(group)) == Signal::OverUse)
    };
    // The first group counts half: 5 + 10 > 10; 2 + 4 + 4 = 10 is not above 10, but 14 is. The first group
    // alone is never over-use.
    assert_eq!(groups_until(MS_10), Some(2));
    assert_eq!(groups_until(TimeDelta::from_millis(4)), Some(4));
    assert_eq!(groups_until(TimeDelta::from_millis(500)), Some(2));
}

#[test]
fn a_falling_trend_does_not_change_the_signal() {
    let mut detector = Detector::new(DetectorConfig::draft_02());
    for step in 0..50 {
        let falling = output(100.0 - step as f64);
        assert_eq!(detector.on_output(falling, MS_10, at_ms(step)), Signal::Normal, "{step}");
    }
    // The trend stays constant: over-use at once, since the time has long passed. Then the trend falls, and
    // over-use stays.
    assert_eq!(detector.on_output(output(51.0), MS_10, at_ms(60)), Signal::OverUse);
    for step in 0..20 {
        let falling = output(50.0 - step as f64);
        assert_eq!(detector.on_output(falling, MS_10, at_ms(70 + step)), Signal::OverUse);
    }
    assert_eq!(detector.on_output(output(1.0), MS_10, at_ms(100)), Signal::Normal);
    let threshold_ms = detector.threshold_ms();
    assert_eq!(detector.on_output(output(-20.0), MS_10, at_ms(101)), Signal::UnderUse);
    let expected = Detection { signal: Signal::UnderUse, trend_ms: -20.0, threshold_ms };
    assert_eq!(detector.detection(), expected);
}

#[test]
fn an_interruption_restarts_the_over_use_time() {
    let mut detector = Detector::new(DetectorConfig::draft_02());
    for step in 0..60 {
        let trend = if step % 3 == 2 { 0.0 } else { 100.0 };
        let signal = detector.on_output(output(trend), TimeDelta::from_millis(6), at_ms(step / 3));
        assert_eq!(signal, Signal::Normal, "{step}");
    }
}

/// γ(i) = γ(i−1) + Δt K (|m| − γ(i−1)), by hand, for both presets and both signs.
#[test]
fn the_threshold_steps_as_the_equation_says() {
    for sign in [1.0, -1.0] {
        for (config, rise, fall) in
            [(DetectorConfig::draft_02(), 0.01, 0.000_18), (DetectorConfig::libwebrtc(), 0.0087, 0.039)]
        {
            let mut detector = Detector::new(config);
            detector.on_output(output(sign * 20.5), MS_10, at_ms(0));
            assert_eq!(detector.threshold_ms(), 12.5, "no time has passed");
            detector.on_output(output(sign * 20.5), MS_10, at_ms(10));
            let risen = 12.5 + 10.0 * rise * 8.0;
            assert!((detector.threshold_ms() - risen).abs() < 1e-12);
            detector.on_output(output(sign * (risen - 2.0)), MS_10, at_ms(20));
            let fallen = risen - 10.0 * fall * 2.0;
            assert!((detector.threshold_ms() - fallen).abs() < 1e-12);
            assert_eq!(detector.detection().threshold_ms, risen, "that which held");
        }
    }
}

#[test]
fn a_spike_does_not_change_the_threshold() {
    let mut detector = Detector::new(DetectorConfig::draft_02());
    detector.on_output(output(0.0), MS_10, at_ms(0));
    detector.on_output(output(12.5 + 15.1), MS_10, at_ms(90));
    assert_eq!(detector.threshold_ms(), 12.5);
    // 10 ms since the spike, not 100 ms. A trend 15 ms above the threshold is not a spike yet.
    detector.on_output(output(12.5 + 15.0), MS_10, at_ms(100));
    assert!((detector.threshold_ms() - (12.5 + 0.1 * 15.0)).abs() < 1e-12);
}

#[test]
fn a_threshold_step_covers_at_most_100_ms() {
    let mut detector = Detector::new(DetectorConfig::draft_02());
    detector.on_output(output(20.0), MS_10, at_ms(1_000));
    detector.on_output(output(20.0), MS_10, at_ms(900));
    assert_eq!(detector.threshold_ms(), 12.5);
    detector.on_output(output(20.0), MS_10, at_ms(60_000));
    assert!((detector.threshold_ms() - 20.0).abs() < 1e-12, "0.01 · 100 is all of the distance");
}

#[test]
fn the_threshold_keeps_to_its_limits() {
    let mut low = Detector::new(DetectorConfig::libwebrtc());
    let mut high = Detector::new(DetectorConfig::libwebrtc());
    for step in 0..20_000 {
        low.on_output(output(0.0), MS_10, at_ms(step * 30));
        let above = high.threshold_ms() + 14.0;
        high.on_output(output(above), MS_10, at_ms(step * 30));
    }
    assert_eq!(low.threshold_ms(), 6.0);
    assert_eq!(high.threshold_ms(), 600.0);
}

/// 1 / 0.039 = 25.6 ms: with shorter intervals a step ends before the trend, with longer ones beyond it.
#[test]
fn libwebrtc_oversteps_the_trend_when_groups_are_far_apart() {
    let after = |apart_ms| {
        let mut detector = Detector::new(DetectorConfig::libwebrtc());
        detector.on_output(output(10.0), MS_10, at_ms(0));
        detector.on_output(output(10.0), MS_10, at_ms(apart_ms));
        detector.threshold_ms()
    };
    assert!((10.0..10.1).contains(&after(25)), "{}", after(25));
    assert!((12.5 - 1.287 * 2.5 - after(33)).abs() < 1e-9, "{}", after(33));
    assert_eq!(after(90), 6.0);
}

/// libwebrtc, `overuse_detector_unittest.cc`, `ThresholdAdapts`: batches of offsets (times 60), 5 ms apart,
/// over 3 s of departures; whether over-use is signalled in each batch.
#[test]
fn the_threshold_follows_as_libwebrtc_publishes() {
    let batches = [
        (10, 0.21, true),
        (10, 1.1 * 0.21, true),
        (10, 0.21, false),
        (150, 0.7 * 0.21, false),
        (10, 0.21, true),
    ];
    run_batches(&batches, &[]);
}

/// libwebrtc, `overuse_detector_unittest.cc`, `DoesntAdaptToSpikes`: 100 ms pass before the spike.
#[test]
fn spikes_have_no_effect_as_in_libwebrtc() {
    run_batches(&[(10, 1.0, true), (3, 20.0, true), (10, 1.0, true)], &[1]);
}

fn run_batches(batches: &[(usize, f64, bool)], pause_before: &[usize]) {
    let mut detector = Detector::new(DetectorConfig::libwebrtc());
    let mut now_ms = 0;
    for (index, &(length, offset, expected)) in batches.iter().enumerate() {
        if pause_before.contains(&index) {
            now_ms += 100;
        }
        let mut found = false;
        for _ in 0..length {
            let said = FilterOutput { raw: offset, trend_ms: 60.0 * offset, samples: 60 };
            found |= detector.on_output(said, TimeDelta::from_seconds(3), at_ms(now_ms)) == Signal::OverUse;
            now_ms += 5;
        }
        assert_eq!(found, expected, "batch {index}");
    }
}
