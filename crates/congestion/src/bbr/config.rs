//! Constants of BBR (draft-ietf-ccwg-bbr-06 §2.4 to §2.16).

use giusto_units::TimeDelta;

use crate::{drain::QueueDrain, limits::Limits};

crate::constants::config! {
    /// Configuration of [`Bbr`](super::Bbr). The defaults are those of draft-ietf-ccwg-bbr-06, unless a field names another source.
    pub struct Config {
        /// Limits of the media rate. `Startup` begins at the start rate.
        pub limits: Limits;
        /// `StartupPacingGain`. Default 2.77.
        pub startup_gain: f64 = 2.77, number "startup-gain" in 1.5..=4.0, "`StartupPacingGain`";
        /// `DrainPacingGain`. Default 0.5.
        pub drain_gain: f64 = 0.5, number "drain-gain" in 0.1..=0.95, "`DrainPacingGain`";
        /// Pacing gain of `ProbeBW_DOWN`. Default 0.9.
        pub down_gain: f64 = 0.9, number "down-gain" in 0.5..=1.0, "pacing gain of `ProbeBW_DOWN`";
        /// Pacing gain of `ProbeBW_UP`. Default 1.25.
        pub up_gain: f64 = 1.25, number "up-gain" in 1.01..=2.0, "pacing gain of `ProbeBW_UP`";
        /// `DefaultCwndGain`. Default 2.
        pub window_gain: f64 = 2.0, number "window-gain" in 1.0..=4.0, "`DefaultCwndGain`";
        /// Window gain of `ProbeBW_UP`. Default 2.25.
        pub up_window_gain: f64 = 2.25, number "up-window-gain" in 1.0..=4.0, "window gain of `ProbeBW_UP`";
        /// `PacingMarginPercent`, as a share. Default 0.01.
        pub pacing_margin: f64 = 0.01, number "pacing-margin" in 0.0..=0.3, "`PacingMarginPercent`, as a share";
        /// `LossThresh`: highest ratio of losses in a round while it probes for bandwidth. Default 0.02.
        pub loss_threshold: f64 = 0.02, number "loss-threshold" in 0.002..=0.3, "`LossThresh`: highest ratio of losses in a round while it probes";
        /// `BBRStartupFullLossCnt` (§5.3.1.3): losses in a round that can end `Startup`. Default 6.
        pub startup_losses: u32 = 6;
        /// `Beta`: smallest share of the bounds that remains after a round with losses. Default 0.7.
        pub beta: f64 = 0.7, number "beta" in 0.3..=0.95, "`Beta`: smallest share of the bounds that remains after a round with losses";
        /// `Headroom`: part of the long-term bound that is left to others. Default 0.15.
        pub headroom: f64 = 0.15, number "headroom" in 0.0..=0.5, "`Headroom`: part of the long-term bound that is left to others";
        /// `MinPipeCwnd`, in packets. Default 4.
        pub min_window: f64 = 4.0;
        /// `InitialCwnd`, in packets. Default 10 (RFC 6928 §2).
        pub initial_window: f64 = 10.0;
        /// `MinRTTFilterLen`. Default 10 s.
        pub min_rtt_window: TimeDelta = TimeDelta::from_seconds(10), time "min-rtt-window" in 2000.0..=60000.0, "`MinRTTFilterLen`";
        /// `ProbeRTTInterval`. Default 5 s.
        pub probe_rtt_interval: TimeDelta = TimeDelta::from_seconds(5), time "probe-rtt-interval" in 1000.0..=60000.0, "`ProbeRTTInterval`";
        /// `ProbeRTTDuration`. Default 200 ms.
        pub probe_rtt_duration: TimeDelta = TimeDelta::from_millis(200), time "probe-rtt-duration" in 20.0..=1000.0, "`ProbeRTTDuration`";
        /// `ProbeRTTCwndGain`. Default 0.5.
        pub probe_rtt_gain: f64 = 0.5, number "probe-rtt-gain" in 0.1..=1.0, "`ProbeRTTCwndGain`";
        /// `ExtraAckedFilterLen`, in rounds. Default 10.
        pub aggregation_rounds: u64 = 10;
        /// Shortest and longest wait before the next probe for bandwidth; the wait is uniformly distributed between them. A probe comes earlier
        /// if Reno would have probed by then (§5.3.3.8.3). Default 2 s and 3 s.
        pub probe_wait: (TimeDelta, TimeDelta) = (TimeDelta::from_seconds(2), TimeDelta::from_seconds(3));
        /// Maximum number of rounds between two probes (§5.3.3.8.3). Default 63.
        pub max_probe_rounds: u64 = 63, count "max-probe-rounds" in 4.0..=250.0, "maximum number of rounds between two probes";
        /// Whether the sender pads its media up to the target in the phases that look for bandwidth, unless they are paused. Default `true`, as
        /// in libwebrtc's former BBR (`bbr_network_controller.cc`, `pad_window`).
        pub pads: bool = true;
        /// The application limits the sender while the media use less than this part of the target. Ours. Default 0.8: `ProbeBW_UP` asks for
        /// a quarter more than before.
        pub used_share: f64 = 0.8;
        /// Shortest time over which that is measured. Ours. Default 100 ms, three frames.
        pub used_period: TimeDelta = TimeDelta::from_millis(100);
        /// How the sender's queue is drained.
        pub drain: QueueDrain = QueueDrain::default();
        /// Longest interval of feedback for which the media rate allows. Default 250 ms, the longest of transport-wide feedback in libwebrtc
        /// (`transport_sequence_number_feedback_generator.cc`).
        pub max_feedback_interval: TimeDelta = TimeDelta::from_millis(250);
    }
}
