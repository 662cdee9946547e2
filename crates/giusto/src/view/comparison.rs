//! The table of a comparison: the same in the terminal and on the page.

use crate::{
    record::{FlowRecord, LinkRecord, RunRecord},
    run::comparison::{Comparison, MAX_QUEUE_DELAY_DIFFERENCE, MAX_RATE_DIFFERENCE, Parity, Run},
    statistics::{Part, of_flow},
    view::{
        format::{UNKNOWN, mbits, or_unknown, pair, percent, plural, short},
        table::{Column, Grid, fitted},
    },
};

/// The link on the path of `flow` with the lowest mean rate; `None` if no link on it has a limit.
pub fn bottleneck<'a>(record: &'a RunRecord, flow: &FlowRecord) -> Option<&'a LinkRecord> {
    let on_path = flow.path.iter().filter_map(|id| record.links.iter().find(|link| link.id == *id));
    let limited = on_path.filter_map(|link| Some((link.capacity_bps?, link)));
    limited.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, link)| link)
}

/// The flows of a run whose controllers are compared.
pub fn subjects(run: &Run) -> impl Iterator<Item = &FlowRecord> {
    run.result.flows.iter().filter(|flow| run.feedback.contains_key(&flow.group))
}

/// A row for each controller and each flow that it controls.
pub fn rows(comparison: &Comparison) -> Vec<Row> {
    comparison.runs.iter().flat_map(|run| subjects(run).map(|flow| Row::new(run, flow))).collect()
}

/// Whether the rows are about several flows.
pub fn has_several_flows(comparison: &Comparison) -> bool {
    comparison.runs.iter().any(|run| subjects(run).count() > 1)
}

/// One flow under one controller.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// The controller.
    pub controller: String,
    /// The flow.
    pub flow: FlowRecord,
    /// Utilisation of its bottleneck, by all flows together.
    pub utilisation_ratio: Option<f64>,
    /// How many expectations of the whole run were met, of how many.
    pub met: (usize, usize),
    /// When it was ended, if early.
    pub ended_early_s: Option<f64>,
}

impl Row {
    fn new(run: &Run, flow: &FlowRecord) -> Self {
        let Run { result, .. } = run;
        Self {
            controller: run.label(),
            flow: flow.clone(),
            utilisation_ratio: bottleneck(result, flow).and_then(|link| link.utilisation_ratio),
            met: (result.checks.iter().filter(|check| check.passed).count(), result.checks.len()),
            ended_early_s: result.interrupted.then_some(result.duration_s),
        }
    }
}

/// The figures of a flow that are shown: their statistics, of a distribution these parts, and the places of their columns.
const SHOWN: [(&str, &[Part], u8); 7] = [
    ("received_rate_bps", &[], 0),
    ("target_rate_bps", &[], 0),
    ("loss_ratio", &[], 0),
    ("queue_delay_ms", &[Part::P50, Part::P95, Part::P99], 0),
    ("frame_delay_ms", &[Part::P95], 1),
    ("frames", &[], 6),
    ("decisions", &[], 5),
];

/// The table of `rows`; the flow is named where there are several.
pub fn grid(comparison: &Comparison, rows: &[Row]) -> Grid {
    let controller = |row: &Row| match row.ended_early_s {
        Some(seconds) => format!("{} until {seconds:.1} s", row.controller),
        None => row.controller.clone(),
    };
    let met = |row: &Row| match row.met {
        (_, 0) => UNKNOWN.to_owned(),
        (met, all) => format!("{met}/{all}"),
    };
    let feedback_rate = |row: &Row| or_unknown(row.flow.feedback_rate_bps, |bps| short(bps / 1e3));
    let mut grid = Grid::default();
    grid.words("controller", 0, rows.iter().map(controller));
    if has_several_flows(comparison) {
        grid.words("flow", 0, rows.iter().map(|row| row.flow.id.clone()));
    }
    grid.numbers("link\nutilisation", 3, rows.iter().map(|row| or_unknown(row.utilisation_ratio, percent)));
    for (name, parts, place) in SHOWN {
        let Some(statistic) = of_flow(name) else { continue };
        let cells = rows.iter().map(|row| statistic.bare_text(&row.flow, parts));
        grid.numbers(statistic.bare_header(parts), place, cells);
    }
    grid.words("feedback", 4, rows.iter().map(|row| row.flow.feedback.clone().unwrap_or_default()));
    grid.numbers("feedback\nkbit/s", 4, rows.iter().map(feedback_rate));
    grid.numbers("met", 2, rows.iter().map(met));
    grid
}

/// Heading, table and notes, at most `width` characters wide where that can be done.
pub fn text(comparison: &Comparison, width: u16) -> String {
    let Comparison { scenario, seed, runs, parity, notes, .. } = comparison;
    let early = if comparison.interrupted { ", ended early" } else { "" };
    let simulated = runs.iter().filter(|run| !run.live).count();
    let controllers = plural(simulated as u64, "controller", "controllers");
    let table = grid(comparison, &rows(comparison)).text(width);
    let heading = format!("{scenario}, seed {seed}: {controllers}{early}\n");
    let mut parts: Vec<String> = doubts(comparison).map(|doubt| format!("warning: {doubt}")).collect();
    parts.extend([heading, table]);
    if !parity.is_empty() {
        parts.push(parity_text(comparison, width));
    }
    parts.push(notes.join("\n"));
    parts.join("\n").trim_end().to_owned()
}

/// The table of simulation and real time.
pub fn parity_text(comparison: &Comparison, width: u16) -> String {
    let table = fitted(&parity_columns(), &comparison.parity, width);
    [PARITY_TITLE, "", &table, &parity_caption(), ""].join("\n")
}

/// The title of the table of [`Parity`].
pub const PARITY_TITLE: &str = "Simulation and real time";

/// What is within the tolerance.
pub fn parity_caption() -> String {
    format!(
        "Within tolerance: the received rates differ by at most {:.0} %, and the 95th percentiles of the queueing delay by at most {}. \
         A larger difference is not always an error: a few microseconds change the decisions of a controller near its threshold, also in simulation.",
        MAX_RATE_DIFFERENCE * 100.0,
        MAX_QUEUE_DELAY_DIFFERENCE
    )
}

/// Why the figures of runs in real time cannot be trusted, a sentence without its full stop each.
pub fn doubts(comparison: &Comparison) -> impl Iterator<Item = String> + '_ {
    let of = |run: &Run| {
        let label = run.label();
        run.doubts().iter().map(move |doubt| format!("{label}: {doubt}")).collect::<Vec<_>>()
    };
    comparison.runs.iter().flat_map(of)
}

/// The columns of the differences between simulation and real time.
pub fn parity_columns() -> Vec<Column<Parity>> {
    vec![
        Column::words("controller", 0, |row: &Parity| row.controller.clone()),
        Column::number("received Mbit/s\nsimulated / live", 0, |row| {
            let [simulated, live] = row.received_rate_bps;
            pair(Some(simulated), Some(live), mbits)
        }),
        Column::number("differ-\nence", 0, |row| {
            or_unknown(row.received_rate_difference_ratio, |ratio| format!("{:+.1} %", ratio * 100.0))
        }),
        Column::number("queueing delay p95 ms\nsimulated / live", 0, |row| {
            let [simulated, live] = row.queue_delay_p95_ms;
            pair(simulated, live, short)
        }),
        Column::number("differ-\nence", 0, |row| or_unknown(row.queue_delay_p95_difference_ms, signed)),
        Column::number("frame delay mean ms\nsimulated / live", 2, |row| {
            let [simulated, live] = row.frame_delay_mean_ms;
            pair(simulated, live, short)
        }),
        Column::number("differ-\nence", 1, |row| or_unknown(row.frame_delay_mean_difference_ms, signed)),
        Column::words("within\ntolerance", 0, |row| {
            let doubtful = if row.doubts.is_empty() { "" } else { ", doubtful" };
            row.verdict() + doubtful
        }),
    ]
}

fn signed(ms: f64) -> String {
    format!("{ms:+.1}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        record::{Check, Distribution, LinkRecord},
        run::{self, RecordOptions},
        scenario::Scenario,
    };

    #[test]
    fn the_bottleneck_has_the_lowest_mean_rate() {
        let text = r#"
            duration = "2 s"
            link = [
                { id = "access", from = "here", to = "middle", rate = "5 Mbit/s" },
                { id = "wire", from = "middle", to = "there", rate = { steps = [["0 s", "8 Mbit/s"], ["1 s", "1 Mbit/s"]] } },
            ]
            flow = [{ id = "noise", kind = "cbr", from = "here", to = "there", rate = "64 kbit/s", size = "200 B" }]
        "#;
        let scenario = Scenario::parse(text, "s.toml").unwrap();
        let record = run::simulate(&scenario, 1, RecordOptions::default(), &mut ());
        // 8 and 1 Mbit/s for a second each are less than 5 Mbit/s for two.
        let slowest = bottleneck(&record, &record.flows[0]).unwrap();
        assert_eq!((slowest.id.as_str(), slowest.capacity_bps), ("wire", Some(4.5e6)));
        let elsewhere = FlowRecord { path: vec!["other".to_owned()], ..FlowRecord::default() };
        assert_eq!(bottleneck(&record, &elsewhere), None);
    }

    #[test]
    fn the_table_has_a_row_for_each_controller() {
        let distribution = |p50, p95, p99| Some(Distribution { p50, p95, p99, ..Distribution::default() });
        let call = FlowRecord {
            id: "call".to_owned(),
            group: "call".to_owned(),
            feedback: Some("remb".to_owned()),
            path: vec!["wire".to_owned()],
            received_rate_bps: 1.25e6,
            target_rate_bps: Some(1.5e6),
            loss_ratio: Some(0.015),
            queue_delay_ms: distribution(1.0, 20.0, 300.0),
            frame_delay_ms: distribution(0.0, 77.0, 0.0),
            frames: Some(1800),
            decisions: Some(42),
            feedback_rate_bps: Some(3456.0),
            ..FlowRecord::default()
        };
        let noise = FlowRecord { id: "noise".to_owned(), group: "noise".to_owned(), ..FlowRecord::default() };
        let link = LinkRecord {
            id: "wire".to_owned(),
            capacity_bps: Some(2e6),
            utilisation_ratio: Some(0.8),
            ..LinkRecord::default()
        };
        let run = |controller: &str, passed: bool, interrupted: bool| Run {
            controller: controller.to_owned(),
            live: false,
            feedback: BTreeMap::from([("call".to_owned(), "remb".to_owned())]),
            result: RunRecord {
                duration_s: 12.34,
                interrupted,
                flows: vec![call.clone(), noise.clone()],
                links: vec![link.clone()],
                checks: vec![Check { passed, ..Check::default() }],
                ..RunRecord::default()
            },
        };
        let comparison = Comparison {
            scenario: "s".to_owned(),
            seed: "7".to_owned(),
            interrupted: true,
            notes: vec!["A note.".to_owned()],
            runs: vec![run("fixed", true, false), run("scream:v2", false, true)],
            parity: Vec::new(),
        };
        insta::assert_snapshot!(text(&comparison, 140), @r"
        s, seed 7: 2 controllers, ended early

        controller                     link  received  target    loss    queueing delay  frame delay  frames  changes  feedback  feedback  met
                                utilisation    Mbit/s  Mbit/s            p50/p95/p99 ms       p95 ms                               kbit/s
        ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
        fixed                        80.0 %     1.250   1.500  1.50 %  1.0 / 20.0 / 300         77.0   1,800       42  remb           3.5  1/1
        scream:v2 until 12.3 s       80.0 %     1.250   1.500  1.50 %  1.0 / 20.0 / 300         77.0   1,800       42  remb           3.5  0/1

        A note.
        ");
        let narrow = text(&comparison, 80);
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }
}
