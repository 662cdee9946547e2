//! The record of a simulated run, from which every view is made.
//!
//! The simulator computes it: see [`giusto_sim::record`] for the definitions and the windows of all statistics.

pub use giusto_sim::record::{
    Cdf, Check, DecisionRecord, Distribution, FlowRecord, FlowTimeline, Gauge, Lateness, LinkRecord,
    LinkTimeline, MediaTimeline, Overview, RealTimeRecord, RepairRecord, RunRecord, StreamKind, StreamRecord,
    StreamTimeline, Timeline, TimelineOptions,
};
