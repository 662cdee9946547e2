//! The figures of the intervals of a session, from differences of counters.
//!
//! They are not those of a stream: an answer is a round trip, and whether a packet or its answer was lost is not known before the
//! end.

use giusto_session::stamp::{Answers, ReflectorCounters};
use giusto_units::{TimeDelta, Timestamp};

use crate::measured::{
    interval::{ReflectorInterval, StampInterval, Ticks, loss_ratio, signed},
    result::Quantiles,
};

/// The intervals of a Session-Sender.
#[derive(Debug)]
pub(super) struct SenderIntervals {
    ticks: Ticks,
    sent: u64,
    answered: u64,
    missing: u64,
}

impl SenderIntervals {
    /// Intervals of this length; sending begins at `start`.
    pub(super) fn new(interval: TimeDelta, start: Timestamp) -> Self {
        Self { ticks: Ticks::new(interval, start), sent: 0, answered: 0, missing: 0 }
    }

    /// The end of the present interval.
    pub(super) fn due(&self) -> Timestamp {
        self.ticks.due()
    }

    /// The figures of an interval that has ended; `sent` packets have been sent so far.
    pub(super) fn on_turn(
        &mut self,
        now: Timestamp,
        sent: u64,
        answers: &mut Answers,
    ) -> Option<StampInterval> {
        if !self.ticks.has_ended(now) {
            return None;
        }
        let missing = answers.missing();
        Some(self.close(now, sent, missing, answers))
    }

    /// The last interval: sending ended at `ended`, and no further answer is awaited.
    pub(super) fn finish(
        mut self,
        ended: Timestamp,
        sent: u64,
        answers: &mut Answers,
    ) -> Option<StampInterval> {
        let missing = sent.saturating_sub(answers.counters().answered);
        let last = self.close(ended, sent, missing, answers);
        (last.sent_packets > 0 || last.answered_packets > 0 || last.lost_packets != 0).then_some(last)
    }

    fn close(&mut self, at: Timestamp, sent: u64, missing: u64, answers: &mut Answers) -> StampInterval {
        let answered = answers.counters().answered;
        let (new, lost) = (answered - self.answered, signed(missing) - signed(self.missing));
        let (start_s, end_s) = self.ticks.close(at);
        let figures = StampInterval {
            start_s,
            end_s,
            sent_packets: sent.saturating_sub(self.sent),
            answered_packets: new,
            lost_packets: lost,
            loss_ratio: loss_ratio(new, lost),
            round_trip_ms: Quantiles::millis(&answers.take_recent_rtts()),
            forward_jitter_ms: answers.forward().and_then(|way| way.jitter).map(TimeDelta::as_millis),
            backward_jitter_ms: answers.backward().and_then(|way| way.jitter).map(TimeDelta::as_millis),
        };
        (self.sent, self.answered, self.missing) = (sent, answered, missing);
        figures
    }
}

/// The intervals of a Session-Reflector. Those in which nothing arrived are left out.
#[derive(Debug)]
pub struct ReflectorIntervals {
    ticks: Ticks,
    last: ReflectorCounters,
}

impl ReflectorIntervals {
    /// Intervals of this length from `start` on.
    pub fn new(interval: TimeDelta, start: Timestamp) -> Self {
        Self { ticks: Ticks::new(interval, start), last: ReflectorCounters::default() }
    }

    /// The figures of an interval that has ended. Call it many times a second.
    pub fn on_turn(
        &mut self,
        now: Timestamp,
        counters: ReflectorCounters,
        sessions: usize,
    ) -> Option<ReflectorInterval> {
        if !self.ticks.has_ended(now) {
            return None;
        }
        self.close(now, counters, sessions)
    }

    /// The last interval.
    pub fn finish(
        mut self,
        now: Timestamp,
        counters: ReflectorCounters,
        sessions: usize,
    ) -> Option<ReflectorInterval> {
        self.close(now, counters, sessions)
    }

    fn close(
        &mut self,
        now: Timestamp,
        counters: ReflectorCounters,
        sessions: usize,
    ) -> Option<ReflectorInterval> {
        let (start_s, end_s) = self.ticks.close(now);
        let figures = ReflectorInterval {
            start_s,
            end_s,
            sessions,
            reflected_packets: counters.reflected - self.last.reflected,
            unanswered_packets: counters.unanswered() - self.last.unanswered(),
        };
        self.last = counters;
        (figures.reflected_packets > 0 || figures.unanswered_packets > 0).then_some(figures)
    }
}
