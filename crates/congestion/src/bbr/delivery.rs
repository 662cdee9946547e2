//! Delivery-rate samples (draft §4.1).

use alloc::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

use crate::feedback::SentPacket;

/// Packets below the newest that arrived are forgotten from this distance on: no report of them is expected. At 1 Gbit/s it is 0.2 s, more
/// than a reordering window.
const MEMORY: u64 = 1 << 14;
/// Highest number of packets that are stored.
const MAX: usize = 1 << 15;

/// State of a packet when it was sent (§4.1.2.1.2).
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    sequence: u64,
    at: Timestamp,
    pub(super) size: u64,
    /// `P.delivered`, `P.delivered_time`, `P.first_send_time`.
    pub(super) delivered: u64,
    delivered_at: Timestamp,
    first_at: Timestamp,
    /// `P.lost`.
    pub(super) lost: u64,
    /// `P.tx_in_flight`.
    pub(super) flight: u64,
    /// `P.is_app_limited`.
    pub(super) is_app_limited: bool,
}

/// A delivery-rate sample (`RS`), of all packets of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sample {
    /// `RS.delivery_rate`, in bytes per second. Zero if the interval was shorter than the minimum RTT.
    pub(super) rate: f64,
    /// `RS.delivered`, in bytes.
    pub(super) delivered: f64,
    /// `RS.prior_delivered`, in bytes.
    pub(super) prior: u64,
    /// `RS.newly_acked`, in bytes.
    pub(super) acked: f64,
    /// `RS.lost`, in bytes.
    pub(super) lost: f64,
    /// `RS.tx_in_flight`, in bytes.
    pub(super) flight_when_sent: f64,
    /// `RS.is_app_limited`.
    pub(super) is_app_limited: bool,
}

/// State of a session for these samples (§4.1.2.1.1). Bytes are counted from the start.
#[derive(Debug, Clone, Default)]
pub(super) struct Delivery {
    /// Packets without a report, in order.
    packets: VecDeque<Sent>,
    /// `C.delivered` and `C.delivered_time`.
    pub(super) delivered: u64,
    delivered_at: Timestamp,
    /// `C.first_send_time`.
    first_at: Timestamp,
    /// `C.lost`: bytes lost or marked.
    pub(super) lost: u64,
    /// `C.app_limited`: until so many bytes are delivered, packets count as limited by the application. Zero: not limited.
    limited_until: u64,
}

impl Delivery {
    /// Handles a sent packet (`OnPacketSent`). `is_app_limited`: the media use less than they may.
    pub(super) fn on_sent(&mut self, now: Timestamp, packet: &SentPacket, is_app_limited: bool) {
        let (size, flight) = (packet.size.as_bytes(), packet.in_flight.as_bytes());
        if flight <= size {
            (self.first_at, self.delivered_at) = (now, now);
        }
        if is_app_limited {
            self.limit(flight);
        }
        if self.packets.back().is_some_and(|last| last.sequence >= packet.sequence) {
            return;
        }
        if self.packets.len() >= MAX {
            self.packets.pop_front();
        }
        self.packets.push_back(Sent {
            sequence: packet.sequence,
            at: now,
            size,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_at: self.first_at,
            lost: self.lost,
            flight,
            is_app_limited: self.is_app_limited(),
        });
    }

    /// `MarkConnectionAppLimited`, with `flight` bytes in flight.
    pub(super) fn limit(&mut self, flight: u64) {
        self.limited_until = self.delivered.saturating_add(flight).max(1);
    }

    pub(super) fn is_app_limited(&self) -> bool {
        self.limited_until > 0
    }

    /// Takes the state of packet `sequence`, which is reported. `None` if it was reported before or is unknown.
    pub(super) fn take(&mut self, sequence: u64) -> Option<Sent> {
        let place = self.packets.binary_search_by_key(&sequence, |packet| packet.sequence).ok()?;
        self.packets.remove(place)
    }

    /// Counts a packet that was lost or marked.
    pub(super) fn on_lost(&mut self, size: u64) {
        self.lost = self.lost.saturating_add(size);
    }

    /// Handles the packets that have arrived according to a report, each with the time of its acknowledgement (`UpdateRateSample` and
    /// `GenerateRateSample`). `None` if there is none.
    pub(super) fn on_acked(
        &mut self,
        packets: &[(Timestamp, Sent)],
        min_rtt: Option<TimeDelta>,
    ) -> Option<Sample> {
        let acked = packets.iter().fold(0_u64, |sum, (_, sent)| sum.saturating_add(sent.size));
        self.delivered = self.delivered.saturating_add(acked);
        self.delivered_at = packets.iter().map(|&(at, _)| at).fold(self.delivered_at, Timestamp::max);
        let (_, newest) = packets.iter().max_by_key(|(_, sent)| sent.sequence)?;
        if self.is_app_limited() && self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        self.first_at = newest.at;
        while self.packets.front().is_some_and(|oldest| oldest.sequence + MEMORY < newest.sequence) {
            self.packets.pop_front();
        }
        let send_time = newest.at.saturating_since(newest.first_at);
        let interval = send_time.max(self.delivered_at.saturating_since(newest.delivered_at));
        let delivered = self.delivered.saturating_sub(newest.delivered) as f64;
        let is_reliable = interval > TimeDelta::ZERO && min_rtt.is_none_or(|min_rtt| interval >= min_rtt);
        Some(Sample {
            rate: if is_reliable { delivered / interval.as_seconds() } else { 0.0 },
            delivered,
            prior: newest.delivered,
            acked: acked as f64,
            lost: self.lost.saturating_sub(newest.lost) as f64,
            flight_when_sent: newest.flight as f64,
            is_app_limited: newest.is_app_limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::DataSize;

    use super::*;
    use crate::testing::at;

    const SIZE: u64 = 1000;

    fn send(delivery: &mut Delivery, sequence: u64, ms: u64, in_flight: u64, is_limited: bool) {
        let size = DataSize::from_bytes(SIZE);
        let packet = SentPacket { sequence, at: at(ms), size, probe: None, in_flight: size * in_flight };
        delivery.on_sent(at(ms), &packet, is_limited);
    }

    #[test]
    fn a_sample_is_what_arrived_since_the_packet_was_sent() {
        let mut delivery = Delivery::default();
        // Packets each 10 ms, 40 ms for the way there and back: the sixth is acknowledged at 90 ms. When it was sent, at 50 ms, packets 0
        // and 1 had been acknowledged, the latter at 50 ms: four more in 40 ms.
        for number in 0..6 {
            if number >= 4 {
                let sent = delivery.take(number - 4).unwrap();
                delivery.on_acked(&[(at(number * 10), sent)], None);
            }
            send(&mut delivery, number, number * 10, (number + 1).min(4), false);
        }
        let sent: Vec<_> =
            (2..6).map(|number| (at(number * 10 + 40), delivery.take(number).unwrap())).collect();
        let sample = delivery.on_acked(&sent, Some(TimeDelta::from_millis(40))).unwrap();
        assert_eq!((sample.delivered, sample.prior, sample.acked), (4e3, 2000, 4e3));
        assert!((sample.rate - 4e3 / 0.04).abs() < 1e-6 && !sample.is_app_limited, "{sample:?}");
        assert!((sample.flight_when_sent - 4e3).abs() < 1e-9);
        assert!(delivery.take(3).is_none(), "reported once");
        assert_eq!(delivery.on_acked(&[], None), None);
    }

    #[test]
    fn a_burst_that_was_sent_slowly_does_not_count_as_fast() {
        // Four packets in 30 ms that arrive at once: the interval is that of sending.
        let mut delivery = Delivery::default();
        (0..4).for_each(|number| send(&mut delivery, number, number * 10, number + 1, false));
        let sent: Vec<_> = (0..4).map(|number| (at(31), delivery.take(number).unwrap())).collect();
        let sample = delivery.on_acked(&sent, None).unwrap();
        assert!((sample.rate - 4e3 / 0.031).abs() < 1e-6, "{sample:?}");
        // An interval below the minimum RTT gives no rate.
        send(&mut delivery, 4, 40, 1, false);
        let sent = delivery.take(4).unwrap();
        let sample = delivery.on_acked(&[(at(60), sent)], Some(TimeDelta::from_millis(21))).unwrap();
        assert!(sample.rate.abs() < 1e-9, "{sample:?}");
    }

    #[test]
    fn packets_count_as_limited_until_what_was_in_flight_is_delivered() {
        let mut delivery = Delivery::default();
        send(&mut delivery, 0, 0, 1, false);
        send(&mut delivery, 1, 10, 2, true);
        send(&mut delivery, 2, 20, 3, false);
        let limited = |delivery: &mut Delivery, number, ms| {
            let sent = delivery.take(number).unwrap();
            delivery.on_acked(&[(at(ms), sent)], None).unwrap().is_app_limited
        };
        assert!(!limited(&mut delivery, 0, 40) && limited(&mut delivery, 1, 50));
        assert!(delivery.is_app_limited() && limited(&mut delivery, 2, 60));
        send(&mut delivery, 3, 70, 1, false);
        assert!(!delivery.is_app_limited() && !limited(&mut delivery, 3, 110));
    }
}
