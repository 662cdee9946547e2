//! The trend against a threshold that follows it.
//!
//! Over-use is a trend above the threshold for some time that does not fall; under-use is one below minus the threshold. A
//! trend above the threshold that does not satisfy the rest leaves the signal as it was: it does not make it normal.
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
//! In the draft the threshold rises 55 times faster than it falls, so as not to be starved by TCP. In libwebrtc it falls 4.5
//! times faster than it rises, and with groups more than 1 / 0.039 = 26 ms apart a step downwards *oversteps* the trend that
//! it falls towards. That is kept as it is.
//!
//! Time is the far end's, of arrivals: the groups of one feedback message come at one moment of ours.

use giusto_units::{PeerTimestamp, TimeDelta};

use super::filter::FilterOutput;
use crate::target::{Cause, Signal};

/// When a trend is over-use, and how the threshold follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectorConfig {
    /// The first threshold, in milliseconds. Default 12.5 (draft-ietf-rmcat-gcc-02 §5.4; libwebrtc,
    /// `trendline_estimator.cc`).
    pub initial_threshold_ms: f64,
    /// The least threshold, in milliseconds, above 0. Default 6 (as before).
    pub least_threshold_ms: f64,
    /// The greatest threshold, in milliseconds. Default 600 (as before).
    pub greatest_threshold_ms: f64,
    /// How much of the distance to a trend beyond it the threshold makes up, per millisecond; at least 0. Default 0.0087
    /// (libwebrtc, `trendline_estimator.cc`); draft-ietf-rmcat-gcc-02 §5.4: 0.01.
    pub rise: f64,
    /// The same for a trend within it. Default 0.039 (libwebrtc, `trendline_estimator.cc`); draft-ietf-rmcat-gcc-02 §5.4:
    /// 0.00018.
    pub fall: f64,
    /// A trend that exceeds the threshold by more than this is a spike, and leaves it alone, in milliseconds; at least 0.
    /// Default 15 (draft-ietf-rmcat-gcc-02 §5.4; libwebrtc, `trendline_estimator.cc`).
    pub spike_ms: f64,
    /// At most so much time of arrivals counts for one step of the threshold. Default 100 ms (libwebrtc,
    /// `trendline_estimator.cc`). The draft knows no cap; this one keeps its `K_u · Δt` at 1 or below.
    pub longest_step: TimeDelta,
    /// The trend has to be above the threshold for longer than this, by the time of departures. The first group counts
    /// half. Default 10 ms (libwebrtc, `trendline_estimator.cc`); draft-ietf-rmcat-gcc-02 §5.4 says "at least", and not how
    /// the first group counts.
    pub over_use_time: TimeDelta,
    /// And for so many groups. Default 2 (libwebrtc, `trendline_estimator.cc`); the draft asks for none.
    pub over_use_groups: u32,
    /// Nothing is said before the filter has seen so many groups. Default 2 (libwebrtc, `trendline_estimator.cc`).
    pub least_samples: u32,
}

impl DetectorConfig {
    /// What libwebrtc does.
    pub const fn libwebrtc() -> Self {
        Self {
            initial_threshold_ms: 12.5,
            least_threshold_ms: 6.0,
            greatest_threshold_ms: 600.0,
            rise: 0.0087,
            fall: 0.039,
            spike_ms: 15.0,
            longest_step: TimeDelta::from_millis(100),
            over_use_time: TimeDelta::from_millis(10),
            over_use_groups: 2,
            least_samples: 2,
        }
    }

    /// The gains of draft-ietf-rmcat-gcc-02 §5.4.
    pub const fn draft_02() -> Self {
        Self { rise: 0.01, fall: 0.000_18, ..Self::libwebrtc() }
    }
}

impl Default for DetectorConfig {
    fn default() -> Self {
        Self::libwebrtc()
    }
}

/// What the detector found, and from what.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Detection {
    /// What it says.
    pub signal: Signal,
    /// The trend, in milliseconds.
    pub trend_ms: f64,
    /// The threshold that it was compared with, in milliseconds.
    pub threshold_ms: f64,
}

impl Detection {
    /// The same as the cause of a decision.
    pub fn cause(&self) -> Cause {
        Cause::Delay { signal: self.signal, trend_ms: self.trend_ms, threshold_ms: self.threshold_ms }
    }
}

/// Compares trends with a threshold.
#[derive(Debug, Clone)]
pub struct Detector {
    config: DetectorConfig,
    threshold_ms: f64,
    adapted_at: Option<PeerTimestamp>,
    previous_raw: f64,
    /// How long and for how many groups the trend is above the threshold.
    above: Option<(TimeDelta, u32)>,
    detection: Detection,
}

impl Detector {
    /// Nothing is signalled.
    pub fn new(config: DetectorConfig) -> Self {
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

    /// What was found last.
    pub fn detection(&self) -> Detection {
        self.detection
    }

    /// The threshold that the next trend is compared with, in milliseconds.
    pub fn threshold_ms(&self) -> f64 {
        self.threshold_ms
    }

    /// Takes what the filter says of a group that left `departure` after the one before and arrived `at`.
    pub fn on_output(&mut self, output: FilterOutput, departure: TimeDelta, at: PeerTimestamp) -> Signal {
        let trend_ms = output.trend_ms;
        self.detection = Detection { threshold_ms: self.threshold_ms, trend_ms, ..self.detection };
        if output.samples < self.config.least_samples {
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

    /// Whether a trend above the threshold is over-use. If it is, the counting begins anew.
    fn is_over_use(&mut self, raw: f64, departure: TimeDelta) -> bool {
        let departure = departure.max(TimeDelta::ZERO);
        // When it rose above the threshold within the first interval is not known: half of it is a guess (libwebrtc).
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
            .min(self.config.greatest_threshold_ms)
            .max(self.config.least_threshold_ms);
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests;
