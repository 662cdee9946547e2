//! Source description and goodbye (RFC 3550 §6.5, §6.6).

use super::{
    error::RtcpError,
    frame::{self, Frame, packet_type},
};
use alloc::{borrow::ToOwned, string::String, vec::Vec};

/// End of a chunk's list of items (RFC 3550 §6.5).
const END: u8 = 0;
/// The canonical name (RFC 3550 §6.5.1).
const CNAME: u8 = 1;
const WORD_BYTES: usize = 4;
/// Maximum length of a text, in bytes.
const MAX_TEXT_BYTES: usize = 255;

/// Source descriptions (RFC 3550 §6.5).
///
/// | bits | field |
/// |---|---|
/// | 32 | header: count of chunks, packet type 202, length |
/// | 32 | source of the first chunk |
/// | 8, 8, … | items: type, length, text; CNAME is type 1 |
/// | 8 or more | at least one zero, up to the next whole word |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SourceDescription {
    /// One per source, at most 31.
    pub chunks: Vec<Description>,
}

/// Description of one source. Items other than the canonical name are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Description {
    /// The source.
    pub ssrc: u32,
    /// The name that all streams of one participant share (RFC 3550 §6.5.1): at most 255 bytes.
    pub cname: Option<String>,
}

impl SourceDescription {
    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// [`RtcpError::TooMany`] beyond 31 chunks, or beyond 255 bytes of name; nothing is appended.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        let count = ("chunks", self.chunks.len());
        frame::write_counted(buffer, packet_type::SOURCE_DESCRIPTION, count, |content| {
            for chunk in &self.chunks {
                let start = content.len();
                content.extend(chunk.ssrc.to_be_bytes());
                if let Some(cname) = &chunk.cname {
                    content.push(CNAME);
                    write_text(cname, "bytes of canonical name", content)?;
                }
                content.push(END);
                let words = (content.len() - start).div_ceil(WORD_BYTES);
                content.resize(start + words * WORD_BYTES, END);
            }
            Ok(())
        })
    }

    pub(super) fn read(frame: &Frame<'_>) -> Result<Self, RtcpError> {
        let mut rest = frame.content();
        let mut chunks = Vec::with_capacity(usize::from(frame.count));
        for _ in 0..frame.count {
            chunks.push(Description::read(&mut rest)?);
        }
        Ok(Self { chunks })
    }
}

impl Description {
    fn read(rest: &mut &[u8]) -> Result<Self, RtcpError> {
        const WHAT: &str = "a source description";
        let before = rest.len();
        let mut chunk = Self { ssrc: frame::take_u32(rest, WHAT)?, cname: None };
        loop {
            let [kind] = frame::take(rest, WHAT)?;
            if kind == END {
                break;
            }
            let text = take_text(rest, WHAT)?;
            if kind == CNAME {
                let text = core::str::from_utf8(text).map_err(|_| RtcpError::Text("a canonical name"))?;
                chunk.cname = Some(text.to_owned());
            }
        }
        let over = (before - rest.len()) % WORD_BYTES;
        let fill = if over == 0 { 0 } else { WORD_BYTES - over };
        *rest =
            rest.get(fill..).ok_or(RtcpError::Truncated { what: WHAT, needed: fill, found: rest.len() })?;
        Ok(chunk)
    }
}

/// Sources that have left (RFC 3550 §6.6).
///
/// | bits | field |
/// |---|---|
/// | 32 | header: count of sources, packet type 203, length |
/// | 32 each | sources |
/// | 8, … | optional: length, text, zeros up to a whole word |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bye {
    /// The sources that leave: at most 31.
    pub sources: Vec<u32>,
    /// The reason: at most 255 bytes.
    pub reason: Option<String>,
}

impl Bye {
    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// [`RtcpError::TooMany`] beyond 31 sources, or beyond 255 bytes of reason; nothing is appended.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        let count = ("sources", self.sources.len());
        frame::write_counted(buffer, packet_type::BYE, count, |content| {
            content.extend(self.sources.iter().flat_map(|ssrc| ssrc.to_be_bytes()));
            self.reason.as_ref().map_or(Ok(()), |reason| write_text(reason, "bytes of reason", content))
        })
    }

    pub(super) fn read(frame: &Frame<'_>) -> Result<Self, RtcpError> {
        const WHAT: &str = "a goodbye";
        let mut rest = frame.content();
        let mut sources = Vec::with_capacity(usize::from(frame.count));
        for _ in 0..frame.count {
            sources.push(frame::take_u32(&mut rest, WHAT)?);
        }
        let mut reason = None;
        if !rest.is_empty() {
            let text = core::str::from_utf8(take_text(&mut rest, WHAT)?);
            reason = Some(text.map_err(|_| RtcpError::Text("a reason"))?.to_owned());
        }
        Ok(Self { sources, reason })
    }
}

fn write_text(text: &str, what: &'static str, content: &mut Vec<u8>) -> Result<(), RtcpError> {
    let found = text.len();
    let length = u8::try_from(found).map_err(|_| RtcpError::TooMany { what, found, max: MAX_TEXT_BYTES })?;
    content.push(length);
    content.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Takes a text with its preceding length.
fn take_text<'a>(rest: &mut &'a [u8], what: &'static str) -> Result<&'a [u8], RtcpError> {
    let [length] = frame::take(rest, what)?;
    let needed = usize::from(length);
    let (text, behind) =
        rest.split_at_checked(needed).ok_or(RtcpError::Truncated { what, needed, found: rest.len() })?;
    *rest = behind;
    Ok(text)
}
