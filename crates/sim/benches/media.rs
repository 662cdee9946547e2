//! Simulated seconds per second: an adaptive media session that fills its bottleneck.

use divan::{Bencher, counter::ItemsCount};
use giusto_congestion::{Algorithm, Limits};
use giusto_session::media::{
    MediaEndpoint, MediaReceiver, MediaReceiverConfig, MediaSender, MediaSenderConfig, MediaStream,
    PADDING_TYPE, PayloadFormat, RateRange, pacer_config,
};
use giusto_sim::{
    link::{
        LinkConfig,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    simulation::Simulation,
    traffic::{
        EncodedEndpoint, Media,
        encoder::{MediaSource, PerfectConfig, PerfectEncoder},
    },
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

const SECONDS: u64 = 100;
const CONTROLLERS: [&str; 4] =
    ["gcc:libwebrtc+giusto", "scream:rfc8298+giusto", "scream:d00+giusto", "scream:v2"];
const VIDEO_TYPE: u8 = 96;

fn main() {
    divan::main();
}

const fn mbps(tenths: u64) -> DataRate {
    DataRate::from_bps(tenths * 100_000)
}

fn sender(controller: Algorithm) -> EncodedEndpoint {
    let (min, max) = (mbps(1), mbps(60));
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

fn receiver(controller: Algorithm) -> EncodedEndpoint {
    let config = MediaReceiverConfig {
        payloads: vec![PayloadFormat::video(VIDEO_TYPE), PayloadFormat::padding(PADDING_TYPE)],
        ..MediaReceiverConfig::new(3, "receiver", controller.requirements().feedback)
    };
    let receiver = MediaReceiver::new(config).expect("a receiver");
    EncodedEndpoint::new(MediaEndpoint::new(None, Some(receiver)), Vec::new())
}

/// A session over 2.8 Mbit/s and 50 ms with a queue of 300 ms; the return path is unlimited.
fn call(controller: Algorithm) -> Simulation {
    let mut simulation = Simulation::new(1);
    let (camera, viewer) = (simulation.node("camera"), simulation.node("viewer"));
    let link = |rate| LinkConfig { rate, delay: TimeDelta::from_millis(50).into(), ..LinkConfig::default() };
    let queue = |limit| Box::new(DropTail::new(limit));
    let there = link(RateProfile::Fixed(mbps(28)));
    let limit = Limit::Time(TimeDelta::from_millis(300));
    simulation.add_link("bottleneck", (camera, viewer), &there, queue(limit)).expect("a link");
    let back = link(RateProfile::Unlimited);
    simulation.add_link("back", (viewer, camera), &back, queue(Limit::Unlimited)).expect("a link");

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
fn traces_off(bencher: Bencher<'_, '_>, controller: &str) {
    let controller = controller.parse().expect("a name of the table");
    bencher.counter(ItemsCount::new(SECONDS)).bench_local(|| {
        let mut simulation = call(controller);
        simulation.run_until(Timestamp::from_nanos(SECONDS * 1_000_000_000), &mut ());
        divan::black_box(simulation.events())
    });
}
