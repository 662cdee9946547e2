//! Queue capacity.

use std::fmt;

use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::packet::Packet;

/// The capacity of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// In packets.
    Packets(u64),
    /// In bytes.
    Bytes(DataSize),
    /// In drain time at the current link rate.
    Time(TimeDelta),
    /// Infinite capacity.
    Unlimited,
}

/// 1000 packets, our choice.
impl Default for Limit {
    fn default() -> Self {
        Self::Packets(1000)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets} packets"),
            Self::Bytes(size) => size.fmt(f),
            Self::Time(time) => time.fmt(f),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

impl Limit {
    /// Whether a queue of `packets` packets with a total of `size`, drained at `drain`, has room for `packet`.
    pub(crate) fn admits(self, packet: &Packet, packets: usize, size: DataSize, drain: DataRate) -> bool {
        match self {
            Self::Packets(limit) => (packets as u64) < limit,
            Self::Bytes(limit) => size + packet.size() <= limit,
            Self::Time(limit) => size + packet.size() <= drain.size_in(limit),
            Self::Unlimited => true,
        }
    }

    /// Size in bytes up to which an empty queue has room for a packet, if that does not depend on its drain rate.
    pub(crate) fn always_admits(self) -> Option<u32> {
        match self {
            Self::Packets(0) | Self::Time(_) => None,
            Self::Bytes(limit) => Some(u32::try_from(limit.as_bytes()).unwrap_or(u32::MAX)),
            Self::Packets(_) | Self::Unlimited => Some(u32::MAX),
        }
    }
}
