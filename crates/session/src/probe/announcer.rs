//! The announcements of a stream to a multicast group, whose receivers do not answer.

use std::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

use super::{
    clock::LocalClock,
    wire::{Cookie, Message, SenderFigures, StreamRequest, StreamToken},
};
use crate::Session;

/// The time between two announcements: a receiver that joins later waits at most so long. Chosen by us, within the 1 % of a stream of
/// 100 kbit/s that RTCP would take (RFC 3550 §6.2 permits 5 %).
const INTERVAL: TimeDelta = TimeDelta::from_millis(500);
/// The time between two announcements before the first datagram, any of which may be lost; and between two of the end.
const SHORT_INTERVAL: TimeDelta = TimeDelta::from_millis(40);
/// The receiver waits for datagrams that the end may have overtaken, until the end comes again after more than this.
const END_INTERVAL: TimeDelta = TimeDelta::from_millis(200);
/// How often the end is announced.
const ENDS: u32 = 4;

/// Without keys and without an answer, nothing fresh comes from the receiver: the token, which is random, takes its place.
pub(super) const NO_COOKIE: Cookie = Cookie { issued_ns: 0, proof: [0; 16] };

/// Announces a stream to a multicast group.
#[derive(Debug)]
pub struct Announcer {
    token: StreamToken,
    request: StreamRequest,
    /// The sequence number that comes next.
    next: u64,
    due: Option<Timestamp>,
    figures: Option<SenderFigures>,
    ends_left: u32,
    outbox: VecDeque<Vec<u8>>,
}

impl Announcer {
    /// The announcements of the stream with this token, which must be random, from now on.
    pub fn new(now: Timestamp, token: StreamToken, request: &StreamRequest, clock: &LocalClock) -> Self {
        let request = StreamRequest { clock: clock.identity_in(token.0, &NO_COOKIE), ..request.clone() };
        let outbox = VecDeque::new();
        Self { token, request, next: 0, due: Some(now), figures: None, ends_left: ENDS, outbox }
    }

    /// So many datagrams have been sent.
    pub fn on_sent(&mut self, packets: u64) {
        self.next = packets;
    }

    /// All has been sent: the end is announced instead, several times.
    pub fn finish(&mut self, now: Timestamp, figures: SenderFigures) {
        self.figures = Some(figures);
        self.due = Some(now);
    }
}

impl Session for Announcer {
    /// A group does not answer.
    fn handle_datagram(&mut self, _: Timestamp, _: &[u8], _: Timestamp) {}

    fn handle_timeout(&mut self, now: Timestamp) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        let token = self.token;
        let (message, again) = match &self.figures {
            None => {
                let wait = if self.next == 0 { SHORT_INTERVAL } else { INTERVAL };
                (Message::Announce { token, next: self.next, request: self.request.clone() }, Some(wait))
            }
            Some(figures) => {
                self.ends_left = self.ends_left.saturating_sub(1);
                let wait = (self.ends_left > 0).then_some(END_INTERVAL);
                (Message::Finish { token, figures: figures.clone() }, wait)
            }
        };
        self.outbox.push_back(message.encode(0));
        self.due = again.map(|wait| now + wait);
    }

    fn poll_transmit(&mut self, _: Timestamp) -> Option<Vec<u8>> {
        self.outbox.pop_front()
    }

    /// `None` once all has been announced.
    fn poll_timeout(&self) -> Option<Timestamp> {
        self.due
    }
}
