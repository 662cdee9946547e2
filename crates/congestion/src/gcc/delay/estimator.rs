//! Delay estimator: converts packets to a signal by grouping, filter and detector.

use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

use super::{
    detector::{Detection, Detector, DetectorConfig},
    filter::FilterOutput,
    grouping::{GroupDelta, Grouped, Grouping, GroupingConfig, ReceivedPacket, Reset},
    kalman::{Kalman, KalmanConfig},
    kalman_two_state::{KalmanTwoState, KalmanTwoStateConfig},
    trend_line::{TrendLine, TrendLineConfig},
};
use crate::{
    feedback::PacketReport,
    gcc::by_arrival::{Arrived, ByArrival},
    target::Signal,
};

/// The filter and its constants.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum FilterConfig {
    /// Least squares (libwebrtc, sender).
    TrendLine(TrendLineConfig),
    /// Scalar Kalman (draft-ietf-rmcat-gcc-02).
    Kalman(KalmanConfig),
    /// Kalman of slope and offset (libwebrtc, receiver).
    KalmanTwoState(KalmanTwoStateConfig),
}

/// Configuration of the three stages.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DelayConfig {
    /// How packets are grouped.
    pub grouping: GroupingConfig,
    /// How the trend is filtered from the noise.
    pub filter: FilterConfig,
    /// How the trend is converted to a signal.
    pub detector: DetectorConfig,
    /// Time without packets after which the estimator is reset; above 0. Default 2 s (libwebrtc,
    /// `delay_based_bwe.cc`).
    pub stream_timeout: TimeDelta,
}

impl DelayConfig {
    /// The constants of libwebrtc's sender.
    pub fn libwebrtc() -> Self {
        Self {
            grouping: GroupingConfig::libwebrtc(),
            filter: FilterConfig::TrendLine(TrendLineConfig::default()),
            detector: DetectorConfig::libwebrtc(),
            stream_timeout: TimeDelta::from_seconds(2),
        }
    }

    /// draft-ietf-rmcat-gcc-02 as published, with a filter. It does not detect small overloads, as
    /// [`draft_02_amplified`](Self::draft_02_amplified) does.
    pub fn draft_02() -> Self {
        Self {
            grouping: GroupingConfig::draft_02(),
            filter: FilterConfig::Kalman(KalmanConfig::draft_02()),
            detector: DetectorConfig::draft_02(),
            stream_timeout: TimeDelta::from_seconds(2),
        }
    }

    /// `draft_02` with the amplification that libwebrtc used.
    pub fn draft_02_amplified() -> Self {
        Self { filter: FilterConfig::Kalman(KalmanConfig::amplified()), ..Self::draft_02() }
    }

    /// The constants of libwebrtc's receiver-side estimator.
    pub fn receive_side() -> Self {
        Self { filter: FilterConfig::KalmanTwoState(KalmanTwoStateConfig::default()), ..Self::libwebrtc() }
    }

    /// Checks that every constant is within its range.
    ///
    /// # Errors
    ///
    /// Names the first constant that is out of range.
    pub fn validate(&self) -> Result<(), DelayConfigError> {
        let positive = |span: TimeDelta| if span > TimeDelta::ZERO { 1.0 } else { 0.0 };
        check("stream_timeout", "above 0 s", positive(self.stream_timeout), |sign| sign > 0.0)?;
        match &self.filter {
            FilterConfig::TrendLine(line) => {
                check("window", "at least 2", line.window as f64, |window| window >= 2.0)?;
                check("smoothing", "0 to below 1", line.smoothing, |share| (0.0..1.0).contains(&share))?;
                check("gain", "above 0", line.gain, |gain| gain > 0.0)?;
            }
            FilterConfig::Kalman(kalman) => {
                check("process_variance", "above 0", kalman.process_variance, |v| v > 0.0)?;
                check("initial_error_variance", "at least 0", kalman.initial_error_variance, |v| v >= 0.0)?;
                check("initial_noise_variance", "at least 0", kalman.initial_noise_variance, |v| v >= 0.0)?;
                check("min_noise_variance", "above 0", kalman.min_noise_variance, |v| v > 0.0)?;
                check("noise_smoothing", "between 0 and 1", kalman.noise_smoothing, inside_one)?;
                check("outlier_deviations", "above 0", kalman.outlier_deviations, |n| n > 0.0)?;
            }
            FilterConfig::KalmanTwoState(kalman) => {
                let variances = kalman.initial_variances.into_iter().chain(kalman.process_variances);
                check("initial_slope", "at least 0", kalman.initial_slope, |v| v >= 0.0)?;
                for variance in variances {
                    check("initial and process variances", "at least 0", variance, |v| v >= 0.0)?;
                }
                check("turning_boost", "at least 0", kalman.turning_boost, |v| v >= 0.0)?;
                check("initial_noise_variance", "at least 0", kalman.initial_noise_variance, |v| v >= 0.0)?;
                check("min_noise_variance", "above 0", kalman.min_noise_variance, |v| v > 0.0)?;
                check("outlier_deviations", "above 0", kalman.outlier_deviations, |n| n > 0.0)?;
                check(
                    "startup_noise_smoothing",
                    "between 0 and 1",
                    kalman.startup_noise_smoothing,
                    inside_one,
                )?;
                check("noise_smoothing", "between 0 and 1", kalman.noise_smoothing, inside_one)?;
            }
        }
        let detector = &self.detector;
        let (min, max) = (detector.min_threshold_ms, detector.max_threshold_ms);
        check("min_threshold_ms", "above 0", min, |v| v > 0.0)?;
        check("max_threshold_ms", "at least the minimum", max, |v| v >= min)?;
        let first = detector.initial_threshold_ms;
        check("initial_threshold_ms", "from the minimum to the maximum", first, |v| v >= min && v <= max)?;
        check("rise", "at least 0", detector.rise, |v| v >= 0.0)?;
        check("fall", "at least 0", detector.fall, |v| v >= 0.0)?;
        check("spike_ms", "at least 0", detector.spike_ms, |v| v >= 0.0)
    }
}

impl Default for DelayConfig {
    fn default() -> Self {
        Self::libwebrtc()
    }
}

/// A constant is outside its range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("delay-based congestion control: {name} must be {range}, found {found}")]
#[non_exhaustive]
pub struct DelayConfigError {
    /// The constant.
    pub name: &'static str,
    /// Its valid range.
    pub range: &'static str,
    /// Its value.
    pub found: f64,
}

/// Detects from packet arrivals whether a queue grows.
#[derive(Debug, Clone)]
pub(crate) struct DelayEstimator {
    config: DelayConfig,
    grouping: Grouping,
    filter: Filter,
    detector: Detector,
    last_packet_at: Option<Timestamp>,
    last_reset: Option<(Timestamp, Reset)>,
    recovered: bool,
    output: FilterOutput,
    by_arrival: ByArrival,
}

impl DelayEstimator {
    /// An estimator without packets.
    ///
    /// # Errors
    ///
    /// A constant of `config` is outside its range.
    pub(crate) fn new(config: DelayConfig) -> Result<Self, DelayConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            grouping: Grouping::new(config.grouping),
            filter: Filter::new(&config.filter),
            detector: Detector::new(config.detector),
            last_packet_at: None,
            last_reset: None,
            recovered: false,
            output: FilterOutput::default(),
            by_arrival: ByArrival::default(),
        })
    }

    /// Processes the packets of one feedback message, in any order. Lost packets are ignored.
    pub(crate) fn on_packets(&mut self, now: Timestamp, packets: &[PacketReport]) -> Signal {
        let mut by_arrival = core::mem::take(&mut self.by_arrival);
        by_arrival.fill(packets);
        by_arrival.order_simultaneous();
        let signal = self.on_arrived(now, by_arrival.packets());
        self.by_arrival = by_arrival;
        signal
    }

    /// Processes the arrived packets of one feedback message, in order of arrival; of those that arrived at the same time, in the order in
    /// which they were sent.
    pub(in crate::gcc) fn on_arrived(&mut self, now: Timestamp, packets: &[Arrived]) -> Signal {
        let before = self.signal();
        if !packets.is_empty() {
            self.notice_silence(now);
        }
        self.recovered = before == Signal::UnderUse && self.signal() == Signal::Normal;
        for &Arrived { arrival, sent, size, .. } in packets {
            self.recovered |= self.follow(now, ReceivedPacket { sent, arrival, size });
        }
        self.signal()
    }

    /// Processes one packet that became known at `now`. At the receiver this is its arrival time.
    pub(crate) fn on_packet(&mut self, now: Timestamp, packet: ReceivedPacket) -> Signal {
        let before = self.signal();
        self.notice_silence(now);
        self.follow(now, packet);
        self.recovered = before == Signal::UnderUse && self.signal() == Signal::Normal;
        self.signal()
    }

    fn notice_silence(&mut self, now: Timestamp) {
        if self.last_packet_at.is_some_and(|last| now.saturating_since(last) > self.config.stream_timeout) {
            self.restart();
            self.last_reset = Some((now, Reset::StreamTimeout));
        }
        self.last_packet_at = self.last_packet_at.max(Some(now));
    }

    /// Returns whether the signal changed from under-use to normal.
    fn follow(&mut self, now: Timestamp, packet: ReceivedPacket) -> bool {
        match self.grouping.on_packet(now, packet) {
            Grouped::Delta(delta) => {
                let before = self.signal();
                self.output = self.filter.on_delta(&delta, before);
                let at = self.filter.time_of(&delta);
                let signal = self.detector.on_output(self.output, delta.departure, at);
                return before == Signal::UnderUse && signal == Signal::Normal;
            }
            Grouped::Reset(reset) => self.last_reset = Some((now, reset)),
            Grouped::Pending | Grouped::OutOfOrder => {}
        }
        false
    }

    /// The current signal.
    pub(crate) fn signal(&self) -> Signal {
        self.detector.detection().signal
    }

    /// The current signal, the trend, and the threshold at that time.
    pub(crate) fn detection(&self) -> Detection {
        self.detector.detection()
    }

    /// The latest output of the filter.
    #[cfg(test)]
    pub(crate) fn output(&self) -> FilterOutput {
        self.output
    }

    /// Whether a queue drained during the last call: the signal changed from under-use to normal.
    pub(crate) fn recovered(&self) -> bool {
        self.recovered
    }

    /// When and why the groups were last reset. Only a [`Reset::StreamTimeout`] also resets the filter and
    /// the threshold.
    #[cfg(test)]
    pub(crate) fn last_reset(&self) -> Option<(Timestamp, Reset)> {
        self.last_reset
    }

    fn restart(&mut self) {
        self.grouping.clear();
        self.filter = Filter::new(&self.config.filter);
        self.detector = Detector::new(self.config.detector);
        self.output = FilterOutput::default();
    }
}

#[derive(Debug, Clone)]
enum Filter {
    TrendLine(TrendLine),
    Kalman(Kalman),
    KalmanTwoState(KalmanTwoState),
}

impl Filter {
    fn new(config: &FilterConfig) -> Self {
        match *config {
            FilterConfig::TrendLine(config) => Self::TrendLine(TrendLine::new(config)),
            FilterConfig::Kalman(config) => Self::Kalman(Kalman::new(config)),
            FilterConfig::KalmanTwoState(config) => Self::KalmanTwoState(KalmanTwoState::new(config)),
        }
    }

    fn on_delta(&mut self, delta: &GroupDelta, signal: Signal) -> FilterOutput {
        match self {
            Self::TrendLine(filter) => filter.on_delta(delta),
            Self::Kalman(filter) => filter.on_delta(delta),
            Self::KalmanTwoState(filter) => filter.on_delta(delta, signal),
        }
    }

    /// The time by which the threshold adapts: the group's arrival in the draft; the arrival of the packet
    /// that closes it in libwebrtc.
    fn time_of(&self, delta: &GroupDelta) -> PeerTimestamp {
        match self {
            Self::Kalman(_) => delta.arrived_at,
            Self::TrendLine(_) | Self::KalmanTwoState(_) => delta.closed_at,
        }
    }
}

fn inside_one(share: f64) -> bool {
    share > 0.0 && share < 1.0
}

fn check(
    name: &'static str,
    range: &'static str,
    found: f64,
    is_within: impl Fn(f64) -> bool,
) -> Result<(), DelayConfigError> {
    if found.is_finite() && is_within(found) { Ok(()) } else { Err(DelayConfigError { name, range, found }) }
}

#[cfg(test)]
mod ramp_tests;
#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests;
