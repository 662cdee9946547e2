//! Simulations in steps, for controllers that learn: an action is a target rate, and each step gives an observation and a reward.
//!
//! An [`Environment`] plays one episode after the other: a call of a scenario of the [benchmark](crate::benchmark), or of one scenario
//! with other random numbers. `docs/reference/python.md` describes actions, observations and rewards, with which `giusto.gym`
//! implements the interface of Gymnasium.
//!
//! # Example
//!
//! ```
//! use giusto::environment::{Environment, Episodes};
//!
//! let mut environment = Environment::new(Episodes::benchmark("an example", &["static"])?);
//! environment.seed(1);
//! environment.reset()?;
//! let mut total = 0.0;
//! loop {
//!     let step = environment.step(0.0)?; // about 1.7 Mbit/s
//!     total += step.reward;
//!     if step.is_last {
//!         break;
//!     }
//! }
//! assert!((0.0..=200.0).contains(&total));
//! # Ok::<(), giusto::environment::EnvironmentError>(())
//! ```

mod batch;
mod episode;
mod episodes;
mod observation;
mod reward;
mod spread;
mod steered;

pub use batch::{Autoreset, Batch, BatchStep, Begin};
pub use episodes::Episodes;
pub use observation::{FEATURES, Feature, Observation, RATES, action_of_rate, rate_of_action};
pub use reward::{Reward, StepFigures};
pub use spread::Spread;
pub use steered::Observer;

use giusto_congestion::{Algorithm, UnknownAlgorithm};
use giusto_sim::random::{self, Random};
use giusto_units::{DataRate, TimeDelta};

use crate::{
    benchmark::Figures,
    scenario::{ScenarioError, Setting},
};
use episode::Episode;

/// Duration of a step unless another is set: about a round trip and a few frames of video.
pub const STEP: TimeDelta = TimeDelta::from_millis(200);

/// The shortest and the longest step.
const STEPS: (TimeDelta, TimeDelta) = (TimeDelta::from_millis(20), TimeDelta::from_seconds(10));

/// An environment that cannot be made, or that was used in the wrong order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// No family of this name.
    #[error("family \"{0}\" is unknown: expected one of {known}", known = episodes::family_names())]
    Family(String),
    /// No family.
    #[error("no family of scenarios: name at least one")]
    NoFamily,
    /// The seed of the benchmark is empty.
    #[error("the benchmark seed is empty: give any text, such as \"training\"")]
    Seed,
    /// The number of scenarios is 0.
    #[error("the number of scenarios must be at least 1, found 0")]
    Most,
    /// The scenario has no call that the environment can control.
    #[error(
        "{scenario}: no media flow{called} with count = 1: add one, whose target rate the environment controls",
        called = .flow.as_ref().map_or_else(String::new, |flow| format!(" called \"{flow}\""))
    )]
    NoCall {
        /// Name of the scenario.
        scenario: String,
        /// The flow that was asked for, if any.
        flow: Option<String>,
    },
    /// The scenario has no link by which the reward can be computed.
    #[error(
        "{scenario}: no link called \"bottleneck\" ends at \"{node}\", where the call ends: give the link that limits its rate this name"
    )]
    NoBottleneck {
        /// Name of the scenario.
        scenario: String,
        /// The node at which the call ends.
        node: String,
    },
    /// The duration of a step is out of range.
    #[error("the step must be from 20 ms to 10 s, found {0}")]
    Step(TimeDelta),
    /// The call is shorter than a step.
    #[error(
        "{scenario}: the call \"{flow}\" is shorter than a step of {step}: let it begin earlier or last longer"
    )]
    Short {
        /// Name of the scenario.
        scenario: String,
        /// The call.
        flow: String,
        /// Duration of a step.
        step: TimeDelta,
    },
    /// There is no episode, or it is over.
    #[error("the episode is over or has not begun: call reset() first")]
    NoEpisode,
    /// The action is not a number.
    #[error("the action must be a number from -1 to 1, found {0}")]
    Action(f32),
    /// A number of actions or of episodes other than the number of environments.
    #[error("expected one value for each of the {expected} environments, found {found}")]
    Count {
        /// Number of environments.
        expected: usize,
        /// Number of values.
        found: usize,
    },
    /// A reset of many environments was ended.
    #[error("the reset was ended: call reset() again")]
    Ended,
    /// A value cannot be drawn.
    #[error("\"{path}\" cannot be drawn from {spread}: {why}")]
    Spread {
        /// Path of the value.
        path: String,
        /// From what.
        spread: String,
        /// Why.
        why: String,
    },
    /// The scenario is not valid with drawn values.
    #[error("with {values}: {error}")]
    Drawn {
        /// The values, by their paths.
        values: String,
        /// What is wrong.
        error: ScenarioError,
    },
    /// The scenario is not valid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The controller is unknown.
    #[error(transparent)]
    Controller(#[from] UnknownAlgorithm),
    /// The threads could not be started.
    #[error(transparent)]
    Threads(#[from] crate::run::ThreadsError),
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What the sender knows at the end of the step.
    pub observation: Observation,
    /// The reward, 0 to 1: the product of the parts in [`figures`](Self::figures).
    pub reward: f64,
    /// What the reward was computed from.
    pub figures: StepFigures,
    /// The target rate at the end of the step, which the limits of the call have bounded.
    pub target: DataRate,
    /// Whether the episode is over.
    pub is_last: bool,
}

/// Episodes, one after the other.
#[derive(Debug)]
pub struct Environment {
    episodes: Episodes,
    step: TimeDelta,
    follows: Option<Algorithm>,
    numbers: Random,
    episode: Option<Episode>,
}

impl Environment {
    /// An environment that plays these episodes, in steps of 200 ms. Its seed is 0.
    pub fn new(episodes: Episodes) -> Self {
        Self { episodes, step: STEP, follows: None, numbers: numbers(0), episode: None }
    }

    /// The same with steps of another duration.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError::Step`]: it must be from 20 ms to 10 s.
    pub fn with_step(self, step: TimeDelta) -> Result<Self, EnvironmentError> {
        let range = STEPS.0..=STEPS.1;
        if range.contains(&step) { Ok(Self { step, ..self }) } else { Err(EnvironmentError::Step(step)) }
    }

    /// The same in which a built-in controller sets the target instead of the actions, for comparison and to record its decisions. The
    /// run is that of the controller without an environment.
    #[must_use]
    pub fn following(self, controller: Algorithm) -> Self {
        Self { follows: Some(controller), ..self }
    }

    /// Sets the seed, from which the numbers of all later episodes follow.
    pub fn seed(&mut self, seed: u64) {
        self.numbers = numbers(seed);
    }

    /// Begins the next episode; returns what the sender knows before it sends.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError::Short`]: the call is shorter than a step.
    pub fn reset(&mut self) -> Result<Observation, EnvironmentError> {
        let number = self.episodes.next(&mut self.numbers);
        self.reset_to(number)
    }

    /// Begins the episode of this number: that of a scenario of the benchmark, or the seed of the scenario.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError::Short`]: the call is shorter than a step.
    pub fn reset_to(&mut self, number: u64) -> Result<Observation, EnvironmentError> {
        // The memory of the episode before is free for this one.
        self.episode = None;
        let episode = Episode::new(&self.episodes, number, self.step, self.follows)?;
        let first = episode.observation();
        self.episode = Some(episode);
        Ok(first)
    }

    /// Begins an episode.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError::Short`]: the call is shorter than a step.
    pub fn begin(&mut self, Begin { seed, number }: Begin) -> Result<Observation, EnvironmentError> {
        if let Some(seed) = seed {
            self.seed(seed);
        }
        match number {
            None => self.reset(),
            Some(number) => self.reset_to(number),
        }
    }

    /// Whether the episode is over.
    pub fn is_over(&self) -> bool {
        self.episode.as_ref().is_some_and(Episode::is_over)
    }

    /// Sets the target rate ([`rate_of_action`]; an action outside -1 to 1 is clamped) and simulates a step.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError`]: there is no episode, it is over, or the action is not a number.
    pub fn step(&mut self, action: f32) -> Result<Step, EnvironmentError> {
        if action.is_nan() {
            return Err(EnvironmentError::Action(action));
        }
        let episode = self.episode.as_mut().filter(|episode| !episode.is_over());
        Ok(episode.ok_or(EnvironmentError::NoEpisode)?.step(action))
    }

    /// The number of the episode.
    pub fn number(&self) -> Option<u64> {
        self.episode.as_ref().map(Episode::number)
    }

    /// The name of its scenario, such as `fades 21`.
    pub fn scenario(&self) -> Option<&str> {
        self.episode.as_ref().map(Episode::scenario)
    }

    /// The values that were drawn for it ([`Episodes::randomised`]).
    pub fn values(&self) -> &[Setting] {
        self.episode.as_ref().map_or(&[], Episode::values)
    }

    /// The benchmark's figures of the episode, with its utility, once it is over.
    pub fn figures(&mut self) -> Option<Figures> {
        self.episode.as_mut().filter(|episode| episode.is_over()).map(Episode::figures)
    }
}

/// The numbers of the episodes of a seed.
fn numbers(seed: u64) -> Random {
    random::stream(seed, "environment: episodes")
}

#[cfg(test)]
mod tests;
