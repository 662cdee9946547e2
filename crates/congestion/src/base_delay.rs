//! The base delay of a path, from two clocks with unknown offset (RFC 6817 §2.4.2, A.2).

use alloc::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

/// Maximum skew of the remote clock: 100 ppm for each clock (RFC 6817 A.2, RFC 5905).
const MAX_SKEW: f64 = 200e-6;
/// Maximum distance of the minima from a line, in seconds. A growing queue or a different path does not
/// follow a line.
const STRAIGHT: f64 = 2e-3;
/// Minimum number of minima for a line.
const LINE: usize = 3;

/// The minimum of the delay over several periods.
///
/// If the remote clock is slow, each sample is a new minimum, which is correct. If it is fast, the delay appears to grow, by 60 ms in
/// ten minutes at 100 ppm. The slope of a line through the minima is therefore regarded as skew (RFC 6817 A.2, "Skew correction with
/// estimating drift"), if the minima lie on a line that is no steeper than the maximum skew.
#[derive(Debug, Clone)]
pub(crate) struct BaseDelay {
    period: TimeDelta,
    count: usize,
    /// Minimum of each period and its time, the latest last.
    minima: VecDeque<(Timestamp, TimeDelta)>,
    /// Begin of the latest period.
    begin: Timestamp,
    /// Skew of the remote clock: seconds per second, at least zero.
    skew: f64,
}

impl BaseDelay {
    /// The minimum of `count` periods, the latest included.
    pub(crate) fn new(period: TimeDelta, count: usize) -> Self {
        Self { period, count, minima: VecDeque::new(), begin: Timestamp::ZERO, skew: 0.0 }
    }

    /// Handles the `delay` of a packet at `now`, which never runs backwards.
    pub(crate) fn on_sample(&mut self, now: Timestamp, delay: TimeDelta) {
        let periods = now.saturating_since(self.begin).as_nanos() / self.period.as_nanos();
        if periods >= self.count as i64 {
            // The pause was so long that all stored minima are out of date.
            self.minima.clear();
        }
        if periods > 0 || self.minima.is_empty() {
            self.begin = now;
            self.skew = self.line();
            self.minima.push_back((now, delay));
            if self.minima.len() > self.count {
                self.minima.pop_front();
            }
        } else if let Some(min) = self.minima.back_mut().filter(|min| delay < min.1) {
            *min = (now, delay);
        }
    }

    /// The delay of a packet without queueing at `now`. `None` before the first sample.
    pub(crate) fn get(&self, now: Timestamp) -> Option<TimeDelta> {
        let since = |at| TimeDelta::from_seconds_f64(now.saturating_since(at).as_seconds() * self.skew);
        self.minima.iter().map(|&(at, min)| min + since(at)).min()
    }

    /// Forgets all samples: they cannot be compared with those to come.
    pub(crate) fn clear(&mut self) {
        self.minima.clear();
    }

    /// The slope of the line through the minima, or zero.
    fn line(&self) -> f64 {
        let (Some(&(first, offset)), true) = (self.minima.front(), self.minima.len() >= LINE) else {
            return 0.0;
        };
        let points = || {
            self.minima
                .iter()
                .map(|&(at, min)| (at.saturating_since(first).as_seconds(), (min - offset).as_seconds()))
        };
        let count = self.minima.len() as f64;
        let (x, y) = points().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
        let (mut squares, mut products) = (0.0, 0.0);
        for point in points() {
            squares += (point.0 - x) * (point.0 - x);
            products += (point.0 - x) * (point.1 - y);
        }
        if squares <= 0.0 {
            return 0.0;
        }
        let slope = products / squares;
        let straight = points().all(|point| (point.1 - y - slope * (point.0 - x)).abs() <= STRAIGHT);
        if straight && slope <= MAX_SKEW { slope.max(0.0) } else { 0.0 }
    }
}
