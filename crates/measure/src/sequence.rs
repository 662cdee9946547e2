//! Received, duplicate, reordered and lost packets, by sequence number.

use std::collections::VecDeque;

use super::loss::{LossRuns, LossSummary};

/// Default size of the window, counted back from the highest sequence number.
const WINDOW: u64 = 65_536;

/// Maximum number of stored gaps in the sequence, from which the extent of reordering is computed. Those before the window are not needed.
const MAX_GAPS: usize = 4_096;

/// Classification of a sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum SequenceVerdict {
    /// The next expected one.
    InOrder,
    /// Ahead of the next expected one: this many in between are missing so far.
    Gap(u64),
    /// Far ahead, and near an [`Implausible`](Self::Implausible) packet before it, which it confirms: that one now counts as
    /// received, and this many before it are missing so far. Give the present packet again: nothing has been done with it.
    Resumed(u64),
    /// Below the next expected one, for the first time: reordered in the sense of RFC 4737 §3.3.
    Reordered {
        /// Number of packets since the arrival of the first one with a higher sequence number: RFC 4737 §4.2.
        extent: u64,
    },
    /// A duplicate.
    Duplicate,
    /// Before the window or the start of the stream: it is unknown whether it is a duplicate, so it counts
    /// neither as received nor as a duplicate.
    TooOld,
    /// Further ahead than [`SequenceConfig::max_jump`]: ignored unless a later packet confirms it.
    Implausible,
}

impl SequenceVerdict {
    /// Whether the packet is the highest so far.
    #[inline]
    pub const fn advances(self) -> bool {
        matches!(self, Self::InOrder | Self::Gap(_))
    }

    /// Whether the packet counts as received.
    #[inline]
    pub const fn is_new(self) -> bool {
        self.advances() || matches!(self, Self::Reordered { .. })
    }
}

giusto_units::defaults! {
    /// Configuration of sequence numbers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct SequenceConfig {
        /// The first sequence number of the stream. Default: 0. `None` if senders start at any number, as in RTP:
        /// then the first packet sets it, and an earlier one that arrives late reduces it.
        pub first: Option<u64> = Some(0),
        /// How many packets may be missing at once before a packet is held to be implausible, until another packet within this
        /// distance confirms it. Default: 3000 (`MAX_DROPOUT` of RFC 3550 A.1).
        pub max_jump: u64 = 3000,
        /// Number of the latest packets that are stored individually, one bit each, 64 to 2^32, rounded up to a power of two; the
        /// oldest leave by 64 at once, so that up to 63 fewer are stored. Default: 65 536, in 8 kB.
        pub window: u64 = WINDOW,
    }
}

giusto_units::setters!(SequenceConfig {
    /// The same, with this first number.
    with_first(first: into u64);
    /// The same, with this plausible jump.
    with_max_jump(max_jump: u64);
    /// The same, with this number of packets stored individually.
    with_window(window: u64);
});

/// Tracks the sequence numbers of one stream: loss, duplicates, reordering.
///
/// The latest packets are stored individually: [`SequenceConfig::window`]. A packet that arrives after it has left this window is
/// [`TooOld`](SequenceVerdict::TooOld). Each call does bounded work for any number.
///
/// # Example
///
/// ```
/// use giusto_measure::{SequenceTracker, SequenceVerdict};
///
/// let mut tracker = SequenceTracker::default();
/// let verdicts = [0, 1, 4, 2, 2].map(|sequence| tracker.on_packet(sequence));
/// assert_eq!(verdicts[2], SequenceVerdict::Gap(2));
/// assert_eq!(verdicts[3], SequenceVerdict::Reordered { extent: 1 });
/// assert_eq!(verdicts[4], SequenceVerdict::Duplicate);
/// assert_eq!(tracker.losses().lost, 1);
/// ```
#[derive(Debug, Clone)]
pub struct SequenceTracker {
    max_jump: u64,
    /// The first sequence number, once it is known, and whether it may be reduced.
    first: Option<u64>,
    first_is_learnt: bool,
    /// The next expected sequence number: RFC 4737's `NextExp`.
    next: u64,
    /// A bit for each packet of the window: a ring of words, word `s / 64` at `s / 64` modulo their number.
    arrived: Box<[u64]>,
    /// The highest word in the window.
    top: u64,
    /// Losses that have left the window.
    settled: LossRuns,
    gaps: VecDeque<Gap>,
    /// The last implausible packet.
    probation: Option<u64>,
    sent: Option<u64>,
    received: u64,
    duplicates: u64,
    reordered: u64,
    max_extent: u64,
    too_old: u64,
    implausible: u64,
}

/// Sequence numbers that were skipped when a later one arrived.
#[derive(Debug, Clone, Copy)]
struct Gap {
    /// The first skipped number.
    first: u64,
    /// The number of the arrival that skipped it.
    arrival: u64,
}

impl Default for SequenceTracker {
    fn default() -> Self {
        Self::new(SequenceConfig::default())
    }
}

impl SequenceTracker {
    /// A tracker before the first packet.
    pub fn new(config: SequenceConfig) -> Self {
        let first = config.first.unwrap_or(0);
        let words = config.window.clamp(64, 1 << 32).next_power_of_two() / 64;
        Self {
            max_jump: config.max_jump,
            first: config.first,
            first_is_learnt: config.first.is_none(),
            next: first,
            arrived: vec![0; words as usize].into_boxed_slice(),
            top: first / 64,
            settled: LossRuns::default(),
            gaps: VecDeque::new(),
            probation: None,
            sent: None,
            received: 0,
            duplicates: 0,
            reordered: 0,
            max_extent: 0,
            too_old: 0,
            implausible: 0,
        }
    }

    /// Handles the packet with this sequence number.
    #[inline]
    pub fn on_packet(&mut self, sequence: u64) -> SequenceVerdict {
        if sequence == self.next && self.first.is_some() && sequence < u64::MAX {
            self.advance_to(sequence);
            return SequenceVerdict::InOrder;
        }
        self.on_unexpected(sequence)
    }

    /// Handles `count` packets with consecutive numbers from `sequence` on. Returns true if all were the next
    /// expected ones; otherwise nothing is done.
    #[inline]
    pub fn on_run(&mut self, sequence: u64, count: u64) -> bool {
        let in_order = sequence == self.next && self.first.is_some() && sequence.checked_add(count).is_some();
        if in_order {
            (sequence..sequence + count).for_each(|sequence| self.advance_to(sequence));
        }
        in_order
    }

    /// Sets the number of packets sent, so that losses at the end count too. A value below the known number
    /// has no effect.
    #[inline]
    pub fn finish(&mut self, sent: u64) {
        self.sent = Some(sent);
    }

    /// Packets received, without duplicates.
    #[inline]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Duplicates.
    #[inline]
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Packets that arrived below the next expected number: RFC 4737 §3.3. Without duplicates.
    #[inline]
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Maximum reordering extent, in packets (RFC 4737 §4.2); 0 without reordering. If there are more than
    /// 4096 gaps in between, it is the distance to the oldest of these.
    #[inline]
    pub fn max_extent(&self) -> u64 {
        self.max_extent
    }

    /// Packets that arrived too late to be distinguished from duplicates.
    #[inline]
    pub fn too_old(&self) -> u64 {
        self.too_old
    }

    /// Packets ignored for an implausible sequence number.
    #[inline]
    pub fn implausible(&self) -> u64 {
        self.implausible
    }

    /// The highest sequence number received; `None` before the first packet.
    #[inline]
    pub fn highest(&self) -> Option<u64> {
        (self.received > 0).then(|| self.next.saturating_sub(1))
    }

    /// Losses so far; a late arrival may still revert them. Reads the whole window: do not call it for every
    /// packet.
    pub fn losses(&self) -> LossSummary {
        let mut runs = self.settled;
        let first = self.first.unwrap_or(self.next);
        for word in self.top.saturating_sub(self.words() - 1)..=self.top {
            let count = self.next.saturating_sub(word * 64).min(64);
            add_word(&mut runs, first, word, self.word(word), count as u32);
        }
        runs.lost(self.sent.unwrap_or(0).saturating_sub(self.next - first));
        runs.summary(self.received)
    }

    /// Packets received or lost so far, as in [`losses`](Self::losses). Can be called for every packet.
    #[inline]
    pub fn expected(&self) -> u64 {
        (self.next - self.first.unwrap_or(self.next)).max(self.sent.unwrap_or(0))
    }

    fn on_unexpected(&mut self, sequence: u64) -> SequenceVerdict {
        if sequence == u64::MAX {
            self.implausible += 1;
            return SequenceVerdict::Implausible;
        }
        if self.first.is_none() {
            (self.first, self.next, self.top) = (Some(sequence), sequence, sequence / 64);
            // RFC 4737 §4.2: a packet sent before the first arrival, which overtook it.
            self.gaps.push_back(Gap { first: 0, arrival: 1 });
            self.advance_to(sequence);
            return SequenceVerdict::InOrder;
        }
        if sequence < self.next {
            return self.on_late(sequence);
        }
        let missing = sequence - self.next;
        if missing <= self.max_jump {
            self.skip_to(sequence);
            SequenceVerdict::Gap(missing)
        } else if let Some(held) = self.probation.take()
            && held > self.next
            && (1..=self.max_jump).contains(&held.abs_diff(sequence))
        {
            let missing = held - self.next;
            self.implausible -= 1;
            self.skip_to(held);
            SequenceVerdict::Resumed(missing)
        } else {
            self.probation = Some(sequence);
            self.implausible += 1;
            SequenceVerdict::Implausible
        }
    }

    /// A packet was ignored: the caller knows that there can be none of its number.
    pub fn on_implausible(&mut self) {
        self.implausible += 1;
    }

    fn on_late(&mut self, sequence: u64) -> SequenceVerdict {
        let before_the_first = self.first.is_none_or(|first| sequence < first);
        if sequence / 64 + self.words() <= self.top || (before_the_first && !self.first_is_learnt) {
            self.too_old += 1;
            return SequenceVerdict::TooOld;
        }
        if before_the_first {
            self.first = Some(sequence);
        }
        let bit = 1 << (sequence % 64);
        let Some(word) = self.word_mut(sequence / 64) else { return SequenceVerdict::TooOld };
        if *word & bit != 0 {
            self.duplicates += 1;
            return SequenceVerdict::Duplicate;
        }
        *word |= bit;
        self.received += 1;
        self.reordered += 1;
        // The first arrival above the packet skipped it: its gap contains the packet.
        let later = self.gaps.partition_point(|gap| gap.first <= sequence);
        let overtaker = self.gaps.get(later.saturating_sub(1)).map_or(self.received, |gap| gap.arrival);
        let extent = self.received - overtaker;
        self.max_extent = self.max_extent.max(extent);
        SequenceVerdict::Reordered { extent }
    }

    /// Handles a packet ahead of the next expected one.
    fn skip_to(&mut self, sequence: u64) {
        if self.gaps.len() >= MAX_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(Gap { first: self.next, arrival: self.received + 1 });
        self.advance_to(sequence);
    }

    /// Handles the highest packet so far; `sequence` is below `u64::MAX`.
    #[inline]
    fn advance_to(&mut self, sequence: u64) {
        let word = sequence / 64;
        if word != self.top {
            self.slide_to(word);
        }
        if let Some(bits) = self.word_mut(word) {
            *bits |= 1 << (sequence % 64);
        }
        self.next = sequence + 1;
        self.received += 1;
    }

    /// Makes `top` the highest word of the window, and counts the losses in the words that leave it: at most
    /// the whole window.
    fn slide_to(&mut self, top: u64) {
        let (first, words) = (self.first.unwrap_or(0), self.words());
        let steps = top - self.top;
        for word in self.top + 1..=self.top + steps.min(words) {
            if let Some(bits) = self.word_mut(word) {
                let bits = std::mem::take(bits);
                if let Some(leaving) = word.checked_sub(words) {
                    add_word(&mut self.settled, first, leaving, bits, 64);
                }
            }
        }
        // Words that were skipped entirely.
        self.settled.lost(steps.saturating_sub(words) * 64);
        self.top = top;
        // Packets that may still be counted as reordered belong to the last gap before the window, or to a later one.
        let start = (top + 1).saturating_sub(words) * 64;
        while self.gaps.get(1).is_some_and(|gap| gap.first <= start) {
            self.gaps.pop_front();
        }
    }

    /// The size of the window in words: a power of two.
    fn words(&self) -> u64 {
        self.arrived.len() as u64
    }

    fn word(&self, word: u64) -> u64 {
        self.arrived.get((word & (self.words() - 1)) as usize).copied().unwrap_or(0)
    }

    fn word_mut(&mut self, word: u64) -> Option<&mut u64> {
        let place = word & (self.words() - 1);
        self.arrived.get_mut(place as usize)
    }
}

/// Adds the first `count` packets of a word to `runs`, except those before the `first` of the stream.
fn add_word(runs: &mut LossRuns, first: u64, word: u64, bits: u64, count: u32) {
    let skipped = first.saturating_sub(word * 64).min(64) as u32;
    if skipped < count {
        runs.word(bits >> skipped, count - skipped);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn tracked(sequences: impl IntoIterator<Item = u64>) -> SequenceTracker {
        let mut tracker = SequenceTracker::default();
        for sequence in sequences {
            if let SequenceVerdict::Resumed(_) = tracker.on_packet(sequence) {
                tracker.on_packet(sequence);
            }
        }
        tracker
    }

    #[test]
    fn losses_at_start_middle_and_end_count() {
        let mut tracker = tracked([2, 3, 5, 9]);
        let losses = tracker.losses();
        assert_eq!((losses.expected, losses.lost), (10, 6));
        assert_eq!(losses.period_lengths, [1, 1, 1, 0, 0, 0]);
        tracker.finish(14);
        let losses = tracker.losses();
        assert_eq!((losses.expected, losses.lost, losses.longest_period), (14, 10, 4));
        tracker.finish(1);
        assert_eq!(tracker.losses().lost, 6);
        // Total loss is known from the sender's count.
        let mut tracker = SequenceTracker::new(SequenceConfig { first: None, ..SequenceConfig::default() });
        assert_eq!(tracker.losses(), LossSummary::default());
        tracker.finish(50);
        assert_eq!((tracker.losses().lost, tracker.losses().longest_period), (50, 50));
    }

    #[test]
    fn a_small_window_keeps_no_gap_before_it_and_counts_the_same() {
        let of = |window| {
            let mut tracker = SequenceTracker::new(SequenceConfig { window, ..SequenceConfig::default() });
            (0..200_000).filter(|sequence| sequence % 3 != 1).for_each(|sequence| {
                tracker.on_packet(sequence);
            });
            tracker
        };
        let (small, large) = (of(4096), of(WINDOW));
        assert_eq!((small.losses(), small.expected()), (large.losses(), 199_999));
        assert_eq!((small.arrived.len(), large.arrived.len()), (64, 1024));
        // One gap in three packets, and the one before the window.
        assert!((1300..=1367).contains(&small.gaps.len()), "{}", small.gaps.len());
    }

    #[test]
    fn the_extent_counts_arrivals_since_the_first_higher_one() {
        // RFC 4737 §4.2: e = i − j, j the earliest arrival with a higher number. Packet 3 of ten arrives
        // eighth.
        let mut tracker = tracked([0, 1, 2, 4, 5, 6, 7]);
        assert_eq!(tracker.on_packet(3), SequenceVerdict::Reordered { extent: 4 });
        assert_eq!(tracker.on_packet(8), SequenceVerdict::InOrder);
    }

    #[test]
    fn a_packet_before_the_window_is_not_a_duplicate() {
        let mut tracker = tracked((0..70_000).filter(|&sequence| sequence != 5 && sequence != 65_000));
        assert_eq!(tracker.on_packet(5), SequenceVerdict::TooOld);
        assert_eq!(tracker.on_packet(6), SequenceVerdict::TooOld);
        assert!(matches!(tracker.on_packet(65_000), SequenceVerdict::Reordered { .. }));
        assert_eq!(tracker.on_packet(65_001), SequenceVerdict::Duplicate);
        assert_eq!((tracker.too_old(), tracker.duplicates(), tracker.losses().lost), (2, 1, 1));
    }

    #[test]
    fn a_wild_jump_is_ignored_unless_another_packet_confirms_it() {
        let mut tracker = tracked(0..100);
        for wild in [u64::MAX, u64::MAX - 1, 1 << 40] {
            assert_eq!(tracker.on_packet(wild), SequenceVerdict::Implausible);
        }
        assert_eq!(tracker.on_packet(100), SequenceVerdict::InOrder);
        let far = 1 << 50;
        assert_eq!(tracker.on_packet(far), SequenceVerdict::Implausible, "the packet before is nowhere near");
        assert_eq!(tracker.on_packet(far), SequenceVerdict::Implausible, "a copy confirms nothing");
        assert_eq!((tracker.losses().lost, tracker.implausible()), (0, 5));

        // What follows may be lost or reordered in its turn.
        assert_eq!(tracker.on_packet(101), SequenceVerdict::InOrder);
        assert_eq!(tracker.on_packet(far + 3), SequenceVerdict::Resumed(far - 102));
        assert_eq!(tracker.on_packet(far + 3), SequenceVerdict::Gap(2));
        let losses = tracker.losses();
        assert_eq!((losses.received, losses.lost), (104, far - 102 + 2));
        assert_eq!((losses.periods, losses.longest_period), (2, far - 102));
        assert_eq!(tracker.implausible(), 4);
    }

    #[test]
    fn the_last_sequence_numbers_are_safe() {
        let mut tracker = tracked([u64::MAX - 2, u64::MAX - 1, u64::MAX, u64::MAX, 0]);
        assert_eq!(tracker.received(), 2);
        assert_eq!(tracker.losses().lost, u64::MAX - 2);
        tracker.finish(u64::MAX);
        assert_eq!(tracker.losses().expected, u64::MAX);
    }

    /// Fate of one packet.
    #[derive(Debug, Clone)]
    enum Fate {
        Arrive,
        Lose,
        Duplicate,
        /// Overtaken by this many packets.
        Delay(usize),
        /// This many consecutive packets are lost.
        Outage(u16),
    }

    fn fates() -> impl Strategy<Value = Vec<Fate>> {
        let fate = prop_oneof![
            20 => Just(Fate::Arrive),
            2 => Just(Fate::Lose),
            1 => Just(Fate::Duplicate),
            3 => (1_usize..20).prop_map(Fate::Delay),
            1 => any::<u16>().prop_map(Fate::Outage),
        ];
        prop::collection::vec(fate, 0..400)
    }

    fn arrivals(fates: &[Fate], first: u64) -> Vec<u64> {
        let (mut sequence, mut order) = (first, Vec::new());
        for (place, fate) in fates.iter().enumerate() {
            match *fate {
                Fate::Arrive => order.push((place, sequence)),
                Fate::Lose => {}
                Fate::Duplicate => order.extend([(place, sequence), (place + 2, sequence)]),
                Fate::Delay(by) => order.push((place + by, sequence)),
                Fate::Outage(length) => sequence += u64::from(length),
            }
            sequence += 1;
        }
        order.sort_by_key(|&(place, _)| place);
        order.into_iter().map(|(_, sequence)| sequence).collect()
    }

    proptest! {
        /// Comparison with a model that stores everything, as long as no packet arrives from before the
        /// window.
        #[test]
        fn it_matches_a_model_that_stores_every_packet(
            fates in fates(), first in 0_u64..200_000, learnt: bool, small: bool,
        ) {
            let arrivals = arrivals(&fates, first);
            let window = if small { 4096 } else { WINDOW };
            let config = SequenceConfig { first: (!learnt).then_some(first), max_jump: 1 << 20, window };
            let mut tracker = SequenceTracker::new(config);
            let (mut seen, mut order) = (HashSet::new(), Vec::<u64>::new());
            let (mut duplicates, mut reordered, mut max_extent, mut too_old) = (0, 0, 0, 0);
            for &sequence in &arrivals {
                let verdict = tracker.on_packet(sequence);
                if verdict == SequenceVerdict::TooOld {
                    too_old += 1;
                    prop_assert!(order.iter().any(|&earlier| earlier > sequence + window - 64));
                } else if seen.insert(sequence) {
                    let overtaker = order.iter().position(|&earlier| earlier > sequence);
                    if let Some(overtaker) = overtaker {
                        reordered += 1;
                        max_extent = max_extent.max(order.len() - overtaker);
                        prop_assert_eq!(verdict, SequenceVerdict::Reordered { extent: (order.len() - overtaker) as u64 });
                    }
                    order.push(sequence);
                } else {
                    duplicates += 1;
                    prop_assert_eq!(verdict, SequenceVerdict::Duplicate);
                }
            }
            prop_assert_eq!(tracker.too_old(), too_old);
            prop_assert_eq!(tracker.duplicates(), duplicates);
            prop_assert_eq!(tracker.reordered(), reordered);
            prop_assert_eq!(tracker.max_extent(), max_extent as u64);
            prop_assert_eq!(tracker.highest(), seen.iter().max().copied());

            let mut runs = LossRuns::default();
            if let Some(&highest) = seen.iter().max() {
                let lowest = if learnt { *seen.iter().min().unwrap() } else { first };
                for sequence in lowest..=highest {
                    if seen.contains(&sequence) { runs.received(1) } else { runs.lost(1) }
                }
            }
            let losses = tracker.losses();
            prop_assert_eq!(losses, runs.summary(seen.len() as u64));
            prop_assert_eq!(losses.expected, losses.received + losses.lost);
            prop_assert_eq!(losses.expected, tracker.expected());
        }

        #[test]
        fn any_sequence_is_safe_and_counted(
            sequences in prop::collection::vec(prop_oneof![any::<u64>(), 0_u64..100, u64::MAX - 100..=u64::MAX], 0..60),
            first: Option<u64>, max_jump: u64, sent: u64,
        ) {
            let mut tracker = SequenceTracker::new(SequenceConfig { first, max_jump, window: WINDOW });
            for &sequence in &sequences {
                if let SequenceVerdict::Resumed(_) = tracker.on_packet(sequence) {
                    prop_assert!(!matches!(tracker.on_packet(sequence), SequenceVerdict::Resumed(_)));
                }
                let losses = tracker.losses();
                prop_assert_eq!(losses.expected, losses.received + losses.lost);
            }
            let counted = tracker.received() + tracker.duplicates() + tracker.too_old() + tracker.implausible();
            prop_assert_eq!(counted, sequences.len() as u64);
            tracker.finish(sent);
            prop_assert!(tracker.losses().expected >= sent);
        }
    }
}
