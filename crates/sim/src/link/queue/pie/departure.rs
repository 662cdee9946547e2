//! The rate of departures, as RFC 8033 §5.2 and Appendix B measure it.

use giusto_units::{DataSize, Timestamp};

/// RFC 8033 Appendix B: the weight of a measurement is its threshold over 2^16.
pub(super) const LARGEST_THRESHOLD: u64 = 1 << 16;

/// How long it takes until a number of bytes has left, averaged.
///
/// This is Appendix B's order: a measurement that ends may be followed by the next in the same departure, if enough waits. The
/// text of §5.2 breaks each measurement off at the first packet that does not complete it, which cannot be meant.
#[derive(Debug)]
pub(super) struct DepartureRate {
    threshold: u64,
    /// Average time for `threshold` bytes, in seconds; 0 before the first measurement.
    average: f64,
    /// When the running measurement began, and how many bytes have left in it.
    running: Option<(Timestamp, u64)>,
}

impl DepartureRate {
    pub(super) fn new(threshold: DataSize) -> Self {
        Self { threshold: threshold.as_bytes(), average: 0.0, running: None }
    }

    /// Forgets what was measured, and measures from now on (Appendix B, where PIE becomes active).
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.average = 0.0;
        self.running = Some((now, 0));
    }

    /// A packet of `size` left, and `waiting` stays behind.
    pub(super) fn on_departure(&mut self, now: Timestamp, size: DataSize, waiting: DataSize) {
        if let Some((since, bytes)) = &mut self.running {
            *bytes = bytes.saturating_add(size.as_bytes());
            if *bytes >= self.threshold {
                let took = now.saturating_since(*since).as_seconds();
                let weight = self.threshold as f64 / LARGEST_THRESHOLD as f64;
                self.average =
                    if self.average == 0.0 { took } else { took * weight + self.average * (1.0 - weight) };
                self.running = None;
            }
        }
        if self.running.is_none() && waiting.as_bytes() >= self.threshold {
            self.running = Some((now, 0));
        }
    }

    /// How long `waiting` takes to leave, in seconds; 0 before the first measurement.
    pub(super) fn delay_of(&self, waiting: DataSize) -> f64 {
        waiting.as_bytes() as f64 * self.average / self.threshold as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::queue::tests::at_micros;

    #[test]
    fn the_average_moves_by_a_quarter_of_each_difference() {
        // 2^14 over 2^16 is a weight of 1/4. Packets of 2^12 B, so 4 to a measurement, the next beginning as one ends.
        let mut rate = DepartureRate::new(DataSize::from_bytes(1 << 14));
        let (packet, waiting) = (DataSize::from_bytes(1 << 12), DataSize::from_bytes(1 << 15));
        let mut leave = |millis: [u64; 4]| {
            for milli in millis {
                rate.on_departure(at_micros(1000 * milli), packet, waiting);
            }
            rate.delay_of(waiting)
        };
        rate_is(leave([0, 10, 20, 30]), 0.0);
        rate_is(leave([40, 50, 60, 70]), 2.0 * 0.040);
        rate_is(leave([80, 90, 100, 140]), 2.0 * 0.040);
        // 40 ms, then 80 ms: 0.25 · 80 + 0.75 · 40 = 50 ms for 2^14 B, twice that for what waits.
        rate_is(leave([160, 170, 180, 190]), 2.0 * 0.050);
    }

    fn rate_is(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }

    #[test]
    fn a_short_queue_is_not_measured() {
        let mut rate = DepartureRate::new(DataSize::from_bytes(1 << 14));
        for milli in 0..100 {
            rate.on_departure(
                at_micros(1000 * milli),
                DataSize::from_bytes(1500),
                DataSize::from_bytes((1 << 14) - 1),
            );
        }
        rate_is(rate.delay_of(DataSize::from_bytes(1 << 14)), 0.0);
    }
}
