//! The frames that the application has written and quinn has not sent.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// An estimate of what waits in quinn, which does not tell it: what was written or lost, less what left. Quinn's statement that it has nothing to
/// send corrects it.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// When each frame was written, and its bytes that have not left.
    frames: VecDeque<(Instant, u64)>,
    bytes: u64,
    last_sent: Option<Instant>,
}

impl Waiting {
    /// The application has written a frame of `bytes` bytes.
    pub(crate) fn on_written(&mut self, now: Instant, bytes: u64) {
        self.frames.push_back((now, bytes));
        self.bytes += bytes;
    }

    /// `bytes` bytes of streams were lost: they wait again, before what was not sent yet.
    pub(crate) fn on_lost(&mut self, now: Instant, bytes: u64) {
        self.frames.push_front((now, bytes));
        self.bytes += bytes;
    }

    /// Quinn has sent `bytes` bytes of streams.
    pub(crate) fn on_sent(&mut self, now: Instant, mut bytes: u64) {
        self.last_sent = Some(now);
        while let Some((_, left)) = self.frames.front_mut().filter(|_| bytes > 0) {
            let part = bytes.min(*left);
            (*left, bytes, self.bytes) = (*left - part, bytes - part, self.bytes - part);
            if *left == 0 {
                self.frames.pop_front();
            }
        }
    }

    /// Quinn had nothing to send when it last looked, which it does after each packet.
    pub(crate) fn on_nothing_left(&mut self) {
        while let Some((_, bytes)) = self.frames.front().filter(|(at, _)| Some(*at) <= self.last_sent) {
            self.bytes -= bytes;
            self.frames.pop_front();
        }
    }

    /// The application has taken back what waits, for example by resetting its stream.
    pub(crate) fn on_discarded(&mut self) {
        *self = Self { last_sent: self.last_sent, ..Self::default() };
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes that wait, and the age of the oldest.
    pub(crate) fn state(&self, now: Instant) -> (u64, Duration) {
        let oldest = self.frames.iter().map(|(at, _)| now.saturating_duration_since(*at)).max();
        (self.bytes, oldest.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{after, origin};

    #[test]
    fn what_was_written_waits_until_as_much_has_left() {
        let start = origin();
        let mut waiting = Waiting::default();
        waiting.on_written(start, 1000);
        waiting.on_written(after(start, 33), 500);
        assert_eq!(waiting.state(after(start, 40)), (1500, Duration::from_millis(40)));
        waiting.on_sent(after(start, 41), 1200);
        assert_eq!(waiting.state(after(start, 43)), (300, Duration::from_millis(10)));
        // What is lost is sent again, first.
        waiting.on_lost(after(start, 44), 1200);
        assert_eq!(waiting.state(after(start, 45)), (1500, Duration::from_millis(12)));
        waiting.on_sent(after(start, 46), 1200);
        assert_eq!(waiting.state(after(start, 47)), (300, Duration::from_millis(14)));
        waiting.on_sent(after(start, 48), 5000);
        assert_eq!(waiting.state(after(start, 50)), (0, Duration::ZERO));
    }

    #[test]
    fn what_came_after_quinn_ran_out_of_data_waits() {
        let start = origin();
        let mut waiting = Waiting::default();
        waiting.on_written(start, 1000);
        waiting.on_nothing_left();
        assert_eq!(waiting.state(start).0, 1000, "quinn has not looked since");
        waiting.on_sent(after(start, 1), 900);
        waiting.on_written(after(start, 2), 700);
        waiting.on_nothing_left();
        assert_eq!(waiting.state(after(start, 3)), (700, Duration::from_millis(1)));
        waiting.on_discarded();
        assert_eq!(waiting.state(after(start, 3)), (0, Duration::ZERO));
    }
}
