//! One-way delay.

use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

use super::{
    clock::ClockEstimate,
    histogram::ErrorHistogram,
    windows::{Merge, Windows},
};

/// Maximum number of stored delays if the reference is determined afterwards. The quantiles are then based on
/// at least half as many.
const MAX_SAMPLES: usize = 32_768;

/// Maximum number of delays stored for plots only.
const MAX_PLOTTED: usize = 4_096;

/// Maximum number of windows with minimum and maximum delays.
const MAX_WINDOWS: usize = 256;

/// The initial length of such a window.
const WINDOW: TimeDelta = TimeDelta::from_millis(50);

/// Minimum duration of a stream for which a slope of its minimum delays counts as clock drift.
const MIN_DRIFT_TIME: TimeDelta = TimeDelta::from_seconds(5);

/// Maximum slope that counts as drift; a steeper one is a queue: 500 ppm, the maximum that NTP's clock
/// discipline corrects (RFC 5905, appendix A: `MAXFREQ`).
const MAX_DRIFT: f64 = 500e-6;

/// Known relation between the local clock and the sender's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ClockRelation {
    /// Both ends use the same clock and the same time zero.
    Same,
    /// The clocks are synchronised externally (PTP, NTP, GNSS) and have the same time zero.
    Synchronised {
        /// Maximum difference of the clocks.
        uncertainty: TimeDelta,
    },
    /// Unknown, unless a [`ClockEstimate`] is set.
    #[default]
    Unknown,
}

/// Basis of a one-way delay, which determines its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum DelayBasis {
    /// Both ends used the same clock: the delay is absolute.
    SameClock,
    /// The clocks were synchronised: the delay is absolute to within `uncertainty`.
    Synchronised {
        /// Maximum difference of the clocks.
        uncertainty: TimeDelta,
    },
    /// The offset was estimated from exchanges: the delay is absolute to within `uncertainty`; its variation
    /// is much more accurate.
    Estimated {
        /// Maximum error of the estimate.
        uncertainty: TimeDelta,
    },
    /// The sender stated the time of day, for example in RTCP sender reports. The error of the two clocks, and so of the delay, is
    /// unknown.
    Stated,
    /// The offset is unknown: the delay is the excess over the minimum delay.
    Relative,
}

/// One-way delays of a stream (RFC 7679).
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DelaySummary {
    /// The basis of the figures.
    pub basis: DelayBasis,
    /// Number of packets measured.
    pub count: u64,
    /// The minimum delay (RFC 7679 §5.3). A negative value shows that the assumption about the clocks is
    /// wrong.
    pub min: TimeDelta,
    /// The mean delay.
    pub mean: TimeDelta,
    /// The median delay (RFC 7679 §5.2).
    pub p50: TimeDelta,
    /// 99th percentile of the delay.
    pub p99: TimeDelta,
    /// 99.9th percentile of the delay.
    pub p999: TimeDelta,
    /// The maximum delay.
    pub max: TimeDelta,
    /// Packet delay variation: the 99.9th percentile minus the minimum delay (RFC 5481 §4.2 and §6.5).
    pub variation: TimeDelta,
    /// The clock drift in ppm that was removed: that of the estimate, or that of the minimum delays. `None`
    /// if none was removed.
    pub drift_removed_ppm: Option<f64>,
}

/// Collects one-way delays in bounded memory, and determines their reference afterwards.
///
/// With [`ClockRelation::Same`] or [`Synchronised`](ClockRelation::Synchronised) every delay is added to a
/// histogram. With [`Unknown`](ClockRelation::Unknown) clocks the reference is known only at the end, so
/// apparent delays are sampled by a hash of the sequence number, which is independent of burst patterns: all
/// of the first 32 768, and evenly at least half as many of a longer stream. Then
///
/// - with a [`ClockEstimate`], the offset (and drift) is subtracted;
/// - without one, the line below all delays is subtracted: the edge of the lower convex hull of windowed
///   minima at their mean time, which is the line closest to them (Moon, Skelly, Towsley, *Estimation and
///   Removal of Clock Skew from Network Delay Measurements*, INFOCOM 1999). Before 5 s, and if its slope is
///   steeper than the maximum drift, only the minimum delay is subtracted. A queue that grows as slowly as
///   clocks drift cannot be distinguished from drift.
#[derive(Debug, Clone)]
pub struct DelayMeter {
    relation: ClockRelation,
    estimate: Option<ClockEstimate>,
    /// The estimate is what the sender stated.
    stated: bool,
    /// Every delay, if it is known at once.
    exact: ErrorHistogram,
    sample: Sample,
    extremes: Windows<Extremes>,
    count: u64,
    /// Sum of the apparent delays, in nanoseconds.
    sum: i128,
    /// Sum of the arrival times, in nanoseconds.
    sum_of_times: u128,
}

/// An apparent delay (local time minus the sender's time), and the arrival to which it belongs.
#[derive(Debug, Clone, Copy)]
struct Apparent {
    at: Timestamp,
    delay: TimeDelta,
}

/// The minimum and the maximum apparent delay of a window.
#[derive(Debug, Clone, Copy, Default)]
struct Extremes(Option<(Apparent, Apparent)>);

impl Merge for Extremes {
    fn merge(&mut self, next: &Self) {
        self.0 = match (self.0, next.0) {
            (Some((shortest, longest)), Some((other_shortest, other_longest))) => Some((
                if other_shortest.delay < shortest.delay { other_shortest } else { shortest },
                if other_longest.delay > longest.delay { other_longest } else { longest },
            )),
            (one, other) => one.or(other),
        };
    }
}

/// Correction of apparent delays: a straight line over the local time.
#[derive(Debug, Clone, Copy)]
struct Reference {
    at: Timestamp,
    delay: TimeDelta,
    slope: f64,
}

impl Reference {
    fn delay(&self, apparent: Apparent) -> TimeDelta {
        let drifted = ((apparent.at - self.at).as_nanos() as f64 * self.slope).round() as i64;
        apparent.delay - self.delay - TimeDelta::from_nanos(drifted)
    }
}

/// The delays of a stream up to a time: two of them give the mean between their times.
#[derive(Debug, Clone, Copy)]
pub struct DelayTotals {
    count: u64,
    /// See [`DelayMeter`].
    sum: i128,
    sum_of_times: u128,
    reference: Reference,
    min: TimeDelta,
}

impl DelayTotals {
    /// The mean delay of the packets since `earlier`, or of all, and what it exceeds the minimum delay of all packets by. `None` without
    /// a packet in between.
    pub fn mean_since(&self, earlier: Option<&Self>) -> Option<(TimeDelta, TimeDelta)> {
        let before = earlier.map_or((0, 0, 0), |earlier| (earlier.count, earlier.sum, earlier.sum_of_times));
        let count = self.count.checked_sub(before.0).filter(|count| *count > 0)?;
        let at = self.sum_of_times.checked_sub(before.2)? / u128::from(count);
        let mean = Apparent {
            at: Timestamp::from_nanos(at as u64),
            delay: TimeDelta::from_nanos(((self.sum - before.1) / i128::from(count)) as i64),
        };
        let mean = self.reference.delay(mean).max(self.min);
        Some((mean, mean - self.min))
    }
}

impl DelayMeter {
    /// A meter before the first packet.
    pub fn new(relation: ClockRelation) -> Self {
        let max_samples = if relation == ClockRelation::Unknown { MAX_SAMPLES } else { MAX_PLOTTED };
        Self {
            relation,
            estimate: None,
            stated: false,
            exact: ErrorHistogram::new(),
            sample: Sample::new(max_samples),
            extremes: Windows::new(MAX_WINDOWS, WINDOW),
            count: 0,
            sum: 0,
            sum_of_times: 0,
        }
    }

    /// Handles a packet that arrived at `at` and was sent at `sent`. Not for duplicates.
    #[inline]
    pub fn on_packet(&mut self, at: Timestamp, sequence: u64, sent: PeerTimestamp) {
        self.on_run(at, sequence, 1, sent);
    }

    /// Handles `count` packets with consecutive numbers from `sequence` on, which all arrived at `at` and
    /// were all sent at `sent`.
    #[inline]
    pub fn on_run(&mut self, at: Timestamp, sequence: u64, count: u64, sent: PeerTimestamp) {
        let apparent = Apparent { at, delay: sent.apparent_delay(at) };
        if self.relation != ClockRelation::Unknown {
            // A value below zero is a clock error, which the minimum shows.
            self.exact.record_many(apparent.delay.max(TimeDelta::ZERO), count);
        }
        self.count += count;
        self.sum += i128::from(apparent.delay.as_nanos()) * i128::from(count);
        self.sum_of_times += u128::from(at.as_nanos()) * u128::from(count);
        if let Some(Extremes(extremes)) = self.extremes.at(at) {
            let (shortest, longest) = extremes.get_or_insert((apparent, apparent));
            if apparent.delay < shortest.delay {
                *shortest = apparent;
            }
            if apparent.delay > longest.delay {
                *longest = apparent;
            }
        }
        for step in 0..count {
            self.sample.offer(sequence.wrapping_add(step), apparent);
        }
    }

    /// Sets the estimate of the sender's clock. The latest estimate applies to all packets, including earlier
    /// ones. It is ignored if the relation of the clocks is known.
    #[inline]
    pub fn on_clock(&mut self, estimate: &ClockEstimate) {
        (self.estimate, self.stated) = (Some(*estimate), false);
    }

    /// Like [`on_clock`](Self::on_clock), for a clock that only its owner describes: its error is unknown.
    pub fn on_stated_clock(&mut self, estimate: &ClockEstimate) {
        (self.estimate, self.stated) = (Some(*estimate), true);
    }

    /// The current basis of the delays.
    pub fn basis(&self) -> DelayBasis {
        match (self.relation, &self.estimate) {
            (ClockRelation::Same, _) => DelayBasis::SameClock,
            (ClockRelation::Synchronised { uncertainty }, _) => DelayBasis::Synchronised { uncertainty },
            (ClockRelation::Unknown, Some(_)) if self.stated => DelayBasis::Stated,
            (ClockRelation::Unknown, Some(estimate)) => {
                DelayBasis::Estimated { uncertainty: estimate.uncertainty }
            }
            (ClockRelation::Unknown, None) => DelayBasis::Relative,
        }
    }

    /// Evenly selected delays in order of arrival, for plots.
    pub fn points(&self) -> impl Iterator<Item = (Timestamp, TimeDelta)> + '_ {
        let reference = self.reference();
        self.sample
            .kept
            .iter()
            .filter_map(move |&(_, apparent)| Some((apparent.at, reference?.delay(apparent))))
    }

    /// The totals so far; `None` before the first packet. Reads 256 windows: do not call it for every packet.
    pub fn totals(&self) -> Option<DelayTotals> {
        let reference = self.reference()?;
        let shortest = self.extremes.iter().filter_map(|window| window.0);
        let min = shortest.map(|(shortest, _)| reference.delay(shortest)).min()?;
        let min = if self.basis() == DelayBasis::Relative { min.max(TimeDelta::ZERO) } else { min };
        Some(DelayTotals {
            count: self.count,
            sum: self.sum,
            sum_of_times: self.sum_of_times,
            reference,
            min,
        })
    }

    /// The delays so far; `None` before the first packet. Reads all samples: do not call it for every packet.
    pub fn summary(&self) -> Option<DelaySummary> {
        let reference = self.reference()?;
        let extremes = || self.extremes.iter().filter_map(|window| window.0);
        let shortest = extremes().map(|(shortest, _)| reference.delay(shortest)).min()?;
        let longest = extremes().map(|(_, longest)| reference.delay(longest)).max()?;
        let count = i128::from(self.count);
        let mean = Apparent {
            at: Timestamp::from_nanos((self.sum_of_times / u128::from(self.count)) as u64),
            delay: TimeDelta::from_nanos((self.sum / count) as i64),
        };
        let [p50, p99, p999] = if self.relation == ClockRelation::Unknown {
            let mut delays: Vec<_> =
                self.sample.kept.iter().map(|&(_, apparent)| reference.delay(apparent)).collect();
            [0.5, 0.99, 0.999].map(|share| quantile(&mut delays, share).unwrap_or_default())
        } else {
            [0.5, 0.99, 0.999].map(|share| self.exact.quantile(share).unwrap_or_default())
        };
        // The extremes are those of windows before the drift is removed: another packet may exceed them by
        // the clock drift within a window. The line itself is the minimum of a relative delay.
        let floor = if self.basis() == DelayBasis::Relative { TimeDelta::ZERO } else { shortest };
        let bounded = |delay: TimeDelta| delay.max(floor);
        let drift_removed_ppm = (reference.slope != 0.0).then_some(-reference.slope * 1e6);
        Some(DelaySummary {
            basis: self.basis(),
            count: self.count,
            min: bounded(shortest),
            mean: bounded(reference.delay(mean)),
            p50: bounded(p50),
            p99: bounded(p99),
            p999: bounded(p999),
            max: bounded(longest).max(p999),
            variation: (p999 - bounded(shortest)).max(TimeDelta::ZERO),
            drift_removed_ppm,
        })
    }

    fn reference(&self) -> Option<Reference> {
        match (self.relation, &self.estimate) {
            (ClockRelation::Same | ClockRelation::Synchronised { .. }, _) => {
                Some(Reference { at: Timestamp::ZERO, delay: TimeDelta::ZERO, slope: 0.0 })
            }
            // The apparent delay is the delay minus the peer's offset.
            (ClockRelation::Unknown, Some(estimate)) => Some(Reference {
                at: estimate.at,
                delay: -estimate.offset,
                slope: estimate.drift.map_or(0.0, |drift| -drift.ppm * 1e-6),
            }),
            (ClockRelation::Unknown, None) => {
                let minima: Vec<_> = self.extremes.iter().filter_map(|window| Some(window.0?.0)).collect();
                let shortest = *minima.iter().min_by_key(|apparent| apparent.delay)?;
                let level = Reference { at: shortest.at, delay: shortest.delay, slope: 0.0 };
                Some(lower_line(&minima).unwrap_or(level))
            }
        }
    }
}

/// The edge of the lower convex hull of `minima`, in order of time, at their mean time; `None` if the time is
/// too short, or if the slope exceeds the maximum drift.
fn lower_line(minima: &[Apparent]) -> Option<Reference> {
    let (first, last) = (minima.first()?, minima.last()?);
    if last.at - first.at < MIN_DRIFT_TIME {
        return None;
    }
    let place = |apparent: &Apparent| {
        let height = i128::from(apparent.delay.as_nanos()) - i128::from(first.delay.as_nanos());
        ((apparent.at - first.at).as_nanos() as f64, height as f64)
    };
    // Andrew's monotone chain.
    let mut hull: Vec<&Apparent> = Vec::new();
    for apparent in minima {
        while let [.., a, b] = hull.as_slice() {
            let ((ax, ay), (bx, by), (x, y)) = (place(a), place(b), place(apparent));
            if (bx - ax) * (y - ay) > (by - ay) * (x - ax) {
                break;
            }
            hull.pop();
        }
        hull.push(apparent);
    }
    let mean_time = minima.iter().map(|apparent| place(apparent).0).sum::<f64>() / minima.len() as f64;
    let edge = hull.windows(2).find_map(|edge| match edge {
        [a, b] if place(b).0 >= mean_time && place(b).0 > place(a).0 => Some((a, b)),
        _ => None,
    });
    let (a, b) = edge?;
    let slope = (place(b).1 - place(a).1) / (place(b).0 - place(a).0);
    (slope.abs() <= MAX_DRIFT).then_some(Reference { at: a.at, delay: a.delay, slope })
}

/// The smallest delay that a `share` of all do not exceed; `None` if there are none. Partially sorts
/// `delays`.
fn quantile(delays: &mut [TimeDelta], share: f64) -> Option<TimeDelta> {
    let rank = ((delays.len() as f64 * share).ceil() as usize).max(1) - 1;
    (rank < delays.len()).then(|| *delays.select_nth_unstable(rank).1)
}

/// Even selection of packets by a hash of their sequence numbers: those whose hash ends in `level` zero bits.
#[derive(Debug, Clone)]
struct Sample {
    max_samples: usize,
    level: u32,
    kept: Vec<(u32, Apparent)>,
}

impl Sample {
    const fn new(max_samples: usize) -> Self {
        Self { max_samples, level: 0, kept: Vec::new() }
    }

    #[inline]
    fn offer(&mut self, sequence: u64, apparent: Apparent) {
        let hash = hash(sequence);
        if hash.trailing_zeros() >= self.level {
            self.keep(hash, apparent);
        }
    }

    fn keep(&mut self, hash: u32, apparent: Apparent) {
        // At most 32 times in all, for any sequence numbers.
        while self.kept.len() >= self.max_samples && self.level < u32::BITS {
            self.level += 1;
            self.kept.retain(|(kept, _)| kept.trailing_zeros() >= self.level);
        }
        if self.kept.len() < self.max_samples && hash.trailing_zeros() >= self.level {
            self.kept.push((hash, apparent));
        }
    }
}

/// The finalizer of `splitmix64` (Steele, Lea, Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014).
fn hash(sequence: u64) -> u32 {
    let mut bits = sequence.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ (bits >> 31)) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::ClockDrift;

    const EPOCH: u64 = 1 << 50;

    /// Packets every millisecond, from a sender whose clock has an offset of `EPOCH` and gains `ppm`; `delay`
    /// in ns as a function of the packet number.
    fn measured(
        relation: ClockRelation,
        packets: u64,
        ppm: f64,
        mut delay: impl FnMut(u64) -> u64,
    ) -> DelayMeter {
        let mut meter = DelayMeter::new(relation);
        for i in 0..packets {
            let left = i * 1_000_000;
            let offset = if relation == ClockRelation::Unknown { EPOCH } else { 0 };
            let sent = (offset + left).saturating_add_signed((left as f64 * ppm * 1e-6).round() as i64);
            meter.on_packet(Timestamp::from_nanos(left + delay(i)), i, PeerTimestamp::from_nanos(sent));
        }
        meter
    }

    #[test]
    fn totals_give_the_mean_between_two_times() {
        let ms = TimeDelta::from_millis;
        // 10 ms for a thousand packets, then 25 ms.
        let delay = |i: u64| if i < 1_000 { 10_000_000 } else { 25_000_000 };
        for (relation, least) in [(ClockRelation::Same, ms(10)), (ClockRelation::Unknown, ms(0))] {
            let [first, both] =
                [1_000, 1_500].map(|packets| measured(relation, packets, 0.0, delay).totals().unwrap());
            assert_eq!(first.mean_since(None), Some((least, ms(0))));
            assert_eq!(both.mean_since(Some(&first)), Some((least + ms(15), ms(15))));
            assert_eq!(both.mean_since(None), Some((least + ms(5), ms(5))));
            assert_eq!(both.mean_since(Some(&both)), None);
            assert_eq!(first.mean_since(Some(&both)), None);
        }
        assert!(DelayMeter::new(ClockRelation::Same).totals().is_none());
    }

    #[test]
    fn totals_remove_the_drift_that_a_summary_removes() {
        // A minute of a clock that gains 100 ppm: 6 ms in all.
        let totals = |packets| measured(ClockRelation::Unknown, packets, 100.0, |_| 10_000_000).totals();
        let (mean, queue) = totals(60_000).unwrap().mean_since(totals(30_000).as_ref()).unwrap();
        assert!(mean < TimeDelta::from_micros(50) && queue < TimeDelta::from_micros(50), "{mean} {queue}");
    }

    /// 10 ms; every tenth packet has 1 to 10 ms more.
    fn staircase(i: u64) -> u64 {
        10_000_000 + if i % 10 == 9 { (i / 10 % 10 + 1) * 1_000_000 } else { 0 }
    }

    #[test]
    fn delays_are_absolute_or_relative_to_the_minimum() {
        // The histogram of absolute delays is exact to one part in a thousand, 1 µs per ms.
        for (relation, basis, min, error) in [
            (ClockRelation::Same, DelayBasis::SameClock, 10, 1),
            (ClockRelation::Unknown, DelayBasis::Relative, 0, 0),
        ] {
            let summary = measured(relation, 1000, 0.0, staircase).summary().unwrap();
            let ms = |more: i64| TimeDelta::from_millis(min + more);
            assert_eq!((summary.basis, summary.min, summary.max), (basis, ms(0), ms(10)));
            let near = |found: TimeDelta, more: i64| {
                (found - ms(more)).abs() <= TimeDelta::from_micros(error * (min + more))
            };
            assert!(near(summary.p50, 0) && near(summary.p99, 9) && near(summary.p999, 10), "{summary:?}");
            // A tenth of the packets, 5.5 ms more on average.
            assert_eq!(summary.mean, ms(0) + TimeDelta::from_micros(550));
            let variation = summary.variation - TimeDelta::from_millis(10);
            assert!(variation.abs() <= TimeDelta::from_micros(error * 10), "{summary:?}");
            assert_eq!(summary.drift_removed_ppm, None);
        }
    }

    #[test]
    fn unsynchronised_clocks_show_a_negative_minimum() {
        let uncertainty = TimeDelta::from_micros(50);
        let mut meter = DelayMeter::new(ClockRelation::Synchronised { uncertainty });
        meter.on_packet(Timestamp::from_nanos(1_000_000), 0, PeerTimestamp::from_nanos(1_200_000));
        meter.on_packet(Timestamp::from_nanos(2_000_000), 1, PeerTimestamp::from_nanos(1_900_000));
        let summary = meter.summary().unwrap();
        assert_eq!(summary.basis, DelayBasis::Synchronised { uncertainty });
        assert_eq!(summary.min, TimeDelta::from_micros(-200));
        assert_eq!(summary.max, TimeDelta::from_micros(100));
    }

    #[test]
    fn drift_is_determined_from_the_minimum_delays() {
        for ppm in [-100.0, -3.0, 40.0, 200.0] {
            let mut random = StdRng::seed_from_u64(5);
            let mut noise = move || (-200_000.0 * (1.0 - random.random::<f64>()).ln()) as u64;
            let summary =
                measured(ClockRelation::Unknown, 60_000, ppm, |_| 10_000_000 + noise()).summary().unwrap();
            // Exponential noise of 0.2 ms: p50 = 0.2 ln 2 = 0.139 ms, p99 = 0.921 ms. At 40 ppm, drift would add 2.4 ms.
            let removed = summary.drift_removed_ppm.unwrap();
            assert!((removed - ppm).abs() < 1.0, "{removed} for {ppm}");
            assert!((0.12..0.16).contains(&summary.p50.as_millis()), "{ppm}: {summary:?}");
            assert!((0.85..1.00).contains(&summary.p99.as_millis()), "{ppm}: {summary:?}");
            assert!((0.0..0.01).contains(&summary.min.as_millis()), "{ppm}: {summary:?}");
            assert!((0.18..0.22).contains(&summary.mean.as_millis()), "{ppm}: {summary:?}");
        }
    }

    #[test]
    fn a_growing_queue_does_not_count_as_drift() {
        // 100 ms more in 10 s.
        let summary = measured(ClockRelation::Unknown, 10_000, 0.0, |i| i * 10_000).summary().unwrap();
        assert_eq!(summary.drift_removed_ppm, None);
        assert_eq!(summary.max, TimeDelta::from_nanos(9_999 * 10_000));
        assert!((49.9..50.1).contains(&summary.p50.as_millis()), "{summary:?}");
    }

    #[test]
    fn an_estimate_makes_all_delays_absolute() {
        let mut meter = measured(ClockRelation::Unknown, 20_000, 30.0, staircase);
        meter.on_clock(&ClockEstimate {
            at: Timestamp::ZERO,
            offset: TimeDelta::from_nanos(EPOCH as i64),
            uncertainty: TimeDelta::from_millis(1),
            drift: Some(ClockDrift { ppm: 30.0, standard_error_ppm: 0.1, samples: 20 }),
            samples: 100,
        });
        let summary = meter.summary().unwrap();
        assert_eq!(summary.basis, DelayBasis::Estimated { uncertainty: TimeDelta::from_millis(1) });
        let near = |found: TimeDelta, millis: f64| (found.as_millis() - millis).abs() < 0.001;
        assert!(near(summary.min, 10.0) && near(summary.p50, 10.0) && near(summary.p99, 19.0), "{summary:?}");
        assert!(near(summary.max, 20.0) && near(summary.mean, 10.55), "{summary:?}");
        assert_eq!(meter.points().count(), 20_000);
        assert!(meter.points().all(|(_, delay)| delay > TimeDelta::from_micros(9_999)));
    }

    #[test]
    fn a_long_stream_is_sampled_evenly_in_bounded_memory() {
        let meter = measured(ClockRelation::Unknown, 400_000, 0.0, staircase);
        let kept = meter.points().count();
        assert!((MAX_SAMPLES / 2 - 500..=MAX_SAMPLES).contains(&kept), "{kept}");
        let slow = meter.points().filter(|&(_, delay)| delay > TimeDelta::ZERO).count() as f64 / kept as f64;
        assert!((0.09..0.11).contains(&slow), "{slow}");
        let late = meter.points().filter(|(at, _)| at.as_seconds() > 300.0).count() as f64 / kept as f64;
        assert!((0.24..0.26).contains(&late), "{late}");
        assert!((8.0..=10.0).contains(&meter.summary().unwrap().p99.as_millis()));
    }

    proptest! {
        #[test]
        fn any_timestamps_are_safe_and_quantiles_increase(
            packets in prop::collection::vec(any::<(u64, u64, u64)>(), 1..60), same: bool, estimate: Option<(u64, i64)>,
        ) {
            let relation = if same { ClockRelation::Same } else { ClockRelation::Unknown };
            let mut meter = DelayMeter::new(relation);
            for (at, sequence, sent) in packets {
                meter.on_packet(Timestamp::from_nanos(at), sequence, PeerTimestamp::from_nanos(sent));
            }
            if let Some((at, offset)) = estimate {
                meter.on_clock(&ClockEstimate {
                    at: Timestamp::from_nanos(at),
                    offset: TimeDelta::from_nanos(offset),
                    uncertainty: TimeDelta::ZERO,
                    drift: Some(ClockDrift { ppm: f64::MAX, standard_error_ppm: f64::NAN, samples: 0 }),
                    samples: 1,
                });
            }
            let summary = meter.summary().unwrap();
            prop_assert!(summary.p50 <= summary.p99 && summary.p99 <= summary.p999 && summary.p999 <= summary.max);
        }
    }
}
