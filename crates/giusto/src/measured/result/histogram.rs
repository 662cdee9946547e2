//! Histograms of a run, in classes of 1, 2 and 5 times powers of ten.

use giusto_measure::ErrorHistogram;
use serde::{Deserialize, Serialize};

/// The histograms of a run; `None` where the quantity was not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Histograms {
    /// Deviation of departures from their scheduled times, without sign.
    pub schedule_error_us: Option<Vec<HistogramClass>>,
    /// Deviation of inter-arrival gaps from the ideal gap, without sign.
    pub gap_error_us: Option<Vec<HistogramClass>>,
    /// Round-trip time.
    pub round_trip_us: Option<Vec<HistogramClass>>,
}

/// One class: the values from `from` to below `below`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HistogramClass {
    /// The lower bound, in µs.
    pub from: f64,
    /// The upper bound, in µs.
    pub below: f64,
    /// The number of values.
    pub count: u64,
}

impl Histograms {
    /// Each histogram that was measured, with its name.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &[HistogramClass])> {
        let Self { schedule_error_us, gap_error_us, round_trip_us } = self;
        let all =
            [("schedule error", schedule_error_us), ("gap error", gap_error_us), ("RTT", round_trip_us)];
        all.into_iter().filter_map(|(name, classes)| Some((name, classes.as_deref()?)))
    }
}

/// The classes of `values`, without gaps between the first and the last; `None` without values. The values of a column of the
/// histogram are those of its middle.
pub(in crate::measured) fn classes(values: &ErrorHistogram) -> Option<Vec<HistogramClass>> {
    let mut classes: Vec<HistogramClass> = Vec::new();
    for bucket in values.buckets() {
        let middle = f64::midpoint(bucket.lower.as_micros(), bucket.upper.as_micros());
        let (mut from, mut below) =
            classes.last().map_or_else(|| class_of(middle), |class| (class.from, class.below));
        while middle >= below {
            (from, below) = (below, next_bound(below));
            classes.push(HistogramClass { from, below, count: 0 });
        }
        if classes.is_empty() {
            classes.push(HistogramClass { from, below, count: 0 });
        }
        if let Some(class) = classes.last_mut() {
            class.count += bucket.count;
        }
    }
    (!classes.is_empty()).then_some(classes)
}

/// The class of a value: below 0.1 µs there is one.
fn class_of(value: f64) -> (f64, f64) {
    let (mut from, mut below) = (0.0, 0.1);
    while value >= below {
        (from, below) = (below, next_bound(below));
    }
    (from, below)
}

/// The bound after one of the bounds 0.1, 0.2, 0.5, 1, ….
fn next_bound(bound: f64) -> f64 {
    let decade = 10_f64.powi((bound * 1.000_001).log10().floor() as i32);
    match (bound / decade).round() as u32 {
        1 => decade * 2.0,
        2 => decade * 5.0,
        _ => decade * 10.0,
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::TimeDelta;

    use super::*;

    #[test]
    fn every_value_is_in_the_class_that_holds_it() {
        let mut values = ErrorHistogram::new();
        for (nanos, count) in [(30, 1), (1_500, 2), (-1_700, 3), (2_500, 4), (30_000_000, 5)] {
            values.record_many(TimeDelta::from_nanos(nanos), count);
        }
        let classes = classes(&values).unwrap();
        let filled: Vec<_> = classes.iter().filter(|class| class.count > 0).collect();
        let expected = [(0.0, 0.1, 1), (1.0, 2.0, 5), (2.0, 5.0, 4), (20_000.0, 50_000.0, 5)];
        assert_eq!(filled.len(), expected.len(), "{filled:?}");
        for (found, (from, below, count)) in filled.into_iter().zip(expected) {
            let near = |a: f64, b: f64| (a - b).abs() <= b.abs() * 1e-9;
            let is_right = near(found.from, from) && near(found.below, below) && found.count == count;
            assert!(is_right, "{found:?}");
        }
        for pair in classes.windows(2) {
            assert!((pair[0].below - pair[1].from).abs() < 1e-12, "{pair:?}");
        }
        assert_eq!(super::classes(&ErrorHistogram::new()), None);
    }
}
