//! Header extensions in a description (RFC 8285 §5).

use std::fmt::Write as _;

use rtc_sdp::description::media::MediaDescription;

use super::values;

/// A header extension that the browser sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SentExtension {
    pub(super) id: u8,
    /// It is offered as one that the browser only sends, so that we answer that we only receive it (RFC 8285 §7).
    is_one_way: bool,
}

impl SentExtension {
    pub(super) fn of(line: &MediaDescription, uri: &str) -> Option<Self> {
        extension_in(line, uri, "/sendonly")
            .map(|id| Self { id, is_one_way: true })
            .or_else(|| extension(line, uri).map(|id| Self { id, is_one_way: false }))
    }

    pub(super) fn write(self, text: &mut String, uri: &str) -> std::fmt::Result {
        write!(text, "a=extmap:{}{} {uri}\r\n", self.id, if self.is_one_way { "/recvonly" } else { "" })
    }
}

/// The identifier of a header extension, if one-byte headers have room for it and it has no direction (RFC 8285 §5).
pub(super) fn extension(line: &MediaDescription, uri: &str) -> Option<u8> {
    extension_in(line, uri, "")
}

/// The same with this direction.
fn extension_in(line: &MediaDescription, uri: &str, direction: &str) -> Option<u8> {
    values(&line.attributes, "extmap")
        .filter_map(|value| value.split_once(' '))
        .filter(|(_, rest)| rest.split_whitespace().next() == Some(uri))
        .filter_map(|(id, _)| id.strip_suffix(direction)?.parse().ok())
        .find(|id| (1..=14).contains(id))
}

/// The line of a header extension, if there is one.
pub(super) fn write_extension(text: &mut String, id: Option<u8>, uri: &str) -> std::fmt::Result {
    id.map_or(Ok(()), |id| write!(text, "a=extmap:{id} {uri}\r\n"))
}
