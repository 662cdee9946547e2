//! Connections in a full simulation.

use super::*;
use crate::{
    link::{
        LinkConfig,
        queue::{DropTail, Limit, MarkThreshold, Queue, StepMark, StepMarkConfig},
        rate::RateProfile,
    },
    packet::NodeId,
    random,
    simulation::{AgentId, Simulation},
    traffic::tcp::{Algorithm, ShortFlows},
};

const RATE: DataRate = DataRate::from_bps(10_000_000);

/// A forward link and a reverse link of 1 Gbit/s, between two nodes.
pub(super) fn links(rate: DataRate, rtt: TimeDelta, queue: Box<dyn Queue>) -> (Simulation, [NodeId; 2]) {
    let mut simulation = Simulation::new(1);
    let ends = [simulation.node("here"), simulation.node("there")];
    let link = |rate| LinkConfig {
        rate: RateProfile::Fixed(rate),
        delay: (rtt / 2).into(),
        ..LinkConfig::default()
    };
    simulation.add_link("there", (ends[0], ends[1]), &link(rate), queue).unwrap();
    let back = Box::new(DropTail::new(Limit::Unlimited));
    simulation.add_link("back", (ends[1], ends[0]), &link(DataRate::from_bps(1_000_000_000)), back).unwrap();
    (simulation, ends)
}

/// A connection over these links: its flow of data and its sender.
pub(super) fn connect(
    (simulation, ends): &mut (Simulation, [NodeId; 2]),
    settings: &Settings,
    application: Application,
    start: Timestamp,
) -> (FlowId, AgentId) {
    let data = simulation.add_flow(ends[0], ends[1]).unwrap();
    let acks = simulation.add_flow(ends[1], ends[0]).unwrap();
    let sender = Sender::new(data, settings.clone(), application).unwrap().starting_at(start);
    let sender = simulation.add_agent(Box::new(sender));
    let receiver = Receiver::new(acks, settings.clone()).unwrap();
    let receiver = simulation.add_agent(Box::new(receiver));
    simulation.deliver(data, receiver);
    simulation.deliver(acks, sender);
    (data, sender)
}

/// Connections over a forward link of 10 Mbit/s with an RTT of 40 ms.
pub(super) fn run(
    settings: &Settings,
    queue: Box<dyn Queue>,
    applications: Vec<Application>,
    seconds: f64,
) -> (Simulation, Vec<AgentId>) {
    let mut links = links(RATE, ms(40), queue);
    let mut senders = Vec::new();
    for application in applications {
        let start = at(0.13 * senders.len() as f64);
        senders.push(connect(&mut links, settings, application, start).1);
    }
    links.0.run_until(at(seconds), &mut ());
    (links.0, senders)
}

pub(super) fn gauge(simulation: &Simulation, agent: AgentId, wanted: &str) -> f64 {
    let mut found = None;
    simulation.agent(agent).gauges(&mut |_, name, value| {
        if name == wanted {
            found = Some(value);
        }
    });
    found.unwrap()
}

#[test]
fn four_flows_fill_and_share_a_link() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let settings = Settings { algorithm, ..Settings::default() };
        let queue = Box::new(DropTail::new(Limit::Time(ms(40))));
        let (simulation, senders) = run(&settings, queue, vec![Application::Unlimited; 4], 200.0);
        let shares: Vec<f64> =
            senders.iter().map(|&sender| gauge(&simulation, sender, "acked_bytes")).collect();
        let max = RATE.as_bps() as f64 / 8.0 * 200.0 * 1448.0 / 1500.0;
        let utilisation = shares.iter().sum::<f64>() / max;
        let fairness = sharing::jain(&shares);
        println!("{algorithm:?}: utilisation {utilisation:.4}, Jain {fairness:.4}");
        assert!((0.95..=1.0).contains(&utilisation), "{utilisation}");
        assert!((0.95..=1.0).contains(&fairness), "{shares:?}");
    }
}

#[test]
fn marks_keep_the_queue_short_without_loss() {
    let settings = Settings { algorithm: Algorithm::NewReno, ecn: true, ..Settings::default() };
    let queue = Box::new(
        StepMark::new(StepMarkConfig {
            threshold: MarkThreshold::Sojourn(ms(20)),
            limit: Limit::Packets(10_000),
        })
        .unwrap(),
    );
    let (simulation, senders) = run(&settings, queue, vec![Application::Unlimited], 100.0);
    let of = |name| gauge(&simulation, senders[0], name);
    assert_eq!((of("resent_segments"), of("timeouts")), (0.0, 0.0));
    assert!((20.0..400.0).contains(&of("reductions")), "{}", of("reductions"));
    let utilisation = of("acked_bytes") * 8.0 / 100.0 / (RATE.as_bps() as f64 * 1448.0 / 1500.0);
    // The path holds 40 ms of data and the queue 20 ms: after each halving the link is idle for part of the cycle.
    assert!((0.85..=1.0).contains(&utilisation), "{utilisation}");
}

#[test]
fn short_flows_repeat_at_the_rate_of_their_idle_times() {
    let slots = (0..30)
        .map(|slot| {
            let random = random::stream(1, &format!("slot {slot}"));
            Application::ShortFlows(ShortFlows::starting_off(random))
        })
        .collect();
    let queue = Box::new(DropTail::new(Limit::Time(ms(300))));
    let (simulation, senders) = run(&Settings::default(), queue, slots, 200.0);
    let transfers: f64 = senders.iter().map(|&sender| gauge(&simulation, sender, "transfers")).sum();
    // 30 sources, 200 s, cycles of 10 s plus about 0.2 s: 588, with a standard deviation near 24.
    assert!((500.0..680.0).contains(&transfers), "{transfers}");
}
