use super::*;

fn receiver() -> MediaReceiver {
    let payloads =
        vec![PayloadFormat::video(96), PayloadFormat::audio(97, 48_000), PayloadFormat::padding(98)];
    MediaReceiver::new(repairing(payloads, false, KeyFrameRequest::None)).unwrap()
}

fn packet(sequence: u16, timestamp: u32, marker: bool) -> Sent {
    Sent::of(RtpHeader { ssrc: 7, payload_type: 96, sequence, timestamp, marker, extension: None })
}

fn timestamps(receiver: &mut MediaReceiver) -> Vec<u32> {
    frames(receiver).iter().map(|frame| frame.rtp_timestamp).collect()
}

#[test]
fn a_frame_is_complete_with_its_last_packet() {
    let mut receiver = receiver();
    let time = NtpTimestamp::from_timestamp(at(5000));
    let report = SenderReport { ssrc: 7, time, rtp_timestamp: 65_535 + 3600, ..SenderReport::default() };
    receiver.handle_rtcp(at(1000), &Packet::SenderReport(report));
    // Captured 40 ms before the report's time, 4960 ms on the sender's clock; the clocks differ by 4 s.
    for (sequence, marker, ms) in [(65_535, false, 1000), (1, true, 1001), (0, false, 1012)] {
        assert_eq!(frames(&mut receiver), []);
        packet(sequence, 65_535, marker).arrive(&mut receiver, at(ms));
    }
    let frame = FrameArrival {
        ssrc: 7,
        sequence: 65_535 + (1 << 16),
        rtp_timestamp: 65_535,
        start: None,
        at: at(1012),
        delay: Some(TimeDelta::from_millis(1012 - 4960)),
        packets: 3,
        repaired: 0,
        late: false,
        key: None,
        // 16 of 1000 bytes are the header, with an empty extension.
        payload: Payload::zeros(DataSize::from_bytes(3 * 984)),
    };
    assert_eq!(frames(&mut receiver), [frame]);
}

#[test]
fn a_loss_within_a_frame_drops_one_and_between_frames_two() {
    let mut receiver = receiver();
    let all = |lost: u16| {
        let packets = (0..15_u16).filter(move |number| *number != lost);
        packets.map(|number| packet(number, u32::from(number / 3), number % 3 == 2))
    };
    for (lost, whole) in
        [(100, vec![0, 1, 2, 3, 4]), (4, vec![0, 2, 3, 4]), (5, vec![0, 3, 4]), (3, vec![0, 2, 3, 4])]
    {
        // Without the first packet of a frame: the previous frame has its marker, so the lost packet is not
        // part of it.
        all(lost).for_each(|packet| packet.arrive(&mut receiver, at(0)));
        assert_eq!(timestamps(&mut receiver), whole, "{lost}");
        receiver = super::frames::receiver();
    }
    // A late packet completes both frames; the second one arrived before.
    all(5).enumerate().for_each(|(step, packet)| packet.arrive(&mut receiver, at(step as u64)));
    timestamps(&mut receiver);
    packet(5, 1, true).arrive(&mut receiver, at(50));
    let late: Vec<_> = frames(&mut receiver).iter().map(|frame| (frame.rtp_timestamp, frame.at)).collect();
    assert_eq!(late, [(1, at(50)), (2, at(7))]);
    packet(5, 1, true).arrive(&mut receiver, at(60));
    assert_eq!(timestamps(&mut receiver), [0_u32; 0]);
    assert_eq!(receiver.sources().map(|one| (one.frames, one.dropped_frames)).next(), Some((5, 0)));
}

#[test]
fn a_frame_with_unknown_first_packet_is_dropped() {
    let mut receiver = receiver();
    // The first packet of the stream, number 3000 with timestamp 3000, is lost.
    for (sequence, timestamp) in [(3001, 3000), (3002, 3000), (3003, 6000), (3004, 6000)] {
        packet(sequence, timestamp, sequence % 2 == 0).arrive(&mut receiver, at(0));
    }
    assert_eq!(timestamps(&mut receiver), [6000]);
    packet(3000, 3000, false).arrive(&mut receiver, at(30));
    assert_eq!(timestamps(&mut receiver), [3000], "it was only late");
    // Two frames with the same timestamp are two frames.
    for sequence in [3005, 3006] {
        packet(sequence, 9000, true).arrive(&mut receiver, at(40));
    }
    assert_eq!(timestamps(&mut receiver), [9000, 9000]);
}

#[test]
fn the_rest_of_a_dropped_frame_is_no_frame() {
    let mut receiver = receiver();
    packet(0, 0, false).arrive(&mut receiver, at(0));
    // The first packet is too old now. The next frame begins after the marker.
    for (sequence, timestamp, marker) in [(1, 0, false), (2, 0, true), (3, 3000, true)] {
        packet(sequence, timestamp, marker).arrive(&mut receiver, at(2500));
    }
    let whole = frames(&mut receiver);
    let found: Vec<_> = whole.iter().map(|frame| (frame.rtp_timestamp, frame.packets)).collect();
    assert_eq!(found, [(3000, 1)]);
    assert_eq!(receiver.sources().map(|one| (one.frames, one.dropped_frames)).next(), Some((1, 1)));
}

#[test]
fn incomplete_frames_take_bounded_memory() {
    let mut receiver = receiver();
    // Each frame lacks its last packet, and is 1 MB.
    for frame in 0..40_u32 {
        for number in 0..100_u32 {
            let head = packet((frame * 101 + number) as u16, frame, false).head();
            receiver.handle_rtp(at(0), &head, &Payload::zeros(DataSize::from_bytes(10_000)), Ecn::NotEct);
        }
    }
    assert_eq!(receiver.sources().next().map(|one| (one.frames, one.dropped_frames)), Some((0, 25)));
}

#[test]
fn incomplete_frames_are_dropped_after_two_seconds() {
    let mut receiver = receiver();
    for frame in 0..200_u16 {
        let first = frame * 3;
        // Every second frame lacks its middle packet.
        for number in (first..first + 3).filter(|number| frame % 2 == 0 || *number != first + 1) {
            packet(number, u32::from(frame), number == first + 2)
                .arrive(&mut receiver, at(u64::from(frame) * 40));
        }
    }
    let figures = receiver.sources().next().unwrap();
    assert_eq!(figures.frames, 100);
    // The packets of the last 2 s may still arrive.
    assert_eq!(
        figures.dropped_frames,
        (0..200).filter(|frame| frame % 2 == 1 && frame * 40 + 2000 < 199 * 40).count() as u64
    );
    let bye = Packet::Bye(Bye { sources: vec![7], reason: None });
    receiver.handle_rtcp(at(9000), &bye);
    assert_eq!(receiver.sources().next().map(|one| one.dropped_frames), Some(100));
}

#[test]
fn each_audio_packet_is_a_frame_and_padding_is_not() {
    let mut receiver = receiver();
    for (payload_type, ssrc, expected) in [(97, 8, vec![0, 960, 2880]), (98, 9, vec![])] {
        for number in [0, 1, 3, 3] {
            let timestamp = u32::from(number) * 960;
            let header =
                RtpHeader { ssrc, payload_type, sequence: number, timestamp, ..RtpHeader::default() };
            Sent::of(header).arrive(&mut receiver, at(u64::from(number) * 20));
        }
        assert_eq!(timestamps(&mut receiver), expected);
    }
    assert_eq!(blocks(&drain(&mut receiver, at(600))).len(), 2);
}
