//! Computes the rate that a probe has measured.

use alloc::collections::VecDeque;

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

use crate::gcc::arithmetic::scaled;
use crate::{feedback::PacketReport, target::Probe};

giusto_units::defaults! {
    /// Configuration of the rate that a probe measures. The defaults are libwebrtc's (`goog_cc/probe_bitrate_estimator.cc`).
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct ProbeRateConfig {
        /// Share of a cluster's packets that must have arrived, rounded down to packets. Default 0.8.
        pub packets: f64 = 0.8,
        /// Share of a cluster's bytes that must have arrived. Default 0.8.
        pub bytes: f64 = 0.8,
        /// Maximum ratio of received rate to sent rate. Default 2.
        pub max_ratio: f64 = 2.0,
        /// If the received rate is below this share of the sent rate, the path was saturated. Default 0.9.
        pub unsaturated: f64 = 0.9,
        /// Share of a saturated path's rate that is used. Default 0.95.
        pub utilization: f64 = 0.95,
        /// Maximum duration of sending and of receiving a cluster. Default 1 s.
        pub interval: TimeDelta = TimeDelta::from_seconds(1),
        /// A cluster restarts if a packet arrives later than its last one by more than this. Default 1 s.
        pub history: TimeDelta = TimeDelta::from_seconds(1),
    }
}

/// Result of a packet for its probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ProbeResult {
    /// It belongs to no known probe, or it did not arrive.
    None,
    /// Too little of the cluster has arrived yet.
    Incomplete,
    /// The measured rate.
    Rate(DataRate),
    /// Invalid: all packets were sent or arrived at the same time, or it took too long.
    Interval,
    /// Invalid: the received rate was this multiple of the sent rate.
    Ratio(f64),
}

impl ProbeResult {
    /// The rate, if there is one.
    pub(crate) fn rate(self) -> Option<DataRate> {
        if let Self::Rate(rate) = self { Some(rate) } else { None }
    }
}

/// Computes the rate of the path from the packets of a probe: the minimum of sent and received rate, or
/// slightly less than the received rate if that is clearly the minimum.
///
/// The last packet sent and the first one received are not counted, because a rate covers the intervals
/// between packets. A cluster may give a rate several times, more precisely with each packet.
#[derive(Debug, Clone)]
pub(crate) struct ProbeRate {
    config: ProbeRateConfig,
    /// In order of their start.
    clusters: VecDeque<Cluster>,
}

#[derive(Debug, Clone, Copy)]
struct Cluster {
    id: u32,
    min_packets: u64,
    min_bytes: f64,
    seen: Option<Seen>,
}

/// Received packets of a cluster.
#[derive(Debug, Clone, Copy)]
struct Seen {
    sent: (Timestamp, Timestamp),
    arrived: (PeerTimestamp, PeerTimestamp),
    last_sent: DataSize,
    first_arrived: DataSize,
    size: DataSize,
    packets: u64,
}

/// Number of clusters that are stored.
const CLUSTERS: usize = 32;

impl ProbeRate {
    /// No probe yet.
    pub(crate) fn new(config: ProbeRateConfig) -> Self {
        Self { config, clusters: VecDeque::new() }
    }

    /// Handles the start of `probe`. The latest 32 are stored.
    pub(crate) fn on_probe(&mut self, probe: &Probe) {
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

    /// Handles the report of a packet.
    pub(crate) fn on_packet(&mut self, report: &PacketReport) -> ProbeResult {
        let (Some(id), Some(arrival)) = (report.sent.probe, report.arrival) else { return ProbeResult::None };
        let Some(cluster) = self.clusters.iter_mut().rev().find(|cluster| cluster.id == id) else {
            return ProbeResult::None;
        };
        let seen = cluster.seen.filter(|seen| arrival - seen.arrived.1 <= self.config.history);
        let seen = seen.map_or_else(|| Seen::new(report, arrival), |seen| seen.and(report, arrival));
        cluster.seen = Some(seen);
        if seen.packets < cluster.min_packets || (seen.size.as_bytes() as f64) < cluster.min_bytes {
            return ProbeResult::Incomplete;
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
    //! Numbers of libwebrtc's `goog_cc/probe_bitrate_estimator_unittest.cc`; each test states the name of its
    //! case.

    use proptest::prelude::*;

    use super::*;
    use crate::feedback::SentPacket;

    /// Size in bytes, send time and arrival time in milliseconds.
    type Row = (u64, u64, u64);

    /// A probe that requires this many packets and bytes.
    fn asking(cluster: u32, packets: u32, bytes: u64) -> Probe {
        let (rate, duration) = (DataRate::from_bps(bytes * 8), TimeDelta::from_seconds(1));
        Probe { cluster, rate, duration, packets, batch: TimeDelta::from_millis(2) }
    }

    fn report(cluster: u32, (size, sent, arrival): Row) -> PacketReport {
        let size = DataSize::from_bytes(size);
        let at = Timestamp::from_nanos((1_000_000 + sent) * 1_000_000);
        let arrival = PeerTimestamp::from_nanos((1_000_000 + arrival) * 1_000_000);
        PacketReport::new(SentPacket::new(0, at, size).with_probe(Some(cluster)), Some(arrival))
    }

    /// The result of the last packet.
    fn result(rate: &mut ProbeRate, cluster: u32, rows: &[Row]) -> ProbeResult {
        rows.iter().fold(ProbeResult::None, |_, &row| rate.on_packet(&report(cluster, row)))
    }

    fn one(packets: u32, bytes: u64, rows: &[Row]) -> ProbeResult {
        let mut rate = ProbeRate::default();
        rate.on_probe(&asking(0, packets, bytes));
        result(&mut rate, 0, rows)
    }

    fn bps(bps: u64) -> ProbeResult {
        ProbeResult::Rate(DataRate::from_bps(bps))
    }

    const PLAIN: [Row; 4] = [(1000, 0, 10), (1000, 10, 20), (1000, 20, 30), (1000, 30, 40)];

    #[test]
    fn four_of_five_packets_suffice() {
        // OneCluster, OneClusterTooFewProbes, OneClusterTooFewBytes
        assert_eq!(one(5, 5000, &PLAIN), bps(800_000));
        assert_eq!(one(5, 5000, &[(2000, 0, 10), (2000, 10, 20), (2000, 20, 30)]), ProbeResult::Incomplete);
        let small = [(800, 0, 10), (800, 10, 20), (800, 20, 30), (800, 30, 40), (800, 40, 50)];
        assert_eq!(one(5, 6000, &small), ProbeResult::Incomplete);
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
    fn the_received_rate_may_be_twice_the_sent_rate() {
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
    fn a_saturated_path_gives_95_percent_of_its_rate() {
        // SlowReceive
        let slow = [(1000, 0, 10), (1000, 10, 40), (1000, 20, 70), (1000, 30, 85)];
        assert_eq!(one(5, 5000, &slow), bps(304_000));
    }

    #[test]
    fn each_cluster_gives_its_rate_and_improves_with_each_packet() {
        // MultipleClusters
        let mut rate = ProbeRate::default();
        rate.on_probe(&asking(0, 5, 5000));
        rate.on_probe(&asking(1, 5, 5000));
        let first = [(1000, 0, 10), (1000, 10, 20), (1000, 20, 30), (1000, 40, 60)];
        assert_eq!(result(&mut rate, 0, &first), bps(456_000));
        assert_eq!(result(&mut rate, 0, &[(1000, 50, 60)]), bps(640_000));
        let second = [(1000, 60, 70), (1000, 65, 77), (1000, 70, 84), (1000, 75, 90)];
        assert_eq!(result(&mut rate, 1, &second), bps(1_140_000));
        assert_eq!(result(&mut rate, 2, &second), ProbeResult::None);
    }

    #[test]
    fn an_old_cluster_restarts() {
        // IgnoreOldClusters
        let mut rate = ProbeRate::default();
        rate.on_probe(&asking(0, 5, 5000));
        assert_eq!(result(&mut rate, 0, &PLAIN[..3]), ProbeResult::Incomplete);
        assert_eq!(result(&mut rate, 0, &[(1000, 6040, 6060)]), ProbeResult::Incomplete);
    }

    #[test]
    fn the_last_sent_and_first_received_packets_do_not_count() {
        // IgnoreSizeLastSendPacket, IgnoreSizeFirstReceivePacket
        let mut rows = PLAIN.to_vec();
        rows.push((1500, 40, 50));
        assert_eq!(one(5, 5000, &rows), bps(800_000));
        let first = [(1500, 0, 10), (1000, 10, 20), (1000, 20, 30), (1000, 30, 40)];
        assert_eq!(one(5, 5000, &first), bps(760_000));
    }

    proptest! {
        #[test]
        fn any_packets_are_safe_and_the_rate_is_bounded(rows in prop::collection::vec((1u64..2000, 0u64..3000, 0u64..3000), 0..60)) {
            let mut rate = ProbeRate::default();
            rate.on_probe(&asking(0, 5, 5000));
            for &row in &rows {
                if let Some(shown) = rate.on_packet(&report(0, row)).rate() {
                    // At most 60 packets of 2000 bytes within the minimum interval of 1 ms.
                    prop_assert!(shown.as_bps() <= 60 * 2000 * 8 * 1000);
                }
            }
        }
    }
}
