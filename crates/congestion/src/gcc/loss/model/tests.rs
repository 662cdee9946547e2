//! Behaviour of the model.

use giusto_units::{DataSize, PeerTimestamp, TimeDelta};
use proptest::prelude::*;
use rand::{SeedableRng, rngs::StdRng};

use super::*;
use crate::feedback::SentPacket;
use crate::testing::kbps;

/// A packet and whether it arrived.
pub(in crate::gcc) fn packet(sequence: u64, at: Timestamp, bytes: u64, arrived: bool) -> PacketReport {
    let arrival = arrived.then(|| PeerTimestamp::from_nanos(at.as_nanos()));
    PacketReport::new(SentPacket::new(sequence, at, DataSize::from_bytes(bytes)), arrival)
}

/// A sender with a model: feedback every 50 ms, acknowledged rate over the last second.
struct Run {
    model: LossModel,
    random: StdRng,
    sequence: u64,
    now: Timestamp,
    /// End of the current interval.
    end: Timestamp,
    /// Bytes that arrived in each of the last twenty intervals.
    arrived: Vec<u64>,
}

const SIZE: u64 = 1200;

impl Run {
    fn new() -> Self {
        Self {
            model: LossModel::new(ModelConfig::default()).unwrap(),
            random: StdRng::seed_from_u64(7),
            sequence: 0,
            now: Timestamp::ZERO,
            end: Timestamp::ZERO,
            arrived: Vec::new(),
        }
    }

    /// Sends for `millis` at the rate `rate(estimate)` and loses packets as given by `loss(sequence)`.
    /// Returns the minimum, mean and maximum estimate of the second half.
    fn go(
        &mut self,
        millis: i64,
        delay_based: DataRate,
        rate: impl Fn(DataRate) -> DataRate,
        loss: f64,
    ) -> [DataRate; 3] {
        let (mut min, mut max, mut total) = (UNLIMITED, DataRate::ZERO, 0);
        for step in 0..millis / 50 {
            let estimate = self.model.estimate().rate.unwrap_or(delay_based);
            let spacing = rate(estimate).time_for(DataSize::from_bytes(SIZE)).unwrap();
            self.end += TimeDelta::from_millis(50);
            let mut reports = Vec::new();
            while self.now < self.end {
                let arrived = !self.random.random_bool(loss);
                reports.push(packet(self.sequence, self.now, SIZE, arrived));
                self.sequence += 1;
                self.now += spacing;
            }
            self.arrived.push(reports.iter().filter(|report| report.arrival.is_some()).count() as u64 * SIZE);
            let recent = self.arrived.iter().rev().take(20);
            let span = TimeDelta::from_millis(50 * recent.len() as i64);
            if recent.len() == 20 {
                self.model.set_acknowledged(DataRate::of(DataSize::from_bytes(recent.sum()), span).unwrap());
            }
            self.model.update(&reports, Some(delay_based), false);
            let estimate = self.model.estimate().rate.unwrap();
            if step >= millis / 100 {
                (min, max) = (min.min(estimate), max.max(estimate));
                total += estimate.as_bps();
            }
        }
        let counted = (millis / 50 - millis / 100) as u64;
        [min, DataRate::from_bps(total / counted), max]
    }
}

#[test]
fn random_loss_of_5_percent_reduces_the_rate_little() {
    let mut run = Run::new();
    let [min, mean, max] = run.go(60_000, kbps(1000), |_| kbps(1000), 0.05);
    // The acknowledged rate, 950 kbit/s on average, is the lower bound; the delay-based rate is the upper
    // bound.
    assert!(min >= kbps(880), "{min}");
    assert!(mean >= kbps(950), "{mean}");
    assert_eq!(max, kbps(1000));
    assert!((0.02..0.1).contains(&run.model.average_loss()));
}

#[test]
fn at_20_percent_random_loss_the_estimate_is_the_received_rate() {
    let mut run = Run::new();
    let [min, mean, max] = run.go(40_000, kbps(20_000), |_| kbps(10_000), 0.2);
    // The upper bound is 100 kbit/s / (0.2 - 0.05), far below the 8 Mbit/s that arrive. The lower bound,
    // which is the acknowledged rate, prevails. Of 1042 packets per second 833 arrive, with a standard
    // deviation of 13; four standard deviations are 6 %.
    assert!(min >= kbps(7_500), "{min}");
    assert!((kbps(7_900)..=kbps(8_100)).contains(&mean), "{mean}");
    assert!(max <= kbps(8_500), "{max}");
    assert_eq!(run.model.estimate().state, LossState::Decreasing);
    assert!(matches!(run.model.cause(), Some(Cause::Loss { ratio }) if (0.17..0.23).contains(&ratio)));
}

#[test]
fn a_sender_stays_near_the_upper_bound_up_to_20_percent_loss() {
    let obeying = |loss| {
        let mut run = Run::new();
        run.go(120_000, kbps(10_000), |estimate| estimate, loss)
    };
    // The upper bound is 100 kbit/s over the loss beyond 5 %: 2 Mbit/s and 1 Mbit/s. It changes with the
    // average loss.
    // Above 20 % loss the bias prefers less bandwidth, whatever the fit, and the acknowledged rate is always
    // below the sent rate: the rate falls to the minimum and stays there.
    for (loss, all, mean) in
        [(0.1, 667.0..=4e3, 1333.0..=2e3), (0.15, 250.0..=2e3, 500.0..=1e3), (0.25, 5.0..=500.0, 5.0..=100.0)]
    {
        let rates = obeying(loss).map(|rate| rate.as_bps() as f64 / 1e3);
        assert!(all.contains(&rates[0]) && all.contains(&rates[2]), "{loss}: {rates:?}");
        assert!(mean.contains(&rates[1]), "{loss}: {rates:?}");
    }
}

#[test]
fn a_burst_of_loss_is_recovered_from() {
    let mut run = Run::new();
    let delay_based = kbps(1000);
    assert_eq!(run.go(5_000, delay_based, |estimate| estimate, 0.0), [delay_based; 3]);
    run.go(2_000, delay_based, |estimate| estimate, 0.5);
    let fallen = run.model.estimate().rate.unwrap();
    // Half of 1 Mbit/s arrived in the previous second, or less, because less was sent.
    assert!((kbps(100)..kbps(650)).contains(&fallen), "{fallen}");
    assert_eq!(run.model.estimate().state, LossState::Decreasing);
    let mut elapsed = 0;
    while run.model.estimate().state != LossState::DelayBased {
        run.go(250, delay_based, |estimate| estimate, 0.0);
        elapsed += 250;
        assert!(elapsed <= 30_000, "{:?}", run.model.estimate());
    }
    assert_eq!(run.model.estimate().rate, Some(delay_based));
    assert!(elapsed >= 500, "recovery is slow: {elapsed} ms");
}

#[test]
fn the_hold_doubles_until_the_delay_limits_the_rate() {
    let config = ModelConfig::default();
    let mut progress = Progress::new(&config);
    let bounds = |kbit: u64| Bounds { estimate: kbps(kbit), lower: config.min, delay_based: kbps(5000) };
    let mut now = Timestamp::ZERO;
    progress.begin(kbps(1000));
    let mut holds = Vec::new();
    for _ in 0..10 {
        progress.settle(&config, now, bounds(100), kbps(100));
        assert_eq!(progress.state, LossState::Decreasing);
        let fell = now;
        while progress.state == LossState::Decreasing {
            now += TimeDelta::from_millis(100);
            progress.settle(&config, now, bounds(200), kbps(200));
        }
        holds.push((now - fell).as_millis());
    }
    assert_eq!(holds, [300.0, 600.0, 1200.0, 2400.0, 4800.0, 9600.0, 19_200.0, 38_400.0, 60_000.0, 60_000.0]);
    progress.settle(&config, now, bounds(5000), kbps(5000));
    progress.settle(&config, now, bounds(100), kbps(100));
    progress.settle(&config, now + TimeDelta::from_millis(300), bounds(200), kbps(200));
    assert_eq!(progress.state, LossState::IncreasingWithPadding);
}

/// An operation on a model.
#[derive(Debug, Clone)]
enum Call {
    Packets(Vec<(u64, u64, u64, bool)>, Option<u64>, bool),
    Acknowledged(u64),
    Rate(u64),
}

fn call() -> impl Strategy<Value = Call> {
    let packet = (0_u64..100, 0_u64..20_000, 0_u64..2000, any::<bool>());
    prop_oneof![
        6 => (prop::collection::vec(packet, 0..20), prop::option::of(1_u64..10_000), any::<bool>())
            .prop_map(|(packets, delay, limited)| Call::Packets(packets, delay, limited)),
        1 => prop_oneof![0_u64..20_000, Just(u64::MAX / 1000)].prop_map(Call::Acknowledged),
        1 => (0_u64..20_000).prop_map(Call::Rate),
    ]
}

proptest! {
    #[test]
    fn the_estimate_stays_within_its_limits_in_any_order(
        calls in prop::collection::vec(call(), 1..60),
        settings in 0_u8..32,
    ) {
        let mut config = ModelConfig { min: kbps(30), max: kbps(5000), observations_needed: 1, ..ModelConfig::default() };
        config.observations_kept = if settings & 1 == 0 { 2 } else { 15 };
        config.measure = if settings & 2 == 0 { Measure::Bytes } else { Measure::Packets };
        config.bound_memory = settings & 4 == 0;
        config.acceleration_factor = if settings & 8 == 0 { 0.0 } else { 1.0 };
        config.lower_bound_factor = if settings & 16 == 0 { 1.0 } else { 0.0 };
        let mut model = LossModel::new(config).unwrap();
        for call in calls {
            match call {
                Call::Packets(packets, delay, limited) => {
                    let reports: Vec<_> = packets.into_iter().map(|(sequence, millis, size, arrived)| {
                        packet(sequence, Timestamp::from_nanos(millis * 1_000_000), size, arrived)
                    }).collect();
                    let before = model.estimate();
                    let delay = delay.map(kbps);
                    let moved = model.update(&reports, delay, limited);
                    let after = model.estimate();
                    if let (Some(rate), Some(delay)) = (after.rate, delay) {
                        prop_assert!(rate <= delay.max(kbps(30)));
                    }
                    if !moved {
                        prop_assert_eq!(after.state, before.state);
                    }
                }
                Call::Acknowledged(rate) => model.set_acknowledged(kbps(rate)),
                Call::Rate(rate) => model.set_rate(kbps(rate)),
            }
            if let Some(rate) = model.estimate().rate {
                prop_assert!((kbps(30)..=kbps(5000)).contains(&rate), "{rate}");
            }
            prop_assert!((0.0..=1.0).contains(&model.average_loss()), "{}", model.average_loss());
            prop_assert!((0.0..=1.0).contains(&model.path.inherent_loss), "{}", model.path.inherent_loss);
        }
    }
}
