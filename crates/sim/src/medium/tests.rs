//! A medium in a simulation.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::*;
use crate::{
    packet::{FlowId, LinkId, Packet},
    random,
    simulation::Simulation,
    testing::{self, at, packets},
    trace::Event,
    traffic::{Pattern, Source},
};

/// Stations that send to an access point at a rate that keeps their queues full, or a given one.
struct Cell {
    simulation: Simulation,
    medium: MediumId,
    flows: Vec<FlowId>,
}

impl Cell {
    fn new(seed: u64, config: WifiConfig) -> Self {
        let mut simulation = Simulation::new(seed);
        let medium = simulation.add_medium("wifi", config).unwrap();
        Self { simulation, medium, flows: Vec::new() }
    }

    /// Adds a flow of packets of `bytes` at `bps` over a link of its own.
    fn flow(&mut self, from: &str, to: &str, station: Station, bps: u64, bytes: u64) -> LinkId {
        self.add(from, to, station, Pattern::constant(DataRate::from_bps(bps), DataSize::from_bytes(bytes)))
    }

    fn add(&mut self, from: &str, to: &str, station: Station, pattern: Pattern) -> LinkId {
        let number = self.flows.len();
        let ends = (self.simulation.node(from), self.simulation.node(to));
        let config = testing::link(DataRate::from_bps(52_000_000), TimeDelta::ZERO);
        let link = self.simulation.add_link(&format!("link {number}"), ends, &config, packets(100)).unwrap();
        self.simulation.join(link, self.medium, station).unwrap();
        let flow = self.simulation.add_flow_via(ends.0, &[link]).unwrap();
        let source = Source::new(flow, pattern, random::stream(1, "source")).unwrap();
        self.simulation.add_agent(Box::new(source));
        self.flows.push(flow);
        link
    }

    fn counters(&self) -> MediumCounters {
        self.simulation.medium(self.medium).unwrap().counters()
    }

    /// The packets delivered in `seconds`, with their times.
    fn delivered(&mut self, seconds: u64) -> Vec<(Timestamp, Packet)> {
        let mut trace: Vec<(Timestamp, Event)> = Vec::new();
        self.simulation.run_until(at(1000 * seconds), &mut trace);
        let delivered = trace.into_iter().filter_map(|(now, event)| match event {
            Event::Delivered { packet } => Some((now, packet)),
            _ => None,
        });
        delivered.collect()
    }

    /// Delivered rates in Mbit/s after `seconds`.
    fn run(&mut self, seconds: u64) -> Vec<f64> {
        self.simulation.run_until(at(1000 * seconds), &mut ());
        let rate = |&flow| self.simulation.flow(flow).delivered_bytes as f64 * 8e-6 / seconds as f64;
        self.flows.iter().map(rate).collect()
    }
}

fn station() -> Station {
    Station::default()
}

/// The throughput of `n` saturated stations as a share of the channel rate, and the collision probability: Bianchi 2000, equations
/// (7), (9) and (13), basic access, for the frame times of his table II.
fn bianchi(n: f64, window: f64, stages: i32) -> (f64, f64) {
    // Equation (7) without its singularity at p = 1/2.
    let tau = |p: f64| {
        let doublings: f64 = (0..stages).map(|stage| (2.0 * p).powi(stage)).sum();
        2.0 / (1.0 + window + p * window * doublings)
    };
    let collides = |tau: f64| 1.0 - (1.0 - tau).powf(n - 1.0);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let p = f64::midpoint(low, high);
        if collides(tau(p)) > p { low = p } else { high = p }
    }
    let tau = tau(low);
    let transmits = 1.0 - (1.0 - tau).powf(n);
    let succeeds = n * tau * (1.0 - tau).powf(n - 1.0) / transmits;
    // Microseconds: payload 8184 bits, headers 400, ACK 240, SIFS 28, DIFS 128, slot 50, propagation 1.
    let (payload, header) = (8184.0, 400.0);
    let success = header + payload + 28.0 + 1.0 + 240.0 + 128.0 + 1.0;
    let collision = header + payload + 128.0 + 1.0;
    let slot =
        (1.0 - transmits) * 50.0 + transmits * succeeds * success + transmits * (1.0 - succeeds) * collision;
    (succeeds * transmits * payload / slot, low)
}

/// The physical layer of Bianchi's table II: 1 Mbit/s, W = 32 and three or five doublings.
fn frequency_hopping(window: u32, stages: u32) -> WifiConfig {
    WifiConfig {
        slot: TimeDelta::from_micros(50),
        sifs: TimeDelta::from_micros(28),
        window: (window - 1, (window << stages) - 1),
        retries: u32::MAX,
        aggregation: 1,
        // Headers of 400 bits; ACK of 240 bits and two propagation delays of 1 µs.
        phy: Phy::Constant {
            overhead: TimeDelta::from_micros(400),
            acknowledgement: TimeDelta::from_micros(242),
        },
        extended_space: false,
    }
}

#[test]
fn saturation_throughput_is_that_of_bianchi() {
    for (window, stages) in [(32, 3), (32, 5), (128, 3)] {
        for n in [2_u32, 5, 10, 20, 50] {
            let mut cell = Cell::new(1, frequency_hopping(window, stages));
            let bianchi_station =
                Station { rate: DataRate::from_bps(1_000_000), access: Access::Dcf, ..station() };
            for number in 0..n {
                cell.flow(&format!("sta {number}"), "ap", bianchi_station, 1_000_000, 1023);
            }
            let rates = cell.run(60);
            let ours = rates.iter().sum::<f64>();
            let (theory, probability) = bianchi(n.into(), window.into(), stages as i32);
            let counters = cell.counters();
            // The share of frames that collide.
            let alone = counters.accesses - counters.collisions;
            let collided = (counters.frames - alone) as f64 / counters.frames as f64;
            assert!((ours / theory - 1.0).abs() < 0.02, "n = {n}: {ours} against {theory}");
            assert!((collided - probability).abs() < 0.02, "n = {n}: {collided} against {probability}");
        }
    }
}

#[test]
fn stations_and_access_point_share_the_medium() {
    // The access point has one share of the accesses, however many stations it sends to.
    let mut cell = Cell::new(1, WifiConfig::default());
    for number in 0..4 {
        cell.flow(&format!("sta {number}"), "ap", station(), 50_000_000, 1200);
    }
    for number in 0..4 {
        cell.flow("ap", &format!("sta {number}"), station(), 50_000_000, 1200);
    }
    let rates = cell.run(20);
    let (up, down) = (rates[..4].iter().sum::<f64>(), rates[4..].iter().sum::<f64>());
    assert!((3.6..4.4).contains(&(up / down)), "{up} up, {down} down");
    assert!(rates[4..].iter().all(|rate| (rate / (down / 4.0) - 1.0).abs() < 0.02), "{rates:?}");
    // RFC 8869 §3.2.3: about 20 Mbit/s for applications in all.
    assert!((20.0..24.0).contains(&(up + down)), "{}", up + down);
}

#[test]
fn a_slow_station_slows_all_down() {
    // Heusse et al., "Performance Anomaly of 802.11b", 2003: all get the throughput of the slowest, for each wins as often.
    let mut cell = Cell::new(1, WifiConfig::default());
    for (name, mbps) in [("fast", 52), ("fast too", 54), ("slow", 2)] {
        let station = Station { rate: DataRate::from_bps(mbps * 1_000_000), ..station() };
        cell.flow(name, "ap", station, 50_000_000, 1200);
    }
    let rates = cell.run(60);
    let least = rates.iter().copied().fold(f64::MAX, f64::min);
    assert!(rates.iter().all(|rate| rate / least < 1.1), "{rates:?}");
    // One packet of each takes 5408 + 276 + 248 µs, with backoff about 6.15 ms: 1.56 Mbit/s without collisions. One in eight slow
    // frames collides, and costs its 5.1 ms.
    assert!((1.2..1.45).contains(&least), "{rates:?}");
}

#[test]
fn one_station_has_the_throughput_of_hand_calculation() {
    // Best effort at 52 Mbit/s, 1200 B: SIFS 16, three slots of 9, 7.5 slots of backoff in the mean, frame 232, SIFS 16, ACK 28 µs.
    let alone = 9600.0 / (16.0 + 27.0 + 67.5 + 232.0 + 16.0 + 28.0);
    // Of 64 packets only 52 fit into 65 535 B: 52 · 1244 B are 2489 symbols: 9996 µs in a cycle of 10 154 µs.
    for (aggregation, expected) in [(1, alone * 0.995..alone * 1.005), (8, 41.0..45.0), (64, 48.5..49.7)] {
        let mut cell = Cell::new(1, WifiConfig { aggregation, ..WifiConfig::default() });
        cell.flow("sta", "ap", station(), 60_000_000, 1200);
        let rate = cell.run(10)[0];
        assert!(expected.contains(&rate), "{aggregation}: {rate}, not {expected:?}");
        assert_eq!(cell.counters().collisions, 0);
    }
}

#[test]
fn packets_in_error_are_sent_again_and_arrive_in_order() {
    let config = WifiConfig { aggregation: 16, ..WifiConfig::default() };
    let mut cell = Cell::new(1, config);
    let link = cell.flow("sta", "ap", Station { error: 0.2, ..station() }, 20_000_000, 1200);
    let order: Vec<u64> = cell.delivered(5).iter().map(|(_, packet)| packet.sequence).collect();
    assert!(order.is_sorted() && order.len() > 10_000, "{}", order.len());
    let counters = cell.counters();
    // Each packet is sent 1/(1 − 0.2) times; 0.2^7 of them are given up.
    let times = counters.transmissions as f64 / order.len() as f64;
    assert!((1.24..1.26).contains(&times), "{times}");
    assert_eq!(cell.simulation.link(link).counters().lost_packets, counters.given_up_packets);
    assert!(cell.simulation.link(link).is_conserved());
    // When nothing arrives, each packet is sent seven times, as dot11ShortRetryLimit says, and then lost.
    let mut cell = Cell::new(1, WifiConfig::default());
    let link = cell.flow("sta", "ap", Station { error: 1.0, ..station() }, 20_000_000, 1200);
    assert!(cell.run(2)[0] < 1e-9);
    let (counters, lost) = (cell.counters(), cell.simulation.link(link).counters().lost_packets);
    assert_eq!((counters.transmissions / 7, lost), (counters.given_up_packets, counters.given_up_packets));
    assert!(lost > 100, "{lost}");
}

#[test]
fn higher_access_categories_win_more_often() {
    let mut cell = Cell::new(1, WifiConfig::default());
    for (name, access) in Access::ALL.into_iter().filter(|(_, access)| *access != Access::Dcf) {
        cell.flow(name, "ap", Station { access, ..station() }, 50_000_000, 1200);
    }
    let rates = cell.run(20);
    assert!(rates.is_sorted() && rates[3] > 4.0 * rates[1] && rates[0] > 0.0, "{rates:?}");
    // Within one node, categories do not collide: the higher is sent.
    let mut cell = Cell::new(1, WifiConfig::default());
    for access in [Access::BestEffort, Access::Voice] {
        cell.flow("sta", "ap", Station { access, ..station() }, 50_000_000, 1200);
    }
    let rates = cell.run(20);
    assert!(rates[1] > rates[0] && cell.counters().collisions == 0, "{rates:?}");
}

#[test]
fn the_medium_is_half_duplex_and_its_runs_repeat() {
    let run = |seed| {
        let mut cell = Cell::new(seed, WifiConfig { aggregation: 4, ..WifiConfig::default() });
        for number in 0..5 {
            let sta = format!("sta {number}");
            cell.flow(&sta, "ap", Station { error: 0.05, ..station() }, 3_000_000, 1200);
            cell.flow("ap", &sta, Station { error: 0.05, ..station() }, 3_000_000, 300);
        }
        let rates = cell.run(5);
        let counters = cell.counters();
        assert!(counters.busy < TimeDelta::from_millis(5_000), "{counters:?}");
        assert!(counters.busy > TimeDelta::from_millis(3_000), "{counters:?}");
        (rates, counters)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn an_idle_medium_is_used_at_the_next_slot() {
    // A packet each 10 ms: SIFS and AIFS are long over, so it waits for a slot boundary, at most 9 µs, and takes 276 µs.
    let mut cell = Cell::new(1, WifiConfig::default());
    cell.flow("sta", "ap", station(), 960_000, 1200);
    let delivered = cell.delivered(1);
    let delays: Vec<f64> = delivered.iter().map(|(now, packet)| (*now - packet.sent).as_micros()).collect();
    let is_short = |delay| (276.0..=285.0).contains(delay);
    assert!(delays.len() > 98 && delays[1..].iter().all(is_short), "{delays:?}");
}

#[test]
fn packets_that_come_while_the_medium_is_busy_wait_for_a_random_backoff() {
    // Each 10 ms a frame of the access point, and during it a packet at two stations whose backoffs are long over.
    let mut cell = Cell::new(1, WifiConfig::default());
    cell.flow("ap", "sta", station(), 1_200_000, 1500);
    for name in ["one", "two"] {
        let pattern = Pattern::constant(DataRate::from_bps(160_000), DataSize::from_bytes(200));
        cell.add(name, "ap", station(), Pattern { start: Timestamp::from_nanos(200_000), ..pattern });
    }
    cell.run(100);
    // They collide if both draw the same of 16 backoffs, and again with 1/32 (+ 1/64 …).
    let expected = 10_000.0 / 16.0 * (1.0 + 1.0 / 32.0);
    let collisions = cell.counters().collisions as f64;
    assert!((collisions / expected - 1.0).abs() < 0.12, "{collisions}, expected {expected}");
}

#[test]
fn rejects_invalid_media_and_stations() {
    let message = |config: WifiConfig| config.validate().unwrap_err().to_string();
    assert!(message(WifiConfig { aggregation: 65, ..WifiConfig::default() }).contains("from 1 to 64"));
    assert!(message(WifiConfig { window: (31, 15), ..WifiConfig::default() }).contains("found 31 to 15"));
    let slot = TimeDelta::ZERO;
    assert!(message(WifiConfig { slot, ..WifiConfig::default() }).contains("slot must be above"));
    assert!(Station { error: 1.5, ..station() }.validate().is_err());
    assert!(Station { rate: DataRate::ZERO, ..station() }.validate().is_err());
}
