//! Shared by the statistical and the hybrid encoder: a damped reaction, bursts at abrupt changes, and varying
//! intervals.

use giusto_session::{media::RateRange, video::VIDEO_CLOCK};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use rand::Rng;

use super::{
    account::{BurstSize, FrameAccount},
    cadence::{Cadence, FrameRate},
    error::{SourceError, parameter},
    frame::FRAME_MIN,
    laplace::{check_scale, deviation},
    on_cadence::{Made, Model, OnCadence},
    reaction::{Meanwhile, Reaction, Transition},
};

giusto_units::defaults! {
    /// The parameters of RFC 8593 §5; the defaults are the example values of its Figure 2.
    ///
    /// | symbol | field | default |
    /// |---|---|---|
    /// | `R_min`, `R_max` | `limits` | 150 kbit/s, 1.5 Mbit/s |
    /// | initial `R_v` | `start_rate` | 150 kbit/s |
    /// | `FPS`, `1/t0` | `frame_rate` | 30 Hz |
    /// | `tau_v` | `reaction_latency` | 200 ms |
    /// | `K_d` | `burst_frames` | 8 |
    /// | `K_B` | `burst_size` | 13.5 kB |
    /// | `SCALE_t` | `interval_scale` | 0.15 |
    /// | `SCALE_B` | `size_scale` | 0.15 |
    ///
    /// `B0`, the reference frame size, is the target over the frame rate. The start rate is that of RFC 8867
    /// §4.3, which also requires a reaction within 100 ms; Figure 2's `R_v` of 1 Mbit/s is an example of a
    /// request.
    ///
    /// With both scales at 0.15 the rate of one second has a standard deviation of 5.6 %, more than the ±5 % of RFC 8867 §4.3; with
    /// both at 0.055, two standard deviations are 4.9 %.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct StatisticalConfig {
        /// The rates that the encoder can produce (§5.4).
        pub limits: RateRange = RateRange::default(),
        /// The initial target, clamped to the limits.
        pub start_rate: DataRate = DataRate::from_bps(150_000),
        /// Frames per second; a [`HybridEncoder`](super::HybridEncoder) uses those of its trace instead.
        pub frame_rate: FrameRate = FrameRate::HZ_30,
        /// Time after a reaction in which no other one follows (§5.1).
        pub reaction_latency: TimeDelta = TimeDelta::from_millis(200),
        /// The treatment of requests in that time.
        pub meanwhile: Meanwhile = Meanwhile::default(),
        /// Relative change of the target above which it is abrupt and starts a transient. Default: 0.1 (§7).
        pub abrupt_change: f64 = 0.1,
        /// Frames of a transient, the burst frame included, 1 to 1000 (§5.2).
        pub burst_frames: u32 = 8,
        /// Size of the first frame of a transient (§5.2). Reduced if the budget is too small.
        pub burst_size: BurstSize = BurstSize::Fixed(DataSize::from_bytes(13_500)),
        /// The scale of the deviations in normalised frame intervals, 0 to 1 (§5.3).
        pub interval_scale: f64 = 0.15,
        /// The scale of the deviations in normalised frame sizes, 0 to 1 (§5.3); ignored by a hybrid encoder.
        pub size_scale: f64 = 0.15,
    }
}

/// The frames of the steady state.
pub trait Steady {
    /// The size of a frame at `rate`, and whether it is a key frame.
    fn draw(&mut self, config: &StatisticalConfig, rate: DataRate, rng: &mut impl Rng) -> (u64, bool);
}

/// The model of an encoder with transients.
#[derive(Debug, Clone)]
pub struct Transients<R, S> {
    config: StatisticalConfig,
    reaction: Reaction,
    account: FrameAccount,
    key_wanted: bool,
    burst_wanted: bool,
    rng: R,
    steady: S,
}

impl<R: Rng, S: Steady> OnCadence<Transients<R, S>> {
    pub(super) fn with(
        config: StatisticalConfig,
        steady: S,
        start: Timestamp,
        rng: R,
    ) -> Result<Self, SourceError> {
        config.frame_rate.check(config.limits)?;
        config.burst_size.check()?;
        check_scale("scale of frame intervals", config.interval_scale)?;
        check_scale("scale of frame sizes", config.size_scale)?;
        parameter("frames per burst", config.burst_frames.into(), 1.0..=1e3, "1 to 1000")?;
        parameter("abrupt change", config.abrupt_change, 0.0..=f64::MAX, "at least 0")?;
        let target = config.limits.clamp(config.start_rate);
        let model = Transients {
            config,
            reaction: Reaction::new(config.reaction_latency, config.meanwhile, target),
            account: FrameAccount::new(config.frame_rate),
            key_wanted: true,
            burst_wanted: false,
            rng,
            steady,
        };
        let cadence = Cadence::new(start, config.frame_rate.period(), VIDEO_CLOCK);
        Ok(Self::of(model, cadence, config.limits, target))
    }
}

impl<R, S> Transients<R, S> {
    fn note(&mut self, transition: Option<Transition>) {
        self.burst_wanted |= transition.is_some_and(|change| change.is_abrupt(self.config.abrupt_change));
    }
}

impl<R: Rng, S: Steady> Model for Transients<R, S> {
    /// In a transient the frame of the steady state is discarded, but the same random numbers are drawn.
    fn frame(&mut self, now: Timestamp, _target: DataRate) -> Made {
        let transition = self.reaction.poll(now);
        self.note(transition);
        let rate = self.reaction.rate();
        let (steady_bytes, steady_key) = self.steady.draw(&self.config, rate, &mut self.rng);
        let stretch = 1.0 + deviation(self.config.interval_scale, &mut self.rng);

        let key = std::mem::take(&mut self.key_wanted);
        let burst = std::mem::take(&mut self.burst_wanted);
        let transient = if key || burst {
            Some(self.account.open(rate, self.config.burst_frames, self.config.burst_size))
        } else {
            self.account.repay(rate)
        };
        match transient {
            Some(bytes) => Made::new(bytes, key),
            None => Made {
                bytes: steady_bytes.max(FRAME_MIN.as_bytes()),
                key: steady_key,
                stretch: Some(stretch),
            },
        }
    }

    fn on_target(&mut self, now: Timestamp, target: DataRate) {
        let transition = self.reaction.request(now, target);
        self.note(transition);
    }

    fn restart(&mut self) {
        self.key_wanted = true;
    }
}
