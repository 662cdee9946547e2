//! Runs of packets that were not played.

/// Maximum distance behind the newest packet at which another packet still counts, in packets.
const WINDOW: u64 = 1024;
const WORD_BITS: u64 = 64;
const WORDS: usize = (WINDOW / WORD_BITS) as usize;

/// Runs of packets that were not played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Runs {
    /// All packets, played or not.
    pub(super) packets: u64,
    /// Packets not played.
    pub(super) missing: u64,
    /// Runs of them.
    pub(super) bursts: u64,
    /// The length of the current run.
    open: u64,
}

impl Runs {
    fn close(&mut self) {
        self.bursts += u64::from(self.open > 0);
        self.open = 0;
    }

    fn on_played(&mut self) {
        self.close();
        self.packets += 1;
    }

    fn on_missing(&mut self, count: u64) {
        self.packets = self.packets.saturating_add(count);
        self.missing = self.missing.saturating_add(count);
        self.open = self.open.saturating_add(count);
    }
}

/// A bit for each packet of the window.
#[derive(Debug, Clone, Default)]
struct Bits([u64; WORDS]);

impl Bits {
    fn word(seq: u64) -> usize {
        (seq % WINDOW / WORD_BITS) as usize
    }

    fn has(&self, seq: u64) -> bool {
        self.0.get(Self::word(seq)).is_some_and(|word| word >> (seq % WORD_BITS) & 1 == 1)
    }

    fn set(&mut self, seq: u64, value: bool) {
        if let Some(word) = self.0.get_mut(Self::word(seq)) {
            *word = *word & !(1 << (seq % WORD_BITS)) | u64::from(value) << (seq % WORD_BITS);
        }
    }
}

/// Records which packets were played: individually within a window, as counted runs before it.
#[derive(Debug, Clone, Default)]
pub(super) struct LossRuns {
    /// The runs of all packets before `first`.
    done: Runs,
    /// The first packet in the window.
    first: u64,
    /// One after the newest packet.
    end: u64,
    came: Bits,
    played: Bits,
}

impl LossRuns {
    /// Whether the packet arrived before, as far as is stored.
    pub(super) fn is_known(&self, seq: u64) -> bool {
        (self.first..self.end).contains(&seq) && self.came.has(seq)
    }

    /// Whether the packet is before the window.
    pub(super) fn is_given_up(&self, seq: u64) -> bool {
        seq < self.first
    }

    /// Handles a packet, in time or not. Packets before the window stay missing.
    pub(super) fn on_packet(&mut self, seq: u64, in_time: bool) {
        if self.is_given_up(seq) {
            return;
        }
        if seq >= self.first.saturating_add(WINDOW) {
            self.advance(seq - WINDOW + 1);
        }
        self.end = self.end.max(seq.saturating_add(1));
        self.came.set(seq, true);
        self.played.set(seq, in_time);
    }

    /// Moves the start of the window to `first`, in at most a window of steps.
    fn advance(&mut self, first: u64) {
        let within = first.min(self.first.saturating_add(WINDOW));
        for seq in self.first..within {
            decide(&mut self.done, seq < self.end && self.played.has(seq));
            self.came.set(seq, false);
            self.played.set(seq, false);
        }
        self.done.on_missing(first - within);
        self.first = first;
    }

    /// The runs of `expected` packets, or of all received ones if those are more; in at most a window of
    /// steps.
    pub(super) fn runs(&self, expected: u64) -> Runs {
        let mut runs = self.done;
        for seq in self.first..self.end {
            decide(&mut runs, self.played.has(seq));
        }
        runs.on_missing(expected.saturating_sub(self.end.max(self.first)));
        runs.close();
        runs
    }
}

fn decide(runs: &mut Runs, played: bool) {
    if played {
        runs.on_played();
    } else {
        runs.on_missing(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same, computed from all packets.
    fn model(played: &[bool]) -> (u64, u64, u64) {
        let missing = played.iter().filter(|played| !**played).count();
        let bursts = played.split(|&played| played).filter(|run| !run.is_empty()).count();
        (played.len() as u64, missing as u64, bursts as u64)
    }

    #[test]
    fn a_jump_of_any_length_is_bounded_work() {
        let mut losses = LossRuns::default();
        losses.on_packet(0, true);
        losses.on_packet(1 << 60, true);
        losses.on_packet(u64::MAX, true);
        let runs = losses.runs(0);
        assert_eq!((runs.packets, runs.bursts), (u64::MAX, 2));
        assert_eq!(LossRuns::default().runs(7), Runs { packets: 7, missing: 7, bursts: 1, open: 0 });
        assert_eq!(LossRuns::default().runs(0), Runs::default());
    }

    proptest! {
        #[test]
        fn runs_are_those_of_the_whole_sequence(
            fates in proptest::collection::vec(0_u8..4, 1..4000), swaps in proptest::collection::vec((any::<u16>(), 0_u16..900), 0..200),
            tail in 0_u64..50,
        ) {
            // 0 is lost, 1 late, others played. Within the window packets may come in any order.
            let mut order: Vec<usize> = (0..fates.len()).collect();
            for (at, distance) in swaps {
                let at = usize::from(at) % order.len();
                let other = (at + usize::from(distance) / 2).min(order.len() - 1);
                if order[at] == at && order[other] == other {
                    order.swap(at, other);
                }
            }
            let mut losses = LossRuns::default();
            let mut end = 0;
            for seq in order {
                if fates[seq] > 0 {
                    prop_assert!(!losses.is_known(seq as u64));
                    losses.on_packet(seq as u64, fates[seq] > 1);
                    prop_assert!(losses.is_known(seq as u64));
                    end = end.max(seq + 1);
                }
            }
            let mut played: Vec<bool> = fates[..end].iter().map(|&fate| fate > 1).collect();
            played.resize(end + tail as usize, false);
            let runs = losses.runs(end as u64 + tail);
            prop_assert_eq!((runs.packets, runs.missing, runs.bursts), model(&played));
        }
    }
}
