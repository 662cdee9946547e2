//! Tables of the simulated LTE network.

use crate::{
    city::traces::TraceFigures,
    view::{
        format::{or_unknown, percent, rate, short},
        table::{Column, fitted},
    },
};

/// The traces of a set, a row each, at most `width` characters wide if possible.
pub fn traces(traces: &[TraceFigures], width: u16) -> String {
    let columns: [Column<TraceFigures>; 8] = [
        Column::words("trace", 0, |trace| trace.name.clone()),
        Column::number("mean\nrate", 0, |trace| rate(trace.mean_bps)),
        Column::number("lowest\nsecond", 0, |trace| rate(trace.min_second_bps)),
        Column::number("highest\nsecond", 1, |trace| rate(trace.max_second_bps)),
        Column::number("wideband\nSINR dB", 3, |trace| format!("{:.1}", trace.wideband_sinr_db)),
        Column::number("median\ndelay ms", 2, |trace| or_unknown(trace.delay_ms, short)),
        Column::number("hand-\novers", 4, |trace| trace.handovers.to_string()),
        Column::number("blocks\nused", 5, |trace| percent(trace.used_ratio)),
    ];
    fitted(&columns, traces, width)
}
