//! The reward of a step.

use std::collections::VecDeque;

use giusto_session::media::PLAYOUT_DEADLINE;
use giusto_sim::{
    packet::FlowId,
    trace::{Event, Note, Observer},
};
use giusto_units::{TimeDelta, Timestamp};

use crate::{
    benchmark::{
        judge::{SAME_FRAME, utility_of_delay, utility_of_missed, utility_of_use},
        share::{BIN, FairShares},
    },
    run::media::FIRST_VIDEO_SSRC,
};

/// The parts of a reward, each from 0 to 1: those of the benchmark's [utility](crate::benchmark::Utility) for one step. It has no part
/// for freezes, because a frame that is missed in a freeze already counts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reward {
    /// Of the use of the fair share.
    pub rate: f64,
    /// Of the frame delay.
    pub delay: f64,
    /// Of missed frames.
    pub frames: f64,
}

impl Reward {
    /// Their product.
    pub fn total(self) -> f64 {
        self.rate * self.delay * self.frames
    }
}

/// What happened in a step, at both ends.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepFigures {
    /// Bits of media that arrived over those that the fair share could carry; `None` if it could carry none.
    pub use_ratio: Option<f64>,
    /// The longest frame delay: from the capture of a frame until it, or a later one, was complete, or until the end of the step.
    pub frame_delay: TimeDelta,
    /// Share of the frames decided in the step that were missed: skipped, or not whole 400 ms later than the fastest frame would have
    /// been.
    pub missed_ratio: f64,
    /// The parts of the reward.
    pub reward: Reward,
}

/// Collects what the receiver gets.
#[derive(Debug, Default)]
pub(super) struct Judge {
    flow: FlowId,
    competes: bool,
    /// Bits of the fair share from the beginning to the end of each bin.
    bits: Vec<f64>,
    /// Bytes since the beginning.
    sent: u64,
    padding: u64,
    /// Bytes received in the step.
    received: u64,
    /// Times of capture of frames that neither they nor a later one have replaced.
    unseen: VecDeque<Timestamp>,
    /// Frames that may still come, and whether they have.
    undecided: VecDeque<(Timestamp, bool)>,
    fastest: Option<TimeDelta>,
    longest: TimeDelta,
    decided: u64,
    missed: u64,
}

impl Judge {
    pub(super) fn new(shares: &FairShares, flow: FlowId) -> Self {
        let mut sum = 0.0;
        let mut bits = vec![0.0];
        for own in shares.flows.first().map(|share| share.bits.as_slice()).unwrap_or_default() {
            sum += own;
            bits.push(sum);
        }
        Self { flow, competes: shares.competes, bits, ..Self::default() }
    }

    /// Bits of the fair share until `at`.
    fn share_until(&self, at: Timestamp) -> f64 {
        let (nanos, bin) = (at.as_nanos(), BIN.as_nanos() as u64);
        let of = |place: u64| self.bits.get(place as usize).or(self.bits.last()).copied().unwrap_or(0.0);
        let (from, to) = (of(nanos / bin), of(nanos / bin + 1));
        from + (to - from) * (nanos % bin) as f64 / bin as f64
    }

    fn on_frame(&mut self, at: Timestamp, delay: TimeDelta) {
        let captured = at - delay;
        self.fastest = Some(self.fastest.map_or(delay, |fastest| fastest.min(delay)));
        while self.unseen.front().is_some_and(|&due| due <= captured + SAME_FRAME) {
            let due = self.unseen.pop_front().unwrap_or(captured);
            self.longest = self.longest.max(at - due);
        }
        let near = |due: Timestamp| due + SAME_FRAME >= captured && due <= captured + SAME_FRAME;
        if let Some(own) = self.undecided.iter_mut().find(|(due, _)| near(*due)) {
            own.1 = true;
        }
    }

    /// The figures of the step from `from` to `to`.
    pub(super) fn step(&mut self, from: Timestamp, to: Timestamp) -> StepFigures {
        if let Some(&oldest) = self.unseen.front() {
            self.longest = self.longest.max(to - oldest);
        }
        // A frame is decided when it is whole, and all before it are, or when it is too late.
        let late = self.fastest.map(|fastest| fastest + PLAYOUT_DEADLINE);
        while let Some(&(due, is_whole)) = self.undecided.front()
            && (is_whole || late.is_some_and(|late| due + late <= to))
        {
            self.undecided.pop_front();
            self.decided += 1;
            self.missed += u64::from(!is_whole);
        }
        let quotient = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let media = 1.0 - quotient(self.padding as f64, self.sent as f64);
        let share = self.share_until(to) - self.share_until(from);
        // Less than a bit is rounding.
        let use_ratio = (share >= 1.0).then(|| self.received as f64 * 8.0 * media / share);
        let missed_ratio = quotient(self.missed as f64, self.decided as f64);
        let reward = Reward {
            rate: use_ratio.map_or(1.0, |used| utility_of_use(used, self.competes)),
            delay: utility_of_delay(self.longest),
            frames: utility_of_missed(missed_ratio),
        };
        let figures = StepFigures { use_ratio, frame_delay: self.longest, missed_ratio, reward };
        (self.received, self.longest, self.decided, self.missed) = (0, TimeDelta::ZERO, 0, 0);
        figures
    }
}

impl Observer for Judge {
    fn on_event(&mut self, _now: Timestamp, event: &Event) {
        match event {
            Event::Delivered { packet } if packet.flow == self.flow => {
                self.received += u64::from(packet.bytes);
            }
            Event::Sent { packet } if packet.flow == self.flow => self.sent += u64::from(packet.bytes),
            _ => {}
        }
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        if note.flow() != self.flow {
            return;
        }
        match *note {
            Note::Queued { ssrc, captured, .. } if ssrc >= FIRST_VIDEO_SSRC => {
                self.unseen.push_back(captured);
                self.undecided.push_back((captured, false));
            }
            Note::Skipped { .. } => {
                self.unseen.push_back(now);
                (self.decided, self.missed) = (self.decided + 1, self.missed + 1);
            }
            Note::Frame { ssrc, at, delay: Some(delay), .. } if ssrc >= FIRST_VIDEO_SSRC => {
                self.on_frame(at, delay);
            }
            Note::Padding { size, .. } => self.padding += size.as_bytes(),
            _ => {}
        }
    }

    fn watches_queues(&self) -> bool {
        false
    }
}
