//! Received frames in their order, and what is missing between them.

use std::collections::BTreeMap;

use giusto_units::{TimeDelta, Timestamp};

use super::VideoWriter;
use crate::media::{FrameArrival, Payload};

/// A frame waits for earlier ones for this long: after that the receiver has dropped them. Chosen by us: its limit is 2 s.
const MAX_WAIT: TimeDelta = TimeDelta::from_millis(2_100);
/// Frames that wait, in number and in bytes; beyond that the first is taken. Chosen by us, as the receiver's limits.
const MAX_FRAMES: usize = 256;
const MAX_BYTES: usize = 16_000_000;
/// Gaps that are kept. Chosen by us.
const MAX_GAPS: usize = 1_000;
/// Steps of which the median is the usual one.
const STEPS: usize = 31;

/// A received frame, after all that come before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedFrame {
    /// Ticks of 1/90,000 s since the first frame: the first that was sent, or that arrived, if that one is unknown.
    pub ticks: u64,
    /// Its RTP timestamp.
    pub rtp_timestamp: u32,
    /// Whether it became complete after its playout deadline.
    pub late: bool,
    /// Whether decoding can start with it; `None` if the payload format does not say so.
    pub key: Option<bool>,
    /// Whether frames are missing before it.
    pub follows_gap: bool,
    /// Whether packets are missing before it: it may refer to a frame that was sent and is missing.
    pub follows_loss: bool,
    /// Its bytes.
    pub payload: Payload,
}

/// Frames that did not arrive whole, or were not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The time of the last frame before, since the first frame of all; at the start, zero.
    pub from: TimeDelta,
    /// The time of the first frame after.
    pub to: TimeDelta,
    /// The number of frames between them, if they had the usual step.
    pub frames: u64,
}

/// Puts the frames of one source in order, and finds the gaps.
///
/// A gap is where packets are missing between two frames, or where the step of their times is at least 1.75 times the usual one.
#[derive(Debug, Clone, Default)]
pub struct Arrivals {
    /// By the number of their first packet.
    waiting: BTreeMap<u64, FrameArrival>,
    bytes: usize,
    /// The number after the last packet of the latest frame in order, its RTP timestamp, and its ticks.
    latest: Option<(u64, u32, u64)>,
    steps: std::collections::VecDeque<u64>,
    /// Ticks until the first frame, while the frames that are missing before it cannot be counted.
    uncounted: Option<u64>,
    begins: Option<TimeDelta>,
    gaps: Vec<Gap>,
    skipped: u64,
    /// Of another sender than ours.
    is_foreign: bool,
}

impl Arrivals {
    /// Frames of another sender than ours: its first number says nothing, and its camera may leave frames out, so that a gap is only
    /// where packets are missing.
    pub fn foreign() -> Self {
        Self { is_foreign: true, ..Self::default() }
    }

    /// Takes a frame. One that comes after a later one was given out is dropped.
    pub fn push(&mut self, frame: FrameArrival) {
        if self.latest.is_some_and(|(next, ..)| frame.sequence < next) {
            return;
        }
        self.bytes += frame.payload.len();
        if let Some(before) = self.waiting.insert(frame.sequence, frame) {
            self.bytes = self.bytes.saturating_sub(before.payload.len());
        }
    }

    /// The next frame, if none is missing before it, or if it has waited long enough. At the end of the call `now` is `None`: nothing
    /// more arrives.
    pub fn poll(&mut self, now: Option<Timestamp>) -> Option<OrderedFrame> {
        let first = self.waiting.first_entry()?;
        let frame = first.get();
        // The first packet of a source is numbered by its timestamp (see `media`).
        let follows = match self.latest {
            Some((next, ..)) => frame.sequence == next,
            None => self.is_foreign || frame.sequence as u16 == frame.rtp_timestamp as u16,
        };
        let waits = now.is_some_and(|now| now.saturating_since(frame.at) <= MAX_WAIT);
        let len = frame.payload.len();
        if !follows && waits && self.bytes <= MAX_BYTES && self.waiting.len() <= MAX_FRAMES {
            return None;
        }
        let first = self.waiting.first_entry()?;
        let frame = first.remove();
        self.bytes = self.bytes.saturating_sub(len);
        let before = self.skipped;
        let ticks = match self.latest {
            Some((_, last, ticks)) => self.ticks(last, ticks, &frame, follows),
            None => self.first_ticks(&frame, follows),
        };
        let FrameArrival { sequence, packets, rtp_timestamp, late, key, payload, .. } = frame;
        self.latest = Some((sequence + packets, rtp_timestamp, ticks));
        let follows_gap = self.skipped > before;
        Some(OrderedFrame { ticks, rtp_timestamp, late, key, follows_gap, follows_loss: !follows, payload })
    }

    /// The ticks of the first frame.
    fn first_ticks(&mut self, frame: &FrameArrival, follows: bool) -> u64 {
        let start = frame.start.or(follows.then_some(frame.rtp_timestamp));
        let ticks = start.map_or(0, |start| u64::from(frame.rtp_timestamp.wrapping_sub(start)));
        self.begins = start.map(|_| VideoWriter::time(ticks));
        if !follows {
            self.skipped += 1;
            self.gaps.push(Gap { from: TimeDelta::ZERO, to: VideoWriter::time(ticks), frames: 1 });
            self.uncounted = Some(ticks);
        }
        ticks
    }

    fn ticks(&mut self, before: u32, ticks: u64, frame: &FrameArrival, follows: bool) -> u64 {
        // Timestamps rise; one that does not is that of a sender which breaks the rules.
        let step = u64::from(frame.rtp_timestamp.wrapping_sub(before).min(i32::MAX as u32));
        let usual = self.usual_step();
        let is_long = !self.is_foreign && usual.is_some_and(|usual| step * 4 >= usual * 7);
        let frames = usual.map_or(0, |usual| ((step + usual / 2) / usual.max(1)).saturating_sub(1));
        if is_long || !follows {
            // Before there is a usual step they cannot be counted, but at least one is missing.
            let frames = frames.max(1);
            self.skipped += frames;
            if self.gaps.len() < MAX_GAPS {
                self.gaps.push(Gap {
                    from: VideoWriter::time(ticks),
                    to: VideoWriter::time(ticks + step),
                    frames,
                });
            }
        }
        if follows && let Some(first) = self.uncounted.take().filter(|_| step > 0) {
            let frames = ((first + step / 2) / step).max(1);
            self.skipped += frames - 1;
            self.gaps.iter_mut().take(1).for_each(|gap| gap.frames = frames);
        }
        if follows {
            if self.steps.len() >= STEPS {
                self.steps.pop_front();
            }
            self.steps.push_back(step);
        }
        ticks + step
    }

    /// The median of the latest steps without a loss, in ticks.
    fn usual_step(&self) -> Option<u64> {
        let mut steps: Vec<u64> = self.steps.iter().copied().collect();
        steps.sort_unstable();
        steps.get(steps.len() / 2).copied().filter(|&step| step > 0)
    }

    /// The gaps so far: the first 1000.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// The time of the first frame, from the first that was sent; `None` if that is unknown, or before there is any.
    pub const fn begins(&self) -> Option<TimeDelta> {
        self.begins
    }

    /// The number of frames in all gaps.
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }
}
