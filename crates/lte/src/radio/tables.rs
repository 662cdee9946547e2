//! CQI, MCS and transport block sizes of TS 36.213.
//!
//! The numbers were compared, outside this project, between three independent implementations of the specification (srsRAN 4G,
//! `OpenAirInterface` and ns-3). They agree in all 2,970 transport block sizes, except that ns-3 replaces the 328 bit of one resource
//! block at index 6 by 88 bit, and in both MCS tables.

mod transport_blocks;

/// A modulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Modulation {
    /// 4 points.
    Qpsk,
    /// 16 points.
    Qam16,
    /// 64 points.
    Qam64,
}

impl Modulation {
    /// All modulations.
    pub const ALL: [Self; 3] = [Self::Qpsk, Self::Qam16, Self::Qam64];

    /// Returns the number of coded bits of a symbol.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Qpsk => 2,
            Self::Qam16 => 4,
            Self::Qam64 => 6,
        }
    }
}

/// A channel quality indicator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cqi {
    /// Modulation.
    pub modulation: Modulation,
    /// Code rate times 1024.
    pub rate_1024: u16,
}

impl Cqi {
    /// Returns the efficiency: information bits per symbol.
    pub fn efficiency(self) -> f64 {
        f64::from(self.rate_1024) / 1024.0 * f64::from(self.modulation.bits())
    }
}

const fn cqi(modulation: Modulation, rate_1024: u16) -> Cqi {
    Cqi { modulation, rate_1024 }
}

/// CQI 1 to 15: TS 36.213 table 7.2.3-1. CQI 0 means "out of range".
pub const CQI: [Cqi; 15] = [
    cqi(Modulation::Qpsk, 78),
    cqi(Modulation::Qpsk, 120),
    cqi(Modulation::Qpsk, 193),
    cqi(Modulation::Qpsk, 308),
    cqi(Modulation::Qpsk, 449),
    cqi(Modulation::Qpsk, 602),
    cqi(Modulation::Qam16, 378),
    cqi(Modulation::Qam16, 490),
    cqi(Modulation::Qam16, 616),
    cqi(Modulation::Qam64, 466),
    cqi(Modulation::Qam64, 567),
    cqi(Modulation::Qam64, 666),
    cqi(Modulation::Qam64, 772),
    cqi(Modulation::Qam64, 873),
    cqi(Modulation::Qam64, 948),
];

/// A modulation and coding scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mcs {
    /// Modulation.
    pub modulation: Modulation,
    /// Transport block size index, 0 to 26.
    pub i_tbs: u8,
}

/// Number of modulation and coding schemes for first transmissions.
pub const MCS: usize = 29;

/// Downlink MCS 0 to 28: TS 36.213 table 7.1.7.1-1.
pub const DOWNLINK_MCS: [Mcs; MCS] = mcs_table(10, 17);

/// Uplink MCS 0 to 28: TS 36.213 table 8.6.1-1, for users that support 64QAM up. Users of categories 1 to 4 do not: they use 16QAM
/// in its place (§8.6.1), see [`UPLINK_MCS_16QAM`].
pub const UPLINK_MCS: [Mcs; MCS] = mcs_table(11, 21);

/// Number of uplink MCS that a user without 64QAM can use well: 0 to 20.
pub const UPLINK_MCS_16QAM: usize = 21;

/// The index of a transport block size repeats where the modulation changes.
const fn mcs_table(first_qam16: usize, first_qam64: usize) -> [Mcs; MCS] {
    let mut table = [Mcs { modulation: Modulation::Qpsk, i_tbs: 0 }; MCS];
    let mut i = 0;
    while i < MCS {
        let (modulation, repeated) = if i < first_qam16 {
            (Modulation::Qpsk, 0)
        } else if i < first_qam64 {
            (Modulation::Qam16, 1)
        } else {
            (Modulation::Qam64, 2)
        };
        #[expect(clippy::indexing_slicing, reason = "i < MCS, and this runs when the crate is compiled")]
        {
            table[i] = Mcs { modulation, i_tbs: (i - repeated) as u8 };
        }
        i += 1;
    }
    table
}

/// Returns the transport block size of `i_tbs` over `resource_blocks`, bit: TS 36.213 table 7.1.7.2.1-1, one layer.
///
/// It is 0 where the table has no entry, i.e. without resource blocks, with more than 110, or above index 26.
pub fn transport_block_bits(i_tbs: u8, resource_blocks: u32) -> u32 {
    let row = transport_blocks::TRANSPORT_BLOCK_BITS.get(usize::from(i_tbs));
    row.and_then(|row| row.get((resource_blocks as usize).checked_sub(1)?)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_transport_blocks() {
        // 36,696 and 75,376 bit are the peaks of 10 and 20 MHz: a category 3 user receives 75,376 bit in a block (TS 36.306 table
        // 4.1-1), a category 5 user sends 75,376.
        for (i_tbs, blocks, bits) in [
            (0, 1, 16),
            (6, 1, 328),
            (26, 1, 712),
            (0, 6, 152),
            (26, 25, 18_336),
            (26, 50, 36_696),
            (26, 100, 75_376),
            (9, 50, 7992),
            (15, 50, 15_264),
            (26, 110, 75_376),
        ] {
            assert_eq!(transport_block_bits(i_tbs, blocks), bits, "I_TBS {i_tbs}, {blocks} resource blocks");
        }
        assert_eq!(
            [(27, 1), (0, 0), (0, 111)].map(|(i_tbs, blocks)| transport_block_bits(i_tbs, blocks)),
            [0; 3]
        );
    }

    #[test]
    fn transport_blocks_grow_and_are_cut_into_code_blocks_without_filler() {
        for (i_tbs, blocks) in (0..27).flat_map(|i_tbs| (1..=110).map(move |blocks| (i_tbs, blocks))) {
            let bits = transport_block_bits(i_tbs, blocks);
            let what = format!("I_TBS {i_tbs}, {blocks} resource blocks: {bits} bit");
            assert_eq!(bits % 8, 0, "{what}");
            // The one exception: 328 bit at I_TBS 6 and one resource block, between 72 and 104, before 176.
            assert!(bits >= transport_block_bits(i_tbs, blocks - 1) || (i_tbs, blocks) == (6, 2), "{what}");
            let below = if i_tbs > 0 { transport_block_bits(i_tbs - 1, blocks) } else { 0 };
            assert!(bits >= below || (i_tbs, blocks) == (7, 1), "{what}");
            // TS 36.212 §5.1.3: sizes are chosen so that all code blocks of a transport block have the same size from table 5.1.3-3:
            // steps of 8 bit to 512, 16 to 1024, 32 to 2048, 64 to 6144.
            let bits = bits + 24;
            let count = if bits <= 6144 { 1 } else { bits.div_ceil(6144 - 24) };
            let sum = if count == 1 { bits } else { bits + 24 * count };
            let size = sum / count;
            let step = match size {
                0..=512 => 8,
                513..=1024 => 16,
                1025..=2048 => 32,
                _ => 64,
            };
            assert_eq!((sum % count, size % step), (0, 0), "{what}: code blocks of {size} bit");
        }
    }

    #[test]
    fn mcs_tables_repeat_an_index_at_each_change_of_modulation() {
        let index = |table: &[Mcs; MCS], mcs: usize| (table[mcs].modulation.bits(), table[mcs].i_tbs);
        for (mcs, expected) in
            [(0, (2, 0)), (9, (2, 9)), (10, (4, 9)), (16, (4, 15)), (17, (6, 15)), (28, (6, 26))]
        {
            assert_eq!(index(&DOWNLINK_MCS, mcs), expected, "downlink MCS {mcs}");
        }
        for (mcs, expected) in
            [(0, (2, 0)), (10, (2, 10)), (11, (4, 10)), (20, (4, 19)), (21, (6, 19)), (28, (6, 26))]
        {
            assert_eq!(index(&UPLINK_MCS, mcs), expected, "uplink MCS {mcs}");
        }
    }

    #[test]
    fn cqi_efficiencies_are_those_of_the_specification() {
        // The last column of TS 36.213 table 7.2.3-1.
        let published = [
            0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141, 2.4063, 2.7305, 3.3223, 3.9023,
            4.5234, 5.1152, 5.5547,
        ];
        for (entry, published) in CQI.iter().zip(published) {
            assert!((entry.efficiency() - published).abs() < 0.000_06, "{entry:?}: {published}");
        }
    }
}
