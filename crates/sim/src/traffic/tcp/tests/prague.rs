//! TCP Prague behind L4S queues.

use super::{engine::gauge, *};
use crate::{
    link::queue::{DualPi2, DualPi2Config, Limit, MarkThreshold, StepMark, StepMarkConfig},
    trace::{Event, Observer},
};

fn settings() -> Settings {
    Settings { algorithm: Algorithm::Prague, ..Settings::default() }
}

#[test]
fn prague_holds_a_queue_of_about_the_step() {
    for (step, max) in [(ms(1), 44.0), (ms(5), 48.0)] {
        let (threshold, limit) = (MarkThreshold::Sojourn(step), Limit::Packets(10_000));
        let queue = Box::new(StepMark::new(StepMarkConfig { threshold, limit }).unwrap());
        let (simulation, senders) = engine::run(&settings(), queue, 1, 60.0);
        let of = |name| gauge(&simulation, senders[0], name);
        let utilisation = utilisation(of("acked_bytes") as u64, 10.0, 60.0);
        assert!((0.93..=1.0).contains(&utilisation), "{step:?}: {utilisation}");
        // 40 ms, the packet itself, and the queue.
        assert!((41.0..max).contains(&of("srtt_ms")), "{step:?}: {}", of("srtt_ms"));
        assert_eq!((of("resent_segments"), of("timeouts")), (0.0, 0.0));
    }
}

#[test]
fn two_prague_flows_share_a_dualpi2_queue() {
    let queue = Box::new(DualPi2::new(DualPi2Config::default()).unwrap());
    let (simulation, senders) = engine::run(&settings(), queue, 2, 120.0);
    let shares: Vec<f64> = senders.iter().map(|&sender| gauge(&simulation, sender, "acked_bytes")).collect();
    let utilisation = utilisation(shares.iter().sum::<f64>() as u64, 10.0, 120.0);
    assert!((0.95..=1.0).contains(&jain(&shares)), "{shares:?}");
    assert!((0.9..=1.0).contains(&utilisation), "{utilisation}");
}

#[test]
fn all_data_is_ect1_and_a_loss_halves_the_window() {
    let settings = Settings { initial_threshold: Some(DataSize::from_bytes(40 * 1448)), ..settings() };
    let network = Network::new(Path::free(ms(100))).logged().forward(losing(|n, _| n == 400));
    let mut network = network.with(&settings, Application::Unlimited);
    let mut before = 0;
    while network.sender().stats().reductions == 0 && network.now < at(3.0) {
        before = network.sender().stats().window;
        network.run(network.now + ms(1));
    }
    network.run(at(3.0));
    let stats = network.sender().stats();
    assert_eq!((stats.retransmitted, stats.reductions, stats.ecn_reductions), (1, 1, 0), "{stats:?}");
    let share = stats.threshold.unwrap() as f64 / before as f64;
    assert!((0.45..=0.55).contains(&share), "{share}");
    assert!(network.data().iter().all(|sent| sent.ecn == Ecn::Ect1));
    assert!(network.acks().iter().all(|sent| !sent.segment.flags.contains(Flags::ECE)));
}

#[test]
fn a_constant_share_of_marks_reduces_in_proportion() {
    // With a share p of marked segments, a scalable control holds a window of 2 / p segments (RFC 9332
    // appendix A, eq. 2; draft-briscoe-iccrg-prague-congestion-control-04 §2.4). The RTT of 100 ms is above the reference.
    for period in [20_u64, 50] {
        let settings = Settings { initial_threshold: Some(DataSize::from_bytes(30 * 1448)), ..settings() };
        let mut network = Network::new(Path::free(ms(100)))
            .forward(
                move |n, segment| {
                    if segment.length > 0 && n % period == 0 { Fate::Marked } else { Fate::Delivered }
                },
            )
            .with(&settings, Application::Unlimited);
        network.run(at(60.0));
        let before = network.receiver().stats().delivered;
        network.run(at(160.0));
        let window = (network.receiver().stats().delivered - before) as f64 / 1448.0 / 1000.0;
        let expected = 2.0 * period as f64;
        assert!((0.75 * expected..1.25 * expected).contains(&window), "{window} of {expected}");
    }
}

/// Queueing delays in ms, and losses, of one flow after the start.
struct Watched {
    flow: FlowId,
    from: Timestamp,
    delays: Vec<f64>,
    dropped: u64,
}

impl Observer for Watched {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::Dequeued { packet, sojourn, .. } if packet.flow == self.flow && now >= self.from => {
                self.delays.push(sojourn.as_millis());
            }
            Event::Dropped { packet, .. } if packet.flow == self.flow => self.dropped += 1,
            _ => {}
        }
    }
}

/// RFC 9332 §1.4 of measurements with base RTTs up to 100 ms: the L4S queue has a mean delay "below 1 ms (or 2 packets where serialization
/// delay exceeded 1 ms on slower links), with the 99th percentile being no worse than 2 ms. No losses at all", and both kinds have "roughly
/// the same throughput". De Schepper et al. 2022 (arXiv 2209.01078): "close to full utilization".
#[test]
fn prague_beside_cubic_is_as_measured_for_dualpi2() {
    const WARMUP: f64 = 20.0;
    const SECONDS: f64 = 60.0;
    for (mbps, rtt) in
        [(4, 20), (4, 50), (12, 10), (12, 20), (12, 50), (12, 100), (40, 10), (40, 20), (40, 50)]
    {
        let queue = Box::new(DualPi2::new(DualPi2Config::default()).unwrap());
        let rate = DataRate::from_bps(mbps * 1_000_000);
        let mut links = engine::links(rate, ms(rtt), queue);
        let [(flow, prague), (_, cubic)] = [Algorithm::Prague, Algorithm::Cubic].map(|algorithm| {
            engine::connect(&mut links, &Settings { algorithm, ..Settings::default() }, at(0.0))
        });
        let mut simulation = links.0;
        let mut watched = Watched { flow, from: at(WARMUP), delays: Vec::new(), dropped: 0 };
        let sent = |simulation: &_| [prague, cubic].map(|sender| gauge(simulation, sender, "acked_bytes"));
        simulation.run_until(at(WARMUP), &mut watched);
        let before = sent(&simulation);
        simulation.run_until(at(WARMUP + SECONDS), &mut watched);
        let after = sent(&simulation);
        let [prague, cubic] = [0, 1].map(|n| after[n] - before[n]);
        watched.delays.sort_unstable_by(f64::total_cmp);
        let mean = watched.delays.iter().sum::<f64>() / watched.delays.len() as f64;
        let p99 = watched.delays[watched.delays.len() * 99 / 100];
        let use_ratio = utilisation((prague + cubic) as u64, mbps as f64, SECONDS);
        let case = format!(
            "{mbps} Mbit/s, {rtt} ms: mean {mean:.2}, p99 {p99:.2} ms, {} lost, Prague over CUBIC {:.2}, use {use_ratio:.3}",
            watched.dropped,
            prague / cubic
        );
        let two_packets = 2.0 * 1500.0 * 8.0 / (mbps as f64 * 1e3);
        assert!(mean < two_packets.max(1.0), "{case}");
        // Where a packet alone takes less than that.
        assert!(p99 <= 2.0 || two_packets > 2.0, "{case}");
        assert_eq!(watched.dropped, 0, "{case}");
        assert!(use_ratio > 0.97, "{case}");
        assert!((0.5..2.0).contains(&(prague / cubic)), "{case}");
    }
}
