//! Bytes read by the bit, from the highest bit of each.

use std::borrow::Cow;

/// What is left of some bytes.
pub(crate) struct Bits<'a> {
    bytes: Cow<'a, [u8]>,
    at: usize,
}

impl<'a> Bits<'a> {
    /// All of them.
    pub(crate) fn new(bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { bytes: bytes.into(), at: 0 }
    }

    /// Up to 32 bits, the first one highest.
    pub(crate) fn take(&mut self, count: usize) -> Option<u32> {
        let mut value = 0;
        for _ in 0..count {
            let byte = self.bytes.get(self.at / 8)?;
            value = value << 1 | u32::from(byte >> (7 - self.at % 8) & 1);
            self.at += 1;
        }
        Some(value)
    }

    /// One bit.
    pub(crate) fn flag(&mut self) -> Option<bool> {
        self.take(1).map(|bit| bit == 1)
    }

    /// Passes over bits, which must be there.
    pub(crate) fn skip(&mut self, count: usize) -> Option<()> {
        self.at += count;
        (self.at <= 8 * self.bytes.len()).then_some(())
    }
}
