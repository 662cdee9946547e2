use std::collections::BTreeMap;

use giusto_rtp::NtpShortUnwrapper;
use giusto_units::PeerTimestamp;
use proptest::prelude::*;

use super::{congestion::reports, *};

#[derive(Debug, Clone)]
enum Operation {
    /// Arbitrary bytes.
    Noise(Vec<u8>),
    /// A packet, truncated to this length.
    Media(Sent, usize),
    Rtcp(Packet),
    Timeout,
    Drain,
    /// The local clock makes this step, forwards or backwards.
    Time(i64),
}

fn operation() -> impl Strategy<Value = Operation> {
    type Fields = (u32, u16, u32, u16, u64, u8, usize);
    let media = |(ssrc, sequence, timestamp, transport, send_time, payload_type, cut): Fields| {
        let marker = sequence % 5 == 4;
        let header = RtpHeader { marker, payload_type, sequence, timestamp, ssrc, extension: None };
        let send_time = Some(Timestamp::from_nanos(send_time));
        Operation::Media(Sent { header, transport: Some(transport), send_time }, cut)
    };
    let any_media =
        (0_u32..4, any::<u16>(), any::<u32>(), any::<u16>(), any::<u64>(), 96_u8..99, 0_usize..80);
    let near = (0_u32..2, 0_u16..60, 0_u32..12, 0_u16..60, 0_u64..1_000_000_000, Just(96_u8), Just(80_usize));
    let report = (0_u32..4, any::<u64>(), any::<u32>()).prop_map(|(ssrc, time, rtp_timestamp)| {
        let time = NtpTimestamp::from_bits(time);
        Packet::SenderReport(SenderReport { ssrc, time, rtp_timestamp, ..SenderReport::default() })
    });
    let bye = (0_u32..4).prop_map(|ssrc| Packet::Bye(Bye { sources: vec![ssrc], reason: None }));
    let step = prop_oneof![-10_000_000_i64..100_000_000, -10_000_000_000_i64..10_000_000_000, any::<i64>()];
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..60).prop_map(Operation::Noise),
        4 => any_media.prop_map(media),
        8 => near.prop_map(media),
        2 => prop_oneof![report, bye].prop_map(Operation::Rtcp),
        1 => Just(Operation::Timeout),
        3 => Just(Operation::Drain),
        4 => step.prop_map(Operation::Time),
    ]
}

proptest! {
    #[test]
    fn any_input_is_safe_and_the_output_ends(
        // It accepts all kinds.
        kind in prop::sample::select(giusto_congestion::Fixed::REQUIREMENTS.accepted),
        operations in prop::collection::vec(operation(), 0..200),
    ) {
        let mut config = MediaReceiverConfig::new(1, &"ü".repeat(200), kind);
        config.payloads = vec![PayloadFormat::video(96), PayloadFormat::audio(97, 48_000), PayloadFormat::padding(98)];
        let mut receiver = MediaReceiver::new(config).unwrap();
        let (mut now, mut fed) = (0_u64, 0);
        for operation in operations {
            let time = Timestamp::from_nanos(now);
            match operation {
                Operation::Noise(bytes) => {
                    fed += 1;
                    receiver.handle_rtp(time, &bytes, &Payload::default(), Ecn::Ce);
                }
                Operation::Media(sent, cut) => {
                    fed += 1;
                    let mut head = sent.head();
                    head.truncate(cut);
                    receiver.handle_rtp(time, &head, &Payload::zeros(DataSize::from_bytes(900)), Ecn::Ect1);
                }
                Operation::Rtcp(packet) => receiver.handle_rtcp(time, &packet),
                Operation::Timeout => receiver.handle_timeout(time),
                Operation::Drain => {
                    let latest = receiver.now.max(time);
                    drain(&mut receiver, if latest == Timestamp::MAX { continue } else { latest });
                }
                // At the latest representable times there is no later deadline.
                Operation::Time(step) => now = now.saturating_add_signed(step).min(u64::MAX / 2),
            }
        }
        let counted: u64 = receiver.sources().map(|one| one.packets + one.duplicates).sum();
        prop_assert!(counted <= fed, "{} of {}", counted, fed);
    }

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
