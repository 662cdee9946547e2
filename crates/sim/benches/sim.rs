//! Events, packets and simulated seconds per second: the event queue alone, chains of links, TCP, and an adaptive media session.

use divan::{Bencher, counter::ItemsCount};
use giusto_congestion::{Algorithm as Controller, Limits};
use giusto_session::media::{
    MediaEndpoint, MediaReceiver, MediaReceiverConfig, MediaSender, MediaSenderConfig, MediaStream,
    PADDING_TYPE, PayloadFormat, RateRange, pacer_config,
};
use giusto_sim::{
    engine::EventQueue,
    link::{
        LinkConfig,
        queue::{DropTail, FqCodel, FqCodelConfig, Limit, Queue},
        rate::RateProfile,
    },
    packet::{FlowId, NodeId},
    random,
    simulation::Simulation,
    traffic::{
        EncodedEndpoint, Media, Pattern, Sink, Source,
        encoder::{MediaSource, PerfectConfig, PerfectEncoder},
        tcp::{Algorithm, Application, Receiver, Sender, Settings},
    },
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

const SECONDS: u64 = 100;
const CONTROLLERS: [&str; 4] =
    ["gcc:libwebrtc+giusto", "scream:rfc8298+giusto", "scream:d00+giusto", "scream:v2"];
const VIDEO_TYPE: u8 = 96;

fn main() {
    divan::main();
}

const fn kbps(kbps: u64) -> DataRate {
    DataRate::from_bps(kbps * 1000)
}

fn link(
    simulation: &mut Simulation,
    name: &str,
    ends: (NodeId, NodeId),
    rate: DataRate,
    delay_ms: i64,
    queue: Box<dyn Queue>,
) {
    let (rate, delay) = (RateProfile::Fixed(rate), TimeDelta::from_millis(delay_ms).into());
    let config = LinkConfig { rate, delay, ..LinkConfig::default() };
    simulation.add_link(name, ends, &config, queue).expect("a link");
}

fn drop_tail(limit: Limit) -> Box<dyn Queue> {
    Box::new(DropTail::new(limit))
}

/// Adds traffic of a constant rate, and its sink.
fn constant(simulation: &mut Simulation, flow: FlowId, rate: DataRate, bytes: u64) {
    let pattern = Pattern::constant(rate, DataSize::from_bytes(bytes));
    let source = Source::new(flow, pattern, random::stream(1, "cbr")).expect("a pattern");
    simulation.add_agent(Box::new(source));
    let sink = simulation.add_agent(Box::new(Sink));
    simulation.deliver(flow, sink);
}

fn run(bencher: Bencher<'_, '_>, items: u64, seconds: u64, build: impl Fn() -> Simulation) {
    bencher.counter(ItemsCount::new(items)).bench_local(|| {
        let mut simulation = build();
        simulation.run_until(Timestamp::from_nanos(seconds * 1_000_000_000), &mut ());
        divan::black_box(simulation.events())
    });
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

/// 1200 B at 9 Mbit/s through 10 Mbit/s and 25 ms, for 100 s. Items are packets.
#[divan::bench(args = [1, 100], sample_count = 20)]
fn source_link_sink(bencher: Bencher<'_, '_>, chains: u64) {
    let packets = kbps(9000).as_bps() * SECONDS / (8 * 1200) / chains * chains;
    run(bencher, packets, SECONDS / chains, || {
        let mut simulation = Simulation::new(1);
        for chain in 0..chains {
            let ends = ["here", "there"].map(|end| simulation.node(&format!("{end} {chain}")));
            let name = format!("link {chain}");
            let queue = drop_tail(Limit::Packets(100));
            link(&mut simulation, &name, (ends[0], ends[1]), kbps(10_000), 25, queue);
            let flow = simulation.add_flow(ends[0], ends[1]).expect("a way");
            constant(&mut simulation, flow, kbps(9000), 1200);
        }
        simulation
    });
}

/// 5 NewReno flows of 536 B segments and 2 Mbit/s across 5 Mbit/s and 50 ms with FQ-CoDel, each host on a link of 100 Mbit/s.
fn dumbbell() -> Simulation {
    let mut simulation = Simulation::new(1);
    let (left, right) = (simulation.node("left"), simulation.node("right"));
    for (name, ends) in [("bottleneck", (left, right)), ("bottleneck back", (right, left))] {
        let queue = FqCodel::new(FqCodelConfig::default(), random::stream(1, name)).expect("a queue");
        link(&mut simulation, name, ends, kbps(5000), 50, Box::new(queue));
    }
    for pair in 0..6 {
        let [from, to] = ["sender", "receiver"].map(|end| simulation.node(&format!("{end} {pair}")));
        for (name, ends) in
            [("in", (from, left)), ("out", (right, to)), ("in back", (left, from)), ("out back", (to, right))]
        {
            let queue = drop_tail(Limit::Packets(1000));
            link(&mut simulation, &format!("{name} {pair}"), ends, kbps(100_000), 0, queue);
        }
        let data = simulation.add_flow(from, to).expect("a way");
        if pair == 5 {
            constant(&mut simulation, data, kbps(2000), 1000);
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

/// Items are simulated seconds.
#[divan::bench(sample_count = 10)]
fn tcp(bencher: Bencher<'_, '_>) {
    run(bencher, SECONDS, SECONDS, dumbbell);
}

fn sender(controller: Controller) -> EncodedEndpoint {
    let (min, max) = (kbps(100), kbps(6000));
    let limits = Limits::DEFAULT.with_min(min).with_max(max);
    let config = PerfectConfig {
        limits: RateRange::new(min, max).expect("a range"),
        start_rate: limits.start,
        ..PerfectConfig::default()
    };
    let encoder = PerfectEncoder::new(config, Timestamp::ZERO).expect("an encoder");
    let stream = MediaStream {
        timestamp_offset: 4_000_000_000,
        start_rate: encoder.target(),
        ..MediaStream::video(2, VIDEO_TYPE, encoder.limits())
    };
    let config = MediaSenderConfig {
        feedback: controller.requirements().feedback,
        pacer: pacer_config(controller.requirements().pacer),
        ..MediaSenderConfig::default()
    };
    let sender = MediaSender::new(config, controller.build(limits), vec![stream]);
    EncodedEndpoint::new(MediaEndpoint::new(Some(sender), None), vec![Box::new(encoder)])
}

fn receiver(controller: Controller) -> EncodedEndpoint {
    let config = MediaReceiverConfig {
        payloads: vec![PayloadFormat::video(VIDEO_TYPE), PayloadFormat::padding(PADDING_TYPE)],
        ..MediaReceiverConfig::new(3, "receiver", controller.requirements().feedback)
    };
    let receiver = MediaReceiver::new(config).expect("a receiver");
    EncodedEndpoint::new(MediaEndpoint::new(None, Some(receiver)), Vec::new())
}

/// A session over 2.8 Mbit/s and 50 ms with a queue of 300 ms; the return path is as good as unlimited.
fn call(controller: Controller) -> Simulation {
    let mut simulation = Simulation::new(1);
    let (camera, viewer) = (simulation.node("camera"), simulation.node("viewer"));
    let queue = drop_tail(Limit::Time(TimeDelta::from_millis(300)));
    link(&mut simulation, "bottleneck", (camera, viewer), kbps(2800), 50, queue);
    link(&mut simulation, "back", (viewer, camera), kbps(1_000_000), 50, drop_tail(Limit::Unlimited));
    let data = simulation.add_flow(camera, viewer).expect("a way");
    let answers = simulation.add_flow(viewer, camera).expect("a way");
    let camera = Media::new(sender(controller), data, data, Timestamp::ZERO);
    let camera = simulation.add_agent(Box::new(camera));
    let viewer = Media::new(receiver(controller), answers, data, Timestamp::ZERO);
    let viewer = simulation.add_agent(Box::new(viewer));
    simulation.deliver(data, viewer);
    simulation.deliver(answers, camera);
    simulation
}

/// Items are simulated seconds.
#[divan::bench(sample_count = 20, args = CONTROLLERS)]
fn media(bencher: Bencher<'_, '_>, controller: &str) {
    let controller = controller.parse().expect("a name of the table");
    run(bencher, SECONDS, SECONDS, || call(controller));
}
