//! Property tests: with calls in any order the target stays within its limits, and packets are never blocked
//! for ever.

use giusto_units::PeerTimestamp;
use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Call {
    Sent(Packet),
    Packets(Vec<(Packet, Option<u64>, u8)>, u64, Option<i64>),
    Nothing,
    Timeout(u64, i64),
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    sequence: u64,
    at: u64,
    size: u64,
    in_flight: u64,
}

impl Packet {
    fn sent(self) -> SentPacket {
        SentPacket {
            sequence: self.sequence,
            at: Timestamp::from_nanos(self.at),
            size: DataSize::from_bytes(self.size),
            probe: None,
            in_flight: DataSize::from_bytes(self.in_flight),
        }
    }
}

/// Mostly within a few seconds, sometimes anything.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0_u64..20_000_000_000, 1 => any::<u64>()]
}

fn bytes(usual: u64) -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0..usual, 1 => any::<u64>()]
}

fn packet() -> impl Strategy<Value = Packet> {
    let sequence = prop_oneof![9 => 0_u64..200, 1 => any::<u64>()];
    (sequence, time(), bytes(1500), bytes(100_000)).prop_map(|(sequence, at, size, in_flight)| Packet {
        sequence,
        at,
        size,
        in_flight,
    })
}

fn call() -> impl Strategy<Value = Call> {
    let packets = prop::collection::vec((packet(), prop::option::of(time()), 0_u8..4), 0..40);
    prop_oneof![
        3 => packet().prop_map(Call::Sent),
        3 => (packets, bytes(100_000), prop::option::of(any::<i64>()))
            .prop_map(|(packets, in_flight, rtt)| Call::Packets(packets, in_flight, rtt)),
        1 => Just(Call::Nothing),
        2 => (bytes(100_000), any::<i64>()).prop_map(|(size, oldest)| Call::Timeout(size, oldest)),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let rate = || prop_oneof![4 => 0_u64..20_000_000, 1 => any::<u64>()];
    (rate(), rate(), rate()).prop_map(|(min, start, max)| {
        let [min, start, max] = [min, start, max].map(DataRate::from_bps);
        Limits { min, start, max }
    })
}

/// The text's configuration, with any of its numbers replaced.
fn config() -> impl Strategy<Value = Config> {
    let number = prop_oneof![Just(0.0), Just(1.0), Just(-1.0), Just(1e300), Just(f64::NAN), 0.0..2.0];
    let wild =
        (prop::collection::vec(number, 6), any::<i64>(), any::<u64>()).prop_map(|(numbers, nanos, bytes)| {
            let mut config = Config::default();
            let time = TimeDelta::from_nanos(nanos);
            if let [a, b, c, d, e, f] = numbers[..] {
                config.window.beta_loss = a;
                config.window.multiplicative = b;
                config.media.divisor = c;
                config.sending.head_room = d;
                config.silence.beta = e;
                config.delay.gain = f;
            }
            config.delay.target = time;
            config.look = time;
            config.window.virtual_rtt = time;
            config.presumed_rtt = time;
            config.window.segment = DataSize::from_bytes(bytes);
            config.delay.minima = (bytes % 12) as usize;
            config.delay.reduce_jitter = nanos % 2 == 0;
            config
        });
    prop_oneof![3 => Just(Config::default()), 1 => wild]
}

fn apply(controller: &mut ScreamV2, now: Timestamp, call: Call) {
    match call {
        Call::Sent(packet) => controller.on_sent(now, &packet.sent()),
        Call::Packets(packets, in_flight, rtt) => {
            let packets: Vec<_> = packets
                .into_iter()
                .map(|(packet, arrival, ecn)| PacketReport {
                    sent: packet.sent(),
                    arrival: arrival.map(PeerTimestamp::from_nanos),
                    ecn: Ecn::from_bits(ecn),
                })
                .collect();
            let in_flight = DataSize::from_bytes(in_flight);
            let rtt = rtt.map(TimeDelta::from_nanos);
            let feedback = Feedback { packets: &packets, rtt, in_flight, ..Feedback::default() };
            controller.on_feedback(now, &feedback);
        }
        Call::Nothing => controller.on_feedback(now, &Feedback::default()),
        Call::Timeout(size, oldest) => {
            let queue =
                QueueState { size: DataSize::from_bytes(size), oldest: TimeDelta::from_nanos(oldest) };
            controller.on_timeout(now, &queue);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_target_stays_within_its_limits(
        config in config(),
        limits in limits(),
        calls in prop::collection::vec((time(), call()), 0..80),
    ) {
        let mut controller = ScreamV2::new(Config { limits, ..config });
        let (min, max) = (limits.min, limits.max.max(limits.min));
        let mut latest = Timestamp::ZERO;
        for (now, call) in calls {
            let now = Timestamp::from_nanos(now);
            latest = latest.max(now);
            let is_timeout = matches!(call, Call::Timeout(..));
            apply(&mut controller, now, call);
            if is_timeout {
                let next = controller.next_timeout();
                prop_assert!(next.is_some_and(|next| next > latest || latest == Timestamp::MAX), "{next:?} {latest}");
            }
            let target = controller.target();
            prop_assert!((min..=max).contains(&target.media), "{:?} {:?}", target, limits);
            prop_assert!(target.pacing >= target.media && target.padding == DataRate::ZERO, "{:?}", target);
            prop_assert!(target.window.is_none_or(|window| window >= DataSize::from_bytes(3000)), "{:?}", target);
            prop_assert_eq!(controller.decision().to, target.media);
            prop_assert!(controller.marks() >= 0.0 && controller.marks() <= 1.0);
        }
    }

    #[test]
    fn packets_are_sent_again_without_feedback(
        limits in limits(),
        calls in prop::collection::vec((0_u64..20_000_000_000, call()), 0..40),
        size in 1_u64..65_000,
        in_flight in 0_u64..10_000_000,
    ) {
        let mut controller = ScreamV2::new(Config::within(limits));
        for (now, call) in calls {
            apply(&mut controller, Timestamp::from_nanos(now), call);
        }
        // A packet is queued, and there is no more feedback: one must be sent per two intervals of at most 3
        // s, at the minimum pacing rate or more.
        let mut now = Timestamp::from_nanos(u64::MAX / 2);
        let mut flight = DataSize::from_bytes(in_flight);
        let size = DataSize::from_bytes(size);
        for sequence in 0..10 {
            flight += size;
            let sent = SentPacket { sequence, at: now, size, probe: None, in_flight: flight };
            controller.on_sent(now, &sent);
            let deadline = now + TimeDelta::from_millis(6100);
            let blocked = |controller: &ScreamV2| {
                controller.target().window.is_some_and(|window| flight + size > window)
            };
            while blocked(&controller) {
                let due = controller.next_timeout().unwrap();
                now = now.max(due);
                prop_assert!(now <= deadline, "packet {sequence} of {size:?}: {:?}", controller.target());
                controller.on_timeout(now, &QueueState { size, oldest: TimeDelta::ZERO });
            }
            prop_assert!(controller.target().pacing >= DataRate::from_bps(50_000));
        }
    }
}
