//! Whatever is told in whatever order, each controller stays within its limits and its work bounded, and sends again when all that
//! it sent is lost.

use giusto_pace::media::{Pacer, Permit};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};
use proptest::prelude::*;

use crate::{
    Controller, ControllerKind, Feedback, Limits, PacketReport, QueueState, SentPacket, StreamState,
    closed_loop::pacer_config,
};

#[derive(Debug, Clone)]
enum Call {
    Sent(SentPacket),
    /// What it tells of, what is in flight, and whether the receiver asks for less.
    Feedback(Vec<PacketReport>, u64, bool),
    Timeout(QueueState),
    Streams(Vec<StreamState>),
}

/// What may happen: no packet is larger than UDP can carry.
fn possible() -> impl Strategy<Value = Call> {
    call().prop_map(|call| {
        let possible = |size: DataSize| size.min(DataSize::from_bytes(1500));
        let packet = |sent: SentPacket| {
            let (size, in_flight) = (possible(sent.size), possible(sent.in_flight) * 20);
            SentPacket { size, in_flight, ..sent }
        };
        match call {
            Call::Sent(sent) => Call::Sent(packet(sent)),
            Call::Feedback(reports, left, quench) => {
                let reports =
                    reports.into_iter().map(|told| PacketReport { sent: packet(told.sent), ..told });
                Call::Feedback(reports.collect(), left.min(30_000), quench)
            }
            Call::Timeout(_) | Call::Streams(_) => call,
        }
    })
}

/// Mostly within a few seconds, sometimes anything.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0u64..20_000_000_000, 1 => any::<u64>()]
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0u64..1500, 1 => any::<u64>()]
}

fn packet() -> impl Strategy<Value = SentPacket> {
    (0u64..200, time(), size(), size()).prop_map(|(sequence, at, size, in_flight)| SentPacket {
        sequence,
        at: Timestamp::from_nanos(at),
        size: DataSize::from_bytes(size),
        probe: None,
        in_flight: DataSize::from_bytes(in_flight),
    })
}

fn report() -> impl Strategy<Value = PacketReport> {
    (packet(), prop::option::of(time()), 0u8..4).prop_map(|(sent, arrival, ecn)| PacketReport {
        sent,
        arrival: arrival.map(PeerTimestamp::from_nanos),
        ecn: Ecn::from_bits(ecn),
    })
}

fn stream() -> impl Strategy<Value = StreamState> {
    let rate = || (0_u64..5_000_000).prop_map(DataRate::from_bps);
    (any::<f64>(), (rate(), rate()), any::<bool>(), any::<i64>()).prop_map(
        |(priority, usable, paused, oldest)| {
            let queue = QueueState { size: DataSize::ZERO, oldest: TimeDelta::from_nanos(oldest) };
            StreamState { priority, usable, paused, queue }
        },
    )
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        packet().prop_map(Call::Sent),
        (prop::collection::vec(report(), 0..40), size(), any::<bool>())
            .prop_map(|(packets, left, quench)| Call::Feedback(packets, left, quench)),
        prop::collection::vec(stream(), 0..5).prop_map(Call::Streams),
        (size(), any::<i64>()).prop_map(|(size, oldest)| Call::Timeout(QueueState {
            size: DataSize::from_bytes(size),
            oldest: TimeDelta::from_nanos(oldest),
        })),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let rate = || prop_oneof![4 => 0u64..20_000_000, 1 => any::<u64>()];
    (rate(), rate(), rate()).prop_map(|(min, start, max)| {
        let [min, start, max] = [min, start, max].map(DataRate::from_bps);
        Limits { min, start, max }
    })
}

/// Those that share the rule of [`flight`](super::flight) for silence; `scream:v2` has its own, with tests of its own.
const KINDS: [ControllerKind; 2] = [ControllerKind::ScreamRfc8298, ControllerKind::ScreamD00];

fn kind() -> impl Strategy<Value = ControllerKind> {
    prop::sample::select(KINDS.to_vec())
}

fn tell(controller: &mut dyn Controller, now: Timestamp, call: &Call) {
    match call {
        Call::Sent(packet) => controller.on_sent(now, packet),
        Call::Feedback(packets, left, quench) => {
            let (in_flight, quench) = (DataSize::from_bytes(*left), *quench);
            controller.on_feedback(now, &Feedback { packets, quench, in_flight, ..Feedback::default() });
        }
        Call::Timeout(queue) => controller.on_timeout(now, queue),
        Call::Streams(streams) => controller.on_streams(now, streams),
    }
}

/// Sends for `time` whatever the pacer permits, and hears nothing; gives when.
fn into_the_void(controller: &mut dyn Controller, begin: Timestamp, time: TimeDelta) -> Vec<Timestamp> {
    const SIZE: DataSize = DataSize::from_bytes(1200);
    let (mut now, mut departures, mut in_flight) = (begin, Vec::new(), DataSize::ZERO);
    let mut pacer = Pacer::new(pacer_config(ControllerKind::ScreamRfc8298), controller.target().pacing);
    while now < begin + time && departures.len() < 100_000 {
        if controller.next_timeout().is_some_and(|due| due <= now) {
            controller.on_timeout(now, &QueueState { size: SIZE, oldest: TimeDelta::ZERO });
        }
        let target = controller.target();
        pacer.on_target(now, target.pacing, target.window);
        let mut next = controller.next_timeout();
        match pacer.next_send(now, SIZE) {
            Permit::Now => {
                pacer.on_sent(now, SIZE);
                in_flight += SIZE;
                let sequence = 1000 + departures.len() as u64;
                controller
                    .on_sent(now, &SentPacket { sequence, at: now, size: SIZE, probe: None, in_flight });
                departures.push(now);
                continue;
            }
            Permit::At(at) => next = next.min(Some(at)).or(Some(at)),
            Permit::Blocked => {}
        }
        now = next.unwrap_or(begin + time);
    }
    departures
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
            // Of the streams one alone wants to know, and so of the time at which it is told of them.
            if kind == ControllerKind::ScreamD00 || !matches!(call, Call::Streams(_)) {
                latest = latest.max(now);
            }
            tell(controller.as_mut(), now, &call);
            if matches!(call, Call::Timeout(_)) {
                let next = controller.next_timeout();
                prop_assert!(next.is_none_or(|next| next > latest || latest == Timestamp::MAX), "{next:?} {latest}");
            }
            let target = controller.target();
            prop_assert!((min..=max).contains(&target.media), "{:?} {:?}", target, limits);
            prop_assert!(target.pacing > DataRate::ZERO && target.padding <= target.media, "{:?}", target);
            prop_assert!(target.window.is_none_or(|window| window > DataSize::ZERO), "{:?}", target);
            prop_assert_eq!(controller.decision().to, target.media);
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

    #[test]
    fn when_all_is_lost_it_sends_again(
        kind in kind(),
        calls in prop::collection::vec((0u64..20_000_000_000, possible()), 0..40),
    ) {
        let mut controller = kind.build(Limits::default());
        for (now, call) in calls {
            tell(controller.as_mut(), Timestamp::from_nanos(now), &call);
        }
        // The last that is heard: nothing is in flight, for the controller and for the pacer that begins here.
        let begin = Timestamp::from_nanos(20_000_000_000);
        let size = DataSize::from_bytes(1200);
        let sent = SentPacket { sequence: 999, at: begin, size, probe: None, in_flight: size };
        tell(controller.as_mut(), begin, &Call::Feedback(vec![PacketReport { sent, arrival: None, ecn: Ecn::NotEct }], 0, false));
        let departures = into_the_void(controller.as_mut(), begin, TimeDelta::from_seconds(20));
        // From the tenth second on at least a packet in each second, and about the minimum rate.
        for second in 10..20 {
            let from = begin + TimeDelta::from_seconds(second);
            let count = departures.iter().filter(|&&at| at >= from && at < from + TimeDelta::from_seconds(1)).count();
            prop_assert!((1..=15).contains(&count), "{} in second {}", count, second);
        }
    }
}

#[test]
fn into_the_void_it_sends_about_50_kbit_per_second() {
    for kind in KINDS {
        let mut controller = kind.build(Limits::default());
        let departures = into_the_void(controller.as_mut(), Timestamp::ZERO, TimeDelta::from_seconds(30));
        let late = departures.iter().filter(|at| at.as_seconds() >= 10.0).count();
        let rate = late as f64 * 1200.0 * 8.0 / 20.0;
        assert!((20e3..=100e3).contains(&rate), "{kind}: {rate} bit/s");
    }
}
