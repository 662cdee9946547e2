use std::collections::VecDeque;

use giusto_units::{DataSize, Ecn, PeerTimestamp};
use proptest::prelude::*;

use super::*;
use crate::{
    controller::Controller,
    feedback::{Extension, Feedback, PacketReport, SentPacket},
    limits::Limits,
    scream::d00::{Config, NOTICED, ScreamD00},
    testing::kbps,
};

fn at(millis: i64) -> Timestamp {
    Timestamp::ZERO + TimeDelta::from_millis(millis)
}

/// Usable rates in kbit/s, and age of the oldest packet in milliseconds.
fn stream(priority: f64, usable: (u64, u64), age: i64) -> StreamState {
    let queue = QueueState { size: DataSize::from_bytes(1200), oldest: TimeDelta::from_millis(age) };
    StreamState { priority, usable: (kbps(usable.0), kbps(usable.1)), paused: false, queue }
}

/// From `start` to 4 Mbit/s.
fn begun(start: u64) -> MediaRates {
    MediaRates::new(Config::giusto(Limits::default()), (100e3, 4e6), start as f64 * 1e3)
}

fn targets(rates: &MediaRates) -> Vec<u64> {
    rates.targets().iter().map(|rate| (rate.as_bps() + 500) / 1000).collect()
}

/// Six steps of 100 ms. The last one is the first that changes a rate.
fn step(rates: &mut MediaRates, streams: &[StreamState]) {
    for number in 0..6 {
        rates.on_sent();
        rates.on_streams(streams);
        rates.update(at(100 * number), 0.1, &QueueState::default(), 0.0);
    }
}

#[test]
fn a_single_adaptive_stream_has_the_total_rate() {
    let mut rates = begun(1000);
    rates.on_streams(&[stream(1.0, (20, 20), 500), stream(1.0, (150, 1500), 500)]);
    assert_eq!((rates.targets().len(), rates.bps()), (0, 1e6));
    // Its queue is the sender's queue.
    step(&mut rates, &[stream(1.0, (20, 20), 500), stream(1.0, (150, 1500), 500)]);
    assert!(rates.bps() > 1e6, "{}", rates.bps());
}

#[test]
fn the_start_rate_is_divided_by_priority_after_audio() {
    let mut rates = begun(1020);
    let sound = stream(1.0, (20, 20), 0);
    rates.on_streams(&[
        stream(2.0, (50, 3000), 0),
        sound,
        stream(1.0, (50, 3000), 0),
        stream(1.0, (50, 3000), 0),
    ]);
    assert_eq!(targets(&rates), [500, 20, 250, 250]);
    // The others get what the first one cannot use, and give what it needs.
    rates = begun(1000);
    rates.on_streams(&[stream(2.0, (50, 400), 0), stream(1.0, (50, 3000), 0), stream(1.0, (50, 3000), 0)]);
    assert_eq!(targets(&rates), [400, 300, 300]);
    rates = begun(1000);
    rates.on_streams(&[stream(1.0, (700, 3000), 0), stream(1.0, (50, 3000), 0), stream(1.0, (50, 3000), 0)]);
    assert_eq!(targets(&rates), [700, 150, 150]);
}

#[test]
fn each_rises_to_its_share_in_the_ramp_up_time() {
    let mut rates = begun(1000);
    let streams = [stream(2.0, (50, 5000), 0), stream(1.0, (50, 5000), 0), stream(1.0, (50, 5000), 0)];
    step(&mut rates, &streams);
    // 100 ms of the 4 s in which they rise to 2, 1 and 1 Mbit/s.
    assert_eq!(targets(&rates), [550, 275, 275]);
    for number in 6..60 {
        rates.on_sent();
        rates.on_streams(&streams);
        rates.update(at(100 * number), 0.1, &QueueState::default(), 0.0);
    }
    assert_eq!((targets(&rates), rates.bps()), (vec![2000, 1000, 1000], 4e6));
}

#[test]
fn a_stream_that_overshoots_reduces_only_its_own_rate() {
    let mut rates = begun(1000);
    let streams =
        |age| [stream(2.0, (50, 5000), 0), stream(1.0, (50, 5000), age), stream(1.0, (50, 5000), 0)];
    step(&mut rates, &streams(100));
    // 1 − 0.1 of 250; the others increase.
    assert_eq!(targets(&rates), [550, 225, 275]);
    assert!((rates.bps() - 1_050e3).abs() < 1.0);
    // A loss concerns the path.
    rates.on_loss();
    assert_eq!(targets(&rates), [495, 203, 248]);
    rates.on_silence();
    assert_eq!(targets(&rates), [248, 101, 124]);
}

#[test]
fn a_pause_divides_the_total_again() {
    let mut rates = begun(1000);
    let mut streams = [stream(2.0, (50, 5000), 0), stream(1.0, (50, 5000), 0), stream(1.0, (50, 5000), 0)];
    rates.on_streams(&streams);
    streams[0].paused = true;
    rates.on_streams(&streams);
    assert_eq!(targets(&rates), [0, 500, 500]);
    streams[0].paused = false;
    rates.on_streams(&streams);
    assert_eq!(targets(&rates), [500, 250, 250]);
    // One source remains.
    rates.on_streams(&streams[..1]);
    assert_eq!((rates.targets().len(), rates.bps()), (0, 1e6));
}

#[test]
fn the_unusable_rate_is_kept_during_a_pause() {
    let mut rates = begun(3000);
    let mut streams = [stream(1.0, (50, 1500), 0), stream(1.0, (50, 1500), 0)];
    let mut pausing = |rates: &mut MediaRates, paused: [bool; 2]| {
        (streams[0].paused, streams[1].paused) = (paused[0], paused[1]);
        rates.on_streams(&streams);
        targets(rates)
    };
    assert_eq!(pausing(&mut rates, [false, false]), [1500, 1500]);
    assert_eq!(pausing(&mut rates, [true, false]), [0, 1500]);
    assert_eq!(pausing(&mut rates, [false, false]), [1500, 1500]);
    // All sources pause, one after the other.
    assert_eq!(pausing(&mut rates, [true, false]), [0, 1500]);
    assert_eq!(pausing(&mut rates, [true, true]), [0, 0]);
    assert_eq!(pausing(&mut rates, [false, true]), [1500, 0]);
    assert_eq!(pausing(&mut rates, [false, false]), [1500, 1500]);
    // A loss and missing feedback concern the path, and so also the paused sources: 0.9 · 0.5 · 3000 remain.
    pausing(&mut rates, [true, true]);
    rates.on_loss();
    rates.on_silence();
    assert_eq!(pausing(&mut rates, [false, false]), [675, 675]);
}

const SIZE: DataSize = DataSize::from_bytes(1200);

/// Three cameras at 30 frames per second. Their packets are sent by priority through one link of 3 Mbit/s
/// with a one-way delay of 25 ms.
struct Loop {
    controller: ScreamD00,
    priorities: [f64; 3],
    /// Queueing times of its packets; remaining bits of a frame; sent data divided by priority.
    cameras: [(VecDeque<Timestamp>, f64, f64); 3],
    /// Bits that the pacer permits to send.
    allowance: f64,
    /// Time until which the link is busy.
    busy: Timestamp,
    flight: VecDeque<(SentPacket, Timestamp)>,
    returning: VecDeque<(Timestamp, Vec<PacketReport>)>,
    in_flight: DataSize,
    sequence: u64,
    /// Sum of the targets per millisecond from 20 s on, in bit/s.
    sums: [f64; 3],
}

impl Loop {
    fn run(priorities: [f64; 3]) -> [f64; 3] {
        let [min, start, max] = [300, 300, 6000].map(kbps);
        let mut this = Self {
            controller: ScreamD00::new(Config::giusto(Limits { min, start, max })),
            priorities,
            cameras: std::array::from_fn(|_| (VecDeque::new(), 0.0, 0.0)),
            allowance: 0.0,
            busy: Timestamp::ZERO,
            flight: VecDeque::new(),
            returning: VecDeque::new(),
            in_flight: DataSize::ZERO,
            sequence: 0,
            sums: [0.0; 3],
        };
        for millis in 0..60_000 {
            this.step(millis);
        }
        this.sums.map(|sum| sum / 40_000.0)
    }

    fn step(&mut self, millis: i64) {
        let now = at(millis);
        for (place, (queue, rest, _)) in self.cameras.iter_mut().enumerate() {
            if millis % 33 == 11 * place as i64 {
                let target = self.controller.stream_targets().get(place).copied().unwrap_or_default();
                *rest += target.as_bps() as f64 * 0.033;
                while *rest >= SIZE.as_bits() as f64 {
                    *rest -= SIZE.as_bits() as f64;
                    queue.push_back(now);
                }
            }
        }
        if millis % 33 == 32 {
            self.report(now);
        }
        while self.returning.front().is_some_and(|(at, _)| *at <= now) {
            let (_, packets) = self.returning.pop_front().unwrap();
            let last = packets.last().unwrap().sent.sequence;
            self.in_flight = SIZE * (self.sequence - last - 1);
            let in_flight = self.in_flight;
            self.controller
                .on_feedback(now, &Feedback { packets: &packets, in_flight, ..Feedback::default() });
        }
        if self.controller.next_timeout().is_some_and(|due| due <= now) {
            let state = |place: usize| {
                let queue = &self.cameras[place].0;
                let oldest = queue.front().map_or(TimeDelta::ZERO, |&since| now - since);
                let queue = QueueState { size: SIZE * queue.len() as u64, oldest };
                StreamState {
                    priority: self.priorities[place],
                    usable: (kbps(50), kbps(6000)),
                    paused: false,
                    queue,
                }
            };
            let states = [state(0), state(1), state(2)];
            let oldest = states.iter().map(|state| state.queue.oldest).max().unwrap();
            let size = states.iter().map(|state| state.queue.size).sum();
            self.controller.on_streams(now, &states);
            self.controller.on_timeout(now, &QueueState { size, oldest });
        }
        self.send(now);
        if millis >= 20_000 {
            for (sum, rate) in self.sums.iter_mut().zip(self.controller.stream_targets()) {
                *sum += rate.as_bps() as f64;
            }
        }
    }

    fn send(&mut self, now: Timestamp) {
        let target = self.controller.target();
        self.allowance = (self.allowance + target.pacing.as_bps() as f64 * 1e-3).min(SIZE.as_bits() as f64);
        while self.allowance > 0.0 && target.window.is_none_or(|window| self.in_flight + SIZE <= window) {
            // The camera with the least data sent relative to its priority. A camera without queued packets
            // gains no credit.
            let waiting = (0..3).filter(|&place| !self.cameras[place].0.is_empty());
            let Some(next) = waiting.min_by(|&a, &b| self.cameras[a].2.total_cmp(&self.cameras[b].2)) else {
                return;
            };
            let had = self.cameras[next].2;
            for (_, _, other) in &mut self.cameras {
                *other = other.max(had);
            }
            self.cameras[next].0.pop_front();
            self.cameras[next].2 += 1.0 / self.priorities[next];
            self.allowance -= SIZE.as_bits() as f64;
            self.in_flight += SIZE;
            let packet = SentPacket {
                sequence: self.sequence,
                at: now,
                size: SIZE,
                probe: None,
                in_flight: self.in_flight,
            };
            self.sequence += 1;
            self.busy = self.busy.max(now) + kbps(3000).time_for(SIZE).unwrap();
            self.flight.push_back((packet, self.busy + TimeDelta::from_millis(25)));
            self.controller.on_sent(now, &packet);
        }
    }

    fn report(&mut self, now: Timestamp) {
        let mut packets = Vec::new();
        while let Some(&(sent, arrival)) = self.flight.front().filter(|(_, arrival)| *arrival <= now) {
            self.flight.pop_front();
            let arrival = Some(PeerTimestamp::from_nanos(arrival.as_nanos()));
            packets.push(PacketReport { sent, arrival, ecn: Ecn::NotEct });
        }
        if !packets.is_empty() {
            self.returning.push_back((now + TimeDelta::from_millis(25), packets));
        }
    }
}

#[test]
fn three_cameras_share_a_link_by_priority() {
    for priorities in [[2.0, 1.0, 1.0], [1.0, 1.0, 1.0]] {
        let rates = Loop::run(priorities);
        let (all, weights): (f64, f64) = (rates.iter().sum(), priorities.iter().sum());
        assert!((1.8e6..=3.3e6).contains(&all), "{rates:?}");
        for (rate, priority) in rates.iter().zip(priorities) {
            let share = rate / all / (priority / weights);
            assert!((0.85..=1.15).contains(&share), "{priorities:?}: {rates:?}");
        }
    }
}

fn any_stream() -> impl Strategy<Value = StreamState> {
    let rate = || prop_oneof![3 => 0_u64..5_000_000, 1 => any::<u64>()].prop_map(DataRate::from_bps);
    let usable = prop_oneof![3 => (rate(), rate()), 1 => rate().prop_map(|rate| (rate, rate))];
    (any::<f64>(), usable, any::<bool>(), any::<i64>()).prop_map(|(priority, usable, paused, oldest)| {
        StreamState {
            priority,
            usable,
            paused,
            queue: QueueState { size: DataSize::ZERO, oldest: TimeDelta::from_nanos(oldest) },
        }
    })
}

proptest! {
    #[test]
    fn the_target_stays_within_its_limits_for_any_streams(
        limits in (any::<u64>(), any::<u64>(), any::<u64>()),
        calls in prop::collection::vec((prop::collection::vec(any_stream(), 0..6), 0_i64..1000, 0_u8..4), 1..40),
    ) {
        let limits = {
            let [min, start, max] = [limits.0, limits.1, limits.2].map(DataRate::from_bps);
            Limits { min, start, max }
        };
        let mut controller = ScreamD00::new(Config::giusto(limits));
        let mut now = Timestamp::ZERO;
        for (streams, wait, call) in calls {
            now += TimeDelta::from_millis(wait);
            controller.on_streams(now, &streams);
            match call {
                0 => controller.on_feedback(now, &Feedback::default().with_extension(Some(Extension::SourceQuench))),
                1 => controller.on_sent(now, &SentPacket { sequence: 0, at: now, size: SIZE, probe: None, in_flight: SIZE }),
                _ => controller.on_timeout(now, &QueueState::default()),
            }
            let target = controller.target();
            prop_assert!((limits.min..=limits.max.max(limits.min)).contains(&target.media), "{:?}", target);
            let several = streams.iter().filter(|stream| stream.usable.0 != stream.usable.1).count() > 1;
            prop_assert_eq!(controller.stream_targets().len(), if several { streams.len() } else { 0 });
            for (stream, rate) in streams.iter().zip(controller.stream_targets()) {
                prop_assert!(!stream.paused || *rate == DataRate::ZERO);
            }
            if several {
                // At most the total maximum, unless the needs of non-adaptive streams and the minimum of the
                // others exceed it. Floating-point sums, each rounded to 1 bit/s.
                let needs = streams.iter().filter(|stream| !stream.paused).map(|stream| {
                    stream.usable.0.as_bps() as f64
                });
                let max = needs.sum::<f64>().max(limits.max.max(limits.min).as_bps() as f64);
                let sum: f64 = controller.stream_targets().iter().map(|rate| rate.as_bps() as f64).sum();
                prop_assert!(sum <= max * (1.0 + 1e-9) + streams.len() as f64, "{sum} of {max}");
                // The total target is the sum of the stream targets, within the limits, except for changes
                // that are too small for a decision.
                let (media, count) = (target.media.as_bps() as f64, streams.len() as f64);
                let (min, max) = (limits.min.as_bps() as f64, limits.max.max(limits.min).as_bps() as f64);
                let clamped = sum.max(min).min(max);
                prop_assert!((media - clamped).abs() <= media * (NOTICED + 1e-9) + count, "{media} for {sum}");
            }
        }
    }
}
