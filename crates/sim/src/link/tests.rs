//! Tests of links with all parts.

use proptest::prelude::*;

use super::{
    queue::{DropTail, Limit},
    rate::TokenBucket,
    *,
};

const MILLI: u64 = 1_000_000;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn steps(steps: &[(u64, u64)]) -> LinkConfig {
    let steps = steps.iter().map(|&(nanos, bps)| (at(nanos), DataRate::from_bps(bps))).collect();
    LinkConfig { rate: RateProfile::Steps { steps, period: None }, ..LinkConfig::default() }
}

fn packet(sequence: u64, bytes: u32) -> Packet {
    Packet { bytes, sequence, ..Packet::default() }
}

fn link(config: &LinkConfig, limit: Limit) -> Link {
    Link::new(LinkId(0), config, Box::new(DropTail::new(limit)), 1, "link").unwrap()
}

fn fixed(bps: u64, delay_ms: i64) -> LinkConfig {
    crate::testing::link(DataRate::from_bps(bps), TimeDelta::from_millis(delay_ms))
}

/// Offers packets of (time, bytes). Returns the arrivals: (sequence, nanoseconds).
fn run(link: &mut Link, offers: &[(u64, u32)]) -> Vec<(u64, u64)> {
    let mut arrivals = Vec::new();
    let mut offers = offers.iter().zip(0..).peekable();
    let mut now = Timestamp::ZERO;
    loop {
        let offer = offers.peek().map(|&(&(time, _), _)| at(time));
        let event = link.next_event(now);
        let Some(next) = [offer, event].into_iter().flatten().min() else { return arrivals };
        now = next;
        if event.is_some_and(|event| event <= now) {
            while let Some(packet) = link.poll(now, &mut ()) {
                arrivals.push((packet.sequence, now.as_nanos()));
            }
        } else if let Some((&(_, bytes), sequence)) = offers.next() {
            link.offer(now, packet(sequence, bytes), &mut ());
        }
        assert!(link.is_conserved());
    }
}

#[test]
fn packets_queue_and_then_take_serialisation_and_propagation() {
    // 1250 B at 10 Mbit/s: 1 ms. Three at once, and one that arrives during the transmission of the third.
    let offers = [(0, 1250), (0, 1250), (0, 625), (2 * MILLI + 1, 1250)];
    let arrivals = run(&mut link(&fixed(10_000_000, 25), Limit::Unlimited), &offers);
    assert_eq!(arrivals, [(0, 26 * MILLI), (1, 27 * MILLI), (2, 27_500_000), (3, 28_500_000)]);
    let unlimited = run(&mut link(&LinkConfig::default(), Limit::Packets(1)), &[(5, 1500), (5, 1500)]);
    assert_eq!(unlimited, [(0, 5), (1, 5)]);
}

#[test]
fn packets_in_flight_do_not_occupy_the_queue() {
    // Capacity of two: the first is transmitted immediately, two are queued, the fourth is dropped.
    let mut full = link(&fixed(10_000_000, 100), Limit::Packets(2));
    let arrivals = run(&mut full, &[(0, 1250), (0, 1250), (0, 1250), (0, 1250), (MILLI, 1250)]);
    // At 1 ms the second has left the queue, so the fifth fits.
    assert_eq!(arrivals, [(0, 101 * MILLI), (1, 102 * MILLI), (2, 103 * MILLI), (4, 104 * MILLI)]);
    assert_eq!(full.counters().overflow_packets, 1);
    let bytes = |limit| run(&mut link(&fixed(10_000_000, 0), limit), &[(0, 1250); 5]).len();
    assert_eq!(bytes(Limit::Bytes(DataSize::from_bytes(2500))), 3);
    assert_eq!(bytes(Limit::Bytes(DataSize::from_bytes(2499))), 2);
    // 2 ms at 10 Mbit/s are 2500 B.
    assert_eq!(bytes(Limit::Time(TimeDelta::from_millis(2))), 3);
    assert_eq!(bytes(Limit::Time(TimeDelta::from_nanos(1_999_999))), 2);
}

#[test]
fn a_time_limit_follows_the_rate() {
    let config = steps(&[(0, 10_000_000), (10 * MILLI, 5_000_000)]);
    let mut stepped = link(&config, Limit::Time(TimeDelta::from_millis(2)));
    let mut offers = vec![(0, 1250); 5];
    offers.extend([(10 * MILLI, 1250); 5]);
    // Three of the first five, two of the last.
    let arrivals = run(&mut stepped, &offers);
    assert_eq!(arrivals.iter().map(|&(sequence, _)| sequence).collect::<Vec<_>>(), [0, 1, 2, 5, 6]);
    assert_eq!(arrivals[4].1, 14 * MILLI);
}

#[test]
fn lost_packets_use_the_transmitter_and_duplicates_follow() {
    let config = LinkConfig { loss: Loss::List([0].into()), duplication: 1.0, ..fixed(10_000_000, 1) };
    let mut link = link(&config, Limit::Unlimited);
    assert_eq!(run(&mut link, &[(0, 1250), (0, 1250)]), [(1, 3 * MILLI), (1, 3 * MILLI)]);
    let counters = link.counters();
    assert_eq!((counters.lost_packets, counters.transmitted_bytes), (1, 2500));
    let packets = (counters.offered_packets, counters.duplicated_packets, counters.delivered_packets);
    assert_eq!(packets, (2, 1, 2));
}

#[test]
fn corrupted_packets_go_on_and_are_counted() {
    let config = LinkConfig { corruption: 0.25, ..fixed(1_000_000_000, 1) };
    let offers: Vec<(u64, u32)> = (0..4000).map(|packet| (packet * MILLI, 1250)).collect();
    let mut noisy = link(&config, Limit::Unlimited);
    assert_eq!(run(&mut noisy, &offers).len(), 4000);
    let counters = noisy.counters();
    // The standard deviation of a binomial distribution is 27.
    assert!((850..1150).contains(&counters.corrupted_packets), "{counters:?}");
    assert_eq!((counters.dropped_packets(), counters.delivered_packets), (0, 4000));
    // Other faults are the same with and without: each has its own random stream.
    let lossy = LinkConfig { loss: Loss::Random(0.1), ..fixed(1_000_000_000, 1) };
    let both = LinkConfig { corruption: 0.25, ..lossy.clone() };
    let [alone, beside] = [lossy, both].map(|config| run(&mut link(&config, Limit::Unlimited), &offers));
    assert_eq!(alone, beside);
}

#[test]
fn a_link_stops_during_an_outage_and_continues_where_it_was() {
    let config = steps(&[(0, 10_000_000), (1_500_000, 0), (10 * MILLI, 10_000_000)]);
    // 1250 B take 1 ms: the second packet is half sent when the outage begins. A packet that comes during it waits in the queue.
    let offers = [(0, 1250), (0, 1250), (5 * MILLI, 1250)];
    let mut stopped = link(&config, Limit::Time(TimeDelta::from_millis(2)));
    assert_eq!(run(&mut stopped, &offers), [(0, MILLI), (1, 10_500_000), (2, 11_500_000)]);
    // The capacity of the queue in time is that of the rate before: 2500 B, so two of three fit, beside the one in transmission.
    let offers = [(MILLI, 1250), (5 * MILLI, 1250), (5 * MILLI, 1250), (5 * MILLI, 1250)];
    let mut full = link(&config, Limit::Time(TimeDelta::from_millis(2)));
    assert_eq!(run(&mut full, &offers), [(0, 10_500_000), (1, 11_500_000), (2, 12_500_000)]);
    // An idle link begins no transmission during the outage.
    let mut idle = link(&config, Limit::Packets(1));
    assert_eq!(run(&mut idle, &[(5 * MILLI, 1250), (6 * MILLI, 1250)]), [(0, 11 * MILLI)]);
    assert_eq!(idle.counters().overflow_packets, 1);
    let used = utilisation(&config.rate, &full.counters(), at(12_500_000));
    assert!(used.is_some_and(|used| (used - 3.0 / 4.0).abs() < 1e-9), "{used:?}");
}

#[test]
fn opportunities_drain_the_queue() {
    let rate =
        RateProfile::Opportunities { at: vec![at(10 * MILLI), at(10 * MILLI), at(30 * MILLI)], bytes: 1504 };
    let config = LinkConfig { rate, ..LinkConfig::default() };
    let offers = [(0, 1500), (0, 1500), (0, 1500), (35 * MILLI, 1504)];
    // The first two opportunities have 1504 + 1504 = 1500 + 1500 + 8 B; the remainder of the third packet leaves at 30 ms.
    let arrivals = run(&mut link(&config, Limit::Unlimited), &offers);
    assert_eq!(arrivals, [(0, 10 * MILLI), (1, 10 * MILLI), (2, 30 * MILLI), (3, 40 * MILLI)]);
}

fn configs() -> impl Strategy<Value = LinkConfig> {
    let bps = |hundreds: u64| DataRate::from_bps(hundreds * 100_000);
    let rate = prop_oneof![
        Just(RateProfile::Unlimited),
        (10_000_u64..1_000_000_000).prop_map(|bps| RateProfile::Fixed(DataRate::from_bps(bps))),
        // With and without an outage between.
        (1_u64..50, 1_u64..50, 20_u64..45, 0_u64..2).prop_map(move |(first, second, end, outage)| {
            let middle = bps(first * outage);
            let steps = vec![(at(0), bps(first)), (at(10 * MILLI), middle), (at(end * MILLI), bps(second))];
            RateProfile::Steps { steps, period: Some(TimeDelta::from_millis(50)) }
        }),
        (1_u64..50, 1_u64..10_000, prop::option::of(51_u64..100)).prop_map(move |(rate, burst, peak)| {
            let (rate, burst) = (bps(rate), DataSize::from_bytes(burst));
            RateProfile::TokenBucket(TokenBucket { rate, burst, peak: peak.map(bps) })
        }),
        prop::collection::vec(0_u64..100, 1..20).prop_map(|mut millis| {
            millis.push(100);
            millis.sort_unstable();
            RateProfile::Opportunities { at: millis.iter().map(|&ms| at(ms * MILLI)).collect(), bytes: 1504 }
        }),
    ];
    let jitter = prop_oneof![
        Just(None),
        Just(Some(Jitter::RFC8868)),
        Just(Some(Jitter::Uniform { max: TimeDelta::from_millis(20) }))
    ];
    let loss = prop_oneof![
        Just(Loss::None),
        (0.0..=1.0).prop_map(Loss::Random),
        Just(Loss::GilbertElliott { to_bad: 0.1, to_good: 0.3, good: 0.01, bad: 0.8 })
    ];
    let share = || prop_oneof![Just(0.0), 0.0..=1.0];
    (rate, 0_i64..200, jitter, any::<bool>(), loss, share(), share()).prop_map(
        |(rate, delay, jitter, reorder, loss, duplication, corruption)| LinkConfig {
            rate,
            delay: TimeDelta::from_millis(delay).into(),
            jitter,
            reorder,
            loss,
            duplication,
            corruption,
        },
    )
}

proptest! {
    #[test]
    fn packets_are_conserved_and_delays_bounded(
        config in configs(),
        limit in prop_oneof![Just(Limit::Unlimited), (1_u64..20).prop_map(Limit::Packets)],
        gaps in prop::collection::vec((0_u64..30 * MILLI, 1_u32..3000), 1..60),
    ) {
        let mut clock = 0;
        let offers: Vec<(u64, u32)> = gaps.iter().map(|&(gap, bytes)| { clock += gap; (clock, bytes) }).collect();
        let mut link = link(&config, limit);
        let arrivals = run(&mut link, &offers);
        prop_assert_eq!((link.in_flight(), link.backlog().packets), (0, 0));
        let counters = link.counters();
        prop_assert_eq!(counters.delivered_packets, arrivals.len() as u64);
        let kept = counters.offered_packets - counters.dropped_packets() + counters.duplicated_packets;
        prop_assert_eq!(counters.delivered_packets, kept);
        // No packet arrives before the propagation delay, and packets stay in order unless reordering is enabled.
        let min_delay = config.delay.as_steps()[0].1.as_nanos().unsigned_abs();
        for &(sequence, arrival) in &arrivals {
            prop_assert!(arrival >= offers[sequence as usize].0 + min_delay);
        }
        if !config.reorder {
            prop_assert!(arrivals.is_sorted());
        }
        // The link transmits at most its capacity plus one packet; each may be duplicated.
        let last = Timestamp::from_nanos(arrivals.last().map_or(0, |&(_, arrival)| arrival));
        if let Some(capacity) = config.rate.capacity(last) {
            prop_assert!(counters.delivered_bytes <= 2 * (capacity.as_bytes() + 3000));
        }
        // The result is deterministic.
        prop_assert_eq!(run(&mut self::link(&config, limit), &offers), arrivals);
    }
}
