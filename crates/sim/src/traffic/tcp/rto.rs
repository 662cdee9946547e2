//! When to give up waiting: the retransmission timeout (RFC 6298).

use giusto_units::TimeDelta;
use serde::{Deserialize, Serialize};

/// The timeout before the first measurement (RFC 6298 §2.1).
const INITIAL: TimeDelta = TimeDelta::from_seconds(1);
/// The timeout for data after the SYN timed out and nothing has been measured (RFC 6298 §5.7).
const AFTER_SYN_TIMEOUT: TimeDelta = TimeDelta::from_seconds(3);
/// The longest timeout (RFC 6298 §2.5 asks for at least 60 s).
const LONGEST: TimeDelta = TimeDelta::from_seconds(60);
/// Clock granularity `G` (RFC 6298 §4): that of common systems, although the clock here is finer.
const GRANULARITY: TimeDelta = TimeDelta::from_millis(1);

/// How short a retransmission timeout may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RtoFloor {
    /// The whole timeout is at least this: RFC 6298 §2.4 says 1 s.
    Whole(TimeDelta),
    /// The term beyond the smoothed round trip is at least this. Linux bounds its deviation so, by 200 ms; a bound of 200 ms on
    /// the whole would leave no room for a delayed acknowledgement on a path of 200 ms or more whose round trip hardly
    /// varies.
    BeyondRoundTrip(TimeDelta),
}

impl RtoFloor {
    /// 1 s in all, as RFC 6298 §2.4 asks.
    pub const RFC_6298: Self = Self::Whole(TimeDelta::from_seconds(1));
    /// 200 ms beyond the round trip, as Linux does.
    pub const LINUX: Self = Self::BeyondRoundTrip(TimeDelta::from_millis(200));
}

/// Smoothed round trip, its deviation, and the timeout that follows from them.
///
/// | here | RFC 6298 |
/// |---|---|
/// | [`smoothed`](Self::smoothed) | `SRTT`, gain 1/8 |
/// | [`deviation`](Self::deviation) | `RTTVAR`, gain 1/4 |
/// | [`timeout`](Self::timeout) | `RTO` = `SRTT` + max(`G`, 4 `RTTVAR`), doubled at each timeout |
///
/// With timestamps each acknowledgement of new data gives a sample; the gains stay those of §2.3, although the memory of the
/// estimate then is shorter than a round trip (§3 names that an open question).
#[derive(Debug, Clone, Copy)]
pub struct RtoEstimator {
    floor: RtoFloor,
    /// Smoothed round trip and deviation, in nanoseconds.
    estimate: Option<(f64, f64)>,
    base: TimeDelta,
    timeout: TimeDelta,
}

impl RtoEstimator {
    /// Nothing measured yet.
    pub fn new(floor: RtoFloor) -> Self {
        Self { floor, estimate: None, base: INITIAL, timeout: INITIAL }
    }

    /// A round trip was measured: from a segment that was sent once, or with timestamps (Karn's rule: RFC 6298 §3). Ends any
    /// back-off.
    pub fn on_sample(&mut self, round_trip: TimeDelta) {
        let sample = round_trip.as_nanos().max(0) as f64;
        let (smoothed, deviation) = match self.estimate {
            None => (sample, sample / 2.0),
            Some((smoothed, deviation)) => (
                smoothed + (sample - smoothed) / 8.0,
                deviation + ((smoothed - sample).abs() - deviation) / 4.0,
            ),
        };
        self.estimate = Some((smoothed, deviation));
        let (smoothed, beyond) = (nanos(smoothed), nanos(4.0 * deviation).max(GRANULARITY));
        self.base = match self.floor {
            RtoFloor::Whole(floor) => (smoothed + beyond).max(floor),
            RtoFloor::BeyondRoundTrip(floor) => smoothed + beyond.max(floor),
        }
        .min(LONGEST);
        self.timeout = self.base;
    }

    /// The timer expired: doubles the timeout (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.timeout = (self.timeout * 2).min(LONGEST);
    }

    /// The connection opened after its SYN had timed out: unless there is a measurement, the timeout begins anew with 3 s
    /// (RFC 6298 §5.7). With timestamps the SYN-ACK gives one, and the reason for the rule is gone (appendix A).
    pub fn on_opened_late(&mut self) {
        if self.estimate.is_none() {
            self.base = AFTER_SYN_TIMEOUT;
            self.timeout = AFTER_SYN_TIMEOUT;
        }
    }

    /// How long to wait for an acknowledgement now, back-off included; never zero.
    pub fn timeout(&self) -> TimeDelta {
        self.timeout.max(GRANULARITY)
    }

    /// The smoothed round trip, once measured.
    pub fn smoothed(&self) -> Option<TimeDelta> {
        self.estimate.map(|(smoothed, _)| nanos(smoothed))
    }

    /// The mean deviation of the round trip, once measured.
    pub fn deviation(&self) -> Option<TimeDelta> {
        self.estimate.map(|(_, deviation)| nanos(deviation))
    }
}

fn nanos(value: f64) -> TimeDelta {
    TimeDelta::from_nanos(value.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: i64) -> TimeDelta {
        TimeDelta::from_millis(milliseconds)
    }

    #[test]
    fn the_estimate_follows_the_rules_of_the_rfc_step_by_step() {
        let mut rto = RtoEstimator::new(RtoFloor::Whole(ms(1)));
        assert_eq!((rto.timeout(), rto.smoothed()), (ms(1000), None));
        // SRTT = 100, RTTVAR = 50, RTO = 100 + 200.
        rto.on_sample(ms(100));
        assert_eq!((rto.smoothed(), rto.deviation(), rto.timeout()), (Some(ms(100)), Some(ms(50)), ms(300)));
        // RTTVAR = 0.75 * 50 + 0.25 * |100 - 200| = 62.5; SRTT = 0.875 * 100 + 0.125 * 200 = 112.5; RTO = 362.5.
        rto.on_sample(ms(200));
        let micros = TimeDelta::from_micros;
        assert_eq!((rto.smoothed(), rto.deviation()), (Some(micros(112_500)), Some(micros(62_500))));
        assert_eq!(rto.timeout(), micros(362_500));
        // RTTVAR = 0.75 * 62.5 + 0.25 * |112.5 - 50| = 62.5; SRTT = 0.875 * 112.5 + 0.125 * 50 = 104.6875.
        rto.on_sample(ms(50));
        assert_eq!(rto.smoothed(), Some(TimeDelta::from_nanos(104_687_500)));
        assert_eq!(rto.deviation(), Some(micros(62_500)));
    }

    #[test]
    fn a_steady_round_trip_leaves_the_floor() {
        let settle = |floor| {
            let mut rto = RtoEstimator::new(floor);
            (0..200).for_each(|_| rto.on_sample(ms(300)));
            rto.timeout()
        };
        assert_eq!(settle(RtoFloor::RFC_6298), ms(1000));
        assert_eq!(settle(RtoFloor::LINUX), ms(500));
        assert_eq!(settle(RtoFloor::Whole(ms(200))), ms(301));
    }

    #[test]
    fn each_timeout_doubles_the_wait_up_to_a_minute_until_a_sample() {
        let mut rto = RtoEstimator::new(RtoFloor::RFC_6298);
        let waits: Vec<_> = (0..8)
            .map(|_| {
                rto.back_off();
                rto.timeout().as_seconds()
            })
            .collect();
        assert_eq!(waits, [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]);
        rto.on_sample(ms(100));
        assert_eq!(rto.timeout(), ms(1000));
    }

    #[test]
    fn a_late_opening_waits_three_seconds_unless_something_was_measured() {
        let mut rto = RtoEstimator::new(RtoFloor::RFC_6298);
        rto.back_off();
        rto.on_opened_late();
        assert_eq!(rto.timeout(), ms(3000));
        rto.on_sample(ms(100));
        rto.on_opened_late();
        assert_eq!(rto.timeout(), ms(1000));
    }
}
