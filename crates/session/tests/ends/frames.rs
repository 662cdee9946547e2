//! Frames sent at one end arrive at the other, complete and once.

use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};

use crate::prelude::*;

fn algorithm(name: &str) -> Algorithm {
    name.parse().unwrap()
}

const VIDEO: usize = 0;
const AUDIO: usize = 1;

fn mbps(mbps: u64) -> DataRate {
    DataRate::from_bps(mbps * 1_000_000)
}

fn sender(kind: Algorithm) -> MediaSender {
    let limits = RateRange::new(DataRate::from_bps(100_000), mbps(8)).unwrap();
    let streams = vec![
        MediaStream { timestamp_offset: 0xffff_fff0, ..MediaStream::video(1, 96, limits) },
        MediaStream {
            timestamp_offset: 77,
            ..MediaStream::audio(2, 111, 48_000, DataRate::from_bps(32_000))
        },
    ];
    let config = MediaSenderConfig {
        feedback: kind.requirements().feedback,
        pacer: pacer_config(kind.requirements().pacer),
        ..MediaSenderConfig::default()
    };
    let limits = Limits::DEFAULT.with_min(DataRate::from_bps(100_000)).with_start(mbps(4)).with_max(mbps(8));
    MediaSender::new(config, kind.build(limits), streams)
}

fn receiver(kind: Algorithm) -> MediaReceiver {
    let payloads = vec![
        PayloadFormat::video(96),
        PayloadFormat::audio(111, 48_000),
        PayloadFormat::padding(PADDING_TYPE),
    ];
    let config =
        MediaReceiverConfig { payloads, ..MediaReceiverConfig::new(9, "far", kind.requirements().feedback) };
    MediaReceiver::new(config).unwrap()
}

/// Probabilities of loss, duplication and reordering. The one-way delay is 30 ms, and up to 60 ms for
/// reordered datagrams.
#[derive(Debug, Clone, Copy, Default)]
struct Link {
    loss: f64,
    duplication: f64,
    reordering: f64,
    /// Whether payloads are converted to bytes, as by a socket.
    as_bytes: bool,
    /// Whether all reports of the sender are lost, as in a queue that drops what it cannot mark.
    loses_reports: bool,
}

/// A frame to push: time, stream, and bytes.
type Pushed = (Timestamp, usize, Payload);

/// Results: what was sent, and what was received.
#[derive(Debug, Default)]
struct Outcome {
    sent: Vec<(Timestamp, usize, DataSize)>,
    /// The head of each media packet.
    heads: Vec<Vec<u8>>,
    decisions: Vec<MediaEvent>,
    frames: Vec<FrameArrival>,
}

/// Pushes all frames, and runs until the last of them is delivered or dropped.
fn run(kind: Algorithm, link: Link, pushed: &[Pushed]) -> Outcome {
    let mut ends =
        [MediaEndpoint::new(Some(sender(kind)), None), MediaEndpoint::new(None, Some(receiver(kind)))];
    let mut random = StdRng::seed_from_u64(5);
    let mut flying: BTreeMap<(Timestamp, u64), (usize, Datagram)> = BTreeMap::new();
    let (mut count, mut outcome) = (0, Outcome::default());
    let mut frames = pushed.iter().peekable();
    let end = pushed.last().unwrap().0 + TimeDelta::from_seconds(20);
    loop {
        let timeouts = ends.iter().filter_map(MediaEndpoint::poll_timeout);
        let arrival = flying.first_key_value().map(|((at, _), _)| *at);
        let next = timeouts.chain(arrival).chain(frames.peek().map(|frame| frame.0)).min();
        let Some(now) = next.filter(|&next| next <= end) else { break };
        while let Some((at, stream, payload)) = frames.next_if(|frame| frame.0 <= now) {
            let clock = if *stream == VIDEO { 90 } else { 48 };
            let media_timestamp = (at.as_nanos() / 1_000_000 * clock) as u32;
            let frame = Frame { captured: *at, media_timestamp, payload: payload.clone(), key: false };
            ends[0].push_frame(now, *stream, frame).unwrap();
        }
        while let Some(entry) = flying.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, datagram) = entry.remove();
            if link.as_bytes {
                ends[to].handle_datagram(now, &datagram.to_vec(), datagram.ecn);
            } else {
                ends[to].handle_parts(now, &datagram.head, &datagram.payload, datagram.ecn);
            }
        }
        for (from, end) in ends.iter_mut().enumerate() {
            if end.poll_timeout().is_some_and(|due| due <= now) {
                end.handle_timeout(now);
            }
            while let Some(datagram) = end.poll_transmit(now) {
                outcome.sent.push((now, from, datagram.size()));
                // RFC 5761 §4: RTCP has packet types from 192 to 223.
                let is_report = from == 0 && (192..=223).contains(&datagram.head[1]);
                if from == 0 && !is_report {
                    outcome.heads.push(datagram.head.to_vec());
                }
                if (is_report && link.loses_reports) || random.random_bool(link.loss) {
                    continue;
                }
                for _ in 0..=usize::from(random.random_bool(link.duplication)) {
                    let late = if random.random_bool(link.reordering) {
                        random.random_range(0..30_000_000)
                    } else {
                        0
                    };
                    count += 1;
                    let arrival = now + TimeDelta::from_nanos(30_000_000 + late);
                    flying.insert((arrival, count), (1 - from, datagram.clone()));
                }
            }
            while let Some(event) = end.poll_event() {
                match event {
                    MediaEvent::Frame(frame) => outcome.frames.push(frame),
                    event => outcome.decisions.push(event),
                }
            }
        }
    }
    outcome
}

/// Video frames of up to 12 kB every 33 ms, and audio frames of up to 200 bytes every 20 ms, of random bytes.
fn random_frames(count: usize) -> Vec<Pushed> {
    let mut random = StdRng::seed_from_u64(1);
    let mut bytes = |max: usize| {
        let mut bytes = vec![0; random.random_range(1..=max)];
        random.fill_bytes(&mut bytes);
        Payload::from(bytes)
    };
    let video = (0..count as u64).map(|n| (ms(33 * n), VIDEO));
    let audio = (0..count as u64).map(|n| (ms(20 * n), AUDIO));
    let mut frames: Vec<_> = video.chain(audio).collect();
    frames.sort();
    frames
        .into_iter()
        .map(|(at, stream)| (at, stream, bytes(if stream == VIDEO { 12_000 } else { 200 })))
        .collect()
}

/// The pushed frame for each received frame; panics if there is none, or if it was received twice.
fn matched(pushed: &[Pushed], frames: &[FrameArrival]) -> Vec<usize> {
    let mut places = Vec::new();
    for frame in frames {
        let stream = frame.ssrc as usize - 1;
        let (offset, clock) = if stream == VIDEO { (0xffff_fff0_u32, 90) } else { (77, 48) };
        let at = ms(u64::from(frame.rtp_timestamp.wrapping_sub(offset)) / clock);
        let place = pushed.iter().position(|pushed| (pushed.0, pushed.1) == (at, stream)).unwrap();
        assert_eq!(frame.payload.to_vec(), pushed[place].2.to_vec(), "a frame has other bytes");
        assert!(!places.contains(&place), "a frame came twice");
        places.push(place);
    }
    places
}

#[test]
fn without_loss_all_frames_arrive() {
    let pushed = random_frames(200);
    for kind in [algorithm("fixed"), algorithm("gcc:libwebrtc+giusto"), algorithm("scream:v2")] {
        for link in [
            Link { as_bytes: true, ..Link::default() },
            Link { duplication: 0.3, reordering: 0.3, as_bytes: true, ..Link::default() },
        ] {
            let frames = run(kind, link, &pushed).frames;
            assert_eq!(matched(&pushed, &frames).len(), 400, "{kind}");
            // The numbers are in the order in which the frames were pushed.
            let mut video: Vec<_> = frames.iter().filter(|frame| frame.ssrc == 1).collect();
            video.sort_by_key(|frame| frame.sequence);
            let ticks = video.iter().map(|frame| frame.rtp_timestamp.wrapping_sub(0xffff_fff0));
            assert!(ticks.is_sorted());
        }
    }
}

#[test]
fn frames_over_a_bad_link_are_complete_and_unique() {
    let pushed = random_frames(200);
    for kind in [algorithm("fixed"), algorithm("gcc:libwebrtc+giusto"), algorithm("scream:v2")] {
        let link = Link { loss: 0.05, duplication: 0.1, reordering: 0.2, as_bytes: true, ..Link::default() };
        let frames = run(kind, link, &pushed).frames;
        let count = matched(&pushed, &frames).len();
        // Audio loses one frame in 20, video with five packets per frame about one in four and some following
        // frames.
        assert!((250..390).contains(&count), "{kind}: {count} of 400");
    }
}

#[test]
fn packets_contain_the_capture_time_if_no_sender_report_arrives() {
    let pushed = random_frames(400);
    // The element of nine bytes, and the header of the extension if there was none (RFC 8285 §4.2), padded to words.
    for (name, more) in [("scream:v2", 16), ("gcc:libwebrtc", 8), ("gcc:remb", 12), ("nada", 12)] {
        let without =
            run(algorithm(name), Link { loses_reports: true, as_bytes: true, ..Link::default() }, &pushed);
        let with = run(algorithm(name), Link { as_bytes: true, ..Link::default() }, &pushed);
        let plain = with.heads[0].len();
        assert!(with.heads.iter().all(|head| head.len() == plain), "{name}");
        let timed: Vec<_> = without.heads.iter().filter(|head| head.len() > plain).collect();
        assert!(timed.iter().all(|head| head.len() == plain + more), "{name}");
        // 13 s with a report each second, of which every second one leads to a packet of each stream.
        assert!((6..=14).contains(&timed.len()), "{name}: {}", timed.len());
        // Frames have a delay from the first sender report on, without it after two reports, at 0.5 and 1.5 s, and a frame.
        assert!(with.frames.iter().all(|frame| frame.delay.is_some() || frame.at < ms(100)), "{name}");
        for frame in &without.frames {
            let captured = pushed[matched(&pushed, std::slice::from_ref(frame))[0]].0;
            let expected = (frame.at - captured).as_nanos();
            match frame.delay {
                Some(delay) => {
                    assert!((delay.as_nanos() - expected).abs() < 25_000, "{name}: {delay} {expected}");
                }
                None => assert!(captured < ms(1_700), "{name}: {captured:?}"),
            }
        }
        assert!(without.frames.iter().any(|frame| frame.delay.is_none()), "{name}");
    }
}

fn frame(payload: Payload) -> Frame {
    Frame { captured: ms(0), media_timestamp: 0, payload, key: true }
}

fn zeros(bytes: u64) -> Payload {
    Payload::zeros(DataSize::from_bytes(bytes))
}

#[test]
fn frames_that_do_not_fit_are_rejected() {
    let mut sender = sender(algorithm("fixed"));
    let mut push = |stream, size| sender.push_frame(ms(0), stream, frame(zeros(size)));
    assert_eq!(push(2, 10), Err(FrameError::NoStream(2)));
    assert_eq!(push(VIDEO, 0), Err(FrameError::Empty));
    let size = DataSize::from_bytes(1201);
    assert_eq!(push(AUDIO, 1201), Err(FrameError::TooLarge { size, max: DataSize::from_bytes(1200) }));
    let size = MAX_FRAME_SIZE + DataSize::from_bytes(1);
    assert_eq!(push(VIDEO, size.as_bytes()), Err(FrameError::TooLarge { size, max: MAX_FRAME_SIZE }));
    assert_eq!(push(VIDEO, 1201), Ok(()));
    sender.stop(ms(1));
    assert_eq!(sender.push_frame(ms(1), VIDEO, frame(zeros(1))), Err(FrameError::Stopped));
}

#[test]
fn a_sender_that_is_closed_sends_what_is_queued() {
    // gcc pads and probes at the start of a call.
    let mut sender = sender(algorithm("gcc:libwebrtc"));
    sender.push_frame(ms(0), VIDEO, frame(zeros(30_000))).unwrap();
    sender.close();
    assert_eq!(sender.push_frame(ms(0), VIDEO, frame(zeros(100))), Err(FrameError::Stopped));
    let (mut sent, mut now) = (DataSize::ZERO, ms(0));
    while let Some(at) = sender.poll_timeout().filter(|&at| at < ms(500)) {
        now = at.max(now);
        sender.handle_timeout(now);
        while let Some(datagram) = sender.poll_transmit(now) {
            // Reports have none.
            sent += datagram.payload.size();
            assert!(datagram.payload.size() == DataSize::ZERO || datagram.head[1] & 0x7f == 96);
        }
        now += TimeDelta::from_micros(1);
    }
    assert_eq!((sent.as_bytes(), sender.queue(now).size), (30_000, DataSize::ZERO));
    sender.stop(now);
    assert_eq!(sender.poll_transmit(now).map(|bye| bye.head[1]), Some(200), "a report and the BYE");
}

#[test]
fn a_pushed_frame_is_sent_without_a_timeout() {
    let mut sender = sender(algorithm("fixed"));
    assert!(sender.wants_frame(ms(0), VIDEO));
    sender.push_frame(ms(0), VIDEO, frame(Payload::from(vec![7; 100]))).unwrap();
    let datagram = sender.poll_transmit(ms(0)).unwrap();
    assert_eq!(datagram.to_vec()[datagram.head.len()..], [7; 100]);
    assert_eq!(datagram.ecn, Ecn::NotEct);
    assert!(sender.stream_target(VIDEO).unwrap() > mbps(3));
    assert_eq!(sender.stream_target(2), None);
}

/// 1 Mbit/s. After 100 ms, one frame in three is to be dropped.
#[derive(Debug, Clone, Default)]
struct Dropping {
    decision: Decision,
    now: Timestamp,
}

impl Controller for Dropping {
    fn on_sent(&mut self, _: Timestamp, _: &SentPacket) {}
    fn on_feedback(&mut self, _: Timestamp, _: &Feedback<'_>) {}
    fn set_limits(&mut self, _: Timestamp, _: Limits) {}
    fn on_route_change(&mut self, _: Timestamp) {}

    fn on_timeout(&mut self, now: Timestamp, _: &QueueState) {
        self.now = now;
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        (self.now < ms(100)).then(|| ms(100))
    }

    fn target(&self) -> Target {
        Target::new(mbps(1), mbps(1))
    }

    fn frame_drop_interval(&self) -> Option<u32> {
        (self.now >= ms(100)).then_some(3)
    }

    fn decision(&self) -> &Decision {
        &self.decision
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[test]
fn a_controller_drops_video_frames_but_no_audio() {
    let limits = RateRange::new(DataRate::from_bps(100_000), mbps(8)).unwrap();
    let audio = MediaStream::audio(2, 111, 48_000, DataRate::from_bps(32_000));
    let streams = vec![MediaStream::video(1, 96, limits), audio];
    let controller = Box::new(Dropping::default());
    let mut sender = MediaSender::new(MediaSenderConfig::default(), controller, streams);
    let wanted: Vec<_> = (0..11_u32)
        .map(|n| {
            let at = ms(33 * u64::from(n));
            sender.handle_timeout(at);
            assert!(sender.wants_frame(at, AUDIO));
            let wanted = sender.wants_frame(at, VIDEO);
            assert_eq!(sender.wants_frame(at, VIDEO), wanted, "asking twice changes nothing");
            if wanted {
                let payload = Payload::from(vec![7; 100]);
                let frame = Frame { captured: at, media_timestamp: 3000 * n, payload, key: false };
                sender.push_frame(at, VIDEO, frame).unwrap();
            } else {
                sender.skip_frame(at, VIDEO);
            }
            wanted
        })
        .collect();
    // Frames before do not count: the first one that may be dropped is dropped, as in libwebrtc.
    assert_eq!(wanted[..4], [true; 4]);
    assert_eq!(wanted[4..], [false, true, true, false, true, true, false]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Zeros and bytes of the same sizes give the same datagrams, times and decisions.
    #[test]
    fn zeros_behave_like_bytes(
        kind in prop::sample::select(Algorithm::all().collect::<Vec<_>>()),
        sizes in prop::collection::vec(1_usize..9000, 10..60),
        (loss, duplication, reordering) in (0.0..0.2, 0.0..0.2, 0.0..0.2),
    ) {
        let frames = |payload: &dyn Fn(usize) -> Payload| -> Vec<Pushed> {
            let frame = |(n, &size): (usize, &usize)| (ms(33 * n as u64), VIDEO, payload(size));
            sizes.iter().enumerate().map(frame).collect()
        };
        let zeros = frames(&|size| zeros(size as u64));
        let bytes = frames(&|size| Payload::from(vec![0xa5; size]));
        let link = Link { loss, duplication, reordering, ..Link::default() };
        let (light, heavy) = (run(kind, link, &zeros), run(kind, Link { as_bytes: true, ..link }, &bytes));
        prop_assert_eq!(light.sent, heavy.sent);
        prop_assert_eq!(light.decisions, heavy.decisions);
        prop_assert_eq!(light.frames.len(), heavy.frames.len());
        for (light, heavy) in light.frames.iter().zip(&heavy.frames) {
            prop_assert_eq!((light.ssrc, light.sequence, light.at, light.delay), (heavy.ssrc, heavy.sequence, heavy.at, heavy.delay));
            prop_assert_eq!((light.packets, light.payload.len()), (heavy.packets, heavy.payload.len()));
            prop_assert!(light.payload.as_bytes().is_none());
            prop_assert!(heavy.payload.to_vec().iter().all(|&byte| byte == 0xa5));
        }
    }
}
