//! The emulator in virtual time.

use giusto_sim::{
    link::{
        LinkConfig,
        delay::Jitter,
        loss::Loss,
        queue::{CoDel, CoDelConfig, DropTail, Limit, MarkThreshold, Queue, StepMark, StepMarkConfig},
        rate::RateProfile,
    },
    packet::DropReason,
    random,
    simulation::Simulation,
    traffic::{Departures, Pattern, Source},
};
use giusto_units::{DataRate, TimeDelta};
use proptest::prelude::*;

use super::*;

const MEMORY: DataSize = DataSize::from_bytes(10_000_000);

fn at(micros: u64) -> Timestamp {
    Timestamp::from_nanos(micros * 1000)
}

fn drop_tail() -> Box<dyn Queue> {
    Box::new(DropTail::new(Limit::Packets(20)))
}

fn codel() -> Box<dyn Queue> {
    Box::new(CoDel::new(CoDelConfig::default()).unwrap())
}

/// 8 Mbit/s: a microsecond a byte.
fn fixed(delay_ms: i64) -> LinkConfig {
    LinkConfig {
        rate: RateProfile::Fixed(DataRate::from_bps(8_000_000)),
        delay: TimeDelta::from_millis(delay_ms).into(),
        ..LinkConfig::default()
    }
}

fn link(id: u32, config: &LinkConfig, queue: Box<dyn Queue>) -> Link {
    Link::new(LinkId(id), config, queue, 5, &format!("link{id}")).unwrap()
}

fn one(config: &LinkConfig, queue: Box<dyn Queue>) -> Emulator<u64> {
    Emulator::new(vec![link(0, config, queue)], vec![vec![LinkId(0)]], MEMORY).unwrap()
}

fn arrival(bytes: u32, tag: u64) -> Arrival<u64> {
    Arrival { route: 0, bytes, ecn: Ecn::NotEct, flow: 3, tag }
}

/// The deliveries that wait: (time in µs, tag).
fn delivered(emulator: &mut Emulator<u64>) -> Vec<(u64, u64)> {
    let next = || emulator.poll_delivery().map(|delivery| (delivery.due.as_nanos() / 1000, delivery.tag));
    std::iter::from_fn(next).collect()
}

#[test]
fn lateness_of_the_caller_changes_no_times() {
    let config = fixed(10);
    for step in [1, 700, 30_000] {
        let mut emulator = one(&config, drop_tail());
        let mut found = Vec::new();
        for packet in 0..5 {
            emulator.offer(at(500 * packet), arrival(1000, packet), &[0; 20], &mut ());
            emulator.advance(at(500 * packet + step.min(499)), &mut ());
            found.extend(delivered(&mut emulator));
        }
        emulator.advance(at(30_000 + step), &mut ());
        found.extend(delivered(&mut emulator));
        // Transmissions of 1 ms, one after the other, then 10 ms.
        assert_eq!(found, [(11_000, 0), (12_000, 1), (13_000, 2), (14_000, 3), (15_000, 4)], "{step}");
    }
}

#[test]
fn each_link_of_a_route_delays_and_the_way_back_has_its_own() {
    let links = vec![
        link(0, &fixed(10), drop_tail()),
        link(1, &fixed(5), drop_tail()),
        link(2, &fixed(1), drop_tail()),
    ];
    let routes = vec![vec![LinkId(0), LinkId(1)], vec![LinkId(2)], vec![]];
    let mut emulator = Emulator::new(links, routes, MEMORY).unwrap();
    for route in 0..3 {
        let arrival = Arrival { route, ..arrival(1000, route as u64) };
        emulator.offer(at(0), arrival, &[route as u8], &mut ());
    }
    emulator.advance(at(100_000), &mut ());
    // A route without links; 1 ms and 1 ms; twice 1 ms, 10 ms and 5 ms.
    assert_eq!(delivered(&mut emulator), [(0, 2), (2_000, 1), (17_000, 0)]);
}

#[test]
fn packets_that_arrive_in_the_past_arrive_now_and_are_counted() {
    let mut emulator = one(&fixed(0), drop_tail());
    emulator.advance(at(5_000), &mut ());
    emulator.offer(at(4_000), arrival(1000, 1), &[], &mut ());
    emulator.advance(at(9_000), &mut ());
    assert_eq!(delivered(&mut emulator), [(6_000, 1)]);
    assert_eq!(emulator.counters().clamped_packets, 1);
}

#[test]
fn memory_is_bounded() {
    let config = LinkConfig { delay: TimeDelta::from_millis(1000).into(), ..LinkConfig::default() };
    let memory = DataSize::from_bytes(10_000);
    let mut emulator =
        Emulator::new(vec![link(0, &config, drop_tail())], vec![vec![LinkId(0)]], memory).unwrap();
    let accepted = (0..30).filter(|&n| emulator.offer(at(n), arrival(1000, n), &[0; 1000], &mut ())).count();
    assert_eq!((accepted, emulator.counters().refused_packets), (10, 20));
    // What has left makes room.
    emulator.advance(at(2_000_000), &mut ());
    assert_eq!(delivered(&mut emulator).len(), 10);
    assert!(emulator.offer(at(2_000_001), arrival(1000, 9), &[0; 1000], &mut ()));
}

#[test]
fn routes_over_missing_links_are_refused() {
    let route = Emulator::<()>::new(Vec::new(), vec![vec![], vec![LinkId(3)]], MEMORY).unwrap_err();
    assert_eq!(route.to_string(), "route 1: link 3 does not exist: there are 0 links");
    let routes = vec![Vec::new(); MAX_ROUTES + 1];
    let many = Emulator::<()>::new(Vec::new(), routes, MEMORY);
    assert!(matches!(many, Err(EmulatorError::TooManyRoutes { .. })));
}

#[test]
fn only_capable_packets_are_marked() {
    let threshold = MarkThreshold::Sojourn(TimeDelta::from_millis(2));
    let config = StepMarkConfig { threshold, ..StepMarkConfig::default() };
    let mut emulator = one(&fixed(1), Box::new(StepMark::new(config).unwrap()));
    for tag in 0..10 {
        let ecn = if tag % 2 == 0 { Ecn::Ect0 } else { Ecn::NotEct };
        emulator.offer(at(0), Arrival { ecn, ..arrival(1000, tag) }, &[], &mut ());
    }
    emulator.advance(at(50_000), &mut ());
    let found: Vec<(u64, Ecn)> = std::iter::from_fn(|| emulator.poll_delivery())
        .map(|delivery| (delivery.tag, delivery.ecn))
        .collect();
    let marked: Vec<u64> = found.iter().filter(|(_, ecn)| *ecn == Ecn::Ce).map(|(tag, _)| *tag).collect();
    assert!(marked.len() >= 3 && marked.iter().all(|tag| tag % 2 == 0), "{found:?}");
    assert_eq!(found.first(), Some(&(0, Ecn::Ect0)));
    assert_eq!(emulator.link(LinkId(0)).unwrap().counters().marked_packets, marked.len() as u64);
}

/// The link of a simulation with random loss, jitter and duplicates behind `CoDel`.
fn rough() -> LinkConfig {
    let steps = vec![(at(0), DataRate::from_bps(8_000_000)), (at(700_000), DataRate::from_bps(3_000_000))];
    LinkConfig {
        rate: RateProfile::Steps { steps, period: None },
        delay: TimeDelta::from_millis(20).into(),
        jitter: Some(Jitter::Uniform { max: TimeDelta::from_millis(5) }),
        reorder: true,
        loss: Loss::Random(0.05),
        duplication: 0.03,
        corruption: 0.05,
    }
}

#[test]
fn the_same_packets_fare_as_in_the_simulator() {
    // The simulation: a Poisson source of 6 Mbit/s over two seconds.
    let mut simulation = Simulation::new(5);
    let ends = (simulation.node("here"), simulation.node("there"));
    simulation.add_link("link0", ends, &rough(), codel()).unwrap();
    let flow = simulation.add_flow(ends.0, ends.1).unwrap();
    let pattern =
        Pattern::new(Departures::Poisson(DataRate::from_bps(6_000_000)), DataSize::from_bytes(1000));
    simulation.add_agent(Box::new(Source::new(flow, pattern, random::stream(5, "source")).unwrap()));
    let mut simulated: Vec<(Timestamp, Event)> = Vec::new();
    simulation.run_until(at(2_000_000), &mut simulated);

    // The same departures in real time, by a caller that is late by up to 3 ms.
    let mut emulator = one(&rough(), codel());
    let mut emulated: Vec<(Timestamp, Event)> = Vec::new();
    let sent = simulated.iter().filter_map(|(now, event)| match event {
        Event::Sent { packet } => Some((*now, *packet)),
        _ => None,
    });
    for (now, packet) in sent {
        let content = packet.sequence.to_be_bytes();
        emulator.offer(now, arrival(packet.bytes, packet.sequence), &content, &mut emulated);
    }
    emulator.advance(at(2_000_000), &mut emulated);

    // What the driver keeps of a packet may differ.
    let comparable = |(now, mut event): (Timestamp, Event)| {
        let packet = event.packet_mut();
        (packet.body, packet.flow) = (BodyId::NONE, FlowId(0));
        (now, event)
    };
    let simulated: Vec<_> = simulated.into_iter().map(comparable).collect();
    let emulated: Vec<_> = emulated.into_iter().map(comparable).collect();
    assert!(simulated.len() > 5_000, "{}", simulated.len());
    for reason in [DropReason::Aqm, DropReason::Loss, DropReason::Corruption] {
        let dropped =
            |event: &Event| matches!(event, Event::Dropped { reason: found, .. } if *found == reason);
        assert!(simulated.iter().filter(|(_, event)| dropped(event)).count() > 5, "{reason:?}");
    }
    let copies = simulated.iter().filter(|(_, event)| matches!(event, Event::Duplicated { .. })).count();
    assert!(copies > 5, "{copies}");
    assert_eq!(simulated, emulated);
}

proptest! {
    /// Every packet comes out once with its own content, is dropped with a reason, or is inside; and in the order of times.
    #[test]
    fn packets_are_conserved(
        steps in prop::collection::vec((0_u64..5_000, 40_u32..1_500, 0_u8..4, 0_u64..8_000), 1..200),
        loss in 0.0..0.5_f64,
        duplication in 0.0..0.5_f64,
    ) {
        let config = LinkConfig { loss: Loss::Random(loss), duplication, ..rough() };
        let mut emulator = one(&config, codel());
        let (mut now, mut out, mut last) = (0, 0_u64, Timestamp::ZERO);
        for (number, (pause, bytes, ecn, late)) in steps.iter().enumerate() {
            now += pause;
            let arrival = Arrival { ecn: Ecn::from_bits(*ecn), ..arrival(*bytes, number as u64) };
            prop_assert!(emulator.offer(at(now), arrival, &number.to_be_bytes(), &mut ()));
            emulator.advance(at(now + late), &mut ());
            while let Some(delivery) = emulator.poll_delivery() {
                prop_assert!(delivery.due >= last && delivery.due <= at(now + late));
                last = delivery.due;
                prop_assert_eq!(&delivery.bytes[..], &(delivery.tag as usize).to_be_bytes()[..]);
                out += 1;
                emulator.recycle(delivery);
            }
            let link = emulator.link(LinkId(0)).unwrap();
            prop_assert!(link.is_conserved());
            let counters = link.counters();
            let known = out + counters.dropped_packets() + emulator.inside();
            prop_assert_eq!(number as u64 + 1 + counters.duplicated_packets, known);
        }
        // Nothing stays inside for ever.
        while let Some(next) = emulator.next_event() {
            emulator.advance(next, &mut ());
        }
        prop_assert_eq!(emulator.inside(), emulator.arrived.len() as u64);
        while emulator.poll_delivery().is_some() {}
        prop_assert_eq!(emulator.bodies.held, 0);
    }
}
