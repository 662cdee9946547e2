//! Whether a reflector counts.

use giusto_units::{TimeDelta, Timestamp};

use super::{Answers, ProbeSource};
use crate::Session;

/// Finds out whether the reflector counts.
///
/// As long as no packet is lost on the way there, the numbers of a stateful reflector are those of a stateless one. So a session of
/// its own begins with the number 2, as if two packets had been lost: the answer has the number 0 or the number 2.
#[derive(Debug)]
pub struct CountCheck {
    source: ProbeSource,
    answers: Answers,
    sequence: u64,
    next: Timestamp,
    is_over: bool,
}

impl CountCheck {
    const INTERVAL: TimeDelta = TimeDelta::from_seconds(1);
    const ATTEMPTS: u64 = 3;

    /// A check by the packets of `source`.
    pub fn new(source: ProbeSource) -> Self {
        let answers = Answers::new(source.clone(), false);
        Self { source, answers, sequence: 2, next: Timestamp::ZERO, is_over: false }
    }

    /// Whether the reflector counts; `None` before its answer.
    pub fn counts(&self) -> Option<bool> {
        (self.answers.counters().answered > 0).then(|| self.answers.stateful() == Some(true))
    }

    /// Whether there is a reflector; `None` while it may still answer.
    pub fn is_answered(&self) -> Option<bool> {
        let counters = self.answers.counters();
        let is_silent = self.is_over || counters.unreachable > 0;
        (counters.answered > 0 || is_silent).then_some(counters.answered > 0)
    }
}

impl Session for CountCheck {
    fn handle_datagram(&mut self, now: Timestamp, datagram: &[u8], at: Timestamp) {
        self.answers.handle_datagram(now, datagram, at);
    }

    fn handle_unreachable(&mut self, now: Timestamp, messages: u64) {
        self.answers.handle_unreachable(now, messages);
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.is_over |= self.sequence > 2 * Self::ATTEMPTS && now >= self.next;
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        let has_attempt = self.sequence <= 2 * Self::ATTEMPTS;
        let due = self.poll_timeout().filter(|due| has_attempt && now >= *due)?;
        // One that is late does not delay the others.
        let began = if self.sequence == 2 { now } else { due };
        self.next = began + Self::INTERVAL;
        let mut packet = vec![0; self.source.mode().base_bytes()];
        self.source.write(now, self.sequence, &mut packet);
        self.sequence += 2;
        Some(packet)
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        (self.counts().is_none() && !self.is_over).then_some(self.next)
    }
}
