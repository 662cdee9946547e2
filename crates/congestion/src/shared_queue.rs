//! Several senders of smooth media in one drop-tail queue, to compare controllers with the theory of their equilibria.

use std::collections::VecDeque;

use giusto_units::{DataSize, PeerTimestamp, TimeDelta, Timestamp};

use crate::{
    controller::Controller,
    feedback::{Feedback, PacketReport, QueueState, SentPacket},
    target::Target,
};

/// Bytes of a packet.
pub(crate) const PACKET: u64 = 1200;
/// Step of the simulation.
const STEP: TimeDelta = TimeDelta::from_micros(250);

giusto_units::defaults! {
    /// The path of all flows.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Path {
        pub(crate) mbps: f64 = 3.0,
        pub(crate) one_way: TimeDelta = TimeDelta::from_millis(25),
        /// Length of the queue.
        pub(crate) queue: TimeDelta = TimeDelta::from_millis(300),
        /// Interval of feedback.
        pub(crate) feedback: TimeDelta = TimeDelta::from_millis(25),
        /// One packet in this number is lost behind the queue; zero: none.
        pub(crate) loss_every: u64 = 0,
        /// One packet in this number arrives 40 ms later, behind others; zero: none.
        pub(crate) late_every: u64 = 0,
        pub(crate) seconds: u64 = 60,
    }
}

/// A flow, whose media are produced at the target rate.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) begin: Timestamp,
    credit: f64,
    sequence: u64,
    in_flight: DataSize,
    flight: VecDeque<(SentPacket, Option<Timestamp>)>,
    /// Reported as missing, but to arrive.
    late: Vec<(SentPacket, Timestamp)>,
    reports: VecDeque<(Timestamp, Vec<PacketReport>)>,
    next_report: Timestamp,
}

impl Flow {
    pub(crate) fn new(controller: Box<dyn Controller>, begin_s: u64) -> Self {
        let begin = Timestamp::from_nanos(begin_s * 1_000_000_000);
        Self {
            controller,
            begin,
            credit: 0.0,
            sequence: 0,
            in_flight: DataSize::ZERO,
            flight: VecDeque::new(),
            late: Vec::new(),
            reports: VecDeque::new(),
            next_report: begin,
        }
    }
}

/// What happened in the second half.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Arrived rate of each flow, in Mbit/s.
    pub(crate) mbps: Vec<f64>,
    /// Mean and 95th percentile of the queueing delay, in ms, sampled at each step.
    pub(crate) queue_ms: f64,
    pub(crate) queue_p95_ms: f64,
    /// Share of the packets that the queue dropped.
    pub(crate) dropped: f64,
}

/// Runs flows over `path`.
pub(crate) fn run(path: Path, flows: &mut [Flow]) -> Outcome {
    run_watched(path, flows, |_, _| ())
}

/// Runs flows over `path`, and shows the target of the first in each step.
pub(crate) fn run_watched(
    path: Path,
    flows: &mut [Flow],
    mut watch: impl FnMut(Timestamp, Target),
) -> Outcome {
    let steps = path.seconds * 1_000_000_000 / STEP.as_nanos() as u64;
    let half = Timestamp::from_nanos(path.seconds * 500_000_000);
    let mut arrived = vec![0.0; flows.len()];
    let (mut backlog, mut queue, mut sent, mut dropped) = (0.0_f64, Vec::new(), 0.0, 0.0);
    let size = DataSize::from_bytes(PACKET);
    for step in 0..steps {
        let now = Timestamp::from_nanos(step * STEP.as_nanos() as u64);
        backlog = (backlog - path.mbps * 1e6 * STEP.as_seconds()).max(0.0);
        if now >= half {
            queue.push(backlog / path.mbps / 1e3);
        }
        for (place, flow) in flows.iter_mut().enumerate().filter(|(_, flow)| now >= flow.begin) {
            receive(flow, now, path);
            if flow.controller.next_timeout().is_some_and(|due| due <= now) {
                flow.controller.on_timeout(now, &QueueState::default());
            }
            let target = flow.controller.target();
            if place == 0 {
                watch(now, target);
            }
            flow.credit += target.media.as_bps() as f64 / 8.0 * STEP.as_seconds();
            while flow.credit >= PACKET as f64 {
                if target.window.is_some_and(|window| flow.in_flight + size > window) {
                    flow.credit = PACKET as f64;
                    break;
                }
                flow.credit -= PACKET as f64;
                flow.in_flight += size;
                let packet = SentPacket::new(flow.sequence, now, size).with_in_flight(flow.in_flight);
                flow.sequence += 1;
                let wait = TimeDelta::from_seconds_f64(backlog / path.mbps / 1e6);
                let is_dropped = wait > path.queue;
                let is_lost = path.loss_every > 0 && flow.sequence.is_multiple_of(path.loss_every);
                let is_late = path.late_every > 0 && flow.sequence.is_multiple_of(path.late_every);
                let one_way = path.one_way + TimeDelta::from_millis(if is_late { 40 } else { 0 });
                let arrival = (!is_dropped && !is_lost).then_some(now + wait + one_way);
                if !is_dropped {
                    backlog += size.as_bits() as f64;
                }
                if now >= half {
                    sent += 1.0;
                    dropped += f64::from(u8::from(is_dropped));
                    arrived[place] += if arrival.is_some() { size.as_bits() as f64 } else { 0.0 };
                }
                flow.flight.push_back((packet, arrival));
                flow.controller.on_sent(now, &packet);
            }
        }
    }
    let mean = queue.iter().sum::<f64>() / queue.len() as f64;
    queue.sort_unstable_by(f64::total_cmp);
    let time = path.seconds as f64 / 2.0;
    Outcome {
        mbps: arrived.iter().map(|bits| bits / time / 1e6).collect(),
        queue_ms: mean,
        queue_p95_ms: queue[queue.len() * 95 / 100],
        dropped: dropped / f64::max(sent, 1.0),
    }
}

fn receive(flow: &mut Flow, now: Timestamp, path: Path) {
    if flow.next_report <= now {
        flow.next_report += path.feedback;
        let came = |arrival: &Option<Timestamp>| arrival.is_some_and(|arrival| arrival <= now);
        if let Some(last) = flow.flight.iter().rposition(|(_, arrival)| came(arrival)) {
            let steps = |at: Timestamp| PeerTimestamp::from_nanos(at.as_nanos() / 250_000 * 250_000);
            let report = |sent, arrival: Option<Timestamp>| PacketReport::new(sent, arrival.map(steps));
            let arrived = flow.late.extract_if(.., |(_, arrival)| *arrival <= now);
            let mut reports: Vec<_> = arrived.map(|(sent, arrival)| report(sent, Some(arrival))).collect();
            for (sent, arrival) in flow.flight.drain(..=last) {
                flow.late.extend(arrival.filter(|_| !came(&arrival)).map(|arrival| (sent, arrival)));
                reports.push(report(sent, arrival.filter(|_| came(&arrival))));
            }
            flow.reports.push_back((now + path.one_way, reports));
        }
    }
    while flow.reports.front().is_some_and(|(at, _)| *at <= now) {
        let Some((_, packets)) = flow.reports.pop_front() else { break };
        if let Some(last) = packets.last() {
            flow.in_flight = DataSize::from_bytes(PACKET) * (flow.sequence - last.sent.sequence - 1);
        }
        let feedback = Feedback { packets: &packets, in_flight: flow.in_flight, ..Feedback::default() };
        flow.controller.on_feedback(now, &feedback);
    }
}
