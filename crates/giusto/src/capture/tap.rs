//! An end of a media flow whose datagrams are captured.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use giusto_sim::{
    packet::{FlowId, Packet},
    trace::Note,
    traffic::{Agent, Body, Transmit},
};
use giusto_units::{Ecn, Timestamp};

use super::pcapng::{Capture, Direction, UdpDatagram};

/// Writes what an agent sends and receives to a capture, at the times of the agent.
#[derive(Debug)]
pub(super) struct Tapped {
    pub(super) agent: Box<dyn Agent>,
    pub(super) capture: Arc<Mutex<Capture>>,
    /// Its address, and that of the other end.
    pub(super) addresses: (SocketAddr, SocketAddr),
}

impl Tapped {
    fn capture(&self, now: Timestamp, direction: Direction, body: &Body, ecn: Ecn) {
        let Body::Datagram { head, payload } = body else { return };
        let (own, other) = self.addresses;
        let (source, destination) =
            if direction == Direction::Outbound { (own, other) } else { (other, own) };
        let mut bytes = Vec::with_capacity(payload.len());
        payload.write_to(&mut bytes);
        let datagram = UdpDatagram { source, destination, ecn, head, payload: &bytes };
        self.capture.lock().unwrap_or_else(PoisonError::into_inner).packet(now, direction, &datagram);
    }
}

impl Agent for Tapped {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, body: &Body) {
        self.capture(now, Direction::Inbound, body, packet.ecn);
        self.agent.handle_packet(now, packet, body);
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.agent.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        let transmit = self.agent.poll_transmit(now)?;
        self.capture(now, Direction::Outbound, &transmit.body, transmit.ecn);
        Some(transmit)
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.agent.poll_timeout()
    }

    fn gauges(&self, report: &mut dyn FnMut(FlowId, &'static str, f64)) {
        self.agent.gauges(report);
    }

    fn poll_note(&mut self) -> Option<Note> {
        self.agent.poll_note()
    }
}
