use giusto_rtp::{
    RtxHeader,
    flexfec::{Parity, Protected},
    rtcp::{DelaySinceLast, ExtendedReport},
};

use super::*;

const VIDEO: u8 = 96;
const AUDIO: u8 = 97;
const RTX: u8 = 98;
const PARITY: u8 = 99;

fn receiver(key_frames: KeyFrameRequest) -> MediaReceiver {
    let payloads = vec![
        PayloadFormat::video(VIDEO),
        PayloadFormat::audio(AUDIO, 48_000),
        PayloadFormat::rtx(RTX, VIDEO),
        PayloadFormat::rtx(100, AUDIO),
    ];
    MediaReceiver::new(repairing(payloads, true, key_frames)).unwrap()
}

/// Packet `number` of a stream whose frames have three packets, every 30 ms of the media clock.
fn packet(number: u16) -> RtpHeader {
    let (timestamp, marker) = (u32::from(number / 3) * 2700, number % 3 == 2);
    RtpHeader { ssrc: 7, payload_type: VIDEO, sequence: number, timestamp, marker, extension: None }
}

fn arrive(receiver: &mut MediaReceiver, ms: u64, number: u16) {
    Sent::of(packet(number)).arrive(receiver, at(ms));
}

fn arrive_all(receiver: &mut MediaReceiver, ms: u64, numbers: &[u16]) {
    for number in numbers {
        arrive(receiver, ms, *number);
    }
}

fn repair(receiver: &mut MediaReceiver, ms: u64, number: u16) {
    let original = packet(number);
    let header = RtpHeader { ssrc: 8, payload_type: RTX, sequence: 500 + number, ..original };
    let mut head = Sent::of(header).head();
    head.extend(RtxHeader { original_sequence: number }.to_bytes());
    receiver.handle_rtp(at(ms), &head, &Payload::zeros(DataSize::from_bytes(984)), Ecn::NotEct);
}

/// What is requested at `ms`: sequence numbers, and the number of requests for a key frame.
fn requests(receiver: &mut MediaReceiver, ms: u64) -> (Vec<u16>, usize) {
    let datagrams = drain(receiver, at(ms));
    let keys = datagrams.iter().flatten();
    let keys = keys.filter(|packet| matches!(packet, Packet::PictureLoss(_) | Packet::FullIntra(_))).count();
    let numbers = only!(Nack, datagrams).flat_map(|nack| {
        assert_eq!((nack.sender_ssrc, nack.media_ssrc), (1, 7));
        nack.numbers().collect::<Vec<_>>()
    });
    (numbers.collect(), keys)
}

/// All requests until `end`, with their times.
fn requests_until(receiver: &mut MediaReceiver, end: u64) -> Vec<(u64, Vec<u16>, usize)> {
    let mut all = Vec::new();
    while let Some(due) = receiver.poll_timeout().filter(|&due| due <= at(end)) {
        receiver.handle_timeout(due);
        let ms = due.as_nanos() / 1_000_000;
        let (numbers, keys) = requests(receiver, ms);
        if !numbers.is_empty() || keys > 0 {
            all.push((ms, numbers, keys));
        }
    }
    all
}

fn completed(receiver: &mut MediaReceiver) -> Vec<(u32, Timestamp, u64)> {
    frames(receiver).iter().map(|frame| (frame.rtp_timestamp / 2700, frame.at, frame.repaired)).collect()
}

#[test]
fn a_lost_packet_is_requested_and_a_reordered_one_is_not() {
    let mut receiver = receiver(KeyFrameRequest::None);
    arrive_all(&mut receiver, 0, &[0, 1, 3, 4, 2, 5]);
    assert_eq!(requests_until(&mut receiver, 100), []);
    // Number 6 is lost. Number 9 is three higher.
    for (ms, number) in [(100, 7), (101, 8), (102, 9)] {
        assert_eq!(requests(&mut receiver, ms).0, [0_u16; 0]);
        arrive(&mut receiver, ms, number);
    }
    assert_eq!(requests(&mut receiver, 102).0, [6]);
    repair(&mut receiver, 180, 6);
    // Number 10 is lost, and few packets follow: after 10 ms.
    arrive(&mut receiver, 200, 11);
    assert_eq!(requests_until(&mut receiver, 215), [(210, vec![10], 0)]);
}

#[test]
fn the_last_packet_of_a_frame_is_repaired_and_the_next_frame_completes() {
    let mut receiver = receiver(KeyFrameRequest::None);
    arrive_all(&mut receiver, 0, &[0, 1, 2, 3, 4]);
    arrive_all(&mut receiver, 30, &[6, 7, 8]);
    assert_eq!(requests(&mut receiver, 30).0, [5]);
    assert_eq!(completed(&mut receiver), [(0, at(0), 0)]);
    repair(&mut receiver, 130, 5);
    // The delay of the first includes the repair; the other one had arrived before.
    assert_eq!(completed(&mut receiver), [(1, at(130), 1), (2, at(30), 0)]);
    // A repeated repair, and the original after its repair, have no effect.
    repair(&mut receiver, 131, 5);
    arrive(&mut receiver, 132, 5);
    assert_eq!(completed(&mut receiver), []);
    let figures = receiver.sources().next().unwrap();
    assert_eq!((figures.frames, figures.repaired_frames, figures.repaired_packets), (3, 1, 1));
    assert_eq!((figures.requested_packets, figures.unrepaired_packets), (1, 0));
}

#[test]
fn requests_are_repeated_and_end_before_the_deadline() {
    let mut receiver = receiver(KeyFrameRequest::PictureLoss);
    arrive_all(&mut receiver, 0, &[0, 1, 2, 3, 5, 6, 7]);
    // Every 100 ms, the default RTT. A repair of the request at 400 ms would come after the deadline of 400 ms.
    let asked = requests_until(&mut receiver, 1000);
    let packet = || vec![4_u16];
    assert_eq!(
        asked,
        [(0, packet(), 0), (100, packet(), 0), (200, packet(), 0), (300, packet(), 0), (400, vec![], 1)]
    );
    // A late repair still completes the frame, and tells the RTT: 600 ms from the first request.
    repair(&mut receiver, 600, 4);
    assert_eq!(frames(&mut receiver).len(), 2);
    arrive_all(&mut receiver, 1000, &[9, 10, 11]);
    // No request would be in time.
    assert_eq!(requests_until(&mut receiver, 2000), [(1000, vec![], 1)]);
    assert_eq!(receiver.sources().next().map(|one| one.unrepaired_packets), Some(2));
}

#[test]
fn key_frames_are_requested_at_most_every_300_ms() {
    for key_frames in [KeyFrameRequest::PictureLoss, KeyFrameRequest::FullIntra, KeyFrameRequest::None] {
        let mut receiver = receiver(key_frames);
        let (mut keys, mut commands) = (Vec::new(), Vec::new());
        // Every second packet is lost for a second, and none is repaired.
        for ms in 0..2000 {
            if ms < 1000 && ms % 5 == 0 {
                arrive(&mut receiver, ms, (ms / 5 * 2) as u16);
            }
            for packet in drain(&mut receiver, at(ms)).into_iter().flatten() {
                match packet {
                    Packet::PictureLoss(request) => keys.push((ms, request.media_ssrc)),
                    Packet::FullIntra(command) => {
                        keys.push((ms, command.requests[0].ssrc));
                        commands.push(command.requests[0].sequence);
                    }
                    _ => {}
                }
            }
        }
        if key_frames == KeyFrameRequest::None {
            assert_eq!(keys, []);
            continue;
        }
        assert!((4..=6).contains(&keys.len()), "{keys:?}");
        assert!(keys.windows(2).all(|two| two[1].0 - two[0].0 >= 300), "{keys:?}");
        assert!(keys.iter().all(|&(_, ssrc)| ssrc == 7));
        let expected = if key_frames == KeyFrameRequest::FullIntra { keys.len() } else { 0 };
        assert!(commands.iter().copied().eq((1..).take(expected)), "{commands:?}");
        assert_eq!(receiver.sources().next().map(|one| one.key_frame_requests), Some(keys.len() as u64));
    }
}

#[test]
fn a_repaired_audio_packet_is_one_frame() {
    let mut receiver = receiver(KeyFrameRequest::PictureLoss);
    let audio = |number: u16| {
        let timestamp = u32::from(number) * 960;
        RtpHeader { ssrc: 9, payload_type: AUDIO, sequence: number, timestamp, ..RtpHeader::default() }
    };
    for number in [0, 2] {
        Sent::of(audio(number)).arrive(&mut receiver, at(u64::from(number) * 20));
    }
    receiver.handle_timeout(at(50));
    assert!(only!(Nack, drain(&mut receiver, at(50))).any(|nack| nack.numbers().eq([1])));
    let header = RtpHeader { ssrc: 10, payload_type: 100, sequence: 3, ..audio(1) };
    let mut bytes = Sent::of(header).head();
    bytes.extend([0, 1, b'a']);
    receiver.handle_rtp(at(90), &bytes, &Payload::default(), Ecn::NotEct);
    Sent::of(audio(1)).arrive(&mut receiver, at(95));
    let frames = frames(&mut receiver);
    let payloads: Vec<_> = frames.iter().map(|frame| (frame.rtp_timestamp, frame.payload.len())).collect();
    assert_eq!(payloads, [(0, 984), (1920, 984), (960, 1)]);
}

#[test]
fn an_answer_to_the_reference_time_gives_the_rtt() {
    let mut receiver = receiver(KeyFrameRequest::None);
    arrive(&mut receiver, 0, 0);
    let reports = drain(&mut receiver, at(500));
    let reference = only!(ExtendedReport, reports).find_map(|report| report.reference_time);
    assert_eq!(reference, Some(NtpTimestamp::from_timestamp(at(500))));
    let answer = |ssrc| {
        let delay = giusto_rtp::NtpDelay::from_delta(TimeDelta::from_millis(200));
        let answer = DelaySinceLast { ssrc, last_reference: reference.unwrap().short(), delay };
        Packet::ExtendedReport(ExtendedReport { ssrc: 7, delays: vec![answer], ..ExtendedReport::default() })
    };
    // 1300 - 500 - 200 ms: no request would be repaired within 400 ms. An answer to another receiver has no effect.
    receiver.handle_rtcp(at(900), &answer(2));
    arrive_all(&mut receiver, 1000, &[2, 3, 4, 5]);
    assert_eq!(requests(&mut receiver, 1000).0, [1]);
    receiver.handle_rtcp(at(1300), &answer(1));
    arrive_all(&mut receiver, 1400, &[7, 8, 9, 10]);
    assert_eq!(requests_until(&mut receiver, 2000), []);
    // Without an answer for 10 s, the default applies again.
    arrive_all(&mut receiver, 11_300, &[12, 13, 14, 15]);
    assert_eq!(requests(&mut receiver, 11_300).0, [11]);
}

#[test]
fn packets_are_recovered_from_parity_without_any_request() {
    let payloads = vec![PayloadFormat::video(VIDEO), PayloadFormat::parity(PARITY)];
    let config = repairing(payloads, false, KeyFrameRequest::None);
    let mut receiver = MediaReceiver::new(config).unwrap();
    let bytes = |number: u16| {
        let mut bytes = Sent::of(packet(number)).head();
        bytes.extend((0..20 + number).map(|place| (place * 7 + number) as u8));
        bytes
    };
    let mut parity = Parity::default();
    (0..9).for_each(|number| parity.add(&[&bytes(number)], 0).unwrap());
    let protected = Protected::of_numbers(0, 0..9).unwrap();
    let header = RtpHeader { ssrc: 20, payload_type: PARITY, ..RtpHeader::default() };
    let mut repair = Sent::of(header).head();
    RtpHeader::insert_sources(&mut repair, &[7]);
    parity.header(vec![protected]).write(&mut repair).unwrap();
    repair.extend(parity.payload());
    // The last packet is lost: no higher packet tells so.
    (0..8).for_each(|number| receiver.handle_rtp(at(0), &bytes(number), &Payload::default(), Ecn::NotEct));
    assert_eq!(frames(&mut receiver).len(), 2);
    receiver.handle_rtp(at(10), &repair, &Payload::default(), Ecn::NotEct);
    let events: Vec<_> = std::iter::from_fn(|| receiver.poll_event()).collect();
    assert!(events.contains(&MediaEvent::Recovered { ssrc: 7, at: at(10) }));
    let frame = events.iter().find_map(|event| match event {
        MediaEvent::Frame(frame) => Some(frame.payload.to_vec()),
        _ => None,
    });
    let expected: Vec<u8> = (6..9).flat_map(|number| bytes(number)[16..].to_vec()).collect();
    assert_eq!(frame, Some(expected));
    assert_eq!(requests_until(&mut receiver, 400), []);
    let figures = receiver.sources().find(|one| one.ssrc == 7).unwrap();
    assert_eq!((figures.packets, figures.repaired_packets, figures.frames), (8, 1, 3));
}
