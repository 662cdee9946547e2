//! The receiver's estimate of the available rate (REMB), from the send times of packets.

use giusto_congestion::gcc::{
    config::DelayConfigError,
    receive_side::{Config, ReceiveSide},
};
use giusto_rtp::{AbsSendTime, AbsSendTimeUnwrapper};
use giusto_units::{DataSize, Timestamp};

/// Unwraps the send times in the packets, and runs the receive side of Google Congestion Control.
#[derive(Debug)]
pub(super) struct Estimator {
    unwrapper: AbsSendTimeUnwrapper,
    pub(super) receive_side: ReceiveSide,
}

impl Estimator {
    pub(super) fn new(config: &Config) -> Result<Self, DelayConfigError> {
        Ok(Self { unwrapper: AbsSendTimeUnwrapper::new(), receive_side: ReceiveSide::new(*config)? })
    }

    /// Handles a packet that was sent at this time. The streams share the clock, so they are processed
    /// together.
    pub(super) fn on_packet(&mut self, now: Timestamp, sent: AbsSendTime, size: DataSize) {
        let unwrapped = self.unwrapper.unwrap(sent).or_else(|| {
            // A time before zero cannot be compared: the clock was set back, or there was no packet for half
            // of its range.
            self.unwrapper = AbsSendTimeUnwrapper::new();
            self.unwrapper.unwrap(sent)
        });
        if let Some(sent) = unwrapped {
            self.receive_side.on_packet(now, sent, size);
        }
    }
}
