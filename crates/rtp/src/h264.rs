//! H.264 over RTP (RFC 6184): NAL units, single NAL unit packets, fragments (FU-A), and the byte stream of ITU-T H.264 Annex B.
//!
//! # Example
//!
//! ```
//! use giusto_rtp::h264::{Reassembler, nal_units, packets};
//!
//! let unit = [&[0x65][..], &[0xaa; 2500]].concat();
//! let payloads: Vec<Vec<u8>> = packets(&unit, 1200).collect();
//! assert_eq!(payloads.len(), 3);
//!
//! let mut frame = Reassembler::default();
//! for payload in &payloads {
//!     frame.push(payload)?;
//! }
//! let frame = frame.finish()?;
//! assert_eq!(nal_units(&frame).collect::<Vec<_>>(), [&unit[..]]);
//! # Ok::<(), giusto_rtp::h264::H264Error>(())
//! ```

use alloc::vec::Vec;

/// The bytes before each NAL unit that [`Reassembler`] writes (ITU-T H.264 Annex B).
pub const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// Bytes of a fragment before its part of the unit: FU indicator and FU header (RFC 6184 §5.8).
pub const FRAGMENT_HEADER_BYTES: usize = 2;

/// Aggregation of units of one time (RFC 6184 §5.7.1).
const STAP_A: u8 = 24;
/// Fragment of a unit (RFC 6184 §5.8).
const FU_A: u8 = 28;
/// Bytes of the size before each aggregated unit (RFC 6184 §5.7.1).
const UNIT_SIZE_BYTES: usize = 2;
/// Flags of the FU header: first and last fragment of a unit (RFC 6184 §5.8).
const FU_START: u8 = 0x80;
const FU_END: u8 = 0x40;
/// The bits of a unit's first byte that are not its type: `forbidden_zero_bit` and `nal_ref_idc`.
const NOT_TYPE: u8 = 0xe0;

/// A damaged payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum H264Error {
    /// It is empty or ends within a header.
    #[error("the H.264 payload ends after {0} B, within its header")]
    Short(usize),
    /// It has a packet type that packetization mode 1 does not allow (RFC 6184 §5.4).
    #[error("H.264 packet type {0} is not allowed: expected 1 to 24 or 28 (packetization-mode 1)")]
    Type(u8),
    /// A fragment does not follow the one before.
    #[error("an H.264 fragment does not continue the unit before it")]
    Fragment,
    /// An aggregated unit is longer than its packet.
    #[error("an H.264 aggregation packet ends within a unit")]
    Aggregate,
}

/// The kind of a NAL unit (ITU-T H.264 Table 7-1), as far as access units depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NalType(pub u8);

impl NalType {
    /// Slice of a picture that decoding cannot start with.
    pub const SLICE: Self = Self(1);
    /// Slice of a picture that decoding can start with.
    pub const IDR: Self = Self(5);
    /// Sequence parameter set.
    pub const SEQUENCE: Self = Self(7);
    /// Access unit delimiter.
    pub const DELIMITER: Self = Self(9);

    /// The type of the unit with this first byte.
    pub const fn of(first: u8) -> Self {
        Self(first & !NOT_TYPE)
    }

    /// Whether it is a part of a picture.
    pub const fn is_slice(self) -> bool {
        matches!(self.0, 1..=5)
    }

    /// Whether it begins an access unit, if it follows a slice of another one (ITU-T H.264 §7.4.1.2.3); slices are distinguished by
    /// their content.
    pub const fn begins_access_unit(self) -> bool {
        matches!(self.0, 6..=9 | 14..=18)
    }
}

/// Whether a unit is a slice that begins a picture: its `first_mb_in_slice`, the first Exp-Golomb number of the slice header, is 0.
pub fn begins_picture(unit: &[u8]) -> bool {
    matches!(*unit, [first, second, ..] if matches!(NalType::of(first).0, 1 | 2 | 5) && second & 0x80 != 0)
}

/// Whether a payload is the first of its access unit that a decoder needs: it has the beginning of a delimiter, of a sequence parameter set,
/// or of a picture that is not an IDR picture. Only supplemental information may come before such a picture, in practice; parameter sets
/// come before an IDR picture.
pub fn begins_access_unit(payload: &[u8]) -> bool {
    let (kind, next) = match *payload {
        [first, header, ref rest @ ..] if NalType::of(first).0 == FU_A && header & FU_START != 0 => {
            (NalType::of(header), rest.first())
        }
        [first, _, _, unit, ref rest @ ..] if NalType::of(first).0 == STAP_A => {
            (NalType::of(unit), rest.first())
        }
        [first, ref rest @ ..] => (NalType::of(first), rest.first()),
        [] => return false,
    };
    match kind {
        NalType::DELIMITER | NalType::SEQUENCE => true,
        NalType::SLICE => next.is_some_and(|next| next & 0x80 != 0),
        _ => false,
    }
}

/// Whether decoding can start with this access unit of a byte stream: it has an IDR slice.
pub fn is_key(access_unit: &[u8]) -> bool {
    nal_units(access_unit).any(|unit| unit.first().is_some_and(|&first| NalType::of(first) == NalType::IDR))
}

/// The NAL units of a byte stream (ITU-T H.264 Annex B): without start codes, and without zeros at their ends. Empty units and what
/// precedes the first start code are left out.
pub fn nal_units(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = start_code(stream).map(|(_, after)| after);
    core::iter::from_fn(move || {
        loop {
            let from = rest?;
            let tail = stream.get(from..).unwrap_or_default();
            let next = start_code(tail);
            let unit = tail.get(..next.map_or(tail.len(), |(at, _)| at)).unwrap_or_default();
            rest = next.map(|(_, after)| from + after);
            let end = unit.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            if end > 0 {
                return unit.get(..end);
            }
        }
    })
}

/// The first start code of three bytes in `bytes`: where it begins, and where it ends.
pub fn start_code(bytes: &[u8]) -> Option<(usize, usize)> {
    bytes.windows(3).position(|three| three == [0, 0, 1]).map(|at| (at, at + 3))
}

/// The payloads of an access unit of a byte stream, of at most `max` bytes: units alone, several small ones together (STAP-A), large ones in
/// fragments. Delimiters are left out: a packet more that can be lost, for what the marker says.
pub fn payloads(access_unit: &[u8], max: usize) -> Vec<Vec<u8>> {
    let (mut all, mut small, mut size) = (Vec::new(), Vec::new(), 1);
    for unit in nal_units(access_unit) {
        if unit.first().is_some_and(|&first| NalType::of(first) == NalType::DELIMITER) {
            continue;
        }
        let more = UNIT_SIZE_BYTES + unit.len();
        if size + more > max.min(usize::from(u16::MAX)) {
            all.extend(aggregated(&small));
            (size, small) = (1, Vec::new());
        }
        if size + more > max.min(usize::from(u16::MAX)) {
            all.extend(packets(unit, max));
        } else {
            size += more;
            small.push(unit);
        }
    }
    all.extend(aggregated(&small));
    all
}

/// The payload of units that fit in it (RFC 6184 §5.7.1): of one, the unit itself.
fn aggregated(units: &[&[u8]]) -> Option<Vec<u8>> {
    if let [] | [_] = units {
        return units.first().map(|unit| unit.to_vec());
    }
    let headers = || units.iter().filter_map(|unit| unit.first());
    let forbidden = headers().fold(0, |all, header| all | header & 0x80);
    let importance = headers().map(|header| header & 0x60).max().unwrap_or(0);
    let mut payload = vec![forbidden | importance | STAP_A];
    for unit in units {
        payload.extend((unit.len() as u16).to_be_bytes());
        payload.extend(*unit);
    }
    Some(payload)
}

/// The payloads of a NAL unit: itself if it has at most `max` bytes, else fragments of nearly equal sizes. `max` is at least 3. A unit
/// of one byte that is too long cannot be; an empty one has no payload.
pub fn packets(unit: &[u8], max: usize) -> impl Iterator<Item = Vec<u8>> {
    let (&first, body) = unit.split_first().unwrap_or((&0, &[]));
    let is_whole = unit.len() <= max;
    let room = max.max(FRAGMENT_HEADER_BYTES + 1) - FRAGMENT_HEADER_BYTES;
    let count = if is_whole { usize::from(!unit.is_empty()) } else { body.len().div_ceil(room) };
    let (size, larger) =
        (body.len().checked_div(count).unwrap_or(0), body.len().checked_rem(count).unwrap_or(0));
    let mut at = 0;
    (0..count).map(move |number| {
        if is_whole {
            return unit.to_vec();
        }
        let end = at + size + usize::from(count - number <= larger);
        let flags = if number == 0 { FU_START } else { 0 } | if number + 1 == count { FU_END } else { 0 };
        let part = body.get(at..end).unwrap_or_default();
        at = end;
        let mut payload = Vec::with_capacity(FRAGMENT_HEADER_BYTES + part.len());
        payload.extend([first & NOT_TYPE | FU_A, flags | first & !NOT_TYPE]);
        payload.extend(part);
        payload
    })
}

/// Joins the payloads of one access unit, in order, to a byte stream. It reads what packetization mode 1 allows (RFC 6184 §5.4):
/// single units, aggregations and fragments.
#[derive(Debug, Clone, Default)]
pub struct Reassembler {
    stream: Vec<u8>,
    /// A fragmented unit has begun and not ended.
    is_open: bool,
}

impl Reassembler {
    /// Appends a payload.
    ///
    /// # Errors
    ///
    /// [`H264Error`]; the access unit is then damaged.
    pub fn push(&mut self, payload: &[u8]) -> Result<(), H264Error> {
        let (&first, rest) = payload.split_first().ok_or(H264Error::Short(0))?;
        let kind = NalType::of(first).0;
        if self.is_open && kind != FU_A {
            return Err(H264Error::Fragment);
        }
        match kind {
            1..=23 => self.unit(payload),
            STAP_A => {
                let mut rest = rest;
                while !rest.is_empty() {
                    let (size, after) = rest.split_first_chunk().ok_or(H264Error::Aggregate)?;
                    let size = usize::from(u16::from_be_bytes(*size));
                    let (unit, after) = after.split_at_checked(size).ok_or(H264Error::Aggregate)?;
                    if unit.is_empty() {
                        return Err(H264Error::Aggregate);
                    }
                    self.unit(unit);
                    rest = after;
                }
            }
            FU_A => {
                let (&header, part) = rest.split_first().ok_or(H264Error::Short(payload.len()))?;
                let starts = header & FU_START != 0;
                // A fragment that is both the first and the last is not allowed (RFC 6184 §5.8).
                if starts == self.is_open || starts && header & FU_END != 0 {
                    return Err(H264Error::Fragment);
                }
                if starts {
                    self.stream.extend(START_CODE);
                    self.stream.push(first & NOT_TYPE | header & !NOT_TYPE);
                }
                self.stream.extend(part);
                self.is_open = header & FU_END == 0;
            }
            other => return Err(H264Error::Type(other)),
        }
        Ok(())
    }

    fn unit(&mut self, unit: &[u8]) {
        self.stream.extend(START_CODE);
        self.stream.extend(unit);
    }

    /// The byte stream.
    ///
    /// # Errors
    ///
    /// [`H264Error::Fragment`] if the last unit is not complete.
    pub fn finish(self) -> Result<Vec<u8>, H264Error> {
        if self.is_open { Err(H264Error::Fragment) } else { Ok(self.stream) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn joined(payloads: &[Vec<u8>]) -> Result<Vec<u8>, H264Error> {
        let mut frame = Reassembler::default();
        payloads.iter().try_for_each(|payload| frame.push(payload))?;
        frame.finish()
    }

    #[test]
    fn units_are_found_between_start_codes_of_both_lengths() {
        let stream = [0, 0, 0, 1, 0x67, 1, 2, 0, 0, 0, 1, 0x68, 3, 0, 0, 1, 0x65, 0x88, 0, 0, 3, 0, 9, 0, 0];
        let units: Vec<_> = nal_units(&stream).collect();
        assert_eq!(units, [&[0x67, 1, 2][..], &[0x68, 3], &[0x65, 0x88, 0, 0, 3, 0, 9]]);
        assert!(is_key(&stream) && !is_key(&stream[..16]));
        // first_mb_in_slice is ue(v): 0 is the single bit 1.
        assert!(begins_picture(units[2]) && begins_picture(&[0x41, 0x9a]));
        assert!(!begins_picture(&[0x41, 0x40]) && !begins_picture(&[0x67, 0x80]) && !begins_picture(&[0x65]));
        assert_eq!(nal_units(&[1, 2, 3]).count() + nal_units(&[0, 0, 1, 0, 0, 1, 0]).count(), 0);
    }

    #[test]
    fn fragments_have_the_bits_of_rfc_6184() {
        // §5.8, Figures 14 and 15: F and NRI of the unit with type 28; then S, E, R and the type of the unit.
        let unit = [0x65, 1, 2, 3, 4, 5];
        let payloads: Vec<_> = packets(&unit, 4).collect();
        assert_eq!(payloads, [vec![0x7c, 0x85, 1], vec![0x7c, 0x05, 2, 3], vec![0x7c, 0x45, 4, 5]]);
        assert_eq!(joined(&payloads).unwrap(), [&START_CODE[..], &unit].concat());
        assert_eq!(packets(&unit, 6).collect::<Vec<_>>(), [unit.to_vec()]);
        assert_eq!(packets(&[], 6).count(), 0);
    }

    #[test]
    fn aggregations_are_read() {
        // §5.7.1, Figure 7: type 24, then each unit after its size.
        let payload = [0x78, 0, 2, 0x67, 1, 0, 1, 0x68];
        assert_eq!(joined(&[payload.to_vec()]).unwrap(), [0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68]);
        for length in 1..payload.len() {
            let short = joined(&[payload[..length].to_vec()]);
            assert_eq!(short.is_ok(), length == 1 || length == 5, "{length} B: {short:?}");
        }
    }

    #[test]
    fn small_units_share_a_packet_and_delimiters_are_left_out() {
        let stream =
            [&[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x67, 1, 0, 0, 1, 0x68, 2, 0, 0, 1, 0x65][..], &[7; 30]]
                .concat();
        let all = payloads(&stream, 20);
        // The greater importance of the two; then fragments.
        assert_eq!(all[0], [0x78, 0, 2, 0x67, 1, 0, 2, 0x68, 2]);
        assert!(all.len() == 3 && all.iter().all(|payload| payload.len() <= 20));
        assert!(begins_access_unit(&all[0]) && !begins_access_unit(&all[1]));
        assert_eq!(
            joined(&all).unwrap(),
            [&[0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68, 2, 0, 0, 0, 1, 0x65][..], &[7; 30]].concat()
        );
        assert_eq!(payloads(&[0, 0, 1, 0x41, 0x9a], 20), [[0x41, 0x9a]]);
        // A picture is begun by its first slice, alone or in fragments; an IDR picture by its parameter sets.
        assert!(begins_access_unit(&[0x41, 0x9a]) && begins_access_unit(&[0x5c, 0x81, 0x9a]));
        assert!(!begins_access_unit(&[0x41, 0x4a]) && !begins_access_unit(&[0x5c, 0x01, 0x9a]));
        assert!(
            !begins_access_unit(&[0x65, 0x88])
                && !begins_access_unit(&[0x06, 0x80])
                && !begins_access_unit(&[])
        );
    }

    #[test]
    fn what_rfc_6184_forbids_is_an_error() {
        let error = |payloads: &[&[u8]]| {
            joined(&payloads.iter().map(|payload| payload.to_vec()).collect::<Vec<_>>()).unwrap_err()
        };
        let (start, middle, end) = (&[0x7c, 0x85, 1][..], &[0x7c, 0x05, 2][..], &[0x7c, 0x45, 4][..]);
        assert_eq!(error(&[middle]), H264Error::Fragment);
        assert_eq!(error(&[start, middle]), H264Error::Fragment);
        assert_eq!(error(&[start, start]), H264Error::Fragment);
        assert_eq!(error(&[start, &[0x65, 1]]), H264Error::Fragment);
        assert_eq!(error(&[start, end, end]), H264Error::Fragment);
        assert_eq!(error(&[&[0x7c, 0xc5, 1]]), H264Error::Fragment);
        assert_eq!(error(&[&[0x7c]]), H264Error::Short(1));
        assert_eq!(error(&[&[]]), H264Error::Short(0));
        for kind in [0, 25, 26, 27, 29, 30, 31] {
            assert_eq!(error(&[&[0x60 | kind, 1, 2]]), H264Error::Type(kind));
        }
    }

    proptest! {
        #[test]
        fn packets_restore_the_unit_within_the_size(
            kind in 1_u8..24, body in proptest::collection::vec(any::<u8>(), 0..5000), max in 3_usize..1500,
        ) {
            let unit = [&[0x60 | kind][..], &body].concat();
            let payloads: Vec<_> = packets(&unit, max).collect();
            prop_assert!(payloads.iter().all(|payload| !payload.is_empty() && payload.len() <= max));
            prop_assert_eq!(joined(&payloads).unwrap(), [&START_CODE[..], &unit].concat());
        }
    }
}
