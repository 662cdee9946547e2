use std::collections::VecDeque;

use giusto_units::{DataSize, Ecn, PeerTimestamp};
use proptest::prelude::*;

use super::*;
use crate::{
    controller::Controller,
    feedback::{Feedback, PacketReport, SentPacket},
    limits::Limits,
    scream::{D00Config, ScreamD00, d00::NOTICED},
};

fn kbps(kbps: u64) -> DataRate {
    DataRate::from_bps(kbps * 1000)
}

fn at(millis: i64) -> Timestamp {
    Timestamp::ZERO + TimeDelta::from_millis(millis)
}

/// Usable in kbit/s, and for how many milliseconds its oldest packet has waited.
fn stream(priority: f64, usable: (u64, u64), age: i64) -> StreamState {
    let queue = QueueState { size: DataSize::from_bytes(1200), oldest: TimeDelta::from_millis(age) };
    StreamState { priority, usable: (kbps(usable.0), kbps(usable.1)), paused: false, queue }
}

/// From `start` to 4 Mbit/s.
fn begun(start: u64) -> MediaRates {
    MediaRates::new(D00Config::giusto(Limits::default()), (100e3, 4e6), start as f64 * 1e3)
}

fn targets(rates: &MediaRates) -> Vec<u64> {
    rates.targets().iter().map(|rate| (rate.as_bps() + 500) / 1000).collect()
}

/// Six steps of 100 ms, the last of which is the first that moves.
fn step(rates: &mut MediaRates, streams: &[StreamState]) {
    for number in 0..6 {
        rates.on_sent();
        rates.on_streams(streams);
        rates.update(at(100 * number), 0.1, &QueueState::default(), 0.0);
    }
}

#[test]
fn one_that_adapts_has_the_rate_of_all() {
    let mut rates = begun(1000);
    rates.on_streams(&[stream(1.0, (20, 20), 500), stream(1.0, (150, 1500), 500)]);
    assert_eq!((rates.targets().len(), rates.bps()), (0, 1e6));
    // Its queue is that of the sender.
    step(&mut rates, &[stream(1.0, (20, 20), 500), stream(1.0, (150, 1500), 500)]);
    assert!(rates.bps() > 1e6, "{}", rates.bps());
}

#[test]
fn what_there_is_at_first_is_divided_by_priority_and_sound_comes_first() {
    let mut rates = begun(1020);
    let sound = stream(1.0, (20, 20), 0);
    rates.on_streams(&[
        stream(2.0, (50, 3000), 0),
        sound,
        stream(1.0, (50, 3000), 0),
        stream(1.0, (50, 3000), 0),
    ]);
    assert_eq!(targets(&rates), [500, 20, 250, 250]);
    // What the first cannot use goes to the others, and what it needs comes from them.
    rates = begun(1000);
    rates.on_streams(&[stream(2.0, (50, 400), 0), stream(1.0, (50, 3000), 0), stream(1.0, (50, 3000), 0)]);
    assert_eq!(targets(&rates), [400, 300, 300]);
    rates = begun(1000);
    rates.on_streams(&[stream(1.0, (700, 3000), 0), stream(1.0, (50, 3000), 0), stream(1.0, (50, 3000), 0)]);
    assert_eq!(targets(&rates), [700, 150, 150]);
}

#[test]
fn each_rises_to_its_part_of_the_most_in_the_ramp_up_time() {
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
fn a_stream_that_overshoots_lowers_only_itself() {
    let mut rates = begun(1000);
    let streams =
        |age| [stream(2.0, (50, 5000), 0), stream(1.0, (50, 5000), age), stream(1.0, (50, 5000), 0)];
    step(&mut rates, &streams(100));
    // 1 − 0.1 of 250; the others rise.
    assert_eq!(targets(&rates), [550, 225, 275]);
    assert!((rates.bps() - 1_050e3).abs() < 1.0);
    // A loss is of the path.
    rates.on_loss();
    assert_eq!(targets(&rates), [495, 203, 248]);
    rates.on_silence();
    assert_eq!(targets(&rates), [248, 101, 124]);
}

#[test]
fn where_one_pauses_what_there_was_is_divided_anew() {
    let mut rates = begun(1000);
    let mut streams = [stream(2.0, (50, 5000), 0), stream(1.0, (50, 5000), 0), stream(1.0, (50, 5000), 0)];
    rates.on_streams(&streams);
    streams[0].paused = true;
    rates.on_streams(&streams);
    assert_eq!(targets(&rates), [0, 500, 500]);
    streams[0].paused = false;
    rates.on_streams(&streams);
    assert_eq!(targets(&rates), [500, 250, 250]);
    // One is left.
    rates.on_streams(&streams[..1]);
    assert_eq!((rates.targets().len(), rates.bps()), (0, 1e6));
}

#[test]
fn what_nobody_can_use_while_some_pause_is_kept_for_when_they_go_on() {
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
    // All of them pause, one after the other.
    assert_eq!(pausing(&mut rates, [true, false]), [0, 1500]);
    assert_eq!(pausing(&mut rates, [true, true]), [0, 0]);
    assert_eq!(pausing(&mut rates, [false, true]), [1500, 0]);
    assert_eq!(pausing(&mut rates, [false, false]), [1500, 1500]);
    // A loss and a silence are of the path, which will be there for them as well: 0.9 · 0.5 · 3000 are left.
    pausing(&mut rates, [true, true]);
    rates.on_loss();
    rates.on_silence();
    assert_eq!(pausing(&mut rates, [false, false]), [675, 675]);
}

const SIZE: DataSize = DataSize::from_bytes(1200);

/// Three cameras of 30 pictures a second whose packets leave by priority through one link of 3 Mbit/s, 25 ms each way.
struct Loop {
    controller: ScreamD00,
    priorities: [f64; 3],
    /// Since when its packets wait; what is left over of a picture, in bits; what was sent, over its priority.
    cameras: [(VecDeque<Timestamp>, f64, f64); 3],
    /// Bits that may leave, by the pacer.
    allowance: f64,
    /// Until when the link is busy.
    busy: Timestamp,
    flight: VecDeque<(SentPacket, Timestamp)>,
    returning: VecDeque<(Timestamp, Vec<PacketReport>)>,
    in_flight: DataSize,
    sequence: u64,
    /// The sum of the targets of each millisecond from 20 s on, in bit/s.
    sums: [f64; 3],
}

impl Loop {
    fn run(priorities: [f64; 3]) -> [f64; 3] {
        let [min, start, max] = [300, 300, 6000].map(kbps);
        let mut this = Self {
            controller: ScreamD00::new(D00Config::giusto(Limits { min, start, max })),
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
            let told = packets.last().unwrap().sent.sequence;
            self.in_flight = SIZE * (self.sequence - told - 1);
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
            // Who has had the least for its priority; whoever has waited for nothing has no claim from that.
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
    fn whatever_streams_there_are_the_target_stays_within_its_limits(
        limits in (any::<u64>(), any::<u64>(), any::<u64>()),
        calls in prop::collection::vec((prop::collection::vec(any_stream(), 0..6), 0_i64..1000, 0_u8..4), 1..40),
    ) {
        let limits = {
            let [min, start, max] = [limits.0, limits.1, limits.2].map(DataRate::from_bps);
            Limits { min, start, max }
        };
        let mut controller = ScreamD00::new(D00Config::giusto(limits));
        let mut now = Timestamp::ZERO;
        for (streams, wait, call) in calls {
            now += TimeDelta::from_millis(wait);
            controller.on_streams(now, &streams);
            match call {
                0 => controller.on_feedback(now, &Feedback { quench: true, ..Feedback::default() }),
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
                // No more than the most together, unless what does not adapt and the least of the others are more than that: then it
                // is these. In floating point, and each rounded to a bit a second.
                let needs = streams.iter().filter(|stream| !stream.paused).map(|stream| {
                    stream.usable.0.as_bps() as f64
                });
                let most = needs.sum::<f64>().max(limits.max.max(limits.min).as_bps() as f64);
                let sum: f64 = controller.stream_targets().iter().map(|rate| rate.as_bps() as f64).sum();
                prop_assert!(sum <= most * (1.0 + 1e-9) + streams.len() as f64, "{sum} of {most}");
                // What is told of all is what is told of each, within the limits, but for what is too little to be a decision.
                let (media, count) = (target.media.as_bps() as f64, streams.len() as f64);
                let (min, max) = (limits.min.as_bps() as f64, limits.max.max(limits.min).as_bps() as f64);
                let clamped = sum.max(min).min(max);
                prop_assert!((media - clamped).abs() <= media * (NOTICED + 1e-9) + count, "{media} for {sum}");
            }
        }
    }
}
