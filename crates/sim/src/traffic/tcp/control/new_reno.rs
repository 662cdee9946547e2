//! NewReno, the standard TCP congestion control (RFC 5681).

use giusto_units::Timestamp;

use super::{
    interface::{Acknowledgment, CongestionControl, ConnectionStart},
    slow_start::SlowStart,
};

/// Standard TCP congestion control (RFC 5681 §3.1) with byte counting.
///
/// In congestion avoidance the window grows by one segment when a full window has been acknowledged. It therefore grows by
/// one segment per RTT with or without delayed acknowledgements. Counting acknowledgements would halve the growth if they
/// are delayed.
#[derive(Debug)]
pub struct NewReno {
    segment: u64,
    window: u64,
    threshold: u64,
    slow_start: SlowStart,
    /// Bytes acknowledged towards the next segment of growth.
    counted: u64,
    /// Window and threshold before the last timeout.
    before_timeout: (u64, u64),
}

impl NewReno {
    /// Creates a congestion control without a connection.
    pub fn new() -> Self {
        let start = ConnectionStart {
            segment: 1,
            window: 1,
            threshold: u64::MAX,
            slow_start_limit: 1,
            hystart: false,
        };
        Self::started(&start)
    }

    fn started(start: &ConnectionStart) -> Self {
        Self {
            segment: start.segment,
            window: start.window,
            threshold: start.threshold,
            slow_start: SlowStart::new(start),
            counted: 0,
            before_timeout: (0, 0),
        }
    }

    /// RFC 5681 §3.1 eq. 4.
    fn half(&self, flight: u64) -> u64 {
        (flight / 2).max(2 * self.segment)
    }
}

impl Default for NewReno {
    fn default() -> Self {
        Self::new()
    }
}

impl CongestionControl for NewReno {
    fn on_start(&mut self, start: ConnectionStart) {
        *self = Self::started(&start);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn threshold(&self) -> u64 {
        self.threshold
    }

    fn on_ack(&mut self, _now: Timestamp, ack: Acknowledgment) {
        if self.window < self.threshold {
            self.window = (self.window + self.slow_start.on_ack(&ack)).min(self.threshold);
            if self.slow_start.is_over() {
                self.threshold = self.window;
            }
            return;
        }
        if !ack.window_limited {
            return;
        }
        self.slow_start.on_end();
        self.counted += ack.bytes;
        if self.counted >= self.window {
            // Grows by at most one segment per RTT, however much data one acknowledgement covers.
            self.counted = (self.counted - self.window).min(self.window);
            self.window += self.segment;
        }
    }

    fn on_congestion(&mut self, _now: Timestamp, flight: u64) {
        self.threshold = self.half(flight);
        self.window = self.threshold;
        self.counted = 0;
        self.slow_start.on_end();
    }

    fn on_timeout(&mut self, _now: Timestamp, flight: u64, is_repeated: bool) {
        if !is_repeated {
            self.before_timeout = (self.window, self.threshold);
            self.threshold = self.half(flight);
        }
        self.window = self.segment;
        self.counted = 0;
        self.slow_start.on_timeout();
    }

    fn on_spurious_timeout(&mut self, _now: Timestamp) {
        let (window, threshold) = self.before_timeout;
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
        self.slow_start.on_end();
    }

    fn limit_window(&mut self, _now: Timestamp, window: u64) {
        self.window = self.window.min(window).max(self.segment);
    }
}
