//! What may be sent here? Google Congestion Control at the receiver.

mod incoming;

pub use incoming::IncomingRate;

use crate::units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

/// The constants of [`ReceiveSide`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReceiveSideConfig {}

/// The receiver's estimate of what it may be sent.
#[derive(Debug, Clone)]
pub struct ReceiveSide {}

impl ReceiveSide {
    /// Nothing has come.
    pub fn new(config: ReceiveSideConfig) -> Self {
        let _ = config;
        Self {}
    }

    /// A packet came that was `sent` then by the sender's clock.
    pub fn on_packet(&mut self, now: Timestamp, sent: PeerTimestamp, size: DataSize) {
        let _ = (now, sent, size);
    }

    /// The round trip is known.
    pub fn on_round_trip(&mut self, round_trip: TimeDelta) {
        let _ = round_trip;
    }

    /// The estimate that is to be told now, if one is due: at once where it fell, otherwise now and then.
    pub fn poll_estimate(&mut self, now: Timestamp) -> Option<DataRate> {
        let _ = now;
        None
    }

    /// When [`poll_estimate`](Self::poll_estimate) is wanted next.
    pub fn next_timeout(&self) -> Option<Timestamp> {
        None
    }
}
