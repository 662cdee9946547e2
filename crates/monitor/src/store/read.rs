//! What pages ask the database.

use std::{collections::BTreeMap, path::Path};

use rusqlite::{Connection, params};

use super::{
    EventKind, StoreError, open_to_read, roll,
    row::{Row, row},
    schema,
};
use crate::{
    metric::{Figures, Metric, Summary},
    sample::SeriesKey,
};

/// The database, for one who reads. A monitor may write meanwhile.
#[derive(Debug)]
pub struct Reader {
    path: String,
    db: Connection,
}

/// A time that a page shows, and how finely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// Six hours of results.
    SixHours,
    /// A day of results.
    Day,
    /// A week of hours.
    Week,
    /// A month of hours.
    Month,
    /// A year of days.
    Year,
}

giusto_units::names!(Span { SixHours = "6h", Day = "day", Week = "week", Month = "month", Year = "year" });

impl Span {
    /// Its length, in seconds.
    pub const fn seconds(self) -> u64 {
        match self {
            Self::SixHours => 6 * 3600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
            Self::Month => 31 * 86_400,
            Self::Year => 366 * 86_400,
        }
    }

    /// The table of which it shows rows, and the time that each stands for; `None`: each result.
    pub(crate) const fn level(self) -> Option<(&'static str, u64)> {
        let [hour, day] = roll::LEVELS;
        match self {
            Self::SixHours | Self::Day => None,
            Self::Week | Self::Month => Some(hour),
            Self::Year => Some(day),
        }
    }
}

/// The newest result of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latest {
    /// When its interval began.
    pub time: u64,
    /// Its figures; where it is unknown, only that.
    pub figures: Figures,
    /// Its figures cannot be trusted.
    pub doubtful: bool,
}

/// A point of a chart: one result, or the results of an hour or a day.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Its beginning.
    pub time: u64,
    /// The values of each metric that has some.
    pub values: BTreeMap<Metric, Summary>,
}

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// Whose; `None`: the monitor's own.
    pub series: Option<i64>,
    /// What kind.
    pub kind: EventKind,
    /// When it began.
    pub time: u64,
    /// When it ended; `None`: it goes on.
    pub until: Option<u64>,
    /// In words.
    pub text: String,
}

impl Reader {
    /// Opens the database, which must be there.
    ///
    /// # Errors
    ///
    /// [`StoreError`] names the file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        let db = open_to_read(path).map_err(|source| StoreError::Database { path: name.clone(), source })?;
        Ok(Self { path: name, db })
    }

    fn named<T>(&self, found: rusqlite::Result<T>) -> Result<T, StoreError> {
        found.map_err(|source| StoreError::Database { path: self.path.clone(), source })
    }

    /// All series with their numbers.
    ///
    /// # Errors
    ///
    /// [`StoreError`] names the file.
    pub fn series(&self) -> Result<BTreeMap<SeriesKey, i64>, StoreError> {
        self.named(self.read_series())
    }

    fn read_series(&self) -> rusqlite::Result<BTreeMap<SeriesKey, i64>> {
        let mut asked = self.db.prepare("SELECT source, target, stream, id FROM series")?;
        let rows = asked.query_map([], |row| {
            Ok((SeriesKey { from: row.get(0)?, to: row.get(1)?, stream: row.get(2)? }, row.get(3)?))
        })?;
        rows.collect()
    }

    /// The newest result of each series from `since` to `now`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] names the file.
    pub fn latest(&self, since: u64, now: u64) -> Result<BTreeMap<i64, Latest>, StoreError> {
        let rows = self.rows(since, now + 1, None);
        let latest = |rows: Vec<Row>| {
            let latest = |row: Row| {
                (row.series, Latest { time: row.time, figures: row.figures, doubtful: row.doubtful })
            };
            rows.into_iter().map(latest).collect()
        };
        self.named(rows.map(latest))
    }

    fn rows(&self, begin: u64, end: u64, series: Option<i64>) -> rusqlite::Result<Vec<Row>> {
        let only = if series.is_some() { " AND series = ?3" } else { " AND ?3 IS NULL" };
        let columns = schema::result_columns();
        let text = format!("SELECT {columns} FROM result WHERE time >= ?1 AND time < ?2{only} ORDER BY time");
        let mut asked = self.db.prepare(&text)?;
        asked.query_map(params![begin as i64, end as i64, series], row)?.collect()
    }

    /// A metric of all series in each hour from `begin` to `now`, also in the one that is not over: by series and time.
    ///
    /// # Errors
    ///
    /// [`StoreError`] names the file.
    pub fn hours(
        &self,
        metric: Metric,
        begin: u64,
        now: u64,
    ) -> Result<BTreeMap<(i64, u64), Summary>, StoreError> {
        self.named(self.read_hours(metric, begin, now))
    }

    fn read_hours(
        &self,
        metric: Metric,
        begin: u64,
        now: u64,
    ) -> rusqlite::Result<BTreeMap<(i64, u64), Summary>> {
        let (_, length) = roll::LEVELS[0];
        let text = "SELECT series, time, count, low, mean, p50, p99, high FROM hour WHERE time >= ?1 AND metric = ?2";
        let mut asked = self.db.prepare(text)?;
        let rows = asked.query_map(params![begin as i64, metric.number() as i64], |row| {
            Ok(((row.get(0)?, row.get::<_, i64>(1)? as u64), summary(row, 2, metric)?))
        })?;
        let mut hours: BTreeMap<(i64, u64), Summary> = rows.collect::<rusqlite::Result<_>>()?;
        let rolled = roll::end(&self.db, "hour")?.max(begin);
        let newest =
            self.db.query_row("SELECT max(time) FROM result", [], |row| row.get::<_, Option<i64>>(0))?;
        // A clock that was ahead has left results of times to come.
        let newest = (newest.unwrap_or_default() as u64).min(now);
        let mut hour = rolled - rolled % length;
        while hour <= newest {
            let all = roll::summaries(&self.db, hour, hour + length, None)?;
            let of_metric = all.into_iter().filter(|((_, own), _)| *own == metric);
            hours.extend(of_metric.map(|((series, _), summary)| ((series, hour), summary)));
            hour += length;
        }
        Ok(hours)
    }

    /// A series over a span that ends at `now`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] names the file.
    pub fn course(&self, series: i64, span: Span, now: u64) -> Result<Vec<Known>, StoreError> {
        let begin = now.saturating_sub(span.seconds());
        self.named(match span.level() {
            None => self.rows(begin, now + 1, Some(series)).map(|rows| rows.iter().map(of_row).collect()),
            Some((table, length)) => self.rolled_course(table, length, series, begin - begin % length, now),
        })
    }

    fn rolled_course(
        &self,
        table: &str,
        length: u64,
        series: i64,
        begin: u64,
        now: u64,
    ) -> rusqlite::Result<Vec<Known>> {
        // A row is found by its time: reading all series of the time would take longer.
        let text = format!(
            "SELECT metric, count, low, mean, p50, p99, high FROM {table} WHERE time = ?1 AND series = ?2"
        );
        let mut asked = self.db.prepare(&text)?;
        let mut course = Vec::new();
        let rolled = roll::end(&self.db, table)?;
        for time in (begin..=now).step_by(length as usize) {
            let mut values = BTreeMap::new();
            if time >= rolled {
                // What is not rolled up yet is made of the results themselves, if they are still there.
                let found = roll::summaries(&self.db, time, (time + length).min(now + 1), Some(series))?;
                values.extend(found.into_iter().map(|((_, metric), summary)| (metric, summary)));
            }
            if values.is_empty() {
                let mut rows = asked.query(params![time as i64, series])?;
                while let Some(row) = rows.next()? {
                    let metric = Metric::ALL.get(row.get::<_, i64>(0)? as usize).copied();
                    if let Some(metric) = metric {
                        values.insert(metric, summary(row, 1, metric)?);
                    }
                }
            }
            if !values.is_empty() {
                course.push(Known { time, values });
            }
        }
        Ok(course)
    }

    /// The newest events that overlap the time from `begin` on, at most `most`, the newest first: of all, or of one series and of the
    /// monitor itself.
    ///
    /// # Errors
    ///
    /// [`StoreError`] names the file.
    pub fn events(
        &self,
        series: Option<i64>,
        begin: u64,
        most: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.named(self.read_events(series, begin, most))
    }

    fn read_events(
        &self,
        series: Option<i64>,
        begin: u64,
        most: usize,
    ) -> rusqlite::Result<Vec<StoredEvent>> {
        let text = "SELECT series, kind, time, until, text FROM event \
                    WHERE (until IS NULL OR until >= ?1) AND (?2 IS NULL OR series IS NULL OR series = ?2) \
                    ORDER BY time DESC, id DESC LIMIT ?3";
        let mut asked = self.db.prepare(text)?;
        let rows = asked.query_map(params![begin as i64, series, most as i64], |row| {
            let until = row.get::<_, Option<i64>>(3)?.map(|until| until as u64);
            let kind: String = row.get(1)?;
            let event = |kind| StoredEvent { series: None, kind, time: 0, until, text: String::new() };
            let event = EventKind::named(&kind).map(event);
            let (series, time, text) = (row.get(0)?, row.get::<_, i64>(2)? as u64, row.get(4)?);
            Ok(event.map(|event| StoredEvent { series, time, text, ..event }))
        })?;
        let events: Vec<Option<StoredEvent>> = rows.collect::<rusqlite::Result<_>>()?;
        Ok(events.into_iter().flatten().collect())
    }
}

fn of_row(row: &Row) -> Known {
    let values = Metric::ALL.into_iter().filter_map(|metric| {
        let value = row.figures.of(metric)?;
        Some((metric, Summary { count: 1, min: value, mean: value, p50: value, p99: value, max: value }))
    });
    Known { time: row.time, values: values.collect() }
}

/// A summary in the columns from `first` on: count, low, mean, p50, p99, high.
fn summary(row: &rusqlite::Row<'_>, first: usize, metric: Metric) -> rusqlite::Result<Summary> {
    let value = |place: usize| row.get::<_, i64>(first + place).map(|value| metric.unpack(value));
    Ok(Summary {
        count: row.get::<_, i64>(first)? as u64,
        min: value(1)?,
        mean: value(2)?,
        p50: value(3)?,
        p99: value(4)?,
        max: value(5)?,
    })
}
