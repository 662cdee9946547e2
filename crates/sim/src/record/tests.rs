//! Whole runs, whose figures must agree with theory, with the links' own counters and with each other.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::*;
use crate::{
    link::{
        LinkConfig,
        loss::Loss,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    packet::{FlowId, LinkId},
    random,
    simulation::Simulation,
    traffic::{Departures, Pattern, Source},
};

const END: Timestamp = Timestamp::from_nanos(21_000_000_000);

/// 20 s of Poisson traffic over two links, and another second for all to arrive.
fn run(first: &LinkConfig, second: &LinkConfig) -> (Simulation, Summary, Timeline) {
    let mut simulation = Simulation::new(11);
    let [a, b, c] = ["a", "b", "c"].map(|name| simulation.node(name));
    for (name, ends, config) in [("first", (a, b), first), ("second", (b, c), second)] {
        let queue = Box::new(DropTail::new(Limit::Packets(50)));
        simulation.add_link(name, ends, config, queue).unwrap();
    }
    let flow = simulation.add_flow(a, c).unwrap();
    let pattern = Pattern {
        stop: Some(Timestamp::from_nanos(20_000_000_000)),
        ..Pattern::new(Departures::Poisson(DataRate::from_bps(8_000_000)), DataSize::from_bytes(1000))
    };
    simulation.add_agent(Box::new(Source::new(flow, pattern, random::stream(11, "source")).unwrap()));
    let mut observers = (Summary::default(), Timeline::with_width(END, TimeDelta::from_millis(42)));
    simulation.run_until(END, &mut observers);
    let (summary, mut timeline) = observers;
    timeline.finish();
    (simulation, summary, timeline)
}

fn at(mbit: u64) -> LinkConfig {
    let rate = RateProfile::Fixed(DataRate::from_bps(mbit * 1_000_000));
    LinkConfig { rate, delay: TimeDelta::from_millis(5).into(), ..LinkConfig::default() }
}

#[test]
fn a_packet_is_lost_if_all_its_copies_are() {
    let doubling = LinkConfig { duplication: 0.5, ..LinkConfig::default() };
    let lossy = LinkConfig { loss: Loss::Random(0.2), ..LinkConfig::default() };
    let (_, summary, _) = run(&doubling, &lossy);
    let flow = summary.flow(FlowId(0)).unwrap();
    assert_eq!(flow.delivered.packets + flow.dropped.packets, flow.sent.packets);
    // Half have one copy and half have two: 0.5·0.2 + 0.5·0.2². Its standard error over 20 000 packets is 0.0023.
    let loss = flow.loss_ratio().unwrap();
    assert!((0.11..0.13).contains(&loss), "{loss}");
    // Both copies arrive of half of them with probability 0.8².
    let duplicates = flow.duplicate_packets as f64 / flow.sent.packets as f64;
    assert!((0.31..0.33).contains(&duplicates), "{duplicates}");
    assert_eq!(flow.delay.count(), flow.delivered.packets);
}

#[test]
fn what_waits_and_how_long_obey_littles_law() {
    // Little, "A Proof for the Queuing Formula: L = λW", 1961: over a time that begins and ends with an empty queue, exactly.
    let (_, summary, timeline) = run(&at(9), &at(100));
    let link = summary.link(LinkId(0)).unwrap();
    let waited = link.queue_delay.mean().unwrap().as_seconds() * link.transmitted.packets as f64;
    let windows = 0..timeline.len();
    let seconds = |place| (timeline.window(place).end - timeline.window(place).start).as_seconds();
    let waiting: f64 =
        windows.map(|place| timeline.waiting_mean(LinkId(0), place).unwrap().0 * seconds(place)).sum();
    assert!((waiting / waited - 1.0).abs() < 1e-5, "{waiting} packet seconds against {waited}");
    // M/D/1 at 8/9 of its capacity would wait ρ/(2(1−ρ)) = 4 transmissions of 0.889 ms; 50 places cut off its tail.
    let mean = link.queue_delay.mean().unwrap().as_millis();
    assert!((2.8..4.2).contains(&mean), "{mean} ms");
}

#[test]
fn figures_windows_and_counters_agree() {
    let lossy = LinkConfig { loss: Loss::Random(0.05), ..at(6) };
    let (simulation, summary, timeline) = run(&at(7), &lossy);
    for link in [LinkId(0), LinkId(1)] {
        let counters = simulation.link(link).counters();
        let figures = summary.link(link).unwrap();
        let sum = |of: fn(&LinkWindow) -> u64| timeline.link(link).iter().map(of).sum::<u64>();
        assert!(counters.overflow_packets > 0);
        assert_eq!(figures.drops.overflow_packets, counters.overflow_packets);
        assert_eq!(sum(|window| window.drops.overflow_packets), counters.overflow_packets);
        assert_eq!((figures.drops.lost_packets, counters.aqm_packets), (counters.lost_packets, 0));
        assert_eq!(sum(|window| window.drops.packets()), counters.dropped_packets());
        assert_eq!(figures.transmitted.size.as_bytes(), counters.transmitted_bytes);
        assert_eq!(sum(|window| window.transmitted.size.as_bytes()), counters.transmitted_bytes);
        let longest = timeline.link(link).iter().map(|window| window.sojourn_max).max();
        assert_eq!(longest, figures.queue_delay.max());
        assert_eq!(timeline.link(link).iter().map(|window| window.waiting_max.packets).max(), Some(50));
    }
    let flow = summary.flow(FlowId(0)).unwrap();
    let (sent, received) = timeline.flow(FlowId(0)).iter().fold((0, 0), |(sent, received), window| {
        (sent + window.sent.packets, received + window.received.packets)
    });
    assert_eq!((sent, received), (flow.sent.packets, flow.received.packets));
    assert_eq!(received, simulation.flow(FlowId(0)).delivered_packets);
}
