use super::*;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn steps(steps: &[(u64, u64)], period: Option<i64>) -> RateProfile {
    let steps = steps.iter().map(|&(moment, bps)| (at(moment), DataRate::from_bps(bps))).collect();
    RateProfile::Steps { steps, period: period.map(TimeDelta::from_nanos) }
}

#[test]
fn rounding_errors_do_not_accumulate() {
    // 1000 B at 3 Mbit/s take 2 666 666.6… ns.
    let mut transmitter = Transmitter::new(&RateProfile::Fixed(DataRate::from_bps(3_000_000))).unwrap();
    let ends: Vec<u64> = (0..6).map(|_| transmitter.transmit(at(0), 1000).as_nanos()).collect();
    assert_eq!(ends, [2_666_667, 5_333_334, 8_000_000, 10_666_667, 13_333_334, 16_000_000]);
    // The rounding error is discarded after a pause.
    assert_eq!(transmitter.transmit(at(20_000_000), 1000), at(22_666_667));
}

#[test]
fn integrates_a_rate_change_within_a_packet() {
    // 1000 B = 8000 bit: 4000 bit in 4 ms at 1 Mbit/s, the rest in 2 ms at 2 Mbit/s.
    let profile = steps(&[(0, 1_000_000), (4_000_000, 2_000_000)], None);
    let mut transmitter = Transmitter::new(&profile).unwrap();
    assert_eq!(transmitter.transmit(at(0), 1000), at(6_000_000));
    assert_eq!(transmitter.transmit(at(6_000_000), 1000), at(10_000_000));
    assert_eq!(profile.capacity(at(10_000_000)), Some(DataSize::from_bytes(2000)));
}

#[test]
fn steps_repeat_after_their_period() {
    let profile = steps(&[(0, 8_000_000), (1_000_000, 16_000_000)], Some(2_000_000));
    let mut transmitter = Transmitter::new(&profile).unwrap();
    // 1000 B in the first millisecond, 2000 B in the second, and so on.
    let ends: Vec<u64> = (0..4).map(|_| transmitter.transmit(at(0), 1500).as_nanos()).collect();
    assert_eq!(ends, [1_250_000, 2_000_000, 3_250_000, 4_000_000]);
    assert_eq!(profile.capacity(at(4_000_000)), Some(DataSize::from_bytes(6000)));
    assert_eq!(transmitter.rate(at(1_001_000_000)), Some(DataRate::from_bps(16_000_000)));
}

#[test]
fn opportunities_are_shared_or_lost_unused() {
    let moments = [1_000_000, 1_000_000, 3_000_000].map(at).to_vec();
    let profile = RateProfile::Opportunities { at: moments, bytes: 1504 };
    let mut transmitter = Transmitter::new(&profile).unwrap();
    assert_eq!(transmitter.ready_at(at(0)), at(1_000_000));
    // Two packets of 752 B share an opportunity; 1600 B need the second one at 1 ms and a part of the one at 3 ms.
    let ends: Vec<u64> =
        [752, 752, 1600].iter().map(|&bytes| transmitter.transmit(at(1_000_000), bytes).as_nanos()).collect();
    assert_eq!(ends, [1_000_000, 1_000_000, 3_000_000]);
    // The rest of the opportunity at 3 ms is lost by 3.5 ms; the next round begins at 4 ms.
    transmitter.skip_unused_opportunities(at(3_500_000));
    assert_eq!(transmitter.ready_at(at(3_500_000)), at(4_000_000));
    assert_eq!(transmitter.transmit(at(4_000_000), 1504), at(4_000_000));
    transmitter.skip_unused_opportunities(at(1_000_000_000));
    assert_eq!(transmitter.ready_at(at(1_000_000_000)), at(1_000_000_000));
    assert_eq!(profile.capacity(at(6_000_000)), Some(DataSize::from_bytes(6 * 1504)));
    // A window has what a packet can use in it: that at its start, not that at its end.
    for (from, to, count) in [(0, 1, 0), (0, 3, 2), (1, 3, 2), (3, 4, 1), (0, 6, 5), (3, 7, 4)] {
        let bits = profile.bits_between(at(from * 1_000_000), at(to * 1_000_000));
        assert_eq!(bits, Some(f64::from(count * 1504 * 8)), "{from} to {to} ms");
    }
    let profile = RateProfile::Opportunities { at: [0, 1_000_000].map(at).to_vec(), bytes: 1504 };
    assert_eq!(profile.bits_between(at(0), at(1_000_000)), Some(1504.0 * 8.0));
    assert_eq!(transmitter.rate(at(0)), Some(DataRate::from_bps(12_032_000)));
}

#[test]
fn an_outage_pauses_a_transmission() {
    // 1000 B at 1 Mbit/s take 8 ms; the outage lasts from 4 ms to 14 ms.
    let profile = steps(&[(0, 1_000_000), (4_000_000, 0), (14_000_000, 2_000_000)], None);
    let mut transmitter = Transmitter::new(&profile).unwrap();
    assert_eq!(transmitter.transmit(at(0), 1000), at(16_000_000));
    assert_eq!(profile.capacity(at(14_000_000)), Some(DataSize::from_bytes(500)));
    assert_eq!(profile.capacity(at(16_000_000)), Some(DataSize::from_bytes(1000)));
    // The rate for queues is the last one above zero.
    let mut rate_at = |now| transmitter.rate(at(now)).unwrap().as_bps();
    assert_eq!([rate_at(5_000_000), rate_at(14_000_000)], [1_000_000, 2_000_000]);
}

#[test]
fn a_transmission_begins_after_an_outage() {
    let profile = steps(&[(0, 0), (2_000_000, 8_000_000), (4_000_000, 0)], Some(10_000_000));
    let mut transmitter = Transmitter::new(&profile).unwrap();
    let ready = |transmitter: &Transmitter, now| transmitter.ready_at(at(now)).as_nanos();
    // The first rate above zero begins at 2 ms and, after the outage at the end of the period, at 12 ms.
    let times = [0, 2_000_000, 3_999_999, 4_000_000, 11_000_000, 12_500_000];
    assert_eq!(
        times.map(|now| ready(&transmitter, now)),
        [2_000_000, 2_000_000, 3_999_999, 12_000_000, 12_000_000, 12_500_000]
    );
    assert_eq!(transmitter.rate(at(1_000_000)), Some(DataRate::from_bps(8_000_000)));
    assert_eq!(transmitter.rate(at(11_000_000)), Some(DataRate::from_bps(8_000_000)));
    // 1000 B take 1 ms, so two fit into 2 ms and the third waits for the next round.
    let ends: Vec<u64> = (0..3).map(|_| transmitter.transmit(at(0), 1000).as_nanos()).collect();
    assert_eq!(ends, [3_000_000, 4_000_000, 13_000_000]);
}

#[test]
fn rejects_invalid_profiles() {
    for (profile, reason) in [
        (RateProfile::Fixed(DataRate::ZERO), "above 0 bit/s, found \"0 bit/s\""),
        (steps(&[(0, 0), (5, 0)], Some(10)), "above 0 bit/s, found \"0 bit/s\""),
        (
            steps(&[(0, 1), (5_000_000_000, 0)], None),
            "rate is 0 bit/s for ever from 5.000000000 s on: end the outage with a later rate above 0 bit/s",
        ),
        (steps(&[], None), "no rates"),
        (steps(&[(5_000_000_000, 1), (3_000_000_000, 1)], None), "found 3.000000000 s behind 5.000000000 s"),
        (steps(&[(0, 1), (9, 1)], Some(9)), "it repeats after 9 ns"),
        (RateProfile::Opportunities { at: vec![at(0)], bytes: 1504 }, "it repeats after 0 ns"),
    ] {
        let message = profile.check().unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
    assert_eq!(steps(&[(0, 1), (5, 0)], Some(10)).check(), Ok(()));
    assert_eq!(steps(&[(0, 0), (5, 1)], None).check(), Ok(()));
}

#[test]
fn the_rate_is_that_of_now_during_a_transmission() {
    // The transmission ends at 6 ms; the rate changes at 4 ms.
    let profile = steps(&[(0, 1_000_000), (4_000_000, 2_000_000)], None);
    let mut transmitter = Transmitter::new(&profile).unwrap();
    transmitter.transmit(at(0), 1000);
    let mut rate_at = |now| transmitter.rate(at(now)).unwrap().as_bps();
    assert_eq!(
        [rate_at(1_000_000), rate_at(3_999_999), rate_at(4_000_000)],
        [1_000_000, 1_000_000, 2_000_000]
    );
}

#[test]
fn packets_below_a_nanosecond_add_up() {
    // 100 B at 4 Tbit/s take 0.2 ns.
    let rate = DataRate::from_bps(4_000_000_000_000);
    let mut transmitter = Transmitter::new(&RateProfile::Fixed(rate)).unwrap();
    let ends: Vec<u64> = (0..10).map(|_| transmitter.transmit(at(0), 100).as_nanos()).collect();
    assert_eq!(ends, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
}

#[test]
fn the_largest_packet_is_timed_correctly_at_any_rate() {
    // 2^32 − 1 bytes are 34 359 738 360 bit.
    for (bps, nanos) in [(1_000_000_000, 34_359_738_360), (1_000_000_000_000, 34_359_739), (u64::MAX, 2)] {
        let rate = RateProfile::Fixed(DataRate::from_bps(bps));
        assert_eq!(Transmitter::new(&rate).unwrap().transmit(at(0), u32::MAX), at(nanos), "{bps}");
    }
    // 1089 years at 1 bit/s exceed the range of 2^64 ns, 584 years.
    let slow = RateProfile::Fixed(DataRate::from_bps(1));
    assert_eq!(Transmitter::new(&slow).unwrap().transmit(at(0), u32::MAX), Timestamp::MAX);
}

#[test]
fn skips_idle_rounds_in_constant_time() {
    let profile = steps(&[(0, 1_000_000_000), (1, 2_000_000_000)], Some(3));
    let mut transmitter = Transmitter::new(&profile).unwrap();
    let hour = 3_600_000_000_000;
    let mut rate_at = |now| transmitter.rate(at(now)).unwrap().as_bps();
    assert_eq!(
        [rate_at(hour), rate_at(hour + 1), rate_at(2 * hour + 2)],
        [1_000_000_000, 2_000_000_000, 2_000_000_000]
    );
}
