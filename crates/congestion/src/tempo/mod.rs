//! `tempo`: a congestion controller for real-time media with an explicit model of the path.
//!
//! | part | module |
//! |---|---|
//! | constants | [`Config`] |
//! | packets that arrived lately | `arrivals` |
//! | estimators | `base_delay`, `frames`, `jitter`, `delivery_rate`, `loss_ratio`, `loss_run`, `sharing` |
//! | state of the path after a feedback | `path` |
//! | laws | `grow`, `drain`, `distance`, `compete`, `loss`, `marks`, `silence` |
//! | controller | [`Tempo`] |
//!
//! The model: one bottleneck with a capacity, a queue, a delay without queue, and a share of packets that is lost whatever we send. While
//! a queue stands, what arrives is the capacity for us.
//!
//! # Why it is stable
//!
//! Drain is a proportional controller of an integrator: the queue q changes by (rate / D − 1), the rate by −q / h. It is stable for a dead
//! time below h · π/2. All flows give up the same share, while the additive parts are larger shares of smaller rates: two rates approach each other.

mod arrivals;
mod base_delay;
mod compete;
mod config;
mod controller;
mod delivery_rate;
mod distance;
mod drain;
mod frames;
mod grow;
mod jitter;
mod loss;
mod loss_ratio;
mod loss_run;
mod marks;
mod path;
mod sharing;
mod silence;
#[cfg(test)]
mod tests;

pub use config::Config;
pub use controller::Tempo;
use giusto_units::DataRate;

/// A rate as a number, for a formula.
fn bps(rate: DataRate) -> f64 {
    rate.as_bps() as f64
}
