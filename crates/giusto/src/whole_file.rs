//! Files that appear whole or not at all.
//!
//! What is written goes to a temporary name in the same folder and is renamed at the end: nobody ever sees half a file under
//! the name that was asked for, and what was there before stays until then.
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
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// What a file holds, for the sentences that tell why it could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// What it is: `report`.
    pub name: &'static str,
    /// A name that such a file could have: `report.html`.
    pub example: &'static str,
}

impl Content {
    /// A page.
    pub const REPORT: Self = Self { name: "report", example: "report.html" };
    /// What happened, event by event.
    pub const TRACE: Self = Self { name: "trace", example: "trace.parquet" };
    /// Figures.
    pub const RESULT: Self = Self { name: "result", example: "result.json" };
}

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The path names no file: it is empty, or ends in `..` or `/`.
    #[error("{}: this names no file: give a file name, such as {}", path.display(), content.example)]
    NoFileName {
        /// The path as given.
        path: PathBuf,
        /// What was to be written.
        content: Content,
    },
    /// The path is a directory.
    #[error("{}: this is a directory: give a file in it, such as {}", path.display(), path.join(content.example).display())]
    Directory {
        /// The path as given.
        path: PathBuf,
        /// What was to be written.
        content: Content,
    },
    /// The file could not be written.
    #[error("{}: cannot write the {}: {source}: {}", path.display(), content.name, mend(source.kind()))]
    Io {
        /// The path as given.
        path: PathBuf,
        /// What was to be written.
        content: Content,
        /// What the system said.
        source: io::Error,
    },
}

impl WriteError {
    /// The system refused to write `content` to `path`.
    pub fn io(path: &Path, content: Content, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), content, source }
    }
}

/// What to do about it.
const fn mend(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => "create the directory first",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a directory that you may write to"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space or choose another disk",
        _ => "choose another place",
    }
}

/// A file under construction. It is there once [`commit`](Self::commit) has succeeded; dropped before, it leaves nothing.
///
/// Writing to what is no file of its own, such as `/dev/null` or a pipe, goes there at once.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    content: Content,
    /// None: it is written in place, or it is done.
    temporary: Option<PathBuf>,
    file: BufWriter<File>,
}

impl WholeFile {
    /// Begins a file that shall hold `content` under `path`.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path, and what to do.
    pub fn create(path: &Path, content: Content) -> Result<Self, WriteError> {
        if path.is_dir() {
            return Err(WriteError::Directory { path: path.to_owned(), content });
        }
        let Some(name) = path.file_name() else {
            return Err(WriteError::NoFileName { path: path.to_owned(), content });
        };
        let in_place = fs::metadata(path).is_ok_and(|there| !there.is_file());
        let temporary = (!in_place).then(|| {
            let mut hidden = OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}.part", std::process::id()));
            path.with_file_name(hidden)
        });
        let opened = match &temporary {
            Some(temporary) => File::create(temporary),
            None => File::options().write(true).open(path),
        };
        let file = opened.map_err(|source| WriteError::io(path, content, source))?;
        Ok(Self { path: path.to_owned(), content, temporary, file: BufWriter::new(file) })
    }

    /// Lets it appear under its name, in place of what was there.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path, and what to do.
    pub fn commit(mut self) -> Result<(), WriteError> {
        let done = self.file.flush().and_then(|()| match &self.temporary {
            Some(temporary) => fs::rename(temporary, &self.path),
            None => Ok(()),
        });
        done.map_err(|source| WriteError::io(&self.path, self.content, source))?;
        self.temporary = None;
        Ok(())
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

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // What is left of a failed write is of no use to anyone.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Writes `bytes` to `path`, whole or not at all.
///
/// # Errors
///
/// [`WriteError`] names the path, and what to do.
pub fn write(path: &Path, content: Content, bytes: &[u8]) -> Result<(), WriteError> {
    let mut file = WholeFile::create(path, content)?;
    file.write_all(bytes).map_err(|source| WriteError::io(path, content, source))?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_file_appears_whole_at_the_end_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        fs::write(&path, "old").unwrap();
        let mut file = WholeFile::create(&path, Content::REPORT).unwrap();
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
        assert_eq!((fs::read(&path).unwrap(), entries(folder.path())), (b"old".to_vec(), 2));
        file.commit().unwrap();
        assert_eq!((fs::read(&path).unwrap(), entries(folder.path())), (b"new".to_vec(), 1));
    }

    #[test]
    fn what_is_given_up_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        fs::write(&path, "old").unwrap();
        let mut file = WholeFile::create(&path, Content::TRACE).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!((fs::read(&path).unwrap(), entries(folder.path())), (b"old".to_vec(), 1));
    }

    #[test]
    fn a_failed_write_names_the_path_and_the_mend() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| write(path, Content::REPORT, b"new").unwrap_err().to_string();
        assert!(message(folder.path()).contains("this is a directory: give a file in it"));
        assert!(message(Path::new("")).contains("give a file name, such as report.html"));
        let missing = folder.path().join("missing").join("report.html");
        let text = message(&missing);
        assert!(text.starts_with(&missing.display().to_string()), "{text}");
        assert!(text.ends_with("create the directory first"), "{text}");
        let full = WriteError::io(&missing, Content::TRACE, io::ErrorKind::StorageFull.into()).to_string();
        assert!(full.contains("cannot write the trace") && full.ends_with("choose another disk"), "{full}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_no_file_of_its_own_is_written_in_place() {
        write(Path::new("/dev/null"), Content::RESULT, b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        // The device that is always full says so, and what to do.
        let full = write(Path::new("/dev/full"), Content::RESULT, b"too much").unwrap_err().to_string();
        assert!(full.ends_with("free some space or choose another disk"), "{full}");
    }
}
