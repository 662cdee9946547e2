//! Events of an endpoint.

use std::collections::VecDeque;

use giusto_congestion::Decision;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{payload::Payload, repair_settings::RepairKind};

/// Maximum number of queued events; beyond that the oldest are dropped. Chosen by us.
const MAX_EVENTS: usize = 4096;
/// Maximum size of the frames in queued events; beyond that the oldest events are dropped. Chosen by us.
const MAX_EVENT_SIZE: DataSize = DataSize::from_bytes(32_000_000);

/// An event of an endpoint.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MediaEvent {
    /// The controller has made a decision.
    Decided(Decision),
    /// A complete frame has arrived.
    Frame(FrameArrival),
    /// The remote end has ended a source with a BYE.
    Ended {
        /// Its synchronisation source.
        ssrc: u32,
    },
    /// The encoder of a stream should produce this rate from now on.
    Target {
        /// Index of the stream at the sender.
        stream: usize,
        /// The target rate, headers not included.
        rate: DataRate,
        /// The time of the change.
        at: Timestamp,
    },
    /// The next frame of a stream should be a key frame.
    KeyFrameWanted {
        /// Index of the stream at the sender.
        stream: usize,
        /// The time of the request.
        at: Timestamp,
    },
    /// A frame was encoded and queued at the sender.
    Queued {
        /// The stream's synchronisation source.
        ssrc: u32,
        /// The time of its capture.
        captured: Timestamp,
    },
    /// The sender has sent padding.
    PaddingSent {
        /// Its UDP payload.
        size: DataSize,
        /// The time.
        at: Timestamp,
    },
    /// A frame was skipped because its stream's queue was too old
    /// ([`MediaStream::skip_after`](super::MediaStream::skip_after)), or because the controller drops frames
    /// ([`Controller::frame_drop_interval`](giusto_congestion::Controller::frame_drop_interval)).
    Skipped {
        /// The stream's synchronisation source.
        ssrc: u32,
        /// The time at which the frame was due.
        at: Timestamp,
    },
    /// Packets were discarded before they were sent, because their queueing delay was too long
    /// ([`MediaStream::discard_after`](super::MediaStream::discard_after)).
    Discarded {
        /// The stream's synchronisation source.
        ssrc: u32,
        /// The number of packets.
        packets: u64,
        /// The time of the discard.
        at: Timestamp,
    },
    /// The sender has sent a repair packet.
    RepairSent {
        /// The synchronisation source of the repaired stream.
        ssrc: u32,
        /// The kind of the packet.
        kind: RepairKind,
        /// Its UDP payload.
        size: DataSize,
        /// The time.
        at: Timestamp,
    },
    /// The receiver has requested lost packets.
    Requested {
        /// The stream's synchronisation source.
        ssrc: u32,
        /// The number of packets in the request.
        packets: u64,
        /// The time of the request.
        at: Timestamp,
    },
    /// The receiver has recovered a packet from parity.
    Recovered {
        /// The stream's synchronisation source.
        ssrc: u32,
        /// The time.
        at: Timestamp,
    },
    /// The receiver has requested a key frame.
    KeyFrameRequested {
        /// The stream's synchronisation source.
        ssrc: u32,
        /// The time of the request.
        at: Timestamp,
    },
}

/// A complete frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameArrival {
    /// Its synchronisation source.
    pub ssrc: u32,
    /// The unwrapped sequence number of its first packet: later frames of a source have higher numbers.
    /// Frames are returned when they are complete, which is not always in this order.
    pub sequence: u64,
    /// Its RTP timestamp.
    pub rtp_timestamp: u32,
    /// The RTP timestamp of the first frame that its source sent, if a packet of that one was the first to arrive and losses are of
    /// interest.
    pub start: Option<u32>,
    /// Arrival time of its last packet.
    pub at: Timestamp,
    /// Frame delay: from its capture to `at`, on the clocks of both ends (the sender's is in its reports, RFC
    /// 3550 §6.4.1); `None` before the first report, and if the frame's timestamp contradicts the report. If the
    /// clocks are not synchronised, only its changes are meaningful.
    pub delay: Option<TimeDelta>,
    /// Number of its packets.
    pub packets: u64,
    /// Number of these that were repaired.
    pub repaired: u64,
    /// Whether it became complete after its [playout deadline](super::MediaReceiverConfig::playout_deadline).
    pub late: bool,
    /// Whether decoding can start with it; `None` if the payload format does not say so.
    pub key: Option<bool>,
    /// Its bytes.
    pub payload: Payload,
}

/// Queue of events.
#[derive(Debug, Default)]
pub(super) struct Events {
    queue: VecDeque<MediaEvent>,
    /// Size of the frames in the queue.
    size: DataSize,
}

impl Events {
    pub(super) fn push(&mut self, event: MediaEvent) {
        self.size += Self::size_of(&event);
        self.queue.push_back(event);
        while self.queue.len() > 1 && (self.queue.len() > MAX_EVENTS || self.size > MAX_EVENT_SIZE) {
            self.take();
        }
    }

    pub(super) fn take(&mut self) -> Option<MediaEvent> {
        let event = self.queue.pop_front()?;
        self.size = self.size.saturating_sub(Self::size_of(&event));
        Some(event)
    }

    fn size_of(event: &MediaEvent) -> DataSize {
        if let MediaEvent::Frame(frame) = event { frame.payload.size() } else { DataSize::ZERO }
    }
}
