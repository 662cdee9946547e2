//! Compares the delay trend with an adaptive threshold.
//!
//! Over-use is signalled if the trend has been above the threshold for some time and does not fall. Under-use
//! is signalled if the trend is below minus the threshold. If the trend is above the threshold but the other
//! conditions do not hold, the signal stays as it was; it does not become normal.
//!
//! | here | draft-ietf-rmcat-gcc-02 §5.4 |
//! |---|---|
//! | trend | `m(i)` |
//! | threshold | `del_var_th(i)` |
//! | [`over_use_time`](DetectorConfig::over_use_time) | `overuse_time_th` |
//! | [`rise`](DetectorConfig::rise), [`fall`](DetectorConfig::fall) | `K_u`, `K_d` |
//!
//! # Two opposite presets
//!
//! In the draft the threshold rises 55 times faster than it falls, so that the flow is not starved by TCP. In
//! libwebrtc it falls 4.5 times faster than it rises. If the groups are more than 1 / 0.039 = 26 ms apart, a
//! downward step of the threshold overshoots the trend. We keep that behaviour.
//!
//! Times are arrival times on the receiver's clock: all groups of one feedback message reach the sender at
//! the same time.

use giusto_units::{PeerTimestamp, TimeDelta};

use super::filter::FilterOutput;
use crate::target::{Cause, Signal};

giusto_units::defaults! {
    /// Condition for over-use and adaptation of the threshold.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct DetectorConfig {
        /// Initial threshold, in milliseconds. Default 12.5 (draft-ietf-rmcat-gcc-02 §5.4; libwebrtc,
        /// `trendline_estimator.cc`).
        pub initial_threshold_ms: f64 = 12.5,
        /// Minimum threshold, in milliseconds, above 0. Default 6 (same sources).
        pub min_threshold_ms: f64 = 6.0,
        /// Maximum threshold, in milliseconds. Default 600 (same sources).
        pub max_threshold_ms: f64 = 600.0,
        /// Gain of the threshold per millisecond while the trend is outside the threshold; at least 0. Default
        /// 0.0087 (libwebrtc, `trendline_estimator.cc`); draft-ietf-rmcat-gcc-02 §5.4: 0.01.
        pub rise: f64 = 0.0087,
        /// Gain of the threshold per millisecond while the trend is within the threshold; at least 0. Default
        /// 0.039 (libwebrtc, `trendline_estimator.cc`); draft-ietf-rmcat-gcc-02 §5.4: 0.00018.
        pub fall: f64 = 0.039,
        /// A trend that exceeds the threshold by more than this is a spike and does not change the threshold. In
        /// milliseconds, at least 0. Default 15 (draft-ietf-rmcat-gcc-02 §5.4; libwebrtc,
        /// `trendline_estimator.cc`).
        pub spike_ms: f64 = 15.0,
        /// Maximum time between arrivals that counts for one step of the threshold. Default 100 ms (libwebrtc,
        /// `trendline_estimator.cc`). The draft has no maximum; this one keeps its `K_u · Δt` at 1 or below.
        pub longest_step: TimeDelta = TimeDelta::from_millis(100),
        /// The trend must be above the threshold for longer than this, measured by departure times. The first
        /// group counts half. Default 10 ms (libwebrtc, `trendline_estimator.cc`). draft-ietf-rmcat-gcc-02 §5.4
        /// says "at least" and does not say how the first group counts.
        pub over_use_time: TimeDelta = TimeDelta::from_millis(10),
        /// Minimum number of groups above the threshold. Default 2 (libwebrtc, `trendline_estimator.cc`); the
        /// draft has no minimum.
        pub over_use_groups: u32 = 2,
        /// Minimum number of groups that the filter must have processed before a signal is given. Default 2
        /// (libwebrtc, `trendline_estimator.cc`).
        pub min_samples: u32 = 2,
    }
}

impl DetectorConfig {
    /// The constants of libwebrtc.
    pub fn libwebrtc() -> Self {
        Self::default()
    }

    /// The gains of draft-ietf-rmcat-gcc-02 §5.4.
    pub fn draft_02() -> Self {
        Self { rise: 0.01, fall: 0.000_18, ..Self::libwebrtc() }
    }
}

/// Result of the detector and the values that it is based on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Detection {
    /// The signal.
    pub(crate) signal: Signal,
    /// The trend, in milliseconds.
    pub(crate) trend_ms: f64,
    /// The threshold with which it was compared, in milliseconds.
    pub(crate) threshold_ms: f64,
}

impl Detection {
    /// It as the cause of a decision.
    pub(crate) fn cause(self) -> Cause {
        let Self { signal, trend_ms, threshold_ms } = self;
        Cause::Delay { signal, trend_ms, threshold_ms }
    }
}

/// Compares trends with a threshold.
#[derive(Debug, Clone)]
pub(crate) struct Detector {
    config: DetectorConfig,
    threshold_ms: f64,
    adapted_at: Option<PeerTimestamp>,
    previous_raw: f64,
    /// Time and number of groups for which the trend has been above the threshold.
    above: Option<(TimeDelta, u32)>,
    detection: Detection,
}

impl Detector {
    /// A detector in the normal state.
    pub(crate) fn new(config: DetectorConfig) -> Self {
        let threshold_ms = config.initial_threshold_ms;
        Self {
            config,
            threshold_ms,
            adapted_at: None,
            previous_raw: 0.0,
            above: None,
            detection: Detection { threshold_ms, ..Detection::default() },
        }
    }

    /// The latest detection.
    pub(crate) fn detection(&self) -> Detection {
        self.detection
    }

    /// The threshold for the next trend, in milliseconds.
    #[cfg(test)]
    pub(crate) fn threshold_ms(&self) -> f64 {
        self.threshold_ms
    }

    /// Processes the filter's output for a group that left `departure` after the previous one and arrived at
    /// `at`.
    pub(crate) fn on_output(
        &mut self,
        output: FilterOutput,
        departure: TimeDelta,
        at: PeerTimestamp,
    ) -> Signal {
        let trend_ms = output.trend_ms;
        self.detection = Detection { threshold_ms: self.threshold_ms, trend_ms, ..self.detection };
        if output.samples < self.config.min_samples {
            self.detection.signal = Signal::Normal;
            return Signal::Normal;
        }
        if trend_ms > self.threshold_ms {
            if self.is_over_use(output.raw, departure) {
                self.detection.signal = Signal::OverUse;
            }
        } else {
            self.above = None;
            self.detection.signal =
                if trend_ms < -self.threshold_ms { Signal::UnderUse } else { Signal::Normal };
        }
        self.previous_raw = output.raw;
        self.adapt(trend_ms.abs(), at);
        self.detection.signal
    }

    /// Whether a trend above the threshold is over-use. If so, the time and the group count restart.
    fn is_over_use(&mut self, raw: f64, departure: TimeDelta) -> bool {
        let departure = departure.max(TimeDelta::ZERO);
        // When the trend crossed the threshold within the first interval is unknown: libwebrtc assumes half
        // of it.
        let (time, groups) =
            self.above.map_or((departure / 2, 1), |(time, groups)| (time + departure, groups + 1));
        let found = time > self.config.over_use_time
            && groups >= self.config.over_use_groups
            && raw >= self.previous_raw;
        self.above = Some(if found { (TimeDelta::ZERO, 0) } else { (time, groups) });
        found
    }

    fn adapt(&mut self, magnitude_ms: f64, at: PeerTimestamp) {
        let elapsed = self.adapted_at.map_or(TimeDelta::ZERO, |before| at - before);
        self.adapted_at = Some(at);
        let distance_ms = magnitude_ms - self.threshold_ms;
        if distance_ms > self.config.spike_ms {
            return;
        }
        let per_ms = if distance_ms < 0.0 { self.config.fall } else { self.config.rise };
        let elapsed_ms = elapsed.min(self.config.longest_step).max(TimeDelta::ZERO).as_millis();
        self.threshold_ms = (self.threshold_ms + per_ms * distance_ms * elapsed_ms)
            .min(self.config.max_threshold_ms)
            .max(self.config.min_threshold_ms);
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests;
