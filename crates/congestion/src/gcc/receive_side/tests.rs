use proptest::prelude::*;

use super::*;
use crate::gcc::{delay::DelayConfig, rate::AimdConfig};
use crate::testing::at;

/// A path of constant rate with an unlimited queue, and a sender at constant packet intervals.
struct Path {
    capacity: DataRate,
    free_at: Timestamp,
    sent: Timestamp,
}

impl Path {
    fn new(capacity: DataRate) -> Self {
        Self { capacity, free_at: Timestamp::ZERO, sent: Timestamp::ZERO }
    }

    /// Sends at `rate` for the given time. Returns the estimates that were sent, with their times.
    fn send(
        &mut self,
        side: &mut ReceiveSide,
        rate: DataRate,
        time: TimeDelta,
    ) -> Vec<(Timestamp, DataRate)> {
        let size = DataSize::from_bytes(1250);
        let mut estimates = Vec::new();
        let end = self.sent + time;
        while self.sent < end {
            let begin = self.free_at.max(self.sent + TimeDelta::from_millis(20));
            self.free_at = begin + self.capacity.time_for(size).unwrap();
            side.on_packet(self.free_at, PeerTimestamp::from_nanos(self.sent.as_nanos()), size);
            estimates.extend(side.poll_estimate(self.free_at).map(|rate| (self.free_at, rate)));
            assert!(side.next_timeout().is_none_or(|due| due > self.free_at), "it is estimates, but due");
            self.sent += rate.time_for(size).unwrap();
        }
        estimates
    }
}

fn mbps(rate: f64) -> DataRate {
    DataRate::from_bps((rate * 1e6) as u64)
}

#[test]
fn overload_reduces_the_estimate_which_is_sent_at_once() {
    for aimd in [AimdConfig::libwebrtc(), AimdConfig::draft()] {
        let config = Config { aimd, ..Config::libwebrtc() };
        let mut side = ReceiveSide::new(config).unwrap();
        let mut path = Path::new(mbps(2.0));
        path.send(&mut side, mbps(1.8), TimeDelta::from_seconds(10));
        let before = side.estimate().unwrap();
        assert!(before > mbps(2.2) && before < mbps(2.8), "{before}");

        let overload = path.sent;
        let estimates = path.send(&mut side, mbps(3.0), TimeDelta::from_seconds(3));
        let (fell_at, fell) =
            *estimates.windows(2).find(|pair| pair[1].1 < pair[0].1).map(|pair| &pair[1]).unwrap();
        assert!(fell_at - overload < TimeDelta::from_millis(800), "{}", fell_at - overload);
        assert!(fell < mbps(1.9) && fell > mbps(0.9), "{fell}");
        let estimate = side.estimate().unwrap();
        assert!(estimate < mbps(2.0) && estimate > mbps(0.5), "{estimate}");
        let decision = side.decision();
        assert!(
            matches!(decision.cause, Cause::Delay { .. } | Cause::AcknowledgedRate { .. }),
            "{decision:?}"
        );
    }
}

#[test]
fn without_probes_the_first_estimate_comes_after_5_s() {
    let config = Config { probing_time: None, ..Config::libwebrtc() };
    let mut side = ReceiveSide::new(config).unwrap();
    let mut path = Path::new(mbps(20.0));
    assert_eq!(path.send(&mut side, mbps(1.0), TimeDelta::from_millis(4900)), []);
    assert_eq!((side.estimate(), side.next_timeout()), (None, None));
    let estimates = path.send(&mut side, mbps(1.0), TimeDelta::from_millis(400));
    let (first, rate) = estimates[0];
    assert!(first > at(5000) && first < at(5100), "{first}");
    assert!(rate > mbps(0.98) && rate < mbps(1.1), "{rate}");
}

/// By hand: five packets of 1250 bytes, sent every 4 ms (2.5 Mbit/s) and received every 5 ms (2 Mbit/s).
#[test]
fn a_probe_gives_the_minimum_of_sent_and_received_rate() {
    let mut side = ReceiveSide::new(Config::libwebrtc()).unwrap();
    let size = DataSize::from_bytes(1250);
    for packet in 0..5 {
        assert_eq!(side.estimate(), None);
        side.on_packet(at(50 + packet * 5), PeerTimestamp::from_nanos(packet * 4_000_000), size);
    }
    // The update after the probe adds 1 kbit/s.
    assert_eq!(side.estimate(), Some(mbps(2.001)));
    assert_eq!(side.decision().cause, Cause::Probe { rate_bps: 2e6 });
    assert_eq!(side.decision().to, mbps(2.001));
}

#[test]
fn unchanged_estimates_are_sent_each_second_others_in_200_ms() {
    let config = Config { start: Some(mbps(1.0)), probing_time: None, ..Config::libwebrtc() };
    let mut side = ReceiveSide::new(config).unwrap();
    assert_eq!(side.poll_estimate(at(10)), Some(mbps(1.0)));
    assert_eq!((side.next_timeout(), side.poll_estimate(at(1009))), (Some(at(1010)), None));
    assert_eq!(side.poll_estimate(at(1010)), Some(mbps(1.0)));
    let mut path = Path::new(mbps(20.0));
    path.sent = at(2000);
    let estimates = path.send(&mut side, mbps(1.0), TimeDelta::from_seconds(5));
    let gaps: Vec<_> = estimates.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_millis()).collect();
    assert!(gaps.len() > 15 && gaps.iter().all(|gap| (200.0..=420.0).contains(gap)), "{gaps:?}");
}

#[test]
fn invalid_constants_are_rejected() {
    let delay = DelayConfig { stream_timeout: TimeDelta::ZERO, ..DelayConfig::receive_side() };
    assert!(ReceiveSide::new(Config { delay, ..Config::libwebrtc() }).is_err());
}

#[test]
fn the_incoming_rate_starts_early_and_ends_with_its_window() {
    let mut rate = IncomingRate::new(TimeDelta::from_seconds(1));
    assert_eq!(rate.rate(at(0)), None);
    rate.on_packet(at(100), DataSize::from_bytes(1000));
    assert_eq!(rate.rate(at(500)), None);
    rate.on_packet(at(199), DataSize::from_bytes(250));
    // 1250 bytes in 100 ms.
    assert_eq!(rate.rate(at(199)), Some(DataRate::from_bps(100_000)));
    assert_eq!(rate.rate(at(1099)), Some(DataRate::from_bps(10_000)));
    assert_eq!(rate.rate(at(1100)), Some(DataRate::from_bps(2000)));
    assert_eq!(rate.rate(at(1199)), None);
}

proptest! {
    #[test]
    fn any_input_keeps_limits_and_deadlines(
        packets in prop::collection::vec((0_u64..10_000_000_000, any::<u64>(), 0_u64..100_000, 0_u8..8), 0..300),
        thesis: bool,
        rmcat_02: bool,
    ) {
        let aimd = if thesis { AimdConfig::thesis() } else { AimdConfig::libwebrtc() };
        let config = Config { aimd, rmcat_02, ..Config::libwebrtc() };
        let mut side = ReceiveSide::new(config).unwrap();
        let (mut now, mut sent) = (0, 0);
        for (time, wild, size, kind) in packets {
            match kind {
                0 => (now, sent) = (time, wild),
                1 => now = wild,
                _ => {
                    now = u64::saturating_add(now, time % 20_000_000);
                    sent = u64::saturating_add(sent, wild % 20_000_000);
                }
            }
            let now = Timestamp::from_nanos(now);
            let sent = Some(PeerTimestamp::from_nanos(sent)).filter(|_| kind != 3);
            side.on_packet(now, sent, DataSize::from_bytes(size));
            side.poll_estimate(now);
            prop_assert!(side.next_timeout().is_none_or(|due| due > now || due == Timestamp::MAX));
            if let Some(estimate) = side.estimate() {
                prop_assert!(estimate >= aimd.min && estimate <= aimd.max);
            }
        }
    }
}
