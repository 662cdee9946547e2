//! Bytes in flight, RTT and received rate.

use giusto_units::{DataSize, TimeDelta, Timestamp};

/// The smoothed RTT, the maximum bytes in flight, and the received rate.
#[derive(Debug, Clone, Default)]
pub(super) struct Flight {
    /// In seconds. `None` before the first sample.
    rtt: Option<f64>,
    presumed: TimeDelta,
    /// Maximum bytes in flight in the current round trip and in the previous one.
    max: [DataSize; 2],
    round: Option<Timestamp>,
    arrived: DataSize,
    since: Option<Timestamp>,
    rate: f64,
}

/// Gain of the smoothed RTT (RFC 6298 §2.3).
const ROUND_TRIP_GAIN: f64 = 1.0 / 8.0;
/// Minimum RTT: limited by the resolution of clocks, and keeps rates finite. As in the authors'
/// implementation.
const SHORTEST: f64 = 0.001;

impl Flight {
    /// Before the first packet. The initial RTT is `presumed`.
    pub(super) fn new(presumed: TimeDelta) -> Self {
        Self { presumed, max: [DataSize::ZERO; 2], ..Self::default() }
    }

    /// Sets the bytes in flight. Returns whether a round trip has ended.
    pub(super) fn on_in_flight(&mut self, now: Timestamp, in_flight: DataSize) -> bool {
        let [present, before] = &mut self.max;
        let has_ended = self.round.is_some_and(|round| {
            now.saturating_since(round).as_seconds() >= self.rtt.unwrap_or(self.presumed.as_seconds())
        });
        if has_ended {
            *before = core::mem::take(present);
        }
        *present = in_flight.max(*present);
        if has_ended || self.round.is_none() {
            self.round = Some(now);
        }
        has_ended
    }

    /// Adds an RTT sample of the newest packet of a feedback message. Returns whether it is the first.
    pub(super) fn on_rtt(&mut self, sample: TimeDelta) -> bool {
        let sample = sample.as_seconds().max(SHORTEST);
        match &mut self.rtt {
            Some(smoothed) => *smoothed += ROUND_TRIP_GAIN * (sample - *smoothed),
            none => {
                *none = Some(sample);
                return true;
            }
        }
        false
    }

    /// Adds newly received bytes; the rate is averaged over `span` or more.
    pub(super) fn on_arrived(&mut self, now: Timestamp, size: DataSize, span: TimeDelta) {
        let Some(since) = self.since else {
            self.since = Some(now);
            return;
        };
        self.arrived += size;
        let took = now.saturating_since(since);
        if took >= span.max(self.rtt()) && took > TimeDelta::ZERO {
            self.rate = self.arrived.as_bits() as f64 / took.as_seconds();
            (self.arrived, self.since) = (DataSize::ZERO, Some(now));
        }
    }

    /// The smoothed RTT (`s_rtt`).
    pub(super) fn rtt(&self) -> TimeDelta {
        self.rtt.map_or(self.presumed, TimeDelta::from_seconds_f64).max(TimeDelta::from_seconds_f64(SHORTEST))
    }

    /// Maximum bytes in flight in this round trip and the previous one; and in the previous one alone.
    pub(super) fn max(&self) -> (DataSize, DataSize) {
        let [present, before] = self.max;
        (present.max(before), before)
    }

    /// The received rate (`acked_bitrate`), in bit/s; zero until it is known.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;
    use crate::testing::at;

    fn size(bytes: u64) -> DataSize {
        DataSize::from_bytes(bytes)
    }

    const ROUND: TimeDelta = TimeDelta::from_millis(50);

    #[test]
    fn the_maximum_in_flight_covers_two_rtts() {
        let mut flight = Flight::new(ROUND);
        for (now, in_flight, max) in [
            (0, 5, (5, 0)),
            (49, 3, (5, 0)),
            (50, 2, (5, 5)),
            (60, 7, (7, 5)),
            (100, 1, (7, 7)),
            (150, 1, (1, 1)),
        ] {
            flight.on_in_flight(at(now), size(in_flight));
            assert_eq!(flight.max(), (size(max.0), size(max.1)), "at {now} ms");
        }
    }

    #[test]
    fn the_rtt_starts_at_the_first_sample_with_gain_1_8() {
        let mut flight = Flight::new(ROUND);
        assert_eq!(flight.rtt(), ROUND);
        assert!(flight.on_rtt(ROUND * 2));
        assert!(!flight.on_rtt(ROUND * 10));
        assert_eq!(flight.rtt(), ROUND * 3);
        (0..200).for_each(|_| _ = flight.on_rtt(TimeDelta::from_millis(-5)));
        assert_eq!(flight.rtt(), TimeDelta::from_millis(1));
    }

    #[test]
    fn the_received_rate_is_averaged_over_a_span() {
        let mut flight = Flight::new(ROUND);
        flight.on_arrived(at(0), size(90_000), ROUND);
        flight.on_arrived(at(30), size(500), ROUND);
        assert_eq!(flight.rate(), 0.0);
        flight.on_arrived(at(60), size(700), ROUND);
        assert_eq!(flight.rate(), 1200.0 * 8.0 / 0.06);
    }
}
