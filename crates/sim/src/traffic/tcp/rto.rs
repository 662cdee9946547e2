//! The retransmission timeout (RFC 6298).

use giusto_units::TimeDelta;
use serde::{Deserialize, Serialize};

/// The timeout before the first measurement (RFC 6298 §2.1).
const INITIAL: TimeDelta = TimeDelta::from_seconds(1);
/// The timeout for data after a SYN timeout without an RTT sample (RFC 6298 §5.7).
const AFTER_SYN_TIMEOUT: TimeDelta = TimeDelta::from_seconds(3);
/// The maximum timeout (RFC 6298 §2.5: at least 60 s).
const MAX: TimeDelta = TimeDelta::from_seconds(60);
/// Clock granularity `G` (RFC 6298 §4) of common systems; the simulated clock is finer.
const GRANULARITY: TimeDelta = TimeDelta::from_millis(1);

/// The lower bound of the retransmission timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RtoFloor {
    /// Lower bound of the timeout: 0 to 60 s; RFC 6298 §2.4 says 1 s.
    Whole(TimeDelta),
    /// Lower bound of the timeout minus the smoothed RTT: 0 to 60 s. Linux uses 200 ms. With a lower bound of 200 ms for the
    /// whole timeout, a delayed acknowledgement would cause a timeout on a path with a nearly constant RTT of 200 ms or
    /// more.
    BeyondRtt(TimeDelta),
}

impl RtoFloor {
    /// 1 s for the whole timeout (RFC 6298 §2.4).
    pub const RFC_6298: Self = Self::Whole(TimeDelta::from_seconds(1));
    /// 200 ms above the smoothed RTT, as in Linux.
    pub const LINUX: Self = Self::BeyondRtt(TimeDelta::from_millis(200));
}

/// Estimates the smoothed RTT, its mean deviation, and the retransmission timeout.
///
/// | here | RFC 6298 |
/// |---|---|
/// | [`smoothed`](Self::smoothed) | `SRTT`, gain 1/8 |
/// | [`deviation`](Self::deviation) | `RTTVAR`, gain 1/4 |
/// | [`timeout`](Self::timeout) | `RTO` = `SRTT` + max(`G`, 4 `RTTVAR`), doubled at each timeout |
///
/// With timestamps each acknowledgement of new data provides a sample. The gains remain those of §2.3, although the
/// averaging time is then shorter than an RTT, which §3 leaves open.
#[derive(Debug, Clone, Copy)]
pub struct RtoEstimator {
    floor: RtoFloor,
    /// Smoothed RTT and mean deviation in nanoseconds.
    estimate: Option<(f64, f64)>,
    /// The smoothed RTT, rounded to a nanosecond.
    rounded: TimeDelta,
    base: TimeDelta,
    timeout: TimeDelta,
}

impl RtoEstimator {
    /// Creates an estimator without samples.
    pub fn new(floor: RtoFloor) -> Self {
        Self { floor, estimate: None, rounded: TimeDelta::ZERO, base: INITIAL, timeout: INITIAL }
    }

    /// Processes an RTT sample of a segment that was sent once, or with timestamps (Karn's algorithm, RFC 6298 §3). Ends any
    /// back-off.
    pub fn on_sample(&mut self, rtt: TimeDelta) {
        let sample = rtt.as_nanos().max(0) as f64;
        let (smoothed, deviation) = match self.estimate {
            None => (sample, sample / 2.0),
            Some((smoothed, deviation)) => (
                smoothed + (sample - smoothed) / 8.0,
                deviation + ((smoothed - sample).abs() - deviation) / 4.0,
            ),
        };
        self.estimate = Some((smoothed, deviation));
        self.rounded = nanos(smoothed);
        let beyond = nanos(4.0 * deviation).max(GRANULARITY);
        self.base = match self.floor {
            RtoFloor::Whole(floor) => (self.rounded + beyond).max(floor),
            RtoFloor::BeyondRtt(floor) => self.rounded + beyond.max(floor),
        }
        .min(MAX);
        self.timeout = self.base;
    }

    /// Doubles the timeout after an expiry (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.timeout = (self.timeout * 2).min(MAX);
    }

    /// Resets the timeout to 3 s after a handshake with a SYN timeout, unless there is a sample (RFC 6298 §5.7). With
    /// timestamps the SYN-ACK provides one, so the reason for the rule does not apply (appendix A).
    pub fn on_handshake_after_timeout(&mut self) {
        if self.estimate.is_none() {
            self.base = AFTER_SYN_TIMEOUT;
            self.timeout = AFTER_SYN_TIMEOUT;
        }
    }

    /// Current timeout including back-off, at least 1 ms.
    pub fn timeout(&self) -> TimeDelta {
        self.timeout.max(GRANULARITY)
    }

    /// Smoothed RTT; `None` before the first sample.
    pub fn smoothed(&self) -> Option<TimeDelta> {
        self.estimate.map(|_| self.rounded)
    }

    /// Mean deviation of the RTT; `None` before the first sample.
    pub fn deviation(&self) -> Option<TimeDelta> {
        self.estimate.map(|(_, deviation)| nanos(deviation))
    }
}

/// Rounds as [`f64::round`] does, which takes longer without an instruction for it. `value` is at least 0.
fn nanos(value: f64) -> TimeDelta {
    let whole = value as i64;
    let rounds_up = value - whole as f64 >= 0.5;
    TimeDelta::from_nanos(whole.saturating_add(i64::from(rounds_up)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: i64) -> TimeDelta {
        TimeDelta::from_millis(milliseconds)
    }

    #[test]
    fn estimates_follow_rfc_6298() {
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
    fn a_constant_rtt_yields_the_lower_bound() {
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
    fn back_off_doubles_the_timeout_up_to_a_minute() {
        let mut rto = RtoEstimator::new(RtoFloor::RFC_6298);
        for seconds in [2, 4, 8, 16, 32, 60, 60, 60] {
            rto.back_off();
            assert_eq!(rto.timeout(), TimeDelta::from_seconds(seconds));
        }
        // Without a sample a timeout of the SYN leaves three seconds.
        rto.on_handshake_after_timeout();
        assert_eq!(rto.timeout(), ms(3000));
        rto.on_sample(ms(100));
        assert_eq!(rto.timeout(), ms(1000));
        rto.on_handshake_after_timeout();
        assert_eq!(rto.timeout(), ms(1000));
    }
}
