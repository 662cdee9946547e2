//! BBR version 3 from outside.

use super::*;

/// 10 Mbit/s with an RTT of 40 ms and a queue of this many bandwidth-delay products of 50 kB.
fn path(products: u64) -> Path {
    Path::bottleneck(10, ms(40), 50_000 * products)
}

fn settings(algorithm: Algorithm) -> Settings {
    Settings { algorithm, ..Settings::default() }
}

#[test]
fn bbr_fills_a_link_with_a_short_queue() {
    for products in [1, 4, 20] {
        let mut network =
            Network::new(path(products)).with(&settings(Algorithm::Bbr), Application::Unlimited);
        network.run(at(5.0));
        let before = network.receiver().stats().delivered;
        let (mut rtts, mut count) = (0.0, 0);
        while network.now < at(65.0) {
            network.run(network.now + ms(10));
            rtts += network.sender().stats().smoothed_rtt.unwrap().as_millis();
            count += 1;
        }
        let utilisation = utilisation(network.receiver().stats().delivered - before, 10.0, 60.0);
        let mean = rtts / f64::from(count);
        let stats = network.sender().stats();
        assert!((0.93..=1.001).contains(&utilisation), "{products} BDP: {utilisation}");
        // CUBIC would hold up to 840 ms in the longest queue.
        assert!((40.0..60.0).contains(&mean), "{products} BDP: {mean}");
        assert_eq!(stats.timeouts, 0);
        assert!(stats.retransmitted * 50 < stats.segments, "{stats:?}");
    }
}

#[test]
fn bbr_probes_for_the_rtt_every_5_s() {
    // draft-ietf-ccwg-bbr-03 §5.3.4.3: half the bandwidth-delay product for 200 ms, unless a lower RTT was seen in 5 s.
    let mut network = Network::new(path(4)).with(&settings(Algorithm::Bbr), Application::Unlimited);
    network.run(at(10.0));
    let (mut probes, mut low, mut longest) = (0, 0, 0);
    while network.now < at(70.0) {
        network.run(network.now + ms(10));
        let is_low = network.sender().stats().window < 35_000;
        probes += u32::from(is_low && low == 0);
        low = if is_low { low + 1 } else { 0 };
        longest = longest.max(low);
    }
    assert!((10..=13).contains(&probes), "{probes} in 60 s");
    assert!((20..=40).contains(&longest), "{} ms", 10 * longest);
}

#[test]
fn bbr_and_cubic_share_a_link() {
    // Neither starves, which is the aim of draft-ietf-ccwg-bbr-03 §3.4 with buffers of 1 BDP or more.
    for products in [1, 4] {
        let mut network = Network::new(path(products));
        for algorithm in [Algorithm::Bbr, Algorithm::Cubic] {
            network = network.with(&settings(algorithm), Application::Unlimited);
        }
        network.run(at(120.0));
        let shares = [0, 1].map(|n| network.pairs[n].receiver.stats().delivered);
        let sum = utilisation(shares[0] + shares[1], 10.0, 120.0);
        let bbr = shares[0] as f64 / (shares[0] + shares[1]) as f64;
        assert!((0.9..=1.001).contains(&sum), "{products} BDP: utilisation {sum}");
        assert!((0.15..=0.85).contains(&bbr), "{products} BDP: {bbr}");
    }
}

#[test]
fn bbr_has_twice_the_rate_of_cubic_under_1_percent_loss() {
    // The loss threshold is 2 % (§2.7), far above the loss that CUBIC withstands.
    let share = |algorithm| {
        let mut number = 0_u64;
        // A fixed pattern without period in the packets of a window.
        let lost = losing(move |_, _| {
            number += 1;
            (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(100)
        });
        let mut network =
            Network::new(path(4)).forward(lost).with(&settings(algorithm), Application::Unlimited);
        network.run(at(60.0));
        utilisation(network.receiver().stats().delivered, 10.0, 60.0)
    };
    let (bbr, cubic) = (share(Algorithm::Bbr), share(Algorithm::Cubic));
    assert!((2.0 * cubic..=1.0).contains(&bbr), "{bbr} {cubic}");
    assert!((0.05..0.4).contains(&cubic), "{cubic}");
}
