//! Link rates and serialisation.

mod token_bucket;

use token_bucket::Bucket;
pub use token_bucket::TokenBucket;

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// Work to transmit one byte, in bit·ns/s, so that `work / rate` is a time in nanoseconds.
const WORK_PER_BYTE: u64 = 8_000_000_000;

/// Larger packets are transmitted in parts of this size, because their work would not fit into 63 bits.
const MAX_CHUNK: u32 = 1 << 30;

/// The rate of a link over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateProfile {
    /// Unlimited rate: transmission takes no time.
    Unlimited,
    /// Constant rate, above 0.
    Fixed(DataRate),
    /// A step function of time, repeated with an optional period. Before the first step, the first rate applies.
    ///
    /// A rate of 0 is an outage: the transmission under way pauses and continues when the outage ends, and packets wait in the
    /// queue.
    Steps {
        /// Times, strictly increasing, and rates. A rate above 0 must follow each rate of 0.
        steps: Vec<(Timestamp, DataRate)>,
        /// Period, longer than the last time.
        period: Option<TimeDelta>,
    },
    /// Delivery opportunities of a fixed number of bytes, repeated with the time of the last one as the period: the traces
    /// of Mahimahi (Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015, §4; its `mm-link`
    /// manual).
    Opportunities {
        /// Times since the start, in order; the last one is the period.
        at: Vec<Timestamp>,
        /// Bytes per opportunity, above 0; Mahimahi: 1504.
        bytes: u32,
    },
    /// A token-bucket shaper: bursts at the peak rate, the token rate in the long term.
    TokenBucket(TokenBucket),
}

/// An invalid [`RateProfile`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// A rate is zero.
    #[error("rate must be above 0 bit/s, found \"{rate}\": leave the link out, or give a loss of 1")]
    Zero {
        /// The rate.
        rate: DataRate,
    },
    /// The last rate is zero and nothing follows.
    #[error("rate is 0 bit/s for ever from {from} on: end the outage with a later rate above 0 bit/s")]
    Ends {
        /// The time of the last rate.
        from: Timestamp,
    },
    /// The bucket holds no token.
    #[error("burst must be at least 1 B, found \"{burst}\": a packet or more is usual")]
    Burst {
        /// The size of the bucket.
        burst: DataSize,
    },
    /// The peak rate does not exceed the token rate.
    #[error(
        "the peak rate must be above the token rate, {rate}, found \"{peak}\": raise it, or leave it out"
    )]
    Peak {
        /// The token rate.
        rate: DataRate,
        /// The peak rate.
        peak: DataRate,
    },
    /// The list of rates or opportunities is empty.
    #[error("no rates: give at least one time and its rate")]
    Empty,
    /// Times are not increasing.
    #[error("time runs backwards, from {before} to {after}: sort by time")]
    Backwards {
        /// The earlier entry.
        before: Timestamp,
        /// The later entry.
        after: Timestamp,
    },
    /// The period is not longer than the last time, or an opportunity has no bytes.
    #[error(
        "it repeats after {period}: the period must be above 0 and longer than the last time, and opportunities must have bytes"
    )]
    NoPeriod {
        /// The period.
        period: TimeDelta,
    },
}

impl RateProfile {
    /// Checks that the rate is not zero for ever and that all times are in order.
    ///
    /// # Errors
    ///
    /// [`RateError`] names the first problem.
    pub fn check(&self) -> Result<(), RateError> {
        match self {
            Self::Unlimited => Ok(()),
            Self::Fixed(rate) => above_zero(*rate),
            Self::Steps { steps, period } => {
                let last = in_order(steps.iter().map(|&(at, _)| at), true)?;
                above_zero(steps.iter().map(|&(_, rate)| rate).max().unwrap_or_default())?;
                match period {
                    None if steps.last().is_some_and(|&(_, rate)| rate == DataRate::ZERO) => {
                        Err(RateError::Ends { from: last })
                    }
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
            Self::TokenBucket(bucket) => bucket.check(),
        }
    }

    /// Capacity in bytes from the start until `end`; `None` if unlimited. That of a token bucket includes its first burst.
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
            Self::TokenBucket(bucket) => bucket.work_until(end),
        };
        Some(DataSize::from_bytes((bits_nanos / u128::from(WORK_PER_BYTE)) as u64))
    }
}

fn above_zero(rate: DataRate) -> Result<(), RateError> {
    if rate == DataRate::ZERO { Err(RateError::Zero { rate }) } else { Ok(()) }
}

/// Checks the order and returns the last time.
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

/// Computes serialisation times of consecutive packets.
///
/// The end of a transmission is rounded up to a nanosecond. The rounding error is subtracted from the next transmission if
/// that follows without a pause, so errors do not accumulate.
#[derive(Debug, Clone)]
pub struct Transmitter {
    kind: Kind,
    free_at: Timestamp,
}

#[derive(Debug, Clone)]
enum Kind {
    Unlimited,
    Fixed {
        /// Rate in bit/s, above 0.
        rate: u64,
        /// As that of [`Kind::Rate`].
        credit: u64,
    },
    Rate {
        /// Position at the end of the last transmission, which may lie in the future.
        segments: Segments,
        /// Position of the last query of the rate.
        queried: Segments,
        /// Work left over from rounding up the end of the last transmission.
        credit: u64,
    },
    Opportunities {
        at: Vec<Timestamp>,
        bytes: u32,
        /// Index of the current opportunity, number of completed rounds, and bytes left in the opportunity.
        index: usize,
        round: u64,
        left: u32,
    },
    Bucket(Bucket),
}

impl Transmitter {
    /// Creates an idle transmitter.
    ///
    /// # Errors
    ///
    /// The error of [`RateProfile::check`].
    pub fn new(profile: &RateProfile) -> Result<Self, RateError> {
        profile.check()?;
        let kind = match profile {
            RateProfile::Unlimited => Kind::Unlimited,
            RateProfile::Fixed(rate) => Kind::Fixed { rate: rate.as_bps(), credit: 0 },
            RateProfile::Steps { .. } => {
                let segments = Segments::new(profile);
                Kind::Rate { queried: segments.clone(), segments, credit: 0 }
            }
            RateProfile::Opportunities { at, bytes } => {
                Kind::Opportunities { at: at.clone(), bytes: *bytes, index: 0, round: 0, left: *bytes }
            }
            RateProfile::TokenBucket(bucket) => Kind::Bucket(Bucket::new(*bucket)?),
        };
        let mut transmitter = Self { kind, free_at: Timestamp::ZERO };
        transmitter.find_opportunity(Timestamp::ZERO);
        Ok(transmitter)
    }

    /// Time at which the next transmission can start: `now` or later. During an outage, its end.
    #[inline]
    pub fn ready_at(&self, now: Timestamp) -> Timestamp {
        let ready = self.free_at.max(now);
        match &self.kind {
            Kind::Rate { segments, .. } if segments.has_outages => segments.outage_end(ready),
            _ => ready,
        }
    }

    /// Transmits a packet of `bytes` and returns the end of the transmission, when the transmitter is free again.
    ///
    /// If the transmitter is not [ready](Self::ready_at), the transmission starts as soon as it is.
    #[inline]
    pub fn transmit(&mut self, now: Timestamp, bytes: u32) -> Timestamp {
        let start = self.free_at.max(now);
        match &mut self.kind {
            Kind::Unlimited => start,
            Kind::Fixed { rate, credit } if bytes <= MAX_CHUNK => {
                let (work, spare) = work(bytes, if start == self.free_at { *credit } else { 0 });
                let nanos = work.div_ceil(*rate);
                *credit = nanos * *rate - work + spare;
                self.free_at = start + TimeDelta::from_nanos(nanos as i64);
                self.free_at
            }
            _ => self.transmit_at_changing_rate(now, bytes),
        }
    }

    fn transmit_at_changing_rate(&mut self, now: Timestamp, bytes: u32) -> Timestamp {
        if bytes > MAX_CHUNK {
            let end = self.transmit(now, MAX_CHUNK);
            return self.transmit(end, bytes - MAX_CHUNK);
        }
        let start = self.ready_at(now);
        match &mut self.kind {
            Kind::Rate { segments, credit, .. } => {
                let (mut work, spare) = work(bytes, if start == self.free_at { *credit } else { 0 });
                let mut at = start;
                loop {
                    if at >= segments.until {
                        segments.seek(at);
                    }
                    let rate = segments.rate.as_bps();
                    if rate == 0 && segments.until < Timestamp::MAX {
                        at = segments.until;
                        continue;
                    }
                    let rate = rate.max(1);
                    let nanos = work.div_ceil(rate);
                    let end = at + TimeDelta::from_nanos(nanos as i64);
                    if end <= segments.until {
                        *credit = nanos * rate - work + spare;
                        self.free_at = end;
                        return end;
                    }
                    // The segment ends before the packet, so the product is less than the work.
                    work -= (segments.until - at).as_nanos().unsigned_abs() * rate;
                    at = segments.until;
                }
            }
            Kind::Bucket(bucket) => {
                self.free_at = bucket.transmit(start, bytes);
                return self.free_at;
            }
            Kind::Unlimited | Kind::Fixed { .. } | Kind::Opportunities { .. } => {}
        }
        self.use_opportunities(start, bytes)
    }

    /// Rate at `now`; `None` if unlimited. For opportunities the mean rate, for a token bucket the token rate. During an outage
    /// the last rate before it, or the first after it: queues that measure their capacity in time keep it.
    pub fn rate(&mut self, now: Timestamp) -> Option<DataRate> {
        match &mut self.kind {
            Kind::Unlimited => None,
            Kind::Fixed { rate, .. } => Some(DataRate::from_bps(*rate)),
            Kind::Rate { queried, .. } => {
                queried.seek(now);
                let is_out = queried.rate == DataRate::ZERO;
                Some(if is_out { queried.rate_around(now) } else { queried.rate })
            }
            Kind::Bucket(bucket) => Some(bucket.rate()),
            Kind::Opportunities { at, bytes, .. } => {
                let period = at.last().copied().unwrap_or(Timestamp::ZERO) - Timestamp::ZERO;
                DataRate::of(DataSize::from_bytes(u64::from(*bytes)) * at.len() as u64, period)
            }
        }
    }

    /// Skips the opportunities before `now` and sets `free_at` to the current one.
    fn find_opportunity(&mut self, now: Timestamp) {
        let Kind::Opportunities { at, bytes, index, round, left } = &mut self.kind else { return };
        let period = at.last().copied().unwrap_or(Timestamp::ZERO).as_nanos().max(1);
        let moment = |index: usize, round: u64| {
            let within = at.get(index).copied().unwrap_or(Timestamp::ZERO).as_nanos();
            Timestamp::from_nanos(round.saturating_mul(period).saturating_add(within))
        };
        let current_round = now.as_nanos() / period;
        if current_round > *round + 1 {
            // Skips whole rounds without a packet.
            (*index, *round, *left) = (0, current_round - 1, *bytes);
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

    /// Mahimahi's rule: an opportunity carries bytes of as many packets as fit. A packet may span several opportunities and
    /// leaves with its last byte.
    fn use_opportunities(&mut self, start: Timestamp, bytes: u32) -> Timestamp {
        let mut to_send = bytes;
        self.find_opportunity(start);
        loop {
            let end = self.free_at;
            let Kind::Opportunities { left, .. } = &mut self.kind else { return end };
            let sent = to_send.min(*left);
            (*left, to_send) = (*left - sent, to_send - sent);
            // Moves on if this opportunity is used up.
            self.find_opportunity(end);
            if to_send == 0 {
                return end;
            }
        }
    }

    /// Discards the opportunities before `now`.
    #[inline]
    pub(super) fn skip_unused_opportunities(&mut self, now: Timestamp) {
        if self.free_at < now && matches!(self.kind, Kind::Opportunities { .. }) {
            self.find_opportunity(now);
        }
    }
}

/// The work to transmit a packet of `bytes` if `saved` was done before, and what is left of `saved`. A rounding error is saved only
/// if there was no pause; it exceeds the work of a packet only if packets take less than a nanosecond.
#[inline]
fn work(bytes: u32, saved: u64) -> (u64, u64) {
    let whole = u64::from(bytes) * WORK_PER_BYTE;
    (whole.saturating_sub(saved), saved.saturating_sub(whole))
}

/// A forward cursor over the segments of constant rate.
#[derive(Debug, Clone)]
struct Segments {
    steps: Vec<(Timestamp, DataRate)>,
    period: Option<TimeDelta>,
    next: usize,
    round_start: Timestamp,
    rate: DataRate,
    until: Timestamp,
    /// Whether a rate is zero.
    has_outages: bool,
}

impl Segments {
    fn new(profile: &RateProfile) -> Self {
        let (steps, period) = match profile {
            RateProfile::Steps { steps, period } => (steps.clone(), *period),
            _ => (Vec::new(), None),
        };
        let rate = steps.first().map_or(DataRate::ZERO, |&(_, rate)| rate);
        let has_outages = steps.iter().any(|&(_, rate)| rate == DataRate::ZERO);
        let (round_start, until) = (Timestamp::ZERO, Timestamp::ZERO);
        let mut segments = Self { steps, period, next: 1, round_start, rate, until, has_outages };
        segments.until = segments.end_of_segment();
        segments
    }

    /// Advances to the segment that contains `now`.
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
    fn outage_end(&self, now: Timestamp) -> Timestamp {
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
    fn rate_around(&self, now: Timestamp) -> DataRate {
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
    fn rounding_errors_do_not_accumulate() {
        // 1000 B at 3 Mbit/s take 2 666 666.6… ns.
        let mut transmitter = Transmitter::new(&RateProfile::Fixed(DataRate::from_bps(3_000_000))).unwrap();
        let ends: Vec<u64> = (0..6).map(|_| transmitter.transmit(at(0), 1000).as_nanos()).collect();
        assert_eq!(ends, [2_666_667, 5_333_334, 8_000_000, 10_666_667, 13_333_334, 16_000_000]);
        // The rounding error is discarded after a pause.
        assert_eq!(transmitter.transmit(at(20_000_000), 1000), at(22_666_667));
    }

    #[test]
    fn integrates_a_rate_change_within_a_packet() {
        // 1000 B = 8000 bit: 4000 bit in 4 ms at 1 Mbit/s, the rest in 2 ms at 2 Mbit/s.
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
    fn opportunities_are_shared_or_lost_unused() {
        let moments = [1_000_000, 1_000_000, 3_000_000].map(at).to_vec();
        let profile = RateProfile::Opportunities { at: moments, bytes: 1504 };
        let mut transmitter = Transmitter::new(&profile).unwrap();
        assert_eq!(transmitter.ready_at(at(0)), at(1_000_000));
        // Two packets of 752 B share an opportunity; 1600 B need the second one at 1 ms and a part of the one at 3 ms.
        let ends: Vec<u64> = [752, 752, 1600]
            .iter()
            .map(|&bytes| transmitter.transmit(at(1_000_000), bytes).as_nanos())
            .collect();
        assert_eq!(ends, [1_000_000, 1_000_000, 3_000_000]);
        // The rest of the opportunity at 3 ms is lost by 3.5 ms; the next round begins at 4 ms.
        transmitter.skip_unused_opportunities(at(3_500_000));
        assert_eq!(transmitter.ready_at(at(3_500_000)), at(4_000_000));
        assert_eq!(transmitter.transmit(at(4_000_000), 1504), at(4_000_000));
        transmitter.skip_unused_opportunities(at(1_000_000_000));
        assert_eq!(transmitter.ready_at(at(1_000_000_000)), at(1_000_000_000));
        assert_eq!(profile.capacity(at(6_000_000)), Some(DataSize::from_bytes(6 * 1504)));
        assert_eq!(transmitter.rate(at(0)), Some(DataRate::from_bps(12_032_000)));
    }

    #[test]
    fn an_outage_pauses_a_transmission() {
        // 1000 B at 1 Mbit/s take 8 ms; the outage lasts from 4 ms to 14 ms.
        let profile = steps(&[(0, 1_000_000), (4_000_000, 0), (14_000_000, 2_000_000)], None);
        let mut transmitter = Transmitter::new(&profile).unwrap();
        assert_eq!(transmitter.transmit(at(0), 1000), at(16_000_000));
        assert_eq!(profile.capacity(at(14_000_000)), Some(DataSize::from_bytes(500)));
        assert_eq!(profile.capacity(at(16_000_000)), Some(DataSize::from_bytes(1000)));
        // The rate for queues is the last one above zero.
        let mut rate_at = |now| transmitter.rate(at(now)).unwrap().as_bps();
        assert_eq!([rate_at(5_000_000), rate_at(14_000_000)], [1_000_000, 2_000_000]);
    }

    #[test]
    fn a_transmission_begins_after_an_outage() {
        let profile = steps(&[(0, 0), (2_000_000, 8_000_000), (4_000_000, 0)], Some(10_000_000));
        let mut transmitter = Transmitter::new(&profile).unwrap();
        let ready = |transmitter: &Transmitter, now| transmitter.ready_at(at(now)).as_nanos();
        // The first rate above zero begins at 2 ms and, after the outage at the end of the period, at 12 ms.
        let times = [0, 2_000_000, 3_999_999, 4_000_000, 11_000_000, 12_500_000];
        assert_eq!(
            times.map(|now| ready(&transmitter, now)),
            [2_000_000, 2_000_000, 3_999_999, 12_000_000, 12_000_000, 12_500_000]
        );
        assert_eq!(transmitter.rate(at(1_000_000)), Some(DataRate::from_bps(8_000_000)));
        assert_eq!(transmitter.rate(at(11_000_000)), Some(DataRate::from_bps(8_000_000)));
        // 1000 B take 1 ms, so two fit into 2 ms and the third waits for the next round.
        let ends: Vec<u64> = (0..3).map(|_| transmitter.transmit(at(0), 1000).as_nanos()).collect();
        assert_eq!(ends, [3_000_000, 4_000_000, 13_000_000]);
    }

    #[test]
    fn a_rate_that_is_zero_for_ever_is_rejected() {
        let message = |profile: RateProfile| profile.check().unwrap_err().to_string();
        assert!(message(steps(&[(0, 0), (5, 0)], Some(10))).contains("above 0 bit/s, found \"0 bit/s\""));
        assert_eq!(
            message(steps(&[(0, 1), (5_000_000_000, 0)], None)),
            "rate is 0 bit/s for ever from 5.000000000 s on: end the outage with a later rate above 0 bit/s"
        );
        assert_eq!(steps(&[(0, 1), (5, 0)], Some(10)).check(), Ok(()));
        assert_eq!(steps(&[(0, 0), (5, 1)], None).check(), Ok(()));
    }

    #[test]
    fn rejects_invalid_profiles() {
        let message = |profile: RateProfile| profile.check().unwrap_err().to_string();
        assert!(message(RateProfile::Fixed(DataRate::ZERO)).contains("above 0 bit/s, found \"0 bit/s\""));
        assert!(message(steps(&[], None)).contains("no rates"));
        assert!(
            message(steps(&[(5_000_000_000, 1), (3_000_000_000, 1)], None))
                .contains("time runs backwards, from 5.000000000 s to 3.000000000 s")
        );
        assert!(message(steps(&[(0, 1), (9, 1)], Some(9))).contains("it repeats after 9 ns"));
        let never = RateProfile::Opportunities { at: vec![at(0)], bytes: 1504 };
        assert!(message(never).contains("it repeats after 0 ns"));
    }

    #[test]
    fn the_rate_is_that_of_now_during_a_transmission() {
        // The transmission ends at 6 ms; the rate changes at 4 ms.
        let profile = steps(&[(0, 1_000_000), (4_000_000, 2_000_000)], None);
        let mut transmitter = Transmitter::new(&profile).unwrap();
        transmitter.transmit(at(0), 1000);
        let mut rate_at = |now| transmitter.rate(at(now)).unwrap().as_bps();
        assert_eq!(
            [rate_at(1_000_000), rate_at(3_999_999), rate_at(4_000_000)],
            [1_000_000, 1_000_000, 2_000_000]
        );
    }

    #[test]
    fn packets_below_a_nanosecond_add_up() {
        // 100 B at 4 Tbit/s take 0.2 ns.
        let rate = DataRate::from_bps(4_000_000_000_000);
        let mut transmitter = Transmitter::new(&RateProfile::Fixed(rate)).unwrap();
        let ends: Vec<u64> = (0..10).map(|_| transmitter.transmit(at(0), 100).as_nanos()).collect();
        assert_eq!(ends, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn the_largest_packet_is_timed_correctly_at_any_rate() {
        // 2^32 − 1 bytes are 34 359 738 360 bit.
        for (bps, nanos) in [(1_000_000_000, 34_359_738_360), (1_000_000_000_000, 34_359_739), (u64::MAX, 2)]
        {
            let rate = RateProfile::Fixed(DataRate::from_bps(bps));
            assert_eq!(Transmitter::new(&rate).unwrap().transmit(at(0), u32::MAX), at(nanos), "{bps}");
        }
        // 1089 years at 1 bit/s exceed the range of 2^64 ns, 584 years.
        let slow = RateProfile::Fixed(DataRate::from_bps(1));
        assert_eq!(Transmitter::new(&slow).unwrap().transmit(at(0), u32::MAX), Timestamp::MAX);
    }

    #[test]
    fn skips_idle_rounds_in_constant_time() {
        let profile = steps(&[(0, 1_000_000_000), (1, 2_000_000_000)], Some(3));
        let mut transmitter = Transmitter::new(&profile).unwrap();
        let hour = 3_600_000_000_000;
        let mut rate_at = |now| transmitter.rate(at(now)).unwrap().as_bps();
        assert_eq!(
            [rate_at(hour), rate_at(hour + 1), rate_at(2 * hour + 2)],
            [1_000_000_000, 2_000_000_000, 2_000_000_000]
        );
    }
}
