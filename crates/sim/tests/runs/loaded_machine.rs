//! The whole sender, its schedule and its wake-ups, on a machine that a fair scheduler shares with busy threads.

use giusto_pace::{
    Bounded, BurstBound, CyclePlan, CycleRule, HeaderLayer, IpVersion, Limits, Schedule, SleepMode, Strategy,
    StrategyOptions, WakeConfig, WakePlanner,
};
use giusto_sim::machine::{SharedMachine, SharedRecord};
use giusto_units::{DataSize, TimeDelta, Timestamp};

const SIZE: u64 = 200;
const RATES: [u64; 3] = [1, 10, 100];
const DURATION: TimeDelta = TimeDelta::from_seconds(5);
const MODES: [SleepMode; 2] = [SleepMode::Balanced, SleepMode::Precise];
const SEEDS: [u64; 3] = [1, 7, 42];

fn machine(busy_threads: u32, seed: u64) -> SharedMachine {
    SharedMachine { cores: 2, busy_threads, seed, ..SharedMachine::default() }
}

/// The plan of `giusto send --rate RATE --size 200` in balanced mode. (In precise mode each datagram of 100 Mbit/s leaves alone,
/// for which a seventh of a core does not suffice.)
fn plan(mbps: u64) -> CyclePlan {
    let rule = CycleRule::MaxPeriod(TimeDelta::from_micros(100));
    let rate = format!("{mbps} Mbit/s").parse().unwrap();
    CyclePlan::new(rate, DataSize::from_bytes(SIZE), HeaderLayer::Payload, IpVersion::V4, rule).unwrap()
}

fn grid(mbps: u64, mode: SleepMode) -> Box<dyn Schedule> {
    let burst_bound = match mode {
        SleepMode::Precise => BurstBound::Packets(1),
        _ => BurstBound::Time(TimeDelta::from_micros(500)),
    };
    Strategy::Grid.build(&plan(mbps), StrategyOptions::default().with_burst_bound(burst_bound)).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::ZERO + TimeDelta::from_seconds(seconds)
}

/// Sends for [`DURATION`] and at most 250 ms longer, as `giusto send` does.
fn run(
    machine: SharedMachine,
    schedule: Box<dyn Schedule>,
    config: WakeConfig,
) -> (SharedRecord, WakePlanner) {
    let mut planner = WakePlanner::new(config);
    let limits = Limits::default().with_duration(DURATION);
    let mut schedule = Bounded::new(schedule, DataSize::from_bytes(SIZE), limits);
    let record = machine.run(&mut schedule, &mut planner, DataSize::from_bytes(SIZE), Timestamp::MAX);
    (record, planner)
}

/// Sent datagrams against those of the plan.
fn rate_ratio(record: &SharedRecord, mbps: u64) -> f64 {
    record.departures.len() as f64 * SIZE as f64 * 8.0 / (DURATION.as_seconds() * mbps as f64 * 1e6)
}

/// The error at `quantile` of the departures from `from` on, in microseconds.
fn error_us(record: &SharedRecord, from: Timestamp, quantile: f64) -> f64 {
    let departures = record.departures.iter().filter(|departure| departure.at >= from);
    let mut errors: Vec<_> = departures.map(|departure| (departure.at - departure.due).as_micros()).collect();
    errors.sort_by(f64::total_cmp);
    errors[((errors.len() - 1) as f64 * quantile) as usize]
}

#[test]
fn the_rate_holds_under_load_within_the_fair_share() {
    for (mbps, mode, seed) in combinations() {
        for busy in [4, 12, 20] {
            let machine = machine(busy, seed);
            let config = WakeConfig::default().with_mode(mode);
            let (record, _) = run(machine, grid(mbps, mode), config);
            let (ratio, cpu) = (rate_ratio(&record, mbps), record.cpu_ratio());
            let what = format!("{mbps} Mbit/s, {mode}, {busy} busy threads, seed {seed}: {ratio}, CPU {cpu}");
            assert!((0.999..=1.0002).contains(&ratio), "{what}");
            assert!(cpu > 0.0 && cpu <= 1.0 / f64::from(machine.rivals() + 1), "{what}");
            assert!(record.ended - Timestamp::ZERO <= DURATION + TimeDelta::from_millis(150), "{what}");
        }
    }
}

#[test]
fn the_fallback_saves_processor_time_and_delay_in_precise_mode() {
    for (mbps, seed) in [(10, 1), (10, 7), (100, 1), (100, 7)] {
        let with = |busy_fallback| {
            let mode = SleepMode::Precise;
            let config = WakeConfig::default().with_mode(mode).with_busy_fallback(busy_fallback);
            let (record, _) = run(machine(12, seed), grid(mbps, mode), config);
            (record.cpu_ratio(), error_us(&record, Timestamp::ZERO, 0.5))
        };
        let (on, off) = (with(true), with(false));
        assert!(on.0 < 0.5 * off.0 && on.1 < 0.75 * off.1, "{on:?} against {off:?}");
    }
}

#[test]
fn a_second_after_the_load_the_sender_is_precise_again() {
    for (mbps, mode, seed) in combinations() {
        let machine = SharedMachine { busy_from: at(1), busy_until: at(3), ..machine(12, seed) };
        let (record, planner) = run(machine, grid(mbps, mode), WakeConfig::default().with_mode(mode));
        let (error, before) = (error_us(&record, at(4), 0.99), error_us(&record, at(2), 1.0));
        assert!(!planner.is_busy() && error < 25.0, "{mbps} Mbit/s, {mode}, seed {seed}: {error} us");
        assert!(before > 1000.0, "the load was noticed: {before} us");
    }
}

#[test]
fn on_a_quiet_machine_departures_are_microseconds_late() {
    for (mbps, mode, seed) in combinations() {
        // One busy thread leaves the other core to the sender.
        for busy in [0, 1] {
            let (record, planner) =
                run(machine(busy, seed), grid(mbps, mode), WakeConfig::default().with_mode(mode));
            let (median, error) = (error_us(&record, at(1), 0.5), error_us(&record, at(1), 0.99));
            assert!(median < 0.5 && error < 10.0, "{mbps} Mbit/s, {mode}, seed {seed}: {median}, {error} us");
            assert!(!planner.is_busy() && record.cpu_ratio() < 0.25);
        }
    }
}

#[test]
fn who_spins_gets_the_fair_share_and_no_more() {
    let shares = [(0, 1.0), (2, 0.5), (4, 1.0 / 3.0), (12, 1.0 / 7.0), (20, 1.0 / 11.0)];
    for ((busy, share), seed) in shares.into_iter().zip(SEEDS.into_iter().cycle()) {
        let schedule = Strategy::SendCompare.build(&plan(1), StrategyOptions::default()).unwrap();
        let (record, _) = run(machine(busy, seed), schedule, WakeConfig::default());
        let cpu = record.cpu_ratio();
        assert!((cpu - share).abs() < 0.02 * share, "{busy} busy threads: {cpu} instead of {share}");
    }
}

#[test]
fn one_seed_gives_one_run() {
    let record = |seed| run(machine(12, seed), grid(10, SleepMode::Balanced), WakeConfig::default()).0;
    assert_eq!(record(3), record(3));
    assert_ne!(record(3), record(4));
}

fn combinations() -> impl Iterator<Item = (u64, SleepMode, u64)> {
    let modes = RATES.into_iter().flat_map(|mbps| MODES.map(|mode| (mbps, mode)));
    modes.flat_map(|(mbps, mode)| SEEDS.map(|seed| (mbps, mode, seed)))
}
