//! Intervals in a line each, while a session lasts.

use crate::{
    measured::interval::{Interval, IntervalFigures, ReflectorInterval, StampInterval},
    view::format::{UNKNOWN, buffer, count, or_unknown, percent, rate, time_us},
};

/// The heading of a column, its width, and its cell.
type Column<T> = (&'static str, usize, fn(&T) -> String);

const STREAMS: &[Column<IntervalFigures>] = &[
    ("interval s", 13, |all| span(all.start_s, all.end_s)),
    (SENT, 14, |all| or_unknown(all.tx_rate_bps, rate)),
    ("received", 9, |all| or_unknown(all.received_bytes, buffer)),
    ("rate", 14, |all| or_unknown(all.rx_rate_bps, rate)),
    ("lost", 13, |all| all.lost_packets.map_or(UNKNOWN.to_owned(), |lost| share(lost, all.loss_ratio))),
    ("jitter", 7, |all| or_unknown(all.jitter_ms, millis)),
];

/// The column of [`STREAMS`] that only an end has that sends.
const SENT: &str = "sent rate";

/// The jitter is the larger one of both directions.
const STAMP: &[Column<StampInterval>] = &[
    ("interval s", 13, |all| span(all.start_s, all.end_s)),
    ("sent", 9, |all| count(all.sent_packets)),
    ("answered", 9, |all| count(all.answered_packets)),
    ("lost", 13, |all| share(all.lost_packets, all.loss_ratio)),
    ("median", 8, |all| or_unknown(all.round_trip_ms.p50, millis)),
    ("max", 8, |all| or_unknown(all.round_trip_ms.max, millis)),
    ("jitter", 8, |all| {
        let jitter = [all.forward_jitter_ms, all.backward_jitter_ms].into_iter().flatten();
        or_unknown(jitter.reduce(f64::max), millis)
    }),
];

const REFLECTOR: &[Column<ReflectorInterval>] = &[
    ("interval s", 13, |all| span(all.start_s, all.end_s)),
    ("sessions", 9, |all| count(all.sessions as u64)),
    ("reflected", 10, |all| count(all.reflected_packets)),
    ("not answered", 12, |all| count(all.unanswered_packets)),
];

/// The header above the lines of [`line()`]; `sends`: with the rate at which this end sends.
pub fn header(interval: &Interval, sends: bool) -> String {
    match interval {
        Interval::Streams(_) => {
            joined(STREAMS, |(name, ..)| (sends || *name != SENT).then(|| (*name).into()))
        }
        Interval::Stamp(_) => joined(STAMP, |(name, ..)| Some((*name).into())),
        Interval::Reflector(_) => joined(REFLECTOR, |(name, ..)| Some((*name).into())),
    }
}

/// One interval in a line.
pub fn line(interval: &Interval) -> String {
    match interval {
        Interval::Streams(all) => {
            let sends = all.sent_packets.is_some();
            let line = joined(STREAMS, |(name, _, cell)| (sends || *name != SENT).then(|| cell(all)));
            match all.kernel_dropped_packets.filter(|dropped| *dropped != 0) {
                Some(dropped) => format!("{line}  {dropped} in the receiver's buffer"),
                None => line,
            }
        }
        Interval::Stamp(all) => joined(STAMP, |(.., cell)| Some(cell(all))),
        Interval::Reflector(all) => joined(REFLECTOR, |(.., cell)| Some(cell(all))),
    }
}

fn joined<T>(columns: &[Column<T>], text: impl Fn(&Column<T>) -> Option<String>) -> String {
    let texts = columns.iter().filter_map(|column| Some(format!("{:>1$}", text(column)?, column.1)));
    texts.collect::<Vec<_>>().join("  ")
}

fn span(start_s: f64, end_s: f64) -> String {
    let digits = if end_s < 100.0 { 2 } else { 1 };
    format!("{start_s:.digits$}-{end_s:.digits$}")
}

fn share(lost: i64, ratio: Option<f64>) -> String {
    ratio.map_or_else(|| lost.to_string(), |ratio| format!("{lost} ({})", percent(ratio)))
}

fn millis(ms: f64) -> String {
    time_us(ms * 1e3)
}
