use proptest::prelude::*;

use super::*;
use crate::{
    control::{Cause, SentPacket},
    ecn::Ecn,
    units::DataSize,
};

fn estimator(config: DelayConfig) -> DelayEstimator {
    DelayEstimator::new(config).unwrap()
}

fn presets() -> [DelayConfig; 4] {
    [
        DelayConfig::libwebrtc(),
        DelayConfig::draft_02(),
        DelayConfig::draft_02_amplified(),
        DelayConfig::receive_side(),
    ]
}

fn packet(sent_us: u64, arrival_us: u64) -> ReceivedPacket {
    ReceivedPacket {
        sent: Timestamp::from_nanos(sent_us * 1_000),
        arrival: PeerTimestamp::from_nanos(arrival_us * 1_000),
        size: DataSize::from_bytes(1200),
    }
}

fn report(sequence: u64, sent_us: u64, arrival_us: Option<u64>) -> PacketReport {
    let size = DataSize::from_bytes(1200);
    let at = Timestamp::from_nanos(sent_us * 1_000);
    PacketReport {
        sent: SentPacket { sequence, at, size, probe: None, in_flight: size },
        arrival: arrival_us.map(|micros| PeerTimestamp::from_nanos(micros * 1_000)),
        ecn: Ecn::NotEct,
    }
}

/// libwebrtc, `trendline_estimator_unittest.cc`: 25 packets sent each 20 ms and received 0 or 10 % slower or 15 % faster,
/// at whole milliseconds. It differs at most once from normal.
#[test]
fn the_trend_line_signals_as_libwebrtc_publishes() {
    let cases = [(20.0, Signal::Normal), (1.1 * 20.0, Signal::OverUse), (0.85 * 20.0, Signal::UnderUse)];
    for (apart_ms, expected) in cases {
        let mut filter = TrendLine::new(TrendLineConfig::default());
        let mut detector = Detector::new(DetectorConfig::libwebrtc());
        let arrival = |index: i32| (987_654_321.0 + apart_ms * f64::from(index)) as i64;
        let mut signals = Vec::new();
        for index in 1..25 {
            let at = PeerTimestamp::from_nanos(arrival(index) as u64 * 1_000_000);
            let departure = TimeDelta::from_millis(20);
            let arrival = TimeDelta::from_millis(arrival(index) - arrival(index - 1));
            let delta = GroupDelta { departure, arrival, size_bytes: 0, arrived_at: at, closed_at: at };
            signals.push(detector.on_output(filter.on_delta(&delta), departure, at));
        }
        signals.dedup();
        let published =
            if expected == Signal::Normal { vec![expected] } else { vec![Signal::Normal, expected] };
        assert_eq!(signals, published, "{apart_ms} ms apart");
    }
}

/// The generator of libwebrtc's tests: xorshift64* of Vigna and the transform of Box and Muller.
struct Gaussian(u64);

impl Gaussian {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(2_685_821_657_736_338_717) as f64 / u64::MAX as f64
    }

    fn next(&mut self, deviation: f64) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        deviation * radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// One of the published cases: packets per frame, frame interval, drift per frame and deviation in ms.
type Case = (u32, i64, i64, f64);

/// Frames as `overuse_detector_unittest.cc` has them: 100 000 without drift, and then until over-use. How often over-use
/// began in the former, and after how many frames of the latter.
fn over_uses((packets, interval, drift, deviation): Case) -> (u32, Option<i32>) {
    let mut estimator = estimator(DelayConfig::receive_side());
    let mut random = Gaussian(123_456_789);
    let (mut sent, mut now, mut received) = (10_i64, 0_i64, 0_i64);
    let mut frame = |drift: i64| {
        for _ in 0..packets {
            let at = Timestamp::from_nanos(received as u64 * 1_000_000);
            estimator.on_packet(at, packet(sent as u64 * 1_000, received as u64 * 1_000));
        }
        sent += interval;
        now += interval + drift;
        received = received.max(now + (random.next(deviation) + 0.5) as i64);
        estimator.signal() == Signal::OverUse
    };
    let (mut begun, mut was_over) = (0, false);
    for _ in 0..100_000 {
        let is_over = frame(0);
        begun += u32::from(is_over && !was_over);
        was_over = is_over;
    }
    (begun, (1..=1000).find(|_| frame(drift)))
}

/// libwebrtc, `overuse_detector_unittest.cc`: the numbers of frames until over-use, none before.
#[test]
fn the_two_state_filter_takes_as_many_slow_frames_as_libwebrtc_publishes() {
    let cases: [(Case, i32); 10] = [
        ((6, 33, 1, 0.0), 7),
        ((1, 100, 1, 0.0), 7),
        ((1, 333, 1, 3.0), 20),
        ((1, 333, 100, 3.0), 4),
        ((1, 333, 1, 10.0), 44),
        ((1, 333, 100, 10.0), 4),
        ((2, 200, 1, 3.0), 20),
        ((2, 200, 1, 10.0), 44),
        ((1, 100, 1, 3.0), 20),
        ((1, 100, 1, 10.0), 44),
    ];
    for (case, frames) in cases {
        assert_eq!(over_uses(case), (0, Some(frames)), "{case:?}");
    }
}

#[test]
fn and_at_thirty_frames_per_second() {
    let cases: [(Case, i32); 8] = [
        ((1, 33, 1, 3.0), 19),
        ((1, 33, 10, 3.0), 5),
        ((1, 33, 1, 10.0), 44),
        ((1, 33, 10, 10.0), 10),
        ((6, 33, 1, 3.0), 19),
        ((6, 33, 10, 3.0), 5),
        ((6, 33, 1, 10.0), 44),
        ((6, 33, 10, 10.0), 10),
    ];
    for (case, frames) in cases {
        assert_eq!(over_uses(case), (0, Some(frames)), "{case:?}");
    }
}

/// libwebrtc, `overuse_detector_unittest.cc`, `SimpleNonOveruse*`: constant, or 5 ms of jitter on arrivals or departures.
#[test]
fn alternating_jitter_is_normal_as_libwebrtc_publishes() {
    for (interval, sent_jitter, arrival_jitter) in [(33, 0, 0), (10, 0, 5), (10, 5, 0)] {
        let mut estimator = estimator(DelayConfig::receive_side());
        for index in 0..1000_u64 {
            let odd = index % 2;
            let sent = 10 + interval * index + sent_jitter * odd;
            let arrival = interval * index + arrival_jitter * odd;
            let now = Timestamp::from_nanos(arrival * 1_000_000);
            assert_eq!(estimator.on_packet(now, packet(sent * 1_000, arrival * 1_000)), Signal::Normal);
        }
    }
}

/// Groups of one packet over a link that takes `1 + overload` times the interval for each: the queue that the filter has
/// seen when over-use is first signalled, in milliseconds, within `seconds`.
fn queue_at_over_use(
    config: DelayConfig,
    interval_us: u64,
    overload_percent: u64,
    seconds: u64,
) -> Option<f64> {
    let mut estimator = estimator(config);
    (0..seconds * 1_000_000 / interval_us).find_map(|index| {
        let sent = index * interval_us;
        let arrival = sent + sent * overload_percent / 100;
        let signal = estimator.on_packet(Timestamp::from_nanos(arrival * 1_000), packet(sent, arrival));
        let queue_ms = f64::from(estimator.output().samples) * (interval_us * overload_percent) as f64 / 1e5;
        (signal == Signal::OverUse).then_some(queue_ms)
    })
}

const INTERVALS_US: [u64; 4] = [10_000, 16_667, 20_000, 33_333];

#[test]
fn explore() {
    for config in presets() {
        for percent in [1, 2, 5, 10, 15, 20, 25, 40, 50, 100] {
            let row: Vec<_> =
                INTERVALS_US.iter().map(|&us| queue_at_over_use(config, us, percent, 300)).collect();
            println!("{percent} {row:?}");
        }
        println!();
    }
}
