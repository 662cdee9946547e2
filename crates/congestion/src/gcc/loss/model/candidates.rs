//! The candidate bandwidths.

use alloc::vec::Vec;

use giusto_units::{DataRate, TimeDelta};

use super::LossModel;
use crate::gcc::arithmetic::{scaled, sum};

impl LossModel {
    /// Writes the candidate bandwidths to `found`: multiples of the current bandwidth, the acknowledged rate,
    /// and the delay-based rate. None exceeds the limit to which the current bandwidth may grow.
    pub(super) fn candidates(&self, application_limited: bool, found: &mut Vec<DataRate>) {
        let (config, present) = (&self.config, self.path.bandwidth);
        found.clear();
        found.extend(config.candidate_factors.iter().map(|&factor| scaled(present, factor)));
        let tries_acknowledged = config.try_acknowledged
            && (!(config.ignore_acknowledged_when_limited && application_limited)
                || self.progress.pads(config, self.end()));
        if let Some(acknowledged) = self.acknowledged.filter(|_| tries_acknowledged) {
            found.push(scaled(acknowledged, config.backoff_factor));
        }
        found.extend(self.delay_based.filter(|&rate| config.try_delay_based && rate > present));
        let upper = self.upper_bound();
        if application_limited && config.try_upper_bound_when_limited && present > upper {
            found.push(upper);
        }
        let max = present.max(self.candidate_limit());
        for bandwidth in found {
            *bandwidth = max.min(*bandwidth);
        }
    }

    /// Upper limit of a candidate, unless the current bandwidth already exceeds it.
    fn candidate_limit(&self) -> DataRate {
        let config = &self.config;
        let limit = self.progress.window_limit().unwrap_or(config.max);
        let Some(acknowledged) = self.acknowledged.filter(|_| config.acceleration_factor > 0.0) else {
            return limit;
        };
        let longest = config.acceleration_time;
        let since = self.reduced.map_or(longest, |reduced| self.end().saturating_since(reduced).min(longest));
        let share = if longest > TimeDelta::ZERO { since.as_seconds() / longest.as_seconds() } else { 1.0 };
        sum(limit, scaled(acknowledged, config.acceleration_factor * share))
    }
}
