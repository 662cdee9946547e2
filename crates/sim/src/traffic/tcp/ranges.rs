//! Ascending, disjoint ranges of bytes.

use std::collections::VecDeque;

/// A half-open range of bytes: (first, after the last).
pub(super) type Range = (u64, u64);

/// Calls `new` for each part of `range` that is in none of `ranges`.
pub(super) fn new_parts(ranges: &VecDeque<Range>, range: Range, mut new: impl FnMut(Range)) {
    let at = ranges.partition_point(|known| known.1 <= range.0);
    let mut from = range.0;
    for known in ranges.iter().skip(at).take_while(|known| known.0 < range.1) {
        if from < known.0 {
            new((from, known.0));
        }
        from = known.1;
    }
    if from < range.1 {
        new((from, range.1));
    }
}

/// Number of bytes of `range` below `point`.
pub(super) fn below(range: Range, point: u64) -> u64 {
    range.1.min(point).saturating_sub(range.0)
}

/// Adds `range` to `ranges`, which remain ascending, disjoint and not adjacent. Calls `known` for each part that was
/// received before. Returns the number of new bytes.
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
