//! The first slow start and the recovery after it.

use rand::RngExt;

use super::*;
use crate::{random, traffic::tcp::SackBlocks};

const SEGMENT: u64 = 1448;

/// Paths on which slow start overshoots by different amounts: rate in Mbit/s, RTT in milliseconds.
const PATHS: [(u64, i64); 7] = [(10, 40), (10, 50), (10, 100), (20, 60), (30, 80), (50, 50), (100, 50)];

/// A path with a buffer of `buffer` bandwidth-delay products (BDP). Also returns the BDP in data bytes.
fn path(rate: u64, rtt: i64, buffer: u64) -> (Path, f64) {
    let product = DataRate::from_bps(rate * 1_000_000).size_in(ms(rtt)).as_bytes();
    (Path::bottleneck(rate, ms(rtt), buffer * product), product as f64 * SEGMENT as f64 / 1500.0)
}

fn settings(hystart: bool, prr: bool) -> Settings {
    Settings { hystart: Some(hystart), prr, ..Settings::default() }
}

/// Runs until slow start ends.
fn run_slow_start(network: &mut Network) {
    while network.sender().stats().threshold.is_none() {
        network.run(network.now + TimeDelta::from_micros(500));
        assert!(network.now < at(20.0), "slow start does not end");
    }
}

#[test]
fn hystart_ends_slow_start_without_loss_in_a_long_buffer() {
    // An RTT sample reflects the data in flight one RTT earlier: it has risen by an eighth when 1.125 BDP were in flight,
    // and by then the window is two to four times that, since it doubles per round. Five rounds with a growth of a quarter
    // follow: the window ends between 2.25 * 1.25^4 = 5.5 and 4.5 * 1.25^5 = 13.7 BDP. Rounds that begin within a burst
    // detect the rise earlier.
    for (rate, rtt) in [(20, 60), (30, 80), (50, 50), (100, 50)] {
        let (path, product) = path(rate, rtt, 8);
        let mut network = Network::new(path).with(&settings(true, true), Application::Unlimited);
        run_slow_start(&mut network);
        let stats = network.sender().stats();
        let share = stats.threshold.unwrap() as f64 / product;
        assert_eq!((network.overflows, stats.retransmitted, stats.reductions), (0, 0, 0));
        assert!((5.5..9.0).contains(&share), "{rate} Mbit/s, {rtt} ms: {share}");
        assert!(stats.window >= stats.threshold.unwrap());

        let mut network = Network::new(path).with(&settings(false, true), Application::Unlimited);
        run_slow_start(&mut network);
        assert!(network.overflows > 100 && network.sender().stats().reductions == 1);
    }
}

#[test]
fn hystart_reduces_the_overshoot_in_a_buffer_of_one_bdp() {
    // It cannot prevent the overshoot: when the rise is detected, the window exceeds 2.25 BDP, and the path holds 2 BDP. In
    // the laboratory measurements of RFC 9406 §5 with such buffers, half as many bytes were retransmitted.
    let mut total = [0, 0];
    for (rate, rtt) in PATHS {
        let (path, product) = path(rate, rtt, 1);
        let [slower, plain] = [true, false].map(|hystart| {
            let mut network = Network::new(path).with(&settings(hystart, true), Application::Unlimited);
            run_slow_start(&mut network);
            let window = network.sender().stats().threshold.unwrap() as f64 / 0.7;
            // Long enough for the recovery, and for a second one if the reduced window still exceeds the path.
            network.run(network.now + ms(15 * rtt));
            let stats = network.sender().stats();
            assert_eq!(stats.timeouts, 0, "{rate} Mbit/s, {rtt} ms hystart {hystart}");
            assert!(stats.pipe <= stats.window);
            (stats.retransmitted, window / (2.0 * product))
        });
        assert!((1.0..2.0).contains(&slower.1), "{slower:?}");
        assert!(slower.0 < plain.0 && slower.1 < plain.1, "{slower:?} {plain:?}");
        total[0] += slower.0;
        total[1] += plain.0;
    }
    let share = f64::from(total[0] as u32) / f64::from(total[1] as u32);
    assert!((0.1..0.5).contains(&share), "{share}");
}

#[test]
fn noise_and_delayed_acks_do_not_end_slow_start() {
    for segments_per_ack in [1, 2] {
        for noise_us in [1, 2000] {
            let grown = |hystart| {
                let settings =
                    Settings { segments_per_ack, slow_start_limit: Some(8), ..settings(hystart, true) };
                let mut random = random::stream(4, "noise");
                let mut latest = Timestamp::ZERO;
                let mut network = Network::new(Path::free(ms(50)))
                    .backward(move |_, segment| {
                        // Keeps the order.
                        let noise = TimeDelta::from_micros(random.random_range(0..noise_us));
                        latest = latest.max(segment.stamp + noise);
                        Fate::Delayed(latest - segment.stamp)
                    })
                    .with(&settings, Application::Unlimited);
                network.run(at(0.5));
                let stats = network.sender().stats();
                assert_eq!(stats.threshold, None);
                stats.window / SEGMENT
            };
            let (with, without) = (grown(true), grown(false));
            // After the handshake ten segments double eight or nine times.
            assert!((2500..=5120).contains(&with), "{with}");
            assert_eq!(with, without, "{segments_per_ack} per acknowledgement, {noise_us} us");
        }
    }
}

#[test]
fn slow_start_resumes_after_a_temporary_rtt_rise() {
    // An RTT increase of 20 ms, temporary or permanent.
    let windows = |until: f64, hystart| {
        let receive_window = DataSize::from_bytes(1 << 30);
        let settings = Settings { slow_start_limit: Some(8), receive_window, ..settings(hystart, true) };
        let late = move |_, segment: &Segment| {
            if sent_between(segment, 0.22, until) { Fate::Delayed(ms(20)) } else { Fate::Delivered }
        };
        let network = Network::new(Path::free(ms(50))).backward(late);
        let mut network = network.with(&settings, Application::Unlimited);
        [0.45, 0.5, 0.55, 0.6, 0.65].map(|time| {
            network.run(at(time));
            let stats = network.sender().stats();
            (stats.window / SEGMENT, stats.threshold.is_some())
        })
    };
    let (passing, lasting, plain) = (windows(0.3, true), windows(10.0, true), windows(10.0, false));
    assert!(passing.iter().all(|&(_, is_over)| !is_over));
    let growth = passing[4].0 as f64 / passing[2].0 as f64;
    assert!((3.5..4.5).contains(&growth), "growth {growth} in two RTTs");
    assert!(passing[0].0 < windows(0.3, false)[0].0, "slower during the increase");
    // Congestion avoidance begins after five rounds of 70 ms from about 0.29 s on.
    assert!(!lasting[3].1 && lasting[4].1);
    assert!(lasting[4].0 * 3 < plain[4].0);
}

#[test]
fn prr_prevents_timeouts_after_an_overshoot() {
    for algorithm in [Algorithm::Cubic, Algorithm::NewReno] {
        let mut timeouts = [0, 0];
        for (rate, rtt) in PATHS {
            let (path, _) = path(rate, rtt, 1);
            for (prr, timeouts) in [true, false].into_iter().zip(&mut timeouts) {
                // RACK repairs lost retransmissions without a timeout.
                let settings = Settings { algorithm, rack: false, ..settings(false, prr) };
                let mut network = Network::new(path).with(&settings, Application::Unlimited);
                network.run(at(5.0));
                *timeouts += network.sender().stats().timeouts;
            }
        }
        assert_eq!(timeouts[0], 0, "{algorithm:?}");
        // Half the window is below what the path holds: NewReno's retransmissions are not lost in either case.
        assert!((timeouts[1] >= 7) == (algorithm == Algorithm::Cubic), "{algorithm:?}: {timeouts:?}");
    }
}

#[test]
fn prr_sends_continuously_and_ends_at_the_threshold() {
    for (algorithm, share) in [(Algorithm::NewReno, 0.5), (Algorithm::Cubic, 0.7)] {
        let [with, without] = [true, false].map(|prr| {
            let settings = Settings {
                algorithm,
                prr,
                segments_per_ack: 1,
                initial_threshold: Some(DataSize::from_bytes(200 * SEGMENT)),
                ..Settings::default()
            };
            // 1 ms per packet and an unlimited buffer: a window of 200 takes 200 ms.
            let network = Network::new(Path::milliseconds()).forward(losing(|n, _| n == 1000)).logged();
            let mut network = network.with(&settings, Application::Unlimited);
            while network.sender().stats().fast_recoveries == 0 {
                network.run(network.now + TimeDelta::from_micros(100));
            }
            let begin = network.now;
            // The retransmission is acknowledged after the queue, 200 ms later.
            network.run(begin + ms(190));
            let mut sent = vec![begin];
            sent.extend(network.data().iter().map(|sent| sent.time).filter(|&time| time > begin));
            let silence = sent.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
            network.run(begin + ms(260));
            let stats = network.sender().stats();
            assert_eq!((stats.retransmitted, stats.timeouts, stats.reductions), (1, 0, 1));
            let ratio = stats.pipe as f64 / stats.threshold.unwrap() as f64;
            assert!((0.97..1.03).contains(&ratio), "{ratio} of the threshold in flight");
            (silence.as_millis(), sent.len() as f64 / 190.0)
        });
        // One segment per 1 / share delivered segments.
        assert!(with.0 < 1.0 / share + 1.2, "{with:?}");
        assert!((with.1 / share - 1.0).abs() < 0.06, "{with:?}");
        // A recovery of RFC 6675 pauses until the data above the new window is delivered.
        assert!(without.0 > 200.0 * (1.0 - share) * 0.9, "{without:?}");
    }
}

/// The examples of RFC 9937 §8 on a sender: 20 segments are in flight with a window of 20, and the first `lost` are lost.
/// Returns, for each acknowledgement, the number of segments sent and how many of them are retransmissions.
fn example_of_rfc_9937(prr: bool, lost: u64) -> Vec<(u64, u64)> {
    const BYTES: u64 = 1000;
    let settings = Settings {
        mss: BYTES as u32,
        algorithm: Algorithm::NewReno,
        timestamps: false,
        prr,
        // The figures count duplicate acknowledgements.
        rack: false,
        initial_threshold: Some(DataSize::from_bytes(20 * BYTES)),
        ..Settings::default()
    };
    let mut sender = Sender::new(FlowId(0), settings, Application::Unlimited).unwrap();
    let mut now = Timestamp::ZERO;
    let mut highest = 0;
    let mut answer = |flags: Flags, acknowledgment: u64, sack: SackBlocks| {
        let segment = Segment { acknowledgment, sack, connection: 1, flags, ..Segment::default() };
        now += ms(1);
        sender.handle_packet(now, &packet(&segment, Ecn::NotEct), &Body::Tcp(segment));
        let (mut sent, mut again) = (0, 0);
        while let Some(transmit) = sender.poll_transmit(now) {
            let Body::Tcp(segment) = transmit.body else { panic!("no segment") };
            if segment.length > 0 {
                sent += 1;
                again += u64::from(segment.sequence < highest);
                highest = highest.max(segment.end());
            }
        }
        (sent, again)
    };
    answer(Flags::ACK, 0, SackBlocks::default());
    let opened = answer(Flags::SYN.with(Flags::ACK).with(Flags::SACK_PERMITTED), 0, SackBlocks::default());
    assert_eq!(opened, (10, 0));
    for n in 1..=10 {
        assert_eq!(answer(Flags::ACK, n * BYTES, SackBlocks::default()), (2, 0));
    }
    let first = 10;
    (lost..20)
        .map(|n| {
            let mut sack = SackBlocks::default();
            sack.push(first * BYTES, (first + lost) * BYTES, (first + n + 1) * BYTES);
            answer(Flags::ACK, first * BYTES, sack)
        })
        .collect()
}

#[test]
fn a_sender_matches_the_examples_of_rfc_9937() {
    let (new, again, nothing) = ((1, 0), (1, 1), (0, 0));
    // Figure 1, ACK#1 to #19, except ACK#19: 10 segments are in flight then, which is not above the threshold, so the
    // pseudo-code of §6.2 sends the next one for ACK#20.
    let mut figure = vec![new, new, again];
    for n in 4..=18 {
        figure.push(if n % 2 == 1 { new } else { nothing });
    }
    figure.push(nothing);
    assert_eq!(example_of_rfc_9937(true, 1), figure);
    // RFC 6675: no segment for half a window, then one per acknowledgement.
    let silent: Vec<_> = (1..=19)
        .map(|n| match n {
            3 => again,
            4..=12 => nothing,
            _ => new,
        })
        .collect();
    assert_eq!(example_of_rfc_9937(false, 1), silent);
    // Figure 2, ACK#15 to #19.
    assert_eq!(example_of_rfc_9937(true, 15), [new, new, again, again, again]);
    assert_eq!(example_of_rfc_9937(false, 15), [new, new, (6, 6), again, again]);
}
