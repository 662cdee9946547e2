//! Probes: packets sent faster than the pacing rate, to measure what the path can carry.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::PacerConfig;

/// Packets sent faster than the pacing rate, to measure what the path can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Probe {
    /// The number of the probe cluster.
    pub cluster: u32,
    /// The rate of its packets.
    pub rate: DataRate,
    /// The minimum duration.
    pub duration: TimeDelta,
    /// The minimum number of packets.
    pub packets: u32,
    /// Its packets are sent in batches of this duration at its rate.
    pub batch: TimeDelta,
}

impl Probe {
    /// The probe of `cluster`: at least `duration` and `packets` at `rate`, in batches of `batch`.
    pub const fn new(
        cluster: u32,
        rate: DataRate,
        duration: TimeDelta,
        packets: u32,
        batch: TimeDelta,
    ) -> Self {
        Self { cluster, rate, duration, packets, batch }
    }
}

/// A probe that needs packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ProbeNeed {
    /// The cluster of the packets.
    pub cluster: u32,
    /// Remaining bytes of the current batch. Padding should provide them if there is less media.
    pub left: DataSize,
}

/// A probe that was asked for, and what of it was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cluster {
    pub(super) probe: Probe,
    requested: Timestamp,
    begun: Option<Timestamp>,
    packets: u32,
    sent: DataSize,
    /// Bytes sent at the start of the current batch.
    batch: DataSize,
}

impl Cluster {
    pub(super) fn new(probe: Probe, requested: Timestamp) -> Self {
        let (packets, sent, batch) = (0, DataSize::ZERO, DataSize::ZERO);
        Self { probe, requested, begun: None, packets, sent, batch }
    }

    /// When the current batch may be sent: the data before takes its time at the probe's rate.
    pub(super) fn due(&self) -> Timestamp {
        let Some(begun) = self.begun else { return Timestamp::ZERO };
        begun + self.probe.rate.time_for(self.batch).unwrap_or(TimeDelta::ZERO)
    }

    /// What the pacer needs for it.
    pub(super) fn need(&self) -> ProbeNeed {
        let left = self.batch_size().saturating_sub(self.sent.saturating_sub(self.batch));
        ProbeNeed { cluster: self.probe.cluster, left }
    }

    fn batch_size(&self) -> DataSize {
        self.probe.rate.size_in(self.probe.batch)
    }

    pub(super) fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        self.begun.get_or_insert(now);
        self.packets += 1;
        self.sent += size;
        if self.sent.saturating_sub(self.batch) >= self.batch_size() {
            self.batch = self.sent;
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.packets >= self.probe.packets && self.sent >= self.probe.rate.size_in(self.probe.duration)
    }

    pub(super) fn is_stale(&self, now: Timestamp, config: &PacerConfig) -> bool {
        match self.begun {
            Some(_) => now.saturating_since(self.due()) > config.probe_delay,
            None => now.saturating_since(self.requested) > config.probe_timeout,
        }
    }
}
