//! The tables.

use rusqlite::Connection;

use crate::metric::Metric;

/// The version of the tables.
pub(super) const VERSION: i64 = 2;
/// The figures that came with version 2.
const SINCE_2: [Metric; 3] = [Metric::FrameDelay, Metric::FrameDelayP99, Metric::Use];

/// Makes the tables where they are not there yet. Returns their version.
pub(super) fn prepare(db: &Connection) -> rusqlite::Result<i64> {
    let version = db.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))?;
    // Setting the mode answers with the mode.
    db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    db.execute_batch("PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 16000000;")?;
    if version == 1 {
        let added = SINCE_2.map(|metric| format!("ALTER TABLE result ADD COLUMN {} INTEGER;", metric.name()));
        db.execute_batch(&format!("BEGIN; {} PRAGMA user_version = {VERSION}; COMMIT;", added.concat()))?;
        return Ok(VERSION);
    }
    if version != 0 {
        return Ok(version);
    }
    // Rows in the order of time are appended, and the oldest go together.
    let columns: String = stored().flat_map(|name| [", ", name, " INTEGER"]).collect();
    let rolled = ["hour", "day"].map(|table| {
        format!(
            "CREATE TABLE {table} (time INTEGER, series INTEGER, metric INTEGER, count INTEGER, low INTEGER, mean INTEGER, \
             p50 INTEGER, p99 INTEGER, high INTEGER, PRIMARY KEY (time, series, metric)) WITHOUT ROWID;"
        )
    });
    db.execute_batch(&format!(
        "BEGIN;
         CREATE TABLE series (id INTEGER PRIMARY KEY, source TEXT NOT NULL, target TEXT NOT NULL, stream TEXT NOT NULL,
             UNIQUE (source, target, stream));
         CREATE TABLE result (time INTEGER, series INTEGER, doubtful INTEGER, sent INTEGER, lost INTEGER{columns},
             PRIMARY KEY (time, series)) WITHOUT ROWID;
         {}
         CREATE TABLE event (id INTEGER PRIMARY KEY, series INTEGER, kind TEXT NOT NULL, name TEXT NOT NULL, time INTEGER NOT NULL,
             until INTEGER, text TEXT NOT NULL);
         CREATE INDEX event_time ON event (time);
         CREATE INDEX event_open ON event (series, kind, name) WHERE until IS NULL;
         CREATE TABLE notice (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL);
         CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
         PRAGMA user_version = {VERSION};
         COMMIT;",
        rolled.concat()
    ))?;
    Ok(VERSION)
}

fn stored() -> impl Iterator<Item = &'static str> {
    Metric::STORED.iter().copied().map(Metric::name)
}

/// Columns of a result, in the order in which they are read.
pub(super) fn result_columns() -> String {
    ["time", "series", "doubtful", "sent", "lost"].into_iter().chain(stored()).collect::<Vec<_>>().join(", ")
}

/// Writes a result. One that is measured again takes the place of the first.
pub(super) fn insert_result() -> String {
    let places = vec!["?"; 5 + Metric::STORED.len()].join(", ");
    format!("INSERT OR REPLACE INTO result ({}) VALUES ({places})", result_columns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_of_version_1_gets_the_figures_of_calls() {
        let db = Connection::open_in_memory().unwrap();
        assert_eq!(prepare(&db).unwrap(), VERSION);
        for metric in SINCE_2 {
            db.execute(&format!("ALTER TABLE result DROP COLUMN {}", metric.name()), []).unwrap();
        }
        db.execute_batch(
            "INSERT INTO result (time, series, sent) VALUES (60, 1, 5); PRAGMA user_version = 1;",
        )
        .unwrap();
        assert!(db.prepare(&insert_result()).is_err());
        assert_eq!((prepare(&db).unwrap(), prepare(&db).unwrap()), (VERSION, VERSION));
        db.prepare(&insert_result()).unwrap();
        let columns = result_columns();
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(3)?, row.get::<_, Option<i64>>(7)?));
        assert_eq!(db.query_row(&format!("SELECT {columns} FROM result"), [], row).unwrap(), (5, None));
        // A newer one is left as it is.
        db.execute_batch("PRAGMA user_version = 3;").unwrap();
        assert_eq!(prepare(&db).unwrap(), 3);
    }
}
