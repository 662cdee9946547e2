//! Events and packets per second: the event queue alone, and a source, a link and a sink.

use divan::{Bencher, counter::ItemsCount};
use giusto_sim::{
    engine::EventQueue,
    link::{
        LinkConfig,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    random,
    simulation::Simulation,
    traffic::{Pattern, Sink, Source},
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

fn main() {
    divan::main();
}

/// Each source schedules its next event when one has occurred, with its own period.
#[divan::bench(args = [1, 10, 100, 1000], sample_count = 20)]
fn bare_engine(bencher: Bencher<'_, '_>, sources: u64) {
    const EVENTS: u64 = 1_000_000;
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        let mut events = EventQueue::default();
        for source in 0..sources {
            events.schedule(Timestamp::from_nanos(source * 977), source);
        }
        for _ in 0..EVENTS {
            let Some((now, source)) = events.pop() else { break };
            // Periods without a common divisor, so that the order keeps changing.
            events.schedule(now + TimeDelta::from_nanos(1_000_000 + 7919 * source as i64), source);
        }
        divan::black_box(events.now())
    });
}

/// 1200 B at 9 Mbit/s through 10 Mbit/s and 25 ms, for 100 s.
#[divan::bench(args = [1, 100], sample_count = 20)]
fn source_link_sink(bencher: Bencher<'_, '_>, chains: u64) {
    const SECONDS: u64 = 100;
    let rate = DataRate::from_bps(9_000_000);
    let packets = rate.as_bps() * SECONDS / (8 * 1200) / chains * chains;
    bencher.counter(ItemsCount::new(packets)).bench_local(|| {
        let mut simulation = Simulation::new(1);
        for chain in 0..chains {
            let (here, there) =
                (simulation.node(&format!("here {chain}")), simulation.node(&format!("there {chain}")));
            let config = LinkConfig {
                rate: RateProfile::Fixed(DataRate::from_bps(10_000_000)),
                delay: TimeDelta::from_millis(25).into(),
                ..LinkConfig::default()
            };
            let queue = Box::new(DropTail::new(Limit::Packets(100)));
            let name = format!("link {chain}");
            simulation.add_link(&name, (here, there), &config, queue).expect("a link");
            let flow = simulation.add_flow(here, there).expect("a way");
            let pattern = Pattern::constant(rate, DataSize::from_bytes(1200));
            let source = Source::new(flow, pattern, random::stream(1, &name)).expect("a pattern");
            simulation.add_agent(Box::new(source));
            let sink = simulation.add_agent(Box::new(Sink));
            simulation.deliver(flow, sink);
        }
        simulation.run_until(Timestamp::from_nanos(SECONDS * 1_000_000_000 / chains), &mut ());
        divan::black_box(simulation.events())
    });
}
