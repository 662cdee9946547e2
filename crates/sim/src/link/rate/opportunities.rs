//! Delivery opportunities, as in the traces of Mahimahi.

use giusto_units::{DataRate, DataSize, Timestamp};

/// A forward cursor over delivery opportunities.
///
/// Mahimahi's rule: an opportunity carries bytes of as many packets as fit. A packet may span several opportunities and
/// leaves with its last byte.
#[derive(Debug, Clone)]
pub(super) struct Opportunities {
    at: Vec<Timestamp>,
    bytes: u32,
    /// Index of the current opportunity.
    index: usize,
    /// Number of completed rounds.
    round: u64,
    /// Bytes left in the current opportunity.
    left: u32,
}

/// The period of opportunities in nanoseconds: the time of the last one.
pub(super) fn period(at: &[Timestamp]) -> u64 {
    at.last().map_or(0, |last| last.as_nanos()).max(1)
}

impl Opportunities {
    pub(super) fn new(at: Vec<Timestamp>, bytes: u32) -> Self {
        Self { at, bytes, index: 0, round: 0, left: bytes }
    }

    /// Time of the current opportunity.
    pub(super) fn next(&self) -> Timestamp {
        let within = self.at.get(self.index).map_or(0, |at| at.as_nanos());
        Timestamp::from_nanos(self.round.saturating_mul(period(&self.at)).saturating_add(within))
    }

    /// The mean rate.
    pub(super) fn rate(&self) -> Option<DataRate> {
        let round = DataSize::from_bytes(u64::from(self.bytes)) * self.at.len() as u64;
        DataRate::of(round, self.at.last().copied().unwrap_or(Timestamp::ZERO) - Timestamp::ZERO)
    }

    /// Skips the opportunities before `now`, and the current one if it is used up.
    pub(super) fn seek(&mut self, now: Timestamp) {
        let current_round = now.as_nanos() / period(&self.at);
        if current_round > self.round + 1 {
            // Skips whole rounds without a packet.
            (self.index, self.round, self.left) = (0, current_round - 1, self.bytes);
        }
        while self.left == 0 || self.next() < now {
            self.left = self.bytes;
            self.index += 1;
            if self.index == self.at.len() {
                (self.index, self.round) = (0, self.round + 1);
            }
        }
    }

    /// Uses the opportunities from `start` on for a packet. Returns the time of its last byte.
    pub(super) fn transmit(&mut self, start: Timestamp, bytes: u32) -> Timestamp {
        let mut to_send = bytes;
        self.seek(start);
        loop {
            let end = self.next();
            let sent = to_send.min(self.left);
            (self.left, to_send) = (self.left - sent, to_send - sent);
            self.seek(end);
            if to_send == 0 {
                return end;
            }
        }
    }
}
