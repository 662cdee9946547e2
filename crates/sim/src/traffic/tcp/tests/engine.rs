//! Connections in a full simulation.

use super::*;
use crate::{
    link::queue::{DropTail, Limit, Queue},
    packet::NodeId,
    simulation::{AgentId, Simulation},
    testing,
};

const RATE: DataRate = DataRate::from_bps(10_000_000);

/// A forward link and a reverse link of 1 Gbit/s, between two nodes.
pub(super) fn links(rate: DataRate, rtt: TimeDelta, queue: Box<dyn Queue>) -> (Simulation, [NodeId; 2]) {
    let mut simulation = Simulation::new(1);
    let ends = [simulation.node("here"), simulation.node("there")];
    let back = Box::new(DropTail::new(Limit::Unlimited));
    let gigabit = testing::link(DataRate::from_bps(1_000_000_000), rtt / 2);
    simulation.add_link("there", (ends[0], ends[1]), &testing::link(rate, rtt / 2), queue).unwrap();
    simulation.add_link("back", (ends[1], ends[0]), &gigabit, back).unwrap();
    (simulation, ends)
}

/// A connection over these links: its flow of data and its sender.
pub(super) fn connect(
    (simulation, ends): &mut (Simulation, [NodeId; 2]),
    settings: &Settings,
    start: Timestamp,
) -> (FlowId, AgentId) {
    let data = simulation.add_flow(ends[0], ends[1]).unwrap();
    let acks = simulation.add_flow(ends[1], ends[0]).unwrap();
    let sender = Sender::new(data, settings.clone(), Application::Unlimited).unwrap().starting_at(start);
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
    connections: u32,
    seconds: f64,
) -> (Simulation, Vec<AgentId>) {
    let mut links = links(RATE, ms(40), queue);
    let starts = (0..connections).map(|n| at(0.13 * f64::from(n)));
    let senders = starts.map(|start| connect(&mut links, settings, start).1).collect();
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
        let (simulation, senders) = run(&settings, queue, 4, 200.0);
        let shares: Vec<f64> =
            senders.iter().map(|&sender| gauge(&simulation, sender, "acked_bytes")).collect();
        let utilisation = utilisation(shares.iter().sum::<f64>() as u64, 10.0, 200.0);
        assert!((0.95..=1.0).contains(&utilisation), "{algorithm:?}: {utilisation}");
        assert!((0.95..=1.0).contains(&jain(&shares)), "{algorithm:?}: {shares:?}");
    }
}

#[test]
fn one_flow_fills_a_link_with_a_buffer_of_one_bdp() {
    // CUBIC also soon after its start, which costs no timeout.
    for (algorithm, sack, from, until, least) in [
        (Algorithm::NewReno, true, 10.0, 110.0, 0.95),
        (Algorithm::NewReno, false, 10.0, 110.0, 0.95),
        (Algorithm::Cubic, true, 10.0, 110.0, 0.95),
        (Algorithm::Cubic, true, 2.0, 10.0, 0.97),
    ] {
        let settings = Settings { algorithm, sack, ..Settings::default() };
        let path = Path::bottleneck(10, ms(50), RATE.size_in(ms(50)).as_bytes());
        let mut network = Network::new(path).with(&settings, Application::Unlimited);
        network.run(at(from));
        let before = network.receiver().stats().delivered;
        network.run(at(until));
        let stats = network.sender().stats();
        let share = utilisation(network.receiver().stats().delivered - before, 10.0, until - from);
        assert!((least..=1.001).contains(&share), "{algorithm:?}, sack {sack}, from {from} s: {share}");
        assert!(if from > 2.0 { stats.reductions >= 3 } else { stats.timeouts == 0 }, "{stats:?}");
    }
}
