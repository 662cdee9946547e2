//! The constants of draft-johansson-rmcat-scream-cc-00 §9.

use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::limits::Limits;

/// What is settable of [`ScreamD00`](super::ScreamD00). The defaults are those of the draft, §9.1.2 to §9.1.6, where it has any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct D00Config {
    /// Within what the media rate may move (`scaleFactorMin`, `scaleFactorMax`: not specified), and where it begins.
    pub limits: Limits,
    /// How long packets should queue. `OWD_TARGET`: 80 ms.
    pub delay_target: TimeDelta,
    /// The greatest target where others fill the queue. The draft has none: 0.4 s, `QDELAY_TARGET_HI` of RFC 8298 §4.1.1.1.
    pub delay_target_most: TimeDelta,
    /// Whether the target follows flows that compete (§3.1, "Adaptive delay target"). The draft has no rule: that of RFC 8298 §4.1.2.3.
    /// Default true.
    pub compensate: bool,
    /// The target rises only while the delay is above this multiple of it, which shows that other flows fill the queue. Default `None`:
    /// whenever RFC 8298 §4.1.2.3 says so; 1.1 in [`giusto`](Self::giusto).
    pub evidence: Option<f64>,
    /// Whether the window follows the received rate while the queueing delay is above its target. Default `false`; `true` in
    /// [`giusto`](Self::giusto): the draft wants to react within a round-trip time (§1.1), but its window falls by a few packets in
    /// one.
    pub follow: bool,
    /// How much lower than the window what is in flight may be for the window to grow, at the delay target and at no delay.
    /// `cwndHeadroomMin`, `cwndHeadroomMax`: 1 and 2.
    pub head_room: (f64, f64),
    /// How fast the window grows. `gainUp`: 1.
    pub gain_up: f64,
    /// How fast it falls. `gainDown`: 1.
    pub gain_down: f64,
    /// What a loss event leaves of the window. `beta`: 0.8.
    pub beta: f64,
    /// What a loss event leaves of the media rate. The draft has none: 0.9, `BETA_R` of RFC 8298 §4.1.1.1; 1 is the draft to the
    /// letter.
    pub beta_rate: f64,
    /// The share of the delay target that ends fast start. The draft says "a given threshold" (§3.1): 0.2, where "owd shows a
    /// tendency to increase" (§9.1.6).
    pub fast_start: f64,
    /// For how long a window of which less than half is used stays as it is; then it is halved. The draft names draft-ietf-tcpm-newcwv
    /// alone (§3.1): 5 minutes, RFC 7661 §4.4.3.
    pub validity: TimeDelta,
    /// The largest packet that is expected; a larger one that is sent raises it. `MSS_INIT`: 1200 bytes.
    pub packet: DataSize,
    /// The least pacing rate (§9.1.2): 50 kbit/s.
    pub min_pacing: DataRate,
    /// `framePeriod`: not specified; that of 30 pictures a second.
    pub frame_period: TimeDelta,
    /// How long the media rate takes from nothing to the most. `rampUpTime` is not specified: 4 s, for "within 3 to 5 seconds"
    /// (§3.1).
    pub ramp_up: TimeDelta,
}

impl D00Config {
    /// `scream:d00`: the constants of the draft, within `limits`.
    pub fn within(limits: Limits) -> Self {
        Self {
            limits,
            delay_target: TimeDelta::from_millis(80),
            delay_target_most: TimeDelta::from_millis(400),
            compensate: true,
            evidence: None,
            follow: false,
            head_room: (1.0, 2.0),
            gain_up: 1.0,
            gain_down: 1.0,
            beta: 0.8,
            beta_rate: 0.9,
            fast_start: 0.2,
            validity: TimeDelta::from_seconds(300),
            packet: DataSize::from_bytes(1200),
            min_pacing: DataRate::from_bps(50_000),
            frame_period: TimeDelta::from_nanos(33_333_333),
            ramp_up: TimeDelta::from_seconds(4),
        }
    }

    /// `scream:d00+giusto`: with the two variations of [`scream:rfc8298+giusto`](crate::scream::rfc8298#variant).
    pub fn giusto(limits: Limits) -> Self {
        Self { follow: true, evidence: Some(1.1), ..Self::within(limits) }
    }
}

impl Default for D00Config {
    fn default() -> Self {
        Self::within(Limits::default())
    }
}
