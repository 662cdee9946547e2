//! Constants of Copa.

use giusto_units::TimeDelta;

use crate::{drain::QueueDrain, limits::Limits};

crate::constants::config! {
    /// Configuration of [`Copa`](super::Copa). The defaults are those of the paper (NSDI 2018), unless a field names another source.
    pub struct Config {
        /// Limits of the media rate. Slow start begins at the start rate.
        pub limits: Limits;
        /// δ in default mode, above 0: 1/δ packets are kept in the queue. Default 0.5 (§2.2).
        pub delta: f64 = 0.5, number "delta" in 0.04..=2.0, "δ in default mode: 1/δ packets are kept in the queue";
        /// Whether 1/δ grows beside flows that fill the queue (§2.2). Default `true`.
        pub competes: bool = true;
        /// The minimum RTT is that of this time. Default 10 s (§2.1).
        pub min_rtt_window: TimeDelta = TimeDelta::from_seconds(10),
            time "min-rtt-window" in 2000.0..=60000.0, "time over which the minimum RTT is taken";
        /// The standing RTT is the minimum of this part of a smoothed RTT (τ). Default 0.5 (§2.1).
        pub standing_window: f64 = 0.5, number "standing-window" in 0.1..=1.0, "time over which the standing RTT is taken, in smoothed RTTs";
        /// Pacing rate over window / standing RTT. Default 2 (§2.1).
        pub pacing_gain: f64 = 2.0, number "pacing-gain" in 1.05..=4.0, "pacing rate over window / standing RTT";
        /// The velocity doubles after so many windows in one direction. Default 3 (§2.1, step 4).
        pub steady_windows: u32 = 3, count "steady-windows" in 1.0..=20.0, "windows in one direction after which the velocity doubles";
        /// The queue is nearly empty below this part of the highest queueing delay. Default 0.1 (§2.2).
        pub nearly_empty: f64 = 0.1,
            number "nearly-empty" in 0.02..=0.5, "share of the highest queueing delay below which the queue is nearly empty";
        /// The queue must be nearly empty once in so many RTTs. Default 5 (§2.2).
        pub empty_rtts: f64 = 5.0, number "empty-rtts" in 1.0..=30.0, "RTTs in which the queue must be nearly empty once";
        /// The highest queueing delay is that of so many RTTs. Default 4 (§2.2).
        pub highest_rtts: f64 = 4.0, number "highest-rtts" in 1.0..=30.0, "RTTs over which the highest queueing delay is taken";
        /// Minimum window, in packets. Default 2 (authors' code, `markoviancc.cc`).
        pub min_window: f64 = 2.0, number "min-window" in 1.0..=20.0, "minimum window, in packets";
        /// Smoothing factor of the RTT. Default 1/8 (RFC 6298 §2.3): "the standard smoothed RTT".
        pub rtt_weight: f64 = 1.0 / 8.0;
        /// Part of the window that must be used for it to grow. Default 0.5 (RFC 7661 §4.3).
        pub used_share: f64 = 0.5;
        /// Time over which the highest use counts. Default 1 s (RFC 7661 §4.2, where it is at least three RTTs).
        pub used_period: TimeDelta = TimeDelta::from_seconds(1);
        /// How the sender's queue is drained.
        pub drain: QueueDrain = QueueDrain::default();
        /// Longest interval of feedback for which the limit of the bytes in flight allows. Default 250 ms, the longest of transport-wide
        /// feedback in libwebrtc (`transport_sequence_number_feedback_generator.cc`).
        pub max_feedback_interval: TimeDelta = TimeDelta::from_millis(250);
    }
}
