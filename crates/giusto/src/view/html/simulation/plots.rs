//! The plots of a simulated run, all over one time.

use giusto_measure::ErrorHistogram;
use giusto_sim::{
    link::rate::RateProfile,
    observe::{FlowWindow, LinkWindow, Timeline},
    packet::FlowId,
};
use giusto_units::{TimeDelta, Timestamp};

use super::{PageLink, SimulationPage};
use crate::view::html::{Chart, Series};

/// Lines that can be told apart.
pub(super) const MOST_LINES: usize = 6;

/// Capacities that are drawn into one plot.
const MOST_CAPACITIES: usize = 2;

/// A rate is shown over as many windows as give it so many packets, or its steps are those of single packets.
const PACKETS_PER_POINT: u64 = 25;

/// A rate has at least so many points, few packets or not.
const LEAST_POINTS: usize = 60;

/// Points of a distribution.
const QUANTILES: usize = 200;

/// Kinds of gauges that are drawn: those that agents tell first.
const MOST_GAUGES: usize = 2;

/// Flows that are drawn as one line.
struct Bundle {
    name: String,
    flows: Vec<FlowId>,
}

pub(super) fn charts(page: &SimulationPage<'_>) -> Vec<Chart> {
    let bundles = bundles(page);
    let busy = busiest(page);
    [
        rates(page, &bundles, &busy),
        delays(page, &bundles),
        distribution(page, &bundles),
        sojourns(page, &busy),
        lengths(page, &busy),
        drops(page),
    ]
    .into_iter()
    .flatten()
    .chain(gauges(page))
    .collect()
}

/// Each flow by itself, or all of a group together, or the largest and the rest.
fn bundles(page: &SimulationPage<'_>) -> Vec<Bundle> {
    let single = |flow: &super::PageFlow| Bundle { name: flow.name.clone(), flows: vec![flow.id] };
    if page.flows.len() <= MOST_LINES {
        return page.flows.iter().map(single).collect();
    }
    let mut groups: Vec<Bundle> = Vec::new();
    for flow in &page.flows {
        match groups.iter_mut().find(|group| group.name == flow.group) {
            Some(group) => group.flows.push(flow.id),
            None => groups.push(Bundle { name: flow.group.clone(), flows: vec![flow.id] }),
        }
    }
    if groups.len() > MOST_LINES {
        let size = |bundle: &Bundle| {
            let windows = bundle.flows.iter().flat_map(|&flow| page.timeline.flow(flow));
            windows.map(|window| window.received.size.as_bytes()).sum::<u64>()
        };
        groups.sort_by_key(|bundle| std::cmp::Reverse(size(bundle)));
        let rest = groups.split_off(MOST_LINES - 1);
        let name = format!("{} others", rest.iter().map(|bundle| bundle.flows.len()).sum::<usize>());
        groups.push(Bundle { name, flows: rest.into_iter().flat_map(|bundle| bundle.flows).collect() });
    }
    for group in &mut groups {
        if group.flows.len() > 1 && !group.name.ends_with(" others") {
            group.name = format!("{} × {}", group.flows.len(), group.name);
        }
    }
    groups
}

/// The links at which packets waited, the longest wait first.
fn busiest<'a>(page: &'a SimulationPage<'_>) -> Vec<&'a PageLink> {
    let wait = |link: &PageLink| page.summary.link(link.id).and_then(|link| link.queue_delay.max());
    let mut links: Vec<&PageLink> = page.links.iter().filter(|link| page.is_busy(link)).collect();
    links.sort_by_key(|link| std::cmp::Reverse(wait(link)));
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
    chart.x.range = Some((0.0, page.timeline.end().as_seconds()));
    chart
}

/// The middle of window `place`, in seconds.
pub(in crate::view::html) fn middle(timeline: &Timeline, place: usize) -> f64 {
    let window = timeline.window(place);
    f64::midpoint(window.start.as_seconds(), window.end.as_seconds())
}

fn rates(page: &SimulationPage<'_>, bundles: &[Bundle], busy: &[&PageLink]) -> Option<Chart> {
    let timeline = page.timeline;
    let together = windows_per_point(page, bundles);
    let mut names: Vec<&str> = bundles.iter().map(|bundle| bundle.name.as_str()).collect();
    let mut sums: Vec<Vec<u64>> = bundles.iter().map(|bundle| received(timeline, &bundle.flows)).collect();
    if (2..MOST_LINES).contains(&bundles.len()) {
        let all: Vec<FlowId> = page.flows.iter().map(|flow| flow.id).collect();
        names.push("all together");
        sums.push(received(timeline, &all));
    }
    let mut lines: Vec<Vec<(f64, f64)>> =
        sums.iter().map(|sizes| rate_points(timeline, sizes, together)).collect();
    let mut limits: Vec<(String, Vec<(f64, f64)>)> = busy
        .iter()
        .filter_map(|link| Some((format!("capacity of {}", link.name), capacity(timeline, &link.rate)?)))
        .take(MOST_CAPACITIES)
        .collect();
    let most = lines.iter().chain(limits.iter().map(|(_, points)| points)).flatten();
    let most = most.map(|&(_, bps)| bps).filter(|bps| bps.is_finite()).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let (unit, name) = scaled(most);
    let limit_lines = limits.iter_mut().map(|(_, points)| points);
    lines.iter_mut().chain(limit_lines).flatten().for_each(|(_, bps)| *bps /= unit);
    let width = TimeDelta::from_nanos(timeline.width().as_nanos().saturating_mul(together as i64));
    let bound = if limits.is_empty() { "" } else { " The dashed line is what the link could carry." };
    let caption = format!("What arrived of each flow, all headers included, over {width} each.{bound}");
    let mut chart = chart(page, "Received rate", caption, &format!("rate ({name})")).with_full_width();
    // Room for the names above the capacities.
    chart.y.range = Some((0.0, most / unit * 1.1));
    for (name, points) in names.into_iter().zip(lines) {
        chart = chart.with_series(Series::line(name, points));
    }
    for (name, points) in limits {
        chart = chart.with_series(Series::limit(name, points));
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
    let points = sizes.chunks(together.max(1)).enumerate().map(|(point, sizes)| {
        let first = timeline.window(point * together).start.as_seconds();
        let last = timeline.window(point * together + sizes.len() - 1).end.as_seconds();
        let bits = sizes.iter().sum::<u64>() as f64 * 8.0;
        (f64::midpoint(first, last), if last > first { bits / (last - first) } else { f64::NAN })
    });
    points.collect()
}

/// Bytes that arrived in each window.
fn received(timeline: &Timeline, flows: &[FlowId]) -> Vec<u64> {
    let mut sizes = vec![0; timeline.len()];
    for &flow in flows {
        for (sum, window) in sizes.iter_mut().zip(timeline.flow(flow)) {
            *sum += window.received.size.as_bytes();
        }
    }
    sizes
}

fn windows_per_point(page: &SimulationPage<'_>, bundles: &[Bundle]) -> usize {
    let timeline = page.timeline;
    bundles.iter().map(|bundle| windows_apart(timeline, &bundle.flows)).max().unwrap_or(1)
}

/// How many windows together hold enough packets of `flows` for a rate.
pub(in crate::view::html) fn windows_apart(timeline: &Timeline, flows: &[FlowId]) -> usize {
    let mut packets = vec![0_u64; timeline.len()];
    for &flow in flows {
        for (sum, window) in packets.iter_mut().zip(timeline.flow(flow)) {
            *sum += window.received.packets;
        }
    }
    let active: Vec<u64> = packets.into_iter().filter(|&packets| packets > 0).collect();
    let mean = active.iter().sum::<u64>() / (active.len() as u64).max(1);
    let needed = PACKETS_PER_POINT.div_ceil(mean.max(1)) as usize;
    needed.min(timeline.len() / LEAST_POINTS).max(1)
}

/// The rate over time, each until the next; `None` without a limit.
pub(in crate::view::html) fn capacity(timeline: &Timeline, profile: &RateProfile) -> Option<Vec<(f64, f64)>> {
    let end = timeline.end();
    match profile {
        RateProfile::Unlimited => None,
        RateProfile::Fixed(rate) => {
            let bps = rate.as_bps() as f64;
            Some(vec![(0.0, bps), (end.as_seconds(), bps)])
        }
        RateProfile::Steps { steps, period: None } => {
            let mut points: Vec<(f64, f64)> = Vec::new();
            for &(at, rate) in steps.iter().filter(|(at, _)| *at < end) {
                // Before its first moment the first rate holds.
                let at = if points.is_empty() { 0.0 } else { at.as_seconds() };
                points.push((at, rate.as_bps() as f64));
            }
            let last = points.last().or(None).copied();
            let first = steps.first().map(|&(_, rate)| (0.0, rate.as_bps() as f64));
            points.push((end.as_seconds(), last.or(first)?.1));
            Some(points)
        }
        // What repeats, and what is a trace, by its mean in each window.
        RateProfile::Steps { .. } | RateProfile::Opportunities { .. } => {
            let carried = |at: Timestamp| profile.capacity(at).map(|size| size.as_bits() as f64);
            let mut points = Vec::with_capacity(timeline.len());
            let mut before = 0.0;
            for place in 0..timeline.len() {
                let window = timeline.window(place);
                let now = carried(window.end)?;
                let seconds = (window.end - window.start).as_seconds();
                if seconds > 0.0 {
                    points.push((window.start.as_seconds(), (now - before) / seconds));
                }
                before = now;
            }
            let last = points.last()?.1;
            points.push((end.as_seconds(), last));
            Some(points)
        }
    }
}

fn delays(page: &SimulationPage<'_>, bundles: &[Bundle]) -> Option<Chart> {
    let timeline = page.timeline;
    let caption = format!("The mean of the packets that arrived within {} each.", timeline.width());
    let mut chart = chart(page, "One-way delay", caption, "delay (ms)");
    let mut most: f64 = 0.0;
    for bundle in bundles {
        let windows: Vec<&[FlowWindow]> = bundle.flows.iter().map(|&flow| timeline.flow(flow)).collect();
        let points = (0..timeline.len()).map(|place| {
            let (mut sum, mut packets) = (0.0, 0);
            for window in windows.iter().filter_map(|windows| windows.get(place)) {
                if let Some(mean) = window.delay_mean() {
                    sum += mean.as_millis() * window.received.packets as f64;
                    packets += window.received.packets;
                }
            }
            let mean = if packets > 0 { sum / packets as f64 } else { f64::NAN };
            most = most.max(mean);
            (middle(timeline, place), mean)
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

/// A line for each link, `value` by window.
fn by_link(
    page: &SimulationPage<'_>,
    mut chart: Chart,
    links: &[&PageLink],
    value: impl Fn(&LinkWindow) -> f64,
) -> Option<Chart> {
    let mut most: f64 = 0.0;
    for link in links {
        let windows = page.timeline.link(link.id).iter().enumerate();
        let points: Vec<(f64, f64)> =
            windows.map(|(place, window)| (middle(page.timeline, place), value(window))).collect();
        most = points.iter().fold(most, |most, point| most.max(point.1));
        chart = chart.with_series(Series::line(link.name.clone(), points));
    }
    chart.y.range = Some((0.0, most * 1.06));
    (most > 0.0).then_some(chart)
}

fn sojourns(page: &SimulationPage<'_>, busy: &[&PageLink]) -> Option<Chart> {
    let caption = format!(
        "The longest that a packet had waited that left the queue, within {} each.",
        page.timeline.width()
    );
    let chart = chart(page, "Time in queue", caption, "time in queue (ms)");
    by_link(page, chart, busy, |window| window.sojourn_max.as_millis())
}

fn lengths(page: &SimulationPage<'_>, busy: &[&PageLink]) -> Option<Chart> {
    let caption = format!("The most that waited, within {} each.", page.timeline.width());
    let chart = chart(page, "Queue length", caption, "queue (kB)");
    by_link(page, chart, busy, |window| window.waiting_max.size.as_bytes() as f64 / 1e3)
}

fn drops(page: &SimulationPage<'_>) -> Option<Chart> {
    type Of = fn(&LinkWindow) -> u64;
    let kinds: [(&str, Of); 4] = [
        ("queue full", |window| window.drops.overflow_packets),
        ("dropped by queue management", |window| window.drops.aqm_packets),
        ("lost on the wire", |window| window.drops.lost_packets),
        ("marked", |window| window.marked_packets),
    ];
    let timeline = page.timeline;
    let caption = format!("At all links, within {} each, on top of each other.", timeline.width());
    let mut chart = chart(page, "Drops and marks", caption, "packets").with_full_width();
    for (name, of) in kinds {
        let mut sums = vec![0; timeline.len()];
        for link in &page.links {
            for (sum, window) in sums.iter_mut().zip(timeline.link(link.id)) {
                *sum += of(window);
            }
        }
        if sums.iter().any(|&sum| sum > 0) {
            let begin = |place| timeline.window(place).start.as_seconds();
            let points: Vec<_> =
                sums.iter().enumerate().map(|(place, &sum)| (begin(place), sum as f64)).collect();
            chart = chart.with_series(Series::stacked(name, points));
        }
    }
    (!chart.series.is_empty()).then_some(chart)
}

fn distribution(page: &SimulationPage<'_>, bundles: &[Bundle]) -> Option<Chart> {
    /// Delays that differ by more than this factor are shown on a logarithmic axis.
    const WIDE: f64 = 20.0;
    let caption = "Read: so many percent of the packets took at most so long. The steeper, the evener.";
    let mut chart = Chart::new("One-way delay, distribution", caption).with_axes("delay (ms)", "packets (%)");
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for bundle in bundles {
        let mut all = ErrorHistogram::new();
        let flows = bundle.flows.iter().filter_map(|&flow| page.summary.flow(flow));
        flows.for_each(|flow| all.merge(&flow.delay));
        let points = cumulative(&all);
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            (least, most) = (least.min(first.0), most.max(last.0));
        }
        chart = chart.with_series(Series::line(bundle.name.clone(), points));
    }
    if most > least.max(1e-6) * WIDE {
        chart = chart.with_log_x();
    }
    chart.y.range = Some((0.0, 101.0));
    (most > 0.0).then_some(chart)
}

/// Delay in ms, and how many percent took at most so long: about [`QUANTILES`] points.
fn cumulative(delays: &ErrorHistogram) -> Vec<(f64, f64)> {
    let total = delays.count() as f64;
    let (mut below, mut last) = (0_u64, f64::NEG_INFINITY);
    let mut points = Vec::new();
    for bucket in delays.buckets() {
        if points.is_empty() {
            points.push((bucket.lower.as_millis(), 0.0));
        }
        below += bucket.count;
        let percent = below as f64 / total * 100.0;
        // The tail is never thinned away: its last point is the largest delay.
        if percent - last >= 100.0 / QUANTILES as f64 || below == delays.count() {
            let upper = delays.max().map_or(bucket.upper, |max| bucket.upper.min(max));
            points.push((upper.as_millis(), percent));
            last = percent;
        }
    }
    points
}

fn gauges(page: &SimulationPage<'_>) -> Vec<Chart> {
    let timeline = page.timeline;
    let mut names: Vec<&str> = Vec::new();
    for gauge in timeline.gauges() {
        if !names.contains(&gauge.name) {
            names.push(gauge.name);
        }
    }
    let mut charts = Vec::new();
    for name in names.into_iter().take(MOST_GAUGES) {
        let (what, unit, factor) = what_and_unit(name);
        let caption = format!("As the agent told it, the mean within {} each.", timeline.width());
        let axis = if unit.is_empty() { what.clone() } else { format!("{what} ({unit})") };
        let mut chart = chart(page, &what, caption, &axis);
        for flow in &page.flows {
            let gauge = timeline.gauges().iter().find(|gauge| gauge.flow == flow.id && gauge.name == name);
            let Some(gauge) = gauge.filter(|_| chart.series.len() < MOST_LINES) else { continue };
            let told = gauge
                .means()
                .enumerate()
                .filter_map(|(place, mean)| Some((middle(timeline, place), mean? * factor)));
            chart = chart.with_series(Series::line(flow.name.clone(), told.collect::<Vec<_>>()));
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
    use giusto_units::DataRate;

    use super::*;

    fn ms(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_capacity_holds_from_each_step_to_the_next() {
        let timeline = Timeline::with_width(ms(400), TimeDelta::from_millis(100));
        let of = |profile: &RateProfile| capacity(&timeline, profile);
        let [one, two] = [8_000_000, 16_000_000].map(DataRate::from_bps);
        assert_eq!(of(&RateProfile::Unlimited), None);
        assert_eq!(of(&RateProfile::Fixed(one)), Some(vec![(0.0, 8e6), (0.4, 8e6)]));
        let steps = vec![(ms(50), one), (ms(200), two), (ms(900), one)];
        let once = RateProfile::Steps { steps, period: None };
        assert_eq!(of(&once), Some(vec![(0.0, 8e6), (0.2, 16e6), (0.4, 16e6)]));
        let steps = vec![(ms(0), one), (ms(50), two)];
        let again = RateProfile::Steps { steps, period: Some(TimeDelta::from_millis(100)) };
        assert_eq!(of(&again), Some(vec![(0.0, 12e6), (0.1, 12e6), (0.2, 12e6), (0.3, 12e6), (0.4, 12e6)]));
    }

    #[test]
    fn a_distribution_ends_at_the_largest_delay_and_at_all_packets() {
        let mut delays = ErrorHistogram::new();
        (1..=10_000).for_each(|micros| delays.record(TimeDelta::from_micros(micros)));
        delays.record(TimeDelta::from_millis(700));
        let points = cumulative(&delays);
        assert!((QUANTILES / 2..QUANTILES + 5).contains(&points.len()), "{}", points.len());
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
        assert_eq!(points.last(), Some(&(700.0, 100.0)));
        let half = points.iter().find(|point| point.1 >= 50.0).unwrap();
        assert!((4.95..5.10).contains(&half.0), "{half:?}");
        assert_eq!(cumulative(&ErrorHistogram::new()), []);
    }

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
