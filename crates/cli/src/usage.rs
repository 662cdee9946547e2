//! Errors of usage.

use std::{
    error::Error,
    io::{self, ErrorKind},
    iter,
    path::{Path, PathBuf, absolute},
};

use clap::ArgMatches;
use giusto::{measured::plan::StreamPlanError, scenario::ScenarioError};

/// A flag, an address or a file that cannot be used: the command ends with exit status 2.
///
/// The text names the flag, the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct UsageError {
    text: String,
    /// Nothing is wrong but that a disk is full, which is a failure.
    is_full: bool,
}

impl UsageError {
    /// An error with this text.
    #[expect(clippy::needless_pass_by_value, reason = "errors are passed by `map_err`")]
    pub(crate) fn new(text: impl ToString) -> Self {
        Self { text: text.to_string(), is_full: false }
    }

    /// The file of a flag cannot be written.
    pub(crate) fn of_file(flag: &str, error: impl Error + 'static) -> Self {
        let causes = iter::successors(Some(&error as &(dyn Error + 'static)), |&error| error.source());
        let is_full = causes.into_iter().any(|error| {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
        });
        Self { text: format!("{flag} {error}"), is_full }
    }

    /// The exit status of the command.
    pub(crate) const fn status(&self) -> u8 {
        if self.is_full { 1 } else { 2 }
    }
}

/// Returns a [`UsageError`] with the formatted text.
macro_rules! misuse {
    ($($text:tt)*) => {
        return Err($crate::usage::UsageError::new(format!($($text)*)).into())
    };
}
pub(crate) use misuse;

/// Flags whose files are written.
const WRITTEN: &[&str] =
    &["out", "trace", "session_log", "pcap", "chrome_trace", "save", "markdown", "database"];

/// Checks that no file is written twice, or read and written.
pub(crate) fn check_files(given: &ArgMatches) -> Result<(), UsageError> {
    let files: Vec<(&str, &Path)> = given
        .ids()
        .filter_map(|id| Some((id.as_str(), given.try_get_many::<PathBuf>(id.as_str()).ok()??)))
        .flat_map(|(id, paths)| paths.map(move |path| (id, path.as_path())))
        .collect();
    for (flag, path) in files.iter().filter(|(flag, _)| WRITTEN.contains(flag)) {
        // Devices take anything, and folders have other files in them.
        let is_new = !path.exists();
        let place = |path: &Path| path.canonicalize().or_else(|_| absolute(path));
        let same = |other: &Path| matches!((place(other), place(path)), (Ok(a), Ok(b)) if a == b);
        let clash = files.iter().find(|(other, at)| {
            other != flag && same(at) && (path.is_file() || (is_new && WRITTEN.contains(other)))
        });
        if clash.is_some() {
            let (flag, path) = (flag.replace('_', "-"), path.display());
            return Err(UsageError::new(format!("--{flag} {path}: this file is in use twice: give another")));
        }
    }
    Ok(())
}

impl From<ScenarioError> for UsageError {
    fn from(error: ScenarioError) -> Self {
        Self::new(error.problems().join("\nerror: "))
    }
}

impl From<StreamPlanError> for UsageError {
    fn from(error: StreamPlanError) -> Self {
        let flag = match &error {
            StreamPlanError::PayloadTooSmall { .. }
            | StreamPlanError::PayloadTooLarge { .. }
            | StreamPlanError::StampSize { .. } => "--size: ",
            _ => "",
        };
        Self::new(format!("{flag}{error}"))
    }
}
