//! The thesis's network: a state drawn every 2 s, random loss of each packet, and no queue (§3.4.2, Tables 7 to 9).

use giusto_sim::random::{self, Random};
use giusto_units::{DataRate, TimeDelta, Timestamp};
use rand::RngExt;
use statrs::distribution::{ContinuousCDF, Normal};

/// How often the state is drawn (Table 7).
pub(super) const UPDATE: TimeDelta = TimeDelta::from_seconds(2);

/// The mean of the delay (Table 7).
pub(super) const MEAN_DELAY: TimeDelta = TimeDelta::from_millis(10);

/// A state of the network: how much bandwidth the other traffic leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    CrossTraffic1,
    CrossTraffic2,
    Saturated,
}

impl State {
    pub(super) const ALL: [Self; 4] = [Self::Idle, Self::CrossTraffic1, Self::CrossTraffic2, Self::Saturated];

    /// Table 8 prints 25 % once for both states of cross-traffic: half of it each.
    pub(super) const fn probability(self) -> f64 {
        match self {
            Self::Idle => 0.70,
            Self::CrossTraffic1 | Self::CrossTraffic2 => 0.125,
            Self::Saturated => 0.05,
        }
    }
}

/// A line of Table 9: the bandwidth of each state, 0 when saturated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bandwidths {
    pub(super) number: u8,
    pub(super) idle: DataRate,
    pub(super) cross: [DataRate; 2],
}

impl Bandwidths {
    const fn new(number: u8, [idle, first, second]: [u64; 3]) -> Self {
        Self {
            number,
            idle: DataRate::from_bps(idle),
            cross: [DataRate::from_bps(first), DataRate::from_bps(second)],
        }
    }

    /// Table 9.
    pub(super) const TABLE_9: [Self; 4] = [
        Self::new(1, [4_320_000, 2_880_000, 1_440_000]),
        Self::new(2, [5_760_000, 4_320_000, 2_880_000]),
        Self::new(3, [7_200_000, 5_760_000, 4_320_000]),
        Self::new(4, [10_080_000, 7_200_000, 5_760_000]),
    ];

    /// Table 8, which is the second line of Table 9.
    pub(super) const TABLE_8: Self = Self::TABLE_9[1];

    pub(super) const fn of(&self, state: State) -> DataRate {
        match state {
            State::Idle => self.idle,
            State::CrossTraffic1 => self.cross[0],
            State::CrossTraffic2 => self.cross[1],
            State::Saturated => DataRate::ZERO,
        }
    }

    /// The mean bandwidth.
    pub(super) fn mean_bps(&self) -> f64 {
        State::ALL.iter().map(|state| state.probability() * self.of(*state).as_bps() as f64).sum()
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
            let state = drawn(self.random.random());
            self.states.push(state);
        }
        self.states.get(index).copied().unwrap_or(State::Idle)
    }

    /// When each state that covers the time until `end` begins.
    pub(super) fn until(&mut self, end: Timestamp) -> Vec<(Timestamp, State)> {
        let moments = (0..).map(|index| Timestamp::ZERO + UPDATE * index).take_while(|at| *at < end);
        moments.map(|at| (at, self.at(at))).collect()
    }
}

/// The state that corresponds to `chance`, 0 to 1.
fn drawn(chance: f64) -> State {
    let mut rest = chance;
    for state in State::ALL {
        rest -= state.probability();
        if rest < 0.0 {
            return state;
        }
    }
    State::Saturated
}

/// How "Variance of network delay 0.001, Second" (Table 7) is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    /// As its unit says, seconds: a standard deviation of 1 ms.
    Seconds,
    /// As its name says, s²: a standard deviation of 31.6 ms, three times the mean.
    SecondsSquared,
}

impl Spread {
    fn deviation_ns(self) -> f64 {
        match self {
            Self::Seconds => 0.001e9,
            Self::SecondsSquared => 0.001_f64.sqrt() * 1e9,
        }
    }
}

/// The network between sender and receiver: random loss, and a delay independent of load.
#[derive(Debug, Clone)]
pub(super) struct Path {
    bandwidths: Bandwidths,
    spread: Spread,
    coins: Random,
    delays: Random,
}

impl Path {
    /// Of the run called `name`.
    pub(super) fn new(bandwidths: Bandwidths, spread: Spread, seed: u64, name: &str) -> Self {
        Self {
            bandwidths,
            spread,
            coins: random::stream(seed, &format!("rrtcc: losses of {name}")),
            delays: random::stream(seed, &format!("rrtcc: delays of {name}")),
        }
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
        let drawn =
            Normal::new(mean, self.spread.deviation_ns()).map_or(mean, |normal| normal.inverse_cdf(chance));
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
        let all: Vec<State> = recorded
            .until(Timestamp::ZERO + UPDATE * i64::from(count))
            .into_iter()
            .map(|(_, state)| state)
            .collect();
        assert_eq!(all.len(), count as usize);
        for state in State::ALL {
            let p = state.probability();
            let share = all.iter().filter(|drawn| **drawn == state).count() as f64 / f64::from(count);
            // Four standard deviations of a binomial share, to both sides.
            let bound = 4.0 * (p * (1.0 - p) / f64::from(count)).sqrt();
            assert!((share - p).abs() < bound, "{state:?}: {share}, expected {p}");
        }
        assert!((State::ALL.iter().map(|state| state.probability()).sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn recorded_states_are_replayed_in_any_order() {
        let mut recorded = Recorded::new(3);
        let later = recorded.at(Timestamp::ZERO + UPDATE * 50);
        let again = Recorded::new(3).until(Timestamp::ZERO + UPDATE * 51);
        assert_eq!(again.last().map(|(_, state)| *state), Some(later));
        assert_eq!(recorded.until(Timestamp::ZERO + UPDATE * 51), again);
        assert_ne!(Recorded::new(4).until(Timestamp::ZERO + UPDATE * 51), again);
    }

    #[test]
    fn means_match_manual_calculation() {
        let means = Bandwidths::TABLE_9.map(|bandwidths| bandwidths.mean_bps().round());
        let published = [3_564_000.0, 4_932_000.0, 6_300_000.0, 8_676_000.0];
        assert!(
            means.iter().zip(published).all(|(mean, wanted): (&f64, f64)| (mean - wanted).abs() < 1e-3),
            "{means:?}"
        );
        // Of 7.2 Mbit/s: 0.7·0.2 + 0.125·0.4 + 0.125·0.6 + 0.05.
        let udp = DataRate::from_bps(7_200_000);
        let loss =
            State::ALL.map(|state| state.probability() * loss_threshold(udp, Bandwidths::TABLE_8.of(state)));
        assert!((loss.iter().sum::<f64>() - 0.315).abs() < 1e-12, "{loss:?}");
    }

    #[test]
    fn loss_is_the_excess_over_the_bandwidth() {
        let incoming = DataRate::from_bps(7_200_000);
        for (state, expected) in State::ALL.into_iter().zip([0.2, 0.4, 0.6, 1.0]) {
            let mut path = Path::new(Bandwidths::TABLE_8, Spread::Seconds, 1, "test");
            let count = 20_000;
            let lost = (0..count).filter(|_| path.carry(incoming, state).is_none()).count() as f64
                / f64::from(count);
            let bound = 4.0 * (expected * (1.0 - expected) / f64::from(count)).sqrt() + 1e-12;
            assert!((lost - expected).abs() <= bound, "{state:?}: {lost}, expected {expected}");
        }
        // Below the bandwidth nothing is lost.
        assert!(loss_threshold(DataRate::from_bps(5_760_000), DataRate::from_bps(5_760_000)).abs() < 1e-12);
        assert!(loss_threshold(DataRate::ZERO, DataRate::ZERO).abs() < 1e-12);
    }

    #[test]
    fn delays_have_mean_and_deviation_of_table_7() {
        let of = |spread| {
            let mut path = Path::new(Bandwidths::TABLE_8, spread, 1, "test");
            let all: Vec<f64> = (0..20_000).map(|_| path.delay().as_millis()).collect();
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let variance = all.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / all.len() as f64;
            (mean, variance.sqrt())
        };
        let (mean, deviation) = of(Spread::Seconds);
        assert!((mean - 10.0).abs() < 0.03 && (deviation - 1.0).abs() < 0.03, "{mean}, {deviation}");
        // E max(0, N(μ, σ²)) = μ·Φ(μ/σ) + σ·φ(μ/σ): 10 · 0.6241 + 31.62 · 0.3795 = 18.2 ms.
        let (mean, deviation) = of(Spread::SecondsSquared);
        assert!((mean - 18.24).abs() < 0.7 && (18.0..31.0).contains(&deviation), "{mean}, {deviation}");
    }
}
