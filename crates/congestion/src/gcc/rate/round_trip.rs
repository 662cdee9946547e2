//! Is the round trip too long to go on?

use giusto_units::{DataRate, TimeDelta, Timestamp};

use crate::gcc::arithmetic::{Forward, scaled};
use crate::{
    feedback::PacketReport,
    target::{Cause, Decision},
};

/// What is settable of [`RoundTripBackOff`]. The defaults are libwebrtc's (`goog_cc/send_side_bandwidth_estimation.cc`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundTripConfig {
    /// A round trip above this is too long. Default 3 s.
    pub limit: TimeDelta,
    /// What one step leaves of the rate. Default 0.8.
    pub factor: f64,
    /// The time between two steps. Default 1 s.
    pub interval: TimeDelta,
    /// No step goes below this. Default 5 kbit/s.
    pub floor: DataRate,
}

impl Default for RoundTripConfig {
    fn default() -> Self {
        Self {
            limit: TimeDelta::from_seconds(3),
            factor: 0.8,
            interval: TimeDelta::from_seconds(1),
            floor: DataRate::from_bps(5000),
        }
    }
}

/// Lowers the rate step by step while the round trip is too long, or while packets leave and nothing comes back.
///
/// The round trip is taken as what the last feedback showed, and as much longer as sending has gone on since. When nothing is
/// sent, nothing is missed.
#[derive(Debug, Clone)]
pub struct RoundTripBackOff {
    config: RoundTripConfig,
    clock: Forward,
    round_trip: TimeDelta,
    /// When feedback last came; at first, when the first packet left.
    heard: Option<Timestamp>,
    sent: Timestamp,
    lowered: Option<Timestamp>,
}

impl RoundTripBackOff {
    /// With nothing sent yet.
    pub fn new(config: RoundTripConfig) -> Self {
        Self {
            config,
            clock: Forward::default(),
            round_trip: TimeDelta::ZERO,
            heard: None,
            sent: Timestamp::ZERO,
            lowered: None,
        }
    }

    /// Sets the rate below which no step goes.
    pub fn set_floor(&mut self, floor: DataRate) {
        self.config.floor = floor;
    }

    /// A packet left.
    pub fn on_sent(&mut self, now: Timestamp) {
        let (now, last) = (self.clock.clamp(now), self.sent);
        // What follows a long pause begins anew: nothing was sent, so nothing is missed.
        if self.heard.is_none() || now - last > self.config.limit {
            self.heard = Some(now);
        }
        self.sent = now;
    }

    /// Feedback came that shows this `round_trip`; see [`propagation`].
    pub fn on_round_trip(&mut self, now: Timestamp, round_trip: TimeDelta) {
        self.heard = Some(self.clock.clamp(now));
        self.round_trip = round_trip.max(TimeDelta::ZERO);
    }

    /// Another part has lowered the rate: the next step waits for a whole interval from here.
    pub fn on_decrease(&mut self, now: Timestamp) {
        self.lowered = Some(self.clock.clamp(now));
    }

    /// The round trip, with the time that nothing came back.
    pub fn round_trip(&self) -> TimeDelta {
        self.round_trip + self.heard.map_or(TimeDelta::ZERO, |heard| self.sent.saturating_since(heard))
    }

    /// Whether it is too long: then the rate may not rise, and no probe may be sent.
    pub fn is_too_long(&self) -> bool {
        self.round_trip() > self.config.limit
    }

    /// A step down from `rate`, if one is due.
    pub fn update(&mut self, now: Timestamp, rate: DataRate) -> Option<Decision> {
        let now = self.clock.clamp(now);
        let due = self.lowered.is_none_or(|lowered| now - lowered >= self.config.interval);
        if !self.is_too_long() || !due {
            return None;
        }
        // At the floor too: otherwise the next step would stay due for ever.
        self.lowered = Some(now);
        if rate <= self.config.floor {
            return None;
        }
        let to = scaled(rate, self.config.factor).max(self.config.floor).min(rate);
        Some(Decision { at: now, from: rate, to, cause: Cause::RoundTrip })
    }

    /// When [`update`](Self::update) may have a step to tell; `None` while the round trip is short enough.
    pub fn next_timeout(&self) -> Option<Timestamp> {
        let due = self.lowered.map_or(self.sent, |lowered| lowered + self.config.interval);
        self.is_too_long().then_some(due)
    }
}

impl Default for RoundTripBackOff {
    fn default() -> Self {
        Self::new(RoundTripConfig::default())
    }
}

/// The round trip of the path alone: of the packets that one feedback message reports, the least time from sending to `now`, less the
/// time that the receiver held its report back, which is the time from the packet's arrival to the last one's. `None` if nothing
/// arrived.
pub fn propagation(now: Timestamp, packets: &[PacketReport]) -> Option<TimeDelta> {
    let last = packets.iter().filter_map(|report| report.arrival).max()?;
    let times = packets.iter().filter_map(|report| Some((now - report.sent.at) - (last - report.arrival?)));
    times.min().map(|time| time.max(TimeDelta::ZERO))
}

#[cfg(test)]
mod tests {
    use giusto_units::{DataSize, Ecn, PeerTimestamp};

    use super::*;
    use crate::feedback::SentPacket;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn ms(ms: i64) -> TimeDelta {
        TimeDelta::from_millis(ms)
    }

    const RATE: DataRate = DataRate::from_bps(100_000);

    #[test]
    fn three_seconds_are_borne_and_a_little_more_is_not() {
        let mut back_off = RoundTripBackOff::default();
        back_off.on_sent(at(0));
        back_off.on_round_trip(at(100), ms(3000));
        assert_eq!(back_off.update(at(100), RATE), None);
        assert_eq!(back_off.next_timeout(), None);
        back_off.on_round_trip(at(200), ms(3001));
        let decision = back_off.update(at(200), RATE).unwrap();
        assert_eq!((decision.from, decision.to), (RATE, DataRate::from_bps(80_000)));
        assert_eq!(decision.cause, Cause::RoundTrip);
    }

    #[test]
    fn each_second_takes_a_fifth_down_to_the_floor() {
        let mut back_off = RoundTripBackOff::default();
        back_off.on_sent(at(0));
        back_off.on_round_trip(at(0), ms(5000));
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
    fn what_another_part_took_delays_the_step() {
        let mut back_off = RoundTripBackOff::default();
        back_off.on_round_trip(at(0), ms(5000));
        back_off.on_decrease(at(500));
        assert_eq!(back_off.update(at(1499), RATE), None);
        assert!(back_off.update(at(1500), RATE).is_some());
    }

    #[test]
    fn silence_counts_only_while_packets_leave() {
        let mut back_off = RoundTripBackOff::default();
        back_off.on_sent(at(1000));
        assert_eq!(back_off.clone().update(at(60_000), RATE), None);
        back_off.on_sent(at(4000));
        assert!(!back_off.is_too_long());
        back_off.on_sent(at(4001));
        assert!(back_off.is_too_long());
        back_off.on_round_trip(at(4002), ms(50));
        assert!(!back_off.is_too_long());
        // A clock that goes back is no silence.
        back_off.on_sent(at(0));
        assert_eq!(back_off.round_trip(), ms(50));
    }

    #[test]
    fn the_receivers_own_delay_is_not_the_paths() {
        let report = |sent, arrival: Option<u64>| PacketReport {
            sent: SentPacket {
                sequence: 0,
                at: at(sent),
                size: DataSize::ZERO,
                probe: None,
                in_flight: DataSize::ZERO,
            },
            arrival: arrival.map(|ms| PeerTimestamp::from_nanos(ms * 1_000_000)),
            ecn: Ecn::NotEct,
        };
        // 110 − 0 ms, of which 60 were waited for the second; the second took 110 − 45.
        let packets = [report(0, Some(1020)), report(20, None), report(45, Some(1080))];
        assert_eq!(propagation(at(110), &packets), Some(ms(50)));
        assert_eq!(propagation(at(110), &packets[1..2]), None);
    }
}
