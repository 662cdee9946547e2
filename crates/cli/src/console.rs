//! The terminal: signals, progress and results.

use std::{
    fs,
    io::{self, IsTerminal, Write},
    path::Path,
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::Args;
use giusto_net::Clock;
use giusto_units::{TimeDelta, Timestamp};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::usage::UsageError;
use giusto::{
    measured::result::{LiveFigures, RunResult},
    view::{
        format::{asked_rate, count, rate},
        table,
    },
    whole_file::{Content, WholeFile, WriteError},
};

/// Signals within this time are one request: `timeout` signals the program, and then its process group.
const ONE_REQUEST: TimeDelta = TimeDelta::from_millis(200);

/// Sets `stop` on Ctrl-C and SIGTERM; a second one ends the program at once.
///
/// # Errors
///
/// Where the system does not let signals be caught.
pub(crate) fn stop_on_signals(stop: Arc<AtomicBool>) -> Result<(), ctrlc::Error> {
    const INTERRUPTED: i32 = 130;
    let clock = Clock::start();
    let mut first = None;
    ctrlc::set_handler(move || {
        let now = clock.now();
        let repeated = now.saturating_since(*first.get_or_insert(now)) >= ONE_REQUEST;
        if stop.swap(true, Ordering::Relaxed) && repeated {
            std::process::exit(INTERRUPTED);
        }
    })
}

/// Prints one JSON object and nothing else.
///
/// # Errors
///
/// Where standard output cannot be written.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    shown(writeln!(io::stdout().lock(), "{}", giusto::json::pretty(value)?)).map(drop)
}

/// Prints a result; a closed pipe is no error.
///
/// # Errors
///
/// Where standard output cannot be written.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    print_live(text).map(drop)
}

/// Prints text at once; a closed pipe is no error. Returns whether standard output is open.
///
/// # Errors
///
/// Where standard output cannot be written.
pub(crate) fn print_live(text: &str) -> anyhow::Result<bool> {
    shown(writeln!(io::stdout().lock(), "{}", harmless(text.trim_end())))
}

/// Text without what a terminal would obey: names in files of others may hold control characters.
fn harmless(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && !matches!(letter, '\n' | '\t'), "")
}

/// Whether standard output is open, after `written` has gone there.
///
/// # Errors
///
/// Where it cannot be written.
pub(crate) fn shown(written: io::Result<()>) -> anyhow::Result<bool> {
    match written.and_then(|()| io::stdout().flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(anyhow::Error::from(error).context("standard output cannot be written")),
    }
}

/// Prints a line on standard error, which may be closed.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", harmless(line));
}

/// Prints the doubts about the figures that follow; with `json` they are part of the figures.
///
/// # Errors
///
/// Where standard output cannot be written.
pub(crate) fn print_doubts(runs: &[RunResult], json: bool) -> anyhow::Result<()> {
    for run in runs.iter().filter(|_| !json) {
        for doubt in &run.doubts {
            let name = if runs.len() > 1 {
                format!("{} at {}, ", run.sender(), asked_rate(run.rate_bps))
            } else {
                String::new()
            };
            print_text(&format!("warning: {name}{doubt}\n"))?;
        }
    }
    Ok(())
}

/// The line below a table whose runs were ended early.
pub(crate) fn interrupted(lines: usize, planned: usize) -> String {
    format!("interrupted: {lines} of {planned} lines; the last one may be of a part of its time")
}

/// The exit status of a measurement that came to its end.
pub(crate) fn measured(runs: &[RunResult]) -> ExitCode {
    status(runs.iter().any(|run| !run.doubts.is_empty()))
}

/// The exit status of a measurement that came to its end; `is_doubtful` if its figures cannot be trusted.
pub(crate) fn status(is_doubtful: bool) -> ExitCode {
    ExitCode::from(if is_doubtful { DOUBTFUL } else { 0 })
}

/// The exit status of a measurement whose figures cannot be trusted.
pub(crate) const DOUBTFUL: u8 = 3;

/// Checks before a run that its report can be written to `path`.
///
/// # Errors
///
/// [`UsageError`] names the flag, the path and the fix.
pub(crate) fn check_file(flag: &str, path: &Path, content: Content) -> Result<(), UsageError> {
    let checked = match fs::metadata(path) {
        // A device or a pipe: opening a pipe would wait for its reader.
        Ok(there) if !there.is_file() && !there.is_dir() => Ok(()),
        // It would be replaced: a file that may not be written is kept.
        Ok(there) if there.is_file() => fs::File::options()
            .append(true)
            .open(path)
            .map_err(|error| WriteError::io(path, content, error))
            .and_then(|_| WholeFile::create(path, content).map(drop)),
        _ => WholeFile::create(path, content).map(drop),
    };
    checked.map_err(|error| UsageError::of_file(flag, error))
}

/// The columns of tables.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct TableArgs {
    /// Print all columns of tables, also on a narrow terminal; files and pipes get all columns unless COLUMNS sets a width
    #[arg(long)]
    wide: bool,
}

impl TableArgs {
    /// The width of tables that go to standard output: COLUMNS, else that of the terminal; all columns where it is none.
    pub(crate) fn width(self) -> u16 {
        self.width_of(&console::Term::stdout())
    }

    /// The width of tables that go to standard error.
    pub(crate) fn width_of_errors(self) -> u16 {
        self.width_of(&console::Term::stderr())
    }

    fn width_of(self, terminal: &console::Term) -> u16 {
        if self.wide {
            return table::ALL;
        }
        let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let own = || terminal.is_term().then(|| terminal.size().1);
        asked.filter(|columns| *columns > 0).or_else(own).unwrap_or(table::ALL)
    }
}

/// Live figures in one line.
pub(crate) fn live_line(live: &LiveFigures) -> String {
    let gap = live.gap_error_p99.map_or_else(String::new, |gap| format!(", gap error p99 {gap:.1}"));
    let dropped = count(live.kernel_dropped_packets);
    let lost = match (live.lost_packets.map(count), live.kernel_dropped_packets) {
        (Some(lost), 0) => format!(", {lost} lost"),
        (Some(lost), _) => format!(", {lost} lost ({dropped} of them in the receiver's buffer)"),
        (None, 0) => String::new(),
        (None, _) => format!(", {dropped} lost in the receiver's buffer"),
    };
    format!("{}, {} received{lost}{gap}", rate(live.rate_bps), count(live.received_packets))
}

/// The time between two lines of progress.
const LINES: TimeDelta = TimeDelta::from_seconds(5);

/// One line of progress on standard error; hidden where that is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: Option<Lines>,
}

/// Lines of progress where there is no terminal.
#[derive(Debug)]
struct Lines {
    clock: Clock,
    latest: Mutex<Timestamp>,
}

impl Progress {
    /// A bar of `steps` steps.
    pub(crate) fn new(steps: u64) -> Self {
        Self::with_template(steps, "{bar:24} {pos}/{len} {elapsed} {wide_msg}")
    }

    /// A bar of `steps` steps for what takes minutes: where there is no terminal, a line every few seconds.
    pub(crate) fn with_lines(steps: u64) -> Self {
        let progress = Self::new(steps);
        let lines = progress.bar.is_hidden().then(|| {
            let clock = Clock::start();
            Lines { clock, latest: Mutex::new(clock.now()) }
        });
        Self { lines, ..progress }
    }

    /// A line without a bar.
    pub(crate) fn live() -> Self {
        Self::with_template(1, "{elapsed} {wide_msg}")
    }

    /// No line, only notes.
    pub(crate) fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), lines: None }
    }

    fn with_template(steps: u64, template: &str) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        Self { bar, lines: None }
    }

    /// Shows a message beside the bar.
    pub(crate) fn say(&self, message: impl Into<String>) {
        self.bar.set_message(message.into());
        self.bar.tick();
    }

    /// Advances the bar by one step.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
        let Some(Lines { clock, latest }) = &self.lines else { return };
        let now = clock.now();
        if let Ok(mut latest) = latest.try_lock()
            && now - *latest >= LINES
        {
            *latest = now;
            let (done, steps) = (self.bar.position(), self.bar.length().unwrap_or(0).max(1));
            complain(&format!("{} %: {}", done * 100 / steps, self.bar.message()));
        }
    }

    /// Prints a line above the bar; to standard error in any case.
    pub(crate) fn note(&self, line: &str) {
        if self.bar.is_hidden() {
            complain(line);
        } else {
            self.bar.println(harmless(line));
        }
    }

    /// Notes that a file was written.
    pub(crate) fn wrote(&self, path: &Path) {
        self.note(&format!("wrote {}", path.display()));
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
