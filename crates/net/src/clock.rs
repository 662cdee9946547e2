//! The clock of all timestamps, and the conversion of the kernel's receive timestamps to it.

use crate::sys;
use giusto_units::{NANOS_PER_SECOND, TimeDelta, Timestamp};
use nix::{
    sys::time::TimeSpec,
    time::{ClockId, clock_gettime},
};

/// The local clock: `CLOCK_MONOTONIC`, counted from its creation. It never steps; network time only adjusts
/// its speed.
///
/// # Example
///
/// ```
/// let clock = giusto_net::Clock::start();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    origin_monotonic: u64,
    origin_realtime: u64,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        let origin_monotonic = monotonic_nanos();
        let mut offset = OffsetBounds::sample();
        for _ in 0..7 {
            offset = offset.intersection(OffsetBounds::sample()).unwrap_or(offset);
        }
        Self { origin_monotonic, origin_realtime: origin_monotonic.saturating_add_signed(offset.middle()) }
    }

    /// The time since the clock began. One read takes about 25 ns and no system call.
    pub fn now(self) -> Timestamp {
        Timestamp::from_nanos(monotonic_nanos().saturating_sub(self.origin_monotonic))
    }

    /// Time 0 on `CLOCK_REALTIME`: nanoseconds since 1970.
    pub const fn origin_realtime_nanos(self) -> u64 {
        self.origin_realtime
    }

    /// Time 0 on `CLOCK_MONOTONIC`: nanoseconds since about the boot.
    pub const fn origin_monotonic_nanos(self) -> u64 {
        self.origin_monotonic
    }

    /// Time 0 as an instant of the standard library, for libraries that take these.
    #[expect(clippy::disallowed_methods, reason = "this crate reads the clock")]
    pub fn origin_instant(self) -> std::time::Instant {
        let instant = std::time::Instant::now();
        let since = std::time::Duration::from_nanos(self.now().as_nanos());
        instant.checked_sub(since).unwrap_or(instant)
    }

    /// A time on `CLOCK_MONOTONIC`, for absolute sleeps.
    pub(crate) fn monotonic(self, at: Timestamp) -> TimeSpec {
        let nanos = self.origin_monotonic.saturating_add(at.as_nanos());
        TimeSpec::new((nanos / NANOS_PER_SECOND) as _, (nanos % NANOS_PER_SECOND) as _)
    }

    /// The accuracy of the system's clock according to the kernel. One-way delays between machines depend on
    /// it.
    ///
    /// # Errors
    ///
    /// The kernel's error; a sandbox may forbid the call.
    pub fn synchronisation() -> std::io::Result<sys::Synchronisation> {
        sys::clock_discipline()
    }

    /// The time of day on the system's clock, `CLOCK_REALTIME`, on which the kernel timestamps arrivals: nanoseconds since 1970.
    /// Unlike [`now`](Self::now) it may be set at any time.
    pub fn time_of_day_nanos() -> u64 {
        read(ClockId::CLOCK_REALTIME)
    }
}

fn nanos(time: TimeSpec) -> u64 {
    u64::try_from(time.tv_sec()).unwrap_or(0) * NANOS_PER_SECOND + u64::try_from(time.tv_nsec()).unwrap_or(0)
}

pub(crate) fn read(id: ClockId) -> u64 {
    // These clocks exist on every Linux. On a kernel without them the clock stands still.
    clock_gettime(id).map_or(0, nanos)
}

fn monotonic_nanos() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Lower and upper bound of `CLOCK_REALTIME − CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OffsetBounds {
    low: i64,
    high: i64,
}

impl OffsetBounds {
    /// One reading of the real-time clock between two of the monotonic clock.
    fn sample() -> Self {
        let before = monotonic_nanos();
        let real = read(ClockId::CLOCK_REALTIME);
        let after = monotonic_nanos();
        // Readings are truncated to a nanosecond: hence one nanosecond on either side.
        Self { low: signed(real) - signed(after) - 1, high: signed(real) - signed(before) + 1 }
    }

    fn intersection(self, other: Self) -> Option<Self> {
        let both = Self { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }

    fn middle(self) -> i64 {
        self.low + (self.high - self.low) / 2
    }

    /// The distance between the two; 0 where they overlap.
    fn distance(self, other: Self) -> i64 {
        (self.low - other.high).max(other.low - self.high).max(0)
    }
}

fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

/// Converts the kernel's receive timestamps from `CLOCK_REALTIME` to the local clock.
///
/// A time service changes the speed of both clocks equally, so their difference is constant until the time is
/// *set*. Each [`refresh`](Self::refresh) takes one reading of the real-time clock between two of the
/// monotonic clock and narrows the bounds of that difference. A reading outside the bounds is a step; then
/// the difference is measured again. After a step the socket's queue still contains timestamps from before
/// it: the previous difference is kept for them.
#[derive(Debug, Clone)]
pub struct StampConverter {
    clock: Clock,
    current: OffsetBounds,
    /// The difference before the last step.
    previous: Option<i64>,
    refreshed: Timestamp,
    steps: u32,
}

impl StampConverter {
    /// Minimum time between two readings of the real-time clock.
    const REFRESH: TimeDelta = TimeDelta::from_millis(1);
    /// A smaller distance between bounds is noise between the counters of two processors, not a step.
    const NOISE_NANOS: i64 = 1_000;
    /// Timestamps further in the future than this are rejected.
    const FUTURE_NANOS: i64 = 20_000;

    /// A converter to `clock`.
    pub fn new(clock: Clock) -> Self {
        let mut converter = Self {
            clock,
            current: OffsetBounds::sample(),
            previous: None,
            refreshed: Timestamp::ZERO,
            steps: 0,
        };
        for _ in 0..7 {
            converter.learn(OffsetBounds::sample());
        }
        converter.refreshed = clock.now();
        converter
    }

    /// Checks whether the real-time clock was set. Call it once for each batch, with the time at which the batch was read; it
    /// reads the clock at most once per millisecond, which takes about 75 ns.
    pub fn refresh(&mut self, now: Timestamp) {
        if now.saturating_since(self.refreshed) >= Self::REFRESH {
            self.refreshed = now;
            self.learn(OffsetBounds::sample());
        }
    }

    fn learn(&mut self, sample: OffsetBounds) {
        if let Some(narrower) = self.current.intersection(sample) {
            self.current = narrower;
            return;
        }
        if self.current.distance(sample) > Self::NOISE_NANOS {
            self.previous = Some(self.current.middle());
            self.steps += 1;
        }
        self.current = sample;
    }

    /// The time of the timestamp `realtime_nanos`, for a datagram that was read at `now`.
    ///
    /// After a step both differences are tried, and the later result that is not in the future is used. This
    /// is correct for every datagram that was queued for less time than the size of the step. The result is
    /// never later than `now`.
    pub fn convert(&self, realtime_nanos: u64, now: Timestamp) -> Timestamp {
        let latest = signed(now.as_nanos()).saturating_add(Self::FUTURE_NANOS);
        let ours = |offset: i64| {
            signed(realtime_nanos).saturating_sub(offset).saturating_sub(signed(self.clock.origin_monotonic))
        };
        let moment = [Some(self.current.middle()), self.previous]
            .into_iter()
            .flatten()
            .map(ours)
            .filter(|&moment| moment <= latest)
            .max()
            .unwrap_or(latest);
        Timestamp::from_nanos(u64::try_from(moment).unwrap_or(0)).min(now)
    }

    /// The width of the bounds of the difference: twice the largest error of a conversion.
    pub fn uncertainty(&self) -> TimeDelta {
        TimeDelta::from_nanos(self.current.high - self.current.low)
    }

    /// The number of steps of the real-time clock.
    pub const fn steps(&self) -> u32 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converter() -> StampConverter {
        StampConverter {
            clock: Clock { origin_monotonic: 1_000, origin_realtime: 51_000 },
            current: OffsetBounds { low: 49_900, high: 50_100 },
            previous: None,
            refreshed: Timestamp::ZERO,
            steps: 0,
        }
    }

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn the_clock_is_monotonic_and_has_an_origin() {
        let clock = Clock::start();
        let (first, second) = (clock.now(), clock.now());
        assert!(first <= second);
        assert!(clock.origin_realtime_nanos() > 1_600_000_000 * NANOS_PER_SECOND);
        assert!(clock.origin_monotonic_nanos() <= monotonic_nanos());
    }

    #[test]
    fn samples_narrow_the_clock_difference() {
        let mut converter = converter();
        converter.learn(OffsetBounds { low: 49_990, high: 50_200 });
        converter.learn(OffsetBounds { low: 49_000, high: 50_010 });
        assert_eq!(converter.current, OffsetBounds { low: 49_990, high: 50_010 });
        assert_eq!(converter.uncertainty(), TimeDelta::from_nanos(20));
        assert_eq!(converter.convert(151_000, at(200_000)), at(100_000));
        assert_eq!(converter.steps(), 0);
    }

    #[test]
    fn a_step_of_the_real_time_clock_does_not_move_timestamps() {
        const STEP: i64 = 3_600_000_000_000;
        for step in [STEP, -STEP / 8_000_000] {
            let mut converter = converter();
            converter.learn(OffsetBounds { low: 49_900 + step, high: 50_100 + step });
            assert_eq!(converter.steps(), 1);
            let stamped_before = 50_000 + 1_000 + 700_000_u64;
            let stamped_after = stamped_before.saturating_add_signed(step) + 50_000;
            let now = at(790_000);
            assert_eq!(converter.convert(stamped_before, now), at(700_000), "step {step}");
            assert_eq!(converter.convert(stamped_after, now), at(750_000), "step {step}");
        }
    }

    #[test]
    fn a_timestamp_is_never_later_than_its_reading() {
        let converter = converter();
        assert_eq!(converter.convert(151_010, at(100_000)), at(100_000));
        assert_eq!(converter.convert(u64::MAX, at(5)), at(5));
        assert_eq!(converter.convert(0, at(5)), Timestamp::ZERO);
    }

    #[test]
    fn a_converted_time_is_between_adjacent_readings() {
        let clock = Clock::start();
        let mut converter = StampConverter::new(clock);
        let before = clock.now();
        let stamp = read(ClockId::CLOCK_REALTIME);
        let after = clock.now();
        converter.refresh(after);
        let width = converter.uncertainty();
        let moment = converter.convert(stamp, after);
        assert!(moment >= before - width && moment <= after + width, "{before} {moment} {after} {width}");
    }

    #[test]
    fn the_kernel_reports_its_clock_synchronisation() {
        match Clock::synchronisation() {
            Ok(state) => assert!(!state.synchronised || state.maximum_error_us < 16_000_000, "{state:?}"),
            Err(error) => eprintln!("skip: clock synchronisation: {error}"),
        }
    }
}
