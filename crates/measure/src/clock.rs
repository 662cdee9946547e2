//! Offset and drift between the local clock and the peer's.

use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

use super::{
    histogram::ErrorHistogram,
    windows::{Merge, Windows},
};

/// Assumed maximum drift of an unknown clock, as a ratio: `PHI` of RFC 5905 §7.2, figure 6, 15 ppm.
const UNKNOWN_DRIFT: f64 = 15e-6;

/// Maximum number of windows; each keeps its sample of minimum delay.
const MAX_WINDOWS: usize = 128;

/// The initial length of a window.
const WINDOW: TimeDelta = TimeDelta::from_millis(500);

/// Number of windows with samples required for a drift estimate.
const MIN_DRIFT_WINDOWS: usize = 8;

/// One exchange with the peer: RFC 5905 §8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClockSample {
    /// When we sent the request: `T1`.
    pub client_sent: Timestamp,
    /// When the peer received it: `T2`.
    pub server_received: PeerTimestamp,
    /// When the peer sent the reply: `T3`.
    pub server_sent: PeerTimestamp,
    /// When we received it: `T4`.
    pub client_received: Timestamp,
}

impl ClockSample {
    /// The peer's clock minus ours, `θ = ((T2 − T1) + (T3 − T4)) / 2` (RFC 5905 §8). It is off by half the difference of
    /// the two one-way delays, so by at most half the [`rtt`](Self::rtt).
    #[inline]
    pub fn offset(&self) -> TimeDelta {
        let nanos = |at: u64| i128::from(at);
        let doubled = nanos(self.server_received.as_nanos()) - nanos(self.client_sent.as_nanos())
            + nanos(self.server_sent.as_nanos())
            - nanos(self.client_received.as_nanos());
        clamped(doubled / 2)
    }

    /// The round-trip time, `δ = (T4 − T1) − (T3 − T2)` (RFC 5905 §8).
    #[inline]
    pub fn rtt(&self) -> TimeDelta {
        (self.client_received - self.client_sent) - (self.server_sent - self.server_received)
    }

    /// The local time for which the offset holds: half-way between request and reply.
    fn middle(&self) -> Timestamp {
        self.client_sent + (self.client_received - self.client_sent) / 2
    }

    /// Whether no clock ran backwards, and the reply did not arrive before it was sent.
    fn is_causal(&self) -> bool {
        self.client_received >= self.client_sent
            && self.server_sent >= self.server_received
            && self.rtt() >= TimeDelta::ZERO
    }
}

fn clamped(nanos: i128) -> TimeDelta {
    let bound = if nanos < 0 { i64::MIN } else { i64::MAX };
    TimeDelta::from_nanos(i64::try_from(nanos).unwrap_or(bound))
}

/// Relative speed of the peer's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ClockDrift {
    /// In parts per million; negative if the peer's clock is slower.
    pub ppm: f64,
    /// Standard error of `ppm`: about two thirds of such estimates are this close to the true value, 95 %
    /// within twice as much.
    pub standard_error_ppm: f64,
    /// Number of samples of the estimate.
    pub samples: u32,
}

/// An estimate of the peer's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ClockEstimate {
    /// The local time for which `offset` holds.
    pub at: Timestamp,
    /// The peer's clock minus ours.
    pub offset: TimeDelta,
    /// Maximum error of the offset: half the round-trip time of the best sample, plus the possible drift
    /// since then.
    pub uncertainty: TimeDelta,
    /// The drift, once there are enough samples over enough time.
    pub drift: Option<ClockDrift>,
    /// Number of samples.
    pub samples: u64,
}

impl ClockEstimate {
    /// An estimate by other means than samples: `offset` at the time `at`, without a drift.
    pub const fn new(at: Timestamp, offset: TimeDelta, uncertainty: TimeDelta) -> Self {
        Self { at, offset, uncertainty, drift: None, samples: 0 }
    }

    /// The peer's clock minus ours at another time, using the drift if it is known.
    #[inline]
    pub fn offset_at(&self, at: Timestamp) -> TimeDelta {
        let ratio = self.drift.map_or(0.0, |drift| drift.ppm * 1e-6);
        self.offset + TimeDelta::from_nanos(((at - self.at).as_nanos() as f64 * ratio).round() as i64)
    }

    /// The delay of a packet that the peer sent at `sent` and that arrived at `at`. It has the error of the
    /// estimate and may therefore be negative.
    #[inline]
    pub fn delay(&self, at: Timestamp, sent: PeerTimestamp) -> TimeDelta {
        sent.apparent_delay(at) + self.offset_at(at)
    }

    /// The same estimate from the peer's point of view, whose clock is then the local one.
    #[must_use]
    pub fn reversed(self) -> Self {
        // Terms of the order of the squared drift, 1e-9, are neglected.
        Self {
            at: self.at + self.offset,
            offset: -self.offset,
            drift: self.drift.map(|drift| ClockDrift { ppm: -drift.ppm, ..drift }),
            ..self
        }
    }
}

/// Estimates offset and drift of the peer's clock from exchanges with it, in bounded memory.
///
/// Queueing only adds to the round-trip time, so the sample with the shortest one has the smallest error.
/// Therefore only the sample of minimum delay is kept per window of time, as in the clock filter of RFC 5905
/// §10. The offset comes from the kept sample with the smallest `δ / 2 + drift allowance · age`. The drift is
/// the Theil–Sen slope (the median of the slopes of all pairs) over the half of the windows with the shortest
/// round-trip times. Its standard error comes from the median absolute deviation of the residuals. There are
/// at most 128 windows, initially of 500 ms; when there would be more, adjacent windows are merged.
///
/// # Example
///
/// ```
/// use giusto_measure::{ClockEstimator, ClockSample};
/// use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};
///
/// let mut estimator = ClockEstimator::new();
/// estimator.on_sample(&ClockSample {
///     client_sent: Timestamp::from_nanos(1_000),
///     server_received: PeerTimestamp::from_nanos(51_300),
///     server_sent: PeerTimestamp::from_nanos(51_400),
///     client_received: Timestamp::from_nanos(1_700),
/// });
/// let estimate = estimator.estimate().expect("one sample suffices for an offset");
/// assert_eq!(estimate.offset, TimeDelta::from_nanos(50_000));
/// assert_eq!(estimate.uncertainty, TimeDelta::from_nanos(300));
/// ```
#[derive(Debug, Clone)]
pub struct ClockEstimator {
    windows: Windows<Best>,
    rtts: ErrorHistogram,
    latest: Timestamp,
    rejected: u64,
}

/// The sample of minimum delay in a window.
#[derive(Debug, Clone, Copy, Default)]
struct Best(Option<Reduced>);

/// The part of a sample that is kept.
#[derive(Debug, Clone, Copy)]
struct Reduced {
    at: Timestamp,
    offset: TimeDelta,
    rtt: TimeDelta,
}

impl Merge for Best {
    fn merge(&mut self, next: &Self) {
        self.0 = [self.0, next.0].into_iter().flatten().min_by_key(|sample| sample.rtt);
    }
}

impl Default for ClockEstimator {
    fn default() -> Self {
        Self::new()
    }
}

impl ClockEstimator {
    /// An estimator without samples.
    pub fn new() -> Self {
        Self {
            windows: Windows::new(MAX_WINDOWS, WINDOW),
            rtts: ErrorHistogram::new(),
            latest: Timestamp::ZERO,
            rejected: 0,
        }
    }

    /// Adds an exchange. An impossible one (a negative round-trip time, or a clock running backwards) is
    /// rejected.
    pub fn on_sample(&mut self, sample: &ClockSample) {
        if !sample.is_causal() {
            self.rejected += 1;
            return;
        }
        let reduced = Reduced { at: sample.middle(), offset: sample.offset(), rtt: sample.rtt() };
        self.rtts.record(reduced.rtt);
        self.latest = self.latest.max(reduced.at);
        if let Some(best) = self.windows.at(reduced.at) {
            best.merge(&Best(Some(reduced)));
        }
    }

    /// The round-trip times of all samples.
    #[inline]
    pub fn rtts(&self) -> &ErrorHistogram {
        &self.rtts
    }

    /// Number of rejected samples.
    #[inline]
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// The estimate of the peer's clock at the time of the latest sample; `None` before the first one.
    /// Compares all pairs of windows: do not call it for every packet.
    pub fn estimate(&self) -> Option<ClockEstimate> {
        let samples: Vec<Reduced> = self.windows.iter().filter_map(|best| best.0).collect();
        let drift = drift_of(&samples);
        let allowance = drift.map_or(UNKNOWN_DRIFT, |drift| drift.standard_error_ppm * 1e-6);
        let age = |sample: &Reduced| (self.latest - sample.at).as_nanos() as f64;
        let uncertainty = |sample: &Reduced| sample.rtt.as_nanos() as f64 / 2.0 + age(sample) * allowance;
        let best = samples.iter().min_by(|a, b| uncertainty(a).total_cmp(&uncertainty(b)))?;
        let there = ClockEstimate {
            at: best.at,
            offset: best.offset,
            uncertainty: TimeDelta::from_nanos(uncertainty(best).ceil() as i64),
            drift,
            samples: self.rtts.count(),
        };
        Some(ClockEstimate { at: self.latest, offset: there.offset_at(self.latest), ..there })
    }
}

/// The Theil–Sen slope over the half of the samples with the shortest round-trip times; `None` if there are
/// too few.
fn drift_of(samples: &[Reduced]) -> Option<ClockDrift> {
    if samples.len() < MIN_DRIFT_WINDOWS {
        return None;
    }
    let first = samples.first()?;
    let mut by_rtt = samples.to_vec();
    by_rtt.sort_by_key(|sample| sample.rtt);
    by_rtt.truncate(samples.len().div_ceil(2).max(MIN_DRIFT_WINDOWS));
    let points: Vec<(f64, f64)> = by_rtt
        .iter()
        .map(|sample| {
            let offset = i128::from(sample.offset.as_nanos()) - i128::from(first.offset.as_nanos());
            ((sample.at - first.at).as_nanos() as f64, offset as f64)
        })
        .collect();

    let mut slopes: Vec<f64> = points
        .iter()
        .enumerate()
        .flat_map(|(i, a)| points.iter().skip(i + 1).map(move |b| (b.0 - a.0, b.1 - a.1)))
        .filter(|&(time, _)| time != 0.0)
        .map(|(time, offset)| offset / time)
        .collect();
    let slope = median(&mut slopes)?;

    let mut residuals: Vec<f64> = points.iter().map(|(time, offset)| offset - slope * time).collect();
    let centre = median(&mut residuals)?;
    for residual in &mut residuals {
        *residual = (*residual - centre).abs();
    }
    // The median absolute deviation of a normal distribution is 0.6745 of its standard deviation.
    let deviation = median(&mut residuals)? / 0.6745;
    let count = points.len() as f64;
    let mean_time = points.iter().map(|(time, _)| time).sum::<f64>() / count;
    let spread = points.iter().map(|(time, _)| (time - mean_time) * (time - mean_time)).sum::<f64>();
    // Least squares would have deviation / √spread, with two degrees of freedom used; the efficiency of
    // Theil–Sen relative to it is 3 / π for normal errors.
    let error =
        deviation * (count / (count - 2.0)).sqrt() * (std::f64::consts::PI / 3.0).sqrt() / spread.sqrt();
    Some(ClockDrift { ppm: slope * 1e6, standard_error_ppm: error * 1e6, samples: points.len() as u32 })
}

/// The median; of an even number of values the upper one of the middle pair. `None` if there are none.
fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    /// A peer whose clock is `offset` ahead at the local time zero and gains `ppm`.
    struct Peer {
        offset: f64,
        ppm: f64,
    }

    impl Peer {
        fn offset_at(&self, nanos: f64) -> f64 {
            self.offset + nanos * self.ppm * 1e-6
        }

        fn exchange(&self, at: f64, there: f64, back: f64) -> ClockSample {
            let peer = |nanos: f64| PeerTimestamp::from_nanos((nanos + self.offset_at(nanos)).round() as u64);
            ClockSample {
                client_sent: Timestamp::from_nanos(at as u64),
                server_received: peer(at + there),
                server_sent: peer(at + there + 50e3),
                client_received: Timestamp::from_nanos((at + there + 50e3 + back) as u64),
            }
        }
    }

    fn exponential(random: &mut StdRng, mean: f64) -> f64 {
        -mean * (1.0 - random.random::<f64>()).ln()
    }

    /// Ten exchanges per second over a path with one-way delays of 5 ms, and queueing delays of 2 ms to the
    /// peer and 0.3 ms back.
    fn estimated(peer: &Peer, seconds: u32, seed: u64) -> ClockEstimate {
        let mut random = StdRng::seed_from_u64(seed);
        let mut estimator = ClockEstimator::new();
        for i in 0..seconds * 10 {
            let there = 5e6 + exponential(&mut random, 2e6);
            let back = 5e6 + exponential(&mut random, 0.3e6);
            estimator.on_sample(&peer.exchange(f64::from(i) * 100e6, there, back));
        }
        estimator.estimate().unwrap()
    }

    #[test]
    fn the_on_wire_formulas_match_rfc_5905() {
        let sample = ClockSample {
            client_sent: Timestamp::from_nanos(100),
            server_received: PeerTimestamp::from_nanos(1_130),
            server_sent: PeerTimestamp::from_nanos(1_140),
            client_received: Timestamp::from_nanos(160),
        };
        // ((1130 − 100) + (1140 − 160)) / 2 and (160 − 100) − (1140 − 1130).
        assert_eq!(sample.offset(), TimeDelta::from_nanos(1_005));
        assert_eq!(sample.rtt(), TimeDelta::from_nanos(50));
    }

    #[test]
    fn a_clean_path_gives_offset_and_drift_exactly() {
        let peer = Peer { offset: 3e9, ppm: -40.0 };
        let mut estimator = ClockEstimator::new();
        for i in 0..300 {
            estimator.on_sample(&peer.exchange(f64::from(i) * 100e6, 5e6, 5e6));
        }
        let estimate = estimator.estimate().unwrap();
        let truth = peer.offset_at(estimate.at.as_nanos() as f64);
        assert!((estimate.offset.as_nanos() as f64 - truth).abs() < 300.0, "{estimate:?} for {truth}");
        let drift = estimate.drift.unwrap();
        assert!((drift.ppm + 40.0).abs() < 0.01 && drift.standard_error_ppm < 0.01, "{drift:?}");
        assert!((5.0..5.1).contains(&estimate.uncertainty.as_millis()), "{estimate:?}");
        let median = estimator.rtts().quantiles().unwrap().p50.as_millis();
        assert!((9.99..10.02).contains(&median), "{median}");
    }

    #[test]
    fn asymmetric_queues_affect_the_estimate_less_than_a_sample() {
        for seed in 0..20 {
            for ppm in [-80.0, 0.0, 35.0] {
                let peer = Peer { offset: 7e9, ppm };
                let estimate = estimated(&peer, 60, seed);
                let error = estimate.offset.as_nanos() as f64 - peer.offset_at(estimate.at.as_nanos() as f64);
                // A single sample has a mean error of 0.85 ms; the best of ten about 0.1 ms.
                assert!((-0.3e6..0.3e6).contains(&error), "seed {seed}: {error}");
                assert!((5e6..6e6).contains(&(estimate.uncertainty.as_nanos() as f64)), "{estimate:?}");
                let drift = estimate.drift.unwrap();
                assert!((drift.ppm - ppm).abs() < 6.0, "seed {seed}: {drift:?} for {ppm}");
                assert!((drift.ppm - ppm).abs() < 4.0 * drift.standard_error_ppm, "seed {seed}: {drift:?}");
                assert!((0.1..3.0).contains(&drift.standard_error_ppm), "seed {seed}: {drift:?}");
            }
        }
    }

    #[test]
    fn the_standard_error_matches_the_spread_of_estimates() {
        let drifts: Vec<_> = (0..100)
            .map(|seed| estimated(&Peer { offset: 0.0, ppm: 20.0 }, 60, seed).drift.unwrap())
            .collect();
        let estimated = drifts.iter().map(|drift| drift.standard_error_ppm).sum::<f64>() / 100.0;
        let found = (drifts.iter().map(|drift| (drift.ppm - 20.0).powi(2)).sum::<f64>() / 100.0).sqrt();
        assert!((0.6..1.6).contains(&(estimated / found)), "estimated {estimated}, found {found}");
    }

    #[test]
    fn a_long_run_in_few_windows_improves_the_drift() {
        let peer = Peer { offset: 1e9, ppm: 12.5 };
        let drift = estimated(&peer, 3600, 1).drift.unwrap();
        assert!((drift.ppm - 12.5).abs() < 0.05, "{drift:?}");
        assert!(drift.samples as usize <= MAX_WINDOWS);
    }

    #[test]
    fn few_samples_give_no_drift_and_uncertainty_grows_with_age() {
        let peer = Peer { offset: 1e9, ppm: 0.0 };
        let mut estimator = ClockEstimator::new();
        assert_eq!(estimator.estimate(), None);
        estimator.on_sample(&peer.exchange(0.0, 1e6, 1e6));
        // A far worse sample 10 s later: the old one is still better, even with 15 ppm of 10 s added.
        estimator.on_sample(&peer.exchange(10e9, 50e6, 1e6));
        let estimate = estimator.estimate().unwrap();
        assert_eq!(estimate.drift, None);
        assert_eq!(estimate.offset, TimeDelta::from_seconds(1));
        assert!((1.150..1.152).contains(&estimate.uncertainty.as_millis()), "{estimate:?}");
    }

    #[test]
    fn impossible_exchanges_are_rejected() {
        let good = Peer { offset: 1e9, ppm: 0.0 }.exchange(1e9, 1e6, 1e6);
        let mut estimator = ClockEstimator::new();
        estimator.on_sample(&ClockSample { client_received: Timestamp::ZERO, ..good });
        estimator.on_sample(&ClockSample { server_sent: PeerTimestamp::from_nanos(0), ..good });
        estimator.on_sample(&ClockSample { server_sent: PeerTimestamp::from_nanos(9_000_000_000), ..good });
        assert_eq!((estimator.rejected(), estimator.estimate()), (3, None));
    }

    #[test]
    fn the_reverse_estimate_gives_the_same_delays() {
        let estimate = estimated(&Peer { offset: 7e9, ppm: 50.0 }, 30, 3);
        let reversed = estimate.reversed();
        // A packet from us to the peer, sent at the time of the estimate, with a delay of 4 ms.
        let sent = estimate.at;
        let arrived = Timestamp::from_nanos(sent.as_nanos() + estimate.offset.as_nanos() as u64 + 4_000_000);
        let delay = reversed.delay(arrived, PeerTimestamp::from_nanos(sent.as_nanos()));
        assert!((delay.as_millis() - 4.0).abs() < 1e-3, "{delay}");
    }

    proptest! {
        #[test]
        fn any_sample_is_safe(samples in prop::collection::vec(any::<[u64; 4]>(), 0..40)) {
            let mut estimator = ClockEstimator::new();
            for [t1, t2, t3, t4] in samples {
                let (t1, t4) = (t1.min(t4), t1.max(t4));
                let (t2, t3) = (t2.min(t3), t2.max(t3));
                estimator.on_sample(&ClockSample {
                    client_sent: Timestamp::from_nanos(t1),
                    server_received: PeerTimestamp::from_nanos(t2),
                    server_sent: PeerTimestamp::from_nanos(t3),
                    client_received: Timestamp::from_nanos(t4),
                });
                if let Some(estimate) = estimator.estimate() {
                    let _ = estimate.reversed().delay(Timestamp::MAX, PeerTimestamp::from_nanos(0));
                }
            }
        }
    }
}
