//! Law: back off when feedback stays away.

use giusto_units::{DataSize, TimeDelta, Timestamp};

/// Patience: two round trips, at least 0.3 s, and 0.2 s for the interval of feedback and a stall of a radio link.
const MIN_ROUND_TRIPS: TimeDelta = TimeDelta::from_millis(300);
const ALLOWANCE: TimeDelta = TimeDelta::from_millis(200);
/// Factor on the rate each time.
const FACTOR: f64 = 0.6;

/// Watches for feedback.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Silence {
    heard: Timestamp,
    reduced: Timestamp,
    /// Latest feedback before a silence, until a packet that left later arrives.
    begun: Option<Timestamp>,
    last_sent: Timestamp,
}

impl Silence {
    /// Handles a packet that leaves. Silence begins when something is sent again after a pause.
    pub(super) fn on_sent(&mut self, now: Timestamp) {
        if now.saturating_since(self.last_sent) > TimeDelta::from_seconds(1) {
            self.heard = self.heard.max(now);
        }
        self.last_sent = now;
    }

    /// Handles packets that arrived and left at these times. Returns the time of departure of the first one that got through after a
    /// silence: what left before it was lost in an outage, whatever the rate.
    pub(super) fn on_arrivals(&mut self, sent: impl Iterator<Item = Timestamp>) -> Option<Timestamp> {
        let begun = self.begun?;
        let first = sent.filter(|sent| *sent > begun).min()?;
        self.begun = None;
        Some(first)
    }

    /// Handles feedback.
    pub(super) fn on_feedback(&mut self, now: Timestamp) {
        (self.heard, self.reduced) = (now, now);
    }

    /// The factor on the rate, if feedback is overdue.
    pub(super) fn step(&mut self, now: Timestamp, rtt: TimeDelta, in_flight: DataSize) -> Option<f64> {
        let patience = (rtt * 2).max(MIN_ROUND_TRIPS) + ALLOWANCE;
        let is_overdue =
            now.saturating_since(self.heard) > patience && now.saturating_since(self.reduced) > patience;
        if in_flight == DataSize::ZERO || !is_overdue {
            return None;
        }
        self.reduced = now;
        self.begun = self.begun.or(Some(self.heard));
        Some(FACTOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_once_in_each_time_of_patience() {
        let ms = TimeDelta::from_millis;
        let at = |time| Timestamp::ZERO + ms(time);
        let size = DataSize::from_bytes(9000);
        let mut silence = Silence::default();
        silence.on_sent(at(5000));
        silence.on_feedback(at(5000));
        // Twice 50 ms is less than 0.3 s; with 0.2 s: after 0.5 s.
        let steps: Vec<i64> =
            (5000..7000).step_by(50).filter(|&time| silence.step(at(time), ms(50), size).is_some()).collect();
        assert_eq!(steps, [5550, 6100, 6650]);
        // Nothing in flight is no silence.
        assert_eq!(silence.step(at(9000), ms(50), DataSize::ZERO), None);
    }

    #[test]
    fn a_silence_ends_with_the_first_packet_that_left_during_it() {
        let at = |time| Timestamp::ZERO + TimeDelta::from_millis(time);
        let size = DataSize::from_bytes(9000);
        let mut silence = Silence::default();
        silence.on_sent(at(5000));
        silence.on_feedback(at(5000));
        assert_eq!(silence.on_arrivals([at(5100)].into_iter()), None, "no silence yet");
        assert!(silence.step(at(5600), TimeDelta::from_millis(50), size).is_some());
        // What left before is reported first, then only losses, then what got through.
        assert_eq!(silence.on_arrivals([at(4990)].into_iter()), None);
        silence.on_feedback(at(6000));
        assert_eq!(silence.on_arrivals([at(5990), at(5980)].into_iter()), Some(at(5980)));
        assert_eq!(silence.on_arrivals([at(6010)].into_iter()), None);
    }
}
