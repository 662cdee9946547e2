//! The cases of libwebrtc's `goog_cc/probe_controller_unittest.cc` as data, with their original names.

use proptest::prelude::*;

use super::*;

const START: u64 = 300;
const MAX: u64 = 10_000;

/// A line without indentation is a case with its configuration. The others are events, with the rates in bit/s of the clusters that they
/// start. `begin`: the start with 300 of at most 10 000 bit/s. `due 10`: the next deadline, in seconds from the beginning.
const CASES: &str = "\
DisableSecondInitialProbeIfRateFactorZero single
  start 300 10000 => 900
TestExponentialProbing default, whose bound is 0.7 of 6 times 300
  begin => 900 1800; estimate 1000; estimate 1260; estimate 1800 => 3600
InitialProbingTimeout default
  begin => 900 1800; wait 5000; timeout; estimate 1800
InitiatesProbingOnMaxBitrateIncrease default
  begin => 900 1800; wait 5000; estimate 300; timeout; start 300 10100 => 10100; start 300 10000
ProbesOnMaxAllocatedBitrateIncreaseOnlyWhenInAlr default; a result this close to the maximum triggers one more cluster, as in the source
  begin => 900 1800; estimate 9999 => 10000; wait 5000; timeout
  limited; allocate 10001 => 10000 10000; free; allocate 10002
ProbesOnMaxAllocatedBitrateLimitedByCurrentBwe default
  begin => 900 1800; estimate 300; wait 5000; timeout; limited; allocate 10000 => 600; estimate 450 => 900
PeriodicProbing periodic
  begin => 900 1800; estimate 500; limited; wait 5000; timeout => 1000
  estimate 500; wait 4000; timeout; due 10; wait 1000; timeout => 1000
PeriodicProbing-is-off default
  begin => 900 1800; limited; wait 60000; timeout; due never
TestAllocatedBitrateCap periodic
  start 10000000 100000000 => 30000000 60000000; limited; estimate 10000000; allocate 9000000
  wait 5000; timeout => 18000000; allocate 0; wait 5000; timeout => 20000000
RequestProbeInAlr default
  begin => 900 1800; estimate 500; limited; wait 5001; timeout; estimate 250; recover => 425; recover
RequestProbeInAlr-just-in-time default
  begin => 900 1800; estimate 500; limited; wait 5001; timeout; estimate 250; wait 4999; recover => 425; recover
RequestProbeWhenBweDropNotRecent default
  begin => 900 1800; estimate 500; limited; wait 5001; timeout; estimate 250; wait 5000; recover; recover
RequestProbeWhenAlrEndedRecently default
  begin => 900 1800; estimate 500; limited; wait 5001; timeout; estimate 250; free; wait 2999; recover => 425; recover
RequestProbeWhenAlrNotEndedRecently default
  begin => 900 1800; estimate 500; limited; wait 5001; timeout; estimate 250; free; wait 3000; recover; recover
LimitAlrProbeWhenLossBasedBweLimited periodic
  begin => 900 1800; estimate 500; limited; wait 5000; timeout => 1000
  estimate 500 loss-rising; wait 6000; timeout => 750; estimate 750; wait 6000; timeout => 1500
RepeatedInitialProbingStopIfMaxAllocatedBitrateSet repeated
  begin => 900 1800; wait 1100; timeout => 900; allocate 100; wait 1100; timeout
";

fn bps(bps: u64) -> DataRate {
    DataRate::from_bps(bps)
}

fn config(name: &str) -> ProbingConfig {
    match name {
        "default" => ProbingConfig::default(),
        "periodic" => ProbingConfig { probe_while_limited: true, ..ProbingConfig::default() },
        "repeated" => ProbingConfig { repeat_initial: true, ..ProbingConfig::default() },
        "single" => ProbingConfig { second: 0.0, ..ProbingConfig::default() },
        _ => panic!("{name}"),
    }
}

struct Bench {
    probing: Probing,
    now: Timestamp,
}

const BEGIN: Timestamp = Timestamp::from_nanos(100_000_000_000);

impl Bench {
    fn new(name: &str) -> Self {
        Self { probing: Probing::new(config(name)), now: BEGIN }
    }

    fn outcome(&mut self, event: &str) -> ProbeOutcome {
        let words: Vec<&str> = event.split_whitespace().collect();
        let number = |place: usize| words[place].parse().unwrap();
        let now = self.now;
        match words[0] {
            "begin" => self.probing.start(now, bps(START), Some(bps(MAX))),
            "start" => self.probing.start(now, bps(number(1)), Some(bps(number(2)))),
            "estimate" => {
                let constraint = match words.get(2) {
                    None => Constraint::None,
                    Some(&"delay") => Constraint::Delay,
                    Some(_) => Constraint::LossRising,
                };
                self.probing.on_estimate(now, bps(number(1)), constraint)
            }
            "timeout" => self.probing.on_timeout(now),
            "allocate" => self.probing.on_allocation(now, Some(bps(number(1))).filter(|rate| *rate > bps(0))),
            "recover" => self.probing.on_recovered(now),
            other => {
                match other {
                    "limited" | "free" => {
                        self.probing.on_application_limited(now, Some(now).filter(|_| other == "limited"));
                    }
                    "wait" => self.now += TimeDelta::from_millis(number(1) as i64),
                    "due" => {
                        let due =
                            words[1].parse().ok().map(|seconds| BEGIN + TimeDelta::from_seconds(seconds));
                        assert_eq!(self.probing.next_timeout(), due);
                    }
                    _ => panic!("{event}"),
                }
                ProbeOutcome::None
            }
        }
    }

    /// Rates of the clusters that an event starts.
    fn on(&mut self, event: &str) -> Vec<u64> {
        let outcome = self.outcome(event);
        let probes = std::iter::from_fn(|| self.probing.next_probe());
        let rates: Vec<_> = probes.map(|probe| probe.rate.as_bps()).collect();
        let expected = if let ProbeOutcome::Probing(count) = outcome { count as usize } else { 0 };
        assert_eq!(rates.len(), expected, "{event}");
        rates
    }
}

#[test]
fn clusters_are_as_published() {
    let (mut bench, mut case) = (Bench::new("default"), "");
    for line in CASES.lines() {
        let Some(events) = line.strip_prefix("  ") else {
            case = line;
            bench = Bench::new(line.split([' ', ',', ';']).nth(1).unwrap());
            continue;
        };
        for event in events.split(';') {
            let (event, rates) = event.split_once("=>").unwrap_or((event, ""));
            let rates: Vec<u64> = rates.split_whitespace().map(|rate| rate.parse().unwrap()).collect();
            assert_eq!(bench.on(event), rates, "{case}: {event}");
        }
    }
}

#[test]
fn it_starts_with_two_clusters_of_5_packets_and_15_ms() {
    // SetsDefaultTargetDurationAndTargetProbeCount
    let mut probing = Probing::default();
    assert_eq!(probing.start(Timestamp::ZERO, bps(START), Some(bps(MAX))), ProbeOutcome::Probing(2));
    let (duration, batch) = (TimeDelta::from_millis(15), TimeDelta::from_millis(2));
    let probe = |cluster, rate| Some(Probe { cluster, rate: bps(rate), duration, packets: 5, batch });
    let found = [(); 3].map(|()| probing.next_probe());
    assert_eq!(found, [probe(1, 900), probe(2, 1800), None]);
}

#[test]
fn a_suppressed_probe_is_reported_once_and_sent_later() {
    // DontProbeIfDelayIncreased, DontProbeIfHighRtt
    for constraint in [Constraint::Delay, Constraint::Rtt, Constraint::LossFalling] {
        let mut bench = Bench::new("periodic");
        for event in ["begin", "limited", "wait 1100", "timeout"] {
            bench.on(event);
        }
        assert_eq!(bench.probing.on_estimate(bench.now, bps(START), constraint), ProbeOutcome::None);
        bench.on("wait 5000");
        let outcome = bench.probing.on_timeout(bench.now);
        assert_eq!(outcome, ProbeOutcome::Suppressed(constraint));
        assert_eq!(outcome.cause(), Some(Cause::ProbeSuppressed));
        assert_eq!(bench.probing.next_timeout(), None, "nothing to wait for");
        assert_eq!(bench.probing.on_timeout(bench.now), ProbeOutcome::None);
        bench.on("estimate 300");
        assert!(bench.probing.next_timeout().is_some_and(|due| due <= bench.now));
        assert_eq!(bench.on("timeout"), [2 * START]);
    }
}

#[test]
fn repeated_initial_probes_last_5_s() {
    // RepeatedInitialProbingSendsNewProbeAfterTimeout
    let mut bench = Bench::new("repeated");
    bench.on("begin");
    let mut times = Vec::new();
    for tenth in 1..=80 {
        bench.on("wait 100");
        if let ProbeOutcome::Probing(_) = bench.probing.on_timeout(bench.now) {
            times.push(tenth);
            let probe = bench.probing.next_probe().unwrap();
            assert_eq!((probe.rate, probe.duration), (bps(3 * START), TimeDelta::from_millis(100)));
        }
    }
    assert_eq!(times, [11, 22, 33, 44]);
}

proptest! {
    #[test]
    fn no_cluster_exceeds_the_maximum_rate(
        events in prop::collection::vec((0_usize..8, 0_u64..60_000, 0_u64..20_000), 0..200),
    ) {
        const EVENTS: [&str; 8] = [
            "start 300 RATE", "estimate RATE", "estimate RATE delay", "allocate RATE", "limited", "free", "recover", "timeout",
        ];
        let (mut bench, mut max) = (Bench::new("periodic"), 5_000_000);
        for (event, ms, rate) in events {
            bench.now = Timestamp::from_nanos(ms * 1_000_000);
            if event == 0 {
                max = rate;
            }
            let rates = bench.on(&EVENTS[event].replace("RATE", &rate.to_string()));
            prop_assert!(rates.iter().all(|found| (1..=max).contains(found)), "{:?} of {}", rates, max);
            // No deadline may be due after a timeout: it would stay due for ever.
            let next = bench.probing.next_timeout().filter(|_| EVENTS[event] == "timeout");
            prop_assert!(next.is_none_or(|due| due > bench.probing.clock.0));
        }
    }
}
