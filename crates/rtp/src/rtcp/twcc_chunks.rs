//! Packet statuses in chunks of 16 bits (draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1.2 to
//! §3.1.4).

/// Length of a chunk.
pub(super) const CHUNK_BYTES: usize = 2;
/// Maximum of the 13-bit run length (§3.1.3).
const MAX_RUN: usize = 0x1fff;
/// Number of one-bit statuses in a vector (§3.1.4).
const ONE_BIT_STATUSES: usize = 14;
/// Number of two-bit statuses in a vector (§3.1.4).
const TWO_BIT_STATUSES: usize = 7;
const RUN_STATUS_SHIFT: u32 = 13;
const ONE_BIT_VECTOR: u16 = 0x8000;
const TWO_BIT_VECTOR: u16 = 0xc000;

/// Status of a packet (§3.1.1). The value 3 is reserved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Status {
    /// Not received.
    #[default]
    Missing = 0,
    /// Received, with a delta of 8 bits.
    Small = 1,
    /// Received, with a delta of 16 bits.
    Large = 2,
}

impl Status {
    /// The status of a packet with this delta.
    pub(super) fn of(delta: i16) -> Self {
        if u8::try_from(delta).is_ok() { Self::Small } else { Self::Large }
    }

    /// Length of its delta in bytes.
    pub(super) const fn delta_bytes(self) -> usize {
        self as usize
    }
}

/// Splits the bytes after the fixed fields into the chunks of `count` statuses and the deltas. If there are
/// too few chunks, all bytes except an odd last one are chunks.
pub(super) fn split(bytes: &[u8], count: usize) -> (&[u8], &[u8]) {
    let (mut length, mut statuses) = (0, 0);
    for chunk in words(bytes) {
        if statuses >= count {
            break;
        }
        statuses += chunk_length(chunk);
        length += CHUNK_BYTES;
    }
    bytes.split_at_checked(length).unwrap_or((bytes, &[]))
}

/// The statuses in `chunks`; `None` for the reserved value.
pub(super) fn statuses(chunks: &[u8]) -> impl Iterator<Item = Option<Status>> {
    words(chunks).flat_map(|chunk| (0..chunk_length(chunk)).map(move |index| status(chunk, index)))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.chunks_exact(CHUNK_BYTES).map(|word| match word {
        [high, low] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    })
}

/// The number of statuses in a chunk.
const fn chunk_length(chunk: u16) -> usize {
    if chunk & ONE_BIT_VECTOR == 0 {
        chunk as usize & MAX_RUN
    } else if chunk & TWO_BIT_VECTOR == ONE_BIT_VECTOR {
        ONE_BIT_STATUSES
    } else {
        TWO_BIT_STATUSES
    }
}

/// The status at `index` below [`chunk_length`].
const fn status(chunk: u16, index: usize) -> Option<Status> {
    let bits = if chunk & ONE_BIT_VECTOR == 0 {
        chunk >> RUN_STATUS_SHIFT
    } else if chunk & TWO_BIT_VECTOR == ONE_BIT_VECTOR {
        chunk >> (ONE_BIT_STATUSES - 1 - index) & 1
    } else {
        chunk >> (2 * (TWO_BIT_STATUSES - 1 - index)) & 3
    };
    match bits {
        0 => Some(Status::Missing),
        1 => Some(Status::Small),
        2 => Some(Status::Large),
        _ => None,
    }
}

/// Takes statuses one by one, and returns each chunk when it is complete.
///
/// The pending statuses are a run of equal ones of any length, or up to 14 that need one bit each, or up to
/// 7. If the next status fits none of these, a chunk is written: a run if they are equal, 14 of one bit if
/// there are that many, otherwise 7 of two bits. libwebrtc decides in the same way, so the sizes are equal.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StatusChunks {
    /// The first pending statuses.
    pending: [Status; ONE_BIT_STATUSES],
    count: usize,
    /// Whether any of them differs from the first.
    mixed: bool,
    large: bool,
    given: usize,
}

impl StatusChunks {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Takes the next status. Returns the chunk that had to be written before it.
    pub(super) fn push(&mut self, status: Status) -> Option<u16> {
        let chunk = (!self.fits(status)).then(|| self.give());
        self.add(status);
        chunk
    }

    /// Returns the last chunk, if any status is pending.
    pub(super) fn finish(mut self) -> Option<u16> {
        (self.count > 0).then(|| {
            if self.mixed && self.count > TWO_BIT_STATUSES { self.one_bit_vector() } else { self.give() }
        })
    }

    /// Number of chunks so far, including the one that [`finish`](Self::finish) would return.
    pub(super) const fn chunks(&self) -> usize {
        self.given + if self.count > 0 { 1 } else { 0 }
    }

    fn fits(&self, status: Status) -> bool {
        let [first, ..] = self.pending;
        self.count < TWO_BIT_STATUSES
            || self.count < ONE_BIT_STATUSES && !self.large && status != Status::Large
            || self.count < MAX_RUN && !self.mixed && first == status
    }

    fn add(&mut self, status: Status) {
        let [first, ..] = self.pending;
        self.mixed |= self.count > 0 && status != first;
        self.large |= status == Status::Large;
        if let Some(place) = self.pending.get_mut(self.count) {
            *place = status;
        }
        self.count += 1;
    }

    /// Writes a chunk from the pending statuses.
    fn give(&mut self) -> u16 {
        let [first, ..] = self.pending;
        if !self.mixed {
            let chunk = (first as u16) << RUN_STATUS_SHIFT | self.count as u16;
            *self = Self { given: self.given + 1, ..Self::default() };
            return chunk;
        }
        if self.count >= ONE_BIT_STATUSES {
            let chunk = self.one_bit_vector();
            *self = Self { given: self.given + 1, ..Self::default() };
            return chunk;
        }
        let before = *self;
        *self = Self { given: self.given + 1, ..Self::default() };
        for status in before.statuses().skip(TWO_BIT_STATUSES) {
            self.add(status);
        }
        let leaving = before.statuses().chain(core::iter::repeat(Status::Missing)).take(TWO_BIT_STATUSES);
        leaving.fold(0, |bits, status| bits << 2 | status as u16) | TWO_BIT_VECTOR
    }

    fn one_bit_vector(&self) -> u16 {
        let statuses = self.statuses().chain(core::iter::repeat(Status::Missing)).take(ONE_BIT_STATUSES);
        statuses.fold(0, |bits, status| bits << 1 | status as u16) | ONE_BIT_VECTOR
    }

    /// The pending statuses; of a run the first 14.
    fn statuses(&self) -> impl Iterator<Item = Status> {
        self.pending.into_iter().take(self.count)
    }
}

#[cfg(test)]
mod tests {
    use Status::{Large, Missing, Small};

    use super::*;

    fn chunks(statuses: &[Status]) -> Vec<u16> {
        let mut chunks = StatusChunks::new();
        let mut all: Vec<_> = statuses.iter().filter_map(|status| chunks.push(*status)).collect();
        let announced = chunks.chunks();
        all.extend(chunks.finish());
        assert_eq!(all.len(), announced);
        all
    }

    fn of(parts: &[(Status, usize)]) -> Vec<Status> {
        parts.iter().flat_map(|(status, times)| std::iter::repeat_n(*status, *times)).collect()
    }

    /// The examples of §3.1.3 and §3.1.4 without reserved values.
    #[test]
    fn the_draft_s_examples_are_written() {
        assert_eq!(chunks(&of(&[(Missing, 221)])), [0b0000_0000_1101_1101]);
        let vector = of(&[(Missing, 1), (Small, 5), (Missing, 3), (Small, 3), (Missing, 2)]);
        assert_eq!(chunks(&vector), [0b1001_1111_0001_1100]);
    }

    #[test]
    fn equal_statuses_are_a_run_up_to_8191() {
        assert_eq!(chunks(&[]), []);
        assert_eq!(chunks(&[Small]), [0x2001]);
        assert_eq!(chunks(&of(&[(Large, 8191)])), [0x5fff]);
        assert_eq!(chunks(&of(&[(Missing, 8193)])), [0x1fff, 0x0002]);
    }

    #[test]
    fn one_bit_suffices_until_a_large_delta() {
        assert_eq!(chunks(&of(&[(Small, 1), (Missing, 13)])), [0xa000]);
        // Seven are written with two bits each; the eighth remains for the next chunk.
        let split = of(&[(Missing, 1), (Small, 7), (Large, 1)]);
        assert_eq!(chunks(&split), [0b1100_0101_0101_0101, 0b1101_1000_0000_0000]);
        // Fourteen are complete with one bit each.
        let whole = of(&[(Missing, 1), (Small, 13), (Large, 1)]);
        assert_eq!(chunks(&whole), [0b1001_1111_1111_1111, 0x4001]);
        // A long run is written as a run, whatever follows.
        assert_eq!(chunks(&of(&[(Small, 20), (Large, 1)])), [0x2014, 0x4001]);
    }

    #[test]
    fn seven_statuses_with_a_large_delta_share_a_chunk() {
        let full = of(&[(Small, 3), (Large, 4)]);
        assert_eq!(chunks(&full), [0b1101_0101_1010_1010]);
        let one_more = of(&[(Small, 3), (Large, 4), (Missing, 1)]);
        assert_eq!(chunks(&one_more), [0b1101_0101_1010_1010, 0x0001]);
    }
}
