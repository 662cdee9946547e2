//! Media rate from the reference window.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use crate::feedback::QueueState;

giusto_units::defaults! {
    /// Configuration of the media rate. Sections are those of draft-ietf-ccwg-rfc8298bis-screamv2-01.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct MediaRateConfig {
        /// Minimum divisor between the window's rate and the media rate. Default 1.2 (§"Media Rate Control" of
        /// the detailed description).
        pub divisor: f64 = 1.2,
        /// Share of the window from which a packet counts as large; then the rate is reduced. Default 0.1 (same
        /// section).
        pub small_window: f64 = 0.1,
        /// Maximum share for that reduction. Default 0.2 (same section).
        pub max_small_window: f64 = 0.2,
        /// Overhead per packet. Default 20 B (`PACKET_OVERHEAD`).
        pub overhead: DataSize = DataSize::from_bytes(20),
        /// Gain of the divisor's adjustment to the sender's queue. Default 1/16 (`RATE_ADJUST_GAIN`).
        pub adjust_gain: f64 = 1.0 / 16.0,
        /// Maximum of that adjustment. Default 0.5 (same section).
        pub max_adjust: f64 = 0.5,
        /// Gain of the adjustment to frames that are too large. Default 1/64 (`FRAME_SIZE_DEV_ALPHA`).
        pub deviation_gain: f64 = 1.0 / 64.0,
        /// Maximum of that adjustment. Default 0.2 (same section).
        pub max_deviation: f64 = 0.2,
        /// Initial interval between frames. Default 20 ms (`frame_period`).
        pub frame_period: TimeDelta = TimeDelta::from_millis(20),
        /// Share of the frame interval for which a frame may be queued. Default 1/4 (same section).
        pub wait_share: f64 = 1.0 / 4.0,
    }
}

/// The rate, and its adjustment to media that exceeds the target.
///
/// The controller does not know the frames. A frame is what enters the queue between two calls of
/// [`on_queue`](Self::on_queue): the growth of the queue plus the bytes sent in between. If the queue is no
/// larger than that, all earlier packets have been sent. If it is larger, the oldest packet belongs to an
/// earlier frame, and its age is the delay that the text needs.
#[derive(Debug, Clone, Default)]
pub(super) struct MediaRate {
    config: MediaRateConfig,
    queue_before: u64,
    left: u64,
    /// Time of the last frame.
    frame: Option<Timestamp>,
    /// In seconds.
    period: f64,
    adjust: f64,
    deviation: f64,
    /// Size of the latest frame, or of the queue if that is larger, relative to the mean frame at the target.
    relative: f64,
}

/// Minimum mean size of frames that are compared with it, in bytes (the authors' `ScreamV2TxStream.cpp`, `newMediaFrame`).
const MIN_FRAME: f64 = 500.0;

/// Gain of the frame interval, and its range in seconds.
const PERIOD_GAIN: f64 = 1.0 / 16.0;
const PERIODS: (f64, f64) = (0.005, 0.2);

impl MediaRate {
    /// No frame so far.
    pub(super) fn new(config: MediaRateConfig) -> Self {
        Self {
            config,
            period: config.frame_period.as_seconds().clamp(PERIODS.0, PERIODS.1),
            relative: 1.0,
            ..Self::default()
        }
    }

    /// Handles a sent packet.
    pub(super) fn on_sent(&mut self, size: DataSize) {
        self.left = self.left.saturating_add(size.as_bytes());
    }

    /// Handles the state of the sender's queue, at a target of `target`.
    pub(super) fn on_queue(&mut self, now: Timestamp, queue: &QueueState, target: DataRate) {
        let waits = queue.size.as_bytes();
        let frame = waits.saturating_add(self.left).saturating_sub(self.queue_before);
        (self.queue_before, self.left) = (waits, 0);
        if frame == 0 {
            return;
        }
        let wait = if waits > frame { queue.oldest.as_seconds() } else { 0.0 };
        if let Some(before) = self.frame.replace(now) {
            let period = now.saturating_since(before).as_seconds().clamp(PERIODS.0, PERIODS.1);
            self.period += PERIOD_GAIN * (period - self.period);
        }
        let error = wait / self.period - self.config.wait_share;
        self.adjust = (self.adjust + error * self.config.adjust_gain).clamp(0.0, self.config.max_adjust);
        let nominal = (target.as_bps() as f64 * self.period / 8.0).max(1.0);
        self.relative = if nominal > MIN_FRAME { waits.max(frame) as f64 / nominal } else { 1.0 };
        let above = (frame as f64 / nominal - 1.0).max(0.0);
        self.deviation += self.config.deviation_gain * (above - self.deviation);
        self.deviation = self.deviation.min(self.config.max_deviation);
    }

    /// Share of the window's rate for the media, 0 to 1, if a packet of `segment` is `share` of the window.
    pub(super) fn factor(&self, segment: DataSize, share: f64) -> f64 {
        let small = (share - self.config.small_window).clamp(0.0, self.config.max_small_window);
        let bytes = segment.as_bytes().max(1) as f64;
        let media = bytes / (bytes + self.config.overhead.as_bytes() as f64);
        (1.0 - small) * media / (self.config.divisor + self.adjust + self.deviation).max(1.0)
    }

    /// Increases of the divisor: because of the sender's queue, and because of frame sizes.
    pub(super) fn guards(&self) -> (f64, f64) {
        (self.adjust, self.deviation)
    }

    /// Size of the latest frame, or of the queue if that is larger, relative to the mean frame at the target; 1 for small frames.
    pub(super) fn relative_frame(&self) -> f64 {
        self.relative
    }

    /// The interval between frames.
    pub(super) fn frame_period(&self) -> TimeDelta {
        TimeDelta::from_seconds_f64(self.period)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;
    use crate::testing::at;

    const SEGMENT: DataSize = DataSize::from_bytes(1000);
    const TARGET: DataRate = DataRate::from_bps(1_200_000);

    /// Frames every 40 ms, examined every 10 ms. Half of a frame is sent within 10 ms and the rest in another
    /// 10 ms; `late` bytes always remain.
    fn frames(rate: &mut MediaRate, bytes: u64, late: u64) {
        for n in 0..400 {
            let (waits, oldest) = match n % 4 {
                0 => (bytes + late, if late > 0 { 35 } else { 1 }),
                1 => (bytes / 2 + late, 11),
                _ => (late, 25),
            };
            let before = rate.queue_before + if n % 4 == 0 { bytes } else { 0 };
            rate.on_sent(DataSize::from_bytes(before.saturating_sub(waits)));
            let queue =
                QueueState { size: DataSize::from_bytes(waits), oldest: TimeDelta::from_millis(oldest) };
            rate.on_queue(at(n * 10), &queue, TARGET);
        }
    }

    #[test]
    fn frames_are_detected_from_the_growth_of_the_queue() {
        let mut rate = MediaRate::new(MediaRateConfig::default());
        // 1.2 Mbit/s in 40 ms are 6000 B.
        frames(&mut rate, 6000, 0);
        assert!((rate.frame_period().as_millis() - 40.0).abs() < 0.1, "{:?}", rate.frame_period());
        let (adjust, deviation) = rate.guards();
        assert_eq!(adjust, 0.0);
        // The first frames counted as twice too large, for a frame interval of 20 ms.
        assert!(deviation < 0.2 * 0.25, "{deviation}");
        assert!((rate.factor(SEGMENT, 0.0) - 1000.0 / 1020.0 / (1.2 + deviation)).abs() < 1e-9);
    }

    #[test]
    fn oversized_frames_reduce_the_rate_by_their_excess() {
        let mut rate = MediaRate::new(MediaRateConfig::default());
        frames(&mut rate, 6600, 0);
        let (_, deviation) = rate.guards();
        assert!((0.08..=0.15).contains(&deviation), "{deviation}");
        frames(&mut rate, 20_000, 0);
        assert_eq!(rate.guards().1, 0.2, "and by no more than a fifth");
    }

    #[test]
    fn a_frame_is_compared_with_the_mean_at_the_target() {
        let mut rate = MediaRate::new(MediaRateConfig::default());
        assert_eq!(rate.relative_frame(), 1.0);
        // 1.2 Mbit/s in 40 ms are 6000 B.
        for (bytes, late, relative) in [(6000, 0, 1.0), (9000, 0, 1.5), (3000, 0, 0.5), (6000, 3000, 1.5)] {
            frames(&mut rate, bytes, late);
            assert!((rate.relative_frame() - relative).abs() < 0.01, "{bytes}: {}", rate.relative_frame());
        }
        // At 0.1 Mbit/s the mean has 500 bytes.
        let queue = QueueState { size: DataSize::from_bytes(30_000), oldest: TimeDelta::from_millis(1) };
        rate.on_queue(at(4000), &queue, DataRate::from_bps(99_000));
        assert_eq!(rate.relative_frame(), 1.0, "small frames leave in one or two packets");
    }

    #[test]
    fn queued_frames_reduce_the_rate() {
        let mut rate = MediaRate::new(MediaRateConfig::default());
        frames(&mut rate, 6000, 2000);
        assert_eq!(rate.guards().0, 0.5);
        frames(&mut rate, 6000, 0);
        assert_eq!(rate.guards().0, 0.0);
    }

    #[test]
    fn a_window_of_few_packets_reduces_the_rate() {
        let rate = MediaRate::new(MediaRateConfig::default());
        let whole = rate.factor(SEGMENT, 0.1);
        assert!((rate.factor(SEGMENT, 0.2) / whole - 0.9).abs() < 1e-9);
        assert!((rate.factor(SEGMENT, 1.0) / whole - 0.8).abs() < 1e-9);
        assert!(rate.factor(DataSize::ZERO, f64::NAN.max(1.0)) > 0.0);
    }
}
