//! The carrier: bandwidth, resource blocks and their groups.

use crate::radio::link::{DOWNLINK_ELEMENTS, UPLINK_ELEMENTS};

/// Number of resource block groups of the widest carrier (25 of 4 blocks in 20 MHz, TS 36.213 table 7.1.6.1-1).
pub const MAX_GROUPS: usize = 25;

/// Bandwidths in MHz and their resource blocks (TS 36.101 table 5.6-1).
pub const BANDWIDTHS: [(f64, u32); 6] = [(1.4, 6), (3.0, 15), (5.0, 25), (10.0, 50), (15.0, 75), (20.0, 100)];

/// Resource blocks at the edges of the uplink that carry control information (PUCCH, TS 36.211 §5.4.3): two at each edge, a usual
/// choice for 10 MHz (recalled). We take it at every bandwidth: of the 6 blocks of 1.4 MHz, 2 remain.
const CONTROL_BLOCKS: u32 = 4;

/// A carrier in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carrier {
    /// Resource blocks that carry data.
    pub blocks: u32,
    /// Resource blocks of a group; the last group may have fewer.
    pub group: u32,
    /// Resource elements of a block.
    pub elements: u32,
}

impl Carrier {
    /// The downlink of a carrier with this number of resource blocks (groups: TS 36.213 table 7.1.6.1-1).
    pub const fn downlink(blocks: u32) -> Self {
        Self { blocks, group: group_size(blocks), elements: DOWNLINK_ELEMENTS }
    }

    /// The uplink, divided into whole groups of the same size.
    pub const fn uplink(blocks: u32) -> Self {
        let group = group_size(blocks);
        Self { blocks: (blocks - CONTROL_BLOCKS) / group * group, group, elements: UPLINK_ELEMENTS }
    }

    /// Number of groups: at most [`MAX_GROUPS`].
    pub const fn groups(self) -> usize {
        let groups = self.blocks.div_ceil(self.group) as usize;
        if groups > MAX_GROUPS { MAX_GROUPS } else { groups }
    }

    /// Resource blocks of group `group`.
    pub const fn blocks_of(self, group: usize) -> u32 {
        let before = group as u32 * self.group;
        let rest = self.blocks.saturating_sub(before);
        if rest < self.group { rest } else { self.group }
    }
}

const fn group_size(blocks: u32) -> u32 {
    match blocks {
        0..=10 => 1,
        11..=26 => 2,
        27..=63 => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_the_standard() {
        let groups = BANDWIDTHS.map(|(_, blocks)| Carrier::downlink(blocks).groups());
        assert_eq!(groups, [6, 8, 13, 17, 19, 25]);
        for (_, blocks) in BANDWIDTHS {
            for carrier in [Carrier::downlink(blocks), Carrier::uplink(blocks)] {
                let sum: u32 = (0..carrier.groups()).map(|group| carrier.blocks_of(group)).sum();
                assert_eq!(sum, carrier.blocks);
            }
        }
        let up = BANDWIDTHS.map(|(_, blocks)| Carrier::uplink(blocks).blocks);
        assert_eq!(up, [2, 10, 20, 45, 68, 96]);
    }
}
