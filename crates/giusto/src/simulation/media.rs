//! The two ends of a media flow, made from what a scenario says of it.

use giusto_core::{
    media::{
        packetizer::{Cut, Packetizer},
        source::{
            Audio, Cbr, FrameRate, HybridEncoder, MediaSource, Noisy, PerfectEncoder, RateRange, SourceError,
            StatisticalEncoder, SyntheticScene, TraceEncoder, TraceLadder, VIDEO_CLOCK,
        },
    },
    session::media::{
        Framing, MediaEndpoint, MediaReceiver, MediaReceiverConfig, MediaSender, MediaSenderConfig,
        MediaStream, PADDING_TYPE, PayloadFormat,
    },
    units::{DataRate, Timestamp},
};
use giusto_sim::random::Random;
use rand::RngExt;

use crate::scenario::{MediaSpec, VideoSpec};

/// The payload types of pictures and sound: dynamic ones (RFC 3551 §6).
const VIDEO_TYPE: u8 = 96;
const AUDIO_TYPE: u8 = 111;
/// The steps of a ladder of traces: "200 kbps would be a reasonable choice" (RFC 8593 §6.1).
const LADDER_STEP: u64 = 200_000;

/// The end that sends, from `start` on. `random` gives the chance of each part by its name.
///
/// # Errors
///
/// Which key of the flow cannot be, and why.
pub(super) fn sender(
    spec: &MediaSpec,
    start: Timestamp,
    random: impl Fn(&str) -> Random,
) -> Result<MediaEndpoint, (&'static str, String)> {
    let mut numbers = random("rtp");
    let mut first = || (numbers.random(), numbers.random());
    let mut streams = Vec::new();
    if let Some(audio) = &spec.audio {
        let source = Audio::new(*audio, start).map_err(|error| ("audio", error.to_string()))?;
        streams.push(MediaStream {
            ssrc: 1,
            payload_type: AUDIO_TYPE,
            clock_rate: audio.clock,
            first: first(),
            source: Box::new(source),
            packetizer: packetizer(spec)?,
            paced: false,
            priority: 1.0,
        });
    }
    if let Some(video) = &spec.video {
        streams.push(MediaStream {
            ssrc: 2,
            payload_type: VIDEO_TYPE,
            clock_rate: VIDEO_CLOCK,
            first: first(),
            source: encoder(video, start, random).map_err(|error| ("video", error.to_string()))?,
            packetizer: packetizer(spec)?,
            paced: true,
            priority: 1.0,
        });
    }
    let config = MediaSenderConfig {
        cname: "sender".to_owned(),
        feedback: spec.feedback.unwrap_or(spec.controller.feedback()),
        pacer: spec.controller.pacer(),
        ecn: spec.ecn,
        ..MediaSenderConfig::default()
    };
    let sender = MediaSender::new(config, spec.controller.build(spec.limits), streams);
    Ok(MediaEndpoint::new(Some(sender), None))
}

/// The end that receives.
///
/// # Errors
///
/// Which key of the flow cannot be, and why.
pub(super) fn receiver(spec: &MediaSpec) -> Result<MediaEndpoint, (&'static str, String)> {
    let feedback = spec.feedback.unwrap_or(spec.controller.feedback());
    let format = |payload_type, clock_rate, framing| PayloadFormat { payload_type, clock_rate, framing };
    let config = MediaReceiverConfig {
        payloads: vec![
            format(VIDEO_TYPE, Some(VIDEO_CLOCK), Framing::Marker),
            format(AUDIO_TYPE, spec.audio.map(|audio| audio.clock), Framing::Packet),
            format(PADDING_TYPE, None, Framing::Nothing),
        ],
        ..MediaReceiverConfig::new(3, "receiver", feedback)
    };
    let receiver = MediaReceiver::new(config).map_err(|error| ("controller", error.to_string()))?;
    Ok(MediaEndpoint::new(None, Some(receiver)))
}

/// The place of the pictures among the streams, if there are any.
pub(super) fn video_stream(spec: &MediaSpec) -> Option<usize> {
    spec.video.as_ref().map(|_| usize::from(spec.audio.is_some()))
}

fn packetizer(spec: &MediaSpec) -> Result<Packetizer, (&'static str, String)> {
    Packetizer::new(spec.max_payload, Cut::Even)
        .ok_or_else(|| ("max-payload", "a packet holds at least 1 B: raise it".to_owned()))
}

/// An encoder that begins at `start`.
///
/// # Errors
///
/// What it cannot be.
pub(crate) fn encoder(
    spec: &VideoSpec,
    start: Timestamp,
    random: impl Fn(&str) -> Random,
) -> Result<Box<dyn MediaSource>, SourceError> {
    let ladder = |limits, frame_rate| {
        TraceLadder::synthetic(frame_rate, &rungs(limits), SyntheticScene::default(), &mut random("scene"))
    };
    Ok(match spec {
        VideoSpec::Fixed { rate, size } => Box::new(Cbr::new(*rate, *size, start)?),
        VideoSpec::Perfect(config, None) => Box::new(PerfectEncoder::new(*config, start)?),
        VideoSpec::Perfect(config, Some(noise)) => {
            Box::new(Noisy::new(PerfectEncoder::new(*config, start)?, *noise, random("encoder"))?)
        }
        VideoSpec::Statistical(config) => {
            Box::new(StatisticalEncoder::new(*config, start, random("encoder"))?)
        }
        VideoSpec::Trace(config) => {
            Box::new(TraceEncoder::new(*config, ladder(config.limits, FrameRate::default())?, start)?)
        }
        VideoSpec::Hybrid(config, trace) => {
            let ladder = ladder(config.limits, config.frame_rate)?;
            Box::new(HybridEncoder::new(*config, ladder, trace.skip_frames, start, random("encoder"))?)
        }
    })
}

/// The rates of a ladder, from the least to the most.
fn rungs(limits: RateRange) -> Vec<DataRate> {
    let (min, max) = (limits.min().as_bps(), limits.max().as_bps());
    let mut rungs: Vec<DataRate> = (min..max).step_by(LADDER_STEP as usize).map(DataRate::from_bps).collect();
    rungs.push(DataRate::from_bps(max));
    rungs
}
