//! Law: back off when feedback stays away.
//!
//! What should have been heard and was not waits in a queue: feedback that is overdue by a time counts as a queue of that time. Where
//! it comes soon, the rate is the same as before. A silence that lasts lowers it for longer.

use giusto_units::{DataSize, TimeDelta, Timestamp};

/// Patience: two round trips, at least 0.3 s, and 0.2 s for the interval of feedback and a stall of a radio link.
const MIN_ROUND_TRIPS: TimeDelta = TimeDelta::from_millis(300);
const ALLOWANCE: TimeDelta = TimeDelta::from_millis(200);
/// Feedback is overdue after the mean of its intervals and so many mean deviations, as in RFC 6298 §2 (weights of 1/16, since a feedback comes
/// several times in a round trip). A deviation counts as this, a look at the clock in four, at least; in seconds.
const DEVIATIONS: f64 = 4.0;
const WEIGHT: f64 = 1.0 / 16.0;
const LEAST_DEVIATION: f64 = 0.005;
/// Longer intervals are silences, in seconds.
const MAX_INTERVAL: f64 = 0.5;
/// Least factor on the media: the encoder keeps running, and what it sends asks whether the path carries anything.
const LEAST: f64 = 0.15;
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
    /// Mean interval of feedback and its mean deviation, in seconds; `None` before the first.
    interval: Option<(f64, f64)>,
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
        let interval = now.saturating_since(self.heard).as_seconds();
        if 0.0 < interval && interval < MAX_INTERVAL {
            let (mean, deviation) = self.interval.unwrap_or((interval, interval / 2.0));
            let error = interval - mean;
            self.interval = Some((mean + WEIGHT * error, deviation + WEIGHT * (error.abs() - deviation)));
        }
        (self.heard, self.reduced) = (now, now);
    }

    /// The factor on the media for feedback that is overdue, where a queue is emptied within `horizon` seconds.
    pub(super) fn factor(&self, now: Timestamp, horizon: f64, in_flight: DataSize) -> f64 {
        let Some((mean, deviation)) = self.interval.filter(|_| in_flight > DataSize::ZERO) else {
            return 1.0;
        };
        let expected = mean + DEVIATIONS * deviation.max(LEAST_DEVIATION);
        let overdue = now.saturating_since(self.heard).as_seconds() - expected;
        (1.0 - overdue / horizon).clamp(LEAST, 1.0)
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

    #[test]
    fn overdue_feedback_lowers_the_media_at_once_and_no_longer_than_it_is_missing() {
        let ms = TimeDelta::from_millis;
        let at = |time| Timestamp::ZERO + ms(time);
        let size = DataSize::from_bytes(9000);
        let mut silence = Silence { heard: at(1000), ..Silence::default() };
        assert!((silence.factor(at(1400), 0.2, size) - 1.0).abs() < 1e-12, "no interval is known");
        // Each 40 or 60 ms: 50 ms and four times 10 ms are to be expected.
        let mut time = 1000;
        for number in 0..400 {
            time += if number % 2 == 0 { 40 } else { 60 };
            silence.on_feedback(at(time));
        }
        let factor = |after| silence.factor(at(time + after), 0.2, size);
        assert!((factor(88) - 1.0).abs() < 1e-12, "{}", factor(88));
        // Half of 0.2 s later half of the rate is left.
        assert!((0.47..0.53).contains(&factor(190)), "{}", factor(190));
        assert!((factor(600) - 0.15).abs() < 1e-12, "{}", factor(600));
        let idle = silence.factor(at(time + 190), 0.2, DataSize::ZERO);
        assert!((idle - 1.0).abs() < 1e-12, "nothing in flight");
        // A silence says nothing about the intervals of feedback.
        silence.on_feedback(at(time + 2000));
        assert!((silence.factor(at(time + 2088), 0.2, size) - 1.0).abs() < 1e-12);
        assert!(silence.factor(at(time + 2150), 0.2, size) < 0.8);
    }
}
