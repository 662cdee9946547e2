//! The two ends of a media flow, in a simulation and in a call.

use giusto_congestion::Controller;
use giusto_session::{
    media::{
        Framing, KeyFrameRequest, MediaEndpoint, MediaReceiver, MediaReceiverConfig, MediaSender,
        MediaSenderConfig, MediaStream, PADDING_SSRC, PADDING_TYPE, Packetizer, ParityStream, PayloadFormat,
        PayloadHeader, RepairConfig, StreamRepair, pacer_config,
    },
    video::{VIDEO_CLOCK, VideoCodec},
};
use giusto_sim::{
    random::Random,
    record::{RepairRecord, StreamKind, StreamRecord},
    traffic::{
        EncodedEndpoint,
        encoder::{Audio, Coded, MediaSource, SourceError},
    },
};
use giusto_units::{DataSize, TimeDelta, Timestamp};
use rand::RngExt;

use crate::scenario::{AUDIO_ID, GiveUp, MediaSpec, VideoStream};

/// Payload types of video and audio: dynamic ones (RFC 3551 §6).
const VIDEO_TYPE: u8 = 96;
const AUDIO_TYPE: u8 = 111;

/// Payload types of their retransmissions, and of parity.
const VIDEO_RTX_TYPE: u8 = 98;
const AUDIO_RTX_TYPE: u8 = 112;
const PARITY_TYPE: u8 = 99;

/// Synchronisation source of the retransmissions of a stream less that of the stream, and of its parity. All sources of an end
/// have the same upper 24 bits.
const RTX_SSRC: u32 = 0x40;
const PARITY_SSRC: u32 = 0x80;

/// Synchronisation sources, counted from the first of the end: of audio, and of the videos from this one on.
pub(crate) const AUDIO_SSRC: u32 = 1;
pub(crate) const FIRST_VIDEO_SSRC: u32 = 2;

/// What distinguishes the ends of one session from those of another.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    /// Added to the synchronisation sources of the streams.
    pub(crate) first: u32,
    /// The source of padding.
    pub(crate) padding: u32,
    /// The source of the receiver.
    pub(crate) receiver: u32,
    /// Header bytes below RTP that count towards the rates.
    pub(crate) overhead: DataSize,
}

impl Ends {
    /// Those of a simulation: the receiver is "recv"; UDP over IPv4.
    pub(crate) const SIMULATED: Self =
        Self { first: 0, padding: PADDING_SSRC, receiver: 0x7265_6376, overhead: DataSize::from_bytes(28) };

    /// Those of one end of a call, whose sources have these upper 24 bits.
    pub(crate) const fn of_call(sources: u32, overhead: DataSize) -> Self {
        Self { first: sources, padding: sources | 0xff, receiver: sources | 0xfe, overhead }
    }
}

/// A stream of a media flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream<'a> {
    /// Its synchronisation source.
    pub(crate) ssrc: u32,
    pub(crate) id: &'a str,
    /// The video in the scenario; none for audio.
    pub(crate) video: Option<&'a VideoStream>,
}

impl Stream<'_> {
    /// Its priority among the videos; 1 for audio.
    pub(crate) fn priority(self) -> f64 {
        self.video.map_or(1.0, |video| video.priority)
    }
}

/// The streams of a flow in the order in which it sends them: audio is number 1, and the videos follow from 2 on.
pub(crate) fn streams<'a>(spec: &'a MediaSpec) -> impl Iterator<Item = Stream<'a>> {
    let audio = spec.audio.map(|_| Stream { ssrc: AUDIO_SSRC, id: AUDIO_ID, video: None });
    let video = |(video, ssrc): (&'a VideoStream, u32)| Stream { ssrc, id: &video.id, video: Some(video) };
    audio.into_iter().chain(spec.videos.iter().zip(FIRST_VIDEO_SSRC..).map(video))
}

/// The time after which a waiting packet is given up; `required` is that of the controller.
const fn after(wait: GiveUp, required: Option<TimeDelta>) -> Option<TimeDelta> {
    match wait {
        GiveUp::AsController => required,
        GiveUp::Never => None,
        GiveUp::After(wait) => Some(wait),
    }
}

/// The records of the streams of a flow before anything has arrived; `first` is added to the synchronisation sources.
pub(crate) fn stream_records(spec: &MediaSpec, first: u32) -> Vec<StreamRecord> {
    let record = |Stream { ssrc, id, video }: Stream<'_>| {
        let kind = if video.is_some() { StreamKind::Video } else { StreamKind::Audio };
        let asks = spec.repair.key_frame_request(spec.codec) != KeyFrameRequest::None;
        let repair = (spec.repair.is_on() || asks && video.is_some()).then(RepairRecord::default);
        let priority = video.map(|video| video.priority);
        StreamRecord { priority, repair, ..StreamRecord::new(id, first + ssrc, kind) }
    };
    streams(spec).map(record).collect()
}

/// The controller of the sender.
pub(crate) fn controller(spec: &MediaSpec) -> Box<dyn Controller> {
    spec.controller.build_with(spec.limits, spec.options)
}

/// Sources that are no models.
#[derive(Debug, Default)]
pub(crate) struct RealSources {
    /// The first video.
    pub(crate) video: Option<Box<dyn MediaSource>>,
    pub(crate) audio: Option<Box<dyn MediaSource>>,
}

/// The sender, from `start` on, and the encoders of its streams: those of `real` where it has them. `random` gives the random
/// numbers of each part by its name.
///
/// # Errors
///
/// A source or the sender cannot be built; validation has excluded it.
pub(crate) fn sender(
    spec: &MediaSpec,
    controller: Box<dyn Controller>,
    ends: Ends,
    start: Timestamp,
    random: impl Fn(&str) -> Random,
    mut real: RealSources,
) -> Result<EncodedEndpoint, Box<dyn std::error::Error>> {
    let mut numbers = random("rtp");
    let (needs, audio) = (spec.controller.requirements(), spec.audio.unwrap_or_default());
    let (mut sent, mut sources) = (Vec::new(), Vec::new());
    for stream @ Stream { ssrc, video, .. } in streams(spec) {
        // The random numbers of a video depend on its number, so that further videos do not change them.
        let (source, format, clock_rate): (Box<dyn MediaSource>, _, _) = match (video, ssrc) {
            (None, _) => {
                let model = || Ok(Box::new(Audio::new(audio, start)?) as Box<dyn MediaSource>);
                let source = real.audio.take().map_or_else::<Result<_, SourceError>, _, _>(model, Ok)?;
                (source, audio_format(spec), audio.clock)
            }
            (Some(video), FIRST_VIDEO_SSRC) => {
                let model = || Ok(coded(spec, video.video.source(start, random("encoder"))?));
                (
                    real.video.take().map_or_else::<Result<_, SourceError>, _, _>(model, Ok)?,
                    VIDEO_FORMAT,
                    VIDEO_CLOCK,
                )
            }
            (Some(video), _) => {
                let random = random(&format!("encoder {}", ssrc - FIRST_VIDEO_SSRC + 1));
                (coded(spec, video.video.source(start, random)?), VIDEO_FORMAT, VIDEO_CLOCK)
            }
        };
        sent.push(MediaStream {
            ssrc: ends.first + ssrc,
            payload_type: format.payload_type,
            clock_rate,
            timestamp_offset: numbers.random(),
            limits: source.limits(),
            start_rate: source.target(),
            packetizer: packetizer(spec, video.is_some())?,
            framing: format.framing,
            paced: video.is_some(),
            priority: stream.priority(),
            skip_after: video.and_then(|video| after(video.skip_after, needs.staleness.skip_after)),
            discard_after: video.and_then(|video| after(video.discard_after, needs.staleness.discard_after)),
            repair: repair(spec, ends.first + ssrc, format.payload_type),
        });
        sources.push(source);
    }
    let config = MediaSenderConfig {
        cname: "sender".to_owned(),
        feedback: spec.reported(),
        pacer: pacer_config(needs.pacer),
        ecn: spec.ecn,
        overhead: ends.overhead,
        padding: (ends.padding, PADDING_TYPE),
        ..MediaSenderConfig::default()
    };
    let sender = MediaSender::new(config, controller, sent);
    Ok(EncodedEndpoint::new(MediaEndpoint::new(Some(sender), None), sources))
}

/// The frames of an encoder model, with the structure of the codec, if there is one.
fn coded(spec: &MediaSpec, model: Box<dyn MediaSource>) -> Box<dyn MediaSource> {
    match spec.codec {
        Some(codec) => Box::new(Coded::new(model, codec)),
        None => model,
    }
}

/// How the frames of audio or of a video are divided.
fn packetizer(spec: &MediaSpec, is_video: bool) -> Result<Packetizer, &'static str> {
    // `max-payload` is that of video: a limit for it does not divide a frame of speech.
    if !is_video {
        return Ok(Packetizer::default());
    }
    let packetizer = Packetizer::new(spec.max_payload).ok_or("the maximum payload is 0 B")?;
    packetizer.with_header(payload_header(spec)).ok_or("the maximum payload has no room for media")
}

/// The payload header of the videos.
fn payload_header(spec: &MediaSpec) -> PayloadHeader {
    spec.codec.map_or(PayloadHeader::None, VideoCodec::payload_header)
}

/// The repair of the stream with this source and payload type.
fn repair(spec: &MediaSpec, ssrc: u32, payload_type: u8) -> StreamRepair {
    let rtx = (RTX_SSRC + ssrc, if payload_type == VIDEO_TYPE { VIDEO_RTX_TYPE } else { AUDIO_RTX_TYPE });
    let parity = spec.repair.parity;
    StreamRepair {
        rtx: spec.repair.nack.then_some(rtx),
        parity: parity.map(|ratio| ParityStream {
            ssrc: PARITY_SSRC + ssrc,
            payload_type: PARITY_TYPE,
            ratio,
        }),
        deadline: spec.repair.playout_deadline,
    }
}

/// The receiver.
///
/// # Errors
///
/// The receiver cannot be built; validation has excluded it.
pub(crate) fn receiver(spec: &MediaSpec, ends: Ends) -> Result<EncodedEndpoint, Box<dyn std::error::Error>> {
    let video = VIDEO_FORMAT.with_header(payload_header(spec));
    let mut payloads = vec![video, audio_format(spec), PayloadFormat::padding(PADDING_TYPE)];
    let repair = spec.repair;
    if repair.nack {
        payloads.push(PayloadFormat::rtx(VIDEO_RTX_TYPE, VIDEO_TYPE));
        payloads.push(PayloadFormat::rtx(AUDIO_RTX_TYPE, AUDIO_TYPE));
    }
    if repair.parity.is_some() {
        payloads.push(PayloadFormat::parity(PARITY_TYPE));
    }
    let config = MediaReceiverConfig {
        payloads,
        repair: RepairConfig { nack: repair.nack, key_frames: repair.key_frame_request(spec.codec) },
        playout_deadline: repair.playout_deadline,
        receive_side: spec.controller.receive_side(),
        report_interval: spec.report_interval,
        quench_above: spec.receiver_limit,
        overhead: ends.overhead,
        ..MediaReceiverConfig::new(ends.receiver, "receiver", spec.reported())
    };
    let receiver = MediaReceiver::new(config)?;
    Ok(EncodedEndpoint::new(MediaEndpoint::new(None, Some(receiver)), Vec::new()))
}

/// When each stream pauses, by its place among them.
pub(crate) fn pauses(spec: &MediaSpec) -> impl Iterator<Item = (usize, Vec<(Timestamp, Timestamp)>)> {
    let own = |(place, stream): (usize, Stream<'_>)| Some((place, spec.pauses_of(stream.video?)));
    streams(spec).enumerate().filter_map(own)
}

const VIDEO_FORMAT: PayloadFormat = PayloadFormat::video(VIDEO_TYPE);

/// A packet is a frame of audio, unless a frame does not fit.
fn audio_format(spec: &MediaSpec) -> PayloadFormat {
    let audio = spec.audio.unwrap_or_default();
    let fits = audio.rate.size_in(audio.packet_time) <= spec.max_payload;
    let format = PayloadFormat::audio(AUDIO_TYPE, audio.clock);
    if fits { format } else { PayloadFormat { framing: Framing::Marker, ..format } }
}
