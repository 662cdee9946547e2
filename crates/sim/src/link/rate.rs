//! How fast a link transmits.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// Bits × nanoseconds per second: the work of transmitting one byte, so that `work / rate` is a time in nanoseconds.
const WORK_PER_BYTE: u64 = 8_000_000_000;

/// How a link's rate behaves over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateProfile {
    /// Transmission takes no time.
    Unlimited,
    /// The same rate at all times.
    Fixed(DataRate),
    /// Each rate holds from its moment on; before the first moment the first rate holds. With a period, all begins anew after it.
    Steps {
        /// Moments, increasing, and rates above zero.
        steps: Vec<(Timestamp, DataRate)>,
        /// After how long it repeats.
        period: Option<TimeDelta>,
    },
    /// Moments at which up to so many bytes may leave, over and over again with the period of the last one: Mahimahi's traces
    /// (Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015, §4; its `mm-link` manual).
    Opportunities {
        /// Moments from the beginning, in order; the last one is the period.
        at: Vec<Timestamp>,
        /// Bytes per opportunity: 1504 there.
        bytes: u32,
    },
}

/// Why a [`RateProfile`] cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// A rate is zero.
    #[error("rate must be above 0 bit/s, found \"{rate}\": leave the link out, or give a loss of 1")]
    Zero {
        /// The rate.
        rate: DataRate,
    },
    /// There is nothing in it.
    #[error("no rates: give at least one moment and its rate")]
    Empty,
    /// A moment lies before the one that precedes it.
    #[error("time runs backwards, from {before} to {after}: sort by time")]
    Backwards {
        /// The earlier entry.
        before: Timestamp,
        /// The later entry.
        after: Timestamp,
    },
    /// The last moment is the beginning, so that it repeats after no time.
    #[error(
        "it repeats after {period}: the last moment must come after the beginning, and a period after all moments"
    )]
    NoPeriod {
        /// The period.
        period: TimeDelta,
    },
}

impl RateProfile {
    /// Whether all its rates are above zero and its moments in order.
    ///
    /// # Errors
    ///
    /// [`RateError`] names the first that is not.
    pub fn check(&self) -> Result<(), RateError> {
        match self {
            Self::Unlimited => Ok(()),
            Self::Fixed(rate) => above_zero(*rate),
            Self::Steps { steps, period } => {
                steps.iter().try_for_each(|&(_, rate)| above_zero(rate))?;
                let last = in_order(steps.iter().map(|&(at, _)| at), true)?;
                match period {
                    Some(period) if *period <= last - Timestamp::ZERO => {
                        Err(RateError::NoPeriod { period: *period })
                    }
                    _ => Ok(()),
                }
            }
            Self::Opportunities { at, bytes } => {
                let last = in_order(at.iter().copied(), false)?;
                if last == Timestamp::ZERO || *bytes == 0 {
                    return Err(RateError::NoPeriod { period: last - Timestamp::ZERO });
                }
                Ok(())
            }
        }
    }

    /// What it can carry from the beginning until `end`; `None`: no limit.
    pub fn capacity(&self, end: Timestamp) -> Option<DataSize> {
        let bits_nanos: u128 = match self {
            Self::Unlimited => return None,
            Self::Fixed(rate) => u128::from(rate.as_bps()) * u128::from(end.as_nanos()),
            Self::Steps { .. } => {
                let mut segments = Segments::new(self);
                let (mut sum, mut now) = (0, Timestamp::ZERO);
                while now < end {
                    segments.seek(now);
                    let until = segments.until.min(end);
                    sum += u128::from(segments.rate.as_bps())
                        * u128::from((until - now).as_nanos().unsigned_abs());
                    now = until;
                }
                sum
            }
            Self::Opportunities { at, bytes } => {
                let period = at.last().copied().unwrap_or(Timestamp::ZERO).as_nanos().max(1);
                let (rounds, rest) = (end.as_nanos() / period, end.as_nanos() % period);
                let partial = at.partition_point(|moment| moment.as_nanos() <= rest);
                let count = u128::from(rounds) * at.len() as u128 + partial as u128;
                count * u128::from(*bytes) * u128::from(WORK_PER_BYTE)
            }
        };
        Some(DataSize::from_bytes((bits_nanos / u128::from(WORK_PER_BYTE)) as u64))
    }
}

fn above_zero(rate: DataRate) -> Result<(), RateError> {
    if rate == DataRate::ZERO { Err(RateError::Zero { rate }) } else { Ok(()) }
}

/// The last moment, if all are in order.
fn in_order(moments: impl Iterator<Item = Timestamp>, strictly: bool) -> Result<Timestamp, RateError> {
    let mut before = None;
    for after in moments {
        if let Some(before) = before.filter(|&before| after < before || strictly && after == before) {
            return Err(RateError::Backwards { before, after });
        }
        before = Some(after);
    }
    before.ok_or(RateError::Empty)
}

/// Turns bytes into time: the part of a link that transmits one packet after the other.
///
/// Times are exact: what a transmission's end is rounded up by, less than a nanosecond, shortens the one that follows it
/// without a pause.
#[derive(Debug, Clone)]
pub struct Transmitter {
    kind: Kind,
    free_at: Timestamp,
}

#[derive(Debug, Clone)]
enum Kind {
    Unlimited,
    Rate {
        /// At the end of the last transmission, which may lie ahead of now.
        segments: Segments,
        /// The same profile, at the moment that was asked for last.
        told: Segments,
        /// Work that the last transmission's rounded-up end has left over.
        credit: u64,
    },
    Opportunities {
        at: Vec<Timestamp>,
        bytes: u32,
        /// The opportunity in use, and how many times the trace has been through.
        index: usize,
        round: u64,
        left: u32,
    },
}

impl Transmitter {
    /// A transmitter that has never sent.
    ///
    /// # Errors
    ///
    /// What [`RateProfile::check`] finds.
    pub fn new(profile: &RateProfile) -> Result<Self, RateError> {
        profile.check()?;
        let kind = match profile {
            RateProfile::Unlimited => Kind::Unlimited,
            RateProfile::Fixed(_) | RateProfile::Steps { .. } => {
                let segments = Segments::new(profile);
                Kind::Rate { told: segments.clone(), segments, credit: 0 }
            }
            RateProfile::Opportunities { at, bytes } => {
                Kind::Opportunities { at: at.clone(), bytes: *bytes, index: 0, round: 0, left: *bytes }
            }
        };
        let mut transmitter = Self { kind, free_at: Timestamp::ZERO };
        transmitter.find_opportunity(Timestamp::ZERO);
        Ok(transmitter)
    }

    /// When the next packet may be taken from the queue: `now`, or later.
    pub fn ready_at(&self, now: Timestamp) -> Timestamp {
        self.free_at.max(now)
    }

    /// Begins to transmit a packet of `bytes` now. Its end; the transmitter is free again from then on.
    ///
    /// Call it only when it [is ready](Self::ready_at); otherwise the packet begins when it is.
    pub fn transmit(&mut self, now: Timestamp, bytes: u32) -> Timestamp {
        // The work of more would not fit into 63 bits: it goes in parts.
        const MOST_AT_ONCE: u32 = 1 << 30;
        if bytes > MOST_AT_ONCE {
            let end = self.transmit(now, MOST_AT_ONCE);
            return self.transmit(end, bytes - MOST_AT_ONCE);
        }
        let start = self.ready_at(now);
        match &mut self.kind {
            Kind::Unlimited => return start,
            Kind::Rate { segments, credit, .. } => {
                // A pause loses what the rounding left.
                let saved = if start == self.free_at { *credit } else { 0 };
                let whole = u64::from(bytes) * WORK_PER_BYTE;
                // More than this packet takes is saved only where packets are shorter than a nanosecond.
                let spare = saved.saturating_sub(whole);
                let mut work = whole.saturating_sub(saved);
                let mut at = start;
                loop {
                    segments.seek(at);
                    let rate = segments.rate.as_bps();
                    let nanos = work.div_ceil(rate);
                    let end = at + TimeDelta::from_nanos(nanos as i64);
                    if end <= segments.until {
                        *credit = nanos * rate - work + spare;
                        self.free_at = end;
                        return end;
                    }
                    // Within the segment, so the product is less than the work.
                    work -= (segments.until - at).as_nanos().unsigned_abs() * rate;
                    at = segments.until;
                }
            }
            Kind::Opportunities { .. } => {}
        }
        self.use_opportunities(start, bytes)
    }

    /// The rate now: of a trace of opportunities, its mean; `None`: unlimited.
    pub fn rate(&mut self, now: Timestamp) -> Option<DataRate> {
        match &mut self.kind {
            Kind::Unlimited => None,
            Kind::Rate { told, .. } => {
                told.seek(now);
                Some(told.rate)
            }
            Kind::Opportunities { at, bytes, .. } => {
                let period = at.last().copied().unwrap_or(Timestamp::ZERO) - Timestamp::ZERO;
                DataRate::of(DataSize::from_bytes(u64::from(*bytes)) * at.len() as u64, period)
            }
        }
    }

    /// Skips the opportunities before `now`; `free_at` becomes the one in use.
    fn find_opportunity(&mut self, now: Timestamp) {
        let Kind::Opportunities { at, bytes, index, round, left } = &mut self.kind else { return };
        let period = at.last().copied().unwrap_or(Timestamp::ZERO).as_nanos().max(1);
        let moment = |index: usize, round: u64| {
            let within = at.get(index).copied().unwrap_or(Timestamp::ZERO).as_nanos();
            Timestamp::from_nanos(round.saturating_mul(period).saturating_add(within))
        };
        let behind = now.as_nanos() / period;
        if behind > *round + 1 {
            // Whole rounds have passed without a packet.
            (*index, *round, *left) = (0, behind - 1, *bytes);
        }
        while *left == 0 || moment(*index, *round) < now {
            *left = *bytes;
            *index += 1;
            if *index == at.len() {
                (*index, *round) = (0, *round + 1);
            }
        }
        self.free_at = moment(*index, *round);
    }

    /// Mahimahi's rule: an opportunity carries bytes of as many packets as fit, a packet may span several of them, and leaves
    /// with its last byte.
    fn use_opportunities(&mut self, start: Timestamp, bytes: u32) -> Timestamp {
        let mut to_send = bytes;
        self.find_opportunity(start);
        loop {
            let end = self.free_at;
            let Kind::Opportunities { left, .. } = &mut self.kind else { return end };
            let sent = to_send.min(*left);
            (*left, to_send) = (*left - sent, to_send - sent);
            // The next one, if this one is used up.
            self.find_opportunity(end);
            if to_send == 0 {
                return end;
            }
        }
    }

    /// When the packet that waits may begin, if opportunities pass unused: those before `now` are gone.
    pub(super) fn refresh(&mut self, now: Timestamp) {
        if self.free_at < now && matches!(self.kind, Kind::Opportunities { .. }) {
            self.find_opportunity(now);
        }
    }
}

/// Walks through the rates of a profile, forwards.
#[derive(Debug, Clone)]
struct Segments {
    steps: Vec<(Timestamp, DataRate)>,
    period: Option<TimeDelta>,
    next: usize,
    round_start: Timestamp,
    rate: DataRate,
    until: Timestamp,
}

impl Segments {
    fn new(profile: &RateProfile) -> Self {
        let (steps, period) = match profile {
            RateProfile::Fixed(rate) => (vec![(Timestamp::ZERO, *rate)], None),
            RateProfile::Steps { steps, period } => (steps.clone(), *period),
            RateProfile::Unlimited | RateProfile::Opportunities { .. } => (Vec::new(), None),
        };
        let rate = steps.first().map_or(DataRate::ZERO, |&(_, rate)| rate);
        let mut segments =
            Self { steps, period, next: 1, round_start: Timestamp::ZERO, rate, until: Timestamp::ZERO };
        segments.until = segments.end_of_segment();
        segments
    }

    /// Moves on to the rate that holds at `now`.
    #[inline]
    fn seek(&mut self, now: Timestamp) {
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

    /// Leaves out the whole rounds that end before `now`.
    fn skip_rounds(&mut self, now: Timestamp) {
        let Some(period) = self.period.filter(|_| now >= self.until) else { return };
        let rounds = (now - self.round_start).as_nanos() / period.as_nanos().max(1);
        if rounds > 1 {
            // At the end of the round before that of `now`.
            self.round_start += period * (rounds - 1);
            (self.next, self.until) = (self.steps.len(), self.round_start + period);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    fn steps(steps: &[(u64, u64)], period: Option<i64>) -> RateProfile {
        let steps = steps.iter().map(|&(moment, bps)| (at(moment), DataRate::from_bps(bps))).collect();
        RateProfile::Steps { steps, period: period.map(TimeDelta::from_nanos) }
    }

    #[test]
    fn transmission_times_are_exact_over_any_number_of_packets() {
        // 1000 B at 3 Mbit/s take 2 666 666.6… ns.
        let mut transmitter = Transmitter::new(&RateProfile::Fixed(DataRate::from_bps(3_000_000))).unwrap();
        let ends: Vec<u64> = (0..6).map(|_| transmitter.transmit(at(0), 1000).as_nanos()).collect();
        assert_eq!(ends, [2_666_667, 5_333_334, 8_000_000, 10_666_667, 13_333_334, 16_000_000]);
        // After a pause it begins anew.
        assert_eq!(transmitter.transmit(at(20_000_000), 1000), at(22_666_667));
    }

    #[test]
    fn a_rate_that_changes_within_a_packet_is_integrated() {
        // 1000 B = 8000 bit: 4000 of them in 4 ms at 1 Mbit/s, the rest in 2 ms at 2 Mbit/s.
        let profile = steps(&[(0, 1_000_000), (4_000_000, 2_000_000)], None);
        let mut transmitter = Transmitter::new(&profile).unwrap();
        assert_eq!(transmitter.transmit(at(0), 1000), at(6_000_000));
        assert_eq!(transmitter.transmit(at(6_000_000), 1000), at(10_000_000));
        assert_eq!(profile.capacity(at(10_000_000)), Some(DataSize::from_bytes(2000)));
    }

    #[test]
    fn steps_repeat_after_their_period() {
        let profile = steps(&[(0, 8_000_000), (1_000_000, 16_000_000)], Some(2_000_000));
        let mut transmitter = Transmitter::new(&profile).unwrap();
        // 1000 B in the first millisecond, 2000 B in the second, and so on.
        let ends: Vec<u64> = (0..4).map(|_| transmitter.transmit(at(0), 1500).as_nanos()).collect();
        assert_eq!(ends, [1_250_000, 2_000_000, 3_250_000, 4_000_000]);
        assert_eq!(profile.capacity(at(4_000_000)), Some(DataSize::from_bytes(6000)));
        assert_eq!(transmitter.rate(at(1_001_000_000)), Some(DataRate::from_bps(16_000_000)));
    }

    #[test]
    fn an_opportunity_carries_what_fits_and_is_lost_unused() {
        let moments = [1_000_000, 1_000_000, 3_000_000].map(at).to_vec();
        let profile = RateProfile::Opportunities { at: moments, bytes: 1504 };
        let mut transmitter = Transmitter::new(&profile).unwrap();
        assert_eq!(transmitter.ready_at(at(0)), at(1_000_000));
        // Two of 752 share one; 1600 B need the second one of 1 ms and some of the one at 3 ms.
        let ends: Vec<u64> = [752, 752, 1600]
            .iter()
            .map(|&bytes| transmitter.transmit(at(1_000_000), bytes).as_nanos())
            .collect();
        assert_eq!(ends, [1_000_000, 1_000_000, 3_000_000]);
        // What the opportunity at 3 ms has left is gone by 3.5 ms; the next round begins with 4 ms.
        transmitter.refresh(at(3_500_000));
        assert_eq!(transmitter.ready_at(at(3_500_000)), at(4_000_000));
        assert_eq!(transmitter.transmit(at(4_000_000), 1504), at(4_000_000));
        transmitter.refresh(at(1_000_000_000));
        assert_eq!(transmitter.ready_at(at(1_000_000_000)), at(1_000_000_000));
        assert_eq!(profile.capacity(at(6_000_000)), Some(DataSize::from_bytes(6 * 1504)));
        assert_eq!(transmitter.rate(at(0)), Some(DataRate::from_bps(12_032_000)));
    }

    #[test]
    fn profiles_that_cannot_be_are_refused() {
        let complaint = |profile: RateProfile| profile.check().unwrap_err().to_string();
        assert!(complaint(RateProfile::Fixed(DataRate::ZERO)).contains("above 0 bit/s, found \"0 bit/s\""));
        assert!(complaint(steps(&[], None)).contains("no rates"));
        assert!(
            complaint(steps(&[(5_000_000_000, 1), (3_000_000_000, 1)], None))
                .contains("time runs backwards, from 5.000000000 s to 3.000000000 s")
        );
        assert!(complaint(steps(&[(0, 1), (9, 1)], Some(9))).contains("it repeats after 9 ns"));
        let never = RateProfile::Opportunities { at: vec![at(0)], bytes: 1504 };
        assert!(complaint(never).contains("it repeats after 0 ns"));
    }

    #[test]
    fn the_rate_told_is_that_of_now_even_while_a_packet_reaches_into_the_next() {
        // The packet ends at 6 ms, and the rate changes at 4 ms.
        let profile = steps(&[(0, 1_000_000), (4_000_000, 2_000_000)], None);
        let mut transmitter = Transmitter::new(&profile).unwrap();
        transmitter.transmit(at(0), 1000);
        let mut told = |now| transmitter.rate(at(now)).unwrap().as_bps();
        assert_eq!([told(1_000_000), told(3_999_999), told(4_000_000)], [1_000_000, 1_000_000, 2_000_000]);
    }

    #[test]
    fn packets_shorter_than_a_nanosecond_take_their_time_in_sum() {
        // 100 B at 4 Tbit/s take 0.2 ns.
        let rate = DataRate::from_bps(4_000_000_000_000);
        let mut transmitter = Transmitter::new(&RateProfile::Fixed(rate)).unwrap();
        let ends: Vec<u64> = (0..10).map(|_| transmitter.transmit(at(0), 100).as_nanos()).collect();
        assert_eq!(ends, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn the_largest_packet_takes_its_time_at_any_rate() {
        // 2^32 − 1 bytes are 34 359 738 360 bit.
        for (bps, nanos) in [(1_000_000_000, 34_359_738_360), (1_000_000_000_000, 34_359_739), (u64::MAX, 2)]
        {
            let rate = RateProfile::Fixed(DataRate::from_bps(bps));
            assert_eq!(Transmitter::new(&rate).unwrap().transmit(at(0), u32::MAX), at(nanos), "{bps}");
        }
        // Beyond the end of time at 1 bit/s? 1089 years are: 2^64 ns are 584.
        let slow = RateProfile::Fixed(DataRate::from_bps(1));
        assert_eq!(Transmitter::new(&slow).unwrap().transmit(at(0), u32::MAX), Timestamp::MAX);
    }

    #[test]
    fn rounds_without_a_packet_are_skipped_at_once() {
        let profile = steps(&[(0, 1_000_000_000), (1, 2_000_000_000)], Some(3));
        let mut transmitter = Transmitter::new(&profile).unwrap();
        let hour = 3_600_000_000_000;
        let mut told = |now| transmitter.rate(at(now)).unwrap().as_bps();
        assert_eq!(
            [told(hour), told(hour + 1), told(2 * hour + 2)],
            [1_000_000_000, 2_000_000_000, 2_000_000_000]
        );
    }
}
