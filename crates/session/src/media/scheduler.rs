//! Selects the stream that sends the next packet: weighted round robin by credit (RFC 8298 §4.1.2.8).
//!
//! When a stream sends, each other stream with a queue gets a credit in proportion to its weight. The stream
//! with the highest credit relative to its weight sends next. Only differences of credit matter, so each
//! stream has a *turn* instead: its sent bytes divided by its weight. The lowest turn is next, which gives
//! the same order with one update per packet. A stream without a queue gains no credit: its turn is at least
//! that of the last packet sent.
//!
//! This is start-time fair queuing (Goyal, Vin and Cheng, 1996), which has proven bounds. Let no packet be
//! larger than `L`, let stream `i` have the weight `w_i`, and let `n` streams have the total weight `W`:
//!
//! - for two streams that always have a queue, which have sent `s_i` and `s_j`,
//!   `|s_i / w_i - s_j / w_j| <= L / w_i + L / w_j`;
//! - before the first packet of a stream is sent, the others send at most
//!   `L * (W - w_i) / w_i + L * (n - 1)`.

use giusto_units::DataSize;

/// Maximum weight; weights are whole numbers.
const HEAVIEST: u64 = 1 << 20;
/// Maximum ratio of two weights: at 1 Mbit/s, packets of 1200 bytes then wait for 10 s. Chosen by us.
const LIGHTEST_PART: u64 = 1 << 10;
/// Binary logarithm of the turn of one byte at weight 1: the rounding error is far below one byte of the
/// heaviest stream.
const TURNS: u32 = 40;

/// Selects the next stream among those with a queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Scheduler {
    lanes: Vec<Lane>,
    /// The turn of the last packet sent; if all queues are empty, the highest turn.
    turn: u128,
}

#[derive(Debug, Clone, Copy)]
struct Lane {
    weight: u64,
    turn: u128,
    has_queue: bool,
}

impl Scheduler {
    /// One stream for each of `priorities`, which are above 0 and finite.
    pub(super) fn new(priorities: impl Iterator<Item = f64> + Clone) -> Self {
        let lanes = weights(priorities).map(|weight| Lane { weight, turn: 0, has_queue: false });
        Self { lanes: lanes.collect(), turn: 0 }
    }

    /// Sets the priorities from now on: what was sent before counts by the priority that it was sent with.
    pub(super) fn set_priorities(&mut self, priorities: impl Iterator<Item = f64> + Clone) {
        for (lane, weight) in self.lanes.iter_mut().zip(weights(priorities)) {
            lane.weight = weight;
        }
    }

    /// The queue of `stream` has become non-empty.
    pub(super) fn on_queued(&mut self, stream: usize) {
        let turn = self.turn;
        if let Some(lane) = self.lanes.get_mut(stream).filter(|lane| !lane.has_queue) {
            lane.has_queue = true;
            lane.turn = lane.turn.max(turn);
        }
    }

    /// The queue of `stream` has become empty.
    pub(super) fn on_empty(&mut self, stream: usize) {
        if let Some(lane) = self.lanes.get_mut(stream) {
            lane.has_queue = false;
        }
        if self.lanes.iter().all(|lane| !lane.has_queue) {
            let turns = self.lanes.iter().map(|lane| lane.turn);
            self.turn = turns.max().unwrap_or(0);
        }
    }

    /// The next stream; the first one of equal turns.
    pub(super) fn next(&self) -> Option<usize> {
        let packet = self.lanes.iter().enumerate().filter(|(_, lane)| lane.has_queue);
        packet.min_by_key(|(_, lane)| lane.turn).map(|(stream, _)| stream)
    }

    /// A packet of `stream` was sent.
    pub(super) fn on_sent(&mut self, stream: usize, size: DataSize) {
        if let Some(lane) = self.lanes.get_mut(stream) {
            self.turn = lane.turn;
            lane.turn += (u128::from(size.as_bytes()) << TURNS) / u128::from(lane.weight);
        }
    }
}

fn weights(priorities: impl Iterator<Item = f64> + Clone) -> impl Iterator<Item = u64> {
    let heaviest = priorities.clone().fold(f64::MIN_POSITIVE, f64::max);
    priorities.map(move |priority| {
        let weight = (priority / heaviest * HEAVIEST as f64) as u64;
        weight.clamp(HEAVIEST / LIGHTEST_PART, HEAVIEST)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const LARGEST: u64 = 1500;

    fn bytes(bytes: u64) -> DataSize {
        DataSize::from_bytes(bytes)
    }

    /// All streams always have a queue: the bytes that each sends until `total` bytes have been sent.
    fn served(priorities: &[f64], sizes: &[u64], total: u64) -> Vec<u64> {
        let mut scheduler = Scheduler::new(priorities.iter().copied());
        (0..priorities.len()).for_each(|stream| scheduler.on_queued(stream));
        let mut served = vec![0; priorities.len()];
        while served.iter().sum::<u64>() < total {
            let stream = scheduler.next().unwrap();
            served[stream] += sizes[stream];
            scheduler.on_sent(stream, bytes(sizes[stream]));
        }
        served
    }

    #[test]
    fn idle_streams_gain_no_credit_and_keep_their_debt() {
        assert_eq!(Scheduler::new(std::iter::empty()).next(), None);
        let mut scheduler = Scheduler::new([1.0, 1.0].into_iter());
        assert_eq!(scheduler.next(), None);
        scheduler.on_queued(0);
        for _ in 0..1000 {
            scheduler.on_sent(0, bytes(1000));
        }
        // It had no queue, so it is not a million bytes ahead: one packet each.
        scheduler.on_queued(1);
        let mut order = Vec::new();
        for _ in 0..6 {
            let stream = scheduler.next().unwrap();
            order.push(stream);
            scheduler.on_sent(stream, bytes(1000));
        }
        assert_eq!(order, [1, 0, 1, 0, 1, 0]);
        // It sends, becomes empty and returns at once, while the other has a queue: it gains no advantage.
        let stream = scheduler.next().unwrap();
        scheduler.on_sent(stream, bytes(1000));
        scheduler.on_empty(stream);
        scheduler.on_queued(stream);
        assert_eq!(scheduler.next(), Some(1 - stream));
    }

    #[test]
    fn the_smallest_priority_still_gets_a_share() {
        let served = served(&[1e9, 1e-9], &[1200, 1200], 1_200 * 1025 * 4);
        assert_eq!(served[1] / 1200, 4, "a part in 1024: {served:?}");
    }

    /// A packet of this size is queued, or one leaves, or a queue is thrown away.
    #[derive(Debug, Clone)]
    enum Step {
        Push(usize, u64),
        Send,
        Discard(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => (0_usize..8, 1..=LARGEST).prop_map(|(stream, size)| Step::Push(stream, size)),
            5 => Just(Step::Send),
            1 => (0_usize..8).prop_map(Step::Discard),
        ]
    }

    proptest! {
        /// Goyal, Vin and Cheng: the bound on the bytes that the others send before a packet at the front of
        /// its queue.
        #[test]
        fn the_wait_of_a_packet_is_bounded_by_its_weight(
            weights in prop::collection::vec(1_u32..50, 1..8),
            steps in prop::collection::vec(step(), 1..600),
        ) {
            let count = weights.len();
            let mut scheduler = Scheduler::new(weights.iter().map(|&weight| f64::from(weight)));
            let mut queues = vec![VecDeque::new(); count];
            // Bytes that the others have sent since the packet came to the front of each queue.
            let mut passed = vec![0_u64; count];
            for step in steps {
                match step {
                    Step::Push(stream, size) => {
                        let stream = stream % count;
                        if queues[stream].is_empty() {
                            passed[stream] = 0;
                        }
                        queues[stream].push_back(size);
                        scheduler.on_queued(stream);
                    }
                    Step::Discard(stream) => {
                        queues[stream % count].clear();
                        scheduler.on_empty(stream % count);
                    }
                    Step::Send => {
                        let Some(stream) = scheduler.next() else {
                            prop_assert!(queues.iter().all(VecDeque::is_empty), "work is not conserved");
                            continue;
                        };
                        let size = queues[stream].pop_front();
                        prop_assert!(size.is_some(), "{} has nothing", stream);
                        let size = size.unwrap();
                        scheduler.on_sent(stream, bytes(size));
                        if queues[stream].is_empty() {
                            scheduler.on_empty(stream);
                        }
                        for (other, passed) in passed.iter_mut().enumerate() {
                            *passed = if other == stream { 0 } else { *passed + size };
                        }
                        let whole: u32 = weights.iter().sum();
                        for other in (0..count).filter(|&other| !queues[other].is_empty()) {
                            let others = f64::from(whole - weights[other]) / f64::from(weights[other]);
                            // Weights are rounded to 1 in 20 000, for the smallest weight.
                            let bound = LARGEST as f64 * (others + (count - 1) as f64) * 1.001;
                            prop_assert!(passed[other] as f64 <= bound, "{} > {}", passed[other], bound);
                        }
                    }
                }
            }
        }

        #[test]
        fn streams_with_constant_queues_share_by_weight(
            weights in prop::collection::vec(1_u32..50, 2..8),
            sizes in prop::collection::vec(1..=LARGEST, 8),
            total in 1_000_u64..500_000,
        ) {
            let priorities: Vec<f64> = weights.iter().map(|&weight| f64::from(weight)).collect();
            let served = served(&priorities, &sizes, total);
            for i in 0..weights.len() {
                for j in 0..i {
                    let share = |k: usize| served[k] as f64 / priorities[k];
                    let bound = LARGEST as f64 * (1.0 / priorities[i] + 1.0 / priorities[j]);
                    prop_assert!((share(i) - share(j)).abs() <= bound + total as f64 * 1e-4, "{:?}", served);
                }
            }
        }
    }
}
