//! Which segment to retransmit next: `NextSeg` (RFC 6675 §4).

use super::Scoreboard;
use crate::traffic::tcp::ranges::Range;

impl Scoreboard {
    /// With RACK, whether lost segments have not been retransmitted.
    pub(in crate::traffic::tcp) fn has_lost(&self) -> bool {
        self.next_lost().is_some()
    }

    /// The last segment, for a loss probe (RFC 8985 §7.3).
    pub(in crate::traffic::tcp) fn last_segment(&self) -> Option<Range> {
        let retransmitted = if self.retransmitted < self.next { self.retransmitted } else { 0 };
        let from = self.next.saturating_sub(self.segment).max(self.first).max(retransmitted);
        (from < self.next).then_some((from, self.next))
    }

    /// First segment to retransmit in a recovery (RFC 6675 §5, step 4.3).
    pub(in crate::traffic::tcp) fn first_segment(&self) -> Option<Range> {
        let end = self.received.front().map_or(self.next, |range| range.0);
        self.segment_of((self.first, end))
    }

    /// First lost segment that was not retransmitted: `NextSeg`, rule 1 (RFC 6675 §4).
    pub(in crate::traffic::tcp) fn next_lost(&self) -> Option<Range> {
        if let Some(again) = self.history.as_ref().and_then(|history| history.first_lost_again()) {
            return self.segment_of(again);
        }
        if self.lost_below <= self.retransmitted {
            return None;
        }
        let (from, to) = self.hole()?;
        (from < self.lost_below).then(|| self.segment_of((from, to)))?
    }

    /// First missing segment below a received one that was not retransmitted: `NextSeg`, rule 3 (RFC 6675 §4).
    pub(in crate::traffic::tcp) fn next_suspect(&self) -> Option<Range> {
        let (from, to) = self.hole()?;
        let highest = self.received.back()?.1;
        (from < highest).then(|| self.segment_of((from, to)))?
    }

    /// Last missing segment, once per recovery: `NextSeg`, rule 4 (RFC 6675 §4).
    pub(in crate::traffic::tcp) fn rescue(&self) -> Option<Range> {
        if self.rescued.is_some_and(|rescued| self.first <= rescued) {
            return None;
        }
        let end =
            self.received.back().filter(|range| range.1 == self.next).map_or(self.next, |range| range.0);
        let below =
            self.received.iter().rev().find(|range| range.1 <= end).map_or(self.first, |range| range.1);
        (end > below).then(|| (end.saturating_sub(self.segment).max(below), end))
    }

    /// Processes the retransmission of a segment from [`first_segment`](Self::first_segment), [`next_lost`](Self::next_lost)
    /// or [`next_suspect`](Self::next_suspect) (RFC 6675 §5, step C.2).
    pub(in crate::traffic::tcp) fn on_retransmitted(&mut self, segment: Range) {
        let (from, to) = segment;
        if from >= self.retransmitted && to <= self.next {
            // All bytes between the last retransmitted segment and this one have been received.
            self.received_below_retransmitted += from - self.retransmitted;
            self.retransmitted = to;
        }
    }

    /// Prevents another rescue retransmission until all bytes up to `mark` are acknowledged.
    pub(in crate::traffic::tcp) fn on_rescued(&mut self, mark: u64) {
        self.rescued = Some(mark);
    }

    /// Whether `range` was not retransmitted.
    pub(in crate::traffic::tcp) fn is_original(&self, range: Range) -> bool {
        range.0 >= self.retransmitted
    }

    /// First gap at or above the retransmitted bytes.
    fn hole(&self) -> Option<Range> {
        let at = self.received.partition_point(|range| range.1 <= self.retransmitted);
        let (from, after) = match self.received.get(at) {
            Some(range) if range.0 <= self.retransmitted => (range.1, at + 1),
            _ => (self.retransmitted, at),
        };
        let to = self.received.get(after).map_or(self.next, |range| range.0);
        (from < to).then_some((from, to))
    }

    /// The first segment of `range`.
    fn segment_of(&self, range: Range) -> Option<Range> {
        (range.0 < range.1).then(|| (range.0, range.1.min(range.0 + self.segment)))
    }
}
