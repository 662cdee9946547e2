//! Configuration of the rate control, and its three presets.

use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::gcc::rate::{capacity::CapacityConfig, convergence::ConvergenceConfig};

/// How the rate control detects that it is near the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Near {
    /// As specified in the draft (§5.5).
    Convergence(ConvergenceConfig),
    /// As implemented in libwebrtc.
    Capacity(CapacityConfig),
}

giusto_units::defaults! {
    /// Configuration of the delay-based rate.
    ///
    /// *draft* is draft-ietf-rmcat-gcc-02 §5.5 (with §5.6 for β), *libwebrtc*
    /// `remote_bitrate_estimator/aimd_rate_control.cc` and, for the time between decreases,
    /// `goog_cc/delay_based_bwe.cc`.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct AimdConfig {
        /// Minimum rate. libwebrtc 5 kbit/s; the draft specifies none and takes the same here.
        pub min: DataRate = DataRate::from_bps(5000),
        /// Maximum rate. 1 Gbit/s in all but the thesis: libwebrtc limits the target, not this estimate.
        pub max: DataRate = DataRate::from_bps(1_000_000_000),
        /// How to detect that the rate is near the capacity. There it increases additively.
        pub near: Near = Near::Convergence(ConvergenceConfig::default()),
        /// Whether the state returns to hold after one decrease (`State::Decrease` ends with the
        /// update). libwebrtc yes. Draft no: it decreases with every update until the over-use ends, and then
        /// needs two normal updates to increase again.
        pub decrease_once: bool = false,
        /// Factor of the multiplicative increase per second. 1.08 in both.
        pub growth: f64 = 1.08,
        /// Maximum time that one multiplicative increase covers. 1 s in both.
        pub growth_time: TimeDelta = TimeDelta::from_seconds(1),
        /// Minimum multiplicative increase per update. libwebrtc 1 kbit/s; draft none.
        pub min_growth: DataRate = DataRate::ZERO,
        /// Share of a packet that an additive increase adds per response time. 0.5 in both.
        pub packet_share: f64 = 0.5,
        /// Response time minus RTT: the time that the detector needs. 100 ms in both.
        pub response: TimeDelta = TimeDelta::from_millis(100),
        /// Whether one additive increase covers at most one response time. Draft yes; libwebrtc no.
        pub additive_once: bool = true,
        /// Minimum additive increase per update. Draft 1000 bit/s regardless of the update interval: at 20
        /// updates per second this alone adds 20 kbit/s each second. libwebrtc none.
        pub min_additive: DataRate = DataRate::from_bps(1000),
        /// Minimum additive increase per second. libwebrtc 4 kbit/s; draft none.
        pub min_slope: DataRate = DataRate::ZERO,
        /// Frame rate from which the typical packet size is derived, in frames per second. 30 in both.
        pub frame_rate: f64 = 30.0,
        /// Maximum packet size from which the typical packet size is derived. 1200 bytes in both.
        pub packet_size: DataSize = DataSize::from_bytes(1200),
        /// Initial RTT. libwebrtc 200 ms; the draft specifies none and takes the same here.
        pub rtt: TimeDelta = TimeDelta::from_millis(200),
        /// Maximum rate as a multiple of the received rate. 1.5 in both.
        pub ceiling: f64 = 1.5,
        /// Offset added to that maximum. libwebrtc 10 kbit/s; draft none.
        pub ceiling_offset: DataRate = DataRate::ZERO,
        /// Whether an increase reduces a rate above the ceiling to the ceiling. Draft yes (the ceiling applies to
        /// the estimate); libwebrtc no: the rate stays.
        pub ceiling_cuts: bool = true,
        /// Whether the rate may increase while the sender is application-limited. Yes in both; libwebrtc has a
        /// field trial that forbids it.
        pub rise_while_limited: bool = true,
        /// Factor on the received rate at over-use. 0.85 in both (draft: 0.8 to 0.95); thesis 0.95.
        pub decrease: f64 = 0.85,
        /// Subtracted from the result, if the result is larger. libwebrtc 5 kbit/s; draft none.
        pub decrease_offset: DataRate = DataRate::ZERO,
        /// Whether over-use may increase the rate, if the share of the received rate is above it. Draft yes,
        /// according to its formula; libwebrtc no.
        pub over_use_may_raise: bool = true,
        /// Minimum time between decreases: one RTT, limited to this range; `None`: the rate may decrease with
        /// every update. libwebrtc 10 ms to 200 ms; draft none.
        pub again: Option<(TimeDelta, TimeDelta)> = None,
        /// An earlier decrease is permitted if the received rate is below this share of the rate. libwebrtc 0.5.
        /// Without effect if `again` is `None`.
        pub again_below: f64 = 0.5,
        /// Factor on the rate at over-use if the received rate is unknown; `None`: as if the initial rate were
        /// still received.
        ///
        /// libwebrtc 0.5, with *every* update. Its comment says one decrease per 200 ms, but it compares slightly
        /// less than half of the estimate with half of the estimate, so that the interval never prevents a
        /// decrease.
        pub unknown: Option<f64> = None,
        /// A probe result does not reduce the rate below this share of the received rate. libwebrtc 0.85
        /// (`goog_cc_network_control.cc`). The draft has no probes.
        pub probe_floor: f64 = 0.85,
    }
    /// The constants of draft-ietf-rmcat-gcc-02.
    pub fn draft();
}

impl AimdConfig {
    /// The constants of libwebrtc.
    pub fn libwebrtc() -> Self {
        Self {
            near: Near::Capacity(CapacityConfig::default()),
            decrease_once: true,
            min_growth: DataRate::from_bps(1000),
            additive_once: false,
            min_additive: DataRate::ZERO,
            min_slope: DataRate::from_bps(4000),
            ceiling_offset: DataRate::from_bps(10_000),
            ceiling_cuts: false,
            decrease_offset: DataRate::from_bps(5000),
            over_use_may_raise: false,
            again: Some((TimeDelta::from_millis(10), TimeDelta::from_millis(200))),
            unknown: Some(0.5),
            ..Self::draft()
        }
    }

    /// The draft with the values of the thesis: β 0.95 (its Table 6), 3 to 10 Mbit/s (its Table 7).
    ///
    /// Its other deviation, 1.05·A + 1000, concerns its *loss* controller (§2.2.2.4) and is not part of this
    /// preset. Its delay controller increases as in the draft.
    pub fn thesis() -> Self {
        Self {
            min: DataRate::from_bps(3_000_000),
            max: DataRate::from_bps(10_000_000),
            decrease: 0.95,
            ..Self::draft()
        }
    }
}

impl Default for AimdConfig {
    fn default() -> Self {
        Self::libwebrtc()
    }
}
