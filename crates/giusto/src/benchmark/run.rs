//! Runs what is planned: all controllers and references in all scenarios.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Mutex};

use giusto_congestion::Algorithm;
use rayon::prelude::*;

use super::{
    family::Drawn,
    judge::Figures,
    plan::{Key, Plan},
    reference::{self, Reference},
    result::{BenchmarkResult, RunRow},
    simulate::simulate,
};

/// Runs what is planned and not among `known`, on the threads of rayon's current pool.
///
/// Once `is_over` returns true, no run is started and those that run are ended. `finished` is called with each run as it ends, in
/// any order, one at a time.
pub fn run(
    plan: &Plan,
    known: Vec<RunRow>,
    is_over: impl Fn() -> bool + Sync,
    finished: impl FnMut(&RunRow) + Send,
) -> BenchmarkResult {
    let watch = |_| if is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    run_with(plan, known, |drawn, controller| simulate(drawn, controller, watch), &is_over, finished)
}

/// Who is judged, one after the other.
enum Judged {
    Controller(Algorithm),
    /// References that share runs.
    References(Vec<Reference>),
}

/// Runs a benchmark as [`run()`] does; `simulate` makes each run of a controller, and returns `None` if it was ended early.
pub fn run_with(
    plan: &Plan,
    known: Vec<RunRow>,
    simulate: impl Fn(&Drawn, Algorithm) -> Option<Figures> + Sync,
    is_over: impl Fn() -> bool + Sync,
    finished: impl FnMut(&RunRow) + Send,
) -> BenchmarkResult {
    let known: BTreeMap<(Key, String), RunRow> =
        known.into_iter().map(|row| ((row.key(), row.controller.clone()), row)).collect();
    let finished = Mutex::new(finished);
    let keys: Vec<Key> = plan.keys().collect();
    let of_scenario = |key: Key| {
        let is_wanted = |name: &str| !known.contains_key(&(key.clone(), name.to_owned()));
        let controllers = plan.controllers.iter().copied().filter(|own| is_wanted(own.name()));
        let references = plan.references.iter().copied().filter(|own| is_wanted(&own.name()));
        let (rates, bounds): (Vec<_>, Vec<_>) =
            references.partition(|own| matches!(own, Reference::Fixed(_)));
        let of_references = std::iter::once(bounds).chain(rates.into_iter().map(|rate| vec![rate]));
        let of_references = of_references.filter(|own| !own.is_empty()).map(Judged::References);
        let wanted: Vec<Judged> = controllers.map(Judged::Controller).chain(of_references).collect();
        if wanted.is_empty() || is_over() {
            return Vec::new();
        }
        let Some(drawn) = plan.draw_unless(&key, &is_over) else { return Vec::new() };
        let watch = |_| if is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let row = |name: String, figures: Figures| {
            let row = RunRow::new(&drawn, name, figures);
            if let Ok(mut finished) = finished.lock() {
                finished(&row);
            }
            row
        };
        let rows = |judged: &Judged| {
            if is_over() {
                return None;
            }
            Some(match judged {
                Judged::Controller(own) => vec![row(own.name().to_owned(), simulate(&drawn, *own)?)],
                Judged::References(own) => {
                    let figures = reference::simulate(&drawn, own, watch)?;
                    own.iter().zip(figures).map(|(own, figures)| row(own.name(), figures)).collect()
                }
            })
        };
        wanted.par_iter().with_max_len(1).filter_map(rows).flatten_iter().collect()
    };
    let rows: Vec<Vec<RunRow>> = keys.into_par_iter().with_max_len(1).map(of_scenario).collect();
    let rows = rows.into_iter().flatten().chain(known.into_values()).collect();
    BenchmarkResult::new(plan, rows)
}
