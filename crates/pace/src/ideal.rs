//! The ideal send times, and a clock that does not run backwards: shared by the schedules.

use core::num::{NonZeroU64, NonZeroU128};

use giusto_units::{DataRate, DataSize, NANOS_PER_SECOND, TimeDelta, Timestamp};

use super::LateCycles;

const BITS_NANOS_PER_BYTE: u64 = 8 * NANOS_PER_SECOND;

/// Send times of an ideal sender: the next data is due at `begin + bits · 10⁹ / rate` nanoseconds, where
/// `bits` is the data counted since `begin`.
///
/// The fraction of a nanosecond is kept as a remainder over the rate, so that no time is lost, however many
/// steps there are.
#[derive(Debug, Clone)]
pub(super) struct IdealLine {
    bps: NonZeroU64,
    begun: bool,
    /// Whole nanoseconds.
    nanos: u64,
    /// The remainder, in units of `1 / bps` nanoseconds; below `bps`.
    rest: u64,
    /// Size and duration of the latest step. Kept because most cycles have the same size and divisions are
    /// slow.
    size: DataSize,
    span: Span,
    clock: Forward,
    skipped: u64,
}

/// A time of `nanos + rest / bps` nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    nanos: u64,
    rest: u64,
}

impl IdealLine {
    /// A line of rate `bps` bit/s, starting at `start` or, without it, at [`Self::begin`].
    pub(super) fn new(bps: NonZeroU64, start: Option<Timestamp>) -> Self {
        let (size, span, clock) = (DataSize::ZERO, Span::default(), Forward::default());
        let mut line = Self { bps, begun: false, nanos: 0, rest: 0, size, span, clock, skipped: 0 };
        if let Some(start) = start {
            line.begin(start);
        }
        line
    }

    pub(super) fn rate(&self) -> DataRate {
        DataRate::from_bps(self.bps.get())
    }

    /// Restarts at `start`.
    pub(super) fn begin(&mut self, start: Timestamp) {
        (self.begun, self.nanos, self.rest) = (true, start.as_nanos(), 0);
    }

    /// `now`, or the latest time before if that is later. The line starts at it unless it has started.
    pub(super) fn on_time(&mut self, now: Timestamp) -> Timestamp {
        let now = self.clock.clamp(now);
        if !self.begun {
            self.begin(now);
        }
        now
    }

    /// The same, without a start.
    pub(super) fn clamp(&mut self, now: Timestamp) -> Timestamp {
        self.clock.clamp(now)
    }

    /// How often time ran backwards.
    pub(super) fn reversals(&self) -> u64 {
        self.clock.reversals()
    }

    /// Due time of the next data, rounded up to the nanosecond: never too early.
    pub(super) fn due(&self) -> Timestamp {
        Timestamp::from_nanos(self.nanos.saturating_add(u64::from(self.rest > 0)))
    }

    /// Counts `size` and returns by how much the due time moves. The sum of the steps is exact: fractions of a nanosecond are
    /// not lost.
    pub(super) fn step(&mut self, size: DataSize) -> TimeDelta {
        let before = self.due();
        self.advance(size);
        self.due() - before
    }

    /// Counts `size` and returns its duration in nanoseconds, rounded up.
    pub(super) fn advance(&mut self, size: DataSize) -> u64 {
        if size != self.size {
            (self.size, self.span) = (size, self.span_of(size));
        }
        self.nanos = self.nanos.saturating_add(self.span.nanos);
        // The sum of the remainders could exceed 64 bits; their distance to a whole nanosecond cannot.
        let missing = self.bps.get() - self.span.rest;
        if self.rest >= missing {
            self.rest -= missing;
            self.nanos = self.nanos.saturating_add(1);
        } else {
            self.rest += self.span.rest;
        }
        self.span.nanos + u64::from(self.span.rest > 0)
    }

    /// Counts `size` `times` over, at once.
    pub(super) fn advance_times(&mut self, size: DataSize, times: u64) {
        let bps = NonZeroU128::from(self.bps);
        let work = u128::from(size.as_bytes()) * u128::from(BITS_NANOS_PER_BYTE);
        let work = work.saturating_mul(u128::from(times)).saturating_add(u128::from(self.rest));
        self.nanos = self.nanos.saturating_add(u64::try_from(work / bps).unwrap_or(u64::MAX));
        self.rest = (work % bps) as u64;
    }

    /// How many times `size` fits between the due time of the next data and `now`, exactly.
    pub(super) fn times_until(&self, now: Timestamp, size: DataSize) -> u64 {
        let late = u128::from(now.as_nanos().saturating_sub(self.nanos)) * u128::from(self.bps.get());
        let late = late.saturating_sub(u128::from(self.rest));
        let work = u128::from(size.as_bytes()) * u128::from(BITS_NANOS_PER_BYTE);
        late.checked_div(work).map_or(0, |times| u64::try_from(times).unwrap_or(u64::MAX))
    }

    /// How many packets are due before `end`, in cycles of `packets` that have `size` together.
    pub(super) fn packets_before(&self, end: Timestamp, size: DataSize, packets: u32) -> u64 {
        if self.due() >= end {
            return 0;
        }
        let last = Timestamp::from_nanos(end.as_nanos().saturating_sub(1));
        self.times_until(last, size).saturating_add(1).saturating_mul(u64::from(packets))
    }

    /// Nothing more is sent: these packets are skipped.
    pub(super) fn on_ended(&mut self, end: Timestamp, size: DataSize, packets: u32) {
        self.skipped = self.packets_before(end, size, packets);
    }

    /// What a schedule that follows the line counts.
    pub(super) fn late_cycles(&self) -> LateCycles {
        LateCycles {
            skipped_packets: self.skipped,
            clock_reversals: self.reversals(),
            ..LateCycles::default()
        }
    }

    fn span_of(&self, size: DataSize) -> Span {
        if let Some(work) = size.as_bytes().checked_mul(BITS_NANOS_PER_BYTE) {
            return Span { nanos: work / self.bps, rest: work % self.bps };
        }
        let bps = NonZeroU128::from(self.bps);
        let work = u128::from(size.as_bytes()) * u128::from(BITS_NANOS_PER_BYTE);
        // One less than the maximum, so that rounding up cannot overflow.
        let nanos = u64::try_from(work / bps).unwrap_or(u64::MAX).min(u64::MAX - 1);
        Span { nanos, rest: (work % bps) as u64 }
    }
}

/// The latest time passed in. Time that runs backwards counts as no time, and is counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Forward {
    latest: Timestamp,
    reversals: u64,
}

impl Forward {
    /// `now`, or the latest time before if that is later.
    pub(super) fn clamp(&mut self, now: Timestamp) -> Timestamp {
        if now < self.latest {
            self.reversals += 1;
        } else {
            self.latest = now;
        }
        self.latest
    }

    /// How often time ran backwards.
    pub(super) fn reversals(self) -> u64 {
        self.reversals
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(bps: u64) -> IdealLine {
        IdealLine::new(NonZeroU64::new(bps).unwrap(), Some(Timestamp::ZERO))
    }

    /// `bits · 10⁹ / bps`, rounded up, by wide arithmetic.
    fn exact(bytes: u128, bps: u64) -> u64 {
        u64::try_from((bytes * u128::from(BITS_NANOS_PER_BYTE)).div_ceil(u128::from(bps))).unwrap()
    }

    #[test]
    fn a_billion_cycles_have_no_drift() {
        // 1200 B at 7 Mbit/s take 1 371 428 4/7 ns: a rounded period would be off by 0.43 s at the end.
        const CYCLES: u64 = 1_000_000_000;
        let size = DataSize::from_bytes(1200);
        let mut jumped = line(7_000_000);
        jumped.advance_times(size, CYCLES - 1000);
        for _ in 0..1000 {
            jumped.advance(size);
        }
        assert_eq!(jumped.due().as_nanos(), exact(1200 * u128::from(CYCLES), 7_000_000));
        assert_eq!(jumped.due().as_nanos(), 1_371_428_571_428_572);
    }

    proptest! {
        #[test]
        fn steps_of_any_sizes_add_up_exactly(
            bps in 1_u64..=u64::MAX,
            sizes in prop::collection::vec(0_u64..1_000_000_000, 0..200),
        ) {
            prop_assume!(bps > 1000);
            let mut line = line(bps);
            for &size in &sizes {
                line.advance(DataSize::from_bytes(size));
            }
            let total: u64 = sizes.iter().sum();
            prop_assume!(u128::from(total) * 8_000_000_000 / u128::from(bps) < u128::from(u64::MAX) / 2);
            prop_assert_eq!(line.due().as_nanos(), exact(u128::from(total), bps));
        }

        #[test]
        fn counted_times_end_at_or_before_now(
            bps in 1000_u64..1_000_000_000_000, size in 1_u64..100_000, first in 0_u64..100_000, now in 0_u64..1 << 50,
        ) {
            let mut line = line(bps);
            line.advance(DataSize::from_bytes(first));
            let (size, now) = (DataSize::from_bytes(size), Timestamp::from_nanos(now));
            prop_assume!(line.due() <= now);
            let times = line.times_until(now, size);
            line.advance_times(size, times);
            prop_assert!(line.due() <= now);
            line.advance(size);
            prop_assert!(line.due() > now);
        }

        #[test]
        fn nothing_overflows(bps: u64, sizes: Vec<u64>, times: u64, now: u64) {
            prop_assume!(bps > 0);
            let mut line = line(bps);
            for size in sizes {
                line.advance(DataSize::from_bytes(size));
                line.advance_times(DataSize::from_bytes(size), times);
                line.times_until(Timestamp::from_nanos(now), DataSize::from_bytes(size));
            }
            line.due();
        }
    }
}
