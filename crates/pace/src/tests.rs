//! Properties of every schedule.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use proptest::{prelude::*, strategy::Strategy as Draw};

use super::{
    catch_up::{BurstBound, CatchUp},
    plan::CyclePlan,
    schedule::{Schedule, Step},
    strategy::{Strategy, StrategyOptions},
    virtual_driver::{VirtualDriver, plan},
};

#[derive(Debug, Clone)]
enum Call {
    Next,
    Sent(u64),
    Woke,
    /// Data that came after a wait.
    Starved(u64),
    Forward(u64),
    Backward(u64),
}

fn calls() -> impl Draw<Value = Vec<Call>> {
    let span = prop_oneof![0_u64..1_000, 0_u64..20_000_000, any::<u64>()];
    let call = prop_oneof![
        4 => Just(Call::Next),
        2 => prop_oneof![0_u64..3_000, any::<u64>()].prop_map(Call::Sent),
        2 => Just(Call::Woke),
        1 => span.clone().prop_map(Call::Starved),
        3 => span.clone().prop_map(Call::Forward),
        1 => span.prop_map(Call::Backward),
    ];
    prop::collection::vec(call, 0..60)
}

/// Up to 8 Gbit/s: above that, a cycle of one byte would take less than a nanosecond, which `CyclePlan`
/// rejects.
fn plans() -> impl Draw<Value = CyclePlan> {
    (10_000_u64..=8_000_000_000, 1_u64..1500, 1_u32..20)
        .prop_map(|(bps, payload, packets)| plan(bps, payload, packets))
}

fn bounds() -> impl Draw<Value = BurstBound> {
    prop_oneof![
        any::<u64>().prop_map(BurstBound::Packets),
        (0_u64..40).prop_map(BurstBound::Packets),
        (0_u64..40_000).prop_map(|bytes| BurstBound::Bytes(DataSize::from_bytes(bytes))),
        any::<i64>().prop_map(|nanos| BurstBound::Time(TimeDelta::from_nanos(nanos))),
        (0_i64..20).prop_map(|millis| BurstBound::Time(TimeDelta::from_millis(millis))),
    ]
}

fn options() -> impl Draw<Value = StrategyOptions> {
    let start = prop::option::of(prop_oneof![0_u64..50_000_000, any::<u64>()]);
    let gap = prop::option::of(any::<i64>());
    (start, prop::sample::select(&CatchUp::ALL[..]), bounds(), prop::bool::ANY, gap).prop_map(
        |(start, catch_up, burst_bound, limited, gap_threshold)| StrategyOptions {
            start: start.map(Timestamp::from_nanos),
            catch_up,
            burst_bound,
            r_max: limited.then_some(DataRate::from_bps(20_000_000_000)),
            gap_threshold: gap_threshold.map(TimeDelta::from_nanos),
        },
    )
}

fn strategies() -> impl Draw<Value = Strategy> {
    prop::sample::select(&Strategy::ALL[..])
}

fn paced_strategies() -> impl Draw<Value = Strategy> {
    prop::sample::select(
        Strategy::ALL.into_iter().filter(|&strategy| strategy != Strategy::Unpaced).collect::<Vec<_>>(),
    )
}

/// Runs a hundred periods on a machine with these delays.
fn driven(
    schedule: &mut dyn Schedule,
    plan: &CyclePlan,
    [oversleeps, send_costs, data_waits]: [Vec<u64>; 3],
) -> VirtualDriver {
    let period = plan.period().as_nanos().unsigned_abs();
    let mut driver = VirtualDriver {
        oversleeps,
        send_costs,
        data_waits,
        poll_cost: period / 10 + 1,
        ..VirtualDriver::new(plan.size_on_layer())
    };
    driver.run(schedule, 100 * period);
    driver
}

/// Oversleeps, durations of sends, and waits for data.
fn delays() -> impl Draw<Value = [Vec<u64>; 3]> {
    let oversleep = prop_oneof![0_u64..100_000, 0_u64..5_000_000];
    let data_wait = prop_oneof![4 => Just(0), 1 => 0_u64..10_000_000];
    let some = |delay: BoxedStrategy<u64>| prop::collection::vec(delay, 1..10);
    (some(oversleep.boxed()), some((0_u64..20_000).boxed()), some(data_wait.boxed())).prop_map(Into::into)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Only after `modest` calls is there always time left to sleep until it sends.
    #[test]
    fn calls_in_any_order_are_safe_and_after_its_sleep_a_schedule_sends(
        strategy in strategies(), plan in plans(), options in options(), calls in calls(), modest: bool,
    ) {
        let mut schedule = strategy.build(&plan, options).unwrap();
        let (mut now, mut latest) = (Timestamp::ZERO, Timestamp::ZERO);
        let span = |nanos: u64| if modest { nanos % 100_000_000 } else { nanos };
        let before = |now: Timestamp, nanos| Timestamp::from_nanos(now.as_nanos().saturating_sub(span(nanos)));
        for call in calls {
            if !matches!(call, Call::Starved(_) | Call::Forward(_) | Call::Backward(_)) {
                latest = latest.max(now);
            }
            match call {
                Call::Next => match schedule.next(now) {
                    Step::Send(cycle) => prop_assert!(cycle.packets > 0),
                    Step::SleepFor(span) => prop_assert!(span > TimeDelta::ZERO),
                    Step::SleepUntil(time) => prop_assert!(time > latest),
                    Step::Poll => {}
                    Step::Done => prop_assert!(false, "it has no end"),
                },
                Call::Sent(size) => {
                    schedule.on_sent(now, DataSize::from_bytes(if modest { size % 3000 } else { size }));
                }
                Call::Woke => schedule.on_woke(now),
                // A schedule may ignore this time: most do.
                Call::Starved(wait) => schedule.on_starved(before(now, wait), now),
                Call::Forward(nanos) => now = Timestamp::from_nanos(now.as_nanos().saturating_add(span(nanos))),
                Call::Backward(nanos) => now = before(now, nanos),
            }
        }
        schedule.late_cycles();
        if !modest {
            return Ok(());
        }
        let mut sleeps = 0;
        loop {
            match schedule.next(now) {
                Step::Send(_) => break,
                Step::SleepFor(span) => now += span,
                Step::SleepUntil(time) => now = time,
                // Poll only when an ideal sender would have sent long ago.
                Step::Poll => now = Timestamp::from_nanos(now.as_nanos().saturating_mul(2).saturating_add(1)),
                Step::Done => prop_assert!(false, "it has no end"),
            }
            schedule.on_woke(now);
            sleeps += 1;
            prop_assert!(sleeps < 70, "no send after {sleeps} sleeps");
        }
    }
}

proptest! {
    #[test]
    fn at_most_rate_times_time_plus_a_cycle_is_sent(
        strategy in paced_strategies(), plan in plans(), delays in delays(),
    ) {
        let mut schedule = strategy.build(&plan, StrategyOptions::default()).unwrap();
        let driver = driven(&mut *schedule, &plan, delays);
        let mut sent = DataSize::ZERO;
        for departure in &driver.departures {
            // All packets sent strictly before have had their time by now, counted from the start, at which
            // data may have been late.
            let elapsed = departure.at - Timestamp::ZERO;
            prop_assert!(sent <= plan.rate().size_in(elapsed + TimeDelta::from_nanos(1)), "at {}", departure.at);
            sent += departure.size;
        }
        prop_assert!(!driver.departures.is_empty());
    }

    #[test]
    fn a_burst_rate_holds_over_every_window(
        strategy in strategies(), plan in plans(), factor in 10_u64..50, delays in delays(),
    ) {
        let r_max = plan.rate().as_bps() * factor / 10;
        let options = StrategyOptions { r_max: Some(DataRate::from_bps(r_max)), ..StrategyOptions::default() };
        let mut schedule = strategy.build(&plan, options).unwrap();
        let driver = driven(&mut *schedule, &plan, delays);
        let cycle = plan.cycle_size().as_bytes() as f64;
        prop_assert!(driver.burst_above(r_max) <= cycle + 1e-3 * cycle, "{} above {cycle}", driver.burst_above(r_max));
    }
}

/// All strategies on one machine: a cycle per millisecond, oversleeps of 60 µs, sends of 20 µs, a stall of 10
/// ms.
#[test]
fn strategies_differ_as_in_their_sources() {
    let plan = plan(1_000_000, 125, 1);
    let rows: Vec<String> = Strategy::ALL
        .into_iter()
        .filter(|&strategy| strategy != Strategy::Unpaced)
        .map(|strategy| {
            let mut schedule = strategy.build(&plan, StrategyOptions::default()).unwrap();
            let mut driver = VirtualDriver {
                oversleeps: vec![60_000],
                send_costs: vec![20_000],
                stall: Some((300_500_000, 310_500_000)),
                ..VirtualDriver::new(plan.size_on_layer())
            };
            driver.run(&mut *schedule, 1_000_000_000);
            let last = driver.departures[driver.departures.len() - 1];
            format!(
                "{strategy:<20} {:>5} cycles, {:>7.0} bit/s, last one {:>9.1} us late",
                driver.departures.len(),
                driver.mean_rate(),
                last.error().as_micros()
            )
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r#"
        grid                  1000 cycles,  999940 bit/s, last one      60.0 us late
        send-compare          1000 cycles, 1000000 bit/s, last one       0.1 us late
        send-sleep             935 cycles,  934467 bit/s, last one   65500.0 us late
        send-sleep-deficit     935 cycles,  934467 bit/s, last one   65500.0 us late
        send-sleep-oversleep  1000 cycles,  999940 bit/s, last one      60.0 us late
        dt0                    992 cycles,  991416 bit/s, last one    8580.0 us late
        dt1                   1000 cycles,  999940 bit/s, last one      60.0 us late
        dt2                   1000 cycles,  999920 bit/s, last one      80.0 us late
        dt2-live              1000 cycles,  999920 bit/s, last one      80.0 us late
        at0                   1000 cycles,  999940 bit/s, last one      60.0 us late
        at1                   1000 cycles,  999940 bit/s, last one      60.0 us late
        "#);
}

/// The property above assumes an exact clock. On a coarse one, durations are measured too long as often as
/// too short. DT1 and DT2 compensate the former and clamp the latter, so they exceed the rate; absolute time
/// does not.
#[test]
fn on_a_coarse_clock_only_absolute_time_keeps_the_rate() {
    let plan = plan(1_000_000, 125, 1);
    let sent = |strategy: Strategy| {
        let mut schedule = strategy.build(&plan, StrategyOptions::default()).unwrap();
        let mut driver = VirtualDriver {
            granularity: 700_000,
            oversleeps: vec![60_000, 900_000],
            send_costs: vec![20_000],
            ..VirtualDriver::new(plan.size_on_layer())
        };
        driver.run(&mut *schedule, 1_000_000_000);
        driver.departures.len()
    };
    let absolute = [Strategy::At0, Strategy::At1].map(sent);
    assert_eq!(absolute, [1000, 1000]);
    let differential = [Strategy::Dt1, Strategy::Dt2, Strategy::Dt2Live].map(sent);
    assert!(differential.iter().all(|sent| (1040..=1060).contains(sent)), "{differential:?}");
}
