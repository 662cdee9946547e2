//! Decisions in words.

use core::fmt;

use giusto_units::DataRate;

use crate::target::{Cause, Decision, Signal};

/// Cause and change of the media rate: `loss: 12.0 % of the packets: 2.610 to 2.050 Mbit/s`.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mbps = |rate: DataRate| rate.as_bps() as f64 / 1e6;
        let Self { from, to, cause, .. } = *self;
        if from == to {
            write!(f, "{cause}: stays at {:.3} Mbit/s", mbps(to))
        } else {
            write!(f, "{cause}: {:.3} to {:.3} Mbit/s", mbps(from), mbps(to))
        }
    }
}

giusto_units::names!(Signal as "signal" { Normal = "normal", OverUse = "over-use", UnderUse = "under-use" });

/// With the numbers that led to it.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::Start => "start rate",
            Self::Delay { signal, trend_ms, threshold_ms } => {
                return write!(f, "delay: {signal}, trend {trend_ms:.1} ms, threshold {threshold_ms:.1} ms");
            }
            Self::Loss { ratio } => return write!(f, "loss: {:.1} % of the packets", 100.0 * ratio),
            Self::Marks { ratio } => return write!(f, "marks: {:.1} % of the packets", 100.0 * ratio),
            Self::AcknowledgedRate { rate_bps } => {
                return write!(f, "acknowledged rate: {:.3} Mbit/s arrive", rate_bps / 1e6);
            }
            Self::Probe { rate_bps } => return write!(f, "probe: it measured {:.3} Mbit/s", rate_bps / 1e6),
            // An older packet than none says that packets wait; otherwise the rate fell for the size of frames.
            Self::SenderQueue { waited_ms } if waited_ms >= 0.5 => {
                return write!(f, "sender's queue: its oldest packet has waited for {waited_ms:.0} ms");
            }
            Self::SenderQueue { .. } => "sender's queue: frames are larger than the target permits",
            Self::ReceiverEstimate => "receiver's estimate",
            Self::ProbeSuppressed => "probe suppressed by delay, RTT or losses",
            Self::SourceQuench => "source quench: the receiver requests a lower rate",
            Self::ApplicationLimited => "application-limited: the media uses less than the target",
            Self::Rtt => "RTT above limit, backing off",
            Self::Silence => "no feedback, backing off",
            Self::Limit => "configured minimum or maximum rate",
            Self::RouteChange => "route change, estimates reset",
            Self::Unstated => "not stated by the controller",
        })
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::Timestamp;

    use super::*;

    #[test]
    fn a_decision_names_its_cause_and_its_numbers() {
        let words = |cause, from| {
            let to = DataRate::from_bps(2_050_000);
            Decision::new(Timestamp::ZERO, to, cause).with_from(DataRate::from_bps(from)).to_string()
        };
        assert_eq!(
            words(Cause::Loss { ratio: 0.12 }, 2_610_000),
            "loss: 12.0 % of the packets: 2.610 to 2.050 Mbit/s"
        );
        let queue = |waited_ms| words(Cause::SenderQueue { waited_ms }, 2_050_000);
        assert!(queue(20.0).contains("oldest packet has waited for 20 ms"));
        // A queue that is empty is no reason.
        assert!(queue(0.0).contains("frames are larger than the target permits"));
        let delay = Cause::Delay { signal: Signal::OverUse, trend_ms: 14.2, threshold_ms: 12.5 };
        let expected = "delay: over-use, trend 14.2 ms, threshold 12.5 ms: stays at 2.050 Mbit/s";
        assert_eq!(words(delay, 2_050_000), expected);
    }
}
