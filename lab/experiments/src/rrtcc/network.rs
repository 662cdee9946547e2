//! The thesis's network: a state drawn every 2 s, random loss of each packet, and no queue (§3.4.2, Tables 7 to 9).

use giusto_sim::random::{self, Random};
use giusto_units::{DataRate, TimeDelta, Timestamp};
use rand::RngExt;
use statrs::distribution::{ContinuousCDF, Normal};

/// How often the state is drawn (Table 7).
pub(super) const UPDATE: TimeDelta = TimeDelta::from_seconds(2);

/// The mean of the delay (Table 7).
pub(super) const MEAN_DELAY: TimeDelta = TimeDelta::from_millis(10);

/// The probabilities of the states Idle, Cross-traffic 1, Cross-traffic 2 and Saturated. Table 8 prints 25 % once for both states of
/// cross-traffic: half of it each.
pub(super) const PROBABILITIES: [f64; 4] = [0.70, 0.125, 0.125, 0.05];

/// The state with this place in [`PROBABILITIES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State(pub(super) usize);

/// The bandwidth of each state, in bit/s: a line of Table 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bandwidths(pub(super) [u64; 4]);

/// Table 9.
pub(super) const TABLE_9: [Bandwidths; 4] = [
    Bandwidths([4_320_000, 2_880_000, 1_440_000, 0]),
    TABLE_8,
    Bandwidths([7_200_000, 5_760_000, 4_320_000, 0]),
    Bandwidths([10_080_000, 7_200_000, 5_760_000, 0]),
];

/// Table 8, which is the second line of Table 9.
pub(super) const TABLE_8: Bandwidths = Bandwidths([5_760_000, 4_320_000, 2_880_000, 0]);

impl Bandwidths {
    pub(super) fn of(&self, State(place): State) -> DataRate {
        self.0.get(place).map_or(DataRate::ZERO, |bps| DataRate::from_bps(*bps))
    }

    /// The mean bandwidth.
    pub(super) fn mean_bps(&self) -> f64 {
        PROBABILITIES.iter().zip(self.0).map(|(probability, bps)| probability * bps as f64).sum()
    }
}

/// §3.4.2: "Combine with the incoming bitrate, network calculates loss threshold of a packet". The formula is not printed; we lose
/// what exceeds the bandwidth: `1 − λ_out / λ_in`.
pub(super) fn loss_threshold(incoming: DataRate, bandwidth: DataRate) -> f64 {
    if incoming == DataRate::ZERO {
        return 0.0;
    }
    (1.0 - bandwidth.as_bps() as f64 / incoming.as_bps() as f64).max(0.0)
}

/// The states in their order, drawn when needed and kept, so that the second run has those of the first (§4.2).
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    states: Vec<State>,
    random: Random,
}

impl Recorded {
    pub(super) fn new(seed: u64) -> Self {
        Self { states: Vec::new(), random: random::stream(seed, "rrtcc: states") }
    }

    /// The state that holds at `now`.
    pub(super) fn at(&mut self, now: Timestamp) -> State {
        let index = (now.as_nanos() / UPDATE.as_nanos().unsigned_abs()) as usize;
        while self.states.len() <= index {
            let mut rest: f64 = self.random.random();
            let is_reached = |probability: &f64| {
                rest -= probability;
                rest < 0.0
            };
            let saturated = PROBABILITIES.len() - 1;
            self.states.push(State(PROBABILITIES.iter().position(is_reached).unwrap_or(saturated)));
        }
        self.states.get(index).copied().unwrap_or(State(0))
    }

    /// The bandwidth from each moment on, until `end`.
    pub(super) fn until(&mut self, end: Timestamp, bandwidths: &Bandwidths) -> Vec<(Timestamp, DataRate)> {
        let moments = (0..).map(|index| Timestamp::ZERO + UPDATE * index).take_while(|at| *at < end);
        moments.map(|at| (at, bandwidths.of(self.at(at)))).collect()
    }
}

/// How "Variance of network delay 0.001, Second" (Table 7) is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variance {
    /// As its unit says, seconds: a standard deviation of 1 ms.
    Seconds,
    /// As its name says, s²: a standard deviation of 31.6 ms, three times the mean.
    SecondsSquared,
}

/// The network between sender and receiver: random loss, and a delay independent of load.
#[derive(Debug, Clone)]
pub(super) struct Path {
    bandwidths: Bandwidths,
    deviation_ns: f64,
    coins: Random,
    delays: Random,
}

impl Path {
    /// The path of the run called `name`.
    pub(super) fn new(bandwidths: Bandwidths, variance: Variance, seed: u64, name: &str) -> Self {
        let deviation_ns = match variance {
            Variance::Seconds => 0.001e9,
            Variance::SecondsSquared => 0.001_f64.sqrt() * 1e9,
        };
        let coins = random::stream(seed, &format!("rrtcc: losses of {name}"));
        let delays = random::stream(seed, &format!("rrtcc: delays of {name}"));
        Self { bandwidths, deviation_ns, coins, delays }
    }

    /// The delay of a packet that arrives at a rate of `incoming` in this state; `None` if it is lost.
    pub(super) fn carry(&mut self, incoming: DataRate, state: State) -> Option<TimeDelta> {
        let threshold = loss_threshold(incoming, self.bandwidths.of(state));
        let coin: f64 = self.coins.random();
        (coin >= threshold).then(|| self.delay())
    }

    /// The distribution is not named; we take a normal one, cut at zero.
    pub(super) fn delay(&mut self) -> TimeDelta {
        // Neither 0 nor 1, whose quantiles are infinite.
        let chance = self.delays.random::<f64>().clamp(1e-12, 1.0 - 1e-12);
        let mean = MEAN_DELAY.as_nanos() as f64;
        let drawn = Normal::new(mean, self.deviation_ns).map_or(mean, |normal| normal.inverse_cdf(chance));
        TimeDelta::from_nanos(drawn.max(0.0) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_probabilities_of_table_8() {
        let mut recorded = Recorded::new(7);
        let count = 40_000_u32;
        let moments = (0..count).map(|number| Timestamp::ZERO + UPDATE * i64::from(number));
        let all: Vec<State> = moments.map(|at| recorded.at(at)).collect();
        for (place, p) in PROBABILITIES.into_iter().enumerate() {
            let share = all.iter().filter(|drawn| **drawn == State(place)).count() as f64 / f64::from(count);
            // Four standard deviations of a binomial share, to both sides.
            let bound = 4.0 * (p * (1.0 - p) / f64::from(count)).sqrt();
            assert!((share - p).abs() < bound, "state {place}: {share}, expected {p}");
        }
        assert!((PROBABILITIES.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn recorded_states_are_replayed_in_any_order() {
        let end = Timestamp::ZERO + UPDATE * 51;
        let mut recorded = Recorded::new(3);
        let later = recorded.at(Timestamp::ZERO + UPDATE * 50);
        let again = Recorded::new(3).until(end, &TABLE_8);
        assert_eq!(again.len(), 51);
        assert_eq!(again.last().map(|(_, rate)| *rate), Some(TABLE_8.of(later)));
        assert_eq!(recorded.until(end, &TABLE_8), again);
        assert_ne!(Recorded::new(4).until(end, &TABLE_8), again);
    }

    #[test]
    fn means_match_manual_calculation() {
        let means = TABLE_9.map(|bandwidths| bandwidths.mean_bps().round() as u64);
        assert_eq!(means, [3_564_000, 4_932_000, 6_300_000, 8_676_000]);
        // Of 7.2 Mbit/s: 0.7·0.2 + 0.125·0.4 + 0.125·0.6 + 0.05.
        let udp = DataRate::from_bps(7_200_000);
        let of_state = |(place, p): (usize, f64)| p * loss_threshold(udp, TABLE_8.of(State(place)));
        let loss: f64 = PROBABILITIES.into_iter().enumerate().map(of_state).sum();
        assert!((loss - 0.315).abs() < 1e-12, "{loss}");
    }

    #[test]
    fn loss_is_the_excess_over_the_bandwidth() {
        let incoming = DataRate::from_bps(7_200_000);
        for (state, expected) in (0..).map(State).zip([0.2, 0.4, 0.6, 1.0]) {
            let mut path = Path::new(TABLE_8, Variance::Seconds, 1, "test");
            let count = 20_000;
            let lost = (0..count).filter(|_| path.carry(incoming, state).is_none()).count();
            let lost = lost as f64 / f64::from(count);
            let bound = 4.0 * (expected * (1.0 - expected) / f64::from(count)).sqrt() + 1e-12;
            assert!((lost - expected).abs() <= bound, "{state:?}: {lost}, expected {expected}");
        }
        // Below the bandwidth nothing is lost.
        assert!(loss_threshold(DataRate::from_bps(5_760_000), DataRate::from_bps(5_760_000)).abs() < 1e-12);
        assert!(loss_threshold(DataRate::ZERO, DataRate::ZERO).abs() < 1e-12);
    }

    #[test]
    fn delays_have_mean_and_deviation_of_table_7() {
        let of = |variance| {
            let mut path = Path::new(TABLE_8, variance, 1, "test");
            let all: Vec<f64> = (0..20_000).map(|_| path.delay().as_millis()).collect();
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let squares = all.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / all.len() as f64;
            (mean, squares.sqrt())
        };
        let (mean, deviation) = of(Variance::Seconds);
        assert!((mean - 10.0).abs() < 0.03 && (deviation - 1.0).abs() < 0.03, "{mean}, {deviation}");
        // E max(0, N(μ, σ²)) = μ·Φ(μ/σ) + σ·φ(μ/σ): 10 · 0.6241 + 31.62 · 0.3795 = 18.2 ms.
        let (mean, deviation) = of(Variance::SecondsSquared);
        assert!((mean - 18.24).abs() < 0.7 && (18.0..31.0).contains(&deviation), "{mean}, {deviation}");
    }
}
