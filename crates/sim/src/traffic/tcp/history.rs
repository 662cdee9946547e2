//! When each outstanding segment was sent: the per-segment state of RACK (RFC 8985 §5.2) and of delivery-rate samples.

use std::collections::VecDeque;

use giusto_units::Timestamp;

use super::ranges::Range;

/// The state of the connection when a segment was sent, for delivery-rate samples (draft-ietf-ccwg-bbr-03 §4.1.2.2).
///
/// | here | draft |
/// |---|---|
/// | `delivered`, `delivered_at` | `P.delivered`, `P.delivered_time` |
/// | `first_sent` | `P.first_send_time` |
/// | `lost` | `P.lost` |
/// | `flight` | `P.tx_in_flight`, this segment included |
/// | `app_limited` | `P.is_app_limited` |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) delivered: u64,
    pub(super) delivered_at: Timestamp,
    pub(super) first_sent: Timestamp,
    pub(super) lost: u64,
    pub(super) flight: u64,
    pub(super) app_limited: bool,
}

/// A transmission that was acknowledged or lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transmitted {
    pub(super) at: Timestamp,
    pub(super) end: u64,
    pub(super) is_retransmission: bool,
    pub(super) stamp: Option<Stamp>,
}

/// The first transmission of a segment. Segments are stored in order of sequence and therefore of time.
#[derive(Debug, Clone, Copy)]
struct Sent {
    end: u64,
    at: Timestamp,
}

/// An outstanding retransmission.
#[derive(Debug, Clone, Copy)]
struct Resent {
    range: Range,
    at: Timestamp,
    is_probe: bool,
    stamp: Option<Stamp>,
}

/// The transmissions of all outstanding segments. Nothing is allocated before the first segment.
#[derive(Debug, Default)]
pub(super) struct History {
    sent: VecDeque<Sent>,
    /// One per entry of `sent` if delivery rates are measured, otherwise empty.
    stamps: VecDeque<Stamp>,
    /// Outstanding retransmissions in order of time.
    resent: VecDeque<Resent>,
    /// End of the highest of them.
    resent_below: u64,
    /// Lost retransmissions that have not been repeated.
    lost_again: VecDeque<Range>,
    lost_again_bytes: u64,
}

impl History {
    pub(super) fn clear(&mut self) {
        self.sent.clear();
        self.stamps.clear();
        self.resent.clear();
        self.resent_below = 0;
        self.lost_again.clear();
        self.lost_again_bytes = 0;
    }

    /// Records the first transmission of the segment that ends at `end`.
    pub(super) fn on_sent(&mut self, now: Timestamp, end: u64, stamp: Option<Stamp>) {
        self.sent.push_back(Sent { end, at: now });
        self.stamps.extend(stamp);
    }

    /// Records a retransmission; `is_probe` if the original is not known to be lost.
    pub(super) fn on_resent(&mut self, now: Timestamp, range: Range, is_probe: bool, stamp: Option<Stamp>) {
        self.lost_again_bytes -= cut(&mut self.lost_again, range);
        if range.0 < self.resent_below {
            // This transmission replaces an earlier one.
            self.cut_resent(range, |_, _| ());
        }
        self.resent.push_back(Resent { range, at: now, is_probe, stamp });
        self.resent_below = self.resent_below.max(range.1);
    }

    /// Processes the delivery of `part`. Calls `each` for its newest transmissions: each retransmission, and the last
    /// original. Returns whether none of it was retransmitted.
    pub(super) fn on_delivered(&mut self, part: Range, mut each: impl FnMut(Transmitted)) -> bool {
        let mut covered = 0;
        let mut covers_end = false;
        if part.0 < self.resent_below {
            covered = self.cut_resent(part, |entry, common| {
                covers_end |= common.1 == part.1;
                each(Transmitted {
                    at: entry.at,
                    end: common.1,
                    is_retransmission: true,
                    stamp: entry.stamp,
                });
            });
            if self.resent.is_empty() {
                self.resent_below = 0;
            }
        }
        let again = if self.lost_again_bytes > 0 { cut(&mut self.lost_again, part) } else { 0 };
        self.lost_again_bytes -= again;
        if !covers_end && again == 0 {
            each(self.original(part.1));
        }
        covered + again == 0
    }

    /// Removes `part` from the outstanding retransmissions. Calls `each` for each with its part. Returns the number of
    /// removed bytes.
    fn cut_resent(&mut self, part: Range, mut each: impl FnMut(&Resent, Range)) -> u64 {
        let (mut removed, mut at) = (0, 0);
        while let Some(&entry) = self.resent.get(at).filter(|_| removed < part.1 - part.0) {
            let common = (entry.range.0.max(part.0), entry.range.1.min(part.1));
            if common.0 >= common.1 {
                at += 1;
                continue;
            }
            removed += common.1 - common.0;
            each(&entry, common);
            self.resent.remove(at);
            for rest in [(entry.range.0, common.0), (common.1, entry.range.1)] {
                if rest.0 < rest.1 {
                    self.resent.insert(at, Resent { range: rest, ..entry });
                    at += 1;
                }
            }
        }
        removed
    }

    /// Forgets the segments below the cumulative acknowledgement.
    pub(super) fn on_cumulative(&mut self, first: u64) {
        while self.sent.front().is_some_and(|sent| sent.end <= first) {
            self.sent.pop_front();
            self.stamps.pop_front();
        }
    }

    /// First transmission of the segment with the byte before `end`.
    pub(super) fn original(&self, end: u64) -> Transmitted {
        let at = self.index(end);
        self.transmitted(at, self.sent.get(at).copied().unwrap_or(Sent { end, at: Timestamp::ZERO }))
    }

    /// First transmissions of the segments above `from`, in order.
    pub(super) fn originals_above(&self, from: u64) -> impl Iterator<Item = Transmitted> + '_ {
        // Usually there are none below.
        let has_earlier = self.sent.front().is_some_and(|sent| sent.end <= from);
        let skipped = if has_earlier { self.sent.partition_point(|sent| sent.end <= from) } else { 0 };
        self.sent.iter().enumerate().skip(skipped).map(|(at, sent)| self.transmitted(at, *sent))
    }

    fn transmitted(&self, index: usize, sent: Sent) -> Transmitted {
        let stamp = self.stamps.get(index).copied();
        Transmitted { at: sent.at, end: sent.end, is_retransmission: false, stamp }
    }

    /// End of the last segment first sent at or before `at`.
    pub(super) fn sent_until(&self, at: Timestamp) -> Option<u64> {
        let count = self.sent.partition_point(|sent| sent.at <= at);
        self.sent.get(count.checked_sub(1)?).map(|sent| sent.end)
    }

    fn index(&self, end: u64) -> usize {
        // The usual segment is the first or the last.
        if self.sent.front().is_some_and(|sent| sent.end >= end) {
            return 0;
        }
        self.sent.partition_point(|sent| sent.end < end)
    }

    /// The oldest outstanding retransmission.
    pub(super) fn oldest_resent(&self) -> Option<Transmitted> {
        self.resent.front().map(|entry| Transmitted {
            at: entry.at,
            end: entry.range.1,
            is_retransmission: true,
            stamp: entry.stamp,
        })
    }

    /// Marks the oldest outstanding retransmission as lost. Returns its size unless it was a probe, whose original is not
    /// known to be lost.
    pub(super) fn lose_oldest_resent(&mut self) -> u64 {
        let Some(entry) = self.resent.pop_front() else { return 0 };
        if self.resent.is_empty() {
            self.resent_below = 0;
        }
        if entry.is_probe {
            return 0;
        }
        self.lost_again.push_back(entry.range);
        self.lost_again_bytes += entry.range.1 - entry.range.0;
        entry.range.1 - entry.range.0
    }

    /// Marks the outstanding retransmissions of `at` as lost.
    pub(super) fn lose_resent_at(&mut self, byte: u64) {
        let found = self.resent.iter().position(|entry| entry.range.0 <= byte && byte < entry.range.1);
        if let Some(entry) = found.and_then(|at| self.resent.remove(at)).filter(|entry| !entry.is_probe) {
            self.lost_again.push_front(entry.range);
            self.lost_again_bytes += entry.range.1 - entry.range.0;
        }
    }

    /// Bytes of lost retransmissions that have not been repeated.
    pub(super) fn lost_again_bytes(&self) -> u64 {
        self.lost_again_bytes
    }

    /// The first lost retransmission.
    pub(super) fn first_lost_again(&self) -> Option<Range> {
        self.lost_again.front().copied()
    }

    /// Forgets that retransmissions were lost.
    pub(super) fn clear_lost_again(&mut self) {
        self.lost_again.clear();
        self.lost_again_bytes = 0;
    }
}

/// Removes `part` from `ranges`, which are disjoint. Returns the number of removed bytes.
fn cut(ranges: &mut VecDeque<Range>, part: Range) -> u64 {
    let (mut removed, mut at) = (0, 0);
    while let Some(&range) = ranges.get(at) {
        let common = (range.0.max(part.0), range.1.min(part.1));
        if common.0 >= common.1 {
            at += 1;
            continue;
        }
        removed += common.1 - common.0;
        ranges.remove(at);
        for rest in [(range.0, common.0), (common.1, range.1)] {
            if rest.0 < rest.1 {
                ranges.insert(at, rest);
                at += 1;
            }
        }
    }
    removed
}
