//! What became of the packets of one flow, so that each counts once however often it was copied.

use std::collections::VecDeque;

/// So many packets behind the newest are remembered at least: their copies may still turn up.
const REMEMBERED_BLOCKS: usize = 64;

/// Packets per block: one bit each.
const BLOCK: u64 = 64;

/// Two bits per packet from the oldest whose fate is open on; copies of those before it are known to be copies.
#[derive(Debug, Clone, Default)]
pub(super) struct Fates {
    first: u64,
    blocks: VecDeque<Block>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    decided: u64,
    delivered: u64,
}

/// What an event says about its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its first news.
    First,
    /// It arrived, though a copy of it was dropped before.
    AfterAll,
    /// Nothing new: a copy.
    Copy,
}

impl Fates {
    /// Packet `sequence` arrived.
    #[inline]
    pub(super) fn deliver(&mut self, sequence: u64) -> Fate {
        let Some((block, bit)) = self.block(sequence) else { return Fate::Copy };
        let fate = match (block.decided & bit, block.delivered & bit) {
            (0, _) => Fate::First,
            (_, 0) => Fate::AfterAll,
            _ => Fate::Copy,
        };
        block.decided |= bit;
        block.delivered |= bit;
        self.forget();
        fate
    }

    /// Packet `sequence`, or a copy of it, was dropped.
    #[inline]
    pub(super) fn drop(&mut self, sequence: u64) -> Fate {
        let Some((block, bit)) = self.block(sequence) else { return Fate::Copy };
        let fate = if block.decided & bit == 0 { Fate::First } else { Fate::Copy };
        block.decided |= bit;
        self.forget();
        fate
    }

    #[inline]
    fn block(&mut self, sequence: u64) -> Option<(&mut Block, u64)> {
        let place = (sequence / BLOCK).checked_sub(self.first)? as usize;
        if place >= self.blocks.len() {
            self.blocks.resize(place + 1, Block::default());
        }
        Some((self.blocks.get_mut(place)?, 1 << (sequence % BLOCK)))
    }

    /// Drops the oldest blocks if nothing in them is open and they are long past.
    #[inline]
    fn forget(&mut self) {
        while self.blocks.len() > REMEMBERED_BLOCKS
            && self.blocks.front().is_some_and(|block| block.decided == u64::MAX)
        {
            self.blocks.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_news_counts_and_copies_do_not() {
        let mut fates = Fates::default();
        assert_eq!(
            [fates.deliver(0), fates.deliver(0), fates.drop(0)],
            [Fate::First, Fate::Copy, Fate::Copy]
        );
        assert_eq!([fates.drop(70), fates.drop(70)], [Fate::First, Fate::Copy]);
        assert_eq!([fates.deliver(70), fates.deliver(70)], [Fate::AfterAll, Fate::Copy]);
    }

    #[test]
    fn memory_is_bounded_by_the_oldest_open_packet_and_late_copies_are_known() {
        let mut fates = Fates::default();
        for sequence in 0..100_000 {
            assert_eq!(fates.deliver(sequence), Fate::First);
        }
        assert!(fates.blocks.len() <= REMEMBERED_BLOCKS + 1, "{}", fates.blocks.len());
        assert_eq!((fates.deliver(3), fates.drop(3)), (Fate::Copy, Fate::Copy));
        // 100 000 stays open: nothing after it is forgotten until it is decided.
        for sequence in 100_001..200_000 {
            fates.drop(sequence);
        }
        assert!(fates.blocks.len() > 1500, "{}", fates.blocks.len());
        assert_eq!(fates.deliver(100_001), Fate::AfterAll);
        assert_eq!(fates.drop(100_000), Fate::First);
        assert!(fates.blocks.len() <= REMEMBERED_BLOCKS + 1, "{}", fates.blocks.len());
    }
}
