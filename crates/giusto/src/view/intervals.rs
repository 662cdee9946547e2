//! Intervals in a line each, while a session lasts.

use crate::{
    measured::interval::{Interval, IntervalFigures, ReflectorInterval, StampInterval},
    view::format::{UNKNOWN, buffer, count, or_unknown, percent, rate, time_us},
};

/// The heading of a column, its width, its rank where there is no room for all, and its cell.
type Column<T> = (&'static str, usize, u8, fn(&T) -> String);

const STREAMS: &[Column<IntervalFigures>] = &[
    ("interval s", 13, 0, |all| span(all.start_s, all.end_s)),
    (SENT, 14, 4, |all| or_unknown(all.tx_rate_bps, rate)),
    ("received", 9, 5, |all| or_unknown(all.received_bytes, buffer)),
    ("rate", 14, 1, |all| or_unknown(all.rx_rate_bps, rate)),
    ("lost", 13, 2, |all| all.lost_packets.map_or(UNKNOWN.to_owned(), |lost| share(lost, all.loss_ratio))),
    ("jitter", 7, 3, |all| or_unknown(all.jitter_ms, millis)),
];

/// The column of [`STREAMS`] that only an end has that sends.
const SENT: &str = "sent rate";

/// The jitter is the larger one of both directions.
const STAMP: &[Column<StampInterval>] = &[
    ("interval s", 13, 0, |all| span(all.start_s, all.end_s)),
    ("sent", 9, 6, |all| count(all.sent_packets)),
    ("answered", 9, 5, |all| count(all.answered_packets)),
    ("lost", 13, 2, |all| share(all.lost_packets, all.loss_ratio)),
    ("median", 8, 1, |all| or_unknown(all.round_trip_ms.p50, millis)),
    ("max", 8, 3, |all| or_unknown(all.round_trip_ms.max, millis)),
    ("jitter", 8, 4, |all| {
        let jitter = [all.forward_jitter_ms, all.backward_jitter_ms].into_iter().flatten();
        or_unknown(jitter.reduce(f64::max), millis)
    }),
];

const REFLECTOR: &[Column<ReflectorInterval>] = &[
    ("interval s", 13, 0, |all| span(all.start_s, all.end_s)),
    ("sessions", 9, 1, |all| count(all.sessions as u64)),
    ("reflected", 10, 2, |all| count(all.reflected_packets)),
    ("not answered", 12, 3, |all| count(all.unanswered_packets)),
];

/// The header above the lines of [`line()`]; `sends`: with the rate at which this end sends. On a terminal of `width` columns only those
/// for which there is room.
pub fn header(interval: &Interval, sends: bool, width: usize) -> String {
    match interval {
        Interval::Streams(_) => joined(&streams(sends), width, |(name, ..)| (*name).into()),
        Interval::Stamp(_) => joined(&all(STAMP), width, |(name, ..)| (*name).into()),
        Interval::Reflector(_) => joined(&all(REFLECTOR), width, |(name, ..)| (*name).into()),
    }
}

/// One interval in a line.
pub fn line(interval: &Interval, width: usize) -> String {
    match interval {
        Interval::Streams(own) => {
            let columns = streams(own.sent_packets.is_some());
            let line = joined(&columns, width, |(.., cell)| cell(own));
            match own.kernel_dropped_packets.filter(|dropped| *dropped != 0) {
                Some(dropped) => format!("{line}  {dropped} in the receiver's buffer"),
                None => line,
            }
        }
        Interval::Stamp(own) => joined(&all(STAMP), width, |(.., cell)| cell(own)),
        Interval::Reflector(own) => joined(&all(REFLECTOR), width, |(.., cell)| cell(own)),
    }
}

fn streams(sends: bool) -> Vec<&'static Column<IntervalFigures>> {
    STREAMS.iter().filter(|(name, ..)| sends || *name != SENT).collect()
}

fn all<T>(columns: &'static [Column<T>]) -> Vec<&'static Column<T>> {
    columns.iter().collect()
}

/// The columns of a line, two blanks between them; where they are wider than `width`, one blank between those of the lowest ranks.
fn joined<T>(columns: &[&Column<T>], width: usize, text: impl Fn(&Column<T>) -> String) -> String {
    /// What a narrow line can spare of a time.
    const SPARED: usize = 2;
    let is_narrow = columns.iter().map(|(_, own, ..)| own + 2).sum::<usize>() > width.saturating_add(2);
    let own_width = |rank: u8, own: usize| if is_narrow && rank == 0 { own - SPARED } else { own };
    let used = |upto: u8| {
        let shown = columns.iter().filter(|(.., rank, _)| *rank <= upto);
        shown.map(|(_, own, rank, _)| own_width(*rank, *own) + 1).sum::<usize>()
    };
    let last = if is_narrow {
        (1..u8::MAX).rev().find(|rank| used(*rank) <= width.saturating_add(1))
    } else {
        Some(u8::MAX)
    };
    let shown = columns.iter().filter(|(.., rank, _)| *rank <= last.unwrap_or(1));
    let texts = shown.map(|column| format!("{:>1$}", text(column), own_width(column.2, column.1)));
    texts.collect::<Vec<_>>().join(if is_narrow { " " } else { "  " })
}

fn span(start_s: f64, end_s: f64) -> String {
    let is_whole = |seconds: f64| (seconds - seconds.round()).abs() < 0.05;
    let digits = match end_s {
        ..100.0 => 2,
        1000.0.. if is_whole(start_s) && is_whole(end_s) => 0,
        _ => 1,
    };
    format!("{start_s:.digits$}-{end_s:.digits$}")
}

fn share(lost: i64, ratio: Option<f64>) -> String {
    ratio.map_or_else(|| lost.to_string(), |ratio| format!("{lost} ({})", percent(ratio)))
}

fn millis(ms: f64) -> String {
    time_us(ms * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_shows_the_first_columns_by_rank() {
        let figures = IntervalFigures {
            start_s: 9.0,
            end_s: 10.0,
            sent_packets: Some(100),
            tx_rate_bps: Some(999.1e6),
            received_bytes: Some(124_000_000),
            rx_rate_bps: Some(999e6),
            lost_packets: Some(3),
            loss_ratio: Some(0.03),
            jitter_ms: Some(0.0147),
            ..IntervalFigures::default()
        };
        let (sent_packets, lost_packets, jitter_ms) = (Some(104_166), Some(1_234), Some(123.4));
        let hour = IntervalFigures {
            start_s: 3_599.0,
            end_s: 3_600.0,
            sent_packets,
            lost_packets,
            jitter_ms,
            ..figures
        };
        let stamp = StampInterval { start_s: 1.0, end_s: 2.0, sent_packets: 10, ..StampInterval::default() };
        let widths = [usize::MAX, 80, 79, 60, 40, 20];
        for interval in [Interval::Streams(hour), Interval::Streams(figures), Interval::Stamp(stamp)] {
            for width in widths {
                let (header, line) = (header(&interval, true, width), line(&interval, width));
                // Each cell ends where its heading ends.
                assert_eq!(header.chars().count(), line.chars().count());
                assert!(line.chars().count() <= width.clamp(40, 80), "{width}: {line}");
            }
        }
        let figures = IntervalFigures { end_s: 1.0, sent_packets: Some(1), ..IntervalFigures::default() };
        let interval = Interval::Streams(figures);
        assert!(header(&interval, true, 80).ends_with("  jitter") && line(&interval, 80).len() > 70);
        let narrow = header(&interval, true, 40);
        assert!(narrow.split_whitespace().eq(["interval", "s", "rate", "lost"]), "{narrow}");
    }
}
