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
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

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
    /// A result in JSON.
    pub const RESULT: Self = Self { name: "result", example: "result.json" };
}

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The path names no file: it is empty, or ends in `..` or `/`.
    #[error("{}: expected a file name, such as {}", path.display(), content.example)]
    NoFileName {
        /// The path as given.
        path: PathBuf,
        /// The kind of the file.
        content: Content,
    },
    /// The path is a directory.
    #[error("{}: this is a directory: give a file in it, such as {}", path.display(), path.join(content.example).display())]
    Directory {
        /// The path as given.
        path: PathBuf,
        /// The kind of the file.
        content: Content,
    },
    /// The file could not be written.
    #[error("{}: cannot write the {}: {source}: {}", path.display(), content.name, fix(source.kind()))]
    Io {
        /// The path as given.
        path: PathBuf,
        /// The kind of the file.
        content: Content,
        /// The system's error.
        source: io::Error,
    },
}

impl WriteError {
    /// The error of writing `content` to `path`.
    pub fn io(path: &Path, content: Content, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), content, source }
    }
}

const fn fix(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => "create the directory first",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a directory that you may write to"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space or choose another disk",
        _ => "choose another place",
    }
}

/// A file under construction. It appears with [`commit`](Self::commit); dropped before, it leaves nothing.
///
/// A device or a pipe, such as `/dev/null`, is written in place.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    content: Content,
    /// `None` where it is written in place, and after the commit.
    temporary: Option<PathBuf>,
    file: BufWriter<File>,
}

impl WholeFile {
    /// Begins a file of kind `content` at `path`.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
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

    /// Makes it appear under its name, in place of an earlier file.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
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
            // The rest of a failed write.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Writes `bytes` to `path`, completely or not at all.
///
/// # Errors
///
/// [`WriteError`] names the path and the fix.
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
    fn a_file_appears_complete_and_alone() {
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
    fn a_dropped_file_leaves_the_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        fs::write(&path, "old").unwrap();
        let mut file = WholeFile::create(&path, Content::TRACE).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!((fs::read(&path).unwrap(), entries(folder.path())), (b"old".to_vec(), 1));
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
