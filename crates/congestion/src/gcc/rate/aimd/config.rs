//! What is settable of the rate control, and the three sets of values.

use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::gcc::rate::{capacity::CapacityConfig, convergence::ConvergenceConfig};

/// How the rate control knows that it is near the place where the path was full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Near {
    /// As the draft does (§5.5).
    Convergence(ConvergenceConfig),
    /// As libwebrtc does.
    Capacity(CapacityConfig),
}

/// What is settable of [`Aimd`](super::Aimd).
///
/// *draft* is draft-ietf-rmcat-gcc-02 §5.5 (with §5.6 for β), *libwebrtc* `remote_bitrate_estimator/aimd_rate_control.cc` and, for the
/// pace of decreases, `goog_cc/delay_based_bwe.cc`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a difference between two sources, and can be set alone"
)]
pub struct AimdConfig {
    /// The least rate. libwebrtc 5 kbit/s; the draft names none and takes the same here.
    pub min: DataRate,
    /// The most. 1 Gbit/s in all but the thesis: libwebrtc bounds the target, not this estimate.
    pub max: DataRate,
    /// How to know that the rate is near the place where the path was full: then it rises by addition.
    pub near: Near,
    /// Whether one decrease is a whole stay in [`State::Decrease`](super::State): the state is hold when the update ends. libwebrtc
    /// yes. Draft no: it decreases with every update until the over-use ends, and then needs two normal updates to rise again.
    pub decrease_once: bool,
    /// The factor of a second's multiplicative increase. 1.08 in both.
    pub growth: f64,
    /// The most time that one multiplicative increase accounts for. 1 s in both.
    pub growth_time: TimeDelta,
    /// The least multiplicative increase of one update. libwebrtc 1 kbit/s; draft none.
    pub min_growth: DataRate,
    /// How much of a packet an additive increase adds in one response time. 0.5 in both.
    pub packet_share: f64,
    /// What the response time has above the round trip: the time that the detector takes. 100 ms in both.
    pub response: TimeDelta,
    /// Whether one additive increase accounts for no more than one response time. Draft yes; libwebrtc no.
    pub additive_once: bool,
    /// The least additive increase of one update. Draft 1000 bit/s, however often updates come: at 20 a second this alone is
    /// 20 kbit/s each second. libwebrtc none.
    pub min_additive: DataRate,
    /// The least additive increase of one second. libwebrtc 4 kbit/s; draft none.
    pub min_slope: DataRate,
    /// From which the usual packet is inferred: pictures in a second. 30 in both.
    pub frame_rate: f64,
    /// From which the usual packet is inferred: the most that one holds. 1200 bytes in both.
    pub packet_size: DataSize,
    /// The round trip before one is known. libwebrtc 200 ms; the draft names none and takes the same here.
    pub round_trip: TimeDelta,
    /// The rate may rise to this multiple of what arrives. 1.5 in both.
    pub ceiling: f64,
    /// And so much more. libwebrtc 10 kbit/s; draft none.
    pub ceiling_offset: DataRate,
    /// Whether a rising rate that is above the ceiling is cut to it. Draft yes (its bound is on the estimate); libwebrtc no: the
    /// rate then stays.
    pub ceiling_cuts: bool,
    /// Whether the rate may rise while the sender is limited by its application. Yes in both; libwebrtc has a field trial that
    /// forbids it.
    pub rise_while_limited: bool,
    /// At an over-use, the rate becomes this share of what arrives. 0.85 in both (draft: 0.8 to 0.95); thesis 0.95.
    pub decrease: f64,
    /// And so much less, where more than that is left. libwebrtc 5 kbit/s; draft none.
    pub decrease_offset: DataRate,
    /// Whether an over-use may raise the rate, where the share of what arrives is above it. Draft yes, as its formula reads;
    /// libwebrtc no.
    pub over_use_may_raise: bool,
    /// How soon the rate may be lowered again, in round trips held within these bounds; `None`: with every update. libwebrtc
    /// 10 ms to 200 ms; draft none.
    pub again: Option<(TimeDelta, TimeDelta)>,
    /// It may be lowered again at once if less than this share of it arrives. libwebrtc 0.5. Without bounds in `again`, no matter.
    pub again_below: f64,
    /// What an over-use leaves of the rate while nothing is known of what arrives; `None`: as if the rate
    /// that it began with still arrived.
    ///
    /// libwebrtc 0.5, with *every* update: its comment speaks of one in 200 ms, but it compares a little less than half the
    /// estimate with half the estimate, so that the interval never holds it back.
    pub unknown: Option<f64>,
    /// A probe's result lowers the rate to no less than this share of what arrives. libwebrtc 0.85 (`goog_cc_network_control.cc`). The
    /// draft knows no probes.
    pub probe_floor: f64,
}

impl AimdConfig {
    /// As libwebrtc has it.
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

    /// As draft-ietf-rmcat-gcc-02 has it.
    pub fn draft() -> Self {
        Self {
            min: DataRate::from_bps(5000),
            max: DataRate::from_bps(1_000_000_000),
            near: Near::Convergence(ConvergenceConfig::default()),
            decrease_once: false,
            growth: 1.08,
            growth_time: TimeDelta::from_seconds(1),
            min_growth: DataRate::ZERO,
            packet_share: 0.5,
            response: TimeDelta::from_millis(100),
            additive_once: true,
            min_additive: DataRate::from_bps(1000),
            min_slope: DataRate::ZERO,
            frame_rate: 30.0,
            packet_size: DataSize::from_bytes(1200),
            round_trip: TimeDelta::from_millis(200),
            ceiling: 1.5,
            ceiling_offset: DataRate::ZERO,
            ceiling_cuts: true,
            rise_while_limited: true,
            decrease: 0.85,
            decrease_offset: DataRate::ZERO,
            over_use_may_raise: true,
            again: None,
            again_below: 0.5,
            unknown: None,
            probe_floor: 0.85,
        }
    }

    /// The draft with the values of the thesis: β 0.95 (its Table 6), 3 to 10 Mbit/s (its Table 7).
    ///
    /// Its other deviation, 1.05·A + 1000, is of its *loss* controller (§2.2.2.4) and not to be found here; its delay controller rises
    /// as the draft's does.
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
