//! A model of the path, fitted to the fate of each packet.
//!
//! Each 250 ms of send time give one observation: the send rate and the loss. The model assumes that the path
//! loses a constant share of all packets (the inherent loss) and everything that exceeds its bandwidth. It
//! compares a few candidate bandwidths around the current one, fits the inherent loss of each, and selects
//! the candidate that explains the observations best. Losses that do not depend on the send rate therefore
//! reduce it little, and losses that grow with the send rate reduce it much.
//!
//! Instant bounds then apply independently of the fit: an upper bound if loss is high, and a lower bound at
//! the acknowledged rate. While the rate is limited by loss, it rises slowly.
//!
//! | part | file |
//! |---|---|
//! | observations and their average loss | `observations` |
//! | the likelihood and its Newton step | `objective` |
//! | the candidate bandwidths | `candidates` |
//! | the limiting factor, holds and ramps | `state` |
//! | the constants | `config` |
//!
//! The source is libwebrtc's `loss_based_bwe_v2.cc`, which is enabled by default there and not documented
//! elsewhere. Rates are rounded to the nearest bit per second; libwebrtc truncates some of them.

mod candidates;
mod config;
mod objective;
mod observations;
mod state;
#[cfg(test)]
pub(super) mod tests;
#[cfg(test)]
#[path = "../../../../tests/vectors/loss_model.rs"]
mod vectors;

use alloc::vec::Vec;

pub use config::{InvalidConfig, Measure, ModelConfig};
pub(crate) use state::LossState;

use giusto_units::{DataRate, Timestamp};
use objective::{Objective, Path};
use observations::Observations;
use state::{Bounds, Progress};

use crate::gcc::arithmetic::{UNLIMITED, scaled};
use crate::{feedback::PacketReport, target::Cause};

/// The loss-based estimate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LossEstimate {
    /// The rate: within the configured limits and never above the delay-based rate. `None` if neither is
    /// known yet.
    pub(crate) rate: Option<DataRate>,
    /// What limits the rate.
    pub(crate) state: LossState,
}

/// The loss model.
///
/// Its clock is the send time of the packets that are reported, so no call takes `now`. Calls in any order are safe; packets
/// may be reported in any order. The work of an update is bounded by the packets that it is given and the observations kept.
#[derive(Debug, Clone)]
pub(crate) struct LossModel {
    config: ModelConfig,
    observations: Observations,
    /// The current path estimate. Its bandwidth is valid only once `begun`.
    path: Path,
    begun: bool,
    progress: Progress,
    acknowledged: Option<DataRate>,
    delay_based: Option<DataRate>,
    /// Time of the last decrease of the bandwidth.
    reduced: Option<Timestamp>,
    scratch: Vec<DataRate>,
}

impl LossModel {
    /// A model without observations.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`] names a constant that is out of range.
    pub(crate) fn new(config: ModelConfig) -> Result<Self, InvalidConfig> {
        config.validate()?;
        Ok(Self {
            observations: Observations::new(&config),
            path: Path { inherent_loss: config.initial_inherent_loss, bandwidth: DataRate::ZERO },
            begun: false,
            progress: Progress::new(&config),
            acknowledged: None,
            delay_based: None,
            reduced: None,
            scratch: Vec::with_capacity(config.candidate_factors.len() + 3),
            config,
        })
    }

    /// Limits the rate to `min` to `max`. A `max` below `min` counts as `min`.
    pub(crate) fn set_limits(&mut self, min: DataRate, max: DataRate) {
        self.config.min = min;
        self.config.max = max.max(min);
    }

    /// Sets the acknowledged rate.
    pub(crate) fn set_acknowledged(&mut self, rate: DataRate) {
        self.acknowledged = Some(rate);
    }

    /// Restarts at `rate`, as if the delay-based controller had set it. The observations and the estimate of
    /// the inherent loss are kept.
    pub(crate) fn set_rate(&mut self, rate: DataRate) {
        self.path.bandwidth = rate;
        self.begun = true;
        self.progress.begin(rate);
    }

    /// Processes the fate of `packets`, with the delay-based rate, if known, and whether the sender is
    /// application-limited. Returns whether an observation was completed. Only then does the estimate change.
    ///
    /// Packets that were reported as lost and arrived later should be reported again.
    pub(crate) fn update(
        &mut self,
        packets: &[PacketReport],
        delay_based: Option<DataRate>,
        application_limited: bool,
    ) -> bool {
        self.delay_based = delay_based;
        if !self.observations.take(&self.config, packets) {
            return false;
        }
        if !self.begun {
            let Some(rate) = delay_based else { return true };
            self.set_rate(rate);
        }
        let present = self.path.bandwidth;
        let mut best = self.best(application_limited);
        if best.bandwidth < present {
            self.reduced = Some(self.end());
        }
        best.bandwidth = self.restrained(best);

        let bounds = Bounds {
            estimate: best
                .bandwidth
                .min(self.upper_bound())
                .min(delay_based.unwrap_or(UNLIMITED))
                .max(self.lower_bound()),
            lower: self.lower_bound(),
            delay_based: delay_based.unwrap_or(UNLIMITED),
        };
        self.path = if self.config.bound_memory && bounds.estimate < best.bandwidth {
            Path { inherent_loss: 0.0, bandwidth: bounds.estimate }
        } else if self.config.lower_bound_factor > 0.0 {
            Path { bandwidth: best.bandwidth.max(bounds.lower), ..best }
        } else {
            best
        };
        let now = self.end();
        self.progress.settle(&self.config, now, bounds, self.path.bandwidth);
        true
    }

    /// The loss-based rate. Before [`is_ready`](Self::is_ready), the delay-based rate.
    pub(crate) fn estimate(&self) -> LossEstimate {
        let delay_based = self.delay_based.unwrap_or(UNLIMITED);
        let within = |rate: DataRate| rate.min(delay_based).min(self.config.max).max(self.config.min);
        if self.is_ready() {
            LossEstimate { rate: Some(within(self.progress.rate)), state: self.progress.state }
        } else {
            LossEstimate { rate: self.delay_based.map(within), state: LossState::DelayBased }
        }
    }

    /// Whether there are enough observations for an estimate.
    pub(crate) fn is_ready(&self) -> bool {
        self.begun && self.observations.made() >= self.config.observations_needed
    }

    /// The cause of the rate: the average loss, while the rate is limited by loss.
    pub(crate) fn cause(&self) -> Option<Cause> {
        let limited = self.estimate().state != LossState::DelayBased;
        limited.then(|| Cause::Loss { ratio: self.average_loss() })
    }

    /// The average loss over the observations, with higher weight on newer ones and without the extremes: 0
    /// to 1.
    pub(crate) fn average_loss(&self) -> f64 {
        self.observations.average_loss()
    }

    /// The model's clock: the end of the latest observation in send time.
    fn end(&self) -> Timestamp {
        self.observations.end().unwrap_or(Timestamp::ZERO)
    }

    /// The candidate that explains the observations best; of equal ones, the one with the higher bandwidth.
    fn best(&mut self, application_limited: bool) -> Path {
        let mut candidates = core::mem::take(&mut self.scratch);
        self.candidates(application_limited, &mut candidates);
        let objective = Objective { config: &self.config, observations: &self.observations };
        let mut best = (f64::MIN, self.path);
        for &bandwidth in &candidates {
            let path = objective.refined(objective.feasible(Path { bandwidth, ..self.path }));
            let value = objective.value(path);
            if value > best.0 || (value >= best.0 && path.bandwidth > best.1.bandwidth) {
                best = (value, path);
            }
        }
        self.scratch = candidates;
        best.1
    }

    /// The bandwidth of `best`, limited to the growth that is permitted at once.
    fn restrained(&self, best: Path) -> DataRate {
        let (config, present) = (&self.config, self.path.bandwidth);
        let mut bandwidth = best.bandwidth;
        if config.no_increase_above_inherent_loss && self.average_loss() > best.inherent_loss {
            bandwidth = bandwidth.min(present);
        }
        bandwidth = self.progress.slowed(config, self.end(), bandwidth);
        self.progress.ramped(config, self.acknowledged, present, bandwidth)
    }

    /// Upper bound at high loss, independent of the fit.
    fn upper_bound(&self) -> DataRate {
        let beyond = self.average_loss() - self.config.upper_bound_offset;
        if self.observations.made() > 0 && beyond > 0.0 {
            scaled(self.config.upper_bound_balance, 1.0 / beyond)
        } else {
            self.config.max
        }
    }

    /// Lower bound: the acknowledged rate.
    fn lower_bound(&self) -> DataRate {
        let acknowledged =
            self.acknowledged.map_or(DataRate::ZERO, |rate| scaled(rate, self.config.lower_bound_factor));
        acknowledged.max(self.config.min)
    }
}
