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
    fn a_packet_without_copies_is_settled_at_once() {
        let mut copies = Copies::default();
        assert!(copies.deliver(0) && copies.drop(1));
        assert!(copies.is_empty());
    }

    #[test]
    fn only_the_first_delivered_copy_counts() {
        let mut copies = Copies::default();
        copies.duplicate(7);
        copies.duplicate(7);
        assert_eq!([copies.deliver(7), copies.deliver(7), copies.drop(7)], [true, false, false]);
        assert!(copies.is_empty());
    }

    #[test]
    fn a_packet_is_lost_when_its_last_copy_is_dropped() {
        let mut copies = Copies::default();
        copies.duplicate(7);
        copies.duplicate(8);
        assert_eq!([copies.drop(7), copies.drop(7)], [false, true]);
        assert_eq!([copies.drop(8), copies.deliver(8)], [false, true]);
        assert!(copies.is_empty());
    }
}
