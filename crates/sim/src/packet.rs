//! Packets as metadata.

use giusto_units::{DataSize, Ecn, Timestamp};
use serde::{Deserialize, Serialize};

/// One flow in one direction, by its place in the simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowId(pub u32);

/// A place where links begin and end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

/// One link in one direction, by its place in the simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkId(pub u32);

/// What a link sees of a packet. What is in it stays with whoever drives the link, under `body`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Whose it is. The two directions of a conversation are two flows.
    pub flow: FlowId,
    /// Size on the wire in bytes, all headers included.
    pub bytes: u32,
    /// Its number within its flow, from 0.
    pub sequence: u64,
    /// When its source sent it.
    pub sent: Timestamp,
    /// When it entered the queue that it is in, or was in last.
    pub queued: Timestamp,
    /// How long it has waited in queues since it was sent, in nanoseconds.
    pub waited_ns: u64,
    /// What the driver keeps for it elsewhere.
    pub body: BodyId,
    /// How many links of its path have transmitted it.
    pub hop: u8,
    /// Its ECN codepoint.
    pub ecn: Ecn,
}

impl Packet {
    /// Its size on the wire, all headers included.
    pub const fn size(&self) -> DataSize {
        DataSize::from_bytes(self.bytes as u64)
    }
}

/// Where the content of a packet is kept; [`BodyId::NONE`] if it has none that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BodyId(pub u32);

impl BodyId {
    /// No content besides its size.
    pub const NONE: Self = Self(u32::MAX);
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DropReason {
    /// The queue was full.
    Overflow,
    /// Active queue management dropped it to signal congestion.
    Aqm,
    /// It was lost on the wire.
    Loss,
}

/// A packet that will not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// Which.
    pub packet: Packet,
    /// Why.
    pub reason: DropReason,
}
