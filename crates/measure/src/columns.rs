//! Counts of values in columns of logarithmic width, stored only where there are values.

/// Each octave has `1 << FINEST` columns: three significant decimal digits.
const FINEST: u32 = 10;

/// Each octave keeps at least `1 << COARSEST` columns.
const COARSEST: u32 = 2;

/// All magnitudes of 48 bits at the coarsest precision have fewer columns.
const MIN_COLUMNS: usize = 48 << COARSEST;

/// A slot holds the number of its column in the upper 16 bits and its count in the lower 48. An empty slot is 0.
const COUNT_BITS: u32 = 48;

const MAX_COUNT: u64 = (1 << COUNT_BITS) - 1;

/// Slots of the first table.
const MIN_SLOTS: usize = 8;

/// The column of each value and its count, in a hash table with linear probing.
///
/// Values below `2 << precision` have a column of their own. Above, each octave is divided into `1 << precision` columns of equal
/// width. The columns are those of an HDR histogram with three significant digits as long as there are at most as many as allowed;
/// then each two neighbours become one, as often as necessary. So the precision depends only on the set of values, not on their
/// order.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    /// A power of two of them, at most seven eighths in use; none before the first value.
    slots: Vec<u64>,
    used: usize,
    max_used: usize,
    precision: u32,
}

impl Columns {
    /// At most this many columns.
    pub(super) fn new(max_used: usize) -> Self {
        Self { slots: Vec::new(), used: 0, max_used: max_used.max(MIN_COLUMNS), precision: FINEST }
    }

    /// As many columns as the finest precision has.
    pub(super) fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// Adds `count` values of `value`, which is below 2^48. A column counts at most 2^48 − 1 values.
    #[inline]
    pub(super) fn add(&mut self, value: u64, count: u64) {
        let column = column(value, self.precision);
        if let Some(slot) = self.slot(column)
            && *slot != 0
        {
            let room = MAX_COUNT - (*slot & MAX_COUNT);
            *slot += count.min(room);
        } else {
            self.insert(column, count);
        }
    }

    /// Adds all values of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        while self.precision > other.precision {
            self.coarsen();
        }
        for &slot in other.slots.iter().filter(|&&slot| slot != 0) {
            let (lower, _) = bounds(slot >> COUNT_BITS, other.precision);
            self.add(lower, slot & MAX_COUNT);
        }
    }

    /// The smallest and the largest value of each column and its count, in increasing order.
    pub(super) fn sorted(&self) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        let mut slots: Vec<u64> = self.slots.iter().copied().filter(|&slot| slot != 0).collect();
        slots.sort_unstable();
        let precision = self.precision;
        slots.into_iter().map(move |slot| {
            let (lower, upper) = bounds(slot >> COUNT_BITS, precision);
            (lower, upper, slot & MAX_COUNT)
        })
    }

    /// The slot of `column`, or the empty one where it belongs; `None` without slots.
    #[inline]
    fn slot(&mut self, column: u64) -> Option<&mut u64> {
        let mask = self.slots.len().checked_sub(1)?;
        // Fibonacci hashing spreads neighbouring columns evenly: Knuth, The Art of Computer Programming, volume 3, §6.4.
        let hash = column.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut place = (hash >> 32) as usize & mask;
        // There is always an empty slot.
        while self.slots.get(place).is_some_and(|&slot| slot != 0 && slot >> COUNT_BITS != column) {
            place = (place + 1) & mask;
        }
        self.slots.get_mut(place)
    }

    #[cold]
    #[inline(never)]
    fn insert(&mut self, column: u64, count: u64) {
        if self.used >= self.max_used {
            let (lower, _) = bounds(column, self.precision);
            self.coarsen();
            return self.add(lower, count);
        }
        if (self.used + 1) * 8 > self.slots.len() * 7 {
            let slots = (self.slots.len() * 2).max(MIN_SLOTS);
            let before = std::mem::replace(&mut self.slots, vec![0; slots]);
            for slot in before.into_iter().filter(|&slot| slot != 0) {
                if let Some(empty) = self.slot(slot >> COUNT_BITS) {
                    *empty = slot;
                }
            }
        }
        if let Some(empty) = self.slot(column) {
            *empty = column << COUNT_BITS | count.min(MAX_COUNT);
            self.used += 1;
        }
    }

    /// Makes each two neighbouring columns one.
    fn coarsen(&mut self) {
        let before = self.precision;
        self.precision = before.saturating_sub(1);
        self.used = 0;
        let slots = vec![0; self.slots.len()];
        for slot in std::mem::replace(&mut self.slots, slots).into_iter().filter(|&slot| slot != 0) {
            let (lower, _) = bounds(slot >> COUNT_BITS, before);
            self.add(lower, slot & MAX_COUNT);
        }
    }
}

/// The column of `value` with `1 << precision` columns in each octave.
#[inline]
fn column(value: u64, precision: u32) -> u64 {
    let octave = (value | 1 << precision).ilog2() - precision;
    (u64::from(octave) << precision) + (value >> octave)
}

/// The smallest and the largest value of a column.
fn bounds(column: u64, precision: u32) -> (u64, u64) {
    let octave = (column >> precision).saturating_sub(1);
    let lower = (column - (octave << precision)) << octave;
    (lower, lower + (1 << octave) - 1)
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    use super::*;

    /// Values of all magnitudes up to one hour.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        let value =
            (0_u32..42, any::<u64>()).prop_map(|(bits, value)| value % (2 << bits).min(3_600_000_000_000));
        prop::collection::vec(value, 0..2000)
    }

    fn filled(columns: Columns, values: &[u64]) -> Columns {
        values.iter().fold(columns, |mut columns, &value| {
            columns.add(value, 1);
            columns
        })
    }

    proptest! {
        #[test]
        fn columns_are_those_of_an_hdr_histogram(values in values()) {
            let mut oracle = Histogram::<u64>::new(3).unwrap();
            for &value in &values {
                oracle.record(value).unwrap();
            }
            let theirs: Vec<_> = oracle
                .iter_recorded()
                .map(|step| {
                    let value = step.value_iterated_to();
                    (oracle.lowest_equivalent(value), oracle.highest_equivalent(value), step.count_since_last_iteration())
                })
                .collect();
            let ours: Vec<_> = filled(Columns::unlimited(), &values).sorted().collect();
            prop_assert_eq!(ours, theirs);
        }

        #[test]
        fn limited_columns_hold_every_value_whatever_the_order(mut values in values(), split in 0_usize..2000) {
            let limited = || Columns::new(0);
            let whole: Vec<_> = filled(limited(), &values).sorted().collect();
            prop_assert!(whole.len() <= MIN_COLUMNS);
            let (first, second) = values.split_at(split.min(values.len()));
            let mut merged = filled(limited(), second);
            merged.merge(&filled(limited(), first));
            prop_assert_eq!(&merged.sorted().collect::<Vec<_>>(), &whole);
            values.sort_unstable();
            let mut rest = &values[..];
            for (lower, upper, count) in whole {
                let (own, others) = rest.split_at(count as usize);
                prop_assert!(own.iter().all(|value| (lower..=upper).contains(value)));
                rest = others;
            }
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn the_precision_halves_only_when_columns_run_out() {
        let mut columns = Columns::new(512);
        (0..512).for_each(|step| columns.add(1 << 30 | step << 20, 1));
        assert_eq!(columns.precision, 10);
        columns.add(5, 1);
        assert_eq!(columns.precision, 9);
        let widest = columns
            .sorted()
            .map(|(lower, upper, _)| (upper - lower) as f64 / lower as f64)
            .fold(0.0, f64::max);
        assert!((0.0019..0.002).contains(&widest), "{widest}");
    }

    #[test]
    fn a_column_counts_up_to_its_maximum() {
        let mut columns = Columns::unlimited();
        columns.add(7, u64::MAX);
        columns.add(7, 1);
        columns.add(8, 1);
        assert_eq!(columns.sorted().collect::<Vec<_>>(), [(7, 7, MAX_COUNT), (8, 8, 1)]);
    }
}
