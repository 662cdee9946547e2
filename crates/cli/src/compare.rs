//! `giusto compare`: one scenario under several congestion controllers.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::Args;
use rayon::prelude::*;

use super::{
    command_line,
    console::{self, Progress, print_json, print_text},
    files::Files,
    sim::make_folder,
    timed,
    usage::UsageError,
};
use giusto::{
    record::TimelineOptions,
    run::{
        RecordOptions,
        comparison::{self, Comparison, Contender, Controllers, Run},
    },
    scenario::{Document, Setting},
    view::{comparison::text, html},
};

/// Flags of `giusto compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto compare scenarios/compare.toml --out side-by-side
  giusto compare scenarios/media.toml --controller gcc:remb,scream:v2 --set bottleneck.queue=codel
  giusto compare scenarios/media-vs-cubic.toml --controller all --json
  giusto compare scenarios/rfc8867/5.4-same-algorithm.toml --flow s1

All else is the same in all runs, the seed too. Feedback that a controller does not hear gives way to what it wants; a
delay-target or receiver-limit that it cannot have is left out. The output says so.
Exit status: 0 compared, whatever was expected; 1 failed; 2 bad usage.")]
pub(crate) struct CompareArgs {
    /// The scenario
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The congestion controllers, or all; by default fixed, gcc:libwebrtc+giusto, gcc:remb, scream:d00+giusto, scream:rfc8298+giusto and scream:v2
    #[arg(long, value_name = "A,B,C")]
    controller: Option<Controllers>,

    /// Give them to this media flow alone; the others keep theirs
    #[arg(long, value_name = "ID")]
    flow: Option<String>,

    /// What all chance derives from, in every run; by default as the scenario says
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Another value than the file has, such as link.bottleneck.rate=5M or duration=10s; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Setting>,

    /// Write result.json and report.html to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CompareArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let document = Document::load(&args.file).map_err(UsageError::from)?;
    let controllers = args.controller.clone().unwrap_or_default();
    let contenders = comparison::contenders(&document, &args.set, &controllers, args.flow.as_deref())
        .map_err(UsageError::from)?;
    let Some(first) = contenders.first() else { return Ok(ExitCode::SUCCESS) };
    args.out.as_deref().map(make_folder).transpose()?;
    let seed = args.seed.unwrap_or(first.scenario.seed());

    let progress = Progress::new(contenders.len() as u64);
    progress.say(first.scenario.name());
    let threads = rayon::ThreadPoolBuilder::new().build()?;
    let options = RecordOptions { timeline: args.out.as_ref().map(|_| TimelineOptions::default()) };
    let runs: Vec<Option<Run>> = threads.install(|| {
        let ended = contenders.par_iter().with_max_len(1).map(|contender| {
            let ended = simulate(contender, seed, options, stop);
            progress.step();
            ended
        });
        ended.collect()
    });
    progress.clear();

    let runs: Vec<Run> = runs.into_iter().flatten().collect();
    let mut comparison = Comparison {
        scenario: first.scenario.name().to_owned(),
        seed: seed.to_string(),
        interrupted: runs.len() < contenders.len() || runs.iter().any(|run| run.result.interrupted),
        notes: comparison::notes(&contenders),
        runs,
    };
    let written = match &args.out {
        Some(folder) => write(folder, &comparison)?,
        None => Vec::new(),
    };
    comparison.runs.iter_mut().for_each(|run| run.result.timeline = None);
    if args.json {
        print_json(&comparison)?;
    } else {
        print_text(&text(&comparison, console::width()))?;
    }
    for path in &written {
        progress.note(&format!("wrote {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// One of the runs; `None` if it was not started.
fn simulate(contender: &Contender, seed: u64, options: RecordOptions, stop: &AtomicBool) -> Option<Run> {
    let watch =
        || if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    if watch().is_break() {
        return None;
    }
    let result = timed::run(&contender.scenario, seed, options, &mut (), |_| watch());
    let Contender { controller, feedback, .. } = contender;
    Some(Run { controller: controller.to_string(), feedback: feedback.clone(), result })
}

/// Writes both files, or none, and names them.
fn write(folder: &Path, comparison: &Comparison) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Files::default();
    files.add_result(folder, comparison)?;
    files.add_report(folder, &html::comparison(comparison, command_line()))?;
    files.commit()
}
