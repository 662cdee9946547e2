//! Constants of BBR (draft-ietf-ccwg-bbr-06 §2.4 to §2.16).

use giusto_units::TimeDelta;

use crate::{
    constants::{Setter, Tunable},
    drain::QueueDrain,
    limits::Limits,
};

/// Configuration of [`Bbr`](super::Bbr). The defaults are those of draft-ietf-ccwg-bbr-06, unless a field names another source.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Config {
    /// Limits of the media rate. `Startup` begins at the start rate.
    pub limits: Limits,
    /// `StartupPacingGain`. Default 2.77.
    pub startup_gain: f64,
    /// `DrainPacingGain`. Default 0.5.
    pub drain_gain: f64,
    /// Pacing gain of `ProbeBW_DOWN`. Default 0.9.
    pub down_gain: f64,
    /// Pacing gain of `ProbeBW_UP`. Default 1.25.
    pub up_gain: f64,
    /// `DefaultCwndGain`. Default 2.
    pub window_gain: f64,
    /// Window gain of `ProbeBW_UP`. Default 2.25.
    pub up_window_gain: f64,
    /// `PacingMarginPercent`, as a share. Default 0.01.
    pub pacing_margin: f64,
    /// `LossThresh`: highest ratio of losses in a round while it probes for bandwidth. Default 0.02.
    pub loss_threshold: f64,
    /// `BBRStartupFullLossCnt` (§5.3.1.3): losses in a round that can end `Startup`. Default 6.
    pub startup_losses: u32,
    /// `Beta`: smallest share of the bounds that remains after a round with losses. Default 0.7.
    pub beta: f64,
    /// `Headroom`: part of the long-term bound that is left to others. Default 0.15.
    pub headroom: f64,
    /// `MinPipeCwnd`, in packets. Default 4.
    pub min_window: f64,
    /// `InitialCwnd`, in packets. Default 10 (RFC 6928 §2).
    pub initial_window: f64,
    /// `MinRTTFilterLen`. Default 10 s.
    pub min_rtt_window: TimeDelta,
    /// `ProbeRTTInterval`. Default 5 s.
    pub probe_rtt_interval: TimeDelta,
    /// `ProbeRTTDuration`. Default 200 ms.
    pub probe_rtt_duration: TimeDelta,
    /// `ProbeRTTCwndGain`. Default 0.5.
    pub probe_rtt_gain: f64,
    /// `ExtraAckedFilterLen`, in rounds. Default 10.
    pub aggregation_rounds: u64,
    /// Shortest and longest wait before the next probe for bandwidth; the wait is uniformly distributed between them. A probe comes earlier
    /// if Reno would have probed by then (§5.3.3.8.3). Default 2 s and 3 s.
    pub probe_wait: (TimeDelta, TimeDelta),
    /// Maximum number of rounds between two probes (§5.3.3.8.3). Default 63.
    pub max_probe_rounds: u64,
    /// Whether the sender pads its media up to the target in the phases that look for bandwidth, unless they are paused. Default `true`, as
    /// in libwebrtc's former BBR (`bbr_network_controller.cc`, `pad_window`).
    pub pads: bool,
    /// The application limits the sender while the media use less than this part of the target. Ours. Default 0.8: `ProbeBW_UP` asks for
    /// a quarter more than before.
    pub used_share: f64,
    /// Shortest time over which that is measured. Ours. Default 100 ms, three frames.
    pub used_period: TimeDelta,
    /// How the sender's queue is drained.
    pub drain: QueueDrain,
    /// Longest interval of feedback for which the media rate allows. Default 250 ms, the longest of transport-wide feedback in libwebrtc
    /// (`transport_sequence_number_feedback_generator.cc`).
    pub max_feedback_interval: TimeDelta,
}

impl Config {
    /// The defaults with these limits.
    pub fn within(limits: Limits) -> Self {
        Self {
            limits,
            startup_gain: 2.77,
            drain_gain: 0.5,
            down_gain: 0.9,
            up_gain: 1.25,
            window_gain: 2.0,
            up_window_gain: 2.25,
            pacing_margin: 0.01,
            loss_threshold: 0.02,
            startup_losses: 6,
            beta: 0.7,
            headroom: 0.15,
            min_window: 4.0,
            initial_window: 10.0,
            min_rtt_window: TimeDelta::from_seconds(10),
            probe_rtt_interval: TimeDelta::from_seconds(5),
            probe_rtt_duration: TimeDelta::from_millis(200),
            probe_rtt_gain: 0.5,
            aggregation_rounds: 10,
            probe_wait: (TimeDelta::from_seconds(2), TimeDelta::from_seconds(3)),
            max_probe_rounds: 63,
            pads: true,
            used_share: 0.8,
            used_period: TimeDelta::from_millis(100),
            drain: QueueDrain::default(),
            max_feedback_interval: TimeDelta::from_millis(250),
        }
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
        set.number(&mut self.startup_gain, "startup-gain", 1.5..=4.0, "`StartupPacingGain`");
        set.number(&mut self.drain_gain, "drain-gain", 0.1..=0.95, "`DrainPacingGain`");
        set.number(&mut self.down_gain, "down-gain", 0.5..=1.0, "pacing gain of `ProbeBW_DOWN`");
        set.number(&mut self.up_gain, "up-gain", 1.01..=2.0, "pacing gain of `ProbeBW_UP`");
        set.number(&mut self.window_gain, "window-gain", 1.0..=4.0, "`DefaultCwndGain`");
        set.number(&mut self.up_window_gain, "up-window-gain", 1.0..=4.0, "window gain of `ProbeBW_UP`");
        set.number(&mut self.pacing_margin, "pacing-margin", 0.0..=0.3, "`PacingMarginPercent`, as a share");
        set.number(&mut self.loss_threshold, "loss-threshold", 0.002..=0.3, "`LossThresh`: highest ratio of losses in a round while it probes");
        set.number(&mut self.beta, "beta", 0.3..=0.95, "`Beta`: smallest share of the bounds that remains after a round with losses");
        set.number(&mut self.headroom, "headroom", 0.0..=0.5, "`Headroom`: part of the long-term bound that is left to others");
        set.time(&mut self.min_rtt_window, "min-rtt-window", 2000.0..=60000.0, "`MinRTTFilterLen`");
        set.time(&mut self.probe_rtt_interval, "probe-rtt-interval", 1000.0..=60000.0, "`ProbeRTTInterval`");
        set.time(&mut self.probe_rtt_duration, "probe-rtt-duration", 20.0..=1000.0, "`ProbeRTTDuration`");
        set.number(&mut self.probe_rtt_gain, "probe-rtt-gain", 0.1..=1.0, "`ProbeRTTCwndGain`");
        set.count(&mut self.max_probe_rounds, "max-probe-rounds", 4.0..=250.0, "maximum number of rounds between two probes");
    }
}
