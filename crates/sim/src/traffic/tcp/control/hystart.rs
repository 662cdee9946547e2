//! `HyStart++`: ends slow start when the RTT rises (RFC 9406).

use giusto_units::TimeDelta;

use super::interface::Acknowledgment;

/// Minimum RTT increase that ends slow start: `MIN_RTT_THRESH` (RFC 9406 §4.3).
const MIN_RISE: TimeDelta = TimeDelta::from_millis(4);
/// RTT increase that always ends slow start: `MAX_RTT_THRESH` (RFC 9406 §4.3).
const MAX_RISE: TimeDelta = TimeDelta::from_millis(16);
/// Between these bounds, the threshold is the RTT divided by this: `MIN_RTT_DIVISOR` (RFC 9406 §4.3).
const RISE_DIVISOR: i64 = 8;
/// Minimum number of RTT samples in a round: `N_RTT_SAMPLE` (RFC 9406 §4.3).
const SAMPLES: u32 = 8;
/// Divisor of the growth in conservative slow start: `CSS_GROWTH_DIVISOR` (RFC 9406 §4.3).
const GROWTH_DIVISOR: u64 = 4;
/// Number of rounds of conservative slow start: `CSS_ROUNDS` (RFC 9406 §4.3).
const ROUNDS: u32 = 5;
/// Maximum increase per acknowledgement of an unpaced sender, in segments: `L` (RFC 9406 §4.3).
pub(crate) const SEGMENTS_PER_ACK: u32 = 8;

/// Detects an RTT increase in the first slow start of a connection and limits the growth.
///
/// | here | RFC 9406 §4.2 |
/// |---|---|
/// | `round_end` | `windowEnd` |
/// | `min_rtt`, `previous_min_rtt` | `currentRoundMinRTT`, `lastRoundMinRTT` |
/// | `samples` | `rttSampleCount` |
/// | `Phase::Conservative` | CSS; `baseline` is `cssBaselineMinRtt` |
///
/// The acknowledgement that ends a round is part of it. The next round ends at the last byte sent before that
/// acknowledgement, so rounds begin slightly before the bursts of slow start, while the queue of the last burst drains. The
/// first round begins with the first acknowledgement and thus covers the initial window. If all data is acknowledged at the
/// end of a round, the next one begins with the next acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct HyStart {
    round_end: Option<u64>,
    min_rtt: Option<TimeDelta>,
    previous_min_rtt: Option<TimeDelta>,
    samples: u32,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Standard slow start.
    Standard,
    /// Conservative slow start with the number of completed rounds.
    Conservative { baseline: TimeDelta, rounds: u32 },
    /// Slow start must end.
    Over,
}

impl HyStart {
    pub(super) fn new() -> Self {
        Self { round_end: None, min_rtt: None, previous_min_rtt: None, samples: 0, phase: Phase::Standard }
    }

    /// Processes an acknowledgement. Returns the divisor of the window growth.
    pub(super) fn on_ack(&mut self, ack: &Acknowledgment) -> u64 {
        let divisor = if matches!(self.phase, Phase::Conservative { .. }) { GROWTH_DIVISOR } else { 1 };
        let round_end = *self.round_end.get_or_insert(ack.next_sequence);
        if let Some(sample) = ack.rtt_sample {
            self.min_rtt = Some(self.min_rtt.map_or(sample, |min_rtt| min_rtt.min(sample)));
            self.samples += 1;
        }
        self.compare_rounds();
        if ack.first_unacknowledged >= round_end {
            self.end_round(ack);
        }
        divisor
    }

    /// Whether slow start must end.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Compares this round with the previous one, or with the one that ended standard slow start.
    fn compare_rounds(&mut self) {
        let Some(min_rtt) = self.min_rtt.filter(|_| self.samples >= SAMPLES) else { return };
        match self.phase {
            Phase::Standard => {
                let Some(previous) = self.previous_min_rtt else { return };
                let rise = (previous / RISE_DIVISOR).clamp(MIN_RISE, MAX_RISE);
                if min_rtt >= previous + rise {
                    self.phase = Phase::Conservative { baseline: min_rtt, rounds: 0 };
                }
            }
            Phase::Conservative { baseline, .. } if min_rtt < baseline => self.phase = Phase::Standard,
            Phase::Conservative { .. } | Phase::Over => {}
        }
    }

    fn end_round(&mut self, ack: &Acknowledgment) {
        if let Phase::Conservative { rounds, .. } = &mut self.phase {
            *rounds += 1;
            if *rounds >= ROUNDS {
                self.phase = Phase::Over;
            }
        }
        self.round_end = Some(ack.next_sequence).filter(|&next| next > ack.first_unacknowledged);
        self.previous_min_rtt = self.min_rtt.take();
        self.samples = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of segments that are acknowledged one by one.
    struct Rounds {
        hystart: HyStart,
        acknowledged: u64,
    }

    impl Rounds {
        fn new() -> Self {
            Self { hystart: HyStart::new(), acknowledged: 0 }
        }

        /// One round with these RTT samples in milliseconds. Returns the divisors.
        fn round(&mut self, rtts: &[i64]) -> Vec<u64> {
            let end = self.acknowledged + rtts.len() as u64;
            let mut divisors = Vec::new();
            for &rtt in rtts {
                self.acknowledged += 1;
                // Each acknowledgement is followed by new data; what the last of a round sees is the end of the next.
                let ack = Acknowledgment {
                    bytes: 1,
                    window_limited: true,
                    first_unacknowledged: self.acknowledged,
                    next_sequence: if self.acknowledged == end { end + 10 } else { end },
                    rtt_sample: Some(TimeDelta::from_millis(rtt)),
                    ..Acknowledgment::default()
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
    fn an_rtt_rise_of_an_eighth_within_4_to_16_ms_slows_growth() {
        for (rtt, rise) in [(8, 4), (32, 4), (80, 10), (128, 16), (300, 16)] {
            for (more, expected) in [(rise - 1, false), (rise, true)] {
                let mut rounds = Rounds::new();
                rounds.round(&[rtt; 10]);
                let divisors = rounds.round(&[rtt + more; 10]);
                assert_eq!(rounds.is_conservative(), expected, "{rtt} ms and {more} more");
                // The phase changes at the eighth sample, whose acknowledgement still counts in full.
                let slow = if expected { 4 } else { 1 };
                assert_eq!(divisors, [1, 1, 1, 1, 1, 1, 1, 1, slow, slow]);
            }
        }
    }

    #[test]
    fn a_round_needs_eight_samples_above_the_baseline() {
        let mut rounds = Rounds::new();
        rounds.round(&[50; 10]);
        rounds.round(&[90, 90, 90, 90, 90, 90, 90, 51, 90, 90]);
        assert!(!rounds.is_conservative(), "the minimum counts");
        // Ten acknowledgements, but only seven RTT samples.
        for n in 1..=10 {
            let ack = Acknowledgment {
                first_unacknowledged: 20 + n,
                next_sequence: 40,
                rtt_sample: Some(TimeDelta::from_millis(200)).filter(|_| n <= 7),
                ..Acknowledgment::default()
            };
            assert_eq!(rounds.hystart.on_ack(&ack), 1);
        }
        assert!(!rounds.is_conservative());
    }

    #[test]
    fn slow_start_resumes_when_the_rtt_falls_below_the_baseline() {
        let mut rounds = Rounds::new();
        rounds.round(&[50; 10]);
        rounds.round(&[60; 10]);
        rounds.round(&[60; 10]);
        assert!(rounds.is_conservative());
        let divisors = rounds.round(&[59; 10]);
        assert_eq!(divisors, [4, 4, 4, 4, 4, 4, 4, 4, 1, 1]);
        assert!(!rounds.is_conservative());
        // It can end again, after the full number of rounds.
        for round in 1..=5 {
            assert!(!rounds.hystart.is_over(), "before round {round}");
            rounds.round(&[70 + round; 10]);
            assert!(rounds.is_conservative() || round == 5);
        }
        assert!(rounds.hystart.is_over());
    }
}
