//! From a scenario to a simulation.

use std::collections::BTreeMap;

use giusto_pace::StrategyOptions;
use giusto_sim::{
    link::queue::{Queue, QueueError},
    network::RouteError,
    packet::{FlowId, LinkId, NodeId},
    random::{self, Random},
    simulation::Simulation,
    traffic::{Agent, Datagrams, Media, Paced, Pattern, Source, tcp},
};
use giusto_units::{TimeDelta, Timestamp};
use rand::RngExt;

use crate::run::{
    media,
    taps::{End, MediaFlow, Taps},
};
use crate::scenario::{FlowKind, FlowSpec, LinkSpec, Scenario, Start, Transfers};

/// Flows after which a build asks whether to go on: less than a millisecond.
const FLOWS_PER_LOOK: usize = 64;

type BuildError = Box<dyn std::error::Error>;

/// A simulation that has not begun, and the parts of the scenario in it.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) simulation: Simulation,
    /// Each link of the scenario.
    pub(crate) links: Vec<LinkId>,
    /// Each instance of each flow of the scenario; some if it was ended early.
    pub(crate) flows: Vec<BuiltFlow>,
    /// Whether it was ended early.
    pub(crate) is_part: bool,
}

/// One flow of a simulation.
#[derive(Debug, Clone)]
pub(crate) struct BuiltFlow {
    /// Its own name: numbered if there are several instances.
    pub(crate) name: String,
    /// The index of its flow in the scenario.
    pub(crate) spec: usize,
    /// From the sender to the receiver.
    pub(crate) forwards: FlowId,
    /// From the receiver to the sender, if there is any.
    pub(crate) backwards: Option<FlowId>,
    pub(crate) start: Timestamp,
    pub(crate) stop: Timestamp,
}

/// Builds the run of `scenario` with `seed`.
///
/// # Panics
///
/// If validation accepted a scenario that cannot be built, which is a bug.
pub(crate) fn simulation_with(scenario: &Scenario, seed: u64, taps: &mut dyn Taps) -> Built {
    simulation_unless(scenario, seed, taps, &mut || false)
}

/// Builds the run of `scenario` with `seed`, unless `is_over`, which is asked after each [`FLOWS_PER_LOOK`] flows, ends it: then some
/// flows are missing.
///
/// # Panics
///
/// If validation accepted a scenario that cannot be built, which is a bug.
#[expect(clippy::expect_used, reason = "a scenario is valid")]
pub(crate) fn simulation_unless(
    scenario: &Scenario,
    seed: u64,
    taps: &mut dyn Taps,
    is_over: &mut dyn FnMut() -> bool,
) -> Built {
    build(scenario, seed, taps, is_over).expect("a valid scenario can be built")
}

/// Builds the run without taps.
#[cfg(test)]
pub(crate) fn simulation(scenario: &Scenario, seed: u64) -> Built {
    simulation_with(scenario, seed, &mut ())
}

fn build(
    scenario: &Scenario,
    seed: u64,
    taps: &mut dyn Taps,
    is_over: &mut dyn FnMut() -> bool,
) -> Result<Built, BuildError> {
    let mut simulation = Simulation::new(seed);
    let mut mediums = BTreeMap::new();
    for spec in scenario.mediums() {
        mediums.insert(spec.id.as_str(), simulation.add_medium(&spec.id, spec.config.clone())?);
    }
    let mut links = Vec::new();
    for spec in scenario.links() {
        let ends = (simulation.node(&spec.from), simulation.node(&spec.to));
        let link = simulation.add_link(&spec.id, ends, &spec.config, queue(spec, seed)?)?;
        let medium = spec.medium.as_ref().and_then(|medium| mediums.get(medium.id.as_str()));
        if let (Some(&medium), Some(station)) = (medium, spec.station()?) {
            simulation.join(link, medium, station)?;
        }
        links.push(link);
    }
    let (mut flows, mut is_part) = (Vec::new(), false);
    'flows: for (index, spec) in scenario.flows().iter().enumerate() {
        for (name, number) in spec.instances().zip(1..) {
            if flows.len() % FLOWS_PER_LOOK == FLOWS_PER_LOOK - 1 && is_over() {
                is_part = true;
                break 'flows;
            }
            let (from, to) = (simulation.node(&spec.from), simulation.node(&spec.to));
            let forwards = route(&mut simulation, scenario, from, to, &spec.via)?;
            let back = || route(&mut simulation, scenario, to, from, &spec.back);
            let backwards = spec.kind.is_two_way().then(back).transpose()?;
            let own = Own { spec, seed, number };
            let start = own.start();
            let stop = spec.stop.unwrap_or(scenario.end()).min(scenario.end());
            let built = BuiltFlow { name, spec: index, forwards, backwards, start, stop };
            traffic(&mut simulation, &built, own, taps)?;
            flows.push(built);
        }
    }
    Ok(Built { simulation, links, flows, is_part })
}

/// Adds a flow over the links of `via`, or over the shortest route.
fn route(
    simulation: &mut Simulation,
    scenario: &Scenario,
    from: NodeId,
    to: NodeId,
    via: &[String],
) -> Result<FlowId, RouteError> {
    if via.is_empty() {
        return simulation.add_flow(from, to);
    }
    simulation.add_flow_via(from, &scenario.link_ids(via))
}

/// The queue of a link.
pub(crate) fn queue(link: &LinkSpec, seed: u64) -> Result<Box<dyn Queue>, QueueError> {
    link.queue.discipline().queue(&|| random::stream(seed, &format!("link {}: queue", link.id)))
}

/// One instance of a flow of the scenario.
#[derive(Debug, Clone, Copy)]
struct Own<'a> {
    spec: &'a FlowSpec,
    seed: u64,
    number: u32,
}

impl Own<'_> {
    /// Its random numbers: independent of the number of instances.
    fn random(self, part: &str) -> Random {
        random::stream(self.seed, &format!("flow {} {}: {part}", self.spec.id, self.number))
    }

    fn application(self, transfers: &Transfers) -> tcp::Application {
        match *transfers {
            Transfers::Unlimited => tcp::Application::Unlimited,
            Transfers::Once(size) => tcp::Application::Bytes(size.as_bytes()),
            Transfers::Short { sizes: (from, to), idle, starting_on, persistent } => {
                let random = self.random("transfers");
                let is_on = self.number <= starting_on;
                let begin = if is_on { tcp::ShortFlows::starting_on } else { tcp::ShortFlows::starting_off };
                let flows = begin(random).with_sizes(from..=to).with_mean_idle(idle);
                tcp::Application::ShortFlows(if persistent { flows.over_one_connection() } else { flows })
            }
        }
    }

    fn start(self) -> Timestamp {
        match self.spec.start {
            Start::At(at) => at,
            Start::Uniform(span) => {
                let nanos = self.random("start").random_range(0..=span.as_nanos().max(0));
                Timestamp::ZERO + TimeDelta::from_nanos(nanos)
            }
        }
    }
}

/// Adds the agents of a flow.
fn traffic(
    simulation: &mut Simulation,
    flow: &BuiltFlow,
    own: Own<'_>,
    taps: &mut dyn Taps,
) -> Result<(), BuildError> {
    // Flows of kinds that are two-way have a reverse route.
    let answers = flow.backwards.unwrap_or(flow.forwards);
    match &own.spec.kind {
        FlowKind::Source { departures, size, ecn } => {
            let pattern = Pattern {
                ecn: *ecn,
                start: flow.start,
                stop: Some(flow.stop),
                ..Pattern::new(departures.clone(), *size)
            };
            let source = Source::new(flow.forwards, pattern, own.random("source"))?;
            // No agent receives the packets: observers see them.
            simulation.add_agent(Box::new(source));
        }
        FlowKind::Paced { strategy, plan, machine, ecn } => {
            let schedule = strategy.build(plan, StrategyOptions::default())?;
            let size = plan.size_on_layer();
            let datagrams = Datagrams { bytes: size.as_bytes() as u32, counted: size, ecn: *ecn };
            let paced =
                Paced::new(flow.forwards, datagrams, schedule, *machine, flow.start).until(Some(flow.stop));
            simulation.add_agent(Box::new(paced));
        }
        FlowKind::Tcp { settings, transfers } => {
            let sender = {
                let control = settings.algorithm.build(own.random("control"));
                tcp::Sender::with_control(
                    flow.forwards,
                    settings.clone(),
                    own.application(transfers),
                    control,
                )?
            };
            let sender = sender.starting_at(flow.start).stopping_at(flow.stop);
            let receiver = tcp::Receiver::new(answers, settings.clone())?;
            connect(simulation, flow.forwards, answers, Box::new(sender), Box::new(receiver));
        }
        FlowKind::Media(spec) => {
            let about = MediaFlow { name: &flow.name, spec };
            let controller = taps.controller(about, media::controller(spec));
            let ends = media::Ends::SIMULATED;
            let sender = media::sender(
                spec,
                controller,
                ends,
                flow.start,
                |part| own.random(part),
                media::RealSources::default(),
            )?;
            let sender = Media::new(sender, flow.forwards, flow.forwards, flow.start).stopping_at(flow.stop);
            let sender = sender.changing_route(&spec.route_changes);
            let sender =
                media::pauses(spec).fold(sender, |sender, (stream, pauses)| sender.pausing(stream, &pauses));
            let receiver = media::receiver(spec, media::Ends::SIMULATED)?;
            let receiver = Media::new(receiver, answers, flow.forwards, Timestamp::ZERO);
            let sender = taps.agent(about, End::Sender, Box::new(sender));
            let receiver = taps.agent(about, End::Receiver, Box::new(receiver));
            connect(simulation, flow.forwards, answers, sender, receiver);
        }
    }
    Ok(())
}

/// Adds two agents, each of which receives what the other sends.
fn connect(
    simulation: &mut Simulation,
    forwards: FlowId,
    answers: FlowId,
    sender: Box<dyn Agent>,
    receiver: Box<dyn Agent>,
) {
    let sender = simulation.add_agent(sender);
    let receiver = simulation.add_agent(receiver);
    simulation.deliver(forwards, receiver);
    simulation.deliver(answers, sender);
}

#[cfg(test)]
mod tests;
