//! Calls of a day with different clocks: every counter on the wire wraps, and the rate must stay stable.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use std::collections::VecDeque;

use giusto_congestion::{Algorithm, Limits};
use giusto_session::media::{
    Datagram, MediaEndpoint, MediaReceiver, MediaReceiverConfig, MediaSender, MediaSenderConfig, MediaStream,
    PADDING_TYPE, PayloadFormat, RateRange, pacer_config,
};
use giusto_sim::traffic::{
    EncodedEndpoint,
    encoder::{Audio, AudioConfig, MediaSource, PerfectConfig, PerfectEncoder},
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

const SCREAMS: [&str; 3] = ["scream:rfc8298+giusto", "scream:d00+giusto", "scream:v2"];

/// Ten packets per second: the audio of a day takes most of the simulation time.
const AUDIO: AudioConfig =
    AudioConfig { rate: DataRate::from_bps(20_000), packet_time: TimeDelta::from_millis(100), clock: 48_000 };
/// Index of the video stream.
const VIDEO: usize = 1;
/// Rate of the link.
const RATE: DataRate = DataRate::from_bps(3_000_000);
const DELAY: TimeDelta = TimeDelta::from_millis(50);
/// Capacity of the link's queue.
const QUEUE: TimeDelta = TimeDelta::from_millis(300);
const OVERHEAD: DataSize = DataSize::from_bytes(28);

fn algorithm(name: &str) -> Algorithm {
    name.parse().unwrap()
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

fn sender(kind: Algorithm) -> EncodedEndpoint {
    let rate = |kbps: u64| DataRate::from_bps(kbps * 1000);
    let video =
        PerfectConfig { limits: RateRange::new(rate(100), rate(6000)).unwrap(), ..PerfectConfig::default() };
    let audio = Audio::new(AUDIO, Timestamp::ZERO).unwrap();
    let audio_stream =
        MediaStream { timestamp_offset: 7, ..MediaStream::audio(1, 111, 48_000, audio.target()) };
    let video = PerfectEncoder::new(video, Timestamp::ZERO).unwrap();
    let video_stream = MediaStream {
        timestamp_offset: u32::MAX - 10,
        start_rate: video.target(),
        ..MediaStream::video(2, 96, video.limits())
    };
    let config = MediaSenderConfig {
        feedback: kind.requirements().feedback,
        pacer: pacer_config(kind.requirements().pacer),
        ..MediaSenderConfig::default()
    };
    let limits = Limits::DEFAULT.with_min(rate(100)).with_start(rate(300)).with_max(rate(6300));
    let sender = MediaSender::new(config, kind.build(limits), vec![audio_stream, video_stream]);
    EncodedEndpoint::new(MediaEndpoint::new(Some(sender), None), vec![Box::new(audio), Box::new(video)])
}

fn receiver(kind: Algorithm) -> MediaEndpoint {
    let config = MediaReceiverConfig {
        payloads: vec![
            PayloadFormat::video(96),
            PayloadFormat::audio(111, 48_000),
            PayloadFormat::padding(PADDING_TYPE),
        ],
        ..MediaReceiverConfig::new(3, "far", kind.requirements().feedback)
    };
    MediaEndpoint::new(None, Some(MediaReceiver::new(config).unwrap()))
}

/// Data that passed the link between two times.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    bytes: u64,
    dropped: u64,
    packets: u64,
    /// Sum and maximum of the queueing delays.
    queued: TimeDelta,
    longest: TimeDelta,
}

impl Passed {
    fn mbps(&self, seconds: u64) -> f64 {
        self.bytes as f64 * 8e-6 / seconds as f64
    }

    fn mean_queue_ms(&self) -> f64 {
        self.queued.as_millis() / self.packets.max(1) as f64
    }
}

/// A sender, a receiver with its own clock, and a link with a queue between them.
struct Call {
    near: EncodedEndpoint,
    far: MediaEndpoint,
    /// Time on the receiver's clock.
    clock: fn(Timestamp) -> Timestamp,
    free: Timestamp,
    far_due: Option<Timestamp>,
    there: VecDeque<(Timestamp, Datagram)>,
    back: VecDeque<(Timestamp, Datagram)>,
    passed: Passed,
}

impl Call {
    fn new(kind: Algorithm, clock: fn(Timestamp) -> Timestamp) -> Self {
        Self {
            near: sender(kind),
            far: receiver(kind),
            clock,
            free: Timestamp::ZERO,
            far_due: None,
            there: VecDeque::new(),
            back: VecDeque::new(),
            passed: Passed::default(),
        }
    }

    /// Runs until the given time. Returns what has passed the link since the last call.
    fn run(&mut self, until: Timestamp) -> Passed {
        self.passed = Passed::default();
        loop {
            let arrivals = [&self.there, &self.back].into_iter().filter_map(|way| Some(way.front()?.0));
            let timeouts = self.near.poll_timeout();
            let next = arrivals.chain(timeouts).chain(self.far_due).min();
            let Some(next) = next.filter(|&next| next <= until) else { break };
            let now = next;
            while let Some(datagram) = due(&mut self.there, now) {
                let Datagram { head, payload, ecn } = datagram;
                self.far.handle_parts((self.clock)(now), &head, &payload, ecn);
            }
            while let Some(datagram) = due(&mut self.back, now) {
                self.near.handle_datagram(now, &datagram, datagram.ecn);
            }
            if self.far.poll_timeout().is_some_and(|due| due <= (self.clock)(now)) {
                self.far.handle_timeout((self.clock)(now));
            }
            // The time at which its clock reaches the deadline is unknown: it is polled in between.
            self.far_due = self.far.poll_timeout().map(|due| {
                now + (due - (self.clock)(now))
                    .max(TimeDelta::from_millis(1))
                    .min(TimeDelta::from_millis(100))
            });
            if self.near.poll_timeout().is_some_and(|due| due <= now) {
                self.near.handle_timeout(now);
            }
            while let Some(datagram) = self.far.poll_transmit((self.clock)(now)) {
                self.back.push_back((now + DELAY, datagram));
            }
            while let Some(datagram) = self.near.poll_transmit(now) {
                self.offer(now, datagram);
            }
            while self.near.poll_event().is_some() {}
            while self.far.poll_event().is_some() {}
        }
        self.passed
    }

    fn offer(&mut self, now: Timestamp, datagram: Datagram) {
        let begin = self.free.max(now);
        let queued = begin - now;
        if queued > QUEUE {
            self.passed.dropped += 1;
            return;
        }
        let size = datagram.size() + OVERHEAD;
        self.passed.packets += 1;
        self.passed.bytes += size.as_bytes();
        self.passed.queued += queued;
        self.passed.longest = self.passed.longest.max(queued);
        self.free = begin + RATE.time_for(size).unwrap();
        self.there.push_back((self.free + DELAY, datagram));
    }
}

/// Datagrams that have arrived in this direction.
fn due(way: &mut VecDeque<(Timestamp, Datagram)>, now: Timestamp) -> Option<Datagram> {
    way.front().filter(|(due, _)| *due <= now)?;
    way.pop_front().map(|(_, datagram)| datagram)
}

/// Ten hours ahead, and 50 ppm fast: 4.3 s per day.
fn fast(now: Timestamp) -> Timestamp {
    let nanos = u128::from(now.as_nanos()) * 1_000_050 / 1_000_000 + 36_000_000_000_000;
    Timestamp::from_nanos(u64::try_from(nanos).unwrap())
}

/// A day in which one minute of video follows every 29 minutes of audio alone. Sequence numbers wrap about 15
/// times, those of the audio 13 times; RTP timestamps after 13 h; the clock of the feedback after 18 h (RFC
/// 8888) or 13 h (the draft's), which is 10 h earlier on the receiver's clock.
fn a_day(kind: Algorithm, worst_queue_ms: f64) {
    let mut call = Call::new(kind, fast);
    let mut settled: Vec<f64> = Vec::new();
    for hour in 0..48 {
        let begin = 1800 * hour;
        call.near.set_paused(at(begin), VIDEO, false);
        let rise = call.run(at(begin + 30));
        let after = call.run(at(begin + 60));
        call.near.set_paused(at(begin + 60), VIDEO, true);
        let audio = call.run(at(begin + 1800));
        // The capacity was learned before: the rate neither restarts at the start rate nor is the estimate
        // lost.
        assert!(rise.mbps(30) > 1.8, "{kind}, {hour}: {rise:?}");
        let queue = after.mean_queue_ms();
        assert!((1.0..worst_queue_ms).contains(&queue), "{kind}, {hour}: {queue} ms");
        // The estimate of a minute is not used unchanged half an hour later: there is no overload when video
        // resumes.
        assert_eq!((rise.dropped, after.dropped, audio.dropped), (0, 0, 0), "{kind}, {hour}");
        // Ten audio packets and one report per second, and the video packets that were still in flight.
        assert!((1740 * 11..1740 * 11 + 300).contains(&audio.packets), "{kind}, {hour}: {audio:?}");
        settled.push(after.mbps(30));
    }
    let mean = settled.iter().sum::<f64>() / settled.len() as f64;
    let (low, high) = settled.iter().fold((f64::MAX, 0.0_f64), |(low, high), &x| (low.min(x), high.max(x)));
    assert!(low > 0.85 * mean && high < 1.15 * mean, "{kind}: {settled:?}");
    assert!(mean > 1.8 && mean < 3.0, "{kind}: {mean} Mbit/s");
}

// Queueing delays: d00 has a target of 80 ms, RFC 8298 of 100 ms, v2 of 30 to 60 ms.
#[test]
fn rfc8298_is_stable_all_day() {
    a_day(algorithm("scream:rfc8298+giusto"), 100.0);
}

#[test]
fn d00_is_stable_all_day() {
    a_day(algorithm("scream:d00+giusto"), 80.0);
}

#[test]
fn v2_is_stable_all_day() {
    a_day(algorithm("scream:v2"), 60.0);
}

/// The receiver's clock is set forward by ten seconds after one minute, and back by seven after two. Since
/// time does not run backwards, it then stands still for seven seconds.
fn set_twice(now: Timestamp) -> Timestamp {
    let seconds = match now.as_nanos() / 1_000_000_000 {
        0..60 => 100,
        60..120 => 110,
        _ => 103,
    };
    now + TimeDelta::from_seconds(seconds)
}

/// The clock is set forward by 150 ms every 20 s: as much as a queueing delay could be.
fn set_by_little(now: Timestamp) -> Timestamp {
    now + TimeDelta::from_millis(150) * (now.as_nanos() / 20_000_000_000) as i64
}

#[test]
fn a_clock_step_costs_only_the_time_it_stands_still() {
    for kind in SCREAMS.map(algorithm) {
        let parts = |clock: fn(Timestamp) -> Timestamp| -> Vec<f64> {
            let mut call = Call::new(kind, clock);
            let parts = (1..=9).map(|part| call.run(at(20 * part)));
            parts.inspect(|part| assert_eq!(part.dropped, 0, "{kind}")).map(|part| part.mbps(20)).collect()
        };
        let steady = parts(fast);
        for (clock, still) in [(set_twice as fn(_) -> _, Some(6)), (set_by_little, None)] {
            let set = parts(clock);
            for (place, (set_mbps, mbps)) in set.iter().zip(&steady).enumerate() {
                // Seven of 20 seconds without feedback, and the time to recover.
                let min = if still == Some(place) { 0.2 } else { 0.85 };
                assert!(*set_mbps > min * mbps, "{kind}, part {place}: {set:.2?} of {steady:.2?}");
            }
        }
    }
}

#[test]
fn clock_drift_has_little_effect() {
    let clocks: [fn(Timestamp) -> Timestamp; 3] = [
        |now| now,
        |now| Timestamp::from_nanos(now.as_nanos() / 10_000 * 10_001),
        |now| Timestamp::from_nanos(now.as_nanos() / 10_000 * 9_999),
    ];
    for kind in SCREAMS.map(algorithm) {
        let half_an_hour = clocks.map(|clock| {
            let mut call = Call::new(kind, clock);
            call.run(at(120));
            let passed = call.run(at(1800));
            (passed.mbps(1680), passed.mean_queue_ms(), passed.dropped)
        });
        let [(mbps, queue, dropped), others @ ..] = half_an_hour;
        assert_eq!(dropped, 0, "{kind}");
        for (other, other_queue, dropped) in others {
            // Drift that is not detected makes the queue appear longer. It is then kept shorter, which is an
            // advantage for the SCReAM draft.
            assert!((0.95..1.2).contains(&(other / mbps)), "{kind}: {half_an_hour:.2?}");
            assert!((-25.0..10.0).contains(&(other_queue - queue)), "{kind}: {half_an_hour:.2?}");
            assert_eq!(dropped, 0, "{kind}");
        }
    }
}
