//! Tests of complete runs.

use giusto_units::{DataRate, DataSize, TimeDelta};

use super::*;
use crate::{
    link::{delay::Jitter, loss::Loss},
    random,
    testing::{self, at as ms, packets},
    traffic::{Body, Departures, Pattern, Sink, Source, Transmit, tcp},
};

fn link(mbps: u64, delay_ms: i64) -> LinkConfig {
    testing::link(DataRate::from_bps(mbps * 1_000_000), TimeDelta::from_millis(delay_ms))
}

/// One link and a flow over it.
fn single(config: &LinkConfig) -> (Simulation, FlowId) {
    let mut simulation = Simulation::new(1);
    let (a, b) = (simulation.node("a"), simulation.node("b"));
    simulation.add_link("ab", (a, b), config, packets(20)).unwrap();
    let flow = simulation.add_flow(a, b).unwrap();
    (simulation, flow)
}

/// A packet of 1250 B every 10 ms from `start` to `stop`, in ms.
fn add_source(simulation: &mut Simulation, flow: FlowId, start: u64, stop: u64) {
    let pattern = Pattern::constant(DataRate::from_bps(1_000_000), DataSize::from_bytes(1250));
    let pattern = Pattern { start: ms(start), stop: Some(ms(stop)), ..pattern };
    simulation.add_agent(Box::new(Source::new(flow, pattern, random::stream(1, "source")).unwrap()));
}

/// Two links in series, and a Poisson flow over both.
fn chain(seed: u64, others: u32) -> (Simulation, FlowId) {
    let mut simulation = Simulation::new(seed);
    let [a, b, c] = ["a", "b", "c"].map(|name| simulation.node(name));
    let lossy = LinkConfig { loss: Loss::Random(0.05), ..link(10, 5) };
    simulation.add_link("ab", (a, b), &lossy, packets(20)).unwrap();
    simulation.add_link("bc", (b, c), &link(8, 20), packets(20)).unwrap();
    let flow = simulation.add_flow(a, c).unwrap();
    let pattern =
        Pattern::new(Departures::Poisson(DataRate::from_bps(6_000_000)), DataSize::from_bytes(1200));
    let source = Source::new(flow, pattern, random::stream(seed, "poisson")).unwrap();
    simulation.add_agent(Box::new(source));
    let sink = simulation.add_agent(Box::new(Sink));
    simulation.deliver(flow, sink);
    for other in 0..others {
        let flow = simulation.add_flow(b, c).unwrap();
        let pattern = Pattern::constant(DataRate::from_bps(100_000), DataSize::from_bytes(500));
        let source = Source::new(flow, pattern, random::stream(seed, &format!("other {other}"))).unwrap();
        simulation.add_agent(Box::new(source));
    }
    (simulation, flow)
}

/// The events of two seconds, run in slices of so many milliseconds.
fn trace(seed: u64, others: u32, slice: usize) -> Vec<(Timestamp, Event)> {
    let mut trace = Vec::new();
    let (mut simulation, _) = chain(seed, others);
    for end in (0..=2000).step_by(slice) {
        simulation.run_until(ms(end), &mut trace);
    }
    trace
}

#[test]
fn the_seed_determines_the_trace_however_it_is_sliced() {
    let whole = trace(1, 2, 2000);
    assert!(whole.len() > 5000);
    assert_eq!([2000, 10].map(|slice| trace(1, 2, slice)), [whole.clone(), whole.clone()]);
    assert_ne!(trace(2, 2, 2000), whole);
}

#[test]
fn adding_a_flow_elsewhere_changes_no_random_draw() {
    // The packets that the source sends, and those that the first link loses, by number.
    let draws = |others| {
        let of_first = |(at, event): (Timestamp, Event)| match event {
            Event::Sent { packet } if packet.flow == FlowId(0) => Some((at, packet.sequence, false)),
            Event::Dropped { link: LinkId(0), packet, .. } => Some((Timestamp::ZERO, packet.sequence, true)),
            _ => None,
        };
        trace(1, others, 2000).into_iter().filter_map(of_first).collect::<Vec<_>>()
    };
    assert_eq!(draws(0), draws(5));
    let lost = draws(0).iter().filter(|draw| draw.2).count();
    assert!((20..90).contains(&lost), "{lost} of some 1250 lost at 5 %");
}

#[test]
fn packets_contain_their_delay_and_queueing_delay() {
    let mut max_queue_delay = 0;
    for (now, event) in trace(1, 0, 2000) {
        if let Event::Delivered { packet } = event {
            // 1200 B take 0.96 ms at 10 Mbit/s and 1.2 ms at 8 Mbit/s, rounded up at each.
            let fixed = 25_000_000 + 960_000 + 1_200_000;
            let delay = (now - packet.sent).as_nanos().unsigned_abs();
            assert!((fixed..=fixed + 2).contains(&(delay - packet.queue_delay_ns)), "{delay} {packet:?}");
            max_queue_delay = max_queue_delay.max(packet.queue_delay_ns);
        }
    }
    assert!(max_queue_delay > 5_000_000);
}

/// Answers every packet at once, and reports when it came.
#[derive(Debug)]
struct Echo {
    flow: FlowId,
    to_send: u32,
    received: std::sync::mpsc::Sender<u64>,
}

impl Agent for Echo {
    fn handle_packet(&mut self, now: Timestamp, _packet: &Packet, _body: &Body) {
        self.received.send(now.as_nanos() / 1000).unwrap();
        self.to_send += 1;
    }

    fn handle_timeout(&mut self, _now: Timestamp) {}

    fn poll_transmit(&mut self, _now: Timestamp) -> Option<Transmit> {
        self.to_send = self.to_send.checked_sub(1)?;
        Some(Transmit { flow: self.flow, bytes: 125, ecn: giusto_units::Ecn::Ect0, body: Body::None })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        None
    }
}

#[test]
fn an_answer_takes_the_return_path() {
    let mut simulation = Simulation::new(1);
    let (a, b) = (simulation.node("a"), simulation.node("b"));
    simulation.add_link("ab", (a, b), &link(1, 10), packets(20)).unwrap();
    simulation.add_link("ba", (b, a), &link(2, 30), packets(20)).unwrap();
    let (there, back) = (simulation.add_flow(a, b).unwrap(), simulation.add_flow(b, a).unwrap());
    let (received, times) = std::sync::mpsc::channel();
    for (incoming, flow, to_send) in [(there, back, 0), (back, there, 1)] {
        let echo = simulation.add_agent(Box::new(Echo { flow, to_send, received: received.clone() }));
        simulation.deliver(incoming, echo);
    }
    simulation.run_until(ms(100), &mut ());
    // 125 B: 1 ms on the way to the peer and 0.5 ms back, with delays of 10 and 30 ms.
    let times: Vec<_> = times.try_iter().collect();
    assert_eq!(times, [11_000, 41_500, 52_500, 83_000, 94_000]);
}

#[test]
fn an_agent_added_later_starts_when_the_run_continues() {
    let (mut simulation, flow) = single(&link(10, 5));
    simulation.run_until(ms(1000), &mut ());
    add_source(&mut simulation, flow, 1500, 9000);
    simulation.run_until(ms(2000), &mut ());
    // One every 10 ms, from 1.5 s to 2 s.
    assert_eq!(simulation.flow(flow).sent_packets, 51);
}

#[test]
fn corrupted_packets_are_discarded_at_the_destination() {
    let mut simulation = Simulation::new(7);
    let [a, b, c] = ["a", "b", "c"].map(|name| simulation.node(name));
    let noisy = LinkConfig { corruption: 0.2, ..link(10, 5) };
    simulation.add_link("ab", (a, b), &noisy, packets(20)).unwrap();
    simulation.add_link("bc", (b, c), &noisy, packets(20)).unwrap();
    let flow = simulation.add_flow(a, c).unwrap();
    add_source(&mut simulation, flow, 0, 20_000);
    let mut trace: Vec<(Timestamp, Event)> = Vec::new();
    simulation.run_until(Timestamp::MAX, &mut trace);
    let [first, second] = [0, 1].map(|id| simulation.link(LinkId(id)).counters());
    let Flow { sent_packets, delivered_packets, corrupted_packets, .. } = *simulation.flow(flow);
    assert_eq!((sent_packets, delivered_packets + corrupted_packets), (2000, 2000));
    // Every packet crosses both links. 20 % of those that the first has changed are changed again: 36 % in all.
    assert_eq!((first.delivered_packets, second.delivered_packets), (2000, 2000));
    assert!((640..800).contains(&corrupted_packets), "{corrupted_packets}");
    assert!(corrupted_packets < first.corrupted_packets + second.corrupted_packets);
    let drops = trace.iter().filter_map(|(_, event)| match event {
        Event::Dropped { link, reason, .. } => Some((*link, *reason)),
        _ => None,
    });
    let drops: Vec<_> = drops.collect();
    assert_eq!(drops.len() as u64, corrupted_packets);
    assert!(drops.iter().all(|found| *found == (LinkId(1), DropReason::Corruption)));
}

#[test]
fn bodies_are_released_with_the_last_copy() {
    for seed in 1..5 {
        let mut simulation = Simulation::new(seed);
        let [a, b, c] = ["a", "b", "c"].map(|name| simulation.node(name));
        let config = LinkConfig {
            duplication: 0.7,
            loss: Loss::Random(0.02),
            corruption: 0.02,
            jitter: Some(Jitter::RFC8868),
            reorder: seed % 2 == 0,
            ..link(5, 5)
        };
        for (name, ends) in [("ab", (a, b)), ("bc", (b, c)), ("cb", (c, b)), ("ba", (b, a))] {
            simulation.add_link(name, ends, &config, packets(20)).unwrap();
        }
        let (there, back) = (simulation.add_flow(a, c).unwrap(), simulation.add_flow(c, a).unwrap());
        let settings = tcp::Settings::default();
        let sender = tcp::Sender::new(there, settings.clone(), tcp::Application::Bytes(500_000)).unwrap();
        let sender = simulation.add_agent(Box::new(sender));
        let receiver = simulation.add_agent(Box::new(tcp::Receiver::new(back, settings).unwrap()));
        simulation.deliver(there, receiver);
        simulation.deliver(back, sender);
        simulation.run_until(Timestamp::MAX, &mut ());
        assert!(simulation.link(LinkId(0)).counters().duplicated_packets > 100);
        std::mem::take(&mut simulation.bodies).assert_released();
    }
}

/// An agent whose deadline changes with each packet, and that reports when it is woken.
#[derive(Debug)]
struct Alarm {
    deadlines: std::array::IntoIter<u64, 3>,
    next: Option<Timestamp>,
    woken: std::sync::mpsc::Sender<u64>,
}

impl Agent for Alarm {
    fn handle_packet(&mut self, _now: Timestamp, _packet: &Packet, _body: &Body) {
        self.next = self.deadlines.next().map(ms);
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.woken.send(now.as_nanos() / 1_000_000).unwrap();
        self.next = self.next.filter(|&next| next > now);
    }

    fn poll_transmit(&mut self, _now: Timestamp) -> Option<Transmit> {
        None
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.next
    }
}

#[test]
fn a_changing_deadline_is_met_once() {
    // Deadlines after the packets at 10, 20 and 30 ms, and the times at which the agent is woken: without
    // effect if its deadline has been postponed.
    let cases: [(_, &[u64]); 4] =
        [([50, 60, 70], &[50, 70]), ([50, 40, 50], &[40, 50]), ([70, 40, 60], &[40, 60]), ([40; 3], &[40])];
    for (deadlines, expected) in cases {
        for slice in [1, 7, 200] {
            let (mut simulation, flow) = single(&LinkConfig::default());
            add_source(&mut simulation, flow, 10, 31);
            let (woken, received) = std::sync::mpsc::channel();
            let alarm = Alarm { deadlines: deadlines.into_iter(), next: None, woken };
            let alarm = simulation.add_agent(Box::new(alarm));
            simulation.deliver(flow, alarm);
            for end in (0..=200).step_by(slice).chain([200]) {
                simulation.run_until(ms(end), &mut ());
            }
            let woken: Vec<_> = received.try_iter().collect();
            assert_eq!(woken, expected, "{deadlines:?}, slices of {slice} ms");
        }
    }
}

/// Asks to be woken at once, this often.
#[derive(Debug)]
struct Hasty(u32);

impl Agent for Hasty {
    fn handle_packet(&mut self, _now: Timestamp, _packet: &Packet, _body: &Body) {}

    fn handle_timeout(&mut self, _now: Timestamp) {
        self.0 = self.0.saturating_sub(1);
    }

    fn poll_transmit(&mut self, _now: Timestamp) -> Option<Transmit> {
        None
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        (self.0 > 0).then_some(Timestamp::ZERO)
    }
}

fn with_hasty(times: u32) -> Simulation {
    let (mut simulation, flow) = chain(1, 0);
    let hasty = simulation.add_agent(Box::new(Hasty(times)));
    simulation.deliver(flow, hasty);
    simulation.run_until(ms(1000), &mut ());
    simulation
}

#[test]
#[should_panic(
    expected = "receives by [\"ab\", \"bc\"]: at 0.000009999 s it asked for the 10000th time in a row"
)]
fn an_agent_whose_deadline_never_moves_ends_the_run() {
    with_hasty(u32::MAX);
}

#[test]
fn an_agent_may_be_in_haste_for_a_while() {
    let simulation = with_hasty(9_000);
    assert!(simulation.now() > ms(900) && simulation.events() > 9_000, "{}", simulation.events());
}
