//! Both directions over one transport.

use giusto_rtp::rtcp::Packets;
use giusto_units::{Ecn, Timestamp};

use super::{
    datagram::Datagram,
    event::MediaEvent,
    frame::{Frame, FrameError},
    payload::Payload,
    receiver::MediaReceiver,
    sender::MediaSender,
};

/// One end of a media session: it sends, receives, or both.
///
/// After each `handle_` call, ask [`poll_transmit`](Self::poll_transmit) until it gives nothing more, then
/// [`poll_timeout`](Self::poll_timeout); after [`handle_timeout`](Self::handle_timeout) that lies in the future. Calls in any order are safe, time that runs backwards
/// counts as no time, a repeated call does no harm, and each call does bounded work.
#[derive(Debug)]
pub struct MediaEndpoint {
    sender: Option<MediaSender>,
    receiver: Option<MediaReceiver>,
    damaged: u64,
}

impl MediaEndpoint {
    /// An endpoint that sends, receives, or both.
    pub fn new(sender: Option<MediaSender>, receiver: Option<MediaReceiver>) -> Self {
        Self { sender, receiver, damaged: 0 }
    }

    /// The half that sends.
    pub fn sender(&self) -> Option<&MediaSender> {
        self.sender.as_ref()
    }

    /// The half that sends.
    pub fn sender_mut(&mut self) -> Option<&mut MediaSender> {
        self.sender.as_mut()
    }

    /// The half that receives.
    pub fn receiver(&self) -> Option<&MediaReceiver> {
        self.receiver.as_ref()
    }

    /// Datagrams and RTCP packets that could not be parsed.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// A datagram came, with its ECN codepoint.
    ///
    /// It is RTCP if its second byte is 192 to 223 (RFC 5761 §4), otherwise RTP.
    pub fn handle_datagram(&mut self, now: Timestamp, bytes: &[u8], ecn: Ecn) {
        self.handle_parts(now, bytes, &Payload::default(), ecn);
    }

    /// The same, with the two parts of a [`Datagram`] apart: the payload is not copied.
    pub fn handle_parts(&mut self, now: Timestamp, head: &[u8], payload: &Payload, ecn: Ecn) {
        if !matches!(head.get(1), Some(192..=223)) {
            if let Some(receiver) = &mut self.receiver {
                receiver.handle_rtp(now, head, payload, ecn);
            }
            return;
        }
        let Ok(packets) = Packets::new(head) else {
            self.damaged += 1;
            return;
        };
        for packet in packets {
            let Ok(packet) = packet else {
                self.damaged += 1;
                continue;
            };
            if let Some(sender) = &mut self.sender {
                sender.handle_rtcp(now, &packet);
            }
            if let Some(receiver) = &mut self.receiver {
                receiver.handle_rtcp(now, &packet);
            }
        }
    }

    /// The deadline of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if let Some(sender) = &mut self.sender {
            sender.handle_timeout(now);
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.handle_timeout(now);
        }
    }

    /// Asks the sender whether the next frame of a stream should be encoded: see [`MediaSender::wants_frame`].
    pub fn wants_frame(&mut self, now: Timestamp, stream: usize) -> bool {
        self.sender.as_mut().is_some_and(|sender| sender.wants_frame(now, stream))
    }

    /// Gives an encoded frame to the sender: see [`MediaSender::push_frame`].
    ///
    /// # Errors
    ///
    /// [`FrameError`] says why the frame was not taken.
    pub fn push_frame(&mut self, now: Timestamp, stream: usize, frame: Frame) -> Result<(), FrameError> {
        let sender = self.sender.as_mut().ok_or(FrameError::NoStream(stream))?;
        sender.push_frame(now, stream, frame)
    }

    /// Counts a frame that was not wanted: see [`MediaSender::skip_frame`].
    pub fn skip_frame(&mut self, now: Timestamp, stream: usize) {
        if let Some(sender) = &mut self.sender {
            sender.skip_frame(now, stream);
        }
    }

    /// Says that the encoder of a stream pauses or continues: see [`MediaSender::set_paused`].
    pub fn set_paused(&mut self, now: Timestamp, stream: usize, paused: bool) {
        if let Some(sender) = &mut self.sender {
            sender.set_paused(now, stream, paused);
        }
    }

    /// Ends the media that it sends, with a BYE.
    pub fn stop(&mut self, now: Timestamp) {
        if let Some(sender) = &mut self.sender {
            sender.stop(now);
        }
    }

    /// The next datagram to send at once, if any.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram> {
        let media = self.sender.as_mut().and_then(|sender| sender.poll_transmit(now));
        media.or_else(|| self.receiver.as_mut()?.poll_transmit(now))
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let sender = self.sender.as_ref().and_then(MediaSender::poll_timeout);
        let receiver = self.receiver.as_ref().and_then(MediaReceiver::poll_timeout);
        [sender, receiver].into_iter().flatten().min()
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<MediaEvent> {
        let sender = self.sender.as_mut().and_then(MediaSender::poll_event);
        sender.or_else(|| self.receiver.as_mut()?.poll_event())
    }
}
