//! `HyStart++`: slow start that ends when the queue begins to grow (RFC 9406).

use giusto_units::TimeDelta;

use super::interface::Acknowledged;

/// The least rise of the round trip that ends slow start: `MIN_RTT_THRESH` (RFC 9406 §4.3).
const LEAST_RISE: TimeDelta = TimeDelta::from_millis(4);
/// The rise of the round trip that always ends slow start: `MAX_RTT_THRESH` (RFC 9406 §4.3).
const GREATEST_RISE: TimeDelta = TimeDelta::from_millis(16);
/// Between these, the rise is this part of the round trip: `MIN_RTT_DIVISOR` (RFC 9406 §4.3).
const RISE_DIVISOR: i64 = 8;
/// How many round trips a round must have measured: `N_RTT_SAMPLE` (RFC 9406 §4.3).
const SAMPLES: u32 = 8;
/// How much slower conservative slow start grows: `CSS_GROWTH_DIVISOR` (RFC 9406 §4.3).
const GROWTH_DIVISOR: u64 = 4;
/// How many rounds conservative slow start lasts: `CSS_ROUNDS` (RFC 9406 §4.3).
const ROUNDS: u32 = 5;
/// How many segments one acknowledgement may add to the window of a sender that does not pace: `L` (RFC 9406 §4.3).
pub(crate) const SEGMENTS_PER_ACK: u32 = 8;

/// Watches the first slow start of a connection, and says how fast it may go on.
///
/// | here | RFC 9406 §4.2 |
/// |---|---|
/// | `round_end` | `windowEnd` |
/// | `lowest`, `lowest_before` | `currentRoundMinRTT`, `lastRoundMinRTT` |
/// | `samples` | `rttSampleCount` |
/// | `Phase::Conservative` | CSS; `baseline` is `cssBaselineMinRtt` |
///
/// The acknowledgement that ends a round counts as part of it; what it lets out does not belong to the next one, which ends at what
/// was sent before. So rounds come to begin somewhat before the bursts of slow start do, in the queue that the last one left. The
/// first round begins with the first acknowledgement, so that it covers the initial window; and where all is acknowledged as a
/// round ends, the next one begins with the next acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct HyStart {
    round_end: Option<u64>,
    lowest: Option<TimeDelta>,
    lowest_before: Option<TimeDelta>,
    samples: u32,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Standard slow start.
    Standard,
    /// Conservative slow start, the given number of rounds of which are complete.
    Conservative { baseline: TimeDelta, rounds: u32 },
    /// Congestion avoidance is to begin.
    Over,
}

impl HyStart {
    /// The connection begins.
    pub(super) fn new() -> Self {
        Self { round_end: None, lowest: None, lowest_before: None, samples: 0, phase: Phase::Standard }
    }

    /// An acknowledgement arrived. Returns by what its growth is to be divided.
    pub(super) fn on_ack(&mut self, ack: &Acknowledged) -> u64 {
        let divisor = if matches!(self.phase, Phase::Conservative { .. }) { GROWTH_DIVISOR } else { 1 };
        let round_end = *self.round_end.get_or_insert(ack.next);
        if let Some(sample) = ack.sample {
            self.lowest = Some(self.lowest.map_or(sample, |lowest| lowest.min(sample)));
            self.samples += 1;
        }
        self.judge();
        if ack.up_to >= round_end {
            self.end_round(ack);
        }
        divisor
    }

    /// Whether slow start is to end now.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Compares this round with the one before, or with the one that ended standard slow start.
    fn judge(&mut self) {
        let Some(lowest) = self.lowest.filter(|_| self.samples >= SAMPLES) else { return };
        match self.phase {
            Phase::Standard => {
                let Some(before) = self.lowest_before else { return };
                let rise = (before / RISE_DIVISOR).clamp(LEAST_RISE, GREATEST_RISE);
                if lowest >= before + rise {
                    self.phase = Phase::Conservative { baseline: lowest, rounds: 0 };
                }
            }
            Phase::Conservative { baseline, .. } if lowest < baseline => self.phase = Phase::Standard,
            Phase::Conservative { .. } | Phase::Over => {}
        }
    }

    fn end_round(&mut self, ack: &Acknowledged) {
        if let Phase::Conservative { rounds, .. } = &mut self.phase {
            *rounds += 1;
            if *rounds >= ROUNDS {
                self.phase = Phase::Over;
            }
        }
        self.round_end = Some(ack.next).filter(|&next| next > ack.up_to);
        self.lowest_before = self.lowest.take();
        self.samples = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of ten segments that are acknowledged one by one.
    struct Rounds {
        hystart: HyStart,
        acknowledged: u64,
    }

    impl Rounds {
        fn new() -> Self {
            Self { hystart: HyStart::new(), acknowledged: 0 }
        }

        /// One round with these round trips in milliseconds, in turn. Returns the divisors.
        fn round(&mut self, round_trips: &[i64]) -> Vec<u64> {
            let end = self.acknowledged + round_trips.len() as u64;
            let mut divisors = Vec::new();
            for &round_trip in round_trips {
                self.acknowledged += 1;
                // Each acknowledgement is followed by new data; what the last of a round sees is the end of the next.
                let ack = Acknowledged {
                    bytes: 1,
                    limited: true,
                    up_to: self.acknowledged,
                    next: if self.acknowledged == end { end + 10 } else { end },
                    sample: Some(TimeDelta::from_millis(round_trip)),
                    ..Acknowledged::default()
                };
                divisors.push(self.hystart.on_ack(&ack));
            }
            divisors
        }

        fn is_conservative(&self) -> bool {
            matches!(self.hystart.phase, Phase::Conservative { .. })
        }
    }

    #[test]
    fn a_rise_by_an_eighth_but_at_least_4_and_at_most_16_ms_slows_growth() {
        for (round_trip, rise) in [(8, 4), (32, 4), (80, 10), (128, 16), (300, 16)] {
            for (more, expected) in [(rise - 1, false), (rise, true)] {
                let mut rounds = Rounds::new();
                rounds.round(&[round_trip; 10]);
                let divisors = rounds.round(&[round_trip + more; 10]);
                assert_eq!(rounds.is_conservative(), expected, "{round_trip} ms and {more} more");
                // The eighth sample decides, and its acknowledgement is the last to count in full.
                let slow = if expected { 4 } else { 1 };
                assert_eq!(divisors, [1, 1, 1, 1, 1, 1, 1, 1, slow, slow]);
            }
        }
    }

    #[test]
    fn it_is_the_lowest_round_trip_that_counts() {
        let mut rounds = Rounds::new();
        rounds.round(&[50; 10]);
        rounds.round(&[90, 90, 90, 90, 90, 90, 90, 51, 90, 90]);
        assert!(!rounds.is_conservative());
    }

    #[test]
    fn rounds_of_less_than_eight_samples_decide_nothing() {
        let mut rounds = Rounds::new();
        rounds.round(&[50; 10]);
        // The acknowledgements are as many, but no more than seven are measurements.
        for n in 1..=10 {
            let sample = Some(TimeDelta::from_millis(200)).filter(|_| n <= 7);
            let ack = Acknowledged { up_to: 10 + n, next: 30, sample, ..Acknowledged::default() };
            assert_eq!(rounds.hystart.on_ack(&ack), 1);
        }
        assert!(!rounds.is_conservative());
    }

    #[test]
    fn the_fifth_round_of_slow_growth_is_the_last_the_first_part_of_one_included() {
        let mut rounds = Rounds::new();
        rounds.round(&[50; 10]);
        for round in 1..=5 {
            assert!(!rounds.hystart.is_over(), "before round {round}");
            rounds.round(&[60 + round; 10]);
        }
        assert!(rounds.hystart.is_over());
    }

    #[test]
    fn slow_start_resumes_when_the_round_trip_falls_below_what_ended_it() {
        let mut rounds = Rounds::new();
        rounds.round(&[50; 10]);
        rounds.round(&[60; 10]);
        rounds.round(&[60; 10]);
        assert!(rounds.is_conservative());
        let divisors = rounds.round(&[59; 10]);
        assert_eq!(divisors, [4, 4, 4, 4, 4, 4, 4, 4, 1, 1]);
        assert!(!rounds.is_conservative());
        // And may end anew, with as many rounds to go.
        rounds.round(&[70; 10]);
        assert!(rounds.is_conservative());
        (0..3).for_each(|_| drop(rounds.round(&[80; 10])));
        assert!(!rounds.hystart.is_over());
        rounds.round(&[80; 10]);
        assert!(rounds.hystart.is_over());
    }
}
