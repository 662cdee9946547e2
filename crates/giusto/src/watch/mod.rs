//! A run while it lasts: the figures of each stream, ten times a second, for a page that shows them.
//!
//! ```text
//! thread that measures               thread of its own             threads of pages
//! Feed --Snapshot, never waits--> Figures --events--> Board <--history, wait-- page
//! ```
//!
//! The thread that measures only reads counters into a [`Snapshot`], which a full queue drops: the next one covers its time, too. The
//! figures are those of [intervals](crate::interval): of 0.1 s, of which the last minute is kept, and of 1 s, of which ten
//! minutes are kept. All memory is bounded.

mod board;
mod figures;
mod quantity;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, mpsc},
};

use giusto_congestion::Cause;
use giusto_measure::DelayTotals;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

pub use board::{Board, Event, History, Next};
pub use figures::Figures;
pub use quantity::Quantity;

use crate::interval::Counts;

/// The time between two snapshots.
pub const PERIOD: TimeDelta = TimeDelta::from_millis(100);

/// Streams shown at the same time; of more, the oldest are shown.
pub const MAX_SHOWN: usize = 32;

/// Snapshots that wait at most.
const QUEUE: usize = 4;

/// Decisions and ended streams that wait at most for the next snapshot.
const MAX_NEWS: usize = 64;

/// What a sender has counted for one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SentState {
    /// Datagrams handed to the network.
    pub packets: u64,
    /// Their bytes, with the headers that the rate includes.
    pub size: DataSize,
}

/// One-way delays.
#[derive(Debug, Clone, Copy)]
pub enum DelayState {
    /// Of datagrams: an interval has the mean of its own.
    Packets(DelayTotals),
    /// Of frames: their sum, and their number.
    Frames(TimeDelta, u64),
    /// The median of all so far.
    SoFar(TimeDelta),
}

/// One stream at the time of a snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamState {
    /// What tells it from other streams of the run.
    pub id: u64,
    /// What this end has sent.
    pub sent: Option<SentState>,
    /// What the receiver has counted.
    pub received: Option<Counts>,
    /// The delays so far.
    pub delay: Option<DelayState>,
    /// The age of the oldest packet in the sender's queue.
    pub sender_queue: Option<TimeDelta>,
    /// The round-trip time.
    pub rtt: Option<TimeDelta>,
    /// The target of its congestion controller.
    pub target: Option<DataRate>,
    /// It has ended: nothing follows.
    pub closed: bool,
}

/// A decision of a congestion controller.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// The stream.
    pub id: u64,
    /// When it was made.
    pub at: Timestamp,
    /// The target until then, and since then.
    pub rates: [DataRate; 2],
    /// Why.
    pub cause: Cause,
}

/// All streams at one time.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The time, on the clock of the run.
    pub at: Timestamp,
    /// The streams that are shown.
    pub streams: Vec<StreamState>,
    /// How many more there are.
    pub more: usize,
    /// Names of streams that were not shown before.
    pub names: Vec<(u64, String)>,
    /// What controllers have decided since the last snapshot.
    pub decisions: Vec<Decided>,
}

/// The end at the thread that measures. None of its methods waits.
///
/// # Example
///
/// ```
/// use giusto::watch::{self, StreamState};
/// use giusto_units::Timestamp;
///
/// let (mut feed, snapshots) = watch::feed();
/// let now = Timestamp::from_nanos(1);
/// assert!(feed.is_due(now));
/// let state = |id: &u64| StreamState { id: *id, ..StreamState::default() };
/// feed.send(now, [7].into_iter(), state, |_| "call".to_owned());
/// assert!(!feed.is_due(now));
/// assert_eq!(snapshots.recv()?.names, [(7, "call".to_owned())]);
/// # Ok::<(), std::sync::mpsc::RecvError>(())
/// ```
#[derive(Debug)]
pub struct Feed {
    queue: mpsc::SyncSender<Snapshot>,
    due: Timestamp,
    named: BTreeSet<u64>,
    closed: Vec<StreamState>,
    decisions: Vec<Decided>,
    /// What a full queue did not take.
    names: Vec<(u64, String)>,
}

/// A feed that a configuration can hold. Only one thread uses it.
#[derive(Debug, Clone)]
pub struct SharedFeed(Arc<Mutex<Feed>>);

impl SharedFeed {
    /// Uses the feed, unless another thread does at this moment: it never waits.
    pub(crate) fn with(&self, use_it: impl FnOnce(&mut Feed)) {
        if let Ok(mut feed) = self.0.try_lock() {
            use_it(&mut feed);
        }
    }
}

impl From<Feed> for SharedFeed {
    fn from(feed: Feed) -> Self {
        Self(Arc::new(Mutex::new(feed)))
    }
}

/// A feed, and where its snapshots come out.
pub fn feed() -> (Feed, mpsc::Receiver<Snapshot>) {
    let (queue, snapshots) = mpsc::sync_channel(QUEUE);
    let named = BTreeSet::new();
    let (closed, decisions, names) = (Vec::new(), Vec::new(), Vec::new());
    (Feed { queue, due: Timestamp::ZERO, named, closed, decisions, names }, snapshots)
}

impl Feed {
    /// Whether a snapshot is due.
    pub fn is_due(&self, now: Timestamp) -> bool {
        now >= self.due
    }

    /// A stream has ended; `last` is its last state. `name` is called if it was not shown before.
    pub fn close(&mut self, last: StreamState, name: impl FnOnce() -> String) {
        let is_shown = self.named.contains(&last.id);
        // One that came and went between two snapshots is shown if there is room.
        if self.closed.len() >= MAX_NEWS || !is_shown && self.named.len() >= MAX_SHOWN {
            return;
        }
        if !is_shown {
            self.names.push((last.id, name()));
        }
        self.closed.push(StreamState { closed: true, ..last });
    }

    /// A controller has decided.
    pub fn decide(&mut self, decided: Decided) {
        if self.decisions.len() < MAX_NEWS {
            self.decisions.push(decided);
        }
    }

    /// Hands over what is left at the end of a run.
    pub fn finish(&mut self, now: Timestamp) {
        self.send(now, std::iter::empty::<()>(), |()| StreamState::default(), |()| String::new());
    }

    /// Hands over the open streams, in an order that stays. `state` is called for each of the first [`MAX_SHOWN`], and `name` for each of
    /// these that was not shown before; the others are only counted.
    pub fn send<S>(
        &mut self,
        now: Timestamp,
        mut open: impl Iterator<Item = S>,
        state: impl Fn(&S) -> StreamState,
        name: impl Fn(&S) -> String,
    ) {
        // Ten times a second, also where the thread looks less often.
        let is_late = now.saturating_since(self.due) >= PERIOD;
        self.due = if is_late { now } else { self.due } + PERIOD;
        let mut streams = std::mem::take(&mut self.closed);
        let ended = streams.len();
        for stream in open.by_ref().take(MAX_SHOWN) {
            let state = state(&stream);
            if self.named.insert(state.id) {
                self.names.push((state.id, name(&stream)));
            }
            streams.push(state);
        }
        let more = open.count();
        let shown = streams.get(ended..).unwrap_or_default();
        self.named.retain(|id| shown.iter().any(|stream| stream.id == *id));
        let names = std::mem::take(&mut self.names);
        let decisions = std::mem::take(&mut self.decisions);
        let snapshot = Snapshot { at: now, streams, more, names, decisions };
        if let Err(mpsc::TrySendError::Full(missed)) = self.queue.try_send(snapshot) {
            // The next one has newer counters.
            self.names = missed.names;
            self.names.retain(|(id, _)| missed.streams.iter().any(|stream| stream.id == *id));
            self.decisions = missed.decisions;
            self.closed = missed.streams;
            self.closed.retain(|stream| stream.closed);
            self.closed.truncate(MAX_NEWS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::testing::at;

    fn stream(id: u64) -> StreamState {
        StreamState { id, ..StreamState::default() }
    }

    #[test]
    fn a_full_queue_loses_no_name_decision_or_end() {
        let (mut feed, snapshots) = feed();
        let name = |id: &u64| format!("stream {id}");
        for number in 0..100 {
            feed.decide(Decided { id: 1, at: at(number), rates: [DataRate::ZERO; 2], cause: Cause::Start });
            feed.send(at(number), [1, number + 2].into_iter(), |id| stream(*id), name);
            feed.close(stream(number + 2), || name(&(number + 2)));
        }
        let waiting: Vec<Snapshot> = snapshots.try_iter().collect();
        assert_eq!(waiting.len(), QUEUE);
        feed.send(at(1_000), [1].into_iter(), |id| stream(*id), name);
        let last = snapshots.recv().unwrap();
        let names: usize = waiting.iter().map(|snapshot| snapshot.names.len()).sum();
        // Of the hundred that came and went meanwhile, so many ends and decisions are kept as there is room for.
        assert_eq!(names, QUEUE + 1);
        assert_eq!(last.decisions.len(), MAX_NEWS);
        assert!(last.streams.iter().filter(|stream| stream.closed).count() >= MAX_SHOWN);
        assert_eq!(last.streams.iter().filter(|stream| !stream.closed).count(), 1);
        assert!((MAX_SHOWN..=MAX_NEWS + MAX_SHOWN).contains(&last.names.len()), "{}", last.names.len());
    }

    #[test]
    fn of_many_streams_the_oldest_are_shown() {
        let (mut feed, snapshots) = feed();
        feed.send(at(0), 0..100, |id| stream(*id), u64::to_string);
        let first = snapshots.recv().unwrap();
        assert_eq!(first.names.len(), MAX_SHOWN);
        feed.close(stream(3), String::new);
        // One that was not shown ends unseen.
        feed.close(stream(99), String::new);
        feed.send(at(100), (0..99).filter(|id| *id != 3), |id| stream(*id), u64::to_string);
        let second = snapshots.recv().unwrap();
        let closed = second.streams.iter().filter(|stream| stream.closed).map(|stream| stream.id);
        assert_eq!((closed.collect(), second.names), (vec![3], vec![(32, "32".to_owned())]));
    }

    #[test]
    fn streams_that_are_not_shown_are_counted_and_not_read() {
        let (mut feed, snapshots) = feed();
        for open in [0, 1, MAX_SHOWN as u64, 500] {
            let (read, named) = (Cell::new(0), Cell::new(0));
            let count = |counter: &Cell<usize>| counter.set(counter.get() + 1);
            let state = |id: &u64| (count(&read), stream(*id)).1;
            let name = |id: &u64| (count(&named), id.to_string()).1;
            // Other streams each time.
            feed.send(at(open), (1_000 * open..).take(open as usize), state, name);
            let snapshot = snapshots.recv().unwrap();
            let shown = (open as usize).min(MAX_SHOWN);
            assert_eq!((read.get(), named.get(), snapshot.streams.len()), (shown, shown, shown));
            assert_eq!(snapshot.more, open as usize - shown);
        }
    }
}
