//! SINR per stream, mutual information, block error rate.
//!
//! The link abstraction is mutual information per coded bit (MIESM; Brueninghaus et al., "Link performance models for system level
//! simulations of broadband radio access systems", PIMRC 2005), in three steps:
//!
//! 1. a [`Sample`] and a mean SNR give the SINR of each stream: [`mmse`], [`single_layer`], [`maximum_ratio`];
//! 2. [`LinkModel::information`] gives the mutual information per coded bit at that SINR, which is averaged over resource blocks and
//!    summed over transmissions (incremental redundancy);
//! 3. [`LinkModel::block_error`] compares the sum with the size of the block.

use super::{fading::Sample, propagation::from_db, tables::Modulation};

mod capacity;

/// Loss of a real turbo decoder against the normal approximation, dB of SINR: the one constant of the link abstraction that is fitted,
/// to the 15 published thresholds in the tests, which it meets within 0.5 dB. The error curves of ns-3 ask for 1.0 to 1.9 dB.
pub const IMPLEMENTATION_LOSS_DB: f64 = 1.0;

/// Largest code block, bit (TS 36.212 §5.1.2).
pub const CODE_BLOCK_BITS: u32 = 6144;

/// Length of a CRC, bit: one for each transport block and, if there are several, one for each code block (TS 36.212 §5.1.1, §5.1.2).
pub const CRC_BITS: u32 = 24;

/// Block error rate that link adaptation aims at (TS 36.213 §7.2.3: "not exceeding 0.1").
pub const TARGET_BLOCK_ERROR: f32 = 0.1;

/// Resource elements of a downlink resource block in a subframe: 14 symbols of 12 subcarriers, less 3 symbols of control and the 12
/// elements of the cell's reference signals of two antennas in the others (TS 36.211 §6.10.1; the control region is that of TS 36.213
/// §7.2.3).
pub const DOWNLINK_ELEMENTS: u32 = 120;

/// Resource elements of an uplink resource block in a subframe: 14 symbols of 12 subcarriers, less 2 symbols of reference signals (TS
/// 36.211 §5.5.2.1).
pub const UPLINK_ELEMENTS: u32 = 144;

/// The direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From a cell to a user.
    Downlink,
    /// From a user to a cell.
    Uplink,
}

/// Mutual information per coded bit, 0 to 1, with each of [`Modulation::ALL`].
///
/// A plain sum over resource block groups, divided by their number, is the mean.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Information(pub [f32; 3]);

impl Information {
    /// Returns the figure of `modulation`.
    pub fn of(self, modulation: Modulation) -> f32 {
        let [qpsk, qam16, qam64] = self.0;
        match modulation {
            Modulation::Qpsk => qpsk,
            Modulation::Qam16 => qam16,
            Modulation::Qam64 => qam64,
        }
    }

    /// Adds `other`.
    pub fn add(&mut self, other: Self) {
        for (value, other) in self.0.iter_mut().zip(other.0) {
            *value += other;
        }
    }

    /// Returns it times `factor`.
    #[must_use]
    pub fn times(self, factor: f32) -> Self {
        Self(self.0.map(|value| value * factor))
    }
}

/// Returns the SINR of the two streams of a 2x2 link behind a linear MMSE receiver; each antenna sends half of the power.
///
/// `snr` is the mean SNR: received power of all antennas over noise and interference, linear, at one receive antenna.
/// The SINR of stream k is 1 / [(I + ρ H^H H)^-1]kk − 1 with ρ = snr / 2 (Tse and Viswanath, "Fundamentals of Wireless Communication",
/// §8.3.3).
pub fn mmse(sample: &Sample, snr: f32) -> [f32; 2] {
    let rho = snr * 0.5;
    let (a, b) = (rho * sample.a, rho * sample.b);
    let product = rho * rho * sample.determinant;
    // With D = 1 + a + b + product: D / (1 + b) − 1 = (a + product) / (1 + b).
    [(a + product) / (1.0 + b), (b + product) / (1.0 + a)]
}

/// Returns the SINR of one layer with the best of the four precoders and maximum ratio combining, at a mean SNR of `snr`.
pub fn single_layer(sample: &Sample, snr: f32) -> f32 {
    snr * sample.best
}

/// Returns the SINR of one transmit antenna and two receive antennas with maximum ratio combining, at a mean SNR of `snr`.
///
/// `power` is |h1|², `a` of a [`Sample`].
pub fn maximum_ratio(power: f32, snr: f32) -> f32 {
    snr * power
}

/// Tables of mutual information, block error rate and link adaptation.
#[derive(Debug, Clone)]
pub struct LinkModel {
    /// Mutual information per coded bit after the implementation loss, at the SINR of [`Grid`].
    information: Vec<Information>,
    /// Capacity and dispersion of the binary channel, at the SINR of [`Grid`].
    binary: Vec<(f32, f32)>,
}

/// The SINR of the tables: 8 steps for each factor of 2, evenly spaced within, so that an index is a few bits of the number.
struct Grid;

impl Grid {
    /// log2 of the steps for each factor of 2.
    const STEPS: u32 = 3;
    /// The smallest and the largest exponent: −30 dB to 45 dB.
    const LOWEST: i32 = -10;
    const HIGHEST: i32 = 15;
    const POINTS: usize = ((Self::HIGHEST - Self::LOWEST) << Self::STEPS) as usize + 1;
    const SHIFT: u32 = 23 - Self::STEPS;
    const BASE: u32 = ((Self::LOWEST + 127) as u32) << Self::STEPS;
    const FIRST: f32 = 1.0 / 1024.0;

    /// Returns the SINR of a point.
    fn sinr(point: usize) -> f32 {
        f32::from_bits((Self::BASE + point as u32) << Self::SHIFT)
    }

    /// Returns the point at or below `sinr`, and the share of the way to the next; `None` below the first.
    fn place(sinr: f32) -> Option<(usize, f32)> {
        // Also false if it is not a number.
        if sinr >= Self::FIRST {
            let bits = sinr.to_bits();
            let point = (bits >> Self::SHIFT) - Self::BASE;
            if (point as usize) < Self::POINTS - 1 {
                let rest = (bits & ((1 << Self::SHIFT) - 1)) as f32 / (1_u32 << Self::SHIFT) as f32;
                Some((point as usize, rest))
            } else {
                Some((Self::POINTS - 2, 1.0))
            }
        } else {
            None
        }
    }
}

impl Default for LinkModel {
    fn default() -> Self {
        Self::new()
    }
}

impl LinkModel {
    /// Computes the tables with a loss of [`IMPLEMENTATION_LOSS_DB`].
    pub fn new() -> Self {
        Self::with_loss(IMPLEMENTATION_LOSS_DB)
    }

    /// Computes the tables with a loss of `loss_db`, dB of SINR.
    pub fn with_loss(loss_db: f64) -> Self {
        let loss = from_db(-loss_db);
        let information = (0..Grid::POINTS)
            .map(|point| {
                let sinr = f64::from(Grid::sinr(point)) * loss;
                Information(Modulation::ALL.map(|m| capacity::per_coded_bit(m, sinr) as f32))
            })
            .collect();
        let binary = (0..Grid::POINTS)
            .map(|point| {
                let (capacity, dispersion) = capacity::binary(f64::from(Grid::sinr(point)));
                (capacity as f32, dispersion as f32)
            })
            .collect();
        Self { information, binary }
    }

    /// Returns the mutual information per coded bit at `sinr` (linear), with each modulation, after the implementation loss.
    ///
    /// It interpolates within a table: no logarithm, no exponential.
    pub fn information(&self, sinr: f32) -> Information {
        Information(Modulation::ALL.map(|modulation| self.information_of(modulation, sinr)))
    }

    /// Returns the figure of `modulation` in [`information`](Self::information).
    #[inline]
    pub fn information_of(&self, modulation: Modulation, sinr: f32) -> f32 {
        match Grid::place(sinr) {
            Some((point, rest)) => {
                let Some([low, high]) = self.information.get(point..point + 2) else { return 0.0 };
                let (low, high) = (low.of(modulation), high.of(modulation));
                low + rest * (high - low)
            }
            // Proportional to a small SINR.
            None => self
                .information
                .first()
                .map_or(0.0, |first| first.of(modulation) * (sinr.max(0.0) / Grid::FIRST)),
        }
    }

    /// Returns the error rate of a transport block of `payload_bits`, its CRC not included.
    ///
    /// `coded_bits` were received, in all its transmissions together, with a mutual information of `information_bits` together, i.e.
    /// the sum over coded bits of [`information`](Self::information).
    ///
    /// The block is cut into code blocks of at most [`CODE_BLOCK_BITS`] (TS 36.212 §5.1.2). A code block of k bits is lost with the
    /// probability Q((n C − k + ½ log2 n) / √(n V)): the normal approximation of the best code of n bits (Polyanskiy, Poor and Verdú,
    /// "Channel coding rate in the finite blocklength regime", IEEE Trans. Inf. Theory 56(5), 2010, eq. 1), where C and V are
    /// capacity and dispersion of the binary channel with the same mean information. The turbo code has 3 k + 12 coded bits (TS 36.212
    /// §5.1.3.2); what is sent beyond repeats them, and adds SINR instead of information.
    pub fn block_error(&self, information_bits: f32, payload_bits: u32, coded_bits: u32) -> f32 {
        let (deviations, blocks) = self.deviations(information_bits, payload_bits, coded_bits);
        any_lost(deviations, blocks)
    }

    /// Returns whether a block with the arguments of [`block_error`](Self::block_error) is decoded, where `draw` is evenly distributed
    /// from 0 to 1 in steps of 2^-24, as a random `f32` is.
    pub fn is_decoded(&self, information_bits: f32, payload_bits: u32, coded_bits: u32, draw: f32) -> bool {
        let (deviations, blocks) = self.deviations(information_bits, payload_bits, coded_bits);
        // Beyond 6 deviations the error rate of a block is less than a step from 0 or 1, with 13 code blocks too.
        if deviations.abs() > 6.0 { deviations > 0.0 } else { draw >= any_lost(deviations, blocks) }
    }

    /// Returns how many standard deviations a code block is from being lost, and the number of code blocks.
    fn deviations(&self, information_bits: f32, payload_bits: u32, coded_bits: u32) -> (f64, u32) {
        if payload_bits == 0 {
            return (f64::INFINITY, 1);
        }
        if coded_bits == 0 {
            return (f64::NEG_INFINITY, 1);
        }
        let total = payload_bits.saturating_add(CRC_BITS);
        let blocks = if total <= CODE_BLOCK_BITS { 1 } else { total.div_ceil(CODE_BLOCK_BITS - CRC_BITS) };
        let size = f64::from(total) / f64::from(blocks) + if blocks > 1 { f64::from(CRC_BITS) } else { 0.0 };
        let received = f64::from(coded_bits) / f64::from(blocks);
        let mean = (information_bits / coded_bits as f32).clamp(0.0, 1.0);
        let distinct = 3.0 * size + 12.0;
        let repeats = received / distinct;
        let (length, sinr) = if repeats > 1.0 {
            (distinct, self.binary_sinr(mean) * repeats as f32)
        } else {
            (received, self.binary_sinr(mean))
        };
        let (capacity, dispersion) = self.binary_at(sinr);
        let margin = length * f64::from(capacity) - size + 0.5 * libm::log2(length);
        let deviation = libm::sqrt(length * f64::from(dispersion));
        let deviations = if deviation > 1e-3 {
            margin / deviation
        } else if margin < 0.0 {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
        (deviations, blocks)
    }

    /// Returns the SINR (dB) in a flat channel at which a block of `payload_bits` in `coded_bits` of `modulation` has the target error.
    pub fn threshold_db(&self, modulation: Modulation, payload_bits: u32, coded_bits: u32) -> f64 {
        let (mut low, mut high) = (-30.0, 45.0);
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            let information = self.information(from_db(middle) as f32).of(modulation) * coded_bits as f32;
            if self.block_error(information, payload_bits, coded_bits) > TARGET_BLOCK_ERROR {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// Returns the SINR at which the binary channel has the capacity `information`.
    fn binary_sinr(&self, information: f32) -> f32 {
        let above = self.binary.partition_point(|(capacity, _)| *capacity < information);
        let Some(before) = above.checked_sub(1) else {
            let first = self.binary.first().map_or(1.0, |first| first.0);
            return Grid::FIRST * information / first;
        };
        let (Some(&(low, _)), Some(&(high, _))) = (self.binary.get(before), self.binary.get(above)) else {
            return Grid::sinr(Grid::POINTS - 1);
        };
        let share = if high > low { (information - low) / (high - low) } else { 0.0 };
        Grid::sinr(before) + share * (Grid::sinr(above) - Grid::sinr(before))
    }

    /// Returns capacity and dispersion of the binary channel at `sinr`.
    fn binary_at(&self, sinr: f32) -> (f32, f32) {
        match Grid::place(sinr) {
            Some((point, rest)) => match self.binary.get(point..point + 2) {
                Some([low, high]) => (low.0 + rest * (high.0 - low.0), low.1 + rest * (high.1 - low.1)),
                _ => (1.0, 0.0),
            },
            None => self.binary.first().map_or((0.0, 0.0), |first| {
                let share = sinr.max(0.0) / Grid::FIRST;
                (first.0 * share, first.1 * share)
            }),
        }
    }
}

/// Returns the probability that one of `blocks` code blocks is lost, each `deviations` away from it.
fn any_lost(deviations: f64, blocks: u32) -> f32 {
    let error = tail(deviations);
    let success = 1.0 - error;
    let all = (0..blocks).fold(1.0, |product, _| product * success);
    // For one block, without the loss of digits in 1 − (1 − x).
    (if blocks == 1 { error } else { 1.0 - all }) as f32
}

/// Returns the probability that a standard normal variable exceeds `x`.
fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests;
