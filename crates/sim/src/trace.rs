//! What happens in a simulation, as one ordered stream of typed events.
//!
//! Summaries, plots and files derive from this stream. Who wants to see it implements [`Observer`]; who does not passes `()`,
//! and nothing is computed for it.

use giusto_congestion::Decision;
use giusto_units::{DataSize, TimeDelta, Timestamp};

use crate::packet::{DropReason, FlowId, LinkId, Packet};

/// Something that happened to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Its source sent it.
    Sent {
        /// Which.
        packet: Packet,
    },
    /// A link took it into its queue.
    Queued {
        /// Where.
        link: LinkId,
        /// Which.
        packet: Packet,
        /// What waits there now, this packet included.
        waiting: Waiting,
    },
    /// A link began to transmit it.
    Dequeued {
        /// Where.
        link: LinkId,
        /// Which.
        packet: Packet,
        /// How long it waited there.
        sojourn: TimeDelta,
        /// What still waits there.
        waiting: Waiting,
    },
    /// A queue marked it: congestion experienced.
    Marked {
        /// Where.
        link: LinkId,
        /// Which.
        packet: Packet,
    },
    /// A link made a copy of it, which travels from there on by itself.
    Duplicated {
        /// Where.
        link: LinkId,
        /// Which.
        packet: Packet,
    },
    /// It will not arrive.
    Dropped {
        /// Where.
        link: LinkId,
        /// Which.
        packet: Packet,
        /// Why.
        reason: DropReason,
        /// What waits there now.
        waiting: Waiting,
    },
    /// It reached the end of its path.
    Delivered {
        /// Which.
        packet: Packet,
    },
}

impl Event {
    /// The packet that it happened to.
    pub const fn packet(&self) -> &Packet {
        match self {
            Self::Sent { packet }
            | Self::Queued { packet, .. }
            | Self::Dequeued { packet, .. }
            | Self::Marked { packet, .. }
            | Self::Duplicated { packet, .. }
            | Self::Dropped { packet, .. }
            | Self::Delivered { packet } => packet,
        }
    }

    /// The link at which it happened; what happens at the ends of a path happens at none.
    pub const fn link(&self) -> Option<LinkId> {
        match self {
            Self::Queued { link, .. }
            | Self::Dequeued { link, .. }
            | Self::Marked { link, .. }
            | Self::Duplicated { link, .. }
            | Self::Dropped { link, .. } => Some(*link),
            Self::Sent { .. } | Self::Delivered { .. } => None,
        }
    }
}

/// Something that happened inside an agent.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// A congestion controller has decided.
    Decided {
        /// For which flow.
        flow: FlowId,
        /// What, and why.
        decision: Decision,
    },
    /// A frame arrived whole.
    Frame {
        /// On which flow.
        flow: FlowId,
        /// Of which of its streams.
        ssrc: u32,
        /// From its capture until then, if it can be told.
        delay: Option<TimeDelta>,
        /// Its size.
        size: DataSize,
    },
    /// TCP handed data to the application, in order.
    Received {
        /// On which flow.
        flow: FlowId,
        /// How much.
        size: DataSize,
    },
    /// A frame was not encoded, since packets had waited at the sender for too long.
    Skipped {
        /// On which flow.
        flow: FlowId,
        /// Of which of its streams.
        ssrc: u32,
    },
    /// What had waited at the sender for too long was thrown away.
    Discarded {
        /// On which flow.
        flow: FlowId,
        /// Of which of its streams.
        ssrc: u32,
        /// How many packets.
        packets: u64,
    },
}

impl Note {
    /// The flow that it is about.
    pub const fn flow(&self) -> FlowId {
        match *self {
            Self::Decided { flow, .. }
            | Self::Frame { flow, .. }
            | Self::Received { flow, .. }
            | Self::Skipped { flow, .. }
            | Self::Discarded { flow, .. } => flow,
        }
    }
}

/// What waits in a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Packets.
    pub packets: u64,
    /// Their sizes.
    pub size: DataSize,
}

/// Sees every event, in order.
pub trait Observer {
    /// `event` happened at `now`.
    fn on_event(&mut self, now: Timestamp, event: &Event);

    /// An agent tells of `flow` that `name`, with its unit, is `value` at `now`.
    fn on_gauge(&mut self, now: Timestamp, flow: FlowId, name: &'static str, value: f64) {
        let _ = (now, flow, name, value);
    }

    /// `note` was made by an agent at `now`.
    fn on_note(&mut self, now: Timestamp, note: &Note) {
        let _ = (now, note);
    }

    /// Whether it looks at all: an event that nobody watches is not made.
    #[inline]
    fn watches(&self) -> bool {
        true
    }
}

/// Sees nothing, and costs nothing.
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
}

/// Keeps every event, in order.
impl Observer for Vec<(Timestamp, Event)> {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        self.push((now, *event));
    }
}
