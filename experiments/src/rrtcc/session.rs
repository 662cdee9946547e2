//! A session on the thesis's network: 1000 packets of one size, a report every 3 s (§3.3).

use std::collections::VecDeque;

use giusto_congestion::{
    PacketReport, SentPacket,
    gcc::thesis::{REPORT_INTERVAL, START, Thesis, ThesisConfig},
};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, Timestamp};

use super::network::{Bandwidths, MEAN_DELAY, Path, Recorded, Spread};

/// Table 7.
pub(super) const PACKETS: u64 = 1000;

/// A sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    /// "No congestion controller at all" (§3.4.3.2): 7.2 Mbit/s.
    Udp,
    /// The thesis's algorithm.
    Rrtcc,
}

impl Sender {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Rrtcc => "RRTCC",
        }
    }
}

/// The parameters of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Setting {
    pub(super) bandwidths: Bandwidths,
    /// The thesis states none.
    pub(super) packet: DataSize,
    pub(super) packets: u64,
    pub(super) spread: Spread,
    pub(super) algorithm: ThesisConfig,
}

impl Setting {
    /// The thesis's, with the readings that are judged.
    pub(super) fn judged(bandwidths: Bandwidths) -> Self {
        Self {
            bandwidths,
            packet: DataSize::from_bytes(60_000),
            packets: PACKETS,
            spread: Spread::Seconds,
            algorithm: ThesisConfig::default(),
        }
    }
}

/// The sender's state after a report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) at: Timestamp,
    pub(super) loss_based: DataRate,
    pub(super) delay_based: DataRate,
    pub(super) rate: DataRate,
    pub(super) loss_ratio: f64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// From the first departure to one packet's time after the last.
    pub(super) duration_s: f64,
    pub(super) sent_packets: u64,
    pub(super) lost_packets: u64,
    pub(super) packet: DataSize,
    pub(super) estimates: Vec<Estimate>,
    /// Packets that signalled over-use.
    pub(super) over_uses: u64,
    pub(super) mean_delay_ms: f64,
}

impl Outcome {
    /// The mean sending rate.
    pub(super) fn sent_bps(&self) -> f64 {
        self.sent_packets as f64 * self.packet.as_bits() as f64 / self.duration_s
    }

    pub(super) fn goodput_bps(&self) -> f64 {
        (self.sent_packets - self.lost_packets) as f64 * self.packet.as_bits() as f64 / self.duration_s
    }

    pub(super) fn loss_ratio(&self) -> f64 {
        self.lost_packets as f64 / self.sent_packets.max(1) as f64
    }
}

/// Both senders on the same capacity.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    pub(super) udp: Outcome,
    pub(super) rrtcc: Outcome,
    /// The capacity in bit/s from each moment on, over the longer of both runs.
    pub(super) capacity: Vec<(f64, f64)>,
}

impl Pair {
    /// Both runs of a seed: UDP records the states, RRTCC has them again (§4.2). The coins are each run's own.
    pub(super) fn run(setting: &Setting, seed: u64) -> Self {
        let mut recorded = Recorded::new(seed);
        let udp = run(setting, Sender::Udp, seed, &mut recorded);
        let rrtcc = run(setting, Sender::Rrtcc, seed, &mut recorded);
        let longest = (udp.duration_s.max(rrtcc.duration_s) * 1e9) as u64;
        let states = recorded.until(Timestamp::from_nanos(longest));
        let capacity =
            |(at, state): &(Timestamp, _)| (at.as_seconds(), setting.bandwidths.of(*state).as_bps() as f64);
        Self { capacity: states.iter().map(capacity).collect(), udp, rrtcc }
    }

    pub(super) fn of(&self, sender: Sender) -> &Outcome {
        match sender {
            Sender::Udp => &self.udp,
            Sender::Rrtcc => &self.rrtcc,
        }
    }
}

/// The receiver: packets to report, and the time of the next report.
#[derive(Debug, Default)]
struct Receiver {
    /// Sent and not reported yet, in order.
    unreported: VecDeque<PacketReport>,
    next_report: Option<Timestamp>,
}

impl Receiver {
    fn on_packet(&mut self, report: PacketReport, arrival: Option<Timestamp>) {
        // Reports begin with the first packet that comes (§3.3, step 2).
        if let Some(first) = arrival {
            self.next_report.get_or_insert(first + REPORT_INTERVAL);
        }
        self.unreported.push_back(report);
    }

    /// The report of `at`: all packets up to the last that has arrived by then. Status 0, "missing", is the default (§3.4.2).
    fn report(&mut self, at: Timestamp) -> Vec<PacketReport> {
        let has_come =
            |packet: &PacketReport| packet.arrival.is_some_and(|arrival| arrival.as_nanos() <= at.as_nanos());
        let count = self.unreported.iter().rposition(has_come).map_or(0, |last| last + 1);
        let late = |packet: PacketReport| PacketReport {
            arrival: packet.arrival.filter(|_| has_come(&packet)),
            ..packet
        };
        self.unreported.drain(..count).map(late).collect()
    }
}

fn run(setting: &Setting, sender: Sender, seed: u64, recorded: &mut Recorded) -> Outcome {
    let mut path = Path::new(setting.bandwidths, setting.spread, seed, sender.name());
    let mut thesis = Thesis::new(setting.algorithm, START);
    thesis.on_round_trip(MEAN_DELAY * 2);
    let mut receiver = Receiver::default();
    let mut outcome = Outcome {
        duration_s: 0.0,
        sent_packets: 0,
        lost_packets: 0,
        packet: setting.packet,
        estimates: Vec::new(),
        over_uses: 0,
        mean_delay_ms: 0.0,
    };
    let mut now = Timestamp::ZERO;
    let mut rate = START;
    for sequence in 0..setting.packets {
        // Reports that arrived before now. None is lost; each takes the mean delay.
        while let Some(at) = receiver.next_report.filter(|at| *at + MEAN_DELAY <= now) {
            receiver.next_report = Some(at + REPORT_INTERVAL);
            thesis.on_report(at + MEAN_DELAY, &receiver.report(at));
            if sender == Sender::Rrtcc {
                rate = thesis.rate();
            }
            outcome.estimates.push(Estimate {
                at: at + MEAN_DELAY,
                loss_based: thesis.loss_based(),
                delay_based: thesis.delay_based(),
                rate,
                loss_ratio: thesis.loss_ratio(),
            });
        }
        let delay = path.carry(rate, recorded.at(now));
        let arrival = delay.map(|delay| now + delay);
        let sent =
            SentPacket { sequence, at: now, size: setting.packet, probe: None, in_flight: DataSize::ZERO };
        let known = arrival.map(|at| PeerTimestamp::from_nanos(at.as_nanos()));
        receiver.on_packet(PacketReport { sent, arrival: known, ecn: Ecn::NotEct }, arrival);
        outcome.sent_packets += 1;
        match delay {
            Some(delay) => outcome.mean_delay_ms += delay.as_millis(),
            None => outcome.lost_packets += 1,
        }
        now += rate.time_for(setting.packet).unwrap_or_default();
    }
    outcome.duration_s = now.as_seconds();
    outcome.mean_delay_ms /= (outcome.sent_packets - outcome.lost_packets).max(1) as f64;
    outcome.over_uses = thesis.over_uses();
    outcome
}
