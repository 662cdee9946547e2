//! The terminal: signals, progress and results.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::usage::UsageError;
use giusto::{
    measured::result::{LiveFigures, RunResult},
    view::format::{asked_rate, count, rate},
};

/// Sets `stop` on Ctrl-C and SIGTERM; the second signal ends the program at once.
///
/// # Errors
///
/// Where the system does not let signals be caught.
pub(crate) fn stop_on_signals(stop: Arc<AtomicBool>) -> Result<(), ctrlc::Error> {
    const INTERRUPTED: i32 = 130;
    ctrlc::set_handler(move || {
        if stop.swap(true, Ordering::Relaxed) {
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
    print_text(&serde_json::to_string_pretty(value)?)
}

/// Prints a result; a closed pipe is no error.
///
/// # Errors
///
/// Where standard output cannot be written.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout().lock(), "{}", text.trim_end()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// What speaks against the figures that follow, before these are printed; with `json` the figures have it.
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

/// The exit status of a measurement that came to its end.
pub(crate) fn measured(runs: &[RunResult]) -> ExitCode {
    ExitCode::from(if runs.iter().all(|run| run.doubts.is_empty()) { 0 } else { DOUBTFUL })
}

/// The exit status of a measurement whose figures cannot be trusted.
pub(crate) const DOUBTFUL: u8 = 3;

/// Checks before a run that its report can be written.
///
/// # Errors
///
/// [`UsageError`] names the directory that does not exist.
pub(crate) fn check_out(path: &Path) -> Result<(), UsageError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let problem = if !directory.is_dir() {
        format!("there is no directory {}", directory.display())
    } else if path.is_dir() {
        "this is a directory".to_owned()
    } else {
        return Ok(());
    };
    let fix = "give a file in a directory that exists";
    Err(UsageError::new(format!("--out {}: {problem}: {fix}", path.display())))
}

/// The width of a table: that of the terminal, or 120 columns.
pub(crate) fn width() -> u16 {
    const PAGE: u16 = 120;
    if io::stdout().is_terminal() { console::Term::stdout().size().1 } else { PAGE }
}

/// Live figures in one line.
pub(crate) fn live_line(live: &LiveFigures) -> String {
    let gap = live.gap_error_p99.map_or_else(String::new, |gap| format!(", gap error p99 {gap:.1}"));
    let [received, lost] = [live.received_packets, live.lost_packets].map(count);
    format!("{}, {received} received, {lost} lost{gap}", rate(live.rate_bps))
}

/// One line of progress on standard error; hidden where that is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar of `steps` steps.
    pub(crate) fn new(steps: u64) -> Self {
        Self::with_template(steps, "{bar:24} {pos}/{len} {elapsed} {wide_msg}")
    }

    /// A line without a bar.
    pub(crate) fn live() -> Self {
        Self::with_template(1, "{elapsed} {wide_msg}")
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
        Self { bar }
    }

    /// Shows a message beside the bar.
    pub(crate) fn say(&self, message: impl Into<String>) {
        self.bar.set_message(message.into());
        self.bar.tick();
    }

    /// Advances the bar by one step.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// Prints a line above the bar; to standard error in any case.
    pub(crate) fn note(&self, line: &str) {
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
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
