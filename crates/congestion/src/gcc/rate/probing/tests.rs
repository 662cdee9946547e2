//! Numbers of libwebrtc's `goog_cc/probe_controller_unittest.cc`; each test states the name of its case. The
//! start rate is 300 bit/s and the maximum 10 kbit/s.

use super::*;

const START: u64 = 300;
const MAX: u64 = 10_000;

struct Bench {
    probing: Probing,
    now: Timestamp,
}

fn bps(bps: u64) -> DataRate {
    DataRate::from_bps(bps)
}

impl Bench {
    fn new(config: ProbingConfig) -> Self {
        Self { probing: Probing::new(config), now: Timestamp::from_nanos(100_000_000_000) }
    }

    fn started(config: ProbingConfig) -> Self {
        let mut bench = Self::new(config);
        assert_eq!(bench.start(START, MAX), [900, 1800]);
        bench
    }

    fn pass(&mut self, ms: i64) {
        self.now += TimeDelta::from_millis(ms);
    }

    fn start(&mut self, start: u64, max: u64) -> Vec<u64> {
        let outcome = self.probing.start(self.now, bps(start), Some(bps(max)));
        self.taken(outcome)
    }

    fn estimate(&mut self, rate: u64) -> Vec<u64> {
        self.constrained(rate, Constraint::None)
    }

    fn constrained(&mut self, rate: u64, constraint: Constraint) -> Vec<u64> {
        let outcome = self.probing.on_estimate(self.now, bps(rate), constraint);
        self.taken(outcome)
    }

    fn timeout(&mut self) -> Vec<u64> {
        let outcome = self.probing.on_timeout(self.now);
        self.taken(outcome)
    }

    fn allocate(&mut self, rate: u64) -> Vec<u64> {
        let outcome = self.probing.on_allocation(self.now, Some(bps(rate)).filter(|_| rate > 0));
        self.taken(outcome)
    }

    fn recover(&mut self) -> Vec<u64> {
        let outcome = self.probing.on_recovered(self.now);
        self.taken(outcome)
    }

    fn limit(&mut self, is_limited: bool) {
        self.probing.on_application_limited(self.now, Some(self.now).filter(|_| is_limited));
    }

    /// After 5 s without news.
    fn idle(config: ProbingConfig, estimate: u64) -> Self {
        let mut bench = Self::started(config);
        assert_eq!(bench.estimate(estimate), NONE);
        bench.pass(5000);
        assert_eq!(bench.timeout(), NONE);
        bench
    }

    fn taken(&mut self, outcome: ProbeOutcome) -> Vec<u64> {
        let rates: Vec<_> =
            std::iter::from_fn(|| self.probing.next_probe()).map(|probe| probe.rate.as_bps()).collect();
        let expected = if let ProbeOutcome::Probing(count) = outcome { count as usize } else { 0 };
        assert_eq!(rates.len(), expected);
        rates
    }
}

fn periodic() -> ProbingConfig {
    ProbingConfig { probe_while_limited: true, ..ProbingConfig::default() }
}

const NONE: [u64; 0] = [];

#[test]
fn it_starts_with_two_clusters_of_5_packets_and_15_ms() {
    // SetsDefaultTargetDurationAndTargetProbeCount
    let mut probing = Probing::default();
    assert_eq!(probing.start(Timestamp::ZERO, bps(START), Some(bps(MAX))), ProbeOutcome::Probing(2));
    let probe = |cluster, rate| Probe {
        cluster,
        rate: bps(rate),
        duration: TimeDelta::from_millis(15),
        packets: 5,
        batch: TimeDelta::from_millis(2),
    };
    assert_eq!(probing.next_probe(), Some(probe(1, 900)));
    assert_eq!(probing.next_probe(), Some(probe(2, 1800)));
    assert_eq!(probing.next_probe(), None);
    // DisableSecondInitialProbeIfRateFactorZero
    let mut bench = Bench::new(ProbingConfig { second: 0.0, ..ProbingConfig::default() });
    assert_eq!(bench.start(START, MAX), [900]);
}

#[test]
fn only_a_good_result_triggers_a_further_probe() {
    // TestExponentialProbing: the bound is 0.7 · 6 · 300 = 1260.
    let mut bench = Bench::started(ProbingConfig::default());
    assert_eq!(bench.estimate(1000), NONE);
    assert_eq!(bench.estimate(1260), NONE);
    assert_eq!(bench.estimate(1800), [3600]);
    // InitialProbingTimeout: a late result is ignored.
    let mut bench = Bench::started(ProbingConfig::default());
    bench.pass(5000);
    assert_eq!(bench.timeout(), NONE);
    assert_eq!(bench.estimate(1800), NONE);
}

#[test]
fn a_higher_maximum_is_probed() {
    // InitiatesProbingOnMaxBitrateIncrease
    let mut bench = Bench::idle(ProbingConfig::default(), START);
    assert_eq!(bench.start(START, MAX + 100), [MAX + 100]);
    assert_eq!(bench.start(START, MAX), NONE);
}

#[test]
fn a_new_allocation_is_probed_only_when_application_limited() {
    // ProbesOnMaxAllocatedBitrateIncreaseOnlyWhenInAlr: both clusters are limited to the maximum.
    let mut bench = Bench::started(ProbingConfig::default());
    // As in the source, a result this close to the maximum triggers one more cluster, limited to the maximum.
    // Then probing is complete.
    assert_eq!(bench.estimate(MAX - 1), [MAX]);
    bench.pass(5000);
    assert_eq!(bench.timeout(), NONE);
    bench.limit(true);
    assert_eq!(bench.allocate(MAX + 1), [MAX, MAX]);
    bench.limit(false);
    assert_eq!(bench.allocate(MAX + 2), NONE);
}

#[test]
fn a_new_allocation_is_probed_up_to_twice_the_estimate() {
    // ProbesOnMaxAllocatedBitrateLimitedByCurrentBwe
    let mut bench = Bench::idle(ProbingConfig::default(), START);
    bench.limit(true);
    assert_eq!(bench.allocate(MAX), [2 * START]);
    assert_eq!(bench.estimate(START * 3 / 2), [3 * START]);
}

#[test]
fn when_application_limited_it_can_probe_every_5_s() {
    // PeriodicProbing
    let mut bench = Bench::started(periodic());
    assert_eq!(bench.estimate(500), NONE);
    let began = bench.now;
    bench.limit(true);
    bench.pass(5000);
    assert_eq!(bench.timeout(), [1000]);
    assert_eq!(bench.estimate(500), NONE);
    bench.pass(4000);
    assert_eq!(bench.timeout(), NONE);
    assert_eq!(bench.probing.next_timeout(), Some(began + TimeDelta::from_seconds(10)));
    bench.pass(1000);
    assert_eq!(bench.timeout(), [1000]);

    let mut silent = Bench::started(ProbingConfig::default());
    silent.limit(true);
    silent.pass(60_000);
    assert_eq!(silent.timeout(), NONE);
    assert_eq!(silent.probing.next_timeout(), None);
}

#[test]
fn clusters_stay_below_twice_the_allocation() {
    // TestAllocatedBitrateCap
    let mut bench = Bench::new(periodic());
    assert_eq!(bench.start(10_000_000, 100_000_000), [30_000_000, 60_000_000]);
    bench.limit(true);
    assert_eq!(bench.estimate(10_000_000), NONE);
    assert_eq!(bench.allocate(9_000_000), NONE);
    bench.pass(5000);
    assert_eq!(bench.timeout(), [18_000_000]);
    assert_eq!(bench.allocate(0), NONE);
    bench.pass(5000);
    assert_eq!(bench.timeout(), [20_000_000]);
}

#[test]
fn after_a_recent_drop_the_old_rate_is_probed() {
    // RequestProbeInAlr, RequestProbeWhenBweDropNotRecent; RequestProbeWhenAlrEndedRecently, RequestProbeWhenAlrNotEndedRecently
    for (limited, wait, expected) in [
        (true, 0, vec![425]),
        (true, 4999, vec![425]),
        (true, 5000, vec![]),
        (false, 2999, vec![425]),
        (false, 3000, vec![]),
    ] {
        let mut bench = Bench::started(ProbingConfig::default());
        assert_eq!(bench.estimate(500), NONE);
        bench.limit(true);
        bench.pass(5001);
        assert_eq!(bench.timeout(), NONE);
        assert_eq!(bench.estimate(250), NONE);
        if !limited {
            bench.limit(false);
        }
        bench.pass(wait);
        assert_eq!(bench.recover(), expected, "{wait} ms after, application-limited: {limited}");
        assert_eq!(bench.recover(), NONE, "not twice");
    }
}

#[test]
fn while_loss_limited_a_cluster_has_1_5_times_the_rate() {
    // LimitAlrProbeWhenLossBasedBweLimited
    let mut bench = Bench::started(periodic());
    assert_eq!(bench.estimate(500), NONE);
    bench.limit(true);
    bench.pass(5000);
    assert_eq!(bench.timeout(), [1000]);
    assert_eq!(bench.constrained(500, Constraint::LossRising), NONE);
    bench.pass(6000);
    assert_eq!(bench.timeout(), [750]);
    assert_eq!(bench.estimate(750), NONE);
    bench.pass(6000);
    assert_eq!(bench.timeout(), [1500]);
}

#[test]
fn a_suppressed_probe_is_reported_once_and_sent_later() {
    // DontProbeIfDelayIncreased, DontProbeIfHighRtt
    for constraint in [Constraint::Delay, Constraint::Rtt, Constraint::LossFalling] {
        let mut bench = Bench::started(periodic());
        bench.limit(true);
        bench.pass(1100);
        assert_eq!(bench.timeout(), NONE);
        assert_eq!(bench.constrained(START, constraint), NONE);
        bench.pass(5000);
        let outcome = bench.probing.on_timeout(bench.now);
        assert_eq!(outcome, ProbeOutcome::Suppressed(constraint));
        assert_eq!(outcome.cause(), Some(Cause::ProbeSuppressed));
        assert_eq!(bench.probing.next_timeout(), None, "nothing to wait for");
        assert_eq!(bench.probing.on_timeout(bench.now), ProbeOutcome::None);
        assert_eq!(bench.estimate(START), NONE);
        assert!(bench.probing.next_timeout().is_some_and(|due| due <= bench.now));
        assert_eq!(bench.timeout(), [2 * START]);
    }
}

#[test]
fn repeated_initial_probes_last_5_s() {
    // RepeatedInitialProbingSendsNewProbeAfterTimeout, RepeatedInitialProbingStopIfMaxAllocatedBitrateSet
    let config = ProbingConfig { repeat_initial: true, ..ProbingConfig::default() };
    let mut bench = Bench::started(config);
    let mut times = Vec::new();
    for tenth in 1..=80 {
        bench.pass(100);
        if let ProbeOutcome::Probing(_) = bench.probing.on_timeout(bench.now) {
            times.push(tenth);
            let probe = bench.probing.next_probe().unwrap();
            assert_eq!((probe.rate, probe.duration), (bps(3 * START), TimeDelta::from_millis(100)));
        }
    }
    assert_eq!(times, [11, 22, 33, 44]);

    let mut bench = Bench::started(config);
    bench.pass(1100);
    assert_eq!(bench.timeout().len(), 1);
    assert_eq!(bench.allocate(100), NONE);
    bench.pass(1100);
    assert_eq!(bench.timeout(), NONE);
}
