//! The two ends of a media flow, made from what a scenario says of it.

use giusto_core::{
    media::{
        packetizer::{Cut, Packetizer},
        source::{Audio, VIDEO_CLOCK},
    },
    session::media::{
        MediaEndpoint, MediaReceiver, MediaReceiverConfig, MediaSender, MediaSenderConfig, MediaStream,
        PADDING_TYPE, PayloadFormat,
    },
    units::Timestamp,
};
use giusto_sim::random::Random;
use rand::RngExt;

use crate::scenario::MediaSpec;

/// The payload types of pictures and sound: dynamic ones (RFC 3551 §6).
const VIDEO_TYPE: u8 = 96;
const AUDIO_TYPE: u8 = 111;

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
            skip_after: None,
            discard_after: None,
        });
    }
    if let Some(video) = &spec.video {
        streams.push(MediaStream {
            ssrc: 2,
            payload_type: VIDEO_TYPE,
            clock_rate: VIDEO_CLOCK,
            first: first(),
            source: video.source(start, random("encoder")).map_err(|error| ("video", error.to_string()))?,
            packetizer: packetizer(spec)?,
            paced: true,
            priority: 1.0,
            skip_after: None,
            discard_after: None,
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
    let config = MediaReceiverConfig {
        payloads: vec![
            PayloadFormat::video(VIDEO_TYPE),
            PayloadFormat::audio(AUDIO_TYPE, spec.audio.map_or(VIDEO_CLOCK, |audio| audio.clock)),
            PayloadFormat::padding(PADDING_TYPE),
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
