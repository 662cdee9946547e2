//! Calls over QUIC in virtual time, against quinn's own controllers and the capacity of the link.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

#[path = "../examples/table/world/mod.rs"]
mod world;

use std::time::Duration;

use giusto_quinn::{Algorithm, DataRate};
use giusto_sim::link::rate::RateProfile;
use giusto_units::TimeDelta;
use world::{Bulk, Call};

fn fixed(controller: &str, bps: u64, seed: u64) -> Call {
    Call { seconds: 20, ..Call::over(controller, RateProfile::Fixed(DataRate::from_bps(bps)), seed) }
}

#[test]
fn one_seed_gives_the_same_call_and_another_a_different_one() {
    let call = |seed| Call { loss: 0.02, seconds: 6, ..fixed("tempo", 2_000_000, seed) }.run();
    let one = call(1);
    assert!(
        one.frames.len() > 150 && one.frames.iter().filter(|frame| frame.arrived.is_some()).count() > 100
    );
    assert_eq!(one, call(1));
    assert_ne!(one, call(2));
}

#[test]
fn every_controller_holds_a_call() {
    for algorithm in Algorithm::all() {
        // Some grow by 8 % a second, from 0.3 Mbit/s.
        let found = Call { seconds: 40, ..fixed(algorithm.name(), 2_000_000, 3) }.figures();
        let least = match algorithm.name() {
            // 0.3 Mbit/s, less headers.
            "fixed" => 0.25,
            // 0.41 Mbit/s over RTP in the simulator.
            "gcc:thesis" => 0.38,
            _ => 0.6,
        };
        assert!((least..1.95).contains(&found.goodput), "{algorithm}: {found:?}");
        // All frames arrive, in no less than the delay of the link.
        assert!(found.p50 > 25.0, "{algorithm}: {found:?}");
    }
}

#[test]
fn the_rate_follows_the_capacity_and_frames_are_not_late() {
    let log = Call::over_steps("tempo", 30, 1).run();
    let between = |from, until| log.figures(Duration::from_secs(from), Duration::from_secs(until));
    let (before, low, after) = (between(5, 10), between(13, 20), between(24, 30));
    assert!((1.7..2.95).contains(&before.goodput), "{before:?}");
    assert!((0.6..0.97).contains(&low.goodput), "{low:?}");
    assert!((1.5..2.95).contains(&after.goodput), "{after:?}");
    let cubic = Call::over_steps("quinn:cubic", 30, 1).run();
    let all = |log: &world::Log| log.figures(Duration::from_secs(5), Duration::from_secs(30));
    let (ours, theirs) = (all(&log), all(&cubic));
    assert!(ours.p95 < 150.0 && theirs.p95 > ours.p95 + 100.0, "{ours:?}, {theirs:?}");
    assert!(ours.missed < 0.05 && ours.missed < theirs.missed, "{ours:?}, {theirs:?}");
}

#[test]
fn receive_timestamps_take_the_way_back_out_of_the_delay() {
    let jitter_back = Some(TimeDelta::from_millis(40));
    let with =
        |receive_timestamps| Call { jitter_back, receive_timestamps, ..fixed("scream:v2", 3_000_000, 1) };
    let (without, with) = (with(false).figures(), with(true).figures());
    assert!((1.3 * without.goodput..2.95).contains(&with.goodput), "{without:?}, {with:?}");
    assert!(with.p95 < 200.0, "{with:?}");
}

#[test]
fn a_file_in_the_spare_rate_does_not_delay_the_frames() {
    let most = DataRate::from_bps(1_500_000);
    let with = |bulk| Call { bulk, most, ..fixed("tempo", 3_000_000, 1) }.figures();
    let (none, equal, spare) = (with(None), with(Some(Bulk::Equal)), with(Some(Bulk::Spare)));
    assert!(none.other == 0.0 && equal.other > 0.5, "{none:?}, {equal:?}");
    assert!(spare.p95 < none.p95 + 60.0 && spare.p95 < equal.p95, "{none:?}, {equal:?}, {spare:?}");
    assert!(spare.goodput > 1.2 && spare.other > 0.5, "{spare:?}");
}
