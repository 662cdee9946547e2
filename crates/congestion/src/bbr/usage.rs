//! Whether the media use what they may send.

use giusto_units::{TimeDelta, Timestamp};

use super::config::Config;

/// Compares what is sent with what may be sent, over at least [`Config::used_period`] and three packets.
#[derive(Debug, Clone, Default)]
pub(super) struct Usage {
    since: Option<Timestamp>,
    updated: Timestamp,
    allowed: f64,
    sent: f64,
    /// Whether the window limited the sender.
    is_full: bool,
    is_limited: bool,
}

impl Usage {
    /// Time passes, in which `rate` bytes per second may be sent.
    pub(super) fn on_time(&mut self, now: Timestamp, config: &Config, rate: f64, packet: f64) {
        let since = *self.since.get_or_insert(now);
        if self.updated < since {
            self.updated = since;
        }
        self.allowed += rate * now.saturating_since(self.updated).as_seconds();
        self.updated = now;
        let has_passed: TimeDelta = now.saturating_since(since);
        if has_passed >= config.used_period && self.allowed >= 3.0 * packet {
            self.is_limited = !self.is_full && self.sent < config.used_share * self.allowed;
            *self = Self { since: Some(now), updated: now, is_limited: self.is_limited, ..Self::default() };
        }
    }

    /// Handles a sent packet of `bytes`. `is_full`: the window permits no other.
    pub(super) fn on_sent(&mut self, bytes: f64, is_full: bool) {
        self.sent += bytes;
        self.is_full |= is_full;
    }

    /// Whether the application limited the sender in the latest period.
    pub(super) fn is_limited(&self) -> bool {
        self.is_limited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_below_80_percent_of_the_target_limit_the_sender() {
        let config = Config::default();
        for (bytes, is_full, expected) in
            [(1000.0, false, false), (850.0, false, false), (750.0, false, true), (100.0, true, false)]
        {
            let mut usage = Usage::default();
            for packet in 0..100 {
                // One packet each 10 ms, of 100 kB/s.
                let now = Timestamp::from_nanos(1_000_000_000 + packet * 10_000_000);
                usage.on_time(now, &config, 100e3, 1000.0);
                usage.on_sent(bytes, is_full);
            }
            assert_eq!(usage.is_limited(), expected, "{bytes}");
        }
    }
}
