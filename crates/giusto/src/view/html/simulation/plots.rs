//! The charts of a simulated run over time.

use giusto_units::TimeDelta;

use super::{SimulationPage, is_call};
use crate::record::{FlowRecord, FlowTimeline, LinkRecord, Overview, REPORTED_LOSS, REPORTED_RATE};
use crate::view::comparison::bottleneck;
use crate::view::html::{Chart, Gaps, Points, Series};

/// Lines of one chart.
pub(in crate::view::html) const MAX_LINES: usize = 6;

/// Capacities that are drawn into one chart.
const MAX_CAPACITIES: usize = 2;

/// Kinds of gauges that are drawn: those that senders report first, and of a call the round-trip time.
const MAX_GAUGES: usize = 2;

pub(super) fn charts(page: &SimulationPage<'_>, overview: &Overview) -> Vec<Chart> {
    let busy = busiest(page);
    let window = window(page);
    let queues = [
        (
            "Queueing delay",
            format!("The maximum of the packets transmitted in each {window}, at each link."),
            ("delay", "ms"),
            "queue_delay_max_ms",
        ),
        ("Queue length", format!("The maximum in each {window}."), ("queue", "B"), "queued_max_bytes"),
    ];
    let queues = queues.into_iter().map(|(title, caption, axis, name)| {
        let lines = busy.iter().filter_map(|link| {
            Some(Series::line(link.id.clone(), page.link_column(&link.id, name)?.with_gaps(Gaps::Zero)))
        });
        with_lines(chart(page, title, caption, axis.0, axis.1), lines)
    });
    [rates(page, overview)]
        .into_iter()
        .chain(goodput(page, overview))
        .chain([delays(page, overview), distribution(page)])
        .chain(losses(page))
        .chain(queues)
        .chain([drops(page, overview)])
        .chain(gauges(page))
        .collect()
}

/// The links with the longest queueing delays, the longest first.
fn busiest<'a>(page: &SimulationPage<'a>) -> Vec<&'a LinkRecord> {
    let delay = |link: &LinkRecord| link.queue_delay_ms.map_or(0.0, |delay| delay.max);
    let mut links: Vec<&LinkRecord> = page.record.links.iter().filter(|link| page.is_busy(link)).collect();
    crate::order::sort_by(&mut links, |a, b| delay(b).total_cmp(&delay(a)));
    links.truncate(MAX_LINES);
    links
}

/// A chart over time, with the quantity of its values and their unit.
pub(in crate::view::html) fn chart(
    page: &SimulationPage<'_>,
    title: impl Into<String>,
    caption: impl Into<String>,
    y: &str,
    unit: &'static str,
) -> Chart {
    let mut chart = Chart::new(title, caption).with_axes("time (s)", y);
    chart.x.range = Some((0.0, page.record.duration_s));
    (chart.y.unit, chart.y.from_zero) = (unit, true);
    chart
}

pub(in crate::view::html) fn with_lines(chart: Chart, lines: impl IntoIterator<Item = Series>) -> Chart {
    lines.into_iter().fold(chart, Chart::with_series)
}

/// The width of a window, as text.
pub(in crate::view::html) fn window(page: &SimulationPage<'_>) -> TimeDelta {
    TimeDelta::from_nanos((page.timeline.width_s * 1e9).round() as i64)
}

/// The capacity of a link over time; `None` without a limit.
fn capacity(page: &SimulationPage<'_>, link: &LinkRecord) -> Option<Series> {
    link.capacity_bps?;
    Some(Series::limit(format!("capacity of {}", link.id), page.link_column(&link.id, "capacity_bps")?))
}

/// The capacities that bound `flow`: of its path the slowest link, and those that are slower at times.
pub(in crate::view::html) fn capacities(page: &SimulationPage<'_>, flow: &FlowRecord) -> Vec<Series> {
    bounds(page, flow).into_iter().filter_map(|link| capacity(page, link)).take(MAX_CAPACITIES).collect()
}

fn bounds<'a>(page: &SimulationPage<'a>, flow: &FlowRecord) -> Vec<&'a LinkRecord> {
    let Some(slowest) = bottleneck(page.record, flow) else { return Vec::new() };
    let column = |link: &LinkRecord| {
        let own = page.timeline.links.iter().find(|own| own.id == link.id);
        own.into_iter().flat_map(|own| own.capacity_bps.iter().map(|bps| bps.unwrap_or(f64::INFINITY)))
    };
    let is_slower = |link: &&LinkRecord| column(link).zip(column(slowest)).any(|(own, other)| own < other);
    let on_path = flow.path.iter().filter_map(|id| page.record.links.iter().find(|link| link.id == *id));
    std::iter::once(slowest).chain(on_path.filter(is_slower)).collect()
}

/// A line for each flow or group, or for the largest and the rest: a column of their timelines.
fn flow_lines(page: &SimulationPage<'_>, overview: &Overview, column: &str, gaps: Gaps) -> Vec<Series> {
    let own = overview.largest.iter().filter_map(|&place| {
        let points = page.column(&format!("timeline/flows/{place}/{column}"));
        Some(Series::line(name(page.timeline.flows.get(place)?), points.with_gaps(gaps)))
    });
    let others = overview.others.iter().map(|others| {
        let points = page.column(&format!("overview/others/{column}"));
        Series::line(format!("{} others", others.members), points.with_gaps(gaps))
    });
    own.chain(others).collect()
}

pub(in crate::view::html) fn name(flow: &FlowTimeline) -> String {
    if flow.members > 1 { format!("{} × {}", flow.members, flow.id) } else { flow.id.clone() }
}

/// A quantity that a flow reports, over time.
fn gauge(page: &SimulationPage<'_>, place: usize, name: &str) -> Option<Points> {
    let flow = page.timeline.flows.get(place)?;
    let own = flow.gauges.iter().position(|gauge| gauge.name == name)?;
    Some(page.column(&format!("timeline/flows/{place}/gauges/{own}/mean")).with_gaps(Gaps::Bridge))
}

/// The received rate of a flow over time: of what this end of a call sends, as feedback reports it.
pub(super) fn received_rate(page: &SimulationPage<'_>, place: usize) -> Option<Points> {
    let is_measured = !page.timeline.flows.get(place)?.received_rate_bps.is_empty();
    let measured = || page.column(&format!("timeline/flows/{place}/received_rate_bps"));
    if is_measured { Some(measured()) } else { gauge(page, place, REPORTED_RATE) }
}

/// The loss of each flow of a call.
fn losses(page: &SimulationPage<'_>) -> Option<Chart> {
    let own = |(place, flow): (usize, &FlowTimeline)| {
        let measured = || page.column(&format!("timeline/flows/{place}/loss_ratio"));
        Series::line(name(flow), gauge(page, place, REPORTED_LOSS).unwrap_or_else(measured))
    };
    let caption = "Lost packets over lost and received packets, as a moving mean.";
    let lines = || page.timeline.flows.iter().enumerate().map(own);
    is_call(page.record).then(|| with_lines(chart(page, "Loss", caption, "loss", "ratio"), lines()))
}

fn rates(page: &SimulationPage<'_>, overview: &Overview) -> Chart {
    let drawn: Vec<(usize, &FlowTimeline)> =
        overview.largest.iter().filter_map(|&place| Some((place, page.timeline.flows.get(place)?))).collect();
    let own = drawn.iter().filter_map(|&(place, flow)| Some((name(flow), received_rate(page, place)?)));
    let others = overview.others.iter().map(|others| {
        (format!("{} others", others.members), page.column("overview/others/received_rate_bps"))
    });
    let mut lines: Vec<Series> = own.chain(others).map(|(name, points)| Series::line(name, points)).collect();
    let is_drawn =
        |flow: &&FlowRecord| drawn.iter().any(|(_, own)| own.id == flow.id || own.id == flow.group);
    let bounds: Vec<Vec<&str>> = page
        .record
        .flows
        .iter()
        .filter(is_drawn)
        .map(|flow| bounds(page, flow).into_iter().map(|link| link.id.as_str()).collect())
        .collect();
    // The sum is that of flows that share a link.
    let share = !is_call(page.record) && bounds.iter().all(|own| bounds.first() == Some(own));
    if share && (2..MAX_LINES).contains(&lines.len()) {
        lines.push(Series::line("all together", page.column("overview/all/received_rate_bps")));
    }
    let limits = busiest(page).into_iter().filter(|link| bounds.iter().flatten().any(|id| *id == link.id));
    let limits: Vec<Series> = limits.filter_map(|link| capacity(page, link)).take(MAX_CAPACITIES).collect();
    let bound = if limits.is_empty() { "" } else { " A dashed line is the capacity of a link." };
    let caption = format!("All headers included, as a moving mean.{bound}");
    let chart = chart(page, "Received rate", caption, "rate", "bit/s").with_full_width();
    with_lines(chart, lines.into_iter().chain(limits))
}

/// The goodput of the largest flows, if some of them have one.
fn goodput(page: &SimulationPage<'_>, overview: &Overview) -> Option<Chart> {
    let lines = overview.largest.iter().filter_map(|&place| {
        let flow = page.timeline.flows.get(place).filter(|flow| !flow.goodput_bps.is_empty())?;
        Some(Series::line(name(flow), page.column(&format!("timeline/flows/{place}/goodput_bps"))))
    });
    let lines: Vec<Series> = lines.collect();
    let caption = "Payload as a moving mean: of TCP what was delivered in order, of media the complete frames. A loss that is \
                   repaired delivers at once all that waited behind it, faster than a link.";
    let has_bursts = page.record.flows.iter().any(|flow| flow.kind == "tcp" && flow.lost_packets > 0);
    let title = if has_bursts { "Goodput (in bursts after losses)" } else { "Goodput" };
    let chart = || chart(page, title, caption, "rate", "bit/s").with_full_width();
    (!lines.is_empty()).then(|| with_lines(chart(), lines))
}

fn delays(page: &SimulationPage<'_>, overview: &Overview) -> Chart {
    let caption = format!("The mean of the packets that arrived in each {}.", window(page));
    let chart = chart(page, "One-way delay", caption, "delay", "ms");
    // A sender of few packets leaves windows empty.
    with_lines(chart, flow_lines(page, overview, "delay_mean_ms", Gaps::BridgeShort))
}

fn drops(page: &SimulationPage<'_>, overview: &Overview) -> Chart {
    let kinds = [
        ("dropped from queues", "dropped_packets", &overview.dropped_packets),
        ("lost on the wire", "lost_packets", &overview.lost_packets),
        ("marked", "marked_packets", &overview.marked_packets),
    ];
    let caption = format!("At all links, in each {}, stacked.", window(page));
    let occurred = kinds.into_iter().filter(|(.., counts)| counts.iter().any(|&count| count > 0));
    let lines =
        occurred.map(|(name, column, _)| Series::stacked(name, page.column(&format!("overview/{column}"))));
    with_lines(chart(page, "Drops and marks", caption, "packets", "").with_full_width(), lines)
}

fn distribution(page: &SimulationPage<'_>) -> Chart {
    /// Delays that differ by more than this factor are shown on a logarithmic axis.
    const WIDE: f64 = 20.0;
    let caption = "The share of the packets whose delay is at most the value on the x-axis.";
    let mut chart = Chart::new("One-way delay, distribution", caption).with_axes("delay (ms)", "packets");
    let flows = page.timeline.flows.iter().take(MAX_LINES);
    let bounds =
        flows.clone().filter_map(|flow| Some((*flow.delay_cdf.ms.first()?, *flow.delay_cdf.ms.last()?)));
    let (low, high) = bounds.fold((f64::INFINITY, 0.0_f64), |all, own| (all.0.min(own.0), all.1.max(own.1)));
    chart.x.logarithmic = high > low.max(1e-6) * WIDE;
    (chart.y.unit, chart.y.range) = ("ratio", Some((0.0, 1.01)));
    let lines = flows.enumerate().map(|(place, flow)| {
        let cdf = format!("{}/timeline/flows/{place}/delay_cdf", page.pointer);
        Series::line(name(flow), Points::in_record(format!("{cdf}/ms"), format!("{cdf}/ratio")))
    });
    with_lines(chart, lines)
}

fn gauges(page: &SimulationPage<'_>) -> Vec<Chart> {
    let flows = &page.timeline.flows;
    let mut names: Vec<&str> = Vec::new();
    let gauges = flows.iter().flat_map(|flow| &flow.gauges);
    for gauge in gauges.filter(|gauge| ![REPORTED_RATE, REPORTED_LOSS].contains(&gauge.name.as_str())) {
        if !names.contains(&gauge.name.as_str()) {
            names.push(&gauge.name);
        }
    }
    let of_name = |name: &&str| {
        let (quantity, unit, factor) = quantity_and_unit(name);
        let caption = format!("As reported: the mean in each {}.", window(page));
        let lines = flows.iter().enumerate().filter_map(|(place, flow)| {
            Some(Series::line(flow.id.clone(), gauge(page, place, name)?.scaled(factor)))
        });
        let mut letters = quantity.chars();
        let title: String =
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters.clone()).collect();
        with_lines(chart(page, title, caption, &quantity, unit), lines.take(MAX_LINES))
    };
    names.iter().take(MAX_GAUGES + usize::from(is_call(page.record))).map(of_name).collect()
}

/// `cwnd_bytes` is `cwnd` in B: the unit stands last in a name. The factor converts values to the unit.
fn quantity_and_unit(name: &str) -> (String, &'static str, f64) {
    const UNITS: [(&str, &str, f64); 8] = [
        ("bytes", "B", 1.0),
        ("bps", "bit/s", 1.0),
        ("ns", "s", 1e-9),
        ("us", "s", 1e-6),
        ("ms", "s", 1e-3),
        ("s", "s", 1.0),
        ("packets", "packets", 1.0),
        ("ratio", "ratio", 1.0),
    ];
    let (quantity, suffix) = name.rsplit_once('_').unwrap_or((name, ""));
    let unit = UNITS.iter().find(|(known, ..)| *known == suffix);
    let (quantity, unit, factor) =
        unit.map_or((name, "", 1.0), |(_, unit, factor)| (quantity, *unit, *factor));
    let words = quantity.split('_').map(|word| if word == "rtt" { "round-trip time" } else { word });
    (words.collect::<Vec<_>>().join(" "), unit, factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_have_units() {
        assert_eq!(quantity_and_unit("cwnd_bytes"), ("cwnd".to_owned(), "B", 1.0));
        assert_eq!(quantity_and_unit("smoothed_rtt_ms"), ("smoothed round-trip time".to_owned(), "s", 1e-3));
        assert_eq!(quantity_and_unit("srtt_ms"), ("srtt".to_owned(), "s", 1e-3));
        assert_eq!(quantity_and_unit("target_rate_bps"), ("target rate".to_owned(), "bit/s", 1.0));
        assert_eq!(quantity_and_unit("phase"), ("phase".to_owned(), "", 1.0));
    }
}
