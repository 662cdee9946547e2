//! Decisions in words.

use giusto_congestion::{Cause, Decision, Signal};

pub(crate) fn decision(decision: &Decision) -> String {
    let kbps = |rate: giusto_units::DataRate| rate.as_bps().div_ceil(1000);
    let change = format!("{} -> {} kbit/s", kbps(decision.from), kbps(decision.to));
    format!("{}: {change}", cause(&decision.cause))
}

fn cause(cause: &Cause) -> String {
    match *cause {
        Cause::Start => "start rate".to_owned(),
        Cause::Delay { signal, trend_ms, threshold_ms } => {
            let signal = match signal {
                Signal::Normal => "normal",
                Signal::OverUse => "over-use",
                Signal::UnderUse => "under-use",
            };
            format!("delay: {signal}, trend {trend_ms:.1} of {threshold_ms:.1} ms")
        }
        Cause::Loss { ratio } => format!("loss: {:.1} % of the packets", 100.0 * ratio),
        Cause::Marks { ratio } => format!("marks: {:.1} % of the packets", 100.0 * ratio),
        Cause::AcknowledgedRate { rate_bps } => {
            format!("acknowledged rate: {:.0} kbit/s arrive", rate_bps / 1e3)
        }
        Cause::ReceiverEstimate => "receiver's estimate".to_owned(),
        Cause::Probe { rate_bps } => format!("probe: it measured {:.0} kbit/s", rate_bps / 1e3),
        Cause::ProbeSuppressed => "probe suppressed by delay, RTT or losses".to_owned(),
        Cause::SenderQueue { waited_ms } => format!("sender's queue: oldest frame {waited_ms:.0} ms"),
        Cause::SourceQuench => "source quench".to_owned(),
        Cause::ApplicationLimited => "application-limited".to_owned(),
        Cause::Rtt => "RTT above limit".to_owned(),
        Cause::Silence => "no acknowledgements".to_owned(),
        Cause::Limit => "configured minimum or maximum".to_owned(),
        Cause::RouteChange => "route change".to_owned(),
        _ => "not stated by the controller".to_owned(),
    }
}
