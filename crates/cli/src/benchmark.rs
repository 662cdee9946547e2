//! `giusto benchmark`: controllers on random scenarios, or on recorded links.

use std::{
    ops::ControlFlow,
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
    live_page::LivePageArgs,
    many::{self, Kept, ManyArgs},
    sim::{make_folder, moment},
    usage::{UsageError, misuse},
};
use giusto::{
    benchmark::{self, BenchmarkResult, Drawn, Figures, Plan, Recordings, Reference, Replayed, RunRow},
    record::{RunRecord, TimelineOptions},
    run::{RecordOptions, comparison::Controllers, sweep::Journal, timed},
    scenario::{Document, Scenario, ScenarioError},
    view::{
        benchmark as view,
        files::Files,
        html, tables,
        why::{self, Why},
    },
    whole_file::{self, Content},
};

/// Scenarios of a seed unless a number is given: about seventeen of each family, and with --quick four.
const SCENARIOS: u64 = 400;
const QUICK_SCENARIOS: u64 = 92;

/// The seed of development. Judgements use others.
const SEED: &str = "development";

/// Flags of `giusto benchmark`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto benchmark --quick --out quick
  giusto benchmark --seed a,b,c,d,e --out judged
  giusto benchmark --seed a,b,c,d,e --shard 1/4 --out part-1
  giusto merge part-*/result.json --out whole
  giusto benchmark --seed b --replay 17 --controller scream:v2 --why
  giusto benchmark --seed b --replay 17 --controller bound:causal --out run-17
  giusto benchmark --recordings DIR --controller tempo,scream:v2 --out recorded

Scenario I of a seed is the same for every number of scenarios, shard and controller. \
--out writes result.json, report.html and journal.jsonl, which --resume continues. With --replay it writes \
scenario.toml, result.json and report.html.
docs/reference/benchmark.md states the distributions, the figures, the utility and the formats of recordings.")]
pub(crate) struct BenchmarkArgs {
    /// Seeds, comma-separated: any texts. Several give intervals
    #[arg(long, value_name = "A,B,C", default_value = SEED, value_delimiter = ',')]
    seed: Vec<String>,

    /// Number of scenarios of each seed [default: 400; 92 with --quick]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1, 1_000_000))]
    scenarios: Option<u64>,

    /// Four scenarios of each family: at most three minutes on two cores
    #[arg(long, conflicts_with = "scenarios")]
    quick: bool,

    /// Judge on the recorded links in this directory: each window of 60 s with 3 round-trip times and 2 queues
    #[arg(long, value_name = "DIR", conflicts_with_all = ["seed", "scenarios", "quick"])]
    recordings: Option<PathBuf>,

    /// With --recordings: take the uplink where a recording has both directions
    #[arg(long, requires = "recordings")]
    uplink: bool,

    /// With --recordings: factor of the recorded rates
    #[arg(long, value_name = "FACTOR", requires = "recordings", default_value = "1", hide_default_value = true, value_parser = factor)]
    scale: f64,

    /// Congestion controllers, comma-separated, or all; nada+kappa=0.4 or a file tuned.toml set constants; with --replay also a bound, such
    /// as bound:causal [default: all but fixed and gcc:rmcat-02]
    #[arg(long, visible_alias = "controllers", value_name = "A,B,C", value_parser = judged_of)]
    controller: Option<Judged>,

    /// Run this scenario of one seed once more, under one controller or bound
    #[arg(long, value_name = "I", requires = "controller", conflicts_with_all = ["shard", "resume", "quick", "scenarios"],
          value_parser = whole::<u64>(0, u64::MAX))]
    replay: Option<u64>,

    #[command(flatten)]
    live_page: LivePageArgs,

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

/// What --controller names.
#[derive(Debug, Clone)]
enum Judged {
    Controllers(Controllers),
    /// A row that is no controller, for --replay.
    Reference(Reference),
}

fn judged_of(text: &str) -> Result<Judged, String> {
    match Reference::named(text.trim()) {
        Some(reference) => Ok(Judged::Reference(reference)),
        None => Controllers::load(text).map(Judged::Controllers),
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| (1e-6..=1e6).contains(value));
    value.ok_or_else(|| format!("expected a number from 1e-6 to 1e6, such as 0.5, found \"{text}\""))
}

pub(crate) fn run(args: &BenchmarkArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    // clap does not require what another flag excludes, such as --scenarios.
    if args.live_page.is_given() && args.replay.is_none() {
        misuse!("--live-page shows one run: name it with --replay and --controller");
    }
    if args.live_page.is_given() && matches!(args.controller, Some(Judged::Reference(_))) {
        misuse!("--live-page: a page cannot run a bound, which is no controller: name a controller");
    }
    if args.why.is_some() && args.replay.is_none() {
        misuse!("--why explains one run: name it with --replay and --controller");
    }
    if args.quick && args.seed.len() > 1 {
        misuse!(
            "--quick runs one seed, found {}: give one, or --scenarios instead of --quick",
            args.seed.len()
        );
    }
    let plan = plan(args)?;
    if let Some(number) = args.replay {
        return replay(args, &plan, number, stop);
    }
    let many = &args.many;
    let name = plan.identity();
    let (journal, known): Kept<RunRow> = many.journal(&name, |out| Journal::resume_lines(out, &name))?;
    let runs = plan.runs();
    let progress = many::progress(title(args, &plan), runs, known.len());
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

/// The benchmark that is asked for.
fn plan(args: &BenchmarkArgs) -> Result<Plan, UsageError> {
    let controllers = match &args.controller {
        None => Plan::default_controllers(),
        Some(Judged::Controllers(given)) => given.0.clone(),
        Some(Judged::Reference(_)) if args.replay.is_some() => Plan::default_controllers(),
        Some(Judged::Reference(own)) => {
            let name = own.name();
            return Err(UsageError::new(format!(
                "{name} is judged in every benchmark: name controllers, or a run with --replay"
            )));
        }
    };
    let plan = if let Some(folder) = &args.recordings {
        let recordings = Recordings::read(folder, args.uplink, args.scale).map_err(UsageError::new)?;
        Plan::of_recordings(recordings, controllers)
    } else {
        let scenarios = args.scenarios.unwrap_or(if args.quick { QUICK_SCENARIOS } else { SCENARIOS });
        Plan::new(&args.seed, scenarios, controllers)
    };
    Ok(Plan { shard: args.many.shard.unwrap_or_default(), ..plan.map_err(UsageError::new)? })
}

/// What is run, in a few words.
fn title(args: &BenchmarkArgs, plan: &Plan) -> String {
    match (&plan.recordings, plan.seeds.len()) {
        (Some(own), _) => {
            let slow = own.slow_windows();
            let left_out =
                if slow > 0 { format!(" ({slow} below 100 kbit/s left out)") } else { String::new() };
            let folder = args.recordings.as_deref().unwrap_or(Path::new("")).display();
            format!("benchmark of {} windows of {folder}{left_out}", own.windows())
        }
        (None, 1) => format!("benchmark of seed {:?}", plan.seeds.concat()),
        (None, seeds) => format!("benchmark of {seeds} seeds"),
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

/// Runs one scenario under one controller or bound, with a timeline if it is asked for.
fn replay(args: &BenchmarkArgs, plan: &Plan, number: u64, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let seed = match &plan.seeds[..] {
        [] => String::new(),
        [seed] => seed.clone(),
        seeds => misuse!("--replay runs a scenario of one seed, found {}: name one", seeds.len()),
    };
    if plan.recordings.is_some() && number >= plan.scenarios {
        misuse!("--replay {number}: the recordings give scenarios 0 to {}", plan.scenarios.saturating_sub(1));
    }
    let drawn = plan.draw_unless(&(seed, number), &|| stop.load(Ordering::Relaxed));
    let once_more = match (drawn, &args.controller, &plan.controllers[..]) {
        (Some(drawn), Some(Judged::Reference(own)), _) => {
            Replayed::new(&drawn, *own, watch(stop)).map(|own| Once { drawn, of: Of::Bound(Box::new(own)) })
        }
        (Some(drawn), _, [own]) => Some(Once { drawn, of: Of::Controller(*own) }),
        (Some(_), _, several) => misuse!("--replay runs one controller, found {}: name one", several.len()),
        (None, ..) => None,
    };
    let Some(once_more) = once_more else {
        console::complain("interrupted before the run");
        return Ok(ExitCode::SUCCESS);
    };
    let scenario = once_more.scenario()?;
    let document = Document::parse(&once_more.text(), "scenario.toml")?;
    let live_page = args.live_page.page(document, &[], None, Vec::new())?;
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
    let mut record = once_more.run(&scenario, options, ends);
    progress.clear();
    if let Some(Explained::At(at)) = args.why {
        why::check_ended(&record, at).map_err(anyhow::Error::msg)?;
    }
    let answer = args.why.map(|moment| explained(&record, moment));
    if let Some(folder) = &many.out {
        let mut written = write_replay(folder, &once_more.text(), &record)?;
        if let Some(page) = &live_page {
            written.push(page.write(folder)?);
        }
        for path in &written {
            progress.wrote(path);
        }
    }
    record.timeline = None;
    match (answer, many.json) {
        (Some(answer), true) => print_json(&answer)?,
        (Some(answer), false) => print_text(&answer.in_words())?,
        (None, true) => print_json(&once_more.judged(stop))?,
        (None, false) => {
            let judged = once_more.judged(stop);
            print_text(&(tables::tables(&record, many.tables.width()) + &view::run(judged.as_ref())))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A run that is made once more.
struct Once {
    drawn: Drawn,
    of: Of,
}

/// Of whom.
enum Of {
    Controller(Algorithm),
    Bound(Box<Replayed>),
}

impl Once {
    fn scenario(&self) -> Result<Scenario, ScenarioError> {
        match &self.of {
            Of::Controller(own) => self.drawn.scenario(*own),
            Of::Bound(own) => Ok(own.scenario.clone()),
        }
    }

    fn run(
        &self,
        scenario: &Scenario,
        options: RecordOptions,
        ends: impl FnMut(Timestamp) -> bool,
    ) -> RunRecord {
        match &self.of {
            Of::Controller(_) => timed::run(scenario, scenario.seed(), options, &mut (), ends),
            Of::Bound(own) => {
                timed::run_with(scenario, scenario.seed(), options, &mut own.taps(), &mut (), ends)
            }
        }
    }

    /// The scenario as a file.
    fn text(&self) -> String {
        match &self.of {
            Of::Controller(own) => self.drawn.text(*own),
            Of::Bound(own) => own.text(&self.drawn),
        }
    }

    /// The figures by which the run is judged, unless it is ended early.
    fn judged(&self, stop: &AtomicBool) -> Option<Figures> {
        match &self.of {
            Of::Controller(own) => benchmark::simulate(&self.drawn, *own, watch(stop)),
            Of::Bound(own) => Some(own.figures.clone()),
        }
    }
}

/// Ends a run early when it is asked to.
fn watch(stop: &AtomicBool) -> impl FnMut(Timestamp) -> ControlFlow<()> {
    |_| if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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
