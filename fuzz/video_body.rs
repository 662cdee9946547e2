//! The function of the fuzz target `video`: containers, payload formats, sources and arrivals. The ordinary tests run its seeds too.

use giusto_rtp::{
    h264::{self, Reassembler},
    vp8::{FrameTag, Vp8Descriptor},
};
use giusto_session::{
    media::{FrameArrival, Packetizer, Payload, PayloadHeader},
    video::{Arrivals, Clip, FileSource, Ladder, VideoCodec, VideoReader, VideoSource, VideoWriter},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

/// The first byte chooses how the rest is cut.
pub(crate) fn video(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let whole = frames(bytes, bytes.len().max(1));
    // The pieces in which a stream arrives change nothing.
    assert_eq!(frames(bytes, usize::from(choice % 61) + 1), whole);
    if let Some((codec, frames)) = whole.as_ref().filter(|(_, frames)| !frames.is_empty()) {
        written_again(*codec, frames);
    }
    payloads(choice, bytes);
    if let Ok(clip) = Clip::parse(bytes, TimeDelta::from_millis(40)) {
        play(clip, choice);
    }
    arrivals(bytes);
}

fn frames(bytes: &[u8], chunk: usize) -> Option<(VideoCodec, Vec<Vec<u8>>)> {
    let (mut reader, mut frames) = (VideoReader::default(), Vec::new());
    for piece in bytes.chunks(chunk) {
        reader.push(piece);
        while let Some(frame) = reader.poll_frame().ok()? {
            frames.push(frame.payload.to_vec());
        }
    }
    frames.extend(reader.finish().ok()?.map(|frame| frame.payload.to_vec()));
    Some((reader.codec()?, frames))
}

/// Frames that are written are read again as they were, and survive their packets.
fn written_again(codec: VideoCodec, frames: &[Vec<u8>]) {
    let again = |mut writer: VideoWriter| {
        let mut file = writer.header();
        for (number, frame) in frames.iter().enumerate() {
            writer.write(number as u64 * 3000, frame, &mut file);
        }
        self::frames(&file, 4096).map(|(_, frames)| frames)
    };
    let units = |frame: &[u8]| h264::nal_units(frame).map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert_eq!(again(VideoWriter::ivf(codec)).as_deref(), Some(frames));
    if codec == VideoCodec::H264 {
        let all = |frames: &[Vec<u8>]| frames.iter().flat_map(|frame| units(frame)).collect::<Vec<_>>();
        assert_eq!(again(VideoWriter::annex_b()).map(|again| all(&again)), Some(all(frames)));
    }
    let packetizer = Packetizer::default().with_header(codec.payload_header()).expect("there is room");
    for frame in frames {
        let packets = packetizer.payloads(&Payload::from(frame.clone()));
        assert!(packets.iter().all(|packet| packet.size() <= packetizer.max_payload()));
        if codec.payload_header() == PayloadHeader::H264 {
            let mut unit = Reassembler::default();
            let joined = packets.iter().try_for_each(|packet| unit.push(&packet.to_vec()));
            // Units whose types only packets have cannot be sent.
            let reserved =
                |unit: &Vec<u8>| unit.first().is_some_and(|first| matches!(first & 0x1f, 0 | 24..));
            if !units(frame).iter().any(reserved) {
                joined.expect("own packets are read");
                let sent = units(frame).into_iter().filter(|unit| {
                    unit.first().map(|&first| h264::NalType::of(first)) != Some(h264::NalType::DELIMITER)
                });
                assert_eq!(units(&unit.finish().expect("they are complete")), sent.collect::<Vec<_>>());
            }
        } else {
            let part = |packet: &Payload| {
                Vp8Descriptor::parse(&packet.to_vec()).expect("own packets are read").1.to_vec()
            };
            assert_eq!(packets.iter().flat_map(part).collect::<Vec<_>>(), *frame);
        }
    }
}

/// Payloads of any bytes.
fn payloads(choice: u8, bytes: &[u8]) {
    let mut unit = Reassembler::default();
    for payload in bytes.chunks(usize::from(choice) + 1) {
        let _ = Vp8Descriptor::parse(payload);
        let _ = FrameTag::parse(payload);
        if unit.push(payload).is_err() {
            break;
        }
    }
    if let Ok(stream) = unit.finish() {
        assert!(stream.len() <= 5 * bytes.len());
    }
}

/// The times of the frames rise, and the source never stops.
fn play(clip: Clip, choice: u8) {
    let Ok(ladder) = Ladder::new(vec![clip]) else { return };
    let mut source = FileSource::new(ladder, Timestamp::ZERO);
    let (mut now, mut last) = (Timestamp::ZERO, None);
    for step in 0_u64..64 {
        match step % 8 {
            3 if choice & 1 != 0 => source.request_key_frame(now),
            5 => source.set_target(now, DataRate::from_bps(step * u64::from(choice))),
            6 if choice & 2 != 0 => source.on_skipped(now),
            _ => {}
        }
        let due = source.next_frame_at().expect("it begins again");
        now = now.max(due);
        let frame = source.poll_frame(now).expect("it is due");
        assert!(last.is_none_or(|last| last < frame.captured) && frame.captured <= now);
        last = Some(frame.captured);
    }
}

/// Frames in any order come out in rising order, each at most once.
fn arrivals(bytes: &[u8]) {
    let mut arrivals = Arrivals::default();
    let (mut given, mut pushed, mut last) = (0_u64, 0_u64, None);
    for piece in bytes.chunks_exact(4) {
        let &[sequence, packets, time, timestamp] = piece else { return };
        arrivals.push(FrameArrival {
            ssrc: 1,
            sequence: 65_536 + u64::from(sequence),
            rtp_timestamp: u32::from(timestamp) * 500,
            at: Timestamp::from_nanos(u64::from(time) * 20_000_000),
            delay: None,
            packets: u64::from(packets % 4) + 1,
            repaired: 0,
            start: None,
            late: false,
            key: None,
            payload: Payload::from(vec![sequence]),
        });
        pushed += 1;
        let now = Timestamp::from_nanos(u64::from(time) * 20_000_000);
        while let Some(frame) = arrivals.poll(Some(now)) {
            assert!(last.is_none_or(|last| last <= frame.ticks));
            last = Some(frame.ticks);
            given += 1;
        }
    }
    while arrivals.poll(None).is_some() {
        given += 1;
    }
    assert!(given <= pushed && arrivals.gaps().len() <= 1000);
}
