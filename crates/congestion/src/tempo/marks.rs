//! Law: react to congestion marks.
//!
//! Once a packet is reported with ECT(1), marks are graded (RFC 9331): the share of marks, smoothed as in DCTCP (RFC 8257 §3.3), says how
//! much to reduce, each round trip. Then the pacing rate is what is controlled, since within a frame the packets must not queue for a
//! millisecond; the media stays below it. Otherwise a mark says what a loss says: the queue is managed (RFC 3168, RFC 8511). Beside others
//! it limits growth as well: with trains that show room a large call took what small ones yielded.
//!
//! Where a packet takes longer than the threshold of the queue, about a millisecond, a packet that meets one other is marked. The fewer
//! packets we send, the more of them meet those of others, so equal shares would not be stable. While the queue empties again and again,
//! the share that so few packets meet by chance does not count.
//!
//! Alone, sending less than arrives empties the queue and ends the marks. Where others hold the queue and take no marks, nearly all
//! packets are marked whatever we send: marks that stay while we yield are not ours. Then they say nothing, and only queue and losses
//! count.

use giusto_units::{Ecn, TimeDelta, Timestamp, math};

use super::path::Path;

/// Weight of a round in the smoothed share: RFC 8257 §4.2 has 1/16, for a reduction in every round; here one in two.
const WEIGHT: f64 = 0.25;
/// Shortest round: the virtual round trip of draft-briscoe-iccrg-prague-congestion-control-04 §2.4.4.
const MIN_ROUND: TimeDelta = TimeDelta::from_millis(25);
/// For this time after a mark the path is taken for one that marks.
const MEMORY: TimeDelta = TimeDelta::from_seconds(10);
/// Growth in the second after a mark, per second.
const GROWTH: f64 = 0.03;
/// Most growth while the path is taken for one that marks: 2 % in a reaction time.
const MAX_GROWTH: f64 = 0.15;
/// Factor at a classic mark: the queue is short, so less than for a loss (RFC 8511 §3.1: 0.85 for CUBIC).
const CLASSIC: f64 = 0.9;
/// Half of the packets meet another by chance if they leave at this interval, in seconds: a packet at 5 Mbit/s.
const CHANCE: f64 = 0.002;

/// Time constant of the lasting share of marks, in seconds: a second's congestion of ours, or a moment in which others drain the queue,
/// changes little.
const LASTING: f64 = 2.0;
/// Marks are nobody's signal to us once so large a share lasts, although less than [`YIELDED`] of what arrived before arrives: after
/// 3.2 s in which all packets are marked. Up to [`BEGINNING`] (0.6 s), what arrives is that before; below [`ENDED`] marks count again.
const SATURATED: f64 = 0.8;
const YIELDED: f64 = 0.5;
const BEGINNING: f64 = 0.25;
const ENDED: f64 = 0.4;

/// What follows from the marks of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Marked {
    /// Of the share of marked packets: this factor on the rate.
    Reduce(f64, f64),
    /// They are not ours: this rate in bit/s, which was that before them.
    NotOurs(f64),
}

/// Share of marked packets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks {
    is_graded: bool,
    /// Of this round.
    received: u32,
    marked: u32,
    since: Timestamp,
    share: f64,
    latest: Option<Timestamp>,
    reduced: Option<Timestamp>,
    /// Lasting share, and the rate and what arrived before it, in bit/s.
    lasting: f64,
    before: (f64, f64),
    is_foreign: bool,
}

impl Marks {
    /// Handles a packet that arrived with `ecn`.
    pub(super) fn on_packet(&mut self, ecn: Ecn) {
        self.is_graded |= ecn == Ecn::Ect1;
        self.received = self.received.saturating_add(1);
        self.marked = self.marked.saturating_add(u32::from(ecn == Ecn::Ce));
    }

    /// What follows after a feedback at `rate`, in bit/s; `None` if nothing is to change. `is_least`: the rate cannot be lower.
    pub(super) fn step(&mut self, path: &Path, rate: f64, is_least: bool) -> Option<Marked> {
        let round = path.rtt.max(MIN_ROUND);
        let time = path.now.saturating_since(self.since);
        if time < round || self.received == 0 {
            return None;
        }
        let chance = by_chance(path, rate);
        let share = f64::from(self.marked) / f64::from(self.received);
        (self.received, self.marked, self.since) = (0, 0, path.now);
        self.lasting += (1.0 - math::exp(-time.as_seconds() / LASTING)) * (share - self.lasting);
        if self.lasting < BEGINNING {
            self.before = (rate, path.delivered_long);
        }
        if self.is_foreign {
            self.is_foreign = self.lasting > ENDED;
            return None;
        }
        let (rate, delivered) = self.before;
        if self.lasting > SATURATED && (is_least || path.delivered_long < YIELDED * delivered) {
            self.is_foreign = true;
            return Some(Marked::NotOurs(rate));
        }
        self.share += WEIGHT * (share - self.share);
        if share == 0.0 {
            return None;
        }
        self.latest = Some(path.now);
        // What arrives from then on left after the reduction.
        let seen = if self.is_graded { round } else { MIN_ROUND } * 2;
        if self.reduced.is_some_and(|at| path.now.saturating_since(at) < seen) {
            return None;
        }
        self.reduced = Some(path.now);
        let ours = ((self.share - chance) / (1.0 - chance)).max(0.0);
        Some(Marked::Reduce(share, if self.is_graded { 1.0 - ours / 2.0 } else { CLASSIC }))
    }

    /// The time of the latest mark, if it is ours and the path is still taken for one that marks.
    fn fresh(&self, now: Timestamp) -> Option<Timestamp> {
        self.latest.filter(|&at| !self.is_foreign && now.saturating_since(at) < MEMORY)
    }

    /// Whether the path marks as for L4S.
    pub(super) fn is_l4s(&self, now: Timestamp) -> bool {
        self.is_graded && self.fresh(now).is_some()
    }

    /// The highest exponent of growth, per second: with marks that are fresh there is no room. It doubles each second without them.
    /// Classic marks limit none if the call `is_alone`.
    pub(super) fn limit(&self, now: Timestamp, is_alone: bool) -> Option<f64> {
        let latest = self.fresh(now).filter(|_| self.is_graded || !is_alone)?;
        let doublings = (now.saturating_since(latest).as_seconds() - 1.0).max(0.0);
        Some((GROWTH * math::exp(core::f64::consts::LN_2 * doublings)).min(MAX_GROWTH))
    }
}

/// The share of packets that are marked since they meet one of others, at `rate` in bit/s; none while a queue stands.
fn by_chance(path: &Path, rate: f64) -> f64 {
    let interval = if path.queue() * 2 < path.low { path.packet_size / rate.max(1.0) } else { 0.0 };
    interval / (interval + CHANCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares and factors of rounds of ten packets, of which so many are marked.
    fn rounds(capable: Ecn, marked: &[u32]) -> (Marks, Vec<Option<(f64, f64)>>) {
        let mut marks = Marks::default();
        let mut results = Vec::new();
        for (round, &marked) in (1..).zip(marked) {
            for packet in 0..10 {
                marks.on_packet(if packet < marked { Ecn::Ce } else { capable });
            }
            let now = Timestamp::ZERO + TimeDelta::from_millis(50) * round;
            // So many packets that they meet no other by chance.
            results.push(match marks.step(&Path { now, ..Path::example() }, f64::INFINITY, false) {
                Some(Marked::Reduce(share, factor)) => Some((share, factor)),
                other => other.map(|_| unreachable!("{other:?}")),
            });
        }
        (marks, results)
    }

    #[test]
    fn graded_marks_reduce_by_half_their_smoothed_share_in_one_round_of_two() {
        let (marks, results) = rounds(Ecn::Ect1, &[0, 4, 4, 2, 0]);
        // 0.1; then a round without reaction (0.175); then 0.175 + (0.2 - 0.175) / 4 = 0.18125.
        let (share, factor) = results[1].unwrap();
        assert!((share - 0.4).abs() < 1e-12 && (factor - 0.95).abs() < 1e-12, "{share} {factor}");
        assert_eq!((results[0], results[2], results[4]), (None, None, None));
        let (_, factor) = results[3].unwrap();
        assert!((factor - (1.0 - 0.18125 / 2.0)).abs() < 1e-12, "{factor}");
        let at = |ms| Timestamp::ZERO + TimeDelta::from_millis(ms);
        assert!(marks.is_l4s(at(300)) && !marks.is_l4s(at(11_000)));
        // 3 % a second at first, and never more than 15 %.
        assert!((marks.limit(at(700), true).unwrap() - 0.03).abs() < 1e-12);
        assert!((marks.limit(at(5000), true).unwrap() - 0.15).abs() < 1e-12);
    }

    #[test]
    fn classic_marks_reduce_by_a_tenth_and_limit_growth_beside_others() {
        // Rounds of 50 ms.
        let (marks, results) = rounds(Ecn::Ect0, &[0, 1, 5, 0, 0]);
        assert_eq!(results, [None, Some((0.1, 0.9)), Some((0.5, 0.9)), None, None]);
        let at = |ms| Timestamp::ZERO + TimeDelta::from_millis(ms);
        assert!((marks.limit(at(350), false).unwrap() - 0.03).abs() < 1e-12);
        assert_eq!((marks.limit(at(350), true), marks.limit(at(10_200), false)), (None, None));
        assert!(!marks.is_l4s(at(350)));
    }

    #[test]
    fn classic_marks_of_short_rounds_count_once_in_50_ms() {
        let mut marks = Marks::default();
        let mut reduced = Vec::new();
        for ms in (10..=200).step_by(10) {
            marks.on_packet(Ecn::Ce);
            let now = Timestamp::ZERO + TimeDelta::from_millis(ms);
            let path = Path { now, rtt: TimeDelta::from_millis(12), ..Path::example() };
            if marks.step(&path, 1e6, false).is_some() {
                reduced.push(ms);
            }
        }
        // Rounds end each 30 ms, the first multiple of 10 from 25 on.
        assert_eq!(reduced, [30, 90, 150]);
    }

    #[test]
    fn marks_that_few_packets_meet_by_chance_do_not_count_unless_a_queue_stands() {
        // 10,000 bits at 5 Mbit/s: each 2 ms, so half of the marks. Over the half are 0.4 of the rest.
        let factor = |rate: f64, marked: u32, queue: i64| {
            let mut marks = Marks::default();
            (0..10).for_each(|packet| marks.on_packet(if packet < marked { Ecn::Ce } else { Ecn::Ect1 }));
            marks.share = f64::from(marked) / 10.0;
            let path = Path { queue: Some(TimeDelta::from_millis(queue)), ..Path::example() };
            match marks.step(&path, rate, false) {
                Some(Marked::Reduce(_, factor)) => factor,
                other => panic!("{other:?}"),
            }
        };
        assert!((factor(5e6, 7, 0) - 0.8).abs() < 1e-12);
        assert!((factor(5e6, 5, 0) - 1.0).abs() < 1e-12 && (factor(1e6, 8, 0) - 1.0).abs() < 1e-12);
        // The queue of the example stands from 2 ms on.
        assert!((factor(5e6, 7, 1) - 0.8).abs() < 1e-12 && (factor(5e6, 7, 2) - 0.65).abs() < 1e-12);
    }

    /// Time in ms at which marks of the share `marked(ms)` are found to be not ours and when they count again, while `arrives(ms)` arrives.
    fn foreign(marked: impl Fn(i64) -> u32, arrives: impl Fn(i64) -> f64) -> Vec<(i64, bool)> {
        let (mut marks, mut changes) = (Marks::default(), Vec::new());
        for time in (0..20_000).step_by(50) {
            (0..10).for_each(|n| marks.on_packet(if n < marked(time) { Ecn::Ce } else { Ecn::Ect1 }));
            let now = Timestamp::ZERO + TimeDelta::from_millis(1000 + time);
            let was = marks.is_foreign;
            let path = Path { now, delivered_long: arrives(time), ..Path::example() };
            let next = marks.step(&path, arrives(time) / 0.9, false);
            assert_eq!(matches!(next, Some(Marked::NotOurs(rate)) if rate > 0.7e6), !was && marks.is_foreign);
            if was != marks.is_foreign {
                changes.push((time, marks.is_foreign));
            }
        }
        changes
    }

    #[test]
    fn marks_that_stay_while_we_yield_are_not_ours() {
        let yields = |time: i64| 1e6 * math::exp(-(time as f64) / 4000.0);
        // From 1 s on all are marked: 1 - exp(-t / 2 s) is 0.8 after 3.2 s. They end at 10 s, where it falls from 0.99 to 0.4 in 1.8 s.
        let all = |time: i64| if (1000..10_000).contains(&time) { 10 } else { 0 };
        let [(from, true), (to, false)] = foreign(all, yields)[..] else { panic!("once") };
        assert!((4150..=4400).contains(&from) && (11_700..=11_900).contains(&to), "{from} {to}");
        // Our own queue: what arrives is the capacity, as long as it takes to drain. And marks that do not saturate are a grade.
        assert_eq!(foreign(all, |_| 1e6), []);
        assert_eq!(foreign(|_| 7, yields), []);
    }
}
