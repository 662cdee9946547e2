//! What did the probe show?

use std::collections::VecDeque;

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

use crate::gcc::arithmetic::scaled;
use crate::{feedback::PacketReport, target::Probe};

/// What is settable of [`ProbeRate`]. The defaults are libwebrtc's (`goog_cc/probe_bitrate_estimator.cc`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeRateConfig {
    /// The share of a cluster's packets that must have arrived, rounded down to packets. Default 0.8.
    pub packets: f64,
    /// The share of its bytes. Default 0.8.
    pub bytes: f64,
    /// The most that it may have arrived faster than it was sent. Default 2.
    pub max_ratio: f64,
    /// If it arrived at less than this share of the rate of sending, the path was full. Default 0.9.
    pub unsaturated: f64,
    /// The share of a full path that is to be used. Default 0.95.
    pub utilization: f64,
    /// The longest that a cluster may take to be sent, or to arrive. Default 1 s.
    pub interval: TimeDelta,
    /// A cluster is begun anew by a packet that arrives later than its last one by more than this. Default 1 s.
    pub history: TimeDelta,
}

impl Default for ProbeRateConfig {
    fn default() -> Self {
        Self {
            packets: 0.8,
            bytes: 0.8,
            max_ratio: 2.0,
            unsaturated: 0.9,
            utilization: 0.95,
            interval: TimeDelta::from_seconds(1),
            history: TimeDelta::from_seconds(1),
        }
    }
}

/// What a packet adds to what its probe shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ProbeResult {
    /// It belongs to no probe that is known, or it did not arrive.
    None,
    /// Too little of the cluster has arrived.
    Waiting,
    /// The path carries this.
    Rate(DataRate),
    /// All was sent or arrived at one moment, or it took too long.
    Interval,
    /// It arrived faster than it can have been sent: this many times.
    Ratio(f64),
}

impl ProbeResult {
    /// The rate, if there is one.
    pub fn rate(self) -> Option<DataRate> {
        if let Self::Rate(rate) = self { Some(rate) } else { None }
    }
}

/// From the packets of a probe, the rate of the path: the lesser of the rates of sending and arriving, or a little less than the rate
/// of arriving where that is clearly the lesser.
///
/// The last packet sent and the first received are left out of the sums, as each rate is that of the intervals between. A cluster may
/// give a rate several times, better with each packet.
#[derive(Debug, Clone)]
pub struct ProbeRate {
    config: ProbeRateConfig,
    /// By their beginning.
    clusters: VecDeque<Cluster>,
}

#[derive(Debug, Clone, Copy)]
struct Cluster {
    id: u32,
    min_packets: u64,
    min_bytes: f64,
    seen: Option<Seen>,
}

/// What arrived of a cluster.
#[derive(Debug, Clone, Copy)]
struct Seen {
    sent: (Timestamp, Timestamp),
    arrived: (PeerTimestamp, PeerTimestamp),
    last_sent: DataSize,
    first_arrived: DataSize,
    size: DataSize,
    packets: u64,
}

/// How many clusters are remembered.
const CLUSTERS: usize = 32;

impl ProbeRate {
    /// No probe yet.
    pub fn new(config: ProbeRateConfig) -> Self {
        Self { config, clusters: VecDeque::with_capacity(CLUSTERS) }
    }

    /// `probe` is being sent. The latest 32 are remembered.
    pub fn on_probe(&mut self, probe: &Probe) {
        if self.clusters.len() >= CLUSTERS {
            self.clusters.pop_front();
        }
        let bytes = probe.rate.size_in(probe.duration).as_bytes() as f64;
        self.clusters.push_back(Cluster {
            id: probe.cluster,
            min_packets: (f64::from(probe.packets) * self.config.packets) as u64,
            min_bytes: bytes * self.config.bytes,
            seen: None,
        });
    }

    /// A packet is reported.
    pub fn on_packet(&mut self, report: &PacketReport) -> ProbeResult {
        let (Some(id), Some(arrival)) = (report.sent.probe, report.arrival) else { return ProbeResult::None };
        let Some(cluster) = self.clusters.iter_mut().rev().find(|cluster| cluster.id == id) else {
            return ProbeResult::None;
        };
        let seen = cluster.seen.filter(|seen| arrival - seen.arrived.1 <= self.config.history);
        let seen = seen.map_or_else(|| Seen::new(report, arrival), |seen| seen.and(report, arrival));
        cluster.seen = Some(seen);
        if seen.packets < cluster.min_packets || (seen.size.as_bytes() as f64) < cluster.min_bytes {
            return ProbeResult::Waiting;
        }
        self.judge(&seen)
    }

    fn judge(&self, seen: &Seen) -> ProbeResult {
        let rate = |left_out: DataSize, time: TimeDelta| {
            DataRate::of(seen.size.saturating_sub(left_out), time).filter(|_| time <= self.config.interval)
        };
        let sent = rate(seen.last_sent, seen.sent.1 - seen.sent.0);
        let arrived = rate(seen.first_arrived, seen.arrived.1 - seen.arrived.0);
        let (Some(sent), Some(arrived)) = (sent, arrived) else { return ProbeResult::Interval };
        let ratio = arrived.as_bps() as f64 / sent.as_bps().max(1) as f64;
        if ratio > self.config.max_ratio {
            ProbeResult::Ratio(ratio)
        } else if ratio < self.config.unsaturated {
            ProbeResult::Rate(scaled(arrived, self.config.utilization))
        } else {
            ProbeResult::Rate(sent.min(arrived))
        }
    }
}

impl Default for ProbeRate {
    fn default() -> Self {
        Self::new(ProbeRateConfig::default())
    }
}

impl Seen {
    fn new(report: &PacketReport, arrival: PeerTimestamp) -> Self {
        let (at, size) = (report.sent.at, report.sent.size);
        Self {
            sent: (at, at),
            arrived: (arrival, arrival),
            last_sent: size,
            first_arrived: size,
            size,
            packets: 1,
        }
    }

    fn and(mut self, report: &PacketReport, arrival: PeerTimestamp) -> Self {
        let (at, size) = (report.sent.at, report.sent.size);
        if at > self.sent.1 {
            self.last_sent = size;
        }
        if arrival < self.arrived.0 {
            self.first_arrived = size;
        }
        self.sent = (self.sent.0.min(at), self.sent.1.max(at));
        self.arrived = (self.arrived.0.min(arrival), self.arrived.1.max(arrival));
        self.size += size;
        self.packets += 1;
        self
    }
}

#[cfg(test)]
mod tests {
    //! Numbers of libwebrtc's `goog_cc/probe_bitrate_estimator_unittest.cc`, told again; the name of each is in the test.

    use giusto_units::Ecn;
    use proptest::prelude::*;

    use super::*;
    use crate::feedback::SentPacket;

    /// Size in bytes, sent and received in milliseconds.
    type Row = (u64, u64, u64);

    /// A probe that asks for so many packets and bytes.
    fn asking(cluster: u32, packets: u32, bytes: u64) -> Probe {
        let (rate, duration) = (DataRate::from_bps(bytes * 8), TimeDelta::from_seconds(1));
        Probe { cluster, rate, duration, packets, batch: TimeDelta::from_millis(2) }
    }

    fn report(cluster: u32, (size, sent, arrival): Row) -> PacketReport {
        let size = DataSize::from_bytes(size);
        let at = Timestamp::from_nanos((1_000_000 + sent) * 1_000_000);
        let arrival = Some(PeerTimestamp::from_nanos((1_000_000 + arrival) * 1_000_000));
        let sent = SentPacket { sequence: 0, at, size, probe: Some(cluster), in_flight: size };
        PacketReport { sent, arrival, ecn: Ecn::NotEct }
    }

    /// What the last of the packets shows.
    fn hear(rate: &mut ProbeRate, cluster: u32, rows: &[Row]) -> ProbeResult {
        rows.iter().fold(ProbeResult::None, |_, &row| rate.on_packet(&report(cluster, row)))
    }

    fn one(packets: u32, bytes: u64, rows: &[Row]) -> ProbeResult {
        let mut rate = ProbeRate::default();
        rate.on_probe(&asking(0, packets, bytes));
        hear(&mut rate, 0, rows)
    }

    fn bps(bps: u64) -> ProbeResult {
        ProbeResult::Rate(DataRate::from_bps(bps))
    }

    const PLAIN: [Row; 4] = [(1000, 0, 10), (1000, 10, 20), (1000, 20, 30), (1000, 30, 40)];

    #[test]
    fn four_of_five_packets_are_enough_and_three_are_not() {
        // OneCluster, OneClusterTooFewProbes, OneClusterTooFewBytes
        assert_eq!(one(5, 5000, &PLAIN), bps(800_000));
        assert_eq!(one(5, 5000, &[(2000, 0, 10), (2000, 10, 20), (2000, 20, 30)]), ProbeResult::Waiting);
        let small = [(800, 0, 10), (800, 10, 20), (800, 20, 30), (800, 30, 40), (800, 40, 50)];
        assert_eq!(one(5, 6000, &small), ProbeResult::Waiting);
        assert_eq!(one(5, 5000, &small), bps(640_000));
    }

    #[test]
    fn small_and_large_clusters_give_their_rates() {
        // SmallCluster, LargeCluster
        let small = [(150, 0, 10), (150, 10, 20), (150, 20, 30), (150, 30, 40), (150, 40, 50), (150, 50, 60)];
        assert_eq!(one(5, 1000, &small), bps(120_000));
        let large: Vec<Row> = (0..25).map(|i| (12_500, i, 5 + i)).collect();
        assert_eq!(one(30, 312_500, &large), bps(100_000_000));
    }

    #[test]
    fn arriving_faster_is_borne_up_to_twice() {
        // FastReceive, TooFastReceive, BurstReceive
        assert_eq!(
            one(5, 5000, &[(1000, 0, 15), (1000, 10, 30), (1000, 20, 35), (1000, 30, 40)]),
            bps(800_000)
        );
        let fast = one(5, 5000, &[(1000, 0, 19), (1000, 10, 22), (1000, 20, 25), (1000, 40, 27)]);
        assert_eq!(fast, ProbeResult::Ratio(5.0));
        let burst = one(5, 5000, &[(1000, 0, 50), (1000, 10, 50), (1000, 20, 50), (1000, 40, 50)]);
        assert_eq!(burst, ProbeResult::Interval);
    }

    #[test]
    fn a_full_path_is_used_to_95_percent() {
        // SlowReceive
        let slow = [(1000, 0, 10), (1000, 10, 40), (1000, 20, 70), (1000, 30, 85)];
        assert_eq!(one(5, 5000, &slow), bps(304_000));
    }

    #[test]
    fn clusters_are_judged_apart_and_each_packet_betters_the_rate() {
        // MultipleClusters
        let mut rate = ProbeRate::default();
        rate.on_probe(&asking(0, 5, 5000));
        rate.on_probe(&asking(1, 5, 5000));
        let first = [(1000, 0, 10), (1000, 10, 20), (1000, 20, 30), (1000, 40, 60)];
        assert_eq!(hear(&mut rate, 0, &first), bps(456_000));
        assert_eq!(hear(&mut rate, 0, &[(1000, 50, 60)]), bps(640_000));
        let second = [(1000, 60, 70), (1000, 65, 77), (1000, 70, 84), (1000, 75, 90)];
        assert_eq!(hear(&mut rate, 1, &second), bps(1_140_000));
        assert_eq!(hear(&mut rate, 2, &second), ProbeResult::None);
    }

    #[test]
    fn an_old_cluster_is_begun_anew() {
        // IgnoreOldClusters
        let mut rate = ProbeRate::default();
        rate.on_probe(&asking(0, 5, 5000));
        assert_eq!(hear(&mut rate, 0, &PLAIN[..3]), ProbeResult::Waiting);
        assert_eq!(hear(&mut rate, 0, &[(1000, 6040, 6060)]), ProbeResult::Waiting);
    }

    #[test]
    fn the_last_sent_and_the_first_received_are_left_out() {
        // IgnoreSizeLastSendPacket, IgnoreSizeFirstReceivePacket
        let mut rows = PLAIN.to_vec();
        rows.push((1500, 40, 50));
        assert_eq!(one(5, 5000, &rows), bps(800_000));
        let first = [(1500, 0, 10), (1000, 10, 20), (1000, 20, 30), (1000, 30, 40)];
        assert_eq!(one(5, 5000, &first), bps(760_000));
    }

    proptest! {
        #[test]
        fn any_packets_are_safe_and_what_they_show_is_bounded(rows in prop::collection::vec((1u64..2000, 0u64..3000, 0u64..3000), 0..60)) {
            let mut rate = ProbeRate::default();
            rate.on_probe(&asking(0, 5, 5000));
            for &row in &rows {
                if let Some(shown) = rate.on_packet(&report(0, row)).rate() {
                    // All of 60 packets of 2000 bytes within the least interval of 1 ms.
                    prop_assert!(shown.as_bps() <= 60 * 2000 * 8 * 1000);
                }
            }
        }
    }
}
