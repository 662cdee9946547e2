//! Decisions of congestion controllers, in words.

use giusto_congestion::{Cause, Signal};

use super::format::{percent, rate, short};
use crate::record::DecisionRecord;

/// Why a target is what it is, in words with the numbers that led to it.
///
/// # Example
///
/// ```
/// use giusto::view::decision::cause_in_words;
/// use giusto_congestion::{Cause, Signal};
///
/// let cause = Cause::Delay { signal: Signal::OverUse, trend_ms: 14.2, threshold_ms: 12.5 };
/// assert_eq!(cause_in_words(&cause), "delay: over-use, trend 14.2 ms above threshold 12.5 ms");
/// ```
pub fn cause_in_words(cause: &Cause) -> String {
    match *cause {
        Cause::Delay { signal, trend_ms, threshold_ms } => {
            // A trend that falls is compared with the threshold's negative, a queue, which some controllers report instead, with the threshold.
            let bound =
                if signal == Signal::UnderUse && trend_ms < 0.0 { -threshold_ms } else { threshold_ms };
            let place = match trend_ms.partial_cmp(&bound) {
                Some(std::cmp::Ordering::Greater) => "above",
                Some(std::cmp::Ordering::Equal) => "at",
                _ => "below",
            };
            let (name, trend, bound) = (signal.name(), signed(trend_ms), signed(bound));
            format!("delay: {name}, trend {trend} ms {place} threshold {bound} ms")
        }
        Cause::Loss { ratio } => format!("loss: {} of the packets", percent(ratio)),
        Cause::Marks { ratio } => format!("marks: {} of the packets", percent(ratio)),
        Cause::AcknowledgedRate { rate_bps } => format!("acknowledged rate: {} arrive", rate(rate_bps)),
        Cause::Probe { rate_bps } => format!("probe: it measured {}", rate(rate_bps)),
        Cause::SenderQueue { waited_ms } if waited_ms >= 0.5 => {
            format!("sender's queue: its oldest packet has waited for {} ms", short(waited_ms))
        }
        _ => cause.to_string(),
    }
}

/// The name of a cause, as it stands in JSON and in traces.
pub fn cause_name(cause: &Cause) -> &'static str {
    match cause {
        Cause::Start => "start",
        Cause::Delay { .. } => "delay",
        Cause::Loss { .. } => "loss",
        Cause::Marks { .. } => "marks",
        Cause::AcknowledgedRate { .. } => "acknowledged-rate",
        Cause::ReceiverEstimate => "receiver-estimate",
        Cause::Probe { .. } => "probe",
        Cause::ProbeSuppressed => "probe-suppressed",
        Cause::SenderQueue { .. } => "sender-queue",
        Cause::SourceQuench => "source-quench",
        Cause::ApplicationLimited => "application-limited",
        Cause::Rtt => "round-trip",
        Cause::Silence => "silence",
        Cause::Limit => "limit",
        Cause::RouteChange => "route-change",
        Cause::Unstated => "unstated",
        _ => "other",
    }
}

/// From what to what: `2.610 → 2.050 Mbit/s`, or the target alone where it did not change.
pub fn change_in_words(decision: &DecisionRecord) -> String {
    let [from, to] = [decision.from_bps, decision.to_bps].map(|bps| rate(bps as f64));
    if decision.from_bps == decision.to_bps {
        return format!("stays at {to}");
    }
    match (from.rsplit_once(' '), to.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} → {to}"),
        _ => format!("{from} → {to}"),
    }
}

/// Cause and change: `loss: 12 % of the packets: 2.610 → 2.050 Mbit/s`.
pub fn decision_in_words(decision: &DecisionRecord) -> String {
    format!("{}: {}", cause_in_words(&decision.cause), change_in_words(decision))
}

fn signed(value: f64) -> String {
    let text = short(value);
    if text == "0" && value < 0.0 { "-0".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(signal: Signal, trend_ms: f64) -> Cause {
        Cause::Delay { signal, trend_ms, threshold_ms: 12.5 }
    }

    #[test]
    fn a_cause_says_its_numbers() {
        let words = |cause| cause_in_words(&cause);
        for (cause, expected) in [
            (delay(Signal::Normal, 3.0), "delay: normal, trend 3.0 ms below threshold 12.5 ms"),
            (delay(Signal::UnderUse, -20.0), "delay: under-use, trend -20.0 ms below threshold -12.5 ms"),
            // Of copa, NADA and tempo it is a queue.
            (delay(Signal::UnderUse, 3.0), "delay: under-use, trend 3.0 ms below threshold 12.5 ms"),
            (
                Cause::SenderQueue { waited_ms: 20.0 },
                "sender's queue: its oldest packet has waited for 20.0 ms",
            ),
            (
                Cause::SenderQueue { waited_ms: 0.0 },
                "sender's queue: frames are larger than the target permits",
            ),
            (Cause::SourceQuench, "source quench: the receiver requests a lower rate"),
        ] {
            assert_eq!(words(cause), expected);
        }
        assert_eq!(cause_name(&Cause::SourceQuench), "source-quench");
        assert!(words(delay(Signal::OverUse, f64::NAN)).contains("NaN"));
    }

    #[test]
    fn a_change_names_its_unit_once_where_it_can() {
        let cause = Cause::Start;
        let words =
            |from_bps, to_bps| change_in_words(&DecisionRecord { at_s: 0.0, from_bps, to_bps, cause });
        assert_eq!(words(2_610_000, 2_050_000), "2.610 → 2.050 Mbit/s");
        assert_eq!(words(900_000, 1_050_000), "900.000 kbit/s → 1.050 Mbit/s");
        assert_eq!(words(900_000, 900_000), "stays at 900.000 kbit/s");
    }

    #[test]
    fn the_names_in_json_are_those_of_the_traces() {
        let causes = [
            Cause::Start,
            delay(Signal::OverUse, 14.0),
            Cause::Loss { ratio: 0.1 },
            Cause::Marks { ratio: 0.1 },
            Cause::AcknowledgedRate { rate_bps: 1.0 },
            Cause::ReceiverEstimate,
            Cause::Probe { rate_bps: 1.0 },
            Cause::ProbeSuppressed,
            Cause::SourceQuench,
            Cause::ApplicationLimited,
            Cause::Rtt,
            Cause::SenderQueue { waited_ms: 20.0 },
            Cause::Silence,
            Cause::Limit,
        ];
        for cause in causes {
            let decision = DecisionRecord { at_s: 1.5, from_bps: 0, to_bps: 1, cause };
            let json = serde_json::to_value(decision).unwrap();
            assert_eq!(serde_json::from_value::<DecisionRecord>(json.clone()).unwrap(), decision);
            assert_eq!(json["cause"], cause_name(&cause));
            assert_eq!(json["at_s"], 1.5);
            if let Cause::Delay { signal, .. } = cause {
                assert_eq!((&json["signal"], &json["trend_ms"]), (&signal.name().into(), &14.0.into()));
            }
        }
    }
}
