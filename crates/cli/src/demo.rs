//! `giusto demo`: paced streams on loopback and one HTML report, without configuration.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::Args;
use giusto_pace::{IpVersion, Limits, Strategy};
use giusto_units::{DataRate, DataSize, TimeDelta};
use serde_json::json;

use crate::{
    cbr::{describe, loopback_run},
    command_line,
    console::{self, Progress, print_json, print_text},
};
use giusto::{
    measured::{plan::StreamPlan, result::RunResult},
    view::{html, table},
    whole_file::Content,
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto demo
  giusto demo --quick --out demo.html")]
pub(crate) struct DemoArgs {
    /// File of the HTML report
    #[arg(long, default_value = "giusto-demo.html", value_name = "FILE")]
    out: PathBuf,

    /// Send for one second in each run
    #[arg(long)]
    quick: bool,

    /// Print one JSON object
    #[arg(short = 'J', long)]
    json: bool,
}

/// Rate in bit/s, payload in bytes, strategy, and seconds to send. The page is about the first: a thousand datagrams a second,
/// as in a game or a video call. The others are lines of its table.
const RUNS: [(u64, u64, Strategy, i64); 7] = [
    (9_600_000, 1200, Strategy::Grid, 10),
    (10_000, 200, Strategy::Grid, 4),
    (1_000_000, 200, Strategy::Grid, 4),
    (1_000_000, 200, Strategy::SendSleep, 4),
    (1_000_000, 200, Strategy::SendCompare, 4),
    (100_000_000, 1200, Strategy::Grid, 4),
    (1_000_000_000, 1200, Strategy::Grid, 4),
];

pub(crate) fn run(args: &DemoArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    console::check_file("--out", &args.out, Content::REPORT)?;
    let progress = Progress::new(RUNS.len() as u64);
    let measure = |(rate, size, strategy, seconds): (u64, u64, Strategy, i64)| {
        let duration = TimeDelta::from_seconds(if args.quick { 1 } else { seconds });
        let limits = Limits { duration: Some(duration), ..Limits::default() };
        let (rate, size) = (DataRate::from_bps(rate), DataSize::from_bytes(size));
        let mut plan = StreamPlan::constant(Some(rate), size, limits);
        plan.pacing.strategy = strategy;
        let plan = plan.resolve(IpVersion::V4)?;
        let run = loopback_run(&plan, stop, &progress)?;
        progress.step();
        match run.failure() {
            Some(failure) => anyhow::bail!("{}: {failure}", describe(&plan)),
            None => Ok((run.result(&plan).unwrap_or_default(), run.plots())),
        }
    };
    let (mut measured, mut outcome) = (Vec::new(), Ok(()));
    for row in RUNS {
        if outcome.is_ok() && !stop.load(Ordering::Relaxed) {
            outcome = measure(row).map(|run| measured.push(run));
        }
    }
    progress.clear();
    if measured.is_empty() {
        return outcome.map(|()| ExitCode::SUCCESS);
    }

    let results: Vec<RunResult> = measured.iter().map(|(result, _)| result.clone()).collect();
    let (run, plots) = measured.remove(0);
    let report = html::demo(&html::Demo { run, plots, others: measured, command: command_line() });
    console::print_doubts(&results, args.json)?;
    if args.json {
        print_json(&json!({ "runs": results, "report": args.out }))?;
    } else {
        print_text(&format!("{}\n", report.headline))?;
        print_text(&table::runs(&results, console::width()))?;
        if stop.load(Ordering::Relaxed) {
            print_text(&console::interrupted(results.len(), RUNS.len()))?;
        }
    }
    // The file comes last: the figures have been printed even where it cannot be written.
    report.write(&args.out)?;
    if !args.json {
        print_text(&format!("\nreport with charts: {}", args.out.display()))?;
    }
    if !stop.load(Ordering::Relaxed) {
        outcome?;
    }
    Ok(console::measured(&results))
}
