//! Results and intervals as rows of CSV (RFC 4180), with units in the names of the columns.

use csv::WriterBuilder;
use giusto_session::stamp::ReflectorCounters;

use crate::measured::{
    interval::{Interval, IntervalFigures, ReflectorInterval, StampInterval},
    result::{ReflectorResult, RunResult, StampResult},
};

/// A row: an interval, or a result.
#[derive(Debug, Clone, Copy)]
pub enum Record<'a> {
    /// An interval.
    Interval(&'a Interval),
    /// The result of a run.
    Result(&'a RunResult),
    /// The result of a STAMP session.
    StampResult(&'a StampResult),
    /// The counts of a STAMP reflector.
    ReflectorResult(&'a ReflectorResult),
}

/// The name of a column, and its cell; an unknown quantity is an empty cell.
type Cell = (&'static str, Option<String>);

/// The names of the columns of `record`, which are the same for intervals and results, as one line of CSV.
///
/// # Example
///
/// ```
/// use giusto::{measured::result::RunResult, view::rows};
///
/// let header = rows::header(rows::Record::Result(&RunResult::default()));
/// assert!(header.starts_with("record,start_s,end_s,"));
/// ```
pub fn header(record: Record<'_>) -> String {
    line(cells(record).into_iter().map(|(name, _)| name.to_owned()))
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
    match record {
        Record::Interval(Interval::Streams(figures)) => {
            let run = RunResult {
                sent_packets: figures.sent_packets,
                tx_rate_bps: figures.tx_rate_bps,
                received_packets: figures.received_packets,
                rx_rate_bps: figures.rx_rate_bps,
                loss_ratio: figures.loss_ratio,
                jitter_ms: figures.jitter_ms,
                ..RunResult::default()
            };
            stream_cells("interval", Some((figures.start_s, figures.end_s)), figures, &run)
        }
        Record::Result(run) => {
            let signed = |count: Option<u64>| count.and_then(|count| i64::try_from(count).ok());
            let all = IntervalFigures {
                lost_packets: signed(run.lost_packets),
                kernel_dropped_packets: signed(run.kernel_dropped_packets),
                ..IntervalFigures::default()
            };
            stream_cells("result", run.duration_s.map(|end| (0.0, end)), &all, run)
        }
        Record::Interval(Interval::Stamp(figures)) => {
            stamp_cells("interval", figures, &StampResult::default())
        }
        Record::StampResult(result) => {
            let all = StampInterval {
                end_s: result.duration_s,
                sent_packets: result.sent_packets,
                answered_packets: result.answered_packets,
                lost_packets: i64::try_from(result.lost_packets).unwrap_or(i64::MAX),
                loss_ratio: result.loss_ratio,
                round_trip_ms: result.round_trip_ms,
                forward_jitter_ms: result.forward.jitter_ms,
                backward_jitter_ms: result.backward.jitter_ms,
                ..StampInterval::default()
            };
            stamp_cells("result", &all, result)
        }
        Record::Interval(Interval::Reflector(figures)) => reflector_cells("interval", figures, None),
        Record::ReflectorResult(result) => {
            let all = ReflectorInterval {
                end_s: result.duration_s,
                reflected_packets: result.reflected_packets,
                unanswered_packets: result.counters.unanswered(),
                ..ReflectorInterval::default()
            };
            reflector_cells("result", &all, Some(&result.counters))
        }
    }
}

/// Columns that an interval lacks are empty: those that `result` has alone.
fn stamp_cells(record: &str, figures: &StampInterval, result: &StampResult) -> Vec<Cell> {
    let (forward, backward) = (&result.forward, &result.backward);
    let named = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let trip = &figures.round_trip_ms;
    vec![
        ("record", named(record)),
        ("start_s", text(Some(figures.start_s))),
        ("end_s", text(Some(figures.end_s))),
        ("to", named(&result.to)),
        ("rate_bps", text(result.rate_bps)),
        ("size_bytes", text(Some(result.size_bytes).filter(|bytes| *bytes > 0))),
        ("sent_packets", text(Some(figures.sent_packets))),
        ("answered_packets", text(Some(figures.answered_packets))),
        ("lost_packets", text(Some(figures.lost_packets))),
        ("loss_ratio", text(figures.loss_ratio)),
        ("forward_lost_packets", text(forward.lost_packets)),
        ("backward_lost_packets", text(backward.lost_packets)),
        // Only results have it, as the directions.
        (
            "kernel_dropped_packets",
            text(Some(result.kernel_dropped_packets).filter(|_| !result.to.is_empty())),
        ),
        ("round_trip_min_ms", text(trip.min)),
        ("round_trip_p50_ms", text(trip.p50)),
        ("round_trip_p99_ms", text(trip.p99)),
        ("round_trip_max_ms", text(trip.max)),
        ("forward_delay_basis", forward.one_way_delay_ms.basis.clone()),
        ("forward_delay_p50_ms", text(forward.one_way_delay_ms.quantiles.p50)),
        ("forward_jitter_ms", text(figures.forward_jitter_ms)),
        ("backward_delay_basis", backward.one_way_delay_ms.basis.clone()),
        ("backward_delay_p50_ms", text(backward.one_way_delay_ms.quantiles.p50)),
        ("backward_jitter_ms", text(figures.backward_jitter_ms)),
        ("ended", named(&result.ended)),
        ("doubts", named(&result.doubts.join("; "))),
    ]
}

fn reflector_cells(
    record: &str,
    figures: &ReflectorInterval,
    counters: Option<&ReflectorCounters>,
) -> Vec<Cell> {
    let count = |of: fn(&ReflectorCounters) -> u64| text(counters.map(of));
    vec![
        ("record", Some(record.to_owned())),
        ("start_s", text(Some(figures.start_s))),
        ("end_s", text(Some(figures.end_s))),
        ("sessions", counters.map_or_else(|| text(Some(figures.sessions)), |all| text(Some(all.sessions)))),
        ("reflected_packets", text(Some(figures.reflected_packets))),
        ("unanswered_packets", text(Some(figures.unanswered_packets))),
        ("denied_packets", count(|all| all.denied)),
        ("malformed_packets", count(|all| all.malformed)),
        ("forged_packets", count(|all| all.forged)),
        ("replayed_packets", count(|all| all.replayed)),
        ("looped_packets", count(|all| all.looped)),
        ("over_rate_packets", count(|all| all.over_rate)),
        ("refused_packets", count(|all| all.refused)),
        ("kernel_dropped_packets", count(|all| all.kernel_dropped)),
        ("refused_dscp_packets", count(|all| all.refused_dscp)),
    ]
}

/// Intervals and results fill the same columns: what a kind lacks is empty.
fn stream_cells(
    name: &str,
    span: Option<(f64, f64)>,
    interval: &IntervalFigures,
    result: &RunResult,
) -> Vec<Cell> {
    let delay = &result.one_way_delay_ms;
    let voice = result.voice.as_ref();
    vec![
        ("record", Some(name.to_owned())),
        ("start_s", text(span.map(|(start, _)| start))),
        ("end_s", text(span.map(|(_, end)| end))),
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
        ("kernel_dropped_packets", text(interval.kernel_dropped_packets)),
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
        let lines = [
            header(Record::Result(&result)),
            row(Record::Interval(&figures.into())),
            row(Record::Result(&result)),
        ]
        .join("\n");
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

    #[test]
    fn rows_of_stamp_have_the_columns_of_their_header() {
        let result = StampResult {
            to: "192.0.2.1:862".to_owned(),
            sent_packets: 10,
            answered_packets: 9,
            lost_packets: 1,
            ..StampResult::default()
        };
        let figures =
            Interval::Stamp(StampInterval { sent_packets: 4, lost_packets: -1, ..StampInterval::default() });
        let lines = [
            header(Record::Interval(&figures)),
            row(Record::Interval(&figures)),
            row(Record::StampResult(&result)),
        ];
        let lines = lines.join("\n");
        let mut reader = csv::Reader::from_reader(lines.as_bytes());
        let rows: Vec<std::collections::HashMap<String, String>> =
            reader.deserialize().map(Result::unwrap).collect();
        assert_eq!(
            (&rows[0]["sent_packets"][..], &rows[0]["lost_packets"][..], &rows[0]["to"][..]),
            ("4", "-1", "")
        );
        assert_eq!((&rows[1]["lost_packets"][..], &rows[1]["to"][..]), ("1", "192.0.2.1:862"));
        let counters = ReflectorCounters { reflected: 3, over_rate: 2, ..ReflectorCounters::default() };
        let row = row(Record::ReflectorResult(&ReflectorResult::new(counters, 0, 1.5)));
        assert!(row.starts_with("result,0,1.5,0,3,2,0,"), "{row}");
    }
}
