//! The interface of all ends of traffic.

use std::fmt;

use giusto_session::media::Payload;
use giusto_units::{Ecn, Timestamp};

use super::tcp::segment::Segment;
use crate::{
    packet::{FlowId, Packet},
    trace::Note,
};

/// The content of a packet, if its receiver reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// None: only its size matters.
    #[default]
    None,
    /// A segment of a TCP connection.
    Tcp(Segment),
    /// A datagram: its bytes are the head, then the payload.
    Datagram {
        /// The headers, or all of it.
        head: Vec<u8>,
        /// The rest.
        payload: Payload,
    },
}

/// A packet that an agent sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// On which of the flows that the agent was given.
    pub flow: FlowId,
    /// Size on the wire in bytes, all headers included.
    pub bytes: u32,
    /// Its ECN codepoint.
    pub ecn: Ecn,
    /// Its content.
    pub body: Body,
}

/// One end of traffic: a source, a sink, or both.
///
/// The driver calls a `handle_` method, then [`poll_transmit`](Self::poll_transmit) until it gives nothing more, then
/// [`poll_timeout`](Self::poll_timeout). Calls in any other order are safe, and a call before its time does nothing. Once
/// drained, the next deadline is later than `now`.
pub trait Agent: Send + fmt::Debug {
    /// `packet`, with `body`, arrived here.
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, body: &Body);

    /// The deadline that [`poll_timeout`](Self::poll_timeout) named has come.
    fn handle_timeout(&mut self, now: Timestamp);

    /// The next packet to send at once, if any.
    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit>;

    /// When [`handle_timeout`](Self::handle_timeout) is wanted next; `None`: never, unless a packet comes.
    fn poll_timeout(&self) -> Option<Timestamp>;

    /// Reports internal quantities: for each its flow, its name with its unit, such as `cwnd_bytes`, and its
    /// value. The most important comes first. Default: none.
    fn gauges(&self, report: &mut dyn FnMut(FlowId, &'static str, f64)) {
        let _ = report;
    }

    /// The next event inside, in order, since the last call. Default: none.
    fn poll_note(&mut self) -> Option<Note> {
        None
    }
}
