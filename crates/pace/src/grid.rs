//! `grid`: an absolute grid in whole nanoseconds, with a catch-up rule and a burst bound.

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{
    catch_up::{BurstBound, CatchUp},
    ideal::IdealLine,
    plan::CyclePlan,
    schedule::{Cycle, LateCycles, Schedule, Step},
};

/// Configuration of a [`Grid`] besides the plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct GridConfig {
    /// Due time of the first cycle. Default: the first call.
    pub start: Option<Timestamp>,
    /// Rule for cycles that are later than the bound. Default: [`CatchUp::Burst`].
    pub catch_up: CatchUp,
    /// Maximum amount that is sent back to back. Default: 1 ms at the rate.
    pub burst_bound: BurstBound,
}

giusto_units::setters!(GridConfig {
    /// The same, with the first cycle due at `start`.
    with_start(start: into Timestamp);
    /// The same, with this rule for late cycles.
    with_catch_up(catch_up: CatchUp);
    /// The same, with this burst bound.
    with_burst_bound(burst_bound: BurstBound);
});

/// Sends on an absolute grid, and sleeps until its next point.
///
/// It is the absolute-time idea of AT0 (Chiu et al., "Experiences in Programming a Traffic Shaper", §5),
/// `next = start + dataSent / rate`, in integers that do not drift. It also limits the burst after a delay,
/// which AT0 does not.
///
/// # Definition
///
/// | symbol | meaning |
/// |---|---|
/// | `R` | the rate of the plan |
/// | `c`, `T = c / R` | the size of the plan's cycle, and its period |
/// | `B = M · c` | the burst bound [`BurstBound`] in whole cycles, at least one |
/// | `due` | `start + ⌈bits · 10⁹ / R⌉` nanoseconds, with `bits` the data sent (or skipped) before |
/// | lateness | `now − due` |
///
/// Sizes may vary between cycles: the size passed to [`on_sent`](Schedule::on_sent) counts. A cycle of size
/// zero stays due.
///
/// 1. Before `due`: sleep until `due`.
/// 2. A lateness below `M · T` is *within the bound*: the cycle is sent at once, late. At most `M` cycles can be in that
///    state together, so at most `B` leaves back to back.
/// 3. A lateness of `M · T` or more is *beyond the bound*. [`CatchUp`] decides:
///    - `Burst`: everything stays owed. Until nothing is owed any more, cycles leave in bursts, with pauses between them. A
///      bucket of depth `B` fills at `2R`; once empty, the next burst waits until it is full. While cycles are owed the bucket
///      goes on filling above `B` for as long as the machine holds the sender up, at most for 100 ms: a pause that is overslept
///      by `o` allows `2R · o` more. So sleeps that end late cannot keep the sender from catching up.
///    - `Skip`: the oldest whole cycles are dropped until what is left is within the bound. The grid keeps its phase.
///    - `Reanchor`: a new grid begins, with a cycle due now. What was owed is forgotten.
///
/// A cycle that [waits for its data](Schedule::on_starved) is late like any other. `Burst` therefore keeps
/// the rate of the whole session (the file transfer model of §6 there), and `Reanchor` that of each fragment
/// of live data (AT1, §7), with `M · T` as the threshold of a gap.
///
/// # Timeline
///
/// One datagram per millisecond, a bound of two; the sender is stalled from 1.0 ms to 7.2 ms. Each entry is a
/// departure time (in ms), followed by its due times in brackets:
///
/// ```text
/// burst     7.2 (1 2)   8.2 (3 4)   9.2 (5 6)  10.2 (7 8)  11.2 (9 10)  12.2 (11 12)  13 (13)  14 (14)
/// skip      7.2 (6 7)   8 (8)       9 (9)      10 (10)     11 (11)      12 (12)       13 (13)  14 (14)
/// reanchor  7.2 (7.2)   8.2 (8.2)   9.2 (9.2)  10.2 (10.2) 11.2 (11.2)  12.2 (12.2)   13.2 …
/// ```
///
/// # Guarantees
///
/// Times are those passed to [`next`](Schedule::next) and [`on_sent`](Schedule::on_sent). Varying sizes can
/// add the excess of the largest cycle over the plan's.
///
/// - **Never early.** No cycle leaves before it is due, so by any time `t` no more than `R · (t − start) + c` was sent.
/// - **No drift.** `due` is exact however long the run. With `Burst`, a sender that can keep up has a long-run average of
///   exactly `R`, whatever its sleeps overshoot: it catches up at `2R`. With `Skip`, the average is `R` less exactly what
///   [`LateCycles`] counts. Keeping up takes sends that are faster than `R`.
/// - **Bursts.** Over any window `w`, with `Skip` and `Reanchor` no more than `R · w + c + B` is sent, with `Burst` no more
///   than `2R · (w + h) + c + B`, where `h` is the longest time from the moment at which a sleep should have ended to the next
///   sleep, at most 100 ms: zero on a machine that wakes on time and sends at once. [`LateCycles::largest_burst_packets`] reports the largest. The
///   cycle `c` is the fence post that a perfect sender has as well.
/// - **At one instant** never more than `B`, with `Burst` `B + 2R · h`.
/// - **Honest.** Every cycle reports its own `due`, so that actual time − `due` is its true error.
/// - **Bounded work.** Each call takes constant time.
#[derive(Debug, Clone)]
pub struct Grid {
    line: IdealLine,
    packets: u32,
    cycle: DataSize,
    catch_up: CatchUp,
    bound_cycles: u64,
    /// The lateness in nanoseconds from which a cycle is beyond the bound.
    late_limit: u64,
    catching_up: bool,
    bucket: Bucket,
    /// The datagrams of the requested cycle, if they are beyond the bound.
    overdue_packets: u64,
    /// The datagrams that were sent since the last pause of catching up.
    burst_packets: u64,
    late_cycles: LateCycles,
}

impl Grid {
    /// A grid for `plan`.
    pub fn new(plan: &CyclePlan, config: GridConfig) -> Self {
        let bound_cycles = config.burst_bound.cycles(plan);
        // Rounded down: more than `bound_cycles` cycles never fit into less than their time.
        let late_limit = plan.nanos_of(bound_cycles).max(1);
        let half_period = half(plan.period().as_nanos().unsigned_abs());
        Self {
            line: IdealLine::new(plan.bps(), config.start),
            packets: plan.packets_per_cycle(),
            cycle: plan.cycle_size(),
            catch_up: config.catch_up,
            bound_cycles,
            late_limit,
            catching_up: false,
            bucket: Bucket::new(half_period, bound_cycles),
            overdue_packets: 0,
            burst_packets: 0,
            late_cycles: LateCycles::default(),
        }
    }

    /// The effective bound: a whole number of the plan's cycles.
    #[inline]
    pub fn burst_bound(&self) -> DataSize {
        self.cycle * self.bound_cycles
    }

    /// The lateness from which a cycle is beyond the bound.
    #[inline]
    pub fn late_limit(&self) -> TimeDelta {
        TimeDelta::from_nanos(i64::try_from(self.late_limit).unwrap_or(i64::MAX))
    }

    fn send(&self, due: Timestamp) -> Step {
        Step::Send(Cycle { packets: self.packets, due })
    }

    /// The next step if the due cycle is beyond the bound, or late cycles are still being sent.
    fn catch_up(&mut self, now: Timestamp, due: Timestamp, beyond: bool) -> Step {
        match self.catch_up {
            CatchUp::Burst => {
                if !self.catching_up {
                    self.catching_up = true;
                    self.bucket.start(now.as_nanos());
                }
                if let Some(end) = self.bucket.pause(now.as_nanos()) {
                    self.burst_packets = 0;
                    return Step::SleepUntil(end);
                }
                self.overdue_packets = if beyond { u64::from(self.packets) } else { 0 };
                self.send(due)
            }
            CatchUp::Skip => {
                let owed = self.line.times_until(now, self.cycle).saturating_add(1);
                let skipped = owed.saturating_sub(self.bound_cycles);
                self.line.advance_times(self.cycle, skipped);
                let packets = skipped.saturating_mul(u64::from(self.packets));
                self.late_cycles.skipped_packets = self.late_cycles.skipped_packets.saturating_add(packets);
                self.send(self.line.due())
            }
            CatchUp::Reanchor => {
                self.line.begin(now);
                self.late_cycles.reanchors += 1;
                self.send(now)
            }
        }
    }
}

impl Schedule for Grid {
    fn next(&mut self, now: Timestamp) -> Step {
        let now = self.line.on_time(now);
        self.overdue_packets = 0;
        let due = self.line.due();
        if now < due {
            self.catching_up = false;
            self.burst_packets = 0;
            return Step::SleepUntil(due);
        }
        let beyond = now.as_nanos() - due.as_nanos() >= self.late_limit;
        if beyond || self.catching_up { self.catch_up(now, due, beyond) } else { self.send(due) }
    }

    fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        let now = self.line.on_time(now);
        let nanos = self.line.advance(size);
        if !self.catching_up {
            self.bucket.start(now.as_nanos());
        }
        self.bucket.on_sent(now.as_nanos(), half(nanos));
        if size > DataSize::ZERO && self.catching_up {
            self.late_cycles.caught_up_packets += core::mem::take(&mut self.overdue_packets);
            self.burst_packets += u64::from(self.packets);
            self.late_cycles.largest_burst_packets =
                self.late_cycles.largest_burst_packets.max(self.burst_packets);
        }
    }

    fn on_woke(&mut self, now: Timestamp) {
        self.line.clamp(now);
    }

    fn on_ended(&mut self, end: Timestamp) {
        let packets = self.line.packets_before(end, self.cycle, self.packets);
        self.late_cycles.skipped_packets = self.late_cycles.skipped_packets.saturating_add(packets);
    }

    fn late_cycles(&self) -> LateCycles {
        LateCycles { clock_reversals: self.line.reversals(), ..self.late_cycles }
    }
}

/// Half of it, rounded up.
fn half(nanos: u64) -> u64 {
    nanos.div_ceil(2)
}

/// Limits catching up: a bucket, in nanoseconds at twice the rate. Once empty, it must fill up before more is
/// taken.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// The part that one cycle takes.
    cycle: u64,
    depth: u64,
    /// When it holds `depth`. In the past it holds more: what it was filled with while the sender was held up.
    full_at: u64,
    paused_until: u64,
}

impl Bucket {
    /// For so many nanoseconds it fills above its depth. A machine with ten busy threads on a core wakes one of them within
    /// 50 ms; after a longer stall (a process that was stopped) a burst of all that is owed would harm the network.
    const MAX_HELD_UP: u64 = 100_000_000;

    /// A bucket that holds `cycles` cycles of `cycle` nanoseconds.
    fn new(cycle: u64, cycles: u64) -> Self {
        Self { cycle, depth: cycle.saturating_mul(cycles), full_at: 0, paused_until: 0 }
    }

    /// Catching up begins at `now`, with no more than `depth`.
    fn start(&mut self, now: u64) {
        self.full_at = self.full_at.max(now);
    }

    /// How long to wait, if nothing may be taken at `now`.
    fn pause(&mut self, now: u64) -> Option<Timestamp> {
        if now >= self.paused_until {
            let missing = self.full_at.saturating_sub(now);
            if missing.saturating_add(self.cycle) <= self.depth {
                return None;
            }
            self.paused_until = self.full_at;
        }
        (now < self.paused_until).then(|| Timestamp::from_nanos(self.paused_until))
    }

    fn on_sent(&mut self, now: u64, nanos: u64) {
        self.full_at = self.full_at.max(now.saturating_sub(Self::MAX_HELD_UP)).saturating_add(nanos);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::virtual_driver::{VirtualDriver, plan};

    const MILLI: u64 = 1_000_000;

    fn config(catch_up: CatchUp, packets: u64) -> GridConfig {
        GridConfig { catch_up, burst_bound: BurstBound::Packets(packets), ..GridConfig::default() }
    }

    /// One datagram per millisecond until 15 ms, with a stall from 1.0 ms to 7.2 ms.
    fn timeline(catch_up: CatchUp) -> String {
        let plan = plan(1_000_000, 125, 1);
        let mut grid = Grid::new(&plan, config(catch_up, 2));
        let mut driver = VirtualDriver {
            stall: Some((MILLI, 7 * MILLI + MILLI / 5)),
            ..VirtualDriver::new(plan.size_on_layer())
        };
        driver.run(&mut grid, 15 * MILLI);
        let millis = |time: Timestamp| (time.as_nanos() / 1000) as f64 / 1e3;
        let mut text = format!("{catch_up:<8}");
        let mut departures = driver.departures.iter().skip(1).peekable();
        while let Some(departure) = departures.next() {
            let mut dues = format!("{}", millis(departure.due));
            while let Some(next) = departures.next_if(|next| next.at == departure.at) {
                dues = format!("{dues} {}", millis(next.due));
            }
            text = format!("{text}  {} ({dues})", millis(departure.at));
        }
        let LateCycles { caught_up_packets, skipped_packets, reanchors, .. } = grid.late_cycles();
        format!("{text}\n  {caught_up_packets} caught up, {skipped_packets} skipped, {reanchors} reanchors")
    }

    #[test]
    fn a_stall_is_handled_by_the_catch_up_rule() {
        insta::assert_snapshot!(CatchUp::ALL.map(timeline).join("\n"), @r#"
        burst     7.2 (1 2)  8.2 (3 4)  9.2 (5 6)  10.2 (7 8)  11.2 (9 10)  12.2 (11 12)  13 (13)  14 (14)
          9 caught up, 0 skipped, 0 reanchors
        skip      7.2 (6 7)  8 (8)  9 (9)  10 (10)  11 (11)  12 (12)  13 (13)  14 (14)
          0 caught up, 5 skipped, 0 reanchors
        reanchor  7.2 (7.2)  8.2 (8.2)  9.2 (9.2)  10.2 (10.2)  11.2 (11.2)  12.2 (12.2)  13.2 (13.2)  14.2 (14.2)
          0 caught up, 0 skipped, 1 reanchors
        "#);
    }

    #[test]
    fn late_cycles_within_the_bound_are_sent_at_once() {
        // A bound of ten cycles, and a stall that makes ten cycles late.
        for catch_up in CatchUp::ALL {
            let plan = plan(1_000_000, 125, 1);
            let mut grid = Grid::new(&plan, config(catch_up, 10));
            let stall = Some((20 * MILLI, 29 * MILLI + MILLI / 2));
            let mut driver = VirtualDriver { stall, ..VirtualDriver::new(plan.size_on_layer()) };
            driver.run(&mut grid, 100 * MILLI);
            let at_once = driver
                .departures
                .iter()
                .filter(|departure| departure.at.as_nanos() == 29 * MILLI + MILLI / 2);
            assert_eq!(at_once.count(), 10);
            assert_eq!((driver.departures.len(), grid.late_cycles()), (100, LateCycles::default()));
        }
    }

    #[test]
    fn the_average_is_exact_at_any_oversleep() {
        // 1200 B at 7 Mbit/s: 1 371 428 4/7 ns. Each sleep overshoots by as much as 10 ms, and the bound is a single cycle.
        let plan = plan(7_000_000, 1200, 1);
        for bound in [1, 10] {
            for oversleeps in [vec![0], vec![60_000], vec![3 * MILLI, 0, 1], vec![10 * MILLI]] {
                let mut grid = Grid::new(&plan, config(CatchUp::Burst, bound));
                let mut driver = VirtualDriver {
                    oversleeps: oversleeps.clone(),
                    send_costs: vec![20_000],
                    poll_cost: 1000,
                    ..VirtualDriver::new(plan.size_on_layer())
                };
                driver.run(&mut grid, 100_000 * MILLI);
                let owed = driver.now as f64 * 7e6 / 8e9 - driver.sent().as_bytes() as f64;
                // Never ahead by more than the cycle that was just due, never behind by more than a few
                // oversleeps.
                assert!(owed > -1200.1, "{bound} {oversleeps:?}: {owed}");
                assert!(owed < 7e6 / 8.0 * 0.03, "{bound} {oversleeps:?}: {owed}");
                let held_up = driver.longest_hold as f64 * 14e6 / 8e9;
                let burst = driver.burst_above(14_000_000);
                assert!(burst < 1200.0 * (bound as f64 + 1.001) + held_up, "{bound} {oversleeps:?}: {burst}");
            }
        }
    }

    #[test]
    fn the_rate_holds_on_a_machine_that_wakes_late_every_time() {
        // A core that six other threads share: every wake-up waits for their slices of 3 ms, and now and then the sender loses
        // the core while it sends. 100 Mbit/s in 200 B, 10 Mbit/s in 200 B, 1 Mbit/s in 1200 B.
        for (bps, payload) in [(100_000_000, 200), (10_000_000, 200), (1_000_000, 1200)] {
            let plan = plan(bps, payload, 1);
            let mut grid = Grid::new(&plan, GridConfig::default());
            let mut send_costs = vec![1000; 20_000];
            send_costs[5000] = 18 * MILLI;
            let mut driver = VirtualDriver {
                oversleeps: vec![18 * MILLI, 3 * MILLI, 40_000, 12 * MILLI, 9 * MILLI],
                send_costs,
                ..VirtualDriver::new(plan.size_on_layer())
            };
            driver.run(&mut grid, 10_000 * MILLI);
            let asked = bps as f64 / 8.0 * 10.0;
            let sent = driver.sent().as_bytes() as f64 / asked;
            // What the last stall still owes is at most two of them.
            assert!((0.995..1.000_1).contains(&sent), "{bps}: {sent}");
            let late = grid.late_cycles();
            assert_eq!((late.skipped_packets, late.reanchors), (0, 0));
            let burst = late.largest_burst_packets as f64 * payload as f64 * 8.0 / bps as f64;
            assert!(burst < 2.0 * 0.037, "{bps}: a burst of {burst} s");
            assert!(late.largest_burst_packets > 0 || bps == 1_000_000, "{bps}");
        }
    }

    #[test]
    fn a_day_of_cycles_has_no_drift() {
        let plan = plan(7_000_000, 1200, 1);
        let mut grid = Grid::new(&plan, GridConfig { start: Some(Timestamp::ZERO), ..GridConfig::default() });
        // 63 million cycles in few steps, by large cycles.
        for _ in 0..63_000 {
            grid.on_sent(Timestamp::ZERO, DataSize::from_bytes(1200 * 1000));
        }
        let exact = (63_000_000_u128 * 1200 * 8_000_000_000).div_ceil(7_000_000) as u64;
        assert_eq!(grid.next(Timestamp::ZERO), Step::SleepUntil(Timestamp::from_nanos(exact)));
    }

    #[test]
    fn sizes_may_vary() {
        let mut grid = Grid::new(&plan(8_000_000, 1000, 1), GridConfig::default());
        let at = |micros: u64| Timestamp::from_nanos(micros * 1000);
        let mut due = 0;
        for bytes in [1000, 10, 0, 700, 3000] {
            assert_eq!(grid.next(at(due)), Step::Send(Cycle { packets: 1, due: at(due) }));
            grid.on_sent(at(due), DataSize::from_bytes(bytes));
            due += bytes;
        }
        assert_eq!(grid.next(at(0)), Step::SleepUntil(at(due)));
    }

    #[test]
    fn the_first_cycle_is_due_at_the_start() {
        let at = Timestamp::from_nanos;
        let plan = plan(1_000_000, 125, 3);
        let mut given = Grid::new(&plan, GridConfig { start: Some(at(50)), ..GridConfig::default() });
        assert_eq!(given.next(at(9)), Step::SleepUntil(at(50)));
        assert_eq!(given.next(at(51)), Step::Send(Cycle { packets: 3, due: at(50) }));
        let mut free = Grid::new(&plan, GridConfig::default());
        assert_eq!(free.next(at(9)), Step::Send(Cycle { packets: 3, due: at(9) }));
    }

    #[test]
    fn time_that_runs_backwards_is_counted() {
        let at = |millis: u64| Timestamp::from_nanos(millis * MILLI);
        let mut grid = Grid::new(
            &plan(1_000_000, 125, 1),
            GridConfig { start: Some(at(0)), ..config(CatchUp::Burst, 10) },
        );
        assert!(matches!(grid.next(at(1)), Step::Send(_)));
        grid.on_sent(at(0), DataSize::from_bytes(125));
        assert_eq!(grid.next(at(0)), Step::Send(Cycle { packets: 1, due: at(1) }));
        grid.on_sent(at(1), DataSize::from_bytes(125));
        assert_eq!(grid.next(at(1)), Step::SleepUntil(at(2)));
        assert_eq!(grid.late_cycles().clock_reversals, 2);
    }

    proptest! {
        #[test]
        fn every_window_keeps_the_promised_bound(
            bps in 100_000_u64..1_000_000_000,
            payload in 20_u64..1500,
            packets in 1_u32..8,
            rule in prop::sample::select(&CatchUp::ALL[..]),
            bound in 0_u64..40,
            // In hundredths of a period.
            oversleeps in prop::collection::vec(prop_oneof![4 => 0_u64..50, 1 => 0_u64..6000], 1..12),
            send_costs in prop::collection::vec(prop_oneof![4 => 0_u64..5, 1 => 0_u64..3000], 1..12),
        ) {
            let plan = plan(bps, payload, packets);
            let mut grid = Grid::new(&plan, config(rule, bound));
            let cycle = plan.cycle_size().as_bytes() as f64;
            let period = plan.period().as_nanos().unsigned_abs();
            let in_nanos = |hundredths: Vec<u64>| hundredths.into_iter().map(|h| h * period / 100).collect();
            let mut driver = VirtualDriver {
                oversleeps: in_nanos(oversleeps),
                send_costs: in_nanos(send_costs),
                ..VirtualDriver::new(plan.size_on_layer())
            };
            driver.run(&mut grid, 500 * period);

            let is_burst = rule == CatchUp::Burst;
            let rate = if is_burst { 2 * bps } else { bps };
            let held_up = if is_burst { driver.longest_hold as f64 * rate as f64 / 8e9 } else { 0.0 };
            let max = grid.burst_bound().as_bytes() as f64 + held_up;
            // A nanosecond of rounding at each end.
            let rounding = bps as f64 / 8e9 * 4.0;
            let burst = driver.burst_above(rate);
            prop_assert!(burst <= max + cycle + rounding, "{burst} B above {max} + {cycle}");

            let mut at_once = DataSize::ZERO;
            let mut previous = None;
            for departure in &driver.departures {
                prop_assert!(departure.at >= departure.due, "early");
                at_once = if previous == Some(departure.at) { at_once + departure.size } else { departure.size };
                previous = Some(departure.at);
                prop_assert!(at_once.as_bytes() as f64 <= max, "{at_once} at one instant");
            }
            let late_cycles = grid.late_cycles();
            match rule {
                CatchUp::Burst => prop_assert_eq!((late_cycles.skipped_packets, late_cycles.reanchors), (0, 0)),
                CatchUp::Skip => prop_assert_eq!((late_cycles.caught_up_packets, late_cycles.reanchors), (0, 0)),
                CatchUp::Reanchor => prop_assert_eq!((late_cycles.caught_up_packets, late_cycles.skipped_packets), (0, 0)),
            }
        }

        #[test]
        fn sent_and_skipped_cycles_cover_the_grid(
            rule in prop::sample::select(&[CatchUp::Burst, CatchUp::Skip][..]),
            bound in 0_u64..20,
            stall in 0_u64..50 * MILLI,
            oversleep in 0_u64..2 * MILLI,
        ) {
            let plan = plan(7_000_000, 1200, 1);
            let mut grid = Grid::new(&plan, config(rule, bound));
            let mut driver = VirtualDriver {
                stall: Some((20 * MILLI, 20 * MILLI + stall)),
                oversleeps: vec![oversleep, 0, 0],
                ..VirtualDriver::new(plan.size_on_layer())
            };
            driver.run(&mut grid, 500 * MILLI);
            // Each is due at a point of the one grid, in order; together with the skipped ones they cover it.
            let mut points = Vec::new();
            for departure in &driver.departures {
                let k = departure.due.as_nanos() * 7 / 9_600_000;
                prop_assert_eq!(departure.due.as_nanos(), (k * 9_600_000).div_ceil(7));
                points.push(k);
            }
            prop_assert!(points.is_sorted_by(|a, b| a < b));
            let filled = driver.departures.len() as u64 + grid.late_cycles().skipped_packets;
            prop_assert_eq!(filled, points[points.len() - 1] + 1);
            prop_assert!(filled + 5 >= 500 * MILLI * 7 / 9_600_000, "{filled}");
        }
    }
}
