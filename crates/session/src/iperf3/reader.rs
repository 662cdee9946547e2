//! Parts of the control connection's byte stream.

use serde_json::Value;

use super::{messages::MessageError, wire::COOKIE_BYTES};

/// Collects bytes until a part is complete. It holds no more than one part and what came with it.
#[derive(Debug, Default)]
pub(super) struct Reader {
    bytes: Vec<u8>,
}

impl Reader {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn first(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        (self.bytes.len() >= count).then(|| self.bytes.drain(..count).collect())
    }

    /// The cookie, once it is complete.
    pub(super) fn cookie(&mut self) -> bool {
        self.take(COOKIE_BYTES).is_some()
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1).and_then(|bytes| bytes.first().copied())
    }

    /// A number of 32 bits, big-endian.
    pub(super) fn number(&mut self) -> Option<i32> {
        let bytes = self.take(4)?;
        bytes.first_chunk().copied().map(i32::from_be_bytes)
    }

    /// A JSON value behind its length of 32 bits, big-endian (`JSON_read` in `iperf_api.c`).
    pub(super) fn json(&mut self, limit: usize) -> Result<Option<Value>, MessageError> {
        let Some(head) = self.bytes.first_chunk().copied() else { return Ok(None) };
        let bytes = u32::from_be_bytes(head) as usize;
        if bytes == 0 || bytes > limit {
            return Err(MessageError::Length { bytes, limit });
        }
        let Some(part) = self.take(4 + bytes) else { return Ok(None) };
        serde_json::from_slice(part.get(4..).unwrap_or_default())
            .map(Some)
            .map_err(|error| MessageError::Json(error.to_string()))
    }
}

/// A JSON value behind its length.
pub(super) fn with_length(value: &Value) -> Vec<u8> {
    let text = value.to_string();
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}
