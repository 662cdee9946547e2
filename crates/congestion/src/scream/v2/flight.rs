//! What is in flight, for how long, and how much of it arrives?

use giusto_units::{DataSize, TimeDelta, Timestamp};

/// The smoothed round trip, the most that was in flight, and the rate that arrives.
#[derive(Debug, Clone)]
pub struct Flight {
    /// `None` until there is a sample. In seconds.
    round_trip: Option<f64>,
    presumed: TimeDelta,
    /// The most in flight in the present round trip, and in the one before.
    most: [DataSize; 2],
    round: Option<Timestamp>,
    arrived: DataSize,
    since: Option<Timestamp>,
    rate: f64,
}

/// How fast the round trip is followed (RFC 6298 §2.3).
const ROUND_TRIP_GAIN: f64 = 1.0 / 8.0;
/// The shortest round trip: clocks are no better, and rates end somewhere. As in the authors' implementation.
const SHORTEST: f64 = 0.001;

impl Flight {
    /// Nothing has been sent; the round trip is taken for `presumed`.
    pub fn new(presumed: TimeDelta) -> Self {
        Self {
            round_trip: None,
            presumed,
            most: [DataSize::ZERO; 2],
            round: None,
            arrived: DataSize::ZERO,
            since: None,
            rate: 0.0,
        }
    }

    /// So much is in flight. Says whether a round trip has ended.
    pub fn on_in_flight(&mut self, now: Timestamp, in_flight: DataSize) -> bool {
        let [present, before] = &mut self.most;
        let has_ended = self.round.is_some_and(|round| {
            now.saturating_since(round).as_seconds() >= self.round_trip.unwrap_or(self.presumed.as_seconds())
        });
        if has_ended {
            *before = std::mem::take(present);
        }
        *present = in_flight.max(*present);
        if has_ended || self.round.is_none() {
            self.round = Some(now);
        }
        has_ended
    }

    /// The newest packet of a feedback message was sent so long ago. Says whether it is the first.
    pub fn on_round_trip(&mut self, sample: TimeDelta) -> bool {
        let sample = sample.as_seconds().max(SHORTEST);
        match &mut self.round_trip {
            Some(smoothed) => *smoothed += ROUND_TRIP_GAIN * (sample - *smoothed),
            none => {
                *none = Some(sample);
                return true;
            }
        }
        false
    }

    /// So much is newly reported as arrived; the rate is taken over `span` or more.
    pub fn on_arrived(&mut self, now: Timestamp, size: DataSize, span: TimeDelta) {
        let Some(since) = self.since else {
            self.since = Some(now);
            return;
        };
        self.arrived += size;
        let took = now.saturating_since(since);
        if took >= span.max(self.round_trip()) && took > TimeDelta::ZERO {
            self.rate = self.arrived.as_bits() as f64 / took.as_seconds();
            (self.arrived, self.since) = (DataSize::ZERO, Some(now));
        }
    }

    /// The smoothed round trip (`s_rtt`).
    pub fn round_trip(&self) -> TimeDelta {
        self.round_trip
            .map_or(self.presumed, TimeDelta::from_seconds_f64)
            .max(TimeDelta::from_seconds_f64(SHORTEST))
    }

    /// The most in flight in this round trip and the one before; and in the one before alone.
    pub fn most(&self) -> (DataSize, DataSize) {
        let [present, before] = self.most;
        (present.max(before), before)
    }

    /// The rate that arrives (`acked_bitrate`), in bit/s; zero until it is known.
    pub fn rate(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn size(bytes: u64) -> DataSize {
        DataSize::from_bytes(bytes)
    }

    const ROUND: TimeDelta = TimeDelta::from_millis(50);

    #[test]
    fn the_most_in_flight_is_of_two_round_trips() {
        let mut flight = Flight::new(ROUND);
        for (now, in_flight, most) in [
            (0, 5, (5, 0)),
            (49, 3, (5, 0)),
            (50, 2, (5, 5)),
            (60, 7, (7, 5)),
            (100, 1, (7, 7)),
            (150, 1, (1, 1)),
        ] {
            flight.on_in_flight(at(now), size(in_flight));
            assert_eq!(flight.most(), (size(most.0), size(most.1)), "at {now} ms");
        }
    }

    #[test]
    fn the_round_trip_is_the_first_sample_and_then_moves_by_an_eighth() {
        let mut flight = Flight::new(ROUND);
        assert_eq!(flight.round_trip(), ROUND);
        assert!(flight.on_round_trip(ROUND * 2));
        assert!(!flight.on_round_trip(ROUND * 10));
        assert_eq!(flight.round_trip(), ROUND * 3);
        (0..200).for_each(|_| _ = flight.on_round_trip(TimeDelta::from_millis(-5)));
        assert_eq!(flight.round_trip(), TimeDelta::from_millis(1));
    }

    #[test]
    fn what_arrives_is_averaged_over_a_span() {
        let mut flight = Flight::new(ROUND);
        flight.on_arrived(at(0), size(90_000), ROUND);
        flight.on_arrived(at(30), size(500), ROUND);
        assert_eq!(flight.rate(), 0.0);
        flight.on_arrived(at(60), size(700), ROUND);
        assert_eq!(flight.rate(), 1200.0 * 8.0 / 0.06);
    }
}
