//! How it behaves in a closed loop.

use super::*;
use crate::control::{
    ControllerKind,
    closed_loop::{Outcome, Scenario, run},
};

/// The scenario of the texts' simulator: 10 Mbit/s, 25 ms one way.
fn ten() -> Scenario {
    Scenario {
        link: |_| 10.0,
        limits: limits(1_000_000, 20_000_000),
        feedback: TimeDelta::from_millis(25),
        ..Scenario::default()
    }
}

fn limits(start: u64, max: u64) -> Limits {
    Limits { start: DataRate::from_bps(start), max: DataRate::from_bps(max), ..Limits::default() }
}

fn go(scenario: Scenario) -> Outcome {
    run(ControllerKind::ScreamV2, scenario)
}

fn show(what: &str, o: &Outcome, secs: f64) {
    println!("{what}: {:.2} Mbit/s, p95 {:.1}, targets {:?} dropped {} timeouts {} decisions {}", o.mbps(secs/3.0, secs), o.wait_p95(secs/3.0, secs), o.targets(secs/3.0, secs), o.dropped, o.timeouts, o.decisions.len());
}

#[test]
fn explore() {
    let o = go(Scenario { seconds: 60, ..ten() });
    show("fifo 10", &o, 60.0);
    for t in 0..20 { print!("{:.2}/{:.0} ", o.target(f64::from(t)), o.wait_p95(f64::from(t), f64::from(t)+1.0)); }
    println!();
    for t in 200..300 { print!("{:.2}/{:.0} ", o.target(f64::from(t)/10.0), o.wait_p95(f64::from(t)/10.0, f64::from(t)/10.0+0.1)); }
    println!();
    let o = go(Scenario { link: |_| 3.0, limits: limits(150_000, 3_000_000), seconds: 60, ..ten() });
    show("fifo 3", &o, 60.0);
    println!("reaches 2.7 {:?}, 2.4 {:?}", o.reaches(0.0, 2.7), o.reaches(0.0, 2.4));
    let o = go(Scenario { link: |_| 3.0, limits: limits(150_000, 10_000_000), seconds: 60, ..ten() });
    show("fifo 3", &o, 60.0);
    println!("reaches 2.7 {:?}, 2.4 {:?}", o.reaches(0.0, 2.7), o.reaches(0.0, 2.4));
    for mark in [1.0, 3.0, 8.0] {
    let o = go(Scenario { ecn: Ecn::Ect1, mark_above: mark, seconds: 60, ..ten() });
    show("l4s 10", &o, 60.0);
    let o = go(Scenario { ecn: Ecn::Ect0, mark_above: mark, seconds: 60, ..ten() });
    show("classic 10", &o, 60.0);
    }
    let o = go(Scenario { link: |t| if t < 30.0 { 10.0 } else { 3.0 }, seconds: 60, ..ten() });
    show("drop", &o, 60.0);
    for t in 295..330 { print!("{:.2}/{:.0} ", o.target(f64::from(t)/10.0), o.wait_p95(f64::from(t)/10.0, f64::from(t)/10.0+0.1)); }
    println!();
}
