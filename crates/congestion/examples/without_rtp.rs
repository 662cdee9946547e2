//! A sender without RTP, such as media over QUIC: its own packet numbers and acknowledgements, any controller by name.
//!
//! `cargo run -p giusto-congestion --example without_rtp -- tempo`. The network is a queue in memory: 2 Mbit/s, 20 ms each way.

use std::collections::{BTreeMap, VecDeque};

use giusto_congestion::{
    Algorithm, Controller, Feedback, Limits, PacketReport, QueueState, Requirements, SentPacket,
};
use giusto_pace::media::{Pacer, PacerConfig, Permit, Probe, Resume};
use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

const PACKET: DataSize = DataSize::from_bytes(1200);
const CAPACITY: DataRate = DataRate::from_bps(2_000_000);
const ONE_WAY: TimeDelta = TimeDelta::from_millis(20);
const FRAME: TimeDelta = TimeDelta::from_millis(33);
/// Least burst of the pacer: with [`Resume::Room`], timers that are late by so much do not lower the rate.
const LATENESS: TimeDelta = TimeDelta::from_millis(5);
/// A packet is lost once one that was sent this much later has arrived (RFC 9002 §6.1.1).
const REORDERING: u64 = 3;

/// An acknowledgement of our own format: packet numbers with their times of arrival on the receiver's clock.
type Acknowledgement = Vec<(u64, PeerTimestamp)>;

struct Sender {
    controller: Box<dyn Controller>,
    pacer: Pacer,
    /// Packets that were neither acknowledged nor lost.
    unreported: BTreeMap<u64, SentPacket>,
    in_flight: DataSize,
    next_number: u64,
    /// Packets that wait for the pacer, with the times at which they were encoded.
    queue: VecDeque<Timestamp>,
    next_frame: Timestamp,
    /// Media that the encoder owes: the part of a frame that is less than a packet.
    owed: DataSize,
    reports: Vec<PacketReport>,
}

impl Sender {
    fn new(algorithm: Algorithm, limits: Limits) -> Self {
        let controller = algorithm.build(limits);
        let burst = controller.requirements().pacer.burst.max(LATENESS);
        let config = PacerConfig::libwebrtc().with_burst(burst).with_resume(Resume::Room);
        let pacer = Pacer::new(config, controller.target().pacing);
        Self {
            controller,
            pacer,
            unreported: BTreeMap::new(),
            in_flight: DataSize::ZERO,
            next_number: 0,
            queue: VecDeque::new(),
            next_frame: Timestamp::ZERO,
            owed: DataSize::ZERO,
            reports: Vec::new(),
        }
    }

    /// Encodes a frame that is due at the target rate, and calls the controller at its deadline.
    fn handle_timeout(&mut self, now: Timestamp) {
        if self.next_frame <= now {
            self.next_frame += FRAME;
            self.owed += self.controller.target().media.size_in(FRAME);
            while self.owed >= PACKET {
                self.owed = self.owed.saturating_sub(PACKET);
                self.queue.push_back(now);
            }
        }
        if now == Timestamp::ZERO || self.controller.next_timeout().is_some_and(|due| due <= now) {
            let oldest = self.queue.front().map_or(TimeDelta::ZERO, |encoded| now - *encoded);
            self.controller.on_timeout(now, &QueueState::new(PACKET * self.queue.len() as u64, oldest));
            self.follow(now);
        }
    }

    /// Whether there is a packet to send. A probe needs packets even if there are no media: padding.
    fn has_packet(&self, now: Timestamp) -> bool {
        !self.queue.is_empty() || self.pacer.probe(now).is_some()
    }

    /// When `handle_timeout` or `poll_transmit` has something to do.
    fn next_timeout(&self, now: Timestamp) -> Timestamp {
        let paced = match self.pacer.next_send(now, PACKET) {
            Permit::At(at) if self.has_packet(now) => Some(at),
            _ => None,
        };
        [self.controller.next_timeout(), paced].into_iter().flatten().fold(self.next_frame, Timestamp::min)
    }

    /// The number of a packet that may leave now.
    fn poll_transmit(&mut self, now: Timestamp) -> Option<u64> {
        if !self.has_packet(now) || self.pacer.next_send(now, PACKET) != Permit::Now {
            return None;
        }
        self.queue.pop_front();
        let probe = self.pacer.on_sent(now, PACKET);
        self.in_flight += PACKET;
        self.pacer.on_in_flight(self.in_flight);
        let packet =
            SentPacket::new(self.next_number, now, PACKET).with_probe(probe).with_in_flight(self.in_flight);
        self.next_number += 1;
        self.unreported.insert(packet.sequence, packet);
        self.controller.on_sent(now, &packet);
        Some(packet.sequence)
    }

    /// Turns an acknowledgement into feedback: each packet once, in order, as received or as lost.
    fn on_acknowledgement(&mut self, now: Timestamp, acknowledgement: &[(u64, PeerTimestamp)]) {
        self.reports.clear();
        for (number, arrival) in acknowledgement {
            if let Some(sent) = self.unreported.remove(number) {
                self.reports.push(PacketReport::new(sent, Some(*arrival)));
            }
        }
        let Some(&(largest, _)) = acknowledgement.iter().max_by_key(|(number, _)| *number) else { return };
        let lost = self.unreported.range(..largest.saturating_sub(REORDERING - 1));
        self.reports.extend(lost.map(|(_, sent)| PacketReport::new(*sent, None)));
        self.reports.sort_by_key(|report| report.sent.sequence);
        for report in &self.reports {
            self.unreported.remove(&report.sent.sequence);
            self.in_flight = self.in_flight.saturating_sub(report.sent.size);
        }
        self.pacer.on_in_flight(self.in_flight);
        self.controller.on_feedback(now, &Feedback::new(&self.reports, self.in_flight));
        self.follow(now);
    }

    /// Reads the controller again, as after each of its calls that can change the target.
    fn follow(&mut self, now: Timestamp) {
        let target = self.controller.target();
        self.pacer.on_target(now, target.pacing, target.window);
        while let Some(probe) = self.controller.next_probe() {
            let (cluster, packets) = (probe.cluster, probe.packets);
            let probe = Probe::new(cluster, probe.rate, probe.duration, packets, probe.batch);
            self.pacer.on_probe(now, probe);
        }
    }
}

/// A bottleneck whose queue holds 100 ms, and the receiver, which acknowledges every 25 ms.
#[derive(Default)]
struct Network {
    free_at: Timestamp,
    arriving: VecDeque<(Timestamp, u64)>,
    arrived: Acknowledgement,
    next_acknowledgement: Timestamp,
    returning: VecDeque<(Timestamp, Acknowledgement)>,
    received_packets: u64,
}

impl Network {
    fn transmit(&mut self, now: Timestamp, number: u64) {
        let start = self.free_at.max(now);
        if start - now < TimeDelta::from_millis(100) {
            self.free_at = start + CAPACITY.time_for(PACKET).unwrap_or_default();
            self.arriving.push_back((self.free_at + ONE_WAY, number));
        }
    }

    fn next_timeout(&self) -> Timestamp {
        let returning = self.returning.front().map_or(Timestamp::MAX, |(at, _)| *at);
        self.next_acknowledgement.min(returning)
    }

    /// The acknowledgement that reaches the sender now.
    fn poll(&mut self, now: Timestamp) -> Option<Acknowledgement> {
        while let Some((at, number)) = due(&mut self.arriving, now) {
            self.received_packets += 1;
            // The receiver's clock is an hour ahead.
            self.arrived.push((number, PeerTimestamp::from_nanos(at.as_nanos() + 3_600_000_000_000)));
        }
        if self.next_acknowledgement <= now {
            self.next_acknowledgement += TimeDelta::from_millis(25);
            self.returning.push_back((now + ONE_WAY, std::mem::take(&mut self.arrived)));
        }
        due(&mut self.returning, now).map(|(_, acknowledgement)| acknowledgement)
    }
}

/// The first of `waiting`, if its time has come.
fn due<T>(waiting: &mut VecDeque<(Timestamp, T)>, now: Timestamp) -> Option<(Timestamp, T)> {
    if waiting.front()?.0 <= now { waiting.pop_front() } else { None }
}

/// Sends for 30 s, with timers that are `late`. Returns what arrived in the last 20 s, as a share of the capacity.
pub(crate) fn run(algorithm: Algorithm, late: TimeDelta) -> Result<f64, String> {
    // Our acknowledgements have arrival times. Only `gcc:remb` needs something else: an estimate of the receiver.
    if !Requirements::ARRIVAL_TIMES.iter().any(|kind| algorithm.requirements().accepts(*kind)) {
        return Err(format!("{algorithm} needs other feedback than arrival times"));
    }
    let mut sender = Sender::new(algorithm, Limits::DEFAULT.with_max(DataRate::from_bps(3_000_000)));
    let (mut network, mut now, mut second, mut before) = (Network::default(), Timestamp::ZERO, 0, 0);
    while second < 30 {
        if let Some(acknowledgement) = network.poll(now) {
            sender.on_acknowledgement(now, &acknowledgement);
        }
        sender.handle_timeout(now);
        while let Some(number) = sender.poll_transmit(now) {
            network.transmit(now, number);
        }
        now = (sender.next_timeout(now) + late).min(network.next_timeout()).max(now);
        while now.as_nanos() / 1_000_000_000 > second {
            second += 1;
            println!("{second:2} s: {}", sender.controller.target().media);
            if second == 10 {
                before = network.received_packets;
            }
        }
    }
    let received = PACKET * (network.received_packets - before);
    Ok(received.as_bits() as f64 / (CAPACITY.as_bps() * 20) as f64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "tempo".to_owned());
    let used = run(name.parse()?, TimeDelta::ZERO)?;
    println!("{name} used {:.0} % of {CAPACITY}", 100.0 * used);
    Ok(())
}
