//! Constants (RFC 8698, Table 2).

use giusto_units::{DataRate, TimeDelta};

use crate::{gcc::rate::RttConfig, limits::Limits};

crate::constants::config! {
    /// Configuration of [`Nada`](super::Nada). The defaults are those of RFC 8698, Table 2, except for the limits.
    pub struct Config {
        /// `RMIN`, `RMAX` and the rate at the start, which the RFC sets to `RMIN` (§4.3). The congestion signal in equilibrium is proportional
        /// to the maximum (equation 5): a maximum far above what the path can carry gives long queues.
        pub limits: Limits;
        /// `PRIO`: weight of the flow, above 0. Flows share a bottleneck in the ratio of `priority` × maximum rate (§4.3). Default 1.
        pub priority: f64 = 1.0;
        /// `XREF`: congestion signal at which a flow of weight 1 reaches its maximum. Default 10 ms.
        pub reference_signal: TimeDelta = TimeDelta::from_millis(10),
            time "reference-signal" in 1.0..=100.0, "`XREF`: congestion signal at which a flow reaches its maximum rate";
        /// Maximum of `RMAX` in equation 5, where it is a weight: the rate may exceed it. Default: none.
        pub max_weight: DataRate = DataRate::from_bps(u64::MAX);
        /// `KAPPA`: gain of the gradual update. Default 0.5.
        pub kappa: f64 = 0.5, number "kappa" in 0.02..=2.0, "`KAPPA`: gain of the gradual update";
        /// `ETA`: gain of the change of the signal, relative to its offset. Default 2.
        pub eta: f64 = 2.0, number "eta" in 0.1..=10.0, "`ETA`: gain of the change of the signal";
        /// `TAU`: upper bound of the RTT in the gradual update, above 0. Default 500 ms.
        pub tau: TimeDelta = TimeDelta::from_millis(500), time "tau" in 100.0..=2000.0, "`TAU`: upper bound of the RTT in the gradual update";
        /// `GAMMA_MAX`: maximum increase in one step of the accelerated ramp-up. Default 0.5.
        pub gamma_max: f64 = 0.5, number "gamma-max" in 0.05..=2.0, "`GAMMA_MAX`: maximum increase in one step of the accelerated ramp-up";
        /// `QBOUND`: upper bound of the self-inflicted queueing delay in the ramp-up. Default 50 ms.
        pub ramp_up_delay: TimeDelta = TimeDelta::from_millis(50),
            time "ramp-up-delay" in 5.0..=200.0, "`QBOUND`: upper bound of the self-inflicted queueing delay in the ramp-up";
        /// `DFILT`: bound of the delay of filtering, in the ramp-up. Default 120 ms.
        pub filter_delay: TimeDelta = TimeDelta::from_millis(120),
            time "filter-delay" in 20.0..=500.0, "`DFILT`: bound of the delay of filtering, in the ramp-up";
        /// `FPS`: reference frame rate, in frames per second. Default 30.
        pub frame_rate: f64 = 30.0;
        /// `BETA_S`: share of the sender's queue that raises the sending rate. Default 0.1.
        pub beta_sending: f64 = 0.1, number "beta-sending" in 0.0..=1.0, "`BETA_S`: share of the sender's queue that raises the sending rate";
        /// `BETA_V`: share of the sender's queue that lowers the rate of the encoder. Default 0.1.
        pub beta_video: f64 = 0.1, number "beta-video" in 0.0..=1.0, "`BETA_V`: share of the sender's queue that lowers the rate of the encoder";
        /// Reaction to missing feedback, about which the RFC says nothing. Default: that of `gcc:remb`, 3 s.
        pub silence: RttConfig = RttConfig::default();
        /// The receiver, when it is computed at the sender (§6.4). `DELTA` is part of it.
        pub receiver: ReceiverConfig = ReceiverConfig::default();
    }
}

impl Config {
    /// `nada:ns3`: the constants and choices of the authors' module for ns-3 (cisco/ns3-rmcat, 2020: draft-ietf-rmcat-nada-05).
    ///
    /// | difference from the RFC | file |
    /// |---|---|
    /// | the congestion signal is at most 500 ms (`NADA_PARAM_XMAX`) | `nada-controller.cc` |
    /// | the loss ratio is smoothed at each report | `nada-controller.cc`, `updateMetrics` |
    /// | the delay of each packet decides the mode, not the filtered one | `nada-controller.cc`, `getRampUpMode` |
    /// | ECN marks do not count ("TODO") | `nada-controller.cc`, `processFeedback` |
    /// | the sender's queue changes no rate (`BETA_V`, `BETA_S` are 0) | `rmcat-constants.h` |
    ///
    /// Its `RMAX` is 1.5 Mbit/s (`RMCAT_CC_DEFAULT_RMAX`, and Table 2), also in all of its tests, and ends the rate. Here that is the maximum
    /// of `RMAX` in equation 5 alone: the rate ends at the limit, and the queue in equilibrium is not that of an encoder which could use much
    /// more than the path.
    ///
    /// Ours remain: the window of 500 ms is one of arrivals and the received rate is divided by it, also at the start; the RTT is the latest,
    /// without the time that feedback waits, where theirs is the minimum of 15 packets; and the reaction to missing feedback.
    pub fn ns3(limits: Limits) -> Self {
        let receiver = ReceiverConfig {
            ramp_up_samples: DelaySamples::Raw,
            mark_penalty: TimeDelta::ZERO,
            smoothing: RatioSmoothing::Report,
            max_signal: TimeDelta::from_millis(500),
            ..ReceiverConfig::default()
        };
        Self {
            max_weight: DataRate::from_bps(1_500_000),
            beta_sending: 0.0,
            beta_video: 0.0,
            receiver,
            ..Self::within(limits)
        }
    }
}

giusto_units::defaults! {
    /// Configuration of [`Receiver`](super::Receiver). All flows of a bottleneck need the same penalties (§4.2).
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct ReceiverConfig {
        /// `DELTA`: interval of reports; at least 1 ms. Default 100 ms.
        pub interval: TimeDelta = TimeDelta::from_millis(100),
        /// `LOGWIN`: window of the loss ratio, the mark ratio and the received rate; above 0. Default 500 ms.
        pub window: TimeDelta = TimeDelta::from_millis(500),
        /// `QEPS`: queueing delay from which there is no accelerated ramp-up. Default 10 ms.
        pub ramp_up_below: TimeDelta = TimeDelta::from_millis(10),
        /// The delay samples that are compared with it. Default: filtered.
        pub ramp_up_samples: DelaySamples = DelaySamples::Filtered,
        /// `MULTILOSS`: for so many average loss intervals after a loss the delay is warped. Default 7.
        pub loss_intervals: f64 = 7.0,
        /// `QTH`: queueing delay from which the delay is warped, above 0. Default 50 ms.
        pub warp_from: TimeDelta = TimeDelta::from_millis(50),
        /// `LAMBDA`: exponent of the warping. Default 0.5.
        pub lambda: f64 = 0.5,
        /// `PLRREF`: reference loss ratio, above 0. Default 0.01.
        pub reference_loss: f64 = 0.01,
        /// `PMRREF`: reference mark ratio, above 0. Default 0.01.
        pub reference_marks: f64 = 0.01,
        /// `DLOSS`: penalty at the reference loss ratio. Default 10 ms.
        pub loss_penalty: TimeDelta = TimeDelta::from_millis(10),
        /// `DMARK`: penalty at the reference mark ratio. Default 2 ms.
        pub mark_penalty: TimeDelta = TimeDelta::from_millis(2),
        /// `ALPHA`: smoothing factor of loss and mark ratios, 0 to 1. Default 0.1.
        pub alpha: f64 = 0.1,
        /// When these ratios are smoothed. Default: at each packet.
        pub smoothing: RatioSmoothing = RatioSmoothing::Packet,
        /// Maximum of the congestion signal. Default 3276.7 ms: 15 bits of 100 µs (§5.3).
        pub max_signal: TimeDelta = TimeDelta::from_micros(3_276_700),
        /// Samples of the minimum filter of the queueing delay; at least 1. Default 15 (§5.1.1).
        pub filter_samples: usize = 15,
        /// The base delay is the minimum over at least this time. Default 20 min: "tens of minutes" (§5.1.1).
        pub base_delay_memory: TimeDelta = TimeDelta::from_seconds(20 * 60),
    }
}

/// When a loss or mark ratio is smoothed (equation 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum RatioSmoothing {
    /// At each packet that arrives, as in the outline of RFC 8698 §4.2. The time constant is 10 packets.
    Packet,
    /// At each report, as in the authors' simulator (ns3-rmcat, `nada-controller.cc`, `updateMetrics`). The time constant is 1 s.
    Report,
}

/// Samples of the queueing delay that decide the mode (RFC 8698 §4.2, end).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum DelaySamples {
    /// After the minimum filter: Table 1 defines `d_fwd` as filtered, and equation 3 allows for the delay of the filter.
    Filtered,
    /// Of each packet, as in the authors' simulator (ns3-rmcat, `nada-controller.cc`, `getRampUpMode`). Jitter of 10 ms then permits no
    /// accelerated ramp-up.
    Raw,
}
