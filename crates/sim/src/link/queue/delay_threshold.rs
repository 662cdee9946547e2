//! Delay threshold: drops or marks the packet at the head when it has waited too long, with a pause after each.

use super::prelude::*;

giusto_units::defaults! {
    /// Configuration of a [`DelayThreshold`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct DelayThresholdConfig {
        /// Sojourn time above which a departing packet is dropped or marked, at least 0. Default: 200 ms, our choice.
        pub threshold: TimeDelta = TimeDelta::from_millis(200),
        /// Time after a drop or mark in which there is no other, at least 0. Default: 100 ms, our choice: a round trip, in which senders
        /// react.
        pub hold_off: TimeDelta = TimeDelta::from_millis(100),
        /// Whether ECN-capable packets are marked instead of dropped. Default: no.
        pub ecn: bool = false,
        /// Capacity. Default: 1000 packets, our choice.
        pub limit: Limit = Limit::Packets(1000),
    }
}

/// A FIFO with a threshold of the delay at its head, as cellular base stations use: one drop signals congestion, and a hold-off
/// time lets senders react before the next (after Sågfors, Ludwig, Meyer and Peisa, "Queue management for TCP traffic over 3G links",
/// WCNC 2003, whose counter of packets is a time here).
pub type DelayThreshold = FifoQueue<HeldOff>;

/// The law of a [`DelayThreshold`].
#[derive(Debug)]
pub struct HeldOff {
    config: DelayThresholdConfig,
    /// End of the hold-off time.
    quiet_until: Timestamp,
}

impl Discipline for DelayThresholdConfig {
    discipline!("delay threshold", |config, _random| DelayThreshold::new(config));

    fn validate(&self) -> Result<(), QueueError> {
        let check = Check(self.name());
        check.time("threshold", self.threshold)?;
        check.time("hold_off", self.hold_off)
    }
}

impl DelayThreshold {
    /// Creates an empty queue. With [`Limit::Time`] it admits no packet until [`Queue::on_rate`] has been called.
    ///
    /// # Errors
    ///
    /// [`QueueError::Range`] if a time is negative.
    pub fn new(config: DelayThresholdConfig) -> Result<Self, QueueError> {
        config.validate()?;
        Ok(Self::of(HeldOff { config, quiet_until: Timestamp::ZERO }, config.limit))
    }
}

impl Law for HeldOff {
    fn depart(&mut self, now: Timestamp, fifo: &mut Fifo, drops: &mut Vec<Dropped>) -> Option<Packet> {
        let mut packet = fifo.pop()?;
        if now < self.quiet_until || sojourn(now, &packet) <= self.config.threshold {
            return Some(packet);
        }
        self.quiet_until = now + self.config.hold_off;
        if self.config.ecn && fifo.mark(&mut packet) {
            return Some(packet);
        }
        drops.push(Dropped { packet, reason: DropReason::Aqm });
        fifo.pop()
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::Ecn;

    use super::*;
    use crate::link::queue::tests::{at_micros, packet};

    /// Sequence numbers that leave, and those that are dropped, of ten packets that arrive together and leave 50 ms apart.
    fn leave(config: DelayThresholdConfig, ecn: Ecn) -> (Vec<u64>, Vec<u64>, u64) {
        let mut queue = DelayThreshold::new(config).unwrap();
        let (mut left, mut drops) = (Vec::new(), Vec::new());
        for sequence in 0..10 {
            queue.enqueue(at_micros(0), packet(0, sequence, 1000, ecn), &mut drops);
        }
        for turn in 0.. {
            let Some(packet) = queue.dequeue(at_micros(50_000 * turn), &mut drops) else { break };
            left.push(packet.sequence);
        }
        (left, drops.iter().map(|drop| drop.packet.sequence).collect(), queue.marked())
    }

    #[test]
    fn one_packet_is_dropped_per_hold_off_time() {
        let config = DelayThresholdConfig::default();
        // Turn 5 is the first beyond 200 ms; the next drop may follow 100 ms, two turns, later.
        let (left, dropped, _) = leave(config, Ecn::NotEct);
        assert_eq!((left, dropped), (vec![0, 1, 2, 3, 4, 6, 7, 9], vec![5, 8]));
        let none = DelayThresholdConfig { threshold: TimeDelta::from_seconds(1), ..config };
        assert_eq!(leave(none, Ecn::NotEct).1.len(), 0);
    }

    #[test]
    fn capable_packets_are_marked_if_permitted() {
        let config = DelayThresholdConfig { ecn: true, ..DelayThresholdConfig::default() };
        let (left, dropped, marked) = leave(config, Ecn::Ect1);
        assert_eq!((left.len(), dropped.len(), marked), (10, 0, 3));
        assert_eq!(leave(config, Ecn::NotEct).2, 0);
    }
}
