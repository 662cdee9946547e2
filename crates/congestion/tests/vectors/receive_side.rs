//! The cases of libwebrtc's `remote_bitrate_estimator_abs_send_time_unittest.cc`, with the numbers of
//! `remote_bitrate_estimator_unittest_helper.cc`; each test states the name of its cases.
//!
//! Not applicable here: `CapacityDropPosOffsetChange` and `CapacityDropNegOffsetChange` set the clock of the
//! arrival times 30 s forward and back, while ours is one monotonic clock; `RemoveStream` at the end of some
//! cases, as the estimator does not know streams; and the separate `Process()`, which does nothing.

use giusto_rtp::{AbsSendTime, AbsSendTimeUnwrapper};

use super::*;

const MTU: u64 = 1200;

/// Receiver with a clock, and what the sender's messages contain.
struct Bench {
    side: ReceiveSide,
    unwrapper: AbsSendTimeUnwrapper,
    /// In microseconds.
    clock: u64,
    /// The estimate, if the latest packet since the last reset has updated it.
    updated: Option<u64>,
    latest: u64,
}

impl Bench {
    fn new() -> Self {
        Self {
            side: ReceiveSide::new(Config::libwebrtc()).unwrap(),
            unwrapper: AbsSendTimeUnwrapper::new(),
            clock: 100_000_000,
            updated: None,
            latest: 0,
        }
    }

    fn advance_ms(&mut self, ms: u64) {
        self.clock += ms * 1000;
    }

    fn now_ms(&self) -> u64 {
        self.clock / 1000
    }

    /// A packet of `size` arrives at a time in milliseconds, sent at this abs-send-time.
    fn packet(&mut self, size: u64, arrival_ms: u64, sent: u32) {
        let bytes = (sent & 0x00ff_ffff).to_be_bytes();
        let sent = AbsSendTime::parse(&bytes[1..]).unwrap();
        // As the receiver of media does (`crates/session/src/media/receiver/estimate.rs`).
        let unwrapped = self.unwrapper.unwrap(sent).or_else(|| {
            self.unwrapper = AbsSendTimeUnwrapper::new();
            self.unwrapper.unwrap(sent)
        });
        let before = (self.side.looked, self.side.estimate());
        let now = Timestamp::from_nanos(arrival_ms * 1_000_000);
        self.side.on_packet(now, unwrapped.unwrap(), DataSize::from_bytes(size));
        let estimate = self.side.estimate();
        if let Some(estimate) = estimate.filter(|_| (self.side.looked, self.side.estimate()) != before) {
            self.latest = estimate.as_bps();
            self.updated = Some(self.latest);
        }
    }

    fn estimate(&self) -> u64 {
        self.side.estimate().map_or(0, DataRate::as_bps)
    }

    /// A frame of `streams` at `rate` passes a link of `capacity`, both in bit/s. Returns whether the
    /// estimate fell below the rate.
    fn frame(&mut self, streams: &mut Streams, rate: u64, capacity: u64) -> bool {
        streams.set_rate(rate);
        let (packets, next) = streams.frame(self.clock, capacity);
        let mut over_use = false;
        for (sent, arrival, size) in packets {
            self.updated = None;
            self.packet(size, (arrival + 500) / 1000, abs_send_time(sent, 1_000_000));
            over_use |= self.updated.is_some_and(|estimate| estimate < rate);
        }
        self.clock = next;
        over_use
    }
}

/// The abs-send-time of `time / denominator` seconds.
fn abs_send_time(time: u64, denominator: u64) -> u32 {
    ((((time << 18) + (denominator >> 1)) / denominator) & 0x00ff_ffff) as u32
}

/// Streams of 30 frames per second over one link, in microseconds.
struct Streams {
    /// Rate in bit/s, and the time of the next frame.
    streams: Vec<(u64, u64)>,
    arrived: u64,
}

impl Streams {
    fn new(rates: Vec<u64>) -> Self {
        Self { streams: rates.into_iter().map(|rate| (rate, 0)).collect(), arrived: 100_000_000 }
    }

    /// Divides `rate` in the present ratio.
    fn set_rate(&mut self, rate: u64) {
        let before: u64 = self.streams.iter().map(|(rate, _)| rate).sum();
        let (mut sum, mut done) = (0, 0);
        for (own, _) in &mut self.streams {
            sum += *own;
            let share = (sum * rate + before / 2) / before;
            *own = share - done;
            done = share;
        }
    }

    /// The packets of the next frame (send time, arrival, size), and the time of the frame after.
    fn frame(&mut self, now: u64, capacity: u64) -> (Vec<(u64, u64, u64)>, u64) {
        let mut packets = Vec::new();
        let (rate, due) = self.streams.iter_mut().min_by_key(|(_, due)| *due).unwrap();
        if now >= *due {
            let bits = (*rate + 15) / 30;
            let count = ((bits + 4 * MTU) / (8 * MTU)).max(1);
            let size = (bits + 4 * count) / (8 * count);
            *due = now + (1_000_000 + 15) / 30;
            let bits_per_ms = capacity / 1000;
            let time = (8 * 1000 * size + bits_per_ms / 2) / bits_per_ms;
            for _ in 0..count {
                self.arrived = self.arrived.max(now) + time;
                packets.push((now + 1_000_000, self.arrived, size));
            }
        }
        let next = self.streams.iter().map(|&(_, due)| due).min().unwrap();
        (packets, next.max(now))
    }
}

/// Sends 253 packets of 1200 bytes at 50 per second. Returns the next abs-send-time.
fn five_seconds(bench: &mut Bench) -> u32 {
    let mut sent = 0;
    for packet in 0..253 {
        if packet == 2 {
            assert_eq!((bench.estimate(), bench.updated), (0, None));
        }
        bench.packet(MTU, bench.now_ms(), sent);
        bench.advance_ms(20);
        sent += abs_send_time(1, 50);
    }
    sent
}

#[test]
fn a_constant_rate_gives_the_published_estimate() {
    // InitialBehavior
    let mut bench = Bench::new();
    bench.advance_ms(2000);
    five_seconds(&mut bench);
    assert!(bench.updated.is_some() && bench.latest == bench.estimate());
    assert!(bench.estimate().abs_diff(674_840) <= 50_000, "{}", bench.estimate());
}

#[test]
fn reordering_does_not_change_the_estimate() {
    // RateIncreaseReordering
    let mut bench = Bench::new();
    let mut sent = five_seconds(&mut bench);
    assert!(bench.latest.abs_diff(674_840) <= 50_000, "{}", bench.latest);
    for _ in 0..10 {
        bench.advance_ms(40);
        sent += 2 * abs_send_time(1, 50);
        bench.packet(1000, bench.now_ms(), sent);
        bench.packet(1000, bench.now_ms(), sent - abs_send_time(1, 50));
    }
    assert!(bench.latest.abs_diff(674_840) <= 50_000, "{}", bench.latest);
}

#[test]
fn an_increase_takes_the_published_number_of_frames() {
    // RateIncreaseRtpTimestamps: 500 kbit/s after exactly 1237 frames, from 30 kbit/s.
    let mut bench = Bench::new();
    let mut streams = Streams::new(vec![300_000]);
    let (mut rate, mut frames) = (30_000, 0);
    while rate < 500_000 {
        let over_use = bench.frame(&mut streams, rate, 1_000_000);
        assert!(!over_use || bench.latest > rate);
        if let Some(estimate) = bench.updated.take() {
            rate = estimate;
        }
        frames += 1;
        assert!(frames < 2000, "{rate}");
    }
    assert_eq!(frames, 1237);
}

/// 0.9 Mbit/s over a link of 1 Mbit/s, in some streams. Then the link falls to 0.5 Mbit/s. Returns the time in
/// milliseconds until the estimate is below that.
fn drop_time(count: u64) -> u64 {
    let mut bench = Bench::new();
    let rates = match count {
        1 => vec![300_000],
        // The first stream has half of the rate, the others the rest in the ratio 1, 2, 3, ….
        _ => (0..count)
            .map(|i| {
                let denominator = count * (count - 1);
                if i == 0 { 450_000 } else { (900_000 * i + denominator / 2) / denominator }
            })
            .collect(),
    };
    let mut streams = Streams::new(rates);
    let (mut rate, mut seen) = (900_000, false);
    let seconds = if count == 1 { 10 } else { 10 * count };
    for _ in 0..seconds * 30 {
        if bench.frame(&mut streams, rate, 1_000_000) {
            assert!((800_001..1_100_000).contains(&bench.latest), "{}", bench.latest);
            (rate, seen) = (bench.latest, true);
        } else if let Some(estimate) = bench.updated.take() {
            rate = estimate;
        }
        if seen && rate > 1_000_000 {
            break;
        }
    }
    assert!(seen && (850_000..=1_050_000).contains(&rate), "{rate}");
    bench.updated = None;
    let start = bench.now_ms();
    let mut fell = None;
    for _ in 0..100 * count {
        bench.frame(&mut streams, rate, 500_000);
        if fell.is_none() && bench.latest <= 500_000 {
            fell = Some(bench.now_ms() - start);
        }
        if let Some(estimate) = bench.updated {
            rate = estimate;
        }
    }
    assert_eq!(bench.estimate(), rate);
    fell.unwrap()
}

#[test]
fn half_the_capacity_is_noticed_in_the_published_time() {
    // CapacityDropOneStream, CapacityDropOneStreamWrap and CapacityDrop{Two, Three, Thirteen, Nineteen,
    // Thirty}StreamsWrap: within 33 ms. RTP timestamps, which wrap in these cases, play no part.
    for (count, expected) in [(1, 633), (2, 700), (3, 633), (13, 667), (19, 667), (30, 667)] {
        let found = drop_time(count);
        assert!(found.abs_diff(expected) <= 33, "{count} streams: {found} ms, published {expected}");
    }
}

#[test]
fn bursts_with_nearly_equal_send_times_are_grouped() {
    // TestTimestampGrouping: the send times wrap within the test.
    let mut bench = Bench::new();
    let frame = abs_send_time(1, 50);
    let mut sent = 0_u32.wrapping_sub(50 * frame);
    for _ in 0..=300 {
        bench.packet(1000, bench.now_ms(), sent);
        bench.advance_ms(20);
        sent = sent.wrapping_add(frame);
    }
    assert!(bench.updated.is_some() && bench.latest >= 400_000, "{}", bench.latest);
    for _ in 0..100 {
        for _ in 0..15 {
            bench.packet(100, bench.now_ms(), sent);
            bench.advance_ms(1);
            sent = sent.wrapping_add(abs_send_time(1, 90_000));
        }
        bench.advance_ms(10);
        sent = sent.wrapping_add(frame).wrapping_sub(abs_send_time(15, 90_000));
    }
    assert!(bench.latest < 400_000, "{}", bench.latest);
}

#[test]
fn after_a_pause_the_estimate_falls_for_a_slower_stream() {
    // TestShortTimeoutAndWrap, TestLongTimeoutAndWrap
    for silence in [35, 640] {
        let mut bench = Bench::new();
        let mut sent = 0_u32;
        for _ in 0..3000 {
            bench.packet(1000, bench.now_ms(), sent);
            bench.advance_ms(10);
            sent = sent.wrapping_add(abs_send_time(1, 100));
        }
        let before = bench.estimate();
        bench.advance_ms(silence * 1000);
        sent = sent.wrapping_add(abs_send_time(silence, 1));
        for _ in 0..21 {
            bench.packet(1000, bench.now_ms(), sent);
            bench.advance_ms(20);
            sent = sent.wrapping_add(abs_send_time(1, 100));
        }
        assert!(before > 0 && bench.estimate() < before, "{silence} s: {before} {}", bench.estimate());
    }
}

/// Sends packets, each `(size, time to the next arrival in ms, send interval in ms)`. Returns the estimate.
fn probe(packets: &[(u64, u64, u64)]) -> Option<u64> {
    let mut bench = Bench::new();
    let mut sent = 0;
    for &(size, arrival, interval) in packets {
        bench.advance_ms(arrival);
        sent += interval;
        bench.packet(size, bench.now_ms(), abs_send_time(sent, 1000));
    }
    bench.updated
}

#[test]
fn probes_give_the_published_rates() {
    let near = |found: Option<u64>, expected: u64| {
        assert!(found.is_some_and(|found| found.abs_diff(expected) <= 10_000), "{found:?} {expected}");
    };
    // TestProbeDetection: 800, then 1600 kbit/s.
    let found = probe(&[[(1000, 10, 10); 5], [(1000, 5, 5); 5]].concat());
    assert!(found.is_some_and(|rate| (1_500_001..=1_700_000).contains(&rate)), "{found:?}");
    // TestProbeDetectionNonPacedPackets: a packet of 100 bytes after each. The update after the probe adds 1 kbit/s.
    let found = probe(&[[(1000, 5, 10), (100, 5, 0)]; 5].concat());
    assert!(found.is_some_and(|rate| (800_001..=810_000).contains(&rate)), "{found:?}");
    // TestProbeDetectionTooHighBitrate: the second probe is spread on its way.
    near(probe(&[[(1000, 10, 10); 5], [(1000, 8, 5); 5]].concat()), 800_000);
    // TestProbeDetectionSlightlyFasterArrival: faster by exactly the permitted 5 ms.
    let found = probe(&[(1000, 5, 10); 5]);
    assert!(found.is_some_and(|rate| (800_001..=810_000).contains(&rate)), "{found:?}");
    // TestProbeDetectionFasterArrival
    assert_eq!(probe(&[(1000, 1, 10); 5]), None);
    // TestProbeDetectionSlowerArrival
    near(probe(&[(1000, 7, 5); 5]), 1_140_000);
    // TestProbeDetectionSlowerArrivalHighBitrate: sent at exactly the minimum interval of 1 ms.
    near(probe(&[(1000, 2, 1); 5]), 4_000_000);
    // ProbingIgnoresSmallPackets
    assert_eq!(probe(&[(200, 10, 10); 5]), None);
    near(probe(&[[(200, 10, 10); 5], [(1000, 10, 10); 5]].concat()), 800_000);
}

#[test]
fn nothing_is_due_after_a_timeout() {
    // TestProcessAfterTimeout
    let mut bench = Bench::new();
    bench.packet(1000, bench.now_ms(), 0);
    for ms in [2001, 1000] {
        bench.advance_ms(ms);
        assert_eq!(bench.side.poll_estimate(Timestamp::from_nanos(bench.clock * 1000)), None);
    }
}
