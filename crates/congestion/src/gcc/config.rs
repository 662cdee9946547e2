//! Configuration of the parts that the controllers of [`gcc`](super) share.

pub use super::{
    delay::{
        DelayConfig, DelayConfigError, DetectorConfig, FilterConfig, GroupingConfig, KalmanConfig,
        KalmanTwoStateConfig, TrendLineConfig,
    },
    loss::{Increase, InvalidConfig, Measure, ModelConfig, ReportConfig, StandingQueueConfig},
    rate::{
        AimdConfig, ApplicationLimitedConfig, CapacityConfig, ConvergenceConfig, Near, ProbeRateConfig,
        ProbingConfig, PushBackConfig, RobustThroughputConfig, RttConfig,
    },
};
