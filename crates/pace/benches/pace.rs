//! Cost of one cycle of a schedule: `next`, `on_sent`, and a sleep if there is one.
//!
//! `cargo bench -p giusto-pace --bench pace`. Each figure is for a thousand cycles; the items per second are
//! cycles.

use divan::{Bencher, black_box, counter::ItemsCount};
use giusto_pace::{
    Bounded, BurstBound, CatchUp, CyclePlan, CycleRule, Grid, GridConfig, HeaderLayer, IpVersion, Limits,
    Schedule, Step, Strategy, StrategyOptions,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

const CYCLES: usize = 1000;

fn main() {
    divan::main();
}

/// 1200 B at 7 Mbit/s: a period with a fraction.
fn plan() -> CyclePlan {
    let (rate, payload) = (DataRate::from_bps(7_000_000), DataSize::from_bytes(1200));
    CyclePlan::new(rate, payload, HeaderLayer::Payload, IpVersion::V4, CycleRule::Given(1))
        .expect("a valid plan")
}

/// Runs steps until a thousand cycles are sent. Time advances with each sleep and each poll of the clock.
fn drive(schedule: &mut dyn Schedule, now: &mut Timestamp) {
    let mut sent = 0;
    while sent < CYCLES {
        match schedule.next(black_box(*now)) {
            Step::Send(_) => {
                schedule.on_sent(*now, black_box(DataSize::from_bytes(1200)));
                sent += 1;
            }
            Step::SleepFor(span) => {
                *now += span;
                schedule.on_woke(*now);
            }
            Step::SleepUntil(time) => {
                *now = time;
                schedule.on_woke(*now);
            }
            Step::Poll => *now += TimeDelta::from_nanos(1_371_429),
            _ => return,
        }
    }
}

fn bench(bencher: Bencher<'_, '_>, mut schedule: Box<dyn Schedule>) {
    let mut now = Timestamp::ZERO;
    bencher.counter(ItemsCount::new(CYCLES)).bench_local(|| drive(&mut *schedule, &mut now));
}

#[divan::bench(args = Strategy::ALL)]
fn strategy(bencher: Bencher<'_, '_>, strategy: Strategy) {
    bench(bencher, strategy.build(&plan(), StrategyOptions::default()).expect("no burst rate"));
}

/// Each poll is ten cycles later than the previous one: the schedule is always late.
#[divan::bench(args = CatchUp::ALL)]
fn grid_behind(bencher: Bencher<'_, '_>, catch_up: CatchUp) {
    let config = GridConfig::default()
        .with_catch_up(catch_up)
        .with_burst_bound(BurstBound::Packets(4))
        .with_start(Timestamp::ZERO);
    let mut grid = Grid::new(&plan(), config);
    let mut now = Timestamp::ZERO;
    bencher.counter(ItemsCount::new(CYCLES)).bench_local(|| {
        for _ in 0..CYCLES {
            now += TimeDelta::from_micros(13_714);
            if let Step::Send(_) = grid.next(black_box(now)) {
                grid.on_sent(now, DataSize::from_bytes(1200));
            }
        }
    });
}

#[divan::bench]
fn grid_with_burst_rate(bencher: Bencher<'_, '_>) {
    let options = StrategyOptions::default().with_r_max(DataRate::from_bps(14_000_000));
    bench(bencher, Strategy::Grid.build(&plan(), options).expect("a burst rate above the rate"));
}

#[divan::bench]
fn grid_bounded(bencher: Bencher<'_, '_>) {
    let plan = plan();
    let limits = Limits::default().with_packets(u64::MAX).with_duration(TimeDelta::MAX);
    let grid = Box::new(Grid::new(&plan, GridConfig::default()));
    bench(bencher, Box::new(Bounded::new(grid, plan.size_on_layer(), limits)));
}
