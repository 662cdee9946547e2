use super::*;
use crate::testing::at;
use proptest::prelude::*;

fn bps(bps: u64) -> DataRate {
    DataRate::from_bps(bps)
}

fn seen(signal: Signal, acknowledged: Option<u64>) -> Observation {
    Observation {
        delay: Detection { signal, trend_ms: 1.0, threshold_ms: 12.5 },
        acknowledged: acknowledged.map(bps),
        ..Observation::default()
    }
}

fn libwebrtc(start: u64) -> Aimd {
    Aimd::new(AimdConfig::libwebrtc(), bps(start))
}

fn draft(start: u64) -> Aimd {
    Aimd::new(AimdConfig::draft(), bps(start))
}

impl Aimd {
    fn step(&mut self, ms: u64, signal: Signal, acknowledged: u64) -> u64 {
        self.update(at(ms), &seen(signal, Some(acknowledged))).to.as_bps()
    }
}

// ---- libwebrtc: `remote_bitrate_estimator/aimd_rate_control_unittest.cc`, its numbers --------------------------------

#[test]
fn the_additive_slope_is_half_a_packet_in_a_response_time() {
    // MinNearMaxIncreaseRateOnLowBandwith, NearMaxIncreaseRateIs5kbpsOn90kbpsAnd200msRtt, …On60kbpsAnd100msRtt; 216 kbit/s: see below.
    for (rate, rtt, slope) in
        [(30_000, 200, 4000.0), (90_000, 200, 5000.0), (60_000, 100, 5000.0), (216_000, 200, 12_000.0)]
    {
        let mut aimd = libwebrtc(rate);
        aimd.on_rtt(TimeDelta::from_millis(rtt));
        assert!((aimd.additive_slope_bps() - slope).abs() < 1e-6, "{rate} bit/s, {rtt} ms");
    }
}

#[test]
fn over_use_sets_085_of_the_received_rate_minus_5_kbps() {
    // ExpectedPeriodAfterTypicalDrop: 0.85 · 260 000 − 5000.
    let mut aimd = libwebrtc(264_000);
    let decision = aimd.update(at(100), &seen(Signal::OverUse, Some(260_000)));
    assert_eq!((decision.from, decision.to), (bps(264_000), bps(216_000)));
    let cause = Cause::Delay { signal: Signal::OverUse, trend_ms: 1.0, threshold_ms: 12.5 };
    assert_eq!(decision.cause, cause);
    assert_eq!(aimd.state(), State::Hold);
}

#[test]
fn the_ceiling_is_1_5_times_the_received_rate_plus_10_kbps() {
    // BweLimitedByAckedBitrate, BweNotLimitedByDecreasingAckedBitrate
    // SendingRateBoundedWhenThroughputNotEstimated: it applies before the received rate is known.
    for (start, received, ceiling) in [(10_000, Some(10_000), 25_000), (123_000, None, 194_500)] {
        let mut aimd = libwebrtc(start);
        (0..200).for_each(|i| _ = aimd.update(at(i * 100), &seen(Signal::Normal, received)));
        assert_eq!(aimd.rate(), bps(ceiling));
        let held = aimd.update(at(20_000), &seen(Signal::Normal, Some(5000)));
        assert_eq!((held.to, held.cause), (bps(ceiling), Cause::AcknowledgedRate { rate_bps: 5000.0 }));
    }
}

#[test]
fn application_limit_blocks_growth_but_not_probe_results() {
    // EstimateDoesNotIncreaseInAlr, SetEstimateIncreaseBweInAlr, EstimateIncreaseWhileNotInAlr
    let config = AimdConfig { rise_while_limited: false, ..AimdConfig::libwebrtc() };
    let mut aimd = Aimd::new(config, bps(123_000));
    let limited = Observation { application_limited: true, ..seen(Signal::Normal, Some(123_000)) };
    for i in 0..100 {
        let decision = aimd.update(at(i * 100), &limited);
        assert_eq!((decision.to, decision.cause), (bps(123_000), Cause::ApplicationLimited));
    }
    let decision = aimd.update(at(10_000), &Observation { probe: Some(bps(246_000)), ..limited });
    assert_eq!((decision.to, decision.cause), (bps(246_000), Cause::Probe { rate_bps: 246_000.0 }));
    assert!(aimd.step(11_000, Signal::Normal, 246_000) > 246_000);
}

// ---- libwebrtc: by hand -----------------------------------------------------------------------------------------------------------

#[test]
fn growth_is_8_percent_per_second_before_any_over_use() {
    let mut aimd = libwebrtc(1_000_000);
    // The change from hold to increase covers no time: the minimum step of 1 kbit/s.
    assert_eq!(aimd.step(0, Signal::Normal, 1_000_000), 1_001_000);
    assert_eq!(aimd.step(1000, Signal::Normal, 1_000_000), 1_081_080);
    // However long the pause, at most the increase of one second.
    assert_eq!(aimd.step(9000, Signal::Normal, 1_000_000), 1_167_566);
    // Time that runs backwards is no time: the minimum step again.
    assert_eq!(aimd.step(5000, Signal::Normal, 1_000_000), 1_168_566);
    assert_eq!(aimd.step(9500, Signal::Normal, 1_000_000), 1_214_410);
}

#[test]
fn after_over_use_growth_is_additive_up_to_the_capacity() {
    let mut aimd = libwebrtc(1_000_000);
    assert_eq!(aimd.step(0, Signal::OverUse, 1_000_000), 845_000);
    assert_eq!(aimd.capacity(), Some(bps(1_000_000)));
    assert_eq!(aimd.step(1000, Signal::Normal, 845_000), 845_000);
    // 845 000/30 bit in 3 packets of 9388.9 bit each, half of one in 300 ms.
    assert_eq!(aimd.step(2000, Signal::Normal, 845_000), 860_648);
    // Above 1000 + 3·sqrt(0.4·1000) = 1060 kbit/s the capacity estimate is reset.
    assert_eq!(aimd.step(3000, Signal::Normal, 1_061_000), 929_500);
    assert_eq!(aimd.capacity(), None);
}

#[test]
fn over_use_never_increases_the_rate() {
    assert_eq!(libwebrtc(100_000).step(0, Signal::OverUse, 1_000_000), 100_000);
    // With a known capacity the received rate may be misleading: a share of the capacity is used.
    let mut aimd = libwebrtc(100_000);
    assert_eq!(aimd.step(0, Signal::OverUse, 100_000), 80_000);
    assert_eq!(aimd.step(1000, Signal::OverUse, 110_000), 80_000);
}

#[test]
fn the_next_decrease_comes_after_an_rtt_or_at_half_the_rate() {
    let over_use_again = |ms, rtt, arrives| {
        let mut aimd = libwebrtc(1_000_000);
        aimd.on_rtt(TimeDelta::from_millis(rtt));
        assert_eq!(aimd.step(0, Signal::OverUse, 1_000_000), 845_000);
        aimd.step(ms, Signal::OverUse, arrives) < 845_000
    };
    assert!(!over_use_again(49, 50, 800_000));
    assert!(over_use_again(50, 50, 800_000));
    assert!(!over_use_again(9, 0, 800_000) && over_use_again(10, 0, 800_000));
    assert!(!over_use_again(199, 5000, 800_000) && over_use_again(200, 5000, 800_000));
    assert!(!over_use_again(1, 50, 422_501) && over_use_again(1, 50, 422_499));
}

#[test]
fn without_a_received_rate_each_over_use_halves_the_rate() {
    let mut aimd = libwebrtc(1_000_000);
    let halved = [0, 1, 2].map(|i| aimd.update(at(i), &seen(Signal::OverUse, None)).to.as_bps());
    assert_eq!(halved, [500_000, 250_000, 125_000]);
}

#[test]
fn a_probe_sets_the_rate_except_on_over_use() {
    let probed = |signal, probe| {
        let seen = Observation { probe: Some(bps(probe)), ..seen(signal, Some(800_000)) };
        libwebrtc(1_000_000).update(at(0), &seen).to.as_bps()
    };
    assert_eq!(probed(Signal::Normal, 3_000_000), 3_000_000);
    assert_eq!(probed(Signal::UnderUse, 3_000_000), 3_000_000);
    assert_eq!(probed(Signal::Normal, 900_000), 900_000);
    assert_eq!(probed(Signal::Normal, 100_000), 680_000);
    assert_eq!(probed(Signal::OverUse, 3_000_000), 675_000);
}

// ---- the draft: by hand from its formulas (§5.5) ----------------------------------------------------------------------------------

#[test]
fn the_states_follow_the_table_of_the_draft() {
    use State::{Decrease, Hold, Increase};
    let reach = |state| {
        let mut aimd = draft(1_000_000);
        match state {
            Increase => {}
            Decrease => _ = aimd.step(0, Signal::OverUse, 1_000_000),
            Hold => _ = aimd.step(0, Signal::UnderUse, 1_000_000),
        }
        assert_eq!(aimd.state(), state);
        aimd
    };
    for (signal, from_hold, from_increase, from_decrease) in [
        (Signal::OverUse, Decrease, Decrease, Decrease),
        (Signal::Normal, Increase, Increase, Hold),
        (Signal::UnderUse, Hold, Hold, Hold),
    ] {
        for (from, to) in [(Hold, from_hold), (Increase, from_increase), (Decrease, from_decrease)] {
            let mut aimd = reach(from);
            aimd.step(10, signal, 1_000_000);
            assert_eq!(aimd.state(), to, "{signal:?} in {from:?}");
        }
    }
}

#[test]
fn the_draft_grows_by_8_percent_and_backs_off_to_085() {
    let mut aimd = draft(1_000_000);
    assert_eq!(aimd.step(0, Signal::Normal, 1_000_000), 1_000_000);
    assert_eq!(aimd.step(1000, Signal::Normal, 1_000_000), 1_080_000);
    // 1.08^0.5 = 1.0392305
    assert_eq!(aimd.step(1500, Signal::Normal, 1_000_000), 1_122_369);
    assert_eq!(aimd.step(1600, Signal::OverUse, 1_000_000), 850_000);
    // According to the draft's formula, over-use may increase the rate.
    assert_eq!(aimd.step(1700, Signal::OverUse, 1_200_000), 1_020_000);
}

#[test]
fn the_draft_adds_half_a_packet_near_convergence() {
    let mut aimd = draft(1_000_000);
    aimd.step(0, Signal::OverUse, 1_000_000);
    aimd.step(100, Signal::OverUse, 900_000);
    assert_eq!(aimd.step(200, Signal::Normal, 990_000), 765_000);
    // 765 000/30 in 3 packets of 8500 bit; 150 of 300 ms: 0.25 packets. Then at most 0.5 packets, however
    // long the interval.
    assert_eq!(aimd.step(350, Signal::Normal, 990_000), 767_125);
    assert_eq!(aimd.step(5350, Signal::Normal, 990_000), 771_387);
    // At least 1000 bit/s per update.
    assert_eq!(aimd.step(5351, Signal::Normal, 990_000), 772_387);
    // Above three deviations (1 060 383) the increase is multiplicative again.
    assert_eq!(aimd.step(6351, Signal::Normal, 1_070_000), 834_178);
}

#[test]
fn the_drafts_ceiling_reduces_the_rate() {
    let mut aimd = draft(1_000_000);
    let decision = aimd.update(at(0), &seen(Signal::Normal, Some(400_000)));
    assert_eq!(decision.to, bps(600_000));
    assert_eq!(decision.cause, Cause::AcknowledgedRate { rate_bps: 400_000.0 });
}

#[test]
fn the_thesis_backs_off_less_and_stays_within_its_limits() {
    let mut aimd = Aimd::new(AimdConfig::thesis(), bps(7_200_000));
    assert_eq!(aimd.step(0, Signal::OverUse, 6_000_000), 5_700_000);
    let decision = aimd.update(at(3000), &seen(Signal::OverUse, Some(1_000_000)));
    assert_eq!((decision.to, decision.cause), (bps(3_000_000), Cause::Limit));
}

// ---- all ----------------------------------------------------------------------------------------------------------------------------

/// A full link has a queue: its delay grows with the excess rate, and the detector signals over-use at 50 ms.
///
/// At a growth of 8 % per second it takes 1.1 s to build up this queue. In this time the rate rises to 9 %
/// above the link rate. Additive growth, and the draft's minimum steps of 10 kbit/s per second, stay below
/// that. With one update per 100 ms, the queueing delay stays below 70 ms until the rate is below the link
/// rate, and the rate below 1.15 times the link rate. Below the link rate, at most the share that a decrease
/// takes away is unused, minus what is regained.
#[test]
fn each_preset_fills_a_link_with_little_excess() {
    for (config, left) in
        [(AimdConfig::libwebrtc(), 0.845), (AimdConfig::draft(), 0.85), (AimdConfig::thesis(), 0.95)]
    {
        let capacity = 5_000_000.0;
        let mut aimd = Aimd::new(config, bps(3_000_000));
        let (mut queue_ms, mut sum, mut steps) = (0.0_f64, 0.0, 0.0);
        for i in 0..1800 {
            let rate = aimd.rate().as_bps() as f64;
            let before = queue_ms;
            queue_ms = (queue_ms + 100.0 * (rate / capacity - 1.0)).max(0.0);
            let signal = match queue_ms - before {
                growth if growth > 0.0 && queue_ms > 50.0 => Signal::OverUse,
                growth if growth < 0.0 => Signal::UnderUse,
                _ => Signal::Normal,
            };
            let goodput = if before > 0.0 || queue_ms > 0.0 { capacity } else { rate };
            aimd.step(i * 100, signal, goodput as u64);
            assert!(queue_ms < 70.0, "{queue_ms} ms after {i}");
            assert!(rate < 1.15 * capacity, "{rate} bit/s after {i}");
            if i >= 300 {
                sum += goodput;
                steps += 1.0;
            }
        }
        let used = sum / steps / capacity;
        assert!((left..=1.0).contains(&used), "{used}");
    }
}

fn any_config() -> impl Strategy<Value = AimdConfig> {
    prop::sample::select(vec![AimdConfig::libwebrtc(), AimdConfig::draft(), AimdConfig::thesis()])
}

fn any_signal() -> impl Strategy<Value = Signal> {
    prop::sample::select(vec![Signal::Normal, Signal::OverUse, Signal::UnderUse])
}

proptest! {
    #[test]
    fn the_rate_stays_within_its_limits_for_any_input(
        config in any_config(),
        start in 0u64..20_000_000_000,
        steps in prop::collection::vec(
            (any::<u64>(), any_signal(), prop::option::of(any::<u64>()), prop::option::weighted(0.1, any::<u64>()), any::<i64>()),
            1..100,
        ),
    ) {
        let mut aimd = Aimd::new(config, bps(start));
        let mut latest = Timestamp::ZERO;
        for (now, signal, acknowledged, probe, rtt) in steps {
            let before = aimd.rate();
            aimd.on_rtt(TimeDelta::from_nanos(rtt));
            let decision = aimd.update(
                Timestamp::from_nanos(now),
                &Observation { probe: probe.map(bps), ..seen(signal, acknowledged) },
            );
            latest = latest.max(Timestamp::from_nanos(now));
            prop_assert!(config.min <= decision.to && decision.to <= config.max);
            prop_assert_eq!((decision.at, decision.from, decision.to), (latest, before, aimd.rate()));
            prop_assert!(aimd.additive_slope_bps().is_finite());
            if signal == Signal::OverUse && !config.over_use_may_raise {
                prop_assert!(decision.to <= before);
            }
            if let (Signal::Normal, Some(acknowledged), None) = (signal, acknowledged, probe) {
                let ceiling = 1.5 * acknowledged as f64 + config.ceiling_offset.as_bps() as f64;
                let max = before.max(config.min).as_bps() as f64;
                prop_assert!(decision.to.as_bps() as f64 <= max.max(ceiling + 1.0));
            }
        }
    }
}
