//! Constants of the model, and their validation.

use alloc::{string::String, string::ToString, vec::Vec};

use giusto_units::{DataRate, TimeDelta};

/// Unit in which loss is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Measure {
    /// Thousands of bytes. The average leaves out the best and the worst observation.
    #[default]
    Bytes,
    /// Packets. The average is over all observations.
    Packets,
}

giusto_units::defaults! {
    /// Configuration of the loss model.
    ///
    /// The defaults are libwebrtc's (`loss_based_bwe_v2.cc`, `CreateConfig`). The name of the field trial parameter that sets the
    /// same constant there stands in brackets.
    #[derive(Debug, Clone, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct ModelConfig {
        /// Minimum send time that an observation spans; above zero. 250 ms \[`ObservationDurationLowerBound`\].
        pub observation_duration: TimeDelta = TimeDelta::from_millis(250),
        /// Number of observations kept, at least 2. 15 \[`ObservationWindowSize`\].
        pub observations_kept: usize = 15,
        /// Number of observations needed before the model gives an estimate, at least 1. 3
        /// \[`MinNumObservations`\].
        pub observations_needed: u64 = 3,
        /// Unit in which loss is counted. Bytes \[`UseByteLossRate`\].
        pub measure: Measure = Measure::Bytes,
        /// Smoothing of the send rate: weight of the previous observation's send rate, 0 to below 1. 0
        /// \[`SendingRateSmoothingFactor`\].
        pub send_rate_smoothing: f64 = 0.0,
        /// Weight of an observation in the likelihood, relative to the next newer one: above 0, up to 1. 0.9
        /// \[`TemporalWeightFactor`\].
        pub temporal_weight: f64 = 0.9,
        /// The same in the average loss. 0.9 \[`InstantUpperBoundTemporalWeightFactor`\].
        pub average_weight: f64 = 0.9,
        /// The average leaves out the extremes only if the send rate of the observation with the highest loss is
        /// below this multiple of the median rate. Otherwise the loss was caused by our own send rate. 2
        /// \[`MedianSendingRateFactor`\].
        pub median_send_rate_factor: f64 = 2.0,
        /// The average leaves out the extremes only if there are more observations than this. 3 (not configurable
        /// there).
        pub extremes_kept_up_to: u64 = 3,
        /// Factors on the current bandwidth that give candidates, each above 0. 1.02, 1.0, 0.95
        /// \[`CandidateFactors`\].
        pub candidate_factors: Vec<f64> = vec![1.02, 1.0, 0.95],
        /// Whether the acknowledged rate is a candidate. Yes \[`AckedRateCandidate`\].
        pub try_acknowledged: bool = true,
        /// Factor on the acknowledged rate as a candidate, up to 1. 1 \[`BwBackoffLowerBoundFactor`\].
        pub backoff_factor: f64 = 1.0,
        /// Whether the acknowledged rate is *not* a candidate while the sender is application-limited and sends
        /// no padding. Yes \[`NotUseAckedRateInAlr`\].
        pub ignore_acknowledged_when_limited: bool = true,
        /// Whether the delay-based rate is a candidate if it is above the current bandwidth. Yes
        /// \[`DelayBasedCandidate`\].
        pub try_delay_based: bool = true,
        /// Whether the instant upper bound is a candidate while the sender is application-limited. No
        /// \[`UpperBoundCandidateInAlr`\].
        pub try_upper_bound_when_limited: bool = false,
        /// Time after the last decrease in which the permitted growth of candidates rises from zero to
        /// `acceleration_factor` times the acknowledged rate; above zero. 60 s \[`BwRampupAccelMaxoutTime`\].
        pub acceleration_time: TimeDelta = TimeDelta::from_seconds(60),
        /// See `acceleration_time`; at least 0. 0: off \[`BwRampupAccelMaxFactor`\].
        pub acceleration_factor: f64 = 0.0,
        /// Initial inherent loss, 0 to below 1. 0.01 \[`InitialInherentLossEstimate`\].
        pub initial_inherent_loss: f64 = 0.01,
        /// Minimum inherent loss, 0 to below 1. 0.001 \[`InherentLossLowerBound`\].
        pub inherent_loss_min: f64 = 0.001,
        /// Maximum inherent loss at a very high bandwidth, from the minimum to below 1. 0.05
        /// \[`InherentLossUpperBoundOffset`\].
        pub inherent_loss_offset: f64 = 0.05,
        /// The maximum inherent loss is increased by this over the bandwidth; above 0. 100 kbit/s
        /// \[`InherentLossUpperBoundBwBalance`\].
        pub inherent_loss_balance: DataRate = DataRate::from_bps(100_000),
        /// Number of Newton steps, at least 1. 1 \[`NewtonIterations`\].
        pub newton_steps: u32 = 1,
        /// Share of a Newton step that is applied; above 0. 0.75 \[`NewtonStepSize`\].
        pub newton_step_size: f64 = 0.75,
        /// Bias of the objective per kbit/s of bandwidth and unit of data, when the average loss is far below
        /// `preference_threshold`; at least 0. 0.0002 \[`HigherBwBiasFactor`\].
        pub bias: f64 = 0.0002,
        /// The same per natural logarithm of the bandwidth in kbit/s. 0.02 \[`HigherLogBwBiasFactor`\].
        pub log_bias: f64 = 0.02,
        /// Average loss above which lower bandwidths are preferred: 0 to below 1. 0.2
        /// \[`LossThresholdOfHighBandwidthPreference`\].
        pub preference_threshold: f64 = 0.2,
        /// Width of the transition of the preference: above 0, up to 1. 0.002
        /// \[`BandwidthPreferenceSmoothingFactor`\].
        pub preference_smoothing: f64 = 0.002,
        /// The average loss above which the instant upper bound applies, 0 to below 1. 0.05
        /// \[`InstantUpperBoundLossOffset`\].
        pub upper_bound_offset: f64 = 0.05,
        /// The instant upper bound is this divided by the average loss beyond the offset; above 0. 100 kbit/s
        /// \[`InstantUpperBoundBwBalance`\].
        pub upper_bound_balance: DataRate = DataRate::from_bps(100_000),
        /// The estimate is at least this multiple of the acknowledged rate; at least 0, where 0 is off. 1
        /// \[`LowerBoundByAckedRateFactor`\].
        pub lower_bound_factor: f64 = 1.0,
        /// Whether the bounds also apply to the stored bandwidth. Yes \[`BoundBestCandidate`\].
        pub bound_memory: bool = true,
        /// Whether the bandwidth may not grow while the average loss is above the inherent loss. Yes
        /// \[`NotIncreaseIfInherentLossLessThanAverageLoss`\].
        pub no_increase_above_inherent_loss: bool = true,
        /// Maximum growth factor within `increase_window` while limited by loss; above 0. 1.3
        /// \[`MaxIncreaseFactor`\].
        pub max_increase: f64 = 1.3,
        /// See `max_increase`; above zero. 300 ms \[`DelayedIncreaseWindow`\].
        pub increase_window: TimeDelta = TimeDelta::from_millis(300),
        /// Maximum bandwidth while limited by loss, as a multiple of the acknowledged rate; above 1. 1.5
        /// \[`BwRampupUpperBoundFactor`\].
        pub ramp_up: f64 = 1.5,
        /// The same while the acknowledged rate is below `hold_threshold` times the held rate. 1.2
        /// \[`BwRampupUpperBoundInHoldFactor`\].
        pub ramp_up_in_hold: f64 = 1.2,
        /// See `ramp_up_in_hold`; at least 0. 1.3 \[`BwRampupUpperBoundHoldThreshold`\].
        pub hold_threshold: f64 = 1.3,
        /// Duration of the first hold after a decrease. 300 ms (`kInitHoldDuration`).
        pub hold: TimeDelta = TimeDelta::from_millis(300),
        /// Factor on the hold duration with each further decrease, until the delay limits the rate again; 0: no
        /// hold. 2 \[`HoldDurationFactor`\].
        pub hold_factor: f64 = 2.0,
        /// Maximum hold duration. 60 s (`kMaxHoldDuration`).
        pub hold_max: TimeDelta = TimeDelta::from_seconds(60),
        /// Time after the last increase during which padding is requested; zero: never. 2 s
        /// \[`PaddingDuration`\].
        pub padding_duration: TimeDelta = TimeDelta::from_seconds(2),
        /// Minimum rate. 5 kbit/s (`bwe_defines.h`, `kCongestionControllerMinBitrate`).
        pub min: DataRate = DataRate::from_bps(5_000),
        /// Maximum rate. 1 Gbit/s (`send_side_bandwidth_estimation.cc`, `kDefaultMaxBitrate`).
        pub max: DataRate = DataRate::from_bps(1_000_000_000),
        /// Minimum of the limit set by `max_increase`. 5 kbit/s (`kCongestionControllerMinBitrate`).
        pub increase_floor: DataRate = DataRate::from_bps(5_000),
    }
}

/// An invalid constant of the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("loss model: {field} must be {range}, found {found}")]
#[non_exhaustive]
pub struct InvalidConfig {
    /// The field.
    pub field: &'static str,
    /// Its valid range.
    pub range: &'static str,
    /// Its value.
    pub found: String,
}

impl ModelConfig {
    /// Checks that every constant is within its range. The ranges are libwebrtc's (`IsConfigValid`); NaN is
    /// in none.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`] names the first constant that is out of range.
    pub fn validate(&self) -> Result<(), InvalidConfig> {
        let below_one = |value: f64| (0.0..1.0).contains(&value);
        let share = |value: f64| value > 0.0 && value <= 1.0;
        let amount = |value: f64| value >= 0.0 && value.is_finite();
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let growth = |value: f64| value > 1.0 && value.is_finite();
        let factor = self.candidate_factors.iter().copied().find(|&factor| !positive(factor)).unwrap_or(1.0);
        let numbers = [
            (
                "send_rate_smoothing",
                self.send_rate_smoothing,
                below_one(self.send_rate_smoothing),
                "in [0, 1)",
            ),
            ("temporal_weight", self.temporal_weight, share(self.temporal_weight), "in (0, 1]"),
            ("average_weight", self.average_weight, share(self.average_weight), "in (0, 1]"),
            (
                "median_send_rate_factor",
                self.median_send_rate_factor,
                amount(self.median_send_rate_factor),
                AMOUNT,
            ),
            ("candidate_factors", factor, positive(factor), POSITIVE),
            ("backoff_factor", self.backoff_factor, (0.0..=1.0).contains(&self.backoff_factor), "in [0, 1]"),
            ("acceleration_factor", self.acceleration_factor, amount(self.acceleration_factor), AMOUNT),
            (
                "initial_inherent_loss",
                self.initial_inherent_loss,
                below_one(self.initial_inherent_loss),
                BELOW,
            ),
            ("inherent_loss_min", self.inherent_loss_min, below_one(self.inherent_loss_min), BELOW),
            (
                "inherent_loss_offset",
                self.inherent_loss_offset,
                (self.inherent_loss_min..1.0).contains(&self.inherent_loss_offset),
                "at least inherent_loss_min and below 1",
            ),
            ("newton_step_size", self.newton_step_size, positive(self.newton_step_size), POSITIVE),
            ("bias", self.bias, amount(self.bias), AMOUNT),
            ("log_bias", self.log_bias, amount(self.log_bias), AMOUNT),
            ("preference_threshold", self.preference_threshold, below_one(self.preference_threshold), BELOW),
            (
                "preference_smoothing",
                self.preference_smoothing,
                share(self.preference_smoothing),
                "in (0, 1]",
            ),
            ("upper_bound_offset", self.upper_bound_offset, below_one(self.upper_bound_offset), BELOW),
            ("lower_bound_factor", self.lower_bound_factor, amount(self.lower_bound_factor), AMOUNT),
            ("max_increase", self.max_increase, positive(self.max_increase), POSITIVE),
            ("ramp_up", self.ramp_up, growth(self.ramp_up), "above 1"),
            ("ramp_up_in_hold", self.ramp_up_in_hold, growth(self.ramp_up_in_hold), "above 1"),
            ("hold_threshold", self.hold_threshold, amount(self.hold_threshold), AMOUNT),
            ("hold_factor", self.hold_factor, amount(self.hold_factor), AMOUNT),
        ];
        for (field, value, valid, range) in numbers {
            require(valid, field, range, &value)?;
        }
        for (field, span) in [
            ("observation_duration", self.observation_duration),
            ("acceleration_time", self.acceleration_time),
            ("increase_window", self.increase_window),
        ] {
            require(span > TimeDelta::ZERO, field, "above 0 ms", &span)?;
        }
        for (field, rate) in [
            ("inherent_loss_balance", self.inherent_loss_balance),
            ("upper_bound_balance", self.upper_bound_balance),
        ] {
            require(rate > DataRate::ZERO, field, "above 0 bit/s", &rate)?;
        }
        require(self.observations_kept >= 2, "observations_kept", "at least 2", &self.observations_kept)?;
        require(
            self.observations_needed >= 1,
            "observations_needed",
            "at least 1",
            &self.observations_needed,
        )?;
        require(self.newton_steps >= 1, "newton_steps", "at least 1", &self.newton_steps)?;
        require(self.min <= self.max, "min", "at most max", &self.min)?;
        let moves = self.try_acknowledged
            || self.try_delay_based
            || self.candidate_factors.iter().any(|&factor| (factor - 1.0).abs() > 0.0);
        require(moves, "candidate_factors", "such that something but the present bandwidth is tried", &"none")
    }
}

const AMOUNT: &str = "at least 0";
const POSITIVE: &str = "above 0";
const BELOW: &str = "in [0, 1)";

fn require(
    valid: bool,
    field: &'static str,
    range: &'static str,
    found: &dyn core::fmt::Display,
) -> Result<(), InvalidConfig> {
    if valid { Ok(()) } else { Err(InvalidConfig { field, range, found: found.to_string() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of `loss_based_bwe_v2_test.cc` whose names begin with `Disabled`, and NaN.
    #[test]
    fn the_error_names_the_invalid_field() {
        let refused = |change: fn(&mut ModelConfig)| {
            let mut config = ModelConfig::default();
            change(&mut config);
            config.validate().unwrap_err().field
        };
        assert_eq!(ModelConfig::default().validate(), Ok(()));
        assert_eq!(refused(|c| c.ramp_up = 0.0), "ramp_up");
        assert_eq!(refused(|c| c.candidate_factors = vec![-1.3, 1.1]), "candidate_factors");
        assert_eq!(refused(|c| c.candidate_factors = vec![0.0, 1.1]), "candidate_factors");
        let nothing_to_try = |c: &mut ModelConfig| {
            c.candidate_factors = vec![1.0];
            c.try_acknowledged = false;
            c.try_delay_based = false;
        };
        assert_eq!(refused(nothing_to_try), "candidate_factors");
        assert_eq!(refused(|c| c.bias = f64::NAN), "bias");
        assert_eq!(refused(|c| c.observations_kept = 1), "observations_kept");
        let message =
            ModelConfig { ramp_up: 1.0, ..ModelConfig::default() }.validate().unwrap_err().to_string();
        assert_eq!(message, "loss model: ramp_up must be above 1, found 1");
    }
}
