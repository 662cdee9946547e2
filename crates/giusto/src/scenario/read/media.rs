//! Adaptive media: the encoder, the sound and the controller.

use giusto_congestion::ControllerKind;
use giusto_session::media::{DEFAULT_MAX_PAYLOAD, RateRange};
use giusto_sim::traffic::encoder::{
    AudioConfig, BurstSize, FrameRate, KeyFrames, Meanwhile, PerfectConfig, StatisticalConfig, TraceConfig,
};
use giusto_units::{DataRate, DataSize, Timestamp};

use super::{choose, choose_of, fields::Fields};
use crate::scenario::{
    FlowKind, GiveUp, MediaSpec, VideoSpec, VideoStream,
    media::FEEDBACKS,
    tree::{Node, Value},
};

#[derive(Debug, Clone, Copy)]
enum Model {
    Fixed,
    Perfect,
    Statistical,
    Trace,
    Hybrid,
}

const MODELS: &[(&str, Model)] = &[
    ("fixed", Model::Fixed),
    ("perfect", Model::Perfect),
    ("statistical", Model::Statistical),
    ("trace", Model::Trace),
    ("hybrid", Model::Hybrid),
];

/// A picture that a receiver can decode alone is repaid in so many frames: `K_d` of RFC 8593 §5, Figure 2.
const REPAID_IN: u32 = 8;

pub(super) fn media(fields: &Fields<'_>) -> Option<FlowKind> {
    let controllers = ControllerKind::ALL.map(|kind| (kind.name(), kind));
    let controller = given(fields, "controller", |fields, key| choose(fields, key, &controllers));
    let feedback = given(fields, "feedback", |fields, key| choose(fields, key, FEEDBACKS));
    let max_payload = given(fields, "max-payload", Fields::size);
    let limits = ["min-rate", "start-rate", "max-rate"].map(|key| given(fields, key, Fields::rate));
    let audio = given(fields, "audio", audio);
    let size = max_payload.flatten();
    let videos = given(fields, "video", |fields, key| videos(fields, key, size));
    let pauses = pauses(fields);
    let delay_target = given(fields, "delay-target", Fields::time);
    let receiver_limit = given(fields, "receiver-limit", Fields::rate);
    let ecn = super::flow::ecn(fields);

    let [min, start, max] = limits;
    let (videos, audio) = (videos?, audio?);
    let mut media = match videos {
        Some(videos) => MediaSpec::with_videos(videos, audio),
        // Who names neither wants what RFC 8867 §4.3 sends.
        None => MediaSpec::new(audio.is_none().then(VideoSpec::default), audio),
    };
    media.controller = controller?.unwrap_or(media.controller);
    media.max_payload = max_payload?.unwrap_or(media.max_payload);
    media.limits = media.limits_where_given([min?, start?, max?]);
    media.feedback = feedback?;
    media.pauses = pauses?;
    media.delay_target = delay_target?;
    media.receiver_limit = receiver_limit?;
    media.ecn = ecn?;
    Some(FlowKind::Media(media))
}

/// What `read` gives for `key`, if it is there; `None` if it is there and cannot be used.
#[expect(clippy::option_option, reason = "what is there, what is not, and what is wrong are three things")]
fn given<'a, T>(
    fields: &Fields<'a>,
    key: &'static str,
    read: impl Fn(&Fields<'a>, &'static str) -> Option<T>,
) -> Option<Option<T>> {
    if fields.node(key).is_none() { Some(None) } else { read(fields, key).map(Some) }
}

/// A rate, or a rate and a packet time.
fn audio(fields: &Fields<'_>, key: &'static str) -> Option<AudioConfig> {
    let default = AudioConfig::default();
    let Some(inner) = fields.table(key) else {
        return fields.rate(key).map(|rate| AudioConfig { rate, ..default });
    };
    let rate = given(&inner, "rate", Fields::rate);
    let packet_time = given(&inner, "packet-time", Fields::time);
    inner.finish();
    Some(AudioConfig {
        rate: rate?.unwrap_or(default.rate),
        packet_time: packet_time?.unwrap_or(default.packet_time),
        ..default
    })
}

/// One video, or a list of them.
fn videos(fields: &Fields<'_>, key: &'static str, max_payload: Option<DataSize>) -> Option<Vec<VideoStream>> {
    let node = fields.node(key)?;
    let Value::Array(nodes) = &node.value else {
        let id = VideoStream::default_id(1, 1);
        return video(fields, node, (key, id), max_payload).map(|video| vec![video]);
    };
    if nodes.is_empty() {
        let mend = "write at least one, such as [{ model = \"perfect\" }], or leave the key out";
        fields.complain(node, key, format_args!("a list of none: {mend}"));
        return None;
    }
    let one = |(node, number): (&Node, usize)| {
        let name = match node.get("id").and_then(Node::as_text) {
            Some(id) => format!("{key} \"{id}\""),
            None => format!("{key} {number}"),
        };
        video(fields, node, (&name, VideoStream::default_id(number, nodes.len())), max_payload)
    };
    // All are read, so that all that is wrong is told.
    let videos: Vec<_> = nodes.iter().zip(1..).map(one).collect();
    videos.into_iter().collect()
}

/// The name of a model, or a model with its parameters and what else the stream has. Complaints call it `name`, and results `id`
/// unless it has one.
fn video(
    fields: &Fields<'_>,
    node: &Node,
    (name, id): (&str, String),
    max_payload: Option<DataSize>,
) -> Option<VideoStream> {
    if !matches!(node.value, Value::Table(_)) {
        return named_model(fields, node, name).map(|video| VideoStream::new(id, video));
    }
    let inner = Fields::new(node, format!("{}: {name}", fields.owner()), fields.findings());
    let video = model(&inner, max_payload);
    let own_id = given(&inner, "id", Fields::text);
    let priority = given(&inner, "priority", Fields::number);
    let [skip_after, discard_after] = ["skip-after", "discard-after"].map(|key| given(&inner, key, give_up));
    let pauses = pauses(&inner);
    inner.finish();
    let stream = VideoStream::new(own_id?.unwrap_or(id), video?);
    Some(VideoStream {
        priority: priority?.unwrap_or(stream.priority),
        skip_after: skip_after?.unwrap_or_default(),
        discard_after: discard_after?.unwrap_or_default(),
        pauses: pauses?,
        ..stream
    })
}

/// A time, or "never".
fn give_up(fields: &Fields<'_>, key: &'static str) -> Option<GiveUp> {
    if fields.node(key)?.as_text() == Some("never") {
        return Some(GiveUp::Never);
    }
    fields.time(key).map(GiveUp::After)
}

/// A model with the parameters that it has by default.
fn named_model(fields: &Fields<'_>, node: &Node, name: &str) -> Option<VideoSpec> {
    match choose_of(fields, node, name, MODELS)? {
        Model::Fixed => {
            let mend = "write { model = \"fixed\", rate = \"1 Mbit/s\" }";
            fields.complain(node, name, format_args!("\"fixed\" needs a rate: {mend}"));
            None
        }
        Model::Perfect => Some(VideoSpec::Perfect(PerfectConfig::default(), None)),
        Model::Statistical => Some(VideoSpec::default()),
        Model::Trace => Some(VideoSpec::Trace(TraceConfig::default())),
        Model::Hybrid => Some(VideoSpec::Hybrid(StatisticalConfig::default(), TraceConfig::default())),
    }
}

/// A model with its parameters.
fn model(inner: &Fields<'_>, max_payload: Option<DataSize>) -> Option<VideoSpec> {
    let model = given(inner, "model", |fields, key| choose(fields, key, MODELS))?;
    match model.unwrap_or(Model::Statistical) {
        Model::Fixed => fixed(inner, max_payload),
        Model::Perfect => perfect(inner),
        Model::Statistical => statistical(inner, true).map(VideoSpec::Statistical),
        Model::Trace => trace(inner).map(VideoSpec::Trace),
        Model::Hybrid => {
            let (statistical, trace) = (statistical(inner, false), trace(inner));
            statistical.zip(trace).map(|(statistical, trace)| VideoSpec::Hybrid(statistical, trace))
        }
    }
}

fn fixed(fields: &Fields<'_>, max_payload: Option<DataSize>) -> Option<VideoSpec> {
    let rate = fields.required("rate", Fields::rate);
    let size = given(fields, "size", Fields::size);
    let most = max_payload.unwrap_or(DEFAULT_MAX_PAYLOAD);
    Some(VideoSpec::Fixed { rate: rate?, size: size?.unwrap_or(most) })
}

fn perfect(fields: &Fields<'_>) -> Option<VideoSpec> {
    let default = PerfectConfig::default();
    let range = range(fields);
    let (frame_rate, lag) = (given(fields, "frame-rate", frame_rate), given(fields, "lag", Fields::time));
    let noise = given(fields, "noise", Fields::number);
    let key_frames = given(fields, "key-frames", key_frames);
    let (limits, start_rate) = range?;
    let config = PerfectConfig {
        limits,
        start_rate: start_rate.unwrap_or(default.start_rate),
        frame_rate: frame_rate?.unwrap_or(default.frame_rate),
        lag: lag?.unwrap_or(default.lag),
        key_frames: key_frames?,
    };
    Some(VideoSpec::Perfect(config, noise?))
}

/// The parameters of RFC 8593 §5; the sizes of a hybrid encoder come from its trace.
fn statistical(fields: &Fields<'_>, with_sizes: bool) -> Option<StatisticalConfig> {
    const MEANWHILE: &[(&str, Meanwhile)] =
        &[("remembered", Meanwhile::Remembered), ("ignored", Meanwhile::Ignored)];
    let default = StatisticalConfig::default();
    let range = range(fields);
    let frame_rate = given(fields, "frame-rate", frame_rate);
    let reaction_latency = given(fields, "reaction-latency", Fields::time);
    let meanwhile = given(fields, "meanwhile", |fields, key| choose(fields, key, MEANWHILE));
    let abrupt_change = given(fields, "abrupt-change", Fields::number);
    let burst_frames = given(fields, "burst-frames", |fields, key| fields.count(key, 1));
    let burst_size = given(fields, "burst-size", burst_size);
    let interval_scale = given(fields, "interval-scale", Fields::number);
    let size_scale = if with_sizes { given(fields, "size-scale", Fields::number) } else { Some(None) };
    let (limits, start_rate) = range?;
    Some(StatisticalConfig {
        limits,
        start_rate: start_rate.unwrap_or(default.start_rate),
        frame_rate: frame_rate?.unwrap_or(default.frame_rate),
        reaction_latency: reaction_latency?.unwrap_or(default.reaction_latency),
        meanwhile: meanwhile?.unwrap_or(default.meanwhile),
        abrupt_change: abrupt_change?.unwrap_or(default.abrupt_change),
        burst_frames: burst_frames?.unwrap_or(default.burst_frames),
        burst_size: burst_size?.unwrap_or(default.burst_size),
        interval_scale: interval_scale?.unwrap_or(default.interval_scale),
        size_scale: size_scale?.unwrap_or(default.size_scale),
    })
}

fn trace(fields: &Fields<'_>) -> Option<TraceConfig> {
    let default = TraceConfig::default();
    let range = range(fields);
    let skip_frames = given(fields, "skip-frames", |fields, key| fields.count(key, 0));
    let (limits, start_rate) = range?;
    Some(TraceConfig {
        limits,
        start_rate: start_rate.unwrap_or(default.start_rate),
        skip_frames: skip_frames?.map_or(default.skip_frames, |frames| frames as usize),
    })
}

/// The rates that an encoder can produce, and where it begins.
fn range(fields: &Fields<'_>) -> Option<(RateRange, Option<DataRate>)> {
    let default = RateRange::default();
    let (min, max) = (given(fields, "min", Fields::rate), given(fields, "max", Fields::rate));
    let start = given(fields, "start", Fields::rate);
    let limits = RateRange::new(min?.unwrap_or(default.min()), max?.unwrap_or(default.max()));
    let limits = limits.map_err(|error| fields.complain_of_all(error.to_string())).ok();
    Some((limits?, start?))
}

/// Frames per second.
fn frame_rate(fields: &Fields<'_>, key: &'static str) -> Option<FrameRate> {
    let (node, hertz) = (fields.node(key)?, fields.number(key)?);
    let rate = FrameRate::from_hertz(hertz);
    rate.map_err(|error| fields.complain(node, key, format_args!("{error}"))).ok()
}

/// A size, or so many mean frames.
fn burst_size(fields: &Fields<'_>, key: &'static str) -> Option<BurstSize> {
    match fields.node(key)?.value {
        Value::Integer(_) | Value::Float(_) => fields.number(key).map(BurstSize::Frames),
        _ => fields.size(key).map(BurstSize::Fixed),
    }
}

fn key_frames(fields: &Fields<'_>, key: &'static str) -> Option<KeyFrames> {
    let Some(inner) = fields.table(key) else {
        let node = fields.node(key)?;
        let mend = "write, for example, { size = 6, repaid-in = 30, interval = 300 }";
        fields.complain(node, key, format_args!("{} is no table: {mend}", node.written()));
        return None;
    };
    let size = inner.required("size", burst_size);
    let repaid_in = given(&inner, "repaid-in", |fields, key| fields.count(key, 2));
    let interval = given(&inner, "interval", |fields, key| fields.count(key, 2));
    inner.finish();
    Some(KeyFrames { size: size?, repaid_in: repaid_in?.unwrap_or(REPAID_IN), interval: interval? })
}

/// Pairs of moments: from, to.
fn pauses(fields: &Fields<'_>) -> Option<Vec<(Timestamp, Timestamp)>> {
    const KEY: &str = "pauses";
    let Some(node) = fields.node(KEY) else { return Some(Vec::new()) };
    let mend = "write, for example, [[\"40 s\", \"60 s\"]]";
    if !matches!(node.value, Value::Array(_)) {
        fields.complain(node, KEY, format_args!("{} is no list: {mend}", node.written()));
        return None;
    }
    let moment = |node: &Node| fields.time_of(node, KEY).map(|time| Timestamp::ZERO + time);
    let pause = |pair: &Node| {
        if let [from, to] = pair.elements() {
            return moment(from).zip(moment(to));
        }
        fields.complain(pair, KEY, format_args!("a pause is from when until when: {mend}"));
        None
    };
    // All are read, so that all that is wrong is told.
    let pauses: Vec<_> = node.elements().iter().map(pause).collect();
    pauses.into_iter().collect()
}

#[cfg(test)]
mod tests;
