//! `giusto lte`: what comes of the radio of a simulated LTE network alone.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use giusto_units::{DataRate, TimeDelta};
use rayon::prelude::*;
use serde::Serialize;

use crate::{
    args::{is_negative, quantity, time_above_zero, whole},
    console::{Progress, TableArgs, print_json, print_text},
    sim::make_folder,
    usage::{UsageError, misuse},
};
use giusto::{
    city::traces::{Direction, MadeTrace, Position, TraceError, TraceFigures, TraceSet},
    view::{self, format::plural},
};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  giusto lte traces --out traces")]
pub(crate) struct LteArgs {
    #[command(subcommand)]
    command: LteCommand,
}

#[derive(Debug, Subcommand)]
enum LteCommand {
    /// Write capacity and delay traces of a user, in Mahimahi's format and as CSV
    Traces(TracesArgs),
}

/// Flags of `giusto lte traces`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto lte traces --out traces
  giusto lte traces --out traces --direction down --speed 3,30 --load 4M --position edge,path --duration 2min

Each trace is a user with a full buffer among 21 cells of 10 MHz. Without --direction, --speed, --load and --position,
a set of twenty is made. README.md in the directory describes the files; their licence is CC0.
A scenario uses them by rate = { mahimahi = \"FILE\" }.")]
struct TracesArgs {
    /// Directory to write the traces to
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Directions, comma-separated [default: down]
    #[arg(long, value_name = "DIRECTION", value_delimiter = ',')]
    direction: Vec<DirectionName>,

    /// Speeds in km/h, comma-separated: 0 to 250 [default: 3]
    #[arg(long, value_name = "KM/H", value_delimiter = ',', value_parser = speed)]
    speed: Vec<f64>,

    /// Loads of each cell by other users, comma-separated: 0 to 12M down, 0 to 5M up [default: 4M down, 2M up]
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = quantity::<DataRate>)]
    load: Vec<DataRate>,

    /// Positions, comma-separated: centre, middle, edge (95th, 50th, 5th percentile of the SINR), path (moves) [default: middle]
    #[arg(long, value_name = "POSITION", value_delimiter = ',')]
    position: Vec<PositionName>,

    /// Length of each trace: 1 s to 600 s
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = time_above_zero)]
    duration: TimeDelta,

    /// Random seed
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole::<u64>(0, u64::MAX))]
    seed: u64,

    #[command(flatten)]
    tables: TableArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DirectionName {
    Down,
    Up,
}

impl DirectionName {
    fn direction(self) -> Direction {
        match self {
            Self::Down => Direction::Downlink,
            Self::Up => Direction::Uplink,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PositionName {
    Centre,
    Middle,
    Edge,
    Path,
}

impl PositionName {
    fn position(self) -> Position {
        match self {
            Self::Centre => Position::Centre,
            Self::Middle => Position::Middle,
            Self::Edge => Position::Edge,
            Self::Path => Position::Path,
        }
    }
}

/// A speed in km/h.
fn speed(text: &str) -> Result<f64, String> {
    if is_negative(text) {
        return Err(format!("must not be negative, found \"{}\"", text.trim()));
    }
    let number = text.trim().trim_end_matches("km/h").trim();
    let parsed = number.parse().ok().filter(|speed: &f64| speed.is_finite());
    parsed.ok_or_else(|| format!("\"{text}\" is not a speed: write km/h, such as 3 or 30"))
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Printed {
    #[serde(serialize_with = "as_text")]
    seed: u64,
    duration_s: f64,
    traces: Vec<TraceFigures>,
    interrupted: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn as_text<S: serde::Serializer>(seed: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(seed)
}

pub(crate) fn run(args: &LteArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let LteCommand::Traces(args) = &args.command;
    traces(args, stop)
}

fn traces(args: &TracesArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let set = set(args);
    set.validate().map_err(|error| UsageError::new(error.to_string()))?;
    let mut names: Vec<String> = set.traces.iter().map(ToString::to_string).collect();
    names.sort_unstable();
    if let Some([name, _]) = names.windows(2).find(|pair| matches!(pair, [one, next] if one == next)) {
        misuse!("{name}: two traces have this name, and one file: give each value once");
    }
    make_folder(&args.out)?;
    let progress = Progress::new(set.traces.len() as u64);
    let make = |&traced| {
        let is_over = || stop.load(Ordering::Relaxed);
        if is_over() {
            return None;
        }
        progress.say(format!("{traced}"));
        let made = set.make_unless(traced, &is_over).map_err(anyhow::Error::from).transpose()?;
        let written = made.and_then(|made| {
            made.write(&args.out)?;
            Ok(made)
        });
        progress.step();
        Some(written)
    };
    let threads = rayon::ThreadPoolBuilder::new().build().context("cannot start threads")?;
    let made: Vec<Option<anyhow::Result<MadeTrace>>> =
        threads.install(|| set.traces.par_iter().map(make).collect());
    let made: Vec<MadeTrace> = made.into_iter().flatten().collect::<Result<_, _>>().map_err(unusable)?;
    let interrupted = made.len() < set.traces.len();
    set.write_readme(&args.out, &made)?;
    progress.clear();
    let figures: Vec<TraceFigures> = made.iter().map(MadeTrace::figures).collect();
    if args.json {
        let (seed, duration_s) = (set.seed, set.duration.as_seconds());
        print_json(&Printed { seed, duration_s, traces: figures, interrupted })?;
    } else {
        print_text(&view::lte::traces(&figures, args.tables.width()))?;
    }
    let (done, planned) = (made.len(), set.traces.len());
    let traces = plural(done as u64, "trace", "traces");
    progress.note(&format!("wrote {traces} and README.md to {}", args.out.display()));
    if interrupted {
        progress.note(&format!("interrupted: {done} of {planned} traces"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A trace without a packet is a matter of the flags.
fn unusable(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<TraceError>() {
        Ok(error) => UsageError::new(error.to_string()).into(),
        Err(error) => error,
    }
}

/// The traces that the flags ask for.
fn set(args: &TracesArgs) -> TraceSet {
    let TracesArgs { direction, speed, load, position, duration, seed, .. } = args;
    let asked = [direction.is_empty(), speed.is_empty(), load.is_empty(), position.is_empty()];
    if asked.iter().all(|is_empty| *is_empty) {
        return TraceSet::twenty(*seed, *duration);
    }
    let or = |given: &[f64], default: f64| if given.is_empty() { vec![default] } else { given.to_vec() };
    let directions = if direction.is_empty() { &[DirectionName::Down] } else { &direction[..] };
    let positions = if position.is_empty() { &[PositionName::Middle] } else { &position[..] };
    let positions: Vec<Position> = positions.iter().map(|name| name.position()).collect();
    let parts = directions.iter().map(|name| {
        let default = if *name == DirectionName::Down { 4_000_000 } else { 2_000_000 };
        let loads = if load.is_empty() { vec![DataRate::from_bps(default)] } else { load.clone() };
        TraceSet::combined(*seed, *duration, &[name.direction()], &or(speed, 3.0), &loads, &positions)
    });
    TraceSet { seed: *seed, duration: *duration, traces: parts.flat_map(|part| part.traces).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_in_km_per_hour() {
        assert_eq!(speed("3"), Ok(3.0));
        assert_eq!(speed("2.5 km/h"), Ok(2.5));
        assert_eq!(speed("-1").unwrap_err(), "must not be negative, found \"-1\"");
        assert_eq!(speed("fast").unwrap_err(), "\"fast\" is not a speed: write km/h, such as 3 or 30");
        assert!(speed("nan").is_err());
    }
}
