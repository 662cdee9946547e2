//! Packet metadata and identifiers.

use giusto_units::{DataSize, Ecn, Timestamp};
use serde::{Deserialize, Serialize};

/// A unidirectional flow, by its index in the simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowId(pub u32);

/// A node, by its index in the network. Links connect nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

/// A unidirectional link, by its index in the simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkId(pub u32);

/// The metadata of a packet that links use. The driver of the links stores the content under [`body`](Self::body).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packet {
    /// Flow. The two directions of a session are two flows.
    pub flow: FlowId,
    /// Size on the wire in bytes, all headers included.
    pub bytes: u32,
    /// Sequence number within the flow, from 0.
    pub sequence: u64,
    /// Time at which its source sent it.
    pub sent: Timestamp,
    /// Time at which it entered its current or last queue.
    pub queued: Timestamp,
    /// Total queueing delay on all links so far, in nanoseconds.
    pub queue_delay_ns: u64,
    /// Reference to its content.
    pub body: BodyId,
    /// Number of links of its path that it has passed.
    pub hop: u8,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// 0 as long as its content is intact; otherwise a random number that selects the bit that was changed on the way.
    pub corruption: u32,
}

impl Packet {
    /// Size on the wire, all headers included.
    pub const fn size(&self) -> DataSize {
        DataSize::from_bytes(self.bytes as u64)
    }
}

/// Reference to the content of a packet; [`BodyId::NONE`] if only its size matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BodyId(pub u32);

impl Default for BodyId {
    fn default() -> Self {
        Self::NONE
    }
}

impl BodyId {
    /// No content.
    pub const NONE: Self = Self(u32::MAX);
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DropReason {
    /// The queue was full, or a policer had no tokens.
    Overflow,
    /// Active queue management dropped it to signal congestion.
    Aqm,
    /// It was lost on the wire.
    Loss,
    /// A bit was changed on the wire; its receiver discarded it because of the checksum.
    Corruption,
}

/// A dropped packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// The packet.
    pub packet: Packet,
    /// The reason.
    pub reason: DropReason,
}
