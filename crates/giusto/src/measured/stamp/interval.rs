//! The figures of the intervals of a session, from differences of counters.
//!
//! They are not those of a stream: an answer is a round trip, and whether a packet or its answer was lost is not known before the
//! end.

use giusto_session::stamp::{Answers, ReflectorCounters};
use giusto_units::{TimeDelta, Timestamp};

use crate::measured::{
    interval::{ReflectorInterval, StampInterval, next_due},
    result::Quantiles,
};

/// The intervals of a Session-Sender.
#[derive(Debug)]
pub(super) struct SenderIntervals {
    interval: TimeDelta,
    start: Timestamp,
    from: Timestamp,
    due: Timestamp,
    sent: u64,
    answered: u64,
    missing: u64,
}

impl SenderIntervals {
    /// Intervals of this length; sending begins at `start`.
    pub(super) fn new(interval: TimeDelta, start: Timestamp) -> Self {
        Self { interval, start, from: start, due: start + interval, sent: 0, answered: 0, missing: 0 }
    }

    /// The end of the present interval.
    pub(super) fn due(&self) -> Timestamp {
        self.due
    }

    /// The figures of an interval that has ended; `sent` packets have been sent so far.
    pub(super) fn on_turn(
        &mut self,
        now: Timestamp,
        sent: u64,
        answers: &mut Answers,
    ) -> Option<StampInterval> {
        if now < self.due {
            return None;
        }
        self.due = next_due(self.due, self.interval, now);
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
        let last = self.close(ended.max(self.from), sent, missing, answers);
        (last.sent_packets > 0 || last.answered_packets > 0 || last.lost_packets != 0).then_some(last)
    }

    fn close(&mut self, at: Timestamp, sent: u64, missing: u64, answers: &mut Answers) -> StampInterval {
        let answered = answers.counters().answered;
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let (new, lost) = (answered - self.answered, signed(missing) - signed(self.missing));
        let expected = new.saturating_add_signed(lost);
        let figures = StampInterval {
            start_s: (self.from - self.start).as_seconds(),
            end_s: (at - self.start).as_seconds(),
            sent_packets: sent.saturating_sub(self.sent),
            answered_packets: new,
            lost_packets: lost,
            loss_ratio: (expected > 0).then(|| lost.max(0) as f64 / expected as f64),
            round_trip_ms: Quantiles::millis(&answers.take_recent_rtts()),
            forward_jitter_ms: answers.forward().and_then(|way| way.jitter).map(TimeDelta::as_millis),
            backward_jitter_ms: answers.backward().and_then(|way| way.jitter).map(TimeDelta::as_millis),
        };
        (self.from, self.sent, self.answered, self.missing) = (at, sent, answered, missing);
        figures
    }
}

/// The intervals of a Session-Reflector. Those in which nothing arrived are left out.
#[derive(Debug)]
pub struct ReflectorIntervals {
    interval: TimeDelta,
    start: Timestamp,
    from: Timestamp,
    due: Timestamp,
    last: ReflectorCounters,
}

impl ReflectorIntervals {
    /// Intervals of this length from `start` on.
    pub fn new(interval: TimeDelta, start: Timestamp) -> Self {
        let last = ReflectorCounters::default();
        Self { interval, start, from: start, due: start + interval, last }
    }

    /// The figures of an interval that has ended. Call it many times a second.
    pub fn on_turn(
        &mut self,
        now: Timestamp,
        counters: ReflectorCounters,
        sessions: usize,
    ) -> Option<ReflectorInterval> {
        if now < self.due {
            return None;
        }
        self.due = next_due(self.due, self.interval, now);
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
        let figures = ReflectorInterval {
            start_s: (self.from - self.start).as_seconds(),
            end_s: (now - self.start).as_seconds(),
            sessions,
            reflected_packets: counters.reflected - self.last.reflected,
            unanswered_packets: counters.unanswered() - self.last.unanswered(),
        };
        (self.from, self.last) = (now, counters);
        (figures.reflected_packets > 0 || figures.unanswered_packets > 0).then_some(figures)
    }
}
