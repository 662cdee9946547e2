//! Rates that change in steps, with outages and periods.

use giusto_units::{DataRate, TimeDelta, Timestamp};

/// A forward cursor over the segments of constant rate.
#[derive(Debug, Clone)]
pub(super) struct Segments {
    steps: Vec<(Timestamp, DataRate)>,
    period: Option<TimeDelta>,
    next: usize,
    round_start: Timestamp,
    pub(super) rate: DataRate,
    pub(super) until: Timestamp,
    /// Whether a rate is zero.
    pub(super) has_outages: bool,
}

impl Segments {
    pub(super) fn new(steps: Vec<(Timestamp, DataRate)>, period: Option<TimeDelta>) -> Self {
        let rate = steps.first().map_or(DataRate::ZERO, |&(_, rate)| rate);
        let has_outages = steps.iter().any(|&(_, rate)| rate == DataRate::ZERO);
        let (round_start, until) = (Timestamp::ZERO, Timestamp::ZERO);
        let mut segments = Self { steps, period, next: 1, round_start, rate, until, has_outages };
        segments.until = segments.end_of_segment();
        segments
    }

    /// Advances to the segment that contains `now`.
    #[inline]
    pub(super) fn seek(&mut self, now: Timestamp) {
        self.skip_rounds(now);
        while now >= self.until && self.until < Timestamp::MAX {
            if self.next >= self.steps.len() {
                self.next = 0;
                self.round_start = self.until;
            }
            if let Some(&(_, rate)) = self.steps.get(self.next) {
                self.rate = rate;
            }
            self.next += 1;
            self.until = self.end_of_segment();
        }
    }

    /// Skips the whole rounds that end before `now`.
    fn skip_rounds(&mut self, now: Timestamp) {
        let Some(period) = self.period.filter(|_| now >= self.until) else { return };
        let rounds = (now - self.round_start).as_nanos() / period.as_nanos().max(1);
        if rounds > 1 {
            // Continues at the end of the round before that of `now`.
            self.round_start += period * (rounds - 1);
            (self.next, self.until) = (self.steps.len(), self.round_start + period);
        }
    }

    /// The start of the round of `now`, and the index of the step that applies at `now`.
    fn place(&self, now: Timestamp) -> (Timestamp, usize) {
        let since = now - Timestamp::ZERO;
        let into = self
            .period
            .map_or(since, |period| TimeDelta::from_nanos(since.as_nanos() % period.as_nanos().max(1)));
        let within = Timestamp::ZERO + into;
        let index = self.steps.partition_point(|&(at, _)| at <= within).saturating_sub(1);
        (Timestamp::from_nanos(now.as_nanos() - within.as_nanos()), index)
    }

    /// The end of the outage at `now`; `now` if there is none.
    pub(super) fn outage_end(&self, now: Timestamp) -> Timestamp {
        let (round, index) = self.place(now);
        let is_up = |step: &&(Timestamp, DataRate)| step.1 > DataRate::ZERO;
        if self.steps.get(index).is_none_or(|step| is_up(&step)) {
            return now;
        }
        let since_round = round - Timestamp::ZERO;
        if let Some(&(at, _)) = self.steps.iter().skip(index + 1).find(is_up) {
            return at + since_round;
        }
        let Some(period) = self.period else { return Timestamp::MAX };
        // The first rate of a round applies from its start.
        let first = self.steps.iter().position(|step| is_up(&step)).unwrap_or(0);
        let into = if first == 0 {
            Timestamp::ZERO
        } else {
            self.steps.get(first).map_or(Timestamp::ZERO, |step| step.0)
        };
        into + since_round + period
    }

    /// The last rate above zero before `now`; the first one if there was none.
    pub(super) fn rate_around(&self, now: Timestamp) -> DataRate {
        let (round, index) = self.place(now);
        let rates = || self.steps.iter().map(|step| step.1);
        let up = |rate: &DataRate| *rate > DataRate::ZERO;
        let before = rates().take(index + 1).rfind(up);
        let round_before = || rates().rfind(up).filter(|_| round > Timestamp::ZERO);
        before.or_else(round_before).or_else(|| rates().find(up)).unwrap_or_default()
    }

    fn end_of_segment(&self) -> Timestamp {
        let since_round = self.round_start - Timestamp::ZERO;
        match (self.steps.get(self.next), self.period) {
            (Some(&(at, _)), _) => at + since_round,
            (None, Some(period)) => self.round_start + period,
            (None, None) => Timestamp::MAX,
        }
    }
}
