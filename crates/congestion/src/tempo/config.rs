//! Configuration of [`Tempo`](super::Tempo).

use giusto_units::TimeDelta;

use crate::{
    constants::{Setter, Tunable},
    limits::Limits,
};

giusto_units::defaults! {
    /// Configuration of [`Tempo`](super::Tempo).
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct Config {
        /// Range and initial value of the target.
        pub limits: Limits = limits,
        /// Standing queue from which there is congestion, besides what jitter explains and one packet. Default 3 ms: three steps of the
        /// timestamps of RFC 8888, and below the target of `CoDel` (RFC 8289 §4.3), 5 ms, which drops nothing below.
        pub congested_above: TimeDelta = TimeDelta::from_millis(3),
        /// Standing queue up to which the path counts as empty. Default 1.5 ms: more than a step of those timestamps.
        pub empty_below: TimeDelta = TimeDelta::from_micros(1500),
        /// Probability that jitter alone exceeds the first limit. To the second is added half of what this adds, or what jitter exceeds with
        /// 0.15 where that is more. Default 0.003: once in half a minute, in ten windows a second.
        pub false_alarm: f64 = 0.003,
        /// Interval at which silence and the sender's queue are examined. Default 25 ms, less than a frame.
        pub look: TimeDelta = TimeDelta::from_millis(25),
        /// RTT before the first measurement. Default 0.3 s, near that of RFC 9002 §6.2.2 (333 ms).
        pub presumed_rtt: TimeDelta = TimeDelta::from_millis(300),
    }
    /// The defaults with these limits.
    pub fn within(limits: Limits);
}

impl Default for Config {
    fn default() -> Self {
        Self::within(Limits::default())
    }
}

impl Tunable for Config {
    #[rustfmt::skip]
    fn constants(&mut self, set: &mut Setter) {
        set.time(&mut self.congested_above, "congested-above", 1.0..=50.0, "standing queue from which there is congestion");
        set.time(&mut self.empty_below, "empty-below", 0.2..=20.0, "standing queue up to which the path counts as empty");
        set.number(&mut self.false_alarm, "false-alarm", 0.0001..=0.5, "probability that jitter alone exceeds the first limit");
    }
}
