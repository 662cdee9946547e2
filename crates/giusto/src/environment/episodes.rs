//! Which episodes an environment plays.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use giusto_congestion::{Algorithm, FeedbackKind, Fixed, Requirements};
use giusto_sim::random::Random;
use rand::RngExt;

use super::{
    EnvironmentError,
    spread::{Randomised, Spread},
};
use crate::{
    benchmark::{
        Drawn, Family, draw,
        family::{BOTTLENECK, JUDGED},
    },
    scenario::{Document, FlowKind, FlowSpec, Scenario, Setting},
};

/// The controller of the other calls in `equal-calls` and `mixed-calls`, where the benchmark has the judged one: like an environment it
/// can use congestion marks.
const OTHER_CALLS: &str = "scream:v2";

/// The scenarios of the episodes.
#[derive(Debug, Clone)]
pub struct Episodes(Source);

#[derive(Debug, Clone)]
enum Source {
    Benchmark {
        seed: String,
        families: Vec<Family>,
        /// Number of scenarios of each family.
        most: u32,
        /// Those of [`Family::Lte`] that were drawn, if they can come again: to draw one takes longer than to play it.
        kept: Arc<Mutex<BTreeMap<u64, Drawn>>>,
    },
    Scenario {
        scenario: Box<Scenario>,
        flow: String,
    },
    Randomised {
        scenario: Box<Randomised>,
        flow: String,
    },
}

/// Those of `lte` are kept if there are at most this many, about 40 kB each.
const MOST_KEPT: u32 = 1000;

/// One episode before it begins.
pub(super) struct Planned {
    pub(super) scenario: Scenario,
    /// Seed of the run.
    pub(super) seed: u64,
    /// The flow that is controlled.
    pub(super) flow: String,
    /// As drawn, if it is.
    pub(super) drawn: Option<Drawn>,
    /// Values that were drawn for it.
    pub(super) values: Vec<Setting>,
}

impl Episodes {
    /// Scenarios of the benchmark with this seed, of these families: each episode is of one of them with the same probability, and its
    /// number modulo their count is that of its family.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError`]: the seed is empty, there is no family, or one is unknown.
    pub fn benchmark<S: AsRef<str>>(seed: &str, families: &[S]) -> Result<Self, EnvironmentError> {
        if seed.trim().is_empty() {
            return Err(EnvironmentError::Seed);
        }
        let family = |name: &S| {
            let known = Family::ALL.into_iter().find(|family| family.name() == name.as_ref());
            known.ok_or_else(|| EnvironmentError::Family(name.as_ref().to_owned()))
        };
        let families = families.iter().map(family).collect::<Result<Vec<_>, _>>()?;
        if families.is_empty() {
            return Err(EnvironmentError::NoFamily);
        }
        let (seed, kept) = (seed.to_owned(), Arc::default());
        Ok(Self(Source::Benchmark { seed, families, most: u32::MAX, kept }))
    }

    /// The same with at most this number of different scenarios of each family: the first ones of the benchmark. Default 2³² − 1. It has
    /// no effect on [`of_scenario`](Self::of_scenario).
    ///
    /// # Errors
    ///
    /// [`EnvironmentError::Most`]: it is 0.
    pub fn at_most(mut self, scenarios: u32) -> Result<Self, EnvironmentError> {
        if scenarios == 0 {
            return Err(EnvironmentError::Most);
        }
        if let Source::Benchmark { most, .. } = &mut self.0 {
            *most = scenarios;
        }
        Ok(self)
    }

    /// One scenario with other random numbers in each episode. The media flow `flow`, by default the first, is controlled; the
    /// scenario's link `bottleneck`, which ends where the flow ends, gives the rate that it could use.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError`]: the scenario has no such flow or link.
    pub fn of_scenario(scenario: Scenario, flow: Option<&str>) -> Result<Self, EnvironmentError> {
        let flow = call(&scenario, flow)?;
        Ok(Self(Source::Scenario { scenario: Box::new(scenario), flow }))
    }

    /// The same with values that are drawn for each episode, by their paths: the number of an episode gives its values.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError`]: as there, a spread is not valid, or the scenario is not valid with the lowest, the highest or a chosen value.
    pub fn randomised(
        document: Document,
        settings: Vec<Setting>,
        spreads: Vec<(String, Spread)>,
        flow: Option<&str>,
    ) -> Result<Self, EnvironmentError> {
        let own = call(&document.scenario(&settings)?, flow)?;
        let check = |scenario: &Scenario| call(scenario, Some(&own)).map(drop);
        let scenario = Box::new(Randomised::new(document, settings, spreads, check)?);
        Ok(Self(Source::Randomised { scenario, flow: own }))
    }

    /// The number of the next episode.
    pub(super) fn next(&self, numbers: &mut Random) -> u64 {
        match &self.0 {
            Source::Benchmark { families, most, .. } => {
                let all = Family::ALL.len() as u64;
                let place = numbers.random_range(0..families.len().max(1));
                let family = families.get(place).copied().unwrap_or(Family::Static);
                let index = Family::ALL.iter().position(|own| *own == family).unwrap_or(0) as u64;
                all * u64::from(numbers.random_range(0..*most)) + index
            }
            // Whole numbers that every language holds exactly.
            Source::Scenario { .. } | Source::Randomised { .. } => u64::from(numbers.random::<u32>()),
        }
    }

    /// The episode of this number, controlled by `controller`.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError`]: the scenario is not valid with the values that were drawn.
    ///
    /// # Panics
    ///
    /// If a drawn scenario is not valid, which is a bug.
    #[expect(clippy::expect_used, reason = "what is drawn is valid, which a test of the benchmark checks")]
    pub(super) fn plan(&self, number: u64, controller: Algorithm) -> Result<Planned, EnvironmentError> {
        Ok(match &self.0 {
            Source::Benchmark { seed, most, kept, .. } => {
                let keeps = Family::of(number) == Family::Lte && *most <= MOST_KEPT;
                let kept = || kept.lock().unwrap_or_else(PoisonError::into_inner);
                let known = keeps.then(|| kept().get(&number).cloned()).flatten();
                let drawn = known.unwrap_or_else(|| draw(seed, number));
                if keeps {
                    kept().entry(number).or_insert_with(|| drawn.clone());
                }
                let scenario = drawn.scenario(controller).expect("a drawn scenario is valid");
                let calls = scenario.flows().iter().filter(|flow| flow.id.starts_with(JUDGED));
                let mut calls: Vec<String> = calls.map(|flow| flow.id.clone()).collect();
                let others = calls.split_off(1.min(calls.len()));
                let own = calls.pop().unwrap_or_default();
                let other: Algorithm = OTHER_CALLS.parse().expect("it is built in");
                let with_other = |scenario: Scenario, id: &String| scenario.with_controller(id, other);
                let scenario = others.iter().try_fold(scenario, with_other).expect("its flows are its own");
                let seed = scenario.seed();
                Planned { scenario, seed, flow: own, drawn: Some(drawn), values: Vec::new() }
            }
            Source::Scenario { scenario, flow } => {
                let own = scenario.as_ref().clone();
                let scenario = own.with_controller(flow, controller).expect("the flow is in the scenario");
                Planned { scenario, seed: number, flow: flow.clone(), drawn: None, values: Vec::new() }
            }
            Source::Randomised { scenario, flow } => {
                let values = scenario.values(number);
                let scenario = scenario.with(&values)?;
                call(&scenario, Some(flow))?;
                let scenario =
                    scenario.with_controller(flow, controller).expect("the flow is in the scenario");
                Planned { scenario, seed: number, flow: flow.clone(), drawn: None, values }
            }
        })
    }
}

/// The id of the media flow that is controlled: this one, or the first.
fn call(scenario: &Scenario, flow: Option<&str>) -> Result<String, EnvironmentError> {
    let is_asked = |own: &&FlowSpec| flow.is_none_or(|flow| own.id == flow);
    let is_call = |own: &&FlowSpec| matches!(own.kind, FlowKind::Media(_)) && own.count == 1;
    let Some(call) = scenario.flows().iter().filter(is_asked).find(is_call) else {
        let (scenario, flow) = (scenario.name().to_owned(), flow.map(str::to_owned));
        return Err(EnvironmentError::NoCall { scenario, flow });
    };
    if !scenario.links().iter().any(|link| link.id == BOTTLENECK && link.to == call.to) {
        let (scenario, node) = (scenario.name().to_owned(), call.to.clone());
        return Err(EnvironmentError::NoBottleneck { scenario, node });
    }
    Ok(call.id.clone())
}

/// What a scenario calls the controller that takes its target from the actions: it gets arrival times and marks (RFC 8888).
pub(super) fn steered() -> Algorithm {
    static STEERED: OnceLock<Algorithm> = OnceLock::new();
    *STEERED.get_or_init(|| {
        let build = |limits: giusto_congestion::Limits, _| -> Box<dyn giusto_congestion::Controller> {
            Box::new(Fixed::new(limits.start))
        };
        Algorithm::custom("environment", REQUIREMENTS, build)
    })
}

/// What a controller with actions requires.
pub(super) const REQUIREMENTS: Requirements = Requirements::DEFAULT
    .with_feedback(FeedbackKind::CongestionControl, Requirements::ARRIVAL_TIMES)
    .with_marks(true);

/// The names of all families.
pub(super) fn family_names() -> String {
    Family::ALL.map(Family::name).join(", ")
}
