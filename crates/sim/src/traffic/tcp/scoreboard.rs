//! What is known to have arrived, what is believed lost, what is still under way: the scoreboard of RFC 6675.

use std::collections::VecDeque;

/// How many later arrivals make a segment lost: `DupThresh` (RFC 6675 §2, RFC 5681 §3.2).
pub(super) const DUPLICATE_THRESHOLD: u32 = 3;

/// A range of bytes: the first, and the one behind the last.
pub(super) type Range = (u64, u64);

/// Which bytes between the cumulative acknowledgment and the highest sent have arrived, are lost, are under way.
///
/// | here | RFC 6675 §2 |
/// |---|---|
/// | [`first`](Self::first) | `HighACK` + 1 |
/// | [`next`](Self::next) | `HighData` + 1 |
/// | `resent` | `HighRxt` + 1 |
/// | `rescued` | `RescueRxt` + 1 |
/// | [`pipe`](Self::pipe) | `pipe`, kept up to date instead of counted anew |
///
/// As `IsLost` holds for all bytes below some point that have not arrived, and at most three ranges lie above that point, every
/// question costs a binary search at most.
#[derive(Debug)]
pub(super) struct Scoreboard {
    segment: u64,
    first: u64,
    next: u64,
    /// What arrived out of order: disjoint, not touching, ascending.
    arrived: VecDeque<Range>,
    resent: u64,
    arrived_below_resent: u64,
    rescued: Option<u64>,
    /// All below it that has not arrived counts as lost, whatever the arrivals say: set by a timeout.
    given_up: u64,
    /// All below it that has not arrived is lost.
    lost_below: u64,
    arrived_above_lost: u64,
    delivered: u64,
}

impl Scoreboard {
    /// Nothing sent yet, in segments of `segment` bytes.
    pub(super) fn new(segment: u64) -> Self {
        Self {
            segment,
            first: 0,
            next: 0,
            arrived: VecDeque::new(),
            resent: 0,
            arrived_below_resent: 0,
            rescued: None,
            given_up: 0,
            lost_below: 0,
            arrived_above_lost: 0,
            delivered: 0,
        }
    }

    /// Forgets everything, for a new connection.
    pub(super) fn clear(&mut self) {
        let arrived = std::mem::take(&mut self.arrived);
        *self = Self { arrived, ..Self::new(self.segment) };
        self.arrived.clear();
    }

    /// The first byte that is not cumulatively acknowledged.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The first byte that was never sent.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes sent and not cumulatively acknowledged: `FlightSize` (RFC 5681 §2).
    pub(super) fn flight(&self) -> u64 {
        self.next - self.first
    }

    /// Bytes believed to be in the network: `SetPipe` (RFC 6675 §4).
    pub(super) fn pipe(&self) -> u64 {
        let not_lost = self.next - self.lost_below - self.arrived_above_lost;
        let sent_again = self.resent - self.first - self.arrived_below_resent;
        not_lost + sent_again
    }

    /// Bytes known to have arrived, cumulatively or selectively, since the beginning.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Below which point all is lost that has not arrived.
    pub(super) fn lost_below(&self) -> u64 {
        self.lost_below
    }

    /// Whether something is lost now that was not when `before` was what [`lost_below`](Self::lost_below) returned.
    pub(super) fn has_lost_since(&self, before: u64) -> bool {
        let from = before.max(self.first);
        let at = self.arrived.partition_point(|range| range.1 <= from);
        let unknown = self.arrived.get(at).filter(|range| range.0 <= from).map_or(from, |range| range.1);
        unknown < self.lost_below
    }

    /// Whether the first unacknowledged byte is lost: `IsLost (HighACK + 1)` (RFC 6675 §4).
    pub(super) fn is_first_lost(&self) -> bool {
        self.lost_below > self.first
    }

    /// `bytes` new ones were sent.
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.next += bytes;
    }

    /// All before `acknowledgment` arrived. Returns how many bytes that acknowledges anew, selectively known or not; what was
    /// never sent cannot have arrived and counts for nothing.
    pub(super) fn on_cumulative(&mut self, acknowledgment: u64) -> u64 {
        if acknowledgment <= self.first || acknowledgment > self.next {
            return 0;
        }
        let advanced = acknowledgment - self.first;
        self.delivered += advanced;
        while let Some(range) = self.arrived.front_mut() {
            let passed = range.1.min(acknowledgment).saturating_sub(range.0);
            if passed == 0 {
                break;
            }
            self.delivered -= passed;
            self.arrived_below_resent -= below((range.0, range.0 + passed), self.resent);
            range.0 += passed;
            if range.0 < range.1 {
                break;
            }
            self.arrived.pop_front();
        }
        self.first = acknowledgment;
        self.resent = self.resent.max(acknowledgment);
        self.find_lost();
        advanced
    }

    /// The bytes of `range` arrived: `Update` (RFC 6675 §4). Returns how many of them were not known to.
    pub(super) fn on_selective(&mut self, range: Range) -> u64 {
        let range = (range.0.max(self.first), range.1.min(self.next));
        if range.0 >= range.1 {
            return 0;
        }
        let new = insert(&mut self.arrived, range, |known| {
            self.arrived_below_resent -= below(known, self.resent);
        });
        if new > 0 {
            self.delivered += new;
            self.arrived_below_resent += below(range, self.resent);
            self.find_lost();
        }
        new
    }

    /// Loss recovery begins: nothing has been sent again (RFC 6675 §5, step 4).
    pub(super) fn begin_recovery(&mut self) {
        self.resent = self.first;
        self.arrived_below_resent = 0;
        self.rescued = None;
    }

    /// A timeout: whatever has not arrived is lost, and was not sent again.
    ///
    /// What arrived selectively stays known: receivers here never renege (RFC 6675 §5.1, with erratum 1610 of RFC 2018).
    pub(super) fn give_up(&mut self) {
        self.begin_recovery();
        self.given_up = self.next;
        self.find_lost();
    }

    /// The segment to send again first when recovery begins (RFC 6675 §5, step 4.3).
    pub(super) fn first_segment(&self) -> Option<Range> {
        let end = self.arrived.front().map_or(self.next, |range| range.0);
        self.segment_of((self.first, end))
    }

    /// The first segment that is lost and was not sent again: `NextSeg`, rule 1 (RFC 6675 §4).
    pub(super) fn next_lost(&self) -> Option<Range> {
        let (from, to) = self.hole()?;
        (from < self.lost_below).then(|| self.segment_of((from, to)))?
    }

    /// The first segment that was not sent again and lies below one that arrived: `NextSeg`, rule 3 (RFC 6675 §4).
    pub(super) fn next_suspect(&self) -> Option<Range> {
        let (from, to) = self.hole()?;
        let highest = self.arrived.back()?.1;
        (from < highest).then(|| self.segment_of((from, to)))?
    }

    /// The last segment that has not arrived, once for each recovery: `NextSeg`, rule 4 (RFC 6675 §4).
    pub(super) fn rescue(&self) -> Option<Range> {
        if self.rescued.is_some_and(|rescued| self.first <= rescued) {
            return None;
        }
        let end = self.arrived.back().filter(|range| range.1 == self.next).map_or(self.next, |range| range.0);
        let below =
            self.arrived.iter().rev().find(|range| range.1 <= end).map_or(self.first, |range| range.1);
        (end > below).then(|| (end.saturating_sub(self.segment).max(below), end))
    }

    /// `segment` of [`first_segment`](Self::first_segment), [`next_lost`](Self::next_lost) or
    /// [`next_suspect`](Self::next_suspect) was sent again (RFC 6675 §5, step C.2).
    pub(super) fn on_resent(&mut self, segment: Range) {
        let (from, to) = segment;
        if from >= self.resent && to <= self.next {
            // Between the last segment sent again and this one lies nothing that has not arrived.
            self.arrived_below_resent += from - self.resent;
            self.resent = to;
        }
    }

    /// A rescue was sent, or is not wanted before all below `mark` is acknowledged.
    pub(super) fn on_rescued(&mut self, mark: u64) {
        self.rescued = Some(mark);
    }

    /// The first gap at or above what was sent again.
    fn hole(&self) -> Option<Range> {
        let at = self.arrived.partition_point(|range| range.1 <= self.resent);
        let (from, after) = match self.arrived.get(at) {
            Some(range) if range.0 <= self.resent => (range.1, at + 1),
            _ => (self.resent, at),
        };
        let to = self.arrived.get(after).map_or(self.next, |range| range.0);
        (from < to).then_some((from, to))
    }

    /// As much of `range` as one segment takes, from its beginning.
    fn segment_of(&self, range: Range) -> Option<Range> {
        (range.0 < range.1).then(|| (range.0, range.1.min(range.0 + self.segment)))
    }

    /// Finds below which point `IsLost` holds: `DupThresh` ranges, or more than `DupThresh` − 1 full segments, arrived above
    /// (RFC 6675 §4).
    fn find_lost(&mut self) {
        let enough = u64::from(DUPLICATE_THRESHOLD - 1) * self.segment;
        let floor = self.given_up.max(self.first);
        let (mut above, mut arrived_above_floor) = (0, 0);
        for (count, range) in (1..).zip(self.arrived.iter().rev()) {
            above += range.1 - range.0;
            let is_lost_below = count >= DUPLICATE_THRESHOLD || above > enough;
            if is_lost_below && range.0 > floor {
                self.lost_below = range.0;
                self.arrived_above_lost = above;
                return;
            }
            arrived_above_floor += range.1.saturating_sub(range.0.max(floor));
            if is_lost_below {
                break;
            }
        }
        self.lost_below = floor;
        self.arrived_above_lost = arrived_above_floor;
    }
}

/// How many bytes of `range` lie below `point`.
fn below(range: Range, point: u64) -> u64 {
    range.1.min(point).saturating_sub(range.0)
}

/// Adds `range` to `ranges`, which stay disjoint, not touching and ascending; calls `known` with each part of it that was there
/// before. Returns how many bytes are new.
pub(super) fn insert(ranges: &mut VecDeque<Range>, range: Range, mut known: impl FnMut(Range)) -> u64 {
    let (from, to) = range;
    let at = ranges.partition_point(|other| other.1 < from);
    let (mut merged, mut new, mut end) = (range, to - from, at);
    while let Some(&other) = ranges.get(end).filter(|other| other.0 <= to) {
        if other.0 <= from && other.1 >= to {
            return 0;
        }
        let common = (other.0.max(from), other.1.min(to));
        if common.0 < common.1 {
            new -= common.1 - common.0;
            known(common);
        }
        merged = (merged.0.min(other.0), merged.1.max(other.1));
        end += 1;
    }
    if let Some(slot) = ranges.get_mut(at).filter(|_| end > at) {
        *slot = merged;
        if end > at + 1 {
            ranges.drain(at + 1..end);
        }
    } else {
        ranges.insert(at, merged);
    }
    new
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Segments of ten bytes, `sent` of them under way.
    fn sent(sent: u64) -> Scoreboard {
        let mut board = Scoreboard::new(10);
        board.on_sent(10 * sent);
        board
    }

    /// The scoreboard as RFC 6675 §4 writes it down, byte by byte.
    struct Literal {
        segment: u64,
        first: u64,
        resent: u64,
        given_up: u64,
        arrived: Vec<bool>,
    }

    impl Literal {
        fn is_lost(&self, at: usize) -> bool {
            let above = &self.arrived[at + 1..];
            let bytes = above.iter().filter(|&&arrived| arrived).count() as u64;
            let runs = above.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
            (at as u64) < self.given_up || runs >= 3 || bytes > 2 * self.segment
        }

        fn unknown(&self) -> impl Iterator<Item = usize> + '_ {
            (self.first as usize..self.arrived.len()).filter(|&at| !self.arrived[at])
        }

        fn pipe(&self) -> u64 {
            self.unknown().map(|at| u64::from(!self.is_lost(at)) + u64::from((at as u64) < self.resent)).sum()
        }

        fn next_lost(&self) -> Option<u64> {
            self.unknown().find(|&at| at as u64 >= self.resent && self.is_lost(at)).map(|at| at as u64)
        }
    }

    #[test]
    fn three_segments_above_make_one_lost_and_two_do_not() {
        let mut board = sent(10);
        board.on_selective((10, 30));
        assert!(!board.is_first_lost());
        assert_eq!(board.pipe(), 80);
        assert_eq!(board.next_lost(), None);
        assert_eq!(board.next_suspect(), Some((0, 10)));
        // One byte more than two segments is enough (RFC 6675 §4, IsLost).
        board.on_selective((30, 31));
        assert!(board.is_first_lost());
        assert_eq!(board.pipe(), 69);
        assert_eq!(board.next_lost(), Some((0, 10)));
    }

    #[test]
    fn three_separate_arrivals_make_what_is_below_them_lost_however_short() {
        let mut board = sent(10);
        for at in [10, 30] {
            board.on_selective((at, at + 2));
        }
        assert!(!board.is_first_lost());
        board.on_selective((50, 52));
        assert!(board.is_first_lost());
        // Below 10 all is lost, above it nothing: two ranges lie above byte 12.
        assert_eq!(board.pipe(), 100 - 10 - 6);
    }

    #[test]
    fn the_pipe_counts_a_retransmission_until_it_arrives() {
        let mut board = sent(10);
        board.on_selective((10, 20));
        board.on_selective((30, 100));
        // Lost: 0..10 and 20..30. Arrived: the rest.
        assert_eq!(board.pipe(), 0);
        board.begin_recovery();
        let first = board.first_segment().unwrap();
        assert_eq!(first, (0, 10));
        board.on_resent(first);
        assert_eq!(board.pipe(), 10);
        let second = board.next_lost().unwrap();
        assert_eq!(second, (20, 30));
        board.on_resent(second);
        assert_eq!((board.pipe(), board.next_lost()), (20, None));
        assert_eq!(board.on_cumulative(20), 20);
        assert_eq!(board.pipe(), 10);
        assert_eq!(board.on_cumulative(100), 80);
        assert_eq!((board.pipe(), board.flight()), (0, 0));
    }

    #[test]
    fn a_recovery_has_one_rescue_and_it_is_the_last_segment() {
        let mut board = sent(10);
        board.on_selective((10, 60));
        board.begin_recovery();
        let first = board.first_segment().unwrap();
        board.on_resent(first);
        board.on_rescued(first.1);
        assert_eq!((board.next_lost(), board.next_suspect()), (None, None));
        assert_eq!(board.rescue(), None, "not while only the first is acknowledged");
        board.on_cumulative(60);
        assert_eq!(board.rescue(), Some((90, 100)));
        board.on_rescued(100);
        assert_eq!(board.rescue(), None);
        assert_eq!(board.pipe(), 40, "a rescue leaves the pipe as it was");
    }

    #[test]
    fn a_timeout_makes_all_lost_that_has_not_arrived() {
        let mut board = sent(10);
        board.on_selective((20, 30));
        board.give_up();
        assert_eq!(board.pipe(), 0);
        let mut resent = Vec::new();
        while let Some(segment) = board.next_lost() {
            board.on_resent(segment);
            resent.push(segment.0);
        }
        assert_eq!(resent, [0, 10, 30, 40, 50, 60, 70, 80, 90]);
        assert_eq!(board.pipe(), 90);
        board.on_sent(10);
        assert_eq!(board.pipe(), 100, "new data is not lost");
    }

    #[test]
    fn acknowledgements_of_what_was_never_sent_are_ignored() {
        let mut board = sent(2);
        assert_eq!(board.on_cumulative(21), 0);
        assert_eq!(board.on_selective((20, 40)), 0);
        assert_eq!(board.on_selective((15, 40)), 5);
        assert_eq!(board.pipe(), 15);
    }

    proptest! {
        #[test]
        fn pipe_and_loss_are_those_of_the_rfc_counted_byte_by_byte(
            steps in prop::collection::vec((0..6_u8, 0..200_u64, 1..25_u64), 1..60)
        ) {
            let mut board = Scoreboard::new(10);
            let mut literal = Literal { segment: 10, first: 0, resent: 0, given_up: 0, arrived: Vec::new() };
            for (kind, at, length) in steps {
                let lost_below = board.lost_below();
                let lost_before: Vec<_> = literal.unknown().filter(|&at| literal.is_lost(at)).collect();
                match kind {
                    0 | 1 => {
                        board.on_sent(length);
                        literal.arrived.resize(literal.arrived.len() + length as usize, false);
                    }
                    2 => {
                        let known = literal.arrived.len() as u64;
                        let (from, to) = (at.max(literal.first).min(known), (at + length).min(known));
                        let before = literal.arrived.iter().filter(|&&arrived| arrived).count();
                        for byte in from..to.max(from) {
                            literal.arrived[byte as usize] = true;
                        }
                        let after = literal.arrived.iter().filter(|&&arrived| arrived).count();
                        prop_assert_eq!(board.on_selective((at, at + length)), (after - before) as u64);
                    }
                    3 => {
                        let to = literal.first + length;
                        if to <= literal.arrived.len() as u64 {
                            literal.first = to;
                            literal.resent = literal.resent.max(to);
                            // What is cumulatively acknowledged has arrived, but is no selective arrival above anything.
                            literal.arrived[..to as usize].fill(true);
                        }
                        board.on_cumulative(to);
                    }
                    4 => {
                        if let Some(segment) = board.next_lost() {
                            board.on_resent(segment);
                            literal.resent = segment.1;
                        }
                    }
                    _ if length < 3 => {
                        board.give_up();
                        literal.given_up = literal.arrived.len() as u64;
                        literal.resent = literal.first;
                    }
                    _ => {}
                }
                prop_assert_eq!(board.pipe(), literal.pipe());
                let delivered = literal.arrived.iter().filter(|&&arrived| arrived).count() as u64;
                prop_assert_eq!(board.delivered(), delivered);
                let lost: Vec<_> = literal.unknown().filter(|&at| literal.is_lost(at)).collect();
                let is_new = lost.iter().any(|at| !lost_before.contains(at));
                prop_assert_eq!(board.has_lost_since(lost_below), is_new);
                prop_assert_eq!(board.next_lost().map(|segment| segment.0), literal.next_lost());
                prop_assert!(board.arrived.iter().all(|range| range.0 < range.1));
            }
        }
    }
}
