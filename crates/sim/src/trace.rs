//! The events of a simulation as one ordered, typed stream.
//!
//! Statistics, plots and files are computed from this stream. An observer implements [`Observer`]; without
//! one, `()` is passed, and no events are created.

use giusto_congestion::Decision;
use giusto_units::{DataSize, TimeDelta, Timestamp};

use crate::packet::{DropReason, FlowId, LinkId, Packet};

/// An event of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Its source sent it.
    Sent {
        /// The packet.
        packet: Packet,
    },
    /// It was not sent after all: the system of its source did not take it. Not in simulations.
    Unsent {
        /// The packet.
        packet: Packet,
    },
    /// A link enqueued it.
    Queued {
        /// The link.
        link: LinkId,
        /// The packet.
        packet: Packet,
        /// The backlog afterwards, this packet included.
        backlog: Backlog,
    },
    /// A link started to transmit it.
    Dequeued {
        /// The link.
        link: LinkId,
        /// The packet.
        packet: Packet,
        /// Its queueing delay at this link.
        sojourn: TimeDelta,
        /// The backlog afterwards.
        backlog: Backlog,
    },
    /// A queue marked it: congestion experienced.
    Marked {
        /// The link.
        link: LinkId,
        /// The packet.
        packet: Packet,
    },
    /// A link made a copy of it, which is a separate packet from there on.
    Duplicated {
        /// The link.
        link: LinkId,
        /// The packet.
        packet: Packet,
    },
    /// It was dropped.
    Dropped {
        /// The link.
        link: LinkId,
        /// The packet.
        packet: Packet,
        /// The reason.
        reason: DropReason,
        /// The backlog afterwards.
        backlog: Backlog,
    },
    /// It reached the end of its path.
    Delivered {
        /// The packet.
        packet: Packet,
    },
}

impl Event {
    /// The packet of the event.
    pub const fn packet(&self) -> &Packet {
        match self {
            Self::Sent { packet }
            | Self::Unsent { packet }
            | Self::Queued { packet, .. }
            | Self::Dequeued { packet, .. }
            | Self::Marked { packet, .. }
            | Self::Duplicated { packet, .. }
            | Self::Dropped { packet, .. }
            | Self::Delivered { packet } => packet,
        }
    }

    /// The packet of the event, to change it for an observer that knows it by another flow.
    pub const fn packet_mut(&mut self) -> &mut Packet {
        match self {
            Self::Sent { packet }
            | Self::Unsent { packet }
            | Self::Queued { packet, .. }
            | Self::Dequeued { packet, .. }
            | Self::Marked { packet, .. }
            | Self::Duplicated { packet, .. }
            | Self::Dropped { packet, .. }
            | Self::Delivered { packet } => packet,
        }
    }

    /// The link of the event; `None` for events at the ends of a path.
    pub const fn link(&self) -> Option<LinkId> {
        match self {
            Self::Queued { link, .. }
            | Self::Dequeued { link, .. }
            | Self::Marked { link, .. }
            | Self::Duplicated { link, .. }
            | Self::Dropped { link, .. } => Some(*link),
            Self::Sent { .. } | Self::Unsent { .. } | Self::Delivered { .. } => None,
        }
    }
}

/// An event inside an agent.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// A decision of a congestion controller.
    Decided {
        /// The flow.
        flow: FlowId,
        /// The decision and its cause.
        decision: Decision,
    },
    /// A frame arrived complete.
    Frame {
        /// The flow.
        flow: FlowId,
        /// The stream.
        ssrc: u32,
        /// Arrival of its last packet. The note may be later: that a frame is complete can depend on a packet of the one before.
        at: Timestamp,
        /// Frame delay, from its capture, if known.
        delay: Option<TimeDelta>,
        /// Its size.
        size: DataSize,
        /// Whether a lost packet of it was repaired.
        repaired: bool,
        /// Whether it became complete after its playout deadline.
        late: bool,
    },
    /// A frame was encoded and queued at the sender.
    Queued {
        /// The flow.
        flow: FlowId,
        /// The stream.
        ssrc: u32,
        /// The time of its capture.
        captured: Timestamp,
    },
    /// The sender sent padding.
    Padding {
        /// The flow.
        flow: FlowId,
        /// Its size on the wire.
        size: DataSize,
    },
    /// TCP delivered in-order data to the application.
    Received {
        /// The flow.
        flow: FlowId,
        /// The amount of data.
        size: DataSize,
    },
    /// A frame was not encoded, because the sender's queue was too old.
    Skipped {
        /// The flow.
        flow: FlowId,
        /// The stream.
        ssrc: u32,
    },
    /// Packets were discarded at the sender, because they were queued for too long.
    Discarded {
        /// The flow.
        flow: FlowId,
        /// The stream.
        ssrc: u32,
        /// Number of packets.
        packets: u64,
    },
    /// Lost packets were requested or repaired.
    Repair {
        /// The flow.
        flow: FlowId,
        /// The stream.
        ssrc: u32,
        /// What happened.
        event: RepairEvent,
    },
}

/// An event of the repair of lost packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairEvent {
    /// The receiver requested this number of packets.
    Requested(u64),
    /// The receiver requested a key frame.
    KeyFrameRequested,
    /// The sender sent a packet again; its size on the wire.
    Retransmitted(DataSize),
    /// The sender sent parity of several packets; its size on the wire.
    Parity(DataSize),
    /// The receiver recovered a packet from parity.
    Recovered,
}

impl Note {
    /// The flow of the note.
    pub const fn flow(&self) -> FlowId {
        match *self {
            Self::Decided { flow, .. }
            | Self::Frame { flow, .. }
            | Self::Queued { flow, .. }
            | Self::Padding { flow, .. }
            | Self::Received { flow, .. }
            | Self::Skipped { flow, .. }
            | Self::Discarded { flow, .. }
            | Self::Repair { flow, .. } => flow,
        }
    }
}

/// Content of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets.
    pub packets: u64,
    /// Their total size.
    pub size: DataSize,
}

/// Receives every event, in order.
pub trait Observer {
    /// Handles `event` at `now`.
    fn on_event(&mut self, now: Timestamp, event: &Event);

    /// Handles the report of an agent at `now` that `name`, with its unit, has the value `value` for `flow`.
    fn on_gauge(&mut self, now: Timestamp, flow: FlowId, name: &'static str, value: f64) {
        let _ = (now, flow, name, value);
    }

    /// Handles a `note` of an agent at `now`.
    fn on_note(&mut self, now: Timestamp, note: &Note) {
        let _ = (now, note);
    }

    /// Whether it uses events. If not, no events are created.
    #[inline]
    fn watches(&self) -> bool {
        true
    }

    /// Whether it uses [`Event::Queued`].
    #[inline]
    fn watches_queues(&self) -> bool {
        self.watches()
    }
}

/// Ignores all events.
impl Observer for () {
    #[inline]
    fn on_event(&mut self, _now: Timestamp, _event: &Event) {}

    #[inline]
    fn watches(&self) -> bool {
        false
    }
}

impl<O: Observer + ?Sized> Observer for &mut O {
    #[inline]
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        (**self).on_event(now, event);
    }

    fn on_gauge(&mut self, now: Timestamp, flow: FlowId, name: &'static str, value: f64) {
        (**self).on_gauge(now, flow, name, value);
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        (**self).on_note(now, note);
    }

    #[inline]
    fn watches(&self) -> bool {
        (**self).watches()
    }

    #[inline]
    fn watches_queues(&self) -> bool {
        (**self).watches_queues()
    }
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline]
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        self.0.on_event(now, event);
        self.1.on_event(now, event);
    }

    fn on_gauge(&mut self, now: Timestamp, flow: FlowId, name: &'static str, value: f64) {
        self.0.on_gauge(now, flow, name, value);
        self.1.on_gauge(now, flow, name, value);
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        self.0.on_note(now, note);
        self.1.on_note(now, note);
    }

    #[inline]
    fn watches(&self) -> bool {
        self.0.watches() || self.1.watches()
    }

    #[inline]
    fn watches_queues(&self) -> bool {
        self.0.watches_queues() || self.1.watches_queues()
    }
}

impl<O: Observer> Observer for Option<O> {
    #[inline]
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        if let Some(observer) = self {
            observer.on_event(now, event);
        }
    }

    fn on_gauge(&mut self, now: Timestamp, flow: FlowId, name: &'static str, value: f64) {
        if let Some(observer) = self {
            observer.on_gauge(now, flow, name, value);
        }
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        if let Some(observer) = self {
            observer.on_note(now, note);
        }
    }

    #[inline]
    fn watches(&self) -> bool {
        self.as_ref().is_some_and(O::watches)
    }

    #[inline]
    fn watches_queues(&self) -> bool {
        self.as_ref().is_some_and(O::watches_queues)
    }
}

/// Stores every event, in order.
impl Observer for Vec<(Timestamp, Event)> {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        self.push((now, *event));
    }
}
