//! The terminal: signals, progress, and where results go.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use giusto::error::UsageError;

/// Lets Ctrl-C and SIGTERM ask for the end of a run; a second one ends the program at once.
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
    let text = serde_json::to_string_pretty(value)?;
    print_text(&text)
}

/// Prints a result; a reader that has seen enough is no error.
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

/// Makes sure that a report can be put where it is wanted, before anything is measured for it.
///
/// # Errors
///
/// [`UsageError`] names the folder that is not there.
pub(crate) fn check_out(path: &Path) -> Result<(), UsageError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mend = "give a file in a folder that is there and can be written";
    if !folder.is_dir() {
        return Err(UsageError::new(format!(
            "--out {}: no folder {}: {mend}",
            path.display(),
            folder.display()
        )));
    }
    if path.is_dir() {
        return Err(UsageError::new(format!("--out {}: that is a folder: {mend}", path.display())));
    }
    Ok(())
}

/// How many columns a table may take: those of the terminal, or a page's.
pub(crate) fn width() -> u16 {
    const PAGE: u16 = 120;
    if io::stdout().is_terminal() { console::Term::stdout().size().1 } else { PAGE }
}

/// One line of progress on standard error; silent where that is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar of `steps` steps.
    pub(crate) fn new(steps: u64) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar }
    }

    /// A line without a bar.
    pub(crate) fn live() -> Self {
        let progress = Self::new(1);
        let style = ProgressStyle::with_template("{elapsed} {wide_msg}");
        progress.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        progress
    }

    /// What is being done.
    pub(crate) fn say(&self, message: impl Into<String>) {
        self.bar.set_message(message.into());
        self.bar.tick();
    }

    /// One step is done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// A line that stays, above the progress; standard error in any case.
    pub(crate) fn note(&self, line: &str) {
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
