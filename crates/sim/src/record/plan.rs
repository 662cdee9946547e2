//! What is to be recorded of a run, decided before it begins.

use std::ops::Range;

use giusto_units::{TimeDelta, Timestamp};

use super::types::{FlowRecord, LinkRecord};
use crate::{
    link::rate::RateProfile,
    packet::{FlowId, LinkId},
};

/// What is to be recorded of a run.
#[derive(Debug, Clone, Default)]
pub struct RecordPlan {
    /// The scenario's name.
    pub scenario: String,
    /// What the scenario is about.
    pub description: String,
    /// The planned end of the run.
    pub end: Timestamp,
    /// The flows; what only carries answers belongs to the flow that it answers.
    pub flows: Vec<PlannedFlow>,
    /// The links.
    pub links: Vec<PlannedLink>,
    /// What is measured besides, in windows of its own.
    pub measurements: Vec<Measurement>,
    /// How the run is recorded over time; `None`: not at all.
    pub timeline: Option<TimelineOptions>,
}

/// A flow that is recorded.
#[derive(Debug, Clone, Default)]
pub struct PlannedFlow {
    /// The flow in the simulation.
    pub flow: FlowId,
    /// The flow of its answers: acknowledgements, feedback. Only a flow with answers has a goodput.
    pub answers: Option<FlowId>,
    /// When it is measured.
    pub window: Range<Timestamp>,
    /// What is known of it beforehand: names, path, streams. Statistics in it are replaced.
    pub about: FlowRecord,
}

/// A link that is recorded.
#[derive(Debug, Clone)]
pub struct PlannedLink {
    /// The link in the simulation.
    pub link: LinkId,
    /// Its rate over time.
    pub rate: RateProfile,
    /// When it is measured.
    pub window: Range<Timestamp>,
    /// What is known of it beforehand: names, rate, queue. Statistics in it are replaced.
    pub about: LinkRecord,
}

/// Something that is measured besides, in windows of its own. Its [`Figures`](super::Figures) are not part of the record.
#[derive(Debug, Clone)]
pub enum Measurement {
    /// Several flows, each in its window.
    Flows {
        /// The flows.
        flows: Vec<(FlowId, Range<Timestamp>)>,
        /// Whether the distributions of their delays are wanted.
        delays: bool,
        /// Whether received bytes are also counted in steps: see [`FlowFigures::STEP`](super::FlowFigures::STEP).
        steps: bool,
    },
    /// A link of the plan in a window.
    Link(LinkId, Range<Timestamp>),
}

/// How a run is recorded over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineOptions {
    /// Width of a window; by default such that there are 500, but at least 10 ms. There are at most 20 000 windows: beyond, they
    /// are wider.
    pub width: Option<TimeDelta>,
    /// With more flows than this, those of a group are taken together. Default 16.
    pub max_flows: usize,
    /// With more decisions of a flow than this, half of them are left out, those with the smallest changes first. Default 20 000.
    pub max_decisions: usize,
}

impl Default for TimelineOptions {
    fn default() -> Self {
        Self { width: None, max_flows: 16, max_decisions: 20_000 }
    }
}

impl TimelineOptions {
    /// Windows of `width`, of every flow by itself and with every decision.
    pub fn every(width: TimeDelta) -> Self {
        Self { width: Some(width), max_flows: usize::MAX, max_decisions: usize::MAX }
    }
}
