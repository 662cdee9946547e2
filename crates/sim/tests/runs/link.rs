//! A sender and a receiver with a bottleneck between them, and scripted sources and controllers.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use giusto_congestion::{
    Algorithm, Controller, Decision, Feedback, Limits, QueueState, SentPacket, StreamState, Target,
};
use giusto_session::media::{
    Datagram, Frame, MediaEndpoint, MediaEvent, MediaReceiver, MediaReceiverConfig, MediaSender,
    MediaSenderConfig, MediaStream, PADDING_TYPE, PayloadFormat, RateRange, SourceFigures, StreamFigures,
    pacer_config,
};
use giusto_sim::traffic::{
    EncodedEndpoint,
    encoder::{Audio, AudioConfig, MediaSource, PerfectConfig, PerfectEncoder},
};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const VIDEO_TYPE: u8 = 96;
const AUDIO_TYPE: u8 = 111;
/// First timestamps, and from their lower half the first sequence numbers: all wrap soon.
pub(crate) const VIDEO_OFFSET: u32 = u32::MAX - 535;
pub(crate) const AUDIO_OFFSET: u32 = 65_530;
pub(crate) const UDP: DataSize = DataSize::from_bytes(28);

pub(crate) fn algorithm(name: &str) -> Algorithm {
    name.parse().unwrap()
}

pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

pub(crate) fn kbps(kbps: u64) -> DataRate {
    DataRate::from_bps(kbps * 1000)
}

pub(crate) fn millis(millis: i64) -> TimeDelta {
    TimeDelta::from_millis(millis)
}

/// A stream and its encoder.
pub(crate) type Encoded = (MediaStream, Box<dyn MediaSource>);

/// A video stream with another encoder.
pub(crate) fn stream(ssrc: u32, source: impl MediaSource + 'static) -> Encoded {
    let stream = MediaStream {
        timestamp_offset: VIDEO_OFFSET,
        start_rate: source.target(),
        ..MediaStream::video(ssrc, VIDEO_TYPE, source.limits())
    };
    (stream, Box::new(source))
}

/// A stream that skips frames and discards packets.
pub(crate) fn limited(
    (stream, source): Encoded,
    skip: Option<TimeDelta>,
    discard: Option<TimeDelta>,
) -> Encoded {
    (MediaStream { skip_after: skip, discard_after: discard, ..stream }, source)
}

/// An encoder of `min` to `max` kbit/s.
pub(crate) fn encoder(min: u64, max: u64) -> PerfectEncoder {
    let limits = RateRange::new(kbps(min), kbps(max)).unwrap();
    let config = PerfectConfig { limits, start_rate: kbps(min), ..PerfectConfig::default() };
    PerfectEncoder::new(config, Timestamp::ZERO).unwrap()
}

pub(crate) fn video(ssrc: u32, priority: f64, min: u64, max: u64) -> Encoded {
    let (stream, source) = stream(ssrc, encoder(min, max));
    (MediaStream { priority, ..stream }, source)
}

pub(crate) fn audio(ssrc: u32) -> Encoded {
    audio_of(ssrc, AudioConfig::default())
}

pub(crate) fn audio_of(ssrc: u32, config: AudioConfig) -> Encoded {
    let source = Audio::new(config, Timestamp::ZERO).unwrap();
    let stream = MediaStream::audio(ssrc, AUDIO_TYPE, 48_000, source.target());
    (MediaStream { timestamp_offset: AUDIO_OFFSET, ..stream }, Box::new(source))
}

/// A sender with its encoders.
pub(crate) fn near(
    config: MediaSenderConfig,
    controller: Box<dyn Controller>,
    streams: Vec<Encoded>,
) -> EncodedEndpoint {
    let (streams, sources) = streams.into_iter().unzip();
    let sender = MediaSender::new(config, controller, streams);
    EncodedEndpoint::new(MediaEndpoint::new(Some(sender), None), sources)
}

/// What a sender with this controller needs.
pub(crate) fn config(kind: Algorithm) -> MediaSenderConfig {
    let needs = kind.requirements();
    let pacer = pacer_config(needs.pacer);
    MediaSenderConfig { feedback: needs.feedback, pacer, ..MediaSenderConfig::default() }
}

pub(crate) fn receiver_config(kind: Algorithm) -> MediaReceiverConfig {
    let mut config = MediaReceiverConfig::new(9999, "far", kind.requirements().feedback);
    let (video, audio) = (PayloadFormat::video(VIDEO_TYPE), PayloadFormat::audio(AUDIO_TYPE, 48_000));
    config.payloads = vec![video, audio, PayloadFormat::padding(PADDING_TYPE)];
    config
}

pub(crate) fn receiver(kind: Algorithm) -> MediaReceiver {
    MediaReceiver::new(receiver_config(kind)).unwrap()
}

/// Requests to a source, and its frames.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) frames: u64,
    pub(crate) keys: u64,
    /// Number of key frames requested.
    pub(crate) requests: u64,
}

/// A source that records the calls to it.
#[derive(Debug)]
pub(crate) struct Spy<S>(pub(crate) S, pub(crate) Arc<Mutex<Seen>>);

impl<S: MediaSource> MediaSource for Spy<S> {
    fn next_frame_at(&self) -> Option<Timestamp> {
        self.0.next_frame_at()
    }
    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        let frame = self.0.poll_frame(now)?;
        let mut seen = self.1.lock().unwrap();
        seen.frames += 1;
        seen.keys += u64::from(frame.key);
        Some(frame)
    }
    fn set_target(&mut self, now: Timestamp, target: DataRate) {
        self.0.set_target(now, target);
    }
    fn target(&self) -> DataRate {
        self.0.target()
    }
    fn limits(&self) -> RateRange {
        self.0.limits()
    }
    fn request_key_frame(&mut self, now: Timestamp) {
        self.1.lock().unwrap().requests += 1;
        self.0.request_key_frame(now);
    }
    fn set_paused(&mut self, now: Timestamp, paused: bool) {
        self.0.set_paused(now, paused);
    }
}

/// Input and output of a [`ScriptedController`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    pub(crate) target: Target,
    pub(crate) each: Vec<DataRate>,
    pub(crate) sent: Vec<SentPacket>,
    /// Sequence numbers and arrivals of each feedback.
    pub(crate) reports: Vec<Vec<(u64, Option<PeerTimestamp>)>>,
    /// Ratios and numbers of expected packets.
    pub(crate) losses: Vec<(f64, u64)>,
    pub(crate) streams: Vec<StreamState>,
    /// Whether the streams were reported before each call.
    pub(crate) streams_reported: bool,
}

/// A controller whose output the test sets, with a deadline every 20 ms.
#[derive(Debug)]
pub(crate) struct ScriptedController {
    script: Arc<Mutex<Script>>,
    target: Target,
    each: Vec<DataRate>,
    next: Timestamp,
    decision: Decision,
}

impl ScriptedController {
    pub(crate) fn new(target: Target) -> (Self, Arc<Mutex<Script>>) {
        let script = Arc::new(Mutex::new(Script { target, streams_reported: true, ..Script::default() }));
        let (each, next, decision) = (Vec::new(), Timestamp::ZERO, Decision::default());
        (Self { script: script.clone(), target, each, next, decision }, script)
    }
}

impl Controller for ScriptedController {
    fn on_sent(&mut self, _: Timestamp, packet: &SentPacket) {
        self.script.lock().unwrap().sent.push(*packet);
    }
    fn on_feedback(&mut self, _: Timestamp, feedback: &Feedback<'_>) {
        let mut script = self.script.lock().unwrap();
        let packets: Vec<_> =
            feedback.packets.iter().map(|report| (report.sent.sequence, report.arrival)).collect();
        script.reports.extend(Some(packets).filter(|packets| !packets.is_empty()));
        script.losses.extend(feedback.loss.map(|loss| (loss.ratio, loss.expected_packets)));
    }
    fn on_streams(&mut self, _: Timestamp, streams: &[StreamState]) {
        self.script.lock().unwrap().streams = streams.to_vec();
    }
    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let mut script = self.script.lock().unwrap();
        let queued: DataSize = script.streams.iter().map(|stream| stream.queue.size).sum();
        script.streams_reported &= queued == queue.size;
        self.target = script.target;
        self.each = script.each.clone();
        self.next = now + millis(20);
    }
    fn next_timeout(&self) -> Option<Timestamp> {
        Some(self.next)
    }
    fn set_limits(&mut self, _: Timestamp, _: Limits) {}
    fn on_route_change(&mut self, _: Timestamp) {}
    fn target(&self) -> Target {
        self.target
    }
    fn stream_targets(&self) -> &[DataRate] {
        &self.each
    }
    fn decision(&self) -> &Decision {
        &self.decision
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let script = Arc::new(Mutex::new(self.script.lock().unwrap().clone()));
        Box::new(Self { script, each: self.each.clone(), ..*self })
    }
}

/// What happens to datagrams in both directions, each with its probability.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) loss: f64,
    pub(crate) repeats: f64,
    /// A delay of 20 ms more.
    pub(crate) reorders: f64,
    /// The inversion of a bit of the head.
    pub(crate) damage: f64,
}

/// A datagram that passed the bottleneck.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed {
    pub(crate) at: Timestamp,
    pub(crate) queued: TimeDelta,
    pub(crate) size: DataSize,
}

/// Both ends, and a path between them whose bottleneck is usually towards the second.
pub(crate) struct Run {
    pub(crate) ends: [EncodedEndpoint; 2],
    pub(crate) rate: DataRate,
    pub(crate) back_rate: DataRate,
    pub(crate) delay: TimeDelta,
    /// Maximum queueing delay at the bottleneck; further packets are dropped.
    pub(crate) buffer: TimeDelta,
    /// Queueing delay above which packets are marked.
    pub(crate) mark_above: TimeDelta,
    pub(crate) faults: Faults,
    /// Whether feedback is delivered.
    pub(crate) feedback: bool,
    /// The clock of the second end, if it has another.
    pub(crate) clock: Option<fn(Timestamp) -> Timestamp>,
    random: StdRng,
    free: [Timestamp; 2],
    on_the_way: [VecDeque<(Timestamp, Datagram)>; 2],
    pub(crate) now: Timestamp,
    pub(crate) events: [Vec<MediaEvent>; 2],
    /// Datagrams of the sender, with their times.
    pub(crate) sent: Vec<(Timestamp, Datagram)>,
    pub(crate) passed: Vec<Passed>,
    pub(crate) dropped: u64,
    /// Number of datagrams of the second end.
    pub(crate) answers: u64,
    /// Maximum age of a queued packet.
    pub(crate) oldest: TimeDelta,
}

impl Run {
    pub(crate) fn new(sender: EncodedEndpoint, receiver: MediaReceiver) -> Self {
        let receiver = EncodedEndpoint::new(MediaEndpoint::new(None, Some(receiver)), Vec::new());
        Self::between([sender, receiver])
    }

    pub(crate) fn between(ends: [EncodedEndpoint; 2]) -> Self {
        Self {
            ends,
            rate: kbps(100_000),
            back_rate: kbps(1_000_000_000),
            delay: millis(20),
            buffer: millis(300),
            mark_above: TimeDelta::MAX,
            faults: Faults::default(),
            feedback: true,
            clock: None,
            random: StdRng::seed_from_u64(7),
            free: [Timestamp::ZERO; 2],
            on_the_way: Default::default(),
            now: Timestamp::ZERO,
            events: Default::default(),
            sent: Vec::new(),
            passed: Vec::new(),
            dropped: 0,
            answers: 0,
            oldest: TimeDelta::ZERO,
        }
    }

    pub(crate) fn of(kind: Algorithm, limits: Limits, streams: Vec<Encoded>) -> Self {
        Self::new(near(config(kind), kind.build(limits), streams), receiver(kind))
    }

    /// A sender with a scripted controller that ignores its queue's age, towards a receiver without feedback of its own.
    pub(crate) fn scripted(target: Target, streams: Vec<Encoded>) -> (Self, Arc<Mutex<Script>>) {
        let (controller, script) = ScriptedController::new(target);
        let config = MediaSenderConfig { queue_limit: None, ..MediaSenderConfig::default() };
        (Self::new(near(config, Box::new(controller), streams), receiver(algorithm("fixed"))), script)
    }

    /// The time on the clock of an end.
    fn time(&self, end: usize) -> Timestamp {
        self.clock.filter(|_| end == 1).map_or(self.now, |clock| clock(self.now))
    }

    /// When an end has to be called. The time at which another clock reaches a deadline is unknown: it is polled in between.
    fn due(&self, end: usize) -> Option<Timestamp> {
        let due = self.ends[end].poll_timeout()?;
        let is_other = self.clock.is_some() && end == 1;
        Some(if is_other { self.now + (due - self.time(1)).max(millis(1)).min(millis(100)) } else { due })
    }

    pub(crate) fn until(&mut self, end: Timestamp) {
        loop {
            let arrivals = self.on_the_way.iter().filter_map(|way| Some(way.front()?.0));
            let next = arrivals.chain([0, 1].into_iter().filter_map(|end| self.due(end))).min();
            let Some(next) = next.filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            for to in [0, 1] {
                while self.on_the_way[to].front().is_some_and(|way| way.0 <= self.now) {
                    let (_, datagram) = self.on_the_way[to].pop_front().unwrap();
                    let now = self.time(to);
                    self.ends[to].handle_datagram(now, &datagram, datagram.ecn);
                }
            }
            for end in [0, 1] {
                let now = self.time(end);
                if self.ends[end].poll_timeout().is_some_and(|due| due <= now) {
                    self.ends[end].handle_timeout(now);
                }
                self.drain(end);
                assert!(self.due(end).is_none_or(|due| due > self.now), "end {end} spins at {now:?}");
            }
            if self.ends[0].endpoint().sender().is_some() {
                self.oldest = self.oldest.max(self.sender().queue(self.now).oldest);
            }
        }
        self.now = self.now.max(end);
    }

    pub(crate) fn drain(&mut self, from: usize) {
        while let Some(datagram) = self.ends[from].poll_transmit(self.time(from)) {
            self.carry(from, datagram);
        }
        while let Some(event) = self.ends[from].poll_event() {
            self.events[from].push(event);
        }
    }

    fn carry(&mut self, from: usize, mut datagram: Datagram) {
        let rate = if from == 0 { self.rate } else { self.back_rate };
        let begin = self.free[from].max(self.now);
        let queued = begin - self.now;
        if from == 0 {
            self.sent.push((self.now, datagram.clone()));
        } else {
            self.answers += 1;
        }
        if from == 1 && !self.feedback || queued > self.buffer {
            self.dropped += u64::from(from == 0);
            return;
        }
        let size = datagram.size() + UDP;
        self.free[from] = begin + rate.time_for(size).unwrap();
        if from == 0 {
            self.passed.push(Passed { at: self.now, queued, size });
        }
        if self.random.random_bool(self.faults.loss) {
            return;
        }
        if self.random.random_bool(self.faults.damage) {
            let bit = self.random.random_range(0..datagram.head.len() * 8);
            datagram.head[bit / 8] ^= 1 << (bit % 8);
        }
        if queued > self.mark_above {
            datagram.ecn = Ecn::Ce;
        }
        let late = millis(20) * i64::from(self.random.random_bool(self.faults.reorders));
        let arrival = self.free[from] + self.delay + late;
        let way = &mut self.on_the_way[1 - from];
        for _ in 0..=u8::from(self.random.random_bool(self.faults.repeats)) {
            way.insert(way.partition_point(|&(at, _)| at <= arrival), (arrival, datagram.clone()));
        }
    }

    pub(crate) fn sender(&self) -> &MediaSender {
        self.ends[0].endpoint().sender().unwrap()
    }

    pub(crate) fn figures(&self, stream: usize) -> StreamFigures {
        self.sender().figures(self.now).nth(stream).unwrap()
    }

    pub(crate) fn received(&self, ssrc: u32) -> SourceFigures {
        let mut sources = self.ends[1].endpoint().receiver().unwrap().sources();
        sources.find(|source| source.ssrc == ssrc).unwrap_or_default()
    }

    /// Bytes of each of `ssrcs` that arrive until `end`.
    pub(crate) fn bytes(&mut self, ssrcs: &[u32], end: Timestamp) -> Vec<f64> {
        let all = |run: &Self| -> Vec<u64> {
            ssrcs.iter().map(|&ssrc| run.received(ssrc).size.as_bytes()).collect()
        };
        let before = all(self);
        self.until(end);
        all(self).iter().zip(before).map(|(after, before)| (after - before) as f64).collect()
    }

    /// Skipped frames and discarded packets of a source, according to events.
    pub(crate) fn skipped_and_discarded(&self, of: u32) -> (u64, u64) {
        self.events[0].iter().fold((0, 0), |(skipped, discarded), event| match event {
            MediaEvent::Skipped { ssrc, .. } if *ssrc == of => (skipped + 1, discarded),
            MediaEvent::Discarded { ssrc, packets, .. } if *ssrc == of => (skipped, discarded + packets),
            _ => (skipped, discarded),
        })
    }

    /// Sequence numbers and RTP timestamps of a source's packets.
    pub(crate) fn numbers(&self, ssrc: u32) -> Vec<(u16, u32)> {
        let headers = self.sent.iter().filter_map(|(_, datagram)| rtp(datagram));
        headers
            .filter(|header| header.ssrc == ssrc)
            .map(|header| (header.sequence, header.timestamp))
            .collect()
    }
}

/// The header of a media packet.
pub(crate) fn rtp(datagram: &Datagram) -> Option<giusto_rtp::RtpHeader> {
    if matches!(datagram.head.get(1), Some(192..=223)) {
        return None;
    }
    Some(giusto_rtp::RtpHeader::parse(&datagram.head).ok()?.0)
}
