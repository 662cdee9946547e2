//! The state machine round by round: test cases of the draft (appendix "BBR Example Test Cases"), without a path.

use crate::bbr::{
    Config, Phase,
    delivery::Sample,
    model::{Model, Report},
};
use crate::testing::prelude::*;

const RTT: TimeDelta = TimeDelta::from_millis(100);
const PACKET: f64 = 1000.0;

/// A model, and the time of its latest round.
struct Rounds {
    model: Model,
    now: Timestamp,
    sequence: u64,
    rtt: TimeDelta,
}

impl Rounds {
    fn new() -> Self {
        let now = Timestamp::from_nanos(7_000_000_000);
        Self { model: Model::new(now, Config::default(), PACKET), now, sequence: 0, rtt: RTT }
    }

    /// A round that delivers at `rate` bytes per second, after which `flight` bytes are in flight. Each has an RTT shorter by 1 µs, so that
    /// the RTT needs no probe.
    fn round(&mut self, rate: f64, flight: f64, is_app_limited: bool) -> Phase {
        self.rtt -= TimeDelta::from_micros(1);
        self.round_with(rate, flight, is_app_limited, self.rtt)
    }

    fn round_with(&mut self, rate: f64, flight: f64, is_app_limited: bool, rtt: TimeDelta) -> Phase {
        self.now += RTT;
        let prior = self.model.delivery.delivered;
        let acked = rate * RTT.as_seconds();
        self.model.delivery.delivered += acked as u64;
        let sample = Sample {
            rate,
            delivered: acked,
            prior,
            acked,
            lost: 0.0,
            flight_when_sent: rate * RTT.as_seconds(),
            is_app_limited,
        };
        let report = Report { now: self.now, rtt: Some(rtt), flight, is_window_limited: false };
        self.model.on_report(&report, &sample);
        self.model.phase
    }

    /// Loses `count` packets that were sent with `flight` bytes in flight.
    fn lose(&mut self, count: u64, flight: u64, is_app_limited: bool) {
        let (size, in_flight) = (DataSize::from_bytes(PACKET as u64), DataSize::from_bytes(flight));
        let numbers = self.sequence..self.sequence + count;
        self.sequence += count;
        for sequence in numbers.clone() {
            let packet = SentPacket::new(sequence, self.now, size).with_in_flight(in_flight);
            self.model.delivery.on_sent(self.now, &packet, is_app_limited);
        }
        for sequence in numbers {
            let sent = self.model.delivery.take(sequence).unwrap();
            self.model.on_lost(self.now, &sent);
        }
    }

    /// Until the pipe of 1 MB/s is full and drained, so that nothing is left for `ProbeBW_DOWN` to drain.
    fn reach_cruise(&mut self) {
        for rate in [250e3, 500e3, 1e6, 1e6, 1e6, 1e6] {
            self.round(rate, 150e3, false);
        }
        assert_eq!(self.model.phase, Phase::Drain);
        assert_eq!(self.round(1e6, 90e3, false), Phase::Cruise);
    }

    /// Until `ProbeBW_UP` begins.
    fn reach_up(&mut self) {
        self.reach_cruise();
        let mut rounds = 0;
        while self.model.phase != Phase::Up {
            self.round(1e6, 90e3, false);
            rounds += 1;
            assert!(rounds < 40, "{:?}", self.model.phase);
        }
    }
}

#[test]
fn startup_ends_after_three_rounds_without_growth_and_drain_with_the_queue() {
    let mut rounds = Rounds::new();
    for rate in [250e3, 500e3, 1e6, 1.1e6, 1.2e6] {
        assert_eq!(rounds.round(rate, 150e3, false), Phase::Startup, "{rate}");
        // 2.77 times the bandwidth, less 1 %.
        near(rounds.model.pacing() / (2.77 * rate * 0.99), 1.0, 1e-9);
    }
    assert_eq!(rounds.round(1.2e6, 150e3, false), Phase::Drain);
    near(rounds.model.pacing() / (0.5 * 1.2e6 * 0.99), 1.0, 1e-9);
    // 1.2 MB/s × 99.99 ms are 119.99 kB.
    assert_eq!(rounds.round(1.2e6, 120e3, false), Phase::Drain);
    assert_eq!(rounds.round(1.2e6, 119.9e3, false), Phase::Cruise);
    near(rounds.model.pacing() / (1.2e6 * 0.99), 1.0, 1e-9);
}

#[test]
fn drain_ends_after_three_rounds_whatever_is_in_flight() {
    let mut rounds = Rounds::new();
    for rate in [1e6, 1e6, 1e6, 1e6] {
        rounds.round(rate, 300e3, false);
    }
    let phases: Vec<Phase> = (0..5).map(|_| rounds.round(1e6, 300e3, false)).collect();
    assert_eq!(phases, [Phase::Drain, Phase::Drain, Phase::Drain, Phase::Down, Phase::Down]);
}

#[test]
fn the_application_limits_startup_and_up_without_end() {
    let mut rounds = Rounds::new();
    for _ in 0..30 {
        assert_eq!(rounds.round(1e6, 50e3, true), Phase::Startup);
    }
    // A limited sample counts if it is higher, otherwise it does not.
    rounds.round(1.5e6, 50e3, true);
    rounds.round(0.5e6, 50e3, true);
    near(rounds.model.rate(), 1.5e6, 1e-6);

    let mut rounds = Rounds::new();
    rounds.reach_up();
    for _ in 0..30 {
        assert_eq!(rounds.round(1e6, 50e3, true), Phase::Up);
    }
}

#[test]
fn a_cycle_is_down_cruise_refill_up_and_takes_two_to_three_seconds() {
    let mut rounds = Rounds::new();
    rounds.reach_up();
    let began = rounds.now;
    let mut phases = vec![Phase::Up];
    while phases.len() < 6 {
        let phase = rounds.round(1e6, 90e3, false);
        if phases.last() != Some(&phase) {
            phases.push(phase);
        }
        if phase == Phase::Up {
            near(rounds.model.pacing() / (1.25 * 1e6 * 0.99), 1.0, 1e-9);
        }
    }
    assert_eq!(phases, [Phase::Up, Phase::Down, Phase::Cruise, Phase::Refill, Phase::Up, Phase::Down]);
    // Two times three rounds of plateau, a round of Refill and the wait.
    within((rounds.now - began).as_seconds(), 2.7..=4.1);
}

#[test]
fn losses_above_two_percent_in_up_bound_the_flight_unless_limited() {
    // 119 packets and a part of the next, of which 15 % stay free in Cruise.
    let flight = 0.85 * (119e3 + (0.02 * 119e3 - 2e3) / 0.98);
    // Without a bound twice the product of 100 kB, and the data of a round that came at once.
    for (is_app_limited, window) in [(false, flight - 1.0..flight + 1.0), (true, 200e3..f64::INFINITY)] {
        let lost = |count| {
            let mut rounds = Rounds::new();
            rounds.reach_up();
            rounds.lose(count, 120_000, is_app_limited);
            rounds
        };
        // Two of 120 packets are below 2 %, the third is above.
        assert_eq!(lost(2).model.phase, Phase::Up);
        let mut rounds = lost(3);
        assert_eq!(rounds.model.phase, Phase::Down);
        for _ in 0..3 {
            rounds.round(1e6, 90e3, false);
        }
        assert_eq!(rounds.model.phase, Phase::Cruise);
        within(rounds.model.window(), window);
    }
}

#[test]
fn losses_in_cruise_lower_the_rate_to_the_delivery() {
    let mut rounds = Rounds::new();
    rounds.reach_cruise();
    assert_eq!(rounds.round(1e6, 50e3, false), Phase::Cruise);
    // The best delivery of the round before and of this one counts, so the second round shows it; 70 % at least remain in each.
    for (delivery, expected) in [(0.9e6, 1e6), (0.9e6, 0.9e6), (0.3e6, 0.9e6), (0.3e6, 0.63e6)] {
        rounds.lose(1, 100_000, false);
        assert_eq!(rounds.round(delivery, 30e3, false), Phase::Cruise);
        near(rounds.model.rate(), expected, 1.0);
    }
    // Refill forgets it.
    while rounds.model.phase != Phase::Refill {
        rounds.round(0.9e6, 50e3, false);
    }
    near(rounds.model.rate(), 1e6, 1e-6);
}

#[test]
fn the_rtt_is_probed_for_every_five_seconds_for_200_ms() {
    let mut rounds = Rounds::new();
    rounds.reach_cruise();
    let (mut began, mut probes) = (None, Vec::new());
    for _ in 0..300 {
        let is_probe = rounds.model.phase == Phase::ProbeRtt;
        let flight = if is_probe { 40e3 } else { 90e3 };
        let phase = rounds.round_with(1e6, flight, false, RTT);
        match (phase == Phase::ProbeRtt, began) {
            (true, None) => began = Some(rounds.now),
            (false, Some(since)) => {
                probes.push((since.as_seconds(), (rounds.now - since).as_millis()));
                began = None;
                assert_eq!(phase, Phase::Cruise);
            }
            _ => {}
        }
        if phase == Phase::ProbeRtt {
            // Half of the product, and the data that came at once.
            within(rounds.model.window(), ..=0.5 * 100e3 + 100e3);
        }
    }
    assert_eq!(probes.len(), 5, "{probes:?}");
    assert!(probes.iter().all(|&(_, time)| (200.0..=500.0).contains(&time)), "{probes:?}");
    assert!(probes.windows(2).all(|pair| (5.0..=5.8).contains(&(pair[1].0 - pair[0].0))), "{probes:?}");
}

#[test]
fn a_lower_rtt_in_five_seconds_needs_no_probe() {
    let mut rounds = Rounds::new();
    rounds.reach_cruise();
    assert!((0..300).all(|_| rounds.round(1e6, 60e3, false) != Phase::ProbeRtt));
}
