//! Why is the target rate what it is at one moment? The decisions around it, and the state of the network.

use std::ops::Range;

use giusto_units::{TimeDelta, Timestamp};
use serde::Serialize;

use crate::{
    record::{DecisionRecord, FlowRecord, FlowTimeline, LinkTimeline, RunRecord, Timeline, TimelineOptions},
    scenario::{FlowKind, FlowSpec, Scenario},
    view::{
        decision::{cause_in_words, change_in_words, decision_in_words},
        format::{or_unknown, rate, short},
    },
};

/// The number of decisions shown before the one in force, and after it.
const NEIGHBOURS: usize = 3;

/// Rates and delays are those of the time around the moment, this long before and after, rounded to windows of the timeline.
const HALF_WINDOW_S: f64 = 0.5;

/// Width of the windows of the timeline that [`why`] needs.
const WIDTH: TimeDelta = TimeDelta::from_millis(50);

/// The timeline that [`why`] needs in a record.
pub fn timeline() -> TimelineOptions {
    TimelineOptions::every(WIDTH)
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Why {
    /// The scenario's name.
    pub scenario: String,
    /// Random seed; a string, since JSON numbers lose digits.
    pub seed: String,
    /// The moment, in seconds from the beginning of the run.
    pub at_s: f64,
    /// Each media flow, in the order of the scenario.
    pub flows: Vec<WhyFlow>,
}

/// A flow at the moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WhyFlow {
    /// Its name.
    pub id: String,
    /// Its congestion controller.
    pub controller: String,
    /// The target rate in force; `None` before the first decision.
    pub target_rate_bps: Option<u64>,
    /// The decisions before the one in force.
    pub before: Vec<WhyDecision>,
    /// The last decision until the moment.
    pub in_force: Option<WhyDecision>,
    /// The decisions after the moment.
    pub after: Vec<WhyDecision>,
    /// Sent rate within the second around the moment, headers included.
    pub sent_rate_bps: f64,
    /// Received rate within the same second.
    pub received_rate_bps: f64,
    /// The link of its path with the longest mean queueing delay within the same second; `None` if no link transmitted any packet.
    pub bottleneck: Option<Bottleneck>,
}

/// A decision with its explanation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WhyDecision {
    /// The decision.
    #[serde(flatten)]
    pub decision: DecisionRecord,
    /// Cause and change as text.
    pub words: String,
}

/// A link and its queueing delay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Its name.
    pub link: String,
    /// Mean queueing delay of all packets.
    pub queue_delay_mean_ms: f64,
    /// Maximum queueing delay.
    pub queue_delay_max_ms: f64,
}

/// Whether `scenario` can be asked about `at`: of the flow `flow`, or of all media flows.
///
/// # Errors
///
/// The error names the flag and the fix.
pub fn check(scenario: &Scenario, at: Timestamp, flow: Option<&str>) -> Result<(), String> {
    if at > scenario.end() {
        let (at, end) = (at.as_seconds(), scenario.end().as_seconds());
        return Err(format!("--why {at} s: the run ends at {end} s: ask for an earlier moment"));
    }
    let is_media = |spec: &&FlowSpec| matches!(spec.kind, FlowKind::Media(_));
    let media: Vec<&FlowSpec> = scenario.flows().iter().filter(is_media).collect();
    let known: Vec<String> = media.iter().flat_map(|spec| spec.instances()).collect();
    if known.is_empty() {
        return Err("--why: no flow of this scenario has a controller whose decisions are recorded: ask for a scenario with a flow of kind media".to_owned());
    }
    let mut names = known.iter().chain(media.iter().map(|spec| &spec.id));
    match flow {
        Some(flow) if !names.any(|name| name == flow) => {
            Err(format!("--flow {flow}: no such flow is of kind media: known are {}", known.join(", ")))
        }
        _ => Ok(()),
    }
}

/// Whether the run of `record` got to `at` before it was ended.
///
/// # Errors
///
/// The error names the flag and the fix.
pub fn check_ended(record: &RunRecord, at: Timestamp) -> Result<(), String> {
    if !record.interrupted || at.as_seconds() <= record.duration_s {
        return Ok(());
    }
    let (ended, at) = (record.duration_s, at.as_seconds());
    Err(format!(
        "--why {at} s: the run was ended early, at {ended} s: let it go on, or ask for an earlier moment"
    ))
}

/// The answer from a record whose timeline is that of [`timeline`]: of the flow or group `flow`, or of all media flows.
pub fn why(record: &RunRecord, at: Timestamp, flow: Option<&str>) -> Why {
    let at_s = at.as_seconds();
    let asked = |own: &&FlowRecord| {
        own.feedback.is_some() && flow.is_none_or(|flow| flow == own.id || flow == own.group)
    };
    let nothing = Timeline::default();
    let timeline = record.timeline.as_ref().unwrap_or(&nothing);
    let places = places(timeline, at_s);
    let flows = record.flows.iter().filter(asked);
    Why {
        scenario: record.scenario.clone(),
        seed: record.seed.clone(),
        at_s,
        flows: flows.map(|flow| WhyFlow::new(flow, timeline, at_s, &places)).collect(),
    }
}

/// The windows whose middle lies in the second around the moment.
fn places(timeline: &Timeline, at_s: f64) -> Range<usize> {
    let place = |at_s: f64| timeline.t_s.partition_point(|&middle| middle < at_s);
    place(at_s - HALF_WINDOW_S)..place(at_s + HALF_WINDOW_S)
}

impl WhyFlow {
    fn new(flow: &FlowRecord, timeline: &Timeline, at_s: f64, places: &Range<usize>) -> Self {
        let own = timeline.flows.iter().find(|own| own.id == flow.id);
        let decisions =
            own.and_then(|own| own.media.as_ref()).map_or(&[][..], |media| media.decisions.as_slice());
        // A flow begins with the first event after its start, a nanosecond later.
        let later = decisions.partition_point(|decision| decision.at_s <= at_s + 1.5e-9);
        let (until, after) = decisions.split_at_checked(later).unwrap_or_default();
        let (in_force, before) = until.split_last().unzip();
        let before: &[DecisionRecord] = before.unwrap_or_default();
        let before = before.get(before.len().saturating_sub(NEIGHBOURS)..).unwrap_or_default();
        let records = |decisions: &[DecisionRecord]| decisions.iter().map(WhyDecision::from).collect();
        let seconds = timeline.width_s * places.len() as f64;
        let rate = |bytes: fn(&FlowTimeline) -> &Vec<u64>| {
            let bytes = own.and_then(|own| bytes(own).get(places.clone())).unwrap_or_default();
            if seconds > 0.0 { bytes.iter().sum::<u64>() as f64 * 8.0 / seconds } else { 0.0 }
        };
        let on_path = timeline.links.iter().filter(|link| flow.path.contains(&link.id));
        let waits = on_path.filter_map(|link| Bottleneck::new(link, places));
        Self {
            id: flow.id.clone(),
            controller: flow.controller.clone().unwrap_or_default(),
            target_rate_bps: in_force.map(|decision| decision.to_bps),
            before: records(before),
            in_force: in_force.map(WhyDecision::from),
            after: records(after.get(..NEIGHBOURS.min(after.len())).unwrap_or_default()),
            sent_rate_bps: rate(|own| &own.sent_bytes),
            received_rate_bps: rate(|own| &own.received_bytes),
            bottleneck: waits.max_by(|a, b| a.queue_delay_mean_ms.total_cmp(&b.queue_delay_mean_ms)),
        }
    }
}

impl From<&DecisionRecord> for WhyDecision {
    fn from(decision: &DecisionRecord) -> Self {
        Self { decision: *decision, words: decision_in_words(decision) }
    }
}

impl Bottleneck {
    fn new(link: &LinkTimeline, places: &Range<usize>) -> Option<Self> {
        let packets = link.transmitted_packets.get(places.clone())?;
        let means = link.queue_delay_mean_ms.get(places.clone())?;
        let all: u64 = packets.iter().sum();
        let waited: f64 =
            packets.iter().zip(means).map(|(&packets, mean)| packets as f64 * mean.unwrap_or(0.0)).sum();
        let longest = link.queue_delay_max_ms.get(places.clone())?.iter().flatten().copied();
        (all > 0).then(|| Self {
            link: link.id.clone(),
            queue_delay_mean_ms: waited / all as f64,
            queue_delay_max_ms: longest.fold(0.0, f64::max),
        })
    }
}

impl Why {
    /// The answer as text.
    pub fn in_words(&self) -> String {
        let mut lines = vec![format!("{}, seed {}: at {} s", self.scenario, self.seed, self.at_s)];
        for flow in &self.flows {
            flow.in_words(&mut lines);
        }
        lines.join("\n")
    }
}

impl WhyFlow {
    fn in_words(&self, lines: &mut Vec<String>) {
        let target = or_unknown(self.target_rate_bps, |bps| rate(bps as f64));
        lines.push(format!("\n{}, {}: target rate {target}", self.id, self.controller));
        let marked = self.before.iter().map(|decision| (" ", decision));
        let marked = marked.chain(self.in_force.iter().map(|decision| (">", decision)));
        let marked: Vec<_> = marked.chain(self.after.iter().map(|decision| (" ", decision))).collect();
        if marked.is_empty() {
            lines.push("  no decisions".to_owned());
        }
        let changes = marked.iter().map(|(_, why)| change_in_words(&why.decision).chars().count());
        let width = changes.max().unwrap_or(0);
        for (mark, WhyDecision { decision, .. }) in marked {
            let (change, cause) = (change_in_words(decision), cause_in_words(&decision.cause));
            let at = format!("{:.3}", decision.at_s);
            lines.push(format!("{mark} {at:>9} s  {change:<width$}  {cause}"));
        }
        let (sent, received) = (rate(self.sent_rate_bps), rate(self.received_rate_bps));
        lines.push(format!("  within the second around it: sent rate {sent}, received rate {received}"));
        if let Some(Bottleneck { link, queue_delay_mean_ms, queue_delay_max_ms }) = &self.bottleneck {
            let (mean, max) = (short(*queue_delay_mean_ms), short(*queue_delay_max_ms));
            lines.push(format!("  queueing delay at {link}: mean {mean} ms, maximum {max} ms"));
        }
    }
}

#[cfg(test)]
mod tests;
