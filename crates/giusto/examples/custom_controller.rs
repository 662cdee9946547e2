//! A controller of your own in a simulated call: additive increase, multiplicative decrease on loss.

use giusto::{
    run::{self, RecordOptions},
    scenario::Scenario,
};
use giusto_congestion::{
    Algorithm, Cause, Controller, Decision, Feedback, Limits, QueueState, Requirements, SentPacket, Target,
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

/// Raises the rate by 50 kbit/s each 200 ms without loss; a loss leaves 0.85 of it, at most once in 200 ms.
#[derive(Debug, Clone)]
struct Aimd {
    limits: Limits,
    decision: Decision,
}

impl Aimd {
    fn set(&mut self, now: Timestamp, bps: u64, cause: Cause) {
        let to = DataRate::from_bps(bps).max(self.limits.min).min(self.limits.max);
        self.decision = Decision::new(now, to, cause).with_from(self.decision.to);
    }
}

impl Controller for Aimd {
    fn on_sent(&mut self, _now: Timestamp, _packet: &SentPacket) {}

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let reported = feedback.packets.len();
        if reported == 0 || now - self.decision.at < TimeDelta::from_millis(200) {
            return;
        }
        let lost = feedback.packets.iter().filter(|packet| packet.arrival.is_none()).count();
        let (ratio, rate) = (lost as f64 / reported as f64, self.decision.to.as_bps());
        let bps = if lost > 0 { rate * 85 / 100 } else { rate + 50_000 };
        self.set(now, bps, Cause::Loss { ratio });
    }

    fn on_timeout(&mut self, _now: Timestamp, _queue: &QueueState) {}

    fn next_timeout(&self) -> Option<Timestamp> {
        None
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.limits = limits.ordered();
        self.set(now, self.decision.to.as_bps(), Cause::Limit);
    }

    fn on_route_change(&mut self, now: Timestamp) {
        self.set(now, self.limits.start.as_bps(), Cause::RouteChange);
    }

    fn target(&self) -> Target {
        let media = self.decision.to;
        Target::new(media, DataRate::from_bps(media.as_bps() * 2))
    }

    fn decision(&self) -> &Decision {
        &self.decision
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

const SCENARIO: &str = r#"
duration = "30 s"

[[link]]
id = "bottleneck"
from = "camera"
to = "viewer"
rate = "2 Mbit/s"
delay = "25 ms"
reverse = { rate = "unlimited", delay = "25 ms" }

[[flow]]
id = "call"
kind = "media"
from = "camera"
to = "viewer"
video = { model = "perfect", min = "100 kbit/s", max = "5 Mbit/s", frame-rate = 30 }
"#;

/// Simulates a call under the controller, and returns the share of the link that it used.
pub(crate) fn run() -> Result<f64, Box<dyn std::error::Error>> {
    let aimd = Algorithm::custom("aimd", Requirements::DEFAULT, |limits, _options| {
        let limits = limits.ordered();
        let decision = Decision::new(Timestamp::ZERO, limits.start, Cause::Start);
        Box::new(Aimd { limits, decision })
    });
    let scenario = Scenario::parse(SCENARIO, "aimd.toml")?.with_controller("call", aimd)?;
    let result = run::simulate(&scenario, 1, RecordOptions::default(), &mut ());
    let link = result.links.first().ok_or("the scenario has a link")?;
    link.utilisation_ratio.ok_or_else(|| "the link has a rate".into())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("utilisation of the bottleneck: {:.1} %", run()? * 100.0);
    Ok(())
}
