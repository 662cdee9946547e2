//! Durations of frames on the air.

use giusto_units::{DataRate, TimeDelta};

/// How long frames take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phy {
    /// IEEE 802.11n in a channel of 20 MHz at 5 GHz, and the older rates by which it can be mixed.
    ///
    /// A rate of 1, 2, 5.5 or 11 Mbit/s is sent as DSSS with the long preamble, one of 6 to 54 Mbit/s of IEEE 802.11a as OFDM, and
    /// any other, 52 Mbit/s among them, as HT mixed format with two spatial streams and long guard interval.
    Ieee80211n,
    /// Frames of constant overhead, as analytic models have them.
    Constant {
        /// Time before the first byte of a packet: preamble and headers.
        overhead: TimeDelta,
        /// Time of an acknowledgement, preamble included.
        acknowledgement: TimeDelta,
    },
}

/// OFDM symbol with long guard interval: IEEE 802.11-2016, tables 17-5 and 19-6.
const SYMBOL: TimeDelta = TimeDelta::from_micros(4);
/// Preamble and SIGNAL field of OFDM: IEEE 802.11-2016 table 17-5.
const OFDM_PREAMBLE: TimeDelta = TimeDelta::from_micros(20);
/// HT mixed format: L-STF 8, L-LTF 8, L-SIG 4, HT-SIG 8, HT-STF 4 and two HT-LTF of 4 µs, one for each stream (§19.3.2, table 19-6).
const HT_PREAMBLE: TimeDelta = TimeDelta::from_micros(40);
/// Long preamble and header of DSSS: 144 + 48 bits at 1 Mbit/s (§16.2.2).
const DSSS_PREAMBLE: TimeDelta = TimeDelta::from_micros(192);
/// SERVICE and tail bits of OFDM and HT: 16 + 6 (§17.3.5, §19.3.11).
const SERVICE_AND_TAIL: u64 = 22;
/// `QoS` data header of 26 B, frame check sequence of 4 B (§9.2.3, §9.3.2), LLC and SNAP header of 8 B (IEEE 802.2, RFC 1042).
const MPDU_OVERHEAD: u64 = 38;
/// Delimiter of a subframe of an A-MPDU (§9.7.1).
const DELIMITER: u64 = 4;
/// Acknowledgement (§9.3.1.4) and compressed block acknowledgement (§9.3.1.9).
const ACK_BYTES: u64 = 14;
const BLOCK_ACK_BYTES: u64 = 32;

enum Modulation {
    Dsss,
    Ofdm,
    Ht,
}

fn modulation(rate: DataRate) -> Modulation {
    match rate.as_bps() {
        1_000_000 | 2_000_000 | 5_500_000 | 11_000_000 => Modulation::Dsss,
        6_000_000 | 9_000_000 | 12_000_000 | 18_000_000 | 24_000_000 | 36_000_000 | 48_000_000
        | 54_000_000 => Modulation::Ofdm,
        _ => Modulation::Ht,
    }
}

fn symbols(bits: u64, rate: DataRate) -> TimeDelta {
    let per_symbol = rate.size_in(SYMBOL * 1000).as_bits();
    let count = (bits * 1000).div_ceil(per_symbol.max(1));
    SYMBOL * i64::try_from(count).unwrap_or(i64::MAX)
}

fn at_rate(bits: u64, rate: DataRate) -> TimeDelta {
    let nanos = (u128::from(bits) * 1_000_000_000).div_ceil(u128::from(rate.as_bps()).max(1));
    TimeDelta::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

impl Phy {
    /// Whether several packets may share a frame at `rate`: only in HT format.
    pub(super) fn aggregates(self, rate: DataRate) -> bool {
        matches!((self, modulation(rate)), (Self::Ieee80211n, Modulation::Ht))
    }

    /// Bytes of a packet of `bytes` within a frame that has several.
    pub(super) fn subframe(bytes: u32) -> u64 {
        (u64::from(bytes) + MPDU_OVERHEAD + DELIMITER).next_multiple_of(4)
    }

    /// Duration of a frame with packets of these sizes.
    pub(super) fn data(self, rate: DataRate, sizes: impl ExactSizeIterator<Item = u32>) -> TimeDelta {
        match self {
            Self::Constant { overhead, .. } => {
                overhead + at_rate(sizes.map(u64::from).sum::<u64>() * 8, rate)
            }
            Self::Ieee80211n => {
                let alone = sizes.len() == 1;
                let of = |bytes| if alone { u64::from(bytes) + MPDU_OVERHEAD } else { Self::subframe(bytes) };
                let bits = sizes.map(of).sum::<u64>() * 8;
                match modulation(rate) {
                    Modulation::Dsss => DSSS_PREAMBLE + at_rate(bits, rate),
                    Modulation::Ofdm => OFDM_PREAMBLE + symbols(bits + SERVICE_AND_TAIL, rate),
                    Modulation::Ht => HT_PREAMBLE + symbols(bits + SERVICE_AND_TAIL, rate),
                }
            }
        }
    }

    /// Duration of the acknowledgement of a frame at `rate`, at the highest basic rate that is not above it (§10.7.6.5.2): of 6, 12
    /// and 24 Mbit/s, or of 1 and 2 Mbit/s for DSSS.
    pub(super) fn acknowledgement(self, rate: DataRate, aggregated: bool) -> TimeDelta {
        let bytes = if aggregated { BLOCK_ACK_BYTES } else { ACK_BYTES };
        match self {
            Self::Constant { acknowledgement, .. } => acknowledgement,
            Self::Ieee80211n => {
                let highest = |basic: &[u64]| {
                    let fits = basic.iter().rev().find(|&&basic| basic <= rate.as_bps()).or(basic.first());
                    DataRate::from_bps(fits.copied().unwrap_or(1_000_000))
                };
                if matches!(modulation(rate), Modulation::Dsss) {
                    return DSSS_PREAMBLE + at_rate(bytes * 8, highest(&[1_000_000, 2_000_000]));
                }
                let basic = highest(&[6_000_000, 12_000_000, 24_000_000]);
                OFDM_PREAMBLE + symbols(bytes * 8 + SERVICE_AND_TAIL, basic)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(time: TimeDelta) -> f64 {
        time.as_micros()
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "whole microseconds")]
    fn frames_take_the_time_of_hand_calculation() {
        let phy = Phy::Ieee80211n;
        let data = |bps, sizes: &[u32]| micros(phy.data(DataRate::from_bps(bps), sizes.iter().copied()));
        // 1238 B and 22 bits are 9926 bits: 48 symbols of 208 bits.
        assert_eq!(data(52_000_000, &[1200]), 40.0 + 48.0 * 4.0);
        // Two subframes of 1244 B: 19 926 bits, 96 symbols.
        assert_eq!(data(52_000_000, &[1200, 1200]), 40.0 + 96.0 * 4.0);
        // 54 Mbit/s: 216 bits a symbol, 46 of them. 6 Mbit/s: 24 bits, 414.
        assert_eq!(data(54_000_000, &[1200]), 20.0 + 46.0 * 4.0);
        assert_eq!(data(6_000_000, &[1200]), 20.0 + 414.0 * 4.0);
        // 9904 bits at 2 Mbit/s.
        assert_eq!(data(2_000_000, &[1200]), 192.0 + 4952.0);
        // Known durations at 24 Mbit/s: 28 µs for an ACK, 32 µs for a compressed block ACK; 44 µs for an ACK at 6 Mbit/s.
        let ack = |bps, aggregated| micros(phy.acknowledgement(DataRate::from_bps(bps), aggregated));
        let acks =
            [ack(52_000_000, false), ack(52_000_000, true), ack(6_000_000, false), ack(2_000_000, false)];
        assert_eq!(acks, [28.0, 32.0, 44.0, 192.0 + 56.0]);
        assert_eq!([54, 52].map(|mbps| phy.aggregates(DataRate::from_bps(mbps * 1_000_000))), [false, true]);
    }
}
