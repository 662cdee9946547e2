//! One video of several encodings that a browser sends at once (simulcast, RFC 8853): at each time the best that arrives whole.

use std::collections::{BTreeMap, VecDeque};

use giusto_session::{
    media::FrameArrival,
    video::{Arrivals, OrderedFrame, VIDEO_CLOCK, VideoCodec, dimensions},
};
use giusto_units::{TimeDelta, Timestamp};

use crate::call::anchor::Anchor;

/// A frame waits for a key frame of a better encoding, which is larger and arrives later. Chosen by us.
const HOLD: TimeDelta = TimeDelta::from_seconds(1);
/// An encoding whose frames are this much older than those of others has ceased. Chosen by us.
const SILENCE: TimeDelta = TimeDelta::from_millis(700);
/// Frames of two encodings whose capture times differ by less are one picture: the reports of their sources are not exact. Chosen by us.
const SAME: TimeDelta = TimeDelta::from_millis(5);
/// The least time between two requests of a key frame for a change of the encoding. Chosen by us.
const ASK_INTERVAL: TimeDelta = TimeDelta::from_seconds(2);
/// Frames that wait for the first report of their source, which says when they were captured. Chosen by us: more than 2 s.
const MAX_WAITING: usize = 256;
/// The most synchronisation sources (SSRCs): as many as the receiver keeps.
const MAX_SOURCES: usize = 64;

giusto_units::defaults! {
    /// Frames of several sources in, of one video out: it changes the source at key frames only.
    #[derive(Debug)]
    pub(super) struct Encodings {
        codec: VideoCodec = codec,
        sources: BTreeMap<u32, Source> = BTreeMap::new(),
        /// The source of the latest frame.
        current: Option<u32> = None,
        /// By rising capture time.
        pending: VecDeque<Chosen> = VecDeque::new(),
        /// The capture time of the latest frame that was given out, its number, and the time of the first.
        given: Option<(TimeDelta, u64)> = None,
        zero: Option<TimeDelta> = None,
        /// The newest capture time of a frame that was left out.
        left_out: Option<TimeDelta> = None,
        asked_at: Option<Timestamp> = None,
        wanted: Option<u32> = None,
    }
    pub(super) fn new(codec: VideoCodec);
}

#[derive(Debug)]
struct Source {
    arrivals: Arrivals,
    /// The frames whose capture time is not known yet, and when they were in order.
    waiting: VecDeque<(Timestamp, OrderedFrame)>,
    anchor: Option<Anchor>,
    /// Pixels of its latest key frame.
    pixels: u32,
    /// The newest capture time of what has arrived.
    newest: Option<TimeDelta>,
}

#[derive(Debug)]
struct Chosen {
    ssrc: u32,
    captured: TimeDelta,
    at: Timestamp,
    follows_gap: bool,
    frame: OrderedFrame,
}

impl Encodings {
    /// Takes a whole frame of any encoding.
    pub(super) fn push(&mut self, now: Timestamp, frame: FrameArrival) {
        let ssrc = frame.ssrc;
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&ssrc) {
            return;
        }
        let source = self.sources.entry(ssrc).or_insert_with(|| Source {
            arrivals: Arrivals::foreign(),
            waiting: VecDeque::new(),
            anchor: None,
            pixels: 0,
            newest: None,
        });
        if let Some(delay) = frame.delay {
            // The clock of the browser's reports; the latest says most, but a change within a file would be a step.
            let captured = frame.at - Timestamp::ZERO - delay;
            source.anchor.get_or_insert(Anchor { rtp_timestamp: frame.rtp_timestamp, captured });
        }
        let captured = source.captured(frame.rtp_timestamp);
        source.newest = source.newest.max(captured);
        source.arrivals.push(frame);
        self.order(Some(now));
    }

    /// The source of which a key frame would allow a change for the better, if it is time to request one.
    pub(super) fn wants_key_frame(&mut self) -> Option<u32> {
        self.wanted.take()
    }

    /// The next frame of the video. At the end of the call `now` is `None`.
    pub(super) fn poll(&mut self, now: Option<Timestamp>) -> Option<FrameArrival> {
        self.order(now);
        let newest = self.newest()?;
        if now.is_some() && self.pending.front()?.captured > newest - HOLD {
            return None;
        }
        self.pending.pop_front().map(|chosen| {
            let Chosen { ssrc, captured, at, follows_gap, frame } = chosen;
            let zero = *self.zero.get_or_insert(captured);
            // A number that is left out is a gap.
            let number = self.given.map_or(0, |(_, number)| number + 1 + u64::from(follows_gap));
            self.given = Some((captured, number));
            FrameArrival {
                ssrc,
                sequence: number,
                rtp_timestamp: ticks(captured - zero) as u32,
                start: None,
                at,
                delay: Some(at - Timestamp::ZERO - captured),
                packets: 1,
                repaired: 0,
                late: frame.late,
                key: frame.key,
                payload: frame.payload,
            }
        })
    }

    /// The newest capture time of what has arrived.
    fn newest(&self) -> Option<TimeDelta> {
        self.sources.values().filter_map(|source| source.newest).max()
    }

    /// Takes what is in order from all sources.
    fn order(&mut self, now: Option<Timestamp>) {
        let ssrcs: Vec<u32> = self.sources.keys().copied().collect();
        for ssrc in ssrcs {
            let Some(source) = self.sources.get_mut(&ssrc) else { continue };
            while let Some(frame) = source.arrivals.poll(now) {
                source.waiting.push_back((now.unwrap_or(Timestamp::ZERO), frame));
            }
            if source.waiting.len() > MAX_WAITING && source.anchor.is_none() {
                source.waiting.pop_front();
            }
            if source.anchor.is_none() {
                continue;
            }
            while let Some(source) = self.sources.get_mut(&ssrc)
                && let Some((at, frame)) = source.waiting.pop_front()
            {
                if let Some(captured) = source.captured(frame.rtp_timestamp) {
                    self.choose(at, ssrc, captured, frame);
                }
            }
        }
    }

    /// Takes the next frame of a source, or leaves it out.
    fn choose(&mut self, at: Timestamp, ssrc: u32, captured: TimeDelta, frame: OrderedFrame) {
        let is_key = frame.key != Some(false);
        let Some(source) = self.sources.get_mut(&ssrc) else { return };
        if is_key && let Some((width, height)) = dimensions(self.codec, &frame.payload.to_vec()) {
            source.pixels = u32::from(width) * u32::from(height);
        }
        let pixels = source.pixels;
        let newest = self.newest().unwrap_or(captured);
        let of_current = self.current.and_then(|ssrc| self.sources.get(&ssrc));
        let current_pixels = of_current.map_or(0, |current| current.pixels);
        let has_ceased = of_current.is_none_or(|current| current.newest < Some(newest - SILENCE));
        let is_current = self.current == Some(ssrc);
        let same = if is_current { TimeDelta::ZERO } else { SAME };
        let is_late = self.given.is_some_and(|(given, _)| captured <= given + same);
        if is_current && !is_late {
            let follows_gap = frame.follows_gap;
            self.pending.push_back(Chosen { ssrc, captured, at, follows_gap, frame });
            return;
        }
        if is_key && !is_late && (pixels > current_pixels || has_ceased) {
            // What was taken of the other encoding from that time on is replaced.
            while self.pending.back().is_some_and(|last| last.captured > captured - SAME) {
                self.pending.pop_back();
            }
            let before = self.pending.back().map(|last| last.captured).or(self.given.map(|(given, _)| given));
            let follows_gap =
                self.left_out.zip(before).is_some_and(|(out, before)| out > before && out < captured);
            self.current = Some(ssrc);
            self.pending.push_back(Chosen { ssrc, captured, at, follows_gap, frame });
            return;
        }
        if has_ceased {
            self.left_out = self.left_out.max(Some(captured));
        }
        let asks = pixels > current_pixels || has_ceased;
        if asks && self.asked_at.is_none_or(|asked| at >= asked + ASK_INTERVAL) {
            (self.asked_at, self.wanted) = (Some(at), Some(ssrc));
        }
    }
}

impl Source {
    /// When the frame with this RTP timestamp was captured.
    fn captured(&mut self, rtp_timestamp: u32) -> Option<TimeDelta> {
        Some(self.anchor.as_mut()?.captured(rtp_timestamp, VIDEO_CLOCK))
    }
}

/// Ticks of the RTP clock of video, rounded to the nearest.
fn ticks(time: TimeDelta) -> i64 {
    let scaled = i128::from(time.as_nanos()) * i128::from(VIDEO_CLOCK);
    ((scaled + 500_000_000).div_euclid(1_000_000_000)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key frame of VP8 with this width (RFC 6386 §9.1), or another frame.
    fn payload(key: bool, width: u8, number: u8) -> Vec<u8> {
        if key {
            vec![0x10, 0, 0, 0x9d, 0x01, 0x2a, width, 0, 16, 0, number]
        } else {
            vec![0x11, 0, 0, width, number]
        }
    }

    /// The frames that come out, as encoding and number of 33 ms; with a gap before them, if any.
    struct Bench {
        encodings: Encodings,
        out: Vec<(u8, u32)>,
        gaps: Vec<usize>,
        asked: Vec<u32>,
        latest: Option<u64>,
    }

    impl Bench {
        fn new() -> Self {
            let encodings = Encodings::new(VideoCodec::Vp8);
            Self { encodings, out: Vec::new(), gaps: Vec::new(), asked: Vec::new(), latest: None }
        }

        fn frame(&mut self, width: u8, number: u32, key: bool) {
            self.arrive(width, number, key, 5);
        }

        /// Encoding `width`, whose source has this number and whose RTP clock begins with it. Its packets have the numbers of frames.
        fn arrive(&mut self, width: u8, number: u32, key: bool, delay_ms: i64) {
            let at = Timestamp::ZERO + TimeDelta::from_millis(1_000 + 33 * i64::from(number) + delay_ms);
            // The report of the larger one says 1 ms more than that of the smaller one.
            let error = TimeDelta::from_millis(i64::from(width / 32));
            self.encodings.push(
                at,
                FrameArrival {
                    ssrc: u32::from(width),
                    sequence: 1000 * u64::from(width) + u64::from(number),
                    rtp_timestamp: u32::from(width) * 1_000_000 + number * 2970,
                    start: None,
                    at,
                    delay: Some(TimeDelta::from_millis(delay_ms) - error),
                    packets: 1,
                    repaired: 0,
                    late: false,
                    key: Some(key),
                    payload: payload(key, width, number as u8).into(),
                },
            );
            self.asked.extend(self.encodings.wants_key_frame());
            self.take(Some(at));
        }

        fn take(&mut self, now: Option<Timestamp>) {
            while let Some(frame) = self.encodings.poll(now) {
                if self.latest.is_some_and(|latest| frame.sequence > latest + 1) {
                    self.gaps.push(self.out.len());
                }
                self.latest = Some(frame.sequence);
                self.out.push((frame.ssrc as u8, (frame.rtp_timestamp + 1000) / 2970));
            }
        }

        fn end(mut self) -> (Vec<(u8, u32)>, Vec<usize>, Vec<u32>) {
            self.take(None);
            (self.out, self.gaps, self.asked)
        }
    }

    #[test]
    fn the_largest_encoding_is_taken_from_its_first_key_frame_on() {
        let mut bench = Bench::new();
        for number in 0..60 {
            // The key frame of the large one takes 200 ms: it replaces frames of the small one that were taken before it came.
            bench.frame(16, number, number == 0);
            if number == 6 {
                bench.arrive(32, 0, true, 203);
            } else if number > 6 {
                bench.frame(32, number - 6, false);
            }
        }
        let (out, gaps, asked) = bench.end();
        assert_eq!(out, (0..54).map(|number| (32, number)).collect::<Vec<_>>());
        assert_eq!((gaps, asked), (vec![], vec![]));
    }

    #[test]
    fn where_the_largest_ceases_a_key_frame_of_the_next_is_requested() {
        let mut bench = Bench::new();
        for number in 0..120_u32 {
            if number < 40 {
                bench.frame(32, number, number == 0);
            }
            // The request is answered two frames later.
            let answers = bench.asked.len() == 1 && number == 65;
            bench.frame(16, number, number == 0 || answers);
        }
        let (out, gaps, asked) = bench.end();
        assert_eq!(asked.first(), Some(&16));
        let kept = (0..40).map(|number| (32, number)).chain((65..120).map(|number| (16, number)));
        assert_eq!(out, kept.collect::<Vec<_>>());
        // The frames from 40 to 64 are missing.
        assert_eq!(gaps, [40]);
    }

    #[test]
    fn a_better_encoding_that_begins_without_a_key_frame_is_asked_for_one() {
        let mut bench = Bench::new();
        for number in 0..90_u32 {
            bench.frame(16, number, number == 0);
            if number >= 30 {
                // Its size is known from an earlier key frame.
                bench.frame(32, number, number == 30 || number == 60);
            }
        }
        let (out, gaps, _) = bench.end();
        let expected = (0..90).map(|number| (if number < 30 { 16 } else { 32 }, number));
        assert_eq!(out, expected.collect::<Vec<_>>());
        assert!(gaps.is_empty());
    }

    #[test]
    fn the_video_goes_on_where_its_timestamps_wrap() {
        let (mut encodings, mut out) = (Encodings::new(VideoCodec::Vp8), Vec::new());
        for number in 0..6_u64 {
            let since = number * 5 * 3600;
            let at = Timestamp::ZERO + TimeDelta::from_seconds(since as i64 + 1);
            encodings.push(
                at,
                FrameArrival {
                    ssrc: 1,
                    sequence: number,
                    rtp_timestamp: (since * 90_000) as u32,
                    start: None,
                    at,
                    delay: Some(TimeDelta::from_millis(5)),
                    packets: 1,
                    repaired: 0,
                    late: false,
                    key: Some(true),
                    payload: payload(true, 16, number as u8).into(),
                },
            );
            out.extend(std::iter::from_fn(|| encodings.poll(Some(at))).map(|frame| frame.sequence));
        }
        out.extend(std::iter::from_fn(|| encodings.poll(None)).map(|frame| frame.sequence));
        assert_eq!(out, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_loss_of_the_largest_is_a_gap_of_the_video() {
        let mut bench = Bench::new();
        for number in 0..150_u32 {
            // A packet of the large one is lost; both have a key frame soon after, as Chromium's encoder makes them.
            if number != 50 {
                bench.frame(32, number, number == 0 || number == 56);
            }
            bench.frame(16, number, number == 0 || number == 56);
        }
        let (out, gaps, asked) = bench.end();
        let expected: Vec<_> = (0..150).filter(|number| *number != 50).map(|number| (32, number)).collect();
        assert_eq!(out, expected);
        assert_eq!((gaps, asked), (vec![50], vec![]));
    }
}
