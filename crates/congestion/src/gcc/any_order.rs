//! Whatever is told in whatever order, each controller stays within its limits and its work bounded.

use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};
use proptest::prelude::*;

use crate::{ControllerKind, Feedback, Limits, LossReport, PacketReport, QueueState, SentPacket};

#[derive(Debug, Clone)]
enum Call {
    Sent(Packet),
    Packets(Vec<(Packet, Option<u64>)>, Option<i64>),
    Report(f64, u64, Option<u64>),
    Timeout,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    sequence: u64,
    at: u64,
    size: u64,
    probe: Option<u32>,
}

impl Packet {
    fn sent(self) -> SentPacket {
        let size = DataSize::from_bytes(self.size);
        SentPacket {
            sequence: self.sequence,
            at: Timestamp::from_nanos(self.at),
            size,
            probe: self.probe,
            in_flight: size,
        }
    }
}

/// Mostly within a few seconds, sometimes anything.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0u64..20_000_000_000, 1 => any::<u64>()]
}

fn packet() -> impl Strategy<Value = Packet> {
    let size = prop_oneof![9 => 0u64..1500, 1 => any::<u64>()];
    (0u64..200, time(), size, prop::option::of(0u32..8)).prop_map(|(sequence, at, size, probe)| Packet {
        sequence,
        at,
        size,
        probe,
    })
}

fn call() -> impl Strategy<Value = Call> {
    let ratio = prop_oneof![8 => 0.0..1.0, 1 => any::<f64>()];
    prop_oneof![
        packet().prop_map(Call::Sent),
        (prop::collection::vec((packet(), prop::option::of(time())), 0..40), prop::option::of(any::<i64>()))
            .prop_map(|(packets, round_trip)| Call::Packets(packets, round_trip)),
        (ratio, any::<u64>(), prop::option::of(any::<u64>()))
            .prop_map(|(ratio, expected, estimate)| Call::Report(ratio, expected, estimate)),
        Just(Call::Timeout),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let rate = || prop_oneof![4 => 0u64..20_000_000, 1 => any::<u64>()];
    (rate(), rate(), rate()).prop_map(|(min, start, max)| {
        let [min, start, max] = [min, start, max].map(DataRate::from_bps);
        Limits { min, start, max }
    })
}

fn kind() -> impl Strategy<Value = ControllerKind> {
    let gcc: Vec<_> =
        ControllerKind::ALL.into_iter().filter(|kind| kind.name().starts_with("gcc:")).collect();
    prop::sample::select(gcc)
}

proptest! {
    #[test]
    fn the_target_stays_within_its_limits(
        kind in kind(),
        limits in limits(),
        calls in prop::collection::vec((time(), call()), 0..80),
    ) {
        let mut controller = kind.build(limits);
        let (min, max) = (limits.min, limits.max.max(limits.min));
        let mut latest = Timestamp::ZERO;
        for (now, call) in calls {
            let now = Timestamp::from_nanos(now);
            latest = latest.max(now);
            match call {
                Call::Sent(packet) => controller.on_sent(now, &packet.sent()),
                Call::Packets(packets, round_trip) => {
                    let packets: Vec<_> = packets
                        .into_iter()
                        .map(|(packet, arrival)| PacketReport {
                            sent: packet.sent(),
                            arrival: arrival.map(PeerTimestamp::from_nanos),
                            ecn: Ecn::NotEct,
                        })
                        .collect();
                    let round_trip = round_trip.map(TimeDelta::from_nanos);
                    controller.on_feedback(now, &Feedback { packets: &packets, round_trip, ..Feedback::default() });
                }
                Call::Report(ratio, expected_packets, estimate) => {
                    let loss = Some(LossReport { ratio, expected_packets });
                    let receiver_estimate = estimate.map(DataRate::from_bps);
                    controller.on_feedback(now, &Feedback { receiver_estimate, loss, ..Feedback::default() });
                }
                Call::Timeout => {
                    controller.on_timeout(now, &QueueState::default());
                    let next = controller.next_timeout();
                    prop_assert!(next.is_none_or(|next| next > latest || latest == Timestamp::MAX), "{next:?} {latest}");
                }
            }
            let target = controller.target();
            prop_assert!((min..=max).contains(&target.media), "{:?} {:?}", target, limits);
            prop_assert!(target.pacing >= target.media && target.padding <= target.media, "{:?}", target);
            prop_assert!(controller.decision().to == target.media);
            prop_assert!(std::iter::from_fn(|| controller.next_probe()).count() <= 8);
            prop_assert!(controller.next_probe().is_none());
        }
        // Left alone, it wants to be woken at most each 25 ms.
        let end = latest + TimeDelta::from_seconds(10);
        let mut wakes = 0;
        while let Some(next) = controller.next_timeout().filter(|&next| next < end && latest < end) {
            controller.on_timeout(next.max(latest), &QueueState::default());
            latest = latest.max(next);
            wakes += 1;
            prop_assert!(wakes <= 402, "{wakes}");
        }
    }
}
