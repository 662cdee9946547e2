//! What most laws build on: a line with a limit.

use std::collections::VecDeque;

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{drop_tail::Limit, law::sojourn};
use crate::packet::Packet;

/// First in, first out, with a count of its bytes.
#[derive(Debug)]
pub(super) struct Fifo {
    waiting: VecDeque<Packet>,
    size: DataSize,
    limit: Limit,
    drain: DataRate,
}

impl Fifo {
    pub(super) fn new(limit: Limit) -> Self {
        Self { waiting: VecDeque::new(), size: DataSize::ZERO, limit, drain: DataRate::ZERO }
    }

    /// Whether `packet` still fits.
    pub(super) fn admits(&self, packet: &Packet) -> bool {
        self.limit.admits(packet, self.waiting.len(), self.size, self.drain)
    }

    /// Takes `packet`, whether it fits or not.
    pub(super) fn push(&mut self, now: Timestamp, packet: Packet) {
        self.size += packet.size();
        self.waiting.push_back(Packet { queued: now, ..packet });
    }

    pub(super) fn pop(&mut self) -> Option<Packet> {
        let packet = self.waiting.pop_front()?;
        self.size = self.size.saturating_sub(packet.size());
        Some(packet)
    }

    /// How long the first has waited; nothing if nothing waits.
    pub(super) fn head_sojourn(&self, now: Timestamp) -> TimeDelta {
        self.waiting.front().map_or(TimeDelta::ZERO, |head| sojourn(now, head))
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
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
