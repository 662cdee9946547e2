//! Over-use detector of early 2014: a Kalman filter of slope and offset over video frames, and a fixed threshold.
//!
//! All constants are those of libwebrtc 2014, `overuse_detector.cc` and `common_types.h`. Since then libwebrtc has changed the random walks
//! of the filter (1e-13 and 1e-3), the minimum of the noise variance (1 ms²), the threshold (adaptive) and the time of over-use (10 ms).

use giusto_units::{DataSize, PeerTimestamp, Timestamp, math};

use crate::{
    gcc::delay::{Covariance, Detection, LeastInterval, kept_share},
    target::Signal,
};

/// Initial slope: a link of 512 kbit/s, in ms/byte (`common_types.h`, `initial_slope`).
const INITIAL_SLOPE: f64 = 8.0 / 512.0;
/// Variances of initial slope and offset (`initial_e`).
const INITIAL_VARIANCES: [f64; 2] = [100.0, 0.1];
/// Variances of their random walks per frame at 30 frames per second (`initial_process_noise`).
const WALKS: [f64; 2] = [1e-10, 1e-2];
/// Factor on the walk of the offset that is added while the offset contradicts the signal (`UpdateKalman`).
const TURNING_BOOST: f64 = 10.0;
/// Initial variance of the noise, in ms² (`initial_var_noise`).
const INITIAL_NOISE: f64 = 50.0;
/// Its minimum (`UpdateNoiseEstimate`).
const MIN_NOISE: f64 = 1e-7;
/// A deviation counts at most this many standard deviations, upwards (`UpdateKalman`).
const OUTLIER: f64 = 3.0;
/// Weight of a frame in the noise: during the first frames, and after them (`UpdateNoiseEstimate`).
const NOISE_SMOOTHING: [f64; 2] = [0.01, 0.002];
/// Number of the first frames (`UpdateNoiseEstimate`: ten seconds).
const STARTUP: u32 = 300;
/// Threshold of the trend, in ms, while no maximum is known (`initial_threshold`); half of it near or above a known one
/// (`SetRateControlRegion`).
const THRESHOLD_MS: f64 = 25.0;
/// The offset is multiplied by the number of frames, up to this one (`Detect`).
const AMPLIFICATION: u32 = 60;
/// Time for which the trend must exceed the threshold, in ms (`kOverUsingTimeThreshold`).
const OVER_USE_MS: f64 = 100.0;
/// Number of frames over which the minimum frame interval is taken (`kMinFramePeriodHistoryLength`).
const INTERVALS: usize = 60;
/// Interval of frames for which the walks hold, in ms (`UpdateKalman`).
const FRAME_MS: f64 = 1000.0 / 30.0;

/// Packets that were sent at the same time.
#[derive(Debug, Clone, Copy)]
struct Frame {
    sent: PeerTimestamp,
    complete: Timestamp,
    bytes: u64,
}

/// Filter and threshold.
#[derive(Debug, Clone)]
pub(super) struct Detector {
    previous: Option<Frame>,
    current: Option<Frame>,
    /// Number of differences between frames.
    deltas: u32,
    slope: f64,
    offset: f64,
    previous_offset: f64,
    covariance: Covariance,
    noise_mean: f64,
    noise_variance: f64,
    intervals: LeastInterval,
    threshold_ms: f64,
    /// Time in ms and number of frames for which the trend has been above the threshold.
    above: Option<(f64, u32)>,
    signal: Signal,
}

impl Default for Detector {
    fn default() -> Self {
        let [slope, offset] = INITIAL_VARIANCES;
        Self {
            previous: None,
            current: None,
            deltas: 0,
            slope: INITIAL_SLOPE,
            offset: 0.0,
            previous_offset: 0.0,
            covariance: Covariance { slope, offset, mixed: 0.0 },
            noise_mean: 0.0,
            noise_variance: INITIAL_NOISE,
            intervals: LeastInterval::new(INTERVALS),
            threshold_ms: THRESHOLD_MS,
            above: None,
            signal: Signal::Normal,
        }
    }
}

impl Detector {
    /// Handles a packet of the frame that was `sent` at this time. A packet of an earlier frame is ignored.
    pub(super) fn on_packet(&mut self, now: Timestamp, sent: PeerTimestamp, size: DataSize) {
        match &mut self.current {
            Some(frame) if sent < frame.sent => {}
            Some(frame) if sent == frame.sent => {
                frame.bytes = frame.bytes.saturating_add(size.as_bytes());
                frame.complete = frame.complete.max(now);
            }
            _ => {
                if let (Some(frame), Some(before)) = (self.current, self.previous) {
                    self.on_frame(&frame, &before);
                }
                self.previous = self.current;
                self.current = Some(Frame { sent, complete: now, bytes: size.as_bytes() });
            }
        }
    }

    /// Signal, trend and threshold.
    pub(super) fn detection(&self) -> Detection {
        Detection { signal: self.signal, trend_ms: self.trend_ms(), threshold_ms: self.threshold_ms }
    }

    /// Variance of the noise of frame delays, in ms².
    pub(super) fn noise_variance(&self) -> f64 {
        self.noise_variance
    }

    /// Sets whether the rate is near or above a known maximum.
    pub(super) fn set_near_max(&mut self, is_near: bool) {
        self.threshold_ms = if is_near { THRESHOLD_MS / 2.0 } else { THRESHOLD_MS };
    }

    fn trend_ms(&self) -> f64 {
        f64::from(self.deltas.min(AMPLIFICATION)) * self.offset
    }

    fn on_frame(&mut self, frame: &Frame, before: &Frame) {
        self.deltas = self.deltas.saturating_add(1);
        let departure_ms = (frame.sent - before.sent).as_millis();
        let variation_ms = (frame.complete - before.complete).as_millis() - departure_ms;
        let size = frame.bytes as f64 - before.bytes as f64;
        let min_ms = self.intervals.push(departure_ms).unwrap_or(departure_ms);

        let turns = match self.signal {
            Signal::OverUse => self.offset < self.previous_offset,
            Signal::UnderUse => self.offset > self.previous_offset,
            Signal::Normal => false,
        };
        let boost = if turns { 1.0 + TURNING_BOOST } else { 1.0 };
        let [slope_walk, offset_walk] = WALKS.map(|walk| walk * min_ms / FRAME_MS);
        self.covariance.slope += slope_walk;
        self.covariance.offset += offset_walk * boost;

        let residual = variation_ms - self.slope * size - self.offset;
        // By this frame's number and the threshold, not by the signal.
        if self.trend_ms().abs() < self.threshold_ms {
            self.learn_noise(residual, min_ms);
        }
        let [slope_gain, offset_gain] = self.covariance.update(size, self.noise_variance);
        self.slope += slope_gain * residual;
        self.previous_offset = self.offset;
        self.offset += offset_gain * residual;
        self.detect(departure_ms);
    }

    fn learn_noise(&mut self, residual: f64, min_ms: f64) {
        // A large deviation of either sign counts as one upwards.
        let bound = OUTLIER * math::sqrt(self.noise_variance);
        let residual = if residual.abs() < bound { residual } else { bound };
        let [first, later] = NOISE_SMOOTHING;
        let kept = kept_share(if self.deltas > STARTUP { later } else { first }, min_ms);
        self.noise_mean = kept * self.noise_mean + (1.0 - kept) * residual;
        let deviation = self.noise_mean - residual;
        self.noise_variance =
            (kept * self.noise_variance + (1.0 - kept) * deviation * deviation).max(MIN_NOISE);
    }

    fn detect(&mut self, departure_ms: f64) {
        if self.deltas < 2 {
            return;
        }
        let trend_ms = self.trend_ms();
        if trend_ms.abs() <= self.threshold_ms {
            (self.above, self.signal) = (None, Signal::Normal);
        } else if trend_ms < 0.0 {
            (self.above, self.signal) = (None, Signal::UnderUse);
        } else {
            // When the trend crossed the threshold within the first interval is unknown.
            let (time, frames) = self
                .above
                .map_or((departure_ms / 2.0, 1), |(time, frames)| (time + departure_ms, frames + 1));
            let is_long = time > OVER_USE_MS && frames > 1;
            let found = is_long && self.offset >= self.previous_offset;
            self.above = Some(if found { (0.0, 0) } else { (time, frames) });
            if found {
                self.signal = Signal::OverUse;
            }
        }
    }
}
