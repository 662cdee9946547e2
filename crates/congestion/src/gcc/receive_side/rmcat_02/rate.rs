//! Rate control of early 2014: multiplicative growth that noise and a long response time slow down.
//!
//! All rules and constants are those of libwebrtc 2014, `remote_rate_control.cc`; the function is named at each.

use giusto_units::{DataRate, TimeDelta, Timestamp, math};

use crate::{
    gcc::arithmetic::{scaled, sum},
    target::Signal,
};

/// Limit of the estimate before it is known (`RemoteRateControl`).
const MAX: DataRate = DataRate::from_bps(30_000_000);
/// Time after the first received rate at which that of then becomes the first estimate (`Update`).
const LEARNING: TimeDelta = TimeDelta::from_millis(500);
/// RTT until it is known (`kDefaultRttMs`).
const DEFAULT_RTT: TimeDelta = TimeDelta::from_millis(200);
/// Response time beyond that of changes and the RTT, in ms (`ChangeBitRate`: ten frames).
const DETECTION_MS: f64 = 300.0;
/// Constants of the growth (`RateIncreaseFactor`: `B`, `b`, `c1`, `c2`, `d`).
const GROWTH: f64 = 0.0407;
const GROWTH_SLOPE: f64 = 0.0025;
const NOISE_WEIGHT: f64 = -6700.0 / (33.0 * 33.0);
const RESPONSE_MS: f64 = 800.0;
const RESPONSE_WEIGHT: f64 = 0.85;
/// Factor of the growth in a second (same function).
const MIN_GROWTH: f64 = 1.005;
const MAX_GROWTH: f64 = 1.3;
/// Factors on the growth beyond 1 near a known maximum, and without one (same function).
const NEAR_SHARE: f64 = 0.5;
const UNKNOWN_SHARE: f64 = 3.0;
/// Added to each increase (`ChangeBitRate`).
const STEP: DataRate = DataRate::from_bps(1000);
/// Factors on the received rate at over-use: near the maximum, and elsewhere (`ChangeRegion`).
const BETA_NEAR: f64 = 0.95;
const BETA: f64 = 0.9;
/// Deviations from the maximum at which it is forgotten, and above which the rate is above it (`ChangeBitRate`).
const FORGET: f64 = 3.0;
const ABOVE: f64 = 2.5;
/// The estimate does not grow beyond this multiple of the received rate, unless both are small (`ChangeBitRate`).
const CEILING: f64 = 1.5;
const SMALL_INCOMING: DataRate = DataRate::from_bps(100_000);
const SMALL: DataRate = DataRate::from_bps(150_000);
/// Weight of a change in the mean interval of changes, and its initial value in ms (`UpdateChangePeriod`).
const PERIOD_WEIGHT: f64 = 0.1;
const INITIAL_PERIOD_MS: f64 = 1000.0;
/// Weight of a decrease in the maximum, and limits of its variance (`UpdateMaxBitRateEstimate`).
const MAX_WEIGHT: f64 = 0.05;
const VARIANCE: (f64, f64) = (0.4, 2.5);
/// Range of the time between two decreases (`TimeToReduceFurther`: one RTT).
const AGAIN: (TimeDelta, TimeDelta) = (TimeDelta::from_millis(10), TimeDelta::from_millis(200));
/// An earlier decrease if the estimate exceeds the received rate by more than this multiple of it (same function).
const EXCESS: f64 = 1.05;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
    Decrease,
}

/// Where the rate is relative to the maximum known from decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Region {
    Unknown,
    Near,
    Above,
}

giusto_units::defaults! {
    /// The rate control.
    #[derive(Debug, Clone)]
    pub(super) struct RateControl {
        pub(super) rtt: TimeDelta = DEFAULT_RTT,
        min: DataRate = min,
        rate: DataRate = MAX,
        is_known: bool = false,
        first_incoming: Option<Timestamp> = None,
        state: State = State::Hold,
        region: Region = Region::Unknown,
        beta: f64 = BETA,
        /// Highest received rate during hold.
        held: DataRate = DataRate::ZERO,
        /// Mean received rate at decreases, in kbit/s, and the variance over that mean.
        max_kbps: Option<f64> = None,
        max_variance: f64 = VARIANCE.0,
        /// Mean interval of updates, in ms.
        period_ms: f64 = INITIAL_PERIOD_MS,
        updated: Option<Timestamp> = None,
        changed: Option<Timestamp> = None,
    }
    /// Without packets. Over-use below `min` received gives `min`.
    pub(super) fn new(min: DataRate);
}

impl RateControl {
    /// The estimate, if there is one.
    pub(super) fn estimate(&self) -> Option<DataRate> {
        self.is_known.then_some(self.rate)
    }

    /// Time of the latest update.
    #[cfg(test)]
    pub(super) fn last_update(&self) -> Option<Timestamp> {
        self.updated
    }

    /// Whether a maximum is known and the rate is near or above it.
    pub(super) fn is_near_known_max(&self) -> bool {
        self.region != Region::Unknown
    }

    /// Whether over-use that lasts may decrease the rate again.
    pub(super) fn may_decrease(&self, now: Timestamp, incoming: DataRate) -> bool {
        let interval = self.rtt.min(AGAIN.1).max(AGAIN.0);
        if self.changed.is_none_or(|changed| now - changed >= interval) {
            return true;
        }
        let excess = self.rate.as_bps() as f64 - incoming.as_bps() as f64;
        self.is_known && excess > EXCESS * incoming.as_bps() as f64
    }

    /// Changes the rate.
    pub(super) fn update(&mut self, now: Timestamp, signal: Signal, incoming: DataRate, noise: f64) {
        if !self.is_known && incoming > DataRate::ZERO {
            let first = *self.first_incoming.get_or_insert(now);
            if now - first > LEARNING {
                (self.rate, self.is_known) = (incoming, true);
            }
        }
        let period_ms = self.updated.map_or(0.0, |updated| (now - updated).as_millis());
        self.period_ms += PERIOD_WEIGHT * (period_ms - self.period_ms);
        self.updated = Some(now);
        match signal {
            Signal::Normal if self.state == State::Hold => {
                self.changed = Some(now);
                self.state = State::Increase;
            }
            Signal::Normal => {}
            Signal::OverUse => self.state = State::Decrease,
            Signal::UnderUse => self.state = State::Hold,
        }
        let mut recovers = false;
        let to = match self.state {
            State::Hold => {
                self.held = self.held.max(incoming);
                self.rate
            }
            State::Increase => {
                let (to, is_recovery) = self.increased(now, incoming, noise);
                recovers = is_recovery;
                self.changed = Some(now);
                to
            }
            State::Decrease => {
                let to = self.decreased(incoming);
                self.state = State::Hold;
                self.changed = Some(now);
                to
            }
        };
        let is_small = incoming <= SMALL_INCOMING && to <= SMALL;
        if !recovers && !is_small && to.as_bps() as f64 > CEILING * incoming.as_bps() as f64 {
            self.changed = Some(now);
            return;
        }
        self.rate = to;
    }

    /// The rate after an increase, and whether it is that at which data arrived during hold.
    fn increased(&mut self, now: Timestamp, incoming: DataRate, noise: f64) -> (DataRate, bool) {
        if let Some(max) = self.max_kbps {
            let (deviation, incoming) = (self.deviation(max), kbps(incoming));
            if incoming > max + FORGET * deviation {
                self.enter(Region::Unknown);
                self.max_kbps = None;
            } else if incoming > max + ABOVE * deviation {
                self.enter(Region::Above);
            }
        }
        let grown = (self.rate.as_bps() as f64 * self.growth(now, noise)) as u64;
        let grown = sum(DataRate::from_bps(grown), STEP);
        let held = core::mem::take(&mut self.held);
        let reached = self.beta * held.as_bps() as f64;
        if reached <= grown.as_bps() as f64 {
            return (grown, false);
        }
        self.max_kbps = Some(reached / 1000.0);
        self.enter(Region::Near);
        (DataRate::from_bps(reached as u64), true)
    }

    /// Factor of the growth since the last change.
    fn growth(&self, now: Timestamp, noise: f64) -> f64 {
        let response = math::round(self.period_ms) + self.rtt.as_millis() + DETECTION_MS;
        let slowed = RESPONSE_WEIGHT * response - (NOISE_WEIGHT * noise + RESPONSE_MS);
        let each_second = 1.005 + GROWTH / (1.0 + math::exp(GROWTH_SLOPE * slowed));
        let each_second = each_second.clamp(MIN_GROWTH, MAX_GROWTH);
        let growth = self
            .changed
            .map_or(each_second, |changed| math::pow(each_second, (now - changed).as_millis() / 1000.0));
        1.0 + (growth - 1.0)
            * match self.region {
                Region::Near => NEAR_SHARE,
                Region::Unknown => UNKNOWN_SHARE,
                Region::Above => 1.0,
            }
    }

    fn decreased(&mut self, incoming: DataRate) -> DataRate {
        if incoming < self.min {
            return self.min;
        }
        let mut to = scaled(incoming, self.beta);
        if to > self.rate {
            if let (true, Some(max)) = (self.region != Region::Unknown, self.max_kbps) {
                to = DataRate::from_bps(math::round(self.beta * max * 1000.0) as u64);
            }
            to = to.min(self.rate);
        }
        self.enter(Region::Near);
        let incoming = kbps(incoming);
        let known = self.max_kbps.filter(|&max| incoming >= max - FORGET * self.deviation(max));
        let max = known.map_or(incoming, |max| max + MAX_WEIGHT * (incoming - max));
        let variance = (max - incoming) * (max - incoming) / max.max(1.0);
        self.max_kbps = Some(max);
        self.max_variance =
            (self.max_variance + MAX_WEIGHT * (variance - self.max_variance)).clamp(VARIANCE.0, VARIANCE.1);
        to
    }

    fn enter(&mut self, region: Region) {
        self.region = region;
        self.beta = if region == Region::Near { BETA_NEAR } else { BETA };
    }

    /// Standard deviation of the maximum, in kbit/s.
    fn deviation(&self, max_kbps: f64) -> f64 {
        math::sqrt(self.max_variance * max_kbps)
    }
}

fn kbps(rate: DataRate) -> f64 {
    rate.as_bps() as f64 / 1000.0
}
