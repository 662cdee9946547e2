//! The event queue: what happens next?
//!
//! Events leave in the order of their times, and those of one time in the order in which they were scheduled. Nothing else
//! decides, so a run is the same every time.

use std::{cmp::Ordering, collections::BinaryHeap};

use giusto_core::units::Timestamp;

/// Events to come, ordered by (time, sequence).
///
/// # Example
///
/// ```
/// use giusto_core::units::Timestamp;
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
    heap: BinaryHeap<Entry<E>>,
    now: Timestamp,
    scheduled: u64,
    popped: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), now: Timestamp::ZERO, scheduled: 0, popped: 0 }
    }
}

impl<E> EventQueue<E> {
    /// The time of the event that left last.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// How many events have left.
    pub fn popped(&self) -> u64 {
        self.popped
    }

    /// How many events are still to come.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is to come.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Lets `event` happen at `at`, or now if that has passed.
    pub fn schedule(&mut self, at: Timestamp, event: E) {
        self.heap.push(Entry { at: at.max(self.now), sequence: self.scheduled, event });
        self.scheduled += 1;
    }

    /// When the next event will leave.
    pub fn next_time(&self) -> Option<Timestamp> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Takes the next event; its time is now [`now`](Self::now).
    pub fn pop(&mut self) -> Option<(Timestamp, E)> {
        let entry = self.heap.pop()?;
        self.now = entry.at;
        self.popped += 1;
        Some((entry.at, entry.event))
    }

    /// Takes the next event unless it lies beyond `end`.
    pub fn pop_until(&mut self, end: Timestamp) -> Option<(Timestamp, E)> {
        if self.next_time()? > end { None } else { self.pop() }
    }
}

#[derive(Debug, Clone)]
struct Entry<E> {
    at: Timestamp,
    sequence: u64,
    event: E,
}

impl<E> Ord for Entry<E> {
    /// The heap yields its greatest: what comes first is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_leave_by_time_and_then_in_the_order_scheduled(times in prop::collection::vec(0_u64..50, 0..200)) {
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

    #[test]
    fn what_is_scheduled_in_the_past_happens_now() {
        let at = Timestamp::from_nanos;
        let mut events = EventQueue::default();
        events.schedule(at(10), 'a');
        assert_eq!(events.pop(), Some((at(10), 'a')));
        events.schedule(at(3), 'b');
        assert_eq!(events.pop(), Some((at(10), 'b')));
        assert_eq!((events.pop(), events.popped()), (None, 2));
    }

    #[test]
    fn what_lies_beyond_the_end_stays() {
        let at = Timestamp::from_nanos;
        let mut events = EventQueue::default();
        events.schedule(at(10), 'a');
        assert_eq!(events.pop_until(at(9)), None);
        assert_eq!(events.pop_until(at(10)), Some((at(10), 'a')));
        assert_eq!(events.pop_until(at(10)), None);
    }
}
