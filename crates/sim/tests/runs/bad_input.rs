//! Tests with abnormal sources, clocks, links and values.

use giusto_congestion::{Algorithm, Limits};
use giusto_session::media::{Frame, MediaEvent, Payload, RateRange};
use giusto_sim::traffic::encoder::MediaSource;
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::link::{Run, UDP, algorithm, at, audio, kbps, limited, millis, rtp, stream, video};

const SCREAM: [&str; 3] = ["scream:rfc8298+giusto", "scream:d00+giusto", "scream:v2"];

fn limits() -> Limits {
    Limits::DEFAULT.with_min(kbps(100)).with_start(kbps(500)).with_max(kbps(5000))
}

/// A source that returns frames as the test specifies.
#[derive(Debug)]
struct Odd {
    due: Option<Timestamp>,
    /// Size and interval of its frames; without it no frame is ever returned.
    frames: Option<(u64, TimeDelta)>,
    count: u64,
}

impl MediaSource for Odd {
    fn next_frame_at(&self) -> Option<Timestamp> {
        self.due
    }
    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        let (bytes, interval) = self.frames?;
        let captured = self.due.filter(|&due| due <= now)?;
        self.due = Some(now + interval);
        self.count += 1;
        let media_timestamp = self.count as u32 * 3000;
        let payload = Payload::zeros(DataSize::from_bytes(bytes));
        Some(Frame { captured, media_timestamp, payload, key: false })
    }
    fn set_target(&mut self, _: Timestamp, _: DataRate) {}
    fn target(&self) -> DataRate {
        kbps(100)
    }
    fn limits(&self) -> RateRange {
        RateRange::new(kbps(100), kbps(2000)).unwrap()
    }
    fn request_key_frame(&mut self, _: Timestamp) {}
    fn set_paused(&mut self, _: Timestamp, _: bool) {}
}

#[test]
fn a_source_without_frames_does_not_stop_another() {
    for due in [None, Some(Timestamp::ZERO), Some(at(1500)), Some(Timestamp::MAX)] {
        let never = || stream(7, Odd { due, frames: None, count: 0 });
        for streams in [vec![never(), video(2, 1.0, 100, 1000)], vec![video(2, 1.0, 100, 1000), never()]] {
            let mut run = Run::of(algorithm("scream:v2"), limits(), streams);
            run.until(at(5000));
            assert!((145..=151).contains(&run.received(2).frames), "{due:?}: {:?}", run.received(2));
            assert_eq!(run.received(7).packets, 0);
        }
    }
}

#[test]
fn a_frame_much_larger_than_the_window_is_sent() {
    for kind in SCREAM.map(algorithm) {
        let huge =
            Odd { due: Some(at(1000)), frames: Some((1_000_000, TimeDelta::from_seconds(20))), count: 0 };
        let mut run = Run::of(kind, limits(), vec![stream(7, huge), video(2, 1.0, 100, 300)]);
        run.rate = kbps(4000);
        run.until(at(20_000));
        let (huge, other) = (run.received(7), run.received(2));
        let figures = run.figures(0);
        assert!(huge.packets + figures.discarded_packets >= 800, "{kind}: {huge:?} {figures:?}");
        // The other stream gets half of the sent data, which is more than it produces.
        assert!(other.frames > 550, "{kind}: {other:?}");
        let late = run.events[1].iter().filter_map(|event| match event {
            MediaEvent::Frame(frame) if frame.ssrc == 2 => frame.delay,
            _ => None,
        });
        assert!(late.max().unwrap() < millis(500), "{kind}");
    }
}

#[test]
fn without_feedback_nothing_locks_up() {
    for kind in SCREAM.map(algorithm) {
        let discarding = limited(video(2, 1.0, 100, 1000), Some(millis(200)), Some(millis(1000)));
        let mut run = Run::of(kind, limits(), vec![audio(1), discarding, video(3, 1.0, 100, 1000)]);
        run.feedback = false;
        run.until(at(70_000));
        let before = [0, 1, 2].map(|stream| run.figures(stream).packets);
        run.until(at(200_000));
        let sent = [0, 1, 2].map(|stream| run.figures(stream).packets - before[stream]);
        assert!((6490..=6510).contains(&sent[0]), "{kind}: audio is not delayed");
        assert!(sent[1] > 10 && sent[2] > 10, "{kind}: {sent:?}");
        assert!(run.oldest <= millis(10_100), "{kind}: {:?}", run.oldest);
        let (skipped, discarded) = run.skipped_and_discarded(2);
        assert_eq!((skipped, discarded), (run.figures(1).skipped_frames, run.figures(1).discarded_packets));
        // It recovers afterwards.
        run.feedback = true;
        run.until(at(300_000));
        let frames = run.received(2).frames;
        run.until(at(310_000));
        assert!(run.received(2).frames - frames > 250, "{kind}: {}", run.received(2).frames - frames);
    }
}

#[test]
fn clock_jumps_of_an_hour_are_tolerated() {
    for kind in Algorithm::all() {
        let streams = vec![
            audio(1),
            limited(video(2, 1.0, 100, 1000), Some(millis(100)), Some(millis(500))),
            video(3, 1.0, 100, 1000),
        ];
        let mut run = Run::of(kind, limits(), streams);
        run.until(at(5000));
        run.now += TimeDelta::from_seconds(3600);
        let now = run.now;
        run.until(now + TimeDelta::from_seconds(5));
        let sent: usize = run.sent.iter().filter(|(at, _)| *at >= now).count();
        assert!((250..20_000).contains(&sent), "{kind}: {sent}");
        // A clock that runs backwards stands still until it reaches its former value.
        for millis in [0, 3_000_000, 1_000_000] {
            run.ends[0].handle_timeout(at(millis));
            while run.ends[0].poll_transmit(at(millis)).is_some() {}
            let report = [0x80, 201, 0, 1, 0, 0, 0, 9];
            run.ends[0].handle_parts(at(millis), &report, &Payload::default(), Ecn::NotEct);
            assert!(run.ends[0].poll_timeout().unwrap() > now, "{kind}");
        }
        let frames = run.received(2).frames;
        let end = run.now + TimeDelta::from_seconds(20);
        run.until(end);
        assert!(run.received(2).frames - frames > 500, "{kind}: {}", run.received(2).frames - frames);
        assert!(run.figures(1).queue.oldest < millis(1000));
    }
}

#[test]
fn zero_and_fifty_streams_work() {
    for kind in Algorithm::all() {
        let mut run = Run::of(kind, limits(), Vec::new());
        run.until(at(5000));
        run.ends[0].set_paused(run.now, 3, true);
        assert_eq!(run.sender().figures(run.now).count(), 0);
        assert!(run.sent.iter().all(|(_, datagram)| rtp(datagram).is_some()), "{kind}");

        let streams = (1..=50).map(|ssrc| video(ssrc, 1.0, 20, 1000)).collect();
        let mut run = Run::of(kind, limits(), streams);
        run.rate = kbps(10_000);
        run.until(at(10_000));
        let figures: Vec<_> = run.sender().figures(run.now).collect();
        let packets: Vec<u64> = figures.iter().map(|figures| figures.packets).collect();
        let (min, max) = (packets.iter().min().unwrap(), packets.iter().max().unwrap());
        // With the draft's feedback each source takes its own message, within 75 kbit/s in total. Each is
        // reported fewer than four times per second, and the window waits for the reports.
        let enough = if kind.name().starts_with("scream:d00") { 100 } else { 200 };
        assert!(*min >= enough && max - min <= 40, "{kind}: {packets:?}");
    }
}

#[test]
fn invalid_priorities_are_tolerated() {
    let odd = [1e9, 1e-9, f64::NAN, f64::INFINITY, f64::MAX, 0.0, -1.0, f64::MIN_POSITIVE];
    for kind in [algorithm("scream:v2"), algorithm("gcc:libwebrtc+giusto")] {
        let streams = odd.iter().zip(1..).map(|(&priority, ssrc)| video(ssrc, priority, 50, 5000));
        let mut run = Run::of(kind, limits(), streams.collect());
        run.rate = kbps(2000);
        run.until(at(20_000));
        let frames: Vec<u64> = (1..=8).map(|ssrc| run.received(ssrc).frames).collect();
        assert!(frames.iter().all(|&frames| frames > 200), "{kind}: each gets its minimum rate: {frames:?}");

        let two = vec![video(1, 1e9, 50, 5000), video(2, 1e-9, 50, 5000)];
        let mut run = Run::of(kind, limits(), two);
        run.rate = kbps(1000);
        run.until(at(20_000));
        let bytes = run.bytes(&[1, 2], at(40_000));
        let rates = [bytes[0] * 8.0 / 20e3, bytes[1] * 8.0 / 20e3];
        assert!(rates[0] > 400.0 && (40.0..70.0).contains(&rates[1]), "{kind}: {rates:?} kbit/s");
    }
}

#[test]
fn minimum_rates_above_the_link_rate_are_tolerated() {
    for kind in SCREAM.map(algorithm) {
        let streams =
            [1, 2, 3].map(|ssrc| limited(video(ssrc, 1.0, 500, 1000), Some(millis(200)), Some(millis(1000))));
        let mut run = Run::of(kind, limits(), streams.into());
        run.rate = kbps(400);
        run.until(at(60_000));
        assert!(run.oldest <= millis(1001), "{kind}: {:?}", run.oldest);
        let before = [1, 2, 3].map(|ssrc| run.received(ssrc).frames);
        assert!(before.iter().all(|&frames| frames > 100), "{kind}: {before:?}");
        assert!([0, 1, 2].iter().all(|&stream| run.figures(stream).skipped_frames > 600), "{kind}");
        // The link can carry the rate again.
        run.rate = kbps(6000);
        run.until(at(90_000));
        let skipped = [0, 1, 2].map(|stream| run.figures(stream).skipped_frames);
        let frames = [1, 2, 3].map(|ssrc| run.received(ssrc).frames);
        run.until(at(100_000));
        for index in 0..3 {
            let more = run.received(index as u32 + 1).frames - frames[index];
            assert!(more > 290, "{kind}: {more} frames in 10 s");
            assert!(run.figures(index).skipped_frames - skipped[index] <= 3, "{kind}");
        }
    }
}

#[test]
fn without_feedback_the_minimum_rate_is_sent() {
    // The minimum window per interval, plus two packets of 1248 bytes when packets sent a minute ago are
    // discarded. Three packets per 480 ms; for the second version per 500 ms three windows of 3000 bytes,
    // which it permits in flight.
    let max = |window: f64, interval: f64| (window + 2.0 * 1248.0) * 8.0 / interval;
    for (kind, max) in SCREAM.into_iter().zip([max(3744.0, 480.0), max(3744.0, 480.0), max(9000.0, 500.0)]) {
        // Two sources with a minimum of 1 Mbit/s in total, for five minutes.
        let limits = Limits::DEFAULT.with_min(kbps(1000)).with_start(kbps(2000)).with_max(kbps(5000));
        let mut run =
            Run::of(algorithm(kind), limits, vec![video(2, 1.0, 500, 2000), video(3, 1.0, 500, 2000)]);
        run.until(at(5000));
        run.feedback = false;
        run.until(at(300_000));
        for second in (20..300).step_by(10) {
            let (from, until) = (at(second * 1000), at(second * 1000 + 10_000));
            let sent = run.sent.iter().filter(|(at, _)| (from..until).contains(at));
            let bytes: u64 = sent.map(|(_, datagram)| (datagram.size() + UDP).as_bytes()).sum();
            let rate = bytes as f64 * 8.0 / 10e3;
            assert!((50.0..=max).contains(&rate), "{kind}: {rate} kbit/s from second {second}");
        }
    }
}
