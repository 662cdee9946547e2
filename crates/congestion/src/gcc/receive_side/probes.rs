//! Detects probes at the receiver and computes their rate.
//!
//! Probes are not marked, so packets count as a probe if several in a row were sent at the same interval
//! (libwebrtc, `remote_bitrate_estimator_abs_send_time.cc`).

use alloc::{collections::VecDeque, vec::Vec};

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

/// Minimum packet size; smaller packets are not paced (libwebrtc).
const MIN_SIZE: DataSize = DataSize::from_bytes(201);
/// An interval belongs to a cluster if it differs from the cluster's mean by less than this (libwebrtc).
const SPREAD: TimeDelta = TimeDelta::from_micros(2500);
/// Minimum number of intervals of a cluster (libwebrtc, `kMinClusterSize`).
const MIN_CLUSTER: i64 = 4;
/// Minimum interval that is used (libwebrtc, `kMinClusterDelta`).
const MIN_DISTANCE: TimeDelta = TimeDelta::from_millis(1);
/// Maximum difference by which a cluster may arrive more slowly than it was sent (libwebrtc).
const MAX_SLOWER: TimeDelta = TimeDelta::from_millis(2);
/// Maximum difference by which it may arrive faster (libwebrtc).
const MAX_FASTER: TimeDelta = TimeDelta::from_millis(5);
/// Maximum number of packets that are examined without finding a cluster (libwebrtc, `kMaxProbePackets`).
const MAX_UNCLUSTERED: usize = 15;
/// Number of clusters after which all examined packets are discarded (libwebrtc, `kExpectedNumberOfProbes`).
const MAX_CLUSTERS: usize = 3;
/// Maximum number of packets that are examined; libwebrtc has no limit.
const MAX_PACKETS: usize = 256;

/// libwebrtc's times are whole microseconds: departures and mean intervals are rounded down.
const MICRO: i64 = 1000;

/// Packets that may be probes.
#[derive(Debug, Clone, Default)]
pub(super) struct Probes {
    packets: VecDeque<Packet>,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    sent: PeerTimestamp,
    at: Timestamp,
    size: DataSize,
}

/// Consecutive packets sent at the same interval: sums over all of them.
#[derive(Debug, Clone, Copy, Default)]
struct Cluster {
    sent: TimeDelta,
    received: TimeDelta,
    size: DataSize,
    count: i64,
    telling: i64,
}

impl Probes {
    /// Handles the arrival of a packet. Returns the rate of the best cluster, if it is above `estimate`.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        sent: PeerTimestamp,
        size: DataSize,
        estimate: DataRate,
    ) -> Option<DataRate> {
        if size < MIN_SIZE {
            return None;
        }
        if self.packets.len() >= MAX_PACKETS {
            self.packets.pop_front();
        }
        let sent = PeerTimestamp::from_nanos(sent.as_nanos() - sent.as_nanos() % MICRO.unsigned_abs());
        self.packets.push_back(Packet { sent, at: now, size });
        let clusters = self.clusters();
        if clusters.is_empty() {
            if self.packets.len() >= MAX_UNCLUSTERED {
                self.packets.pop_front();
            }
            return None;
        }
        // The first invalid cluster ends the search, as in libwebrtc.
        let rates = clusters.iter().map_while(Cluster::rate);
        let best = rates.max().filter(|rate| *rate > estimate);
        if best.is_none() && clusters.len() >= MAX_CLUSTERS {
            self.packets.clear();
        }
        best
    }

    fn clusters(&self) -> Vec<Cluster> {
        let mut clusters = Vec::new();
        let mut open = Cluster::default();
        for (before, packet) in self.packets.iter().zip(self.packets.iter().skip(1)) {
            let (sent, received) = (packet.sent - before.sent, packet.at - before.at);
            // libwebrtc assigns the interval that ends a cluster to the cluster that it ends.
            if sent >= MIN_DISTANCE && received >= MIN_DISTANCE {
                open.telling += 1;
            }
            if !open.takes(sent) {
                clusters.extend(open.complete());
                open = Cluster::default();
            }
            open.sent += sent;
            open.received += received;
            open.size += packet.size;
            open.count += 1;
        }
        clusters.extend(open.complete());
        clusters
    }
}

impl Cluster {
    fn takes(&self, sent: TimeDelta) -> bool {
        self.count == 0 || (sent - whole_micros(self.sent / self.count)).abs() < SPREAD
    }

    fn complete(self) -> Option<Self> {
        let is_one =
            self.count >= MIN_CLUSTER && self.sent > TimeDelta::ZERO && self.received > TimeDelta::ZERO;
        is_one.then_some(self)
    }

    /// The minimum of the sent and the received rate; `None` if the intervals of arrival differ too much.
    fn rate(&self) -> Option<DataRate> {
        let [sent, received] = [self.sent, self.received].map(|sum| whole_micros(sum / self.count));
        let tells = self.telling > self.count / 2;
        if !tells || received - sent > MAX_SLOWER || sent - received > MAX_FASTER {
            return None;
        }
        let mean_size = DataSize::from_bytes(self.size.as_bytes() / self.count.unsigned_abs());
        DataRate::of(mean_size, sent.max(received))
    }
}

/// Rounds towards zero.
fn whole_micros(time: TimeDelta) -> TimeDelta {
    TimeDelta::from_nanos(time.as_nanos() / MICRO * MICRO)
}
