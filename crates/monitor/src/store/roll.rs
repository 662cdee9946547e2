//! The figures of hours and days, and what is no longer kept.
//!
//! Both are made of the results themselves, so that the quantiles of a day are those of its results and not of its hours.

use std::collections::BTreeMap;

use giusto::scenario::Retention;
use rusqlite::{Connection, Transaction, params};

use super::row::{Row, row};
use super::schema;
use crate::metric::{Metric, Summary};

/// A result may come so long after the end of the hour in which its interval began: the longest stream, and its end.
const LATE_S: u64 = 3900;

/// The tables and the length of what a row of each stands for, in seconds.
pub(super) const LEVELS: [(&str, u64); 2] = [("hour", 3600), ("day", 86_400)];

/// The end of what is made already of a level; 0 if nothing is.
pub(super) fn end(db: &Connection, table: &str) -> rusqlite::Result<u64> {
    let mut asked = db.prepare("SELECT value FROM state WHERE name = ?1")?;
    let mut rows = asked.query([table])?;
    Ok(rows.next()?.map(|row| row.get::<_, i64>(0)).transpose()?.unwrap_or_default() as u64)
}

/// There are results of this time on whose figures may be made already: they are made again.
pub(super) fn make_again(db: &Connection, time: u64) -> rusqlite::Result<()> {
    for (table, length) in LEVELS {
        let begin = (time - time % length) as i64;
        db.execute("UPDATE state SET value = ?2 WHERE name = ?1 AND value > ?2", params![table, begin])?;
    }
    Ok(())
}

/// Makes what is complete.
pub(super) fn roll(db: &mut Connection, now: u64) -> rusqlite::Result<()> {
    for (table, length) in LEVELS {
        let complete = now.saturating_sub(LATE_S);
        let mut end = end(db, table)?;
        if complete < end + length {
            continue;
        }
        let first = "SELECT min(time) FROM result WHERE time >= ?1";
        while let Some(time) = db.query_row(first, [end as i64], |row| row.get::<_, Option<i64>>(0))? {
            // Times without results are skipped.
            let begin = time as u64 - time as u64 % length;
            if complete < begin + length {
                break;
            }
            let changes = db.transaction()?;
            one(&changes, table, begin, length)?;
            end = begin + length;
            let upsert = "INSERT OR REPLACE INTO state (name, value) VALUES (?1, ?2)";
            changes.prepare(upsert)?.execute(params![table, end as i64])?;
            changes.commit()?;
        }
    }
    Ok(())
}

/// Makes the figures of one hour or day.
fn one(db: &Transaction<'_>, table: &str, begin: u64, length: u64) -> rusqlite::Result<()> {
    let into = format!(
        "INSERT OR REPLACE INTO {table} (time, series, metric, count, low, mean, p50, p99, high) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
    );
    let mut into = db.prepare(&into)?;
    for ((series, metric), summary) in summaries(db, begin, begin + length, None)? {
        let [low, mean, p50, p99, high] = [summary.min, summary.mean, summary.p50, summary.p99, summary.max]
            .map(|value| metric.pack(value));
        let (time, count) = (begin as i64, summary.count as i64);
        into.execute(params![time, series, metric.number() as i64, count, low, mean, p50, p99, high])?;
    }
    Ok(())
}

/// What the results of a time, of all series or one, come to, by series and metric.
pub(super) fn summaries(
    db: &Connection,
    begin: u64,
    end: u64,
    series: Option<i64>,
) -> rusqlite::Result<BTreeMap<(i64, Metric), Summary>> {
    let columns = schema::result_columns();
    let text = format!(
        "SELECT {columns} FROM result WHERE time >= ?1 AND time < ?2 AND (?3 IS NULL OR series = ?3)"
    );
    let mut asked = db.prepare(&text)?;
    let mut rows = asked.query(params![begin as i64, end as i64, series])?;
    let mut values: BTreeMap<(i64, Metric), Vec<f64>> = BTreeMap::new();
    while let Some(found) = rows.next()? {
        let Row { series, figures, .. } = row(found)?;
        for metric in Metric::ALL {
            if let Some(value) = figures.of(metric) {
                values.entry((series, metric)).or_default().push(value);
            }
        }
    }
    Ok(values.into_iter().filter_map(|(key, values)| Some((key, Summary::of(values)?))).collect())
}

/// Deletes what is older than it is kept, in whole days, so that figures that are made again are those of all their results.
pub(super) fn delete(db: &Connection, now: u64, retention: &Retention) -> rusqlite::Result<()> {
    let Retention { results, hours, days } = *retention;
    let before = |kept: u64| (now.saturating_sub(kept) / 86_400 * 86_400) as i64;
    db.execute("DELETE FROM result WHERE time < ?1", [before(results)])?;
    db.execute("DELETE FROM hour WHERE time < ?1", [before(hours)])?;
    db.execute("DELETE FROM day WHERE time < ?1", [before(days)])?;
    db.execute("DELETE FROM event WHERE until < ?1", [before(days)]).map(drop)
}
