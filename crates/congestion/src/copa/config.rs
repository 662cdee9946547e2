//! Constants of Copa.

use giusto_units::TimeDelta;

use crate::{
    constants::{Setter, Tunable},
    drain::QueueDrain,
    limits::Limits,
};

/// Configuration of [`Copa`](super::Copa). The defaults are those of the paper (NSDI 2018), unless a field names another source.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Config {
    /// Limits of the media rate. Slow start begins at the start rate.
    pub limits: Limits,
    /// δ in default mode, above 0: 1/δ packets are kept in the queue. Default 0.5 (§2.2).
    pub delta: f64,
    /// Whether 1/δ grows beside flows that fill the queue (§2.2). Default `true`.
    pub competes: bool,
    /// The minimum RTT is that of this time. Default 10 s (§2.1).
    pub min_rtt_window: TimeDelta,
    /// The standing RTT is the minimum of this part of a smoothed RTT (τ). Default 0.5 (§2.1).
    pub standing_window: f64,
    /// Pacing rate over window / standing RTT. Default 2 (§2.1).
    pub pacing_gain: f64,
    /// The velocity doubles after so many windows in one direction. Default 3 (§2.1, step 4).
    pub steady_windows: u32,
    /// The queue is nearly empty below this part of the highest queueing delay. Default 0.1 (§2.2).
    pub nearly_empty: f64,
    /// The queue must be nearly empty once in so many RTTs. Default 5 (§2.2).
    pub empty_rtts: f64,
    /// The highest queueing delay is that of so many RTTs. Default 4 (§2.2).
    pub highest_rtts: f64,
    /// Minimum window, in packets. Default 2 (authors' code, `markoviancc.cc`).
    pub min_window: f64,
    /// Smoothing factor of the RTT. Default 1/8 (RFC 6298 §2.3): "the standard smoothed RTT".
    pub rtt_weight: f64,
    /// Part of the window that must be used for it to grow. Default 0.5 (RFC 7661 §4.3).
    pub used_share: f64,
    /// Time over which the highest use counts. Default 1 s (RFC 7661 §4.2, where it is at least three RTTs).
    pub used_period: TimeDelta,
    /// How the sender's queue is drained.
    pub drain: QueueDrain,
    /// Longest interval of feedback for which the limit of the bytes in flight allows. Default 250 ms, the longest of transport-wide
    /// feedback in libwebrtc (`transport_sequence_number_feedback_generator.cc`).
    pub max_feedback_interval: TimeDelta,
}

impl Config {
    /// The defaults with these limits.
    pub fn within(limits: Limits) -> Self {
        Self {
            limits,
            delta: 0.5,
            competes: true,
            min_rtt_window: TimeDelta::from_seconds(10),
            standing_window: 0.5,
            pacing_gain: 2.0,
            steady_windows: 3,
            nearly_empty: 0.1,
            empty_rtts: 5.0,
            highest_rtts: 4.0,
            min_window: 2.0,
            rtt_weight: 1.0 / 8.0,
            used_share: 0.5,
            used_period: TimeDelta::from_seconds(1),
            drain: QueueDrain::default(),
            max_feedback_interval: TimeDelta::from_millis(250),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::within(Limits::default())
    }
}

impl Tunable for Config {
    #[rustfmt::skip]
    fn constants(&mut self, set: &mut Setter) {
        set.number(&mut self.delta, "delta", 0.04..=2.0, "δ in default mode: 1/δ packets are kept in the queue");
        set.time(&mut self.min_rtt_window, "min-rtt-window", 2000.0..=60000.0, "time over which the minimum RTT is taken");
        set.number(&mut self.standing_window, "standing-window", 0.1..=1.0, "time over which the standing RTT is taken, in smoothed RTTs");
        set.number(&mut self.pacing_gain, "pacing-gain", 1.05..=4.0, "pacing rate over window / standing RTT");
        set.count(&mut self.steady_windows, "steady-windows", 1.0..=20.0, "windows in one direction after which the velocity doubles");
        set.number(&mut self.nearly_empty, "nearly-empty", 0.02..=0.5, "share of the highest queueing delay below which the queue is nearly empty");
        set.number(&mut self.empty_rtts, "empty-rtts", 1.0..=30.0, "RTTs in which the queue must be nearly empty once");
        set.number(&mut self.highest_rtts, "highest-rtts", 1.0..=30.0, "RTTs over which the highest queueing delay is taken");
        set.number(&mut self.min_window, "min-window", 1.0..=20.0, "minimum window, in packets");
    }
}
