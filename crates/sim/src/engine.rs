//! The event queue.
//!
//! Events are returned in order of time, and events at the same time in the order in which they were scheduled. Runs are
//! therefore deterministic.

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
    heap: Heap<E>,
    /// Whether the first event of the heap has been popped. The next event that is scheduled replaces it, which takes one
    /// pass through the heap instead of two. Most events schedule a successor.
    first_is_popped: bool,
    now: Timestamp,
    scheduled: u64,
    popped: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self {
            heap: Heap { entries: Vec::new() },
            first_is_popped: false,
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
        self.heap.entries.len() - usize::from(self.first_is_popped)
    }

    /// Whether no event is scheduled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Schedules `event` at `at`, or at [`now`](Self::now) if `at` is in the past.
    pub fn schedule(&mut self, at: Timestamp, event: E) {
        let entry = Entry::new(at.max(self.now), self.scheduled, event);
        self.scheduled += 1;
        if std::mem::take(&mut self.first_is_popped) {
            self.heap.replace_first(entry);
        } else {
            self.heap.push(entry);
        }
    }

    /// Removes the next event and advances [`now`](Self::now) to its time.
    pub fn pop(&mut self) -> Option<(Timestamp, E)> {
        self.pop_until(Timestamp::MAX)
    }

    /// Removes the next event if its time is at most `end`.
    pub fn pop_until(&mut self, end: Timestamp) -> Option<(Timestamp, E)> {
        if std::mem::take(&mut self.first_is_popped) {
            self.heap.remove_first();
        }
        let &entry = self.heap.entries.first().filter(|entry| entry.at() <= end)?;
        self.first_is_popped = true;
        self.now = entry.at();
        self.popped += 1;
        Some((entry.at(), entry.event))
    }
}

/// An event with its sort key: the time in the upper and the sequence number in the lower 64 bits.
#[derive(Debug, Clone, Copy)]
struct Entry<E> {
    key: u128,
    event: E,
}

impl<E> Entry<E> {
    fn new(at: Timestamp, sequence: u64, event: E) -> Self {
        Self { key: u128::from(at.as_nanos()) << 64 | u128::from(sequence), event }
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_nanos((self.key >> 64) as u64)
    }
}

/// A binary heap. Unlike the standard library's it can replace the first entry in one downward pass, and it selects the
/// smaller child without a branch, which makes it about 1.5 times as fast here.
#[derive(Debug, Clone)]
struct Heap<E> {
    entries: Vec<Entry<E>>,
}

#[expect(clippy::indexing_slicing, reason = "every index is below the length")]
impl<E: Copy> Heap<E> {
    fn push(&mut self, entry: Entry<E>) {
        let mut index = self.entries.len();
        self.entries.push(entry);
        while index > 0 {
            let parent = (index - 1) / 2;
            if self.entries[parent].key <= entry.key {
                break;
            }
            self.entries[index] = self.entries[parent];
            index = parent;
        }
        self.entries[index] = entry;
    }

    /// Replaces the first entry of a non-empty heap.
    #[inline]
    fn replace_first(&mut self, entry: Entry<E>) {
        let entries = &mut self.entries[..];
        let mut index = 0;
        loop {
            let mut child = 2 * index + 1;
            if child >= entries.len() {
                break;
            }
            if child + 1 < entries.len() {
                child += usize::from(entries[child + 1].key < entries[child].key);
            }
            if entries[child].key >= entry.key {
                break;
            }
            entries[index] = entries[child];
            index = child;
        }
        entries[index] = entry;
    }

    fn remove_first(&mut self) {
        if let Some(last) = self.entries.pop()
            && !self.entries.is_empty()
        {
            self.replace_first(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::TimeDelta;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pops_by_time_and_then_by_schedule_order(times in prop::collection::vec(0_u64..50, 0..200)) {
            let mut events = EventQueue::default();
            for (index, &time) in times.iter().enumerate() {
                events.schedule(Timestamp::from_nanos(time), index);
            }
            let left: Vec<_> = std::iter::from_fn(|| events.pop()).map(|(at, index)| (at.as_nanos(), index)).collect();
            let mut expected: Vec<_> = times.into_iter().enumerate().map(|(index, time)| (time, index)).collect();
            expected.sort_unstable();
            prop_assert_eq!(left, expected);
        }
    }

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
    fn past_events_are_scheduled_now() {
        let at = Timestamp::from_nanos;
        let mut events = EventQueue::default();
        events.schedule(at(10), 'a');
        assert_eq!(events.pop(), Some((at(10), 'a')));
        events.schedule(at(3), 'b');
        assert_eq!(events.pop(), Some((at(10), 'b')));
        assert_eq!((events.pop(), events.popped()), (None, 2));
    }

    #[test]
    fn pop_until_keeps_events_after_the_end() {
        let at = Timestamp::from_nanos;
        let mut events = EventQueue::default();
        events.schedule(at(10), 'a');
        assert_eq!(events.pop_until(at(9)), None);
        assert_eq!(events.pop_until(at(10)), Some((at(10), 'a')));
        assert_eq!(events.pop_until(at(10)), None);
    }
}
