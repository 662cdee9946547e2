//! `giusto reproduce`: published results beside giusto's own.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::{Args, ValueEnum};
use giusto_congestion::Algorithm;
use giusto_pace::{IpVersion, Limits, Strategy};
use giusto_units::{DataRate, DataSize, TimeDelta};
use serde::Serialize;

use crate::{
    cbr::{describe, loopback_run},
    command_line,
    console::{self, Progress, print_json, print_text},
    files::Files,
    sim::make_folder,
};
use giusto::{
    measured::{plan::StreamPlan, result::RunResult},
    view::html::Report,
    whole_file::{self, Content},
};
use giusto_experiments::{firebind, rfc8867, rrtcc, shaper};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Publication {
    /// Both tables of the Firebind constant-bit-rate transmitter
    Firebind,
    /// The test cases of RFC 8867: a scoreboard of all congestion controllers
    Rfc8867,
    /// The traffic shapers of Sun Labs TR-99-77: figures 4 to 14
    Shaper,
    /// A thesis's simulation of receiver-side congestion control: figures 16 to 20, and a queue
    Rrtcc,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto reproduce firebind --quick
  giusto reproduce firebind --out firebind.html
  giusto reproduce shaper --quick --out shaper.html
  giusto reproduce rrtcc --out rrtcc.html
  giusto reproduce rrtcc --markdown docs/reproduce/rrtcc.md
  giusto reproduce rfc8867 --controller gcc:libwebrtc+giusto --out scoreboard")]
pub(crate) struct ReproduceArgs {
    /// Publication to reproduce
    #[arg(value_name = "NAME")]
    name: Publication,

    /// Fewer and shorter runs: firebind takes half a minute instead of six minutes, shaper ten seconds instead of sixty,
    /// rrtcc 60 seeds instead of 400, rfc8867 three cases with one seed of each kind
    #[arg(long)]
    quick: bool,

    /// Congestion controllers of rfc8867, comma-separated [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    controller: Vec<Algorithm>,

    /// Write an HTML report to this file; rfc8867: write report.html and result.json to this directory
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write the page of the documentation to this file, in Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    match args.name {
        Publication::Firebind => firebind(args, stop),
        Publication::Rfc8867 => rfc8867(args, stop),
        Publication::Shaper => shaper(args, stop),
        Publication::Rrtcc => rrtcc(args, stop),
    }
}

fn rfc8867(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    args.out.as_deref().map(make_folder).transpose()?;
    let mut plan = rfc8867::Plan::new(args.quick);
    if !args.controller.is_empty() {
        plan.controllers.clone_from(&args.controller);
        plan.controllers.sort_unstable();
        plan.controllers.dedup();
    }
    let progress = Progress::new(plan.runs() as u64);
    let watch =
        || if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let board = rfc8867::run(plan, watch, |run| {
        progress.say(format!("{} {}", run.case, run.controller));
        progress.step();
    })?;
    print(args, &progress, || board.printed(), |_| board.table())?;
    if let Some(folder) = &args.out {
        let mut files = Files::default();
        files.add_result(folder, &board.printed())?;
        files.add_report(folder, &board.report(&command_line()))?;
        files.commit()?.iter().for_each(|path| progress.wrote(path));
    }
    write_markdown(args, &progress, || board.markdown())?;
    Ok(ExitCode::SUCCESS)
}

fn firebind(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    check_out(args)?;
    let plan = if args.quick { firebind::Plan::QUICK } else { firebind::Plan::FULL };
    let steps = firebind::PUBLISHED.len() as u64 * u64::from(plan.repeats);
    let mut meter = Meter::new(steps, stop);
    let outcome = firebind::run(plan, |config| {
        let row = &config.row;
        let strategy = match row.strategy {
            firebind::Strategy::SendSleep => Strategy::SendSleep,
            firebind::Strategy::SendCompare => Strategy::SendCompare,
        };
        // The publication's loop with its datagrams per cycle, waiting as its program waits.
        let mut plan = stream_plan(row.rate, row.size, config.duration);
        plan.pacing.strategy = strategy;
        plan.pacing.packets_per_cycle = Some(row.packets_per_cycle);
        plan.pacing.spin = config.spin;
        Ok(meter.measure(&plan))
    })?;
    print(args, &meter.progress, || outcome.reproduction(), |width| outcome.table(width))?;
    write_report(args, &meter.progress, |command| outcome.report(command))?;
    write_markdown(args, &meter.progress, || outcome.markdown())?;
    meter.finish()
}

fn shaper(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    check_out(args)?;
    let plan = if args.quick { shaper::Plan::QUICK } else { shaper::Plan::FULL };
    let mut meter = Meter::new(plan.runs() as u64, stop);
    let outcome = shaper::run(plan, |config| {
        let mut plan = stream_plan(config.rate, config.size, config.duration);
        plan.pacing.strategy = config.strategy;
        plan.pacing.packets_per_cycle = Some(1);
        Ok(meter.measure(&plan))
    })?;
    meter.progress.say("simulating");
    print(args, &meter.progress, || outcome.reproduction(), |width| outcome.table(width))?;
    write_report(args, &meter.progress, |command| outcome.report(command))?;
    write_markdown(args, &meter.progress, || outcome.markdown())?;
    meter.finish()
}

/// Ctrl-C ends the simulation early: the runs before it are judged.
fn rrtcc(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    check_out(args)?;
    let plan = if args.quick { rrtcc::Plan::QUICK } else { rrtcc::Plan::FULL };
    let progress = Progress::new(plan.steps());
    let outcome = rrtcc::run(plan, |what| {
        progress.say(what);
        progress.step();
        !stop.load(Ordering::Relaxed)
    });
    print(args, &progress, || outcome.reproduction(), |width| outcome.table(width))?;
    write_report(args, &progress, |command| outcome.report(command))?;
    write_markdown(args, &progress, || outcome.markdown())?;
    Ok(ExitCode::SUCCESS)
}

fn check_out(args: &ReproduceArgs) -> anyhow::Result<()> {
    Ok(args.out.as_deref().map_or(Ok(()), console::check_out)?)
}

/// Removes the progress and prints the result.
fn print<T: Serialize>(
    args: &ReproduceArgs,
    progress: &Progress,
    json: impl FnOnce() -> T,
    table: impl FnOnce(u16) -> String,
) -> anyhow::Result<()> {
    if args.json {
        let value = json();
        progress.clear();
        return print_json(&value);
    }
    let text = table(console::width());
    progress.clear();
    print_text(&text)
}

fn write_report(
    args: &ReproduceArgs,
    progress: &Progress,
    report: impl FnOnce(&str) -> Report,
) -> anyhow::Result<()> {
    let path: Option<&Path> = args.out.as_deref();
    if let Some(path) = path {
        report(&command_line()).write(path)?;
        progress.wrote(path);
    }
    Ok(())
}

fn write_markdown(
    args: &ReproduceArgs,
    progress: &Progress,
    page: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    const PAGE: Content = Content { name: "page", example: "page.md" };
    if let Some(path) = &args.markdown {
        whole_file::write(path, PAGE, page().as_bytes())?;
        progress.wrote(path);
    }
    Ok(())
}

fn stream_plan(rate: DataRate, size: DataSize, duration: TimeDelta) -> StreamPlan {
    StreamPlan::constant(Some(rate), size, Limits { duration: Some(duration), ..Limits::default() })
}

/// Measures streams on loopback. The first error ends it, as Ctrl-C does: the runs before it are shown.
struct Meter<'a> {
    stop: &'a AtomicBool,
    progress: Progress,
    failure: Option<anyhow::Error>,
}

impl<'a> Meter<'a> {
    fn new(steps: u64, stop: &'a AtomicBool) -> Self {
        Self { stop, progress: Progress::new(steps), failure: None }
    }

    fn measure(&mut self, plan: &StreamPlan) -> RunResult {
        let result = self.try_measure(plan);
        self.progress.step();
        result.unwrap_or_else(|error| {
            self.failure = Some(error);
            interrupted()
        })
    }

    fn try_measure(&self, plan: &StreamPlan) -> anyhow::Result<RunResult> {
        if self.stopped() {
            return Ok(interrupted());
        }
        let plan = plan.resolve(IpVersion::V4)?;
        let run = loopback_run(&plan, self.stop, &self.progress)?;
        match run.failure() {
            _ if self.stopped() => Ok(interrupted()),
            Some(failure) => anyhow::bail!("{}: {failure}", describe(&plan)),
            None => Ok(run.result(&plan).unwrap_or_default()),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn finish(self) -> anyhow::Result<ExitCode> {
        match self.failure {
            Some(error) if !self.stop.load(Ordering::Relaxed) => Err(error),
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}

/// The result of a run that was not completed.
fn interrupted() -> RunResult {
    RunResult { ended: Some("interrupted".to_owned()), ..RunResult::default() }
}
