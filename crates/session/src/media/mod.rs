//! An adaptive media session over RTP and RTCP.
//!
//! A [`MediaEndpoint`] sends media, receives media, or both, over one transport (RTP and RTCP share it, RFC
//! 5761). It has no clock and no socket. Its inputs are frames, datagrams and times; its outputs are
//! datagrams, frames and events.
//!
//! ```text
//!   MediaSender                                                      MediaReceiver
//!     frame -> packetizer -> queue -+
//!     frame -> packetizer -> queue -+-> scheduler -> pacer == RTP ====> reassembly -> frame
//!     audio -> packetizer --------------------------------> == RTP ====> reassembly -> frame
//!       ^ rate, skip     ^ discard               ^ window                     |
//!       +----------------+-------- controller <--+-- RTCP feedback -----------+    TWCC, RFC 8888, REMB, or SCReAM draft-00
//!     | -- SR, SDES ----------------------------------------------------> |   every second
//!     | <------------------------------------------------------------ RR - |   every second
//!     | -- BYE ---------------------------------------------------------> |   ends the reports
//! ```
//!
//! # Frames
//!
//! The caller pushes each encoded frame with [`MediaSender::push_frame`]. The remote end returns each
//! complete frame once, with the same bytes, as [`MediaEvent::Frame`]. The sender controls the caller's
//! encoder:
//!
//! | to the encoder | event | getter |
//! |---|---|---|
//! | produce this rate | [`MediaEvent::Target`] | [`MediaSender::stream_target`] |
//! | skip the next frame | – | [`MediaSender::wants_frame`], called before each frame |
//! | make the next frame a key frame | [`MediaEvent::KeyFrameWanted`] | [`MediaSender::wants_key_frame`] |
//!
//! # Several streams
//!
//! A sender implements Figure 2 of draft-johansson-rmcat-scream-cc-00 with every controller:
//!
//! | in the figure | here |
//! |---|---|
//! | rate control (1), one for each source | the controller's own for each stream, if it has one; otherwise its target is divided by [priority](MediaStream::priority), and what a stream cannot use goes to the others |
//! | queue of RTP packets (2), one for each source | the same; (4): the controller gets the size and age of all queues together and of each queue |
//! | frames are skipped (3) | [`MediaStream::skip_after`]: frames are skipped while the stream's oldest packet is older |
//! | old frames are discarded (§3.3) | [`MediaStream::discard_after`]: when a packet is too old, the whole queue of its stream is discarded and a key frame is requested. Sequence numbers are given to packets as they leave, so the receiver sees no loss |
//! | priority order or round robin (5) | weighted round robin by credit (RFC 8298 §4.1.2.8); the weights are the priorities |
//! | transmission scheduler, congestion window (6, 8) | one [pacer](giusto_pace::media::Pacer) with one window |
//! | audio may bypass the window | [`MediaStream::paced`] is false: the packets are not paced, but count as sent, as in flight, and for the pacer's debt |
//!
//! The rate of a paused stream goes to the others; its queue is still sent. [`MediaSender::figures`],
//! [`MediaEvent::Skipped`] and [`MediaEvent::Discarded`] report what happened to each stream.
//!
//! # On the wire
//!
//! A [`Datagram`] is an RTP packet (header, extension, payload) or compound RTCP. The payload of a packet is
//! a part of a frame; real video has the header of its payload format ([`PayloadHeader`]), which the receiver removes. These rules allow
//! frames of arbitrary bytes to be reassembled:
//!
//! 1. All packets of a frame have its RTP timestamp and consecutive sequence numbers. With [`Framing::Marker`], the last has the
//!    RTP marker (RFC 3551 §5); with [`Framing::Packet`], each packet is a frame.
//! 2. A packet is the first of its frame if the packet before it in sequence belongs to another frame. The
//!    receiver therefore knows the start of a frame only if it has received the last packet of the previous
//!    frame. VP8 and VP9 mark the start, H.264 and AV1 that of key frames.
//! 3. The first sequence number of a stream is the lower 16 bits of the RTP timestamp of its first packet, which is random
//!    (RFC 3550 §5.1). So the receiver recognises the first packet of a stream, and drops the first frame if that packet is lost.
//!
//! A frame is dropped if it is incomplete 2 s after its first packet arrived, or if incomplete frames take too much memory.
//! A loss within a frame costs that frame; a loss of the last packet of a frame costs the next frame too, unless it is repaired.
//!
//! | extension (RFC 8285) | id | sent with |
//! |---|---|---|
//! | transport-wide sequence number | [`TRANSPORT_SEQUENCE_ID`] | [`FeedbackKind::TransportWide`](giusto_congestion::FeedbackKind) |
//! | capture time, 64-bit NTP (RFC 6051 §3.3) | [`CAPTURE_TIME_ID`] | one packet after two receiver reports that know no sender report |
//! | abs-send-time | [`ABS_SEND_TIME_ID`] | [`FeedbackKind::ReceiverEstimate`](giusto_congestion::FeedbackKind), `Nada` |
//!
//! # Repair of lost packets
//!
//! With [`MediaStream::repair`] and [`MediaReceiverConfig::repair`], lost packets are repaired:
//!
//! | part | rule |
//! |---|---|
//! | request | generic NACK (RFC 4585 §6.2.1), repeated until the repair would come after [`MediaReceiverConfig::playout_deadline`] |
//! | retransmission | RFC 4588: own SSRC, payload type and numbers; at most once per RTT and packet, none after [`StreamRepair::deadline`]; the last 9600 packets or 8 MB of that time are stored |
//! | parity | RFC 8627 with flexible masks, interleaved over the latest packets of one stream; [`ParityRatio`] |
//! | rate | repair packets are sent before media, are paced, carry transport-wide numbers, and count as sent and in flight; their rate over the last second is subtracted from the target, at most half of it |
//! | RTT | at the sender from receiver reports; at the receiver from reference times (RFC 3611 §4.4, §4.5) and from requests |
//! | key frame | PLI (RFC 4585 §6.3.1) or FIR (RFC 5104 §4.3.1) when a packet of a video is given up, at most every 300 ms; with a payload format that shows key frames again until one is complete |
//!
//! A retransmission stream belongs to the source that misses the packets which it repeats (RFC 4588 §5.3). A repaired packet counts as
//! lost in receiver reports and feedback, because the network has lost it.

mod config;
mod datagram;
mod endpoint;
mod event;
mod extensions;
mod format;
mod frame;
mod packetizer;
mod payload;
mod payload_header;
mod queue;
mod rate_range;
mod receiver;
mod repair;
mod repair_settings;
mod reports;
mod scheduler;
mod sender;
mod share;
mod stream;
mod streams;

pub use config::{MediaSenderConfig, PADDING_SSRC, PADDING_TYPE, pacer_config};
pub use datagram::{Datagram, DatagramHead};
pub use endpoint::MediaEndpoint;
pub use event::{FrameArrival, MediaEvent};
pub use extensions::{ABS_SEND_TIME_ID, CAPTURE_TIME_ID, ExtensionIds, StreamId, TRANSPORT_SEQUENCE_ID};
pub use format::{Framing, PayloadFormat};
pub use frame::{Frame, FrameError, MAX_FRAME_SIZE};
pub use packetizer::{DEFAULT_MAX_PAYLOAD, Packetizer, Piece, Pieces};
pub use payload::Payload;
pub use payload_header::PayloadHeader;
pub use rate_range::{RateRange, RateRangeError};
pub use receiver::{DecodeTarget, MediaReceiver, MediaReceiverConfig, SourceFigures};
pub use repair_settings::{
    KeyFrameRequest, PLAYOUT_DEADLINE, ParityRatio, ParityStream, RepairConfig, RepairKind, StreamRepair,
};
pub use sender::MediaSender;
pub use stream::MediaStream;
pub use streams::StreamFigures;
