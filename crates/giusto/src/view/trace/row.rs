//! One row of a trace, and its columns.

use giusto_congestion::{Cause, Decision};
use giusto_sim::{
    packet::{DropReason, LinkId},
    trace::{Event, Note},
};
use giusto_units::{DataRate, Ecn, TimeDelta, Timestamp};

use crate::view::decision::{cause_name, signal_name};

/// The value of a row in a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Number(f64),
    Text(&'static str),
    /// The name of a flow, by its number.
    Flow(u32),
    /// The name of a link, by its number.
    Link(u32),
}

impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Self {
        value.map_or(Self::Null, Self::Integer)
    }
}

impl From<Option<f64>> for Value {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Null, Self::Number)
    }
}

impl From<Option<&'static str>> for Value {
    fn from(value: Option<&'static str>) -> Self {
        value.map_or(Self::Null, Self::Text)
    }
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Integer,
    Number,
    Text,
}

/// A column.
pub(super) struct Column {
    pub(super) name: &'static str,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "CSV has no types"))]
    pub(super) holds: Type,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "CSV has no types"))]
    pub(super) nullable: bool,
    pub(super) value: fn(&Row) -> Value,
}

const fn required(name: &'static str, holds: Type, value: fn(&Row) -> Value) -> Column {
    Column { name, holds, nullable: false, value }
}

const fn optional(name: &'static str, holds: Type, value: fn(&Row) -> Value) -> Column {
    Column { name, holds, nullable: true, value }
}

/// All columns, in order.
pub(super) const COLUMNS: [Column; 21] = [
    required("time_ns", Type::Integer, |row| Value::Integer(row.time_ns)),
    required("event", Type::Text, |row| Value::Text(row.event())),
    required("flow", Type::Text, |row| Value::Flow(row.flow)),
    optional("link", Type::Text, |row| row.link.map_or(Value::Null, |link| Value::Link(link.0))),
    required("sequence", Type::Integer, |row| Value::Integer(row.sequence)),
    required("size_bytes", Type::Integer, |row| Value::Integer(row.size_bytes.into())),
    required("ecn", Type::Text, |row| Value::Text(row.ecn())),
    optional("reason", Type::Text, |row| row.reason().into()),
    optional("sojourn_ns", Type::Integer, |row| (row.kind == Kind::Dequeued).then_some(row.lasted_ns).into()),
    optional("delay_ns", Type::Integer, |row| row.delay_ns().into()),
    optional("queue_packets", Type::Integer, |row| row.if_queued(row.queue_packets).into()),
    optional("queue_bytes", Type::Integer, |row| row.if_queued(row.queue_bytes).into()),
    optional("from_bps", Type::Integer, |row| row.decided(|decision| bps(decision.from)).into()),
    optional("to_bps", Type::Integer, |row| row.decided(|decision| bps(decision.to)).into()),
    optional("cause", Type::Text, |row| row.decided(|decision| cause_name(&decision.cause)).into()),
    optional("signal", Type::Text, |row| match row.cause() {
        Some(Cause::Delay { signal, .. }) => Value::Text(signal_name(signal)),
        _ => Value::Null,
    }),
    optional("trend_ms", Type::Number, |row| match row.cause() {
        Some(Cause::Delay { trend_ms, .. }) => Value::Number(trend_ms),
        _ => Value::Null,
    }),
    optional("threshold_ms", Type::Number, |row| match row.cause() {
        Some(Cause::Delay { threshold_ms, .. }) => Value::Number(threshold_ms),
        _ => Value::Null,
    }),
    optional("ratio", Type::Number, |row| match row.cause() {
        Some(Cause::Loss { ratio } | Cause::Marks { ratio }) => Value::Number(ratio),
        _ => Value::Null,
    }),
    optional("rate_bps", Type::Number, |row| match row.cause() {
        Some(Cause::AcknowledgedRate { rate_bps } | Cause::Probe { rate_bps }) => Value::Number(rate_bps),
        _ => Value::Null,
    }),
    optional("ssrc", Type::Integer, |row| {
        matches!(row.kind, Kind::Frame { .. }).then_some(i64::from(row.ssrc)).into()
    }),
];

/// An event or a note.
#[derive(Debug, Clone)]
pub(super) struct Row {
    time_ns: i64,
    sequence: i64,
    /// Queueing delay, one-way delay or frame delay, by the kind of event.
    lasted_ns: i64,
    queue_packets: i64,
    queue_bytes: i64,
    size_bytes: u32,
    flow: u32,
    /// Of a frame.
    ssrc: u32,
    link: Option<LinkId>,
    kind: Kind,
    /// `None` for a note.
    ecn: Option<Ecn>,
    /// Boxed, since few rows are decisions.
    decision: Option<Box<Decision>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sent,
    Queued,
    Dequeued,
    Marked,
    Dropped(DropReason),
    Delivered,
    Decided,
    Frame { delay_known: bool },
    Other,
}

impl Row {
    pub(super) fn new(now: Timestamp, event: &Event) -> Self {
        let packet = event.packet();
        let mut row = Self {
            time_ns: now.as_nanos() as i64,
            sequence: packet.sequence as i64,
            lasted_ns: 0,
            queue_packets: 0,
            queue_bytes: 0,
            size_bytes: packet.bytes,
            flow: packet.flow.0,
            ssrc: 0,
            link: event.link(),
            kind: Kind::Other,
            ecn: Some(packet.ecn),
            decision: None,
        };
        row.kind = match event {
            Event::Sent { .. } => Kind::Sent,
            Event::Queued { backlog, .. } | Event::Dequeued { backlog, .. } => {
                row.queue_packets = backlog.packets as i64;
                row.queue_bytes = backlog.size.as_bytes() as i64;
                match event {
                    Event::Dequeued { sojourn, .. } => {
                        row.lasted_ns = sojourn.as_nanos();
                        Kind::Dequeued
                    }
                    _ => Kind::Queued,
                }
            }
            Event::Marked { .. } => Kind::Marked,
            Event::Dropped { reason, .. } => Kind::Dropped(*reason),
            Event::Delivered { .. } => {
                row.lasted_ns = now.saturating_since(packet.sent).as_nanos();
                Kind::Delivered
            }
            _ => Kind::Other,
        };
        row
    }

    /// `number` counts the notes of this kind of the flow.
    pub(super) fn of_note(now: Timestamp, note: &Note, number: i64) -> Self {
        let mut row = Self {
            time_ns: now.as_nanos() as i64,
            sequence: number,
            lasted_ns: 0,
            queue_packets: 0,
            queue_bytes: 0,
            size_bytes: 0,
            flow: note.flow().0,
            ssrc: 0,
            link: None,
            kind: Kind::Other,
            ecn: None,
            decision: None,
        };
        match note {
            Note::Decided { decision, .. } => {
                row.kind = Kind::Decided;
                row.decision = Some(Box::new(*decision));
            }
            Note::Frame { ssrc, delay, size, .. } => {
                row.ssrc = *ssrc;
                row.kind = Kind::Frame { delay_known: delay.is_some() };
                row.lasted_ns = delay.map_or(0, TimeDelta::as_nanos);
                row.size_bytes = u32::try_from(size.as_bytes()).unwrap_or(u32::MAX);
            }
            _ => {}
        }
        row
    }

    const fn event(&self) -> &'static str {
        match self.kind {
            Kind::Sent => "sent",
            Kind::Queued => "queued",
            Kind::Dequeued => "dequeued",
            Kind::Marked => "marked",
            Kind::Dropped(_) => "dropped",
            Kind::Delivered => "delivered",
            Kind::Decided => "decided",
            Kind::Frame { .. } => "frame",
            Kind::Other => "other",
        }
    }

    const fn ecn(&self) -> &'static str {
        match self.ecn {
            Some(Ecn::NotEct) => "not-ect",
            Some(Ecn::Ect0) => "ect0",
            Some(Ecn::Ect1) => "ect1",
            Some(Ecn::Ce) => "ce",
            None => "",
        }
    }

    const fn reason(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Dropped(reason) => Some(match reason {
                DropReason::Overflow => "overflow",
                DropReason::Aqm => "aqm",
                DropReason::Loss => "loss",
                _ => "other",
            }),
            _ => None,
        }
    }

    fn delay_ns(&self) -> Option<i64> {
        matches!(self.kind, Kind::Delivered | Kind::Frame { delay_known: true }).then_some(self.lasted_ns)
    }

    fn if_queued(&self, value: i64) -> Option<i64> {
        matches!(self.kind, Kind::Queued | Kind::Dequeued).then_some(value)
    }

    fn decided<T>(&self, value: impl Fn(&Decision) -> T) -> Option<T> {
        self.decision.as_deref().map(value)
    }

    fn cause(&self) -> Option<Cause> {
        self.decided(|decision| decision.cause)
    }
}

fn bps(rate: DataRate) -> i64 {
    i64::try_from(rate.as_bps()).unwrap_or(i64::MAX)
}
