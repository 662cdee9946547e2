//! Feedback of NADA (RFC 8698): the receiver's measurements and messages.
//!
//! The one-way delay is the arrival minus the send time in the packet (abs-send-time, steps of 3.8 µs; §5.1.1 recommends 100 µs or finer).
//! The streams of a sender share the path and are measured together. Losses are gaps in the RTP sequence numbers of a stream.

use std::collections::VecDeque;

use giusto_congestion::nada::{ReceivedMedia, Receiver, ReceiverConfig};
use giusto_rtp::{AbsSendTime, AbsSendTimeUnwrapper};
use giusto_units::{DataSize, Ecn, TimeDelta, Timestamp};

use super::{send, sources::MAX_SOURCES};

/// A number further ahead than this belongs to a restarted sequence (RFC 3550 A.1, `MAX_DROPOUT`).
const MAX_DROPOUT: i16 = 3000;
/// So does one further behind than this (RFC 3550 A.1, `MAX_MISORDER`).
const MAX_MISORDER: i16 = 100;
/// The send times wrap at 64 s: after a longer gap than this, the delays before and after cannot be compared.
const MAX_GAP: TimeDelta = TimeDelta::from_seconds(30);

/// Measures the packets and writes messages.
#[derive(Debug)]
pub(super) struct NadaReporter {
    sender_ssrc: u32,
    receiver: Receiver,
    unwrapper: AbsSendTimeUnwrapper,
    last_packet_at: Option<Timestamp>,
    /// Sources and their highest numbers.
    sources: Vec<(u32, u16)>,
    /// Whether any source has sent since the sources ended.
    is_active: bool,
}

impl NadaReporter {
    pub(super) fn new(sender_ssrc: u32) -> Self {
        Self {
            sender_ssrc,
            receiver: Receiver::new(ReceiverConfig::default()),
            unwrapper: AbsSendTimeUnwrapper::new(),
            last_packet_at: None,
            sources: Vec::new(),
            is_active: false,
        }
    }

    /// Handles a packet of a source: its number, its send time and its size.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        ssrc: u32,
        sequence: u16,
        sent: AbsSendTime,
        size: DataSize,
        ecn: Ecn,
    ) {
        if self.last_packet_at.is_some_and(|last| now.saturating_since(last) > MAX_GAP) {
            *self = Self::new(self.sender_ssrc);
        }
        (self.last_packet_at, self.is_active) = (Some(now), true);
        let Some(time) = self.unwrapper.unwrap(sent).or_else(|| {
            // A time before zero cannot be compared: the sender's clock was set back.
            *self = Self { last_packet_at: Some(now), is_active: true, ..Self::new(self.sender_ssrc) };
            self.unwrapper.unwrap(sent)
        }) else {
            return;
        };
        let missing = self.missing(ssrc, sequence);
        let delay = time.apparent_delay(now);
        self.receiver
            .on_packet(now, &ReceivedMedia::new(delay, size).with_missing(missing).with_mark(ecn == Ecn::Ce));
    }

    /// Packets of the source that are missing directly before this one; `None` if it is out of order.
    fn missing(&mut self, ssrc: u32, sequence: u16) -> Option<u64> {
        let Some((_, highest)) = self.sources.iter_mut().find(|(known, _)| *known == ssrc) else {
            if self.sources.len() >= MAX_SOURCES {
                self.sources.remove(0);
            }
            self.sources.push((ssrc, sequence));
            return Some(0);
        };
        let ahead = sequence.wrapping_sub(*highest) as i16;
        if (-MAX_MISORDER..=0).contains(&ahead) {
            return None;
        }
        *highest = sequence;
        Some(if (1..=MAX_DROPOUT).contains(&ahead) { ahead as u64 - 1 } else { 0 })
    }

    /// Time at which a message is due, if there is anything to report.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.receiver.next_timeout().filter(|_| self.is_active)
    }

    /// Writes the message that is due.
    pub(super) fn write(&mut self, now: Timestamp, datagrams: &mut VecDeque<Vec<u8>>) {
        if let Some(report) = self.receiver.poll_report(now) {
            send(datagrams, |datagram| report.to_message(self.sender_ssrc).write(datagram));
        }
    }

    /// No sender is active: nothing is reported.
    pub(super) fn discard_unreported(&mut self) {
        self.is_active = false;
    }
}
