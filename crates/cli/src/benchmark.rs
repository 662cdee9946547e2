//! `giusto benchmark`: controllers on random scenarios.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::Args;
use giusto_congestion::Algorithm;
use giusto_units::{TimeDelta, Timestamp};

use crate::{
    args::whole,
    command_line,
    console::{self, Progress, TableArgs, print_json, print_text},
    many::{self, Kept, ManyArgs},
    sim::{make_folder, moment},
    usage::{UsageError, misuse},
};
use giusto::{
    benchmark::{self, BenchmarkResult, Plan, RunRow},
    record::{RunRecord, TimelineOptions},
    run::{RecordOptions, comparison::Controllers, sweep::Journal, timed},
    view::{
        benchmark as view,
        files::Files,
        html, tables,
        why::{self, Why},
    },
    whole_file::{self, Content},
};

/// Scenarios unless a number is given: sixteen of each family, and with --quick four.
const SCENARIOS: u64 = 368;
const QUICK_SCENARIOS: u64 = 92;

/// The seed of development. Judgements use others.
const SEED: &str = "development";

/// Flags of `giusto benchmark`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto benchmark --quick --out quick
  giusto benchmark --seed 2026-11 --scenarios 1000 --out judged
  giusto benchmark --seed 2026-11 --scenarios 1000 --shard 1/4 --out part-1
  giusto merge part-*/result.json --out whole
  giusto benchmark --seed 2026-11 --replay 17 --controller scream:v2 --why
  giusto benchmark --seed 2026-11 --replay 17 --controller scream:v2 --out run-17

Scenario I of a seed is the same for every number of scenarios, shard and controller. \
--out writes result.json, report.html and journal.jsonl, which --resume continues. With --replay it writes \
scenario.toml, result.json and report.html.
docs/reference/benchmark.md states the distributions, the figures and the utility.")]
pub(crate) struct BenchmarkArgs {
    /// Seed: any text
    #[arg(long, value_name = "TEXT", default_value = SEED)]
    seed: String,

    /// Number of scenarios [default: 368; 92 with --quick]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1, 1_000_000))]
    scenarios: Option<u64>,

    /// Four scenarios of each family: at most three minutes on two cores
    #[arg(long, conflicts_with = "scenarios")]
    quick: bool,

    /// Congestion controllers, comma-separated, or all; nada+kappa=0.4 or a file tuned.toml set constants [default: all but fixed]
    #[arg(long, visible_alias = "controllers", value_name = "A,B,C", value_parser = Controllers::load)]
    controller: Option<Controllers>,

    /// Run this scenario once more, under one controller
    #[arg(long, value_name = "I", requires = "controller", conflicts_with_all = ["shard", "resume", "quick", "scenarios"],
          value_parser = whole::<u64>(0, u64::MAX))]
    replay: Option<u64>,

    /// With --replay: explain the target rate at this time [default: where the frame delay was longest]
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, requires = "replay",
          default_missing_value = "longest", hide_default_value = true, value_parser = explained_moment)]
    why: Option<Explained>,

    #[command(flatten)]
    many: ManyArgs,
}

/// The moment that --why explains.
#[derive(Debug, Clone, Copy)]
enum Explained {
    /// Where the frame delay was longest.
    Longest,
    /// This one.
    At(Timestamp),
}

fn explained_moment(text: &str) -> Result<Explained, String> {
    if text == "longest" { Ok(Explained::Longest) } else { moment(text).map(Explained::At) }
}

pub(crate) fn run(args: &BenchmarkArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let controllers = args.controller.clone().map_or_else(Plan::default_controllers, |given| given.0);
    let scenarios = args.scenarios.unwrap_or(if args.quick { QUICK_SCENARIOS } else { SCENARIOS });
    let plan = Plan::new(&args.seed, scenarios, controllers).map_err(UsageError::new)?;
    let plan = Plan { shard: args.many.shard.unwrap_or_default(), ..plan };
    if let Some(number) = args.replay {
        return replay(args, &plan, number, stop);
    }
    // clap does not require what another flag excludes, such as --scenarios.
    if args.why.is_some() {
        misuse!("--why explains one run: name it with --replay and --controller");
    }
    let many = &args.many;
    let name = plan.identity();
    let (journal, known): Kept<RunRow> = many.journal(&name, |out| Journal::resume_lines(out, &name))?;
    let runs = plan.runs();
    let progress = many::progress(format!("benchmark of seed {:?}", plan.seed), runs, known.len());
    let (result, trouble) = many
        .run(&progress, journal, stop, |is_over, finished| benchmark::run(&plan, known, is_over, finished))?;
    let written = finish(&result, many.out.as_deref(), many.json, many.tables)?;
    for path in &written {
        progress.wrote(path);
    }
    many.note_missing(&progress, runs.saturating_sub(result.runs.len()), runs);
    match trouble {
        Some(error) => Err(error.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Prints the result and writes its files; gives their paths.
pub(crate) fn finish(
    result: &BenchmarkResult,
    out: Option<&Path>,
    json: bool,
    tables: TableArgs,
) -> anyhow::Result<Vec<PathBuf>> {
    let summary = benchmark::summary(result);
    let mut files = Files::default();
    if let Some(folder) = out {
        files.add_result(folder, result)?;
        files.add_report(folder, &html::benchmark(&summary, command_line()))?;
    }
    let written = files.commit()?;
    if json {
        print_json(&summary)?;
    } else {
        print_text(&view::text(&summary, tables.width()))?;
    }
    Ok(written)
}

/// Runs one scenario under one controller, with a timeline if it is asked for.
fn replay(args: &BenchmarkArgs, plan: &Plan, number: u64, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let [controller] = plan.controllers[..] else {
        misuse!("--replay runs one controller, found {}: name one", plan.controllers.len())
    };
    let Some(drawn) = benchmark::draw_unless(&plan.seed, number, &|| stop.load(Ordering::Relaxed)) else {
        console::complain("interrupted before the run");
        return Ok(ExitCode::SUCCESS);
    };
    let scenario = drawn.scenario(controller)?;
    if let Some(Explained::At(at)) = args.why {
        why::check(&scenario, at, None).map_err(UsageError::new)?;
    }
    let many = &args.many;
    many.out.as_deref().map(make_folder).transpose()?;
    let page = many.out.as_ref().map(|_| TimelineOptions::default());
    let options = RecordOptions { timeline: args.why.map(|_| why::timeline()).or(page) };
    let progress = Progress::live();
    let ends = |now: Timestamp| {
        progress.say(format!(
            "{}: {:.1} of {} s",
            scenario.name(),
            now.as_seconds(),
            scenario.end().as_seconds()
        ));
        stop.load(Ordering::Relaxed)
    };
    let mut record = timed::run(&scenario, scenario.seed(), options, &mut (), ends);
    progress.clear();
    if let Some(Explained::At(at)) = args.why {
        why::check_ended(&record, at).map_err(anyhow::Error::msg)?;
    }
    let answer = args.why.map(|moment| explained(&record, moment));
    if let Some(folder) = &many.out {
        write_replay(folder, &drawn.text(controller), &record)?.iter().for_each(|path| progress.wrote(path));
    }
    record.timeline = None;
    match (answer, many.json) {
        (Some(answer), true) => print_json(&answer)?,
        (Some(answer), false) => print_text(&answer.in_words())?,
        (None, true) => print_json(&judged(&drawn, controller, stop))?,
        (None, false) => {
            let judged = judged(&drawn, controller, stop);
            print_text(&(tables::tables(&record, many.tables.width()) + &view::run(judged.as_ref())))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The figures by which the run is judged, unless it is ended early.
fn judged(drawn: &benchmark::Drawn, controller: Algorithm, stop: &AtomicBool) -> Option<benchmark::Figures> {
    use std::ops::ControlFlow::{Break, Continue};
    benchmark::simulate(drawn, controller, |_| {
        if stop.load(Ordering::Relaxed) { Break(()) } else { Continue(()) }
    })
}

/// Why the target is as it is at `at`, or where the frame delay was longest.
fn explained(record: &RunRecord, moment: Explained) -> Why {
    let longest = || {
        let timeline = record.timeline.as_ref()?;
        let judged = timeline.flows.iter().filter(|flow| flow.id.starts_with("call"));
        let delays = judged.filter_map(|flow| flow.media.as_ref()).flat_map(|media| {
            timeline.t_s.iter().zip(&media.frame_delay_max_ms).filter_map(|(t, delay)| Some((*t, (*delay)?)))
        });
        delays.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(t, _)| t)
    };
    let at = match moment {
        Explained::At(at) => at,
        Explained::Longest => Timestamp::ZERO + TimeDelta::from_seconds_f64(longest().unwrap_or(0.0)),
    };
    why::why(record, at, None)
}

/// Writes the scenario, the record and its page; gives their paths.
fn write_replay(folder: &Path, text: &str, record: &RunRecord) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Files::default();
    files.add_result(folder, record)?;
    files.add_report(folder, &html::simulation(record, command_line()))?;
    let mut written = files.commit()?;
    let path = folder.join("scenario.toml");
    whole_file::write(&path, Content { name: "scenario", example: "scenario.toml" }, text.as_bytes())?;
    written.push(path);
    Ok(written)
}
