//! The constants of draft-johansson-rmcat-scream-cc-00 §9.

use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::limits::Limits;

crate::constants::config! {
    /// Configuration of [`ScreamD00`](super::ScreamD00). The defaults are those of the draft, §9.1.2 to §9.1.6,
    /// where it has any.
    pub struct Config {
        /// Range (`scaleFactorMin`, `scaleFactorMax`: not specified) and initial value of the media rate.
        pub limits: Limits;
        /// Target of the queueing delay. `OWD_TARGET`: 80 ms.
        pub delay_target: TimeDelta = TimeDelta::from_millis(80),
            time "delay-target" in 10.0..=400.0, "`OWD_TARGET`: target of the queueing delay";
        /// Maximum delay target when other flows fill the queue. The draft has none: 0.4 s, `QDELAY_TARGET_HI` of
        /// RFC 8298 §4.1.1.1.
        pub max_delay_target: TimeDelta = TimeDelta::from_millis(400),
            time "max-delay-target" in 10.0..=1000.0, "its maximum; at least the target counts";
        /// Whether the target adapts to competing flows (§3.1, "Adaptive delay target"). The draft has no rule:
        /// that of RFC 8298 §4.1.2.3. Default true.
        pub compensate: bool = true;
        /// The target rises only while the delay is above this multiple of it, which shows that other flows fill
        /// the queue. Default `None`: as RFC 8298 §4.1.2.3 specifies; 1.1 in [`giusto`](Self::giusto).
        pub evidence: Option<f64> = None;
        /// Whether the window follows the received rate while the queueing delay is above its target. Default
        /// `false`; `true` in [`giusto`](Self::giusto): the draft requires a reaction within an RTT (§1.1), but
        /// its window falls by a few packets per RTT.
        pub follow: bool = false;
        /// Maximum ratio of window to bytes in flight at which the window may grow, at the delay target and at
        /// zero delay. `cwndHeadroomMin`, `cwndHeadroomMax`: 1 and 2.
        pub head_room: (f64, f64) = (1.0, 2.0);
        /// Gain of the window's growth. `gainUp`: 1.
        pub gain_up: f64 = 1.0, number "gain-up" in 0.1..=5.0, "`gainUp`: gain of the window's growth";
        /// Gain of its reduction. `gainDown`: 1.
        pub gain_down: f64 = 1.0, number "gain-down" in 0.1..=5.0, "`gainDown`: gain of its reduction";
        /// Factor on the window at a loss event. `beta`: 0.8.
        pub beta: f64 = 0.8, number "beta" in 0.3..=0.98, "`beta`: factor on the window at a loss event";
        /// Factor on the media rate at a loss event. Default 1: in the draft only the age of queued packets lowers
        /// the rate. 0.9, `BETA_R` of RFC 8298 §4.1.1.1, in [`giusto`](Self::giusto).
        pub beta_rate: f64 = 1.0, number "beta-rate" in 0.3..=1.0, "factor on the media rate at a loss event";
        /// The share of the delay target that ends fast start. The draft says "a given threshold" (§3.1): 0.2, where "owd shows a
        /// tendency to increase" (§9.1.6).
        pub fast_start: f64 = 0.2, number "fast-start" in 0.02..=1.0, "share of the delay target that ends fast start";
        /// Time after which a window is halved if less than half of it is used. The draft cites only
        /// draft-ietf-tcpm-newcwv (§3.1): 5 minutes, RFC 7661 §4.4.3.
        pub validity: TimeDelta = TimeDelta::from_seconds(300);
        /// Expected maximum packet size; a larger packet raises it. `MSS_INIT`: 1200 bytes.
        pub packet: DataSize = DataSize::from_bytes(1200);
        /// Minimum pacing rate (§9.1.2): 50 kbit/s.
        pub min_pacing: DataRate = DataRate::from_bps(50_000);
        /// `framePeriod`: not specified; that of 30 frames per second.
        pub frame_period: TimeDelta = TimeDelta::from_nanos(33_333_333);
        /// Time in which the media rate rises from zero to the maximum. `rampUpTime` is not specified: 4 s, for
        /// "within 3 to 5 seconds" (§3.1).
        pub ramp_up: TimeDelta = TimeDelta::from_seconds(4),
            time "ramp-up" in 500.0..=30000.0, "`rampUpTime`: time in which the media rate rises from zero to the maximum";
    }
}

impl Config {
    /// `scream:d00+giusto`: a window that follows the received rate, a delay target that rises only with evidence, as in
    /// [`scream:rfc8298+giusto`](crate::scream::rfc8298#variant), and a media rate that falls at a loss event.
    pub fn giusto(limits: Limits) -> Self {
        Self { follow: true, evidence: Some(1.1), beta_rate: 0.9, ..Self::within(limits) }
    }
}
