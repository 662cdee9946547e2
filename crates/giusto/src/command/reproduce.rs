//! `giusto reproduce`: published results beside ours.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::{Args, ValueEnum};
use giusto_core::pace::{IpVersion, Limits, Strategy};

use super::{
    command_line,
    console::{self, Progress, print_json, print_text},
    send::live_line,
};
use crate::{
    loopback,
    plan::StreamPlan,
    reproduce::firebind::{self, RowConfig},
    result::RunResult,
};

/// What can be reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Publication {
    /// Both tables of the Firebind constant-bit-rate transmitter.
    Firebind,
}

/// Flags of `giusto reproduce`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto reproduce firebind --quick
  giusto reproduce firebind --out firebind.html")]
pub(super) struct ReproduceArgs {
    /// What to reproduce
    #[arg(value_name = "NAME")]
    name: Publication,

    /// Shorter runs, once each: half a minute instead of six
    #[arg(long)]
    quick: bool,

    /// Write an HTML report to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    match args.name {
        Publication::Firebind => firebind(args, stop),
    }
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
            RunResult { ended: Some("interrupted".to_owned()), ..RunResult::default() }
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
    match trouble {
        Some(error) if !stop.load(Ordering::Relaxed) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// One published row, over loopback: their loop with their datagrams per cycle, waiting as their program waits.
fn measure(config: &RowConfig, stop: &AtomicBool, progress: &Progress) -> anyhow::Result<RunResult> {
    let RowConfig { row, duration, spin, .. } = config;
    if stop.load(Ordering::Relaxed) {
        return Ok(RunResult { ended: Some("interrupted".to_owned()), ..RunResult::default() });
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
