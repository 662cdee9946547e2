//! One row of a trace, and its columns.

use giusto_congestion::{Cause, Decision, Signal};
use giusto_sim::{
    packet::DropReason,
    trace::{Backlog, Event, Note},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use crate::text::decision::cause_name;

/// The values of a column, one for each row.
#[derive(Clone, Copy)]
pub(super) enum Values {
    Integer(fn(&Row) -> Option<i64>),
    Number(fn(&Row) -> Option<f64>),
    Text(fn(&Row) -> Option<&'static str>),
    /// The names of flows, by their numbers.
    Flow,
    /// The names of links, by their numbers.
    Link,
}

/// A column.
pub(super) struct Column {
    pub(super) name: &'static str,
    #[cfg_attr(
        not(any(feature = "parquet", feature = "arrow")),
        expect(dead_code, reason = "CSV does not need it")
    )]
    pub(super) nullable: bool,
    /// What it means, and for which events it is there.
    #[cfg_attr(not(test), expect(dead_code, reason = "the reference has it"))]
    about: [&'static str; 2],
    pub(super) values: Values,
}

const fn required(name: &'static str, meaning: &'static str, of: &'static str, values: Values) -> Column {
    Column { name, nullable: false, about: [meaning, of], values }
}

const fn optional(name: &'static str, meaning: &'static str, of: &'static str, values: Values) -> Column {
    Column { name, nullable: true, about: [meaning, of], values }
}

/// All columns, in order.
pub(super) const COLUMNS: [Column; 21] = [
    required(
        "time_ns",
        "since the start of the run, ns",
        "all",
        Values::Integer(|row| Some(row.at.as_nanos() as i64)),
    ),
    required("event", "see above", "all", Values::Text(|row| Some(row.event()))),
    required("flow", "name; answers are the flow `NAME:back`", "all", Values::Flow),
    optional("link", "name", "queue events", Values::Link),
    required(
        "sequence",
        "within the flow from 0; decisions and frames count separately",
        "all",
        Values::Integer(|row| Some(row.sequence())),
    ),
    required(
        "size_bytes",
        "on the wire; of a frame, payload; of a decision, 0",
        "all",
        Values::Integer(|row| Some(row.size_bytes() as i64)),
    ),
    required(
        "ecn",
        "after the event: `not-ect`, `ect0`, `ect1`, `ce`",
        "packets",
        Values::Text(|row| Some(row.ecn())),
    ),
    optional("reason", "`overflow`, `aqm`, `loss`, `corruption`", "`dropped`", Values::Text(Row::reason)),
    optional(
        "sojourn_ns",
        "time in this queue, ns",
        "`dequeued`",
        Values::Integer(|row| row.sojourn().map(TimeDelta::as_nanos)),
    ),
    optional(
        "delay_ns",
        "one-way delay; of a frame, frame delay if known, ns",
        "`delivered`, `frame`",
        Values::Integer(|row| row.delay().map(TimeDelta::as_nanos)),
    ),
    optional(
        "queue_packets",
        "queue length after the event, packets",
        "`queued`, `dequeued`",
        Values::Integer(|row| Some(row.queue()?.packets as i64)),
    ),
    optional(
        "queue_bytes",
        "the same, bytes",
        "`queued`, `dequeued`",
        Values::Integer(|row| Some(row.queue()?.size.as_bytes() as i64)),
    ),
    optional(
        "from_bps",
        "target before, bit/s",
        "`decided`",
        Values::Integer(|row| Some(bps(row.decision()?.from))),
    ),
    optional(
        "to_bps",
        "target after, bit/s",
        "`decided`",
        Values::Integer(|row| Some(bps(row.decision()?.to))),
    ),
    optional(
        "cause",
        "cause of the decision",
        "`decided`",
        Values::Text(|row| Some(cause_name(&row.decision()?.cause))),
    ),
    optional(
        "signal",
        "`normal`, `over-use`, `under-use`",
        "cause `delay`",
        Values::Text(|row| Some(row.trend()?.0.name())),
    ),
    optional("trend_ms", "delay trend", "cause `delay`", Values::Number(|row| Some(row.trend()?.1))),
    optional("threshold_ms", "its threshold", "cause `delay`", Values::Number(|row| Some(row.trend()?.2))),
    optional("ratio", "share lost or marked", "causes `loss`, `marks`", Values::Number(Row::ratio)),
    optional(
        "rate_bps",
        "acknowledged or probed rate, bit/s",
        "causes `acknowledged-rate`, `probe`",
        Values::Number(Row::rate_bps),
    ),
    optional("ssrc", "RTP source of the stream", "`frame`", Values::Integer(Row::ssrc)),
];

/// An event or a note.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) at: Timestamp,
    pub(super) what: What,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Event(Event),
    /// With the number of earlier notes of this kind and flow.
    Note(Note, i64),
}

impl Row {
    pub(super) fn flow(&self) -> u32 {
        match &self.what {
            What::Event(event) => event.packet().flow.0,
            What::Note(note, _) => note.flow().0,
        }
    }

    pub(super) fn link(&self) -> Option<u32> {
        match &self.what {
            What::Event(event) => Some(event.link()?.0),
            What::Note(..) => None,
        }
    }

    fn event(&self) -> &'static str {
        match self.what {
            What::Event(Event::Sent { .. }) => "sent",
            What::Event(Event::Unsent { .. }) => "unsent",
            What::Event(Event::Queued { .. }) => "queued",
            What::Event(Event::Dequeued { .. }) => "dequeued",
            What::Event(Event::Marked { .. }) => "marked",
            What::Event(Event::Duplicated { .. }) => "duplicated",
            What::Event(Event::Dropped { .. }) => "dropped",
            What::Event(Event::Delivered { .. }) => "delivered",
            What::Note(Note::Decided { .. }, _) => "decided",
            What::Note(Note::Frame { .. }, _) => "frame",
            _ => "other",
        }
    }

    fn sequence(&self) -> i64 {
        match &self.what {
            What::Event(event) => event.packet().sequence as i64,
            What::Note(_, number) => *number,
        }
    }

    fn size_bytes(&self) -> u64 {
        match &self.what {
            What::Event(event) => event.packet().bytes.into(),
            What::Note(Note::Frame { size, .. }, _) => size.as_bytes(),
            What::Note(..) => 0,
        }
    }

    fn ecn(&self) -> &'static str {
        match &self.what {
            What::Event(event) => event.packet().ecn.name(),
            What::Note(..) => "",
        }
    }

    fn reason(&self) -> Option<&'static str> {
        let What::Event(Event::Dropped { reason, .. }) = self.what else { return None };
        Some(match reason {
            DropReason::Overflow => "overflow",
            DropReason::Aqm => "aqm",
            DropReason::Loss => "loss",
            DropReason::Corruption => "corruption",
            _ => "other",
        })
    }

    fn sojourn(&self) -> Option<TimeDelta> {
        if let What::Event(Event::Dequeued { sojourn, .. }) = self.what { Some(sojourn) } else { None }
    }

    /// One-way delay or frame delay.
    fn delay(&self) -> Option<TimeDelta> {
        match self.what {
            What::Event(Event::Delivered { packet }) => Some(self.at.saturating_since(packet.sent)),
            What::Note(Note::Frame { delay, .. }, _) => delay,
            _ => None,
        }
    }

    fn queue(&self) -> Option<Backlog> {
        match self.what {
            What::Event(Event::Queued { backlog, .. } | Event::Dequeued { backlog, .. }) => Some(backlog),
            _ => None,
        }
    }

    fn decision(&self) -> Option<Decision> {
        if let What::Note(Note::Decided { decision, .. }, _) = self.what { Some(decision) } else { None }
    }

    fn trend(&self) -> Option<(Signal, f64, f64)> {
        match self.decision()?.cause {
            Cause::Delay { signal, trend_ms, threshold_ms } => Some((signal, trend_ms, threshold_ms)),
            _ => None,
        }
    }

    fn ratio(&self) -> Option<f64> {
        match self.decision()?.cause {
            Cause::Loss { ratio } | Cause::Marks { ratio } => Some(ratio),
            _ => None,
        }
    }

    fn rate_bps(&self) -> Option<f64> {
        match self.decision()?.cause {
            Cause::AcknowledgedRate { rate_bps } | Cause::Probe { rate_bps } => Some(rate_bps),
            _ => None,
        }
    }

    fn ssrc(&self) -> Option<i64> {
        if let What::Note(Note::Frame { ssrc, .. }, _) = self.what { Some(ssrc.into()) } else { None }
    }
}

fn bps(rate: DataRate) -> i64 {
    i64::try_from(rate.as_bps()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_that_of_the_columns() {
        let row =
            |Column { name, about: [meaning, of], .. }: &Column| format!("| `{name}` | {meaning} | {of} |\n");
        let rows = COLUMNS.each_ref().map(row).concat();
        let table = format!("| column | meaning, unit | present for |\n|---|---|---|\n{rows}");
        crate::generated::table_is_current("traces.md", "crates/giusto/src/trace/row.rs", &table);
    }
}
