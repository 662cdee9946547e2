//! Many environments at once.

use std::{
    num::NonZero,
    sync::{Mutex, PoisonError},
    thread::available_parallelism,
};

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Environment, EnvironmentError, Observation, Step};
use crate::{benchmark::Figures, scenario::Setting};

/// When an environment whose episode is over begins the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Autoreset {
    /// In the next step, which ignores the action and has no reward.
    NextStep,
    /// In the same step: the observation is that of the next episode.
    SameStep,
    /// Only when it is reset. A step before that is an error.
    Never,
}

/// Environments that are stepped together, on threads of their own.
#[derive(Debug)]
pub struct Batch {
    environments: Vec<Environment>,
    autoreset: Autoreset,
    /// The threads that help that of the caller.
    helpers: Option<ThreadPool>,
}

/// What happened to one environment of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchStep {
    /// The observation after the call.
    pub observation: Observation,
    /// The step; `None` if the call began an episode instead.
    pub step: Option<Step>,
    /// Number and name of the episode of the step, or of the one that the call began.
    pub episode: (u64, String),
    /// If the step began another episode too: its number and its name.
    pub next: Option<(u64, String)>,
    /// The values that were drawn for an episode that the call began.
    pub values: Vec<Setting>,
    /// The benchmark's figures of an episode that is over.
    pub figures: Option<Box<Figures>>,
}

impl Batch {
    /// Steps these environments on `threads` threads; 0: one for each core.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError::Threads`]: the system gives no more threads.
    pub fn new(
        environments: Vec<Environment>,
        autoreset: Autoreset,
        threads: u16,
    ) -> Result<Self, EnvironmentError> {
        let threads = match threads {
            0 => available_parallelism().map_or(1, NonZero::get),
            threads => threads.into(),
        };
        let pool = |helpers| ThreadPoolBuilder::new().num_threads(helpers).build();
        let helpers = (threads > 1).then(|| pool(threads - 1)).transpose();
        let helpers = helpers.map_err(|error| EnvironmentError::Threads(error.into()))?;
        Ok(Self { environments, autoreset, helpers })
    }

    /// Number of environments.
    pub fn len(&self) -> usize {
        self.environments.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.environments.is_empty()
    }

    /// Begins an episode in each environment whose entry of `episodes` is not `None`; returns their first observations.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError`]: the number of entries is not that of the environments, or a call is shorter than a step.
    pub fn reset(&mut self, episodes: &[Option<Begin>]) -> Result<Vec<Option<BatchStep>>, EnvironmentError> {
        self.reset_unless(episodes, || false)
    }

    /// The same, but no further episode begins once `ends`, which is called before each, is true.
    ///
    /// # Errors
    ///
    /// Those of [`reset`](Self::reset), and [`EnvironmentError::Ended`].
    pub fn reset_unless(
        &mut self,
        episodes: &[Option<Begin>],
        ends: impl Fn() -> bool + Sync,
    ) -> Result<Vec<Option<BatchStep>>, EnvironmentError> {
        let (expected, found) = (self.environments.len(), episodes.len());
        if expected != found {
            return Err(EnvironmentError::Count { expected, found });
        }
        self.each(episodes, |own, begin| {
            let Some(begin) = begin else { return Ok(None) };
            if ends() { Err(EnvironmentError::Ended) } else { began(own, begin).map(Some) }
        })
    }

    /// Steps each environment with its action. After an error in one, others may have taken the step.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError`]: the number of actions is not that of the environments, one is not a number, or an environment has no episode.
    pub fn step(&mut self, actions: &[f32]) -> Result<Vec<BatchStep>, EnvironmentError> {
        let (expected, found) = (self.environments.len(), actions.len());
        if expected != found {
            return Err(EnvironmentError::Count { expected, found });
        }
        if let Some(&action) = actions.iter().find(|action| action.is_nan()) {
            return Err(EnvironmentError::Action(action));
        }
        let autoreset = self.autoreset;
        self.each(actions, |own, &action| step(own, action, autoreset))
    }

    /// Calls `call` for each environment with its argument.
    fn each<A: Sync, R: Send>(
        &mut self,
        arguments: &[A],
        call: impl Fn(&mut Environment, &A) -> Result<R, EnvironmentError> + Sync,
    ) -> Result<Vec<R>, EnvironmentError> {
        let mut called = self.environments.iter_mut().zip(arguments);
        let Some(helpers) = &self.helpers else {
            return called.map(|(own, argument)| call(own, argument)).collect();
        };
        // The caller works too: it need not wait until a helper is awake. Each takes what is next.
        let mut results: Vec<Option<Result<R, EnvironmentError>>> = arguments.iter().map(|_| None).collect();
        let left = Mutex::new(called.by_ref().zip(&mut results));
        let work = || {
            loop {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(((own, argument), result)) = next else { return };
                *result = Some(call(own, argument));
            }
        };
        helpers.in_place_scope(|scope| {
            for _ in 0..helpers.current_num_threads() {
                scope.spawn(|_| work());
            }
            work();
        });
        results.into_iter().flatten().collect()
    }
}

/// Which episode begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Begin {
    /// The seed of this and later episodes; by default they go on.
    pub seed: Option<u64>,
    /// The number of the episode; by default the next.
    pub number: Option<u64>,
}

fn began(own: &mut Environment, begin: &Begin) -> Result<BatchStep, EnvironmentError> {
    let observation = own.begin(*begin)?;
    Ok(BatchStep {
        observation,
        step: None,
        episode: episode(own),
        next: None,
        values: own.values().to_vec(),
        figures: None,
    })
}

fn step(own: &mut Environment, action: f32, autoreset: Autoreset) -> Result<BatchStep, EnvironmentError> {
    if autoreset == Autoreset::NextStep && own.is_over() {
        return began(own, &Begin::default());
    }
    let step = own.step(action)?;
    let ended = episode(own);
    let figures = own.figures().map(Box::new);
    let (observation, next, values) = if step.is_last && autoreset == Autoreset::SameStep {
        let observation = own.reset()?;
        (observation, Some(episode(own)), own.values().to_vec())
    } else {
        (step.observation, None, Vec::new())
    };
    Ok(BatchStep { observation, step: Some(step), episode: ended, next, values, figures })
}

fn episode(own: &Environment) -> (u64, String) {
    (own.number().unwrap_or(0), own.scenario().unwrap_or_default().to_owned())
}
