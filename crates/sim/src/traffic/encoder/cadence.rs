//! Times of frames: an exact grid, or varying intervals.

use std::fmt;

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use giusto_session::media::{Frame, Payload, RateRange};

use super::{
    error::SourceError,
    frame::{FRAME_MIN, LATENESS_MAX},
};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Frames per second, with a resolution of 0.001.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameRate {
    millihertz: u32,
}

impl Default for FrameRate {
    /// 30 Hz (RFC 8593 §5, Figure 2).
    fn default() -> Self {
        Self::HZ_30
    }
}

impl FrameRate {
    /// 25 frames per second.
    pub const HZ_25: Self = Self { millihertz: 25_000 };
    /// 30 frames per second.
    pub const HZ_30: Self = Self { millihertz: 30_000 };

    /// `hertz` frames per second, rounded to 0.001.
    ///
    /// # Errors
    ///
    /// [`SourceError::FrameRate`] outside 1 to 1000 Hz.
    pub fn from_hertz(hertz: f64) -> Result<Self, SourceError> {
        let millihertz = (hertz * 1e3).round();
        if (1e3..=1e6).contains(&millihertz) {
            Ok(Self { millihertz: millihertz as u32 })
        } else {
            Err(SourceError::FrameRate(hertz))
        }
    }

    /// Frames per second.
    pub fn as_hertz(self) -> f64 {
        f64::from(self.millihertz) / 1e3
    }

    /// The time from one frame to the next, rounded down to the nanosecond.
    pub fn interval(self) -> TimeDelta {
        TimeDelta::from_nanos(1_000_000_000_000 / i64::from(self.millihertz))
    }

    /// A frame's share of `rate`, exactly: in units of which a byte has
    /// [`share_of_a_byte`](Self::share_of_a_byte).
    #[expect(clippy::unused_self, reason = "the unit of the answer depends on it")]
    pub(super) fn share(self, rate: DataRate) -> i128 {
        i128::from(rate.as_bps()) * 1_000
    }

    pub(super) fn share_of_a_byte(self) -> i128 {
        8 * i128::from(self.millihertz)
    }

    /// Checks that the lowest rate gives at least the minimum frame size.
    pub(super) fn check(self, limits: RateRange) -> Result<(), SourceError> {
        if self.share(limits.min()) < i128::from(FRAME_MIN.as_bytes()) * self.share_of_a_byte() {
            return Err(SourceError::FrameTooSmall { rate: limits.min(), hertz: self.as_hertz() });
        }
        Ok(())
    }

    pub(super) fn period(self) -> Period {
        Period { numerator: 1_000 * NANOS_PER_SECOND, denominator: u128::from(self.millihertz) }
    }
}

impl fmt::Display for FrameRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz", self.as_hertz())
    }
}

/// An interval in nanoseconds, as a fraction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Period {
    numerator: u128,
    denominator: u128,
}

impl Period {
    /// The time that `size` takes at `rate`.
    pub(super) fn of(size: DataSize, rate: DataRate) -> Result<Self, SourceError> {
        let period = Self {
            numerator: u128::from(size.as_bits()) * NANOS_PER_SECOND,
            denominator: u128::from(rate.as_bps()),
        };
        let sized = (1..=65_535).contains(&size.as_bytes());
        let paced = (1_000..=3_600 * NANOS_PER_SECOND)
            .contains(&period.numerator.checked_div(period.denominator).unwrap_or(0));
        if sized && paced { Ok(period) } else { Err(SourceError::Packets { size, rate }) }
    }

    pub(super) fn of_time(time: TimeDelta) -> Result<Self, SourceError> {
        let nanos = time.as_nanos();
        if (1_000_000..=1_000_000_000).contains(&nanos) {
            Ok(Self { numerator: nanos as u128, denominator: 1 })
        } else {
            let (what, range) = ("packet time in ms", "1 to 1000");
            Err(SourceError::Parameter { what, found: time.as_millis(), range })
        }
    }
}

/// The clock of a source: due times, numbers and timestamps of frames.
#[derive(Debug, Clone)]
pub(super) struct Cadence {
    period: Period,
    clock: u32,
    start: u64,
    due: u64,
    /// The rounding remainder of `due`, over the period's denominator.
    remainder: u128,
    latest: Timestamp,
    paused: bool,
    /// The next time exceeds the range of timestamps.
    ended: bool,
}

impl Cadence {
    /// The first frame is due at `start`; timestamps count `clock` units per second.
    pub(super) fn new(start: Timestamp, period: Period, clock: u32) -> Self {
        let due = start.as_nanos();
        Self {
            period,
            clock,
            start: due,
            due,
            remainder: 0,
            latest: Timestamp::ZERO,
            paused: false,
            ended: false,
        }
    }

    /// `now`, or the latest time seen if that is later.
    pub(super) fn observe(&mut self, now: Timestamp) -> Timestamp {
        self.latest = self.latest.max(now);
        self.latest
    }

    pub(super) fn next_frame_at(&self) -> Option<Timestamp> {
        (!self.paused && !self.ended).then_some(Timestamp::from_nanos(self.due))
    }

    /// Whether a frame is due at `now`, which has been observed. Skips frames that are too old.
    pub(super) fn is_due(&mut self, now: Timestamp) -> bool {
        if self.paused || self.ended {
            return false;
        }
        let Some(behind) = now.as_nanos().checked_sub(self.due) else { return false };
        let Period { numerator, denominator } = self.period;
        let bearable = (LATENESS_MAX.as_nanos() as u128 * denominator).max(numerator);
        let excess = (u128::from(behind) * denominator).saturating_sub(bearable);
        if excess > 0 {
            self.forward(excess.div_ceil(numerator) * numerator);
        }
        true
    }

    /// The due frame; [`advance`](Self::advance) moves to the next one.
    pub(super) fn frame(&self, bytes: u64, key: bool) -> Frame {
        let since = u128::from(self.due - self.start);
        Frame {
            captured: Timestamp::from_nanos(self.due),
            media_timestamp: (since * u128::from(self.clock) / NANOS_PER_SECOND) as u32,
            payload: Payload::zeros(DataSize::from_bytes(bytes)),
            key,
        }
    }

    /// Advances to the next frame on the exact grid.
    pub(super) fn advance(&mut self) {
        self.forward(self.period.numerator);
    }

    /// Advances by `factor` periods, at least by a nanosecond.
    pub(super) fn advance_by(&mut self, factor: f64) {
        let steps = (self.period.numerator as f64 * factor).round() as u128;
        self.forward(steps.max(self.period.denominator));
    }

    fn forward(&mut self, steps: u128) {
        let steps = self.remainder + steps;
        self.remainder = steps % self.period.denominator;
        let next =
            u64::try_from(steps / self.period.denominator).ok().and_then(|nanos| self.due.checked_add(nanos));
        self.ended = next.is_none();
        self.due = next.unwrap_or(u64::MAX);
    }

    /// Pauses or resumes. Returns whether the source has resumed.
    pub(super) fn set_paused(&mut self, now: Timestamp, paused: bool) -> bool {
        let now = self.observe(now).as_nanos();
        let resumed = self.paused && !paused;
        if resumed && now > self.due {
            (self.due, self.remainder) = (now, 0);
        }
        self.paused = paused;
        resumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thirty() -> Cadence {
        Cadence::new(Timestamp::from_nanos(500), FrameRate::HZ_30.period(), 90_000)
    }

    #[test]
    fn fractions_of_a_nanosecond_are_not_lost() {
        let mut cadence = thirty();
        for _ in 0..30 * 3600 {
            cadence.advance();
        }
        assert_eq!(cadence.next_frame_at(), Some(Timestamp::from_nanos(3_600_000_000_500)));
        let hour = cadence.frame(1, false);
        assert_eq!(hour.media_timestamp, 324_000_000);
        let ntsc = FrameRate::from_hertz(29.97).unwrap();
        assert_eq!(ntsc.interval(), TimeDelta::from_nanos(33_366_700));
    }

    /// When the frames that are due at `now` were captured.
    fn captured(cadence: &mut Cadence, now: Timestamp) -> Vec<u64> {
        let next = || {
            let captured = cadence.is_due(now).then(|| cadence.frame(1, false).captured.as_nanos())?;
            cadence.advance();
            Some(captured)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_late_poll_returns_frames_of_the_last_100_ms() {
        // Frames 298, 299 and 300 were due in the last 100 ms before 10.01 s. A slow source has its last frame at any time.
        let mut slow = Cadence::new(Timestamp::ZERO, FrameRate::from_hertz(1.0).unwrap().period(), 90_000);
        let expected = [9_933_333_833, 9_966_667_166, 10_000_000_500];
        assert_eq!(captured(&mut thirty(), Timestamp::from_nanos(10_010_000_000)), expected);
        assert_eq!(captured(&mut slow, Timestamp::from_nanos(7_900_000_000)), [7_000_000_000]);
        // There are no frames after the end of time.
        let mut cadence = thirty();
        assert!((1..=4).contains(&captured(&mut cadence, Timestamp::MAX).len()));
        assert_eq!(cadence.next_frame_at(), None);
    }

    #[test]
    fn a_pause_shifts_the_grid() {
        let mut cadence = thirty();
        cadence.advance();
        let early = Timestamp::from_nanos(1_000);
        assert!(!cadence.set_paused(early, false), "it was not paused");
        cadence.set_paused(early, true);
        assert_eq!(cadence.next_frame_at(), None);
        assert!(cadence.set_paused(early, false));
        assert_eq!(cadence.next_frame_at(), Some(Timestamp::from_nanos(33_333_833)));
        cadence.set_paused(early, true);
        let late = Timestamp::from_nanos(9_000_000_000);
        assert!(!cadence.is_due(late));
        cadence.set_paused(late, false);
        assert_eq!(cadence.next_frame_at(), Some(late));
    }

    #[test]
    fn invalid_frame_rates_are_rejected() {
        for hertz in [0.0, -25.0, 0.5, 1001.0, f64::NAN, f64::INFINITY] {
            assert!(FrameRate::from_hertz(hertz).is_err(), "{hertz}");
        }
        assert_eq!(FrameRate::from_hertz(29.97).unwrap().to_string(), "29.97 Hz");
        assert_eq!(FrameRate::from_hertz(50.0).unwrap(), FrameRate { millihertz: 50_000 });
    }
}
