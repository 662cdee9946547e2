//! `giusto reproduce`: published results beside ours.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::{Args, ValueEnum};
use giusto_congestion::ControllerKind;
use giusto_pace::{IpVersion, Limits, Strategy};

use super::{
    command_line,
    console::{self, Progress, print_json, print_text},
    send::live_line,
    sim::make_folder,
};
use giusto::{
    measured::{loopback, plan::StreamPlan, result::RunResult},
    whole_file::{self, Content},
};
use giusto_experiments::{
    firebind::{self, RowConfig},
    rfc8867, rrtcc, shaper,
};

/// What can be reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Publication {
    /// Both tables of the Firebind constant-bit-rate transmitter.
    Firebind,
    /// The test cases of RFC 8867: a scoreboard over all congestion controllers.
    Rfc8867,
    /// The traffic shapers of Sun Labs' TR-99-77: figures 4 to 14.
    Shaper,
    /// A thesis's simulation of receiver-side congestion control: figures 16 to 20, and a queue.
    Rrtcc,
}

/// Flags of `giusto reproduce`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto reproduce firebind --quick
  giusto reproduce firebind --out firebind.html
  giusto reproduce shaper --quick --out shaper.html
  giusto reproduce rrtcc --out rrtcc.html
  giusto reproduce rrtcc --markdown docs/reproduce/rrtcc.md
  giusto reproduce rfc8867 --controller gcc:libwebrtc --out scoreboard")]
pub(crate) struct ReproduceArgs {
    /// What to reproduce
    #[arg(value_name = "NAME")]
    name: Publication,

    /// Shorter and fewer runs: firebind takes half a minute instead of six, shaper ten seconds instead of sixty, rrtcc has 60 seeds instead of 400, rfc8867 has three cases and one seed of each kind
    #[arg(long)]
    quick: bool,

    /// Of rfc8867: the congestion controllers, comma-separated; by default all there are
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    controller: Vec<ControllerKind>,

    /// Write an HTML report to this file; of rfc8867, report.html and result.json to this folder
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write the page of the documentation to this file, in Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

impl ReproduceArgs {
    fn write_markdown(&self, progress: &Progress, page: impl FnOnce() -> String) -> anyhow::Result<()> {
        if let Some(path) = &self.markdown {
            const PAGE: Content = Content { name: "page", example: "page.md" };
            whole_file::write(path, PAGE, page().as_bytes())?;
            progress.note(&format!("wrote {}", path.display()));
        }
        Ok(())
    }
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
    progress.clear();
    if args.json {
        print_json(&board.printed())?;
    } else {
        print_text(&board.table())?;
    }
    if let Some(folder) = &args.out {
        let path = folder.join("result.json");
        whole_file::write(&path, Content::RESULT, &serde_json::to_vec_pretty(&board.printed())?)?;
        progress.note(&format!("wrote {}", path.display()));
        let path = folder.join("report.html");
        board.report(&command_line()).write(&path)?;
        progress.note(&format!("wrote {}", path.display()));
    }
    args.write_markdown(&progress, || board.markdown())?;
    Ok(ExitCode::SUCCESS)
}

fn firebind(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    args.out.as_deref().map(console::check_out).transpose()?;
    let plan = if args.quick { firebind::Plan::QUICK } else { firebind::Plan::FULL };
    let progress = Progress::new(firebind::PUBLISHED.len() as u64 * u64::from(plan.repeats));
    let mut trouble = None;
    let outcome = firebind::run(plan, |row| {
        let result = measure(row, stop, &progress);
        progress.step();
        // An error ends the reproduction as Ctrl-C does: what was measured before is shown.
        Ok(result.unwrap_or_else(|error| {
            trouble = Some(error);
            interrupted()
        }))
    })?;
    progress.clear();
    if args.json {
        print_json(&outcome.reproduction())?;
    } else {
        print_text(&outcome.table(console::width()))?;
    }
    if let Some(path) = &args.out {
        outcome.report(&command_line()).write(path)?;
        progress.note(&format!("wrote {}", path.display()));
    }
    args.write_markdown(&progress, || outcome.markdown())?;
    match trouble {
        Some(error) if !stop.load(Ordering::Relaxed) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn shaper(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    args.out.as_deref().map(console::check_out).transpose()?;
    let plan = if args.quick { shaper::Plan::QUICK } else { shaper::Plan::FULL };
    let progress = Progress::new(plan.runs() as u64);
    let mut trouble = None;
    let outcome = shaper::run(plan, |config| {
        let result = measure_on_own_clock(config, stop, &progress);
        progress.step();
        // An error ends the measuring as Ctrl-C does: what is virtual is shown in any case.
        Ok(result.unwrap_or_else(|error| {
            trouble = Some(error);
            interrupted()
        }))
    })?;
    progress.say("figures");
    if args.json {
        progress.clear();
        print_json(&outcome.reproduction())?;
    } else {
        let table = outcome.table(console::width());
        progress.clear();
        print_text(&table)?;
    }
    if let Some(path) = &args.out {
        outcome.report(&command_line()).write(path)?;
        progress.note(&format!("wrote {}", path.display()));
    }
    args.write_markdown(&progress, || outcome.markdown())?;
    match trouble {
        Some(error) if !stop.load(Ordering::Relaxed) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// All in virtual time. Ctrl-C ends it early: what was run before is judged.
fn rrtcc(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    args.out.as_deref().map(console::check_out).transpose()?;
    let plan = if args.quick { rrtcc::Plan::QUICK } else { rrtcc::Plan::FULL };
    let progress = Progress::new(plan.steps());
    let outcome = rrtcc::run(plan, |what| {
        progress.say(what);
        progress.step();
        !stop.load(Ordering::Relaxed)
    });
    progress.clear();
    if args.json {
        print_json(&outcome.reproduction())?;
    } else {
        print_text(&outcome.table(console::width()))?;
    }
    if let Some(path) = &args.out {
        outcome.report(&command_line()).write(path)?;
        progress.note(&format!("wrote {}", path.display()));
    }
    args.write_markdown(&progress, || outcome.markdown())?;
    Ok(ExitCode::SUCCESS)
}

/// One algorithm over loopback, with real sleeps and one datagram per cycle.
fn measure_on_own_clock(
    config: &shaper::RunConfig,
    stop: &AtomicBool,
    progress: &Progress,
) -> anyhow::Result<RunResult> {
    if stop.load(Ordering::Relaxed) {
        return Ok(interrupted());
    }
    let limits = Limits { duration: Some(config.duration), ..Limits::default() };
    let mut plan = StreamPlan::constant(Some(config.rate), config.size, limits);
    plan.pacing.strategy = config.strategy;
    plan.pacing.packets_per_cycle = Some(1);
    let plan = plan.resolve(IpVersion::V4)?;
    let what = format!("{} at {}, {}", config.strategy, config.rate, config.size);
    let run = loopback::run(&plan, stop, |live| progress.say(format!("{what}: {}", live_line(live))))?;
    match run.trouble() {
        _ if stop.load(Ordering::Relaxed) => Ok(interrupted()),
        Some(trouble) => anyhow::bail!("{what}: {trouble}"),
        None => Ok(run.result(&plan).unwrap_or_default()),
    }
}

/// What stands for a run that was not made, or not to its end.
fn interrupted() -> RunResult {
    RunResult { ended: Some("interrupted".to_owned()), ..RunResult::default() }
}

/// One published row, over loopback: their loop with their datagrams per cycle, waiting as their program waits.
fn measure(config: &RowConfig, stop: &AtomicBool, progress: &Progress) -> anyhow::Result<RunResult> {
    let RowConfig { row, duration, spin, .. } = config;
    if stop.load(Ordering::Relaxed) {
        return Ok(interrupted());
    }
    let limits = Limits { duration: Some(*duration), ..Limits::default() };
    let mut plan = StreamPlan::constant(Some(row.rate), row.size, limits);
    plan.pacing.strategy = match row.strategy {
        firebind::Strategy::SendSleep => Strategy::SendSleep,
        firebind::Strategy::SendCompare => Strategy::SendCompare,
    };
    plan.pacing.packets_per_cycle = Some(row.packets_per_cycle);
    plan.pacing.spin = *spin;
    let plan = plan.resolve(IpVersion::V4)?;
    let what = format!("{} at {}, {}", plan.plan().pacing.strategy, row.rate, row.size);
    let run = loopback::run(&plan, stop, |live| progress.say(format!("{what}: {}", live_line(live))))?;
    match run.trouble() {
        Some(trouble) => anyhow::bail!("{what}: {trouble}"),
        None => Ok(run.result(&plan).unwrap_or_default()),
    }
}
