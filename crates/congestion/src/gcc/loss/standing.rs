//! Detects losses from a queue that stays full. Not part of libwebrtc; `gcc:libwebrtc+giusto` uses it.
//!
//! A full drop-tail queue has a constant delay, so the delay detector sees nothing. If the loss model takes
//! the losses for the path's own, both parts permit the rate that keeps the queue full, for good. Losses of
//! the path itself do not depend on the queue. Losses while a queue never drains come from that queue, and
//! are over-use.

use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

use crate::{feedback::PacketReport, gcc::arithmetic::Forward};

giusto_units::defaults! {
    /// Configuration of the reaction to losses from a queue that stays full.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct StandingQueueConfig {
        /// Duration of a window. Default 1 s: that of the received rate, to which the rate is lowered.
        pub window: TimeDelta = TimeDelta::from_seconds(1),
        /// Minimum number of packets in a window; it is longer if there are fewer. Default 10.
        pub packets: u64 = 10,
        /// Loss ratio of a window from which the queue counts as full, 0 to 1. Default 0.02, below which the
        /// draft's loss controller increases the rate (draft-ietf-rmcat-gcc-02 §6).
        pub loss: f64 = 0.02,
        /// Queueing delay that every packet of the window has exceeded. Default 50 ms. A queue that the delay
        /// detector controls is shorter at least once in a second.
        pub delay: TimeDelta = TimeDelta::from_millis(50),
        /// Duration for which the lowest delay is remembered, at least; at most twice as long. Default 30 s.
        pub memory: TimeDelta = TimeDelta::from_seconds(30),
        /// After this number of detections in successive windows, the current delay is taken for that of the
        /// path. Default 4: four decreases to 85 % drain any queue that the flow itself fills.
        pub attempts: u32 = 4,
    }
}

/// Detects losses from a queue that stays full.
///
/// One-way delays are compared with the lowest of the last 30 to 60 s, so neither clocks need to agree nor
/// does their drift matter.
#[derive(Debug, Clone, Default)]
pub(crate) struct StandingQueue {
    config: StandingQueueConfig,
    clock: Forward,
    /// Start of the current window.
    since: Option<Timestamp>,
    window: Window,
    /// Lowest delay of the previous and of the current period, and the start of the current one.
    lowest: [Option<TimeDelta>; 2],
    period: Timestamp,
    /// Number of successive windows with a detection.
    detections: u32,
    full: Option<f64>,
}

/// Packets of a window.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    packets: u64,
    lost: u64,
    /// Lowest one-way delay, with an unknown offset between the clocks.
    lowest: Option<TimeDelta>,
}

impl StandingQueue {
    /// A detector without packets.
    pub(crate) fn new(config: StandingQueueConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Processes the packets of one feedback message.
    pub(crate) fn on_packets(&mut self, now: Timestamp, packets: &[PacketReport]) {
        let now = self.clock.clamp(now);
        let since = *self.since.get_or_insert(now);
        for packet in packets {
            self.window.packets += 1;
            match packet.arrival {
                Some(arrival) => {
                    let delay = arrival - PeerTimestamp::from_nanos(packet.sent.at.as_nanos());
                    self.window.lowest = Some(self.window.lowest.map_or(delay, |lowest| lowest.min(delay)));
                }
                None => self.window.lost += 1,
            }
        }
        if now - since < self.config.window || self.window.packets < self.config.packets {
            return;
        }
        self.since = Some(now);
        let window = core::mem::take(&mut self.window);
        self.full = self.judge(now, window);
    }

    /// The loss ratio of the latest complete window, 0 to 1, if that window shows a full queue to which the
    /// sender has not reacted yet.
    pub(crate) fn full(&self) -> Option<f64> {
        self.full
    }

    /// The rate was lowered: a reaction to the latest window is no longer due.
    pub(crate) fn on_decrease(&mut self) {
        self.full = None;
    }

    fn judge(&mut self, now: Timestamp, window: Window) -> Option<f64> {
        let delay = window.lowest?;
        if now - self.period >= self.config.memory {
            self.lowest = [self.lowest[1], None];
            self.period = now;
        }
        self.lowest[1] = Some(self.lowest[1].map_or(delay, |lowest| lowest.min(delay)));
        let path = self.lowest.into_iter().flatten().min()?;
        let loss = window.lost as f64 / window.packets.max(1) as f64;
        if loss < self.config.loss || delay - path <= self.config.delay {
            self.detections = 0;
            return None;
        }
        self.detections += 1;
        if self.detections >= self.config.attempts {
            self.lowest = [Some(delay); 2];
            self.detections = 0;
        }
        Some(loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, report};

    /// Feeds `seconds` of 20 feedback messages of 5 packets a second, with a constant queueing delay and one
    /// packet in `every` lost. Returns the number of detections.
    fn run(queue: &mut StandingQueue, from: u64, seconds: u64, delay_ms: u64, every: u64) -> usize {
        let mut found = |message: &u64| {
            let message = *message;
            let packets: Vec<_> = (message * 5..message * 5 + 5)
                .map(|n| report(n, n * 10, (n % every != 0).then_some(n * 10 + 20 + delay_ms)))
                .collect();
            queue.on_packets(at((message + 3) * 50), &packets);
            let found = queue.full().is_some();
            queue.on_decrease();
            found
        };
        (from * 20..(from + seconds) * 20).filter(|message| found(message)).count()
    }

    #[test]
    fn losses_count_only_with_a_queue_that_never_drains() {
        let mut queue = StandingQueue::new(StandingQueueConfig::default());
        assert_eq!(run(&mut queue, 0, 10, 0, 5), 0, "20 % random loss");
        assert_eq!(run(&mut queue, 10, 10, 45, 5), 0, "and a short queue");
        assert_eq!(run(&mut queue, 20, 5, 200, 100), 0, "a long queue with 1 % loss");
        let found = run(&mut queue, 25, 3, 200, 10);
        assert!((2..=3).contains(&found), "each second with both: {found}");
    }

    #[test]
    fn a_delay_that_decreases_do_not_shorten_becomes_that_of_the_path() {
        let mut queue = StandingQueue::new(StandingQueueConfig::default());
        run(&mut queue, 0, 10, 0, 5);
        // A new route is longer by 200 ms.
        let found = run(&mut queue, 10, 60, 200, 5);
        assert_eq!(found, 4);
        let found = run(&mut queue, 70, 10, 300, 5);
        assert_eq!(found, 4, "a queue of 100 ms on the new route");
    }
}
