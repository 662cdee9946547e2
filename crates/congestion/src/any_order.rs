//! Property tests of all controllers. Calls in any order keep the target within the limits and the work
//! bounded. A controller whose packets are all lost sends again.

use giusto_pace::media::{Pacer, Permit};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};
use proptest::prelude::*;

use crate::{
    algorithm::Algorithm,
    closed_loop::pacer_config,
    controller::Controller,
    feedback::{Extension, Feedback, LossReport, PacketReport, QueueState, SentPacket, StreamState},
    limits::Limits,
    nada::{self, RateMode},
};

#[derive(Debug, Clone)]
pub(crate) enum Call {
    Sent(SentPacket),
    Feedback(Message),
    Timeout(QueueState),
    Streams(Vec<StreamState>),
    Limits(Limits),
    RouteChange,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    packets: Vec<PacketReport>,
    in_flight: u64,
    extension: Option<Extension>,
    rtt: Option<i64>,
    loss: Option<(f64, u64)>,
    estimate: Option<u64>,
}

/// Calls that a real sender can make: no packet is larger than a UDP datagram can be, and the limits do not
/// change.
fn possible() -> impl Strategy<Value = Call> {
    call().prop_map(|call| {
        let possible = |size: DataSize| size.min(DataSize::from_bytes(1500));
        let packet = |sent: SentPacket| {
            let (size, in_flight) = (possible(sent.size), possible(sent.in_flight) * 20);
            SentPacket { size, in_flight, ..sent }
        };
        match call {
            Call::Sent(sent) => Call::Sent(packet(sent)),
            Call::Feedback(message) => {
                let reports = message.packets.into_iter();
                let packets = reports.map(|report| PacketReport { sent: packet(report.sent), ..report });
                let in_flight = message.in_flight.min(30_000);
                Call::Feedback(Message { packets: packets.collect(), in_flight, ..message })
            }
            Call::Limits(_) => Call::RouteChange,
            Call::Timeout(_) | Call::Streams(_) | Call::RouteChange => call,
        }
    })
}

/// Mostly within a few seconds, sometimes anything.
pub(crate) fn time() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0u64..20_000_000_000, 1 => any::<u64>()]
}

fn bytes(usual: u64) -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0..usual, 1 => any::<u64>()]
}

fn packet() -> impl Strategy<Value = SentPacket> {
    (0u64..200, time(), bytes(1500), bytes(100_000), prop::option::of(0_u32..8)).prop_map(
        |(sequence, at, size, in_flight, probe)| SentPacket {
            sequence,
            at: Timestamp::from_nanos(at),
            size: DataSize::from_bytes(size),
            probe,
            in_flight: DataSize::from_bytes(in_flight),
        },
    )
}

pub(crate) fn report() -> impl Strategy<Value = PacketReport> {
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

fn message() -> impl Strategy<Value = Message> {
    let ratio = prop_oneof![8 => 0.0..1.0, 1 => any::<f64>()];
    let reports = prop::collection::vec(report(), 0..40);
    let rest = (
        prop::option::of(any::<i64>()),
        prop::option::of((ratio, any::<u64>())),
        prop::option::of(any::<u64>()),
        prop::option::of(any::<(bool, f64, u64)>()),
    );
    (reports, bytes(100_000), any::<bool>(), rest).prop_map(
        |(packets, in_flight, quench, (rtt, loss, estimate, nada))| {
            let quench = quench.then_some(Extension::SourceQuench);
            let nada = nada.map(|(ramps_up, signal_ms, bps)| {
                let mode = if ramps_up { RateMode::RampUp } else { RateMode::Gradual };
                Extension::Nada(nada::Report::new(mode, signal_ms, DataRate::from_bps(bps)))
            });
            Message { packets, in_flight, extension: nada.or(quench), rtt, loss, estimate }
        },
    )
}

pub(crate) fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => packet().prop_map(Call::Sent),
        4 => message().prop_map(Call::Feedback),
        4 => prop::collection::vec(stream(), 0..5).prop_map(Call::Streams),
        4 => (bytes(100_000), any::<i64>()).prop_map(|(size, oldest)| Call::Timeout(QueueState {
            size: DataSize::from_bytes(size),
            oldest: TimeDelta::from_nanos(oldest),
        })),
        1 => limits().prop_map(Call::Limits),
        1 => Just(Call::RouteChange),
    ]
}

pub(crate) fn limits() -> impl Strategy<Value = Limits> {
    let rate = || prop_oneof![4 => 0u64..20_000_000, 1 => any::<u64>()];
    (rate(), rate(), rate()).prop_map(|(min, start, max)| {
        let [min, start, max] = [min, start, max].map(DataRate::from_bps);
        Limits { min, start, max }
    })
}

/// Controllers that share the rule for missing feedback. `scream:v2` has its own rule and its own tests.
fn with_window() -> Vec<Algorithm> {
    Algorithm::all().filter(|kind| kind.name().starts_with("scream:") && kind.name() != "scream:v2").collect()
}

/// The algorithm with some of its constants anywhere in their ranges: at `places`, 0 to 1.
fn with_constants(kind: Algorithm, places: &[(u8, f64)]) -> Algorithm {
    let constants = kind.constants();
    let mut values: Vec<(&str, f64)> = Vec::new();
    for &(which, place) in places {
        let Some(constant) = constants.get(usize::from(which) % constants.len().max(1)) else { continue };
        let (min, max) = constant.range;
        let value =
            if constant.is_whole { (min + place * (max - min)).round() } else { min + place * (max - min) };
        if values.iter().all(|(name, _)| *name != constant.name) {
            values.push((constant.name, value.clamp(min, max)));
        }
    }
    kind.with_constants(&values).unwrap()
}

fn places() -> impl Strategy<Value = Vec<(u8, f64)>> {
    prop::collection::vec((any::<u8>(), prop_oneof![1 => Just(0.0), 1 => Just(1.0), 2 => 0.0..1.0]), 0..6)
}

pub(crate) fn apply(controller: &mut dyn Controller, now: Timestamp, call: &Call) {
    match call {
        Call::Sent(packet) => controller.on_sent(now, packet),
        Call::Feedback(message) => {
            let feedback = Feedback {
                packets: &message.packets,
                rtt: message.rtt.map(TimeDelta::from_nanos),
                receiver_estimate: message.estimate.map(DataRate::from_bps),
                loss: message.loss.map(|(ratio, expected_packets)| LossReport { ratio, expected_packets }),
                extension: message.extension,
                in_flight: DataSize::from_bytes(message.in_flight),
            };
            controller.on_feedback(now, &feedback);
        }
        Call::Timeout(queue) => controller.on_timeout(now, queue),
        Call::Streams(streams) => controller.on_streams(now, streams),
        Call::Limits(limits) => controller.set_limits(now, *limits),
        Call::RouteChange => controller.on_route_change(now),
    }
}

/// Sends whatever the pacer permits for `time`, without any feedback. Returns the send times.
fn send_without_feedback(
    controller: &mut dyn Controller,
    begin: Timestamp,
    time: TimeDelta,
) -> Vec<Timestamp> {
    const SIZE: DataSize = DataSize::from_bytes(1200);
    let (mut now, mut departures, mut in_flight) = (begin, Vec::new(), DataSize::ZERO);
    let mut pacer = Pacer::new(pacer_config("scream:rfc8298".parse().unwrap()), controller.target().pacing);
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
        kind in prop::sample::select(Algorithm::all().collect::<Vec<_>>()),
        constants in places(),
        limits in limits(),
        calls in prop::collection::vec((time(), call()), 0..80),
    ) {
        let mut controller = with_constants(kind, &constants).build(limits);
        let mut limits = limits.ordered();
        let mut latest = Timestamp::ZERO;
        let mut has_begun = false;
        for (now, call) in calls {
            let now = Timestamp::from_nanos(now);
            // Not all controllers use the streams. Limits and routes alone do not begin a session.
            let counts = match call {
                Call::Streams(_) => kind.name().starts_with("scream:d00"),
                Call::Limits(_) | Call::RouteChange => has_begun,
                _ => true,
            };
            has_begun |= counts;
            if counts {
                latest = latest.max(now);
            }
            apply(controller.as_mut(), now, &call);
            if let Call::Limits(new) = call {
                limits = new.ordered();
            }
            if matches!(call, Call::Timeout(_)) {
                let next = controller.next_timeout();
                prop_assert!(next.is_none_or(|next| next > latest || latest == Timestamp::MAX), "{next:?} {latest}");
            }
            let target = controller.target();
            prop_assert!((limits.min..=limits.max).contains(&target.media), "{:?} {:?}", target, limits);
            prop_assert!(target.pacing >= target.media || target.window.is_some(), "{:?}", target);
            prop_assert!(target.window.is_none() || target.pacing > DataRate::ZERO, "{:?}", target);
            prop_assert!(target.padding <= target.media, "{:?}", target);
            prop_assert!(target.window.is_none_or(|window| window > DataSize::ZERO), "{:?}", target);
            prop_assert_eq!(controller.decision().to, target.media);
            prop_assert!(controller.frame_drop_interval() != Some(0));
            prop_assert!(std::iter::from_fn(|| controller.next_probe()).count() <= 8);
            prop_assert!(controller.next_probe().is_none());
        }
        // Without further input it asks to be called at most every 10 ms.
        let end = latest + TimeDelta::from_seconds(10);
        let mut wakes = 0;
        while let Some(next) = controller.next_timeout().filter(|&next| next < end && latest < end) {
            controller.on_timeout(next.max(latest), &QueueState::default());
            latest = latest.max(next);
            wakes += 1;
            prop_assert!(wakes <= 1002, "{wakes}");
        }
        prop_assert!(wakes <= 402 || kind.name() == "scream:v2", "{wakes}");
    }

    #[test]
    fn it_sends_again_after_all_packets_are_lost(
        kind in prop::sample::select(with_window()),
        calls in prop::collection::vec((0u64..20_000_000_000, possible()), 0..40),
    ) {
        let mut controller = kind.build(Limits::default());
        for (now, call) in calls {
            apply(controller.as_mut(), Timestamp::from_nanos(now), &call);
        }
        // The last feedback: nothing is in flight, neither for the controller nor for the pacer that starts
        // here.
        let begin = Timestamp::from_nanos(20_000_000_000);
        let size = DataSize::from_bytes(1200);
        let sent = SentPacket { sequence: 999, at: begin, size, probe: None, in_flight: size };
        let packets = vec![PacketReport { sent, arrival: None, ecn: Ecn::NotEct }];
        apply(controller.as_mut(), begin, &Call::Feedback(Message { packets, ..Message::default() }));
        let departures = send_without_feedback(controller.as_mut(), begin, TimeDelta::from_seconds(20));
        // From second 10 on: at least one packet per second, at about the minimum rate.
        for second in 10..20 {
            let from = begin + TimeDelta::from_seconds(second);
            let count = departures.iter().filter(|&&at| at >= from && at < from + TimeDelta::from_seconds(1)).count();
            prop_assert!((1..=15).contains(&count), "{} in second {}", count, second);
        }
    }
}

#[test]
fn without_feedback_it_sends_about_50_kbps() {
    for kind in with_window() {
        let mut controller = kind.build(Limits::default());
        let departures =
            send_without_feedback(controller.as_mut(), Timestamp::ZERO, TimeDelta::from_seconds(30));
        let late = departures.iter().filter(|at| at.as_seconds() >= 10.0).count();
        let rate = late as f64 * 1200.0 * 8.0 / 20.0;
        assert!((20e3..=100e3).contains(&rate), "{kind}: {rate} bit/s");
    }
}
