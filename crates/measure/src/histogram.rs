//! Distribution of errors from one nanosecond to one hour, in bounded memory.

use giusto_units::TimeDelta;

use super::columns::Columns;

/// Maximum error in the histogram, in nanoseconds: one hour. Larger errors count as this.
const MAX_NANOS: u64 = 3_600_000_000_000;

/// Distribution of signed errors: quantiles of their magnitude, exact mean and extremes of their value.
///
/// Magnitudes have three significant digits between 1 ns and 1 h: a quantile is at most 0.1 % too large, and never too small. Larger
/// magnitudes count as 1 h in the quantiles. The extremes and the means are exact. Memory grows with the number of different
/// magnitudes to three digits, 8 to 16 B for each and 512 kB at most, but not with the number of errors.
/// [`with_max_columns`](Self::with_max_columns) limits it further.
///
/// # Example
///
/// ```
/// use giusto_measure::ErrorHistogram;
/// use giusto_units::TimeDelta;
///
/// let mut errors = ErrorHistogram::new();
/// errors.record(TimeDelta::from_micros(-3));
/// errors.record(TimeDelta::from_micros(1));
/// assert_eq!(errors.min(), Some(TimeDelta::from_micros(-3)));
/// assert_eq!(errors.mean(), Some(TimeDelta::from_micros(-1)));
/// assert_eq!(errors.quantiles().map(|q| q.max), Some(TimeDelta::from_micros(3)));
/// ```
#[derive(Debug, Clone)]
pub struct ErrorHistogram {
    sizes: Columns,
    count: u64,
    sum: i128,
    sum_of_sizes: u128,
    min: i64,
    max: i64,
}

/// Quantiles of a distribution of errors. All except `bias` are of absolute errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Quantiles {
    /// Number of errors.
    pub count: u64,
    /// Mean of the signed values, rounded towards zero.
    pub bias: TimeDelta,
    /// Mean of the magnitudes, rounded down.
    pub mean: TimeDelta,
    /// Median.
    pub p50: TimeDelta,
    /// 99th percentile.
    pub p99: TimeDelta,
    /// 99.9th percentile.
    pub p999: TimeDelta,
    /// The largest magnitude, exact.
    pub max: TimeDelta,
}

/// One column of a distribution: `count` errors with magnitudes in `lower ..= upper`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Bucket {
    /// The smallest magnitude in the column.
    pub lower: TimeDelta,
    /// The largest magnitude in the column.
    pub upper: TimeDelta,
    /// Number of errors.
    pub count: u64,
}

impl Default for ErrorHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl ErrorHistogram {
    /// An empty distribution.
    #[inline]
    pub fn new() -> Self {
        Self::of(Columns::unlimited())
    }

    /// An empty distribution that keeps at most `columns` different magnitudes, but at least 192.
    ///
    /// If there are more, each two neighbouring columns become one, as often as necessary: the maximum error of a quantile grows
    /// from 0.1 to 0.2, 0.4, 0.8 and 1.6 %, and to 25 % if 192 columns spread over all magnitudes. 448 columns take 4 kB; they
    /// cover 3.5 octaves at 0.8 % and 7 octaves at 1.6 %. The result does not depend on the order of the errors.
    pub fn with_max_columns(columns: usize) -> Self {
        Self::of(Columns::new(columns))
    }

    #[inline]
    fn of(sizes: Columns) -> Self {
        Self { sizes, count: 0, sum: 0, sum_of_sizes: 0, min: i64::MAX, max: i64::MIN }
    }

    /// Adds an error.
    #[inline]
    pub fn record(&mut self, error: TimeDelta) {
        self.record_many(error, 1);
    }

    /// Adds `count` equal errors.
    #[inline]
    pub fn record_many(&mut self, error: TimeDelta, count: u64) {
        if count == 0 {
            return;
        }
        let value = error.as_nanos();
        let size = value.unsigned_abs();
        self.sizes.add(size.min(MAX_NANOS), count);
        self.count = self.count.saturating_add(count);
        self.sum += i128::from(value) * i128::from(count);
        self.sum_of_sizes += u128::from(size) * u128::from(count);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all errors of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.sizes.merge(&other.sizes);
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
        self.sum_of_sizes += other.sum_of_sizes;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of errors.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether there are no errors.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The smallest signed value.
    #[inline]
    pub fn min(&self) -> Option<TimeDelta> {
        (!self.is_empty()).then_some(TimeDelta::from_nanos(self.min))
    }

    /// The largest signed value.
    #[inline]
    pub fn max(&self) -> Option<TimeDelta> {
        (!self.is_empty()).then_some(TimeDelta::from_nanos(self.max))
    }

    /// The mean of the signed values, rounded towards zero.
    #[inline]
    pub fn mean(&self) -> Option<TimeDelta> {
        let mean = self.sum.checked_div(i128::from(self.count()))?;
        Some(TimeDelta::from_nanos(i64::try_from(mean).unwrap_or(i64::MAX)))
    }

    /// The magnitude that a share `quantile` (0 to 1) of the errors does not exceed, to three significant
    /// digits.
    pub fn quantile(&self, quantile: f64) -> Option<TimeDelta> {
        self.quantiles_at([quantile]).map(|[magnitude]| magnitude)
    }

    /// The magnitude that each of these shares (0 to 1, in increasing order) of the errors does not exceed; `None` without errors.
    pub fn quantiles_at<const N: usize>(&self, quantiles: [f64; N]) -> Option<[TimeDelta; N]> {
        if self.is_empty() {
            return None;
        }
        let mut columns = self.sizes.sorted();
        let (mut below, mut upper) = (0_u64, 0);
        Some(quantiles.map(|quantile| {
            let rank = ((quantile.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
            while below < rank
                && let Some((_, end, count)) = columns.next()
            {
                upper = end;
                below = below.saturating_add(count);
            }
            nanos(upper).min(self.largest())
        }))
    }

    /// The reported quantiles; `None` without errors.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let mean = self.sum_of_sizes.checked_div(u128::from(self.count()))?;
        let [p50, p99, p999] = self.quantiles_at([0.5, 0.99, 0.999])?;
        Some(Quantiles {
            count: self.count(),
            bias: self.mean()?,
            mean: TimeDelta::from_nanos(i64::try_from(mean).unwrap_or(i64::MAX)),
            p50,
            p99,
            p999,
            max: self.largest(),
        })
    }

    /// The non-empty columns in increasing order, for plots.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.sizes.sorted().map(|(lower, upper, count)| Bucket {
            lower: nanos(lower),
            upper: nanos(upper),
            count,
        })
    }

    /// The largest magnitude, exact.
    fn largest(&self) -> TimeDelta {
        TimeDelta::from_nanos(self.min).abs().max(TimeDelta::from_nanos(self.max).abs())
    }
}

fn nanos(value: u64) -> TimeDelta {
    TimeDelta::from_nanos(i64::try_from(value).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filled(errors: impl IntoIterator<Item = i64>) -> ErrorHistogram {
        let mut histogram = ErrorHistogram::new();
        errors.into_iter().for_each(|nanos| histogram.record(TimeDelta::from_nanos(nanos)));
        histogram
    }

    #[test]
    fn the_sign_affects_the_bias_only() {
        let quantiles = filled([-100, 100, -300]).quantiles().unwrap();
        let nanos = [quantiles.bias, quantiles.mean, quantiles.p50, quantiles.max].map(TimeDelta::as_nanos);
        assert_eq!((nanos, quantiles.count), ([-100, 166, 100, 300], 3));
        let empty = ErrorHistogram::new();
        assert_eq!((empty.quantiles(), empty.min(), empty.max(), empty.mean()), (None, None, None, None));
    }

    #[test]
    fn errors_beyond_an_hour_have_exact_extremes() {
        let histogram = filled([i64::MIN, i64::MAX, 5]);
        assert_eq!(histogram.max(), Some(TimeDelta::MAX));
        assert_eq!(histogram.quantiles().unwrap().max, TimeDelta::MAX);
        let p99 = histogram.quantile(0.99).unwrap().as_seconds();
        assert!((3600.0..3604.0).contains(&p99), "{p99}");
    }

    #[test]
    fn buckets_contain_every_error_once() {
        let buckets: Vec<_> = filled([0, 1, 1, 2_047, 5_000_000, -5_000_000]).buckets().collect();
        assert_eq!(buckets.iter().map(|bucket| bucket.count).collect::<Vec<_>>(), [1, 2, 1, 2]);
        assert_eq!([buckets[1].lower, buckets[1].upper], [TimeDelta::from_nanos(1); 2]);
        assert!((buckets[3].lower..=buckets[3].upper).contains(&TimeDelta::from_millis(5)));
    }

    proptest! {
        #[test]
        fn a_merge_equals_a_single_histogram(a: Vec<i64>, b: Vec<i64>) {
            let mut merged = filled(a.clone());
            merged.merge(&filled(b.clone()));
            let whole = filled(a.into_iter().chain(b));
            prop_assert_eq!(merged.quantiles(), whole.quantiles());
            prop_assert_eq!(merged.buckets().collect::<Vec<_>>(), whole.buckets().collect::<Vec<_>>());
        }

        #[test]
        fn quantiles_are_close_to_the_sorted_errors(mut errors in prop::collection::vec(-1_000_000_000_i64..1_000_000_000, 1..300)) {
            let histogram = filled(errors.clone());
            for error in &mut errors {
                *error = error.abs();
            }
            errors.sort_unstable();
            let quantiles = histogram.quantiles().unwrap();
            for (share, same) in [(0.5, quantiles.p50), (0.99, quantiles.p99), (0.999, quantiles.p999)] {
                let rank = ((errors.len() as f64 * share).ceil() as usize).max(1);
                let exact = errors[rank - 1];
                let found = histogram.quantile(share).unwrap().as_nanos();
                prop_assert_eq!(found, same.as_nanos());
                prop_assert!(found >= exact && found as f64 <= exact as f64 * 1.001 + 1.0, "{share}: {found} for {exact}");
            }
        }
    }
}
