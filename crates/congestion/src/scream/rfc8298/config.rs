//! The constants of RFC 8298 §4.1.1.1.

use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::limits::Limits;

/// What is settable of [`ScreamRfc8298`](super::ScreamRfc8298). The defaults are those that RFC 8298 §4.1.1.1 recommends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rfc8298Config {
    /// Within what the media rate may move (`TARGET_BITRATE_MIN`, `TARGET_BITRATE_MAX`), and where it begins.
    pub limits: Limits,
    /// The least target of the queue delay, and the first. `QDELAY_TARGET_LO`: 0.1 s.
    pub delay_target: TimeDelta,
    /// The greatest target of the queue delay. `QDELAY_TARGET_HI`: 0.4 s.
    pub delay_target_most: TimeDelta,
    /// Whether the target of the queue delay follows flows that compete (§4.1.2.3, which permits to turn it off). Default true.
    pub compensate: bool,
    /// The weight of a sample in the mean of the queue delay. `QDELAY_WEIGHT`: 0.1.
    pub delay_weight: f64,
    /// The trend that ends fast increase. `QDELAY_TREND_TH`: 0.2.
    pub trend_threshold: f64,
    /// The trend below which fast increase may resume. `QDELAY_TREND_LO`: 0.2.
    pub trend_low: f64,
    /// For how long it must be below. `T_RESUME_FAST_INCREASE`: 5 s.
    pub resume: TimeDelta,
    /// The least window, and the first. `MIN_CWND`: 3000 bytes.
    pub min_window: DataSize,
    /// How far the window may exceed what was in flight at most. `MAX_BYTES_IN_FLIGHT_HEAD_ROOM`: 1.1.
    pub head_room: f64,
    /// `GAIN`: 1.
    pub gain: f64,
    /// What a loss event leaves of the window. `BETA_LOSS`: 0.8.
    pub beta_loss: f64,
    /// What a mark leaves of the window and of the media rate. `BETA_ECN`: 0.9.
    pub beta_mark: f64,
    /// What a loss event leaves of the media rate. `BETA_R`: 0.9.
    pub beta_rate: f64,
    /// The largest packet that is expected; a larger one that is sent raises it. `MSS`: 1000 bytes.
    pub packet: DataSize,
    /// The time between two changes of the media rate. `RATE_ADJUST_INTERVAL`: 0.2 s.
    pub interval: TimeDelta,
    /// How much the media rate may rise in a second. `RAMP_UP_SPEED`: 200 kbit/s.
    pub ramp_up: DataRate,
    /// How much the trend slows the rise, 0 to 1. `PRE_CONGESTION_GUARD`: 0.1.
    pub guard: f64,
    /// How much what waits at the sender slows the rise, 0 to 2. `TX_QUEUE_SIZE_FACTOR`: 1.
    pub queue_factor: f64,
    /// How long packets may wait at the sender before the media rate falls. `RTP_QDELAY_TH`: 20 ms.
    pub queue_threshold: TimeDelta,
    /// What is left of it then. `TARGET_RATE_SCALE_RTP_QDELAY`: 0.95.
    pub queue_scale: f64,
    /// Whether the window follows the received rate while the queueing delay is above its target. Default `false`, as in the text;
    /// `true` in [`giusto`](Self::giusto).
    pub follow: bool,
    /// The target of the queueing delay rises only while the delay is above this multiple of it, which shows that other flows fill the
    /// queue. Default `None`: whenever §4.1.2.3 says so; 1.1 in [`giusto`](Self::giusto).
    pub evidence: Option<f64>,
    /// The least pacing rate. `RATE_PACE_MIN`: 50 kbit/s.
    pub min_pacing: DataRate,
}

impl Rfc8298Config {
    /// `scream:rfc8298`: the recommended constants, within `limits`.
    pub fn within(limits: Limits) -> Self {
        Self {
            limits,
            delay_target: TimeDelta::from_millis(100),
            delay_target_most: TimeDelta::from_millis(400),
            compensate: true,
            delay_weight: 0.1,
            trend_threshold: 0.2,
            trend_low: 0.2,
            resume: TimeDelta::from_seconds(5),
            min_window: DataSize::from_bytes(3000),
            head_room: 1.1,
            gain: 1.0,
            beta_loss: 0.8,
            beta_mark: 0.9,
            beta_rate: 0.9,
            packet: DataSize::from_bytes(1000),
            interval: TimeDelta::from_millis(200),
            ramp_up: DataRate::from_bps(200_000),
            guard: 0.1,
            queue_factor: 1.0,
            queue_threshold: TimeDelta::from_millis(20),
            queue_scale: 0.95,
            follow: false,
            evidence: None,
            min_pacing: DataRate::from_bps(50_000),
        }
    }

    /// `scream:rfc8298+giusto`: with the two [variations](super#variant) that follow the received rate.
    pub fn giusto(limits: Limits) -> Self {
        Self { follow: true, evidence: Some(1.1), ..Self::within(limits) }
    }
}

impl Default for Rfc8298Config {
    fn default() -> Self {
        Self::within(Limits::default())
    }
}
