//! A call with real video across a simulated path, and the frames that arrive.

use std::sync::{Arc, Mutex, PoisonError};

use giusto_congestion::{Fixed, Requirements};
use giusto_session::{
    media::{
        Frame, FrameArrival, KeyFrameRequest, MediaEndpoint, MediaReceiver, MediaReceiverConfig, MediaSender,
        MediaSenderConfig, MediaStream, PADDING_TYPE, Packetizer, ParityRatio, ParityStream, PayloadFormat,
        RateRange, RepairConfig, SourceFigures, StreamFigures, StreamRepair, pacer_config,
    },
    video::{VideoCodec, VideoSource},
};
use giusto_sim::{
    link::{
        LinkConfig,
        loss::Loss,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    packet::{FlowId, Packet},
    simulation::Simulation,
    trace::Note,
    traffic::{Agent, Body, EncodedEndpoint, Media, Transmit, encoder::MediaSource},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

const VIDEO: u8 = 96;
const RTX: u8 = 98;
const PARITY: u8 = 99;
/// The source of the video; those of its retransmissions and parity follow.
const SSRC: u32 = 1;
/// Time for what is on its way at the end.
const REST: TimeDelta = TimeDelta::from_seconds(3);

/// A call of one video with a fixed rate, across links of 5 Mbit/s with 30 ms of delay in each direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VideoCall {
    /// The rate of all its packets, repair included.
    pub(crate) rate: DataRate,
    /// Probability of the loss of a packet, in either direction.
    pub(crate) loss: f64,
    pub(crate) nack: bool,
    pub(crate) parity: bool,
    pub(crate) seed: u64,
    pub(crate) duration: TimeDelta,
}

/// What arrived of a call, and what it took.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// In order of their numbers.
    pub(crate) frames: Vec<Arrived>,
    /// The bytes of all frames of the encoder.
    pub(crate) encoded: u64,
    pub(crate) sent: StreamFigures,
    pub(crate) received: SourceFigures,
}

/// A frame that arrived whole.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    /// Ticks of 1/90,000 s from the first frame that was sent.
    pub(crate) ticks: u64,
    pub(crate) arrival: FrameArrival,
    /// Its delay from capture, less the least delay of all.
    pub(crate) excess: TimeDelta,
}

impl VideoCall {
    /// Holds the call in virtual time.
    pub(crate) fn run(self, source: impl VideoSource + 'static) -> Outcome {
        let codec = source.codec();
        // Different, so that the numbers of packets are.
        let offset = (self.seed as u32).wrapping_mul(0x9e37_79b9);
        let outcome = Arc::new(Mutex::new(Outcome::default()));
        let mut simulation = Simulation::new(self.seed);
        let (near, far) = (simulation.node("near"), simulation.node("far"));
        let link = LinkConfig {
            rate: RateProfile::Fixed(DataRate::from_bps(5_000_000)),
            delay: TimeDelta::from_millis(30).into(),
            loss: Loss::Random(self.loss),
            ..LinkConfig::default()
        };
        for (name, ends) in [("there", (near, far)), ("back", (far, near))] {
            simulation.add_link(name, ends, &link, Box::new(DropTail::new(Limit::Packets(500)))).unwrap();
        }
        let (there, back) =
            (simulation.add_flow(near, far).unwrap(), simulation.add_flow(far, near).unwrap());
        let limits = RateRange::new(DataRate::from_bps(50_000), self.rate).unwrap();
        let encoder = Arc::clone(&outcome);
        let end = Timestamp::ZERO + self.duration;
        let real = Real { source, end, limits, target: self.rate, outcome: encoder };
        let sender = Media::new(self.sender(codec, offset, real), there, there, Timestamp::ZERO)
            .stopping_at(Timestamp::ZERO + self.duration + REST);
        let mut receiver = Media::new(self.receiver(codec), back, there, Timestamp::ZERO);
        receiver.keep_frames();
        for (media, flow) in [(sender, back), (receiver, there)] {
            let end = End { media, outcome: Arc::clone(&outcome) };
            let agent = simulation.add_agent(Box::new(end));
            simulation.deliver(flow, agent);
        }
        simulation.run_until(Timestamp::ZERO + self.duration + REST, &mut ());
        drop(simulation);
        let mut outcome = Arc::into_inner(outcome).unwrap().into_inner().unwrap();
        let delay = |frame: &Arrived| (frame.arrival.at - Timestamp::ZERO) - seconds(frame.ticks);
        for frame in &mut outcome.frames {
            frame.ticks = u64::from(frame.arrival.rtp_timestamp.wrapping_sub(offset));
        }
        let least = outcome.frames.iter().map(delay).min().unwrap_or_default();
        for frame in &mut outcome.frames {
            frame.excess = delay(frame) - least;
        }
        outcome.frames.sort_by_key(|frame| frame.arrival.sequence);
        outcome
    }

    fn sender(self, codec: VideoCodec, offset: u32, source: impl MediaSource + 'static) -> EncodedEndpoint {
        let needs = Fixed::REQUIREMENTS;
        let parity = ParityStream { ssrc: SSRC + 2, payload_type: PARITY, ratio: ParityRatio::Loss };
        let stream = MediaStream {
            timestamp_offset: offset,
            start_rate: self.rate,
            packetizer: Packetizer::default().with_header(codec.payload_header()).unwrap(),
            repair: StreamRepair {
                rtx: self.nack.then_some((SSRC + 1, RTX)),
                parity: self.parity.then_some(parity),
                ..StreamRepair::default()
            },
            ..MediaStream::video(SSRC, VIDEO, source.limits())
        };
        let config = MediaSenderConfig {
            feedback: needs.feedback,
            pacer: pacer_config(needs.pacer),
            ..MediaSenderConfig::default()
        };
        let sender = MediaSender::new(config, Box::new(Fixed::new(self.rate)), vec![stream]);
        EncodedEndpoint::new(MediaEndpoint::new(Some(sender), None), vec![Box::new(source)])
    }

    fn receiver(self, codec: VideoCodec) -> EncodedEndpoint {
        let Requirements { feedback, .. } = Fixed::REQUIREMENTS;
        let mut config = MediaReceiverConfig::new(9, "far", feedback);
        config.payloads = vec![
            PayloadFormat::video(VIDEO).with_header(codec.payload_header()),
            PayloadFormat::padding(PADDING_TYPE),
        ];
        if self.nack {
            config.payloads.push(PayloadFormat::rtx(RTX, VIDEO));
        }
        if self.parity {
            config.payloads.push(PayloadFormat::parity(PARITY));
        }
        config.repair = RepairConfig { nack: self.nack, key_frames: KeyFrameRequest::PictureLoss };
        EncodedEndpoint::new(MediaEndpoint::new(None, Some(MediaReceiver::new(config).unwrap())), Vec::new())
    }
}

fn seconds(ticks: u64) -> TimeDelta {
    giusto_session::video::VideoWriter::time(ticks)
}

/// An end of the call that leaves what it has in `outcome`.
#[derive(Debug)]
struct End {
    media: Media,
    outcome: Arc<Mutex<Outcome>>,
}

impl End {
    fn note(&self, now: Timestamp) {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = self.media.endpoint().sender() {
            outcome.sent = sender.figures(now).next().unwrap();
        }
        if let Some(receiver) = self.media.endpoint().receiver() {
            outcome.received = receiver.sources().find(|one| one.ssrc == SSRC).unwrap_or(outcome.received);
        }
    }
}

impl Agent for End {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, body: &Body) {
        self.media.handle_packet(now, packet, body);
        self.note(now);
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.media.handle_timeout(now);
        self.note(now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        self.media.poll_transmit(now)
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.media.poll_timeout()
    }

    fn gauges(&self, report: &mut dyn FnMut(FlowId, &'static str, f64)) {
        self.media.gauges(report);
    }

    fn poll_note(&mut self) -> Option<Note> {
        let note = self.media.poll_note();
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(arrival) = self.media.poll_arrival() {
            outcome.frames.push(Arrived { ticks: 0, arrival, excess: TimeDelta::ZERO });
        }
        note
    }
}

/// A source of real video as an encoder of the simulator.
#[derive(Debug)]
struct Real<S> {
    source: S,
    /// It makes no frame from then on.
    end: Timestamp,
    limits: RateRange,
    target: DataRate,
    outcome: Arc<Mutex<Outcome>>,
}

impl<S: VideoSource> MediaSource for Real<S> {
    fn next_frame_at(&self) -> Option<Timestamp> {
        self.source.next_frame_at().filter(|&at| at < self.end)
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        self.next_frame_at()?;
        let frame = self.source.poll_frame(now)?;
        let bytes = frame.payload.size().as_bytes();
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).encoded += bytes;
        Some(frame)
    }

    fn set_target(&mut self, now: Timestamp, target: DataRate) {
        self.target = self.limits.clamp(target);
        self.source.set_target(now, self.target);
    }

    fn target(&self) -> DataRate {
        self.target
    }

    fn limits(&self) -> RateRange {
        self.limits
    }

    fn request_key_frame(&mut self, now: Timestamp) {
        self.source.request_key_frame(now);
    }

    fn set_paused(&mut self, _: Timestamp, _: bool) {}

    fn on_skipped(&mut self, now: Timestamp, _: &Frame) {
        self.source.on_skipped(now);
    }
}
