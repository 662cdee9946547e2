//! How the controllers of the draft behave.

use super::*;
use crate::control::{
    ControllerKind,
    gcc::closed_loop::{Scenario, run},
};

#[test]
fn look() {
    for kind in [ControllerKind::GccDraft02, ControllerKind::GccDraft02Literal] {
        for (name, scenario) in [
            ("clean", Scenario::default()),
            ("loss5", Scenario { loss: 0.05, ..Scenario::default() }),
            ("loss20", Scenario { loss: 0.2, ..Scenario::default() }),
            ("step", Scenario { link: |t| if t < 30.0 { 0.6 } else { 3.0 }, ..Scenario::default() }),
            (
                "over",
                Scenario {
                    limits: Limits {
                        start: DataRate::from_bps(12_000_000),
                        max: DataRate::from_bps(15_000_000),
                        ..Limits::default()
                    },
                    ..Scenario::default()
                },
            ),
        ] {
            let outcome = run(kind, scenario);
            println!(
                "== {kind} {name}: reach 2.7 {:?} mbps(10,60) {:.3} wait95 {:.1} dropped {:.4} timeouts {}",
                outcome.reaches(0.0, 2.7),
                outcome.mbps(10.0, 60.0),
                outcome.wait_p95(0.0, 60.0),
                outcome.dropped_share(),
                outcome.timeouts
            );
            println!(
                "  {:?}",
                (0..60).map(|t| (outcome.target(f64::from(t)) * 100.0).round() / 100.0).collect::<Vec<_>>()
            );
        }
    }
}
