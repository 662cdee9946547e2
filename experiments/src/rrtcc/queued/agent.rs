//! The thesis's sender and receiver as an agent of the simulator.

use std::collections::VecDeque;

use giusto_congestion::{
    Cause, Decision, PacketReport,
    gcc::thesis::{START, Thesis, ThesisConfig},
};
use giusto_sim::{
    packet::{FlowId, Packet},
    trace::Note,
    traffic::{Agent, Body, Transmit},
};
use giusto_units::{DataRate, DataSize, Ecn, Timestamp};

use super::super::session::Receiver;

/// Both ends. The sender sends packets of one size, one at a time, at the rate of the thesis's algorithm or at a constant one. The
/// receiver reports every 3 s.
#[derive(Debug)]
pub(super) struct Session {
    media: FlowId,
    reports: FlowId,
    packet: DataSize,
    thesis: Option<Thesis>,
    rate: DataRate,
    next: Timestamp,
    stop: Timestamp,
    sequence: u64,
    receiver: Receiver,
    /// The contents of the reports on their way.
    on_the_way: VecDeque<Vec<PacketReport>>,
    note: Option<Note>,
}

impl Session {
    pub(super) fn new(
        [media, reports]: [FlowId; 2],
        packet: DataSize,
        algorithm: Option<&ThesisConfig>,
        stop: Timestamp,
    ) -> Self {
        let decision = Decision { from: START, to: START, cause: Cause::Start, at: Timestamp::ZERO };
        Self {
            media,
            reports,
            packet,
            thesis: algorithm.map(|config| Thesis::new(*config, START)),
            rate: START,
            next: Timestamp::ZERO,
            stop,
            sequence: 0,
            receiver: Receiver::default(),
            on_the_way: VecDeque::new(),
            note: Some(Note::Decided { flow: media, decision }),
        }
    }

    fn transmit(flow: FlowId, bytes: u32) -> Transmit {
        Transmit { flow, bytes, ecn: Ecn::NotEct, body: Body::None }
    }
}

impl Agent for Session {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, _body: &Body) {
        if packet.flow == self.media {
            self.receiver.on_arrival(packet.sequence, now);
            return;
        }
        let report = self.on_the_way.pop_front().unwrap_or_default();
        let Some(thesis) = self.thesis.as_mut().filter(|_| !report.is_empty()) else { return };
        thesis.on_report(now, &report);
        let (from, to) = (self.rate, thesis.rate());
        let by_loss = thesis.loss_based() <= thesis.delay_based();
        let cause =
            if by_loss { Cause::Loss { ratio: thesis.loss_ratio() } } else { thesis.detection().cause() };
        self.rate = to;
        self.note = Some(Note::Decided { flow: self.media, decision: Decision { at: now, from, to, cause } });
    }

    fn handle_timeout(&mut self, _now: Timestamp) {}

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        if now >= self.next && self.next < self.stop {
            self.receiver.on_sent(self.sequence, now, self.packet);
            self.sequence += 1;
            self.next += self.rate.time_for(self.packet)?;
            return Some(Self::transmit(self.media, self.packet.as_bytes() as u32));
        }
        // A report may be empty.
        let due = self.receiver.next_report.filter(|due| *due <= now)?;
        self.on_the_way.push_back(self.receiver.report(due));
        Some(Self::transmit(self.reports, 1200))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        let next = (self.next < self.stop).then_some(self.next);
        [next, self.receiver.next_report].into_iter().flatten().min()
    }

    fn gauges(&self, report: &mut dyn FnMut(FlowId, &'static str, f64)) {
        if let Some(thesis) = &self.thesis {
            report(self.media, "over_use_packets", thesis.over_uses() as f64);
        }
    }

    fn poll_note(&mut self) -> Option<Note> {
        self.note.take()
    }
}
