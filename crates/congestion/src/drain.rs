//! A media rate below the rate that leaves, while the sender's queue is long. For algorithms that have no rule for it.

use giusto_units::TimeDelta;

/// How a sender's queue is drained.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct QueueDrain {
    /// The queue that is not an excess, in time at the rate that leaves: frames wait for the pacer. Default 50 ms.
    pub allowance: TimeDelta,
    /// Time in which the media rate makes room for the rest; above 0. Default 500 ms.
    pub time: TimeDelta,
    /// Lowest part of the rate that the media get meanwhile, 0 to 1. Default 0.25.
    pub min_share: f64,
}

impl QueueDrain {
    /// Media rate while `rate` leaves and the sender has `queued` bytes. Rates are in bytes per second.
    pub(crate) fn media_rate(&self, rate: f64, queued: f64) -> f64 {
        let excess = (queued - rate * self.allowance.as_seconds()).max(0.0);
        (rate - excess / self.time.as_seconds()).max(self.min_share * rate)
    }
}

impl Default for QueueDrain {
    fn default() -> Self {
        Self { allowance: TimeDelta::from_millis(50), time: TimeDelta::from_millis(500), min_share: 0.25 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_media_make_room_for_the_sender_queue() {
        // 100 kB/s: 5 kB wait for the pacer; of 25 kB, 20 kB leave within 0.5 s, which leaves 60 kB/s.
        for (queued, expected) in [(0.0, 100e3), (5e3, 100e3), (25e3, 60e3), (42.5e3, 25e3), (1e9, 25e3)] {
            let found = QueueDrain::default().media_rate(100e3, queued);
            assert!((found - expected).abs() < 1e-6, "{queued}: {found} instead of {expected}");
        }
    }
}
