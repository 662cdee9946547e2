//! Answers on several threads.

use std::{
    collections::BTreeMap,
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::available_parallelism,
};

use giusto_net::Clock;
use rayon::{ThreadPoolBuilder, prelude::*};

use super::{Asked, ExploreError, Explorer, Question, Update};
use crate::record::RunRecord;

impl Explorer {
    /// Runs what is asked, on several threads, and passes the answer to `emit` part by part. `ends` is asked
    /// several hundred times in each run whether to give up; then nothing more is emitted. Returns whether the answer is whole: an
    /// `ends` that becomes true after the last run changes nothing.
    ///
    /// # Errors
    ///
    /// [`ExploreError`] lists what is wrong with the question.
    pub fn answer(
        &self,
        question: &Question,
        ends: &(dyn Fn() -> bool + Sync),
        emit: &(dyn Fn(Update) + Sync),
    ) -> Result<bool, ExploreError> {
        let asked = self.ask(question)?;
        let (variants, seeds) = (asked.variants(), asked.seeds());
        let of = variants * usize::from(seeds);
        let cores = available_parallelism().map_or(1, NonZero::get);
        let first: Option<Vec<RunRecord>> =
            each(cores, variants, |variant| timed(&asked, variant, 0, ends)).into_iter().collect();
        let Some(first) = first else { return Ok(false) };
        let done = AtomicUsize::new(first.len());
        let comparison = asked.side_by_side(first);
        emit(asked.picture(&comparison, &[]));
        if seeds == 1 {
            return Ok(true);
        }
        let left = variants * usize::from(seeds - 1);
        let others = Mutex::new(BTreeMap::new());
        let next = |place: usize| {
            let (variant, seed) = (place % variants, 1 + (place / variants) as u16);
            if ends() {
                return;
            }
            if let Some(record) = timed(&asked, variant, seed, ends) {
                others.lock().unwrap_or_else(PoisonError::into_inner).insert((variant, seed), record);
                emit(Update::Progress { done: 1 + done.fetch_add(1, Ordering::Relaxed), of });
            }
        };
        // One core is left to the browser, which draws the first picture meanwhile.
        each(cores.saturating_sub(1).max(1), left, next);
        let others = others.into_inner().unwrap_or_else(PoisonError::into_inner);
        if others.len() < left {
            return Ok(false);
        }
        let mut of_variants = vec![Vec::new(); variants];
        for ((variant, _), record) in others {
            if let Some(records) = of_variants.get_mut(variant) {
                records.push(record);
            }
        }
        emit(asked.picture(&comparison, &of_variants));
        Ok(true)
    }
}

/// Calls `of` with each place, on so many threads; on that of the caller where the system gives none, which only takes longer.
fn each<T: Send>(threads: usize, places: usize, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
    match ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(|| (0..places).into_par_iter().map(&of).collect()),
        Err(_) => (0..places).map(of).collect(),
    }
}

/// The same run with the time that it took.
fn timed(asked: &Asked, variant: usize, seed: u16, ends: &dyn Fn() -> bool) -> Option<RunRecord> {
    let clock = Clock::start();
    let began = clock.now();
    let record = asked.run(variant, seed, ends)?;
    Some(RunRecord { wall_s: (clock.now() - began).as_seconds(), ..record })
}
