//! How fast did packets come that were sent in pace? The probes of a beginning.
//!
//! Nothing marks a probe on the way to the receiver, so packets count as one where several in a row left at the same distance
//! (libwebrtc, `remote_bitrate_estimator_abs_send_time.cc`).

use std::collections::VecDeque;

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

/// Smaller packets are not paced (libwebrtc).
const LEAST_SIZE: DataSize = DataSize::from_bytes(201);
/// A distance is of a cluster if it differs by less than this from the cluster's mean (libwebrtc).
const SPREAD: TimeDelta = TimeDelta::from_micros(2500);
/// A cluster has so many distances (libwebrtc, `kMinClusterSize`).
const LEAST_CLUSTER: i64 = 4;
/// Distances below this tell nothing (libwebrtc, `kMinClusterDelta`).
const LEAST_DISTANCE: TimeDelta = TimeDelta::from_millis(1);
/// A cluster may come so much slower than it was sent (libwebrtc).
const MOST_SLOWER: TimeDelta = TimeDelta::from_millis(2);
/// And so much faster (libwebrtc).
const MOST_FASTER: TimeDelta = TimeDelta::from_millis(5);
/// Without a cluster, so many packets are looked at (libwebrtc, `kMaxProbePackets`).
const MOST_UNCLUSTERED: usize = 15;
/// With so many clusters, all that was looked at is done with (libwebrtc, `kExpectedNumberOfProbes`).
const MOST_CLUSTERS: usize = 3;
/// So many packets are looked at in any case; libwebrtc sets no limit.
const MOST_PACKETS: usize = 256;

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

/// Neighbours that were sent at one distance: sums over all of them.
#[derive(Debug, Clone, Copy, Default)]
struct Cluster {
    sent: TimeDelta,
    received: TimeDelta,
    size: DataSize,
    count: i64,
    telling: i64,
}

impl Probes {
    /// A packet came. Gives the rate of the best cluster, if that is above `estimate`.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        sent: PeerTimestamp,
        size: DataSize,
        estimate: DataRate,
    ) -> Option<DataRate> {
        if size < LEAST_SIZE {
            return None;
        }
        if self.packets.len() >= MOST_PACKETS {
            self.packets.pop_front();
        }
        self.packets.push_back(Packet { sent, at: now, size });
        let clusters = self.clusters();
        if clusters.is_empty() {
            if self.packets.len() >= MOST_UNCLUSTERED {
                self.packets.pop_front();
            }
            return None;
        }
        // The first cluster that fails ends the search, as in libwebrtc.
        let rates = clusters.iter().map_while(Cluster::rate);
        let best = rates.max().filter(|rate| *rate > estimate);
        if best.is_none() && clusters.len() >= MOST_CLUSTERS {
            self.packets.clear();
        }
        best
    }

    fn clusters(&self) -> Vec<Cluster> {
        let mut clusters = Vec::new();
        let mut open = Cluster::default();
        for (before, packet) in self.packets.iter().zip(self.packets.iter().skip(1)) {
            let (sent, received) = (packet.sent - before.sent, packet.at - before.at);
            // libwebrtc counts the distance that ends a cluster for the one that it ends.
            if sent >= LEAST_DISTANCE && received >= LEAST_DISTANCE {
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
        self.count == 0 || (sent - self.sent / self.count).abs() < SPREAD
    }

    fn complete(self) -> Option<Self> {
        let is_one =
            self.count >= LEAST_CLUSTER && self.sent > TimeDelta::ZERO && self.received > TimeDelta::ZERO;
        is_one.then_some(self)
    }

    /// The slower of the rates that it was sent and received with; `None` where it came too unevenly.
    fn rate(&self) -> Option<DataRate> {
        let slower = (self.received - self.sent) / self.count;
        let tells = self.telling > self.count / 2;
        if !tells || slower > MOST_SLOWER || -slower > MOST_FASTER {
            return None;
        }
        DataRate::of(self.size, self.sent.max(self.received))
    }
}
