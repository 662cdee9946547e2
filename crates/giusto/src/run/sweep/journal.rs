//! The finished runs of a sweep or a benchmark on disk, one a line, so that nothing is lost when it is ended early.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::mpsc::{SyncSender, TrySendError, sync_channel},
    thread::{self, JoinHandle},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{outcome::Finished, plan::Planned};

/// The name of a journal in its folder.
const NAME: &str = "journal.jsonl";

/// A journal cannot be written or continued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// There is one already.
    #[error("{}: runs are kept here: continue them with --resume, or give another folder", .0.display())]
    Exists(PathBuf),
    /// There is none to continue.
    #[error("{}: no runs are kept here: leave out --resume, or give the folder of the interrupted runs", .0.display())]
    Missing(PathBuf),
    /// It is of another scenario.
    #[error("{}: kept for {of}: give another folder, or the same scenario and arguments", path.display())]
    Other {
        /// The journal.
        path: PathBuf,
        /// That scenario.
        of: String,
    },
    /// A line cannot be read.
    #[error("{}:{line}: cannot be read ({why}): remove the line, or the file to start again", path.display())]
    Line {
        /// The journal.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The system returned an error.
    #[error("{}: {source}: free some space, or choose a folder that you may write to", path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// That error.
        source: io::Error,
    },
}

#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Header {
    giusto: String,
    scenario: String,
}

/// A journal that is being written.
///
/// A thread of its own brings it to the disk, many runs at once where they are shorter than the disk takes: a run waits for no disk, what
/// was appended survives the end of the process, and only the last moment is lost if the machine loses power.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Tells the thread that something was written.
    written: SyncSender<()>,
    syncing: JoinHandle<io::Result<()>>,
}

impl Journal {
    /// Creates a journal in `folder` for the scenario of this name.
    ///
    /// # Errors
    ///
    /// [`JournalError::Exists`] or [`JournalError::Io`].
    pub fn create(folder: &Path, scenario: &str) -> Result<Self, JournalError> {
        let path = folder.join(NAME);
        let result = File::options().append(true).create_new(true).open(&path);
        let file = result.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => JournalError::Exists(folder.to_owned()),
            _ => JournalError::Io { path: path.clone(), source },
        })?;
        let mut journal = Self::of(path, file)?;
        // A journal without its first line is of no use.
        journal.append(&header(scenario)).inspect_err(|_| drop(fs::remove_file(&journal.path)))?;
        Ok(journal)
    }

    /// Opens the journal in `folder`. Returns the finished runs in it as well.
    ///
    /// An incomplete last line is left out; its run is made again.
    ///
    /// # Errors
    ///
    /// [`JournalError`]: there is none, or it is of another scenario, or of this one before a change.
    pub fn resume(
        folder: &Path,
        scenario: &str,
        planned: &[Planned],
    ) -> Result<(Self, Vec<Finished>), JournalError> {
        let (journal, known): (Self, Vec<Finished>) = Self::resume_lines(folder, scenario)?;
        let fingerprints: BTreeMap<_, &String> =
            planned.iter().map(|planned| (planned.key(), &planned.fingerprint)).collect();
        let changed = |run: &&Finished| {
            let now = fingerprints.get(&(run.parameters.clone(), run.seed.clone()));
            now.is_some_and(|now| **now != run.fingerprint)
        };
        if let Some(run) = known.iter().find(changed) {
            let seed = &run.seed;
            let of = format!("the scenario as it was before it was changed (run of seed {seed})");
            return Err(JournalError::Other { path: journal.path, of });
        }
        Ok((journal, known))
    }

    /// Opens the journal in `folder`, whose lines are of any kind. Returns what is in it as well.
    ///
    /// An incomplete last line is left out.
    ///
    /// # Errors
    ///
    /// [`JournalError`]: there is none, it is of another name, or a line cannot be read.
    pub fn resume_lines<T: DeserializeOwned>(
        folder: &Path,
        scenario: &str,
    ) -> Result<(Self, Vec<T>), JournalError> {
        let (known, whole) = read(folder, scenario)?;
        let path = folder.join(NAME);
        let open = || {
            let file = File::options().append(true).open(&path)?;
            file.set_len(whole)?;
            Ok(file)
        };
        let file = open().map_err(|source| JournalError::Io { path: path.clone(), source })?;
        let mut journal = Self::of(path, file)?;
        if whole == 0 {
            journal.append(&header(scenario))?;
        }
        Ok((journal, known))
    }

    /// The journal in a file that is empty or ends with a whole line.
    pub(super) fn of(path: PathBuf, file: File) -> Result<Self, JournalError> {
        // One message is enough: a sync that begins later covers all that was written before.
        let (written, unsynced) = sync_channel::<()>(1);
        let begin = || {
            let file = file.try_clone()?;
            thread::Builder::new()
                .name("journal".to_owned())
                .spawn(move || unsynced.into_iter().try_for_each(|()| file.sync_data()))
        };
        match begin() {
            Ok(syncing) => Ok(Self { path, file, written, syncing }),
            Err(source) => Err(JournalError::Io { path, source }),
        }
    }

    /// Writes a finished run.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`].
    pub fn append(&mut self, run: &impl Serialize) -> Result<(), JournalError> {
        let write = |file: &mut File| {
            let line = serde_json::to_string(run)? + "\n";
            file.write_all(line.as_bytes())?;
            // Where the disk failed, the thread has ended: this sync returns its error.
            match self.written.try_send(()) {
                Err(TrySendError::Disconnected(())) => file.sync_data(),
                Ok(()) | Err(TrySendError::Full(())) => Ok(()),
            }
        };
        write(&mut self.file).map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }

    /// Ends the journal; when this returns all of it is on disk.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`].
    pub fn finish(self) -> Result<(), JournalError> {
        drop(self.written);
        let synced = self.syncing.join().unwrap_or_else(|_| self.file.sync_data());
        synced.map_err(|source| JournalError::Io { path: self.path, source })
    }
}

/// The lines of the journal in `folder`, without the first and an incomplete last one, and the length of the whole lines in bytes.
///
/// # Errors
///
/// [`JournalError`]: there is none, it is of another name, or a line cannot be read.
pub(super) fn read<T: DeserializeOwned>(
    folder: &Path,
    scenario: &str,
) -> Result<(Vec<T>, u64), JournalError> {
    let path = folder.join(NAME);
    let bytes = fs::read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => JournalError::Missing(folder.to_owned()),
        _ => JournalError::Io { path: path.clone(), source },
    })?;
    // Only whole lines count.
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let text = String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default());
    let mut lines = text.lines().zip(1..);
    let unreadable = |line, error: serde_json::Error| JournalError::Line {
        path: path.clone(),
        line,
        why: error.to_string(),
    };
    if let Some((line, number)) = lines.next() {
        let found: Header = serde_json::from_str(line).map_err(|error| unreadable(number, error))?;
        if found != header(scenario) {
            let of = format!("\"{}\" by giusto {}", found.scenario, found.giusto);
            return Err(JournalError::Other { path: path.clone(), of });
        }
    }
    let read = |(line, number)| serde_json::from_str(line).map_err(|error| unreadable(number, error));
    Ok((lines.map(read).collect::<Result<_, _>>()?, whole as u64))
}

fn header(scenario: &str) -> Header {
    Header { giusto: env!("CARGO_PKG_VERSION").to_owned(), scenario: scenario.to_owned() }
}
