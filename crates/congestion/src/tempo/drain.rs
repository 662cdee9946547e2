//! Law: drain a standing queue.
//!
//! While a queue stands, what arrives is the capacity. The media gets that capacity less what empties the queues of network and sender
//! within a horizon, so that both shrink exponentially. The horizon is at least the reaction time, so the loop is stable: a first-order
//! loop with a dead time below its time constant (gain × dead time ≤ 1 < π/2). A queue that stays although we yield is not ours.

use giusto_units::{TimeDelta, Timestamp, math};

use super::path::Path;

/// Time constant of draining: the round trip and the window of the queue, at least one and a half of these windows.
const WINDOW: TimeDelta = TimeDelta::from_millis(100);
const HORIZON: TimeDelta = TimeDelta::from_millis(150);
/// Least share of the capacity for the media: the encoder keeps running.
const LEAST: f64 = 0.15;
/// Share of the capacity with which growth begins again. Together with [`grow`](super::grow) it sets the period of the sawtooth.
pub(super) const AFTER: f64 = 0.97;
/// The same share of the rate before beside others, and the most of what arrived.
const BESIDE: f64 = 0.9;
const BESIDE_MOST: f64 = 1.2;
/// The window of the delivery rate, before which it contains what arrived earlier, and the growth of the queue in it that counts.
const SETTLING: TimeDelta = TimeDelta::from_millis(200);
const RISE: TimeDelta = TimeDelta::from_millis(3);
/// Packets leave at this share of the capacity at most, and so does the media: alone we empty 100 ms of queue in a second.
const YIELD: f64 = 0.9;
/// A queue that shrinks by less than half of that is held by others. A late-comer that took the queue for its base delay has seen by then
/// that it is none.
const PROGRESS: f64 = 0.4;
/// A path is slower if less than this share of the delivery rate is left. Others who grow do not take so much at once.
const SLOWER: f64 = 0.5;
/// A call that begins doubles its rate each reaction time until there is a queue, which may be longer than what it takes for its base
/// delay, and then drains as we do: that is over within two seconds. A rival stays.
const PATIENCE: TimeDelta = TimeDelta::from_seconds(2);
/// What has not moved for so long may be a longer route: it takes more to say that others hold it.
const STILL: TimeDelta = TimeDelta::from_millis(800);
/// The patience if others were there lately.
const SHORT_PATIENCE: TimeDelta = TimeDelta::from_millis(300);
/// Time constant with which it is forgotten that queues grew while we yielded, in seconds.
const FORGOTTEN: f64 = 10.0;
/// A delay that is within this of its lowest for half of the time while we yield is no queue: the route has become longer. Queues of others
/// move by packets, and a capacity that varies fills one on a longer route as well.
const FLAT: TimeDelta = TimeDelta::from_millis(2);

/// What follows from a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drained {
    /// The queue stands.
    NotYet,
    /// The queue is empty.
    Empty,
    /// Others hold the queue.
    Rival,
    /// There is no queue: the base delay has become longer.
    LongerRoute,
}

giusto_units::defaults! {
    /// A time of draining.
    #[derive(Debug, Clone)]
    pub(super) struct Drain {
        /// The rate before, in bit/s.
        before: f64 = rate,
        began: Timestamp = path.now,
        since: Timestamp = path.now,
        /// What arrived while the queue grew, in bit/s.
        capacity: f64 = path.delivered,
        /// An earlier queue, and its time.
        previous: TimeDelta = path.queue(),
        compared: Timestamp = path.now,
        /// The highest queue from an earlier time on, below which it must shrink, and the delivery rate then.
        progress: (Timestamp, TimeDelta) = (path.now, path.queue()),
        reference: f64 = path.delivered,
        /// Whether the path has become slower meanwhile.
        is_slower: bool = false,
        floor: Floor = Floor::new(path),
        /// What this queue and earlier ones said of others; for how long a queue that stays is ours, by what the earlier ones said.
        others: Others = others,
        patience: TimeDelta = others.patience(path),
        /// The queue at the begin of `progress`.
        level: TimeDelta = path.queue(),
    }
    /// Begins with the rate that led to the queue, and what earlier queues said of others.
    pub(super) fn new(path: &Path, rate: f64, others: Others);
}

/// The time in which queues grew while we yielded, times the share of our capacity that we gave up, in seconds. It shortens the patience: the
/// sawtooth of a TCP connection may leave the queue empty for a moment more often than that lasts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Others {
    seen: f64,
    latest: Timestamp,
}

impl Others {
    /// What is left of it.
    pub(super) fn after(self, now: Timestamp) -> Self {
        let time = now.saturating_since(self.latest).as_seconds();
        Self { seen: self.seen * math::exp(-time / FORGOTTEN), latest: now }
    }

    /// The patience with a queue that stays.
    fn patience(self, path: &Path) -> TimeDelta {
        let seen = TimeDelta::from_seconds_f64(self.seen);
        (PATIENCE + path.base_rtt - seen).max(SHORT_PATIENCE)
    }
}

/// A time in which the queue falls no lower than a floor.
#[derive(Debug, Clone, Copy)]
struct Floor {
    since: Timestamp,
    lowest: TimeDelta,
    /// Time near the lowest.
    near: TimeDelta,
}

impl Floor {
    fn new(path: &Path) -> Self {
        Self { since: path.now, lowest: path.queue(), near: TimeDelta::ZERO }
    }

    /// For how long the queue has been flat.
    fn step(&mut self, path: &Path) -> TimeDelta {
        let queue = path.queue();
        if path.is_lost_now || queue + FLAT < self.lowest {
            *self = Self::new(path);
        }
        self.lowest = self.lowest.min(queue);
        if queue <= self.lowest + FLAT {
            self.near += path.step;
        }
        let lasted = path.now.saturating_since(self.since);
        if self.near * 2 >= lasted { lasted } else { TimeDelta::ZERO }
    }
}

impl Drain {
    /// Capacity for us, in bit/s.
    pub(super) fn capacity(&self) -> f64 {
        self.capacity
    }

    /// What arrives is the capacity for us while the queue grows: more is sent than arrives. While it does not grow, less may arrive
    /// because we send less, so the capacity only rises.
    fn saturate(&mut self, path: &Path) {
        let queue = path.queue();
        let is_growing = queue > self.previous + RISE;
        if is_growing || queue > path.high && path.now.saturating_since(self.since) < SETTLING {
            self.capacity = path.delivered;
        } else {
            self.capacity = self.capacity.max(path.delivered);
        }
        // Compared over the window of the delivery rate.
        if path.now.saturating_since(self.compared) >= SETTLING || queue < self.previous {
            (self.previous, self.compared) = (queue, path.now);
        }
    }

    /// What it has seen of others.
    pub(super) fn others(&self) -> Others {
        self.others
    }

    /// Time of its begin.
    pub(super) fn began(&self) -> Timestamp {
        self.began
    }

    /// The rate before.
    pub(super) fn before(&self) -> f64 {
        self.before
    }

    /// The rate with which we go on beside others of our kind: all of them give up the same share, whatever arrived of each just now.
    pub(super) fn beside(&self) -> f64 {
        (BESIDE * self.before).min(BESIDE_MOST * self.capacity)
    }

    /// The rate after this step in bit/s, and what follows. `expects_rival`: others were there lately.
    pub(super) fn step(&mut self, path: &Path, expects_rival: bool) -> (f64, Drained) {
        let queue = path.queue();
        let since = path.now.saturating_since(self.since);
        let is_busy = queue > path.low;
        if is_busy {
            self.saturate(path);
        }
        let is_empty =
            !is_busy || path.queue_ahead < path.low && queue < path.high && since * 2 > path.base_rtt;
        if is_empty {
            let after = AFTER * self.capacity;
            // Where more arrived than was sent, the queue came of a burst, not of the rate.
            let most = if after > 1.1 * self.before { self.before } else { AFTER * self.before };
            return (after.min(most), Drained::Empty);
        }
        let capacity = self.capacity.max(0.05 * self.before);
        let horizon = horizon(path);
        let ahead = path.queue_ahead.as_seconds() + path.waiting / capacity - 0.5 * path.low.as_seconds();
        let rate = (capacity * (1.0 - ahead / horizon).clamp(LEAST, YIELD)).min(self.before);
        (rate, self.judge(path, 1.0 - rate / capacity, expects_rival))
    }

    /// Who holds the queue, although we give up this share of our capacity.
    fn judge(&mut self, path: &Path, given: f64, expects_rival: bool) -> Drained {
        let (now, queue) = (path.now, path.queue());
        // What arrives from then on left below the capacity.
        // A path that has just become slower gets the time again.
        if path.delivered < SLOWER * self.reference && !self.is_slower {
            self.since = now;
            self.is_slower = true;
        }
        if now.saturating_since(self.since) < path.rtt + SETTLING {
            self.progress = (now, queue);
            self.reference = path.delivered;
            self.floor = Floor::new(path);
            self.level = queue;
            return Drained::NotYet;
        }
        let flat = self.floor.step(path);
        if flat > TimeDelta::from_seconds(2) + path.base_rtt * 4 {
            return Drained::LongerRoute;
        }
        if queue > self.level + RISE {
            self.others.seen += path.step.as_seconds() * given;
            self.others.latest = now;
        }
        self.progress.1 = self.progress.1.max(queue);
        let (since, before) = self.progress;
        let time = now.saturating_since(since);
        if time < if expects_rival { SHORT_PATIENCE } else { self.patience } {
            return Drained::NotYet;
        }
        let expected = time.as_seconds() * (1.0 - YIELD) * PROGRESS;
        if (before - queue).as_seconds() >= expected {
            self.progress = (now, queue);
            self.level = queue;
            self.reference = path.delivered;
            return Drained::NotYet;
        }
        if queue > path.high && flat < STILL { Drained::Rival } else { Drained::NotYet }
    }
}

/// Pacing rate while a queue drains, in bit/s: packets leave below the capacity, whatever the encoder does.
pub(super) fn pacing(path: &Path) -> f64 {
    YIELD * path.delivered
}

/// Time constant of draining, in seconds.
pub(super) fn horizon(path: &Path) -> f64 {
    HORIZON.max(path.base_rtt + WINDOW).as_seconds()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ms, near};

    fn at(path: Path, time: i64, queue: i64) -> Path {
        Path { now: Timestamp::ZERO + ms(time), queue: Some(ms(queue)), queue_ahead: ms(queue), ..path }
    }

    #[test]
    fn the_rate_is_the_capacity_less_what_empties_the_queue_within_the_horizon() {
        let path = at(Path::example(), 1000, 52);
        let mut drain = Drain::new(&path, 1.2e6, Others::default());
        // 1 - (52 ms - 2 ms) / 150 ms.
        let (rate, next) = drain.step(&path, false);
        near(rate, 2e6 / 3.0, 1.0);
        assert_eq!(next, Drained::NotYet);
        // The sender's queue counts as well: 50 000 bits are 50 ms more. Neither more than 0.9 nor less than 0.15 of the capacity.
        let waits = Path { waiting: 5e4, ..path };
        for (path, expected) in
            [(waits, 1e6 / 3.0), (at(path, 1050, 12), 0.9e6), (at(path, 1100, 900), 0.15e6)]
        {
            near(drain.step(&path, false).0, expected, 1.0);
        }
        near(pacing(&path), 0.9e6, 1.0);
        // A round trip of 400 ms makes the horizon 500 ms.
        let far = Path { base_rtt: ms(400), ..path };
        near(Drain::new(&far, 1.2e6, Others::default()).step(&far, false).0, 0.9e6, 1.0);
    }

    #[test]
    fn an_empty_queue_ends_it_a_little_below_the_capacity() {
        let path = at(Path::example(), 1000, 30);
        let mut drain = Drain::new(&path, 1.2e6, Others::default());
        drain.step(&path, false);
        let (rate, next) = drain.step(&at(path, 1200, 3), false);
        assert_eq!(next, Drained::Empty);
        near(rate, 0.97e6, 1.0);
        // What arrives because we yield is not the capacity.
        let mut drain = Drain::new(&path, 1.2e6, Others::default());
        drain.step(&path, false);
        drain.step(&Path { delivered: 0.5e6, ..at(path, 1300, 15) }, false);
        near(drain.step(&at(path, 1350, 3), false).0, 0.97e6, 1.0);
        // A queue that grows shows a path that has become slower.
        drain.step(&Path { delivered: 0.5e6, ..at(path, 1600, 60) }, false);
        near(drain.step(&Path { delivered: 0.5e6, ..at(path, 1650, 3) }, false).0, 0.485e6, 1.0);
    }

    #[test]
    fn beside_others_the_rate_before_counts_more_than_what_just_arrived() {
        let begin = |rate: f64| Drain::new(&at(Path::example(), 1000, 30), rate, Others::default()).beside();
        // 1 Mbit/s arrived: of a rate that was far above that, 1.2 of it is left.
        for (rate, expected) in [(0.8e6, 0.72e6), (1.3e6, 1.17e6), (2e6, 1.2e6)] {
            near(begin(rate), expected, 1.0);
        }
    }

    /// The first outcome other than `NotYet`, and its time, for a queue of `queue(ms)` at that time.
    fn outcome(expects_rival: bool, queue: impl Fn(i64) -> i64) -> (i64, Drained) {
        let mut drain = Drain::new(&at(Path::example(), 0, queue(0)), 1e6, Others::default());
        (0..10_000)
            .step_by(50)
            .map(|time| (time, drain.step(&at(Path::example(), time, queue(time)), expects_rival).1))
            .find(|&(_, next)| next != Drained::NotYet)
            .unwrap()
    }

    #[test]
    fn a_queue_that_stays_although_we_yield_is_of_others_or_a_longer_route() {
        let wave = |time: i64| 80 + time / 50 % 4 * 5;
        for (expects_rival, queue, expected, within) in [
            // It moves by 15 ms, and does not shrink: after 50 + 200 ms, 2 s and another round trip.
            (false, wave as fn(i64) -> i64, Drained::Rival, 2250..=2350),
            (true, wave, Drained::Rival, 500..=600),
            // A call that begins fills the queue again and again for 1.5 s, and then drains as we do: it is no rival.
            (
                false,
                |time| if time < 1500 { 60 + time / 50 % 4 * 5 } else { (75 - (time - 1500) / 5).max(0) },
                Drained::Empty,
                0..=1999,
            ),
            // Alone 100 ms shrink in a second.
            (false, |time| (200 - time / 10).max(0), Drained::Empty, 1900..=2000),
            // It does not move at all: 2 s and four round trips after the first 250 ms.
            (false, |_| 80, Drained::LongerRoute, 2450..=2550),
            // So it is where a capacity that varies fills a queue of 40 ms for 150 of each 500 ms.
            (
                false,
                |time| if time % 500 < 350 { 80 + time / 50 % 2 } else { 120 },
                Drained::LongerRoute,
                0..=2699,
            ),
            // The sawtooth of another is near its lowest for a shorter time.
            (false, |time| 80 + time % 500 / 10, Drained::Rival, 0..=2699),
        ] {
            let (time, next) = outcome(expects_rival, queue);
            assert!(
                next == expected && within.contains(&time),
                "{expected:?} {within:?}: {next:?} at {time}"
            );
        }
    }

    #[test]
    fn a_sawtooth_that_leaves_the_queue_empty_for_a_moment_belongs_to_others() {
        // A queue of 60 to 130 ms that empties within the patience, as NewReno at 1 Mbit/s does; and one that only shrinks.
        let drains = |queue: fn(i64) -> i64| {
            let mut others = Others::default();
            for number in 0..10 {
                let begin = number * 1500;
                let path = at(Path::example(), begin, queue(0));
                let mut drain = Drain::new(&path, 1e6, others.after(path.now));
                for time in (50..).step_by(50) {
                    let next = drain.step(&at(Path::example(), begin + time, queue(time)), false).1;
                    match next {
                        Drained::NotYet => {}
                        Drained::Empty => break,
                        _ => return Some((number, next)),
                    }
                }
                others = drain.others();
            }
            None
        };
        let (number, next) = drains(|time| if time < 1300 { 60 + time / 20 } else { 0 }).unwrap();
        assert!(next == Drained::Rival && (1..=3).contains(&number), "{number} {next:?}");
        assert_eq!(drains(|time| (100 - time / 13).max(0)), None);
        // What was seen a minute ago says nothing.
        let long_ago = Others { seen: 5.0, latest: Timestamp::ZERO };
        assert_eq!(long_ago.patience(&Path::example()), SHORT_PATIENCE);
        let later = long_ago.after(Timestamp::ZERO + ms(60_000));
        assert!(later.patience(&Path::example()) > PATIENCE);
    }
}
