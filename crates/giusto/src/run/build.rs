//! From a scenario to a simulation: the one place where each kind of queue and of traffic is made.

use giusto_pace::StrategyOptions;
use giusto_sim::{
    link::queue::{CoDel, DropTail, DualPi2, FqCodel, Pie, Queue, QueueError, Red, StepMark},
    packet::{FlowId, LinkId, NodeId},
    random::{self, Random},
    simulation::Simulation,
    traffic::{Datagrams, Media, Paced, Pattern, Source, tcp},
};
use giusto_units::{TimeDelta, Timestamp};
use rand::RngExt;

use crate::run::media;
use crate::scenario::{
    At, Finding, FlowKind, FlowSpec, LinkSpec, QueueSpec, Scenario, Start, Transfers, number_in_file,
};

/// A simulation that has not begun, and what in it is what in the scenario.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) simulation: Simulation,
    /// Each link of the scenario.
    pub(crate) links: Vec<LinkId>,
    /// Each flow of the scenario, as often as it is there.
    pub(crate) flows: Vec<BuiltFlow>,
}

/// One flow of a simulation.
#[derive(Debug, Clone)]
pub(crate) struct BuiltFlow {
    /// Its own name: numbered if there are several of it.
    pub(crate) name: String,
    /// Which flow of the scenario it is.
    pub(crate) spec: usize,
    /// What goes forwards.
    pub(crate) forwards: FlowId,
    /// The answers, if there are any.
    pub(crate) backwards: Option<FlowId>,
    pub(crate) start: Timestamp,
    pub(crate) stop: Timestamp,
}

/// Builds the run of `scenario` with `seed`.
///
/// # Errors
///
/// What the parts themselves find wrong, with its place in the scenario. A [`Scenario`] that exists has none of it.
pub(crate) fn simulation(scenario: &Scenario, seed: u64) -> Result<Built, Finding> {
    let mut simulation = Simulation::new(seed);
    let mut links = Vec::new();
    for (index, spec) in scenario.links().iter().enumerate() {
        let say = |key, what: String| {
            let at = At::new("link", number_in_file(scenario.links(), index), key);
            (at, format!("link \"{}\": {what}", spec.id))
        };
        let ends = (simulation.node(&spec.from), simulation.node(&spec.to));
        let queue = queue(spec, seed).map_err(|error| say("queue", format!("queue: {error}")))?;
        let link = simulation.add_link(&spec.id, ends, &spec.config, queue);
        links.push(link.map_err(|error| say("rate", error.to_string()))?);
    }
    let mut flows = Vec::new();
    for (index, spec) in scenario.flows().iter().enumerate() {
        let say = |key, what: String| (At::new("flow", index, key), format!("flow \"{}\": {what}", spec.id));
        for (name, number) in spec.instances().zip(1..) {
            let (from, to) = (simulation.node(&spec.from), simulation.node(&spec.to));
            let mut route = |ends, via: &[String], key| {
                route(&mut simulation, scenario, ends, via)
                    .map_err(|what| say(key, format!("no route: {what}")))
            };
            let forwards = route((from, to), &spec.via, if spec.via.is_empty() { "from" } else { "via" })?;
            let backwards = if spec.kind.answers() {
                let mend = "the answers need a way back: give the link duplex = true or a reverse";
                let back = route((to, from), &spec.back, "back");
                Some(back.map_err(|(at, what)| (at, format!("{what}; {mend}")))?)
            } else {
                None
            };
            let own = Own { spec, seed, number };
            let start = own.start();
            let built = BuiltFlow {
                name,
                spec: index,
                forwards,
                backwards,
                start,
                stop: spec.stop.unwrap_or(scenario.end()),
            };
            traffic(&mut simulation, &built, own).map_err(|(key, what)| say(key, what))?;
            flows.push(built);
        }
    }
    Ok(Built { simulation, links, flows })
}

/// A flow over the links that it names, or the shortest way.
fn route(
    simulation: &mut Simulation,
    scenario: &Scenario,
    (from, to): (NodeId, NodeId),
    via: &[String],
) -> Result<FlowId, String> {
    if via.is_empty() {
        return simulation.add_flow(from, to).map_err(|error| error.to_string());
    }
    let place = |id: &String| scenario.links().iter().position(|link| link.id == *id).unwrap_or(usize::MAX);
    let way: Vec<LinkId> = via.iter().map(|id| LinkId(place(id) as u32)).collect();
    let flow = simulation.add_flow_via(from, &way).map_err(|error| error.to_string())?;
    let network = simulation.network();
    let end = way.last().and_then(|last| network.links().get(last.0 as usize)).map(|ends| ends.to);
    match end {
        Some(end) if end != to => Err(format!(
            "the links that it names lead to \"{}\", not to \"{}\": add the links that are missing",
            network.name(end),
            network.name(to)
        )),
        _ => Ok(flow),
    }
}

/// The queue of a link.
fn queue(link: &LinkSpec, seed: u64) -> Result<Box<dyn Queue>, QueueError> {
    let random = || random::stream(seed, &format!("link {}: queue", link.id));
    Ok(match &link.queue {
        QueueSpec::DropTail(limit) => Box::new(DropTail::new(*limit)),
        QueueSpec::CoDel(config) => Box::new(CoDel::new(*config)?),
        QueueSpec::FqCodel(config) => Box::new(FqCodel::new(*config, random())?),
        QueueSpec::Pie(config) => Box::new(Pie::new(*config, random())?),
        QueueSpec::Red(config) => Box::new(Red::new(*config, random())?),
        QueueSpec::DualPi2(config) => Box::new(DualPi2::new(*config)?),
        QueueSpec::StepMark(config) => Box::new(StepMark::new(*config)?),
    })
}

/// One of the flows that a part of a scenario describes.
#[derive(Debug, Clone, Copy)]
struct Own<'a> {
    spec: &'a FlowSpec,
    seed: u64,
    number: u32,
}

impl Own<'_> {
    /// Its chance: independent of how many of it there are.
    fn random(self, part: &str) -> Random {
        random::stream(self.seed, &format!("flow {} {}: {part}", self.spec.id, self.number))
    }

    fn application(self, transfers: &Transfers) -> tcp::Application {
        match *transfers {
            Transfers::Unlimited => tcp::Application::Unlimited,
            Transfers::Once(size) => tcp::Application::Bytes(size.as_bytes()),
            Transfers::Short { sizes: (from, to), idle, starting_on, persistent } => {
                let random = self.random("transfers");
                let slot = if self.number <= starting_on {
                    tcp::ShortFlows::starting_on(random)
                } else {
                    tcp::ShortFlows::starting_off(random)
                };
                let slot = slot.with_sizes(from..=to).with_mean_idle(idle);
                tcp::Application::ShortFlows(if persistent { slot.over_one_connection() } else { slot })
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

/// Adds what sends and what receives.
fn traffic(
    simulation: &mut Simulation,
    flow: &BuiltFlow,
    own: Own<'_>,
) -> Result<(), (&'static str, String)> {
    match &own.spec.kind {
        FlowKind::Source { departures, size, ecn } => {
            let pattern = Pattern {
                ecn: *ecn,
                start: flow.start,
                stop: Some(flow.stop),
                ..Pattern::new(departures.clone(), *size)
            };
            let source = Source::new(flow.forwards, pattern, own.random("source"))
                .map_err(|error| ("kind", error.to_string()))?;
            // What comes out goes to nobody: the observers have seen it.
            simulation.add_agent(Box::new(source));
        }
        FlowKind::Paced { strategy, plan, machine, ecn } => {
            let schedule = strategy
                .build(plan, StrategyOptions::default())
                .map_err(|error| ("strategy", error.to_string()))?;
            let size = plan.size_on_layer();
            let datagrams = Datagrams { bytes: size.as_bytes() as u32, counted: size, ecn: *ecn };
            let paced =
                Paced::new(flow.forwards, datagrams, schedule, *machine, flow.start).until(Some(flow.stop));
            simulation.add_agent(Box::new(paced));
        }
        FlowKind::Tcp { settings, transfers } => {
            let say = |error: tcp::SettingsError| (settings_key(&error.to_string()), error.to_string());
            let application = own.application(transfers);
            let sender = tcp::Sender::new(flow.forwards, settings.clone(), application).map_err(say)?;
            let sender = sender.starting_at(flow.start).stopping_at(flow.stop);
            let answers = flow.backwards.ok_or(("back", "no way back".to_owned()))?;
            let receiver = tcp::Receiver::new(answers, settings.clone()).map_err(say)?;
            let (sender, receiver) =
                (simulation.add_agent(Box::new(sender)), simulation.add_agent(Box::new(receiver)));
            simulation.deliver(flow.forwards, receiver);
            simulation.deliver(answers, sender);
        }
        FlowKind::Media(spec) => {
            let answers = flow.backwards.ok_or(("back", "no way back".to_owned()))?;
            let sender = media::sender(spec, flow.start, |part| own.random(part))?;
            let sender = Media::new(sender, flow.forwards, flow.forwards, flow.start).stopping_at(flow.stop);
            let sender =
                media::pauses(spec).fold(sender, |sender, (stream, pauses)| sender.pausing(stream, &pauses));
            let receiver = Media::new(media::receiver(spec)?, answers, flow.forwards, Timestamp::ZERO);
            let (sender, receiver) =
                (simulation.add_agent(Box::new(sender)), simulation.add_agent(Box::new(receiver)));
            simulation.deliver(flow.forwards, receiver);
            simulation.deliver(answers, sender);
        }
    }
    Ok(())
}

/// The key of a file that a complaint of TCP is about.
fn settings_key(complaint: &str) -> &'static str {
    ["mss", "initial-window", "slow-start-limit", "segments-per-ack", "receive-window", "delayed-ack"]
        .into_iter()
        .find(|key| complaint.contains(key))
        .unwrap_or("kind")
}
