//! Frames of an encoder that runs beside the session, and the commands that it receives.

use std::collections::VecDeque;

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{VideoCodec, VideoFrame, VideoSource};
use crate::media::{Frame, RateRange};

/// Minimum time between two rate commands. Chosen by us: about three frames, and the interval of feedback.
pub const RATE_INTERVAL: TimeDelta = TimeDelta::from_millis(100);
/// A rate is sent if it differs from the last one by at least this share. Chosen by us.
pub const RATE_STEP: f64 = 0.02;
/// Frames that wait for their times; an encoder that is faster waits until they have left. Chosen by us.
const MAX_WAITING: usize = 4;
/// How much earlier than its time, as counted from the first frame, a frame may leave: the first one took longest. Chosen by us.
const EARLIEST: TimeDelta = TimeDelta::from_millis(250);
/// A frame that is later than this moves the times of all that follow. Chosen by us.
const LATEST: TimeDelta = TimeDelta::from_seconds(1);
/// Time for which frames may be read ahead of the frame rate, where the container has no times. Chosen by us.
const AHEAD: TimeDelta = TimeDelta::from_millis(100);
/// A key frame that does not come is requested again after this time, and no longer awaited after three of them. Chosen by us.
const KEY_FRAME_INTERVAL: TimeDelta = TimeDelta::from_seconds(1);
/// Interval at which the encoder's output is looked at. Chosen by us: a small part of a frame's time.
const LOOK: TimeDelta = TimeDelta::from_millis(2);

/// A command for an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncoderCommand {
    /// The session has begun: the video may begin.
    Start,
    /// Produce this rate from now on, headers not included.
    Rate(DataRate),
    /// Make the next frame a key frame.
    KeyFrame,
}

impl std::fmt::Display for EncoderCommand {
    /// The line that a program reads, without the end of the line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::Rate(rate) => write!(f, "bitrate {}", rate.as_bps()),
            Self::KeyFrame => f.write_str("key-frame"),
        }
    }
}

/// Whether other frames may refer to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Reference,
    Droppable,
}

giusto_units::defaults! {
    /// The frames of a running encoder, each at its time: never faster than their times by the container, or than the frame rate where it
    /// has none.
    ///
    /// While [`wants_input`](Self::wants_input), pass frames in with [`push`](Self::push). After each call, send the commands of
    /// [`poll_command`](Self::poll_command).
    #[derive(Debug, Clone)]
    pub struct LiveVideo {
        codec: VideoCodec = codec,
        limits: RateRange = limits,
        clock: FrameClock = FrameClock::new(interval),
        waiting: VecDeque<(Frame, Role)> = VecDeque::new(),
        /// That of the frame which was polled last.
        role: Role = Role::Reference,
        looked_at: Timestamp = Timestamp::ZERO,
        has_ended: bool = false,
        is_started: bool = false,
        wanted: DataRate = limits.min(),
        /// The last rate that was sent, and when.
        sent_rate: Option<(Timestamp, DataRate)> = None,
        wants_key: bool = false,
        /// Frames that refer to a skipped one are not sent: since when a key frame is awaited, and when it was requested last.
        awaits_key: Option<(Timestamp, Timestamp)> = None,
        dropped: u64 = 0,
    }
    /// An encoder with these rates. Frames of containers without times follow each other by at least about `interval`.
    pub fn new(codec: VideoCodec, limits: RateRange, interval: TimeDelta);
}

impl LiveVideo {
    /// Whether a frame can be passed in.
    pub fn wants_input(&self) -> bool {
        self.waiting.len() < MAX_WAITING
    }

    /// Takes a frame that the encoder had finished at `at`.
    pub fn push(&mut self, at: Timestamp, frame: VideoFrame) {
        if frame.key {
            self.awaits_key = None;
        }
        if self.awaits_key.is_some() {
            self.dropped += 1;
            return;
        }
        let (captured, media_timestamp) = self.clock.on_frame(at, frame.time);
        let VideoFrame { payload, key, droppable, .. } = frame;
        let role = if droppable { Role::Droppable } else { Role::Reference };
        self.waiting.push_back((Frame { captured, media_timestamp, payload, key }, role));
    }

    /// The encoder has ended: no more frames are passed in.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Whether the encoder has ended and all its frames were taken.
    pub fn is_done(&self) -> bool {
        self.has_ended && self.waiting.is_empty()
    }

    /// Frames that were dropped because they refer to one that was skipped.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The next command for the encoder, if any.
    pub fn poll_command(&mut self, now: Timestamp) -> Option<EncoderCommand> {
        if !std::mem::replace(&mut self.is_started, true) {
            return Some(EncoderCommand::Start);
        }
        let due = self.sent_rate.is_none_or(|(at, sent)| {
            let change = self.wanted.as_bps().abs_diff(sent.as_bps()) as f64;
            now.saturating_since(at) >= RATE_INTERVAL && change >= sent.as_bps() as f64 * RATE_STEP
        });
        if due && self.sent_rate.is_none_or(|(_, sent)| sent != self.wanted) {
            self.sent_rate = Some((now, self.wanted));
            return Some(EncoderCommand::Rate(self.wanted));
        }
        if let Some((since, last)) = &mut self.awaits_key
            && now.saturating_since(*last) >= KEY_FRAME_INTERVAL
        {
            *last = now;
            self.wants_key = true;
            if now.saturating_since(*since) >= KEY_FRAME_INTERVAL * 3 {
                self.awaits_key = None;
            }
        }
        std::mem::take(&mut self.wants_key).then_some(EncoderCommand::KeyFrame)
    }
}

impl VideoSource for LiveVideo {
    fn codec(&self) -> VideoCodec {
        self.codec
    }

    fn limits(&self) -> RateRange {
        self.limits
    }

    fn next_frame_at(&self) -> Option<Timestamp> {
        match self.waiting.front() {
            Some((frame, _)) if !self.wants_input() => Some(frame.captured.max(self.looked_at)),
            Some((frame, _)) => Some(frame.captured.max(self.looked_at).min(self.looked_at + LOOK)),
            None => (!self.has_ended).then_some(self.looked_at + LOOK),
        }
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        self.looked_at = self.looked_at.max(now);
        self.waiting.front().filter(|(frame, _)| frame.captured <= now)?;
        let (frame, role) = self.waiting.pop_front()?;
        self.role = role;
        Some(frame)
    }

    fn set_target(&mut self, _: Timestamp, rate: DataRate) {
        self.wanted = self.limits.clamp(rate);
    }

    fn request_key_frame(&mut self, _: Timestamp) {
        self.wants_key = true;
    }

    fn on_skipped(&mut self, now: Timestamp) {
        if self.role == Role::Droppable {
            return;
        }
        self.wants_key = true;
        self.awaits_key.get_or_insert((now, now));
        let next_key = self.waiting.iter().position(|(frame, _)| frame.key);
        let useless = self.waiting.drain(..next_key.unwrap_or(self.waiting.len())).count();
        self.dropped += useless as u64;
        if next_key.is_some() {
            self.awaits_key = None;
        }
    }
}

/// The capture times of frames: from their times by the container and their arrivals.
#[derive(Debug, Clone)]
struct FrameClock {
    interval: TimeDelta,
    /// A frame's time plus this is its capture time; the least that this may become.
    base: Option<(TimeDelta, TimeDelta)>,
    /// A frame's time plus this counts from the first frame.
    shift: TimeDelta,
    /// The latest frame: its time by the container, its capture time, and its time from the first frame.
    latest: Option<(TimeDelta, Timestamp, TimeDelta)>,
    /// When a frame would be due by the frame rate alone.
    expected: Option<Timestamp>,
}

impl FrameClock {
    const fn new(interval: TimeDelta) -> Self {
        Self { interval, base: None, shift: TimeDelta::ZERO, latest: None, expected: None }
    }

    /// The capture time of a frame that was read at `at`, and its RTP timestamp.
    fn on_frame(&mut self, at: Timestamp, time: Option<TimeDelta>) -> (Timestamp, u32) {
        let captured = match time {
            Some(time) => self.by_container(at, time),
            None => self.by_rate(at),
        };
        // Both rise: a receiver distinguishes frames by their timestamps.
        let least = TimeDelta::from_millis(1);
        let captured = self.latest.map_or(captured, |(_, before, _)| captured.max(before + least));
        let since = match (time, self.latest) {
            (_, None) => TimeDelta::ZERO,
            (Some(time), Some((.., before))) => (time + self.shift).max(before + least),
            (None, Some((_, last, before))) => before + (captured - last),
        };
        self.latest = Some((time.unwrap_or_default(), captured, since));
        (captured, super::media_timestamp(Timestamp::ZERO, Timestamp::ZERO + since))
    }

    fn by_container(&mut self, at: Timestamp, time: TimeDelta) -> Timestamp {
        let offset = (at - Timestamp::ZERO) - time;
        let fresh = (offset, offset - EARLIEST);
        let (base, least) = *self.base.get_or_insert(fresh);
        let goes_back = self.latest.is_some_and(|(before, ..)| time <= before);
        if let Some((_, captured, since)) = self.latest
            && (goes_back || offset - base > LATEST)
        {
            self.base = Some(fresh);
            // A stream that begins again goes on after its last frame; one that stood still, after the time that has passed.
            let step = (at - captured).max(if goes_back { self.interval } else { TimeDelta::ZERO });
            self.shift = since + step - time;
            return captured + step;
        }
        if self.latest.is_none() {
            self.shift = TimeDelta::ZERO - time;
        }
        let base = offset.min(base).max(least);
        self.base = Some((base, least));
        Timestamp::ZERO + (base + time)
    }

    fn by_rate(&mut self, at: Timestamp) -> Timestamp {
        let expected = self.expected.unwrap_or(at);
        let captured = at.max(expected - AHEAD);
        self.expected = Some(captured.max(expected) + self.interval);
        captured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: TimeDelta = TimeDelta::from_millis(1);

    fn at(ms: i64) -> Timestamp {
        Timestamp::ZERO + MILLI * ms
    }

    fn frame(key: bool, ms: Option<i64>) -> VideoFrame {
        VideoFrame { payload: vec![0; 100].into(), key, droppable: false, time: ms.map(|ms| MILLI * ms) }
    }

    fn live() -> LiveVideo {
        let limits = RateRange::new(DataRate::from_bps(100_000), DataRate::from_bps(2_000_000)).unwrap();
        LiveVideo::new(VideoCodec::Vp8, limits, MILLI * 40)
    }

    fn commands(live: &mut LiveVideo, now: i64) -> Vec<String> {
        std::iter::from_fn(|| live.poll_command(at(now))).map(|command| command.to_string()).collect()
    }

    #[test]
    fn frames_of_a_live_encoder_leave_at_once_with_their_own_times() {
        let mut live = live();
        // The first frame took 60 ms, the others 35 to 50 ms.
        let read = [(1060, 0), (1075, 40), (1130, 80), (1160, 120)];
        let given = read.map(|(arrival, time)| {
            live.push(at(arrival), frame(time == 0, Some(time)));
            let frame = live.poll_frame(at(arrival)).expect("it is not early");
            (frame.captured, frame.media_timestamp)
        });
        // The second was the fastest: times count from it.
        let expected = [(at(1060), 0), (at(1075), 3600), (at(1115), 7200), (at(1155), 10_800)];
        assert_eq!(given, expected);
    }

    /// Frames read and given in 2 s of an encoder that is as fast as it may be, with or without times.
    fn in_two_seconds(timed: bool) -> (i64, i64) {
        let mut live = live();
        let (mut read, mut given) = (0, 0);
        for now in 1000..3000 {
            while live.wants_input() {
                live.push(at(now), frame(read == 0, timed.then_some(read * 40)));
                read += 1;
            }
            given += std::iter::from_fn(|| live.poll_frame(at(now))).count() as i64;
        }
        (read, given)
    }

    #[test]
    fn a_fast_encoder_is_held_back_to_its_times() {
        let (read, given) = in_two_seconds(true);
        // 2 s are 50 frames; 250 ms ahead are 7 more.
        assert!((50..=58).contains(&given), "{given}");
        assert!(read <= given + MAX_WAITING as i64);
    }

    #[test]
    fn without_times_the_frame_rate_holds_back() {
        let (_, given) = in_two_seconds(false);
        assert!((50..=54).contains(&given), "{given}");
        // Arrivals that vary by less than 100 ms are not delayed.
        let mut live = live();
        for number in 0..50 {
            let now = 1000 + number * 40 + [0, 30, 5, 25][number as usize % 4];
            live.push(at(now), frame(number == 0, None));
            assert!(live.poll_frame(at(now)).is_some(), "{number}");
        }
    }

    #[test]
    fn times_that_go_back_or_stand_still_go_on() {
        let mut live = live();
        let mut ticks = Vec::new();
        for (now, time) in [(1000, 0), (1040, 40), (1080, 0), (1120, 40), (4000, 80), (4040, 120)] {
            live.push(at(now), frame(true, Some(time)));
            let frame = live.poll_frame(at(now)).unwrap();
            ticks.push(frame.media_timestamp / 90);
            assert_eq!(frame.captured, at(now));
        }
        assert_eq!(ticks, [0, 40, 80, 120, 3000, 3040]);
    }

    #[test]
    fn rates_are_told_rarely_and_the_last_one_always() {
        let mut live = live();
        live.set_target(at(0), DataRate::from_bps(300_000));
        assert_eq!(commands(&mut live, 0), ["start", "bitrate 300000"]);
        for ms in 1..100 {
            live.set_target(at(ms), DataRate::from_bps(300_000 + ms as u64 * 1000));
            assert!(commands(&mut live, ms).is_empty());
        }
        assert_eq!(commands(&mut live, 100), ["bitrate 399000"]);
        // Less than 2 %, and outside the limits.
        live.set_target(at(300), DataRate::from_bps(405_000));
        assert!(commands(&mut live, 300).is_empty());
        live.set_target(at(300), DataRate::from_bps(9_000_000));
        assert_eq!(commands(&mut live, 300), ["bitrate 2000000"]);
        live.request_key_frame(at(301));
        live.request_key_frame(at(301));
        assert_eq!(commands(&mut live, 301), ["key-frame"]);
    }

    #[test]
    fn after_a_skipped_frame_the_next_sent_is_a_key_frame() {
        let mut live = live();
        commands(&mut live, 0);
        for number in 0..4 {
            let frame = frame(number == 0, Some(number * 40));
            live.push(at(number * 40), VideoFrame { droppable: number == 1, ..frame });
        }
        // To the second no other refers.
        assert!(live.poll_frame(at(100)).is_some() && live.poll_frame(at(100)).is_some());
        live.on_skipped(at(100));
        assert!(commands(&mut live, 100).is_empty());
        assert!(live.poll_frame(at(120)).is_some());
        live.on_skipped(at(120));
        assert_eq!(commands(&mut live, 120), ["key-frame"]);
        live.push(at(140), frame(false, Some(140)));
        assert_eq!((live.poll_frame(at(200)), live.dropped()), (None, 2));
        assert_eq!(commands(&mut live, 1120), ["key-frame"]);
        live.push(at(1160), frame(true, Some(1160)));
        assert!(live.poll_frame(at(1200)).is_some_and(|frame| frame.key));
        // An encoder that never makes key frames goes on after 3 s.
        live.on_skipped(at(2000));
        for ms in 2000..5100 {
            commands(&mut live, ms);
        }
        live.push(at(5100), frame(false, Some(5100)));
        assert!(live.poll_frame(at(5200)).is_some());
    }
}
