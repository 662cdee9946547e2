//! Property tests: with calls in any order the target stays within its limits, and packets are never blocked
//! for ever.

use proptest::prelude::*;

use super::*;
use crate::any_order::{Call, apply, call, limits, time};

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

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_target_stays_within_its_limits(
        config in config(),
        limits in limits(),
        calls in prop::collection::vec((time(), call()), 0..80),
    ) {
        let mut controller = ScreamV2::new(Config { limits, ..config });
        let mut limits = limits.ordered();
        let mut latest = Timestamp::ZERO;
        controller.on_timeout(latest, &QueueState::default());
        for (now, call) in calls {
            let now = Timestamp::from_nanos(now);
            if !matches!(call, Call::Streams(_)) {
                latest = latest.max(now);
            }
            apply(&mut controller, now, &call);
            if let Call::Limits(new) = call {
                limits = new.ordered();
            }
            if matches!(call, Call::Timeout(_)) {
                let next = controller.next_timeout();
                prop_assert!(next.is_some_and(|next| next > latest || latest == Timestamp::MAX), "{next:?} {latest}");
            }
            let target = controller.target();
            prop_assert!((limits.min..=limits.max).contains(&target.media), "{:?} {:?}", target, limits);
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
            apply(&mut controller, Timestamp::from_nanos(now), &call);
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
