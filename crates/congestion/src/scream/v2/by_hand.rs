//! Effects of single reports.

use super::*;
use crate::testing::{at, near, peer_at, within};

/// A path with an RTT of 50 ms and reports every 25 ms, on which the bytes in flight never limit growth.
struct Hand {
    controller: ScreamV2,
    now: u64,
    sequence: u64,
}

const FLIGHT: DataSize = DataSize::from_bytes(10_000_000);
const START: DataRate = DataRate::from_bps(2_000_000);

impl Hand {
    fn new(config: &Config) -> Self {
        let limits = Limits { start: START, max: DataRate::from_bps(1_000_000_000), ..Limits::default() };
        let mut hand =
            Self { controller: ScreamV2::new(Config { limits, ..*config }), now: 1000, sequence: 0 };
        hand.report(0, &[Some(Ecn::Ect0)]);
        hand
    }

    /// Reports packets with these codepoints and this queueing delay; `None`: missing.
    fn report(&mut self, wait: u64, packets: &[Option<Ecn>]) {
        self.now += 25;
        let (sent, arrival) = (at(self.now - 50 - wait), peer_at(self.now - 25));
        let reports: Vec<_> = (self.sequence..)
            .zip(packets)
            .map(|(sequence, ecn)| {
                let sent = SentPacket::new(sequence, sent, DataSize::from_bytes(1000)).with_in_flight(FLIGHT);
                PacketReport::new(sent, ecn.map(|_| arrival)).with_ecn(ecn.unwrap_or_default())
            })
            .collect();
        self.sequence += packets.len() as u64;
        self.controller.on_feedback(at(self.now), &Feedback::new(&reports, FLIGHT));
    }

    fn window(&self) -> f64 {
        self.controller.window.size()
    }

    fn cause(&self) -> Cause {
        self.controller.decision().cause
    }
}

fn hand() -> Hand {
    Hand::new(&Config::default())
}

const GOOD: Option<Ecn> = Some(Ecn::Ect0);
const MARK: Option<Ecn> = Some(Ecn::Ce);

#[test]
fn the_first_report_keeps_the_start_rate() {
    // 2 Mbit/s in 50 ms are 12.5 kB; the rate is the window's divided by 1.2 · 1.02, since a packet is less
    // than a tenth of the window.
    near(12_500.0 * 1.2 * 1.02 / hand().window(), 1.0, 0.08);
    within(hand().controller.target().media.as_bps() as f64, 1.99e6..2.15e6);
}

#[test]
fn only_one_classic_mark_per_rtt_reduces_the_window() {
    let mut hand = hand();
    let before = hand.window();
    hand.report(0, &[MARK]);
    assert!((hand.window() / before - 0.8).abs() < 1e-9, "{}", hand.window() / before);
    assert!(matches!(hand.cause(), Cause::Marks { ratio } if ratio > 0.9), "{:?}", hand.cause());
    hand.report(0, &[MARK]);
    assert!((hand.window() / before - 0.8).abs() < 1e-9);
    hand.report(0, &[MARK]);
    assert!((hand.window() / before - 0.64).abs() < 1e-9);
}

#[test]
fn graded_marks_reduce_it_by_half_of_their_average_share() {
    let mut hand = hand();
    hand.report(0, &[Some(Ecn::Ect1)]);
    let before = hand.window();
    hand.report(0, &[MARK]);
    // The average is one eighth. The reduction is half of that, and half again because an RTT has two virtual
    // RTTs. The window is far from the last congestion, because there was none.
    let expected = 1.0 - 1.0 / 8.0 / 2.0 / 2.0;
    assert!((hand.window() / before - expected).abs() < 1e-9, "{}", hand.window() / before);
}

#[test]
fn one_loss_is_ignored_only_without_a_queue() {
    for (wait, kept) in [(0, 1.0), (40, 0.7)] {
        let mut hand = hand();
        hand.report(wait, &[GOOD]);
        hand.report(wait, &[GOOD]);
        let before = hand.window();
        hand.report(wait, &[None]);
        // Packets reported as lost also leave the flight, and let the window grow.
        let left = hand.window() / before;
        assert!((kept..kept + 0.1).contains(&left), "{wait} ms: {left}");
        assert_eq!(matches!(hand.cause(), Cause::Loss { .. }), wait > 0, "{:?}", hand.cause());
    }
}

#[test]
fn a_link_loss_does_not_hide_a_mark() {
    let mut hand = hand();
    let before = hand.window();
    hand.report(0, &[None, MARK]);
    assert!((0.8..0.87).contains(&(hand.window() / before)), "{}", hand.window() / before);
}

#[test]
fn losses_without_a_queue_set_a_policer_limit_if_enabled() {
    let after = |config: &Config| {
        let mut hand = Hand::new(config);
        (0..200).for_each(|_| hand.report(0, &[GOOD, GOOD, GOOD, None]));
        (0..400).for_each(|_| hand.report(0, &[GOOD; 20]));
        hand.window()
    };
    let losses = LossesConfig { policer_threshold: 0.1, ..LossesConfig::default() };
    let (policed, free) = (after(&Config { losses, ..Config::default() }), after(&Config::default()));
    assert!(free > 2.0 * policed, "{free} {policed}");
    assert!(policed >= 3000.0);
}

#[test]
fn a_standing_queue_is_drained_to_measure_the_base_delay() {
    let mut hand = hand();
    // 20 ms is below half of the target, so the window is not reduced, and above a quarter: the average
    // reaches it after 256 · ln 4 RTTs of 70 ms, 355 in all.
    let mut rates = Vec::new();
    for _ in 0..1100 {
        hand.report(20, &[GOOD]);
        rates.push((hand.now, hand.controller.target().media.as_bps() as f64));
    }
    let halved: Vec<u64> = rates
        .windows(2)
        .filter_map(|pair| match *pair {
            [(_, before), (now, after)] if after < 0.6 * before => Some(now),
            _ => None,
        })
        .collect();
    assert_eq!(halved.len(), 1, "{halved:?}");
    within((halved[0] - 1000) as f64 / 75.0, 340.0..=375.0);
    let rises = |pair: &&[(u64, f64)]| pair[0].0 > halved[0] && pair[1].1 > 1.6 * pair[0].1;
    let quiet = rates.windows(2).find(rises).unwrap()[1].0 - halved[0];
    assert!((325..=375).contains(&quiet), "five round trips of 70 ms: {quiet}");
    assert!(hand.controller.delay.latest() < 0.001);
}

#[test]
fn losses_of_an_outage_do_not_count_as_policing() {
    let mut hand = hand();
    (0..40).for_each(|_| hand.report(0, &[GOOD; 4]));
    let before = hand.window();
    let packet = SentPacket::new(hand.sequence, at(hand.now), DataSize::from_bytes(1000));
    hand.controller.on_sent(packet.at, &packet);
    for _ in 0..30 {
        hand.now += 20;
        hand.controller.on_timeout(at(hand.now), &QueueState::default());
    }
    assert!((hand.window() / before - 0.5).abs() < 1e-9, "{}", hand.window() / before);
    assert_eq!(hand.cause(), Cause::Silence);
    let mut packets = vec![None; 300];
    packets.push(GOOD);
    hand.report(0, &packets);
    assert!(hand.controller.losses.rate() < 0.001 && hand.controller.losses.rate() >= 0.0);
    assert!(hand.window() > 0.49 * before);
}
