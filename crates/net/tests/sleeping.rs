//! Properties of sleeping that also hold on a busy machine.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use giusto_net::{Clock, Granted, SleepMode, Sleeper, SleeperConfig};
use giusto_units::{TimeDelta, Timestamp};

const MODES: [SleepMode; 3] = [SleepMode::Precise, SleepMode::Balanced, SleepMode::Eco];

fn sleeper(mode: SleepMode) -> Sleeper {
    Sleeper::new(SleeperConfig { mode, ..SleeperConfig::default() })
}

#[test]
fn no_mode_returns_before_the_deadline() {
    for mode in MODES {
        let (clock, mut sleeper) = (Clock::start(), sleeper(mode));
        let mut deadline = clock.now();
        for n in 0..200 {
            deadline += TimeDelta::from_micros(1 + n * 7 % 600);
            let woke = sleeper.until(clock, deadline);
            assert!(woke >= deadline && woke <= clock.now(), "{mode:?}: {woke} for {deadline}");
        }
    }
}

#[test]
fn a_past_deadline_causes_no_sleep() {
    let (clock, mut sleeper) = (Clock::start(), sleeper(SleepMode::Eco));
    for _ in 0..10 {
        sleeper.until(clock, Timestamp::ZERO);
    }
    let report = sleeper.report();
    assert_eq!((report.sleeps, report.late_entries), (0, 10));
}

#[test]
fn a_plain_sleep_lasts_at_least_its_duration() {
    for mode in MODES {
        let (clock, mut sleeper) = (Clock::start(), sleeper(mode));
        let begin = clock.now();
        let end = sleeper.for_span(clock, TimeDelta::from_millis(3));
        assert!(end - begin >= TimeDelta::from_millis(3));
        let begin = clock.now();
        assert!(sleeper.for_span(clock, TimeDelta::from_millis(-3)) >= begin);
        assert_eq!(sleeper.report().sleeps, 1);
    }
}

#[test]
fn the_lead_is_learned_and_eco_never_spins() {
    for mode in MODES {
        let (clock, mut sleeper) = (Clock::start(), sleeper(mode));
        let first = sleeper.report().lead_us;
        for _ in 0..64 {
            sleeper.until(clock, clock.now() + TimeDelta::from_millis(1));
        }
        let report = sleeper.report();
        assert!(report.sleeps > 0);
        assert!(report.wake_latency_p50_us <= report.wake_latency_p90_us);
        assert!(report.wake_latency_p99_us <= report.wake_latency_max_us);
        if mode == SleepMode::Eco {
            assert!(report.lead_us <= 0.0 && report.spun_ms <= 0.0, "{report:?}");
        } else {
            assert!((report.lead_us - first).abs() > 0.0, "{report:?}");
            // A machine is busy, and there is no lead, only where more than one in sixteen wakes a millisecond late.
            assert!(report.lead_us > 0.0 || report.wake_latency_p99_us >= 1000.0, "{report:?}");
        }
    }
}

#[test]
fn a_stop_flag_ends_a_long_sleep() {
    for relative in [false, true] {
        let stop = Arc::new(AtomicBool::new(false));
        let config = SleeperConfig { stop: Some(Arc::clone(&stop)), ..SleeperConfig::default() };
        let clock = Clock::start();
        let sleeping = std::thread::spawn(move || {
            let mut sleeper = Sleeper::new(config);
            let span = TimeDelta::from_seconds(60);
            if relative {
                sleeper.for_span(clock, span)
            } else {
                sleeper.until(clock, Timestamp::ZERO + span)
            }
        });
        sleeper(SleepMode::Eco).for_span(clock, TimeDelta::from_millis(100));
        assert!(!sleeping.is_finished(), "it sleeps as long as nobody stops it");
        stop.store(true, Relaxed);
        let woke = sleeping.join().unwrap();
        // The guarantee is 100 ms; a busy machine may take longer, but not a minute.
        assert!(woke < Timestamp::ZERO + TimeDelta::from_seconds(10), "woke at {woke}");
    }
}

#[test]
fn a_sleep_with_an_unset_stop_flag_ends_at_its_deadline() {
    let config = SleeperConfig { stop: Some(Arc::default()), ..SleeperConfig::default() };
    let (clock, mut sleeper) = (Clock::start(), Sleeper::new(config));
    let deadline = clock.now() + TimeDelta::from_millis(150);
    assert!(sleeper.until(clock, deadline) >= deadline);
    assert_eq!(sleeper.report().sleeps, 1, "pieces are not sleeps");
}

#[test]
fn the_grants_to_the_thread_are_described() {
    let asked = SleeperConfig { realtime_priority: Some(1), ..SleeperConfig::default() };
    let granted = std::thread::spawn(move || {
        let mut granted = Granted::of_this_system();
        Sleeper::new(asked).describe(&mut granted);
        granted
    });
    let granted = granted.join().unwrap();
    let priority = granted.realtime_priority.unwrap();
    assert_eq!(priority.asked, 1);
    assert!(priority.granted <= 1);
    if priority.granted == 0 {
        eprintln!("skip: real-time priority: not granted");
    }
    assert_eq!(granted.timer_slack_ns, Some(1));
    match granted.time_slice_ns {
        Some(slice) => assert_eq!(slice, 100_000),
        None => eprintln!("skip: time slice: not known to this kernel"),
    }
}
