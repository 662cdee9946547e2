//! `giusto replay`: a recorded session through any controllers.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::Args;
use giusto_congestion::Algorithm;

use crate::{
    command_line,
    console::{self, TableArgs, print_json, print_text},
    usage::{UsageError, misuse},
};
use giusto::{
    replay::{self, Entry, Event, ReadError, Recording, ReplayOptions, SessionInfo, Step},
    run::comparison::Controllers,
    scenario::controller,
    view::{decision::cause_name, html, replay::text},
    whole_file::{Content, WholeFile, WriteError},
};

/// Flags of `giusto replay`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto sim media --session-log call.jsonl
  giusto replay call.jsonl
  giusto replay call.jsonl --controller gcc:libwebrtc,scream:v2 --out replay.html
  giusto replay call.jsonl --controller all --json
  giusto replay event_log_20261122_1413_6_1.log --controller gcc:libwebrtc

FILE is a session log, or an RTC event log that Chromium wrote with --webrtc-event-logging. Without --controller, the \
recorded controller is replayed, which must make the same decisions again. A replay is open loop: the recorded history \
does not react to the replayed controllers.
Exit status: 0 success; 1 failure, also if the recorded controller decides differently; 2 wrong usage.")]
pub(crate) struct ReplayArgs {
    /// Recorded session: a file of --session-log, or an RTC event log of Chromium
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Congestion controllers, comma-separated, or all; nada+kappa=0.4 or a file tuned.toml set constants [default: the recorded one]
    #[arg(long, value_name = "A,B,C", value_parser = Controllers::load)]
    controller: Option<Controllers>,

    /// Targets are apart when they differ by more than this share of the recorded one
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = share)]
    apart: f64,

    /// Write a page with the target rates over time and the delay
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write every target and every decision to this CSV file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    #[command(flatten)]
    tables: TableArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A share, such as 10% or 0.1.
fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let share = number.trim().parse::<f64>().ok().map(|number| number / scale);
    share
        .filter(|share| (0.0..=10.0).contains(share))
        .ok_or_else(|| format!("\"{text}\" is not a share: write one such as 10% or 0.1"))
}

pub(crate) fn run(args: &ReplayArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    if let Some(out) = &args.out {
        console::check_file("--out", out, Content::REPORT)?;
    }
    let mut recording = replay::open(&args.file).map_err(UsageError::new)?;
    let controllers = controllers(args, recording.info())?;
    let options = ReplayOptions { controllers, apart_above: args.apart };
    let mut trace = args.trace.as_deref().map(Trace::create).transpose()?;
    let mut until_stopped = UntilStopped { recording: recording.as_mut(), stop };
    let replayed = replay::replay(&mut until_stopped, &options, &mut |step| {
        if let Some(trace) = &mut trace {
            trace.write(step);
        }
    });
    let mut replayed = replayed?;
    // One that fails costs the others nothing.
    let traced = trace.map(Trace::finish).transpose();
    let reported =
        args.out.as_ref().map(|out| html::replay(&replayed, command_line()).write(out).map(|()| out.clone()));
    let written = [traced, reported.transpose()];
    if args.json {
        replayed.timeline = None;
        print_json(&replayed)?;
    } else {
        print_text(&text(&replayed, args.tables.width()))?;
    }
    for path in written {
        if let Some(path) = path? {
            console::complain(&format!("wrote {}", path.display()));
        }
    }
    let differs = replayed.controllers.iter().any(|controller| controller.identical == Some(false));
    Ok(if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn controllers(args: &ReplayArgs, info: &SessionInfo) -> Result<Vec<Algorithm>, UsageError> {
    if let Some(chosen) = &args.controller {
        return Ok(chosen.0.clone());
    }
    match controller(&info.controller) {
        Ok(recorded) if !info.lacks.calls => Ok(vec![recorded]),
        _ => {
            let problem = format!("the recorded controller, {}, is not one of giusto's", info.controller);
            let fix = "choose with --controller, such as --controller gcc:libwebrtc";
            Err(UsageError::new(format!("{problem}: {fix}")))
        }
    }
}

/// A recording that ends with the first Ctrl-C.
struct UntilStopped<'a> {
    recording: &'a mut dyn Recording,
    stop: &'a AtomicBool,
}

impl Recording for UntilStopped<'_> {
    fn info(&self) -> &SessionInfo {
        self.recording.info()
    }

    fn next_entry(&mut self) -> Result<Option<Entry>, ReadError> {
        if self.stop.load(Ordering::Relaxed) { Ok(None) } else { self.recording.next_entry() }
    }

    fn shortened(&self) -> Option<String> {
        if self.stop.load(Ordering::Relaxed) {
            return Some("the replay was ended early".to_owned());
        }
        self.recording.shortened()
    }
}

/// Targets and decisions as CSV.
struct Trace {
    path: PathBuf,
    file: WholeFile,
    failed: Option<std::io::Error>,
}

impl Trace {
    fn create(path: &Path) -> anyhow::Result<Self> {
        if path.extension().is_none_or(|extension| extension != "csv") {
            misuse!("--trace {}: the trace is CSV: let the name end in .csv", path.display());
        }
        let create = WholeFile::create(path, Content::TRACE);
        let file = create.map_err(|error| UsageError::of_file("--trace", error))?;
        let mut trace = Self { path: path.to_owned(), file, failed: None };
        trace.line("time_ns,controller,event,target_bps,pacing_bps,window_bytes,from_bps,to_bps,cause\n");
        Ok(trace)
    }

    fn write(&mut self, step: &Step<'_>) {
        let (at, name) = (step.at.as_nanos(), step.controller.unwrap_or("recorded"));
        let line = match step.change {
            Event::Target(target) => {
                let window = target.window.map_or(String::new(), |window| window.as_bytes().to_string());
                let (media, pacing) = (target.media.as_bps(), target.pacing.as_bps());
                format!("{at},{name},target,{media},{pacing},{window},,,\n")
            }
            Event::Decision(decision) => {
                let (from, to) = (decision.from.as_bps(), decision.to.as_bps());
                format!("{at},{name},decision,,,,{from},{to},{}\n", cause_name(&decision.cause))
            }
            _ => return,
        };
        self.line(&line);
    }

    fn line(&mut self, line: &str) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(line.as_bytes()).err();
        }
    }

    fn finish(self) -> Result<PathBuf, WriteError> {
        match self.failed {
            Some(source) => Err(WriteError::io(&self.path, Content::TRACE, source)),
            None => self.file.commit(),
        }
    }
}
