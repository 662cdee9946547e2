//! Many environments at once.

use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};

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
    threads: Option<ThreadPool>,
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
        let pool = |threads: u16| {
            let pool = ThreadPoolBuilder::new().num_threads(threads.into()).build();
            pool.map_err(|error| EnvironmentError::Threads(error.into()))
        };
        // The caller's thread is enough for one.
        let threads = if threads == 1 { None } else { Some(pool(threads)?) };
        Ok(Self { environments, autoreset, threads })
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
        let environments = &mut self.environments;
        match &self.threads {
            None => {
                environments.iter_mut().zip(arguments).map(|(own, argument)| call(own, argument)).collect()
            }
            Some(threads) => threads.install(|| {
                let parallel = environments.par_iter_mut().with_max_len(1).zip(arguments);
                parallel.map(|(own, argument)| call(own, argument)).collect()
            }),
        }
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
