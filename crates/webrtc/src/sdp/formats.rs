//! The formats of a media line: payload types, codecs, their parameters and their feedback (RFC 8866 §6.6, RFC 4585 §4.2).

use giusto_session::video::VideoCodec;
use rtc_sdp::description::media::MediaDescription;

use super::values;

/// The `rtpmap` of a video codec.
pub(super) const fn rtpmap(codec: VideoCodec) -> &'static str {
    match codec {
        VideoCodec::Vp8 => "VP8/90000",
        VideoCodec::H264 => "H264/90000",
        VideoCodec::Vp9 => "VP9/90000",
        VideoCodec::Av1 => "AV1/90000",
    }
}

/// The first format of the line with one of these codecs that we can read: H.264 in packetization mode 1, VP9 and AV1 of profile 0. AV1,
/// whose encoder takes the most computation, is taken where there is no other.
pub(super) fn video_format(line: &MediaDescription, codecs: &[VideoCodec]) -> Option<(VideoCodec, u8)> {
    let fits = |codec, payload_type| {
        let has_parameter = |wanted: &str| {
            parameters(line, payload_type)
                .is_some_and(|all| all.split(';').any(|parameter| parameter.trim() == wanted))
        };
        match codec {
            VideoCodec::H264 => has_parameter("packetization-mode=1"),
            // RFC 9628 §6, RTP Payload Format For AV1 §7.2: without a profile it is 0.
            VideoCodec::Vp9 | VideoCodec::Av1 => {
                let says = parameters(line, payload_type).is_some_and(|all| all.contains("profile"));
                !says || has_parameter("profile-id=0") || has_parameter("profile=0")
            }
            VideoCodec::Vp8 => true,
        }
    };
    let found = |(codec, payload_type)| fits(codec, payload_type).then_some((codec, payload_type));
    let first = |is_av1: bool| {
        line.media_name.formats.iter().find_map(|format| {
            let number = format.parse().ok()?;
            codecs
                .iter()
                .filter(|codec| (**codec == VideoCodec::Av1) == is_av1)
                .filter(|codec| payload_types(line, rtpmap(**codec)).any(|known| known == number))
                .find_map(|codec| found((*codec, number)))
        })
    };
    first(false).or_else(|| first(true))
}

/// The parameters of a format.
pub(super) fn parameters(line: &MediaDescription, payload_type: u8) -> Option<&str> {
    let pairs = values(&line.attributes, "fmtp").filter_map(|value| value.split_once(' '));
    pairs.filter(|(of, _)| of.parse() == Ok(payload_type)).map(|(_, value)| value.trim()).next()
}

/// The payload types of a codec.
fn payload_types<'a>(line: &'a MediaDescription, codec: &'a str) -> impl Iterator<Item = u8> + 'a {
    let number =
        |text: &str| text.parse::<u8>().ok().filter(|&number| !(64..96).contains(&number) && number < 128);
    values(&line.attributes, "rtpmap")
        .filter_map(|value| value.split_once(' '))
        .filter(move |(_, name)| name.trim().eq_ignore_ascii_case(codec))
        .filter_map(move |(number_text, _)| number(number_text))
        .filter(|number| line.media_name.formats.iter().any(|format| format.parse() == Ok(*number)))
}

/// The payload type of a codec; of retransmissions, that of `apt`.
pub(super) fn payload_type_of(line: &MediaDescription, codec: &str, apt: Option<u8>) -> Option<u8> {
    payload_types(line, codec).find(|number| {
        apt.is_none_or(|apt| {
            let wanted = format!("{number} apt={apt}");
            values(&line.attributes, "fmtp").any(|value| value.trim() == wanted)
        })
    })
}

pub(super) fn codecs(line: &MediaDescription) -> String {
    let names =
        values(&line.attributes, "rtpmap").filter_map(|value| value.split_once(' ')).map(|(_, name)| name);
    let mut text: String = names.collect::<Vec<_>>().join(", ").chars().take(200).collect();
    if text.is_empty() {
        text.push_str("no codec");
    }
    text
}

/// The values of `rtcp-fb` for a payload type or for all.
pub(super) fn feedback(line: &MediaDescription, payload_type: u8) -> Vec<String> {
    let number = payload_type.to_string();
    let pairs = values(&line.attributes, "rtcp-fb").filter_map(|value| value.split_once(' '));
    pairs.filter(|(of, _)| *of == "*" || *of == number).map(|(_, value)| value.trim().to_owned()).collect()
}
