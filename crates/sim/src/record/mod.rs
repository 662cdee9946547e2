//! The record of a simulated run, from which all views are computed.
//!
//! The recorder computes a [`RunRecord`] once from the trace events. JSON, tables, HTML pages, sweep rows,
//! comparisons and verdicts are functions of it and compute no statistics themselves.
//!
//! # Windows
//!
//! A flow is measured from its start plus the scenario's warm-up until its stop or the end of the run; a link
//! from the warm-up until the end. A window includes its start and excludes its end.
//!
//! | statistic | packets of the window |
//! |---|---|
//! | sent rate | sent within the window |
//! | received rate, marked ratio, one-way delay, queueing delay of a flow | first copy delivered within the window |
//! | loss ratio, counts (`*_packets`) of a flow | sent within the window, and delivered or lost by the end of the run |
//! | goodput of TCP | bytes delivered to the application in order within the window |
//! | goodput, frames and frame delay of media | frames that became complete within the window |
//! | utilisation, queueing delay of a link | taken from its queue within the window |
//! | counts (`*_packets`) of a link | offered, delivered, dropped, marked within the window; offered are also those inside at its start |
//!
//! A packet that a link duplicated counts once: it is delivered when its first copy is delivered, and lost if
//! no copy is delivered.
//!
//! Expectations with their own windows are measured separately: the input is a [`Measurement`], the output
//! [`Figures`].

mod copies;
mod figures;
mod media;
mod plan;
mod rates;
mod recorder;
mod tally;
mod timeline;
mod types;

pub use figures::{Figures, FlowFigures, LinkFigures, RepairFigures, StreamFigures};
pub use media::keep_largest_changes;
pub use plan::{Measurement, PlannedFlow, PlannedLink, RecordPlan, TimelineOptions};
pub use rates::Overview;
pub use recorder::{RecordedRun, Recorder};
pub use types::{
    Cdf, Check, DecisionRecord, Distribution, FlowEnd, FlowRecord, FlowTimeline, Gauge, Lateness, LinkRecord,
    LinkTimeline, MediaTimeline, RealTimeRecord, RepairRecord, RunRecord, StreamKind, StreamRecord,
    StreamTimeline, Timeline,
};

#[cfg(test)]
mod tests;
