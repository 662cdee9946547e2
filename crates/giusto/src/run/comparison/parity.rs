//! The simulation of a scenario against its run in real time.

use giusto_units::TimeDelta;
use serde::Serialize;

use super::Run;
use crate::record::Distribution;

/// The largest difference of the received rates that is within the tolerance, as a ratio.
pub const MAX_RATE_DIFFERENCE: f64 = 0.03;
/// The largest difference of the 95th percentiles of the queueing delay.
pub const MAX_QUEUE_DELAY_DIFFERENCE: TimeDelta = TimeDelta::from_millis(10);

/// One controller in both.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Parity {
    /// The controller.
    pub controller: String,
    /// The received rate: of the simulation, and of the run in real time.
    pub received_rate_bps: [f64; 2],
    /// The second over the first, less 1; `None` if nothing was received.
    pub received_rate_difference_ratio: Option<f64>,
    /// The mean target rate of both.
    pub target_rate_bps: [Option<f64>; 2],
    /// The 95th percentile of the queueing delay of both.
    pub queue_delay_p95_ms: [Option<f64>; 2],
    /// The second less the first.
    pub queue_delay_p95_difference_ms: Option<f64>,
    /// The mean frame delay of both.
    pub frame_delay_mean_ms: [Option<f64>; 2],
    /// The second less the first.
    pub frame_delay_mean_difference_ms: Option<f64>,
    /// Whether the received rates differ by at most [`MAX_RATE_DIFFERENCE`] and the queueing delays by at most
    /// [`MAX_QUEUE_DELAY_DIFFERENCE`]; `None` where the differences are not judged.
    pub within_tolerance: Option<bool>,
    /// Why they are not: a part of a run is no other part's equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_judged: Option<String>,
    /// Why the figures of the run in real time cannot be trusted; empty if they can.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

impl Parity {
    /// The flow of `simulated`, and the same in `live`; `None` if a run has no flow.
    pub fn of(simulated: &Run, live: &Run) -> Option<Self> {
        let flows = [simulated.result.flows.first()?, live.result.flows.first()?];
        let received_rate_bps = flows.map(|flow| flow.received_rate_bps);
        let queue_delay_p95_ms = flows.map(|flow| flow.queue_delay_ms.map(|delay: Distribution| delay.p95));
        let frame_delay_mean_ms = flows.map(|flow| flow.frame_delay_ms.map(|delay| delay.mean));
        let [planned, lasted] = [simulated, live].map(|run| run.result.duration_s);
        let is_part = simulated.result.interrupted || live.result.interrupted || lasted < planned;
        let not_judged = is_part.then(|| format!("the call ended after {lasted:.1} of {planned:.1} s"));
        let [rate, live_rate] = received_rate_bps;
        let rate_difference = (rate > 0.0 && !is_part).then(|| live_rate / rate - 1.0);
        let difference = |[simulated, live]: [Option<f64>; 2]| Some(live? - simulated?).filter(|_| !is_part);
        let queue_difference = difference(queue_delay_p95_ms);
        let is_within = rate_difference.is_some_and(|ratio| ratio.abs() <= MAX_RATE_DIFFERENCE)
            && queue_difference.is_some_and(is_near);
        Some(Self {
            controller: simulated.controller.clone(),
            received_rate_bps,
            received_rate_difference_ratio: rate_difference,
            target_rate_bps: flows.map(|flow| flow.target_rate_bps),
            queue_delay_p95_ms,
            queue_delay_p95_difference_ms: queue_difference,
            frame_delay_mean_ms,
            frame_delay_mean_difference_ms: difference(frame_delay_mean_ms),
            within_tolerance: (!is_part).then_some(is_within),
            not_judged,
            doubts: live.doubts().to_vec(),
        })
    }

    /// Whether they are within the tolerance, in words: `no: received rate +4.1 %`.
    pub fn verdict(&self) -> String {
        if let Some(why) = &self.not_judged {
            return format!("not judged: {why}");
        }
        let rate = self.received_rate_difference_ratio.filter(|ratio| ratio.abs() > MAX_RATE_DIFFERENCE);
        let queue = self.queue_delay_p95_difference_ms.filter(|ms| !is_near(*ms));
        let reasons = [
            rate.map(|ratio| format!("received rate {:+.1} %", ratio * 100.0)),
            queue.map(|ms| format!("queueing delay {ms:+.1} ms")),
        ];
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        match (self.within_tolerance, &*reasons) {
            (Some(true), _) => "yes".to_owned(),
            (_, []) => "no: a figure is unknown".to_owned(),
            (_, reasons) => format!("no: {}", reasons.join(", ")),
        }
    }
}

/// Whether queueing delays that differ by `ms` are within the tolerance.
fn is_near(ms: f64) -> bool {
    ms.abs() <= MAX_QUEUE_DELAY_DIFFERENCE.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FlowRecord, RealTimeRecord, RunRecord};

    fn run(rate: f64, queue: f64, live: bool) -> Run {
        let delay = |p95| Some(Distribution { mean: p95 / 2.0, p95, ..Distribution::default() });
        let flow = FlowRecord {
            received_rate_bps: rate,
            queue_delay_ms: delay(queue),
            frame_delay_ms: delay(queue + 20.0),
            ..FlowRecord::default()
        };
        let real_time =
            live.then(|| RealTimeRecord { doubts: vec!["late".to_owned()], ..RealTimeRecord::default() });
        let result = RunRecord { flows: vec![flow], real_time, ..RunRecord::default() };
        Run { controller: "scream:v2".to_owned(), live, result, ..Run::default() }
    }

    #[test]
    fn the_tolerance_holds_in_both_directions_and_for_both_figures() {
        let of = |rate, queue| Parity::of(&run(1e6, 40.0, false), &run(rate, queue, true)).unwrap();
        for (rate, queue, within) in [
            (1.0299e6, 50.0, true),
            (0.9701e6, 30.0, true),
            (1.031e6, 40.0, false),
            (0.969e6, 40.0, false),
            (1e6, 50.1, false),
            (1e6, 29.9, false),
        ] {
            assert_eq!(of(rate, queue).within_tolerance, Some(within), "{rate} {queue}");
        }
        let verdict = |rate, queue| of(rate, queue).verdict();
        assert_eq!([verdict(1e6, 40.0), verdict(1e6, 29.0)], ["yes", "no: queueing delay -11.0 ms"]);
        assert_eq!(verdict(1.041e6, 52.0), "no: received rate +4.1 %, queueing delay +12.0 ms");
        let parity = of(0.9e6, 42.0);
        assert!((parity.received_rate_difference_ratio.unwrap() + 0.1).abs() < 1e-9);
        assert_eq!(parity.queue_delay_p95_difference_ms, Some(2.0));
        assert_eq!(parity.frame_delay_mean_difference_ms, Some(1.0));
        assert_eq!(parity.doubts, ["late"]);
        assert_eq!(run(1.0, 1.0, true).label(), "scream:v2 live");
    }

    #[test]
    fn a_run_that_received_nothing_is_not_within_the_tolerance() {
        let none = Parity::of(&run(0.0, 0.0, false), &run(0.0, 0.0, true)).unwrap();
        assert_eq!((none.received_rate_difference_ratio, none.within_tolerance), (None, Some(false)));
        assert_eq!(none.verdict(), "no: a figure is unknown");
        assert_eq!(Parity::of(&Run::default(), &run(1e6, 1.0, true)), None);
    }

    #[test]
    fn a_part_of_a_run_is_not_judged() {
        let (mut simulated, mut live) = (run(1e6, 40.0, false), run(1e6, 40.0, true));
        (simulated.result.duration_s, live.result.duration_s) = (5.0, 2.84);
        for is_interrupted in [true, false] {
            live.result.interrupted = is_interrupted;
            let part = Parity::of(&simulated, &live).unwrap();
            assert_eq!(part.verdict(), "not judged: the call ended after 2.8 of 5.0 s");
            assert_eq!((part.within_tolerance, part.received_rate_difference_ratio), (None, None));
            let differences = [part.queue_delay_p95_difference_ms, part.frame_delay_mean_difference_ms];
            assert_eq!((differences, part.received_rate_bps), ([None; 2], [1e6; 2]));
        }
        live.result.duration_s = 5.0;
        assert_eq!(Parity::of(&simulated, &live).unwrap().within_tolerance, Some(true));
    }
}
