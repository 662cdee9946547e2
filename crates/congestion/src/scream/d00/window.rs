//! Congestion window (draft-johansson-rmcat-scream-cc-00 §9.1.4).

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::config::Config;

/// Maximum size of a UDP packet.
const LARGEST: f64 = 65_535.0;
/// The maximum of the bytes in flight is kept for three RTTs, at least for this time (RFC 7661 §4.2, "pipeACK
/// Sampling Period"), and at most twice as long.
const SAMPLING: TimeDelta = TimeDelta::from_seconds(1);
const SAMPLING_ROUND_TRIPS: f64 = 3.0;
/// Share of the window that must be used for the window to be validated (RFC 7661 §4.3).
const VALIDATED: f64 = 0.5;
/// Minimum value of `offTarget` (§9.1.4).
const FURTHEST: f64 = -3.0;

/// The congestion window, in bytes.
///
/// # Validation
///
/// A window that is not used contains no information about the path (§3.1, after draft-ietf-tcpm-newcwv,
/// which became RFC 7661). As in that RFC, a window of which less than half is used is not validated. It does
/// not grow, which results from a `cwndHeadroomMax` of 2. A loss event sets it to β times the used part
/// (§4.4.1; half of it there, for TCP's β). After five minutes it is halved (§4.4.3). The used part is the
/// maximum of the bytes in flight, as `updateCwnd` counts it, not the acknowledged bytes.
#[derive(Debug, Clone)]
pub(super) struct Window {
    config: Config,
    bytes: f64,
    packet: f64,
    last_delay: f64,
    fast: bool,
    used: InFlight,
    /// Time at which it was last validated.
    validated: Option<Timestamp>,
}

/// Recent maximum of the bytes in flight.
#[derive(Debug, Clone, Copy, Default)]
struct InFlight {
    /// Maximum in the current period, which began at this time, and in the previous one.
    periods: (f64, f64),
    since: Timestamp,
}

/// Input of the window at an acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acknowledged {
    /// Bytes that are no longer in flight.
    pub(super) bytes: DataSize,
    /// Bytes in flight before the acknowledgement.
    pub(super) in_flight: DataSize,
    /// Queueing delay and smoothed RTT, in seconds.
    pub(super) delay: f64,
    pub(super) rtt: f64,
    /// Target of the queueing delay, in seconds.
    pub(super) delay_target: f64,
}

impl Window {
    /// The minimum window, in fast start.
    pub(super) fn new(config: Config) -> Self {
        let packet = (config.packet.as_bytes() as f64).clamp(1.0, LARGEST);
        Self {
            config,
            bytes: 3.0 * packet,
            packet,
            last_delay: 0.0,
            fast: true,
            used: InFlight::default(),
            validated: None,
        }
    }

    /// Limits the window to `enough`.
    pub(super) fn follow(&mut self, enough: f64) {
        if self.bytes > enough {
            self.fast = false;
            self.bytes = enough.max(self.min());
        }
    }

    /// Handles a sent packet.
    pub(super) fn on_sent(&mut self, size: DataSize) {
        self.packet = self.packet.max((size.as_bytes() as f64).min(LARGEST));
        self.bytes = self.bytes.max(self.min());
    }

    /// Sets the bytes in flight when feedback arrives, before the acknowledged bytes are subtracted.
    /// `rtt` in seconds.
    pub(super) fn on_in_flight(&mut self, now: Timestamp, in_flight: DataSize, rtt: f64) {
        let period = TimeDelta::from_seconds_f64(SAMPLING_ROUND_TRIPS * rtt).max(SAMPLING);
        self.used.on_sample(now, in_flight.as_bytes() as f64, period);
    }

    /// Handles the passing of time: a window that was unused for long is halved (RFC 7661 §4.4.3).
    pub(super) fn validate(&mut self, now: Timestamp) {
        let validated = *self.validated.get_or_insert(now);
        if self.is_validated() {
            self.validated = Some(now);
        } else if now.saturating_since(validated) >= self.config.validity.max(SAMPLING) {
            self.bytes = (self.bytes / 2.0).max(self.min());
            self.validated = Some(now);
        }
    }

    /// Handles a loss event or source quench.
    pub(super) fn on_loss(&mut self) {
        let valid = if self.is_validated() { self.bytes } else { self.used.max() };
        self.cut_to(valid * self.config.beta);
    }

    /// Handles missing feedback: sets the minimum window.
    pub(super) fn on_silence(&mut self) {
        self.cut_to(0.0);
    }

    /// `updateCwnd` without a loss event.
    pub(super) fn on_acknowledged(&mut self, seen: &Acknowledged) {
        let target = seen.delay_target;
        let off_target = (target - seen.delay) / target;
        let (min_room, max_room) = self.config.head_room;
        let head_room = min_room + off_target.max(0.0) * (max_room - min_room);
        let acknowledged = seen.bytes.as_bytes() as f64;
        let used = seen.in_flight.as_bytes() as f64 * head_room > self.bytes;
        self.fast &= seen.delay <= self.config.fast_start * target;
        let step = acknowledged * self.packet / self.bytes;
        if off_target > 0.0 {
            if used {
                self.bytes += if self.fast { acknowledged } else { self.config.gain_up * off_target * step };
            }
        } else {
            // Fast while the delay is constant or grows, half as fast while it falls.
            let by_rtt = (seen.rtt.max(0.1) / 0.1).min(2.0);
            let speed = if seen.delay >= self.last_delay { by_rtt } else { by_rtt / 2.0 };
            self.bytes += self.config.gain_down * speed * off_target.max(FURTHEST) * step;
        }
        self.bytes = self.bytes.max(self.min());
        self.last_delay = seen.delay;
    }

    /// Whether it is in fast start.
    #[cfg(test)]
    pub(super) fn is_fast(&self) -> bool {
        self.fast
    }

    /// `cwnd`.
    pub(super) fn bytes(&self) -> f64 {
        self.bytes
    }

    fn cut_to(&mut self, bytes: f64) {
        self.fast = false;
        self.bytes = bytes.max(self.min());
    }

    fn is_validated(&self) -> bool {
        self.used.max() >= self.bytes * VALIDATED
    }

    /// 3 · `mtuMax`, which is more than the 2 · `mss` of `cwndMin`.
    fn min(&self) -> f64 {
        3.0 * self.packet
    }
}

impl InFlight {
    fn on_sample(&mut self, now: Timestamp, bytes: f64, period: TimeDelta) {
        let passed = now.saturating_since(self.since);
        if passed >= period {
            let before = if passed < period * 2 { self.periods.0 } else { 0.0 };
            (self.periods, self.since) = ((0.0, before), now);
        }
        self.periods.0 = self.periods.0.max(bytes);
    }

    fn max(&self) -> f64 {
        self.periods.0.max(self.periods.1)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    fn acknowledged(size: u64, in_flight: u64, delay: f64) -> Acknowledged {
        let [bytes, in_flight] = [size, in_flight].map(DataSize::from_bytes);
        Acknowledged { bytes, in_flight, delay, rtt: 0.1, delay_target: 0.08 }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_seconds(seconds)
    }

    fn used(window: &mut Window, seconds: i64, bytes: u64) {
        window.on_in_flight(at(seconds), DataSize::from_bytes(bytes), 0.1);
        window.validate(at(seconds));
    }

    /// After fast start, at 24 000 bytes.
    fn opened() -> Window {
        let mut window = Window::new(Config::default());
        for _ in 0..17 {
            window.on_acknowledged(&acknowledged(1200, 30_000, 0.0));
        }
        window
    }

    #[test]
    fn fast_start_adds_acknowledged_bytes_until_the_delay_grows() {
        let mut window = opened();
        assert_eq!(window.bytes(), 24_000.0);
        assert!(window.is_fast());
        // 16 ms is a fifth of the target. Beyond that, ¾ of a packet per window: 1200 · 1200 / 24 000 · ¾.
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.02));
        assert!(!window.is_fast());
        assert!((window.bytes() - 24_045.0).abs() < 1e-9, "{}", window.bytes());
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.0));
        assert!(window.bytes() < 24_200.0);
    }

    #[test]
    fn it_grows_only_while_it_is_used() {
        let mut window = opened();
        // At zero delay, twice the bytes in flight must exceed the window.
        window.on_acknowledged(&acknowledged(1200, 12_000, 0.0));
        assert_eq!(window.bytes(), 24_000.0);
        window.on_acknowledged(&acknowledged(1200, 12_001, 0.0));
        assert_eq!(window.bytes(), 25_200.0);
    }

    #[test]
    fn it_falls_twice_as_fast_while_the_delay_grows() {
        let mut window = opened();
        // Twice the target: off by −1.
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.16));
        assert!((window.bytes() - (24_000.0 - 60.0)).abs() < 1e-9, "{}", window.bytes());
        let before = window.bytes();
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.159_999));
        let expected = 0.5 * 1200.0 * 1200.0 / before;
        assert!((before - window.bytes() - expected).abs() < 0.01, "{}", window.bytes());
        // Ten times the target counts as four times the target.
        let before = window.bytes();
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.8));
        assert!((before - window.bytes() - 3.0 * 1200.0 * 1200.0 / before).abs() < 1e-9);
    }

    #[test]
    fn a_loss_reduces_it_by_20_percent_to_at_least_3_packets() {
        let mut window = opened();
        used(&mut window, 1, 24_000);
        window.on_loss();
        assert!((window.bytes() - 19_200.0).abs() < 1e-9 && !window.is_fast());
        for _ in 0..20 {
            window.on_loss();
        }
        assert_eq!(window.bytes(), 3600.0);
        window.on_sent(DataSize::from_bytes(1400));
        assert_eq!(window.bytes(), 4200.0);
    }

    #[test]
    fn a_loss_reduces_an_unused_window_to_80_percent_of_its_use() {
        let mut window = opened();
        used(&mut window, 1, 12_000);
        window.on_loss();
        assert!((window.bytes() - 19_200.0).abs() < 1e-9, "half is enough: {}", window.bytes());
        let mut window = opened();
        used(&mut window, 1, 11_000);
        window.on_loss();
        assert!((window.bytes() - 8800.0).abs() < 1e-9, "{}", window.bytes());
    }

    #[test]
    fn an_unused_window_is_halved_every_5_minutes() {
        let mut window = opened();
        used(&mut window, 0, 24_000);
        for second in 1..=300 {
            used(&mut window, second, 6000);
        }
        // The bytes in flight of the first second count for another period.
        assert_eq!(window.bytes(), 24_000.0);
        used(&mut window, 301, 6000);
        assert_eq!(window.bytes(), 12_000.0);
        // Now half of it is used.
        for second in 302..1000 {
            used(&mut window, second, 6000);
        }
        assert_eq!(window.bytes(), 12_000.0);
        for second in 1000..2000 {
            used(&mut window, second, 1000);
        }
        assert_eq!(window.bytes(), 3600.0, "three packets at least");
    }

    #[test]
    fn the_bytes_in_flight_count_for_at_most_two_periods() {
        let mut used = InFlight::default();
        let period = TimeDelta::from_seconds(1);
        for (second, bytes, max) in [(1, 9.0, 9.0), (2, 5.0, 9.0), (3, 4.0, 5.0), (9, 1.0, 1.0)] {
            used.on_sample(at(second), bytes, period);
            assert_eq!(used.max(), max, "{second}");
        }
    }
}
