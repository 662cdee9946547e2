//! A session on the thesis's network: 1000 packets of one size, a report every 3 s (§3.3).

use std::collections::VecDeque;

use giusto_congestion::{
    PacketReport, SentPacket,
    internals::thesis::{REPORT_INTERVAL, START, Thesis, ThesisConfig},
};
use giusto_units::{DataRate, DataSize, PeerTimestamp, Timestamp};

use super::network::{Bandwidths, MEAN_DELAY, Path, Recorded, Variance};

/// Table 7.
pub(super) const PACKETS: u64 = 1000;

/// The parameters of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Setting {
    pub(super) bandwidths: Bandwidths,
    /// The thesis states none.
    pub(super) packet: DataSize,
    pub(super) packets: u64,
    pub(super) variance: Variance,
    pub(super) algorithm: ThesisConfig,
}

impl Setting {
    /// The thesis's, with the readings that are judged.
    pub(super) fn judged(bandwidths: Bandwidths) -> Self {
        Self {
            bandwidths,
            packet: DataSize::from_bytes(60_000),
            packets: PACKETS,
            variance: Variance::Seconds,
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

    pub(super) fn over_use_ratio(&self) -> f64 {
        self.over_uses as f64 / self.sent_packets as f64
    }
}

/// Both senders on the same capacity.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    /// "No congestion controller at all" (§3.4.3.2): 7.2 Mbit/s.
    pub(super) udp: Outcome,
    /// The thesis's algorithm.
    pub(super) rrtcc: Outcome,
    /// The capacity from each moment on, over the longer of both runs.
    pub(super) capacity: Vec<(Timestamp, DataRate)>,
}

impl Pair {
    /// Both runs of a seed: UDP records the states, RRTCC has them again (§4.2). The coins are each run's own.
    pub(super) fn run(setting: &Setting, seed: u64) -> Self {
        let mut recorded = Recorded::new(seed);
        let udp = run(setting, false, seed, &mut recorded);
        let rrtcc = run(setting, true, seed, &mut recorded);
        let longest = (udp.duration_s.max(rrtcc.duration_s) * 1e9) as u64;
        let capacity = recorded.until(Timestamp::from_nanos(longest), &setting.bandwidths);
        Self { udp, rrtcc, capacity }
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
    /// Expects a packet that left at `at`.
    fn on_sent(&mut self, sequence: u64, at: Timestamp, size: DataSize) {
        self.unreported.push_back(PacketReport::new(SentPacket::new(sequence, at, size), None));
    }

    /// Notes when a packet arrives, which may lie in the future.
    fn on_arrival(&mut self, sequence: u64, at: Timestamp) {
        // Reports begin with the first packet that comes (§3.3, step 2).
        self.next_report.get_or_insert(at + REPORT_INTERVAL);
        if let Some(packet) = self.unreported.iter_mut().rfind(|packet| packet.sent.sequence == sequence) {
            packet.arrival = Some(PeerTimestamp::from_nanos(at.as_nanos()));
        }
    }

    /// The report that is due at `at`: all packets up to the last that has arrived by then. Status 0, "missing", is the default
    /// (§3.4.2).
    fn report(&mut self, at: Timestamp) -> Vec<PacketReport> {
        self.next_report = Some(at + REPORT_INTERVAL);
        let has_come =
            |packet: &PacketReport| packet.arrival.is_some_and(|arrival| arrival.as_nanos() <= at.as_nanos());
        let count = self.unreported.iter().rposition(has_come).map_or(0, |last| last + 1);
        let late = |mut packet: PacketReport| {
            packet.arrival = packet.arrival.filter(|_| has_come(&packet));
            packet
        };
        self.unreported.drain(..count).map(late).collect()
    }
}

/// The run of RRTCC, or of UDP, whose rate stays.
fn run(setting: &Setting, adapts: bool, seed: u64, recorded: &mut Recorded) -> Outcome {
    let name = if adapts { "RRTCC" } else { "UDP" };
    let mut path = Path::new(setting.bandwidths, setting.variance, seed, name);
    let mut thesis = Thesis::new(&setting.algorithm, START);
    thesis.on_rtt(MEAN_DELAY * 2);
    let mut receiver = Receiver::default();
    let mut estimates = Vec::new();
    let mut delays_ms = Vec::new();
    let mut now = Timestamp::ZERO;
    let mut rate = START;
    for sequence in 0..setting.packets {
        // Reports that arrived before now. None is lost; each takes the mean delay.
        while let Some(sent) = receiver.next_report.filter(|sent| *sent + MEAN_DELAY <= now) {
            let at = sent + MEAN_DELAY;
            thesis.on_report(at, &receiver.report(sent));
            if adapts {
                rate = thesis.rate();
            }
            let (loss_based, delay_based) = (thesis.loss_based(), thesis.delay_based());
            estimates.push(Estimate { at, loss_based, delay_based, rate, loss_ratio: thesis.loss_ratio() });
        }
        receiver.on_sent(sequence, now, setting.packet);
        if let Some(delay) = path.carry(rate, recorded.at(now)) {
            receiver.on_arrival(sequence, now + delay);
            delays_ms.push(delay.as_millis());
        }
        now += rate.time_for(setting.packet).unwrap_or_default();
    }
    Outcome {
        duration_s: now.as_seconds(),
        sent_packets: setting.packets,
        lost_packets: setting.packets - delays_ms.len() as u64,
        packet: setting.packet,
        estimates,
        over_uses: thesis.over_uses(),
        mean_delay_ms: delays_ms.iter().sum::<f64>() / delays_ms.len().max(1) as f64,
    }
}
