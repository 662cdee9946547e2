//! Packet-timed round trips (draft §5.5.1).

/// Counts rounds: one ends when a packet is acknowledged that was sent after its start.
#[derive(Debug, Clone, Default)]
pub(super) struct Rounds {
    /// `next_round_delivered`.
    end: u64,
    /// Whether the latest acknowledgement has begun a round.
    pub(super) has_begun: bool,
    /// `round_count`.
    pub(super) count: u64,
}

impl Rounds {
    /// `UpdateRound`: `prior` bytes were delivered when the packet was sent, `delivered` now.
    pub(super) fn update(&mut self, prior: u64, delivered: u64) {
        self.has_begun = prior >= self.end;
        if self.has_begun {
            self.begin(delivered);
            self.count += 1;
        }
    }

    /// `StartRound`.
    pub(super) fn begin(&mut self, delivered: u64) {
        self.end = delivered;
    }
}
