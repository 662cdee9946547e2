//! What rate may the media have, where so much may be in flight?

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use crate::feedback::QueueState;

/// What is settable of [`MediaRate`]. Sections are those of draft-ietf-ccwg-rfc8298bis-screamv2-01.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MediaRateConfig {
    /// The rate is what the window permits, divided by this at least. Default 1.2 (§"Media Rate Control" of the detailed
    /// description).
    pub divisor: f64,
    /// The rate is a share less where a packet is more than this share of the window. Default 0.1 (same section).
    pub small_window: f64,
    /// That share is at most this. Default 0.2 (same section).
    pub small_window_most: f64,
    /// What a packet has besides media. Default 20 B (`PACKET_OVERHEAD`).
    pub overhead: DataSize,
    /// How fast the divisor follows what waits at the sender. Default 1/16 (`RATE_ADJUST_GAIN`).
    pub adjust_gain: f64,
    /// It rises by so much at most. Default 0.5 (same section).
    pub adjust_most: f64,
    /// How fast it follows frames that are too large. Default 1/64 (`FRAME_SIZE_DEV_ALPHA`).
    pub deviation_gain: f64,
    /// It rises by so much at most. Default 0.2 (same section).
    pub deviation_most: f64,
    /// The time between frames, until it is known. Default 20 ms (`frame_period`).
    pub frame_period: TimeDelta,
    /// The share of that time that a frame may wait. Default 1/4 (same section).
    pub wait_share: f64,
}

impl Default for MediaRateConfig {
    fn default() -> Self {
        Self {
            divisor: 1.2,
            small_window: 0.1,
            small_window_most: 0.2,
            overhead: DataSize::from_bytes(20),
            adjust_gain: 1.0 / 16.0,
            adjust_most: 0.5,
            deviation_gain: 1.0 / 64.0,
            deviation_most: 0.2,
            frame_period: TimeDelta::from_millis(20),
            wait_share: 1.0 / 4.0,
        }
    }
}

/// The guard against media that are more than they should be, and the rate.
///
/// Frames are not told of. They are what comes to the queue between two calls of [`on_queue`](Self::on_queue): what it has grown
/// by, and what has left meanwhile. If no more waits than that, what waited before has gone; if more, the oldest is of an earlier
/// frame, and its age is the delay that the text asks for.
#[derive(Debug, Clone)]
pub struct MediaRate {
    config: MediaRateConfig,
    waited: u64,
    left: u64,
    /// When the last frame came.
    frame: Option<Timestamp>,
    /// In seconds.
    period: f64,
    adjust: f64,
    deviation: f64,
}

/// How fast the time between frames is learned, and within which bounds, in seconds.
const PERIOD_GAIN: f64 = 1.0 / 16.0;
const PERIODS: (f64, f64) = (0.005, 0.2);

impl MediaRate {
    /// No frame has come.
    pub fn new(config: MediaRateConfig) -> Self {
        Self {
            config,
            waited: 0,
            left: 0,
            frame: None,
            period: config.frame_period.as_seconds().clamp(PERIODS.0, PERIODS.1),
            adjust: 0.0,
            deviation: 0.0,
        }
    }

    /// A packet has left.
    pub fn on_sent(&mut self, size: DataSize) {
        self.left = self.left.saturating_add(size.as_bytes());
    }

    /// So much waits, at a target of `target`.
    pub fn on_queue(&mut self, now: Timestamp, queue: &QueueState, target: DataRate) {
        let waits = queue.size.as_bytes();
        let frame = waits.saturating_add(self.left).saturating_sub(self.waited);
        (self.waited, self.left) = (waits, 0);
        if frame == 0 {
            return;
        }
        let wait = if waits > frame { queue.oldest.as_seconds() } else { 0.0 };
        if let Some(before) = self.frame.replace(now) {
            let period = now.saturating_since(before).as_seconds().clamp(PERIODS.0, PERIODS.1);
            self.period += PERIOD_GAIN * (period - self.period);
        }
        let error = wait / self.period - self.config.wait_share;
        self.adjust = (self.adjust + error * self.config.adjust_gain).clamp(0.0, self.config.adjust_most);
        let nominal = (target.as_bps() as f64 * self.period / 8.0).max(1.0);
        let above = (frame as f64 / nominal - 1.0).max(0.0);
        self.deviation += self.config.deviation_gain * (above - self.deviation);
        self.deviation = self.deviation.min(self.config.deviation_most);
    }

    /// What is left of bits per round trip for the media, where a packet of `segment` is `share` of the window: 0 to 1.
    pub fn factor(&self, segment: DataSize, share: f64) -> f64 {
        let small = (share - self.config.small_window).clamp(0.0, self.config.small_window_most);
        let bytes = segment.as_bytes().max(1) as f64;
        let media = bytes / (bytes + self.config.overhead.as_bytes() as f64);
        (1.0 - small) * media / (self.config.divisor + self.adjust + self.deviation).max(1.0)
    }

    /// By how much the divisor is raised: for what waits, and for the size of frames.
    pub fn guards(&self) -> (f64, f64) {
        (self.adjust, self.deviation)
    }

    /// The time between frames.
    pub fn frame_period(&self) -> TimeDelta {
        TimeDelta::from_seconds_f64(self.period)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    const SEGMENT: DataSize = DataSize::from_bytes(1000);
    const TARGET: DataRate = DataRate::from_bps(1_200_000);

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    /// Frames each 40 ms, looked at each 10 ms, of which half leaves in 10 ms and the rest in 10 more; `late` bytes are always there.
    fn frames(rate: &mut MediaRate, bytes: u64, late: u64) {
        for n in 0..400 {
            let (waits, oldest) = match n % 4 {
                0 => (bytes + late, if late > 0 { 35 } else { 1 }),
                1 => (bytes / 2 + late, 11),
                _ => (late, 25),
            };
            let before = rate.waited + if n % 4 == 0 { bytes } else { 0 };
            rate.on_sent(DataSize::from_bytes(before.saturating_sub(waits)));
            let queue =
                QueueState { size: DataSize::from_bytes(waits), oldest: TimeDelta::from_millis(oldest) };
            rate.on_queue(at(n * 10), &queue, TARGET);
        }
    }

    #[test]
    fn frames_are_found_in_what_the_queue_grows_by() {
        let mut rate = MediaRate::new(MediaRateConfig::default());
        // 1.2 Mbit/s in 40 ms are 6000 B.
        frames(&mut rate, 6000, 0);
        assert!((rate.frame_period().as_millis() - 40.0).abs() < 0.1, "{:?}", rate.frame_period());
        let (adjust, deviation) = rate.guards();
        assert_eq!(adjust, 0.0);
        // The first frames counted as twice too large, for a period of 20 ms.
        assert!(deviation < 0.2 * 0.25, "{deviation}");
        assert!((rate.factor(SEGMENT, 0.0) - 1000.0 / 1020.0 / (1.2 + deviation)).abs() < 1e-9);
    }

    #[test]
    fn frames_that_are_too_large_lower_the_rate_by_what_they_are_too_large() {
        let mut rate = MediaRate::new(MediaRateConfig::default());
        frames(&mut rate, 6600, 0);
        let (_, deviation) = rate.guards();
        assert!((0.08..=0.15).contains(&deviation), "{deviation}");
        frames(&mut rate, 20_000, 0);
        assert_eq!(rate.guards().1, 0.2, "and by no more than a fifth");
    }

    #[test]
    fn a_frame_that_waits_for_the_one_before_lowers_the_rate_until_none_does() {
        let mut rate = MediaRate::new(MediaRateConfig::default());
        frames(&mut rate, 6000, 2000);
        assert_eq!(rate.guards().0, 0.5);
        frames(&mut rate, 6000, 0);
        assert_eq!(rate.guards().0, 0.0);
    }

    #[test]
    fn a_window_of_few_packets_gives_less() {
        let rate = MediaRate::new(MediaRateConfig::default());
        let whole = rate.factor(SEGMENT, 0.1);
        assert!((rate.factor(SEGMENT, 0.2) / whole - 0.9).abs() < 1e-9);
        assert!((rate.factor(SEGMENT, 1.0) / whole - 0.8).abs() < 1e-9);
        assert!(rate.factor(DataSize::ZERO, f64::NAN.max(1.0)) > 0.0);
    }
}
