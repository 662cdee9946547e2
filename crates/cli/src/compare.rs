//! `giusto compare`: one scenario under several congestion controllers.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Context as _;
use clap::Args;
use rayon::prelude::*;

use crate::{
    args::whole,
    command_line,
    console::{self, Progress, TableArgs, print_json, print_text},
    live_page::{LivePage, LivePageArgs},
    sim::make_folder,
    usage::{UsageError, misuse},
};
use giusto::{
    explore, live,
    record::TimelineOptions,
    run::{
        RecordOptions,
        comparison::{self, Comparison, Contender, Controllers, Run},
        timed,
    },
    scenario::Setting,
    view::{comparison::text, files::Files, html},
};
use giusto_units::TimeDelta;

/// Flags of `giusto compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto compare media-step --out side-by-side
  giusto compare media --controller gcc:remb,scream:v2 --set bottleneck.queue=codel
  giusto compare media-vs-cubic --controller all --json
  giusto compare rfc8867/5.4-same-algorithm --flow s1
  giusto compare rfc8867/5.1-variable-capacity --live --out parity

All runs have the same seed and differ only in the controller. If a controller does not support the scenario's \
feedback, it gets feedback that it supports; options that it does not support are omitted. The output notes this.
Exit status: 0 success, also if expectations are not met; 1 failure; 2 wrong usage; 3 with --live: this machine was \
overloaded, and figures of real time cannot be trusted.")]
pub(crate) struct CompareArgs {
    /// Scenario file, or name of a built-in scenario
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Congestion controllers, comma-separated, or all; nada+kappa=0.4 or a file tuned.toml set constants [default: fixed,
    /// gcc:libwebrtc+giusto, gcc:remb, scream:d00+giusto, scream:rfc8298+giusto and scream:v2]
    #[arg(long, value_name = "A,B,C", value_parser = Controllers::load)]
    controller: Option<Controllers>,

    /// Change the controller of this media flow only
    #[arg(long, value_name = "ID")]
    flow: Option<String>,

    /// Random seed of every run [default: that of the scenario]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0, u64::MAX))]
    seed: Option<u64>,

    /// Change a value of the scenario, such as link.bottleneck.rate=5M or duration=10s; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Setting>,

    /// Hold each run once more in real time: a call across the scenario's links on this machine. For a scenario with one media flow
    /// and nothing else; each run takes the scenario's duration
    #[arg(long)]
    live: bool,

    /// Write result.json and report.html to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    live_page: LivePageArgs,

    #[command(flatten)]
    tables: TableArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CompareArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    if let (true, Some(flow)) = (args.live_page.is_given(), &args.flow) {
        misuse!(
            "--live-page changes the controllers of all media flows, not of \"{flow}\" alone: leave --flow out"
        );
    }
    let document = explore::load(&args.file).map_err(UsageError::from)?;
    let controllers = args.controller.clone().unwrap_or_default();
    let contenders = comparison::contenders(&document, &args.set, &controllers, args.flow.as_deref())
        .map_err(UsageError::from)?;
    let Some(first) = contenders.first() else { return Ok(ExitCode::SUCCESS) };
    let names = contenders.iter().map(|contender| contender.controller.name().to_owned()).collect();
    let live_page = args.live_page.page(document, &args.set, args.seed, names)?;
    args.out.as_deref().map(make_folder).transpose()?;
    let seed = args.seed.unwrap_or(first.scenario.seed());

    if args.live {
        for contender in &contenders {
            live::check(&contender.scenario).map_err(|error| UsageError::new(format!("--live: {error}")))?;
        }
    }
    let progress = Progress::new(contenders.len() as u64 * if args.live { 2 } else { 1 });
    progress.say(first.scenario.name());
    let options = RecordOptions { timeline: args.out.as_ref().map(|_| TimelineOptions::default()) };
    let outcome = side_by_side(&contenders, seed, options, args.live, stop, &progress);
    progress.clear();
    let mut comparison = outcome?;
    // A full disk does not cost what was measured.
    let written = args.out.as_ref().map(|folder| write(folder, &comparison, live_page)).transpose();
    comparison.runs.iter_mut().for_each(|run| run.result.timeline = None);
    if args.json {
        print_json(&comparison)?;
    } else {
        print_text(&text(&comparison, args.tables.width()))?;
    }
    written?.into_iter().flatten().for_each(|path| progress.wrote(&path));
    Ok(console::status(comparison.runs.iter().any(|run| !run.doubts().is_empty())))
}

fn write(folder: &Path, comparison: &Comparison, page: Option<LivePage>) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Files::default();
    files.add_result(folder, comparison)?;
    files.add_report(folder, &html::comparison(comparison, command_line()))?;
    let mut written = files.commit()?;
    written.extend(page.map(|page| page.write(folder)).transpose()?);
    Ok(written)
}

/// Runs the contenders, as many at a time as there are processors: in simulation and, if `live`, then in real time.
pub(crate) fn side_by_side(
    contenders: &[Contender],
    seed: u64,
    options: RecordOptions,
    live: bool,
    stop: &AtomicBool,
    progress: &Progress,
) -> anyhow::Result<Comparison> {
    let threads = rayon::ThreadPoolBuilder::new().build().context("cannot start threads")?;
    let runs: Vec<Run> = threads.install(|| {
        let ended = contenders.par_iter().with_max_len(1).map(|contender| {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let Contender { controller, scenario, feedback, .. } = contender;
            let ends = |_| stop.load(Ordering::Relaxed);
            let result = timed::run(scenario, seed, options, &mut (), ends);
            progress.step();
            Some(Run {
                controller: controller.to_string(),
                feedback: feedback.clone(),
                result,
                ..Run::default()
            })
        });
        ended.flatten().collect()
    });
    let mut interrupted = runs.len() < contenders.len();
    let held = threads.install(|| {
        let contenders = if live { contenders } else { &[] };
        let held = contenders.par_iter().with_max_len(1).map(|contender| {
            let run = in_real_time(contender, seed, options.timeline.is_some(), stop, progress);
            progress.step();
            run
        });
        held.collect::<anyhow::Result<Vec<_>>>()
    })?;
    interrupted |= held.iter().any(Option::is_none);
    let live_runs: Vec<Run> = held.into_iter().flatten().collect();
    interrupted |= runs.iter().chain(&live_runs).any(|run| run.result.interrupted);
    let first = contenders.first().map(|contender| contender.scenario.name().to_owned());
    let mut notes = comparison::notes(contenders);
    comparison::add_notes_of(&runs, &mut notes);
    Ok(Comparison {
        scenario: first.unwrap_or_default(),
        seed: seed.to_string(),
        interrupted,
        notes,
        ..Comparison::of(runs, live_runs)
    })
}

/// The run of `contender` in real time; `None` if it was interrupted before the call began.
fn in_real_time(
    Contender { controller, scenario, feedback, .. }: &Contender,
    seed: u64,
    with_timeline: bool,
    stop: &AtomicBool,
    progress: &Progress,
) -> anyhow::Result<Option<Run>> {
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let duration = scenario.duration();
    let watch = |at: TimeDelta| {
        progress.say(format!("{controller} live, {:.0} of {:.0} s", at.as_seconds(), duration.as_seconds()));
    };
    match live::run(scenario, seed, with_timeline, stop, watch) {
        Ok(result) => {
            let (controller, feedback) = (controller.to_string(), feedback.clone());
            Ok(Some(Run { controller, live: true, feedback, result }))
        }
        Err(_) if stop.load(Ordering::Relaxed) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
