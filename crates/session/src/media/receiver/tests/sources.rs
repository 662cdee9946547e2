use proptest::prelude::*;

use super::*;

fn media(sequence: u16, timestamp: u32) -> Sent {
    Sent::of(RtpHeader { ssrc: 7, sequence, timestamp, ..RtpHeader::default() })
}

fn report(receiver: &mut MediaReceiver) -> ReportBlock {
    let due = receiver.poll_timeout().unwrap();
    let blocks = blocks(&drain(receiver, due));
    let [block] = blocks[..] else { panic!("{blocks:?}") };
    block
}

fn with_clock(rate: u32) -> MediaReceiver {
    let payloads = vec![PayloadFormat::audio(0, rate)];
    MediaReceiver::new(repairing(payloads, false, KeyFrameRequest::None)).unwrap()
}

/// RFC 3550 A.3 step by step: expected and received packets of each interval, lost · 256 / expected.
#[test]
fn each_report_covers_the_interval_since_the_previous_one() {
    let mut receiver = receiver(FeedbackKind::ReceiverReports);
    let arrive = |receiver: &mut MediaReceiver, numbers: &[u16], now| {
        for number in numbers {
            media(*number, 0).arrive(receiver, at(now));
        }
        let block = report(receiver);
        (block.fraction_lost, block.cumulative_lost, block.highest_sequence)
    };
    // 65533, 65535 of 65533 to 0: 1 of 4 lost. The cycle is counted.
    assert_eq!(arrive(&mut receiver, &[65_533, 65_535, 0], 0), (64, 1, 65_536));
    // 1 to 3 lost of 1 to 10.
    assert_eq!(arrive(&mut receiver, &[4, 5, 6, 7, 8, 9, 10], 600), (76, 4, 65_546));
    // Late packets count in the interval in which they arrive: 11 expected, and 2 of the previous interval:
    // none lost.
    assert_eq!(arrive(&mut receiver, &[1, 2, 11], 1600), (0, 2, 65_547));
    // Duplicates count likewise, so the number of lost packets may be negative.
    assert_eq!(arrive(&mut receiver, &[11, 11, 11, 12], 2600), (0, -1, 65_548));
    let figures: Vec<_> = receiver.sources().collect();
    let [one] = figures[..] else { panic!("{figures:?}") };
    assert_eq!((one.packets, one.lost, one.duplicates), (14, 2, 3));
    assert_eq!(one.size, DataSize::from_bytes(14_000));
}

#[test]
fn a_jump_is_believed_when_another_packet_follows_it() {
    let numbers = |numbers: &[u16]| {
        let mut receiver = receiver(FeedbackKind::ReceiverReports);
        for number in numbers {
            media(*number, 0).arrive(&mut receiver, at(0));
        }
        let block = report(&mut receiver);
        let packets = receiver.sources().next().unwrap().packets;
        (packets, block.cumulative_lost, block.highest_sequence)
    };
    // 2060 has a wrong bit: it is 12.
    assert_eq!(numbers(&[10, 11, 2060, 13, 14]), (4, 1, 14));
    // 99 were lost, then 1; and a packet from before the gap is late.
    assert_eq!(numbers(&[10, 110, 112]), (3, 100, 112));
    assert_eq!(numbers(&[10, 110, 11, 112]), (4, 99, 112));
    // Sixteen at most, or another packet.
    let found = [numbers(&[10, 26]), numbers(&[10, 27]), numbers(&[10, 27, 28])];
    assert_eq!(found, [(2, 15, 26), (1, 0, 10), (3, 16, 28)]);
    // A restart loses nothing.
    assert_eq!(numbers(&[10, 11, 20_000, 12, 40_000, 40_001, 40_002]), (6, 0, 40_002));
}

#[test]
fn the_packet_that_waited_completes_its_frame_at_its_own_time() {
    let mut receiver = with_clock(8000);
    let mut arrive = |sequence, timestamp, now| {
        media(sequence, timestamp).arrive(&mut receiver, at(now));
        frames(&mut receiver).iter().map(|frame| (frame.rtp_timestamp, frame.at)).collect::<Vec<_>>()
    };
    assert_eq!(arrive(1, 100, 10), [(100, at(10))]);
    assert_eq!(arrive(101, 200, 20), []);
    assert_eq!(arrive(102, 300, 40), [(200, at(20)), (300, at(40))]);
}

#[test]
fn a_further_source_does_not_replace_an_active_one() {
    let mut receiver = receiver(FeedbackKind::ReceiverReports);
    (0..100).for_each(|ssrc| Sent::numbered(ssrc, 0, false).arrive(&mut receiver, at(0)));
    assert_eq!(blocks(&drain(&mut receiver, at(500))).len(), 64);
    let bye = Packet::Bye(Bye { sources: vec![3], reason: None });
    receiver.handle_rtcp(at(600), &bye);
    Sent::numbered(100, 0, false).arrive(&mut receiver, at(700));
    let reported: Vec<_> = blocks(&drain(&mut receiver, at(1500))).iter().map(|block| block.ssrc).collect();
    assert!(reported.contains(&100) && !reported.contains(&3) && reported.len() == 64, "{reported:?}");
}

#[test]
fn a_silent_source_is_reported_again_when_it_sends() {
    let mut receiver = receiver(FeedbackKind::ReceiverReports);
    media(0, 0).arrive(&mut receiver, at(0));
    let mut latest = at(0);
    while let Some(due) = receiver.poll_timeout() {
        receiver.handle_timeout(due);
        drain(&mut receiver, due);
        latest = due;
    }
    // Five intervals of a second: RFC 3550 §6.3.5.
    assert_eq!((latest, receiver.poll_event()), (at(5500), None));
    media(2, 0).arrive(&mut receiver, at(60_000));
    assert_eq!(receiver.poll_timeout(), Some(at(60_500)));
    let block = report(&mut receiver);
    assert_eq!((block.fraction_lost, block.cumulative_lost), (128, 1));
}

#[test]
fn a_session_continues_when_one_of_two_sources_leaves() {
    for kind in [FeedbackKind::TransportWide, FeedbackKind::CongestionControl, FeedbackKind::ReceiverEstimate]
    {
        let mut receiver = super::receiver(kind);
        for (ssrc, number) in [(7, 0), (8, 1)] {
            let sent = Sent::numbered(ssrc, number, false);
            Sent { transport: Some(number), send_time: Some(at(100)), ..sent }.arrive(&mut receiver, at(100));
        }
        receiver.handle_rtcp(at(110), &Packet::Bye(Bye { sources: vec![7], reason: None }));
        assert_eq!(receiver.poll_event(), Some(MediaEvent::Ended { ssrc: 7 }));
        let datagrams = drain(&mut receiver, at(600));
        let reported: Vec<_> = blocks(&datagrams).iter().map(|block| block.ssrc).collect();
        assert_eq!(reported, [8], "{kind:?}");
        // Packets that are unreported at this time are never reported.
        let sent = Sent::numbered(8, 2, false);
        Sent { transport: Some(2), send_time: Some(at(600)), ..sent }.arrive(&mut receiver, at(601));
        receiver.handle_rtcp(at(602), &Packet::Bye(Bye { sources: vec![8], reason: None }));
        assert_eq!((receiver.poll_timeout(), receiver.poll_transmit(at(5000))), (None, None), "{kind:?}");
    }
}

#[test]
fn a_clock_rate_is_determined_from_two_reports() {
    let mut receiver = receiver(FeedbackKind::ReceiverReports);
    for second in 0..3_u64 {
        let time = NtpTimestamp::from_timestamp(at(100_000 + second * 1000));
        let rtp_timestamp = (u32::MAX - 10).wrapping_add(second as u32 * 8000);
        let report = SenderReport { ssrc: 7, time, rtp_timestamp, ..SenderReport::default() };
        receiver.handle_rtcp(at(second * 1000), &Packet::SenderReport(report));
    }
    // 20 ms apart at 8 kHz, the second 36 ms after the first: 16 ms / 16, in units of 1/8000 s.
    media(0, 0).arrive(&mut receiver, at(3000));
    media(1, 160).arrive(&mut receiver, at(3036));
    assert_eq!(report(&mut receiver).jitter, 8);
}

proptest! {
    /// RFC 3550 A.8 in its integer form, with times in units of the timestamp.
    #[test]
    fn jitter_matches_rfc_3550(steps in prop::collection::vec((1_u32..400, 0_u32..800), 2..100)) {
        let mut receiver = with_clock(8000);
        let (mut timestamp, mut arrived) = (u32::MAX - 1000, 0_u32);
        let (mut transit, mut jitter) = (None, 0_i64);
        for (number, (sent, delay)) in steps.into_iter().enumerate() {
            timestamp = timestamp.wrapping_add(sent);
            arrived += delay;
            // 125 µs are one unit at 8 kHz.
            let now = Timestamp::from_nanos(u64::from(arrived) * 125_000);
            media(number as u16, timestamp).arrive(&mut receiver, now);
            let passed = i64::from(arrived.wrapping_sub(timestamp) as i32);
            if let Some(before) = transit.replace(passed) {
                let d: i64 = passed - before;
                jitter += d.abs() - ((jitter + 8) >> 4);
            }
        }
        let found = i64::from(report(&mut receiver).jitter);
        prop_assert!((found - (jitter >> 4)).abs() <= 1, "{} against {}", found, jitter >> 4);
    }
}

/// Each packet is delayed by up to 120 intervals: 60 ms at 2000 packets a second.
#[test]
fn packets_that_overtake_each_other_by_a_hundred_all_count() {
    let mut receiver = receiver(FeedbackKind::ReceiverReports);
    let mut order: Vec<(u32, u16)> = (0..5000_u32)
        .map(|number| (number * 10 + number.wrapping_mul(2_654_435_761) % 1200, number as u16))
        .collect();
    order.sort_unstable();
    for (time, number) in order {
        Sent::numbered(7, number.wrapping_add(64_000), true).arrive(&mut receiver, at(u64::from(time) / 20));
    }
    let figures = receiver.sources().next().unwrap();
    // The last ones that are far ahead of the others may wait for a neighbour.
    assert!(figures.packets >= 4990 && figures.lost <= 10, "{figures:?}");
}

#[test]
fn a_number_far_ahead_waits_for_a_neighbour_and_a_copy_is_none() {
    let mut receiver = receiver(FeedbackKind::ReceiverReports);
    let mut after = |numbers: &[u16], ms: u64| {
        for &number in numbers {
            Sent::numbered(7, number, true).arrive(&mut receiver, at(ms));
        }
        let figures = receiver.sources().next().unwrap();
        (figures.packets, figures.lost)
    };
    assert_eq!(after(&[1, 2, 3], 0), (3, 0));
    // One wrong number, its copy, and the one that it should have been.
    assert_eq!(after(&[1028, 1028, 5], 1), (4, 1));
    // Others far ahead confirm each other; the first of them had a neighbour below it.
    assert_eq!(after(&[200, 190], 2), (6, 194));
    // What waited is forgotten: the same numbers a second later are new.
    assert_eq!(after(&[1030], 1500), (6, 194));
    assert_eq!(after(&[1029], 1501), (8, 1022));
}
