//! µ-law and A-law, the two encodings of ITU-T G.711 (11/1988).
//!
//! Samples are 16-bit linear: the 14 bits of the µ-law (G.711 Table 2) and the 13 bits of the A-law (Table 1)
//! are the upper bits. The magnitude of a negative sample is its one's complement, as in the ITU-T's software
//! tool library (G.191).
//!
//! # Example
//!
//! ```
//! use giusto_session::probe::g711;
//!
//! assert_eq!(g711::encode_ulaw(0), 0xff);
//! assert_eq!(g711::encode_alaw(0), 0xd5);
//! ```

/// The bias that the µ-law adds to a 14-bit magnitude, so that each segment begins at a power of two (G.711 Table 2).
const ULAW_BIAS: u16 = 33;
/// The largest biased 14-bit magnitude; what is above is clipped.
const ULAW_CLIP: u16 = 0x1fff;
/// The sign bit; it is set for positive values in both laws.
const POSITIVE: u8 = 0x80;
/// Every second bit of the A-law is inverted on the line (G.711 §3.2, Table 1a note 2).
const ALAW_LINE: u8 = 0x55;

/// The magnitude of `sample`: the one's complement of a negative one.
fn magnitude(sample: i16) -> u16 {
    (if sample < 0 { !sample } else { sample }).unsigned_abs()
}

/// The µ-law code of a 16-bit sample.
pub fn encode_ulaw(sample: i16) -> u8 {
    let biased = ((magnitude(sample) >> 2) + ULAW_BIAS).min(ULAW_CLIP);
    // With the bias, bit 5 is the lowest possible highest bit; with the clip, bit 12 is the highest.
    let segment = biased.ilog2() - 5;
    let code = (segment << 4) as u8 | ((biased >> (segment + 1)) & 0x0f) as u8;
    let sign = if sample < 0 { POSITIVE } else { 0 };
    // All bits are inverted on the line.
    !(code | sign)
}

/// The A-law code of a 16-bit sample.
pub fn encode_alaw(sample: i16) -> u8 {
    let magnitude = magnitude(sample) >> 3;
    // Segments 0 and 1 have the same step size; from 32 on a segment begins at each power of two.
    let segment = magnitude.max(16).ilog2() - 4;
    let code = (segment << 4) as u8 | ((magnitude >> segment.max(1)) & 0x0f) as u8;
    let sign = if sample < 0 { 0 } else { POSITIVE };
    (code | sign) ^ ALAW_LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums over all samples, each weighted by its position: from `lin2alaw` and `lin2ulaw` of Python 3.11's `audioop`, of which the latter
    /// rounds negative samples away from zero before encoding.
    #[test]
    fn all_codes_are_those_of_an_independent_implementation() {
        let weighted = |code: u8, sample: i16| u64::from(code) * (u64::from(sample as u16) + 1);
        let alaw: u64 = (i16::MIN..=i16::MAX).map(|sample| weighted(encode_alaw(sample), sample)).sum();
        let ulaw: u64 = (0..=i16::MAX).map(|sample| weighted(encode_ulaw(sample), sample)).sum();
        assert_eq!((alaw, ulaw), (159_722_582_016, 75_036_205_850));
        for sample in 0..=i16::MAX {
            assert_eq!(encode_ulaw(!sample), encode_ulaw(sample) ^ POSITIVE, "{sample}");
        }
        // The ends of the segments, and silence.
        let samples = [i16::MIN, -8159, -1, 0, 4, 8159, i16::MAX];
        assert_eq!(samples.map(encode_ulaw), [0x00, 0x1f, 0x7f, 0xff, 0xfe, 0x9f, 0x80]);
        assert_eq!(samples.map(encode_alaw), [0x2a, 0x0a, 0x55, 0xd5, 0xd5, 0x8a, 0xaa]);
    }
}
