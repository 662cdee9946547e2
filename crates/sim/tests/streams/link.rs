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
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

pub(crate) const VIDEO_TYPE: u8 = 96;
pub(crate) const AUDIO_TYPE: u8 = 111;
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
        timestamp_offset: 65_000,
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
    let source = Audio::new(AudioConfig::default(), Timestamp::ZERO).unwrap();
    (MediaStream::audio(ssrc, AUDIO_TYPE, 48_000, source.target()), Box::new(source))
}

/// A sender with its encoders.
pub(crate) fn near(
    config: MediaSenderConfig,
    controller: Box<dyn Controller>,
    streams: Vec<Encoded>,
) -> EncodedEndpoint {
    let (streams, sources) = streams.into_iter().unzip();
    EncodedEndpoint::new(
        MediaEndpoint::new(Some(MediaSender::new(config, controller, streams)), None),
        sources,
    )
}

pub(crate) fn sender(kind: Algorithm, limits: Limits, streams: Vec<Encoded>) -> EncodedEndpoint {
    let config = MediaSenderConfig {
        feedback: kind.requirements().feedback,
        pacer: pacer_config(kind.requirements().pacer),
        ..MediaSenderConfig::default()
    };
    near(config, kind.build(limits), streams)
}

pub(crate) fn receiver(kind: Algorithm) -> MediaReceiver {
    MediaReceiver::new(MediaReceiverConfig {
        payloads: vec![
            PayloadFormat::video(VIDEO_TYPE),
            PayloadFormat::audio(AUDIO_TYPE, 48_000),
            PayloadFormat::padding(PADDING_TYPE),
        ],
        ..MediaReceiverConfig::new(9999, "far", kind.requirements().feedback)
    })
    .unwrap()
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
    pub(crate) streams: Vec<StreamState>,
    /// The whole queue, as reported together with the streams.
    pub(crate) queue: QueueState,
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
    fn on_feedback(&mut self, _: Timestamp, _: &Feedback<'_>) {}
    fn on_streams(&mut self, _: Timestamp, streams: &[StreamState]) {
        self.script.lock().unwrap().streams = streams.to_vec();
    }
    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let mut script = self.script.lock().unwrap();
        let queued: DataSize = script.streams.iter().map(|stream| stream.queue.size).sum();
        script.streams_reported &= queued == queue.size;
        script.queue = *queue;
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
        Box::new(Self {
            script: Arc::new(Mutex::new(self.script.lock().unwrap().clone())),
            each: self.each.clone(),
            ..*self
        })
    }
}

/// Both ends, a bottleneck towards the receiver, and a delay on the return path.
pub(crate) struct Run {
    pub(crate) ends: [EncodedEndpoint; 2],
    pub(crate) rate: DataRate,
    pub(crate) delay: TimeDelta,
    /// Maximum queueing delay at the bottleneck; further packets are dropped.
    pub(crate) buffer: TimeDelta,
    /// Whether feedback is delivered.
    pub(crate) feedback: bool,
    free: Timestamp,
    on_the_way: [VecDeque<(Timestamp, Datagram)>; 2],
    pub(crate) now: Timestamp,
    pub(crate) events: [Vec<MediaEvent>; 2],
    /// Datagrams of the sender, with their times.
    pub(crate) sent: Vec<(Timestamp, Datagram)>,
    /// Maximum age of a queued packet.
    pub(crate) oldest: TimeDelta,
}

impl Run {
    pub(crate) fn new(sender: EncodedEndpoint, receiver: MediaReceiver) -> Self {
        Self {
            ends: [sender, EncodedEndpoint::new(MediaEndpoint::new(None, Some(receiver)), Vec::new())],
            rate: kbps(100_000),
            delay: millis(20),
            buffer: millis(300),
            feedback: true,
            free: Timestamp::ZERO,
            on_the_way: Default::default(),
            now: Timestamp::ZERO,
            events: Default::default(),
            sent: Vec::new(),
            oldest: TimeDelta::ZERO,
        }
    }

    pub(crate) fn of(kind: Algorithm, limits: Limits, streams: Vec<Encoded>) -> Self {
        Self::new(sender(kind, limits, streams), receiver(kind))
    }

    pub(crate) fn until(&mut self, end: Timestamp) {
        loop {
            let arrivals = self.on_the_way.iter().filter_map(|way| Some(way.front()?.0));
            let timeouts = self.ends.iter().filter_map(EncodedEndpoint::poll_timeout);
            let Some(next) = arrivals.chain(timeouts).min().filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            for to in [0, 1] {
                while self.on_the_way[to].front().is_some_and(|way| way.0 <= self.now) {
                    let (_, datagram) = self.on_the_way[to].pop_front().unwrap();
                    self.ends[to].handle_datagram(self.now, &datagram, Ecn::NotEct);
                }
            }
            for end in [0, 1] {
                if self.ends[end].poll_timeout().is_some_and(|due| due <= self.now) {
                    self.ends[end].handle_timeout(self.now);
                }
                self.drain(end);
                let next = self.ends[end].poll_timeout();
                assert!(next.is_none_or(|next| next > self.now), "end {end} spins at {:?}", self.now);
            }
            self.oldest = self.oldest.max(self.sender().queue(self.now).oldest);
        }
        self.now = self.now.max(end);
    }

    pub(crate) fn drain(&mut self, from: usize) {
        while let Some(datagram) = self.ends[from].poll_transmit(self.now) {
            if from == 1 {
                if self.feedback {
                    self.on_the_way[0].push_back((self.now + self.delay, datagram));
                }
                continue;
            }
            self.sent.push((self.now, datagram.clone()));
            let begin = self.free.max(self.now);
            if begin - self.now <= self.buffer {
                self.free = begin + self.rate.time_for(datagram.size() + UDP).unwrap();
                self.on_the_way[1].push_back((self.free + self.delay, datagram));
            }
        }
        while let Some(event) = self.ends[from].poll_event() {
            self.events[from].push(event);
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
