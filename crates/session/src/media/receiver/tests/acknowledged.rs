use giusto_rtp::rtcp::ScreamFeedback;
use proptest::prelude::*;

use super::*;

fn messages_at(receiver: &mut MediaReceiver, ms: u64) -> Vec<ScreamFeedback> {
    only!(ScreamFeedback, drain(receiver, at(ms))).collect()
}

fn came(message: &ScreamFeedback) -> Vec<u16> {
    message.iter().filter(|(_, came)| *came).map(|(number, _)| number).collect()
}

#[test]
fn a_message_is_due_after_a_marker_16_packets_or_40_ms() {
    let mut receiver = receiver(FeedbackKind::ScreamDraft);
    Sent::numbered(7, 65_535, false).arrive(&mut receiver, at(100));
    assert_eq!(receiver.poll_timeout(), Some(at(140)));
    Sent::numbered(7, 0, false).arrive(&mut receiver, at(110));
    assert!(messages_at(&mut receiver, 139).is_empty());
    let [message] = messages_at(&mut receiver, 140)[..] else { panic!() };
    assert_eq!((message.sender_ssrc, message.media_ssrc, came(&message)), (1, 7, vec![0, 65_535]));
    // 110 ms in ticks of 90 kHz: the arrival of the highest packet, not the time of the message.
    assert_eq!(message.time.to_bits(), 9900);
    Sent::numbered(7, 1, true).arrive(&mut receiver, at(150));
    assert_eq!(receiver.poll_timeout(), Some(at(150)));
    assert_eq!(messages_at(&mut receiver, 150).len(), 1);
    for number in 2..17 {
        Sent::numbered(7, number, false).arrive(&mut receiver, at(200));
    }
    assert_eq!((messages_at(&mut receiver, 200).len(), receiver.poll_timeout()), (0, Some(at(240))));
    Sent::numbered(7, 17, false).arrive(&mut receiver, at(200));
    let [message] = messages_at(&mut receiver, 200)[..] else { panic!() };
    assert_eq!(came(&message), (0..18).rev().chain([65_535]).collect::<Vec<_>>());
    assert!(receiver.poll_timeout() > Some(at(500)), "it is reported");
}

#[test]
fn late_packets_and_marked_duplicates_are_reported() {
    let mut receiver = receiver(FeedbackKind::ScreamDraft);
    for (number, ms) in [(10, 0), (12, 50), (43, 100)] {
        Sent::numbered(7, number, true).arrive(&mut receiver, at(ms));
        assert_eq!(messages_at(&mut receiver, ms).len(), 1);
    }
    Sent::numbered(7, 11, false).arrive(&mut receiver, at(150));
    let [message] = messages_at(&mut receiver, 190)[..] else { panic!() };
    assert_eq!((came(&message), message.time.to_bits()), (vec![43, 12, 11], 9000), "10 is one too far back");
    Sent::numbered(7, 43, true).arrive(&mut receiver, at(200));
    Sent::numbered(7, 10, true).arrive(&mut receiver, at(200));
    assert!(receiver.poll_timeout() > Some(at(400)));
    for (number, ecn) in [(43, Ecn::Ce), (44, Ecn::Ce), (45, Ecn::Ect1)] {
        receiver.handle_rtp(at(300), &Sent::numbered(7, number, false).head(), &Payload::default(), ecn);
    }
    let [message] = messages_at(&mut receiver, 340)[..] else { panic!() };
    assert_eq!((message.highest_sequence, message.ecn_echo), (45, 2));
}

#[test]
fn marks_are_counted_modulo_256() {
    let mut receiver = receiver(FeedbackKind::ScreamDraft);
    let echoes = (0..300).flat_map(|number| {
        let (ms, head) = (u64::from(number) * 10, Sent::numbered(7, number, true).head());
        receiver.handle_rtp(at(ms), &head, &Payload::default(), Ecn::Ce);
        messages_at(&mut receiver, ms)
    });
    assert_eq!(echoes.last().map(|message| message.ecn_echo), Some(44));
}

#[test]
fn messages_due_together_share_a_datagram() {
    let mut receiver = receiver(FeedbackKind::ScreamDraft);
    Sent::numbered(7, 1, false).arrive(&mut receiver, at(0));
    Sent::numbered(8, 1, false).arrive(&mut receiver, at(0));
    Sent::numbered(9, 1, false).arrive(&mut receiver, at(20));
    let datagrams = drain(&mut receiver, at(40));
    assert_eq!(datagrams.len(), 1);
    let of: Vec<u32> = only!(ScreamFeedback, datagrams).map(|message| message.media_ssrc).collect();
    assert_eq!(of, [7, 8]);
    assert_eq!(receiver.poll_timeout(), Some(at(60)));
}

/// Rate of messages, IP and UDP included, and whether every number was reported, with `rate` packets per
/// second for ten seconds, where each `frame`th has a marker.
fn load(rate: u64, frame: u64) -> (f64, bool) {
    let mut receiver = receiver(FeedbackKind::ScreamDraft);
    let (mut bytes, mut acknowledged) = (0, std::collections::BTreeSet::new());
    for step in 0..rate * 10 {
        let now = Timestamp::from_nanos(step * 1_000_000_000 / rate);
        Sent::numbered(7, step as u16, step % frame == frame - 1).arrive(&mut receiver, now);
        while let Some(datagram) = receiver.poll_transmit(now) {
            let packets: Vec<_> = Packets::new(&datagram.head).unwrap().map(Result::unwrap).collect();
            let [Packet::ScreamFeedback(message)] = packets[..] else { continue };
            bytes += datagram.head.len() + 28;
            acknowledged.extend(came(&message));
        }
    }
    let last = (rate * 10 - 33) as u16;
    (bytes as f64 * 8.0 / 10.0, (0..last).all(|number| acknowledged.contains(&number)))
}

#[test]
fn messages_take_75_kbps_unless_a_packet_would_be_lost() {
    for (rate, frame, least, most) in [
        // §10: "~12kbps (including IP and UDP)", at 30 frames per second.
        (30, 1, 11_500.0, 13_000.0),
        (120, 4, 11_500.0, 13_000.0),
        (360, 12, 11_500.0, 13_000.0),
        // Each packet has a marker: 1000 messages per second would be 416 kbit/s. Datagrams of 52 bytes every 5.5
        // ms are sent with the next packet, so every 6 ms.
        (1000, 1, 69_000.0, 69_500.0),
        // Of 6000 packets per second one message covers 32: 78 kbit/s.
        (6000, 100, 75_000.0, 82_000.0),
    ] {
        let (found, complete) = load(rate, frame);
        assert!((least..=most).contains(&found) && complete, "{rate} {frame}: {found}");
    }
}

#[test]
fn excess_messages_delay_others_by_at_most_100_ms() {
    let mut receiver = receiver(FeedbackKind::ScreamDraft);
    for step in 0..20_000_u64 {
        let now = Timestamp::from_nanos(step * 50_000);
        Sent::numbered(7, step as u16, false).arrive(&mut receiver, now);
        while receiver.poll_transmit(now).is_some() {}
    }
    Sent::numbered(7, 20_000, true).arrive(&mut receiver, at(1000));
    let due = receiver.poll_timeout().unwrap();
    assert!((at(1050)..=at(1100)).contains(&due), "{due:?}");
}

#[test]
fn it_requests_a_lower_rate_while_above_the_bound() {
    let config = MediaReceiverConfig {
        quench_above: Some(DataRate::from_bps(500_000)),
        ..MediaReceiverConfig::new(1, "", FeedbackKind::ScreamDraft)
    };
    let mut receiver = MediaReceiver::new(config).unwrap();
    let mut asked = Vec::new();
    // 1028 bytes every 20 ms are 411 kbit/s; every 10 ms, 822 kbit/s.
    let times = (0..100).map(|n| n * 20).chain((200..400).map(|n| n * 10)).chain((200..400).map(|n| n * 20));
    for (number, ms) in (0..).zip(times) {
        Sent::numbered(7, number, true).arrive(&mut receiver, at(ms));
        asked.extend(messages_at(&mut receiver, ms).iter().map(|message| (ms, message.source_quench)));
    }
    let from = asked.iter().find(|(_, asked)| *asked).unwrap().0;
    let until = asked.iter().rfind(|(_, asked)| *asked).unwrap().0;
    // 500 kbit/s is between the two: reached after a fifth of the second over which it is measured, and left
    // after four fifths.
    assert!((2100..=2400).contains(&from) && (4600..=4950).contains(&until), "{from} {until}");
}

#[test]
fn a_restarted_numbering_is_accepted_after_64_packets() {
    let mut receiver = receiver(FeedbackKind::ScreamDraft);
    Sent::numbered(7, 30_000, true).arrive(&mut receiver, at(0));
    messages_at(&mut receiver, 0);
    // A stray one is not of the new numbering.
    Sent::numbered(7, 20_000, true).arrive(&mut receiver, at(100));
    for number in (0..64).filter(|number| ![40, 41].contains(number)) {
        Sent::numbered(7, 1000 + number, true).arrive(&mut receiver, at(100));
    }
    assert!(messages_at(&mut receiver, 100).is_empty());
    Sent::numbered(7, 1064, true).arrive(&mut receiver, at(100));
    // All but two arrived: they are not reported to the sender as lost.
    let [message] = messages_at(&mut receiver, 100)[..] else { panic!() };
    assert_eq!(
        came(&message),
        (1032..=1064).rev().filter(|number| ![1040, 1041].contains(number)).collect::<Vec<_>>()
    );
}

proptest! {
    /// With lost, duplicated and reordered packets: the highest number is the highest, and exactly the
    /// received packets are reported.
    #[test]
    fn messages_report_exactly_the_received_packets(
        start: u16,
        steps in prop::collection::vec((0_u64..30_000_000, 0_u16..60, -4_i16..40, any::<bool>()), 1..300),
    ) {
        let mut receiver = receiver(FeedbackKind::ScreamDraft);
        let mut here = std::collections::BTreeMap::new();
        let (mut now, mut number, mut highest) = (0, 0_i64, i64::MIN);
        for (wait, lost, displaced, marker) in steps {
            now += wait;
            number += 1 + i64::from(lost / 50) * i64::from(lost);
            let sent = number + i64::from(displaced.min(0)) * 9;
            let time = Timestamp::from_nanos(now);
            Sent::numbered(7, start.wrapping_add(sent as u16), marker).arrive(&mut receiver, time);
            highest = highest.max(sent);
            // In ticks of 90 kHz.
            here.entry(sent).or_insert((now * 9 / 100_000) as u32);
            for message in only!(ScreamFeedback, drain(&mut receiver, time)) {
                prop_assert_eq!(message.highest_sequence, start.wrapping_add(highest as u16));
                prop_assert_eq!(message.time.to_bits(), here[&highest]);
                for (behind, (number, came)) in (0_i64..).zip(message.iter()) {
                    prop_assert_eq!(number, start.wrapping_add((highest - behind) as u16));
                    prop_assert_eq!(came, here.contains_key(&(highest - behind)), "{}", behind);
                }
            }
        }
    }
}
