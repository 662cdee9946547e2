//! Why is the target what it is at one moment? The decisions around it, and what the flow met then.

use std::collections::VecDeque;

use giusto_congestion::Decision;
use giusto_sim::{
    packet::{FlowId, LinkId},
    trace::{Event, Note, Observer},
};
use giusto_units::{TimeDelta, Timestamp};
use serde::Serialize;

use crate::{
    run::names,
    view::decision::{DecisionRecord, cause_in_words, change_in_words},
};
use crate::{
    scenario::{FlowKind, Scenario},
    view::format::{or_unknown, rate, short},
};

/// Decisions before the one in force, and after it.
const NEIGHBOURS: usize = 3;

/// Half of the time around the moment over which rates and waits are counted.
const HALF_A_WINDOW: TimeDelta = TimeDelta::from_millis(500);

/// Looks at a run around one moment.
#[derive(Debug)]
pub struct WhyObserver {
    at: Timestamp,
    /// From when until when is counted.
    window: (Timestamp, Timestamp),
    flows: Vec<Watched>,
    links: Vec<String>,
}

/// A flow that is asked about.
#[derive(Debug)]
struct Watched {
    id: FlowId,
    name: String,
    controller: String,
    /// The last decisions until the moment; the last of them is in force.
    until: VecDeque<Decision>,
    after: Vec<Decision>,
    sent_bytes: u64,
    received_bytes: u64,
    /// Of each link: how many packets it took from its queue, how long they had waited in all, and the longest.
    waits: Vec<(u64, u64, TimeDelta)>,
}

/// What came of the question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Why {
    /// The scenario's name.
    pub scenario: String,
    /// What all chance derived from; a string, since JSON numbers lose digits.
    pub seed: String,
    /// The moment, in seconds from the beginning of the run.
    pub at_s: f64,
    /// Each media flow, in the order of the scenario.
    pub flows: Vec<WhyFlow>,
}

/// What is known of one flow at the moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WhyFlow {
    /// Its name.
    pub id: String,
    /// Its congestion control.
    pub controller: String,
    /// The target then, in bit/s; none before the first decision.
    pub target_bps: Option<u64>,
    /// The decisions before the one in force.
    pub before: Vec<DecisionRecord>,
    /// The last decision until the moment.
    pub in_force: Option<DecisionRecord>,
    /// The decisions after the moment.
    pub after: Vec<DecisionRecord>,
    /// What it sent within the second around the moment, headers included.
    pub sent_rate_bps: f64,
    /// What arrived of it within the same second.
    pub received_rate_bps: f64,
    /// Where its packets waited longest within the same second; none if no link transmitted any.
    pub bottleneck: Option<Bottleneck>,
    #[serde(skip)]
    decisions: (Vec<Decision>, Option<Decision>, Vec<Decision>),
}

/// The link at whose queue the packets of a flow waited longest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Its name.
    pub link: String,
    /// How long they waited on average.
    pub queue_delay_mean_ms: f64,
    /// The longest.
    pub queue_delay_max_ms: f64,
}

impl WhyObserver {
    /// Asks `scenario` about `at`: of the flow `flow`, or of all media.
    ///
    /// # Errors
    ///
    /// What is wrong with the moment or the flow, and the mend.
    pub fn new(scenario: &Scenario, at: Timestamp, flow: Option<&str>) -> Result<Self, String> {
        if at > scenario.end() {
            return Err(format!(
                "--why {} s: the run ends at {} s: ask for an earlier moment",
                at.as_seconds(),
                scenario.end().as_seconds()
            ));
        }
        let names = names(scenario);
        let mut flows = Vec::new();
        let (mut known, mut next) = (Vec::new(), 0_u32);
        for spec in scenario.flows() {
            for name in spec.instances() {
                // The answers of a flow come next after it.
                let id = FlowId(next);
                next += if spec.kind.is_two_way() { 2 } else { 1 };
                let FlowKind::Media(media) = &spec.kind else { continue };
                if flow.is_none_or(|flow| flow == spec.id || flow == name) {
                    let controller = media.controller.name().to_owned();
                    flows.push(Watched::new((id, name.clone()), controller));
                }
                known.push(name);
            }
        }
        match (flows.is_empty(), flow) {
            (true, _) if known.is_empty() => Err("--why: no flow of this scenario has a controller that tells its decisions: ask for a scenario with a flow of kind media".to_owned()),
            (true, Some(flow)) => Err(format!("--flow {flow}: no such flow is of kind media: known are {}", known.join(", "))),
            _ => Ok(Self::watching(at, scenario.end(), (flows, names.links))),
        }
    }

    fn watching(at: Timestamp, end: Timestamp, (flows, links): (Vec<Watched>, Vec<String>)) -> Self {
        let half = HALF_A_WINDOW.as_nanos().unsigned_abs();
        let from = Timestamp::from_nanos(at.as_nanos().saturating_sub(half));
        Self { at, window: (from, (at + HALF_A_WINDOW).min(end)), flows, links }
    }

    /// What it saw of a run with `seed`.
    pub fn answer(self, (scenario, seed): (&str, u64)) -> Why {
        let (from, to) = self.window;
        let seconds = to.saturating_since(from).as_seconds();
        let links = &self.links;
        let flows = self.flows.into_iter().map(|flow| flow.answer(seconds, links)).collect();
        Why { scenario: scenario.to_owned(), seed: seed.to_string(), at_s: self.at.as_seconds(), flows }
    }
}

impl Watched {
    fn new((id, name): (FlowId, String), controller: String) -> Self {
        Self {
            id,
            name,
            controller,
            until: VecDeque::new(),
            after: Vec::new(),
            sent_bytes: 0,
            received_bytes: 0,
            waits: Vec::new(),
        }
    }

    fn decide(&mut self, is_after: bool, decision: Decision) {
        if !is_after {
            if self.until.len() > NEIGHBOURS {
                self.until.pop_front();
            }
            self.until.push_back(decision);
        } else if self.after.len() < NEIGHBOURS {
            self.after.push(decision);
        }
    }

    fn wait(&mut self, link: LinkId, sojourn: TimeDelta) {
        let place = link.0 as usize;
        if self.waits.len() <= place {
            self.waits.resize(place + 1, (0, 0, TimeDelta::ZERO));
        }
        if let Some((packets, waited_ns, longest)) = self.waits.get_mut(place) {
            *packets += 1;
            *waited_ns += sojourn.as_nanos().max(0).unsigned_abs();
            *longest = (*longest).max(sojourn);
        }
    }

    fn answer(self, seconds: f64, links: &[String]) -> WhyFlow {
        let rate_of = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let mut before: Vec<Decision> = self.until.into();
        let in_force = before.pop();
        let waits = self.waits.iter().zip(links).filter(|((packets, ..), _)| *packets > 0);
        let bottleneck = waits.map(|(&(packets, waited_ns, longest), link)| Bottleneck {
            link: link.clone(),
            queue_delay_mean_ms: waited_ns as f64 / packets as f64 / 1e6,
            queue_delay_max_ms: longest.as_millis(),
        });
        let records = |decisions: &[Decision]| decisions.iter().map(DecisionRecord::from).collect();
        WhyFlow {
            id: self.name,
            controller: self.controller,
            target_bps: in_force.map(|decision| decision.to.as_bps()),
            before: records(&before),
            in_force: in_force.as_ref().map(DecisionRecord::from),
            after: records(&self.after),
            sent_rate_bps: rate_of(self.sent_bytes),
            received_rate_bps: rate_of(self.received_bytes),
            bottleneck: bottleneck.max_by(|a, b| a.queue_delay_mean_ms.total_cmp(&b.queue_delay_mean_ms)),
            decisions: (before, in_force, self.after),
        }
    }
}

impl Observer for WhyObserver {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        let (from, to) = self.window;
        if now < from || now >= to {
            return;
        }
        let packet = event.packet();
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.id == packet.flow) else { return };
        match event {
            Event::Sent { .. } => flow.sent_bytes += u64::from(packet.bytes),
            Event::Delivered { .. } => flow.received_bytes += u64::from(packet.bytes),
            Event::Dequeued { link, sojourn, .. } => flow.wait(*link, *sojourn),
            _ => {}
        }
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        let Note::Decided { flow, decision } = note else { return };
        // A flow begins with the first event after its start, a nanosecond later.
        let is_after = now > self.at + TimeDelta::from_nanos(1);
        if let Some(watched) = self.flows.iter_mut().find(|watched| watched.id == *flow) {
            watched.decide(is_after, *decision);
        }
    }
}

impl Why {
    /// As a person reads it.
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
        let target = or_unknown(self.target_bps, |bps| rate(bps as f64));
        lines.push(format!("\n{}, {}: target {target}", self.id, self.controller));
        let (before, in_force, after) = &self.decisions;
        let marked = before.iter().map(|decision| (" ", decision));
        let marked = marked.chain(in_force.iter().map(|decision| (">", decision)));
        let marked: Vec<_> = marked.chain(after.iter().map(|decision| (" ", decision))).collect();
        if marked.is_empty() {
            lines.push("  nothing was decided".to_owned());
        }
        let width = marked.iter().map(|(_, decision)| change_in_words(decision).chars().count()).max();
        for (mark, decision) in marked {
            let (change, cause) = (change_in_words(decision), cause_in_words(&decision.cause));
            let at = format!("{:.3}", decision.at.as_seconds());
            lines.push(format!("{mark} {at:>9} s  {change:<width$}  {cause}", width = width.unwrap_or(0)));
        }
        let (sent, received) = (rate(self.sent_rate_bps), rate(self.received_rate_bps));
        lines.push(format!("  within the second around it: sent {sent}, received {received}"));
        if let Some(Bottleneck { link, queue_delay_mean_ms, queue_delay_max_ms }) = &self.bottleneck {
            let (mean, most) = (short(*queue_delay_mean_ms), short(*queue_delay_max_ms));
            lines.push(format!("  in the queue of {link}: {mean} ms on average, at most {most} ms"));
        }
    }
}

#[cfg(test)]
mod tests;
