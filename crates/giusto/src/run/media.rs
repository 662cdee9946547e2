//! The two ends of a media flow.

use giusto_congestion::{Controller, Options};
use giusto_session::media::{
    Cut, Framing, MediaEndpoint, MediaReceiver, MediaReceiverConfig, MediaSender, MediaSenderConfig,
    MediaStream, PADDING_TYPE, Packetizer, PayloadFormat, pacer_config,
};
use giusto_sim::{
    random::Random,
    traffic::{
        EncodedEndpoint,
        encoder::{Audio, MediaSource, VIDEO_CLOCK},
    },
};
use giusto_units::{TimeDelta, Timestamp};
use rand::RngExt;

use crate::scenario::{AUDIO_ID, GiveUp, MediaSpec, VideoStream};

/// Payload types of video and audio: dynamic ones (RFC 3551 §6).
const VIDEO_TYPE: u8 = 96;
const AUDIO_TYPE: u8 = 111;

/// Synchronisation sources: of audio, of the videos from this one on, and of the receiver, "recv".
const AUDIO_SSRC: u32 = 1;
const FIRST_VIDEO_SSRC: u32 = 2;
const RECEIVER_SSRC: u32 = 0x7265_6376;

/// A stream of a media flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream<'a> {
    /// Its synchronisation source.
    pub(super) ssrc: u32,
    pub(super) id: &'a str,
    /// The video in the scenario; none for audio.
    pub(super) video: Option<&'a VideoStream>,
}

impl Stream<'_> {
    /// Its priority among the videos; 1 for audio.
    pub(super) fn priority(self) -> f64 {
        self.video.map_or(1.0, |video| video.priority)
    }
}

/// The streams of a flow in the order in which it sends them: audio is number 1, and the videos follow from 2 on.
pub(super) fn streams<'a>(spec: &'a MediaSpec) -> impl Iterator<Item = Stream<'a>> {
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

/// The controller of the sender.
pub(super) fn controller(spec: &MediaSpec) -> Box<dyn Controller> {
    spec.controller.build_with(spec.limits, Options { delay_target: spec.delay_target })
}

/// The sender, from `start` on, and the encoders of its streams. `random` gives the random numbers of each part by its name.
///
/// # Errors
///
/// A source or the sender cannot be built; validation has excluded it.
pub(super) fn sender(
    spec: &MediaSpec,
    controller: Box<dyn Controller>,
    start: Timestamp,
    random: impl Fn(&str) -> Random,
) -> Result<EncodedEndpoint, Box<dyn std::error::Error>> {
    let mut numbers = random("rtp");
    let (needs, audio) = (spec.controller.requirements(), spec.audio.unwrap_or_default());
    let (mut sent, mut sources) = (Vec::new(), Vec::new());
    for stream @ Stream { ssrc, video, .. } in streams(spec) {
        // The random numbers of a video depend on its number, so that further videos do not change them.
        let (source, format, clock_rate): (Box<dyn MediaSource>, _, _) = match (video, ssrc) {
            (None, _) => (Box::new(Audio::new(audio, start)?), audio_format(spec), audio.clock),
            (Some(video), FIRST_VIDEO_SSRC) => {
                (video.video.source(start, random("encoder"))?, VIDEO_FORMAT, VIDEO_CLOCK)
            }
            (Some(video), _) => {
                let random = random(&format!("encoder {}", ssrc - FIRST_VIDEO_SSRC + 1));
                (video.video.source(start, random)?, VIDEO_FORMAT, VIDEO_CLOCK)
            }
        };
        sent.push(MediaStream {
            ssrc,
            payload_type: format.payload_type,
            clock_rate,
            timestamp_offset: numbers.random(),
            limits: source.limits(),
            start_rate: source.target(),
            packetizer: Packetizer::new(spec.max_payload, Cut::Even).ok_or("the maximum payload is 0 B")?,
            framing: format.framing,
            paced: video.is_some(),
            priority: stream.priority(),
            skip_after: video.and_then(|video| after(video.skip_after, needs.staleness.skip_after)),
            discard_after: video.and_then(|video| after(video.discard_after, needs.staleness.discard_after)),
        });
        sources.push(source);
    }
    let config = MediaSenderConfig {
        cname: "sender".to_owned(),
        feedback: spec.reported(),
        pacer: pacer_config(needs.pacer),
        ecn: spec.ecn,
        ..MediaSenderConfig::default()
    };
    let sender = MediaSender::new(config, controller, sent);
    Ok(EncodedEndpoint::new(MediaEndpoint::new(Some(sender), None), sources))
}

/// The receiver.
///
/// # Errors
///
/// The receiver cannot be built; validation has excluded it.
pub(super) fn receiver(spec: &MediaSpec) -> Result<EncodedEndpoint, Box<dyn std::error::Error>> {
    let config = MediaReceiverConfig {
        payloads: vec![VIDEO_FORMAT, audio_format(spec), PayloadFormat::padding(PADDING_TYPE)],
        quench_above: spec.receiver_limit,
        ..MediaReceiverConfig::new(RECEIVER_SSRC, "receiver", spec.reported())
    };
    let receiver = MediaReceiver::new(config)?;
    Ok(EncodedEndpoint::new(MediaEndpoint::new(None, Some(receiver)), Vec::new()))
}

/// When each stream pauses, by its place among them.
pub(super) fn pauses(spec: &MediaSpec) -> impl Iterator<Item = (usize, Vec<(Timestamp, Timestamp)>)> {
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
