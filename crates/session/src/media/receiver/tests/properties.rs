use std::collections::BTreeMap;

use giusto_rtp::NtpShortUnwrapper;
use giusto_units::PeerTimestamp;
use proptest::prelude::*;

use super::{congestion::reports, *};

proptest! {
    /// A sender's packets, lost, duplicated and reordered: the feedback reports what arrived.
    #[test]
    fn feedback_reports_exactly_the_received_packets(
        start: u16,
        steps in prop::collection::vec((0_u64..30_000_000, 0_u16..10, -3_i32..6), 1..400),
        by_stream: bool,
    ) {
        reports_what_arrived(start, &steps, by_stream)?;
    }
}

/// The first packet reported has number 2; after the first feedback number -4 arrives, so that the second one begins below zero.
#[test]
fn feedback_reports_a_number_below_zero() {
    let millis = [0, 26, 14, 25, 6];
    let lost = [8, 8, 0, 0, 0];
    let steps: Vec<_> =
        millis.into_iter().zip(lost).map(|(wait, lost)| (wait * 1_000_000, lost, 0)).collect();
    for by_stream in [false, true] {
        reports_what_arrived(0, &[steps.as_slice(), &[(29_000_000, 0, -3)]].concat(), by_stream).unwrap();
    }
}

/// Feeds packets to a receiver: each step is the time since the packet before in ns, the packets lost before it times 8, and, if negative,
/// minus a quarter of how many sequence numbers the packet is late.
fn reports_what_arrived(start: u16, steps: &[(u64, u16, i32)], by_stream: bool) -> Result<(), TestCaseError> {
    let kind = if by_stream { FeedbackKind::CongestionControl } else { FeedbackKind::TransportWide };
    let mut receiver = receiver(kind);
    let mut unwrapper = TransportFeedbackUnwrapper::new();
    let mut clock = NtpShortUnwrapper::new();
    // By the 16 bits: the numbers do not wrap within the test.
    let (mut came, mut reported) = (BTreeMap::new(), BTreeMap::<u16, Option<PeerTimestamp>>::new());
    let (mut now, mut number) = (0, start);
    let end = now + 1_000_000_000_000;
    for (wait, lost, displaced) in steps.iter().copied().chain([(end, 0, 1)]) {
        now += wait;
        while let Some(due) = receiver.poll_timeout().filter(|due| due.as_nanos() <= now) {
            let datagrams = drain(&mut receiver, due);
            for one in feedback(&datagrams) {
                let numbers = (0..).map(|place: u16| one.base_sequence.wrapping_add(place));
                reported.extend(numbers.zip(unwrapper.times(&one).unwrap()));
            }
            for report in reports(&datagrams) {
                let report_at = clock.unwrap(report.time).unwrap();
                for stream in &report.streams {
                    let packets = stream.iter();
                    reported.extend(
                        packets.map(|(n, one)| (n, one.and_then(|one| one.offset.arrival(report_at)))),
                    );
                }
            }
            // No packet that had arrived is reported as lost, and none that had not as received. A
            // receiver report alone contains neither.
            let is_feedback = !feedback(&datagrams).is_empty() || !reports(&datagrams).is_empty();
            for (number, reported) in reported.iter().filter(|_| is_feedback) {
                prop_assert_eq!(reported.is_some(), came.contains_key(number), "{}", number);
            }
            receiver.handle_timeout(due);
        }
        if wait == end {
            break;
        }
        number = number.wrapping_add(lost / 8).wrapping_add(1);
        let sent = number.wrapping_add_signed(if displaced < 0 { displaced as i16 * 4 } else { 0 });
        let packet = Sent { transport: Some(sent), ..Sent::numbered(7, sent, false) };
        packet.arrive(&mut receiver, Timestamp::from_nanos(now));
        came.entry(sent).or_insert(now);
    }
    let max = if by_stream { 1_000_000 } else { 125_000 };
    for (number, at) in came {
        let reported = reported.get(&number).copied().flatten().map(PeerTimestamp::as_nanos);
        prop_assert!(
            reported.is_some_and(|reported| reported.abs_diff(at) <= max),
            "{} at {}: {:?}",
            number,
            at,
            reported
        );
    }
    Ok(())
}
