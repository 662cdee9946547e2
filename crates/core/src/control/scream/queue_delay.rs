//! How long packets queue on the path, from clocks that agree on nothing but their pace (RFC 6817 §2.4, §3.4).

use std::collections::VecDeque;

use crate::units::{PeerTimestamp, TimeDelta, Timestamp};

/// So many minima are kept, one of each minute (RFC 6817 §3.4.2, `BASE_HISTORY`).
const BASE_HISTORY: usize = 10;
/// RFC 6817 §3.4.2.
const MINUTE: TimeDelta = TimeDelta::from_seconds(60);

/// The one-way delay less the least that was seen in ten minutes.
///
/// A sample is not filtered (RFC 8298 §4.1.2: "No smoothing of the qdelay is performed"). Skew of the clocks is not compensated
/// (RFC 6817 A.2): where the far clock runs fast, each sample is a least one; where it runs slow, by 100 ppm, ten minutes add
/// 60 ms.
#[derive(Debug, Clone, Default)]
pub(super) struct QueueDelay {
    /// The least of each minute, the latest last.
    minima: VecDeque<TimeDelta>,
    minute: Timestamp,
}

impl QueueDelay {
    /// A packet left at `sent` and arrived at `arrival`; heard at `now`, which never runs backwards. Gives how long it queued.
    pub(super) fn on_packet(&mut self, now: Timestamp, sent: Timestamp, arrival: PeerTimestamp) -> TimeDelta {
        let delay = -arrival.apparent_delay(sent);
        let minutes = now.saturating_since(self.minute).as_nanos() / MINUTE.as_nanos();
        if minutes >= BASE_HISTORY as i64 {
            // Idle for so long that nothing that is remembered holds.
            self.minima.clear();
        }
        if minutes > 0 || self.minima.is_empty() {
            self.minute = now;
            self.minima.push_back(delay);
            if self.minima.len() > BASE_HISTORY {
                self.minima.pop_front();
            }
        } else if let Some(least) = self.minima.back_mut() {
            *least = delay.min(*least);
        }
        let base = self.minima.iter().min().copied().unwrap_or(delay);
        (delay - base).max(TimeDelta::ZERO)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    /// Sent at a second, and queued for so many milliseconds behind 25 ms and a clock that is a day ahead.
    fn queued(delay: &mut QueueDelay, second: u64, millis: u64) -> f64 {
        let sent = Timestamp::from_nanos(second * 1_000_000_000);
        let day = 86_400_000_000_000;
        let arrival = PeerTimestamp::from_nanos(sent.as_nanos() + day + (25 + millis) * 1_000_000);
        delay.on_packet(sent + TimeDelta::from_millis(100), sent, arrival).as_millis()
    }

    #[test]
    fn it_is_what_exceeds_the_least() {
        let mut delay = QueueDelay::default();
        let told: Vec<f64> =
            [30, 0, 40, 7].into_iter().zip(0..).map(|(ms, second)| queued(&mut delay, second, ms)).collect();
        assert_eq!(told, [0.0, 0.0, 40.0, 7.0]);
    }

    #[test]
    fn a_longer_path_is_the_base_after_ten_minutes_and_not_before() {
        let mut delay = QueueDelay::default();
        queued(&mut delay, 0, 0);
        // The minima of ten minutes are kept: that of the first leaves with the eleventh.
        let first_zero = (1..1000).find(|&second| queued(&mut delay, second, 50) == 0.0);
        assert!(first_zero.is_some_and(|second| (540..=610).contains(&second)), "{first_zero:?}");
    }

    #[test]
    fn after_a_long_idle_time_it_begins_anew() {
        let mut delay = QueueDelay::default();
        queued(&mut delay, 0, 0);
        assert_eq!(queued(&mut delay, 599, 20), 20.0);
        let mut delay = QueueDelay::default();
        queued(&mut delay, 0, 0);
        assert_eq!(queued(&mut delay, 601, 20), 0.0);
    }

    #[test]
    fn extremes_do_no_harm() {
        let mut delay = QueueDelay::default();
        for (sent, arrival) in [(0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX), (0, 0)] {
            let told = delay.on_packet(
                Timestamp::MAX,
                Timestamp::from_nanos(sent),
                PeerTimestamp::from_nanos(arrival),
            );
            assert!(told >= TimeDelta::ZERO);
        }
    }
}
