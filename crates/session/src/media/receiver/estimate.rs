//! The receiver's estimate of the available rate (REMB), from the send times of packets.

use giusto_congestion::gcc::{
    config::DelayConfigError,
    receive_side::{Config, ReceiveSide},
};
use giusto_rtp::{AbsSendTime, AbsSendTimeUnwrapper};
use giusto_units::{DataSize, PeerTimestamp, Timestamp};

/// Unwraps the send times in the packets, and runs the receive side of Google Congestion Control.
#[derive(Debug)]
pub(super) struct Estimator {
    unwrapper: AbsSendTimeUnwrapper,
    /// Whether packets are grouped by video frame.
    by_frame: bool,
    /// The latest video frame: SSRC and RTP timestamp, and when its first packet was sent.
    frame: Option<((u32, u32), PeerTimestamp)>,
    pub(super) receive_side: ReceiveSide,
}

impl Estimator {
    pub(super) fn new(config: &Config) -> Result<Self, DelayConfigError> {
        Ok(Self {
            unwrapper: AbsSendTimeUnwrapper::new(),
            by_frame: config.rmcat_02,
            frame: None,
            receive_side: ReceiveSide::new(*config)?,
        })
    }

    /// Handles a packet that was sent at this time. The streams share the clock, so they are processed
    /// together. `frame` is the SSRC and the RTP timestamp of a video frame.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        sent: AbsSendTime,
        size: DataSize,
        frame: Option<(u32, u32)>,
    ) {
        let unwrapped = self.unwrapper.unwrap(sent).or_else(|| {
            // A time before zero cannot be compared: the clock was set back, or there was no packet for half
            // of its range.
            self.unwrapper = AbsSendTimeUnwrapper::new();
            self.unwrapper.unwrap(sent)
        });
        let Some(sent) = unwrapped else { return };
        if !self.by_frame {
            self.receive_side.on_packet(now, sent, size);
            return;
        }
        let begun = frame.map(|frame| match self.frame {
            Some((latest, begun)) if latest == frame => begun,
            _ => {
                self.frame = Some((frame, sent));
                sent
            }
        });
        self.receive_side.on_packet(now, begun, size);
    }
}
