//! Standing RTT, minimum RTT and queueing delay (NSDI 2018 §2.1, equation 2; §2.2).

use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

use super::config::Config;
use crate::{
    acknowledgement::{Acknowledgements, Content},
    clock_jump,
    extremes::{WindowedMaximum, WindowedMinimum},
    feedback::PacketReport,
};

/// Minimum RTT, so that rates stay finite.
const SHORTEST: TimeDelta = TimeDelta::from_millis(1);

/// Delays of the path. All samples are one-way delays; with the way back they are RTTs.
#[derive(Debug, Clone, Default)]
pub(super) struct PathDelay {
    acknowledgements: Acknowledgements,
    minimum: WindowedMinimum,
    standing: WindowedMinimum,
    /// Minimum and maximum of some RTTs, which tell whether the queue was nearly empty.
    lowest: WindowedMinimum,
    highest: WindowedMaximum,
    /// Interval of feedback.
    interval: TimeDelta,
    /// Smoothed one-way delay.
    smoothed: Option<TimeDelta>,
    /// Time of the first acknowledgement.
    first: Option<Timestamp>,
}

impl PathDelay {
    /// Handles a report before its packets; reports come every `interval`. Returns whether any of the packets has arrived.
    pub(super) fn on_report(
        &mut self,
        now: Timestamp,
        config: &Config,
        interval: TimeDelta,
        packets: &[PacketReport],
    ) -> bool {
        self.interval = interval;
        let content = self.acknowledgements.on_report(now, config.min_rtt_window, packets);
        if content == Content::SetBack {
            self.restart();
        }
        content != Content::Nothing
    }

    /// Forgets the delays.
    fn restart(&mut self) {
        *self = Self {
            acknowledgements: core::mem::take(&mut self.acknowledgements),
            interval: self.interval,
            ..Self::default()
        };
    }

    /// Handles a packet of the report at `now`. Returns the time at which its acknowledgement would have arrived if the receiver had
    /// sent it at once.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        config: &Config,
        sent: Timestamp,
        arrival: PeerTimestamp,
    ) -> Timestamp {
        let acked = self.acknowledgements.time(now, arrival);
        self.first.get_or_insert(acked);
        let delay = -arrival.apparent_delay(sent);
        let queueing = self.minimum.get().map(|minimum| delay - minimum);
        if queueing.is_some_and(|queueing| clock_jump::has_jumped(queueing, now.saturating_since(sent))) {
            self.restart();
        }
        self.smoothed = Some(self.smoothed.map_or(delay, |smoothed| {
            let change = (delay - smoothed).as_seconds() * config.rtt_weight;
            smoothed + TimeDelta::from_seconds_f64(change)
        }));
        let rtt = self.smoothed_rtt();
        self.minimum.on_sample(acked, delay, config.min_rtt_window);
        self.standing.on_sample(acked, delay, times(rtt, config.standing_window));
        self.lowest.on_sample(acked, delay, times(rtt + self.interval, config.empty_rtts));
        self.highest.on_sample(acked, delay, times(rtt + self.interval, config.highest_rtts));
        acked
    }

    /// Smoothed RTT; 1 ms at least.
    pub(super) fn smoothed_rtt(&self) -> TimeDelta {
        self.rtt(self.smoothed)
    }

    /// `RTTmin`; 1 ms at least.
    pub(super) fn min_rtt(&self) -> TimeDelta {
        self.rtt(self.minimum.get())
    }

    /// `RTTstanding`; 1 ms at least. `None` before the first packet.
    pub(super) fn standing_rtt(&self) -> Option<TimeDelta> {
        self.standing.get()?;
        Some(self.min_rtt() + self.queueing())
    }

    /// `dq`: `RTTstanding` − `RTTmin`.
    pub(super) fn queueing(&self) -> TimeDelta {
        self.above_minimum(self.standing.get())
    }

    /// Whether the queue was nearly empty within the latest RTTs. `true` until that time has passed once.
    pub(super) fn was_nearly_empty(&self, config: &Config) -> bool {
        let watched = times(self.smoothed_rtt() + self.interval, config.empty_rtts);
        let is_known =
            self.first.is_some_and(|first| self.acknowledgements.latest().saturating_since(first) >= watched);
        let highest = self.above_minimum(self.highest.get());
        // Not below, but at most: both are zero while there is no queue at all.
        !is_known || self.above_minimum(self.lowest.get()) <= times(highest, config.nearly_empty)
    }

    fn rtt(&self, delay: Option<TimeDelta>) -> TimeDelta {
        (delay.unwrap_or_default() + self.acknowledgements.way_back()).max(SHORTEST)
    }

    fn above_minimum(&self, delay: Option<TimeDelta>) -> TimeDelta {
        let minimum = self.minimum.get().unwrap_or_default();
        delay.map_or(TimeDelta::ZERO, |delay| (delay - minimum).max(TimeDelta::ZERO))
    }
}

fn times(time: TimeDelta, factor: f64) -> TimeDelta {
    TimeDelta::from_seconds_f64(time.as_seconds() * factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ms, report};

    /// One packet each 10 ms with this queueing delay, 20 ms each way, the receiver's clock 1000 s ahead. A report each 50 ms.
    fn after(count: u64, queue: impl Fn(u64) -> u64) -> PathDelay {
        let (config, mut delay) = (Config::default(), PathDelay::default());
        let mut packets = Vec::new();
        for number in 0..count {
            packets.push(report(number, number * 10, Some(1_000_000 + number * 10 + 20 + queue(number))));
            if packets.len() == 5 {
                let last = packets.iter().filter_map(|packet| packet.arrival).max().unwrap();
                let now = Timestamp::from_nanos(last.as_nanos() - 1_000_000_000_000) + ms(20);
                assert!(delay.on_report(now, &config, TimeDelta::ZERO, &packets));
                for packet in packets.drain(..) {
                    let acked = delay.on_packet(now, &config, packet.sent.at, packet.arrival.unwrap());
                    // Its own acknowledgement, not the report; never before an earlier one.
                    assert!(
                        acked >= packet.sent.at + ms(40 + queue(packet.sent.sequence) as i64) && acked <= now
                    );
                }
            }
        }
        delay
    }

    #[test]
    fn the_interval_of_feedback_and_the_clocks_do_not_count() {
        let delay = after(100, |_| 0);
        assert_eq!((delay.min_rtt(), delay.standing_rtt()), (ms(40), Some(ms(40))));
        assert_eq!((delay.smoothed_rtt(), delay.queueing()), (ms(40), TimeDelta::ZERO));
        assert!(delay.was_nearly_empty(&Config::default()));
        assert_eq!(PathDelay::default().standing_rtt(), None);
    }

    #[test]
    fn the_standing_rtt_is_the_minimum_of_half_an_rtt() {
        // A single packet with less delay is remembered for half of 49 ms, a single one with more has no effect.
        for (low, expected) in [(99, 3), (98, 3), (97, 9), (95, 9)] {
            let queue = |number| if number == low { 3 } else { 9 };
            let delay = after(100, |number| if number < 50 { 0 } else { queue(number) });
            assert_eq!(delay.queueing(), ms(expected), "{low}");
        }
        assert_eq!(after(100, |number| if number == 98 { 50 } else { 9 }).queueing(), ms(0));
    }

    #[test]
    fn a_queue_that_never_empties_is_noticed_after_five_rtts() {
        let config = Config::default();
        // It varies between 20 and 40 ms: never below a tenth. An RTT of 70 ms, so 5 take 350 ms.
        let queue = |number: u64| if number < 20 { 0 } else { 20 + 20 * (number % 2) };
        assert!(after(45, queue).was_nearly_empty(&config));
        assert!(!after(65, queue).was_nearly_empty(&config));
        // Below a tenth of 40 ms once in that time.
        for (low, expected) in [(3, true), (5, false)] {
            let queue = |number: u64| match number {
                0..20 => 0,
                _ if number.is_multiple_of(20) => low,
                _ => 40,
            };
            assert_eq!(after(95, queue).was_nearly_empty(&config), expected, "{low} ms");
        }
    }
}
