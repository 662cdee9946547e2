//! The states of BBR and their gains (draft §5.6.1).

use super::config::Config;

/// `BBR.state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Phase {
    /// The rate doubles in each round until the pipe is full.
    Startup,
    /// The queue of `Startup` drains.
    Drain,
    /// `ProbeBW_DOWN`: slower than the estimate, until the queue has drained.
    Down,
    /// `ProbeBW_CRUISE`: at the estimate.
    Cruise,
    /// `ProbeBW_REFILL`: a round at the estimate before `Up`.
    Refill,
    /// `ProbeBW_UP`: faster than the estimate.
    Up,
    /// Half of the bandwidth-delay product in flight, to measure the minimum RTT.
    ProbeRtt,
}

impl Phase {
    /// Factors of the pacing rate and of the window.
    pub(super) fn gains(self, config: &Config) -> (f64, f64) {
        match self {
            Self::Startup => (config.startup_gain, config.window_gain),
            Self::Drain => (config.drain_gain, config.window_gain),
            Self::Down => (config.down_gain, config.window_gain),
            Self::Cruise | Self::Refill => (1.0, config.window_gain),
            Self::Up => (config.up_gain, config.up_window_gain),
            Self::ProbeRtt => (1.0, config.probe_rtt_gain),
        }
    }

    /// `IsInAProbeBWState`.
    pub(super) fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// `IsProbingBW`: losses show what the path can carry, not that it carries less.
    pub(super) fn probes(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}
