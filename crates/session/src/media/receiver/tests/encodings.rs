//! Several encodings of one video (simulcast): their names, and which of them a retransmission repairs (RFC 8852).

use giusto_rtp::RtxHeader;

use super::*;

const VIDEO: u8 = 96;
const RTX: u8 = 97;
const NAME_ID: u8 = 5;
const REPAIRED_ID: u8 = 6;

fn receiver() -> MediaReceiver {
    let payloads = vec![PayloadFormat::video(VIDEO), PayloadFormat::rtx(RTX, VIDEO)];
    let ids = ExtensionIds { stream_id: NAME_ID, repaired_stream_id: REPAIRED_ID, ..ExtensionIds::default() };
    MediaReceiver::new(MediaReceiverConfig {
        extension_ids: ids,
        numbers_from_timestamp: false,
        ..repairing(payloads, true, KeyFrameRequest::PictureLoss)
    })
    .unwrap()
}

/// A packet with an element of a header extension, if it has a name.
fn packet(header: RtpHeader, name: Option<(u8, &str)>, content: &[u8]) -> Vec<u8> {
    let name = name.map(|(id, name)| (id, name.as_bytes()));
    [with_elements(header, name.as_slice()), content.to_vec()].concat()
}

/// Packet `number` of a source whose frames have one packet each; packet 3 is missing.
fn media(receiver: &mut MediaReceiver, ssrc: u32, name: Option<&str>) {
    for number in [0, 1, 2, 4, 5, 6, 7] {
        let (sequence, timestamp) = (number, 3000 * u32::from(number));
        let header =
            RtpHeader { ssrc, payload_type: VIDEO, sequence, timestamp, marker: true, extension: None };
        let name = name.map(|name| (NAME_ID, name)).filter(|_| number < 2);
        let head = packet(header, name, &[1; 20]);
        receiver.handle_rtp(at(10 * u64::from(number)), &head, &Payload::default(), Ecn::NotEct);
    }
}

/// The retransmission of packet 3 on this source.
fn repeat(receiver: &mut MediaReceiver, ssrc: u32, name: Option<&str>) {
    let header =
        RtpHeader { ssrc, payload_type: RTX, sequence: 900, timestamp: 9000, marker: true, extension: None };
    let content = [&RtxHeader { original_sequence: 3 }.to_bytes()[..], &[1; 20]].concat();
    let head = packet(header, name.map(|name| (REPAIRED_ID, name)), &content);
    receiver.handle_rtp(at(100), &head, &Payload::default(), Ecn::NotEct);
}

fn repaired(receiver: &MediaReceiver) -> Vec<(u32, Option<String>, u64)> {
    let sources = receiver.sources().filter(|source| source.ssrc < 10);
    sources.map(|one| (one.ssrc, one.stream_id.map(|id| id.to_string()), one.repaired_packets)).collect()
}

#[test]
fn a_retransmission_repairs_the_encoding_that_it_names() {
    let mut receiver = receiver();
    media(&mut receiver, 7, Some("hi"));
    media(&mut receiver, 8, Some("lo"));
    assert_eq!((receiver.stream_id(7), receiver.stream_id(9)), (StreamId::new("hi"), None));
    // Both miss the same number: without a name it is not known which of them is repaired.
    repeat(&mut receiver, 20, None);
    let named = |hi, lo| vec![(7, Some("hi".to_owned()), hi), (8, Some("lo".to_owned()), lo)];
    assert_eq!(repaired(&receiver), named(0, 0));
    repeat(&mut receiver, 21, Some("lo"));
    assert_eq!(repaired(&receiver), named(0, 1));
    repeat(&mut receiver, 22, Some("hi"));
    assert_eq!(repaired(&receiver), named(1, 1));
}

#[test]
fn names_that_are_none_are_ignored() {
    let mut receiver = receiver();
    media(&mut receiver, 7, Some("h i"));
    assert_eq!(repaired(&receiver), [(7, None, 0)]);
    for text in ["", "seventeen-letters", "a b", "ä", "a;b"] {
        assert_eq!(StreamId::new(text), None, "{text}");
    }
    assert_eq!(StreamId::new("sixteen_letters-").unwrap().as_str(), "sixteen_letters-");
}

#[test]
fn a_key_frame_is_requested_once_on_demand() {
    let mut receiver = receiver();
    media(&mut receiver, 7, Some("hi"));
    receiver.request_key_frame(at(110), 7);
    receiver.request_key_frame(at(110), 7);
    receiver.request_key_frame(at(110), 99);
    let requests = |receiver: &mut MediaReceiver| {
        only!(PictureLoss, drain(receiver, at(120))).filter(|loss| loss.media_ssrc == 7).count()
    };
    assert_eq!((requests(&mut receiver), requests(&mut receiver)), (1, 0));
}
