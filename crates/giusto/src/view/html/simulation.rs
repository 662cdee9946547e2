//! The page of a simulated run.

pub(super) mod media;
pub(super) mod plots;

use giusto_sim::{
    link::rate::RateProfile,
    observe::{Summary, Timeline},
    packet::{FlowId, LinkId},
};
use giusto_units::TimeDelta;

use super::{
    Block, Card, Cell, Column, Prose, Report, Table, Tone,
    drawing::{Link, Topology},
    format::{count, grouped, or_unknown, percent, plural, rate, short, time_us},
};
use crate::{
    record::{CheckResult, FlowResult, LinkResult, Quantiles, SimResult},
    view::tables::found,
};

/// What the page of a simulated run is made from.
#[derive(Debug, Clone)]
pub struct SimulationPage<'a> {
    /// The figures: cards and tables.
    pub result: &'a SimResult,
    /// Their distributions.
    pub summary: &'a Summary,
    /// How they came about, over time. Call [`Timeline::finish`] first.
    pub timeline: &'a Timeline,
    /// The flows that are drawn, in the order of the scenario. Leave out those that carry nothing but answers.
    pub flows: Vec<PageFlow>,
    /// All links, in the order of the scenario.
    pub links: Vec<PageLink>,
    /// What the scenario is about, in a sentence or two; may be empty.
    pub description: String,
    /// The command line that makes the page again.
    pub command: String,
}

/// A flow on the page.
#[derive(Debug, Clone, Default)]
pub struct PageFlow {
    /// Where the observers find it.
    pub id: FlowId,
    /// Its name: that of its [`FlowResult`].
    pub name: String,
    /// What the scenario calls it together with those that are like it; where there are many flows they are drawn as one.
    pub group: String,
    /// The node where it begins.
    pub from: String,
    /// The node where it ends.
    pub to: String,
    /// The links of its way, in order.
    pub path: Vec<LinkId>,
}

/// A link on the page.
#[derive(Debug, Clone)]
pub struct PageLink {
    /// Where the observers find it.
    pub id: LinkId,
    /// Its name: that of its [`LinkResult`].
    pub name: String,
    /// The node where it begins.
    pub from: String,
    /// The node where it ends.
    pub to: String,
    /// Its rate, for the capacity over time.
    pub rate: RateProfile,
    /// Its delay, jitter and losses in words: `20 ms, jitter up to 5 ms, loss 1 %`; may be empty.
    pub wire: String,
    /// Its queue in words: `drop-tail, 60 packets`; may be empty.
    pub queue: String,
}

/// With more links than this, the tables and the picture show those alone at which packets waited or were dropped.
const MOST_LINKS: usize = 20;

/// The page of a simulated run.
pub fn simulation(page: &SimulationPage<'_>) -> Report {
    let result = page.result;
    let title = format!("giusto sim: {}", result.scenario);
    let mut report = Report::new(title, verdict(result)).with_command(&page.command);
    report.push(cards(result));
    if !page.description.is_empty() {
        report.push(Prose::new("The scenario", vec![Block::Paragraph(page.description.clone())]));
    }
    if !result.checks.is_empty() {
        report.push(checks_table(&result.checks));
    }
    report.push(topology(page).draw(
        "The network",
        "Each arrow is a link with its rate, its delay, its losses and its queue; where packets waited it is thick. Below a host stands what it sends.",
    ));
    for chart in media::charts(page).into_iter().chain(plots::charts(page)) {
        report.push(chart);
    }
    report.push(flows_table(&result.flows));
    if let Some(table) = media_table(&result.flows) {
        report.push(table);
    }
    if let Some(table) = media::streams_table(&result.flows) {
        report.push(table);
    }
    report.push(links_table(page));
    report.push(how_measured(page));
    report
}

impl SimulationPage<'_> {
    /// Whether a link's queue dropped packets, or let them wait so long that it counts: a twentieth of the longest wait anywhere.
    fn is_busy(&self, link: &PageLink) -> bool {
        const SHARE: i64 = 20;
        let wait = |link: &PageLink| self.summary.link(link.id)?.queue_delay.max();
        let longest = self.links.iter().filter_map(wait).max().unwrap_or_default();
        let drops = self.summary.link(link.id).map(|link| link.drops).unwrap_or_default();
        drops.overflow_packets + drops.aqm_packets > 0
            || wait(link).is_some_and(|wait| {
                wait > TimeDelta::ZERO && wait.as_nanos().saturating_mul(SHARE) >= longest.as_nanos()
            })
    }

    /// The links that are shown: all, or, of very many, the busy ones.
    fn shown_links(&self) -> Vec<&PageLink> {
        let all = self.links.len() <= MOST_LINKS;
        self.links.iter().filter(|link| all || self.is_busy(link)).collect()
    }
}

/// What came out, in one plain sentence.
fn verdict(result: &SimResult) -> String {
    if result.interrupted {
        return format!("Ended early, at {} s: nothing was checked.", result.duration_s);
    }
    let failed: Vec<&CheckResult> = result.checks.iter().filter(|check| !check.passed).collect();
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

fn unmet(check: &CheckResult) -> String {
    format!("{} is {}, expected {}", check.name, found(check), bound(check))
}

/// The bound; a number alone is given its unit, but for a ratio, which has none.
fn bound(check: &CheckResult) -> String {
    let CheckResult { bound, unit, .. } = check;
    let counts = bound.ends_with(|last: char| last.is_ascii_digit());
    if counts && unit != "ratio" { format!("{bound} {unit}").trim_end().to_owned() } else { bound.clone() }
}

/// The flow whose packets took longest, by their 95th percentile.
fn worst_delay(result: &SimResult) -> Option<(&FlowResult, Quantiles)> {
    let known = result.flows.iter().filter_map(|flow| Some((flow, flow.delay_ms?)));
    known.max_by(|a, b| a.1.p95.total_cmp(&b.1.p95))
}

fn cards(result: &SimResult) -> Vec<Card> {
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

fn checks_table(checks: &[CheckResult]) -> Table {
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

fn flows_table(flows: &[FlowResult]) -> Table {
    let ms = |quantiles: Option<Quantiles>, of: fn(Quantiles) -> f64| or_unknown(quantiles.map(of), short);
    Table {
        title: "Flows".to_owned(),
        caption: "Rates count all headers, from each flow's start to its end.".to_owned(),
        columns: vec![
            Column::words("flow"),
            Column::words("kind"),
            Column::number("sent (kbit/s)"),
            Column::number("received (kbit/s)"),
            Column::number("packets sent"),
            Column::number("loss"),
            Column::number("marked"),
            Column::number("delay p50 (ms)"),
            Column::number("p95"),
            Column::number("p99"),
            Column::number("max"),
            Column::number("in queues p95 (ms)"),
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
fn media_table(flows: &[FlowResult]) -> Option<Table> {
    let ms = |quantiles: Option<Quantiles>, of: fn(Quantiles) -> f64| or_unknown(quantiles.map(of), short);
    let kbits = |bps: Option<f64>| or_unknown(bps, |bps| grouped(bps / 1e3));
    let told = |flow: &&FlowResult| flow.decisions.is_some() || flow.feedback_rate_bps.is_some();
    let row = |flow: &FlowResult| {
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
        caption: "The target is its mean over time. A frame's delay counts from its capture until it has arrived whole; feedback is what the receiver sends back.".to_owned(),
        columns: vec![
            Column::words("flow"),
            Column::words("controller"),
            Column::number("target (kbit/s)"),
            Column::number("changes"),
            Column::number("whole frames"),
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
    let ms = |quantiles: Option<Quantiles>, of: fn(Quantiles) -> f64| or_unknown(quantiles.map(of), short);
    let shown = page.shown_links();
    let all = page.result.links.len();
    let row = |link: &LinkResult| {
        let about = shown.iter().find(|shown| shown.name == link.id);
        let made_of = about.map_or_else(String::new, |about| about.in_words().join("; "));
        vec![
            link.id.clone().into(),
            made_of.into(),
            or_unknown(link.utilisation_ratio, percent).into(),
            count(link.offered_packets).into(),
            count(link.delivered_packets).into(),
            count(link.dropped_packets).into(),
            count(link.marked_packets).into(),
            ms(link.queue_delay_ms, |quantiles| quantiles.p50).into(),
            ms(link.queue_delay_ms, |quantiles| quantiles.p95).into(),
            ms(link.queue_delay_ms, |quantiles| quantiles.max).into(),
        ]
    };
    let links = page.result.links.iter();
    let rows: Vec<Vec<Cell>> = links
        .filter(|link| all <= MOST_LINKS || shown.iter().any(|shown| shown.name == link.id))
        .map(row)
        .collect();
    let caption = if rows.len() < all {
        format!(
            "Of {}, those at which packets waited long or found no room.",
            plural(all as u64, "link", "links")
        )
    } else {
        "What they are made of, and what they carried over the whole run.".to_owned()
    };
    Table {
        title: "Links".to_owned(),
        caption,
        columns: vec![
            Column::words("link"),
            Column::words("made of"),
            Column::number("used"),
            Column::number("offered"),
            Column::number("delivered"),
            Column::number("dropped"),
            Column::number("marked"),
            Column::number("in queue p50 (ms)"),
            Column::number("p95"),
            Column::number("max"),
        ],
        rows,
        folded: false,
    }
}

impl PageLink {
    /// Rate, wire and queue, as far as there is something to say.
    fn in_words(&self) -> Vec<String> {
        let rate = match &self.rate {
            RateProfile::Unlimited => String::new(),
            RateProfile::Fixed(rate) => rate.to_string(),
            RateProfile::Steps { steps, .. } => {
                let rates = steps.iter().map(|&(_, rate)| rate);
                match (rates.clone().min(), rates.max()) {
                    (Some(low), Some(high)) if low < high => from_to(&low.to_string(), &high.to_string()),
                    (Some(rate), _) => rate.to_string(),
                    (None, _) => String::new(),
                }
            }
            RateProfile::Opportunities { at, .. } => {
                let period = at.last().copied().unwrap_or_default();
                let mean = self.rate.capacity(period).and_then(|size| {
                    let seconds = period.as_seconds();
                    (seconds > 0.0).then(|| size.as_bits() as f64 / seconds)
                });
                format!("a trace of {}", or_unknown(mean, self::rate))
            }
        };
        let parts = [rate, self.wire.clone(), self.queue.clone()];
        parts.into_iter().filter(|part| !part.is_empty()).collect()
    }
}

/// `3 Mbit/s` and `5 Mbit/s` are `3 to 5 Mbit/s`.
fn from_to(low: &str, high: &str) -> String {
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

fn topology(page: &SimulationPage<'_>) -> Topology {
    let mut topology = Topology::default();
    let shown = page.shown_links();
    // Hosts appear in the order in which flows use them, so that the pairs of a dumbbell stand side by side.
    for flow in &page.flows {
        let begin = topology.host(&flow.from);
        let links = flow.path.iter().filter_map(|&id| page.links.iter().find(|link| link.id == id));
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
        topology.paths.push(way);
    }
    for link in shown {
        let (from, to) = (topology.host(&link.from), topology.host(&link.to));
        topology.links.push(Link { from, to, label: link.in_words(), busy: page.is_busy(link) });
    }
    // What a host sends: flows that are alike in one line.
    let mut told: Vec<(&str, &str, u64)> = Vec::new();
    for flow in &page.flows {
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

fn how_measured(page: &SimulationPage<'_>) -> Prose {
    let result = page.result;
    let terms = [
        (
            "One-way delay",
            "From leaving the source to reaching the end of the path: time in queues, transmission, propagation and jitter. Of packets sent within the flow's measuring time; a copy that comes second does not count.",
        ),
        (
            "Loss",
            "Of the packets sent within the measuring time whose fate is known when the run ends, the share that was dropped. What is still on its way counts neither way.",
        ),
        ("Time in queue", "From entering a link's queue to the start of its transmission there."),
        (
            "Used",
            "Bytes that a link transmitted over those that its rate would have carried from the beginning to the end of the run.",
        ),
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
