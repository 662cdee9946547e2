//! `giusto demo`: paced streams and calls on loopback and one HTML report, without configuration.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, ScopedJoinHandle},
};

use anyhow::Context as _;
use clap::Args;
use giusto_pace::{IpVersion, Limits, Strategy};
use giusto_units::{DataRate, DataSize, TimeDelta};
use serde_json::json;

use crate::{
    cbr::{describe, loopback_run},
    command_line,
    compare::side_by_side,
    console::{self, Progress, TableArgs, print_json, print_text},
};
use giusto::{
    measured::{plan::StreamPlan, result::RunResult},
    record::TimelineOptions,
    run::{
        RecordOptions,
        comparison::{self, Comparison, Controllers},
    },
    scenario::Document,
    view::{
        comparison::{doubts, parity_text},
        html, table,
    },
    whole_file::Content,
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto demo
  giusto demo --quick --out demo.html

It sends paced streams on loopback. It then makes calls with two congestion controllers across an emulated link, \
whose rate falls from 3 to 1 Mbit/s and rises again, and compares them with their simulation. It needs no privileges.")]
pub(crate) struct DemoArgs {
    /// File of the HTML report
    #[arg(long, default_value = "giusto-demo.html", value_name = "FILE")]
    out: PathBuf,

    /// Send for one second in each run, and call for six
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    tables: TableArgs,

    /// Print one JSON object
    #[arg(short = 'J', long)]
    json: bool,
}

/// Rate in bit/s, payload in bytes, strategy, and seconds to send.
type Row = (u64, u64, Strategy, i64);

/// One after the other. The page is about the first: a thousand datagrams a second, as in a game or a video call. The others
/// are lines of its table.
const RUNS: [Row; 6] = [
    (9_600_000, 1200, Strategy::Grid, 2),
    (1_000_000, 200, Strategy::Grid, 1),
    (1_000_000, 200, Strategy::SendSleep, 1),
    (1_000_000, 200, Strategy::SendCompare, 1),
    (100_000_000, 1200, Strategy::Grid, 1),
    (1_000_000_000, 1200, Strategy::Grid, 1),
];

/// Beside the calls: six datagrams a second, which disturb nothing, but whose rate is exact only after a while.
const BESIDE: Row = (10_000, 200, Strategy::Grid, 8);

/// Random seed of the calls.
const SEED: u64 = 1;

/// The link and the media of the calls. {first}, {second} and {end} are times in seconds.
const CALLS: &str = r#"
name = "demo"
description = "Video of at most 4 Mbit/s across a link that drops from 3 to 1 Mbit/s and back, 25 ms each way"
duration = "{end} s"

[[link]]
id = "link"
from = "caller"
to = "listener"
rate = { steps = [["0 s", "3 Mbit/s"], ["{first} s", "1 Mbit/s"], ["{second} s", "3 Mbit/s"]] }
delay = "25 ms"
queue = { kind = "drop-tail", limit = "300 ms" }
reverse = { rate = "unlimited", delay = "25 ms" }

[[flow]]
id = "call"
kind = "media"
from = "caller"
to = "listener"
start-rate = "1 Mbit/s"
video = { model = "perfect", min = "150 kbit/s", max = "4 Mbit/s" }
"#;

/// The controllers of the calls.
const CONTROLLERS: &str = "gcc:libwebrtc+giusto,scream:v2";

/// A line for the reader who waits.
fn in_short(name: &str, result: &RunResult) -> String {
    let [received, lost] = [result.received_packets, result.lost_packets].map(Option::unwrap_or_default);
    let gap = result.gap_error_us.p99.map_or_else(String::new, |gap| format!(", gap error p99 {gap:.0} µs"));
    format!("{name}: {received} received, {lost} lost{gap}")
}

/// Holds the calls in simulation and in real time.
fn calls(quick: bool, stop: &AtomicBool, progress: &Progress) -> anyhow::Result<Comparison> {
    let times = if quick { [2, 4, 6] } else { [3, 5, 8] };
    let named = ["{first}", "{second}", "{end}"].into_iter().zip(times);
    let text = named.fold(CALLS.to_owned(), |text, (name, time)| text.replace(name, &time.to_string()));
    let controllers: Controllers = CONTROLLERS.parse().map_err(anyhow::Error::msg)?;
    let contenders = comparison::contenders(&Document::parse(&text, "demo.toml")?, &[], &controllers, None)?;
    let options = RecordOptions::with_timeline(TimelineOptions::default());
    side_by_side(&contenders, SEED, options, true, stop, progress)
}

pub(crate) fn run(args: &DemoArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    console::check_file("--out", &args.out, Content::REPORT)?;
    // Of the calls, both are simulated and held.
    let streams = RUNS.len() + 1;
    let progress = Progress::new(streams as u64 + 4);
    let measure = |(rate, size, strategy, seconds): Row| {
        let duration = TimeDelta::from_seconds(if args.quick { 1 } else { seconds });
        let limits = Limits::default().with_duration(duration);
        let (rate, size) = (DataRate::from_bps(rate), DataSize::from_bytes(size));
        let mut plan = StreamPlan::constant(Some(rate), size, limits);
        plan.pacing.strategy = strategy;
        let plan = plan.resolve(IpVersion::V4)?;
        let run = loopback_run(&plan, stop, &progress)?;
        progress.step();
        if let Some(failure) = run.failure() {
            anyhow::bail!("{}: {failure}", describe(&plan));
        }
        let result = run.result(&plan).unwrap_or_default();
        progress.note(&in_short(&describe(&plan), &result));
        Ok((result, run.plots()))
    };
    let (mut measured, mut outcome) = (Vec::new(), Ok(()));
    for row in RUNS {
        if outcome.is_ok() && !stop.load(Ordering::Relaxed) {
            outcome = measure(row).map(|run| measured.push(run));
        }
    }
    if measured.is_empty() {
        progress.clear();
        return outcome.map(|()| ExitCode::SUCCESS);
    }
    let mut held = Comparison::default();
    if outcome.is_ok() && !stop.load(Ordering::Relaxed) {
        let (stream, calls) = thread::scope(|scope| {
            let stream = thread::Builder::new().spawn_scoped(scope, || measure(BESIDE));
            let calls = calls(args.quick, stop, &progress);
            (stream.map(ScopedJoinHandle::join), calls)
        });
        let stream = stream.context("the stream beside the calls").and_then(|stream| {
            stream.map_err(|_| anyhow::anyhow!("the stream beside the calls ended in a panic"))
        });
        outcome = stream.flatten().map(|run| measured.push(run));
        outcome = calls.map(|calls| held = calls).and(outcome);
    }
    progress.clear();

    let results: Vec<RunResult> = measured.iter().map(|(result, _)| result.clone()).collect();
    let (run, plots) = measured.remove(0);
    let page = html::Demo { run, plots, others: measured, calls: held, command: command_line() };
    let report = html::demo(&page);
    let mut calls = page.calls;
    calls.runs.iter_mut().for_each(|run| run.result.timeline = None);
    // One of both that fails costs the other nothing.
    let written = report.write(&args.out);
    console::print_doubts(&results, args.json)?;
    if args.json {
        print_json(&json!({ "runs": results, "calls": calls, "report": args.out }))?;
    } else {
        for doubt in doubts(&calls) {
            print_text(&format!("warning: {doubt}\n"))?;
        }
        print_text(&format!("{}\n", report.headline))?;
        print_text(&table::runs(&results, args.tables.width()))?;
        if !calls.parity.is_empty() {
            print_text(&format!("\n{}", parity_text(&calls, args.tables.width())))?;
        }
        if stop.load(Ordering::Relaxed) {
            print_text(&console::interrupted(results.len(), streams))?;
        }
    }
    written?;
    if !args.json {
        print_text(&format!("\nreport with charts: {}", args.out.display()))?;
    }
    if !stop.load(Ordering::Relaxed) {
        outcome?;
    }
    let is_doubtful = results.iter().any(|run| !run.doubts.is_empty())
        || calls.runs.iter().any(|run| !run.doubts().is_empty());
    Ok(console::status(is_doubtful))
}
