//! What a sender knows.

use giusto_units::{DataRate, math};

/// The lowest and the highest rate of the scale of actions and observations: -1 and 1.
pub const RATES: (DataRate, DataRate) = (DataRate::from_bps(30_000), DataRate::from_bps(100_000_000));

/// Number of features of an observation.
pub const FEATURES: usize = 12;

/// What a sender knows at the end of a step: a number for each of [`Feature::ALL`].
pub type Observation = [f32; FEATURES];

/// A number of an observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// Its lowest value; lower ones are clamped to it.
    pub low: f32,
    /// Its highest value; higher ones are clamped to it.
    pub high: f32,
}

impl Feature {
    /// The features in the order of an observation. Those called `…_rate` are on the scale of the actions.
    pub const ALL: [Self; FEATURES] = [
        Self::rate("target_rate"),
        Self::rate("sent_rate"),
        Self::rate("received_rate"),
        Self::rate("maximum_rate"),
        Self::seconds("queue_delay_s"),
        Self::seconds("queue_delay_max_s"),
        Self { name: "queue_delay_change_s", low: -1.0, high: 1.0 },
        Self::seconds("round_trip_s"),
        Self::ratio("loss_ratio"),
        Self::ratio("mark_ratio"),
        Self::seconds("sender_queue_s"),
        Self::seconds("silence_s"),
    ];

    const fn rate(name: &'static str) -> Self {
        Self { name, low: -1.0, high: 1.0 }
    }

    const fn seconds(name: &'static str) -> Self {
        Self { name, low: 0.0, high: 2.0 }
    }

    const fn ratio(name: &'static str) -> Self {
        Self { name, low: 0.0, high: 1.0 }
    }

    fn clamp(self, value: f64) -> f32 {
        (value as f32).clamp(self.low, self.high)
    }
}

/// These values as an observation.
pub(super) fn observation(values: [f64; FEATURES]) -> Observation {
    let mut observation = [0.0; FEATURES];
    for ((feature, value), own) in Feature::ALL.into_iter().zip(values).zip(&mut observation) {
        *own = feature.clamp(value);
    }
    observation
}

/// The target rate of an action from -1 to 1: the logarithm of the rate is linear in the action, from 30 kbit/s to 100 Mbit/s.
pub fn rate_of_action(action: f32) -> DataRate {
    let share = f64::midpoint(f64::from(action.clamp(-1.0, 1.0)), 1.0);
    let (low, high) = (RATES.0.as_bps() as f64, RATES.1.as_bps() as f64);
    DataRate::from_bps((low * math::exp(share * math::ln(high / low))).round() as u64)
}

/// The action of a target rate.
pub fn action_of_rate(rate: DataRate) -> f32 {
    scale(rate.as_bps() as f64) as f32
}

/// A rate in bit/s on the scale of the actions.
pub(super) fn scale(bps: f64) -> f64 {
    let (low, high) = (RATES.0.as_bps() as f64, RATES.1.as_bps() as f64);
    2.0 * math::ln(bps.clamp(low, high) / low) / math::ln(high / low) - 1.0
}
