//! Law: take a fair share beside flows that fill the queue.
//!
//! A shadow of CUBIC (RFC 9438): the window that CUBIC would have with our losses, as a rate over the round-trip time, but at most
//! half of what frames show as the capacity for all. It ends when sending more delivers no more (the queue is ours), and, with a
//! memory of the rival's own backing off, when the queue stays empty.

use giusto_units::{DataSize, TimeDelta, Timestamp, math};

use super::{frames::Passage, path::Path, sharing::Share};

/// RFC 9438 §4.1: `C`, in segments per cubic second, and `β_cubic`. `α_cubic` of its Reno-friendly region (§4.3).
const C: f64 = 0.4;
const BETA: f64 = 0.7;
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// A share of losses reduces the window by this times itself more, and at most to this. `CUBIC` is clocked by what arrives, so it loses a packet or
/// two where it meets the end of the queue. A rate that is above what is left goes on losing: with 5 %, beside one `CUBIC` connection, every
/// fifth frame.
const BETA_OF_LOSS: f64 = 8.0;
const MIN_BETA: f64 = 0.3;
/// A segment, in bits: a full packet of media.
const SEGMENT: f64 = 1250.0 * 8.0;
/// At most this part of the bottleneck: above its share, a steady rate meets the end of the queue again and again, and loses frames.
const HELD: f64 = 0.5;
/// Time constant of what frames show of the bottleneck, and how much of it is enough; in seconds in which frames let others pass.
const FORGOTTEN: f64 = 4.0;
const ENOUGH: f64 = 0.5;
/// Pacing over the rate: trains must be faster than what we have of a busy bottleneck.
pub(super) const PACING: f64 = 2.0;
/// Most growth over the window in one step of the shadow.
const MAX_STEP: f64 = 1.5;

giusto_units::defaults! {
    /// The shadow window.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Compete {
        since: Timestamp = path.now,
        /// Window, its maximum before the latest reduction, and the Reno estimate at it; in bits.
        window: f64 = window,
        max: f64 = window,
        reno: f64 = window,
        /// Window after the latest reduction (`cwnd_epoch` of §4.2), and its time.
        epoch: f64 = window,
        reduced: Timestamp = path.now,
        /// Time at which the queue was last seen standing.
        busy: Timestamp = path.now,
        /// Window and delivery rate at the begin.
        first: f64 = window,
        delivered: f64 = path.delivered_long,
        /// Longest time in which the queue was empty and stood again.
        gap: TimeDelta = TimeDelta::ZERO,
        /// Time after which the test comes, besides ten round trips.
        interval: TimeDelta = interval,
        share: Share = Share::default(),
    }
    /// Begins with this window, in bits.
    pub(super) fn new(path: &Path, window: f64, interval: TimeDelta);
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
    /// Goes on after a test that found others. The shadow went on meanwhile: a test costs no window, and many do not keep it from growing.
    pub(super) fn resume(&self, path: &Path, interval: TimeDelta) -> Self {
        Self {
            since: path.now,
            busy: path.now,
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

    /// Handles a frame that passed the busy bottleneck.
    pub(super) fn on_frame(&mut self, frame: &Passage) {
        self.share.on_frame(frame, FORGOTTEN);
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
            // Who sends above what is left loses more than the one packet of a full queue.
            let excess = path.loss.ratio - usual_loss;
            self.window *= (BETA - BETA_OF_LOSS * excess.max(0.0)).max(MIN_BETA);
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
        let most = self.share.capacity(ENOUGH).map_or(max, |capacity| max.min(HELD * capacity));
        self.window = self.window.clamp(2.0 * SEGMENT, (most * rtt).max(2.0 * SEGMENT));
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
        if path.is_congested() && (is_alone || since > due) {
            return Competed::Test;
        }
        Competed::NotYet
    }
}

/// A packet of the shadow.
pub(super) const fn segment() -> DataSize {
    DataSize::from_bytes(1250)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ms, near, within};

    const SECOND: TimeDelta = TimeDelta::from_seconds(1);

    #[test]
    fn the_window_is_that_of_cubic() {
        let start = Timestamp::ZERO + SECOND;
        let mut now = Path { now: start, rtt: ms(100), queue: Some(ms(100)), ..Path::example() };
        // 50 segments, of which a loss leaves 35. K = cbrt(50 × 0.3 / 0.4) = 3.35 s.
        let mut compete = Compete::new(&now, 50.0 * SEGMENT, SECOND * 100);
        now.now = start + SECOND;
        now.is_lost_now = true;
        now.loss.ratio = 1e-9;
        near(compete.step(&now, 1e6, 0.0, 1e9).0 * 0.1 / SEGMENT, 35.0, 0.1);
        now.is_lost_now = false;
        // W(t) = 0.4 (t - 3.35)³ + 50, at least 35 + 0.53 t / RTT: after 1 s 44.8 against 40.3, after 3.35 s 50 against 52.7.
        for (time, expected) in [(1.0, 44.8), (3.35, 52.7)] {
            now.now = start + SECOND + TimeDelta::from_seconds_f64(time);
            now.delivered_long = 1e9;
            near(compete.step(&now, 1e6, 0.0, 1e9).0 * 0.1 / SEGMENT, expected, 0.2);
        }
        // A test lasts 2 s and costs no window: 0.4 (t - 3.35)³ + 50 and 35 + 0.53 t / RTT are 60.7 and 64.2 at 5.5 s.
        now.now = start + SECOND + TimeDelta::from_seconds_f64(5.5);
        let mut resumed = compete.resume(&now, SECOND * 100);
        near(resumed.step(&now, 1e6, 0.0, 1e9).0 * 0.1 / SEGMENT, 64.2, 0.2);
        // A second loss below the maximum: 0.7 of the window, and K = cbrt((54.6 - 44.9) / 0.4) = 2.89 s with fast convergence.
        now.now += SECOND;
        now.is_lost_now = true;
        resumed.max = 100.0 * SEGMENT;
        resumed.step(&now, 1e6, 0.0, 1e9);
        near(resumed.max / resumed.epoch, 0.85 / 0.7, 1e-6);
        // A loss that is usual does not count.
        now.is_lost_now = true;
        let (before, _) = compete.step(&now, 1e6, 0.02, 1e9);
        let (after, _) = compete.step(&now, 1e6, 0.02, 1e9);
        assert!(after >= before);
    }

    #[test]
    fn it_holds_half_of_a_bottleneck_that_frames_show() {
        // 1 Mbit/s of a link of 4, which leaves at 2: frames of 20 000 bits take 10 ms to leave and 12.5 to arrive.
        let frame = Passage { period: 0.02, ..Passage::example(0.01, 0.0125, 20_000.0) };
        let held = |frames| {
            let mut path = Path { queue: Some(SECOND / 10), ..Path::example() };
            let mut compete = Compete::new(&path, 40.0 * SEGMENT, SECOND * 100);
            path.delivered_long = 1e6;
            (0..frames).for_each(|_| compete.on_frame(&frame));
            (0..60).fold(0.0, |_, _| {
                path.now += path.step;
                compete.step(&path, 1e6, 0.0, 1e9).0
            })
        };
        near(held(54), 2e6, 1e3);
        // Before, 40 segments in 50 ms and the growth of CUBIC.
        within(held(53), 8e6..);
    }

    #[test]
    fn a_larger_share_of_losses_reduces_the_window_by_more() {
        let window = |ratio: f64, usual: f64| {
            let mut path = Path { queue: Some(SECOND / 10), is_lost_now: true, ..Path::example() };
            path.loss.ratio = ratio;
            let mut compete = Compete::new(&path, 100.0 * SEGMENT, SECOND * 100);
            path.now += SECOND;
            compete.step(&path, 1e6, usual, 1e9);
            compete.window() / SEGMENT
        };
        // 0.7 less eight times the share that is above the usual, and at least 0.3.
        for (ratio, usual, expected) in [(0.02, 0.0, 54.0), (0.03, 0.01, 54.0), (0.2, 0.0, 30.0)] {
            near(window(ratio, usual), expected, 1e-9);
        }
    }

    #[test]
    fn it_tests_who_fills_the_queue_and_goes_when_nobody_does() {
        let start = Path { queue: Some(SECOND / 10), ..Path::example() };
        let outcome = |queue: fn(i64) -> i64| {
            let mut compete = Compete::new(&start, 10.0 * SEGMENT, SECOND * 2);
            (0..200)
                .map(|step| {
                    let (queue, delivered_long) = (Some(ms(queue(step * 50))), 1e6 + step as f64 * 1e5);
                    let now = Path { now: start.now + ms(step * 50), queue, delivered_long, ..start };
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
