//! `tempo`: a congestion controller for real-time media with an explicit model of the path.
//!
//! | part | module |
//! |---|---|
//! | constants | [`Config`] |
//! | packets that arrived lately | `arrivals` |
//! | estimators | `base_delay`, `standing_queue`, `delivery_rate`, `train_rate`, `loss_ratio`, `sharing` |
//! | state of the path after a feedback | `path` |
//! | laws | `grow`, `drain`, `compete`, `loss`, `marks`, `silence` |
//! | controller | [`Tempo`] |
//!
//! The model: one bottleneck with a capacity, a queue, a delay without queue, and a share of packets that is lost whatever we send. While
//! a queue stands, what arrives is the capacity for us.

mod arrivals;
mod base_delay;
mod compete;
mod config;
mod controller;
mod delivery_rate;
mod drain;
mod grow;
mod loss;
mod loss_ratio;
mod marks;
mod path;
mod sharing;
mod silence;
mod standing_queue;
#[cfg(test)]
mod tests;
mod train_rate;

pub use config::{Config, Laws};
pub use controller::Tempo;
use giusto_units::DataRate;

/// A rate as a number, for a formula.
fn bps(rate: DataRate) -> f64 {
    rate.as_bps() as f64
}
