//! What is settable of the probing.

use giusto_units::{DataRate, TimeDelta};

/// What is settable of [`Probing`](super::Probing). The defaults are libwebrtc's (`goog_cc/probe_controller.cc`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbingConfig {
    /// The first cluster, in start rates. Default 3.
    pub first: f64,
    /// The second, in start rates; 0: none. Default 6.
    pub second: f64,
    /// A cluster that follows a good result, in results. Default 2.
    pub further: f64,
    /// A result is good above this share of the fastest cluster. Default 0.7.
    pub further_above: f64,
    /// A result that takes longer is no longer waited for. Default 1 s.
    pub timeout: TimeDelta,
    /// A cluster's least packets. Default 5.
    pub packets: u32,
    /// A cluster's least duration. Default 15 ms.
    pub duration: TimeDelta,
    /// The time between two batches of its packets. Default 2 ms.
    pub batch: TimeDelta,
    /// The most that may be sent, where the application names nothing. Default 5 Mbit/s.
    pub max: DataRate,
    /// How far above what was allocated a probe may go, as a factor. Default 2.
    pub over_allocation: f64,
    /// Whether to probe while the sender is limited by its application. Default no.
    pub probe_while_limited: bool,
    /// Such a cluster, in estimates. Default 2.
    pub limited: f64,
    /// The time between two of these. Default 5 s.
    pub limited_interval: TimeDelta,
    /// The first cluster after a new allocation, in allocations; 0: none. Default 1.
    pub allocation_first: f64,
    /// The second, in allocations; 0: none. Default 2.
    pub allocation_second: f64,
    /// The most of either, in estimates. Default 2.
    pub allocation_limit: f64,
    /// The estimate has dropped if it is below this share of the one before. Default 0.66.
    pub drop: f64,
    /// A cluster after a drop, in estimates before it. Default 0.85.
    pub drop_probe: f64,
    /// It is sent no later than this after the drop. Default 5 s.
    pub drop_timeout: TimeDelta,
    /// The time between two of these, and before the first. Default 5 s.
    pub drop_interval: TimeDelta,
    /// It is sent only if the result, should it fall short of the cluster by this share, would still be above the estimate.
    /// Default 0.05.
    pub uncertainty: f64,
    /// For so long after the sender was limited by its application, it counts as if it still were. Default 3 s.
    pub limited_ended: TimeDelta,
    /// The most of a cluster while losses hold the rate back, in estimates. Default 1.5.
    pub loss_limited: f64,
    /// Whether to probe again and again in the beginning, until something is allocated. Default no.
    pub repeat_initial: bool,
    /// For how long. Default 5 s.
    pub repeat_for: TimeDelta,
    /// The least duration of a cluster in that time. Default 100 ms.
    pub repeat_duration: TimeDelta,
    /// The time between two batches of its packets. Default 20 ms.
    pub repeat_batch: TimeDelta,
}

impl Default for ProbingConfig {
    fn default() -> Self {
        Self {
            first: 3.0,
            second: 6.0,
            further: 2.0,
            further_above: 0.7,
            timeout: TimeDelta::from_seconds(1),
            packets: 5,
            duration: TimeDelta::from_millis(15),
            batch: TimeDelta::from_millis(2),
            max: DataRate::from_bps(5_000_000),
            over_allocation: 2.0,
            probe_while_limited: false,
            limited: 2.0,
            limited_interval: TimeDelta::from_seconds(5),
            allocation_first: 1.0,
            allocation_second: 2.0,
            allocation_limit: 2.0,
            drop: 0.66,
            drop_probe: 0.85,
            drop_timeout: TimeDelta::from_seconds(5),
            drop_interval: TimeDelta::from_seconds(5),
            uncertainty: 0.05,
            limited_ended: TimeDelta::from_seconds(3),
            loss_limited: 1.5,
            repeat_initial: false,
            repeat_for: TimeDelta::from_seconds(5),
            repeat_duration: TimeDelta::from_millis(100),
            repeat_batch: TimeDelta::from_millis(20),
        }
    }
}
