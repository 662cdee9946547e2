//! A file that grows during a run, up to a maximum size.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use giusto_units::{TimeDelta, Timestamp};

use crate::{
    fresh_file::FreshFile,
    whole_file::{Content, WriteError},
};

/// The longest time between two flushes: what a killed process can lose.
const FLUSH_INTERVAL: TimeDelta = TimeDelta::from_seconds(1);

/// What is said of a file that has reached its maximum size.
pub(crate) fn cut_note(path: &Path, max_bytes: u64) -> String {
    format!("{} ends early: it has reached its maximum size, {max_bytes} B", path.display())
}

/// A file that holds all whole items up to the latest flush, even if the process is killed.
#[derive(Debug)]
pub(crate) struct Growing {
    path: PathBuf,
    content: Content,
    /// `None` after an error, or at the maximum size.
    file: Option<FreshFile>,
    failed: Option<io::Error>,
    bytes: u64,
    max_bytes: u64,
    is_cut: bool,
    flushed: Timestamp,
}

impl Growing {
    /// Opens a file, whose head is to be written.
    pub(crate) fn create(path: &Path, content: Content, max_bytes: u64) -> Result<Self, WriteError> {
        let file = FreshFile::open(path);
        let file = file.map_err(|source| WriteError::io(path, content, source))?;
        Ok(Self {
            path: path.to_owned(),
            content,
            file: Some(file),
            failed: None,
            bytes: 0,
            max_bytes,
            is_cut: false,
            flushed: Timestamp::ZERO,
        })
    }

    /// The head has been written: a file of which no more is written leaves an earlier one of its name.
    pub(crate) fn end_head(&mut self) -> Result<(), WriteError> {
        let ended = self.file.as_mut().map_or(Ok(()), FreshFile::end_head);
        let ended = self.failed.take().map_or(ended, Err);
        ended.map_err(|source| WriteError::io(&self.path, self.content, source))
    }

    /// Appends `item`, or ends the file if that would make it too large.
    pub(crate) fn write(&mut self, now: Timestamp, item: &[u8]) {
        let Some(file) = &mut self.file else { return };
        if self.bytes + item.len() as u64 > self.max_bytes {
            self.is_cut = true;
            self.stop();
            return;
        }
        let mut written = file.write_all(item);
        self.bytes += item.len() as u64;
        if now.saturating_since(self.flushed) >= FLUSH_INTERVAL {
            self.flushed = now;
            written = written.and_then(|()| file.flush());
        }
        if let Err(error) = written {
            self.fail(error);
        }
    }

    /// Whether more can be written.
    pub(crate) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the file before the run ends.
    pub(crate) fn stop(&mut self) {
        if let Some(Err(error)) = self.file.take().map(|mut file| file.flush()) {
            self.fail(error);
        }
    }

    /// Keeps the first error and stops writing: a full disk does not stay full.
    pub(crate) fn fail(&mut self, error: io::Error) {
        self.failed.get_or_insert(error);
        self.file = None;
    }

    /// Completes the file: the first error since the beginning, if there was one.
    pub(crate) fn close(&mut self) -> Result<(), WriteError> {
        let closed = self.file.take().map_or(Ok(()), FreshFile::close);
        let closed = self.failed.take().map_or(closed, Err);
        closed.map_err(|source| WriteError::io(&self.path, self.content, source))
    }

    /// Completes the file. Returns its path, and what is to be said about it.
    pub(crate) fn finish(mut self) -> Result<(PathBuf, Option<String>), WriteError> {
        self.close()?;
        let note = self.is_cut.then(|| cut_note(&self.path, self.max_bytes));
        Ok((self.path, note))
    }
}
