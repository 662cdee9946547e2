//! Keys of media flows: encoders, audio and controller.

use giusto_congestion::Algorithm;
use giusto_session::{
    media::{DEFAULT_MAX_PAYLOAD, KeyFrameRequest, ParityRatio, RateRange},
    video::VideoCodec,
};
use giusto_sim::traffic::encoder::{
    AudioConfig, BurstSize, FrameRate, FrameSizes, KeyFrames, Meanwhile, PerfectConfig, RecordedConfig,
    StatisticalConfig, TraceConfig,
};
use giusto_units::{DataRate, DataSize};

use super::{
    quantity::at_least,
    value::{Found, Node, Read, Table, choice, named, one_or_many, table, wrong},
};
use crate::scenario::media::{FEEDBACKS, MediaSpec, RepairSpec, VideoSpec, VideoStream};

/// The default number of frames after which a key frame is repaid: `K_d` of RFC 8593 §5, Figure 2.
const REPAID_IN: u32 = 8;

/// The media of a flow: by default a video. `own` are controllers besides the built-in ones.
pub(super) fn media(keys: &mut Table<'_>, own: &[Algorithm]) -> MediaSpec {
    session(keys, None, own)
}

/// The media of a call: by default a video and audio.
pub(super) fn call(keys: &mut Table<'_>) -> MediaSpec {
    session(keys, Some(AudioConfig::default()), &[])
}

fn session(keys: &mut Table<'_>, default_audio: Option<AudioConfig>, own: &[Algorithm]) -> MediaSpec {
    let algorithms =
        Algorithm::all().chain(own.iter().copied()).map(|algorithm| (algorithm.name(), algorithm));
    let controller = keys.with("controller", |node| choice(node, algorithms));
    let feedback = keys.with("feedback", |node| choice(node, FEEDBACKS.iter().copied()));
    let max_payload = keys.optional("max-payload").unwrap_or(DEFAULT_MAX_PAYLOAD);
    let rates = ["min-rate", "start-rate", "max-rate"].map(|key| keys.optional(key));
    let audio = keys.optional("audio");
    let is_audio_only = audio.is_some() && default_audio.is_none();
    let audio = audio.or(default_audio);
    let media = match keys.with("video", |node| videos(node, max_payload)) {
        Some(videos) => MediaSpec::with_videos(videos, audio),
        // The default is the video of RFC 8867 §4.3.
        None => MediaSpec::new((!is_audio_only).then(VideoSpec::default), audio),
    };
    let mut media = MediaSpec { feedback, max_payload, ..media };
    media.controller = controller.unwrap_or(media.controller);
    media.limits = media.limits_where_given(rates);
    keys.set("pauses", &mut media.pauses);
    keys.set("route-changes", &mut media.route_changes);
    keys.set("delay-target", &mut media.options.delay_target);
    keys.set("priority", &mut media.options.priority);
    keys.set("authors-laws", &mut media.options.authors_laws);
    keys.set("probe-while-limited", &mut media.options.probe_while_limited);
    keys.set("receiver-limit", &mut media.receiver_limit);
    keys.set("ecn", &mut media.ecn);
    repair(keys, &mut media.repair);
    let codecs = VideoCodec::ALL.map(|codec| (codec.name(), codec));
    media.codec = keys.with("codec", |node| choice(node, codecs));
    media
}

/// The repair of lost packets.
fn repair(keys: &mut Table<'_>, spec: &mut RepairSpec) {
    let kinds = [
        ("none", (false, false)),
        ("nack", (true, false)),
        ("flexfec", (false, true)),
        ("nack+flexfec", (true, true)),
    ];
    let (nack, parity) = keys.with("repair", |node| choice(node, kinds)).unwrap_or_default();
    let ratio = keys.with("fec-ratio", |node| {
        if node.get_ref().is_str() {
            choice(node, [("loss", ParityRatio::Loss)])
        } else {
            f64::read(node).map(ParityRatio::Fixed)
        }
    });
    if ratio.is_some() && !parity {
        keys.wrong(
            "fec-ratio",
            "fec-ratio needs repair = \"flexfec\" or \"nack+flexfec\": add it, or remove this",
        );
    }
    (spec.nack, spec.parity) = (nack, parity.then(|| ratio.unwrap_or(ParityRatio::Loss)));
    keys.set("playout-deadline", &mut spec.playout_deadline);
    let requests = [
        ("pli", KeyFrameRequest::PictureLoss),
        ("fir", KeyFrameRequest::FullIntra),
        ("none", KeyFrameRequest::None),
    ];
    spec.key_frames = keys.with("key-frame-request", |node| choice(node, requests));
}

impl Read for AudioConfig {
    fn read(node: &Node<'_>) -> Found<Self> {
        if !node.get_ref().is_table() {
            return DataRate::read(node).map(|rate| Self { rate, ..Self::default() });
        }
        table(node, |keys| {
            let mut audio = Self::default();
            keys.set("rate", &mut audio.rate);
            keys.set("packet-time", &mut audio.packet_time);
            audio
        })
    }
}

fn videos(node: &Node<'_>, max_payload: DataSize) -> Found<Vec<VideoStream>> {
    let all = node.get_ref().as_array().map_or(1, |videos| videos.len());
    let mut number = 0;
    let videos = one_or_many(node, |node| {
        number += 1;
        named(node, |keys| stream(keys, VideoStream::default_id(number, all), max_payload))
    })?;
    if all == 0 { wrong(node, "the list is empty: add a video, or remove the key") } else { Ok(videos) }
}

/// A video that is called `id` unless it has another id.
fn stream(keys: &mut Table<'_>, id: String, max_payload: DataSize) -> VideoStream {
    let mut stream = VideoStream::new(id, VideoSpec::default());
    keys.set("id", &mut stream.id);
    keys.set("priority", &mut stream.priority);
    keys.set("skip-after", &mut stream.skip_after);
    keys.set("discard-after", &mut stream.discard_after);
    keys.set("pauses", &mut stream.pauses);
    let fixed = |keys: &mut Table<'_>| VideoSpec::Fixed {
        rate: keys.required("rate"),
        size: keys.optional("size").unwrap_or(max_payload),
    };
    let video = keys.kind(
        "model",
        Some("statistical"),
        &[
            ("fixed", &fixed),
            ("perfect", &perfect),
            ("recorded", &recorded),
            ("statistical", &|keys| {
                let mut config = statistical(keys);
                keys.set("size-scale", &mut config.size_scale);
                VideoSpec::Statistical(config)
            }),
            ("trace", &|keys| {
                let mut config = TraceConfig::default();
                rates(keys, &mut config.limits, &mut config.start_rate);
                VideoSpec::Trace(TraceConfig { skip_frames: skip_frames(keys), ..config })
            }),
            ("hybrid", &|keys| {
                // Its frame sizes are those of its trace.
                let config @ StatisticalConfig { limits, start_rate, .. } = statistical(keys);
                VideoSpec::Hybrid(config, TraceConfig { limits, start_rate, skip_frames: skip_frames(keys) })
            }),
        ],
    );
    VideoStream { video: video.unwrap_or_default(), ..stream }
}

/// The rates that an encoder can produce, and the one it starts with.
fn rates(keys: &mut Table<'_>, limits: &mut RateRange, start: &mut DataRate) {
    let min = keys.optional("min").unwrap_or(limits.min());
    let max = keys.optional("max").unwrap_or(limits.max());
    match RateRange::new(min, max) {
        Ok(range) => *limits = range,
        Err(error) => keys.wrong("", error),
    }
    keys.set("start", start);
}

fn perfect(keys: &mut Table<'_>) -> VideoSpec {
    let mut config = PerfectConfig::default();
    rates(keys, &mut config.limits, &mut config.start_rate);
    keys.set("frame-rate", &mut config.frame_rate);
    keys.set("lag", &mut config.lag);
    keys.set("key-frames", &mut config.key_frames);
    VideoSpec::Perfect(config, keys.optional("noise"))
}

fn recorded(keys: &mut Table<'_>) -> VideoSpec {
    let mut frame_rate = FrameRate::default();
    keys.set("frame-rate", &mut frame_rate);
    let sizes = keys.required_with("sizes", frame_sizes);
    let adapts = keys.optional("adapts").unwrap_or(true).then(|| {
        let PerfectConfig { mut limits, mut start_rate, .. } = PerfectConfig::default();
        rates(keys, &mut limits, &mut start_rate);
        (limits, start_rate)
    });
    // Without sizes the error is noted, and any video does.
    sizes.map_or_else(VideoSpec::default, |sizes| {
        VideoSpec::Recorded(RecordedConfig { sizes, frame_rate, adapts })
    })
}

/// Sizes in bytes.
fn frame_sizes(node: &Node<'_>) -> Found<FrameSizes> {
    let bytes = Vec::<u64>::read(node)?;
    FrameSizes::new(bytes.into_iter().map(DataSize::from_bytes)).or_else(|error| wrong(node, error))
}

fn statistical(keys: &mut Table<'_>) -> StatisticalConfig {
    let mut config = StatisticalConfig::default();
    rates(keys, &mut config.limits, &mut config.start_rate);
    keys.set("frame-rate", &mut config.frame_rate);
    keys.set("reaction-latency", &mut config.reaction_latency);
    let meanwhile = [("remembered", Meanwhile::Remembered), ("ignored", Meanwhile::Ignored)];
    keys.set_with("meanwhile", &mut config.meanwhile, |node| choice(node, meanwhile));
    keys.set("abrupt-change", &mut config.abrupt_change);
    keys.set("burst-frames", &mut config.burst_frames);
    keys.set("burst-size", &mut config.burst_size);
    keys.set("interval-scale", &mut config.interval_scale);
    config
}

fn skip_frames(keys: &mut Table<'_>) -> usize {
    let frames = keys.with("skip-frames", at_least(0));
    frames.map_or(TraceConfig::default().skip_frames, |frames| frames as usize)
}

impl Read for FrameRate {
    fn read(node: &Node<'_>) -> Found<Self> {
        Self::from_hertz(f64::read(node)?).or_else(|error| wrong(node, error))
    }
}

impl Read for BurstSize {
    /// A size, or a number of mean frames.
    fn read(node: &Node<'_>) -> Found<Self> {
        if node.get_ref().is_str() {
            DataSize::read(node).map(Self::Fixed)
        } else {
            f64::read(node).map(Self::Frames)
        }
    }
}

impl Read for KeyFrames {
    fn read(node: &Node<'_>) -> Found<Self> {
        table(node, |keys| Self {
            size: keys.required_with("size", BurstSize::read).unwrap_or(BurstSize::Frames(1.0)),
            repaid_in: keys.with("repaid-in", at_least(2)).unwrap_or(REPAID_IN),
            interval: keys.with("interval", at_least(2)),
        })
    }
}

#[cfg(test)]
mod tests;
