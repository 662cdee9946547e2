//! The received rate.

use giusto_units::{DataSize, NANOS_PER_SECOND, PeerTimestamp, TimeDelta, Timestamp};

use super::windows::{Merge, Windows};

/// The received rate, over the actual intervals: `(N − 1)` of them between `N` events.
///
/// A sender emits *cycles*: the datagrams with the same scheduled time (without a schedule: with the same
/// arrival timestamp) are one event. From the first cycle to the last there are `N − 1` intervals, and the
/// data sent in them is that of all cycles except the last:
///
/// ```text
/// rate = bits of all cycles but the last / (first arrival of the last cycle − first arrival of the first cycle)
/// ```
///
/// With one datagram per cycle that is `(N − 1) · size / (t_last − t_first)`. Dividing all bits by that time
/// would be too high by `N / (N − 1)`: [`fencepost_rate`](Self::fencepost_rate) gives that value for
/// comparison.
///
/// Only a datagram that advances the sequence may start a cycle. Pass a late datagram to
/// [`on_late_packet`](Self::on_late_packet), and duplicates to neither.
///
/// # Example
///
/// ```
/// use giusto_measure::RateMeter;
/// use giusto_units::{DataSize, Timestamp};
///
/// let mut meter = RateMeter::new();
/// for i in 0..63 {   // 200 B every 160 ms is 10 kbit/s
///     meter.on_packet(Timestamp::from_nanos(i * 160_000_000), None, DataSize::from_bytes(200));
/// }
/// assert_eq!(meter.rate(), Some(10_000.0));
/// assert_eq!(meter.fencepost_rate().map(f64::round), Some(10_161.0));
/// ```
#[derive(Debug, Clone, Default)]
pub struct RateMeter {
    /// `None` before the first packet.
    cycle: Option<Cycle>,
    first: Timestamp,
    latest: Timestamp,
    /// Of all cycles except the last.
    bytes_before: u64,
    cycles: u64,
}

/// The current cycle.
#[derive(Debug, Clone)]
struct Cycle {
    key: CycleKey,
    began: Timestamp,
    bytes: u64,
}

/// The datagrams of one cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CycleKey {
    Scheduled(PeerTimestamp),
    Arrived(Timestamp),
}

impl CycleKey {
    fn new(at: Timestamp, scheduled: Option<PeerTimestamp>) -> Self {
        scheduled.map_or(Self::Arrived(at), Self::Scheduled)
    }
}

impl RateMeter {
    /// A meter before the first packet.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Handles a packet that arrived at `at` and whose sequence number is the highest so far. `size` includes
    /// the header bytes that count. A time that runs backwards counts as the latest time.
    #[inline]
    pub fn on_packet(&mut self, at: Timestamp, scheduled: Option<PeerTimestamp>, size: DataSize) {
        let at = at.max(self.latest);
        self.latest = at;
        let key = CycleKey::new(at, scheduled);
        match &mut self.cycle {
            Some(cycle) if cycle.key == key => cycle.bytes = cycle.bytes.saturating_add(size.as_bytes()),
            cycle => {
                self.bytes_before = self.bytes_before.saturating_add(cycle.as_ref().map_or(0, |c| c.bytes));
                if cycle.is_none() {
                    self.first = at;
                }
                *cycle = Some(Cycle { key, began: at, bytes: size.as_bytes() });
                self.cycles += 1;
            }
        }
    }

    /// Handles a packet that arrived at `at` after one with a higher sequence number. It starts no cycle: it
    /// counts for the last cycle if it belongs to it, otherwise for the earlier ones.
    pub fn on_late_packet(&mut self, at: Timestamp, scheduled: Option<PeerTimestamp>, size: DataSize) {
        let at = at.max(self.latest);
        let Some(cycle) = &mut self.cycle else { return self.on_packet(at, scheduled, size) };
        self.latest = at;
        let bytes =
            if cycle.key == CycleKey::new(at, scheduled) { &mut cycle.bytes } else { &mut self.bytes_before };
        *bytes = bytes.saturating_add(size.as_bytes());
    }

    /// Number of cycles that arrived at least in part.
    #[inline]
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// The rate in bit/s; `None` before the second cycle, or if both arrived at the same time.
    #[inline]
    pub fn rate(&self) -> Option<f64> {
        bits_per_second(self.bytes_before, self.cycle.as_ref()?.began - self.first)
    }

    /// All bits divided by the time from the first to the last arrival, in bit/s: the value of receivers that
    /// count `N` events for `N − 1` intervals. `None` while that time is zero.
    #[inline]
    pub fn fencepost_rate(&self) -> Option<f64> {
        let bytes = self.bytes_before.saturating_add(self.cycle.as_ref()?.bytes);
        bits_per_second(bytes, self.latest - self.first)
    }
}

/// Exact up to the division; `None` unless `time` is above zero.
fn bits_per_second(bytes: u64, time: TimeDelta) -> Option<f64> {
    let nanos = time.as_nanos();
    (nanos > 0).then(|| (u128::from(bytes) * 8 * u128::from(NANOS_PER_SECOND)) as f64 / nanos as f64)
}

/// Maximum number of points in a series.
const MAX_POINTS: usize = 4096;

/// The received rate in each interval, for plots, in bounded memory.
///
/// When there would be more than 4096 intervals, adjacent ones are merged and the interval doubles.
///
/// # Example
///
/// ```
/// use giusto_measure::RateSeries;
/// use giusto_units::{DataSize, TimeDelta, Timestamp};
///
/// let mut series = RateSeries::new(TimeDelta::from_millis(100));
/// for ms in [0, 50, 250] {
///     series.on_packets(Timestamp::from_nanos(ms * 1_000_000), DataSize::from_bytes(1000), 1);
/// }
/// let rates: Vec<_> = series.points().map(|point| point.rate_bps()).collect();
/// assert_eq!(rates, [160_000.0, 0.0, 80_000.0]);
/// ```
#[derive(Debug, Clone)]
pub struct RateSeries {
    windows: Windows<Tally>,
}

/// The arrivals and losses of one interval.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    bytes: u64,
    packets: u64,
    lost: u64,
    recovered: u64,
}

/// One interval of a [`RateSeries`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RatePoint {
    /// Start of the interval.
    pub start: Timestamp,
    /// Its length. The last interval of a series may be incomplete.
    pub interval: TimeDelta,
    /// Data received.
    pub size: DataSize,
    /// Packets received.
    pub packets: u64,
    /// Packets detected as missing in this interval, by the arrival of a later one.
    pub lost: u64,
    /// Packets that arrived late in this interval, after they had been counted in `lost`.
    pub recovered: u64,
}

impl RatePoint {
    /// The mean rate of the interval in bit/s.
    #[inline]
    pub fn rate_bps(&self) -> f64 {
        bits_per_second(self.size.as_bytes(), self.interval).unwrap_or(0.0)
    }
}

impl RateSeries {
    /// An empty series, which starts with the first packet. An `interval` below 1 µs counts as 1 µs.
    #[inline]
    pub fn new(interval: TimeDelta) -> Self {
        Self { windows: Windows::new(MAX_POINTS, interval) }
    }

    /// Adds `count` received packets of `size` each.
    #[inline]
    pub fn on_packets(&mut self, at: Timestamp, size: DataSize, count: u64) {
        if let Some(tally) = self.windows.at(at) {
            tally.bytes = tally.bytes.saturating_add((size * count).as_bytes());
            tally.packets += count;
        }
    }

    /// Adds `count` missing packets.
    #[inline]
    pub fn on_lost(&mut self, at: Timestamp, count: u64) {
        if let Some(tally) = self.windows.at(at) {
            tally.lost = tally.lost.saturating_add(count);
        }
    }

    /// Adds a late packet that had been counted as lost.
    #[inline]
    pub fn on_recovered(&mut self, at: Timestamp) {
        if let Some(tally) = self.windows.at(at) {
            tally.recovered += 1;
        }
    }

    /// The current length of the intervals.
    #[inline]
    pub fn interval(&self) -> TimeDelta {
        self.windows.span()
    }

    /// The intervals in order of time, including empty ones.
    pub fn points(&self) -> impl Iterator<Item = RatePoint> + '_ {
        let mut start = self.windows.origin().unwrap_or_default();
        self.windows.iter().map(move |tally| {
            let point = RatePoint {
                start,
                interval: self.interval(),
                size: DataSize::from_bytes(tally.bytes),
                packets: tally.packets,
                lost: tally.lost,
                recovered: tally.recovered,
            };
            start += self.interval();
            point
        })
    }
}

impl Merge for Tally {
    fn merge(&mut self, next: &Self) {
        self.bytes = self.bytes.saturating_add(next.bytes);
        self.packets += next.packets;
        self.lost = self.lost.saturating_add(next.lost);
        self.recovered += next.recovered;
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    const SIZE: DataSize = DataSize::from_bytes(200);

    /// An ideal sender of `cycles` cycles of `packets` datagrams of 200 B. The datagrams of a cycle arrive at
    /// the same time.
    fn ideal_stream(cycles: u64, packets: u64, period: u64) -> RateMeter {
        let mut meter = RateMeter::new();
        for cycle in 0..cycles {
            let due = PeerTimestamp::from_nanos(cycle * period);
            for _ in 0..packets {
                meter.on_packet(Timestamp::from_nanos(7_000 + cycle * period), Some(due), SIZE);
            }
        }
        meter
    }

    /// The published values of an ideal stream, `R · N / (N − 1)` with N counted in *cycles*, are a fencepost
    /// error; the correct rate is exactly the nominal one.
    #[test]
    fn an_ideal_stream_has_its_nominal_rate() {
        let cases = [
            (10_000.0, 1, 63, 160_000_000, 10_161.0),
            (1_000_000.0, 71, 89, 113_600_000, 1_011_364.0),
            (100_000_000.0, 71, 8_803, 1_136_000, 100_011_361.0),
        ];
        for (nominal, packets, cycles, period, published) in cases {
            let meter = ideal_stream(cycles, packets, period);
            assert_eq!(meter.rate(), Some(nominal));
            assert_eq!(meter.fencepost_rate().map(f64::round), Some(published));
            assert_eq!(meter.cycles(), cycles);
        }
    }

    #[test]
    fn counting_intervals_by_packet_would_be_1_percent_off() {
        // 89 cycles of 71 packets are 6319 packets in 88 periods: (N − 1) *packets* would give 1.1 % too
        // much.
        let by_packet: f64 = 6_318.0 * 1_600.0 / (88.0 * 0.1136);
        assert_eq!(by_packet.round(), 1_011_204.0);
        assert_eq!(ideal_stream(89, 71, 113_600_000).rate(), Some(1_000_000.0));
    }

    #[test]
    fn a_cycle_spread_by_the_network_is_one_event() {
        let mut meter = RateMeter::new();
        for cycle in 0..11 {
            for packet in 0..4 {
                let at = ms(cycle * 100 + packet * 10);
                meter.on_packet(at, Some(PeerTimestamp::from_nanos(cycle * 100_000_000)), SIZE);
            }
        }
        // 10 cycles of 800 B in 1 s; the fencepost rate counts 11 cycles in 1.03 s.
        assert_eq!(meter.rate(), Some(64_000.0));
        assert_eq!(meter.fencepost_rate().map(f64::round), Some(68_350.0));
    }

    #[test]
    fn without_a_schedule_one_timestamp_is_one_event() {
        let mut meter = RateMeter::new();
        for at in [0, 0, 100, 100, 200, 200, 200] {
            meter.on_packet(ms(at), None, SIZE);
        }
        assert_eq!(meter.rate(), Some(800.0 * 8.0 / 0.2));
    }

    #[test]
    fn too_few_packets_give_no_rate() {
        let mut meter = RateMeter::new();
        assert_eq!((meter.rate(), meter.fencepost_rate()), (None, None));
        meter.on_packet(ms(5), None, SIZE);
        assert_eq!((meter.rate(), meter.fencepost_rate()), (None, None));
        // Two cycles by their schedule, but at the same time.
        meter.on_packet(ms(5), Some(PeerTimestamp::from_nanos(9)), SIZE);
        assert_eq!((meter.rate(), meter.fencepost_rate()), (None, None));
    }

    #[test]
    fn late_packets_count_without_extending_the_time() {
        let mut meter = RateMeter::new();
        for at in [0, 100, 300, 400] {
            meter.on_packet(ms(at), Some(PeerTimestamp::from_nanos(at)), SIZE);
        }
        meter.on_late_packet(ms(900), Some(PeerTimestamp::from_nanos(200)), SIZE);
        assert_eq!(meter.rate(), Some(16_000.0));
        // A packet of the last cycle does not count for the rate, like that cycle.
        meter.on_late_packet(ms(901), Some(PeerTimestamp::from_nanos(400)), SIZE);
        assert_eq!(meter.rate(), Some(16_000.0));
    }

    #[test]
    fn the_series_doubles_its_interval_without_loss() {
        let mut series = RateSeries::new(TimeDelta::from_millis(1));
        for i in 0..10_000 {
            series.on_packets(ms(i), SIZE, 1);
        }
        series.on_lost(ms(10_000), 7);
        series.on_recovered(ms(10_001));
        assert_eq!(series.interval(), TimeDelta::from_millis(4));
        let points: Vec<_> = series.points().collect();
        assert_eq!(points.len(), 2501);
        assert!(points[..2500].iter().all(|point| point.packets == 4));
        assert_eq!(points[2499].start, ms(9996));
        assert_eq!((points[2500].lost, points[2500].recovered), (7, 1));
        assert_eq!(points[0].rate_bps(), 800.0 * 8.0 / 0.004);
    }

    #[test]
    fn a_jump_to_the_end_of_time_takes_bounded_memory() {
        let mut series = RateSeries::new(TimeDelta::ZERO);
        series.on_packets(ms(1), SIZE, 1);
        series.on_packets(Timestamp::MAX, SIZE, 1);
        series.on_packets(ms(2), SIZE, 1);
        assert!(series.points().count() <= MAX_POINTS);
        assert_eq!(series.points().map(|point| point.packets).sum::<u64>(), 3);
    }

    proptest! {
        #[test]
        fn any_timestamps_are_safe_and_every_packet_is_counted(
            packets in prop::collection::vec((any::<u64>(), any::<Option<u64>>(), any::<u64>(), any::<bool>()), 0..50),
            interval: i64,
        ) {
            let (mut meter, mut series) = (RateMeter::new(), RateSeries::new(TimeDelta::from_nanos(interval)));
            for &(at, scheduled, size, late) in &packets {
                let (at, size) = (Timestamp::from_nanos(at), DataSize::from_bytes(size));
                let scheduled = scheduled.map(PeerTimestamp::from_nanos);
                if late { meter.on_late_packet(at, scheduled, size) } else { meter.on_packet(at, scheduled, size) }
                series.on_packets(at, size, 1);
                prop_assert!(meter.rate().is_none_or(|rate| rate.is_finite() && rate >= 0.0));
            }
            prop_assert_eq!(series.points().map(|point| point.packets).sum::<u64>(), packets.len() as u64);
            prop_assert!(series.points().count() <= MAX_POINTS);
        }
    }
}
