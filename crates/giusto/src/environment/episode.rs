//! One episode.

use giusto_congestion::Algorithm;
use giusto_sim::simulation::Simulation;
use giusto_units::{TimeDelta, Timestamp};

use super::{
    EnvironmentError, Step,
    episodes::{Episodes, Planned, steered},
    observation::{Observation, rate_of_action},
    reward::Judge,
    steered::{AFTER, Shared, Steer, with},
};
use crate::{
    benchmark::{
        Figures,
        judge::Watch,
        share::{FairShares, START_UP},
    },
    run::build,
    scenario::{FlowSpec, Setting},
};

/// A simulation that is halted after each step.
#[derive(Debug)]
pub(super) struct Episode {
    number: u64,
    scenario: String,
    values: Vec<Setting>,
    simulation: Simulation,
    shared: Shared,
    judge: Judge,
    watch: Watch,
    /// Ratio of the capacity after its change to that before.
    change_ratio: Option<f64>,
    first: Observation,
    step: TimeDelta,
    now: Timestamp,
    /// Where the last step ends.
    end: Timestamp,
    /// Where the run ends: up to a step later.
    run_end: Timestamp,
}

impl Episode {
    /// The episode of this number, up to the start of the call. `follows` is the built-in controller that sets the target, if any.
    pub(super) fn new(
        episodes: &Episodes,
        number: u64,
        step: TimeDelta,
        follows: Option<Algorithm>,
    ) -> Result<Self, EnvironmentError> {
        let planned = episodes.plan(number, follows.unwrap_or_else(steered))?;
        let Planned { scenario, seed, flow, drawn, values } = planned;
        let shared = Shared::default();
        let mut taps = Steer { flow: &flow, shared: &shared, acts: follows.is_none() };
        let mut built = build::simulation_with(&scenario, seed, &mut taps);
        let short =
            || EnvironmentError::Short { scenario: scenario.name().to_owned(), flow: flow.clone(), step };
        let own = built.flows.iter().find(|own| own.name == flow).ok_or_else(short)?;
        let (id, start, stop) = (own.forwards, own.start, own.stop.min(scenario.end()));
        let steps = (stop - start).as_nanos() / step.as_nanos().max(1);
        if steps < 1 {
            return Err(short());
        }
        let is_own = |spec: &FlowSpec| spec.id == flow;
        let judge = Judge::new(&FairShares::of_flows(&scenario, TimeDelta::ZERO, is_own), id);
        let shares = FairShares::of_flows(&scenario, START_UP, is_own);
        let change = drawn.as_ref().and_then(|drawn| drawn.change_s);
        let watch = Watch::new(shares, &[id], change);
        let first = with(&shared, |seen| {
            seen.from = Some(start + AFTER);
            seen.until = start + step;
            seen.observe(start, start)
        });
        let mut observers = (judge, watch);
        built.simulation.run_until(start, &mut observers);
        let (judge, watch) = observers;
        Ok(Self {
            number,
            scenario: scenario.name().to_owned(),
            values,
            simulation: built.simulation,
            shared,
            judge,
            watch,
            change_ratio: drawn.and_then(|drawn| drawn.change_ratio),
            first,
            step,
            now: start,
            end: start + step * steps,
            run_end: scenario.end(),
        })
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn scenario(&self) -> &str {
        &self.scenario
    }

    pub(super) fn values(&self) -> &[Setting] {
        &self.values
    }

    /// What the sender knows before it sends.
    pub(super) fn observation(&self) -> Observation {
        self.first
    }

    pub(super) fn is_over(&self) -> bool {
        self.now >= self.end
    }

    /// Simulates a step with this action.
    pub(super) fn step(&mut self, action: f32) -> Step {
        let (from, to) = (self.now, self.now + self.step);
        with(&self.shared, |seen| (seen.action, seen.until) = (rate_of_action(action), to));
        self.simulation.run_until(to, &mut (&mut self.judge, &mut self.watch));
        self.now = to;
        let figures = self.judge.step(from, to);
        let (observation, target) = with(&self.shared, |seen| (seen.observe(from, to), seen.target));
        let is_last = self.is_over();
        if is_last {
            // No further action comes: the last one stays.
            with(&self.shared, |seen| (seen.from, seen.until) = (None, Timestamp::MAX));
            self.simulation.run_until(self.run_end, &mut self.watch);
        }
        Step { observation, reward: figures.reward.total(), figures, target, is_last }
    }

    /// The benchmark's figures, after the last step.
    pub(super) fn figures(&mut self) -> Figures {
        self.watch.figures(self.change_ratio)
    }
}
