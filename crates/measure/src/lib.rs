#![doc = include_str!("../README.md")]
//!
//! A [`StreamMeter`] processes every [`Arrival`] of one stream and gives a [`StreamSummary`] at any time. Its
//! parts can be used separately. Memory is bounded for any input and any duration.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests compare with tolerances"))]

mod clock;
mod columns;
mod delay;
mod gap;
mod histogram;
mod jitter;
mod loss;
pub mod mos;
pub mod playout;
mod rate;
mod sequence;
mod stream;
mod windows;

pub use clock::{ClockDrift, ClockEstimate, ClockEstimator, ClockSample};
pub use delay::{ClockRelation, DelayBasis, DelayMeter, DelaySummary, DelayTotals};
pub use histogram::{Bucket, ErrorHistogram, Quantiles};
pub use jitter::InterarrivalJitter;
pub use loss::LossSummary;
pub use rate::{RateMeter, RatePoint, RateSeries};
pub use sequence::{SequenceConfig, SequenceTracker, SequenceVerdict};
pub use stream::{Arrival, EcnCounts, MeterConfig, StreamMeter, StreamSummary};
