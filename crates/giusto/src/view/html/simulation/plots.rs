//! The charts of a simulated run over time.

use giusto_units::TimeDelta;

use super::SimulationPage;
use crate::record::{FlowTimeline, LinkRecord, LinkTimeline, Timeline};
use crate::view::html::{Chart, Gaps, Points, Series};

/// Lines of one chart.
pub(super) const MOST_LINES: usize = 6;

/// Capacities that are drawn into one plot.
const MOST_CAPACITIES: usize = 2;

/// A rate is shown over as many windows as give it so many packets, or its steps are those of single packets.
const PACKETS_PER_POINT: u64 = 25;

/// A rate has at least so many points, few packets or not.
const LEAST_POINTS: usize = 60;

/// Kinds of gauges that are drawn: those that senders report first.
const MOST_GAUGES: usize = 2;

/// Flows that are drawn as one line.
struct Bundle<'a> {
    name: String,
    flows: Vec<&'a FlowTimeline>,
}

pub(super) fn charts(page: &SimulationPage<'_>) -> Vec<Chart> {
    let bundles = bundles(page);
    let busy = busiest(page);
    [
        rates(page, &bundles, &busy),
        delays(page, &bundles),
        distribution(page),
        queue_delays(page, &busy),
        lengths(page, &busy),
        drops(page),
    ]
    .into_iter()
    .flatten()
    .chain(gauges(page))
    .collect()
}

/// Each flow or group by itself, or the largest and the rest.
fn bundles<'a>(page: &SimulationPage<'a>) -> Vec<Bundle<'a>> {
    let single = |flow: &'a FlowTimeline| Bundle { name: name(flow), flows: vec![flow] };
    let mut bundles: Vec<Bundle<'a>> = page.timeline.flows.iter().map(single).collect();
    if bundles.len() > MOST_LINES {
        let size =
            |bundle: &Bundle<'_>| bundle.flows.iter().flat_map(|flow| &flow.received_bytes).sum::<u64>();
        bundles.sort_by_key(|bundle| std::cmp::Reverse(size(bundle)));
        let rest = bundles.split_off(MOST_LINES - 1);
        let flows: Vec<&FlowTimeline> = rest.into_iter().flat_map(|bundle| bundle.flows).collect();
        let members: u32 = flows.iter().map(|flow| flow.members).sum();
        bundles.push(Bundle { name: format!("{members} others"), flows });
    }
    bundles
}

fn name(flow: &FlowTimeline) -> String {
    if flow.members > 1 { format!("{} × {}", flow.members, flow.id) } else { flow.id.clone() }
}

/// The links with the longest queueing delays, the longest first.
fn busiest<'a>(page: &SimulationPage<'a>) -> Vec<&'a LinkRecord> {
    let delay = |link: &LinkRecord| link.queue_delay_ms.map_or(0.0, |delay| delay.max);
    let mut links: Vec<&LinkRecord> = page.record.links.iter().filter(|link| page.is_busy(link)).collect();
    links.sort_by(|a, b| delay(b).total_cmp(&delay(a)));
    links.truncate(MOST_LINES);
    links
}

pub(in crate::view::html) fn chart(
    page: &SimulationPage<'_>,
    title: &str,
    caption: String,
    y: &str,
) -> Chart {
    let mut chart = Chart::new(title, caption).with_axes("time (s)", y);
    chart.x.range = Some((0.0, page.record.duration_s));
    chart
}

/// The largest of `values`; 0 without any.
pub(in crate::view::html) fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|value| value.is_finite()).fold(0.0, f64::max)
}

/// The width of `together` windows, as text.
pub(in crate::view::html) fn width(timeline: &Timeline, together: usize) -> TimeDelta {
    TimeDelta::from_nanos((timeline.width_s * 1e9 * together as f64).round() as i64)
}

fn rates(page: &SimulationPage<'_>, bundles: &[Bundle<'_>], busy: &[&LinkRecord]) -> Option<Chart> {
    let timeline = page.timeline;
    let together = windows_per_point(timeline, bundles);
    let mut names: Vec<&str> = bundles.iter().map(|bundle| bundle.name.as_str()).collect();
    let mut sums: Vec<Vec<u64>> = bundles.iter().map(|bundle| received(&bundle.flows)).collect();
    if (2..MOST_LINES).contains(&bundles.len()) {
        names.push("all together");
        sums.push(received(&timeline.flows.iter().collect::<Vec<_>>()));
    }
    let lines: Vec<Vec<(f64, f64)>> =
        sums.iter().map(|sizes| rate_points(timeline, sizes, together)).collect();
    let limits: Vec<(String, Vec<(f64, f64)>)> = busy
        .iter()
        .filter_map(|link| Some((format!("capacity of {}", link.id), capacity(page, &link.id)?)))
        .take(MOST_CAPACITIES)
        .collect();
    let drawn = lines.iter().chain(limits.iter().map(|(_, points)| points)).flatten();
    let most = largest(drawn.map(|&(_, bps)| bps));
    if most <= 0.0 {
        return None;
    }
    let (unit, name) = scaled(most);
    let width = width(timeline, together);
    let bound = if limits.is_empty() { "" } else { " The dashed line is the capacity of the link." };
    let caption = format!("All headers included, over {width} each.{bound}");
    let mut chart = chart(page, "Received rate", caption, &format!("rate ({name})")).with_full_width();
    // Room for the names above the capacities.
    chart.y.range = Some((0.0, most / unit * 1.1));
    for (name, points) in names.into_iter().zip(lines) {
        chart = chart.with_series(Series::line(name, Points::from(points).scaled(1.0 / unit)));
    }
    for (name, points) in limits {
        chart = chart.with_series(Series::limit(name, Points::from(points).scaled(1.0 / unit)));
    }
    Some(chart)
}

/// The unit in which rates up to `most` are written.
pub(in crate::view::html) fn scaled(most: f64) -> (f64, &'static str) {
    match most {
        bps if bps >= 1e9 => (1e9, "Gbit/s"),
        bps if bps >= 1e6 => (1e6, "Mbit/s"),
        bps if bps >= 1e3 => (1e3, "kbit/s"),
        _ => (1.0, "bit/s"),
    }
}

/// The rate of so many bytes in each window, in bit/s, `together` windows at a time.
pub(in crate::view::html) fn rate_points(
    timeline: &Timeline,
    sizes: &[u64],
    together: usize,
) -> Vec<(f64, f64)> {
    let half = timeline.width_s / 2.0;
    let together = together.max(1);
    let points = sizes.chunks(together).zip(timeline.t_s.chunks(together)).filter_map(|(sizes, middles)| {
        let (first, last) = (middles.first()? - half, middles.last()? + half);
        let bits = sizes.iter().sum::<u64>() as f64 * 8.0;
        Some((f64::midpoint(first, last), if last > first { bits / (last - first) } else { f64::NAN }))
    });
    points.collect()
}

/// Bytes received in each window.
fn received(flows: &[&FlowTimeline]) -> Vec<u64> {
    sums(flows.iter().map(|flow| flow.received_bytes.as_slice()))
}

/// The sums of several columns.
fn sums<'a>(columns: impl Iterator<Item = &'a [u64]>) -> Vec<u64> {
    columns.fold(Vec::new(), |mut sums, column| {
        sums.resize(sums.len().max(column.len()), 0);
        sums.iter_mut().zip(column).for_each(|(sum, value)| *sum += value);
        sums
    })
}

fn windows_per_point(timeline: &Timeline, bundles: &[Bundle<'_>]) -> usize {
    bundles.iter().map(|bundle| windows_apart(timeline, &bundle.flows)).max().unwrap_or(1)
}

/// How many windows together hold enough packets of `flows` for a rate.
pub(in crate::view::html) fn windows_apart(timeline: &Timeline, flows: &[&FlowTimeline]) -> usize {
    let packets = sums(flows.iter().map(|flow| flow.received_packets.as_slice()));
    let active: Vec<u64> = packets.into_iter().filter(|&packets| packets > 0).collect();
    let mean = active.iter().sum::<u64>() / (active.len() as u64).max(1);
    let needed = PACKETS_PER_POINT.div_ceil(mean.max(1)) as usize;
    needed.min(timeline.t_s.len() / LEAST_POINTS).max(1)
}

/// The capacity of a link over time, each value until the next; `None` without a limit.
pub(in crate::view::html) fn capacity(page: &SimulationPage<'_>, link: &str) -> Option<Vec<(f64, f64)>> {
    let own = page.timeline.links.iter().find(|own| own.id == link)?;
    let half = page.timeline.width_s / 2.0;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (&middle, bps) in page.timeline.t_s.iter().zip(&own.capacity_bps) {
        let bps = (*bps)?;
        // Only what changes needs a point.
        if points.last().is_none_or(|&(_, last)| (last - bps).abs() > f64::EPSILON * bps) {
            points.push(((middle - half).max(0.0), bps));
        }
    }
    let last = points.last()?.1;
    points.push((page.record.duration_s, last));
    Some(points)
}

fn delays(page: &SimulationPage<'_>, bundles: &[Bundle<'_>]) -> Option<Chart> {
    let timeline = page.timeline;
    let caption = format!("The mean of the packets that arrived within {} each.", width(timeline, 1));
    let mut chart = chart(page, "One-way delay", caption, "delay (ms)");
    let mut most: f64 = 0.0;
    for bundle in bundles {
        let points = timeline.t_s.iter().enumerate().map(|(place, &at)| {
            let (mut sum, mut packets) = (0.0, 0);
            for flow in &bundle.flows {
                let mean = flow.delay_mean_ms.get(place).copied().flatten();
                if let Some((mean, &count)) = mean.zip(flow.received_packets.get(place)) {
                    sum += mean * count as f64;
                    packets += count;
                }
            }
            let mean = if packets > 0 { sum / packets as f64 } else { f64::NAN };
            most = most.max(mean);
            (at, mean)
        });
        let points = without_short_gaps(points.collect());
        chart = chart.with_series(Series::line(bundle.name.clone(), points));
    }
    chart.y.range = Some((0.0, most * 1.06));
    (most > 0.0).then_some(chart)
}

/// A sender of few packets leaves windows empty: a line goes on over them, and ends where nothing comes for long.
fn without_short_gaps(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    const LONG: usize = 5;
    let mut kept = Vec::with_capacity(points.len());
    let mut empty = Vec::new();
    for point in points {
        if point.1.is_finite() {
            if empty.len() > LONG {
                kept.append(&mut empty);
            }
            empty.clear();
            kept.push(point);
        } else {
            empty.push(point);
        }
    }
    kept
}

/// A line for each of `links`: the column `name` of its timeline, whose values are `of`, times `factor`.
fn by_link(
    page: &SimulationPage<'_>,
    mut chart: Chart,
    links: &[&LinkRecord],
    (name, factor, of): (&str, f64, fn(&LinkTimeline) -> f64),
) -> Option<Chart> {
    let mut most: f64 = 0.0;
    for link in links {
        let own = page.timeline.links.iter().enumerate().find(|(_, own)| own.id == link.id);
        let Some((place, own)) = own else { continue };
        most = most.max(of(own) * factor);
        let points = page.column(&format!("links/{place}/{name}"), factor).with_gaps(Gaps::Zero);
        chart = chart.with_series(Series::line(link.id.clone(), points));
    }
    chart.y.range = Some((0.0, most * 1.06));
    (most > 0.0).then_some(chart)
}

fn queue_delays(page: &SimulationPage<'_>, busy: &[&LinkRecord]) -> Option<Chart> {
    let caption = format!(
        "The maximum of the packets transmitted within {} each, at each link.",
        width(page.timeline, 1)
    );
    let chart = chart(page, "Queueing delay", caption, "delay (ms)");
    let most = |link: &LinkTimeline| largest(link.queue_delay_max_ms.iter().copied().flatten());
    by_link(page, chart, busy, ("queue_delay_max_ms", 1.0, most))
}

fn lengths(page: &SimulationPage<'_>, busy: &[&LinkRecord]) -> Option<Chart> {
    let caption = format!("The maximum within {} each.", width(page.timeline, 1));
    let chart = chart(page, "Queue length", caption, "queue (kB)");
    let most = |link: &LinkTimeline| link.queued_max_bytes.iter().copied().max().unwrap_or(0) as f64;
    by_link(page, chart, busy, ("queued_max_bytes", 1e-3, most))
}

fn drops(page: &SimulationPage<'_>) -> Option<Chart> {
    type Of = fn(&LinkTimeline) -> &Vec<u64>;
    let kinds: [(&str, Of); 3] = [
        ("dropped from queues", |link| &link.dropped_packets),
        ("lost on the wire", |link| &link.lost_packets),
        ("marked", |link| &link.marked_packets),
    ];
    let timeline = page.timeline;
    let caption = format!("At all links, within {} each, stacked.", width(timeline, 1));
    let mut chart = chart(page, "Drops and marks", caption, "packets").with_full_width();
    for (name, of) in kinds {
        let sums = sums(timeline.links.iter().map(|link| of(link).as_slice()));
        if sums.iter().any(|&sum| sum > 0) {
            let begin = |&middle: &f64| (middle - timeline.width_s / 2.0).max(0.0);
            let begins = timeline.t_s.iter().map(begin);
            let points: Points = begins.zip(&sums).map(|(at, &sum)| (at, sum as f64)).collect();
            chart = chart.with_series(Series::stacked(name, points));
        }
    }
    (!chart.series.is_empty()).then_some(chart)
}

fn distribution(page: &SimulationPage<'_>) -> Option<Chart> {
    /// Delays that differ by more than this factor are shown on a logarithmic axis.
    const WIDE: f64 = 20.0;
    let caption = "The share of the packets whose delay is at most the value on the x-axis.";
    let mut chart = Chart::new("One-way delay, distribution", caption).with_axes("delay (ms)", "packets (%)");
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for (place, flow) in page.timeline.flows.iter().enumerate().take(MOST_LINES) {
        let cdf = &flow.delay_cdf;
        if let (Some(first), Some(last)) = (cdf.ms.first(), cdf.ms.last()) {
            (least, most) = (least.min(*first), most.max(*last));
        }
        let cdf = format!("{}/flows/{place}/delay_cdf", page.pointer);
        let points = Points::in_record(format!("{cdf}/ms"), format!("{cdf}/ratio")).scaled(100.0);
        chart = chart.with_series(Series::line(name(flow), points));
    }
    if most > least.max(1e-6) * WIDE {
        chart = chart.with_log_x();
    }
    chart.y.range = Some((0.0, 101.0));
    (most > 0.0).then_some(chart)
}

fn gauges(page: &SimulationPage<'_>) -> Vec<Chart> {
    let timeline = page.timeline;
    let mut names: Vec<&str> = Vec::new();
    for gauge in timeline.flows.iter().flat_map(|flow| &flow.gauges) {
        if !names.contains(&gauge.name.as_str()) {
            names.push(&gauge.name);
        }
    }
    let mut charts = Vec::new();
    for name in names.into_iter().take(MOST_GAUGES) {
        let (what, unit, factor) = what_and_unit(name);
        let caption = format!("As reported by the sender: the mean within {} each.", width(timeline, 1));
        let axis = if unit.is_empty() { what.clone() } else { format!("{what} ({unit})") };
        let mut chart = chart(page, &what, caption, &axis);
        for (place, flow) in timeline.flows.iter().enumerate() {
            let own = flow.gauges.iter().position(|gauge| gauge.name == name);
            if let Some(own) = own.filter(|_| chart.series.len() < MOST_LINES) {
                let points = page.column(&format!("flows/{place}/gauges/{own}/mean"), factor);
                chart = chart.with_series(Series::line(flow.id.clone(), points.with_gaps(Gaps::Bridge)));
            }
        }
        if !chart.series.is_empty() {
            charts.push(chart);
        }
    }
    charts
}

/// `cwnd_bytes` is `cwnd` in kB: the unit stands last in a name.
fn what_and_unit(name: &str) -> (String, &'static str, f64) {
    let (what, unit) = name.rsplit_once('_').unwrap_or((name, ""));
    let (unit, factor) = match unit {
        "bytes" => ("kB", 1e-3),
        "bps" => ("Mbit/s", 1e-6),
        "ns" => ("ms", 1e-6),
        "us" => ("ms", 1e-3),
        "ms" => ("ms", 1.0),
        "s" => ("s", 1.0),
        "packets" => ("packets", 1.0),
        "ratio" => ("%", 100.0),
        _ => return (name.replace('_', " "), "", 1.0),
    };
    (what.replace('_', " "), unit, factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_on_over_short_gaps_and_breaks_at_long_ones() {
        let line = |gap: usize| {
            let mut points = vec![(0.0, 1.0)];
            points.extend((1..=gap).map(|place| (place as f64, f64::NAN)));
            points.push((gap as f64 + 1.0, 2.0));
            without_short_gaps(points)
        };
        assert_eq!(line(3), [(0.0, 1.0), (4.0, 2.0)]);
        assert!(line(40).iter().any(|point| point.1.is_nan()));
    }

    #[test]
    fn gauges_say_their_units() {
        assert_eq!(what_and_unit("cwnd_bytes"), ("cwnd".to_owned(), "kB", 1e-3));
        assert_eq!(what_and_unit("target_rate_bps"), ("target rate".to_owned(), "Mbit/s", 1e-6));
        assert_eq!(what_and_unit("phase"), ("phase".to_owned(), "", 1.0));
    }
}
