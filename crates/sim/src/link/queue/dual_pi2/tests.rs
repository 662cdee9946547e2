use giusto_units::Ecn;

use super::*;
use crate::{
    link::queue::tests::{at_micros, packet},
    testing::close,
};

fn dual(config: DualPi2Config) -> DualPi2 {
    DualPi2::new(config).unwrap()
}

fn filled(base: f64, packets: u64, ecn: Ecn) -> DualPi2 {
    let mut dual = dual(DualPi2Config::default());
    for sequence in 0..packets {
        dual.enqueue(at_micros(0), packet(0, sequence, 1000, ecn), &mut Vec::new());
    }
    dual.base = base;
    dual
}

/// Number of marks and drops when all packets depart at `micros`.
fn signals(dual: &mut DualPi2, micros: u64) -> (u64, u64) {
    let (mut drops, mut marks) = (Vec::new(), 0);
    while let Some(packet) = dual.dequeue(at_micros(micros), &mut drops) {
        marks += u64::from(packet.ecn == Ecn::Ce);
    }
    (marks, drops.len() as u64)
}

#[test]
fn coupled_probability_is_k_times_the_root_of_classic() {
    // RFC 9332 equation (1): p_C = (p_CL/k)².
    for (base, classic, coupled) in
        [(0.0, 0.0, 0.0), (0.1, 0.01, 0.2), (0.25, 0.0625, 0.5), (0.5, 0.25, 1.0), (0.9, 0.81, 1.0)]
    {
        let dual = filled(base, 0, Ecn::NotEct);
        close(dual.classic_probability(), classic);
        close(dual.coupled_probability(), coupled);
        close(dual.coupled_probability(), (2.0 * dual.classic_probability().sqrt()).min(1.0));
    }
    close(dual(DualPi2Config::default()).overload_probability(), 0.25);
    close(dual(DualPi2Config { coupling: 0.5, ..Default::default() }).overload_probability(), 1.0);
}

#[test]
fn updates_match_hand_computed_values() {
    let mut dual = filled(0.1, 1, Ecn::Ect0);
    dual.last_delay = 0.010;
    // Sojourn time of the head 25 ms: 0.1 + 0.16 · (25 − 15) ms + 3.2 · (25 − 10) ms = 0.1 + 0.0016 + 0.048.
    dual.update(at_micros(25_000));
    close(dual.base, 0.1496);
    // The same delay again: only the integral term changes.
    dual.update(at_micros(25_000));
    close(dual.base, 0.1512);
    // The low-latency delay of 30 ms is larger than the classic delay of 0 ms.
    let mut dual = filled(0.1, 1, Ecn::Ect1);
    dual.enqueue(at_micros(30_000), packet(1, 0, 1000, Ecn::Ect0), &mut Vec::new());
    dual.update(at_micros(30_000));
    close(dual.base, 0.1 + 0.16 * 0.015 + 3.2 * 0.030);
    // The delay of an empty queue is zero. The probability is clamped to 0.
    while dual.dequeue(at_micros(30_000), &mut Vec::new()).is_some() {}
    dual.update(at_micros(30_000));
    close(dual.base, 0.1 + 0.16 * 0.015 - 0.16 * 0.015);
    dual.base = 0.001;
    dual.update(at_micros(30_000));
    close(dual.base, 0.0);
}

#[test]
fn the_ramp_rises_from_800_to_1200_microseconds() {
    let mut dual = dual(DualPi2Config::default());
    let ramp = |dual: &DualPi2, micros| dual.ramp(TimeDelta::from_micros(micros));
    let expected = [(0, 0.0), (800, 0.0), (900, 0.25), (1000, 0.5), (1100, 0.75), (1200, 1.0), (5000, 1.0)];
    for (micros, probability) in expected {
        close(ramp(&dual, micros), probability);
    }
    dual.config.ramp_width = TimeDelta::ZERO;
    for (micros, probability) in [(799, 0.0), (800, 1.0), (801, 1.0)] {
        close(ramp(&dual, micros), probability);
    }
}

#[test]
fn the_ramp_of_a_slow_link_can_begin_at_two_mtu() {
    let mut dual = dual(DualPi2Config { ramp_above_two_mtu: true, ..Default::default() });
    // 3000 B take 24 ms at 1 Mbit/s, 0.24 ms at 100 Mbit/s.
    dual.on_rate(at_micros(0), DataRate::from_bps(1_000_000));
    close(dual.ramp(TimeDelta::from_micros(24_000)), 0.0);
    close(dual.ramp(TimeDelta::from_micros(24_200)), 0.5);
    dual.on_rate(at_micros(0), DataRate::from_bps(100_000_000));
    close(dual.ramp(TimeDelta::from_micros(1000)), 0.5);
}

#[test]
fn the_ramp_never_marks_a_lone_packet() {
    // All sojourn times are above the ramp. The last packet is alone when it departs, and the first only raises the count to
    // 1.
    assert_eq!(signals(&mut filled(0.0, 10, Ecn::Ect1), 50_000), (8, 0));
    assert_eq!(signals(&mut filled(0.0, 10, Ecn::Ect1), 700), (0, 0));
}

#[test]
fn signals_are_evenly_spaced() {
    let mut recurrence = Recurrence::default();
    // 0.25, 0.5, 0.75 and 1.0 are not above 1, but 1.25 is.
    let at: Vec<_> = (1..=16).filter(|_| recurrence.next(0.25)).collect();
    assert_eq!(at, [5, 9, 13]);
}

#[test]
fn signal_shares_match_classic_and_coupled_probability() {
    // p' = 0.1: 1 % of the classic and 20 % of the low-latency packets, less the first count up to 1. p' = 0.6, overload: p_C = 0.36 is
    // above 1/4, and p_CL = 1; both queues drop equally.
    for (base, ecn, expected) in [
        (0.1, Ecn::Ect0, (100, 0)),
        (0.1, Ecn::NotEct, (0, 100)),
        (0.1, Ecn::Ect1, (2000, 0)),
        (0.6, Ecn::Ect0, (0, 3600)),
        (0.6, Ecn::Ect1, (6400, 3600)),
    ] {
        let (marks, drops) = signals(&mut filled(base, 10_000, ecn), 10);
        for (found, expected) in [(marks, expected.0), (drops, expected.1)] {
            assert!(found.abs_diff(expected) <= u64::from(expected > 0), "{base}, {ecn:?}: {marks} {drops}");
        }
    }
}

#[test]
fn signals_end_with_the_overload() {
    let mut dual = filled(1.0, 10_000, Ecn::Ect1);
    signals(&mut dual, 10);
    assert!(dual.low_latency_signals.0 <= 1.0);
    dual.base = 0.0;
    for sequence in 0..100 {
        dual.enqueue(at_micros(10), packet(0, sequence, 1000, Ecn::Ect1), &mut Vec::new());
    }
    assert_eq!(signals(&mut dual, 10), (0, 0));
}

#[test]
fn no_coupled_marks_below_the_minimum_backlog() {
    // Ten packets of 1000 B and a coupled probability just below 1: with an initial count of 0.5, every packet to which it
    // applies is marked.
    for (min_backlog, marks) in [(0, 10), (3000, 8), (3001, 7)] {
        let mut dual = filled(0.499_999, 10, Ecn::Ect1);
        dual.config.min_backlog = DataSize::from_bytes(min_backlog);
        dual.low_latency_signals.0 = 0.5;
        assert_eq!(signals(&mut dual, 10), (marks, 0));
    }
}

fn order(scheduler: Scheduler, micros: u64, count: usize) -> Vec<u32> {
    let mut dual = dual(DualPi2Config { scheduler, ..Default::default() });
    for sequence in 0..100 {
        dual.enqueue(at_micros(0), packet(0, sequence, 1500, Ecn::Ect0), &mut Vec::new());
        dual.enqueue(at_micros(1000), packet(1, sequence, 1500, Ecn::Ect1), &mut Vec::new());
    }
    let mut drops = Vec::new();
    (0..count).map(|_| dual.dequeue(at_micros(micros), &mut drops).unwrap().flow.0).collect()
}

#[test]
fn the_classic_queue_gets_a_sixteenth_under_contention() {
    let order = order(Scheduler::WeightedRoundRobin { classic_share: 1.0 / 16.0 }, 1000, 96);
    let classic: Vec<_> = (0..96).filter(|&place| order[place] == 0).collect();
    assert_eq!(classic.len(), 5);
    assert!(classic.windows(2).all(|pair| pair[1] - pair[0] == 16), "{classic:?}");
}

#[test]
fn time_shifted_fifo_serves_classic_packets_after_the_shift() {
    // Classic packets arrived 1 ms earlier.
    let order = |shift| order(Scheduler::TimeShiftedFifo { shift: TimeDelta::from_micros(shift) }, 5000, 10);
    assert_eq!(order(1000), [1; 10]);
    assert_eq!(order(999), [0; 10]);
}

#[test]
fn keeps_room_for_one_mtu() {
    let limit = Limit::Bytes(DataSize::from_bytes(3000));
    let mut dual = dual(DualPi2Config { limit, ..Default::default() });
    let mut drops = Vec::new();
    for sequence in 0..40 {
        dual.enqueue(at_micros(0), packet(0, sequence, 100, Ecn::Ect0), &mut drops);
    }
    // With up to 1500 B queued, another 1500 B would fit.
    assert_eq!((dual.packets(), drops.len()), (16, 24));
}

#[test]
fn the_timer_stops_when_the_probability_is_zero() {
    let mut dual = filled(0.3, 1, Ecn::Ect0);
    assert_eq!(dual.next_timer(), Some(at_micros(16_000)));
    dual.dequeue(at_micros(0), &mut Vec::new());
    let mut updates = 0;
    while let Some(due) = dual.next_timer() {
        dual.on_timer(due);
        updates += 1;
    }
    // Each update subtracts 0.16 · 15 ms = 0.0024 from 0.3.
    assert_eq!(updates, 125);
}
