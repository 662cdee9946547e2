//! Configuration of the probing.

use giusto_units::{DataRate, TimeDelta};

giusto_units::defaults! {
    /// When to probe. The defaults are libwebrtc's
    /// (`goog_cc/probe_controller.cc`).
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct ProbingConfig {
        /// Rate of the first cluster, as a multiple of the start rate. Default 3.
        pub first: f64 = 3.0,
        /// Rate of the second cluster, as a multiple of the start rate; 0: none. Default 6.
        pub second: f64 = 6.0,
        /// Rate of a cluster that follows a good result, as a multiple of the result. Default 2.
        pub further: f64 = 2.0,
        /// A result is good above this share of the fastest cluster's rate. Default 0.7.
        pub further_above: f64 = 0.7,
        /// Maximum time to wait for a result. Default 1 s.
        pub timeout: TimeDelta = TimeDelta::from_seconds(1),
        /// Minimum number of packets per cluster. Default 5.
        pub packets: u32 = 5,
        /// Minimum duration of a cluster. Default 15 ms.
        pub duration: TimeDelta = TimeDelta::from_millis(15),
        /// Interval between two batches of a cluster's packets. Default 2 ms.
        pub batch: TimeDelta = TimeDelta::from_millis(2),
        /// Maximum rate, if the application sets none. Default 5 Mbit/s.
        pub max: DataRate = DataRate::from_bps(5_000_000),
        /// Maximum rate of a probe, as a multiple of the allocated rate. Default 2.
        pub over_allocation: f64 = 2.0,
        /// Whether to probe while the sender is application-limited. Default no.
        pub probe_while_limited: bool = false,
        /// Rate of such a cluster, as a multiple of the estimate. Default 2.
        pub limited: f64 = 2.0,
        /// Interval of these clusters. Default 5 s.
        pub limited_interval: TimeDelta = TimeDelta::from_seconds(5),
        /// Rate of the first cluster after a new allocation, as a multiple of the allocation; 0: none. Default 1.
        pub allocation_first: f64 = 1.0,
        /// Rate of the second cluster, as a multiple of the allocation; 0: none. Default 2.
        pub allocation_second: f64 = 2.0,
        /// Maximum rate of both, as a multiple of the estimate. Default 2.
        pub allocation_limit: f64 = 2.0,
        /// The estimate has dropped if it is below this share of the previous one. Default 0.66.
        pub drop: f64 = 0.66,
        /// Rate of the cluster after a drop, as a multiple of the estimate before the drop. Default 0.85.
        pub drop_probe: f64 = 0.85,
        /// It is sent at most this long after the drop. Default 5 s.
        pub drop_timeout: TimeDelta = TimeDelta::from_seconds(5),
        /// Minimum interval of these clusters, and minimum time before the first. Default 5 s.
        pub drop_interval: TimeDelta = TimeDelta::from_seconds(5),
        /// It is sent only if its result would exceed the estimate even if it were lower than the cluster's rate
        /// by this share. Default 0.05.
        pub uncertainty: f64 = 0.05,
        /// The sender still counts as application-limited for this long after it was. Default 3 s.
        pub limited_ended: TimeDelta = TimeDelta::from_seconds(3),
        /// Maximum rate of a cluster while losses limit the rate, as a multiple of the estimate. Default 1.5.
        pub loss_limited: f64 = 1.5,
        /// Whether to repeat the initial probes until a rate is allocated. Default no.
        pub repeat_initial: bool = false,
        /// Duration of the repetition. Default 5 s.
        pub repeat_for: TimeDelta = TimeDelta::from_seconds(5),
        /// Minimum duration of a repeated cluster. Default 100 ms.
        pub repeat_duration: TimeDelta = TimeDelta::from_millis(100),
        /// Interval between two batches of a repeated cluster's packets. Default 20 ms.
        pub repeat_batch: TimeDelta = TimeDelta::from_millis(20),
    }
}
