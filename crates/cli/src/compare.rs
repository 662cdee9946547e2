//! `giusto compare`: one scenario under several congestion controllers.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::Args;
use rayon::prelude::*;

use crate::{
    args::whole,
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

Everything else is the same in all runs, including the seed. Where a controller does not support the scenario's feedback, it
gets feedback that it supports; a delay-target or receiver-limit that it does not support is omitted. The output notes this.
Exit status: 0 success, also if expectations are not met; 1 failure; 2 wrong usage.")]
pub(crate) struct CompareArgs {
    /// Scenario
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Congestion controllers, comma-separated, or all [default: fixed, gcc:libwebrtc+giusto, gcc:remb, scream:d00+giusto,
    /// scream:rfc8298+giusto and scream:v2]
    #[arg(long, value_name = "A,B,C")]
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

    /// Write result.json and report.html to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print one JSON object
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
    let runs: Vec<Run> = threads.install(|| {
        let ended = contenders.par_iter().with_max_len(1).map(|contender| {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let Contender { controller, scenario, feedback, .. } = contender;
            let ends = |_| stop.load(Ordering::Relaxed);
            let result = timed::run(scenario, seed, options, &mut (), ends);
            progress.step();
            Some(Run { controller: controller.to_string(), feedback: feedback.clone(), result })
        });
        ended.flatten().collect()
    });
    progress.clear();

    let mut comparison = Comparison {
        scenario: first.scenario.name().to_owned(),
        seed: seed.to_string(),
        interrupted: runs.len() < contenders.len() || runs.iter().any(|run| run.result.interrupted),
        notes: comparison::notes(&contenders),
        runs,
    };
    let mut files = Files::default();
    if let Some(folder) = &args.out {
        files.add_result(folder, &comparison)?;
        files.add_report(folder, &html::comparison(&comparison, command_line()))?;
    }
    let written = files.commit()?;
    comparison.runs.iter_mut().for_each(|run| run.result.timeline = None);
    if args.json {
        print_json(&comparison)?;
    } else {
        print_text(&text(&comparison, console::width()))?;
    }
    for path in &written {
        progress.wrote(path);
    }
    Ok(ExitCode::SUCCESS)
}
