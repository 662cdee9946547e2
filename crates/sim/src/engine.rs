//! The event queue.
//!
//! Events are returned in order of time, and events at the same time in the order in which they were scheduled. Runs are
//! therefore deterministic.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use giusto_units::Timestamp;

/// A queue of future events, ordered by (time, sequence).
///
/// # Example
///
/// ```
/// use giusto_units::Timestamp;
/// use giusto_sim::engine::EventQueue;
///
/// let mut events = EventQueue::default();
/// events.schedule(Timestamp::from_nanos(20), "second");
/// events.schedule(Timestamp::from_nanos(10), "first");
/// events.schedule(Timestamp::from_nanos(20), "third");
/// let order: Vec<_> = std::iter::from_fn(|| events.pop()).map(|(_, event)| event).collect();
/// assert_eq!(order, ["first", "second", "third"]);
/// assert_eq!(events.now(), Timestamp::from_nanos(20));
/// ```
#[derive(Debug, Clone)]
pub struct EventQueue<E> {
    /// The next events, the first one last. All of them are before those in `far`.
    near: Vec<Entry<E>>,
    far: BinaryHeap<Reverse<Entry<E>>>,
    /// Events from this time on belong into `far`: the time of the last of `near`, unless `far` is empty.
    far_from: Timestamp,
    now: Timestamp,
    scheduled: u64,
    popped: u64,
}

/// Maximum length of the sorted list of the next events. Most events are scheduled shortly before they occur, so that their place
/// is found after a few steps.
const MAX_NEAR: usize = 64;

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self {
            near: Vec::with_capacity(MAX_NEAR),
            far: BinaryHeap::new(),
            far_from: Timestamp::MAX,
            now: Timestamp::ZERO,
            scheduled: 0,
            popped: 0,
        }
    }
}

impl<E: Copy> EventQueue<E> {
    /// Time of the last popped event.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Number of popped events.
    pub fn popped(&self) -> u64 {
        self.popped
    }

    /// Number of scheduled events.
    pub fn len(&self) -> usize {
        self.near.len() + self.far.len()
    }

    /// Whether no event is scheduled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Schedules `event` at `at`, or at [`now`](Self::now) if `at` is in the past.
    #[inline]
    pub fn schedule(&mut self, at: Timestamp, event: E) {
        let (at, sequence) = (at.max(self.now), self.scheduled);
        self.scheduled += 1;
        if at >= self.far_from || self.near.len() == MAX_NEAR {
            return self.schedule_far(at, sequence, event);
        }
        self.insert(at, sequence, event);
    }

    /// Schedules an event that lies far ahead, or for which the list has no place.
    #[cold]
    #[inline(never)]
    fn schedule_far(&mut self, at: Timestamp, sequence: u64, event: E) {
        if at < self.far_from {
            self.far.extend(self.near.drain(..MAX_NEAR / 2).map(Reverse));
            self.note_far();
        }
        if at < self.far_from {
            return self.insert(at, sequence, event);
        }
        self.far.push(Reverse(Entry { at, sequence, event }));
    }

    /// Finds out from which time on events belong into `far`.
    fn note_far(&mut self) {
        let last = self.near.first().map_or(self.now, |last| last.at);
        self.far_from = if self.far.is_empty() { Timestamp::MAX } else { last };
    }

    /// Adds an event to the list. Its parts are arguments of their own, because to read back an entry that has just been written takes
    /// long.
    #[inline]
    fn insert(&mut self, at: Timestamp, sequence: u64, event: E) {
        self.near.push(Entry { at, sequence, event });
        let [others @ .., last] = &mut self.near[..] else { return };
        let mut place = last;
        for other in others.iter_mut().rev() {
            // Of events at the same time, this one is the last.
            if at < other.at {
                break;
            }
            *place = *other;
            place = other;
        }
        *place = Entry { at, sequence, event };
    }

    /// Removes the next event and advances [`now`](Self::now) to its time.
    pub fn pop(&mut self) -> Option<(Timestamp, E)> {
        self.pop_until(Timestamp::MAX)
    }

    /// Removes the next event if its time is at most `end`.
    #[inline]
    pub fn pop_until(&mut self, end: Timestamp) -> Option<(Timestamp, E)> {
        loop {
            if let Some(&Entry { at, event, .. }) = self.near.last() {
                if at > end {
                    return None;
                }
                self.near.pop();
                self.now = at;
                self.popped += 1;
                return Some((at, event));
            }
            if self.far.is_empty() {
                return None;
            }
            self.refill();
        }
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        let next = std::iter::from_fn(|| self.far.pop());
        self.near.extend(next.take(MAX_NEAR / 2).map(|Reverse(entry)| entry));
        self.near.reverse();
        self.note_far();
    }
}

/// An event. The sort key is the time, then the sequence number.
#[derive(Debug, Clone, Copy)]
struct Entry<E> {
    at: Timestamp,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    /// The sort key as one number, which is compared without a branch.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at.as_nanos()) << 64 | u128::from(self.sequence)
    }
}

impl<E> Ord for Entry<E> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> PartialOrd for Entry<E> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.key() < other.key()
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use giusto_units::TimeDelta;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn interleaved_schedules_and_pops_keep_the_order(steps in prop::collection::vec((0_u64..100, 0_usize..3), 1..300)) {
            let mut events = EventQueue::default();
            let mut pending = std::collections::BTreeSet::new();
            for (number, &(gap, pops)) in (0_u64..).zip(&steps) {
                let at = events.now() + TimeDelta::from_nanos(gap as i64);
                events.schedule(at, number);
                pending.insert((at, number));
                for _ in 0..pops {
                    prop_assert_eq!(events.pop(), pending.pop_first());
                }
                prop_assert_eq!(events.len(), pending.len());
            }
        }
    }

    #[test]
    fn past_events_are_scheduled_now_and_later_ones_kept() {
        let at = Timestamp::from_nanos;
        let mut events = EventQueue::default();
        events.schedule(at(10), 'a');
        assert_eq!(events.pop_until(at(9)), None);
        assert_eq!(events.pop_until(at(10)), Some((at(10), 'a')));
        events.schedule(at(3), 'b');
        assert_eq!(events.pop(), Some((at(10), 'b')));
        assert_eq!((events.pop(), events.popped()), (None, 2));
    }
}
