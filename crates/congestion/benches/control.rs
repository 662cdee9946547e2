//! Time that each controller takes to process a feedback message of 100 packets.
//!
//! `cargo bench -p giusto-congestion --bench control`. Packets of 1200 bytes leave 2 ms apart and arrive
//! after a delay of 25 to 28 ms. One packet in 50 is lost. The controllers have processed 50 such messages
//! before.

use divan::{Bencher, black_box, counter::ItemsCount};
use giusto_congestion::{Algorithm, Feedback, Limits, PacketReport, SentPacket};
use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

const PACKETS: u64 = 100;

fn main() {
    divan::main();
}

/// The packets of feedback number `message`, and the time at which the feedback arrives.
fn packets(message: u64) -> (Timestamp, Vec<PacketReport>) {
    let size = DataSize::from_bytes(1200);
    let report = |sequence: u64| {
        let at = Timestamp::from_nanos(sequence * 2_000_000);
        let jitter = sequence.wrapping_mul(2_654_435_761) % 12 * 250_000;
        let arrival = PeerTimestamp::from_nanos(at.as_nanos() + 25_000_000 + jitter);
        PacketReport::new(SentPacket::new(sequence, at, size), (sequence % 50 != 7).then_some(arrival))
    };
    let first = message * PACKETS;
    let end = Timestamp::from_nanos((first + PACKETS) * 2_000_000) + TimeDelta::from_millis(60);
    (end, (first..first + PACKETS).map(report).collect())
}

#[divan::bench(args = Algorithm::all())]
fn feedback_of_100_packets(bencher: Bencher<'_, '_>, kind: Algorithm) {
    let limits = Limits::DEFAULT.with_max(DataRate::from_bps(10_000_000));
    let mut controller = kind.build(limits);
    let mut message = 0;
    let mut process = |(now, packets): (Timestamp, Vec<PacketReport>)| {
        controller.on_feedback(now, black_box(&Feedback::new(&packets, DataSize::ZERO)));
        controller.target()
    };
    for _ in 0..50 {
        process(packets(message));
        message += 1;
    }
    bencher
        .counter(ItemsCount::new(PACKETS))
        .with_inputs(|| {
            message += 1;
            packets(message - 1)
        })
        .bench_local_values(&mut process);
}
