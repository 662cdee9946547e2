//! A bounded FIFO, the storage of most queue disciplines.

use std::collections::VecDeque;

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{discipline::sojourn, limit::Limit};
use crate::packet::Packet;

/// A bounded FIFO that tracks its size in bytes.
#[derive(Debug)]
pub(super) struct Fifo {
    packets: VecDeque<Packet>,
    size: DataSize,
    limit: Limit,
    drain: DataRate,
}

impl Fifo {
    pub(super) fn new(limit: Limit) -> Self {
        Self { packets: VecDeque::new(), size: DataSize::ZERO, limit, drain: DataRate::ZERO }
    }

    /// Whether there is room for `packet`.
    pub(super) fn admits(&self, packet: &Packet) -> bool {
        self.limit.admits(packet, self.packets.len(), self.size, self.drain)
    }

    /// Appends `packet` without checking the limit.
    pub(super) fn push(&mut self, now: Timestamp, packet: Packet) {
        self.size += packet.size();
        self.packets.push_back(Packet { queued: now, ..packet });
    }

    pub(super) fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.size = self.size.saturating_sub(packet.size());
        Some(packet)
    }

    /// Sojourn time of the head packet; zero if the queue is empty.
    pub(super) fn head_sojourn(&self, now: Timestamp) -> TimeDelta {
        self.packets.front().map_or(TimeDelta::ZERO, |head| sojourn(now, head))
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(super) fn size(&self) -> DataSize {
        self.size
    }

    pub(super) fn drain(&self) -> DataRate {
        self.drain
    }

    pub(super) fn set_drain(&mut self, drain: DataRate) {
        self.drain = drain;
    }
}
