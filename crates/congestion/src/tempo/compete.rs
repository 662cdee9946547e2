//! Law: take a fair share beside flows that fill the queue.
//!
//! A shadow of CUBIC (RFC 9438): the window that CUBIC would have with our losses, as a rate over the round-trip time. It ends when
//! sending more delivers no more (the queue is ours), and, with a memory of the rival's own backing off, when the queue stays empty.

use giusto_units::{DataSize, TimeDelta, Timestamp, math};

use super::path::Path;

/// RFC 9438 §4.1: `C`, in segments per cubic second, and `β_cubic`. `α_cubic` of its Reno-friendly region (§4.3).
const C: f64 = 0.4;
const BETA: f64 = 0.7;
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// A segment, in bits: a full packet of media.
const SEGMENT: f64 = 1250.0 * 8.0;
/// Most growth over the window in one step of the shadow.
const MAX_STEP: f64 = 1.5;

/// A queue that is shorter by this, two packets and a twentieth of the round trip than within [`MEMORY`] has shrunk: of eight calls one
/// that tests yields about a tenth.
const SHRINKS: TimeDelta = TimeDelta::from_millis(20);
const MEMORY: TimeDelta = TimeDelta::from_seconds(1);
/// What a loss does to the queue is seen within a round trip and this: the window of the queue, and a second report of losses.
const AFTER_LOSS: TimeDelta = TimeDelta::from_millis(300);

/// The shadow window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compete {
    since: Timestamp,
    /// Window, its maximum before the latest reduction, and the Reno estimate at it; in bits.
    window: f64,
    max: f64,
    reno: f64,
    /// Window after the latest reduction (`cwnd_epoch` of §4.2), and its time.
    epoch: f64,
    reduced: Timestamp,
    /// Time of the latest loss.
    lost: Option<Timestamp>,
    /// The longest queue of the latest second and round trip, and its time.
    peak: (TimeDelta, Timestamp),
    /// Time at which the queue was last seen standing.
    busy: Timestamp,
    /// Window and delivery rate at the begin.
    first: f64,
    delivered: f64,
    /// Longest time in which the queue was empty and stood again.
    gap: TimeDelta,
    /// Time after which the test comes, besides ten round trips.
    interval: TimeDelta,
}

/// What follows from a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Competed {
    /// It goes on.
    NotYet,
    /// The queue has been empty for so long that nobody fills it.
    Gone,
    /// It is time to see whether the queue is ours, or more was sent and no more arrived.
    Test,
}

impl Compete {
    /// Begins with this window, in bits.
    pub(super) fn new(path: &Path, window: f64, interval: TimeDelta) -> Self {
        Self {
            since: path.now,
            window,
            max: window,
            reno: window,
            epoch: window,
            reduced: path.now,
            lost: None,
            peak: (path.queue(), path.now),
            busy: path.now,
            first: window,
            delivered: path.delivered_long,
            gap: TimeDelta::ZERO,
            interval,
        }
    }

    /// Goes on after a test that found others. The shadow went on meanwhile: a test costs no window, and many do not keep it from growing.
    pub(super) fn resume(&self, path: &Path, interval: TimeDelta) -> Self {
        Self {
            since: path.now,
            busy: path.now,
            peak: (path.queue(), path.now),
            first: self.window,
            delivered: path.delivered_long,
            interval,
            ..*self
        }
    }

    /// Window with which to begin beside a rival, in bits.
    pub(super) fn first_window(before: f64, capacity: f64, path: &Path) -> f64 {
        (0.6 * before).min(1.3 * capacity).max(capacity) * path.rtt.as_seconds()
    }

    /// The window, in bits.
    pub(super) fn window(&self) -> f64 {
        self.window
    }

    /// Time after which the test came.
    pub(super) fn interval(&self) -> TimeDelta {
        self.interval
    }

    /// The rate after this step, in bit/s, and what follows. `usual_loss`: the share that is lost whatever we do. `max`: the highest rate.
    pub(super) fn step(&mut self, path: &Path, rate: f64, usual_loss: f64, max: f64) -> (f64, Competed) {
        let rtt = path.rtt.as_seconds().max(0.005);
        let now = path.now;
        if path.is_lost_now
            && now.saturating_since(self.reduced) > path.rtt
            && path.loss.ratio > 1.5 * usual_loss
        {
            // Fast convergence (§4.7).
            self.max = if self.window < self.max { self.window * (1.0 + BETA) / 2.0 } else { self.window };
            self.window *= BETA;
            self.reno = self.window;
            self.epoch = self.window;
            self.reduced = now;
        }
        let t = now.saturating_since(self.reduced).as_seconds();
        let k = math::cbrt((self.max - self.epoch).max(0.0) / SEGMENT / C);
        let cubic = C * (t - k) * (t - k) * (t - k) * SEGMENT + self.max;
        let reno = self.reno + ALPHA * SEGMENT * t / rtt;
        let next = cubic.max(reno).min(self.window * MAX_STEP);
        if rate < 1.7 * path.delivered_long + 60_000.0 {
            self.window = self.window.max(next);
        }
        self.window = self.window.clamp(2.0 * SEGMENT, (max * rtt).max(2.0 * SEGMENT));
        (self.window / rtt, self.judge(path))
    }

    fn judge(&mut self, path: &Path) -> Competed {
        let now = path.now;
        let empty = now.saturating_since(self.busy);
        if path.is_congested() {
            self.gap = self.gap.max(empty);
            self.busy = now;
        }
        let since = now.saturating_since(self.since);
        let is_alone = since > TimeDelta::from_millis(500) + path.rtt * 2
            && self.window > 1.3 * self.first
            && path.delivered_long < 1.08 * self.delivered;
        // A rival that backs off lets the queue run empty for some round trips, and comes back.
        if empty > TimeDelta::from_millis(1000) + path.base_rtt * 4 + self.gap * 2 {
            return Competed::Gone;
        }
        let due = self.interval + path.base_rtt * 10;
        let joins = self.someone_yields(path) && since > due / 2;
        if path.is_congested() && (is_alone || joins || since > due) {
            return Competed::Test;
        }
        Competed::NotYet
    }

    /// Whether the queue shrinks although we have lost nothing: a call like us tests. Tests tell only if all calls that took each other for
    /// rivals yield together, so this one joins. A CUBIC or Reno sender yields at a loss, when the queue is full and we lose as well.
    fn someone_yields(&mut self, path: &Path) -> bool {
        let (now, queue) = (path.now, path.queue());
        if path.is_lost_now {
            self.lost = Some(now);
        }
        let (peak, since) = self.peak;
        if queue >= peak || now.saturating_since(since) > MEMORY + path.rtt {
            self.peak = (queue, now);
            return false;
        }
        let is_ours = self.lost.is_some_and(|lost| now.saturating_since(lost) <= path.rtt + AFTER_LOSS);
        peak - queue > SHRINKS.max(path.rtt / 20).max(path.packet_time * 2) && !is_ours
    }
}

/// A packet of the shadow.
pub(super) const fn segment() -> DataSize {
    DataSize::from_bytes(1250)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: TimeDelta = TimeDelta::from_seconds(1);

    #[test]
    fn the_window_is_that_of_cubic() {
        let start = Timestamp::ZERO + SECOND;
        let mut now = Path {
            now: start,
            rtt: TimeDelta::from_millis(100),
            queue: Some(SECOND / 10),
            ..Path::example()
        };
        // 50 segments, of which a loss leaves 35. K = cbrt(50 × 0.3 / 0.4) = 3.35 s.
        let mut compete = Compete::new(&now, 50.0 * SEGMENT, SECOND * 100);
        now.now = start + SECOND;
        now.is_lost_now = true;
        now.loss.ratio = 0.01;
        let (rate, _) = compete.step(&now, 1e6, 0.0, 1e9);
        let window = rate * 0.1 / SEGMENT;
        assert!((window - 35.0).abs() < 0.1, "{window}");
        now.is_lost_now = false;
        // W(t) = 0.4 (t - 3.35)³ + 50, at least 35 + 0.53 t / RTT: after 1 s 44.8 against 40.3, after 3.35 s 50 against 52.7.
        for (time, expected) in [(1.0, 44.8), (3.35, 52.7)] {
            now.now = start + SECOND + TimeDelta::from_seconds_f64(time);
            now.delivered_long = 1e9;
            let (rate, _) = compete.step(&now, 1e6, 0.0, 1e9);
            let window = rate * 0.1 / SEGMENT;
            assert!((window - expected).abs() < 0.2, "{time} {window}");
        }
        // A test lasts 2 s and costs no window: 0.4 (t - 3.35)³ + 50 and 35 + 0.53 t / RTT are 60.7 and 64.2 at 5.5 s.
        now.now = start + SECOND + TimeDelta::from_seconds_f64(5.5);
        let mut resumed = compete.resume(&now, SECOND * 100);
        let (rate, _) = resumed.step(&now, 1e6, 0.0, 1e9);
        let window = rate * 0.1 / SEGMENT;
        assert!((window - 64.2).abs() < 0.2, "{window}");
        // A second loss below the maximum: 0.7 of the window, and K = cbrt((54.6 - 44.9) / 0.4) = 2.89 s with fast convergence.
        now.now += SECOND;
        now.is_lost_now = true;
        resumed.max = 100.0 * SEGMENT;
        resumed.step(&now, 1e6, 0.0, 1e9);
        let (max, epoch) = (resumed.max / SEGMENT, resumed.epoch / SEGMENT);
        assert!((max / epoch - 0.85 / 0.7).abs() < 1e-6, "{max} {epoch}");
        // A loss that is usual does not count.
        now.is_lost_now = true;
        let (before, _) = compete.step(&now, 1e6, 0.02, 1e9);
        let (after, _) = compete.step(&now, 1e6, 0.02, 1e9);
        assert!(after >= before);
    }

    /// Time of the first test, in ms, of a call that takes part in a full queue: `queue(ms)` in ms, and whether a packet is lost then.
    fn first_test(queue: impl Fn(i64) -> (i64, bool)) -> i64 {
        let start = Path { queue: Some(SECOND / 5), ..Path::example() };
        let mut compete = Compete::new(&start, 10.0 * SEGMENT, SECOND * 4);
        let mut steps = (0..200).map(|step| step * 50);
        let test = steps.find(|&time| {
            let (queue, is_lost_now) = queue(time);
            let queue = Some(TimeDelta::from_millis(queue));
            // More arrives as more is sent: the queue is not ours alone.
            let delivered_long = 1e6 + time as f64 * 1e4;
            let now = start.now + TimeDelta::from_millis(time);
            compete.step(&Path { now, queue, delivered_long, is_lost_now, ..start }, 1e5, 0.0, 1e9).1
                == Competed::Test
        });
        test.unwrap()
    }

    #[test]
    fn a_call_joins_the_test_of_another_one() {
        // Alone: 4 s and ten round trips of 50 ms.
        assert_eq!(first_test(|_| (200, false)), 4550);
        // From 3 s on another one yields: the queue shrinks by 100 ms in a second.
        let shrinks = |time: i64| 200 - (time - 3000).clamp(0, 600) / 10;
        let time = first_test(|time| (shrinks(time), false));
        assert!((3200..=3300).contains(&time), "{time}");
        // Before half of its own time it does not.
        let early = first_test(|time| (200 - (time - 500).clamp(0, 3000) / 20, false));
        assert!((2250..=2350).contains(&early), "{early}");
        // After a loss the queue shrinks anyway.
        let lost = first_test(|time| (shrinks(time), (3000..=3600).contains(&time)));
        assert!(lost > 3900, "{lost}");
    }

    #[test]
    fn it_tests_who_fills_the_queue_and_goes_when_nobody_does() {
        let start = Path { queue: Some(SECOND / 10), ..Path::example() };
        let outcome = |queue: fn(i64) -> i64| {
            let mut compete = Compete::new(&start, 10.0 * SEGMENT, SECOND * 2);
            (0..200)
                .map(|step| {
                    let time = TimeDelta::from_millis(step * 50);
                    let queue = Some(TimeDelta::from_millis(queue(step * 50)));
                    let now = Path {
                        now: start.now + time,
                        queue,
                        delivered_long: 1e6 + step as f64 * 1e5,
                        ..start
                    };
                    (step * 50, compete.step(&now, 1e5, 0.0, 1e9).1)
                })
                .find(|&(_, next)| next != Competed::NotYet)
        };
        // 2 s and ten round trips of 50 ms.
        assert_eq!(outcome(|_| 100), Some((2550, Competed::Test)));
        // 1 s and four round trips without a queue.
        assert_eq!(outcome(|_| 0), Some((1250, Competed::Gone)));
        // A rival empties the queue for 0.6 s of each 1.2 s: it stays.
        let (time, next) = outcome(|time| if time / 600 % 2 == 0 { 100 } else { 0 }).unwrap();
        assert!(next == Competed::Test && time > 2500, "{time}");
    }
}
