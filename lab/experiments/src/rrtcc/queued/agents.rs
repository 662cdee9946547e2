//! The thesis's sender and receiver as agents of the simulator.

use std::collections::VecDeque;

use giusto_congestion::{
    Cause, Decision, PacketReport, SentPacket,
    internals::thesis::{REPORT_INTERVAL, START, Thesis, ThesisConfig},
};
use giusto_session::media::Payload;
use giusto_sim::{
    packet::{FlowId, Packet},
    trace::Note,
    traffic::{Agent, Body, Transmit},
};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, Timestamp};

/// The gauge that counts packets at which the delay signalled over-use.
const OVER_USES: &str = "over_use_packets";

/// Sends packets of one size, one at a time, at the rate of the thesis's algorithm or at a constant one.
#[derive(Debug)]
pub(super) struct Media {
    flow: FlowId,
    packet: DataSize,
    thesis: Option<Thesis>,
    rate: DataRate,
    next: Timestamp,
    stop: Timestamp,
    sequence: u64,
    /// Sent and not reported yet.
    unreported: VecDeque<(u64, Timestamp)>,
    note: Option<Note>,
}

impl Media {
    pub(super) fn new(
        flow: FlowId,
        packet: DataSize,
        algorithm: Option<&ThesisConfig>,
        stop: Timestamp,
    ) -> Self {
        let thesis = algorithm.map(|config| Thesis::new(config, START));
        let decision = Decision::new(Timestamp::ZERO, START, Cause::Start);
        Self {
            flow,
            packet,
            thesis,
            rate: START,
            next: Timestamp::ZERO,
            stop,
            sequence: 0,
            unreported: VecDeque::new(),
            note: Some(Note::Decided { flow, decision }),
        }
    }
}

impl Agent for Media {
    fn handle_packet(&mut self, now: Timestamp, _packet: &Packet, body: &Body) {
        let (Body::Datagram { head: report, .. }, Some(thesis)) = (body, &mut self.thesis) else { return };
        let arrivals = read(report);
        let Some(&(last, _)) = arrivals.last() else { return };
        let mut arrivals = arrivals.into_iter().peekable();
        let mut packets = Vec::new();
        while let Some(&(sequence, at)) = self.unreported.front().filter(|(sequence, _)| *sequence <= last) {
            self.unreported.pop_front();
            let arrival = arrivals.next_if(|(arrived, _)| *arrived == sequence).map(|(_, arrival)| arrival);
            packets.push(PacketReport::new(SentPacket::new(sequence, at, self.packet), arrival));
        }
        thesis.on_report(now, &packets);
        let (from, to) = (self.rate, thesis.rate());
        let by_loss = thesis.loss_based() <= thesis.delay_based();
        let cause = if by_loss { Cause::Loss { ratio: thesis.loss_ratio() } } else { thesis.delay_cause() };
        self.rate = to;
        self.note =
            Some(Note::Decided { flow: self.flow, decision: Decision::new(now, to, cause).with_from(from) });
    }

    fn handle_timeout(&mut self, _now: Timestamp) {}

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        if now < self.next || self.next >= self.stop {
            return None;
        }
        if self.thesis.is_some() {
            self.unreported.push_back((self.sequence, now));
        }
        self.sequence += 1;
        self.next += self.rate.time_for(self.packet)?;
        let bytes = self.packet.as_bytes() as u32;
        Some(Transmit { flow: self.flow, bytes, ecn: Ecn::NotEct, body: Body::None })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        (self.next < self.stop).then_some(self.next)
    }

    fn gauges(&self, report: &mut dyn FnMut(FlowId, &'static str, f64)) {
        if let Some(thesis) = &self.thesis {
            report(self.flow, OVER_USES, thesis.over_uses() as f64);
        }
    }

    fn poll_note(&mut self) -> Option<Note> {
        self.note.take()
    }
}

/// Reports every 3 s which packets arrived, and when: the thesis's RTCP packet (Table 5) in a format of our own.
#[derive(Debug)]
pub(super) struct Reporter {
    flow: FlowId,
    arrivals: Vec<(u64, Timestamp)>,
    next: Option<Timestamp>,
}

impl Reporter {
    pub(super) fn new(flow: FlowId) -> Self {
        Self { flow, arrivals: Vec::new(), next: None }
    }
}

impl Agent for Reporter {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, _body: &Body) {
        self.next.get_or_insert(now + REPORT_INTERVAL);
        self.arrivals.push((packet.sequence, now));
    }

    fn handle_timeout(&mut self, _now: Timestamp) {}

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        let due = self.next.filter(|due| *due <= now)?;
        // A report may be empty.
        let head = written(&std::mem::take(&mut self.arrivals)).into();
        let body = Body::Datagram { head, payload: Payload::default() };
        self.next = Some(due + REPORT_INTERVAL);
        Some(Transmit { flow: self.flow, bytes: 1200, ecn: Ecn::NotEct, body })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.next
    }
}

fn written(arrivals: &[(u64, Timestamp)]) -> Vec<u8> {
    arrivals
        .iter()
        .flat_map(|(sequence, at)| [sequence.to_be_bytes(), at.as_nanos().to_be_bytes()].concat())
        .collect()
}

fn read(report: &[u8]) -> Vec<(u64, PeerTimestamp)> {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let entry = |entry: &[u8]| {
        entry.split_at_checked(8).map(|(a, b)| (number(a), PeerTimestamp::from_nanos(number(b))))
    };
    report.chunks_exact(16).filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let arrivals = [(0, Timestamp::from_nanos(12)), (u64::MAX, Timestamp::from_nanos(3_000_000_000))];
        let read = read(&written(&arrivals));
        assert_eq!(read.len(), 2);
        for ((sequence, at), (read_sequence, read_at)) in arrivals.into_iter().zip(read) {
            assert_eq!((sequence, at.as_nanos()), (read_sequence, read_at.as_nanos()));
        }
        assert!(super::read(&[1, 2, 3]).is_empty());
    }
}
