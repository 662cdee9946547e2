//! Runs of packets that were not played.

/// How far behind the newest packet another may still come and count, in packets.
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
    /// The length of the run that has not ended.
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

/// Follows which packets were played: exactly within a window, as counted runs behind it.
#[derive(Debug, Clone, Default)]
pub(super) struct LossRuns {
    /// The runs of all packets before `first`.
    done: Runs,
    /// The first packet that is not decided.
    first: u64,
    /// One behind the newest packet.
    end: u64,
    came: Bits,
    played: Bits,
}

impl LossRuns {
    /// Whether the packet came before, as far as is remembered.
    pub(super) fn is_known(&self, seq: u64) -> bool {
        (self.first..self.end).contains(&seq) && self.came.has(seq)
    }

    /// Whether the packet lies behind the window.
    pub(super) fn is_given_up(&self, seq: u64) -> bool {
        seq < self.first
    }

    /// A packet came, in time or not. What is older than the window stays missing.
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

    /// Decides all packets before `first`, in at most a window of steps.
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

    /// The runs of `expected` packets, or of all that came if those are more; in at most a window of steps.
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

    /// The same by looking at everything.
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
