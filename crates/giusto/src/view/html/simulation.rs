//! The page of a simulated run.

pub(super) mod media;
pub(super) mod plots;

use plots::MAX_LINES;
use serde::Serialize;

use super::{
    Block, Card, Cell, Chart, Points, Prose, Report, Section, Table, Tone,
    drawing::{Drawing, Link},
    embedded::{has_values, keep_drawn, to_json},
    finding::{finding, ms, unmet},
    format::{percent, plural, time_us},
};
use crate::{
    record::{Check, Distribution, FlowRecord, LinkRecord, Overview, RunRecord, Timeline},
    statistics::{FLOW, LINK, MEDIA, Part},
    view::{
        table::Column,
        tables::{flows_grid, found, links_grid, media_grid, punctuality, streams_grid},
    },
};

/// A record and its timeline.
#[derive(Debug, Clone)]
pub(in crate::view::html) struct SimulationPage<'a> {
    pub(in crate::view::html) record: &'a RunRecord,
    pub(in crate::view::html) timeline: &'a Timeline,
    /// JSON pointer to the record in the embedded JSON.
    pointer: String,
}

/// The timeline of a record without one.
static NO_TIMELINE: Timeline =
    Timeline { width_s: 0.0, t_s: Vec::new(), flows: Vec::new(), links: Vec::new() };

/// The parts of a distribution on a page.
const PARTS: &[Part] = &[Part::P50, Part::P95, Part::P99, Part::Max];

/// With more links than this, the tables and the drawing show only those at which packets waited or were dropped.
const MAX_LINKS: usize = 20;

/// The page of a simulated run; `command` makes it again.
pub fn simulation(record: &RunRecord, command: impl Into<String>) -> Report {
    #[derive(Serialize)]
    struct Embedded<'a> {
        #[serde(flatten)]
        record: &'a RunRecord,
        overview: &'a Overview,
    }
    let page = &SimulationPage::new(record, String::new());
    let overview = &page.timeline.overview(MAX_LINES);
    let command_name = if record.real_time.is_some() { "link" } else { "sim" };
    let title = format!("giusto {command_name}: {}", record.scenario);
    let mut report = Report::new(title, headline(record)).with_command(command);
    report.push(cards(record));
    if !record.description.is_empty() {
        report.push(Prose::new("Scenario", vec![Block::Paragraph(record.description.clone())]));
    }
    report.sections.extend(notes(record).map(Section::from));
    if !record.checks.is_empty() {
        report.push(checks_table(&record.checks));
    }
    if !page.shown_links().is_empty() {
        report.push(topology(page));
    }
    let mut embedded = to_json(&Embedded { record, overview });
    let drawn = charts(page, overview).into_iter().filter(|chart| has_values(&embedded, chart));
    report.sections.extend(drawn.map(Section::from));
    report.sections.extend(tables(page));
    keep_drawn(&mut embedded, &report.sections);
    report.with_record(embedded)
}

/// The finding, and before it why the figures cannot be trusted.
pub(super) fn doubts_first(doubts: &[String], found: &str) -> String {
    let doubts = doubts.iter().map(|doubt| format!("The figures cannot be trusted: {doubt}. "));
    doubts.collect::<String>() + found
}

/// What the figures of the run do not explain, if there is something.
pub(super) fn notes(record: &RunRecord) -> Option<Prose> {
    let notes = record.notes.iter().cloned().map(Block::Paragraph);
    (notes.len() > 0).then(|| Prose::new("Notes", notes.collect()))
}

/// The charts, also those without values.
pub(super) fn charts(page: &SimulationPage<'_>, overview: &Overview) -> Vec<Chart> {
    media::charts(page).into_iter().chain(plots::charts(page, overview)).collect()
}

/// The tables of flows and links, and how they were measured.
pub(super) fn tables(page: &SimulationPage<'_>) -> Vec<Section> {
    let SimulationPage { record, .. } = page;
    let media = [media_table(&record.flows), streams_table(&record.flows)].into_iter().flatten();
    let links = (!record.links.is_empty()).then(|| links_table(page));
    let tables = std::iter::once(flows_table(&record.flows)).chain(media).chain(links);
    tables.map(Section::from).chain([how_measured(record).into()]).collect()
}

impl<'a> SimulationPage<'a> {
    /// `pointer` is the JSON pointer to `record` in the embedded record.
    pub(in crate::view::html) fn new(record: &'a RunRecord, pointer: String) -> Self {
        Self { record, timeline: record.timeline.as_ref().unwrap_or(&NO_TIMELINE), pointer }
    }

    /// A column over time; `path` is its JSON pointer in the record.
    pub(in crate::view::html) fn column(&self, path: &str) -> Points {
        let Self { pointer, .. } = self;
        Points::in_record(format!("{pointer}/timeline/t_s"), format!("{pointer}/{path}"))
    }

    /// A column of the timeline of a link.
    pub(in crate::view::html) fn link_column(&self, link: &str, name: &str) -> Option<Points> {
        let place = self.timeline.links.iter().position(|own| own.id == link)?;
        Some(self.column(&format!("timeline/links/{place}/{name}")))
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
        let all = self.record.links.len() <= MAX_LINKS;
        self.record.links.iter().filter(|link| all || self.is_busy(link)).collect()
    }
}

/// Whether the record is that of a call over UDP: nothing was simulated, and no link was seen.
fn is_call(record: &RunRecord) -> bool {
    record.events == 0 && record.links.is_empty()
}

/// Failed expectations first, then the finding.
pub(super) fn headline(record: &RunRecord) -> String {
    let found = finding(record);
    if let Some(real_time) = &record.real_time {
        return doubts_first(&real_time.doubts, &found);
    }
    if record.interrupted {
        let at = time_us(record.duration_s * 1e6);
        return format!("Interrupted after {at}, so no expectation was checked. {found}");
    }
    let failed: Vec<&Check> = record.checks.iter().filter(|check| !check.passed).collect();
    let all = plural(record.checks.len() as u64, "expectation", "expectations");
    match failed.as_slice() {
        [] => found,
        [one] => format!("1 of {all} failed: {}.", unmet(one)),
        [first, ..] => format!("{} of {all} failed, the first: {}.", failed.len(), unmet(first)),
    }
}

/// The flow with the largest value of `of`.
fn worst<T>(
    flows: &[FlowRecord],
    of: impl Fn(&FlowRecord) -> Option<T>,
    key: fn(&T) -> f64,
) -> Option<(&FlowRecord, T)> {
    let known = flows.iter().filter_map(|flow| Some((flow, of(flow)?)));
    known.max_by(|a, b| key(&a.1).total_cmp(&key(&b.1)))
}

/// A distribution of a flow.
type OfFlow = fn(&FlowRecord) -> Option<Distribution>;

pub(super) fn cards(record: &RunRecord) -> Vec<Card> {
    let RunRecord { flows, checks, .. } = record;
    let mut cards = Vec::new();
    let met = checks.iter().filter(|check| check.passed).count();
    if !checks.is_empty() {
        let tone = if record.passed() { Tone::Good } else { Tone::Bad };
        let note = format!("of {}", plural(checks.len() as u64, "expectation", "expectations"));
        cards.push(Card::new("Met", met.to_string(), note).with_tone(tone));
    }
    let busiest = record.links.iter().filter_map(|link| Some((link, link.utilisation_ratio?)));
    if let Some((link, ratio)) = busiest.max_by(|a, b| a.1.total_cmp(&b.1)) {
        cards.push(Card::new("Highest utilisation", percent(ratio), format!("of link {}", link.id)));
    }
    if let Some(lateness) = record.real_time.as_ref().and_then(|real_time| real_time.lateness_us) {
        cards.push(Card::new("Lateness", time_us(lateness.p99), "of the packets at p99"));
    }
    let delays: [(&str, OfFlow); 3] = [
        ("Longest one-way delay", |flow| flow.delay_ms),
        ("Longest queueing delay", |flow| flow.queue_delay_ms),
        ("Longest frame delay", |flow| flow.frame_delay_ms),
    ];
    for (label, of) in delays {
        if let Some((flow, delay)) = worst(flows, of, |delay| delay.p95) {
            let note = format!("p95 of {}; median {}", flow.id, ms(delay.p50));
            cards.push(Card::new(label, ms(delay.p95), note));
        }
    }
    if let Some((flow, ratio)) = worst(flows, |flow| flow.loss_ratio, |ratio| *ratio) {
        let note =
            if ratio > 0.0 { format!("of the packets of {}", flow.id) } else { "in every flow".to_owned() };
        cards.push(Card::new("Highest loss", percent(ratio), note));
    }
    cards
}

fn checks_table(checks: &[Check]) -> Table {
    let columns: [Column<Check>; 3] = [
        Column::words("expectation", 0, |check| check.name.clone()),
        Column::number("expected", 0, super::finding::bound),
        Column::number("found", 0, found),
    ];
    let mut table = Table::of("Expectations", "", &columns, checks);
    table.columns.push(super::Column::words("result"));
    for (row, check) in table.rows.iter_mut().zip(checks) {
        let (word, tone) = if check.passed { ("met", Tone::Good) } else { ("failed", Tone::Bad) };
        row.push(Cell::toned(word, tone));
    }
    table
}

fn flows_table(flows: &[FlowRecord]) -> Table {
    let caption =
        "Sent and received rates count all headers, goodput only payload. Each covers the flow's window.";
    Table::of_grid("Flows", caption, flows_grid(flows, PARTS))
}

/// The figures that only media flows have; `None` without such flows.
fn media_table(flows: &[FlowRecord]) -> Option<Table> {
    let has_target = flows.iter().any(|flow| flow.target_rate_bps.is_some());
    let target = if has_target { "The target rate is its mean over time. " } else { "" };
    let caption =
        format!("{target}Frame delay is the time from the capture of a frame until it arrived complete.");
    Some(Table::of_grid("Media", caption, media_grid(flows, PARTS)?))
}

/// The figures of each stream; `None` if there is only one video.
fn streams_table(flows: &[FlowRecord]) -> Option<Table> {
    Some(Table::of_grid("Streams", "Goodput is the payload of complete frames.", streams_grid(flows, PARTS)?))
}

fn links_table(page: &SimulationPage<'_>) -> Table {
    let (shown, all) = (page.shown_links(), page.record.links.len());
    let caption = if shown.len() < all {
        format!("Of {}, those with long queueing delays or drops.", plural(all as u64, "link", "links"))
    } else {
        "All figures are those from the warm-up to the end of the run.".to_owned()
    };
    let mut grid = links_grid(&shown);
    grid.words("rate, delay and queue", u8::MAX, shown.iter().map(|link| parts(link).join("; ")));
    Table::of_grid("Links", caption, grid)
}

/// Rate, wire and queue of a link, as far as they are known.
fn parts(link: &LinkRecord) -> Vec<String> {
    let parts = [&link.rate, &link.wire, &link.queue].into_iter();
    parts.filter(|part| !part.is_empty()).cloned().collect()
}

pub(super) fn topology(page: &SimulationPage<'_>) -> Drawing {
    let caption = "Each arrow is a link with its rate, delay, loss and queue. It is thick where packets were queued. The flows that a host sends stand next to its name.";
    let mut drawing =
        Drawing { title: "Network".to_owned(), caption: caption.to_owned(), ..Drawing::default() };
    let shown = page.shown_links();
    // Hosts appear in the order in which flows use them, so that the pairs of a dumbbell stand side by side.
    for flow in &page.record.flows {
        let links = flow.path.iter().filter_map(|id| shown.iter().find(|link| link.id == *id));
        let names = links.flat_map(|link| [&link.from, &link.to]);
        let mut path: Vec<usize> =
            std::iter::once(&flow.from).chain(names).map(|name| drawing.host(name)).collect();
        path.dedup();
        drawing.paths.push(path);
    }
    for link in shown {
        let (from, to) = (drawing.host(&link.from), drawing.host(&link.to));
        drawing.links.push(Link { from, to, label: parts(link), busy: page.is_busy(link) });
    }
    // Copies of a flow share a line at their host.
    for host in &mut drawing.hosts {
        let mut sent: Vec<(&str, u64)> = Vec::new();
        for flow in page.record.flows.iter().filter(|flow| flow.from == host.name) {
            match sent.iter_mut().find(|(group, _)| *group == flow.group) {
                Some((_, times)) => *times += 1,
                None => sent.push((&flow.group, 1)),
            }
        }
        let line = |(group, times): (&str, u64)| {
            if times > 1 { format!("{times} × {group}") } else { group.to_owned() }
        };
        host.lines = sent.into_iter().map(line).filter(|line| *line != host.name).collect();
    }
    drawing.place_hosts();
    drawing
}

fn how_measured(record: &RunRecord) -> Prose {
    let media = MEDIA.iter().filter(|row| record.flows.iter().any(|flow| row.is_known(flow)));
    let flows = FLOW.iter().chain(media).filter(|row| row.column.is_some());
    let mut terms: Vec<(&str, &str)> = flows.map(|row| (row.title, row.definition)).collect();
    let links = LINK.iter().filter(|row| row.column.is_some() && !record.links.is_empty());
    for row in links.filter(|row| row.name != "queue_delay_ms") {
        terms.push((row.title, row.definition));
    }
    terms.push(("p50, p95, p99", "Half, 95 % and 99 % of the values are at most this."));
    // Without a clock no time was measured.
    let took = (record.wall_s > 0.0).then(|| format!(" in {}", time_us(record.wall_s * 1e6)));
    let run = if is_call(record) {
        format!(
            "The call lasted {}. Each end measured what it received; the rates and losses of what it sent are those of the feedback. At the end the two exchanged totals.",
            time_us(record.duration_s * 1e6)
        )
    } else if let Some(real_time) = &record.real_time {
        format!(
            "Other programs' packets crossed the links for {} in real time, with seed {}: {}. Lateness is the time from the moment at \
             which a packet left the last link until it was passed to the system; it is part of no delay above.",
            time_us(record.duration_s * 1e6),
            record.seed,
            punctuality(real_time),
        )
    } else {
        format!(
            "{} were simulated{} with seed {}, in {}. The same scenario with the same seed gives the same results.",
            time_us(record.duration_s * 1e6),
            took.unwrap_or_default(),
            record.seed,
            plural(record.events, "event", "events"),
        )
    };
    Prose::definitions("How this was measured", &terms, run)
}

#[cfg(test)]
mod tests;
