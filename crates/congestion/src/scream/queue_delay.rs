//! How long packets queue on the path, from clocks that agree on nothing but their pace (RFC 6817 §2.4.2, §3.1).

use std::collections::VecDeque;

use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

/// So many minima are kept, one of each minute (RFC 6817 §2.4.2; §2.5, `BASE_HISTORY`).
const BASE_HISTORY: usize = 10;
/// RFC 6817 §2.4.2.
const MINUTE: TimeDelta = TimeDelta::from_seconds(60);
/// How much faster the far clock can be: 100 ppm each (RFC 6817 A.2, RFC 5905).
const MOST_SKEW: f64 = 200e-6;
/// Minima lie on the line of a skew if none is further from it: a queue that grows, or another path, does not keep to a line.
const STRAIGHT: f64 = 2e-3;
/// From so many minima on there is a line.
const LINE: usize = 3;
/// What feedback can be wrong by: its steps, 1/1024 s in RFC 8888 and 1/90000 s in the draft's message, and a clock that is corrected.
const INEXACT: TimeDelta = TimeDelta::from_millis(10);

/// The one-way delay less the least that was seen in ten minutes.
///
/// A sample is not filtered (RFC 8298 §4.1.2: "No smoothing of the qdelay is performed").
///
/// # Clocks that disagree
///
/// - Where the far clock runs slow, each sample is a new least one, and nothing is wrong. Where it runs fast, the delay seems to
///   grow, by 60 ms in ten minutes at 100 ppm. So the slope of a line through the minima is taken for skew (RFC 6817 A.2, "Skew
///   correction with estimating drift"), if they lie on one that is no steeper than clocks can be.
/// - No packet queues for longer than the round trip of which its way is a part. Where it seems to, a clock has jumped, and the base
///   delay is learned anew. This rule is ours.
#[derive(Debug, Clone, Default)]
pub(super) struct QueueDelay {
    /// The least of each minute and when it was seen, the latest last.
    minima: VecDeque<(Timestamp, TimeDelta)>,
    minute: Timestamp,
    /// How much faster the far clock is: seconds a second, never below zero.
    skew: f64,
}

impl QueueDelay {
    /// A packet left at `sent` and arrived at `arrival`; heard at `now`, which never runs backwards. Gives how long it queued.
    pub(super) fn on_packet(&mut self, now: Timestamp, sent: Timestamp, arrival: PeerTimestamp) -> TimeDelta {
        let delay = -arrival.apparent_delay(sent);
        let minutes = now.saturating_since(self.minute).as_nanos() / MINUTE.as_nanos();
        if minutes >= BASE_HISTORY as i64 {
            // Idle for so long that nothing that is remembered holds.
            self.minima.clear();
        }
        let queued = self.base(now).map(|base| delay - base);
        if queued.is_some_and(|queued| queued > now.saturating_since(sent) + INEXACT) {
            self.minima.clear();
        }
        if minutes > 0 || self.minima.is_empty() {
            self.minute = now;
            self.skew = self.line();
            self.minima.push_back((now, delay));
            if self.minima.len() > BASE_HISTORY {
                self.minima.pop_front();
            }
        } else if let Some(least) = self.minima.back_mut().filter(|least| delay < least.1) {
            *least = (now, delay);
        }
        (delay - self.base(now).unwrap_or(delay)).max(TimeDelta::ZERO)
    }

    /// The delay of a packet that does not queue, as it would seem at `now`.
    fn base(&self, now: Timestamp) -> Option<TimeDelta> {
        let since = |at| TimeDelta::from_seconds_f64(now.saturating_since(at).as_seconds() * self.skew);
        self.minima.iter().map(|&(at, least)| least + since(at)).min()
    }

    /// The slope of the line through the minima, or none.
    fn line(&self) -> f64 {
        let (Some(&(first, offset)), true) = (self.minima.front(), self.minima.len() >= LINE) else {
            return 0.0;
        };
        let points = || {
            self.minima
                .iter()
                .map(|&(at, least)| (at.saturating_since(first).as_seconds(), (least - offset).as_seconds()))
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
        if straight && slope <= MOST_SKEW { slope.max(0.0) } else { 0.0 }
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    /// Sent at a second, and queued for so many milliseconds behind 25 ms and a clock that is a day ahead.
    fn queued(delay: &mut QueueDelay, second: u64, millis: u64) -> f64 {
        let sent = Timestamp::from_nanos(second * 1_000_000_000);
        let day = 86_400_000_000_000;
        let arrival = PeerTimestamp::from_nanos(sent.as_nanos() + day + (25 + millis) * 1_000_000);
        delay.on_packet(sent + TimeDelta::from_millis(100), sent, arrival).as_millis()
    }

    #[test]
    fn it_is_what_exceeds_the_least() {
        let mut delay = QueueDelay::default();
        let told: Vec<f64> =
            [30, 0, 40, 7].into_iter().zip(0..).map(|(ms, second)| queued(&mut delay, second, ms)).collect();
        assert_eq!(told, [0.0, 0.0, 40.0, 7.0]);
    }

    #[test]
    fn a_longer_path_is_the_base_after_ten_minutes_and_not_before() {
        let mut delay = QueueDelay::default();
        queued(&mut delay, 0, 0);
        // The minima of ten minutes are kept: that of the first leaves with the eleventh.
        let first_zero = (1..1000).find(|&second| queued(&mut delay, second, 50) == 0.0);
        assert!(first_zero.is_some_and(|second| (540..=610).contains(&second)), "{first_zero:?}");
    }

    #[test]
    fn after_a_long_idle_time_it_begins_anew() {
        let mut delay = QueueDelay::default();
        queued(&mut delay, 0, 0);
        assert_eq!(queued(&mut delay, 599, 20), 20.0);
        let mut delay = QueueDelay::default();
        queued(&mut delay, 0, 0);
        assert_eq!(queued(&mut delay, 601, 20), 0.0);
    }

    /// The queue delay of each second of an hour, in milliseconds, with a far clock that is `ppm` faster; a picture queues for
    /// `queued` milliseconds.
    fn with_skew(ppm: f64, queued: impl Fn(u64) -> f64) -> Vec<f64> {
        let mut delay = QueueDelay::default();
        let told = |second: u64| {
            let sent = Timestamp::from_nanos(second * 1_000_000_000);
            let nanos = sent.as_nanos() as f64 * (1.0 + ppm * 1e-6) + 25e6 + queued(second) * 1e6;
            let arrival = PeerTimestamp::from_nanos(3_600_000_000_000 + nanos as u64);
            delay.on_packet(sent + TimeDelta::from_millis(200), sent, arrival).as_millis()
        };
        (0..3600).map(told).collect()
    }

    #[test]
    fn a_far_clock_that_is_fast_is_seen_through_and_one_that_is_slow_does_no_harm() {
        for ppm in [-100.0, -20.0, 0.0, 20.0, 100.0, 190.0] {
            let told = with_skew(ppm, |second| (second % 5) as f64 * 10.0);
            let worst = |from: usize, residue: usize| {
                let of = told.iter().enumerate().skip(from).filter(|(second, _)| second % 5 == residue);
                of.map(|(_, &ms)| ms).fold((f64::MAX, 0.0_f64), |(low, high), ms| (low.min(ms), high.max(ms)))
            };
            // From when a line is known; before, three minutes at 190 ppm are 34 ms.
            let (low, high) = worst(240, 0);
            assert!(low >= 0.0 && high < 2.0, "{ppm} ppm: none is taken for {low} to {high} ms");
            let (low, high) = worst(240, 4);
            assert!(low > 38.0 && high < 42.0, "{ppm} ppm: 40 ms are taken for {low} to {high} ms");
        }
    }

    #[test]
    fn a_queue_that_grows_is_not_taken_for_skew() {
        // 30 ms a minute are more than clocks do: 500 ppm.
        let told = with_skew(0.0, |second| second.min(300) as f64 / 2.0);
        assert!((told[300] - 150.0).abs() < 0.1, "{}", told[300]);
        // Ten a minute by leaps and bounds: no line.
        let told =
            with_skew(0.0, |second| [0.0, 15.0, 12.0, 30.0, 36.0, 55.0][(second / 60).min(5) as usize]);
        assert!((told[400] - 55.0).abs() < 0.1, "{}", told[400]);
    }

    #[test]
    fn a_clock_that_jumps_is_no_queue() {
        for jump in [1_000_000_000, 3_600_000_000_000_i64, -1_000_000_000] {
            let mut delay = QueueDelay::default();
            let mut told = |second: u64, millis: i64, jump: i64| {
                let sent = Timestamp::from_nanos(second * 1_000_000_000);
                let nanos = sent.as_nanos() as i64 + 36_000_000_000_000 + (25 + millis) * 1_000_000 + jump;
                let arrival = PeerTimestamp::from_nanos(nanos as u64);
                delay.on_packet(sent + TimeDelta::from_millis(150), sent, arrival).as_millis()
            };
            assert_eq!((told(0, 0, 0), told(1, 90, 0), told(2, 5, 0)), (0.0, 90.0, 5.0));
            // Begun anew with what came first.
            assert_eq!((told(3, 0, jump), told(4, 70, jump), told(5, 3, jump)), (0.0, 70.0, 3.0), "{jump}");
        }
    }

    #[test]
    fn extremes_do_no_harm() {
        let mut delay = QueueDelay::default();
        for (sent, arrival) in [(0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX), (0, 0)] {
            let told = delay.on_packet(
                Timestamp::MAX,
                Timestamp::from_nanos(sent),
                PeerTimestamp::from_nanos(arrival),
            );
            assert!(told >= TimeDelta::ZERO);
        }
    }
}
