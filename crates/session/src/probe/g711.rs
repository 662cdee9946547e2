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

    /// The 16-bit sample of a µ-law code, −32124 to 32124.
    fn decode_ulaw(code: u8) -> i16 {
        let inverted = !code;
        let segment = (inverted >> 4) & 0x07;
        let biased = (i16::from(inverted & 0x0f) * 2 + 33) << segment;
        let value = (biased - 33) * 4;
        if inverted & POSITIVE == 0 { value } else { -value }
    }

    /// The 16-bit sample of an A-law code, −32256 to 32256; there is no zero.
    fn decode_alaw(code: u8) -> i16 {
        let plain = code ^ ALAW_LINE;
        let segment = (plain >> 4) & 0x07;
        let step = i16::from(plain & 0x0f) * 2 + 1;
        let value = if segment == 0 { step << 3 } else { (step + 32) << (segment + 2) };
        if plain & POSITIVE == 0 { -value } else { value }
    }

    /// Samples, µ-law codes, A-law codes: from `lin2ulaw` and `lin2alaw` of Python 3.11's `audioop`, which
    /// agrees with these functions for every A-law sample and every positive µ-law sample. It rounds negative
    /// µ-law samples away from zero before encoding, so the table contains only samples for which both
    /// roundings agree.
    const SAMPLES: [i16; 31] = [
        -32768, -32124, -20000, -12345, -8159, -4096, -1004, -1000, -528, -8, 0, 1, 3, 4, 7, 8, 15, 16, 100,
        131, 132, 1000, 1004, 4095, 4096, 8159, 12345, 20000, 32123, 32635, 32767,
    ];
    const ULAW: [u8; 31] = [
        0x00, 0x00, 0x0c, 0x17, 0x1f, 0x2f, 0x4e, 0x4e, 0x5b, 0x7e, 0xff, 0xff, 0xff, 0xfe, 0xfe, 0xfe, 0xfd,
        0xfd, 0xf2, 0xef, 0xef, 0xce, 0xce, 0xaf, 0xaf, 0x9f, 0x97, 0x8c, 0x80, 0x80, 0x80,
    ];
    const ALAW: [u8; 31] = [
        0x2a, 0x2a, 0x26, 0x3d, 0x0a, 0x1a, 0x7a, 0x7a, 0x75, 0x55, 0xd5, 0xd5, 0xd5, 0xd5, 0xd5, 0xd5, 0xd5,
        0xd4, 0xd3, 0xdd, 0xdd, 0xfa, 0xfa, 0x9a, 0x85, 0x8a, 0xbd, 0xa6, 0xaa, 0xaa, 0xaa,
    ];

    #[test]
    fn codes_match_an_independent_implementation() {
        assert_eq!((SAMPLES.map(encode_ulaw), SAMPLES.map(encode_alaw)), (ULAW, ALAW));
        // What `ulaw2lin` and `alaw2lin` make of all 256 codes, as sums weighted by position.
        let sum =
            |decode: fn(u8) -> i16| (0..=u8::MAX).map(|c| i64::from(decode(c)) * i64::from(c)).sum::<i64>();
        assert_eq!((sum(decode_ulaw), sum(decode_alaw)), (98_107_392, 100_139_008));
    }

    /// The decoded value may differ from `sample` by half a step of its segment, and by the clipped part.
    fn check_bounds(encode: fn(i16) -> u8, decode: fn(u8) -> i16, step: fn(i32) -> i32, clip: i32) {
        let mut before = i16::MIN;
        for sample in i16::MIN..=i16::MAX {
            let decoded = decode(encode(sample));
            assert!(decoded >= before, "{sample} decodes to {decoded}, below {before}");
            before = decoded;
            let error = (i32::from(decoded) - i32::from(sample)).abs();
            let magnitude = i32::from(sample).abs();
            let bound = step(magnitude) / 2 + (magnitude - clip).max(0);
            assert!(error <= bound, "{sample} decodes to {decoded}: {error} is above {bound}");
        }
    }

    #[test]
    fn ulaw_errors_are_at_most_half_a_step() {
        let step = |magnitude: i32| 8 << ((magnitude / 4 + 34).min(0x1fff).ilog2() - 5);
        check_bounds(encode_ulaw, decode_ulaw, step, 32124);
    }

    #[test]
    fn alaw_errors_are_at_most_half_a_step() {
        let step = |magnitude: i32| 16 << ((magnitude / 8).max(16).ilog2().min(11) - 4).saturating_sub(1);
        check_bounds(encode_alaw, decode_alaw, step, 32256);
    }

    #[test]
    fn decoding_and_encoding_preserve_the_value() {
        for code in 0..=u8::MAX {
            assert_eq!(decode_ulaw(encode_ulaw(decode_ulaw(code))), decode_ulaw(code), "µ-law {code:#x}");
            assert_eq!(encode_alaw(decode_alaw(code)), code, "A-law");
            // The µ-law has two zeros, 0xff and 0x7f.
            let same = if code == 0x7f { 0xff } else { code };
            assert_eq!(encode_ulaw(decode_ulaw(code)), same);
        }
    }
}
