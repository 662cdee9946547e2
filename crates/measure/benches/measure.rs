//! Cost of measuring one datagram. `cargo bench -p giusto-measure --bench measure`
//!
//! Each figure is for one call of `StreamMeter::on_arrival` in a stream of 5 million datagrams per second, as
//! the mean over a batch. At that rate there are 200 ns per datagram.

use divan::{Bencher, black_box, counter::ItemsCount};
use giusto_measure::{Arrival, ClockRelation, ErrorHistogram, MeterConfig, SequenceTracker, StreamMeter};
use giusto_units::{DataSize, PeerTimestamp, TimeDelta, Timestamp};

const BATCH: u64 = 100_000;
const GAP_NANOS: u64 = 200;
const SIZE: DataSize = DataSize::from_bytes(1200);

fn main() {
    divan::main();
}

/// A datagram that was sent on time and arrived with up to 16 µs of noise. Batches of `shared` datagrams have
/// the same timestamp.
fn arrival(sequence: u64, shared: u64) -> Arrival {
    let due = sequence * GAP_NANOS;
    let batch = sequence - sequence % shared;
    let noise = batch.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
    let at = Timestamp::from_nanos(1_000_000 + batch * GAP_NANOS + noise * u64::from(shared > 1));
    Arrival::new(at, sequence, SIZE)
        .with_scheduled(PeerTimestamp::from_nanos(due))
        .with_sent(PeerTimestamp::from_nanos(due + 300 + sequence % 7))
        .with_tos(0b10)
}

fn config(clocks: ClockRelation) -> MeterConfig {
    let rate = SIZE.as_bits() as f64 / (GAP_NANOS as f64 * 1e-9);
    MeterConfig::default().with_rate(rate).with_size(SIZE).with_clocks(clocks)
}

/// Passes batches of one endless stream to one meter.
#[divan::bench(args = ["in order", "unknown clocks", "without stamps of the sender", "equal stamps by 64", "1 % lost"])]
fn on_arrival(bencher: Bencher<'_, '_>, stream: &str) {
    let clocks = if stream == "unknown clocks" { ClockRelation::Unknown } else { ClockRelation::Same };
    let next = |sequence: u64| match stream {
        "without stamps of the sender" => Some(arrival(sequence, 1).with_scheduled(None).with_sent(None)),
        "equal stamps by 64" => Some(arrival(sequence, 64)),
        "1 % lost" => {
            let draw = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            (draw & 0xffff_ffff > 0xffff_ffff / 100).then(|| arrival(sequence, 1))
        }
        _ => Some(arrival(sequence, 1)),
    };
    let mut meter = StreamMeter::new(&config(clocks));
    let mut begin = 0;
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(|| {
            begin += BATCH;
            (begin - BATCH..begin).filter_map(next).collect::<Vec<_>>()
        })
        .bench_local_refs(|batch| {
            for arrival in batch.iter() {
                black_box(meter.on_arrival(black_box(arrival)));
            }
        });
}

#[divan::bench]
fn sequence_numbers_alone(bencher: Bencher<'_, '_>) {
    let mut tracker = SequenceTracker::default();
    let mut next = 0;
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for _ in 0..BATCH {
            black_box(tracker.on_packet(black_box(next)));
            next += 1;
        }
    });
}

#[divan::bench]
fn one_histogram_alone(bencher: Bencher<'_, '_>) {
    let mut errors = ErrorHistogram::new();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for i in 0..BATCH {
            errors.record(black_box(TimeDelta::from_nanos((i.wrapping_mul(7919) % 20_000) as i64)));
        }
    });
}

#[divan::bench(args = [1_000_000])]
fn summary(bencher: Bencher<'_, '_>, packets: u64) {
    let mut meter = StreamMeter::new(&config(ClockRelation::Unknown));
    for sequence in 0..packets {
        meter.on_arrival(&arrival(sequence, 64));
    }
    bencher.bench_local(|| black_box(meter.summary()));
}
