//! Classic ECN.

use super::*;

const SEGMENT: u64 = 1460;

fn settings(algorithm: Algorithm, ecn: bool) -> Settings {
    Settings {
        ecn,
        algorithm,
        timestamps: false,
        segments_per_ack: 1,
        initial_threshold: Some(DataSize::from_bytes(40 * SEGMENT)),
        ..Settings::default()
    }
}

/// Marks data segments sent within an interval.
fn marking(from: f64, to: f64) -> Network {
    // The rule has no clock. It uses the timestamp of the segment, which is set with or without the option.
    Network::new(Path::free(ms(100))).logged().forward(move |_, segment| {
        let marked = segment.length > 0 && sent_between(segment, from, to);
        if marked { Fate::Marked } else { Fate::Delivered }
    })
}

#[test]
fn marks_in_one_window_reduce_it_once_without_loss() {
    for (algorithm, share) in [(Algorithm::NewReno, 0.5), (Algorithm::Cubic, 0.7)] {
        let mut network = marking(1.95, 2.05).with(&settings(algorithm, true), Application::Unlimited);
        network.run(at(2.05));
        let before = network.sender().stats().window;
        assert!(before > 40 * SEGMENT && network.sender().stats().ecn_reductions == 0);
        network.run(at(2.5));
        let stats = network.sender().stats();
        let counts = (stats.reductions, stats.ecn_reductions, stats.retransmitted, stats.timeouts);
        assert_eq!(counts, (1, 1, 0, 0), "{algorithm:?}");
        let after = stats.threshold.unwrap() as f64 / before as f64;
        assert!((after - share).abs() < 0.03, "{after}");
        let with = |sent: &[Sent], flag| sent.iter().filter(|sent| sent.segment.flags.contains(flag)).count();
        assert_eq!(with(&network.data(), Flags::CWR), 1);
        let echoes = network.acks();
        let echoing = with(&echoes, Flags::ECE);
        // A window of marked segments is echoed until the reduction is announced one RTT later.
        assert!((40..=130).contains(&echoing), "{echoing}");
        assert!(!echoes.last().unwrap().segment.flags.contains(Flags::ECE));
    }
}

#[test]
fn continuous_marks_reduce_the_window_once_per_rtt() {
    let mut network = marking(2.0, 2.4).with(&settings(Algorithm::NewReno, true), Application::Unlimited);
    network.run(at(3.0));
    let stats = network.sender().stats();
    assert!((3..=5).contains(&stats.reductions), "{stats:?}");
    assert_eq!(stats.reductions, stats.ecn_reductions);
}

#[test]
fn only_new_data_is_ecn_capable_after_negotiation() {
    for ecn in [true, false] {
        let network = Network::new(Path::free(ms(100))).logged().forward(losing(|n, _| n == 100));
        let mut network = network.with(&settings(Algorithm::NewReno, ecn), Application::Unlimited);
        network.run(at(3.0));
        assert_eq!(network.sender().stats().retransmitted, 1);
        let [forward, backward] = network.log.as_ref().unwrap();
        assert!(backward.iter().all(|sent| sent.ecn == Ecn::NotEct));
        let mut highest = 0;
        for sent in forward {
            let new = sent.segment.length > 0 && sent.segment.sequence >= highest;
            assert_eq!(sent.ecn, if new && ecn { Ecn::Ect0 } else { Ecn::NotEct }, "{sent:?}");
            highest = highest.max(sent.segment.end());
        }
    }
}

#[test]
fn ecn_is_unused_if_the_receiver_does_not_support_it() {
    let mut network = marking(0.0, 9.0).with(&settings(Algorithm::NewReno, true), Application::Unlimited);
    network.pairs[0].receiver = Receiver::new(FlowId(1), settings(Algorithm::NewReno, false)).unwrap();
    network.run(at(2.0));
    assert!(network.data().iter().all(|sent| sent.ecn == Ecn::NotEct));
    assert_eq!(network.sender().stats().reductions, 0);
}
