//! Reads session logs.

use std::{
    io::{BufRead, Read},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    event::{Entry, SessionInfo},
    wire::{FORMAT, Head, Item, Line, Packets, VERSION},
};
use crate::{json, unreadable::reading_fix};

/// The longest line that is read: a report of all packets that a history stores has about a megabyte. Chosen by us.
const MAX_LINE: u64 = 8_000_000;

const NOT_OURS: &str = "give the FILE of --session-log, or an RTC event log of Chromium";

/// Why a recording could not be read: the place, the problem and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{place}: {problem}: {fix}", path.display())]
pub struct ReadError {
    pub(super) path: PathBuf,
    /// `:7` for a line, empty for the file.
    pub(super) place: String,
    pub(super) problem: String,
    pub(super) fix: String,
}

/// A session log that is read line by line.
pub struct LogReader {
    path: PathBuf,
    file: Box<dyn BufRead + Send>,
    info: SessionInfo,
    packets: Packets,
    buffer: Vec<u8>,
    /// Number of the line read last, from 1.
    line: u64,
    end: Ending,
}

/// How a log ends.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    /// Not reached yet.
    Open,
    /// By its last line, for this reason.
    Ended(String),
    /// Without one.
    Missing,
    /// Within this line.
    CutWithin(u64),
    /// Before this line, by another one.
    Before(u64),
}

impl ReadError {
    /// The file cannot be opened.
    pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self {
            path: path.to_owned(),
            place: String::new(),
            problem: format!("cannot be read ({error})"),
            fix: reading_fix(error).to_owned(),
        }
    }
}

impl std::fmt::Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader")
            .field("path", &self.path)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

impl LogReader {
    /// Reads a session log from `file`; `path` is its name in errors.
    ///
    /// # Errors
    ///
    /// [`ReadError`]: it is not a session log of a known version.
    pub fn from_reader(path: &Path, file: impl BufRead + Send + 'static) -> Result<Self, ReadError> {
        #[derive(Deserialize)]
        struct Known {
            giusto: String,
            version: u32,
        }
        let mut reader = Self {
            path: path.to_owned(),
            file: Box::new(file),
            info: SessionInfo::unknown(),
            packets: Packets::default(),
            buffer: Vec::new(),
            line: 0,
            end: Ending::Open,
        };
        if !reader.next_line()? {
            return Err(reader.error("the file is empty", NOT_OURS));
        }
        let Ok(Known { giusto, version }) = json::from_bytes(&reader.buffer) else {
            return Err(reader.error("this is not the first line of a session log", NOT_OURS));
        };
        if giusto != FORMAT {
            return Err(reader.error(format!("this is a \"{giusto}\", not a \"{FORMAT}\""), NOT_OURS));
        }
        if version != VERSION {
            let problem =
                format!("the session log has version {version}, and this giusto reads version {VERSION}");
            return Err(reader.error(problem, "use the giusto that wrote it"));
        }
        let head: Result<Head, _> = json::from_bytes(&reader.buffer);
        let info = head.map_err(|error| error.to_string()).and_then(Head::info);
        match info {
            Ok(info) => reader.info = info,
            Err(problem) => return Err(reader.error(problem, "record the session again")),
        }
        Ok(reader)
    }

    /// What it says about its session.
    pub fn info(&self) -> &SessionInfo {
        &self.info
    }

    /// After the last entry: why the log may not hold the whole session, if so.
    pub fn shortened(&self) -> Option<String> {
        match &self.end {
            Ending::Open => None,
            Ending::Ended(why) => (why != "session ended").then(|| why.clone()),
            Ending::Missing => Some("the log has no last line: the recording program was stopped".to_owned()),
            Ending::Before(line) => Some(format!(
                "the log ends before line {line}, and what follows was left out: replay each session from a file of its own"
            )),
            Ending::CutWithin(line) => Some(format!(
                "line {line} is cut, and was left out: the recording program was stopped, or this is a part of the file"
            )),
        }
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ReadError`] names the line.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ReadError> {
        if self.end != Ending::Open {
            return Ok(None);
        }
        if !self.next_line()? {
            self.end = Ending::Missing;
            return Ok(None);
        }
        let line: Line = match json::from_bytes(&self.buffer) {
            Ok(line) => line,
            // A process that is killed leaves a part of a line.
            Err(_) if self.buffer.last() != Some(&b'\n') => {
                self.end = Ending::CutWithin(self.line);
                return Ok(None);
            }
            Err(error) => return Err(self.error(format!("the line is damaged: {error}"), &self.cut())),
        };
        if let (_, Item::End(_, why)) = &line {
            let why = why.clone();
            self.end = match self.next_line() {
                Ok(false) => Ending::Ended(why),
                _ => Ending::Before(self.line),
            };
            return Ok(None);
        }
        self.packets.entry(line).map_err(|problem| self.error(problem, &self.cut()))
    }

    fn cut(&self) -> String {
        format!("replay the part before it: head -n {} {}", self.line.saturating_sub(1), self.path.display())
    }

    /// Reads a line into the buffer; false at the end.
    fn next_line(&mut self) -> Result<bool, ReadError> {
        self.buffer.clear();
        self.line += 1;
        let read = (&mut self.file).take(MAX_LINE).read_until(b'\n', &mut self.buffer);
        match read {
            Ok(0) => Ok(false),
            Ok(bytes) if bytes as u64 == MAX_LINE => {
                Err(self.error(format!("the line is longer than {MAX_LINE} B"), &self.cut()))
            }
            Ok(_) => Ok(true),
            Err(error) => Err(self.error(format!("cannot read on: {error}"), &self.cut())),
        }
    }

    fn error(&self, problem: impl Into<String>, fix: &str) -> ReadError {
        let place = format!(":{}", self.line);
        ReadError { path: self.path.clone(), place, problem: problem.into(), fix: fix.to_owned() }
    }
}
