use giusto_units::Ecn;

use super::*;
use crate::{
    link::queue::tests::{at_micros, packet},
    random,
};

fn pie(config: PieConfig) -> Pie {
    Pie::new(config, random::stream(1, "link: queue")).unwrap()
}

/// A queue during congestion: no burst allowance, a delay of 40 ms, 100 packets, and `probability`.
fn congested(config: PieConfig, probability: f64) -> Pie {
    let mut pie = pie(config);
    for sequence in 0..100 {
        pie.enqueue(at_micros(0), packet(0, sequence, 1000, Ecn::Ect0), &mut Vec::new());
    }
    pie.law.burst_allowance = TimeDelta::ZERO;
    (pie.law.delay, pie.law.last_delay, pie.law.probability) = (0.040, 0.040, probability);
    pie
}

#[test]
fn gain_divisors_match_the_table_of_the_rfc() {
    // RFC 8033 §4.2, both sides of each boundary.
    let table = [
        (0.0, 2048.0),
        (0.000_000_999, 2048.0),
        (0.000_001, 512.0),
        (0.000_009_99, 512.0),
        (0.000_01, 128.0),
        (0.000_099_9, 128.0),
        (0.000_1, 32.0),
        (0.000_999, 32.0),
        (0.001, 8.0),
        (0.009_99, 8.0),
        (0.01, 2.0),
        (0.099_9, 2.0),
        (0.1, 1.0),
        (1.0, 1.0),
    ];
    for (probability, divisor) in table {
        assert!((auto_tuning(probability) - divisor).abs() < f64::EPSILON, "{probability}");
    }
}

#[test]
fn updates_match_hand_computed_values() {
    // (p before, delay, last delay, p after), in seconds.
    let by_hand = [
        // 1/8 · (35 − 15) ms + 5/4 · (35 − 25) ms = 2.5e-3 + 12.5e-3 = 0.015; halved below 0.1.
        (0.05, 0.035, 0.025, 0.0575),
        // Not divided from 0.1 on.
        (0.1, 0.035, 0.025, 0.115),
        // 0.0025 + 1.25 · 0.035 = 0.046 25, capped.
        (0.3, 0.035, 0.0, 0.32),
        // Falling: 1/8 · (5 − 15) ms + 5/4 · (5 − 25) ms = −0.001 25 − 0.025.
        (0.3, 0.005, 0.025, 0.273_75),
        // Divided by 2048 at probability 0: 0.046 25/2048.
        (0.0, 0.035, 0.0, 2.258_300_781_25e-5),
        // No delay: (0.3 − 0.001 875) · 0.98.
        (0.3, 0.0, 0.0, 0.292_162_5),
        // Clamped to 0 to 1.
        (0.000_001, 0.0, 0.0, 0.0),
        (0.999, 0.035, 0.035, 1.0),
    ];
    for (before, delay, last, after) in by_hand {
        let mut pie = congested(PieConfig::default(), before);
        (pie.law.delay, pie.law.last_delay) = (delay, last);
        pie.law.update(&pie.fifo);
        let found = pie.law.probability;
        assert!((found - after).abs() < 1e-15, "{before} {delay} {last}: {found}");
        assert!((pie.law.last_delay - delay).abs() < 1e-15);
    }
}

#[test]
fn the_burst_allowance_lasts_ten_updates() {
    let mut pie = pie(PieConfig { derandomise: false, ..Default::default() });
    let mut drops = Vec::new();
    for sequence in 0..100 {
        pie.enqueue(at_micros(0), packet(0, sequence, 1000, Ecn::NotEct), &mut drops);
    }
    // 150 ms are 10 updates of 15 ms. The test forces the probability up in between.
    for update in 1..=10 {
        let now = at_micros(15_000 * update);
        assert_eq!(pie.next_timer(), Some(now));
        pie.enqueue(now, packet(0, 0, 1000, Ecn::NotEct), &mut drops);
        assert!(drops.is_empty(), "update {update}");
        pie.dequeue(now, &mut drops);
        pie.on_timer(now);
        pie.law.probability = 1.0;
    }
    pie.enqueue(at_micros(150_000), packet(0, 0, 1000, Ecn::NotEct), &mut drops);
    assert_eq!(drops.len(), 1);
}

#[test]
fn the_timer_runs_only_while_there_is_work() {
    let mut pie = pie(PieConfig::default());
    assert_eq!(pie.next_timer(), None);
    pie.enqueue(at_micros(100), packet(0, 0, 1000, Ecn::NotEct), &mut Vec::new());
    assert_eq!(pie.next_timer(), Some(at_micros(15_100)));
    pie.dequeue(at_micros(1000), &mut Vec::new());
    pie.on_timer(at_micros(15_099));
    assert_eq!(pie.next_timer(), Some(at_micros(15_100)));
    pie.on_timer(at_micros(15_100));
    assert_eq!(pie.next_timer(), None);
    // With a positive probability the timer runs until the probability has decayed.
    pie.enqueue(at_micros(20_000), packet(0, 0, 1000, Ecn::NotEct), &mut Vec::new());
    pie.dequeue(at_micros(20_000), &mut Vec::new());
    pie.law.probability = 0.5;
    let mut updates = 0;
    while let Some(due) = pie.next_timer() {
        pie.on_timer(due);
        updates += 1;
    }
    // The decay alone would take ln(0.1/0.5)/ln(0.98) = 80 updates down to 0.1. The integral term shortens that; below 0.1
    // the divided steps are smaller.
    assert!((60..2000).contains(&updates), "{updates}");
    assert!(pie.law.probability == 0.0);
}

#[test]
fn marks_below_the_mark_threshold_and_drops_above() {
    for (probability, marks) in [(0.099, true), (0.1, false)] {
        let mut pie = congested(PieConfig { limit: Limit::Unlimited, ..Default::default() }, probability);
        let mut drops = Vec::new();
        for sequence in 0..2000 {
            pie.enqueue(at_micros(1), packet(0, sequence, 1000, Ecn::Ect0), &mut drops);
        }
        let signals = pie.marked() + drops.len() as u64;
        // 8 packets without a draw, then 10 on average: 111 signals with a standard deviation of 6.
        assert!((111 - 18..=111 + 18).contains(&signals), "{signals}");
        assert_eq!((pie.marked() > 0, drops.is_empty()), (marks, marks));
    }
}

#[test]
fn derandomised_signals_are_spaced_apart() {
    let gaps = |derandomise| {
        let limit = Limit::Unlimited;
        let mut pie = congested(PieConfig { derandomise, limit, ..Default::default() }, 0.05);
        let (mut drops, mut gaps, mut last) = (Vec::new(), Vec::new(), 0);
        for sequence in 1..=20_000 {
            pie.enqueue(at_micros(1), packet(0, sequence, 1000, Ecn::NotEct), &mut drops);
            if drops.pop().is_some() {
                gaps.push(sequence - last);
                last = sequence;
            }
        }
        gaps
    };
    let (spread, plain) = (gaps(true), gaps(false));
    // Between 0.85/0.05 = 17 and 8.5/0.05 = 170 packets (§5.4).
    assert!(spread.iter().all(|gap| (17..=170).contains(gap)), "{spread:?}");
    assert!(plain.iter().any(|&gap| gap < 17));
    // A geometric distribution from the 17th packet on has a mean of 16 + 20 packets; without the offset 20.
    let mean = |gaps: &[u64]| gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
    assert!((mean(&spread) - 36.0).abs() < 3.0, "{}", mean(&spread));
    assert!((mean(&plain) - 20.0).abs() < 2.0, "{}", mean(&plain));
}

#[test]
fn a_short_queue_or_delay_is_not_signalled() {
    let signals = |change: &dyn Fn(&mut Pie)| {
        let mut pie = congested(PieConfig { derandomise: false, ..Default::default() }, 0.19);
        change(&mut pie);
        (0..100).filter(|_| pie.law.draws_signal(&pie.fifo)).count()
    };
    assert!((8..=32).contains(&signals(&|_| ())));
    // No signal below half of the target while the probability is below 0.2.
    assert_eq!(signals(&|pie| pie.law.last_delay = 0.007_4), 0);
    assert!(signals(&|pie| pie.law.last_delay = 0.007_6) > 0);
    assert!(signals(&|pie| (pie.law.last_delay, pie.law.probability) = (0.007_4, 0.2)) > 0);
    // No signal with at most twice 1024 B queued.
    let with_packets = |count| {
        signals(&|pie: &mut Pie| {
            while pie.fifo.len() > count {
                pie.fifo.pop();
            }
        })
    };
    assert!(with_packets(2) == 0 && with_packets(3) > 0);
}

#[test]
fn inactive_until_the_queue_is_long() {
    let active_above = Some(DataSize::from_bytes(50_000));
    let mut pie = pie(PieConfig { active_above, ..Default::default() });
    for sequence in 0..50 {
        assert_eq!((pie.law.is_active, pie.next_timer()), (false, None));
        pie.enqueue(at_micros(0), packet(0, sequence, 1000, Ecn::NotEct), &mut Vec::new());
    }
    assert!(pie.law.is_active && pie.next_timer().is_some());
    while pie.dequeue(at_micros(10), &mut Vec::new()).is_some() {}
    pie.enqueue(at_micros(20), packet(0, 0, 1000, Ecn::NotEct), &mut Vec::new());
    assert!(!pie.law.is_active);
}
