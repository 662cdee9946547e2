//! Feedback of draft-johansson-rmcat-scream-cc-00, end to end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::collections::VecDeque;

use giusto_congestion::{Algorithm, Cause, FeedbackKind, Limits};
use giusto_rtp::rtcp::{Packet, ReceptionTime, ScreamFeedback};
use giusto_session::media::{
    Datagram, MediaEndpoint, MediaEvent, MediaReceiver, MediaReceiverConfig, PayloadFormat,
};
use giusto_sim::traffic::EncodedEndpoint;
use giusto_units::{DataRate, Ecn, TimeDelta, Timestamp};
use proptest::prelude::*;

use support::video_sender;

fn algorithm(name: &str) -> Algorithm {
    name.parse().unwrap()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

fn sender(limits: Limits) -> EncodedEndpoint {
    let kind = algorithm("scream:d00+giusto");
    video_sender(limits, kind.requirements(), kind.build(limits))
}

giusto_units::defaults! {
    /// Path: rate in Mbit/s, queueing delay above which packets are marked, times at which messages are lost, in
    /// milliseconds.
    #[derive(Clone, Copy)]
    struct Path {
        mbps: f64 = 3.0,
        mark_above: TimeDelta = TimeDelta::MAX,
        quench_above: Option<DataRate> = None,
        feedback_lost: (u64, u64) = (0, 0),
    }
}

/// Runs two ends over a path with a one-way delay of 25 ms and a queue, for `seconds`. Returns the media rate
/// in each interval of 100 ms, and the causes of all changes.
fn run(path: Path, limits: Limits, seconds: u64) -> (Vec<u64>, Vec<Cause>) {
    let delay = TimeDelta::from_millis(25);
    let receiver = MediaReceiverConfig {
        payloads: vec![PayloadFormat::video(96)],
        quench_above: path.quench_above,
        ..MediaReceiverConfig::new(1, "receiver", FeedbackKind::ScreamDraft)
    };
    let mut ends = [
        sender(limits),
        EncodedEndpoint::new(
            MediaEndpoint::new(None, Some(MediaReceiver::new(receiver).unwrap())),
            Vec::new(),
        ),
    ];
    // Datagrams in flight to each end.
    let mut ways: [VecDeque<(Timestamp, Datagram)>; 2] = Default::default();
    let (mut now, mut busy) = (Timestamp::ZERO, Timestamp::ZERO);
    let (mut rates, mut causes) = (Vec::new(), Vec::new());
    while now < at(seconds * 1000) {
        for (end, way) in ends.iter_mut().zip(&mut ways) {
            while let Some((_, datagram)) = way.front().filter(|(at, _)| *at <= now).cloned() {
                way.pop_front();
                end.handle_datagram(now, &datagram, datagram.ecn);
            }
            end.handle_timeout(now);
            while let Some(event) = end.poll_event() {
                if let MediaEvent::Decided(decision) = event {
                    causes.push(decision.cause);
                }
            }
        }
        while let Some(mut datagram) = ends[0].poll_transmit(now) {
            if busy.saturating_since(now) > path.mark_above {
                datagram.ecn = Ecn::Ce;
            }
            let bits = (datagram.size().as_bits() + 28 * 8) as f64;
            busy = busy.max(now) + TimeDelta::from_seconds_f64(bits / (path.mbps * 1e6));
            ways[1].push_back((busy + delay, datagram));
        }
        while let Some(datagram) = ends[1].poll_transmit(now) {
            if !(at(path.feedback_lost.0)..at(path.feedback_lost.1)).contains(&now) {
                ways[0].push_back((now + delay, datagram));
            }
        }
        let due = ends.iter().filter_map(EncodedEndpoint::poll_timeout);
        let arrivals = ways.iter().filter_map(|way| Some(way.front()?.0));
        let next = due.chain(arrivals).min().unwrap();
        assert!(next > now, "it spins at {now:?}");
        let rate = ends[0].endpoint().sender().unwrap().target().media.as_bps();
        while at(rates.len() as u64 * 100) < next && rates.len() < seconds as usize * 10 {
            rates.push(rate);
        }
        now = next;
    }
    assert_eq!(ends[0].endpoint().damaged() + ends[1].endpoint().damaged(), 0);
    (rates, causes)
}

fn limits(max: u64) -> Limits {
    let [min, start, max] = [150_000, 150_000, max].map(DataRate::from_bps);
    Limits::DEFAULT.with_min(min).with_start(start).with_max(max)
}

fn mean(rates: &[u64]) -> f64 {
    rates.iter().sum::<u64>() as f64 / rates.len() as f64 / 1e6
}

#[test]
fn with_its_own_messages_it_ramps_up_in_3_to_5_s() {
    // §3.1, "within 3 to 5 seconds".
    for mbps in [3.5, 10.0] {
        let (rates, _) = run(Path { mbps, ..Path::default() }, limits(3_000_000), 20);
        let reached = rates.iter().position(|&rate| rate >= 2_700_000).unwrap() as f64 / 10.0;
        assert!((3.0..=5.0).contains(&reached), "{mbps}: {reached}");
        assert!(mean(&rates[60..]) > 2.8, "{mbps}: {}", mean(&rates[60..]));
    }
}

#[test]
fn a_narrow_path_is_filled_and_marks_are_processed() {
    let (rates, _) = run(Path::default(), limits(10_000_000), 40);
    assert!((1.8..=3.2).contains(&mean(&rates[100..])), "{}", mean(&rates[100..]));
    let path = Path { mark_above: TimeDelta::from_millis(5), ..Path::default() };
    let (rates, causes) = run(path, limits(10_000_000), 40);
    assert!((1.0..=3.1).contains(&mean(&rates[100..])), "{}", mean(&rates[100..]));
    let marks = causes.iter().filter(|cause| matches!(cause, Cause::Marks { .. })).count();
    assert!((5..=800).contains(&marks), "{marks}, once in a round trip at most");
}

#[test]
fn source_quench_reduces_the_rate() {
    let path = Path { mbps: 10.0, quench_above: Some(DataRate::from_bps(1_000_000)), ..Path::default() };
    let (rates, causes) = run(path, limits(3_000_000), 40);
    assert!((0.6..=1.2).contains(&mean(&rates[100..])), "{}", mean(&rates[100..]));
    assert!(causes.contains(&Cause::SourceQuench));
}

#[test]
fn it_recovers_from_lost_messages() {
    let (rates, _) = run(Path { feedback_lost: (10_000, 15_000), ..Path::default() }, limits(2_000_000), 30);
    assert_eq!((rates[99], rates[149]), (2_000_000, 150_000));
    assert!(rates[299] > 1_800_000, "{}", rates[299]);
}

proptest! {
    #[test]
    fn a_sender_handles_any_messages(
        messages in prop::collection::vec((any::<(u32, u32)>(), any::<(u16, u8, bool)>(), 0_u64..200), 1..200),
    ) {
        let limits = limits(2_000_000);
        let mut sender = sender(limits);
        let mut now = Timestamp::ZERO;
        for ((time, received), (near, ecn_echo, source_quench), wait) in messages {
            now += TimeDelta::from_millis(wait as i64);
            sender.handle_timeout(now);
            while sender.poll_transmit(now).is_some() {}
            let message = ScreamFeedback {
                media_ssrc: if near % 16 == 0 { 8 } else { 7 },
                time: ReceptionTime::from_bits(time),
                highest_sequence: if near % 8 == 1 { near } else { 65_000_u16.wrapping_add(near >> 8) },
                ecn_echo,
                source_quench,
                received,
                ..ScreamFeedback::default()
            };
            sender.endpoint_mut().sender_mut().unwrap().handle_rtcp(now, &Packet::ScreamFeedback(message));
            let media = sender.endpoint().sender().unwrap().target().media;
            prop_assert!((limits.min..=limits.max).contains(&media), "{:?}", media);
        }
    }
}
