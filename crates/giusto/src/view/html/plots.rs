//! The charts of measured runs.

use super::{
    Chart, Mark, Series,
    format::{load, or_unknown, ppm, time_us},
};
use crate::{
    measured::result::{HistogramBin, RunPlots, RunResult},
    view::format::asked_rate,
};

pub(super) fn rate_chart(run: &RunResult, plots: &RunPlots) -> Option<Chart> {
    /// The minimum height of the plot around the target, as a share of the target: smaller ripples are not magnified.
    const MIN_SPAN: f64 = 0.05;
    let rates = || plots.rate_series.iter().map(|(_, bps)| *bps);
    let (lowest, highest) = (rates().reduce(f64::min)?, rates().reduce(f64::max)?);
    let target = run.rate_bps.map(|bps| bps as f64);
    let middle = target.unwrap_or(f64::midpoint(highest, lowest));
    let span = (highest - middle).abs().max((middle - lowest).abs()).max(middle * MIN_SPAN) * 1.15;
    let mut chart = Chart::new(
        "Received rate",
        "The rate received in each interval; the dashed line is the requested rate.",
    )
    .with_axes("time (s)", "rate")
    .with_series(Series::line("received", plots.rate_series.clone()));
    chart.y.unit = "bit/s";
    chart.y.range = Some(((middle - span).max(0.0), middle + span));
    chart
        .marks
        .extend(target.map(|target| Mark::AtY(target, format!("requested: {}", asked_rate(run.rate_bps)))));
    Some(chart)
}

pub(super) fn gap_chart(run: &RunResult, plots: &RunPlots) -> Option<Chart> {
    /// Gaps that differ by more than this factor are shown on a logarithmic axis.
    const WIDE: f64 = 50.0;
    let bins = trimmed(&plots.gap_histogram);
    let (first, last) = (bins.first()?, bins.last()?);
    let wide = last.hi_us > first.lo_us.max(first.hi_us / 2.0) * WIDE;
    let classes = bins
        .iter()
        .map(|bin| (if wide { bin.lo_us.max(bin.hi_us / 2.0) } else { bin.lo_us }, bin.hi_us, bin.count));
    let caption = if run.packets_per_cycle.is_some_and(|n| n > 1) {
        "How often each gap occurred. This strategy sends several datagrams at once: gaps are short within a burst and long between bursts."
    } else {
        "How often each gap occurred. A narrow peak around the dashed line shows an even stream."
    };
    let mut chart = Chart::new("Gaps between arrivals", caption)
        .with_axes("gap (µs)", "datagrams")
        .with_log_y()
        .with_series(Series::Steps { name: String::new(), classes: classes.collect() });
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(1);
    chart.y.range = Some((0.5, most as f64 * 2.5));
    if wide {
        chart = chart.with_log_x();
    }
    if let Some(ideal) = run.ideal_gap_us() {
        chart = chart.with_mark(Mark::AtX(ideal, format!("ideal: {}", time_us(ideal))));
    }
    Some(chart)
}

/// The histogram without the empty classes at both ends.
fn trimmed(bins: &[HistogramBin]) -> &[HistogramBin] {
    let first = bins.iter().position(|bin| bin.count > 0).unwrap_or(bins.len());
    let end = bins.iter().rposition(|bin| bin.count > 0).map_or(first, |last| last + 1);
    bins.get(first..end).unwrap_or_default()
}

pub(super) fn schedule_error_chart(runs: &[(&RunResult, &RunPlots)]) -> Option<Chart> {
    let mut chart = Chart::new(
        "Schedule error by percentile",
        "Deviation of departures from their scheduled times: 99 % left within the value at 99 %. The right end is the maximum.",
    )
    .with_axes("share of datagrams", "schedule error (µs)")
    .with_log_x()
    .with_log_y();
    let one_rate =
        runs.iter().all(|(run, _)| runs.first().is_some_and(|(first, _)| first.rate_bps == run.rate_bps));
    for (run, plots) in runs {
        let name = if one_rate {
            run.sender().to_owned()
        } else {
            format!("{}, {}", run.sender(), asked_rate(run.rate_bps))
        };
        let points = schedule_error_curve(run, &plots.schedule_error_histogram);
        if points.len() > 1 {
            chart = chart.with_series(Series::line(name, points));
        }
    }
    chart.x.ticks = [
        (2.0, "50 %"),
        (10.0, "90 %"),
        (100.0, "99 %"),
        (1e3, "99.9 %"),
        (1e4, "99.99 %"),
        (1e5, "99.999 %"),
    ]
    .map(|(place, text)| (place, text.to_owned()))
    .to_vec();
    (!chart.series.is_empty()).then_some(chart)
}

/// The percentile curve: at 1/(1−q) the value that a share q of all datagrams stays within, so that each nine is as wide.
fn schedule_error_curve(run: &RunResult, bins: &[HistogramBin]) -> Vec<(f64, f64)> {
    /// Errors below this are drawn here: a logarithmic axis has no zero.
    const MIN_US: f64 = 0.01;
    let total: u64 = bins.iter().map(|bin| bin.count).sum();
    if total == 0 {
        let errors = &run.schedule_error_us;
        let last = run.sent_packets.filter(|&sent| sent > 1000).map_or(1e4, |sent| sent as f64);
        return [(2.0, errors.p50), (100.0, errors.p99), (1000.0, errors.p999), (last, errors.max)]
            .into_iter()
            .filter_map(|(place, value)| Some((place, value?.max(MIN_US))))
            .collect();
    }
    let mut below = 0;
    let curve = bins.iter().filter(|bin| bin.count > 0).map(|bin| {
        below += bin.count;
        let above = (total - below).max(1);
        (total as f64 / above as f64, bin.hi_us.max(MIN_US))
    });
    curve.collect()
}

pub(super) fn delay_chart(run: &RunResult, plots: &RunPlots) -> Option<Chart> {
    if plots.one_way_delay_series.is_empty() {
        return None;
    }
    let points: Vec<_> = plots.one_way_delay_series.iter().map(|(t, ms)| (*t, ms / 1e3)).collect();
    let basis = run.one_way_delay_ms.basis.as_ref();
    let basis = basis.map_or_else(String::new, |basis| format!(" Basis: {basis}."));
    let caption = format!("From departure to arrival of each datagram.{basis}");
    let mut chart = Chart::new("One-way delay", caption)
        .with_axes("time (s)", "delay")
        .with_series(Series::line("", points));
    (chart.y.unit, chart.y.from_zero) = ("s", true);
    Some(chart)
}

/// Label, length, and the text at the end of a bar.
type Bar = (String, f64, String);

/// Bar charts that compare runs; none for a single run.
pub(super) fn comparison_charts(runs: &[RunResult]) -> Vec<Chart> {
    /// Stands for smaller values, because a logarithmic axis has no zero.
    const MIN: f64 = 0.1;
    /// Title, caption, quantity of the values, whether their axis is logarithmic, length and text of the bar of a run.
    type Bars = (&'static str, &'static str, &'static str, bool, fn(&RunResult) -> Option<(f64, String)>);
    const CHARTS: [Bars; 3] = [
        (
            "Error of the received rate",
            "Absolute value on a logarithmic axis; the text at each bar has the sign. Shorter is better.",
            "error (ppm)",
            true,
            |run| run.rate_error_ppm.map(|error| (error.abs().max(MIN), ppm(error))),
        ),
        (
            "Gap error, p99",
            "99 % of all gaps between arrivals are within this of the ideal gap. Logarithmic; shorter is better.",
            "gap error (µs)",
            true,
            |run| run.gap_error_us.p99.map(|us| (us.max(MIN), time_us(us))),
        ),
        ("CPU of the sender", "Of one processor. Shorter is better.", "CPU (%)", false, |run| {
            run.sender_cpu_ratio.map(|ratio| (ratio * 100.0, format!("{} %", load(ratio))))
        }),
    ];
    let chart = |(title, caption, quantity, logarithmic, bar): Bars| {
        let mut chart = Chart::new(title, caption).with_axes("", quantity);
        chart.y.logarithmic = logarithmic;
        let known: Vec<_> = runs.iter().filter_map(|run| Some((run, bar(run)?))).collect();
        chart.series = grouped_bars(&known);
        (known.len() > 1).then_some(chart)
    };
    CHARTS.into_iter().filter_map(chart).collect()
}

/// A series of bars for each sender and a group for each rate and size, or, with one group, a bar for each sender.
fn grouped_bars(runs: &[(&RunResult, (f64, String))]) -> Vec<Series> {
    let group = |run: &RunResult| {
        let size = or_unknown(run.size_bytes, |bytes| format!("{bytes} B"));
        format!("{}\n{size}", asked_rate(run.rate_bps))
    };
    let one_group = runs.windows(2).all(|pair| matches!(pair, [(a, _), (b, _)] if group(a) == group(b)));
    let mut series: Vec<(String, Vec<Bar>)> = Vec::new();
    for (run, (length, text)) in runs {
        let (mut name, mut label) = (run.sender().to_owned(), group(run));
        if one_group {
            (name, label) = (label, name);
        }
        let bar = (label, *length, text.clone());
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, bars)) => bars.push(bar),
            None => series.push((name, vec![bar])),
        }
    }
    series.into_iter().map(|(name, bars)| Series::Bars { name, bars }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::result::Quantiles;

    #[test]
    fn the_percentile_curve_gives_each_nine_the_same_room() {
        let bins =
            [(0.0, 1.0, 900).into(), (1.0, 2.0, 90).into(), (2.0, 3.0, 9).into(), (3.0, 4.0, 1).into()];
        let curve = schedule_error_curve(&RunResult::default(), &bins);
        assert_eq!(curve, [(10.0, 1.0), (100.0, 2.0), (1000.0, 3.0), (1000.0, 4.0)]);
        let errors = Quantiles { p50: Some(0.4), p99: Some(4.0), ..Quantiles::default() };
        let run = RunResult { schedule_error_us: errors, ..RunResult::default() };
        let from_quantiles = schedule_error_curve(&run, &[]);
        assert_eq!(from_quantiles, [(2.0, 0.4), (100.0, 4.0)]);
    }
}
