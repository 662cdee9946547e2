//! Packets that wait to be sent.

use std::collections::VecDeque;

use giusto_congestion::QueueState;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::payload::Payload;

/// A packet that waits to be sent.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    /// The place of its stream.
    pub(super) stream: usize,
    /// The media timestamp of its frame.
    pub(super) media_timestamp: u32,
    pub(super) payload: Payload,
    /// Whether it has the RTP marker.
    pub(super) marker: bool,
    /// When its frame was pushed.
    pub(super) since: Timestamp,
    /// Its size as the pacer counts it, headers included.
    pub(super) size: DataSize,
}

/// Packets of one stream, first in, first out.
#[derive(Debug, Clone, Default)]
pub(super) struct SendQueue {
    packets: VecDeque<Waiting>,
    size: DataSize,
    /// The sum of the times at which they were queued, in nanoseconds.
    since_ns: u128,
}

impl SendQueue {
    pub(super) fn push(&mut self, waiting: Waiting) {
        self.size += waiting.size;
        self.since_ns += u128::from(waiting.since.as_nanos());
        self.packets.push_back(waiting);
    }

    pub(super) fn front(&self) -> Option<&Waiting> {
        self.packets.front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.packets.pop_front()?;
        self.size = self.size.saturating_sub(waiting.size);
        self.since_ns = self.since_ns.saturating_sub(u128::from(waiting.since.as_nanos()));
        Some(waiting)
    }

    /// Empties the queue; gives the number of packets.
    pub(super) fn clear(&mut self) -> u64 {
        std::mem::take(self).packets.len() as u64
    }

    /// The age of the oldest packet.
    pub(super) fn age(&self, now: Timestamp) -> TimeDelta {
        self.front().map_or(TimeDelta::ZERO, |oldest| now.saturating_since(oldest.since))
    }

    pub(super) fn state(&self, now: Timestamp) -> QueueState {
        QueueState { size: self.size, oldest: self.age(now) }
    }
}

/// Several queues as one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Whole {
    packets: u128,
    size: DataSize,
    since_ns: u128,
    oldest: Option<Timestamp>,
}

impl Whole {
    pub(super) fn of<'a>(queues: impl Iterator<Item = &'a SendQueue>) -> Self {
        queues.fold(Self::default(), |whole, queue| Self {
            packets: whole.packets + queue.packets.len() as u128,
            size: whole.size + queue.size,
            since_ns: whole.since_ns + queue.since_ns,
            oldest: [whole.oldest, queue.front().map(|oldest| oldest.since)].into_iter().flatten().min(),
        })
    }

    pub(super) fn state(&self, now: Timestamp) -> QueueState {
        let oldest = self.oldest.map_or(TimeDelta::ZERO, |oldest| now.saturating_since(oldest));
        QueueState { size: self.size, oldest }
    }

    /// The rate that empties the queues before packets have waited `limit` on average (libwebrtc, `pacing_controller.cc`: the queue
    /// size over the limit less the mean time in the queue, which is at least 1 ms).
    pub(super) fn rate_within(&self, now: Timestamp, limit: TimeDelta) -> DataRate {
        let Some(mean_ns) = self.since_ns.checked_div(self.packets) else {
            return DataRate::ZERO;
        };
        let mean = now.saturating_since(Timestamp::from_nanos(u64::try_from(mean_ns).unwrap_or(u64::MAX)));
        DataRate::of(self.size, (limit - mean).max(TimeDelta::from_millis(1))).unwrap_or(DataRate::ZERO)
    }
}
