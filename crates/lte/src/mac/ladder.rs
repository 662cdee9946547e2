//! Thresholds of channel qualities (CQI) and of modulation and coding schemes (MCS) in a channel without fading.

use crate::{
    carrier::Carrier,
    radio::{
        link::LinkModel,
        tables::{CQI, Mcs, Modulation, transport_block_bits},
    },
    terminal::from_decibels,
};

/// Resource blocks of the transport block for which thresholds are computed. They depend little on it.
const TYPICAL_BLOCKS: u32 = 12;

/// SINR range of the table in octaves (factors of two) below and above 1: -12 to 27 dB.
const OCTAVES: (u32, u32) = (4, 9);

/// Steps of the table per octave: 16, 0.2 dB.
const STEPS_LOG2: u32 = 4;

/// A modulation and coding scheme with its threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scheme {
    pub(super) modulation: Modulation,
    /// Row of the table of transport block sizes.
    pub(super) i_tbs: u8,
    /// SINR in dB at which a tenth of the blocks fails.
    pub(super) threshold_db: f32,
}

/// What a SINR permits.
#[derive(Debug)]
pub(super) struct Ladder {
    /// For each step of SINR the CQI.
    qualities: Vec<u8>,
    /// Per CQI: bits per resource element, and the threshold in dB.
    points: [(f32, f32); 16],
    /// Per CQI: the threshold as a linear SINR.
    thresholds: [f32; 16],
    schemes: Vec<Scheme>,
}

impl Ladder {
    /// The ladder of a carrier with these schemes, from the most robust on.
    pub(super) fn new(model: &LinkModel, carrier: Carrier, schemes: &[Mcs]) -> Self {
        let elements = TYPICAL_BLOCKS * carrier.elements;
        let mut points = [(0.0, 0.0); 16];
        let threshold_db = |modulation: Modulation, bits: u32| {
            model.threshold_db(modulation, bits, elements * modulation.bits()) as f32
        };
        for (quality, point) in CQI.iter().zip(points.iter_mut().skip(1)) {
            let bits = quality.efficiency() * f64::from(elements);
            *point = (quality.efficiency() as f32, threshold_db(quality.modulation, bits as u32));
        }
        // Below the lowest quality nothing can be sent.
        points[0] = (0.0, points[1].1 - 3.0);
        let scheme = |&Mcs { modulation, i_tbs }: &Mcs| {
            let threshold_db = threshold_db(modulation, transport_block_bits(i_tbs, TYPICAL_BLOCKS));
            Scheme { modulation, i_tbs, threshold_db }
        };
        let schemes = schemes.iter().map(scheme).collect();
        let (below, above) = OCTAVES;
        let qualities = (0..(below + above) << STEPS_LOG2).map(|step| {
            let octave = (step >> STEPS_LOG2) as i32 - below as i32;
            let within = f64::from(step & ((1 << STEPS_LOG2) - 1)) / f64::from(1 << STEPS_LOG2);
            let sinr_db = 10.0 * libm::log10(libm::exp2(f64::from(octave)) * (1.0 + within));
            let reached = points.iter().skip(1).take_while(|&&(_, db)| f64::from(db) <= sinr_db);
            reached.count() as u8
        });
        let thresholds = points.map(|(_, db)| from_decibels(db));
        Self { qualities: qualities.collect(), points, thresholds, schemes }
    }

    /// The CQI of a linear SINR.
    #[inline]
    pub(super) fn quality(&self, sinr: f32) -> u8 {
        // The bits of a positive f32 from the mantissa's fourth on count steps of its logarithm.
        let step = (sinr.max(0.0).to_bits() >> (23 - STEPS_LOG2)) as i32;
        let lowest = ((127 - OCTAVES.0) << STEPS_LOG2) as i32;
        let place = (step - lowest).clamp(-1, self.qualities.len() as i32 - 1);
        usize::try_from(place).ok().and_then(|place| self.qualities.get(place)).copied().unwrap_or(0)
    }

    /// Bits per resource element of a CQI.
    #[inline]
    pub(super) fn efficiency(&self, quality: u8) -> f32 {
        self.points.get(usize::from(quality)).map_or(0.0, |&(efficiency, _)| efficiency)
    }

    /// The threshold of a CQI as a linear SINR.
    pub(super) fn sinr(&self, quality: u8) -> f32 {
        self.thresholds.get(usize::from(quality)).copied().unwrap_or(0.0)
    }

    /// The SINR in dB that permits `efficiency` bits per resource element, from interpolated thresholds.
    pub(super) fn sinr_db(&self, efficiency: f32) -> f32 {
        let above = self.points.partition_point(|&(point, _)| point < efficiency).clamp(1, 15);
        let (Some(&(low, low_db)), Some(&(high, high_db))) =
            (self.points.get(above - 1), self.points.get(above))
        else {
            return 0.0;
        };
        low_db + (high_db - low_db) * ((efficiency - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// The fastest scheme that `sinr_db` permits, or the most robust one.
    pub(super) fn scheme(&self, sinr_db: f32) -> Scheme {
        let fitting = self.schemes.iter().rev().find(|scheme| scheme.threshold_db <= sinr_db);
        *fitting.or(self.schemes.first()).expect("a ladder has schemes")
    }
}
