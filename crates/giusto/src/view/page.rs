//! What the page of a run needs to know besides the run.

use giusto_sim::{
    link::{delay::Jitter, loss::Loss, queue::Limit},
    observe::{Summary, Timeline},
};
use giusto_units::Timestamp;

use crate::{record::SimResult, run::build};
use crate::{
    scenario::{LinkSpec, QueueSpec, Scenario},
    view::format::percent,
    view::html::{self, PageFlow, PageLink, Report, SimulationPage},
};

/// Collects what a page shows. It observes a run, and then makes its page.
#[derive(Debug)]
pub struct PageObserver {
    /// The two that watch.
    pub observers: (Summary, Timeline),
    flows: Vec<PageFlow>,
    links: Vec<PageLink>,
    description: String,
}

impl PageObserver {
    /// An observer of a run of `scenario` with `seed`.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut summary = Summary::default();
        let (mut flows, mut links) = (Vec::new(), Vec::new());
        let built = build::simulation(scenario, seed);
        for flow in built.flows {
            let Some(spec) = scenario.flows().get(flow.spec) else { continue };
            summary.measure(flow.forwards, flow.start + scenario.warmup()..flow.stop.min(scenario.end()));
            flows.push(PageFlow {
                id: flow.forwards,
                name: flow.name,
                group: spec.id.clone(),
                from: spec.from.clone(),
                to: spec.to.clone(),
                path: built.simulation.flow(flow.forwards).path.clone(),
            });
        }
        for (spec, id) in scenario.links().iter().zip(built.links) {
            links.push(PageLink {
                id,
                name: spec.id.clone(),
                from: spec.from.clone(),
                to: spec.to.clone(),
                rate: spec.config.rate.clone(),
                wire: wire(spec),
                queue: queue(&spec.queue),
            });
        }
        let timeline = Timeline::new(scenario.end());
        let description = scenario.description().to_owned();
        Self { observers: (summary, timeline), flows, links, description }
    }

    /// The page of the run that was observed; `command` makes it again.
    pub fn page(mut self, result: &SimResult, command: String) -> Report {
        html::simulation(&self.material(result, command))
    }

    /// What that page is made from, of a run that is over.
    pub fn material<'a>(&'a mut self, result: &'a SimResult, command: String) -> SimulationPage<'a> {
        self.observers.1.finish();
        let (summary, timeline) = &self.observers;
        let (flows, links, description) = (self.flows.clone(), self.links.clone(), self.description.clone());
        SimulationPage { result, summary, timeline, flows, links, description, command }
    }
}

/// Delay, jitter and losses in words.
fn wire(link: &LinkSpec) -> String {
    let mut words = Vec::new();
    match link.config.delay.as_steps() {
        [(_, delay)] => words.push(delay.to_string()),
        steps => {
            let changes = steps.iter().filter(|(at, _)| *at > Timestamp::ZERO).count();
            words.extend(steps.first().map(|(_, delay)| format!("{delay} at first, {changes} changes")));
        }
    }
    match link.config.jitter {
        Some(Jitter::TruncatedGaussian { std, bound }) => {
            words.push(format!("Gaussian jitter of {std}, cut at {bound} deviations"));
        }
        Some(Jitter::Uniform { max }) => words.push(format!("jitter up to {max}")),
        None => {}
    }
    match &link.config.loss {
        Loss::None => {}
        Loss::List(list) => words.push(format!("loses {} packets", list.len())),
        loss => words.push(format!("loss {}", percent(loss.mean()))),
    }
    if link.config.duplication > 0.0 {
        words.push(format!("duplicates {}", percent(link.config.duplication)));
    }
    words.join(", ")
}

/// A queue in words.
fn queue(queue: &QueueSpec) -> String {
    let (law, limit) = match queue {
        QueueSpec::DropTail(limit) => ("drop-tail", *limit),
        QueueSpec::CoDel(config) => ("CoDel", config.limit),
        QueueSpec::FqCodel(config) => ("FQ-CoDel", Limit::Packets(config.limit.into())),
        QueueSpec::Pie(config) => ("PIE", config.limit),
        QueueSpec::Red(config) => ("RED", config.limit),
        QueueSpec::DualPi2(config) => ("DualPI2", config.limit),
        QueueSpec::StepMark(config) => ("step mark", config.limit),
    };
    match limit {
        Limit::Packets(packets) => format!("{law}, {packets} packets"),
        Limit::Bytes(size) => format!("{law}, {size}"),
        Limit::Time(time) => format!("{law}, {time}"),
        Limit::Unlimited => format!("{law}, unlimited"),
    }
}
