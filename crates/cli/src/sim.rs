//! `giusto sim`: one run of a scenario, or one of each of several.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::Args;
use giusto_congestion::Algorithm;
use giusto_units::Timestamp;
use serde::Serialize;

use crate::{
    args::{time, whole},
    command_line,
    console::{Progress, TableArgs, print_json, print_text},
    live_page::{LivePage, LivePageArgs},
    usage::{UsageError, misuse},
};
use giusto::{
    capture::{ChromeTrace, OutputError, Outputs},
    city::CityRun,
    explore,
    record::{RunRecord, TimelineOptions},
    run::{RecordOptions, timed},
    scenario::{CityScenario, Scenario, ScenarioError, Setting, load_controller},
    trace::Observer,
    view::{
        city,
        files::Files,
        html, tables,
        trace::{TraceFile, TraceNames},
        why::{self, Why},
    },
    whole_file::{Content, WholeFile},
};

/// Flags of `giusto sim`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto sim first
  giusto sim codel --set bottleneck.rate=2M --set tcp.count=3 --seed 7
  giusto sim codel --out codel --trace csv
  giusto sim media --controller tuned.toml
  giusto sim mine/*.toml --json
  giusto sim media --why 12.3s
  giusto sim media --pcap call.pcapng --chrome-trace call.json
  giusto sim media --session-log call.jsonl && giusto replay call.jsonl --controller scream:v2
  giusto sim rfc8869/2.1-downlink --set city.users-per-cell=7 --set city.controller=scream:v2

Exit status: 0 all expectations are met, 1 an expectation is not met, 2 the scenario cannot be used.
docs/reference/scenario.md lists what --set can change.")]
pub(crate) struct SimArgs {
    /// Scenario files, or names of built-in scenarios
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Random seed [default: that of the scenario]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0, u64::MAX))]
    seed: Option<u64>,

    /// Change a value of the scenario, such as link.bottleneck.rate=5M, tcp.count=3 or duration=10s; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Setting>,

    /// Congestion controller of all media flows, or of --flow: a name, such as nada+kappa=0.4, or a file of constants, such as tuned.toml
    #[arg(long, value_name = "NAME", value_parser = load_controller)]
    controller: Option<Algorithm>,

    /// Write result.json and report.html to this directory; with several scenarios, to a subdirectory for each
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    live_page: LivePageArgs,

    /// Also write every event to a file in the directory of --out
    #[arg(long, value_name = "FORMAT", requires = "out", value_parser = ["csv", "parquet"])]
    trace: Option<String>,

    /// Explain the target rates of media flows at this time: the decisions around it with their causes, the rates, and the
    /// queueing delay
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = moment)]
    why: Option<Timestamp>,

    /// With --why: explain this flow only. With --session-log: record the controller of this flow. With --controller: of this flow
    #[arg(long, value_name = "ID")]
    flow: Option<String>,

    /// Record the input and the output of the controller of a media flow, for `giusto replay`
    #[arg(long, value_name = "FILE")]
    session_log: Option<PathBuf>,

    /// Capture the packets of media flows, at the sender, in pcapng for Wireshark
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,

    /// Write the run as a Chrome trace, which ui.perfetto.dev opens: rates, delays, decisions and frames
    #[arg(long, value_name = "FILE")]
    chrome_trace: Option<PathBuf>,

    #[command(flatten)]
    tables: TableArgs,

    /// Print one JSON object; with several scenarios, {"runs": […]}
    #[arg(long)]
    json: bool,
}

/// What a file describes.
#[derive(Debug)]
enum Planned {
    Network(Scenario),
    City(Box<CityScenario>),
}

impl Planned {
    fn name(&self) -> &str {
        match self {
            Self::Network(scenario) => scenario.name(),
            Self::City(scenario) => &scenario.name,
        }
    }
}

/// The result of a run.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Finished {
    Network(Box<RunRecord>),
    City(Box<CityRun>),
}

impl Finished {
    fn tables(&self, width: u16) -> String {
        match self {
            Self::Network(record) => tables::tables(record, width),
            Self::City(run) => city::tables(run, width),
        }
    }

    fn passed(&self) -> bool {
        match self {
            Self::Network(record) => record.passed(),
            Self::City(run) => run.passed(),
        }
    }
}

/// What the runs have in common.
#[derive(Debug)]
struct Context<'a> {
    args: &'a SimArgs,
    progress: &'a Progress,
    stop: &'a AtomicBool,
}

impl Context<'_> {
    /// Shows how far a run is; returns whether it is to end.
    fn ends(&self, name: &str, now: Timestamp, end: Timestamp) -> bool {
        self.progress.say(format!("{name}: {:.1} of {} s", now.as_seconds(), end.as_seconds()));
        self.stop.load(Ordering::Relaxed)
    }
}

pub(crate) fn run(args: &SimArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    if args.live_page.is_given() && args.files.iter().any(|file| file.as_os_str() == "-") {
        misuse!("--live-page needs a scenario with a name, found standard input: write it to a file");
    }
    // All scenarios are read before the first run, so that errors are reported at once.
    let planned = scenarios(args)?;
    check_cities(args, &planned)?;
    check_why(args, &planned)?;
    check_recordings(args, &planned)?;
    let live_pages = args.files.iter().map(|file| live_page(file, args)).collect::<Result<Vec<_>, _>>()?;
    let folders = args.out.as_ref().map_or(Ok(Vec::new()), |out| folders(out, &planned))?;
    let progress = Progress::live();
    let context = Context { args, progress: &progress, stop };
    let (mut results, mut written, mut answer) = (Vec::new(), Vec::new(), None);
    for (place, planned) in planned.iter().enumerate() {
        let folder = folders.get(place).map(PathBuf::as_path);
        let result = match planned {
            Planned::Network(scenario) => {
                let (record, why) = network(&context, scenario, folder, &mut written)?;
                answer = why;
                Finished::Network(Box::new(record))
            }
            Planned::City(scenario) => {
                Finished::City(Box::new(self::city(&context, scenario, folder, &mut written)?))
            }
        };
        results.push(result);
        if let (Some(Some(page)), Some(folder)) = (live_pages.get(place), folder) {
            written.push(page.write(folder)?);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    progress.clear();
    match (&results[..], answer) {
        (_, Some(answer)) if args.json => print_json(&answer)?,
        (_, Some(answer)) => print_text(&answer.in_words())?,
        ([result], None) if args.json => print_json(result)?,
        (results, None) if args.json => print_json(&giusto::order::map([("runs", results)]))?,
        (results, None) => {
            let tables: Vec<String> =
                results.iter().map(|result| result.tables(args.tables.width())).collect();
            print_text(&tables.join("\n\n"))?;
        }
    }
    for path in &written {
        progress.wrote(path);
    }
    let unmet = results.iter().filter(|result| !result.passed()).count();
    if unmet > 0 && results.len() > 1 {
        progress.note(&format!("{unmet} of {} scenarios did not meet their expectations", results.len()));
    }
    Ok(if unmet > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The page on which readers change the scenario of `file`, if one is asked for.
fn live_page(file: &Path, args: &SimArgs) -> anyhow::Result<Option<LivePage>> {
    if !args.live_page.is_given() {
        return Ok(None);
    }
    let document = explore::load(file).map_err(UsageError::from)?;
    let mut settings = args.set.clone();
    let mut controllers = Vec::new();
    match (args.controller, &args.flow) {
        (None, _) => {}
        (Some(own), None) => controllers.push(own.name().to_owned()),
        (Some(own), Some(flow)) => {
            settings.push(Setting { path: format!("flow.{flow}.controller"), value: own.name().to_owned() });
        }
    }
    args.live_page.page(document, &settings, args.seed, controllers)
}

/// Runs links and flows; adds the files written. With --why, the answer.
fn network(
    context: &Context<'_>,
    scenario: &Scenario,
    folder: Option<&Path>,
    written: &mut Vec<PathBuf>,
) -> anyhow::Result<(RunRecord, Option<Why>)> {
    let Context { args, progress, .. } = context;
    let page = args.out.as_ref().map(|_| TimelineOptions::default());
    let options = RecordOptions { timeline: args.why.map(|_| why::timeline()).or(page) };
    let path = folder.zip(args.trace.as_ref()).map(|(folder, format)| folder.join(format!("trace.{format}")));
    let open = |path: PathBuf| anyhow::Ok((TraceFile::create(&path, TraceNames::of(scenario))?, path));
    let mut trace = path.map(open).transpose()?;
    let chrome = args.chrome_trace.as_deref().map(|path| {
        let created = ChromeTrace::create(path, TraceNames::of(scenario));
        created.map_err(|error| UsageError::of_file("--chrome-trace", error))
    });
    let mut chrome = chrome.transpose()?;
    let mut observers = (trace.as_mut().map(|(trace, _)| trace), chrome.as_mut());
    // That of films is of this type, too.
    let mut observer: &mut dyn Observer = &mut observers;
    let seed = args.seed.unwrap_or(scenario.seed());
    let mut outputs = outputs(args, scenario)?;
    let ends = |now| context.ends(scenario.name(), now, scenario.end());
    let mut record = timed::run_with(scenario, seed, options, &mut outputs, &mut observer, ends);
    let (paths, mut notes) = outputs.finish()?;
    written.extend(paths);
    if let Some(chrome) = chrome {
        let (path, note) = chrome.finish()?;
        written.push(path);
        notes.extend(note);
    }
    notes.extend(record.notes.iter().map(|note| format!("note: {note}")));
    for note in &notes {
        progress.note(note);
    }
    let mut answer = None;
    if let Some(at) = args.why {
        why::check_ended(&record, at).map_err(anyhow::Error::msg)?;
        answer = Some(why::why(&record, at, args.flow.as_deref()));
    }
    if let Some(folder) = folder {
        written.extend(write(&record, folder, trace)?);
    }
    record.timeline = None;
    Ok((record, answer))
}

/// Runs a city; adds the files written.
fn city(
    context: &Context<'_>,
    scenario: &CityScenario,
    folder: Option<&Path>,
    written: &mut Vec<PathBuf>,
) -> anyhow::Result<CityRun> {
    let seed = context.args.seed.unwrap_or(scenario.spec.config.seed);
    let end = giusto::city::end(&scenario.spec);
    let ends = |now| context.ends(&scenario.name, now, end);
    let (run, log) = giusto::city::timed(scenario, seed, ends)?;
    if let Some(folder) = folder {
        let mut files = Files::default();
        files.add_result(folder, &run)?;
        let title = format!("giusto sim: {}", run.scenario);
        files.add_report(folder, &html::city(&run.city, &log, title, command_line()))?;
        written.extend(files.commit()?);
    }
    Ok(run)
}

/// Reads all scenarios, or reports all errors in them.
fn scenarios(args: &SimArgs) -> Result<Vec<Planned>, UsageError> {
    let read = |file: &PathBuf| {
        let document = explore::load(file)?;
        if document.is_city() {
            let name =
                |own: Algorithm| Setting { path: "city.controller".to_owned(), value: own.name().to_owned() };
            let settings: Vec<Setting> = args.set.iter().cloned().chain(args.controller.map(name)).collect();
            document.city(&settings).map(|city| Planned::City(Box::new(city)))
        } else {
            with_controller(document.scenario(&args.set)?, args).map(Planned::Network)
        }
    };
    let mut problems = Vec::new();
    let mut scenarios = Vec::new();
    for file in &args.files {
        match read(file) {
            Ok(scenario) => scenarios.push(scenario),
            Err(error) => problems.extend(error.problems().to_vec()),
        }
    }
    if problems.is_empty() { Ok(scenarios) } else { Err(UsageError::new(problems.join("\nerror: "))) }
}

/// The scenario with the controller of --controller, if there is one.
fn with_controller(scenario: Scenario, args: &SimArgs) -> Result<Scenario, ScenarioError> {
    match (args.controller, &args.flow) {
        (None, _) => Ok(scenario),
        (Some(controller), Some(flow)) => scenario.with_controller(flow, controller),
        (Some(controller), None) => scenario.with_controller_of_all(controller),
    }
}

/// Checks that nothing is asked of a city that only links and flows have.
fn check_cities(args: &SimArgs, planned: &[Planned]) -> Result<(), UsageError> {
    let flags = [
        ("--why", args.why.is_some()),
        ("--live-page", args.live_page.is_given()),
        ("--flow", args.flow.is_some()),
        ("--trace", args.trace.is_some()),
        ("--session-log", args.session_log.is_some()),
        ("--pcap", args.pcap.is_some()),
        ("--chrome-trace", args.chrome_trace.is_some()),
    ];
    let is_city = |planned: &&Planned| matches!(planned, Planned::City(_));
    let Some(city) = planned.iter().find(is_city) else { return Ok(()) };
    if let Some((flag, _)) = flags.iter().find(|(_, given)| *given) {
        misuse!("{flag}: \"{}\" is a city, of which it is not recorded: remove the flag", city.name());
    }
    Ok(())
}

/// A time since the start of a run.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    if text.trim_start().starts_with('-') {
        return Err("it lies before the start: use \"0 s\" or later".to_owned());
    }
    Ok(Timestamp::ZERO + time(text)?)
}

/// Checks that --why can be answered.
fn check_why(args: &SimArgs, planned: &[Planned]) -> Result<(), UsageError> {
    let Some(at) = args.why else { return Ok(()) };
    let [Planned::Network(scenario)] = planned else {
        misuse!("--why looks into one scenario: give one FILE")
    };
    why::check(scenario, at, args.flow.as_deref()).map_err(UsageError::new)
}

/// Checks that the files of one run are asked of one run.
fn check_recordings(args: &SimArgs, planned: &[Planned]) -> Result<(), UsageError> {
    if args.flow.is_some() && args.why.is_none() && args.session_log.is_none() && args.controller.is_none() {
        misuse!("--flow: it chooses a flow for --why, --session-log or --controller: give one of them");
    }
    let files = [
        ("--session-log", &args.session_log),
        ("--pcap", &args.pcap),
        ("--chrome-trace", &args.chrome_trace),
    ];
    for (flag, file) in files {
        if file.is_some() && planned.len() != 1 {
            misuse!("{flag}: the file is of one scenario: give one FILE");
        }
    }
    Ok(())
}

/// Opens the files that are written during a run.
fn outputs(args: &SimArgs, scenario: &Scenario) -> Result<Outputs, UsageError> {
    let mut outputs = Outputs::new();
    if let Some(path) = &args.session_log {
        let with = outputs.with_session_log(path, scenario, args.flow.as_deref());
        outputs = with.map_err(|error| unusable("--session-log", error))?;
    }
    if let Some(path) = &args.pcap {
        let with = outputs.with_capture(path, scenario);
        outputs = with.map_err(|error| unusable("--pcap", error))?;
    }
    Ok(outputs)
}

fn unusable(flag: &str, error: OutputError) -> UsageError {
    match error {
        OutputError::Write(error) => UsageError::of_file(flag, error),
        error => UsageError::new(format!("{flag}: {error}")),
    }
}

/// Writes all files, or none; returns their paths.
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

/// Makes the directory of each result.
fn folders(out: &Path, planned: &[Planned]) -> anyhow::Result<Vec<PathBuf>> {
    make_folder(out)?;
    if planned.len() == 1 {
        return Ok(vec![out.to_owned()]);
    }
    let mut folders = Vec::new();
    for name in planned.iter().map(Planned::name) {
        let folder = out.join(name);
        if folders.contains(&folder) {
            misuse!("--out: two scenarios are called \"{name}\": give each a name of its own");
        }
        make_folder(&folder)?;
        folders.push(folder);
    }
    Ok(folders)
}

/// Makes the directory `folder` unless it exists, and checks that files can be written to it.
pub(crate) fn make_folder(folder: &Path) -> anyhow::Result<()> {
    let place = folder.display();
    if folder.is_dir() {
        let result = folder.join("result.json");
        let unusable = |error| UsageError::of_file("--out", error);
        return Ok(WholeFile::create(&result, Content::RESULT).map(drop).map_err(unusable)?);
    }
    if folder.exists() {
        misuse!("--out {place}: this is a file: give a folder");
    }
    fs::create_dir_all(folder).map_err(|error| {
        let problem = format!("--out {place}: cannot make the folder: {error}");
        if error.kind() == ErrorKind::StorageFull {
            anyhow::anyhow!("{problem}: free some space or choose another disk")
        } else {
            UsageError::new(format!("{problem}: choose a place that you may write to")).into()
        }
    })
}
