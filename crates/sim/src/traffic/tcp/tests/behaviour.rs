//! Behaviour of each mechanism of a connection.

use super::*;
use crate::{random, traffic::tcp::ShortFlows};

const SEGMENT: u64 = 1460;

fn plain() -> Settings {
    Settings { timestamps: false, algorithm: Algorithm::NewReno, ..Settings::default() }
}

fn with_threshold(segments: u64) -> Settings {
    Settings { initial_threshold: Some(DataSize::from_bytes(segments * SEGMENT)), ..plain() }
}

fn segments(count: u64) -> Application {
    Application::Bytes(count * SEGMENT)
}

/// A minute of a transfer of `count` segments over a path of 1 ms per packet.
fn transferred(
    settings: &Settings,
    count: u64,
    forward: impl FnMut(u64, &Segment) -> Fate + 'static,
) -> Network {
    let network = Network::new(Path::milliseconds()).forward(forward).logged();
    let mut network = network.with(settings, segments(count));
    network.run(at(60.0));
    network
}

/// Loses the first two SYNs, or SYN-ACKs.
fn losing_syns() -> impl FnMut(u64, &Segment) -> Fate {
    let mut count = 0;
    move |_, segment| {
        count += u32::from(segment.flags.contains(Flags::SYN));
        if segment.flags.contains(Flags::SYN) && count <= 2 { Fate::Lost } else { Fate::Delivered }
    }
}

#[test]
fn the_initial_window_has_ten_segments_and_doubles() {
    let mut network = Network::new(Path::free(ms(100))).logged().with(&plain(), Application::Unlimited);
    network.run(at(0.25));
    let data = network.data();
    let sent_at = |time: f64| data.iter().filter(|sent| sent.time == at(time)).count();
    assert_eq!((sent_at(0.0), sent_at(0.1), sent_at(0.2), data.len()), (0, 10, 20, 30));
}

#[test]
fn syn_timeouts_back_off_and_shrink_the_initial_window() {
    let forward_loss = Network::new(Path::free(ms(100))).forward(losing_syns());
    let backward_loss = Network::new(Path::free(ms(100))).backward(losing_syns());
    for network in [forward_loss, backward_loss] {
        let mut network = network.logged().with(&plain(), segments(10));
        network.run(at(100.0));
        let sent: Vec<_> = network.log.as_ref().unwrap()[0].iter().map(|sent| sent.time).collect();
        // SYNs at 0, 1 and 3 s, then one segment, and two after its delayed acknowledgement.
        assert_eq!(sent[..6], [at(0.0), at(1.0), at(3.0), at(3.1), at(3.24), at(3.24)]);
        let stats = network.sender().stats();
        assert_eq!((stats.syn_timeouts, stats.timeouts, stats.retransmitted, stats.transfers), (2, 0, 0, 1));
    }
}

#[test]
fn a_transfer_reports_its_time_and_size() {
    let mut network = Network::new(Path::free(ms(100))).with(&plain(), segments(10));
    network.run(at(10.0));
    let transfer = network.sender().stats().last_transfer.unwrap();
    assert_eq!((transfer.bytes, transfer.start, transfer.end), (14_600, at(0.0), at(0.2)));
    assert_eq!(network.sender().poll_timeout(), None);
    assert_eq!(network.receiver().stats().delivered, 14_600);
}

#[test]
fn one_loss_is_repaired_in_two_rtts_and_halves_the_window() {
    for sack in [true, false] {
        let settings = Settings { sack, ..with_threshold(20) };
        let network = transferred(&settings, 1000, losing(|n, _| n == 200));
        let stats = network.sender().stats();
        let counts = (stats.retransmitted, stats.timeouts, stats.fast_recoveries, stats.reductions);
        assert_eq!(counts, (1, 0, 1, 1), "sack {sack}");
        assert_eq!(network.receiver().stats().delivered, 1000 * SEGMENT);
        let data = network.data();
        let lost = data.iter().find(|sent| sent.fate == Fate::Lost).unwrap();
        let again = data.iter().rfind(|sent| sent.segment.sequence == lost.segment.sequence).unwrap();
        let delay = (again.time - lost.time).as_seconds();
        assert!((0.1..0.12).contains(&delay), "retransmitted after {delay} s");
        // The window was near 27 segments: it grew by one in each of about seven RTTs from 20.
        let halved = stats.threshold.unwrap() / SEGMENT;
        assert!((12..=14).contains(&halved), "{halved}");
    }
}

#[test]
fn losses_in_one_window_reduce_it_once() {
    const FIVE: [u64; 5] = [100, 102, 103, 110, 120];
    for (sack, lost) in [(true, &FIVE[..]), (false, &FIVE[..2])] {
        let network = transferred(&Settings { sack, ..plain() }, 1000, losing(|n, _| lost.contains(&n)));
        let stats = network.sender().stats();
        let counts = (stats.retransmitted, stats.timeouts, stats.reductions);
        assert_eq!(counts, (lost.len() as u64, 0, 1), "sack {sack}");
        assert_eq!(network.receiver().stats().duplicates, 0);
    }
    // Without SACK one loss is repaired per RTT, and only the first partial acknowledgement restarts the timer (RFC 6582 §3.2, step 3).
    // With five losses and a timeout of about three RTTs the last loss is repaired in slow start.
    let network = transferred(&Settings { sack: false, ..plain() }, 1000, losing(|n, _| FIVE.contains(&n)));
    let stats = network.sender().stats();
    assert_eq!((stats.timeouts, stats.fast_recoveries, stats.reductions), (1, 1, 2));
    assert!((5..10).contains(&stats.retransmitted), "{stats:?}");
    assert_eq!(network.receiver().stats().delivered, 1000 * SEGMENT);
}

#[test]
fn a_lost_retransmission_causes_a_timeout_without_rack() {
    for (sack, rack) in [(true, false), (false, true)] {
        let mut sent = 0;
        let lost = losing(move |_, segment| {
            sent += u32::from(segment.sequence == 50 * SEGMENT);
            segment.sequence == 50 * SEGMENT && sent <= 2
        });
        // The threshold keeps the window small.
        let network = transferred(&Settings { sack, rack, ..with_threshold(20) }, 300, lost);
        let stats = network.sender().stats();
        assert_eq!((stats.timeouts, stats.transfers), (1, 1), "sack {sack} rack {rack}");
        assert_eq!(network.receiver().stats().delivered, 300 * SEGMENT);
        // All later segments were received, so the acknowledgement of the retransmission ends the recovery.
        assert_eq!((network.receiver().stats().duplicates, stats.retransmitted), (0, 2));
    }
}

#[test]
fn lost_acknowledgements_cause_no_retransmission() {
    let mut network = Network::new(Path::milliseconds())
        .backward(|n, segment| {
            if n % 3 != 0 && !segment.flags.contains(Flags::SYN) { Fate::Lost } else { Fate::Delivered }
        })
        .with(&plain(), Application::Unlimited);
    network.run(at(5.0));
    let stats = network.sender().stats();
    assert_eq!((stats.retransmitted, stats.timeouts), (0, 0));
    assert!(stats.acknowledged > 2000 * SEGMENT, "{}", stats.acknowledged);
}

#[test]
fn reordering_by_three_packets_causes_retransmissions() {
    for sack in [true, false] {
        for (late_us, spurious) in [(1500, false), (2500, false), (3500, true), (9500, true)] {
            let late = Fate::Delayed(TimeDelta::from_micros(late_us));
            let settings = Settings { sack, ..with_threshold(20) };
            let network = transferred(&settings, 500, move |n, segment| {
                if segment.length > 0 && n % 100 == 55 { late } else { Fate::Delivered }
            });
            let stats = network.sender().stats();
            let case = format!("sack {sack}, {late_us} us late: {stats:?}");
            assert_eq!(stats.retransmitted > 0, spurious, "{case}");
            // Without SACK each partial acknowledgement causes a retransmission (RFC 6582 §3.2, step 3).
            let max = if sack { 5 } else { 100 };
            assert!(stats.retransmitted <= max && stats.timeouts == 0, "{case}");
            assert_eq!(network.receiver().stats().duplicates, stats.retransmitted);
        }
    }
}

#[test]
fn limited_transmit_repairs_a_loss_in_a_small_window() {
    for sack in [true, false] {
        let settings = Settings { sack, initial_window: 3, ..plain() };
        let network = Network::new(Path::free(ms(100))).forward(losing(|n, _| n == 0));
        let mut network = network.with(&settings, segments(20));
        network.run(at(60.0));
        let stats = network.sender().stats();
        assert_eq!((stats.timeouts, stats.fast_recoveries, stats.retransmitted), (0, 1, 1), "sack {sack}");
    }
}

#[test]
fn acknowledges_every_second_segment_or_each() {
    for (segments_per_ack, expected) in [(2, 500), (1, 1000)] {
        let network = transferred(&Settings { segments_per_ack, ..plain() }, 1000, |_, _| Fate::Delivered);
        let acks = network.acks().len();
        // A single segment at the end of a burst adds an acknowledgement.
        assert!((expected..expected + 10).contains(&acks), "{acks}");
    }
}

#[test]
fn the_window_restarts_after_an_idle_period() {
    let application = ShortFlows::starting_on(random::stream(2, "slot"))
        .with_sizes(500 * SEGMENT..=500 * SEGMENT)
        .with_mean_idle(TimeDelta::from_seconds(5))
        .over_one_connection();
    let network = Network::new(Path::milliseconds()).logged();
    let mut network = network.with(&plain(), Application::ShortFlows(application));
    network.run(at(60.0));
    let stats = network.sender().stats();
    assert!(stats.connections == 1 && (5..20).contains(&stats.transfers), "{stats:?}");
    let data = network.data();
    let bursts: Vec<usize> = (data.windows(2).filter(|pair| pair[1].time - pair[0].time > ms(500)))
        .map(|pair| data.iter().filter(|sent| sent.time == pair[1].time).count())
        .collect();
    assert!(bursts.len() >= 4 && bursts.iter().all(|&burst| burst == 10), "{bursts:?}");
}

#[test]
fn short_flows_match_rfc_8868() {
    let mut network = Network::new(Path::milliseconds());
    for slot in 0..30 {
        let random = random::stream(5, &format!("slot {slot}"));
        let flows =
            if slot < 10 { ShortFlows::starting_on(random) } else { ShortFlows::starting_off(random) };
        network = network.with(&Settings::default(), Application::ShortFlows(flows));
    }
    network.run(at(0.15));
    let started = network.pairs.iter().filter(|pair| pair.sender.stats().connections > 0).count();
    assert!((10..14).contains(&started), "{started}");
    network.run(at(300.0));
    let stats: Vec<_> = network.pairs.iter().map(|pair| pair.sender.stats()).collect();
    let transfers: u64 = stats.iter().map(|stats| stats.transfers).sum();
    let bytes: u64 = stats.iter().map(|stats| stats.acknowledged).sum();
    // 30 sources, 300 s, cycles of 10 s plus about 0.4 s of transfer: 865, with a standard deviation near 29.
    assert!((750..980).contains(&transfers), "{transfers}");
    let mean = bytes as f64 / transfers as f64;
    assert!((39_000.0..41_000.0).contains(&mean), "{mean}");
    assert!(stats.iter().all(|stats| stats.connections - stats.transfers <= 1));
    // A handshake, 10 segments, 20 segments, the rest: four RTTs and some queueing for 40 kB.
    let time: f64 = stats.iter().map(|stats| stats.transfer_time.as_seconds()).sum();
    assert!((0.3..0.5).contains(&(time / transfers as f64)), "{time} s in {transfers}");
}

#[test]
fn a_sender_starts_and_stops_at_the_set_times() {
    let sender = Sender::new(FlowId(0), plain(), Application::Unlimited).unwrap();
    let sender = sender.starting_at(at(2.0)).stopping_at(at(3.0));
    let mut network = Network::new(Path::milliseconds()).logged().with_sender(&plain(), sender);
    network.run(at(60.0));
    let sent = &network.log.as_ref().unwrap()[0];
    assert_eq!(sent[0].time, at(2.0));
    let last = sent.last().unwrap().time;
    assert!(last < at(3.0) && last > at(2.9), "{last}");
    assert_eq!(network.sender().poll_timeout(), None);
    assert_eq!(network.sender().stats().acknowledged, network.receiver().stats().delivered);
}

#[test]
fn the_receive_window_limits_the_data_in_flight() {
    let settings = Settings { receive_window: DataSize::from_bytes(20 * SEGMENT), ..plain() };
    let mut network = Network::new(Path::free(ms(100))).with(&settings, Application::Unlimited);
    network.run(at(20.0));
    let rate = network.sender().stats().acknowledged as f64 / SEGMENT as f64 / 200.0;
    assert!((19.0..=20.0).contains(&rate), "{rate} segments per RTT");
    // The congestion window does not grow while it is not the limit.
    assert!(network.sender().stats().window <= 42 * SEGMENT);
}
