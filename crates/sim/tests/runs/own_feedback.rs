//! Controllers with a feedback format of their own, end to end: NADA (RFC 8698) and draft-johansson-rmcat-scream-cc-00.

use giusto_congestion::{Algorithm, Cause, Limits};
use giusto_rtp::rtcp::{NadaFeedback, Packet, ReceptionTime, ScreamFeedback};
use giusto_session::media::{MediaEvent, MediaReceiver, MediaReceiverConfig, MediaSenderConfig, RateRange};
use giusto_sim::traffic::encoder::{PerfectConfig, PerfectEncoder};
use giusto_units::{DataRate, Ecn, TimeDelta, Timestamp};
use proptest::prelude::*;

use super::link::{Run, algorithm, at, config, kbps, millis, near, receiver_config, stream};

fn limits(max: u64) -> Limits {
    Limits::DEFAULT.with_min(kbps(150)).with_start(kbps(150)).with_max(kbps(max))
}

/// One video over a path of `mbps` with a one-way delay of 25 ms and a queue without limit.
fn call(kind: Algorithm, max: u64, mbps: f64, quench_above: Option<DataRate>) -> Run {
    let limits = limits(max);
    let range = RateRange::new(limits.min, limits.max).unwrap();
    let encoder = PerfectConfig { limits: range, ..PerfectConfig::default() };
    let video = stream(7, PerfectEncoder::new(encoder, Timestamp::ZERO).unwrap());
    let config = MediaSenderConfig { ecn: Ecn::Ect0, queue_limit: None, ..config(kind) };
    let receiver = MediaReceiverConfig { quench_above, ..receiver_config(kind) };
    let sender = near(config, kind.build(limits), vec![video]);
    let mut run = Run::new(sender, MediaReceiver::new(receiver).unwrap());
    (run.rate, run.delay, run.buffer) = (DataRate::from_bps((mbps * 1e6) as u64), millis(25), TimeDelta::MAX);
    run
}

/// The media rate after each 100 ms until `seconds`, in Mbit/s.
fn rates(run: &mut Run, seconds: u64) -> Vec<f64> {
    let from = run.now.as_nanos() / 100_000_000;
    let rates = (from..seconds * 10).map(|tenth| {
        run.until(at(tenth * 100));
        run.sender().target().media.as_bps() as f64 / 1e6
    });
    let rates = rates.collect();
    assert_eq!(run.ends[0].endpoint().damaged() + run.ends[1].endpoint().damaged(), 0);
    rates
}

fn causes(run: &Run) -> impl Iterator<Item = Cause> {
    run.events[0].iter().filter_map(|event| match event {
        MediaEvent::Decided(decision) => Some(decision.cause),
        _ => None,
    })
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

#[test]
fn the_standing_queue_of_nada_is_that_of_the_equilibrium() {
    // RFC 8698 §4.3, x = XREF × RMAX / r_ref: 20 and 30 ms at the link rate. The sender's queue takes up to 5 % of r_ref from the
    // encoder, which fills the link: x is up to 5 % lower.
    for (mbps, max, expected) in [(1.0, 2000, 20.0), (2.0, 6000, 30.0)] {
        let mut run = call(algorithm("nada"), max, mbps, None);
        let rate = mean(&rates(&mut run, 150)[900..]);
        assert!((rate / mbps - 1.0).abs() < 0.03, "{mbps}: {rate}");
        // The minimum of 15 successive delays, as the receiver sees it, above the minimum of all; without the shorter reports.
        let media = run.passed.iter().filter(|passed| passed.size.as_bytes() > 250);
        let delays: Vec<_> = media
            .map(|passed| (passed.at, (passed.queued + run.rate.time_for(passed.size).unwrap()).as_millis()))
            .collect();
        let min =
            |delays: &[(Timestamp, f64)]| delays.iter().map(|&(_, delay)| delay).fold(f64::MAX, f64::min);
        let late = &delays[delays.partition_point(|&(sent, _)| sent <= at(90_000))..];
        let signal = late.windows(15).map(min).sum::<f64>() / (late.len() - 14) as f64 - min(&delays);
        assert!((signal / expected - 1.0).abs() < 0.1, "{mbps} Mbit/s: {signal} ms instead of {expected}");
    }
}

#[test]
fn nada_recovers_from_lost_messages() {
    let mut run = call(algorithm("nada"), 2000, 3.0, None);
    let before = rates(&mut run, 20);
    assert!(before[195] > 1.85, "{}", before[195]);
    run.until(at(20_000));
    run.feedback = false;
    // From 23 s on 0.8 of the rate each second: 2 Mbit/s times 0.8 to the powers of 8 and 5.
    let during = *rates(&mut run, 30).last().unwrap();
    assert!((0.3355..0.6554).contains(&during), "{during}");
    run.until(at(30_000));
    run.feedback = true;
    let after = rates(&mut run, 55);
    assert!(after.last().is_some_and(|&rate| rate > 1.85), "{after:?}");
    assert!(causes(&run).any(|cause| cause == Cause::Silence));
}

fn scream() -> Algorithm {
    algorithm("scream:d00+giusto")
}

#[test]
fn scream_ramps_up_in_3_to_5_s() {
    // §3.1, "within 3 to 5 seconds".
    for mbps in [3.5, 10.0] {
        let rates = rates(&mut call(scream(), 3000, mbps, None), 20);
        let reached = rates.iter().position(|&rate| rate >= 2.7).unwrap() as f64 / 10.0;
        assert!((3.0..=5.0).contains(&reached), "{mbps}: {reached}");
        assert!(mean(&rates[60..]) > 2.8, "{mbps}: {}", mean(&rates[60..]));
    }
}

#[test]
fn scream_fills_a_narrow_path_and_processes_marks() {
    // Marks reduce the rate once in a round trip at most.
    for (mark_above, filled, expected) in
        [(TimeDelta::MAX, 1.8..=3.2, 0..=0), (millis(5), 1.0..=3.1, 5..=800)]
    {
        let mut run = call(scream(), 10_000, 3.0, None);
        run.mark_above = mark_above;
        let rate = mean(&rates(&mut run, 40)[100..]);
        assert!(filled.contains(&rate), "{rate}");
        let marks = causes(&run).filter(|cause| matches!(cause, Cause::Marks { .. })).count();
        assert!(expected.contains(&marks), "{marks}");
    }
}

#[test]
fn source_quench_reduces_the_rate_of_scream() {
    let mut run = call(scream(), 3000, 10.0, Some(kbps(1000)));
    let rate = mean(&rates(&mut run, 40)[100..]);
    assert!((0.6..=1.2).contains(&rate), "{rate}");
    assert!(causes(&run).any(|cause| cause == Cause::SourceQuench));
}

#[test]
fn scream_recovers_from_lost_messages() {
    let mut run = call(scream(), 2000, 3.0, None);
    let media = |run: &Run| run.sender().target().media;
    rates(&mut run, 10);
    let before = media(&run);
    run.until(at(10_000));
    run.feedback = false;
    rates(&mut run, 15);
    assert_eq!((before, media(&run)), (kbps(2000), kbps(150)));
    run.until(at(15_000));
    run.feedback = true;
    rates(&mut run, 30);
    assert!(media(&run) > kbps(1800), "{:?}", media(&run));
}

proptest! {
    #[test]
    fn a_sender_handles_any_messages_of_its_receiver(
        messages in prop::collection::vec((any::<(u32, u32)>(), any::<(u16, u8, bool)>(), 0_i64..300), 1..200),
    ) {
        for kind in [algorithm("nada"), scream()] {
            let limits = limits(2000);
            let mut run = call(kind, 2000, 3.0, None);
            for &((time, received), (number, ecn_echo, flag), wait) in &messages {
                run.now += millis(wait);
                run.ends[0].handle_timeout(run.now);
                while run.ends[0].poll_transmit(run.now).is_some() {}
                let message = if kind == scream() {
                    Packet::ScreamFeedback(ScreamFeedback {
                        media_ssrc: if number % 16 == 0 { 8 } else { 7 },
                        time: ReceptionTime::from_bits(time),
                        highest_sequence: if number % 8 == 1 { number } else { 65_000_u16.wrapping_add(number >> 8) },
                        ecn_echo,
                        source_quench: flag,
                        received,
                        ..ScreamFeedback::default()
                    })
                } else {
                    let received = DataRate::from_bps(received.into());
                    Packet::NadaFeedback(NadaFeedback { gradual: flag, signal: number, received, ..NadaFeedback::default() })
                };
                run.ends[0].endpoint_mut().sender_mut().unwrap().handle_rtcp(run.now, &message);
                let target = run.sender().target();
                prop_assert!((limits.min..=limits.max).contains(&target.media), "{kind}: {target:?}");
                if kind == algorithm("nada") {
                    prop_assert!((target.media..=limits.max).contains(&target.pacing), "{target:?}");
                }
            }
        }
    }
}
