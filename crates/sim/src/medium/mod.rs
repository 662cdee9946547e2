//! A half-duplex medium that several links share: Wi-Fi.
//!
//! ```text
//!   link --> queue --+                              +--> loss --> propagation --> arrival
//!   link --> queue --+--> contention, frame, ACK ---+
//!   link --> queue --+    (one at a time, or a collision)
//! ```
//!
//! Each node that sends is one contender, or one for each access category that its links name: a station with its link to the
//! access point, and the access point with its links to all stations, whose queues take turns. A contender that wins the medium
//! sends a frame of one link; the frame is acknowledged, or sent again after a longer backoff.
//!
//! The model follows IEEE 802.11-2016: DCF (§10.3), EDCA (§10.22.2), A-MPDU and block acknowledgement (§10.13, §10.24). Clause and
//! table numbers, interframe spaces, frame sizes and retry limits are recalled, not checked against the standard; throughput is
//! checked against Bianchi, "Performance Analysis of the IEEE 802.11 Distributed Coordination Function", 2000. Left out: RTS/CTS,
//! bursts within a TXOP, hidden stations, capture, protection of mixed modes, beacons, and rate adaptation.
//!
//! A medium has no clock and holds no links: the simulation drives it and lends it the links.

mod config;
mod phy;
#[cfg(test)]
mod tests;
mod wifi;

pub use config::{Access, MediumError, Station, WifiConfig};
pub use phy::Phy;
pub(crate) use wifi::Members;
pub use wifi::{Medium, MediumCounters};

/// A medium, by its index in the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MediumId(pub(crate) u32);
