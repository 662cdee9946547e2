//! Complete runs: their records must match theory and the links' counters, and must be consistent.

use std::ops::ControlFlow;

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::*;
use crate::{
    link::{LinkConfig, loss::Loss},
    packet::{DropReason, FlowId, LinkId, Packet},
    random,
    simulation::Simulation,
    testing::{at as ms, link, packets},
    trace::{Backlog, Event, Observer},
    traffic::{Departures, Pattern, Source},
};

const END: Timestamp = Timestamp::from_nanos(21_000_000_000);

/// 20 s of Poisson traffic of 1000 packets/s over two links, and another second until all packets have
/// arrived.
fn run(first: &LinkConfig, second: &LinkConfig) -> (Simulation, RunRecord) {
    let mut simulation = Simulation::new(11);
    let [a, b, c] = ["a", "b", "c"].map(|name| simulation.node(name));
    for (name, ends, config) in [("first", (a, b), first), ("second", (b, c), second)] {
        simulation.add_link(name, ends, config, packets(50)).unwrap();
    }
    let flow = simulation.add_flow(a, c).unwrap();
    let pattern = Pattern {
        stop: Some(Timestamp::from_nanos(20_000_000_000)),
        ..Pattern::new(Departures::Poisson(DataRate::from_bps(8_000_000)), DataSize::from_bytes(1000))
    };
    simulation.add_agent(Box::new(Source::new(flow, pattern, random::stream(11, "source")).unwrap()));
    let window = Timestamp::ZERO..END;
    let mut plan = plan(flow, window.clone());
    plan.links =
        [(0, first), (1, second)].map(|(link, config)| planned(link, config, window.clone())).to_vec();
    plan.timeline = Some(TimelineOptions::every(TimeDelta::from_millis(42)));
    let mut recorder = Recorder::new(plan);
    simulation.run_until(END, &mut recorder);
    let (record, _) = recorder.finish(&simulation, END);
    (simulation, record)
}

fn planned(link: u32, config: &LinkConfig, window: std::ops::Range<Timestamp>) -> PlannedLink {
    PlannedLink { link: LinkId(link), rate: config.rate.clone(), window, about: LinkRecord::default() }
}

/// A plan for one flow.
fn plan(flow: FlowId, window: std::ops::Range<Timestamp>) -> RecordPlan {
    let flows = vec![PlannedFlow { flow, window, ..PlannedFlow::default() }];
    RecordPlan { end: END, flows, ..RecordPlan::default() }
}

fn at(mbit: u64) -> LinkConfig {
    link(DataRate::from_bps(mbit * 1_000_000), TimeDelta::from_millis(5))
}

fn sum(column: &[u64]) -> u64 {
    column.iter().sum()
}

#[test]
fn a_packet_is_lost_if_no_copy_arrives() {
    let doubling = LinkConfig { duplication: 0.5, ..LinkConfig::default() };
    let lossy = LinkConfig { loss: Loss::Random(0.2), ..LinkConfig::default() };
    let both = LinkConfig { loss: Loss::Random(0.2), ..doubling.clone() };
    for (first, second, loss, duplicates) in [
        // Packets lost on the wire are lost before they can be duplicated: half of 0.8 twice.
        (both, LinkConfig::default(), 0.19..0.21, 0.385..0.415),
        // Half of the packets have one copy and half have two: 0.5·0.2 + 0.5·0.2². For half of the packets, both copies arrive with
        // probability 0.8².
        (doubling, lossy, 0.11..0.13, 0.31..0.33),
    ] {
        let (simulation, record) = run(&first, &second);
        let flow = &record.flows[0];
        assert_eq!(flow.received_packets + flow.lost_packets, flow.sent_packets);
        // The standard error over 20 000 packets is 0.0028.
        assert!(loss.contains(&flow.loss_ratio.unwrap()), "{flow:?}");
        let ratio = flow.duplicate_packets as f64 / flow.sent_packets as f64;
        assert!(duplicates.contains(&ratio), "{ratio}");
        // The links deliver more packets than were sent.
        assert!(simulation.flow(FlowId(0)).delivered_packets > flow.sent_packets);
        assert!(flow.received_rate_bps < (1.0 - loss.start) * flow.sent_rate_bps, "{flow:?}");
        let timeline = record.timeline.as_ref().unwrap();
        assert_eq!(sum(&timeline.flows[0].received_packets), flow.received_packets);
        assert_eq!(sum(&timeline.flows[0].dropped_packets), flow.lost_packets);
    }
}

#[test]
fn queue_lengths_and_delays_match_littles_law() {
    // Little, "A Proof for the Queuing Formula: L = λW", 1961: exact over a time that starts and ends with an
    // empty queue.
    let (_, record) = run(&at(9), &at(100));
    let (link, timeline) = (&record.links[0], record.timeline.as_ref().unwrap());
    let over_time = &timeline.links[0];
    let mean = link.queue_delay_ms.unwrap().mean;
    let delayed = mean / 1e3 * sum(&over_time.transmitted_bytes) as f64;
    let queued: f64 = over_time.queued_mean_bytes.iter().sum::<f64>() * timeline.width_s;
    assert!((queued / delayed - 1.0).abs() < 1e-5, "{queued} byte seconds against {delayed}");
    // M/D/1 at 8/9 of its capacity would have a mean delay of ρ/(2(1−ρ)) = 4 transmissions of 0.889 ms; the
    // limit of 50 packets reduces it.
    assert!((2.8..4.2).contains(&mean), "{mean} ms");
}

#[test]
fn statistics_timeline_and_counters_agree() {
    let lossy = LinkConfig { loss: Loss::Random(0.05), ..at(6) };
    let (simulation, record) = run(&at(7), &lossy);
    let timeline = record.timeline.as_ref().unwrap();
    for (place, link) in [LinkId(0), LinkId(1)].into_iter().enumerate() {
        let counters = simulation.link(link).counters();
        let (link, over_time) = (&record.links[place], &timeline.links[place]);
        assert!(counters.overflow_packets > 0);
        assert_eq!(link.overflow_packets, counters.overflow_packets);
        assert_eq!(sum(&over_time.dropped_packets), counters.overflow_packets);
        assert_eq!((sum(&over_time.lost_packets), counters.aqm_packets), (counters.lost_packets, 0));
        assert_eq!(link.dropped_packets, counters.dropped_packets());
        assert_eq!(sum(&over_time.transmitted_bytes), counters.transmitted_bytes);
        let longest = over_time.queue_delay_max_ms.iter().flatten().copied().fold(0.0, f64::max);
        assert_eq!(Some(longest), link.queue_delay_ms.map(|delay| delay.max));
        assert_eq!(over_time.queued_max_bytes.iter().max(), Some(&50_000));
        let used = counters.transmitted_bytes as f64 * 8.0 / 21.0 / link.capacity_bps.unwrap();
        assert!((link.utilisation_ratio.unwrap() - used).abs() < 1e-9);
    }
    let (flow, over_time) = (&record.flows[0], &timeline.flows[0]);
    assert_eq!(sum(&over_time.sent_packets), flow.sent_packets);
    assert_eq!(simulation.flow(FlowId(0)).sent_packets, flow.sent_packets);
    assert_eq!(sum(&over_time.received_packets), flow.received_packets);
    assert_eq!(flow.received_packets, simulation.flow(FlowId(0)).delivered_packets);
    assert_eq!((flow.duplicate_packets, flow.lost_packets), (0, sum(&over_time.dropped_packets)));
    assert_eq!(over_time.delay_cdf.ms.last(), flow.delay_ms.map(|delay| delay.max).as_ref());
}

#[test]
fn all_figures_of_a_link_are_of_its_window() {
    // 16 Mbit/s for 2 s, then 4 Mbit/s, over 8 Mbit/s: only the warm-up has drops. The queue of 50 ms has long been empty at its
    // end, the wire of 100 ms is not.
    let record = |warmup: u64, end: u64| {
        let mut simulation = Simulation::new(5);
        let ends = (simulation.node("a"), simulation.node("b"));
        let config = LinkConfig { delay: TimeDelta::from_millis(100).into(), duplication: 0.1, ..at(8) };
        simulation.add_link("link", ends, &config, packets(50)).unwrap();
        let flow = simulation.add_flow(ends.0, ends.1).unwrap();
        for (name, mbit, times) in [("busy", 16, (ms(0), ms(2_000))), ("calm", 4, (ms(2_000), ms(30_000)))] {
            let pattern = Pattern {
                start: times.0,
                stop: Some(times.1),
                ..Pattern::constant(DataRate::from_bps(mbit * 1_000_000), DataSize::from_bytes(1000))
            };
            simulation.add_agent(Box::new(Source::new(flow, pattern, random::stream(5, name)).unwrap()));
        }
        let window = ms(warmup)..ms(end);
        let links = vec![planned(0, &config, window.clone())];
        let mut recorder = Recorder::new(RecordPlan { end: ms(end), links, ..plan(flow, window) });
        for until in [end / 2, end] {
            let mut watch = |_| ControlFlow::Continue(());
            assert!(recorder.run_watched(&mut simulation, ms(until), &mut (), &mut watch).is_continue());
        }
        recorder.finish(&simulation, ms(end)).0
    };
    let all = record(0, 10_000);
    let late = record(4_000, 10_000);
    let [all, late] = [&all, &late].map(|record| (&record.links[0], &record.flows[0]));
    assert!((1_900..2_000).contains(&all.0.dropped_packets), "{}", all.0.dropped_packets);
    assert_eq!((late.0.dropped_packets, late.1.lost_packets, late.1.loss_ratio), (0, 0, Some(0.0)));
    // 500 packets a second for 6 s, and those of 100 ms that were on the wire, with their copies.
    assert!((3_045..3_065).contains(&late.0.offered_packets), "{}", late.0.offered_packets);
    assert!((late.0.utilisation_ratio.unwrap() - 0.5).abs() < 0.01);
    assert_eq!((late.1.sent_packets, late.0.capacity_bps), (3_000, Some(8e6)));
    for (link, flow) in [all, late] {
        let ended = link.delivered_packets + link.dropped_packets + link.in_flight_packets;
        assert_eq!(link.offered_packets + link.duplicated_packets, ended, "{link:?}");
        assert!(flow.received_packets + flow.lost_packets <= flow.sent_packets, "{flow:?}");
    }
    // A run that is as long as its warm-up has counted nothing.
    let none = record(10_000, 5_000);
    assert_eq!((none.flows[0].sent_packets, none.links[0].capacity_bps), (0, Some(8e6)));
}

fn packet(sequence: u64, sent: u64) -> Packet {
    Packet {
        flow: FlowId(1),
        bytes: 100,
        sequence,
        sent: ms(sent),
        queued: ms(sent),
        queue_delay_ns: 2_000_000,
        ..Packet::default()
    }
}

fn recorder(measurements: Vec<Measurement>) -> Recorder {
    Recorder::new(RecordPlan { end: ms(40), measurements, ..plan(FlowId(1), ms(10)..ms(20)) })
}

#[test]
fn each_statistic_counts_its_own_window() {
    let mut recorder = recorder(Vec::new());
    let (link, backlog) = (LinkId(2), Backlog::default());
    for (sequence, sent) in [(0, 5), (1, 10), (2, 12), (3, 14), (4, 19), (5, 20)] {
        recorder.on_event(ms(sent), &Event::Sent { packet: packet(sequence, sent) });
    }
    recorder.on_event(ms(14), &Event::Duplicated { link, packet: packet(1, 10) });
    recorder.on_event(ms(14), &Event::Duplicated { link, packet: packet(3, 14) });
    for (at, sequence, sent) in [(15, 0, 5), (16, 1, 10), (17, 1, 10)] {
        recorder.on_event(ms(at), &Event::Delivered { packet: packet(sequence, sent) });
    }
    for (sequence, sent, reason) in [(2, 12, DropReason::Aqm), (3, 14, DropReason::Overflow)] {
        let packet = packet(sequence, sent);
        recorder.on_event(ms(18), &Event::Dropped { link, packet, reason, backlog });
    }
    for (at, sequence, sent) in [(30, 3, 14), (31, 5, 20)] {
        let packet = Packet { ecn: Ecn::Ce, ..packet(sequence, sent) };
        recorder.on_event(ms(at), &Event::Delivered { packet });
    }
    let at_end = |end| recorder.clone().finish(&Simulation::new(7), ms(end)).0;
    let record = at_end(40);
    let flow = &record.flows[0];
    assert_eq!((record.seed.as_str(), record.interrupted, flow.from_s, flow.to_s), ("7", false, 0.01, 0.02));
    // Of 1 to 4, which were sent in the window, 4 is in flight, 2 is lost, and 1 arrived twice.
    let packets = [flow.sent_packets, flow.received_packets, flow.lost_packets, flow.duplicate_packets];
    assert_eq!(packets, [4, 2, 1, 1]);
    // Sent in the window: 1 to 4. Delivered in it: 0 and the first copy of 1.
    assert_eq!((flow.sent_rate_bps, flow.received_rate_bps), (320_000.0, 160_000.0));
    // Of those sent in the window, 1 and 3 arrived and 2 was dropped.
    assert_eq!(flow.loss_ratio, Some(1.0 / 3.0));
    let delay = flow.delay_ms.unwrap();
    assert_eq!((delay.mean, delay.max), (8.0, 10.0));
    assert_eq!(flow.queue_delay_ms.map(|delay| delay.mean), Some(2.0));
    // Marked packets arrive after the window.
    assert_eq!((flow.marked_ratio, flow.goodput_bps), (Some(0.0), None));
    let early = at_end(15);
    assert!(early.interrupted);
    assert_eq!((early.flows[0].to_s, early.flows[0].sent_rate_bps), (0.015, 640_000.0));
}

#[test]
fn what_the_system_did_not_take_was_not_sent() {
    let timeline = Some(TimelineOptions::default());
    let plan = RecordPlan { end: ms(40), timeline, ..plan(FlowId(1), ms(10)..ms(20)) };
    let mut recorder = Recorder::new(plan);
    for (sequence, at) in [(0, 5), (1, 10), (2, 12), (3, 25)] {
        let packet = packet(sequence, at);
        for event in [Event::Sent { packet }, Event::Sent { packet }, Event::Unsent { packet }] {
            recorder.on_event(ms(at), &event);
        }
    }
    let record = recorder.finish(&Simulation::new(7), ms(40)).0;
    assert_eq!((record.flows[0].sent_packets, record.flows[0].sent_rate_bps), (2, 160_000.0));
    assert_eq!(record.timeline.unwrap().flows[0].sent_packets.iter().sum::<u64>(), 4);
}

#[test]
fn a_measurement_has_its_own_window() {
    let flows = vec![(FlowId(1), ms(0)..ms(1000))];
    let mut recorder = recorder(vec![
        Measurement::Flows { flows: flows.clone(), delays: false, steps: false },
        Measurement::Flows { flows, delays: true, steps: true },
    ]);
    for (at, sequence) in [(0, 0), (499, 1), (500, 2), (1000, 3)] {
        recorder.on_event(ms(at), &Event::Delivered { packet: packet(sequence, 0) });
    }
    let (record, figures) = recorder.finish(&Simulation::new(1), ms(2000));
    assert_eq!(record.flows[0].delay_ms, None);
    let [Figures::Flows { flows: plain, .. }, Figures::Flows { flows: stepped, delay_ms, .. }] = &figures[..]
    else {
        panic!("{figures:?}")
    };
    // Measurements of one window share its figures, so the first has more than it asked for.
    assert_eq!((plain[0].received_bytes, plain[0].seconds, plain[0].step_bytes.len()), (300, 1.0, 2));
    assert_eq!(stepped[0].step_bytes, [200, 100]);
    assert_eq!(delay_ms.map(|delay| delay.max), Some(500.0));
}

#[test]
fn a_flow_that_never_sent_has_no_ratios() {
    let (record, _) = recorder(Vec::new()).finish(&Simulation::new(1), ms(40));
    let flow = &record.flows[0];
    assert_eq!((flow.loss_ratio, flow.marked_ratio, flow.sent_rate_bps), (None, None, 0.0));
    assert_eq!((flow.delay_ms, flow.target_rate_bps, flow.frames), (None, None, None));
}

#[test]
fn the_goodput_of_tcp_is_the_in_order_data() {
    use crate::traffic::tcp::{Application, Receiver, Sender, Settings};
    let mut simulation = Simulation::new(3);
    let [here, there] = ["here", "there"].map(|name| simulation.node(name));
    for (name, ends) in [("forth", (here, there)), ("back", (there, here))] {
        let config = LinkConfig { loss: Loss::Random(0.02), duplication: 0.1, ..at(10) };
        simulation.add_link(name, ends, &config, packets(50)).unwrap();
    }
    let data = simulation.add_flow(here, there).unwrap();
    let answers = simulation.add_flow(there, here).unwrap();
    let sender = Sender::new(data, Settings::default(), Application::Bytes(1_000_000)).unwrap();
    let sender = simulation.add_agent(Box::new(sender));
    let receiver = simulation.add_agent(Box::new(Receiver::new(answers, Settings::default()).unwrap()));
    simulation.deliver(data, receiver);
    simulation.deliver(answers, sender);
    let mut plan = RecordPlan { timeline: Some(TimelineOptions::default()), ..plan(data, ms(0)..END) };
    plan.flows[0].answers = Some(answers);
    let mut recorder = Recorder::new(plan);
    simulation.run_until(END, &mut recorder);
    let (record, _) = recorder.finish(&simulation, END);
    let flow = &record.flows[0];
    let over_time = &record.timeline.as_ref().unwrap().flows[0];
    assert_eq!(over_time.goodput_bytes.iter().sum::<u64>(), 1_000_000);
    assert!(over_time.goodput_bps.iter().any(|&bps| bps > 0));
    // All data once, even if segments were retransmitted or duplicated.
    assert_eq!(flow.goodput_bps.map(f64::round), Some((8e6_f64 / 21.0).round()));
    assert!(flow.received_rate_bps > 8e6 / 21.0 && flow.duplicate_packets > 0 && flow.lost_packets > 0);
    assert!(flow.received_packets + flow.lost_packets <= flow.sent_packets);
}
