//! NewReno: one segment more per round trip, half at each congestion.

use giusto_units::Timestamp;

use super::{
    interface::{Acknowledged, CongestionControl, Opening},
    slow_start::SlowStart,
};

/// The window of standard TCP (RFC 5681 §3.1), counting bytes.
///
/// In congestion avoidance the window grows by one segment whenever a whole window has been acknowledged. So it grows by one
/// segment per round trip whether acknowledgements are delayed or not, where counting acknowledgements would halve the growth.
#[derive(Debug)]
pub struct NewReno {
    segment: u64,
    window: u64,
    threshold: u64,
    slow_start: SlowStart,
    /// Bytes acknowledged towards the next segment of growth.
    counted: u64,
}

impl NewReno {
    /// Waits for a connection to begin.
    pub fn new() -> Self {
        let opening =
            Opening { segment: 1, window: 1, threshold: u64::MAX, slow_start_limit: 1, hystart: false };
        Self::opened(&opening)
    }

    fn opened(opening: &Opening) -> Self {
        Self {
            segment: opening.segment,
            window: opening.window,
            threshold: opening.threshold,
            slow_start: SlowStart::new(opening),
            counted: 0,
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
    fn begin(&mut self, opening: Opening) {
        *self = Self::opened(&opening);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn threshold(&self) -> u64 {
        self.threshold
    }

    fn on_ack(&mut self, _now: Timestamp, ack: Acknowledged) {
        if self.window < self.threshold {
            self.window = (self.window + self.slow_start.on_ack(&ack)).min(self.threshold);
            if self.slow_start.is_over() {
                self.threshold = self.window;
            }
            return;
        }
        if !ack.limited {
            return;
        }
        self.slow_start.on_end();
        self.counted += ack.bytes;
        if self.counted >= self.window {
            // No more than one segment per round trip, however much one acknowledgement covers.
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

    fn on_timeout(&mut self, _now: Timestamp, flight: u64, again: bool) {
        if !again {
            self.threshold = self.half(flight);
        }
        self.window = self.segment;
        self.counted = 0;
        self.slow_start.on_timeout();
    }

    fn cap(&mut self, _now: Timestamp, window: u64) {
        self.window = self.window.min(window).max(self.segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_by_one_segment_per_window_acknowledged_and_halves_at_congestion() {
        let mut control = NewReno::new();
        control.begin(Opening {
            segment: 1000,
            window: 10_000,
            threshold: 10_000,
            slow_start_limit: 2,
            hystart: false,
        });
        let ack = Acknowledged { bytes: 2000, limited: true, ..Acknowledged::default() };
        let windows: Vec<_> = (0..11)
            .map(|_| {
                control.on_ack(Timestamp::ZERO, ack);
                control.window() / 1000
            })
            .collect();
        // 10 segments after 5 acknowledgements of two, 11 after 5.5 more.
        assert_eq!(windows, [10, 10, 10, 10, 11, 11, 11, 11, 11, 11, 12]);
        control.on_congestion(Timestamp::ZERO, 12_000);
        assert_eq!((control.window(), control.threshold()), (6000, 6000));
    }
}
