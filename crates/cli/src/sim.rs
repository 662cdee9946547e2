//! `giusto sim`: one run of a scenario, or one of each of several.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::{Args, ValueEnum};
use giusto_units::{TimeDelta, Timestamp};
use serde::Serialize;

use super::{
    command_line,
    console::{Progress, print_json, print_text},
    files::Files,
    timed,
    usage::UsageError,
};
use giusto::{
    record::SimResult,
    run,
    scenario::{Document, Scenario, Setting},
    view::{page::PageObserver, tables, trace::TraceFile, why::WhyObserver},
};

/// In which form events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TraceFormat {
    /// What everything reads.
    Csv,
    /// What is small and fast to read.
    Parquet,
}

impl TraceFormat {
    fn file(self) -> &'static str {
        match self {
            Self::Csv => "trace.csv",
            Self::Parquet => "trace.parquet",
        }
    }
}

/// Flags of `giusto sim`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto sim scenarios/first.toml
  giusto sim scenarios/codel.toml --set bottleneck.rate=2M --set tcp.count=3 --seed 7
  giusto sim scenarios/codel.toml --out codel --trace parquet
  giusto sim scenarios/*.toml --json
  giusto sim scenarios/media.toml --why 12.3s

Exit status: 0 all as expected, 1 an expectation is not met, 2 the scenario cannot be used.
docs/reference/scenario.md lists what --set can change.")]
pub(crate) struct SimArgs {
    /// Scenarios
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// What all chance derives from; by default as the scenario says
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Another value than the file has, such as link.bottleneck.rate=5M, tcp.count=3 or duration=10s; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Setting>,

    /// Write result.json and report.html to this folder; of several scenarios, each to a folder of its own in it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Also write every event to a file in the folder of --out
    #[arg(long, value_name = "FORMAT", requires = "out")]
    trace: Option<TraceFormat>,

    /// Tell why the targets of media flows are what they are at this moment: the decisions around it with their causes, and
    /// what the flow met
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = moment)]
    why: Option<Timestamp>,

    /// With --why, only of this flow
    #[arg(long, value_name = "ID", requires = "why")]
    flow: Option<String>,

    /// Print one JSON object on standard output; of several scenarios, {"runs": […]}
    #[arg(long)]
    json: bool,
}

/// What `--json` prints of several scenarios.
#[derive(Debug, Serialize)]
struct Runs<'a> {
    runs: &'a [SimResult],
}

pub(crate) fn run(args: &SimArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    // All are read before the first one runs: what is wrong is said at once.
    let scenarios = scenarios(args)?;
    let mut why = why(args, &scenarios)?;
    let folders = match &args.out {
        Some(out) => folders(out, &scenarios)?,
        None => Vec::new(),
    };
    let progress = Progress::live();
    let (mut results, mut written, mut answer) = (Vec::new(), Vec::new(), None);
    for (place, scenario) in scenarios.iter().enumerate() {
        let seed = args.seed.unwrap_or(scenario.seed());
        let mut observers = Observers::new(scenario, (seed, args.trace), folders.get(place))?;
        observers.why = why.take();
        let result = simulate(scenario, seed, &mut observers, (stop, &progress));
        if let Some((observer, at)) = observers.why.take().zip(args.why) {
            if result.interrupted && at.as_seconds() > result.duration_s {
                let (ended, at) = (result.duration_s, at.as_seconds());
                anyhow::bail!(
                    "--why {at} s: the run was ended early, at {ended} s: let it go on, or ask for an earlier moment"
                );
            }
            answer = Some(observer.answer((scenario.name(), seed)));
        }
        if let Some(folder) = folders.get(place) {
            written.extend(observers.write(&result, folder)?);
        }
        results.push(result);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    progress.clear();
    match (&results[..], answer) {
        (_, Some(answer)) if args.json => print_json(&answer)?,
        (_, Some(answer)) => print_text(&answer.in_words())?,
        ([result], None) if args.json => print_json(result)?,
        (results, None) if args.json => print_json(&Runs { runs: results })?,
        (results, None) => {
            let tables: Vec<String> = results.iter().map(tables::tables).collect();
            print_text(&tables.join("\n\n"))?;
        }
    }
    for path in &written {
        progress.note(&format!("wrote {}", path.display()));
    }
    let unmet = results.iter().filter(|result| !result.passed()).count();
    if unmet > 0 && results.len() > 1 {
        progress.note(&format!("{unmet} of {} scenarios went otherwise than expected", results.len()));
    }
    Ok(if unmet > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Every scenario that was asked for, or all that is wrong with them.
fn scenarios(args: &SimArgs) -> Result<Vec<Scenario>, UsageError> {
    let mut problems = Vec::new();
    let mut scenarios = Vec::new();
    for file in &args.files {
        match Document::load(file).and_then(|document| document.scenario(&args.set)) {
            Ok(scenario) => scenarios.push(scenario),
            Err(error) => problems.extend(error.problems().to_vec()),
        }
    }
    if problems.is_empty() { Ok(scenarios) } else { Err(usage(&problems)) }
}

/// A moment of a run.
fn moment(text: &str) -> Result<Timestamp, String> {
    if text.trim_start().starts_with('-') {
        return Err("it lies before the start: use \"0 s\" or later".to_owned());
    }
    let time: TimeDelta = text.parse().map_err(|error: giusto_units::UnitError| error.to_string())?;
    Ok(Timestamp::ZERO + time)
}

/// Who answers --why.
fn why(args: &SimArgs, scenarios: &[Scenario]) -> Result<Option<WhyObserver>, UsageError> {
    let Some(at) = args.why else { return Ok(None) };
    let [scenario] = scenarios else {
        return Err(UsageError::new("--why looks into one scenario: give one FILE"));
    };
    WhyObserver::new(scenario, at, args.flow.as_deref()).map(Some).map_err(UsageError::new)
}

/// What is wrong with a scenario, as the end of a command: one problem a line.
pub(crate) fn usage(problems: &[String]) -> UsageError {
    UsageError::new(problems.join("\nerror: "))
}

/// Who watches a run for the sake of --out and --why.
struct Observers {
    trace: Option<(TraceFile, PathBuf)>,
    page: Option<PageObserver>,
    why: Option<WhyObserver>,
}

impl Observers {
    fn new(
        scenario: &Scenario,
        (seed, trace): (u64, Option<TraceFormat>),
        folder: Option<&PathBuf>,
    ) -> anyhow::Result<Self> {
        let trace = folder.zip(trace).map(|(folder, format)| {
            let path = folder.join(format.file());
            TraceFile::create(&path, run::names(scenario)).map(|file| (file, path))
        });
        let page = folder.map(|_| PageObserver::new(scenario, seed));
        Ok(Self { trace: trace.transpose()?, page, why: None })
    }

    /// Writes all that is to be written, and names it: either all of it appears, or none.
    fn write(self, result: &SimResult, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let mut files = Files::default();
        files.add_result(folder, result)?;
        if let Some(page) = self.page {
            files.add_report(folder, &page.page(result, command_line()))?;
        }
        let mut written = Vec::new();
        if let Some((trace, path)) = self.trace {
            trace.finish()?;
            written.push(path);
        }
        written.extend(files.commit()?);
        Ok(written)
    }
}

/// One run, which tells how far it is.
fn simulate(
    scenario: &Scenario,
    seed: u64,
    observers: &mut Observers,
    (stop, progress): (&AtomicBool, &Progress),
) -> SimResult {
    let trace = observers.trace.as_mut().map(|(trace, _)| trace);
    let page = observers.page.as_mut().map(|page| &mut page.observers);
    let mut watching = (trace, (page, observers.why.as_mut()));
    timed::run(scenario, seed, &mut watching, |now| {
        let (name, done) = (scenario.name(), now.as_seconds());
        progress.say(format!("{name}: {done:.1} of {} s", scenario.duration().as_seconds()));
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

/// The folder of each result, there and empty enough to be written to.
fn folders(out: &Path, scenarios: &[Scenario]) -> anyhow::Result<Vec<PathBuf>> {
    make_folder(out)?;
    let [_] = scenarios else {
        let mut folders: Vec<PathBuf> = Vec::new();
        for scenario in scenarios {
            let folder = out.join(scenario.name());
            if folders.contains(&folder) {
                let name = scenario.name();
                let text = format!("--out: two scenarios are called \"{name}\": give each a name of its own");
                return Err(UsageError::new(text).into());
            }
            make_folder(&folder)?;
            folders.push(folder);
        }
        return Ok(folders);
    };
    Ok(vec![out.to_owned()])
}

/// Makes sure that `folder` is there.
pub(crate) fn make_folder(folder: &Path) -> anyhow::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if folder.exists() {
        let text = format!("--out {}: this is a file: give a folder", folder.display());
        return Err(UsageError::new(text).into());
    }
    fs::create_dir(folder).map_err(|error| {
        let mend = match error.kind() {
            std::io::ErrorKind::NotFound => "create the folder that it is to be in first",
            std::io::ErrorKind::StorageFull => "free some space or choose another disk",
            _ => "choose a place that you may write to",
        };
        anyhow::anyhow!("--out {}: cannot make the folder: {error}: {mend}", folder.display())
    })
}
