//! Containers and payload formats against files and packets of `ffmpeg` 5.1 and `gst-launch-1.0` 1.22 (`data`):
//!
//! ```sh
//! ffmpeg -f lavfi -i testsrc=size=96x64:rate=15 -t 2 -pix_fmt yuv420p -c:v libvpx -b:v 60k -g 15 tiny.ivf
//! ffmpeg -f lavfi -i testsrc=size=96x64:rate=15 -t 2 -pix_fmt yuv420p -c:v libx264 -profile:v baseline \
//!   -x264-params slices=2:keyint=15 -b:v 60k tiny.h264
//! gst-launch-1.0 filesrc location=tiny.ivf ! ivfparse ! rtpvp8pay mtu=200 picture-id-mode=2 ! rtpstreampay ! filesink location=tiny-vp8.rtp
//! gst-launch-1.0 filesrc location=tiny.h264 ! h264parse ! rtph264pay mtu=200 aggregate-mode=zero-latency ! rtpstreampay ! filesink location=tiny-h264.rtp
//! ```
//!
//! Each packet of `.rtp` follows its length (RFC 4571).

use std::process::{Command, Stdio};

use crate::prelude::*;

const VP8: &[u8] = include_bytes!("../data/tiny.ivf");
const H264: &[u8] = include_bytes!("../data/tiny.h264");
const INTERVAL: TimeDelta = TimeDelta::from_nanos(66_666_667);

fn frames(file: &[u8], chunk: usize) -> Vec<VideoFrame> {
    let (mut reader, mut frames) = (VideoReader::default(), Vec::new());
    for piece in file.chunks(chunk) {
        reader.push(piece);
        while let Some(frame) = reader.poll_frame().unwrap() {
            frames.push(frame);
        }
    }
    frames.extend(reader.finish().unwrap());
    frames
}

fn units(frame: &[u8]) -> Vec<Vec<u8>> {
    h264::nal_units(frame).map(<[u8]>::to_vec).collect()
}

/// What must be equal of two frames: start codes are not.
fn content(codec: VideoCodec, frame: &Payload) -> Vec<Vec<u8>> {
    match codec {
        VideoCodec::Vp8 => vec![frame.to_vec()],
        _ => units(&frame.to_vec()),
    }
}

#[test]
fn the_frames_of_ffmpeg_are_read_in_pieces_of_any_size() {
    for (file, codec) in [(VP8, VideoCodec::Vp8), (H264, VideoCodec::H264)] {
        let whole = frames(file, file.len());
        // 2 s at 15 frames per second, a key frame each second.
        assert_eq!(whole.len(), 30, "{codec}");
        let keys: Vec<_> = (0..30).filter(|&number| whole[number].key).collect();
        assert_eq!(keys, [0, 15], "{codec}");
        for chunk in [1, 2, 7, 1000] {
            assert_eq!(frames(file, chunk), whole, "{codec} {chunk}");
        }
    }
    let times: Vec<_> = frames(VP8, 4096).iter().map(|frame| frame.time.unwrap().as_nanos()).collect();
    assert!(times.iter().zip(0..).all(|(time, number)| *time == number * 1_000_000_000 / 15));
    assert_eq!(FrameTag::parse(&frames(VP8, 99)[0].payload.to_vec()).unwrap().dimensions, Some((96, 64)));
    // Two slices in each picture.
    let slices = |frame: &VideoFrame| {
        units(&frame.payload.to_vec()).iter().filter(|unit| h264::NalType::of(unit[0]).is_slice()).count()
    };
    assert!(frames(H264, 4096).iter().all(|frame| slices(frame) == 2));
}

#[test]
fn what_is_written_is_read_again() {
    for (file, codec, is_ivf) in
        [(VP8, VideoCodec::Vp8, true), (H264, VideoCodec::H264, true), (H264, VideoCodec::H264, false)]
    {
        let before = frames(file, 4096);
        let mut writer = if is_ivf { VideoWriter::ivf(codec) } else { VideoWriter::annex_b() };
        let mut written = writer.header();
        for (number, frame) in before.iter().enumerate() {
            writer.write(number as u64 * 6000, &frame.payload.to_vec(), &mut written);
        }
        let header = writer.header();
        written[..header.len()].copy_from_slice(&header);
        let after = frames(&written, 4096);
        let all = |frames: &[VideoFrame]| {
            frames.iter().map(|frame| content(codec, &frame.payload)).collect::<Vec<_>>()
        };
        assert_eq!(all(&after), all(&before));
        // Bytes 24 to 27 of an IVF header, and 12 to 15.
        if is_ivf {
            let times = after.iter().map(|frame| frame.time.unwrap().as_nanos());
            assert!(times.zip(0..).all(|(time, number)| time == number * 1_000_000_000 / 15), "{codec}");
            assert_eq!(header[24..28], 180_000_u32.to_le_bytes());
        }
        if codec == VideoCodec::Vp8 {
            assert_eq!(header[12..16], [96, 0, 64, 0]);
        }
    }
}

#[test]
fn damaged_files_are_errors() {
    let error = |bytes: &[u8]| Clip::parse(bytes, INTERVAL).unwrap_err().to_string();
    assert!(error(b"RIFF....").starts_with("neither IVF nor H.264"));
    assert!(error(&VP8[..VP8.len() - 1]).contains("frame 29 is cut off"));
    assert!(error(&VP8[..20]).contains("frame 0 is cut off"));
    assert!(error(b"").contains("frame 0 is cut off"));
    let changed = |at: usize, byte: u8| {
        let mut bytes = VP8.to_vec();
        bytes[at] = byte;
        error(&bytes)
    };
    assert!(changed(11, b'9').contains("the codec is \"VP89\""));
    assert!(changed(35, 0x7f).contains("frame 0 has 21307"));
    assert!(changed(16, 0).contains("time base"));
    assert!(changed(44, 0x11).contains("the first must be a key frame"));
    assert!(changed(47, 0).contains("not VP8"));
}

/// The packets of a file of RFC 4571.
fn packets(mut file: &[u8]) -> Vec<&[u8]> {
    let mut packets = Vec::new();
    while let Some((length, rest)) = file.split_first_chunk() {
        let (packet, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)));
        packets.push(packet);
        file = rest;
    }
    packets
}

fn receiver(codec: VideoCodec) -> MediaReceiver {
    let mut config = MediaReceiverConfig::new(1, "receiver", FeedbackKind::ReceiverReports);
    config.payloads = vec![PayloadFormat::video(96).with_header(codec.payload_header())];
    MediaReceiver::new(config).unwrap()
}

fn received(receiver: &mut MediaReceiver) -> Vec<FrameArrival> {
    let events = std::iter::from_fn(|| receiver.poll_event());
    events.filter_map(|event| if let MediaEvent::Frame(frame) = event { Some(frame) } else { None }).collect()
}

#[test]
fn packets_of_gstreamer_become_the_frames_that_it_sent() {
    let files = [
        (&include_bytes!("../data/tiny-vp8.rtp")[..], VP8, VideoCodec::Vp8),
        (include_bytes!("../data/tiny-h264.rtp"), H264, VideoCodec::H264),
    ];
    for (rtp, file, codec) in files {
        let mut receiver = receiver(codec);
        let mut now = Timestamp::ZERO;
        let all = packets(rtp);
        assert!(all.len() > 50, "{codec}: {} packets of 200 B", all.len());
        for packet in all {
            now += TimeDelta::from_millis(3);
            receiver.handle_rtp(now, packet, &Payload::default(), Ecn::NotEct);
        }
        let received: Vec<_> =
            received(&mut receiver).iter().map(|frame| content(codec, &frame.payload)).collect();
        let sent: Vec<_> = frames(file, 4096).iter().map(|frame| content(codec, &frame.payload)).collect();
        assert_eq!(received, sent, "{codec}");
    }
}

/// The packets that our sender makes of a file's frames.
fn sent(codec: VideoCodec, file: &[u8]) -> Vec<Vec<u8>> {
    let rate = DataRate::from_bps(5_000_000);
    let packetizer = Packetizer::new(DataSize::from_bytes(200)).unwrap();
    let stream = MediaStream {
        packetizer: packetizer.with_header(codec.payload_header()).unwrap(),
        timestamp_offset: 0x1234_5678,
        ..MediaStream::video(7, 96, RateRange::fixed(rate))
    };
    let config =
        MediaSenderConfig { feedback: FeedbackKind::ReceiverReports, ..MediaSenderConfig::default() };
    let mut sender = MediaSender::new(config, Box::new(Fixed::new(rate)), vec![stream]);
    let clip = Clip::parse(file, INTERVAL).unwrap();
    let mut source = FileSource::new(Ladder::new(vec![clip]).unwrap(), Timestamp::ZERO);
    let (mut packets, mut left) = (Vec::new(), 30);
    for millis in 0..3000 {
        let now = Timestamp::ZERO + TimeDelta::from_millis(millis);
        if left > 0
            && let Some(frame) = source.poll_frame(now)
        {
            left -= 1;
            let (captured, media_timestamp) = (frame.captured, frame.media_timestamp);
            let frame = Frame { captured, media_timestamp, payload: frame.payload, key: frame.key };
            sender.push_frame(now, 0, frame).unwrap();
        }
        sender.handle_timeout(now);
        let datagrams = std::iter::from_fn(|| sender.poll_transmit(now));
        packets.extend(
            datagrams.map(|datagram| datagram.to_vec()).filter(|bytes| RtpHeader::parse(bytes).is_ok()),
        );
    }
    packets
}

/// Sends the frames of a file, with a packet each `gap`. Packets for which `is_lost` is true, given the number of their frame and their
/// marker, do not arrive. Returns the frames that arrived, and what put them in order.
fn carried(
    codec: VideoCodec,
    file: &[u8],
    gap: TimeDelta,
    is_lost: impl Fn(u32, bool) -> bool,
) -> (Vec<OrderedFrame>, Arrivals) {
    let (mut receiver, mut arrivals, mut now) = (receiver(codec), Arrivals::default(), Timestamp::ZERO);
    let mut found = Vec::new();
    for packet in sent(codec, file) {
        assert!(packet.len() <= 212);
        let (header, _) = RtpHeader::parse(&packet).unwrap();
        if is_lost(header.timestamp.wrapping_sub(0x1234_5678) / 6000, header.marker) {
            continue;
        }
        now += gap;
        receiver.handle_rtp(now, &packet, &Payload::default(), Ecn::NotEct);
        for frame in received(&mut receiver) {
            arrivals.push(frame);
        }
        found.extend(std::iter::from_fn(|| arrivals.poll(Some(now))));
    }
    (found, arrivals)
}

#[test]
fn frames_arrive_with_the_same_bytes_at_the_same_times() {
    for (file, codec) in [(VP8, VideoCodec::Vp8), (H264, VideoCodec::H264)] {
        let (found, arrivals) = carried(codec, file, TimeDelta::from_millis(1), |_, _| false);
        let expected = frames(file, 4096);
        assert_eq!((found.len(), arrivals.gaps().len(), arrivals.skipped()), (30, 0, 0), "{codec}");
        for (number, (found, expected)) in (0_u64..).zip(found.iter().zip(&expected)) {
            assert_eq!(content(codec, &found.payload), content(codec, &expected.payload));
            assert_eq!(found.ticks, number * 6000);
        }
    }
}

#[test]
fn of_other_senders_only_missing_packets_are_gaps() {
    // A camera of 30 frames a second that leaves one out, and whose numbers begin anywhere; then one packet is missing.
    let frame = |sequence, rtp_timestamp| FrameArrival {
        ssrc: 1,
        sequence,
        rtp_timestamp,
        start: None,
        at: Timestamp::ZERO,
        delay: None,
        packets: 1,
        repaired: 0,
        late: false,
        key: Some(false),
        payload: Payload::from(&[1][..]),
    };
    let all = [(5000, 0), (5001, 3000), (5002, 9000), (5003, 12_000), (5005, 15_000)];
    for (mut arrivals, missing) in [(Arrivals::foreign(), 1), (Arrivals::default(), 3)] {
        for (sequence, timestamp) in all {
            arrivals.push(frame(sequence, timestamp));
        }
        let found: Vec<u64> = std::iter::from_fn(|| arrivals.poll(None)).map(|frame| frame.ticks).collect();
        assert_eq!(found, [0, 3000, 9000, 12_000, 15_000]);
        assert_eq!(arrivals.skipped(), missing);
    }
    let mut arrivals = Arrivals::foreign();
    arrivals.push(frame(5000, 0));
    // The first does not wait for others.
    assert!(arrivals.poll(Some(Timestamp::ZERO)).is_some());
    let mut arrivals = Arrivals::default();
    arrivals.push(frame(5000, 0));
    assert!(arrivals.poll(Some(Timestamp::ZERO)).is_none());
}

#[test]
fn lost_frames_are_left_out_and_counted() {
    for (file, codec) in [(VP8, VideoCodec::Vp8), (H264, VideoCodec::H264)] {
        // The last packet of frame 5, and all of frames 20 and 21.
        let is_lost = |number, is_last| (number == 5 && is_last) || [20, 21].contains(&number);
        let (mut found, mut arrivals) = carried(codec, file, TimeDelta::from_millis(20), is_lost);
        found.extend(std::iter::from_fn(|| arrivals.poll(None)));
        let numbers: Vec<_> = found.iter().map(|frame| frame.ticks / 6000).collect();
        // The formats mark the first packet of a frame: the next one is not lost too.
        let expected: Vec<_> = (0..30).filter(|number| ![5, 20, 21].contains(number)).collect();
        assert_eq!(numbers, expected, "{codec}");
        assert_eq!(arrivals.skipped(), 3, "{codec}");
        let [first, second] = arrivals.gaps() else { panic!("{:?}", arrivals.gaps()) };
        assert_eq!(first.from.as_nanos() / 1_000_000, 266, "{codec}");
        assert_eq!(first.frames + second.frames, 3);
    }
}

#[test]
fn gstreamer_reads_the_packets_of_this_sender() {
    let name = "gstreamer_reads_the_packets_of_this_sender";
    if Command::new("gst-launch-1.0").arg("--version").output().is_err() {
        eprintln!(
            "SKIPPED {name}: gst-launch-1.0 is missing (gstreamer1.0-tools, gstreamer1.0-plugins-good)"
        );
        return;
    }
    let stream = "video/x-h264,stream-format=byte-stream,alignment=au !";
    for (file, codec, encoding, depay, caps) in [
        (VP8, VideoCodec::Vp8, "VP8", "rtpvp8depay", ""),
        (H264, VideoCodec::H264, "H264", "rtph264depay", stream),
    ] {
        let mut bytes = Vec::new();
        for packet in sent(codec, file) {
            bytes.extend((packet.len() as u16).to_be_bytes());
            bytes.extend(packet);
        }
        let pipeline = format!(
            "-q fdsrc fd=0 ! application/x-rtp-stream,media=video,clock-rate=90000,encoding-name={encoding},payload=96 ! \
             rtpstreamdepay ! {depay} ! {caps} fdsink fd=1"
        );
        let mut command = Command::new("gst-launch-1.0");
        command.args(pipeline.split_whitespace()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut run = command.stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut run.stdin.take().unwrap(), &bytes).unwrap();
        let run = run.wait_with_output().unwrap();
        let (read, why) = (run.stdout, String::from_utf8_lossy(&run.stderr));
        if !run.status.success() {
            assert!(why.contains("no element"), "{why}");
            eprintln!("SKIPPED {name}: an element is missing (gstreamer1.0-plugins-good): {why}");
            return;
        }
        let expected: Vec<u8> = frames(file, 4096).iter().flat_map(|frame| frame.payload.to_vec()).collect();
        if codec == VideoCodec::Vp8 {
            assert!(read == expected, "{} B, expected {}", read.len(), expected.len());
        } else {
            // The delimiter that GStreamer may add is not ours.
            let own = |stream: &[u8]| {
                units(stream).into_iter().filter(|unit| unit[0] & 0x1f != 9).collect::<Vec<_>>()
            };
            assert_eq!(own(&read), own(&expected));
        }
    }
}

/// The video with a byte of its own at the end of each frame, as often as it takes for another rate.
fn at_rate(mark: u8, times: usize) -> Clip {
    let mut writer = VideoWriter::ivf(VideoCodec::Vp8);
    let mut file = writer.header();
    for (number, frame) in frames(VP8, 4096).iter().enumerate() {
        let mut bytes = frame.payload.to_vec();
        bytes.extend(vec![mark; times]);
        writer.write(number as u64 * 6000, &bytes, &mut file);
    }
    Clip::parse(&file, INTERVAL).unwrap()
}

#[test]
fn files_are_changed_at_key_frames_and_jumps_lead_to_one() {
    let ladder = Ladder::new(vec![at_rate(2, 2000), at_rate(1, 1)]).unwrap();
    let rates: Vec<_> = ladder.rates().map(DataRate::as_bps).collect();
    // 382 B a frame, and 2000 B more, 15 times a second.
    assert!((45_000..47_000).contains(&rates[0]) && (285_000..287_000).contains(&rates[1]), "{rates:?}");
    let mut due = Timestamp::ZERO + TimeDelta::from_seconds(1);
    let mut source = FileSource::new(ladder, due);
    // The file and the key frames of the next frames; they follow each other at their times.
    let mut next = |source: &mut FileSource, count: usize| {
        let mut seen = Vec::new();
        for _ in 0..count {
            assert_eq!(source.poll_frame(due - TimeDelta::from_nanos(1)), None);
            let frame = source.poll_frame(due).unwrap();
            assert_eq!(frame.captured, due);
            seen.push((*frame.payload.to_vec().last().unwrap(), frame.key));
            let step = source.next_frame_at().unwrap() - due;
            assert!((66_000_000..67_000_000).contains(&step.as_nanos()), "{step}");
            due += step;
        }
        seen
    };
    assert_eq!(next(&mut source, 2), [(1, true), (1, false)]);
    source.set_target(Timestamp::ZERO, DataRate::from_bps(400_000));
    let seen = next(&mut source, 14);
    assert!(seen[..13].iter().all(|frame| *frame == (1, false)), "{seen:?}");
    assert_eq!(seen[13], (2, true));
    // Far below its rate: the next frame is the next key frame, which is the first after the end.
    source.set_target(Timestamp::ZERO, DataRate::from_bps(60_000));
    assert_eq!(next(&mut source, 2), [(1, true), (1, false)]);
    source.request_key_frame(Timestamp::ZERO);
    assert_eq!(next(&mut source, 1), [(1, true)]);
    // A skipped frame is given again.
    source.on_skipped(Timestamp::ZERO);
    assert_eq!(next(&mut source, 2), [(1, true), (1, false)]);
    // A source that is asked late does not make up for the time.
    let late = source.next_frame_at().unwrap() + TimeDelta::from_seconds(3);
    assert_eq!(source.poll_frame(late).unwrap().captured, late);
    assert_eq!(source.poll_frame(late), None);
}

/// 30 frames of H.264 of 1000 B, of which each second has slices that are no reference (ITU-T H.264 §7.4.1), after a key frame.
fn layered() -> Clip {
    let unit = |first: u8, length: usize| [&[0, 0, 1, first, 0x9a][..], &vec![0xaa; length - 5]].concat();
    let frame = |number| match number {
        0 => [unit(0x67, 10), unit(0x68, 10), unit(0x65, 980)].concat(),
        number if number % 2 == 1 => unit(0x01, 1000),
        _ => unit(0x41, 1000),
    };
    let file: Vec<u8> = (0..30).flat_map(frame).collect();
    Clip::parse(&file, INTERVAL).unwrap()
}

#[test]
fn frames_to_which_none_refers_are_left_out_first() {
    let ladder = Ladder::new(vec![layered()]).unwrap();
    let all = ladder.rates().next().unwrap().as_bps();
    // 15 frames a second of 1000 B, and half of them.
    assert!((119_000..=121_000).contains(&all), "{all}");
    assert_eq!((ladder.limits().min().as_bps() * 2).abs_diff(all) / 1000, 0);
    let mut source = FileSource::new(ladder, Timestamp::ZERO);
    // The rate of ten rounds of the file, and the frames among them that can be left out.
    let play = |source: &mut FileSource, rate: u64| {
        source.set_target(Timestamp::ZERO, DataRate::from_bps(rate));
        let begin = source.next_frame_at().unwrap();
        let (mut bytes, mut extra) = (0, 0);
        let mut due = begin;
        while due - begin < INTERVAL * 299 {
            let frame = source.poll_frame(due).unwrap();
            assert_eq!(frame.captured, due);
            let payload = frame.payload.to_vec();
            bytes += payload.len();
            extra += usize::from(payload[3] == 1);
            let step = source.next_frame_at().unwrap() - due;
            assert!((INTERVAL..=INTERVAL * 2).contains(&step), "{step}");
            due += step;
        }
        (bytes as f64 * 8.0 / (due - begin).as_seconds(), extra)
    };
    for (target, kept) in [(all, 150), (all * 3 / 4, 75), (all * 11 / 20, 15), (all / 4, 0)] {
        let (rate, extra) = play(&mut source, target);
        assert!(extra.abs_diff(kept) <= 1, "{target}: {extra}");
        let expected = target.clamp(all / 2, all) as f64;
        assert!((rate / expected - 1.0).abs() < 0.02, "{rate} {expected}");
    }
    // A skipped frame is given again only if others refer to it.
    source.set_target(Timestamp::ZERO, DataRate::from_bps(all));
    let next = |source: &mut FileSource| {
        let due = source.next_frame_at().unwrap();
        source.poll_frame(due).unwrap().payload.to_vec()[3]
    };
    let mut before = 0;
    while before != 1 {
        before = next(&mut source);
    }
    source.on_skipped(Timestamp::ZERO);
    let needed = next(&mut source);
    assert_ne!(needed, 1);
    source.on_skipped(Timestamp::ZERO);
    assert_eq!(next(&mut source), needed);
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let h264 = |interval| Clip::parse(H264, interval).unwrap();
    let error = |files| Ladder::new(files).unwrap_err().to_string();
    assert!(error(vec![at_rate(1, 1), h264(INTERVAL)]).contains("file 2 is H.264, the first is VP8"));
    assert!(error(vec![h264(INTERVAL), h264(INTERVAL * 2)]).contains("file 2 has a frame every"));
    assert!(error(Vec::new()).contains("no file"));
}
