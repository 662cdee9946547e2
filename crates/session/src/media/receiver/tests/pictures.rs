//! Losses of a real video: frames that are repaired, and key frames that are requested.

use giusto_rtp::RtxHeader;
use giusto_units::DataRate;

use super::*;
use crate::{
    media::{MediaSender, MediaSenderConfig, MediaStream, Packetizer, RateRange},
    video::VideoCodec,
};

const VIDEO: u8 = 96;
const RTX: u8 = 98;
/// Packets of a frame, frames from key frame to key frame.
const PACKETS: u16 = 3;

fn receiver(codec: VideoCodec, nack: bool, key_frames: KeyFrameRequest) -> MediaReceiver {
    let video = PayloadFormat::video(VIDEO).with_header(codec.payload_header());
    MediaReceiver::new(repairing(vec![video, PayloadFormat::rtx(RTX, VIDEO)], nack, key_frames)).unwrap()
}

/// The packets of a video with a frame every 40 ms, of which the frames in `keys` are key frames.
fn packets(codec: VideoCodec, frames: u16, keys: &[u16]) -> Vec<(RtpHeader, Payload)> {
    let frame = |frame| codec.synthetic_frame(DataSize::from_bytes(900), keys.contains(&frame));
    packets_of(codec, (0..frames).map(frame))
}

fn packets_of(codec: VideoCodec, frames: impl Iterator<Item = Payload>) -> Vec<(RtpHeader, Payload)> {
    let packetizer = Packetizer::new(DataSize::from_bytes(400)).unwrap();
    let packetizer = packetizer.with_header(codec.payload_header()).unwrap();
    let mut all = Vec::new();
    for (frame, content) in (0..).zip(frames) {
        let payloads = packetizer.payloads(&content);
        let last = payloads.len() - 1;
        for (number, payload) in payloads.into_iter().enumerate() {
            let (sequence, timestamp, marker) = (all.len() as u16, frame * 3600, number == last);
            let header =
                RtpHeader { ssrc: 7, payload_type: VIDEO, sequence, timestamp, marker, extension: None };
            all.push((header, payload));
        }
    }
    all
}

fn arrive(receiver: &mut MediaReceiver, ms: u64, (header, payload): &(RtpHeader, Payload)) {
    receiver.handle_rtp(at(ms), &Sent::of(*header).head(), payload, Ecn::NotEct);
}

/// Lets packets arrive at the times of their frames.
fn arrive_in_time<'a>(
    receiver: &mut MediaReceiver,
    packets: impl IntoIterator<Item = &'a (RtpHeader, Payload)>,
) {
    packets.into_iter().for_each(|packet| arrive(receiver, u64::from(packet.0.timestamp / 90), packet));
}

fn figures(receiver: &MediaReceiver) -> SourceFigures {
    receiver.sources().find(|one| one.ssrc == 7).unwrap()
}

fn repair(receiver: &mut MediaReceiver, ms: u64, (original, payload): &(RtpHeader, Payload)) {
    let header = RtpHeader { ssrc: 8, payload_type: RTX, sequence: 500 + original.sequence, ..*original };
    let mut head = Sent::of(header).head();
    head.extend(RtxHeader { original_sequence: original.sequence }.to_bytes());
    receiver.handle_rtp(at(ms), &head, payload, Ecn::NotEct);
}

/// Requests for key frames until `end`: their times, and the numbers of those that are commands.
fn key_requests(receiver: &mut MediaReceiver, end: u64) -> Vec<(u64, Option<u8>)> {
    let mut all = Vec::new();
    while let Some(due) = receiver.poll_timeout().filter(|&due| due <= at(end)) {
        receiver.handle_timeout(due);
        for packet in drain(receiver, due).into_iter().flatten() {
            let ms = due.as_nanos() / 1_000_000;
            match packet {
                Packet::PictureLoss(_) => all.push((ms, None)),
                Packet::FullIntra(command) => all.push((ms, Some(command.requests[0].sequence))),
                _ => {}
            }
        }
    }
    all
}

#[test]
fn a_frame_whose_packets_were_all_lost_is_repaired() {
    for codec in VideoCodec::ALL {
        let mut receiver = receiver(codec, true, KeyFrameRequest::PictureLoss);
        let packets = packets(codec, 6, &[0]);
        let lost: Vec<_> = packets.iter().filter(|(header, _)| header.timestamp == 2 * 3600).collect();
        assert!(lost.len() >= usize::from(PACKETS));
        arrive_in_time(&mut receiver, packets.iter().filter(|packet| !lost.contains(packet)));
        let before = frames(&mut receiver).len();
        for packet in &lost {
            repair(&mut receiver, 250, packet);
        }
        let repaired = frames(&mut receiver);
        let mut whole: Vec<_> = repaired.iter().map(|frame| frame.rtp_timestamp / 3600).collect();
        assert!(whole.contains(&2), "{codec}: {whole:?}");
        whole.retain(|frame| *frame != 2);
        assert_eq!(before + whole.len(), 5, "{codec}: each frame once");
        assert_eq!(key_requests(&mut receiver, 1000), [], "{codec}");
        let figures = figures(&receiver);
        let count = lost.len() as u64;
        assert_eq!((figures.frames, figures.repaired_frames, figures.dropped_frames), (6, 1, 0), "{codec}");
        assert_eq!((figures.repaired_packets, figures.unrepaired_packets), (count, 0), "{codec}");
    }
}

#[test]
fn a_repair_before_a_marked_start_is_no_frame() {
    let mut receiver = receiver(VideoCodec::H264, true, KeyFrameRequest::PictureLoss);
    // Supplemental information before each picture but the first.
    let frame = |number: u16| {
        let frame = VideoCodec::H264.synthetic_frame(DataSize::from_bytes(900), number == 0).to_vec();
        let information = [0, 0, 0, 1, 6, 5, 1, 1];
        Payload::from(if number == 0 { frame } else { [&information[..], &frame].concat() })
    };
    let packets = packets_of(VideoCodec::H264, (0..100).map(frame));
    let lost = packets.iter().position(|(header, _)| header.timestamp == 3600).unwrap();
    assert_eq!(packets[lost].1.to_vec()[0], 6);
    for packet @ (header, _) in packets.iter().filter(|packet| packet.0.sequence != lost as u16) {
        arrive(&mut receiver, u64::from(header.timestamp / 90), packet);
        if header.timestamp == 5 * 3600 && header.marker {
            repair(&mut receiver, 205, &packets[lost]);
        }
    }
    assert_eq!(frames(&mut receiver).len(), 100);
    let figures = figures(&receiver);
    assert_eq!((figures.frames, figures.dropped_frames, figures.key_frame_requests), (100, 0, 0));
}

#[test]
fn a_reordered_vp8_frame_is_not_passed_over() {
    for key_frames in [KeyFrameRequest::None, KeyFrameRequest::PictureLoss] {
        let mut receiver = receiver(VideoCodec::Vp8, false, key_frames);
        let packets = packets(VideoCodec::Vp8, 4, &[0]);
        // The third frame comes 5 ms before the second.
        for (ms, frame) in [(0, 0), (80, 2), (85, 1), (120, 3)] {
            let own = packets.iter().filter(|(header, _)| header.timestamp == frame * 3600);
            own.for_each(|packet| arrive(&mut receiver, ms, packet));
        }
        assert_eq!(frames(&mut receiver).len(), 4);
        assert_eq!(key_requests(&mut receiver, 1000), []);
    }
}

#[test]
fn a_repair_after_its_frame_was_passed_is_not_counted() {
    let mut receiver = receiver(VideoCodec::Vp8, true, KeyFrameRequest::PictureLoss);
    let packets = packets(VideoCodec::Vp8, 100, &[0, 20]);
    let (lost, others): (Vec<_>, Vec<_>) = packets.iter().partition(|(header, _)| header.timestamp == 3600);
    for packet @ (header, _) in others {
        let ms = u64::from(header.timestamp / 90);
        key_requests(&mut receiver, ms);
        arrive(&mut receiver, ms, packet);
    }
    for packet in &lost {
        repair(&mut receiver, 3970, packet);
    }
    let figures = figures(&receiver);
    assert_eq!((figures.frames, figures.repaired_frames, figures.repaired_packets), (99, 0, 0));
    assert_eq!(figures.unrepaired_packets, lost.len() as u64);
}

#[test]
fn a_key_frame_is_requested_until_it_is_complete() {
    for nack in [false, true] {
        for codec in VideoCodec::ALL {
            let mut receiver = receiver(codec, nack, KeyFrameRequest::FullIntra);
            // The second frame is lost; the key frame comes a second later.
            let packets = packets(codec, 60, &[0, 30]);
            let mut asked = Vec::new();
            for packet @ (header, _) in packets.iter().filter(|(header, _)| header.timestamp != 3600) {
                let ms = u64::from(header.timestamp / 90);
                asked.extend(key_requests(&mut receiver, ms));
                arrive(&mut receiver, ms, packet);
            }
            // Without repair as soon as it is not reordered, else at the playout deadline; then every 300 ms and the RTT.
            let first = if nack { 480 } else { 80 };
            let (times, commands): (Vec<u64>, Vec<_>) = asked.iter().copied().unzip();
            assert!((first..first + 15).contains(&times[0]), "{codec} {nack}: {asked:?}");
            let gaps = times.windows(2).map(|two| two[1] - two[0]);
            assert!(gaps.into_iter().all(|gap| (400..=440).contains(&gap)), "{codec}: {asked:?}");
            let last = times.last().copied().unwrap_or_default();
            assert!((800..1200).contains(&last), "{codec} {nack}: {asked:?}");
            // Repetitions of one command.
            assert!(commands.iter().all(|&command| command == Some(1)), "{codec}: {asked:?}");
        }
    }
}

#[test]
fn a_key_frame_that_came_before_the_loss_was_given_up_is_enough() {
    let mut receiver = receiver(VideoCodec::Vp8, true, KeyFrameRequest::PictureLoss);
    let packets = packets(VideoCodec::Vp8, 30, &[0, 5]);
    arrive_in_time(&mut receiver, packets.iter().filter(|(header, _)| header.timestamp != 3600));
    assert_eq!(key_requests(&mut receiver, 3000), []);
}

#[test]
fn a_video_that_begins_without_its_key_frame_asks_for_one() {
    let mut receiver = receiver(VideoCodec::Vp8, false, KeyFrameRequest::PictureLoss);
    let packets = packets(VideoCodec::Vp8, 90, &[0]);
    // More packets are missing at the start than are looked for.
    arrive_in_time(&mut receiver, packets.iter().filter(|(header, _)| header.sequence >= 90));
    assert!(!key_requests(&mut receiver, 3700).is_empty());
}

#[test]
fn a_damaged_frame_needs_a_key_frame() {
    let mut receiver = receiver(VideoCodec::Vp8, false, KeyFrameRequest::PictureLoss);
    let mut packets = packets(VideoCodec::Vp8, 6, &[0]);
    // A second start within a frame.
    let (_, payload) = &mut packets[7];
    let mut bytes = payload.to_vec();
    bytes[0] = 0x10;
    *payload = bytes.into();
    for packet in &packets {
        arrive(&mut receiver, 0, packet);
    }
    assert_eq!(frames(&mut receiver).len(), 5);
    assert_eq!(key_requests(&mut receiver, 100).len(), 1);
}

#[test]
fn more_losses_than_are_remembered_need_a_key_frame() {
    let mut receiver = receiver(VideoCodec::Vp8, true, KeyFrameRequest::PictureLoss);
    let packets = packets(VideoCodec::Vp8, 900, &[0]);
    let (first, last) = (packets[..6].iter(), packets[2400..].iter());
    first.for_each(|packet| arrive(&mut receiver, 0, packet));
    last.for_each(|packet| arrive(&mut receiver, 30_000, packet));
    assert!(!key_requests(&mut receiver, 30_050).is_empty());
}

#[test]
fn a_command_that_came_too_soon_is_obeyed_when_it_is_repeated() {
    let stream = MediaStream::video(7, VIDEO, RateRange::fixed(DataRate::from_bps(500_000)));
    let controller = giusto_congestion::Fixed::new(DataRate::from_bps(1_000_000));
    let mut sender = MediaSender::new(MediaSenderConfig::default(), Box::new(controller), vec![stream]);
    let mut obeyed = |ms: u64, sequence: u8| {
        let requests = vec![IntraRequest { ssrc: 7, sequence }];
        sender.handle_rtcp(at(ms), &Packet::FullIntra(FullIntra { sender_ssrc: 1, requests }));
        std::iter::from_fn(|| sender.poll_event())
            .any(|event| matches!(event, MediaEvent::KeyFrameWanted { .. }))
    };
    let times = [(1000, 1), (1100, 1), (1200, 2), (1400, 2), (1800, 2), (2000, 3)];
    let found: Vec<bool> = times.iter().map(|&(ms, sequence)| obeyed(ms, sequence)).collect();
    assert_eq!(found, [true, false, false, true, false, true]);
}

#[test]
fn a_descriptor_says_where_a_frame_of_av1_begins() {
    const DEPENDENCY: u8 = 5;
    // One spatial and two temporal layers, one decode target; the second template is the upper layer's.
    let structure = [0xc0, 0, 7, 0b1000_0000, 0, 0b0111_1010, 0b0000_0000, 0];
    let whole = |described: bool| {
        let video = PayloadFormat::video(VIDEO).with_header(VideoCodec::Av1.payload_header());
        let mut config = repairing(vec![video], false, KeyFrameRequest::None);
        config.extension_ids.dependency = DEPENDENCY;
        config.numbers_from_timestamp = false;
        let mut receiver = MediaReceiver::new(config).unwrap();
        for (number, (header, payload)) in packets(VideoCodec::Av1, 6, &[0]).iter().enumerate() {
            let frame = header.timestamp / 3600;
            if frame == 2 {
                continue;
            }
            let begins = number % usize::from(PACKETS) == 0;
            let later = [if begins { 0x80 } else { 0 } | u8::from(frame % 2 == 1), 0, 7 + frame as u8];
            let descriptor = if number == 0 { &structure[..] } else { &later };
            let id = if described { DEPENDENCY } else { DEPENDENCY + 1 };
            let head = with_elements(*header, &[(id, descriptor)]);
            receiver.handle_rtp(at(1000 + 40 * u64::from(frame)), &head, payload, Ecn::NotEct);
        }
        let layers = receiver.sources().next().unwrap().layers;
        (frames(&mut receiver).iter().map(|frame| frame.rtp_timestamp / 3600).collect::<Vec<_>>(), layers)
    };
    assert_eq!(whole(true), (vec![0, 1, 3, 4, 5], Some((1, 2))));
    // The frame after the loss may begin earlier.
    assert_eq!(whole(false), (vec![0, 1, 4, 5], None));
}
