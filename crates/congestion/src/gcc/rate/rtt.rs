//! Reduces the rate while the RTT is above its limit.

use giusto_units::{DataRate, PeerTimestamp, TimeDelta, Timestamp};

use crate::gcc::arithmetic::{Forward, scaled};
use crate::{
    feedback::PacketReport,
    target::{Cause, Decision},
};

giusto_units::defaults! {
    /// Reaction to a high RTT or missing feedback. The defaults are libwebrtc's
    /// (`goog_cc/send_side_bandwidth_estimation.cc`).
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct RttConfig {
        /// RTT above which the rate is reduced. Default 3 s.
        pub limit: TimeDelta = TimeDelta::from_seconds(3),
        /// Factor on the rate per step. Default 0.8.
        pub factor: f64 = 0.8,
        /// Interval between two steps. Default 1 s.
        pub interval: TimeDelta = TimeDelta::from_seconds(1),
        /// Minimum rate after a step. Default 5 kbit/s.
        pub floor: DataRate = DataRate::from_bps(5000),
    }
}

/// Reduces the rate step by step while the RTT is above its limit, or while packets are sent without
/// feedback.
///
/// The RTT is that of the last feedback plus the time for which packets have been sent since. While nothing
/// is sent, no feedback is missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct RttBackOff {
    config: RttConfig,
    clock: Forward,
    rtt: TimeDelta,
    /// Time of the last feedback; initially the time of the first packet.
    feedback_at: Option<Timestamp>,
    sent: Timestamp,
    lowered: Option<Timestamp>,
}

impl RttBackOff {
    /// A controller before the first packet.
    pub(crate) fn new(config: RttConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Sets the minimum rate after a step.
    pub(crate) fn set_floor(&mut self, floor: DataRate) {
        self.config.floor = floor;
    }

    /// Handles a sent packet.
    pub(crate) fn on_sent(&mut self, now: Timestamp) {
        let (now, last) = (self.clock.clamp(now), self.sent);
        // After a long pause it restarts: nothing was sent, so no feedback is missing.
        if self.feedback_at.is_none() || now - last > self.config.limit {
            self.feedback_at = Some(now);
        }
        self.sent = now;
    }

    /// Handles feedback with this RTT; see [`propagation`].
    pub(crate) fn on_rtt(&mut self, now: Timestamp, rtt: TimeDelta) {
        self.feedback_at = Some(self.clock.clamp(now));
        self.rtt = rtt.max(TimeDelta::ZERO);
    }

    /// Another part has reduced the rate: the next step comes a full interval later.
    pub(crate) fn on_decrease(&mut self, now: Timestamp) {
        self.lowered = Some(self.clock.clamp(now));
    }

    /// The RTT, including the time without feedback.
    pub(crate) fn rtt(&self) -> TimeDelta {
        self.rtt
            + self.feedback_at.map_or(TimeDelta::ZERO, |feedback_at| self.sent.saturating_since(feedback_at))
    }

    /// Whether the RTT is above its limit: then the rate may not increase, and no probe may be sent.
    pub(crate) fn is_too_long(&self) -> bool {
        self.rtt() > self.config.limit
    }

    /// The rate reduced by a step, if one is due.
    pub(crate) fn update(&mut self, now: Timestamp, rate: DataRate) -> Option<Decision> {
        let now = self.clock.clamp(now);
        let due = self.lowered.is_none_or(|lowered| now - lowered >= self.config.interval);
        if !self.is_too_long() || !due {
            return None;
        }
        // Also at the minimum: otherwise the next step would stay due for ever.
        self.lowered = Some(now);
        if rate <= self.config.floor {
            return None;
        }
        let to = scaled(rate, self.config.factor).max(self.config.floor).min(rate);
        Some(Decision { at: now, from: rate, to, cause: Cause::Rtt })
    }

    /// Time at which [`update`](Self::update) may have a step; `None` while the RTT is below its limit.
    pub(crate) fn next_timeout(&self) -> Option<Timestamp> {
        let due = self.lowered.map_or(self.sent, |lowered| lowered + self.config.interval);
        self.is_too_long().then_some(due)
    }
}

/// RTT of the path alone. Over the packets of a feedback message: the minimum time from sending to `now`,
/// minus the delay of the report at the receiver (the time from the packet's arrival to the last packet's
/// arrival). `None` if no packet arrived.
pub(crate) fn propagation(now: Timestamp, packets: &[PacketReport]) -> Option<TimeDelta> {
    propagation_of(now, packets.iter().filter_map(|report| Some((report.sent.at, report.arrival?))))
}

/// [`propagation`] of packets by their send and arrival times.
pub(in crate::gcc) fn propagation_of(
    now: Timestamp,
    packets: impl Iterator<Item = (Timestamp, PeerTimestamp)> + Clone,
) -> Option<TimeDelta> {
    let last = packets.clone().map(|(_, arrival)| arrival).max()?;
    let times = packets.map(|(sent, arrival)| (now - sent) - (last - arrival));
    times.min().map(|time| time.max(TimeDelta::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, ms, report};

    const RATE: DataRate = DataRate::from_bps(100_000);

    #[test]
    fn an_rtt_of_3_s_is_tolerated_and_not_more() {
        let mut back_off = RttBackOff::default();
        back_off.on_sent(at(0));
        back_off.on_rtt(at(100), ms(3000));
        assert_eq!(back_off.update(at(100), RATE), None);
        assert_eq!(back_off.next_timeout(), None);
        back_off.on_rtt(at(200), ms(3001));
        let decision = back_off.update(at(200), RATE).unwrap();
        assert_eq!((decision.from, decision.to), (RATE, DataRate::from_bps(80_000)));
        assert_eq!(decision.cause, Cause::Rtt);
    }

    #[test]
    fn each_second_reduces_the_rate_by_20_percent_to_the_floor() {
        let mut back_off = RttBackOff::default();
        back_off.on_sent(at(0));
        back_off.on_rtt(at(0), ms(5000));
        let mut rate = RATE;
        let mut rates = Vec::new();
        for now in (0..30_000).step_by(100) {
            if let Some(decision) = back_off.update(at(now), rate) {
                assert_eq!(now % 1000, 0, "not before a second is over");
                rate = decision.to;
                rates.push(rate.as_bps());
                assert_eq!(back_off.next_timeout(), Some(at(now + 1000)));
            }
        }
        // By hand: 100 · 0.8ⁿ kbit/s is below 5 at n = 14.
        assert_eq!(rates.len(), 14);
        assert_eq!(rates[..3], [80_000, 64_000, 51_200]);
        assert_eq!(rates[13], 5000);
        assert!(back_off.next_timeout() > Some(at(29_900)), "no step is due for ever");
    }

    #[test]
    fn a_decrease_by_another_part_delays_the_step() {
        let mut back_off = RttBackOff::default();
        back_off.on_rtt(at(0), ms(5000));
        back_off.on_decrease(at(500));
        assert_eq!(back_off.update(at(1499), RATE), None);
        assert!(back_off.update(at(1500), RATE).is_some());
    }

    #[test]
    fn missing_feedback_counts_only_while_packets_are_sent() {
        let mut back_off = RttBackOff::default();
        back_off.on_sent(at(1000));
        assert_eq!(back_off.clone().update(at(60_000), RATE), None);
        back_off.on_sent(at(4000));
        assert!(!back_off.is_too_long());
        back_off.on_sent(at(4001));
        assert!(back_off.is_too_long());
        back_off.on_rtt(at(4002), ms(50));
        assert!(!back_off.is_too_long());
        // Time that runs backwards does not count as missing feedback.
        back_off.on_sent(at(0));
        assert_eq!(back_off.rtt(), ms(50));
    }

    #[test]
    fn the_receivers_report_delay_does_not_count() {
        // 110 − 0 ms, of which 60 ms the report was delayed at the receiver for the second packet; the second
        // took 110 − 45 ms.
        let packets = [report(0, 0, Some(1020)), report(1, 20, None), report(2, 45, Some(1080))];
        assert_eq!(propagation(at(110), &packets), Some(ms(50)));
        assert_eq!(propagation(at(110), &packets[1..2]), None);
    }
}
