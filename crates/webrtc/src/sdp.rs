//! The browser's offer and our answer (JSEP, RFC 8829; RFC 8866).

mod answer;
mod extension;
mod formats;
mod simulcast;

use std::io::Cursor;

use giusto_congestion::{FeedbackKind, Requirements};
use giusto_session::{media::StreamId, video::VideoCodec};
use rtc_sdp::description::{common::Attribute, media::MediaDescription, session::SessionDescription};

pub use self::answer::Answer;
use self::{
    extension::{SentExtension, extension},
    formats::{codecs, feedback, parameters, payload_type_of, rtpmap, video_format},
    simulcast::Simulcast,
};
use crate::fingerprint::Fingerprint;

/// The longest description that is read. Chromium's have 5 to 10 kB.
const MAX_OFFER_BYTES: usize = 64 * 1024;
/// The most media lines of an offer. Chosen by us.
const MAX_MEDIA: usize = 64;
/// The most formats of a media line: payload types have 7 bits.
const MAX_FORMATS: usize = 128;
const TRANSPORT_CC_URI: &str = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01";
/// The `rtpmap` of Opus (RFC 7587 §7).
const OPUS: &str = "opus/48000/2";
/// The dependency descriptor (RTP Payload Format For AV1, Appendix A).
const DEPENDENCY_URI: &str =
    "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension";
/// Headers of one and of two bytes may be mixed (RFC 8285 §6).
const ALLOW_MIXED: &str = "extmap-allow-mixed";
const ABS_SEND_TIME_URI: &str = "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time";

/// An offer that cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// It is too long.
    #[error("the offer has {0} B, at most {MAX_OFFER_BYTES} B are read: offer one video line")]
    TooLong(usize),
    /// It is not a session description.
    #[error("the offer is not a session description (RFC 8866): {0}")]
    Syntax(String),
    /// It has no video line of the direction that is wanted.
    #[error(
        "the offer has no video line that {verb}: add a transceiver \"video\" with direction \"{direction}\""
    )]
    NoVideo {
        /// What the browser does with the video.
        verb: &'static str,
        /// Its direction.
        direction: &'static str,
    },
    /// The video line does not have any of our codecs.
    #[error("the video line offers no {wanted}, found {found}: use a browser with one of them")]
    NoCodec {
        /// The codecs that are accepted.
        wanted: String,
        /// Those of the offer.
        found: String,
    },
    /// Something is missing.
    #[error("the video line lacks a={0}: use a browser that follows RFC 8829")]
    Missing(&'static str),
    /// Something is not understood.
    #[error("a={attribute}:{value} is not understood: expected {expected}")]
    Invalid {
        /// The attribute.
        attribute: &'static str,
        /// Its value.
        value: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The browser offers no feedback that the controller understands.
    #[error("the browser offers no feedback for the controller, which needs {wanted}: {fix}")]
    NoFeedback {
        /// The feedback that the controller accepts.
        wanted: String,
        /// What to do.
        fix: &'static str,
    },
}

/// Which end opens the DTLS connection (RFC 8842 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setup {
    /// The offerer leaves it to us.
    ActPass,
    /// The offerer opens it.
    Active,
    /// We open it.
    Passive,
}

/// A rejected or accepted media line of the offer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MediaLine {
    kind: String,
    protocol: String,
    first_format: String,
    mid: Option<String>,
}

/// Which media a call has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The codec of the video that goes to the browser, if any does. In both directions it is the same.
    pub sends: Option<VideoCodec>,
    /// Speech goes to the browser: Opus.
    pub sends_voice: bool,
    /// The codecs of the video that comes from the browser, of which its first is taken. `None`: none comes, and no audio.
    pub receives: Option<&'a [VideoCodec]>,
}

impl Wanted<'_> {
    /// Video to the browser: VP8.
    pub const SEND: Wanted<'static> =
        Wanted { sends: Some(VideoCodec::Vp8), sends_voice: false, receives: None };
}

/// A line that the answer accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Accepted {
    /// Its index in the offer.
    index: usize,
    mid: String,
    payload_type: u8,
    /// Its `rtpmap`.
    name: &'static str,
    /// Its parameters, which the answer repeats.
    parameters: Option<String>,
    /// Whether we send, and whether we receive.
    directions: (bool, bool),
    /// The values of `rtcp-fb`.
    feedback: Vec<String>,
    reduced_size: bool,
    transport_sequence: Option<u8>,
    abs_send_time: Option<u8>,
    /// Of AV1 that only the browser sends; with whether headers of two bytes, which a long descriptor needs, may come between others.
    dependency: Option<(SentExtension, bool)>,
    simulcast: Option<Simulcast>,
}

/// What an offer says about the media of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    lines: Vec<MediaLine>,
    video: Accepted,
    audio: Option<Accepted>,
    /// The browser's ICE user name fragment.
    pub ufrag: String,
    /// The hash of the browser's certificate.
    pub fingerprint: Fingerprint,
    /// Which end opens the DTLS connection.
    pub setup: Setup,
    /// The codec of the video.
    pub codec: VideoCodec,
    /// The payload type of the video.
    pub payload_type: u8,
    /// The payload type of its retransmissions (RFC 4588).
    pub rtx: Option<u8>,
    /// The identifier of the transport-wide sequence number.
    pub transport_sequence: Option<u8>,
    /// The identifier of abs-send-time.
    pub abs_send_time: Option<u8>,
    /// The identifier of the dependency descriptor, if the browser alone sends and its codec is AV1.
    pub dependency: Option<u8>,
}

impl Offer {
    /// Reads an offer of a call to which the browser sends nothing.
    ///
    /// # Errors
    ///
    /// [`OfferError`] says what is missing.
    pub fn parse(text: &str) -> Result<Self, OfferError> {
        Self::parse_for(text, Wanted::SEND)
    }

    /// Reads an offer of a call with these media. An audio line is optional.
    ///
    /// # Errors
    ///
    /// [`OfferError`] says what is missing.
    pub fn parse_for(text: &str, wanted: Wanted<'_>) -> Result<Self, OfferError> {
        if text.len() > MAX_OFFER_BYTES {
            return Err(OfferError::TooLong(text.len()));
        }
        let session = SessionDescription::unmarshal(&mut Cursor::new(text.as_bytes()))
            .map_err(|error| OfferError::Syntax(printable(&error.to_string())))?;
        let media = &session.media_descriptions;
        if media.len() > MAX_MEDIA {
            return Err(OfferError::Syntax(format!("{} media lines, at most {MAX_MEDIA}", media.len())));
        }
        if media.iter().any(|line| line.media_name.formats.len() > MAX_FORMATS) {
            return Err(OfferError::Syntax(format!("a media line with more than {MAX_FORMATS} formats")));
        }
        let receives = wanted.receives.is_some();
        let sends = wanted.sends.is_some();
        let no_video = match (sends, receives) {
            (_, false) => OfferError::NoVideo { verb: "receives", direction: "recvonly" },
            (false, true) => OfferError::NoVideo { verb: "sends", direction: "sendonly" },
            (true, true) => OfferError::NoVideo { verb: "sends and receives", direction: "sendrecv" },
        };
        let allows = |line: &MediaDescription, kind: &str, (sends, receives): (bool, bool)| {
            line.media_name.media == kind
                && line.media_name.port.value != 0
                && !has(line, "inactive")
                && !(sends && has(line, "sendonly"))
                && !(receives && has(line, "recvonly"))
        };
        let find = |kind, directions| media.iter().position(|line| allows(line, kind, directions));
        let index = find("video", (sends, receives)).ok_or_else(|| no_video.clone())?;
        let line = media.get(index).ok_or(no_video)?;
        // An attribute of the session applies to lines without one (RFC 8839 §5.4, RFC 8122 §5).
        let either = |key: &'static str| {
            let found = values(&line.attributes, key).chain(values(&session.attributes, key)).next();
            found.ok_or(OfferError::Missing(key))
        };
        let ufrag = token("ice-ufrag", either("ice-ufrag")?, 4..=256)?;
        token("ice-pwd", either("ice-pwd")?, 22..=256)?;
        let fingerprint = fingerprint(line, &session.attributes)?;
        let setup = match either("setup")? {
            "actpass" => Setup::ActPass,
            "active" => Setup::Active,
            "passive" => Setup::Passive,
            other => return Err(invalid("setup", other, "actpass, active or passive")),
        };
        let codecs_wanted =
            wanted.sends.as_ref().map(std::slice::from_ref).or(wanted.receives).unwrap_or_default();
        let (codec, payload_type) = video_format(line, codecs_wanted).ok_or_else(|| {
            let names: Vec<&str> =
                codecs_wanted.iter().map(|codec| rtpmap(*codec).trim_end_matches("/90000")).collect();
            OfferError::NoCodec { wanted: names.join(", "), found: printable(&codecs(line)) }
        })?;
        let directions = (sends, receives);
        let mut video = Accepted::of(line, index, (payload_type, rtpmap(codec)), directions)?;
        let is_mixed = has(line, ALLOW_MIXED) || session.attributes.iter().any(|it| it.key == ALLOW_MIXED);
        video.dependency = SentExtension::of(line, DEPENDENCY_URI)
            .filter(|_| codec == VideoCodec::Av1 && !sends)
            .map(|extension| (extension, is_mixed));
        video.simulcast = if receives { Simulcast::of(line, payload_type) } else { None };
        let audio = [(wanted.sends_voice, receives), (wanted.sends_voice, false), (false, receives)]
            .into_iter()
            .filter(|directions| *directions != (false, false))
            .find_map(|directions| Some((find("audio", directions)?, directions)))
            .and_then(|(index, directions)| {
                let line = media.get(index)?;
                Some((index, line, payload_type_of(line, OPUS, None)?, directions))
            })
            .map(|(index, line, opus, directions)| Accepted::of(line, index, (opus, OPUS), directions))
            .transpose()?;
        Ok(Self {
            lines: media.iter().map(MediaLine::of).collect::<Result<_, _>>()?,
            ufrag,
            fingerprint,
            setup,
            codec,
            payload_type,
            rtx: payload_type_of(line, "rtx/90000", Some(payload_type)),
            transport_sequence: video.transport_sequence,
            abs_send_time: video.abs_send_time,
            dependency: video.dependency.map(|(extension, _)| extension.id),
            video,
            audio,
        })
    }

    /// The payload type of Opus, and whether we send it and receive it; `None` without audio.
    pub fn opus(&self) -> Option<(u8, bool, bool)> {
        self.audio.as_ref().map(|audio| (audio.payload_type, audio.directions.0, audio.directions.1))
    }

    /// The encodings of its video that the browser sends at once (simulcast, RFC 8853), in its order; none: one without a name.
    pub fn encodings(&self) -> impl Iterator<Item = StreamId> {
        self.video.simulcast.iter().flat_map(|simulcast| &simulcast.encodings).map(|(name, _)| *name)
    }

    /// The identifiers of the names of encodings and of repaired encodings; 0: there are none.
    pub(crate) fn stream_ids(&self) -> (u8, u8) {
        let simulcast = self.video.simulcast.as_ref();
        let id = |extension: SentExtension| extension.id;
        simulcast.map_or((0, 0), |simulcast| (simulcast.id.id, simulcast.repaired.map_or(0, id)))
    }

    /// Whether the browser can send this feedback.
    pub fn offers(&self, kind: FeedbackKind) -> bool {
        let has = |value: &str| self.video.offers(value);
        match kind {
            FeedbackKind::TransportWide => has("transport-cc") && self.transport_sequence.is_some(),
            FeedbackKind::CongestionControl => has("ack ccfb"),
            FeedbackKind::ReceiverEstimate => has("goog-remb") && self.abs_send_time.is_some(),
            FeedbackKind::ReceiverReports => true,
            _ => false,
        }
    }

    /// Whether the browser requests lost packets, and takes them on a stream of their own (RFC 4588). Without such a stream, a packet
    /// would have to be sent twice with one number, which AES-GCM forbids (RFC 7714 §8.4).
    pub fn repairs(&self) -> bool {
        self.rtx.is_some() && self.video.offers("nack")
    }

    /// The feedback for a controller: the wanted one, or the one for which the controller was designed, otherwise any that it
    /// accepts.
    ///
    /// # Errors
    ///
    /// [`OfferError::NoFeedback`] if the browser offers none of them.
    pub fn choose_feedback(
        &self,
        needs: &Requirements,
        wanted: Option<FeedbackKind>,
    ) -> Result<FeedbackKind, OfferError> {
        let accepted = match &wanted {
            Some(kind) => std::slice::from_ref(kind),
            None => needs.accepted,
        };
        let designed = std::iter::once(needs.feedback).filter(|kind| wanted.is_none_or(|it| it == *kind));
        let mut choices = designed.chain(accepted.iter().copied());
        choices.find(|&kind| self.offers(kind)).ok_or_else(|| OfferError::NoFeedback {
            wanted: format!("{accepted:?}"),
            fix: if accepted.contains(&FeedbackKind::CongestionControl) {
                "start Chromium with --force-fieldtrials=WebRTC-RFC8888CongestionControlFeedback/Enabled,offer:true/"
            } else {
                "choose another controller"
            },
        })
    }

    /// The feedback for the browser's controller: the wanted one; by default transport-wide, otherwise an estimate.
    ///
    /// # Errors
    ///
    /// [`OfferError::NoFeedback`] if the browser accepts none of them.
    pub fn choose_own_feedback(&self, wanted: Option<FeedbackKind>) -> Result<FeedbackKind, OfferError> {
        let defaults = [FeedbackKind::TransportWide, FeedbackKind::ReceiverEstimate];
        let choices = wanted.as_ref().map_or(&defaults[..], std::slice::from_ref);
        choices.iter().copied().find(|&kind| self.offers(kind)).ok_or_else(|| OfferError::NoFeedback {
            wanted: format!("{choices:?}"),
            fix: "choose another kind with --feedback",
        })
    }
}

impl Accepted {
    fn of(
        line: &MediaDescription,
        index: usize,
        (payload_type, name): (u8, &'static str),
        directions: (bool, bool),
    ) -> Result<Self, OfferError> {
        if !has(line, "rtcp-mux") {
            return Err(OfferError::Missing("rtcp-mux"));
        }
        let mid = match values(&line.attributes, "mid").next() {
            Some(mid) => token("mid", mid, 1..=32)?,
            None => return Err(OfferError::Missing("mid")),
        };
        let parameters = parameters(line, payload_type).filter(|text| {
            text.len() <= 200 && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
        });
        Ok(Self {
            index,
            mid,
            payload_type,
            name,
            parameters: parameters.map(ToOwned::to_owned),
            directions,
            feedback: feedback(line, payload_type),
            reduced_size: has(line, "rtcp-rsize"),
            transport_sequence: extension(line, TRANSPORT_CC_URI),
            abs_send_time: extension(line, ABS_SEND_TIME_URI),
            dependency: None,
            simulcast: None,
        })
    }

    fn offers(&self, value: &str) -> bool {
        self.feedback.iter().any(|offered| offered == value)
    }
}

impl MediaLine {
    fn of(line: &MediaDescription) -> Result<Self, OfferError> {
        let name = &line.media_name;
        let mid = values(&line.attributes, "mid").next();
        Ok(Self {
            kind: token("m", &name.media, 1..=32)?,
            protocol: token("m", &name.protos.join("/"), 1..=64)?,
            first_format: match name.formats.first() {
                Some(format) => token("m", format, 1..=32)?,
                None => return Err(OfferError::Syntax("a media line without formats".to_owned())),
            },
            mid: mid.map(|mid| token("mid", mid, 1..=32)).transpose()?,
        })
    }
}

/// The start of a text of the browser, without characters that could control a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(80).collect()
}

fn invalid(attribute: &'static str, value: &str, expected: &'static str) -> OfferError {
    let value = printable(value);
    OfferError::Invalid { attribute, value, expected }
}

/// A value that our answer may repeat: printable ASCII without spaces.
fn token(
    attribute: &'static str,
    value: &str,
    length: std::ops::RangeInclusive<usize>,
) -> Result<String, OfferError> {
    if length.contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(value.to_owned())
    } else {
        Err(invalid(attribute, value, "printable characters, as many as its RFC permits"))
    }
}

fn has(line: &MediaDescription, key: &str) -> bool {
    line.attributes.iter().any(|attribute| attribute.key == key)
}

fn values<'a>(attributes: &'a [Attribute], key: &'a str) -> impl Iterator<Item = &'a str> {
    attributes.iter().filter(move |attribute| attribute.key == key).filter_map(|it| it.value.as_deref())
}

/// The SHA-256 fingerprint: several may be given (RFC 8122 §5).
fn fingerprint(line: &MediaDescription, session: &[Attribute]) -> Result<Fingerprint, OfferError> {
    let mut last = OfferError::Missing("fingerprint");
    for value in values(&line.attributes, "fingerprint").chain(values(session, "fingerprint")) {
        match value.parse() {
            Ok(fingerprint) => return Ok(fingerprint),
            Err(_) => last = invalid("fingerprint", value, "sha-256 and 32 bytes such as 0A:1B:…"),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_an_offer_do_not_control_a_terminal() {
        let error = invalid("mid", &format!("\u{1b}[31mred{}", "x".repeat(500)), "a token").to_string();
        assert!(!error.contains(char::is_control) && error.len() < 160, "{error:?}");
        let error = Offer::parse("v=0\r\n\u{1b}[31mred\r\n").unwrap_err().to_string();
        assert!(!error.contains(char::is_control), "{error:?}");
    }

    #[test]
    fn an_offer_of_countless_formats_is_refused_at_once() {
        let chromium = include_str!("../tests/data/chromium-transport-cc.sdp");
        let refused = |formats: usize, names: usize| {
            let line = format!("SAVPF{}\r\n", " 98".repeat(formats));
            let (before, after) = chromium.rsplit_once("SAVPF").unwrap();
            let (_, after) = after.split_once("\r\n").unwrap();
            let offer = [before, &line, after, &"a=rtpmap:97 VP8/90000\r\n".repeat(names)].concat();
            matches!(Offer::parse(&offer), Err(OfferError::Syntax(_)))
        };
        // Each format was looked up among all names, and each name among all formats.
        assert_eq!([refused(128, 100), refused(129, 100), refused(12_000, 500)], [false, true, true]);
    }
}
