//! Properties for any network behaviour and any sequence of calls.

use proptest::prelude::*;
use rand::RngExt;

use super::*;
use crate::{random, traffic::tcp::SackBlocks};

/// Draws fates with the given probabilities in percent.
fn random_fates(seed: u64, name: &str, loss: u32, late: u32, twice: u32) -> FateRule {
    let mut random = random::stream(seed, name);
    Box::new(move |_, _| match random.random_range(0..100) {
        n if n < loss => Fate::Lost,
        n if n < loss + late => Fate::Delayed(TimeDelta::from_micros(random.random_range(1..300_000))),
        n if n < loss + late + twice => Fate::Duplicated,
        n if n % 7 == 0 => Fate::Marked,
        _ => Fate::Delivered,
    })
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let algorithm = prop_oneof![
        Just(Algorithm::NewReno),
        Just(Algorithm::Cubic),
        Just(Algorithm::Prague),
        Just(Algorithm::Bbr)
    ];
    let mss = prop_oneof![Just(536_u32), Just(1460)];
    (any::<[bool; 7]>(), algorithm, mss, 1..=2_u32, 1..=10_u32).prop_map(
        |([sack, timestamps, ecn, hystart, prr, rack, frto], algorithm, mss, segments_per_ack, window)| {
            // BBR needs both.
            let [sack, rack] = [sack, rack].map(|is_on| is_on || algorithm == Algorithm::Bbr);
            let (hystart, initial_window) = (Some(hystart), window);
            let options = Settings { sack, timestamps, ecn, hystart, prr, rack, frto, ..Settings::default() };
            Settings { mss, algorithm, initial_window, segments_per_ack, ..options }
        },
    )
}

fn any_segment() -> impl Strategy<Value = Segment> {
    const FLAGS: [Flags; 7] = [
        Flags::SYN,
        Flags::ACK,
        Flags::ECE,
        Flags::CWR,
        Flags::TIMESTAMPS,
        Flags::SACK_PERMITTED,
        Flags::DSACK,
    ];
    let number = || prop_oneof![0..40_000_u64, any::<u32>().prop_map(u64::from)];
    let blocks = prop::collection::vec((0..60_000_u64, 1..5_000_u64), 0..4);
    (any::<[bool; 7]>(), number(), number(), 0..1461_u32, 0..3_u32, blocks).prop_map(
        |(set, sequence, acknowledgment, length, connection, blocks)| {
            let mut sack = SackBlocks::default();
            for (from, length) in blocks {
                sack.push(acknowledgment, acknowledgment + from, acknowledgment + from + length);
            }
            let with = |flags: Flags, (flag, is_set)| flags.with_if(is_set, flag);
            let flags = FLAGS.into_iter().zip(set).fold(Flags::NONE, with);
            Segment { sequence, acknowledgment, sack, length, connection, flags, ..Segment::default() }
        },
    )
}

#[derive(Debug, Clone)]
enum Call {
    Packet(Segment),
    Timeout,
    Transmit,
    Drain,
    /// Moves time by this many milliseconds, which may be negative.
    Wait(i64),
}

fn any_call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => any_segment().prop_map(Call::Packet),
        1 => Just(Call::Timeout),
        2 => Just(Call::Transmit),
        2 => Just(Call::Drain),
        2 => (-50..2000_i64).prop_map(Call::Wait),
    ]
}

/// Makes `calls` and checks the deadlines that [`Agent`] guarantees.
fn call_all(agent: &mut dyn Agent, calls: &[Call]) -> Result<(), TestCaseError> {
    let (mut now, mut latest) = (Timestamp::ZERO, Timestamp::ZERO);
    for call in calls {
        match call {
            Call::Packet(segment) => {
                agent.handle_packet(now, &packet(segment, Ecn::Ce), &Body::Tcp(*segment));
            }
            Call::Timeout => agent.handle_timeout(now),
            Call::Transmit => drop(agent.poll_transmit(now)),
            Call::Wait(milliseconds) => now += ms(*milliseconds),
            Call::Drain => {
                let mut count = 0;
                while agent.poll_transmit(now).is_some() {
                    count += 1;
                    prop_assert!(count < 100_000, "never drained");
                }
                prop_assert!(agent.poll_timeout().is_none_or(|due| due > now));
            }
        }
        latest = latest.max(now);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn delivers_all_bytes_once_despite_loss_and_reordering(
        settings in any_settings(),
        bytes in 1..120_000_u64,
        seed: u64,
        (loss, late, twice) in (0..30_u32, 0..30_u32, 0..30_u32),
        (back_loss, back_late) in (0..30_u32, 0..30_u32),
    ) {
        let mut network = Network::new(Path::free(ms(50)));
        network.forward = random_fates(seed, "forward", loss, late, twice);
        network.backward = random_fates(seed, "backward", back_loss, back_late, twice);
        network.arrived = Some(vec![false; bytes as usize]);
        let mut network = network.with(&settings, Application::Bytes(bytes));
        network.run(at(1e6));
        let stats = network.sender().stats();
        prop_assert_eq!(stats.transfers, 1, "{:?}", stats);
        prop_assert_eq!(stats.acknowledged, bytes);
        prop_assert_eq!(network.receiver().stats().delivered, bytes);
        prop_assert_eq!(network.sender().poll_timeout(), None);
        prop_assert_eq!(stats.pipe, 0);
    }

    #[test]
    fn a_sender_accepts_any_sequence_of_calls(
        settings in any_settings(), calls in prop::collection::vec(any_call(), 1..80), finite: bool
    ) {
        let application = if finite { Application::Bytes(50_000) } else { Application::Unlimited };
        call_all(&mut Sender::new(FlowId(0), settings, application).unwrap(), &calls)?;
    }

    #[test]
    fn a_receiver_accepts_any_sequence_of_calls(
        settings in any_settings(), calls in prop::collection::vec(any_call(), 1..80)
    ) {
        call_all(&mut Receiver::new(FlowId(0), settings).unwrap(), &calls)?;
    }
}
