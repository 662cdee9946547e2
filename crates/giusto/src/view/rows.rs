//! Results and intervals as rows of CSV (RFC 4180), with units in the names of the columns.

use csv::WriterBuilder;
use serde_json::Value;

use crate::{
    json,
    measured::{
        interval::Interval,
        result::{ReflectorResult, RunResult, StampResult},
        tcp::{TcpInterval, TcpResult, TcpServed},
    },
};

/// The columns of streams. Intervals and results have the same: what a kind lacks is empty.
const STREAM: &str = "record,start_s,end_s,from,sender,rate_bps,size_bytes,sent_packets,sent_bytes,tx_rate_bps,\
    received_packets,received_bytes,rx_rate_bps,lost_packets,loss_ratio,kernel_dropped_packets,unsent_packets,\
    duplicate_packets,reordered_packets,jitter_ms,one_way_delay_basis,one_way_delay_min_ms,one_way_delay_p50_ms,\
    one_way_delay_p99_ms,one_way_delay_max_ms,round_trip_p50_ms,schedule_error_p50_us,schedule_error_p99_us,\
    gap_error_p50_us,gap_error_p99_us,sender_cpu_ratio,receiver_cpu_ratio,mos,ended,doubts";

/// Those of a STAMP session.
const STAMP: &str = "record,start_s,end_s,to,rate_bps,size_bytes,sent_packets,answered_packets,lost_packets,loss_ratio,\
    forward_lost_packets,backward_lost_packets,kernel_dropped_packets,round_trip_min_ms,round_trip_p50_ms,\
    round_trip_p99_ms,round_trip_max_ms,forward_delay_basis,forward_delay_p50_ms,forward_jitter_ms,\
    backward_delay_basis,backward_delay_p50_ms,backward_jitter_ms,ended,doubts";

/// Those of a STAMP reflector.
const REFLECTOR: &str = "record,start_s,end_s,sessions,reflected_packets,unanswered_packets,denied_packets,\
    malformed_packets,forged_packets,replayed_packets,looped_packets,over_rate_packets,refused_packets,\
    kernel_dropped_packets,refused_dscp_packets";

/// Those of a TCP load, at both ends.
const TCP: &str = "record,start_s,end_s,from,to,connections,rate_bps,received_bytes,rtt_ms,rtt_min_ms,rtt_p50_ms,rtt_max_ms,\
    retransmitted_segments,window_segments,rpm,foreign_rpm,loaded_rpm,idle_rpm,failed_probes,failure";

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
    /// An interval of a TCP load.
    TcpInterval(&'a TcpInterval),
    /// The result of a TCP load.
    TcpResult(&'a TcpResult),
    /// A connection of such a load, at the far end.
    TcpServed(&'a TcpServed),
}

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
pub const fn header(record: Record<'_>) -> &'static str {
    match record {
        Record::Interval(Interval::Streams(_)) | Record::Result(_) => STREAM,
        Record::Interval(Interval::Stamp(_)) | Record::StampResult(_) => STAMP,
        Record::Interval(Interval::Reflector(_)) | Record::ReflectorResult(_) => REFLECTOR,
        Record::TcpInterval(_) | Record::TcpResult(_) | Record::TcpServed(_) => TCP,
    }
}

/// One row, as one line of CSV.
pub fn row(record: Record<'_>) -> String {
    let (mut json, duration_s) = match record {
        Record::Interval(interval) => (json::tree(interval), None),
        Record::Result(run) => (json::tree(run), run.duration_s),
        Record::StampResult(result) => (json::tree(result), Some(result.duration_s)),
        Record::ReflectorResult(result) => (json::tree(result), Some(result.duration_s)),
        Record::TcpInterval(interval) => (json::tree(interval), None),
        Record::TcpResult(result) => (json::tree(result), Some(result.duration_s)),
        Record::TcpServed(served) => (json::tree(served), Some(served.duration_s)),
    };
    if let Ok(Value::Object(fields)) = &mut json {
        let kind = if matches!(record, Record::Interval(_) | Record::TcpInterval(_)) {
            "interval"
        } else {
            "result"
        };
        fields.insert("record".to_owned(), kind.into());
        if let Record::TcpServed(served) = record {
            fields.extend([
                ("connections".to_owned(), 1.into()),
                ("rate_bps".to_owned(), served.rx_rate_bps.into()),
            ]);
        }
        if let Some(duration_s) = duration_s {
            fields.extend([("start_s".to_owned(), 0.into()), ("end_s".to_owned(), duration_s.into())]);
        }
    }
    // Numbers, strings and vectors under names that are strings: serialisation has no way to fail.
    let json = json.unwrap_or_default();
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(header(record).split(',').map(|name| cell(&json, name)));
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end().to_owned()
}

/// The cell of a column: the field of its name, or else the one where the JSON has it. An unknown quantity is an empty cell.
fn cell(json: &Value, name: &str) -> String {
    let known = |place: &str| json.pointer(place).filter(|value| !value.is_null());
    let quantile = ["min", "p50", "p99", "max"].into_iter().find_map(|part| {
        let (quantity, unit) = name.split_once(&format!("_{part}_"))?;
        known(&format!("/{quantity}_{unit}/{part}"))
    });
    let found = known(&format!("/{name}")).or(quantile).or_else(|| match name {
        "sender" => known("/peer").or_else(|| known("/strategy")),
        "mos" => known("/voice/mos"),
        "rpm" | "foreign_rpm" | "loaded_rpm" | "idle_rpm" | "failed_probes" => {
            known(&format!("/responsiveness/{name}"))
        }
        "one_way_delay_basis" => known("/one_way_delay_ms/basis"),
        _ => match name.split_once('_')? {
            (way, "delay_basis") => known(&format!("/{way}/one_way_delay_ms/basis")),
            (way, "delay_p50_ms") => known(&format!("/{way}/one_way_delay_ms/p50")),
            (way @ ("forward" | "backward"), rest) => known(&format!("/{way}/{rest}")),
            _ => known(&format!("/unanswered_packets/{}", name.trim_end_matches("_packets"))),
        },
    });
    found.map_or_else(String::new, text)
}

/// Counts by reason are one count.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        Value::Array(parts) => parts.iter().map(text).collect::<Vec<_>>().join("; "),
        Value::Object(counts) => counts.values().filter_map(Value::as_u64).sum::<u64>().to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use giusto_session::stamp::ReflectorCounters;

    use super::*;
    use crate::measured::interval::{IntervalFigures, StampInterval};

    fn read(lines: &str) -> Vec<BTreeMap<String, String>> {
        csv::Reader::from_reader(lines.as_bytes()).deserialize().map(Result::unwrap).collect()
    }

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
        let (lost_packets, rx_rate_bps) = (Some(-1), Some(0.5e6));
        let figures = IntervalFigures { end_s: 2.0, lost_packets, rx_rate_bps, ..IntervalFigures::default() };
        let lines = [
            header(Record::Result(&result)).to_owned(),
            row(Record::Interval(&figures.into())),
            row(Record::Result(&result)),
        ]
        .join("\n");
        let rows = read(&lines);
        let cell = |row: usize, name: &str| rows[row][name].as_str();
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
            header(Record::Interval(&figures)).to_owned(),
            row(Record::Interval(&figures)),
            row(Record::StampResult(&result)),
        ];
        let rows = read(&lines.join("\n"));
        let cells = |row: usize| ["sent_packets", "lost_packets", "to"].map(|name| rows[row][name].as_str());
        assert_eq!([cells(0), cells(1)], [["4", "-1", ""], ["10", "1", "192.0.2.1:862"]]);
        let counters = ReflectorCounters { reflected: 3, over_rate: 2, ..ReflectorCounters::default() };
        let row = row(Record::ReflectorResult(&ReflectorResult::new(counters, 0, 1.5)));
        assert!(row.starts_with("result,0,1.5,0,3,2,0,"), "{row}");
    }
}
