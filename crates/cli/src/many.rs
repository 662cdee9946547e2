//! Many runs of which nothing is lost when they are ended early: those of a sweep or of a benchmark.

use std::{
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use clap::Args;
use giusto::run::{
    Parallel, Shard,
    sweep::{Journal, JournalError},
};
use serde::Serialize;

use crate::{
    args::whole,
    console::{Progress, TableArgs},
    sim::make_folder,
    usage::misuse,
};

#[derive(Debug, Args)]
pub(crate) struct ManyArgs {
    /// Run one of several equal parts, such as 1/4
    #[arg(long, value_name = "I/N", requires = "out")]
    pub(crate) shard: Option<Shard>,

    /// Number of runs at a time [default: one on each core]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1, 1024))]
    jobs: Option<u16>,

    /// Write the results, and a journal of finished runs, to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Continue the runs whose journal is in the directory of --out
    #[arg(long, requires = "out")]
    resume: bool,

    #[command(flatten)]
    pub(crate) tables: TableArgs,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The journal that --out asks for, and the runs that are in it.
pub(crate) type Kept<T> = (Option<Journal>, Vec<T>);

impl ManyArgs {
    /// The journal of `name`; `resume` reads what is in the one of a folder.
    pub(crate) fn journal<T>(
        &self,
        name: &str,
        resume: impl FnOnce(&Path) -> Result<(Journal, Vec<T>), JournalError>,
    ) -> anyhow::Result<Kept<T>> {
        let Some(out) = &self.out else { return Ok((None, Vec::new())) };
        let opened = if self.resume {
            resume(out)
        } else {
            make_folder(out)?;
            Journal::create(out, name).map(|journal| (journal, Vec::new()))
        };
        match opened {
            Ok((journal, known)) => Ok((Some(journal), known)),
            Err(error @ JournalError::Io { .. }) => Err(error.into()),
            Err(error) => misuse!("--out {error}"),
        }
    }

    /// Makes the runs by `work`: see [`Parallel::run`].
    pub(crate) fn run<T: Serialize, R: Send>(
        &self,
        progress: &Progress,
        journal: Option<Journal>,
        stop: &AtomicBool,
        work: impl FnOnce(&(dyn Fn() -> bool + Sync), &mut (dyn FnMut(&T) + Send)) -> R + Send,
    ) -> anyhow::Result<(R, Option<JournalError>)> {
        let parallel = Parallel { jobs: self.jobs.unwrap_or(0), journal };
        let ended = parallel.run(stop, |_| progress.step(), work)?;
        progress.clear();
        Ok(ended)
    }

    /// Notes that `missing` of `runs` were not made.
    pub(crate) fn note_missing(&self, progress: &Progress, missing: usize, runs: usize) {
        if missing > 0 {
            let fix = if self.out.is_some() { "with --resume" } else { "such runs with --out and --resume" };
            progress.note(&format!("{missing} of {runs} runs are missing: continue {fix}"));
        }
    }
}

/// The progress of these runs, of which so many are `known`.
pub(crate) fn progress(title: String, runs: usize, known: usize) -> Progress {
    let progress = Progress::new(runs as u64);
    progress.say(title);
    (0..known).for_each(|_| progress.step());
    progress
}
