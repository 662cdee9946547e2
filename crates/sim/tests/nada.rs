//! NADA (RFC 8698) with its own feedback, end to end: the equilibrium of §4.3 and the robustness of the sender.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::collections::VecDeque;

use giusto_congestion::{
    Algorithm, Cause, FeedbackKind, Limits,
    nada::{Config, Nada},
};
use giusto_rtp::rtcp::{NadaFeedback, Packet};
use giusto_session::media::{
    Datagram, MediaEndpoint, MediaEvent, MediaReceiver, MediaReceiverConfig, PayloadFormat,
};
use giusto_sim::traffic::EncodedEndpoint;
use giusto_units::{DataRate, TimeDelta, Timestamp};
use proptest::prelude::*;

use support::video_sender;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

fn limits(max: u64) -> Limits {
    let [min, start, max] = [150_000, 150_000, max].map(DataRate::from_bps);
    Limits::DEFAULT.with_min(min).with_start(start).with_max(max)
}

fn sender(config: &Config) -> EncodedEndpoint {
    let requirements = "nada".parse::<Algorithm>().unwrap().requirements();
    video_sender(config.limits, requirements, Box::new(Nada::new(*config)))
}

fn receiver() -> EncodedEndpoint {
    let config = MediaReceiverConfig {
        payloads: vec![PayloadFormat::video(96)],
        ..MediaReceiverConfig::new(1, "receiver", FeedbackKind::Nada)
    };
    EncodedEndpoint::new(MediaEndpoint::new(None, Some(MediaReceiver::new(config).unwrap())), Vec::new())
}

/// Rate in Mbit/s, and the times at which messages are lost, in milliseconds.
#[derive(Clone, Copy)]
struct Path {
    mbps: f64,
    feedback_lost: (u64, u64),
}

/// What happened to the flows.
#[derive(Default)]
struct Outcome {
    /// Media rate of each flow in each interval of 100 ms, in Mbit/s.
    rates: Vec<Vec<f64>>,
    /// Time in ms of each packet of all flows, and its time in the queue and on the link in ms.
    delays: Vec<(f64, f64)>,
    causes: Vec<Cause>,
}

impl Outcome {
    /// Mean rate of a flow over the last minute.
    fn rate(&self, flow: usize) -> f64 {
        let rates: Vec<f64> =
            self.rates.iter().rev().take(600).filter_map(|all| all.get(flow).copied()).collect();
        rates.iter().sum::<f64>() / rates.len() as f64
    }

    /// Mean over the last minute of the minimum of 15 successive delays, above the minimum of all: what the receiver sees.
    fn signal(&self, end_ms: f64) -> f64 {
        let min = |delays: &[f64]| delays.iter().copied().fold(f64::INFINITY, f64::min);
        let all: Vec<f64> = self.delays.iter().map(|&(_, delay)| delay).collect();
        let late: Vec<f64> =
            self.delays.iter().filter(|(at, _)| *at > end_ms - 60e3).map(|&(_, delay)| delay).collect();
        late.windows(15).map(min).sum::<f64>() / (late.len() - 14) as f64 - min(&all)
    }
}

/// Runs flows with these configurations over one queue, with a one-way delay of 25 ms, for `seconds`.
fn run(path: Path, configs: &[Config], seconds: u64) -> Outcome {
    let delay = TimeDelta::from_millis(25);
    let mut senders: Vec<_> = configs.iter().map(sender).collect();
    let mut receivers: Vec<_> = configs.iter().map(|_| receiver()).collect();
    // Datagrams in flight to each end, with their flow.
    let mut ways: [VecDeque<(Timestamp, usize, Datagram)>; 2] = Default::default();
    let (mut now, mut busy, mut outcome) = (Timestamp::ZERO, Timestamp::ZERO, Outcome::default());
    while now < at(seconds * 1000) {
        for (ends, way) in [&mut senders, &mut receivers].into_iter().zip(&mut ways) {
            while way.front().is_some_and(|(at, ..)| *at <= now) {
                if let Some((_, flow, datagram)) = way.pop_front()
                    && let Some(end) = ends.get_mut(flow)
                {
                    end.handle_datagram(now, &datagram, datagram.ecn);
                }
            }
            for end in ends {
                end.handle_timeout(now);
                while let Some(event) = end.poll_event() {
                    if let MediaEvent::Decided(decision) = event {
                        outcome.causes.push(decision.cause);
                    }
                }
            }
        }
        for (flow, end) in senders.iter_mut().enumerate() {
            while let Some(datagram) = end.poll_transmit(now) {
                let bits = (datagram.size().as_bits() + 28 * 8) as f64;
                busy = busy.max(now) + TimeDelta::from_seconds_f64(bits / (path.mbps * 1e6));
                // Not the sender reports, which are shorter and are not measured.
                if bits > 2000.0 {
                    outcome.delays.push((now.as_seconds() * 1e3, busy.saturating_since(now).as_millis()));
                }
                if let Some(way) = ways.last_mut() {
                    way.push_back((busy + delay, flow, datagram));
                }
            }
        }
        for (flow, end) in receivers.iter_mut().enumerate() {
            while let Some(datagram) = end.poll_transmit(now) {
                let is_lost = (at(path.feedback_lost.0)..at(path.feedback_lost.1)).contains(&now);
                if let Some(way) = ways.first_mut().filter(|_| !is_lost) {
                    way.push_back((now + delay, flow, datagram));
                }
            }
        }
        let due = senders.iter().chain(&receivers).filter_map(EncodedEndpoint::poll_timeout);
        let arrivals = ways.iter().filter_map(|way| Some(way.front()?.0));
        let next = due.chain(arrivals).min().unwrap();
        assert!(next > now, "it spins at {now:?}");
        while at(outcome.rates.len() as u64 * 100) < next && outcome.rates.len() < seconds as usize * 10 {
            let rate =
                |end: &EncodedEndpoint| end.endpoint().sender().unwrap().target().media.as_bps() as f64 / 1e6;
            outcome.rates.push(senders.iter().map(rate).collect());
        }
        now = next;
    }
    for end in senders.iter().chain(&receivers) {
        assert_eq!(end.endpoint().damaged(), 0);
    }
    outcome
}

const CLEAR: Path = Path { mbps: 1.0, feedback_lost: (0, 0) };

#[test]
fn the_standing_queue_is_that_of_the_equilibrium() {
    // x = XREF × RMAX / r_ref: 20 and 30 ms at the link rate. The sender's queue takes up to 5 % of r_ref from the encoder, which fills
    // the link: x is up to 5 % lower.
    for (mbps, max, expected) in [(1.0, 2_000_000, 20.0), (2.0, 6_000_000, 30.0)] {
        let outcome = run(Path { mbps, ..CLEAR }, &[Config::within(limits(max))], 150);
        let (rate, signal) = (outcome.rate(0), outcome.signal(150e3));
        assert!((signal / expected - 1.0).abs() < 0.1, "{mbps} Mbit/s: {signal} ms instead of {expected}");
        assert!((rate / mbps - 1.0).abs() < 0.03, "{mbps}: {rate}");
    }
}

#[test]
fn two_flows_share_in_the_ratio_of_their_weights() {
    let configs = [2.0, 1.0].map(|priority| {
        let mut config = Config::within(limits(2_000_000));
        config.priority = priority;
        config
    });
    let outcome = run(Path { mbps: 1.5, ..CLEAR }, &configs, 300);
    let ratio = outcome.rate(0) / outcome.rate(1);
    assert!((ratio / 2.0 - 1.0).abs() < 0.1, "{} {}", outcome.rate(0), outcome.rate(1));
    // x = XREF × Σ (PRIO × RMAX) / C = 10 × 6 / 1.5.
    let signal = outcome.signal(300e3);
    assert!((signal / 40.0 - 1.0).abs() < 0.1, "{signal}");
}

#[test]
fn it_recovers_from_lost_messages() {
    let path = Path { mbps: 3.0, feedback_lost: (20_000, 30_000) };
    let outcome = run(path, &[Config::within(limits(2_000_000))], 60);
    let rate = |tenth: usize| outcome.rates.get(tenth).and_then(|all| all.first()).copied().unwrap();
    assert!(rate(195) > 1.85, "{}", rate(195));
    // From 23 s on 0.8 of the rate each second.
    // 2 Mbit/s times 0.8 to the powers of 8 and 5.
    assert!((0.3355..0.6554).contains(&rate(299)), "{}", rate(299));
    assert!(rate(550) > 1.85, "{}", rate(550));
    assert!(outcome.causes.contains(&Cause::Silence));
}

proptest! {
    #[test]
    fn a_sender_handles_any_messages(
        messages in prop::collection::vec((any::<(bool, u16, u32)>(), 0_u64..300), 1..200),
    ) {
        let limits = limits(2_000_000);
        let mut sender = sender(&Config::within(limits));
        let mut now = Timestamp::ZERO;
        for ((gradual, signal, bps), wait) in messages {
            now += TimeDelta::from_millis(wait as i64);
            sender.handle_timeout(now);
            while sender.poll_transmit(now).is_some() {}
            let received = DataRate::from_bps(bps.into());
            let message = NadaFeedback { gradual, signal, received, ..NadaFeedback::default() };
            sender.endpoint_mut().sender_mut().unwrap().handle_rtcp(now, &Packet::NadaFeedback(message));
            let target = sender.endpoint().sender().unwrap().target();
            prop_assert!((limits.min..=limits.max).contains(&target.media), "{:?}", target);
            prop_assert!(target.pacing >= target.media && target.pacing <= limits.max, "{:?}", target);
        }
    }
}
