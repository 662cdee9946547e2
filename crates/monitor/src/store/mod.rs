//! Results, figures of hours and days, and events in a file of `SQLite`.
//!
//! | table | holds |
//! |---|---|
//! | `series` | the directions, with the names of their streams |
//! | `result` | one row for each stream that was due; without figures where they are unknown |
//! | `hour`, `day` | minimum, mean, quantiles and maximum of the results of each metric |
//! | `event` | outages, changes of the path, crossed bounds |
//! | `notice` | what the webhook has not accepted yet |
//!
//! Each result and what follows from it is one transaction, written through to the disk (WAL, `synchronous = FULL`). While the disk is
//! full, results wait in memory. All times are whole seconds since the Unix epoch; a result has the time at which its interval begins.

mod read;
mod roll;
mod row;
mod schema;

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, File, OpenOptions, TryLockError},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use giusto::scenario::Retention;
use rusqlite::{
    Connection, OpenFlags, Params, Statement, Transaction, params, params_from_iter, types::Value,
};

use crate::{
    metric::Metric,
    notice,
    sample::{Sample, SeriesKey},
};

pub use read::{Known, Latest, Reader, Span, StoredEvent};

/// The most entries that wait for room on the disk: about a day of 20 streams a minute.
const MAX_PENDING: usize = 30_000;

/// How long a writer waits for another one.
const BUSY: Duration = Duration::from_secs(5);

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// What `SQLite` found.
    #[error("{path}: {source}{}", fix(source))]
    Database {
        /// The file.
        path: String,
        /// Its words.
        source: rusqlite::Error,
    },
    /// Another version has written it.
    #[error(
        "{path}: has version {found} of the tables, and this giusto knows {known}: use another file, or a newer giusto"
    )]
    Version {
        /// The file.
        path: String,
        /// Its version.
        found: i64,
        /// The version of this program.
        known: i64,
    },
    /// Another monitor writes into it.
    #[error("{path}: another giusto monitor writes into it: end that one, or give each a file of its own")]
    InUse {
        /// The file.
        path: String,
    },
}

/// Locks the file, which is made if it is not there. Readers need no lock. `None` where it cannot be opened, which `SQLite` explains, or where
/// files cannot be locked.
fn lock(path: &Path) -> Result<Option<File>, StoreError> {
    let Ok(file) = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path) else {
        return Ok(None);
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: path.display().to_string() }),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// The name of a file that `SQLite` keeps beside a database.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Device and number of a file.
fn inode(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn fix(error: &rusqlite::Error) -> &'static str {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, NotADatabase, ReadOnly, SystemIoFailure,
    };
    match error.sqlite_error_code() {
        Some(DiskFull) => ": free some space",
        // What SQLite shares between processes does not fit either.
        Some(SystemIoFailure) => ": free some space, if the disk is full",
        Some(CannotOpen | ReadOnly) => ": choose a folder that giusto may write to",
        Some(NotADatabase) => ": choose another file, this one is no database of giusto monitor",
        Some(DatabaseBusy | DatabaseLocked) => ": is another monitor running with this file?",
        _ => "",
    }
}

/// What kind of event it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// No results.
    Outage,
    /// Datagrams lost without interruption within a stream.
    Hole,
    /// Another path.
    Path,
    /// A bound that is crossed.
    Bound,
    /// The monitor itself did not run.
    Gap,
}

giusto_units::names!(EventKind {
    Outage = "outage",
    Hole = "interruption",
    Path = "path",
    Bound = "bound",
    Gap = "not measured",
});

/// What is noted of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// It happened, or began and goes on.
    Began {
        /// What.
        kind: EventKind,
        /// A name that tells events of one kind and series apart; empty if there is one at a time.
        name: String,
        /// It lasts until it is ended.
        lasts: bool,
        /// In words.
        text: String,
    },
    /// What began is over.
    Ended {
        /// What.
        kind: EventKind,
        /// As at its beginning.
        name: String,
    },
}

/// What belongs to one result.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Whose it is; `None` for what concerns the monitor itself, which has no sample.
    pub series: Option<SeriesKey>,
    /// When its interval began.
    pub time: u64,
    /// What came of it.
    pub sample: Option<Sample>,
    /// What happened with it.
    pub notes: Vec<Note>,
    /// JSON objects for the webhook.
    pub notices: Vec<String>,
}

/// The database, for the one who writes.
#[derive(Debug)]
pub struct Store {
    path: String,
    file: PathBuf,
    db: Connection,
    ids: BTreeMap<SeriesKey, i64>,
    pending: VecDeque<Entry>,
    /// Entries that had no room in memory either.
    dropped: u64,
    /// Notices that were accepted or that nobody is to get, and that could not be deleted yet.
    accepted: Vec<String>,
    /// Tells whose notices they are: a hash of the webhook's URL, which may hold a secret.
    webhook: Option<i64>,
    retention: Retention,
    /// What tells the write-ahead log of this file from that of another one.
    log: Option<(u64, u64)>,
    /// The file was begun again, and nobody was told yet.
    begun_again: bool,
    /// Holds the lock of the file; last, since to close it ends the locks of `SQLite` too.
    lock: Option<File>,
}

impl Store {
    /// Opens the database, and makes it if it is not there.
    ///
    /// # Errors
    ///
    /// [`StoreError`] names the file and the fix.
    pub fn open(path: &Path, retention: Retention) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        let failed = |source| StoreError::Database { path: name.clone(), source };
        let lock = lock(path)?;
        let db = Connection::open(path).map_err(failed)?;
        db.busy_timeout(BUSY).map_err(failed)?;
        let version = schema::prepare(&db).map_err(failed)?;
        if version != schema::VERSION {
            return Err(StoreError::Version { path: name, found: version, known: schema::VERSION });
        }
        let (ids, pending) = (BTreeMap::new(), VecDeque::new());
        Ok(Self {
            path: name,
            file: path.to_owned(),
            db,
            ids,
            pending,
            dropped: 0,
            accepted: Vec::new(),
            webhook: None,
            retention,
            log: inode(&beside(path, "-wal")),
            begun_again: false,
            lock,
        })
    }

    /// Whether the path still names the file that was opened. `SQLite` would write on into a deleted one.
    fn is_there(&self) -> bool {
        let Some(opened) = self.lock.as_ref().and_then(|lock| lock.metadata().ok()) else { return true };
        inode(&self.file) == Some((opened.dev(), opened.ino()))
    }

    /// Begins another file where the one that was opened has been deleted or replaced.
    fn reopen_if_gone(&mut self) -> Result<(), StoreError> {
        if self.is_there() {
            return Ok(());
        }
        // SQLite still reads the file that has no name any more, until one of that name takes its shared memory.
        let mut notices = self.written_notices(usize::MAX);
        // The log of the old file, which is written into that one where it has moved, would change the new one.
        let _ = self.db.query_row("PRAGMA wal_checkpoint", [], |_| Ok(()));
        if self.log.is_some() && self.log == inode(&beside(&self.file, "-wal")) {
            for end in ["-wal", "-shm"] {
                let _ = fs::remove_file(beside(&self.file, end));
            }
        }
        let mut opened = Self::open(&self.file, self.retention)?;
        // A copy that took its place may have some of them.
        let known = opened.written_notices(usize::MAX);
        notices.retain(|notice| !known.contains(notice));
        let left = Entry { series: None, time: 0, sample: None, notes: Vec::new(), notices };
        opened.webhook = self.webhook;
        opened.note_webhook()?;
        (opened.pending, opened.dropped) = (std::mem::take(&mut self.pending), self.dropped);
        opened.pending.push_front(left);
        opened.accepted = std::mem::take(&mut self.accepted);
        opened.begun_again = true;
        *self = opened;
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether the file was begun again since the last call, because it had been deleted or replaced.
    pub(crate) fn take_begun_again(&mut self) -> bool {
        std::mem::take(&mut self.begun_again)
    }

    /// Sets how long results are kept.
    pub fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// Entries that wait for room on the disk, and those that were dropped because too many waited.
    pub fn waiting(&self) -> (usize, u64) {
        (self.pending.len(), self.dropped)
    }

    /// Writes an entry, after those that wait. What cannot be written waits.
    ///
    /// # Errors
    ///
    /// [`StoreError`]: why it waits.
    pub fn record(&mut self, entry: Entry) -> Result<(), StoreError> {
        self.wait(entry);
        self.flush()
    }

    fn wait(&mut self, entry: Entry) {
        if self.pending.len() >= MAX_PENDING {
            self.pending.pop_front();
            self.dropped += 1;
        }
        self.pending.push_back(entry);
    }

    /// Writes entries, as one transaction if there is room for all, such as those that come from elsewhere.
    ///
    /// # Errors
    ///
    /// [`StoreError`]: why they wait.
    pub fn record_all(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        if self.pending.is_empty() && self.is_there() && write(&mut self.db, &mut self.ids, &entries).is_ok()
        {
            return Ok(());
        }
        self.ids.clear();
        for entry in entries {
            self.wait(entry);
        }
        self.flush()
    }

    /// Writes what waits.
    ///
    /// # Errors
    ///
    /// [`StoreError`]: why it waits on.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.reopen_if_gone()?;
        while let Some(entry) = self.pending.front() {
            let (db, ids) = (&mut self.db, &mut self.ids);
            let written = write(db, ids, std::slice::from_ref(entry));
            let source = match written {
                Ok(()) => {
                    self.pending.pop_front();
                    continue;
                }
                Err(source) => source,
            };
            // What was made in a transaction that failed is not there.
            self.ids.clear();
            return Err(StoreError::Database { path: self.path.clone(), source });
        }
        self.forget_accepted()
    }

    /// Makes the figures of hours and days that have ended, and deletes what is older than it is kept.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the next call does what is left.
    pub fn maintain(&mut self, now: u64) -> Result<(), StoreError> {
        let failed = |source| StoreError::Database { path: self.path.clone(), source };
        roll::roll(&mut self.db, now).map_err(failed)?;
        roll::delete(&self.db, now, &self.retention).map_err(failed)
    }

    /// The outages and the crossed bounds that go on, by series: kind and name.
    ///
    /// # Errors
    ///
    /// [`StoreError`] names the file.
    pub fn open_events(&self) -> Result<Vec<(SeriesKey, EventKind, String)>, StoreError> {
        let failed = |source| StoreError::Database { path: self.path.clone(), source };
        let text = "SELECT source, target, stream, kind, name FROM event JOIN series ON series.id = event.series WHERE until IS NULL";
        let read = || {
            let mut asked = self.db.prepare(text)?;
            let rows = asked.query_map([], |row| {
                let key = SeriesKey { from: row.get(0)?, to: row.get(1)?, stream: row.get(2)? };
                Ok((key, row.get::<_, String>(3)?, row.get(4)?))
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        let rows = read().map_err(failed)?;
        Ok(rows
            .into_iter()
            .filter_map(|(key, kind, name)| Some((key, EventKind::named(&kind)?, name)))
            .collect())
    }

    /// The time of the last result of a monitor that ran before, at most `now`: a clock that was ahead has left later ones.
    ///
    /// # Errors
    ///
    /// [`StoreError`] names the file.
    pub fn last_result(&self, now: u64) -> Result<Option<u64>, StoreError> {
        let text = "SELECT max(time) FROM result WHERE time <= ?1";
        let last = self.db.query_row(text, [now as i64], |row| row.get::<_, Option<i64>>(0));
        let last = last.map_err(|source| StoreError::Database { path: self.path.clone(), source })?;
        Ok(last.and_then(|time| u64::try_from(time).ok()))
    }

    /// The oldest notice that was not accepted yet: of those in the file, or else of those that wait for room on the disk.
    pub fn next_notice(&self) -> Option<String> {
        let waiting = self.pending.iter().flat_map(|entry| &entry.notices).cloned();
        let written = self.written_notices(self.accepted.len() + 1);
        written.into_iter().chain(waiting).find(|notice| !self.accepted.contains(notice))
    }

    /// The oldest notices in the file, at most so many.
    fn written_notices(&self, limit: usize) -> Vec<String> {
        let read = || {
            let mut asked = self.db.prepare("SELECT body FROM notice ORDER BY id LIMIT ?1")?;
            let rows = asked.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |row| row.get(0))?;
            rows.collect::<rusqlite::Result<Vec<String>>>()
        };
        // Why the file cannot be read is said where it is written.
        read().unwrap_or_default()
    }

    /// Forgets a notice, which was accepted: it is not the next one again, even where the file cannot be written.
    ///
    /// # Errors
    ///
    /// [`StoreError`] names the file.
    pub fn forget_notice(&mut self, notice: String) -> Result<(), StoreError> {
        self.forget(vec![notice])
    }

    fn forget(&mut self, notices: Vec<String>) -> Result<(), StoreError> {
        for entry in &mut self.pending {
            entry.notices.retain(|own| !notices.contains(own));
        }
        self.accepted.extend(notices);
        self.forget_accepted()
    }

    fn forget_accepted(&mut self) -> Result<(), StoreError> {
        if self.accepted.is_empty() {
            return Ok(());
        }
        let list = serde_json::json!(self.accepted).to_string();
        self.execute("DELETE FROM notice WHERE body IN (SELECT value FROM json_each(?1))", [list])?;
        self.accepted.clear();
        Ok(())
    }

    /// Sets the URL of the webhook. Notices that another one did not accept are forgotten, but for what the new one has to know; without a
    /// webhook, all are, since what changes from now on has none. Returns the number of those that are forgotten, even where the file cannot
    /// be written.
    pub(crate) fn set_webhook(&mut self, url: Option<&str>) -> (usize, Result<(), StoreError>) {
        // FNV-1a.
        let hash = |url: &str| {
            url.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
        };
        self.webhook = url.map(|url| hash(url) as i64);
        let known = "SELECT value FROM state WHERE name = 'webhook'";
        let known = self.db.query_row(known, [], |row| row.get::<_, i64>(0)).ok();
        let waiting = self.pending.iter().flat_map(|entry| &entry.notices).cloned();
        let mut notices: Vec<_> = self.written_notices(usize::MAX).into_iter().chain(waiting).collect();
        notices.retain(|notice| !self.accepted.contains(notice));
        if self.webhook.is_some() {
            let is_other = known.is_some_and(|known| Some(known) != self.webhook);
            notices = if is_other { notice::outdated(&notices) } else { Vec::new() };
        }
        let forgotten = notices.len();
        (forgotten, self.forget(notices).and_then(|()| self.note_webhook()))
    }

    /// Writes whose notices they are.
    fn note_webhook(&self) -> Result<(), StoreError> {
        match self.webhook {
            Some(webhook) => {
                self.execute("INSERT OR REPLACE INTO state (name, value) VALUES ('webhook', ?1)", [webhook])
            }
            None => self.execute("DELETE FROM state WHERE name = 'webhook'", []),
        }
    }

    fn execute(&self, text: &str, values: impl Params) -> Result<(), StoreError> {
        let done = self.db.execute(text, values).map(drop);
        done.map_err(|source| StoreError::Database { path: self.path.clone(), source })
    }
}

/// Writes entries, all or none.
fn write(db: &mut Connection, ids: &mut BTreeMap<SeriesKey, i64>, entries: &[Entry]) -> rusqlite::Result<()> {
    let changes = db.transaction()?;
    let mut into = changes.prepare(&schema::insert_result())?;
    for entry in entries {
        write_one(&changes, &mut into, ids, entry)?;
    }
    drop(into);
    if let Some(earliest) =
        entries.iter().filter(|entry| entry.sample.is_some()).map(|entry| entry.time).min()
    {
        roll::make_again(&changes, earliest)?;
    }
    changes.commit()
}

fn write_one(
    db: &Transaction<'_>,
    results: &mut Statement<'_>,
    ids: &mut BTreeMap<SeriesKey, i64>,
    entry: &Entry,
) -> rusqlite::Result<()> {
    let series = entry.series.as_ref().map(|key| id_of(db, ids, key)).transpose()?;
    let time = entry.time as i64;
    if let (Some(series), Some(sample)) = (series, &entry.sample) {
        results.execute(params_from_iter(columns(time, series, sample)))?;
    }
    for note in &entry.notes {
        match note {
            Note::Began { kind, name, lasts, text } => {
                let until = (!lasts).then_some(time);
                let into = "INSERT INTO event (series, kind, name, time, until, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                db.execute(into, params![series, kind.name(), name, time, until, text])?;
            }
            Note::Ended { kind, name } => {
                let end = "UPDATE event SET until = ?4 WHERE series IS ?1 AND kind = ?2 AND name = ?3 AND until IS NULL";
                db.execute(end, params![series, kind.name(), name, time])?;
            }
        }
    }
    for notice in &entry.notices {
        db.execute("INSERT INTO notice (body) VALUES (?1)", [notice])?;
    }
    Ok(())
}

fn id_of(db: &Transaction<'_>, ids: &mut BTreeMap<SeriesKey, i64>, key: &SeriesKey) -> rusqlite::Result<i64> {
    if let Some(id) = ids.get(key) {
        return Ok(*id);
    }
    let names = params![key.from, key.to, key.stream];
    db.execute("INSERT OR IGNORE INTO series (source, target, stream) VALUES (?1, ?2, ?3)", names)?;
    let known = "SELECT id FROM series WHERE source = ?1 AND target = ?2 AND stream = ?3";
    let id = db.query_row(known, names, |row| row.get(0))?;
    ids.insert(key.clone(), id);
    Ok(id)
}

/// The columns of a result.
fn columns(time: i64, series: i64, sample: &Sample) -> Vec<Value> {
    let whole = |value: Option<u64>| value.map_or(Value::Null, |value| Value::Integer(value as i64));
    let mut row = vec![Value::Integer(time), Value::Integer(series)];
    if let Sample::Measured(measured) = sample {
        row.extend([
            Value::Integer(i64::from(!measured.doubts.is_empty())),
            whole(measured.sent),
            whole(measured.lost),
        ]);
        row.extend(Metric::STORED.iter().map(|metric| {
            measured.figures.of(*metric).map_or(Value::Null, |value| Value::Integer(metric.pack(value)))
        }));
    } else {
        // Without figures. Nothing takes less room than NULL.
        row.resize(5 + Metric::STORED.len(), Value::Null);
    }
    row
}

/// Opens the database for one who reads.
fn open_to_read(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(BUSY)?;
    Ok(db)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETENTION: Retention = Retention { results: 0, hours: 0, days: 0 };

    /// An entry that has only a notice.
    fn entry(notice: &str) -> Entry {
        Entry { series: None, time: 60, sample: None, notes: Vec::new(), notices: vec![notice.to_owned()] }
    }

    #[test]
    fn notices_outlive_a_deleted_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("monitor.db");
        let mut store = Store::open(&path, RETENTION).unwrap();
        store.record_all(["1", "2"].map(entry).into()).unwrap();
        // The file that takes its place, from a copy, has one of them.
        let copy = folder.path().join("copy.db");
        Store::open(&copy, RETENTION).unwrap().record(entry("2")).unwrap();
        fs::remove_file(&path).unwrap();
        store.record(entry("3")).unwrap();
        assert_eq!(store.written_notices(9), ["1", "2", "3"]);
        let moved = folder.path().join("moved.db");
        fs::rename(&path, &moved).unwrap();
        fs::rename(&copy, &path).unwrap();
        store.record(entry("4")).unwrap();
        assert_eq!(Store::open(&moved, RETENTION).unwrap().written_notices(9), ["1", "2", "3"]);
        assert_eq!(store.written_notices(9), ["2", "1", "3", "4"]);
    }

    #[test]
    fn another_webhook_gets_no_old_notices() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Store::open(&folder.path().join("monitor.db"), RETENTION).unwrap();
        let set = |store: &mut Store, url| {
            let (forgotten, written) = store.set_webhook(url);
            written.unwrap();
            (forgotten, store.written_notices(9).len())
        };
        let notices = [("crossed", "loss"), ("kept", "loss"), ("crossed", "mos")]
            .map(|(event, bound)| entry(&format!("{{\"event\":\"{event}\",\"bound\":\"{bound}\"}}")));
        let mut store = open();
        store.record_all(notices.into()).unwrap();
        // Whose they are was not noted before.
        assert_eq!(set(&mut store, Some("http://a/")), (0, 3));
        fs::remove_file(store.file.clone()).unwrap();
        store.flush().unwrap();
        drop(store);
        let mut store = open();
        assert_eq!(set(&mut store, Some("http://a/")), (0, 3));
        store.db.pragma_update(None, "query_only", true).unwrap();
        assert_eq!(store.set_webhook(Some("http://b/")).0, 2);
        assert!(store.next_notice().unwrap().contains("mos"));
        store.db.pragma_update(None, "query_only", false).unwrap();
        assert_eq!(set(&mut store, Some("http://b/")), (0, 1));
        assert_eq!(set(&mut store, None), (1, 0));
    }

    #[test]
    fn a_notice_is_sent_once_where_the_file_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("monitor.db"), RETENTION).unwrap();
        store.record(entry("1")).unwrap();
        let can_write = |store: &Store, can: bool| store.db.pragma_update(None, "query_only", !can).unwrap();
        can_write(&store, false);
        // Those that wait for the disk are sent too, each once and in order.
        for notice in ["2", "3", "4"] {
            store.record(entry(notice)).unwrap_err();
        }
        for notice in ["1", "2", "3"] {
            assert_eq!(store.next_notice().as_deref(), Some(notice));
            store.forget_notice(notice.to_owned()).unwrap_err();
        }
        store.record_all(["5", "6"].map(entry).into()).unwrap_err();
        can_write(&store, true);
        store.flush().unwrap();
        for notice in ["4", "5", "6"] {
            assert_eq!(store.next_notice().as_deref(), Some(notice));
            store.forget_notice(notice.to_owned()).unwrap();
        }
        let left = store.db.query_row("SELECT count(*) FROM notice", [], |row| row.get::<_, i64>(0));
        assert_eq!((left.unwrap(), store.next_notice()), (0, None));
    }
}
