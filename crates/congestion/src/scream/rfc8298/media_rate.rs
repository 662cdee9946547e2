//! Media rate (RFC 8298 §4.1.3).

use alloc::{collections::VecDeque, vec::Vec};

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::config::Config;
use crate::feedback::QueueState;

/// `rate_media_median` spans more than 10 s (§4.1.1.2), in intervals of 0.2 s.
const MEDIAN: usize = 51;
/// Minimum share of the ramp near the last congestion point.
const SLOWEST: f64 = 0.2;
/// Share of the target below which the media, not the path, limits the rate: then the rate does not fall. As in the authors'
/// implementation of January 2018 (`ScreamTx.cpp`, `updateTargetBitrate`).
const USED: f64 = 0.8;

/// The media rate, in bit/s.
#[derive(Debug, Clone, Default)]
pub(super) struct MediaRate {
    config: Config,
    min: f64,
    max: f64,
    target: f64,
    /// `target_bitrate_last_max`: the rate at the last congestion.
    inflection: f64,
    /// Whether the rate has increased since then.
    risen: bool,
    begun: Option<Timestamp>,
    sent: DataSize,
    acknowledged: DataSize,
    /// Queue size at the beginning of the interval, and its minimum since.
    waiting: DataSize,
    min_waiting: Option<DataSize>,
    /// Whether the path stood still in this interval, so that its rates say nothing about the capacity.
    stalled: bool,
    media: VecDeque<f64>,
}

/// Input from the congestion control.
#[derive(Debug, Clone, Copy)]
pub(super) struct Congestion {
    /// `in_fast_increase`.
    pub(super) fast: bool,
    /// `qdelay_trend` and `qdelay_trend_mem`.
    pub(super) trend: f64,
    pub(super) peak: f64,
}

/// Result of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// No limit on the increase.
    Up,
    /// The queueing delay at the sender is too long.
    Down,
    /// The media rate is limited by the application.
    Limited,
}

impl MediaRate {
    /// Starts at `target`, between `min` and `max`.
    pub(super) fn new(config: Config, limits: (f64, f64), target: f64) -> Self {
        Self { config, min: limits.0, max: limits.1, target, inflection: 1.0, risen: true, ..Self::default() }
    }

    /// Applies new limits to the rate.
    pub(super) fn set_limits(&mut self, limits: (f64, f64)) {
        (self.min, self.max) = limits;
        self.target = self.target.min(self.max).max(self.min);
    }

    /// Handles a sent packet.
    pub(super) fn on_sent(&mut self, size: DataSize) {
        self.sent += size;
    }

    /// Handles the arrival of a packet.
    pub(super) fn on_arrival(&mut self, size: DataSize) {
        self.acknowledged += size;
    }

    /// Handles the state of the sender's queue.
    pub(super) fn on_queue(&mut self, queue: &QueueState) {
        let min = self.min_waiting.map_or(queue.size, |min| min.min(queue.size));
        self.min_waiting = Some(min);
    }

    /// Handles a time during which the path stood still: rates that cover it are not judged.
    pub(super) fn on_stall(&mut self) {
        self.stalled = true;
    }

    /// `on loss`.
    pub(super) fn on_loss(&mut self) {
        self.cut(self.config.beta_rate);
    }

    /// `on ecn_mark`.
    pub(super) fn on_mark(&mut self) {
        self.cut(self.config.beta_mark);
    }

    /// Limits the rate to the received rate, in bit/s.
    pub(super) fn follow(&mut self, arrives: f64) {
        if self.target > arrives {
            self.cut(arrives / self.target);
        }
    }

    /// Handles missing feedback.
    pub(super) fn on_silence(&mut self) {
        self.cut(0.5);
    }

    /// Stores the current rate as the congestion point.
    pub(super) fn on_congestion(&mut self) {
        if core::mem::take(&mut self.risen) {
            self.inflection = self.target.max(1.0);
        }
    }

    /// Adjusts the rate if an interval has passed and there were measurements in it.
    pub(super) fn update(&mut self, now: Timestamp, queue: &QueueState, seen: Congestion) -> Option<Moved> {
        let begun = *self.begun.get_or_insert(now);
        let time = now.saturating_since(begun);
        if time < self.config.interval {
            return None;
        }
        let measured = self.measure(time, queue);
        (self.begun, self.sent, self.acknowledged) = (Some(now), DataSize::ZERO, DataSize::ZERO);
        (self.waiting, self.min_waiting) = (queue.size, None);
        let stalled = core::mem::take(&mut self.stalled);
        let measured = measured.filter(|_| !stalled)?;
        let before = self.target;
        let mut moved = self.adjust(&measured, seen);
        let limit = measured.current.max(measured.media).max(self.median()) * (2.0 - seen.peak);
        if self.target > limit && limit > 0.0 {
            self.target = limit;
            moved = Moved::Limited;
        }
        self.target = self.target.min(self.max).max(self.min);
        self.risen |= self.target > before;
        Some(moved)
    }

    /// `target_bitrate`.
    pub(super) fn bps(&self) -> f64 {
        self.target
    }

    fn adjust(&mut self, measured: &Measured, seen: Congestion) -> Moved {
        let config = &self.config;
        let interval = config.interval.as_seconds();
        let step = (config.ramp_up.as_bps() as f64).min(self.target / 2.0) * interval;
        let distance = (self.target - self.inflection) / self.inflection;
        let scale = (distance * 4.0 * (distance * 4.0)).clamp(SLOWEST, 1.0);
        if seen.fast {
            self.target += step * scale;
            return Moved::Up;
        }
        // As in the text: the queue in bits is subtracted from bits per second, as if it had to be sent
        // within a second.
        let scaled = measured.current * (1.0 - config.guard * seen.trend);
        let mut delta = scaled - config.queue_factor * measured.waiting;
        if let Some(above) = config.target_above {
            // What the last interval added has not been carried yet.
            let excess = self.target - delta - (above * scaled).max(step);
            // Media that use less than the target say nothing about the path, nor does missing feedback.
            if excess > 0.0 && measured.media >= USED * self.target && measured.is_acknowledged {
                delta = -excess;
            }
        }
        if delta > 0.0 {
            delta = (delta * scale).min(step);
        }
        // If nothing is sent, the queueing delay is infinite.
        let too_long = measured.waiting > measured.current * config.queue_threshold.as_seconds();
        if too_long {
            let kept = config.queue_scale;
            self.on_congestion();
            self.target = (self.target + delta) * kept;
            return Moved::Down;
        }
        self.target += delta;
        if delta < 0.0 { Moved::Down } else { Moved::Up }
    }

    /// Measurements of the interval; `None` if the queue was empty and nothing was sent, because then nothing
    /// can be learned.
    fn measure(&mut self, time: TimeDelta, queue: &QueueState) -> Option<Measured> {
        let rate = |size: DataSize| size.as_bytes() as f64 * 8.0 / time.as_seconds();
        let produced = (self.sent + queue.size).saturating_sub(self.waiting);
        let waiting = self.min_waiting.unwrap_or(queue.size).min(queue.size);
        if self.sent + self.acknowledged + waiting == DataSize::ZERO {
            return None;
        }
        let media = rate(produced);
        self.media.push_back(media);
        if self.media.len() > MEDIAN {
            self.media.pop_front();
        }
        let current = rate(self.sent).max(rate(self.acknowledged));
        let is_acknowledged = self.acknowledged > DataSize::ZERO;
        Some(Measured { current, media, waiting: waiting.as_bytes() as f64 * 8.0, is_acknowledged })
    }

    fn median(&self) -> f64 {
        let mut rates: Vec<f64> = self.media.iter().copied().collect();
        rates.sort_unstable_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or(0.0)
    }

    fn cut(&mut self, to: f64) {
        self.on_congestion();
        self.target = (self.target * to).max(self.min);
    }
}

/// Measurements of an interval, in bit/s and bits.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// `current_rate_t`.
    current: f64,
    /// `rate_media`.
    media: f64,
    /// `rtp_queue_size`.
    waiting: f64,
    /// Whether anything was acknowledged.
    is_acknowledged: bool,
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    const CALM: Congestion = Congestion { fast: false, trend: 0.0, peak: 0.0 };
    const FAST: Congestion = Congestion { fast: true, ..CALM };

    /// Started at time zero, at `kbps`.
    fn begun(kbps: f64) -> MediaRate {
        let mut rate = MediaRate::new(Config::default(), (30e3, 10e6), kbps * 1e3);
        assert_eq!(rate.update(Timestamp::ZERO, &QueueState::default(), CALM), None);
        rate
    }

    /// An interval with this many bytes sent and received, and a constant queue size.
    fn interval(
        rate: &mut MediaRate,
        number: i64,
        sent: u64,
        waiting: u64,
        seen: Congestion,
    ) -> Option<Moved> {
        let size = DataSize::from_bytes(sent);
        rate.on_sent(size);
        rate.on_arrival(size);
        let queue = QueueState { size: DataSize::from_bytes(waiting), ..QueueState::default() };
        rate.on_queue(&queue);
        rate.update(Timestamp::ZERO + TimeDelta::from_millis(200 * number), &queue, seen)
    }

    #[test]
    fn fast_increase_adds_the_ramp_or_less_at_a_low_rate() {
        let mut rate = begun(1000.0);
        assert_eq!(interval(&mut rate, 1, 25_000, 0, FAST), Some(Moved::Up));
        assert!((rate.bps() - 1.04e6).abs() < 1.0, "{}", rate.bps());
        // Half of 200 kbit/s per second.
        let mut rate = begun(200.0);
        interval(&mut rate, 1, 5_000, 0, FAST);
        assert!((rate.bps() - 220e3).abs() < 1.0, "{}", rate.bps());
    }

    #[test]
    fn a_queue_of_more_than_20_ms_reduces_it() {
        // 25 000 bytes in 0.2 s are 1 Mbit/s: 2500 bytes are 20 ms.
        let mut rate = begun(1000.0);
        assert_eq!(interval(&mut rate, 1, 25_000, 2500, CALM), Some(Moved::Up));
        assert!((rate.bps() - 1.04e6).abs() < 1.0, "{}", rate.bps());
        assert_eq!(interval(&mut rate, 2, 25_000, 2501, CALM), Some(Moved::Down));
        assert!((rate.bps() - 1.08e6 * 0.95).abs() < 1.0, "{}", rate.bps());
        // Nothing is sent: no division by zero, and the rate falls to the minimum.
        assert_eq!(interval(&mut rate, 3, 0, 250_000, CALM), Some(Moved::Down));
        assert_eq!(rate.bps(), 30e3);
    }

    #[test]
    fn a_frame_just_queued_does_not_count_as_a_queue() {
        let mut rate = begun(1000.0);
        rate.on_queue(&QueueState::default());
        let queue = QueueState { size: DataSize::from_bytes(50_000), ..QueueState::default() };
        rate.on_sent(DataSize::from_bytes(25_000));
        let moved = rate.update(Timestamp::ZERO + TimeDelta::from_millis(200), &queue, CALM);
        assert_eq!(moved, Some(Moved::Up));
    }

    #[test]
    fn near_the_last_congestion_it_rises_at_20_percent_of_the_ramp() {
        let mut rate = begun(1000.0);
        rate.on_loss();
        assert!((rate.bps() - 900e3).abs() < 1.0);
        // 10 % below: (4 · 0.1)² is 0.16, so the minimum of 0.2 applies.
        interval(&mut rate, 1, 25_000, 0, FAST);
        assert!((rate.bps() - 908e3).abs() < 1.0, "{}", rate.bps());
        // A factor of two above: the full ramp.
        let mut rate = begun(1000.0);
        rate.on_congestion();
        rate.target = 2e6;
        interval(&mut rate, 1, 50_000, 0, FAST);
        assert!((rate.bps() - 2.04e6).abs() < 1.0, "{}", rate.bps());
    }

    #[test]
    fn the_congestion_point_does_not_follow_a_falling_rate() {
        let mut rate = begun(1000.0);
        rate.on_loss();
        rate.on_loss();
        rate.on_mark();
        assert_eq!(rate.inflection, 1e6);
        interval(&mut rate, 1, 25_000, 0, FAST);
        rate.on_mark();
        assert!(rate.inflection < 1e6);
    }

    #[test]
    fn it_follows_the_received_rate_only_downwards() {
        let mut rate = begun(1000.0);
        rate.follow(2e6);
        assert_eq!((rate.bps(), rate.inflection), (1e6, 1.0));
        rate.follow(400e3);
        assert!((rate.bps() - 400e3).abs() < 1e-6);
        assert_eq!(rate.inflection, 1e6);
        rate.follow(0.0);
        assert_eq!(rate.bps(), 30e3);
    }

    #[test]
    fn it_is_at_most_twice_the_media_rate() {
        let mut rate = begun(1000.0);
        assert_eq!(interval(&mut rate, 1, 5_000, 0, CALM), Some(Moved::Limited));
        assert!((rate.bps() - 400e3).abs() < 1.0, "{}", rate.bps());
        let mut rate = begun(1000.0);
        interval(&mut rate, 1, 5_000, 0, Congestion { peak: 1.0, ..CALM });
        assert!((rate.bps() - 200e3).abs() < 1.0, "{}", rate.bps());
    }

    #[test]
    fn an_empty_queue_gives_no_measurement() {
        let mut rate = begun(1000.0);
        assert_eq!(interval(&mut rate, 1, 0, 0, FAST), None);
        assert_eq!(rate.bps(), 1e6);
    }
}
