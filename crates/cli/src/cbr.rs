//! `giusto cbr`: how constant is the bit rate, on this machine, by which strategy?

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::{Args, ValueEnum};
use giusto_pace::{HeaderLayer, IpVersion, Limits, Strategy};
use giusto_units::{DataSize, TimeDelta};
use serde::Serialize;

use super::{
    args::{PacingArgs, RateOrMax},
    command_line,
    console::{self, Progress, print_json, print_text},
    send::live_line,
};
use giusto::{
    error::UsageError,
    measured::{
        figures, loopback,
        peer::{Iperf3, PeerRun},
        plan::{ResolvedPlan, StreamPlan},
        result::{RunResult, median_of},
    },
    view::{html, table},
};

/// Programs that can be measured beside ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// iperf3, as installed.
    Iperf3,
}

/// Flags of `giusto cbr`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto cbr
  giusto cbr --rate 10k,1M,100M,1G --size 200,1200 --strategy grid,send-sleep --duration 10s
  giusto cbr --rate 1M --size 200 --against iperf3 --out cbr.html
  giusto cbr --rate max --size 1200 --json")]
pub(crate) struct CbrArgs {
    /// Rates, comma-separated; max is as fast as the machine can
    #[arg(long, default_value = "10k,1M,100M,1G", value_name = "RATES", value_delimiter = ',')]
    rate: Vec<RateOrMax>,

    /// UDP payloads, comma-separated
    #[arg(long, default_value = "200,1200", value_name = "SIZES", value_delimiter = ',')]
    size: Vec<DataSize>,

    /// Strategies, comma-separated: grid, send-compare, send-sleep, send-sleep-deficit, dt0, dt1, dt2, dt2-live, at0, at1
    #[arg(long, default_value = "grid", value_name = "NAMES", value_delimiter = ',')]
    strategy: Vec<Strategy>,

    /// How long each run sends
    #[arg(long, default_value = "10s", value_name = "TIME")]
    duration: TimeDelta,

    /// How often each run is repeated; the medians are shown
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,

    /// One second for each run
    #[arg(long)]
    quick: bool,

    /// Which headers the rate counts: payload, udp, ip or ethernet
    #[arg(long, default_value = "payload", value_name = "LAYER")]
    layer: HeaderLayer,

    #[command(flatten)]
    pacing: PacingArgs,

    /// Also run another program, its datagrams stamped by the same kernel and judged by the same meter
    #[arg(long, value_name = "PROGRAM")]
    against: Option<Peer>,

    /// Where that program is, if not on the path
    #[arg(long, value_name = "FILE", requires = "against")]
    against_path: Option<PathBuf>,

    /// Write an HTML report to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Runs<'a> {
    runs: &'a [RunResult],
    interrupted: bool,
}

pub(crate) fn run(args: &CbrArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let duration = if args.quick { TimeDelta::from_seconds(1) } else { args.duration };
    if duration <= TimeDelta::ZERO {
        return Err(UsageError::new("--duration 0: nothing would be sent; use a time above 0").into());
    }
    if args.against.is_some() && args.layer != HeaderLayer::Payload {
        return Err(UsageError::new(format!(
            "--layer {}: other programs count payload alone: leave out --layer or --against",
            args.layer
        ))
        .into());
    }
    let plans = plans(args, duration)?;
    args.out.as_deref().map(console::check_out).transpose()?;
    let peer = match args.against {
        Some(Peer::Iperf3) => Some(
            Iperf3::find(args.against_path.as_deref()).map_err(|error| UsageError::new(error.to_string()))?,
        ),
        None => None,
    };

    let subjects = args.strategy.len() + usize::from(peer.is_some());
    let steps = args.rate.len() * args.size.len() * subjects * args.repeat as usize;
    let progress = Progress::new(steps as u64);
    let mut runs = Vec::new();
    let outcome = measure(&plans, peer.as_ref(), args, duration, (stop, &progress), &mut runs);
    progress.clear();

    let interrupted = stop.load(Ordering::Relaxed);
    if args.json {
        print_json(&Runs { runs: &runs, interrupted })?;
    } else {
        print_text(&table::runs(&runs, console::width()))?;
    }
    if let Some(path) = &args.out {
        html::accuracy(&runs, &command_line()).write(path)?;
        progress.note(&format!("wrote {}", path.display()));
    }
    // Last, for what was measured before is shown all the same.
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Runs every plan as often as asked for, and the peer between our own runs of the same rate and size, so that both meet the
/// same machine. The medians go to `runs`, also those from before an error.
fn measure(
    plans: &[ResolvedPlan],
    peer: Option<&Iperf3>,
    args: &CbrArgs,
    duration: TimeDelta,
    (stop, progress): (&AtomicBool, &Progress),
    runs: &mut Vec<RunResult>,
) -> anyhow::Result<()> {
    for (index, plan) in plans.iter().enumerate() {
        let peer = peer.filter(|_| (index + 1) % args.strategy.len() == 0);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut outcome = Ok(());
        for _ in 0..args.repeat {
            if stop.load(Ordering::Relaxed) || outcome.is_err() {
                break;
            }
            outcome = measure_once(plan, peer, duration, (stop, progress), (&mut ours, &mut theirs));
        }
        runs.extend([ours, theirs].iter().filter(|runs| !runs.is_empty()).map(|runs| median_of(runs)));
        if !stop.load(Ordering::Relaxed) {
            outcome?;
        }
    }
    Ok(())
}

fn measure_once(
    plan: &ResolvedPlan,
    peer: Option<&Iperf3>,
    duration: TimeDelta,
    (stop, progress): (&AtomicBool, &Progress),
    (ours, theirs): (&mut Vec<RunResult>, &mut Vec<RunResult>),
) -> anyhow::Result<()> {
    let what = format!("{} at {}, {}", plan.plan().pacing.strategy, rate_text(plan), plan.size());
    let run = loopback::run(plan, stop, |live| progress.say(format!("{what}: {}", live_line(live))))?;
    progress.step();
    if let Some(trouble) = run.trouble() {
        // Part of a run is no run: it is shown where there is nothing else, and enters no median.
        if ours.is_empty() {
            ours.extend(run.result(plan));
        }
        anyhow::bail!("{what}: {trouble}");
    }
    ours.extend(run.result(plan));
    if let Some(peer) = peer.filter(|_| !stop.load(Ordering::Relaxed)) {
        let what = format!("{} at {}, {}", peer.name(), rate_text(plan), plan.size());
        let run = PeerRun { rate: plan.rate(), size: plan.size(), duration };
        let measured = peer.measure(&run, stop, |line| progress.say(format!("{what}: {line}")))?;
        theirs.push(figures::peer_stream(plan, &measured));
        progress.step();
    }
    Ok(())
}

/// Every rate with every size with every strategy, in this order.
fn plans(args: &CbrArgs, duration: TimeDelta) -> Result<Vec<ResolvedPlan>, UsageError> {
    let mut plans = Vec::new();
    for rate in &args.rate {
        for size in &args.size {
            for strategy in &args.strategy {
                let limits = Limits { duration: Some(duration), ..Limits::default() };
                let mut plan = StreamPlan::constant(rate.0, *size, limits);
                plan.layer = args.layer;
                plan.pacing = args.pacing.pacing(*strategy);
                plans.push(plan.resolve(IpVersion::V4)?);
            }
        }
    }
    Ok(plans)
}

fn rate_text(plan: &ResolvedPlan) -> String {
    plan.rate().map_or_else(|| "full speed".to_owned(), |rate| rate.to_string())
}
