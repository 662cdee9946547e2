//! Judgements of single runs, of which `giusto.tune` is made.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Mutex, PoisonError, atomic::Ordering},
};

use giusto::{
    benchmark::{self, Drawn, Figures},
    scenario::{Document, load_controller},
    view::sweep::Interval,
};
use giusto_congestion::Algorithm;
use giusto_units::Timestamp;
use pyo3::prelude::*;

use crate::{
    detached::detached,
    error::{Outcome, value_error},
    scenario::{Pickled, as_settings},
};

/// Drawn scenarios that a process keeps: one of `lte` takes seconds to draw, and every trial needs it.
const KEPT: usize = 1024;

/// What is judged: scenario number `number` of a benchmark's seed, or a document with a random seed and a flow.
#[derive(FromPyObject)]
pub(crate) enum Judged {
    /// Of a benchmark.
    Drawn(String, u64),
    /// Of the user.
    Own(Pickled, u64, Option<String>),
}

/// Judges controllers, by name, in a scenario; returns the figures of each in JSON.
#[pyfunction]
pub(crate) fn judge(py: Python<'_>, scenario: Judged, controllers: Vec<String>) -> Outcome<Vec<String>> {
    let controllers: Vec<Algorithm> = controllers
        .iter()
        .map(|name| load_controller(name))
        .collect::<Result<_, _>>()
        .map_err(value_error)?;
    let figures = detached(
        py,
        |_, ()| Ok(()),
        |interrupt, _progress| {
            let ends = || interrupt.stop.load(Ordering::Relaxed);
            let mut watch = |_| if ends() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            match &scenario {
                Judged::Drawn(seed, number) => {
                    let Some(drawn) = drawn(seed, *number, &ends) else {
                        return Ok(Vec::new());
                    };
                    let run = |own: &Algorithm| Ok(benchmark::simulate(&drawn, *own, &mut watch));
                    controllers.iter().map(run).collect::<Result<Vec<_>, String>>()
                }
                Judged::Own(document, seed, flow) => {
                    let run = |own: &Algorithm| own_run(document, *seed, flow.as_deref(), *own, &mut watch);
                    controllers.iter().map(run).collect()
                }
            }
        },
    )?;
    // An end that was asked for has raised its exception.
    let figures = figures.map_err(value_error)?.into_iter().flatten();
    let text =
        |own: Figures| serde_json::to_string(&own).map_err(|error| value_error(error.to_string()).into());
    figures.map(text).collect()
}

/// Scenario `number` of `seed`, drawn once in a process.
fn drawn(seed: &str, number: u64, ends: &dyn Fn() -> bool) -> Option<Drawn> {
    static DRAWN: Mutex<BTreeMap<(String, u64), Drawn>> = Mutex::new(BTreeMap::new());
    let key = (seed.to_owned(), number);
    let known = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    if known.is_some() {
        return known;
    }
    let drawn = benchmark::draw_unless(seed, number, ends)?;
    let mut kept = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= KEPT {
        kept.pop_first();
    }
    kept.insert(key, drawn.clone());
    Some(drawn)
}

fn own_run(
    (text, name, traces, settings): &Pickled,
    seed: u64,
    flow: Option<&str>,
    controller: Algorithm,
    watch: &mut dyn FnMut(Timestamp) -> ControlFlow<()>,
) -> Result<Option<Figures>, String> {
    let document =
        Document::parse(text, name).map_err(|error| error.to_string())?.with_traces(traces.clone());
    let scenario = document.scenario(&as_settings(settings.clone())).map_err(|error| error.to_string())?;
    let scenario = match flow {
        Some(flow) => scenario.with_controller(flow, controller),
        None => scenario.with_controller_of_all(controller),
    };
    benchmark::judge_scenario(&scenario.map_err(|error| error.to_string())?, seed, flow, watch)
}

/// The mean of some values and its 95 % confidence interval.
#[pyfunction]
pub(crate) fn interval(values: Vec<f64>) -> Option<(f64, Option<f64>, Option<f64>)> {
    Interval::of(&values).map(|own| (own.mean, own.low, own.high))
}
