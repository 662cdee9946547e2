//! The first slow start, and the recovery that follows it.

use rand::RngExt;

use super::*;
use crate::{random, traffic::tcp::Algorithm};

const SEGMENT: f64 = 1448.0;
const RATE: DataRate = DataRate::from_bps(10_000_000);

/// 10 Mbit/s, 50 ms, a buffer of one bandwidth-delay product: 41.7 packets each.
fn bottleneck() -> Path {
    Path { rate: Some(RATE), buffer: RATE.size_in(ms(50)), one_way: ms(25) }
}

fn settings(hystart: bool, prr: bool) -> Settings {
    Settings { hystart: Some(hystart), prr, ..Settings::default() }
}

/// Runs until slow start ends, or until `end`.
fn run_slow_start(network: &mut Network, end: f64) {
    while network.sender().stats().threshold.is_none() && network.now < at(end) {
        network.run(network.now + TimeDelta::from_micros(500));
    }
}

#[test]
fn probe() {
    for rate in [2, 10, 50, 100] {
        for rtt in [10, 50, 100, 200] {
            for share in [0.25, 0.5, 1.0, 2.0] {
                let rate = DataRate::from_bps(rate * 1_000_000);
                let bdp = rate.size_in(ms(rtt));
                let path = Path { rate: Some(rate), buffer: DataSize::from_bytes(((bdp.as_bytes() as f64 * share) as u64).max(15000)), one_way: ms(rtt / 2) };
                for (h, p) in [(true, true), (true, false), (false, true), (false, false)] {
                    let mut network = Network::new(path).with(&settings(h, p), Application::Unlimited);
                    run_slow_start(&mut network, 10.0);
                    let t = network.now;
                    let s = network.sender().stats();
                    network.run(at(2.0));
                    let b = network.sender().stats().acknowledged;
                    network.run(at(10.0));
                    let e = network.sender().stats();
                    let u = (e.acknowledged - b) as f64 * 8.0 / 8.0 / (rate.as_bps() as f64 * 1448.0 / 1500.0);
                    println!(
                        "{rate} {rtt} ms buf {share} h {h} p {p}: exit {t} thr {:?} of {:.1}; red {} ; resent {} timeouts {} util {u:.3}",
                        s.threshold.map(|w| w as f64 / SEGMENT), bdp.as_bytes() as f64 / 1500.0, s.reductions, e.resent, e.timeouts
                    );
                }
            }
        }
    }
}
