//! The first message of a sender, to find out which of several addresses answers.

use giusto_units::Timestamp;

use super::sender::{Sender, SenderConfig};
use crate::Session;

/// A sender that asks whether there is a receiver, and opens no stream.
#[derive(Debug)]
pub struct Greeting {
    sender: Sender,
}

impl Greeting {
    /// A greeting that begins now.
    pub fn new(now: Timestamp, config: SenderConfig) -> Self {
        Self { sender: Sender::new(now, config) }
    }

    /// Whether a receiver has answered, be it with a refusal; `None` while it may still answer.
    pub fn is_answered(&self) -> Option<bool> {
        self.sender.is_greeted()
    }
}

impl Session for Greeting {
    fn handle_datagram(&mut self, now: Timestamp, datagram: &[u8], at: Timestamp) {
        if self.is_answered().is_none() {
            self.sender.handle_datagram(now, datagram, at);
        }
    }

    fn handle_unreachable(&mut self, now: Timestamp, messages: u64) {
        if self.is_answered().is_none() {
            self.sender.handle_unreachable(now, messages);
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if self.is_answered().is_none() {
            self.sender.handle_timeout(now);
        }
    }

    /// The answer to an answer would open a stream.
    fn poll_transmit(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        self.is_answered().is_none().then(|| self.sender.poll_transmit(now)).flatten()
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.is_answered().is_none().then(|| self.sender.poll_timeout()).flatten()
    }
}
