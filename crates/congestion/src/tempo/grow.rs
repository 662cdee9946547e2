//! Law: grow while no queue stands.
//!
//! The exponent of the growth doubles every two reaction times, from 3 % a second: what can be sent too much before it is seen stays a
//! bounded part of what was safe before. Trains that show room shorten this, trains at the capacity stop it. An additive term makes
//! flows equal: who has little grows by a larger share, and all yield the same share.

use std::f64::consts::LN_2;

use giusto_units::math;

use super::path::{Path, bps};

/// First exponent after each change of the law, per second: 3 % in a second, about what [`drain`](super::drain) takes away.
const MIN_EXPONENT: f64 = 0.03;
/// Most that is added near the capacity that trains measure, per second: then overshoot stays below 2 % in a reaction time of 0.2 s.
const NEAR_CAPACITY: f64 = 0.08;
/// Until the first congestion the exponent may be this much larger: the capacity is unknown by orders of magnitude.
const START: f64 = 1.6;
/// Additive growth in bit/s per second is this times the square root of (rate × 1 Mbit/s): 5 % a second at 1 Mbit/s, 1.6 % at 10.
const ADDITIVE: f64 = 0.05;
/// The target may exceed what is used by this factor, plus an allowance for the frames of low rates: what is not used proves nothing.
const HEADROOM: f64 = 1.7;
const ALLOWANCE: f64 = 60_000.0;

/// Growth between two times of congestion.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grow {
    /// Exponent, per second.
    exponent: f64,
    /// Whether there has been no congestion yet.
    is_start: bool,
}

impl Grow {
    pub(super) fn new() -> Self {
        Self { exponent: 0.3, is_start: true }
    }

    /// After congestion.
    pub(super) fn restart(&mut self) {
        *self = Self { exponent: MIN_EXPONENT, is_start: false };
    }

    /// The rate after this step, in bit/s; `None` while the media does not use what it has. `trusts_trains`: nobody else seems to be
    /// there, so that what a train finds is ours.
    pub(super) fn step(
        &mut self,
        path: &Path,
        rate: f64,
        (trusts_trains, limit): (bool, Option<f64>),
    ) -> Option<f64> {
        let dt = path.step.as_seconds();
        let reaction = path.reaction().as_seconds();
        let fast = LN_2 / reaction * if self.is_start { START } else { 1.0 };
        let is_empty = path.queue() < path.low;
        let doublings = if is_empty { 0.5 } else { -1.0 } * dt / reaction;
        self.exponent *= math::exp(LN_2 * doublings);
        let train = path.train.filter(|train| bps(train.sent) > 1.3 * rate);
        let mut most = fast;
        match train {
            Some(train) if train.is_open() => {
                if trusts_trains {
                    self.exponent = self.exponent.max(0.7 * fast);
                }
            }
            Some(train) if rate > 0.85 * bps(train.arrived) => most = NEAR_CAPACITY.min(fast),
            Some(_) => {
                if trusts_trains {
                    self.exponent = self.exponent.max(0.5 * fast);
                }
            }
            None if self.is_start && is_empty => self.exponent = self.exponent.max(0.6 * fast),
            None => {}
        }
        self.exponent = self.exponent.clamp(MIN_EXPONENT, most.max(MIN_EXPONENT));
        let exponent = limit.map_or(self.exponent, |limit| self.exponent.min(limit));
        let used = path.delivered_long / (1.0 - path.loss.ratio.min(0.6));
        if rate > HEADROOM * used + ALLOWANCE {
            return None;
        }
        let additive = if limit.is_some() { 0.0 } else { ADDITIVE * (rate * 1e6).sqrt() * dt };
        Some(rate * math::exp(exponent * dt) + additive)
    }
}
