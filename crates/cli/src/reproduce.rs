//! `giusto reproduce`: published results beside giusto's own.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use giusto_congestion::Algorithm;
use giusto_pace::IpVersion;

use crate::{
    cbr::{describe, loopback_run},
    command_line,
    console::{self, Progress, TableArgs, print_json, print_text},
    sim::make_folder,
    usage::UsageError,
};
use giusto::{
    measured::{plan::StreamPlan, result::RunResult},
    view::files::Files,
    whole_file::{self, Content, unreadable},
};
use giusto_experiments::{Findings, Page, firebind, rfc8867, rrtcc, scream_lte, shaper};

/// The page of the documentation.
const PAGE: Content = Content { name: "page", example: "page.md" };

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Publication {
    /// Both tables of the Firebind constant-bit-rate transmitter
    Firebind,
    /// The test cases of RFC 8867: a scoreboard of all congestion controllers
    Rfc8867,
    /// The traffic shapers of Sun Labs TR-99-77: figures 4 to 14
    Shaper,
    /// A thesis's simulation of receiver-side congestion control: figures 16 to 20, and a queue
    Rrtcc,
    /// The LTE evaluation of the SCReAM draft: GCC against SCReAM in 21 cells, tables 2 to 9
    ScreamLte,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto reproduce firebind --quick
  giusto reproduce firebind --out firebind.html
  giusto reproduce shaper --quick --out shaper.html
  giusto reproduce rrtcc --out rrtcc.html
  giusto reproduce rrtcc --markdown docs/reproduce/rrtcc.md
  giusto reproduce rfc8867 --controller gcc:libwebrtc+giusto --out scoreboard
  giusto reproduce scream-lte --quick --out scream-lte.html
  giusto reproduce scream-lte --seeds 5 --json > runs.json
  giusto reproduce scream-lte --seeds 5 --resume runs.json --markdown docs/reproduce/scream-lte.md")]
pub(crate) struct ReproduceArgs {
    /// Publication to reproduce
    #[arg(value_name = "NAME")]
    name: Publication,

    /// Fewer and shorter runs: firebind takes half a minute instead of six minutes, shaper ten seconds instead of sixty,
    /// rrtcc 60 seeds instead of 400, rfc8867 three cases with one seed of each kind, scream-lte two loads with one seed
    #[arg(long)]
    quick: bool,

    /// Congestion controllers of rfc8867 and scream-lte, comma-separated [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    controller: Vec<Algorithm>,

    /// Random seeds of scream-lte, from 1 on [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,

    /// JSON of an earlier scream-lte, complete or not: its runs are not made again
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,

    /// Write an HTML report to this file; rfc8867: write report.html and result.json to this directory
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write the page of the documentation to this file, in Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    #[command(flatten)]
    tables: TableArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    match args.name {
        Publication::Firebind => firebind(args, stop),
        Publication::Rfc8867 => rfc8867(args, stop),
        Publication::Shaper => shaper(args, stop),
        Publication::Rrtcc => rrtcc(args, stop),
        Publication::ScreamLte => scream_lte(args, stop),
    }
}

/// Ctrl-C ends the simulation early: the runs before it are shown, and `--resume` makes the others.
fn scream_lte(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    check_out(args)?;
    let known = args.resume.as_deref().map(known_runs).transpose()?.unwrap_or_default();
    let mut plan = scream_lte::Plan::new(args.quick);
    plan.seeds = args.seeds.unwrap_or(plan.seeds);
    if !args.controller.is_empty() {
        plan.controllers.clone_from(&args.controller);
        plan.controllers.sort_unstable();
        plan.controllers.dedup();
    }
    // A run takes seconds: the bar shows simulated time.
    let progress = Progress::with_lines(plan.steps(&known));
    let watch =
        || if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let (mut done, runs) = (0, plan.runs());
    progress.say(format!("0 of {runs} runs"));
    let outcome = scream_lte::run(
        plan,
        &known,
        watch,
        || progress.step(),
        |run| {
            let scream_lte::Run { link, speed_kmh, users, controller, seed, .. } = run;
            done += 1;
            let link = link.name();
            progress.say(format!(
            "{done} of {runs} runs, the latest {link} {speed_kmh} km/h, {users} users, {controller}, seed {seed}"
        ));
        },
    )?;
    show(args, &progress, &outcome)?;
    Ok(ExitCode::SUCCESS)
}

/// The runs in the JSON of an earlier reproduction.
fn known_runs(path: &Path) -> anyhow::Result<Vec<scream_lte::Run>> {
    let place = || {
        format!("--resume {}: must be the JSON of an earlier `giusto reproduce scream-lte`", path.display())
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| UsageError::new(format!("--resume {}", unreadable(path, &error))))?;
    Ok(serde_json::from_str::<scream_lte::Printed>(&text).with_context(place)?.runs)
}

fn rfc8867(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    args.out.as_deref().map(make_folder).transpose()?;
    check_markdown(args)?;
    let mut plan = rfc8867::Plan::new(args.quick);
    if !args.controller.is_empty() {
        plan.controllers.clone_from(&args.controller);
        plan.controllers.sort_unstable();
        plan.controllers.dedup();
    }
    let progress = Progress::with_lines(plan.runs() as u64);
    let watch =
        || if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let board = rfc8867::run(plan, watch, |run| {
        progress.say(format!("{} {}", run.case, run.controller));
        progress.step();
    })?;
    show(args, &progress, &board)?;
    Ok(ExitCode::SUCCESS)
}

fn firebind(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    check_out(args)?;
    let plan = if args.quick { firebind::Plan::QUICK } else { firebind::Plan::FULL };
    let mut meter = Meter::new(plan.runs() as u64, stop);
    let outcome = firebind::run(plan, |stream| meter.measure(stream));
    show(args, &meter.progress, &outcome)?;
    let finished = meter.finish()?;
    Ok(if outcome.busy_cpu_ratio().is_some() { ExitCode::from(console::DOUBTFUL) } else { finished })
}

fn shaper(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    check_out(args)?;
    let plan = if args.quick { shaper::Plan::QUICK } else { shaper::Plan::FULL };
    let mut meter = Meter::new(plan.runs() as u64, stop);
    let outcome = shaper::run(plan, |stream| meter.measure(stream));
    meter.progress.say("simulating");
    show(args, &meter.progress, &outcome)?;
    meter.finish()
}

/// Ctrl-C ends the simulation early: the runs before it are judged.
fn rrtcc(args: &ReproduceArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    check_out(args)?;
    let plan = if args.quick { rrtcc::Plan::QUICK } else { rrtcc::Plan::FULL };
    let progress = Progress::with_lines(plan.steps());
    let watch =
        || if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let outcome = rrtcc::run(plan, watch, |what| {
        progress.say(what);
        progress.step();
        !stop.load(Ordering::Relaxed)
    });
    show(args, &progress, &outcome)?;
    Ok(ExitCode::SUCCESS)
}

fn check_out(args: &ReproduceArgs) -> anyhow::Result<()> {
    args.out.as_deref().map(|out| console::check_file("--out", out, Content::REPORT)).transpose()?;
    check_markdown(args)
}

fn check_markdown(args: &ReproduceArgs) -> anyhow::Result<()> {
    Ok(args.markdown.as_deref().map_or(Ok(()), |page| console::check_file("--markdown", page, PAGE))?)
}

/// Writes the files that are asked for, removes the progress and prints the findings. One of them that fails costs the other nothing.
fn show(args: &ReproduceArgs, progress: &Progress, findings: &impl Findings) -> anyhow::Result<()> {
    let page = findings.page();
    let written = write(args, findings, &page);
    progress.clear();
    if args.json {
        print_json(&findings.printed())?;
    } else {
        print_text(&page.table(args.tables.width()))?;
    }
    written?.iter().for_each(|path| progress.wrote(path));
    Ok(())
}

fn write(args: &ReproduceArgs, findings: &impl Findings, page: &Page) -> anyhow::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    match &args.out {
        Some(folder) if args.name == Publication::Rfc8867 => {
            let mut files = Files::default();
            files.add_result(folder, &findings.printed())?;
            files.add_report(folder, &page.report(&command_line()))?;
            written.extend(files.commit()?);
        }
        Some(path) => {
            page.report(&command_line()).write(path)?;
            written.push(path.clone());
        }
        None => {}
    }
    if let Some(path) = &args.markdown {
        whole_file::write(path, PAGE, page.markdown().as_bytes())?;
        written.push(path.clone());
    }
    Ok(written)
}

/// Measures streams on loopback. The first error ends it, as Ctrl-C does: the runs before it are shown.
struct Meter<'a> {
    stop: &'a AtomicBool,
    progress: Progress,
    failure: Option<anyhow::Error>,
}

impl<'a> Meter<'a> {
    fn new(steps: u64, stop: &'a AtomicBool) -> Self {
        Self { stop, progress: Progress::with_lines(steps), failure: None }
    }

    /// The result of a run; `None` if it was not completed.
    fn measure(&mut self, plan: &StreamPlan) -> Option<RunResult> {
        let result = self.try_measure(plan);
        self.progress.step();
        result.unwrap_or_else(|error| {
            self.failure = Some(error);
            None
        })
    }

    fn try_measure(&self, plan: &StreamPlan) -> anyhow::Result<Option<RunResult>> {
        if self.stopped() {
            return Ok(None);
        }
        let plan = plan.resolve(IpVersion::V4)?;
        let run = loopback_run(&plan, self.stop, &self.progress)?;
        match run.failure() {
            _ if self.stopped() => Ok(None),
            Some(failure) => anyhow::bail!("{}: {failure}", describe(&plan)),
            None => Ok(Some(run.result(&plan).unwrap_or_default())),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn finish(self) -> anyhow::Result<ExitCode> {
        match self.failure {
            Some(error) if !self.stop.load(Ordering::Relaxed) => Err(error),
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}
