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
};
use giusto::{
    error::UsageError,
    record::{RunRecord, TimelineOptions},
    run::RecordOptions,
    scenario::{Document, Scenario, Setting},
    view::{
        html, tables,
        trace_file::{TraceFile, TraceNames},
        why,
    },
};

/// In which form events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TraceFormat {
    /// CSV.
    Csv,
    /// Apache Parquet.
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

Exit status: 0 all expectations are met, 1 an expectation is not met, 2 the scenario cannot be used.
What --set can change is told in docs/scenarios.md.")]
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
    runs: &'a [RunRecord],
}

pub(crate) fn run(args: &SimArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    // All are read before the first one runs: what is wrong is said at once.
    let scenarios = scenarios(args)?;
    check_why(args, &scenarios)?;
    let folders = match &args.out {
        Some(out) => folders(out, &scenarios)?,
        None => Vec::new(),
    };
    let progress = Progress::live();
    let (mut records, mut written, mut answer) = (Vec::new(), Vec::new(), None);
    for (place, scenario) in scenarios.iter().enumerate() {
        let folder = folders.get(place);
        let mut trace = trace(args, scenario, folder)?;
        let observer = trace.as_mut().map(|(trace, _)| trace);
        let mut record = simulate(args, scenario, observer, (stop, &progress));
        if let Some(at) = args.why {
            if record.interrupted && at.as_seconds() > record.duration_s {
                let (ended, at) = (record.duration_s, at.as_seconds());
                anyhow::bail!(
                    "--why {at} s: the run was ended early, at {ended} s: let it go on, or ask for an earlier moment"
                );
            }
            answer = Some(why::why(&record, at, args.flow.as_deref()));
        }
        if let Some(folder) = folder {
            written.extend(write(&record, folder, trace)?);
        }
        record.timeline = None;
        records.push(record);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    progress.clear();
    match (&records[..], answer) {
        (_, Some(answer)) if args.json => print_json(&answer)?,
        (_, Some(answer)) => print_text(&answer.in_words())?,
        ([record], None) if args.json => print_json(record)?,
        (records, None) if args.json => print_json(&Runs { runs: records })?,
        (records, None) => {
            let tables: Vec<String> = records.iter().map(tables::tables).collect();
            print_text(&tables.join("\n\n"))?;
        }
    }
    for path in &written {
        progress.note(&format!("wrote {}", path.display()));
    }
    let unmet = records.iter().filter(|record| !record.passed()).count();
    if unmet > 0 && records.len() > 1 {
        progress.note(&format!("{unmet} of {} scenarios did not meet their expectations", records.len()));
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

/// Whether --why can be answered.
fn check_why(args: &SimArgs, scenarios: &[Scenario]) -> Result<(), UsageError> {
    let Some(at) = args.why else { return Ok(()) };
    let [scenario] = scenarios else {
        return Err(UsageError::new("--why looks into one scenario: give one FILE"));
    };
    why::check(scenario, at, args.flow.as_deref()).map_err(UsageError::new)
}

/// What is wrong with a scenario, as the end of a command: one problem a line.
pub(crate) fn usage(problems: &[String]) -> UsageError {
    UsageError::new(problems.join("\nerror: "))
}

/// The trace file of a run, if one is asked for.
fn trace(
    args: &SimArgs,
    scenario: &Scenario,
    folder: Option<&PathBuf>,
) -> anyhow::Result<Option<(TraceFile, PathBuf)>> {
    let Some((folder, format)) = folder.zip(args.trace) else { return Ok(None) };
    let path = folder.join(format.file());
    Ok(Some((TraceFile::create(&path, TraceNames::of(scenario))?, path)))
}

/// Writes all files, and names them: either all of them appear, or none.
fn write(
    record: &RunRecord,
    folder: &Path,
    trace: Option<(TraceFile, PathBuf)>,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Files::default();
    files.add_result(folder, record)?;
    files.add_report(folder, &html::simulation(record, command_line()))?;
    let mut written = Vec::new();
    if let Some((trace, path)) = trace {
        trace.finish()?;
        written.push(path);
    }
    written.extend(files.commit()?);
    Ok(written)
}

/// One run, which reports how far it is.
fn simulate(
    args: &SimArgs,
    scenario: &Scenario,
    mut observer: Option<&mut TraceFile>,
    (stop, progress): (&AtomicBool, &Progress),
) -> RunRecord {
    let page = args.out.as_ref().map(|_| TimelineOptions::default());
    let options = RecordOptions { timeline: args.why.map(|_| why::timeline()).or(page) };
    let seed = args.seed.unwrap_or(scenario.seed());
    timed::run(scenario, seed, options, &mut observer, |now| {
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
