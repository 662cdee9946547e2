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

    /// Sample, µ-law code, A-law code: from `lin2ulaw` and `lin2alaw` of Python 3.11's `audioop`, which
    /// agrees with these functions for every A-law sample and every positive µ-law sample. It rounds negative
    /// µ-law samples away from zero before encoding, so the table contains only samples for which both
    /// roundings agree.
    const VECTORS: &[(i16, u8, u8)] = &[
        (-32768, 0x00, 0x2a),
        (-32124, 0x00, 0x2a),
        (-20000, 0x0c, 0x26),
        (-12345, 0x17, 0x3d),
        (-8159, 0x1f, 0x0a),
        (-4096, 0x2f, 0x1a),
        (-1004, 0x4e, 0x7a),
        (-1000, 0x4e, 0x7a),
        (-528, 0x5b, 0x75),
        (-8, 0x7e, 0x55),
        (0, 0xff, 0xd5),
        (1, 0xff, 0xd5),
        (3, 0xff, 0xd5),
        (4, 0xfe, 0xd5),
        (7, 0xfe, 0xd5),
        (8, 0xfe, 0xd5),
        (15, 0xfd, 0xd5),
        (16, 0xfd, 0xd4),
        (100, 0xf2, 0xd3),
        (131, 0xef, 0xdd),
        (132, 0xef, 0xdd),
        (1000, 0xce, 0xfa),
        (1004, 0xce, 0xfa),
        (4095, 0xaf, 0x9a),
        (4096, 0xaf, 0x85),
        (8159, 0x9f, 0x8a),
        (12345, 0x97, 0xbd),
        (20000, 0x8c, 0xa6),
        (32123, 0x80, 0xaa),
        (32635, 0x80, 0xaa),
        (32767, 0x80, 0xaa),
    ];

    /// Code, µ-law sample, A-law sample: from `ulaw2lin` and `alaw2lin` of the same.
    const DECODED: &[(u8, i16, i16)] = &[
        (0x00, -32124, -5504),
        (0x11, -15484, -2624),
        (0x22, -7420, -24064),
        (0x33, -3516, -11520),
        (0x44, -1628, -280),
        (0x55, -716, -8),
        (0x66, -276, -1248),
        (0x77, -64, -592),
        (0x88, 23932, 7552),
        (0x99, 11388, 3648),
        (0xaa, 5372, 32256),
        (0xbb, 2492, 15616),
        (0xcc, 1116, 408),
        (0xdd, 460, 136),
        (0xee, 148, 1760),
        (0xff, 0, 848),
        (0x2a, -5372, -32256),
        (0x55, -716, -8),
        (0x7f, 0, -848),
        (0x80, 32124, 5504),
        (0xaa, 5372, 32256),
        (0xd5, 716, 8),
    ];

    #[test]
    fn codes_match_an_independent_implementation() {
        for &(sample, ulaw, alaw) in VECTORS {
            assert_eq!((encode_ulaw(sample), encode_alaw(sample)), (ulaw, alaw), "{sample}");
        }
        for &(code, ulaw, alaw) in DECODED {
            assert_eq!((decode_ulaw(code), decode_alaw(code)), (ulaw, alaw), "{code:#x}");
        }
        // All 256 codes, as sums weighted by position.
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

    #[test]
    fn loud_samples_are_clipped() {
        assert_eq!((encode_ulaw(i16::MAX), encode_ulaw(i16::MIN)), (0x80, 0x00));
        assert_eq!((encode_alaw(i16::MAX), encode_alaw(i16::MIN)), (0xaa, 0x2a));
        assert_eq!((decode_ulaw(0x00), decode_alaw(0x2a)), (-32124, -32256));
        assert_eq!((encode_ulaw(0), encode_alaw(0)), (0xff, 0xd5));
    }
}
