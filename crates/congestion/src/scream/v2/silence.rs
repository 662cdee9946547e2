//! Reaction to missing feedback.
//!
//! The text promises a minimum send rate without feedback (§"Security Considerations") and specifies no rule.
//! This rule is ours:
//!
//! 1. If packets are in flight and no feedback has arrived for the interval, all bytes in flight are written
//!    off, and as many bytes as the window permits may be sent again. So one window, at least the minimum
//!    window, is sent per interval, whatever is lost.
//! 2. Each time, the window is halved if something was sent since the last time: RFC 8888 §5 requires a rapid
//!    reduction if several consecutive reports are missing. The rate is that of the window over the time
//!    without feedback.
//! 3. If still nothing could be sent (a packet larger than the window), the window does not limit the next
//!    packet.
//! 4. Feedback ends this; bytes in flight count again.

use giusto_units::{DataSize, TimeDelta, Timestamp};

giusto_units::defaults! {
    /// Configuration of the reaction to missing feedback.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct SilenceConfig {
        /// The interval is two RTTs, and at least this. Default 500 ms, after which the authors' implementation
        /// assumes that nothing is in flight.
        pub min: TimeDelta = TimeDelta::from_millis(500),
        /// Maximum interval. Default 3 s.
        pub max: TimeDelta = TimeDelta::from_seconds(3),
        /// Factor on the window per interval. Default 0.5, as a retransmission timeout does with the bytes in
        /// flight (RFC 5681 §3.1).
        pub beta: f64 = 0.5,
    }
}

/// State of the reaction to missing feedback.
#[derive(Debug, Clone, Default)]
pub(super) struct Silence {
    config: SilenceConfig,
    in_flight: DataSize,
    written_off: DataSize,
    /// Time since which feedback has been expected.
    since: Option<Timestamp>,
    /// Time of the last feedback; initially of the first packet.
    feedback_at: Option<Timestamp>,
    /// Whether a packet was sent since the end of the last interval, or since the last feedback.
    has_sent: bool,
    is_silent: bool,
    is_lifted: bool,
}

impl Silence {
    /// Before the first packet.
    pub(super) fn new(config: SilenceConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Handles a sent packet of `size`, after which `in_flight` bytes are in flight.
    ///
    /// The sender discards packets that were not reported for a minute, the oldest first. These are the ones
    /// that were written off. The write-off is reduced by them; otherwise the window would permit the same
    /// amount again.
    pub(super) fn on_sent(&mut self, now: Timestamp, size: DataSize, in_flight: DataSize) {
        self.feedback_at.get_or_insert(now);
        self.since.get_or_insert(now);
        let forgotten = (self.in_flight + size).saturating_sub(in_flight);
        self.written_off = self.written_off.saturating_sub(forgotten).min(in_flight);
        self.in_flight = in_flight;
        self.has_sent = true;
        self.is_lifted = false;
    }

    /// Handles packet reports, after which `in_flight` bytes are in flight.
    pub(super) fn on_feedback(&mut self, now: Timestamp, in_flight: DataSize) {
        self.in_flight = in_flight;
        self.written_off = DataSize::ZERO;
        self.feedback_at = Some(now);
        self.since = (in_flight > DataSize::ZERO).then_some(now);
        (self.has_sent, self.is_silent, self.is_lifted) = (in_flight > DataSize::ZERO, false, false);
    }

    /// Handles the passing of time. `waits`: whether the sender's queue is not empty. Returns whether the
    /// window must be halved.
    pub(super) fn update(&mut self, now: Timestamp, rtt: TimeDelta, waits: bool) -> bool {
        let interval = self.interval(rtt);
        if self.since.is_none_or(|since| now.saturating_since(since) < interval) {
            return false;
        }
        let has_sent = core::mem::replace(&mut self.has_sent, false);
        self.written_off = self.in_flight;
        self.is_lifted = waits && !has_sent;
        // If the queue is empty, no feedback is missing until something is sent.
        self.since = waits.then_some(now);
        self.is_silent |= has_sent;
        has_sent
    }

    /// Factor on the window per interval.
    pub(super) fn beta(&self) -> f64 {
        self.config.beta
    }

    /// Time without feedback, if it is above the limit.
    pub(super) fn lasts(&self, now: Timestamp) -> Option<TimeDelta> {
        let last = self.feedback_at.filter(|_| self.is_silent)?;
        Some(now.saturating_since(last))
    }

    /// Maximum bytes in flight: `window` plus the written-off bytes; `None`: no limit.
    pub(super) fn window(&self, window: DataSize) -> Option<DataSize> {
        (!self.is_lifted).then_some(self.written_off + window)
    }

    fn interval(&self, rtt: TimeDelta) -> TimeDelta {
        (rtt * 2).min(self.config.max).max(self.config.min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    const ROUND: TimeDelta = TimeDelta::from_millis(50);
    const WINDOW: DataSize = DataSize::from_bytes(9000);

    fn size(bytes: u64) -> DataSize {
        DataSize::from_bytes(bytes)
    }

    /// Sends a packet, after which this many bytes are in flight; none are discarded.
    fn sent(silence: &mut Silence, now: u64, in_flight: u64) {
        let packet = size(in_flight).saturating_sub(silence.in_flight);
        silence.on_sent(at(now), packet, size(in_flight));
    }

    #[test]
    fn each_half_second_a_window_is_sent_and_then_halved() {
        let mut silence = Silence::new(SilenceConfig::default());
        let update = |silence: &mut Silence, now| {
            (silence.update(at(now), ROUND, true), silence.window(WINDOW).unwrap().as_bytes())
        };
        sent(&mut silence, 0, 9000);
        assert_eq!(update(&mut silence, 499), (false, 9000));
        assert_eq!(update(&mut silence, 500), (true, 18_000));
        assert_eq!(silence.lasts(at(500)), Some(TimeDelta::from_millis(500)));
        sent(&mut silence, 501, 18_000);
        assert!(!update(&mut silence, 999).0);
        assert_eq!(update(&mut silence, 1000), (true, 27_000));
        silence.on_feedback(at(1100), size(0));
        assert_eq!((silence.lasts(at(1200)), silence.window(WINDOW)), (None, Some(WINDOW)));
    }

    #[test]
    fn no_feedback_is_missing_while_nothing_is_sent() {
        let mut silence = Silence::new(SilenceConfig::default());
        assert!(!silence.update(at(10_000), ROUND, false));
        sent(&mut silence, 10_000, 1000);
        silence.on_feedback(at(10_050), size(0));
        assert!(!silence.update(at(60_000), ROUND, false));
        // The last packet of a talk spurt is lost: that is reported once.
        sent(&mut silence, 60_000, 1000);
        let fired = (600..700).filter(|tenth| silence.update(at(tenth * 100), ROUND, false));
        assert_eq!(fired.count(), 1);
    }

    #[test]
    fn a_packet_larger_than_the_window_is_sent_after_2_intervals() {
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
    fn the_interval_follows_the_rtt_up_to_its_maximum() {
        for (rtt, due) in [(10, 500), (400, 800), (60_000, 3000)] {
            let mut silence = Silence::new(SilenceConfig::default());
            sent(&mut silence, 0, 1000);
            let rtt = TimeDelta::from_millis(rtt);
            assert!(!silence.update(at(due - 1), rtt, false));
            assert!(silence.update(at(due), rtt, false), "{due} ms");
        }
    }

    #[test]
    fn discarded_packets_are_no_longer_written_off() {
        let mut silence = Silence::new(SilenceConfig::default());
        sent(&mut silence, 0, 5000);
        assert!(silence.update(at(500), ROUND, true));
        assert_eq!(silence.window(WINDOW), Some(size(14_000)));
        // Of the written-off bytes 2000 are discarded, and then all.
        silence.on_sent(at(60_000), size(1000), size(4000));
        assert_eq!(silence.window(WINDOW), Some(size(12_000)));
        silence.on_sent(at(130_000), size(1000), size(1000));
        assert_eq!(silence.window(WINDOW), Some(WINDOW));
    }
}
