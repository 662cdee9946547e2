//! A link compared with queueing theory: mean waiting times, their distribution, and loss, over independent seeds.

use giusto_sim::{
    link::{
        LinkConfig,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    random,
    simulation::Simulation,
    trace::{Event, Observer},
    traffic::{Departures, PacketSize, Pattern, Source},
};
use giusto_units::{DataRate, DataSize, Timestamp, math};

/// At this rate a byte takes 0.8 µs and a packet of 1250 B takes 1 ms.
const LINK: f64 = 10e6;
/// Mean service time of packets of 1250 B, in ms.
const SERVICE: f64 = 1.0;
const SEEDS: u64 = 12;
const SECONDS: u64 = 200;
const WARMUP: Timestamp = Timestamp::from_nanos(2_000_000_000);

/// Waiting times in ms and the number of drops.
#[derive(Debug, Default)]
struct Waits {
    waits: Vec<f64>,
    drops: u64,
}

impl Observer for Waits {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::Dequeued { sojourn, .. } if now >= WARMUP => self.waits.push(sojourn.as_millis()),
            Event::Dropped { .. } if now >= WARMUP => self.drops += 1,
            _ => {}
        }
    }
}

impl Waits {
    fn mean(&self) -> f64 {
        self.waits.iter().sum::<f64>() / self.waits.len() as f64
    }

    /// The share of packets that wait longer than `millis`.
    fn above(&self, millis: f64) -> f64 {
        self.waits.iter().filter(|&&wait| wait > millis).count() as f64 / self.waits.len() as f64
    }

    fn loss(&self) -> f64 {
        self.drops as f64 / (self.drops as f64 + self.waits.len() as f64)
    }
}

/// Poisson sources, each of a share of the link and a packet size, at one link.
fn run(seed: u64, sources: &[(f64, PacketSize)], limit: Limit) -> Waits {
    let mut simulation = Simulation::new(seed);
    let (from, to) = (simulation.node("from"), simulation.node("to"));
    let config =
        LinkConfig { rate: RateProfile::Fixed(DataRate::from_bps(LINK as u64)), ..LinkConfig::default() };
    simulation.add_link("link", (from, to), &config, Box::new(DropTail::new(limit))).unwrap();
    for (number, &(load, size)) in sources.iter().enumerate() {
        let flow = simulation.add_flow(from, to).unwrap();
        let rate = DataRate::from_bps((load * LINK) as u64);
        let pattern = Pattern::new(Departures::Poisson(rate), size);
        let random = random::stream(seed, &format!("source {number}"));
        simulation.add_agent(Box::new(Source::new(flow, pattern, random).unwrap()));
    }
    let mut waits = Waits::default();
    simulation.run_until(Timestamp::from_nanos(SECONDS * 1_000_000_000), &mut waits);
    waits
}

/// Mean of `figure` over seeds and the half-width of its 95 % confidence interval.
fn over_seeds(runs: &[Waits], figure: impl Fn(&Waits) -> f64) -> (f64, f64) {
    let values: Vec<f64> = runs.iter().map(figure).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance =
        values.iter().map(|value| math::powi(value - mean, 2)).sum::<f64>() / (values.len() as f64 - 1.0);
    // Student's t for 11 degrees of freedom.
    (mean, 2.201 * (variance / values.len() as f64).sqrt())
}

fn runs(sources: &[(f64, PacketSize)], limit: Limit) -> Vec<Waits> {
    (1..=SEEDS).map(|seed| run(seed, sources, limit)).collect()
}

/// Asserts that theory lies within one and a half confidence intervals of ours, and that ours is within `tolerance` of it, so that
/// a wide interval does not pass by itself.
fn agrees(what: &str, theory: f64, found: (f64, f64), tolerance: f64) {
    let (ours, half) = found;
    assert!((ours - theory).abs() <= 1.5 * half, "{what}: theory {theory}, ours {ours} ± {half}");
    assert!((ours / theory - 1.0).abs() <= tolerance, "{what}: theory {theory}, ours {ours} ± {half}");
}

fn fixed(bytes: u64) -> PacketSize {
    PacketSize::Fixed(DataSize::from_bytes(bytes))
}

/// P(W > t) of M/D/1, with `t` in service times: A. K. Erlang, "The Theory of Probabilities and Telephone Conversations", 1909;
/// Crommelin, "Delay Probability Formulae", 1932.
fn md1_above(load: f64, t: f64) -> f64 {
    let mut sum = 0.0;
    let mut factorial = 1.0;
    for k in 0..=t.floor() as u32 {
        factorial *= f64::from(k.max(1));
        let x = load * (f64::from(k) - t);
        sum += math::powi(x, k) / factorial * math::exp(-x);
    }
    1.0 - (1.0 - load) * sum
}

/// Loss of M/D/1/K with room for `k` packets, the one in transmission included: the embedded chain at departures, as in Gross and
/// Harris, "Fundamentals of Queueing Theory", on M/G/1/K.
fn md1k_loss(load: f64, k: usize) -> f64 {
    let mut arrivals = vec![math::exp(-load)];
    for j in 1..=k {
        arrivals.push(arrivals[j - 1] * load / j as f64);
    }
    let mut left = vec![1.0];
    for j in 0..k - 1 {
        let others: f64 = (1..=j).map(|i| left[i] * arrivals[j - i + 1]).sum();
        left.push((left[j] - left[0] * arrivals[j] - others) / arrivals[0]);
    }
    let empty = left[0] / left.iter().sum::<f64>();
    1.0 - 1.0 / (empty + load)
}

#[test]
fn waits_of_md1_have_the_mean_and_distribution_of_theory() {
    for load in [0.5, 0.8] {
        let runs = runs(&[(load, fixed(1250))], Limit::Unlimited);
        let mean = load * SERVICE / (2.0 * (1.0 - load));
        agrees(&format!("M/D/1 {load}: mean wait, ms"), mean, over_seeds(&runs, Waits::mean), 0.03);
        for t in [0.0, 0.5, 1.0, 2.5, 5.0] {
            let ours = over_seeds(&runs, |waits| waits.above(t * SERVICE));
            agrees(&format!("M/D/1 {load}: P(W > {t})"), md1_above(load, t), ours, 0.1);
        }
    }
}

#[test]
fn waits_of_exponential_packets_follow_pollaczek_and_khinchine() {
    // P(W > t) = ρ·e^(−(1−ρ)·t/s), so the mean is ρ·s/(1−ρ): twice that of packets of one size.
    let load = 0.7;
    let size = PacketSize::exponential(DataSize::from_bytes(1250));
    let runs = runs(&[(load, size)], Limit::Unlimited);
    let mean = load * SERVICE / (1.0 - load);
    agrees("M/M/1 0.7: mean wait, ms", mean, over_seeds(&runs, Waits::mean), 0.04);
    for t in [0.0, 1.0, 4.0, 10.0_f64] {
        let theory = load * math::exp(-(1.0 - load) * t / SERVICE);
        agrees(&format!("M/M/1 0.7: P(W > {t})"), theory, over_seeds(&runs, |waits| waits.above(t)), 0.1);
    }
}

#[test]
fn waits_of_two_sizes_follow_pollaczek_and_khinchine() {
    // W = λ·E[S²] / (2·(1−ρ)); a flow adds load · s to λ·E[S²].
    let [(small, of_small), (large, of_large)] = [(0.2, 0.08), (0.55, 1.2)];
    let runs = runs(&[(small, fixed(100)), (large, fixed(1500))], Limit::Unlimited);
    let mean = (small * of_small + large * of_large) / (2.0 * (1.0 - small - large));
    agrees("M/G/1, 100 B and 1500 B: mean wait, ms", mean, over_seeds(&runs, Waits::mean), 0.04);
}

#[test]
fn loss_of_a_short_queue_follows_md1k() {
    // Known values, with room for the packet in transmission alone: Erlang's ρ/(1+ρ).
    assert!((md1k_loss(0.8, 1) - 0.8 / 1.8).abs() < 1e-12);
    for (load, queue, tolerance) in [(0.8, 1, 0.03), (0.8, 4, 0.06), (0.95, 9, 0.06), (1.2, 5, 0.03)] {
        let runs = runs(&[(load, fixed(1250))], Limit::Packets(queue));
        let theory = md1k_loss(load, queue as usize + 1);
        let ours = over_seeds(&runs, Waits::loss);
        agrees(&format!("M/D/1/{} {load}: loss", queue + 1), theory, ours, tolerance);
    }
}
