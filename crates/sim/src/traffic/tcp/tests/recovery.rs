//! Loss recovery after outages, lost retransmissions, lost tails and spurious timeouts.

use super::*;

const ALGORITHMS: [Algorithm; 2] = [Algorithm::NewReno, Algorithm::Cubic];

/// 8 Mbit/s with a queue of 200 packets and an RTT of 40 ms.
fn path() -> Path {
    Path::bottleneck(8, ms(40), 200 * 1500)
}

fn with_threshold(segments: u64) -> Settings {
    Settings { initial_threshold: Some(DataSize::from_bytes(segments * 1448)), ..Settings::default() }
}

/// Bytes delivered in order from one time to another.
fn delivered(network: &mut Network, from: f64, to: f64) -> u64 {
    network.run(at(from));
    let before = network.receiver().stats().delivered;
    network.run(at(to));
    network.receiver().stats().delivered - before
}

#[test]
fn a_pause_of_3_s_is_found_spurious_and_undone() {
    for algorithm in ALGORITHMS {
        for frto in [true, false] {
            let settings = Settings { algorithm, frto, ..Settings::default() };
            let mut network = Network::new(path()).with(&settings, Application::Unlimited);
            network.paused = Some((at(10.0), at(13.0)));
            network.run(at(10.0));
            let before = network.sender().stats();
            network.run(at(13.6));
            let after = network.sender().stats();
            let case = format!("{algorithm:?}, F-RTO {frto}: {after:?}");
            assert!((1..=4).contains(&(after.timeouts - before.timeouts)), "{case}");
            assert_eq!(after.spurious_timeouts, u64::from(frto), "{case}");
            // The loss probe and the first segment, once per timeout; otherwise the window that waited in the queue.
            let again = after.retransmitted - before.retransmitted;
            assert_eq!(again < 10, frto, "{again} retransmissions, {case}");
            assert_eq!(after.window >= before.window, frto, "{case}");
            // 8 Mbit/s less headers are 1,930,667 B, and two segments of rounding.
            let bytes = delivered(&mut network, 13.6, 15.6);
            // A repaired hole delivers the data above it at once, at most a window.
            let max = if frto { 1_933_600 } else { 1_933_600 + before.window };
            assert!((1_800_000..=max).contains(&bytes), "{bytes}, {case}");
        }
    }
}

#[test]
fn transmission_resumes_within_a_timeout_of_an_outage() {
    for algorithm in ALGORITHMS {
        for length in [0.3, 1.0, 3.0, 10.0] {
            let settings = Settings { algorithm, ..Settings::default() };
            let outage = losing(move |_, segment| sent_between(segment, 10.0, 10.0 + length));
            let mut network = Network::new(path()).forward(outage).with(&settings, Application::Unlimited);
            network.run(at(10.0 + length));
            let stats = network.sender().stats();
            assert_eq!(stats.spurious_timeouts, 0);
            // The timeout that runs when the link returns; then slow start repairs the window.
            let wait = stats.rto.as_seconds() + 2.0 * 0.04;
            let first = delivered(&mut network, 10.0 + length, 10.0 + length + wait);
            assert!(first >= 1448, "{algorithm:?}, {length} s: {first} bytes within {wait} s");
            let rate = delivered(&mut network, 10.0 + length + wait + 1.0, 10.0 + length + wait + 4.0);
            assert!((2_600_000..=2_900_000).contains(&rate), "{algorithm:?}, {length} s: {rate}");
        }
    }
}

#[test]
fn lost_retransmissions_are_detected_in_an_rtt_each() {
    for copies in 1..=4 {
        // The threshold keeps the queue short, so an RTT is little above 100 ms.
        let mut lost = 0;
        let is_lost = losing(move |_, segment| {
            lost += u32::from(segment.sequence == 100 * 1448);
            segment.sequence == 100 * 1448 && lost <= copies
        });
        let network = Network::new(Path::bottleneck(12, ms(100), 200 * 1500)).forward(is_lost).logged();
        let mut network = network.with(&with_threshold(20), Application::Bytes(1000 * 1448));
        network.run(at(30.0));
        let stats = network.sender().stats();
        let counts = (stats.timeouts, stats.retransmitted, stats.transfers);
        assert_eq!(counts, (0, u64::from(copies), 1), "{stats:?}");
        let data = network.data();
        let times: Vec<_> =
            data.iter().filter(|sent| sent.segment.sequence == 100 * 1448).map(|sent| sent.time).collect();
        for pair in times.windows(2) {
            let wait = (pair[1] - pair[0]).as_seconds();
            assert!((0.1..=0.13).contains(&wait), "{copies} copies: {wait} s");
        }
        // Each lost retransmission is one more indication of congestion (RFC 5681 §4.3).
        assert_eq!(stats.reductions, u64::from(copies));
    }
}

#[test]
fn a_probe_repairs_a_lost_tail_without_a_timeout() {
    // RFC 8985 §3.2 and §9.3 (2 RTTs for the probe): the tail of a transfer of 10 segments is lost.
    for lost in [1_u64, 2, 5, 9] {
        let run = |rack| {
            let settings = Settings { rack, ..Settings::default() };
            let tail = losing(move |n, _| (10 - lost..10).contains(&n));
            let network = Network::new(Path::free(ms(100))).forward(tail);
            let mut network = network.with(&settings, Application::Bytes(10 * 1448));
            network.run(at(30.0));
            network.sender().stats()
        };
        let (with, without) = (run(true), run(false));
        assert_eq!((with.timeouts, with.probes, with.transfers), (0, 1, 1), "{lost} lost: {with:?}");
        assert_eq!((without.timeouts, without.probes), (1, 0), "{lost} lost: {without:?}");
        let time = |stats: &crate::traffic::tcp::TcpStats| stats.transfer_time.as_seconds();
        // Handshake, data, the probe two RTTs after the last acknowledgement, its acknowledgement, and the others.
        // More losses take more RTTs: one segment per acknowledgement (RFC 9937), after a probe as after a timeout.
        let max = if lost <= 2 { 0.66 } else { 1.05 };
        assert!((0.5..max).contains(&time(&with)), "{lost} lost: {}", time(&with));
        if lost <= 2 {
            assert!(time(&with) < time(&without), "{lost} lost: {} {}", time(&with), time(&without));
        }
        if lost == 1 {
            // The data leaves at 0.1 s. Its acknowledgements restart the timer at 0.2 s, when the RTT is 100 ms with a deviation of
            // 37.5 ms (50 * 3/4): the timeout is 300 ms, 200 ms above the RTT. The ninth segment is acknowledged after a delay, at
            // 0.24 s. The transfer ends one RTT after the timeout.
            assert!((0.63..0.66).contains(&time(&without)) && without.retransmitted == 1, "{without:?}");
        }
        // The window is reduced once, also if the probe itself was the repair (RFC 8985 §7.4.2), unless nothing follows.
        assert!(with.reductions <= 1, "{with:?}");
    }
}

#[test]
fn a_probe_of_new_data_reduces_nothing() {
    // The acknowledgements of one window are late by more than two RTTs, but less than a timeout.
    let late = |_, segment: &Segment| {
        if sent_between(segment, 1.0, 1.05) { Fate::Delayed(ms(100)) } else { Fate::Delivered }
    };
    let network = Network::new(Path::free(ms(40))).backward(late);
    let mut network = network.with(&with_threshold(20), Application::Unlimited);
    network.run(at(3.0));
    let stats = network.sender().stats();
    assert!(stats.probes >= 1, "{stats:?}");
    assert_eq!((stats.timeouts, stats.reductions, stats.retransmitted), (0, 0, 0), "{stats:?}");
}

#[test]
fn reordering_within_a_quarter_of_the_rtt_causes_no_retransmission() {
    // After reordering has been seen once, RACK waits a quarter of the minimum RTT (RFC 8985 §6.2): 25 ms.
    for (late, expected) in [(ms(10), 0), (ms(22), 0), (ms(35), 1)] {
        let run = |rack| {
            let mut network = Network::new(Path::milliseconds())
                .forward(move |n, segment| match n {
                    // Late by one packet, which is no reason to retransmit.
                    200 if segment.length > 0 => Fate::Delayed(TimeDelta::from_micros(1500)),
                    _ if segment.length > 0 && n > 300 && n % 200 == 0 => Fate::Delayed(late),
                    _ => Fate::Delivered,
                })
                .with(&Settings { rack, ..with_threshold(40) }, Application::Bytes(1000 * 1448));
            network.run(at(60.0));
            (network.sender().stats(), network.receiver().stats())
        };
        let (with, received) = run(true);
        assert_eq!(with.retransmitted > 0, expected > 0, "{late:?}: {with:?}");
        // A report of a duplicate widens the window (RFC 2883), so the same delay deceives it once.
        assert_eq!((with.retransmitted, received.duplicates), (expected, expected), "{late:?}");
        assert!(run(false).0.retransmitted > expected, "{late:?}");
    }
}
