//! Congestion window (RFC 8298 §4.1.2.2).

use alloc::collections::VecDeque;

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::config::Config;

/// History of `max_bytes_in_flight` (§4.1.2.2), in steps of 100 ms.
const LOOK_BACK: TimeDelta = TimeDelta::from_seconds(5);
const STEP: TimeDelta = TimeDelta::from_millis(100);
/// Maximum size of a UDP packet.
const LARGEST: f64 = 65_535.0;

/// The congestion window, in bytes.
#[derive(Debug, Clone)]
pub(super) struct Window {
    config: Config,
    bytes: f64,
    packet: f64,
    /// Maximum of the bytes in flight in each step, with the start time of the step.
    max: VecDeque<(Timestamp, f64)>,
    fast: bool,
}

/// Input of the window at an acknowledgement, in bytes and seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acknowledged {
    /// Bytes that are no longer in flight, lost or not (§4.1.2).
    pub(super) bytes: DataSize,
    /// Bytes still in flight.
    pub(super) in_flight: DataSize,
    /// Queueing delay, and its target.
    pub(super) delay: f64,
    pub(super) delay_target: f64,
    pub(super) trend: f64,
}

impl Window {
    /// The minimum window, in fast increase.
    pub(super) fn new(config: Config) -> Self {
        let (bytes, packet) = (config.min_window.as_bytes() as f64, config.packet.as_bytes() as f64);
        Self { config, bytes, packet: packet.min(LARGEST), max: VecDeque::new(), fast: true }
    }

    /// Handles a sent packet, after which `in_flight` bytes are in flight.
    pub(super) fn on_sent(&mut self, now: Timestamp, size: DataSize, in_flight: DataSize) {
        self.packet = self.packet.max((size.as_bytes() as f64).min(LARGEST));
        let in_flight = in_flight.as_bytes() as f64;
        while self.max.front().is_some_and(|&(since, _)| now.saturating_since(since) > LOOK_BACK) {
            self.max.pop_front();
        }
        match self.max.back_mut() {
            Some((since, max)) if now.saturating_since(*since) < STEP => *max = max.max(in_flight),
            _ => self.max.push_back((now, in_flight)),
        }
    }

    /// `on congestion event` with a loss.
    pub(super) fn on_loss(&mut self) {
        self.cut(self.config.beta_loss);
    }

    /// `on congestion event` with a mark and no loss.
    pub(super) fn on_mark(&mut self) {
        self.cut(self.config.beta_mark);
    }

    /// Handles missing feedback: sets the minimum window.
    pub(super) fn on_silence(&mut self) {
        self.cut(0.0);
    }

    /// `update_cwnd`. Returns whether fast increase has ended.
    pub(super) fn on_acknowledged(&mut self, seen: &Acknowledged) -> bool {
        let (acknowledged, in_flight) = (seen.bytes.as_bytes() as f64, seen.in_flight.as_bytes() as f64);
        let ends = self.fast && seen.trend >= self.config.trend_threshold;
        if ends {
            self.fast = false;
        }
        if self.fast {
            if in_flight * 1.5 + acknowledged > self.bytes {
                self.bytes += acknowledged;
            }
            return false;
        }
        let off_target = (seen.delay_target - seen.delay) / seen.delay_target;
        let used = in_flight * 1.25 + acknowledged > self.bytes;
        if off_target <= 0.0 || used {
            self.bytes += self.config.gain * off_target * acknowledged * self.packet / self.bytes;
        }
        let max = self.max.iter().map(|&(_, max)| max).fold(0.0, f64::max);
        self.bytes = self.bytes.min(max * self.config.head_room);
        self.bytes = self.bytes.max(self.min());
        ends
    }

    /// Limits the window to `enough`. Returns whether that reduced it.
    pub(super) fn follow(&mut self, enough: f64) -> bool {
        let falls = self.bytes > enough;
        if falls {
            self.fast = false;
            self.bytes = enough.max(self.min());
        }
        falls
    }

    /// Resumes fast increase.
    pub(super) fn resume(&mut self) {
        self.fast = true;
    }

    /// `in_fast_increase`.
    pub(super) fn is_fast(&self) -> bool {
        self.fast
    }

    /// `cwnd`.
    pub(super) fn bytes(&self) -> f64 {
        self.bytes
    }

    /// Maximum bytes in flight (§4.1.2.5): one packet more while the delay is within its target.
    pub(super) fn allowed(&self, delay: f64, delay_target: f64) -> f64 {
        if delay <= delay_target { self.bytes + self.packet } else { self.bytes }
    }

    fn cut(&mut self, to: f64) {
        self.fast = false;
        self.bytes = (self.bytes * to).max(self.min());
    }

    fn min(&self) -> f64 {
        self.config.min_window.as_bytes().max(1) as f64
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_millis(millis)
    }

    fn bytes(bytes: u64) -> DataSize {
        DataSize::from_bytes(bytes)
    }

    fn acknowledged(size: u64, in_flight: u64, delay: f64, trend: f64) -> Acknowledged {
        Acknowledged { bytes: bytes(size), in_flight: bytes(in_flight), delay, delay_target: 0.1, trend }
    }

    /// In fast increase up to 20 000 bytes, with the window fully used.
    fn opened() -> Window {
        let mut window = Window::new(Config::default());
        for _ in 0..17 {
            window.on_acknowledged(&acknowledged(1000, 20_000, 0.0, 0.0));
        }
        window.on_sent(at(0), bytes(1000), bytes(20_000));
        window
    }

    #[test]
    fn fast_increase_adds_acknowledged_bytes_while_used() {
        let mut window = opened();
        assert_eq!(window.bytes(), 20_000.0);
        // 12 000 · 1.5 + 1000 is 19 000: too few bytes are in flight.
        window.on_acknowledged(&acknowledged(1000, 12_000, 0.0, 0.0));
        assert_eq!(window.bytes(), 20_000.0);
        window.on_acknowledged(&acknowledged(2001, 12_000, 0.0, 0.0));
        assert_eq!(window.bytes(), 22_001.0);
    }

    #[test]
    fn without_fast_increase_the_window_moves_as_in_ledbat() {
        let mut window = opened();
        assert!(
            window.on_acknowledged(&acknowledged(2000, 20_000, 0.05, 0.2)),
            "the trend ends fast increase"
        );
        // GAIN · ½ · 2000 · 1000 / 20 000.
        assert_eq!(window.bytes(), 20_050.0);
        let before = window.bytes();
        window.on_acknowledged(&acknowledged(2000, 20_000, 0.3, 0.0));
        assert!((before - window.bytes() - 2.0 * 2000.0 * 1000.0 / before).abs() < 1e-9);
        // If too little is used it does not grow, but it may fall.
        let before = window.bytes();
        window.on_acknowledged(&acknowledged(1000, 10_000, 0.0, 0.0));
        assert_eq!(window.bytes(), before);
        window.on_acknowledged(&acknowledged(1000, 10_000, 0.2, 0.0));
        assert!(window.bytes() < before);
    }

    #[test]
    fn it_is_limited_by_the_bytes_in_flight_of_the_last_5_s() {
        let mut window = opened();
        window.on_sent(at(4000), bytes(1000), bytes(10_000));
        window.on_acknowledged(&acknowledged(0, 10_000, 0.1, 1.0));
        assert_eq!(window.bytes(), 20_000.0);
        window.on_sent(at(5001), bytes(1000), bytes(1000));
        window.on_acknowledged(&acknowledged(0, 10_000, 0.1, 1.0));
        assert!((window.bytes() - 11_000.0).abs() < 1e-6, "{}", window.bytes());
    }

    #[test]
    fn losses_and_marks_reduce_it_to_no_less_than_the_minimum() {
        let mut window = opened();
        window.on_mark();
        assert_eq!((window.bytes(), window.is_fast()), (18_000.0, false));
        window.on_loss();
        assert!((window.bytes() - 14_400.0).abs() < 1e-9);
        for _ in 0..50 {
            window.on_loss();
        }
        assert_eq!(window.bytes(), 3000.0);
        let mut window = opened();
        window.on_silence();
        assert_eq!(window.bytes(), 3000.0);
    }

    #[test]
    fn it_follows_downwards_to_the_minimum_and_never_upwards() {
        let mut window = opened();
        assert!(!window.follow(20_000.0));
        assert!(window.is_fast());
        assert!(window.follow(12_000.0));
        assert_eq!((window.bytes(), window.is_fast()), (12_000.0, false));
        assert!(window.follow(0.0));
        assert_eq!(window.bytes(), 3000.0);
    }

    #[test]
    fn one_more_packet_may_be_in_flight_within_the_delay_target() {
        let mut window = opened();
        assert_eq!((window.allowed(0.1, 0.1), window.allowed(0.11, 0.1)), (21_000.0, 20_000.0));
        window.on_sent(at(0), bytes(1228), bytes(0));
        assert_eq!(window.allowed(0.1, 0.1), 21_228.0);
    }
}
