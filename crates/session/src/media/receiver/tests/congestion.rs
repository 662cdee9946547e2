use giusto_rtp::rtcp::{CongestionFeedback, StreamFeedback};

use super::*;

pub(super) fn reports(datagrams: &[Vec<Packet>]) -> Vec<CongestionFeedback> {
    only!(CongestionFeedback, datagrams.iter().cloned()).collect()
}

/// Sequence number, mark and milliseconds before the report of received packets; `None` for the others.
fn reported(stream: &StreamFeedback) -> Vec<(u16, Option<(Ecn, f64)>)> {
    let packets = stream.iter().map(|(number, packet)| {
        (number, packet.map(|one| (one.ecn, one.offset.to_delta().unwrap().as_millis().floor())))
    });
    packets.collect()
}

fn streams(receiver: &mut MediaReceiver, ms: u64) -> Vec<StreamFeedback> {
    reports(&drain(receiver, at(ms))).into_iter().flat_map(|report| report.streams).collect()
}

#[test]
fn a_report_is_due_after_a_marker_16_packets_or_40_ms() {
    let mut receiver = receiver(FeedbackKind::CongestionControl);
    Sent::numbered(7, 0, false).arrive(&mut receiver, at(100));
    assert_eq!(receiver.poll_timeout(), Some(at(140)));
    Sent::numbered(7, 1, true).arrive(&mut receiver, at(105));
    assert_eq!(reports(&drain(&mut receiver, at(105))).len(), 1);
    for number in 2..17 {
        Sent::numbered(7, number, false).arrive(&mut receiver, at(200));
    }
    assert_eq!(reports(&drain(&mut receiver, at(201))).len(), 0);
    Sent::numbered(7, 17, false).arrive(&mut receiver, at(201));
    assert_eq!(reports(&drain(&mut receiver, at(201))).len(), 1);
    Sent::numbered(7, 18, false).arrive(&mut receiver, at(400));
    assert_eq!(receiver.poll_timeout(), Some(at(440)));
}

#[test]
fn missing_packets_are_reported_twice_and_marked_copies_count() {
    let mut receiver = receiver(FeedbackKind::CongestionControl);
    for number in [65_535, 1, 2] {
        Sent::numbered(7, number, true).arrive(&mut receiver, at(0));
    }
    let nect = |ms| Some((Ecn::NotEct, ms));
    let [first] = &streams(&mut receiver, 0)[..] else { panic!() };
    assert_eq!(reported(first), [(65_535, nect(0.0)), (0, None), (1, nect(0.0)), (2, nect(0.0))]);
    Sent::numbered(7, 3, true).arrive(&mut receiver, at(30));
    let [second] = &streams(&mut receiver, 40)[..] else { panic!() };
    assert_eq!(reported(second), [(0, None), (1, nect(39.0)), (2, nect(39.0)), (3, nect(9.0))]);
    // Two reports are enough. A duplicate is reported only if it is marked.
    receiver.handle_rtp(at(80), &Sent::numbered(7, 2, true).head(), &Payload::default(), Ecn::Ect1);
    assert!(receiver.poll_timeout() > Some(at(200)));
    receiver.handle_rtp(at(80), &Sent::numbered(7, 2, true).head(), &Payload::default(), Ecn::Ce);
    Sent::numbered(8, 4, false).arrive(&mut receiver, at(80));
    let [third, other] = &streams(&mut receiver, 80)[..] else { panic!() };
    // 1024ths of a second, rounded down.
    assert_eq!(reported(third), [(2, Some((Ecn::Ce, 79.0))), (3, nect(49.0))]);
    assert_eq!((other.ssrc, reported(other)), (8, vec![(4, nect(0.0))]));
}

#[test]
fn reports_take_at_most_500_kbps() {
    let mut receiver = receiver(FeedbackKind::CongestionControl);
    let mut bytes = 0;
    let mut times = Vec::new();
    for step in 0..200_000_u64 {
        // 20 000 packets a second.
        let now = Timestamp::from_nanos(step * 50_000);
        Sent::numbered(7, step as u16, step % 20 == 0).arrive(&mut receiver, now);
        while let Some(datagram) = receiver.poll_transmit(now) {
            if Packets::new(&datagram.head).unwrap().is_reduced_size() {
                bytes += datagram.head.len() + 28;
                times.push(now);
            }
        }
    }
    let rate = bytes as f64 * 8.0 / 10.0;
    assert!(rate < 510_000.0 && rate > 300_000.0, "{rate}");
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > TimeDelta::ZERO);
    assert!(gaps.max() <= Some(TimeDelta::from_millis(500)));
}

#[test]
fn a_long_gap_divides_a_report() {
    let mut receiver = receiver(FeedbackKind::CongestionControl);
    for number in [0, 20_000, 21_000] {
        Sent::numbered(7, number, false).arrive(&mut receiver, at(0));
    }
    let streams = streams(&mut receiver, 40);
    assert_eq!(reported(&streams[0]), [(0, Some((Ecn::NotEct, 39.0)))]);
    let rest: Vec<_> =
        streams[1..].iter().flat_map(reported).map(|(number, what)| (number, what.is_some())).collect();
    assert_eq!(rest, (20_000..=21_000).map(|number| (number, number % 1000 == 0)).collect::<Vec<_>>());
}
