//! How the controller behaves.

use super::*;
use crate::control::{
    ControllerKind, Limits,
    gcc::closed_loop::{Scenario, run},
};

const KIND: ControllerKind = ControllerKind::GccLibwebrtc;

#[test]
fn the_defaults_are_valid() {
    assert_eq!(LibwebrtcConfig::default().validate(), Ok(()));
}

#[test]
fn look() {
    use crate::control::gcc::loss::ModelConfig;
    use crate::session::PacerConfig;
    use crate::units::TimeDelta;
    let variants: [(&str, fn(&mut ModelConfig)); 8] = [
        ("faithful", |_| {}),
        ("pref .3 + 150k", |c| {
            c.upper_bound_balance = DataRate::from_bps(150_000);
            c.preference_threshold = 0.3
        }),
        ("pref .4 + 150k", |c| {
            c.upper_bound_balance = DataRate::from_bps(150_000);
            c.preference_threshold = 0.4
        }),
        ("pref .3 + 200k", |c| {
            c.upper_bound_balance = DataRate::from_bps(200_000);
            c.preference_threshold = 0.3
        }),
        ("pref .4 + 200k", |c| {
            c.upper_bound_balance = DataRate::from_bps(200_000);
            c.preference_threshold = 0.4
        }),
        ("pref .5 + 200k", |c| {
            c.upper_bound_balance = DataRate::from_bps(200_000);
            c.preference_threshold = 0.5
        }),
        ("pref .4 + 100k + 200k", |c| {
            c.inherent_loss_balance = DataRate::from_bps(200_000);
            c.preference_threshold = 0.4
        }),
        ("pref .4, increase, hold 1 s", |c| {
            c.hold_max = TimeDelta::from_seconds(1);
            c.no_increase_above_inherent_loss = false;
            c.preference_threshold = 0.4
        }),
    ];
    for (name, change) in variants {
        let mut line = String::new();
        for loss in [0.05, 0.1, 0.2, 0.25] {
            let (mut least, mut least_late, mut sum): (f64, f64, f64) = (9.0, 9.0, 0.0);
            for seed in 1..17 {
                let scenario = Scenario { loss, seed, seconds: 180, ..Scenario::default() };
                let mut config = LibwebrtcConfig::within(scenario.limits);
                change(&mut config.loss);
                let outcome = crate::control::gcc::closed_loop::run_with(
                    Box::new(Libwebrtc::new(config).unwrap()),
                    KIND,
                    scenario,
                );
                least = least.min(outcome.mbps(0.0, 60.0));
                least_late = least_late.min(outcome.mbps(60.0, 180.0));
                sum += outcome.mbps(10.0, 180.0) / 16.0;
            }
            line += &format!("  {loss}: {least:.3} {least_late:.3} {sum:.3}");
        }
        let over = Scenario {
            limits: Limits {
                start: DataRate::from_bps(12_000_000),
                max: DataRate::from_bps(15_000_000),
                ..Limits::default()
            },
            seconds: 30,
            ..Scenario::default()
        };
        let narrow = Scenario {
            link: |_| 0.3,
            limits: Limits {
                start: DataRate::from_bps(2_000_000),
                max: DataRate::from_bps(15_000_000),
                ..Limits::default()
            },
            seconds: 30,
            ..Scenario::default()
        };
        let fall =
            Scenario { link: |t| if t < 15.0 { 3.0 } else { 0.6 }, seconds: 30, ..Scenario::default() };
        for scenario in [over, narrow, fall] {
            let mut config = LibwebrtcConfig::within(scenario.limits);
            change(&mut config.loss);
            let outcome = crate::control::gcc::closed_loop::run_with(
                Box::new(Libwebrtc::new(config).unwrap()),
                KIND,
                scenario,
            );
            line += &format!(" | {:.4} {:.1}", outcome.dropped_share(), outcome.wait_p95(0.0, 30.0));
        }
        println!("== {name}{line}");
    }
}
