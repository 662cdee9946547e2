//! The cells under full load, against figures of 3GPP.

use giusto_lte::{
    city::{Call, CallPlan, City, CityConfig, Opposite, Workload},
    radio::link::Direction,
};
use giusto_sim::{
    link::queue::{DropTail, Limit, Queue},
    random,
    traffic::{Pattern, Sink, Source},
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// Users whose bearers are never empty.
struct FullBuffer;

impl Workload for FullBuffer {
    fn call(&mut self, plan: &CallPlan) -> Result<Call, String> {
        let pattern = Pattern::constant(DataRate::from_bps(6_000_000), DataSize::from_bytes(1500));
        let source =
            Source::new(plan.flows.0, pattern, random::stream(1, &format!("source {}", plan.number)));
        let sender = Box::new(source.map_err(|error| error.to_string())?);
        Ok(Call { sender, receiver: Box::new(Sink), video_ssrc: 0 })
    }

    fn queue(&mut self) -> Box<dyn Queue> {
        Box::new(DropTail::new(Limit::Packets(60)))
    }
}

fn seconds(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

/// Bit rate per cell of decoded blocks, and the counters.
fn throughput(direction: Direction, speed_kmh: f64) -> f64 {
    let mut config = CityConfig {
        direction,
        opposite: Opposite::Fixed,
        users_per_cell: 10.0,
        // 210 users arrive within the first second and stay.
        call: TimeDelta::from_seconds(4),
        files: None,
        ..CityConfig::default()
    };
    config.deployment.speed_mps = speed_kmh / 3.6;
    let mut workload = FullBuffer;
    let mut city = City::new(config, &mut workload).unwrap();
    let started = std::time::Instant::now();
    city.run_until(seconds(5)).unwrap();
    let before = city.mac(direction).unwrap();
    city.run_until(seconds(9)).unwrap();
    let after = city.mac(direction).unwrap();
    let bps = (after.decoded_bits - before.decoded_bits) as f64 / 4.0 / 21.0;
    eprintln!(
        "{direction:?} {speed_kmh} km/h: {:.2} Mbit/s per cell, first error {:.3}, used {:.2}, two streams {:.2}, lost {} of {}, users {}, IoT {:?}, {:.1} s, events {}",
        bps / 1e6,
        (after.first_failed - before.first_failed) as f64 / (after.first_blocks - before.first_blocks) as f64,
        after.used_ratio(),
        after.two_streams as f64 / after.transmissions as f64,
        after.lost_blocks,
        after.first_blocks,
        city.people().count(),
        city.uplink().map(giusto_lte::mac::Uplink::interference_over_noise_db),
        started.elapsed().as_secs_f64(),
        city.events(),
    );
    bps
}

#[test]
fn full_buffer() {
    for speed in [3.0, 30.0] {
        for direction in [Direction::Downlink, Direction::Uplink] {
            throughput(direction, speed);
        }
    }
}
