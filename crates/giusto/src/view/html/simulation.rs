//! The page of a simulated run.

pub(super) mod media;
pub(super) mod plots;

use super::{
    Block, Card, Cell, Column, Prose, Report, Table, Tone,
    format::{count, grouped, or_unknown, percent, plural, rate, short, time_us},
    topology::{Link, Topology},
};
use crate::{
    record::{Check, Distribution, FlowRecord, LinkRecord, RunRecord, Timeline},
    view::tables::found,
};

/// A record and its timeline.
#[derive(Debug, Clone, Copy)]
pub(in crate::view::html) struct SimulationPage<'a> {
    pub(in crate::view::html) record: &'a RunRecord,
    pub(in crate::view::html) timeline: &'a Timeline,
}

/// The timeline of a record without one.
static NO_TIMELINE: Timeline =
    Timeline { width_s: 0.0, t_s: Vec::new(), flows: Vec::new(), links: Vec::new() };

/// With more links than this, the tables and the picture show those alone at which packets waited or were dropped.
const MOST_LINKS: usize = 20;

/// The page of a simulated run; `command` makes it again.
pub fn simulation(record: &RunRecord, command: impl Into<String>) -> Report {
    let page = &SimulationPage::new(record);
    let title = format!("giusto sim: {}", record.scenario);
    let mut report = Report::new(title, verdict(record)).with_command(command);
    report.push(cards(record));
    if !record.description.is_empty() {
        report.push(Prose::new("The scenario", vec![Block::Paragraph(record.description.clone())]));
    }
    if !record.checks.is_empty() {
        report.push(checks_table(&record.checks));
    }
    report.push(topology(page).draw(
        "The network",
        "Each arrow is a link with its rate, its delay, its losses and its queue; where packets waited it is thick. Below a host stands what it sends.",
    ));
    for chart in media::charts(page).into_iter().chain(plots::charts(page)) {
        report.push(chart);
    }
    report.push(flows_table(&record.flows));
    if let Some(table) = media_table(&record.flows) {
        report.push(table);
    }
    if let Some(table) = media::streams_table(&record.flows) {
        report.push(table);
    }
    report.push(links_table(page));
    report.push(how_measured(record));
    report
}

impl<'a> SimulationPage<'a> {
    pub(in crate::view::html) fn new(record: &'a RunRecord) -> Self {
        Self { record, timeline: record.timeline.as_ref().unwrap_or(&NO_TIMELINE) }
    }

    /// Whether a link's queue dropped packets, or its maximum queueing delay is at least a twentieth of the longest anywhere.
    fn is_busy(&self, link: &LinkRecord) -> bool {
        const SHARE: f64 = 20.0;
        let wait = |link: &LinkRecord| link.queue_delay_ms.map_or(0.0, |delay| delay.max);
        let longest = self.record.links.iter().map(wait).fold(0.0, f64::max);
        let drops = link.overflow_packets + link.aqm_packets;
        drops > 0 || (wait(link) > 0.0 && wait(link) * SHARE >= longest)
    }

    /// The links that are shown: all, or, of very many, the busy ones.
    fn shown_links(&self) -> Vec<&'a LinkRecord> {
        let all = self.record.links.len() <= MOST_LINKS;
        self.record.links.iter().filter(|link| all || self.is_busy(link)).collect()
    }
}

/// What came out, in one plain sentence.
fn verdict(result: &RunRecord) -> String {
    if result.interrupted {
        return format!("Ended early, at {} s: nothing was checked.", result.duration_s);
    }
    let failed: Vec<&Check> = result.checks.iter().filter(|check| !check.passed).collect();
    let all = result.checks.len() as u64;
    match failed.as_slice() {
        [] if all == 1 => {
            format!("It came as expected: {}.", result.checks.first().map_or("", |check| &check.name))
        }
        [] if all > 0 => format!("All {} expectations were met.", count(all)),
        [] => {
            let received: f64 = result.flows.iter().map(|flow| flow.received_rate_bps).sum();
            let worst = worst_delay(result);
            let delay = worst.map(|(flow, delay)| {
                format!("; 95 % of the packets of {} took at most {}", flow.id, time_us(delay.p95 * 1e3))
            });
            let flows = plural(result.flows.len() as u64, "flow", "flows");
            format!("{flows} got {} in all{}.", rate(received), delay.unwrap_or_default())
        }
        [one] if all == 1 => format!("The expectation was not met: {}.", unmet(one)),
        [first, rest @ ..] => {
            let others = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
            format!("{} of {} expectations were not met: {}{others}.", failed.len(), count(all), unmet(first))
        }
    }
}

fn unmet(check: &Check) -> String {
    format!("{} is {}, expected {}", check.name, found(check), bound(check))
}

/// The bound; a number alone is given its unit, but for a ratio, which has none.
fn bound(check: &Check) -> String {
    let Check { bound, unit, .. } = check;
    let counts = bound.ends_with(|last: char| last.is_ascii_digit());
    if counts && unit != "ratio" { format!("{bound} {unit}").trim_end().to_owned() } else { bound.clone() }
}

/// The flow whose packets took longest, by their 95th percentile.
fn worst_delay(result: &RunRecord) -> Option<(&FlowRecord, Distribution)> {
    let known = result.flows.iter().filter_map(|flow| Some((flow, flow.delay_ms?)));
    known.max_by(|a, b| a.1.p95.total_cmp(&b.1.p95))
}

fn cards(result: &RunRecord) -> Vec<Card> {
    let mut cards = Vec::new();
    let met = result.checks.iter().filter(|check| check.passed).count();
    if !result.checks.is_empty() {
        let tone = if result.passed() { Tone::Good } else { Tone::Bad };
        let note = format!("of {}", plural(result.checks.len() as u64, "expectation", "expectations"));
        cards.push(Card::new("Met", met.to_string(), note).with_tone(tone));
    }
    let received: f64 = result.flows.iter().map(|flow| flow.received_rate_bps).sum();
    let flows = plural(result.flows.len() as u64, "flow", "flows");
    cards.push(Card::new("Received in all", rate(received), format!("by {flows}")));
    let busiest = result.links.iter().filter_map(|link| Some((link, link.utilisation_ratio?)));
    if let Some((link, ratio)) = busiest.max_by(|a, b| a.1.total_cmp(&b.1)) {
        cards.push(Card::new("Busiest link", percent(ratio), format!("of its capacity: {}", link.id)));
    }
    if let Some((flow, delay)) = worst_delay(result) {
        let note = format!("95th percentile of {}; median {}", flow.id, time_us(delay.p50 * 1e3));
        cards.push(Card::new("Longest one-way delay", time_us(delay.p95 * 1e3), note));
    }
    let lossy = result.flows.iter().filter_map(|flow| Some((flow, flow.loss_ratio?)));
    if let Some((flow, ratio)) = lossy.max_by(|a, b| a.1.total_cmp(&b.1)) {
        let note = if ratio > 0.0 {
            format!("of the packets of {}", flow.id)
        } else {
            "no flow lost any".to_owned()
        };
        cards.push(Card::new("Highest loss", percent(ratio), note));
    }
    let speed = result.duration_s / result.wall_s;
    let note = format!("in {}", time_us(result.wall_s * 1e6));
    if speed.is_finite() {
        let note = format!("{note}: {} times as fast as real time", short(speed));
        cards.push(Card::new("Simulated", time_us(result.duration_s * 1e6), note));
    }
    cards
}

fn checks_table(checks: &[Check]) -> Table {
    Table {
        title: "Expectations".to_owned(),
        caption: "What the scenario expects, and what came.".to_owned(),
        columns: vec![
            Column::words("expectation"),
            Column::number("expected"),
            Column::number("found"),
            Column::words("verdict"),
        ],
        rows: checks
            .iter()
            .map(|check| {
                let (word, tone) = if check.passed { ("met", Tone::Good) } else { ("not met", Tone::Bad) };
                let cells = [check.name.clone(), bound(check), found(check)].map(Cell::from);
                cells.into_iter().chain([Cell::toned(word, tone)]).collect()
            })
            .collect(),
        folded: false,
    }
}

fn flows_table(flows: &[FlowRecord]) -> Table {
    let ms =
        |quantiles: Option<Distribution>, of: fn(Distribution) -> f64| or_unknown(quantiles.map(of), short);
    Table {
        title: "Flows".to_owned(),
        caption: "Rates count all headers, from each flow's start to its end.".to_owned(),
        columns: vec![
            Column::words("flow"),
            Column::words("kind"),
            Column::number("sent (kbit/s)"),
            Column::number("received (kbit/s)"),
            Column::number("goodput (kbit/s)"),
            Column::number("packets sent"),
            Column::number("loss"),
            Column::number("marked"),
            Column::number("delay p50 (ms)"),
            Column::number("p95"),
            Column::number("p99"),
            Column::number("max"),
            Column::number("queueing delay p95 (ms)"),
        ],
        rows: flows
            .iter()
            .map(|flow| {
                let kind = match &flow.controller {
                    Some(controller) => format!("{}, {controller}", flow.kind),
                    None => flow.kind.clone(),
                };
                vec![
                    flow.id.clone().into(),
                    kind.into(),
                    grouped(flow.sent_rate_bps / 1e3).into(),
                    grouped(flow.received_rate_bps / 1e3).into(),
                    or_unknown(flow.goodput_bps, |bps| grouped(bps / 1e3)).into(),
                    count(flow.sent_packets).into(),
                    or_unknown(flow.loss_ratio, percent).into(),
                    or_unknown(flow.marked_ratio, percent).into(),
                    ms(flow.delay_ms, |quantiles| quantiles.p50).into(),
                    ms(flow.delay_ms, |quantiles| quantiles.p95).into(),
                    ms(flow.delay_ms, |quantiles| quantiles.p99).into(),
                    ms(flow.delay_ms, |quantiles| quantiles.max).into(),
                    ms(flow.queue_delay_ms, |quantiles| quantiles.p95).into(),
                ]
            })
            .collect(),
        folded: false,
    }
}

/// What only media have; nothing if there are none.
fn media_table(flows: &[FlowRecord]) -> Option<Table> {
    let ms =
        |quantiles: Option<Distribution>, of: fn(Distribution) -> f64| or_unknown(quantiles.map(of), short);
    let kbits = |bps: Option<f64>| or_unknown(bps, |bps| grouped(bps / 1e3));
    let told = |flow: &&FlowRecord| flow.decisions.is_some() || flow.feedback_rate_bps.is_some();
    let row = |flow: &FlowRecord| {
        vec![
            flow.id.clone().into(),
            flow.controller.clone().unwrap_or_default().into(),
            kbits(flow.target_rate_bps).into(),
            or_unknown(flow.decisions, count).into(),
            or_unknown(flow.frames, count).into(),
            ms(flow.frame_delay_ms, |quantiles| quantiles.p50).into(),
            ms(flow.frame_delay_ms, |quantiles| quantiles.p95).into(),
            ms(flow.frame_delay_ms, |quantiles| quantiles.p99).into(),
            ms(flow.frame_delay_ms, |quantiles| quantiles.max).into(),
            kbits(flow.feedback_rate_bps).into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = flows.iter().filter(told).map(row).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Media".to_owned(),
        caption: "The target is its mean over time. Frame delay is the time from the capture of a frame until it is complete at the receiver.".to_owned(),
        columns: vec![
            Column::words("flow"),
            Column::words("controller"),
            Column::number("target (kbit/s)"),
            Column::number("changes"),
            Column::number("frames"),
            Column::number("frame delay p50 (ms)"),
            Column::number("p95"),
            Column::number("p99"),
            Column::number("max"),
            Column::number("feedback (kbit/s)"),
        ],
        rows,
        folded: false,
    })
}

fn links_table(page: &SimulationPage<'_>) -> Table {
    let ms = |delay: Option<Distribution>, of: fn(Distribution) -> f64| or_unknown(delay.map(of), short);
    let all = page.record.links.len();
    let row = |link: &LinkRecord| {
        vec![
            link.id.clone().into(),
            parts(link).join("; ").into(),
            or_unknown(link.utilisation_ratio, percent).into(),
            count(link.offered_packets).into(),
            count(link.delivered_packets).into(),
            count(link.dropped_packets).into(),
            count(link.marked_packets).into(),
            ms(link.queue_delay_ms, |delay| delay.mean).into(),
            ms(link.queue_delay_ms, |delay| delay.p95).into(),
            ms(link.queue_delay_ms, |delay| delay.max).into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = page.shown_links().into_iter().map(row).collect();
    let caption = if rows.len() < all {
        format!("Of {}, those with long queueing delays or drops.", plural(all as u64, "link", "links"))
    } else {
        "Packets count over the whole run.".to_owned()
    };
    Table {
        title: "Links".to_owned(),
        caption,
        columns: vec![
            Column::words("link"),
            Column::words("rate, delay and queue"),
            Column::number("utilisation"),
            Column::number("offered"),
            Column::number("delivered"),
            Column::number("dropped"),
            Column::number("marked"),
            Column::number("queueing delay mean (ms)"),
            Column::number("p95"),
            Column::number("max"),
        ],
        rows,
        folded: false,
    }
}

/// Rate, wire and queue of a link, as far as they are known.
fn parts(link: &LinkRecord) -> Vec<String> {
    let parts = [&link.rate, &link.wire, &link.queue].into_iter();
    parts.filter(|part| !part.is_empty()).cloned().collect()
}

fn topology(page: &SimulationPage<'_>) -> Topology {
    let mut topology = Topology::default();
    let shown = page.shown_links();
    // Hosts appear in the order in which flows use them, so that the pairs of a dumbbell stand side by side.
    for flow in &page.record.flows {
        let begin = topology.host(&flow.from);
        let links = flow.path.iter().filter_map(|id| page.record.links.iter().find(|link| link.id == *id));
        let mut way = vec![begin];
        for link in links {
            if !shown.iter().any(|shown| shown.id == link.id) {
                continue;
            }
            for name in [&link.from, &link.to] {
                let host = topology.host(name);
                if way.last() != Some(&host) {
                    way.push(host);
                }
            }
        }
        topology.ways.push(way);
    }
    for link in shown {
        let (from, to) = (topology.host(&link.from), topology.host(&link.to));
        topology.links.push(Link { from, to, label: parts(link), busy: page.is_busy(link) });
    }
    // What a host sends: flows that are alike in one line.
    let mut told: Vec<(&str, &str, u64)> = Vec::new();
    for flow in &page.record.flows {
        match told
            .iter_mut()
            .find(|(from, group, _)| (*from, *group) == (flow.from.as_str(), flow.group.as_str()))
        {
            Some((.., times)) => *times += 1,
            None => told.push((&flow.from, &flow.group, 1)),
        }
    }
    for (from, group, times) in told {
        let line = if times > 1 { format!("{times} × {group}") } else { group.to_owned() };
        let host = topology.host(from);
        // The name of the host itself says it already.
        if line != from
            && let Some((_, lines)) = topology.hosts.get_mut(host)
        {
            lines.push(line);
        }
    }
    topology
}

fn how_measured(result: &RunRecord) -> Prose {
    let terms = [
        (
            "One-way delay",
            "From departure at the source to the end of the path: queueing, transmission, propagation and jitter.",
        ),
        (
            "Loss",
            "Packets sent in the measuring window and lost, over those delivered or lost by the end of the run. A packet counts once, whether or not links duplicated it.",
        ),
        ("Queueing delay", "From entering a link's queue to the start of transmission."),
        ("Utilisation", "Bytes transmitted by a link over those that its rate allows, the warm-up left out."),
    ];
    let mut blocks = vec![Block::Definitions(
        terms.into_iter().map(|(term, meaning)| (term.to_owned(), meaning.to_owned())).collect(),
    )];
    blocks.push(Block::Paragraph(format!(
        "Simulated {} in {} with seed {}; {}. The same scenario with the same seed gives the same figures.",
        time_us(result.duration_s * 1e6),
        time_us(result.wall_s * 1e6),
        result.seed,
        plural(result.events, "event", "events"),
    )));
    Prose::new("How this was measured", blocks)
}

#[cfg(test)]
mod tests;
