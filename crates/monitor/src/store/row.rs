//! A row of the results.

use crate::metric::{Figures, Metric};

/// A row of `result`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    pub(super) time: u64,
    pub(super) series: i64,
    pub(super) doubtful: bool,
    pub(super) figures: Figures,
}

/// Reads a row, whose columns are [`super::schema::result_columns`].
pub(super) fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let [time, series] = [row.get::<_, i64>(0)?, row.get(1)?];
    let doubtful: Option<bool> = row.get(2)?;
    let [sent, lost] = [row.get::<_, Option<i64>>(3)?, row.get(4)?];
    let loss = sent.zip(lost).filter(|(sent, _)| *sent > 0).map(|(sent, lost)| lost as f64 / sent as f64);
    let known = if doubtful.is_some() { 1.0 } else { 0.0 };
    let mut figures = Figures::default().with(Metric::Known, Some(known)).with(Metric::Loss, loss);
    for (place, metric) in Metric::STORED.iter().copied().enumerate() {
        let value = row.get::<_, Option<i64>>(5 + place)?;
        figures = figures.with(metric, value.map(|value| metric.unpack(value)));
    }
    Ok(Row { time: time as u64, series, doubtful: doubtful.unwrap_or(false), figures })
}
