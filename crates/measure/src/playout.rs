//! Playout buffers: which packets are played, and which are too late.
//!
//! A voice receiver delays packets so that packets with a longer delay still arrive in time. [`Playout`]
//! models this buffer without audio. Its [summary](Playout::summary) contains the input of a rating: the
//! buffer delay, and the losses in the network and by late arrival.
//!
//! | policy | a packet is played |
//! |---|---|
//! | [`PlayoutPolicy::Fixed`] | a fixed time after the first one would have been, had it not waited |
//! | [`AdaptiveAlgorithm::Mean`] | at the mean delay and four times its variation, both slow to follow: algorithm 1 |
//! | [`AdaptiveAlgorithm::Spike`] | the same, quick to follow and awake to spikes: algorithm 4 |
//!
//! The algorithms are those of Ramjee, Kurose, Towsley and Schulzrinne, "Adaptive playout mechanisms for
//! packetized audio applications in wide-area networks", IEEE INFOCOM 1994, §3. They change the delay only
//! between talkspurts. Our streams have no pauses; see [`AdaptiveConfig::talkspurt`].
//!
//! Each call does bounded work, and memory does not grow.
//!
//! # Example
//!
//! ```
//! use giusto_measure::playout::{Playout, PlayoutPolicy, PlayoutVerdict};
//! use giusto_units::{TimeDelta, Timestamp};
//!
//! let mut playout = Playout::new(PlayoutPolicy::Fixed { delay: TimeDelta::from_millis(40) });
//! let arrival = |millis: u64| Timestamp::from_nanos(millis * 1_000_000);
//! assert_eq!(playout.on_packet(0, TimeDelta::ZERO, arrival(100)), PlayoutVerdict::Played);
//! // Sent 20 ms later and 50 ms later on its way: 10 ms too late.
//! assert_eq!(playout.on_packet(1, TimeDelta::from_millis(20), arrival(170)), PlayoutVerdict::Late);
//!
//! let summary = playout.summary(4);
//! assert_eq!((summary.played, summary.late, summary.lost), (1, 1, 2));
//! assert_eq!(summary.mean_loss_burst_packets, 3.0);
//! ```

mod adaptive;
mod losses;

use std::{fmt, str::FromStr};

pub use self::adaptive::{AdaptiveAlgorithm, AdaptiveConfig};
use giusto_units::{TimeDelta, Timestamp, UnitError};
use hdrhistogram::Histogram;

use self::{adaptive::DelayEstimate, losses::LossRuns};
use crate::loss::burst_ratio;

/// Playout delay of a receiver.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum PlayoutPolicy {
    /// The first packet is played `delay` after its arrival; all others at the same pace.
    Fixed {
        /// Delay of the first packet: 20 ms to 100 ms are usual.
        delay: TimeDelta,
    },
    /// The delay adapts to the delays of packets.
    Adaptive(AdaptiveConfig),
}

impl Default for PlayoutPolicy {
    /// A fixed delay of 40 ms: two packets of the usual duration.
    fn default() -> Self {
        Self::Fixed { delay: TimeDelta::from_millis(40) }
    }
}

impl FromStr for PlayoutPolicy {
    type Err = UnitError;
    /// Reads a duration such as `"40 ms"` for a fixed delay, `"adaptive"` for algorithm 4, `"adaptive-mean"`
    /// for algorithm 1.
    ///
    /// # Errors
    ///
    /// [`UnitError`] if the text is none of these.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let adaptive = |algorithm| Self::Adaptive(AdaptiveConfig { algorithm, ..AdaptiveConfig::default() });
        match text.trim() {
            "adaptive" => Ok(adaptive(AdaptiveAlgorithm::Spike)),
            "adaptive-mean" => Ok(adaptive(AdaptiveAlgorithm::Mean)),
            fixed => Ok(Self::Fixed { delay: fixed.parse()? }),
        }
    }
}

impl fmt::Display for PlayoutPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed { delay } => delay.fmt(f),
            Self::Adaptive(AdaptiveConfig { algorithm: AdaptiveAlgorithm::Spike, .. }) => f.pad("adaptive"),
            Self::Adaptive(_) => f.pad("adaptive-mean"),
        }
    }
}

/// The fate of a packet in the playout buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PlayoutVerdict {
    /// It arrived before its playout time.
    Played,
    /// It arrived after its playout time and was discarded.
    Late,
    /// A packet that had arrived before, in time or not.
    Duplicate,
}

/// Statistics of a playout buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PlayoutSummary {
    /// Packets sent.
    pub expected: u64,
    /// Packets played.
    pub played: u64,
    /// Packets that arrived too late to be played.
    pub late: u64,
    /// Packets that did not arrive.
    pub lost: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Lost and late packets divided by expected packets.
    pub loss_ratio: f64,
    /// Late packets divided by expected packets.
    pub late_ratio: f64,
    /// Mean number of consecutive packets that were not played; 0 without losses.
    pub mean_loss_burst_packets: f64,
    /// `BurstR` of these runs: 1 for random losses, and without losses.
    pub burst_ratio: f64,
    /// Mean buffer delay of played packets.
    #[cfg_attr(feature = "serde", serde(rename = "buffer_delay_ns"))]
    pub buffer_delay: TimeDelta,
    /// Median buffer delay of played packets.
    #[cfg_attr(feature = "serde", serde(rename = "buffer_delay_p50_ns"))]
    pub buffer_delay_p50: TimeDelta,
    /// 95th percentile of the buffer delay of played packets.
    #[cfg_attr(feature = "serde", serde(rename = "buffer_delay_p95_ns"))]
    pub buffer_delay_p95: TimeDelta,
    /// Mean time from the earliest possible arrival of a played packet (with the minimum delay of all
    /// packets) to its playout.
    #[cfg_attr(feature = "serde", serde(rename = "playout_delay_ns"))]
    pub playout_delay: TimeDelta,
}

/// Maximum buffer delay that is recorded, in nanoseconds: one hour.
const MAX_BUFFER_DELAY: u64 = 3_600_000_000_000;
/// Significant digits of the buffer delay: a resolution of 1 % is finer than perception.
const BUFFER_DELAY_DIGITS: u8 = 2;

giusto_units::defaults! {
    /// A playout buffer without audio.
    ///
    /// Only differences of times are used: the sender's clock and ours may have any constant offset. Clock drift
    /// shifts the delay of the fixed policy; if that matters, correct the media times first.
    #[derive(Debug, Clone)]
    pub struct Playout {
        policy: PlayoutPolicy = policy,
        /// Arrival time minus media time of the first packet: the unknown clock offset plus its delay.
        origin: Option<i128> = None,
        estimate: DelayEstimate = DelayEstimate::default(),
        talkspurt: Talkspurt = Talkspurt::default(),
        losses: LossRuns = LossRuns::default(),
        played: u64 = 0,
        late: u64 = 0,
        duplicates: u64 = 0,
        waits: Histogram<u64> = wait_histogram(),
        /// Of the played packets, in nanoseconds.
        wait_sum: i128 = 0,
        /// Of the played packets: playout time minus media time, relative to `origin`.
        delay_sum: i128 = 0,
        /// Minimum delay of all packets, relative to `origin`.
        shortest: i64 = 0,
    }
    /// An empty buffer.
    pub fn new(policy: PlayoutPolicy);
}

/// The playout delay and the media time from which it applies.
#[derive(Debug, Clone, Copy, Default)]
struct Talkspurt {
    begin: TimeDelta,
    /// Playout time minus media time from `begin` on, and before it, relative to the origin.
    delay: TimeDelta,
    delay_before: TimeDelta,
}

impl Playout {
    /// Handles packet `seq`, which arrived at `at`. Its first sample was captured at `media_time` on the
    /// sender's clock.
    ///
    /// `seq` is the index of the packet in the stream, from 0. Packets may arrive in any order and
    /// repeatedly; a duplicate of a packet more than 1024 before the newest counts as late.
    pub fn on_packet(&mut self, seq: u64, media_time: TimeDelta, at: Timestamp) -> PlayoutVerdict {
        if self.losses.is_known(seq) {
            self.duplicates += 1;
            return PlayoutVerdict::Duplicate;
        }
        let way = i128::from(at.as_nanos()) - i128::from(media_time.as_nanos());
        let is_first = self.origin.is_none();
        let origin = *self.origin.get_or_insert(way);
        let way = clamp(way - origin);
        self.shortest = self.shortest.min(way);
        let delay = self.delay_for(media_time, TimeDelta::from_nanos(way), is_first);
        let wait = delay - TimeDelta::from_nanos(way);
        // Packets before the window count as not played.
        let in_time = wait >= TimeDelta::ZERO && !self.losses.is_given_up(seq);
        self.losses.on_packet(seq, in_time);
        if !in_time {
            self.late += 1;
            return PlayoutVerdict::Late;
        }
        self.played += 1;
        self.wait_sum += i128::from(wait.as_nanos());
        self.delay_sum += i128::from(delay.as_nanos());
        self.waits.saturating_record(u64::try_from(wait.as_nanos()).unwrap_or(0));
        PlayoutVerdict::Played
    }

    /// Playout time minus media time for a packet of `media_time` with the delay `way`, both relative to the
    /// origin.
    fn delay_for(&mut self, media_time: TimeDelta, way: TimeDelta, is_first: bool) -> TimeDelta {
        let config = match self.policy {
            PlayoutPolicy::Fixed { delay } => return delay,
            PlayoutPolicy::Adaptive(config) => config,
        };
        if is_first {
            self.estimate = DelayEstimate::new(&config);
            self.talkspurt = Talkspurt {
                begin: media_time,
                delay: config.initial_delay,
                delay_before: config.initial_delay,
            };
        } else {
            self.estimate.on_delay(config.algorithm, way);
            if media_time - self.talkspurt.begin >= config.talkspurt {
                let min = TimeDelta::from_nanos(self.shortest) + config.min_delay;
                let delay = self.estimate.playout(config.variations).max(min);
                self.talkspurt = Talkspurt { begin: media_time, delay, delay_before: self.talkspurt.delay };
            }
        }
        if media_time < self.talkspurt.begin { self.talkspurt.delay_before } else { self.talkspurt.delay }
    }

    /// Statistics of the stream, of which `expected` packets were sent; received packets count as sent in any
    /// case.
    pub fn summary(&self, expected: u64) -> PlayoutSummary {
        let runs = self.losses.runs(expected);
        let expected = runs.packets.max(self.played + self.late);
        let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let loss_ratio = ratio(expected - self.played, expected);
        let mean_loss_burst_packets = ratio(runs.missing, runs.bursts);
        let mean = |sum: i128| clamp(sum.checked_div(i128::from(self.played)).unwrap_or(0));
        let quantile = |quantile| {
            let nanos = if self.played == 0 { 0 } else { self.waits.value_at_quantile(quantile) };
            TimeDelta::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
        };
        let shortest = if self.played == 0 { 0 } else { self.shortest };
        PlayoutSummary {
            expected,
            played: self.played,
            late: self.late,
            lost: expected - self.played - self.late,
            duplicates: self.duplicates,
            loss_ratio,
            late_ratio: ratio(self.late, expected),
            mean_loss_burst_packets,
            burst_ratio: burst_ratio(mean_loss_burst_packets, loss_ratio),
            buffer_delay: TimeDelta::from_nanos(mean(self.wait_sum)),
            buffer_delay_p50: quantile(0.5),
            buffer_delay_p95: quantile(0.95),
            playout_delay: TimeDelta::from_nanos(mean(self.delay_sum)) - TimeDelta::from_nanos(shortest),
        }
    }
}

fn clamp(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

fn wait_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_BUFFER_DELAY, BUFFER_DELAY_DIGITS)
        .expect("1 ns to 1 h in 2 digits is a valid range")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    const PACKET: TimeDelta = TimeDelta::from_millis(20);
    /// Start of the arrivals in a test: far from the sender's clock.
    const BASE: Timestamp = Timestamp::from_nanos(5_000_000_000);

    fn fixed(millis: i64) -> Playout {
        Playout::new(PlayoutPolicy::Fixed { delay: TimeDelta::from_millis(millis) })
    }

    fn adaptive(algorithm: AdaptiveAlgorithm) -> Playout {
        let config = AdaptiveConfig { algorithm, min_delay: TimeDelta::ZERO, ..AdaptiveConfig::default() };
        Playout::new(PlayoutPolicy::Adaptive(config))
    }

    /// Packet `seq` after a delay of `way_us` microseconds.
    fn arrive(playout: &mut Playout, seq: u64, way_us: i64) -> PlayoutVerdict {
        let media_time = PACKET * seq as i64;
        playout.on_packet(seq, media_time, BASE + media_time + TimeDelta::from_micros(way_us))
    }

    #[test]
    fn a_packet_is_late_1_ns_after_its_playout_time() {
        let mut playout = fixed(40);
        arrive(&mut playout, 0, 0);
        let turn = BASE + PACKET + TimeDelta::from_millis(40);
        assert_eq!(playout.clone().on_packet(1, PACKET, turn), PlayoutVerdict::Played);
        assert_eq!(playout.on_packet(1, PACKET, turn + TimeDelta::from_nanos(1)), PlayoutVerdict::Late);
    }

    #[test]
    fn lost_and_late_packets_form_common_bursts() {
        let mut playout = fixed(40);
        // 3 lost, 4 late, 5 lost: one burst; 8 late, alone; 10 and 11 lost at the end.
        for (seq, way_ms) in [(0, 0), (1, 10), (2, 5), (4, 41), (6, 40), (7, 0), (8, 90), (9, 0)] {
            arrive(&mut playout, seq, way_ms * 1000);
        }
        assert_eq!(arrive(&mut playout, 9, 0), PlayoutVerdict::Duplicate);
        assert_eq!(arrive(&mut playout, 8, 0), PlayoutVerdict::Duplicate);
        let summary = playout.summary(12);
        assert_eq!((summary.expected, summary.played, summary.late, summary.lost), (12, 6, 2, 4));
        assert_eq!(summary.duplicates, 2);
        let ratios = [summary.loss_ratio, summary.mean_loss_burst_packets, summary.burst_ratio];
        assert!(
            ratios.iter().zip([0.5, 2.0, 1.0]).all(|(found, due)| (found - due).abs() < 1e-12),
            "{ratios:?}"
        );
        // Buffer delays of 40, 30, 35, 0, 40, 40 ms.
        assert_eq!(summary.buffer_delay.as_nanos(), 185_000_000 / 6);
        assert_eq!(summary.playout_delay, TimeDelta::from_millis(40));
        let median = summary.buffer_delay_p50.as_millis();
        assert!((34.9..35.5).contains(&median), "{median}");
    }

    #[test]
    fn a_slow_first_packet_delays_all_others_and_a_reordered_one_is_played() {
        let mut playout = fixed(40);
        for (seq, way_ms) in [(0, 25), (2, 0), (1, 65), (4, 0), (3, 66)] {
            let expected = if way_ms > 65 { PlayoutVerdict::Late } else { PlayoutVerdict::Played };
            assert_eq!(arrive(&mut playout, seq, way_ms * 1000), expected, "{seq}");
        }
        let summary = playout.summary(5);
        assert_eq!((summary.played, summary.playout_delay), (4, TimeDelta::from_millis(65)));
    }

    /// A stream of 60 s with exponentially distributed delays with a mean of `jitter_us`, and delay spikes of
    /// 300 ms that drain within 400 ms every `period` packets.
    fn run(mut playout: Playout, jitter_us: f64, period: Option<u64>) -> PlayoutSummary {
        let mut rng = StdRng::seed_from_u64(3);
        for seq in 0..3000_u64 {
            let jitter = -jitter_us * (1.0 - rng.random::<f64>()).ln();
            let since = period.map_or(u64::MAX, |period| (seq + 100) % period);
            let spike = if since < 20 { 300_000.0 - 15_000.0 * since as f64 } else { 0.0 };
            arrive(&mut playout, seq, jitter.max(spike) as i64);
        }
        playout.summary(3000)
    }

    #[test]
    fn adaptive_delays_follow_the_jitter_with_few_losses() {
        for algorithm in [AdaptiveAlgorithm::Mean, AdaptiveAlgorithm::Spike] {
            let mut before = TimeDelta::ZERO;
            for jitter_us in [500.0, 5_000.0, 20_000.0] {
                let summary = run(adaptive(algorithm), jitter_us, None);
                // Four deviations above the mean of an exponential distribution leave about 1 %; more if it
                // is estimated from a few packets.
                assert!(summary.loss_ratio < 0.06, "{algorithm:?} {jitter_us}: {summary:?}");
                let (min, max) = (2e-3 * jitter_us, 8e-3 * jitter_us + 5.0);
                let delay = summary.playout_delay.as_millis();
                assert!((min..max).contains(&delay), "{algorithm:?} {jitter_us}: {delay} ms");
                assert!(summary.playout_delay > before);
                before = summary.playout_delay;
            }
        }
    }

    #[test]
    fn policies_differ_as_in_the_table() {
        // Played and late packets of 3000, mean playout delay in ms.
        let mut rows = Vec::new();
        for (name, jitter_us, period) in
            [("calm", 500.0, None), ("jitter", 8_000.0, None), ("spikes", 2_000.0, Some(317))]
        {
            for policy in ["20 ms", "60 ms", "adaptive-mean", "adaptive"] {
                let summary = run(Playout::new(policy.parse().unwrap()), jitter_us, period);
                let delay = summary.playout_delay.as_millis();
                let PlayoutSummary { played, late, .. } = summary;
                rows.push(format!("{name:<7} {policy:<14} {played:>5} {late:>4} {delay:>6.1}"));
            }
        }
        insta::assert_snapshot!(rows.join("\n"), @r"
        calm    20 ms           3000    0   20.1
        calm    60 ms           3000    0   60.0
        calm    adaptive-mean   3000    0   21.3
        calm    adaptive        3000    0   20.3
        jitter  20 ms           2744  256   20.8
        jitter  60 ms           2999    1   60.8
        jitter  adaptive-mean   2961   39   34.1
        jitter  adaptive        2899  101   30.8
        spikes  20 ms           2829  171   20.2
        spikes  60 ms           2856  144   60.2
        spikes  adaptive-mean   2854  146   70.2
        spikes  adaptive        2841  159   23.4
        ");
    }

    #[test]
    fn policies_are_read_and_printed() {
        for text in ["40 ms", "adaptive", "adaptive-mean"] {
            assert_eq!(text.parse::<PlayoutPolicy>().unwrap().to_string(), text);
        }
        assert_eq!(PlayoutPolicy::default().to_string(), "40 ms");
        assert!("clever".parse::<PlayoutPolicy>().is_err());
        assert_eq!(fixed(40).summary(0), PlayoutSummary { burst_ratio: 1.0, ..PlayoutSummary::default() });
    }

    proptest! {
        #[test]
        fn every_packet_is_played_late_or_lost(
            packets in proptest::collection::vec((0_u64..300, -50_000_i64..200_000), 0..400), policy in 0_usize..3, sent in 0_u64..400,
        ) {
            let mut playout = Playout::new(["30 ms", "adaptive", "adaptive-mean"][policy].parse().unwrap());
            let mut distinct = std::collections::BTreeSet::new();
            for &(seq, way_us) in &packets {
                let is_new = distinct.insert(seq);
                prop_assert_eq!(arrive(&mut playout, seq, way_us) == PlayoutVerdict::Duplicate, !is_new);
            }
            let summary = playout.summary(sent);
            prop_assert_eq!(summary.played + summary.late + summary.lost, summary.expected);
            prop_assert_eq!(summary.played + summary.late, distinct.len() as u64);
            prop_assert_eq!(summary.expected, sent.max(distinct.last().map_or(0, |seq| seq + 1)));
            prop_assert!((0.0..=1.0).contains(&summary.loss_ratio));
            prop_assert!(summary.buffer_delay >= TimeDelta::ZERO);
        }

        #[test]
        fn any_packet_is_safe(packets in proptest::collection::vec((any::<u64>(), any::<i64>(), any::<u64>()), 0..40), spike: bool) {
            let mut playout = adaptive(if spike { AdaptiveAlgorithm::Spike } else { AdaptiveAlgorithm::Mean });
            for (seq, media_time, at) in packets {
                playout.on_packet(seq, TimeDelta::from_nanos(media_time), Timestamp::from_nanos(at));
            }
            let _ = playout.summary(u64::MAX);
        }
    }
}
