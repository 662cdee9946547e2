//! How the controller behaves.

use super::*;
use crate::control::{
    ControllerKind,
    gcc::closed_loop::{Scenario, run},
};

const KIND: ControllerKind = ControllerKind::GccLibwebrtc;

#[test]
fn the_defaults_are_valid() {
    assert_eq!(LibwebrtcConfig::default().validate(), Ok(()));
}

#[test]
fn look() {
    for (name, scenario) in [
        ("clean", Scenario::default()),
        ("loss5", Scenario { loss: 0.05, ..Scenario::default() }),
        ("loss10", Scenario { loss: 0.10, ..Scenario::default() }),
        ("loss20", Scenario { loss: 0.2, ..Scenario::default() }),
        ("step", Scenario { link: |t| if t < 30.0 { 0.6 } else { 3.0 }, ..Scenario::default() }),
    ] {
        let outcome = run(KIND, scenario);
        println!(
            "{name}: reach 2.7 {:?} mbps(10,60) {:.3} wait95 {:.1} dropped {:.4} probes {} timeouts {}",
            outcome.reaches(0.0, 2.7),
            outcome.mbps(10.0, 60.0),
            outcome.wait_p95(0.0, 60.0),
            outcome.dropped_share(),
            outcome.probes,
            outcome.timeouts
        );
        println!(
            "{:?}",
            (0..60).map(|t| (outcome.target(f64::from(t)) * 100.0).round() / 100.0).collect::<Vec<_>>()
        );
        for decision in outcome.decisions.iter().take(12) {
            println!("   {decision:?}");
        }
    }
}
