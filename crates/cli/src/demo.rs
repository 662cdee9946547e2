//! `giusto demo`: the main job in under a minute, nothing to configure.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::Args;
use giusto_pace::{IpVersion, Limits, Strategy};
use giusto_units::{DataRate, DataSize, TimeDelta};
use serde::Serialize;

use super::{
    command_line,
    console::{self, Progress, print_json, print_text},
    send::live_line,
};
use giusto::{
    measured::{
        loopback,
        plan::{ResolvedPlan, StreamPlan},
        result::RunResult,
    },
    view::{html, table},
};

/// Flags of `giusto demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The report's file
    #[arg(long, default_value = "giusto-demo.html", value_name = "FILE")]
    out: PathBuf,

    /// A few seconds only
    #[arg(long)]
    quick: bool,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Runs {
    runs: Vec<RunResult>,
    report: PathBuf,
}

/// The stream that the demo looks at closely: a thousand datagrams a second, as a game or a call with video sends.
const MAIN: (DataRate, DataSize) = (DataRate::from_bps(9_600_000), DataSize::from_bytes(1200));

/// The rows of the accuracy table.
const ROWS: [(u64, u64, Strategy); 6] = [
    (10_000, 200, Strategy::Grid),
    (1_000_000, 200, Strategy::Grid),
    (1_000_000, 200, Strategy::SendSleep),
    (1_000_000, 200, Strategy::SendCompare),
    (100_000_000, 1200, Strategy::Grid),
    (1_000_000_000, 1200, Strategy::Grid),
];

pub(crate) fn run(args: &DemoArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    console::check_out(&args.out)?;
    let seconds = |full: i64| TimeDelta::from_seconds(if args.quick { 1 } else { full });
    let main = plan((MAIN.0, MAIN.1, Strategy::Grid), seconds(10))?;
    let rows = ROWS.map(|(rate, size, strategy)| {
        plan((DataRate::from_bps(rate), DataSize::from_bytes(size), strategy), seconds(4))
    });

    let progress = Progress::new(1 + ROWS.len() as u64);
    let measure = |plan: &ResolvedPlan| {
        let what = format!("{} at {}", plan.plan().pacing.strategy, plan.rate().unwrap_or_default());
        let run = loopback::run(plan, stop, |live| progress.say(format!("{what}: {}", live_line(live))))?;
        progress.step();
        match run.trouble() {
            Some(trouble) => Err(anyhow::anyhow!("{what}: {trouble}")),
            None => Ok((run.result(plan), run.plots())),
        }
    };
    let (first, plots) = measure(&main)?;
    let mut others = Vec::new();
    let mut outcome = Ok(ExitCode::SUCCESS);
    for row in rows {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match row.and_then(|row| measure(&row)) {
            Ok((result, plots)) => others.extend(result.map(|result| (result, plots))),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    progress.clear();

    let first = first.unwrap_or_default();
    let demo = html::Demo { run: first.clone(), plots, others, command: command_line() };
    let report = html::demo(&demo);
    let results: Vec<_> = std::iter::once(first).chain(demo.others.into_iter().map(|(run, _)| run)).collect();
    if args.json {
        print_json(&Runs { runs: results, report: args.out.clone() })?;
    } else {
        print_text(&format!("{}\n", report.headline))?;
        print_text(&table::runs(&results, console::width()))?;
    }
    // Last, for what was measured is shown even where the file cannot be written.
    report.write(&args.out)?;
    if !args.json {
        print_text(&format!("\nThe report, with charts: {}", args.out.display()))?;
    }
    if stop.load(Ordering::Relaxed) { Ok(ExitCode::SUCCESS) } else { outcome }
}

fn plan(
    (rate, size, strategy): (DataRate, DataSize, Strategy),
    duration: TimeDelta,
) -> anyhow::Result<ResolvedPlan> {
    let limits = Limits { duration: Some(duration), ..Limits::default() };
    let mut plan = StreamPlan::constant(Some(rate), size, limits);
    plan.pacing.strategy = strategy;
    Ok(plan.resolve(IpVersion::V4)?)
}
