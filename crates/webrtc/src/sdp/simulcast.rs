//! Several encodings of a video that a browser sends at once (simulcast, RFC 8853), and their names (RFC 8851, RFC 8852).

use std::fmt::Write as _;

use giusto_session::media::StreamId;
use rtc_sdp::description::media::MediaDescription;

use super::{extension::SentExtension, values};

/// The media line of a packet (RFC 9143 §15.1), the name of its encoding, and the name of the one that it repeats (RFC 8852 §4).
const MID_URI: &str = "urn:ietf:params:rtp-hdrext:sdes:mid";
const STREAM_ID_URI: &str = "urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id";
const REPAIRED_ID_URI: &str = "urn:ietf:params:rtp-hdrext:sdes:repaired-rtp-stream-id";
/// The most encodings of a video that are accepted. Chosen by us: Chromium sends up to 3.
const MAX_ENCODINGS: usize = 8;

/// The encodings that a media line offers to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Simulcast {
    /// Their names, with the restrictions of each (RFC 8851 §5), in the order of the offer.
    pub(super) encodings: Vec<(StreamId, String)>,
    /// The header extensions of the names, of the repaired names, and of the media line.
    pub(super) id: SentExtension,
    pub(super) repaired: Option<SentExtension>,
    mid: Option<SentExtension>,
}

impl Simulcast {
    /// What the line offers to send of this payload type. Of alternatives the first is taken, and encodings that begin paused (RFC 8853
    /// §5.1) are as others.
    pub(super) fn of(line: &MediaDescription, payload_type: u8) -> Option<Self> {
        let id = SentExtension::of(line, STREAM_ID_URI)?;
        let offered = values(&line.attributes, "simulcast").next()?;
        let mut words = offered.split_whitespace();
        words.find(|word| *word == "send")?;
        let names = words.next()?.split(';').filter_map(|one| one.split(',').next());
        let encoding = |name: &str| {
            let name = name.trim_start_matches('~');
            let mut described = values(&line.attributes, "rid").map(|value| value.splitn(3, ' '));
            let mut words = described.find_map(|mut words| {
                ((words.next(), words.next()) == (Some(name), Some("send"))).then_some(words)
            })?;
            Some((StreamId::new(name)?, restrictions(words.next().unwrap_or_default(), payload_type)?))
        };
        let encodings: Vec<_> = names.filter_map(encoding).take(MAX_ENCODINGS).collect();
        (!encodings.is_empty()).then(|| Self {
            encodings,
            id,
            repaired: SentExtension::of(line, REPAIRED_ID_URI),
            mid: SentExtension::of(line, MID_URI),
        })
    }

    pub(super) fn write(&self, text: &mut String) -> std::fmt::Result {
        let extensions =
            [(self.mid, MID_URI), (Some(self.id), STREAM_ID_URI), (self.repaired, REPAIRED_ID_URI)];
        for (extension, uri) in extensions {
            extension.map_or(Ok(()), |extension| extension.write(text, uri))?;
        }
        for (name, restrictions) in &self.encodings {
            write!(text, "a=rid:{name} recv{restrictions}\r\n")?;
        }
        let names: Vec<&str> = self.encodings.iter().map(|(name, _)| name.as_str()).collect();
        write!(text, "a=simulcast:recv {}\r\n", names.join(";"))
    }
}

/// The restrictions of an encoding as the answer repeats them (RFC 8851 §6.3), after a space. `None` if they exclude the payload type, or
/// are not plain.
fn restrictions(text: &str, payload_type: u8) -> Option<String> {
    let is_plain = text.len() <= 200 && text.bytes().all(|byte| byte.is_ascii_graphic());
    let mut repeated = Vec::new();
    for one in text.split(';').filter(|one| !one.is_empty()) {
        match one.strip_prefix("pt=") {
            Some(types) if types.split(',').any(|number| number.parse() == Ok(payload_type)) => {
                repeated.push(format!("pt={payload_type}"));
            }
            Some(_) => return None,
            None => repeated.push(one.to_owned()),
        }
    }
    let space = if repeated.is_empty() { "" } else { " " };
    is_plain.then(|| format!("{space}{}", repeated.join(";")))
}
