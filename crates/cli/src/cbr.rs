//! `giusto cbr`: the accuracy of constant-bit-rate streams on this machine, by strategy.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::Args;
use giusto_net::Clock;
use giusto_pace::{HeaderLayer, IpVersion, Limits, Strategy};
use giusto_units::{DataSize, TimeDelta};
use serde_json::json;

use crate::{
    args::{PacingArgs, RateOrMax, quantity, time_above_zero, whole},
    client::live_line,
    command_line,
    console::{self, Progress, TableArgs, print_text},
    live::{Awaits, LiveArgs, LivePage},
    output::{FormArgs, Output, TextArgs},
    usage::{UsageError, misuse},
};
use giusto::{
    measured::{
        live::Live,
        loopback::{self, LoopbackRun},
        median::median_of,
        peer::{Iperf3, PeerRun},
        plan::{ResolvedPlan, StreamPlan},
        recv::{self, Shown},
        result::RunResult,
    },
    view::{format::asked_rate, html, table},
    whole_file::Content,
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto cbr
  giusto cbr --rate 10k,1M,100M --size 200,1200 --strategy grid,send-sleep
  giusto cbr --rate 1M --size 200 --against iperf3 --out cbr.html
  giusto cbr --rate max --size 1200 --json
  giusto cbr --rate 1M,10M -t 60 --live")]
pub(crate) struct CbrArgs {
    /// Rates, comma-separated; max: as fast as the machine can
    #[arg(short = 'b', long, default_value = "10k,1M,100M,1G", value_name = "RATES", value_delimiter = ',')]
    rate: Vec<RateOrMax>,

    /// UDP payloads, comma-separated
    #[arg(short = 'l', long, default_value = "200,1200", value_name = "SIZES", value_parser = quantity::<DataSize>, value_delimiter = ',')]
    size: Vec<DataSize>,

    /// Strategies, comma-separated: grid, send-compare, send-sleep, send-sleep-deficit, send-sleep-oversleep, unpaced, or a
    /// traffic shaper of TR-99-77: dt0, dt1, dt2, dt2-live, at0, at1
    #[arg(long, default_value = "grid", value_name = "NAMES", value_delimiter = ',')]
    strategy: Vec<Strategy>,

    /// Time to send, for each run
    #[arg(short = 't', long, default_value = "10s", value_name = "TIME", value_parser = time_above_zero)]
    duration: TimeDelta,

    /// Number of runs for each line of the table, which shows their median
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole::<u32>(1, 100))]
    repeat: u32,

    /// Send for one second in each run
    #[arg(long)]
    quick: bool,

    /// Headers that the rate includes: payload, udp, ip or ethernet
    #[arg(long, default_value = "payload", value_name = "LAYER")]
    layer: HeaderLayer,

    #[command(flatten)]
    pacing: PacingArgs,

    /// Forbid fragments: a datagram that exceeds the MTU of the path ends the run with an error
    #[arg(long)]
    dont_fragment: bool,

    /// Also measure another program, by the same kernel timestamps and the same meter
    #[arg(long, value_name = "PROGRAM", value_parser = ["iperf3"])]
    against: Option<String>,

    /// Path of that program [default: found in PATH]
    #[arg(long, value_name = "FILE", requires = "against")]
    against_path: Option<PathBuf>,

    /// Write an HTML report to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    live: LiveArgs,

    #[command(flatten)]
    form: FormArgs,

    #[command(flatten)]
    tables: TableArgs,
}

pub(crate) fn run(
    args: &CbrArgs,
    stop: &AtomicBool,
    page: &mut Option<LivePage>,
) -> anyhow::Result<ExitCode> {
    let duration = if args.quick { TimeDelta::from_seconds(1) } else { args.duration };
    if args.against.is_some() && args.layer != HeaderLayer::Payload {
        misuse!("--layer: must be payload with --against, found {}", args.layer);
    }
    args.pacing.check(&args.strategy, args.rate.iter().any(|RateOrMax(rate)| rate.is_some()))?;
    let plans = plans(args, duration)?;
    args.out.as_deref().map(|out| console::check_file("--out", out, Content::REPORT)).transpose()?;
    let peer = args.against.as_ref().map(|_| Iperf3::find(args.against_path.as_deref())).transpose();
    let peer = peer.map_err(UsageError::new)?;

    let mut feed = args.live.start("giusto cbr", Awaits::Others("streams"), page)?;
    let clock = Clock::start();
    let mut number = 0;
    let (repeats, strategies) = (args.repeat as usize, args.strategy.len());
    let peers = peer.as_ref().map_or(0, |_| plans.len() / strategies);
    let progress = Progress::new(((plans.len() + peers) * repeats) as u64);
    let stopped = || stop.load(Ordering::Relaxed);
    let mut measure = |plan: &ResolvedPlan, peer: Option<&Iperf3>, lines: &mut [Vec<RunResult>; 2]| {
        let [ours, theirs] = lines;
        number += 1;
        let (name, shown) = (describe(plan), format!("{number}: {}", describe(plan)));
        let on_live = |live: &Live| progress.say(format!("{name}: {}", live_line(live)));
        let run = loopback::run_watched(plan, stop, on_live, |now, receiver, event| {
            if let Some(feed) = &mut feed {
                let shown = Shown { at: clock.now(), run: number, name: Some(&shown) };
                recv::watch(feed, shown, now, receiver, event);
            }
        })?;
        progress.step();
        let failure = run.failure();
        // A part of a run is shown where there is nothing else, but enters no median.
        if failure.is_none() || ours.is_empty() {
            ours.extend(run.result(plan));
        }
        if let Some(failure) = failure {
            anyhow::bail!("{}: {failure}", describe(plan));
        }
        if let Some(peer) = peer.filter(|_| !stopped()) {
            let run = PeerRun { rate: plan.rate(), size: plan.size(), duration };
            let measured = peer.measure(&run, stop, |live| {
                progress.say(format!("{}: {}", peer.name(), console::live_line(live)));
            })?;
            theirs.push(measured.result(plan));
            progress.step();
        }
        Ok(())
    };
    let (mut runs, mut outcome) = (Vec::new(), Ok(()));
    for (index, plan) in plans.iter().enumerate() {
        // The peer follows our last strategy at each rate and size.
        let peer = peer.as_ref().filter(|_| (index + 1) % strategies == 0);
        let mut lines = [Vec::new(), Vec::new()];
        for _ in 0..repeats {
            if outcome.is_ok() && !stopped() {
                outcome = measure(plan, peer, &mut lines);
            }
        }
        runs.extend(lines.iter().filter(|runs| !runs.is_empty()).map(|runs| median_of(runs)));
    }
    TextArgs::default().trim(&mut runs);
    progress.clear();
    if let Some(feed) = &mut feed {
        feed.finish(clock.now());
    }
    LivePage::keep_result(page, (!runs.is_empty()).then(|| html::accuracy(&runs, &command_line())));

    // One of both that fails costs the other nothing.
    let write = |path| html::accuracy(&runs, &command_line()).write(path).map(|()| path);
    let written = args.out.as_deref().map(write).transpose();
    let mut output = Output::of_form(&args.form, TextArgs::default());
    console::print_doubts(&runs, output.is_data())?;
    if output.is_one_object() {
        output.object(&json!({ "runs": runs, "interrupted": stopped() }))?;
    } else if output.is_data() {
        output.results(None, &runs)?;
    } else {
        print_text(&table::runs(&runs, args.tables.width()))?;
        if stopped() {
            print_text(&console::interrupted(runs.len(), plans.len() + peers))?;
        }
    }
    if let Some(path) = written? {
        progress.wrote(path);
    }
    // An error comes last: the runs before it have been printed.
    if !stopped() {
        outcome?;
    }
    Ok(console::measured(&runs))
}

/// Runs a plan on loopback and shows its live figures.
pub(crate) fn loopback_run(
    plan: &ResolvedPlan,
    stop: &AtomicBool,
    progress: &Progress,
) -> anyhow::Result<LoopbackRun> {
    let name = describe(plan);
    Ok(loopback::run(plan, stop, |live| progress.say(format!("{name}: {}", live_line(live))))?)
}

/// The name of a plan: `grid at 1 Mbit/s, 200 B`.
pub(crate) fn describe(plan: &ResolvedPlan) -> String {
    let rate = asked_rate(plan.rate().map(giusto_units::DataRate::as_bps));
    format!("{} at {rate}, {}", plan.plan().pacing.strategy, plan.size())
}

/// Every rate with every size with every strategy, in this order.
fn plans(args: &CbrArgs, duration: TimeDelta) -> Result<Vec<ResolvedPlan>, UsageError> {
    let mut plans = Vec::new();
    for rate in &args.rate {
        for size in &args.size {
            for strategy in &args.strategy {
                let limits = Limits::default().with_duration(duration);
                let mut plan = StreamPlan::constant(rate.0, *size, limits);
                plan.layer = args.layer;
                plan.dont_fragment = args.dont_fragment;
                plan.pacing = args.pacing.pacing(*strategy);
                plans.push(plan.resolve(IpVersion::V4)?);
            }
        }
    }
    Ok(plans)
}
