//! Bytes in flight, RTT, and the write-off of bytes in flight when feedback is missing.
//!
//! # Minimum send rate
//!
//! A full window opens only with feedback. Without feedback it stays closed. RFC 8298 §1 and §8 promise "a
//! minimum send rate" against that but specify no rule; draft-johansson-rmcat-scream-cc-00 does not mention
//! it. Our rule:
//!
//! 1. The timeout is one second, or the retransmission timeout (RFC 6298 §2) if that is longer, up to 3 s. It
//!    runs while packets are in flight, from the last feedback or from the first packet in flight. When it
//!    expires, all bytes in flight are written off: they no longer count. The window falls to its minimum,
//!    and the media rate is halved (RFC 8888 §5: if several reports are missing, the rate should be reduced
//!    rapidly).
//! 2. If feedback is still missing, the same happens every 0.48 s. A minimum window of 3000 bytes then
//!    permits 50 kbit/s, the `RATE_PACE_MIN` of RFC 8298 §4.1.1.1, which is the closest that the text comes
//!    to a minimum rate. The minimum window of the draft, three packets of 1200 bytes, permits 60 kbit/s.
//! 3. The first feedback ends this.

use giusto_units::{DataSize, TimeDelta, Timestamp};

use crate::feedback::{Feedback, SentPacket};

/// Minimum and initial retransmission timeout (RFC 6298 §2.1, §2.4).
const SILENCE: TimeDelta = TimeDelta::from_seconds(1);
/// Maximum timeout. RFC 6298 §2.5 requires at least a minute, for TCP, which is too long for a conversation.
/// libwebrtc uses three seconds as its RTT limit (`send_side_bandwidth_estimation.cc`).
const LONGEST: TimeDelta = TimeDelta::from_seconds(3);
/// 3000 bytes (`MIN_CWND`) at 50 kbit/s (`RATE_PACE_MIN`): RFC 8298 §4.1.1.1.
const AGAIN: TimeDelta = TimeDelta::from_millis(480);
/// RFC 6298 §2.3, alpha and beta.
const SMOOTHING: (f64, f64) = (1.0 / 8.0, 1.0 / 4.0);
/// Minimum RTT, so that rates stay finite.
const SHORTEST: f64 = 1e-3;

/// Bytes in flight and RTT.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flight {
    /// Bytes in flight as the sender counts them, at the last sent packet or feedback.
    outstanding: DataSize,
    /// The part of it that was written off.
    given_up: DataSize,
    /// Time since which feedback has been expected.
    since: Option<Timestamp>,
    /// Whether feedback is missing since the last write-off.
    silent: bool,
    /// Mean and deviation of the RTT, in seconds.
    rtt: Option<(f64, f64)>,
    /// The highest packet that has arrived.
    highest: Option<u64>,
}

impl Flight {
    /// Handles a sent packet.
    pub(crate) fn on_sent(&mut self, now: Timestamp, packet: &SentPacket) {
        // The sender discards packets that were not reported for a minute. These are the oldest ones, and
        // therefore written off. The write-off is reduced by them; otherwise the window would permit the same
        // amount again.
        let forgotten = (self.outstanding + packet.size).saturating_sub(packet.in_flight);
        self.outstanding = packet.in_flight;
        self.given_up = self.given_up.saturating_sub(forgotten).min(self.outstanding);
        self.since.get_or_insert(now);
    }

    /// Handles packet feedback. Returns the bytes that are no longer in flight, whether they arrived or were
    /// lost.
    pub(crate) fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) -> DataSize {
        let left = self.outstanding.saturating_sub(feedback.in_flight);
        // The oldest packets leave the flight first, and these are the ones that were written off.
        let counted = left.saturating_sub(self.given_up);
        self.outstanding = feedback.in_flight;
        self.given_up = self.given_up.saturating_sub(left).min(self.outstanding);
        self.silent = false;
        self.since = (self.bytes() > DataSize::ZERO).then_some(now);
        counted
    }

    /// Handles the arrival of the packet with this number. Returns whether it is the highest one so far; then
    /// it gives an RTT sample since `sent`.
    pub(crate) fn on_arrival(&mut self, now: Timestamp, packet: &SentPacket) -> bool {
        if self.highest.is_some_and(|highest| highest >= packet.sequence) {
            return false;
        }
        self.highest = Some(packet.sequence);
        let sample = now.saturating_since(packet.at).as_seconds();
        let (alpha, beta) = SMOOTHING;
        self.rtt = Some(match self.rtt {
            None => (sample, sample / 2.0),
            Some((mean, deviation)) => {
                (mean + alpha * (sample - mean), deviation + beta * ((sample - mean).abs() - deviation))
            }
        });
        true
    }

    /// Writes off the bytes in flight if the timeout has expired. Returns whether it did.
    pub(crate) fn gives_up(&mut self, now: Timestamp) -> bool {
        if self.since.is_none_or(|since| now.saturating_since(since) < self.patience()) {
            return false;
        }
        self.given_up = self.outstanding;
        self.silent = true;
        self.since = None;
        true
    }

    /// When the bytes in flight are written off, if no feedback arrives.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.since.map(|since| since + self.patience())
    }

    /// Whether bytes were written off since the latest feedback.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent
    }

    fn patience(&self) -> TimeDelta {
        if self.silent { AGAIN } else { self.timeout() }
    }

    /// Bytes in flight without the written-off ones.
    pub(crate) fn bytes(&self) -> DataSize {
        self.outstanding.saturating_sub(self.given_up)
    }

    /// The window that permits this many bytes in flight, besides the written-off ones.
    pub(crate) fn window(&self, bytes: f64) -> DataSize {
        DataSize::from_bytes(bytes as u64) + self.given_up
    }

    /// The smoothed RTT in seconds, if it was measured.
    pub(crate) fn rtt(&self) -> Option<f64> {
        self.rtt.map(|(mean, _)| mean.max(SHORTEST))
    }

    fn timeout(&self) -> TimeDelta {
        let (mean, deviation) = self.rtt.unwrap_or_default();
        TimeDelta::from_seconds_f64(mean + 4.0 * deviation).max(SILENCE).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    const SIZE: DataSize = DataSize::from_bytes(1000);

    fn packet(sequence: u64, millis: u64) -> SentPacket {
        SentPacket::new(sequence, at(millis), SIZE)
    }

    /// Sends a packet, after which this many are in flight.
    fn sent(flight: &mut Flight, millis: u64, in_flight: u64) {
        flight.on_sent(at(millis), &packet(0, millis).with_in_flight(SIZE * in_flight));
    }

    fn left(packets: u64) -> Feedback<'static> {
        Feedback::new(&[], SIZE * packets)
    }

    #[test]
    fn the_rtt_is_that_of_rfc_6298() {
        let mut flight = Flight::default();
        assert_eq!((flight.rtt(), flight.timeout()), (None, SILENCE));
        assert!(flight.on_arrival(at(800), &packet(3, 0)));
        // §2.2: SRTT = R, RTTVAR = R/2, RTO = R + 4 R/2.
        assert_eq!((flight.rtt(), flight.timeout()), (Some(0.8), TimeDelta::from_millis(2400)));
        // §2.3: RTTVAR = 3/4 · 0.4 + 1/4 · 0.4, SRTT = 7/8 · 0.8 + 1/8 · 0.4.
        assert!(flight.on_arrival(at(1400), &packet(4, 1000)));
        assert!((flight.rtt().unwrap() - 0.75).abs() < 1e-12);
        assert!((flight.timeout().as_seconds() - (0.75 + 1.6)).abs() < 1e-9);
        // A late packet gives no RTT sample.
        assert!(!flight.on_arrival(at(9000), &packet(2, 0)));
        assert!((flight.rtt().unwrap() - 0.75).abs() < 1e-12);
    }

    #[test]
    fn bytes_that_leave_the_flight_are_returned() {
        let mut flight = Flight::default();
        for number in 0..5 {
            sent(&mut flight, number, number + 1);
        }
        assert_eq!(flight.bytes(), SIZE * 5);
        assert_eq!(flight.on_feedback(at(50), &left(2)), SIZE * 3);
        assert_eq!(flight.on_feedback(at(60), &left(2)), DataSize::ZERO);
        assert_eq!((flight.bytes(), flight.window(2500.0)), (SIZE * 2, DataSize::from_bytes(2500)));
    }

    #[test]
    fn without_feedback_a_minimum_window_is_sent_every_480_ms() {
        let mut flight = Flight::default();
        sent(&mut flight, 0, 1);
        sent(&mut flight, 500, 2);
        assert_eq!((flight.deadline(), flight.is_silent()), (Some(at(1000)), false));
        assert!(!flight.gives_up(at(999)));
        assert!(flight.gives_up(at(1000)));
        assert_eq!((flight.bytes(), flight.window(3000.0)), (DataSize::ZERO, SIZE * 5));
        // If nothing is sent, no feedback is missing.
        assert_eq!((flight.deadline(), flight.is_silent()), (None, true));
        assert!(!flight.gives_up(at(100_000)));
        sent(&mut flight, 100_000, 3);
        assert!(!flight.gives_up(at(100_479)));
        assert!(flight.gives_up(at(100_480)));
        sent(&mut flight, 100_480, 4);
        // Of four packets, the first two are reported: the third stays written off, and only the fourth
        // counts.
        assert_eq!(flight.on_feedback(at(100_490), &left(2)), DataSize::ZERO);
        assert_eq!((flight.bytes(), flight.window(3000.0)), (SIZE, SIZE * 4));
        assert!(!flight.gives_up(at(101_489)));
        assert_eq!(flight.on_feedback(at(101_489), &left(0)), SIZE);
        assert_eq!(flight.window(3000.0), SIZE * 3);
        assert!(!flight.gives_up(at(200_000)));
    }

    #[test]
    fn discarded_packets_are_no_longer_written_off() {
        let mut flight = Flight::default();
        (1..=5).for_each(|count| sent(&mut flight, 0, count));
        assert!(flight.gives_up(at(1000)));
        assert_eq!(flight.window(3000.0), SIZE * 8);
        // Two of the five packets are discarded: three that are written off remain in flight, and one that
        // counts.
        sent(&mut flight, 60_000, 4);
        assert_eq!((flight.bytes(), flight.window(3000.0)), (SIZE, SIZE * 6));
        // All are discarded.
        sent(&mut flight, 130_000, 1);
        assert_eq!((flight.bytes(), flight.window(3000.0)), (SIZE, SIZE * 3));
    }
}
