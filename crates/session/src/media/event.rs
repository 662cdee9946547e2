//! What an endpoint has to tell.

use std::collections::VecDeque;

use giusto_congestion::Decision;
use giusto_units::{DataSize, TimeDelta, Timestamp};

/// Events that nobody takes are forgotten beyond so many, the oldest first.
const MOST_EVENTS: usize = 4096;

/// What an endpoint has to tell.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum MediaEvent {
    /// The controller has decided.
    Decided(Decision),
    /// A frame has arrived whole.
    Frame(FrameArrival),
    /// The far end has ended this source.
    Ended {
        /// Which.
        ssrc: u32,
    },
    /// A frame was due and left out, because what waits of its stream has waited for too long
    /// ([`MediaStream::skip_after`](super::MediaStream::skip_after)).
    Skipped {
        /// Of which stream.
        ssrc: u32,
        /// When.
        at: Timestamp,
    },
    /// Packets were thrown away before they left, because they had waited for too long
    /// ([`MediaStream::discard_after`](super::MediaStream::discard_after)).
    Discarded {
        /// Of which stream.
        ssrc: u32,
        /// How many.
        packets: u64,
        /// When.
        at: Timestamp,
    },
}

/// A frame that arrived whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameArrival {
    /// Of which source.
    pub ssrc: u32,
    /// Its RTP timestamp.
    pub media_timestamp: u32,
    /// When the last of its packets arrived.
    pub at: Timestamp,
    /// From its capture until then, by the clocks of both ends (the sender's is in its reports, RFC 3550 §6.4.1); `None` before
    /// the first report. Where the clocks are not in step, only its changes mean something.
    pub delay: Option<TimeDelta>,
    /// How many packets it came in.
    pub packets: u64,
    /// Its size, without the headers of RTP.
    pub size: DataSize,
}

/// What nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<MediaEvent>);

impl Events {
    pub(super) fn tell(&mut self, event: MediaEvent) {
        if self.0.len() >= MOST_EVENTS {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    pub(super) fn take(&mut self) -> Option<MediaEvent> {
        self.0.pop_front()
    }
}
