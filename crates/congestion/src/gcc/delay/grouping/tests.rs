use super::*;

/// The unit tests of libwebrtc's `inter_arrival_unittest.cc` send a group every 5.02 ms, with packets 20 µs
/// apart within a group.
const NEW_GROUP: u64 = 5_020;
const STEP: u64 = 20;

fn packet(sent_us: u64, arrival_ms: u64, bytes: u64) -> ReceivedPacket {
    ReceivedPacket {
        sent: Timestamp::from_nanos(sent_us * 1_000),
        arrival: PeerTimestamp::from_nanos(arrival_ms * 1_000_000),
        size: DataSize::from_bytes(bytes),
    }
}

/// Processes a packet that becomes known on arrival. Returns the difference in µs, ms and bytes.
fn take(grouping: &mut Grouping, sent_us: u64, arrival_ms: u64, bytes: u64) -> Option<(i64, i64, i64)> {
    let now = Timestamp::from_nanos(arrival_ms * 1_000_000);
    let delta = grouping.on_packet(now, packet(sent_us, arrival_ms, bytes)).delta()?;
    Some((delta.departure.as_nanos() / 1_000, delta.arrival.as_nanos() / 1_000_000, delta.size_bytes))
}

fn libwebrtc() -> Grouping {
    Grouping::new(GroupingConfig::libwebrtc())
}

/// `FirstGroup`, `SecondGroup`.
#[test]
fn a_difference_comes_with_the_first_packet_of_the_third_group() {
    let mut grouping = libwebrtc();
    assert_eq!(take(&mut grouping, 0, 17, 1), None);
    assert_eq!(take(&mut grouping, NEW_GROUP, 23, 2), None);
    assert_eq!(take(&mut grouping, 2 * NEW_GROUP, 29, 1), Some((5_020, 6, 1)));
    assert_eq!(take(&mut grouping, 3 * NEW_GROUP, 35, 2), Some((5_020, 6, -1)));
}

/// `AccumulatedGroup`.
#[test]
fn packets_of_a_group_add_up() {
    let mut grouping = libwebrtc();
    take(&mut grouping, 0, 17, 1);
    take(&mut grouping, NEW_GROUP, 28, 2);
    for step in 1..=10 {
        assert_eq!(take(&mut grouping, NEW_GROUP + step * STEP, 23 + 6 * step, 1), None);
    }
    assert_eq!(take(&mut grouping, 2 * NEW_GROUP, 500, 100), Some((5_220, 83 - 17, 11)));
}

/// `OutOfOrderPacket`, `OutOfOrderWithinGroup`: only packets sent before the group are out of order.
#[test]
fn only_packets_sent_before_the_group_are_ignored() {
    for descending in [false, true] {
        let mut grouping = libwebrtc();
        take(&mut grouping, 0, 17, 1);
        take(&mut grouping, NEW_GROUP, 28, 2);
        for step in 1..=10 {
            let place = if descending { 11 - step } else { step };
            assert_eq!(take(&mut grouping, NEW_GROUP + place * STEP, 28 + 6 * step, 1), None);
        }
        let late = grouping.on_packet(Timestamp::ZERO, packet(0, 281, 100));
        assert_eq!(late, Grouped::OutOfOrder);
        assert_eq!(take(&mut grouping, 2 * NEW_GROUP, 500, 100), Some((5_220, 88 - 17, 11)));
    }
}

/// `TwoBursts`: 30 ms apart when sent, 5 ms apart when received.
#[test]
fn packets_released_in_a_burst_are_one_group() {
    let mut grouping = libwebrtc();
    take(&mut grouping, 0, 17, 1);
    for place in 1..=10 {
        assert_eq!(take(&mut grouping, NEW_GROUP + 30_000 * place, 100 + 5 * place, 1), None);
    }
    assert_eq!(take(&mut grouping, NEW_GROUP + 330_000, 156, 100), Some((305_020, 150 - 17, 9)));
}

/// `NoBursts`.
#[test]
fn six_milliseconds_apart_is_no_burst() {
    let mut grouping = libwebrtc();
    take(&mut grouping, 0, 17, 1);
    take(&mut grouping, NEW_GROUP, 28, 2);
    assert_eq!(take(&mut grouping, NEW_GROUP + 30_000, 34, 100), Some((5_020, 11, 1)));
}

/// Sends a packet every 30 ms and returns the result of each. The receiver's clock is shifted by `shift_ms`.
fn with_a_jump(before: u64, after: u64, shift_ms: i64) -> Vec<Grouped> {
    let mut grouping = libwebrtc();
    (1..=before + after)
        .map(|count| {
            let shift = if count > before { shift_ms } else { 0 };
            let arrival = (20_000 + 30 * count).strict_add_signed(shift);
            let now = Timestamp::from_nanos((30_000 + 30 * count) * 1_000_000);
            grouping.on_packet(now, packet((10_000 + 30 * count) * 1_000, arrival, 1_000))
        })
        .collect()
}

fn is_thirty(outcome: &Grouped) -> bool {
    outcome.delta().is_some_and(|delta| {
        delta.departure == TimeDelta::from_millis(30)
            && delta.arrival == TimeDelta::from_millis(30)
            && delta.size_bytes == 0
    })
}

/// `PositiveArrivalTimeJump`: the packet after the jump still completes a valid difference, the next one
/// reveals the jump, and the two after it start again.
#[test]
fn a_clock_that_jumps_ahead_is_a_reset() {
    let outcomes = with_a_jump(2, 5, 3_000);
    assert_eq!(outcomes[..2], [Grouped::Pending; 2]);
    assert!(is_thirty(&outcomes[2]), "{outcomes:?}");
    assert_eq!(outcomes[3], Grouped::Reset(Reset::ClockJump));
    assert_eq!(outcomes[4..6], [Grouped::Pending; 2]);
    assert!(is_thirty(&outcomes[6]), "{outcomes:?}");
    // A smaller jump counts as delay.
    let smaller = with_a_jump(2, 5, 2_999);
    assert_eq!(smaller[3].delta().unwrap().arrival, TimeDelta::from_millis(3_029));
}

/// `NegativeArrivalTimeJump`: three out-of-order findings cause a reset, then two packets start again; the
/// seventh is valid again. libwebrtc's first packet after the jump joins the previous group as a burst, and
/// so completes nothing.
#[test]
fn a_clock_that_is_set_back_is_a_reset_at_the_third_finding() {
    let outcomes = with_a_jump(3, 7, -1_000);
    assert!(is_thirty(&outcomes[2]), "{outcomes:?}");
    assert!(outcomes[3..9].iter().all(|outcome| outcome.delta().is_none()), "{outcomes:?}");
    assert_eq!(outcomes[3], Grouped::Pending);
    assert_eq!(outcomes[4..6], [Grouped::OutOfOrder; 2]);
    assert_eq!(outcomes[6], Grouped::Reset(Reset::Reordered));
    assert!(is_thirty(&outcomes[9]), "{outcomes:?}");
}

/// Packets sent 10 ms apart that arrive every 4 ms: libwebrtc ends the group 100 ms after its first arrival;
/// the draft does not end it.
#[test]
fn libwebrtc_ends_a_burst_after_100_ms_and_the_draft_never() {
    let group_of = |config| {
        let mut grouping = Grouping::new(config);
        take(&mut grouping, 0, 0, 1);
        (1..=100)
            .filter_map(|place| take(&mut grouping, 100_000 + 10_000 * place, 1_000 + 4 * place, 1))
            .map(|(_, _, larger)| larger + 1)
            .next()
    };
    // Arrivals 0, 4, … 96 ms after the first: 25 packets.
    assert_eq!(group_of(GroupingConfig::libwebrtc()), Some(25));
    assert_eq!(group_of(GroupingConfig::draft_02()), None);
}

#[test]
fn burst_gap_of_5_ms_counts_in_libwebrtc_but_not_in_the_draft() {
    let joins = |config| {
        let mut grouping = Grouping::new(config);
        take(&mut grouping, 0, 0, 1);
        take(&mut grouping, 100_000, 100, 1);
        take(&mut grouping, 130_000, 105, 1).is_none()
    };
    assert!(joins(GroupingConfig::libwebrtc()));
    assert!(!joins(GroupingConfig::draft_02()));
}

#[test]
fn a_group_spans_at_most_5_ms_of_departures() {
    for config in [GroupingConfig::libwebrtc(), GroupingConfig::draft_02()] {
        for (later, expected) in [(5_000_000, None), (5_000_001, Some(100_000_000))] {
            let mut grouping = Grouping::new(config);
            let sent = [0, 100_000_000, 100_000_000 + later];
            // Each has a higher delay than the previous one, so that none is part of a burst.
            let last = sent.map(|nanos| {
                let arrival = PeerTimestamp::from_nanos(nanos * 2);
                let packet =
                    ReceivedPacket { sent: Timestamp::from_nanos(nanos), arrival, size: DataSize::ZERO };
                grouping.on_packet(Timestamp::ZERO, packet)
            });
            assert_eq!(last[2].delta().map(|delta| delta.departure.as_nanos()), expected);
        }
    }
}
