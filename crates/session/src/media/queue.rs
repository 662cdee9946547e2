//! Queues of packets to send.

use std::collections::VecDeque;

use giusto_congestion::QueueState;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::payload::Payload;

/// A queued packet.
#[derive(Debug, Clone)]
pub(super) struct QueuedPacket {
    /// Index of its stream.
    pub(super) stream: usize,
    /// The media timestamp of its frame.
    pub(super) media_timestamp: u32,
    pub(super) payload: Payload,
    /// Whether it has the RTP marker.
    pub(super) marker: bool,
    /// The capture time of its frame, if the packet contains it.
    pub(super) captured: Option<Timestamp>,
    /// Time at which its frame was pushed.
    pub(super) since: Timestamp,
    /// Its size for the pacer, headers included.
    pub(super) size: DataSize,
}

/// The packets of one stream, first in, first out.
#[derive(Debug, Clone, Default)]
pub(super) struct SendQueue {
    packets: VecDeque<QueuedPacket>,
    size: DataSize,
    /// Sum of the times at which the packets were queued, in nanoseconds.
    since_ns: u128,
}

impl SendQueue {
    pub(super) fn push(&mut self, packet: QueuedPacket) {
        self.size += packet.size;
        self.since_ns += u128::from(packet.since.as_nanos());
        self.packets.push_back(packet);
    }

    pub(super) fn front(&self) -> Option<&QueuedPacket> {
        self.packets.front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<QueuedPacket> {
        let packet = self.packets.pop_front()?;
        self.size = self.size.saturating_sub(packet.size);
        self.since_ns = self.since_ns.saturating_sub(u128::from(packet.since.as_nanos()));
        Some(packet)
    }

    /// Clears the queue. Returns the number of packets.
    pub(super) fn clear(&mut self) -> u64 {
        std::mem::take(self).packets.len() as u64
    }

    /// The age of the oldest packet.
    pub(super) fn age(&self, now: Timestamp) -> TimeDelta {
        self.front().map_or(TimeDelta::ZERO, |oldest| now.saturating_since(oldest.since))
    }

    pub(super) fn state(&self, now: Timestamp) -> QueueState {
        QueueState::new(self.size, self.age(now))
    }
}

/// Totals over several queues.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    packets: u128,
    size: DataSize,
    since_ns: u128,
    oldest: Option<Timestamp>,
}

impl Totals {
    pub(super) fn of<'a>(queues: impl Iterator<Item = &'a SendQueue>) -> Self {
        queues.fold(Self::default(), |totals, queue| Self {
            packets: totals.packets + queue.packets.len() as u128,
            size: totals.size + queue.size,
            since_ns: totals.since_ns + queue.since_ns,
            oldest: [totals.oldest, queue.front().map(|oldest| oldest.since)].into_iter().flatten().min(),
        })
    }

    pub(super) fn state(&self, now: Timestamp) -> QueueState {
        let oldest = self.oldest.map_or(TimeDelta::ZERO, |oldest| now.saturating_since(oldest));
        QueueState::new(self.size, oldest)
    }

    /// The rate that keeps the mean queueing delay below `limit` (libwebrtc, `pacing_controller.cc`: the
    /// queue size divided by the limit minus the mean queueing delay, which is at least 1 ms).
    pub(super) fn rate_within(&self, now: Timestamp, limit: TimeDelta) -> DataRate {
        if self.packets == 0 {
            return DataRate::ZERO;
        }
        let mean_ns = self.since_ns / self.packets;
        let mean = now.saturating_since(Timestamp::from_nanos(u64::try_from(mean_ns).unwrap_or(u64::MAX)));
        DataRate::of(self.size, (limit - mean).max(TimeDelta::from_millis(1))).unwrap_or(DataRate::ZERO)
    }
}
