//! Simulated seconds per second: TCP and constant-bit-rate traffic that share a bottleneck.

use divan::{Bencher, counter::ItemsCount};
use giusto_sim::{
    link::{
        LinkConfig,
        queue::{DropTail, FqCodel, FqCodelConfig, Limit, Queue},
        rate::RateProfile,
    },
    packet::NodeId,
    random,
    simulation::Simulation,
    trace::Observer,
    traffic::{
        Pattern, Sink, Source,
        tcp::{Algorithm, Application, Receiver, Sender, Settings},
    },
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

const SECONDS: u64 = 100;

fn main() {
    divan::main();
}

/// 5 NewReno flows of 536 B segments and 2 Mbit/s across 5 Mbit/s and 50 ms with FQ-CoDel, each host on a link of 100 Mbit/s.
fn dumbbell() -> Simulation {
    let mut simulation = Simulation::new(1);
    let (left, right) = (simulation.node("left"), simulation.node("right"));
    let link = |simulation: &mut Simulation,
                name: &str,
                ends: (NodeId, NodeId),
                bps,
                delay_ms,
                queue: Box<dyn Queue>| {
        let config = LinkConfig {
            rate: RateProfile::Fixed(DataRate::from_bps(bps)),
            delay: TimeDelta::from_millis(delay_ms).into(),
            ..LinkConfig::default()
        };
        simulation.add_link(name, ends, &config, queue).expect("a link")
    };
    let fq_codel =
        |name| Box::new(FqCodel::new(FqCodelConfig::default(), random::stream(1, name)).expect("a queue"));
    let plain = || Box::new(DropTail::new(Limit::Packets(1000)));
    link(&mut simulation, "bottleneck", (left, right), 5_000_000, 50, fq_codel("bottleneck"));
    link(&mut simulation, "bottleneck back", (right, left), 5_000_000, 50, fq_codel("bottleneck back"));
    for pair in 0..6 {
        let (from, to) =
            (simulation.node(&format!("sender {pair}")), simulation.node(&format!("receiver {pair}")));
        for (name, ends) in
            [("in", (from, left)), ("out", (right, to)), ("in back", (left, from)), ("out back", (to, right))]
        {
            link(&mut simulation, &format!("{name} {pair}"), ends, 100_000_000, 0, plain());
        }
        let data = simulation.add_flow(from, to).expect("a way");
        if pair == 5 {
            let pattern = Pattern::constant(DataRate::from_bps(2_000_000), DataSize::from_bytes(1000));
            simulation.add_agent(Box::new(
                Source::new(data, pattern, random::stream(1, "cbr")).expect("a pattern"),
            ));
            let sink = simulation.add_agent(Box::new(Sink));
            simulation.deliver(data, sink);
            continue;
        }
        let acks = simulation.add_flow(to, from).expect("a way");
        let settings = Settings { mss: 536, algorithm: Algorithm::NewReno, ..Settings::default() };
        let sender = Sender::new(data, settings.clone(), Application::Unlimited).expect("settings");
        let sender = simulation.add_agent(Box::new(sender));
        let receiver = simulation.add_agent(Box::new(Receiver::new(acks, settings).expect("settings")));
        simulation.deliver(data, receiver);
        simulation.deliver(acks, sender);
    }
    simulation
}

fn run(bencher: Bencher<'_, '_>, mut observer: impl Observer) {
    bencher.counter(ItemsCount::new(SECONDS)).bench_local(|| {
        let mut simulation = dumbbell();
        simulation.run_until(Timestamp::from_nanos(SECONDS * 1_000_000_000), &mut observer);
        divan::black_box(simulation.events())
    });
}

/// Items are simulated seconds.
#[divan::bench(sample_count = 10)]
fn traces_off(bencher: Bencher<'_, '_>) {
    run(bencher, ());
}
