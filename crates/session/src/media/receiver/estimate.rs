//! The receiver's estimate of the available rate (REMB), from the departure times of packets.

use giusto_congestion::gcc::{ReceiveSide, ReceiveSideConfig, delay::DelayConfigError};
use giusto_rtp::{AbsSendTime, AbsSendTimeUnwrapper};
use giusto_units::{DataSize, Timestamp};

/// Follows the sender's clock in the packets, and asks Google Congestion Control.
#[derive(Debug)]
pub(super) struct Estimator {
    unwrapper: AbsSendTimeUnwrapper,
    pub(super) receive_side: ReceiveSide,
}

impl Estimator {
    pub(super) fn new(config: &ReceiveSideConfig) -> Result<Self, DelayConfigError> {
        Ok(Self { unwrapper: AbsSendTimeUnwrapper::new(), receive_side: ReceiveSide::new(*config)? })
    }

    /// A packet came that left then. Its streams share the clock, so they count together.
    pub(super) fn on_packet(&mut self, now: Timestamp, sent: AbsSendTime, size: DataSize) {
        let unwrapped = self.unwrapper.unwrap(sent).or_else(|| {
            // Before zero lies nothing that can be compared: the clock was set back, or was not heard for half its range.
            self.unwrapper = AbsSendTimeUnwrapper::new();
            self.unwrapper.unwrap(sent)
        });
        if let Some(sent) = unwrapped {
            self.receive_side.on_packet(now, sent, size);
        }
    }
}
