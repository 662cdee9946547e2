//! Runs one scenario under a controller.

use std::ops::ControlFlow;

use giusto_congestion::Algorithm;
use giusto_units::Timestamp;

use super::{
    family::{Drawn, JUDGED},
    judge::{Figures, Watch},
    share::FairShares,
};
use crate::{
    run::{Taps, build},
    scenario::Scenario,
};

/// The number of times that a run asks whether to go on.
const QUESTIONS: u64 = 100;

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
    let mut built = build::simulation_with(&scenario, scenario.seed(), taps);
    let judged = built.flows.iter().filter(|flow| flow.name.starts_with(JUDGED)).map(|flow| flow.forwards);
    let judged: Vec<_> = judged.collect();
    let run_end = shares.end;
    let mut figures = Watch::new(shares, &judged, drawn.change_s);
    for question in 1..=QUESTIONS {
        let end = u128::from(run_end.as_nanos()) * u128::from(question) / u128::from(QUESTIONS);
        let end = Timestamp::from_nanos(end as u64);
        let flow = built.simulation.run_watched(end, &mut figures, &mut watch);
        if flow.is_break() || (question < QUESTIONS && watch(end).is_break()) {
            return None;
        }
    }
    Some(figures.figures(drawn.change_ratio))
}

#[expect(clippy::expect_used, reason = "what is drawn is valid, which a test checks")]
fn scenario(drawn: &Drawn, controller: Algorithm) -> Scenario {
    drawn.scenario(controller).expect("a drawn scenario is valid")
}
