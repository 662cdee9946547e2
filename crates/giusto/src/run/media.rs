//! The two ends of a media flow, made from what a scenario says of it.

use giusto_congestion::Options;
use giusto_session::media::{
    Cut, Framing, MediaEndpoint, MediaReceiver, MediaReceiverConfig, MediaSender, MediaSenderConfig,
    MediaStream, PADDING_TYPE, Packetizer, PayloadFormat, pacer_config,
};
use giusto_sim::{
    random::Random,
    traffic::{
        EncodedEndpoint,
        encoder::{Audio, AudioConfig, MediaSource, VIDEO_CLOCK},
    },
};
use giusto_units::{TimeDelta, Timestamp};
use rand::RngExt;

use crate::scenario::{AUDIO_ID, GiveUp, MediaSpec, VideoStream};

/// The payload types of pictures and sound: dynamic ones (RFC 3551 §6).
const VIDEO_TYPE: u8 = 96;
const AUDIO_TYPE: u8 = 111;

/// The sources: of the sound, of the videos from this on, and of what the receiver sends, "recv".
const AUDIO_SSRC: u32 = 1;
const FIRST_VIDEO_SSRC: u32 = 2;
const RECEIVER_SSRC: u32 = 0x7265_6376;

/// A stream of a media flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream<'a> {
    /// Its synchronisation source.
    pub(super) ssrc: u32,
    /// What it is called.
    pub(super) id: &'a str,
    /// Of a video, what the scenario says of it; none of the sound.
    pub(super) video: Option<&'a VideoStream>,
}

/// The streams of a flow in the order in which it sends them: the sound is number 1, and the videos follow from 2 on.
pub(super) fn streams<'a>(spec: &'a MediaSpec) -> impl Iterator<Item = Stream<'a>> {
    let audio = spec.audio.map(|_| Stream { ssrc: AUDIO_SSRC, id: AUDIO_ID, video: None });
    let video = |(video, ssrc): (&'a VideoStream, u32)| Stream { ssrc, id: &video.id, video: Some(video) };
    audio.into_iter().chain(spec.videos.iter().zip(FIRST_VIDEO_SSRC..).map(video))
}

/// After how long of waiting something is given up, where the controller has `wanted` that.
const fn after(wait: GiveUp, wanted: Option<TimeDelta>) -> Option<TimeDelta> {
    match wait {
        GiveUp::AsController => wanted,
        GiveUp::Never => None,
        GiveUp::After(wait) => Some(wait),
    }
}

/// The end that sends, from `start` on, and the encoders of its streams. `random` gives the random numbers of each part by its name.
///
/// # Errors
///
/// A source or the receiver cannot be built; validation has excluded it.
pub(super) fn sender(
    spec: &MediaSpec,
    start: Timestamp,
    random: impl Fn(&str) -> Random,
) -> Result<EncodedEndpoint, Box<dyn std::error::Error>> {
    let mut numbers = random("rtp");
    let mut sent = Vec::new();
    let mut sources: Vec<Box<dyn MediaSource>> = Vec::new();
    if let Some(audio) = &spec.audio {
        let source = Audio::new(*audio, start)?;
        sent.push(MediaStream {
            ssrc: AUDIO_SSRC,
            payload_type: AUDIO_TYPE,
            clock_rate: audio.clock,
            timestamp_offset: numbers.random(),
            limits: source.limits(),
            start_rate: source.target(),
            packetizer: packetizer(spec)?,
            framing: audio_framing(spec, audio),
            paced: false,
            priority: 1.0,
            skip_after: None,
            discard_after: None,
        });
        sources.push(Box::new(source));
    }
    let stale = spec.controller.requirements().staleness;
    for stream in streams(spec) {
        let Some(video) = stream.video else { continue };
        // By its number: what is added behind it leaves its chance as it was.
        let chance = match stream.ssrc {
            FIRST_VIDEO_SSRC => random("encoder"),
            ssrc => random(&format!("encoder {}", ssrc - FIRST_VIDEO_SSRC + 1)),
        };
        let source = video.video.source(start, chance)?;
        sent.push(MediaStream {
            ssrc: stream.ssrc,
            payload_type: VIDEO_TYPE,
            clock_rate: VIDEO_CLOCK,
            timestamp_offset: numbers.random(),
            limits: source.limits(),
            start_rate: source.target(),
            packetizer: packetizer(spec)?,
            framing: Framing::Marker,
            paced: true,
            priority: video.priority,
            skip_after: after(video.skip_after, stale.skip_after),
            discard_after: after(video.discard_after, stale.discard_after),
        });
        sources.push(source);
    }
    let config = MediaSenderConfig {
        cname: "sender".to_owned(),
        feedback: spec.feedback.unwrap_or(spec.controller.requirements().feedback),
        pacer: pacer_config(spec.controller.requirements().pacer),
        ecn: spec.ecn,
        ..MediaSenderConfig::default()
    };
    let options = Options { delay_target: spec.delay_target };
    let sender = MediaSender::new(config, spec.controller.build_with(spec.limits, options), sent);
    Ok(EncodedEndpoint::new(MediaEndpoint::new(Some(sender), None), sources))
}

/// The end that receives.
///
/// # Errors
///
/// A source or the receiver cannot be built; validation has excluded it.
pub(super) fn receiver(spec: &MediaSpec) -> Result<EncodedEndpoint, Box<dyn std::error::Error>> {
    let feedback = spec.feedback.unwrap_or(spec.controller.requirements().feedback);
    let config = MediaReceiverConfig {
        payloads: vec![
            PayloadFormat::video(VIDEO_TYPE),
            PayloadFormat {
                payload_type: AUDIO_TYPE,
                clock_rate: Some(spec.audio.map_or(VIDEO_CLOCK, |audio| audio.clock)),
                framing: spec.audio.map_or(Framing::Packet, |audio| audio_framing(spec, &audio)),
            },
            PayloadFormat::padding(PADDING_TYPE),
        ],
        quench_above: spec.receiver_limit,
        ..MediaReceiverConfig::new(RECEIVER_SSRC, "receiver", feedback)
    };
    let receiver = MediaReceiver::new(config)?;
    Ok(EncodedEndpoint::new(MediaEndpoint::new(None, Some(receiver)), Vec::new()))
}

/// When each stream pauses, by its place among them.
pub(super) fn pauses(spec: &MediaSpec) -> impl Iterator<Item = (usize, Vec<(Timestamp, Timestamp)>)> {
    let own = |(place, stream): (usize, Stream<'_>)| Some((place, spec.pauses_of(stream.video?)));
    streams(spec).enumerate().filter_map(own)
}

/// A packet is a frame of audio, unless a frame does not fit.
fn audio_framing(spec: &MediaSpec, audio: &AudioConfig) -> Framing {
    if audio.rate.size_in(audio.packet_time) <= spec.max_payload { Framing::Packet } else { Framing::Marker }
}

fn packetizer(spec: &MediaSpec) -> Result<Packetizer, &'static str> {
    Packetizer::new(spec.max_payload, Cut::Even).ok_or("the maximum payload is 0 B")
}
