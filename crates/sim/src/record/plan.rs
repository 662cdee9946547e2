//! What to record of a run; determined before its start.

use std::ops::Range;

use giusto_units::{TimeDelta, Timestamp};

use super::types::{FlowRecord, LinkRecord};
use crate::{
    link::rate::RateProfile,
    packet::{FlowId, LinkId},
};

/// What to record of a run.
#[derive(Debug, Clone, Default)]
pub struct RecordPlan {
    /// The scenario's name.
    pub scenario: String,
    /// Description of the scenario.
    pub description: String,
    /// The planned end of the run.
    pub end: Timestamp,
    /// The flows. A flow that only carries answers belongs to the flow that it answers.
    pub flows: Vec<PlannedFlow>,
    /// The links.
    pub links: Vec<PlannedLink>,
    /// Additional measurements, each with its own window.
    pub measurements: Vec<Measurement>,
    /// Options of the timeline; `None`: no timeline.
    pub timeline: Option<TimelineOptions>,
}

/// A recorded flow.
#[derive(Debug, Clone, Default)]
pub struct PlannedFlow {
    /// Id of the flow in the simulation.
    pub flow: FlowId,
    /// Flow of its answers (acknowledgements, feedback). Only a flow with answers has a goodput.
    pub answers: Option<FlowId>,
    /// Measurement window.
    pub window: Range<Timestamp>,
    /// Known properties: names, path, streams. Statistics are replaced.
    pub about: FlowRecord,
}

/// A recorded link.
#[derive(Debug, Clone)]
pub struct PlannedLink {
    /// Id of the link in the simulation.
    pub link: LinkId,
    /// Its rate over time.
    pub rate: RateProfile,
    /// Measurement window.
    pub window: Range<Timestamp>,
    /// Known properties: names, rate, queue. Statistics are replaced.
    pub about: LinkRecord,
}

/// An additional measurement with its own window. Its [`Figures`](super::Figures) are not part of the record.
#[derive(Debug, Clone)]
pub enum Measurement {
    /// Several flows, each with its window.
    Flows {
        /// The flows.
        flows: Vec<(FlowId, Range<Timestamp>)>,
        /// Whether to compute the distributions of their delays.
        delays: bool,
        /// Whether to count received bytes in steps: see [`FlowFigures::STEP`](super::FlowFigures::STEP).
        steps: bool,
    },
    /// A planned link.
    Link {
        /// The link.
        link: LinkId,
        /// Measurement window.
        window: Range<Timestamp>,
        /// Whether to compute the distribution of its queueing delay.
        delays: bool,
    },
}

giusto_units::defaults! {
    /// Options of the timeline.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct TimelineOptions {
        /// Width of a window. Default: such that there are 500 windows, but at least 10 ms. There are at most 20
        /// 000 windows; beyond that they are wider.
        pub width: Option<TimeDelta> = None,
        /// Maximum number of flows with their own timeline; beyond it the flows of each group are combined.
        /// Default 16.
        pub max_flows: usize = 16,
        /// Maximum number of decisions of a flow; beyond it, half of them are omitted, starting with the smallest
        /// changes. Default 20 000.
        pub max_decisions: usize = 20_000,
        /// Whether the run may go on after its planned end: then windows become twice as wide, as often as necessary. Not for runs with
        /// media. Default: no.
        pub open_end: bool = false,
    }
}

impl TimelineOptions {
    /// Windows of `width`, with a timeline for every flow and with every decision.
    pub fn every(width: TimeDelta) -> Self {
        Self { width: Some(width), max_flows: usize::MAX, max_decisions: usize::MAX, open_end: false }
    }
}
