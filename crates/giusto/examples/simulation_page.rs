//! Writes the page of a simulated run that is built here, to look at its shape: `cargo run --example simulation_page -- FILE`
//!
//! Six sources share a dumbbell whose bottleneck changes its rate; behind it lies a link with jitter and losses.

use std::{path::PathBuf, time::Instant};

use giusto::{
    report::{PageFlow, PageLink, SimulationPage, simulation},
    sim::{
        link::{
            LinkConfig,
            delay::Jitter,
            loss::Loss,
            queue::{DropTail, Limit},
            rate::RateProfile,
            utilisation,
        },
        observe::{Summary, Timeline},
        packet::LinkId,
        random,
        simulation::Simulation,
        traffic::{Departures, Pattern, Periods, Source},
    },
    simulation::result::{CheckResult, FlowResult, LinkResult, Quantiles, SimResult},
    units::{DataRate, DataSize, TimeDelta, Timestamp},
};
use giusto_measure::ErrorHistogram;

const SEED: u64 = 1;

fn seconds(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

fn mbit(mbit: f64) -> DataRate {
    DataRate::from_bps((mbit * 1e6) as u64)
}

fn quantiles(delays: &ErrorHistogram) -> Option<Quantiles> {
    let at = |share| delays.quantile(share).map(TimeDelta::as_millis);
    Some(Quantiles { p50: at(0.5)?, p95: at(0.95)?, p99: at(0.99)?, max: delays.max()?.as_millis() })
}

/// Builds the network as it goes, and remembers what the page wants to know.
struct Scenario {
    simulation: Simulation,
    links: Vec<(PageLink, RateProfile)>,
    flows: Vec<PageFlow>,
}

impl Scenario {
    fn link(&mut self, (from, to): (&str, &str), config: &LinkConfig, packets: u64) {
        let name = format!("{from}-{to}");
        let ends = (self.simulation.node(from), self.simulation.node(to));
        let queue = Box::new(DropTail::new(Limit::Packets(packets)));
        let id = self.simulation.add_link(&name, ends, config, queue).expect("a link that can be");
        let mut wire: Vec<String> =
            config.delay.as_steps().iter().take(1).map(|(_, delay)| delay.to_string()).collect();
        wire.extend(config.jitter.map(|_| "jitter".to_owned()));
        wire.extend((config.loss != Loss::None).then(|| "loss 0.5 %".to_owned()));
        let page = PageLink {
            id,
            name,
            from: from.to_owned(),
            to: to.to_owned(),
            rate: config.rate.clone(),
            wire: wire.join(", "),
            queue: format!("drop-tail, {packets} packets"),
        };
        self.links.push((page, config.rate.clone()));
    }

    fn source(&mut self, (name, group): (&str, &str), (from, to): (&str, &str), pattern: Pattern) {
        let ends = (self.simulation.node(from), self.simulation.node(to));
        let id = self.simulation.add_flow(ends.0, ends.1).expect("there is a way");
        let path: Vec<LinkId> = self.simulation.flow(id).path.clone();
        let source = Source::new(id, pattern, random::stream(SEED, name)).expect("a pattern that can be");
        self.simulation.add_agent(Box::new(source));
        let [name, group, from, to] = [name, group, from, to].map(str::to_owned);
        self.flows.push(PageFlow { id, name, group, from, to, path });
    }
}

fn dumbbell() -> Scenario {
    let mut scenario = Scenario { simulation: Simulation::new(SEED), links: Vec::new(), flows: Vec::new() };
    let access = |rate: f64, millis| LinkConfig {
        rate: RateProfile::Fixed(mbit(rate)),
        delay: TimeDelta::from_millis(millis).into(),
        ..LinkConfig::default()
    };
    let pairs = [
        ("alice", "bob"),
        ("studio", "stage"),
        ("camera", "screen"),
        ("laptop", "server"),
        ("phone", "cloud"),
    ];
    for (place, (from, to)) in pairs.into_iter().enumerate() {
        scenario.link((from, "left"), &access(100.0, 2 + 3 * place as i64), 1000);
        scenario.link(("right", to), &access(100.0, 1), 1000);
    }
    let steps = [(0, 10.0), (15, 6.0), (30, 3.5), (40, 12.0)];
    let bottleneck = LinkConfig {
        rate: RateProfile::Steps {
            steps: steps.map(|(at, rate)| (seconds(at), mbit(rate))).to_vec(),
            period: None,
        },
        delay: TimeDelta::from_millis(20).into(),
        ..LinkConfig::default()
    };
    scenario.link(("left", "middle"), &bottleneck, 60);
    let radio = LinkConfig {
        jitter: Some(Jitter::RFC8868),
        loss: Loss::Random(0.005),
        duplication: 0.001,
        ..access(9.0, 8)
    };
    scenario.link(("middle", "right"), &radio, 40);
    scenario.link(("right", "left"), &access(100.0, 20), 1000);

    let size = DataSize::from_bytes;
    let constant = |rate: f64, bytes| Pattern::constant(mbit(rate), size(bytes));
    let periods = |mean: i64| Periods::Exponential { mean: TimeDelta::from_millis(mean) };
    scenario.source(("voice", "voice"), ("alice", "bob"), constant(0.1, 200));
    scenario.source(("music", "music"), ("studio", "stage"), constant(1.6, 1200));
    scenario.source(("video", "video"), ("camera", "screen"), constant(3.0, 1200));
    scenario.source(
        ("web", "web"),
        ("laptop", "server"),
        Pattern::new(Departures::OnOff { rate: mbit(4.0), on: periods(600), off: periods(1500) }, size(1500)),
    );
    scenario.source(
        ("bulk", "bulk"),
        ("phone", "cloud"),
        Pattern { start: seconds(10), stop: Some(seconds(50)), ..constant(2.5, 1500) },
    );
    scenario.source(
        ("noise", "noise"),
        ("phone", "cloud"),
        Pattern::new(Departures::Poisson(mbit(0.8)), size(600)),
    );
    scenario
}

fn result(scenario: &Scenario, summary: &Summary, end: Timestamp, wall_s: f64) -> SimResult {
    let flows = scenario.flows.iter().filter_map(|flow| {
        let figures = summary.flow(flow.id)?;
        Some(FlowResult {
            id: flow.name.clone(),
            kind: "cbr".to_owned(),
            controller: None,
            sent_rate_bps: figures.sent_rate_bps(end)?,
            received_rate_bps: figures.received_rate_bps(end)?,
            sent_packets: figures.sent.packets,
            received_packets: figures.received.packets,
            loss_ratio: figures.loss_ratio(),
            marked_ratio: figures.marked_ratio(),
            delay_ms: quantiles(&figures.delay),
            queue_delay_ms: quantiles(&figures.queue_delay),
            ..FlowResult::default()
        })
    });
    let links = scenario.links.iter().map(|(link, rate)| {
        let counters = scenario.simulation.link(link.id).counters();
        LinkResult {
            id: link.name.clone(),
            utilisation_ratio: utilisation(rate, &counters, end),
            offered_packets: counters.offered_packets,
            delivered_packets: counters.delivered_packets,
            dropped_packets: counters.dropped_packets(),
            marked_packets: counters.marked_packets,
            in_flight_packets: scenario.simulation.link(link.id).in_flight(),
            duplicated_packets: counters.duplicated_packets,
            queue_delay_ms: summary.link(link.id).and_then(|link| quantiles(&link.queue_delay)),
        }
    });
    let flows: Vec<FlowResult> = flows.collect();
    let voice = flows.first();
    let delay = voice.and_then(|voice| voice.delay_ms).map(|delay| delay.p95);
    let loss = voice.and_then(|voice| voice.loss_ratio);
    SimResult {
        scenario: "evening at home".to_owned(),
        seed: SEED.to_string(),
        duration_s: end.as_seconds(),
        wall_s,
        events: scenario.simulation.events(),
        interrupted: false,
        checks: vec![
            CheckResult {
                name: "one-way delay of voice (p95)".to_owned(),
                passed: delay.is_some_and(|delay| delay < 150.0),
                value: delay,
                bound: "at most 150".to_owned(),
                unit: "ms".to_owned(),
            },
            CheckResult {
                name: "loss of voice".to_owned(),
                passed: loss.is_some_and(|loss| loss < 0.2),
                value: loss,
                bound: "at most 0.2".to_owned(),
                unit: String::new(),
            },
        ],
        links: links.collect(),
        flows,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).map_or_else(|| PathBuf::from("simulation.html"), PathBuf::from);
    let mut scenario = dumbbell();
    let end = seconds(60);
    let mut observers = (Summary::default(), Timeline::new(end));
    #[expect(clippy::disallowed_methods, reason = "how long it takes in real time stands on the page")]
    let began = Instant::now();
    scenario.simulation.run_until(end, &mut observers);
    let wall_s = began.elapsed().as_secs_f64();
    let (summary, mut timeline) = observers;
    timeline.finish();
    let result = result(&scenario, &summary, end, wall_s);
    let page = SimulationPage {
        result: &result,
        summary: &summary,
        timeline: &timeline,
        flows: scenario.flows.clone(),
        links: scenario.links.iter().map(|(link, _)| link.clone()).collect(),
        description: "Voice, music and video leave a home over one uplink whose rate falls from 10 to 3.5 Mbit/s and comes back, while \
                      somebody browses and uploads."
            .to_owned(),
        command: "giusto sim scenarios/media.toml --seed 1 --out evening.html".to_owned(),
    };
    simulation(&page).write(&path)?;
    println!("{}", path.display());
    Ok(())
}
