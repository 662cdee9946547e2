//! The record of a simulated run, from which every view is made.
//!
//! The simulator computes it: see [`giusto_sim::record`] for the definitions and the windows of all statistics.

pub use giusto_sim::record::{
    Cdf, Check, DecisionRecord, Distribution, FlowEnd, FlowRecord, FlowTimeline, Gauge, Lateness, LinkRecord,
    LinkTimeline, MediaTimeline, Overview, RealTimeRecord, RepairRecord, RunRecord, StreamKind, StreamRecord,
    StreamTimeline, Timeline, TimelineOptions,
};

/// The gauges of a call: the rate and the loss at the far end as its feedback reports them.
pub(crate) const REPORTED_RATE: &str = "reported_rate_bps";
pub(crate) const REPORTED_LOSS: &str = "reported_loss_ratio";
