//! How the first SCReAM behaves.

use super::*;
use crate::control::{
    ControllerKind, Limits,
    closed_loop::{Scenario, run},
};

const KIND: ControllerKind = ControllerKind::ScreamD00;

/// From 150 kbit/s to at most `max`, with feedback as often as there are pictures (§10).
fn scenario(link: fn(f64) -> f64, max: u64) -> Scenario {
    let [min, start, max] = [150_000, 150_000, max].map(DataRate::from_bps);
    Scenario {
        link,
        limits: Limits { min, start, max },
        feedback: TimeDelta::from_nanos(33_333_333),
        ..Scenario::default()
    }
}

#[test]
fn show() {
    for (name, scenario) in [
        ("3/3", scenario(|_| 3.0, 3_000_000)),
        ("3/10", scenario(|_| 3.0, 10_000_000)),
        ("10/3", scenario(|_| 10.0, 3_000_000)),
        ("10/10", scenario(|_| 10.0, 10_000_000)),
        ("drop", scenario(|t| if t < 30.0 { 3.0 } else { 1.5 }, 3_000_000)),
        ("drop2", scenario(|t| if t < 30.0 { 3.0 } else { 1.5 }, 2_000_000)),
        ("loss5", Scenario { loss: 0.05, ..scenario(|_| 3.0, 3_000_000) }),
        ("mark", Scenario { marking: TimeDelta::from_millis(5), ..scenario(|_| 3.0, 10_000_000) }),
        ("deaf", Scenario { deaf: |t| (20.0..30.0).contains(&t), ..scenario(|_| 3.0, 3_000_000) }),
    ] {
        let outcome = run(KIND, scenario);
        let reached = outcome.targets.iter().position(|&target| target >= 2_700_000);
        eprintln!(
            "== {name} sent {} dropped {} lost {} marked {} reached {reached:?}",
            outcome.sent, outcome.dropped, outcome.lost, outcome.marked
        );
        for t in (0..60).step_by(if name.starts_with("drop") { 1 } else { 4 }) {
            let t = f64::from(t);
            let by = if name.starts_with("drop") { 1.0 } else { 4.0 };
            eprintln!(
                "{t:5} target {:.3} mbps {:.3} wait {:.1} age {:.1}",
                outcome.target(t),
                outcome.mbps(t, t + by),
                outcome.wait_p95(t, t + by),
                outcome.age_p95(t, t + by)
            );
        }
    }
}
