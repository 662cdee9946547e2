//! Runs one scenario under a controller.

use std::ops::ControlFlow;

use giusto_congestion::Algorithm;
use giusto_units::{TimeDelta, Timestamp};

use super::{
    family::{BOTTLENECK, Drawn, JUDGED},
    judge::{Figures, Watch},
    share::{FairShares, START_UP},
};
use crate::{
    run::{
        Taps,
        build::{self, Built, BuiltFlow},
    },
    scenario::{FlowKind, FlowSpec, Scenario},
};

/// The number of times that a run asks whether to go on.
const QUESTIONS: u64 = 100;

/// The shortest scenario that is judged: the start-up and the last frames do not count.
const LEAST: TimeDelta = TimeDelta::from_seconds(10);

/// Runs a drawn scenario under a controller. `None` if `watch` ended it.
///
/// # Panics
///
/// If the scenario is not valid, which is a bug.
pub fn simulate(
    drawn: &Drawn,
    controller: Algorithm,
    watch: impl FnMut(Timestamp) -> ControlFlow<()>,
) -> Option<Figures> {
    simulate_with(drawn, controller, &mut (), watch)
}

/// Runs a drawn scenario as [`simulate`] does; `taps` sees the controllers and the datagrams of media flows.
///
/// # Panics
///
/// If the scenario is not valid, which is a bug.
pub fn simulate_with(
    drawn: &Drawn,
    controller: Algorithm,
    taps: &mut dyn Taps,
    mut watch: impl FnMut(Timestamp) -> ControlFlow<()>,
) -> Option<Figures> {
    let scenario = scenario(drawn, controller);
    let shares = FairShares::of(&scenario);
    let built = build::simulation_with(&scenario, scenario.seed(), taps);
    let judged = built.flows.iter().filter(|flow| flow.name.starts_with(JUDGED)).map(|flow| flow.forwards);
    let judged: Vec<_> = judged.collect();
    watched(built, Watch::new(shares, &judged, drawn.change_s), drawn.change_ratio, &mut watch)
}

/// Runs a scenario of the caller's with this random seed, and judges its media flows as those of a benchmark: all that lead to the end of the link
/// "bottleneck", or `flow` alone. `None` if `watch` ended it.
///
/// # Errors
///
/// Why the scenario cannot be judged.
pub fn judge_scenario(
    scenario: &Scenario,
    seed: u64,
    flow: Option<&str>,
    watch: &mut dyn FnMut(Timestamp) -> ControlFlow<()>,
) -> Result<Option<Figures>, String> {
    let name = scenario.name();
    let link = scenario.links().iter().find(|link| link.id == BOTTLENECK).ok_or_else(|| {
        format!(
            "{name}: no link is called \"{BOTTLENECK}\", whose fair share is what a flow can use: name one so"
        )
    })?;
    let is_judged = |spec: &FlowSpec| {
        matches!(spec.kind, FlowKind::Media(_))
            && spec.to == link.to
            && flow.is_none_or(|flow| flow == spec.id)
    };
    let mut judged = scenario.flows().iter().filter(|spec| is_judged(spec)).peekable();
    if judged.peek().is_none() {
        let which = flow
            .map_or_else(|| "no media flow".to_owned(), |flow| format!("no media flow called \"{flow}\""));
        return Err(format!("{name}: {which} leads to \"{}\", the end of the bottleneck: add one", link.to));
    }
    if let Some(many) = judged.find(|spec| spec.count != 1) {
        return Err(format!(
            "{name}: flow \"{}\" has count = {}: give each judged flow a table of its own",
            many.id, many.count
        ));
    }
    if scenario.duration() < LEAST {
        return Err(format!("{name}: it lasts {}, a judgement takes at least {LEAST}", scenario.duration()));
    }
    let shares = FairShares::of_flows(scenario, START_UP, is_judged);
    let built = build::simulation_with(scenario, seed, &mut ());
    let flows = scenario.flows();
    let of_judged = |own: &&BuiltFlow| flows.get(own.spec).is_some_and(&is_judged);
    let judged: Vec<_> = built.flows.iter().filter(of_judged).map(|own| own.forwards).collect();
    Ok(watched(built, Watch::new(shares, &judged, None), None, watch))
}

/// Runs what is built to its end.
fn watched(
    mut built: Built,
    mut figures: Watch,
    change_ratio: Option<f64>,
    watch: &mut dyn FnMut(Timestamp) -> ControlFlow<()>,
) -> Option<Figures> {
    let run_end = figures.end();
    for question in 1..=QUESTIONS {
        let end = u128::from(run_end.as_nanos()) * u128::from(question) / u128::from(QUESTIONS);
        let end = Timestamp::from_nanos(end as u64);
        let flow = built.simulation.run_watched(end, &mut figures, &mut *watch);
        if flow.is_break() || (question < QUESTIONS && watch(end).is_break()) {
            return None;
        }
    }
    Some(figures.figures(change_ratio))
}

#[expect(clippy::expect_used, reason = "what is drawn is valid, which a test checks")]
fn scenario(drawn: &Drawn, controller: Algorithm) -> Scenario {
    drawn.scenario(controller).expect("a drawn scenario is valid")
}
