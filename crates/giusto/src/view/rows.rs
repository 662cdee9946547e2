//! Results and intervals as rows of CSV (RFC 4180), with units in the names of the columns.

use csv::WriterBuilder;

use crate::measured::{interval::IntervalFigures, result::RunResult};

/// A row: an interval, or a result.
#[derive(Debug, Clone, Copy)]
pub enum Record<'a> {
    /// An interval.
    Interval(&'a IntervalFigures),
    /// The result of a run.
    Result(&'a RunResult),
}

/// The name of a column, and its cell; an unknown quantity is an empty cell.
type Cell = (&'static str, Option<String>);

/// The names of the columns, which are the same for intervals and results, as one line of CSV.
///
/// # Example
///
/// ```
/// use giusto::view::rows;
///
/// assert!(rows::header().starts_with("record,start_s,end_s,"));
/// ```
pub fn header() -> String {
    line(cells(Record::Result(&RunResult::default())).into_iter().map(|(name, _)| name.to_owned()))
}

/// One row, as one line of CSV.
pub fn row(record: Record<'_>) -> String {
    line(cells(record).into_iter().map(|(_, cell)| cell.unwrap_or_default()))
}

fn line(cells: impl IntoIterator<Item = String>) -> String {
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(cells);
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end().to_owned()
}

fn text<T: ToString>(value: Option<T>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn cells(record: Record<'_>) -> Vec<Cell> {
    // Both kinds of record fill the same columns: what a kind lacks is empty.
    let (mut interval, mut result) = (IntervalFigures::default(), RunResult::default());
    let name = match record {
        Record::Interval(figures) => {
            interval = *figures;
            result.sent_packets = figures.sent_packets;
            result.tx_rate_bps = figures.tx_rate_bps;
            result.received_packets = figures.received_packets;
            result.rx_rate_bps = figures.rx_rate_bps;
            result.loss_ratio = figures.loss_ratio;
            result.jitter_ms = figures.jitter_ms;
            "interval"
        }
        Record::Result(run) => {
            result = run.clone();
            interval.lost_packets = run.lost_packets.and_then(|lost| i64::try_from(lost).ok());
            interval.end_s = run.duration_s.unwrap_or(0.0);
            "result"
        }
    };
    let known = matches!(record, Record::Interval(_)) || result.duration_s.is_some();
    let delay = &result.one_way_delay_ms;
    let voice = result.voice.as_ref();
    vec![
        ("record", Some(name.to_owned())),
        ("start_s", known.then(|| interval.start_s.to_string())),
        ("end_s", known.then(|| interval.end_s.to_string())),
        ("from", result.from.clone()),
        ("sender", Some(result.sender().to_owned()).filter(|name| !name.is_empty())),
        ("rate_bps", text(result.rate_bps)),
        ("size_bytes", text(result.size_bytes)),
        ("sent_packets", text(result.sent_packets)),
        ("sent_bytes", text(interval.sent_bytes)),
        ("tx_rate_bps", text(result.tx_rate_bps)),
        ("received_packets", text(result.received_packets)),
        ("received_bytes", text(interval.received_bytes)),
        ("rx_rate_bps", text(result.rx_rate_bps)),
        ("lost_packets", text(interval.lost_packets)),
        ("loss_ratio", text(result.loss_ratio)),
        ("unsent_packets", text(result.unsent_packets)),
        ("duplicate_packets", text(result.duplicate_packets)),
        ("reordered_packets", text(result.reordered_packets)),
        ("jitter_ms", text(result.jitter_ms)),
        ("one_way_delay_basis", delay.basis.clone()),
        ("one_way_delay_min_ms", text(delay.quantiles.min)),
        ("one_way_delay_p50_ms", text(delay.quantiles.p50)),
        ("one_way_delay_p99_ms", text(delay.quantiles.p99)),
        ("one_way_delay_max_ms", text(delay.quantiles.max)),
        ("round_trip_p50_ms", text(result.round_trip_ms.p50)),
        ("schedule_error_p50_us", text(result.schedule_error_us.p50)),
        ("schedule_error_p99_us", text(result.schedule_error_us.p99)),
        ("gap_error_p50_us", text(result.gap_error_us.p50)),
        ("gap_error_p99_us", text(result.gap_error_us.p99)),
        ("sender_cpu_ratio", text(result.sender_cpu_ratio)),
        ("receiver_cpu_ratio", text(result.receiver_cpu_ratio)),
        ("mos", text(voice.and_then(|voice| voice.mos))),
        ("ended", result.ended.clone()),
        ("doubts", Some(result.doubts.join("; ")).filter(|doubts| !doubts.is_empty())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_reader_of_csv_reads_the_rows() {
        let result = RunResult {
            strategy: "grid".to_owned(),
            rate_bps: Some(1_000_000),
            lost_packets: Some(7),
            duration_s: Some(2.5),
            doubts: vec!["one, with a comma".to_owned(), "\"two\"".to_owned()],
            ..RunResult::default()
        };
        let figures = IntervalFigures {
            start_s: 1.0,
            end_s: 2.0,
            lost_packets: Some(-1),
            rx_rate_bps: Some(0.5e6),
            ..IntervalFigures::default()
        };
        let lines = [header(), row(Record::Interval(&figures)), row(Record::Result(&result))].join("\n");
        let mut reader = csv::Reader::from_reader(lines.as_bytes());
        let names = reader.headers().unwrap().clone();
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        let cell = |row: usize, name: &str| &rows[row][names.iter().position(|own| own == name).unwrap()];
        assert_eq!(rows.len(), 2);
        assert_eq!((cell(0, "record"), cell(0, "end_s"), cell(0, "lost_packets")), ("interval", "2", "-1"));
        assert_eq!((cell(0, "rx_rate_bps"), cell(0, "sender"), cell(0, "doubts")), ("500000", "", ""));
        assert_eq!((cell(1, "record"), cell(1, "end_s"), cell(1, "lost_packets")), ("result", "2.5", "7"));
        assert_eq!((cell(1, "sender"), cell(1, "received_packets")), ("grid", ""));
        assert_eq!(cell(1, "doubts"), "one, with a comma; \"two\"");
    }
}
