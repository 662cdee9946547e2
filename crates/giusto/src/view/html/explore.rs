//! The page of an exploration: one run, or several beside each other, each with a band over seeds.

use std::collections::BTreeMap;

use giusto_congestion::Algorithm;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Cell, Chart, Column, Drawing, Points, Report, Section, Served, Table, Tone,
    chart::{Series, significant},
    comparison,
    embedded::{has_values, keep_drawn, to_json},
    finding::bound,
    format::{or_unknown, plural},
    linked::{Group, Linked},
    simulation::{self, SimulationPage, plots::MAX_LINES},
    skeleton::{self, More},
};
use crate::{
    measured::median::median,
    packed,
    record::{Check, FlowRecord, RunRecord},
    run::comparison::Comparison,
    scenario::Document,
    statistics::{Part, Statistic, of_flow},
    view::{
        comparison::{grid, rows, subjects},
        tables::found,
    },
};

/// What follows the script of all pages: the engine, which answers questions, and the page that asks.
fn scripts(engine: &str) -> [&'static str; 6] {
    [engine, "explore/figures.js", "explore.js", "explore/stage.js", "explore/lesson.js", "explore/start.js"]
        .map(packed::page)
}

/// The title of a chart over time.
const TIME: &str = "time (s)";

/// The share of the seeds below a band, and above it.
const OUTSIDE: f64 = 0.1;

/// A page and the record from which its series take their data.
#[derive(Debug, Clone)]
pub struct Explored {
    /// The page.
    pub report: Report,
    /// The record.
    pub record: Value,
}

/// The page on which values are changed: it asks for [`Explored`] pages and shows them.
#[derive(Debug, Clone)]
pub struct Exploration(Report);

impl Exploration {
    /// A page that begins with the question `start`, or with the gallery; `title` names the file, and a question has at most `max_seeds`.
    pub fn new(
        title: Option<&str>,
        start: Option<&impl Serialize>,
        gallery: &[impl Serialize],
        max_seeds: u16,
    ) -> Self {
        let known: Vec<&str> = Algorithm::all().map(Algorithm::name).collect();
        let headline = if start.is_some() { "The first run is on its way." } else { "Choose a scenario." };
        let report = Report::new(format!("giusto explore: {}", title.unwrap_or("gallery")), headline);
        let about = json!({
            "file": title,
            "start": start,
            "gallery": gallery,
            "controllers": known,
            "max_seeds": max_seeds,
        });
        Self(report.with_record(about))
    }

    /// The page for one request; its elements have the `nonce` of the server's content security policy.
    pub fn to_html(&self, nonce: &str) -> String {
        self.0.to_served_html(Served {
            nonce,
            scripts: &scripts("explore/server.js"),
            style: packed::page("explore.css"),
        })
    }

    /// The page as one HTML text that needs no server. It explores `file` besides the gallery; `engine` is that of `crates/web`, compressed
    /// by gzip.
    pub fn to_whole_html(&self, file: Option<&Document>, engine: &[u8]) -> String {
        let mut report = self.0.clone();
        if let (Some(file), Some(Value::Object(about))) = (file, &mut report.record) {
            let own = json!({ "name": file.name(), "text": file.text(), "beside": file.kept_traces() });
            about.insert("own".to_owned(), own);
        }
        let more = More {
            scripts: &scripts("explore/workers.js"),
            style: packed::page("explore.css"),
            engine: Some(engine),
            nonce: None,
        };
        skeleton::page(&report, more)
    }
}

/// Of a run with another seed, keeps what a band and the figures over seeds need.
pub fn keep_for_bands(record: &mut RunRecord) {
    for media in record
        .timeline
        .iter_mut()
        .flat_map(|timeline| &mut timeline.flows)
        .filter_map(|flow| flow.media.as_mut())
    {
        media.decisions = Vec::new();
    }
}

/// The page of the runs of `comparison`. Of each run, `others` holds those with further seeds; it is empty as long as there are none.
pub fn explored(comparison: &Comparison, others: &[Vec<RunRecord>]) -> Explored {
    let title = format!("giusto explore: {}", comparison.scenario);
    let mut record = to_json(comparison);
    for (place, run) in comparison.runs.iter().enumerate() {
        let overview = run.result.timeline.as_ref().map(|timeline| to_json(&timeline.overview(MAX_LINES)));
        if let (Some(Value::Object(run)), Some(overview)) =
            (record.pointer_mut(&format!("/runs/{place}")), overview)
        {
            run.insert("overview".to_owned(), overview);
        }
    }
    let seeds = 1 + others.first().map_or(0, Vec::len);
    let mut report = Report::new(title, headline(comparison, others));
    let mut charts = if let [run] = comparison.runs.as_slice() {
        report.push(simulation::cards(&run.result));
        alone(comparison, &record)
    } else {
        report.push(side_by_side(comparison));
        together(comparison, &record)
    };
    if seeds > 1 {
        add_bands(&mut record, &mut charts, others);
    }
    report.sections.extend(charts);
    report.sections.extend(expectations(comparison, others).map(Section::from));
    if let [run] = comparison.runs.as_slice() {
        report.sections.extend(simulation::notes(&run.result).map(Section::from));
    }
    report.sections.extend(topologies(comparison));
    if seeds > 1 {
        report.push(over_seeds(comparison, others));
    }
    if let [run] = comparison.runs.as_slice() {
        report.sections.extend(simulation::tables(&SimulationPage::new(&run.result, "/runs/0".to_owned())));
    }
    keep_drawn(&mut record, &report.sections);
    Explored { report, record }
}

/// What the first seed shows; with several, that it is the first, and how many of them meet all expectations.
fn headline(comparison: &Comparison, others: &[Vec<RunRecord>]) -> String {
    let first = match comparison.runs.as_slice() {
        [run] => simulation::headline(&run.result),
        _ => comparison::headline(comparison, &rows(comparison)),
    };
    let more = others.first().map(Vec::as_slice).unwrap_or_default();
    let seeds = 1 + more.len();
    match comparison.runs.as_slice() {
        _ if more.is_empty() => first,
        [run] if !run.result.checks.is_empty() => {
            let passed = more.iter().chain([&run.result]).filter(|record| record.passed()).count();
            format!("{passed} of {seeds} seeds meet all expectations. First seed: {first}")
        }
        _ => format!("First of {seeds} seeds: {first}"),
    }
}

fn side_by_side(comparison: &Comparison) -> Table {
    let grid = grid(comparison, &rows(comparison));
    let mut table = Table::of_grid("Side by side", comparison.notes.join(" "), grid);
    if let Some(first) = table.columns.first_mut() {
        "run".clone_into(&mut first.name);
    }
    table
}

/// Each expectation, and what each run found; with several seeds, in how many runs it was met.
fn expectations(comparison: &Comparison, others: &[Vec<RunRecord>]) -> Option<Table> {
    let mut checks: Vec<&Check> = Vec::new();
    for check in comparison.runs.iter().flat_map(|run| &run.result.checks) {
        let is_same = |known: &&Check| known.name == check.name && bound(known) == bound(check);
        if !checks.iter().any(is_same) {
            checks.push(check);
        }
    }
    let mut head = vec![Column::words("expectation"), Column::number("expected")];
    let alone = comparison.runs.len() == 1;
    head.extend(
        comparison
            .runs
            .iter()
            .map(|run| Column::number(if alone { "found".to_owned() } else { run.label() })),
    );
    let rows = checks.iter().map(|check| {
        let of = |run: &RunRecord| {
            run.checks.iter().find(|own| own.name == check.name && bound(own) == bound(check)).cloned()
        };
        let cells = comparison.runs.iter().enumerate().map(|(place, run)| {
            let Some(own) = of(&run.result) else { return Cell::from("–") };
            let more: Vec<Check> = others.get(place).into_iter().flatten().filter_map(of).collect();
            let met = more.iter().filter(|check| check.passed).count() + usize::from(own.passed);
            let all = 1 + more.len();
            let tone = if met == all {
                Tone::Good
            } else if met == 0 {
                Tone::Bad
            } else {
                Tone::Fair
            };
            let verdict = match (all, own.passed) {
                (1, true) => "met".to_owned(),
                (1, false) => "failed".to_owned(),
                _ => format!("{met} of {all} seeds"),
            };
            Cell::toned(format!("{}, {verdict}", found(&own)), tone)
        });
        [Cell::from(check.name.clone()), Cell::from(bound(check))].into_iter().chain(cells).collect()
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    let table = Table { title: "Expectations".to_owned(), columns: head, rows, ..Table::default() };
    (!table.rows.is_empty()).then_some(table)
}

/// The network, or the networks of two scenarios with different ones.
fn topologies(comparison: &Comparison) -> Vec<Section> {
    let mut drawings: Vec<(&RunRecord, Drawing)> = Vec::new();
    for run in &comparison.runs {
        let page = SimulationPage::new(&run.result, String::new());
        if run.result.links.is_empty() {
            continue;
        }
        let mut drawing = simulation::topology(&page);
        if drawings.iter().any(|(known, _)| comparison::same_network(known, &run.result)) {
            continue;
        }
        if !drawings.is_empty() {
            drawing.title = format!("Network of {}", run.label());
        }
        drawings.push((&run.result, drawing));
    }
    drawings.into_iter().map(|(_, drawing)| drawing.into()).collect()
}

/// The charts of one run. Those over time have a common cursor, at which a table shows each flow and its decision.
fn alone(comparison: &Comparison, record: &Value) -> Vec<Section> {
    let Some(run) = comparison.runs.first() else { return Vec::new() };
    let page = SimulationPage::new(&run.result, "/runs/0".to_owned());
    let overview = page.timeline.overview(MAX_LINES);
    let all = simulation::charts(&page, &overview);
    let (over_time, others): (Vec<Chart>, Vec<Chart>) =
        all.into_iter().filter(|chart| has_values(record, chart)).partition(|chart| chart.x.title == TIME);
    let flows: Vec<_> = overview.largest.iter().filter_map(|&place| page.timeline.flows.get(place)).collect();
    let lines: Vec<String> = flows.iter().map(|flow| simulation::plots::name(flow)).collect();
    let columns: Vec<usize> = ["Received rate", "One-way delay"]
        .iter()
        .filter_map(|title| over_time.iter().position(|chart| chart.title == *title))
        .collect();
    let decisions = flows.iter().map(|flow| {
        let media = flow.media.as_ref();
        media.map_or_else(Vec::new, |media| comparison::shown(&media.decisions, &page.timeline.t_s))
    });
    let groups = vec![Group { name: String::new(), charts: columns, decisions: decisions.collect() }];
    let start_at = over_time.iter().position(|chart| chart.title == "Queueing delay").unwrap_or(0);
    let linked = Linked {
        x: "/runs/0/timeline/t_s".to_owned(),
        step: 1,
        start_at,
        lines,
        groups,
        of: "flow",
        charts: over_time,
    };
    let linked = (!linked.charts.is_empty()).then(|| Section::from(linked));
    linked.into_iter().chain(others.into_iter().map(Section::from)).collect()
}

/// The charts of several runs over one time axis, with a line for each.
fn together(comparison: &Comparison, record: &Value) -> Vec<Section> {
    let flows: Vec<&FlowRecord> =
        comparison.runs.first().into_iter().flat_map(subjects).take(comparison::MAX_FLOWS).collect();
    let linked = comparison::linked(comparison, &flows, record).map(|linked| {
        let kept: Vec<bool> = linked.charts.iter().map(|chart| has_values(record, chart)).collect();
        let place = |index: usize| {
            let is_kept = kept.get(index).copied().unwrap_or(false);
            is_kept.then(|| kept.iter().take(index).filter(|kept| **kept).count())
        };
        let groups = linked.groups.into_iter().map(|group| {
            let charts = group.charts.into_iter().filter_map(place).collect();
            Group { charts, ..group }
        });
        let start_at = place(linked.start_at).unwrap_or(0);
        let charts = linked.charts.into_iter().filter(|chart| has_values(record, chart)).collect();
        Linked { groups: groups.collect(), start_at, charts, of: "run", ..linked }
    });
    linked.filter(|linked| !linked.charts.is_empty()).map(Section::from).into_iter().collect()
}

/// Adds to each line over time the range of the other seeds' runs.
fn add_bands(record: &mut Value, sections: &mut [Section], others: &[Vec<RunRecord>]) {
    let others: Vec<Vec<Value>> = others
        .iter()
        .map(|records| {
            let json = |run: &RunRecord| {
                let mut value = to_json(run);
                let overview = run.timeline.as_ref().map(|timeline| to_json(&timeline.overview(MAX_LINES)));
                if let (Value::Object(fields), Some(overview)) = (&mut value, overview) {
                    fields.insert("overview".to_owned(), overview);
                }
                value
            };
            records.iter().map(json).collect()
        })
        .collect();
    let (mut bands, mut known) = (Vec::new(), BTreeMap::new());
    for section in sections {
        let Section::Linked(linked) = section else { continue };
        for chart in &mut linked.charts {
            let lines: Vec<(usize, String, Points)> = chart
                .series
                .iter()
                .enumerate()
                .filter_map(|(of, series)| match series {
                    Series::Line { points: points @ Points::InRecord { y, .. }, .. } => {
                        Some((of, y.clone(), points.clone()))
                    }
                    _ => None,
                })
                .collect();
            for (of, y, points) in lines {
                let place = *known.entry(y.clone()).or_insert_with(|| {
                    bands.push(band(record, &y, &others));
                    bands.len() - 1
                });
                if bands.get(place).is_some_and(Option::is_some) {
                    chart.series.push(Series::Band {
                        of,
                        low: points.clone().at(format!("/bands/{place}/low")),
                        high: points.at(format!("/bands/{place}/high")),
                    });
                }
            }
        }
    }
    if let Value::Object(fields) = record {
        fields.insert("bands".to_owned(), bands.into_iter().map(Option::unwrap_or_default).collect());
    }
}

/// The range of a column of the record over the seeds, `None` if no seed has it: from the 10th to the 90th percentile, of fewer than
/// six seeds from the lowest to the highest.
fn band(record: &Value, pointer: &str, others: &[Vec<Value>]) -> Option<Value> {
    let first = record.pointer(pointer)?.as_array()?;
    let (run, rest) = pointer.strip_prefix("/runs/")?.split_once('/')?;
    let own = others.get(run.parse::<usize>().ok()?)?;
    let rest = format!("/{rest}");
    let all: Vec<&Vec<Value>> = std::iter::once(first)
        .chain(own.iter().filter_map(|other| other.pointer(&rest)?.as_array()))
        .collect();
    let (mut low, mut high) = (Vec::with_capacity(first.len()), Vec::with_capacity(first.len()));
    for window in 0..first.len() {
        let mut values: Vec<f64> = all.iter().filter_map(|column| column.get(window)?.as_f64()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let last = values.len().saturating_sub(1);
        let outside = (last as f64 * OUTSIDE).round() as usize;
        let at = |index: usize| {
            values.get(index).copied().map(|value| {
                // As the line: the columns of a record have five digits, unless they count.
                if value.fract() == 0.0 { value } else { significant(value) }
            })
        };
        low.push(at(outside));
        high.push(at(last - outside));
    }
    (all.len() > 1).then(|| json!({ "low": low, "high": high }))
}

/// Figures of each flow over the seeds: median, lowest and highest.
fn over_seeds(comparison: &Comparison, others: &[Vec<RunRecord>]) -> Table {
    const SHOWN: [(&str, Option<Part>); 4] = [
        ("received_rate_bps", None),
        ("queue_delay_ms", Some(Part::P95)),
        ("frame_delay_ms", Some(Part::P95)),
        ("loss_ratio", None),
    ];
    let shown = || SHOWN.iter().filter_map(|(name, part)| Some((of_flow(name)?, *part)));
    let seeds = 1 + others.first().map_or(0, Vec::len);
    let mut columns = vec![Column::words("run"), Column::words("flow")];
    columns
        .extend(shown().map(|(of, part)| Column::number(of.bare_header(part.as_slice()).replace('\n', " "))));
    let mut rows = Vec::new();
    for (place, run) in comparison.runs.iter().enumerate() {
        for flow in subjects(run) {
            let records = std::iter::once(&run.result).chain(others.get(place).into_iter().flatten());
            let flows: Vec<&FlowRecord> =
                records.filter_map(|record| record.flows.iter().find(|own| own.id == flow.id)).collect();
            let figure = |(of, part): (&Statistic<FlowRecord>, Option<Part>)| {
                let text = |value| of.bare(value);
                let mut values: Vec<f64> = flows.iter().filter_map(|flow| of.value_of(flow, part)).collect();
                values.sort_unstable_by(f64::total_cmp);
                let middle = median(values.iter().copied());
                let (low, high) = (values.first().copied(), values.last().copied());
                let range = low.zip(high).map(|(low, high)| format!(" ({} to {})", text(low), text(high)));
                Cell::from(or_unknown(middle, text) + &range.unwrap_or_default())
            };
            let names = [Cell::from(run.label()), Cell::from(flow.id.clone())];
            rows.push(names.into_iter().chain(shown().map(figure)).collect());
        }
    }
    let alike = comparison
        .runs
        .iter()
        .zip(others)
        .all(|(run, others)| others.iter().all(|other| other.flows == run.result.flows));
    let alike =
        if alike { " All seeds give the same result: nothing in the scenario is random." } else { "" };
    let caption = format!(
        "Median over {}, and in brackets the lowest and the highest. Lines in the charts are of the first seed; the \
         band around a line reaches from the 10th to the 90th percentile of all seeds.{alike}",
        plural(seeds as u64, "seed", "seeds")
    );
    Table { title: "Over seeds".to_owned(), caption, columns, rows, folded: false }
}

#[cfg(test)]
mod tests;
