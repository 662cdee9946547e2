//! Keys of media flows: encoders, audio and controller.

use giusto_congestion::Algorithm;
use giusto_session::media::{DEFAULT_MAX_PAYLOAD, RateRange};
use giusto_sim::traffic::encoder::{
    AudioConfig, BurstSize, FrameRate, KeyFrames, Meanwhile, PerfectConfig, StatisticalConfig, TraceConfig,
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};
use serde::{Deserialize, Deserializer, de::Error};

use super::{
    ecn::EcnName,
    quantity::{Count, Q, Quantity, Scalar, count, pairs, quantity},
    value::{Both, OneOrMany, Shape},
};
use crate::scenario::{
    error::{KeyError, unknown},
    media::{FEEDBACKS, GiveUp, MediaSpec, VideoSpec, VideoStream},
};

/// The default number of frames after which a key frame is repaid: `K_d` of RFC 8593 §5, Figure 2.
const REPAID_IN: u32 = 8;

type Pauses = Option<Vec<(Q<Timestamp>, Q<Timestamp>)>>;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct MediaKeys {
    controller: Option<String>,
    feedback: Option<String>,
    max_payload: Option<Q<DataSize>>,
    min_rate: Option<Q<DataRate>>,
    start_rate: Option<Q<DataRate>>,
    max_rate: Option<Q<DataRate>>,
    audio: Option<Shape<Q<DataRate>, AudioKeys>>,
    video: Option<OneOrMany<Shape<Model, Both<StreamKeys, Model>>>>,
    pauses: Pauses,
    delay_target: Option<Q<TimeDelta>>,
    receiver_limit: Option<Q<DataRate>>,
    ecn: Option<EcnName>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct AudioKeys {
    rate: Option<Q<DataRate>>,
    packet_time: Option<Q<TimeDelta>>,
}

/// Keys of every video.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct StreamKeys {
    id: Option<String>,
    priority: Option<f64>,
    skip_after: Option<Q<GiveUp>>,
    discard_after: Option<Q<GiveUp>>,
    pauses: Pauses,
}

impl Quantity for GiveUp {
    const EXPECTED: &'static str = "a time with its unit, such as \"100 ms\", or \"never\"";

    fn read(text: &str) -> Result<Self, String> {
        if text == "never" { Ok(Self::Never) } else { TimeDelta::read(text).map(Self::After) }
    }
}

/// A model of an encoder and its parameters.
#[derive(Deserialize)]
#[serde(rename = "model=statistical", rename_all = "kebab-case")]
enum Model {
    Fixed(FixedKeys),
    #[serde(deserialize_with = "perfect")]
    Perfect(VideoSpec),
    #[serde(deserialize_with = "statistical")]
    Statistical(VideoSpec),
    #[serde(deserialize_with = "trace")]
    Trace(VideoSpec),
    #[serde(deserialize_with = "hybrid")]
    Hybrid(VideoSpec),
}

#[derive(Deserialize)]
struct FixedKeys {
    rate: Q<DataRate>,
    size: Option<Q<DataSize>>,
}

/// The rates that an encoder can produce.
#[derive(Deserialize)]
struct Range {
    min: Option<Q<DataRate>>,
    max: Option<Q<DataRate>>,
}

impl Range {
    fn read<E: Error>(&self) -> Result<RateRange, E> {
        let default = RateRange::default();
        let min = self.min.map_or(default.min(), |rate| rate.0);
        let max = self.max.map_or(default.max(), |rate| rate.0);
        RateRange::new(min, max).map_err(E::custom)
    }
}

#[derive(Deserialize)]
#[serde(remote = "PerfectConfig", default = "PerfectConfig::default", rename_all = "kebab-case")]
struct PerfectKeys {
    #[serde(skip)]
    limits: RateRange,
    #[serde(rename = "start", deserialize_with = "quantity")]
    start_rate: DataRate,
    #[serde(deserialize_with = "frame_rate")]
    frame_rate: FrameRate,
    #[serde(deserialize_with = "quantity")]
    lag: TimeDelta,
    #[serde(deserialize_with = "key_frames")]
    key_frames: Option<KeyFrames>,
}

#[derive(Deserialize)]
#[serde(remote = "StatisticalConfig", default = "StatisticalConfig::default", rename_all = "kebab-case")]
struct StatisticalKeys {
    #[serde(skip)]
    limits: RateRange,
    #[serde(rename = "start", deserialize_with = "quantity")]
    start_rate: DataRate,
    #[serde(deserialize_with = "frame_rate")]
    frame_rate: FrameRate,
    #[serde(deserialize_with = "quantity")]
    reaction_latency: TimeDelta,
    #[serde(with = "MeanwhileName")]
    meanwhile: Meanwhile,
    abrupt_change: f64,
    #[serde(deserialize_with = "count")]
    burst_frames: u32,
    #[serde(deserialize_with = "burst_size")]
    burst_size: BurstSize,
    interval_scale: f64,
    #[serde(skip)]
    size_scale: f64,
}

#[derive(Deserialize)]
#[serde(remote = "Meanwhile", rename_all = "lowercase")]
enum MeanwhileName {
    Remembered,
    Ignored,
}

#[derive(Deserialize)]
#[serde(remote = "TraceConfig", default = "TraceConfig::default", rename_all = "kebab-case")]
struct TraceKeys {
    #[serde(skip)]
    limits: RateRange,
    #[serde(rename = "start", deserialize_with = "quantity")]
    start_rate: DataRate,
    #[serde(deserialize_with = "frames")]
    skip_frames: usize,
}

#[derive(Deserialize)]
struct Perfect(#[serde(with = "PerfectKeys")] PerfectConfig);

#[derive(Deserialize)]
struct Statistical(#[serde(with = "StatisticalKeys")] StatisticalConfig);

#[derive(Deserialize)]
struct Trace(#[serde(with = "TraceKeys")] TraceConfig);

#[derive(Deserialize)]
struct Noise {
    noise: Option<f64>,
}

/// Of a hybrid encoder, sizes come from its trace.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SizeScale {
    size_scale: Option<f64>,
}

fn perfect<'de, D: Deserializer<'de>>(value: D) -> Result<VideoSpec, D::Error> {
    let Both(range, Both(Noise { noise }, Perfect(config))) = Both::<Range, _>::deserialize(value)?;
    Ok(VideoSpec::Perfect(PerfectConfig { limits: range.read()?, ..config }, noise))
}

fn statistical<'de, D: Deserializer<'de>>(value: D) -> Result<VideoSpec, D::Error> {
    let Both(range, Both(sizes, Statistical(config))) =
        Both::<Range, Both<SizeScale, _>>::deserialize(value)?;
    let size_scale = sizes.size_scale.unwrap_or(config.size_scale);
    Ok(VideoSpec::Statistical(StatisticalConfig { limits: range.read()?, size_scale, ..config }))
}

fn trace<'de, D: Deserializer<'de>>(value: D) -> Result<VideoSpec, D::Error> {
    let Both(range, Trace(config)) = Both::<Range, _>::deserialize(value)?;
    Ok(VideoSpec::Trace(TraceConfig { limits: range.read()?, ..config }))
}

fn hybrid<'de, D: Deserializer<'de>>(value: D) -> Result<VideoSpec, D::Error> {
    let Both(range, Both(Statistical(config), Trace(trace))) = Both::<Range, _>::deserialize(value)?;
    let limits = range.read()?;
    Ok(VideoSpec::Hybrid(StatisticalConfig { limits, ..config }, TraceConfig { limits, ..trace }))
}

fn frame_rate<'de, D: Deserializer<'de>>(value: D) -> Result<FrameRate, D::Error> {
    FrameRate::from_hertz(f64::deserialize(value)?).map_err(D::Error::custom)
}

fn frames<'de, D: Deserializer<'de>>(value: D) -> Result<usize, D::Error> {
    Count::<0>::deserialize(value).map(|frames| frames.0 as usize)
}

/// A size, or a number of mean frames.
fn burst_size<'de, D: Deserializer<'de>>(value: D) -> Result<BurstSize, D::Error> {
    match Scalar::deserialize(value)? {
        Scalar::Text(text) => DataSize::read(&text).map(BurstSize::Fixed).map_err(D::Error::custom),
        number => number.as_number().map(BurstSize::Frames).map_err(D::Error::custom),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct KeyFrameKeys {
    #[serde(deserialize_with = "burst_size")]
    size: BurstSize,
    repaid_in: Option<Count<2>>,
    interval: Option<Count<2>>,
}

fn key_frames<'de, D: Deserializer<'de>>(value: D) -> Result<Option<KeyFrames>, D::Error> {
    let KeyFrameKeys { size, repaid_in, interval } = Deserialize::deserialize(value)?;
    let repaid_in = repaid_in.map_or(REPAID_IN, |frames| frames.0);
    Ok(Some(KeyFrames { size, repaid_in, interval: interval.map(|frames| frames.0) }))
}

impl MediaKeys {
    pub(super) fn read(self) -> Result<MediaSpec, KeyError> {
        let given = |rate: Option<Q<DataRate>>| rate.map(|rate| rate.0);
        let audio = self.audio.map(|audio| {
            let default = AudioConfig::default();
            let (rate, packet_time) = match audio {
                Shape::Value(rate) => (Some(rate), None),
                Shape::Table(keys) => (keys.rate, keys.packet_time),
            };
            let packet_time = packet_time.map_or(default.packet_time, |time| time.0);
            AudioConfig { rate: given(rate).unwrap_or(default.rate), packet_time, ..default }
        });
        let max_payload = self.max_payload.map_or(DEFAULT_MAX_PAYLOAD, |size| size.0);
        let mut media = match self.video.map(OneOrMany::into_vec) {
            Some(videos) if videos.is_empty() => {
                return Err(("video", "video: the list is empty: add a video, or remove the key".to_owned()));
            }
            Some(videos) => {
                let all = videos.len();
                let video = |(keys, number)| stream(keys, VideoStream::default_id(number, all), max_payload);
                MediaSpec::with_videos(videos.into_iter().zip(1..).map(video).collect(), audio)
            }
            // The default is the video of RFC 8867 §4.3.
            None => MediaSpec::new(audio.is_none().then(VideoSpec::default), audio),
        };
        if let Some(name) = self.controller {
            let kind = Algorithm::all().find(|kind| kind.name() == name);
            let known = Algorithm::all().map(Algorithm::name).collect::<Vec<_>>();
            let wrong = || ("controller", format!("controller: {}", unknown("name", &name, &known)));
            media.controller = kind.ok_or_else(wrong)?;
        }
        if let Some(name) = self.feedback {
            let kind = FEEDBACKS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
            let known: Vec<&str> = FEEDBACKS.iter().map(|(known, _)| *known).collect();
            let wrong = || ("feedback", format!("feedback: {}", unknown("name", &name, &known)));
            media.feedback = Some(kind.ok_or_else(wrong)?);
        }
        media.max_payload = max_payload;
        media.limits =
            media.limits_where_given([given(self.min_rate), given(self.start_rate), given(self.max_rate)]);
        media.pauses = pairs(self.pauses.unwrap_or_default());
        media.delay_target = self.delay_target.map(|time| time.0);
        media.receiver_limit = given(self.receiver_limit);
        media.ecn = self.ecn.map_or(Ecn::NotEct, Ecn::from);
        Ok(media)
    }
}

fn stream(keys: Shape<Model, Both<StreamKeys, Model>>, id: String, max_payload: DataSize) -> VideoStream {
    let video = |model| match model {
        Model::Fixed(FixedKeys { rate, size }) => {
            VideoSpec::Fixed { rate: rate.0, size: size.map_or(max_payload, |size| size.0) }
        }
        Model::Perfect(video) | Model::Statistical(video) | Model::Trace(video) | Model::Hybrid(video) => {
            video
        }
    };
    match keys {
        Shape::Value(model) => VideoStream::new(id, video(model)),
        Shape::Table(Both(keys, model)) => VideoStream {
            priority: keys.priority.unwrap_or(1.0),
            skip_after: keys.skip_after.map_or(GiveUp::AsController, |wait| wait.0),
            discard_after: keys.discard_after.map_or(GiveUp::AsController, |wait| wait.0),
            pauses: pairs(keys.pauses.unwrap_or_default()),
            ..VideoStream::new(keys.id.unwrap_or(id), video(model))
        },
    }
}

#[cfg(test)]
mod tests;
