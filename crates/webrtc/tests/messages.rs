//! Messages of browsers: offers, checks, and noise in their place.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

mod common;

use common::{BROWSER, Counting, check, config, credentials, media, offer, secrets, sha1};
use giusto_congestion::{Algorithm, FeedbackKind};
use giusto_net::Clock;
use giusto_session::video::VideoCodec;
use giusto_units::Timestamp;
use giusto_webrtc::{
    Fingerprint,
    ice::{CONSENT_EXPIRY, Credentials, IceLite},
    peer::BrowserPeer,
    sdp::{Answer, Offer, OfferError, Setup, Wanted},
};
use is::stun::StunMessage;

const CHROMIUM: &str = include_str!("data/chromium-transport-cc.sdp");
const CHROMIUM_CCFB: &str = include_str!("data/chromium-ccfb.sdp");

fn needs(controller: &str) -> giusto_congestion::Requirements {
    controller.parse::<Algorithm>().unwrap().requirements()
}

#[test]
fn chromiums_offers_are_read() {
    let offer = Offer::parse(CHROMIUM).unwrap();
    assert_eq!((offer.payload_type, offer.rtx, offer.setup), (96, Some(97), Setup::ActPass));
    assert_eq!((offer.transport_sequence, offer.abs_send_time), (Some(3), Some(2)));
    assert!(offer.offers(FeedbackKind::TransportWide) && offer.offers(FeedbackKind::ReceiverEstimate));
    assert!(!offer.offers(FeedbackKind::CongestionControl));
    // SCReAM was designed for RFC 8888, and accepts transport-wide feedback.
    assert_eq!(offer.choose_feedback(&needs("scream:v2"), None), Ok(FeedbackKind::TransportWide));
    let ccfb = Offer::parse(CHROMIUM_CCFB).unwrap();
    assert_eq!(ccfb.choose_feedback(&needs("scream:v2"), None), Ok(FeedbackKind::CongestionControl));
    assert_eq!(ccfb.choose_feedback(&needs("gcc:libwebrtc"), None), Ok(FeedbackKind::TransportWide));
}

fn answer_to(text: &str, controller: &str) -> Result<String, OfferError> {
    let media = Some(media(controller, Counting::new()));
    let origin = Clock::start().origin_instant();
    let answered = BrowserPeer::answer(Timestamp::ZERO, text, config(), &secrets(1), media, origin);
    answered.map(|(_, answer)| answer).map_err(|(error, _)| error)
}

#[test]
fn the_answer_accepts_video_and_rejects_the_rest() {
    let answer = answer_to(CHROMIUM, "gcc:libwebrtc").unwrap();
    let lines: Vec<_> = answer.split("\r\n").collect();
    let media: Vec<_> = lines.iter().filter(|line| line.starts_with("m=")).copied().collect();
    // As many lines as in the offer and in its order (RFC 3264 §6).
    assert_eq!(media, ["m=audio 0 UDP/TLS/RTP/SAVPF 111", "m=video 5000 UDP/TLS/RTP/SAVPF 96 97"]);
    for line in [
        "a=ice-lite",
        "a=group:BUNDLE 1",
        "a=setup:passive",
        "a=sendonly",
        "a=rtcp-mux",
        "a=rtcp-fb:96 transport-cc",
        "a=rtcp-fb:96 nack",
        "a=rtcp-fb:96 nack pli",
        "a=extmap:3 http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01",
        "a=candidate:1 1 udp 2130706431 192.0.2.1 5000 typ host",
    ] {
        assert!(lines.contains(&line), "{line} is missing in\n{answer}");
    }
    let bare = answer_to(&CHROMIUM.replace("a=rtcp-fb:96 nack\r\n", ""), "gcc:libwebrtc").unwrap();
    assert!(!bare.contains("a=rtcp-fb:96 nack\r\n") && bare.contains("a=rtcp-fb:96 nack pli\r\n"));
    // A packet is repeated on a stream of its own, or not at all.
    let without_rtx = answer_to(&CHROMIUM.replace("rtx/90000", "rtz/90000"), "gcc:libwebrtc").unwrap();
    assert!(!without_rtx.contains("a=rtcp-fb:96 nack\r\n") && !without_rtx.contains("FID"));
    let ccfb = answer_to(CHROMIUM_CCFB, "scream:v2").unwrap();
    assert!(ccfb.contains("a=rtcp-fb:* ack ccfb\r\n") && !ccfb.contains("transport-cc"));
}

/// An offer of Chromium whose lines have this direction.
fn directed(direction: &str) -> String {
    CHROMIUM.replace("a=recvonly", &format!("a={direction}"))
}

/// What is ours in an answer.
fn ours(feedback: FeedbackKind) -> Answer<'static> {
    Answer {
        session: 1,
        address: "192.0.2.1:5000".parse().unwrap(),
        ufrag: "ours",
        password: "a password of ours 4567",
        fingerprint: Fingerprint::of(b"ours"),
        feedback,
        nack: true,
        ssrc: 11,
        rtx_ssrc: 12,
        audio_ssrc: 13,
        max_rate: None,
    }
}

#[test]
fn the_answer_accepts_what_the_browser_sends() {
    const ALL: &[VideoCodec] = &VideoCodec::ALL;
    let of = |codecs| Wanted { sends: None, sends_voice: false, receives: Some(codecs) };
    let answer = |wanted, text: &str, feedback| {
        let offer = Offer::parse_for(text, wanted).unwrap();
        (offer.codec, offer.opus(), offer.answer(&ours(feedback)))
    };
    let sends = directed("sendonly");
    let (codec, opus, text) = answer(of(ALL), &sends, FeedbackKind::TransportWide);
    assert_eq!((codec, opus), (VideoCodec::Vp8, Some((111, false, true))));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.iter().filter(|line| **line == "a=recvonly").count(), 2, "{text}");
    assert!(
        lines.contains(&"m=audio 5000 UDP/TLS/RTP/SAVPF 111") && lines.contains(&"a=group:BUNDLE 0 1"),
        "{text}"
    );
    assert!(lines.contains(&"a=fmtp:111 minptime=10;useinbandfec=1"), "{text}");
    // What is not sent has no source.
    assert!(!text.contains("a=ssrc") && !text.contains("a=msid"), "{text}");
    // H.264 in the mode that is read, with its parameters; VP9 of the profile that is.
    let (codec, _, text) = answer(of(&[VideoCodec::H264]), &sends, FeedbackKind::ReceiverEstimate);
    assert_eq!(codec, VideoCodec::H264);
    assert!(text.contains("m=video 5000 UDP/TLS/RTP/SAVPF 102 103\r\n"), "{text}");
    assert!(text.contains("packetization-mode=1;profile-level-id=42001f\r\n"), "{text}");
    assert!(text.contains("a=rtcp-fb:102 goog-remb\r\n") && !text.contains("transport-cc"), "{text}");
    assert_eq!(answer(of(&[VideoCodec::Vp9]), &sends, FeedbackKind::TransportWide).0, VideoCodec::Vp9);
    // Firefox does not name the profile, which is 0 then; of another one alone there is nothing to read.
    let silent = sends.replace("profile-id=0", "max-fs=12288;max-fr=60");
    assert!(silent != sends);
    assert_eq!(answer(of(&[VideoCodec::Vp9]), &silent, FeedbackKind::TransportWide).0, VideoCodec::Vp9);
    let other = sends.replace("profile-id=0", "profile-id=1");
    assert!(matches!(Offer::parse_for(&other, of(&[VideoCodec::Vp9])), Err(OfferError::NoCodec { .. })));
    // AV1 of profile 0 if it is asked for, or where there is no other.
    let (codec, _, text) = answer(of(&[VideoCodec::Av1]), &sends, FeedbackKind::TransportWide);
    assert_eq!(codec, VideoCodec::Av1);
    assert!(text.contains("m=video 5000 UDP/TLS/RTP/SAVPF 45 46\r\n"), "{text}");
    assert!(text.contains("a=fmtp:45 level-idx=5;profile=0;tier=0\r\n"), "{text}");
    // Where frames begin is asked for where it is offered; of other codecs it is not.
    let dependency =
        "a=extmap:9 https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension";
    assert!(!text.contains("extmap:9"), "{text}");
    let offers = sends.replace("a=extmap:14 ", &format!("{dependency}\r\na=extmap:14 "));
    for (codecs, is_asked) in [(&[VideoCodec::Av1][..], true), (&[VideoCodec::Vp9], false)] {
        let (_, _, text) = answer(of(codecs), &offers, FeedbackKind::TransportWide);
        assert_eq!(text.contains(&format!("a=extmap-allow-mixed\r\n{dependency}\r\n")), is_asked, "{text}");
    }
    let first = sends.replace("SAVPF 96 97", "SAVPF 45 46 96 97");
    assert!(first != sends);
    assert_eq!(answer(of(ALL), &first, FeedbackKind::TransportWide).0, VideoCodec::Vp8);
    let alone = ["VP8/", "VP9/", "H264/"].iter().fold(sends.clone(), |text, name| text.replace(name, "X/"));
    assert_eq!(answer(of(ALL), &alone, FeedbackKind::TransportWide).0, VideoCodec::Av1);
    let other = sends.replace("profile=0;", "profile=2;");
    assert!(matches!(Offer::parse_for(&other, of(&[VideoCodec::Av1])), Err(OfferError::NoCodec { .. })));
    // Video of any codec goes to the browser.
    let h264 = Wanted { sends: Some(VideoCodec::H264), ..Wanted::SEND };
    assert_eq!(answer(h264, CHROMIUM, FeedbackKind::TransportWide).0, VideoCodec::H264);
    // Both ways, with speech.
    let wanted = Wanted { sends: Some(VideoCodec::Vp8), sends_voice: true, receives: Some(ALL) };
    let (_, opus, text) = answer(wanted, &directed("sendrecv"), FeedbackKind::TransportWide);
    assert_eq!(opus, Some((111, true, true)));
    assert_eq!(text.lines().filter(|line| *line == "a=sendrecv").count(), 2, "{text}");
    assert!(
        text.contains("a=ssrc:13 cname:giusto\r\n") && text.contains("a=ssrc-group:FID 11 12\r\n"),
        "{text}"
    );
    // Parameters of a stranger are repeated only if they are plain.
    let strange = sends.replace("minptime=10", "minptime=\u{1}10");
    assert!(!answer(of(ALL), &strange, FeedbackKind::TransportWide).2.contains("a=fmtp:111"));
    // A browser that only receives, or has no codec of ours.
    let error = |wanted, text: &str| Offer::parse_for(text, wanted).unwrap_err().to_string();
    assert!(error(of(ALL), CHROMIUM).contains("no video line that sends"));
    assert!(
        error(of(&[VideoCodec::Av1]), &sends.replace("AV1/", "AV7/"))
            .contains("offers no AV1, found VP8/90000")
    );
}

#[test]
fn the_answer_accepts_several_encodings_of_one_video() {
    let wanted = Wanted { sends: None, sends_voice: false, receives: Some(&VideoCodec::ALL) };
    // As Chromium offers three encodings (RFC 8853 §5.1, RFC 8851 §4, RFC 8852 §4).
    let extensions = "a=extmap:10 urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id\r\n\
        a=extmap:11 urn:ietf:params:rtp-hdrext:sdes:repaired-rtp-stream-id\r\n";
    let offer = |lines: &str| {
        let base = directed("sendonly");
        let lines = format!("{extensions}{lines}");
        // At the end of the video line, which is the last but for data.
        let at = base.find("a=rtpmap:96 VP8").unwrap();
        format!("{}{lines}{}", &base[..at], &base[at..])
    };
    let names = |text: &str| -> Vec<String> {
        Offer::parse_for(text, wanted).unwrap().encodings().map(|name| name.to_string()).collect()
    };
    let text = offer("a=rid:l send\r\na=rid:m send\r\na=rid:h send\r\na=simulcast:send l;m;h\r\n");
    assert_eq!(names(&text), ["l", "m", "h"]);
    let answer =
        |text: &str| Offer::parse_for(text, wanted).unwrap().answer(&ours(FeedbackKind::TransportWide));
    let own = answer(&text);
    for line in ["a=rid:l recv\r\na=rid:m recv\r\na=rid:h recv\r\na=simulcast:recv l;m;h\r\n", extensions] {
        assert!(own.contains(line), "{own}");
    }
    // Firefox says that it only sends these extensions.
    let one_way = text.replace("a=extmap:10 urn", "a=extmap:10/sendonly urn");
    assert_eq!(names(&one_way), ["l", "m", "h"]);
    let own = answer(&one_way);
    assert!(own.contains("a=extmap:10/recvonly urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id\r\n"), "{own}");
    assert_eq!(names(&one_way.replace("10/sendonly", "10/recvonly")), [""; 0]);
    // Restrictions are repeated, alternatives and names without a description left out; other payload types do not count.
    let text = offer(
        "a=rid:1 send pt=96,98;max-width=1280\r\na=rid:2 send\r\na=rid:3 recv\r\na=rid:4 send pt=98\r\n\
         a=simulcast:recv 9 send ~1,2;3;4;5;2\r\n",
    );
    assert_eq!(names(&text), ["1", "2"]);
    assert!(
        answer(&text)
            .contains("a=rid:1 recv pt=96;max-width=1280\r\na=rid:2 recv\r\na=simulcast:recv 1;2\r\n"),
        "{}",
        answer(&text)
    );
    // Without the extension that names them, or where the browser only receives, there is one.
    assert_eq!(names(&text.replace("sdes:rtp-stream-id", "sdes:other")), [""; 0]);
    assert_eq!(names(&text.replace(" send ~1", " recv ~1")), [""; 0]);
    assert!(!answer(&directed("sendonly")).contains("simulcast"));
    let back = text.replace("a=sendonly", "a=recvonly");
    assert_eq!(Offer::parse(&back).unwrap().encodings().count(), 0);
}

#[test]
fn offers_that_cannot_be_answered_say_why() {
    let print = Fingerprint::of(b"a certificate");
    let good = offer(print, "actpass");
    assert!(answer_to(&good, "gcc:libwebrtc").is_ok());
    for (from, to, complaint) in [
        ("m=video", "m=audio", "no video line that receives: add a transceiver"),
        ("a=recvonly", "a=sendonly", "no video line that receives"),
        ("VP8/90000", "H264/90000", "offers no VP8, found H264/90000"),
        ("a=rtcp-mux\r\n", "", "lacks a=rtcp-mux"),
        ("a=mid:0\r\n", "", "lacks a=mid"),
        ("a=setup:actpass", "a=setup:holdconn", "a=setup:holdconn is not understood"),
        ("sha-256", "sha-1", "a=fingerprint:sha-1"),
        ("a=ice-ufrag:brow", "a=ice-ufrag:b", "a=ice-ufrag:b is not understood"),
        ("v=0", "v=zero", "not a session description"),
    ] {
        let error = answer_to(&good.replace(from, to), "gcc:libwebrtc").unwrap_err().to_string();
        assert!(error.contains(complaint), "{to}: {error}");
    }
    let bare = good.replace("a=rtcp-fb:96 transport-cc\r\n", "");
    let error = answer_to(&bare, "scream:v2").unwrap_err().to_string();
    assert!(
        error.contains("no feedback for the controller") && error.contains("--force-fieldtrials"),
        "{error}"
    );
    let long = "a".repeat(100_000);
    assert!(matches!(answer_to(&long, "gcc:libwebrtc"), Err(OfferError::TooLong(100_000))));
}

/// RFC 5769 §2.1: a request with user name "evtj:h6vY" and password "VOkJxbRl1RmTxUk/WvJxBt". Its sender is controlled.
const RFC_5769: &[u8] = b"\x00\x01\x00\x58\x21\x12\xa4\x42\xb7\xe7\xa7\x01\xbc\x34\xd6\x86\xfa\x87\xdf\xae\
\x80\x22\x00\x10STUN test client\x00\x24\x00\x04\x6e\x00\x01\xff\x80\x29\x00\x08\x93\x2f\xf9\xb1\x51\x26\x3b\x36\
\x00\x06\x00\x09\x65\x76\x74\x6a\x3a\x68\x36\x76\x59\x20\x20\x20\x00\x08\x00\x14\x9a\xea\xa7\x0c\xbf\xd8\xcb\x56\
\x78\x1e\xf2\xb5\xb2\xd3\xf2\x49\xc1\xb5\x71\xa2\x80\x28\x00\x04\xe5\x7a\x3b\xcf";
const RFC_5769_PASSWORD: &str = "VOkJxbRl1RmTxUk/WvJxBt";

fn rfc_5769_agent(password: &str) -> IceLite {
    let local = Credentials { ufrag: "evtj".to_owned(), password: password.to_owned() };
    IceLite::new(local, "h6vY")
}

#[test]
fn the_request_of_rfc_5769_is_authentic() {
    let mut agent = rfc_5769_agent(RFC_5769_PASSWORD);
    let answer = agent.handle(Timestamp::ZERO, BROWSER.into(), RFC_5769).unwrap();
    // Both ends would be controlled: a role conflict (RFC 8445 §7.3.1.1).
    let answer = StunMessage::parse(&answer).unwrap();
    assert_eq!(answer.error_code().map(|(code, _)| code), Some(487));
    assert!(answer.verify(RFC_5769_PASSWORD.as_bytes(), sha1));
    assert!(!agent.is_checked(BROWSER.into()), "a conflict proves no consent");

    let mut other = rfc_5769_agent("another password of the same length");
    assert_eq!(other.handle(Timestamp::ZERO, BROWSER.into(), RFC_5769), None);
    let mut forged = RFC_5769.to_vec();
    forged[30] ^= 1;
    assert_eq!(agent.handle(Timestamp::ZERO, BROWSER.into(), &forged), None);
    let refused = (agent.counters().refused, other.counters().refused);
    assert_eq!(refused, (1, 1));
}

#[test]
fn an_authentic_check_gets_the_address_it_came_from() {
    let Credentials { ufrag, password } = credentials();
    let local = Credentials { ufrag: "giusto++".to_owned(), password };
    let mut agent = IceLite::new(local.clone(), &ufrag);
    let username = format!("{}:{ufrag}", local.ufrag);
    let request = |username: &str, nominate| check(username, &local.password, nominate);
    let at = Timestamp::from_nanos(7_000_000);
    let answer = agent.handle(at, BROWSER.into(), &request(&username, false)).unwrap();
    let answer = StunMessage::parse(&answer).unwrap();
    assert!(answer.is_successful_binding_response() && answer.verify(local.password.as_bytes(), sha1));
    assert_eq!(answer.mapped_address(), Some(BROWSER.into()));
    assert_eq!((agent.selected(), agent.target()), (None, Some(BROWSER.into())));
    assert_eq!(agent.expires_at(), Some(at + CONSENT_EXPIRY));

    assert_eq!(agent.handle(at, BROWSER.into(), &request("else:brow", true)), None);
    assert_eq!(agent.selected(), None);
    assert!(agent.handle(at, BROWSER.into(), &request(&username, true)).is_some());
    assert_eq!(agent.selected(), Some(BROWSER.into()));
    // The number of remembered addresses is bounded, and the latest is among them.
    for port in 1..100 {
        agent.handle(at, ([192, 0, 2, 9], port).into(), &request(&username, false));
    }
    let checked = (1..100).filter(|&port| agent.is_checked(([192, 0, 2, 9], port).into())).count();
    assert!(checked == 16 && agent.is_checked(([192, 0, 2, 9], 99).into()), "{checked}");
}
