//! Loss detection with a reordering window (RFC 8298 §4.1.2.4).

use giusto_units::{TimeDelta, Timestamp, math};

use crate::{
    feedback::PacketReport,
    reordering::{Late, Reordering},
};

/// Number of loss events without a late packet after which the reordering window is reset (RFC 8985 §6.2,
/// step 4).
const PERSISTENCE: u32 = 16;
/// Weight of one RTT in the share of RTTs with losses. Not specified: one loss event keeps the share above
/// the 0.002 of RFC 8298 §4.1.2.3 for 160 RTTs.
const RATE_WEIGHT: f64 = 0.01;

/// Detects loss events: one or more lost packets, at most once per RTT (RFC 8298 §4.1.2.1).
///
/// When a missing packet is lost, RFC 8298 leaves open: after the reordering window of RFC 8985 ([`Reordering`]).
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    reordering: Reordering,
    /// Number of loss events since the last late packet.
    events: u32,
    last_event: Option<Timestamp>,
    /// Number of reported packets since the last event.
    reported: u64,
    lost: u64,
    event_rate: f64,
    round: Timestamp,
}

impl Losses {
    /// Handles packet reports.
    pub(super) fn on_packets(&mut self, now: Timestamp, packets: &[PacketReport]) {
        self.reported += packets.len() as u64;
        for packet in packets {
            if let Some(late) = self.reordering.on_packet(now, packet) {
                self.events = 0;
                self.lost = self.lost.saturating_sub(u64::from(late == Late::Beyond));
            }
        }
    }

    /// Returns the share of lost packets since the previous loss event, if there is a loss event now.
    /// `rtt` in seconds.
    pub(super) fn event(&mut self, now: Timestamp, rtt: f64) -> Option<f64> {
        self.pass(now, rtt);
        let newly = self.reordering.lost(now, TimeDelta::from_seconds_f64(rtt)).count() as u64;
        self.lost += newly;
        let recent = self.last_event.is_some_and(|last| now.saturating_since(last).as_seconds() < rtt);
        if newly == 0 || recent {
            return None;
        }
        let ratio = self.lost as f64 / self.reported.max(self.lost) as f64;
        (self.reported, self.lost, self.last_event) = (0, 0, Some(now));
        self.event_rate += RATE_WEIGHT * (1.0 - self.event_rate);
        self.events += 1;
        if self.events >= PERSISTENCE {
            self.events = 0;
            self.reordering.reset();
        }
        Some(ratio)
    }

    /// The share of RTTs with losses.
    pub(super) fn event_rate(&self) -> f64 {
        self.event_rate
    }

    /// Reduces the share by the RTTs that have passed.
    fn pass(&mut self, now: Timestamp, rtt: f64) {
        let rounds = math::floor(now.saturating_since(self.round).as_seconds() / rtt);
        if rounds >= 1.0 {
            self.event_rate *= math::pow(1.0 - RATE_WEIGHT, rounds);
            self.round = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, at};

    const ROUND_TRIP: f64 = 0.1;

    fn report(sequence: u64, arrived: bool) -> PacketReport {
        testing::report(sequence, 0, arrived.then_some(1))
    }

    #[test]
    fn a_missing_packet_is_lost_after_a_quarter_of_an_rtt() {
        let mut losses = Losses::default();
        losses.on_packets(at(1000), &[report(0, true), report(1, false), report(2, true), report(3, true)]);
        assert_eq!(losses.event(at(1000), ROUND_TRIP), None);
        assert_eq!(losses.event(at(1024), ROUND_TRIP), None);
        assert_eq!(losses.event(at(1025), ROUND_TRIP), Some(0.25));
        assert_eq!(losses.event(at(1500), ROUND_TRIP), None, "it is lost once");
    }

    #[test]
    fn a_late_packet_widens_the_window_to_at_most_one_rtt() {
        let mut losses = Losses::default();
        losses.on_packets(at(0), &[report(1, false), report(2, true)]);
        losses.on_packets(at(20), &[report(1, true)]);
        assert_eq!(losses.event(at(50), ROUND_TRIP), None);
        // 60 ms late: detected as lost. The window is 60 ms from here on.
        losses.on_packets(at(100), &[report(3, false), report(4, true)]);
        assert!(losses.event(at(130), ROUND_TRIP).is_some());
        losses.on_packets(at(160), &[report(3, true)]);
        losses.on_packets(at(300), &[report(5, false), report(6, true)]);
        assert_eq!(losses.event(at(359), ROUND_TRIP), None);
        assert!(losses.event(at(360), ROUND_TRIP).is_some());
        // 900 ms late: the maximum is one RTT.
        losses.on_packets(at(1200), &[report(5, true), report(7, false)]);
        assert_eq!(losses.event(at(1299), ROUND_TRIP), None);
        assert!(losses.event(at(1300), ROUND_TRIP).is_some());
    }

    #[test]
    fn losses_within_an_rtt_are_one_event() {
        let mut losses = Losses::default();
        losses.on_packets(at(0), &[report(1, false), report(2, true)]);
        assert!(losses.event(at(30), ROUND_TRIP).is_some());
        losses.on_packets(at(31), &[report(3, false), report(4, true)]);
        assert_eq!(losses.event(at(129), ROUND_TRIP), None);
        losses.on_packets(at(110), &[report(5, false), report(6, true)]);
        assert!(losses.event(at(135), ROUND_TRIP).is_some());
    }

    #[test]
    fn the_share_of_rtts_with_losses_rises_at_once_and_decays() {
        let mut losses = Losses::default();
        losses.on_packets(at(0), &[report(1, false), report(2, true)]);
        losses.event(at(100), ROUND_TRIP);
        assert!((losses.event_rate() - 0.01).abs() < 1e-9);
        losses.event(at(15_000), ROUND_TRIP);
        assert!(losses.event_rate() > 0.002);
        losses.event(at(17_000), ROUND_TRIP);
        assert!(losses.event_rate() < 0.002);
    }
}
