//! Media flows: streams, encoders and controller.

use giusto_congestion::{Algorithm, FeedbackKind, Limits, Options};
use giusto_session::{
    media::{DEFAULT_MAX_PAYLOAD, KeyFrameRequest, PLAYOUT_DEADLINE, ParityRatio, RateRange},
    video::VideoCodec,
};
use giusto_sim::{
    random::Random,
    traffic::encoder::{
        AudioConfig, Cbr, FrameRate, HybridEncoder, MediaSource, Noisy, PerfectConfig, PerfectEncoder,
        RecordedConfig, RecordedEncoder, SourceError, StatisticalConfig, StatisticalEncoder, SyntheticScene,
        TraceConfig, TraceEncoder, TraceLadder,
    },
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

/// Maximum number of videos in one flow.
pub const MOST_VIDEOS: usize = 16;

/// The id of the audio stream of a flow.
pub(crate) const AUDIO_ID: &str = "audio";

/// Headers of a media packet: IPv4 20 B (RFC 791 §3.1), UDP 8 B (RFC 768), RTP 12 B (RFC 3550 §5.1) and a
/// header extension of one element, padded, 8 B (RFC 8285 §4.2).
pub(crate) const MEDIA_HEADERS: DataSize = DataSize::from_bytes(48);

/// The default controller.
const DEFAULT_CONTROLLER: &str = "gcc:libwebrtc+giusto";

/// An adaptive media session: RTP forwards, RTCP back.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaSpec {
    /// Congestion control.
    pub controller: Algorithm,
    /// Limits of its target rate, headers included; default: what the media can use.
    pub limits: Limits,
    /// Feedback of the receiver; default: what the controller requires.
    pub feedback: Option<FeedbackKind>,
    /// Options of the controller: only those that it has.
    pub options: Options,
    /// Rate limit that the receiver requests, where the feedback can express it.
    pub receiver_limit: Option<DataRate>,
    /// Videos: at most [`MOST_VIDEOS`], with distinct ids.
    pub videos: Vec<VideoStream>,
    /// The codec of the videos: packets have its payload format, and frames of encoder models the structure of its frames.
    /// `None`: frames are zeros, without a payload header.
    pub codec: Option<VideoCodec>,
    /// Audio, if there is any.
    pub audio: Option<AudioConfig>,
    /// Maximum payload of a video packet.
    pub max_payload: DataSize,
    /// Intervals, from and to, in which all videos pause.
    pub pauses: Vec<(Timestamp, Timestamp)>,
    /// Times at which the controller is notified of a route change. The links do not change by this.
    pub route_changes: Vec<Timestamp>,
    /// ECN codepoint of the packets.
    pub ecn: Ecn,
    /// Repair of lost packets.
    pub repair: RepairSpec,
    /// Interval of the receiver's reports, of losses for example. Default 1 s.
    pub report_interval: TimeDelta,
}

giusto_units::defaults! {
    /// How lost packets of a media session are repaired. Repair packets are part of the target rate.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct RepairSpec {
        /// Whether the receiver requests lost packets (RFC 4585), and the sender sends them again (RFC 4588). Default `false`.
        pub nack: bool = false,
        /// Parity packets per media packet (RFC 8627). Default: none.
        pub parity: Option<ParityRatio> = None,
        /// Time from the capture of a frame, plus the minimum delay of the path, until it is too late to be played. No repair is
        /// sent that would come later. Default 400 ms.
        pub playout_deadline: TimeDelta = PLAYOUT_DEADLINE,
        /// The request for a key frame when a packet cannot be repaired in time. `None`: picture loss indication if packets are repaired
        /// or the videos have a [codec](MediaSpec::codec), otherwise none. Default `None`.
        pub key_frames: Option<KeyFrameRequest> = None,
    }
}

impl RepairSpec {
    /// Whether anything is repaired.
    pub const fn is_on(&self) -> bool {
        self.nack || self.parity.is_some()
    }

    /// The request for a key frame of videos with this codec.
    pub(crate) fn key_frame_request(&self, codec: Option<VideoCodec>) -> KeyFrameRequest {
        let default = if self.is_on() || codec.is_some() {
            KeyFrameRequest::PictureLoss
        } else {
            KeyFrameRequest::None
        };
        self.key_frames.unwrap_or(default)
    }
}

giusto_units::defaults! {
    /// One of the videos of a media session.
    #[derive(Debug, Clone, PartialEq)]
    pub struct VideoStream {
        /// Name.
        pub id: String = id.into(),
        /// Encoder.
        pub video: VideoSpec = video,
        /// Its share of the target rate relative to the other videos; above 0. Default 1.
        pub priority: f64 = 1.0,
        /// Frames are skipped while a packet has waited at the sender for longer than this.
        pub skip_after: GiveUp = GiveUp::AsController,
        /// Packets that have waited at the sender for longer than this are discarded.
        pub discard_after: GiveUp = GiveUp::AsController,
        /// Intervals, from and to, in which this video pauses, besides those of all videos.
        pub pauses: Vec<(Timestamp, Timestamp)> = Vec::new(),
    }
    /// A video of priority 1 without pauses.
    pub fn new(id: impl Into<String>, video: VideoSpec);
}

/// How long a packet may wait at the sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GiveUp {
    /// As the congestion control requires.
    #[default]
    AsController,
    /// Without limit.
    Never,
    /// This long.
    After(TimeDelta),
}

/// A model of a video encoder.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum VideoSpec {
    /// Packets of one size at one rate, without adaptation.
    Fixed {
        /// Payload rate.
        rate: DataRate,
        /// Payload of a packet.
        size: DataSize,
    },
    /// Exactly the target rate, after a lag; optionally with Laplacian noise of this scale in frame sizes.
    Perfect(PerfectConfig, Option<f64>),
    /// Frames of recorded sizes.
    Recorded(RecordedConfig),
    /// RFC 8593 §5.
    Statistical(StatisticalConfig),
    /// RFC 8593 §6, over a synthetic scene.
    Trace(TraceConfig),
    /// RFC 8593 §7, over a synthetic scene.
    Hybrid(StatisticalConfig, TraceConfig),
}

/// A setting of a flow that its controller does not support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsupported {
    /// Feedback of another kind.
    Feedback(FeedbackKind),
    /// A delay target: it has none.
    DelayTarget,
    /// A weight among flows: it shares without weights.
    Priority,
    /// Probes while the sender is application-limited.
    LimitedProbes,
    /// Laws of its authors: it has no others.
    AuthorsLaws,
    /// A receiver limit that its feedback cannot express.
    ReceiverLimit,
}

impl Unsupported {
    /// Its key in a flow.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Feedback(_) => "feedback",
            Self::DelayTarget => "delay-target",
            Self::Priority => "priority",
            Self::LimitedProbes => "probe-while-limited",
            Self::AuthorsLaws => "authors-laws",
            Self::ReceiverLimit => "receiver-limit",
        }
    }
}

impl Default for VideoSpec {
    /// The video of RFC 8867 §4.3: 150 kbit/s to 1.5 Mbit/s at 30 Hz, by the model of RFC 8593 §5.
    fn default() -> Self {
        Self::Statistical(StatisticalConfig::default())
    }
}

impl VideoSpec {
    /// The name of the model, as in a file.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Fixed { .. } => "fixed",
            Self::Perfect(..) => "perfect",
            Self::Recorded(_) => "recorded",
            Self::Statistical(_) => "statistical",
            Self::Trace(_) => "trace",
            Self::Hybrid(..) => "hybrid",
        }
    }

    /// The encoder, from `start` on.
    ///
    /// # Errors
    ///
    /// [`SourceError`] names what is out of range.
    pub(crate) fn source(
        &self,
        start: Timestamp,
        mut random: Random,
    ) -> Result<Box<dyn MediaSource>, SourceError> {
        Ok(match *self {
            Self::Fixed { rate, size } => Box::new(Cbr::new(rate, size, start)?),
            Self::Perfect(config, None) => Box::new(PerfectEncoder::new(config, start)?),
            Self::Perfect(config, Some(scale)) => {
                Box::new(Noisy::new(PerfectEncoder::new(config, start)?, scale, random)?)
            }
            Self::Recorded(ref config) => Box::new(RecordedEncoder::new(config.clone(), start)?),
            Self::Statistical(config) => Box::new(StatisticalEncoder::new(config, start, random)?),
            Self::Trace(config) => {
                let ladder = scene(config.limits, self.frame_rate(), &mut random)?;
                Box::new(TraceEncoder::new(config, ladder, start)?)
            }
            Self::Hybrid(config, trace) => {
                let ladder = scene(config.limits, self.frame_rate(), &mut random)?;
                Box::new(HybridEncoder::new(config, ladder, trace.skip_frames, start, random)?)
            }
        })
    }

    fn frame_rate(&self) -> FrameRate {
        match self {
            Self::Perfect(config, _) => config.frame_rate,
            Self::Recorded(config) => config.frame_rate,
            Self::Statistical(config) | Self::Hybrid(config, _) => config.frame_rate,
            Self::Fixed { .. } | Self::Trace(_) => FrameRate::HZ_30,
        }
    }

    /// Its maximum payload rate, and its frames per second at that rate.
    fn max_rate(&self) -> (DataRate, f64) {
        let limits = match *self {
            Self::Fixed { rate, size } => {
                return (rate, rate.as_bps() as f64 / (size.as_bits().max(1)) as f64);
            }
            Self::Perfect(config, _) => config.limits,
            Self::Recorded(ref config) => {
                let recorded = || RateRange::fixed(config.sizes.rate(config.frame_rate));
                config.adapts.map_or_else(recorded, |(limits, _)| limits)
            }
            Self::Statistical(config) | Self::Hybrid(config, _) => config.limits,
            Self::Trace(config) => config.limits,
        };
        (limits.max(), self.frame_rate().as_hertz())
    }
}

/// A synthetic scene at the lowest and the highest rate; rates between are interpolated, which is exact for such a scene.
fn scene(limits: RateRange, frame_rate: FrameRate, random: &mut Random) -> Result<TraceLadder, SourceError> {
    let mut rates = vec![limits.min(), limits.max()];
    rates.dedup();
    TraceLadder::synthetic(frame_rate, &rates, SyntheticScene::default(), random)
}

impl VideoStream {
    /// The same with another priority.
    #[must_use]
    pub fn with_priority(self, priority: f64) -> Self {
        Self { priority, ..self }
    }

    /// The default id of a video: `video` if it is the only one, or `video-2`.
    pub(crate) fn default_id(number: usize, all: usize) -> String {
        if all == 1 { "video".to_owned() } else { format!("video-{number}") }
    }
}

impl MediaSpec {
    /// At most one video, with the default controller. Its limit is what the media can use, its start rate at most 300 kbit/s.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto::scenario::{FlowKind, FlowSpec, MediaSpec, VideoSpec};
    ///
    /// let media = MediaSpec::new(Some(VideoSpec::default()), None);
    /// assert_eq!(media.limits.max, "1569120 bit/s".parse()?);
    /// let call = FlowSpec::new("call", FlowKind::Media(media), "here", "there");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(video: Option<VideoSpec>, audio: Option<AudioConfig>) -> Self {
        let alone = |video| VideoStream::new(VideoStream::default_id(1, 1), video);
        Self::with_videos(video.map(alone).into_iter().collect(), audio)
    }

    /// The same with any number of videos.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto::scenario::{MediaSpec, VideoSpec, VideoStream};
    ///
    /// let camera = VideoStream::new("camera", VideoSpec::default());
    /// let screen = VideoStream::new("screen", VideoSpec::default()).with_priority(2.0);
    /// let media = MediaSpec::with_videos(vec![camera, screen], None);
    /// assert_eq!(media.limits.max.as_bps(), 2 * 1_569_120);
    /// ```
    pub fn with_videos(videos: Vec<VideoStream>, audio: Option<AudioConfig>) -> Self {
        let media = Self {
            controller: Self::default_controller(),
            limits: Limits::default(),
            feedback: None,
            options: Options::default(),
            receiver_limit: None,
            videos,
            codec: None,
            audio,
            max_payload: DEFAULT_MAX_PAYLOAD,
            pauses: Vec::new(),
            route_changes: Vec::new(),
            ecn: Ecn::NotEct,
            repair: RepairSpec::default(),
            report_interval: TimeDelta::from_seconds(1),
        };
        let limits = media.limits_where_given([None; 3]);
        Self { limits, ..media }
    }

    /// The controller of a flow that names none: `gcc:libwebrtc+giusto`.
    ///
    /// # Panics
    ///
    /// Never: the name is in the table of controllers, which a test checks.
    pub fn default_controller() -> Algorithm {
        DEFAULT_CONTROLLER.parse().expect("the name is in the table of controllers")
    }

    /// The maximum rate that the media can use, headers included: all videos at their highest rate, and audio.
    pub fn usable(&self) -> DataRate {
        let headers = MEDIA_HEADERS.as_bits() as f64;
        let video = |stream: &VideoStream| {
            let (rate, frames) = stream.video.max_rate();
            let frame = rate.as_bps() as f64 / frames.max(f64::MIN_POSITIVE);
            let packets = (frame / self.max_payload.as_bits().max(1) as f64).ceil();
            rate.as_bps() as f64 + packets * frames * headers
        };
        let videos: f64 = self.videos.iter().map(video).sum();
        let audio = self.audio.map_or(0.0, |AudioConfig { rate, packet_time, .. }| {
            let seconds = packet_time.as_seconds();
            rate.as_bps() as f64 + if seconds > 0.0 { headers / seconds } else { 0.0 }
        });
        DataRate::from_bps((videos + audio).ceil() as u64)
    }

    /// Limits from the given minimum, start and maximum; defaults are moved to agree with the given ones.
    pub(crate) fn limits_where_given(&self, [min, start, max]: [Option<DataRate>; 3]) -> Limits {
        let default = Limits::default();
        let most = max.unwrap_or_else(|| self.usable().max(min.unwrap_or_default()));
        let least = min.unwrap_or_else(|| default.min.min(most));
        // Validation reports given limits that contradict each other.
        let start = start.unwrap_or_else(|| default.start.min(most).max(least));
        Limits::DEFAULT.with_min(least).with_start(start).with_max(most)
    }

    /// Feedback of the receiver: as given, else as the controller requires.
    pub(crate) fn reported(&self) -> FeedbackKind {
        self.feedback.unwrap_or(self.controller.requirements().feedback)
    }

    /// Settings that the controller or its feedback does not support.
    pub(crate) fn unsupported(&self) -> Vec<Unsupported> {
        let needs = self.controller.requirements();
        let feedback = self.feedback.filter(|&given| !needs.accepts(given)).map(Unsupported::Feedback);
        let Options { delay_target, priority, probe_while_limited, authors_laws, .. } = self.options;
        let has_target = delay_target.is_some() && !needs.delay_target;
        let has_priority = priority.is_some() && !needs.priority;
        let has_probes = probe_while_limited && !needs.limited_probes;
        let can_limit = self.reported() == FeedbackKind::ScreamDraft && needs.receiver_limit;
        let has_limit = self.receiver_limit.is_some() && !can_limit;
        let target = has_target.then_some(Unsupported::DelayTarget);
        let priority = has_priority.then_some(Unsupported::Priority);
        let laws = (authors_laws && !needs.authors_laws).then_some(Unsupported::AuthorsLaws);
        let probes = has_probes.then_some(Unsupported::LimitedProbes);
        let limit = has_limit.then_some(Unsupported::ReceiverLimit);
        [feedback, target, priority, probes, laws, limit].into_iter().flatten().collect()
    }

    /// Replaces the controller; removes and returns the settings that the new one does not support.
    pub(crate) fn set_controller(&mut self, controller: Algorithm) -> Vec<Unsupported> {
        self.controller = controller;
        let mut removed = Vec::new();
        // Removing the feedback may make another setting unsupported.
        while let Some(&setting) = self.unsupported().first() {
            match setting {
                Unsupported::Feedback(_) => self.feedback = None,
                Unsupported::DelayTarget => self.options.delay_target = None,
                Unsupported::Priority => self.options.priority = None,
                Unsupported::AuthorsLaws => self.options.authors_laws = false,
                Unsupported::LimitedProbes => self.options.probe_while_limited = false,
                Unsupported::ReceiverLimit => self.receiver_limit = None,
            }
            removed.push(setting);
        }
        removed
    }

    /// All intervals in which a video pauses, sorted and joined.
    pub(crate) fn pauses_of(&self, video: &VideoStream) -> Vec<(Timestamp, Timestamp)> {
        let mut all: Vec<(Timestamp, Timestamp)> = self.pauses.iter().chain(&video.pauses).copied().collect();
        all.sort_unstable();
        let mut joined: Vec<(Timestamp, Timestamp)> = Vec::new();
        for (from, to) in all {
            match joined.last_mut() {
                Some((_, end)) if from <= *end => *end = (*end).max(to),
                _ => joined.push((from, to)),
            }
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usable_rate_counts_every_header() {
        let rate = |text: &str| text.parse::<DataRate>().unwrap();
        // 6250 B a picture are six packets of 1200 B, 30 times a second.
        let video = MediaSpec::new(Some(VideoSpec::default()), None);
        assert_eq!(video.limits.max.as_bps(), 1_500_000 + 6 * 30 * 48 * 8);
        // 50 packets a second. The start gives way.
        let audio = MediaSpec::new(None, Some(AudioConfig::default()));
        assert_eq!(audio.limits.max.as_bps(), 20_000 + 50 * 48 * 8);
        assert_eq!(audio.limits.start, audio.limits.max);
        // 1000 packets a second of one piece each.
        let fixed = VideoSpec::Fixed { rate: rate("8 Mbit/s"), size: DataSize::from_bytes(1000) };
        let fixed = MediaSpec::new(Some(fixed), Some(AudioConfig::default()));
        assert_eq!(fixed.usable().as_bps(), 8_000_000 + 1000 * 48 * 8 + 39_200);
    }

    #[test]
    fn default_limits_move_to_agree_with_given_ones() {
        let video = MediaSpec::new(Some(VideoSpec::default()), None);
        let limits = |min: Option<u64>, start: Option<u64>, max: Option<u64>| {
            let limits = video.limits_where_given([min, start, max].map(|rate| rate.map(DataRate::from_bps)));
            [limits.min, limits.start, limits.max].map(DataRate::as_bps)
        };
        assert_eq!(limits(None, None, None), [30_000, 300_000, 1_569_120]);
        assert_eq!(limits(None, None, Some(20_000)), [20_000, 20_000, 20_000]);
        assert_eq!(limits(Some(500_000), None, None), [500_000, 500_000, 1_569_120]);
        assert_eq!(limits(Some(2_000_000), None, None), [2_000_000; 3]);
        assert_eq!(limits(None, Some(1_000_000), Some(500_000)), [30_000, 1_000_000, 500_000]);
    }

    #[test]
    fn own_pauses_join_those_of_all_videos() {
        let at = |seconds| Timestamp::ZERO + TimeDelta::from_seconds(seconds);
        let own = vec![(at(1), at(2)), (at(5), at(7)), (at(12), at(13)), (at(20), at(21))];
        let video = VideoStream { pauses: own, ..VideoStream::new("a", VideoSpec::default()) };
        let all = vec![(at(4), at(6)), (at(7), at(8)), (at(11), at(15))];
        let media = MediaSpec { pauses: all, ..MediaSpec::with_videos(vec![video.clone()], None) };
        let whole = [(1, 2), (4, 8), (11, 15), (20, 21)].map(|(from, to)| (at(from), at(to)));
        assert_eq!(media.pauses_of(&video), whole);
    }
}
