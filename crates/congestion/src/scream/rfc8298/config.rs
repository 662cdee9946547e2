//! The constants of RFC 8298 §4.1.1.1.

use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::{
    constants::{Setter, Tunable},
    limits::Limits,
};

/// Configuration of [`ScreamRfc8298`](super::ScreamRfc8298). The defaults are those that RFC 8298 §4.1.1.1
/// recommends.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Config {
    /// Range (`TARGET_BITRATE_MIN`, `TARGET_BITRATE_MAX`) and initial value of the media rate.
    pub limits: Limits,
    /// Minimum and initial target of the queueing delay. `QDELAY_TARGET_LO`: 0.1 s.
    pub delay_target: TimeDelta,
    /// Maximum target of the queueing delay. `QDELAY_TARGET_HI`: 0.4 s.
    pub max_delay_target: TimeDelta,
    /// Whether the delay target adapts to competing flows (§4.1.2.3, which permits to turn it off). Default
    /// true.
    pub compensate: bool,
    /// Weight of a sample in the mean of the queueing delay. `QDELAY_WEIGHT`: 0.1.
    pub delay_weight: f64,
    /// The trend that ends fast increase. `QDELAY_TREND_TH`: 0.2.
    pub trend_threshold: f64,
    /// The trend below which fast increase may resume. `QDELAY_TREND_LO`: 0.2.
    pub trend_low: f64,
    /// Minimum time below that trend. `T_RESUME_FAST_INCREASE`: 5 s.
    pub resume: TimeDelta,
    /// Minimum and initial window. `MIN_CWND`: 3000 bytes.
    pub min_window: DataSize,
    /// Maximum ratio of the window to the maximum bytes in flight. `MAX_BYTES_IN_FLIGHT_HEAD_ROOM`: 1.1.
    pub head_room: f64,
    /// `GAIN`: 1.
    pub gain: f64,
    /// Factor on the window at a loss event. `BETA_LOSS`: 0.8.
    pub beta_loss: f64,
    /// Factor on the window and the media rate at a mark. `BETA_ECN`: 0.9.
    pub beta_mark: f64,
    /// Factor on the media rate at a loss event. `BETA_R`: 0.9.
    pub beta_rate: f64,
    /// Expected maximum packet size; a larger packet raises it. `MSS`: 1000 bytes.
    pub packet: DataSize,
    /// Interval between changes of the media rate. `RATE_ADJUST_INTERVAL`: 0.2 s.
    pub interval: TimeDelta,
    /// Maximum increase of the media rate per second. `RAMP_UP_SPEED`: 200 kbit/s.
    pub ramp_up: DataRate,
    /// Weight of the trend in slowing the increase, 0 to 1. `PRE_CONGESTION_GUARD`: 0.1.
    pub guard: f64,
    /// Weight of the sender's queue in slowing the increase, 0 to 2. `TX_QUEUE_SIZE_FACTOR`: 1.
    pub queue_factor: f64,
    /// Queueing delay at the sender above which the media rate falls. `RTP_QDELAY_TH`: 20 ms.
    pub queue_threshold: TimeDelta,
    /// Factor on the media rate in that case. `TARGET_RATE_SCALE_RTP_QDELAY`: 0.95.
    pub queue_scale: f64,
    /// Whether the window follows the received rate while the queueing delay is above its target. Default `false`, as in the text;
    /// `true` in [`giusto`](Self::giusto).
    pub follow: bool,
    /// The delay target rises only while the delay is above this multiple of it, which shows that other flows
    /// fill the queue. Default `None`: as §4.1.2.3 specifies; 1.1 in [`giusto`](Self::giusto).
    pub evidence: Option<f64>,
    /// The media rate falls to the rate sent or received, less the sender's queue, if it is above that by more than this share. Default
    /// `None`: §4.1.3 does not compare it with the target. 0.05 in [`giusto`](Self::giusto), see [Variant](super#variant).
    pub target_above: Option<f64>,
    /// Minimum pacing rate. `RATE_PACE_MIN`: 50 kbit/s.
    pub min_pacing: DataRate,
}

impl Config {
    /// `scream:rfc8298`: the recommended constants, within `limits`.
    pub fn within(limits: Limits) -> Self {
        Self {
            limits,
            delay_target: TimeDelta::from_millis(100),
            max_delay_target: TimeDelta::from_millis(400),
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
            target_above: None,
            min_pacing: DataRate::from_bps(50_000),
        }
    }

    /// `scream:rfc8298+giusto`: with the three changes of the [variant](super#variant).
    pub fn giusto(limits: Limits) -> Self {
        Self { follow: true, evidence: Some(1.1), target_above: Some(0.05), ..Self::within(limits) }
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
        set.time(&mut self.delay_target, "delay-target", 10.0..=400.0, "`QDELAY_TARGET_LO`: target of the queueing delay");
        set.time(&mut self.max_delay_target, "max-delay-target", 10.0..=1000.0, "`QDELAY_TARGET_HI`: its maximum; at least the target counts");
        set.number(&mut self.delay_weight, "delay-weight", 0.01..=1.0, "`QDELAY_WEIGHT`: weight of a sample in the mean of the queueing delay");
        set.number(&mut self.trend_threshold, "trend-threshold", 0.05..=1.0, "`QDELAY_TREND_TH`: trend that ends fast increase");
        set.number(&mut self.trend_low, "trend-low", 0.05..=1.0, "`QDELAY_TREND_LO`: trend below which fast increase may resume");
        set.time(&mut self.resume, "resume", 500.0..=30000.0, "`T_RESUME_FAST_INCREASE`: minimum time below that trend");
        set.number(&mut self.head_room, "head-room", 1.0..=3.0, "`MAX_BYTES_IN_FLIGHT_HEAD_ROOM`: maximum ratio of the window to the bytes in flight");
        set.number(&mut self.gain, "gain", 0.1..=5.0, "`GAIN`");
        set.number(&mut self.beta_loss, "beta-loss", 0.3..=0.98, "`BETA_LOSS`: factor on the window at a loss event");
        set.number(&mut self.beta_mark, "beta-mark", 0.3..=0.98, "`BETA_ECN`: factor on window and rate at a mark");
        set.number(&mut self.beta_rate, "beta-rate", 0.3..=1.0, "`BETA_R`: factor on the media rate at a loss event");
        set.time(&mut self.interval, "interval", 20.0..=1000.0, "`RATE_ADJUST_INTERVAL`: interval between changes of the media rate");
        set.rate(&mut self.ramp_up, "ramp-up", 20.0..=10000.0, "`RAMP_UP_SPEED`: maximum increase of the media rate in a second");
        set.number(&mut self.guard, "guard", 0.0..=1.0, "`PRE_CONGESTION_GUARD`: weight of the trend in slowing the increase");
        set.number(&mut self.queue_factor, "queue-factor", 0.0..=2.0, "`TX_QUEUE_SIZE_FACTOR`: weight of the sender's queue in slowing the increase");
        set.time(&mut self.queue_threshold, "queue-threshold", 2.0..=200.0, "`RTP_QDELAY_TH`: queueing delay at the sender above which the media rate falls");
        set.number(&mut self.queue_scale, "queue-scale", 0.5..=1.0, "`TARGET_RATE_SCALE_RTP_QDELAY`: factor on the media rate in that case");
    }
}
