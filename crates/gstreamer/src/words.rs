//! Decisions of a controller in words.

use giusto_congestion::{Cause, Decision, Signal};
use giusto_units::DataRate;

/// Cause and change of the media rate: `loss: 12.0 % of the packets: 2.610 to 2.050 Mbit/s`.
pub(crate) fn decision(decision: &Decision) -> String {
    let mbps = |rate: DataRate| rate.as_bps() as f64 / 1e6;
    let (cause, to) = (cause(&decision.cause), mbps(decision.to));
    if decision.from == decision.to {
        format!("{cause}: stays at {to:.3} Mbit/s")
    } else {
        format!("{cause}: {:.3} to {to:.3} Mbit/s", mbps(decision.from))
    }
}

fn cause(cause: &Cause) -> String {
    let text = match *cause {
        Cause::Start => "start rate",
        Cause::Delay { signal, trend_ms, threshold_ms } => {
            let signal = match signal {
                Signal::Normal => "normal",
                Signal::OverUse => "over-use",
                Signal::UnderUse => "under-use",
            };
            return format!("delay: {signal}, trend {trend_ms:.1} ms, threshold {threshold_ms:.1} ms");
        }
        Cause::Loss { ratio } => return format!("loss: {:.1} % of the packets", 100.0 * ratio),
        Cause::Marks { ratio } => return format!("marks: {:.1} % of the packets", 100.0 * ratio),
        Cause::AcknowledgedRate { rate_bps } => {
            return format!("acknowledged rate: {:.3} Mbit/s arrive", rate_bps / 1e6);
        }
        Cause::Probe { rate_bps } => return format!("probe: it measured {:.3} Mbit/s", rate_bps / 1e6),
        Cause::SenderQueue { waited_ms } => {
            return format!("sender's queue: its oldest packet has waited for {waited_ms:.0} ms");
        }
        Cause::ProbeSuppressed => "probe suppressed by delay, RTT or losses",
        Cause::ReceiverEstimate => "receiver's estimate",
        Cause::SourceQuench => "source quench",
        Cause::ApplicationLimited => "application-limited",
        Cause::Rtt => "RTT above limit, backing off",
        Cause::Silence => "no feedback, backing off",
        Cause::Limit => "configured minimum or maximum rate",
        Cause::RouteChange => "route change, estimates reset",
        _ => "not stated by the controller",
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use giusto_units::Timestamp;

    use super::*;

    #[test]
    fn a_decision_names_its_cause_and_its_numbers() {
        let words = |cause, from| {
            let to = DataRate::from_bps(2_050_000);
            decision(&Decision::new(Timestamp::ZERO, to, cause).with_from(DataRate::from_bps(from)))
        };
        assert_eq!(
            words(Cause::Loss { ratio: 0.12 }, 2_610_000),
            "loss: 12.0 % of the packets: 2.610 to 2.050 Mbit/s"
        );
        let delay = Cause::Delay { signal: Signal::OverUse, trend_ms: 14.2, threshold_ms: 12.5 };
        let expected = "delay: over-use, trend 14.2 ms, threshold 12.5 ms: stays at 2.050 Mbit/s";
        assert_eq!(words(delay, 2_050_000), expected);
    }
}
