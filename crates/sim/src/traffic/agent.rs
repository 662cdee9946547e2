//! The interface between an endpoint and the simulation.

use std::fmt;

use giusto_session::media::{DatagramHead, Payload};
use giusto_units::{Ecn, Timestamp};

use super::segment::Segment;
use crate::{
    packet::{FlowId, Packet},
    trace::Note,
};

/// The content of a packet, if its receiver reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// No content: only the size of the packet matters.
    #[default]
    None,
    /// A TCP segment.
    Tcp(Segment),
    /// A datagram: its bytes are the head, then the payload.
    Datagram {
        /// The headers, or the whole datagram.
        head: DatagramHead,
        /// The rest.
        payload: Payload,
    },
}

/// A packet to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// The flow of the packet, one of those assigned to the agent.
    pub flow: FlowId,
    /// Size on the wire in bytes, all headers included.
    pub bytes: u32,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Content.
    pub body: Body,
}

/// A traffic endpoint: a source, a sink, or both.
///
/// The driver calls a `handle_` method, then [`poll_transmit`](Self::poll_transmit) until it returns `None`, then
/// [`poll_timeout`](Self::poll_timeout). Calls in any other order are safe, and an early call has no effect. After
/// `poll_transmit` has returned `None`, the next deadline lies after `now`.
pub trait Agent: Send + fmt::Debug {
    /// Processes the arrival of `packet` with content `body`.
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, body: &Body);

    /// Processes the deadline returned by [`poll_timeout`](Self::poll_timeout).
    fn handle_timeout(&mut self, now: Timestamp);

    /// Returns the next packet to send now.
    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit>;

    /// Returns the time of the next [`handle_timeout`](Self::handle_timeout) call; `None` if no timer is set.
    fn poll_timeout(&self) -> Option<Timestamp>;

    /// Reports internal quantities. For each, `report` receives the flow, the name with its unit, such as `cwnd_bytes`, and
    /// the value. The most important quantity comes first. The default reports nothing.
    fn gauges(&self, report: &mut dyn FnMut(FlowId, &'static str, f64)) {
        let _ = report;
    }

    /// Returns the next internal event since the last call. The default returns `None`.
    fn poll_note(&mut self) -> Option<Note> {
        None
    }
}
