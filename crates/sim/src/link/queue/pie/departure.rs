//! Measurement of the departure rate (RFC 8033 §5.2 and Appendix B).

use giusto_units::{DataSize, Timestamp};

/// RFC 8033 Appendix B: the weight of a measurement is its threshold divided by 2^16.
pub(super) const LARGEST_THRESHOLD: u64 = 1 << 16;

/// Average time in which a number of bytes departs.
///
/// As in Appendix B, the departure that ends one measurement can start the next. The text of §5.2 aborts a measurement at
/// the first packet that does not complete it, which cannot be intended.
#[derive(Debug)]
pub(super) struct DepartureRate {
    threshold: u64,
    /// Average time for `threshold` bytes, in seconds; 0 before the first measurement.
    average: f64,
    /// Start of the current measurement, and the number of bytes departed since.
    measurement: Option<(Timestamp, u64)>,
}

impl DepartureRate {
    pub(super) fn new(threshold: DataSize) -> Self {
        Self { threshold: threshold.as_bytes(), average: 0.0, measurement: None }
    }

    /// Discards the average and starts a measurement (Appendix B, when PIE becomes active).
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.average = 0.0;
        self.measurement = Some((now, 0));
    }

    /// Processes the departure of a packet of `size` that leaves `queued` in the queue.
    pub(super) fn on_departure(&mut self, now: Timestamp, size: DataSize, queued: DataSize) {
        if let Some((since, bytes)) = &mut self.measurement {
            *bytes = bytes.saturating_add(size.as_bytes());
            if *bytes >= self.threshold {
                let elapsed = now.saturating_since(*since).as_seconds();
                let weight = self.threshold as f64 / LARGEST_THRESHOLD as f64;
                self.average = if self.average == 0.0 {
                    elapsed
                } else {
                    elapsed * weight + self.average * (1.0 - weight)
                };
                self.measurement = None;
            }
        }
        if self.measurement.is_none() && queued.as_bytes() >= self.threshold {
            self.measurement = Some((now, 0));
        }
    }

    /// Time in seconds to drain `queued`; 0 before the first measurement.
    pub(super) fn delay_of(&self, queued: DataSize) -> f64 {
        queued.as_bytes() as f64 * self.average / self.threshold as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{link::queue::tests::at_micros, testing::close};

    #[test]
    fn a_measurement_has_a_weight_of_one_quarter() {
        // The weight is 2^14 / 2^16 = 1/4. A measurement has 4 packets of 2^12 B, and the next begins as one ends.
        let mut rate = DepartureRate::new(DataSize::from_bytes(1 << 14));
        let (packet, queued) = (DataSize::from_bytes(1 << 12), DataSize::from_bytes(1 << 15));
        let mut leave = |millis: [u64; 4]| {
            for milli in millis {
                rate.on_departure(at_micros(1000 * milli), packet, queued);
            }
            rate.delay_of(queued)
        };
        close(leave([0, 10, 20, 30]), 0.0);
        close(leave([40, 50, 60, 70]), 2.0 * 0.040);
        close(leave([80, 90, 100, 140]), 2.0 * 0.040);
        // 40 ms, then 80 ms: 0.25 · 80 + 0.75 · 40 = 50 ms for 2^14 B, and twice that for the queue of 2^15 B.
        close(leave([160, 170, 180, 190]), 2.0 * 0.050);
    }

    #[test]
    fn a_short_queue_is_not_measured() {
        let mut rate = DepartureRate::new(DataSize::from_bytes(1 << 14));
        for milli in 0..100 {
            let queued = DataSize::from_bytes((1 << 14) - 1);
            rate.on_departure(at_micros(1000 * milli), DataSize::from_bytes(1500), queued);
        }
        close(rate.delay_of(DataSize::from_bytes(1 << 14)), 0.0);
    }
}
