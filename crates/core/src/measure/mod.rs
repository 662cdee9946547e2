//! What arrived, and when?
//!
//! A [`StreamMeter`] takes every [`Arrival`] of one stream and gives a [`StreamSummary`] at any time. Its parts are usable
//! alone.

mod clock;
mod delay;
mod histogram;
mod jitter;
pub mod mos;
pub mod playout;
mod rate;
mod sequence;
mod stream;

pub use clock::{ClockEstimate, ClockEstimator, ClockSample};
pub use delay::{DelayBasis, DelaySummary};
pub use histogram::{ErrorHistogram, Quantiles};
pub use jitter::InterarrivalJitter;
pub use rate::{RateMeter, RatePoint, RateSeries};
pub use sequence::{LossSummary, SequenceTracker, SequenceVerdict};
pub use stream::{Arrival, EcnCounts, MeterConfig, StreamMeter, StreamSummary};
