//! Selects the stream that sends the next packet: weighted round robin by credit (RFC 8298 §4.1.2.8).
//!
//! When a stream sends, each other stream with a queue gets a credit, in proportion to its weight; the stream with the most credit
//! for its weight is next. Only differences of credit count. So each stream has a *turn* instead, the bytes it has sent over its
//! weight, and the lowest turn is next: the same order with one update per packet. A stream without a queue gains no credit: its
//! turn is at least that of the last packet sent.
//!
//! In this form it is start-time fair queuing (Goyal, Vin and Cheng, 1996), which bounds what it does. Where no packet is larger
//! than `L`, stream `i` has the weight `w_i`, and `n` streams have `W` together:
//!
//! - two streams that wait all the time have sent `s_i` and `s_j`, and `|s_i / w_i - s_j / w_j| <= L / w_i + L / w_j`;
//! - before the first packet of a stream leaves, the others send at most `L * (W - w_i) / w_i + L * (n - 1)`.

use giusto_units::DataSize;

/// The largest weight; weights are whole numbers.
const HEAVIEST: u64 = 1 << 20;
/// The largest ratio of two weights: at 1 Mbit/s, packets of 1200 bytes then wait for 10 s. Ours.
const LIGHTEST_PART: u64 = 1 << 10;
/// The binary logarithm of the turn of one byte at weight 1: rounding is far below one byte of the heaviest stream.
const TURNS: u32 = 40;

/// Selects the next stream among those with a queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Scheduler {
    lanes: Vec<Lane>,
    /// The turn of the last packet sent; if all queues are empty, the highest turn of all.
    turn: u128,
}

#[derive(Debug, Clone, Copy)]
struct Lane {
    weight: u64,
    turn: u128,
    waits: bool,
}

impl Scheduler {
    /// One stream for each of `priorities`, which are above 0 and finite.
    pub(super) fn new(priorities: impl Iterator<Item = f64> + Clone) -> Self {
        let heaviest = priorities.clone().fold(f64::MIN_POSITIVE, f64::max);
        let lane = |priority: f64| {
            let weight = (priority / heaviest * HEAVIEST as f64) as u64;
            Lane { weight: weight.clamp(HEAVIEST / LIGHTEST_PART, HEAVIEST), turn: 0, waits: false }
        };
        Self { lanes: priorities.map(lane).collect(), turn: 0 }
    }

    /// The queue of `stream` is not empty.
    pub(super) fn on_waiting(&mut self, stream: usize) {
        let turn = self.turn;
        if let Some(lane) = self.lanes.get_mut(stream).filter(|lane| !lane.waits) {
            lane.waits = true;
            lane.turn = lane.turn.max(turn);
        }
    }

    /// The queue of `stream` is empty.
    pub(super) fn on_empty(&mut self, stream: usize) {
        if let Some(lane) = self.lanes.get_mut(stream) {
            lane.waits = false;
        }
        if self.lanes.iter().all(|lane| !lane.waits) {
            let turns = self.lanes.iter().map(|lane| lane.turn);
            self.turn = turns.max().unwrap_or(0);
        }
    }

    /// The next stream; of equal turns the first.
    pub(super) fn next(&self) -> Option<usize> {
        let waiting = self.lanes.iter().enumerate().filter(|(_, lane)| lane.waits);
        waiting.min_by_key(|(_, lane)| lane.turn).map(|(stream, _)| stream)
    }

    /// A packet of `stream` was sent.
    pub(super) fn on_sent(&mut self, stream: usize, size: DataSize) {
        if let Some(lane) = self.lanes.get_mut(stream) {
            self.turn = lane.turn;
            lane.turn += (u128::from(size.as_bytes()) << TURNS) / u128::from(lane.weight);
        }
    }
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

    /// All wait, and go on waiting: what each sends until `total` bytes have left.
    fn served(priorities: &[f64], sizes: &[u64], total: u64) -> Vec<u64> {
        let mut scheduler = Scheduler::new(priorities.iter().copied());
        (0..priorities.len()).for_each(|stream| scheduler.on_waiting(stream));
        let mut served = vec![0; priorities.len()];
        while served.iter().sum::<u64>() < total {
            let stream = scheduler.next().unwrap();
            served[stream] += sizes[stream];
            scheduler.on_sent(stream, bytes(sizes[stream]));
        }
        served
    }

    #[test]
    fn bytes_are_shared_by_weight_whatever_the_size_of_packets() {
        assert_eq!(served(&[1.0, 1.0], &[1000, 1000], 10_000), [5000, 5000]);
        assert_eq!(served(&[2.0, 1.0, 1.0], &[1000, 1000, 1000], 40_000), [20_000, 10_000, 10_000]);
        let uneven = served(&[1.0, 1.0], &[100, 1500], 300_000);
        assert!(uneven[0].abs_diff(uneven[1]) <= 1600, "{uneven:?}");
    }

    #[test]
    fn one_alone_is_always_next_and_nobody_is_next_where_nobody_waits() {
        let mut scheduler = Scheduler::new([1.0].into_iter());
        assert_eq!(scheduler.next(), None);
        scheduler.on_waiting(0);
        for _ in 0..10 {
            assert_eq!(scheduler.next(), Some(0));
            scheduler.on_sent(0, bytes(1000));
        }
        scheduler.on_empty(0);
        assert_eq!(scheduler.next(), None);
        assert_eq!(Scheduler::new(std::iter::empty()).next(), None);
    }

    #[test]
    fn who_was_idle_has_saved_nothing_and_who_went_away_owing_still_owes() {
        let mut scheduler = Scheduler::new([1.0, 1.0].into_iter());
        scheduler.on_waiting(0);
        for _ in 0..1000 {
            scheduler.on_sent(0, bytes(1000));
        }
        // It has waited for nothing, so it is not a million bytes ahead: one packet each.
        scheduler.on_waiting(1);
        let mut order = Vec::new();
        for _ in 0..6 {
            let stream = scheduler.next().unwrap();
            order.push(stream);
            scheduler.on_sent(stream, bytes(1000));
        }
        assert_eq!(order, [1, 0, 1, 0, 1, 0]);
        // It sends and leaves and comes back at once, while the other waits: no way to the front.
        let stream = scheduler.next().unwrap();
        scheduler.on_sent(stream, bytes(1000));
        scheduler.on_empty(stream);
        scheduler.on_waiting(stream);
        assert_eq!(scheduler.next(), Some(1 - stream));
    }

    #[test]
    fn no_priority_is_so_small_that_it_gets_nothing() {
        let served = served(&[1e9, 1e-9], &[1200, 1200], 1_200 * 1025 * 4);
        assert_eq!(served[1] / 1200, 4, "a part in 1024: {served:?}");
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// Packets of these sizes are queued.
        Push(usize, u64),
        /// One leaves.
        Send,
        /// A queue is thrown away.
        Discard(usize),
    }

    fn step(streams: usize) -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => (0..streams, 1..=LARGEST).prop_map(|(stream, size)| Step::Push(stream, size)),
            5 => Just(Step::Send),
            1 => (0..streams).prop_map(Step::Discard),
        ]
    }

    proptest! {
        /// Goyal, Vin and Cheng: the bound on what the others send before a packet that waits at the front of its queue.
        #[test]
        fn nobody_waits_longer_than_its_weight_says(
            weights in prop::collection::vec(1_u32..50, 1..8),
            steps in prop::collection::vec(step(8), 1..600),
        ) {
            let count = weights.len();
            let mut scheduler = Scheduler::new(weights.iter().map(|&weight| f64::from(weight)));
            let mut queues = vec![VecDeque::new(); count];
            // What the others have sent since the packet at the front of each has been there.
            let mut passed = vec![0_u64; count];
            for step in steps {
                match step {
                    Step::Push(stream, size) => {
                        let stream = stream % count;
                        if queues[stream].is_empty() {
                            passed[stream] = 0;
                        }
                        queues[stream].push_back(size);
                        scheduler.on_waiting(stream);
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
                            // Weights are rounded to a part in 20 000, the lightest of them.
                            let bound = LARGEST as f64 * (others + (count - 1) as f64) * 1.001;
                            prop_assert!(passed[other] as f64 <= bound, "{} > {}", passed[other], bound);
                        }
                    }
                }
            }
        }

        #[test]
        fn those_that_wait_all_the_time_share_by_weight(
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
