//! Sequences of numbers and of byte strings as RTC event logs encode them (libwebrtc, `logging/rtc_event_log/encoder/`:
//! `delta_encoding.cc`, `blob_encoding.cc`, `var_int.cc`).
//!
//! | header field | bits | meaning |
//! |---|---|---|
//! | encoding type | 2 | 0: unsigned deltas, all values present, 64 bits wide; 1: the three fields below follow |
//! | delta width − 1 | 6 | bits of each delta |
//! | signed deltas | 1 | deltas are two's complement |
//! | optional values | 1 | a bit for each value says whether it exists |
//! | value width − 1 | 6 | values wrap at this number of bits |
//!
//! An empty string: all values equal the base.

/// The most values of one sequence; a batch of Chromium has at most some thousands. Chosen by us.
pub(super) const MAX_VALUES: u32 = 1_000_000;

/// The `count` values after `base`. `None` if the string is damaged.
pub(super) fn deltas(encoded: &[u8], base: Option<u64>, count: u32) -> Option<Vec<Option<u64>>> {
    if count > MAX_VALUES {
        return None;
    }
    let count = count as usize;
    if encoded.is_empty() {
        return Some(vec![base; count]);
    }
    let mut bits = Bits { bytes: encoded, place: 0 };
    let kind = bits.read(2)?;
    let width = bits.read(6)? as u32 + 1;
    let (signed, optional, value_width) = match kind {
        0 => (false, false, 64),
        1 => (bits.read(1)? == 1, bits.read(1)? == 1, bits.read(6)? as u32 + 1),
        _ => return None,
    };
    let mask = |width: u32| u64::MAX >> (64 - width);
    let exists = if optional {
        (0..count).map(|_| Some(bits.read(1)? == 1)).collect::<Option<Vec<bool>>>()?
    } else {
        vec![true; count]
    };
    let mut previous = base;
    let value = |exists: bool| {
        if !exists {
            return Some(None);
        }
        let value = match previous {
            None => bits.varint()?,
            Some(previous) => {
                let delta = bits.read(width)?;
                let is_negative = signed && delta >> (width - 1) == 1;
                let delta = if is_negative { delta | !mask(width) } else { delta };
                previous.wrapping_add(delta) & mask(value_width)
            }
        };
        previous = Some(value);
        Some(Some(value))
    };
    exists.into_iter().map(value).collect()
}

/// The `count` byte strings. `None` if the string is damaged.
pub(super) fn blobs(encoded: &[u8], count: u32) -> Option<Vec<&[u8]>> {
    if count > MAX_VALUES {
        return None;
    }
    let mut bits = Bits { bytes: encoded, place: 0 };
    let lengths = (0..count).map(|_| bits.varint()).collect::<Option<Vec<u64>>>()?;
    let mut rest = encoded.get(bits.place / 8..)?;
    let mut blobs = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (blob, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        blobs.push(blob);
        rest = after;
    }
    rest.is_empty().then_some(blobs)
}

/// Bits, from the most significant of each byte.
struct Bits<'a> {
    bytes: &'a [u8],
    place: usize,
}

impl Bits<'_> {
    fn read(&mut self, width: u32) -> Option<u64> {
        let mut value = 0;
        for _ in 0..width {
            let byte = self.bytes.get(self.place / 8)?;
            value = value << 1 | u64::from(byte >> (7 - self.place % 8) & 1);
            self.place += 1;
        }
        Some(value)
    }

    /// Seven bits a byte, the least significant first; the top bit says that more follow.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.read(8)?;
            value |= (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes bits as the format says.
    #[derive(Default)]
    struct Writer(Vec<bool>);

    impl Writer {
        fn put(&mut self, value: u64, width: u32) {
            self.0.extend((0..width).rev().map(|bit| value >> bit & 1 == 1));
        }

        fn bytes(&self) -> Vec<u8> {
            let byte = |bits: &[bool]| {
                (0..8).fold(0, |byte, bit| byte << 1 | u8::from(bits.get(bit) == Some(&true)))
            };
            self.0.chunks(8).map(byte).collect()
        }
    }

    #[test]
    fn unsigned_deltas_are_added() {
        // Type 0, width 4: 3, 0, 15 after 100.
        let mut bits = Writer::default();
        for (value, width) in [(0, 2), (3, 6), (3, 4), (0, 4), (15, 4)] {
            bits.put(value, width);
        }
        assert_eq!(deltas(&bits.bytes(), Some(100), 3), Some(vec![Some(103), Some(103), Some(118)]));
        assert_eq!(deltas(&bits.bytes(), Some(100), 6), None, "more values than bits");
        assert_eq!(deltas(&[], Some(7), 2), Some(vec![Some(7), Some(7)]));
        assert_eq!(deltas(&[0x80, 0], Some(7), 1), None, "an unknown type");
    }

    #[test]
    fn signed_deltas_wrap_and_values_may_be_absent() {
        // Type 1, width 3, signed, optional, values of 16 bits: absent, −1 (of 0), +2.
        let mut bits = Writer::default();
        for (value, width) in [(1, 2), (2, 6), (1, 1), (1, 1), (15, 6), (0b011, 3), (0b111, 3), (0b010, 3)] {
            bits.put(value, width);
        }
        assert_eq!(deltas(&bits.bytes(), Some(0), 3), Some(vec![None, Some(0xffff), Some(1)]));
        // Without a base, the first value is a varint: 300.
        let mut bits = Writer::default();
        for (value, width) in [(1, 2), (2, 6), (0, 1), (1, 1), (15, 6), (0b11, 2), (0xac, 8), (2, 8), (1, 3)]
        {
            bits.put(value, width);
        }
        assert_eq!(deltas(&bits.bytes(), None, 2), Some(vec![Some(300), Some(301)]));
    }

    #[test]
    fn byte_strings_follow_their_lengths() {
        assert_eq!(blobs(&[1, 0, 2, 7, 8, 9], 3), Some(vec![&[7][..], &[], &[8, 9]]));
        assert_eq!(blobs(&[1, 0, 2, 7, 8, 9, 10], 3), None, "a rest");
        assert_eq!(blobs(&[1, 0, 2, 7, 8], 3), None, "too short");
    }

    proptest! {
        #[test]
        fn damaged_strings_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..60), base in any::<Option<u64>>(), count in 0_u32..400) {
            if let Some(values) = deltas(&bytes, base, count) {
                prop_assert_eq!(values.len(), count as usize);
            }
            if let Some(found) = blobs(&bytes, count) {
                prop_assert_eq!(found.len(), count as usize);
            }
        }
    }
}
