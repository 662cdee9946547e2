//! Files that are complete or absent.
//!
//! The content goes to a temporary file in the same directory, which is renamed at the end. Until then an earlier file of the
//! same name remains.
//!
//! # Example
//!
//! ```
//! use std::io::Write;
//! use giusto::whole_file::{Content, WholeFile};
//!
//! # let folder = std::env::temp_dir().join(format!("giusto-whole-file-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! let path = folder.join("result.json");
//! let mut file = WholeFile::create(&path, Content::RESULT)?;
//! file.write_all(b"{}")?;
//! assert!(!path.exists());
//! file.commit()?;
//! assert_eq!(std::fs::read(&path)?, b"{}");
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use tempfile::{NamedTempFile, TempPath};

pub use crate::unreadable::{read_bounded, read_bounded_text, unreadable};

/// The kind of a file, for error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// The kind: `report`.
    pub name: &'static str,
    /// An example of a name: `report.html`.
    pub example: &'static str,
}

impl Content {
    /// An HTML page.
    pub const REPORT: Self = Self { name: "report", example: "report.html" };
    /// The events of a run.
    pub const TRACE: Self = Self { name: "trace", example: "trace.parquet" };
    /// The input and the output of the controller of a session.
    pub const SESSION_LOG: Self = Self { name: "session log", example: "session.jsonl" };
    /// The events of a run for a trace viewer.
    pub const CHROME_TRACE: Self = Self { name: "Chrome trace", example: "trace.json" };
    /// Packets in pcapng.
    pub const CAPTURE: Self = Self { name: "capture", example: "call.pcapng" };
    /// A result in JSON.
    pub const RESULT: Self = Self { name: "result", example: "result.json" };
}

/// Why a file could not be written. The text names the path and the fix.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct WriteError {
    /// The path as given.
    path: PathBuf,
    problem: String,
    source: Option<io::Error>,
}

impl WriteError {
    /// The error of writing `content` to `path`.
    pub fn io(path: &Path, content: Content, source: io::Error) -> Self {
        let fix = match source.kind() {
            io::ErrorKind::NotFound if !path.parent().is_some_and(Path::is_dir) => {
                "create the directory first"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "choose a directory that you may write to"
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free some space or choose another disk"
            }
            _ => "choose another place",
        };
        let problem = format!("cannot write the {}: {source}: {fix}", content.name);
        Self { path: path.to_owned(), problem, source: Some(source) }
    }
}

/// A file under construction. It appears with [`commit`](Self::commit); dropped before, it leaves nothing.
///
/// A device or a pipe, such as `/dev/null`, is written in place.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    content: Content,
    file: BufWriter<File>,
    /// `None` where it is written in place.
    temporary: Option<TempPath>,
}

impl WholeFile {
    /// Begins a file of kind `content` at `path`.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn create(path: &Path, content: Content) -> Result<Self, WriteError> {
        let unusable = |problem| WriteError { path: path.to_owned(), problem, source: None };
        if path.is_dir() {
            let example = path.join(content.example);
            let problem = format!("this is a directory: give a file in it, such as {}", example.display());
            return Err(unusable(problem));
        }
        let (Some(_), Some(directory)) = (path.file_name(), path.parent()) else {
            return Err(unusable(format!("expected a file name, such as {}", content.example)));
        };
        let opened = if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            File::options().write(true).open(path).map(|file| (file, None))
        } else {
            let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
            // Not `tempfile_in`, whose files only their owner may read.
            let temporary = tempfile::Builder::new().make_in(directory, |path| File::create_new(path));
            temporary.map(NamedTempFile::into_parts).map(|(file, path)| (file, Some(path)))
        };
        let (file, temporary) = opened.map_err(|source| WriteError::io(path, content, source))?;
        Ok(Self { path: path.to_owned(), content, file: BufWriter::new(file), temporary })
    }

    /// Makes it appear under its name, in place of an earlier file; returns its path.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn commit(mut self) -> Result<PathBuf, WriteError> {
        let done = self.file.flush().and_then(|()| match self.temporary {
            Some(temporary) => temporary.persist(&self.path).map_err(|error| error.error),
            None => Ok(()),
        });
        match done {
            Ok(()) => Ok(self.path),
            Err(source) => Err(WriteError::io(&self.path, self.content, source)),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file of `bytes` that has yet to appear.
///
/// # Errors
///
/// [`WriteError`] names the path and the fix.
pub fn prepare(path: &Path, content: Content, bytes: &[u8]) -> Result<WholeFile, WriteError> {
    let mut file = WholeFile::create(path, content)?;
    file.write_all(bytes).map_err(|source| WriteError::io(path, content, source))?;
    Ok(file)
}

/// Writes `bytes` to `path`, completely or not at all.
///
/// # Errors
///
/// [`WriteError`] names the path and the fix.
pub fn write(path: &Path, content: Content, bytes: &[u8]) -> Result<(), WriteError> {
    prepare(path, content, bytes)?.commit().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_file_appears_complete_and_alone_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        fs::write(&path, "old").unwrap();
        let mut dropped = WholeFile::create(&path, Content::TRACE).unwrap();
        dropped.write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!((fs::read(&path).unwrap(), entries(folder.path())), (b"old".to_vec(), 1));
        let mut file = WholeFile::create(&path, Content::REPORT).unwrap();
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
        assert_eq!((fs::read(&path).unwrap(), entries(folder.path())), (b"old".to_vec(), 2));
        file.commit().unwrap();
        assert_eq!((fs::read(&path).unwrap(), entries(folder.path())), (b"new".to_vec(), 1));
    }

    #[test]
    fn a_failed_write_names_the_path_and_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| write(path, Content::REPORT, b"new").unwrap_err().to_string();
        assert!(message(folder.path()).contains("this is a directory: give a file in it"));
        assert!(message(Path::new("")).contains("expected a file name, such as report.html"));
        let missing = folder.path().join("missing").join("report.html");
        let text = message(&missing);
        assert!(text.starts_with(&missing.display().to_string()), "{text}");
        assert!(text.ends_with("create the directory first"), "{text}");
        let full = WriteError::io(&missing, Content::TRACE, io::ErrorKind::StorageFull.into()).to_string();
        assert!(full.contains("cannot write the trace") && full.ends_with("choose another disk"), "{full}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_written_in_place() {
        write(Path::new("/dev/null"), Content::RESULT, b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        // This device is always full.
        let full = write(Path::new("/dev/full"), Content::RESULT, b"too much").unwrap_err().to_string();
        assert!(full.ends_with("free some space or choose another disk"), "{full}");
    }
}
