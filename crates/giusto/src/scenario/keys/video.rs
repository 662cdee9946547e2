//! Keys of videos: encoders.

use giusto_session::media::RateRange;
use giusto_sim::traffic::encoder::{
    BurstSize, FrameRate, FrameSizes, KeyFrames, Meanwhile, PerfectConfig, RecordedConfig, StatisticalConfig,
    TraceConfig,
};
use giusto_units::{DataRate, DataSize, TimeDelta};

use super::prelude::*;
use crate::scenario::media::{GiveUp, VideoSpec, VideoStream};

/// A weight: beyond this range a share is all or nothing.
pub(super) const PRIORITY: Kind = Number(within(0.001, 1000.0));

pub(super) const PAUSES: Kind = List(&Pair(&Time(ANY), &Time(ANY)));

pub(super) const VIDEO: Group = Group::new("video", &[STREAM]).with_kinds(
    "model",
    Some("statistical"),
    &[
        variant("fixed", "Packets of one size at one rate, without adaptation", &[FIXED]),
        variant("perfect", "Exactly the target rate, after a lag (RFC 8867 §4.3)", &[RATES, PERFECT]),
        variant(
            "recorded",
            "Frames of recorded sizes; requests for key frames have no effect",
            &[RATES, RECORDED],
        ),
        variant("statistical", "The model of RFC 8593 §5", &[RATES, STATISTICAL, SIZE_SCALE]),
        variant("trace", "The model of RFC 8593 §6, over a synthetic scene", &[RATES, SCENE]),
        variant("hybrid", "The model of RFC 8593 §7, over a synthetic scene", &[RATES, STATISTICAL, SCENE]),
    ],
);

keys! { STREAM, stream_keys(to: VideoStream) {
    "id", Name, Said("`video`, or `video-1`, …"), "Name; not `audio`" => to.id;
    "priority", PRIORITY, Is("1"), "Share of the target rate, relative to that of the other videos" => to.priority;
    "skip-after", WAIT, Said("by controller"), "Encode no frame while a packet has waited for longer" => to.skip_after;
    "discard-after", WAIT, Said("by controller"),
        "Discard packets that have waited for longer; always after 10 s" => to.discard_after;
    "pauses", PAUSES, Unset, "Intervals in which this video pauses" => to.pauses;
} }
const WAIT: Kind = Any(&[Time(ABOVE_0), Word("never")]);

keys! { FIXED {
    "rate", Rate(ABOVE_0), Required("5 Mbit/s"), "Payload rate";
    "size", Size(within(1.0, 65_535.0)), Said("`max-payload`"), "Payload of a packet";
} }

keys! { RATES {
    "min", Rate(ABOVE_0), Is("150 kbit/s"), "Lowest payload rate of the encoder";
    "max", Rate(ABOVE_0), Is("1.5 Mbit/s"), "Highest payload rate";
    "start", Rate(ABOVE_0), Is("150 kbit/s"), "First payload rate";
} }

keys! { PERFECT, perfect(to: PerfectConfig) {
    "frame-rate", FRAME_RATE, Is("30"), "Frames per second" => to.frame_rate;
    "lag", Time(ANY), Is("100 ms"), "Reaction time" => to.lag;
    "noise", RATIO, Unset, "Laplacian scale of frame sizes";
    "key-frames", Table(&KEY_FRAMES), Unset, "Key frames" => to.key_frames;
} }
const FRAME_RATE: Kind = Number(within(1.0, 1000.0));

const KEY_FRAMES: Group = Group::new("key-frames", &[KEY_FRAME]);
keys! { KEY_FRAME {
    "size", BURST_SIZE, Required("4"), "Size in mean frames or in bytes";
    "repaid-in", Whole(from(2.0)), Is("8"), "Frames until the average holds again; by default `K_d` of RFC 8593 §5, Figure 2";
    "interval", Whole(from(2.0)), Unset, "Frames from one to the next";
} }
const BURST_SIZE: Kind = Any(&[Size(ABOVE_0), Number(within(1.0, 1000.0))]);

keys! { RECORDED {
    "sizes", List(&Whole(within(10.0, 1e6))), Required("[12000, 2500]"),
        "Bytes of up to 1,000,000 frames, played in order and again";
    "frame-rate", FRAME_RATE, Is("30"), "Frames per second";
    "adapts", Switch, Is("true"),
        "Scale each size by the target over the mean rate of the recording, to 10 to 1,000,000 bytes; if `false`, without `min`, `max` and `start`, as recorded";
} }

keys! { STATISTICAL, statistical(to: StatisticalConfig) {
    "frame-rate", FRAME_RATE, Is("30"), "Frames per second" => to.frame_rate;
    "reaction-latency", Time(ANY), Is("200 ms"), "Time between reactions" => to.reaction_latency;
    "meanwhile", choice::<Meanwhile>(), Is("remembered"), "What becomes of targets in that time" => to.meanwhile;
    "abrupt-change", Number(ANY), Is("0.1"), "Relative change that starts a transient" => to.abrupt_change;
    "burst-frames", Whole(within(1.0, 1000.0)), Is("8"), "Frames of a transient" => to.burst_frames;
    "burst-size", BURST_SIZE, Is("13.5 kB"), "Its first frame, in bytes or in mean frames" => to.burst_size;
    "interval-scale", RATIO, Is("0.15"), "Laplacian scale of frame intervals" => to.interval_scale;
} }
keys! { SIZE_SCALE, size_scale(to: StatisticalConfig) {
    "size-scale", RATIO, Is("0.15"), "Laplacian scale of frame sizes" => to.size_scale;
} }
keys! { SCENE, scene(to: TraceConfig) {
    "skip-frames", Whole(ANY), Is("20"), "Frames skipped at each repetition of the scene" => to.skip_frames;
} }

/// One video or several.
pub(super) fn videos(node: &Node<'_>, max_payload: DataSize) -> Found<Vec<VideoStream>> {
    let all = node.get_ref().as_array().map_or(1, |videos| videos.len());
    let mut number = 0;
    let videos = one_or_many(node, |node| {
        number += 1;
        named(node, &VIDEO, |keys| stream(keys, VideoStream::default_id(number, all), max_payload))
    })?;
    if all == 0 { wrong(node, "the list is empty: add a video, or remove the key") } else { Ok(videos) }
}

/// A video that is called `id` unless it has another id.
fn stream(keys: &mut read::Table<'_>, id: String, max_payload: DataSize) -> VideoStream {
    let mut stream = stream_keys(keys, VideoStream::new(id, VideoSpec::default()));
    match keys.kind(&VIDEO) {
        Some("fixed") => {
            let size = keys.optional("size").unwrap_or(max_payload);
            stream.video = VideoSpec::Fixed { rate: keys.value("rate"), size };
        }
        Some("perfect") => {
            let mut config = perfect(keys, PerfectConfig::default());
            rates(keys, &mut config.limits, &mut config.start_rate);
            stream.video = VideoSpec::Perfect(config, keys.optional("noise"));
        }
        Some("recorded") => recorded(keys, &mut stream.video),
        Some("trace") => {
            let mut config = scene(keys, TraceConfig::default());
            rates(keys, &mut config.limits, &mut config.start_rate);
            stream.video = VideoSpec::Trace(config);
        }
        kind @ Some("statistical" | "hybrid") => {
            let mut config = statistical(keys, StatisticalConfig::default());
            rates(keys, &mut config.limits, &mut config.start_rate);
            stream.video = if kind == Some("hybrid") {
                // Its frame sizes are those of its trace.
                let StatisticalConfig { limits, start_rate, .. } = config;
                let trace = TraceConfig { limits, start_rate, ..TraceConfig::default() };
                VideoSpec::Hybrid(config, scene(keys, trace))
            } else {
                VideoSpec::Statistical(size_scale(keys, config))
            };
        }
        kind => drop(keys.without_reader::<()>(kind)),
    }
    stream
}

/// The rates that an encoder can produce, and the one it starts with.
fn rates(keys: &mut read::Table<'_>, limits: &mut RateRange, start: &mut DataRate) {
    let min = keys.optional("min").unwrap_or(limits.min());
    let max = keys.optional("max").unwrap_or(limits.max());
    match RateRange::new(min, max) {
        Ok(range) => *limits = range,
        Err(error) => keys.wrong("", error),
    }
    keys.set("start", start);
}

fn recorded(keys: &mut read::Table<'_>, video: &mut VideoSpec) {
    let mut frame_rate = FrameRate::default();
    keys.set("frame-rate", &mut frame_rate);
    let sizes = keys.optional("sizes");
    let adapts: bool = keys.value("adapts");
    if !adapts {
        for key in ["min", "max", "start"] {
            keys.refuse(key, "adapts = false plays the sizes as recorded: remove it");
        }
    }
    let adapts = adapts.then(|| {
        let PerfectConfig { mut limits, mut start_rate, .. } = PerfectConfig::default();
        rates(keys, &mut limits, &mut start_rate);
        (limits, start_rate)
    });
    if let Some(sizes) = sizes {
        *video = VideoSpec::Recorded(RecordedConfig { sizes, frame_rate, adapts });
    }
}

impl Read for FrameSizes {
    /// Sizes in bytes.
    fn read(node: &Node<'_>) -> Found<Self> {
        let bytes = Vec::<u64>::read(node)?;
        Self::new(bytes.into_iter().map(DataSize::from_bytes)).or_else(|error| wrong(node, error))
    }
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
        table(node, &KEY_FRAMES, |keys| Self {
            size: keys.optional("size").unwrap_or(BurstSize::Frames(1.0)),
            repaid_in: keys.value("repaid-in"),
            interval: keys.optional("interval"),
        })
    }
}

impl Read for GiveUp {
    fn read(node: &Node<'_>) -> Found<Self> {
        match node.get_ref().as_str() {
            Some("never") => Ok(Self::Never),
            Some(_) => TimeDelta::read(node).map(Self::After),
            None => expected(node, "a time with its unit, such as \"100 ms\", or \"never\""),
        }
    }
}

names!(Meanwhile: vec![("remembered", Self::Remembered), ("ignored", Self::Ignored)]);
