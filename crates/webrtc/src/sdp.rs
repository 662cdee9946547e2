//! The browser's offer and our answer (JSEP, RFC 8829; RFC 8866).

use std::{fmt::Write as _, io::Cursor, net::SocketAddr};

use giusto_congestion::{FeedbackKind, Requirements};
use rtc_sdp::description::{common::Attribute, media::MediaDescription, session::SessionDescription};

use crate::fingerprint::Fingerprint;

/// The longest description that is read. Chromium's have 5 to 10 kB.
const MAX_OFFER_BYTES: usize = 64 * 1024;
/// The most media lines of an offer. Chosen by us.
const MAX_MEDIA: usize = 64;
const TRANSPORT_CC_URI: &str = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01";
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
    /// It has no video line that we can send.
    #[error(
        "the offer has no video line that receives: add a transceiver \"video\" with direction \"recvonly\""
    )]
    NoVideo,
    /// The video line does not have VP8.
    #[error("the video line offers no VP8, found {0}: use a browser with VP8")]
    NoVp8(String),
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

/// What an offer says about the video that we send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    lines: Vec<MediaLine>,
    /// Index of the video line.
    video: usize,
    mid: String,
    /// The browser's ICE user name fragment.
    pub ufrag: String,
    /// The hash of the browser's certificate.
    pub fingerprint: Fingerprint,
    /// Which end opens the DTLS connection.
    pub setup: Setup,
    /// The payload type of VP8.
    pub vp8: u8,
    /// The payload type of its retransmissions (RFC 4588).
    pub rtx: Option<u8>,
    /// The identifier of the transport-wide sequence number.
    pub transport_sequence: Option<u8>,
    /// The identifier of abs-send-time.
    pub abs_send_time: Option<u8>,
    /// The values of `rtcp-fb` of VP8.
    feedback: Vec<String>,
    reduced_size: bool,
}

impl Offer {
    /// Reads an offer.
    ///
    /// # Errors
    ///
    /// [`OfferError`] says what is missing.
    pub fn parse(text: &str) -> Result<Self, OfferError> {
        if text.len() > MAX_OFFER_BYTES {
            return Err(OfferError::TooLong(text.len()));
        }
        let session = SessionDescription::unmarshal(&mut Cursor::new(text.as_bytes()))
            .map_err(|error| OfferError::Syntax(error.to_string()))?;
        let media = &session.media_descriptions;
        if media.len() > MAX_MEDIA {
            return Err(OfferError::Syntax(format!("{} media lines, at most {MAX_MEDIA}", media.len())));
        }
        let receives = |line: &MediaDescription| {
            line.media_name.media == "video"
                && line.media_name.port.value != 0
                && !has(line, "sendonly")
                && !has(line, "inactive")
        };
        let video = media.iter().position(receives).ok_or(OfferError::NoVideo)?;
        let line = media.get(video).ok_or(OfferError::NoVideo)?;
        // An attribute of the session applies to lines without one (RFC 8839 §5.4, RFC 8122 §5).
        let either = |key: &'static str| {
            let found = values(&line.attributes, key).chain(values(&session.attributes, key)).next();
            found.ok_or(OfferError::Missing(key))
        };
        if !has(line, "rtcp-mux") {
            return Err(OfferError::Missing("rtcp-mux"));
        }
        let ufrag = token("ice-ufrag", either("ice-ufrag")?, 4..=256)?;
        token("ice-pwd", either("ice-pwd")?, 22..=256)?;
        let fingerprint = fingerprint(line, &session.attributes)?;
        let setup = match either("setup")? {
            "actpass" => Setup::ActPass,
            "active" => Setup::Active,
            "passive" => Setup::Passive,
            other => return Err(invalid("setup", other, "actpass, active or passive")),
        };
        let vp8 = payload_type(line, "VP8/90000", None).ok_or_else(|| OfferError::NoVp8(codecs(line)))?;
        let mid = match values(&line.attributes, "mid").next() {
            Some(mid) => token("mid", mid, 1..=32)?,
            None => return Err(OfferError::Missing("mid")),
        };
        Ok(Self {
            lines: media.iter().map(MediaLine::of).collect::<Result<_, _>>()?,
            video,
            mid,
            ufrag,
            fingerprint,
            setup,
            vp8,
            rtx: payload_type(line, "rtx/90000", Some(vp8)),
            transport_sequence: extension(line, TRANSPORT_CC_URI),
            abs_send_time: extension(line, ABS_SEND_TIME_URI),
            feedback: feedback(line, vp8),
            reduced_size: has(line, "rtcp-rsize"),
        })
    }

    /// Whether the browser can send this feedback.
    pub fn offers(&self, kind: FeedbackKind) -> bool {
        let has = |value: &str| self.feedback.iter().any(|offered| offered == value);
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
        self.rtx.is_some() && self.feedback.iter().any(|offered| offered == "nack")
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

    /// The answer: the video line is accepted, all others are rejected.
    pub fn answer(&self, ours: &Answer<'_>) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_answer(ours, &mut text);
        text
    }

    fn write_answer(&self, ours: &Answer<'_>, text: &mut String) -> std::fmt::Result {
        let Answer { session, address, ufrag, password, fingerprint, feedback, nack, ssrc, rtx_ssrc } = *ours;
        let (family, ip) = (if address.is_ipv6() { "IP6" } else { "IP4" }, address.ip());
        write!(
            text,
            "v=0\r\no=- {session} 1 IN {family} {ip}\r\ns=-\r\nt=0 0\r\na=group:BUNDLE {}\r\na=ice-lite\r\n",
            self.mid
        )?;
        for (index, line) in self.lines.iter().enumerate() {
            if index != self.video {
                let MediaLine { kind, protocol, first_format, mid } = line;
                write!(text, "m={kind} 0 {protocol} {first_format}\r\nc=IN IP4 0.0.0.0\r\na=inactive\r\n")?;
                if let Some(mid) = mid {
                    write!(text, "a=mid:{mid}\r\n")?;
                }
                continue;
            }
            let vp8 = self.vp8;
            write!(text, "m=video {} {} {vp8}", address.port(), line.protocol)?;
            if let Some(rtx) = self.rtx {
                write!(text, " {rtx}")?;
            }
            write!(text, "\r\nc=IN {family} {ip}\r\na=rtcp:9 IN IP4 0.0.0.0\r\na=mid:{}\r\n", self.mid)?;
            write!(text, "a=ice-ufrag:{ufrag}\r\na=ice-pwd:{password}\r\na=fingerprint:{fingerprint}\r\n")?;
            let setup = if self.setup == Setup::Passive { "active" } else { "passive" };
            write!(text, "a=setup:{setup}\r\na=sendonly\r\na=rtcp-mux\r\n")?;
            if self.reduced_size {
                text.push_str("a=rtcp-rsize\r\n");
            }
            write!(text, "a=rtpmap:{vp8} VP8/90000\r\n")?;
            match feedback {
                FeedbackKind::TransportWide => {
                    write!(text, "a=rtcp-fb:{vp8} transport-cc\r\n")?;
                    write_extension(text, self.transport_sequence, TRANSPORT_CC_URI)?;
                }
                // RFC 8888 §6: always for all payload types.
                FeedbackKind::CongestionControl => text.push_str("a=rtcp-fb:* ack ccfb\r\n"),
                FeedbackKind::ReceiverEstimate => {
                    write!(text, "a=rtcp-fb:{vp8} goog-remb\r\n")?;
                    write_extension(text, self.abs_send_time, ABS_SEND_TIME_URI)?;
                }
                _ => {}
            }
            for value in ["nack", "nack pli", "ccm fir"] {
                if self.feedback.iter().any(|offered| offered == value) && (value != "nack" || nack) {
                    write!(text, "a=rtcp-fb:{vp8} {value}\r\n")?;
                }
            }
            if let Some(rtx) = self.rtx {
                write!(text, "a=rtpmap:{rtx} rtx/90000\r\na=fmtp:{rtx} apt={vp8}\r\n")?;
                write!(text, "a=ssrc-group:FID {ssrc} {rtx_ssrc}\r\n")?;
            }
            write!(text, "a=msid:giusto video\r\na=ssrc:{ssrc} cname:giusto\r\n")?;
            if self.rtx.is_some() {
                write!(text, "a=ssrc:{rtx_ssrc} cname:giusto\r\n")?;
            }
            // The priority of a host candidate of component 1 (RFC 8445 §5.1.2.2).
            write!(text, "a=candidate:1 1 udp 2130706431 {ip} {} typ host\r\n", address.port())?;
            text.push_str("a=end-of-candidates\r\n");
        }
        Ok(())
    }
}

fn write_extension(text: &mut String, id: Option<u8>, uri: &str) -> std::fmt::Result {
    id.map_or(Ok(()), |id| write!(text, "a=extmap:{id} {uri}\r\n"))
}

/// Our side of the answer.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The session identifier (RFC 8866 §5.2).
    pub session: u64,
    /// The address of our socket, which the browser can reach.
    pub address: SocketAddr,
    /// Our ICE user name fragment.
    pub ufrag: &'a str,
    /// Our ICE password.
    pub password: &'a str,
    /// The hash of our certificate.
    pub fingerprint: Fingerprint,
    /// The feedback that we want.
    pub feedback: FeedbackKind,
    /// Whether we answer negative acknowledgements.
    pub nack: bool,
    /// Synchronisation source of the video.
    pub ssrc: u32,
    /// Synchronisation source of its retransmissions and of padding.
    pub rtx_ssrc: u32,
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

fn invalid(attribute: &'static str, value: &str, expected: &'static str) -> OfferError {
    let value = value.chars().take(80).collect();
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

/// The payload type of a codec; of retransmissions, that of `apt`.
fn payload_type(line: &MediaDescription, codec: &str, apt: Option<u8>) -> Option<u8> {
    let number =
        |text: &str| text.parse::<u8>().ok().filter(|&number| !(64..96).contains(&number) && number < 128);
    values(&line.attributes, "rtpmap")
        .filter_map(|value| value.split_once(' '))
        .filter(|(_, name)| name.trim().eq_ignore_ascii_case(codec))
        .filter_map(|(number_text, _)| number(number_text))
        .filter(|number| line.media_name.formats.iter().any(|format| *format == number.to_string()))
        .find(|number| {
            apt.is_none_or(|apt| {
                let wanted = format!("{number} apt={apt}");
                values(&line.attributes, "fmtp").any(|value| value.trim() == wanted)
            })
        })
}

fn codecs(line: &MediaDescription) -> String {
    let names =
        values(&line.attributes, "rtpmap").filter_map(|value| value.split_once(' ')).map(|(_, name)| name);
    let mut text: String = names.collect::<Vec<_>>().join(", ").chars().take(200).collect();
    if text.is_empty() {
        text.push_str("no codec");
    }
    text
}

/// The values of `rtcp-fb` for a payload type or for all.
fn feedback(line: &MediaDescription, payload_type: u8) -> Vec<String> {
    let number = payload_type.to_string();
    let pairs = values(&line.attributes, "rtcp-fb").filter_map(|value| value.split_once(' '));
    pairs.filter(|(of, _)| *of == "*" || *of == number).map(|(_, value)| value.trim().to_owned()).collect()
}

/// The identifier of a header extension, if one-byte headers have room for it and its direction permits it (RFC 8285 §5).
fn extension(line: &MediaDescription, uri: &str) -> Option<u8> {
    values(&line.attributes, "extmap")
        .filter_map(|value| value.split_once(' '))
        .filter(|(_, rest)| rest.split_whitespace().next() == Some(uri))
        .find_map(|(id, _)| id.parse().ok().filter(|id| (1..=14).contains(id)))
}
