//! What is in flight, how long a round trip takes, and when what is in flight is given up.
//!
//! # The least that is sent
//!
//! A window that is full opens with feedback alone: if no feedback comes, it never does. RFC 8298 §1 and §8 promise "a minimum send
//! rate" against that, and give no rule; draft-johansson-rmcat-scream-cc-00 says nothing of it. The rule here:
//!
//! 1. If something is in flight and nothing has been heard for a second, or for a retransmission timeout (RFC 6298 §2) where that is
//!    longer (up to 3 s), since the last feedback, or since there is something in flight, then all that is in flight is given up: it no longer
//!    counts. The window falls to its least, and the media rate is halved (RFC 8888 §5: if several reports are missing, the rate
//!    should be reduced rapidly).
//! 2. If still nothing is heard, the same happens again each 0.48 s: so a least window of 3000 bytes lets through 50 kbit/s, the
//!    `RATE_PACE_MIN` of RFC 8298 §4.1.1.1, which is as close to a named minimum rate as the text comes. That of the draft, three packets
//!    of 1200 bytes, lets through 60.
//! 3. The first feedback ends it.

use giusto_units::{DataSize, TimeDelta, Timestamp};

use crate::feedback::{Feedback, SentPacket};

/// The least retransmission timeout, and the first (RFC 6298 §2.1, §2.4).
const SILENCE: TimeDelta = TimeDelta::from_seconds(1);
/// The longest timeout. RFC 6298 §2.5 would have a minute at least, for TCP; a conversation has ended by then. Three seconds are what
/// libwebrtc takes for too long a round trip (`send_side_bandwidth_estimation.cc`).
const LONGEST: TimeDelta = TimeDelta::from_seconds(3);
/// 3000 bytes (`MIN_CWND`) at 50 kbit/s (`RATE_PACE_MIN`): RFC 8298 §4.1.1.1.
const AGAIN: TimeDelta = TimeDelta::from_millis(480);
/// RFC 6298 §2.3, alpha and beta.
const SMOOTHING: (f64, f64) = (1.0 / 8.0, 1.0 / 4.0);
/// No round trip counts as shorter, lest a rate be infinite.
const SHORTEST: f64 = 1e-3;

/// Bytes in flight and the round trip.
#[derive(Debug, Clone, Default)]
pub(super) struct Flight {
    /// As the sender counts, when a packet last left or feedback came.
    outstanding: DataSize,
    /// Of that, what does not count.
    given_up: DataSize,
    /// Since when something is awaited.
    since: Option<Timestamp>,
    /// Nothing was heard since something was given up.
    silent: bool,
    /// Mean and deviation, in seconds.
    round_trip: Option<(f64, f64)>,
    /// The highest packet that is known to have arrived.
    highest: Option<u64>,
}

impl Flight {
    /// A packet left.
    pub(super) fn on_sent(&mut self, now: Timestamp, packet: &SentPacket) {
        // The sender forgets what nobody has told of for a minute: that is the oldest, and so is what was given up. The window that it
        // had besides may not stay, or it would let through as much again.
        let forgotten = (self.outstanding + packet.size).saturating_sub(packet.in_flight);
        self.outstanding = packet.in_flight;
        self.given_up = self.given_up.saturating_sub(forgotten).min(self.outstanding);
        self.since.get_or_insert(now);
    }

    /// Feedback that reports packets has come. Gives how many bytes have left the flight, whether they arrived or are lost.
    pub(super) fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) -> DataSize {
        let left = self.outstanding.saturating_sub(feedback.in_flight);
        // What leaves the flight is the oldest part of it, and so is what was given up.
        let counted = left.saturating_sub(self.given_up);
        self.outstanding = feedback.in_flight;
        self.given_up = self.given_up.saturating_sub(left).min(self.outstanding);
        self.silent = false;
        self.since = (self.bytes() > DataSize::ZERO).then_some(now);
        counted
    }

    /// The packet with this number has arrived. Whether none with a higher one has before; then the round trip is that since `sent`.
    pub(super) fn on_arrival(&mut self, now: Timestamp, packet: &SentPacket) -> bool {
        if self.highest.is_some_and(|highest| highest >= packet.sequence) {
            return false;
        }
        self.highest = Some(packet.sequence);
        let sample = now.saturating_since(packet.at).as_seconds();
        let (alpha, beta) = SMOOTHING;
        self.round_trip = Some(match self.round_trip {
            None => (sample, sample / 2.0),
            Some((mean, deviation)) => {
                (mean + alpha * (sample - mean), deviation + beta * ((sample - mean).abs() - deviation))
            }
        });
        true
    }

    /// Gives up what is in flight if it is time for that; says whether it was.
    pub(super) fn gives_up(&mut self, now: Timestamp) -> bool {
        let patience = if self.silent { AGAIN } else { self.timeout() };
        if self.since.is_none_or(|since| now.saturating_since(since) < patience) {
            return false;
        }
        self.given_up = self.outstanding;
        self.silent = true;
        self.since = None;
        true
    }

    /// What is in flight and counts.
    pub(super) fn bytes(&self) -> DataSize {
        self.outstanding.saturating_sub(self.given_up)
    }

    /// The window that lets so much be in flight besides what was given up.
    pub(super) fn window(&self, bytes: f64) -> DataSize {
        DataSize::from_bytes(bytes as u64) + self.given_up
    }

    /// The smoothed round trip in seconds, if it was ever measured.
    pub(super) fn round_trip(&self) -> Option<f64> {
        self.round_trip.map(|(mean, _)| mean.max(SHORTEST))
    }

    fn timeout(&self) -> TimeDelta {
        let (mean, deviation) = self.round_trip.unwrap_or_default();
        TimeDelta::from_seconds_f64(mean + 4.0 * deviation).max(SILENCE).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: DataSize = DataSize::from_bytes(1000);

    fn at(millis: i64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_millis(millis)
    }

    fn packet(sequence: u64, millis: i64) -> SentPacket {
        SentPacket { sequence, at: at(millis), size: SIZE, probe: None, in_flight: SIZE }
    }

    /// A packet leaves, and with it so many are in flight.
    fn sent(flight: &mut Flight, millis: i64, in_flight: u64) {
        flight.on_sent(at(millis), &SentPacket { in_flight: SIZE * in_flight, ..packet(0, millis) });
    }

    fn left(packets: u64) -> Feedback<'static> {
        Feedback { in_flight: SIZE * packets, ..Feedback::default() }
    }

    #[test]
    fn the_round_trip_is_that_of_rfc_6298() {
        let mut flight = Flight::default();
        assert_eq!((flight.round_trip(), flight.timeout()), (None, SILENCE));
        assert!(flight.on_arrival(at(800), &packet(3, 0)));
        // §2.2: SRTT = R, RTTVAR = R/2, RTO = R + 4 R/2.
        assert_eq!((flight.round_trip(), flight.timeout()), (Some(0.8), TimeDelta::from_millis(2400)));
        // §2.3: RTTVAR = 3/4 · 0.4 + 1/4 · 0.4, SRTT = 7/8 · 0.8 + 1/8 · 0.4.
        assert!(flight.on_arrival(at(1400), &packet(4, 1000)));
        assert!((flight.round_trip().unwrap() - 0.75).abs() < 1e-12);
        assert!((flight.timeout().as_seconds() - (0.75 + 1.6)).abs() < 1e-9);
        // What came late says nothing of the round trip.
        assert!(!flight.on_arrival(at(9000), &packet(2, 0)));
        assert!((flight.round_trip().unwrap() - 0.75).abs() < 1e-12);
    }

    #[test]
    fn what_leaves_the_flight_is_told() {
        let mut flight = Flight::default();
        for number in 0..5 {
            sent(&mut flight, number, number as u64 + 1);
        }
        assert_eq!(flight.bytes(), SIZE * 5);
        assert_eq!(flight.on_feedback(at(50), &left(2)), SIZE * 3);
        assert_eq!(flight.on_feedback(at(60), &left(2)), DataSize::ZERO);
        assert_eq!((flight.bytes(), flight.window(2500.0)), (SIZE * 2, DataSize::from_bytes(2500)));
    }

    #[test]
    fn silence_gives_up_what_is_in_flight_and_lets_the_least_window_pass_each_480_ms() {
        let mut flight = Flight::default();
        sent(&mut flight, 0, 1);
        sent(&mut flight, 500, 2);
        assert!(!flight.gives_up(at(999)));
        assert!(flight.gives_up(at(1000)));
        assert_eq!((flight.bytes(), flight.window(3000.0)), (DataSize::ZERO, SIZE * 5));
        // With nothing sent, nothing is missed.
        assert!(!flight.gives_up(at(100_000)));
        sent(&mut flight, 100_000, 3);
        assert!(!flight.gives_up(at(100_479)));
        assert!(flight.gives_up(at(100_480)));
        sent(&mut flight, 100_480, 4);
        // Of four, the first two are heard of: the third stays given up, and only the fourth counts.
        assert_eq!(flight.on_feedback(at(100_490), &left(2)), DataSize::ZERO);
        assert_eq!((flight.bytes(), flight.window(3000.0)), (SIZE, SIZE * 4));
        assert!(!flight.gives_up(at(101_489)));
        assert_eq!(flight.on_feedback(at(101_489), &left(0)), SIZE);
        assert_eq!(flight.window(3000.0), SIZE * 3);
        assert!(!flight.gives_up(at(200_000)));
    }

    #[test]
    fn what_the_sender_forgets_is_given_up_no_more() {
        let mut flight = Flight::default();
        (1..=5).for_each(|count| sent(&mut flight, 0, count));
        assert!(flight.gives_up(at(1000)));
        assert_eq!(flight.window(3000.0), SIZE * 8);
        // Two of the five are forgotten: three that do not count are in flight, and one that does.
        sent(&mut flight, 60_000, 4);
        assert_eq!((flight.bytes(), flight.window(3000.0)), (SIZE, SIZE * 6));
        // All are.
        sent(&mut flight, 130_000, 1);
        assert_eq!((flight.bytes(), flight.window(3000.0)), (SIZE, SIZE * 3));
    }
}
