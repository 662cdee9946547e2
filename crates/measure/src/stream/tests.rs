use proptest::prelude::*;

use super::*;
use crate::{ClockRelation, DelayBasis};
use giusto_units::PeerTimestamp;

const SIZE: DataSize = DataSize::from_bytes(200);

fn us(micros: u64) -> Timestamp {
    Timestamp::from_nanos(micros * 1_000)
}

/// 200 B every 1.6 ms, 1 Mbit/s, a delay of 0.5 ms, a constant schedule error of 3 µs.
fn arrival(sequence: u64) -> Arrival {
    let due = sequence * 1_600_000;
    Arrival {
        at: Timestamp::from_nanos(due + 503_000),
        sequence,
        size: SIZE,
        scheduled: Some(PeerTimestamp::from_nanos(due)),
        sent: Some(PeerTimestamp::from_nanos(due + 3_000)),
        tos: Some(0),
    }
}

fn config() -> MeterConfig {
    MeterConfig { rate: Some(1e6), size: Some(SIZE), clocks: ClockRelation::Same, ..MeterConfig::default() }
}

fn measured(arrivals: impl IntoIterator<Item = Arrival>) -> StreamMeter {
    measured_with(&config(), arrivals)
}

fn measured_with(config: &MeterConfig, arrivals: impl IntoIterator<Item = Arrival>) -> StreamMeter {
    let mut meter = StreamMeter::new(config);
    for arrival in arrivals {
        meter.on_arrival(&arrival);
    }
    meter
}

proptest! {
    #[test]
    fn a_run_equals_its_single_datagrams(
        runs in proptest::collection::vec((0_u64..300, 1_u64..70, 0_u64..40_000, any::<u8>()), 1..40)
    ) {
        let (mut by_runs, mut one_by_one) = (StreamMeter::new(&config()), StreamMeter::new(&config()));
        let mut at = 0;
        for (sequence, count, gap, tos) in runs {
            at += gap;
            let sent = Some(PeerTimestamp::from_nanos(at / 2));
            let first = Arrival { at: us(at), sequence, sent, tos: Some(tos), ..arrival(sequence) };
            by_runs.on_run(&first, count);
            for sequence in sequence..sequence + count {
                one_by_one.on_arrival(&Arrival { sequence, ..first });
            }
        }
        prop_assert_eq!(by_runs.summary(), one_by_one.summary());
    }
}

#[test]
fn a_run_at_the_last_numbers_is_handled() {
    let mut meter = StreamMeter::new(&config());
    meter.on_run(&arrival(0), 3);
    meter.on_run(&Arrival { sequence: u64::MAX - 1, ..arrival(3) }, 70);
    let summary = meter.summary();
    assert_eq!((summary.received_packets, summary.lost_packets), (3, 0));
    assert_eq!(summary.implausible_packets, 70);
}

#[test]
fn the_jitter_is_that_of_rfc_3550_at_any_time() {
    let late = Arrival { at: arrival(1).at + TimeDelta::from_millis(16), ..arrival(1) };
    let mut meter = measured([arrival(0), late]);
    assert_eq!((meter.jitter(), meter.summary().jitter), (Some(TimeDelta::from_millis(1)), meter.jitter()));
    meter.on_arrival(&Arrival { at: arrival(2).at + TimeDelta::from_millis(16), ..arrival(2) });
    assert_eq!(meter.jitter(), Some(TimeDelta::from_nanos(937_500)));
}

#[test]
fn an_ideal_stream_has_ideal_figures() {
    let summary = measured((0..1000).map(arrival)).summary();
    let micros = TimeDelta::from_micros;
    assert_eq!(summary.rate_bps, Some(1e6));
    assert_eq!(summary.fencepost_rate_bps.map(f64::round), Some(1_001_001.0));
    assert_eq!((summary.received_packets, summary.lost_packets), (1000, 0));
    assert_eq!(summary.received_bytes, DataSize::from_bytes(200_000));
    assert_eq!(summary.jitter, Some(TimeDelta::ZERO));
    let delay = summary.delay.unwrap();
    assert_eq!((delay.basis, delay.min, delay.max), (DelayBasis::SameClock, micros(500), micros(500)));
    assert_eq!(summary.gap_error.map(|errors| (errors.count, errors.max)), Some((999, TimeDelta::ZERO)));
    assert_eq!(summary.schedule_gap_error.map(|errors| errors.max), Some(TimeDelta::ZERO));
    let schedule = summary.schedule_error.unwrap();
    assert_eq!((schedule.count, schedule.bias, schedule.max), (1000, micros(3), micros(3)));
    assert_eq!((summary.first_arrival, summary.last_arrival), (Some(us(503)), Some(us(999 * 1600 + 503))));
    let none = measured([]).summary();
    assert_eq!((none.received_packets, none.rate_bps, none.jitter), (0, None, None));
    assert_eq!((none.delay, none.gap_error, none.first_arrival), (None, None, None));
}

#[test]
fn header_bytes_count_in_rates_and_gaps() {
    // 28 B of IPv4 and UDP: 1.14 Mbit/s at the IP layer is the same stream.
    let config = MeterConfig { rate: Some(1.14e6), header: DataSize::from_bytes(28), ..config() };
    let summary = measured_with(&config, (0..100).map(arrival)).summary();
    assert_eq!(summary.rate_bps, Some(1.14e6));
    assert_eq!(summary.received_bytes, DataSize::from_bytes(20_000));
    assert_eq!(summary.gap_error.map(|errors| errors.max), Some(TimeDelta::ZERO));
}

#[test]
fn a_duplicate_is_counted_and_otherwise_ignored() {
    let once = measured((0..100).map(arrival)).summary();
    let twice = measured((0..100).flat_map(|sequence| [arrival(sequence); 2])).summary();
    assert_eq!(twice.duplicate_packets, 100);
    assert_eq!(StreamSummary { duplicate_packets: 0, ..twice }, once);
}

#[test]
fn reordering_does_not_affect_rate_loss_or_gap_errors() {
    let mut arrivals: Vec<_> = (0..100).map(arrival).collect();
    // Packet 50 takes 4 ms longer, and is overtaken by two.
    arrivals[50].at += TimeDelta::from_millis(4);
    arrivals.swap(50, 51);
    arrivals.swap(51, 52);
    let meter = measured(arrivals);
    let summary = meter.summary();
    assert_eq!((summary.rate_bps, summary.lost_packets), (Some(1e6), 0));
    assert_eq!((summary.reordered_packets, summary.max_reorder_extent), (1, 2));
    assert_eq!(summary.gap_error.map(|errors| (errors.count, errors.max)), Some((98, TimeDelta::ZERO)));
    assert_eq!(summary.delay.map(|delay| delay.max), Some(TimeDelta::from_micros(4500)));
    let points: Vec<_> = meter.series().points().collect();
    assert_eq!(points.iter().map(|point| (point.lost, point.recovered)).max(), Some((1, 1)));
}

#[test]
fn losses_are_counted_to_the_senders_last_packet() {
    let mut meter = measured((0..90).filter(|sequence| sequence % 10 != 5).map(arrival));
    meter.on_kernel_drops(3);
    meter.on_kernel_drops(4);
    meter.finish(100);
    let summary = meter.summary();
    assert_eq!((summary.lost_packets, summary.loss.expected, summary.loss.periods), (19, 100, 10));
    assert_eq!(summary.loss.period_lengths, [9, 0, 0, 0, 0, 1]);
    assert_eq!(summary.kernel_dropped_packets, 7);
    assert_eq!(summary.gap_error.map(|errors| errors.max), Some(TimeDelta::ZERO));
    assert_eq!(meter.series().points().map(|point| point.lost).sum::<u64>(), 9);
}

#[test]
fn losses_in_the_socket_are_those_that_it_can_have_dropped() {
    let dropped = |drops: [u64; 4], sent| {
        let mut meter = StreamMeter::new(&config());
        for (sequence, drops) in [0, 1, 10, 15].into_iter().zip(drops) {
            meter.on_kernel_drops(drops);
            meter.on_arrival(&arrival(sequence));
        }
        meter.on_kernel_drops(100);
        if let Some(sent) = sent {
            meter.finish(sent);
        }
        assert_eq!(meter.kernel_dropped_packets(), meter.summary().kernel_dropped_packets);
        meter.kernel_dropped_packets()
    };
    // 8 and 4 are missing, and 4 behind the last one.
    assert_eq!(dropped([0, 0, 8, 4], None), 12);
    assert_eq!(dropped([0, 0, 8, 4], Some(20)), 16);
    // Lost on the path, the first 3 excepted.
    assert_eq!(dropped([0, 0, 3, 0], None), 3);
    // The kernel also drops what is not of the stream: before its first datagram, where nothing is missing, and more.
    assert_eq!(dropped([70, 70, 80, 50], None), 12);
    assert_eq!(dropped([70, 70, 0, 0], Some(16)), 0);
    // What was missing arrives: it was on the path.
    let mut meter = measured([0].map(arrival));
    meter.on_kernel_drops(2);
    for sequence in [3, 2] {
        meter.on_arrival(&arrival(sequence));
    }
    assert_eq!((meter.kernel_dropped_packets(), meter.summary().lost_packets), (1, 1));
}

#[test]
fn a_confirmed_jump_counts_both_packets() {
    let leap = 1 << 30;
    let mut meter = measured((0..10).map(arrival));
    assert_eq!(meter.on_arrival(&arrival(leap)), SequenceVerdict::Implausible);
    assert_eq!(meter.summary().received_packets, 10);
    meter.on_arrival(&arrival(leap + 1));
    let summary = meter.summary();
    assert_eq!((summary.received_packets, summary.implausible_packets), (12, 0));
    assert_eq!(summary.received_bytes, DataSize::from_bytes(2400));
    assert_eq!(summary.lost_packets, leap - 10);
    assert_eq!(summary.gap_error.map(|errors| errors.max), Some(TimeDelta::ZERO));
}

#[test]
fn ecn_and_dscp_are_reported_as_received() {
    let marks = [0b10, 0b10, 0b01, 0b11, 0b00, 46 << 2 | 0b11];
    let meter = measured(marks.iter().zip(0..).map(|(&tos, i)| Arrival { tos: Some(tos), ..arrival(i) }));
    let summary = meter.summary();
    assert_eq!(summary.ecn, EcnCounts { not_ect: 1, ect0: 2, ect1: 1, ce: 2 });
    assert_eq!((summary.dscp, summary.dscp_changed), (Some(46), true));
    let silent = measured((0..9).map(|i| Arrival { tos: None, ..arrival(i) })).summary();
    assert_eq!((silent.ecn, silent.dscp, silent.dscp_changed), (EcnCounts::default(), None, false));
}

#[test]
fn a_backward_timestamp_is_replaced_and_counted() {
    let stamps = [100, 90, 200].iter().zip(0..);
    let summary =
        measured(stamps.map(|(&at, sequence)| Arrival { at: us(at), ..arrival(sequence) })).summary();
    assert_eq!(summary.backward_stamps, 1);
    assert_eq!((summary.first_arrival, summary.last_arrival), (Some(us(100)), Some(us(200))));
}

#[cfg(feature = "serde")]
#[test]
fn a_summary_takes_a_few_hundred_bytes() {
    let arrivals = (0..100_000).map(|sequence| {
        let late = TimeDelta::from_nanos((sequence as i64 * 7919) % 900_001);
        Arrival { tos: Some(46 << 2), at: arrival(sequence).at + late, ..arrival(sequence) }
    });
    let mut meter = measured_with(&MeterConfig { clocks: ClockRelation::Unknown, ..config() }, arrivals);
    meter.on_clock(&ClockEstimate {
        at: us(1),
        offset: TimeDelta::from_nanos(-1_764_000_000_123_456_789),
        uncertainty: TimeDelta::from_micros(77),
        drift: Some(crate::ClockDrift { ppm: -12.345, standard_error_ppm: 0.1, samples: 64 }),
        samples: 700,
    });
    let summary = meter.summary();
    let bytes = postcard::to_allocvec(&summary).unwrap();
    assert!((100..400).contains(&bytes.len()), "{} bytes", bytes.len());
    assert_eq!(postcard::from_bytes::<StreamSummary>(&bytes), Ok(summary));
}

fn any_arrival() -> impl Strategy<Value = Arrival> {
    let sequence = prop_oneof![0_u64..50, any::<u64>()];
    let stamps = any::<(u64, u64, Option<u64>, Option<u64>, Option<u8>)>();
    (sequence, stamps).prop_map(|(sequence, (at, size, scheduled, sent, tos))| Arrival {
        at: Timestamp::from_nanos(at),
        sequence,
        size: DataSize::from_bytes(size),
        scheduled: scheduled.map(PeerTimestamp::from_nanos),
        sent: sent.map(PeerTimestamp::from_nanos),
        tos,
    })
}

proptest! {
    #[test]
    fn any_datagram_is_safe_and_counted_once(
        arrivals in prop::collection::vec(any_arrival(), 0..80), rate: Option<f64>, gap: Option<i64>, header: u64,
    ) {
        let (gap, header) = (gap.map(TimeDelta::from_nanos), DataSize::from_bytes(header));
        let meter = measured_with(&MeterConfig { rate, header, gap, ..MeterConfig::default() }, arrivals.clone());
        let summary = meter.summary();
        let counted = summary.received_packets + summary.duplicate_packets;
        prop_assert_eq!(counted + summary.too_old_packets + summary.implausible_packets, arrivals.len() as u64);
        prop_assert_eq!(summary.loss.expected, summary.received_packets + summary.lost_packets);
        let missing = meter.series().points().map(|point| i128::from(point.lost) - i128::from(point.recovered));
        prop_assert_eq!(missing.sum::<i128>(), i128::from(summary.lost_packets));
    }
}
