//! The scoreboard of RFC 6675: which bytes were received, are lost, or are in flight.

mod by_time;
mod next_segment;

use std::collections::VecDeque;

use giusto_units::Timestamp;

use super::{
    history::{History, Stamp},
    news::News,
    rack::DUPLICATE_THRESHOLD,
    ranges::{Range, below, insert, new_parts},
};

/// The state of all bytes between the cumulative acknowledgement and the highest byte sent.
///
/// | here | RFC 6675 §2 |
/// |---|---|
/// | [`first`](Self::first) | `HighACK` + 1 |
/// | [`next`](Self::next) | `HighData` + 1 |
/// | `retransmitted` | `HighRxt` + 1 |
/// | `rescued` | `RescueRxt` + 1 |
/// | [`pipe`](Self::pipe) | `pipe`, updated incrementally |
///
/// With RACK (RFC 8985) `IsLost` is replaced: the originals sent before some time are lost, and so are retransmissions that
/// RACK marks. Segments are first sent in order of sequence, so the lost originals are again those below some point.
///
/// `IsLost` holds for all missing bytes below some point, and at most three received ranges lie above that point. Every
/// query therefore takes at most one binary search.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    segment: u64,
    first: u64,
    next: u64,
    /// Ranges received out of order: ascending, disjoint and not adjacent.
    received: VecDeque<Range>,
    retransmitted: u64,
    received_below_retransmitted: u64,
    rescued: Option<u64>,
    /// All missing bytes below this are lost because of a timeout.
    timed_out_below: u64,
    /// All missing bytes below this are lost.
    lost_below: u64,
    received_above_lost: u64,
    delivered: u64,
    /// With RACK, the transmissions of the outstanding segments.
    history: Option<Box<History>>,
}

impl Scoreboard {
    /// Creates an empty scoreboard for segments of `segment` bytes.
    pub(super) fn new(segment: u64) -> Self {
        Self { segment, ..Self::default() }
    }

    /// Resets all state for a new connection, which uses RACK or not.
    pub(super) fn clear(&mut self, uses_rack: bool) {
        let received = std::mem::take(&mut self.received);
        let history = self.history.take();
        *self = Self { received, ..Self::new(self.segment) };
        self.received.clear();
        if uses_rack {
            let mut history = history.unwrap_or_default();
            history.clear();
            self.history = Some(history);
        }
    }

    /// First byte that is not cumulatively acknowledged.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// First byte that has not been sent.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Number of bytes sent but not cumulatively acknowledged: `FlightSize` (RFC 5681 §2).
    pub(super) fn flight(&self) -> u64 {
        self.next - self.first
    }

    /// Estimated number of bytes in flight: `SetPipe` (RFC 6675 §4).
    pub(super) fn pipe(&self) -> u64 {
        let not_lost = self.next - self.lost_below - self.received_above_lost;
        let retransmissions = self.retransmitted - self.first - self.received_below_retransmitted;
        let lost_again = self.history.as_ref().map_or(0, |history| history.lost_again_bytes());
        (not_lost + retransmissions).saturating_sub(lost_again)
    }

    /// Number of bytes acknowledged, cumulatively or selectively, since the start.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Point below which all missing bytes are lost.
    pub(super) fn lost_below(&self) -> u64 {
        self.lost_below
    }

    /// Whether bytes have become lost since [`lost_below`](Self::lost_below) returned `before`.
    pub(super) fn has_lost_since(&self, before: u64) -> bool {
        let from = before.max(self.first);
        if self.lost_below <= from {
            return false;
        }
        let at = self.received.partition_point(|range| range.1 <= from);
        let unknown = self.received.get(at).filter(|range| range.0 <= from).map_or(from, |range| range.1);
        unknown < self.lost_below
    }

    /// Whether the first unacknowledged byte is lost: `IsLost (HighACK + 1)` (RFC 6675 §4).
    pub(super) fn is_first_lost(&self) -> bool {
        self.lost_below > self.first
    }

    /// Processes the transmission of `bytes` of new data.
    pub(super) fn on_sent(&mut self, now: Timestamp, bytes: u64, stamp: Option<Stamp>) {
        self.next += bytes;
        if let Some(history) = &mut self.history {
            history.on_sent(now, self.next, stamp);
        }
    }

    /// With RACK, records the transmission time of a retransmission; `is_probe` if its original is not known to be lost.
    pub(super) fn on_resent(&mut self, now: Timestamp, range: Range, is_probe: bool, stamp: Option<Stamp>) {
        if let Some(history) = &mut self.history {
            history.on_resent(now, range, is_probe, stamp);
        }
    }

    /// Number of bytes received above the first missing byte.
    pub(super) fn received_above(&self) -> u64 {
        self.delivered - self.first
    }

    /// Processes a cumulative acknowledgement. Returns the number of newly acknowledged bytes, including those acknowledged
    /// selectively before. Ignores an acknowledgement of data that was not sent.
    pub(super) fn on_cumulative(&mut self, acknowledgment: u64, news: &mut News<'_>) -> u64 {
        if acknowledgment <= self.first || acknowledgment > self.next {
            return 0;
        }
        if let Some(history) = &mut self.history {
            new_parts(&self.received, (self.first, acknowledgment), |part| {
                news.on_part(history, part, news.echo);
            });
            history.on_cumulative(acknowledgment);
        }
        let advanced = acknowledgment - self.first;
        self.delivered += advanced;
        while let Some(range) = self.received.front_mut() {
            let passed = range.1.min(acknowledgment).saturating_sub(range.0);
            if passed == 0 {
                break;
            }
            self.delivered -= passed;
            let part = (range.0, range.0 + passed);
            self.received_below_retransmitted -= below(part, self.retransmitted);
            self.received_above_lost =
                self.received_above_lost.saturating_sub(passed - below(part, self.lost_below));
            range.0 += passed;
            if range.0 < range.1 {
                break;
            }
            self.received.pop_front();
        }
        self.first = acknowledgment;
        self.retransmitted = self.retransmitted.max(acknowledgment);
        self.update_lost();
        advanced
    }

    /// Processes a selective acknowledgement of `range`: `Update` (RFC 6675 §4). Returns the number of newly acknowledged
    /// bytes.
    pub(super) fn on_selective(&mut self, range: Range, news: &mut News<'_>) -> u64 {
        let range = (range.0.max(self.first), range.1.min(self.next));
        if range.0 >= range.1 {
            return 0;
        }
        if let Some(history) = &mut self.history {
            new_parts(&self.received, range, |part| {
                // The echo is not of a segment above a missing one (RFC 7323 §4.3), so the minimum RTT alone decides.
                news.on_part(history, part, None);
                self.received_above_lost += part.1 - part.0 - below(part, self.lost_below);
            });
        }
        let new = insert(&mut self.received, range, |known| {
            self.received_below_retransmitted -= below(known, self.retransmitted);
        });
        if new > 0 {
            self.delivered += new;
            self.received_below_retransmitted += below(range, self.retransmitted);
            self.update_lost();
        }
        new
    }

    /// Starts loss recovery without retransmissions (RFC 6675 §5, step 4).
    pub(super) fn begin_recovery(&mut self) {
        self.retransmitted = self.first;
        self.received_below_retransmitted = 0;
        self.rescued = None;
    }

    /// Marks all missing bytes as lost and not retransmitted, after a timeout.
    ///
    /// Selective acknowledgements remain valid, since the receivers here never renege (RFC 6675 §5.1, with erratum 1610 of
    /// RFC 2018).
    pub(super) fn on_timeout(&mut self) {
        self.begin_recovery();
        self.timed_out_below = self.next;
        self.update_lost();
    }

    /// Undoes the losses marked by a spurious timeout: nothing is lost.
    pub(super) fn on_spurious_timeout(&mut self) {
        if let Some(history) = &mut self.history {
            history.clear_lost_again();
        }
        self.timed_out_below = self.first;
        self.lost_below = self.first;
        if self.history.is_some() {
            self.received_above_lost = self.received.iter().map(|range| range.1 - range.0).sum();
        } else {
            self.update_lost();
        }
        // Everything that was retransmitted is acknowledged.
        self.retransmitted = self.first;
        self.received_below_retransmitted = 0;
    }

    /// Updates the point below which `IsLost` holds: `DupThresh` ranges, or more than `DupThresh` − 1 full segments, were
    /// received above it (RFC 6675 §4).
    fn update_lost(&mut self) {
        if self.history.is_some() {
            self.lost_below = self.lost_below.max(self.first);
            return;
        }
        let enough = u64::from(DUPLICATE_THRESHOLD - 1) * self.segment;
        let floor = self.timed_out_below.max(self.first);
        let (mut above, mut received_above_floor) = (0, 0);
        for (count, range) in (1..).zip(self.received.iter().rev()) {
            above += range.1 - range.0;
            let is_lost_below = count >= DUPLICATE_THRESHOLD || above > enough;
            if is_lost_below && range.0 > floor {
                self.lost_below = range.0;
                self.received_above_lost = above;
                return;
            }
            received_above_floor += range.1.saturating_sub(range.0.max(floor));
            if is_lost_below {
                break;
            }
        }
        self.lost_below = floor;
        self.received_above_lost = received_above_floor;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::traffic::tcp::rack::Rack;

    fn selective(board: &mut Scoreboard, range: Range) -> u64 {
        board.on_selective(range, &mut News::new(Timestamp::ZERO, None, &mut Rack::default()))
    }

    fn cumulative(board: &mut Scoreboard, acknowledgment: u64) -> u64 {
        board.on_cumulative(acknowledgment, &mut News::new(Timestamp::ZERO, None, &mut Rack::default()))
    }

    /// A literal implementation of RFC 6675 §4, byte by byte.
    struct Literal {
        segment: u64,
        first: u64,
        retransmitted: u64,
        timed_out_below: u64,
        received: Vec<bool>,
    }

    impl Literal {
        fn is_lost(&self, at: usize) -> bool {
            let above = &self.received[at + 1..];
            let bytes = above.iter().filter(|&&received| received).count() as u64;
            let runs = above.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
            (at as u64) < self.timed_out_below || runs >= 3 || bytes > 2 * self.segment
        }

        fn unknown(&self) -> impl Iterator<Item = usize> + '_ {
            (self.first as usize..self.received.len()).filter(|&at| !self.received[at])
        }

        fn pipe(&self) -> u64 {
            self.unknown()
                .map(|at| u64::from(!self.is_lost(at)) + u64::from((at as u64) < self.retransmitted))
                .sum()
        }

        /// The first missing byte that was not retransmitted and for which this holds.
        fn next(&self, holds: impl Fn(usize) -> bool) -> Option<u64> {
            self.unknown().find(|&at| at as u64 >= self.retransmitted && holds(at)).map(|at| at as u64)
        }
    }

    #[test]
    fn a_recovery_has_one_rescue_of_the_last_segment() {
        let mut board = Scoreboard::new(10);
        board.on_sent(Timestamp::ZERO, 100, None);
        selective(&mut board, (10, 60));
        board.begin_recovery();
        let first = board.first_segment().unwrap();
        board.on_retransmitted(first);
        board.on_rescued(first.1);
        assert_eq!((board.next_lost(), board.next_suspect()), (None, None));
        assert_eq!(board.rescue(), None, "no rescue while only the first segment is acknowledged");
        cumulative(&mut board, 60);
        assert_eq!(board.rescue(), Some((90, 100)));
        board.on_rescued(100);
        assert_eq!(board.rescue(), None);
        assert_eq!(board.pipe(), 40, "a rescue does not change the pipe");
    }

    proptest! {
        #[test]
        fn pipe_and_loss_match_a_literal_implementation(
            steps in prop::collection::vec((0..6_u8, 0..200_u64, 1..25_u64), 1..60)
        ) {
            let mut board = Scoreboard::new(10);
            let mut literal = Literal { segment: 10, first: 0, retransmitted: 0, timed_out_below: 0, received: Vec::new() };
            for (kind, at, length) in steps {
                let lost_below = board.lost_below();
                let lost_before: Vec<_> = literal.unknown().filter(|&at| literal.is_lost(at)).collect();
                match kind {
                    0 | 1 => {
                        board.on_sent(Timestamp::ZERO, length, None);
                        literal.received.resize(literal.received.len() + length as usize, false);
                    }
                    2 => {
                        let known = literal.received.len() as u64;
                        let (from, to) = (at.max(literal.first).min(known), (at + length).min(known));
                        let before = literal.received.iter().filter(|&&received| received).count();
                        for byte in from..to.max(from) {
                            literal.received[byte as usize] = true;
                        }
                        let after = literal.received.iter().filter(|&&received| received).count();
                        prop_assert_eq!(selective(&mut board, (at, at + length)), (after - before) as u64);
                    }
                    3 => {
                        let to = literal.first + length;
                        if to <= literal.received.len() as u64 {
                            literal.first = to;
                            literal.retransmitted = literal.retransmitted.max(to);
                            // Cumulatively acknowledged bytes were received, but do not count as selectively received.
                            literal.received[..to as usize].fill(true);
                        }
                        cumulative(&mut board, to);
                    }
                    4 => {
                        if let Some(segment) = board.next_lost() {
                            board.on_retransmitted(segment);
                            literal.retransmitted = segment.1;
                        }
                    }
                    _ if length < 3 => {
                        board.on_timeout();
                        literal.timed_out_below = literal.received.len() as u64;
                        literal.retransmitted = literal.first;
                    }
                    _ => {}
                }
                prop_assert_eq!(board.pipe(), literal.pipe());
                let delivered = literal.received.iter().filter(|&&received| received).count() as u64;
                prop_assert_eq!(board.delivered(), delivered);
                let lost: Vec<_> = literal.unknown().filter(|&at| literal.is_lost(at)).collect();
                let is_new = lost.iter().any(|at| !lost_before.contains(at));
                prop_assert_eq!(board.has_lost_since(lost_below), is_new);
                prop_assert_eq!(board.next_lost().map(|segment| segment.0), literal.next(|at| literal.is_lost(at)));
                let suspect = literal.next(|at| literal.received[at..].contains(&true));
                prop_assert_eq!(board.next_suspect().map(|segment| segment.0), suspect);
                let first = literal.first as usize;
                if literal.unknown().next() == Some(first) {
                    prop_assert_eq!(board.is_first_lost(), literal.is_lost(first));
                }
                prop_assert!(board.received.iter().all(|range| range.0 < range.1));
            }
        }
    }
}
