//! Many runs on several threads, each kept in a journal as it ends.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use serde::Serialize;

use super::sweep::{Journal, JournalError};

/// The threads could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start threads: {0}: give a smaller number of runs at a time")]
pub struct ThreadsError(#[from] rayon::ThreadPoolBuildError);

/// How many runs of a sweep or a benchmark are made.
#[derive(Debug, Default)]
pub struct Parallel {
    /// Number of runs at a time; 0 (the default): one on each core.
    pub jobs: u16,
    /// Where finished runs are kept; by default nowhere.
    pub journal: Option<Journal>,
}

impl Parallel {
    /// Calls `work` on threads of its own and returns its result. Its arguments are whether to end now, and what is to be called with each
    /// finished run, which is written to the journal and given to `finished`.
    ///
    /// The work is to end when `stop` is set, or when the journal cannot be written; then the second part of the result is the
    /// error.
    ///
    /// # Errors
    ///
    /// [`ThreadsError`]: the system gives no more threads.
    pub fn run<T: Serialize, R: Send>(
        self,
        stop: &AtomicBool,
        mut finished: impl FnMut(&T) + Send,
        work: impl FnOnce(&(dyn Fn() -> bool + Sync), &mut (dyn FnMut(&T) + Send)) -> R + Send,
    ) -> Result<(R, Option<JournalError>), ThreadsError> {
        let Self { jobs, mut journal } = self;
        let threads = rayon::ThreadPoolBuilder::new().num_threads(jobs.into()).build()?;
        let trouble = OnceLock::new();
        let is_over = || stop.load(Ordering::Relaxed) || trouble.get().is_some();
        let mut keep = |run: &T| {
            finished(run);
            if let Some(Err(error)) = journal.as_mut().map(|journal| journal.append(run)) {
                let _ = trouble.set(error);
            }
        };
        let result = threads.install(|| work(&is_over, &mut keep));
        let synced = journal.map_or(Ok(()), Journal::finish);
        Ok((result, trouble.into_inner().or(synced.err())))
    }
}
