//! Constants of Google Congestion Control that can be set by name.

use super::{
    delay::{DelayConfig, FilterConfig},
    draft, libwebrtc,
    loss::{Increase, ModelConfig, ReportConfig},
    rate::{AimdConfig, ProbingConfig},
    receiver_driven,
};
use crate::constants::{Setter, Tunable};

impl Tunable for libwebrtc::Config {
    #[rustfmt::skip]
    fn constants(&mut self, set: &mut Setter) {
        self.delay.constants(set);
        self.aimd.constants(set);
        self.loss.constants(set);
        self.probing.constants(set);
        if let Some(push_back) = &mut self.push_back {
            set.time(&mut push_back.queue, "push-back-queue", 50.0..=2000.0, "queueing delay for which the window has room before frames are dropped");
        }
        set.number(&mut self.pacing, "pacing", 1.05..=4.0, "pacing rate as a multiple of the target");
    }
}

impl Tunable for draft::Config {
    #[rustfmt::skip]
    fn constants(&mut self, set: &mut Setter) {
        self.delay.constants(set);
        self.aimd.constants(set);
        self.reports.constants(set);
        set.time(&mut self.window, "rate-window", 200.0..=3000.0, "`T`: window of the received rate");
    }
}

impl Tunable for receiver_driven::Config {
    #[rustfmt::skip]
    fn constants(&mut self, set: &mut Setter) {
        self.reports.constants(set);
        set.number(&mut self.pacing, "pacing", 1.05..=4.0, "pacing rate as a multiple of the target");
    }
}

impl Tunable for DelayConfig {
    #[rustfmt::skip]
    fn constants(&mut self, set: &mut Setter) {
        match &mut self.filter {
            FilterConfig::TrendLine(line) => {
                set.count(&mut line.window, "trend-window", 4.0..=100.0, "groups in the window of the trend");
                set.number(&mut line.smoothing, "smoothing", 0.0..=0.99, "share of the previous value in the smoothed delay");
                set.number(&mut line.gain, "trend-gain", 0.5..=20.0, "factor on the slope of the trend");
            }
            FilterConfig::Kalman(kalman) => {
                set.number(&mut kalman.process_variance, "process-variance", 1e-5..=0.1, "variance of the random walk of the mean, in ms²");
                set.number(&mut kalman.noise_smoothing, "noise-smoothing", 1e-4..=0.1, "weight of a group in the variance of the noise");
            }
            FilterConfig::KalmanTwoState(_) => {}
        }
        let detector = &mut self.detector;
        set.number(&mut detector.rise, "threshold-rise", 0.0005..=0.1, "`K_u`: gain of the threshold while the trend is outside");
        set.number(&mut detector.fall, "threshold-fall", 0.00001..=0.2, "`K_d`: gain of the threshold while the trend is within");
        set.time(&mut detector.over_use_time, "over-use-time", 1.0..=200.0, "time for which the trend must be above the threshold");
    }
}

impl Tunable for AimdConfig {
    #[rustfmt::skip]
    fn constants(&mut self, set: &mut Setter) {
        set.number(&mut self.growth, "growth", 1.005..=2.0, "factor of the multiplicative increase in a second");
        set.number(&mut self.packet_share, "packet-share", 0.05..=4.0, "share of a packet that an additive increase adds in a response time");
        set.number(&mut self.ceiling, "ceiling", 1.05..=4.0, "maximum rate as a multiple of the received rate");
        set.number(&mut self.decrease, "decrease", 0.4..=0.98, "factor on the received rate at over-use");
    }
}

impl Tunable for ModelConfig {
    #[rustfmt::skip]
    fn constants(&mut self, set: &mut Setter) {
        set.time(&mut self.observation_duration, "observation-duration", 50.0..=2000.0, "minimum send time of an observation of losses");
        set.number(&mut self.temporal_weight, "temporal-weight", 0.3..=1.0, "weight of an observation relative to the next newer one");
        set.number(&mut self.preference_threshold, "preference-threshold", 0.01..=0.9, "average loss above which lower bandwidths are preferred");
        set.rate(&mut self.upper_bound_balance, "upper-bound-balance", 5.0..=2000.0, "instant upper bound times the average loss beyond the offset");
        set.number(&mut self.upper_bound_offset, "upper-bound-offset", 0.0..=0.5, "average loss above which that bound applies");
        set.number(&mut self.max_increase, "max-increase", 1.01..=3.0, "maximum growth within 0.3 s while limited by loss");
        set.number(&mut self.ramp_up, "ramp-up", 1.01..=4.0, "maximum bandwidth while limited by loss, over the received rate");
    }
}

impl Tunable for ProbingConfig {
    #[rustfmt::skip]
    fn constants(&mut self, set: &mut Setter) {
        set.number(&mut self.first, "first-probe", 1.0..=10.0, "rate of the first probe, as a multiple of the start rate");
        set.number(&mut self.second, "second-probe", 1.0..=20.0, "rate of the second probe, as a multiple of the start rate");
        set.number(&mut self.further, "further-probe", 1.0..=5.0, "rate of a probe that follows a good result");
        set.number(&mut self.drop_probe, "drop-probe", 0.3..=1.5, "rate of the probe after a drop, over the estimate before");
    }
}

impl Tunable for ReportConfig {
    #[rustfmt::skip]
    fn constants(&mut self, set: &mut Setter) {
        set.number(&mut self.low_loss, "low-loss", 0.0..=0.3, "loss ratio up to which the rate grows");
        set.number(&mut self.high_loss, "high-loss", 0.0..=0.6, "loss ratio above which the rate falls");
        set.number(&mut self.decrease, "loss-decrease", 0.0..=1.0, "strength of a decrease: the rate is multiplied by 1 - this × the loss ratio");
        let (Increase::PerReport { factor, .. } | Increase::OfRecentMin { factor, .. }) = &mut self.increase;
        set.number(factor, "loss-growth", 1.001..=2.0, "factor of the growth while losses are rare");
    }
}
