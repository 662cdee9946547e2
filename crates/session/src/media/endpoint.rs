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
/// After each `handle_` call, call [`poll_transmit`](Self::poll_transmit) until it returns `None`, then
/// [`poll_timeout`](Self::poll_timeout); after [`handle_timeout`](Self::handle_timeout) that time is in the
/// future. Calls in any order are safe, time that runs backwards counts as no time, a repeated call is
/// harmless, and each call does bounded work.
#[derive(Debug)]
pub struct MediaEndpoint {
    sender: Option<Box<MediaSender>>,
    receiver: Option<Box<MediaReceiver>>,
    damaged: u64,
}

impl MediaEndpoint {
    /// An endpoint that sends, receives, or both.
    pub fn new(sender: Option<MediaSender>, receiver: Option<MediaReceiver>) -> Self {
        Self { sender: sender.map(Box::new), receiver: receiver.map(Box::new), damaged: 0 }
    }

    /// The sending half.
    pub fn sender(&self) -> Option<&MediaSender> {
        self.sender.as_deref()
    }

    /// The sending half.
    pub fn sender_mut(&mut self) -> Option<&mut MediaSender> {
        self.sender.as_deref_mut()
    }

    /// The receiving half.
    pub fn receiver(&self) -> Option<&MediaReceiver> {
        self.receiver.as_deref()
    }

    /// The receiving half.
    pub fn receiver_mut(&mut self) -> Option<&mut MediaReceiver> {
        self.receiver.as_deref_mut()
    }

    /// Datagrams and RTCP packets that could not be parsed.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Handles a received datagram with its ECN codepoint.
    ///
    /// It is RTCP if its second byte is 192 to 223 (RFC 5761 §4), otherwise RTP.
    pub fn handle_datagram(&mut self, now: Timestamp, bytes: &[u8], ecn: Ecn) {
        self.handle_parts(now, bytes, &Payload::default(), ecn);
    }

    /// Like `handle_datagram`, with the two parts of a [`Datagram`] passed separately: the payload is not
    /// copied.
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

    /// Handles the deadline of [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if let Some(sender) = &mut self.sender {
            sender.handle_timeout(now);
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.handle_timeout(now);
        }
    }

    /// Returns whether the next frame of a stream should be encoded: see [`MediaSender::wants_frame`].
    pub fn wants_frame(&mut self, now: Timestamp, stream: usize) -> bool {
        self.sender.as_mut().is_some_and(|sender| sender.wants_frame(now, stream))
    }

    /// Passes an encoded frame to the sender: see [`MediaSender::push_frame`].
    ///
    /// # Errors
    ///
    /// [`FrameError`] if the frame is not accepted.
    pub fn push_frame(&mut self, now: Timestamp, stream: usize, frame: Frame) -> Result<(), FrameError> {
        let sender = self.sender.as_mut().ok_or(FrameError::NoStream(stream))?;
        sender.push_frame(now, stream, frame)
    }

    /// Counts a skipped frame: see [`MediaSender::skip_frame`].
    pub fn skip_frame(&mut self, now: Timestamp, stream: usize) {
        if let Some(sender) = &mut self.sender {
            sender.skip_frame(now, stream);
        }
    }

    /// Pauses or resumes the encoder of a stream: see [`MediaSender::set_paused`].
    pub fn set_paused(&mut self, now: Timestamp, stream: usize, paused: bool) {
        if let Some(sender) = &mut self.sender {
            sender.set_paused(now, stream, paused);
        }
    }

    /// Stops sending media, with a BYE.
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

    /// Time at which [`handle_timeout`](Self::handle_timeout) must be called next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let sender = self.sender().and_then(MediaSender::poll_timeout);
        let receiver = self.receiver().and_then(MediaReceiver::poll_timeout);
        Timestamp::earliest([sender, receiver])
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<MediaEvent> {
        let sender = self.sender_mut().and_then(MediaSender::poll_event);
        sender.or_else(|| self.receiver.as_mut()?.poll_event())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_rtcp_is_counted_as_a_whole_and_by_its_packets() {
        let mut end = MediaEndpoint::new(None, None);
        let mut damaged_after = |head: &[u8]| {
            end.handle_parts(Timestamp::ZERO, head, &Payload::default(), Ecn::NotEct);
            end.damaged()
        };
        // An empty receiver report, once whole and once without its last word; then with two feedbacks that lack their content.
        let report = [0x80, 201, 0, 1, 0, 0, 0, 1];
        assert_eq!(damaged_after(&report), 0);
        assert_eq!(damaged_after(&report[..4]), 1);
        assert_eq!(damaged_after(&[&report[..], &[0x8f, 205, 0, 0].repeat(2)].concat()), 3);
    }
}
