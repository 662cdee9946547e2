//! How much of the window the media use (pipeACK, RFC 7661 §4.2).

use giusto_units::{TimeDelta, Timestamp};

/// Highest number of bytes acknowledged in one RTT, of a recent time.
#[derive(Debug, Clone, Default)]
pub(super) struct Usage {
    begin: Option<Timestamp>,
    bytes: f64,
    /// Highest of the earlier RTTs, of this period and of the one before, and the start of this period.
    highest: [f64; 2],
    since: Timestamp,
}

impl Usage {
    /// Handles `bytes` acknowledged at `now`.
    pub(super) fn on_acked(&mut self, now: Timestamp, bytes: f64, rtt: TimeDelta, period: TimeDelta) {
        let begin = *self.begin.get_or_insert(now);
        if now.saturating_since(begin) >= rtt {
            let [current, before] = self.highest;
            self.highest = [current.max(self.bytes), before];
            (self.begin, self.bytes) = (Some(now), 0.0);
        }
        if now.saturating_since(self.since) >= period {
            self.highest = [0.0, self.highest.first().copied().unwrap_or_default()];
            self.since = now;
        }
        self.bytes += bytes;
    }

    /// The highest of the latest one to two periods, and of the RTT that is not over.
    pub(super) fn bytes(&self) -> f64 {
        self.highest.iter().copied().fold(self.bytes, f64::max)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_highest_of_the_latest_rtts() {
        let (rtt, period) = (TimeDelta::from_millis(40), TimeDelta::from_seconds(1));
        let mut usage = Usage::default();
        let ack = |usage: &mut Usage, ms: u64, bytes| {
            usage.on_acked(Timestamp::from_nanos(ms * 1_000_000), bytes, rtt, period);
            usage.bytes()
        };
        // 1000 bytes each 10 ms: 4000 in 40 ms.
        let last = (0..200).map(|n| ack(&mut usage, n * 10, 1000.0)).last();
        assert_eq!(last, Some(4000.0));
        // A tenth of it: remembered for one to two periods.
        let falling: Vec<f64> = (200..500).map(|n| ack(&mut usage, n * 10, 100.0)).collect();
        assert_eq!(falling[90], 4000.0);
        assert_eq!(falling[210], 400.0);
    }
}
