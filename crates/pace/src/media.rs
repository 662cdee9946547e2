//! A pacer for media packets.
//!
//! A [`Pacer`] only computes: it has no queue, no thread and no clock. Sent bytes are a debt, which decreases
//! at the pacing rate. While the debt is less than the burst window, packets may be sent at once; otherwise
//! they wait. The debt is a whole number of bit × nanoseconds per second, so there is no rounding error.
//!
//! | preset | source | burst window |
//! |---|---|---|
//! | [`PacerConfig::libwebrtc`] | libwebrtc, `modules/pacing/pacing_controller.cc` and `bitrate_prober.cc` (July 2026) | 40 ms, at most 63 kB |
//! | [`PacerConfig::gcc_draft`] | draft-ietf-rmcat-gcc-02 §4 | 5 ms |
//!
//! In any time span at a constant rate, the paced data is at most the rate times the span, plus a burst, plus
//! one packet, plus what was [`forgiven`](Pacer::forgiven).
//!
//! # Example
//!
//! ```
//! use giusto_pace::media::{Pacer, PacerConfig, Permit};
//! use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
//!
//! let mut pacer = Pacer::new(PacerConfig::gcc_draft(), DataRate::from_bps(960_000));
//! let (size, mut now) = (DataSize::from_bytes(1200), Timestamp::ZERO);
//! assert_eq!(pacer.next_send(now, size), Permit::Now);
//! pacer.on_sent(now, size);
//! // 1200 bytes are 10 ms, more than the window: they are paid back first.
//! now += TimeDelta::from_millis(10);
//! assert_eq!(pacer.next_send(Timestamp::ZERO, size), Permit::At(now));
//! assert_eq!(pacer.next_send(now, size), Permit::Now);
//! # // A second call asks the same.
//! # assert_eq!(pacer.next_send(now, size), Permit::Now);
//! ```

mod config;
mod probe;

use alloc::collections::VecDeque;

use giusto_units::{DataRate, DataSize, NANOS_PER_SECOND, TimeDelta, Timestamp};

pub use config::{PacerConfig, Resume};
use probe::Cluster;
pub use probe::{Probe, ProbeNeed};

/// Whether a packet may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Permit {
    /// It may be sent now.
    Now,
    /// It may be sent at this time, if nothing changes.
    At(Timestamp),
    /// It may not be sent until something changes: the window is full, or the rate is zero.
    Blocked,
}

giusto_units::defaults! {
    /// The pacer.
    ///
    /// Queries change nothing. Calls in any order are safe; time that runs backwards counts as no time. Every
    /// call takes constant time, apart from the small number of probes.
    #[derive(Debug, Clone)]
    pub struct Pacer {
        config: PacerConfig = config,
        rate: DataRate = rate,
        window: Option<DataSize> = None,
        in_flight: DataSize = DataSize::ZERO,
        /// As of `updated`, in bit × ns/s.
        debt: u128 = 0,
        /// A burst has ended; packets wait until the debt is paid.
        draining: bool = false,
        updated: Timestamp = Timestamp::ZERO,
        forgiven: u128 = 0,
        clusters: VecDeque<Cluster> = VecDeque::with_capacity(config.probes),
        latest_probe: Option<u32> = None,
    }
    /// A pacer without debt, at `rate`.
    pub fn new(config: PacerConfig, rate: DataRate);
}

/// The debt of a byte, in bit × ns/s.
const BYTE: u128 = 8 * NANOS_PER_SECOND as u128;

impl Pacer {
    /// Whether a packet of `size` may be sent. If a probe [`needs`](Self::probe) packets, the packet belongs
    /// to it.
    ///
    /// The window blocks every packet that would exceed it, including probes, but never the only packet in
    /// flight. At the time of a [`Permit::At`] the answer is [`Permit::Now`], unless there was another call
    /// in between.
    pub fn next_send(&self, now: Timestamp, size: DataSize) -> Permit {
        let exceeds = |window: DataSize| self.in_flight > DataSize::ZERO && self.in_flight + size > window;
        if self.window.is_some_and(exceeds) {
            return Permit::Blocked;
        }
        let now = now.max(self.updated);
        if let Some(cluster) = self.cluster(now) {
            let due = cluster.due();
            return if due <= now { Permit::Now } else { Permit::At(due) };
        }
        let debt = self.debt_at(now);
        let allowed = if self.draining && self.config.resume == Resume::Drained {
            0
        } else {
            self.burst().saturating_sub(1)
        };
        if self.rate == DataRate::ZERO {
            Permit::Blocked
        } else if debt <= allowed {
            Permit::Now
        } else {
            Permit::At(now + self.time_to_pay(debt - allowed))
        }
    }

    /// The probe that needs packets now, or at the time that [`next_send`](Self::next_send) returns.
    #[inline]
    pub fn probe(&self, now: Timestamp) -> Option<ProbeNeed> {
        self.cluster(now.max(self.updated)).map(Cluster::need)
    }

    /// Handles a paced packet of `size` that was sent. Returns the probe to which it belongs.
    pub fn on_sent(&mut self, now: Timestamp, size: DataSize) -> Option<u32> {
        let now = self.settle(now);
        while self.clusters.front().is_some_and(|cluster| cluster.is_stale(now, &self.config)) {
            self.clusters.pop_front();
        }
        self.owe(size);
        self.in_flight += size;
        let cluster = self.clusters.front_mut()?;
        let number = cluster.probe.cluster;
        cluster.on_sent(now, size);
        if cluster.is_complete() {
            self.clusters.pop_front();
        }
        Some(number)
    }

    /// Handles a packet of `size` that was sent without pacing: audio, or feedback.
    #[inline]
    pub fn on_sent_unpaced(&mut self, now: Timestamp, size: DataSize) {
        self.settle(now);
        self.in_flight += size;
        if self.config.account_unpaced {
            self.owe(size);
        }
    }

    /// Sets the bytes in flight from feedback. Until the next call, sent bytes are added.
    #[inline]
    pub fn on_in_flight(&mut self, in_flight: DataSize) {
        self.in_flight = in_flight;
    }

    /// Sets rate and window of the controller.
    #[inline]
    pub fn on_target(&mut self, now: Timestamp, rate: DataRate, window: Option<DataSize>) {
        self.settle(now);
        self.rate = rate;
        self.window = window;
        self.forgive();
    }

    /// Adds a probe. A probe with the number of the latest one replaces it.
    #[inline]
    pub fn on_probe(&mut self, now: Timestamp, probe: Probe) {
        let now = self.settle(now);
        if self.latest_probe != Some(probe.cluster) {
            self.latest_probe = Some(probe.cluster);
            self.begin_probe(now, probe);
        }
    }

    /// The debt, rounded up to the byte.
    #[inline]
    pub fn owed(&self, now: Timestamp) -> DataSize {
        bytes(self.debt_at(now.max(self.updated)))
    }

    /// The debt that was forgiven because it exceeded the limit, rounded up to the byte.
    #[inline]
    pub fn forgiven(&self) -> DataSize {
        bytes(self.forgiven)
    }

    fn begin_probe(&mut self, now: Timestamp, probe: Probe) {
        if probe.rate == DataRate::ZERO || self.config.probes == 0 {
            return;
        }
        let config = self.config;
        self.clusters.retain(|cluster| !cluster.is_stale(now, &config));
        while self.clusters.len() >= config.probes {
            self.clusters.pop_front();
        }
        self.clusters.push_back(Cluster::new(probe, now));
    }

    fn cluster(&self, now: Timestamp) -> Option<&Cluster> {
        self.clusters.front()?;
        self.clusters.iter().find(|cluster| !cluster.is_stale(now, &self.config))
    }

    /// Reduces the debt until `now`, or until the latest time before if that is later. Returns that time.
    fn settle(&mut self, now: Timestamp) -> Timestamp {
        let now = now.max(self.updated);
        self.debt = self.debt_at(now);
        self.draining &= self.debt > 0;
        self.updated = now;
        now
    }

    fn owe(&mut self, size: DataSize) {
        self.debt = self.debt.saturating_add(u128::from(size.as_bytes()) * BYTE);
        self.forgive();
        self.draining |= self.debt >= self.burst();
    }

    /// At a rate of zero nothing is forgiven; otherwise it would be everything.
    fn forgive(&mut self) {
        let max = self.worth(self.config.debt);
        if self.rate > DataRate::ZERO && self.debt > max {
            self.forgiven = self.forgiven.saturating_add(self.debt - max);
            self.debt = max;
        }
    }

    fn debt_at(&self, now: Timestamp) -> u128 {
        self.debt.saturating_sub(self.worth(now.saturating_since(self.updated)))
    }

    /// The debt below which packets are sent at once; 0 and 1 both permit no debt.
    fn burst(&self) -> u128 {
        let window = self.worth(self.config.burst).min(u128::from(self.config.burst_size.as_bytes()) * BYTE);
        window.min(self.worth(self.config.debt))
    }

    fn worth(&self, time: TimeDelta) -> u128 {
        u128::from(self.rate.as_bps()) * u128::try_from(time.as_nanos()).unwrap_or(0)
    }

    fn time_to_pay(&self, debt: u128) -> TimeDelta {
        let rate = self.rate.as_bps().max(1);
        // The usual debt fits in 64 bits, whose division is much faster.
        let nanos = u64::try_from(debt)
            .map_or_else(|_| debt.div_ceil(u128::from(rate)), |debt| u128::from(debt.div_ceil(rate)));
        TimeDelta::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }
}

fn bytes(debt: u128) -> DataSize {
    DataSize::from_bytes(u64::try_from(debt.div_ceil(BYTE)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: DataSize = DataSize::from_bytes(1200);

    fn kbps(kbps: u64) -> DataRate {
        DataRate::from_bps(kbps * 1000)
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_millis(millis)
    }

    fn probe(cluster: u32) -> Probe {
        let (duration, batch) = (TimeDelta::from_millis(15), TimeDelta::from_millis(2));
        Probe { cluster, rate: kbps(9600), duration, packets: 5, batch }
    }

    /// Sends packets of `SIZE` as soon as permitted, until `end`. Returns the send times.
    fn departures(pacer: &mut Pacer, mut now: Timestamp, end: Timestamp) -> Vec<Timestamp> {
        let mut sent = Vec::new();
        while now < end {
            match pacer.next_send(now, SIZE) {
                Permit::Now => {
                    pacer.on_sent(now, SIZE);
                    sent.push(now);
                }
                Permit::At(then) => {
                    assert!(then > now);
                    now = then;
                }
                Permit::Blocked => break,
            }
        }
        sent
    }

    #[test]
    fn libwebrtc_sends_bursts_of_40_ms() {
        // 1200 bytes are 10 ms at 960 kbit/s: the fourth packet fills the window.
        let mut pacer = Pacer::new(PacerConfig::libwebrtc(), kbps(960));
        let sent = departures(&mut pacer, at(0), at(81));
        let expected: Vec<_> = [0, 40, 80].into_iter().flat_map(|millis| [at(millis); 4]).collect();
        assert_eq!(sent, expected);
    }

    #[test]
    fn with_resume_room_single_packets_follow_the_first_burst() {
        let config = PacerConfig { resume: Resume::Room, ..PacerConfig::libwebrtc() };
        let mut pacer = Pacer::new(config, kbps(960));
        let sent = departures(&mut pacer, at(0), at(31));
        let nanosecond = TimeDelta::from_nanos(1);
        // The debt must be less than the window, so the fifth packet is sent as soon as it is.
        let single = [0, 10, 20, 30].map(|millis| at(millis) + nanosecond);
        assert_eq!(sent, [[at(0); 4], single].concat());
    }

    #[test]
    fn a_burst_is_at_most_63_kb() {
        // 40 ms at 100 Mbit/s would be 500 kB; 53 packets are the first above 63 kB.
        let mut pacer = Pacer::new(PacerConfig::libwebrtc(), kbps(100_000));
        let sent = departures(&mut pacer, at(0), at(1));
        assert_eq!(sent.len(), 53);
    }

    #[test]
    fn no_remainder_is_lost() {
        // 1200 bytes at 999 993 bit/s take 9600.0672… µs: no drift over 10 s.
        let rate = DataRate::from_bps(999_993);
        let config = PacerConfig { burst: TimeDelta::ZERO, ..PacerConfig::libwebrtc() };
        let mut pacer = Pacer::new(config, rate);
        let sent = departures(&mut pacer, at(0), at(10_000));
        assert_eq!(sent.len(), 1042); // 10 s × 999 993 bit/s / 9600 bit = 1041.66, and the one at zero
        let last = *sent.last().unwrap();
        // Each wait is rounded up by less than a nanosecond.
        let exact = rate.time_for(SIZE * 1041).unwrap();
        assert!((last - Timestamp::ZERO - exact).abs() <= TimeDelta::from_nanos(1041));
    }

    #[test]
    fn the_window_never_blocks_for_ever() {
        let mut pacer = Pacer::new(PacerConfig::libwebrtc(), kbps(10_000));
        let window = |bytes| Some(DataSize::from_bytes(bytes));
        pacer.on_target(at(0), kbps(10_000), window(2400));
        pacer.on_sent(at(0), SIZE);
        assert_eq!(pacer.next_send(at(0), SIZE), Permit::Now);
        pacer.on_sent(at(0), SIZE);
        assert_eq!(pacer.next_send(at(1000), SIZE), Permit::Blocked);
        pacer.on_in_flight(SIZE);
        assert_eq!(pacer.next_send(at(1000), SIZE), Permit::Now);
        pacer.on_target(at(1000), kbps(10_000), window(100));
        assert_eq!(pacer.next_send(at(1000), SIZE), Permit::Blocked);
        pacer.on_in_flight(DataSize::ZERO);
        assert_eq!(pacer.next_send(at(1000), SIZE), Permit::Now);
        pacer.on_target(at(1000), DataRate::ZERO, None);
        assert_eq!(pacer.next_send(at(1000), SIZE), Permit::Blocked);
    }

    #[test]
    fn audio_is_sent_at_once_and_adds_to_the_debt() {
        let mut pacer = Pacer::new(PacerConfig::gcc_draft(), kbps(960));
        pacer.on_sent_unpaced(at(0), SIZE);
        pacer.on_sent_unpaced(at(0), SIZE);
        assert_eq!(pacer.next_send(at(0), SIZE), Permit::At(at(20)));
        let free = PacerConfig { account_unpaced: false, ..PacerConfig::gcc_draft() };
        let mut pacer = Pacer::new(free, kbps(960));
        pacer.on_sent_unpaced(at(0), SIZE);
        assert_eq!(pacer.next_send(at(0), SIZE), Permit::Now);
    }

    #[test]
    fn the_debt_is_at_most_500_ms() {
        let mut pacer = Pacer::new(PacerConfig::libwebrtc(), kbps(960));
        for _ in 0..100 {
            pacer.on_sent_unpaced(at(0), SIZE);
        }
        assert_eq!(pacer.next_send(at(0), SIZE), Permit::At(at(500)));
        assert_eq!(pacer.forgiven(), SIZE * 50);
        // A tenth of the rate, a tenth of the debt.
        pacer.on_target(at(0), kbps(96), None);
        assert_eq!(pacer.next_send(at(0), SIZE), Permit::At(at(500)));
        assert_eq!(pacer.forgiven(), SIZE * 95);
    }

    #[test]
    fn a_probe_is_sent_at_its_own_rate() {
        let mut pacer = Pacer::new(PacerConfig::libwebrtc(), kbps(960));
        // 9.6 Mbit/s: a packet each millisecond, in batches of two. 15 ms are 15 packets.
        pacer.on_probe(at(0), probe(3));
        pacer.on_probe(at(0), probe(3)); // the same again is not another
        assert_eq!(pacer.probe(at(0)), Some(ProbeNeed { cluster: 3, left: SIZE * 2 }));
        let (mut now, mut sent) = (at(0), Vec::new());
        while pacer.probe(now).is_some() {
            match pacer.next_send(now, SIZE) {
                Permit::Now => {
                    assert_eq!(pacer.on_sent(now, SIZE), Some(3));
                    sent.push(now);
                }
                Permit::At(then) => now = then,
                Permit::Blocked => unreachable!(),
            }
        }
        let expected: Vec<_> = (0..15).map(|i| at(i / 2 * 2)).collect();
        assert_eq!(sent, expected);
        // All of it was sent as debt: 15 packets are 150 ms, minus the 14 ms passed.
        assert_eq!(pacer.next_send(now, SIZE), Permit::At(at(150)));
        assert_eq!(pacer.on_sent(at(150), SIZE), None);
    }

    #[test]
    fn a_late_probe_is_aborted() {
        let mut pacer = Pacer::new(PacerConfig::libwebrtc(), kbps(960));
        pacer.on_probe(at(0), probe(1));
        pacer.on_probe(at(0), probe(2));
        assert_eq!(pacer.on_sent(at(0), SIZE), Some(1));
        assert_eq!(pacer.probe(at(10)).map(|need| need.cluster), Some(1));
        assert_eq!(pacer.probe(at(11)).map(|need| need.cluster), Some(2));
        assert_eq!(pacer.on_sent(at(11), SIZE), Some(2));
        pacer.on_probe(at(20), probe(3));
        assert_eq!(pacer.probe(at(5020)).map(|need| need.cluster), Some(3));
        assert_eq!(pacer.probe(at(5021)), None);
    }

    proptest! {
        #[test]
        fn at_most_rate_times_time_plus_a_burst_is_sent(
            bps in 50_000_u64..100_000_000,
            packets in prop::collection::vec((1_u64..1500, 0_i64..30_000_000), 2..300),
            room: bool,
            draft: bool,
        ) {
            let base = if draft { PacerConfig::gcc_draft() } else { PacerConfig::libwebrtc() };
            let config = PacerConfig { resume: if room { Resume::Room } else { Resume::Drained }, ..base };
            let rate = DataRate::from_bps(bps);
            let mut pacer = Pacer::new(config, rate);
            let mut now = Timestamp::ZERO;
            let mut sent = Vec::new();
            for (bytes, pause) in packets {
                // Every third packet is requested late.
                if pause % 3 == 0 {
                    now += TimeDelta::from_nanos(pause);
                }
                let size = DataSize::from_bytes(bytes);
                if let Permit::At(then) = pacer.next_send(now, size) {
                    // Neither too long nor too short: one nanosecond earlier is not permitted.
                    prop_assert!(then > now && then - now <= TimeDelta::from_millis(500));
                    prop_assert_eq!(pacer.next_send(then - TimeDelta::from_nanos(1), size), Permit::At(then));
                    now = then;
                }
                prop_assert_eq!(pacer.next_send(now, size), Permit::Now);
                pacer.on_sent(now, size);
                sent.push((now, bytes));
            }
            prop_assert_eq!(pacer.forgiven(), DataSize::ZERO);
            let nanos = u128::try_from(config.burst.as_nanos()).unwrap();
            let burst = (u128::from(bps) * nanos).min(63_000 * BYTE) + 1500 * BYTE;
            for (i, &(begin, _)) in sent.iter().enumerate() {
                let mut total = 0;
                for &(end, bytes) in &sent[i..] {
                    total += u128::from(bytes) * BYTE;
                    let time = u128::try_from((end - begin).as_nanos()).unwrap();
                    prop_assert!(total <= u128::from(bps) * time + burst);
                }
            }
        }

        #[test]
        fn a_busy_sender_uses_the_whole_rate(bps in 50_000_u64..50_000_000, room: bool) {
            let resume = if room { Resume::Room } else { Resume::Drained };
            let mut pacer = Pacer::new(PacerConfig { resume, ..PacerConfig::libwebrtc() }, DataRate::from_bps(bps));
            let sent = departures(&mut pacer, at(0), at(3000)).len() as u64;
            let possible = bps * 3 / (SIZE.as_bits());
            let window = (bps * 40 / 1000).min(63_000 * 8) / SIZE.as_bits() + 1;
            prop_assert!(sent + 1 >= possible && sent <= possible + window + 1, "{} of {}", sent, possible);
        }

        #[test]
        fn calls_in_any_order_are_safe_and_consistent(
            calls in prop::collection::vec((0_u8..6, any::<u64>(), any::<u64>()), 1..100),
        ) {
            let mut pacer = Pacer::new(PacerConfig::libwebrtc(), kbps(500));
            for (call, time, value) in calls {
                // Time that runs backwards, and extremes.
                let now = Timestamp::from_nanos(if call == 5 { time } else { time % 20_000_000_000 });
                let size = DataSize::from_bytes(if call == 5 { value } else { value % 3000 });
                match call {
                    0 | 5 => {
                        pacer.on_sent(now, size);
                    }
                    1 => pacer.on_sent_unpaced(now, size),
                    2 => pacer.on_in_flight(size),
                    _ => {
                        let probe = Probe {
                            rate: DataRate::from_bps(value % 50_000_000),
                            ..probe(value as u32)
                        };
                        let rate = DataRate::from_bps(if call == 4 { time } else { value % 10_000_000 });
                        pacer.on_target(now, rate, (value % 2 == 0).then_some(size));
                        if value % 3 == 0 {
                            pacer.on_probe(now, probe);
                        }
                    }
                }
                let before = format!("{pacer:?}");
                if let Permit::At(then) = pacer.next_send(now, SIZE) {
                    prop_assert!(then > now);
                    // At the maximum time there is no later time.
                    if then < Timestamp::MAX && pacer.probe(now).map(|need| need.cluster) == pacer.probe(then).map(|need| need.cluster) {
                        prop_assert_eq!(pacer.next_send(then, SIZE), Permit::Now);
                    }
                }
                prop_assert_eq!(before, format!("{pacer:?}"));
            }
        }
    }
}
