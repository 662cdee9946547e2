//! The constants of RFC 8298 §4.1.1.1.

use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::limits::Limits;

crate::constants::config! {
    /// Configuration of [`ScreamRfc8298`](super::ScreamRfc8298). The defaults are those that RFC 8298 §4.1.1.1
    /// recommends.
    pub struct Config {
        /// Range (`TARGET_BITRATE_MIN`, `TARGET_BITRATE_MAX`) and initial value of the media rate.
        pub limits: Limits;
        /// Minimum and initial target of the queueing delay. `QDELAY_TARGET_LO`: 0.1 s.
        pub delay_target: TimeDelta = TimeDelta::from_millis(100),
            time "delay-target" in 10.0..=400.0, "`QDELAY_TARGET_LO`: target of the queueing delay";
        /// Maximum target of the queueing delay. `QDELAY_TARGET_HI`: 0.4 s.
        pub max_delay_target: TimeDelta = TimeDelta::from_millis(400),
            time "max-delay-target" in 10.0..=1000.0, "`QDELAY_TARGET_HI`: its maximum; at least the target counts";
        /// Whether the delay target adapts to competing flows (§4.1.2.3, which permits to turn it off). Default
        /// true.
        pub compensate: bool = true;
        /// Weight of a sample in the mean of the queueing delay. `QDELAY_WEIGHT`: 0.1.
        pub delay_weight: f64 = 0.1, number "delay-weight" in 0.01..=1.0, "`QDELAY_WEIGHT`: weight of a sample in the mean of the queueing delay";
        /// The trend that ends fast increase. `QDELAY_TREND_TH`: 0.2.
        pub trend_threshold: f64 = 0.2, number "trend-threshold" in 0.05..=1.0, "`QDELAY_TREND_TH`: trend that ends fast increase";
        /// The trend below which fast increase may resume. `QDELAY_TREND_LO`: 0.2.
        pub trend_low: f64 = 0.2, number "trend-low" in 0.05..=1.0, "`QDELAY_TREND_LO`: trend below which fast increase may resume";
        /// Minimum time below that trend. `T_RESUME_FAST_INCREASE`: 5 s.
        pub resume: TimeDelta = TimeDelta::from_seconds(5),
            time "resume" in 500.0..=30000.0, "`T_RESUME_FAST_INCREASE`: minimum time below that trend";
        /// Minimum and initial window. `MIN_CWND`: 3000 bytes.
        pub min_window: DataSize = DataSize::from_bytes(3000);
        /// Maximum ratio of the window to the maximum bytes in flight. `MAX_BYTES_IN_FLIGHT_HEAD_ROOM`: 1.1.
        pub head_room: f64 = 1.1,
            number "head-room" in 1.0..=3.0, "`MAX_BYTES_IN_FLIGHT_HEAD_ROOM`: maximum ratio of the window to the bytes in flight";
        /// `GAIN`: 1.
        pub gain: f64 = 1.0, number "gain" in 0.1..=5.0, "`GAIN`";
        /// Factor on the window at a loss event. `BETA_LOSS`: 0.8.
        pub beta_loss: f64 = 0.8, number "beta-loss" in 0.3..=0.98, "`BETA_LOSS`: factor on the window at a loss event";
        /// Factor on the window and the media rate at a mark. `BETA_ECN`: 0.9.
        pub beta_mark: f64 = 0.9, number "beta-mark" in 0.3..=0.98, "`BETA_ECN`: factor on window and rate at a mark";
        /// Factor on the media rate at a loss event. `BETA_R`: 0.9.
        pub beta_rate: f64 = 0.9, number "beta-rate" in 0.3..=1.0, "`BETA_R`: factor on the media rate at a loss event";
        /// Expected maximum packet size; a larger packet raises it. `MSS`: 1000 bytes.
        pub packet: DataSize = DataSize::from_bytes(1000);
        /// Interval between changes of the media rate. `RATE_ADJUST_INTERVAL`: 0.2 s.
        pub interval: TimeDelta = TimeDelta::from_millis(200),
            time "interval" in 20.0..=1000.0, "`RATE_ADJUST_INTERVAL`: interval between changes of the media rate";
        /// Maximum increase of the media rate per second. `RAMP_UP_SPEED`: 200 kbit/s.
        pub ramp_up: DataRate = DataRate::from_bps(200_000),
            rate "ramp-up" in 20.0..=10000.0, "`RAMP_UP_SPEED`: maximum increase of the media rate in a second";
        /// Weight of the trend in slowing the increase, 0 to 1. `PRE_CONGESTION_GUARD`: 0.1.
        pub guard: f64 = 0.1, number "guard" in 0.0..=1.0, "`PRE_CONGESTION_GUARD`: weight of the trend in slowing the increase";
        /// Weight of the sender's queue in slowing the increase, 0 to 2. `TX_QUEUE_SIZE_FACTOR`: 1.
        pub queue_factor: f64 = 1.0,
            number "queue-factor" in 0.0..=2.0, "`TX_QUEUE_SIZE_FACTOR`: weight of the sender's queue in slowing the increase";
        /// Queueing delay at the sender above which the media rate falls. `RTP_QDELAY_TH`: 20 ms.
        pub queue_threshold: TimeDelta = TimeDelta::from_millis(20),
            time "queue-threshold" in 2.0..=200.0, "`RTP_QDELAY_TH`: queueing delay at the sender above which the media rate falls";
        /// Factor on the media rate in that case. `TARGET_RATE_SCALE_RTP_QDELAY`: 0.95.
        pub queue_scale: f64 = 0.95, number "queue-scale" in 0.5..=1.0, "`TARGET_RATE_SCALE_RTP_QDELAY`: factor on the media rate in that case";
        /// Whether the window follows the received rate while the queueing delay is above its target. Default `false`, as in the text;
        /// `true` in [`giusto`](Self::giusto).
        pub follow: bool = false;
        /// The delay target rises only while the delay is above this multiple of it, which shows that other flows
        /// fill the queue. Default `None`: as §4.1.2.3 specifies; 1.1 in [`giusto`](Self::giusto).
        pub evidence: Option<f64> = None;
        /// The media rate falls to the rate sent or received, less the sender's queue, if it is above that by more than this share. Default
        /// `None`: §4.1.3 does not compare it with the target. 0.05 in [`giusto`](Self::giusto), see [Variant](super#variant).
        pub target_above: Option<f64> = None;
        /// Minimum pacing rate. `RATE_PACE_MIN`: 50 kbit/s.
        pub min_pacing: DataRate = DataRate::from_bps(50_000);
    }
}

impl Config {
    /// `scream:rfc8298+giusto`: with the three changes of the [variant](super#variant).
    pub fn giusto(limits: Limits) -> Self {
        Self { follow: true, evidence: Some(1.1), target_above: Some(0.05), ..Self::within(limits) }
    }
}
