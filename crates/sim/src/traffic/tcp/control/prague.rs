//! Prague, the scalable congestion control of L4S.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::interface::{Acknowledgment, CongestionControl, ConnectionStart, Feedback};

/// Gain of the moving average of the marked share (draft-briscoe-iccrg-prague-congestion-control-04 §2.4.2; RFC 8257 §4.2).
const GAIN: f64 = 1.0 / 16.0;
/// Reference RTT: a flow with a shorter RTT grows as one with this RTT (§2.4.4).
const REFERENCE_RTT: TimeDelta = TimeDelta::from_millis(25);

giusto_units::defaults! {
    /// TCP Prague (draft-briscoe-iccrg-prague-congestion-control-04), which reduces its window by half the marked share.
    ///
    /// | rule | here | draft |
    /// |---|---|---|
    /// | marked share `alpha` | moving average per reference RTT, gain 1/16, starts at 1 | §2.4.2 |
    /// | decrease | `alpha / 2` of the window, at most once per RTT | §2.4.2 |
    /// | increase | a segment per RTT, times (RTT / reference RTT)² below a reference RTT of 25 ms, for unmarked data only | §2.4.3, §2.4.4 |
    /// | loss | half the window, less what marks took in the same RTT | §2.4.1 |
    /// | slow start | ends at the first mark or loss | §2.4 |
    /// | pacing | one window per smoothed RTT, twice that in slow start | §2.5.1 |
    ///
    /// Not implemented: the fallback for classic ECN queues (§2.4.1), and reduced RTT dependence only after 500 RTTs.
    #[derive(Debug)]
    pub struct Prague {
        segment: f64 = 1.0,
        /// Window and threshold in bytes.
        window: f64 = 1.0,
        threshold: f64 = f64::INFINITY,
        alpha: f64 = 1.0,
        smoothed_rtt: TimeDelta = TimeDelta::ZERO,
        /// Segments acknowledged and marked since the last update of `alpha`.
        acknowledged: f64 = 0.0,
        marked: f64 = 0.0,
        updated: Timestamp = Timestamp::ZERO,
        /// End of the data sent before the last reduction by marks, and the window before it.
        reduced_until: u64 = 0,
        before_reduction: f64 = 0.0,
        /// Share of the last acknowledgement that was marked.
        marked_share: f64 = 0.0,
        /// Window and threshold before the last timeout.
        before_timeout: (f64, f64) = (0.0, 0.0),
    }
    /// Creates a congestion control without a connection.
    pub fn new();
}

impl Prague {
    /// Moving average of the marked share (`alpha`), from 0 to 1.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    fn lower_bound(&self) -> f64 {
        2.0 * self.segment
    }
}

impl Default for Prague {
    fn default() -> Self {
        Self::new()
    }
}

impl CongestionControl for Prague {
    fn on_start(&mut self, start: ConnectionStart) {
        let threshold = if start.threshold == u64::MAX { f64::INFINITY } else { start.threshold as f64 };
        *self = Self { segment: start.segment as f64, window: start.window as f64, threshold, ..Self::new() };
    }

    fn window(&self) -> u64 {
        (self.window + 1e-3) as u64
    }

    fn threshold(&self) -> u64 {
        // The conversion saturates.
        self.threshold as u64
    }

    fn pacing_rate(&self) -> Option<DataRate> {
        let rtt = self.smoothed_rtt.as_seconds();
        let gain = if self.window < self.threshold { 2.0 } else { 1.0 };
        (rtt > 0.0).then(|| DataRate::from_bps((gain * self.window * 8.0 / rtt) as u64))
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        self.smoothed_rtt = feedback.smoothed_rtt;
        let segments = feedback.delivered as f64 / self.segment;
        let marked = feedback.marked as f64;
        self.acknowledged += segments;
        self.marked += marked;
        self.marked_share = if segments > 0.0 { (marked / segments).min(1.0) } else { 0.0 };
        if now.saturating_since(self.updated) >= feedback.smoothed_rtt.max(REFERENCE_RTT) {
            if self.acknowledged > 0.0 {
                let share = (self.marked / self.acknowledged).min(1.0);
                self.alpha += GAIN * (share - self.alpha);
            }
            self.updated = now;
            self.acknowledged = 0.0;
            self.marked = 0.0;
        }
        if feedback.marked > 0 && feedback.first_unacknowledged >= self.reduced_until {
            self.before_reduction = self.window;
            self.window = (self.window * (1.0 - self.alpha / 2.0)).max(self.lower_bound());
            self.threshold = self.window;
            self.reduced_until = feedback.next_sequence;
        }
    }

    fn on_ack(&mut self, _now: Timestamp, ack: Acknowledgment) {
        if !ack.window_limited {
            return;
        }
        let unmarked = ack.bytes as f64 * (1.0 - self.marked_share);
        if self.window < self.threshold {
            self.window = (self.window + unmarked.min(8.0 * self.segment)).min(self.threshold);
            return;
        }
        let ratio = (ack.smoothed_rtt.as_seconds() / REFERENCE_RTT.as_seconds()).min(1.0);
        self.window += ratio * ratio * self.segment * unmarked / self.window;
    }

    fn on_congestion(&mut self, _now: Timestamp, flight: u64) {
        let before = if self.window < self.before_reduction { self.before_reduction } else { self.window };
        self.before_reduction = 0.0;
        let half = before.min((flight as f64).max(self.window)) / 2.0;
        self.window = half.max(self.lower_bound()).min(self.window.max(self.lower_bound()));
        self.threshold = self.window;
    }

    fn on_timeout(&mut self, _now: Timestamp, flight: u64, is_repeated: bool) {
        if !is_repeated {
            self.before_timeout = (self.window, self.threshold);
            self.threshold = (flight as f64 / 2.0).max(self.lower_bound());
        }
        self.window = self.segment;
    }

    fn on_spurious_timeout(&mut self, _now: Timestamp) {
        let (window, threshold) = self.before_timeout;
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
    }

    fn limit_window(&mut self, _now: Timestamp, window: u64) {
        self.window = self.window.min(window as f64).max(self.segment);
    }
}
