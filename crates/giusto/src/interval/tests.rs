use giusto_measure::{Arrival, MeterConfig};
use giusto_session::probe::{Inbound, LocalClock, Passive, ReceiverConfig};

use super::*;
use crate::testing::at;

const GAP: u64 = 10_000_000;

/// Datagrams of 1250 B, one every 10 ms, from number `from` on; those in `lost` do not arrive.
fn feed(meter: &mut StreamMeter, numbers: std::ops::Range<u64>, lost: &[u64]) {
    for sequence in numbers.filter(|number| !lost.contains(number)) {
        let at = Timestamp::from_nanos(5_000_000_000 + sequence * GAP);
        meter.on_arrival(&Arrival::new(at, sequence, DataSize::from_bytes(1250)));
    }
}

/// What has arrived until then at the only meter.
fn taken(arrivals: &mut Arrivals, meter: &StreamMeter, millis: u64, over: bool) -> Option<Arrived> {
    arrivals.update(1, Counts::of_meter(at(millis), meter), over);
    arrivals.take(RECENT)
}

#[test]
fn an_interval_has_its_own_rate_and_loss() {
    let mut meter = StreamMeter::new(&MeterConfig::default());
    let mut arrivals = Arrivals::default();
    feed(&mut meter, 0..101, &[]);
    let first = taken(&mut arrivals, &meter, 6_015, false).unwrap();
    // 101 datagrams enclose 100 gaps of 10 ms.
    assert_eq!((first.packets, first.lost, first.rate_bps), (101, 0, 1e6));
    assert_eq!((first.start, first.end), (at(5_000), at(6_000)));
    // Half of the next hundred are lost: the mean since the start would be 0.75 Mbit/s.
    let odd: Vec<u64> = (101..201).filter(|number| number % 2 == 1).collect();
    feed(&mut meter, 101..201, &odd);
    let second = taken(&mut arrivals, &meter, 7_005, false).unwrap();
    assert_eq!((second.packets, second.lost, second.rate_bps), (50, 50, 0.5e6));
    // A second of silence, then a quarter of a second of datagrams.
    let silent = taken(&mut arrivals, &meter, 8_000, false).unwrap();
    assert_eq!((silent.packets, silent.rate_bps, silent.end), (0, 0.0, at(8_000)));
    feed(&mut meter, 376..401, &[]);
    let last = taken(&mut arrivals, &meter, 9_001, true).unwrap();
    assert_eq!((last.packets, last.lost, last.bytes, last.rate_bps), (25, 175, 31_250, 0.25e6));
    assert!(arrivals.take(RECENT).is_none());
}

#[test]
fn a_late_receiver_shows_no_peak_in_short_intervals() {
    let mut meter = StreamMeter::new(&MeterConfig::default());
    let mut intervals = StreamIntervals::default();
    let mut rates = Vec::new();
    // A hundred datagrams a second. The socket is read late in the fourth and in the fifth tenth of a second, not at all in the sixth.
    let mut read = 0;
    for (tenth, until) in [(1, 10), (2, 20), (3, 30), (4, 32), (5, 49), (6, 49), (7, 70), (8, 80)] {
        feed(&mut meter, read..until, &[]);
        read = until;
        let figures = intervals.next(&Counts::of_meter(at(5_000 + tenth * 100), &meter), false);
        rates.push(figures.and_then(|figures| figures.rx_rate_bps).map(f64::round));
    }
    assert_eq!(rates, [1, 1, 1, 0, 1, 0, 1, 1].map(|known| (known == 1).then_some(1e6)));
    // After half a second it is a silence: the interval is that since the last datagram.
    let silent = |millis| Counts::of_meter(at(millis), &meter);
    assert_eq!(intervals.next(&silent(6_200), false), None);
    let figures = intervals.next(&silent(6_300), false).unwrap();
    assert_eq!((figures.received_packets, figures.rx_rate_bps), (Some(0), Some(0.0)));
}

#[test]
fn recovered_datagrams_are_taken_back() {
    let mut meter = StreamMeter::new(&MeterConfig::default());
    let mut arrivals = Arrivals::default();
    feed(&mut meter, 0..10, &[7]);
    assert_eq!(taken(&mut arrivals, &meter, 5_090, false).unwrap().lost, 1);
    feed(&mut meter, 7..8, &[]);
    let after = taken(&mut arrivals, &meter, 5_100, false).unwrap();
    assert_eq!((after.packets, after.lost), (1, -1));
    let mut figures = IntervalFigures::default();
    figures.add_arrived(&after);
    assert_eq!((figures.lost_packets, figures.loss_ratio), (Some(-1), None));
}

#[test]
fn streams_add_up() {
    let mut arrivals = Arrivals::default();
    let mut meters: Vec<_> = (0..3).map(|_| StreamMeter::new(&MeterConfig::default())).collect();
    let mut totals = (0, 0);
    for second in 1..4 {
        for (id, meter) in meters.iter_mut().enumerate() {
            feed(meter, (second - 1) * 100 + u64::from(second > 1)..second * 100 + 1, &[]);
            arrivals.update(id as u64, Counts::of_meter(at(5_000 + second * 1_000), meter), second == 3);
        }
        let all = arrivals.take(RECENT).unwrap();
        totals = (totals.0 + all.packets, totals.1 + all.lost);
        assert!((3.0e6..3.03e6).contains(&all.rate_bps), "{all:?}");
    }
    assert_eq!(totals, (903, 0));
}

#[test]
fn streams_that_end_together_are_counted_once() {
    let config = ReceiverConfig::new([1; 32], LocalClock::default());
    let mut receiver = Receiver::new(ReceiverConfig { passive: Some(Passive::Raw), ..config });
    let mut intervals = ReceptionIntervals::new(TimeDelta::from_seconds(1));
    let mut all = Vec::new();
    let mut turn = |now, receiver: &mut Receiver| {
        loop {
            let event = receiver.poll_event();
            all.extend(intervals.on_event(now, receiver, event.as_ref(), None));
            if event.is_none() {
                break;
            }
        }
    };
    // Three streams of 125 B every 10 ms; the third begins after the end of the first interval is due.
    for ms in (0..1_500).step_by(10) {
        for port in if ms < 1_200 { 1..=2 } else { 1..=3 } {
            let (from, bytes) = (([127, 0, 0, 1], port).into(), &[0; 125]);
            let (segment, at, tos, kernel_dropped, truncated) = (125, at(ms), None, None, false);
            receiver.handle(at, &Inbound { from, bytes, segment, at, tos, kernel_dropped, truncated });
        }
        turn(at(ms), &mut receiver);
    }
    receiver.stop(at(1_500));
    turn(at(1_500), &mut receiver);
    let packets: Vec<_> = all.iter().filter_map(|interval| interval.received_packets).collect();
    assert_eq!((packets.len(), packets.iter().sum()), (2, 330), "{all:?}");
    assert_eq!((all[0].start_s, all[1].end_s), (0.0, 1.49));
    assert_eq!((all[0].streams, all[1].streams), (2, 3));
    // Nothing shows what raw streams lose.
    assert!(
        all.iter().all(|interval| (interval.lost_packets, interval.loss_ratio) == (None, None)),
        "{all:?}"
    );
}

#[test]
fn intervals_of_a_sender_end_with_reports() {
    let second = TimeDelta::from_seconds(1);
    let sent = |packets| SentCounts { packets, bytes: packets * 1250 };
    let mut intervals =
        TransmissionIntervals::new(second, DataSize::ZERO, at(100), 1, Some(StreamFormat::Giusto));
    // The receiver's clock differs by far.
    let report = |received: u64, lost: u64| {
        let mut summary = StreamMeter::new(&MeterConfig::default()).summary();
        (summary.received_packets, summary.lost_packets) = (received, lost);
        summary.received_bytes = DataSize::from_bytes(1250 * received);
        summary.first_arrival = Some(at(77_000));
        summary.last_arrival = Some(at(77_000 + (received + lost - 1) * 10));
        summary
    };
    intervals.on_report(at(505), 0, &report(41, 0));
    assert_eq!(intervals.on_turn(at(600), sent(50)), None);
    intervals.on_report(at(1_005), 0, &report(91, 0));
    let first = intervals.on_turn(at(1_010), sent(91)).unwrap();
    assert_eq!((first.start_s, first.end_s, first.sent_packets), (0.0, 0.91, Some(91)));
    assert_eq!((first.tx_rate_bps, first.rx_rate_bps), (Some(1e6), Some(1e6)));
    assert_eq!((first.received_packets, first.lost_packets), (Some(91), Some(0)));
    // Without reports only our own figures are known, after a while.
    assert_eq!(intervals.on_turn(at(2_110), sent(201)), None);
    let second = intervals.on_turn(at(2_410), sent(231)).unwrap();
    assert_eq!((second.sent_packets, second.received_packets), (Some(140), None));
    intervals.on_report(at(3_105), 0, &report(201, 100));
    let last = intervals.finish(at(3_100), sent(301)).unwrap();
    let counts = [last.sent_packets, last.received_packets].map(Option::unwrap);
    assert_eq!((counts, last.lost_packets), ([70, 110], Some(100)));
    assert_eq!((last.received_span_s, last.end_s), (Some(2.1), 3.0));
    assert_eq!(last.loss_ratio, Some(100.0 / 210.0));
    assert_eq!(intervals.finish(at(3_100), sent(301)), None);
}
#[test]
fn both_directions_are_counted_at_one_end() {
    let second = TimeDelta::from_seconds(1);
    let sent = |packets| SentCounts { packets, bytes: packets * 1250 };
    let sends = Some((1, DataSize::ZERO));
    let mut intervals = LocalIntervals::new(second, at(5_000), sent(7), sends);
    let mut meter = StreamMeter::new(&MeterConfig::default());
    assert_eq!(intervals.on_turn(at(5_900), sent(97), [Some(&meter)].into_iter()), None);
    feed(&mut meter, 0..101, &[50]);
    let first = intervals.on_turn(at(6_000), sent(107), [Some(&meter)].into_iter()).unwrap();
    assert_eq!((first.start_s, first.end_s), (0.0, 1.0));
    assert_eq!((first.sent_packets, first.tx_rate_bps), (Some(100), Some(1e6)));
    assert_eq!((first.received_packets, first.lost_packets), (Some(100), Some(1)));
    feed(&mut meter, 101..111, &[]);
    let last = intervals.finish(at(6_200), at(6_150), sent(122), [Some(&meter)].into_iter()).unwrap();
    assert_eq!((last.sent_packets, last.received_packets, last.end_s), (Some(15), Some(10), 1.15));

    let mut intervals = LocalIntervals::new(second, at(0), sent(0), None);
    assert_eq!(intervals.on_turn(at(4_000), sent(0), [None].into_iter()), None);
    let first = intervals.on_turn(at(6_110), sent(0), [None, Some(&meter)].into_iter()).unwrap();
    assert_eq!((first.sent_packets, first.received_packets, first.lost_packets), (None, Some(110), Some(1)));
    // Losses at the end are known only then.
    meter.finish(120);
    let last = intervals.finish(at(6_200), at(0), sent(0), [None, Some(&meter)].into_iter()).unwrap();
    assert_eq!((last.received_packets, last.lost_packets), (Some(0), Some(9)));
}
