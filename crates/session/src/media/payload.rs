//! Media bytes that are cheap to copy.

use std::{fmt, ops::Range, sync::Arc};

use giusto_units::DataSize;

/// Media bytes: shared bytes, or a number of zeros that takes no memory.
///
/// Copies and parts share the bytes. Zeros are for simulations, where only the size of media matters. The
/// session treats them like other bytes; only [`write_to`](Self::write_to) and [`to_vec`](Self::to_vec) write
/// them to memory.
///
/// # Example
///
/// ```
/// use giusto_session::media::Payload;
/// use giusto_units::DataSize;
///
/// let frame = Payload::from(vec![1, 2, 3, 4]);
/// assert_eq!(frame.part(1..3).to_vec(), [2, 3]);
/// assert_eq!(Payload::zeros(DataSize::from_bytes(3)), Payload::from(vec![0; 3]));
/// ```
#[derive(Clone, Default)]
pub struct Payload {
    /// `None`: zeros.
    bytes: Option<Arc<[u8]>>,
    from: u32,
    to: u32,
}

impl Payload {
    /// `size` zero bytes; at most 4 GiB minus one.
    pub fn zeros(size: DataSize) -> Self {
        Self { bytes: None, from: 0, to: u32::try_from(size.as_bytes()).unwrap_or(u32::MAX) }
    }

    /// Number of bytes.
    pub const fn len(&self) -> usize {
        (self.to - self.from) as usize
    }

    /// Whether it is empty.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of bytes, as a size.
    pub const fn size(&self) -> DataSize {
        DataSize::from_bytes(self.len() as u64)
    }

    /// The part at `range`, limited to the available bytes. No bytes are copied.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        let place = |offset: usize| {
            let offset = u32::try_from(offset).unwrap_or(u32::MAX);
            self.from.saturating_add(offset).min(self.to)
        };
        let to = place(range.end);
        let from = place(range.start).min(to);
        Self { bytes: self.bytes.clone(), from, to }
    }

    /// The bytes in memory; `None` for zeros that are not in memory.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref().map(|bytes| bytes.get(self.from as usize..self.to as usize).unwrap_or_default())
    }

    /// Appends the bytes to `buffer`.
    pub fn write_to(&self, buffer: &mut Vec<u8>) {
        match self.as_bytes() {
            Some(bytes) => buffer.extend_from_slice(bytes),
            None => buffer.resize(buffer.len() + self.len(), 0),
        }
    }

    /// The bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.write_to(&mut bytes);
        bytes
    }

    /// Joins `pieces` in order. Copies them, unless there is only one or all are zeros.
    pub(super) fn joined<'a>(mut pieces: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let len: usize = pieces.clone().map(Self::len).sum();
        if pieces.clone().all(|piece| piece.bytes.is_none()) {
            return Self::zeros(DataSize::from_bytes(len as u64));
        }
        if pieces.clone().nth(1).is_none() {
            return pieces.next().cloned().unwrap_or_default();
        }
        let mut bytes = Vec::with_capacity(len);
        pieces.for_each(|piece| piece.write_to(&mut bytes));
        bytes.into()
    }
}

/// Bytes beyond 4 GiB minus one are dropped.
impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        let to = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Self { bytes: Some(bytes.into()), from: 0, to }
    }
}

/// Bytes beyond 4 GiB minus one are dropped.
impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        let to = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Self { bytes: Some(bytes.into()), from: 0, to }
    }
}

/// Compares bytes, whether zeros are in memory or not.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        let zeros = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        self.len() == other.len()
            && match (self.as_bytes(), other.as_bytes()) {
                (Some(ours), Some(theirs)) => ours == theirs,
                (Some(bytes), None) | (None, Some(bytes)) => zeros(bytes),
                (None, None) => true,
            }
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.bytes.is_some() { "bytes" } else { "zeros" };
        write!(f, "Payload({} {kind})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_divided_and_joined_exactly() {
        let whole = Payload::from(vec![1, 2, 3, 4, 5]);
        let (head, tail) = (whole.part(0..2), whole.part(2..100));
        assert_eq!((head.len(), tail.to_vec()), (2, vec![3, 4, 5]));
        assert_eq!(tail.part(1..2).to_vec(), [4]);
        assert_eq!(Payload::joined([&head, &tail].into_iter()), whole);
        assert!(whole.part(7..9).is_empty());
    }

    #[test]
    fn joined_zeros_take_no_memory_and_equal_zero_bytes() {
        let zeros = Payload::zeros(DataSize::from_bytes(3));
        let more = Payload::joined([&zeros, &zeros].into_iter());
        assert_eq!((more.as_bytes(), more.to_vec()), (None, vec![0; 6]));
        let mixed = Payload::joined([&zeros, &Payload::from(vec![7])].into_iter());
        assert_eq!(mixed.to_vec(), [0, 0, 0, 7]);
        assert_ne!(zeros, Payload::from(vec![0, 0, 1]));
        assert_ne!(zeros, Payload::zeros(DataSize::from_bytes(4)));
    }
}
