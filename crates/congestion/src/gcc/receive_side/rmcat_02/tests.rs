//! Replays packets that were also given to libwebrtc of April 2014, and small cases by hand.

use super::*;
use crate::testing::{at, near, peer_at};

/// What the code of that time estimated of the same packets: case, time in ms, bit/s.
const RECORDED: &str = include_str!("../../../../tests/vectors/rmcat_02.csv");

const SIZE: DataSize = DataSize::from_bytes(1000);

/// Steps of the estimate's arithmetic: it had single precision there, and here double.
const SINGLE_PRECISION: f64 = 1e-4;

/// A sender of 30 frames per second and a link, in whole milliseconds as the code of that time needs them.
struct Case {
    name: &'static str,
    seconds: u64,
    /// At a time in ms, in kbit/s; 0: no frame.
    rate: fn(u64) -> u64,
    capacity: fn(u64) -> u64,
    jitter_ms: u64,
}

const CASES: [Case; 4] = [
    Case { name: "steady", seconds: 40, rate: |_| 500, capacity: |_| 2000, jitter_ms: 2 },
    Case { name: "ramp", seconds: 60, rate: |ms| 200 + ms * 1400 / 60_000, capacity: |_| 1000, jitter_ms: 5 },
    Case {
        name: "dip and pause",
        seconds: 60,
        rate: |ms| if (30_000..33_500).contains(&ms) { 0 } else { 600 },
        capacity: |ms| if (10_000..12_000).contains(&ms) { 400 } else { 1500 },
        jitter_ms: 10,
    },
    Case {
        name: "saw",
        seconds: 60,
        rate: |_| 800,
        capacity: |ms| if ms / 4000 % 2 == 1 { 700 } else { 1200 },
        jitter_ms: 20,
    },
];

impl Case {
    /// Arrival and send time in ms, and size, of each packet.
    fn packets(&self) -> Vec<(u64, u64, u64)> {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut link_us, mut before) = (0, 0);
        let mut packets = Vec::new();
        for sent in (0..self.seconds * 1000).step_by(33) {
            let rate = (self.rate)(sent);
            if rate == 0 {
                continue;
            }
            let mut left = rate * 33 / 8 * (80 + draw(41)) / 100;
            while left > 0 {
                let size = left.min(1200);
                left -= size;
                link_us = link_us.max(sent * 1000) + size * 8000 / (self.capacity)(sent);
                before = before.max(link_us / 1000 + draw(self.jitter_ms + 1));
                packets.push((before, sent, size));
            }
        }
        packets
    }
}

#[test]
fn libwebrtc_of_2014_has_the_same_estimates() {
    for case in CASES {
        let mut estimator = Estimator::new(&Config::rmcat_02());
        let mut ours = Vec::new();
        for (arrival, sent, size) in case.packets() {
            let (now, size) = (at(arrival), DataSize::from_bytes(size));
            // The updates at intervals come before a packet of the same millisecond, as when they were recorded.
            while let Some(due) = estimator.next_timeout().filter(|&due| due <= now) {
                estimator.advance(due);
                ours.extend(estimator.estimate().map(|rate| (due, rate)));
            }
            let updated = estimator.rate.last_update();
            estimator.on_packet(now, Some(peer_at(sent)), size);
            if estimator.rate.last_update() != updated {
                ours.extend(estimator.estimate().map(|rate| (now, rate)));
            }
        }
        let recorded: Vec<(Timestamp, f64)> = RECORDED
            .lines()
            .filter_map(|line| line.strip_prefix(case.name)?.strip_prefix(',')?.split_once(','))
            .map(|(ms, rate)| (at(ms.parse().unwrap()), rate.parse().unwrap()))
            .collect();
        assert!(recorded.len() > 30, "{}", case.name);
        for (place, (&(at, rate), &(recorded_at, recorded))) in ours.iter().zip(&recorded).enumerate() {
            let error = (rate.as_bps() as f64 - recorded).abs() / recorded;
            let is_same = at == recorded_at && error < SINGLE_PRECISION;
            assert!(is_same, "{} {place}: {at} {rate}, recorded {recorded_at} {recorded}", case.name);
        }
        assert_eq!(ours.len(), recorded.len(), "{}", case.name);
    }
}

/// By hand: with an update each second the response time is 1 s + 200 ms + 300 ms; without noise the growth is
/// 1.005 + 0.0407 / (1 + e^(0.0025 · (0.85 · 1500 − 800))) = 1.0145 a second, three times of it without a known maximum.
#[test]
fn growth_slows_with_noise_and_response_time() {
    let growth = |noise: f64, interval_ms: u64| {
        let mut rate = RateControl::new(DataRate::ZERO);
        let mut estimates = Vec::new();
        for step in 0..200 {
            let received = rate.estimate().unwrap_or(DataRate::from_bps(1_000_000));
            rate.update(at(step * interval_ms), Signal::Normal, received, noise);
            estimates.extend(rate.estimate().map(|rate| rate.as_bps() as f64));
        }
        let seconds = interval_ms as f64 / 1000.0;
        // Less the constant step.
        let [.., before, last] = estimates[..] else { panic!("no estimates") };
        ((last - 1000.0) / before - 1.0) / seconds / 3.0
    };
    near(growth(0.0, 1000), 0.0145, 2e-4);
    near(growth(50.0, 1000), 0.0100, 2e-4);
    // 1.005 at least.
    near(growth(1e6, 1000), 0.005, 1e-5);
    // 0.85 · 600 − 800 < 0: 0.005 + 0.0407 · 0.674.
    near(growth(0.0, 100), 0.0324, 5e-4);
}

#[test]
fn packets_without_a_frame_count_towards_the_received_rate_only() {
    let estimate = |audio: bool| {
        let mut estimator = Estimator::new(&Config::rmcat_02());
        for frame in 0..60 {
            estimator.on_packet(at(frame * 33), Some(peer_at(frame * 33)), SIZE);
            if audio {
                estimator.on_packet(at(frame * 33), None, SIZE);
            }
        }
        (estimator.estimate().unwrap().as_bps() as f64, estimator.detector.unwrap().noise_variance())
    };
    let [(alone, noise), (with_audio, same_noise)] = [false, true].map(estimate);
    near(with_audio / alone, 2.0, 0.05);
    near(noise, same_noise, 1e-12);
}

#[test]
fn everything_is_forgotten_after_two_seconds_without_frames() {
    let mut estimator = Estimator::new(&Config::rmcat_02());
    for frame in 0..100 {
        estimator.on_packet(at(frame * 33), Some(peer_at(frame * 33)), SIZE);
    }
    assert!(estimator.estimate().is_some());
    estimator.advance(at(5000));
    assert!(estimator.estimate().is_some(), "the last frame came at 3.267 s, the update at 5 s");
    estimator.advance(at(6000));
    assert_eq!((estimator.estimate(), estimator.next_timeout()), (None, None));
}
