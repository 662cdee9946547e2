//! The minimum RTT and when it must be probed for (draft §5.3.4.3, `UpdateMinRTT`).

use giusto_units::{TimeDelta, Timestamp};

use super::config::Config;

/// The minimum RTT of 10 s, and the minimum of 5 s that decides about `ProbeRTT`.
#[derive(Debug, Clone, Default)]
pub(super) struct MinRtt {
    min: Option<TimeDelta>,
    at: Timestamp,
    /// `probe_rtt_min_delay` and `probe_rtt_min_stamp`.
    probed: Option<TimeDelta>,
    probed_at: Timestamp,
    /// `probe_rtt_expired`.
    pub(super) is_expired: bool,
}

impl MinRtt {
    /// Begins a session at `now`.
    pub(super) fn new(now: Timestamp) -> Self {
        Self { at: now, probed_at: now, ..Self::default() }
    }

    /// `min_rtt`; `None` before the first sample.
    pub(super) fn get(&self) -> Option<TimeDelta> {
        self.min
    }

    pub(super) fn on_sample(&mut self, now: Timestamp, config: &Config, rtt: TimeDelta) {
        self.is_expired = now.saturating_since(self.probed_at) > config.probe_rtt_interval;
        if self.is_expired || self.probed.is_none_or(|probed| rtt < probed) {
            (self.probed, self.probed_at) = (Some(rtt), now);
        }
        let is_old = now.saturating_since(self.at) > config.min_rtt_window;
        if is_old || self.probed < self.min || self.min.is_none() {
            (self.min, self.at) = (self.probed, self.probed_at);
        }
    }

    /// A probe is over: the next is due after the interval.
    pub(super) fn on_probed(&mut self, now: Timestamp) {
        self.probed_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn a_probe_is_due_after_5_s_without_a_lower_rtt_and_the_minimum_lasts_10_s() {
        let (config, mut min) = (Config::default(), MinRtt::new(at(0)));
        assert_eq!(min.get(), None);
        let mut expired = Vec::new();
        for ms in (100..=12_000).step_by(100) {
            // 40 ms once at 2 s, otherwise 60 ms.
            min.on_sample(at(ms), &config, TimeDelta::from_millis(if ms == 2000 { 40 } else { 60 }));
            if min.is_expired {
                expired.push(ms);
                min.on_probed(at(ms));
            }
            let expected = if (2000..=12_000).contains(&ms) { 40 } else { 60 };
            assert_eq!(min.get(), Some(TimeDelta::from_millis(expected)), "{ms}");
        }
        // More than 5 s after the sample of 40 ms.
        assert_eq!(expired, [7100]);
        min.on_sample(at(12_100), &config, TimeDelta::from_millis(60));
        assert_eq!(min.get(), Some(TimeDelta::from_millis(60)));
    }
}
