//! How much may be in flight? (draft-johansson-rmcat-scream-cc-00 §9.1.4)

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::config::D00Config;

/// No packet over UDP is larger.
const LARGEST: f64 = 65_535.0;
/// What was in flight is remembered for three round trips, or for so long (RFC 7661 §4.2, "pipeACK Sampling Period"), and for as long
/// again at most.
const SAMPLING: TimeDelta = TimeDelta::from_seconds(1);
const SAMPLING_ROUND_TRIPS: f64 = 3.0;
/// A window is validated if so much of it is used (RFC 7661 §4.3).
const VALIDATED: f64 = 0.5;
/// `offTarget` counts as no less (§9.1.4).
const FURTHEST: f64 = -3.0;

/// The congestion window, in bytes.
///
/// # Validation
///
/// A window that is not used says nothing of the path (§3.1, after draft-ietf-tcpm-newcwv, which has become RFC 7661). As there, one of
/// which less than half is used is not validated: it does not grow, which is what a `cwndHeadroomMax` of 2 comes to; a loss event
/// leaves β of what was used (§4.4.1; half of it there, for TCP's β); and after five minutes it is halved (§4.4.3). What is used is
/// what was in flight at most, as `updateCwnd` counts it, not what was acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Window {
    config: D00Config,
    bytes: f64,
    packet: f64,
    last_delay: f64,
    fast: bool,
    used: InFlight,
    /// When it last was.
    validated: Option<Timestamp>,
}

/// The most that was in flight lately.
#[derive(Debug, Clone, Copy, Default)]
struct InFlight {
    /// In this period, which has begun then, and in the one before.
    periods: (f64, f64),
    since: Timestamp,
}

/// What there is to know at an acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acknowledged {
    /// What has left the flight.
    pub(super) bytes: DataSize,
    /// What was in flight before.
    pub(super) in_flight: DataSize,
    /// How long packets queue, and the smoothed round trip, in seconds.
    pub(super) delay: f64,
    pub(super) round_trip: f64,
    /// How long packets should queue, in seconds.
    pub(super) delay_target: f64,
}

impl Window {
    /// The least window, in fast start.
    pub(super) fn new(config: D00Config) -> Self {
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

    /// So much is enough: no more from now on.
    pub(super) fn follow(&mut self, enough: f64) {
        if self.bytes > enough {
            self.fast = false;
            self.bytes = enough.max(self.least());
        }
    }

    /// A packet left.
    pub(super) fn on_sent(&mut self, size: DataSize) {
        self.packet = self.packet.max((size.as_bytes() as f64).min(LARGEST));
        self.bytes = self.bytes.max(self.least());
    }

    /// So much is in flight: as feedback comes, before what it acknowledges is taken off. `round_trip` in seconds.
    pub(super) fn on_in_flight(&mut self, now: Timestamp, in_flight: DataSize, round_trip: f64) {
        let period = TimeDelta::from_seconds_f64(SAMPLING_ROUND_TRIPS * round_trip).max(SAMPLING);
        self.used.on_sample(now, in_flight.as_bytes() as f64, period);
    }

    /// Time has passed: a window that was not used for long is halved (RFC 7661 §4.4.3).
    pub(super) fn validate(&mut self, now: Timestamp) {
        let validated = *self.validated.get_or_insert(now);
        if self.is_validated() {
            self.validated = Some(now);
        } else if now.saturating_since(validated) >= self.config.validity.max(SAMPLING) {
            self.bytes = (self.bytes / 2.0).max(self.least());
            self.validated = Some(now);
        }
    }

    /// There is a loss event, or the receiver asks for less.
    pub(super) fn on_loss(&mut self) {
        let valid = if self.is_validated() { self.bytes } else { self.used.most() };
        self.cut_to(valid * self.config.beta);
    }

    /// Nothing is heard: the least.
    pub(super) fn on_silence(&mut self) {
        self.cut_to(0.0);
    }

    /// `updateCwnd`, where there is no loss event.
    pub(super) fn on_acknowledged(&mut self, seen: &Acknowledged) {
        let target = seen.delay_target;
        let off_target = (target - seen.delay) / target;
        let (least_room, most_room) = self.config.head_room;
        let head_room = least_room + off_target.max(0.0) * (most_room - least_room);
        let acknowledged = seen.bytes.as_bytes() as f64;
        let used = seen.in_flight.as_bytes() as f64 * head_room > self.bytes;
        self.fast &= seen.delay <= self.config.fast_start * target;
        let step = acknowledged * self.packet / self.bytes;
        if off_target > 0.0 {
            if used {
                self.bytes += if self.fast { acknowledged } else { self.config.gain_up * off_target * step };
            }
        } else {
            // Quickly while the delay stays or grows, half as quickly while it falls.
            let by_round_trip = (seen.round_trip.max(0.1) / 0.1).min(2.0);
            let speed = if seen.delay >= self.last_delay { by_round_trip } else { by_round_trip / 2.0 };
            self.bytes += self.config.gain_down * speed * off_target.max(FURTHEST) * step;
        }
        self.bytes = self.bytes.max(self.least());
        self.last_delay = seen.delay;
    }

    /// Whether it is in fast start.
    pub(super) fn is_fast(&self) -> bool {
        self.fast
    }

    /// `cwnd`.
    pub(super) fn bytes(&self) -> f64 {
        self.bytes
    }

    fn cut_to(&mut self, bytes: f64) {
        self.fast = false;
        self.bytes = bytes.max(self.least());
    }

    fn is_validated(&self) -> bool {
        self.used.most() >= self.bytes * VALIDATED
    }

    /// 3 · `mtuMax`, which is more than the 2 · `mss` of `cwndMin`.
    fn least(&self) -> f64 {
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

    fn most(&self) -> f64 {
        self.periods.0.max(self.periods.1)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    fn acknowledged(size: u64, in_flight: u64, delay: f64) -> Acknowledged {
        let [bytes, in_flight] = [size, in_flight].map(DataSize::from_bytes);
        Acknowledged { bytes, in_flight, delay, round_trip: 0.1, delay_target: 0.08 }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_seconds(seconds)
    }

    fn used(window: &mut Window, seconds: i64, bytes: u64) {
        window.on_in_flight(at(seconds), DataSize::from_bytes(bytes), 0.1);
        window.validate(at(seconds));
    }

    /// After fast start to 24 000 bytes.
    fn opened() -> Window {
        let mut window = Window::new(D00Config::default());
        for _ in 0..17 {
            window.on_acknowledged(&acknowledged(1200, 30_000, 0.0));
        }
        window
    }

    #[test]
    fn fast_start_adds_what_is_acknowledged_until_the_delay_grows() {
        let mut window = opened();
        assert_eq!(window.bytes(), 24_000.0);
        assert!(window.is_fast());
        // 16 ms are a fifth of the target; beyond, ¾ of a packet for each window: 1200 · 1200 / 24 000 · ¾.
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.02));
        assert!(!window.is_fast());
        assert!((window.bytes() - 24_045.0).abs() < 1e-9, "{}", window.bytes());
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.0));
        assert!(window.bytes() < 24_200.0);
    }

    #[test]
    fn it_grows_only_where_it_is_used() {
        let mut window = opened();
        // At no delay twice what was in flight has to exceed it.
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
        // Ten times the target counts as four times.
        let before = window.bytes();
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.8));
        assert!((before - window.bytes() - 3.0 * 1200.0 * 1200.0 / before).abs() < 1e-9);
    }

    #[test]
    fn a_loss_leaves_four_fifths_and_three_packets_at_least() {
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
    fn a_loss_leaves_four_fifths_of_what_was_used_where_that_is_less_than_half() {
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
    fn a_window_that_is_not_used_is_halved_each_five_minutes() {
        let mut window = opened();
        used(&mut window, 0, 24_000);
        for second in 1..=300 {
            used(&mut window, second, 6000);
        }
        // What was in flight in the first second counts for another.
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
    fn what_was_in_flight_counts_for_two_periods_at_most() {
        let mut used = InFlight::default();
        let period = TimeDelta::from_seconds(1);
        for (second, bytes, most) in [(1, 9.0, 9.0), (2, 5.0, 9.0), (3, 4.0, 5.0), (9, 1.0, 1.0)] {
            used.on_sample(at(second), bytes, period);
            assert_eq!(used.most(), most, "{second}");
        }
    }
}
