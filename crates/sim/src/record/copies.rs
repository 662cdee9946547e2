//! Counts each packet of a flow once, even if links duplicated it.

use std::collections::BTreeMap;

/// The packets of a flow that were duplicated and have a copy in the network, by sequence number. Its size is
/// bounded by the number of such packets.
#[derive(Debug, Clone, Default)]
pub(super) struct Copies(BTreeMap<u64, Copied>);

#[derive(Debug, Clone, Copy)]
struct Copied {
    in_network: u32,
    delivered: bool,
}

impl Copies {
    /// Whether the network contains exactly one copy of every packet.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Handles the duplication of packet `sequence`.
    pub(super) fn duplicate(&mut self, sequence: u64) {
        self.0.entry(sequence).or_insert(Copied { in_network: 1, delivered: false }).in_network += 1;
    }

    /// Handles the delivery of a copy of packet `sequence`. Returns whether it is the first one.
    pub(super) fn deliver(&mut self, sequence: u64) -> bool {
        !self.leave(sequence, true).delivered
    }

    /// Handles the drop of a copy of packet `sequence`. Returns whether the packet is lost: this was its last
    /// copy and none was delivered.
    pub(super) fn drop(&mut self, sequence: u64) -> bool {
        let Copied { in_network, delivered } = self.leave(sequence, false);
        in_network == 1 && !delivered
    }

    /// Removes a copy of packet `sequence` from the network. Returns the state before.
    fn leave(&mut self, sequence: u64, delivered: bool) -> Copied {
        let Some(copied) = self.0.get_mut(&sequence) else {
            return Copied { in_network: 1, delivered: false };
        };
        let before = *copied;
        copied.in_network -= 1;
        copied.delivered |= delivered;
        if copied.in_network == 0 {
            self.0.remove(&sequence);
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_delivered_copy_counts_and_the_last_dropped() {
        let mut copies = Copies::default();
        assert!(copies.deliver(0) && copies.drop(1), "packets without copies");
        for (packet, duplicates) in [(7, 2), (8, 1), (9, 1)] {
            (0..duplicates).for_each(|_| copies.duplicate(packet));
        }
        assert_eq!([copies.deliver(7), copies.deliver(7), copies.drop(7)], [true, false, false]);
        assert_eq!([copies.drop(8), copies.drop(8)], [false, true]);
        assert_eq!([copies.drop(9), copies.deliver(9)], [false, true]);
        assert!(copies.is_empty());
    }
}
