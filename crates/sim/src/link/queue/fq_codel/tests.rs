use giusto_units::Ecn;

use super::*;
use crate::{
    link::queue::tests::{at_micros, packet},
    random,
};

fn queue(config: FqCodelConfig) -> FqCodel {
    FqCodel::new(config, random::stream(1, "link: queue")).unwrap()
}

fn with_quantum(bytes: u64) -> FqCodel {
    queue(FqCodelConfig { quantum: DataSize::from_bytes(bytes), ..Default::default() })
}

/// Enqueues `packets` packets of `bytes` each on `flow`.
fn fill(queue: &mut FqCodel, flow: u32, bytes: u32, packets: u64) {
    let mut drops = Vec::new();
    for sequence in 0..packets {
        queue.enqueue(at_micros(0), packet(flow, sequence, bytes, Ecn::NotEct), &mut drops);
    }
    assert!(drops.is_empty());
}

fn served(queue: &mut FqCodel, packets: usize) -> Vec<u32> {
    let mut drops = Vec::new();
    (0..packets).map_while(|_| queue.dequeue(at_micros(0), &mut drops)).map(|packet| packet.flow.0).collect()
}

#[test]
fn flows_with_different_packet_sizes_get_equal_bytes() {
    let mut queue = queue(FqCodelConfig::default());
    fill(&mut queue, 1, 100, 6000);
    fill(&mut queue, 2, 757, 1000);
    fill(&mut queue, 3, 1514, 1000);
    let served = served(&mut queue, 4000);
    let bytes = |flow, bytes| served.iter().filter(|&&served| served == flow).count() as i64 * bytes;
    let (first, second, third) = (bytes(1, 100), bytes(2, 757), bytes(3, 1514));
    // Two packets of 757 B or one of 1514 B are one quantum, so these flows differ by at most the current turn. A flow of
    // 100 B packets overdraws its credits by less than one packet.
    assert!((second - third).abs() <= 1514, "{second} {third}");
    assert!((first - third).abs() <= 1514 + 100, "{first} {third}");
    assert!(third > 200_000);
}

#[test]
fn new_and_sparse_flows_are_served_first() {
    let mut queue = with_quantum(1514);
    fill(&mut queue, 1, 1514, 500);
    assert_eq!(served(&mut queue, 2), [1, 1]);
    // A packet every 10 departures is served next each time, with hundreds of other packets queued.
    for _ in 0..20 {
        fill(&mut queue, 2, 200, 1);
        assert_eq!(served(&mut queue, 1), [2]);
        assert_eq!(served(&mut queue, 9), [1; 9]);
    }
}

#[test]
fn an_emptied_new_queue_moves_behind_the_old_ones() {
    let mut queue = with_quantum(1000);
    fill(&mut queue, 1, 1000, 10);
    fill(&mut queue, 2, 1000, 10);
    assert_eq!(served(&mut queue, 2), [1, 2]);
    fill(&mut queue, 3, 100, 1);
    assert_eq!(served(&mut queue, 1), [3]);
    // Its empty queue moves behind the old ones. The next packet finds it there, with 900 credits left.
    assert_eq!(served(&mut queue, 1), [1]);
    fill(&mut queue, 3, 100, 1);
    assert_eq!(served(&mut queue, 3), [2, 3, 1]);
}

#[test]
fn packets_of_many_quanta_are_served_in_bounded_time() {
    let mut queue = with_quantum(1);
    fill(&mut queue, 1, 4_000_000_000, 3);
    fill(&mut queue, 2, 1_000_000_000, 9);
    // With a quantum of one byte, after the first packet of each flow, flow 2 has paid its debt after 1, 2 and 3 · 10⁹
    // rounds and flow 1 after 4 · 10⁹, when it is at the head.
    assert_eq!(served(&mut queue, 12), [1, 2, 2, 2, 2, 1, 2, 2, 2, 2, 1, 2]);
}

#[test]
fn an_overflow_drops_half_of_the_longest_queue() {
    let mut queue = queue(FqCodelConfig { limit: 60, ..Default::default() });
    let mut drops = Vec::new();
    fill(&mut queue, 1, 100, 40);
    fill(&mut queue, 2, 1000, 20);
    queue.enqueue(at_micros(0), packet(1, 40, 100, Ecn::Ect0), &mut drops);
    // Flow 2 has more bytes, flow 1 more packets.
    assert_eq!(drops.len(), 10);
    for (sequence, drop) in drops.iter().enumerate() {
        assert_eq!((drop.packet.flow.0, drop.packet.sequence), (2, sequence as u64));
        assert_eq!(drop.reason, DropReason::Overflow);
    }
    assert_eq!((queue.packets(), queue.size().as_bytes()), (51, 41 * 100 + 10 * 1000));
}

#[test]
fn an_overflow_drops_1_to_64_packets() {
    for (config, queued, dropped) in [
        (FqCodelConfig { limit: 1000, ..Default::default() }, 1000, 64),
        (FqCodelConfig { memory: Some(DataSize::from_bytes(99)), ..Default::default() }, 0, 1),
    ] {
        let (mut queue, mut drops) = (queue(config), Vec::new());
        fill(&mut queue, 1, 100, queued);
        queue.enqueue(at_micros(0), packet(1, queued, 100, Ecn::NotEct), &mut drops);
        assert_eq!((drops.len(), queue.packets()), (dropped, queued as usize + 1 - dropped));
        assert_eq!(queue.dequeue(at_micros(0), &mut drops).is_some(), queued > 0);
    }
}

#[test]
fn marks_sojourn_times_above_the_ce_threshold() {
    let mut queue =
        queue(FqCodelConfig { ce_threshold: Some(TimeDelta::from_millis(1)), ..Default::default() });
    let mut drops = Vec::new();
    for sequence in 0..3 {
        queue.enqueue(at_micros(0), packet(1, sequence, 100, Ecn::Ect1), &mut drops);
    }
    let mut marked_at = |micros| queue.dequeue(at_micros(micros), &mut drops).unwrap().ecn == Ecn::Ce;
    assert_eq!([marked_at(0), marked_at(1000), marked_at(1001)], [false, false, true]);
}

#[test]
fn each_queue_has_its_own_control_state() {
    let mut queue = queue(FqCodelConfig::default());
    let mut drops = Vec::new();
    fill(&mut queue, 1, 1514, 2000);
    // Flow 2 has a new packet each millisecond. Only flow 1 has a standing queue.
    for milli in 10..520 {
        queue.enqueue(at_micros(1000 * milli), packet(2, milli, 1514, Ecn::NotEct), &mut drops);
        for _ in 0..2 {
            queue.dequeue(at_micros(1000 * milli), &mut drops);
        }
    }
    assert!(drops.iter().all(|drop| drop.packet.flow.0 == 1));
    // As in the test of CoDel: at 110, 210, 281, 339, 389, 434, 474, 512 ms.
    assert_eq!(drops.len(), 8);
}

#[test]
fn the_salt_decides_which_flows_share_a_queue() {
    let of_seed = |seed| {
        let queue = FqCodel::new(FqCodelConfig::default(), random::stream(seed, "link: queue")).unwrap();
        (0..100).map(|flow| queue.queue_of(FlowId(flow))).collect::<Vec<_>>()
    };
    assert_eq!(of_seed(1), of_seed(1));
    assert_ne!(of_seed(1), of_seed(2));
    // RFC 8290 §5.3: with 100 flows in 1024 queues, a flow has a queue of its own with probability (1023/1024)^99 = 90.78 %.
    let mut alone = 0;
    for seed in 0..500 {
        let mut queues = of_seed(seed);
        queues.sort_unstable();
        alone += queues.chunk_by(|a, b| a == b).filter(|same| same.len() == 1).count();
    }
    let share = alone as f64 / (500.0 * 100.0);
    assert!((share - 0.9078).abs() < 0.006, "{share}");
}
