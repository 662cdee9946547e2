//! AV1 over RTP (RTP Payload Format For AV1, version 1.0.0): OBU elements, their fragments, and the low-overhead byte stream of the AV1
//! Bitstream Specification §5.2.
//!
//! # Example
//!
//! ```
//! use giusto_rtp::av1::{Reassembler, packets};
//!
//! // A sequence header of 2 bytes, and a frame of 200.
//! let unit = [&[0x0a, 2, 1, 2, 0x32, 0xc8, 0x01][..], &[0xaa; 200]].concat();
//! let payloads = packets(&unit, 100);
//! // The sequence header with its size has 4 bytes, the frame without its size 201; 99 fit a payload.
//! assert_eq!(payloads.len(), 3);
//!
//! let mut joined = Reassembler::default();
//! for payload in &payloads {
//!     joined.push(payload)?;
//! }
//! assert_eq!(joined.finish()?, unit);
//! # Ok::<(), giusto_rtp::av1::Av1Error>(())
//! ```

use alloc::{collections::VecDeque, vec::Vec};

/// A damaged payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Av1Error {
    /// It has no OBU element.
    #[error("the AV1 payload of {0} B has no OBU element")]
    Short(usize),
    /// An OBU element is longer than its packet.
    #[error("an AV1 OBU element is longer than its packet")]
    Element,
    /// A fragment does not follow the one before.
    #[error("an AV1 fragment does not continue the OBU before it")]
    Fragment,
}

/// Bytes of the aggregation header (§4.4).
pub const AGGREGATION_HEADER_BYTES: usize = 1;

/// Bits of the aggregation header (§4.4): Z Y W W N.
const CONTINUES: u8 = 0x80;
const IS_CONTINUED: u8 = 0x40;
const BEGINS_SEQUENCE: u8 = 0x08;
/// The most elements that W counts, and room for a size.
const MOST_COUNTED: usize = 3;
const MAX_SIZE_BYTES: usize = 5;

/// Bits of the OBU header (AV1 Bitstream Specification §5.3.2).
const HAS_EXTENSION: u8 = 0x04;
const HAS_SIZE: u8 = 0x02;
/// OBU types (§6.2.2).
const SEQUENCE_HEADER: u8 = 1;
const TEMPORAL_DELIMITER: u8 = 2;
const TILE_LIST: u8 = 8;

/// Whether the payload is the first of a coded video sequence, with which decoding can start (§4.4, N).
pub fn begins_sequence(payload: &[u8]) -> bool {
    payload.first().is_some_and(|&header| header & BEGINS_SEQUENCE != 0)
}

/// The payloads of a temporal unit in the low-overhead byte stream, of at most `max` bytes, which is at least 2. Temporal delimiters, tile
/// lists and the sizes of OBUs are left out (§5). An OBU without a size ends the unit; what is damaged ends it too.
///
/// Each payload but the first continues an OBU: libwebrtc takes one that begins with a whole OBU for the start of a frame
/// (`video_rtp_depacketizer_av1.cc`). Only an OBU of one byte cannot be divided.
pub fn packets(unit: &[u8], max: usize) -> Vec<Vec<u8>> {
    let room = max.saturating_sub(AGGREGATION_HEADER_BYTES).max(1);
    let all: Vec<Vec<u8>> = obus(unit).collect();
    let begins = all.iter().any(|obu| obu_type(obu) == Some(SEQUENCE_HEADER));
    let mut parts: VecDeque<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let mut payloads = Vec::new();
    let mut continues = false;
    while !parts.is_empty() {
        // Payloads of about one size.
        let sized: usize = parts.iter().map(|part| sized_bytes(part)).sum();
        let last = parts.back().map_or(0, |last| sized_bytes(last) - last.len());
        let left = if parts.len() > MOST_COUNTED { sized + MAX_SIZE_BYTES } else { sized - last };
        let target = left.div_ceil(left.div_ceil(room)).min(room);
        let (elements, is_continued) = fill(&mut parts, target);
        let header = if continues { CONTINUES } else { 0 }
            | if is_continued { IS_CONTINUED } else { 0 }
            | if begins && payloads.is_empty() { BEGINS_SEQUENCE } else { 0 };
        continues = is_continued;
        payloads.push(payload(header, &elements));
    }
    payloads
}

/// Takes the elements of a payload of `target` bytes, and whether the last one continues in the next.
fn fill<'a>(parts: &mut VecDeque<&'a [u8]>, target: usize) -> (Vec<&'a [u8]>, bool) {
    let mut elements = Vec::new();
    let mut used = 0;
    while let Some(part) = parts.pop_front() {
        // The last of up to three elements has no size.
        let last_size = |count: usize| if count > MOST_COUNTED { MAX_SIZE_BYTES } else { 0 };
        let free = target.saturating_sub(used + last_size(elements.len() + 1)).max(1);
        if parts.is_empty() && part.len() <= free {
            elements.push(part);
            break;
        }
        let whole = used + sized_bytes(part);
        if !parts.is_empty() && whole + last_size(elements.len() + 2) < target {
            elements.push(part);
            used = whole;
            continue;
        }
        // The payload ends within this OBU, if that can be divided.
        let (taken, rest) = part.split_at(free.min(part.len() - 1).max(1));
        elements.push(taken);
        if rest.is_empty() {
            return (elements, false);
        }
        parts.push_front(rest);
        return (elements, true);
    }
    (elements, false)
}

/// A payload of these elements: at most three are counted in its header (W), of more each has its size.
fn payload(header: u8, elements: &[&[u8]]) -> Vec<u8> {
    let count = Some(elements.len()).filter(|&count| count <= MOST_COUNTED).unwrap_or(0);
    let mut bytes = vec![header | (count as u8) << 4];
    for (number, element) in elements.iter().enumerate() {
        if number + 1 != count {
            push_size(element.len(), &mut bytes);
        }
        bytes.extend(*element);
    }
    bytes
}

/// Bytes of an element with its size.
fn sized_bytes(part: &[u8]) -> usize {
    part.len() + part.len().max(1).ilog2() as usize / 7 + 1
}

/// The type of an OBU (AV1 Bitstream Specification §6.2.2).
fn obu_type(obu: &[u8]) -> Option<u8> {
    obu.first().map(|&first| first >> 3 & 0xf)
}

/// The OBUs of a temporal unit in the low-overhead byte stream that a payload may have, each without its size.
pub fn obus(unit: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut rest = unit;
    let all = core::iter::from_fn(move || {
        let (&first, mut after) = rest.split_first()?;
        let mut obu = vec![first & !HAS_SIZE];
        if first & HAS_EXTENSION != 0 {
            let (&extension, body) = after.split_first()?;
            obu.push(extension);
            after = body;
        }
        if first & HAS_SIZE != 0 {
            let (size, body) = leb128(after)?;
            let (body, others) = body.split_at_checked(size)?;
            obu.extend(body);
            rest = others;
        } else {
            obu.extend(after);
            rest = &[];
        }
        Some(obu)
    });
    all.filter(|obu| !matches!(obu_type(obu), Some(TEMPORAL_DELIMITER | TILE_LIST)))
}

/// An unsigned number of the AV1 Bitstream Specification §4.10.5, and the rest.
fn leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_u64;
    for (place, &byte) in bytes.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            let value = u32::try_from(value).ok()?;
            return Some((value as usize, bytes.get(place + 1..)?));
        }
    }
    None
}

/// Appends the size of an OBU (AV1 Bitstream Specification §4.10.5, leb128).
pub fn push_size(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Joins the payloads of one temporal unit, in order, to a low-overhead byte stream.
#[derive(Debug, Clone, Default)]
pub struct Reassembler {
    stream: Vec<u8>,
    /// The OBU that continues in the next packet.
    open: Option<Vec<u8>>,
}

impl Reassembler {
    /// Appends a payload.
    ///
    /// # Errors
    ///
    /// [`Av1Error`]; the temporal unit is then damaged.
    pub fn push(&mut self, payload: &[u8]) -> Result<(), Av1Error> {
        let (&header, mut rest) = payload.split_first().ok_or(Av1Error::Short(0))?;
        if rest.is_empty() {
            return Err(Av1Error::Short(payload.len()));
        }
        if (header & CONTINUES != 0) != self.open.is_some() {
            return Err(Av1Error::Fragment);
        }
        // W: the number of elements, of which the last has no size; 0: each has one.
        let count = header >> 4 & 3;
        let mut number = 0;
        while !rest.is_empty() {
            number += 1;
            let element = if number == count {
                core::mem::take(&mut rest)
            } else {
                let (size, after) = leb128(rest).ok_or(Av1Error::Element)?;
                let (element, after) = after.split_at_checked(size).ok_or(Av1Error::Element)?;
                rest = after;
                element
            };
            let mut obu = self.open.take().unwrap_or_default();
            obu.extend(element);
            if rest.is_empty() && header & IS_CONTINUED != 0 {
                self.open = Some(obu);
            } else {
                self.close(&obu);
            }
        }
        Ok(())
    }

    /// The byte stream.
    ///
    /// # Errors
    ///
    /// [`Av1Error::Fragment`] if the last OBU is not complete.
    pub fn finish(self) -> Result<Vec<u8>, Av1Error> {
        if self.open.is_some() { Err(Av1Error::Fragment) } else { Ok(self.stream) }
    }

    /// Appends an OBU, with its size.
    fn close(&mut self, obu: &[u8]) {
        let Some((&first, rest)) = obu.split_first() else { return };
        if first & HAS_SIZE != 0 {
            return self.stream.extend(obu);
        }
        self.stream.push(first | HAS_SIZE);
        let header = usize::from(first & HAS_EXTENSION != 0).min(rest.len());
        let (extension, body) = rest.split_at_checked(header).unwrap_or_default();
        self.stream.extend(extension);
        push_size(body.len(), &mut self.stream);
        self.stream.extend(body);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn joined(payloads: &[Vec<u8>]) -> Result<Vec<u8>, Av1Error> {
        let mut unit = Reassembler::default();
        payloads.iter().try_for_each(|payload| unit.push(payload))?;
        unit.finish()
    }

    #[test]
    fn payloads_have_the_bits_of_the_specification() {
        // A temporal delimiter, a sequence header and a frame of 9 bytes.
        let unit = [0x12, 0, 0x0a, 1, 7, 0x32, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        let payloads = packets(&unit, 8);
        // §4.4: Z Y W W N; the last OBU of a payload has no size, and payloads end within OBUs.
        assert_eq!(payloads, [vec![0x68, 2, 0x08, 7, 0x30, 1, 2, 3], vec![0x90, 4, 5, 6, 7, 8, 9]]);
        assert!(begins_sequence(&payloads[0]) && !begins_sequence(&payloads[1]));
        assert_eq!(joined(&payloads).unwrap(), unit[2..]);
        // The extension of an OBU stays.
        assert_eq!(packets(&[0x36, 0x20, 2, 7, 8], 100), [[0x10, 0x34, 0x20, 7, 8]]);
        assert_eq!(joined(&[vec![0x10, 0x34, 0x20, 7, 8]]).unwrap(), [0x36, 0x20, 2, 7, 8]);
        assert_eq!(packets(&unit, 14).len(), 1);
        assert_eq!(packets(&unit, 13).len(), 2);
        assert_eq!(packets(&unit, 100), [[&[0x28, 2, 0x08, 7, 0x30][..], &unit[7..]].concat()]);
        // Of four OBUs each has its size; tile lists are left out.
        let four = [0x0a, 1, 7, 0x42, 1, 1, 0x2a, 1, 8, 0x2a, 1, 9, 0x32, 1, 5];
        assert_eq!(packets(&four, 100), [[0x08, 2, 0x08, 7, 2, 0x28, 8, 2, 0x28, 9, 2, 0x30, 5]]);
        // Two elements in one packet, the first with its size; then W = 0, each with its size.
        assert_eq!(joined(&[vec![0x20, 2, 0x08, 7, 0x30, 1]]).unwrap(), [0x0a, 1, 7, 0x32, 1, 1]);
        assert_eq!(joined(&[vec![0x00, 2, 0x08, 7, 2, 0x30, 1]]).unwrap(), [0x0a, 1, 7, 0x32, 1, 1]);
    }

    #[test]
    fn damaged_payloads_are_refused() {
        assert_eq!(joined(&[vec![]]), Err(Av1Error::Short(0)));
        assert_eq!(joined(&[vec![0x10]]), Err(Av1Error::Short(1)));
        assert_eq!(joined(&[vec![0x90, 1]]), Err(Av1Error::Fragment));
        assert_eq!(joined(&[vec![0x50, 0x30]]), Err(Av1Error::Fragment));
        assert_eq!(joined(&[vec![0x50, 0x30], vec![0x10, 0x30]]), Err(Av1Error::Fragment));
        assert_eq!(joined(&[vec![0x20, 9, 0x30]]), Err(Av1Error::Element));
    }

    proptest! {
        #[test]
        fn packets_restore_the_unit_within_the_size(
            sizes in prop::collection::vec(0_usize..700, 1..7), max in 2_usize..400,
        ) {
            let mut unit = Vec::new();
            for (number, &size) in sizes.iter().enumerate() {
                unit.push(if number == 0 { 0x0a } else { 0x32 });
                push_size(size, &mut unit);
                unit.extend((0..size).map(|byte| byte as u8));
            }
            let payloads = packets(&unit, max);
            prop_assert!(payloads.iter().all(|payload| (2..=max).contains(&payload.len())));
            prop_assert_eq!(&joined(&payloads).unwrap(), &unit);
            if sizes.iter().all(|&size| size > 0) && max >= 12 {
                // One frame for libwebrtc: no payload but the first begins with an OBU, and none but the last ends with one.
                let ends: Vec<_> = payloads.iter().map(|payload| (payload[0] & 0x80 != 0, payload[0] & 0x40 != 0)).collect();
                let expected: Vec<_> = (1..=ends.len()).map(|number| (number > 1, number < ends.len())).collect();
                prop_assert_eq!(ends, expected);
                let bytes: usize = unit.len() + payloads.len();
                prop_assert!(payloads.len() <= bytes.div_ceil(max.saturating_sub(8)) + 1, "{} of {} B", payloads.len(), bytes);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(payloads in prop::collection::vec(
            prop::collection::vec(any::<u8>(), 0..40), 0..6)) {
            let bytes: usize = payloads.iter().map(Vec::len).sum();
            if let Ok(stream) = joined(&payloads) {
                prop_assert!(stream.len() <= 3 * bytes);
            }
        }
    }
}
