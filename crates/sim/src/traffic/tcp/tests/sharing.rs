//! Several flows at one bottleneck.

use rand::RngExt;

use super::*;
use crate::{random, traffic::tcp::Algorithm};

/// Jain's fairness index: 1 for equal shares, 1/n if one flow has everything.
pub(super) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

#[test]
fn equal_flows_share_a_bottleneck_and_fill_it() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let rate = DataRate::from_bps(16_000_000);
        let rtt = ms(60);
        let path = Path { rate: Some(rate), buffer: rate.size_in(rtt), one_way: rtt / 2 };
        let mut network = Network::new(path);
        let mut random = random::stream(11, "starts");
        let settings = Settings { algorithm, ..Settings::default() };
        for flow in 0..6 {
            let start = at(random.random_range(0.0..5.0));
            let sender = Sender::new(FlowId(flow), settings.clone(), Application::Unlimited).unwrap();
            network = network.with_sender(&settings, sender.starting_at(start));
        }
        let acknowledged = |network: &Network| -> Vec<u64> {
            network.pairs.iter().map(|pair| pair.sender.stats().acknowledged).collect()
        };
        network.run(at(20.0));
        let before = acknowledged(&network);
        network.run(at(200.0));
        let shares: Vec<f64> = acknowledged(&network)
            .iter()
            .zip(before)
            .map(|(after, before)| (after - before) as f64)
            .collect();
        let fairness = jain(&shares);
        // 1448 of 1500 bytes are data.
        let max = rate.as_bps() as f64 / 8.0 * 180.0 * 1448.0 / 1500.0;
        let utilisation = shares.iter().sum::<f64>() / max;
        let timeouts: u64 = network.pairs.iter().map(|pair| pair.sender.stats().timeouts).sum();
        println!("{algorithm:?}: Jain {fairness:.4}, utilisation {utilisation:.4}, timeouts {timeouts}");
        assert!((0.95..=1.0).contains(&fairness), "{fairness}: {shares:?}");
        assert!((0.95..=1.001).contains(&utilisation), "{utilisation}");
        assert!(network.overflows > 100, "{}", network.overflows);
    }
}

#[test]
fn one_flow_fills_a_link_with_a_buffer_of_one_bdp() {
    for (algorithm, sack) in
        [(Algorithm::NewReno, true), (Algorithm::NewReno, false), (Algorithm::Cubic, true)]
    {
        let rate = DataRate::from_bps(10_000_000);
        let path = Path { rate: Some(rate), buffer: rate.size_in(ms(50)), one_way: ms(25) };
        let settings = Settings { algorithm, sack, ..Settings::default() };
        let mut network = Network::new(path).with(&settings, Application::Unlimited);
        network.run(at(10.0));
        let before = network.sender().stats().acknowledged;
        network.run(at(110.0));
        let rate_found = (network.sender().stats().acknowledged - before) as f64 * 8.0 / 100.0;
        let utilisation = rate_found / (rate.as_bps() as f64 * 1448.0 / 1500.0);
        let stats = network.sender().stats();
        println!(
            "{algorithm:?} sack {sack}: {utilisation:.4}, {} reductions, {} timeouts",
            stats.reductions, stats.timeouts
        );
        assert!((0.95..=1.001).contains(&utilisation), "{utilisation}");
        assert!(stats.reductions >= 3, "{stats:?}");
    }
}
