//! Tests of the history with RTCP messages.

use giusto_rtp::{
    NtpDelay, NtpShort, NtpTimestamp,
    rtcp::{
        ArrivalOffset, ArrivalTicks, CongestionFeedback, Packet, PacketReception, ReceiverReport,
        ReceptionTime, Remb, ReportBlock, ScreamFeedback, StreamFeedback, TransportFeedback,
    },
};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta};
use proptest::prelude::*;

use super::{History, OutgoingPacket, Reported, RtpId};
use crate::feedback::{Extension, Feedback, LossReport, PacketReport};
use crate::testing::{at, ms, peer_at};

const SIZE: DataSize = DataSize::from_bytes(1000);

const SSRC: u32 = 7;
/// Sequence number of the first packet, shortly before the wrap.
const FIRST: u16 = 65_530;

fn packet(number: u64) -> OutgoingPacket {
    let sequence = FIRST.wrapping_add(number as u16);
    OutgoingPacket {
        transport_sequence: Some(sequence),
        rtp: Some(RtpId { ssrc: SSRC, sequence }),
        size: SIZE,
        probe: None,
    }
}

/// A history of `count` packets, one per millisecond.
fn sent(count: u64) -> History {
    let mut history = History::new();
    for number in 0..count {
        assert_eq!(history.on_sent(at(number), packet(number)).sequence, number);
    }
    history
}

/// Number of a packet, its arrival time in milliseconds, and whether it is marked.
type Reports = Vec<(u64, Option<u64>, bool)>;

fn summary(feedback: Option<&Feedback<'_>>) -> Reports {
    let millis = |time: PeerTimestamp| time.as_nanos() / 1_000_000;
    let reported = |one: &PacketReport| (one.sent.sequence, one.arrival.map(millis), one.ecn == Ecn::Ce);
    feedback.map_or_else(Vec::new, |feedback| feedback.packets.iter().map(reported).collect())
}

/// Reports packet `highest` at `millis`, with `received` as the bitmap of the packets before it. Returns
/// whether the receiver requests a lower rate, and the packet reports.
fn on_scream(
    history: &mut History,
    highest: u16,
    millis: u64,
    received: u32,
    ecn_echo: u8,
) -> (bool, Reports) {
    let message = ScreamFeedback {
        media_ssrc: SSRC,
        time: ReceptionTime::from_timestamp(at(millis)),
        highest_sequence: FIRST.wrapping_add(highest),
        ecn_echo,
        received,
        ..ScreamFeedback::default()
    };
    on_scream_message(history, message)
}

fn on_scream_message(history: &mut History, message: ScreamFeedback) -> (bool, Reports) {
    let feedback = history.on_packets(at(100), &[Packet::ScreamFeedback(message)]);
    (
        feedback.is_some_and(|feedback| feedback.extension == Some(Extension::SourceQuench)),
        summary(feedback.as_ref()),
    )
}

/// What a message at 50 ms reports.
fn reported(history: &mut History, message: Packet) -> Reports {
    summary(history.on_packets(at(50), &[message]).as_ref())
}

#[test]
fn scream_feedback_reports_arrivals_and_gaps() {
    let mut history = sent(60);
    // Of 0 to 4, number 1 is missing.
    let (quench, reported) = on_scream(&mut history, 4, 100, 0b1101 << 28, 0);
    let came = Some(100);
    assert!(!quench);
    assert_eq!(
        reported,
        [(0, came, false), (1, None, false), (2, came, false), (3, came, false), (4, came, false)]
    );
    assert_eq!(history.in_flight(), SIZE * 55);
    // The packet arrived late. The repeated message has no effect.
    assert_eq!(on_scream(&mut history, 4, 100, 0b1111 << 28, 0).1, [(1, came, false)]);
    assert_eq!(on_scream(&mut history, 4, 100, 0b1111 << 28, 0).1, []);
    // 6 to 17 lie before the 33 packets: their fate is unknown, but they are no longer in flight.
    let (_, reported) = on_scream(&mut history, 50, 200, u32::MAX, 0);
    assert_eq!(reported, (18..=50).map(|number| (number, Some(200), false)).collect::<Vec<_>>());
    assert_eq!(history.in_flight(), SIZE * 9);
}

#[test]
fn the_ecn_echo_marks_the_latest_new_packets() {
    let mut history = sent(1000);
    let marked = |(_, reported): (_, Reports)| {
        reported.iter().filter(|one| one.2).map(|one| one.0).collect::<Vec<_>>()
    };
    assert_eq!(marked(on_scream(&mut history, 3, 10, 0b111 << 29, 2)), [2, 3]);
    assert_eq!(marked(on_scream(&mut history, 5, 20, 0b11111 << 27, 2)), []);
    // A message is lost, but its marks are not. Missing packets are not marked.
    assert_eq!(marked(on_scream(&mut history, 9, 30, 0b1011_1111 << 24, 5)), [6, 8, 9]);
    // The count wraps: 256 + 1 are 252 more, of which 33 are assigned to a packet.
    assert_eq!(marked(on_scream(&mut history, 300, 40, u32::MAX, 1)).len(), 33);
    assert_eq!(marked(on_scream(&mut history, 302, 50, u32::MAX, 2)), [302]);
}

#[test]
fn overtaken_scream_feedback_reports_arrivals_only() {
    let mut history = sent(100);
    let quench = |highest: u16, ecn_echo, received| ScreamFeedback {
        media_ssrc: SSRC,
        highest_sequence: FIRST.wrapping_add(highest),
        ecn_echo,
        source_quench: true,
        received,
        ..ScreamFeedback::default()
    };
    assert!(on_scream_message(&mut history, quench(60, 9, 0)).0);
    // 20 arrived, 19 was late; neither is lost, and 247 packets are not marked.
    let (asks, reported) = on_scream_message(&mut history, quench(20, 0, 0b11 << 30 & !(1 << 31)));
    assert_eq!((asks, reported), (false, vec![(18, Some(0), false), (20, Some(0), false)]));
    // Of two messages about the same packet, the one with the lower count is older.
    assert!(!on_scream_message(&mut history, quench(60, 8, 0)).0);
    assert!(on_scream_message(&mut history, quench(60, 9, 0)).0);
    assert!(on_scream(&mut history, 61, 100, 0, 9).1.iter().all(|one| !one.2));
    // Packets that were never sent.
    assert_eq!(on_scream(&mut history, 100, 100, 0, 0), (false, vec![]));
    assert_eq!(on_scream(&mut history, u16::MAX, 100, 0, 0), (false, vec![]));
}

#[test]
fn scream_feedback_follows_a_clock_that_wraps_or_jumps_back() {
    let day = 24 * 3_600_000;
    // The clock wraps every 13 h 15 min; messages without new reports do not advance it. The nearest value to one second is 27 minutes
    // before zero, since 32 bits at 90 kHz are 47 722 s.
    for (first, repeated, next) in [(40_000_000, day, 60_000_000), (1000, 1000, 46_100_000)] {
        let mut history = sent(10);
        assert_eq!(on_scream(&mut history, 0, first, 0, 0).1, [(0, Some(first), false)]);
        assert_eq!(on_scream(&mut history, 0, repeated, 0, 0).1, []);
        assert_eq!(on_scream(&mut history, 1, next, 1 << 31, 0).1, [(1, Some(next), false)]);
        assert_eq!(on_scream(&mut history, 2, next + 20, 0b11 << 30, 0).1, [(2, Some(next + 20), false)]);
    }
}

/// Transport-wide feedback that begins with packet `base`: arrival times in milliseconds on the receiver's
/// clock.
fn transport(base: u64, arrivals: &[Option<i64>]) -> Packet {
    let reference = arrivals.iter().flatten().min().map_or(0, |&first| first / 64);
    let ticks = |&millis: &i64| ArrivalTicks::new(((millis - reference * 64) * 4) as i32);
    Packet::TransportFeedback(TransportFeedback {
        media_ssrc: SSRC,
        base_sequence: FIRST.wrapping_add(base as u16),
        reference_time: reference as i32,
        packets: arrivals.iter().map(|arrival| arrival.as_ref().map(ticks)).collect(),
        ..TransportFeedback::default()
    })
}

#[test]
fn transport_feedback_is_new_once_and_again_after_a_loss() {
    let mut history = sent(20);
    let first = transport(5, &[Some(100), None, Some(102)]);
    let reports = reported(&mut history, first.clone());
    assert_eq!(reports, [(5, Some(100), false), (6, None, false), (7, Some(102), false)]);
    assert_eq!(history.in_flight(), SIZE * 12);
    assert!(history.on_packets(at(51), &[first]).is_none());
    let late = transport(4, &[None, None, Some(110), None]);
    assert_eq!(reported(&mut history, late), [(4, None, false), (6, Some(110), false)]);
    assert_eq!(history.in_flight(), SIZE * 12);
}

#[test]
fn transport_feedback_about_packets_never_sent_changes_nothing() {
    let mut history = sent(5);
    assert!(history.on_packets(at(50), &[transport(5, &[Some(1); 30])]).is_none());
    assert!(history.on_packets(at(50), &[transport(60_000, &[Some(1); 30])]).is_none());
    let foreign = Packet::TransportFeedback(TransportFeedback {
        media_ssrc: 99,
        base_sequence: FIRST,
        packets: vec![Some(ArrivalTicks::new(0))],
        ..TransportFeedback::default()
    });
    assert!(history.on_packets(at(50), &[foreign]).is_none());
    // As many as the field can count, from the last packet on: no number wraps around to packets that were
    // sent.
    let mut many = sent(40_000);
    let feedback = many.on_packets(at(50_000), &[transport(39_999, &vec![Some(1); 65_535])]).unwrap();
    assert_eq!(summary(Some(&feedback)), [(39_999, Some(1), false)]);
}

#[test]
fn the_reference_time_of_transport_feedback_may_wrap() {
    let mut history = sent(10);
    let at_tick = |number: u16, reference_time: i32| {
        Packet::TransportFeedback(TransportFeedback {
            base_sequence: FIRST.wrapping_add(number),
            reference_time,
            packets: vec![Some(ArrivalTicks::new(0))],
            ..TransportFeedback::default()
        })
    };
    // 24 bits of 64 ms, read as unsigned: the last step before the wrap, and the first one after it.
    let mut arrival = |message| reported(&mut history, message)[0].1.unwrap();
    let (before, after) = (arrival(at_tick(0, -1)), arrival(at_tick(1, 0)));
    // Late feedback from before the wrap.
    let late = arrival(at_tick(2, -2));
    assert_eq!((after - before, before - late), (64, 64));
}

/// RFC 8888 feedback from packet `begin` on: mark, and arrival in milliseconds before 1 s.
fn rfc_8888(begin: u16, packets: &[Option<(Ecn, i64)>]) -> Packet {
    let reception = |&(ecn, before)| PacketReception { ecn, offset: ArrivalOffset::from_delta(ms(before)) };
    let packets = packets.iter().map(|packet| packet.as_ref().map(reception)).collect();
    let own = StreamFeedback { ssrc: SSRC, begin_sequence: FIRST.wrapping_add(begin), packets };
    let foreign = StreamFeedback { ssrc: 99, ..own.clone() };
    let time = NtpShort::from_timestamp(at(1000));
    Packet::CongestionFeedback(CongestionFeedback { sender_ssrc: 1, streams: vec![foreign, own], time })
}

#[test]
fn rfc_8888_feedback_gives_arrival_times_and_marks() {
    let message = rfc_8888(2, &[Some((Ecn::Ect0, 500)), None, Some((Ecn::Ce, 0))]);
    let reports = reported(&mut sent(10), message);
    assert_eq!(reports, [(2, Some(500), false), (3, None, false), (4, Some(1000), true)]);
}

#[test]
fn a_packet_without_a_time_has_arrived_by_the_report() {
    let message = |offset| {
        let Packet::CongestionFeedback(mut feedback) = rfc_8888(2, &[Some((Ecn::Ce, 0))]) else {
            unreachable!()
        };
        feedback.streams[1].packets[0].as_mut().unwrap().offset = offset;
        Packet::CongestionFeedback(feedback)
    };
    let mut history = sent(10);
    let reports = reported(&mut history, message(ArrivalOffset::UNAVAILABLE));
    assert_eq!((reports, history.in_flight()), (vec![(2, Some(1000), true)], SIZE * 7));
    assert_eq!(reported(&mut sent(10), message(ArrivalOffset::from_delta(ms(500)))), [(2, Some(500), true)]);
}

#[test]
fn reports_of_an_own_format_are_new_once_in_order_and_settle_earlier_packets() {
    let mut history = sent(6);
    let arrived = |millis| Some(peer_at(millis));
    let [own, again] = [(3, arrived(53), Ecn::Ce), (3, arrived(54), Ecn::Ce)];
    let never_sent = [(6, arrived(59), Ecn::Ect1), (u64::MAX, None, Ecn::Ce)];
    let reports =
        [own, (1, None, Ecn::NotEct), (0, arrived(50), Ecn::Ect1), never_sent[0], never_sent[1], again];
    let feedback = history.on_reports(at(60), &reports).unwrap();
    assert_eq!(feedback.in_flight, SIZE * 2);
    assert_eq!(summary(Some(&feedback)), [(0, Some(50), false), (1, None, false), (3, Some(53), true)]);
    assert!(history.on_reports(at(61), &reports).is_none() && history.on_reports(at(61), &[]).is_none());
    let late = history.on_reports(at(62), &[(1, arrived(61), Ecn::Ect1), (2, None, Ecn::NotEct)]);
    assert_eq!(summary(late.as_ref()), [(1, Some(61), false), (2, None, false)]);
    assert_eq!(history.reported(), Reported { packets: 3, size: SIZE * 3, lost_packets: 1 });
    assert!(history.on_reports(at(63), &[(3, None, Ecn::NotEct)]).is_none(), "what has arrived is not lost");
}

#[test]
fn marks_on_packets_sent_as_not_ect_are_ignored() {
    for (ecn, is_marked) in [(Ecn::NotEct, false), (Ecn::Ect0, true), (Ecn::Ect1, true)] {
        let mut history = sent(10).with_ecn(ecn);
        let reports = reported(&mut history, rfc_8888(0, &[Some((Ecn::Ce, 0))]));
        assert_eq!(reports, [(0, Some(1000), is_marked)], "{ecn:?}");
        let own = history.on_reports(at(60), &[(1, Some(peer_at(5)), Ecn::Ce)]);
        assert_eq!(summary(own.as_ref()), [(1, Some(5), is_marked)], "{ecn:?}");
        // The draft's message counts marks.
        let (_, reported) = on_scream(&mut sent(10).with_ecn(ecn), 3, 10, 0b111 << 29, 2);
        assert_eq!(reported.iter().any(|one| one.2), is_marked, "{ecn:?}");
    }
}

#[test]
fn a_receiver_report_gives_losses_and_the_rtt() {
    // This sender's sender reports give 1000 s at its time zero.
    let ntp = NtpTimestamp::from_timestamp(at(1_000_000));
    let mut history = sent(20).with_ntp_at_zero(ntp);
    let block = ReportBlock {
        ssrc: SSRC,
        highest_sequence: u32::from(FIRST.wrapping_add(9)),
        cumulative_lost: 2,
        last_sender_report: Some(NtpShort::from_timestamp(at(1_000_010))),
        delay_since_last: NtpDelay::from_delta(TimeDelta::from_millis(20)),
        ..ReportBlock::default()
    };
    let report = Packet::ReceiverReport(ReceiverReport { ssrc: 1, blocks: vec![block] });
    let feedback = history.on_packets(at(100), std::slice::from_ref(&report)).unwrap();
    assert_eq!(feedback.loss, Some(LossReport { ratio: 0.2, expected_packets: 10 }));
    let rtt = feedback.rtt.unwrap();
    assert!((rtt - TimeDelta::from_millis(70)).abs() < TimeDelta::from_micros(50), "{rtt:?}");
    assert!(history.on_packets(at(200), std::slice::from_ref(&report)).is_none(), "repeated");
    // Without the time at zero, a reference that happens to look plausible says nothing.
    for (ntp, is_known) in [(None, false), (Some(NtpTimestamp::default()), true)] {
        let mut history = ntp.map_or(sent(20), |ntp| sent(20).with_ntp_at_zero(ntp));
        let last_sender_report = Some(NtpShort::from_timestamp(at(10)));
        let report = ReceiverReport { ssrc: 1, blocks: vec![ReportBlock { last_sender_report, ..block }] };
        let feedback = history.on_packets(at(100), &[Packet::ReceiverReport(report)]).unwrap();
        assert_eq!((feedback.rtt.is_some(), feedback.loss.is_some()), (is_known, true));
    }
}

#[test]
fn a_compound_packet_gives_one_feedback() {
    let mut history = sent(10);
    let mut datagram = Vec::new();
    ReceiverReport { ssrc: 1, blocks: vec![] }.write(&mut datagram).unwrap();
    Remb { sender_ssrc: 1, bitrate: DataRate::from_bps(500_000), sources: vec![SSRC] }
        .write(&mut datagram)
        .unwrap();
    // First it is reported as missing, then as received.
    transport(0, &[Some(64), None, Some(65)]).write(&mut datagram).unwrap();
    transport(1, &[Some(66)]).write(&mut datagram).unwrap();
    let feedback = history.on_rtcp(at(50), &datagram).unwrap().unwrap();
    assert_eq!(feedback.receiver_estimate, Some(DataRate::from_bps(500_000)));
    assert_eq!(summary(Some(&feedback)), [(0, Some(64), false), (1, Some(66), false), (2, Some(65), false)]);
    assert_eq!(feedback.in_flight, SIZE * 7);
}

#[test]
fn damaged_rtcp_is_an_error_and_changes_nothing() {
    let mut history = sent(10);
    let mut datagram = Vec::new();
    transport(0, &[Some(64)]).write(&mut datagram).unwrap();
    let whole = datagram.clone();
    datagram.extend([0x8f, 205, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]);
    assert!(history.on_rtcp(at(50), &datagram).is_err());
    assert!(history.on_rtcp(at(50), &[0; 4]).is_err());
    assert_eq!(history.in_flight(), SIZE * 10);
    assert_eq!(history.on_rtcp(at(50), &whole).unwrap().unwrap().packets.len(), 1);
}

#[test]
fn packets_of_the_previous_route_are_not_reported() {
    let mut history = sent(10);
    history.on_route_change();
    assert_eq!(history.in_flight(), DataSize::ZERO);
    assert!(history.on_packets(at(50), &[transport(0, &[Some(64); 10])]).is_none());
    assert_eq!(history.on_sent(at(60), packet(10)).in_flight, SIZE);
    let reports =
        summary(history.on_packets(at(90), &[transport(8, &[Some(64), Some(65), Some(66)])]).as_ref());
    assert_eq!(reports, [(10, Some(66), false)]);
}

#[test]
fn in_flight_falls_to_zero_a_minute_after_the_last_packet() {
    let mut history = sent(10);
    assert!(!history.on_timeout(at(60_000)));
    let next = history.next_timeout().unwrap();
    assert!(next > at(60_000) && next < at(60_001), "{next:?}");
    assert!(history.on_timeout(at(60_010)));
    assert_eq!((history.in_flight(), history.next_timeout()), (DataSize::ZERO, None));
}

/// An action of the receiver on one packet.
#[derive(Debug, Clone, Copy)]
enum Step {
    Send(u8),
    Arrive(u8),
    Report { back: u8, count: u8 },
    Lie { base: u16, count: u8, time: i32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u8>().prop_map(Step::Send),
        4 => any::<u8>().prop_map(Step::Arrive),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(back, count)| Step::Report { back, count }),
        1 => (any::<u16>(), any::<u8>(), any::<i32>()).prop_map(|(base, count, time)| Step::Lie { base, count, time }),
    ]
}

proptest! {
    #[test]
    fn each_packet_is_reported_at_most_twice_and_with_its_arrival(steps in prop::collection::vec(step(), 1..300), honest: bool) {
        let mut history = History::new();
        // Arrival time of each packet, and its reports.
        let mut arrivals: Vec<Option<i64>> = Vec::new();
        let mut reported: Vec<Vec<Option<u64>>> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let now = at(number as u64);
            let message = match step {
                Step::Send(count) => {
                    for _ in 0..count % 8 {
                        let sent = history.on_sent(now, packet(arrivals.len() as u64));
                        prop_assert_eq!(sent.sequence, arrivals.len() as u64);
                        arrivals.push(None);
                        reported.push(Vec::new());
                    }
                    continue;
                }
                Step::Arrive(back) => {
                    let place = arrivals.len().checked_sub(1 + usize::from(back % 16));
                    if let Some(arrival) = place.and_then(|place| arrivals.get_mut(place)) {
                        arrival.get_or_insert(1000 + number as i64);
                    }
                    continue;
                }
                Step::Report { back, count } => {
                    let base = arrivals.len().saturating_sub(usize::from(back % 40));
                    let end = (base + usize::from(count % 40)).min(arrivals.len());
                    transport(base as u64, &arrivals[base..end])
                }
                Step::Lie { base, count, time } if !honest => Packet::TransportFeedback(TransportFeedback {
                    base_sequence: base,
                    reference_time: time,
                    packets: vec![Some(ArrivalTicks::new(time >> 16)); count.into()],
                    ..TransportFeedback::default()
                }),
                Step::Lie { .. } => continue,
            };
            let before = history.in_flight();
            let Some(feedback) = history.on_packets(now, &[message]) else { continue };
            prop_assert!(feedback.in_flight <= before);
            prop_assert!(feedback.packets.is_sorted_by(|a, b| a.sent.sequence < b.sent.sequence));
            for (number, arrival, _) in summary(Some(&feedback)) {
                reported[number as usize].push(arrival);
            }
        }
        for (reports, arrival) in reported.iter().zip(&arrivals) {
            let expected: &[usize] = if reports.first().is_some_and(Option::is_none) { &[1, 2] } else { &[0, 1] };
            prop_assert!(expected.contains(&reports.len()), "{:?}", reports);
            prop_assert!(reports.get(1).is_none_or(Option::is_some), "{:?}", reports);
            if honest {
                let last = reports.last().copied().flatten();
                prop_assert!(last.is_none_or(|last| Some(last as i64) == *arrival), "{:?} {:?}", reports, arrival);
            }
        }
        let count = arrivals.len() as u64;
        prop_assert!(history.in_flight() <= SIZE * count);
        history.on_timeout(at(100_000));
        prop_assert_eq!(history.in_flight(), DataSize::ZERO);
    }

    #[test]
    fn any_bytes_keep_the_history_consistent(datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..20)) {
        let mut history = sent(10);
        for datagram in datagrams {
            if let Ok(Some(feedback)) = history.on_rtcp(at(50), &datagram) {
                prop_assert!(feedback.packets.len() <= 10);
            }
        }
        prop_assert!(history.in_flight() <= SIZE * 10);
    }
}
