use std::collections::BTreeMap;

use giusto_units::PeerTimestamp;

use super::*;

fn packet(transport: u16) -> Sent {
    Sent { transport: Some(transport), ..Sent::numbered(7, transport, false) }
}

/// Numbers and times in feedback messages, in order.
fn reported(
    unwrapper: &mut TransportFeedbackUnwrapper,
    datagrams: &[Vec<Packet>],
) -> Vec<(u64, Option<PeerTimestamp>)> {
    feedback(datagrams).iter().flat_map(|one| unwrapper.unwrap(one).unwrap().collect::<Vec<_>>()).collect()
}

#[test]
fn arrivals_are_reported_once_and_again_from_a_late_one() {
    let mut receiver = receiver(FeedbackKind::TransportWide);
    for (ms, number) in [(0, 65_534), (10, 65_535), (20, 1)] {
        packet(number).arrive(&mut receiver, at(ms));
    }
    assert!(feedback(&drain(&mut receiver, at(99))).is_empty());
    let mut unwrapper = TransportFeedbackUnwrapper::new();
    let time = |ms: u64| Some(PeerTimestamp::from_nanos(ms * 1_000_000));
    let first = reported(&mut unwrapper, &drain(&mut receiver, at(100)));
    assert_eq!(first, [(65_534, time(0)), (65_535, time(10)), (65_536, None), (65_537, time(20))]);
    packet(2).arrive(&mut receiver, at(120));
    packet(0).arrive(&mut receiver, at(130));
    packet(1).arrive(&mut receiver, at(140));
    let due = receiver.poll_timeout().unwrap();
    let second = reported(&mut unwrapper, &drain(&mut receiver, due));
    assert_eq!(second, [(65_536, time(130)), (65_537, time(20)), (65_538, time(120))]);
}

/// 5 % of the received rate for 68 bytes, calculated for packets of 1028 bytes: 250 ms up to 43.5 kbit/s, 50
/// ms from 217.6 kbit/s on.
#[test]
fn feedback_takes_5_percent_within_its_interval_bounds() {
    for (gap_ms, expected_ms) in [(1000, 250.0), (125, 165.4), (100, 132.3), (50, 66.1), (10, 50.0)] {
        let mut receiver = receiver(FeedbackKind::TransportWide);
        let mut times = Vec::new();
        for step in 0..4000 {
            let now = at(step);
            if step % gap_ms == 0 {
                packet((step / gap_ms) as u16).arrive(&mut receiver, now);
            }
            times.extend(feedback(&drain(&mut receiver, now)).iter().map(|_| step as f64));
        }
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).skip(times.len() / 2).collect();
        // Feedback is sent only if there is something to report.
        let expected: f64 = if gap_ms == 1000 { 1000.0 } else { expected_ms };
        for gap in gaps {
            assert!(
                gap >= expected.floor() && gap <= expected + gap_ms as f64 + 1.0,
                "{gap} of {expected}, {gap_ms}"
            );
        }
    }
}

#[test]
fn a_jump_and_high_loss_fit_into_datagrams() {
    let mut receiver = receiver(FeedbackKind::TransportWide);
    let numbers = (0..3000_u16).map(|i| i * 3).chain([32_000, 32_001]);
    let mut sent = BTreeMap::new();
    for (step, number) in numbers.enumerate() {
        let now = Timestamp::from_nanos(step as u64 * 20_000);
        packet(number).arrive(&mut receiver, now);
        sent.insert(u64::from(number), now);
    }
    let mut unwrapper = TransportFeedbackUnwrapper::new();
    let reported = reported(&mut unwrapper, &drain(&mut receiver, at(100)));
    assert_eq!(reported.len(), 32_002);
    for (number, arrival) in reported {
        let arrival = arrival.map(PeerTimestamp::as_nanos);
        let sent = sent.get(&number).map(|at| at.as_nanos());
        assert!(
            arrival.zip(sent).map_or(arrival == sent, |(reported, at)| reported.abs_diff(at) <= 125_000),
            "{number}"
        );
    }
}
