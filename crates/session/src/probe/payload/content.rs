//! The bytes of a file in the datagrams of a stream.

use std::sync::Arc;

use giusto_units::DataSize;

use super::{error::PayloadError, trace::PayloadTrace};

/// Pieces of a file, one for each datagram, behind its header: in order, and again from the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadContent {
    bytes: Arc<[u8]>,
    /// Begin and end of each piece; at least one.
    pieces: Arc<[(usize, usize)]>,
    next: usize,
}

impl PayloadContent {
    /// The longest frame: the length field of RFC 4571 has 16 bits.
    pub const MAX_FRAME: usize = 65_535;

    /// Pieces of `length` bytes; the last may be shorter.
    ///
    /// # Errors
    ///
    /// [`PayloadError::EmptyContent`] where there is nothing.
    pub fn pieces(name: &str, bytes: impl Into<Arc<[u8]>>, length: usize) -> Result<Self, PayloadError> {
        let bytes = bytes.into();
        let length = length.max(1);
        let ends = (0..bytes.len()).step_by(length).map(|begin| (begin, (begin + length).min(bytes.len())));
        Self::new(name, ends.collect(), Arc::clone(&bytes))
    }

    /// Frames as RFC 4571 §2 has them: each begins with its length, 16 bits in network byte order.
    ///
    /// # Errors
    ///
    /// [`PayloadError::Frame`] names the offset of a frame that is cut off, [`PayloadError::EmptyContent`] where there is none.
    pub fn frames(name: &str, bytes: impl Into<Arc<[u8]>>) -> Result<Self, PayloadError> {
        let bytes = bytes.into();
        let (mut pieces, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let cut = |missing| PayloadError::Frame { name: name.to_owned(), offset: at, missing };
            let field = bytes.get(at..at + 2).and_then(|field| <[u8; 2]>::try_from(field).ok());
            let length = usize::from(u16::from_be_bytes(field.ok_or_else(|| cut(1))?));
            let (begin, end) = (at + 2, at + 2 + length);
            if end > bytes.len() {
                return Err(cut(end - bytes.len()));
            }
            pieces.push((begin, end));
            at = end;
        }
        Self::new(name, pieces, bytes)
    }

    fn new(name: &str, pieces: Vec<(usize, usize)>, bytes: Arc<[u8]>) -> Result<Self, PayloadError> {
        if pieces.is_empty() {
            return Err(PayloadError::EmptyContent { name: name.to_owned() });
        }
        Ok(Self { bytes, pieces: pieces.into(), next: 0 })
    }

    /// The number of pieces.
    pub fn count(&self) -> u64 {
        self.pieces.len() as u64
    }

    /// The payload sizes of the datagrams, in the order of the pieces: each has a header of so many bytes.
    pub fn sizes(&self, header: usize) -> PayloadTrace {
        let size = |(begin, end): &(usize, usize)| DataSize::from_bytes((header + end - begin) as u64);
        PayloadTrace::of_sizes(self.pieces.iter().map(size).collect())
    }

    /// Writes the next piece at the start of `body`.
    pub(crate) fn fill(&mut self, body: &mut [u8]) {
        let (begin, end) = self.pieces.get(self.next).copied().unwrap_or_default();
        self.next = (self.next + 1) % self.pieces.len().max(1);
        if let (Some(piece), Some(room)) = (self.bytes.get(begin..end), body.get_mut(..end - begin)) {
            room.copy_from_slice(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(content: &mut PayloadContent, times: usize) -> Vec<String> {
        let piece = |_| {
            let mut body = *b"........";
            content.fill(&mut body);
            String::from_utf8(body.to_vec()).unwrap()
        };
        (0..times).map(piece).collect()
    }

    fn lengths(content: &PayloadContent, header: usize) -> Vec<u64> {
        content.sizes(header).sizes().iter().map(|size| size.as_bytes()).collect()
    }

    #[test]
    fn a_file_is_cut_into_equal_pieces_and_repeats() {
        let mut content = PayloadContent::pieces("f", *b"abcdefg", 3).unwrap();
        assert_eq!((content.count(), lengths(&content, 40)), (3, vec![43, 43, 41]));
        assert_eq!(filled(&mut content, 4), ["abc.....", "def.....", "g.......", "abc....."]);
        assert!(PayloadContent::pieces("f", *b"", 3).is_err());
    }

    #[test]
    fn frames_have_their_own_lengths_and_a_cut_one_is_named() {
        let bytes = b"\x00\x02hi\x00\x00\x00\x05world".to_vec();
        let mut content = PayloadContent::frames("-", bytes.clone()).unwrap();
        assert_eq!(lengths(&content, 12), [14, 12, 17]);
        assert_eq!(filled(&mut content, 3), ["hi......", "........", "world..."]);
        for length in 1..bytes.len() {
            let cut = PayloadContent::frames("-", bytes[..length].to_vec());
            // After the second byte of a frame and before its end, the frame lacks bytes.
            assert_eq!(cut.is_ok(), [4, 6].contains(&length), "{length}: {cut:?}");
        }
        let error = PayloadContent::frames("-", bytes[..10].to_vec()).unwrap_err().to_string();
        assert!(error.contains("offset 6") && error.contains("lacks 3"), "{error}");
    }
}
