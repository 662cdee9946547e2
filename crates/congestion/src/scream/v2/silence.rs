//! What if no feedback comes?
//!
//! The text promises a least sending rate without feedback (§"Security Considerations") and has no rule for it. This is ours:
//!
//! 1. If something is in flight and nothing has been heard for the interval, all that is in flight is written off: as much as the
//!    window allows may leave besides it. So a window's worth, at least the least window, leaves each interval, whatever is lost.
//! 2. Each time, the window is halved, if something was sent since the last time: RFC 8888 §5 wants a rapid reduction where several
//!    reports in a row are missing. The rate is that of the window over the time that nothing was heard.
//! 3. If nothing could leave all the same (a packet larger than the window), the window is no bound until something has left.
//! 4. Feedback ends it; what is in flight counts again.

use giusto_units::{DataSize, TimeDelta, Timestamp};

/// What is settable of silence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SilenceConfig {
    /// The interval is two round trips, and at least this. Default 500 ms, after which the authors' implementation takes nothing
    /// to be in flight.
    pub least: TimeDelta,
    /// And at most this. Default 3 s.
    pub most: TimeDelta,
    /// What the first and each further interval leaves of the window. Default 0.5, as a retransmission timeout leaves of what is in
    /// flight (RFC 5681 §3.1).
    pub beta: f64,
}

impl Default for SilenceConfig {
    fn default() -> Self {
        Self { least: TimeDelta::from_millis(500), most: TimeDelta::from_seconds(3), beta: 0.5 }
    }
}

/// What is missed.
#[derive(Debug, Clone)]
pub struct Silence {
    config: SilenceConfig,
    in_flight: DataSize,
    written_off: DataSize,
    /// Since when an answer is waited for.
    since: Option<Timestamp>,
    /// When an answer last came, or the first packet left.
    heard: Option<Timestamp>,
    /// Whether something was sent since the last interval ended, or since the last answer.
    has_sent: bool,
    is_silent: bool,
    is_lifted: bool,
}

impl Silence {
    /// Nothing was sent.
    pub fn new(config: SilenceConfig) -> Self {
        Self {
            config,
            in_flight: DataSize::ZERO,
            written_off: DataSize::ZERO,
            since: None,
            heard: None,
            has_sent: false,
            is_silent: false,
            is_lifted: false,
        }
    }

    /// A packet of `size` has left; with it, so much is in flight.
    ///
    /// The sender forgets what nobody has told of for a minute, the oldest first, which is what is written off: the window that it had
    /// besides may not stay, or it would let through as much again.
    pub fn on_sent(&mut self, now: Timestamp, size: DataSize, in_flight: DataSize) {
        self.heard.get_or_insert(now);
        self.since.get_or_insert(now);
        let forgotten = (self.in_flight + size).saturating_sub(in_flight);
        self.written_off = self.written_off.saturating_sub(forgotten).min(in_flight);
        self.in_flight = in_flight;
        self.has_sent = true;
        self.is_lifted = false;
    }

    /// Packets were reported; so much is in flight still.
    pub fn on_heard(&mut self, now: Timestamp, in_flight: DataSize) {
        self.in_flight = in_flight;
        self.written_off = DataSize::ZERO;
        self.heard = Some(now);
        self.since = (in_flight > DataSize::ZERO).then_some(now);
        (self.has_sent, self.is_silent, self.is_lifted) = (in_flight > DataSize::ZERO, false, false);
    }

    /// Time has passed, and something `waits` or not. Says whether the window is to be halved.
    pub fn update(&mut self, now: Timestamp, round_trip: TimeDelta, waits: bool) -> bool {
        let interval = self.interval(round_trip);
        if self.since.is_none_or(|since| now.saturating_since(since) < interval) {
            return false;
        }
        let has_sent = std::mem::replace(&mut self.has_sent, false);
        self.written_off = self.in_flight;
        self.is_lifted = waits && !has_sent;
        // If nothing waits, nothing is missed until something is sent.
        self.since = waits.then_some(now);
        self.is_silent |= has_sent;
        has_sent
    }

    /// What is left of the window after each interval.
    pub fn beta(&self) -> f64 {
        self.config.beta
    }

    /// For how long nothing was heard, if too long.
    pub fn lasts(&self, now: Timestamp) -> Option<TimeDelta> {
        let heard = self.heard.filter(|_| self.is_silent)?;
        Some(now.saturating_since(heard))
    }

    /// What may be in flight, where `window` may that is not written off; `None`: there is no bound.
    pub fn window(&self, window: DataSize) -> Option<DataSize> {
        (!self.is_lifted).then_some(self.written_off + window)
    }

    fn interval(&self, round_trip: TimeDelta) -> TimeDelta {
        (round_trip * 2).min(self.config.most).max(self.config.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: TimeDelta = TimeDelta::from_millis(50);
    const WINDOW: DataSize = DataSize::from_bytes(9000);

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn size(bytes: u64) -> DataSize {
        DataSize::from_bytes(bytes)
    }

    /// A packet leaves, and with it so much is in flight; nothing is forgotten.
    fn sent(silence: &mut Silence, now: u64, in_flight: u64) {
        let packet = size(in_flight).saturating_sub(silence.in_flight);
        silence.on_sent(at(now), packet, size(in_flight));
    }

    #[test]
    fn a_window_leaves_each_half_second_and_each_halves() {
        let mut silence = Silence::new(SilenceConfig::default());
        sent(&mut silence, 0, 9000);
        assert_eq!((silence.update(at(499), ROUND, true), silence.window(WINDOW)), (false, Some(WINDOW)));
        assert_eq!(
            (silence.update(at(500), ROUND, true), silence.window(WINDOW)),
            (true, Some(size(18_000)))
        );
        assert_eq!(silence.lasts(at(500)), Some(TimeDelta::from_millis(500)));
        sent(&mut silence, 501, 18_000);
        assert!(!silence.update(at(999), ROUND, true));
        assert_eq!(
            (silence.update(at(1000), ROUND, true), silence.window(WINDOW)),
            (true, Some(size(27_000)))
        );
        silence.on_heard(at(1100), size(0));
        assert_eq!((silence.lasts(at(1200)), silence.window(WINDOW)), (None, Some(WINDOW)));
    }

    #[test]
    fn who_sends_nothing_misses_nothing() {
        let mut silence = Silence::new(SilenceConfig::default());
        assert!(!silence.update(at(10_000), ROUND, false));
        sent(&mut silence, 10_000, 1000);
        silence.on_heard(at(10_050), size(0));
        assert!(!silence.update(at(60_000), ROUND, false));
        // The last packet of a talk is lost: that is told once.
        sent(&mut silence, 60_000, 1000);
        let fired =
            (60_000..70_000).step_by(100).filter(|&now| silence.update(at(now), ROUND, false)).count();
        assert_eq!(fired, 1);
    }

    #[test]
    fn what_does_not_fit_leaves_after_two_intervals() {
        let mut silence = Silence::new(SilenceConfig::default());
        sent(&mut silence, 0, 1000);
        assert!(silence.update(at(500), ROUND, true));
        assert!(silence.window(WINDOW).is_some());
        assert!(!silence.update(at(1000), ROUND, true), "nothing was sent that could be missed");
        assert_eq!(silence.window(WINDOW), None);
        sent(&mut silence, 1000, 60_000);
        assert!(silence.window(WINDOW).is_some());
    }

    #[test]
    fn long_round_trips_are_waited_for_and_endless_ones_are_not() {
        for (round_trip, due) in [(10, 500), (400, 800), (60_000, 3000)] {
            let mut silence = Silence::new(SilenceConfig::default());
            sent(&mut silence, 0, 1000);
            let round_trip = TimeDelta::from_millis(round_trip);
            assert!(!silence.update(at(due - 1), round_trip, false));
            assert!(silence.update(at(due), round_trip, false), "{due} ms");
        }
    }

    #[test]
    fn what_the_sender_forgets_is_written_off_no_more() {
        let mut silence = Silence::new(SilenceConfig::default());
        sent(&mut silence, 0, 5000);
        assert!(silence.update(at(500), ROUND, true));
        assert_eq!(silence.window(WINDOW), Some(size(14_000)));
        // Of what is written off 2000 bytes are forgotten, and then all.
        silence.on_sent(at(60_000), size(1000), size(4000));
        assert_eq!(silence.window(WINDOW), Some(size(12_000)));
        silence.on_sent(at(130_000), size(1000), size(1000));
        assert_eq!(silence.window(WINDOW), Some(WINDOW));
    }
}
