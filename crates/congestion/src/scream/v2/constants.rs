//! Constants of `scream:v2` that can be set by name.

use super::Config;
use crate::constants::{Setter, Tunable};

impl Tunable for Config {
    #[rustfmt::skip]
    fn constants(&mut self, set: &mut Setter) {
        let Self { delay, marks, losses, window, media, sending, .. } = self;
        set.time(&mut delay.target, "delay-target", 5.0..=400.0, "`QDELAY_TARGET_LO`: delay that counts as 100 % marks");
        set.number(&mut delay.gain, "delay-gain", 0.02..=1.0, "`QDELAY_AVG_G`: gain of the average of the delay");
        set.number(&mut marks.up, "marks-up", 0.01..=1.0, "`L4S_AVG_G_UP`: gain of an increase of the share of marks");
        set.number(&mut marks.down, "marks-down", 0.001..=0.5, "`L4S_AVG_G_DOWN`: gain of a decrease of the share of marks");
        set.time(&mut losses.reordering, "reordering", 1.0..=200.0, "maximum of the reordering window");
        set.number(&mut losses.threshold, "loss-threshold", 0.0..=0.2, "`LOSS_RATE_THRESHOLD`: loss rate up to which losses are the link's");
        set.number(&mut window.head_room, "head-room", 1.0..=4.0, "`BYTES_IN_FLIGHT_HEAD_ROOM`: largest ratio of the window to the bytes in flight");
        set.number(&mut window.beta_loss, "beta-loss", 0.3..=0.98, "`BETA_LOSS`: factor on the window at a loss");
        set.number(&mut window.beta_ecn, "beta-ecn", 0.3..=0.98, "`BETA_ECN`: factor on the window at a classic mark");
        set.number(&mut window.post_congestion_rounds, "post-congestion-rounds", 1.0..=1000.0, "`POST_CONGESTION_DELAY_RTT`: RTTs after congestion in which growth is reduced");
        set.number(&mut window.multiplicative, "multiplicative", 0.001..=0.3, "`MUL_INCREASE_FACTOR`: multiplicative growth per RTT");
        set.time(&mut window.virtual_rtt, "virtual-rtt", 5.0..=200.0, "`VIRTUAL_RTT`: minimum RTT in the formulas");
        set.number(&mut window.inflection_floor, "inflection-floor", 0.01..=1.0, "minimum share of growth near the window at the last congestion");
        set.number(&mut window.inflection_scale, "inflection-scale", 0.5..=50.0, "factor on the relative distance to that window");
        set.number(&mut window.acknowledged_margin, "acknowledged-margin", 0.0..=1.0, "`ACKED_BITRATE_MARGIN`: share of the received rate below which the target counts as reduced");
        set.number(&mut window.low_target_scale, "low-target-scale", 0.0..=1.0, "`BACKOFF_SCALE_LOW_TARGET_RATE`: share of the usual reduction in that case");
        set.number(&mut media.divisor, "divisor", 1.0..=2.0, "minimum divisor between the window's rate and the media rate");
        set.number(&mut media.adjust_gain, "adjust-gain", 0.0..=1.0, "`RATE_ADJUST_GAIN`: gain of the divisor's adjustment to the sender's queue");
        set.number(&mut sending.head_room, "pacing-head-room", 1.05..=4.0, "`PACKET_PACING_HEADROOM`: pacing rate as a multiple of the target");
        set.number(&mut sending.overhead_min, "overhead-min", 1.0..=4.0, "`REF_WND_OVERHEAD_MIN`: send window over reference window while the delay varies");
        set.number(&mut sending.overhead_max, "overhead-max", 1.0..=8.0, "`REF_WND_OVERHEAD_MAX`: the same while the delay is constant");
    }
}
